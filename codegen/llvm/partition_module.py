"""Partitioning of a module into several of about equal cost, which together hold the same code.

    ModuleText(declarations, definitions).split(2)       # two modules and one of dispatch functions; all are hidden, not internal
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping

from adjit.codegen.llvm.module import Definition, Function
from adjit.codegen.llvm.object_code import Module

MIN_PARTITION_LINES, MIN_IDLE_PARTITION_LINES = 250, 130
"""Cost in lines from which a partition pays: some 5 ms, or twice that in a young process, since a module itself takes 0.5 to 1 ms; and the
cost while other threads are idle."""

MIN_DISPATCH_FUNCTIONS = 12
"""Dispatch functions that are worth a module of their own. Such a module goes through LLVM's FastISel, which takes 1.4 ms more on its first
use, and makes calls of the smallest programs some nanoseconds longer."""


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
        """Number of partitions: two for each thread, since costs are estimates, but none that is small. Functions in `made` are
        compiled elsewhere, which keeps other threads busy: then a partition has to be larger to pay."""
        if threads == 1:
            return 1
        lines = MIN_PARTITION_LINES if made else MIN_IDLE_PARTITION_LINES
        most = sum(function.cost for name, function in self.functions.items() if name not in made) // lines
        return 2 * threads if most >= 2 * threads else max(1, min(most, threads))

    def split(self, count: int = 1, made: Collection[str] = ()) -> list[Module]:
        """The module as `count` modules, each with its most expensive functions first, and one more module, not optimized, for the dispatch
        functions if there are many. Each module has the constants that it uses. Functions in `made`, which have code already, are only
        declared. Every function can be called from the other modules.
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
        """Names that the functions use, and names that the constants among them use, in order."""
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
    """The names in `count` groups of about equal cost."""
    parts: list[list[str]] = [[] for _ in range(count)]
    loads = [(0, number) for number in range(count)]
    for name in sorted(costs, key=lambda name: costs[name], reverse=True):
        load, number = heapq.heappop(loads)
        parts[number].append(name)
        heapq.heappush(loads, (load + costs[name], number))
    return parts
