"""Interpreter: runs a graph with NumPy, or a single op when it is called. The interpreter gives every program its meaning; backends are
tested against it.

`Evaluator` is the emitter in force outside of a trace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjit.ir.definition import OpDefinition
from adjit.ir.errors import AdjitError, IndexingError, Location, TraceError
from adjit.ir.graph import Attributes, Graph, Op, Value, last_uses
from adjit.ir.host_functions import was_raised_by_host
from adjit.ir.types import TensorType


def interpret(graph: Graph, arrays: Sequence[np.ndarray], on_op: Callable[[Op], None] | None = None) -> tuple[np.ndarray, ...]:
    """Results of `graph` for `arrays`, one for each parameter. Values are dropped after their last use; `on_op` is called with each op
    after it ran. Raises `IndexingError` for an index that is out of range, `ValueError` for another number of arrays."""
    if len(arrays) != len(graph.params):
        raise ValueError(f"graph {graph.name} takes {len(graph.params)} arrays, got {len(arrays)}")
    steps, count, results = _plan(graph)
    known: list[Any] = [*arrays, *[None] * (count - len(arrays))]
    with np.errstate(all="ignore"):
        for op, operands, made, dead in steps:
            try:
                outs = evaluate_silently(op.definition, [known[place] for place in operands], op.attrs, op.regions)
            except IndexError as error:
                if was_raised_by_host(error):
                    raise
                raise error if isinstance(error, IndexingError) else IndexingError(f"{op.name}: {error}", op.loc) from None
            for place, out in zip(made, outs, strict=True):
                known[place] = out
            if on_op is not None:
                on_op(op)
            for place in dead:
                known[place] = None
    return tuple([known[place] for place in results])


_Step = tuple[Op, list[int], list[int], list[int]]
"""An op, the places of its operands and results, and the places that no later op reads."""


def _plan(graph: Graph) -> tuple[list[_Step], int, list[int]]:
    """The steps of a graph, the number of places for values, and the places of its results. Those of small graphs are kept for a while:
    the body of a loop runs often."""
    known = _plans.get(id(graph))
    if known is not None and known[0] is graph:
        return known[1]
    places = {value: place for place, value in enumerate(graph.params)}
    if len(places) != len(graph.params):
        raise ValueError(f"graph {graph.name} has a parameter twice")
    last = last_uses(graph)
    steps = []
    for index, op in enumerate(graph.ops):
        operands = [places[value] for value in op.operands]
        made = [places.setdefault(value, len(places)) for value in op.results]
        steps.append((op, operands, made, [places[value] for value in {*op.operands, *op.results} if last[value] == index]))
    plan = steps, len(places), [places[value] for value in graph.results]
    if len(steps) <= _MOST_KEPT_OPS:
        if len(_plans) >= _MOST_PLANS:
            _plans.clear()
        _plans[id(graph)] = graph, plan
    return plan


_plans: dict[int, tuple[Graph, tuple[list[_Step], int, list[int]]]] = {}
"""Steps of graphs by identity. The entry keeps the graph, so that no other one gets its identity."""

_MOST_PLANS, _MOST_KEPT_OPS = 32, 2000


class ArrayValue(Value):
    """Value with its array."""

    __slots__ = ("array",)

    def __init__(self, array: np.ndarray):
        super().__init__(TensorType(array.dtype, array.shape))
        self.array = array


class Evaluator:
    """Emitter that evaluates every op at once. `locate` returns the user's location for errors."""

    def __init__(self, locate: Callable[[], Location | None] | None = None):
        self._locate = locate or (lambda: None)

    def emit(self, definition: OpDefinition, operands: Sequence[Value], attrs: Attributes,
             regions: tuple[Graph, ...] = ()) -> tuple[Value, ...]:
        arrays = [value.array for value in operands if isinstance(value, ArrayValue)]
        if len(arrays) < len(operands):
            raise TraceError(f"{definition.name} of a traced array in another thread than the one that traces the function", self._locate(),
                             "compute it in the function's own thread: programs use all cores, and aj.map deals examples to them")
        try:
            definition.result_types([value.type for value in operands], attrs, regions)
        except AdjitError as error:
            raise type(error)(f"{definition.name}: {error.message}", error.location or self._locate(), error.hint) from None
        return tuple(ArrayValue(array) for array in evaluate(definition, arrays, attrs, regions))


def evaluate(definition: OpDefinition, arrays: Sequence[np.ndarray], attrs: Attributes,
             regions: tuple[Graph, ...] = ()) -> tuple[np.ndarray, ...]:
    """Results of one op, as arrays of the inferred dtypes; NumPy's floating-point warnings are silent."""
    with np.errstate(all="ignore"):
        return evaluate_silently(definition, arrays, attrs, regions)


def evaluate_silently(definition: OpDefinition, arrays: Sequence[np.ndarray], attrs: Attributes,
                      regions: tuple[Graph, ...] = ()) -> tuple[np.ndarray, ...]:
    """`evaluate`, where NumPy's floating-point warnings are silent already."""
    out = definition.evaluate(*arrays, **attrs, regions=regions) if definition.regions else definition.evaluate(*arrays, **attrs)
    if type(out) is tuple:
        return tuple([array if type(array) is np.ndarray else _as_array(array) for array in out])
    return (out,) if type(out) is np.ndarray else (_as_array(out),)


def _as_array(result: Any) -> np.ndarray:
    """The array of a result; that of a scalar without `np.asarray`, which is another function while one is traced."""
    return result[...] if isinstance(result, np.generic) else np.asarray(result)      # type: ignore[index]
