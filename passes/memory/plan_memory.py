"""Memory plan: a slot for every value of a program, `free` after its last use, and the live bytes at each op.

Live bytes count the working memory of the plan: results of ops, without parameters and results of the graph; reshapes and in-place results
take nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import accumulate

from adjit.ir import ops
from adjit.ir.analysis.buffer_assignment import arena_bytes, region_memory, scratch_bytes, tile_bytes
from adjit.ir.analysis.cost import cost_of
from adjit.ir.graph import Graph, Op, Slot, Value, updated_results
from adjit.ir.memory_sizes import MAX_TILE_SCRATCH_BYTES, aligned
from adjit.ir.ops.traits import CONTROL_FLOW, HOST_CALLS
from adjit.passes.memory.carry_through_branches import carry_through_branches
from adjit.passes.memory.donation import Donations, results_in_params
from adjit.passes.memory.packing import Block, pack
from adjit.passes.memory.share_buffers import BufferSharing, share_buffers
from adjit.passes.options import Options
from adjit.passes.regions import contains, once_a_region

MANY_ITERATIONS = 64
"""Iterations of a loop that are enough tasks for a team of threads, as many as steps have at most."""

SMALL_ITERATION_OPERATIONS = 1_000_000
"""Operations of an iteration up to which its own steps are hardly worth a launch: some 20 us of a product."""


def plan_memory(graph: Graph, options: Options) -> Graph:
    """Set the slots of every op and insert `free` after the last use of each value in the arena.

    Results of the graph are written directly to their destination: the buffer of a donated parameter, else a fresh one (`result+INDEX`). A
    result may take the memory of an operand that dies at its op. A reshape is an alias of its operand, and so is a contiguous slice that
    prolongs no lifetime. All else lies in one arena. Regions of loops and branches are planned too, each with an arena in the scratch
    memory of its op.

    A donated buffer is written after the last read of its old content. A result that is made earlier is made in the arena and copied: a
    `reshape` whose slot differs from its operand's is a copy.

    Before:
        graph @step(%w: f32[8] donated, %g: f32[8]) {
          %s: f32[8] = multiply %g, %g
          %t: f32[8] = add %s, %g
          %n: f32[8] = subtract %w, %t
          return %n
        }
    After:
        graph @step(%w: f32[8] donated, %g: f32[8]) {
          %s: f32[8] @ arena+0 = multiply %g, %g
          %t: f32[8] @ arena+0 = add %s, %g
          %n: f32[8] @ param+0 = subtract %w, %t
          free %t
          return %n
        }
    """
    return _plan(_with_own_results(graph), None, options.cache_bytes is not None)


def _with_own_results(graph: Graph) -> Graph:
    """The graph with copies, so that an op makes the new content of every updated parameter, and that of no other, and so that no result is
    the old content of one. Old contents are copied first, before they are overwritten."""
    updates = [result for param, result in updated_results(graph).items() if graph.param_roles[param] == "updated"]
    if not updates:
        return graph
    updated = {value for value, role in zip(graph.params, graph.param_roles, strict=True) if role == "updated"}
    taken, results = set(graph.params), list(graph.results)
    first: list[Op] = []
    last: list[Op] = []
    for index, value in enumerate(results):
        if value not in (taken if index in updates else updated):
            taken.update((value,) if index in updates else ())
            continue
        results[index] = copy = Value(value.type, value.name)
        (last if index in updates else first).append(Op(ops.reshape, (value,), (copy,), {"shape": value.type.shape}))
    return graph.with_ops((*first, *graph.ops, *last), results)


def _plan(graph: Graph, donations: Donations | None, deals: bool) -> Graph:
    """Graph with slots. `deals` is True if iterations of loops may be tasks, with the region's arena in the scratch memory of threads."""
    plan_region = once_a_region(lambda region: _plan(region, None, deals))
    graph = graph.with_ops([_with_planned_regions(op, plan_region, deals) if op.name in CONTROL_FLOW else op for op in graph.ops])
    sharing = share_buffers(graph, donations)
    offsets, _ = pack(working_blocks(sharing))
    offset_iterator = iter(offsets)
    slots: dict[Value, Slot] = {}
    ends: dict[int, list[Value]] = {}
    for buffer in sharing.buffers:
        slot = buffer.slot or Slot("arena", next(offset_iterator))
        slots.update((value, slot.offset_by(allocation.offset_of(value)))
                     for allocation in buffer.allocations for value in allocation.values)
        if buffer.slot is None:
            ends.setdefault(buffer.last, []).extend(buffer.allocations[-1].values)
    planned: list[Op] = []
    for index, op in enumerate(sharing.graph.ops):
        scratch = (Slot("arena", next(offset_iterator)),) if op.attrs.get("scratch_bytes", 0) else ()
        op = op.with_slots((*[slots[value] for value in op.results], *scratch))
        planned.append(_with_planned_tile(op, slots, deals) if op.name == "tiled" else op)
        if index in ends:
            planned.append(Op(ops.free, tuple(ends[index]), ()))
    return sharing.graph.with_ops(planned)


def _with_planned_regions(op: Op, plan_region: Callable[[Graph], Graph], deals: bool) -> Op:
    op = carry_through_branches(op) if op.name == "cond" else op
    op = replace(op, regions=tuple(map(plan_region, op.regions)))
    return replace(op, attrs={**op.attrs, "scratch_bytes": scratch_bytes(op, dealt=deals and _may_be_dealt(op))})


def _may_be_dealt(op: Op) -> bool:
    """True for a loop whose iterations, or parts, do not wait for each other, if they are as many as threads may be, or too small to be
    divided themselves, and if a thread has enough memory for one."""
    if any(contains(region, HOST_CALLS) for region in op.regions):
        return False
    if op.name == "panels":
        return op.attrs["parts"] > 1 and all(region_memory([region])[1] + tile_bytes(region) <= MAX_TILE_SCRATCH_BYTES
                                             for region in op.regions)
    if op.name != "scan" or op.attrs["carries"]:
        return False
    (region,) = op.regions
    return (op.attrs["length"] >= MANY_ITERATIONS or cost_of(region).operations <= SMALL_ITERATION_OPERATIONS) and (
        arena_bytes(region) + tile_bytes(region) <= MAX_TILE_SCRATCH_BYTES)


def _with_planned_tile(op: Op, slots: Mapping[Value, Slot], deals: bool) -> Op:
    """Tiled op with a planned region: a region result whose slot outside is an operand's slot is written over the matching parameter."""
    (region,) = op.regions
    operand_at = {slots[value]: index for index, value in enumerate(op.operands)}
    result_in_param = {operand_at[slot]: index for index, slot in enumerate(op.slots) if slot in operand_at}
    roles = tuple("donated" if index in result_in_param else role for index, role in enumerate(region.param_roles))
    return replace(op, regions=(_plan(replace(region, param_roles=roles), results_in_params(region, result_in_param), deals),))


def live_bytes(graph: Graph, donations: Donations | None = None) -> list[int]:
    """Working bytes in use during each op.

    A copy that a donated buffer makes necessary counts as one more op (see `share_buffers`). `donations` are the graph's own if they are
    known already; they hold for any order of its ops.
    """
    sharing = share_buffers(graph, donations)
    changes = [0] * (len(sharing.graph.ops) + 1)
    for block in working_blocks(sharing):
        changes[block.first] += block.size
        changes[block.last + 1] -= block.size
    return list(accumulate(changes))[:-1]


def peak_bytes(graph: Graph) -> int:
    """Most working bytes in use at one time: no arena for this order of ops can be smaller."""
    return max(live_bytes(graph), default=0)


def working_blocks(sharing: BufferSharing) -> list[Block]:
    """Blocks for the arena: the buffers without a fixed slot, then the scratch memory of ops."""
    blocks = [Block(buffer.size, buffer.first, buffer.last) for buffer in sharing.buffers if buffer.slot is None]
    scratch = ((index, op.attrs.get("scratch_bytes", 0)) for index, op in enumerate(sharing.graph.ops))
    return blocks + [Block(aligned(size), index, index) for index, size in scratch if size]
