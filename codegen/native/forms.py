"""Steps whose texts differ in numbers alone become one function, which finds its numbers in a table.

An unrolled loop may hold hundreds of kernels and slices of one form, each of another size or at another place, and LLVM takes half a
millisecond for the smallest function. Few steps of a form keep their own functions, as code is better where sizes are known.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from adjit.ir.dataclass import dataclass

ALIKE = 8
"""Texts of one form from which they become one function."""

_NUMBERS = re.compile(r"<[^>\n]*>|splat \([^)\n]*\)|\[[^\]\n]*\]|alloca [^\n]*|(\bi64 (?:%[\w.]+, )?)(-?\d+)(?![\w.])")
"""A number of type i64 that a register may stand for (the groups: what comes before it, it), or text in which there is none."""


@dataclass(frozen=True, slots=True)
class Form:
    """A function for steps of one form: its text, with the name `@step`, the numbers of each step by the step's text, and the place where
    it finds a pointer to them.
    """

    text: str
    numbers: dict[str, tuple[int, ...]]
    place: int


def find_forms(places: Mapping[str, int]) -> list[Form]:
    """The forms among the texts of steps. `places` has for each text how many places its calls have, at most."""
    by_length: dict[int, list[str]] = {}
    for text in places:
        by_length.setdefault(text.count("\n"), []).append(text)
    alike: dict[str, dict[str, tuple[str, ...]]] = {}
    for texts in by_length.values():
        for text in texts if len(texts) >= ALIKE else ():
            if text.count("define ") == 1:
                skeleton, numbers = _without_numbers(text)
                alike.setdefault(skeleton, {})[text] = numbers
    return [_form(steps, max(places[text] for text in steps)) for steps in alike.values() if len(steps) >= ALIKE]


def _without_numbers(text: str) -> tuple[str, tuple[str, ...]]:
    numbers: list[str] = []

    def hide(match: re.Match[str]) -> str:
        if match[2] is None:
            return match[0]
        numbers.append(match[2])
        return f"{match[1]}?"

    return _NUMBERS.sub(hide, text), tuple(numbers)


def _form(steps: Mapping[str, Sequence[str]], place: int) -> Form:
    """Numbers that are the same in all steps stay; those that are the same as another one in each step are one number."""
    columns = list(zip(*steps.values(), strict=True))
    different = list(dict.fromkeys(column for column in columns if len(set(column)) > 1))
    registers = {column: f"%number.{index}" for index, column in enumerate(different)}
    remaining = iter(columns)

    def name(match: re.Match[str]) -> str:
        if match[2] is None:
            return match[0]
        column = next(remaining)
        return match[1] + registers.get(column, match[2])

    head, entry, body = _NUMBERS.sub(name, next(iter(steps))).partition("entry:\n")
    loads = [f"  %numbers.at = getelementptr ptr, ptr %places, i64 {place}", "  %numbers = load ptr, ptr %numbers.at, align 8"]
    for index in range(len(different)):
        loads += [f"  %number.{index}.at = getelementptr i64, ptr %numbers, i64 {index}",
                  f"  %number.{index} = load i64, ptr %number.{index}.at, align 8"]
    text = head + entry + "\n".join([*loads, body])
    return Form(text, {step: tuple(int(column[row]) for column in different) for row, step in enumerate(steps)}, place)


def table_text(name: str, numbers: Sequence[int]) -> str:
    """The constant that holds the numbers of a step.

    >>> table_text("step_1.numbers", (3, 64))
    '@step_1.numbers = internal constant [2 x i64] [i64 3, i64 64]'
    """
    return f"@{name} = internal constant [{len(numbers)} x i64] [{', '.join(f'i64 {number}' for number in numbers)}]"
