"""Steps whose texts differ in numbers alone become one function, which finds its numbers in a table.

An unrolled loop may hold hundreds of kernels and slices of one form, each of another size or at another place, and LLVM takes half a
millisecond for the smallest function. Few steps of a form keep their own functions, as code is better where sizes are known.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from adjit.codegen.llvm.module import Definition, Function
from adjit.ir.dataclass import dataclass

ALIKE = 8
"""Texts of one form from which they become one function."""

_NUMBERS = re.compile(r"<[^>\n]*>|splat \([^)\n]*\)|\[[^\]\n]*\]|alloca [^\n]*|(\bi64 (?:%[\w.]+, )?)(-?\d+)(?![\w.])")
"""A number of type i64 that a register may stand for (the groups: what comes before it, it), or text in which there is none."""


@dataclass(frozen=True, slots=True)
class Form:
    """A function for steps of one form, under the name `@step`, the numbers of each step by its function, and the place where
    the form finds a pointer to them.
    """

    function: Function
    numbers: dict[Function, tuple[int, ...]]
    place: int


def find_forms(places: Mapping[Function, int]) -> list[Form]:
    """The forms among the functions of steps. `places` has for each how many places its calls have, at most."""
    by_length: dict[tuple[int, str], list[Function]] = {}
    for step in places:
        by_length.setdefault((len(step.lines), step.attributes), []).append(step)
    alike: dict[tuple[str, str], dict[Function, tuple[str, ...]]] = {}
    for (_, attributes), steps in by_length.items():
        for step in steps if len(steps) >= ALIKE else ():
            skeleton, numbers = _without_numbers("\n".join(step.lines))
            alike.setdefault((attributes, skeleton), {})[step] = numbers
    return [_form(steps, max(places[step] for step in steps)) for steps in alike.values() if len(steps) >= ALIKE]


def _without_numbers(text: str) -> tuple[str, tuple[str, ...]]:
    numbers: list[str] = []

    def hide(match: re.Match[str]) -> str:
        if match[2] is None:
            return match[0]
        numbers.append(match[2])
        return f"{match[1]}?"

    return _NUMBERS.sub(hide, text), tuple(numbers)


def _form(steps: Mapping[Function, Sequence[str]], place: int) -> Form:
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

    first = next(iter(steps))
    body = _NUMBERS.sub(name, "\n".join(first.lines))
    loads = [f"  %numbers.at = getelementptr ptr, ptr %places, i64 {place}", "  %numbers = load ptr, ptr %numbers.at, align 8"]
    for index in range(len(different)):
        loads += [f"  %number.{index}.at = getelementptr i64, ptr %numbers, i64 {index}",
                  f"  %number.{index} = load i64, ptr %number.{index}.at, align 8"]
    numbers = {step: tuple(int(column[row]) for column in different) for row, step in enumerate(steps)}
    return Form(first.changed([*loads, *body.split("\n")]), numbers, place)


def numbers_table(name: str, numbers: Sequence[int]) -> Definition:
    """The constant that holds the numbers of a step.

    >>> numbers_table("step_1.numbers", (3, 64)).text
    '@step_1.numbers = internal constant [2 x i64] [i64 3, i64 64]'
    """
    return Definition(name, f"@{name} = internal constant [{len(numbers)} x i64] [{', '.join(f'i64 {number}' for number in numbers)}]")
