"""The steps of ops that stand outside of kernels: movement, indexing, reductions, scans, sorting, and products of whole numbers.

A program has few of these kinds: what lowers one is imported when an op asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import cast

from adjit.codegen.native.step_code import StepCode
from adjit.codegen.target import Target
from adjit.ir.definition import Kind
from adjit.ir.errors import UnsupportedError
from adjit.ir.graph import Op

Lowering = Callable[[Op, Mapping[int, int], Target], tuple[StepCode, ...]]

LOWERINGS: dict[str, str] = {
    **dict.fromkeys(("reshape", "transpose", "broadcast", "slice", "flip", "pad", "concatenate", "constant", "update_slice"),
                    "arrays.movement.lower_movement"),
    "convolution": "windows.convolution.lower_convolution",
    "convolution_kernel_gradient": "windows.convolution_gradient.lower_kernel_gradient",
    **dict.fromkeys(("window_sum", "window_max", "window_max_scatter", "window_max_share", "window_max_take"),
                    "windows.pooling.lower_windows"),
    "iota": "arrays.creation.lower_iota",
    "take": "arrays.indexing.lower_take",
    "take_along_axis": "arrays.indexing.lower_take_along_axis",
    **dict.fromkeys(("scatter_add", "scatter_set"), "arrays.indexing.lower_scatter"),
    "scatter_add_along_axis": "arrays.indexing.lower_scatter_along_axis",
    **dict.fromkeys(("reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "reduce_and", "reduce_or"),
                    "arrays.reductions.lower_reduction"),
    **dict.fromkeys(("cumsum", "cumprod"), "arrays.scans.lower_cumulative"),
    **dict.fromkeys(("argmax", "argmin"), "arrays.extremum_places.lower_extremum_place"),
    "argsort": "arrays.sorting.lower_argsort",
    "matmul": "arrays.plain_products.lower_plain_matmul",
}
"""Module and function by the name of the op; all elementwise ops are lowered alike."""


def lower_op(op: Op, shared: Mapping[int, int], target: Target) -> tuple[StepCode, ...]:
    """What the op is lowered to: steps that run one after the other; none where there is nothing to do.

    `shared` has, for the number of each result that lies in the place of an operand, that operand's number. Raises `UnsupportedError` for
    an op without machine code.
    """
    place = "kernels.one_op.lower_elementwise" if op.definition.kind is Kind.ELEMENTWISE else LOWERINGS.get(op.name)
    if place is None:
        raise UnsupportedError(f"{op.name}: there is no native code for it", op.loc, hint="use backend='numba'")
    return _lowering(place)(op, shared, target)


def _lowering(place: str) -> Lowering:
    module, _, function = place.rpartition(".")
    return cast(Lowering, getattr(import_module(f"adjit.codegen.native.{module}"), function))
