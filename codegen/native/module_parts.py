"""Cuts the text of a module into several modules of about equal cost, whose code together is that of the one.

    split_module(text, 2)       # two modules and one of glue; what one calls in the other is hidden, not internal
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Collection, Mapping

from adjit.codegen.llvm_text import GLUE
from adjit.codegen.object_code import Module
from adjit.ir.dataclass import dataclass

_DEFINITION = re.compile(r"(?m)^(?=define |@)")
_NAME = re.compile(r"@([\w.]+)")
FUNCTION_LINES = 20
"""What a function costs LLVM besides its lines, in lines."""

PART_LINES = 400
"""Cost from which a module is worth a part: some 8 ms, where a module in itself takes 0.5."""

LEAST_GLUE = 12
"""Functions of glue that are worth a module: LLVM's other, quicker way from text to code takes 1.4 ms more the first time it is gone, and
calls of the smallest programs some nanoseconds longer."""


@dataclass(frozen=True, slots=True)
class _Definition:
    """A function or constant, and the names in it."""

    text: str
    uses: frozenset[str]

    @property
    def is_glue(self) -> bool:
        return GLUE in self.text.partition("\n")[0]

    @property
    def cost(self) -> int:
        return FUNCTION_LINES + self.text.count("\n")


def worthwhile_parts(text: str, threads: int) -> int:
    """Into how many parts a text should be cut: two for each thread, since costs are estimates, but none that is small."""
    if threads == 1:
        return 1
    most = (text.count("\n") + FUNCTION_LINES * text.count("\ndefine ")) // PART_LINES
    return 2 * threads if most >= 2 * threads else max(1, min(most, threads))


def split_module(text: str, count: int, made: Collection[str] = ()) -> list[Module]:
    """The module as so many modules, the most expensive functions first in each, and one more for glue, where there is much of it, which is
    not optimized. Constants come with what uses them. Functions whose code is `made` already are only declared.

    >>> text = "define i64 @f() {\\n  %r = call i64 @g()\\n  ret i64 %r\\n}\\ndefine internal i64 @g() {\\n  ret i64 1\\n}\\n"
    >>> one, other = split_module(text, 2)
    >>> one.text.splitlines()[0], other.text.splitlines()[0]
    ('declare hidden i64 @g()', 'define hidden i64 @g() {')
    """
    head, *definitions = _DEFINITION.split(text)
    functions: dict[str, _Definition] = {}
    constants: dict[str, _Definition] = {}
    for definition in definitions:
        name, *used = _NAME.findall(definition)
        (functions if definition.startswith("define") else constants)[name] = _Definition(definition, frozenset(used) - {name})
    own = [name for name in functions if name not in made]
    glue = [name for name in own if functions[name].is_glue]
    glue = glue if len(glue) >= LEAST_GLUE else []
    alone = set(glue)
    parts = _of_equal_cost({name: functions[name].cost for name in own if name not in alone}, count)
    needs = [_needs(part, functions, constants) for part in (*parts, glue)]
    shared = {name for part, need in zip((*parts, glue), needs, strict=True) for name in need.keys() & functions.keys() - set(part)}
    modules = []
    for part, need in zip((*parts, glue), needs, strict=True):
        inside = set(part)
        others = [declaration(functions[name].text) for name in need if name in functions and name not in inside]
        there = [constants[name].text for name in need if name in constants]
        bodies = [hidden(functions[name].text) if name in shared else functions[name].text for name in part]
        if bodies:
            modules.append(Module("".join([head, *others, *there, *bodies]), part is not glue))
    return modules


def _of_equal_cost(costs: Mapping[str, int], count: int) -> list[list[str]]:
    """The names in so many parts."""
    parts: list[list[str]] = [[] for _ in range(count)]
    loads = [(0, number) for number in range(count)]
    for name in sorted(costs, key=lambda name: costs[name], reverse=True):
        load, number = heapq.heappop(loads)
        parts[number].append(name)
        heapq.heappush(loads, (load + costs[name], number))
    return parts


def _needs(part: list[str], functions: dict[str, _Definition], constants: dict[str, _Definition]) -> dict[str, None]:
    """What functions use, and the constants among that, in order."""
    found: dict[str, None] = {}
    waiting = [functions[name] for name in part]
    while waiting:
        for name in sorted(waiting.pop().uses):
            if name not in found and (name in functions or name in constants):
                found[name] = None
                if name in constants:
                    waiting.append(constants[name])
    return found


def hidden(function: str) -> str:
    """The text of an internal function, for a module of which another one calls it."""
    return function.replace("define internal ", "define hidden ", 1)


def declaration(function: str) -> str:
    """What stands for a function in a module that calls it."""
    return hidden(function).partition(" {\n")[0].replace("define ", "declare ", 1) + "\n"
