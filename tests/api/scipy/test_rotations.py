"""Rotations by traced numbers, as SciPy's users write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import adjit as aj
from adjit.ir.errors import UnsupportedError

V = np.array([[0.3, -0.7, 0.4], [1.2, 0.1, -0.8], [-0.2, 0.9, 1.4]])
Q = np.concatenate([V, [[0.5], [-0.4], [1.1]]], axis=1)
KNOWN = Rotation.from_rotvec(V[::-1] / 2.0)

FUNCTIONS: dict[str, tuple[Callable[[Any], Any], np.ndarray]] = {
    "vectors": (lambda r: np.concatenate(
        [Rotation.from_rotvec(r).as_quat(), Rotation.from_rotvec(30 * r, degrees=True).as_rotvec()], -1), V),
    "at zero": (lambda r: Rotation.from_rotvec(r).as_matrix() + Rotation.from_rotvec(r).as_rotvec(), np.zeros(3)),
    "quaternions": (lambda q: (
        Rotation.from_quat(q).as_quat(canonical=True, scalar_first=True) + Rotation.from_quat(q).magnitude()[:, None]), Q),
    "parameters": (lambda r: Rotation.from_mrp(r).as_mrp() + Rotation.from_quat(r[[0, 1, 2, 0]], scalar_first=True).as_rotvec(), V[0]),
    "one vector": (lambda r: Rotation.from_rotvec(r).apply(V[1]) + Rotation.from_rotvec(r).apply(V, inverse=True), V[0]),
    "many": (lambda r: Rotation.from_rotvec(r).apply(V[1]) + Rotation.from_rotvec(r)[1:].apply(V[0])[0], V),
    "of plain numbers": (lambda v: KNOWN.apply(v) + KNOWN[0].apply(v, inverse=True), V),
    "products": (lambda r: (Rotation.from_rotvec(r) * KNOWN * Rotation.from_rotvec(r).inv()).as_rotvec(), V[0]),
    "a product of plain ones": (lambda r: (KNOWN * Rotation.from_rotvec(r) ** 0.5).as_matrix(), V),
    "one axis": (lambda a: Rotation.from_euler("z", a[0]).as_matrix() + Rotation.from_euler("zx", a[:2], degrees=True).as_matrix(), V[0]),
    **{f"angles {axes}": (lambda a, axes=axes: Rotation.from_euler(axes, a).as_matrix()[0] + Rotation.from_rotvec(a).as_euler(axes), V)
       for axes in ("xyz", "XYZ", "zxz", "YXY", "zyx")},
    "locked angles": (lambda a: Rotation.from_euler(
        "xyz", a * np.array([1.0, 0.0, 1.0]) + np.array([0.0, np.pi / 2.0, 0.0])).as_matrix(), V[0]),
}


def check(function: Callable[[Any], Any], x: np.ndarray) -> None:
    def loss(x: Any) -> Any:
        values = function(x)
        return np.sum(np.sin(values)), values

    gradient, found = aj.grad(aj.compile(loss, backend="interpret"), has_aux=True)(x)
    np.testing.assert_allclose(found, function(x), rtol=1e-11, atol=1e-12)
    direction, h = np.cos(np.arange(x.size)).reshape(x.shape), 1e-6
    expected = (loss(x + h * direction)[0] - loss(x - h * direction)[0]) / (2 * h)
    np.testing.assert_allclose(np.sum(gradient * direction), expected, rtol=1e-5, atol=1e-8)


@pytest.mark.share(5)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_rotations(name: str) -> None:
    check(*FUNCTIONS[name])


def test_results_are_scipys() -> None:
    found = aj.compile(lambda r: Rotation.from_rotvec(r))(V)
    assert isinstance(found, Rotation)
    np.testing.assert_allclose(found.as_matrix(), Rotation.from_rotvec(V).as_matrix(), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(("function", "message"), [
    (lambda r: Rotation.from_matrix(np.outer(r, r)), "SciPy replaces by the nearest rotation"),
    (lambda r: Rotation.from_rotvec(r).reduce(), "reduce of a rotation by traced numbers")])
def test_what_is_refused(function: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        aj.compile(function)(V[0])
