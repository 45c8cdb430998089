"""Recorder of one trace's decisions: what is known of the ways behind a decision becomes a branch or a loop, what is new is recorded.

Python runs on, along the way that the values of the call choose, also where the branch or loop has been emitted already. What it records
meanwhile is taken back at the point at which all ways meet; the arrays that are live there get the values that the branch or loop gives.
"""

from __future__ import annotations

import operator
import weakref
from collections import Counter, deque
from collections.abc import Hashable, Sequence
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.builder import GraphBuilder
from adjit.ir.dataclass import dataclass
from adjit.ir.definition import Kind
from adjit.ir.emitter import emitting
from adjit.ir.graph import Op, Value
from adjit.ir.types import I64, TensorType
from adjit.tracer.array import TracedArray
from adjit.tracer.flow.either_float import EitherFloat, either
from adjit.tracer.flow.flow_graph import APART, CONTENT, EITHER, GROWN, SHARED, Block, FlowGraph, FlowMismatch, Key, Source
from adjit.tracer.flow.lifted_list import forget_dead_lists, lift_list, may_lift
from adjit.tracer.flow.lifted_numbers import LiftedNumber, NotLiftable, copied, lift, lift_content
from adjit.tracer.flow.lifted_range import LiftedRange, left_in
from adjit.tracer.flow.program_point import ProgramPoint, point_of_decision, point_of_result, user_frame
from adjit.tracer.flow.simulation import Simulation
from adjit.tracer.flow.structured import State, Structure, Unstructured
from adjit.tracer.scope import Scope
from adjit.tracer.user_location import find_user_location

FORWARD_AFTER = 4
"""Times that a trace comes by a point until the rounds behind are simulated, and rounds that are worth it."""


@dataclass(frozen=True, slots=True)
class _Start:
    """Where a block begins: after the decision at a point came out in one way."""

    key: Key
    outcome: bool
    state: State
    iterators: tuple[Any, ...]
    left: tuple[int, ...]       # numbers that the iterators had left
    position: int       # in the ops of the builder

    def count(self, index: int) -> Value:
        """Value of the state for the numbers that an iterator had left."""
        return self.state[len(self.state) - 1 - len(self.iterators) + index]


@dataclass(frozen=True, slots=True)
class _Ahead:
    """Branch or loop that was emitted, while Python is still on its way to the goal behind it."""

    goal: Key
    state: State        # at the goal
    position: int       # of what is recorded on the way
    outcomes: dict[Key, bool]       # by which Python gets to the goal, on a shortest way


class FlowRecorder:
    """Recorder of the decisions of one scope, made at its beginning."""

    def __init__(self, graph: FlowGraph, scope: Scope):
        assert isinstance(scope.builder, GraphBuilder)
        self.graph, self.scope, self.builder = graph, scope, scope.builder
        self.plain: list[Key] = []      # points at which there was a guard
        self.arguments: tuple[TracedArray, ...] = ()        # whose content the caller sees at the end
        self._visits: Counter[Key] = Counter()
        values = scope.root.values
        assert values is not None
        self._simulation = Simulation(graph, values.expand)
        self._checks: Value | None = None       # what has to hold since the last point
        self._start: _Start | None = None
        self._ahead: _Ahead | None = None
        graph.recorders.append(self)

    @property
    def is_ahead(self) -> bool:
        """True while what is recorded is not part of the program."""
        scope: Scope | None = self.scope
        while scope is not None:
            if scope.flow is not None and scope.flow._ahead is not None:
                return True
            scope = scope.parent
        return False

    def decide(self, array: TracedArray, kind: str) -> Any:
        """What Python is told of a traced scalar, as a `kind`: a decision, if it asks for the truth."""
        decided, values = array.value, self.scope.root.values
        assert values is not None
        assert isinstance(array.scope.builder, GraphBuilder)
        if not values.varies(decided, array.scope.builder):
            return array.told(kind)
        point = None
        if kind == "bool" and not self.scope.written:
            point = point_of_decision(user_frame(), self.scope.root.outside(), self.arguments, self._arguments(),
                                      lambda: self._cells(array), self._lift, self.graph.unshared_types)
        if point is None:
            self._start = None
            self._guard_checks()
            return array.told(kind, not self.is_ahead)
        key, state = self._arrive(point, decided)
        outcome = self.graph.explored_outcome(key) if self.graph.exploring else None
        if outcome is None:
            if self._ahead is not None and self._ahead.goal == key:
                state = self._catch_up(point, array)
            if self._ahead is None and not self.graph.exploring and not self.graph.growing:
                self._look_ahead(key, state)
            if self._ahead is None and not self.graph.exploring:
                state = self._forward(key, state, point, array)
            outcome = self._outcome_on_the_way(key, point)
        if outcome is None:
            guarded = not self.is_ahead
            if guarded:
                self.plain.append(key)
            outcome = array.told(kind, guarded, key)
        left = tuple(map(operator.length_hint, point.iterators))
        self._start = _Start(key, outcome, state, point.iterators, left, len(self.builder.ops))
        return outcome

    def interrupt(self) -> None:
        """Take the block under way for none that could stand for another way: a decision is made in a region within it."""
        self._start = None

    def finish(self, result: Any) -> None:
        """Note the result of the function."""
        point = None if self.scope.written else point_of_result(
            result, self.scope.root.result_tree, self.scope.root.outside(), self._arguments(), self.scope.parent is not None)
        if point is not None:
            key, _ = self._arrive(point, None)
            if self._ahead is not None and self._ahead.goal == key:
                self._catch_up(point, None)
        else:
            self._guard_checks()
        if self._ahead is not None:
            raise FlowMismatch

    def learned(self) -> bool:
        """True if another trace of the function would have fewer guards."""
        return any(self._structure(key) is not None for key in set(self.plain))

    # -- points

    def _arrive(self, point: ProgramPoint, decided: Value | None) -> tuple[Key, State]:
        """Key and state at a point; the block that leads to it is recorded. The numbers that iterators have left are part of the state."""
        for array in point.state:
            if isinstance(array, LiftedNumber) and array.arrive() and not self.check(array.is_begin()):
                raise NotLiftable(array.sources)
            elif not array.immutable and id(array) not in self.graph.met:
                self.graph.met[id(array)] = weakref.ref(array, partial(_forget, self.graph.met, id(array)))
        for view in point.views:
            if view.scope is self.scope and view.alias is not None and view.alias.places:
                view._version = -1      # what follows reads it anew, at places of the state
        values = tuple(array.value for array in point.state)
        counts = tuple(map(self._count_left, point.iterators))
        state = (*values, *counts) if decided is None else (*values, *counts, decided)
        sharing = self._sharing(values)
        family = (point.key, sharing) if point.family is None else (point.family, len(set(sharing)) == len(sharing))
        key = self._number((*point.whole_key, sharing), state, point.kept, family)
        self.graph.note_numbers(key, (point.key, point.counters, sharing), point.numbers, family)
        start = None if self._start is None else self._start.key
        if point.floats:
            self.graph.note_classes(key, point.key[:3], dict(point.floats), start)
        if point.shared:
            self.graph.note_shared(key, point.key[:3], point.shared, start)
        if point.fresh:
            self.graph.note_fresh(point.key[:3], point.fresh)
        if point.lists:
            self.graph.note_lists(key, point.key[:3], point.lists, start)
        if self._start is not None:
            self._record(self._start, list(self.builder.ops[self._start.position:]), state, key, point)
        else:
            self._guard_checks()
        return key, state

    def check(self, condition: Value) -> bool:
        """Have the program check a condition where it comes to the next point; returns whether it holds for this call. Conditions are
        joined as they come: a loop that makes one in each run is one."""
        values = self.scope.root.values
        assert values is not None
        if self._ahead is None and not values.array(condition, self.builder):
            return False
        if values.varies(condition, self.builder):
            with emitting(self.builder):
                self._checks = condition if self._checks is None else ops.logical_and(self._checks, condition)
        return True

    def _guard_checks(self, key: Key = None) -> None:
        """Guard what has to hold."""
        values, checks = self.scope.root.values, self._checks
        assert values is not None
        self._checks = None
        if checks is not None and not self.is_ahead:
            values.answer(checks, self.builder, "bool", find_user_location(), True, None if key is None else ("checked", key))

    def _lift(self, source: Source | None, number: Any) -> Any:
        """What takes the place of a number, of the iterator of a loop, or of the content of an array, if it is lifted; without `source`,
        a copy of a traced scalar."""
        if source is not None and source[-1] is EITHER:
            return self._lift_class(source, number)
        if (source is not None and source not in self.graph.lifted) or self.graph.asks_for_identity(user_frame()):
            return None
        if source is None or source[-1] is APART:
            if isinstance(number, EitherFloat):
                with emitting(self.builder):
                    return number.copied()
            return copied(number) if number.immutable or self.is_unshared(number.value.type) else None
        if source[-1] is CONTENT:
            return lift_content(number, self.scope)
        if source[-1] is GROWN:
            if may_lift(source, self.graph, user_frame()):
                return number is None or lift_list(number, source, self.scope)
            return None
        return lift(number, source, self.scope) if left_in(number) is None else LiftedRange(number, source, self.scope)

    def _lift_class(self, source: Source, number: Any) -> EitherFloat | None:
        """What takes the place of a float, if its class is part of the state."""
        if source not in self.graph.lifted or self.graph.asks_for_identity(user_frame()) or self.graph.asks_for_class(user_frame()):
            return None
        return either(number, source, self.scope)

    def is_unshared(self, kind: TensorType) -> bool:
        """True if nobody can tell that arrays of this type are one: nothing is written to them."""
        if kind in self.graph.written_types or SHARED in self.graph.fixed:
            return False
        self.graph.unshared_types.add(kind)
        return True

    def note_write(self, array: TracedArray) -> None:
        """Note that an array gets other content. Raises `NotLiftable` if it may be one of those that got a copy for each of their names:
        in another call, of which a point says the same, it may have had two."""
        met = self.graph.met.get(id(array))
        if met is not None and met() is array:
            kind = array._value.type
            self.graph.written_types.add(kind)
            if kind in self.graph.unshared_types:
                raise NotLiftable(frozenset((SHARED,)))

    def _number(self, key: Hashable, state: State, kept: Sequence[object], family: Hashable = None) -> Key:
        number = self.graph.number(key, kept, family)
        self.graph.types.setdefault(number, tuple(value.type for value in state))
        return number

    def _count_left(self, iterator: Any) -> Value:
        """Value for the numbers that an iterator has left: fewer than before, if the loop went on."""
        left, start = operator.length_hint(iterator), self._start
        with emitting(self.builder):
            for index, known in enumerate(() if start is None else start.iterators):
                if known is iterator and start is not None:
                    steps = start.left[index] - left
                    return ops.subtract(start.count(index), ops.constant(value=steps, dtype=I64, shape=())) if steps else start.count(index)
            return ops.constant(value=left, dtype=I64, shape=())

    def _sharing(self, values: Sequence[Value]) -> tuple[object, ...]:
        """What tells states apart in which other arrays are the same value, or are captured."""
        first: dict[Value, int] = {}
        captured = {known.value: identity for identity, known in self.scope.root.captures.items()}
        return tuple(("captured", captured[value]) if value in captured else first.setdefault(value, index)
                     for index, value in enumerate(values))

    def _record(self, start: _Start, recorded: Sequence[Op], state: State, key: Key, point: ProgramPoint) -> None:
        """Record the block that leads to a point. That a loop went on, or came to its end, is a decision on the way."""
        at, outcome = start.key, start.outcome
        found: list[tuple[Key, bool, Block | None]] = []
        for index, iterator in reversed(list(enumerate(start.iterators))):      # the innermost loop of a frame is the last
            before, left = start.left[index], operator.length_hint(iterator)
            remains = any(known is iterator for known in point.iterators)
            if before == left and (remains or before):
                continue        # the loop is where it was, or was left by a break
            if before - left != remains:
                self._guard_checks()
                return          # several numbers without a decision
            position = len(self.builder.ops)
            with emitting(self.builder):
                goes_on = ops.greater(start.count(index), ops.constant(value=0, dtype=I64, shape=()))
            between = (*start.state[:-1], goes_on)
            following = self._number(("next", at, outcome, index), between, ())
            self.graph.between[following] = index
            found.append((at, outcome, self._block(start, self.builder.ops[position:], between, following)))
            at, outcome = following, remains
            self._guard_count(goes_on, remains, following)
        if self._checks is not None:
            checked = (*state, self._checks)
            following = self._number(("checked", at, outcome, key), checked, ())
            self.graph.checked.add(following)
            found.append((at, outcome, self._block(start, recorded, checked, following)))
            self._guard_checks(following)
            whole = tuple(map(self._inner, state))
            found.append((following, True, Block(whole, (), whole, {}, key)))
        else:
            found.append((at, outcome, self._block(start, recorded, state, key)))
        if all(block is not None for *_, block in found):
            for begin, came_out, block in found:
                self.graph.add(begin, came_out, block)      # type: ignore[arg-type]

    def _guard_count(self, goes_on: Value, outcome: bool, key: Key) -> None:
        """Guard that a loop goes on, or ends, if that depends on values: on how often a loop before it was run."""
        values = self.scope.root.values
        assert values is not None
        if values.varies(goes_on, self.builder) and not self.is_ahead:
            told = values.answer(goes_on, self.builder, "bool", find_user_location(), True, ("next", key))
            if told != outcome:
                raise FlowMismatch

    def _block(self, start: _Start, recorded: Sequence[Op], state: State, end: Key) -> Block | None:
        """The ops recorded since `start`; None if they read what is neither part of the state nor captured."""
        inputs = tuple(map(self._inner, start.state[:-1]))
        known = set(inputs)
        first: list[Op] = []
        captured: dict[Value, object] = {}
        outside = {known.value: known.array for known in self.scope.root.captures.values()}
        outputs = tuple(map(self._inner, state))
        for op in recorded:
            known.update(op.results)
        waiting = [*(value for op in recorded for value in op.operands), *outputs][::-1]
        while waiting:
            value = waiting.pop()
            if value in known:
                continue
            outer, maker = self._outermost(value), self.builder.producer(value)
            if outer in outside:
                captured[value] = outside[outer]
                known.add(value)
            elif maker is not None and known.issuperset(maker.operands) and maker.definition.kind in (Kind.CREATION, Kind.MOVEMENT):
                first.append(maker)         # a number, or a view of the state
                known.update(maker.results)
            elif maker is not None and maker.definition.kind is Kind.MOVEMENT:
                waiting += (value, *(operand for operand in maker.operands if operand not in known))
            else:
                return None
        return Block(inputs, (*first, *recorded), outputs, captured, end)

    def _inner(self, value: Value) -> Value:
        """The value within the builder's graph."""
        return self.builder.captures.get(value, value)

    def _outermost(self, value: Value) -> Value:
        builder: GraphBuilder | None = self.builder
        while builder is not None and value in builder.stands_for:
            value, builder = builder.stands_for[value], builder.parent
        return value

    def _arguments(self) -> tuple[TracedArray, ...]:
        """The arguments, and arrays from outside that are written to, if any of them was."""
        cells = (*self.arguments, *(taken.cell for taken in self.scope.taken.values()))
        return cells if any(cell.written for cell in cells) else ()

    def _cells(self, decided: TracedArray) -> list[TracedArray]:
        """The living arrays of the scope that own their content, but for what is decided on and for arguments that were not written to."""
        forget_dead_lists(self.scope)
        living, found = [], []
        for reference in self.scope.cells:
            cell = reference()
            if cell is not None:
                living.append(reference)
                if cell is not decided and cell._value not in self.builder.params:
                    found.append(cell)
        self.scope.cells[:] = living
        return found

    # -- known ways

    def _structure(self, key: Key) -> Structure | None:
        """The branch or loop that begins at a point; None if there is none, or no point at which its ways meet."""
        blocks = self.graph.blocks.get(key, {})
        if not blocks or key in self.graph.unstructured:
            return None
        structure = Structure(self.graph, key, lambda array: self.scope.capture(array))     # type: ignore[arg-type]
        return structure if structure.goal is not None and (structure.is_loop or len(blocks) == 2) else None

    def _look_ahead(self, key: Key, state: State) -> None:
        """Emit the branch or loop that begins at a point."""
        structure = self._structure(key)
        if structure is None:
            return
        position = len(self.builder.ops)
        try:
            after, ok = structure.emit(tuple(map(self.builder.resolve, state)))
        except Unstructured:
            self.graph.unstructured.add(key)
            self.builder.take_back(position)
            return
        if ok is not None and not self._guard(ok, key):
            self.builder.take_back(position)        # this call goes a way that nobody went
            self.graph.growing = True
            return
        assert structure.goal is not None
        self.graph.structured.add(key)
        self._ahead = _Ahead(structure.goal, after, len(self.builder.ops), self.graph.outcomes_towards(structure.goal, key))

    def _outcome_on_the_way(self, key: Key, point: ProgramPoint) -> bool | None:
        """What Python is told while it is on its way to the goal of what was emitted: as the key of the goal decides what comes behind it,
        and its state is known, the shortest of the known ways will do. None if Python is on no such way."""
        if self._ahead is None or not self.graph.guides:
            return None
        outcome = self._ahead.outcomes.get(key)
        if outcome is None:
            raise FlowMismatch
        self.graph.guided = True
        end = self.graph.blocks[key][outcome].end
        while end in self.graph.between:
            goes_on, iterator = self._ahead.outcomes[end], point.iterators[self.graph.between[end]]
            if not goes_on:
                deque(iterator, maxlen=0)
            elif not operator.length_hint(iterator):
                raise FlowMismatch
            end = self.graph.blocks[end][goes_on].end
        return outcome

    def _forward(self, key: Key, state: State, point: ProgramPoint, array: TracedArray) -> State:
        """Lead Python past the rounds of a loop that are known, to where the call goes a way that nobody traced, or to the end; returns the
        state, which is another one if this is at the same point."""
        self._visits[key] += 1
        if self._visits[key] < FORWARD_AFTER or not self.graph.guides or self.is_ahead or key in self.graph.unstructured \
                or self._arguments() or key not in self.graph.blocks:
            return state
        self._visits[key] = -FORWARD_AFTER      # where it helps, the point comes up no more
        values = self.scope.root.values
        assert values is not None
        try:
            reached = self._simulation.run(key, [values.array(value, self.builder) for value in state])
        except Exception:       # of user code that would raise it, too: Python goes there
            return state
        if reached is None or reached.steps < FORWARD_AFTER:
            return state
        outcomes = self.graph.outcomes_towards(reached.key, key)
        if key not in outcomes and reached.key != key:
            return state
        self.graph.forwarded = self.graph.guided = True
        kept = self.graph.kept_items(key, frozenset(self.graph.blocks))[reached.key]
        after = tuple(self._given(array) if item is None else state[item] for array, item in zip(reached.state, kept, strict=True))
        self._ahead = _Ahead(reached.key, after, len(self.builder.ops), outcomes)
        return self._catch_up(point, array) if reached.key == key else state

    def _given(self, array: np.ndarray) -> Value:
        """Value for an array of a simulation."""
        root, values = self.scope.root.builder, self.scope.root.values
        assert isinstance(root, GraphBuilder)
        assert values is not None
        value = root.param(TensorType(array.dtype, array.shape), role="captured")
        values.bind(value, array)
        return self.builder.resolve(value)

    def _guard(self, ok: Value, key: Key) -> bool:
        """Guard the flag that all outcomes were known; returns whether they are for this call."""
        values = self.scope.root.values
        assert values is not None
        location = find_user_location()
        known = bool(values.answer(ok, self.builder, "bool", location, False))
        if known and not self.is_ahead:
            values.answer(ok, self.builder, "bool", location, True, ("known", key))
        return known

    def _catch_up(self, point: ProgramPoint, decided: TracedArray | None) -> State:
        """Go on from the goal of what was emitted, with its state."""
        ahead, values = self._ahead, self.scope.root.values
        assert ahead is not None
        assert values is not None
        self._ahead = None
        self.builder.take_back(ahead.position)
        first = len(point.state)
        for index, iterator in enumerate(point.iterators if self.graph.guided else ()):
            surplus = operator.length_hint(iterator) - int(values.array(ahead.state[first + index], self.builder))
            if surplus < 0:
                raise FlowMismatch
            deque(islice(iterator, surplus), maxlen=0)
        written = bool(self._arguments())       # their content is part of the state, whichever of them this way wrote to
        for place, (array, value) in enumerate(zip(point.state, ahead.state, strict=False)):
            if array.scope is self.scope and array._value is not value:
                array._value = value
                if isinstance(array, LiftedNumber):
                    values.vary(value)
                if isinstance(array, EitherFloat):
                    values.vary(ahead.state[place + 1])         # whether it is NumPy's
                given = not written and any(array is argument for argument in self.scope.arguments)     # a result that is an argument
                array._version += array.alias is None and not given     # one of the ways wrote to it; views are part of a result only
        for view in point.views:
            if view.scope is self.scope and not self.builder.owns(view._value):     # it was read on the way: what follows has it from here
                view._version = -1
                view.value      # noqa: B018
        if decided is not None:
            decided._value = ahead.state[-1]
        return ahead.state


def _forget(known: dict[int, Any], identity: int, _: object) -> None:
    known.pop(identity, None)


def recorder_of(scope: Scope) -> FlowRecorder | None:
    """Recorder for a scope, if the ways through the traced function are recorded."""
    values = scope.root.values
    return None if values is None or values.flow is None else FlowRecorder(values.flow, scope)
