"""Masked arrays: `x[mask]` as the array that is chosen from and the mask. How many elements there are is asked for only where it counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.builder import GraphBuilder
from adjit.ir.emitter import emitting
from adjit.ir.errors import TraceError, UnsupportedError
from adjit.ir.graph import Value
from adjit.ir.interpreter import ArrayValue
from adjit.ir.types import BOOL, I64
from adjit.tracer import lowering
from adjit.tracer.array import TracedArray, TracedNDArray, known_value, wrap
from adjit.tracer.scope import Scope, active_scope
from adjit.tracer.user_location import find_user_location

COUNT_HINT = ("reductions and elementwise functions of x[mask] work, and writes to the same places, y[mask] = x[mask] * 2; else use "
              "np.where(mask, x, other), or a reduction with where=mask; a mask that is an ordinary ndarray works as well")

Rule = Callable[..., Any]
RULES: dict[Callable[..., Any], Rule] = {}
"""Function over traced arrays -> rule(function, args, kwargs) for masked arguments; NotImplemented asks for the count."""


class MaskedArray(TracedNDArray):
    """Elements of an array that a mask chooses along one axis, in their order.

    `whole` is the array that is chosen from, `mask` a vector of bools for its axis `axis`. Elementwise functions keep the mask: they
    compute all elements, and the others get cotangent 0. What needs the number of chosen elements, `shape` above all, asks for it by
    `known_count`; from then on the array is an ordinary one. What is written to a masked array `through` goes to the chosen elements of
    `whole`, which then is a view. `key` of the indices that `nonzero` gives says so: which axis, and the shape.
    """

    __slots__ = ("_chosen", "_chosen_from", "axis", "key", "mask", "shared", "through", "whole")

    def __init__(self, whole: TracedArray, mask: Value, axis: int, scope: Scope, key: object = None):
        self._chosen: Value | None = None
        self._chosen_from: Value | None = None
        self.whole: Any = whole          # None after a write to the array whose count is known
        self.mask = mask
        self.axis = axis
        self.shared = False
        self.through = False
        self.key = key
        super().__init__(whole._value, scope, writable=whole.writable)

    @property
    def lazy(self) -> bool:
        """True as long as nothing asked for the count."""
        return self.whole is not None and self._chosen is None

    @property       # type: ignore[override]
    def _value(self) -> Value:
        whole = self.whole
        if whole is not None and self._chosen_from is not whole.value:
            with emitting(self.scope.builder):
                self._chosen = ops.take(whole.value, self._places(), axis=self.axis)
            self._chosen_from = whole.value
        assert self._chosen is not None
        return self._chosen

    @_value.setter
    def _value(self, value: Value) -> None:
        if self._chosen is not None:
            self._chosen, self.whole = value, None

    def _places(self) -> Value:
        """Indices of the chosen elements; asks for the count."""
        return lowering.slice_axis(chosen_places(self.mask), 0, 0, known_count(self.mask))

    def assign(self, value: Value) -> None:
        """Store another value; refused where views of the array exist, which would not follow."""
        self._value     # noqa: B018  # asks for the count
        if self.through:
            self.whole.assign(ops.scatter_set(self.whole.value, self._places(), value, axis=self.axis))
            return
        if self.shared and self.whole is not None:
            raise UnsupportedError("an array chosen by a mask is written to after a view of it was made and its length asked for",
                                   find_user_location(), hint="write to a copy, x[mask].copy()")
        super().assign(value)

    def check_writable(self) -> None:
        """Raise `UnsupportedError` for a part of what a mask chose, and for that of which the part is: NumPy has a view there."""
        if self.lazy and self.shared and not self.whole.writable:
            raise UnsupportedError("a write to a part of what a traced mask chose, z[1:], or to z itself after that", find_user_location(),
                                   hint="write to a copy, z[1:].copy(); or ask for len(z) first: z is an ordinary array from then on")

    @property
    def in_order(self) -> bool:
        return True if self.lazy else super().in_order

    @property
    def dtype(self) -> np.dtype:
        return self._value.type.dtype if self.whole is None else self.whole.dtype

    @property
    def ndim(self) -> int:
        return self._value.type.rank if self.whole is None else self.whole.ndim

    @property
    def size(self) -> Any:
        """Number of elements: a traced integer that promotes like a Python number, until the count is known."""
        if not self.lazy:
            return super().size
        each = self.whole.size // max(self.whole.shape[self.axis], 1)
        return wrap(ops.multiply(traced_count(self.mask), lowering.constant(each, I64)), weak=True)

    def filled(self, number: Any) -> TracedArray:
        """Return the array that is chosen from, with `number` in place of the elements that are left out."""
        value = self.whole.value
        other = lowering.constant(number, value.type.dtype, value.type.shape)
        return wrap(ops.select(self.spread_mask(), value, other), scalar=False)

    def spread_mask(self) -> Value:
        """Mask of the shape of `whole`."""
        return spread(self.mask, self.whole.shape, self.axis)

    def alike(self, whole: TracedArray, axis: int | None = None, view: bool = False) -> MaskedArray:
        """Return the elements of another array that the same mask chooses; a view shares elements with this array."""
        scope = active_scope()
        assert scope is not None
        made = MaskedArray(whole, self.mask, self.axis if axis is None else axis, scope)
        if view:
            self.shared = made.shared = True
        return made

    def __repr__(self) -> str:
        return super().__repr__() if self.whole is None else f"<traced {self.whole.value.type}, chosen by a mask along axis {self.axis}>"


def is_lazy(x: Any) -> bool:
    """True for a masked array whose count nothing asked for."""
    return type(x) is MaskedArray and x.lazy


def masked_array(whole: TracedArray, mask: Value, axis: int = 0, key: object = None) -> MaskedArray:
    """Make the masked array of the scope that is active. `whole` belongs to it from then on."""
    scope = active_scope()
    assert scope is not None
    return MaskedArray(whole, mask, axis, scope, key)


def spread(mask: Value, shape: tuple[int, ...], axis: int) -> Value:
    """Broadcast a vector of bools for one axis to an array of `shape`."""
    aligned = lowering.reshape(mask, (mask.type.shape[0], *(1,) * (len(shape) - axis - 1)))
    return lowering.broadcast(aligned, shape)


def traced_count(mask: Value) -> Value:
    """Number of true elements of a vector, as i64."""
    return ops.reduce_sum(lowering.convert(mask, I64), axes=(0,))


def known_count(mask: Value) -> int:
    """Return the number of true elements for the call that is being traced, with a guard; raises `UnsupportedError` where it is not
    known, as in the body of a loop."""
    if isinstance(mask, ArrayValue):
        return int(np.count_nonzero(mask.array))
    message = "the number of elements that a traced bool mask chooses is asked for; it depends on values"
    return known_integer(wrap(traced_count(mask)), message, COUNT_HINT)


def known_integer(number: TracedArray, message: str, hint: str) -> int:
    """Return `known_value` of an integer, which a shape depends on; raises `UnsupportedError` with `message` where it is not known."""
    try:
        return int(known_value(number))
    except TraceError:
        raise UnsupportedError(message, find_user_location(), hint) from None


def ranks(mask: Value) -> Value:
    """Number of chosen elements before each one, -1 for none up to the first."""
    counted = ops.cumsum(lowering.convert(mask, I64), axis=0, reverse=False)
    return ops.subtract(counted, ops.full_like(counted, 1))


def chosen_places(mask: Value) -> Value:
    """Indices of the chosen elements, in order, and zeros after them; as many as the mask has elements."""
    size = mask.type.shape[0]
    targets = ops.select(mask, ranks(mask), lowering.constant(size, I64, (size,)))
    places = ops.scatter_set(lowering.constant(0, I64, (size + 1,)), targets, lowering.iota(I64, (size,), 0), axis=0)
    return lowering.slice_axis(places, 0, 0, size)


def checked_index(index: Value, valid: Value, size: int) -> Value:
    """Return `index` where the condition holds, else one that is out of bounds: the op that uses it raises `IndexError` at run time."""
    return ops.select(valid, index, lowering.constant(size, I64, index.type.shape))


def same_mask(a: Value, b: Value) -> bool:
    """True if both masks are known to be the same: one value, or the same ops on the same values (`x > 0`, written twice). Of the items of
    two lists the program checks that they are as many, if they are in this call."""
    if a is b:
        return True
    scope = active_scope()
    if scope is None or not isinstance(scope.builder, GraphBuilder):
        return False
    if scope.flow is not None and a.type == b.type and a in scope.counts and b in scope.counts:
        with emitting(scope.builder):
            return bool(scope.flow.check(ops.equal(scope.counts[a], scope.counts[b])))
    return scope.builder.computes_same(a, b)


def vector_mask(mask: TracedArray) -> Value:
    """Mask of any shape as a vector of bools."""
    return lowering.reshape(lowering.convert(mask.value, BOOL), (mask.size,))


def apply_rule(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call `function` on masked arguments without the count; NotImplemented if that cannot be done."""
    rule = RULES.get(function)
    return NotImplemented if rule is None else rule(function, args, kwargs)
