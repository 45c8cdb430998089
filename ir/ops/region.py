"""Ops of transforms and of planned graphs: `vjp`, `custom_call`, `checkpoint`, `fused` kernels, products with epilogues, `free`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from adjit.ir.batching import (
    batch_call,
    batch_region,
    batched_operands,
    batched_results,
    emit_again,
    spread,
    with_summed_results,
)
from adjit.ir.definition import Kind, OpDefinition, RegionUse, define
from adjit.ir.errors import ShapeError, TraceError
from adjit.ir.graph import Graph, Op, Value
from adjit.ir.interpreter import interpret
from adjit.ir.ops.sampling import no_samples
from adjit.ir.types import TensorType


def _check_call(region: Graph, types: Sequence[TensorType], what: str) -> None:
    expected = [value.type for value in region.params]
    if list(types) != expected:
        raise ShapeError(f"{what} takes {', '.join(map(str, expected))}, got {', '.join(map(str, types))}")


def _infer_call(*types: TensorType, regions: Sequence[Graph], **attrs: Any) -> tuple[TensorType, ...]:
    _check_call(regions[0], types, f"@{regions[0].name}")
    return tuple(value.type for value in regions[0].results)


def _evaluate_call(*arrays: np.ndarray, regions: Sequence[Graph], **attrs: Any) -> tuple[np.ndarray, ...]:
    return interpret(regions[0], arrays)


def _infer_vjp(*types: TensorType, regions: Sequence[Graph], wrt: tuple[int, ...], cotangents: tuple[int, ...]) -> tuple[TensorType, ...]:
    (region,) = regions
    count = len(region.params)
    _check_call(region, types[:count], f"@{region.name}")
    expected = [region.results[i].type for i in cotangents]
    if list(types[count:]) != expected:
        raise ShapeError(f"the cotangents of @{region.name} are {', '.join(map(str, expected))}, got {', '.join(map(str, types[count:]))}")
    return tuple(value.type for value in region.results) + tuple(region.params[i].type for i in wrt)


def _evaluate_vjp(*arrays: np.ndarray, **attrs: Any) -> tuple[np.ndarray, ...]:
    raise TraceError("a vjp op has no value of its own: run the pass 'differentiate' first")


def _batch_vjp(op: Op, operands: Sequence[Value], size: int) -> Sequence[Value]:
    """Rule of a `vjp` op: the function is batched. Each example has its own cotangents, so what it is differentiated by is batched, too."""
    (region,), wrt = op.regions, op.attrs["wrt"]
    flags = batched_operands(op, operands)
    wanted = [flag or index in wrt or index >= len(region.params) for index, flag in enumerate(flags)]
    given = [spread(value, example, size) if flag else value for value, example, flag in zip(operands, op.operands, wanted, strict=True)]
    return emit_again(op, given, (batch_region(region, wanted[:len(region.params)], size, [True] * len(region.results)),))


def _batch_custom_call(op: Op, operands: Sequence[Value], size: int) -> Sequence[Value]:
    """Rule of a call with a user's derivative: function and rule are batched. All results are, so that the cotangent of an argument that
    the examples share is the sum of theirs."""
    primal, forward, backward = op.regions
    flags, count = batched_operands(op, operands), len(primal.results)
    found = batched_results(batch_region(forward, flags, size), forward)
    residuals = found[count:]
    pulled = batch_region(backward, [*residuals, *[True] * count], size)
    return emit_again(op, operands, (
        batch_region(primal, flags, size, [True] * count), batch_region(forward, flags, size, [*[True] * count, *residuals]),
        with_summed_results(pulled, backward, flags, size)))


vjp: OpDefinition = define(
    "vjp", Kind.REGION, regions=1, attributes={"wrt": tuple, "cotangents": tuple}, vjp=None, batch=_batch_vjp,
    doc="The results of the region, then the cotangents of its parameters `wrt`; the operands are the region's arguments, then a "
        "cotangent for each result listed in `cotangents` (the others count as zero).",
    infer=_infer_vjp, evaluate=_evaluate_vjp, samples=no_samples, region_use=RegionUse.TRANSFORM)

custom_call: OpDefinition = define(
    "custom_call", Kind.REGION, regions=3, vjp=None, batch=_batch_custom_call,
    doc="The results of the first region. Differentiated by the user's rule: the second region gives results and residuals, the "
        "third takes residuals and cotangents and gives the cotangents of the arguments.",
    infer=_infer_call, evaluate=_evaluate_call, samples=no_samples, region_use=RegionUse.CALL)

checkpoint: OpDefinition = define(
    "checkpoint", Kind.REGION, regions=1, vjp=None, batch=batch_call,
    doc="The results of the region; the backward pass runs the region again instead of saving its intermediate values.",
    infer=_infer_call, evaluate=_evaluate_call, samples=no_samples, region_use=RegionUse.CALL)

fused: OpDefinition = define(
    "fused", Kind.REGION, regions=1, vjp=None, batch=None,
    attributes={"rows": int, "columns": int, "in_place": tuple, "scratch_bytes": int},
    doc="One kernel: the region, run in one pass over a space of `rows` x `columns`. A result may take the memory of an operand "
        "listed in `in_place` (same size, read only at the element that is written).",
    infer=_infer_call, evaluate=_evaluate_call, samples=no_samples, region_use=RegionUse.KERNEL)

matmul_epilogue: OpDefinition = define(
    "matmul_epilogue", Kind.REGION, regions=1, vjp=None, batch=None,
    doc="A product of two matrices and the elementwise ops that follow (its epilogue): the region, whose first op is the `matmul` of its "
        "first two parameters.",
    infer=_infer_call, evaluate=_evaluate_call, samples=no_samples, region_use=RegionUse.KERNEL)

free: OpDefinition = define(
    "free", Kind.MEMORY, vjp=None, batch=None,
    doc="The memory of the operands may be used again from here on.",
    infer=lambda *types: (), evaluate=lambda *arrays: (), samples=no_samples)
