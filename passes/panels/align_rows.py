"""Alignment of the graphs that one function has for several numbers of rows, loops and branches included.

Within a loop, carried values, slices and stacked results have rows along an axis of their own, and so do the values of its body: the body
for a panel of rows is the body for as many rows. What each iteration adds up over rows is a sum of the panel's rows, as long as nothing but
sums is made of it: the loop then gives the panel's part of the sum over all rows.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from adjit.ir import ops as op_records
from adjit.ir.errors import Location
from adjit.ir.graph import Graph, Op, Value, attributes_key, hand_to_regions, is_kept, number_of, producers, structural_key
from adjit.ir.row_number import Expression, expression_of
from adjit.ir.types import Shape
from adjit.passes.options import Options
from adjit.passes.panels.row_axes import (
    SUM,
    RowGraphs,
    RowLoop,
    Rows,
    RowsMixed,
    blocks_of,
    is_sum_over_rows,
    row_operands,
    within_rows,
)
from adjit.passes.simplify.loops import prune

ALIGNED = frozenset({"scan", "while_loop", "cond"})
"""Ops whose regions may compute with rows."""

_LINEAR = frozenset({"add", "subtract", "negative", "reshape", "transpose", "broadcast", "slice", "flip", "concatenate", "reduce_sum",
                     "pad", "update_slice", "add_slice"})
"""Ops whose result is a sum over rows where all operands are, or zero."""

_SCALING = frozenset({"multiply", "strong_multiply", "matmul", "divide"})
"""Ops whose result is a sum over rows where one operand is, and the other is shared."""

_ADDING = frozenset({"reduce_sum", "matmul", "convolution_kernel_gradient"})


def align(graphs: Sequence[Graph], sizes: Sequence[int], counters: Sequence[int] = (), known: Collection[Expression] = ()) -> RowGraphs:
    """Find the rows of the values of graphs that one function has for `sizes` rows; the parameters `counters` are the numbers of the rows,
    and `known` numbers that Python computed from how many there are. Raises `RowsMixed` if the graphs are not the same op by op, or differ
    in more than numbers of rows."""
    rows: dict[Value, Rows] = {}
    for values in zip(*(graph.params for graph in graphs), strict=True):
        _find_rows(values, sizes, rows, None)
    made = _aligned(graphs, sizes, rows, known, inside=False)
    counting = frozenset(graphs[0].params[index] for index in counters)
    return replace(made, counters=counting, own_rows=within_rows(graphs[0], rows, counting))


def lift_numbers(graph: Graph) -> Graph:
    """The graph with numbers of loops and branches made before them, where some may stand for the number of rows."""
    made: list[Op] = []
    for op in graph.ops:
        if op.name not in ALIGNED:
            made.append(op)
            continue
        regions = [lift_numbers(region) for region in op.regions]
        found = {_key(inner): inner for region in regions for inner in region.ops if _may_count(inner)}
        outer = [replace(inner, results=(Value(inner.result.type),)) for inner in found.values()]
        params = [{key: Value(inner.result.type) for key, inner in found.items()} for _ in regions]
        for number, (region, known) in enumerate(zip(regions, params, strict=True)):
            new = {inner.result: known[_key(inner)] for inner in region.ops if _may_count(inner)}
            kept = [inner.with_operands([new.get(value, value) for value in inner.operands])
                    for inner in region.ops if new.keys().isdisjoint(inner.results)]
            regions[number] = region.with_ops(kept, [new.get(value, value) for value in region.results])
        made += outer
        made.append(hand_to_regions(replace(op, regions=tuple(regions)), [inner.result for inner in outer],
                                    [[*known.values()] for known in params], [region.ops for region in regions]))
    return graph.with_ops(made)


def _key(op: Op) -> Hashable:
    return op.name, attributes_key(op.attrs)


def _may_count(op: Op) -> bool:
    return op.name == "iota" or (op.name == "constant" and number_of(op) != 0)


def _aligned(graphs: Sequence[Graph], sizes: Sequence[int], rows: dict[Value, Rows], known: Collection[Expression], inside: bool,
             decides: bool = False, borrowed: Collection[Op] = ()) -> RowGraphs:
    """Graphs side by side, whose parameters have these rows; `inside` a loop, all is checked at once, and sums are told apart. A graph that
    `decides` may ask for any row, and ops that are `borrowed` take from another one."""
    if len({len(graph.ops) for graph in graphs}) > 1:
        loc = next((ops[0].loc for ops in zip(*(graph.ops for graph in graphs), strict=False)
                    if len({(op.name, op.loc) for op in ops}) > 1), None)
        raise RowsMixed("other operations run for other numbers of rows", loc)
    numbers: dict[Op, Expression] = {}
    loops: dict[Op, RowLoop] = {}
    places, producer = [_places(graph) for graph in graphs], producers(graphs[0])
    made = RowGraphs(tuple(sizes), tuple(graphs), rows, numbers, loops=loops)
    for ops in zip(*(graph.ops for graph in graphs), strict=True):
        op = ops[0]
        wiring = {(each.name, tuple(place[value] for value in each.operands)) for each, place in zip(ops, places, strict=True)}
        if len(wiring) > 1 or len({len(each.results) for each in ops}) > 1:
            raise RowsMixed("other operations run for other numbers of rows", op.loc)
        for values in zip(*(each.results for each in ops), strict=True):
            _find_rows(values, sizes, rows, op.loc)
        if op.regions and len({structural_key(replaced) for replaced in ops}) > 1:
            loops[op] = _LoopAlignment(ops, sizes, rows, known, producer).run()
            continue
        number = _check_attributes(ops, sizes, rows, known)
        if number is not None:
            numbers[op] = number
        rows.update((value, replace(rows[value], blocks=blocks_of(op, rows))) for value in op.results if value in rows)
        if inside and op not in borrowed:
            _check_inside(made, ops, producer, _ADDING | {"reduce_or"} if decides else _ADDING)
    if len({tuple(place[value] for value in graph.results) for graph, place in zip(graphs, places, strict=True)}) > 1:
        raise RowsMixed("other values are returned for other numbers of rows")
    return made


def _check_inside(graphs: RowGraphs, ops: Sequence[Op], producer: Mapping[Value, Op], adding: Collection[str]) -> None:
    """Check an op in the body of a loop or branch, and tell whether its result is a sum over rows, by one of the ops `adding`."""
    op, rows = ops[0], graphs.rows
    assert isinstance(rows, dict)
    if is_kept(op):
        raise RowsMixed(f"{op.name} is seen from outside, once", op.loc)
    if op in graphs.numbers:
        raise RowsMixed("a number within a loop or a branch depends on the number of rows", op.loc)
    sums = [value for value in op.operands if rows.get(value) == SUM]
    if any(value in rows for value in op.results):
        if sums:
            raise RowsMixed("rows depend on a sum over all rows, within a loop or a branch", op.loc)
        if op.regions or op.name == "table" or row_operands(graphs, ops) is None:
            raise RowsMixed(f"{op.name} computes rows from other rows", op.loc)
        return
    if any(value in rows and value not in sums for value in op.operands):
        if sums or op.name not in adding or not is_sum_over_rows(graphs, op) or op.result.type.is_half:
            raise RowsMixed(f"{op.name} combines rows in another way than to add them up, within a loop or a branch", op.loc)
        rows[op.result] = SUM
    elif sums:
        others = [value for value in op.operands if value not in sums]
        is_linear = (op.name in _LINEAR and all(number_of(producer.get(value)) == 0 for value in others)
                     and not op.attrs.get("value")) or (
            op.name in _SCALING and len(sums) == 1 and op.operands.index(sums[0]) <= (op.name != "divide"))
        if not is_linear or op.result.type.is_half:
            what = "combines a sum over all rows with what is none" if op.name in _LINEAR else "is given a sum over all rows"
            raise RowsMixed(f"{op.name} {what}, within a loop or a branch", op.loc)
        rows[op.result] = SUM


class _LoopAlignment:
    """A loop or branch that computes with rows, for several numbers of rows."""

    def __init__(self, ops: Sequence[Op], sizes: Sequence[int], rows: dict[Value, Rows], known: Collection[Expression],
                 producer: Mapping[Value, Op]) -> None:
        self.ops, self.op, self.sizes, self.rows, self.known, self.producer = ops, ops[0], sizes, rows, known, producer
        self.first = 1 if self.op.name == "cond" else 0
        self.carries = self.op.attrs.get("carries", 0)
        self.slices = range(self.carries, self.carries + self.op.attrs.get("slices", 0))

    def run(self) -> RowLoop:
        """The regions; enters the rows of the results."""
        op = self.op
        if op.name not in ALIGNED:
            raise RowsMixed(f"{op.name} runs a graph of its own on the rows", op.loc)
        _check_attributes(self.ops, self.sizes, self.rows, self.known)
        if self.first and op.operands[0] in self.rows:
            raise RowsMixed("cond decides on a sum over all rows, within a loop or a branch", op.loc)
        given = self._given()
        regions = [self._region(number, given) for number in range(len(op.regions))]
        self._check_carries(regions[-1], given)
        asks = op.name == "while_loop" and (regions[0].graphs[0].results[0] in regions[0].rows or _borrowed(regions[1].graphs[0]))
        if asks and not self._leaves_rows_that_are_done(regions):
            raise RowsMixed("while_loop changes rows that are done until all rows are; vmap of the loop of one row leaves them", op.loc)
        states = self._results(regions)
        for value, state in zip(op.results, states, strict=True):
            if state is None:
                self.rows.pop(value, None)
            else:
                self.rows[value] = state
        return RowLoop(tuple(regions), frozenset(index for index, state in enumerate(states) if state == SUM))

    def _of_param(self, index: int, value: Value) -> Rows | None:
        rows = self.rows.get(value)
        if rows is None or rows == SUM:
            return rows
        if rows.blocks < 0:
            raise self._mixed()
        if index in self.slices:
            if not rows.axis:
                raise RowsMixed("scan takes the rows one after the other", self.op.loc)
            return replace(rows, axis=rows.axis - 1)
        return replace(rows, blocks=1) if index < self.carries and not rows.blocks else rows

    def _region(self, number: int, given: Sequence[Rows | None]) -> RowGraphs:
        graphs = [op.regions[number] for op in self.ops]
        rows = {param: state for param, state in zip(graphs[0].params, given, strict=True) if state is not None}
        decides = self.op.name == "while_loop" and not number
        borrowed = _borrowed(graphs[0]) if self.op.name == "while_loop" and number else {}
        return _aligned(graphs, self.sizes, rows, self.known, inside=True, decides=decides, borrowed=borrowed)

    def _given(self) -> list[Rows | None]:
        """Rows of the parameters; what begins with zero, and depends on rows after an iteration, is a sum over rows."""
        given = [self._of_param(index, value) for index, value in enumerate(self.op.operands[self.first:])]
        body, carries = self.op.regions[-1], self.carries
        while carries:
            depending = {param for param, state in zip(body.params, given, strict=True) if state is not None}
            for op in body.ops:
                if not depending.isdisjoint(op.operands):
                    depending.update(op.results)
            found = [index for index, value in enumerate(body.results[len(body.results) - carries:])
                     if given[index] is None and value in depending]
            if not found:
                break
            for index in found:
                if number_of(self.producer.get(self.op.operands[index])) != 0:
                    raise RowsMixed(f"{self.op.name} adds up rows, beginning with something else than zero", self.op.loc)
                given[index] = SUM
        return given

    def _leaves_rows_that_are_done(self, regions: Sequence[RowGraphs]) -> bool:
        """True if a loop goes on while a mask of rows has one that is true, and keeps what it carries of the others: as they stay as they
        are, so does their mask, and more iterations for other rows change nothing of them."""
        (test, body), (producer, inside) = (region.graphs[0] for region in regions), (producers(region.graphs[0]) for region in regions)
        decides = producer.get(test.results[0])
        while decides is not None and decides.name == "reshape":
            decides = producer.get(decides.operands[0])
        if decides is None or decides.name != "reduce_or" or self.op.attrs["checkpoints"]:
            return False
        given = dict(zip(test.params[self.carries:], self.op.operands[self.first + self.carries:], strict=True))
        given |= dict(zip(body.params[self.carries:], given.values(), strict=True))
        same = _SameValues(test, body, producer, inside, given, self.producer)
        if not all(same(decides.operands[0], mask) for mask in _borrowed(body).values()):
            return False
        for param, value in zip(body.params[:self.carries], body.results, strict=True):
            chosen = inside.get(value)
            if value is param:
                continue
            if chosen is None or chosen.name != "select" or chosen.operands[2] is not param or param not in regions[1].rows:
                return False
            mask = chosen.operands[0]
            while (made := inside.get(mask)) is not None and made.name in ("broadcast", "reshape"):
                mask = made.operands[0]
            if not same(decides.operands[0], mask):
                return False
        return True

    def _check_carries(self, body: RowGraphs, given: Sequence[Rows | None]) -> None:
        results = body.graphs[0].results
        for before, value in zip(given, results[len(results) - self.carries:], strict=False) if self.carries else ():
            after = body.rows.get(value)
            if (before == SUM) != (after == SUM):
                raise RowsMixed(f"{self.op.name} carries a sum over all rows", self.op.loc)
            if before is not None and after is not None and after.blocks not in (0, before.blocks):
                raise self._mixed()

    def _results(self, regions: Sequence[RowGraphs]) -> list[Rows | None]:
        body = regions[-1].graphs[0]
        found = [regions[-1].rows.get(value) for value in body.results]
        if self.op.name == "cond":
            other = [regions[0].rows.get(value) for value in regions[0].graphs[0].results]
            return [self._joined(number, regions) if SUM in pair else self._same(*pair)
                    for number, pair in enumerate(zip(other, found, strict=True))]
        stacked = [regions[-1].rows.get(body.params[index]) for index in self.op.attrs["checkpointed"]] \
            if self.op.attrs.get("checkpoints") else found[:len(found) - self.carries]
        counts: list[Rows | None] = [None, None] if self.op.attrs.get("checkpoints") else []
        rows = [state if state is None or state == SUM else replace(state, axis=state.axis + 1) for state in stacked]
        return [*counts, *rows, *found[len(found) - self.carries:]]

    def _same(self, one: Rows | None, two: Rows | None) -> Rows | None:
        if one is None or two is None or one.blocks == two.blocks:
            return one
        if one.blocks and two.blocks:
            raise self._mixed()
        return one if one.blocks else two

    def _joined(self, number: int, regions: Sequence[RowGraphs]) -> Rows:
        """What branches give of which one adds up rows: the other one does, or gives zeros."""
        for region in regions:
            value = region.graphs[0].results[number]
            if region.rows.get(value) != SUM and number_of(producers(region.graphs[0]).get(value)) != 0:
                raise RowsMixed("cond adds up rows in one branch alone", self.op.loc)
        return SUM

    def _mixed(self) -> RowsMixed:
        return RowsMixed(f"{self.op.name} computes rows from other rows", self.op.loc)


def _borrowed(body: Graph) -> dict[Op, Value]:
    """Ops of a body by which rows that are done compute with the values of one that is not, as `vmap` has it, so that nothing within goes
    on forever for them; with the mask of the rows that are not done."""
    producer, found = producers(body), dict[Op, Value]()
    for op in body.ops:
        if op.name == "argmax" and op.operands[0].type.rank == 1 and op.operands[0].type.dtype == np.bool_:
            mask, taken, ops = op.operands[0], list(op.results), [op]
            while taken:
                value = taken.pop()
                for reader in body.ops if value not in body.results else ():
                    if value not in reader.operands or reader.name == "select":
                        continue
                    ops.append(reader)
                    taken += reader.results
            selected = {value for each in ops for value in each.results}
            if selected.isdisjoint(body.results) and all(each.name in ("argmax", "take", "broadcast", "reshape") for each in ops) and all(
                    _stands_for(reader.operands[0], mask, producer) and selected.isdisjoint(reader.operands[:2])
                    for reader in body.ops if reader.name == "select" and not selected.isdisjoint(reader.operands)):
                found |= dict.fromkeys(ops, mask)
    return found


def _stands_for(value: Value, mask: Value, producer: Mapping[Value, Op]) -> bool:
    """True if a value is a mask, broadcast."""
    while value is not mask and (made := producer.get(value)) is not None and made.name in ("broadcast", "reshape"):
        value = made.operands[0]
    return value is mask


class _SameValues:
    """Whether two values of two regions of the same parameters are computed by the same ops. Parameters that no iteration changes are
    `given` by values around, made by `outside`, several of which may be one."""

    def __init__(self, one: Graph, two: Graph, producer: Mapping[Value, Op], other: Mapping[Value, Op], given: Mapping[Value, Value],
                 outside: Mapping[Value, Op]) -> None:
        self.producer, self.other, self.given, self.outside = producer, other, given, outside
        self.known = dict(zip(one.params, two.params, strict=True))

    def __call__(self, value: Value, counterpart: Value) -> bool:
        """True if they are."""
        left, seen = [(value, counterpart)], set[tuple[Value, Value]]()
        while left:
            one, two = left.pop()
            if one is two or (one, two) in seen:
                continue
            seen.add((one, two))
            if one in self.known:
                if self.known[one] is not two:
                    if one not in self.given or two not in self.given:
                        return False
                    left.append((self.given[one], self.given[two]))
                continue
            made, again = self.outside.get(one) or self.producer.get(one), self.outside.get(two) or self.other.get(two)
            if made is None or again is None or made.regions or _key(made) != _key(again) or (
                    made.results.index(one) != again.results.index(two)):
                return False
            if one not in self.outside:
                self.known[one] = two
            left += zip(made.operands, again.operands, strict=True)
        return True


def loops_apart(found: RowGraphs) -> RowGraphs:
    """Graphs in which loops and branches that compute with rows give rows, and parts of sums, alone. What has nothing to do with rows is
    computed by copies of them."""
    if not found.loops:
        return found
    first = found.graphs[0]
    used = {value for op in first.ops for value in op.operands}.union(first.results)
    rows, loops = dict(found.rows), dict(found.loops)
    graphs: list[Graph] = []
    for graph in found.graphs:
        made: list[Op] = []
        for op, known in zip(graph.ops, first.ops, strict=True):
            if known not in found.loops:
                made.append(op)
                continue
            sums = found.loops[known].sums
            has_rows = [value in found.rows and found.rows[value] != SUM for value in known.results]
            results = tuple(value if is_row else Value(value.type, value.name) for value, is_row in zip(op.results, has_rows, strict=True))
            shared = {value for index, value in enumerate(op.results)
                      if not has_rows[index] and index not in sums and known.results[index] in used}
            made += [prune(op, shared, Options(), {})] if shared else []
            made.append(replace(op, results=results))
            if op is known:
                loops[made[-1]] = loops.pop(op)
                for old, new in zip(op.results, results, strict=True):
                    if old is not new:
                        rows.pop(old, None)
                        rows[new] = SUM
            made += [Op(op_records.reshape, (results[index],), (op.results[index],), {"shape": op.results[index].type.shape}, loc=op.loc,
                        role=op.role) for index in sorted(sums)]
        graphs.append(graph.with_ops(made))
    return replace(found, graphs=tuple(graphs), rows=rows, loops=loops)


def _places(graph: Graph) -> dict[Value, int]:
    values = (*graph.params, *(value for op in graph.ops for value in op.results))
    return {value: number for number, value in enumerate(values)}


def _find_rows(values: Sequence[Value], sizes: Sequence[int], rows: dict[Value, Rows], loc: Location | None) -> None:
    """Enter the rows of a value that has these types for `sizes` rows."""
    types = [value.type for value in values]
    if len({type.dtype for type in types}) > 1 or len({type.rank for type in types}) > 1:
        raise RowsMixed("an array has another dtype or another number of dimensions for another number of rows", loc)
    for axis, lengths in enumerate(zip(*(type.shape for type in types), strict=True)):
        if len(set(lengths)) == 1:
            continue
        length = lengths[0] // sizes[0]
        if not length or any(extent != length * size for extent, size in zip(lengths, sizes, strict=True)) or values[0] in rows:
            raise RowsMixed(f"the shape of an array, {_shape_text(types[0].shape)} for {sizes[0]} rows, is not that of rows", loc)
        rows[values[0]] = Rows(axis, length)


def _shape_text(shape: Shape) -> str:
    return f"({', '.join(map(str, shape))}{',' * (len(shape) == 1)})"


def _check_attributes(ops: Sequence[Op], sizes: Sequence[int], rows: Mapping[Value, Rows], known: Collection[Expression]
                      ) -> Expression | None:
    """Check that attributes differ as the types do; returns the number that a constant stands for."""
    op = ops[0]
    number = None
    for name, value in op.attrs.items():
        found = [each.attrs.get(name) for each in ops]
        if all(other is value or (type(other) is type(value) and (other == value or (other != other and value != value)))
               for other in found):
            continue
        if name == "shape" and all(each.attrs["shape"] == each.result.type.shape for each in ops):
            continue
        if name == "stop" and op.operands[0] in rows and _stops_with_rows(ops, rows[op.operands[0]].axis):
            continue
        if op.name == "constant" and name == "value":
            number = expression_of(found, sizes, op.result.type.dtype, known)
            if number is not None:
                continue
            raise RowsMixed("a number depends on the number of rows in another way than by arithmetic", op.loc)
        raise RowsMixed(_why_other(op, rows), op.loc)
    return number


def _why_other(op: Op, rows: Mapping[Value, Rows]) -> str:
    given = rows.get(op.operands[0]) if op.operands else None
    if op.name == "slice":
        return "slice takes some rows and leaves others"
    if op.name == "scan":
        return "scan takes the rows one after the other"
    if given is not None and op.attrs.get("axis") == given.axis:
        return f"{op.name} goes along the rows, and computes rows from other rows"
    return f"{op.name} is another one for another number of rows"


def _stops_with_rows(ops: Sequence[Op], axis: int) -> bool:
    """True if slices are whole along an axis, and alike along the others."""
    stops = [each.attrs["stop"] for each in ops]
    return all(each.attrs["stop"][axis] == each.operands[0].type.shape[axis] for each in ops) and (
        len({(*stop[:axis], *stop[axis + 1:]) for stop in stops}) == 1)
