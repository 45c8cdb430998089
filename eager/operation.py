"""Differentiable operations of the dynamic graph: a graph of ops, run by NumPy, and the graph of its derivative.

The derivative is the same as for compiled functions: `passes.reverse_ad` over the same op records. Values of the forward half that the
backward half needs are saved: arguments, results, or *hidden* results, which no user sees.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Container, Sequence
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from adjit.codegen.numpy.chunks import STEP_BYTES, KernelCompiler
from adjit.codegen.numpy.graph_function import NumpyFunction, compile_graph
from adjit.ir import ops
from adjit.ir.builder import GraphBuilder
from adjit.ir.emitter import emitting
from adjit.ir.errors import Role, VerificationError
from adjit.ir.graph import Graph, Op, Value, needed_ops, walk
from adjit.ir.lazy_module import LazyModule
from adjit.ir.ops.traits import CALLS, SAVES_OPERANDS
from adjit.ir.thread_context import thread
from adjit.ir.types import is_inexact
from adjit.passes.autodiff.activity import active_values
from adjit.passes.autodiff.differentiate import differentiate, expand_vjps
from adjit.passes.autodiff.partition.split_joint import Partition, SavedValue, split_joint
from adjit.passes.autodiff.reverse_ad import pull_back, run_forward, zeros_like
from adjit.passes.options import Options
from adjit.passes.simplify.dead_code import eliminate_dead_code

if TYPE_CHECKING:
    from adjit.passes import prove_indices
    from adjit.passes.simplify import clean_up
else:
    clean_up = LazyModule("adjit.passes.simplify.clean_up")
    prove_indices = LazyModule("adjit.passes.prove_indices")

_OPTIONS = Options()


class Operation:
    """Function for operands of known types, some of which are differentiated.

    graph       its parameters are the operands; its first `results` results are the function's, the others are hidden.
    weak        indices of operands that are Python floats.
    wanted      indices of operands that are differentiated.
    saved       values that a node saves for the backward half.
    active      for each result, hidden ones too: True if a cotangent of it can matter.

    unexpanded  the original graph, if it calls functions with a rule of their own, or checkpoints: it is inlined into the graph of a
                capture, for derivatives of that graph; None for all other operations.
    has_rules   True if the graph calls functions with a rule of their own. The halves still contain the calls made by rules.
    layouts     for each result that is a view on a device, where it lies (`eager/views.py`); None for results that are copies.
    strided     makes the view of the first operand that the only result is, if no op of NumPy takes it; else None.

    `seeded` are the results that may have a cotangent; None for all. `force_requires_grad`: results require grad also if they do not
    depend on the differentiated operands. `views`: results are views of the first operand, if they can be.
    """

    recomputed = SAVES_OPERANDS
    saved_dtype: np.dtype | None = None
    is_derivative = False       # True for a backward half that is differentiated itself
    layouts: tuple[Any, ...] = ()
    strided: Callable[[np.ndarray], np.ndarray] | None = None

    def __init__(self, name: str, region: Graph, results: int, wanted: tuple[int, ...], weak: frozenset[int] = frozenset(),
                 seeded: Container[int] | None = None, force_requires_grad: bool = False, views: bool = False):
        self.name = name
        self.force_requires_grad = force_requires_grad
        self.views = views
        self.seeded = range(results) if seeded is None else seeded
        self.results = results
        self.weak = weak
        self.wanted: tuple[int, ...] = ()
        self.saved: tuple[SavedValue, ...] = ()
        self.active: tuple[bool, ...] = ()
        self._backward: dict[tuple[bool, ...], Backward] = {}
        self._by_rule: Backward | None = None
        self.graph = _clean_up(expand_vjps(region))
        calls = {op.name for op in walk(self.graph)} & CALLS
        self.unexpanded = self.graph if calls else None
        self.has_rules = "custom_call" in calls
        active = self._active(wanted)
        if any(active):
            self.wanted = wanted
            self._derive(active)
        elif self.unexpanded is not None:
            self.graph = _clean_up(differentiate(self.graph, _OPTIONS))

    @cached_property
    def function(self) -> NumpyFunction:
        """Operation on ndarrays."""
        return compile_graph(self.graph, self.weak, True) if self.views else self.lower(self.graph, self.weak)

    @cached_property
    def run(self) -> Callable[..., tuple[np.ndarray, ...]]:
        """`function.run`, found in one step."""
        return counted(self.function, False, self)

    def optimize(self, joint: Graph) -> Graph:
        """Optimize the joint graph before it is split: rules within rules stay calls, for derivatives of its halves."""
        return joint if self.has_rules else differentiate(joint, _OPTIONS)

    def lower(self, graph: Graph, weak: frozenset[int]) -> Any:
        """Lower a half to a function of ndarrays. Indices that are within their axis whatever the data are not checked."""
        opened = self.opened(graph)
        proven = prove_indices.prove_indices(opened, _OPTIONS)
        return compile_graph(opened if proven is opened else _clean_up(proven), weak)

    def opened(self, graph: Graph) -> Graph:
        """Inline all calls of a half, so that it can be run."""
        return _clean_up(differentiate(graph, _OPTIONS)) if self.has_rules else graph

    def again(self, name: str, graph: Graph, wanted: tuple[int, ...], weak: frozenset[int]) -> Operation:
        """Make another operation of this class."""
        return Operation(name, graph, len(graph.results), wanted, weak, force_requires_grad=True)

    def backward(self, given: tuple[bool, ...]) -> Backward:
        """Return the backward half for cotangents of these results (hidden ones too)."""
        found = self._backward.get(given)
        if found is None:
            by_rule = self.has_rules and any(given[:self.results])
            graph, slots = self._backward_by_rule(given) if by_rule else self._split_backward(given)
            found = self._backward[given] = Backward(self, graph, slots, given)
        return found

    def _split_backward(self, given: tuple[bool, ...]) -> tuple[Graph, tuple[int | None, ...]]:
        """Return the backward half for these cotangents, and its slots."""
        joint, slots = self._join(given)
        try:
            return split_joint(joint, len(self.graph.params), len(self.graph.results), self.saved).backward, slots
        except VerificationError:       # simplified for fewer cotangents, it takes an operand whose broadcast was saved
            graph, positions = self._backward_by_rule(given)
        found = [None if slot is None else position for slot, position in zip(slots, positions, strict=True)]
        known = [position for position in found if position is not None]
        graph = _clean_up(graph.with_ops(graph.ops, [graph.results[position] for position in known]))
        return graph, tuple(None if position is None else known.index(position) for position in found)

    def _join(self, given: tuple[bool, ...]) -> tuple[Graph, tuple[int | None, ...]]:
        """Make the joint graph for cotangents of these results. What a user calls has a gradient for each operand, zeros of `x ** 0`.
        Hidden results and derivatives have none for operands that they do not read: as in PyTorch, the bias of a layer has no gradient
        by a penalty on the gradient of the layer's input, and optimizers leave it alone."""
        fill_zeros = self.force_requires_grad and not self.is_derivative and any(given[:self.results])
        return _join(self.graph, self.wanted, given, self.force_requires_grad, fill_zeros, self.saved_dtype)

    def _backward_by_rule(self, given: tuple[bool, ...]) -> tuple[Graph, tuple[int | None, ...]]:
        """Return the same by the half for all results. A function with its own rule needs cotangents of all its results, and the forward
        half no longer contains the rule: missing cotangents are zeros, and the half for the hidden results is added."""
        rule = self._by_rule
        assert rule is not None
        builder = GraphBuilder(self.graph.name)
        params = [builder.param(value.type, value.name) for value in rule.graph.params[:len(self.saved)]]
        cotangents = {index: builder.param(self.graph.results[index].type, "cotangent") for index, known in enumerate(given) if known}
        with emitting(builder), builder.at(role=Role.ADJOINT):
            filled = [cotangents.get(index) or zeros_like(self.graph.results[index]) for index, known in enumerate(rule.given) if known]
            partition = [(rule.slots, builder.inline(rule.graph, (*params, *filled)))]
            if any(given[self.results:]):
                of_hidden = self.backward((*(False,) * self.results, *given[self.results:]))
                arrived = [cotangent for index, cotangent in cotangents.items() if index >= self.results]
                partition.append((of_hidden.slots, builder.inline(of_hidden.graph, (*params, *arrived))))
            gradients: list[Value] = []
            slots: list[int | None] = []
            for positions in zip(*(which for which, _ in partition), strict=True):
                parts = [results[position] for position, (_, results) in zip(positions, partition, strict=True) if position is not None]
                slots.append(len(gradients) if parts else None)
                gradients += [reduce(ops.add, parts)] if parts else []
        return _clean_up(builder.build(gradients)), tuple(slots)

    def _derive(self, active: tuple[bool, ...]) -> None:
        """Determine the values that the backward half needs, with cotangents of all results that can have one."""
        joint, slots = self._join(active)
        inputs = len(self.graph.params)
        partition = split_joint(self.optimize(joint), inputs, self.results, recomputed_ops=self.recomputed)
        if self.has_rules or any(op.definition.first_alone for op in self.graph.ops):      # vectors that are saved depend on eigenvalues
            partition = _keeping_all(partition, inputs)
        self.graph, self.saved = partition.forward, partition.saved
        hidden = len(self.graph.results) - self.results
        self.active = (*active, *self._active(self.wanted)[self.results:])      # the forward half no longer contains the rules
        given = (*active, *(False,) * hidden)
        self._by_rule = self._backward[given] = Backward(self, partition.backward, slots, given)

    def _active(self, wanted: Sequence[int]) -> tuple[bool, ...]:
        """Flags of the results that depend on the wanted parameters in a way that has a derivative."""
        graph = self.graph
        if not wanted:
            return (False,) * len(graph.results)
        floats = [index for index, value in enumerate(graph.results)
                  if is_inexact(value.type.dtype) and (index in self.seeded or index >= self.results)]
        path = active_values(graph, wanted, floats)
        return tuple(index in floats and (self.force_requires_grad or value in path) for index, value in enumerate(graph.results))


class Backward:
    """Backward half of an operation, for cotangents of the results `given`.

    Its graph takes the saved values, then these cotangents; it returns the gradients. `slots` is, for each wanted operand, the index of its
    gradient among the results of the graph; None if the gradient is zero.
    """

    def __init__(self, operation: Operation, graph: Graph, slots: tuple[int | None, ...], given: tuple[bool, ...]):
        self.name = operation.name
        self.of = operation
        self.graph = graph
        self.slots = slots
        self.given = given
        self.weak = frozenset(number for number, position in enumerate(operation.saved)
                              if not position.is_result and position.index in operation.weak)
        self._operations: dict[tuple[int, ...], Operation] = {}

    @cached_property
    def function(self) -> NumpyFunction:
        """Backward half on ndarrays."""
        return self.of.lower(self.graph, self.weak)

    @cached_property
    def run(self) -> Callable[..., tuple[np.ndarray, ...]]:
        """`function.run`, found in one step."""
        return counted(self.function, False, self)

    def for_operands(self, operands: Sequence[Any]) -> Backward:
        """The backward half for operands of these shapes."""
        return self

    def operation(self, wanted: tuple[int, ...]) -> Operation:
        """Return the backward half as an operation that can be differentiated itself."""
        found = self._operations.get(wanted)
        if found is None:
            stem = self.name.removesuffix("0")
            found = self._operations[wanted] = self.of.again(f"{stem}Backward{self.name[len(stem):]}", self.graph, wanted, self.weak)
            found.is_derivative = True
        return found


CALLS_BEFORE_STEPS = 8
"""Calls after which a small function is made machine code, which takes as long as some hundred calls."""


def counted(function: NumpyFunction, single: bool, owner: Any) -> Callable[..., Any]:
    """`run` of a function, or `run_single`, which counts its calls if the function is small or quick: after some, it makes machine
    code the `run` of its owner, if there is some for it."""
    is_counted = KernelCompiler.step_function is not None and isinstance(function, NumpyFunction)
    types = (*function.params, *function.results) if is_counted else ()
    if not types or (any(type.nbytes > STEP_BYTES for type in types) and not function.is_quick):
        return function.run_single if single else function.run
    return _Counted(function, single, owner)


class _Counted:
    """`run` of an owner, until that is machine code. One result is taken from its tuple: `run_single` is compiled anew, which takes as long
    as hundreds of calls."""

    __slots__ = ("_calls", "_function", "_owner", "_run", "_single")

    def __init__(self, function: NumpyFunction, single: bool, owner: Any):
        self._function, self._single, self._run, self._owner, self._calls = function, single, function.run, weakref.ref(owner), 0

    def __call__(self, *arrays: Any) -> Any:
        self._calls += 1
        if not self._calls % CALLS_BEFORE_STEPS and KernelCompiler.step_function is not None:
            made, owner = KernelCompiler.step_function(self._function, self._single), self._owner()
            if made is not None and owner is not None and owner.run is self:
                owner.run = made
        found = self._run(*arrays)
        return found[0] if self._single else found


def _clean_up(graph: Graph) -> Graph:
    """The graph without what does nothing. In a trace that counts rows, numbers stay that are special for this number of rows alone."""
    return (clean_up.clean_up if thread.context.row_probe is None else eliminate_dead_code)(graph, _OPTIONS)


def _join(graph: Graph, wanted: Sequence[int], given: Sequence[bool], force_requires_grad: bool, fill_zeros: bool,
          saved_dtype: np.dtype | None) -> tuple[Graph, tuple[int | None, ...]]:
    """Make the joint graph, with its gradients: cotangents of the results `given` are parameters too. Also returns each gradient's index
    among the results.

    Gradients of values that these results depend on are never left out, though they may be zero; with `fill_zeros` no gradient is.
    """
    builder = GraphBuilder(graph.name)
    params: list[Value] = [builder.param(value.type, value.name) for value in graph.params]
    seeds = {index: builder.param(graph.results[index].type, "cotangent") for index, is_given in enumerate(given) if is_given}
    with emitting(builder), builder.at(role=Role.ADJOINT):
        forward = run_forward(builder, graph, params, wanted, seeds, saved_dtype=saved_dtype)
        cotangents = pull_back(builder, forward, seeds)
        reached: Container[Value] = forward.active
        if force_requires_grad:
            seeded = [graph.results[index] for index in seeds]
            reached = {*seeded, *(value for op in needed_ops(graph.ops, seeded) for value in op.operands)}
        for index in wanted:
            if cotangents[index] is None and (fill_zeros or graph.params[index] in reached):
                cotangents[index] = zeros_like(params[index])
    gradients: list[Value] = []
    slots: list[int | None] = []
    for index in wanted:
        value = cotangents[index]
        slots.append(None if value is None else len(gradients))
        gradients += [] if value is None else [value]
    return _clean_up(builder.build((*forward.results, *gradients))), tuple(slots)


def _keeping_all(partition: Partition, inputs: int) -> Partition:
    """Partition that saves all parameters: derivatives of a rule's saved values may need any of them."""
    saved = tuple(sorted({*partition.saved, *(SavedValue(False, index) for index in range(inputs))}))
    builder = GraphBuilder(partition.backward.name)
    types = {SavedValue(False, index): value for index, value in enumerate(partition.forward.params)}
    types.update(zip(partition.saved, partition.backward.params, strict=False))
    params = {position: builder.param(types[position].type, types[position].name) for position in saved}
    cotangents = [builder.param(value.type, value.name) for value in partition.backward.params[len(partition.saved):]]
    results = builder.inline(partition.backward, (*(params[position] for position in partition.saved), *cotangents))
    return Partition(partition.forward, builder.build(results), saved)


def without_locations(graph: Graph) -> Graph:
    """Remove the locations of a graph: an operation is traced once, and called from many lines."""
    return graph.with_ops([Op(op.definition, op.operands, op.results, op.attrs, op.regions, None, op.role, op.slots) for op in graph.ops])
