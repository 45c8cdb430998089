"""Lowering of the ops of a planned graph to steps, by kind and name of the op.

A program has few kinds of ops: the module that lowers one is imported when an op asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, cast

from adjit.codegen.llvm.target import Target
from adjit.codegen.native.arrays.creation import lower_copy
from adjit.codegen.native.program_code import LeadingDims, LowerGraph, StepCode
from adjit.ir.definition import Kind, RegionUse
from adjit.ir.errors import UnsupportedError
from adjit.ir.graph import Op
from adjit.ir.lazy_module import LazyModule
from adjit.ir.ops.traits import CONTROL_FLOW

if TYPE_CHECKING:
    from adjit.codegen.native import control_flow, matmul, tiled
    from adjit.codegen.native.arrays import indexing
    from adjit.codegen.native.kernels import fused
else:
    control_flow = LazyModule("adjit.codegen.native.control_flow")
    indexing = LazyModule("adjit.codegen.native.arrays.indexing")
    fused = LazyModule("adjit.codegen.native.kernels.fused")
    tiled = LazyModule("adjit.codegen.native.tiled")
    matmul = LazyModule("adjit.codegen.native.matmul")

Lowering = Callable[[Op, Mapping[int, int], Target], tuple[StepCode, ...]]

OF_KIND: dict[Kind, str] = {
    Kind.ELEMENTWISE: "kernels.fused.lower_elementwise",
    Kind.EXTERNAL: "external.lower_external",
    Kind.MOVEMENT: "arrays.movement.lower_movement",
    Kind.REDUCTION: "arrays.reductions.lower_reduction",
    Kind.WINDOW: "conv.pooling.lower_windows",
}
"""Module and function, by the kind of the op."""

LOWERINGS: dict[str, str] = {
    **dict.fromkeys(("all_gather", "all_reduce", "all_to_all", "broadcast_rank"), "collectives.lower_collective"),
    "callback": "callback.lower_callback",
    "constant": "arrays.movement.lower_movement",
    "convolution": "conv.convolution.lower_convolution",
    "convolution_kernel_gradient": "conv.convolution_gradient.lower_kernel_gradient",
    "effects_end": "callback.lower_end",
    "guard": "arrays.guards.lower_guard",
    "iota": "arrays.creation.lower_iota",
    "table": "arrays.creation.lower_table",
    "take": "arrays.indexing.lower_take",
    "take_along_axis": "arrays.indexing.lower_take_along_axis",
    **dict.fromkeys(("scatter_add", "scatter_set"), "arrays.indexing.lower_scatter"),
    "scatter_add_along_axis": "arrays.indexing.lower_scatter_along_axis",
    **dict.fromkeys(("cummax", "cummin", "cumprod", "cumsum"), "arrays.scans.lower_cumulative"),
    **dict.fromkeys(("argmax", "argmin"), "arrays.argmax.lower_argmax"),
    **dict.fromkeys(("argsort", "sort"), "arrays.sorting.lower_sort"),
    **dict.fromkeys(("argpartition", "partition"), "arrays.sorting.lower_partition"),
    **dict.fromkeys(("fft", "rfft", "irfft"), "arrays.fourier.lower_fourier"),
    "matmul": "arrays.naive_matmul.lower_naive_matmul", "complex_matmul": "matmul.lower_complex_matmul",
    **{name: f"linalg.factors.lower_{name}" for name in ("cholesky", "lu", "inverse", "lu_inverse", "lu_solve", "triangular_solve")},
    **{name: f"linalg.decompositions.lower_{name}" for name in ("column_order", "eigh", "qr", "qr_raw", "svd", "svdvals")},
    **{name: f"linalg.systems.lower_{name}" for name in ("banded_solve", "sylvester")},
    "eig": "linalg.eigenvalues.lower_eig", "eigvals": "linalg.eigenvalues.lower_eig",
    "eigvalsh": "linalg.decompositions.lower_eigh",
}
"""Module and function, by the name of the op, for ops of the other kinds."""


def lower_step(op: Op, shared: Mapping[int, int], target: Target, lower_graph: LowerGraph,
               leading_dims: LeadingDims, check_first: bool = False) -> tuple[StepCode, ...]:
    """Steps that the op is lowered to, in order; none if there is nothing to do.

    `shared` maps the number of each result that lies in the slot of an operand to that operand's number. `lower_graph` lowers the op's
    regions. `leading_dims` has the leading dimensions of product operands that are a column range of a matrix. With `check_first`,
    nothing is written before the last check of the op. Raises `UnsupportedError` for an op without machine code.
    """
    if op.name == "fused":
        return fused.lower_fused(op, shared, target)
    if op.name == "matmul":
        product = matmul.lower_matmul(op, target, leading_dims)
        if product is not None:
            return product
    if op.name == "take":
        return indexing.lower_take(op, shared, target, check_first)
    if op.name == "matmul_epilogue":
        return matmul.lower_matmul_epilogue(op, target, leading_dims)
    if op.name in CONTROL_FLOW:
        return control_flow.lower_control_flow(op, shared, target, lower_graph)
    if op.definition.region_use is RegionUse.TILING:
        return tiled.lower_tiled(op, shared, target, lower_graph)
    return lower_op(op, shared, target)


def lower_op(op: Op, shared: Mapping[int, int], target: Target) -> tuple[StepCode, ...]:
    """Steps of an op that owns no region and is no product of floats: movement, indexing, reductions, scans, sorting, convolutions.

    Parameters and errors are those of `lower_step`.
    """
    if op.definition.alias:
        return (lower_copy(op.result.type.nbytes),)
    path = OF_KIND.get(op.definition.kind) or LOWERINGS.get(op.name)
    if path is None:
        raise UnsupportedError(f"{op.name} has no native code", op.loc, hint="use backend='numba'")
    return _lowering(path)(op, shared, target)


def _lowering(path: str) -> Lowering:
    module, _, function = path.rpartition(".")
    return cast(Lowering, getattr(import_module(f"adjit.codegen.native.{module}"), function))
