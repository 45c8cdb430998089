"""Cuts a joint graph in two: what computes the results, and what computes the gradients from what the first half keeps.

The eager tensors run the halves at different times, and so does a compiled function whose backward half is called later.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from adjit.ir.builder import GraphBuilder
from adjit.ir.dataclass import dataclass
from adjit.ir.definition import Kind
from adjit.ir.errors import VerificationError
from adjit.ir.graph import Graph, Op, Value, needed_ops, producers
from adjit.ir.ops.traits import VIEWS
from adjit.ir.types import is_float


@dataclass(frozen=True, slots=True)
class Saved:
    """One value that the backward half takes: parameter or result number `index` of the forward half. Parameters sort first."""

    is_result: bool
    index: int

    def __lt__(self, other: Saved) -> bool:
        return (self.is_result, self.index) < (other.is_result, other.index)


@dataclass(frozen=True, slots=True)
class Halves:
    """A joint graph in two.

    `forward` has the inputs as parameters; its first results are those of the joint graph, the others are kept for `backward`
    only. `backward` takes the values of `saved`, in their order, then the cotangents; it gives the gradients.
    """

    forward: Graph
    backward: Graph
    saved: tuple[Saved, ...]


def split_joint(joint: Graph, inputs: int, results: int, saved: Sequence[Saved] | None = None, again: Container[str] = ()) -> Halves:
    """Split a joint graph: its first `inputs` parameters are those of the function (the others are cotangents), its first `results`
    results are those of the function (the others are gradients).

    Without `saved`, what crosses over is saved, but for what depends on no input and views. With `saved` the backward half
    makes do with these values and computes the others again; raises `VerificationError` where that is impossible. What is constant is
    never saved; with `again`, nor is what ops of these names make of parameters, what integer parameters alone tell, or the sum of what
    is saved.
    """
    params, gradients = joint.params[:inputs], joint.results[results:]
    made_by = producers(joint)
    forward_ops = set(needed_ops(joint.ops, joint.results[:results]))
    of_inputs = _depending(joint, joint.params)
    known = {value: Saved(True, index) for index, value in reversed([*enumerate(joint.results[:results])])}
    known.update((value, Saved(False, index)) for index, value in enumerate(params))
    if saved is not None:
        known = {value: place for value, place in known.items() if place in saved}
    by_hand = _at_hand(joint, params, again)
    known = {value: place for value, place in known.items() if value not in by_hand}
    hidden: list[Value] = []
    crossing = _crossing(joint, gradients, forward_ops)
    used: dict[Saved, Value] = {}
    repeated: set[Op] = set()
    stack, seen = list(gradients), set(joint.params[inputs:])
    while stack:
        value = stack.pop()
        if value in seen:
            continue
        seen.add(value)
        op = made_by.get(value)
        if value in known:
            used[known[value]] = value
        elif op is None:
            raise VerificationError(f"the gradient of {joint.name} needs an input that is not kept")
        elif saved is None and op in forward_ops and op.name not in VIEWS and op in of_inputs and value not in by_hand \
                and not (again and op.name == "reduce_sum" and op.operands[0] in crossing):
            used[Saved(True, results + len(hidden))] = value
            hidden.append(value)
        else:
            repeated.add(op)
            stack.extend(op.operands)
    places = tuple(sorted(used)) if saved is None else tuple(saved)
    results_of_both = (*joint.results[:results], *hidden)
    forward = Graph(joint.name, params, tuple(op for op in joint.ops if op in forward_ops), results_of_both, joint.param_roles[:inputs])
    kept = [(results_of_both if place.is_result else params)[place.index] for place in places]
    backward = _backward_half(joint, kept, joint.params[inputs:], [op for op in joint.ops if op in repeated], gradients)
    return Halves(forward, backward, places)


def _at_hand(graph: Graph, params: Sequence[Value], again: Container[str]) -> set[Value]:
    """Constants, and what ops named in `again` make of parameters, constants, or views of these."""
    near, constants, made = set(params), set[Value](), set[Value]()
    integers = {value for value in params if again and not is_float(value.type.dtype)}
    told = set(integers)
    for op in graph.ops:
        if op.name in VIEWS or not op.operands:
            if constants.issuperset(op.operands):
                constants.update(op.results)
                told.update(op.results)
            if near.issuperset(op.operands):
                near.update(op.results)
        if op.definition.kind in (Kind.ELEMENTWISE, Kind.MOVEMENT) and told.issuperset(op.operands):
            told.update(op.results)
        elif near.issuperset(op.operands) and op.name in again:
            made.update(op.results)
        elif near.issuperset(op.operands) and again and op.name == "convert" and not op.result.type.shape:     # a Python number
            made.update(op.results)
            near.update(op.results)
    return made | constants | {value for value in told - integers if again and not is_float(value.type.dtype)}


def _crossing(graph: Graph, gradients: Sequence[Value], forward: Container[Op]) -> set[Value]:
    """What ops that are not needed for the results use of ops that are."""
    behind = [op for op in needed_ops(graph.ops, gradients) if op not in forward]
    return {value for op in behind for value in op.operands}


def _depending(graph: Graph, values: Sequence[Value]) -> set[Op]:
    """The ops that `values` lead to."""
    known, ops = set(values), set()
    for op in graph.ops:
        if not known.isdisjoint(op.operands):
            ops.add(op)
            known.update(op.results)
    return ops


def _backward_half(joint: Graph, kept: Sequence[Value], cotangents: Sequence[Value], ops: Sequence[Op],
                   gradients: Sequence[Value]) -> Graph:
    builder = GraphBuilder(f"{joint.name}_backward")
    values: dict[Value, Value] = {}
    for value in (*kept, *cotangents):
        values[value] = builder.param(value.type, value.name)
    for op in ops:
        results = tuple(Value(value.type, value.name) for value in op.results)
        builder.append(Op(op.definition, tuple(values[value] for value in op.operands), results, op.attrs, op.regions, op.loc, op.role))
        for value, result in zip(op.results, results, strict=True):
            values.setdefault(value, result)
    return builder.build([values[value] for value in gradients])
