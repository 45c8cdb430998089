"""Iterators of `for` loops whose counts are part of the state: that such a loop goes on is a decision like others."""

from __future__ import annotations

import operator
import sys
from typing import Any

from adjit.ir import ops
from adjit.ir.emitter import emitting
from adjit.ir.types import I64
from adjit.tracer.flow.flow_graph import Source
from adjit.tracer.flow.lifted_numbers import LiftedNumber, lift, lifted_integer
from adjit.tracer.row_iterator import RowIterator
from adjit.tracer.scope import Scope, active_scope

RANGE_ITERATOR = type(iter(range(0)))

Form = tuple[Any, ...]
"""What an iterator gives, as a function of the number `left` of items that are left: an integer `("count", end, step)`, which is
`end - step * left`; a row `("row", array, end)` at the place `end - left`; a `("tuple", form, ...)`."""


_HELD_ONCE = 3      # references to what an iterator holds: its own, that of a variable here, that of the count


def left_in(iterator: Any) -> int | None:
    """Number of items that are left in an iterator of a range or of a traced array, or in `enumerate` or `zip` of such; None for others,
    and where an iterator within is held by others, who may take items, too."""
    kind = type(iterator)
    if kind in (RANGE_ITERATOR, RowIterator):
        return operator.length_hint(iterator)
    if kind is enumerate:
        inner, _ = iterator.__reduce__()[1]
        return left_in(inner) if sys.getrefcount(inner) <= _HELD_ONCE else None
    if kind is not zip:
        return None
    _, parts, *strict = iterator.__reduce__()
    counts: list[int] = []
    for part in parts:
        count = left_in(part) if sys.getrefcount(part) <= _HELD_ONCE else None
        if count is None or (strict and counts and count != counts[0]):
            return None
        counts.append(count)
    return min(counts, default=None)


def form_of(iterator: Any, left: int) -> Form:
    """The form of the items of an iterator which `left_in` knows, of which `left` will be taken."""
    kind = type(iterator)
    if kind is RANGE_ITERATOR:
        _, (numbers,), *_ = iterator.__reduce__()
        end = numbers.start + numbers.step * len(numbers)       # of all numbers, or of those that are left: Python 3.12
        return "count", end - numbers.step * (operator.length_hint(iterator) - left), numbers.step
    if kind is RowIterator:
        return "row", iterator.array, iterator.length - operator.length_hint(iterator) + left
    if kind is enumerate:
        inner, count = iterator.__reduce__()[1]
        return "tuple", ("count", count + left, 1), form_of(inner, left)
    return "tuple", *(form_of(each, left) for each in iterator.__reduce__()[1])


_USUAL = 1 << 20


class LiftedRange:
    """Iterator that takes the place of another one: `left` items are left, all integers among them within `bound`."""

    __slots__ = ("bound", "form", "left")

    def __init__(self, iterator: Any, source: Source, scope: Scope):
        left = left_in(iterator)
        assert left is not None
        self.form = form_of(iterator, left)
        self.bound = max(_USUAL, 1 << _largest(self.form, left).bit_length())       # the same, wherever the loop was met first
        self.left = lift(left, source, scope)

    def __iter__(self) -> LiftedRange:
        return self

    def __next__(self) -> Any:
        left, scope = self.left, active_scope()
        assert scope is not None
        if not left:
            raise StopIteration
        item = self._item(self.form, left, scope)
        self.left = left - 1
        return item

    def _item(self, form: Form, left: LiftedNumber, scope: Scope) -> Any:
        if form[0] == "tuple":
            return tuple(self._item(part, left, scope) for part in form[1:])
        end, step = form[1:] if form[0] == "count" else (form[2], 1)
        with emitting(scope.builder):
            factor, last = (ops.constant(value=number, dtype=I64, shape=()) for number in (step, end))
            number = ops.subtract(last, left.value if step == 1 else ops.multiply(factor, left.value))
        place = lifted_integer(number, scope, left.sources, self.bound)
        return place if form[0] == "count" else form[1][place]


def _largest(form: Form, left: int) -> int:
    """Bound of the absolute values of the integers that an iterator gives."""
    if form[0] == "tuple":
        return max(_largest(part, left) for part in form[1:])
    return abs(form[1]) + abs(form[2]) * left if form[0] == "count" else int(form[2])
