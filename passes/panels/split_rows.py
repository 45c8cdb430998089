"""Splits a program into what runs for each panel of rows and what runs once, so that one program serves any number of rows.

What depends on no row runs before; ops that keep rows apart run panel by panel, and what they add up over rows is carried from one panel to
the next; what depends on such sums runs after the last panel: an optimiser's update. Rows that depend on sums over rows (a normalized
batch) take a further loop. It computes again what it needs of the loops before, but for products and the like, which those leave in memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.analysis.cost import terms_of
from adjit.ir.builder import GraphBuilder
from adjit.ir.dataclass import dataclass
from adjit.ir.definition import Kind, OpCost
from adjit.ir.emitter import emitting
from adjit.ir.errors import Location
from adjit.ir.graph import WRITABLE_ROLES, Graph, Op, Value, is_kept, needed_ops, number_of, updated_results
from adjit.ir.memory_sizes import aligned
from adjit.ir.ops.control_flow import COUNT
from adjit.ir.ops.panels import (
    MOST_PARTS,
    NARROW_SIZES,
    PANEL_SIZES,
    SIZES_OF_LARGE_LAYERS,
    SIZES_OF_LOOPS,
    SIZES_OF_NARROW_LAYERS,
    SIZES_OF_SHORT_FUNCTIONS,
)
from adjit.ir.row_number import emit_number
from adjit.ir.types import TensorType
from adjit.passes.panels.align_rows import loops_apart
from adjit.passes.panels.linear_sums import with_linear_sums
from adjit.passes.panels.row_axes import SUM, RowGraphs, RowLoop, Rows, RowsMixed, is_sum_over_rows, row_operands

MAX_PART_BYTES = 1 << 22
"""Most bytes of the sums of all parts of the rows."""

NARROW_BYTES = 64
"""Most bytes that a row of any value may have in programs by larger panels."""

NARROW_INPUT_BYTES, NARROW_PRODUCT_BYTES = 256, 16
"""Most bytes that a row of arguments, and of a product, may have in such programs. Of wider ones, 64 rows take hundreds of
nanoseconds."""

_OF_KERNELS = (Kind.ELEMENTWISE, Kind.REDUCTION, Kind.MOVEMENT, Kind.CREATION, Kind.CONTRACTION)

MIN_PARTS = 4
"""Least number of parts: fewer would leave threads idle that work on one panel together, whose sums are that large."""

MIN_LARGE_BYTES = 1 << 14
"""Bytes of sums, or of what rows are multiplied with, from which they are large."""

MAX_OPS_OF_ALL_SIZES = 40
"""Most ops of a function of few numbers a row that has panels of every power of two rows."""

MAX_OPS_OF_MANY_SIZES = 300
"""Ops of a function from which there are but three sizes of panels, each of which is code for all of them: 1,300 ops of a loop of 100 steps
took 4.4 s to compile for seven."""

MAX_BEGINNING_ROWS = 8
"""Rows of panels of which the first of large sums has no zeros to add to. It is more code; zeros are half of the time of one row, of
gradients of large layers."""

MAX_NARROW_LAYER_BYTES = 1 << 25
"""Most bytes of all rows of a panel of the largest size for `SIZES_OF_NARROW_LAYERS`."""

MAX_LOOPS = 40
"""Loops over the rows, each of which is code for each size of panels. A training step takes 4 for a batch normalisation, and 3 more for
each further one."""

_KEPT = (Kind.WINDOW, Kind.SCAN, Kind.LINALG, Kind.EXTERNAL)
"""Kinds of ops whose results are kept in memory for later loops, as those of contractions of `MIN_KEPT_TERMS` products, and of
transcendental functions, are."""

MIN_KEPT_TERMS = 4

MAX_COMPUTATIONS = 4
"""Most times that an op is computed, on average over all: from there on all rows that a later loop needs are kept. Of layers with batch
normalisations it is 2 to 3."""


@dataclass(frozen=True, slots=True)
class RowProgram:
    """Graph of a program for any number of rows, its last parameter. Its types are those of the largest panel; `params` has the numbers of
    those parameters that are rows, with the elements that a row takes along the first axis. Results from number `first_kept` on, `kept` of
    them, are none of the function's: rows that one loop leaves for another."""

    graph: Graph
    params: Mapping[int, int]
    loops: int
    sizes: tuple[int, ...]
    first_kept: int
    kept: int

    def result_number(self, number: int) -> int:
        """The program's result for one of the function's."""
        return number + self.kept * (number >= self.first_kept)


def split_rows(graphs: RowGraphs, keeps: bool = True, needs_rows: bool = True) -> RowProgram:
    """The program of a function. Raises `RowsMixed` if it computes rows from other rows, or, if it `needs_rows`, nothing from rows. With
    `keeps`, one loop may leave rows in memory for another, in further results, before those that update parameters."""
    return _Split(loops_apart(graphs), keeps).run(needs_rows)


class _Split:
    def __init__(self, graphs: RowGraphs, keeps: bool) -> None:
        self.graphs, self.keeps = graphs, keeps
        self.graph = with_linear_sums(graphs)
        self.rows = graphs.rows
        self.index = {op: number for number, op in enumerate(graphs.graphs[0].ops)}
        self.needed = set(needed_ops(self.graph.ops, self.graph.results))
        self.sizes: tuple[int, ...] = SIZES_OF_LOOPS if graphs.loops else PANEL_SIZES
        self.padded = False
        self.level: dict[Value, int] = dict.fromkeys(self.graph.params, 0)
        """Loops that have to run before a value is known, or, of rows, before the loop that computes them."""
        self.sums: list[Op] = []

    def run(self, needs_rows: bool) -> RowProgram:
        self._check_params()
        for op in self.graph.ops:
            if op in self.needed:
                self._classify(op)
        if self._is_narrow():
            self.sizes = SIZES_OF_SHORT_FUNCTIONS if len(self.needed) <= MAX_OPS_OF_ALL_SIZES else NARROW_SIZES
        elif _is_large(self.sums) or self._has_large_products():
            nbytes = sum(self.graphs.type_for(value, SIZES_OF_NARROW_LAYERS[0]).nbytes for value in self.rows)
            if len(self.needed) <= MAX_OPS_OF_MANY_SIZES:
                self.sizes = SIZES_OF_NARROW_LAYERS if nbytes <= MAX_NARROW_LAYER_BYTES else SIZES_OF_LARGE_LAYERS
            self.padded = True
        self.padded |= bool(self.graphs.loops)
        loops = max([1 + self.level[value] for value in self._row_results()] + [1 + self._level_of(op) for op in self.sums], default=0)
        if not loops and needs_rows:
            raise RowsMixed("nothing is computed from the rows")
        if loops > MAX_LOOPS:
            raise RowsMixed(f"rows depend on sums over all rows, {loops - 1} times in a row",
                            next((op.loc for op in self.graph.ops if any(self.level.get(value) == MAX_LOOPS and value in self.rows
                                                                        for value in op.results)), None))
        return _Emission(self, loops, self._assigned(loops)).program()

    def _is_narrow(self) -> bool:
        """True if all that is done with rows is elementwise, reductions, and small products, on few numbers."""
        inputs = sum(self.graphs.type_for(value, 1).nbytes for value in self.graph.params if value in self.rows)
        products = [op for op in self.needed if op.definition.kind is Kind.CONTRACTION]
        rows = [value for op in products for value in op.results if value in self.rows]
        if products and (inputs > NARROW_INPUT_BYTES or any(
                self.graphs.type_for(value, 1).nbytes > NARROW_PRODUCT_BYTES for value in rows)):
            return False
        working = [op for op in self.graph.ops if op in self.needed and any(value in self.rows for value in (*op.operands, *op.results))]
        values = {value for op in working if op not in self.graphs.loops for value in op.results if value in self.rows}
        return all(op in self.graphs.loops or op.definition.kind in _OF_KERNELS for op in working) and all(
            self.graphs.type_for(value, 1).nbytes <= NARROW_BYTES for value in values) and all(map(_is_narrow, self._regions()))

    def _regions(self) -> Iterator[RowGraphs]:
        """Regions of loops and branches that compute with rows, and those within."""
        left = [region for op, loop in self.graphs.loops.items() if op in self.needed for region in loop.regions]
        while left:
            yield left[-1]
            left += [region for loop in left.pop().loops.values() for region in loop.regions]

    def _has_large_products(self) -> bool:
        """True if rows are multiplied with much that they share."""
        shared = _multiplied(self.graphs, self.needed).union(*(_multiplied(region, region.graphs[0].ops) for region in self._regions()))
        return sum(value.type.nbytes for value in shared) > MIN_LARGE_BYTES

    def _assigned(self, loops: int) -> list[list[Op]]:
        """Sums of each loop: each sum in the last loop that may compute it, where most of the rows that it needs are computed anyway."""
        found: list[list[Op]] = [[] for _ in range(loops)]
        left = list(self.sums)
        outputs = self._row_results()
        for loop in reversed(range(loops)):
            chosen = [op for op in left if self._level_of(op) <= loop]
            while True:
                wanted = [value for op in chosen for value in op.operands] + (outputs if loop == loops - 1 else [])
                before = self._sums_before(wanted)
                kept = [op for op in chosen if op not in before]
                if len(kept) == len(chosen):
                    break
                chosen = kept
            found[loop] = chosen
            left = [op for op in left if op not in chosen]
        return found

    def _sums_before(self, wanted: Iterable[Value]) -> set[Op]:
        """Sums on which values of a loop depend."""
        needed, found = set(wanted), set[Op]()
        sums = set(self.sums)
        for op in reversed(self.graph.ops):
            if needed.isdisjoint(op.results):
                continue
            if op in sums:
                found.add(op)
            needed.update(op.operands)
        return found

    def _check_params(self) -> None:
        for value, role in zip(self.graph.params, self.graph.param_roles, strict=True):
            if value in self.rows and role in WRITABLE_ROLES:
                raise RowsMixed(f"{value.name or 'an array of rows'} is written to or donated")
            if value in self.rows and self.rows[value].axis:
                raise RowsMixed(f"the rows of {value.name} are not along its first axis")
        for value in self.graph.results:
            if value in self.rows and self.rows[value].axis:
                raise RowsMixed("a result has its rows along another axis than the first", self._location(value))
            if value in self.rows and self.rows[value].blocks not in (0, 1):
                raise RowsMixed("a result has its rows several times, behind one another", self._location(value))

    def _location(self, value: Value) -> Location | None:
        return next((op.loc for op in self.graph.ops if value in op.results), None)

    def _row_results(self) -> list[Value]:
        return [value for value in self.graph.results if value in self.rows]

    def _level_of(self, op: Op) -> int:
        return max((self.level[value] for value in op.operands), default=0)

    def _classify(self, op: Op) -> None:
        """Find out whether an op works on rows, adds them up, or has nothing to do with them."""
        if is_kept(op):
            raise RowsMixed(f"{op.name} is seen from outside, once", op.loc)
        takes = [value for value in op.operands if value in self.rows]
        gives = [value for value in op.results if value in self.rows]
        level = self._level_of(op)
        if gives:
            versions = [graph.ops[self.index[op]] for graph in self.graphs.graphs]
            if op in self.graphs.loops:
                pass        # aligned
            elif op.regions or op.name == "table" or len(gives) != len(op.results) or row_operands(self.graphs, versions) is None:
                raise RowsMixed(f"{op.name} computes rows from other rows", op.loc)
        elif takes:
            if op.regions or not is_sum_over_rows(self.graphs, op) or op.result.type.is_half:
                raise RowsMixed(f"{op.name} combines rows in another way than to add them up", op.loc)
            self.sums.append(op)
            level += 1
        for value in op.results:
            self.level[value] = level


def _is_narrow(region: RowGraphs) -> bool:
    ops = region.graphs[0].ops
    return all(op in region.loops or op.definition.kind in _OF_KERNELS for op in ops) and all(
        region.type_for(value, 1).nbytes <= NARROW_BYTES for op in ops for value in op.results if value in region.rows)


def _multiplied(graphs: RowGraphs, ops: Iterable[Op]) -> set[Value]:
    """What rows are multiplied with, and share."""
    return {value for op in ops if op.definition.kind is Kind.CONTRACTION and graphs.rows.get(op.results[0], SUM) != SUM
            for value in op.operands if value not in graphs.rows}


class _Emission:
    """The graph under construction: loops, and between them what all rows share."""

    def __init__(self, split: _Split, loops: int, sums: Sequence[Sequence[Op]]) -> None:
        self.split, self.loops, self.rows, self.sums = split, loops, split.rows, sums
        graph = split.graph
        self.builder = GraphBuilder(graph.name)
        self.values = {value: self.builder.param(value.type if value in split.graphs.counters else
                                                 split.graphs.type_for(value, split.sizes[0]), value.name, role)
                       for value, role in zip(graph.params, graph.param_roles, strict=True)}
        self.count = self.builder.param(COUNT, "rows")
        self.kept = self._kept() if split.keeps and loops > 1 else {}
        self.row_results: dict[int, Value] = {}

    def program(self) -> RowProgram:
        split, graph = self.split, self.split.graph
        shared = [op for op in graph.ops if op in split.needed and not any(value in self.rows for value in (*op.operands, *op.results))]
        ready = {op.result: loop + 1 for loop, sums in enumerate(self.sums) for op in sums}     # loops that run before a value is known
        for op in shared:
            after = max((ready.get(value, 0) for value in op.operands), default=0)
            ready.update((value, after) for value in op.results)
        with emitting(self.builder):
            for loop in range(self.loops + 1):
                for op in shared:
                    if ready[op.results[0]] == loop:
                        self._emit_shared(op)
                if loop < self.loops:
                    self._emit_loop(loop)
            results = [self.row_results[number] if value in self.rows else self.values[value]
                       for number, value in enumerate(graph.results)]
            first_kept = len(results) - len(updated_results(graph))
            results[first_kept:first_kept] = [self.values[value] for value in self.kept]
            made = self.builder.build(results)
        params = {number: self.rows[value].length for number, value in enumerate(graph.params)
                  if value in self.rows and value not in split.graphs.counters}
        return RowProgram(made, params, self.loops, split.sizes, first_kept, len(self.kept))

    def _kept(self) -> dict[Value, int]:
        """Rows that are kept in memory, with the loop that computes them: what later loops would compute again, and is worth it; or all,
        of many loops."""
        wanted = [self._wanted(loop) for loop in range(self.loops)]
        bodies = [self._body(values) for values in wanted]
        first: dict[Value, int] = {}
        for loop, body in enumerate(bodies):
            for op in body:
                for value in op.results:
                    first.setdefault(value, loop)
        ops = set().union(*bodies)
        kept = {value for op in ops if op in self.split.graphs.loops or _is_costly(op) for value in op.results}
        computed = sum(len(self._body(values, {value for value in kept if first[value] < loop})) for loop, values in enumerate(wanted))
        if computed > MAX_COMPUTATIONS * len(ops):
            kept = {value for op in ops if any(value in self.rows for value in op.operands) for value in op.results}
        kept = {value for value in kept if self.rows[value].axis >= 0 and self.rows[value].blocks in (0, 1)}
        read: set[Value] = set()
        for loop, values in enumerate(wanted):
            there = {value for value in kept if first[value] < loop}
            read.update(there.intersection((*values, *(value for op in self._body(values, there) for value in op.operands))))
        return {value: loop for value, loop in first.items() if value in read}

    def _wanted(self, loop: int) -> list[Value]:
        """Rows that a loop is for: what it adds up, and in the last loop what the program returns."""
        results = self.split._row_results() if loop == self.loops - 1 else []
        return [*(value for op in self.sums[loop] for value in op.operands if value in self.rows), *results]

    def _emit_shared(self, op: Op) -> None:
        number = self.split.graphs.numbers.get(op)
        if number is not None:
            with self.builder.at(op.loc, op.role):
                value = emit_number(number, self.count, op.result.type.dtype)
                self.values[op.result] = ops.broadcast(value, shape=op.result.type.shape, axes=()) if op.result.type.shape else value
            return
        results = tuple(Value(value.type, value.name) for value in op.results)
        self.builder.append(Op(op.definition, tuple(self.values[value] for value in op.operands), results, op.attrs, op.regions, op.loc,
                               op.role))
        self.values.update(zip(op.results, results, strict=True))

    def _emit_loop(self, loop: int) -> None:
        """Emit a loop; the last one has the rows among the results."""
        split, graph = self.split, self.split.graph
        sums, is_last = self.sums[loop], loop == self.loops - 1
        returned = [number for number, value in enumerate(graph.results) if value in self.rows and is_last]
        kept = [value for value, made_by in self.kept.items() if made_by == loop]
        outputs = [*(graph.results[number] for number in returned), *kept]
        wanted = self._wanted(loop)
        there = {value: made_by for value, made_by in self.kept.items() if made_by < loop}
        body = self._body([*wanted, *kept], there)
        numbers = [op for op in body if op in split.graphs.numbers]
        rows = [value for value in graph.params if value in self.rows and value not in split.graphs.counters
                and (is_last or self._is_used(value, body, sums, wanted))]       # the op says of all which have rows
        rows += [value for value in there if self._is_used(value, body, sums, wanted)]
        read = [value for op in body for value in op.operands] + [value for op in sums for value in op.operands[_accumulates(op):]]
        made = {op.results[0]: op for op in graph.ops if op.definition.kind is Kind.CREATION and op not in split.graphs.numbers}
        constants = [op for value, op in made.items() if value in read and value not in self.rows]
        zeros = {value for value, op in made.items() if number_of(op) == 0}
        shared = dict.fromkeys(value for value in read if value not in self.rows and value not in made)
        scalars = [emit_number(split.graphs.numbers[op], self.count, op.result.type.dtype) for op in numbers]
        parts = _parts(sums)
        initial = tuple(self._identity(op) for op in sums)
        operands = [*(self.values[value] for value in rows), self.count, *(self.values[value] for value in shared), *scalars]
        regions = [self._region(number, [*constants, *body], sums, outputs, rows, list(shared), numbers)
                   for number in range(len(split.sizes))]
        beginnings = [self._region(number, [*constants, *body], sums, outputs, rows, list(shared), numbers, begins=True)
                      for number, size in enumerate(split.sizes)
                      if size <= MAX_BEGINNING_ROWS and len(split.sizes) > len(PANEL_SIZES) and _is_large(sums)]
        results = ops.panels.emit(*operands, regions=[*regions, *beginnings, self._combination(sums)], initial=initial, slices=len(rows),
                                  sizes=split.sizes, parts=parts, beginnings=len(beginnings), padded=split.padded, scratch_bytes=0)
        self.row_results.update(zip(returned, results, strict=False))
        self.values.update(zip(kept, results[len(returned):], strict=False))
        for op, value in zip(sums, results[len(outputs):], strict=True):
            is_added = _accumulates(op) and op.operands[0] not in zeros
            self.values[op.result] = ops.add(self.values[op.operands[0]], value) if is_added else value

    def _combination(self, sums: Sequence[Op]) -> Graph:
        """What the sums of some rows and those of further ones make."""
        builder = GraphBuilder(f"{self.builder.name}_sums")
        before = [builder.param(op.result.type, role="carried") for op in sums]
        further = [builder.param(op.result.type) for op in sums]
        with emitting(builder):
            results = []
            for op, one, two in zip(sums, before, further, strict=True):
                with builder.at(op.loc, op.role):
                    results.append(_COMBINE.get(op.name, ops.add)(one, two))
            return builder.build(results)

    def _body(self, wanted: Iterable[Value], there: Collection[Value] = ()) -> list[Op]:
        """Ops on rows that these values of rows need, where those of `there` need none."""
        needed = {value for value in wanted if value not in there}
        found: list[Op] = []
        for op in reversed(self.split.graph.ops):
            if any(value in needed for value in op.results) and op.results[0] in self.rows:
                found.append(op)
                needed.update(value for value in op.operands if value in self.rows and value not in there)
        return found[::-1]

    def _is_used(self, value: Value, body: Sequence[Op], sums: Sequence[Op], wanted: Sequence[Value]) -> bool:
        return value in wanted or any(value in op.operands for op in (*body, *sums))

    def _identity(self, op: Op) -> Any:
        """What a sum begins with."""
        dtype = op.result.type.dtype
        number = op.definition.identity(dtype) if op.definition.identity is not None else dtype.type(0)
        return number.item() if isinstance(number, np.generic) else number

    def _region(self, number: int, body: Sequence[Op], sums: Sequence[Op], outputs: Sequence[Value], rows: Sequence[Value],
                shared: Sequence[Value], numbers: Sequence[Op], begins: bool = False) -> Graph:
        """What is done with one panel of the size `number`. One that `begins` has nothing to add its sums to."""
        graphs, size = self.split.graphs, self.split.sizes[number]
        builder = GraphBuilder(f"{self.builder.name}_{size}{'_begin' * begins}")
        carried = [builder.param(op.result.type, role="carried") for op in sums]
        given = {value: builder.param(self._in_memory(graphs.type_for(value, size), value), value.name) for value in rows}
        start, end = builder.param(COUNT, "start"), builder.param(COUNT, "end")
        may_be_short = self.split.padded and 0 < number < len(self.split.sizes) - 1
        known = {value: builder.param(value.type, value.name) for value in shared}
        scalars = {op: builder.param(op.result.type.with_shape(())) for op in numbers}
        with emitting(builder):
            known.update((value, move_axis(param, 0, self.rows[value].axis)) for value, param in given.items())
            left = ops.subtract(end, start) if may_be_short else None
            for value in graphs.counters:
                known[value] = _numbers(graphs.type_for(value, size), 0, 1, start, left)
            for op in body:
                with builder.at(op.loc, op.role):
                    known.update(zip(op.results, self._of_panel(builder, op, size, known, start, left, scalars), strict=True))
            results: list[Value] = []
            for output in outputs:
                value = move_axis(known[output], self.rows[output].axis, 0)
                taken = value in builder.params or value in results     # a result has memory of its own
                results.append(ops.reshape(value, shape=value.type.shape) if taken else value)
            combined = []
            for op, before in zip(sums, carried, strict=True):
                with builder.at(op.loc, op.role):
                    added = [known[value] for value in op.operands[_accumulates(op):]]
                    if left is not None:
                        indices = int(_accumulates(op))     # those of the last row, which are in range
                        added[indices:] = [value if self.rows.get(each, SUM) == SUM else
                                           _only_there(value, self.rows[each], left, self._identity(op))
                                           for value, each in zip(added, op.operands[_accumulates(op):], strict=True)][indices:]
                    first = ops.full_like(before, 0) if begins and _accumulates(op) else before
                    own = graphs.op_for(op, size, [first, *added] if _accumulates(op) else added)
                    builder.append(own)
                    combined.append(own.result if begins or _accumulates(op) else _COMBINE.get(op.name, ops.add)(before, own.result))
            return builder.build([*results, *combined])

    def _in_memory(self, type: TensorType, value: Value) -> TensorType:
        """Type of rows in memory, where they are first."""
        axis = self.rows[value].axis
        return type.with_shape((type.shape[axis], *type.shape[:axis], *type.shape[axis + 1:]))

    def _of_panel(self, builder: GraphBuilder, op: Op, size: int, known: Mapping[Value, Value], start: Value, left: Value | None,
                  scalars: Mapping[Op, Value]) -> Sequence[Value]:
        """Results of an op for a panel of `size` rows that begins with row `start`, of which `left` are there, if some may not be."""
        graphs = self.split.graphs
        type = graphs.type_for(op.results[0], size)
        if op in scalars:
            return [ops.broadcast(scalars[op], shape=type.shape, axes=())]
        operands = [known[value] for value in op.operands]
        if op in graphs.own_rows:       # of the panel's rows
            index = operands[1]
            within = ops.subtract(index, _first(start, self.rows[op.operands[0]].length, index.type))
            operands[1] = ops.select(ops.less(index, ops.full_like(index, 0)), index, within)       # negative: out of range
        rows = self.rows.get(op.results[0])
        if op.name == "iota" and rows is not None and op.attrs["axis"] == rows.axis:
            return [_numbers(type, rows.axis, rows.length, start, left)]
        own = _own_loop(graphs, op, size, operands, left) if op in graphs.loops else graphs.op_for(op, size, operands)
        builder.append(own)
        return own.results


def _own_loop(graphs: RowGraphs, op: Op, size: int, operands: Sequence[Value], left: Value | None) -> Op:
    """A loop or branch for a panel of `size` rows, of which `left` are there, if some may not be: its regions take that number, too."""
    own = graphs.op_for(op, size, operands)
    if left is None or not _adds_up(graphs.loops[op]):
        return own
    return replace(own, operands=(*own.operands, left), regions=tuple(_padded_region(region, size) for region in graphs.loops[op].regions))


def _adds_up(loop: RowLoop) -> bool:
    return any(SUM in region.rows.values() for region in loop.regions)


def _padded_region(graphs: RowGraphs, size: int) -> Graph:
    """A region for a panel of `size` rows, which takes as its last parameter how many of them are there, and adds up no others."""
    first = graphs.graphs[0]
    builder = GraphBuilder(first.name)
    known = {value: builder.param(graphs.type_for(value, size), value.name, role)
             for value, role in zip(first.params, first.param_roles, strict=True)}
    left = builder.param(COUNT, "left")
    with emitting(builder):
        for op in first.ops:
            with builder.at(op.loc, op.role):
                operands = [known[value] for value in op.operands]
                if graphs.rows.get(op.results[0]) == SUM and op not in graphs.loops:
                    operands = [value if graphs.rows.get(each, SUM) == SUM else _only_there(value, graphs.rows[each], left, 0)
                                for value, each in zip(operands, op.operands, strict=True)]
                own = _own_loop(graphs, op, size, operands, left) if op in graphs.loops else graphs.op_for(op, size, operands)
                builder.append(own)
                known.update(zip(op.results, own.results, strict=True))
        return builder.build([known[value] for value in first.results])


def move_axis(value: Value, axis: int, to: int) -> Value:
    """A value with one of its axes moved."""
    if axis == to:
        return value
    order = [other for other in range(value.type.rank) if other != axis]
    order.insert(to, axis)
    return ops.transpose(value, permutation=tuple(order))


def _numbers(type: TensorType, axis: int, length: int, start: Value, left: Value | None) -> Value:
    """The numbers of the elements of a panel that begins with row `start`, where a row takes `length` elements; behind the `left` rows that
    are there, those of the last, so that they are out of range of nothing."""
    numbers = ops.iota(dtype=type.dtype, shape=type.shape, axis=axis)
    if left is not None:
        own = ops.iota(dtype=COUNT.dtype, shape=type.shape, axis=axis)
        row = own if length == 1 else ops.floor_divide(own, ops.full_like(own, length))
        over = ops.maximum(ops.subtract(row, _first(ops.subtract(left, ops.full_like(left, 1)), 1, row.type)), ops.full_like(row, 0))
        own = ops.subtract(own, over if length == 1 else ops.multiply(over, ops.full_like(over, length)))
        numbers = own if type.dtype == COUNT.dtype else ops.convert(own, dtype=type.dtype)
    return ops.add(numbers, _first(start, length, type))


def _only_there(value: Value, rows: Rows, left: Value, number: Any) -> Value:
    """The rows of a panel that are there, and a number in place of the others."""
    of_rows, blocks = TensorType(COUNT.dtype, (value.type.shape[rows.axis],)), max(1, rows.blocks)
    number_of_row = ops.iota(dtype=COUNT.dtype, shape=of_rows.shape, axis=0)
    if blocks > 1:
        number_of_row = ops.remainder(number_of_row, ops.full_like(number_of_row, of_rows.shape[0] // blocks))
    is_there = ops.less(number_of_row, _first(left, rows.length // blocks, of_rows))
    if value.type.rank > 1:
        is_there = ops.broadcast(is_there, shape=value.type.shape, axes=(rows.axis,))
    return ops.select(is_there, value, ops.full_like(value, number))


def _first(start: Value, length: int, type: TensorType) -> Value:
    """The number of the first element of a panel that begins with row `start`, where a row takes `length` elements."""
    first = start if length == 1 else ops.multiply(start, ops.full_like(start, length))
    first = first if type.dtype == first.type.dtype else ops.convert(first, dtype=type.dtype)
    return ops.broadcast(first, shape=type.shape, axes=())


def _accumulates(op: Op) -> bool:
    """True if an op adds to its first operand."""
    return op.name == "scatter_add"


def _is_costly(op: Op) -> bool:
    """True if a result takes longer to compute again than to read from memory."""
    kind = op.definition.kind
    return terms_of(op) >= MIN_KEPT_TERMS if kind is Kind.CONTRACTION else (
        kind in _KEPT or op.definition.cost is OpCost.TRANSCENDENTAL)


def _is_large(sums: Sequence[Op]) -> bool:
    return sum(op.result.type.nbytes for op in sums) > MIN_LARGE_BYTES


def _parts(sums: Sequence[Op]) -> int:
    """Most parts of the rows of a loop."""
    nbytes = sum(aligned(op.result.type.nbytes) for op in sums)
    parts = min(MOST_PARTS, MAX_PART_BYTES // nbytes) if nbytes else MOST_PARTS
    return parts if parts >= MIN_PARTS else 1


_COMBINE = {"reduce_prod": ops.multiply, "reduce_max": ops.maximum, "reduce_min": ops.minimum, "reduce_and": ops.logical_and,
            "reduce_or": ops.logical_or}
