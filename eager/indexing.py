"""`tensor[index]`, `tensor[index] = value`, and methods that are these by another name."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from adjit.eager.apply import apply, apply_to_two
from adjit.eager.capture import traced
from adjit.eager.functional import elementwise, shapes
from adjit.eager.in_place import apply_in_place
from adjit.eager.tensor import Tensor
from adjit.tracer.array import TracedArray, wrap
from adjit.tracer.array_checks import is_ndarray
from adjit.tracer.functions.indexing import check_mask, first_axes, freeze
from adjit.tracer.registry import find
from adjit.tracer.scope import is_tracing


def get_item(self: Tensor, index: Any) -> Tensor:
    """Return `self[index]` by NumPy's rules: a view for integers, slices, None and an ellipsis, else a copy."""
    entries = index if type(index) is tuple else (index,)
    if type(index) is int or all(map(_is_basic, entries)):
        return apply_to_two(shapes.get_view, self, entries)
    entries = _index_arrays(entries, self.shape)
    if all(item is None or item is Ellipsis or isinstance(item, (slice, int)) for item in entries):
        return apply(shapes.get_view, (self, entries))
    return apply(shapes.get_item, (self, entries))


_BOUNDS = frozenset({int, type(None)})


def _is_basic(item: Any) -> bool:
    if type(item) is slice:
        return type(item.start) in _BOUNDS and type(item.stop) in _BOUNDS and type(item.step) in _BOUNDS
    return item is None or item is Ellipsis or type(item) is int


def _index_arrays(entries: tuple[Any, ...], shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Convert lists to arrays, numbers (also in slices) to integers, and masks whose values are known to the indices where they hold, so
    that one operation serves all masks with the same number of them. Raises `IndexingError` for a mask that does not fit `shape`."""
    found: list[Any] = []
    entries = tuple(np.asarray(item if item else np.zeros(0, np.int64)) if isinstance(item, list) else item for item in entries)
    for item, axis in zip(entries, first_axes(entries, len(shape)), strict=True):
        if isinstance(item, slice):
            item = slice(*(None if bound is None else operator.index(bound) for bound in (item.start, item.stop, item.step)))
        array = (traced(item) if is_tracing() else item.array) if isinstance(item, Tensor) else item
        if is_ndarray(array) and array.dtype == np.bool_ and array.ndim:
            check_mask(array.shape, shape, axis)
            freeze(array)
            found += np.nonzero(array)
        elif isinstance(array, TracedArray) and array.dtype == np.bool_ and array.ndim:
            check_mask(array.shape, shape, axis)
            found += [wrap(places.value, scalar=False) for places in find(np.nonzero)(array)]       # for this number of elements
        elif issubclass(type(array), (bool, np.bool_)) or (is_ndarray(array) and array.dtype == np.bool_):
            if is_ndarray(array):
                freeze(array)
            found.append(bool(array))
        elif not isinstance(array, (np.ndarray, TracedArray)) and hasattr(array, "__index__"):
            found.append(operator.index(array))
        else:
            found.append(item)
    return tuple(found)


def masked_select(self: Tensor, mask: Any) -> Tensor:
    """Return the elements where the mask holds, in one dimension; tensor and mask are broadcast against each other."""
    shape = np.broadcast_shapes(self.shape, mask.shape)
    return get_item(apply(shapes.expand, (self, shape)), np.broadcast_to(mask, shape))


def set_item(self: Tensor, index: Any, value: Any) -> None:
    """Assign `self[index] = value`: the memory is written to, and the graph records the new content."""
    entries = index if type(index) is tuple else (index,)
    if all(map(_is_basic, entries)):
        apply_in_place(elementwise.assign, apply(shapes.get_view, (self, entries)), (value,))
    elif len(entries) == 1 and _is_mask_of(entries[0], self) and not np.ndim(value.array if isinstance(value, Tensor) else value):
        apply_in_place(elementwise.masked_fill, self, (entries[0], value))
    else:
        apply_in_place(elementwise.set_item, self, (_index_arrays(entries, self.shape), value))


def _is_mask_of(item: Any, tensor: Tensor) -> bool:
    return isinstance(item, (Tensor, np.ndarray, TracedArray)) and item.dtype == np.bool_ and item.shape == tensor.shape
