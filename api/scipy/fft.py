"""Transforms of `scipy.fft` for traced arrays and tensors; plain arrays outside of a trace go to SciPy's own.

    >>> import numpy as np
    >>> import adjit as aj
    >>> from adjit.scipy import fft
    >>> aj.grad(lambda x: np.sum(fft.dct(x, norm="ortho") ** 2))(np.array([1.0, 2.0, 3.0])).round(6)
    array([2., 4., 6.])

Fourier transforms are those of `numpy.fft`. Cosine and sine transforms are made of Fourier transforms of the same or twice the length
(Makhoul, "A fast cosine transform in one and two dimensions", 1980). `overwrite_x` and `workers` are accepted and do nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from adjit.ir.types import real_dtype
from adjit.scipy.mirror import mirrors, without_rule
from adjit.scipy.sliding import inexact
from adjit.tracer.array import as_traced
from adjit.tracer.functions.shapes import normalize_axis

_LINES = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
_GRIDS = {"fft2": (-2, -1), "ifft2": (-2, -1), "rfft2": (-2, -1), "irfft2": (-2, -1), "fftn": None, "ifftn": None, "rfftn": None,
          "irfftn": None}

__all__ = ["dct", "dctn", "dst", "dstn", "fftfreq", "fftshift", "idct", "idctn", "idst", "idstn", "ifftshift", "rfftfreq", *_LINES, *_GRIDS]


def _of_lines(name: str) -> Callable[..., Any]:
    transform = getattr(np.fft, name)

    def call(x: Any, n: int | None = None, axis: int = -1, norm: str | None = None, overwrite_x: bool = False, workers: int | None = None,
             *, plan: Any = None) -> Any:
        return transform(as_traced(x), n, axis, norm)

    return _named(call, name)


def _of_grids(name: str, default: tuple[int, ...] | None) -> Callable[..., Any]:
    transform = getattr(np.fft, name)

    def call(x: Any, s: Any = None, axes: Any = default, norm: str | None = None, overwrite_x: bool = False, workers: int | None = None,
             *, plan: Any = None) -> Any:
        x = as_traced(x)
        if s is not None and axes is None:
            axes = tuple(range(-len(s), 0))
        return transform(x, s, axes, norm)

    return _named(call, name)


def _named(call: Callable[..., Any], name: str) -> Callable[..., Any]:
    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"""Equivalent of `scipy.fft.{name}`.

    >>> import numpy as np
    >>> {name}(np.zeros((2, 4))).ndim
    2
    """
    return mirrors("fft")(call)


globals().update({name: _of_lines(name) for name in _LINES} | {name: _of_grids(name, axes) for name, axes in _GRIDS.items()})


@mirrors("fft")
def fftshift(x: Any, axes: Any = None) -> Any:
    """Equivalent of `scipy.fft.fftshift`.

    >>> import numpy as np
    >>> fftshift(np.array([0, 1, -2, -1]))
    array([-2, -1,  0,  1])
    """
    return np.fft.fftshift(as_traced(x), axes)


@mirrors("fft")
def ifftshift(x: Any, axes: Any = None) -> Any:
    """Equivalent of `scipy.fft.ifftshift`.

    >>> import numpy as np
    >>> ifftshift(np.array([-2, -1, 0, 1]))
    array([ 0,  1, -2, -1])
    """
    return np.fft.ifftshift(as_traced(x), axes)


@mirrors("fft")
def fftfreq(n: int, d: Any = 1.0, *, xp: Any = None, device: Any = None) -> Any:
    """Equivalent of `scipy.fft.fftfreq`; `d` may be traced.

    >>> fftfreq(4, 0.5)
    array([ 0. ,  0.5, -1. , -0.5])
    """
    return np.fft.fftfreq(n) / d


@mirrors("fft")
def rfftfreq(n: int, d: Any = 1.0, *, xp: Any = None, device: Any = None) -> Any:
    """Equivalent of `scipy.fft.rfftfreq`; `d` may be traced.

    >>> rfftfreq(4, 0.5)
    array([0. , 0.5, 1. ])
    """
    return np.fft.rfftfreq(n) / d


# -- cosine and sine transforms along the last axis, without factors


def _turned(size: int, dtype: np.dtype, sign: float) -> Any:
    return np.exp(sign * 0.5j * math.pi / size * np.arange(size)).astype(np.result_type(dtype, np.complex64))


def _cosine_1(x: Any) -> Any:
    if x.shape[-1] < 2:
        raise ValueError("zero-length arrays or one element: the transform of type 1 needs two")
    return np.fft.rfft(np.concatenate([x, x[..., -2:0:-1]], axis=-1)).real


def _cosine_2(x: Any) -> Any:
    ordered = np.concatenate([x[..., ::2], x[..., 1::2][..., ::-1]], axis=-1)
    return 2.0 * (np.fft.fft(ordered) * _turned(x.shape[-1], x.dtype, -1.0)).real


def _cosine_3(x: Any) -> Any:
    size = x.shape[-1]
    behind = np.concatenate([np.zeros_like(x[..., :1]), x[..., :0:-1]], axis=-1)
    ordered = size * np.fft.ifft((x - 1j * behind) * _turned(size, x.dtype, 1.0)).real
    half = (size + 1) // 2
    even, odd = ordered[..., :half], ordered[..., half:][..., ::-1]
    pairs = np.stack([even[..., :size - half], odd], axis=-1)
    found = np.reshape(pairs, (*x.shape[:-1], 2 * (size - half)))
    return np.concatenate([found, even[..., size - half:]], axis=-1)


def _cosine_4(x: Any) -> Any:
    size = x.shape[-1]
    shifted = np.fft.fft(x * _turned(size, x.dtype, -1.0), 2 * size)[..., :size]
    return 2.0 * (shifted * np.exp(-0.25j * math.pi / size * (2 * np.arange(size) + 1)).astype(shifted.dtype)).real


def _sine_1(x: Any) -> Any:
    zero = np.zeros_like(x[..., :1])
    return -np.fft.rfft(np.concatenate([zero, x, zero, -x[..., ::-1]], axis=-1)).imag[..., 1:-1]


def _signs(x: Any) -> Any:
    return np.where(np.arange(x.shape[-1]) % 2, -1.0, 1.0).astype(x.dtype)


_COSINES = {1: _cosine_1, 2: _cosine_2, 3: _cosine_3, 4: _cosine_4}
_SINES = {1: _sine_1, 2: lambda x: _cosine_2(x * _signs(x))[..., ::-1], 3: lambda x: _cosine_3(x[..., ::-1]) * _signs(x),
          4: lambda x: _cosine_4(x[..., ::-1]) * _signs(x)}
_INVERSES = {1: 1, 2: 3, 3: 2, 4: 4}
_ENDS = {True: {1: ((0, -1), (0, -1)), 2: ((), (0,)), 3: ((0,), ())}, False: {2: ((), (-1,)), 3: ((-1,), ())}}
"""Elements that orthogonal cosine (True) and sine transforms scale by sqrt(2) before, and by its inverse after."""


def _scaled(x: Any, places: tuple[int, ...], factor: float) -> Any:
    if not places:
        return x
    factors = np.ones(x.shape[-1], real_dtype(x.dtype))
    factors[list(places)] = factor
    return x * factors


def _transformed(x: Any, cosine: bool, kind: Any, n: Any, axis: int, norm: str | None, inverse: bool, orthogonalize: bool | None) -> Any:
    if kind not in (1, 2, 3, 4):
        raise ValueError(f"invalid type {kind}: there are 1, 2, 3 and 4")
    if norm not in (None, "backward", "ortho", "forward"):
        raise ValueError(f'Invalid norm value {norm!r}, should be "backward", "ortho" or "forward"')
    (x,) = inexact(x)
    if x.dtype.kind == "c":
        parts = [_transformed(part, cosine, kind, n, axis, norm, inverse, orthogonalize) for part in (x.real, x.imag)]
        return parts[0] + 1j * parts[1]
    axis = normalize_axis(axis, x.ndim)
    x = np.moveaxis(x, axis, -1)
    size = x.shape[-1] if n is None else int(n)
    if size < 1:
        raise ValueError(f"invalid number of data points ({size}) specified")
    x = np.pad(x[..., :size], [(0, 0)] * (x.ndim - 1) + [(0, max(size - x.shape[-1], 0))])
    kind = _INVERSES[kind] if inverse else kind
    orthogonal = norm == "ortho" if orthogonalize is None else orthogonalize
    before, after = _ENDS[cosine].get(kind, ((), ())) if orthogonal else ((), ())
    found = (_COSINES if cosine else _SINES)[kind](_scaled(x, before, math.sqrt(2.0)))
    period = 2.0 * (size + ((-1 if cosine else 1) if kind == 1 else 0))
    whole = (norm == "forward") != inverse
    factor = 1.0 / math.sqrt(period) if norm == "ortho" else 1.0 / period if whole else 1.0
    found = _scaled(found, after, math.sqrt(0.5))
    return np.moveaxis(found if factor == 1.0 else found * factor, -1, axis)


def _axes(x: Any, s: Any, axes: Any) -> list[tuple[int, Any]]:
    ndim = as_traced(x).ndim
    if axes is None:
        axes = range(ndim) if s is None else range(ndim - len(np.atleast_1d(s)), ndim)
    places = [normalize_axis(axis, ndim) for axis in np.atleast_1d(np.asarray(axes)).tolist()]
    sizes = [None] * len(places) if s is None else np.atleast_1d(np.asarray(s)).tolist()
    if len(sizes) != len(places):
        raise ValueError("when given, axes and shape arguments have to be of the same length")
    return list(zip(places, sizes, strict=True))


@mirrors("fft")
def dct(x: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None, overwrite_x: bool = False,
        workers: int | None = None, orthogonalize: bool | None = None) -> Any:
    """Equivalent of `scipy.fft.dct`: the cosine transform, of types 1 to 4.

    >>> import numpy as np
    >>> dct(np.array([1.0, 2.0])).round(6)
    array([ 6.      , -1.414214])
    """
    return _transformed(x, True, type, n, axis, norm, False, orthogonalize)


@mirrors("fft")
def idct(x: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None, overwrite_x: bool = False,
         workers: int | None = None, orthogonalize: bool | None = None) -> Any:
    """Equivalent of `scipy.fft.idct`: the inverse of `dct`.

    >>> import numpy as np
    >>> idct(dct(np.array([1.0, 2.0]))).round(6)
    array([1., 2.])
    """
    return _transformed(x, True, type, n, axis, norm, True, orthogonalize)


@mirrors("fft")
def dst(x: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None, overwrite_x: bool = False,
        workers: int | None = None, orthogonalize: bool | None = None) -> Any:
    """Equivalent of `scipy.fft.dst`: the sine transform, of types 1 to 4.

    >>> import numpy as np
    >>> dst(np.array([1.0, 2.0])).round(6)
    array([ 4.242641, -2.      ])
    """
    return _transformed(x, False, type, n, axis, norm, False, orthogonalize)


@mirrors("fft")
def idst(x: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None, overwrite_x: bool = False,
         workers: int | None = None, orthogonalize: bool | None = None) -> Any:
    """Equivalent of `scipy.fft.idst`: the inverse of `dst`.

    >>> import numpy as np
    >>> idst(dst(np.array([1.0, 2.0]))).round(6)
    array([1., 2.])
    """
    return _transformed(x, False, type, n, axis, norm, True, orthogonalize)


def _of_axes(name: str, cosine: bool, inverse: bool) -> Callable[..., Any]:
    def call(x: Any, type: int = 2, s: Any = None, axes: Any = None, norm: str | None = None, overwrite_x: bool = False,
             workers: int | None = None, orthogonalize: bool | None = None) -> Any:
        for axis, size in _axes(x, s, axes):
            x = _transformed(x, cosine, type, size, axis, norm, inverse, orthogonalize)
        return x

    return _named(call, name)


dctn, idctn, dstn, idstn = (_of_axes(name, "c" in name, name[0] == "i") for name in ("dctn", "idctn", "dstn", "idstn"))

_others = without_rule("fft", __all__)


def __getattr__(name: str) -> Any:
    """Return what else SciPy's module has under this name, for plain arrays."""
    return _others(name)
