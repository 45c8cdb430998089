"""Functions that join arrays, split them, repeat and pad them."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.errors import ShapeError
from adjit.ir.graph import Value
from adjit.ir.types import BOOL, I64, check_dtype, is_float
from adjit.tracer import lowering
from adjit.tracer.array import TracedArray, as_traced, contains_traced, wrap
from adjit.tracer.dispatch import implements
from adjit.tracer.functions.indexing import fixed
from adjit.tracer.functions.shapes import (
    as_array,
    atleast_1d,
    atleast_2d,
    atleast_3d,
    broadcast_arrays,
    expand_dims,
    moveaxis,
    normalize_axis,
    ravel,
    reshape_to,
)
from adjit.tracer.functions.ufuncs import store
from adjit.tracer.masked_array import MaskedArray, is_lazy, known_integer, masked_array
from adjit.tracer.promotion import Casting, as_operand, common_dtype, dtype_argument
from adjit.tracer.registry import FUNCTIONS
from adjit.tracer.user_location import find_user_location


def _list(arrays: Any) -> list[TracedArray]:
    return [as_traced(array) for array in arrays]


@implements(np.concatenate)
def concatenate(arrays: Any, /, axis: int | None = 0, out: Any = None, *, dtype: Any = None, casting: Casting = "same_kind") -> Any:
    """Equivalent of `numpy.concatenate`."""
    pieces = _list(arrays)
    if not pieces:
        raise ValueError("need at least one array to concatenate")
    if axis is None:
        pieces, axis = [ravel(piece) for piece in pieces], 0
    dim = normalize_axis(axis, pieces[0].ndim)
    if any(map(is_lazy, pieces)) and out is None and all(piece.axis == dim for piece in pieces if isinstance(piece, MaskedArray)):
        return _of_masked(pieces, dim, dtype, casting)
    expected = pieces[0].shape
    for piece in pieces[1:]:
        if piece.ndim != len(expected) or any(a != b for i, (a, b) in enumerate(zip(piece.shape, expected, strict=True)) if i != dim):
            shapes = ", ".join(str(piece.shape) for piece in pieces)
            raise ShapeError(f"concatenate along axis {dim}: the shapes {shapes} have to agree in all other axes", find_user_location())
    target = dtype_argument(dtype) if dtype is not None else check_dtype(np.result_type(*(piece.dtype for piece in pieces)))
    for piece in pieces:
        if not np.can_cast(piece.dtype, target, casting):
            raise TypeError(f"Cannot cast array data from {piece.dtype!r} to {target!r} according to the rule '{casting}'")
    values = [lowering.convert(piece.value, target) for piece in pieces]
    return store(wrap(values[0] if len(values) == 1 else ops.concatenate(*values, axis=dim)), out, casting, "concatenate")


def _of_masked(pieces: list[TracedArray], dim: int, dtype: Any, casting: Casting) -> TracedArray:
    """Concatenate along the axis that masks choose from: the whole arrays, and the masks."""
    wholes = [piece.whole if is_lazy(piece) else piece for piece in pieces]
    masks = [piece.mask if is_lazy(piece) else lowering.constant(True, BOOL, (piece.shape[dim],)) for piece in pieces]
    whole = concatenate(wholes, dim, dtype=dtype, casting=casting)
    return masked_array(wrap(whole.value, scalar=False), masks[0] if len(masks) == 1 else ops.concatenate(*masks, axis=0), dim)


if hasattr(np, "concat"):
    FUNCTIONS[np.concat] = concatenate


@implements(np.stack)
def stack(arrays: Any, axis: int = 0, out: Any = None, *, dtype: Any = None, casting: Casting = "same_kind") -> Any:
    """Equivalent of `numpy.stack`."""
    if axis == 0 and out is dtype is None and casting == "same_kind" and type(arrays) in (list, tuple):
        joined = FUNCTIONS["stack directly"](arrays)
        if joined is not NotImplemented:
            return joined
    pieces = _list(arrays)
    if not pieces:
        raise ValueError("need at least one array to stack")
    if len({piece.shape for piece in pieces}) > 1:
        shapes = ", ".join(str(piece.shape) for piece in pieces)
        raise ShapeError(f"stack: all arrays have to have the same shape, got {shapes}", find_user_location())
    dim = normalize_axis(axis, pieces[0].ndim + 1)
    if not pieces[0].shape:         # np.array([x, y, z]): no one sees the views
        rows = [wrap(lowering.reshape(piece.value, (1,)), scalar=False) for piece in pieces]
        return concatenate(rows, axis=dim, out=out, dtype=dtype, casting=casting)
    return concatenate([expand_dims(piece, dim) for piece in pieces], axis=dim, out=out, dtype=dtype, casting=casting)


@implements(np.vstack, *([np.row_stack] if "row_stack" in np.__dict__ else []))
def vstack(tup: Any, *, dtype: Any = None, casting: Casting = "same_kind") -> Any:
    """Equivalent of `numpy.vstack`."""
    return concatenate([atleast_2d(piece) for piece in tup], axis=0, dtype=dtype, casting=casting)


@implements(np.hstack)
def hstack(tup: Any, *, dtype: Any = None, casting: Casting = "same_kind") -> Any:
    """Equivalent of `numpy.hstack`."""
    pieces = [atleast_1d(piece) for piece in tup]
    return concatenate(pieces, axis=0 if pieces and pieces[0].ndim == 1 else 1, dtype=dtype, casting=casting)


@implements(np.dstack)
def dstack(tup: Any) -> Any:
    """Equivalent of `numpy.dstack`."""
    return concatenate([atleast_3d(piece) for piece in tup], axis=2)


@implements(np.column_stack)
def column_stack(tup: Any) -> Any:
    """Equivalent of `numpy.column_stack`."""
    return concatenate([piece if piece.ndim >= 2 else FUNCTIONS[np.reshape](piece, (-1, 1)) for piece in _list(tup)], axis=1)


@implements(np.append)
def append(arr: Any, values: Any, axis: int | None = None) -> Any:
    """Equivalent of `numpy.append`."""
    return concatenate([arr, values], axis=axis)


@implements(np.array_split)
def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[TracedArray]:
    """Equivalent of `numpy.array_split`: views."""
    x = as_traced(ary)
    dim = normalize_axis(axis, x.ndim)
    size = x.shape[dim]
    if isinstance(indices_or_sections, (list, tuple, np.ndarray)):
        bounds = [0, *(operator.index(i) for i in indices_or_sections), size]
    else:
        sections = operator.index(indices_or_sections)
        if sections <= 0:
            raise ValueError("number sections must be larger than 0.")
        each, extra = divmod(size, sections)
        bounds = [0, *np.cumsum([each + 1] * extra + [each] * (sections - extra)).tolist()]
    before = (slice(None),) * dim
    return [x[(*before, slice(first, last))] for first, last in pairwise(bounds)]


@implements(np.split)
def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[TracedArray]:
    """Equivalent of `numpy.split`: views."""
    x = as_traced(ary)
    dim = normalize_axis(axis, x.ndim)
    if not isinstance(indices_or_sections, (list, tuple, np.ndarray)) and x.shape[dim] % operator.index(indices_or_sections):
        raise ShapeError(f"split: axis {dim} of size {x.shape[dim]} does not divide into {indices_or_sections} equal parts",
                         find_user_location(), hint="np.array_split makes parts of different sizes")
    return array_split(x, indices_or_sections, dim)


@implements(np.hsplit)
def hsplit(ary: Any, indices_or_sections: Any) -> list[TracedArray]:
    """Equivalent of `numpy.hsplit`."""
    x = as_traced(ary)
    return split(x, indices_or_sections, 1 if x.ndim > 1 else 0)


@implements(np.vsplit)
def vsplit(ary: Any, indices_or_sections: Any) -> list[TracedArray]:
    """Equivalent of `numpy.vsplit`."""
    x = as_traced(ary)
    if x.ndim < 2:
        raise ShapeError(f"vsplit: an array of at least two dimensions is needed, got {x.shape}", find_user_location(),
                         hint="np.split divides along the axis that there is")
    return split(x, indices_or_sections, 0)


@implements(np.repeat)
def repeat(a: Any, repeats: Any, axis: int | None = None) -> TracedArray:
    """Equivalent of `numpy.repeat`. Traced numbers of repeats are those of a guard if there is one, else their sum is."""
    x = as_traced(a)
    if axis is None or not x.ndim:
        x, axis = ravel(x), 0 if axis is None else axis
    dim = normalize_axis(axis, x.ndim)
    repeats = as_traced(repeats) if contains_traced(repeats) else repeats
    if isinstance(repeats, TracedArray):
        refusal = ("np.repeat with traced repeats has a shape that depends on values", "give repeats as an integer or an ordinary array")
        if repeats.dtype.kind not in "biu":
            raise TypeError(f"Cannot cast array data from {repeats.dtype} to int64 according to the rule 'safe'")
        if repeats.ndim > 1:
            raise ValueError("object too deep for desired array")
        if repeats.size == 1:
            repeats = known_integer(FUNCTIONS[np.reshape](repeats, ()), *refusal)
        elif repeats.size == x.shape[dim]:
            if repeats.dtype.kind == "i" and known_integer(FUNCTIONS[np.any](FUNCTIONS[np.less](repeats, 0)), *refusal):
                raise ValueError("repeats may not contain negative values.")
            ends = FUNCTIONS[np.cumsum](FUNCTIONS["astype"](repeats, I64))
            count = known_integer(ends[-1], *refusal) if repeats.size else 0
            places = FUNCTIONS[np.searchsorted](ends, wrap(lowering.iota(I64, (count,), 0), scalar=False), "right")
            return FUNCTIONS[np.take](x, places, axis=dim)      # type: ignore[no-any-return]
        else:
            repeats = np.ones(repeats.shape, int)
    counts = np.asarray(repeats)
    if counts.size == 1:
        count = int(counts.reshape(()))
        if count < 0:
            raise ValueError("repeats may not contain negative values.")
        inserted = lowering.reshape(x.value, (*x.shape[:dim + 1], 1, *x.shape[dim + 1:]))
        repeated = lowering.broadcast(inserted, (*x.shape[:dim + 1], count, *x.shape[dim + 1:]))
        return wrap(lowering.reshape(repeated, (*x.shape[:dim], x.shape[dim] * count, *x.shape[dim + 1:])))
    if counts.shape != (x.shape[dim],):
        raise ShapeError(f"repeat: {counts.size} numbers of repeats for an axis of size {x.shape[dim]}", find_user_location())
    return FUNCTIONS[np.take](x, fixed(np.repeat(np.arange(x.shape[dim]), counts)), axis=dim)


@implements(np.tile)
def tile(A: Any, reps: Any) -> TracedArray:
    """Equivalent of `numpy.tile`."""
    x = as_traced(A)
    counts = tuple(operator.index(n) for n in reps) if isinstance(reps, (tuple, list, np.ndarray)) else (operator.index(reps),)
    ndim = max(x.ndim, len(counts))
    shape = (1,) * (ndim - x.ndim) + x.shape
    counts = (1,) * (ndim - len(counts)) + counts
    spread = lowering.reshape(x.value, [size for pair in shape for size in (1, pair)])
    full = lowering.broadcast(spread, [size for count, each in zip(counts, shape, strict=True) for size in (count, each)])
    return wrap(lowering.reshape(full, [count * each for count, each in zip(counts, shape, strict=True)]), scalar=False)


def _pairs(width: Any, ndim: int) -> list[tuple[int, int]]:
    """Return `pad_width` as NumPy reads it: a number, a pair, or a pair for each axis (or a dict of axes)."""
    if isinstance(width, dict):
        table: list[tuple[int, int]] = [(0, 0)] * ndim
        for axis, entry in width.items():
            table[normalize_axis(axis, ndim)] = tuple(np.broadcast_to(entry, (2,)).tolist())
        return table
    pairs = [tuple(pair) for pair in np.broadcast_to(width, (ndim, 2)).tolist()]
    if any(low < 0 or high < 0 for low, high in pairs):
        raise ValueError("index can't contain negative values")
    return pairs


_STATISTICS = {"mean": np.mean, "median": np.median, "maximum": np.max, "minimum": np.min}


@implements(np.pad)
def pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> TracedArray:
    """Equivalent of `numpy.pad`."""
    x = as_traced(array)
    pairs = _pairs(pad_width, x.ndim)
    if callable(mode):
        return _pad_by_function(x, pairs, mode, kwargs)
    taken = {"constant": {"constant_values"}, "linear_ramp": {"end_values"}, "reflect": {"reflect_type"}, "symmetric": {"reflect_type"},
             **{name: {"stat_length"} for name in _STATISTICS}}.get(mode, set())
    if mode not in (*_STATISTICS, "constant", "empty", "linear_ramp", "edge", "reflect", "symmetric", "wrap"):
        raise ValueError(f"mode '{mode}' is not supported")
    if kwargs.keys() - taken:
        raise ValueError(f"unsupported keyword arguments for mode '{mode}': {set(kwargs) - taken}")
    if mode in ("constant", "empty"):
        return _pad_constant(x, pairs, 0 if mode == "empty" else kwargs.get("constant_values", 0))
    odd = kwargs.get("reflect_type", "even") == "odd"
    for axis, pair in enumerate(pairs):
        if any(pair) and not x.shape[axis]:
            raise ValueError(f"can't extend empty axis {axis} using modes other than 'constant' or 'empty'")
        if mode == "linear_ramp":
            x = _around(x, axis, *_ramps(x, axis, pair, FUNCTIONS[np.broadcast_to](kwargs.get("end_values", 0), (x.ndim, 2))[axis]))
        elif mode in _STATISTICS:
            lengths = kwargs.get("stat_length")
            x = _around(x, axis, *_statistics(x, axis, pair, mode, (None, None) if lengths is None else _pairs(lengths, x.ndim)[axis]))
        elif odd and x.shape[axis] > 1:
            x = _reflected(x, axis, pair, mode == "symmetric")
        elif any(pair):
            indices = np.pad(np.arange(x.shape[axis]), pair, mode=mode)
            x = FUNCTIONS[np.take](x, fixed(indices), axis=axis)
    return wrap(x.value, scalar=False)


def _around(x: TracedArray, axis: int, before: TracedArray | None, after: TracedArray | None) -> TracedArray:
    parts = [FUNCTIONS["astype"](part, x.dtype) for part in (before, x, after) if part is not None]
    return concatenate(parts, axis)     # type: ignore[no-any-return]


def _end(x: TracedArray, axis: int, side: int, count: int = 1) -> TracedArray:
    """The first or last elements along an axis."""
    size = x.shape[axis]
    return x[(*(slice(None),) * axis, slice(0, count) if side == 0 else slice(size - count, size))]       # type: ignore[no-any-return]


def _ramps(x: TracedArray, axis: int, pair: tuple[int, int], ends: TracedArray) -> list[TracedArray | None]:
    """Numbers that go in a straight line from the elements at both ends to the given numbers."""
    ramps: list[TracedArray | None] = []
    for side, width in enumerate(pair):
        edge = FUNCTIONS[np.squeeze](_end(x, axis, side), axis=axis)
        ramp = FUNCTIONS[np.linspace](ends[side], edge, width, endpoint=False, dtype=x.dtype, axis=axis)
        ramps.append(FUNCTIONS[np.flip](ramp, axis) if side else ramp)
    return ramps


def _statistics(x: TracedArray, axis: int, pair: tuple[int, int], mode: str, lengths: Sequence[int | None]) -> list[TracedArray | None]:
    """A statistic of the elements at both ends, repeated."""
    values: list[TracedArray | None] = []
    for side, (width, length) in enumerate(zip(pair, lengths, strict=True)):
        size = x.shape[axis]
        if length == 0 and mode in ("maximum", "minimum"):
            raise ValueError("stat_length of 0 yields no value for padding")
        value = FUNCTIONS[_STATISTICS[mode]](_end(x, axis, side, size if length is None else min(length, size)), axis=axis, keepdims=True)
        value = FUNCTIONS[np.round](value) if x.dtype.kind in "iu" and is_float(value.dtype) else value
        values.append(FUNCTIONS[np.repeat](value, width, axis))
    return values


def _reflected(x: TracedArray, axis: int, pair: tuple[int, int], with_edge: bool) -> TracedArray:
    """Elements reflected at both ends, in the point at the end; again and again if there are few."""
    left, right = pair
    skipped = 0 if with_edge else 1
    while left or right:
        width = x.shape[axis] - skipped
        parts = []
        for side, wanted in enumerate((left, right)):
            count = min(wanted, width)
            inner = _end(x, axis, side, count + skipped)
            kept = _end(inner, axis, 1 - side, count)
            parts.append(_end(x, axis, side) * 2 - FUNCTIONS[np.flip](kept, axis))
        x = _around(x, axis, *parts)
        left, right = left - min(left, width), right - min(right, width)
    return x


def _pad_by_function(x: TracedArray, pairs: Sequence[tuple[int, int]], function: Any, kwargs: dict[str, Any]) -> TracedArray:
    """Call the user's function on each line of the array, in which it writes the margins."""
    padded = _pad_constant(x, pairs, 0)
    for axis, pair in enumerate(pairs):
        lines = FUNCTIONS[np.moveaxis](padded, axis, -1)
        for place in np.ndindex(*lines.shape[:-1]):
            function(lines[place], pair, axis, kwargs)
    return padded


def _pad_constant(x: TracedArray, pairs: Sequence[tuple[int, int]], values: Any) -> TracedArray:
    if issubclass(type(values), (bool, int, float, np.generic)):
        low, high = zip(*pairs, strict=True) if pairs else ((), ())
        number = np.asarray(values).astype(x.dtype).item()
        return wrap(ops.pad(x.value, low=low, high=high, interior=(0,) * x.ndim, value=number), scalar=False)
    table = FUNCTIONS[np.broadcast_to](values, (x.ndim, 2))
    value: Value = x.value
    for axis, pair in enumerate(pairs):
        pieces = []
        for side, width in enumerate(pair):
            shape = [width if i == axis else size for i, size in enumerate(value.type.shape)]
            pieces.append(lowering.broadcast(lowering.convert(table[axis, side].value, x.dtype), shape))
        value = ops.concatenate(pieces[0], value, pieces[1], axis=axis)
    return wrap(value)


@implements(np.roll)
def roll(a: Any, shift: Any, axis: Any = None) -> TracedArray:
    """Equivalent of `numpy.roll`."""
    x = as_traced(a)
    if axis is None:
        total = FUNCTIONS[np.sum](shift) if contains_traced(shift) else int(np.sum(shift))
        return reshape_to(roll(ravel(x), total, 0), x.shape)
    axes = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    if contains_traced(shift):
        shifts = FUNCTIONS[np.broadcast_to](shift, np.broadcast_shapes(as_traced(shift).shape, (len(axes),)))
        for place, dim in enumerate(axes * (shifts.size // len(axes))):
            size = x.shape[normalize_axis(dim, x.ndim)]
            index = wrap(lowering.iota(I64, (size,), 0), scalar=False) - FUNCTIONS["astype"](shifts[place], I64)
            x = FUNCTIONS[np.take](x, index % max(size, 1), axis=dim)
        return wrap(x.value, scalar=False)
    pairs = np.broadcast(np.asarray(shift), np.asarray(axes))
    value = x.value
    for distance, dim in pairs:
        dim = normalize_axis(int(dim), x.ndim)
        size = x.shape[dim]
        cut = -int(distance) % size if size else 0
        if cut:
            value = ops.concatenate(lowering.slice_axis(value, dim, cut, size), lowering.slice_axis(value, dim, 0, cut), axis=dim)
    return wrap(value, scalar=False)


@implements(np.meshgrid)
def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[TracedArray, ...]:
    """Equivalent of `numpy.meshgrid`; with `copy=False` views, those that repeat elements read-only."""
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    vectors = [reshape_to(x, (x.size,)) for x in map(as_array, xi)]
    indices = list(range(len(vectors)))
    if indexing == "xy" and len(vectors) > 1:
        indices[:2] = [1, 0]
    grids = [reshape_to(x, [x.size if i == dim else 1 for i in range(len(vectors))]) for x, dim in zip(vectors, indices, strict=True)]
    if not sparse:
        grids = list(broadcast_arrays(*grids))
    return tuple(wrap(grid.value, scalar=False) if copy else grid for grid in grids)


@implements(np.trapezoid if hasattr(np, "trapezoid") else np.trapz)     # type: ignore[attr-defined]
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """Equivalent of `numpy.trapezoid`."""
    values = moveaxis(y, axis, -1)
    width = dx if x is None else FUNCTIONS[np.diff](x if as_traced(x).ndim == 1 else moveaxis(x, axis, -1))
    return FUNCTIONS[np.sum](width * (values[..., 1:] + values[..., :-1]) / 2.0, axis=-1)


@implements(np.kron)
def kron(a: Any, b: Any) -> TracedArray:
    """Equivalent of `numpy.kron`."""
    x, y = as_traced(a), as_traced(b)
    ndim = max(x.ndim, y.ndim)
    left, right = (1,) * (ndim - x.ndim) + x.shape, (1,) * (ndim - y.ndim) + y.shape
    product = reshape_to(x, [size for each in left for size in (each, 1)]) * reshape_to(y, [size for each in right for size in (1, each)])
    return reshape_to(product, [m * n for m, n in zip(left, right, strict=True)])


@implements(np.select)
def select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    """Equivalent of `numpy.select`."""
    if len(condlist) != len(choicelist) or not condlist:
        raise ValueError("list of cases must be same length as list of conditions, and not empty")
    dtype = common_dtype([as_operand(choice) for choice in (*choicelist, default)])      # of all choices at once, not of each pair
    result, *choices = (as_traced(choice).astype(dtype) for choice in (default, *reversed(choicelist)))
    for condition, choice in zip(reversed(condlist), choices, strict=True):
        result = FUNCTIONS[np.where](condition, choice, result)
    return result
