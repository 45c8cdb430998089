"""Operators, ufuncs and lists of traced arrays and Python numbers, without the general call: a look-up of what the types decide, and an op.

A Python loop that is traced calls them by the ten thousand. What the general call (`elementwise` in `functions/ufuncs.py`) finds out anew
each time, dtypes, shape and class of the result, depends on the types of the operands alone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.builder import GraphBuilder
from adjit.ir.dataclass import dataclass
from adjit.ir.definition import OpDefinition
from adjit.ir.errors import AdjitError
from adjit.ir.graph import Value
from adjit.ir.thread_context import thread
from adjit.ir.types import TensorType, dtype_kind, is_float
from adjit.tracer.array import ORDINARY, PythonBool, TracedArray, class_of, wrap
from adjit.tracer.dispatch import with_layout
from adjit.tracer.lowering import broadcast, broadcast_shapes, constant, convert, reshape
from adjit.tracer.promotion import is_weak, resolve, shape_of, to_value
from adjit.tracer.registry import FUNCTIONS

LOWERINGS: dict[np.ufunc, Callable[..., Value]] = {}
"""Functions of values of the loop's dtypes and of one shape, by ufunc."""

COMPARISONS = frozenset({np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal})
"""Ufuncs that look at the value of a Python integer, which the dtype of the other operand may not hold."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """Dtypes of the operands, and the shape that they are brought to; the result. `operands` keeps the types, whose identity is the key.
    """

    operands: tuple[TensorType | None, ...]
    dtypes: tuple[np.dtype, ...]
    shape: tuple[int, ...]
    result: np.dtype
    made: Callable[..., TracedArray]
    weak: bool


_MAX_PLANS = 4096
_plans: dict[tuple[Any, ...], _Plan | None] = {}


def apply_directly(ufunc: np.ufunc, inputs: tuple[Any, ...], operator: bool) -> Any:
    """Apply a ufunc to traced arrays and Python numbers within a trace; NotImplemented for anything else, and for what raises an error.
    The result of an `operator` on weak arrays is weak."""
    context, lower = thread.context, LOWERINGS.get(ufunc)
    if lower is None or not context.scopes:
        return NotImplemented
    scope, builder = context.scopes[-1], context.emitters[-1]
    if type(builder) is not GraphBuilder:
        return NotImplemented
    values: list[Any] = []
    key: list[Any] = [ufunc, operator]
    in_order = True
    for x in inputs:
        kind = type(x)
        if kind in ORDINARY:
            value = x._value if x.alias is None and x.scope is scope else x.value
            key += (id(value.type), x.weak)
            values.append(value)
            if x._steps is not None or not x.layout_known:
                in_order = False
        elif kind is float or kind is int or kind is complex:
            key.append(kind)
            values.append(x)
        else:
            return NotImplemented
    try:
        plan = _plans[tuple(key)]
    except KeyError:
        plan = _remember(tuple(key), _plan(ufunc, inputs, operator))
    if plan is None:
        return NotImplemented
    shape = plan.shape
    for index, value in enumerate(values):
        dtype = plan.dtypes[index]
        if type(value) is Value:
            if value.type.shape != shape or value.type.dtype is not dtype:
                values[index] = broadcast(convert(value, dtype), shape)
        elif is_float(dtype) and type(value) is float and dtype.itemsize == 8:
            (values[index],) = builder.emit(ops.constant, (), {"value": value, "dtype": dtype, "shape": shape})
        else:
            values[index] = to_value(value, dtype, shape)
    if type(lower) is OpDefinition and not values[0].type.is_half:
        (result,) = builder.emit(lower, values, {})
    else:
        result = lower(*values)
    array = plan.made(convert(result, plan.result), scope, plan.weak)
    if plan.made is PythonBool:
        return FUNCTIONS["truth value"](array)
    return array if in_order else with_layout(array, inputs)


FUNCTIONS["directly"] = apply_directly


def _plan(ufunc: np.ufunc, inputs: tuple[Any, ...], operator: bool) -> _Plan | None:
    """Plan for such operands; None where the general call has to find out, or to raise an error."""
    traced = [x for x in inputs if isinstance(x, TracedArray)]
    if not traced or len(inputs) != ufunc.nin:
        return None
    if ufunc in COMPARISONS and any(type(x) is int for x in inputs) and traced[0].dtype.kind in "iu":
        return None
    try:
        dtypes = resolve(ufunc, inputs)
        shape = broadcast_shapes(*map(shape_of, inputs))
    except (AdjitError, ValueError):
        return None
    if any(isinstance(x, TracedArray) and x.weak and dtype.kind in "iu" and dtype != x.dtype
           for x, dtype in zip(inputs, dtypes, strict=False)):
        return None     # whether a number fits is a matter of its class
    weak = operator and dtype_kind(dtypes[-1]) in "ficb" and all(map(is_weak, inputs))
    operands = tuple(x._value.type if isinstance(x, TracedArray) else None for x in inputs)
    return _Plan(operands, dtypes[:ufunc.nin], shape, dtypes[-1], class_of(TensorType(dtypes[-1], shape), weak), weak)


def _remember(key: tuple[Any, ...], plan: _Plan | None) -> _Plan | None:
    if plan is not None:
        if len(_plans) >= _MAX_PLANS:
            _plans.clear()
        _plans[key] = plan
    return plan


def stack_directly(items: list[Any] | tuple[Any, ...]) -> Any:
    """Array of nested lists of traced scalars and Python numbers, or of a list of traced arrays of one shape: one concatenate, whatever the
    nesting. NotImplemented for anything else, and for what raises an error."""
    shape: tuple[int, ...] = (len(items),)
    leaves = items
    while leaves and type(leaves[0]) in _LISTS:
        size = len(leaves[0])
        if not all(type(leaf) in _LISTS and len(leaf) == size for leaf in leaves):
            return NotImplemented
        shape, leaves = (*shape, size), [leaf for row in leaves for leaf in row]
    kinds = set(map(type, leaves))
    numbers = kinds & _NUMBERS
    if not numbers | ORDINARY | STACKED >= kinds or numbers == kinds:
        return NotImplemented
    part = () if numbers else leaves[0]._value.type.shape
    dtypes: set[np.dtype] = set()       # in lists no number is weak
    for leaf in leaves:
        if type(leaf) in _NUMBERS:
            if type(leaf) is int and not -2**63 <= leaf < 2**63:
                return NotImplemented
            dtypes.add(_DTYPES[type(leaf)])
        elif leaf._value.type.shape != part or leaf._value.type.is_half or not (not part or leaf.in_order):
            return NotImplemented
        else:
            dtypes.add(leaf._value.type.dtype)
    dtype = _common_dtype(frozenset(dtypes))
    whole = (1, *part)
    pieces = [constant(leaf, dtype, whole) if type(leaf) in _NUMBERS else reshape(convert(leaf.value, dtype), whole) for leaf in leaves]
    joined = pieces[0] if len(pieces) == 1 else ops.concatenate(*pieces, axis=0)
    return wrap(reshape(joined, (*shape, *part)), scalar=False)


FUNCTIONS["stack directly"] = stack_directly

STACKED: set[type] = set()
"""Further classes of traced scalars that lists may hold: floats which are Python's or NumPy's."""

_LISTS = frozenset({list, tuple})
_NUMBERS = frozenset({float, int, complex, bool})
_DTYPES = {kind: np.dtype(kind) for kind in _NUMBERS}


@lru_cache(maxsize=1024)
def _common_dtype(dtypes: frozenset[np.dtype]) -> np.dtype:
    return np.result_type(*dtypes)
