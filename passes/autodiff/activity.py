"""Active values of a region: those on a path from a differentiated parameter to a result with a cotangent."""

from __future__ import annotations

from collections.abc import Iterable

from adjit.ir.graph import Graph, Value
from adjit.ir.types import is_inexact


def active_values(region: Graph, wrt: Iterable[int], seeded: Iterable[int]) -> frozenset[Value]:
    """Values through which the results `seeded` depend on the parameters `wrt`.

    Integers and bools carry no derivative, and a path ends at `stop_gradient`.
    """
    varied = {region.params[i] for i in wrt if is_inexact(region.params[i].type.dtype)}
    for op in region.ops:
        if op.name != "stop_gradient" and not varied.isdisjoint(op.operands):
            varied.update(value for value in op.results if is_inexact(value.type.dtype))
    useful = varied.intersection(region.results[i] for i in seeded)
    for op in reversed(region.ops):
        if not useful.isdisjoint(op.results):
            useful.update(varied.intersection(op.operands))
    return frozenset(useful)


def active_carries(body: Graph, carries: int, wrt: Iterable[int], rows: Iterable[int], carried: Iterable[int]) -> list[int]:
    """Carries of a loop with a derivative: those that depend on the parameters `wrt`, after any number of iterations, and lead to the
    stacked results `rows`, or to the final values of `carried`. Results of the body are rows, then carries.
    """
    first = len(body.results) - carries
    varied = set(varied_carries(body, carries, wrt))
    row_indices, useful = list(rows), {i for i in carried if i in varied}
    while True:
        active = active_values(body, varied, (*row_indices, *(first + i for i in useful)))
        grown = useful.union(i for i in range(carries) if i in varied and body.params[i] in active)
        if grown == useful:
            return sorted(useful)
        useful = grown


def varied_carries(body: Graph, carries: int, wrt: Iterable[int]) -> list[int]:
    """Float parameters `wrt` of a loop's body, and carries that depend on them after any number of iterations."""
    first = len(body.results) - carries
    varied = {index for index in wrt if is_inexact(body.params[index].type.dtype)}
    while True:
        active = active_values(body, varied, range(len(body.results)))
        grown = varied.union(index for index in range(carries) if body.results[first + index] in active)
        if grown == varied:
            return sorted(varied)
        varied = grown
