"""Orthogonal factors on the emulated device: what holds for them, whatever the signs and phases of vectors."""

from __future__ import annotations

import numpy as np
import pytest
from support.device_runs import run_on_device

import adjit as aj
from adjit.ir.builder import trace_graph
from adjit.ir.definition import OpDefinition
from adjit.ir.ops.decompositions import column_order, eig, eigh, eigvals, eigvalsh, qr, svd, svdvals
from adjit.ir.types import TensorType
from adjit.runtime.native.code import native_is_supported

pytestmark = pytest.mark.skipif(not native_is_supported(), reason="the emulated device is for CPython on Linux on x86-64")


def numbers(*shape: int, dtype: type = np.float64, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    found = rng.standard_normal(shape)
    return (found + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else found).astype(dtype)


def run(definition: OpDefinition, a: np.ndarray, **attrs: bool) -> list[np.ndarray]:
    return run_on_device(trace_graph("factors", [TensorType(a.dtype, a.shape)], lambda x: list(definition.emit(x, **attrs))), [a])


def adjoint(a: np.ndarray) -> np.ndarray:
    return np.conj(np.swapaxes(a, -1, -2))


def assert_small(error: np.ndarray, like: np.ndarray, units: float = 200) -> None:
    assert np.abs(error).max() <= units * np.finfo(like.dtype).eps


def cases(dtype: type, *shape: int) -> list[np.ndarray]:
    a = numbers(*shape, dtype=dtype)
    return [a, 1e-18 * a[..., :1] @ a[..., :1, :], 0 * a]           # of full rank, of rank 1 and small, without any


@pytest.mark.parametrize("dtype", [np.float64, np.complex64], ids=["f64", "c64"])
@pytest.mark.parametrize("shape", [(2, 5, 3), (3, 5), (34, 33)], ids=str)
def test_singular_vectors(dtype: type, shape: tuple[int, ...]) -> None:
    count = min(shape[-2:])
    for a in cases(dtype, *shape)[:3 if shape[-1] < 33 else 2]:
        scale = max(np.abs(a).max(), 1e-30) * max(shape)
        for full in (False, True) if a.ndim == 2 else (False,):
            u, s, vh = run(svd, a, full=full)
            assert_small(((u[..., :count] * s[..., None, :]) @ vh[..., :count, :] - a) / scale, a)
            assert_small(adjoint(u) @ u - np.eye(u.shape[-1]), a)
            assert_small(vh @ adjoint(vh) - np.eye(vh.shape[-2]), a)
            assert_small((s - np.linalg.svd(a, compute_uv=False)) / scale, a)
            assert not np.any((vh[..., :count, 0] if shape[-2] >= shape[-1] else u[..., 0, :]).imag)
        assert_small((run(svdvals, a)[0] - s) / scale, a, 2)


@pytest.mark.parametrize("dtype", [np.float64, np.complex64], ids=["f64", "c64"])
@pytest.mark.parametrize("lower", [True, False], ids=["lower", "upper"])
def test_eigenvectors_of_hermitian_matrices(dtype: type, lower: bool) -> None:
    for shape in ((2, 5, 5), (34, 34)):
        for a in (*cases(dtype, *shape)[:1 if shape[-1] > 5 else 3], np.broadcast_to(np.diag(np.arange(shape[-1])), shape).astype(dtype)):
            w, v = run(eigh, a, lower=lower)
            half = np.tril(a, -1) if lower else np.triu(a, 1)
            whole = half + adjoint(half) + np.real(np.diagonal(a, axis1=-2, axis2=-1))[..., None] * np.eye(shape[-1])
            scale = max(np.abs(a).max(), 1e-30) * shape[-1]
            assert_small((whole @ v - v * w[..., None, :]) / scale, a)
            assert_small(adjoint(v) @ v - np.eye(shape[-1]), a)
            assert_small((w - np.linalg.eigvalsh(a, "L" if lower else "U")) / scale, a)
            assert not np.any((v[..., 0, :] if lower else v[..., -1, :]).imag)
        assert_small((run(eigvalsh, a, lower=lower)[0] - w) / scale, a, 2)


@pytest.mark.parametrize("dtype", [np.float64, np.complex64], ids=["f64", "c64"])
def test_eigenvectors_of_general_matrices(dtype: type, exhaustive: bool) -> None:
    size = 33 if exhaustive else 5
    defective, around = (np.stack([a, 2 * a]).astype(dtype) for a in (np.triu(np.ones((size, size))), np.roll(np.eye(size), 1, 0)))
    for a in (*cases(dtype, 2, size, size), defective, around):        # with one vector; shifts that change nothing
        w, v = run(eig, a)
        scale = max(np.abs(a).max(), 1e-30) * a.shape[-1]
        assert_small((a @ v - v * w[..., None, :]) / scale, a)
        assert_small(np.linalg.norm(v, axis=-2) - 1, a)
        assert_small((run(eigvals, a)[0] - w) / scale, a)
        assert_small((w.sum(-1) - np.trace(a, axis1=-2, axis2=-1)) / scale / a.shape[-1], a)
        if a is not around:                 # all elements of whose vectors have one size
            assert_small(np.take_along_axis(v, np.abs(v).argmax(-2)[..., None, :], -2).imag, a, 10)


def test_large_factors_are_those_of_lapack() -> None:
    a = numbers(2, 40, 35)
    for complete in (False, True):
        q, r = run(qr, a, complete=complete)
        np.testing.assert_allclose(r, np.linalg.qr(a, "complete" if complete else "reduced")[1], atol=1e-13)
        np.testing.assert_allclose(q @ r, a, atol=1e-13)
    assert np.array_equal(run(column_order, a)[0], column_order.evaluate(a))


def test_what_is_not_finite_has_no_factors() -> None:
    for bad in (np.nan, np.inf):
        a = numbers(2, 3, 3)
        a[1, 2, 0] = bad
        for found in (*run(svd, a, full=False), *run(svdvals, a), *run(eigh, a, lower=True), *run(eigvalsh, a, lower=True),
                      *run(eig, a)):
            assert np.isnan(found[1]).all()
            assert np.isfinite(found[0]).all()


def test_derivatives_are_those_of_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADJIT_CUDA", "emulated")
    c = numbers(4, 4)

    def loss(a: np.ndarray) -> np.ndarray:
        (q, r), (w, v), (u, s, vh) = np.linalg.qr(a), np.linalg.eigh(a + a.T), np.linalg.svd(a)
        squares = (v * v * c).sum() + (u * u * c).sum() + (vh * vh * c).sum()       # the same for any signs
        return squares + (q * c).sum() + (r * c).sum() + w @ c[0] + s @ c[1]

    there, here = (aj.compile(aj.grad(loss), **options)(numbers(4, 4, seed=1)) for options in ({"device": "cuda"}, {}))
    np.testing.assert_allclose(np.asarray(there), here, rtol=1e-9, atol=1e-11)
