"""Reverse mode of loops and branches.

The body is differentiated once, as a graph of its own, and cut into a forward and a backward half.

scan         What the backward half needs of each run is stacked as further rows; the cotangents are a scan in the other direction.
cond         What the backward half of either branch needs are further results, zeros where the other branch was taken.
while_loop   How often it runs is known at run time only, and no program allocates memory while it runs. So the forward loop keeps what it
             carries at every run as long as that fits, then at every second, every fourth, ... run (online checkpointing, as in
             Stumm and Walther, "New algorithms for optimal online checkpointing", SIAM J. Sci. Comput. 32, 2010). The backward loop runs
             each stretch between two checkpoints once more, keeping more of them, and takes the stretches between those from the last
             to the first in the same way, until every run is kept: with room for n checkpoints, up to n^k runs are run k times in all,
             once more each for its derivative.
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
from adjit.ir.graph import Graph, Op, Value, live_ops
from adjit.ir.ops.control_flow import COUNT
from adjit.ir.types import I64
from adjit.passes.derivatives.path import carried_path
from adjit.passes.derivatives.split_joint import Halves

CHECKPOINT_BYTES = 1 << 22
FEWEST_CHECKPOINTS, MOST_CHECKPOINTS = 32, 1024
MOST_RUNS = 1 << 20
"""Up to as many runs, each is repeated a bounded number of times; in derivatives of derivatives, whose code grows with every level, up to
the square of the number of checkpoints."""

Cut = Callable[[Graph, Sequence[int], Sequence[int]], Halves]
"""The halves of a region, differentiated with respect to parameters, for cotangents of results."""

Given = Sequence[Value | None]
PullBack = Callable[[Given], "dict[int, Value]"]
"""Cotangents of operands, by their numbers, from those of the results of the op as it was."""


@dataclass(frozen=True, slots=True)
class Opened:
    """An op whose forward half stands in a builder: its results, and its backward half."""

    results: tuple[Value, ...]
    pull_back: PullBack


def open_control_flow(builder: GraphBuilder, op: Op, operands: Sequence[Value], path: Collection[Value], cut: Cut,
                      role: Role | None) -> Opened:
    """Append the forward half of a loop or a branch that lies on the path of a derivative."""
    wanted = [index for index, value in enumerate(op.operands) if value in path]
    seeded = [index for index, value in enumerate(op.results) if value in path]
    rule = {"scan": _open_scan, "while_loop": _open_while, "cond": _open_cond}[op.name]
    return rule(_Opening(builder, op, tuple(operands), wanted, seeded, cut, role))


@dataclass(frozen=True, slots=True)
class _Opening:
    builder: GraphBuilder
    op: Op
    operands: tuple[Value, ...]
    wanted: list[int]
    seeded: list[int]
    cut: Cut
    role: Role | None

    def append(self, results: Sequence[Value], regions: tuple[Graph, ...], **attrs: object) -> tuple[Value, ...]:
        """Append the op with other regions, and so other results."""
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


def _open_scan(opening: _Opening) -> Opened:
    op, operands = opening.op, opening.operands
    (body,) = op.regions
    carries, slices, length, reverse = (op.attrs[name] for name in ("carries", "slices", "length", "reverse"))
    rows = len(body.results) - carries
    seeded_rows = [index for index in opening.seeded if index < rows]
    active = carried_path(body, carries, opening.wanted, seeded_rows, [index - rows for index in opening.seeded if index >= rows])
    wanted = sorted({*active, *(index for index in opening.wanted if index >= carries)})
    seeds = [*seeded_rows, *(rows + index for index in active)]
    halves = opening.cut(body, wanted, seeds)
    forward = halves.forward
    stacked = list(forward.results[:rows])
    places: dict[int, int] = {}         # of what is saved: which stack
    for number, place in enumerate(halves.saved):
        if place.is_result or place.index < carries:
            value = (forward.results if place.is_result else forward.params)[place.index]
            if value not in stacked:
                stacked.append(value)
            places[number] = stacked.index(value)
    region = Graph(body.name, forward.params, forward.ops, (*stacked, *forward.results[rows:rows + carries]), body.param_roles)
    new = [_like(value, (length,)) for value in stacked] + [_like(value) for value in op.results[rows:]]
    for made, old in zip([*new[:rows], *new[len(stacked):]], op.results, strict=True):
        made.name = old.name
    results = opening.append(new, (region,))

    def outer(number: int) -> Value:
        return results[places[number]] if number in places else operands[halves.saved[number].index]

    fixed = {number: outer(number) for number, place in enumerate(halves.saved)
             if not place.is_result and place.index >= carries + slices}
    moving = [number for number in range(len(halves.saved)) if number not in fixed]
    of_slices = [index for index in wanted if carries <= index < carries + slices]
    of_fixed = [index for index in wanted if index >= carries + slices]

    def pull_back(given: Given) -> dict[int, Value]:
        def cotangent(index: int) -> Value:
            known = given[index]
            return _zeros(op.results[index]) if known is None else known

        def backward(carried: Sequence[Value], sliced: Sequence[Value]) -> tuple[list[Value], list[Value]]:
            saved = {**fixed, **dict(zip(moving, sliced, strict=False))}
            pulled = dict(zip(wanted, emit_region(halves.backward, (
                *(saved[number] for number in range(len(halves.saved))), *sliced[len(moving):], *carried[:len(active)])), strict=True))
            sums = [ops.add(total, pulled[index]) for index, total in zip(of_fixed, carried[len(active):], strict=True)]
            return [pulled[index] for index in of_slices], [*(pulled[index] for index in active), *sums]

        init = [cotangent(rows + index) for index in active] + [_zeros(operands[index]) for index in of_fixed]
        stacks = [outer(number) for number in moving] + [cotangent(index) for index in seeded_rows]
        stacked, carried = emit_scan(backward, init, stacks, length, not reverse, f"{body.name}_backward")
        return dict(zip([*of_slices, *active, *of_fixed], [*stacked, *carried], strict=True))

    return Opened((*results[:rows], *results[len(stacked):]), pull_back)


def emit_region(graph: Graph, arguments: Sequence[Value]) -> tuple[Value, ...]:
    """The ops of `graph` in the graph under construction."""
    builder = current_emitter()
    assert isinstance(builder, GraphBuilder)
    return builder.inline(graph, arguments)


# -- cond


def _open_cond(opening: _Opening) -> Opened:
    op, operands = opening.op, opening.operands
    wanted = [index for index in opening.wanted if index > 0]
    branches = [opening.cut(region, [index - 1 for index in wanted], opening.seeded) for region in op.regions]
    count = len(op.results)
    slots: list[Value] = []             # one value of each slot's type
    slot_of: list[dict[int, int]] = []  # for each branch: the slot of a hidden result
    for halves in branches:
        free = list(range(len(slots)))
        chosen: dict[int, int] = {}
        for index, value in enumerate(halves.forward.results[count:], count):
            slot = next((slot for slot in free if slots[slot].type == value.type), None)
            if slot is None:
                slot = len(slots)
                slots.append(value)
            else:
                free.remove(slot)
            chosen[index] = slot
        slot_of.append(chosen)
    regions = tuple(_with_slots(halves.forward, count, chosen, slots) for halves, chosen in zip(branches, slot_of, strict=True))
    results = opening.append([*(_like(value) for value in op.results), *(_like(value) for value in slots)], regions)

    def pull_back(given: Given) -> dict[int, Value]:
        def backward(number: int) -> Callable[[], Sequence[Value]]:
            halves, chosen = branches[number], slot_of[number]

            def run() -> Sequence[Value]:
                saved = [(results[place.index if place.index < count else count + chosen[place.index]] if place.is_result
                          else operands[1 + place.index]) for place in halves.saved]
                cotangents = [_zeros(op.results[index]) if (known := given[index]) is None else known for index in opening.seeded]
                return emit_region(halves.backward, (*saved, *cotangents))
            return run

        return dict(zip(wanted, emit_cond(operands[0], backward(0), backward(1)), strict=True))

    return Opened(results[:count], pull_back)


def _with_slots(forward: Graph, count: int, chosen: Mapping[int, int], slots: Sequence[Value]) -> Graph:
    """`forward` with a result for each slot: zeros for those that it has nothing for."""
    builder = GraphBuilder(forward.name)
    params = [builder.param(value.type, value.name) for value in forward.params]
    results = builder.inline(forward, params)
    held = {slot: results[index] for index, slot in chosen.items()}
    with emitting(builder):
        return builder.build([*results[:count], *(held[slot] if slot in held else _zeros(value) for slot, value in enumerate(slots))])


# -- while_loop


def _open_while(opening: _Opening) -> Opened:
    op, operands = opening.op, opening.operands
    body = op.regions[1]
    carries: int = op.attrs["carries"]
    old_stacks: tuple[int, ...] = op.attrs["checkpointed"]
    leading = len(op.results) - carries
    stacked_seeds = {old_stacks[index - 2]: index for index in opening.seeded if 2 <= index < leading}
    ends = {*(index - leading for index in opening.seeded if index >= leading), *stacked_seeds}
    active = carried_path(body, carries, opening.wanted, (), sorted(ends))
    of_fixed = [index for index in opening.wanted if index >= carries]
    wanted = [*active, *of_fixed]
    joint = _joined(opening.cut(body, wanted, active))
    needed = _needed_carries(body, joint, carries)
    again = _restricted(body, carries, needed)
    places = op.attrs["checkpoints"] or count_checkpoints(sum(body.params[index].type.nbytes for index in needed))
    checkpointed = (*old_stacks, *(index for index in needed if index not in old_stacks))
    stack_values = [_like(op.operands[index], (places,)) for index in checkpointed]
    heads = list(map(_like, op.results[:2])) if leading else [Value(COUNT, "trips"), Value(COUNT, "stride")]
    results = opening.append([*heads, *stack_values, *(_like(value) for value in op.results[leading:])], op.regions,
                             checkpointed=checkpointed, checkpoints=places)
    trips, stride = results[:2]
    stacks = {index: results[2 + checkpointed.index(index)] for index in needed}
    fixed = operands[carries:]

    def pull_back(given: Given) -> dict[int, Value]:
        ct_stacks = {carry: value for carry, index in stacked_seeds.items() if carry in active and (value := given[index]) is not None}
        totals = [_zeros(operands[index]) for index in of_fixed]
        cotangents = [_zeros(op.operands[index]) if (known := given[leading + index]) is None else known for index in active]

        def step_back(position: Value, state: Sequence[Value], carried: Sequence[Value]) -> list[Value]:
            """One run of the body backwards, from what it carried."""
            inner = dict(zip(needed, carried, strict=True))
            arguments = [inner.get(index) for index in range(carries)]
            filled = [_zeros(body.params[index]) if value is None else value for index, value in enumerate(arguments)]
            pulled = emit_region(joint, (*filled, *fixed, *state[:len(active)]))
            new = list(pulled[:len(active)])
            for place, carry in enumerate(active):
                if carry in ct_stacks:
                    new[place] = ops.add(new[place], _row_of_stack(ct_stacks[carry], position, stride))
            return new + [ops.add(total, part) for total, part in zip(state[len(active):], pulled[len(active):], strict=True)]

        def advance(position: Value, *carried: Value) -> list[Value]:
            return [ops.add(position, number(1)), *emit_region(again, (*carried, *fixed))]

        def run_by_run(kept: _Kept, state: Sequence[Value]) -> Sequence[Value]:
            """All runs backwards, each from the checkpoint before it."""
            def back(*state: Value) -> Sequence[Value]:
                position = ops.subtract(state[0], number(1))
                place = ops.floor_divide(ops.subtract(position, kept.start), kept.stride)
                first = ops.add(kept.start, ops.multiply(place, kept.stride))
                _, *carried = emit_while(lambda at, *_: ops.less(at, position), advance, [first, *kept.take(place)])
                return [position, *step_back(position, state[1:], carried)]

            return emit_while(lambda position, *_: ops.greater(position, kept.start), back, [kept.stop, *state])[1:]

        def stretch_by_stretch(kept: _Kept, state: Sequence[Value], depth: int) -> Sequence[Value]:
            """All runs backwards, those between two checkpoints after running them again with checkpoints of their own."""
            if not depth:
                return run_by_run(kept, state)
            kept_all = ops.equal(kept.stride, number(1))
            # where every run is kept, the stretch between two checkpoints is as long as all of them, and is not run again
            stretch = ops.select(kept_all, number(places), kept.stride)

            def back_through(*state: Value) -> Sequence[Value]:
                left = ops.subtract(state[0], number(1))
                start = ops.add(kept.start, ops.multiply(left, stretch))
                stop = ops.minimum(ops.add(start, stretch), kept.stop)
                last = ops.select(kept_all, start, stop)
                _, again_stride, *found = emit_while(lambda position, *_: ops.less(position, last), advance, [start, *kept.take(left)],
                                                     tuple(range(1, len(needed) + 1)), places)
                rows = found[:len(needed)]

                def take(place: Value) -> Sequence[Value]:
                    return emit_cond(kept_all, lambda: kept.take(place), lambda: take_rows(rows, place))

                return [left, *stretch_by_stretch(_Kept(start, stop, again_stride, take), state[1:], depth - 1)]

            stretches = _divided_up(ops.subtract(kept.stop, kept.start), stretch)
            return emit_while(lambda left, *_: ops.greater(left, number(0)), back_through, [stretches, *state])[1:]

        outermost = _Kept(number(0), trips, stride, lambda place: take_rows([stacks[index] for index in needed], place))
        levels = count_levels(places) if op.role is Role.PRIMAL else 1
        pulled = stretch_by_stretch(outermost, [*cotangents, *totals], levels)
        return dict(zip(wanted, pulled, strict=True))

    kept = (*results[:leading], *results[2 + len(checkpointed):]) if leading else results[2 + len(checkpointed):]
    return Opened(kept, pull_back)


@dataclass(frozen=True, slots=True)
class _Kept:
    """Runs from `start` to `stop`; `take` gives what was carried at the start of every `stride`th of them, counted from 0."""

    start: Value
    stop: Value
    stride: Value
    take: Callable[[Value], Sequence[Value]]


def take_rows(stacks: Sequence[Value], place: Value) -> list[Value]:
    return [ops.take(stack, place, axis=0) for stack in stacks]


def count_levels(checkpoints: int) -> int:
    """How many times, at the most, a stretch of runs is run again with checkpoints of its own before single runs are.

    >>> [count_levels(count) for count in (1024, 256, 32)]
    [1, 2, 3]
    """
    return next(levels for levels in itertools.count(1) if checkpoints ** (levels + 1) >= MOST_RUNS)


def count_checkpoints(nbytes: int) -> int:
    """How many checkpoints of `nbytes` bytes are kept: a power of two, as many as `CHECKPOINT_BYTES` hold, within limits.

    >>> [count_checkpoints(size) for size in (8, 1 << 14, 1 << 20)]
    [1024, 256, 32]
    """
    fitting = max(1, CHECKPOINT_BYTES // max(1, nbytes))
    return max(FEWEST_CHECKPOINTS, min(MOST_CHECKPOINTS, 1 << (fitting.bit_length() - 1)))


def number(value: int) -> Value:
    """A constant of the graph under construction."""
    return ops.constant(value=value, dtype=I64, shape=())


def _divided_up(a: Value, b: Value) -> Value:
    return ops.floor_divide(ops.subtract(ops.add(a, b), number(1)), b)


def _row_of_stack(stack: Value, position: Value, stride: Value) -> Value:
    """What a stack of checkpoints holds for run `position`; zeros where that was not kept."""
    place = ops.floor_divide(position, stride)
    row = ops.take(stack, place, axis=0)
    kept = ops.equal(ops.multiply(place, stride), position)
    return ops.select(ops.broadcast(kept, shape=row.type.shape, axes=()), row, ops.full_like(row, 0.0))


def _joined(halves: Halves) -> Graph:
    """The gradients from the parameters of the forward half and the cotangents."""
    builder = GraphBuilder(halves.backward.name)
    params = [builder.param(value.type, value.name) for value in halves.forward.params]
    cotangents = [builder.param(value.type, value.name) for value in halves.backward.params[len(halves.saved):]]
    results = builder.inline(halves.forward, params)
    saved = [(results if place.is_result else params)[place.index] for place in halves.saved]
    gradients = builder.inline(halves.backward, (*saved, *cotangents))
    graph = builder.build(gradients)
    return graph.with_ops(live_ops(graph))


def _needed_carries(body: Graph, joint: Graph, carries: int) -> list[int]:
    """What has to be known of what is carried to run the body backwards: what `joint` reads, and what that is computed from."""
    used = {value for op in joint.ops for value in op.operands}.union(joint.results)
    needed = {index for index in range(carries) if joint.params[index] in used}
    while True:
        graph = body.with_ops(body.ops, [body.results[index] for index in sorted(needed)])
        used = {value for op in live_ops(graph) for value in op.operands}.union(graph.results)
        grown = needed.union(index for index in range(carries) if body.params[index] in used)
        if grown == needed:
            return sorted(needed)
        needed = grown


def _restricted(body: Graph, carries: int, needed: Sequence[int]) -> Graph:
    """The body for the carries `needed` alone."""
    graph = body.with_ops(body.ops, [body.results[index] for index in needed])
    return Graph(f"{body.name}_again", (*(body.params[index] for index in needed), *body.params[carries:]), tuple(live_ops(graph)),
                 graph.results)
