"""Chooses the values that the forward half saves for the backward half, and those that the backward half rematerializes.

The forward half consists of the primal ops that depend on no adjoint, recomputed or update op; all other ops are the backward half. A mask
(bools that an adjoint op computes from forward values only) counts as forward: it can be computed there, and is often smaller than its
operands. A value that crosses from the first half to the second is *saved*: it takes memory from its producer to its last reader in the
backward half. Parameters, results of the graph and constants are in memory anyway and cost nothing; a single number is not worth an op,
unless a memory budget counts it.

The saved values are a minimum cut: each value of the forward half is a pipe as wide as its bytes, from the values that cannot be recomputed
to the values that the backward half uses. Of several minimum cuts the one nearest to the backward half is taken: it recomputes the least.
The recomputation of an op has one of these cost grades:

1  cheap: arithmetic, comparisons, movement. They fuse into the kernel that needs them.
2  cheap, but the backward half needs the value in memory (for a matmul, say): the kernel that wrote it in the forward half would run again.
3  elementwise with a transcendental function.
4  reductions, scans, indexing.
5  matmuls.

Without a memory budget only grade 1 is recomputed. Where programs run in tiles that stay in the cache (`Options.cache_bytes`), expanding
ops are recomputed too: a large batched product that is larger than its operands together, and elementwise ops on it, as in attention. With
a budget, ops of the higher grades are recomputed, in this order and within a grade by operations per byte, until the saved bytes fit the
budget; then the most expensive of these ops are tried again, and not recomputed if the rest still fits.

Fusion decides later whether two halves of an elementwise computation end up in one kernel, where saving a value costs nothing; a cheap op
that is recomputed in the kernel of its first execution costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from operator import is_

from adjit.ir.analysis.cost import terms_of
from adjit.ir.dataclass import dataclass
from adjit.ir.definition import Kind, OpCost
from adjit.ir.errors import Role
from adjit.ir.graph import Graph, Op, Value
from adjit.passes.autodiff.partition.minimum_cut import Network
from adjit.passes.options import Options
from adjit.passes.simplify.dead_code import eliminate_dead_code

CHEAP, MATERIALIZED, TRANSCENDENTAL, COLLECTIVE, CONTRACTION = 1, 2, 3, 4, 5

RECOMPUTE_COSTS = {
    Kind.ELEMENTWISE: CHEAP, Kind.MOVEMENT: CHEAP, Kind.REDUCTION: COLLECTIVE, Kind.SCAN: COLLECTIVE, Kind.INDEXING: COLLECTIVE,
    Kind.CONTRACTION: CONTRACTION, Kind.WINDOW: COLLECTIVE, Kind.EXTERNAL: CONTRACTION}

READERS_FROM_MEMORY = (Kind.CONTRACTION, Kind.WINDOW, Kind.INDEXING, Kind.SCAN, Kind.LINALG, Kind.REGION, Kind.EXTERNAL)

MAX_DROP_ATTEMPTS = 32
"""Most ops (the most expensive ones) that are tried to be left out of a choice that fits."""

MAX_EXPANDING_TERMS = 64
"""Most terms per element of an expanding product that is recomputed."""

OPERATIONS_PER_ELEMENT = {CHEAP: 1, MATERIALIZED: 1, TRANSCENDENTAL: 20, COLLECTIVE: 4, CONTRACTION: 2}
"""Rough number of operations for each element that an op reads (a matmul: for each pair that it multiplies)."""


def backward_ops(graph: Graph) -> set[Op]:
    """Ops of the backward half: all but primal ops and masks, and all that depend on these ops."""
    backward: set[Op] = set()
    reached: set[Value] = set()
    for op in graph.ops:
        if (op.role is Role.PRIMAL or _is_mask(op)) and reached.isdisjoint(op.operands):
            continue
        backward.add(op)
        reached.update(op.results)
    return backward


def _is_mask(op: Op) -> bool:
    return op.role is Role.ADJOINT and op.definition.kind is Kind.ELEMENTWISE and op.result.type.dtype.kind == "b"


def saved_values(graph: Graph) -> list[Value]:
    """Values that cross from the forward to the backward half, in the order in which they are made.

    Parameters, constants and results of the graph are not among them: they are in memory anyway.
    """
    backward = backward_ops(graph)
    used = {value for op in backward for value in op.operands}.difference(graph.results)
    return [value for op in graph.ops if op not in backward and op.definition.kind is not Kind.CREATION
            for value in op.results if value in used]


def saved_bytes(graph: Graph) -> int:
    """Bytes of `saved_values`."""
    return sum(value.type.nbytes for value in saved_values(graph))


def choose_saved_values(graph: Graph, options: Options) -> Graph:
    """Rematerialize values in the backward half that are cheaper to recompute than to save.

    Copies have the role recompute and the location of their original; forward ops that only the backward half needs move there. If no
    choice fits the memory budget, the smallest one is taken.

    Before:
        graph @f(%x: f32[64], %w: f32[64], %ct: f32[64]) {
          %a: f32[64] = multiply %x, %w  # model.py:1 in f
          %b: f32[64] = exp %a  # model.py:2 in f
          %c: f32[64] = multiply %b, %a  # model.py:3 in f
          %d: f32[64] = add %a, %b  # adjoint
          %e: f32[64] = multiply %d, %ct  # adjoint
          return %c, %e
        }

    After:
        graph @f(%x: f32[64], %w: f32[64], %ct: f32[64]) {
          %a: f32[64] = multiply %x, %w  # model.py:1 in f
          %b: f32[64] = exp %a  # model.py:2 in f
          %c: f32[64] = multiply %b, %a  # model.py:3 in f
          %a_again: f32[64] = multiply %x, %w  # model.py:1 in f, recompute
          %d: f32[64] = add %a_again, %b  # adjoint
          %e: f32[64] = multiply %d, %ct  # adjoint
          return %c, %e
        }
    """
    budget = _budget(graph, options)
    partitioner = _Partitioner(graph, counts_numbers=budget is not None)
    if not partitioner.crossing:
        return graph
    if options.segments is not None:
        return eliminate_dead_code(_recompute(graph, partitioner, _within_segments(graph, partitioner, options.segments)), options)
    recomputed = partitioner.choose(() if options.cache_bytes is None else expanding_ops(graph, options.cache_bytes))
    if budget is not None and recomputed.nbytes > budget:
        recomputed = _cheapest_within(partitioner, budget)
    return eliminate_dead_code(_recompute(graph, partitioner, recomputed.values), options)


def expanding_ops(graph: Graph, cache_bytes: int) -> set[Op]:
    """Batched products that are larger than their operands together and than the cache, with few terms an element, and elementwise ops on
    such values. Running these ops again inside a tile takes less time than writing and reading their results."""
    expanding: set[Value] = set()
    found: set[Op] = set()
    for op in graph.ops:
        if op.name == "matmul" and op.result.type.rank > 2:
            nbytes = op.result.type.nbytes
            grows = nbytes >= max(cache_bytes, sum(value.type.nbytes for value in op.operands)) and terms_of(op) <= MAX_EXPANDING_TERMS
        else:
            grows = op.definition.kind is Kind.ELEMENTWISE and not expanding.isdisjoint(op.operands)
        if grows:
            found.add(op)
            expanding.add(op.result)
    return found


def describe_saved_values(before: Graph, after: Graph, options: Options) -> str:
    """Summary line for the records of the pipeline."""
    saved = saved_values(after)
    nbytes = saved_bytes(after)
    text = f"{len(saved)} values of {nbytes:,} bytes are saved for the backward half, {saved_bytes(before):,} bytes without recomputing"
    budget = _budget(before, options)
    return text if budget is None or nbytes <= budget else f"{text}; over the memory budget of {budget:,} bytes"


def _budget(graph: Graph, options: Options) -> int | None:
    budget = options.memory_budget
    return int(budget * saved_bytes(graph)) if isinstance(budget, float) else budget


@dataclass(frozen=True, slots=True)
class _Choice:
    """Values that are recomputed, and the bytes that are saved then."""

    values: Container[Value]
    nbytes: int


class _Partitioner:
    """Forward ops that the backward half may need, and the cost grade of recomputing each."""

    def __init__(self, graph: Graph, counts_numbers: bool):
        self.backward = backward_ops(graph)
        self.counts_numbers = counts_numbers
        self.producer = {value: op for op in graph.ops if op not in self.backward for value in op.results}
        self.always_live = set(graph.results)
        used = dict.fromkeys(value for op in graph.ops if op in self.backward for value in op.operands)
        self.crossing = [value for value in used if self.takes_memory(value)]
        self._cost = self._recompute_costs(graph)
        self.recomputed = {op for op, cost in self._cost.items() if cost == CHEAP}
        self.candidates = self._by_cost()

    def takes_memory(self, value: Value) -> bool:
        """True if saving `value` takes memory; a parameter or a value of the backward half has no forward op."""
        op = self.producer.get(value)
        return (op is not None and op.definition.kind is not Kind.CREATION and value not in self.always_live
                and (value.type.size > 1 or self.counts_numbers))

    def _recompute_costs(self, graph: Graph) -> dict[Op, int]:
        """Cost grade of every forward op that can be recomputed, in order."""
        in_memory: set[Value] = {value for op in self.backward if op.definition.kind in READERS_FROM_MEMORY for value in op.operands}
        costs: dict[Op, int] = {}
        for op in reversed(graph.ops):
            cost = TRANSCENDENTAL if op.definition.cost is OpCost.TRANSCENDENTAL else RECOMPUTE_COSTS.get(op.definition.kind)
            if op.definition.updates:       # to run it again takes its operand, which it was to be written over, and so a copy
                cost = COLLECTIVE
            if op in self.backward or cost is None:
                continue
            if op.result in in_memory:
                if op.definition.alias:
                    in_memory.add(op.operands[0])
                elif op.name != "broadcast" and not (op.operands and op.operands[0].type.is_half):     # to read half the bytes pays
                    cost = max(cost, MATERIALIZED)
            costs[op] = cost
        return dict(reversed(costs.items()))

    def _by_cost(self) -> list[Op]:
        """All but the cheap ops, in the order in which they become candidates for recomputation.

        Ops of equal cost, as in a deep network, are ordered so that any first few of them are spread over the whole program: then the
        segments between saved values are short, and are recomputed one after the other.
        """
        equals: dict[tuple[int, float], list[Op]] = {}
        for op, cost in self._cost.items():
            if cost > CHEAP:
                equals.setdefault((cost, self.operation_count(op) / max(1, op.result.type.nbytes)), []).append(op)
        return [equals[cost][index] for cost in sorted(equals) for index in bit_reversal_order(len(equals[cost]))]

    def recomputable(self) -> Iterable[Op]:
        """Forward ops that can run again."""
        return self._cost

    def operation_count(self, op: Op) -> int:
        """Rough number of operations of `op`."""
        return _operations(op, self._cost[op])

    def choose(self, candidates: Iterable[Op]) -> _Choice:
        """Minimum cut if the cheap ops and `candidates` may be recomputed."""
        allowed = self.recomputed.union(candidates)
        network = Network()
        inner: dict[Value, int] = {}
        outer: dict[Value, int] = {}
        stack = list(self.crossing)
        for value in stack:
            if value in inner:
                continue
            inner[value], outer[value] = network.node(), network.node()
            network.edge(inner[value], outer[value], value.type.nbytes)
            op = self.producer[value]
            if op in allowed:
                stack.extend(operand for operand in op.operands if self.takes_memory(operand))
            else:
                network.edge(network.SOURCE, inner[value])
        for value, node in inner.items():
            if self.producer[value] in allowed:
                for operand in self.producer[value].operands:
                    if operand in outer:
                        network.edge(outer[operand], node)
        for value in self.crossing:
            network.edge(outer[value], network.SINK)
        nbytes, backward_side = network.cut()
        return _Choice({value for value, node in inner.items() if node in backward_side}, nbytes)


def bit_reversal_order(count: int) -> list[int]:
    """Numbers below `count`, in an order whose prefixes are spread evenly: sorted by their bits read backwards.

    >>> bit_reversal_order(8)
    [0, 4, 2, 6, 1, 5, 3, 7]
    """
    bits = max(count - 1, 1).bit_length()
    return sorted(range(count), key=lambda number: int(f"{number:0{bits}b}"[::-1], 2))


def _operations(op: Op, cost: int) -> int:
    """Rough number of operations of `op`, which has this cost grade."""
    if op.definition.kind is Kind.CONTRACTION:
        return OPERATIONS_PER_ELEMENT[CONTRACTION] * terms_of(op) * op.result.type.size
    if op.definition.kind is Kind.EXTERNAL:
        return 10 * OPERATIONS_PER_ELEMENT[TRANSCENDENTAL] * op.result.type.size
    return OPERATIONS_PER_ELEMENT[cost] * max((value.type.size for value in (*op.operands, op.result)), default=1)


def _cheapest_within(partitioner: _Partitioner, budget: int) -> _Choice:
    """Cheapest choice found within the budget; the choice with the fewest saved bytes if none fits.

    Saved bytes only fall as more ops may be recomputed, so the number of candidates is found by bisection.
    """
    low, high = 0, len(partitioner.candidates)
    best = partitioner.choose(partitioner.candidates)
    if best.nbytes > budget:
        return best
    while high - low > 1:
        middle = (low + high) // 2
        choice = partitioner.choose(partitioner.candidates[:middle])
        if choice.nbytes <= budget:
            high, best = middle, choice
        else:
            low = middle
    needed = [op for op in partitioner.candidates[:high] if op.result in best.values]
    latest_first = needed[::-1]
    for op in sorted(latest_first, key=partitioner.operation_count, reverse=True)[:MAX_DROP_ATTEMPTS]:
        rest = [other for other in needed if other is not op]
        choice = partitioner.choose(rest)
        if choice.nbytes <= budget:
            needed, best = rest, choice
    return best


def _within_segments(graph: Graph, partitioner: _Partitioner, count: int) -> set[Value]:
    """Values that are recomputed if the forward half is cut into segments of about equal bytes: all but those that a later segment reads,
    which are saved, and those that cannot be. Each cut is made where the fewest bytes are read across, near its place.

    Chen, Xu, Zhang, Guestrin, Training deep nets with sublinear memory cost, 2016.
    """
    forward = [op for op in graph.ops if op not in partitioner.backward]
    last = {value: index for index, op in enumerate(forward) for value in op.operands if partitioner.takes_memory(value)}
    live = dict.fromkeys((value for value in last), 0)
    made, across, crossing = [0], [0], set[Value]()
    for index, op in enumerate(forward):
        crossing.update(value for value in op.results if value in live)
        made.append(made[-1] + sum(value.type.nbytes for value in op.results if partitioner.takes_memory(value)))
        crossing = {value for value in crossing if last[value] > index}
        across.append(sum(value.type.nbytes for value in crossing))
    cuts = set[int]()
    for number in range(1, count):
        target, reach = made[-1] * number / count, made[-1] / (2 * count)
        near = [index for index in range(1, len(forward)) if abs(made[index] - target) <= reach]
        if near:
            cuts.add(min(near, key=lambda index: (across[index], abs(made[index] - target))))
    saved = {value for index, op in enumerate(forward) for value in op.results
             if value in last and any(index < cut <= last[value] for cut in cuts)}
    return {op.result for op in partitioner.recomputable() if op.result not in saved}


def recomputed_operations(graph: Graph) -> int:
    """Rough number of operations that the backward half computes again."""
    return sum(_operations(op, RECOMPUTE_COSTS.get(op.definition.kind, CHEAP)) for op in graph.ops if op.role is Role.RECOMPUTE)


def _recompute(graph: Graph, partitioner: _Partitioner, values: Container[Value]) -> Graph:
    """Graph with copies of the ops of `values`, each just before the first op of the backward half that needs it. Saved masks move to the
    position in the forward half where their operands are available.
    """
    copies: dict[Value, Value] = {}
    ops: list[Op] = []
    moved = _kept_masks(graph, partitioner, values)
    moving = {mask for masks in moved.values() for mask in masks}

    def copy(value: Value) -> Value:
        if value not in values:
            return value
        waiting = [value]
        while waiting:
            op = partitioner.producer[waiting[-1]]
            if op.result in copies:
                waiting.pop()
                continue
            missing = [operand for operand in op.operands if operand in values and operand not in copies]
            if missing:
                waiting.extend(reversed(missing))
                continue
            copies[op.result] = Value(op.result.type, op.result.name and f"{op.result.name}_again")
            operands = [copies.get(operand, operand) for operand in op.operands]
            ops.append(op.with_operands(operands, (copies[op.result],), Role.RECOMPUTE))
            waiting.pop()
        return copies[value]

    def append(op: Op) -> None:
        operands = tuple(copy(value) for value in op.operands) if op in partitioner.backward else op.operands
        ops.append(op if operands == op.operands else op.with_operands(operands))
        for mask in moved.get(op, ()):
            append(mask)

    for op in graph.ops:
        if op not in moving:
            append(op)
    return graph if len(ops) == len(graph.ops) and all(map(is_, ops, graph.ops)) else graph.with_ops(ops)


def _kept_masks(graph: Graph, partitioner: _Partitioner, values: Container[Value]) -> dict[Op, list[Op]]:
    """Saved masks, by the op that makes the last of their operands. A mask computed from other masks is placed after the latest of their
    new positions, which need not be the position of the mask that was produced last originally.
    """
    position = {op: index for index, op in enumerate(graph.ops)}
    follows: dict[Op, Op] = {}
    moved: dict[Op, list[Op]] = {}
    for op in graph.ops:
        if op not in partitioner.backward and _is_mask(op) and op.result not in values:
            producers = (partitioner.producer[operand] for operand in op.operands if operand in partitioner.producer)
            sources = [follows.get(producer, producer) for producer in producers]
            if sources:
                follows[op] = max(sources, key=position.__getitem__)
                moved.setdefault(follows[op], []).append(op)
    return moved
