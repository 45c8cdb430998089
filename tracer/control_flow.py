"""Tracing of the functions of loops and branches into closed regions of the trace under way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from adjit.ir.builder import GraphBuilder
from adjit.ir.dataclass import dataclass
from adjit.ir.emitter import emitting
from adjit.ir.errors import DTypeError, ShapeError, TraceError, UnsupportedError
from adjit.ir.graph import Graph, Value
from adjit.ir.thread_context import thread
from adjit.ir.types import TensorType, is_inexact
from adjit.tracer.array import TracedArray, as_traced, wrap
from adjit.tracer.array_wrapper import ArrayWrapper
from adjit.tracer.lowering import convert
from adjit.tracer.results import check_result
from adjit.tracer.scope import Scope, active_scope, entered
from adjit.tracer.trees import Tree, TreeSpec, flatten, paths, structure_text
from adjit.tracer.user_location import find_user_location, return_location, warn_user


class WrapperReturned(Exception):
    """Raised if a body that was given no wrapped array returns one: the body closes over a wrapped array."""

    def __init__(self, wrapper: ArrayWrapper):
        super().__init__(wrapper)
        self.wrapper = wrapper


@contextmanager
def wrapping(wrapper: ArrayWrapper | None) -> Iterator[None]:
    """Give the bodies that are traced within the block wrappers like this one for all floats; otherwise results of these floats would be
    constants beside wrapped arrays. With None a body that returns a wrapped array raises `WrapperReturned`."""
    around = thread.context
    before = around.wrapping
    try:
        around.wrapping = wrapper
        yield
    finally:
        around.wrapping = before


@dataclass(frozen=True, slots=True)
class BodyParameter:
    """Type of a body's parameter: `weak` if it promotes as a Python float, `carried` from iteration to iteration; `wrapper` if the body
    gets it wrapped."""

    type: TensorType
    weak: bool = False
    carried: bool = False
    wrapper: ArrayWrapper | None = None


@dataclass(frozen=True, slots=True)
class TracedBody:
    """Traced body of a loop or branch: its graph, whose last parameters, after the parameters of the leaves, stand for `captures`; its
    result tree, and for each leaf of the result whether it is weak and where it came from."""

    graph: Graph
    captures: tuple[Value, ...]
    out_tree: TreeSpec
    weak: tuple[bool, ...]
    origins: tuple[str, ...]

    def unchanged(self, carries: int) -> list[int]:
        """Numbers of the carried values that the body returns unchanged."""
        first = len(self.graph.results) - carries
        return [index for index in range(carries) if self.graph.results[first + index] is self.graph.params[index]]

    def converted(self, dtypes: Mapping[int, np.dtype]) -> TracedBody:
        """The body with other dtypes for some of its results, by number."""
        if not dtypes:
            return self
        graph = self.graph
        builder = GraphBuilder(graph.name)
        params = [builder.param(value.type, value.name, role) for value, role in zip(graph.params, graph.param_roles, strict=True)]
        results = builder.inline(graph, params)
        with emitting(builder):
            new = builder.build([convert(value, dtypes.get(index, value.type.dtype)) for index, value in enumerate(results)])
        return replace(self, graph=new)


def trace_body(function: Callable[[Sequence[Any]], Tree], name: str, parameters: Sequence[BodyParameter]) -> TracedBody:
    """Trace `function(leaves)`, with a traced array for each parameter. All leaves of the result become arrays."""
    outer = active_scope()
    if outer is None or not isinstance(outer.builder, GraphBuilder):
        raise TraceError("a loop or a branch is traced outside of a trace", find_user_location())
    builder = GraphBuilder(name, parent=outer.builder)
    outer_wrapper = thread.context.wrapping
    added = outer.root.added()
    with entered(Scope(builder, parent=outer)):
        leaves: list[Any] = []
        for parameter in parameters:
            role = "carried" if parameter.carried else "input"
            array = wrap(builder.param(parameter.type, role=role), weak=parameter.weak, writable=not parameter.type.shape)
            wrapper = outer_wrapper if parameter.wrapper is None and is_inexact(array.dtype) else parameter.wrapper
            leaves.append(array if wrapper is None else wrapper.around(array))
        results, out_tree = flatten(function(leaves))
        wrapper = next((leaf for leaf in results if isinstance(leaf, ArrayWrapper)), None)
        if wrapper is not None and outer_wrapper is None:
            raise WrapperReturned(wrapper)
        arrays = [_array(leaf, out_tree, index) for index, leaf in enumerate(results)]
        graph = builder.build([array.value for array in arrays])
        origins = tuple(builder.origin(value) for value in graph.results)
    warn_of_additions(outer.root, added, f"{name}, which a loop or branch of the program runs,", "in each iteration",
                      "Carry a number, return what is to be kept, and store it outside of the loop")
    return TracedBody(graph, tuple(builder.captures), out_tree, tuple(array.weak for array in arrays), origins)


def warn_of_additions(root: Scope, before: Mapping[str, int], who: str, when: str, remedy: str) -> None:
    """Warn if the function has added to what is outside since `before`, the additions of the trace up to there."""
    more = [path for path, count in root.added().items() if count > before.get(path, 0)]
    if more:
        warn_user(f"{who} adds to {', '.join(more[:3])}: each call does so as often as the trace did, not {when}. {remedy}")


def _array(leaf: Any, tree: TreeSpec, index: int) -> TracedArray:
    if isinstance(leaf, ArrayWrapper):
        wrapped: TracedArray = leaf.traced()
        return wrapped
    if not is_numeric(leaf):
        check_result(leaf, tree, index)
        raise UnsupportedError(f"a loop or a branch returns {leaf!r} at result{paths(tree)[index]}, which is no array",
                               find_user_location(), hint="return arrays and numbers only; what does not change can be closed over")
    return as_traced(leaf)


def is_numeric(leaf: Any) -> bool:
    """True if a leaf can be an array within a loop."""
    return isinstance(leaf, (TracedArray, ArrayWrapper, bool, int, float)) or hasattr(leaf, "__array__")


class Remedy(NamedTuple):
    """Remedies for a wrong shape and for a wrong dtype."""

    shape: str
    dtype: str


def check_structure(expected: TreeSpec, found: TreeSpec, what: str, of: str, function: Callable[..., Any]) -> None:
    """Raise `TraceError` if `function` returns another structure than expected."""
    if found != expected:
        raise TraceError(f"{what} has the structure\n        {structure_text(found)}\n    but {of} has\n        {structure_text(expected)}",
                         return_location(function) or find_user_location(),
                         hint="both have to be the same: keys, lengths and kinds of containers")


def check_types(body: TracedBody, first: int, expected: Sequence[TensorType], tree: TreeSpec, what: str, of: str, remedy: Remedy) -> None:
    """Raise `ShapeError` or `DTypeError` if results from `first` on are of other types than `expected`, for the leaves of `tree`."""
    for index, type in enumerate(expected):
        found = body.graph.results[first + index].type
        if found == type:
            continue
        path = paths(tree)[index]
        message = f"{what}{path} is {found}, but {of}{path} is {type}\n    {body.origins[first + index]}"
        if found.shape != type.shape:
            raise ShapeError(message, find_user_location(), hint=remedy.shape)
        raise DTypeError(message, find_user_location(), hint=remedy.dtype.format(expected=type.dtype, found=found.dtype))
