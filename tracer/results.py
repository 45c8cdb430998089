"""Results of traced functions: which leaves are results of the graph, and which are the same at every call."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import GeneratorType
from typing import Any

import numpy as np

from adjit.ir.dataclass import dataclass
from adjit.ir.errors import UnsupportedError
from adjit.ir.graph import Value
from adjit.tracer.array import TracedArray, contains_traced, unwrap, without_labels
from adjit.tracer.array_wrapper import ArrayWrapper
from adjit.tracer.flow.lifted_numbers import LiftedNumber
from adjit.tracer.pending_number import PendingNumber
from adjit.tracer.scope import Scope, active_scope
from adjit.tracer.trees import Tree, TreeSpec, flatten, is_static, paths
from adjit.tracer.user_location import find_user_location


@dataclass(frozen=True, slots=True)
class StaticLeaf:
    """Leaf of a result that is no array: the same at every call."""

    value: Any


@dataclass(frozen=True, slots=True)
class NumberLeaf:
    """Leaf of a result that is a Python number: result number `index` of the graph, `made` makes the number in a trace."""

    index: int
    made: Callable[[Value, Scope], LiftedNumber]

    def number(self, result: Any) -> Any:
        """The Python number for the result of a call."""
        return result if isinstance(result, TracedArray) else result.item()

    def wrapped(self, value: Value) -> LiftedNumber:
        """The number in the trace around that of a region."""
        scope = active_scope()
        assert scope is not None
        return self.made(value, scope)


OutLeaf = int | StaticLeaf | NumberLeaf     # the number of a result of the graph, a constant, or a number


def collect_results(result: Tree, written: Sequence[tuple[int, Value]] = (),
                    stored: Sequence[Any] = ()) -> tuple[list[Value], TreeSpec, tuple[OutLeaf, ...]]:
    """Return the values that a function returned, and the structure of its result; then those of arrays that it `stored`. The contents of
    `written` arrays (their identity, and the value) are the last values; they are not listed twice where such an array is returned."""
    leaves, tree = flatten(result)
    leaves = without_labels(leaves)
    values: list[Value] = []
    out: list[OutLeaf] = []
    updates = {identity: number for number, (identity, _) in enumerate(written)}
    count = len(arrays_in(leaves, written)) + len(stored)
    for index, leaf in enumerate(leaves):
        if id(leaf) in updates:
            out.append(count + updates[id(leaf)])
        elif isinstance(leaf, (TracedArray, np.ndarray, ArrayWrapper)):
            out.append(NumberLeaf(len(values), leaf.maker()) if isinstance(leaf, LiftedNumber) and leaf.is_python() else len(values))
            values.append(unwrap(leaf.traced() if isinstance(leaf, ArrayWrapper) else leaf))
        else:
            check_result(leaf, tree, index)
            out.append(StaticLeaf(leaf))
    return [*values, *map(unwrap, stored), *(value for _, value in written)], tree, tuple(out)


def with_known_keys(result: Tree) -> Tree:
    """The result of a function, with numbers in place of traced keys of dicts: the program is for these numbers, as hashes are known."""
    kind = type(result)
    if kind in (list, tuple):
        items = [with_known_keys(item) for item in result]
        return kind(items) if any(map(operator.is_not, items, result)) else result
    if kind is not dict:
        return result
    known = {key.known_number("a key of a dict") if isinstance(key, TracedArray) else key: with_known_keys(item)
             for key, item in result.items()}
    return known if any(map(operator.is_not, (*known, *known.values()), (*result, *result.values()))) else result


def arrays_in(result: Tree, written: Sequence[tuple[int, Value]]) -> list[Any]:
    """Return the arrays in a result, but for those that are `written`."""
    updates = {identity for identity, _ in written}
    return [leaf for leaf in flatten(result)[0] if isinstance(leaf, (TracedArray, np.ndarray, ArrayWrapper)) and id(leaf) not in updates]


def check_result(leaf: Any, tree: TreeSpec, index: int) -> None:
    """Raise `UnsupportedError` if leaf number `index` of a result cannot be part of a result."""
    if isinstance(leaf, (TracedArray, np.ndarray, float, complex, np.generic)):
        return
    if (scope := active_scope()) is not None and id(leaf) in scope.root.outside():
        return      # an object that is compared at every call, and keeps what each call stores in it: `return self`
    if is_static(leaf):
        if callable(leaf) and _holds_traced(leaf):
            raise UnsupportedError(f"the function returns a {type(leaf).__name__} that holds a traced array, at result{paths(tree)[index]}",
                                   find_user_location(), hint="return the array, and make the function of it outside of the compiled one")
        return
    if isinstance(leaf, PendingNumber):
        leaf.refuse()
    kind = f"{type(leaf).__module__}.{type(leaf).__qualname__}"
    raise UnsupportedError(f"the function returns a {kind} at result{paths(tree)[index]}, neither an array nor a tree of arrays",
                           find_user_location(), hint="return arrays, numbers, or dicts, lists, tuples and dataclasses of them")


def _holds_traced(function: Any) -> bool:
    """True if a function, or another callable object, can use a traced array later: then its trace has ended."""
    held = [*(getattr(function, "__defaults__", None) or ()), *getattr(function, "__dict__", {}).values(), *getattr(function, "args", ()),
            *getattr(function, "keywords", {}).values(), getattr(function, "__self__", None)]
    for cell in getattr(function, "__closure__", None) or ():
        with suppress(ValueError):      # an empty one
            held.append(cell.cell_contents)
    return any(isinstance(each, GeneratorType) or contains_traced((each,)) for each in held)
