"""Launches of the ops of a planned graph, by kind and name of the op."""

from __future__ import annotations

from adjit.codegen.cuda.arrays.eigenvalues import lower_eig
from adjit.codegen.cuda.arrays.factors import lower_cholesky, lower_lu, lower_lu_inverse, lower_lu_solve, lower_triangular_solve
from adjit.codegen.cuda.arrays.fourier import lower_fourier
from adjit.codegen.cuda.arrays.indexing import lower_check, lower_scatter, lower_take
from adjit.codegen.cuda.arrays.lines import lower_argmax, lower_cumulative
from adjit.codegen.cuda.arrays.movement import lower_copy, lower_movement, lower_table
from adjit.codegen.cuda.arrays.orthogonal import lower_column_order, lower_eigh, lower_qr, lower_qr_raw, lower_svd
from adjit.codegen.cuda.arrays.reductions import lower_reduction
from adjit.codegen.cuda.arrays.sorting import lower_sort
from adjit.codegen.cuda.arrays.sylvester import lower_sylvester
from adjit.codegen.cuda.arrays.systems import lower_banded_solve
from adjit.codegen.cuda.arrays.windows import lower_convolution, lower_kernel_gradient, lower_windows
from adjit.codegen.cuda.fused import lower_alone, lower_fused
from adjit.codegen.cuda.kernel import Launch
from adjit.codegen.cuda.matmul import lower_matmul, lower_matmul_epilogue
from adjit.codegen.cuda.writer import Memory
from adjit.ir.definition import Kind
from adjit.ir.errors import UnsupportedError
from adjit.ir.graph import Op
from adjit.ir.ops.collectives import NAMES as COLLECTIVES

_BY_NAME = {"fused": lower_fused, "matmul": lower_matmul, "matmul_epilogue": lower_matmul_epilogue, "constant": lower_movement,
            "convolution": lower_convolution, "convolution_kernel_gradient": lower_kernel_gradient,
            "iota": lower_alone, "table": lower_table, "cholesky": lower_cholesky, "lu": lower_lu, "lu_inverse": lower_lu_inverse,
            "lu_solve": lower_lu_solve, "triangular_solve": lower_triangular_solve,
            "eig": lower_eig, "eigvals": lower_eig, "banded_solve": lower_banded_solve, "sylvester": lower_sylvester,
            "qr": lower_qr, "qr_raw": lower_qr_raw, "column_order": lower_column_order,
            **dict.fromkeys(("svd", "svdvals"), lower_svd), **dict.fromkeys(("eigh", "eigvalsh"), lower_eigh),
            **dict.fromkeys(("fft", "rfft", "irfft"), lower_fourier),
            **dict.fromkeys(("take", "take_along_axis"), lower_take),
            **dict.fromkeys(("scatter_add", "scatter_add_along_axis", "scatter_set"), lower_scatter),
            **dict.fromkeys(("cumsum", "cumprod", "cummax", "cummin"), lower_cumulative),
            **dict.fromkeys(("argmax", "argmin"), lower_argmax),
            **dict.fromkeys(("argpartition", "argsort", "partition", "sort"), lower_sort)}
_BY_KIND = {Kind.ELEMENTWISE: lower_alone, Kind.MOVEMENT: lower_movement, Kind.REDUCTION: lower_reduction,
            Kind.WINDOW: lower_windows}


def lower_op(op: Op, memory: Memory) -> list[Launch]:
    """The launches of an op, in order; none if there is nothing to do. Raises `UnsupportedError` for an op without code for devices."""
    if op.definition.alias:
        return lower_copy(op, memory)
    if op.name == "effects_end":
        return []
    lowering = _BY_NAME.get(op.name) or _BY_KIND.get(op.definition.kind)
    if lowering is None:
        raise UnsupportedError(f"{_what(op)} cannot be computed on the device 'cuda' yet", op.loc,
                               hint="copy its operands with aj.device_get and compute it in a function for the CPU, or omit device=")
    return [*(lower_check(op) if op.definition.kind is Kind.INDEXING else []), *lowering(op, memory)]


_WORDS = dict.fromkeys(COLLECTIVES, "communication of ranks")
"""What users call ops that have no code for devices."""


def _what(op: Op) -> str:
    if op.name == "external":
        return f"scipy.special.{op.attrs['function']}"
    words = _WORDS.get(op.name)
    return f"{words} ({op.name})" if words else op.name
