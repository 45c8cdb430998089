"""Splits a joint graph in two: the forward half computes the results, the backward half the gradients from values that the first saves.

Eager tensors run the halves at different times, and so does a compiled function whose backward half is called later.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from adjit.ir.builder import GraphBuilder
from adjit.ir.dataclass import dataclass
from adjit.ir.definition import Kind
from adjit.ir.errors import Role, VerificationError
from adjit.ir.graph import Graph, Op, Value, is_kept, needed_ops, producers, quiet
from adjit.ir.ops.traits import VIEWS
from adjit.ir.types import is_inexact


@dataclass(frozen=True, slots=True)
class SavedValue:
    """Value that the backward half takes: parameter or result number `index` of the forward half. Parameters sort first."""

    is_result: bool
    index: int

    def __lt__(self, other: SavedValue) -> bool:
        return (self.is_result, self.index) < (other.is_result, other.index)


@dataclass(frozen=True, slots=True)
class Partition:
    """Joint graph in two halves.

    `forward` has the inputs as parameters; its first results are those of the joint graph, the others are saved for `backward` only.
    `backward` takes the values of `saved`, in their order, then the cotangents; it returns the gradients.
    """

    forward: Graph
    backward: Graph
    saved: tuple[SavedValue, ...]


def split_joint(joint: Graph, inputs: int, results: int, saved: Sequence[SavedValue] | None = None,
                recomputed_ops: Container[str] = (), narrow_params: bool = False) -> Partition:
    """Split a joint graph. Its first `inputs` parameters are those of the function (the others are cotangents), its first `results` results
    are those of the function (the others are gradients).

    Without `saved`, values that cross over are saved, except views and values that depend on no input. With `saved`, the backward half uses
    only these values and recomputes the others; raises `VerificationError` if that is impossible. Constants are never saved; with
    `recomputed_ops`, neither are results of the named ops on parameters, values computed from integer parameters alone, and sums of values
    that are saved anyway. With `narrow_params`, conversions of parameters to fewer bytes are saved in place of the parameters.
    """
    params, gradients = joint.params[:inputs], joint.results[results:]
    producer = producers(joint)
    late = _effects_of_backward(joint, inputs)
    forward_ops = set(needed_ops([op for op in joint.ops if op not in late], joint.results[:results]))
    made = {value for op in forward_ops for value in op.results}.union(params if narrow_params else ())
    for each in joint.ops:        # conversions of saved values to fewer bytes
        if each.name == "convert" and each.role is Role.PRIMAL and each.result.type.is_half and made.issuperset(each.operands):
            forward_ops.add(each)
            made.add(each.result)
    dependents = _dependents(joint, joint.params)
    known = {value: SavedValue(True, index) for index, value in reversed([*enumerate(joint.results[:results])])}
    known.update((value, SavedValue(False, index)) for index, value in enumerate(params))
    if saved is not None:
        known = {value: item for value, item in known.items() if item in saved}
    recomputable = _recomputable(joint, params, recomputed_ops)
    known = {value: item for value, item in known.items() if value not in recomputable}
    hidden: list[Value] = []
    crossing = _read_by_backward(joint, gradients, forward_ops)
    used: dict[SavedValue, Value] = {}
    repeated: set[Op] = set()
    stack, seen = [*gradients, *(value for op in joint.ops if op in late for value in op.operands)], set(joint.params[inputs:])
    repeated.update(late)
    while stack:
        value = stack.pop()
        if value in seen:
            continue
        seen.add(value)
        op = producer.get(value)
        if value in known:
            used[known[value]] = value
        elif op is None:
            raise VerificationError(f"the gradient of {joint.name} needs an input that is not saved")
        elif saved is None and op in forward_ops and op.name not in VIEWS and op in dependents and value not in recomputable \
                and not (recomputed_ops and op.name == "reduce_sum" and op.operands[0] in crossing):
            used[SavedValue(True, results + len(hidden))] = value
            hidden.append(value)
        else:
            repeated.add(op)
            stack.extend(op.operands)
    saved_values = tuple(sorted(used)) if saved is None else tuple(saved)
    results_of_both = (*joint.results[:results], *hidden)
    forward = Graph(joint.name, params, tuple(op for op in joint.ops if op in forward_ops), results_of_both, joint.param_roles[:inputs])
    values_saved = [(results_of_both if item.is_result else params)[item.index] for item in saved_values]
    again = [quiet(op) if op in forward_ops else op for op in joint.ops if op in repeated]
    backward = _backward_half(joint, values_saved, joint.params[inputs:], again, gradients)
    return Partition(forward, backward, saved_values)


def _effects_of_backward(joint: Graph, inputs: int) -> set[Op]:
    """Effects, and ops with effects, behind the first op that depends on a cotangent. Those before are the forward half's."""
    if not joint.has_effects:
        return set()
    dependents = _dependents(joint, joint.params[inputs:])
    begin = next((index for index, op in enumerate(joint.ops) if op in dependents), len(joint.ops))
    needed = set(needed_ops([op for op in joint.ops if not op.definition.is_kept], joint.results))
    return {op for op in joint.ops[begin:] if is_kept(op) and not op.definition.is_check and op not in needed}


def _recomputable(graph: Graph, params: Sequence[Value], recomputed_ops: Container[str]) -> set[Value]:
    """Values that are not saved: constants, and, with `recomputed_ops`, results of the named ops on parameters or views, and values
    computed from integer parameters alone."""
    views_of_params, constants, results_of_named = set(params), set[Value](), set[Value]()
    integers = {value for value in params if recomputed_ops and not is_inexact(value.type.dtype)}
    known_integers = set(integers)
    for op in graph.ops:
        if op.name in VIEWS or not op.operands:
            if constants.issuperset(op.operands):
                constants.update(op.results)
                known_integers.update(op.results)
            if views_of_params.issuperset(op.operands):
                views_of_params.update(op.results)
        if op.definition.kind in (Kind.ELEMENTWISE, Kind.MOVEMENT) and known_integers.issuperset(op.operands):
            known_integers.update(op.results)
        elif views_of_params.issuperset(op.operands) and op.name in recomputed_ops:
            results_of_named.update(op.results)
        elif views_of_params.issuperset(op.operands) and recomputed_ops and op.name == "convert" and not op.result.type.shape:
            # a Python number
            results_of_named.update(op.results)
            views_of_params.update(op.results)
    from_integers = {value for value in known_integers - integers if recomputed_ops and not is_inexact(value.type.dtype)}
    return results_of_named | constants | from_integers


def _read_by_backward(graph: Graph, gradients: Sequence[Value], forward: Container[Op]) -> set[Value]:
    """Forward values that are read by ops which only the gradients need."""
    backward_only = [op for op in needed_ops(graph.ops, gradients) if op not in forward]
    return {value for op in backward_only for value in op.operands}


def _dependents(graph: Graph, values: Sequence[Value]) -> set[Op]:
    """Ops that depend on `values`."""
    known, ops = set(values), set()
    for op in graph.ops:
        if not known.isdisjoint(op.operands):
            ops.add(op)
            known.update(op.results)
    return ops


def _backward_half(joint: Graph, values_saved: Sequence[Value], cotangents: Sequence[Value], ops: Sequence[Op],
                   gradients: Sequence[Value]) -> Graph:
    builder = GraphBuilder(f"{joint.name}_backward")
    values: dict[Value, Value] = {}
    for value in (*values_saved, *cotangents):
        values[value] = builder.param(value.type, value.name)
    for op in ops:
        results = tuple(Value(value.type, value.name) for value in op.results)
        builder.append(Op(op.definition, tuple(values[value] for value in op.operands), results, op.attrs, op.regions, op.loc, op.role))
        for value, result in zip(op.results, results, strict=True):
            values.setdefault(value, result)
    return builder.build([values[value] for value in gradients])
