"""Places blocks of known size and lifetime in one arena, so that blocks alive at the same time do not overlap.

Finding the smallest arena is NP-hard (dynamic storage allocation), unless all blocks have one size: then each block, in order of time,
takes the lowest free slot, and the arena is as small as the peak of live blocks. Otherwise two heuristics are tried, and the smaller arena
is taken. One is "greedy by size" of Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference" (2020), also known from
TensorFlow Lite: it places large blocks first, each in the tightest gap. The other is first fit in the order of time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

import numpy as np

from adjit.ir.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Block:
    """Memory block of `size` bytes that is in use from op `first` to op `last`, both included."""

    size: int
    first: int
    last: int


def pack(blocks: Sequence[Block]) -> tuple[list[int], int]:
    """Offset of each block, and the size of the arena.

    >>> pack([Block(64, 0, 1), Block(128, 1, 2), Block(64, 2, 3)])
    ([128, 0, 128], 192)
    """
    numbers = range(len(blocks))
    if len({block.size for block in blocks}) == 1:
        return _place_equal(blocks)
    bound = peak(blocks)
    large_first = sorted(numbers, key=lambda i: (-blocks[i].size, blocks[i].first - blocks[i].last, i))
    long_first = sorted(numbers, key=lambda i: (blocks[i].first - blocks[i].last, -blocks[i].size, i))
    early_first = sorted(numbers, key=lambda i: (blocks[i].first, -blocks[i].last, i))
    best: tuple[list[int], int] | None = None
    for order, tight in ((large_first, True), (early_first, False), (long_first, True)):
        found = _place(blocks, order, tight)
        if best is None or found[1] < best[1]:
            best = found
        if best[1] <= bound:
            break
    assert best is not None
    return best


def peak(blocks: Iterable[Block]) -> int:
    """Most bytes in use at one time: no arena can be smaller."""
    changes: dict[int, int] = {}
    for block in blocks:
        changes[block.first] = changes.get(block.first, 0) + block.size
        changes[block.last + 1] = changes.get(block.last + 1, 0) - block.size
    live = most = 0
    for index in sorted(changes):
        live += changes[index]
        most = max(most, live)
    return most


def _place_equal(blocks: Sequence[Block]) -> tuple[list[int], int]:
    """Place blocks of one size."""
    slots = [0] * len(blocks)
    taken: list[tuple[int, int]] = []       # slots in use, by the last op that uses them
    free: list[int] = []
    for number in sorted(range(len(blocks)), key=lambda i: blocks[i].first):
        while taken and taken[0][0] < blocks[number].first:
            heappush(free, heappop(taken)[1])
        slots[number] = heappop(free) if free else len(taken)
        heappush(taken, (blocks[number].last, slots[number]))
    size = blocks[0].size
    return [slot * size for slot in slots], (max(slots) + 1) * size


def _place(blocks: Sequence[Block], order: Sequence[int], tight: bool) -> tuple[list[int], int]:
    """Place blocks in `order`, each in the tightest (else the lowest) gap between the placed blocks that are in use at the same time. A
    block for which no gap is wide enough goes above them.
    """
    offsets = [0] * len(blocks)
    lowest_first = np.zeros((4, len(blocks) + 1), np.int64)
    first, last, begin, end = lowest_first
    floor = np.zeros(len(blocks) + 1, np.int64)
    for placed, number in enumerate(order):
        block = blocks[number]
        overlapping = ((first[:placed] <= block.last) & (last[:placed] >= block.first)).nonzero()[0]
        count = len(overlapping)
        np.maximum.accumulate(end[overlapping], out=floor[1:count + 1])
        gaps = begin[overlapping] - floor[:count]
        fits = (gaps >= block.size).nonzero()[0]
        gap = count if not len(fits) else fits[gaps[fits].argmin()] if tight else fits[0]
        offset = int(floor[gap])
        offsets[number] = offset
        slot = int(begin[:placed].searchsorted(offset, "right"))
        lowest_first[:, slot + 1:placed + 1] = lowest_first[:, slot:placed]
        lowest_first[:, slot] = block.first, block.last, offset, offset + block.size
    return offsets, int(end.max(initial=0))
