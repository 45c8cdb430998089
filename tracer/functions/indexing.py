"""`x[index]` and `x[index] = v` by NumPy's rules: basic parts as views, integer arrays as takes and scatters."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from adjit.ir import ops
from adjit.ir.errors import ArgumentError, DTypeError, IndexingError, IntegerOverflowError, ShapeError, TraceError, UnsupportedError
from adjit.ir.graph import Value
from adjit.ir.ops.indexing import joined_index
from adjit.ir.thread_context import thread
from adjit.ir.types import BOOL, I64
from adjit.tracer import lowering
from adjit.tracer.array import (
    FRESH,
    ORDINARY,
    TracedArray,
    TracedNDArray,
    as_traced,
    contains_traced,
    known_value,
    view_of,
    wrap,
)
from adjit.tracer.array_checks import is_ndarray
from adjit.tracer.array_errors import scalar_refused
from adjit.tracer.caught_errors import is_caught
from adjit.tracer.dispatch import implements
from adjit.tracer.functions.ufuncs import store
from adjit.tracer.promotion import Casting, as_operand, shape_of, to_value
from adjit.tracer.registry import FUNCTIONS, find
from adjit.tracer.row_count import note_cut
from adjit.tracer.scope import active_scope
from adjit.tracer.user_location import find_user_location, is_within_call, is_within_subscript


class _Geometry(NamedTuple):
    """Basic index of arrays of one shape: start, stop and step of the slice, with positive steps; the axes to flip after it; the shape of
    the slice, and of the result, without dropped axes and with new ones; for each axis of the result the array's axis, None for new axes,
    and the factor of its stride."""

    bounds: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
    flipped: tuple[int, ...]
    part: tuple[int, ...]
    shape: tuple[int, ...]
    factors: tuple[tuple[int | None, int], ...]


def basic_part(x: TracedArray, index: Any) -> Any:
    """Return `x[index]` for integers and slices, without looking for anything else; NotImplemented for other indices and arrays."""
    items = _plain_items(x, index)
    if items is None:
        return NotImplemented
    geometry = _geometry(x._value.type.shape, items)
    if geometry.shape:
        return _view_at(x, geometry)
    return wrap(_read_at(x.value, geometry))


def write_basic_part(x: TracedArray, index: Any, new: Any) -> Any:
    """Assign `x[index] = new` as `basic_part` reads; NotImplemented where it does, and for anything but ordinary arrays and numbers."""
    if type(new) not in ORDINARY and type(new) not in (float, int):
        return NotImplemented
    items = _plain_items(x, index)
    if items is None or x.immutable or (type(new) in ORDINARY and new.alias is not None):
        return NotImplemented
    geometry = _geometry(x._value.type.shape, items)
    x.assign(_write_at(x.value, fitted(new, x, geometry.shape), geometry))
    return None


FUNCTIONS["basic part"], FUNCTIONS["write basic part"] = basic_part, write_basic_part


def _plain_items(x: TracedArray, index: Any) -> tuple[Any, ...] | None:
    """Items of an index of integers and slices, as `_geometry` takes them, within a trace; None for other indices and arrays."""
    context = thread.context
    if type(x) is not TracedNDArray or not context.scopes or context.scopes[-1].evaluates or context.row_probe is not None:
        return None
    ndim = len(x._value.type.shape)
    given = index if type(index) is tuple else (index,)
    if len(given) > ndim or not _PLAIN.issuperset(map(type, given)):
        return None
    return (*[_bounds_of(item) if type(item) is slice else item for item in given], *_WHOLE * (ndim - len(given)))


_WHOLE = ((None, None, None),)


@implements("getitem")
def getitem(x: TracedArray, index: Any) -> TracedArray:
    """Return `x[index]`: a view for basic indices, a new array for integer arrays; a new scalar if every axis has an integer index."""
    if x.scalar and type(index) is int:
        if not x.weak and is_within_subscript():
            raise IndexingError("invalid index to scalar variable.", find_user_location())
        # no IndexError: loops over what has no __iter__ end there, without a word
        raise DTypeError(f"iteration over a 0-d array, or an index into a scalar ({x.dtype})", find_user_location())
    x, index = _without_bools(x, index)
    entries = _expand(x, index)
    kept = any(item is Ellipsis for item in (index if isinstance(index, tuple) else (index,)))      # NumPy makes no scalars then
    if not any(_is_array(entry) for entry in entries):
        view = _basic_view(wrap(x.value, scalar=False) if x.immutable and kept else x, entries)
        return wrap(view.value, scalar=not view.shape and not kept) if _is_copied(index, view.shape) else view
    view, indices, in_front = _split(x, entries)
    numbers = all(isinstance(entry, TracedArray) and entry.scalar for entry in entries if _is_array(entry))
    if numbers and (kept or view.ndim > len(indices)):        # at a traced integer NumPy gives a view, too
        return _view_at_places(view, list(indices), in_front, entries)
    read, _ = _advanced(view.shape, indices, in_front)
    chosen = wrap(read(view.value), scalar=False if kept else None)
    if sum(size > 1 for size in chosen.shape) > 1 and view.ndim > len(indices) and (0 not in indices or not view.in_order):
        chosen.layout_known = False     # NumPy puts the axes of the indices first in memory, wherever they are in the shape
    return chosen


@implements("setitem")
def setitem(x: TracedArray, index: Any, new: Any) -> None:
    """Assign `x[index] = new`, converted to the dtype of `x`."""
    if x.immutable:
        raise scalar_refused(f"'numpy.{x.dtype.type.__name__}' object does not support item assignment")
    x, index = _without_bools(x, index)
    entries = _expand(x, index)
    if not any(_is_array(entry) for entry in entries):
        target = _basic_view(x, entries)
        if isinstance(new, TracedArray) and new.alias is not None and is_within_call("shuffle"):
            raise TraceError("shuffle swaps the rows of a traced array through views of it, which would double some and lose others",
                             find_user_location(), hint="take them in an order drawn outside, x[order], or within, with a key that is an "
                                                        "argument: x[aj.random.permutation(key, len(x))]")
        if not _already_written(target, new):
            target.assign(fitted(new, target))
        return
    view, indices, in_front = _split(x, entries)
    read, write = _advanced(view.shape, indices, in_front)
    if isinstance(new, TracedArray) and new.alias is not None and new.alias.key == _integer_key(entries) \
            and [place.value for place in new.alias.places] == [entry.value for entry in entries if _is_array(entry)]:
        base = new.alias.base.alias
        if base is not None and view.alias is not None and base.base is view.alias.base \
                and (base.key, base.shape) == (view.alias.key, view.alias.shape):
            return
    view.assign(write(view.value, fitted(new, view, read(view.value).type.shape)))


def _already_written(target: TracedArray, new: Any) -> bool:
    """True if the view was already written: `x[i] += v` writes through the view first, and then assigns the view to its own elements."""
    a, b = target.alias, new.alias if isinstance(new, TracedArray) else None
    return a is not None and b is not None and a.base is b.base and (a.key, a.shape) == (b.key, b.shape) and a.key is not None


def _integer_key(entries: list[Any]) -> object:
    """Key that is equal for views at traced integers of the same axes."""
    return "at", tuple(isinstance(entry, TracedArray) for entry in entries)


def _view_at_places(view: TracedArray, axes: list[int], in_front: bool, entries: list[Any]) -> TracedArray:
    """View at traced integers along these axes. They are read with the view: where ways of the program meet they may be others."""
    places = tuple(wrap(entry.value) for entry in entries if _is_array(entry))
    shape = view.shape

    def access() -> tuple[Callable[[Value], Value], Callable[[Value, Value], Value]]:
        indices = {axis: lowering.wrapped_index(place.value, shape[axis]) for axis, place in zip(axes, places, strict=True)}
        return _advanced(shape, indices, in_front)

    strides = tuple(stride for axis, stride in enumerate(view.steps) if axis not in axes)
    return view_of(view, lambda value: access()[0](value), lambda base, value: access()[1](base, value), strides, _integer_key(entries),
                   places=places)


def fitted(new: Any, target: TracedArray, shape: tuple[int, ...] | None = None) -> Value:
    """Return `new` as a value with the dtype of `target`, and with `shape` or the shape of `target`."""
    numbers = isinstance(new, (list, tuple)) and not contains_traced(new)
    operand = as_operand(_assigned(new, target.dtype) if numbers or type(new) is float else new)
    shape = target.shape if shape is None else shape
    have = shape_of(operand)
    while len(have) > len(shape) and have[0] == 1:      # NumPy drops leading axes of size 1 here
        have = have[1:]
    offset = len(shape) - len(have)
    if offset < 0 or any(size not in (1, want) for size, want in zip(have, shape[offset:], strict=True)):
        raise ShapeError(f"an array of shape {shape_of(operand)} cannot be assigned to elements of shape {shape}", find_user_location())
    if isinstance(operand, TracedArray):
        operand.check_fits(target.dtype)
        return lowering.broadcast(lowering.convert(lowering.reshape(operand.value, have), target.dtype), shape)
    return to_value(operand, target.dtype, shape)


def _assigned(numbers: Any, dtype: np.dtype) -> Any:
    """Convert Python numbers as an assignment to an array of `dtype` does: floats are truncated, integers have to fit."""
    try:
        converted = np.asarray(numbers, dtype)
    except OverflowError as error:
        raise IntegerOverflowError(str(error), find_user_location(), hint="convert the array with .astype to a wider dtype first") from None
    except ValueError as error:
        raise ArgumentError(str(error), find_user_location()) from None
    return converted if converted.ndim else converted[()]


# -- reading the index

def _is_array(entry: Any) -> bool:
    return isinstance(entry, (np.ndarray, TracedArray))


def _is_copied(index: Any, shape: tuple[int, ...]) -> bool:
    """True if NumPy copies the elements that a basic index chooses: a scalar, or anything chosen with an array of no dimension."""
    items = index if isinstance(index, tuple) else (index,)
    return any(map(is_ndarray, items)) or (not shape and not any(item is Ellipsis for item in items))


def _without_bools(x: TracedArray, index: Any) -> tuple[TracedArray, Any]:
    """A view and an index that has no single bools: True and False choose one row or none of a new axis, wherever they are."""
    view, items = with_axes_for(_is_bool, x, index)
    for item in items:
        if is_ndarray(item) and _is_bool(item):
            freeze(item)
    return view, index if view is x else tuple(fixed(np.zeros(int(item), np.int64)) if _is_bool(item) else item for item in items)


def with_axes_for(chooses: Callable[[Any], bool], x: TracedArray, index: Any) -> tuple[TracedArray, tuple[Any, ...]]:
    """A view with a new axis of length 1 where each item of an index that `chooses` names stands, and the items; `x` if there is none."""
    items = index if isinstance(index, tuple) else (index,)
    if not any(map(chooses, items)):
        return x, items
    axes = [axis for item, axis in zip(items, first_axes(items, x.ndim), strict=True) if chooses(item)]
    entries: list[Any] = [slice(None)] * x.ndim
    for axis in reversed(axes):
        entries.insert(axis, None)
    return _basic_view(wrap(x.value, scalar=False) if x.immutable else x, entries), items


def _is_bool(item: Any) -> bool:
    return issubclass(type(item), (bool, np.bool_)) or (is_ndarray(item) and not item.shape and item.dtype == np.bool_)


def _expand(x: TracedArray, index: Any) -> list[Any]:
    """Return one entry for each axis, and None for new axes: slices, integers, and integer arrays (plain or traced)."""
    given: Sequence[Any] = index if isinstance(index, tuple) else (index,)
    if len(given) <= x.ndim and _PLAIN.issuperset(map(type, given)):      # an int is no bool here
        return [*given, *[slice(None)] * (x.ndim - len(given))]
    items: list[Any] = []
    given = [(as_traced(item) if contains_traced(item) else fixed(np.asarray(item, dtype=None if item else np.int64)))
             if isinstance(item, list) else item for item in given]
    given = [fixed(np.asarray(item)) if type(item) in FRESH else item for item in given]        # its content is known
    for item, axis in zip(given, first_axes(given, x.ndim), strict=True):
        if is_ndarray(item) and item.dtype == np.bool_:
            items += _mask_indices(x, item, axis)
        elif is_ndarray(item) and not item.shape and item.dtype.kind in "iu":
            freeze(item)
            items.append(int(item))
        elif isinstance(item, TracedArray) and item.dtype.kind not in "iu":
            if item.dtype == BOOL:
                raise UnsupportedError("a traced bool chooses from what a traced mask chose", find_user_location(), "use np.where")
            raise IndexingError("arrays used as indices must be of integer (or boolean) type", find_user_location())
        elif is_ndarray(item) and item.dtype.kind not in "iu":
            raise IndexingError("arrays used as indices must be of integer (or boolean) type", find_user_location())
        elif item is None or item is Ellipsis or isinstance(item, (slice, np.ndarray, TracedArray)):
            items.append(item)
        else:
            try:
                items.append(operator.index(item))
            except TypeError:
                hint = _NO_COLUMNS if isinstance(item, str) else None
                raise IndexingError("only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean "
                                    "arrays are valid indices", find_user_location(), hint) from None
    positions = [position for position, item in enumerate(items) if item is Ellipsis]
    if len(positions) > 1:
        raise IndexingError("an index can only have a single ellipsis ('...')", find_user_location())
    used = sum(item is not None and item is not Ellipsis for item in items)
    if used > x.ndim:
        raise IndexingError(f"too many indices for array: array is {x.ndim}-dimensional, but {used} were indexed", find_user_location())
    fill = [slice(None)] * (x.ndim - used)
    at = positions[0] if positions else len(items)
    return [*items[:at], *fill, *items[at + 1:]]


_PLAIN = frozenset({int, slice})
_BOUNDS = frozenset({int, type(None)})


def first_axes(items: Sequence[Any], ndim: int) -> list[int]:
    """First axis of each item of an index."""
    widths = [0 if item is None or item is Ellipsis or type(item) is bool else
              getattr(item, "ndim", 1) if getattr(item, "dtype", None) == np.bool_ else 1 for item in items]
    axes = [0, *accumulate(widths)][:len(widths)]
    for position, item in enumerate(items):
        if item is Ellipsis:
            axes[position + 1:] = [axis + ndim - sum(widths) for axis in axes[position + 1:]]
    return axes


def check_mask(mask: tuple[int, ...], shape: tuple[int, ...], axis: int) -> None:
    """Raise `IndexingError` if the shape of a mask differs from the axes from `axis` on, which it chooses from."""
    axes = shape[axis:axis + len(mask)]
    if mask != axes:
        raise IndexingError(f"boolean index did not match indexed array: the mask has the shape {mask}, the "
                            f"{'axis' if len(mask) == 1 else 'axes'} from {axis} on {'has' if len(mask) == 1 else 'have'} the shape {axes} "
                            f"in the array of shape {shape}", find_user_location(),
                            hint="a mask has one element for each element of the axes that it chooses from; masks are not broadcast")


def _mask_indices(x: TracedArray, mask: np.ndarray, axis: int) -> list[np.ndarray]:
    """Convert a plain mask to integer arrays; the trace then holds for the mask's content only."""
    if mask.ndim == 0:
        raise UnsupportedError("indexing with a single bool is not supported", find_user_location(), "use np.where")
    freeze(mask)
    check_mask(mask.shape, x.shape, axis)
    return [fixed(positions) for positions in np.nonzero(mask)]


def freeze(array: np.ndarray) -> None:
    """Note that the content of a plain array decided something that is fixed in the graph: the trace holds for this content only."""
    scope = active_scope()
    if scope is not None and array.flags.writeable:
        scope.freeze(array)


# -- the basic part

_NO_COLUMNS = "a traced array has no columns: of a data frame that is an argument the array is left; pass its columns, a dict of arrays"


def _basic_view(x: TracedArray, entries: list[Any]) -> TracedArray:
    if thread.context.row_probe is not None:
        note_cut(x.shape, [entry for entry in entries if entry is not None])
    return _view_at(x, _geometry(x.shape, tuple([_bounds_of(entry) if type(entry) is slice else entry for entry in entries])))


def _view_at(x: TracedArray, geometry: _Geometry) -> TracedArray:
    def read(value: Value) -> Value:
        return _read_at(value, geometry)

    def write(base: Value, value: Value) -> Value:
        return _write_at(base, value, geometry)

    return view_of(x, read, write, _strides_of(x.steps, geometry.factors), (geometry.bounds, geometry.flipped, geometry.shape))


@lru_cache(maxsize=4096)
def _strides_of(steps: tuple[int, ...], factors: tuple[tuple[int | None, int], ...]) -> tuple[int, ...]:
    return tuple([1 if axis is None else steps[axis] * factor for axis, factor in factors])


def _read_at(value: Value, geometry: _Geometry) -> Value:
    start, stop, step = geometry.bounds
    if geometry.part != value.type.shape:
        value = ops.slice(value, start=start, stop=stop, step=step)
    return lowering.reshape(ops.flip(value, axes=geometry.flipped) if geometry.flipped else value, geometry.shape)


def _write_at(base: Value, value: Value, geometry: _Geometry) -> Value:
    if 0 in geometry.part:
        return base
    start, _, step = geometry.bounds
    value = lowering.reshape(value, geometry.part)
    value = ops.flip(value, axes=geometry.flipped) if geometry.flipped else value
    return value if geometry.part == base.type.shape else ops.update_slice(base, value, start=start, step=step)


def _bounds_of(entry: slice) -> tuple[int | None, int | None, int | None]:
    start, stop, step = entry.start, entry.stop, entry.step
    if type(start) in _BOUNDS and type(stop) in _BOUNDS and type(step) in _BOUNDS:
        return start, stop, step
    return (None if start is None else operator.index(start), None if stop is None else operator.index(stop),
            None if step is None else operator.index(step))


@lru_cache(maxsize=4096)
def _geometry(sizes: tuple[int, ...], items: tuple[Any, ...]) -> _Geometry:
    """Geometry of a basic index of an array of these sizes: integers, bounds of slices, and None for new axes."""
    start: list[int] = []
    stop: list[int] = []
    step: list[int] = []
    flipped: list[int] = []
    shape: list[int] = []
    factors: list[tuple[int | None, int]] = []
    for entry in items:
        axis = len(start)
        if entry is None:
            shape.append(1)
            factors.append((None, 1))
            continue
        if isinstance(entry, tuple):
            if entry[2] == 0:
                raise ValueError("slice step cannot be zero")
            first, last, stride = slice(*entry).indices(sizes[axis])
            shape.append(len(range(first, last, stride)))
            factors.append((axis, 1 if entry[2] is None else entry[2]))
        else:
            first = check_bounds(entry, sizes[axis], axis)
            last, stride = first + 1, 1
        count = len(range(first, last, stride))
        if stride < 0:
            first, stride = first + (count - 1) * stride, -stride
            if count > 1:
                flipped.append(axis)
        start.append(first if count else 0)
        stop.append(first + (count - 1) * stride + 1 if count else 0)
        step.append(stride if count > 1 else 1)
    bounds = tuple(start), tuple(stop), tuple(step)
    return _Geometry(bounds, tuple(flipped), tuple(len(range(*axis)) for axis in zip(*bounds, strict=True)), tuple(shape), tuple(factors))


def decide_bounds(index: Any, size: int, axis: int) -> None:
    """Raise `IndexingError` for a traced index that is out of bounds in this call, where the user's code catches that."""
    if isinstance(index, TracedArray) and is_caught(IndexError):
        outside = find(np.logical_or)(find(np.less)(index, -size), find(np.greater_equal)(index, size))
        if known_value(outside.any()):
            raise IndexingError(f"index is out of bounds for axis {axis} with size {size}", find_user_location())


def check_bounds(index: int, size: int, axis: int) -> int:
    """Return `index` counted from 0; raises `IndexingError`, as NumPy does."""
    if not -size <= index < size:
        raise IndexingError(f"index {index} is out of bounds for axis {axis} with size {size}", find_user_location())
    return index % size


# -- the advanced part

def _split(x: TracedArray, entries: list[Any]) -> tuple[TracedArray, dict[int, Any], bool]:
    """Return the basic index as a view, the index arrays by axis of that view, and whether their axes come first in the result.

    An integer between index arrays counts as one of them for the position of the result's axes.
    """
    positions = [position for position, entry in enumerate(entries) if _is_array(entry) or isinstance(entry, int)]
    in_front = positions != list(range(positions[0], positions[0] + len(positions)))
    view = _basic_view(x, [slice(None) if _is_array(entry) else entry for entry in entries])
    indices: dict[int, Any] = {}
    axis = axis_of_x = 0
    for entry in entries:
        if _is_array(entry):
            indices[axis] = as_index(entry, x.shape[axis_of_x], axis_of_x)
        axis += _is_array(entry) or not isinstance(entry, int)      # lifted numbers are both
        axis_of_x += entry is not None
    return view, indices, in_front


def fixed(indices: np.ndarray) -> np.ndarray:
    """Make an array of indices read-only: it is made here, and nobody can change it."""
    own = np.array(indices)
    own.flags.writeable = False
    return own


def as_index(entry: Any, size: int, axis: int) -> Value:
    """Convert an index array to i64 values; plain ones are checked now, as NumPy does."""
    decide_bounds(entry, size, axis)
    if is_ndarray(entry):
        if entry.size:
            check_bounds(int(entry.min()), size, axis)
            check_bounds(int(entry.max()), size, axis)
        if not entry.flags.writeable and entry.base is None:
            found: Value = FUNCTIONS["content of fresh"](np.where(entry < 0, entry + size, entry).astype(I64)).value
            return found
    return lowering.wrapped_index(as_traced(entry).value, size)


def _advanced(shape: tuple[int, ...], indices: dict[int, Value], in_front: bool
              ) -> tuple[Callable[[Value], Value], Callable[[Value, Value], Value]]:
    """Return functions that read and write the elements that index arrays choose in an array of `shape`: one take or scatter along one
    axis."""
    axes = list(indices)
    try:
        positions = lowering.broadcast_shapes(*(index.type.shape for index in indices.values()))
    except ValueError:
        shapes = ", ".join(str(index.type.shape) for index in indices.values())
        raise IndexingError(f"shape mismatch: indexing arrays could not be broadcast together with shapes {shapes}",
                            find_user_location()) from None
    position = 0 if in_front else axes[0]
    others = [axis for axis in range(len(shape)) if axis not in axes]
    order = (*others[:position], *axes, *others[position:])
    back = tuple(order.index(axis) for axis in range(len(order)))
    before, after = tuple(shape[i] for i in others[:position]), tuple(shape[i] for i in others[position:])
    joined = (*before, math.prod(shape[i] for i in axes), *after)
    linear = joined_index([lowering.broadcast(indices[axis], positions) for axis in axes], [shape[axis] for axis in axes])

    def arrange(value: Value) -> Value:
        return lowering.reshape(lowering.transpose(value, order), joined)

    def read(value: Value) -> Value:
        return ops.take(arrange(value), linear, axis=position)

    def write(base: Value, value: Value) -> Value:
        written = ops.scatter_set(arrange(base), linear, value, axis=position)
        return lowering.transpose(lowering.reshape(written, tuple(shape[axis] for axis in order)), back)

    return read, write


@implements(np.copyto)
def copyto(dst: Any, src: Any, casting: Casting = "same_kind", where: Any = True) -> None:
    """Equivalent of `numpy.copyto`."""
    if isinstance(dst, TracedArray) and dst.immutable:
        raise scalar_refused(f"copyto() argument 1 must be a numpy.ndarray, not numpy.{dst.dtype.type.__name__}")
    operand = as_operand(src)
    source = wrap(to_value(operand, dst.dtype, ())) if type(operand) is int and dst.dtype != BOOL else as_traced(operand)
    store(wrap(fitted(source, source, np.shape(dst))), dst, casting, "copyto", where)
