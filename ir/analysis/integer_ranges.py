"""Ranges of the integers of a graph: the smallest and the largest element that a value can have, where its ops bound them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from operator import is_

import numpy as np

from adjit.ir.definition import Kind
from adjit.ir.graph import Graph, Op, Value, producers
from adjit.ir.types import TensorType

Range = tuple[int, int]
Ranges = dict[Value, Range]
MAX_ROWS = 1 << 48      # rows that memory can hold
"""Range of each value of integers or bools that is bounded."""

SAME_VALUES = ("reshape", "transpose", "flip", "slice", "broadcast", "stop_gradient", "take", "take_along_axis", "reduce_max", "reduce_min",
               "sort", "partition", "cummax", "cummin")
"""Ops whose results have elements of the first operand alone."""

EITHER = ("concatenate", "update_slice")
"""Ops whose results have elements of their operands alone."""


def range_of_result(op: Op, known: Mapping[Value, Range], producer: Mapping[Value, Op]) -> Range | None:
    """Range of the only result of an op, from those of its operands; None if it is not bounded, or if it may not fit the dtype."""
    type = op.results[0].type
    if type.dtype.kind not in "iub" or not type.size:
        return None
    found = _compute(op, known, producer)
    return found if found is not None and _fits(found, type) else None


def _compute(op: Op, known: Mapping[Value, Range], producer: Mapping[Value, Op]) -> Range | None:
    name = op.name
    if op.definition.kind is Kind.CREATION:
        return _of_creation(op)
    if name in ("argmax", "argmin", "argpartition", "argsort"):
        return 0, op.operands[0].type.shape[op.attrs["axis"]] - 1
    if name == "select":
        return _of_select(op, known, producer)
    if name in SAME_VALUES:
        return known.get(op.operands[0])
    given = [known.get(value) for value in op.operands]
    if name == "scatter_set":
        return _join([given[0], given[2]])
    if name in EITHER:
        return _join(given)
    if name == "convert":
        return given[0] if op.result.type.dtype.kind != "b" else (0, 1)
    if op.result.type.dtype.kind == "b":
        return _of_comparison(op, known) or (0, 1)
    rule = _ARITHMETIC.get(name)
    return None if rule is None else rule(*(each or _of_dtype(value.type) for each, value in zip(given, op.operands, strict=True)))


def _of_creation(op: Op) -> Range | None:
    if op.name == "iota":
        return 0, op.result.type.shape[op.attrs["axis"]] - 1
    if op.name == "constant":
        return int(op.attrs["value"]), int(op.attrs["value"])
    if op.name == "table":
        elements = np.frombuffer(op.attrs["data"], op.attrs["dtype"])
        return int(elements.min()), int(elements.max())
    return None


def _join(given: Sequence[Range | None]) -> Range | None:
    found = [each for each in given if each is not None]
    return (min(low for low, _ in found), max(high for _, high in found)) if found and len(found) == len(given) else None


def _of_dtype(type: TensorType) -> Range:
    if type.dtype.kind == "b":
        return 0, 1
    info = np.iinfo(type.dtype)
    return int(info.min), int(info.max)


def _fits(found: Range, type: TensorType) -> bool:
    return _within(found, _of_dtype(type))


def _remainder(x: Range, y: Range) -> Range | None:
    if y[0] <= 0:
        return None
    return x if x[0] >= 0 and x[1] < y[0] else (0, y[1] - 1)


def _corners(operation: Callable[[int, int], int]) -> Callable[[Range, Range], Range]:
    def rule(x: Range, y: Range) -> Range:
        corners = [operation(a, b) for a, b in product(x, y)]
        return min(corners), max(corners)
    return rule


_ARITHMETIC: dict[str, Callable[..., Range | None]] = {
    "add": lambda x, y: (x[0] + y[0], x[1] + y[1]),
    "subtract": lambda x, y: (x[0] - y[1], x[1] - y[0]),
    "multiply": _corners(lambda a, b: a * b),
    "negative": lambda x: (-x[1], -x[0]),
    "abs": lambda x: (0 if x[0] <= 0 <= x[1] else min(map(abs, x)), max(map(abs, x))),
    "square": lambda x: (0 if x[0] <= 0 <= x[1] else min(a * a for a in x), max(a * a for a in x)),
    "minimum": lambda x, y: (min(x[0], y[0]), min(x[1], y[1])),
    "maximum": lambda x, y: (max(x[0], y[0]), max(x[1], y[1])),
    "remainder": _remainder,
    "floor_divide": lambda x, y: _corners(lambda a, b: a // b)(x, y) if y[0] > 0 else None,
}

# -- comparisons and selections: an index that counts from the end gets the size of the axis added

COMPARISONS = {"less": 0, "greater_equal": 0, "less_equal": 1, "greater": 1}
"""`x < y + n` of integers, or its opposite."""

_OPPOSITE = ("greater_equal", "greater")


def _of_comparison(op: Op, known: Mapping[Value, Range]) -> Range | None:
    """(1, 1) or (0, 0) for a comparison with one outcome."""
    if op.name not in COMPARISONS:
        return None
    if op.operands[0].type.dtype.kind not in "iu":
        return None
    x, y = (known.get(value) or _of_dtype(value.type) for value in op.operands)
    shift, opposite = COMPARISONS[op.name], op.name in _OPPOSITE
    if x[1] < y[0] + shift:
        return (0, 0) if opposite else (1, 1)
    if x[0] >= y[1] + shift:
        return (1, 1) if opposite else (0, 0)
    return None


def _of_select(op: Op, known: Mapping[Value, Range], producer: Mapping[Value, Op]) -> Range | None:
    """Both choices, each where the condition chooses it."""
    condition, first, second = op.operands
    outcome = known.get(condition)
    found = []
    for value, taken in ((first, 1), (second, 0)):
        if outcome is None or outcome[0] <= taken <= outcome[1]:
            found.append(_where(value, condition, bool(taken), known, producer))
    return _join(found)


def _where(value: Value, condition: Value, taken: bool, known: Mapping[Value, Range], producer: Mapping[Value, Op]) -> Range | None:
    """Range of a value where a comparison with a number has an outcome."""
    test, made = producer.get(condition), producer.get(value)
    while test is not None and test.name in ("broadcast", "reshape"):
        test = producer.get(test.operands[0])
    if test is None or test.name not in COMPARISONS:
        return known.get(value)
    compared, limit = test.operands
    if compared.type.dtype.kind not in "iu" or compared.type != limit.type:
        return known.get(value)
    before, bound = (known.get(each) or _of_dtype(each.type) for each in (compared, limit))
    shift = COMPARISONS[test.name]
    low, high = (before[0], min(before[1], bound[1] + shift - 1)) if taken is not (test.name in _OPPOSITE) \
        else (max(before[0], bound[0] + shift), before[1])
    if low > high:
        return known.get(value)
    if value is compared:
        return low, high
    if made is None or compared not in made.operands:
        return known.get(value)
    return range_of_result(made, {each: known[each] for each in made.operands if each in known} | {compared: (low, high)}, {})


# -- graphs

WIDENINGS = 3
"""Times that the ranges of a loop's carries are widened before they count as not bounded."""

OnOp = Callable[[Op, Ranges], Op]


def with_ranges(graph: Graph, given: Sequence[Range | None], on_op: OnOp) -> tuple[Graph, list[Range | None]]:
    """Graph whose ops are `on_op(op, ranges of the values before it)`, also within loops and branches, and the ranges of its results.
    `given` are those of the parameters. Regions that are one object stay one where they are given the same ranges."""
    return _Walk(on_op).graph(graph, given)


class _Walk:
    def __init__(self, on_op: OnOp):
        self.on_op = on_op
        self.known: dict[tuple[int, tuple[Range | None, ...]], tuple[Graph, list[Range | None]]] = {}
        self.seen: list[Graph] = []         # keeps the identity of regions their own

    def graph(self, graph: Graph, given: Sequence[Range | None]) -> tuple[Graph, list[Range | None]]:
        known: Ranges = {value: each for value, each in zip(graph.params, given, strict=True) if each is not None}
        producer = producers(graph)
        new: list[Op] = []
        for op in graph.ops:
            changed = self.on_op(op, known)
            if op.name in _CONTROL_FLOW:
                regions, found = _CONTROL_FLOW[op.name](self, op, [known.get(value) for value in op.operands])
                if not all(map(is_, regions, op.regions)):
                    changed = replace(changed, regions=tuple(regions))
            elif len(op.results) == 1:
                found = [range_of_result(op, known, producer)]
            else:
                found = []
            known.update((value, each) for value, each in zip(op.results, found, strict=False) if each is not None)
            new.append(changed)
        return graph if all(map(is_, new, graph.ops)) else graph.with_ops(new), [known.get(value) for value in graph.results]

    def region(self, region: Graph, given: Sequence[Range | None]) -> tuple[Graph, list[Range | None]]:
        key = id(region), tuple(given)
        if key not in self.known:
            self.seen.append(region)
            self.known[key] = self.graph(region, given)
        return self.known[key]

    def scan(self, op: Op, given: list[Range | None]) -> tuple[list[Graph], list[Range | None]]:
        """A carry has the range of its first value, widened by what iterations make of it, if further ones keep it there."""
        (body,), carries = op.regions, op.attrs["carries"]
        for attempt in range(WIDENINGS + 2):
            region, results = self.region(body, given)
            after = results[len(results) - carries:]
            wrong = [index for index in range(carries) if not _within(after[index], given[index])]
            if not wrong:
                return [region], [*results[:len(results) - carries], *given[:carries]]      # without an iteration, the first values
            for index in wrong:
                given[index] = _join([given[index], after[index]]) if attempt < WIDENINGS else None
        region, results = self.region(body, [*[None] * carries, *given[carries:]])
        return [region], results

    def while_loop(self, op: Op, given: list[Range | None]) -> tuple[list[Graph], list[Range | None]]:
        """A carry has the range of its first value, without its limit where an iteration exceeds it; the condition holds in the body."""
        (condition, body), carries = op.regions, op.attrs["carries"]
        head = given[:carries]
        for attempt in range(WIDENINGS + 1):
            if attempt == WIDENINGS:
                head = [None] * carries
            region, results = self.region(body, _where_true(condition, [*head, *given[carries:]]))
            wrong = [index for index in range(carries) if not _within(results[index], head[index])]
            if not wrong:
                break
            for index in wrong:
                head[index] = _beyond(head[index], results[index], body.params[index].type)
        return [self.region(condition, [*head, *given[carries:]])[0], region], []

    def cond(self, op: Op, given: list[Range | None]) -> tuple[list[Graph], list[Range | None]]:
        done = [self.region(region, given[1:]) for region in op.regions]
        return [region for region, _ in done], [_join(each) for each in zip(*(results for _, results in done), strict=True)]

    def panels(self, op: Op, given: list[Range | None]) -> tuple[list[Graph], list[Range | None]]:
        """Nothing is known of rows and of what is carried; numbers of rows are none that are negative."""
        slices = op.attrs["slices"]
        known = [*[None] * (len(op.attrs["initial"]) + slices), (0, MAX_ROWS), (0, MAX_ROWS), *given[slices + 1:]]
        *bodies, combine = op.regions
        return [*(self.region(region, known)[0] for region in bodies), combine], []


_CONTROL_FLOW: dict[str, Callable[[_Walk, Op, list[Range | None]], tuple[list[Graph], list[Range | None]]]] = {
    "scan": _Walk.scan, "while_loop": _Walk.while_loop, "cond": _Walk.cond, "panels": _Walk.panels}


def _where_true(condition: Graph, given: Sequence[Range | None]) -> list[Range | None]:
    """Ranges of the parameters of a condition where it holds."""
    known, producer = {value: each for value, each in zip(condition.params, given, strict=True) if each is not None}, producers(condition)
    for op in condition.ops:
        if len(op.results) == 1 and (found := range_of_result(op, known, producer)) is not None:
            known[op.result] = found
    tests = _holding(condition.results[0], producer)
    for test in tests:
        for value in condition.params:
            if value.type.dtype.kind in "iu" and (narrower := _where(value, test, True, known, producer)) is not None:
                known[value] = narrower
    return [known.get(value) for value in condition.params]


def _holding(test: Value, producer: Mapping[Value, Op]) -> list[Value]:
    """Conditions that hold where a condition does: the parts of `logical_and`."""
    made = producer.get(test)
    if made is None or made.name != "logical_and":
        return [test]
    return [part for operand in made.operands for part in _holding(operand, producer)]


def _beyond(range: Range | None, after: Range | None, type: TensorType) -> Range | None:
    """The range without the limit that what comes after exceeds."""
    if range is None or after is None:
        return None
    lowest, highest = _of_dtype(type)
    return range[0] if after[0] >= range[0] else lowest, range[1] if after[1] <= range[1] else highest


def _within(inner: Range | None, outer: Range | None) -> bool:
    return outer is None or (inner is not None and outer[0] <= inner[0] and inner[1] <= outer[1])
