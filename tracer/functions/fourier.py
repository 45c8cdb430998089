"""NumPy's Fourier transforms: transforms along one axis from ops, those along several axes from them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.errors import ShapeError
from adjit.ir.graph import Value
from adjit.ir.types import F32, F64, complex_dtype, is_complex, is_inexact
from adjit.tracer import lowering
from adjit.tracer.array import TracedArray, as_traced, wrap
from adjit.tracer.dispatch import implements
from adjit.tracer.functions.joining import roll
from adjit.tracer.functions.shapes import normalize_axis
from adjit.tracer.registry import FUNCTIONS
from adjit.tracer.user_location import find_user_location

SWAPPED = {None: "forward", "backward": "forward", "ortho": "ortho", "forward": "backward"}
"""Normalisation of the transform in the other direction."""


def _inexact(x: Any) -> Value:
    """The value as floats or complex numbers: others become float64."""
    value = as_traced(x).value
    return value if is_inexact(value.type.dtype) else lowering.convert(value, F64)


def _complex(x: Any) -> Value:
    value = _inexact(x)
    return value if is_complex(value.type.dtype) else lowering.convert(value, complex_dtype(value.type.dtype))


def _line(x: Value, n: Any, axis: Any) -> tuple[int, int]:
    """Number of elements to transform, and the axis counted from 0."""
    if not x.type.rank:
        raise ShapeError("a transform needs an array of one dimension or more, got a scalar", find_user_location())
    number = normalize_axis(axis, x.type.rank)
    count = x.type.shape[number] if n is None else operator.index(n)
    if count < 1:
        raise ShapeError(f"Invalid number of FFT data points ({count}) specified.", find_user_location())
    return count, number


def _fitted(x: Value, count: int, axis: int) -> Value:
    """The first `count` elements along an axis, with zeros behind if there are fewer."""
    rank, size = x.type.rank, x.type.shape[axis]
    if size >= count:
        return lowering.slice_axis(x, axis, 0, count)
    high = tuple(count - size if each == axis else 0 for each in range(rank))
    return ops.pad(x, low=(0,) * rank, high=high, interior=(0,) * rank, value=0.0)


def _normalized(x: Value, count: int, norm: str | None, inverse: bool) -> Value:
    """The transform of `count` elements times the factor of a normalisation."""
    if norm not in SWAPPED:
        raise ValueError(f'Invalid norm value {norm}; should be "backward","ortho" or "forward".')
    if inverse:
        norm = SWAPPED[norm]
    if norm in (None, "backward"):
        return x
    dtype = F32 if x.type.dtype.itemsize == (8 if is_complex(x.type.dtype) else 4) else F64
    factor = np.reciprocal(np.sqrt(count, dtype=dtype) if norm == "ortho" else count, dtype=dtype).item()
    parts = (ops.real(x), ops.imag(x)) if is_complex(x.type.dtype) else (x,)
    scaled = [ops.multiply(part, ops.full_like(part, factor)) for part in parts]
    return ops.complex(*scaled) if len(scaled) > 1 else scaled[0]


def _result(value: Value, out: Any) -> Any:
    if out is None:
        return wrap(value)
    if np.shape(out) != value.type.shape:
        raise ValueError("output array has wrong shape.")
    FUNCTIONS[np.copyto](out, wrap(value))
    return out


def _fft(x: Any, n: Any, axis: Any, norm: str | None, inverse: bool) -> Value:
    value = _complex(x)
    count, axis = _line(value, n, axis)
    return _normalized(ops.fft(_fitted(value, count, axis), axis=axis, inverse=inverse), count, norm, inverse)


def _rfft(x: Any, n: Any, axis: Any, norm: str | None) -> Value:
    value = _inexact(x)
    if is_complex(value.type.dtype):
        raise TypeError(f"a transform of real numbers was asked for, of an array of {value.type.dtype}")
    count, axis = _line(value, n, axis)
    return _normalized(ops.rfft(_fitted(value, count, axis), axis=axis), count, norm, inverse=False)


def _irfft(x: Any, n: Any, axis: Any, norm: str | None) -> Value:
    value = _complex(x)
    _, axis = _line(value, None, axis)
    count, axis = _line(value, 2 * (value.type.shape[axis] - 1) if n is None else n, axis)
    return _normalized(ops.irfft(_fitted(value, count // 2 + 1, axis), axis=axis, length=count), count, norm, inverse=True)


@implements(np.fft.fft)
def fft(a: Any, n: Any = None, axis: int = -1, norm: str | None = None, out: Any = None) -> Any:
    """Equivalent of `numpy.fft.fft`."""
    return _result(_fft(a, n, axis, norm, inverse=False), out)


@implements(np.fft.ifft)
def ifft(a: Any, n: Any = None, axis: int = -1, norm: str | None = None, out: Any = None) -> Any:
    """Equivalent of `numpy.fft.ifft`."""
    return _result(_fft(a, n, axis, norm, inverse=True), out)


@implements(np.fft.rfft)
def rfft(a: Any, n: Any = None, axis: int = -1, norm: str | None = None, out: Any = None) -> Any:
    """Equivalent of `numpy.fft.rfft`."""
    return _result(_rfft(a, n, axis, norm), out)


@implements(np.fft.irfft)
def irfft(a: Any, n: Any = None, axis: int = -1, norm: str | None = None, out: Any = None) -> Any:
    """Equivalent of `numpy.fft.irfft`. Imaginary parts that real numbers cannot have are not read, and have the derivative 0."""
    return _result(_irfft(a, n, axis, norm), out)


@implements(np.fft.hfft)
def hfft(a: Any, n: Any = None, axis: int = -1, norm: str | None = None, out: Any = None) -> Any:
    """Equivalent of `numpy.fft.hfft`: the transform of numbers with Hermitian symmetry."""
    value = _complex(a)
    return _result(_irfft(wrap(ops.conj(value)), n, axis, SWAPPED.get(norm, norm)), out)


@implements(np.fft.ihfft)
def ihfft(a: Any, n: Any = None, axis: int = -1, norm: str | None = None, out: Any = None) -> Any:
    """Equivalent of `numpy.fft.ihfft`."""
    return _result(ops.conj(_rfft(a, n, axis, SWAPPED.get(norm, norm))), out)


# -- along several axes


def _lengths(x: TracedArray, s: Any, axes: Any, of_half: bool = False) -> tuple[list[int], list[int]]:
    """Numbers of elements and axes of a transform; those of the result where the last axis has half a spectrum."""
    if s is not None:
        s = [operator.index(each) for each in s]
    if axes is None:
        axes = range(-len(s), 0) if s is not None else range(x.ndim)
    axes = [normalize_axis(axis, x.ndim) for axis in axes]
    if s is None:
        s = [x.shape[axis] for axis in axes]
        if of_half and axes:
            s[-1] = 2 * (s[-1] - 1)
    if len(s) != len(axes):
        raise ValueError("Shape and axes have different lengths.")
    return [x.shape[axis] if count == -1 else count for count, axis in zip(s, axes, strict=True)], axes


def _along(x: TracedArray, lengths: Sequence[int], axes: Sequence[int], norm: str | None, inverse: bool) -> TracedArray:
    """The transform along axes, the last one first."""
    for count, axis in reversed(list(zip(lengths, axes, strict=True))):
        x = wrap(_fft(x, count, axis, norm, inverse))
    return x


def _nd(x: Any, s: Any, axes: Any, norm: str | None, out: Any, inverse: bool) -> Any:
    array = as_traced(x)
    lengths, found = _lengths(array, s, axes)
    return _result(_along(wrap(_complex(array)) if not found else array, lengths, found, norm, inverse).value, out)


@implements(np.fft.fftn)
def fftn(a: Any, s: Any = None, axes: Any = None, norm: str | None = None, out: Any = None) -> Any:
    """Equivalent of `numpy.fft.fftn`."""
    return _nd(a, s, axes, norm, out, inverse=False)


@implements(np.fft.ifftn)
def ifftn(a: Any, s: Any = None, axes: Any = None, norm: str | None = None, out: Any = None) -> Any:
    """Equivalent of `numpy.fft.ifftn`."""
    return _nd(a, s, axes, norm, out, inverse=True)


@implements(np.fft.fft2)
def fft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: str | None = None, out: Any = None) -> Any:
    """Equivalent of `numpy.fft.fft2`."""
    return _nd(a, s, axes, norm, out, inverse=False)


@implements(np.fft.ifft2)
def ifft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: str | None = None, out: Any = None) -> Any:
    """Equivalent of `numpy.fft.ifft2`."""
    return _nd(a, s, axes, norm, out, inverse=True)


@implements(np.fft.rfftn)
def rfftn(a: Any, s: Any = None, axes: Any = None, norm: str | None = None, out: Any = None) -> Any:
    """Equivalent of `numpy.fft.rfftn`: half a spectrum along the last of the axes."""
    x = as_traced(a)
    lengths, found = _lengths(x, s, axes)
    half = wrap(_rfft(x, lengths[-1], found[-1], norm))
    return _result(_along(half, lengths[:-1], found[:-1], norm, inverse=False).value, out)


@implements(np.fft.irfftn)
def irfftn(a: Any, s: Any = None, axes: Any = None, norm: str | None = None, out: Any = None) -> Any:
    """Equivalent of `numpy.fft.irfftn`."""
    x = as_traced(a)
    lengths, found = _lengths(x, s, axes, of_half=True)
    for count, axis in zip(lengths[:-1], found[:-1], strict=True):
        x = wrap(_fft(x, count, axis, norm, inverse=True))
    return _result(_irfft(x, lengths[-1], found[-1], norm), out)


@implements(np.fft.rfft2)
def rfft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: str | None = None, out: Any = None) -> Any:
    """Equivalent of `numpy.fft.rfft2`."""
    return rfftn(a, s, axes, norm, out)


@implements(np.fft.irfft2)
def irfft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: str | None = None, out: Any = None) -> Any:
    """Equivalent of `numpy.fft.irfft2`."""
    return irfftn(a, s, axes, norm, out)


# -- order of frequencies


def _shift(forward: bool) -> Callable[..., Any]:
    def shift(x: Any, axes: Any = None) -> Any:
        array = as_traced(x)
        chosen = tuple(range(array.ndim)) if axes is None else (axes,) if isinstance(axes, (int, np.integer)) else tuple(axes)
        shifts = [array.shape[normalize_axis(axis, array.ndim)] // 2 for axis in chosen]
        return roll(array, shifts if forward else [-each for each in shifts], chosen)
    return shift


fftshift = implements(np.fft.fftshift)(_shift(forward=True))
ifftshift = implements(np.fft.ifftshift)(_shift(forward=False))
