"""Templates of values that a trace stored outside: each call of the program makes them anew, of its own results."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Mapping, Sequence, Sized
from enum import Enum
from functools import partial
from types import BuiltinFunctionType, FunctionType, MemberDescriptorType, ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from adjit.ir.builder import GraphBuilder
from adjit.ir.emitter import emitting
from adjit.ir.errors import TraceError
from adjit.ir.interpreter import ArrayValue, Evaluator
from adjit.tracer.array import FRESH, WRITTEN, TracedArray, contains_traced
from adjit.tracer.array_checks import is_ndarray
from adjit.tracer.array_wrapper import ArrayWrapper
from adjit.tracer.flow.lifted_numbers import LiftedNumber
from adjit.tracer.guards.source import MISSING, Source, is_scalar, own_attributes, read_slot
from adjit.tracer.guards.tallies import counted_again, is_tally
from adjit.tracer.pending_number import PendingNumber
from adjit.tracer.scope import Scope
from adjit.tracer.user_location import find_user_location

Template = Callable[[Sequence[Any], dict[int, Any]], Any]
"""Function of the results of a call, and of the objects that were made for it, by number."""

Part = tuple[object, object]
"""What a part of a template is: a class of objects and how many parts follow, an array and its number, or `CONSTANT` and the value."""

CONSTANT, MOVED = "constant", "moved"

KEPT = -1
"""Key of the wrappers of arrays that a call made, among the objects that were made for it."""

ARGUMENTS = -2
"""Key of the arguments of a call, `(args, kwargs)`, there."""

_FIXED = (type, ModuleType, BuiltinFunctionType, Enum, range, slice, BaseException)


class NotRepeatableError(Exception):
    """Raised for a value that a call cannot make again."""


class TemplateMaker:
    """Makes templates. `outside` are the objects that are older than the trace, by identity, `sources` the places where arrays are bound,
    and `results` the arrays that the function returns. Others of `scope` that it stored become `arrays`, further results. `made` holds
    the objects that calls make anew, and their tables of attributes, by identity. `parts` say what the values are made of, and `moved`
    are the places whose values of the call before are stored in other places; so are arrays from outside, `arrays_moved`, by identity.
    With `of_regions` those of regions are among the `arrays`."""

    def __init__(self, outside: Collection[int], places: Collection[Source], results: Sequence[Any], scope: Scope | None,
                 of_regions: bool = False):
        self.outside, self.places, self.scope, self._of_regions = outside, places, scope, of_regions
        self.sources = {id(source.value): source for source in places}
        self.parts: list[Part] = []
        self.moved: list[Source] = []
        self.arrays_moved: set[int] = set()
        self.viewed: list[Source] = []      # places of arrays of which a view is stored: the guards say that they hold them still
        self.arrays: list[Any] = []
        self._stored: dict[int, tuple[TracedArray, Callable[[], int]]] = {}     # arrays, and the number of the result that each is
        self._views: dict[int, tuple[Callable[[], int], int, tuple[int, ...]]] = {}     # result, first element and strides of views
        self._given_views: dict[int, _GivenView] = {}       # those of objects that are given
        self.first = len(results)       # number of the first of them; the caller says so once all results are known
        self._of_arrays: dict[int, int] = {}
        self._results = {id(array): number for number, array in enumerate(results)}
        self._kept: dict[int, int] = {}
        self.made: dict[int, Any] = {}
        self.given: Mapping[int, Template] = {}     # templates of objects, by identity, before all others
        self.used: set[int] = set()         # those that were asked for
        self._numbers: dict[int, int] = {}
        self._templates: dict[int, Template] = {}

    def __call__(self, value: Any) -> Template:
        """Make the template of a value. Raises `NotRepeatableError` if there is none."""
        if id(value) in self.given:
            self.parts.append(("given", list(self.given).index(id(value))))
            self.used.add(id(value))
            return self.given[id(value)]
        if id(value) in self._numbers:
            number = self._numbers[id(value)]
            self.parts.append(("again", number))
            return lambda results, made: made[number] if number in made else self._templates[number](results, made)
        if id(value) in self.outside and id(value) in self.sources and is_ndarray(value):       # also one that the trace writes to
            read = self.sources[id(value)].read
            self.arrays_moved.add(id(value))
            self.parts.append((CONSTANT, MOVED))
            return lambda *_: read()
        if is_ndarray(value) and (held := self._holding(value)) is not None:
            view = np.ndarray.view(value, np.ndarray)
            self.viewed.append(held)
            self.parts.append((CONSTANT, MOVED))
            return lambda *_: view.view()
        if isinstance(value, TracedArray) or (type(value) in FRESH and contains_traced(value)) or id(value) in WRITTEN:
            return self._array(value)
        if is_scalar(value) and type(value).__module__ in ("builtins", "numpy"):
            self.parts.append((CONSTANT, (type(value), repr(value))))
            return lambda *_: value
        if is_tally(value):         # of an object that begins with the number of its class
            source = next((source for source in self.places if source.key == value.place), None)
            if source is None:
                raise NotRepeatableError
            return counted_again(source, value, self)
        if isinstance(value, ArrayWrapper):
            return self._wrapper(value)
        if isinstance(value, PendingNumber):
            value.refuse()
        if id(value) in self.outside or isinstance(value, _FIXED) or (isinstance(value, FunctionType) and not value.__closure__):
            if is_ndarray(value):
                raise NotRepeatableError
            self.parts.append((CONSTANT, id(value)))
            return lambda *_: value
        if is_ndarray(value):
            return self._plain(value)
        count = len(self._numbers)
        try:
            return self._made(value)
        except NotRepeatableError:      # nor are the objects that were begun within it
            for identity in list(self._numbers)[count:]:
                del self._numbers[identity], self.made[identity]
            raise

    def _holding(self, value: np.ndarray) -> Source | None:
        """The place of an array from outside whose memory an array is a view of: writes through it are writes to that array."""
        root = _owner(value)
        return None if root is value else next((source for source in self.places if is_ndarray(source.value) and id(
            source.value) in self.outside and _owner(source.value) is root), None)

    def _plain(self, value: np.ndarray) -> Template:
        """The template of an array without traced values: a copy for each call, of which views stay views."""
        plain = np.array(value)
        self.parts.append((CONSTANT, (plain.dtype, plain.shape, plain.tobytes())))
        root = _owner(value)
        if root is not value and id(root) not in self.outside and (root.flags.c_contiguous or root.flags.f_contiguous):
            whole, strides = self(root), value.strides
            offset = _address(value) - _address(root)
            return lambda results, made: np.ndarray(plain.shape, plain.dtype, whole(results, made), offset, strides)
        number = len(self._numbers)
        self._numbers[id(value)], self.made[id(value)] = number, value
        return self._filled(number, partial(plain.copy, "K"), lambda *_: None)

    def relate(self) -> None:
        """Have stored arrays that share memory do so after each call. Raises `TraceError` where values decide on what they share."""
        owned: dict[int, list[tuple[TracedArray, Callable[[], int]]]] = {}
        for array, number in self._stored.values():
            owned.setdefault(id(array if array.alias is None else array.alias.owner), []).append((array, number))
        for group in owned.values():
            if self._is_given(group):
                continue
            owner = next((number for array, number in group if array.alias is None), None)
            views = [(array, _places_of(array)) for array, _ in group if array.alias is not None and array.size] if len(group) > 1 else []
            if owner is None:
                known = [places.ravel() for _, places in views if places is not None]
                if len(known) == len(views) and (not known or np.unique(np.concatenate(known)).size == sum(map(len, known))):
                    continue        # they are apart
                owner = self._also(views[0][0])
            for array, places in views:
                steps = None if places is None else _steps_of(places)
                if places is None or steps is None:
                    made_at = array.scope.builder.made_at(array.value) if isinstance(array.scope.builder, GraphBuilder) else None
                    raise TraceError("the compiled function stores arrays that share memory in places which depend on values: in later "
                                     "calls a write to one would not be seen in the other", made_at or find_user_location(),
                                     hint="store a copy, a[k].copy(), or take the view where it is used")
                self._views[id(array)] = owner, int(places.flat[0]), steps

    def _is_given(self, group: Sequence[tuple[TracedArray, Callable[[], int]]]) -> bool:
        """True if stored arrays are views of an object that is given: each call makes them of that."""
        found = dict[int, _GivenView]()
        for array, _ in group:
            owner = None if array.alias is None else array.alias.owner
            if array.alias is None or owner is None or id(owner) not in self.given or owner.dtype != array.dtype or not array.size or (
                    places := _places_of(array)) is None:
                return False
            steps, by_axis = _steps_of(places), _steps_by_axis(places, owner.shape)
            if steps is None and by_axis is None:
                return False
            found[id(array)] = _GivenView(self.given[id(owner)], array.shape, int(places.flat[0]), steps, by_axis, array.alias.certain)
            self.used.add(id(owner))
        self._given_views.update(found)
        return True

    def _also(self, view: TracedArray) -> Callable[[], int]:
        """The number of a further result, which is the array that a view is of."""
        assert view.alias is not None
        place = len(self.arrays)
        self.arrays.append(view.alias.owner)
        return lambda: self.first + place

    def are_related(self, values: Collection[Any]) -> bool:
        """True if several of these arrays share memory after each call."""
        owners = [id(array.alias.owner if array.alias is not None else array) for value in values if isinstance(
            array := WRITTEN[id(value)][1] if id(value) in WRITTEN else value, TracedArray)]
        return bool(self._views) and len(set(owners)) < len(owners)

    def end(self) -> None:
        """Let go of what the trace stored, once all templates are made."""
        self.made.clear()
        self._stored.clear()
        self.arrays.clear()

    def _wrapper(self, value: ArrayWrapper) -> Template:
        """The template of a wrapper of an array: it is among those that the caller of the trace makes for each call, `made[KEPT]`."""
        if self.scope is None or self.scope.keep_wrapper is None:
            raise NotRepeatableError
        if id(value) not in self._kept:
            self._kept[id(value)] = self.scope.keep_wrapper(value)
        number = self._kept[id(value)]
        self.parts.append(("wrapper", number))
        return lambda _, made: made[KEPT][number]

    def _array(self, value: Any) -> Template:
        """The template of an array of the trace; one of a region is dead, for whoever reads it. One of a trace before is what the call
        before had stored: from the one place that holds it, it is stored in another one. Raises `EscapedArrayError` if there are more."""
        array = WRITTEN[id(value)][1] if id(value) in WRITTEN else value
        if isinstance(array, TracedArray) and array.scope is not self.scope:
            if self.scope is not None and array.scope.root is not self.scope.root:
                places = [source for source in self.places if source.value is value]
                if len(places) != 1:
                    raise array._escaped()
                self.moved += places
                self.parts.append((CONSTANT, MOVED))
                return lambda *_: places[0].read()
            if not self._of_regions:
                self.parts.append((CONSTANT, "dead"))
                return lambda *_: array
        if not self._of_regions and isinstance(array, TracedArray) and array.alias is not None and self.scope is not None and any(
                array.alias.base is taken.cell for taken in self.scope.taken.values()):
            made_at = array.scope.builder.made_at(array.value) if isinstance(array.scope.builder, GraphBuilder) else None
            raise TraceError("the compiled function stores a view of an array from outside that it writes to: in later calls it would not "
                             "follow the array", made_at or find_user_location(),
                             hint="store a copy, a[1:3].copy(), or take the view where it is used")
        if id(value) not in self._results and id(value) not in self._of_arrays:
            place = len(self.arrays)
            self.arrays.append(value)
            self._of_arrays[id(value)] = place
        if id(value) in self._of_arrays:
            place = self._of_arrays[id(value)]
            self.parts.append(("array", place))
            return _number(array, self._taken(array, lambda: self.first + place))
        number = self._results[id(value)]
        self.parts.append(("result", number))
        return _number(array, self._taken(array, lambda: number))

    def _taken(self, array: Any, number: Callable[[], int]) -> Template:
        """The template of a result, which may be a view of another one."""
        key = id(array)
        if isinstance(array, TracedArray) and array.shape:
            self._stored.setdefault(key, (array, number))

        def template(results: Sequence[Any], objects: dict[int, Any]) -> Any:
            made = results[number()]
            if key in self._given_views and (view := self._given_views[key].of(results, objects)) is not None:
                return view
            if key not in self._views:
                return made
            of, start, steps = self._views[key]
            size = made.dtype.itemsize
            return np.ndarray(made.shape, made.dtype, results[of()], start * size, [step * size for step in steps])
        return template

    def _made(self, value: Any) -> Template:
        number = len(self._numbers)
        kind: Any = type(value)
        self.parts.append((kind, len(value) if isinstance(value, Sized) else len(own_attributes(value))))
        if kind in (tuple, frozenset):
            parts = [self(part) for part in value]
            return lambda results, made: kind(part(results, made) for part in parts)
        if issubclass(kind, tuple) and hasattr(kind, "_make"):
            parts = [self(part) for part in value]
            return lambda results, made: kind._make(part(results, made) for part in parts)
        self._numbers[id(value)], self.made[id(value)] = number, value
        if kind in (dict, OrderedDict, Counter, defaultdict):
            pairs = [(self(key), self(item)) for key, item in value.items()]
            empty = partial(defaultdict, value.default_factory) if kind is defaultdict else kind
            return self._filled(number, empty, lambda new, results, made: new.update(
                (key(results, made), item(results, made)) for key, item in pairs))
        if kind in (list, set, deque):
            items = [self(item) for item in value]
            extend = set.update if kind is set else kind.extend
            limits = {"maxlen": value.maxlen} if kind is deque else {}
            return self._filled(number, partial(kind, **limits), lambda new, results, made: extend(
                new, [item(results, made) for item in items]))
        if not is_plain(kind):
            raise NotRepeatableError
        table = own_attributes(value)
        self.made[id(table)] = table
        attributes = [(name, self(item)) for name, item in table.items()]
        slots = [(slot, self(read_slot(slot, value))) for slot in slots_of_class(kind) if read_slot(slot, value) is not MISSING]

        def fill(new: Any, results: Sequence[Any], made: dict[int, Any]) -> None:
            if attributes:
                vars(new).update((name, item(results, made)) for name, item in attributes)
            for slot, item in slots:
                slot.__set__(new, item(results, made))
        return self._filled(number, lambda: kind.__new__(kind), fill)

    def _filled(self, number: int, empty: Callable[[], Any], fill: Callable[[Any, Sequence[Any], dict[int, Any]], object]) -> Template:
        """The template of an object that is made once a call, and filled; it may hold itself."""
        def template(results: Sequence[Any], made: dict[int, Any]) -> Any:
            if number not in made:
                made[number] = empty()
                fill(made[number], results, made)
            return made[number]
        self._templates[number] = template
        return template


def _number(array: Any, template: Template) -> Template:
    """The template of an array, or of the Python number that it stands for."""
    if not (isinstance(array, TracedArray) and array.scalar and (array.weak or isinstance(array, LiftedNumber))):
        return template
    return lambda results, made: np.asarray(template(results, made)).item()


def holds_traced(value: Any) -> bool:
    """True if a value was made by the trace, or holds one: another trace makes it again before it is read."""
    if isinstance(value, (list, tuple, deque)):
        return any(map(holds_traced, value))
    if isinstance(value, dict):
        return any(map(holds_traced, value.values()))
    return isinstance(value, (TracedArray, ArrayWrapper)) or id(value) in WRITTEN


def _places_of(array: TracedArray) -> np.ndarray | None:
    """Positions of the elements of a view in the array that owns them; None if values decide on them."""
    views = []
    while array.alias is not None:
        if array.alias.places:
            return None
        views.append(array.alias)
        array = array.alias.base
    places = np.arange(array.size).reshape(array.shape)
    for view in reversed(views):
        with emitting(Evaluator()):
            read = view.read(ArrayValue(places.reshape(view.shape)))
        assert isinstance(read, ArrayValue)
        places = read.array
    return places


def _steps_of(places: np.ndarray) -> tuple[int, ...] | None:
    """Distances of neighbours along each axis, if these are the same everywhere: strides in elements."""
    first = places[(slice(0, 1),) * places.ndim]
    steps = tuple(int(np.take(places, 1, axis).flat[0] - places.flat[0]) if places.shape[axis] > 1 else 0 for axis in range(places.ndim))
    made = sum((step * index for step, index in zip(steps, np.indices(places.shape), strict=True)), first)
    return steps if np.array_equal(made, places) else None


def _steps_by_axis(places: np.ndarray, shape: tuple[int, ...]) -> tuple[tuple[int, ...], ...] | None:
    """Distances of neighbours along each axis as `_steps_of`, of their indices in an array of a shape: whatever its strides are."""
    steps = [_steps_of(index) for index in np.unravel_index(places, shape)]
    return None if None in steps else tuple(zip(*(each for each in steps if each is not None), strict=True))


class _GivenView(NamedTuple):
    """View of an object that is given: its first element and its strides, in elements of an array in C order and, if they are the same for
    all others, by the axes of the array."""

    whole: Template
    shape: tuple[int, ...]
    start: int
    steps: tuple[int, ...] | None
    by_axis: tuple[tuple[int, ...], ...] | None
    certain: bool       # whether it is a view whatever the layout is

    def of(self, results: Sequence[Any], made: dict[int, Any]) -> Any:
        """The view; None if it is none of the caller's array in the layout that this has."""
        array = self.whole(results, made)
        if type(array) is not np.ndarray or not (self.certain or array.flags.c_contiguous):
            return None
        if self.by_axis is not None:
            first = array[tuple(slice(index, None) for index in np.unravel_index(self.start, array.shape))]
            strides = [sum(step * stride for step, stride in zip(steps, array.strides, strict=True)) for steps in self.by_axis]
        elif self.steps is not None and array.flags.c_contiguous:
            first, strides = array.reshape(-1)[self.start:], [step * array.itemsize for step in self.steps]
        else:
            return None
        return np.lib.stride_tricks.as_strided(first, self.shape, strides)


def _address(array: np.ndarray) -> int:
    return int(np.ndarray.__array_interface__.__get__(array)["data"][0])      # type: ignore[attr-defined]


def _owner(array: np.ndarray) -> np.ndarray:
    """The array that owns the memory of an array."""
    while isinstance(base := np.ndarray.base.__get__(array), np.ndarray):       # type: ignore[attr-defined]
        array = base
    return array


def slots_of_class(kind: type) -> list[MemberDescriptorType]:
    """The slots that objects of a class have."""
    return [slot for base in kind.__mro__ for slot in vars(base).values()
            if isinstance(slot, MemberDescriptorType) and slot.__name__ != "__dict__"]


def is_plain(kind: type) -> bool:
    """True for a class whose objects are their attributes."""
    return kind is SimpleNamespace or (kind.__new__ is object.__new__ and all(
        not vars(base).keys().isdisjoint(("__dict__", "__slots__")) or "__weakref__" in vars(base) for base in kind.__mro__[:-1]))
