"""The steps of ops that stand outside of kernels: movement, indexing, reductions, scans, sorting, and products of whole numbers.

A program has few of these kinds: what lowers one is imported when an op asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import cast

from adjit.codegen.llvm.target import Target
from adjit.codegen.native.step_code import StepCode
from adjit.ir.definition import Kind
from adjit.ir.errors import UnsupportedError
from adjit.ir.graph import Op

Lowering = Callable[[Op, Mapping[int, int], Target], tuple[StepCode, ...]]

OF_KIND: dict[Kind, str] = {
    Kind.ELEMENTWISE: "kernels.one_op.lower_elementwise",
    Kind.MOVEMENT: "arrays.movement.lower_movement",
    Kind.REDUCTION: "arrays.reductions.lower_reduction",
    Kind.WINDOW: "conv.pooling.lower_windows",
}
"""Module and function by the kind of the op."""

LOWERINGS: dict[str, str] = {
    "constant": "arrays.movement.lower_movement",
    "convolution": "conv.convolution.lower_convolution",
    "convolution_kernel_gradient": "conv.convolution_gradient.lower_kernel_gradient",
    "iota": "arrays.creation.lower_iota",
    "take": "arrays.indexing.lower_take",
    "take_along_axis": "arrays.indexing.lower_take_along_axis",
    **dict.fromkeys(("scatter_add", "scatter_set"), "arrays.indexing.lower_scatter"),
    "scatter_add_along_axis": "arrays.indexing.lower_scatter_along_axis",
    **dict.fromkeys(("cumsum", "cumprod"), "arrays.scans.lower_cumulative"),
    **dict.fromkeys(("argmax", "argmin"), "arrays.argmax.lower_argmax"),
    "argsort": "arrays.sorting.lower_argsort",
    "matmul": "arrays.naive_matmul.lower_naive_matmul",
}
"""Module and function by the name of the op, for ops of other kinds."""


def lower_op(op: Op, shared: Mapping[int, int], target: Target) -> tuple[StepCode, ...]:
    """Steps that the op is lowered to, in order; none if there is nothing to do.

    `shared` has, for the number of each result that lies in the place of an operand, that operand's number. Raises `UnsupportedError` for
    an op without machine code.
    """
    path = OF_KIND.get(op.definition.kind) or LOWERINGS.get(op.name)
    if path is None:
        raise UnsupportedError(f"{op.name}: there is no native code for it", op.loc, hint="use backend='numba'")
    return _lowering(path)(op, shared, target)


def _lowering(path: str) -> Lowering:
    module, _, function = path.rpartition(".")
    return cast(Lowering, getattr(import_module(f"adjit.codegen.native.{module}"), function))
