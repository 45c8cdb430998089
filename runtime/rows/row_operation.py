"""Compiled functions for any number of rows as operations of the dynamic graph: a `backward()` outside compiles nothing for another number.

Derivatives are taken of the function for a few numbers of rows, and each half is aligned and split as a function is. A node saves the
number of rows as its last value, so that the backward half knows it, even if nothing else that it takes has rows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from adjit.eager.operation import Backward
from adjit.eager.tensor import Tensor
from adjit.ir import ops
from adjit.ir.builder import GraphBuilder
from adjit.ir.dataclass import dataclass
from adjit.ir.emitter import emitting
from adjit.ir.errors import UnsupportedError
from adjit.ir.graph import Graph, Value, walk
from adjit.ir.ops.control_flow import COUNT
from adjit.ir.row_number import Expression
from adjit.ir.types import Shape
from adjit.passes.autodiff.partition.split_joint import SavedValue
from adjit.passes.panels.align_rows import align, lift_numbers
from adjit.passes.panels.row_axes import SUM, RowGraphs, Rows, RowsMixed
from adjit.passes.panels.split_rows import RowProgram, move_axis, split_rows
from adjit.runtime.capture.compiled_operation import CompiledOperation, Half
from adjit.runtime.capture.tensor_program import forward_half
from adjit.tracer.user_location import find_user_location


@dataclass(frozen=True, slots=True)
class SizedOperations:
    """An operation for some numbers of rows. `counters` are parameters that are the numbers of the rows, and `numbers` what Python computed
    from how many there are."""

    sizes: tuple[int, ...]
    operations: tuple[CompiledOperation, ...]
    counters: tuple[int, ...]
    numbers: Collection[Expression]

    def aligned(self, graphs: Sequence[Graph], counters: Sequence[int]) -> RowGraphs:
        """Halves for these numbers of rows, side by side."""
        return align([_opened(operation, graph) for operation, graph in zip(self.operations, graphs, strict=True)], self.sizes, counters,
                     self.numbers)


def _opened(operation: CompiledOperation, graph: Graph) -> Graph:
    """A half without calls; what was in them may have numbers within loops."""
    opened = operation.opened(graph)
    return graph if opened is graph else lift_numbers(opened)


@dataclass(frozen=True, slots=True)
class RowHalves:
    """The forward half, the number of its result for each of the operation's, and the operation. `aligned` is the forward half for several
    numbers of rows, with what is updated, `updates`."""

    program: RowProgram
    order: tuple[int, ...] | None
    operation: RowOperation
    aligned: RowGraphs
    updates: Sequence[tuple[int, int]]

    def for_rows(self, size: int) -> tuple[Graph, Graph]:
        """Both halves for a number of rows."""
        backward = self.operation.backward(self.operation.whole)
        assert isinstance(backward, RowBackward)
        return self.aligned.graph_for(size), backward.aligned.graph_for(size)

    def of_operation(self, operation: CompiledOperation | None) -> tuple[Graph, Graph]:
        """Both halves of an operation that was made for one number of rows, in the same form."""
        known = self.operation
        if operation is None or (operation.saved, operation.wanted, operation.active) != (known.saved[:-1], known.wanted, known.active):
            raise RowsMixed("other values are saved for its gradient")
        graph, order = forward_half(operation, self.updates)
        forward = _with_moved_results(graph, known.moved_results(order or range(len(graph.results))))
        backward = _with_moved_params(operation.backward(known.whole).graph, known.moved_params(known.whole))
        return _opened(operation, forward), _opened(operation, backward)


def row_halves(sized: SizedOperations, updates: Sequence[tuple[int, int]], keeps: bool) -> RowHalves:
    """The halves of an operation. Raises `RowsMixed` unless both have a program for any number of rows."""
    first = sized.operations[0]
    if any((each.saved, each.wanted, each.active) != (first.saved, first.wanted, first.active) for each in sized.operations):
        raise RowsMixed("other values are saved for its gradient for another number of rows")
    halves = [forward_half(operation, updates) for operation in sized.operations]
    order = halves[0][1]
    aligned = sized.aligned([graph for graph, _ in halves], sized.counters)
    place = order or range(len(first.graph.results))
    moved: dict[int, Rows] = {}
    for number in range(first.results, len(place)):
        rows = aligned.rows.get(aligned.graphs[0].results[place[number]], SUM)
        if rows.blocks < 0:
            raise RowsMixed("what is saved for its gradient mixes rows")
        if rows != SUM and (rows.axis or rows.blocks > 1):
            moved[number] = rows
    if moved:
        at = {place[number]: rows for number, rows in moved.items()}
        aligned = sized.aligned([_with_moved_results(graph, at) for graph, _ in halves], sized.counters)
    program = split_rows(aligned, keeps)
    numbers = tuple(program.result_number(number) for number in place)
    graph = program.graph
    operation = RowOperation(sized, graph.with_ops(graph.ops, [graph.results[number] for number in numbers]), moved)
    operation.backward(operation.whole)
    return RowHalves(program, None if order is None else numbers, operation, aligned, updates)


class RowOperation(CompiledOperation):
    """An operation for any number of rows, the last operand of its forward half, which is saved behind the other values for the backward
    half. `moved` are hidden results that have their rows first, and where the operations for one number of rows have them. `by_rules` says
    whether the function has rules of its own, which the halves have no more."""

    def __init__(self, sized: SizedOperations, graph: Graph, moved: Mapping[int, Rows]) -> None:
        first = sized.operations[0]
        self.name, self.results, self.weak, self.wanted, self.active = first.name, first.results, first.weak, first.wanted, first.active
        self.seeded, self.force_requires_grad, self.views = first.seeded, first.force_requires_grad, first.views
        self.unexpanded, self.has_rules = None, False
        self.compile_options, self.verify, self.threads = first.compile_options, first.verify, first.threads
        self.saved_dtype, self.joint = first.saved_dtype, first.joint
        self.graph, self.saved = graph, (*first.saved, SavedValue(False, len(first.graph.params)))
        self.by_rules = first.has_rules
        self._sized, self._moved = sized, moved
        self._backward: dict[tuple[bool, ...], Backward] = {}

    def backward(self, given: tuple[bool, ...]) -> Backward:
        """Return the backward half for cotangents of these results."""
        found = self._backward.get(given)
        if found is None:
            try:
                found = RowBackward(self, given, *self._half(given))
            except RowsMixed as mixed:
                if not self._backward:
                    raise RowsMixed(f"in its gradient, {mixed.reason}", mixed.location) from None
                raise UnsupportedError(f"the gradient of these results alone has no program for any number of rows: {mixed.reason}",
                                       find_user_location(), hint="compile the function without batch=") from None
            self._backward[given] = found
        return found

    @property
    def whole(self) -> tuple[bool, ...]:
        """Cotangents of all results that can have one, but for hidden ones."""
        return (*self.active[:self.results], *(False,) * (len(self.active) - self.results))

    def moved_results(self, place: Sequence[int]) -> dict[int, Rows]:
        """Results of the forward half that are moved, if it has those of the operation in these places."""
        return {place[number]: rows for number, rows in self._moved.items()}

    def moved_params(self, given: tuple[bool, ...]) -> dict[int, Rows]:
        """Parameters of the backward half for these cotangents that are moved."""
        results = [slot.index if slot.is_result else -1 for slot in self.saved[:-1]]
        results += [number for number, is_given in enumerate(given) if is_given]
        return {position: self._moved[number] for position, number in enumerate(results) if number in self._moved}

    def _half(self, given: tuple[bool, ...]) -> tuple[RowGraphs, tuple[int | None, ...]]:
        sized, first = self._sized, self._sized.operations[0]
        halves = [operation.backward(given) for operation in sized.operations]
        if any(half.slots != halves[0].slots for half in halves):
            raise RowsMixed("other values have a gradient for another number of rows")
        for op in walk(halves[0].graph):
            if op.name == "custom_call":
                raise RowsMixed("functions are called that have rules of their own, which derivatives of it need", op.loc)
        graphs = [_with_moved_params(half.graph, self.moved_params(given)) for half in halves]
        counters = [position for position, slot in enumerate(first.saved) if not slot.is_result and slot.index in sized.counters]
        return sized.aligned(graphs, counters), halves[0].slots


class RowBackward(Backward):
    """Backward half for any number of rows, the parameter behind the saved values."""

    def __init__(self, operation: RowOperation, given: tuple[bool, ...], aligned: RowGraphs, slots: tuple[int | None, ...]) -> None:
        program = split_rows(aligned, operation.compile_options.keeps_rows, needs_rows=False)
        self.aligned, self._last = aligned, len(operation.saved) - 1
        self._rows = [number + (number >= self._last) for number in program.params]
        super().__init__(operation, _with_count_at(self._last, program.graph, program.graph.params[-1]), slots, given)

    @cached_property
    def function(self) -> Any:
        """Backward half on ndarrays."""
        of: Any = self.of
        return Half(self.graph, of.compile_options, of.verify, of.threads, self._rows)

    def for_operands(self, operands: Sequence[Any]) -> Backward:
        """The backward half for the number of rows of these operands: what is differentiated again has a program for each number."""
        rows = operands[self._last]
        graph = self.aligned.graph_for(int(rows.array if isinstance(rows, Tensor) else rows))
        return Backward(self.of, _with_count_at(self._last, graph, Value(COUNT, "rows")), self.slots, self.given)


def _with_count_at(index: int, graph: Graph, count: Value) -> Graph:
    """A backward half that takes the number of rows as its parameter `index`."""
    params = [value for value in graph.params if value is not count]
    return replace(graph, params=(*params[:index], count, *params[index:]), param_roles=())


def _with_moved_results(graph: Graph, moved: Mapping[int, Rows]) -> Graph:
    """The graph with the rows of these results first."""
    builder = GraphBuilder(graph.name)
    params = [builder.param(value.type, value.name, role) for value, role in zip(graph.params, graph.param_roles, strict=True)]
    with emitting(builder):
        results = list(builder.inline(graph, params))
        for number, rows in moved.items():
            shape, axis = _by_blocks(results[number].type.shape, rows)
            results[number] = move_axis(_reshaped(results[number], shape), axis, 0)
        return builder.build(results)


def _with_moved_params(graph: Graph, moved: Mapping[int, Rows]) -> Graph:
    """The graph for parameters of which these have their rows first."""
    if not moved:
        return graph
    builder = GraphBuilder(graph.name)
    given: list[Value] = []
    with emitting(builder):
        for number, value in enumerate(graph.params):
            if number not in moved:
                given.append(builder.param(value.type, value.name))
                continue
            shape, axis = _by_blocks(value.type.shape, moved[number])
            first = builder.param(value.type.with_shape((shape[axis], *shape[:axis], *shape[axis + 1:])), value.name)
            given.append(_reshaped(move_axis(first, 0, axis), value.type.shape))
        return builder.build(builder.inline(graph, given))


def _by_blocks(shape: Shape, rows: Rows) -> tuple[Shape, int]:
    """The shape with an axis for the blocks of the rows, if there are several, and the axis of the rows."""
    blocks, axis = max(1, rows.blocks), rows.axis
    return (shape, axis) if blocks == 1 else ((*shape[:axis], blocks, shape[axis] // blocks, *shape[axis + 1:]), axis + 1)


def _reshaped(value: Value, shape: Shape) -> Value:
    return value if value.type.shape == shape else ops.reshape(value, shape=shape)
