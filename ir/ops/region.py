"""Ops of transforms and of planned graphs: `vjp`, `custom_call`, `checkpoint`, `fused` kernels, products with epilogues, `free`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from adjit.ir.definition import Kind, OpDefinition, RegionUse, define
from adjit.ir.errors import ShapeError, TraceError
from adjit.ir.graph import Graph
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


vjp: OpDefinition = define(
    "vjp", Kind.REGION, regions=1, attributes={"wrt": tuple, "cotangents": tuple}, vjp=None,
    doc="The results of the region, then the cotangents of its parameters `wrt`; the operands are the region's arguments, then a "
        "cotangent for each result listed in `cotangents` (the others count as zero).",
    infer=_infer_vjp, evaluate=_evaluate_vjp, samples=no_samples, region_use=RegionUse.TRANSFORM)

custom_call: OpDefinition = define(
    "custom_call", Kind.REGION, regions=3, vjp=None,
    doc="The results of the first region. Differentiated by the user's rule: the second region gives results and residuals, the "
        "third takes residuals and cotangents and gives the cotangents of the arguments.",
    infer=_infer_call, evaluate=_evaluate_call, samples=no_samples, region_use=RegionUse.CALL)

checkpoint: OpDefinition = define(
    "checkpoint", Kind.REGION, regions=1, vjp=None,
    doc="The results of the region; the backward pass runs the region again instead of saving its intermediate values.",
    infer=_infer_call, evaluate=_evaluate_call, samples=no_samples, region_use=RegionUse.CALL)

fused: OpDefinition = define(
    "fused", Kind.REGION, regions=1, vjp=None,
    attributes={"rows": int, "columns": int, "in_place": tuple, "scratch_bytes": int},
    doc="One kernel: the region, run in one pass over a space of `rows` x `columns`. A result may take the memory of an operand "
        "listed in `in_place` (same size, read only at the element that is written).",
    infer=_infer_call, evaluate=_evaluate_call, samples=no_samples, region_use=RegionUse.KERNEL)

matmul_epilogue: OpDefinition = define(
    "matmul_epilogue", Kind.REGION, regions=1, vjp=None,
    doc="A product of two matrices and the elementwise ops that follow (its epilogue): the region, whose first op is the `matmul` of its "
        "first two parameters.",
    infer=_infer_call, evaluate=_evaluate_call, samples=no_samples, region_use=RegionUse.KERNEL)

free: OpDefinition = define(
    "free", Kind.MEMORY, vjp=None,
    doc="The memory of the operands may be used again from here on.",
    infer=lambda *types: (), evaluate=lambda *arrays: (), samples=no_samples)
