"""Matches results of a graph with the donated parameters whose buffers they take, and the order of ops that this needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from itertools import pairwise
from operator import or_

from adjit.ir.dataclass import dataclass
from adjit.ir.definition import Kind
from adjit.ir.graph import WRITABLE_ROLES, Graph, Op, Value, carried_operands, positions, updated_results
from adjit.ir.ops.collectives import NAMES as COLLECTIVES
from adjit.ir.ops.panels import rows_of
from adjit.ir.ops.traits import ALIASES, CONTROL_FLOW, HOST_CALLS
from adjit.ir.types import TensorType
from adjit.ir.verifier import in_place_operands
from adjit.passes.regions import contains


@dataclass(frozen=True, slots=True)
class Donations:
    """Results that take buffers of parameters; independent of the order of ops.

    matches   by parameter index, the result that takes the buffer of this donated parameter; parameters without one are absent
    sources   for each value a bit mask of the donated parameters from whose element i the value's element i is computed; others are absent
    """

    matches: dict[int, Value]
    sources: dict[Value, int]


def match_donations(graph: Graph) -> Donations:
    """Find a result for each donated parameter.

    Updated parameters take the last results. A donated parameter takes a result of its type that an op makes; preferably a result that is
    computed from this parameter element by element, since such a result can be written in place (`p - rate * g` takes the buffer of `p`).
    Parameters with the fewest such results choose first, and each chooses the result that is computed from the fewest parameters: Adam's
    moments do not take the buffer of the weights, which depend on all of them, even if a penalty on the weights makes the moments depend on
    the weights. The remaining results are matched in order. Arrays of any number of rows take none.
    """
    params, outputs = set(graph.params), set(graph.results)
    writable = {index: value for index, (value, role) in enumerate(zip(graph.params, graph.param_roles, strict=True))
                if role in WRITABLE_ROLES and value not in outputs}
    matches = _match_updates(graph, writable)
    donated = {index: value for index, value in writable.items() if graph.param_roles[index] == "donated"}
    sources = _propagate_sources(graph.ops, {value: 1 << index for index, value in writable.items()}) if writable else {}
    results: dict[TensorType, list[Value]] = {}
    rows, _ = rows_of(graph)
    for value in dict.fromkeys(graph.results):
        if value not in params and value not in rows:       # the type of any number of rows is that of one panel
            results.setdefault(value.type, []).append(value)
    fitting = {index: results.get(value.type, []) for index, value in donated.items()}
    few_first = {type: sorted(values, key=lambda value: sources.get(value, 0).bit_count()) for type, values in results.items()}
    derived = {index: [result for result in few_first.get(value.type, ()) if sources.get(result, 0) >> index & 1]
               for index, value in donated.items()}
    taken = set(matches.values())
    for candidates in (derived, fitting):
        for index in sorted(donated, key=lambda index: len(candidates[index])):
            choice = next((value for value in candidates[index] if value not in taken), None)
            if index not in matches and choice is not None:
                matches[index] = choice
                taken.add(choice)
    return Donations(matches, sources)


def _match_updates(graph: Graph, writable: dict[int, Value]) -> dict[int, Value]:
    """Result that is the new content of each updated parameter, if an op makes it and it is the new content of no other parameter."""
    params = set(graph.params)
    matches: dict[int, Value] = {}
    for index, position in updated_results(graph).items():
        result = graph.results[position]
        if index in writable and result not in params and result.type == graph.params[index].type and result not in matches.values():
            matches[index] = result
    return matches


def results_in_params(region: Graph, positions: Mapping[int, int]) -> Donations:
    """Donations that place results of a region (the values) in the memory of its parameters (the keys); both by index."""
    return Donations({param: region.results[result] for param, result in positions.items()},
                     _propagate_sources(region.ops, {region.params[param]: 1 << param for param in positions}))


def _propagate_sources(ops: Iterable[Op], bits: dict[Value, int]) -> dict[Value, int]:
    for op in ops:
        if op.name in ("fused", "tiled"):
            (region,) = op.regions
            inner = _propagate_sources(region.ops, dict(zip(region.params, (bits.get(value, 0) for value in op.operands), strict=True)))
            found = [inner.get(value, 0) for value in region.results]
        elif op.name in CONTROL_FLOW:
            carried = carried_operands(op)
            found = [bits.get(op.operands[carried[index]], 0) if index in carried else 0 for index in range(len(op.results))]
        else:
            positions = range(len(op.operands)) if op.name in ALIASES else in_place_operands(op)
            found = [reduce(or_, (bits.get(op.operands[position], 0) for position in positions), 0)]
        bits.update((value, sources) for value, sources in zip(op.results, found, strict=False) if sources)
    return bits


def order_constraints(graph: Graph, matches: dict[int, Value]) -> list[list[int]]:
    """Further predecessors of each op, so that no donated buffer is written while its old content is still needed, and so that collectives
    keep their order, in which ranks wait for each other, on ranks whose programs differ elsewhere.

    An op that makes the new content of a donated buffer follows all other readers of the old content, and the ops that may fail
    (`may_fail`), except those that need its result (the memory plan then works on a copy). Readers of a reshaped parameter count.
    """
    count = len(graph.ops)
    producer = positions(graph.ops)
    readers: dict[Value, list[int]] = {}
    origin: dict[Value, Value] = {graph.params[index]: graph.params[index] for index in matches}
    after: list[list[int]] = [[] for _ in range(count)]      # ops that need this one
    for index, op in enumerate(graph.ops):
        for value in op.operands:
            if value in producer:
                after[producer[value]].append(index)
            if value in origin:
                readers.setdefault(origin[value], []).append(index)
                if op.name in ALIASES:
                    origin[op.result] = origin[value]
    before: list[list[int]] = [[] for _ in range(count)]
    for earlier, later in pairwise(collectives(graph)):
        before[later].append(earlier)
        after[earlier].append(later)
    failing = may_fail(graph) if matches and "carried" not in graph.param_roles else []
    for index, result in matches.items():
        writer = producer[result]
        dependent = _reachable(after, writer)
        for other in dict.fromkeys((*readers.get(graph.params[index], ()), *failing)):
            if other not in dependent:
                before[writer].append(other)
                after[other].append(writer)
    return before


def collectives(graph: Graph) -> list[int]:
    """Indices of the collectives, and of the loops and branches that hold one."""
    return [index for index, op in enumerate(graph.ops)
            if op.name in COLLECTIVES or any(contains(region, COLLECTIVES) for region in op.regions)]


def may_fail(graph: Graph) -> list[int]:
    """Indices of the ops that may raise while the program runs: guards, ops that are the first to check some indices, calls of
    Python functions, and loops and branches with such an op.

    Nothing is written into a donated buffer before these ops: a program that fails leaves its arguments as they were. (Buffers of carried
    values belong to the loop, and may be lost.)
    """
    origin: dict[Value, Value] = {}
    checked: set[tuple[Value, int, bool]] = set()
    found: list[int] = []
    for number, op in enumerate(graph.ops):
        if op.name in ALIASES:
            origin[op.result] = origin.get(op.operands[0], op.operands[0])
        elif op.definition.kind is Kind.INDEXING and "in_range" not in op.attrs:
            base, indices = op.operands[:2]
            check = origin.get(indices, indices), base.type.shape[op.attrs["axis"]], "from_end" in op.attrs
            if check not in checked:
                checked.add(check)
                found.append(number)
        elif op.definition.is_check or op.name in HOST_CALLS or (op.name in CONTROL_FLOW and any(map(may_fail, op.regions))):
            found.append(number)
    return found


def _reachable(after: list[list[int]], start: int) -> set[int]:
    found = {start}
    stack = [start]
    while stack:
        for index in after[stack.pop()]:
            if index not in found:
                found.add(index)
                stack.append(index)
    return found
