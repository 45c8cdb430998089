"""The steps of any op of a planned graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from adjit.codegen.llvm.target import Target
from adjit.codegen.native.arrays.copies import lower_copy
from adjit.codegen.native.lower_op import lower_op
from adjit.codegen.native.program_code import LeadingDims, LowerGraph
from adjit.codegen.native.step_code import StepCode
from adjit.ir.definition import RegionUse
from adjit.ir.graph import Op
from adjit.ir.lazy_module import LazyModule
from adjit.ir.ops.traits import CONTROL_FLOW

if TYPE_CHECKING:
    from adjit.codegen.native import control_flow, matmul, matmul_epilogue, tiled
    from adjit.codegen.native.kernels import fused
else:
    control_flow = LazyModule("adjit.codegen.native.control_flow")
    matmul_epilogue = LazyModule("adjit.codegen.native.matmul_epilogue")
    fused = LazyModule("adjit.codegen.native.kernels.fused")
    tiled = LazyModule("adjit.codegen.native.tiled")
    matmul = LazyModule("adjit.codegen.native.matmul")


def lower_step(op: Op, shared: Mapping[int, int], target: Target, lower_graph: LowerGraph,
               leading_dims: LeadingDims) -> tuple[StepCode, ...]:
    """Steps that the op is lowered to, in order; none if there is nothing to do.

    `shared` has, for the number of each result that lies in the place of an operand, that operand's number. `lower_graph` lowers graphs
    that the op owns. `leading_dims` has the operands of a product that are some columns of a matrix. Raises `UnsupportedError` for an op
    without machine code.
    """
    if op.definition.alias:
        return (lower_copy(op.result.type.nbytes),)
    if op.name == "fused":
        return fused.lower_fused(op, shared, target)
    if op.name == "matmul":
        product = matmul.lower_matmul(op, target, leading_dims)
        if product is not None:
            return product
    if op.name == "matmul_epilogue":
        return matmul_epilogue.lower_matmul_epilogue(op, target, leading_dims)
    if op.name in CONTROL_FLOW:
        return control_flow.lower_control_flow(op, shared, target, lower_graph)
    if op.definition.region_use is RegionUse.TILING:
        return tiled.lower_tiled(op, shared, target, lower_graph)
    return lower_op(op, shared, target)
