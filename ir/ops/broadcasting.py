"""`broadcast` and `reduce_sum`, each other's derivative: a value is repeated along new dimensions, or summed over them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from adjit.ir.batching import emit_again
from adjit.ir.definition import Kind, OpCost, OpDefinition, Sample, define
from adjit.ir.errors import ShapeError
from adjit.ir.ops.rules import NUMBER, drop_axes, require, require_axes
from adjit.ir.ops.sampling import FLOATS, INTEGERS, edges, uniform
from adjit.ir.types import F32, I64, Shape, TensorType


def other_axes(rank: int, axes: tuple[int, ...]) -> tuple[int, ...]:
    """Dimensions of a value of this rank that are not among `axes`."""
    return tuple(axis for axis in range(rank) if axis not in axes)


def _infer_broadcast(x: TensorType, *, shape: Shape, axes: tuple[int, ...]) -> TensorType:
    result = x.with_shape(shape)
    require_axes(axes, result)
    if len(axes) != x.rank or any(shape[axis] != size for axis, size in zip(axes, x.shape, strict=True)) or min(shape, default=0) < 0:
        raise ShapeError(f"{x} cannot be broadcast to {shape} along axes {axes}")
    return result


def _evaluate_broadcast(x: np.ndarray, *, shape: Shape, axes: tuple[int, ...]) -> np.ndarray:
    aligned = [size if axis in axes else 1 for axis, size in enumerate(shape)]
    return np.broadcast_to(x.reshape(aligned), shape)


def _broadcast_samples() -> Iterator[Sample]:
    yield Sample((uniform((3,)),), {"shape": (2, 3, 4), "axes": (1,)}, differentiable=(0,))
    yield Sample((uniform((2, 4)),), {"shape": (2, 3, 4), "axes": (0, 2)}, differentiable=(0,))
    yield Sample((uniform(()),), {"shape": (2, 3), "axes": ()}, differentiable=(0,))
    yield Sample((uniform((2, 3)),), {"shape": (2, 3), "axes": (0, 1)}, differentiable=(0,))
    yield Sample((uniform((3,)),), {"shape": (3, 0), "axes": (0,)}, differentiable=(0,))
    yield Sample((uniform((3,), dtype=F32),), {"shape": (2, 3), "axes": (1,)})
    yield Sample((np.array([True, False]),), {"shape": (2, 2), "axes": (0,)})
    yield Sample((np.array(3, I64),), {"shape": (), "axes": ()})


broadcast: OpDefinition = define(
    "broadcast", Kind.MOVEMENT, half=True, arity=1, attributes={"shape": tuple, "axes": tuple},
    doc="The operand repeated along new dimensions: its dimension i is dimension `axes[i]` of `shape`.",
    batch=lambda op, operands, size: emit_again(
        op, operands, shape=(size, *op.attrs["shape"]), axes=(0, *(axis + 1 for axis in op.attrs["axes"]))),
    infer=_infer_broadcast, evaluate=_evaluate_broadcast, samples=_broadcast_samples, cost=OpCost.FREE, view=True, nonfinite=1,
    vjp=lambda ct, operands, results, attrs: (reduce_sum(ct, axes=other_axes(ct.type.rank, attrs["axes"])),))


def infer_reduction(kinds: str, empty: bool) -> Callable[..., TensorType]:
    """Type rule of reductions; `empty` is True if the reduction of no elements has a value."""
    def infer(x: TensorType, *, axes: tuple[int, ...]) -> TensorType:
        require(x, kinds)
        require_axes(axes, x)
        result = x.with_shape(drop_axes(x.shape, axes))
        if not empty and 0 in (x.shape[axis] for axis in axes):
            raise ShapeError(f"{x} has no elements along {axes}, and this reduction of no elements is undefined")
        return result
    return infer


def reduction_samples(low: float = -2.0, high: float = 2.0, *, empty: bool, twice: bool = True,
                      others: tuple[np.dtype, ...] = INTEGERS) -> Iterator[Sample]:
    """Samples of a reduction of floats between `low` and `high`, and of `others`."""
    for axes in ((), (0,), (1,), (2,), (0, 2), (0, 1, 2)):
        yield Sample((uniform((2, 3, 4), low, high),), {"axes": axes}, differentiable=(0,), twice=twice)
    yield Sample((uniform((), low, high),), {"axes": ()}, differentiable=(0,), twice=twice)
    yield Sample((uniform((1, 5), low, high),), {"axes": (0,)}, differentiable=(0,), twice=twice)
    yield Sample((uniform((4, 3), low, high, F32).T,), {"axes": (1,)})
    yield Sample((uniform((0, 3)),), {"axes": (1,)})
    if empty:
        yield Sample((uniform((0, 3)),), {"axes": (0,)})
        yield Sample((uniform((2, 0), dtype=F32),), {"axes": (0, 1)})
    for dtype in (*FLOATS, *others):
        values = edges(dtype)
        yield Sample((np.stack([values, values[::-1], np.zeros_like(values)]),), {"axes": (1,)})
        yield Sample((np.stack([values, np.ones_like(values)]),), {"axes": (0,)})
    yield Sample((np.array([[-0.0, -0.0], [0.0, -0.0]]),), {"axes": (1,)})


reduce_sum: OpDefinition = define(
    "reduce_sum", Kind.REDUCTION, arity=1, attributes={"axes": tuple}, numpy=np.sum,
    doc="The sum over `axes`, in the dtype of the operand; 0 for no elements.",
    infer=infer_reduction(NUMBER, empty=True), evaluate=lambda x, *, axes: np.add.reduce(x, axis=axes, dtype=x.dtype),
    scalar="({0} + {1})", identity=lambda dtype: dtype.type(0), samples=lambda: reduction_samples(empty=True),
    combine=np.add, nonfinite=1,
    vjp=lambda ct, operands, results, attrs: (
        broadcast(ct, shape=operands[0].type.shape, axes=other_axes(operands[0].type.rank, attrs["axes"])),))
