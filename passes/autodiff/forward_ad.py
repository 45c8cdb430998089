"""Forward mode on one region that holds loops or branches: its ops are appended to a builder, each with the tangents of its results.

Without loops a tangent is the pullback of a pullback (`runtime/derivatives.py`); for a loop this would save checkpoints of checkpoints.
Here the tangents are carried along with the values. The rule of a single op is still its own: its pullback is linear, and is pulled
back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from adjit.ir.builder import GraphBuilder
from adjit.ir.emitter import current_emitter, emitting
from adjit.ir.errors import NonDifferentiableError, Role
from adjit.ir.graph import Graph, Op, Value
from adjit.ir.ops.traits import CONTROL_FLOW
from adjit.ir.types import is_inexact
from adjit.passes.autodiff.activity import varied_carries
from adjit.passes.autodiff.reverse_ad import append_copy, checked, conjugated, no_derivative, run_backward, run_forward, zeros_like


def run_tangents(builder: GraphBuilder, region: Graph, arguments: Sequence[Value],
                 tangents: Mapping[int, Value]) -> tuple[tuple[Value, ...], list[Value | None]]:
    """Append `region` for these arguments, and the tangents of its results, None if zero; `tangents` are the tangents of arguments, by
    index."""
    values = dict(zip(region.params, arguments, strict=True))
    known: dict[Value, Value] = {region.params[index]: tangent for index, tangent in tangents.items()}      # tangents of region values
    for op in region.ops:
        operands = tuple(values[value] for value in op.operands)
        given = {index: known[value] for index, value in enumerate(op.operands) if value in known}
        pushed: list[Value | None] = [None] * len(op.results)
        if not given or op.name == "stop_gradient":
            results = append_copy(builder, op, operands, op.regions)
        else:
            with builder.at(loc=op.loc, role=Role.ADJOINT):
                results, pushed = _push(builder, op, operands, given)
        values.update(zip(op.results, results, strict=True))
        known.update((value, tangent) for value, tangent in zip(op.results, pushed, strict=True) if tangent is not None)
    return tuple(values[value] for value in region.results), [known.get(value) for value in region.results]


Pushed = tuple[tuple[Value, ...], list[Value | None]]


def _push(builder: GraphBuilder, op: Op, operands: tuple[Value, ...], given: Mapping[int, Value]) -> Pushed:
    if op.name == "checkpoint":
        return run_tangents(builder, op.regions[0], operands, given)
    if op.name in CONTROL_FLOW:
        push = {"scan": _push_scan, "while_loop": _push_while, "cond": _push_cond}[op.name]
        return push(builder, op, operands, given)
    if op.name == "custom_call":
        return _push_custom(builder, op, operands, given)
    results = append_copy(builder, op, operands, op.regions)
    if not any(is_inexact(value.type.dtype) for value in op.results):
        return results, [None] * len(results)
    if op.definition.vjp is None:
        raise no_derivative(op, "tangent")
    rule, count = op.definition.vjp, len(operands)

    def pull(known: Sequence[Value], cotangents: Sequence[Value]) -> Sequence[Value | None]:
        wanted = tuple(value if is_inexact(value.type.dtype) else None for value in cotangents)
        pulled = rule(wanted if len(wanted) > 1 else wanted[0], tuple(known[:count]), tuple(known[count:]), op.attrs)
        return checked(pulled, given, op)

    return results, _pull_back_twice(builder, (*operands, *results), results, given, pull)


def _push_custom(builder: GraphBuilder, op: Op, operands: tuple[Value, ...], given: Mapping[int, Value]) -> Pushed:
    """Tangents by the user's rule: the forward function gives the residuals, and the backward function is pulled back."""
    count = len(op.results)
    outs = builder.inline(op.regions[1], operands)
    rule = op.regions[2]
    if max(given) >= len(rule.results):
        raise NonDifferentiableError(
            f"@{op.regions[0].name} has a custom derivative rule, which covers its arguments only, but is differentiated with respect "
            f"to a value it closes over ({op.operands[max(given)].type})", op.loc, hint="pass the value as an argument")

    def pull(known: Sequence[Value], cotangents: Sequence[Value]) -> Sequence[Value | None]:
        inner = current_emitter()
        assert isinstance(inner, GraphBuilder)
        return [*map(conjugated, inner.inline(rule, (*known, *map(conjugated, cotangents))))]

    return outs[:count], _pull_back_twice(builder, outs[count:], outs[:count], given, pull)


def _pull_back_twice(builder: GraphBuilder, known: Sequence[Value], results: Sequence[Value], given: Mapping[int, Value],
                     pull: Callable[[Sequence[Value], Sequence[Value]], Sequence[Value | None]]) -> list[Value | None]:
    """Tangents of results: the pullback, linear in the cotangents, becomes a graph, and this graph is pulled back for the tangents."""
    inner = GraphBuilder("pullback")
    params = [inner.param(value.type) for value in known]
    cotangents = [inner.param(value.type) for value in results]
    with emitting(inner), inner.at(role=Role.ADJOINT):
        pulled = pull(tuple(params), tuple(cotangents))
        linear = inner.build([value for index in given if (value := pulled[index]) is not None])
    seeds = dict(enumerate(tangent for index, tangent in given.items() if pulled[index] is not None))
    first = len(known)
    zeros = [zeros_like(value) for value in results]
    forward = run_forward(builder, linear, (*known, *zeros), range(first, first + len(results)), seeds)
    return run_backward(builder, forward, seeds)[first:]


# -- loops and branches: tangents are further values


def _body_with_tangents(body: Graph, active: Sequence[int], order: Sequence[int], tangent_order: Sequence[int],
                        choose: Callable[[Sequence[Value], Callable[[int], Value | None]], Sequence[Value]], carried: int) -> Graph:
    """Body with a further parameter for the tangent of each of `active`. `order` and `tangent_order` are positions of parameters and of
    tangents in the new list; `choose(results, tangent of result)` returns the new results; the first `carried` parameters have the role
    carried."""
    builder = GraphBuilder(body.name)
    slots: list[Value | None] = [None] * (len(order) + len(tangent_order))
    for target, value in zip(order, body.params, strict=True):
        slots[target] = Value(value.type, value.name)
    for target, index in zip(tangent_order, active, strict=True):
        slots[target] = Value(body.params[index].type)
    params = [builder.param(slot.type, slot.name, "carried" if target < carried else "input")
              for target, slot in enumerate(slots) if slot is not None]
    with emitting(builder):
        results, pushed = run_tangents(builder, body, [params[target] for target in order],
                                       {index: params[target] for target, index in zip(tangent_order, active, strict=True)})
        return builder.build(choose(results, lambda index: pushed[index]))


def _append(builder: GraphBuilder, op: Op, operands: Sequence[Value], results: Sequence[Value], regions: tuple[Graph, ...],
            **attrs: object) -> tuple[Value, ...]:
    builder.append(replace(op, operands=tuple(operands), results=tuple(results), regions=regions, attrs={**op.attrs, **attrs}))
    return tuple(results)


def _fresh(values: Sequence[Value]) -> list[Value]:
    return [Value(value.type, value.name) for value in values]


def _push_scan(builder: GraphBuilder, op: Op, operands: tuple[Value, ...], given: Mapping[int, Value]) -> Pushed:
    (body,) = op.regions
    carries, slices = op.attrs["carries"], op.attrs["slices"]
    rows = len(body.results) - carries
    active = varied_carries(body, carries, given)
    carried = [index for index in active if index < carries]
    sliced = [index for index in active if carries <= index < carries + slices]
    moving = [index for index, value in enumerate(body.results[:rows]) if is_inexact(value.type.dtype)]
    n, d, s, e = carries, len(carried), slices, len(sliced)
    order = [*range(n), *range(n + d, n + d + s), *range(n + d + s + e, len(body.params) + d + e)]
    targets = {**{index: n + k for k, index in enumerate(carried)}, **{index: n + d + s + k for k, index in enumerate(sliced)}}
    fixed = [index for index in active if index >= carries + slices]
    targets.update((index, len(body.params) + d + e + k) for k, index in enumerate(fixed))

    def choose(results: Sequence[Value], tangent: Callable[[int], Value | None]) -> list[Value]:
        def filled(index: int) -> Value:
            return zeros_like(results[index]) if (known := tangent(index)) is None else known
        return [*results[:rows], *(filled(index) for index in moving), *results[rows:], *(filled(rows + index) for index in carried)]

    region = _body_with_tangents(body, active, order, [targets[index] for index in active], choose, n + d)
    tangent = {index: given[index] if index in given else zeros_like(operands[index]) for index in active}
    new_operands = [*operands[:n], *(tangent[i] for i in carried), *operands[n:n + s], *(tangent[i] for i in sliced), *operands[n + s:],
                    *(tangent[i] for i in fixed)]
    results = _append(builder, op, new_operands, [
        *_fresh(op.results[:rows]), *(Value(op.results[i].type) for i in moving), *_fresh(op.results[rows:]),
        *(Value(op.results[rows + i].type) for i in carried)], (region,), carries=n + d, slices=s + e)
    last = results[rows + len(moving):]
    pushed: dict[int, Value] = dict(zip(moving, results[rows:], strict=False))
    pushed.update((rows + index, value) for index, value in zip(carried, last[n:], strict=True))
    return (*results[:rows], *last[:n]), [pushed.get(index) for index in range(len(op.results))]


def _push_while(builder: GraphBuilder, op: Op, operands: tuple[Value, ...], given: Mapping[int, Value]) -> Pushed:
    condition, body = op.regions
    n, checkpointed, checkpoints = op.attrs["carries"], op.attrs["checkpointed"], op.attrs["checkpoints"]
    leading = len(op.results) - n
    active = varied_carries(body, n, given)
    carried, fixed = [index for index in active if index < n], [index for index in active if index >= n]
    d = len(carried)
    order = [*range(n), *range(n + d, len(body.params) + d)]
    targets = {**{index: n + k for k, index in enumerate(carried)}, **{index: len(body.params) + d + k for k, index in enumerate(fixed)}}

    def choose(results: Sequence[Value], tangent: Callable[[int], Value | None]) -> list[Value]:
        return [*results, *(zeros_like(results[index]) if (known := tangent(index)) is None else known for index in carried)]

    region = _body_with_tangents(body, active, order, [targets[index] for index in active], choose, n + d)
    slots = [Value(value.type) for value in region.params]
    for target, value in zip(order, condition.params, strict=True):
        slots[target] = value
    test = Graph(condition.name, tuple(slots), condition.ops, condition.results)
    tangent = {index: given[index] if index in given else zeros_like(operands[index]) for index in active}
    stacked = [(target, index) for target, index in enumerate(checkpointed) if index in carried]
    new_results = [*_fresh(op.results[:leading]), *(Value(op.results[2 + target].type) for target, _ in stacked),
                   *_fresh(op.results[leading:]), *(Value(op.results[leading + index].type) for index in carried)]
    results = _append(
        builder, op, [*operands[:n], *(tangent[i] for i in carried), *operands[n:], *(tangent[i] for i in fixed)], new_results,
        (test, region), carries=n + d, checkpoints=checkpoints,
        checkpointed=(*checkpointed, *(n + carried.index(index) for _, index in stacked)))
    last = results[leading + len(stacked):]
    pushed = {2 + target: value for (target, _), value in zip(stacked, results[leading:], strict=False)}
    pushed.update((leading + index, value) for index, value in zip(carried, last[n:], strict=True))
    return (*results[:leading], *last[:n]), [pushed.get(index) for index in range(len(op.results))]


def _push_cond(builder: GraphBuilder, op: Op, operands: tuple[Value, ...], given: Mapping[int, Value]) -> Pushed:
    active = [index - 1 for index in given if index > 0]
    moving = [index for index, value in enumerate(op.results) if is_inexact(value.type.dtype)]
    count = len(operands) - 1

    def choose(results: Sequence[Value], tangent: Callable[[int], Value | None]) -> list[Value]:
        return [*results, *(zeros_like(results[index]) if (known := tangent(index)) is None else known for index in moving)]

    targets = range(count, count + len(active))
    regions = tuple(_body_with_tangents(region, active, range(count), targets, choose, 0) for region in op.regions)
    results = _append(builder, op, [*operands, *(given[index + 1] for index in active)],
                      [*_fresh(op.results), *(Value(op.results[index].type) for index in moving)], regions)
    pushed = dict(zip(moving, results[len(op.results):], strict=True))
    return results[:len(op.results)], [pushed.get(index) for index in range(len(op.results))]
