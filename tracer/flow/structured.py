"""Branches and loops for a part of a control-flow graph: `cond` where two ways meet again, `while_loop` where a way comes back.

Outcomes that nobody has seen have no code: where the program would need it, it says so with a flag, and a guard on the flag stops it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple, TypeVar

from adjit.ir import ops
from adjit.ir.builder import GraphBuilder
from adjit.ir.control_flow import emit_cond, emit_while
from adjit.ir.emitter import current_emitter
from adjit.ir.graph import Op, Value
from adjit.ir.types import BOOL, TensorType, is_float
from adjit.tracer.flow.flow_graph import Block, FlowGraph, Key, cycles, immediate_postdominators, reachable

Returned = TypeVar("Returned")

State = tuple[Value, ...]
"""Values of the state at a point; at a decision the last one is what is decided on."""


class Unstructured(Exception):
    """Raised for control flow that has no join to go on from, or becomes too much code."""


MAX_DEPTH = 6
"""Most branches and loops within each other."""

MAX_COPIES = 2
"""Most times that a block is written: once for each way that leads to it, unless they all meet at its point. Ways with a number that Python
counts along each of them do not meet, and would be written in all their combinations."""


MAX_FLAGS = 12
"""Most points with an outcome that nobody has seen, one behind the other: what is behind such a point is code within a branch on its flag.
Ways that part in each round of a loop, and do not come back, have as many of them as there were rounds."""


class _Limits:
    """How much was emitted."""

    def __init__(self) -> None:
        self.depth = 0
        self.flags = 0
        self.copies: Counter[int] = Counter()       # of blocks, by the identity of their ops


class Structure:
    """Structured code for the ways from one point of a flow graph to a point at which they all meet."""

    def __init__(self, graph: FlowGraph, start: Key, capture: Callable[[object], Value]):
        self.graph, self.start, self._capture = graph, start, capture
        self._limits = _Limits()
        self._joins, self._cycles = graph.analysis()
        self.goal = self._goal(start)

    @property
    def is_loop(self) -> bool:
        return self.start in self._cycles

    def _goal(self, key: Key) -> Key | None:
        """The first point at which all ways from `key` meet, behind the loop that `key` is part of."""
        within = self._cycles.get(key, frozenset())
        goal = self._joins.get(key)
        while goal is not None and (goal in within or goal in self.graph.between or goal in self.graph.checked):
            goal = self._joins.get(goal)
        return goal

    def emit(self, state: State) -> tuple[State, Value | None]:
        """Emit the code from the start, with this state, to the goal; returns the state there, and the flag that all outcomes were
        known."""
        if self.goal is None:
            raise Unstructured
        after, ok = self._run_to(self.start, state, self.goal)
        within = reachable(self.start, lambda key: [] if key == self.goal else self.graph.successors(key))
        kept = self.graph.kept_items(self.start, frozenset(within) - {self.goal})[self.goal]
        return tuple(value if item is None else state[item] for value, item in zip(after, kept, strict=True)), ok

    # -- one goal

    def _run_to(self, key: Key, state: State, goal: Key) -> tuple[State, Value | None]:
        """Code from a point to a goal that all ways reach."""
        while key != goal:
            key, state, ok = self._loop(key, state) if key in self._cycles else self._branch(key, state)
            if ok is not None:
                return (state, ok) if key == goal else self._cond(ok, self._flagged(partial(self._run_to, key, state, goal)),
                                                                  self._unknown(goal))
        return state, None

    def _flagged(self, run: Callable[[], Returned]) -> Callable[[], Returned]:
        """Code behind a point with an outcome that nobody has seen."""
        def flagged() -> Returned:
            limits = self._limits
            limits.flags += 1
            if limits.flags > MAX_FLAGS:
                raise Unstructured
            result = run()
            limits.flags -= 1
            return result
        return flagged

    def _branch(self, key: Key, state: State) -> tuple[Key, State, Value | None]:
        blocks = self.graph.blocks.get(key, {})
        *values, predicate = state
        if len(blocks) == 2:
            join = self._joins[key]
            if join is None:
                raise Unstructured
            first, second = (self._side(block, values, join) for block in (blocks[True], blocks[False]))
            return join, *self._cond(predicate, first, second)
        ((outcome, block),) = blocks.items()
        taken = self._side(block, values, block.end)
        missing = self._unknown(block.end)
        return block.end, *self._cond(predicate, *((taken, missing) if outcome else (missing, taken)))

    def _side(self, block: Block, values: Sequence[Value], goal: Key) -> Callable[[], tuple[State, Value | None]]:
        def run() -> tuple[State, Value | None]:
            with self._within():
                return self._run_to(block.end, self._run_block(block, values), goal)
        return run

    @contextmanager
    def _within(self) -> Iterator[None]:
        """Emit within a branch or a loop."""
        limits = self._limits
        limits.depth += 1
        if limits.depth > MAX_DEPTH:
            raise Unstructured
        yield
        limits.depth -= 1

    def _unknown(self, goal: Key) -> Callable[[], tuple[State, Value | None]]:
        return lambda: (self._zeros(goal), _bool(False))

    def _zeros(self, key: Key) -> State:
        return tuple(ops.constant(value=_zero(type), dtype=type.dtype, shape=type.shape) for type in self.graph.types[key])

    def _cond(self, predicate: Value, on_true: Callable[[], tuple[State, Value | None]],
              on_false: Callable[[], tuple[State, Value | None]]) -> tuple[State, Value | None]:
        flags: list[bool] = []

        def with_flag(run: Callable[[], tuple[State, Value | None]]) -> Callable[[], Sequence[Value]]:
            def side() -> Sequence[Value]:
                state, ok = run()
                flags.append(ok is not None)
                return *state, ok if ok is not None else _bool(True)
            return side

        *state, ok = emit_cond(predicate, with_flag(on_true), with_flag(on_false))
        return tuple(state), ok if any(flags) else None

    def _run_block(self, block: Block, values: Sequence[Value]) -> State:
        """Copy the ops of a block, for other values of the state before it."""
        builder = current_emitter()
        assert isinstance(builder, GraphBuilder)
        self._limits.copies[id(block.outputs)] += 1
        if self._limits.copies[id(block.outputs)] > MAX_COPIES:
            raise Unstructured
        known = {old: builder.resolve(new) for old, new in zip(block.inputs, values, strict=True)}
        known |= {old: builder.resolve(self._capture(array)) for old, array in block.captured.items()}
        for op in block.ops:
            results = tuple(Value(value.type, value.name) for value in op.results)
            builder.append(Op(op.definition, tuple(known[value] for value in op.operands), results, op.attrs, op.regions, op.loc, op.role))
            known.update(zip(op.results, results, strict=True))
        return tuple(known[value] for value in block.outputs)

    # -- loops

    def _loop(self, header: Key, state: State) -> tuple[Key, State, Value | None]:
        """The loop with this header, entered with `state`; returns where the ways out of it meet."""
        members = self._cycles[header]
        blocks = self.graph.blocks[header]
        leaving = [outcome for outcome, block in blocks.items() if block.end not in members]
        inner = [end for key in members if key != header for end in self.graph.successors(key) if end not in members]
        if len(leaving) == 1 and len(blocks) == 2 and not inner:
            return self._while(header, state, not leaving[0])
        return self._loop_with_breaks(header, state, members)

    def _while(self, header: Key, state: State, stay: bool) -> tuple[Key, State, Value | None]:
        """A loop that only its header leaves."""
        block, leaving = self.graph.blocks[header][stay], self.graph.blocks[header][not stay]
        body, carried = _LoopBody(self, header), _Carried(self.graph, header, self._cycles[header], state)
        complete = body.is_complete(leaving.end)

        def condition(*values: Value) -> Value:
            predicate = carried.whole(values)[-1]
            go = predicate if stay else ops.logical_not(predicate)
            return go if complete else ops.logical_and(go, values[-1])

        def iteration(*values: Value) -> Sequence[Value]:
            with self._within():
                after, ok = body.run_back(block, carried.whole(values)[:-1])
            return carried.part(after) if complete else (*carried.part(after), ok if ok is not None else _bool(True))

        init = carried.part(state) if complete else (*carried.part(state), _bool(True))
        after = emit_while(condition, iteration, init)
        values = carried.whole(after)[:-1]
        if complete:
            return leaving.end, self._run_block(leaving, values), None
        return leaving.end, *self._cond(after[-1], lambda: (self._run_block(leaving, values), None), self._unknown(leaving.end))

    def _loop_with_breaks(self, header: Key, state: State, members: frozenset[Key]) -> tuple[Key, State, Value | None]:
        """A loop that points within its body leave. It carries the state behind the loop, and whether it is under way."""
        goal = self._goal(header)
        if goal is None:
            raise Unstructured
        body, carried = _LoopBody(self, header), _Carried(self.graph, header, members, state)
        count = len(carried.part(state))

        def condition(*values: Value) -> Value:
            return values[count]

        def iteration(*values: Value) -> Sequence[Value]:
            with self._within():
                run = body.run_iteration(carried.whole(values), goal)
            return *carried.part(run.back), run.again, run.ok, *run.left

        after = emit_while(condition, iteration, [*carried.part(state), _bool(True), _bool(True), *self._zeros(goal)])
        return goal, tuple(after[count + 2:]), None if body.is_complete(goal) else after[count + 1]


class _Carried:
    """Values of the state at the header of a loop that an iteration changes. The others stay what they are at the first iteration."""

    def __init__(self, graph: FlowGraph, header: Key, members: frozenset[Key], state: State):
        kept = graph.kept_items(header, members)[header]
        self._changed = [index for index in range(len(state)) if kept[index] != index]
        self._state = state

    def part(self, state: State) -> State:
        return tuple(state[index] for index in self._changed)

    def whole(self, values: Sequence[Value]) -> State:
        """The state with these values for what changes, the first of `values`."""
        state = list(self._state)
        for index, value in zip(self._changed, values, strict=False):
            state[index] = value
        return tuple(state)


class _Iteration(NamedTuple):
    """End of an iteration: the state at the header and the state behind the loop, of which one counts; whether the loop goes on; whether
    all outcomes were known."""

    back: State
    left: State
    again: Value
    ok: Value


class _LoopBody:
    """Body of the loop with a header: ways end where they come back to it or leave the loop."""

    def __init__(self, structure: Structure, header: Key):
        self._structure, self._header = structure, header
        graph = structure.graph
        self._successors = lambda key: [] if key is _BACK else [_BACK if end == header else end for end in graph.successors(key)]
        within = reachable(header, self._successors)
        self._joins = immediate_postdominators(within, self._successors)
        self._cycles = cycles(within, self._successors)
        self._cut = _Cut(structure, header, self._joins, self._cycles)

    def is_complete(self, goal: Key | None) -> bool:
        """True if both outcomes of all decisions in an iteration are known."""
        keys = reachable(self._header, lambda key: [] if key == goal else self._successors(key))
        return all(len(self._structure.graph.blocks.get(key, {})) == 2 for key in keys if key is not _BACK and key != goal)

    def run_back(self, block: Block, values: Sequence[Value]) -> tuple[State, Value | None]:
        """Code of an iteration that comes back to the header, whatever the decisions in it."""
        return self._cut._run_to(_BACK if block.end == self._header else block.end, self._structure._run_block(block, values), _BACK)

    def run_iteration(self, state: State, goal: Key) -> _Iteration:
        """Code of an iteration that comes back to the header or ends at the goal behind the loop."""
        return self._union(self._header, state, goal)

    def _union(self, key: Key, state: State, goal: Key) -> _Iteration:
        structure = self._structure
        if key is _BACK:
            return _Iteration(state, structure._zeros(goal), _bool(True), _bool(True))
        if key == goal:
            return _Iteration(structure._zeros(self._header), state, _bool(False), _bool(True))
        if key in self._cycles:
            key, state, ok = self._cut._loop(key, state)
            return self._with_flag(ok, lambda: self._union(key, state, goal), goal)
        blocks = structure.graph.blocks.get(key, {})
        join = self._joins[key]
        *values, predicate = state
        if len(blocks) == 2 and join is not None and join is not _BACK and join != goal and not self._passes(key, join, goal):
            key, state, ok = self._cut._branch(key, state)
            return self._with_flag(ok, lambda: self._union(key, state, goal), goal)

        def side(outcome: bool) -> Callable[[], Sequence[Value]]:
            def run() -> Sequence[Value]:
                block = blocks.get(outcome)
                if block is None:
                    return _flat(_Iteration(structure._zeros(self._header), structure._zeros(goal), _bool(False), _bool(False)))
                end = _BACK if block.end == self._header else block.end
                with structure._within():
                    return _flat(self._union(end, structure._run_block(block, values), goal))
            return run

        return self._unflat(emit_cond(predicate, side(True), side(False)), goal)

    def _passes(self, key: Key, join: Key, goal: Key) -> bool:
        """True if a way from `key` ends before it comes to `join`."""
        found = reachable(key, lambda at: [] if at == join else self._successors(at))
        return any(at is _BACK or at == goal for at in found)

    def _with_flag(self, ok: Value | None, run: Callable[[], _Iteration], goal: Key) -> _Iteration:
        if ok is None:
            return run()
        structure = self._structure
        stopped = _Iteration(structure._zeros(self._header), structure._zeros(goal), _bool(False), _bool(False))
        return self._unflat(emit_cond(ok, structure._flagged(lambda: _flat(run())), lambda: _flat(stopped)), goal)

    def _unflat(self, values: Sequence[Value], goal: Key) -> _Iteration:
        count = len(self._structure.graph.types[self._header])
        return _Iteration(tuple(values[:count]), tuple(values[count:-2]), values[-2], values[-1])


class _Cut(Structure):
    """Structured code within the body of a loop, whose ways back to the header end at `_BACK`."""

    def __init__(self, structure: Structure, header: Key, joins: dict[Key, Key | None], cycles: dict[Key, frozenset[Key]]):
        self.graph, self.start, self._capture = _CutGraph(structure.graph, header, joins), header, structure._capture
        self._joins, self._cycles, self.goal, self._limits = joins, cycles, None, structure._limits


class _CutGraph(FlowGraph):
    """Flow graph in which the blocks that lead to a header end at `_BACK`."""

    def __init__(self, graph: FlowGraph, header: Key, keys: Iterable[Key]):
        super().__init__()
        self.between, self.checked = graph.between, graph.checked
        self.types = {key: graph.types[header if key is _BACK else key] for key in keys}
        self.blocks = {key: {outcome: _ending_at(block, _BACK) if block.end == header else block
                             for outcome, block in graph.blocks.get(key, {}).items()} for key in keys}


def _ending_at(block: Block, end: Key) -> Block:
    return Block(block.inputs, block.ops, block.outputs, block.captured, end)


class _Back:
    """Key of the header of a loop, where an iteration comes back to it."""


_BACK = _Back()


def _flat(run: _Iteration) -> Sequence[Value]:
    return *run.back, *run.left, run.again, run.ok


def _bool(value: bool) -> Value:
    return ops.constant(value=value, dtype=BOOL, shape=())


def _zero(type: TensorType) -> bool | int | float:
    return False if type.dtype == BOOL else 0.0 if is_float(type.dtype) else 0


def _both(first: Value | None, second: Value | None) -> Value | None:
    if first is None or second is None:
        return second if first is None else first
    return ops.logical_and(first, second)
