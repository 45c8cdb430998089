"""`adjit.scipy.spatial.distance`: SciPy's values, derivatives of two orders, tensors, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.each import for_each
from support.scipy_cases import Case, check_derivatives, check_float32, check_mapped, check_tensors, check_values, some

import adjit as aj
from adjit.errors import DTypeError, ShapeError, UnsupportedError

theirs = pytest.importorskip("scipy.spatial.distance")
from adjit.scipy.spatial import distance  # noqa: E402

RANDOM = np.random.default_rng(8)
A, B, W = RANDOM.normal(size=(5, 3)), RANDOM.normal(size=(4, 3)), RANDOM.uniform(0.5, 2.0, 3)
P, Q = RANDOM.uniform(0.1, 1.0, (4, 3)), RANDOM.uniform(0.1, 1.0, (2, 3))
TRUTHS = RANDOM.integers(0, 2, (2, 8)).astype(bool)
ROOT = RANDOM.normal(size=(3, 3))
VI = ROOT @ ROOT.T + np.eye(3)
WEIGHTED = ("euclidean", "sqeuclidean", "cityblock", "chebyshev", "cosine", "correlation", "braycurtis", "canberra", "minkowski")
OF_TRUTHS = ("dice", "rogerstanimoto", "russellrao", "sokalsneath", "yule", "jaccard", "hamming")

CASES: dict[str, Case] = {
    **{f"{name} of rows": (lambda s, name=name: lambda a, b, w: [s.cdist(a, b, name), s.pdist(a, name), s.cdist(a, b, name, w=w)],
                           (A, B, W)) for name in WEIGHTED},
    **{f"{name} of vectors": (lambda s, name=name: lambda a, b, w: [getattr(s, name)(a[0], b[0]), getattr(s, name)(a[1], b[1], w=w)],
                              (A, B, W)) for name in WEIGHTED},
    "minkowski": (lambda s: lambda a, b, w: [s.cdist(a, b, "minkowski", p=3), s.pdist(a, "minkowski", p=1.5), s.minkowski(a[0], b[0], 1),
                                             s.minkowski(a[0], b[0], 4, w), s.cdist(a, b, "minkowski", p=np.inf)], (A, B, W)),
    "seuclidean": (lambda s: lambda a, b, w: [s.cdist(a, b, "seuclidean"), s.pdist(a, "seuclidean", V=w), s.seuclidean(a[0], b[0], w)],
                   (A, B, W)),
    "mahalanobis": (lambda s: lambda a, b, v: [s.cdist(a, b, "mahalanobis"), s.pdist(a, "mahalanobis", VI=v),
                                               s.mahalanobis(a[0], b[0], v)], (A, B, VI)),
    "jensenshannon": (lambda s: lambda p, q: [s.cdist(p, q, "jensenshannon"), s.pdist(p, "js"), s.jensenshannon(p[0], q[0], 2.0),
                                              s.jensenshannon(p.T, q[0][:, None]),
                                              s.jensenshannon(p, q[:1], axis=1, keepdims=True)], (P, Q)),
    "squareform": (lambda s: lambda a: [s.squareform(s.pdist(a)), s.squareform(s.squareform(a[:2].ravel())),
                                        s.squareform(a[:, 0][:3])], (A,)),
    "callable": (lambda s: lambda a, b: [s.cdist(a, b, lambda u, v: np.sum((u - v) ** 4)), s.pdist(a, lambda u, v: u[0] * v[1])], (A, B)),
}
VALUES: dict[str, Case] = {
    **{f"{name} of truths": (lambda s, name=name: lambda a, w: [getattr(s, name)(a[0], a[1]), getattr(s, name)(a[0], a[1], w=w)],
                             (TRUTHS, RANDOM.uniform(0.5, 2.0, 8))) for name in OF_TRUTHS},
    "of rows of truths": (lambda s: lambda a: [s.cdist(a, ~a, name) for name in OF_TRUTHS], (TRUTHS,)),
    "hamming": (lambda s: lambda i: [s.hamming(i[0], i[1]), s.cdist(i, i[:2], "hamming"), s.pdist(i, "jaccard")],
                (RANDOM.integers(0, 2, (4, 5)),)),
    "names": (lambda s: lambda a, b: [s.cdist(a, b, name) for name in ("cblock", "cheb", "sqe", "Euclidean")], (A, B)),
    "whole numbers": (lambda s: lambda i: [s.cdist(i, i), s.pdist(i, "cityblock"), s.euclidean(i[0], i[1])],
                      (np.arange(12).reshape(4, 3) ** 2,)),
    "strided and empty": (lambda s: lambda a: [s.cdist(a[::-1, ::2], a[::2, ::2]), s.cdist(a[:0], a), s.pdist(a[:1])], (A,)),
}


@pytest.mark.parametrize("backend", ["native", "interpret"])
def test_values(backend: str, exhaustive: bool) -> None:
    chosen = some(CASES | VALUES, exhaustive, 0, 2 if backend == "interpret" else 8)
    for_each(chosen, lambda *case: check_values(case, distance, theirs, backend))


def test_mapped(exhaustive: bool) -> None:
    for_each(some(CASES, exhaustive, 3), lambda *case: check_mapped(case, distance))


def test_derivatives(exhaustive: bool) -> None:
    for_each(some(CASES, exhaustive, 1), lambda *case: check_derivatives(case, distance))


def test_tensors_and_float32(exhaustive: bool) -> None:
    for_each(CASES if exhaustive else {name: CASES[name] for name in ("euclidean of rows", "mahalanobis")},
             lambda *case: check_tensors(case, distance, theirs))
    for_each(some(CASES, exhaustive, 2), lambda *case: check_float32(case, distance, theirs))


@pytest.mark.parametrize("name", ["euclidean", "minkowski", "seuclidean", "mahalanobis"])
def test_equal_vectors_have_the_derivative_0(name: str) -> None:
    twice = np.concatenate([A, A[:1]])
    options: dict[str, Any] = {"p": 3} if name == "minkowski" else {}
    slopes = aj.grad(lambda a: np.sum(distance.pdist(a, name, **options)))(twice)
    assert np.isfinite(slopes).all()
    np.testing.assert_array_equal(aj.grad(lambda a: np.sum(distance.cdist(a, A[:1], name, **options, **(
        {"V": W} if name == "seuclidean" else {"VI": VI} if name == "mahalanobis" else {}))))(A[:1]), np.zeros((1, 3)))


@pytest.mark.parametrize(("function", "kind", "words"), [
    (lambda x: distance.cdist(x, x[0]), ShapeError, "XB has to be a matrix"),
    (lambda x: distance.cdist(x, x[:, :2]), ValueError, "same number of columns"),
    (lambda x: distance.pdist(x, "far"), ValueError, "Unknown Distance Metric"),
    (lambda x: distance.squareform(x[0, :2]), ValueError, "Incompatible vector size"),
    (lambda x: distance.euclidean(x, x), ValueError, "1-D"),
    (lambda x: distance.pdist(x + 1j), DTypeError, "distances of complex numbers"),
    (lambda x: distance.directed_hausdorff(x, x), UnsupportedError, r"distance\.directed_hausdorff has no rule"),
])
def test_what_does_not_fit(function: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        aj.compile(function)(A)
