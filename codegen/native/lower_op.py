"""The steps of ops that stand outside of kernels: movement, indexing, reductions, scans, sorting, and products of whole numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from adjit.codegen.native.convolution import lower_convolution
from adjit.codegen.native.convolution_gradient import lower_kernel_gradient
from adjit.codegen.native.creation import lower_iota
from adjit.codegen.native.extremum_places import lower_extremum_place
from adjit.codegen.native.indexing import lower_scatter, lower_scatter_along_axis, lower_take, lower_take_along_axis
from adjit.codegen.native.movement import MOVES, lower_movement
from adjit.codegen.native.one_op_kernels import lower_elementwise
from adjit.codegen.native.plain_products import lower_plain_matmul
from adjit.codegen.native.reductions import lower_reduction
from adjit.codegen.native.scans import lower_cumulative
from adjit.codegen.native.sorting import lower_argsort
from adjit.codegen.native.step_code import StepCode
from adjit.codegen.native.windows import lower_windows
from adjit.codegen.target import Target
from adjit.ir.definition import Kind
from adjit.ir.errors import UnsupportedError
from adjit.ir.graph import Op

Lowering = Callable[[Op, Mapping[int, int], Target], tuple[StepCode, ...]]

LOWERINGS: dict[str, Lowering] = {
    **dict.fromkeys(MOVES, lower_movement),
    "convolution": lower_convolution,
    "convolution_kernel_gradient": lower_kernel_gradient,
    **dict.fromkeys(("window_sum", "window_max", "window_max_scatter", "window_max_share", "window_max_take"), lower_windows),
    "iota": lower_iota,
    "take": lower_take,
    "take_along_axis": lower_take_along_axis,
    "scatter_add": lower_scatter,
    "scatter_set": lower_scatter,
    "scatter_add_along_axis": lower_scatter_along_axis,
    **dict.fromkeys(("reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "reduce_and", "reduce_or"), lower_reduction),
    "cumsum": lower_cumulative,
    "cumprod": lower_cumulative,
    "argmax": lower_extremum_place,
    "argmin": lower_extremum_place,
    "argsort": lower_argsort,
    "matmul": lower_plain_matmul,
}
"""By the name of the op; all elementwise ops are lowered alike."""


def lower_op(op: Op, shared: Mapping[int, int], target: Target) -> tuple[StepCode, ...]:
    """What the op is lowered to: steps that run one after the other; none where there is nothing to do.

    `shared` has, for the number of each result that lies in the place of an operand, that operand's number. Raises `UnsupportedError` for
    an op without machine code.
    """
    lowering = lower_elementwise if op.definition.kind is Kind.ELEMENTWISE else LOWERINGS.get(op.name)
    if lowering is None:
        raise UnsupportedError(f"{op.name}: there is no native code for it", op.loc, hint="use backend='numba'")
    return lowering(op, shared, target)
