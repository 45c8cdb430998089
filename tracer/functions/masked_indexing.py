"""`x[mask]`, `x[mask] = v` and the indices of what is not zero, for masks that depend on values.

A mask makes a masked array, see `MaskedArray`; a write is a choice between two arrays. What cannot be done so asks for the count, and the
mask becomes indices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.errors import DTypeError
from adjit.ir.graph import Value
from adjit.ir.interpreter import ArrayValue
from adjit.ir.types import BOOL, I64
from adjit.tracer import lowering
from adjit.tracer.array import TracedArray, as_traced, contains_traced, wrap
from adjit.tracer.dispatch import implements
from adjit.tracer.functions import indexing, shapes, ufuncs
from adjit.tracer.functions.indexing import check_mask, fitted, freeze
from adjit.tracer.functions.masking import behind, elementwise_rule, fits, rule, whole_of
from adjit.tracer.functions.shapes import as_array, normalize_axis, ravel
from adjit.tracer.masked_array import (
    MaskedArray,
    checked_index,
    chosen_places,
    is_lazy,
    masked_array,
    ranks,
    same_mask,
    spread,
    traced_count,
    vector_mask,
)
from adjit.tracer.registry import FUNCTIONS
from adjit.tracer.user_location import find_user_location, is_within_update

# -- reading


def _bare(x: Any) -> bool:
    return isinstance(x, TracedArray) and x.dtype == BOOL and x.ndim > 0


def _whole_mask(items: Sequence[Any]) -> TracedArray | None:
    """Mask whose places all of `items` are, in order."""
    first = items[0]
    if not is_lazy(first) or first.key is None or len(first.key[1]) != len(items):
        return None
    whole = all(is_lazy(item) and item.key == (axis, first.key[1]) and same_mask(item.mask, first.mask) for axis, item in enumerate(items))
    return wrap(lowering.reshape(first.mask, first.key[1]), scalar=False) if whole else None


def _index_items(x: TracedArray, index: Any) -> list[Any] | None:
    """Return the items of an index with one mask or masked index, an entry for each axis; None if there is no such thing in it."""
    items = list(index) if isinstance(index, tuple) else [index]
    places = [position for position, item in enumerate(items) if is_lazy(item) or _bare(item)]
    if not places:
        return None
    if places == list(range(places[0], places[-1] + 1)):
        mask = _whole_mask([items[place] for place in places])
        if mask is not None:
            items[places[0]:places[-1] + 1] = [mask]
    used = sum((item.ndim if _bare(item) else 1) for item in items if item is not None and item is not Ellipsis)
    if used > x.ndim or sum(item is Ellipsis for item in items) > 1:
        return None
    at = next((position for position, item in enumerate(items) if item is Ellipsis), len(items))
    return [*items[:at], *(slice(None),) * (x.ndim - used), *items[at + 1:]]


class _Place:
    """Where one mask of an index chooses: `basic`, the index with all of the mask's axes left whole, and the first of them in the view that
    `basic` gives; `moved`, whether NumPy puts the chosen elements first."""

    def __init__(self, x: TracedArray, items: list[Any], at: int):
        mask = items[at]
        before = items[:at]
        first = sum(item.ndim if _bare(item) else 1 for item in before if item is not None)
        if mask.shape != x.shape[first:first + mask.ndim]:
            check_mask(mask.shape, x.shape, first)
        self.mask = mask
        self.basic = (*before, *(slice(None),) * mask.ndim, *items[at + 1:])
        self.axis = sum(not _is_integer(item) for item in before)
        advanced = [place for place, item in enumerate(items) if place == at or _is_integer(item)]
        self.moved = advanced != list(range(advanced[0], advanced[0] + len(advanced))) and self.axis > 0

    def flat(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Shape with the axes of the mask as one."""
        return (*shape[:self.axis], self.mask.size, *shape[self.axis + self.mask.ndim:])


def _is_integer(item: Any) -> bool:
    return not isinstance(item, (slice, TracedArray)) and item is not None and item is not Ellipsis


def _is_basic(item: Any) -> bool:
    return item is None or isinstance(item, slice) or (not isinstance(item, (bool, np.bool_, list, TracedArray)) and not np.ndim(item)
                                                       and hasattr(item, "__index__"))


def _place(x: TracedArray, items: list[Any]) -> _Place | None:
    """Return the place of the only mask of an index; None for any other index."""
    masks = [place for place, item in enumerate(items) if _bare(item)]
    if len(masks) != 1 or is_lazy(items[masks[0]]) or not all(_is_basic(item) for place, item in enumerate(items) if place != masks[0]):
        return None
    return _Place(x, items, masks[0])


def _chosen(x: TracedArray, items: list[Any]) -> Any:
    place = _place(x, items)
    if place is not None:
        part = _plain_getitem(x, place.basic) if place.basic else x
        whole = wrap(lowering.reshape(part.value, place.flat(part.shape)), scalar=False)
        if place.moved:
            whole = wrap(shapes.moveaxis(whole, place.axis, 0).value)
        return masked_array(whole, vector_mask(place.mask), 0 if place.moved else place.axis)
    places = [at for at, item in enumerate(items) if is_lazy(item)]
    first = items[places[0]] if places else None
    if first is None or first.dtype.kind not in "iu" or first.ndim != 1 or not all(fits(items[at], first) for at in places):
        return NotImplemented
    if not all(_is_basic(item) for at, item in enumerate(items) if at not in places):
        return NotImplemented
    axes = [sum(item is not None for item in items[:at]) for at in places]
    if not all(x.shape[axis] for axis in axes):
        return NotImplemented
    advanced = [at for at, item in enumerate(items) if at in places or _is_integer(item)]
    in_front = advanced != list(range(advanced[0], advanced[0] + len(advanced)))
    axis = 0 if in_front else sum(not _is_integer(item) for item in items[:places[0]])
    whole = _plain_getitem(x, tuple(item.filled(0) if is_lazy(item) else item for item in items))
    return first.alike(wrap(whole.value, scalar=False), axis)


def _part(x: MaskedArray, index: Any) -> Any:
    """Part of what a mask chose."""
    items = list(index) if isinstance(index, tuple) else [index]
    if len(items) == 1 and is_lazy(items[0]) and items[0].dtype == BOOL and items[0].ndim == 1 and _fits_rows(items[0], x):
        return masked_array(wrap(x.whole.value, scalar=False), ops.logical_and(x.mask, items[0].whole.value), x.axis)
    if not all(item is Ellipsis or (_is_basic(item) and item is not None) or _is_number(item) for item in items):
        return NotImplemented
    if len(items) > x.ndim + any(item is Ellipsis for item in items):
        return NotImplemented
    at = next((position for position, item in enumerate(items) if item is Ellipsis), len(items))
    kept = at < len(items)
    entries = [*items[:at], *(slice(None),) * (x.ndim - len(items) + kept), *items[at + kept:]]
    chosen = entries[x.axis]
    if isinstance(chosen, slice):
        if x.ndim == 1 and chosen != slice(None):
            return _sliced(x, chosen)
        if chosen != slice(None) or any(map(_is_number, entries)):
            return NotImplemented
        axis = sum(isinstance(entry, slice) for entry in entries[:x.axis])
        return x.alike(_plain_getitem(x.whole, tuple(entries)), axis, view=True)
    if any(isinstance(entry, TracedArray) for at, entry in enumerate(entries) if at != x.axis):
        return NotImplemented
    entries[x.axis] = wrap(_nth(x.mask, chosen))
    return _plain_getitem(x.whole, (*entries, ...) if kept else tuple(entries))


def _sliced(x: MaskedArray, part: slice) -> Any:
    """`z[::-1]`, and `z[k:]`, `z[:-k]`, `z[j:-k]`: the chosen elements come first, and the count is less by the elements left out."""
    start, stop = part.start or 0, part.stop or 0
    if part.step == -1 and part.start is part.stop is None:
        whole, mask = shapes.flip(x.whole), ops.flip(x.mask, axes=(0,))
        x.shared = True
        result = masked_array(whole, mask)
        result.shared = True
        return result
    if part.step not in (None, 1) or not all(isinstance(bound, int) for bound in (start, stop)) or start < 0 or stop > 0 or part.stop == 0:
        return NotImplemented
    size = max(x.mask.type.shape[0] - start + stop, 0)
    places = lowering.slice_axis(chosen_places(x.mask), 0, min(start, x.mask.type.shape[0]), min(start, x.mask.type.shape[0]) + size)
    count = ops.subtract(traced_count(x.mask), lowering.constant(start - stop, I64))
    kept = ops.less(lowering.iota(I64, (size,), 0), lowering.broadcast(count, (size,)))
    x.scope.counts[kept] = count
    x.whole.writable = False        # NumPy has a view here: neither of both is written to from now on
    part_of = masked_array(wrap(ops.take(x.whole.value, places, axis=0), scalar=False, writable=False), kept)
    x.shared = part_of.shared = True
    return part_of


def _is_number(item: Any) -> bool:
    return isinstance(item, TracedArray) and item.dtype.kind in "iu" and not item.ndim


def _fits_rows(k: MaskedArray, x: MaskedArray) -> bool:
    return x.axis == 0 and k.axis == 0 and same_mask(k.mask, x.mask)


def _nth(mask: Value, index: Any) -> Value:
    """Place of the chosen element with this number; `IndexError` at run time where there are not as many."""
    size, count = mask.type.shape[0], traced_count(mask)
    number = lowering.convert(as_traced(index).value, I64)
    zero = ops.full_like(number, 0)
    number = ops.select(ops.less(number, zero), ops.add(number, count), number)
    valid = ops.logical_and(ops.greater_equal(number, zero), ops.less(number, count))
    hit = ops.equal(ranks(mask), lowering.broadcast(number, (size,))) if size else mask
    place = ops.argmax(ops.logical_and(hit, mask), axis=0) if size else zero
    return checked_index(place, valid, size)


_plain_getitem, _plain_setitem = behind(FUNCTIONS["getitem"]), behind(FUNCTIONS["setitem"])


def _ordinary(x: TracedArray, index: Any) -> Any:
    """Index in which every mask has become indices; asks for the counts."""
    items = index if isinstance(index, tuple) else (index,)
    if not any(map(_bare, items)):
        return index
    axes = indexing.first_axes(items, x.ndim)
    for item, axis in zip(items, axes, strict=True):
        if _bare(item):
            check_mask(item.shape, x.shape, axis)
    return tuple(part for item in items for part in (nonzero_of(item) if _bare(item) else (item,)))


def _with_masks(x: Any, index: Any) -> Any:
    """Index in which lists with traced bools are traced arrays."""
    if isinstance(index, list) and contains_traced(index):
        return as_traced(index)
    return tuple(_with_masks(x, item) for item in index) if isinstance(index, tuple) else index


def _is_number_mask(item: Any) -> bool:
    return isinstance(item, TracedArray) and item.dtype == BOOL and not item.ndim


def _with_vectors(x: TracedArray, index: Any) -> tuple[TracedArray, Any]:
    """A view and an index in which a traced bool is a mask of one element, along an axis of its own."""
    view, items = (x, index) if is_lazy(x) else indexing.with_axes_for(_is_number_mask, x, index)
    if view is x:
        return x, index
    return view, tuple(wrap(vector_mask(item), scalar=False) if _is_number_mask(item) else item for item in items)


@implements("getitem")
def getitem(x: TracedArray, index: Any) -> TracedArray:
    """Return `x[index]`: of a traced mask a masked array, else as `indexing.getitem` says."""
    x, index = _with_vectors(x, _with_masks(x, index))
    if is_lazy(x):
        writes = isinstance(index, slice) and is_within_update()        # NumPy has a view here: written to, it needs the count
        part = NotImplemented if writes else _part(x, index)      # type: ignore[arg-type]
        if part is not NotImplemented:
            return part     # type: ignore[no-any-return]
    elif not isinstance(x.value, ArrayValue):
        items = _index_items(x, index)
        chosen = NotImplemented if items is None else _chosen(x, items)
        if chosen is not NotImplemented:
            return chosen       # type: ignore[no-any-return]
    return _plain_getitem(x, _ordinary(x, index))     # type: ignore[no-any-return]


# -- writing


@implements("setitem")
def setitem(x: TracedArray, index: Any, new: Any) -> None:
    """Assign `x[index] = new`, where a mask chooses, or as `indexing.setitem` does."""
    index = _with_masks(x, index)
    if not x.immutable:
        x, index = _with_vectors(x, index)
    if is_lazy(x):
        x.check_writable()      # type: ignore[attr-defined]
        if _set_part(x, index, new):        # type: ignore[arg-type]
            return
    elif not x.immutable and not isinstance(x.value, ArrayValue):
        items = _index_items(x, index)
        place = None if items is None else _place(x, items)
        if place is not None and _set_chosen(x, place, new):
            return
    _plain_setitem(x, _ordinary(x, index), new)


def _set_chosen(x: TracedArray, place: _Place, new: Any) -> bool:
    target = _plain_getitem(x, (*place.basic, ...))
    shape, mask = target.shape, vector_mask(place.mask)
    flat = place.flat(shape)
    after = len(flat) - place.axis - 1
    new = as_traced(new) if isinstance(new, (list, tuple, np.ndarray)) else new
    ndim = new.ndim if isinstance(new, TracedArray) else 0
    if is_lazy(new) and ndim == new.axis + after + 1 and (not place.moved or not new.axis) and same_mask(new.mask, mask):
        whole = new.whole
        if place.moved and ndim == len(flat):
            whole = shapes.moveaxis(whole, 0, place.axis)
        elif place.moved and place.axis:
            return False
    elif is_lazy(new) and (new.axis or place.moved or place.axis or new.ndim > after + 1 or new.ndim <= after):
        return False
    elif ndim > after and (is_lazy(new) or new.shape[ndim - after - 1] != 1):
        if place.axis or place.moved or ndim != after + 1:
            return False
        whole = _in_places(new, mask)
        if whole is None:
            return False
    else:
        if place.moved and ndim:
            return False
        whole = new
    wanted = wrap(lowering.reshape(target.value, flat), scalar=False)
    value = ops.select(spread(mask, flat, place.axis), fitted(whole, wanted), wanted.value)
    target.assign(lowering.reshape(value, shape))
    return True


def _in_places(table: TracedArray, mask: Value) -> TracedArray | None:
    """Put the rows of `table` in the places of the mask, in order; at run time `IndexError` is raised if there are more or fewer places."""
    if is_lazy(table):
        assert isinstance(table, MaskedArray)
        size, count = table.mask.type.shape[0], traced_count(table.mask)
        rows = ops.take(table.whole.value, chosen_places(table.mask), axis=0) if size else table.whole.value
    else:
        size, count, rows = table.shape[0], lowering.constant(table.shape[0], I64), table.value
    if not size or not mask.type.shape[0]:
        return None
    order = ranks(mask)
    zero = ops.full_like(order, 0)
    order = ops.minimum(ops.maximum(order, zero), ops.full_like(order, size - 1))
    valid = lowering.broadcast(ops.equal(traced_count(mask), count), order.type.shape)
    return wrap(ops.take(rows, checked_index(order, valid, size), axis=0), scalar=False)


def _set_part(x: MaskedArray, index: Any, new: Any) -> bool:
    """Write to a part of what a mask chose, which is a copy."""
    items = index if isinstance(index, tuple) else (index,)
    if not items or all(item is Ellipsis or (isinstance(item, slice) and item == slice(None)) for item in items):
        if new is x:
            return True
        if not fits(new, x) or isinstance(new, (list, tuple)):
            return False
        value = fitted(whole_of(new), x.whole)
        x.whole.assign(ops.select(x.spread_mask(), value, x.whole.value) if x.through else value)
        return True
    if len(items) == 1 and is_lazy(items[0]) and items[0].dtype == BOOL and items[0].ndim == 1 and _fits_rows(items[0], x):
        joined = ops.logical_and(x.mask, items[0].whole.value)
        if is_lazy(new):
            if new.axis != 0 or not same_mask(new.mask, joined) or new.ndim != x.ndim:
                return False
        elif isinstance(new, (list, tuple)) or (np.ndim(new) >= x.ndim and np.shape(new)[0] != 1):
            return False
        mask = spread(joined, x.whole.shape, 0)
        x.whole.assign(ops.select(mask, fitted(whole_of(new), x.whole), x.whole.value))
        return True
    is_slice = len(items) == 1 and isinstance(items[0], slice)      # at places behind the mask, which the count decides
    part = _part(x, index) if not is_slice and all(item is Ellipsis or _is_basic(item) for item in items) else NotImplemented
    if part is NotImplemented or not is_lazy(part) or not fits(new, part):
        return False
    if is_lazy(new) and new.whole.alias is not None and new.whole.alias.base is part.whole.alias.base:
        return True         # z[:, 0] += v wrote through the view
    part.whole.assign(fitted(whole_of(new), part.whole))
    return True


# -- indices of what is not zero


def nonzero_of(x: TracedArray) -> tuple[TracedArray, ...]:
    """Indices of the elements that are not zero, one masked array for each axis."""
    mask = vector_mask(x)
    if isinstance(mask, ArrayValue):
        return tuple(as_traced(part) for part in np.nonzero(mask.array.reshape(x.shape)))
    indices = (lowering.reshape(lowering.iota(I64, x.shape, axis), (x.size,)) for axis in range(x.ndim))
    return tuple(masked_array(wrap(index, scalar=False), mask, 0, (axis, x.shape)) for axis, index in enumerate(indices))


@implements(np.nonzero)
def nonzero(a: Any) -> tuple[TracedArray, ...]:
    """Equivalent of `numpy.nonzero`."""
    x = as_traced(a)
    if not x.ndim:
        raise ValueError("Calling nonzero on 0d arrays is not allowed. Use np.atleast_1d(scalar).nonzero() instead.")
    return nonzero_of(x)


@implements(np.flatnonzero)
def flatnonzero(a: Any) -> TracedArray:
    """Equivalent of `numpy.flatnonzero`."""
    return nonzero_of(ravel(a))[0]


@implements(np.argwhere)
def argwhere(a: Any) -> TracedArray:
    """Equivalent of `numpy.argwhere`."""
    x = as_array(a)
    if not x.ndim:
        raise DTypeError("argwhere of an array of no dimension", find_user_location(), hint="np.atleast_1d makes it a vector")
    parts = nonzero_of(x)
    if not is_lazy(parts[0]):
        return FUNCTIONS[np.stack](parts, axis=1)       # type: ignore[no-any-return]
    whole = FUNCTIONS[np.stack]([whole_of(part) for part in parts], axis=1)
    return masked_array(whole, parts[0].mask)       # type: ignore[attr-defined]


def _condition(condition: Any) -> Any:
    """Vector of bools: an ordinary one, whose count is known, of what is not traced. The trace then holds for its content only."""
    if isinstance(condition, np.ndarray) and not contains_traced(condition):
        freeze(condition)
        return np.ravel(condition).astype(BOOL)
    if isinstance(condition, (list, tuple)) and all(isinstance(entry, (bool, int)) for entry in condition):
        return np.array(condition, BOOL)
    return wrap(vector_mask(as_traced(condition)), scalar=False)


@implements(np.extract)
def extract(condition: Any, arr: Any) -> TracedArray:
    """Equivalent of `numpy.extract`, where condition and array have as many elements."""
    return as_array(ravel(arr))[_condition(condition)]      # type: ignore[no-any-return]


@implements(np.compress)
def compress(condition: Any, a: Any, axis: int | None = None, out: Any = None) -> Any:
    """Equivalent of `numpy.compress`."""
    x = as_array(a)
    x, axis = (ravel(x), 0) if axis is None else (x, normalize_axis(axis, x.ndim))
    mask = _condition(condition)
    if mask.size < x.shape[axis]:
        x = x[(slice(None),) * axis + (slice(mask.size),)]
    return ufuncs.store(x[(slice(None),) * axis + (mask,)], out, name="compress")


_where = behind(ufuncs.where)


@implements(np.where)
def where(condition: Any, *choices: Any) -> Any:
    """Equivalent of `numpy.where`; the choice not taken gets cotangent 0. Python integers wrap around."""
    return _where(condition, *choices) if choices else nonzero(condition)


rule(where)(lambda function, args, kwargs: elementwise_rule(function, args, kwargs) if len(args) == 3 else NotImplemented)
