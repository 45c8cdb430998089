"""Whole numbers in the memory of the CPU that a program on a card counts up, as the counter of random numbers: who knows them need not wait
for the card to tell the new ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

import numpy as np

from adjit.ir.dataclass import dataclass
from adjit.ir.graph import Graph, Value
from adjit.runtime.cuda.device_array import DeviceArray

_SAME = frozenset({"reshape", "copy"})


@dataclass(frozen=True, slots=True)
class Sum:
    """A sum of parameters, by their numbers, and of a constant; it wraps around as the dtype does."""

    params: tuple[int, ...]
    constant: int

    def of(self, arrays: Sequence[np.ndarray | DeviceArray], dtype: np.dtype) -> np.ndarray | None:
        """The sum, if all its parameters are in the memory of the CPU."""
        terms = [array for array in map(arrays.__getitem__, self.params) if not isinstance(array, DeviceArray)]
        if len(terms) < len(self.params):
            return None
        constant = np.array(self.constant % (1 << 8 * dtype.itemsize), f"u{dtype.itemsize}").astype(dtype)
        return np.asarray(reduce(np.add, terms, constant))


def counted(graph: Graph, result: int) -> Sum | None:
    """A result of a planned graph as a sum of its parameters, if it is one, of whole numbers without dimensions."""
    value = graph.results[result]
    if value.type.rank or value.type.dtype.kind not in "iu":
        return None
    return _sum_of(value, graph, {param: Sum((number,), 0) for number, param in enumerate(graph.params)})


def _sum_of(value: Value, graph: Graph, known: Mapping[Value, Sum | None]) -> Sum | None:
    if value in known:
        return known[value]
    op = next((op for op in graph.ops if value in op.results), None)
    if op is None or value.type.rank:
        return None
    if op.name == "constant":
        return Sum((), op.attrs["value"])
    if op.name == "fused":
        (region,) = op.regions
        given = {param: _sum_of(operand, graph, known) for param, operand in zip(region.params, op.operands, strict=True)}
        return _sum_of(region.results[op.results.index(value)], region, given)
    terms = [_sum_of(operand, graph, known) for operand in op.operands] if op.name == "add" or op.name in _SAME else [None]
    found = [term for term in terms if term is not None and all(operand.type == value.type for operand in op.operands)]
    if len(found) < len(terms):
        return None
    return Sum(tuple([param for term in found for param in term.params]), sum(term.constant for term in found))
