"""NumPy's functions of complex numbers and their parts; of reals, what NumPy says of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.errors import ArgumentError
from adjit.ir.graph import Value
from adjit.ir.types import BOOL, C64, C128, is_complex, is_float
from adjit.tracer import lowering
from adjit.tracer.array import TracedArray, as_traced, view_of, wrap
from adjit.tracer.direct import LOWERINGS
from adjit.tracer.dispatch import implements
from adjit.tracer.functions.ufuncs import elementwise
from adjit.tracer.lowering import convert
from adjit.tracer.registry import FUNCTIONS
from adjit.tracer.user_location import find_user_location


def _conjugate(x: Value) -> Value:
    return ops.conj(x) if is_complex(x.type.dtype) else x


LOWERINGS[np.conjugate] = elementwise(np.conjugate, _conjugate)


def _part(x: TracedArray, name: str) -> TracedArray:
    """The part as a view, through which NumPy writes, too."""
    is_real = name == "real"

    def write(base: Value, part: Value) -> Value:
        return ops.complex(part, ops.imag(base)) if is_real else ops.complex(ops.real(base), part)

    return view_of(x, ops.real if is_real else ops.imag, write, tuple(2 * step for step in x.steps), name)


def pairs_view(x: TracedArray, dtype: np.dtype) -> TracedArray | None:
    """View complex numbers as pairs of reals along the last axis, or such pairs as complex numbers; None where the layout is unknown, or
    has no such strides. Raises `ArgumentError` where NumPy has no such view."""
    steps = x.steps
    if not x.layout_known:
        return None
    if not x.ndim:
        raise ArgumentError("Changing the dtype of a 0d array is only supported if the itemsize is unchanged", find_user_location())
    if steps[-1] != 1:
        raise ArgumentError("To change to a dtype of a different size, the last axis must be contiguous", find_user_location())
    x.scope.root.depends_on_strides = True
    if is_complex(x.dtype):
        return view_of(x, _as_pairs, lambda base, value: _as_complex(value), (*(2 * step for step in steps[:-1]), 1), ("view", dtype))
    if x.shape[-1] % 2:
        raise ArgumentError("When changing to a larger dtype, its size must be a divisor of the total size in bytes of the last axis of "
                            "the array.", find_user_location())
    if any(step % 2 for size, step in zip(x.shape[:-1], steps[:-1], strict=True) if size > 1):
        return None
    return view_of(x, _as_complex, lambda base, value: _as_pairs(value), (*(step // 2 for step in steps[:-1]), 1), ("view", dtype))


def _as_pairs(value: Value) -> Value:
    *outer, count = value.type.shape
    parts = [lowering.reshape(part, (*outer, count, 1)) for part in (ops.real(value), ops.imag(value))]
    return lowering.reshape(ops.concatenate(*parts, axis=len(outer) + 1), (*outer, 2 * count))


def _as_complex(pairs: Value) -> Value:
    *outer, count = pairs.type.shape
    split = lowering.reshape(pairs, (*outer, count // 2, 2))
    real, imaginary = (lowering.reshape(lowering.slice_axis(split, len(outer) + 1, k, k + 1), (*outer, count // 2)) for k in (0, 1))
    return ops.complex(real, imaginary)


FUNCTIONS["pairs view"] = pairs_view


@implements(np.real)
def real(val: Any) -> Any:
    """Equivalent of `numpy.real`: a view, of a real array the array itself."""
    x = as_traced(val)
    return _part(x, "real") if is_complex(x.dtype) else x


@implements(np.imag)
def imag(val: Any) -> Any:
    """Equivalent of `numpy.imag`: a view, of a real array zeros."""
    x = as_traced(val)
    if is_complex(x.dtype):
        return _part(x, "imag")
    return FUNCTIONS[np.zeros_like](x) if x.ndim else wrap(lowering.constant(0, x.dtype))


@implements(np.angle)
def angle(z: Any, deg: bool = False) -> TracedArray:
    """Equivalent of `numpy.angle`; its derivative is 0 at 0 and at infinity, as that of `arctan2`."""
    x = as_traced(z)
    if is_complex(x.dtype):
        part = ops.arctan2(ops.imag(x.value), ops.real(x.value))
    else:
        value = convert(x.value, x.dtype if is_float(x.dtype) else np.result_type(x.dtype, np.float16))
        part = ops.arctan2(lowering.constant(0.0, value.type.dtype, value.type.shape), value)
    result = wrap(part)
    return result * (180 / np.pi) if deg else result


@implements(np.real_if_close)
def real_if_close(a: Any, tol: float = 100) -> Any:
    """Equivalent of `numpy.real_if_close`: the parts' sizes decide, so that of a complex array a traced function follows both ways."""
    x = as_traced(a)
    if not is_complex(x.dtype):
        return x
    limit = tol * np.finfo(x.dtype).eps if tol > 1 else tol
    imaginary = wrap(ops.imag(x.value))
    return real(x) if bool(FUNCTIONS[np.all](FUNCTIONS[np.less](FUNCTIONS[np.absolute](imaginary), limit))) else x


def _has_imaginary(x: TracedArray) -> Value:
    part = ops.imag(x.value)
    return ops.not_equal(part, lowering.constant(0.0, part.type.dtype, part.type.shape))


@implements(np.iscomplex)
def iscomplex(x: Any) -> Any:
    """Equivalent of `numpy.iscomplex`: where the imaginary part is not 0."""
    x = as_traced(x)
    return wrap(_has_imaginary(x)) if is_complex(x.dtype) else FUNCTIONS[np.zeros_like](x, dtype=bool)


@implements(np.isreal)
def isreal(x: Any) -> Any:
    """Equivalent of `numpy.isreal`: where the imaginary part is 0."""
    x = as_traced(x)
    return wrap(ops.logical_not(_has_imaginary(x))) if is_complex(x.dtype) else FUNCTIONS[np.ones_like](x, dtype=BOOL)


@implements(np.iscomplexobj)
def iscomplexobj(x: Any) -> bool:
    """Equivalent of `numpy.iscomplexobj`."""
    return is_complex(as_traced(x).dtype)


@implements(np.isrealobj)
def isrealobj(x: Any) -> bool:
    """Equivalent of `numpy.isrealobj`."""
    return not is_complex(as_traced(x).dtype)


@implements(np.sort_complex)
def sort_complex(a: Any) -> TracedArray:
    """Equivalent of `numpy.sort_complex`."""
    ordered = FUNCTIONS[np.sort](as_traced(a))
    if ordered.dtype.kind == "c":
        return ordered      # type: ignore[no-any-return]
    return FUNCTIONS["astype"](ordered, C64 if ordered.dtype.char in "bBhH" else C128)       # type: ignore[no-any-return]
