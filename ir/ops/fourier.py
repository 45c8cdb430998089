"""Discrete Fourier transforms along one axis, not normalised, which NumPy's PocketFFT computes.

A transform is linear and its matrix symmetric, so its derivative rule is the transform in the same direction. Of the transforms of reals,
one half of the spectrum stands for both: elements that stand for two count twice.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from adjit.ir.definition import Kind, OpDefinition, Sample, define
from adjit.ir.errors import ShapeError
from adjit.ir.graph import Value
from adjit.ir.ops.arithmetic import multiply
from adjit.ir.ops.comparison import equal
from adjit.ir.ops.complex_numbers import complex, conj, imag, real
from adjit.ir.ops.creation import full_like, iota
from adjit.ir.ops.rules import COMPLEX, FLOAT, require, require_axis
from adjit.ir.ops.sampling import uniform
from adjit.ir.ops.selection import select
from adjit.ir.types import C64, C128, F32, I64, TensorType, complex_dtype, real_dtype

POCKETFFT = "numpy.fft._pocketfft_umath"


def _require_line(axis: int, x: TensorType) -> None:
    require_axis(axis, x)
    if not x.shape[axis]:
        raise ShapeError(f"a transform needs at least one element, axis {axis} of {x} has none")


def _with_length(x: TensorType, dtype: np.dtype, axis: int, length: int) -> TensorType:
    return TensorType(dtype, (*x.shape[:axis], length, *x.shape[axis + 1:]))


def _infer_fft(x: TensorType, *, axis: int, inverse: bool) -> TensorType:
    require(x, COMPLEX)
    _require_line(axis, x)
    return x


def _evaluate_fft(x: np.ndarray, *, axis: int, inverse: bool) -> np.ndarray:
    return np.fft.ifft(x, axis=axis, norm="forward") if inverse else np.fft.fft(x, axis=axis)


def _complex_numbers(shape: tuple[int, ...], dtype: np.dtype = C128) -> np.ndarray:
    return (uniform(shape) + 1j * uniform(shape, seed=1)).astype(dtype)


def _fft_samples() -> Iterator[Sample]:
    for shape, axis in (((8,), 0), ((2, 5, 3), 1), ((7, 4), 0), ((3, 6), 1), ((1,), 0), ((0, 3), 1)):
        for inverse in (False, True):
            yield Sample((_complex_numbers(shape),), {"axis": axis, "inverse": inverse}, differentiable=(0,))
    yield Sample((_complex_numbers((4, 9), C64),), {"axis": 1, "inverse": False})


fft: OpDefinition = define(
    "fft", Kind.SCAN, arity=1, attributes={"axis": int, "inverse": bool}, external=(POCKETFFT, "fft"),
    doc="The discrete Fourier transform along `axis`, sum(x[j] exp(-2πi jk/n)); with a positive exponent where `inverse`. Not normalised.",
    infer=_infer_fft, evaluate=_evaluate_fft, samples=_fft_samples,
    vjp=lambda ct, operands, results, attrs: (fft(ct, **attrs),))


def _scaled_inside(x: Value, axis: int, length: int, factor: float) -> Value:
    """Half a spectrum of `length` numbers, with the elements scaled that stand for two."""
    index = iota(dtype=I64, shape=x.type.shape, axis=axis)
    alone = equal(index, full_like(index, 0))
    if length % 2 == 0:
        last = equal(index, full_like(index, length // 2))
        alone = select(last, last, alone)
    parts = (select(alone, part, multiply(part, full_like(part, factor))) for part in (real(x), imag(x)))
    return complex(*parts)


def _infer_rfft(x: TensorType, *, axis: int) -> TensorType:
    require(x, FLOAT)
    _require_line(axis, x)
    return _with_length(x, complex_dtype(x.dtype), axis, x.shape[axis] // 2 + 1)


def _rfft_samples() -> Iterator[Sample]:
    for shape, axis in (((8,), 0), ((2, 5, 3), 1), ((7, 4), 0), ((3, 6), 1), ((2,), 0), ((1,), 0), ((0, 3), 1)):
        yield Sample((uniform(shape),), {"axis": axis}, differentiable=(0,))
    yield Sample((uniform((4, 9), dtype=F32),), {"axis": 1})


rfft: OpDefinition = define(
    "rfft", Kind.SCAN, arity=1, attributes={"axis": int}, external=(POCKETFFT, "rfft"),
    doc="The first n // 2 + 1 elements of the discrete Fourier transform of real numbers along `axis`. Not normalised.",
    infer=_infer_rfft, evaluate=lambda x, *, axis: np.fft.rfft(x, axis=axis), samples=_rfft_samples,
    vjp=lambda ct, operands, results, attrs: (
        irfft(conj(_scaled_inside(ct, attrs["axis"], operands[0].type.shape[attrs["axis"]], 0.5)),
              axis=attrs["axis"], length=operands[0].type.shape[attrs["axis"]]),))


def _infer_irfft(x: TensorType, *, axis: int, length: int) -> TensorType:
    require(x, COMPLEX)
    _require_line(axis, x)
    if length < 1 or x.shape[axis] != length // 2 + 1:
        raise ShapeError(f"{length} real numbers have a spectrum of {length // 2 + 1} elements, axis {axis} of {x} has {x.shape[axis]}")
    return _with_length(x, real_dtype(x.dtype), axis, length)


def _irfft_samples() -> Iterator[Sample]:
    for shape, axis, length in (((5,), 0, 8), ((2, 3, 3), 1, 5), ((4, 4), 0, 7), ((3, 4), 1, 6), ((2,), 0, 2), ((1,), 0, 1),
                                ((0, 3), 1, 4)):
        yield Sample((_complex_numbers(shape),), {"axis": axis, "length": length}, differentiable=(0,))
    yield Sample((_complex_numbers((4, 5), C64),), {"axis": 1, "length": 9})


irfft: OpDefinition = define(
    "irfft", Kind.SCAN, arity=1, attributes={"axis": int, "length": int}, external=(POCKETFFT, "irfft"),
    doc="The `length` real numbers along `axis` whose spectrum begins with the operand: the transform with a positive exponent. Imaginary "
        "parts of the first element, and of the last one of an even length, are not read. Not normalised.",
    infer=_infer_irfft, evaluate=lambda x, *, axis, length: np.fft.irfft(x, length, axis, norm="forward"), samples=_irfft_samples,
    vjp=lambda ct, operands, results, attrs: (
        conj(_scaled_inside(rfft(ct, axis=attrs["axis"]), attrs["axis"], attrs["length"], 2.0)),))
