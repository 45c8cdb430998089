"""Elementwise ops that choose or convert: `select`, `convert`, `stop_gradient`, `relu`, and the extrema of two operands."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from adjit.ir.definition import Kind, OpCost, OpDefinition, Rounding, Sample, define
from adjit.ir.errors import DTypeError, ShapeError
from adjit.ir.graph import Attributes, Value
from adjit.ir.ops.arithmetic import multiply
from adjit.ir.ops.comparison import equal, greater, less, less_equal
from adjit.ir.ops.complex_numbers import real
from adjit.ir.ops.creation import full_like
from adjit.ir.ops.rules import ANY, FLOAT, require_same, same_as_operands
from adjit.ir.ops.sampling import FLOATS, INTEGERS, binary_samples, edge_pairs, edges, ends_of_integers, unary_samples, uniform
from adjit.ir.types import (
    BOOL,
    F16,
    F32,
    F64,
    I32,
    I64,
    SHORT_NAMES,
    U32,
    U64,
    TensorType,
    converts_at_once,
    is_complex,
    is_float,
    is_half,
    is_inexact,
)


def _infer_select(condition: TensorType, a: TensorType, b: TensorType) -> TensorType:
    require_same(a, b)
    if condition.dtype != BOOL:
        raise DTypeError(f"the condition has to be bool, got {condition}")
    if condition.shape != a.shape:
        raise ShapeError(f"operands of different shapes: condition {condition} and {a}")
    return a


def _select_vjp(ct: Value, operands: tuple[Value, ...], results: tuple[Value, ...], attrs: Attributes) -> tuple[Value | None, ...]:
    zero = full_like(ct, 0.0)
    return None, select(operands[0], ct, zero), select(operands[0], zero, ct)


def _select_samples() -> Iterator[Sample]:
    condition = np.array([[True, False, True], [False, False, True]])
    yield Sample((condition, uniform((2, 3)), uniform((2, 3), seed=1)), differentiable=(1, 2))
    yield Sample((np.array(True), uniform(()), uniform((), seed=1)), differentiable=(1, 2))
    yield Sample((np.zeros((0,), BOOL), uniform((0,)), uniform((0,))))
    for dtype in (F16, *FLOATS, *INTEGERS, BOOL):
        left, right = edge_pairs(dtype)
        yield Sample((np.arange(left.size).reshape(left.shape) % 3 == 0, left, right))


select: OpDefinition = define(
    "select", Kind.ELEMENTWISE, half=True, arity=3, numpy=np.where,
    doc="The second operand where the condition holds, else the third. The one that is not chosen gets cotangent 0.",
    infer=_infer_select, evaluate=np.where, scalar="select({0}, {1}, {2})", vjp=_select_vjp, samples=_select_samples,
    cost=OpCost.CHEAP, rounding=Rounding.NONE, same_alone=True)


def convert_array(x: np.ndarray, *, dtype: np.dtype) -> np.ndarray:
    """Array in another dtype. C, and so NumPy too, leaves the conversion of a float that does not fit an integer undefined. Here the result
    is the same on every machine: the one that NumPy computes for single elements on x86-64."""
    if not is_float(x.dtype) or dtype.kind not in "iu":
        return x.astype(dtype, copy=False)
    if dtype == U64:
        far = x >= 2.0**63
        near = _truncate(np.where(far, x - x.dtype.type(2.0**63), x), I64).astype(U64)
        return np.asarray(near ^ (far.astype(U64) << U64.type(63)))
    return _truncate(x, I64 if dtype in (I64, U32) else I32).astype(dtype, copy=False)


def _truncate(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Floats rounded toward zero as signed integers; floats that do not fit become the smallest integer."""
    limit = -x.dtype.type(np.iinfo(dtype).min)
    fits = np.abs(x) < limit
    return (x if fits.all() else np.where(fits, x, -limit)).astype(dtype)


def _infer_convert(x: TensorType, *, dtype: np.dtype) -> TensorType:
    if is_complex(x.dtype) and not is_complex(dtype):
        raise DTypeError(f"{x} cannot be converted to {dtype}", hint="take the real part first, or compare with 0")
    if not converts_at_once(x.dtype, dtype):
        raise DTypeError(f"{x} is converted to {dtype} through f32")
    return x.with_dtype(dtype)


def _convert_vjp(ct: Value, operands: tuple[Value, ...], results: tuple[Value, ...], attrs: Attributes) -> tuple[Value | None, ...]:
    source = operands[0].type.dtype
    if is_float(source) and is_complex(ct.type.dtype):
        part = real(ct)
        return (part if part.type.dtype == source else convert(part, dtype=source),)
    return (convert(ct, dtype=source) if is_inexact(source) else None,)


def _convert_samples() -> Iterator[Sample]:
    """Between NumPy's own dtypes: the samples are the same whether bfloat16 is loaded or not."""
    yield Sample((uniform((2, 3)),), {"dtype": F64}, differentiable=(0,))
    yield Sample((uniform((2, 3), dtype=F32),), {"dtype": F64})
    yield Sample((edges(F64),), {"dtype": F32})
    for target in SHORT_NAMES.values():
        if is_complex(target) or target.kind == "V":
            continue
        if is_half(target):
            yield from (Sample((edges(source),), {"dtype": target}) for source in FLOATS)
            yield Sample((edges(target),), {"dtype": F32})
            continue
        yield Sample((np.array([[0.0, 1.9, 2.5, 100.7]]),), {"dtype": target})
        for source in FLOATS:
            yield Sample((ends_of_integers(source),), {"dtype": target})
        for source in (*INTEGERS, BOOL):
            yield Sample((edges(source),), {"dtype": target})
        yield Sample((np.array(1, I32),), {"dtype": target})
        yield Sample((np.zeros((3, 0), I64),), {"dtype": target})


convert: OpDefinition = define(
    "convert", Kind.ELEMENTWISE, arity=1, attributes={"dtype": np.dtype},
    doc="The operand in another dtype, as `ndarray.astype` does it. A float is rounded toward 0 to i64 (for i64 and u32) or i32 (for "
        "shorter integers) and keeps the low bits; floats that do not fit, infinities and NaN become the smallest i64 or i32 first. For "
        "u64, 2^63 is subtracted from floats from 2^63 on, and added again. The cotangent is converted back, of a complex "
        "number the real part; integers and bools have none. Complex numbers are converted to complex numbers only.",
    infer=_infer_convert, evaluate=convert_array, scalar="convert({0})", vjp=_convert_vjp,
    samples=_convert_samples, cost=OpCost.MODERATE, rounding=Rounding.ONCE, same_alone=True)

_SAME_BITS = {F32: I32, F64: I64, I32: F32, I64: F64}


def _infer_bitcast(x: TensorType) -> TensorType:
    if x.dtype not in _SAME_BITS:
        raise DTypeError(f"bits are read of f32, f64, i32 and i64, got {x}", hint="convert the operand with .astype first")
    return x.with_dtype(_SAME_BITS[x.dtype])


def _bitcast_samples() -> Iterator[Sample]:
    for dtype in _SAME_BITS:
        yield Sample((edges(dtype),))
        yield Sample((np.ones((), dtype),))
        yield Sample((np.zeros((2, 0), dtype),))


bitcast: OpDefinition = define(
    "bitcast", Kind.ELEMENTWISE, arity=1, doc="The bits of a float as an integer of the same size, or the float that has the bits.",
    infer=_infer_bitcast, evaluate=lambda x: x.view(_SAME_BITS[x.dtype]).copy(), scalar="bitcast({0})", samples=_bitcast_samples,
    vjp=None, cost=OpCost.CHEAP, rounding=Rounding.NONE, same_alone=True)

stop_gradient: OpDefinition = define(
    "stop_gradient", Kind.ELEMENTWISE, half=True, arity=1,
    doc="The operand, as a constant for differentiation: its derivative counts as 0.",
    infer=same_as_operands(ANY), evaluate=lambda x: x, scalar="{0}", vjp=lambda ct, operands, results, attrs: (None,),
    samples=lambda: unary_samples(-2, 2, differentiable=False, others=(F16, *INTEGERS, BOOL)),
    cost=OpCost.MODERATE, rounding=Rounding.NONE, view=True)


def _relu_vjp(ct: Value, operands: tuple[Value, ...], results: tuple[Value, ...], attrs: Attributes) -> tuple[Value, ...]:
    """Written with the result, which the next layer saves anyway, so that the operand need not be saved."""
    zero = full_like(ct, 0.0)
    return (select(less_equal(results[0], zero), zero, ct),)


def _relu_samples() -> Iterator[Sample]:
    yield from unary_samples(0.5, 2, differentiable=True)
    yield from unary_samples(-2, -0.5, differentiable=True)


relu: OpDefinition = define(
    "relu", Kind.ELEMENTWISE, arity=1, doc="The larger of x and 0; NaN for NaN. Its derivative at 0 is 0.",
    infer=same_as_operands(FLOAT), evaluate=lambda x: np.maximum(x, x.dtype.type(0)), scalar="relu({0})", vjp=_relu_vjp,
    samples=_relu_samples, cost=OpCost.CHEAP, rounding=Rounding.NONE, same_alone=True)


# -- extrema of two operands

def _half(ct: Value) -> Value:
    return multiply(ct, full_like(ct, 0.5))


def _maximum_vjp(ct: Value, operands: tuple[Value, ...], results: tuple[Value, ...], attrs: Attributes) -> tuple[Value, ...]:
    a, b = operands
    return _share_cotangent(ct, greater(a, b), less(a, b))


def _minimum_vjp(ct: Value, operands: tuple[Value, ...], results: tuple[Value, ...], attrs: Attributes) -> tuple[Value, ...]:
    a, b = operands
    return _share_cotangent(ct, less(a, b), greater(a, b))


def _share_cotangent(ct: Value, first: Value, second: Value) -> tuple[Value, Value]:
    """Cotangents of the two operands: all for the chosen one, half for each if neither is chosen."""
    zero, half = full_like(ct, 0.0), _half(ct)
    return select(first, ct, select(second, zero, half)), select(second, ct, select(first, zero, half))


def _chosen_vjp(ct: Value, operands: tuple[Value, ...], results: tuple[Value, ...], attrs: Attributes) -> tuple[Value, ...]:
    a, b = operands
    zero, share = full_like(ct, 0.0), select(equal(a, b), _half(ct), ct)
    return select(equal(a, results[0]), share, zero), select(equal(b, results[0]), share, zero)


def _extremum_samples() -> Iterator[Sample]:
    yield from binary_samples(differentiable=True, others=(*INTEGERS, BOOL))


_TIES = "Operands that tie share the cotangent equally"
maximum, minimum = (
    define(name, Kind.ELEMENTWISE, arity=2, numpy=function, scalar=f"{name}({{0}}, {{1}})",
           doc=f"The {which} of two; NaN where one is NaN. {_TIES}, also where one is NaN.",
           infer=same_as_operands(ANY), evaluate=function, vjp=rule, samples=_extremum_samples,
           cost=OpCost.CHEAP, rounding=Rounding.NONE, same_alone=True)
    for name, function, which, rule in (
        ("maximum", np.maximum, "larger", _maximum_vjp), ("minimum", np.minimum, "smaller", _minimum_vjp)))

fmax, fmin = (
    define(name, Kind.ELEMENTWISE, arity=2, numpy=function, scalar=f"{name}({{0}}, {{1}})",
           doc=f"The {which} of two; the other where one is NaN. {_TIES}; a NaN gets 0.",
           infer=same_as_operands(ANY), evaluate=function, vjp=_chosen_vjp, samples=_extremum_samples,
           cost=OpCost.MODERATE, rounding=Rounding.NONE, same_alone=True)
    for name, function, which in (("fmax", np.fmax, "larger"), ("fmin", np.fmin, "smaller")))
