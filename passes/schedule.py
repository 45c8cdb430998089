"""Orders the ops of a program so that it needs little memory."""

from __future__ import annotations

import heapq

from adjit.ir.analysis.aliases import alias_offset
from adjit.ir.graph import Graph, Op, Value, positions, producers
from adjit.ir.ops.traits import ALIASES
from adjit.passes.memory.donation import Donations, collectives, match_donations, order_constraints
from adjit.passes.memory.plan_memory import live_bytes
from adjit.passes.options import Options


def schedule(graph: Graph, options: Options) -> Graph:
    """Reorder ops for a lower peak of live bytes; the given order stays if no better one is found.

    Three orders are compared with the given one. The first is the given one, but ops that free at least as much as they allocate run as
    soon as they can (so an optimiser's update runs, and its gradient dies, before the next gradient is made). The second always takes the
    op that adds least to the live bytes (so the largest gradient comes last). The third is a depth-first order. Guards and what
    they need come first in all of them.

    Before:
        graph @step(%x: f32[64], %w1: f32[64] donated, %w2: f32[64] donated) {
          %g1: f32[64] = sin %x
          %g2: f32[64] = cos %x
          %n1: f32[64] = subtract %w1, %g1
          %n2: f32[64] = subtract %w2, %g2
          return %n1, %n2
        }
    After:
        graph @step(%x: f32[64], %w1: f32[64] donated, %w2: f32[64] donated) {
          %g1: f32[64] = sin %x
          %n1: f32[64] = subtract %w1, %g1
          %g2: f32[64] = cos %x
          %n2: f32[64] = subtract %w2, %g2
          return %n1, %n2
        }
    """
    if len(graph.ops) < 2:
        return graph
    graph = _checks_first(graph)
    checks = max((index + 1 for index, op in enumerate(graph.ops) if op.definition.is_check), default=0)
    donations = match_donations(graph)
    before = _predecessors(graph, donations)
    best, lowest = graph, _cost(graph, donations)
    orders = _list_schedule(graph, before, eager=False), _list_schedule(graph, before, eager=True), _depth_first(before)
    for order in dict.fromkeys(map(tuple, orders)):
        if order == tuple(range(len(order))):
            continue
        if checks:
            order = (*range(checks), *(index for index in order if index >= checks))
        candidate = graph.with_ops([graph.ops[index] for index in order])
        cost = _cost(candidate, donations)
        if cost < lowest:
            best, lowest = candidate, cost
    return best


def _checks_first(graph: Graph) -> Graph:
    """The graph with its guards, and what each of them needs, before all else: a wrong way through the function is left before its loops,
    index checks and other work begin. They are in the order of their numbers: a call that misses one passed those before it. Of several
    guards of one value the first stays."""
    checks = sorted((op for op in graph.ops if op.definition.is_check), key=lambda op: op.attrs["number"])
    if not checks:
        return graph
    distinct = {op.operands: op for op in reversed(checks)}
    producer, first = producers(graph), dict[Op, None]()
    order = [graph.ops[index] for index in collectives(graph)]
    previous = dict(zip(order[1:], order, strict=False))
    for check in checks:
        stack = [check] if distinct[check.operands] is check else []
        while stack:
            op = stack[-1]
            needed = [*map(producer.get, op.operands), previous.get(op)]
            missing = [made for made in needed if made is not None and made not in first]
            if op in first or not missing:
                first[stack.pop()] = None
            else:
                stack += reversed(missing)
    return graph.with_ops([*first, *(op for op in graph.ops if op not in first and not op.definition.is_check)])


def _cost(graph: Graph, donations: Donations) -> tuple[int, int]:
    """Peak of live bytes, then (to break ties) the sum of live bytes over all ops."""
    live = live_bytes(graph, donations)
    return max(live, default=0), sum(live)


def _predecessors(graph: Graph, donations: Donations) -> list[list[int]]:
    """Predecessors of each op: the producers of its operands, and those of `order_constraints`."""
    producer = positions(graph.ops)
    extra = order_constraints(graph, donations.matches)
    return [list(dict.fromkeys([*(producer[value] for value in op.operands if value in producer), *extra[index]]))
            for index, op in enumerate(graph.ops)]


def _list_schedule(graph: Graph, before: list[list[int]], eager: bool) -> list[int]:
    """Order from list scheduling: the next op is a ready one that does not raise the live bytes, else the first ready one of the given
    order, or, if `eager`, the ready one that raises them least.

    Ops without operands (constants) run just before their first reader.
    """
    memory = _Memory(graph)
    count = len(graph.ops)
    after: list[list[int]] = [[] for _ in range(count)]
    for index, needed in enumerate(before):
        for other in needed:
            after[other].append(index)
    deferrable = {index for index, op in enumerate(graph.ops) if not op.operands and after[index] and not before[index]}
    missing = [sum(other not in deferrable for other in needed) for needed in before]
    order: list[int] = []
    done = [False] * count
    ready: list[tuple[int, int]] = []

    def offer(index: int) -> None:
        growth = memory.growth(index)
        heapq.heappush(ready, (growth if eager or growth <= 0 else 1, index))

    def run(index: int) -> None:
        done[index] = True
        order.append(index)
        for other in memory.run(index):
            if not done[other] and not missing[other]:
                offer(other)

    for index in range(count):
        if not missing[index] and index not in deferrable:
            offer(index)
    while ready:
        _, index = heapq.heappop(ready)
        if done[index]:
            continue
        for other in before[index]:
            if other in deferrable and not done[other]:
                run(other)
        run(index)
        for other in after[index]:
            missing[other] -= 1
            if not missing[other]:
                offer(other)
    return order


class _Memory:
    """Remaining readers of each buffer, as ops run one by one."""

    def __init__(self, graph: Graph):
        self.ops = graph.ops
        self.root = {value: value for value in graph.params}
        outside = set(graph.params) | set(graph.results)
        self.size = dict.fromkeys(graph.params, 0)
        for op in graph.ops:
            alias = op.name in ALIASES or (alias_offset(op) is not None and self.size.get(self.root[op.operands[0]]) == 0)
            for value in op.results:
                self.root[value] = self.root[op.operands[0]] if alias else value
                self.size[value] = 0 if alias or value in outside else value.type.nbytes
        self.readers: dict[Value, set[int]] = {}
        for index, op in enumerate(graph.ops):
            for value in op.operands:
                self.readers.setdefault(self.root[value], set()).add(index)
        held = {self.root[value] for value in graph.results}
        for value in held:
            self.size[value] = 0

    def growth(self, index: int) -> int:
        """Bytes that op `index` allocates, less those it frees."""
        op = self.ops[index]
        growth = 0
        for value in op.results:
            growth += self.size[value]
        for value in {self.root[value] for value in op.operands}:
            if len(self.readers[value]) == 1:
                growth -= self.size[value]
        return growth

    def run(self, index: int) -> list[int]:
        """Mark op `index` as done; returns the ops that are now the only remaining reader of some buffer."""
        last: list[int] = []
        for value in {self.root[value] for value in self.ops[index].operands}:
            readers = self.readers[value]
            readers.discard(index)
            if len(readers) == 1:
                last += readers
        return last


def _depth_first(before: list[list[int]]) -> list[int]:
    """Depth-first order: the predecessors of an op, in order, then the op."""
    needed = {other for others in before for other in others}
    order: list[int] = []
    visited = [False] * len(before)
    for sink in (index for index in range(len(before)) if index not in needed):
        visited[sink] = True
        stack = [(sink, iter(before[sink]))]
        while stack:
            index, rest = stack[-1]
            other = next((other for other in rest if not visited[other]), None)
            if other is None:
                order.append(index)
                stack.pop()
            else:
                visited[other] = True
                stack.append((other, iter(before[other])))
    return order
