"""Merging of functions, since LLVM takes half a millisecond for each, however small.

Small steps that run one after the other become one function:

    before: call @step_0(%places), call @step_1(%places)        after: call @step_0(%places), with the arguments of both steps

Steps whose texts differ in numbers alone become one function, which reads its numbers from a table: an unrolled loop may hold hundreds of
similar kernels and slices of different sizes and offsets. A group of few similar steps keeps its own functions, as code is better with
sizes known.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from adjit.codegen.llvm.module import Definition, Function
from adjit.codegen.native.program_code import SIGNATURE, Call, StepCode
from adjit.ir.dataclass import dataclass

MIN_SIMILAR = 8
"""Number of similar functions from which they are merged."""

MAX_MERGED_LINES = 200
"""Maximum lines of a function to which steps are added: LLVM takes superlinear time for long functions, and several compile at once."""

_NUMBERS = re.compile(r"<[^>\n]*>|splat \([^)\n]*\)|\[[^\]\n]*\]|alloca [^\n]*|(\bi64 (?:%[\w.]+, )?)(-?\d+)(?![\w.])")
"""A number of type i64 that a register may replace (groups: the text before it, the number), or text without such a number."""


@dataclass(frozen=True, slots=True)
class MergedFunction:
    """A function for similar steps, named `@step`; the numbers of each step, by its function; and the argument index of the pointer to the
    table of numbers.
    """

    function: Function
    constants: dict[Function, tuple[int, ...]]
    table_index: int


def find_similar(arg_counts: Mapping[Function, int]) -> list[MergedFunction]:
    """Merged functions for groups of similar steps. `arg_counts` has the maximum number of arguments of each function's calls."""
    by_length: dict[tuple[int, str], list[Function]] = {}
    for step in arg_counts:
        by_length.setdefault((step.body.count("\n"), step.attributes), []).append(step)
    similar: dict[tuple[str, str], dict[Function, tuple[str, ...]]] = {}
    for (_, attributes), steps in by_length.items():
        for step in steps if len(steps) >= MIN_SIMILAR else ():
            skeleton, constants = _without_constants(step.body)
            similar.setdefault((attributes, skeleton), {})[step] = constants
    return [_merged(steps, max(arg_counts[step] for step in steps)) for steps in similar.values() if len(steps) >= MIN_SIMILAR]


def _without_constants(text: str) -> tuple[str, tuple[str, ...]]:
    constants: list[str] = []

    def hide(match: re.Match[str]) -> str:
        if match[2] is None:
            return match[0]
        constants.append(match[2])
        return f"{match[1]}?"

    return _NUMBERS.sub(hide, text), tuple(constants)


def _merged(steps: Mapping[Function, Sequence[str]], table_index: int) -> MergedFunction:
    """The merged function. Numbers that are the same in all steps stay in the text. Two numbers that are equal in every step share a table
    entry."""
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
    body = _NUMBERS.sub(name, first.body)
    loads = [f"  %numbers.at = getelementptr ptr, ptr %places, i64 {table_index}", "  %numbers = load ptr, ptr %numbers.at, align 8"]
    for index in range(len(different)):
        loads += [f"  %number.{index}.at = getelementptr i64, ptr %numbers, i64 {index}",
                  f"  %number.{index} = load i64, ptr %number.{index}.at, align 8"]
    constants = {step: tuple(int(column[row]) for column in different) for row, step in enumerate(steps)}
    return MergedFunction(first.changed([*loads, body[:-1]]), constants, table_index)


def numbers_table(name: str, constants: Sequence[int]) -> Definition:
    """The constant that holds the numbers of a step.

    >>> numbers_table("step_1.numbers", (3, 64)).text
    '@step_1.numbers = internal constant [2 x i64] [i64 3, i64 64]'
    """
    return Definition(name, f"@{name} = internal constant [{len(constants)} x i64] [{', '.join(f'i64 {number}' for number in constants)}]")


def is_small(call: Call) -> bool:
    """True if a step may share its function: the step has few lines, no memory of its own, and runs on the caller's thread."""
    if call.parallel or call.code.checks or call.code.scratch_bytes or len(call.code.functions) > 1:
        return False
    (step,) = call.code.functions
    return (isinstance(step, Function) and not step.returns_early and step.returned == "i64 0" and "optnone" not in step.attributes
            and " alloca " not in step.body and step.text.count("\n") < MAX_MERGED_LINES)


def merge_steps(calls: Sequence[Call]) -> Call:
    """One call that replaces calls of several small steps. The name `name` of step k becomes `k.name`, and so do labels."""
    if len(calls) == 1:
        return calls[0]
    codes = [call.code for call in calls]
    lines, uses, offsets, base = [], set[str](), [], 0
    shared: dict[str, Definition] = {}
    for number, call in enumerate(calls):
        (step,) = call.code.functions
        assert isinstance(step, Function)
        lines += [f"  br label %s{number}.entry", *_body(step, call.code.tasks, number, base)]
        offsets += [(base + arg, nbytes) for arg, nbytes in call.code.offsets]
        base += len(call.args)
        uses |= step.uses
        shared |= call.code.shared
    merged = StepCode((Function("step", SIGNATURE, lines, result="i64", returned="i64 0", uses=uses),), 1, sum(code.work for code in codes),
                      frozenset().union(*(code.declarations for code in codes)), shared, offsets=tuple(offsets))
    args = tuple(arg for call in calls for arg in call.args)
    return Call(calls[0].function, merged, args, calls[0].number, f"{calls[0].name} and {len(calls) - 1} more")


def _body(step: Function, tasks: int, number: int, base: int) -> list[str]:
    """The blocks of a step, from label `s<number>.entry` on. The step's arguments begin at index `base`."""
    prefix = f"s{number}."
    text = step.body.replace("%", f"%{prefix}")
    for name, value in (("low", 0), ("high", tasks)):
        for behind in ",]) \n":
            text = text.replace(f"%{prefix}{name}{behind}", f"{value}{behind}")
    lines = [line if line.startswith(" ") else prefix + line for line in text.split("\n")[:-1]]
    return [f"{prefix}entry:", f"  %{prefix}places = getelementptr ptr, ptr %places, i64 {base}", *lines]
