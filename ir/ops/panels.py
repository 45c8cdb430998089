"""`panels`: a part of a program that runs panel by panel, each panel a slice of everything, nearly always along the first axis."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from adjit.ir.definition import Kind, OpDefinition, RegionUse, define
from adjit.ir.errors import ShapeError
from adjit.ir.graph import Graph
from adjit.ir.interpreter import interpret
from adjit.ir.ops.sampling import no_samples
from adjit.ir.types import Shape, TensorType


def _infer(*types: TensorType, regions: Sequence[Graph], count: int, sliced: tuple[bool, ...],
           shapes: tuple[Shape, ...]) -> tuple[TensorType, ...]:
    (region,) = regions
    for type, param, cut in zip(types, region.params, sliced, strict=True):
        if not (_holds(type, param.type, count) or is_columns(type, param.type, count) if cut else type == param.type):
            raise ShapeError(f"{f'{count} panels of' if cut else 'all panels share'} {param.type}, got {type}")
    results = tuple(TensorType(value.type.dtype, shape) for value, shape in zip(region.results, shapes, strict=True))
    for type, value in zip(results, region.results, strict=True):
        if not _holds(type, value.type, count):
            raise ShapeError(f"{count} panels of {value.type} are no {type}")
    return results


def _holds(type: TensorType, panel: TensorType, count: int) -> bool:
    """Whether a value is `count` panels, one after the other: stacked, or joined along the first axis."""
    joined = panel.rank > 0 and type.shape == (panel.shape[0] * count, *panel.shape[1:])
    return type.dtype == panel.dtype and (joined or type.shape == (count, *panel.shape))


def is_columns(type: TensorType, panel: TensorType, count: int) -> bool:
    """Whether a panel is some columns of a matrix: its rows are as far apart in memory as those of the whole.

    >>> is_columns(TensorType(np.dtype("f4"), (3, 8)), TensorType(np.dtype("f4"), (3, 2)), 4)
    True
    """
    return type.dtype == panel.dtype and panel.rank == 2 and type.shape == (panel.shape[0], panel.shape[1] * count) and count > 1


def _evaluate(*arrays: np.ndarray, regions: Sequence[Graph], count: int, sliced: tuple[bool, ...],
              shapes: tuple[Shape, ...]) -> tuple[np.ndarray, ...]:
    (region,) = regions
    cut = [_slices(array, param.type, count) if flag else [array] * count
           for array, param, flag in zip(arrays, region.params, sliced, strict=True)]
    panels = [interpret(region, operands) for operands in zip(*cut, strict=True)]
    return tuple(np.stack(parts).reshape(shape) for parts, shape in zip(zip(*panels, strict=True), shapes, strict=True))


def _slices(array: np.ndarray, panel: TensorType, count: int) -> Sequence[np.ndarray]:
    if _holds(TensorType(array.dtype, array.shape), panel, count):
        return tuple(array.reshape(count, *panel.shape))
    return np.split(array, count, axis=1)


def panel_bytes(type: TensorType, panel: TensorType, count: int) -> int:
    """The bytes from one of `count` panels of a value to the next.

    >>> panel_bytes(TensorType(np.dtype("f4"), (8, 3)), TensorType(np.dtype("f4"), (2, 3)), 4)
    24
    """
    if is_columns(type, panel, count):
        return panel.shape[1] * type.dtype.itemsize
    return prod(type.shape) // count * type.dtype.itemsize


panels: OpDefinition = define(
    "panels", Kind.REGION, regions=1, vjp=None, attributes={"count": int, "sliced": tuple, "shapes": tuple},
    doc="The region, run `count` times: on equal slices along the first axis of the operands that are `sliced` (on some columns of a "
        "matrix where the region's parameter has all rows), and on the whole of the others. The results of the runs follow each other in "
        "memory, in `shapes`.",
    infer=_infer, evaluate=_evaluate, samples=no_samples, region_use=RegionUse.TILING, runs="count")
