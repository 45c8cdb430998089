"""Iterator of a traced array, whose place a loop that is traced can read: `for row in x`."""

from __future__ import annotations

from operator import length_hint
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adjit.tracer.array import TracedArray


class RowIterator:
    """Iterator over the first axis of an array. `numbers` gives the places; `length` is how many there were."""

    __slots__ = ("array", "length", "numbers")

    def __init__(self, array: TracedArray):
        self.array, self.length = array, array.shape[0]
        self.numbers = iter(range(self.length))

    def __iter__(self) -> RowIterator:
        return self

    def __next__(self) -> TracedArray:
        return self.array[next(self.numbers)]

    def __length_hint__(self) -> int:
        return length_hint(self.numbers)
