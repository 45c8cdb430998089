"""Chooses what the forward half keeps for the backward half, and what the backward half computes again.

The forward half are the primal ops that depend on no adjoint, recomputed or update op; all others are the backward half. A mask (bools
that an adjoint op computes of forward values only) counts as forward: it can be made there, and is often smaller than what it is made of.
A value that crosses from the first half to the second is *saved*: its memory is taken from where it is made to where the backward half is
done with it. Parameters, results of the graph and constants are there anyway and cost nothing; a single number is not worth an op,
unless a memory budget counts it.

What is saved is a minimum cut: each value of the forward half is a pipe as wide as its bytes, from what cannot be computed again to what
the backward half uses. Of several minimum cuts the one nearest to the backward half is taken: it computes the least again. An op may be
run again at a cost of one of these grades:

1  cheap: arithmetic, comparisons, movement. They fuse into the kernel that needs them.
2  cheap, but the backward half needs the value in memory (for a matmul, say): the kernel that wrote it in the forward half would run again.
3  elementwise with a transcendental function.
4  reductions, scans, indexing.
5  matmuls.

Without a memory budget only grade 1 is run again, and, where programs run in tiles that stay in the cache (`Options.cache_bytes`), what is
wide: a large product of two batches, larger than its operands together, and what is computed of it element by element, as in attention.
With a budget, as many ops of the higher grades, in this order and within a grade by operations per byte, as it takes to come under the
budget; of these the most expensive ones that turn out not to be needed are left alone.

Whether two halves of an elementwise computation end up in one kernel, where keeping a value costs nothing, is decided later, by fusion; a
cheap op that is run again in the kernel of its first run costs next to nothing.
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
    Kind.CONTRACTION: CONTRACTION, Kind.WINDOW: COLLECTIVE}

READERS_FROM_MEMORY = (Kind.CONTRACTION, Kind.WINDOW, Kind.INDEXING, Kind.SCAN, Kind.REGION)

MAX_DROP_ATTEMPTS = 32
"""How many of the most expensive ops are tried to be kept out of a choice that fits."""

MAX_EXPANDING_TERMS = 64
"""Terms of an element up to which a wide product is computed again."""

OPERATIONS_PER_ELEMENT = {CHEAP: 1, MATERIALIZED: 1, TRANSCENDENTAL: 20, COLLECTIVE: 4, CONTRACTION: 2}
"""Rough number of operations for each element that an op reads (a matmul: for each pair that it multiplies)."""


def backward_ops(graph: Graph) -> set[Op]:
    """The ops of the backward half: all but primal ones and masks, and what depends on them."""
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
    """The values that cross from the forward to the backward half, in the order in which they are made.

    Parameters, constants and results of the graph are not among them: they take no memory that they would not take otherwise.
    """
    backward = backward_ops(graph)
    used = {value for op in backward for value in op.operands}.difference(graph.results)
    return [value for op in graph.ops if op not in backward and op.definition.kind is not Kind.CREATION
            for value in op.results if value in used]


def saved_bytes(graph: Graph) -> int:
    """How many bytes `saved_values` take."""
    return sum(value.type.nbytes for value in saved_values(graph))


def choose_saved_values(graph: Graph, options: Options) -> Graph:
    """Compute again in the backward half what is cheaper to compute than to keep.

    Copies have the role recompute and the location of their original; forward ops that only the backward half needs move there.
    Where no choice fits the memory budget, the smallest one is taken.

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
    recomputed = partitioner.choose(() if options.cache_bytes is None else expanding_ops(graph, options.cache_bytes))
    if budget is not None and recomputed.nbytes > budget:
        recomputed = _cheapest_within(partitioner, budget)
    return eliminate_dead_code(_recompute(graph, partitioner, recomputed.values), options)


def expanding_ops(graph: Graph, cache_bytes: int) -> set[Op]:
    """The products of two batches that are larger than their operands together and than the cache, of few terms an element, and the
    elementwise ops on such values: run again inside a tile they take less time than their results take to be written and read."""
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
    """One line for the records of the pipeline."""
    saved = saved_values(after)
    nbytes = saved_bytes(after)
    text = f"{len(saved)} values of {nbytes:,} bytes are kept for the backward half, {saved_bytes(before):,} bytes without recomputing"
    budget = _budget(before, options)
    return text if budget is None or nbytes <= budget else f"{text}; over the memory budget of {budget:,} bytes"


def _budget(graph: Graph, options: Options) -> int | None:
    budget = options.memory_budget
    return int(budget * saved_bytes(graph)) if isinstance(budget, float) else budget


@dataclass(frozen=True, slots=True)
class _Choice:
    """What is computed again, and how many bytes are saved then."""

    values: Container[Value]
    nbytes: int


class _Partitioner:
    """The forward ops that the backward half may need, and at what grade each can be run again."""

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
        """Whether keeping `value` takes memory; a parameter or a value of the backward half has no forward op."""
        op = self.producer.get(value)
        return (op is not None and op.definition.kind is not Kind.CREATION and value not in self.always_live
                and (value.type.size > 1 or self.counts_numbers))

    def _recompute_costs(self, graph: Graph) -> dict[Op, int]:
        """The grade of every forward op that can be run again, in order."""
        in_memory: set[Value] = {value for op in self.backward if op.definition.kind in READERS_FROM_MEMORY for value in op.operands}
        costs: dict[Op, int] = {}
        for op in reversed(graph.ops):
            cost = TRANSCENDENTAL if op.definition.cost is OpCost.TRANSCENDENTAL else RECOMPUTE_COSTS.get(op.definition.kind)
            if op in self.backward or cost is None:
                continue
            if op.result in in_memory:
                if op.definition.alias:
                    in_memory.add(op.operands[0])
                elif op.name != "broadcast":
                    cost = max(cost, MATERIALIZED)
            costs[op] = cost
        return dict(reversed(costs.items()))

    def _by_cost(self) -> list[Op]:
        """All but the cheap ops, in the order in which they are given up. Of equals, as in a deep network, the first few of that order are
        spread over the whole program: then what is kept lies between short stretches that run again, and they one after the other.
        """
        equals: dict[tuple[int, float], list[Op]] = {}
        for op, cost in self._cost.items():
            if cost > CHEAP:
                equals.setdefault((cost, self.operation_count(op) / max(1, op.result.type.nbytes)), []).append(op)
        return [equals[cost][index] for cost in sorted(equals) for index in bit_reversal_order(len(equals[cost]))]

    def operation_count(self, op: Op) -> int:
        """About how many operations one run of `op` takes."""
        return _operations(op, self._cost[op])

    def choose(self, candidates: Iterable[Op]) -> _Choice:
        """The minimum cut where the cheap ops and `candidates` may be run again."""
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
    """The numbers below `count`, in an order whose beginnings are spread evenly: by their bits read backwards.

    >>> bit_reversal_order(8)
    [0, 4, 2, 6, 1, 5, 3, 7]
    """
    bits = max(count - 1, 1).bit_length()
    return sorted(range(count), key=lambda number: int(f"{number:0{bits}b}"[::-1], 2))


def _operations(op: Op, cost: int) -> int:
    """A rough count of what one run of `op` computes."""
    if op.definition.kind is Kind.CONTRACTION:
        return OPERATIONS_PER_ELEMENT[CONTRACTION] * terms_of(op) * op.result.type.size
    return OPERATIONS_PER_ELEMENT[cost] * max((value.type.size for value in (*op.operands, op.result)), default=1)


def _cheapest_within(partitioner: _Partitioner, budget: int) -> _Choice:
    """The cheapest choice that was found under the budget; the one that saves the least where all are over it.

    Saved bytes only fall as more ops may be run again, so the number of candidates is found by halving.
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


def _recompute(graph: Graph, partitioner: _Partitioner, values: Container[Value]) -> Graph:
    """Copies of the ops of `values`, each just before the first op of the backward half that needs it; masks that are kept move to where
    the forward half has what they are made of.
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
    """The masks that are not made again, by the op that makes the last of what they are made of. A mask of masks follows the op that the
    last of these follows, which may be another one than that of the mask that was the last to be made before they moved.
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
