"""Cuts a module into several of about equal cost, whose code together is that of the one.

    ModuleText(declarations, definitions).split(2)       # two modules and one of dispatch functions; all are hidden, not internal
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping

from adjit.codegen.llvm.module import Definition, Function
from adjit.codegen.llvm.object_code import Module

MIN_PARTITION_LINES, MIN_IDLE_PARTITION_LINES = 250, 130
"""Cost from which a module is worth a part: some 5 ms, or twice that in a young process, where a module in itself takes 0.5 to 1; and where
other threads have nothing to do as yet."""

MIN_DISPATCH_FUNCTIONS = 12
"""Dispatch functions that are worth a module: LLVM's other, quicker way from text to code takes 1.4 ms more the first time it is gone, and
calls of the smallest programs some nanoseconds longer."""


def cost_of(definitions: Iterable[Definition]) -> int:
    """Cost of all the functions to LLVM, in lines."""
    return sum([definition.cost for definition in definitions])


class ModuleText:
    """The definitions of a module.

    >>> f = Function("f", "", ["  %r = call i64 @g()"], result="i64", returned="i64 %r", linkage="", attributes="", uses=["g"])
    >>> g = Function("g", "", [], result="i64", returned="i64 1", attributes="")
    >>> one, other = ModuleText([], [f, g]).split(2)
    >>> one.text.splitlines()[0], other.text.splitlines()[0]
    ('declare hidden i64 @g()', 'define hidden i64 @g() {')
    """

    def __init__(self, declarations: Iterable[str], definitions: Iterable[Definition]):
        self.head = sorted(declarations)
        self.functions: dict[str, Function] = {}
        self.constants: dict[str, Definition] = {}
        for definition in definitions:
            if isinstance(definition, Function):
                self.functions[definition.name] = definition
            elif definition.is_metadata:
                self.head.append(definition.text)
            else:
                self.constants[definition.name] = definition

    def choose_partitions(self, threads: int, made: Collection[str] = ()) -> int:
        """Into how many parts it should be cut: two for each thread, since costs are estimates, but none that is small. What is `made`
        keeps other threads busy."""
        if threads == 1:
            return 1
        lines = MIN_PARTITION_LINES if made else MIN_IDLE_PARTITION_LINES
        most = sum(function.cost for name, function in self.functions.items() if name not in made) // lines
        return 2 * threads if most >= 2 * threads else max(1, min(most, threads))

    def split(self, count: int = 1, made: Collection[str] = ()) -> list[Module]:
        """So many modules, the most expensive functions first in each, and one more for dispatch functions, where there are many, which is
        not optimized. Constants come with what uses them. Functions whose code is `made` already are only declared; any may be called from
        other modules.
        """
        own = [name for name in self.functions if name not in made]
        dispatch = [name for name in own if self.functions[name].is_dispatch]
        dispatch = dispatch if len(dispatch) >= MIN_DISPATCH_FUNCTIONS else []
        alone = set(dispatch)
        modules = []
        for part in (*_of_equal_cost({name: self.functions[name].cost for name in own if name not in alone}, count), dispatch):
            if part:
                inside, needs = set(part), self._needs(part)
                others = [self.functions[name].declaration for name in needs if name in self.functions and name not in inside]
                there = [self.constants[name].text for name in needs if name in self.constants]
                bodies = [self.functions[name].hidden for name in part]
                modules.append(Module("\n".join([*self.head, *others, *there, *bodies, ""]), part is not dispatch))
        return modules

    def _needs(self, part: list[str]) -> dict[str, None]:
        """Names that functions use, and the constants among these names, in order."""
        found: dict[str, None] = {}
        waiting: list[Definition] = [self.functions[name] for name in part]
        while waiting:
            for name in sorted(waiting.pop().uses):
                if name not in found and (name in self.functions or name in self.constants):
                    found[name] = None
                    if name in self.constants:
                        waiting.append(self.constants[name])
        return found


def _of_equal_cost(costs: Mapping[str, int], count: int) -> list[list[str]]:
    """The names in so many parts."""
    parts: list[list[str]] = [[] for _ in range(count)]
    loads = [(0, number) for number in range(count)]
    for name in sorted(costs, key=lambda name: costs[name], reverse=True):
        load, number = heapq.heappop(loads)
        parts[number].append(name)
        heapq.heappush(loads, (load + costs[name], number))
    return parts
