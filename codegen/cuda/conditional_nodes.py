"""Loops and branches that stay on the device, as conditional nodes of a CUDA graph.

The nodes of a region, whose places are those of its own program, become nodes on the memory of the outermost program. What is sliced or
stacked moves with an iteration: its launches read a word that counts (`stepping_kernel`). A `scan` is a loop that a counter ends; a
`while_loop` computes its condition before the loop and at the end of each iteration; a branch is two conditional nodes. The memory is
that of `runtime/cuda/device_loops.py`, by which the host runs the same loops where a driver has no conditional nodes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from adjit.codegen.cuda.control_kernels import (
    checkpoint_count_kernel,
    checkpoint_kernel,
    clearing_kernel,
    clearing_status_kernel,
    copying_kernel,
    counting_kernel,
    deciding_kernel,
    gate_kernel,
    starting_kernel,
    stepping_kernel,
)
from adjit.codegen.cuda.kernel import Kernel, Launch, Pointer
from adjit.codegen.cuda.nodes import CHECK_WORDS, CHECKS, STATUS, WORK, Conditional, GraphNode, HostNode, Node
from adjit.codegen.cuda.target import FLAT_THREADS, MAX_LOAD_BYTES
from adjit.ir.analysis.buffer_assignment import region_memory
from adjit.ir.dataclass import dataclass
from adjit.ir.graph import Op, Slot, carried_operands

if TYPE_CHECKING:
    from adjit.codegen.cuda.program import DeviceProgram

_MOST_COPIES = 8
"""Most copies of one launch: each is a part of its code."""

_WORD = 8
"""Bytes of a word."""

_DOWN = (1 << 64) - 1
"""What a word has added, to count down."""

After = tuple[int, ...]
"""Numbers of the nodes that have to be done before, in the same graph."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Memory of the outermost program; with each of some loops it moves on by so many bytes an iteration: the place of the word that
    counts, the bytes, the number of iterations. Its address is a multiple of `alignment`."""

    slot: Slot
    alignment: int = MAX_LOAD_BYTES
    steps: tuple[tuple[Slot, int, int], ...] = ()

    def offset_by(self, nbytes: int) -> _Place:
        return replace(self, slot=self.slot.offset_by(nbytes), alignment=math.gcd(self.alignment, nbytes))

    def stepping(self, word: Slot, nbytes: int, count: int) -> _Place:
        return replace(self, alignment=math.gcd(self.alignment, nbytes), steps=(*self.steps, (word, nbytes, count)))


@dataclass(frozen=True, slots=True)
class _Frame:
    """Memory of a program: the places of its arena, its parameters and its results; without any, those of the outermost."""

    program: DeviceProgram
    first_check: int                    # number of the program's first check among those of all programs
    places: tuple[_Place | None, Sequence[_Place], Sequence[_Place | None]] | None = None

    def place(self, slot: Slot) -> _Place:
        if slot.space == CHECKS:
            return _Place(slot.offset_by(_WORD * CHECK_WORDS * self.first_check), _WORD)
        if self.places is None or slot.space == WORK:
            return _Place(slot, self.program.alignment(slot))
        arena, params, results = self.places
        found = arena if slot.space == "arena" else (params if slot.space == "param" else results)[slot.offset]
        assert found is not None
        return found.offset_by(slot.offset if slot.space == "arena" else slot.start)


_Move = tuple[_Place, _Place, int]
"""Target, source and bytes."""


class _Graph:
    """Nodes of a graph, or of the body of a conditional node, in the order in which they are added. Behind a *gate*, which looks at checks
    of indices, they are the body of a branch: it is taken if all are in range. `loop` is the handle of the loop whose body the graph is:
    the gates of the body end it.

    Nodes are numbered in order, whatever branch they are in; one in a branch need not wait for those before the gate."""

    def __init__(self, handles: Iterator[int], loop: int | None = None) -> None:
        self.count = 0
        self.pending: dict[Op, tuple[_Place, int]] = {}     # checks that no gate has looked at: their words, and their numbers
        self.is_unsure = False                              # a loop or a branch before may have failed
        self._handles, self._loop = handles, loop
        self._nodes: list[GraphNode] = []
        self._part = self._nodes            # what nodes are added to: that, or the branch behind the last gate
        self._places: dict[int, int] = {}   # numbers within that, by number of the node
        self._gate: Callable[[bool], int | None] = lambda goes_on: None

    def add(self, node: GraphNode) -> After:
        after = tuple(sorted(self._places[number] for number in node.after if number in self._places))
        self._places[self.count] = len(self._part)
        self._part.append(replace(node, after=after))
        self.count += 1
        return (self.count - 1,)

    def ends(self, first: int, after: After) -> After:
        """The nodes from number `first` on for which none of them waits; `after` if there are none."""
        own = {place: number for number, place in self._places.items() if number >= first}
        waited = {place for each in own for place in self._part[each].after}
        return tuple([number for place, number in own.items() if place not in waited]) or after

    def settle(self, op: Op) -> None:
        """Have what follows wait for what the checks so far have found, and be left out if an index is out of range."""
        if self.pending or self.is_unsure:
            self._close()
            checks, place = [*self.pending.values()], len(self._nodes)
            waited = {number for node in self._nodes for number in node.after}
            after = tuple([number for number in range(place) if number not in waited])

            def gate(goes_on: bool) -> int | None:
                handle = next(self._handles) if goes_on else None
                handles = tuple([each for each in (handle, self._loop) if each is not None])
                launch = Launch(gate_kernel(len(checks), goes_on, self._loop is not None), 1, (
                    Pointer("check", 0, _WORD * CHECK_WORDS),) * (1 + len(checks)), tuple([number + 1 for _, number in checks]))
                self._nodes[place:place + 1] = [Node(launch, (Slot(STATUS, 0), *(words.slot for words, _ in checks)), after, op, handles)]
                return handle

            gate(False)
            self._gate, self._part, self._places = gate, [], {}
            self.pending.clear()
            self.is_unsure = False

    def _close(self) -> None:
        """End the branch behind the last gate."""
        if self._part is not self._nodes and self._part:
            place, handle = len(self._nodes) - 1, self._gate(True)
            assert handle is not None
            self._nodes.append(Conditional(False, handle, tuple(self._part), (place,)))
        self._part = self._nodes

    def finish(self, op: Op) -> tuple[GraphNode, ...]:
        """The nodes. What checks have found is in the status of the call."""
        if self.pending:
            self.settle(op)
        self._close()
        return tuple(self._nodes)


class ConditionalNodes:
    """Graphs of a program whose loops and branches stay on the device. Counting loops take `words` from the given number on."""

    def __init__(self, program: DeviceProgram, words: int):
        self.words, self._handles = words, itertools.count()
        self._begun: After = ()
        programs = list(program.programs())
        starts = itertools.accumulate([len(each.checks) for each in programs], initial=0)
        self._first_checks = {id(each): start for each, start in zip(programs, starts, strict=False)}
        self._outermost = _Frame(program, 0)

    def graph(self, numbers: Sequence[int]) -> tuple[GraphNode, ...]:
        """Some nodes of the program as nodes of a graph, which the host looks at the checks of."""
        made = _Graph(self._handles)
        self._nodes(made, self._outermost, numbers, (), by_host=True)
        return made.finish(self._outermost.program.nodes[numbers[0]].op)

    def whole(self) -> tuple[GraphNode, ...]:
        """All nodes of the program as those of a graph that checks indices. What may fail comes first, before arguments are written."""
        made, op = _Graph(self._handles), self._outermost.program.nodes[0].op
        self._begun = made.add(Node(_launch(clearing_status_kernel(), 1), (Slot(STATUS, 0),), (), op))
        self._region_nodes(made, self._outermost, (), op)
        return made.finish(op)

    def _region_nodes(self, graph: _Graph, frame: _Frame, entry: After, op: Op) -> After:
        first, number = frame.program.before_checks(), graph.count
        rest = sorted({*range(len(frame.program.nodes))}.difference(first))
        done = self._nodes(graph, frame, first, entry)
        if rest and first:
            graph.settle(op)
        self._nodes(graph, frame, rest, entry, done)
        return graph.ends(number, entry)

    def _nodes(self, graph: _Graph, frame: _Frame, numbers: Sequence[int], entry: After, known: Mapping[int, After] = MappingProxyType({}),
               by_host: bool = False) -> dict[int, After]:
        """Add nodes of a program, after `entry`. Returns the nodes after which each is done; `known` are those of nodes before."""
        done = dict(known)
        for number in numbers:
            node = frame.program.nodes[number]
            check = next((slot for slot in node.places if slot.space == CHECKS), None)
            if not by_host and (isinstance(node, HostNode) or (check is None and node.op in graph.pending)):
                graph.settle(node.op)
            after = tuple(sorted({end for other in node.after for end in done.get(other, ())})) or entry
            if isinstance(node, HostNode):
                fails = any(program.may_fail for program in node.programs)
                begun = self._begun if fails and frame is self._outermost else ()
                done[number] = self._flow(graph, frame, node, (*after, *begun))
                graph.is_unsure |= fails
                continue
            done[number] = graph.add(_placed(node.launch, [frame.place(slot) for slot in node.places], after, node.op))
            if check is not None and not by_host:
                graph.pending[node.op] = frame.place(check), frame.first_check + check.start // (_WORD * CHECK_WORDS)
        return done

    # -- loops and branches

    def _flow(self, graph: _Graph, frame: _Frame, node: HostNode, after: After) -> After:
        """Add a loop or a branch. Its carried values begin in the memory of its results."""
        op, places = node.op, [frame.place(slot) for slot in node.places]
        count, end = len(op.operands), len(op.operands) + len(op.results)
        operands, results = places[:count], places[count:end]
        scratch = places[end] if len(places) > end else None
        starts = carried_operands(op)
        after = self._copies(graph, op, after, [(results[result], operands[operand], op.operands[operand].type.nbytes)
                                                for result, operand in starts.items()])
        flow = _Flow(node, operands, results, scratch, results[len(results) - len(starts):])
        return {"scan": self._scan, "while_loop": self._while, "cond": self._branch}[op.name](graph, flow, after)

    def _scan(self, graph: _Graph, flow: _Flow, after: After) -> After:
        op, (body,) = flow.op, flow.op.regions
        length, slices, carries = op.attrs["length"], op.attrs["slices"], len(flow.carried)
        if not length:
            return after
        word, handle = Slot(CHECKS, 0, _WORD * self.words), next(self._handles)
        self.words += 1
        given = [place.stepping(word, value.type.nbytes, length)
                 for place, value in zip(flow.operands[carries:carries + slices], body.params[carries:], strict=False)]
        rows = [place.stepping(word, value.type.nbytes, length)
                for place, value in zip(flow.results[:len(flow.results) - carries], body.results, strict=False)]
        reverse = op.attrs["reverse"]
        after = graph.add(_counting(starting_kernel(), op, after, word, [length - 1 if reverse else 0], handle))
        inner = _Graph(self._handles, handle)
        ends = self._region(inner, flow, 0, (*flow.carried, *given, *flow.operands[carries + slices:]), rows, ())
        inner.settle(op)
        inner.add(_counting(counting_kernel(), op, ends, word, [_DOWN if reverse else 1, length], handle))
        return graph.add(Conditional(True, handle, inner.finish(op), after))

    def _while(self, graph: _Graph, flow: _Flow, after: After) -> After:
        op, carries, handle = flow.op, len(flow.carried), next(self._handles)
        params = (*flow.carried, *flow.operands[carries:])
        (offset,) = region_memory(op.regions)[0][0]
        assert offset is not None
        assert flow.scratch is not None
        flag = flow.scratch.offset_by(offset)
        checkpointed, most = op.attrs["checkpointed"], op.attrs["checkpoints"]
        if most:
            after = graph.add(_placed(_launch(clearing_kernel(), 2), flow.results[:2], after, op))

        def decide(graph: _Graph, after: After) -> After:
            ends = self._region(graph, flow, 0, params, [flag], after, carries=False)
            graph.settle(op)
            return graph.add(_decision(op, flag, {True: handle}, ends))

        after = decide(graph, after)
        inner = _Graph(self._handles, handle)
        ends = self._region(inner, flow, 1, params, (), self._checkpoints(inner, flow, checkpointed, most) if most else ())
        inner.settle(op)
        if most:
            ends = inner.add(_placed(_launch(checkpoint_count_kernel(), 2, [most]), flow.results[:2], ends, op))
        decide(inner, ends)
        return graph.add(Conditional(True, handle, inner.finish(op), after))

    def _checkpoints(self, graph: _Graph, flow: _Flow, checkpointed: Sequence[int], most: int) -> After:
        """Add the launches that save the carried values if the iteration is a checkpoint."""
        op = flow.op
        for number, stack in zip(checkpointed, flow.results[2:], strict=False):
            nbytes, value = op.operands[number].type.nbytes, flow.carried[number]
            width = math.gcd(MAX_LOAD_BYTES, nbytes, value.alignment, stack.alignment)
            if nbytes:
                places = [*flow.results[:2], value, stack]
                launch = Launch(checkpoint_kernel(width), -(-nbytes // width // FLAT_THREADS), (
                    Pointer("operand", 0, _WORD), Pointer("operand", 0, _WORD), Pointer("operand", 0, nbytes),
                    Pointer("operand", 0, most * nbytes)), (nbytes // width, most))
                graph.add(_placed(launch, places, (), op))
        return graph.ends(0, ())

    def _branch(self, graph: _Graph, flow: _Flow, after: After) -> After:
        op, bodies = flow.op, list[tuple[bool, tuple[GraphNode, ...]]]()
        params = (*flow.carried, *flow.operands[1 + len(flow.carried):])
        for outcome in (True, False):
            inner = _Graph(self._handles)
            self._region(inner, flow, 0 if outcome else 1, params, flow.results[:len(flow.results) - len(flow.carried)], ())
            nodes = inner.finish(op)
            if nodes:               # drivers before that of CUDA 12.8 do not end a conditional node without any
                bodies.append((outcome, nodes))
        if not bodies:
            return after
        handles = {outcome: next(self._handles) for outcome, _ in bodies}
        after = graph.add(_decision(op, flow.operands[0], handles, after))
        for outcome, body in bodies:        # one of them runs; they write to the same places
            after = graph.add(Conditional(False, handles[outcome], body, after))
        return after

    def _region(self, graph: _Graph, flow: _Flow, number: int, params: Sequence[_Place], targets: Sequence[_Place], after: After,
                carries: bool = True) -> After:
        """Add a region, whose results go to `targets` and to where what it carries is new. Then that is copied to where the old was."""
        op, program = flow.op, flow.node.programs[number]
        offsets, carried = region_memory(op.regions)[0][number], flow.carried if carries else []
        places = [None if offset is None or flow.scratch is None else flow.scratch.offset_by(offset)
                  for offset in offsets[len(offsets) - len(carried):]]
        results, values, slots = (*targets, *places), program.assignment.graph.results, program.assignment.slots
        frame = _Frame(program, self._first_checks[id(program)], (flow.scratch, params, results))
        ends = self._region_nodes(graph, frame, after, op)
        ends = self._copies(graph, op, ends, [(target, frame.place(slots[value]), value.type.nbytes)
                                              for target, value in zip(results, values, strict=True) if target is not None])
        return self._copies(graph, op, ends, [
            (target, place, value.type.nbytes)
            for target, place, value in zip(carried, places, values[len(values) - len(carried):], strict=True) if place is not None])

    def _copies(self, graph: _Graph, op: Op, after: After, moves: Sequence[_Move]) -> After:
        """Add launches that copy, of which none reads what another one writes."""
        wanted = [(target, source, nbytes) for target, source, nbytes in moves
                  if nbytes and (target.slot, target.steps) != (source.slot, source.steps)]
        ends: list[int] = []
        for start in range(0, len(wanted), _MOST_COPIES):
            part = wanted[start:start + _MOST_COPIES]
            widths = [math.gcd(MAX_LOAD_BYTES, nbytes, target.alignment, source.alignment) for target, source, nbytes in part]
            numbers, blocks = list[int](), 0
            for (_, _, nbytes), width in zip(part, widths, strict=True):
                numbers += (nbytes // width, blocks * FLAT_THREADS)
                blocks += -(-nbytes // width // FLAT_THREADS)
            pointers = tuple([Pointer("operand", 0, nbytes) for _, _, nbytes in part for _ in range(2)])
            launch = Launch(copying_kernel(tuple(widths)), blocks, pointers, tuple(numbers))
            ends += graph.add(_placed(launch, [place for move in part for place in move[:2]], after, op))
        return tuple(ends) or after


@dataclass(frozen=True, slots=True)
class _Flow:
    """A loop or a branch: the places of its operands, its results, its scratch memory, and of what it carries."""

    node: HostNode
    operands: Sequence[_Place]
    results: Sequence[_Place]
    scratch: _Place | None
    carried: Sequence[_Place]

    @property
    def op(self) -> Op:
        return self.node.op


def _placed(launch: Launch, places: Sequence[_Place], after: After, op: Op, handles: tuple[int, ...] = ()) -> Node:
    """A launch as a node; its kernel moves with the loops with which its places do."""
    words = list(dict.fromkeys(word for place in places for word, _, _ in place.steps))
    if words:
        steps = tuple([tuple([words.index(word) for word, _, _ in place.steps]) for place in places])
        pointers = [replace(pointer, nbytes=pointer.nbytes + sum(nbytes * (count - 1) for _, nbytes, count in place.steps))
                    for pointer, place in zip(launch.pointers, places, strict=True)]
        strides = [nbytes for place in places for _, nbytes, _ in place.steps]
        launch = Launch(stepping_kernel(launch.kernel, steps), launch.grid,
                        (*pointers, *(Pointer("check", 0, _WORD) for _ in words)), (*strides, *launch.numbers))
    return Node(launch, (*(place.slot for place in places), *words), after, op, handles)


def _launch(kernel: Kernel, words: int, numbers: Sequence[int] = ()) -> Launch:
    return Launch(kernel, 1, (Pointer("operand", 0, _WORD),) * words, tuple(numbers))


def _counting(kernel: Kernel, op: Op, after: After, word: Slot, numbers: Sequence[int], handle: int) -> Node:
    """A launch that counts in a word, and sets a handle."""
    return _placed(_launch(kernel, 1, numbers), [_Place(word)], after, op, (handle,))


def _decision(op: Op, flag: _Place, handles: dict[bool, int], after: After) -> Node:
    """The launch that reads a condition and sets the handle of each outcome."""
    launch = Launch(deciding_kernel(tuple(handles)), 1, (Pointer("operand", 0, 1),))
    return _placed(launch, [flag], after, op, tuple(handles.values()))
