"""An elementwise op that stands alone, as a kernel of one op."""

from __future__ import annotations

from collections.abc import Mapping

from adjit.codegen.llvm.target import Target
from adjit.codegen.native.kernels.fused import lower_fused
from adjit.codegen.native.step_code import StepCode
from adjit.ir.graph import Graph, Op, Value
from adjit.ir.ops.region import fused


def lower_elementwise(op: Op, shared: Mapping[int, int], target: Target) -> tuple[StepCode, ...]:
    """The steps of an elementwise op; none where there are no elements."""
    if not op.result.type.size:
        return ()
    params = tuple(Value(value.type) for value in op.operands)
    result = Value(op.result.type)
    region = Graph(op.name, params, (Op(op.definition, params, (result,), op.attrs),), (result,))
    attrs = {"rows": op.result.type.size, "columns": 1, "in_place": (), "scratch_bytes": 0}
    return lower_fused(Op(fused, op.operands, op.results, attrs, (region,), op.loc, op.role), shared, target)
