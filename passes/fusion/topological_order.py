"""Topological order of units (groups of ops that become one kernel, and single ops) that stays valid as units are merged.

Two units may be merged if no path leads out of the first, through others, into the second. A program of thousands of ops asks this
thousands of times, often about a value of the forward half that the backward half reads, with nearly everything in between. So a query
visits only units that depend on the first unit, and stops at the first visited unit from which the tree of deepest operands proves a path:
a hidden state leads to its own derivative through all later steps.

The order is repaired when a merge violates it, as in Pearce and Kelly, "A dynamic topological sort algorithm for directed acyclic graphs"
(2007).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

MAX_VISITS = 1000
"""Most units that one query visits. Beyond it a path is assumed, which makes the total time linear in the length of the program."""

MAX_LABEL_LENGTH = 32


class TopologicalOrder:
    """Order of units. A unit has the number of one of its ops. Units are added one by one; a later unit comes later in the order.

    operands   for each op of the program the ops that make its operands, all with smaller numbers
    owner      for each op the unit that it belongs to
    members    for each unit its ops
    reads      for each unit the ops whose results it reads
    """

    def __init__(self, operands: Sequence[Sequence[int]]):
        self.owner = {op: op for op in range(len(operands))}
        self.members: dict[int, list[int]] = {}
        self.reads: dict[int, list[int]] = {}
        self._readers: dict[int, list[int]] = {}          # units as they were when added; `owner` gives their current units
        self._labels: dict[int, tuple[int, ...]] = {}     # sort keys; a unit that moves behind another one gets that unit's label as prefix
        self._moves = 0
        self._deepest = _DeepestOperandTree(operands)

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self._labels, key=self._labels.__getitem__))

    def add(self, node: int, reads: Sequence[int]) -> None:
        """Add a unit of one op at the end."""
        self.members[node] = [node]
        self.reads[node] = list(reads)
        self._readers[node] = []
        self._labels[node] = (node,)
        for source in {self.owner[index] for index in reads}:
            self._readers[source].append(node)

    def producers(self, node: int) -> list[int]:
        """Units whose results a unit reads, latest first."""
        nodes = {self.owner[index] for index in self.reads[node]}
        return sorted(nodes, key=self._labels.__getitem__, reverse=True) if len(nodes) > 1 else list(nodes)

    def comes_before(self, first: int, second: int) -> bool:
        return self._labels[first] < self._labels[second]

    def dependents(self, first: int, second: int, excluding: int | None = None) -> set[int] | None:
        """Units between `first` and `second` that need `first`; None if `second` needs one of them.

        Paths through the unit `excluding` do not count.
        """
        owner = self.owner
        # `all` ends early: with many readers, one of the first is a third unit
        if all(owner[reader] in (second, excluding) for reader in self._readers[first]):
            return set()
        tree = self._deepest
        sources = tree.positions([source for source in self.reads[second] if owner[source] != first])
        if tree.is_ancestor_of_any(first, sources) if excluding is None else self._has_path_avoiding(first, second, excluding):
            return None
        labels, readers = self._labels, self._readers
        end = labels[second]
        found: set[int] = set()
        waiting = [first]
        while waiting:
            node = waiting.pop()
            for reader in readers[node]:
                other = owner[reader]
                if other == second:
                    if node != first:
                        return None
                elif other not in found and other != excluding and labels[other] < end:
                    if excluding is None and tree.is_ancestor_of_any(other, sources):
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
        readers = dict.fromkeys(self.owner[node] for node in self._readers.pop(earlier) + self._readers[later])
        readers.pop(later, None)
        self._readers[later] = list(readers)
        if between:
            self._move_behind(later, sorted(between, key=self._labels.__getitem__))

    def _move_behind(self, node: int, moved: Sequence[int]) -> None:
        self._moves += 1
        label = self._labels[node]
        self._labels.update((other, (*label, -self._moves, position)) for position, other in enumerate(moved))
        if len(label) > MAX_LABEL_LENGTH:
            self._labels = {other: (position,) for position, other in enumerate(self)}

    def _has_path_avoiding(self, first: int, second: int, excluding: int) -> bool:
        """True if the tree of deepest operands proves that `second` needs a unit, other than `excluding`, that needs `first`."""
        is_ancestor, owner = self._deepest.is_ancestor, self.owner
        known = first, second, excluding
        return any(is_ancestor(first, source) and owner[source] not in known
                   and not any(is_ancestor(first, index) and is_ancestor(index, source) for index in self.members[excluding])
                   for source in self.reads[second])


class _DeepestOperandTree:
    """Spanning tree of the dataflow graph: an op's parent is its deepest operand. An ancestor in the tree proves a dependency; absence
    proves nothing."""

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
        self._begin = [0] * count          # preorder number; an op's descendants have the numbers that follow it
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

    def is_ancestor(self, first: int, second: int) -> bool:
        """True if `first` is an ancestor of `second`, or the same op."""
        begin = self._begin[first]
        return begin <= self._begin[second] < begin + self._size[first]

    def positions(self, ops: Sequence[int]) -> list[int]:
        """Sorted preorder numbers of the ops, for `is_ancestor_of_any`."""
        return sorted(map(self._begin.__getitem__, ops))

    def is_ancestor_of_any(self, first: int, positions: list[int]) -> bool:
        """True if `first` is an ancestor of one of the ops at `positions`, or one of them."""
        begin = self._begin[first]
        end = begin + self._size[first]
        if not positions or end <= positions[0] or positions[-1] < begin:
            return False
        return positions[bisect_left(positions, begin)] < end
