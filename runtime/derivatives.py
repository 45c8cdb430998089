"""Derivatives of Python functions, emitted into the current trace: the function becomes a region, the derivative a `vjp` op."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.builder import GraphBuilder
from adjit.ir.dataclass import dataclass
from adjit.ir.emitter import emitting
from adjit.ir.errors import NonDifferentiableError, TraceError
from adjit.ir.graph import Value
from adjit.ir.types import TensorType, is_inexact
from adjit.runtime.number_lists import stacked_lists, unstacked_lists
from adjit.runtime.transform_arguments import Arguments, choose_arguments, describe
from adjit.tracer.array import TracedArray, as_traced, held_traced, wrap
from adjit.tracer.array_wrapper import ArrayWrapper
from adjit.tracer.region_trace import RegionTrace, trace_region
from adjit.tracer.scope import active_scope
from adjit.tracer.trees import TreeSpec, flatten, unflatten
from adjit.tracer.user_location import find_user_location, return_location


@dataclass(frozen=True, slots=True)
class Primal:
    """A function, traced once for its derivatives.

    The region takes the leaves of `arguments` first. Its first results are the leaves of the output (tree `out_tree`), all float, of types
    `outputs`; the leaves of the auxiliary output follow.
    """

    arguments: Arguments
    region: RegionTrace
    out_tree: TreeSpec
    outputs: tuple[TensorType, ...]

    def run(self) -> tuple[Any, Any]:
        """The output and the auxiliary output of the function."""
        return self.rebuild(ops.vjp.emit(*self.region.operands, regions=(self.region.graph,), wrt=(), cotangents=()))

    def pull_back(self, seeds: Mapping[int, Value]) -> tuple[Any, Any, list[TracedArray]]:
        """The output, the auxiliary output, and the cotangents of the argument leaves. `seeds` has the cotangents of outputs, by index."""
        results = self._pullback(self.region.operands, seeds)
        count = len(self.region.graph.results)
        self.region.hand_on(results)
        return *self.rebuild(results[:count]), [wrap(value) for value in results[count:]]

    def push_forward(self, tangents: Sequence[Value]) -> tuple[Any, Any, Any]:
        """The output, the auxiliary output, and the tangent of the output; `tangents` are given for all argument leaves."""
        results = self._pushforward(self.region.operands, tangents)
        count = len(self.region.graph.results)
        pushed = [wrap(value) for value in results[count + len(self.arguments.leaves):]]
        return *self.rebuild(results[:count]), unflatten(self.out_tree, pushed)

    def pushed(self, operands: Sequence[Value], tangents: Sequence[Value]) -> tuple[Value, ...]:
        """The tangents of the outputs alone, for these operands of the region."""
        return self._pushforward(operands, tangents)[len(self.region.graph.results) + len(self.arguments.leaves):]

    def pulled(self, operands: Sequence[Value], seeds: Mapping[int, Value]) -> tuple[Value, ...]:
        """The cotangents of the argument leaves alone, for these operands of the region."""
        return self._pullback(operands, seeds)[len(self.region.graph.results):]

    def _pullback(self, operands: Sequence[Value], seeds: Mapping[int, Value]) -> tuple[Value, ...]:
        return ops.vjp.emit(*operands, *seeds.values(), regions=(self.region.graph,), wrt=tuple(range(len(self.arguments.leaves))),
                            cotangents=tuple(seeds))

    def _pushforward(self, operands: Sequence[Value], tangents: Sequence[Value]) -> tuple[Value, ...]:
        """Results of the region, zeros, and the tangents of the outputs.

        The pullback is linear in the cotangent; its own pullback is the pushforward (J. Townsend, "A new trick for
        calculating Jacobian vector products", 2017).
        """
        graph = self.region.graph
        builder = GraphBuilder(f"pullback_{graph.name}")
        location = find_user_location()
        inner = [builder.param(value.type, value.name) for value in graph.params]
        cotangents = [builder.param(type) for type in self.outputs]
        count, leaves = len(graph.results), len(self.arguments.leaves)
        with emitting(builder), builder.at(loc=location):
            pulled = self._pullback(inner, dict(enumerate(cotangents)))
        zeros = [ops.constant(value=0.0, dtype=type.dtype, shape=type.shape) for type in self.outputs]
        return ops.vjp.emit(
            *operands, *zeros, *tangents, regions=(builder.build(pulled),),
            wrt=tuple(range(len(inner), len(inner) + len(cotangents))), cotangents=tuple(range(count, count + leaves)))

    def rebuild(self, results: Sequence[Value]) -> tuple[Any, Any]:
        """The output and the auxiliary output from the results of the region."""
        leaves, aux = self.region.rebuild(results)
        return unflatten(self.out_tree, leaves), aux

    def gradients(self, leaves: Sequence[Any]) -> tuple[Any, ...]:
        """The gradients: one tree per differentiated argument."""
        trees: tuple[Any, ...] = unflatten(self.arguments.tree, leaves)
        return trees


def trace_primal(fun: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], argnums: Sequence[int], transform: str,
                 has_aux: bool = False, pulled_once: bool = False, lists_are_arrays: bool = False) -> Primal:
    """Trace `fun(*args, **kwargs)` for the derivative named `transform`, with respect to the arguments `argnums`. What the function writes
    to these arguments, it writes to copies. It may write to other arrays if its derivative is `pulled_once`. With `lists_are_arrays` lists
    of numbers among these arguments and in the output are leaves, as the arrays of them.

    Raises `NonDifferentiableError` for arguments or outputs that are not floats.
    """
    chosen = {number % len(args) for number in argnums} if lists_are_arrays and args else set()
    arrays = [stacked_lists(arg) if number in chosen else arg for number, arg in enumerate(args)]
    arguments = choose_arguments(fun, arrays, argnums, transform)
    what = f"{transform} of {describe(fun)}"
    trees: list[TreeSpec] = []

    def flat(*leaves: Any) -> tuple[list[TracedArray], Any]:
        given = [old.around(leaf) if isinstance(old, ArrayWrapper) else leaf for old, leaf in zip(arguments.leaves, leaves, strict=True)]
        replaced = arguments.replaced(given)
        for number in chosen:
            replaced[number] = unstacked_lists(replaced[number], args[number])
        out, aux = fun(*replaced, **kwargs), None
        if has_aux:
            if not isinstance(out, tuple) or len(out) != 2:
                raise TraceError(f"{what}: has_aux=True needs a function that returns a pair (output, anything)", find_user_location())
            out, aux = out
        out_leaves, out_tree = flatten(stacked_lists(out) if lists_are_arrays else out)
        trees.append(out_tree)
        aux_leaves, aux_tree = flatten(aux)
        return [_float_output(leaf, what, fun) for leaf in out_leaves], unflatten(aux_tree, map(_opened, aux_leaves))

    outer = active_scope()
    memos = None if outer is None else outer.root.memos
    if memos is not None:
        memos.clear_caches(fun)
    hits = 0 if memos is None else len(memos.hits)
    region = trace_region(flat, tuple(map(as_traced, arguments.leaves)), {}, name=describe(fun), writable=True,
                          hands_writes_on=pulled_once, differentiated=True)
    if memos is not None and memos.hits[hits:] and outer is not None:
        memos.check(memos.hits[hits:], region.graph, region.operands, outer.builder, region.argument_count, trees[-1].num_leaves, what)
    outputs = tuple(value.type for value in region.graph.results[:trees[-1].num_leaves])
    return Primal(arguments, region, trees[-1], outputs)


def traced_values(leaves: Sequence[Any]) -> list[Value]:
    """The values of arrays in the current trace."""
    return [as_traced(leaf).value for leaf in leaves]


def _opened(leaf: Any) -> Any:
    if isinstance(leaf, ArrayWrapper):
        return leaf.traced()
    held = held_traced(leaf)
    return leaf if held is None else held


def _float_output(leaf: Any, what: str, fun: Callable[..., Any]) -> TracedArray:
    """An output as a traced array of floats. An integer that depends on no argument is a number like others: `return 10**6` is a penalty
    whose gradient is 0. An integer or truth value that was computed from arguments is a step function, which is an error."""
    given = leaf = _opened(leaf)
    if issubclass(type(leaf), (int, np.integer)) and type(leaf) is not bool:
        leaf = float(leaf)
    found = f"a {type(leaf).__name__}"
    if isinstance(leaf, (TracedArray, np.ndarray, np.generic, bool, int, float, complex)):
        traced = as_traced(leaf)
        if is_inexact(traced.value.type.dtype):
            return traced
        found = f"the Python bool {leaf}" if type(leaf) is bool else traced._origin() if issubclass(type(leaf), TracedArray) else \
            str(traced.value.type)
    raise NonDifferentiableError(
        f"{what}: an output is {found}", return_location(fun, given) or find_user_location(),
        "only floating-point outputs have derivatives (grad and value_and_grad take other results beside the output: has_aux=True)")
