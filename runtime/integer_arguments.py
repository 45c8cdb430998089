"""Python integers among the arguments of a function that are another one in each call: `step(params, t)` with `t += 1`.

An integer is part of the program at first, as a size or a number of layers is. Where each call brings another one, it becomes an input.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

from adjit.tracer.signature import CallSignature, is_liftable_integer
from adjit.tracer.trees import TreeSpec

FRESH_CALLS = 3
"""Calls in a row with another integer each, and no call of a program that was there, after which the integer becomes an input."""

MAX_KINDS = 128
"""Kinds of calls, by all but their integers, of which something is known."""

MANY_CALLS = 8
"""Programs that were called but once or twice each, after which it becomes one."""


class _Calls:
    """What is known of calls that differ in their integers alone."""

    def __init__(self, hits: int):
        self.integers: list[tuple[Any, ...]] = []
        self.first_hits = self.last_hits = hits
        self.fresh = 0

    def add(self, integers: tuple[Any, ...], hits: int) -> None:
        self.fresh = self.fresh + 1 if hits == self.last_hits else 1
        self.integers.append(integers)
        self.last_hits = hits

    def is_counter(self) -> bool:
        count = len(self.integers)
        return self.fresh >= FRESH_CALLS or (count >= MANY_CALLS and self.last_hits - self.first_hits < 2 * count)


class IntegerArguments:
    """The integers of one function. `inputs` are those that are inputs."""

    def __init__(self) -> None:
        self.inputs: dict[TreeSpec, frozenset[int]] = {}
        self._needed: frozenset[int] = frozenset()
        self._calls: dict[Any, _Calls] = {}

    def learn(self, signature: CallSignature, hits: int) -> bool:
        """Note a call that needs a trace, after `hits` calls that needed none. Returns True if integers became inputs by it."""
        tree, leaves = signature.tree, signature.all_leaves
        found = [index for index, key in enumerate(signature.leaf_keys) if key[0] == "static" and is_liftable_integer(leaves[index])
                 and index not in self._needed]
        if not found:
            return False
        keys = tuple(("static", int) if index in found else key for index, key in enumerate(signature.leaf_keys))
        if len(self._calls) > MAX_KINDS:
            self._calls.clear()
        calls = self._calls.setdefault((tree, keys, *signature.key[2:]), _Calls(hits))
        calls.add(tuple(leaves[index] for index in found), hits)
        if not calls.is_counter():
            return False
        changed = [index for index, values in zip(found, zip(*calls.integers, strict=True), strict=True) if len(set(values)) > 1]
        calls.integers.clear()
        if not changed:
            return False
        self.inputs = {**self.inputs, tree: self.inputs.get(tree, frozenset()).union(changed)}
        return True

    @contextmanager
    def needed(self, indices: Collection[int]) -> Iterator[None]:
        """Have integers part of the program, for a call for which Python needs them: as keys of a dict, in a text, or for more sizes than a
        function has ways. They stay so if the call succeeds."""
        inputs, needed = self.inputs, self._needed
        self._needed = needed.union(indices)
        self.inputs = {tree: left for tree, leaves in inputs.items() if (left := leaves - self._needed)}
        try:
            yield
        except BaseException:
            self.inputs, self._needed = inputs, needed
            raise
