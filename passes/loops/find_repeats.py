"""Repeated stretches of a sequence of letters: periods, and the place in a period where an iteration begins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from adjit.ir.dataclass import dataclass
from adjit.passes.loops.number_values import NumberedGraph

SKIPS = (1, 2, 3, 4, 6, 8)
"""A letter that occurs this often in a period is as far from its next but so many as the period is long."""

RAREST = 8
"""Letters, of those that occur often enough, that are looked at for longer skips: the rarest. A step over ten bodies has a line for each of
them ten times, and one for each of their pairs ninety times."""

MAX_SKIP = 128
"""Longest of these skips."""

MAX_DELAY = 8
"""Iterations that a value may be carried before it is read."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """`trips` repetitions of `period` ops each, from op `start` of a sequence on."""

    start: int
    period: int
    trips: int

    @property
    def end(self) -> int:
        return self.start + self.period * self.trips

    def overlaps(self, other: Stretch) -> bool:
        return self.start < other.end and other.start < self.end


def find_repeats(letters: np.ndarray, sizes: np.ndarray, min_trips: int, min_ops: int) -> Iterator[tuple[int, int, int]]:
    """Yield (period, start, end) of stretches with `letters[i] == letters[i + period]` of at least `min_trips` periods and `min_ops` ops,
    short periods first: inner loops come before outer ones. `sizes` has the number of ops before each letter.

    >>> list(find_repeats(np.array([7, 1, 2, 1, 2, 1, 2, 1, 9]), np.arange(10), 3, 6))
    [(2, 1, 8)]
    """
    for period in _distances(letters, min_trips):
        if period * min_trips > len(letters):
            return
        equal = np.concatenate([[False], letters[period:] == letters[:-period], [False]])
        edges = np.flatnonzero(equal[1:] != equal[:-1])
        for begin, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            if end - begin >= (min_trips - 1) * period and sizes[end + period] - sizes[begin] >= min_ops:
                yield period, begin, end + period


def _distances(letters: np.ndarray, min_trips: int) -> list[int]:
    """Distances between equal letters that occur often enough to be periods."""
    order = np.argsort(letters, kind="stable")
    bounds = np.flatnonzero(np.diff(letters[order])) + 1
    groups = [order[begin:end] for begin, end in zip([0, *bounds.tolist()], [*bounds.tolist(), len(letters)], strict=True)
              if end - begin >= min_trips]
    counts: Counter[int] = Counter()
    for group in groups:
        for skip in SKIPS:
            if len(group) < skip * 2:
                break
            found, often = np.unique(group[skip:] - group[:-skip], return_counts=True)
            counts.update(dict(zip(found.tolist(), often.tolist(), strict=True)))
    distances = {distance for distance, often in counts.items() if often >= min_trips - 1}
    for group in sorted(groups, key=len)[:RAREST]:
        if any(_is_even(group, skip, min_trips) for skip in SKIPS if skip * 2 <= len(group)):
            continue        # longer periods are multiples of this one
        for skip in range(SKIPS[0] + 1, min(MAX_SKIP, len(group) // min_trips) + 1):
            if skip not in SKIPS:
                found, often = np.unique(group[skip:] - group[:-skip], return_counts=True)
                distances.update(found[often >= (min_trips - 1) * skip].tolist())
    return sorted(distances)


def _is_even(places: np.ndarray, skip: int, min_trips: int) -> bool:
    """True if places are as far from the next but so many, but for fewer than an outer loop would need."""
    distances = places[skip:] - places[:-skip]
    return bool(np.count_nonzero(distances != distances[len(distances) // 2]) < min_trips - 1)


def rotate(numbered: NumberedGraph, period: int, begin: int, end: int) -> int:
    """Op at which the repetitions of a stretch begin best: where the fewest bytes are handed on from one repetition to the next, looked at
    in the midst of the stretch; of such ops, one that leaves most repetitions, and fewest ops behind the last of them."""
    trips = (end - begin) // period
    free = (end - begin) % period if trips < 2 * MAX_DELAY else period - 1
    middle = begin + trips // 2 * period
    first, per_trip = int(numbered.first_result[middle]), int(numbered.first_result[middle + period] - numbered.first_result[middle])
    delays = min(MAX_DELAY, (end - middle) // period - 1)
    last = dict[int, int]()         # latest op that reads each result of the repetition in the midst
    for op in range(middle, middle + period * (delays + 1)):
        for number in numbered.operands[numbered.first_operand[op]:numbered.first_operand[op + 1]].tolist():
            if first <= number < first + per_trip:
                last[number] = op
    cost = np.zeros(period, np.int64)       # bytes that live across the place in front of each op of a repetition
    for number, use in last.items():
        made = numbered.maker(number) - middle
        nbytes = 8 + numbered.type(number).nbytes
        rounds, left = divmod(use - middle - made, period)
        cost += rounds * nbytes
        places = np.arange(made + 1, made + 1 + left) % period
        cost[places] += nbytes
    best = np.flatnonzero(cost[:free + 1] == cost[:free + 1].min())
    length = end - begin - best
    return begin + int(best[np.lexsort((length % period, -(length // period)))[0]])
