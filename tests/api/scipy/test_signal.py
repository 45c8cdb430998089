"""`adjit.scipy.signal`: SciPy's values and dtypes, derivatives of two orders, tensors, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.each import for_each, parametrize_within
from support.scipy_cases import Case, check_derivatives, check_float32, check_mapped, check_tensors, check_values, some

import adjit as aj
from adjit.errors import ShapeError, UnsupportedError

theirs = pytest.importorskip("scipy.signal")
from adjit.scipy import signal  # noqa: E402

RANDOM = np.random.default_rng(5)
LONG, SHORT, MORE = RANDOM.normal(size=14), RANDOM.normal(size=5), RANDOM.normal(size=(3, 9))
IMAGE, KERNEL, EVEN = RANDOM.normal(size=(6, 7)), RANDOM.normal(size=(3, 2)), RANDOM.normal(size=(4, 3))
CUBE = RANDOM.normal(size=(3, 4, 5))
COMPLEX = RANDOM.normal(size=11) + 1j * RANDOM.normal(size=11)
B, A = theirs.butter(3, 0.3)
SOS = theirs.butter(4, 0.3, output="sos")
WHOLE = RANDOM.integers(-5, 6, 9)

MODES = ("full", "same", "valid")
CASES: dict[str, Case] = {
    **{f"{name} {mode}": (lambda s, name=name, mode=mode: lambda x, y, i, k, e: [
        getattr(s, name)(x, y, mode), getattr(s, name)(y, x, mode), getattr(s, name)(i, k, mode), getattr(s, name)(i, e, mode),
        getattr(s, name)(i.T, k, mode)], (LONG, SHORT, IMAGE, KERNEL, EVEN))
       for name in ("convolve", "correlate", "fftconvolve", "oaconvolve") for mode in MODES},
    "convolve by method": (lambda s: lambda x, y: [s.convolve(x, y, method="fft"), s.convolve(x, y, method="direct"),
                                                   s.correlate(x, y, "same", "fft")], (LONG, SHORT)),
    "convolve cubes": (lambda s: lambda x, y: [s.convolve(x, y[:2, :2, :2]), s.correlate(x, y[:2, :3, :1], "same")], (CUBE, CUBE)),
    "fftconvolve along axes": (lambda s: lambda x, y: [s.fftconvolve(x, y[None, :3], axes=1), s.fftconvolve(x, x[:1], "same", axes=-1),
                                                       s.oaconvolve(x, y[None, :3], axes=1)], (MORE, SHORT)),
    "oaconvolve of blocks": (lambda s: lambda x, y: [s.oaconvolve(x, y), s.oaconvolve(x, y, "same"), s.oaconvolve(y, x)],
                             (RANDOM.normal(size=150), SHORT)),
    **{f"{name} {boundary}": (lambda s, name=name, boundary=boundary: lambda x, y, e: [
        getattr(s, name)(x, k, mode, boundary, 0.5) for mode in MODES for k in (y, e, y.T)] + [getattr(s, name)(y, x, "valid")],
        (IMAGE, KERNEL, EVEN)) for name in ("convolve2d", "correlate2d") for boundary in ("fill", "wrap", "symm")},
    "lfilter": (lambda s: lambda b, a, x: [s.lfilter(b, a, x), s.lfilter(b, a, x[:, :1]), s.lfilter(b, a, x, axis=0)], (B, A, MORE)),
    "lfilter scaled": (lambda s: lambda b, a, x: [s.lfilter(b[:2], 2 * a, x), s.lfilter(b, 2 * a[:2], x)], (B, A, LONG)),
    "lfilter with zi": (lambda s: lambda b, a, x, z: [*s.lfilter(b, a, x, zi=z), *s.lfilter(b, a, x[0], zi=z[0]),
                                                      *s.lfilter(b, a, x.T, axis=0, zi=z[:1].T)], (B, A, MORE, RANDOM.normal(size=(3, 3)))),
    "lfilter of one coefficient": (lambda s: lambda b, a, x, z: [s.lfilter(b, a[:1] * 2, x), *s.lfilter(b, a[:1], x, 0, z),
                                                                 s.lfilter(b[:1], a[:1] * 2, x)], (B, A, MORE, RANDOM.normal(size=(3, 9)))),
    "lfilter_zi": (lambda s: lambda b, a: [s.lfilter_zi(b, a), s.lfilter_zi(b, 2 * a[:2]), s.lfilter_zi(b[:1], a)], (B, A)),
    "sosfilt": (lambda s: lambda c, x: [s.sosfilt(c, x), s.sosfilt(c, x[0]), s.sosfilt(c, x, axis=0)], (SOS, MORE)),
    "sosfilt with zi": (lambda s: lambda c, x, z: [*s.sosfilt(c, x, zi=z), *s.sosfilt(c, x.T, axis=0, zi=z.swapaxes(1, 2))],
                        (SOS, MORE, RANDOM.normal(size=(2, 3, 2)))),
    "sosfilt_zi": (lambda s: lambda c: s.sosfilt_zi(c), (SOS,)),
    **{f"filtfilt {pad}": (lambda s, pad=pad: lambda b, a, x: [s.filtfilt(b, a, x, padtype=pad), s.filtfilt(b, a, x[:, None], 0, pad, 3)],
                           (B, A, LONG)) for pad in ("odd", "even", "constant", None)},
    "sosfiltfilt": (lambda s: lambda x: [s.sosfiltfilt(SOS[1:], x), s.sosfiltfilt(SOS, x, padlen=4)], (LONG,)),
    "detrend": (lambda s: lambda x: [s.detrend(x), s.detrend(x, 0, "constant"), s.detrend(x, bp=4), s.detrend(x, 1, bp=[2, 6])], (MORE,)),
    **{f"savgol_filter {mode}": (lambda s, mode=mode: lambda x, y: [
        s.savgol_filter(x, 5, 2, mode=mode), s.savgol_filter(y, 5, 3, 1, 0.5, mode=mode),
        s.savgol_filter(x[:, None], 7, 2, 2, axis=0, mode=mode)],
        (LONG, MORE)) for mode in ("interp", "mirror", "nearest", "wrap", "constant")},
    "ranks": (lambda s: lambda x, y: [s.medfilt(x), s.medfilt(y, (3, 5)), s.medfilt2d(y, 3), s.order_filter(y, np.eye(3), 2)],
              (LONG, MORE)),
    "hilbert": (lambda s: lambda x, y: [s.hilbert(x), s.hilbert(y, axis=0), s.hilbert(x, 8), s.hilbert(x, 30)], (LONG, MORE)),
}
OF_OTHER_DTYPES: dict[str, Case] = {
    "whole numbers": (lambda s: lambda x, i: [s.convolve(x, x[:3]), s.correlate(x, x[:2], "same"), s.convolve2d(i, i[:2, :2]),
                                              s.fftconvolve(x, x[:3]), s.convolve(i, i[:2, :2], "valid")], (WHOLE, WHOLE.reshape(3, 3))),
    "complex numbers": (lambda s: lambda x, y: [s.convolve(x, y), s.correlate(y, x), s.correlate(x, x[:3], "valid"),
                                                s.correlate2d(x[None, :2], x[None], "valid"),
                                                s.correlate2d(x[None], x[None, ::-1]), s.lfilter(B, A, x),
                                                s.fftconvolve(x, y, "same"), s.correlate(x, y, method="fft")], (COMPLEX, LONG)),
    "empty": (lambda s: lambda x: [s.lfilter(B, A, x), s.fftconvolve(x[0], x[0])], (np.zeros((2, 0)),)),
    "no dimensions": (lambda s: lambda x: [s.convolve(x, x), s.correlate(x, x)], (np.array(3.0),)),
    "strided": (lambda s: lambda x: [s.lfilter(B, A, x[::-2]), s.convolve(x[::3], x[1::4]), s.detrend(x[::-1])], (LONG,)),
    "float32": (lambda s: lambda x, i: [s.convolve(x, x[:3]), s.fftconvolve(x, x[:3]), s.convolve2d(i, i[:2]), s.hilbert(x), s.detrend(x),
                                        s.savgol_filter(x, 5, 2), s.lfilter(np.float32([1, 2]), np.float32([1, 0.5]), x)],
                (LONG.astype(np.float32), IMAGE.astype(np.float32))),
}


@pytest.mark.parametrize("backend", ["native", "interpret"])
def test_values(backend: str, exhaustive: bool) -> None:
    chosen = some(CASES | OF_OTHER_DTYPES, exhaustive, 0, 2 if backend == "interpret" else 8)
    for_each(chosen, lambda *case: check_values(case, signal, theirs, backend), share=2)


def test_mapped(exhaustive: bool) -> None:
    for_each(some(CASES, exhaustive, 3), lambda *case: check_mapped(case, signal))


def test_derivatives(exhaustive: bool) -> None:
    for_each(some(CASES, exhaustive, 1), lambda *case: check_derivatives(case, signal), share=2)


@parametrize_within("name", [name for name in CASES if name.split()[0] in ("lfilter", "sosfilt", "hilbert", "oaconvolve", "detrend")],
                    share=2)
def test_tensors(name: str) -> None:
    check_tensors(CASES[name], signal, theirs)


@parametrize_within("name", ["lfilter", "sosfilt with zi", "convolve full", "savgol_filter interp"])
def test_float32(name: str) -> None:
    check_float32(CASES[name], signal, theirs)


def test_filters_are_loops() -> None:
    """The program does not grow with the signal."""
    sizes = [len(aj.compile(lambda x: signal.lfilter(B, A, x)).ir("optimized", np.ones(n)).split("\n")) for n in (104, 10000)]
    assert sizes[0] == sizes[1]
    assert sizes[0] < 300


def test_nan_does_not_spread_back() -> None:
    x = np.where(np.arange(8) == 4, np.nan, 1.0)
    assert np.isnan(aj.compile(lambda x: signal.lfilter(B, A, x))(x)).tolist() == [False] * 4 + [True] * 4


def test_other_names_are_scipys() -> None:
    assert signal.windows is theirs.windows
    np.testing.assert_array_equal(signal.firwin(5, 0.3), theirs.firwin(5, 0.3))
    np.testing.assert_allclose(aj.compile(lambda x: signal.convolve(x, signal.get_window("hann", 5)))(LONG),
                               theirs.convolve(LONG, theirs.get_window("hann", 5)))
    with pytest.raises(AttributeError, match=r"there is no scipy\.signal\.lfiltr"):
        _ = signal.lfiltr


@pytest.mark.parametrize(("function", "kind", "words"), [
    (lambda x: signal.residue(x, x), UnsupportedError, r"scipy\.signal\.residue has no rule for traced arrays"),
    (lambda x: signal.butter(3, x[0] ** 2), UnsupportedError, r"(?s)butter has no rule .*f, static=\"cutoff\""),
    (lambda x: signal.filtfilt([1.0], [1.0, 0.5], x, method="gust"), UnsupportedError, "gust"),
    (lambda x: signal.filtfilt([1.0], [1.0, 0.5], x, padlen=30), ValueError, "greater than padlen, which is 30"),
    (lambda x: signal.convolve(x, x[None]), ShapeError, "same number of dimensions"),
    (lambda x: signal.convolve(x, x, "other"), ValueError, "mode flags"),
    (lambda x: signal.lfilter([1.0], [1.0, 0.5], x, zi=np.ones(2)), ShapeError, "zi has the shape"),
    (lambda x: signal.sosfilt(np.ones((2, 5)), x), ShapeError, "n_sections, 6"),
    (lambda x: signal.convolve2d(np.outer(x, x), np.ones((1, 50)), "valid"), ValueError, "For 'valid' mode"),
])
def test_what_does_not_fit(function: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        aj.compile(function)(LONG)
