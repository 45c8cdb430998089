"""The units of a program (groups of ops that are to be one kernel, and single ops), in an order that stays right as units are merged.

Two units may become one where no path leads out of the first, through others, into the second. A program of thousands of ops asks this
thousands of times, often about a value of the forward half that the backward half reads, with nearly everything in between. So an
answer looks only at what depends on the first unit, and ends with the first unit from which the deepest operands show a path: a hidden
state leads to its own derivative through all later steps.

The order is repaired where a merge asks for it, as in Pearce and Kelly, "A dynamic topological sort algorithm for directed acyclic
graphs" (2007).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

MAX_VISITS = 1000
"""Units that one answer looks at. Beyond it a path is assumed, which keeps the time linear in the length of the program."""

MAX_LABEL = 32


class UnitOrder:
    """A unit has the number of one of its ops. Units are added one by one; what is added later comes later.

    operands   for each op of the program the ops that make its operands, all with smaller numbers
    owner      for each op the unit that it belongs to
    members    for each unit its ops
    reads      for each unit the ops whose results it reads
    """

    def __init__(self, operands: Sequence[Sequence[int]]):
        self.owner = {op: op for op in range(len(operands))}
        self.members: dict[int, list[int]] = {}
        self.reads: dict[int, list[int]] = {}
        self._readers: dict[int, list[int]] = {}          # units when they were entered; `owner` says what they are now
        self._labels: dict[int, tuple[int, ...]] = {}     # the order; what is put behind a unit gets a label that begins with the unit's
        self._moves = 0
        self._deepest = _DeepestOperands(operands)

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self._labels, key=self._labels.__getitem__))

    def add(self, unit: int, reads: Sequence[int]) -> None:
        """A unit of one op, at the end."""
        self.members[unit] = [unit]
        self.reads[unit] = list(reads)
        self._readers[unit] = []
        self._labels[unit] = (unit,)
        for source in {self.owner[index] for index in reads}:
            self._readers[source].append(unit)

    def producers(self, unit: int) -> list[int]:
        """The units whose results a unit reads, latest first."""
        units = {self.owner[index] for index in self.reads[unit]}
        return sorted(units, key=self._labels.__getitem__, reverse=True) if len(units) > 1 else list(units)

    def comes_before(self, first: int, second: int) -> bool:
        return self._labels[first] < self._labels[second]

    def dependants(self, first: int, second: int, without: int | None = None) -> set[int] | None:
        """The units between `first` and `second` that need `first`; None where `second` needs one of them.

        Ways that lead through the unit `without` do not count.
        """
        owner = self.owner
        if all(owner[reader] in (second, without) for reader in self._readers[first]):     # of many readers, one of the first is another
            return set()
        tree = self._deepest
        sources = tree.places([source for source in self.reads[second] if owner[source] != first])
        if tree.leads_to_one(first, sources) if without is None else self._leads_deeply(first, second, without):
            return None
        end = self._labels[second]
        found: set[int] = set()
        waiting = [first]
        while waiting:
            unit = waiting.pop()
            for reader in self._readers[unit]:
                other = owner[reader]
                if other == second:
                    if unit != first:
                        return None
                elif other not in found and other != without and self._labels[other] < end:
                    if without is None and tree.leads_to_one(other, sources):
                        return None
                    found.add(other)
                    waiting.append(other)
            if len(found) > MAX_VISITS:
                return None
        return found

    def merge(self, earlier: int, later: int, between: set[int], reads: Sequence[int]) -> None:
        """Take `earlier` into `later`, which then reads `reads`; `between`, the units that need the earlier one, move behind."""
        taken = self.members.pop(earlier)
        self.owner.update(dict.fromkeys(taken, later))
        self.members[later] = sorted(taken + self.members[later])
        del self.reads[earlier], self._labels[earlier]
        self.reads[later] = list(reads)
        readers = dict.fromkeys(self.owner[unit] for unit in self._readers.pop(earlier) + self._readers[later])
        readers.pop(later, None)
        self._readers[later] = list(readers)
        if between:
            self._move_behind(later, sorted(between, key=self._labels.__getitem__))

    def _move_behind(self, unit: int, moved: Sequence[int]) -> None:
        self._moves += 1
        label = self._labels[unit]
        self._labels.update((other, (*label, -self._moves, place)) for place, other in enumerate(moved))
        if len(label) > MAX_LABEL:
            self._labels = {other: (place,) for place, other in enumerate(self)}

    def _leads_deeply(self, first: int, second: int, without: int) -> bool:
        """Whether deepest operands show that `second` needs a unit, other than `without`, that needs `first`."""
        leads, owner = self._deepest.leads, self.owner
        known = first, second, without
        return any(leads(first, source) and owner[source] not in known
                   and not any(leads(first, index) and leads(index, source) for index in self.members[without])
                   for source in self.reads[second])


class _DeepestOperands:
    """The tree in which each op hangs on that operand to which the longest way leads. A way in it is one way among others."""

    def __init__(self, operands: Sequence[Sequence[int]]):
        count = len(operands)
        depth, parent, self._size = [0] * count, [-1] * count, [1] * count
        for op, sources in enumerate(operands):
            if sources:
                parent[op] = max(sources, key=depth.__getitem__)
                depth[op] = depth[parent[op]] + 1
        for op in reversed(range(count)):
            if parent[op] >= 0:
                self._size[parent[op]] += self._size[op]
        self._begin = [0] * count          # what hangs on an op, directly or not, are the places from its own on
        free = [0] * count
        roots = 0
        for op in range(count):
            if parent[op] >= 0:
                self._begin[op] = free[parent[op]]
                free[parent[op]] += self._size[op]
            else:
                self._begin[op] = roots
                roots += self._size[op]
            free[op] = self._begin[op] + 1

    def leads(self, first: int, second: int) -> bool:
        """Whether the tree's way to `second` leads through `first`, or they are the same."""
        begin = self._begin[first]
        return begin <= self._begin[second] < begin + self._size[first]

    def places(self, ops: Sequence[int]) -> list[int]:
        """Where the ops are in the tree, for `leads_to_one`."""
        return sorted(map(self._begin.__getitem__, ops))

    def leads_to_one(self, first: int, places: list[int]) -> bool:
        """Whether the tree's way to one of some ops leads through `first`, or `first` is one of them."""
        begin = self._begin[first]
        index = bisect_left(places, begin)
        return index < len(places) and places[index] < begin + self._size[first]
