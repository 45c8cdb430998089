"""Compilation of functions with tensors: every tensor recorded in the trace, tensors updated in place, results connected to the dynamic
graph."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from adjit.eager.capture import capturing
from adjit.eager.modes import modes
from adjit.eager.node import Edge, Node, SavedTensor, edge_of
from adjit.eager.tensor import Tensor
from adjit.ir.dataclass import dataclass
from adjit.ir.errors import TraceError
from adjit.ir.graph import Graph
from adjit.ir.lazy_module import LazyModule
from adjit.ir.ops.guard import Outcome
from adjit.ir.verifier import Stage
from adjit.passes.autodiff.differentiate import differentiate
from adjit.passes.autodiff.partition.split_joint import SavedValue
from adjit.passes.options import Options
from adjit.runtime.capture.compiled_operation import CompiledOperation
from adjit.runtime.capture.state_guard import StateGuard, filled_later, numbers_filled_in, stateful_in
from adjit.runtime.capture.stored_state import ChangedNumbers, Slot
from adjit.runtime.capture.tensor_effects import CapturedFunction, Effects, TensorRef, make_effects, tensor_positions
from adjit.runtime.capture.tensor_names import name_tensors
from adjit.runtime.compile_graph import CompiledGraph, DeferredPipeline, compile_graph
from adjit.runtime.compile_options import CompileOptions
from adjit.tracer.array import TracedArray
from adjit.tracer.array_checks import as_content
from adjit.tracer.array_wrapper import held_by
from adjit.tracer.flow.flow_graph import FlowGraph
from adjit.tracer.guards.reachability import Reachability
from adjit.tracer.reentrancy import isolated_from_handlers
from adjit.tracer.signature import CallSignature
from adjit.tracer.trace import KnownArrays, Trace, trace_function, trace_roots
from adjit.tracer.user_location import find_user_location, line_that_changes
from adjit.tracer.value_guards import CallValues

if TYPE_CHECKING:
    from adjit.passes import pipeline as pass_pipeline
    from adjit.passes.pipeline import PipelineResult
else:
    pass_pipeline = LazyModule("adjit.passes.pipeline")

@dataclass(slots=True)
class TensorProgram:
    """The tensor side of a program: its effects, and the operation that made its results, if the results have a gradient.

    `order[i]` is the program's result number for result i of the trace; values saved for the backward half follow the results. `operands`
    has a tensor reference for each parameter that is the content of a tensor, else None. `undo` reverts changes made to optimisers by the
    trace. `row_param` is a parameter that has the rows of a program for any number of them, which is the last parameter.
    """

    effects: Effects
    operation: CompiledOperation | None
    order: tuple[int, ...] | None
    operands: tuple[TensorRef | None, ...]
    undo: Callable[[], None] | None
    row_param: int | None = None

    def in_order(self, outs: Sequence[Any]) -> Sequence[Any]:
        """The results of the program in the order of the trace."""
        return outs if self.order is None else [outs[slot] for slot in self.order]

    def finish(self, arrays: Sequence[np.ndarray], outs: Sequence[Any], all_leaves: Sequence[Any]) -> tuple[Any, list[Any]]:
        """Write back the function's changes, and return its result, and tensors to be stored outside."""
        results = self.in_order(outs)
        operation = self.operation
        self.undo = None
        if operation is None:
            return self.effects.finish(results, all_leaves, None)
        operands = [None if slot is None else slot.find(all_leaves) for slot in self.operands]
        written = {id(ref.find(all_leaves)._writes) for ref, _, _ in self.effects.writes}
        return self.effects.finish(results, all_leaves, lambda made: _connect(operation, operands, arrays, results, made, written))

    def result_number(self, slot: SavedValue) -> int | None:
        """The number of the program's result that is saved in this slot for the backward half; None if a parameter is saved."""
        if not slot.is_result:
            return None
        return slot.index if self.order is None else self.order[slot.index]

    def take_back(self) -> None:
        """Undo the changes made by the trace, if the program never ran."""
        if self.undo is not None:
            self.undo()
            self.undo = None


@dataclass(frozen=True, slots=True)
class Captured:
    """Effects of a trace on tensors, and an undo for changes that the trace has really made."""

    effects: Effects
    undo: Callable[[], None]


@isolated_from_handlers
def trace_with_tensors(fun: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], static_names: frozenset[str],
                       signature: CallSignature, arrays: KnownArrays | None = None, outcomes: Sequence[Outcome] = (),
                       flow: FlowGraph | None = None) -> tuple[Trace, Captured | None]:
    """Trace a function. Returns the trace, and its effects on tensors; None if the trace meets no tensor. `arrays`: see
    `trace_function`. `outcomes` are those of the first guards on values, if they are known; `flow` is what is known of the ways
    through the function."""
    try:
        return _trace(fun, args, kwargs, static_names, signature, arrays, outcomes, flow, ())
    except ChangedNumbers as changed:       # which are read at each call
        return _trace(fun, args, kwargs, static_names, signature, arrays, outcomes, flow, changed.slots)


def _trace(fun: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], static_names: frozenset[str],
           signature: CallSignature, arrays: KnownArrays | None, outcomes: Sequence[Outcome], flow: FlowGraph | None,
           numbers: Sequence[Slot]) -> tuple[Trace, Captured | None]:
    """As `trace_with_tensors`, with some numbers of modules and optimisers as parameters."""
    with capturing() as capture:
        roots = signature.identity_keyed()
        reach = Reachability(trace_roots(fun, signature))
        sources = reach.found
        reachable = [source.value for source in sources]
        # the state of compiled modules belongs to the modules that they compile
        watched = [getattr(value, "__wrapped__", value) for value in (*roots, *stateful_in([*held_by(fun), *reachable]))]
        before, counts = StateGuard(watched), numbers_filled_in(watched)
        function = CapturedFunction(fun, capture, tensor_positions(signature.all_leaves), before, numbers, filled_later(watched),
                                  {id(value) for value in reachable})
        try:
            trace = trace_function(function, args, kwargs, static_names=static_names, name=function.__name__, reachability=reach,
                                   arrays=arrays,
                                   call_values=CallValues(lambda graph: differentiate(graph, Options()), outcomes, flow), takes_back=True,
                                   integers=signature.integers())
        except BaseException:
            before.restore()
            raise
        changed, slot = before.first_change(filled_later(watched))
        if changed:
            before.restore(filled_later(watched))
            written = capture.attributes_set.get(slot) or line_that_changes(
                (code for code in reach.codes if code.co_name != "__init__"), changed)
            raise TraceError(f"the compiled function changes {changed}; later calls would not change this attribute or container again"
                             f"{'' if written else ' (the line that does it is not known; this is the call)'}",
                             written or find_user_location(),
                             hint="call train() or eval() before the compiled function, not in it" if changed.endswith(".training") else
                             "append to a list without reading it, or empty it first (clear()): each call does so again; or return the "
                             "values" if slot[1] is None else
                             "use a tensor and write to it in place (x += 1), or make the change outside of the function")
        _check_counts(counts, numbers_filled_in(watched), partial(before.restore, filled_later(watched)))
    assert function.tree is not None
    trace = replace(trace, signature=signature)
    if not capture.entries and not capture.numbers and not capture.gradients and not function.tensors and not function.slots and (
            not capture.calls_after):
        return replace(trace, out_tree=function.tree), None
    known = len(signature.leaves) + len(trace.captured)
    arguments = zip(signature.leaf_paths(), signature.all_leaves, strict=True)
    name_tensors(capture, [*arguments, *(("self", value) for value in held_by(fun)), *((item.path, item.value) for item in sources)])
    reached = {id(source.value) for source in trace.guards.fixed}
    varying = reach.names.isdisjoint(_READING_NUMBERS)
    effects = make_effects(function, trace.graph.params[known:], watched, reached, trace, reach.names, varying)
    try:
        _check_escaped(function, before)
    except TraceError:
        trace.restore()
        for each in reversed(trace.kept):
            each.restore()
        capture.undo()
        before.restore()
        raise
    return trace, Captured(effects, capture.undo)


_READING_NUMBERS = frozenset({"param_groups", "get_last_lr", "get_lr"})
"""Names in the user's code that read an optimiser's numbers: such numbers are constants of the program, not read at each call."""


def _check_counts(then: Mapping[Any, Any], now: Mapping[Any, Any], restore: Callable[[], None]) -> None:
    """Raise `TraceError` for a function that counts with Python numbers in an optimiser's state."""
    for slot, (text, number) in now.items():
        if slot not in then or then[slot][1] != number:
            restore()
            raise TraceError(f"the compiled function changes {text} to {number!r}; later calls would not change this Python number again",
                             find_user_location(), hint="count in a tensor: state[\"step\"] = aj.zeros(()), and += 1")


def _check_escaped(function: CapturedFunction, before: StateGuard) -> None:
    """Raise `TraceError` for a function that stores tensors, modules or optimisers which it made outside of it: the program makes none."""
    wrappers, made = function.forget(), function.capture.made
    if not made and not _escaped(wrappers):
        return
    gc.collect()        # frees objects that are only in reference cycles
    escaped = _escaped(wrappers)
    for value, location in made.values():
        if value() is not None:
            raise TraceError(
                f"an object of type {type(value()).__name__} created inside the compiled function was returned, or stored outside of it "
                "(in an attribute, a list or a cache); later calls would not store it again", location or find_user_location(),
                hint="create the object before the call, and pass it in; objects that only the function uses may be created in it")
    if escaped:
        slot = before.changed()        # state that an optimiser fills at its first step; our own optimisers allocate it in the trace
        raise TraceError(
            "a tensor created inside the compiled function was stored outside of it "
            f"({escaped[0].array._origin().splitlines()[0]}) in {slot or 'a list, a dict or an attribute'}; "
            "later calls would not store it again", find_user_location(),
            hint="take one step without compile, so that the state exists, and write to it in place in later steps (buffer.mul_(0.9)); "
                 "counts must be tensors, too" if slot else
            "return the tensor (also a tensor that a hook collects); create tensors that later calls need, such as a mask, before the call"
            "; a list to which the function appends tensors may not be read in it, as len(kept) does after kept.append(x)")


def _escaped(wrappers: Sequence[weakref.ref[Any]]) -> list[Tensor]:
    return [tensor for tensor in (wrapper() for wrapper in wrappers)
            if isinstance(tensor, Tensor) and isinstance(tensor.array, TracedArray)]


def lower_with_tensors(graph: Graph, captured: Captured, trace: Trace, compile_options: CompileOptions, verify: bool, threads: int,
                       update_in_place: bool, on_pass: Callable[[str, Graph], None] | None) -> tuple[TensorProgram, Graph, CompiledGraph]:
    """Compile a trace with tensors. Returns the tensor side, the graph that was compiled, and its compilation."""
    effects = captured.effects
    updates = updates_of(trace, effects) if update_in_place else []
    rolled = pass_pipeline.run_rolling(graph, compile_options.pass_options, verify) if is_connected(effects) else None
    operation = None if rolled is None else make_operation(rolled.final, trace, effects, compile_options, verify, threads)
    forward, order = with_updates(graph, updates) if operation is None else forward_half(operation, updates)
    operands = tuple(effects.refs.get(value) for value in trace.graph.params)
    tensors = TensorProgram(effects, operation, order, operands, captured.undo)
    if operation is None:
        return tensors, forward, compile_graph(forward, compile_options.backend, compile_options.pass_options, threads, verify, on_pass,
                                               card=compile_options.card)
    half = compile_graph(operation.opened(forward), compile_options.backend, compile_options.pass_options, threads, verify, on_pass,
                         "HALF", Stage.ADJOINT, compile_options.card)
    joint, before = operation.joint, () if rolled is None else rolled.records
    assert joint is not None

    def both() -> PipelineResult:
        graphs = {**half.pipeline.graphs, "traced": graph, "adjoint": joint.graphs.get("adjoint", joint.final)}
        return pass_pipeline.PipelineResult(graphs, (*before, *joint.records, *half.pipeline.records))

    return tensors, forward, replace(half, pipeline=DeferredPipeline(both))


def updates_of(trace: Trace, effects: Effects) -> list[tuple[int, int]]:
    """What a trace writes to: parameters, with the results that are their new content."""
    number = {value: index for index, value in enumerate(trace.graph.params)}
    return [*trace.writes, *((number[value], result) for _, value, result in effects.writes)]


def is_connected(effects: Effects) -> bool:
    """True if results are tensors that may have a gradient with respect to others."""
    return any(effects.tensors.values()) and bool(effects.differentiable)


def make_operation(graph: Graph, trace: Trace, effects: Effects, compile_options: CompileOptions, verify: bool, threads: int
                   ) -> CompiledOperation | None:
    """The graph of a trace as an operation, if some of its results have a gradient with respect to some tensors; else None."""
    number = {value: index for index, value in enumerate(trace.graph.params)}
    seeded = {result for result, force_requires_grad in effects.tensors.items() if force_requires_grad}
    wanted = tuple(sorted(number[value] for value in effects.differentiable))
    operation = CompiledOperation("CompiledBackward", graph, len(graph.results), wanted, seeded, compile_options, verify, threads)
    if operation.wanted or not effects.reached:
        return operation if operation.wanted else None
    zeros = tuple(sorted(number[value] for value in effects.reached))       # no result depends on these: zero gradients
    return CompiledOperation("CompiledBackward", graph, len(graph.results), zeros, seeded, compile_options, verify, threads,
                             force_requires_grad=True)


def forward_half(operation: CompiledOperation, updates: Sequence[tuple[int, int]]) -> tuple[Graph, tuple[int, ...] | None]:
    """The forward half with its updates, as `with_updates`; what is saved for the backward half is not overwritten."""
    kept = {slot.index for slot in operation.saved if not slot.is_result}
    return with_updates(operation.graph, [(param, result) for param, result in updates if param not in kept])


def with_updates(graph: Graph, updates: Sequence[tuple[int, Any]]) -> tuple[Graph, tuple[int, ...] | None]:
    """The graph with the results of `updates` (parameter, result) last, in the order of the parameters, which are updated in place; and the
    new number of each result."""
    if not updates:
        return graph, None
    last = [slot for _, slot in sorted(updates)]
    order = (*(slot for slot in range(len(graph.results)) if slot not in last), *last)
    roles = list(graph.param_roles)
    for param, _ in updates:
        roles[param] = "updated"
    where = {slot: index for index, slot in enumerate(order)}
    return replace(graph, results=tuple(graph.results[slot] for slot in order), param_roles=tuple(roles)), \
        tuple(where[slot] for slot in range(len(order)))


def _connect(operation: CompiledOperation, operands: Sequence[Any], arrays: Sequence[np.ndarray], results: Sequence[Any],
             made: Mapping[int, Tensor], written: Collection[int]) -> None:
    """Give new tensors, keyed by the number of their result, a node of the dynamic graph. Arrays of the caller are saved as copies: they
    have no version counter that would show that they were overwritten before the backward pass. So are constants that the program writes
    to: `written` has their counters' identities."""
    edges: list[Edge | None] = [None] * len(operands)
    for index in operation.wanted:
        edges[index] = edge_of(operands[index])
    saved: list[SavedTensor | None] = []
    for slot in operation.saved:
        owner = made.get(slot.index) if slot.is_result else operands[slot.index]
        is_copied = isinstance(owner, Tensor) and not slot.is_result and edges[slot.index] is None and id(owner._writes) in written
        counter = owner._writes if isinstance(owner, Tensor) and not is_copied else None
        if slot.is_result:
            array = as_content(results[slot.index]) if owner is None else owner.array
        else:
            array = arrays[slot.index] if counter is not None else as_content(arrays[slot.index]).copy()
        saved.append(SavedTensor(array, counter, 0 if counter is None else counter[0]))
    node = Node(operation, tuple(edges), saved, find_user_location() if modes.anomaly else None)
    for index, tensor in made.items():
        tensor._node, tensor._index, tensor._requires_grad = node, index, True
