"""Long sums of floats, added up in blocks: the error does not grow with their length.

A sum that runs through n elements one after the other may be off by n / 8 units in the last place, as where all elements are equal. So no
accumulator takes more than some `BLOCK_ADDITIONS` additions from one beginning. Up to `MAX_UNCOMPENSATED_BLOCKS` blocks are added up as
they are; more, with the rest that rounding leaves off (Kahan and Babuska, without feeding the rest back, so that infinities stay what they
are). That takes as long as a few additions, and nothing where the elements come from memory. All of it follows from sizes alone, never from
the number of threads.
"""

from __future__ import annotations

from adjit.codegen.llvm.builder import Builder

BLOCK_ADDITIONS = 16
"""Additions to one accumulator from one beginning: as many as in NumPy's own sums."""

MAX_UNCOMPENSATED_BLOCKS = 4
"""Blocks whose sum needs no rest, for which what follows a short row would wait."""


def add_block(text: Builder, type: str, total: str, *rest_and_part: str) -> tuple[str, ...]:
    """The total with one more block, and all that was left off so far, where that is kept."""
    *rest, part = rest_and_part
    longer = text.let(f"fadd {type} {total}, {part}")
    if not rest:
        return (longer,)
    added = text.let(f"fsub {type} {longer}, {total}")
    return longer, text.let(f"fadd {type} {rest[0]}, {text.let(f'fsub {type} {part}, {added}')}")


def compensated_total(text: Builder, type: str, total: str, rest: str | None = None) -> str:
    """The sum: the total and the rest; the total alone where it is infinite or NaN."""
    if rest is None:
        return total
    mask = f"{type.rpartition(' x ')[0]} x i1>" if type[0] == "<" else "i1"
    finite = text.let(f"fcmp ord {type} {text.let(f'fsub {type} {total}, {total}')}, {total}")
    return text.let(f"select {mask} {finite}, {type} {text.let(f'fadd {type} {total}, {rest}')}, {type} {total}")
