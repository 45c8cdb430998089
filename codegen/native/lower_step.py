"""The steps of any op of a planned graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from adjit.codegen.native.control_flow import lower_control_flow
from adjit.codegen.native.copies import lower_copy
from adjit.codegen.native.fused import lower_fused
from adjit.codegen.native.lower_op import lower_op
from adjit.codegen.native.panels import lower_panels
from adjit.codegen.native.products import lower_matmul
from adjit.codegen.native.program_code import LowerGraph
from adjit.codegen.native.step_code import StepCode
from adjit.codegen.target import Target
from adjit.ir.graph import Op
from adjit.ir.ops.control_flow import CONTROL_FLOW

RegionLowering = Callable[[Op, Mapping[int, int], Target, LowerGraph], tuple[StepCode, ...]]

REGIONS: dict[str, RegionLowering] = {**dict.fromkeys(CONTROL_FLOW, lower_control_flow), "panels": lower_panels}
"""Ops that own graphs which were planned like programs, by name."""


def lower_step(op: Op, shared: Mapping[int, int], target: Target, lower_graph: LowerGraph) -> tuple[StepCode, ...]:
    """What the op is lowered to: steps that run one after the other; none where there is nothing to do.

    `shared` has, for the number of each result that lies in the place of an operand, that operand's number. `lower_graph` lowers graphs
    that the op owns. Raises `UnsupportedError` for an op without machine code.
    """
    if op.name == "reshape":
        return (lower_copy(op.result.type.nbytes),)
    if op.name == "fused":
        return lower_fused(op, shared, target)
    if op.name == "matmul":
        product = lower_matmul(op, target)
        if product is not None:
            return product
    lowering = REGIONS.get(op.name)
    if lowering is not None:
        return lowering(op, shared, target, lower_graph)
    return lower_op(op, shared, target)
