"""Loops and branches that stay on the device, as conditional nodes of a CUDA graph.

The nodes of a region, whose places are those of its own program, become nodes on the memory of the outermost program. What is sliced or
stacked moves with an iteration: its launches read a word that counts (`stepping_kernel`). A `scan` is a loop that a counter ends; a
`while_loop` computes its condition before the loop and at the end of each iteration; a branch is two conditional nodes. The memory is
that of `runtime/cuda/device_loops.py`, by which the host runs the same loops where a driver has no conditional nodes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from adjit.codegen.cuda.control_kernels import (
    checkpoint_count_kernel,
    checkpoint_kernel,
    clearing_kernel,
    copying_kernel,
    counting_kernel,
    deciding_kernel,
    starting_kernel,
    stepping_kernel,
)
from adjit.codegen.cuda.kernel import Kernel, Launch, Pointer
from adjit.codegen.cuda.nodes import CHECKS, WORK, Conditional, GraphNode, HostNode, Node
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
    places: tuple[_Place | None, Sequence[_Place], Sequence[_Place | None]] | None = None

    def place(self, slot: Slot) -> _Place:
        if self.places is None or slot.space in (CHECKS, WORK):
            return _Place(slot, self.program.alignment(slot))
        arena, params, results = self.places
        found = arena if slot.space == "arena" else (params if slot.space == "param" else results)[slot.offset]
        assert found is not None
        return found.offset_by(slot.offset if slot.space == "arena" else slot.start)


_Move = tuple[_Place, _Place, int]
"""Target, source and bytes."""


class _Graph:
    """Nodes of a graph, or of the body of a conditional node, in the order in which they are added."""

    def __init__(self) -> None:
        self.nodes: list[GraphNode] = []

    def add(self, node: GraphNode) -> After:
        self.nodes.append(node)
        return (len(self.nodes) - 1,)

    def ends(self, first: int, after: After) -> After:
        """The nodes from number `first` on for which none of them waits; `after` if there are none."""
        waited = {number for node in self.nodes[first:] for number in node.after}
        return tuple([number for number in range(first, len(self.nodes)) if number not in waited]) or after


class ConditionalNodes:
    """Graphs of a program whose loops and branches stay on the device. Counting loops take `words` from the given number on."""

    def __init__(self, program: DeviceProgram, words: int):
        self.words, self._handles = words, 0
        self._outermost = _Frame(program)

    def graph(self, numbers: Sequence[int]) -> tuple[GraphNode, ...]:
        """Some nodes of the program as nodes of a graph."""
        made = _Graph()
        self._nodes(made, self._outermost, numbers, ())
        return tuple(made.nodes)

    def _nodes(self, graph: _Graph, frame: _Frame, numbers: Sequence[int], entry: After) -> After:
        """Add nodes of a program, after `entry`. Returns the nodes after which all are done."""
        first, done = len(graph.nodes), dict[int, After]()
        for number in numbers:
            node = frame.program.nodes[number]
            after = tuple(sorted({end for other in node.after for end in done.get(other, ())})) or entry
            if isinstance(node, HostNode):
                done[number] = self._flow(graph, frame, node, after)
            else:
                done[number] = graph.add(_placed(node.launch, [frame.place(slot) for slot in node.places], after, node.op))
        return graph.ends(first, entry)

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
        word, handle = Slot(CHECKS, 0, _WORD * self.words), self._new_handle()
        self.words += 1
        given = [place.stepping(word, value.type.nbytes, length)
                 for place, value in zip(flow.operands[carries:carries + slices], body.params[carries:], strict=False)]
        rows = [place.stepping(word, value.type.nbytes, length)
                for place, value in zip(flow.results[:len(flow.results) - carries], body.results, strict=False)]
        reverse = op.attrs["reverse"]
        after = graph.add(_counting(starting_kernel(), op, after, word, [length - 1 if reverse else 0], handle))
        inner = _Graph()
        ends = self._region(inner, flow, 0, (*flow.carried, *given, *flow.operands[carries + slices:]), rows, ())
        inner.add(_counting(counting_kernel(), op, ends, word, [_DOWN if reverse else 1, length], handle))
        return graph.add(Conditional(True, handle, tuple(inner.nodes), after))

    def _while(self, graph: _Graph, flow: _Flow, after: After) -> After:
        op, carries, handle = flow.op, len(flow.carried), self._new_handle()
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
            return graph.add(_decision(op, flag, {True: handle}, ends))

        after = decide(graph, after)
        inner = _Graph()
        ends = self._region(inner, flow, 1, params, (), self._checkpoints(inner, flow, checkpointed, most) if most else ())
        if most:
            ends = inner.add(_placed(_launch(checkpoint_count_kernel(), 2, [most]), flow.results[:2], ends, op))
        decide(inner, ends)
        return graph.add(Conditional(True, handle, tuple(inner.nodes), after))

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
            inner = _Graph()
            self._region(inner, flow, 0 if outcome else 1, params, flow.results[:len(flow.results) - len(flow.carried)], ())
            if inner.nodes:         # drivers before that of CUDA 12.8 do not end a conditional node without any
                bodies.append((outcome, tuple(inner.nodes)))
        if not bodies:
            return after
        handles = {outcome: self._new_handle() for outcome, _ in bodies}
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
        frame = _Frame(program, (flow.scratch, params, results))
        ends = self._nodes(graph, frame, range(len(program.nodes)), after)
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

    def _new_handle(self) -> int:
        self._handles += 1
        return self._handles - 1


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
