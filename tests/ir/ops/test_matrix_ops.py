"""Meaning of the matrix ops, as interpreted: what the factors multiply to, their form, and NumPy's functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.op_cases import for_each_op

from adjit.ir.definition import Kind, OpDefinition
from adjit.ir.interpreter import evaluate

pytest.importorskip("scipy")


def turned(a: np.ndarray) -> np.ndarray:
    return np.swapaxes(a, -1, -2)


def triangle(a: np.ndarray, lower: bool = True, unit: bool = False) -> np.ndarray:
    part = np.tril(a) if lower else np.triu(a)
    return part * (1 - np.eye(a.shape[-1])) + np.eye(a.shape[-1]) if unit else part


def unpacked(a: np.ndarray, factors: np.ndarray, pivots: np.ndarray, order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows in the order of the factors, and L U."""
    packed = turned(factors)
    count = min(packed.shape[-2:])
    lower = np.tril(packed, -1)[..., :count] + np.eye(packed.shape[-2], count)
    for each, swaps in zip(order.reshape(-1, order.shape[-1]), pivots.reshape(-1, count), strict=True):
        rows = np.arange(each.size)
        for row, other in enumerate(swaps):
            rows[[row, other]] = rows[[other, row]]
        assert rows.tolist() == each.tolist()
    return np.take_along_axis(a, order[..., None], -2), lower @ np.triu(packed)[..., :count, :]


def adjoint(a: np.ndarray) -> np.ndarray:
    return turned(a).conj()


def diagonal(s: np.ndarray) -> np.ndarray:
    return s[..., None] * np.eye(s.shape[-1])


def qr_pair(a: np.ndarray, q: np.ndarray, r: np.ndarray, complete: bool) -> tuple[np.ndarray, np.ndarray]:
    np.testing.assert_array_equal(np.tril(r, -1), 0)
    np.testing.assert_array_equal(np.diagonal(r, axis1=-2, axis2=-1).imag, 0)
    np.testing.assert_allclose(adjoint(q) @ q, np.broadcast_to(np.eye(q.shape[-1]), (*q.shape[:-2], *q.shape[-1:] * 2)), atol=1e-5)
    return q @ r, a


def svd_pair(a: np.ndarray, u: np.ndarray, s: np.ndarray, vh: np.ndarray, full: bool) -> tuple[np.ndarray, np.ndarray]:
    count = s.shape[-1]
    assert (np.diff(s) <= 0).all() or np.isnan(s).all()
    return u[..., :count] @ diagonal(s) @ vh[..., :count, :], a if not np.isnan(a).any() else np.full_like(a, np.nan)


def falling(a: np.ndarray, order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sizes of the diagonal of r, and the same in falling order."""
    np.testing.assert_array_equal(np.sort(order, axis=-1), np.broadcast_to(np.arange(a.shape[-1]), order.shape))
    sizes = np.abs(np.diagonal(np.linalg.qr(np.take_along_axis(a, order[..., None, :], -1)).R, axis1=-2, axis2=-1))
    return sizes, -np.sort(-sizes)


def symmetric(a: np.ndarray, lower: bool) -> np.ndarray:
    part = triangle(a, lower)
    return part + adjoint(part) - diagonal(np.diagonal(a, axis1=-2, axis2=-1).real)


def eig_pair(a: np.ndarray, w: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if np.isnan(a).any():
        return np.stack([w.real, w.imag]), np.full((2, *w.shape), np.nan)
    np.testing.assert_allclose(np.linalg.norm(v, axis=-2), 1, rtol=1e-5)
    largest = np.take_along_axis(v, np.argmax(np.abs(v), axis=-2)[..., None, :], -2) if v.size else v
    np.testing.assert_allclose(largest.imag, 0, atol=1e-7)
    return a @ v, v * w[..., None, :]


def whole(bands: np.ndarray, upper: int) -> np.ndarray:
    rows, columns = np.indices((bands.shape[-1],) * 2)
    place = rows - columns + upper
    inside = (place >= 0) & (place < bands.shape[-2])
    return np.where(inside, bands[..., np.clip(place, 0, bands.shape[-2] - 1), columns], 0)


CHECKS: dict[str, Callable[..., tuple[np.ndarray, np.ndarray]]] = {
    "cholesky": lambda a, factor: (factor @ adjoint(factor), a if (np.linalg.eigvalsh(a) > 0).all() else np.full_like(a, np.nan)),
    "triangular_solve": lambda a, b, x, lower, transpose, unit: (
        (turned(triangle(a, lower, unit)) if transpose else triangle(a, lower, unit)) @ x, b),
    "lu": unpacked,
    "lu_solve": lambda a, factors, order, b, x, transpose: ((turned(a) if transpose else a) @ x, b),
    "lu_inverse": lambda a, factors, pivots, x: (turned(x), np.linalg.inv(a)),
    "inverse": lambda a, x, transposed: (turned(x) if transposed else x, np.linalg.inv(a)),
    "qr": qr_pair,
    "qr_raw": lambda a, packed, scales: (adjoint(triangle(turned(packed), False)[..., :min(a.shape[-2:]), :])
                                         @ triangle(turned(packed), False)[..., :min(a.shape[-2:]), :], adjoint(a) @ a),
    "column_order": falling,
    "svd": svd_pair,
    "svdvals": lambda a, s: (s, np.linalg.svd(a, compute_uv=False)),
    "eigh": lambda a, w, v, lower: (v @ diagonal(w) @ adjoint(v), symmetric(a, lower)),
    "sylvester": lambda a, b, q, x: (a @ x + x @ b, q),
    "banded_solve": lambda bands, b, x, lower, upper, transpose: (
        (turned(whole(bands, upper)) if transpose else whole(bands, upper)) @ x, b),
    "eig": eig_pair,
    "eigvals": lambda a, w: (np.sort_complex(w), np.sort_complex(np.linalg.eigvals(a)) if np.isfinite(a).all() else w + np.nan),
    "complex_matmul": lambda a, b, product, transpose_a, transpose_b, conj_a, conj_b: (product, np.einsum(
        "...ij,...jk", *(x.conj() if conj else x for x, conj in ((turned(a) if transpose_a else a, conj_a),
                                                                 (turned(b) if transpose_b else b, conj_b))))),
    "eigvalsh": lambda a, w, lower: (w, np.linalg.eigvalsh(symmetric(a, lower))),
}


@for_each_op(Kind.LINALG, in_one_item=True)
def test_factors_are_what_they_are_called(definition: OpDefinition) -> None:
    for sample in definition.samples():
        attrs: dict[str, Any] = sample.attrs
        results = evaluate(definition, sample.arrays, attrs)
        found, expected = CHECKS[definition.name](*sample.arrays, *results, **attrs)
        tolerance = 1e-4 if sample.arrays[0].dtype in (np.float32, np.complex64) else 1e-11
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
