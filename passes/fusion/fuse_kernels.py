"""Gathers elementwise ops and reductions into `fused` ops, each of which becomes one kernel.

Fusion decides the speed: values that stay inside a kernel are never written to memory. Groups grow along the order of the ops: an op starts
a group, and the group then takes in the groups that compute its operands, as long as the result is legal (`fusion_groups`) and no path
leads out of the group and back into it.

Before:
    graph @softmax(%x: f32[8,4]) {
      %m: f32[8] = reduce_max %x {axes=(1,)}
      %b: f32[8,4] = broadcast %m {axes=(0,), shape=(8, 4)}
      %d: f32[8,4] = subtract %x, %b
      %e: f32[8,4] = exp %d
      %s: f32[8] = reduce_sum %e {axes=(1,)}
      %c: f32[8,4] = broadcast %s {axes=(0,), shape=(8, 4)}
      %y: f32[8,4] = divide %e, %c
      return %y
    }
After:
    graph @softmax(%x: f32[8,4]) {
      %y: f32[8,4] = fused %x {columns=4, in_place=(0,), rows=8, scratch_bytes=64} [
        graph @divide_5(%x: f32[8,4]) {
          %m: f32[8] = reduce_max %x {axes=(1,)}
          %b: f32[8,4] = broadcast %m {axes=(0,), shape=(8, 4)}
          %d: f32[8,4] = subtract %x, %b
          %e: f32[8,4] = exp %d
          %s: f32[8] = reduce_sum %e {axes=(1,)}
          %c: f32[8,4] = broadcast %s {axes=(0,), shape=(8, 4)}
          %y: f32[8,4] = divide %e, %c
          return %y
        }
      ]
      return %y
    }
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping

from adjit.ir.analysis.iteration_space import IndexMap, full_map, operand_map, reduced_map
from adjit.ir.analysis.kernel_schedule import CPU_RULE, KernelRule, schedule_kernel
from adjit.ir.batching import may_stop
from adjit.ir.definition import Kind
from adjit.ir.errors import Role
from adjit.ir.graph import Graph, Op, Value, attributes_key, graph_key, producers
from adjit.ir.ops.region import fused
from adjit.ir.ops.traits import FREE_IN_KERNELS, STRONG, TRANSCENDENTAL
from adjit.passes.autodiff.partition.choose_saved_values import backward_ops
from adjit.passes.fusion.fusion_groups import FusionGroup, choose_iteration_space, embedding_stride, is_fusible, merge_groups
from adjit.passes.fusion.topological_order import TopologicalOrder
from adjit.passes.options import Options


def fuse_kernels(graph: Graph, options: Options) -> Graph:
    """Replace groups of ops that can run in one pass over memory by `fused` ops."""
    fusion = _Fusion(graph, options.kernels, keeps_halves_apart=options.segments is not None)
    fusion.grow_within_phases()
    fusion.fuse_phases()
    fusion.fuse_siblings()
    return fusion.rebuild(options.only_kernels)


MAX_LIVE_INPUTS = 10
"""Most values from other ops that a kernel may read; values below `MIN_COUNTED_BYTES` are not counted. The gradient of a weight that is
used 64 times is a sum of 64 matmuls: added up one by one they need one buffer, in one kernel 64."""

MIN_COUNTED_BYTES = 1 << 12
"""Bytes below which a value does not count as an input."""

_BACKWARD_PHASE = {Role.PRIMAL: 2, Role.RECOMPUTE: 1, Role.ADJOINT: 2, Role.UPDATE: 3}
"""Phases of the backward half; the forward half is phase 0."""


_Guards = tuple[int, int]
"""Number of the first guard that needs an op, and of the last guard before an op that may stop the program and that it needs: -1 for none.
A call that misses a guard has to leave the program before such an op: its operands may be such as no call would have."""


class _Fusion:
    """Program as units; a unit is a group or a single op."""

    def __init__(self, graph: Graph, rule: KernelRule, keeps_halves_apart: bool):
        self.graph, self.rule = graph, rule
        self.keeps_halves_apart = keeps_halves_apart        # what is computed again, segment by segment, is not computed in advance
        self.index_of = {value: index for index, op in enumerate(graph.ops) for value in op.results}
        self.producer = producers(graph)
        self.readers = _readers(graph)
        backward = backward_ops(graph)
        self.phases = [_BACKWARD_PHASE[op.role] if op in backward else 0 for op in graph.ops]
        self.guards = _guards_around(graph, self.producer)
        self.groups: dict[int, FusionGroup] = {}
        self.memory_by_key: dict[Hashable, tuple[tuple[int, ...], int]] = {}
        self.order = TopologicalOrder([self.producer_indices(op.operands) for op in graph.ops])

    def producer_indices(self, values: Iterable[Value]) -> list[int]:
        """Indices of the ops that make `values`."""
        return [self.index_of[value] for value in values if value in self.index_of]

    # -- growing

    def grow_within_phases(self) -> None:
        """Grow groups along the order of the ops, each within one phase, so that the choice of saved values holds."""
        for index, op in enumerate(self.graph.ops):
            group = group_of(op, self.producer, self.rule) if is_fusible(op) else None
            self.order.add(index, self.producer_indices(op.operands if group is None else group.sources()))
            if group is not None:
                self.groups[index] = group
                self.fuse_producers(index, self.same_phase)

    def fuse_phases(self) -> None:
        """Merge groups across phases: values that the forward half computes for the backward half need not be stored if one kernel can run
        both."""
        for index in sorted(self.groups):
            if index in self.groups:
                self.fuse_producers(index, self.delays_nothing)

    def fuse_producers(self, consumer: int, allowed: Callable[[int, int], bool]) -> None:
        """Merge producers of a group's operands into the group, as long as one can be merged."""
        while self.fuse_one_producer(consumer, allowed):
            pass      # a merged producer brings producers of its own, and may remove a path that kept others out

    def fuse_one_producer(self, consumer: int, allowed: Callable[[int, int], bool]) -> bool:
        """Merge the latest producer that can be merged; False if there is none."""
        for producer in self.order.producers(consumer):
            if producer in self.groups and allowed(consumer, producer) and self.merge(consumer, producer):
                return True
        return False

    def fuse_siblings(self) -> None:
        """Merge groups over the same space that read the same values: one pass over memory instead of two."""
        by_value: dict[Value, list[int]] = {}
        for number in sorted(self.groups):
            full = full_map(self.groups[number].size)
            for value, index_map in self.groups[number].loads.items():
                if index_map == full:
                    by_value.setdefault(value, []).append(number)
        for numbers in by_value.values():
            for index, other in itertools.pairwise(numbers):
                first, second = self.order.owner[index], self.order.owner[other]
                if first != second and self.may_meet(second, first):
                    self.merge(second, first)

    def same_phase(self, consumer: int, producer: int) -> bool:
        return self.phases[consumer] == self.phases[producer]

    def may_meet(self, consumer: int, producer: int) -> bool:
        """False for a group of the forward half and one of the backward half, if these are kept apart."""
        return not self.keeps_halves_apart or (self.phases[consumer] == 0) == (self.phases[producer] == 0)

    def merge(self, later: int, earlier: int) -> bool:
        """Merge a group into a later one; False if that is not possible."""
        if self.order.comes_before(later, earlier):
            return self.merge(earlier, later)
        stride = embedding_stride(self.groups[later], self.groups[earlier])
        if stride is None:
            return False
        guards = self.guards and {unit: _both(map(self.guards.__getitem__, self.order.members[unit])) for unit in (earlier, later)}
        if guards and not _fits(_both(guards.values())):
            return False      # a loop would run before the guard that protects it
        between = self.order.dependents(earlier, later)
        if between is None:
            return False      # a path leads out of the group and back into it
        group = merge_groups(self.groups[later], self.groups[earlier], stride)
        if group is None or self.exceeds_live_inputs(group):
            return False
        self.order.merge(earlier, later, between, self.producer_indices(group.sources()))
        self.groups[later] = group
        del self.groups[earlier]
        return True

    def exceeds_live_inputs(self, group: FusionGroup) -> bool:
        """True if a kernel would read too many values from other ops: all of them are in memory until the last one is computed."""
        if len(group.loads) <= MAX_LIVE_INPUTS:
            return False
        return sum(value in self.index_of and value.type.nbytes >= MIN_COUNTED_BYTES for value in set(group.sources())) > MAX_LIVE_INPUTS

    def delays_nothing(self, consumer: int, producer: int) -> bool:
        """True if merging the two does not delay the readers of the consumer's results.

        A reader that needs another value which depends on the producer would make the results wait in memory.
        """
        if not self.may_meet(consumer, producer):
            return False
        if embedding_stride(self.groups[consumer], self.groups[producer]) is None or self.order.dependents(producer, consumer) is None:
            return False
        if not self.same_phase(consumer, producer) and _narrows(self.groups[producer]):
            return False
        values = (self.graph.ops[index].result for index in self.order.members[consumer])
        readers = {self.order.owner[reader] for value in values for reader in self.readers[value]} - {consumer, producer}
        return all(self.order.dependents(producer, reader, excluding=consumer) is not None for reader in readers)

    # -- the new graph

    def rebuild(self, only_kernels: bool) -> Graph:
        """Graph of units in their order. Views that every reader copied into its kernel are gone."""
        groups = {number: group for number, group in self.groups.items() if only_kernels or _is_worth_a_kernel(group)}
        if not groups:
            return self.graph
        demanded = set(self.graph.results)
        for group in groups.values():
            demanded.update(group.sources())
        order = list(self.order)
        single: dict[int, Op] = {}
        for node in reversed(order):
            op = self.graph.ops[node]
            if node not in groups and (op.name not in FREE_IN_KERNELS or not demanded.isdisjoint(op.results)):
                single[node] = op
                demanded.update(op.operands)
        fused_ops = {node: self.fused_op(group, self.order.members[node], demanded) for node, group in groups.items()}
        return self.graph.with_ops([(fused_ops.get(node) or single[node]) for node in order if node in fused_ops or node in single])

    def fused_op(self, group: FusionGroup, members: list[int], demanded: set[Value]) -> Op:
        outputs = [self.graph.ops[index].result for index in members if self.graph.ops[index].result in demanded]
        mapping: dict[Value, Value] = {value: Value(value.type, value.name) for value in group.loads}
        region_ops = tuple(_copies(group.ops, mapping, demanded))
        used = {value for op in region_ops for value in op.operands}
        loads = [value for value in group.loads if mapping[value] in used]
        last = self.graph.ops[members[-1]]
        region = Graph(f"{last.name}_{len(members)}", tuple(mapping[v] for v in loads), region_ops, tuple(mapping[v] for v in outputs))
        in_place, scratch = self.memory_of(region, group)
        operands = tuple(group.origin.get(value, value) for value in loads)
        in_place = tuple(i for i in in_place if operands.count(operands[i]) == 1)
        role = Counter(op.role for op in region_ops if op.name not in FREE_IN_KERNELS).most_common(1)[0][0]
        attrs = {"rows": group.rows, "columns": group.columns, "in_place": in_place, "scratch_bytes": scratch}
        return Op(fused, operands, tuple(outputs), attrs, (region,), last.loc, role)

    def memory_of(self, region: Graph, group: FusionGroup) -> tuple[tuple[int, ...], int]:
        """Operands that results may be written over, and bytes of scratch memory; computed once for kernels with equal graphs."""
        key = graph_key(region), group.rows, group.columns
        if key not in self.memory_by_key:
            schedule = schedule_kernel(region, group.rows, group.columns, self.rule)
            self.memory_by_key[key] = schedule.in_place, schedule.scratch_bytes
        return self.memory_by_key[key]


def _guards_around(graph: Graph, producer: Mapping[Value, Op]) -> list[_Guards]:
    """Guards around each op; empty if there is no op that a guard protects."""
    first: dict[Op, int] = {}
    for check in sorted((op for op in graph.ops if op.definition.is_check), key=lambda op: op.attrs["number"]):
        waiting = [check]
        while waiting:
            op = waiting.pop()
            if op not in first:
                first[op] = check.attrs["number"]
                waiting += (producer[value] for value in op.operands if value in producer)
    behind: dict[Op, int] = {}
    passed = -1
    for op in graph.ops if first else ():
        if op.definition.is_check:
            passed = max(passed, op.attrs["number"])
        protected = passed if not op.definition.is_check and may_stop((op,)) else -1
        behind[op] = max((behind[producer[value]] for value in op.operands if value in producer), default=-1)
        behind[op] = max(behind[op], protected)
    last = len(graph.ops)
    return [(first.get(op, last), behind[op]) for op in graph.ops] if any(number >= 0 for number in behind.values()) else []


def _both(guards: Iterable[_Guards]) -> _Guards:
    before, behind = zip(*guards, strict=True)
    return min(before), max(behind)


def _fits(guards: _Guards) -> bool:
    before, behind = guards
    return behind < before


def _readers(graph: Graph) -> dict[Value, list[int]]:
    """Indices of the ops that read each value, directly or through views."""
    readers: dict[Value, list[int]] = {value: [] for op in graph.ops for value in op.results}
    for index in reversed(range(len(graph.ops))):
        op = graph.ops[index]
        for value in op.operands:
            if value in readers:
                readers[value] += readers[op.result] if op.name in FREE_IN_KERNELS else [index]
    return readers


def group_of(op: Op, producer: Mapping[Value, Op] | None = None, rule: KernelRule = CPU_RULE) -> FusionGroup | None:
    """Group of one op and its own copies of the views that lead to it; None if no kernel can run the op."""
    operand = op.operands[0].type
    group = FusionGroup(operand.size, rule=rule)
    full = full_map(operand.size)
    copies: dict[tuple[Value, IndexMap], Value] = {}
    operands = [_copy_views(value, full, group, copies, producer or {}) for value in op.operands]
    result = full if op.definition.kind is Kind.ELEMENTWISE else reduced_map(op, full)
    if result is None:
        return None
    group.ops.append(op.with_operands(operands))
    group.maps[op.result] = result
    return group if choose_iteration_space(group) else None


def _copy_views(value: Value, index_map: IndexMap, group: FusionGroup, copies: dict[tuple[Value, IndexMap], Value],
                producer: Mapping[Value, Op]) -> Value:
    """Value that the group reads for `value` with this map: a view is copied into the group, any other value is loaded."""
    if (value, index_map) in copies:
        return copies[value, index_map]
    op = producer.get(value)
    if op is not None and op.name in FREE_IN_KERNELS:
        source = operand_map(op, index_map) if op.operands else ()
        if source is not None:
            operands = [_copy_views(v, source, group, copies, producer) for v in op.operands]
            copy = copies[value, index_map] = Value(value.type, value.name)
            group.ops.append(op.with_operands(operands, (copy,)))
            group.maps[copy] = index_map
            return copy
    if group.loads.setdefault(value, index_map) == index_map:
        return value
    second = Value(value.type, value.name)
    group.loads[second] = index_map
    group.origin[second] = value
    return second


SLOW_IN_NUMPY = TRANSCENDENTAL | STRONG
"""Ops for which a kernel beats a call of NumPy, which runs them in slow loops or through temporaries."""


def _narrows(group: FusionGroup) -> bool:
    """True if a group only rounds to float16 or bfloat16: then its operand, which is larger, need not be kept for the backward half."""
    return all(op.name in FREE_IN_KERNELS or (op.name == "convert" and op.result.type.is_half) for op in group.ops)


def _is_worth_a_kernel(group: FusionGroup) -> bool:
    """True unless the group is a single op that NumPy runs in one pass over memory: a kernel costs time to compile."""
    real = [op for op in group.ops if op.name not in FREE_IN_KERNELS]
    return len(real) > 1 or real[0].name in SLOW_IN_NUMPY or len(group.ops) > 1


def _copies(ops: Iterable[Op], values: dict[Value, Value], demanded: Collection[Value]) -> list[Op]:
    """Copies of `ops` with operands taken from `values`, where their results are entered.

    Equal ops whose results no other kernel demands become one: each op brought views of its own, and a value that is recomputed for the
    backward half exists already in a kernel that holds both halves.
    """
    known: dict[Hashable, Value] = {}
    copies: list[Op] = []
    for op in ops:
        operands = tuple(values[value] for value in op.operands)
        result = op.result
        first = known.setdefault((op.name, operands, attributes_key(op.attrs)), result)
        if first is not result and result not in demanded:
            values[result] = values[first]
            continue
        values[result] = Value(result.type, result.name)
        copies.append(op.with_operands(operands, (values[result],)))
    return copies
