"""Reverse mode of loops and branches.

The body is differentiated once, as a graph of its own, and split into a forward and a backward half.

scan         Values that the backward half needs of each iteration are stacked as further rows; the cotangents are a scan in the other
             direction.
cond         Values that the backward half of either branch needs are further results, zeros if the other branch was taken.
while_loop   The number of iterations is known at run time only, and no program allocates memory while it runs. So the forward loop stores
             its carried values at every iteration as long as they fit, then at every second, every fourth, ... (online checkpointing, as in
             Stumm and Walther, "New algorithms for optimal online checkpointing", SIAM J. Sci. Comput. 32, 2010). The backward loop goes
             from the last segment between two checkpoints to the first. It runs each segment again, with checkpoints of its own, and treats
             the segments between these in the same way, until every iteration is stored. With room for n checkpoints, up to n^k iterations
             are run k times in all, and once more for their derivatives.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from adjit.ir import ops
from adjit.ir.builder import GraphBuilder
from adjit.ir.control_flow import emit_cond, emit_scan, emit_while
from adjit.ir.dataclass import dataclass
from adjit.ir.emitter import current_emitter, emitting
from adjit.ir.errors import Role
from adjit.ir.graph import Graph, Op, Value, live_ops, without_effects
from adjit.ir.ops.control_flow import COUNT
from adjit.ir.types import I64
from adjit.passes.autodiff.activity import active_carries
from adjit.passes.autodiff.partition.split_joint import Partition
from adjit.passes.options import Options
from adjit.passes.simplify.loops import eliminate_dead_carries

CHECKPOINT_BYTES = 1 << 22
MIN_CHECKPOINTS, MAX_CHECKPOINTS = 32, 1024
MAX_ITERATIONS = 1 << 20
"""Most iterations of which each is repeated a bounded number of times; in derivatives of derivatives, whose code grows with every level,
the limit is the square of the number of checkpoints."""

Partitioner = Callable[..., Partition]
"""Function that splits a region into its halves: `partition_region` of `passes/autodiff/reverse_ad.py`."""

Cotangents = Sequence[Value | None]
PullBack = Callable[[Cotangents, Callable[[int], "Value | None"]], "dict[int, Value]"]
"""Cotangents of operands, by index, from the cotangents of the results of the original op, and a function that takes what is known of the
cotangent of an operand: the new cotangent then includes it."""


@dataclass(frozen=True, slots=True)
class ForwardHalf:
    """Op whose forward half is in a builder: its results, and its backward half."""

    results: tuple[Value, ...]
    pull_back: PullBack


def append_forward_half(builder: GraphBuilder, op: Op, operands: Sequence[Value], active: Collection[Value],
                        partition_region: Partitioner, role: Role | None) -> ForwardHalf:
    """Append the forward half of a loop or a branch that lies on the path of a derivative."""
    wanted = [index for index, value in enumerate(op.operands) if value in active]
    seeded = [index for index, value in enumerate(op.results) if value in active]
    rule = {"scan": _scan_forward_half, "while_loop": _while_forward_half, "cond": _cond_forward_half}[op.name]
    return rule(_OpContext(builder, op, tuple(operands), wanted, seeded, partition_region, role))


@dataclass(frozen=True, slots=True)
class _OpContext:
    builder: GraphBuilder
    op: Op
    operands: tuple[Value, ...]
    wanted: list[int]
    seeded: list[int]
    partition_region: Partitioner
    role: Role | None

    def append(self, results: Sequence[Value], regions: tuple[Graph, ...], **attrs: object) -> tuple[Value, ...]:
        """Append the op with other regions and results."""
        op = self.op
        self.builder.append(replace(op, operands=self.operands, results=tuple(results), regions=regions, attrs={**op.attrs, **attrs},
                                    role=self.role or op.role))
        return tuple(results)


def _like(value: Value, leading: tuple[int, ...] = ()) -> Value:
    return Value(value.type.with_shape((*leading, *value.type.shape)), value.name)


def _zeros(type_of: Value) -> Value:
    type = type_of.type
    return ops.constant(value=type.dtype.type(0).item(), dtype=type.dtype, shape=type.shape)


# -- scan


def _scan_forward_half(context: _OpContext) -> ForwardHalf:
    op, operands = context.op, context.operands
    (body,) = op.regions
    carries, slices, length, reverse = (op.attrs[name] for name in ("carries", "slices", "length", "reverse"))
    rows = len(body.results) - carries
    seeded_rows = [index for index in context.seeded if index < rows]
    active = active_carries(body, carries, context.wanted, seeded_rows, [index - rows for index in context.seeded if index >= rows])
    wanted = sorted({*active, *(index for index in context.wanted if index >= carries)})
    seeds = [*seeded_rows, *(rows + index for index in active)]
    of_slices = [index for index in wanted if carries <= index < carries + slices]
    of_fixed = [index for index in wanted if index >= carries + slices]
    partition = context.partition_region(body, wanted, seeds, of_fixed, carries)
    forward = partition.forward
    stacked = list(forward.results[:rows])
    stack_of: dict[int, int] = {}         # for each saved value: the index of its stack
    for number, entry in enumerate(partition.saved):
        if entry.is_result or entry.index < carries:
            value = (forward.results if entry.is_result else forward.params)[entry.index]
            if value not in stacked:
                stacked.append(value)
            stack_of[number] = stacked.index(value)
    region = Graph(body.name, forward.params, forward.ops, (*stacked, *forward.results[rows:rows + carries]), body.param_roles)
    new = [_like(value, (length,)) for value in stacked] + [_like(value) for value in op.results[rows:]]
    for made, old in zip([*new[:rows], *new[len(stacked):]], op.results, strict=True):
        made.name = old.name
    results = context.append(new, (region,))

    def outer(number: int) -> Value:
        return results[stack_of[number]] if number in stack_of else operands[partition.saved[number].index]

    fixed = {number: outer(number) for number, entry in enumerate(partition.saved)
             if not entry.is_result and entry.index >= carries + slices}
    moving = [number for number in range(len(partition.saved)) if number not in fixed]
    in_parts = [index for index in of_fixed if is_read_in_parts(body, index)]

    def pull_back(given: Cotangents, known: Callable[[int], Value | None]) -> dict[int, Value]:
        def cotangent(index: int) -> Value:
            known = given[index]
            return _zeros(op.results[index]) if known is None else known

        def backward(carried: Sequence[Value], sliced: Sequence[Value]) -> tuple[list[Value], list[Value]]:
            saved = {**fixed, **dict(zip(moving, sliced, strict=False))}
            pulled = dict(zip(wanted, emit_region(partition.backward, (
                *(saved[number] for number in range(len(partition.saved))), *sliced[len(moving):], *carried)), strict=True))
            return [pulled[index] for index in of_slices], [pulled[index] for index in (*active, *of_fixed)]

        totals = [total if index in in_parts and (total := known(index)) is not None else _zeros(operands[index]) for index in of_fixed]
        init = [cotangent(rows + index) for index in active] + totals
        stacks = [outer(number) for number in moving] + [cotangent(index) for index in seeded_rows]
        stacked, carried = emit_scan(backward, init, stacks, length, not reverse, f"{body.name}_backward")
        return dict(zip([*of_slices, *active, *of_fixed], [*stacked, *carried], strict=True))

    return ForwardHalf((*results[:rows], *results[len(stacked):]), pull_back)


def is_read_in_parts(region: Graph, index: int) -> bool:
    """True if parameter `index` is read by slices and at indices alone, so that its cotangent consists of pieces."""
    whole = {region.params[index]}
    if not whole.isdisjoint(region.results):
        return False
    for op in region.ops:
        at = [position for position, value in enumerate(op.operands) if value in whole]
        if not at:
            continue
        if op.definition.alias and op.result not in region.results:
            whole.add(op.result)
        elif op.name == "cond":
            if not all(is_read_in_parts(inner, position - 1) for inner in op.regions for position in at):
                return False
        elif op.name in ("scan", "while_loop"):
            moving = op.attrs["carries"] + op.attrs.get("slices", 0)
            if not all(position >= moving and is_read_in_parts(inner, position) for inner in op.regions for position in at):
                return False
        elif op.name not in PARTS or at != [0]:
            return False
    return True


PARTS = frozenset({"slice", "take", "take_along_axis"})


def emit_region(graph: Graph, arguments: Sequence[Value]) -> tuple[Value, ...]:
    """Append the ops of `graph` to the graph under construction; returns their results."""
    builder = current_emitter()
    assert isinstance(builder, GraphBuilder)
    return builder.inline(graph, arguments)


# -- cond


def _cond_forward_half(context: _OpContext) -> ForwardHalf:
    op, operands = context.op, context.operands
    wanted = [index for index in context.wanted if index > 0]
    in_parts = [index for index in wanted if all(is_read_in_parts(region, index - 1) for region in op.regions)]
    branches = [context.partition_region(region, [index - 1 for index in wanted], context.seeded, [index - 1 for index in in_parts])
                for region in op.regions]
    count = len(op.results)
    slots: list[Value] = []             # one value of each slot's type
    slot_of: list[dict[int, int]] = []  # for each branch: the slot of a hidden result
    for partition in branches:
        free = list(range(len(slots)))
        chosen: dict[int, int] = {}
        for index, value in enumerate(partition.forward.results[count:], count):
            slot = next((slot for slot in free if slots[slot].type == value.type), None)
            if slot is None:
                slot = len(slots)
                slots.append(value)
            else:
                free.remove(slot)
            chosen[index] = slot
        slot_of.append(chosen)
    regions = tuple(_with_slots(partition.forward, count, chosen, slots) for partition, chosen in zip(branches, slot_of, strict=True))
    results = context.append([*(_like(value) for value in op.results), *(_like(value) for value in slots)], regions)

    def pull_back(given: Cotangents, known: Callable[[int], Value | None]) -> dict[int, Value]:
        totals = [_zeros(operands[index]) if (total := known(index)) is None else total for index in in_parts]

        def backward(number: int) -> Callable[[], Sequence[Value]]:
            partition, chosen = branches[number], slot_of[number]

            def run() -> Sequence[Value]:
                saved = [(results[entry.index if entry.index < count else count + chosen[entry.index]] if entry.is_result
                          else operands[1 + entry.index]) for entry in partition.saved]
                cotangents = [_zeros(op.results[index]) if (seed := given[index]) is None else seed for index in context.seeded]
                return emit_region(partition.backward, (*saved, *cotangents, *totals))
            return run

        return dict(zip(wanted, emit_cond(operands[0], backward(0), backward(1)), strict=True))

    return ForwardHalf(results[:count], pull_back)


def _with_slots(forward: Graph, count: int, chosen: Mapping[int, int], slots: Sequence[Value]) -> Graph:
    """Copy of `forward` with a result for each slot; zeros in the slots that it has no value for."""
    builder = GraphBuilder(forward.name)
    params = [builder.param(value.type, value.name) for value in forward.params]
    results = builder.inline(forward, params)
    held = {slot: results[index] for index, slot in chosen.items()}
    with emitting(builder):
        return builder.build([*results[:count], *(held[slot] if slot in held else _zeros(value) for slot, value in enumerate(slots))])


# -- while_loop


def _while_forward_half(context: _OpContext) -> ForwardHalf:
    op, operands = context.op, context.operands
    body = op.regions[1]
    carries: int = op.attrs["carries"]
    old_stacks: tuple[int, ...] = op.attrs["checkpointed"]
    leading = len(op.results) - carries
    stacked_seeds = {old_stacks[index - 2]: index for index in context.seeded if 2 <= index < leading}
    ends = {*(index - leading for index in context.seeded if index >= leading), *stacked_seeds}
    active = active_carries(body, carries, context.wanted, (), sorted(ends))
    of_fixed = [index for index in context.wanted if index >= carries]
    wanted = [*active, *of_fixed]
    joint = _joint_graph(context.partition_region(body, wanted, active, of_fixed, saved_dtype=None))
    again = without_effects(body)
    needed = _needed_carries(again, joint, carries)
    again_body = _restricted(again, carries, needed)
    count_stored = op.attrs["checkpoints"] or count_checkpoints(sum(body.params[index].type.nbytes for index in needed))
    checkpointed = (*old_stacks, *(index for index in needed if index not in old_stacks))
    stack_values = [_like(op.operands[index], (count_stored,)) for index in checkpointed]
    heads = list(map(_like, op.results[:2])) if leading else [Value(COUNT, "trips"), Value(COUNT, "stride")]
    results = context.append([*heads, *stack_values, *(_like(value) for value in op.results[leading:])], op.regions,
                             checkpointed=checkpointed, checkpoints=count_stored)
    trips, stride = results[:2]
    stacks = {index: results[2 + checkpointed.index(index)] for index in needed}
    fixed = operands[carries:]
    in_parts = [index for index in of_fixed if is_read_in_parts(body, index)]

    def pull_back(given: Cotangents, known: Callable[[int], Value | None]) -> dict[int, Value]:
        ct_stacks = {carry: value for carry, index in stacked_seeds.items() if carry in active and (value := given[index]) is not None}
        totals = [total if index in in_parts and (total := known(index)) is not None else _zeros(operands[index]) for index in of_fixed]
        cotangents = [_zeros(op.operands[index]) if (seed := given[leading + index]) is None else seed for index in active]

        def step_back(position: Value, state: Sequence[Value], carried: Sequence[Value]) -> list[Value]:
            """Derivative of one iteration, from its carried values."""
            inner = dict(zip(needed, carried, strict=True))
            arguments = [inner.get(index) for index in range(carries)]
            filled = [_zeros(body.params[index]) if value is None else value for index, value in enumerate(arguments)]
            new = list(emit_region(joint, (*filled, *fixed, *state)))
            for entry, carry in enumerate(active):
                if carry in ct_stacks:
                    new[entry] = ops.add(new[entry], _row_of_stack(ct_stacks[carry], position, stride))
            return new

        def advance(position: Value, *carried: Value) -> list[Value]:
            return [ops.add(position, number(1)), *emit_region(again_body, (*carried, *fixed))]

        def backward_by_iterations(stored: _Checkpoints, state: Sequence[Value]) -> Sequence[Value]:
            """All iterations backwards; each is reached from the checkpoint before it."""
            def back(*state: Value) -> Sequence[Value]:
                position = ops.subtract(state[0], number(1))
                entry = ops.floor_divide(ops.subtract(position, stored.start), stored.stride)
                first = ops.add(stored.start, ops.multiply(entry, stored.stride))
                _, *carried = emit_while(lambda at, *_: ops.less(at, position), advance, [first, *stored.take(entry)])
                return [position, *step_back(position, state[1:], carried)]

            return emit_while(lambda position, *_: ops.greater(position, stored.start), back, [stored.stop, *state])[1:]

        def backward_by_segments(stored: _Checkpoints, state: Sequence[Value], depth: int) -> Sequence[Value]:
            """All iterations backwards; a segment between two checkpoints is first run again with checkpoints of its own."""
            if not depth:
                return backward_by_iterations(stored, state)
            all_stored = ops.equal(stored.stride, number(1))
            # if every iteration is stored, one segment holds all of them, and is not run again
            segment = ops.select(all_stored, number(count_stored), stored.stride)

            def backward_segment(*state: Value) -> Sequence[Value]:
                left = ops.subtract(state[0], number(1))
                start = ops.add(stored.start, ops.multiply(left, segment))
                stop = ops.minimum(ops.add(start, segment), stored.stop)
                last = ops.select(all_stored, start, stop)
                _, inner_stride, *found = emit_while(lambda position, *_: ops.less(position, last), advance, [start, *stored.take(left)],
                                                     tuple(range(1, len(needed) + 1)), count_stored)
                rows = found[:len(needed)]

                def take(entry: Value) -> Sequence[Value]:
                    return emit_cond(all_stored, lambda: stored.take(entry), lambda: take_rows(rows, entry))

                return [left, *backward_by_segments(_Checkpoints(start, stop, inner_stride, take), state[1:], depth - 1)]

            segments = _ceil_divide(ops.subtract(stored.stop, stored.start), segment)
            return emit_while(lambda left, *_: ops.greater(left, number(0)), backward_segment, [segments, *state])[1:]

        outermost = _Checkpoints(number(0), trips, stride, lambda entry: take_rows([stacks[index] for index in needed], entry))
        levels = count_levels(count_stored) if op.role is Role.PRIMAL else 1
        pulled = backward_by_segments(outermost, [*cotangents, *totals], levels)
        return dict(zip(wanted, pulled, strict=True))

    stored = (*results[:leading], *results[2 + len(checkpointed):]) if leading else results[2 + len(checkpointed):]
    return ForwardHalf(stored, pull_back)


@dataclass(frozen=True, slots=True)
class _Checkpoints:
    """Iterations from `start` to `stop`; `take` returns the carried values at the start of every `stride`th iteration, counted from 0."""

    start: Value
    stop: Value
    stride: Value
    take: Callable[[Value], Sequence[Value]]


def take_rows(stacks: Sequence[Value], entry: Value) -> list[Value]:
    return [ops.take(stack, entry, axis=0) for stack in stacks]


def count_levels(checkpoints: int) -> int:
    """Most levels of segments that are run again with checkpoints of their own before single iterations are.

    >>> [count_levels(count) for count in (1024, 256, 32)]
    [1, 2, 3]
    """
    return next(levels for levels in itertools.count(1) if checkpoints ** (levels + 1) >= MAX_ITERATIONS)


def count_checkpoints(nbytes: int) -> int:
    """Number of checkpoints of `nbytes` bytes each: a power of two, as many as `CHECKPOINT_BYTES` hold, within limits.

    >>> [count_checkpoints(size) for size in (8, 1 << 14, 1 << 20)]
    [1024, 256, 32]
    """
    fitting = max(1, CHECKPOINT_BYTES // max(1, nbytes))
    return max(MIN_CHECKPOINTS, min(MAX_CHECKPOINTS, 1 << (fitting.bit_length() - 1)))


def number(value: int) -> Value:
    """Integer constant in the graph under construction."""
    return ops.constant(value=value, dtype=I64, shape=())


def _ceil_divide(a: Value, b: Value) -> Value:
    return ops.floor_divide(ops.subtract(ops.add(a, b), number(1)), b)


def _row_of_stack(stack: Value, position: Value, stride: Value) -> Value:
    """Row of a stack of checkpoints for iteration `position`; zeros if the stack has no row for it."""
    entry = ops.floor_divide(position, stride)
    row = ops.take(stack, entry, axis=0)
    stored = ops.equal(ops.multiply(entry, stride), position)
    return ops.select(ops.broadcast(stored, shape=row.type.shape, axes=()), row, ops.full_like(row, 0.0))


def _joint_graph(partition: Partition) -> Graph:
    """Graph of the gradients, from the parameters of the forward half and the cotangents. Effects of the forward half were seen before."""
    builder = GraphBuilder(partition.backward.name)
    params = [builder.param(value.type, value.name) for value in partition.forward.params]
    cotangents = [builder.param(value.type, value.name) for value in partition.backward.params[len(partition.saved):]]
    results = builder.inline(without_effects(partition.forward), params)
    saved = [(results if entry.is_result else params)[entry.index] for entry in partition.saved]
    gradients = builder.inline(partition.backward, (*saved, *cotangents))
    return _needed_parts(builder.build(gradients))


def _needed_parts(graph: Graph) -> Graph:
    """Graph without what its results do not need, within loops and branches too: an array that a loop only writes to is carried by those of
    an iteration, but their derivatives do not read it."""
    return eliminate_dead_carries(graph.with_ops(live_ops(graph)), Options())


def _needed_carries(body: Graph, joint: Graph, carries: int) -> list[int]:
    """Carries that must be known to run the body backwards: those that `joint` reads, and those from which these are computed."""
    used = {value for op in joint.ops for value in op.operands}.union(joint.results)
    needed = {index for index in range(carries) if joint.params[index] in used}
    while True:
        graph = _needed_parts(body.with_ops(body.ops, [body.results[index] for index in sorted(needed)]))
        used = {value for op in graph.ops for value in op.operands}.union(graph.results)
        grown = needed.union(index for index in range(carries) if body.params[index] in used)
        if grown == needed:
            return sorted(needed)
        needed = grown


def _restricted(body: Graph, carries: int, needed: Sequence[int]) -> Graph:
    """Body for the carries `needed` alone."""
    graph = _needed_parts(body.with_ops(body.ops, [body.results[index] for index in needed]))
    return Graph(f"{body.name}_again", (*(body.params[index] for index in needed), *body.params[carries:]), graph.ops, graph.results)
