"""`tensor[index]`, `tensor[index] = value`, and methods that are these by another name."""

from __future__ import annotations

import operator
from typing import Any, NoReturn

import numpy as np

from adjit.eager.apply import apply, apply_in_python, machine_code
from adjit.eager.call import differentiable, hashable_index
from adjit.eager.capture import traced
from adjit.eager.device import CPU, device_of
from adjit.eager.functional import elementwise, shapes
from adjit.eager.in_place import apply_in_place
from adjit.eager.modes import modes, switches
from adjit.eager.tensor import Tensor
from adjit.eager.transfer import moved
from adjit.ir.errors import IndexingError
from adjit.tracer.array import TracedArray, as_traced, contains_traced, wrap
from adjit.tracer.array_checks import is_ndarray
from adjit.tracer.array_wrapper import DeviceLeaf
from adjit.tracer.functions.indexing import check_mask, freeze
from adjit.tracer.functions.shapes import normalize_axis
from adjit.tracer.registry import find
from adjit.tracer.scope import is_tracing
from adjit.tracer.user_location import find_user_location, warn_user


def get_item(self: Tensor, index: Any) -> Tensor:
    """Return `self[index]` by PyTorch's rules: integers, also tensors of one that have no dimensions, slices, None and an ellipsis take a
    view, of which arrays and masks then choose a copy of elements."""
    entries = index if type(index) is tuple else (index,)
    basic = entries if type(index) is int else hashable_index(entries)
    if basic is not None:
        if isinstance(self.array, DeviceLeaf):
            return _part(self, entries)
        known = machine_code.call
        made = None if known is None else known(shapes.get_view, self, basic)
        return apply_in_python(shapes.get_view, (self, entries)) if made is None else made
    array = index.array if isinstance(index, Tensor) else index
    if type(array) is np.ndarray and 0 < array.ndim <= self.array.ndim:
        if array.dtype == np.int64:
            return apply(shapes.get_item, (self, _beside(self, index)))
        if array.dtype == np.bool_ and array.shape == self.array.shape[:array.ndim] and not is_tracing():
            return apply(shapes.get_item, (self, np.flatnonzero(array), array.ndim))
    view, chosen = _split(self, entries)
    return apply(shapes.get_item, (view, chosen)) if chosen else view


_WHOLE = slice(None)
_EXACT = 1 << 53        # up to which each integer is a float64


def _part(self: Tensor, entries: tuple[Any, ...]) -> Tensor:
    """`self[entries]` of a tensor on a device, for integers, slices, None and an ellipsis. As programs are compiled there, the integers are
    operands, unless a gradient wants the view: a program for each place is faster then, and those that are out of range raise here."""
    shape = self.array.shape
    taken = sum(item is not None and item is not Ellipsis for item in entries)
    if is_tracing() or taken > len(shape) or entries.count(Ellipsis) > 1 or (modes.grad and differentiable(self)):
        return apply(shapes.get_view, (self, entries))
    parts: list[Any] = []
    starts: list[np.int64] = []
    for item in entries:
        size = 0 if item is Ellipsis or item is None else shape[sum(part is not None for part in parts)]
        if item is Ellipsis:
            parts += [()] * (len(shape) - taken)
        elif item is None or item == _WHOLE:
            parts.append(None if item is None else ())
        else:
            span = range(size)[item if isinstance(item, slice) else slice(item, item + 1 or None)]
            out_of_range = type(item) is int and not -size <= item < size
            if out_of_range or not span or span.step < 0:       # an error, no elements, or a reverse order
                return apply(shapes.get_view, (self, entries))
            parts.append((len(span) if isinstance(item, slice) else None, span.step))
            starts.append(np.int64(span.start))
    return apply(shapes.get_part, (self, tuple(parts), *starts)) if starts else apply(shapes.get_view, (self, entries))


def _split(self: Tensor, entries: tuple[Any, ...]) -> tuple[Tensor, tuple[Any, ...]]:
    """Return the view that the integers, slices and new axes of an index take, and the index of it that is left: whole axes and arrays,
    which NumPy and PyTorch understand alike. Masks whose values are known become the indices where they hold, so that one operation serves
    all masks with the same number of them. Raises `IndexingError` for masks that do not fit, and for too many indices."""
    if len(entries) == 1 and isinstance(entries[0], list) and any(
            item is None or item is Ellipsis or isinstance(item, (list, tuple, slice, Tensor)) for item in entries[0]):
        warn_user("a list with lists, slices or tensors in it is the same as a tuple here, as in PyTorch: x[[a, b]] is x[a, b]. Write "
                  "x[tuple(index)] for that, or x[aj.tensor(index)] for one array of indices")
        entries = tuple(entries[0])
    items = [_item(item) for item in entries]
    widths = [item.ndim if _is_mask(item) else 0 if item is None or item is Ellipsis else 1 for item in items]
    taken = sum(widths)
    if taken > self.ndim:
        raise IndexingError(f"too many indices for tensor of dimension {self.ndim}: {taken} were indexed", find_user_location())
    positions = [position for position, item in enumerate(items) if item is Ellipsis]
    if len(positions) > 1:
        raise IndexingError("an index can only have a single ellipsis ('...')", find_user_location())
    basic: list[Any] = []
    chosen: list[Any] = []      # for each axis of the view
    axis, has_new = 0, False
    for item, width in zip(items, widths, strict=True):
        if item is Ellipsis:
            width = self.ndim - taken
            basic += [_WHOLE] * width
            chosen += [_WHOLE] * width
        elif _is_mask(item):
            basic += [_WHOLE] * width if width else [None]
            has_new = has_new or not width
            if width:
                check_mask(item.shape, self.shape, axis)
            chosen += _places(item)
        elif _has_dimensions(item):
            basic.append(_WHOLE)
            chosen.append(_beside(self, item))
        else:
            basic.append(item)
            if item is None or isinstance(item, slice):
                chosen.append(_WHOLE)
        axis += width
    while chosen and chosen[-1] is _WHOLE:
        chosen.pop()
    if chosen and not has_new and all(item is _WHOLE for item in basic):
        return self, tuple(chosen)
    if not any(isinstance(item, (Tensor, TracedArray)) for item in basic):
        return apply(shapes.get_view, (self, tuple(basic))), tuple(chosen)
    view: Tensor = apply(shapes.get_view_at, (self, tuple(basic)))
    if view._view is not None:
        view._view.at = tuple(traced(item) if isinstance(item, Tensor) else item for item in basic)
    return view, tuple(chosen)


def _beside(self: Tensor, index: Any) -> Any:
    """An index or a mask on the CPU, on the card for a tensor there. The reverse is an error, as in PyTorch."""
    return index if device_of(self.array) is CPU else _as_content(self, index)


def _as_content(self: Tensor, value: Any) -> Any:
    """A value on the device of the tensor that it is written to."""
    return moved(value, device_of(self.array)) if switches.devices and isinstance(value, Tensor) and not is_tracing() else value


def _number(self: Tensor, value: Any) -> Any:
    """A number of Python's that is written to a tensor on a device, as an operand: one program for all numbers."""
    kind, own = type(value), self.dtype
    if is_tracing() or kind not in (int, float):
        return value
    if own.kind == "f" and (kind is float or abs(value) <= _EXACT):
        return np.float64(value)
    return np.int64(value) if kind is int and own.kind == "i" and np.iinfo(own).min <= value <= np.iinfo(own).max else value


def _item(item: Any) -> Any:
    """An item of an index: None, an ellipsis, a slice of integers, an integer, an array or tensor of integers or a mask; an integer that is
    not known while tracing stays a tensor, or a traced array, without dimensions."""
    if item is None or item is Ellipsis or type(item) is int:
        return item
    if isinstance(item, slice):
        return slice(*(None if bound is None else operator.index(bound) for bound in (item.start, item.stop, item.step)))
    if isinstance(item, (list, tuple, range)):
        if contains_traced(item):
            return as_traced(item)
        return np.asarray(item if len(item) else np.zeros(0, np.int64))
    if isinstance(item, (bool, np.bool_)):
        return np.asarray(item)
    array = (traced(item) if is_tracing() else item.array) if isinstance(item, Tensor) else item
    if isinstance(array, TracedArray):
        if array.dtype == np.uint8:
            return _bytes_as_mask(array)
        return item if array.dtype.kind in "iu" else array
    if isinstance(array, DeviceLeaf):
        if array.ndim and array.dtype.kind in "iu" and array.dtype != np.uint8:
            return item
        array = array.copied()      # how many elements a mask chooses is found by the processor
    if not is_ndarray(array):
        return operator.index(array) if hasattr(array, "__index__") else _refused(array)
    if array.dtype == np.uint8:
        array = _bytes_as_mask(array)
    if array.dtype == np.bool_:
        freeze(array)
    elif array.dtype.kind not in "iu":
        _refused(item)
    elif not array.ndim:
        freeze(array)
        return int(array)
    return array if array.dtype == np.bool_ else item


def _refused(item: Any) -> NoReturn:
    kind = f"an array of {item.dtype}" if hasattr(item, "dtype") else type(item).__name__
    raise IndexingError(f"tensors are indexed by integers, slices, an ellipsis, None, and arrays of integers or bools, not by {kind}",
                        find_user_location())


def _bytes_as_mask(array: Any) -> Any:
    warn_user("a tensor of dtype uint8 as an index is a mask, as in PyTorch, where that is deprecated: write x[mask.bool()], or "
              "x[index.long()] if its numbers are positions")
    return array != 0


def _is_mask(item: Any) -> bool:
    return isinstance(item, (np.ndarray, TracedArray)) and item.dtype == np.bool_


def _has_dimensions(item: Any) -> bool:
    return isinstance(item, (Tensor, np.ndarray, TracedArray)) and bool(item.shape)


def _places(mask: Any) -> list[Any]:
    """Indices where a mask holds, an array for each of its axes; for a mask without dimensions as for one of one element."""
    if isinstance(mask, TracedArray):       # for this number of elements
        return [wrap(places.value, scalar=False) for places in find(np.nonzero)(find(np.reshape)(mask, mask.shape or (1,)))]
    return list(np.nonzero(mask.reshape(mask.shape or (1,))))


def select(self: Tensor, dim: int, index: Any) -> Tensor:
    """Select one element of a dimension, which is removed: a view."""
    return get_item(self, (*(_WHOLE,) * normalize_axis(dim, self.ndim), index))


def masked_select(self: Tensor, mask: Any) -> Tensor:
    """Return the elements where the mask holds, in one dimension; tensor and mask are broadcast against each other."""
    shape = np.broadcast_shapes(self.shape, mask.shape)
    return get_item(apply(shapes.expand, (self, shape)), np.broadcast_to(mask, shape))


def set_item(self: Tensor, index: Any, value: Any) -> None:
    """Assign `self[index] = value`: the memory is written to, and the graph records the new content."""
    entries = index if type(index) is tuple else (index,)
    if hashable_index(entries) is not None:
        if isinstance(self.array, DeviceLeaf):
            apply_in_place(elementwise.assign, _part(self, entries), (_number(self, _as_content(self, value)),))
        else:
            apply_in_place(elementwise.assign, apply(shapes.get_view, (self, entries)), (_as_content(self, value),))
    elif len(entries) == 1 and _is_mask_of(entries[0], self) and not (value.ndim if isinstance(value, Tensor) else np.ndim(value)):
        apply_in_place(elementwise.masked_fill, self, (_beside(self, entries[0]), value))
    else:
        view, chosen = _split(self, entries)
        if chosen:
            apply_in_place(elementwise.set_item, view, (chosen, value))
        else:
            apply_in_place(elementwise.assign, view, (_as_content(self, value),))


def _is_mask_of(item: Any, tensor: Tensor) -> bool:
    return isinstance(item, (Tensor, np.ndarray, TracedArray)) and item.dtype == np.bool_ and item.shape == tensor.shape
