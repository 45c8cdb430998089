"""Long sums of floats, added up in blocks: the error does not grow with their length.

A sum over n elements in sequence may be off by n / 8 units in the last place, for example if all elements are equal. So an accumulator
takes at most about `BLOCK_ADDITIONS` additions before it restarts from zero. Up to `MAX_UNCOMPENSATED_BLOCKS` block sums are added plainly.
More block sums are added with a compensation term for the rounding errors (Kahan-Babuska; the term is not fed back, so that infinities stay
infinite). The compensation costs a few additions, and no time if the elements come from memory. The scheme follows from sizes alone, never
from the number of threads.
"""

from __future__ import annotations

from adjit.codegen.llvm.builder import Builder

BLOCK_ADDITIONS = 16
"""Additions to one accumulator before it restarts: as many as in NumPy's own sums."""

MAX_UNCOMPENSATED_BLOCKS = 4
"""Blocks whose sum needs no compensation. Short rows stay below it, since the compensation would delay the code after them."""


def add_block(text: Builder, type: str, total: str, *rest_and_part: str) -> tuple[str, ...]:
    """The total with one more block, and the compensation term, if the sum has one."""
    *rest, part = rest_and_part
    longer = text.let(f"fadd {type} {total}, {part}")
    if not rest:
        return (longer,)
    added = text.let(f"fsub {type} {longer}, {total}")
    return longer, text.let(f"fadd {type} {rest[0]}, {text.let(f'fsub {type} {part}, {added}')}")


def compensated_total(text: Builder, type: str, total: str, rest: str | None = None) -> str:
    """The sum: total plus compensation term; the total alone if it is infinite or NaN."""
    if rest is None:
        return total
    mask = f"{type.rpartition(' x ')[0]} x i1>" if type[0] == "<" else "i1"
    finite = text.let(f"fcmp ord {type} {text.let(f'fsub {type} {total}, {total}')}, {total}")
    return text.let(f"select {mask} {finite}, {type} {text.let(f'fadd {type} {total}, {rest}')}, {type} {total}")
