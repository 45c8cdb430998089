"""Iterators of `for` loops over ranges whose numbers are part of the state: that such a loop goes on is a decision like others."""

from __future__ import annotations

import operator
from typing import Any

from adjit.ir import ops
from adjit.ir.emitter import emitting
from adjit.ir.types import I64
from adjit.tracer.flow.flow_graph import Source
from adjit.tracer.flow.lifted_numbers import LiftedNumber, lift, lifted_integer
from adjit.tracer.scope import Scope, active_scope

RANGE_ITERATOR = type(iter(range(0)))


def form_of(iterator: Any) -> tuple[int, int]:
    """First number behind the end of a range, and its step, from its iterator."""
    _, (numbers,), *_ = iterator.__reduce__()
    return numbers.start + numbers.step * len(numbers), numbers.step


_USUAL = 1 << 20


class LiftedRange:
    """Iterator that takes the place of that of a range: `left` numbers are left, all within `bound`."""

    __slots__ = ("bound", "end", "left", "step")

    def __init__(self, iterator: Any, source: Source, scope: Scope):
        self.end, self.step = form_of(iterator)
        most = abs(self.end) + abs(self.step) * operator.length_hint(iterator)
        self.bound = max(_USUAL, 1 << most.bit_length())        # the same, wherever the loop was met first
        self.left = lift(operator.length_hint(iterator), source, scope)

    def __iter__(self) -> LiftedRange:
        return self

    def __next__(self) -> LiftedNumber:
        left, scope = self.left, active_scope()
        assert scope is not None
        if not left:
            raise StopIteration
        with emitting(scope.builder):
            step, end = (ops.constant(value=number, dtype=I64, shape=()) for number in (self.step, self.end))
            item = ops.subtract(end, left.value if self.step == 1 else ops.multiply(step, left.value))
        self.left = left - 1
        return lifted_integer(item, scope, left.sources, self.bound)
