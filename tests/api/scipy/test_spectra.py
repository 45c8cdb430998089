"""`adjit.scipy.signal`: spectra, resampling, responses and signals beside SciPy's, derivatives of two orders, tensors, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.each import for_each
from support.scipy_cases import Case, check_derivatives, check_float32, check_mapped, check_tensors, check_values, some

import adjit as aj
from adjit.errors import UnsupportedError

theirs = pytest.importorskip("scipy.signal")
from adjit.scipy import signal  # noqa: E402

RANDOM = np.random.default_rng(5)
X, Y, M, W = RANDOM.normal(size=50), RANDOM.normal(size=44), RANDOM.normal(size=(3, 40)), RANDOM.uniform(0.5, 1, size=8)
Z = X[:40] + 1j * RANDOM.normal(size=40)
B, A = theirs.butter(3, 0.3)
SOS = theirs.butter(4, 0.3, output="sos")
PLACES, TIMES = np.sort(RANDOM.uniform(0, 9, 20)), np.linspace(-0.9, 1.97, 23)

CASES: dict[str, Case] = {
    "welch": (lambda s: lambda x, m: [
        *s.welch(x, nperseg=8), *s.welch(m, 2.0, nperseg=8, axis=-1, noverlap=3, nfft=11), *s.welch(m, nperseg=7, average="median"),
        *s.welch(m.T, axis=0, nperseg=10, window="hamming", scaling="spectrum", detrend="linear"), *s.welch(x),
        *s.welch(x, nperseg=16, return_onesided=False, detrend=False)], (X, M)),
    "welch by a window": (lambda s: lambda x, w: [*s.welch(x, window=w)], (X, W)),
    "csd": (lambda s: lambda x, y, m: [*s.csd(x, y, nperseg=8), *s.csd(m[0], m, nperseg=9, average="median"),
                                       *s.csd(m, m[:, ::-1], nperseg=8, return_onesided=False)], (X, Y, M)),
    "periodogram": (lambda s: lambda x, m, w: [
        *s.periodogram(x), *s.periodogram(m, 4.0, axis=0), *s.periodogram(m, nfft=64, window="hann"), *s.periodogram(x[:8], window=w),
        *s.periodogram(m, nfft=12, scaling="spectrum"), *s.periodogram(x[:7], detrend=False)], (X, M, W)),
    "coherence": (lambda s: lambda x, y: [*s.coherence(x, y, nperseg=8), *s.coherence(x, y, nperseg=9, noverlap=8)], (X, Y)),
    **{f"spectrogram {mode}": (lambda s, mode=mode: lambda x, m: [
        *s.spectrogram(x, nperseg=8, mode=mode), *s.spectrogram(m, 3.0, nperseg=9, noverlap=5, axis=1, mode=mode)], (X, M))
       for mode in ("psd", "complex", "magnitude", "angle", "phase")},
    "spectrogram of columns": (lambda s: lambda m: [*s.spectrogram(m.T, nperseg=9, axis=0, return_onesided=False, window="hann", nfft=16)],
                               (M,)),
    "stft": (lambda s: lambda x, m, w: [
        *s.stft(x, nperseg=8), *s.stft(m, nperseg=9, noverlap=8), *s.stft(m.T, axis=0, nperseg=8, boundary="even", scaling="psd"),
        *s.stft(x, nperseg=8, boundary="odd", padded=False), *s.stft(x, nperseg=10, boundary=None, detrend="constant"),
        *s.stft(x, nperseg=7, boundary="constant", nfft=12), *s.stft(x, window=w, nperseg=None),
        *s.stft(x, nperseg=8, return_onesided=False), *s.stft(x, nperseg=40, noverlap=39)], (X, M, W)),
    "istft": (lambda s: lambda x, m: [
        *s.istft(s.stft(x, nperseg=8)[2]), *s.istft(s.stft(m, nperseg=9)[2], nperseg=9),
        *s.istft(s.stft(m, nperseg=8, scaling="psd")[2], scaling="psd"), *s.istft(s.stft(x, nperseg=8, boundary=None)[2], boundary=False),
        *s.istft(s.stft(x, nperseg=8, return_onesided=False)[2], input_onesided=False),
        *s.istft(np.moveaxis(s.stft(m, nperseg=8, noverlap=5)[2], 0, 1), noverlap=5, freq_axis=0, time_axis=-1),
        *s.istft(np.swapaxes(s.stft(m, nperseg=8)[2], 1, 2), freq_axis=2, time_axis=1)], (X, M)),
    "lombscargle": (lambda s: lambda t, y, f, w: [
        s.lombscargle(t, y, f), s.lombscargle(t, y, f, normalize=True), s.lombscargle(t, y, f, weights=w, floating_mean=True),
        s.lombscargle(t, y, f, normalize="amplitude"), s.lombscargle(t, y, f[:1]),
        s.lombscargle(t, y, f[:1], normalize="amplitude"), s.lombscargle(t, y, f[:1], normalize=True, floating_mean=True),
        s.lombscargle(t, y, f, normalize=True, floating_mean=True)],
        (PLACES, X[:20], np.linspace(0.3, 4, 7), RANDOM.uniform(0.5, 1, 20))),
    "vectorstrength": (lambda s: lambda t, p: [*s.vectorstrength(t, p), *s.vectorstrength(t, p[0])], (PLACES, W[:3])),
    "resample": (lambda s: lambda x, m: [
        s.resample(x, 20), s.resample(x, 80), s.resample(x, 50), s.resample(m, 13, axis=1), s.resample(m, 81, axis=1), s.resample(m, 5),
        s.resample(x, 20, window="hamming"), s.resample(x[:49], 60, window="hann"), *s.resample(x, 25, t=np.arange(50.0)),
        s.resample(x, 20, window=lambda f: np.exp(-f ** 2))], (X, M)),
    "upfirdn": (lambda s: lambda h, x, m: [s.upfirdn(h, x), s.upfirdn(h, x, 3), s.upfirdn(h, x, 2, 3), s.upfirdn(h, m, 1, 4, axis=0),
                                           s.upfirdn(h, m, 5, 2), s.upfirdn(h, m[0] * (1 + 2j), 3, 2)], (W, X, M)),
    "resample_poly": (lambda s: lambda x, m, w: [
        s.resample_poly(x, 3, 2), s.resample_poly(x, 2, 5), s.resample_poly(m, 4, 6, axis=1), s.resample_poly(x, 1, 3, window=w),
        s.resample_poly(x, 5, 1, padtype="mean"), s.resample_poly(m, 2, 3, axis=1, padtype="median"),
        s.resample_poly(x, 3, 7, padtype="maximum"), s.resample_poly(x, 2, 2)], (X, M, W)),
    "decimate": (lambda s: lambda x, m: [s.decimate(x, 2), s.decimate(m, 3, ftype="fir"), s.decimate(x, 3, ftype="fir", zero_phase=False),
                                         s.decimate(m.T, 2, n=2, axis=0), s.decimate(x, 4, zero_phase=False)], (X, M)),
    "czt": (lambda s: lambda x, m: [
        s.czt(x), s.czt(m, axis=0), s.czt(x, 7), s.czt(x, 60, w=np.exp(-0.02j), a=1.01 * np.exp(0.3j)), s.zoom_fft(x, 0.5),
        s.zoom_fft(m, [0.1, 0.6], 9, endpoint=True), s.zoom_fft(m, [1, 3], 70, fs=10, axis=1)], (X, M)),
    "responses": (lambda s: lambda b, a, w, o: [
        *s.freqz(b, a, 20), *s.freqz(b), *s.freqz(b, a, w), *s.freqz(b, a, 9, whole=True, fs=3.0), *s.freqz_sos(o, 11), *s.sosfreqz(o, w),
        *s.freqz(b, a, 9, include_nyquist=True), *s.freqs(b, a, w), *s.group_delay((b, a[:1]), w, fs=4.0)],
        (B, A, np.linspace(0.1, 1.2, 7), SOS)),
    "waves": (lambda s: lambda t: [
        s.chirp(t, 1.0, 2.0, 3.0), s.chirp(t, 1.0, 2.0, 3.0, "quadratic", 30.0), s.chirp(t, 1.0, 2.0, 3.0, "quadratic", vertex_zero=False),
        s.chirp(t, 1.0, 2.0, 3.0, "log"), s.chirp(t, 1.0, 2.0, 3.0, "hyp"), s.chirp(t, 1.0, 2.0, 3.0, complex=True),
        s.sweep_poly(t, np.array([0.3, 1.0, 2.0])), s.sawtooth(5 * t), s.sawtooth(5 * t, 0.3), s.square(5 * t), s.square(5 * t, 0.2),
        s.gausspulse(t, 2.0), *s.gausspulse(t, 2.0, 0.3, retquad=True, retenv=True)], (TIMES,)),
    "hilbert2": (lambda s: lambda m: [s.hilbert2(m), s.hilbert2(m, 5), s.hilbert2(m, (4, 7)), s.hilbert2(m, axes=(1, 0)),
                                      s.hilbert2(m[:, :7])], (M,)),
    "wiener": (lambda s: lambda m, x: [s.wiener(m), s.wiener(m, (3, 5)), s.wiener(x, 5, 0.4)], (M, X)),
    "deconvolve": (lambda s: lambda x, w: [*s.deconvolve(x[:12], w), s.lfiltic(w[:3], w, x[:9], x[9:12]), s.lfiltic(w, w[:4], x[:2])],
                   (X, W)),
}
EXACT: dict[str, Case] = {
    "of complex numbers": (lambda s: lambda x, z: [
        *s.welch(z, nperseg=8, return_onesided=False), *s.csd(x[:40], z, nperseg=8, return_onesided=False), *s.csd(x, x, nperseg=8),
        *(s.resample(z, count) for count in (20, 80, 21, 81)), s.resample(z[:39], 20), s.resample(z[:39], 60),
        s.resample(z, 20, domain="freq"), s.resample(z, 81, window="hann")], (X, Z)),
    "whole numbers": (lambda s: lambda x: [*s.welch(x, nperseg=8), *s.stft(x, nperseg=8), s.resample(x, 30), s.resample_poly(x, 3, 2),
                                           s.decimate(x, 2)], (RANDOM.integers(-9, 9, 40),)),
}


@pytest.mark.parametrize("backend", ["native", "interpret"])
def test_spectra(backend: str, exhaustive: bool) -> None:
    chosen = some(CASES | EXACT, exhaustive, 1, 5 if backend == "interpret" else 12)
    for_each(chosen, lambda *case: check_values(case, signal, theirs, backend))


def test_mapped_spectra(exhaustive: bool) -> None:
    for_each(some(CASES, exhaustive, 3, 14), lambda *case: check_mapped(case, signal))


def test_derivatives_of_spectra(exhaustive: bool) -> None:
    for_each(some(CASES, exhaustive, 2, 12), lambda *case: check_derivatives(case, signal))


def test_spectra_of_tensors_and_of_float32(exhaustive: bool) -> None:
    chosen = some(CASES, exhaustive) if exhaustive else {name: CASES[name] for name in ("stft", "resample_poly")}
    for_each(chosen, lambda *case: check_tensors(case, signal, theirs))
    for_each(chosen, lambda *case: check_float32(case, signal, theirs))


def test_rates_and_frequencies_have_derivatives() -> None:
    def power(fs: Any, f0: Any) -> Any:
        return np.sum(signal.welch(signal.chirp(PLACES, f0, 2.0, 0.4), fs, nperseg=8)[1] ** 2)

    found = aj.compile(aj.grad(power, (0, 1)), backend="interpret")(2.0, 0.3)
    for k, step in enumerate(((1e-6, 0.0), (0.0, 1e-6))):
        difference = power(2.0 + step[0], 0.3 + step[1]) - power(2.0 - step[0], 0.3 - step[1])
        assert found[k] == pytest.approx(difference / 2e-6, rel=1e-5)


@pytest.mark.parametrize(("function", "kind", "words"), [
    (lambda x: signal.welch(x, nperseg=4, noverlap=4), ValueError, "noverlap must be less than nperseg"),
    (lambda x: signal.welch(x, nperseg=4, nfft=3), ValueError, "nfft must be greater than or equal to nperseg"),
    (lambda x: signal.csd(x, x, nperseg=4, average="mode"), ValueError, "'median' or 'mean'"),
    (lambda x: signal.stft(x, nperseg=4, boundary="edge"), ValueError, "Unknown boundary option"),
    (lambda x: signal.istft(x), ValueError, "at least 2d"),
    (lambda x: signal.resample(x, 4, domain="frequency"), ValueError, "domain='frequency'"),
    (lambda x: signal.upfirdn(x, x, mode="wrap"), UnsupportedError, "pad the signal before"),
    (lambda x: signal.resample_poly(x, 3, 2, padtype="line"), UnsupportedError, '"mean", "median"'),
    (lambda x: signal.freqs(x, x), ValueError, "array of frequencies"),
    (lambda x: signal.find_peaks(x), UnsupportedError, "values decide on the size"),
])
def test_what_spectra_refuse(function: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        aj.compile(function)(np.arange(8.0))
