"""Index arithmetic of vectors: the elements of a value for each lane, from digits of positions, as numbers or vectors of indices."""

from __future__ import annotations

from collections.abc import Sequence

from adjit.codegen.native.kernels.builder import Index, KernelBuilder
from adjit.ir.dataclass import dataclass

Term = tuple[int, int, int]
"""A digit of a position and its weight in an index: size, stride, weight. The digit is `(position // stride) % size`."""


def weighted(parts: Sequence[tuple[int, int]]) -> list[Term]:
    """The digits of an index map as terms of the index.

    >>> weighted([(2, 12), (4, 1)])
    [(2, 12, 4), (4, 1, 1)]
    """
    terms: list[Term] = []
    weight = 1
    for size, stride in reversed(parts):
        terms.insert(0, (size, stride, weight))
        weight *= size
    return terms


@dataclass(frozen=True, slots=True)
class Axis:
    """The axis along which vectors run: `whole` positions. `aligned`: vectors start at multiples of the number of lanes."""

    whole: int
    aligned: bool = True

    def is_run(self, terms: Sequence[Term], lanes: int) -> bool:
        """True if the lanes of a vector are consecutive elements."""
        if not terms or not self.aligned:
            return False
        size, stride, weight = terms[-1]
        return (stride == weight == 1 and (size == self.whole or size % lanes == 0)
                and all(other % lanes == 0 for _, other, _ in terms[:-1]))

    def is_one(self, terms: Sequence[Term], lanes: int) -> bool:
        """True if all lanes of a vector are the same element."""
        return self.aligned and all(stride % lanes == 0 for _, stride, _ in terms)


def lane_pattern(text: KernelBuilder, counter: Index, offset: int, count: int, terms: Sequence[Term], whole: int,
                 period: int) -> tuple[Index, list[int]] | None:
    """The first index of `count` positions from `counter + offset` on, and the offset of each position's index from it; None if the offsets
    are not known. Counters are multiples of `period`."""
    if isinstance(counter, int):
        counter, offset, period = 0, counter + offset, whole
    base: Index = 0
    pattern = [0] * count
    for size, stride, weight in terms:
        if period % (size * stride) and (period % stride or size * stride != whole):
            return None
        if period % (size * stride):
            base = text.plus(base, text.times(scalar_index(text, counter, [(size, stride, 1)], whole), weight))
        for lane in range(count):
            pattern[lane] += (offset + lane) // stride % size * weight
    first = min(pattern)
    return text.plus(base, first), [place - first for place in pattern]


def scalar_index(text: KernelBuilder, position: Index, terms: Sequence[Term], whole: int) -> Index:
    """The index of one position."""
    total: Index = 0
    for size, stride, weight in terms:
        digit = position
        if isinstance(digit, int):
            digit = digit // stride % size
        else:
            digit = digit if stride == 1 else text.let(f"udiv i64 {digit}, {stride}")
            digit = digit if size * stride == whole else text.let(f"urem i64 {digit}, {size}")
        total = text.plus(total, text.times(digit, weight))
    return total


def vector_index(text: KernelBuilder, position: Index, terms: Sequence[Term], whole: int) -> tuple[str, str]:
    """The indices of the positions from `position` on, one per lane."""
    integer = "i32" if whole < 1 << 31 else "i64"
    type = f"<{text.lanes} x {integer}>"
    first = str(position) if isinstance(position, int) or integer == "i64" else text.let(f"trunc i64 {position} to i32")
    steps = f"<{', '.join(f'{integer} {lane}' for lane in range(text.lanes))}>"
    lanes = text.let(f"add {type} {text.splat(integer, first)}, {steps}")
    total = ""
    for size, stride, weight in terms:
        digit = lanes if stride == 1 else text.let(f"udiv {type} {lanes}, splat ({integer} {stride})")
        digit = digit if size * stride == whole else text.let(f"urem {type} {digit}, splat ({integer} {size})")
        digit = digit if weight == 1 else text.let(f"mul {type} {digit}, splat ({integer} {weight})")
        total = digit if not total else text.let(f"add {type} {total}, {digit}")
    return type, total or f"splat ({integer} 0)"
