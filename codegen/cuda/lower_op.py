"""Launches of the ops of a planned graph, by kind and name of the op."""

from __future__ import annotations

from adjit.codegen.cuda.arrays.indexing import lower_check, lower_scatter, lower_take
from adjit.codegen.cuda.arrays.lines import lower_argmax, lower_cumulative
from adjit.codegen.cuda.arrays.movement import lower_copy, lower_movement, lower_table
from adjit.codegen.cuda.arrays.reductions import lower_reduction
from adjit.codegen.cuda.arrays.sorting import lower_sort
from adjit.codegen.cuda.fused import lower_alone, lower_fused
from adjit.codegen.cuda.kernel import Launch
from adjit.codegen.cuda.products import lower_matmul, lower_matmul_epilogue
from adjit.codegen.cuda.writer import Memory
from adjit.ir.definition import Kind
from adjit.ir.errors import UnsupportedError
from adjit.ir.graph import Op

_BY_NAME = {"fused": lower_fused, "matmul": lower_matmul, "matmul_epilogue": lower_matmul_epilogue, "constant": lower_movement,
            "iota": lower_alone, "table": lower_table,
            **dict.fromkeys(("take", "take_along_axis"), lower_take),
            **dict.fromkeys(("scatter_add", "scatter_add_along_axis", "scatter_set"), lower_scatter),
            **dict.fromkeys(("cumsum", "cumprod", "cummax", "cummin"), lower_cumulative),
            **dict.fromkeys(("argmax", "argmin"), lower_argmax), **dict.fromkeys(("argsort", "sort"), lower_sort)}
_BY_KIND = {Kind.ELEMENTWISE: lower_alone, Kind.MOVEMENT: lower_movement, Kind.REDUCTION: lower_reduction}


def lower_op(op: Op, memory: Memory) -> list[Launch]:
    """The launches of an op, in order; none if there is nothing to do. Raises `UnsupportedError` for an op without code for devices."""
    if op.definition.alias:
        return lower_copy(op, memory)
    lowering = _BY_NAME.get(op.name) or _BY_KIND.get(op.definition.kind)
    if op.definition.is_check:
        raise UnsupportedError("a decision on a value, which is computed on the device 'cuda': the program cannot wait for it yet", op.loc,
                               hint="decide with np.where, or omit device= to compile for the CPU")
    if lowering is None:
        name = f"scipy.special.{op.attrs['function']}" if op.name == "external" else op.name
        raise UnsupportedError(f"{name} has no code for the device 'cuda' yet", op.loc, hint="omit device= to compile for the CPU")
    return [*(lower_check(op) if op.definition.kind is Kind.INDEXING else []), *lowering(op, memory)]
