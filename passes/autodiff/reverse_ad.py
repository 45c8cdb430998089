"""Reverse mode on one region: its ops are appended to a builder, then their adjoints, last op first.

There is no list of values to save: an adjoint op uses the forward values that it needs, and the values that cross over are saved. Both
halves are linear in the number of ops; recursion follows the nesting of checkpoints only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from adjit.ir import ops
from adjit.ir.builder import GraphBuilder
from adjit.ir.dataclass import dataclass
from adjit.ir.definition import NoDerivative
from adjit.ir.emitter import emitting
from adjit.ir.errors import NonDifferentiableError, Role, VerificationError
from adjit.ir.graph import Graph, Op, Value, needed_ops, without_effects
from adjit.ir.lazy_module import LazyModule
from adjit.ir.ops.traits import CONTROL_FLOW, HOST_CALLS
from adjit.ir.types import is_complex, is_float
from adjit.passes.autodiff.activity import active_values
from adjit.passes.autodiff.cotangents import Cotangents
from adjit.passes.autodiff.partition.choose_saved_values import choose_saved_values
from adjit.passes.autodiff.partition.narrow_saved_values import narrow_values
from adjit.passes.autodiff.partition.split_joint import Partition, split_joint
from adjit.passes.options import Options

if TYPE_CHECKING:
    from adjit.passes.autodiff import reverse_control_flow
    from adjit.passes.simplify import clean_up
else:
    clean_up = LazyModule("adjit.passes.simplify.clean_up")
    reverse_control_flow = LazyModule("adjit.passes.autodiff.reverse_control_flow")


@dataclass(frozen=True, slots=True)
class Forward:
    """Region whose forward half is in a builder.

    `active` holds the values of the region that take part in the derivative, `values` the builder's value for each value of the region,
    `residuals` the values that the forward rule of a custom call saves for its backward rule, `pull_back` the backward halves of loops and
    branches, `rounded` the halves that results in float32 of ops on halves are rounded to.
    """

    region: Graph
    active: frozenset[Value]
    values: dict[Value, Value] = field(default_factory=dict)
    residuals: dict[Op, tuple[Value, ...]] = field(default_factory=dict)
    pull_back: dict[Op, reverse_control_flow.PullBack] = field(default_factory=dict)
    rounded: dict[Value, Value] = field(default_factory=dict)

    @property
    def results(self) -> tuple[Value, ...]:
        """Results of the region, as values of the builder."""
        return tuple(self.values[value] for value in self.region.results)


def run_forward(builder: GraphBuilder, region: Graph, arguments: Sequence[Value], wrt: Iterable[int], seeded: Iterable[int],
                role: Role | None = None, saved_dtype: np.dtype | None = None) -> Forward:
    """Append the forward half of `region`: its ops, with the calls on the path inlined.

    Locations and roles stay; `role`, if given, replaces the roles. A call off the path stays a call, so that a derivative around this one
    can still use the call's rule. Loops save floats as `saved_dtype`, if it is given.
    """
    partition = partial(partition_region, saved_dtype=saved_dtype)
    if role is Role.RECOMPUTE:
        region = without_effects(region)
    forward = Forward(region, active_values(region, wrt, seeded))
    values = forward.values
    values.update(zip(region.params, arguments, strict=True))
    for op in region.ops:
        operands = tuple(map(values.__getitem__, op.operands))
        is_active = not forward.active.isdisjoint(op.results)
        if is_active and op.name == "checkpoint":
            results = builder.inline(op.regions[0], operands, role)
        elif is_active and op.name == "custom_call":
            outs = builder.inline(op.regions[1], operands, role)
            results, forward.residuals[op] = outs[:len(op.results)], outs[len(op.results):]
        elif is_active and op.name in CONTROL_FLOW:
            forward_half = reverse_control_flow.append_forward_half(builder, op, operands, forward.active, partition, role)
            results, forward.pull_back[op] = forward_half.results, forward_half.pull_back
        else:
            results = append_copy(builder, op, operands, op.regions, role)
        values.update(zip(op.results, results, strict=True))
    forward.rounded.update(_rounded_results(region))
    return forward


def _rounded_results(region: Graph) -> dict[Value, Value]:
    """Results of ops on float16 and bfloat16, in float32, by which nothing but the rounded value is made: derivative rules read that one,
    as the rest of the program does. So what is saved has half the bytes."""
    half = {op.operands[0]: op.result for op in region.ops if op.name == "convert" and op.result.type.is_half}
    if not half:
        return half
    uses = Counter(value for op in region.ops for value in op.operands)
    uses.update(region.results)
    widened = {op.result for op in region.ops if op.name == "convert" and op.operands[0].type.is_half}
    return {op.result: half[op.result] for op in region.ops if len(op.results) == 1 and uses[op.result] == 1 and op.result in half
            and all(value in widened for value in op.operands if is_float(value.type.dtype))}


def partition_region(region: Graph, wrt: Sequence[int], seeded: Sequence[int], summed: Sequence[int] = (), stored: int = 0, *,
                     saved_dtype: np.dtype | None = None) -> Partition:
    """Halves of a region that runs many times, differentiated as a graph of its own. The backward half takes the cotangents of the results
    `seeded`, and totals for the parameters `summed`; it returns the cotangents of the parameters `wrt`, including zeros, added to the
    totals. Saved floats are `saved_dtype`, if it is given, and so are the first `stored` parameters, which are saved as well."""
    builder = GraphBuilder(region.name)
    params = [builder.param(value.type, value.name) for value in region.params]
    seeds = {index: builder.param(region.results[index].type, "cotangent") for index in seeded}
    totals = {index: builder.param(region.params[index].type, "total") for index in summed}
    with emitting(builder), builder.at(role=Role.ADJOINT):
        forward = run_forward(builder, region, params, wrt, seeds, saved_dtype=saved_dtype)
        cotangents = run_backward(builder, forward, seeds, totals)
        gradients = [value if (value := cotangents[index]) is not None else zeros_like(params[index]) for index in wrt]
    joint = builder.build((*forward.results, *gradients))
    joint = choose_saved_values(clean_up.clean_up(joint, _OPTIONS), _OPTIONS)
    joint = narrow_values(joint, saved_dtype, joint.params[:stored])
    return split_joint(joint, len(params), len(region.results), narrow_params=saved_dtype is not None)


_OPTIONS = Options()


def append_copy(builder: GraphBuilder, op: Op, operands: tuple[Value, ...], regions: tuple[Graph, ...],
                role: Role | None = None) -> tuple[Value, ...]:
    """Append `op` with other operands and regions, at its own location; returns its new results."""
    results = tuple([Value(value.type, value.name) for value in op.results])
    builder.append(Op(op.definition, operands, results, op.attrs, regions, op.loc, role or op.role))
    return results


def pull_back(builder: GraphBuilder, forward: Forward, seeds: Mapping[int, Value]) -> list[Value | None]:
    """Cotangents of parameters as users see them, as `run_backward` appends them: the adjoint under the inner product Re(conj(a) * b)."""
    with builder.at(role=Role.ADJOINT):
        cotangents = run_backward(builder, forward, {index: conjugated(seed) for index, seed in seeds.items()})
        return [None if value is None else conjugated(value) for value in cotangents]


def conjugated(value: Value) -> Value:
    """The conjugate, where users' cotangents meet those of derivative rules (`ir/ops/complex_numbers.py`)."""
    return ops.conj(value) if is_complex(value.type.dtype) else value


def run_backward(builder: GraphBuilder, forward: Forward, seeds: Mapping[int, Value],
                 totals: Mapping[int, Value] | None = None) -> list[Value | None]:
    """Append the backward half; returns the cotangent of each parameter of the region, None if zero.

    `seeds` holds the cotangents of results, `totals` values to which cotangents of parameters are added, by index. Cotangents are stored by
    the values of the region, not of the builder: one value may be the argument for two parameters, whose derivatives stay apart. Only ops
    on the path are visited; ops that a rule emits for other operands are dropped.
    """
    region, active = forward.region, forward.active
    begin = len(builder.ops)
    cotangents = Cotangents(builder, active, {region.params[index]: total for index, total in (totals or {}).items()})
    with builder.at(role=Role.ADJOINT):
        for index, seed in seeds.items():
            cotangents.add(region.results[index], seed)
    for op in reversed(region.ops):
        with builder.at(loc=op.loc, role=Role.ADJOINT):
            given = tuple([cotangents.pop(value) for value in op.results])
            wanted = [index for index, value in enumerate(op.operands) if value in active]
            if not wanted or given.count(None) == len(given):
                continue
            start = len(builder.ops)
            pulled = checked(_pull_back(builder, forward, op, given, wanted, cotangents), wanted, op)
            builder.ops[start:] = needed_ops(builder.ops[start:], (value for index in wanted if (value := pulled[index]) is not None))
            for index in wanted:
                contribution = pulled[index]
                if contribution is None:
                    continue
                if contribution.type != op.operands[index].type:
                    raise VerificationError(f"the derivative of {op.name} gives {contribution.type} for operand {index + 1} of type "
                                            f"{op.operands[index].type}", op.loc, hint=f"correct the derivative rule of {op.name}")
                cotangents.add(op.operands[index], contribution)
    with builder.at(role=Role.ADJOINT):
        found = [cotangents.get(value) for value in region.params]
    if cotangents.took_pieces:     # the arrays in which the pieces were are not needed
        builder.ops[begin:] = needed_ops(builder.ops[begin:], (value for value in found if value is not None))
    return found


def _pull_back(builder: GraphBuilder, forward: Forward, op: Op, given: tuple[Value | None, ...],
               wanted: Sequence[int], cotangents: Cotangents) -> Sequence[Value | NoDerivative | None]:
    """Cotangents of the operands of one op, from those of its results. Loops and branches may take what is known of them from `cotangents`,
    and add to it."""
    operands = tuple(map(forward.values.__getitem__, op.operands))
    if op.name == "checkpoint":
        seeds = {index: cotangent for index, cotangent in enumerate(given) if cotangent is not None}
        recomputed = run_forward(builder, op.regions[0], operands, wanted, seeds, Role.RECOMPUTE)
        return run_backward(builder, recomputed, seeds)
    results = tuple([ops.convert(forward.values[forward.rounded[value]], dtype=value.type.dtype) if value in forward.rounded
                     else forward.values[value] for value in op.results])
    if op.name == "custom_call":
        return _apply_custom_rule(builder, forward, op, results, given, wanted)
    if op.name in CONTROL_FLOW:
        known = forward.pull_back[op](given, lambda index: cotangents.pop(op.operands[index]) if op.operands.count(
            op.operands[index]) == 1 else None)
        return [known.get(index) for index in range(len(operands))]
    if op.definition.vjp is None:
        raise no_derivative(op, "gradient")
    pulled = op.definition.vjp(given if len(given) > 1 else given[0], operands, results, op.attrs)
    if len(pulled) != len(operands):
        raise VerificationError(f"the derivative of {op.name} gives {len(pulled)} cotangents for {len(operands)} operands", op.loc,
                                hint=f"correct the derivative rule of {op.name}")
    return pulled


def checked(pulled: Sequence[Value | NoDerivative | None], wanted: Iterable[int], op: Op) -> Sequence[Value | None]:
    """The cotangents of the operands `wanted`; raises `NonDifferentiableError` for one that does not exist."""
    for index in wanted:
        cotangent = pulled[index]
        if isinstance(cotangent, NoDerivative):
            raise NonDifferentiableError(cotangent.reason, op.loc,
                                         hint="wrap this argument in adjit.stop_gradient to treat it as a constant")
    return [None if isinstance(cotangent, NoDerivative) else cotangent for cotangent in pulled]


def no_derivative(op: Op, what: str) -> NonDifferentiableError:
    """Error for an op without a derivative through which a gradient or a tangent passes."""
    name, hint = op.name, f"wrap the argument of {op.name} in adjit.stop_gradient to treat the argument as a constant"
    if op.name in HOST_CALLS:
        name = f"the Python function {op.attrs['function']}"
        hint = ("give adjit.pure_callback a vjp= (one that is decorated with adjit.compile is traced, and so has derivatives itself), or "
                "wrap its arguments in adjit.stop_gradient")
    return NonDifferentiableError(f"{name} has no derivative, but a {what} passes through it", op.loc, hint=hint)


def _apply_custom_rule(builder: GraphBuilder, forward: Forward, op: Op, results: Sequence[Value], given: Sequence[Value | None],
                       wanted: Sequence[int]) -> Sequence[Value | None]:
    rule = op.regions[2]
    if wanted[-1] >= len(rule.results):
        raise NonDifferentiableError(
            f"@{op.regions[0].name} has a custom derivative rule, which covers its arguments only, but is differentiated with respect "
            f"to a value it closes over ({op.operands[wanted[-1]].type})", op.loc, hint="pass the value as an argument")
    filled = [zeros_like(result) if cotangent is None else conjugated(cotangent) for result, cotangent in zip(results, given, strict=True)]
    pulled = builder.inline(rule, (*forward.residuals[op], *filled), Role.ADJOINT)
    return [*map(conjugated, pulled), *[None] * (len(op.operands) - len(pulled))]


def zeros_like(value: Value) -> Value:
    """Zeros of the type of `value`: its cotangent if nothing depends on it."""
    return ops.full_like(value, value.type.dtype.type(0).item())
