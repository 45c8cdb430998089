"""What places, containers and arrays outside of a function hold before a trace that may end half way: nothing of it is left behind."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterable
from typing import Any

import numpy as np

from adjit.tracer.guards.source import Source, rebind

Written = dict[int, tuple[np.ndarray, np.ndarray]]
"""Arrays that were written to, by identity, each with its elements before."""

_KINDS = (list, deque, dict, set, defaultdict, OrderedDict, Counter)


class Snapshot:
    """The objects that `sources` and containers among them hold now, and the elements of arrays in `written`, which traces fill."""

    def __init__(self, sources: Iterable[Source]):
        self.written: Written = {}
        self._places = [(source, source.held) for source in sources]
        self._containers = {id(source.value): (source.value, source.value.copy()) for source, _ in self._places
                            if type(source.value) in _KINDS}

    def restore(self) -> None:
        """Bind again what was there, where something else is there now."""
        for container, content in self._containers.values():
            if not _same(container, content):
                container.clear()
                container.extend(content) if isinstance(container, (list, deque)) else container.update(content)
        for source, held in self._places:
            if source.is_bound() and _read(source) is not held:
                rebind(source.read, held)
        self.restore_arrays()

    def restore_arrays(self) -> None:
        """Give the arrays that were written to what they held before."""
        restore_written(self.written)


def restore_written(written: Written) -> None:
    """Give arrays that were written to what they held before, once."""
    for array, content in written.values():
        np.ndarray.view(array, np.ndarray)[...] = content
    written.clear()


def _same(container: Any, content: Any) -> bool:
    if isinstance(container, dict):
        return [*map(id, container)] == [*map(id, content)] and [*map(id, container.values())] == [*map(id, content.values())]
    return [*map(id, container)] == [*map(id, content)]


def _read(source: Source) -> Any:
    try:
        return source.read()
    except Exception:       # it is gone
        return source
