"""`adjit.scipy.fft` and `adjit.scipy.optimize`: SciPy's values, derivatives, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.each import for_each
from support.scipy_cases import Case, check_derivatives, check_float32, check_mapped, check_tensors, check_values, some

import adjit as aj
from adjit.errors import UnsupportedError

theirs = pytest.importorskip("scipy.fft")
from adjit.scipy import fft, optimize  # noqa: E402

RANDOM = np.random.default_rng(1)
X, M, CUBE = RANDOM.normal(size=9), RANDOM.normal(size=(4, 6)), RANDOM.normal(size=(2, 3, 4))

CASES: dict[str, Case] = {
    **{f"{name} {norm}": (lambda s, name=name, norm=norm: lambda x, m: [found for kind in (1, 2, 3, 4) for found in (
        getattr(s, name)(x, kind, norm=norm), getattr(s, name)(m, kind, axis=0, norm=norm), getattr(s, name)(m, kind, n=5, norm=norm),
        getattr(s, name)(m, kind, n=8, norm=norm), getattr(s, name)(m, kind, norm=norm, orthogonalize=norm is None))], (X, M))
       for name in ("dct", "idct", "dst", "idst") for norm in (None, "ortho", "forward")},
    **{name: (lambda s, name=name: lambda m: [
        getattr(s, name)(m), getattr(s, name)(m, 1, axes=(0, 2), norm="ortho"), getattr(s, name)(m, 3, s=(3, 5)),
        getattr(s, name)(m, 4, s=(3,), axes=1)], (CUBE,)) for name in ("dctn", "idctn", "dstn", "idstn")},
    "lines": (lambda s: lambda m: [s.fft(m), s.ifft(m, 5, 0, "ortho"), s.rfft(m), s.ihfft(m), s.irfft(m + 1j * m[::-1]),
                                   s.hfft(m + 0j, 5, 0, "ortho")], (M,)),
    "grids": (lambda s: lambda m: [s.fft2(m), s.ifft2(m, (3, 5)), s.rfft2(m, (3, 5), (0, 1), "forward"), s.rfftn(m), s.irfft2(m + 0j),
                                   s.irfftn(m + 0j, (3, 5))], (CUBE,)),
    "shifts": (lambda s: lambda m: [s.fftshift(m), s.ifftshift(m, 1), s.fftfreq(5) * m[0, 0], s.rfftfreq(6, 2.0) * m[0, 0]], (M,)),
}
EXACT: dict[str, Case] = {
    "complex": (lambda s: lambda z: [s.dct(z), s.dst(z, 1), s.fftn(z), s.ifftn(z, (3,))], (M + 1j * M[::-1],)),
    "whole numbers": (lambda s: lambda x: [s.dct(x), s.dst(x, 4), s.fft(x)], (RANDOM.integers(-9, 9, 6),)),
}


def test_transforms(exhaustive: bool) -> None:
    for_each(some(CASES, exhaustive, 1, 4) | EXACT, lambda *case: check_values(case, fft, theirs, "interpret"))


def test_derivatives_of_transforms(exhaustive: bool) -> None:
    for_each(some(CASES, exhaustive, 2, 6), lambda *case: check_derivatives(case, fft))
    for_each({"idstn": CASES["idstn"]}, lambda *case: check_mapped(case, fft))


def test_tensors_and_float32() -> None:
    check_tensors(CASES["dctn"], fft, theirs)
    check_float32(CASES["dst ortho"], fft, theirs)
    assert aj.compile(fft.dct, backend="interpret")(X.astype(np.float32)).dtype == np.float32


def test_rosenbrock() -> None:
    x = RANDOM.normal(size=(4, 2))
    found = aj.compile(lambda x: (optimize.rosen(x), optimize.rosen_der(x)), backend="interpret")(x)
    np.testing.assert_allclose(found[0], optimize.rosen(x))
    np.testing.assert_allclose(found[1], optimize.rosen_der(x))
    np.testing.assert_allclose(aj.grad(lambda x: np.sum(optimize.rosen(x)))(x), optimize.rosen_der(x))


@pytest.mark.parametrize(("function", "kind", "words"), [
    (lambda x: fft.dct(x, 5), ValueError, "invalid type 5"),
    (lambda x: fft.dst(x, norm="orthogonal"), ValueError, "Invalid norm value"),
    (lambda x: fft.hfft2(x), UnsupportedError, r"scipy\.fft\.hfft2 has no rule"),
    (lambda x: optimize.minimize(lambda y: y, x), UnsupportedError, "it calls a Python function"),
])
def test_what_transforms_refuse(function: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        aj.compile(function)(M)
