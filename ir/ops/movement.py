"""Ops that move elements and compute none, but for `add_slice`, the derivative of reads at many places."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Sequence

import numpy as np

from adjit.ir.batching import batch_axes, batch_axis, emit_again, spread_all
from adjit.ir.definition import Kind, OpCost, OpDefinition, Sample, define
from adjit.ir.errors import ShapeError
from adjit.ir.graph import Attributes, Op, Value
from adjit.ir.ops.creation import full_like
from adjit.ir.ops.rules import NUMBER, require, require_axes, require_axis, require_dtype, require_length, require_number
from adjit.ir.ops.sampling import uniform
from adjit.ir.types import BOOL, F32, I64, Shape, TensorType

Operands = tuple[Value, ...]
Cotangents = tuple[Value | None, ...]

# -- reshape, transpose, flip


def _infer_reshape(x: TensorType, *, shape: Shape) -> TensorType:
    result = x.with_shape(shape)
    if result.size != x.size or min(shape, default=0) < 0:
        raise ShapeError(f"{x} has {x.size} elements and cannot get the shape {shape}")
    return result


def _reshape_samples() -> Iterator[Sample]:
    for shape in ((3, 4), (12,), (2, 1, 6), (4, 3)):
        yield Sample((uniform((3, 4)),), {"shape": shape}, differentiable=(0,))
    yield Sample((uniform((2, 3, 4), dtype=F32).transpose(2, 0, 1),), {"shape": (8, 3)})
    yield Sample((np.array(3, I64),), {"shape": (1, 1)})
    yield Sample((uniform((1,)),), {"shape": ()}, differentiable=(0,))
    yield Sample((uniform((0, 3)),), {"shape": (5, 0)})


reshape: OpDefinition = define(
    "reshape", Kind.MOVEMENT, half=True, arity=1, attributes={"shape": tuple},
    doc="The same elements, in row-major order, in another shape.",
    infer=_infer_reshape, evaluate=lambda x, *, shape: x.reshape(shape), samples=_reshape_samples,
    batch=lambda op, operands, size: emit_again(op, operands, shape=(size, *op.attrs["shape"])),
    cost=OpCost.FREE, alias=True, view=True, nonfinite=1,
    vjp=lambda ct, operands, results, attrs: (reshape(ct, shape=operands[0].type.shape),))


def _infer_transpose(x: TensorType, *, permutation: tuple[int, ...]) -> TensorType:
    if sorted(permutation) != list(range(x.rank)):
        raise ShapeError(f"{permutation} is no permutation of the dimensions of {x}")
    return x.with_shape(x.shape[axis] for axis in permutation)


def _transpose_vjp(ct: Value, operands: Operands, results: Operands, attrs: Attributes) -> Cotangents:
    permutation = attrs["permutation"]
    return (transpose(ct, permutation=tuple(permutation.index(axis) for axis in range(len(permutation)))),)


def _transpose_samples() -> Iterator[Sample]:
    for permutation in ((0, 1, 2), (2, 0, 1), (1, 0, 2), (2, 1, 0)):
        yield Sample((uniform((2, 3, 4)),), {"permutation": permutation}, differentiable=(0,))
    yield Sample((uniform((3, 2), dtype=F32),), {"permutation": (1, 0)})
    yield Sample((np.array(True),), {"permutation": ()})
    yield Sample((np.zeros((2, 0), I64),), {"permutation": (1, 0)})


transpose: OpDefinition = define(
    "transpose", Kind.MOVEMENT, half=True, arity=1, attributes={"permutation": tuple},
    doc="Dimensions in another order: dimension i of the result is dimension `permutation[i]` of the operand.",
    infer=_infer_transpose, evaluate=lambda x, *, permutation: x.transpose(permutation), vjp=_transpose_vjp, samples=_transpose_samples,
    batch=lambda op, operands, size: emit_again(op, operands, permutation=(0, *(axis + 1 for axis in op.attrs["permutation"]))),
    view=True, nonfinite=1)


def _infer_flip(x: TensorType, *, axes: tuple[int, ...]) -> TensorType:
    require_axes(axes, x)
    return x


def _flip_samples() -> Iterator[Sample]:
    for axes in ((), (0,), (1,), (0, 2)):
        yield Sample((uniform((2, 3, 4)),), {"axes": axes}, differentiable=(0,))
    yield Sample((uniform((3,), dtype=F32),), {"axes": (0,)})
    yield Sample((np.zeros((0, 2), BOOL),), {"axes": (0, 1)})


flip: OpDefinition = define(
    "flip", Kind.MOVEMENT, half=True, arity=1, attributes={"axes": tuple}, doc="The order of the elements along `axes` reversed.",
    infer=_infer_flip, evaluate=lambda x, *, axes: np.flip(x, axes), samples=_flip_samples, view=True, batch=batch_axes,
    vjp=lambda ct, operands, results, attrs: (flip(ct, axes=attrs["axes"]),))

# -- slice and pad, each other's derivative


def strided(start: Shape, stop: Shape, step: Shape) -> tuple[builtins.slice, ...]:
    """Index that selects every `step`th element of each dimension from `start` up to `stop`."""
    return tuple(builtins.slice(*bounds) for bounds in zip(start, stop, step, strict=True))


def _infer_slice(x: TensorType, *, start: Shape, stop: Shape, step: Shape) -> TensorType:
    require_length(x, start=start, stop=stop, step=step)
    for size, first, last, stride in zip(x.shape, start, stop, step, strict=True):
        if not 0 <= first <= last <= size or stride < 1:
            raise ShapeError(f"slice from {start} to {stop} in steps of {step} does not fit {x}")
    return x.with_shape(len(range(*bounds)) for bounds in zip(start, stop, step, strict=True))


def _evaluate_slice(x: np.ndarray, *, start: Shape, stop: Shape, step: Shape) -> np.ndarray:
    return x[strided(start, stop, step)]


def _slice_vjp(ct: Value, operands: Operands, results: Operands, attrs: Attributes) -> Cotangents:
    start, interior = attrs["start"], tuple(stride - 1 for stride in attrs["step"])
    spread = tuple(_spread(size, gap) for size, gap in zip(ct.type.shape, interior, strict=True))
    high = tuple(size - low - width for size, low, width in zip(operands[0].type.shape, start, spread, strict=True))
    return (pad(ct, low=start, high=high, interior=interior, value=0.0),)


def _spread(size: int, interior: int) -> int:
    """Length of `size` elements with `interior` elements between neighbours."""
    return size + (size - 1) * interior if size else 0


def _slice_samples() -> Iterator[Sample]:
    x = uniform((5, 7))
    for start, stop, step in (((0, 0), (5, 7), (1, 1)), ((1, 2), (4, 6), (1, 1)), ((0, 1), (5, 7), (2, 3)), ((2, 3), (2, 3), (1, 2)),
                              ((5, 7), (5, 7), (1, 1)), ((1, 0), (5, 6), (3, 2))):
        yield Sample((x,), {"start": start, "stop": stop, "step": step}, differentiable=(0,))
    yield Sample((x.astype(F32).T,), {"start": (1, 1), "stop": (6, 5), "step": (2, 2)})
    yield Sample((np.array(2, I64),), {"start": (), "stop": (), "step": ()})
    yield Sample((np.zeros((0, 2), BOOL),), {"start": (0, 0), "stop": (0, 1), "step": (1, 1)})


slice: OpDefinition = define(
    "slice", Kind.MOVEMENT, half=True, arity=1, attributes={"start": tuple, "stop": tuple, "step": tuple},
    doc="Every `step`th element of each dimension, from `start` up to `stop`; steps are positive.",
    infer=_infer_slice, evaluate=_evaluate_slice, vjp=_slice_vjp, samples=_slice_samples, view=True,
    batch=lambda op, operands, size: emit_again(
        op, operands, start=(0, *op.attrs["start"]), stop=(size, *op.attrs["stop"]), step=(1, *op.attrs["step"])))


def _infer_pad(x: TensorType, *, low: Shape, high: Shape, interior: Shape, value: complex) -> TensorType:
    require_length(x, low=low, high=high, interior=interior)
    require_number(value, x.dtype)
    if min((*low, *high, *interior), default=0) < 0:
        raise ShapeError(f"padding cannot be negative: low {low}, high {high}, interior {interior}")
    return x.with_shape(
        before + _spread(size, gap) + after for size, before, after, gap in zip(x.shape, low, high, interior, strict=True))


def inside(shape: Shape, low: Shape, interior: Shape) -> tuple[Shape, Shape, Shape]:
    """Start, stop and step of the operand's elements in the result of `pad`."""
    stop = tuple(before + _spread(size, gap) for size, before, gap in zip(shape, low, interior, strict=True))
    return low, stop, tuple(gap + 1 for gap in interior)


def _evaluate_pad(x: np.ndarray, *, low: Shape, high: Shape, interior: Shape, value: complex) -> np.ndarray:
    start, stop, step = inside(x.shape, low, interior)
    out = np.full([last + after for last, after in zip(stop, high, strict=True)], value, x.dtype)
    out[strided(start, stop, step)] = x
    return out


def _pad_vjp(ct: Value, operands: Operands, results: Operands, attrs: Attributes) -> Cotangents:
    start, stop, step = inside(operands[0].type.shape, attrs["low"], attrs["interior"])
    return (slice(ct, start=start, stop=stop, step=step),)


def _pad_samples() -> Iterator[Sample]:
    for low, high, interior in (((0, 0), (0, 0), (0, 0)), ((1, 2), (3, 0), (0, 0)), ((0, 1), (1, 0), (2, 1))):
        yield Sample((uniform((2, 3)),), {"low": low, "high": high, "interior": interior, "value": 0.0}, differentiable=(0,))
    yield Sample((uniform((2, 0)),), {"low": (1, 1), "high": (0, 2), "interior": (3, 3), "value": 1.5})
    yield Sample((uniform((2,), dtype=F32),), {"low": (1,), "high": (0,), "interior": (1,), "value": float("-inf")})
    yield Sample((np.array([1, 2], I64),), {"low": (1,), "high": (2,), "interior": (0,), "value": -1})
    yield Sample((np.array(True),), {"low": (), "high": (), "interior": (), "value": False})


pad: OpDefinition = define(
    "pad", Kind.MOVEMENT, half=True, arity=1,
    attributes={"low": tuple, "high": tuple, "interior": tuple, "value": (bool, int, float, complex)},
    doc="The operand with copies of `value` around it: `low` before, `high` after, and `interior` between neighbours.",
    infer=_infer_pad, evaluate=_evaluate_pad, vjp=_pad_vjp, samples=_pad_samples,
    batch=lambda op, operands, size: emit_again(op, operands, **{name: (0, *op.attrs[name]) for name in ("low", "high", "interior")}))

# -- several operands


def _infer_concatenate(*types: TensorType, axis: int) -> TensorType:
    if not types:
        raise ShapeError("there is nothing to concatenate")
    first = types[0]
    require_axis(axis, first)
    for other in types[1:]:
        require_dtype(first, other)
        if other.shape[:axis] != first.shape[:axis] or other.shape[axis + 1:] != first.shape[axis + 1:] or other.rank != first.rank:
            raise ShapeError(f"{first} and {other} cannot be joined along axis {axis}")
    return first.with_shape((*first.shape[:axis], sum(type.shape[axis] for type in types), *first.shape[axis + 1:]))


def _concatenate_vjp(ct: Value, operands: Operands, results: Operands, attrs: Attributes) -> Cotangents:
    axis, shape = attrs["axis"], ct.type.shape
    cotangents, begin = [], 0
    for operand in operands:
        end = begin + operand.type.shape[axis]
        start, stop = [0] * len(shape), list(shape)
        start[axis], stop[axis] = begin, end
        cotangents.append(slice(ct, start=tuple(start), stop=tuple(stop), step=(1,) * len(shape)))
        begin = end
    return tuple(cotangents)


def _concatenate_samples() -> Iterator[Sample]:
    yield Sample((uniform((2, 3)), uniform((2, 1), seed=1), uniform((2, 0)), uniform((2, 2), seed=2)), {"axis": 1},
                 differentiable=(0, 1, 3))
    yield Sample((uniform((2, 3)), uniform((4, 3), seed=1)), {"axis": 0}, differentiable=(0, 1))
    yield Sample((uniform((2, 3), dtype=F32),), {"axis": 0})
    yield Sample((np.array([1, 2], I64), np.array([3], I64)), {"axis": 0})


concatenate: OpDefinition = define(
    "concatenate", Kind.MOVEMENT, half=True, attributes={"axis": int}, doc="The operands one after the other along `axis`.",
    infer=_infer_concatenate, evaluate=lambda *arrays, axis: np.concatenate(arrays, axis), vjp=_concatenate_vjp,
    samples=_concatenate_samples, batch=batch_axis)


def _stop(update: Shape, start: Shape, step: Shape) -> Shape:
    return tuple(first + _spread(size, stride - 1) for size, first, stride in zip(update, start, step, strict=True))


def _infer_update_slice(base: TensorType, update: TensorType, *, start: Shape, step: Shape) -> TensorType:
    require_length(base, start=start, step=step)
    require_dtype(base, update)
    if update.rank != base.rank:
        raise ShapeError(f"{update} cannot be written into {base}")
    if min(start, default=0) < 0 or min(step, default=1) < 1 or any(
            last > size for last, size in zip(_stop(update.shape, start, step), base.shape, strict=True)):
        raise ShapeError(f"{update} does not fit into {base} from {start} in steps of {step}")
    return base


def _evaluate_update_slice(base: np.ndarray, update: np.ndarray, *, start: Shape, step: Shape) -> np.ndarray:
    out = base.copy()
    out[strided(start, _stop(update.shape, start, step), step)] = update
    return out


def _update_slice_vjp(ct: Value, operands: Operands, results: Operands, attrs: Attributes) -> Cotangents:
    start, step = attrs["start"], attrs["step"]
    update = operands[1]
    read = slice(ct, start=start, stop=_stop(update.type.shape, start, step), step=step)     # before the cotangent is written over
    return update_slice(ct, full_like(update, 0.0), start=start, step=step), read


def _update_slice_samples() -> Iterator[Sample]:
    for shape, start, step in (((2, 2), (1, 3), (1, 1)), ((2, 3), (0, 1), (3, 2)), ((4, 6), (0, 0), (1, 1)), ((0, 2), (4, 0), (1, 1))):
        yield Sample((uniform((4, 6)), uniform(shape, seed=1)), {"start": start, "step": step}, differentiable=(0, 1))
    yield Sample((uniform((3,), dtype=F32), uniform((1,), dtype=F32, seed=1)), {"start": (2,), "step": (1,)})
    yield Sample((np.array(1, I64), np.array(2, I64)), {"start": (), "step": ()})


def _batch_update(op: Op, operands: Sequence[Value], size: int) -> Operands:
    return emit_again(op, spread_all(op, operands, size), start=(0, *op.attrs["start"]), step=(1, *op.attrs["step"]))


update_slice: OpDefinition = define(
    "update_slice", Kind.MOVEMENT, half=True, arity=2, attributes={"start": tuple, "step": tuple},
    doc="The base with the update written to every `step`th index of each dimension from `start` on.",
    infer=_infer_update_slice, evaluate=_evaluate_update_slice, vjp=_update_slice_vjp, samples=_update_slice_samples,
    batch=_batch_update, updates=True)


def _infer_add_slice(base: TensorType, update: TensorType, *, start: Shape, step: Shape) -> TensorType:
    require(base, NUMBER)
    return _infer_update_slice(base, update, start=start, step=step)


def _evaluate_add_slice(base: np.ndarray, update: np.ndarray, *, start: Shape, step: Shape) -> np.ndarray:
    out = base.copy()
    out[strided(start, _stop(update.shape, start, step), step)] += update
    return out


def _add_slice_vjp(ct: Value, operands: Operands, results: Operands, attrs: Attributes) -> Cotangents:
    start, step = attrs["start"], attrs["step"]
    return ct, slice(ct, start=start, stop=_stop(operands[1].type.shape, start, step), step=step)


add_slice: OpDefinition = define(
    "add_slice", Kind.MOVEMENT, arity=2, attributes={"start": tuple, "step": tuple},
    doc="The base with the update added to every `step`th index of each dimension from `start` on: the cotangents of many small slices of "
        "one value are added up in its place.",
    infer=_infer_add_slice, evaluate=_evaluate_add_slice, vjp=_add_slice_vjp, samples=_update_slice_samples, batch=_batch_update,
    updates=True)
