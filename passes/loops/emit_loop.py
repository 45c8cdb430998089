"""A matched loop as a `scan`: what is carried, what comes in rows and leaves in rows, and the ops around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from adjit.ir import ops
from adjit.ir.emitter import emitting
from adjit.ir.graph import Op, Value
from adjit.ir.types import TensorType
from adjit.passes.loops.match_operands import MOVING, Invariant, Local, Match, Relation, Varying
from adjit.passes.loops.moving_slices import (
    Move,
    as_type,
    can_emit_rows,
    emit_fill,
    emit_numbers,
    emit_read,
    emit_rows,
    emit_starts,
    emit_tables,
    emit_write,
    find_moves,
    is_fill,
    join_axes,
)
from adjit.passes.loops.number_values import NumberedGraph
from adjit.passes.loops.slice_groups import OpenBuilder, SliceGroup, emit_group, find_group, slice_of

REGION_NAME = "python_loop"
"""Name of the bodies of loops that were found."""


class NotALoopError(Exception):
    """Reason why a matched stretch stays as it is."""


class CostsCopyError(NotALoopError):
    """Values that the loop could only read from a copy of all of them."""


class LoopEmitter:
    """Writes the ops that take the place of a matched stretch.

    The constructor raises `NotALoopError` where the stretch has no form as a loop; `run` returns the ops. Values of the stretch that are
    used behind it keep their identity, so that ops behind it stay as they are.
    """

    def __init__(self, numbered: NumberedGraph, match: Match, max_copied_bytes: int):
        self.numbered, self.match, self.stretch = numbered, match, match.stretch
        self.first = int(numbered.first_result[self.stretch.start])
        self.per_trip = int(numbered.first_result[self.stretch.start + self.stretch.period]) - self.first
        self.body = numbered.sequence[self.stretch.start:self.stretch.start + self.stretch.period]
        self.columns = (numbered.first_operand[self.stretch.start:self.stretch.start + self.stretch.period + 1]
                        - numbered.first_operand[self.stretch.start]).tolist()
        self.result_of = (numbered.first_result[self.stretch.start:self.stretch.start + self.stretch.period + 1] - self.first).tolist()
        self.moves: dict[int, tuple[Move, ...]] = {}
        self.moving: dict[int, Op] = {}
        self.groups: dict[tuple[int, ...], SliceGroup] = {}
        self._find_moves()
        self._check_varying(max_copied_bytes)
        self.used_after = self._used_after()
        self.fills = self._find_fills()
        self.outer_made: dict[int, Value] = {}

    # -- what there is

    def relation(self, place: int, operand: int) -> Relation:
        index: int = self.columns[place] + operand
        return self.match.relations[index]

    def _find_moves(self) -> None:
        start, period, trips = self.stretch.start, self.stretch.period, self.stretch.trips
        for place, op in enumerate(self.body):
            if op.name in MOVING and (moves := find_moves(self.numbered.sequence[start + place:start + period * trips:period])):
                if isinstance(self.relation(place, 0), Varying):
                    raise NotALoopError("it takes slices of different arrays")
                self.moving[place], self.moves[place] = join_axes(op, moves)

    def _check_varying(self, max_copied_bytes: int) -> None:
        nbytes = 0
        for numbers in dict.fromkeys(relation.numbers for relation in self.match.relations if isinstance(relation, Varying)):
            if self._are_known(numbers):
                continue
            group = find_group([slice_of(self.numbered.value(number), self.numbered.producer) for number in numbers])
            if group is not None:
                self.groups[numbers] = group
            else:
                nbytes += sum(self.numbered.type(number).nbytes for number in numbers)
        if nbytes > max_copied_bytes:
            raise CostsCopyError(f"its {self.stretch.trips} iterations take different arrays of {nbytes} bytes in all, "
                                 "which would be copied into one")

    def _are_known(self, numbers: Sequence[int]) -> bool:
        """True if all are created: numbers, tables, indices."""
        return all(self.numbered.creation(number) is not None for number in numbers)

    def _used_after(self) -> dict[int, list[int]]:
        """Iterations whose result is used behind the loop, for each such result of an iteration."""
        last = self.numbered.last_use[self.first:self.first + self.per_trip * self.stretch.trips].reshape(self.stretch.trips, -1)
        found: dict[int, list[int]] = {}
        for trip, result in np.argwhere(last >= self.stretch.end).tolist():
            found.setdefault(result, []).append(trip)
        return found

    def _find_fills(self) -> dict[int, int]:
        """Places of writes into an array that nothing reads before the end of the loop, by the number of the write's result."""
        readers: dict[int, list[Local]] = {}
        for relation in self.match.relations:
            if isinstance(relation, Local):
                readers.setdefault(relation.result, []).append(relation)
        found = {}
        for place, op in enumerate(self.body):
            result = self.result_of[place]
            base = self.relation(place, 0) if op.name == "update_slice" else None
            if isinstance(base, Local) and base.result == result and base.delay == 1 and readers[result] == [base] \
                    and self.used_after.get(result, [self.stretch.trips - 1]) == [self.stretch.trips - 1] \
                    and is_fill(self.moving.get(place, op), self.moves.get(place, ())):
                found[result] = place
        return found

    # -- ops around the loop

    def outer(self, number: int) -> Value:
        """Value of a number in front of the loop."""
        creation = self.numbered.creation(number)
        if creation is None:
            return self.numbered.value(number)
        if number not in self.outer_made:
            self.outer_made[number] = creation.definition(**creation.attrs)
        return self.outer_made[number]

    def run(self) -> list[Op]:
        """Ops in front of the loop, the loop, and ops behind it."""
        builder = OpenBuilder(self.numbered.graph.name)
        with emitting(builder), builder.at(self.body[0].loc, self.body[0].role):
            self._emit(builder)
        return builder.ops

    def _emit(self, builder: OpenBuilder) -> None:
        trips, per_trip = self.stretch.trips, self.per_trip
        region = _Body(self)
        last = trips - 1
        chains = self._chains()
        initial: list[Value] = []
        for result, numbers in chains:
            region.add_chain(result, numbers, len(initial))
            initial += [self.outer(number) for number in reversed(numbers)]         # the latest first
        carried = {(result, delay): region.position[result, numbers] + delay - 1
                   for result, numbers in reversed(chains) for delay in range(1, len(numbers) + 1)}
        stacked = []
        for result, found in self.used_after.items():
            if result in self.fills or all((result, trips - trip) in carried for trip in found):
                continue
            if found == [last]:
                carried[result, 1] = len(initial)
                region.carry(result)
                type = self._type_of(result)
                initial.append(ops.constant(value=type.dtype.type(0).item(), dtype=type.dtype, shape=type.shape))
            else:
                stacked.append(result)
        region.start(initial)
        self._add_rows(region)
        rows, finals = region.build(stacked)
        results = [Value(value.type.with_shape((trips, *value.type.shape))) for value in rows]
        after = [self.numbered.results[self.first + (trips - delay) * per_trip + result]
                 if result not in stacked and trips - delay in self.used_after.get(result, ()) else None
                 for result, delay in _by_position(carried, len(initial))]
        results += [Value(value.type) if kept is None else kept for value, kept in zip(finals, after, strict=True)]
        operands = (*initial, *region.rows, *region.captured)
        attrs = {"length": trips, "carries": len(initial), "slices": len(region.rows), "reverse": False, "scratch_bytes": 0}
        graph = region.builder.build((*rows, *finals))
        builder.append(Op(ops.scan, operands, tuple(results), attrs, (graph,), self.body[0].loc, self.body[0].role))
        for result, value in zip(stacked, results, strict=False):
            for trip in self.used_after[result]:
                self._emit_row(builder, value, trip, self.numbered.results[self.first + trip * per_trip + result])
        for (result, place), value in zip(self.fills.items(), results[len(stacked):], strict=False):
            self._emit_fill(builder, place, value, self.numbered.results[self.first + last * per_trip + result])

    def _chains(self) -> list[tuple[int, tuple[int, ...]]]:
        """Results that are carried, with their values before the loop, one for each iteration of delay."""
        found: dict[int, set[tuple[int, ...]]] = {}
        for relation in self.match.relations:
            if isinstance(relation, Local) and relation.delay and relation.result not in self.fills:
                found.setdefault(relation.result, set()).add(relation.initial)
        chains = []
        for result, several in found.items():
            for numbers in sorted(several):
                if not any(len(other) > len(numbers) and other[len(other) - len(numbers):] == numbers for other in several):
                    chains.append((result, numbers))
        return chains

    def _type_of(self, result: int) -> TensorType:
        return self.numbered.results[self.first + result].type

    def _emit_row(self, builder: OpenBuilder, stacked: Value, trip: int, value: Value) -> None:
        shape = value.type.shape
        row = ops.slice(stacked, start=(trip, *(0 for _ in shape)), stop=(trip + 1, *shape), step=(1,) * (1 + len(shape)))
        builder.append(Op(ops.reshape, (row,), (value,), {"shape": shape}, (), self.body[0].loc, self.body[0].role))

    def _emit_fill(self, builder: OpenBuilder, place: int, rows: Value, value: Value) -> None:
        op, base = self.moving[place], self.relation(place, 0)
        assert isinstance(base, Local)
        with builder.at(op.loc, op.role):
            filled = as_type(self.outer(base.initial[0]), op.result.type)
            count, update = rows.type.shape[0], op.operands[1].type
            filled = emit_fill(op, filled, as_type(rows, update.with_shape((count, *update.shape))), self.moves[place][0])
            as_type(filled, value.type)
        made = builder.ops.pop()
        builder.append(made.with_operands(made.operands, (value,)))

    # -- what comes in rows

    def _add_rows(self, region: _Body) -> None:
        for place, op in enumerate(self.body):
            moves = self.moves.get(place, ())
            base = self.relation(place, 0) if moves else None
            moving, trips = self.moving.get(place, op), self.stretch.trips
            if op.name == "slice" and isinstance(base, Invariant) and can_emit_rows(moving, moves, trips):
                rows = emit_rows(moving, as_type(self.outer(base.number), moving.operands[0].type), moves, trips)
                region.add_rows(("slice", place), as_type(rows, rows.type.with_shape((trips, *op.result.type.shape))))
                continue
            if self.result_of[place] not in self.fills:
                for move in moves:
                    region.add_rows((move.starts,), partial(emit_starts, move))
        for relation in self.match.relations:
            if isinstance(relation, Varying):
                region.add_rows(relation.numbers, partial(self._emit_varying, relation.numbers))

    def _emit_varying(self, numbers: tuple[int, ...]) -> Value:
        type = self.numbered.type(numbers[0])
        if self._are_known(numbers):
            made = [op for op in map(self.numbered.creation, numbers) if op is not None]
            if all(op.definition.uniform for op in made):
                return emit_numbers([op.attrs["value"] for op in made], type)
            return emit_tables([op.definition.evaluate(**op.attrs) for op in made])
        if numbers in self.groups:
            group = self.groups[numbers]
            base = self.outer(self.numbered.number(group.op.operands[0]))
            return ops.reshape(emit_group(group, len(numbers), base), shape=(len(numbers), *type.shape))
        return ops.concatenate(*(ops.reshape(self.outer(number), shape=(1, *type.shape)) for number in numbers), axis=0)


def _by_position(carried: dict[tuple[int, int], int], count: int) -> list[tuple[int, int]]:
    """Result and delay of each carry; of the carries that are no one's latest value, a delay of 0, which is used nowhere."""
    found = [(-1, 0)] * count
    for key, position in carried.items():
        found[position] = key
    return found


class _Body:
    """Region of the loop under construction."""

    def __init__(self, loop: LoopEmitter):
        self.loop = loop
        self.builder = OpenBuilder(REGION_NAME)
        self.position: dict[tuple[int, tuple[int, ...]], int] = {}
        self.extra: list[int] = []
        self.carries: list[Value] = []
        self.rows: list[Value] = []
        self.row_at: dict[object, Value] = {}
        self.captured: list[Value] = []
        self.inner: dict[Value, Value] = {}
        self.created: dict[int, Value] = {}

    def add_chain(self, result: int, numbers: tuple[int, ...], position: int) -> None:
        self.position[result, numbers] = position

    def carry(self, result: int) -> None:
        """Carry a result that no iteration reads, for what follows the loop."""
        self.extra.append(result)

    def start(self, initial: Sequence[Value]) -> None:
        self.carries = [self.builder.param(value.type, role="carried") for value in initial]

    def add_rows(self, key: object, rows: Value | Callable[[], Value]) -> None:
        if key not in self.row_at:
            value: Value = rows if isinstance(rows, Value) else rows()
            self.rows.append(value)
            self.row_at[key] = self.builder.param(value.type.with_shape(value.type.shape[1:]))

    def capture(self, value: Value) -> Value:
        if value not in self.inner:
            self.captured.append(value)
            self.inner[value] = self.builder.param(value.type, value.name)
        return self.inner[value]

    def build(self, stacked: Sequence[int]) -> tuple[list[Value], list[Value]]:
        """Write the body; returns its rows and what it carries on."""
        loop, made = self.loop, dict[int, Value]()
        filled: dict[int, Value] = {}
        with emitting(self.builder):
            for place, op in enumerate(loop.body):
                with self.builder.at(op.loc, op.role):
                    if loop.result_of[place] in loop.fills:
                        filled[loop.result_of[place]] = self._operand(place, 1, made)
                        continue
                    for number, value in enumerate(self._run(place, op, made)):
                        made[loop.result_of[place] + number] = value
        rows = [*(made[result] for result in stacked), *(filled[result] for result in loop.fills)]
        finals = []
        for (result, numbers), position in self.position.items():
            finals += [made[result], *self.carries[position:position + len(numbers) - 1]]
        return rows, [*finals, *(made[result] for result in self.extra)]

    def _run(self, place: int, op: Op, made: dict[int, Value]) -> Sequence[Value]:
        moves = self.loop.moves.get(place, ())
        if ("slice", place) in self.row_at:
            return [self.row_at["slice", place]]
        if moves:
            starts = [self.row_at[(move.starts,)] for move in moves]
            moving = self.loop.moving[place]
            given = [as_type(self._operand(place, index, made), value.type) for index, value in enumerate(moving.operands)]
            if op.name == "slice":
                return [as_type(emit_read(moving, given[0], moves, starts), op.result.type)]
            return [as_type(emit_write(moving, given[0], given[1], moves, starts), op.result.type)]
        operands = tuple(self._operand(place, index, made) for index in range(len(op.operands)))
        results = tuple(Value(value.type, value.name) for value in op.results)
        self.builder.append(Op(op.definition, operands, results, op.attrs, op.regions, op.loc, op.role))
        return results

    def _operand(self, place: int, index: int, made: dict[int, Value]) -> Value:
        loop, relation = self.loop, self.loop.relation(place, index)
        if isinstance(relation, Varying):
            row, type = self.row_at[relation.numbers], loop.numbered.type(relation.numbers[0])
            return row if row.type == type else ops.broadcast(row, shape=type.shape, axes=())
        if isinstance(relation, Local):
            if not relation.delay:
                return made[relation.result]
            for (result, numbers), position in self.position.items():
                if result == relation.result and numbers[len(numbers) - len(relation.initial):] == relation.initial \
                        and len(numbers) >= relation.delay:
                    return self.carries[position + relation.delay - 1]
            raise AssertionError("a carried value has no place")
        creation = loop.numbered.creation(relation.number)
        if creation is None:
            return self.capture(loop.numbered.value(relation.number))
        if relation.number not in self.created:
            self.created[relation.number] = creation.definition(**creation.attrs)
        return self.created[relation.number]

