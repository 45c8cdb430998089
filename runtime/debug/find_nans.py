"""The op that made a NaN or an infinity: a call whose results have one is run again op by op."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from adjit.ir.dataclass import dataclass
from adjit.ir.definition import Kind
from adjit.ir.errors import NonFiniteError, Role
from adjit.ir.graph import Graph, Op, Value, producers
from adjit.ir.types import is_inexact
from adjit.runtime.debug.op_by_op import Arrays, reference_graph, run_op_by_op

if TYPE_CHECKING:
    from adjit.runtime.capture.compiled_operation import Half
    from adjit.runtime.program import Program

PASSING_ON = (Kind.CREATION, Kind.MOVEMENT)
"""Kinds of ops that make no new number: an infinity that stands in the program is meant."""

MAX_SHOWN = 8
"""Elements of an array that a message shows."""


@dataclass(frozen=True, slots=True)
class _Maker:
    """Op that makes what none of its operands has, with its arrays; the `iteration` of a loop, counted from 0, if it is in one."""

    op: Op
    operands: tuple[np.ndarray, ...]
    result: np.ndarray
    iteration: int | None


def explain_nonfinite(program: Program | Half, arrays: Arrays, paths: Sequence[str]) -> NonFiniteError | None:
    """The error for a call of a program with these arrays, whose results have a NaN or an infinity; None if it stands in the program."""
    graph = reference_graph(program)
    search = _Search(graph, arrays)
    found = search.origin()
    if isinstance(found, _Maker):
        return _error(found)
    if found is not None:
        name = paths[found] if found < len(paths) else f"argument {found}"
        return NonFiniteError(f"{name} has {_kinds(arrays[found])} already: {_shown(arrays[found])}", None,
                              "the ops of the program only pass it on")
    if search.bad_results:
        return None
    return NonFiniteError("the compiled program gives a NaN or an infinity that its ops, run one by one by NumPy, do not give", None,
                          "compare with the function itself: adjit.compile(f, shadow=1.0)")


class _Search:
    """The run op by op, and which values have a NaN or an infinity."""

    def __init__(self, graph: Graph, arrays: Arrays):
        self.graph = graph
        self.own = set(graph.ops)
        self.bad = {value for value, array in zip(graph.params, arrays, strict=True) if _nonfinite(array)}
        self.makers: dict[Op, _Maker] = {}
        self.inner: _Maker | None = None        # the first one in the loop under way
        self.rounds: Counter[Op] = Counter()
        results = run_op_by_op(graph, arrays, self.observe)
        self.bad_results = [value for value, array in zip(graph.results, results, strict=True) if _nonfinite(array)]

    def observe(self, op: Op, operands: Arrays, results: Arrays) -> None:
        is_own = op in self.own
        for value, result in zip(op.results, results, strict=True):
            if not _nonfinite(result):
                continue
            if is_own:
                self.bad.add(value)
            if op.definition.kind in PASSING_ON or not _makes(operands, result):
                continue
            if not is_own and self.inner is None:
                self.inner = _Maker(op, tuple(operands), result, self.rounds[op])
            elif is_own and op not in self.makers:
                self.makers[op] = self.inner or _Maker(op, tuple(operands), result, None)
        if is_own:
            self.inner = None
            self.rounds.clear()
        else:
            self.rounds[op] += 1

    def origin(self) -> _Maker | int | None:
        """The first op that made what came into the results; or the number of the argument that brought it."""
        producer, numbers = producers(self.graph), {op: number for number, op in enumerate(self.graph.ops)}
        waiting, seen = list(self.bad_results), set[Value]()
        found: list[Op] = []
        while waiting:
            value = waiting.pop()
            if value in seen:
                continue
            seen.add(value)
            op = producer.get(value)
            if op is not None:
                found += [op] if op in self.makers else []
                waiting += [operand for operand in op.operands if operand in self.bad]
        if found:
            return self.makers[min(found, key=numbers.__getitem__)]
        return next((index for index, value in enumerate(self.graph.params) if value in seen), None)


def _nonfinite(array: np.ndarray) -> bool:
    return is_inexact(array.dtype) and not np.isfinite(array).all()


def _makes(operands: Arrays, result: np.ndarray) -> bool:
    """True if a result has a NaN, and no operand has one; or an infinity, and the operands are finite."""
    if np.isnan(result).any():
        return not any(is_inexact(array.dtype) and np.isnan(array).any() for array in operands)
    return not any(map(_nonfinite, operands))


def _error(maker: _Maker) -> NonFiniteError:
    op, result = maker.op, maker.result
    is_bad = np.isnan(result) if np.isnan(result).any() else ~np.isfinite(result)
    at = tuple(int(index) for index in np.argwhere(is_bad)[0])
    half = " in the backward half" if op.role in (Role.ADJOINT, Role.RECOMPUTE) else ""
    where = f" in iteration {maker.iteration} of a loop" if maker.iteration is not None else ""
    place = f" at index {at}" if at else ""
    count = f", {int(is_bad.sum())} of {result.size} elements" if result.size > 1 else ""
    lines = [f"{op.name}{half}{where} makes {result[at]}{place}{count}"]
    for number, (value, array) in enumerate(zip(op.operands, maker.operands, strict=True), 1):
        here = f"; {array[at]!s}{place}" if at and array.shape == result.shape else ""
        lines.append(f"    operand {number}{'' if value.name is None else f', {value.name}'}, {value.type}: {_shown(array)}{here}")
    hint = "select harmless operands before the op, as in np.log(np.where(x > 0, x, 1)): a mask behind it keeps no NaN from gradients" \
        if half else f"keep such operands from {op.name}, with np.where or np.clip before it"
    return NonFiniteError("\n".join(lines), op.loc, hint)


def _kinds(array: np.ndarray) -> str:
    return "a NaN" if np.isnan(array).any() else "an infinity"


def _shown(array: np.ndarray) -> str:
    """The elements of an array, or its first ones and the range of all."""
    if array.size <= MAX_SHOWN:
        return np.array2string(array, separator=", ").replace("\n", "")
    finite = array[np.isfinite(array)] if is_inexact(array.dtype) else array
    span = f", from {finite.min()!s} to {finite.max()!s}" if finite.size and finite.dtype.kind in "iuf" else ""
    return f"{np.array2string(array.ravel()[:MAX_SHOWN], separator=', ').rstrip(']')}, ...]{span}"
