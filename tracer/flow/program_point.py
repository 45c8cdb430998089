"""Points of the user's program: a place in its code together with everything that decides what Python does from there on.

What is the same at every run is the key of a point, and what a run computes is its state: the traced arrays. Python is deterministic: two
runs that reach points with equal keys do the same from there on, on the arrays of their states, as long as decisions on values come out the
same. So what was recorded behind one point may stand for what would be recorded behind the other.
"""

from __future__ import annotations

import ctypes
import gc
import random
import struct
import sys
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from operator import is_not, length_hint
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FrameType,
    FunctionType,
    GeneratorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

import numpy as np

from adjit.ir.dataclass import dataclass
from adjit.ir.types import TensorType
from adjit.tracer.array import FRESH, TracedArray, TracedNDArray
from adjit.tracer.flow.bytecode_flow import Decision, flow_of
from adjit.tracer.flow.either_float import EitherFloat, is_float_of_either, is_pythons
from adjit.tracer.flow.flow_graph import APART, CONTENT, EITHER, GROWN, ListForm, Source
from adjit.tracer.flow.frames import READABLE, cell_of, is_called_directly, set_local, set_on_stack, stack_of
from adjit.tracer.flow.lifted_list import LiftedList, ListIterator, form_of_list
from adjit.tracer.flow.lifted_numbers import LiftedNumber, NotLiftable, is_liftable
from adjit.tracer.flow.lifted_range import RANGE_ITERATOR, Form, LiftedRange, form_of, left_in
from adjit.tracer.fresh_array import root_of, standing_for
from adjit.tracer.guards.array_access import ORIGINAL_CLASS
from adjit.tracer.guards.content import fingerprint
from adjit.tracer.guards.nondeterminism import state_of
from adjit.tracer.guards.source import own_attributes
from adjit.tracer.row_iterator import RowIterator
from adjit.tracer.scope import active_scope
from adjit.tracer.user_location import is_ours

LARGEST = 4000
"""Most objects that a key describes. What takes longer to describe than to trace again is not worth it."""

MAX_LIFTED_ITEMS = 16
"""Longest list whose numbers may become part of the state one by one."""

MAX_NESTING = 8
"""Most names on the way from a frame to a number that may become part of the state."""

_LARGEST_CONTENT = 1 << 16      # bytes of an array whose content is part of a key

_HELD_ONCE = 1 + next(sys.getrefcount(value) for _, value in enumerate([object()]))     # references to what only the stack of a frame holds

_VALUES = frozenset({bool, str, bytes, type(None), type(Ellipsis), type(NotImplemented), CodeType})
_BY_IDENTITY = (type, ModuleType, BuiltinFunctionType, MethodDescriptorType, WrapperDescriptorType, np.ufunc, type(np.sum), np.dtype,
                MappingProxyType)
_ITERATORS = tuple(map(type, (iter(range(0)), iter([]), iter(()), iter(""), reversed([]), enumerate(()), zip(), iter(range(1 << 70)),
                              reversed(()), iter(np.zeros(0)))))


Lifted = Callable[[Source | None, Any], Any]


class Indescribable(Exception):
    """Raised for an object whose state cannot be compared."""


@dataclass(frozen=True, slots=True)
class ProgramPoint:
    """A point that a trace reached. `key` with `counters` and `contents` decides what Python does next. `counters` are the integers among
    it, which loops change, but for `numbers`: those that variables hold, by variable, which may become part of the state. `contents` are
    those of plain arrays, other floats and places of views, which may come of such numbers. `floats` are the variables that hold
    a float of Python's (True) or NumPy's, whose class may become part of the state, too. `shared` says of those
    that hold arrays whether something else holds them, too; `lists` are lists of the trace, with identity, length and what their items are.
    `family` is the key without lengths of lists,
    if there are some. `iterators` are those of `for` loops over
    ranges that are under way and whose numbers no code reads; of them the key says nothing but that they are there.
    `fresh` says of arrays that the function made, by variable, whether something traced was written to them.
    `state` are the arrays that are live there, in the order of the key, `views` those that are views of others; `kept` are the objects that
    the key names by identity."""

    key: tuple[Any, ...]
    family: tuple[Any, ...] | None
    counters: tuple[int, ...]
    contents: tuple[Any, ...]
    numbers: tuple[tuple[Source, Any], ...]
    floats: tuple[tuple[Source, bool], ...]
    shared: dict[Source, bool]
    lists: tuple[tuple[Source, int, int, ListForm | None], ...]
    fresh: dict[Source, bool]
    state: tuple[TracedArray, ...]
    iterators: tuple[Any, ...]
    kept: tuple[Any, ...]
    views: tuple[TracedArray, ...]

    @property
    def whole_key(self) -> tuple[Any, ...]:
        return self.key, self.counters, self.contents, *((source, _exact(number)) for source, number in self.numbers)


def point_of_decision(frame: FrameType, outside: Collection[int], given: Sequence[TracedArray], arguments: Sequence[TracedArray],
                      living: Callable[[], Sequence[TracedArray]], lifted: Lifted,
                      unshared_types: Collection[TensorType] = ()) -> ProgramPoint | None:
    """Point at which the code of `frame` decides on the truth of a value. `outside` are the identities of objects
    that are older than the trace. `given` are arrays of the caller, which would see a write. The content of `arguments` counts in any
    case. `living` gives
    the arrays of the trace that own their content; it is called last, since the `f_locals` of a frame hold what its variables held when
    they were last read. `lifted` makes the traced number that takes the place of a variable's, and copies. Arrays of `unshared_types` are
    copied where a variable holds one of the caller's.

    None where the point cannot be described whole: within a function written in C that calls back, or with objects of unknown kind.
    """
    if not READABLE:
        return None
    while True:
        description = _Description(outside, lifted, given, unshared_types=unshared_types)
        try:
            _describe_frames(description, frame)
            description.arguments(arguments)
            description.hidden()
        except Indescribable:
            return None
        if not description.knows(living()):
            return None
        if not description.growing:
            return description.point()
        description.lift_lists()


def point_of_result(result: Any, tree: Hashable, outside: Collection[int], arguments: Sequence[TracedArray], region: bool
                    ) -> ProgramPoint | None:
    """Point at which a function has returned `result`, or what a structure `tree` holds. Of a `region` the functions count that go on
    behind it."""
    description = _Description(outside, _as_it_is, (), result=True)
    try:
        description.key += ("result", tree)
        description.add(result)
        description.arguments(arguments)
        if region:
            _describe_callers(description, sys._getframe(1))
            description.hidden()
    except Indescribable:
        return None
    return description.point()


def _describe_frames(description: _Description, frame: FrameType) -> None:
    description.enter(frame)
    code = flow_of(frame.f_code)
    decision = None if code is None else code.decisions.get(frame.f_lasti)
    while True:
        if code is None or decision is None:
            raise Indescribable
        description.frame(frame, decision, code.counters_at(frame.f_lasti), code.leaving_at(frame.f_lasti))
        caller = frame.f_back
        if caller is None or is_ours(caller.f_globals.get("__name__", "")):
            _check_entry(caller)
            return
        code = flow_of(caller.f_code)
        decision = None if code is None else code.call_at(caller.f_lasti)
        if decision is None or not is_called_directly(frame, caller, decision.depth):
            raise Indescribable
        frame = caller


def _check_entry(frame: FrameType | None) -> None:
    """Raise `Indescribable` unless a frame of ours belongs to the call of the traced function or region: a function of ours or of a library
    that calls back has state of its own, and the frames of users above it count."""
    while frame is not None and is_ours(frame.f_globals.get("__name__", "")):
        if frame.f_code.co_name in ("_call", "trace_region") and frame.f_globals["__name__"] == "adjit.tracer.trace":
            return
        frame = frame.f_back
    raise Indescribable


def _describe_callers(description: _Description, frame: FrameType | None) -> None:
    """Describe the frames of users that go on behind a region: it may have changed what they hold."""
    description.result = False
    while frame is not None:
        if not is_ours(frame.f_globals.get("__name__", "")):
            code = flow_of(frame.f_code)
            call = None if code is None else code.call_at(frame.f_lasti)
            if code is None or call is None:
                raise Indescribable
            description.frame(frame, call, frozenset(), frozenset())
        elif frame.f_code.co_name == "_call" and frame.f_globals["__name__"] == "adjit.tracer.trace":
            return
        frame = frame.f_back


class _Description:
    """Key, counters and state of a point, while they are collected."""

    def __init__(self, outside: Collection[int], lifted: Lifted, given: Sequence[TracedArray], result: bool = False,
                 unshared_types: Collection[TensorType] = ()) -> None:
        self._outside, self._lifted = outside, lifted
        self._given = {id(array): number for number, array in enumerate(given)}
        self._unshared_types = unshared_types
        self.result = result       # nothing is done to a result: what NumPy would make of it does not count
        self.key: list[Any] = []
        self.counters: list[int] = []
        self.contents: list[Any] = []
        self.numbers: list[tuple[Source, Any]] = []
        self.floats: list[tuple[Source, bool]] = []
        self.shared: dict[Source, bool] = {}
        self.lists: list[tuple[Source, int, int, ListForm | None]] = []
        self.fresh: dict[Source, bool] = {}
        self.growing: list[tuple[Source, list[Any]]] = []       # lists that will be lifted, once all that holds them is known
        self._iterated: set[int] = set()        # what iterators of C's go through, by identity
        self.state: list[TracedArray] = []
        self.iterators: list[Any] = []
        self.kept: list[Any] = []
        self.views: list[TracedArray] = []
        self._numbers: dict[int, int] = {}      # of objects that were met, by identity
        self._met: list[Any] = []
        self._roots: dict[int, int] = {}        # of fresh arrays, by the identity of the array that owns the memory
        self._alike: list[tuple[int, int, tuple[Any, ...]]] = []     # lists of items of one description: the part of the key, and this
        self._listed: set[int] = set()      # what lists hold, by identity
        self._dead: set[int] = set()        # arrays that only dead variables hold
        self._cells: set[int] = set()       # cells of variables that frames within the trace made
        self._replaces = False      # whether another object took the place of a traced one
        self._lifts_held = False        # whether numbers that containers and objects hold may be lifted

    def enter(self, frame: FrameType | None) -> None:
        """Begin with the innermost of the frames that will be described."""
        self._lifts_held = True
        while frame is not None and not is_ours(frame.f_globals.get("__name__", "")):
            code = frame.f_code
            self._cells.update(id(cell_of(frame, name)) for name in code.co_cellvars)
            self._lifts_held = self._lifts_held and "type" not in code.co_names
            frame = frame.f_back

    def frame(self, frame: FrameType, decision: Decision, counting: frozenset[int], leaving: frozenset[int]) -> None:
        code, live = frame.f_code, decision.live
        self.key += ("frame", code, decision.place)
        shared = {*code.co_cellvars, *code.co_freevars}
        for name, value in frame.f_locals.items():
            if name in shared:
                self.key.append(name)
                self.add(cell_of(frame, name), (code, name))
            elif live is None or name in live:
                self.key.append(name)
                store = partial(set_local, frame, name)
                value = self._apart((code, name), self._unshared(value, store, self._kind_unshared(value)), store)      # `best = k`
                if "type" in code.co_names:
                    self.add(value, (code, name))
                else:
                    self._liftable((code, name), value, store)
            else:
                self._note_dead(value)
        if self._replaces:
            frame.f_locals      # noqa: B018 - its dict lets go of what was replaced
        self.key.append("stack")
        for place, value in enumerate(stack_of(frame, decision.depth)):
            if type(value) in (enumerate, zip):
                self._note_last_items(value)
            if type(value) is RANGE_ITERATOR and place in counting:
                self.key.append(RANGE_ITERATOR)
                self.iterators.append(value)
            elif place in leaving and "type" not in code.co_names and sys.getrefcount(value) <= _HELD_ONCE \
                    and (left := left_in(value)) is not None:
                self._range(frame, place, value, left)
            else:
                self.add(value, (code, place))

    def _liftable(self, source: Source, value: Any, store: Callable[[Any], object]) -> None:
        """Describe what a variable holds, of which the number, or the class of a float, may become part of the state."""
        if is_float_of_either(value):
            self.floats.append(((*source, EITHER), is_pythons(value)))
            lifted = self._lifted((*source, EITHER), value)
            if lifted is not None:
                store(lifted)
                self._replaces, value = True, lifted
        if is_liftable(value):
            self._number(source, value, store)
        else:
            self.add(value, source)

    def _number(self, source: Source, number: Any, store: Callable[[Any], object]) -> None:
        """Describe the Python number that a variable holds: by the traced number that takes its place, if it is lifted."""
        lifted = self._lifted(source, number)
        if lifted is not None:
            store(lifted)
            self.add(lifted)
            return
        self.key.append(type(number))
        self.numbers.append((source, number))

    def _range(self, frame: FrameType, place: int, iterator: Any, left: int) -> None:
        """Describe the iterator of a loop: how many items are left is a number as those of variables."""
        source = frame.f_code, place
        lifted = self._lifted(source, iterator)
        if lifted is not None:
            set_on_stack(frame, place, lifted)
            self.add(lifted)
            return
        self.key.append(type(iterator))
        self._form(form_of(iterator, left))
        self.numbers.append((source, left))

    def _form(self, form: Form) -> None:
        """Describe what an iterator gives."""
        self.key.append(form[0])
        if form[0] == "tuple":
            self.key.append(len(form))
            for part in form[1:]:
                self._form(part)
        elif form[0] == "row":
            self.key.append(form[2])
            self.add(form[1])
        else:
            self.key += form[1:]

    def _family(self) -> tuple[Any, ...]:
        """The key without the lengths of lists of items that are described alike, which loops append to."""
        family, position = list[Any](), 0
        for begin, end, alike in sorted(self._alike, key=lambda part: (part[0], -part[1])):
            if begin >= position:
                family += (*self.key[position:begin], *alike)
                position = end
        return (*family, *self.key[position:])

    def point(self) -> ProgramPoint:
        return ProgramPoint(tuple(self.key), self._family() if self._alike else None, tuple(self.counters), tuple(self.contents),
                            tuple(self.numbers), tuple(self.floats), self.shared, tuple(self.lists), self.fresh,
                            tuple(self.state), tuple(self.iterators), tuple(self.kept), tuple(self.views))

    def arguments(self, arguments: Sequence[TracedArray]) -> None:
        self.key.append("arguments")
        for argument in arguments:
            self.add(argument)

    def lift_lists(self) -> None:
        """Lift the lists. Raises `NotLiftable` for one that an iterator of C's goes through, which would read it as it is not."""
        for source, items in self.growing:
            if id(items) in self._iterated:
                raise NotLiftable(frozenset((source,)))
            self._lifted(source, items)

    def hidden(self) -> None:
        """Describe what code reaches by names alone: the states of generators, and what it stores in modules of libraries."""
        root = active_scope().root      # type: ignore[union-attr]
        self.key += ("hidden", *map(state_of, root.generators))
        for module, name in root.module_attributes:
            self.add(vars(module).get(name, NotImplemented))

    def knows(self, cells: Sequence[TracedArray]) -> bool:
        """True if all these arrays were met, or are dead: no other holds an array that the program may come back to."""
        return all(id(cell) in self._numbers or id(cell) in self._dead for cell in cells)

    def _note_last_items(self, iterator: Any) -> None:
        """Note the arrays in the tuple that `enumerate` or `zip` gave last, and keeps to use it again."""
        for held in gc.get_referents(iterator):
            if type(held) is tuple:
                self._note_dead(held)
            for part in held if type(held) is tuple else (held,):
                if type(part) in (enumerate, zip):
                    self._note_last_items(part)

    def _note_dead(self, value: Any) -> None:
        """Note the arrays that a dead variable holds."""
        waiting = [value]
        while waiting:
            value = waiting.pop()
            if issubclass(type(value), TracedArray):
                self._dead.add(id(value))
                if isinstance(value, EitherFloat):
                    self._dead.add(id(value.numpys))
                if value.alias is not None:
                    waiting += (value.alias.base, *value.alias.places)
            elif type(value) in FRESH:
                held = standing_for(value)
                waiting += () if held is None else (held,)
            elif type(value) in (list, tuple):
                waiting += value
            elif type(value) is LiftedList:
                waiting += (*value.buffer.arrays, value.buffer.count)
            elif type(value) is dict:
                waiting += value.values()

    def _unshared(self, value: Any, store: Callable[[Any], object], kind: type = LiftedNumber) -> Any:
        """Give a traced scalar that was met by another name a copy of its own, and an array in a list, if nothing is written to arrays of
        its type. That the last item of a list is what a variable holds, too, as no decision changed the variable since, or what the caller
        holds, says nothing about what comes then."""
        if type(value) is tuple and kind is TracedArray:
            apart = tuple(self._unshared(item, _nowhere, kind) for item in value)
            if any(map(is_not, apart, value)):
                store(apart)
                return apart
            return value
        if not issubclass(type(value), kind) or value.alias is not None or value.scope is not active_scope() or not (
                id(value) in self._numbers or (id(value) in self._given and not value.immutable)):
            return value
        copy = self._lifted(None, value)
        if copy is None:
            return value
        store(copy)
        return copy

    def _apart(self, source: Source, value: Any, store: Callable[[Any], object]) -> Any:
        """Give a variable a copy of its own of an array that was met by another name, or that the caller holds, if in other rounds it holds
        another array there: `best = x`, where a decision says so."""
        if not issubclass(type(value), TracedArray) or value.alias is not None or value.scope is not active_scope():
            return value
        source = (*source, APART)
        shared = self.shared[source] = id(value) in self._numbers or (id(value) in self._given and not value.immutable)
        copy = self._lifted(source, value) if shared else None
        if copy is None:
            return value
        store(copy)
        return copy

    def _kind_unshared(self, value: Any) -> type:
        """Class of what gets a copy of its own if a variable holds it: of arrays what a list holds, too, or the caller."""
        if id(value) in self._given:
            return TracedNDArray if value.value.type in self._unshared_types else LiftedNumber
        return TracedArray if id(value) in self._listed else LiftedNumber

    def _held(self, value: Any, source: Source | None, name: Any, store: Callable[[Any], object]) -> None:
        """Describe what a container or object with this `source` holds by a name; None: what is lifted there would outlive the trace."""
        if source is None or not self._lifts_held:
            self.add(value)
            return
        self._liftable((*source, name), self._unshared(value, store), store)

    def add(self, value: Any, source: Source | None = None) -> None:
        """Describe an object, with all that it holds. `source` is where it was met; None: its numbers are not lifted."""
        kind = type(value)
        if kind is int:
            self.key.append(int)
            self.counters.append(value)
        elif kind in _VALUES:
            self.key += (kind, value)
        elif kind in (float, complex):
            self.key.append(kind)
            self.contents.append(_bits(value))
        elif kind is range:
            self.key += (kind, value.start, value.stop, value.step)
        elif issubclass(kind, np.generic):
            self.key += (np.generic, value.dtype)
            self.contents.append(value.tobytes())
        elif id(value) in self._numbers:
            self.key += ("again", self._numbers[id(value)])
        else:
            self._numbers[id(value)] = len(self._numbers)
            self._met.append(value)
            if not self.result and id(value) in self._outside:
                self.key += ("outside", id(value))      # other objects may be told apart from it, however equal
                source = None
            if len(self._met) > LARGEST:
                raise Indescribable
            self._add_object(value, kind, source if source is None or len(source) < MAX_NESTING else None)

    def _add_object(self, value: Any, kind: type, source: Source | None) -> None:
        if issubclass(kind, TracedArray):
            self._add_array(value)
        elif kind is list:
            self._add_list(value, source)
        elif kind is LiftedList:
            self._add_lifted_list(value)
        elif kind is ListIterator:
            self.key.append(kind)
            self.add(value.items)
            self.add(value.place)
        elif kind is tuple or (issubclass(kind, tuple) and hasattr(kind, "_fields")):
            self.key += (kind, len(value))
            for index, item in enumerate(value):
                self.add(item, None if source is None else (*source, index))
        elif kind is dict:
            self.key += (kind, len(value))
            for name, item in value.items():
                self.add(name)
                self._held(item, source if type(name) is str else None, name, partial(value.__setitem__, name))
        elif kind is deque:
            self.key += (kind, value.maxlen, len(value))
            for index, item in enumerate(value):
                self._held(item, source, index, partial(value.__setitem__, index))
        elif kind is partial:
            self.key.append(kind)
            for part in (value.func, value.args, value.keywords, vars(value)):
                self.add(part)
        elif kind in (set, frozenset):
            if not all(type(item) in (*_VALUES, int, float) for item in value):
                raise Indescribable
            self.key += (kind, tuple((type(item), _bits(item) if type(item) is float else item) for item in value))
        elif issubclass(kind, np.ndarray):
            self._add_ndarray(value, kind, source)
        elif kind is LiftedRange:
            self.key += (kind, value.bound)
            self._form(value.form)
            self.add(value.left)
        elif kind in (RANGE_ITERATOR, RowIterator):
            self.key.append(kind)
            self._form(form_of(value, length_hint(value)))
            self.add(length_hint(value))
        elif kind in _ITERATORS:
            self.key.append(kind)
            for part in value.__reduce__()[1:]:
                self._iterated.update(map(id, part if type(part) is tuple else ()))
                self.add(part)
        elif kind is slice:
            self.key.append(kind)
            for part in (value.start, value.stop, value.step):
                self.add(part)
        elif kind is FunctionType:
            self._add_function(value, source)
        elif kind is MethodType:
            self.key.append(kind)
            self.add(value.__func__, None if source is None else (*source, "function"))
            self.add(value.__self__, None if source is None else (*source, "self"))
        elif kind is CellType:
            self.key.append(kind)
            self._held(_content(value), source if id(value) in self._cells else None, "cell", partial(setattr, value, "cell_contents"))
        elif kind is GeneratorType:
            self._add_generator(value)
        elif kind is BuiltinFunctionType and not isinstance(value.__self__, (ModuleType, type, type(None))):
            self.key += (kind, value.__name__)      # a method, made anew each time
            self.add(value.__self__, None if source is None else (*source, "self"))
        elif isinstance(value, _BY_IDENTITY):
            self._add_identity(value)
        else:
            self._add_instance(value, kind, source)

    def _add_list(self, items: list[Any], source: Source | None) -> None:
        if source is not None and self._lifts_held:
            grown = (*source, GROWN)
            if self._lifted(grown, None) is not None:
                self.growing.append((grown, items))
            self.lists.append((grown, id(items), len(items), form_of_list(items)))
        self.key += (list, len(items))
        begins = [len(self.key)]
        for index, item in enumerate(items):
            store = partial(items.__setitem__, index)
            apart = item if source is None else self._unshared(item, store, TracedArray)
            self._listed.update(map(id, () if source is None else apart if type(apart) is tuple else (apart,)))
            if len(items) <= MAX_LIFTED_ITEMS:
                self._held(apart, source, index, store)
            else:
                self.add(apart)
            begins.append(len(self.key))
        alike = self.key[begins[0]:begins[1]] if items else []
        if all(self.key[begin:end] == alike for begin, end in pairwise(begins)):
            self._alike.append((begins[0] - 1, len(self.key), tuple(alike)))

    def _add_lifted_list(self, items: LiftedList) -> None:
        buffer = items.buffer
        if buffer.scope is not active_scope():
            raise Indescribable
        self.lists.append((buffer.source, id(items), 0, None))
        self.key += (LiftedList, buffer.form)
        for array in buffer.arrays:
            self.add(array)
        self.add(buffer.count)

    def _add_identity(self, value: Any) -> None:
        self.key += ("object", id(value))
        self.kept.append(value)

    def _add_array(self, array: TracedArray) -> None:
        if not array.scope.open:
            self._add_identity(array)       # of a trace before, in a place from outside
            return
        value_type = array.value.type
        if isinstance(array, EitherFloat):
            self.key.append(EitherFloat)
            self.state += (array, array.numpys)
            self._numbers.setdefault(id(array.numpys), len(self._numbers))
            return
        if self.result and (array.alias is None or array.alias.key is None or not array.alias.certain):
            self.key += (_class(array), value_type)
            self.state.append(array)
            return
        self.key += (_class(array), value_type, array.weak, array.scalar, array.writable, array.layout_known, array._steps,
                     self._given.get(id(array)))
        if array.alias is None:
            self.state.append(array)
            return
        if array.alias.key is None or not array.alias.certain:
            raise Indescribable
        self.key.append("view")
        self._add_view_key(array.alias.key)
        self.views.append(array)
        self.add(array.alias.base)
        for place in array.alias.places:
            self.add(place)

    def _add_view_key(self, key: Any) -> None:
        """Describe where a view lies in its base. The numbers come of others, as a loop over an array has another row in each iteration."""
        if type(key) is tuple:
            self.key += (tuple, len(key))
            for part in key:
                self._add_view_key(part)
        elif type(key) is int:
            self.key.append(int)
            self.contents.append(key)
        else:
            self.key.append(key)

    def _add_ndarray(self, array: np.ndarray, kind: type, source: Source | None) -> None:
        if kind in FRESH:
            self._add_fresh(array, source if self._lifts_held else None)
        elif ORIGINAL_CLASS.get(kind, kind) is np.ndarray and isinstance(array.base, np.ndarray) and type(array.base) not in FRESH:
            self._add_view(array, array.base)
        elif kind is not np.ndarray or array.nbytes > _LARGEST_CONTENT or array.dtype.hasobject or array.base is not None:
            self._add_identity(array)
        else:
            self.key += (kind, array.dtype, array.shape, array.strides, array.flags.writeable)
            self.contents.append(fingerprint(array))

    def _add_view(self, view: np.ndarray, base: np.ndarray) -> None:
        """Describe a view of a plain array by the array: each iteration over an array is one over a new view."""
        plain, whole = (np.ndarray.view(array, np.ndarray) for array in (view, base))       # unobserved
        start = plain.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
        self.key += ("part", id(base), start, plain.dtype, plain.shape, plain.strides, plain.flags.writeable, type(view) is np.ndarray)
        self.kept.append(base)

    def _add_fresh(self, array: np.ndarray, source: Source | None) -> None:
        """Describe an array that the function made: by the traced array that it stands for by now, or by its content, which may become
        part of the state as the numbers of variables do."""
        held = standing_for(array)
        root = root_of(array)
        content = None if source is None else (*source, CONTENT)
        if held is None and content is not None and id(root) not in self._roots:
            held = self._lifted(content, array)
        if content is not None:
            self.fresh[content] = held is not None
        if held is not None:
            self.key.append("fresh")
            self.add(held)
            return
        plain, whole = np.ndarray.view(array, np.ndarray), np.ndarray.view(root, np.ndarray)
        start = plain.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
        self.key += ("fresh", FRESH[type(array)], plain.dtype, plain.shape, plain.strides, plain.flags.writeable, start)
        if id(root) in self._roots:
            self.key += ("root", self._roots[id(root)])
            return
        self._roots[id(root)] = len(self._roots)
        self._met.append(root)
        if whole.nbytes > _LARGEST_CONTENT:
            raise Indescribable
        if content is None:
            self.contents.append(fingerprint(whole))
        else:
            self.numbers.append((content, fingerprint(whole)))

    def _add_function(self, function: FunctionType, source: Source | None) -> None:
        self.key += (FunctionType, function.__code__, id(function.__globals__))
        self.kept.append(function.__globals__)
        self.add(function.__defaults__)
        self.add(function.__kwdefaults__)
        for index, cell in enumerate(function.__closure__ or ()):
            self.add(cell, None if source is None else (*source, index))
        attributes = {name: held for name, held in function.__dict__.items() if not name.startswith("__adjit_")}     # transforms made of it
        if attributes:
            self.add(attributes)

    def _add_generator(self, generator: GeneratorType[Any, Any, Any]) -> None:
        frame = generator.gi_frame
        if generator.gi_running or (frame is not None and generator.gi_yieldfrom is not None):
            raise Indescribable
        self.key.append(GeneratorType)
        if frame is None:
            return
        self.key += (frame.f_code, frame.f_lasti)
        for value in gc.get_referents(generator):
            if type(value) not in (FrameType, CodeType):
                self.add(value)

    def _add_instance(self, value: Any, kind: type, source: Source | None) -> None:
        """Describe an object of a class that is written in Python, with no other state than its attributes."""
        if is_ours(kind.__module__) and hasattr(value, "__adjit_settings__") and id(value) not in self._outside:
            self.key += ("compiled", id(kind), value.__adjit_settings__)       # `g = aj.grad(f)` of the function, made anew in each trace
            self.kept.append(kind)
            self.add(value.__wrapped__)
            return
        draws = issubclass(kind, random.Random)
        if not all(base is object or _is_written_in_python(base) or (draws and base in random.Random.__mro__) for base in kind.__mro__):
            raise Indescribable
        if is_ours(kind.__module__):
            if not hasattr(value, "__wrapped__"):       # compiled functions have no state of their own; tensors and optimisers do
                raise Indescribable
            self._add_identity(value)
            return
        self.key += ("instance", id(kind), state_of(value) if draws else None)
        self.kept.append(kind)
        for name, item, store in _attributes(value, kind):
            self.key.append(name)
            self._held(item, source, name, store)


def _as_it_is(source: Source | None, number: Any) -> None:
    return None


def _nowhere(value: Any) -> None:
    """Store nothing."""


def _exact(number: Any) -> Any:
    return _bits(number) if type(number) is float else number


def _class(array: TracedArray) -> type:
    return type(array) if isinstance(array, LiftedNumber) else TracedArray


class _Sample:
    pass


_DEALLOC = 48       # PyTypeObject.tp_dealloc
_POINTER = ctypes.sizeof(ctypes.c_void_p)


def _is_written_in_python(kind: type) -> bool:
    """True for a class made by a `class` statement: C code frees the objects of most of its classes in a way of its own, and those of
    others (`_random.Random`) are larger than their slots."""
    if ctypes.c_void_p.from_address(id(kind) + _DEALLOC).value != ctypes.c_void_p.from_address(id(_Sample) + _DEALLOC).value:
        return False
    base = kind.__base__
    assert base is not None
    slots = sum(isinstance(member, MemberDescriptorType) for member in kind.__dict__.values())
    slots += sum(0 < offset != before for offset, before in (
        (kind.__dictoffset__, base.__dictoffset__), (kind.__weakrefoffset__, base.__weakrefoffset__)))
    return kind.__basicsize__ == base.__basicsize__ + _POINTER * slots


def _bits(number: complex) -> bytes:
    return struct.pack("dd", number.real, number.imag)


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return NotImplemented


def _attributes(value: Any, kind: type) -> Iterator[tuple[str, Any, Callable[[Any], object]]]:
    """Names and values of the attributes of an object, and what sets one without code of its class."""
    own: Any = own_attributes(value)
    yield from ((name, item, partial(own.__setitem__, name)) for name, item in own.items())
    for base in kind.__mro__:
        for name, member in base.__dict__.items():
            if isinstance(member, MemberDescriptorType):
                try:
                    item = member.__get__(value, kind)
                except AttributeError:
                    item = NotImplemented
                yield name, item, partial(member.__set__, value)


def user_frame() -> FrameType:
    """The innermost frame that is not ours."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_ours(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
    assert frame is not None
    return frame
