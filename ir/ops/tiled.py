"""`tiled`: a region that runs tile by tile; each tile is a slice of every sliced operand, nearly always along the first axis."""

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
        if not (_holds(type, param.type, count) or is_column_tile(type, param.type, count) if cut else type == param.type):
            raise ShapeError(f"expected {f'{count} tiles of' if cut else 'the whole'} {param.type}, got {type}")
    results = tuple(TensorType(value.type.dtype, shape) for value, shape in zip(region.results, shapes, strict=True))
    for type, value in zip(results, region.results, strict=True):
        if not _holds(type, value.type, count):
            raise ShapeError(f"{count} tiles of {value.type} do not make {type}")
    return results


def _holds(type: TensorType, tile: TensorType, count: int) -> bool:
    """True if a value is `count` tiles, one after the other: stacked, or joined along the first axis."""
    joined = tile.rank > 0 and type.shape == (tile.shape[0] * count, *tile.shape[1:])
    return type.dtype == tile.dtype and (joined or type.shape == (count, *tile.shape))


def is_column_tile(type: TensorType, tile: TensorType, count: int) -> bool:
    """True if a tile is a block of columns of a matrix: the rows of the tile are as far apart in memory as those of the matrix.

    >>> is_column_tile(TensorType(np.dtype("f4"), (3, 8)), TensorType(np.dtype("f4"), (3, 2)), 4)
    True
    """
    return type.dtype == tile.dtype and tile.rank == 2 and type.shape == (tile.shape[0], tile.shape[1] * count) and count > 1


def _evaluate(*arrays: np.ndarray, regions: Sequence[Graph], count: int, sliced: tuple[bool, ...],
              shapes: tuple[Shape, ...]) -> tuple[np.ndarray, ...]:
    (region,) = regions
    cut = [_split(array, param.type, count) if flag else [array] * count
           for array, param, flag in zip(arrays, region.params, sliced, strict=True)]
    tiled = [interpret(region, operands) for operands in zip(*cut, strict=True)]
    return tuple(np.stack(parts).reshape(shape) for parts, shape in zip(zip(*tiled, strict=True), shapes, strict=True))


def _split(array: np.ndarray, tile: TensorType, count: int) -> Sequence[np.ndarray]:
    if _holds(TensorType(array.dtype, array.shape), tile, count):
        return tuple(array.reshape(count, *tile.shape))
    return np.split(array, count, axis=1)


def tile_stride_bytes(type: TensorType, tile: TensorType, count: int) -> int:
    """Bytes from one of `count` tiles of a value to the next.

    >>> tile_stride_bytes(TensorType(np.dtype("f4"), (8, 3)), TensorType(np.dtype("f4"), (2, 3)), 4)
    24
    """
    if is_column_tile(type, tile, count):
        return tile.shape[1] * type.dtype.itemsize
    return prod(type.shape) // count * type.dtype.itemsize


tiled: OpDefinition = define(
    "tiled", Kind.REGION, regions=1, vjp=None, batch=None, attributes={"count": int, "sliced": tuple, "shapes": tuple},
    doc="The region, run `count` times: on equal slices along the first axis of the operands that are `sliced` (on a block of columns of a "
        "matrix if the region's parameter has all rows), and on the whole of the others. The results of all tiles follow each other in "
        "memory, in `shapes`.",
    infer=_infer, evaluate=_evaluate, samples=no_samples, region_use=RegionUse.TILING, runs="count")
