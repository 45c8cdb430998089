"""Index arithmetic of kernels with one thread an element: digits of its number, in 32 bits where they suffice."""

from __future__ import annotations

import math
from collections.abc import Sequence

from adjit.codegen.cuda.target import FLAT_THREADS
from adjit.codegen.cuda.text import KernelText


def element_number(text: KernelText) -> str:
    """The number of the thread among all threads of the launch."""
    return str(text.plus(text.times(text.block_number(), FLAT_THREADS), text.thread()))


def offsets_of(text: KernelText, number: str, sizes: Sequence[int], strides: Sequence[Sequence[int]]) -> list[str | int]:
    """The offset of element `number` of an array with these sizes, for each set of strides."""
    short = math.prod(sizes) < 1 << 31
    type = "i32" if short else "i64"
    left = text.convert("trunc", "i64", number, "i32") if short else number
    totals: list[str | int] = [0] * len(strides)
    for axis in range(len(sizes) - 1, -1, -1):
        digit = left if axis == 0 else text.let(f"urem {type} {left}, {sizes[axis]}")
        if axis:
            left = text.let(f"udiv {type} {left}, {sizes[axis]}")
        if all(not each[axis] for each in strides):
            continue
        wide = text.convert("zext", "i32", digit, "i64") if short else digit
        for place, each in enumerate(strides):
            if each[axis]:
                totals[place] = text.plus(totals[place], text.times(wide, each[axis]))
    return totals
