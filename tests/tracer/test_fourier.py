"""numpy.fft on traced arrays and tensors: NumPy's values, its bits natively, derivatives, what does not fit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support.backends import BACKENDS

import adjit as aj
from adjit.ir.errors import ExportError, ShapeError

RANDOM = np.random.default_rng(0)
ALONG_ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
ALONG_SEVERAL = ("fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn")
OF_REALS = ("rfft", "ihfft", "rfft2", "rfftn")


def cases() -> Iterator[tuple[str, np.ndarray, dict[str, Any]]]:
    real = RANDOM.normal(size=(3, 5, 6))
    for name in (*ALONG_ONE, *ALONG_SEVERAL):
        for x in (real, real.transpose(2, 0, 1), *(() if name in OF_REALS else (real + 1j * RANDOM.normal(size=real.shape),))):
            yield name, x, {}
            yield name, x, {"norm": "ortho"}
            yield name, x, {"norm": "forward", **({"n": 4, "axis": 1} if name in ALONG_ONE else {"s": (4, 8), "axes": (0, 2)})}
        yield name, np.arange(12).reshape(3, 4), {}
    for name in ("fftshift", "ifftshift"):
        yield name, real, {}
        yield name, real, {"axes": 1}


@pytest.mark.parametrize("backend", BACKENDS)
def test_values_are_those_of_numpy(backend: str) -> None:
    functions = {}
    for name, x, options in list(cases())[::2 if backend == "interpret" else 16]:
        key = name, str(options)
        if key not in functions:
            functions[key] = aj.compile(lambda x, name=name, options=options: getattr(np.fft, name)(x, **options), backend=backend)
        expected = getattr(np.fft, name)(x, **options)
        found = functions[key](x)
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        np.testing.assert_array_equal(found, expected, f"{name} {options}")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["fft", "rfft", "irfft", "fft2"])
def test_float32_stays_float32(name: str, backend: str) -> None:
    x = RANDOM.normal(size=(4, 9)).astype(np.float32)
    found = aj.compile(lambda x: getattr(np.fft, name)(x), backend=backend)(x)
    assert found.dtype == (np.float32 if name == "irfft" else np.complex64)
    np.testing.assert_allclose(found, getattr(np.fft, name)(x), rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("size", [8, 13, 97, 100, 4099, 1 << 14])
def test_long_lines_and_many(size: int) -> None:
    """More lines than a block has, along both axes; the same bits on two threads."""
    x = RANDOM.normal(size=(max(300 * 8 // size, 3), size))

    def both(x: Any) -> Any:
        return np.fft.fft(x), np.fft.rfft(x.T, axis=0), np.fft.irfft(np.fft.rfft(x), size)
    expected = both(x)
    for threads in (1, 2):
        for found, wanted in zip(aj.compile(both, threads=threads)(x), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.share(2)
@pytest.mark.parametrize("name", [*ALONG_ONE, "fft2", "rfft2", "irfft2"])
def test_derivatives(name: str) -> None:
    """Of a real function of the transform, of first and second order, for even and odd lengths."""
    for length in (6, 7):
        weights = RANDOM.normal(size=(3, 16)) + 1j * RANDOM.normal(size=(3, 16))
        x, step = RANDOM.normal(size=(2, 3, length))

        def loss(x: Any, length: int = length, weights: Any = weights) -> Any:
            options = {"n": length} if name in ("irfft", "hfft") else {"s": (3, length)} if name == "irfft2" else {}
            y = getattr(np.fft, name)(x * (1.0 if name in OF_REALS else 1.0 - 0.5j), **options)
            return np.sum(np.real(y * weights[:y.shape[0], :y.shape[1]]) ** 3)
        gradient, second = aj.grad(loss)(x), aj.hvp(loss, (x,), (step,))
        epsilon = 1e-5
        slope = (loss(x + epsilon * step) - loss(x - epsilon * step)) / (2 * epsilon)
        np.testing.assert_allclose(np.sum(gradient * step), slope, rtol=1e-7)
        change = (aj.grad(loss)(x + epsilon * step) - aj.grad(loss)(x - epsilon * step)) / (2 * epsilon)
        np.testing.assert_allclose(second, change, rtol=1e-6, atol=1e-6)
        tensor = aj.tensor(x, requires_grad=True)
        loss(tensor).backward()
        np.testing.assert_allclose(tensor.grad.numpy(), gradient, rtol=1e-12)


def test_gradient_of_complex_input_descends() -> None:
    z = RANDOM.normal(size=8) + 1j * RANDOM.normal(size=8)

    def loss(z: Any) -> Any:
        return np.sum(np.abs(np.fft.fft(z)) ** 2)
    np.testing.assert_allclose(aj.grad(loss)(z), 2 * 8 * z, rtol=1e-12)


def test_batched() -> None:
    x = RANDOM.normal(size=(4, 3, 6))
    np.testing.assert_array_equal(aj.vmap(lambda x: np.fft.rfft2(x), in_axes=1)(x), np.fft.rfft2(x.transpose(1, 0, 2)))


def test_out() -> None:
    @aj.compile
    def into(x: Any) -> Any:
        y = np.zeros(x.shape, complex)
        np.fft.fft(x, out=y)
        return y
    x = RANDOM.normal(size=6)
    np.testing.assert_array_equal(into(x), np.fft.fft(x))


def test_what_does_not_fit() -> None:
    x = np.ones(4)
    with pytest.raises(ShapeError, match=r"Invalid number of FFT data points \(0\) specified\."):
        aj.compile(lambda x: np.fft.fft(x, 0))(x)
    with pytest.raises(ValueError, match="Invalid norm value both"):
        aj.compile(lambda x: np.fft.fft(x, norm="both"))(x)
    with pytest.raises(IndexError, match="got a scalar"):
        aj.compile(lambda x: np.fft.fft(x[0]))(x)
    with pytest.raises(TypeError, match="a transform of real numbers"):
        aj.compile(lambda x: np.fft.rfft(x * 1j))(x)


def test_exports(tmp_path: Any) -> None:
    function, x = aj.compile(lambda x: np.abs(np.fft.rfft(x))), RANDOM.normal(size=6)
    function.export(tmp_path / "spectrum.adjit", x)
    np.testing.assert_array_equal(aj.load(tmp_path / "spectrum.adjit")(x), function(x))
    with pytest.raises(ExportError, match=r"rfft calls functions of numpy\.fft\._pocketfft_umath"):
        function.export(tmp_path / "spectrum.so", x)
