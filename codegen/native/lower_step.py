"""The steps of any op of a planned graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from adjit.codegen.native.arrays.copies import lower_copy
from adjit.codegen.native.lower_op import lower_op
from adjit.codegen.native.program_code import LowerGraph, Pitches
from adjit.codegen.native.step_code import StepCode
from adjit.codegen.target import Target
from adjit.ir.definition import RegionUse
from adjit.ir.graph import Op
from adjit.ir.lazy_module import LazyModule
from adjit.ir.ops.traits import CONTROL_FLOW

if TYPE_CHECKING:
    from adjit.codegen.native import control_flow, finished_products, panels, products
    from adjit.codegen.native.kernels import fused
else:
    control_flow = LazyModule("adjit.codegen.native.control_flow")
    finished_products = LazyModule("adjit.codegen.native.finished_products")
    fused = LazyModule("adjit.codegen.native.kernels.fused")
    panels = LazyModule("adjit.codegen.native.panels")
    products = LazyModule("adjit.codegen.native.products")


def lower_step(op: Op, shared: Mapping[int, int], target: Target, lower_graph: LowerGraph, pitches: Pitches) -> tuple[StepCode, ...]:
    """What the op is lowered to: steps that run one after the other; none where there is nothing to do.

    `shared` has, for the number of each result that lies in the place of an operand, that operand's number. `lower_graph` lowers graphs
    that the op owns. `pitches` has the operands of a product that are some columns of a matrix. Raises `UnsupportedError` for an op without
    machine code.
    """
    if op.definition.alias:
        return (lower_copy(op.result.type.nbytes),)
    if op.name == "fused":
        return fused.lower_fused(op, shared, target)
    if op.name == "matmul":
        product = products.lower_matmul(op, target, pitches)
        if product is not None:
            return product
    if op.name == "matmul_epilogue":
        return finished_products.lower_finished_product(op, target, pitches)
    if op.name in CONTROL_FLOW:
        return control_flow.lower_control_flow(op, shared, target, lower_graph)
    if op.definition.region_use is RegionUse.TILING:
        return panels.lower_panels(op, shared, target, lower_graph)
    return lower_op(op, shared, target)
