"""NumPy's functions of complex numbers and their parts; of reals, what NumPy says of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.graph import Value
from adjit.ir.types import BOOL, is_complex, is_float
from adjit.tracer import lowering
from adjit.tracer.array import TracedArray, as_traced, view_of, wrap
from adjit.tracer.dispatch import implements
from adjit.tracer.functions.ufuncs import LOWERINGS, elementwise
from adjit.tracer.lowering import convert
from adjit.tracer.registry import FUNCTIONS


def _conjugate(x: Value) -> Value:
    return ops.conj(x) if is_complex(x.type.dtype) else x


LOWERINGS[np.conjugate] = elementwise(np.conjugate, _conjugate)


def _part(x: TracedArray, name: str) -> TracedArray:
    """The part as a view, through which NumPy writes, too."""
    is_real = name == "real"

    def write(base: Value, part: Value) -> Value:
        return ops.complex(part, ops.imag(base)) if is_real else ops.complex(ops.real(base), part)

    return view_of(x, ops.real if is_real else ops.imag, write, tuple(2 * step for step in x.steps), name)


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
    return FUNCTIONS["astype"](ordered, np.result_type(ordered.dtype, np.complex64))        # type: ignore[no-any-return]
