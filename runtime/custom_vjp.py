"""`custom_vjp`: a function that brings its own derivative rule."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Generic, ParamSpec, TypeVar

import numpy as np

from adjit.ir import ops
from adjit.ir.builder import GraphBuilder
from adjit.ir.errors import ShapeError, TraceError
from adjit.ir.graph import Graph, Value
from adjit.ir.thread_context import thread
from adjit.ir.types import is_inexact
from adjit.runtime.transform_arguments import describe, match_leaves
from adjit.tracer.array import TracedArray, as_traced
from adjit.tracer.array_wrapper import find_wrapper
from adjit.tracer.region_trace import RegionTrace, region_key, trace_region
from adjit.tracer.scope import Scope, active_scope, entered
from adjit.tracer.trace import is_tracing
from adjit.tracer.tracebacks import hide_frames
from adjit.tracer.trees import flatten, optree, structure_text, unflatten
from adjit.tracer.user_location import find_user_location

Function = Callable[..., Any]
P = ParamSpec("P")
R = TypeVar("R")
Residuals = TypeVar("Residuals")

MAX_ORDER = 3
"""Order of derivatives up to which all derivatives use the rule; beyond it, calls within nested rules use the function's own code. The
limit is needed since each order is traced, and rules call themselves."""


class custom_vjp(Generic[P, R]):
    """`fun` with its own derivative rule, set by `.defvjp(forward, backward)`.

    `forward(*args)` returns (the output of `fun`, residuals), both trees. `backward(residuals, cotangent)` returns a tuple with one
    cotangent per argument, with the tree, shapes and dtypes of the argument; None stands for zero. The rule itself can be differentiated,
    and may call the function itself (derivatives beyond the third order are those of `fun`'s own code). The rule covers the arguments only:
    a derivative with respect to a value that `fun` closes over raises `NonDifferentiableError`.

    >>> import numpy as np
    >>> from adjit.runtime.transforms import grad
    >>> @custom_vjp
    ... def clipped(x):
    ...     return x
    >>> clipped.defvjp(lambda x: (x, None), lambda residuals, cotangent: (np.clip(cotangent, -1.0, 1.0),))
    >>> float(grad(lambda x: 5.0 * clipped(x))(2.0))
    1.0
    """

    __name__: str       # of the function, as the rest that functools.update_wrapper sets
    __wrapped__: Callable[P, R]

    def __init__(self, fun: Callable[P, R], constant_closures: bool = False):
        functools.update_wrapper(self, fun)
        self.fun = fun
        self.constant_closures = constant_closures      # True: captured values count as constants; else they are an error
        self.pure = False       # True: `fun` and its rule read nothing besides their arguments, so one trace serves many calls
        self.last: _Call | None = None      # the call that was traced last: after a forward rule, that of the next order
        self.rule: tuple[Function, Function] | None = None
        self._on_arrays = functools.wraps(fun)(functools.partial(self._call))
        self.__adjit_functions__: tuple[Function, ...] = ()     # for the guards of a trace: the rule may capture arrays, too

    def defvjp(self, forward: Callable[..., tuple[R, Residuals]], backward: Callable[[Residuals, Any], tuple[Any, ...]]) -> None:
        """Set the rule, once. Compiled programs keep the rule they were compiled with, so it cannot be replaced."""
        if self.rule is not None:
            raise TraceError(f"{describe(self)} has a derivative rule already", find_user_location(),
                             hint="define a new custom_vjp for another rule")
        self.rule = self.__adjit_functions__ = forward, backward

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            wrapper = find_wrapper(args, kwargs)
            if wrapper is not None:
                return wrapper.apply_wrapped(self._on_arrays, args, kwargs)       # type: ignore[no-any-return]
            return self._call(*args, **kwargs)      # type: ignore[no-any-return]
        except BaseException as error:
            hide_frames(error)
            raise

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        if not is_tracing():
            return self.fun(*args, **kwargs)
        if self.rule is None:
            raise TraceError(f"{describe(self)} is a custom_vjp without a rule", find_user_location(),
                             hint="call .defvjp(forward, backward) on it first")
        thread.context.rules_met += 1
        if thread.context.order >= MAX_ORDER:
            return self.fun(*args, **kwargs)
        given = _positional(self.fun, args, kwargs)
        scope = active_scope()
        with nullcontext(scope.root.shared) if self.pure and scope is not None else _shared_traces() as known:
            key = self, thread.context.order, *(region_key(given) if self.pure else _signature(given))
            call = known.get(key)
            if call is None:
                values = None if scope is None else scope.root.values
                asked = 0 if values is None else values.asked
                call = self.last = _Call(self, *self.rule, given)
                if not call.closed and (values is None or values.asked == asked):       # decisions on values are those of one call
                    known[key] = call       # `call.args` are kept with the key, which names some by identity
            return call.emit(given, self.constant_closures)


@contextmanager
def _shared_traces() -> Iterator[dict[Any, _Call]]:
    """Calls traced within the outermost call, each traced once: rules that call themselves and each other would otherwise be traced many
    times. Between calls a function that is not `pure` may see other Python state."""
    around = thread.context
    if around.calls is not None:
        yield around.calls
        return
    known: dict[Any, Any] = {}
    try:
        around.calls = known
        yield known
    finally:
        around.calls = None


@contextmanager
def _next_order() -> Iterator[None]:
    """Context in which calls are part of a derivative."""
    around = thread.context
    before = around.order
    try:
        around.order = before + 1
        yield
    finally:
        around.order = before


def _signature(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The key of a call's trace. Leaves that are not arrays are compared by identity, which is valid during the outermost call."""
    leaves, tree = flatten(args)
    arrays = [as_traced(leaf) if _is_array(leaf) else None for leaf in leaves]
    return tree, *(id(leaf) if array is None else (array.value.type, array.weak) for leaf, array in zip(leaves, arrays, strict=True))


class _Call:
    """A call within a trace: the function, its forward rule and its backward rule, each traced into a region."""

    def __init__(self, custom: custom_vjp[Any, Any], forward: Function, backward: Function, args: tuple[Any, ...]):
        self.name = describe(custom.fun)
        self.args = args
        self.leaves, self.tree = flatten(args)
        self.positions = [position for position, leaf in enumerate(self.leaves) if _is_array(leaf)]
        self.arrays = [as_traced(self.leaves[position]) for position in self.positions]
        self.primal = self.trace(custom.fun, self.name)
        self.captures: list[Value] = []        # outer values that the backward rule captures
        self.backward: Graph
        self.of_any_order = False       # True: the backward rule calls no function with a rule of its own
        with _next_order():
            custom.last = None
            self.forward = self.trace(lambda *args: self.pair(forward(*args)), f"{self.name}_forward")
            self.check_outputs()
            nested = custom.last
            if nested is not None and self.has_backward_of(nested):
                self.backward, self.captures, self.of_any_order = nested.backward, nested.captures, True
            else:
                met = thread.context.rules_met
                self.backward = self.trace_backward(backward)
                self.of_any_order = thread.context.rules_met == met

    def trace(self, fun: Function, name: str) -> RegionTrace:
        def flat(*arrays: TracedArray) -> Any:
            return fun(*self.rebuilt(arrays))
        return trace_region(flat, tuple(self.arrays), {}, name=name)

    def rebuilt(self, arrays: Sequence[Any]) -> Any:
        """The arguments, rebuilt with other arrays."""
        leaves = list(self.leaves)
        for position, array in zip(self.positions, arrays, strict=True):
            leaves[position] = array
        return unflatten(self.tree, leaves)

    def pair(self, returned: Any) -> tuple[Any, Any]:
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise TraceError(f"the forward rule of {self.name} has to return a pair (output, residuals)", find_user_location())
        return returned

    def check_outputs(self) -> None:
        expected = [value.type for value in self.primal.graph.results]
        found = [value.type for value in self.forward.graph.results[:len(expected)]]
        out_tree = optree.treespec_child(self.forward.out_tree, 0)
        if found != expected or out_tree != self.primal.out_tree:
            raise TraceError(
                f"the forward rule of {self.name} returns the output {structure_text(out_tree)} of {', '.join(map(str, found))}, "
                f"the function itself {structure_text(self.primal.out_tree)} of {', '.join(map(str, expected))}",
                find_user_location(), "both have to compute the same output")

    def has_backward_of(self, nested: _Call) -> bool:
        """True if the backward rule that was traced for a call of the next order is that of this call: it is run once, with what it does
        besides."""
        def key(call: _Call) -> tuple[Any, ...]:
            graph = call.forward.graph
            types = [value.type for value in (*graph.params[:len(call.arrays)], *graph.results)]
            return types, call.forward.out_tree, call.forward.out_leaves, call.tree, call.positions
        return (nested.of_any_order and key(nested) == key(self) and all(isinstance(leaf, int) for leaf in self.forward.out_leaves)
                and all(map(_is_visible, nested.captures)))

    def trace_backward(self, backward: Function) -> Graph:
        """The region of the backward rule. Parameters: the residuals, the captured values, the cotangents. Results: one cotangent per
        array."""
        scope = active_scope()
        assert scope is not None
        assert isinstance(scope.builder, GraphBuilder)
        builder = GraphBuilder(f"{self.name}_backward", scope.builder)
        count = len(self.primal.graph.results)
        with entered(Scope(builder, scope)):
            params = [builder.param(value.type, value.name) for value in self.forward.graph.results]
            cotangent, residuals = self.forward.rebuild(params)
            graph = builder.build(self.check_cotangents(backward(residuals, cotangent)))
        self.captures = list(builder.captures)
        return Graph(graph.name, (*params[count:], *builder.captures.values(), *params[:count]), graph.ops, graph.results)

    def check_cotangents(self, returned: Any) -> list[Value]:
        if not isinstance(returned, tuple) or len(returned) != len(self.args):
            given = f"{len(returned)} items" if isinstance(returned, tuple) else returned.__class__.__name__
            raise ShapeError(f"the backward rule of {self.name} has to return a tuple with one cotangent for each of its {len(self.args)} "
                             f"arguments, got {given}", find_user_location(), hint="None stands for a zero cotangent")
        found: list[Any] = []
        for index, (argument, cotangent) in enumerate(zip(self.args, returned, strict=True)):
            _, tree = flatten(argument)
            try:
                found += [None] * tree.num_leaves if cotangent is None else tree.flatten_up_to(cotangent)
            except ValueError:
                raise ShapeError(f"the backward rule of {self.name} returns cotangent {index} with the structure "
                                 f"{structure_text(flatten(cotangent)[1])}, expected {structure_text(tree)}",
                                 find_user_location()) from None
        return [self.check_cotangent(array, found[position]) for array, position in zip(self.arrays, self.positions, strict=True)]

    def check_cotangent(self, array: TracedArray, cotangent: Any) -> Value:
        type = array.value.type
        if cotangent is None or not is_inexact(type.dtype):
            return ops.constant(value=type.dtype.type(0).item(), dtype=type.dtype, shape=type.shape)
        (leaf,) = match_leaves(flatten(0.0)[1], [type], cotangent, f"a cotangent from the backward rule of {self.name}")
        return as_traced(leaf).value

    @property
    def closed(self) -> list[Value]:
        """Outer values captured by any of the regions."""
        count = len(self.arrays)
        return list(dict.fromkeys((*self.primal.operands[count:], *self.forward.operands[count:], *self.captures)))

    def emit(self, args: tuple[Any, ...], constant_closures: bool) -> Any:
        """Emit the call, with arguments like those of the trace. Captured values are operands of the call, so all regions have the same
        parameters."""
        count, closed = len(self.arrays), self.closed
        leaves, _ = flatten(args)
        primal, _ = _widened(self.primal, count, closed)
        forward, params = _widened(self.forward, count, closed)
        if self.captures:
            forward = forward.with_ops(forward.ops, (*forward.results, *(params[value] for value in self.captures)))
        # the residual parameters of the backward rule are in the order of the forward rule's results
        operands = (as_traced(leaves[position]).value for position in self.positions)
        outer = map(ops.stop_gradient, closed) if constant_closures else closed
        results = ops.custom_call.emit(*operands, *outer, regions=(primal, forward, self.backward))
        return self.primal.rebuild(results)


def _widened(region: RegionTrace, count: int, closed: Sequence[Value]) -> tuple[Graph, dict[Value, Value]]:
    """The region with a parameter for each captured value in `closed`, after its `count` arguments (the same object if there is none); and
    a map to these parameters."""
    if not closed:
        return region.graph, {}
    own = dict(zip(region.operands[count:], region.graph.params[count:], strict=True))
    params = {value: own.get(value) or Value(value.type, value.name) for value in closed}
    graph = region.graph
    return Graph(graph.name, (*graph.params[:count], *params.values()), graph.ops, graph.results), params


def _is_visible(value: Value) -> bool:
    """True if a value is one of the trace or the region under way, or of what is around it."""
    scope = active_scope()
    builder = None if scope is None else scope.builder
    while isinstance(builder, GraphBuilder) and not builder.owns(value):
        builder = builder.parent
    return isinstance(builder, GraphBuilder)


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, (TracedArray, np.ndarray, np.generic, float))


def _positional(fun: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """The arguments of a call by position, as the rule requires."""
    if not kwargs:
        return args
    bound = inspect.signature(fun).bind(*args, **kwargs)
    if bound.kwargs:
        raise TraceError(f"{describe(fun)} has a derivative rule, but its argument {', '.join(bound.kwargs)} is keyword-only",
                         find_user_location(), hint="allow the argument by position, too")
    return bound.args
