"""Arrays of objects outside that a call reads, and binds anew: `self.mean = 0.9 * self.mean + x`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from operator import is_
from typing import Any

import numpy as np

from adjit.tracer.array import WRITTEN, TracedNDArray
from adjit.tracer.array_checks import is_ndarray
from adjit.tracer.fresh_array import KnownArrays
from adjit.tracer.guards.array_access import AccessLog
from adjit.tracer.guards.bytecode import EVERYTHING
from adjit.tracer.guards.reachability import Reachability
from adjit.tracer.guards.source import Source
from adjit.tracer.guards.state_numbers import StateNumbers, is_number
from adjit.tracer.guards.state_trees import StateTrees, is_tree
from adjit.tracer.scope import Scope


class StateArrays:
    """The arrays that one call of a trace leaves for the next one. Where the array that was there is an input of the program, and the new
    one is of the same type, the next call passes that. `wanted` are those that Python read during the trace, too, or that only a view was
    used of: they are inputs if the function is traced again."""

    def __init__(self, scope: Scope, observation: AccessLog, arrays: KnownArrays, after: Reachability, numbers: StateNumbers,
                 trees: StateTrees):
        self._scope, self._observation, self._may_take, self._numbers, self._trees = scope, observation, arrays.may_take, numbers, trees
        self._read_anyway = after.calls_libraries or EVERYTHING in after.stored
        self._reads_memory = after.reads_memory
        self.wanted: list[np.ndarray] = []

    def is_next(self, source: Source, then: Any, of_tree: bool = False) -> bool:
        """True if the value in a place is for the next call what `then`, which was there, is for this one; `of_tree`: in a container that
        the function bound anew, where an array may have moved that this trace has no input for."""
        if is_tree(then):
            return self._trees.is_next(source, then, partial(self.is_next, of_tree=True))
        if is_number(then):
            return self._numbers.is_next(source, then, of_tree)
        now = source.value
        array = WRITTEN[id(now)][1] if id(now) in WRITTEN else now
        if not is_ndarray(then) or then.base is not None or self._has_views(then):
            return False
        if isinstance(array, TracedNDArray):
            if array.scope is not self._scope:
                return False
        elif not is_ndarray(array):
            return False
        moves = id(array) in self._scope.outside() and not isinstance(array, TracedNDArray) and not self._is_input(array)
        if (moves and not (of_tree and self._may_take)) or (array.shape, array.dtype) != (then.shape, then.dtype):
            return False        # but for one that Python made of arrays from outside, and an input that changes its place
        if moves:
            self._want(array)
        if self._is_input(then):
            return True
        if self._may_take:
            self._want(then)
        return self._may_take

    def _want(self, array: Any) -> None:
        if not any(array is other for other in self.wanted):
            self.wanted.append(array)

    def _has_views(self, array: np.ndarray) -> bool:
        """True if the function used a view from outside of an array's memory, which stays on that memory when the array is bound anew."""
        if id(array) in self._scope.viewed_outside:
            return True
        viewed = (self._observation.kinds[identity][0] for identity in self._observation.viewed & self._observation.kinds.keys())
        used = (*(captured.array for captured in self._scope.captures.values()), *self._scope.same_views.values(), *viewed)
        plain, outside = np.ndarray.view(array, np.ndarray), self._scope.outside()      # another trace makes views of its own by an op
        return any(view is not array and id(view) in outside and np.may_share_memory(np.ndarray.view(view, np.ndarray), plain)
                   for view in used)

    def _is_input(self, array: np.ndarray) -> bool:
        if id(array) in self._scope.taken:
            return not self._reads_memory
        read = self._read_anyway or id(array) in self._observation.read or id(array) in self._observation.viewed
        return id(array) in self._scope.captures and not read


def shared_arrays(sources: Iterable[Source], may_store: Callable[[Source], bool], moved: Collection[int]) -> Iterator[Source]:
    """Guards of arrays that several places hold, where the function may store in one of them, or what it stores elsewhere is such an array,
    by identity among `moved`: that they hold one array still. While they do, a trace of `previous = current; current = new` cannot tell the
    places apart, nor that the first store changed anything."""
    places: dict[int, list[Source]] = {}
    for source in sources:
        if is_ndarray(source.value):
            places.setdefault(id(source.value), []).append(source)
    for identity, held in places.items():
        if len(held) > 1 and (identity in moved or any(map(may_store, held))):
            reads = tuple(source.read for source in held)
            yield Source(" is ".join(source.path for source in held), partial(_hold_one, reads), True, held[0].holder, False)


def _hold_one(reads: tuple[Callable[[], Any], ...]) -> bool:
    first = reads[0]()
    return all(is_(read(), first) for read in reads[1:])
