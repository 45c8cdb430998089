"""Ops between complex numbers and their parts.

Derivative rules pair a cotangent with a tangent as Re(ct * t), without a conjugate: then the rule of a holomorphic op is the same formula
for complex numbers as for reals. `differentiate` conjugates the cotangents that enter a `vjp` op and those that leave it, so that users see
adjoints under Re(conj(ct) * t).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from adjit.ir.batching import emit_again
from adjit.ir.definition import Kind, OpCost, OpDefinition, Rounding, Sample, define
from adjit.ir.errors import ShapeError
from adjit.ir.graph import Value
from adjit.ir.ops.creation import full_like
from adjit.ir.ops.rules import COMPLEX, FLOAT, require, require_same, same_as_operands
from adjit.ir.ops.sampling import edge_pairs, edges, uniform
from adjit.ir.types import C64, C128, F32, F64, TensorType, complex_dtype, real_dtype


def to_part(x: TensorType) -> TensorType:
    """Type rule of the real and the imaginary part."""
    require(x, COMPLEX)
    return x.with_dtype(real_dtype(x.dtype))


def _infer_complex(real: TensorType, imag: TensorType) -> TensorType:
    require_same(real, imag)
    require(real, FLOAT)
    return real.with_dtype(complex_dtype(real.dtype))


def _evaluate_complex(real: np.ndarray, imag: np.ndarray) -> np.ndarray:
    """Written part by part: a sum with 1j times the imaginary part would turn an infinite part into NaN."""
    out = np.empty(real.shape, complex_dtype(real.dtype))
    out.real, out.imag = real, imag
    return out


def _samples() -> Iterator[Sample]:
    for dtype in (C64, C128):
        yield Sample((edges(dtype),))
        for shape in ((), (3, 5), (0, 2)):
            numbers = _evaluate_complex(uniform(shape), uniform(shape, seed=1)).astype(dtype)
            yield Sample((numbers,), differentiable=(0,) if dtype == C128 else ())


def _pair_samples() -> Iterator[Sample]:
    for dtype in (F32, F64):
        yield Sample(edge_pairs(dtype))
        for shape in ((), (3, 5), (0, 2)):
            pair = uniform(shape, dtype=dtype), uniform(shape, dtype=dtype, seed=1)
            yield Sample(pair, differentiable=(0, 1) if dtype == F64 else ())


complex: OpDefinition = define(
    "complex", Kind.ELEMENTWISE, arity=2, doc="The complex number with these real and imaginary parts.",
    infer=_infer_complex, evaluate=_evaluate_complex, scalar="complex({0}, {1})", samples=_pair_samples,
    cost=OpCost.CHEAP, rounding=Rounding.NONE, same_alone=True,
    vjp=lambda ct, operands, results, attrs: (real(ct), imag(conj(ct))))

real: OpDefinition = define(
    "real", Kind.ELEMENTWISE, arity=1, numpy=np.real, doc="The real part.",
    infer=to_part, evaluate=lambda x: x.real, scalar="real({0})", samples=_samples,
    cost=OpCost.CHEAP, rounding=Rounding.NONE, same_alone=True, view=True,
    vjp=lambda ct, operands, results, attrs: (complex(ct, full_like(ct, 0.0)),))

imag: OpDefinition = define(
    "imag", Kind.ELEMENTWISE, arity=1, numpy=np.imag, doc="The imaginary part.",
    infer=to_part, evaluate=lambda x: x.imag, scalar="imag({0})", samples=_samples,
    cost=OpCost.CHEAP, rounding=Rounding.NONE, same_alone=True, view=True,
    vjp=lambda ct, operands, results, attrs: (conj(complex(full_like(ct, 0.0), ct)),))

conj: OpDefinition = define(
    "conj", Kind.ELEMENTWISE, arity=1, numpy=np.conjugate, doc="The complex conjugate.",
    infer=same_as_operands(COMPLEX), evaluate=np.conjugate, scalar="conj({0})", samples=_samples,
    cost=OpCost.CHEAP, rounding=Rounding.NONE, same_alone=True, nonfinite=1,
    vjp=lambda ct, operands, results, attrs: (conj(ct),))


def parts_of(x: Value) -> tuple[Value, Value]:
    """Real and imaginary part of a complex value."""
    return real(x), imag(x)


# -- the same memory, as complex numbers or as pairs of reals


def _infer_view_as_real(x: TensorType) -> TensorType:
    require(x, COMPLEX)
    return TensorType(real_dtype(x.dtype), (*x.shape, 2))


def _infer_view_as_complex(x: TensorType) -> TensorType:
    require(x, FLOAT)
    if not x.shape or x.shape[-1] != 2:
        raise ShapeError(f"the last dimension has to be 2, real and imaginary part, got {x}")
    return TensorType(complex_dtype(x.dtype), x.shape[:-1])


def _evaluate_view_as_real(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x).view(real_dtype(x.dtype)).reshape(*x.shape, 2)


def _evaluate_view_as_complex(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x).view(complex_dtype(x.dtype)).reshape(x.shape[:-1])


def _view_samples() -> Iterator[Sample]:
    for dtype in (F32, F64):
        yield Sample((np.stack(edge_pairs(dtype), axis=-1),))
        for shape in ((2,), (3, 2), (0, 2)):
            yield Sample((uniform(shape, dtype=dtype),), differentiable=(0,) if dtype == F64 else ())


view_as_real: OpDefinition = define(
    "view_as_real", Kind.MOVEMENT, arity=1, doc="Real and imaginary parts, along a new last dimension.",
    infer=_infer_view_as_real, evaluate=_evaluate_view_as_real, samples=_samples, alias=True, view=True,
    batch=lambda op, operands, size: emit_again(op, operands),
    vjp=lambda ct, operands, results, attrs: (conj(view_as_complex(ct)),))

view_as_complex: OpDefinition = define(
    "view_as_complex", Kind.MOVEMENT, arity=1, doc="Complex numbers, whose parts lie along the last dimension.",
    infer=_infer_view_as_complex, evaluate=_evaluate_view_as_complex, samples=_view_samples, alias=True, view=True,
    batch=lambda op, operands, size: emit_again(op, operands),
    vjp=lambda ct, operands, results, attrs: (view_as_real(conj(ct)),))
