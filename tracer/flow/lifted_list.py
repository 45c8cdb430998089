"""Lists that grow by decisions (`if hit: hits.append(v)`), as buffers and a count that are part of the state.

Ways that differ in how often something was appended never meet, as long as a list is described item by item. Such a list of the
function becomes a `LiftedList`, in its place: scalars or arrays of one kind lie in a traced array, tuples of them in several, and the
number of them is a lifted number. `append` and `extend` stay Python's: what they add waits behind the first item, until it is asked for
or a point is described. What needs a list of a known length has the program guard the count, so there is a way for each number of
items, not for each choice of them.
"""

from __future__ import annotations

import ctypes
import dis
import operator
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from itertools import accumulate
from types import FrameType
from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.emitter import emitting
from adjit.ir.graph import Value
from adjit.ir.types import BOOL, F64, I64, LARGEST_INTEGER, dtype_kind
from adjit.tracer import lowering
from adjit.tracer.array import TracedArray, TracedNDArray, known_value, wrap
from adjit.tracer.array_wrapper import HoldsTraced
from adjit.tracer.flow.either_float import EitherFloat, is_pythons
from adjit.tracer.flow.flow_graph import EITHER, EndOfExploration, FlowGraph, ListForm, Source, TraceAgain, joined_forms
from adjit.tracer.flow.lifted_numbers import LiftedNumber, NotLiftable, check, copied, lift, lifted_float, lifted_input, lifted_integer
from adjit.tracer.guards.class_change import set_class
from adjit.tracer.masked_array import MaskedArray, masked_array
from adjit.tracer.registry import find
from adjit.tracer.scope import Scope, active_scope
from adjit.tracer.user_location import is_ours

_DTYPES = {int: I64, float: F64, bool: BOOL}
CAPACITY = 64
"""Items that a list has room for until a call needs more."""

_MOST_INTEGERS = 1 << 10      # whose sum is within 64 bits, as each is within 52

_GET_ITER = dis.opmap["GET_ITER"]


def form_of_item(item: Any) -> ListForm | None:
    """Kind of an item that a buffer may hold: the class of a Python number; dtype and shape of a scalar or array, and whether it promotes
    as Python's numbers; a tuple of such, behind `tuple`. None for what else a list may hold."""
    kind = type(item)
    if kind in (float, bool) or (kind is int and abs(item) <= LARGEST_INTEGER):
        return kind
    if kind is tuple:
        forms = tuple(map(form_of_item, item))
        flat = item and all(form is not None and form[:1] != (tuple,) if type(form) is tuple else form is not None for form in forms)
        return (tuple, *forms) if flat else None
    if issubclass(kind, LiftedNumber):
        return EITHER if isinstance(item, EitherFloat) else item.kind
    if issubclass(kind, TracedNDArray):
        plain = item.scope is active_scope() and not isinstance(item, MaskedArray) and item.in_order and item.size
        return (item.dtype, False, item.shape) if plain and dtype_kind(item.dtype) in "biuf" else None
    if issubclass(kind, TracedArray):
        return (item.dtype, item.weak, ()) if item.scalar and item.alias is None and dtype_kind(item.dtype) in "biuf" else None
    return (item.dtype, False, ()) if issubclass(kind, np.generic) and dtype_kind(item.dtype) in "biuf" else None


def form_of_list(items: list[Any]) -> ListForm | None:
    """The kind that all items have; None for an empty list, and for items of several kinds."""
    forms = list(dict.fromkeys(map(form_of_item, items)))
    return reduce(joined_forms, forms) if forms else None


def _parts(form: ListForm) -> tuple[Any, ...]:
    """The kinds of the parts of an item: of a tuple, or the item itself."""
    return form[1:] if isinstance(form, tuple) and form[0] is tuple else (form,)


def _columns_of(form: Any) -> list[tuple[np.dtype, tuple[int, ...]]]:
    """Dtypes and shapes that parts of a kind lie in: of a float of either class the number, and whether it is NumPy's."""
    if form is EITHER:
        return [(F64, ()), (BOOL, ())]
    return [(_DTYPES[form], ()) if isinstance(form, type) else (form[0], form[2])]


class _Buffer:
    """What a lifted list holds: the first `count` items of `arrays`, of which there are some for each part of an item."""

    __slots__ = ("arrays", "count", "form", "scope", "source")

    def __init__(self, scope: Scope, source: Source, form: ListForm, capacity: int):
        self.scope, self.source, self.form = scope, source, form
        with emitting(scope.builder):
            self.arrays = tuple(wrap(lowering.constant(0, dtype, (capacity, *shape)), scalar=False)
                                for part in _parts(form) for dtype, shape in _columns_of(part))
        for array in self.arrays:
            scope.root.values.vary(array.value)        # type: ignore[union-attr]
        self.count: Any = lift(0, source, scope)

    @property
    def number(self) -> Any:
        """Kind of the items that are floats, NumPy's or of either class, by which sums and extremes are computed; None for others."""
        form = self.form
        if form is EITHER:
            return F64, True, ()
        return form if isinstance(form, tuple) and form[0] is not tuple and dtype_kind(form[0]) == "f" and not form[2] else None

    @property
    def values(self) -> list[Value]:
        """The arrays of numbers."""
        first = accumulate((len(_columns_of(form)) for form in _parts(self.form)), initial=0)
        return [self.arrays[place].value for place, _ in zip(first, _parts(self.form), strict=False)]

    @property
    def capacity(self) -> int:
        return self.arrays[0].value.type.shape[0]

    def refuse(self) -> Any:
        raise NotLiftable(frozenset((self.source,)))

    def extend(self, items: list[Any]) -> None:
        """Store items behind the others. What finds no room is lost: whoever reads asks `check_room` first."""
        self.set(self._behind(self.count.value, len(items)), items)
        self.count = self.count + len(items)

    def set(self, places: Value, items: list[Any]) -> None:
        """Store items at places."""
        if active_scope() is not self.scope:
            self.refuse()
        for item in items:
            self._check_form(form_of_item(item))
        places, rows = self._within(places), map(self._row, items)
        self.arrays = tuple(wrap(ops.scatter_set(array.value, places, _joined(column, array.value.type.shape[1:]), axis=0), scalar=False)
                            for array, column in zip(self.arrays, zip(*rows, strict=True), strict=True))

    def _check_form(self, form: ListForm | None) -> None:
        """Have the function traced again where an item is of another kind: with that kind, if one kind comprises both."""
        joined = None if form is None else joined_forms(self.form, form)
        if joined == self.form:
            return
        graph = self.scope.flow.graph
        if joined is None or graph.exploring:
            self.refuse()
        graph.widen(self.source, joined)
        raise TraceAgain

    def _row(self, item: Any) -> list[Value]:
        """Values of an item for each of the arrays."""
        found: list[Value] = []
        for part, form in zip(item if type(item) is tuple else (item,), _parts(self.form), strict=True):
            (dtype, _), *flag = _columns_of(form)
            found.append(self._value(part, dtype))
            if flag:
                found.append(part.numpys.value if isinstance(part, EitherFloat) else lowering.constant(
                    not is_pythons(part), BOOL, ()))
        return found

    def _value(self, part: Any, dtype: np.dtype) -> Value:
        if isinstance(part, LiftedNumber) and part.kind is int and part.bound > LARGEST_INTEGER:
            check(part.is_begin(), part)
        if not isinstance(part, TracedArray):
            return lowering.constant(part, dtype, ())
        held = part if part.alias is None else part.alias.owner
        if part.value.type.shape and not all(map(self.scope.flow.is_unshared, (part.value.type, held.value.type))):
            self.refuse()       # a write to it would be one to the item
        return part.value

    def _behind(self, place: Value, count: int) -> Value:
        first = lowering.broadcast(lowering.reshape(place, (1,)), (count,))
        return first if count == 1 else ops.add(first, lowering.iota(I64, (count,), 0))

    def _within(self, places: Value) -> Value:
        first, last = (lowering.constant(number, I64, places.type.shape) for number in (0, self.capacity - 1))
        return ops.maximum(ops.minimum(places, last), first)

    def check_room(self) -> None:
        """Have the program check that no item was lost; where one was in this call, the function is traced again with more room."""
        scope, (count, most) = self.scope, (self.count.value, lowering.constant(self.capacity, I64, ()))
        if active_scope() is not scope:
            self.refuse()
        if not scope.flow.check(ops.less_equal(count, most)):
            graph = scope.flow.graph
            if graph.exploring:
                raise EndOfExploration
            graph.enlarge(self.source, int(scope.root.values.array(count, scope.builder)))      # type: ignore[union-attr, arg-type]
            raise TraceAgain

    def holds(self, condition: Value) -> bool:
        """Have the program check a condition; returns whether it holds for this call."""
        return bool(self.scope.flow.check(condition))

    def is_filled(self) -> bool:
        """Have the program check that there are items."""
        return self.holds(ops.greater(self.count.value, lowering.constant(0, I64, ())))

    def item(self, place: Value, lasting: bool = False) -> Any:
        """The item at a place, as an object of its class. Its arrays are copies, and read-only unless they are `lasting`."""
        places = self._within(lowering.reshape(place, (1,)))
        arrays = iter(self.arrays)
        parts = tuple(self._part(form, [_at(next(arrays).value, places) for _ in _columns_of(form)], lasting) for form in _parts(self.form))
        return parts if isinstance(self.form, tuple) and self.form[0] is tuple else parts[0]

    def _part(self, form: Any, values: list[Value], lasting: bool) -> Any:
        value, *flag = values
        if flag:
            return EitherFloat(value, self.scope, frozenset((self.source,)), *flag)
        if not isinstance(form, type):
            return wrap(value, scalar=False, writable=lasting) if form[2] else wrap(value, weak=form[1], scalar=True)
        if form is float:
            return lifted_float(value, self.scope, frozenset((self.source,)))
        return lifted_input(value, self.scope, self.source, form)

    def place(self, index: Any, message: str) -> Value:
        """The place of an index, which the program checks to be within the list."""
        if not (type(index) is int or (isinstance(index, LiftedNumber) and index.kind is int)):
            self.refuse()
        count, zero = self.count.value, lowering.constant(0, I64, ())
        given = index.value if isinstance(index, LiftedNumber) else lowering.constant(index, I64, ())
        place = ops.select(ops.less(given, zero), ops.add(given, count), given)
        if not self.holds(ops.logical_and(ops.greater_equal(place, zero), ops.less(place, count))):
            raise IndexError(message)
        self.check_room()
        return place

    def mask(self) -> Value:
        """Which elements of the array are items."""
        shape = (self.capacity,)
        return ops.less(lowering.iota(I64, shape, 0), lowering.broadcast(lowering.reshape(self.count.value, (1,)), shape))


def _joined(values: tuple[Value, ...], shape: tuple[int, ...]) -> Value:
    """Values of one shape, one behind the other."""
    rows = [lowering.reshape(value, (1, *shape)) for value in values]
    return rows[0] if len(rows) == 1 else ops.concatenate(*rows, axis=0)


def _at(array: Value, places: Value) -> Value:
    return lowering.reshape(ops.take(array, places, axis=0), array.type.shape[1:])


def _reads(name: str) -> Callable[..., Any]:
    """Method that needs a list of Python's: of as many items as there are in this call, which the program guards."""
    def method(self: LiftedList, *args: Any) -> Any:
        return getattr(self.plain(), name)(*(arg.plain() if type(arg) is LiftedList else arg for arg in args))
    return method


def _refuses(name: str) -> Callable[..., Any]:
    def method(self: LiftedList, *args: Any, **kwargs: Any) -> Any:
        return self.buffer.refuse()
    return method


class LiftedList(list, HoldsTraced):        # type: ignore[type-arg]
    """List whose first item is its `_Buffer`; behind it are those that were added since it was last asked for."""

    __slots__ = ()
    __class__ = property(lambda self: list)     # type: ignore[assignment]
    __hash__ = None     # type: ignore[assignment]

    @property
    def buffer(self) -> _Buffer:
        """The buffer, with all items."""
        buffer: _Buffer = list.__getitem__(self, 0)
        added = list.__getitem__(self, slice(1, None))
        if added:
            with emitting(buffer.scope.builder):
                buffer.extend(added)
            list.__delitem__(self, slice(1, None))
        return buffer

    def length(self) -> LiftedNumber:
        """What `len` gives in code that is traced."""
        buffer = self.buffer
        count = copied(buffer.count)
        assert isinstance(count, LiftedNumber)
        return count

    def opened(self) -> Any:
        """The items as an array, of which nobody knows yet how long it is."""
        buffer = self.buffer
        arrays = buffer.values
        if len({array.type for array in arrays}) > 1:
            return self.plain()
        with emitting(buffer.scope.builder):
            buffer.check_room()
            whole = arrays[0]
            if len(arrays) > 1:
                shape = (buffer.capacity, 1, *whole.type.shape[1:])
                whole = ops.concatenate(*(lowering.reshape(array, shape) for array in arrays), axis=1)
            if (whole.type.dtype != F64 or whole.type.rank > 1) and not buffer.is_filled():
                buffer.refuse()         # NumPy makes a vector of floats of an empty list
            mask = buffer.mask()
            buffer.scope.counts[mask] = buffer.count.value
            return masked_array(wrap(whole, scalar=False), mask)

    def plain(self, lasting: bool = False) -> list[Any]:
        """The items in a list of Python's; the program guards how many there are."""
        buffer = self.buffer
        with emitting(buffer.scope.builder):
            buffer.check_room()
            count = int(known_value(wrap(buffer.count.value)))
            return [buffer.item(lowering.constant(place, I64, ()), lasting) for place in range(count)]

    def sum(self, start: Any) -> Any:
        """What `sum` gives, added up in order."""
        buffer = self.buffer
        if buffer.form is int and type(start) is int and buffer.capacity <= _MOST_INTEGERS:
            with emitting(buffer.scope.builder):
                buffer.check_room()
                zeros = lowering.constant(0, I64, (buffer.capacity,))
                total = ops.reduce_sum(ops.select(buffer.mask(), buffer.arrays[0].value, zeros), axes=(0,))
                number = lifted_integer(total, buffer.scope, frozenset((buffer.source,)), _MOST_INTEGERS * LARGEST_INTEGER)
                check(number.is_begin(), number)
                return lifted_integer(total, buffer.scope, number.sources, LARGEST_INTEGER) + start
        if buffer.number is None or not (type(start) in (int, float) or (buffer.form is not EITHER and (
                issubclass(type(start), TracedArray) and start.dtype == buffer.number[0] and start.scalar))) or (
                buffer.form is EITHER and sys.version_info >= (3, 12)):         # which compensates sums of Python's floats
            return sum(self.plain(), start)
        with emitting(buffer.scope.builder):
            buffer.check_room()
            zero = lowering.constant(0, buffer.number[0], ())
            first = start.value if isinstance(start, TracedArray) else lowering.constant(float(start), buffer.number[0], ())
            items = ops.select(buffer.mask(), buffer.arrays[0].value, lowering.broadcast(zero, (buffer.capacity,)))
            sums = ops.cumsum(ops.concatenate(lowering.reshape(first, (1,)), items, axis=0), axis=0, reverse=False)
            total = lowering.reshape(lowering.slice_axis(sums, 0, buffer.capacity, buffer.capacity + 1), ())
            if buffer.form is EITHER:
                numpys = ops.reduce_or(ops.logical_and(buffer.mask(), buffer.arrays[1].value), axes=(0,))
                return EitherFloat(total, buffer.scope, frozenset((buffer.source,)), numpys)
            return wrap(total, weak=buffer.number[1] and getattr(start, "weak", True), scalar=True)

    def extreme(self, better: Callable[[Any, Any], Any]) -> Any:
        """What `max` or `min` gives: the first of the best items, the first item if that is NaN."""
        buffer = self.buffer
        if buffer.number is None:
            return (max if better is operator.gt else min)(self.plain())
        with emitting(buffer.scope.builder):
            if not buffer.is_filled():
                raise ValueError(f"{'max' if better is operator.gt else 'min'}() arg is an empty sequence")
            buffer.check_room()
            items, sign = buffer.arrays[0].value, 1.0 if better is operator.gt else -1.0
            worst = lowering.constant(-sign * np.inf, buffer.number[0], items.type.shape)
            counts = ops.logical_and(buffer.mask(), ops.equal(items, items))
            best = find(np.argmax if better is operator.gt else np.argmin)(wrap(ops.select(counts, items, worst), scalar=False))
            first = buffer.item(lowering.constant(0, I64, ()))
            place = ops.select(ops.not_equal(first.value, first.value), lowering.constant(0, I64, ()), best.value)
            return buffer.item(place)

    def __len__(self) -> int:
        return int(known_value(wrap(self.buffer.count.value)))

    def __bool__(self) -> bool:
        return bool(self.buffer.count != 0)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self.plain()[index]
        buffer = self.buffer
        with emitting(buffer.scope.builder):
            return buffer.item(buffer.place(index, "list index out of range"))

    def __setitem__(self, index: Any, item: Any) -> None:
        buffer = self.buffer
        with emitting(buffer.scope.builder):
            buffer.set(lowering.reshape(buffer.place(index, "list assignment index out of range"), (1,)), [item])

    def pop(self, *index: Any) -> Any:
        if not index and list.__len__(self) > 1:
            return list.pop(self)
        buffer = self.buffer
        if index not in ((), (-1,)):
            buffer.refuse()
        with emitting(buffer.scope.builder):
            item = buffer.item(buffer.place(-1, "pop from empty list"))
            buffer.count = buffer.count - 1
            return item

    def clear(self) -> None:
        list.__delitem__(self, slice(1, None))
        buffer = self.buffer
        buffer.count = lift(0, buffer.source, buffer.scope)

    def __iter__(self) -> Iterator[Any]:
        frame = sys._getframe(1)
        by_loop = frame.f_code.co_code[frame.f_lasti] == _GET_ITER and not is_ours(frame.f_globals.get("__name__", ""))
        return ListIterator(self) if by_loop else self._each(self.plain())

    def __reversed__(self) -> Iterator[Any]:
        return self._each(self.plain()[::-1])

    def _each(self, items: list[Any]) -> Iterator[Any]:
        """The items, for C code, which may take them one by one: of a list that changes meanwhile Python would give others."""
        buffer = self.buffer
        before = buffer.count, buffer.arrays
        for item in items:
            yield item
            if list.__len__(self) > 1 or buffer.count is not before[0] or buffer.arrays is not before[1]:
                buffer.refuse()


for _name in ("copy", "count", "index", "__add__", "__contains__", "__eq__", "__ge__", "__gt__", "__le__", "__lt__", "__mul__", "__ne__",
              "__repr__", "__rmul__"):
    setattr(LiftedList, _name, _reads(_name))
for _name in ("insert", "remove", "reverse", "sort", "__delitem__", "__imul__", "__reduce_ex__"):
    setattr(LiftedList, _name, _refuses(_name))
LiftedList.__radd__ = lambda self, other: other + self.plain()      # type: ignore[attr-defined]


class ListIterator:
    """Iterator of a `for` loop over a lifted list: whether there is another item is a decision."""

    __slots__ = ("items", "place")

    def __init__(self, items: LiftedList):
        buffer = items.buffer
        self.items, self.place = items, lift(0, buffer.source, buffer.scope)

    def __iter__(self) -> ListIterator:
        return self

    def __next__(self) -> Any:
        buffer, place = self.items.buffer, self.place
        if not place < buffer.count:
            raise StopIteration
        with emitting(buffer.scope.builder):
            buffer.check_room()
            item = buffer.item(place.value)
        self.place = place + 1
        return item


def may_lift(source: Source, graph: FlowGraph, frame: FrameType) -> bool:
    """True unless code that runs at a point asks for the class of the floats of a list."""
    return EITHER not in _parts(graph.list_forms[source]) or not graph.asks_for_class(frame)


def lift_list(items: list[Any], source: Source, scope: Scope) -> bool:
    """Make a list of the function a `LiftedList`, the same object, and return True. It is settled at the end of the trace."""
    graph = scope.flow.graph
    buffer = _Buffer(scope, source, graph.list_forms[source], graph.capacities.get(source, CAPACITY))
    if items:
        with emitting(scope.builder):
            buffer.extend(items[:])
    items[:] = [buffer]
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(LiftedList))        # which the object gives back when it goes
    set_class(items, LiftedList)
    scope.lists.append(items)
    return True


def forget_dead_lists(scope: Scope) -> None:
    """Let go of the lifted lists that nothing else holds."""
    scope.lists[:] = [items for items in scope.lists if sys.getrefcount(items) > _HELD_BY_SCOPE]


_EMPTY: list[list[Any]] = [[]]
_HELD_BY_SCOPE = next(sys.getrefcount(items) for items in _EMPTY)      # references to what only such a list holds


def settle_lists(scope: Scope) -> None:
    """Make the lifted lists that live on, in a result or stored, lists of Python's again, of known lengths."""
    forget_dead_lists(scope)
    while scope.lists:
        items = scope.lists[-1]
        become_plain(items, items.plain(lasting=True))
        scope.lists.pop()


@contextmanager
def lifted_lists(scope: Scope) -> Iterator[None]:
    """Make the lifted lists of a trace that ends half way within the block lists of Python's again, whoever holds them."""
    try:
        yield
    finally:
        while scope.lists:
            become_plain(scope.lists.pop(), [])


def become_plain(items: LiftedList, content: list[Any]) -> None:
    set_class(items, list)
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(LiftedList))
    items[:] = content
