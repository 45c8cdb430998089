"""Reads and writes by traced masks, and functions of what a mask chose, without the number of chosen elements where it does not count.

Elements that are left out are computed with and never used: they get cotangent 0, which contributes exactly 0 in elementwise rules. Before
anything that mixes elements they are replaced by its neutral element.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.graph import Value
from adjit.ir.types import BOOL, I64, is_float, is_inexact
from adjit.tracer import lowering
from adjit.tracer.array import TracedArray, as_traced, known_value, wrap
from adjit.tracer.caught_errors import is_caught
from adjit.tracer.functions import composites, contraction, reductions, selecting, shapes, ufuncs
from adjit.tracer.functions.shapes import normalize_axes
from adjit.tracer.masked_array import (
    RULES,
    MaskedArray,
    checked_index,
    chosen_places,
    is_lazy,
    masked_array,
    ranks,
    same_mask,
    traced_count,
)
from adjit.tracer.python_scalars import holds
from adjit.tracer.registry import FUNCTIONS

Call = Callable[..., Any]


def behind(entry: Call) -> Call:
    """Function over traced arrays behind an entry point."""
    return entry.__wrapped__        # type: ignore[attr-defined,no-any-return]


def first(args: tuple[Any, ...]) -> Any:
    """First argument, or None."""
    return args[0] if args else None


def rule(*entries: Call) -> Callable[[Call], Call]:
    """Register a rule for masked arguments of these entry points."""

    def register(function: Call) -> Call:
        for entry in entries:
            RULES[behind(entry)] = function
        return function

    return register


# -- elementwise functions


def _from_end(x: MaskedArray) -> int:
    return x.ndim - x.axis


def fits(x: Any, like: MaskedArray) -> bool:
    """True if `x` has the mask of `like` at the same axis counted from the end, or no elements along that axis to choose from."""
    if is_lazy(x):
        return _from_end(x) == _from_end(like) and same_mask(x.mask, like.mask)
    if not isinstance(x, (TracedArray, np.ndarray)):
        return not isinstance(x, (list, tuple))
    place = x.ndim - _from_end(like)
    return place < 0 or x.shape[place] == 1


def whole_of(x: Any) -> Any:
    return x.whole if is_lazy(x) else x


def elementwise_rule(function: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    first = next(x for x in (*args, *kwargs.values()) if is_lazy(x))
    out = kwargs.get("out")
    if isinstance(out, tuple):
        (out,) = out
    if out is not None and is_lazy(out):
        out.check_writable()
    if not all(fits(x, first) for x in (*args, *kwargs.values())) or (out is not None and (not is_lazy(out) or out.through)):
        return NotImplemented
    result = function(*map(whole_of, args), **{name: whole_of(out if name == "out" else x) for name, x in kwargs.items()})
    if out is not None:
        return out
    return tuple(first.alike(part, part.ndim - _from_end(first)) for part in result) if isinstance(result, tuple) else first.alike(
        result, result.ndim - _from_end(first))


def _is_elementwise(name: Any) -> bool:
    return (isinstance(name, np.ufunc) and name.signature is None) or (isinstance(name, tuple) and name[0] == "scipy.special")


rule(*(function for name, function in FUNCTIONS.items() if _is_elementwise(name) and hasattr(function, "__wrapped__")),
     ufuncs.where, ufuncs.clip, ufuncs.round, FUNCTIONS["astype"], shapes.copy, composites.nan_to_num, composites.sinc, composites.isclose,
     composites.sigmoid, composites.erf, composites.stop_gradient)(elementwise_rule)


@rule(FUNCTIONS[np.zeros_like], FUNCTIONS[np.ones_like], FUNCTIONS[np.full_like], FUNCTIONS[np.empty_like])
def _made_like(function: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    x = first(args)
    if not is_lazy(x) or kwargs.get("shape") is not None or any(map(is_lazy, (*args[1:], *kwargs.values()))):
        return NotImplemented
    return x.alike(function(x.whole, *args[1:], **kwargs))


# -- reductions


def _reduced_axes(x: MaskedArray, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[int, ...]:
    return normalize_axes(args[1] if len(args) > 1 else kwargs.get("axis"), x.ndim)


def _along_others(function: Call, x: MaskedArray, axes: tuple[int, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Reduce axes that the mask does not choose from."""
    if any(map(is_lazy, (*args, *kwargs.values()))) or kwargs.get("out") is not None:
        return NotImplemented
    result = function(x.filled(0), *args, **kwargs)
    removed = 0 if result.ndim == x.ndim else sum(axis < x.axis for axis in axes)
    return x.alike(result, x.axis - removed)


def _mask_with(x: MaskedArray, where: Any) -> Any:
    """Mask of `x` as `where=` of a reduction, joined with the caller's; NotImplemented if that is another."""
    mask = wrap(lowering.reshape(x.mask, (x.mask.type.shape[0], *(1,) * (x.ndim - x.axis - 1))), scalar=False)
    if where is True or where is np._NoValue:
        return mask
    return FUNCTIONS[np.logical_and](whole_of(where), mask) if fits(where, x) else NotImplemented


WHERE_PLACE = 6
"""Number of arguments before `where` of `sum` and `prod`; the other reductions that are sums take fewer by position."""


def _sums(function: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    x = first(args)
    if len(args) > WHERE_PLACE:
        args, kwargs = args[:WHERE_PLACE], {**kwargs, "where": args[WHERE_PLACE]}
    if not is_lazy(x) or any(map(is_lazy, args[1:])) or any(is_lazy(kwargs[name]) for name in kwargs if name != "where"):
        return NotImplemented
    axes = _reduced_axes(x, args, kwargs)
    if x.axis not in axes:
        return _along_others(function, x, axes, args[1:], kwargs)
    mask = _mask_with(x, kwargs.get("where", True))
    return mask if mask is NotImplemented else function(x.whole, *args[1:], **{**kwargs, "where": mask})


rule(reductions.sum, reductions.prod, reductions.any, reductions.all, reductions.mean, reductions.var, reductions.std)(_sums)


def lowest(dtype: np.dtype, sign: int = 1) -> Any:
    """Neutral element of `max`; of `min` for sign -1."""
    if is_inexact(dtype):
        return -math.inf * sign
    if dtype == BOOL:
        return sign < 0
    limits = np.iinfo(dtype)
    return limits.min if sign > 0 else limits.max


def not_empty(result: TracedArray, mask: Value, sign: int) -> TracedArray:
    """Return `result`, a maximum or a minimum, by the sign; raises NumPy's error if the mask chooses nothing for this call. In the body of
    a loop it is an `IndexError` at run time."""
    some = wrap(ops.reduce_or(mask, axes=(0,)))
    known = known_value(some) if is_caught(ValueError) else holds(some)
    if known:
        return result
    if known is not None:
        raise ValueError(f"zero-size array to reduction operation {'maximum' if sign > 0 else 'minimum'} which has no identity")
    zero = lowering.constant(0, I64)
    index = checked_index(zero, some.value, 1)
    return wrap(ops.take(lowering.reshape(result.value, (1, *result.shape)), index, axis=0), scalar=None if result.scalar else False)


def _extremum(sign: int) -> Call:
    def extremum(function: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        x = first(args)
        given = dict(zip(("axis", "out", "keepdims", "initial", "where"), args[1:], strict=False)) | kwargs
        if not is_lazy(x) or any(is_lazy(given[name]) for name in given if name != "where") or given.get("out") is not None:
            return NotImplemented
        axes = _reduced_axes(x, args, kwargs)
        if x.axis not in axes:
            return _along_others(function, x, axes, args[1:], kwargs)
        given = {name: value for name, value in given.items() if value is not np._NoValue}
        mask = _mask_with(x, given.pop("where", True))
        if mask is NotImplemented:
            return NotImplemented
        started = reductions.given(given.get("initial"))
        result = function(x.whole, **({"initial": lowest(x.dtype, sign)} | given), where=mask)
        return result if started else not_empty(result, x.mask, sign)

    return extremum


rule(reductions.max)(_extremum(1))
rule(reductions.min)(_extremum(-1))


def _arg_extremum(sign: int) -> Call:
    best = FUNCTIONS[np.max if sign > 0 else np.min]

    def arg_extremum(function: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        x = first(args)
        if not is_lazy(x) or x.ndim != 1 or kwargs.get("out") is not None or len(args) > 2:
            return NotImplemented
        try:
            found = best(x)
        except ValueError:
            raise ValueError(f"attempt to get arg{'max' if sign > 0 else 'min'} of an empty sequence") from None
        same = FUNCTIONS[np.equal](x.whole, found)
        if is_float(x.dtype):     # NaN counts as the largest and as the smallest
            same = FUNCTIONS[np.logical_or](same, FUNCTIONS[np.isnan](x.whole))
        place = ops.argmax(ops.logical_and(same.value, x.mask), axis=0)
        return wrap(ops.take(ranks(x.mask), place, axis=0))

    return arg_extremum


rule(reductions.argmax)(_arg_extremum(1))
rule(reductions.argmin)(_arg_extremum(-1))


@rule(reductions.cumsum, reductions.cumprod)
def _cumulative(function: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    x = first(args)
    axis = args[1] if len(args) > 1 else kwargs.get("axis")
    if not is_lazy(x) or kwargs.get("out") is not None or len(args) > 3 or (axis is None and x.ndim > 1):
        return NotImplemented
    return x.alike(function(x.filled(0 if function is behind(reductions.cumsum) else 1), *args[1:], **kwargs))


@rule(reductions.diff)
def _differences(function: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    x = first(args)
    if not is_lazy(x) or x.ndim != 1 or len(args) > 1 or kwargs:
        return NotImplemented
    after, before = x[1:], x[:-1]
    return FUNCTIONS[np.not_equal if x.dtype == BOOL else np.subtract](after, before)


@rule(reductions.average)
def _average(function: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    x, weights = first(args), kwargs.get("weights", args[2] if len(args) > 2 else None)
    if not is_lazy(x) or kwargs.get("returned"):
        return NotImplemented
    axis = args[1] if len(args) > 1 else kwargs.get("axis")
    if weights is None:
        return FUNCTIONS[np.mean](x, axis, keepdims=kwargs.get("keepdims", False))
    if not is_lazy(weights) or not fits(weights, x) or x.ndim != 1 or weights.ndim != 1:
        return NotImplemented
    return FUNCTIONS[np.sum](x * weights) / FUNCTIONS[np.sum](weights)


def _with_neutral(number: float) -> Call:
    """Rule of a function of an array and an axis in which elements equal to `number` add nothing."""

    def apply(function: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        x = first(args)
        if not is_lazy(x) or any(map(is_lazy, (*args[1:], *kwargs.values()))):
            return NotImplemented
        x = x if is_inexact(x.dtype) else FUNCTIONS["astype"](x, np.float64)
        axes = _reduced_axes(x, args, kwargs)
        if x.axis not in axes:
            return _along_others(function, x, axes, args[1:], kwargs)
        result = function(x.filled(number), *args[1:], **kwargs)
        return x.alike(result) if function is not behind(composites.logsumexp) else result

    return apply


rule(composites.logsumexp, composites.softmax, composites.log_softmax)(_with_neutral(-math.inf))


# -- products of matrices


@rule(contraction.matmul, contraction.dot, FUNCTIONS[np.inner], FUNCTIONS[np.vdot])
def _product(function: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Products over a masked axis, and of rows that a mask chooses: elements that are left out are 0."""
    if len(args) != 2 or kwargs or any(isinstance(x, (list, tuple)) for x in args):
        return NotImplemented
    a, b = map(as_traced, args)
    if not a.ndim or not b.ndim or a.ndim > 2 or b.ndim > 2 or (function is behind(FUNCTIONS[np.vdot]) and (a.ndim > 1 or b.ndim > 1)):
        return NotImplemented
    inner_a, inner_b = a.ndim - 1, b.ndim - 1 if function is behind(FUNCTIONS[np.inner]) else max(b.ndim - 2, 0)
    over_a, over_b = (is_lazy(x) and x.axis == axis for x, axis in ((a, inner_a), (b, inner_b)))
    if over_a != over_b or (over_a and not same_mask(a.mask, b.mask)):
        return NotImplemented
    if not over_a and is_lazy(a) and is_lazy(b):
        return NotImplemented
    result = function(*(x.filled(0) if is_lazy(x) else x for x in (a, b)))
    if over_a:
        return result
    return a.alike(result, 0) if is_lazy(a) else b.alike(result, result.ndim - 1)


# -- shapes


@rule(shapes.transpose, shapes.swapaxes, shapes.moveaxis)
def _permuted(function: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    x = first(args)
    if not is_lazy(x):
        return NotImplemented
    places = function(wrap(lowering.constant(0, BOOL, tuple(range(2, x.ndim + 2)))), *args[1:], **kwargs).shape
    return x.alike(function(x.whole, *args[1:], **kwargs), places.index(x.axis + 2), view=True)


@rule(shapes.ravel)
def _raveled(function: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    x = first(args)
    if not is_lazy(x) or x.ndim > 1 or len(args) > 1 or kwargs:
        return NotImplemented
    return x.alike(x.whole[:], view=True)


# -- the chosen elements in order


def _packed(x: MaskedArray, axis: int) -> MaskedArray:
    """The same elements, the chosen ones first."""
    size = x.mask.type.shape[0]
    whole = wrap(ops.take(x.whole.value, chosen_places(x.mask), axis=axis), scalar=False)
    count = lowering.broadcast(traced_count(x.mask), (size,))
    return masked_array(whole, ops.less(lowering.iota(I64, (size,), 0), count), axis)


@rule(selecting.sort)
def _sorted(function: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    x = first(args)
    if not is_lazy(x) or x.ndim != 1:
        return NotImplemented
    order = ops.argsort(x.whole.value, axis=0)
    mask = ops.take(x.mask, order, axis=0)
    return _packed(masked_array(wrap(ops.take(x.whole.value, order, axis=0), scalar=False), mask), 0)

