"""Tracing of a function into a region of the trace under way: the body of a loop, a branch, a function that is differentiated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from adjit.ir.batching import move_axis
from adjit.ir.builder import GraphBuilder
from adjit.ir.dataclass import dataclass
from adjit.ir.errors import TraceError
from adjit.ir.graph import Graph, Value
from adjit.tracer.array import TracedArray, as_traced, wrap
from adjit.tracer.array_wrapper import ArrayWrapper
from adjit.tracer.changed_arguments import check_arguments
from adjit.tracer.flow.lifted_list import lifted_lists, settle_lists
from adjit.tracer.flow.recorder import recorder_of
from adjit.tracer.results import NumberLeaf, OutLeaf, StaticLeaf, collect_results
from adjit.tracer.scope import Scope, active_scope, entered
from adjit.tracer.signature import function_name, is_by_reference
from adjit.tracer.trees import Tree, TreeSpec, flatten, is_static, unflatten
from adjit.tracer.user_location import find_user_location


@dataclass(frozen=True, slots=True)
class RegionTrace:
    """Function traced into a closed region of the trace under way.

    `operands` are the outer values for all parameters of `graph`: first those of the traced leaves of the arguments
    (`argument_count` of them), then the ones the function took from outside. `argument_tree` is the structure of `(args, kwargs)`
    and `argument_leaves` says for each leaf of it which parameter it is, or the static value. `written` are the arrays from outside
    that the function writes to, and `stored` those of its own that it stored in objects from outside; the last results are the new contents
    of the ones and the values of the others.
    """

    graph: Graph
    operands: tuple[Value, ...]
    argument_count: int
    argument_tree: TreeSpec
    argument_leaves: tuple[OutLeaf, ...]
    out_tree: TreeSpec
    out_leaves: tuple[OutLeaf, ...]
    written: tuple[TracedArray, ...] = ()
    stored: tuple[TracedArray, ...] = ()

    def hand_on(self, values: Sequence[Value]) -> None:
        """Give written arrays their new contents, and hand stored ones on to the trace under way, `values` being the results of `graph`."""
        scope, last = active_scope(), len(self.graph.results)
        assert scope is not None
        first = last - len(self.stored)
        for array, value in zip(self.written, values[first - len(self.written):first], strict=True):
            array.assign(value)
        for array, value in zip(self.stored, values[first:last], strict=True):
            array.hand_on(value, scope)

    def rebuild(self, values: Sequence[Value]) -> Tree:
        """Build the function's result from these values of the trace under way, for the results of `graph`."""
        return unflatten(self.out_tree, (wrap(values[leaf]) if isinstance(leaf, int) else leaf.wrapped(values[leaf.index])
                                         if isinstance(leaf, NumberLeaf) else leaf.value for leaf in self.out_leaves))


def trace_region(fun: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any] | None = None, *,
                 name: str | None = None, writable: bool = False, hands_writes_on: bool = False,
                 differentiated: bool = False, axes: Sequence[int | None] = (), varying: int = 0) -> RegionTrace:
    """Trace `fun(*args, **kwargs)` into a closed region, within the trace under way. `differentiated`: with respect to its arguments.
    The first `varying` arrays have other values each time that the region is run: no decision of Python may depend on them.
    With `axes`, one for each leaf of the arguments, the function gets one example of each batch along such an axis; the operand is the
    batch, with this axis first.

    Arrays among the arguments, traced or plain, and Python floats become parameters; bools, integers, strings, callables
    and objects of the user's classes are static. If `writable`, the function may write to its arguments, which are copies; with
    `hands_writes_on` it may write to other arrays from outside.
    """
    outer = active_scope()
    if outer is None or not isinstance(outer.builder, GraphBuilder):
        raise TraceError("a region is traced outside of a trace", find_user_location())
    all_leaves, tree = flatten((tuple(args), dict(kwargs or {})))
    arguments = [leaf if is_static(leaf) or is_by_reference(leaf) else as_traced(leaf) for leaf in all_leaves]
    along = axes or [None] * len(arguments)
    operands = [leaf.value if axis is None else move_axis(leaf.value, axis, 0) for leaf, axis in zip(arguments, along, strict=True)
                if isinstance(leaf, TracedArray)]
    builder = GraphBuilder(name or function_name(fun), parent=outer.builder)
    scope = Scope(builder, parent=outer, hands_writes_on=hands_writes_on)
    scope.batched = scope.batched or bool(axes)
    scope.flow = None if scope.batched else recorder_of(scope)
    with entered(scope), _taking_back(scope), lifted_lists(scope):
        inner: list[Any] = []
        argument_leaves: list[OutLeaf] = []
        argument: Any = None
        given: Any = None
        for leaf, axis in zip(arguments, along, strict=True):
            if isinstance(leaf, TracedArray):
                outer_value = operands[len(builder.params)]
                argument_leaves.append(len(builder.params))
                if axis is not None:
                    param = builder.param(outer_value.type.with_shape(outer_value.type.shape[1:]), leaf.value.name)
                    builder.example_of[param] = outer_value
                    argument = wrap(param, writable=not param.type.shape)
                else:
                    param = builder.param(outer_value.type, leaf.value.name)
                    if len(argument_leaves) > varying:
                        builder.stands_for[param] = outer_value
                    argument = wrap(param, weak=leaf.weak, writable=writable or leaf.immutable, scalar=leaf.scalar)
                    argument.layout_known = leaf.layout_known and leaf.in_order
                given = all_leaves[len(inner)]
                inner.append(given.around(argument) if isinstance(given, ArrayWrapper) else argument)
            else:
                argument_leaves.append(StaticLeaf(leaf))
                inner.append(leaf)
        if differentiated:
            builder.differentiated = frozenset(builder.params)
        inner_args, inner_kwargs = unflatten(tree, inner)
        result = fun(*inner_args, **inner_kwargs)
        settle_lists(scope)
        check_arguments((inner_args, inner_kwargs), (inner, tree), fun, len(args))
        if scope.flow is not None:
            scope.flow.finish(result)
        values, out_tree, out_leaves = collect_results(result)
        written = tuple(array for array, _ in scope.written.values())
        del result, inner, inner_args, inner_kwargs, argument, given        # what lives on now is stored
        stored = tuple(array for made in scope.made if (array := made()) is not None)
        graph = builder.build([*values, *(array.value for array in (*written, *stored))])
    return RegionTrace(graph, (*operands, *builder.captures), len(operands), tree, tuple(argument_leaves), out_tree, out_leaves, written,
                       stored)


@contextmanager
def _taking_back(scope: Scope) -> Iterator[None]:
    """Take the writes to arrays from outside of a region back at its end: its values mean nothing outside."""
    try:
        yield
    finally:
        for array, before in scope.written.values():
            array.take_back(before)


def region_key(args: Sequence[Any]) -> tuple[Any, ...]:
    """Key of a region traced for these arguments at the user's line: calls with equal keys have equal regions, if the function reads
    nothing besides its arguments. Static leaves are compared by identity, so `args` have to be kept with the key."""
    leaves, tree = flatten(tuple(args))
    return find_user_location(), tree, *(
        id(leaf) if is_static(leaf) or is_by_reference(leaf) else _leaf_key(as_traced(leaf)) for leaf in leaves)


def _leaf_key(leaf: TracedArray) -> tuple[Any, ...]:
    return leaf.value.type, leaf.weak, leaf.scalar, leaf.immutable, leaf.layout_known and leaf.in_order


def inlined_once_traced(fun: Callable[..., Any], *arrays: TracedArray) -> Any:
    """Result of `fun(*arrays)`, a function that reads nothing besides its arguments. It is traced once for each key of the arguments; the
    ops of that trace are copied for other calls of the same outer trace."""
    scope = active_scope()
    if scope is None or not isinstance(scope.builder, GraphBuilder):
        return fun(*arrays)
    key = fun, *region_key(arrays)
    region = scope.root.shared.get(key)
    if region is None:
        region = scope.root.shared[key] = trace_region(fun, arrays)
        assert len(region.operands) == len(arrays), f"{function_name(fun)} captures values"
    return region.rebuild(scope.builder.inline(region.graph, [array.value for array in arrays]))
