"""Branches and loops for a part of a control-flow graph: `cond` where two ways meet again, `while_loop` where a way comes back.

Outcomes that nobody has seen have no code: where the program would need it, it says so with a flag, and a guard on the flag stops it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from adjit.ir import ops
from adjit.ir.batching import may_stop
from adjit.ir.builder import GraphBuilder
from adjit.ir.control_flow import emit_cond, emit_while
from adjit.ir.emitter import current_emitter
from adjit.ir.graph import Op, Value
from adjit.ir.types import BOOL, TensorType, is_float
from adjit.tracer.flow.flow_graph import Block, FlowGraph, Key, cycles, immediate_postdominators, reachable

State = tuple[Value, ...]
"""Values of the state at a point; at a decision the last one is what is decided on."""


class Unstructured(Exception):
    """Raised for control flow that has no join to go on from, or becomes too much code."""


MAX_DEPTH = 6
"""Most branches and loops within each other."""

MAX_COPIES = 2
"""Most times that a block is written: once for each way that leads to it, unless they all meet at its point. Ways with a number that Python
counts along each of them do not meet, and would be written in all their combinations."""


class _Limits:
    """How much was emitted."""

    def __init__(self) -> None:
        self.depth = 0
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
        ok: Value | None = None
        while key != goal:
            key, state, known = self._loop(key, state, ok) if key in self._cycles else self._branch(key, state, ok)
            ok = _both(ok, known)
        return state, ok

    def _branch(self, key: Key, state: State, ok: Value | None) -> tuple[Key, State, Value | None]:
        """The branch at a point; where it has one known outcome, the code of this one, and the flag that it was the outcome. Where `ok` is
        false nothing runs that may stop the program: the state is not one that Python would come by with."""
        blocks = self.graph.blocks.get(key, {})
        *values, predicate = state
        if not blocks:
            raise Unstructured
        if len(blocks) == 1:
            ((outcome, block),) = blocks.items()
            known = predicate if outcome else ops.logical_not(predicate)
            return block.end, self._run_if(_both(ok, known), block, values), known
        join = self._joins[key]
        if join is None:
            raise Unstructured
        within = [at for at in reachable(key, lambda at: [] if at == join else self.graph.successors(at)) if at != join]
        complete = all(len(self.graph.blocks.get(at, {})) == 2 for at in within)

        def side(outcome: bool) -> Callable[[], Sequence[Value]]:
            def run() -> Sequence[Value]:
                block = blocks[outcome]
                with self._within():
                    after, known = self._run_to(block.end, self._run_block(block, values), join)
                return after if complete else (*after, known if known is not None else _bool(True))
            return run

        def both() -> tuple[Value, ...]:
            return emit_cond(predicate, side(True), side(False))

        def neither() -> Sequence[Value]:
            return self._zeros(join) if complete else (*self._zeros(join), _bool(False))

        results = both() if ok is None or not self._may_stop(within) else emit_cond(ok, both, neither)
        return (join, results, None) if complete else (join, results[:-1], results[-1])

    def _may_stop(self, keys: Iterable[Key]) -> bool:
        """True if what runs at one of these points may stop the program or never end."""
        return any(key in self._cycles or any(may_stop(block.ops) for block in self.graph.blocks.get(key, {}).values()) for key in keys)

    @contextmanager
    def _within(self) -> Iterator[None]:
        """Emit within a branch or a loop."""
        limits = self._limits
        limits.depth += 1
        if limits.depth > MAX_DEPTH:
            raise Unstructured
        yield
        limits.depth -= 1

    def _zeros(self, key: Key) -> State:
        return tuple(ops.constant(value=_zero(type), dtype=type.dtype, shape=type.shape) for type in self.graph.types[key])

    def _run_if(self, ok: Value | None, block: Block, values: Sequence[Value]) -> State:
        """Copy the ops of a block; where `ok` is false, those that may stop the program do not run."""
        if ok is None or not may_stop(block.ops):
            return self._run_block(block, values)
        return emit_cond(ok, lambda: self._run_block(block, values), lambda: self._zeros(block.end))

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

    def _loop(self, header: Key, state: State, ok: Value | None) -> tuple[Key, State, Value | None]:
        """The loop with this header, entered with `state`; returns where the ways out of it meet. Where `ok` is false no iteration runs."""
        members = self._cycles[header]
        blocks = self.graph.blocks[header]
        leaving = [outcome for outcome, block in blocks.items() if block.end not in members]
        inner = [end for key in members if key != header for end in self.graph.successors(key) if end not in members]
        if len(leaving) == 1 and len(blocks) == 2 and not inner:
            return self._while(header, state, not leaving[0], ok)
        return self._loop_with_breaks(header, state, members, ok)

    def _while(self, header: Key, state: State, stay: bool, ok: Value | None) -> tuple[Key, State, Value | None]:
        """A loop that only its header leaves."""
        block, leaving = self.graph.blocks[header][stay], self.graph.blocks[header][not stay]
        body, carried = _LoopBody(self, header), _Carried(self.graph, header, self._cycles[header], state)
        complete = body.is_complete(leaving.end)

        def condition(*values: Value) -> Value:
            predicate = carried.whole(values)[-1]
            go = predicate if stay else ops.logical_not(predicate)
            known = ok if complete else values[-1]
            return go if known is None else ops.logical_and(go, known)

        def iteration(*values: Value) -> Sequence[Value]:
            with self._within():
                after, known = body.run_back(block, carried.whole(values)[:-1])
            return carried.part(after) if complete else (*carried.part(after), known if known is not None else _bool(True))

        first = carried.part(state)
        after = emit_while(condition, iteration, first if complete else (*first, ok if ok is not None else _bool(True)))
        known = None if complete else after[-1]
        return leaving.end, self._run_if(ok if complete else known, leaving, carried.whole(after)[:-1]), known

    def _loop_with_breaks(self, header: Key, state: State, members: frozenset[Key],
                          ok: Value | None) -> tuple[Key, State, Value | None]:
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

        begin = _bool(True) if ok is None else ok
        after = emit_while(condition, iteration, [*carried.part(state), begin, begin, *self._zeros(goal)])
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
        graph, back = structure.graph, _Back()
        self._back = back
        self._successors = lambda key: [] if key is back else [back if end == header else end for end in graph.successors(key)]
        within = reachable(header, self._successors)
        self._joins = immediate_postdominators(within, self._successors)
        self._cycles = cycles(within, self._successors)
        self._cut = _Cut(structure, header, back, self._joins, self._cycles)

    def is_complete(self, goal: Key | None) -> bool:
        """True if both outcomes of all decisions in an iteration are known."""
        keys = reachable(self._header, lambda key: [] if key == goal else self._successors(key))
        return all(len(self._structure.graph.blocks.get(key, {})) == 2 for key in keys if key is not self._back and key != goal)

    def run_back(self, block: Block, values: Sequence[Value]) -> tuple[State, Value | None]:
        """Code of an iteration that comes back to the header, whatever the decisions in it."""
        end = self._back if block.end == self._header else block.end
        return self._cut._run_to(end, self._structure._run_block(block, values), self._back)

    def run_iteration(self, state: State, goal: Key) -> _Iteration:
        """Code of an iteration that comes back to the header or ends at the goal behind the loop."""
        return self._union(self._header, state, goal, None)

    def _union(self, key: Key, state: State, goal: Key, ok: Value | None) -> _Iteration:
        structure = self._structure
        known = _bool(True) if ok is None else ok
        if key is self._back:
            return _Iteration(state, structure._zeros(goal), known, known)
        if key == goal:
            return _Iteration(structure._zeros(self._header), state, _bool(False), known)
        if key in self._cycles:
            return self._go_on(*self._cut._loop(key, state, ok), goal, ok)
        blocks = structure.graph.blocks.get(key, {})
        join = self._joins[key]
        if len(blocks) < 2 or (join is not None and join is not self._back and join != goal and not self._passes(key, join, goal)):
            return self._go_on(*self._cut._branch(key, state, ok), goal, ok)
        *values, predicate = state

        def side(outcome: bool) -> Callable[[], Sequence[Value]]:
            def run() -> Sequence[Value]:
                block = blocks[outcome]
                end = self._back if block.end == self._header else block.end
                with structure._within():
                    return _flat(self._union(end, structure._run_block(block, values), goal, None))
            return run

        def both() -> Sequence[Value]:
            return emit_cond(predicate, side(True), side(False))

        def neither() -> Sequence[Value]:
            return *structure._zeros(self._header), *structure._zeros(goal), _bool(False), _bool(False)

        if ok is None:
            return self._unflat(both(), goal)
        if self._cut._may_stop(at for at in reachable(key, lambda at: [] if at == goal else self._successors(at)) if at != goal):
            return self._unflat(emit_cond(ok, both, neither), goal)
        run = self._unflat(both(), goal)
        return run._replace(again=ops.logical_and(run.again, ok), ok=ops.logical_and(run.ok, ok))

    def _go_on(self, key: Key, state: State, known: Value | None, goal: Key, ok: Value | None) -> _Iteration:
        return self._union(key, state, goal, _both(ok, known))

    def _passes(self, key: Key, join: Key, goal: Key) -> bool:
        """True if a way from `key` ends before it comes to `join`."""
        found = reachable(key, lambda at: [] if at == join else self._successors(at))
        return any(at is self._back or at == goal for at in found)

    def _unflat(self, values: Sequence[Value], goal: Key) -> _Iteration:
        count = len(self._structure.graph.types[self._header])
        return _Iteration(tuple(values[:count]), tuple(values[count:-2]), values[-2], values[-1])


class _Cut(Structure):
    """Structured code within the body of a loop, whose ways back to the header end at `back`."""

    def __init__(self, structure: Structure, header: Key, back: Key, joins: dict[Key, Key | None], cycles: dict[Key, frozenset[Key]]):
        self.graph, self.start, self._capture = _CutGraph(structure.graph, header, back, joins), header, structure._capture
        self._joins, self._cycles, self.goal, self._limits = joins, cycles, None, structure._limits


class _CutGraph(FlowGraph):
    """Flow graph in which the blocks that lead to a header end at `back`."""

    def __init__(self, graph: FlowGraph, header: Key, back: Key, keys: Iterable[Key]):
        super().__init__()
        self.between, self.checked = graph.between, graph.checked
        self.types = {key: graph.types[header if key is back else key] for key in keys}
        self.blocks = {key: {outcome: _ending_at(block, back) if block.end == header else block
                             for outcome, block in graph.blocks.get(key, {}).items()} for key in keys}


def _ending_at(block: Block, end: Key) -> Block:
    return Block(block.inputs, block.ops, block.outputs, block.captured, end)


class _Back:
    """Key of the header of a loop, where an iteration comes back to it; each loop has its own, as a loop within may be left to there."""


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
