"""Relation of the operands at the same place of all repetitions of a stretch: whether the repetitions are iterations of one loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from adjit.ir.dataclass import dataclass
from adjit.ir.graph import Graph, Op, attributes_key, graph_key
from adjit.passes.loops.find_repeats import MAX_DELAY, Stretch
from adjit.passes.loops.number_values import NumberedGraph

MOVING: dict[str, tuple[str, ...]] = {"slice": ("start", "stop"), "update_slice": ("start",)}
"""Ops with attributes that may differ from one iteration to the next: an index that counts."""

MAX_PEELED = 2
"""Repetitions that stay in front of a loop, where they differ from the others."""

MAX_ATTEMPTS = 8
"""Places of a stretch at which a loop is looked for before the rest of it is left."""


@dataclass(frozen=True, slots=True)
class Invariant:
    """Operand that is the same value in every iteration."""

    number: int


@dataclass(frozen=True, slots=True)
class Local:
    """Operand that the iteration `delay` iterations before made, as result `result` of its results; before the loop, `initial`."""

    result: int
    delay: int
    initial: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Varying:
    """Operand that is another value in each iteration, all made before the loop."""

    numbers: tuple[int, ...]


Relation = Invariant | Local | Varying


@dataclass(frozen=True, slots=True)
class Match:
    """A stretch that is a loop, and the relation of each operand of an iteration, in order."""

    stretch: Stretch
    relations: tuple[Relation, ...]


class Regions:
    """Equality of regions, whatever their locations and names; a region is looked at once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Graph, int]] = {}
        self._numbers: dict[object, int] = {}

    def are_equal(self, one: Graph, other: Graph) -> bool:
        return one is other or one.ops is other.ops or self._number(one) == self._number(other)

    def _number(self, region: Graph) -> int:
        found = self._known.get(id(region))
        if found is None:
            found = self._known[id(region)] = region, self._numbers.setdefault(graph_key(region), len(self._numbers))
        return found[1]


def match_iterations(numbered: NumberedGraph, stretch: Stretch, min_trips: int, regions: Regions,
                     on_refusal: Callable[[str], None]) -> Iterator[Match]:
    """Yield the loops of a stretch: runs of at least `min_trips` repetitions whose operands have one relation each."""
    ends = sorted({*_differences(numbered, stretch, regions), *_changes_of_arrays(numbered, stretch, min_trips), stretch.trips})
    begin = attempts = 0
    while stretch.trips - begin >= min_trips:
        found, reach = None, begin
        for start in range(begin, min(begin + MAX_PEELED + 1, stretch.trips)):
            end = _end_of_loop(numbered, stretch, start, next(end for end in ends if end > start))
            reach = max(reach, end)
            if end - start >= min_trips and (found is None or end - start > found[1] - found[0]):
                found = start, end
        if found is None:
            attempts += 1
            if attempts == MAX_ATTEMPTS:
                break
            begin = max(reach, begin + 1)
            continue
        start, end = found
        inner = Stretch(stretch.start + start * stretch.period, stretch.period, end - start)
        relations = _relations(numbered, inner)
        limit = _limit_of_types(numbered, relations, inner.trips)
        if limit < inner.trips:
            ends = sorted({*ends, start + limit})
            if limit < min_trips:
                begin = start + limit
            continue
        yield Match(inner, relations)
        begin = end
    if attempts:
        on_refusal("its iterations take operands that are made at changing distances")


def _differences(numbered: NumberedGraph, stretch: Stretch, regions: Regions) -> list[int]:
    """Repetitions with an op that is not the op at the same place of the repetition before: other attributes, or other regions."""
    sequence, period = numbered.sequence, stretch.period
    found = set[int]()
    for index in range(stretch.start + period, stretch.end):
        op, before = sequence[index], sequence[index - period]
        if not (op.attrs is before.attrs or _same_attributes(op, before)) \
                or (op.regions and not all(map(regions.are_equal, op.regions, before.regions))) or op.role is not before.role:
            found.add((index - stretch.start) // period)
    return sorted(found)


def _changes_of_arrays(numbered: NumberedGraph, stretch: Stretch, min_trips: int) -> list[int]:
    """Repetitions from which an operand is another array than before, if it changes so seldom that each is the operand of a loop."""
    operands, first, _ = _operands(numbered, stretch)
    changes = operands[1:] != operands[:-1]
    seldom = (operands < first).all(axis=0) & changes.any(axis=0) & (changes.sum(axis=0) * min_trips <= stretch.trips)
    found = set[int]()
    for column in np.flatnonzero(seldom).tolist():
        if any(numbered.creation(number) is None for number in np.unique(operands[:, column]).tolist()):
            found.update((np.flatnonzero(changes[:, column]) + 1).tolist())
    return sorted(found)


def _same_attributes(op: Op, other: Op) -> bool:
    if op.attrs != other.attrs:
        moving = MOVING.get(op.name)
        return moving is not None and all(value == other.attrs[name] for name, value in op.attrs.items() if name not in moving)
    return "value" not in op.attrs or attributes_key(op.attrs) == attributes_key(other.attrs)      # 0.0 == -0.0


def _end_of_loop(numbered: NumberedGraph, stretch: Stretch, start: int, limit: int) -> int:
    """Repetition before `limit` at which a loop that begins at repetition `start` ends, as an operand breaks its relation."""
    rows = 16
    while True:
        stop = min(limit, start + rows)
        end = _first_break(numbered, Stretch(stretch.start + start * stretch.period, stretch.period, stop - start)) + start
        if end < stop or stop == limit:
            return end
        rows *= 8


def _operands(numbered: NumberedGraph, stretch: Stretch) -> tuple[np.ndarray, int, int]:
    """Numbers of the operands, a row for each repetition; number of the first result, and of results of a repetition."""
    begin, end = numbered.first_operand[stretch.start], numbered.first_operand[stretch.end]
    first, last = int(numbered.first_result[stretch.start]), int(numbered.first_result[stretch.end])
    return numbered.operands[begin:end].reshape(stretch.trips, -1), first, (last - first) // stretch.trips


def _first_break(numbered: NumberedGraph, stretch: Stretch) -> int:
    """First repetition in which an operand breaks the relation that it has before; the number of repetitions if there is none.

    Operands that the loop does not make may be any. Those that it makes are made as many iterations before, at the same place; in the
    first `delay` iterations, they are made before the loop.
    """
    operands, first, per_trip = _operands(numbered, stretch)
    if not per_trip:
        return stretch.trips
    within = operands >= first
    columns = np.flatnonzero(within.any(axis=0))
    if not len(columns):
        return stretch.trips
    within, operands = within[:, columns], operands[:, columns]
    rows = np.arange(stretch.trips)[:, None]
    distance = rows * per_trip + first + per_trip - 1 - operands       # the same for all iterations of a loop
    begin = np.argmax(within, axis=0)
    wanted = distance[begin, np.arange(len(columns))]
    delay = wanted // per_trip
    good = np.where(within, distance == wanted, rows < begin)
    good &= (rows < begin) | ((begin == delay) & (delay <= MAX_DELAY))
    good &= (rows < begin) | _has_type_of_initial(numbered, operands, begin, delay)
    broken = ~good.all(axis=1)
    return int(np.argmax(broken)) if broken.any() else stretch.trips


def _has_type_of_initial(numbered: NumberedGraph, operands: np.ndarray, begin: np.ndarray, delay: np.ndarray) -> np.ndarray:
    """For each column, whether the values before the loop have the type of those that it carries."""
    found = np.ones(len(begin), bool)
    for column in np.flatnonzero((begin > 0) & (begin == delay)).tolist():
        rows = int(begin[column])
        type = numbered.type(int(operands[rows, column]))
        found[column] = all(numbered.type(number) == type for number in operands[:rows, column].tolist())
    return found


def _relations(numbered: NumberedGraph, stretch: Stretch) -> tuple[Relation, ...]:
    operands, first, per_trip = _operands(numbered, stretch)
    last, same = operands[-1], (operands == operands[0]).all(axis=0)
    found: list[Relation] = []
    for column in range(operands.shape[1]):
        number = int(last[column])
        if number >= first:
            trip, result = divmod(number - first, per_trip)
            delay = stretch.trips - 1 - trip
            found.append(Local(result, delay, tuple(operands[:delay, column].tolist())))
        elif same[column]:
            found.append(Invariant(number))
        else:
            found.append(Varying(tuple(operands[:, column].tolist())))
    return tuple(found)


def _limit_of_types(numbered: NumberedGraph, relations: tuple[Relation, ...], trips: int) -> int:
    """Iterations until the type of a varying operand changes."""
    limit = trips
    for relation in relations:
        if isinstance(relation, Varying):
            type = numbered.type(relation.numbers[0])
            limit = next((index for index in range(1, limit) if numbered.type(relation.numbers[index]) != type), limit)
    return limit
