"""Sparse matrices of traced elements: made, cut, added, multiplied and solved as SciPy's are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as sl

import adjit as aj
from adjit.ir.errors import TraceError, UnsupportedError

D = np.array([1.3, 0.7, 2.1, 1.1, 0.4, 1.9])
PLACES = [0, 1, 2, 2, 1, 0], [1, 2, 0, 2, 2, 0]        # one of them twice
PLAIN = sp.csc_array(np.diag([3.0, 2.0, 4.0]) + np.diag([1.0, 0.5], 1))
FACTORS, COMPLEX_FACTORS = sl.splu(PLAIN), sl.splu((PLAIN + 1j * sp.eye_array(3)).tocsc())
CLASSES = [sp.csr_matrix, sp.csr_array, sp.csc_matrix, sp.csc_array, sp.coo_matrix, sp.coo_array]

OF_EACH: dict[str, Callable[[Any, Any], Any]] = {
    "dense": lambda A, d: A.toarray(), "product": lambda A, d: A @ d[:3], "of a matrix": lambda A, d: A @ np.outer(d[:3], [1.0, 2.0]),
    "from the left": lambda A, d: d[:3] @ A, "sum": lambda A, d: (A.T + A * d[0] - A / 3.0).toarray(),
    "sparse product": lambda A, d: (A.T @ A).toarray(), "elementwise": lambda A, d: A.multiply(A.T).toarray(),
    "elementwise with a dense one": lambda A, d: A.multiply(np.outer(d[:3], d[3:])).toarray(),
    "diagonal": lambda A, d: A.diagonal(1), "total": lambda A, d: A.sum() + np.sum(A),
    "with a plain one": lambda A, d: (PLAIN @ A - PLAIN).toarray(),
    "elements": lambda A, d: A.tocsc().tocoo().tocsr().data, "system": lambda A, d: sl.spsolve((A + PLAIN).tocsc(), d[:3]),
}
CUT: dict[str, Callable[[Any], Any]] = {
    "slices": lambda A: A[1:, [0, 2]].toarray(), "grids": lambda A: A[np.ix_([0, 2], [1, 2])].toarray(),
    "rows, then columns": lambda A: A[np.array([0, 2])][:, np.array([1, 2])].toarray(), "an element": lambda A: A[1, 2] * A[0, 2],
}
MADE: dict[str, Callable[[Any], Any]] = {
    "csr of lists": lambda d: sp.csr_matrix((d, np.array([0, 1, 2, 0, 2, 1]), np.array([0, 2, 4, 6])), shape=(3, 3)).toarray(),
    "csc of lists": lambda d: sp.csc_array((d, np.array([0, 1, 2, 0, 2, 1]), np.array([0, 2, 4, 6])), shape=(3, 3)) @ d[:3],
    "diags": lambda d: sp.diags([-d[1:], d, 2.0 * d[1:]], [-1, 0, 1]) @ np.arange(6.0),
    "diags of numbers": lambda d: sp.diags([-d[0], 2 * d[1], -1.0], [-1, 0, 1], shape=(4, 4)).toarray(),
    "one diagonal": lambda d: sp.diags(d).toarray() + sp.diags_array(d).tocsr().toarray(),
    "diags_array": lambda d: sp.diags_array([-d[1:], d], offsets=[-1, 0], format="csr").toarray(),
    "spdiags": lambda d: sp.spdiags([d, 2 * d], [0, 1], 6, 6).toarray(),
    "dia_matrix": lambda d: sp.dia_matrix((np.stack([d, 2 * d]), [0, -1]), shape=(6, 6)).toarray(),
    "kron": lambda d: (sp.kron(sp.diags(d), sp.eye(2)) + sp.kron(sp.eye(2), sp.diags(d))) @ np.arange(12.0),
    "bmat": lambda d: sp.bmat([[sp.diags(d), None], [sp.eye(6), sp.diags(d**2)]]).toarray(),
    "stacks": lambda d: sp.hstack([sp.diags(d), sp.eye(6)]) @ (sp.vstack([sp.eye(6), sp.diags(d)]) @ np.arange(6.0)),
    "block_diag, tril": lambda d: sp.tril(sp.block_diag([sp.diags([d, d[1:]], [0, 1]), sp.eye(2)])).toarray(),
    "plain with traced operands": lambda d: (PLAIN * d[0] + d[1] * PLAIN - PLAIN / d[2] + PLAIN.multiply(d[:3])) @ d[3:],
    "a power": lambda d: (sp.csr_matrix((d, PLACES)) ** 3).toarray() + (sp.csr_array((d, PLACES)) ** 3).toarray(),
    "systems": lambda d: sl.spsolve(sp.diags([-d[1:], 5 * d, -d[1:]], [-1, 0, 1], format="csc"), np.outer(d, [1.0, 2.0])),
    "factors of traced elements": lambda d: sl.splu(sp.diags([-d[1:], 5 * d], [-1, 0], format="csc")).solve(d, "T") + sl.factorized(
        sp.diags(d, format="csc"))(d),
    **{f"factors {how}": (lambda d, how=how: FACTORS.solve(d[:3], how) + FACTORS.solve(np.outer(d[:3], d[:2]), how)[:, 1])
       for how in "NTH"},
    **{f"complex factors {how}": (lambda d, how=how: COMPLEX_FACTORS.solve(d[:3] + 1j * d[3:], how).imag) for how in "NTH"},
    **{name: (lambda d, name=name: getattr(sl, name)(sp.diags([-d[1:], 5 * d, -d[1:]], [-1, 0, 1]).tocsr(), d, rtol=1e-13)[0])
       for name in ("cg", "gmres", "bicgstab")},
    "norm": lambda d: np.array([sl.norm(sp.diags(d)), sl.norm(sp.diags(d), 1)]),
}


def check(function: Callable[[Any], Any]) -> None:
    expected = function(D)
    direction = np.cos(np.arange(D.size))

    def loss(d: Any) -> Any:
        values = function(d)
        return np.sum(values ** 2), values

    gradient, found = aj.grad(aj.compile(loss, backend="interpret"), has_aux=True)(D)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    found, h = gradient @ direction, 1e-6
    np.testing.assert_allclose(found, (loss(D + h * direction)[0] - loss(D - h * direction)[0]) / (2 * h), rtol=1e-5, atol=1e-7)


@pytest.mark.share(8)
@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("name", OF_EACH)
def test_operations_of_each_class(name: str, kind: Any) -> None:
    check(lambda d: OF_EACH[name](kind((d, PLACES), shape=(3, 3)), d))


@pytest.mark.share(5)
@pytest.mark.parametrize("kind", CLASSES[:4])
@pytest.mark.parametrize("name", CUT)
def test_parts_of_each_class(name: str, kind: Any) -> None:
    check(lambda d: CUT[name](kind((d, PLACES))))


@pytest.mark.share(4)
@pytest.mark.parametrize("name", MADE)
def test_what_makes_them(name: str) -> None:
    check(MADE[name])


def test_second_derivatives_and_maps_of_a_system() -> None:
    system = lambda d: sl.spsolve(sp.diags([-d[1:], 5 * d, -d[1:]], [-1, 0, 1], format="csc"), np.ones(6))      # noqa: E731
    dense = lambda d: np.linalg.solve(np.diag(5 * d) - np.diag(d[1:], 1) - np.diag(d[1:], -1), np.ones(6))      # noqa: E731
    found, expected = (aj.hessian(lambda d, f=f: np.sum(f(d) ** 2))(D) for f in (system, dense))
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    np.testing.assert_allclose(aj.vmap(system)(np.stack([D, D + 1.0])), np.stack([system(D), system(D + 1.0)]), rtol=1e-12)


def test_results_are_scipys() -> None:
    for kind in CLASSES:
        found = aj.compile(lambda d, kind=kind: kind((d, PLACES)) * 2.0, backend="interpret")(D)
        assert type(found) is kind
        np.testing.assert_array_equal(found.toarray(), kind((D, PLACES)).toarray() * 2.0)
    asked = aj.compile(lambda d: (sp.issparse(A := sp.csr_matrix((d, PLACES))), isinstance(A, sp.csr_matrix), isinstance(A, sp.csc_matrix)))
    assert asked(D) == (True, True, False)


@pytest.mark.parametrize(("function", "message"), [
    (lambda d: sp.csr_matrix(np.diag(d)), "values decide which elements are stored"),
    (lambda d: sp.csr_array((d, (d.astype(int), d.astype(int)))), "places of elements of a sparse array are traced"),
    (lambda d: sp.diags(d).todense(), r"is an np.matrix"), (lambda d: sp.diags(d).sum(axis=0), r"is an np.matrix"),
    (lambda d: sp.diags(d).max(), "max of a sparse array of traced elements"),
    (lambda d: sp.csr_array((d, PLACES))[0], "one dimension"),
    (lambda d: sp.diags(d) == sp.diags(d), "comparisons of sparse arrays"),
    (lambda d: np.dot(sp.diags(d), d), r"np\.dot of a sparse array"),
    (lambda d: sl.spsolve(PLAIN, sp.diags(d[:3], format="csc")), "sparse right-hand side"),
])
def test_what_is_refused(function: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(UnsupportedError, match=message) as caught:
        aj.compile(function)(D)
    assert caught.value.location.file.endswith("test_sparse_matrices.py")


def test_sparse_arguments_are_closed_over() -> None:
    with pytest.raises(UnsupportedError, match=r"(?s)the argument A is a scipy\.sparse.*close over the sparse array"):
        aj.compile(lambda A, x: A @ x)(PLAIN, D[:3])


def test_functions_in_c_say_what_they_take() -> None:
    solve = sl.factorized(PLAIN)
    with pytest.raises(TraceError, match=r"a function that is written in C takes NumPy's own arrays.*\n[^?]*splu"):
        aj.compile(lambda d: solve(d[:3]))(D)
