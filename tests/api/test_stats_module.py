"""`adjit.stats`: bijections against their Jacobians, inverses and compiled forms; trees of them; densities that are one kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit import stats
from adjit.ir.errors import ShapeError, TraceError

RNG = np.random.default_rng(0)
LOWER = np.tril(np.ones((3, 3), bool)).ravel()


@pytest.mark.parametrize(("bijection", "size", "rows", "holds"), [
    (stats.real, 3, None, lambda x: True),
    (stats.positive, 3, None, lambda x: np.all(x > 0)),
    (stats.greater(np.array([1.0, 2.0, 3.0])), 3, None, lambda x: np.all(x > [1.0, 2.0, 3.0])),
    (stats.less(2.0), 3, None, lambda x: np.all(x < 2.0)),
    (stats.interval(-1.0, 3.0), 4, None, lambda x: np.all((x > -1) & (x < 3))),
    (stats.ordered, 4, None, lambda x: np.all(np.diff(x) > 0)),
    (stats.simplex, 4, [True] * 4 + [False], lambda x: np.all(x > 0) and np.isclose(np.sum(x), 1.0)),
    (stats.cholesky_factor, 6, LOWER, lambda x: not np.triu(x, 1).any() and np.all(np.diagonal(x) > 0))],
    ids=["real", "positive", "greater", "less", "interval", "ordered", "simplex", "cholesky_factor"])
def test_bijections(bijection: Any, size: int, rows: Any, holds: Any) -> None:
    u = RNG.normal(size=size)
    x = bijection.forward(u)
    assert holds(x)
    np.testing.assert_allclose(bijection.inverse(x), u, atol=1e-14)

    @aj.compile
    def all_of_it(u: Any) -> Any:
        x = bijection.forward(u)
        matrix = aj.jacobian(lambda u: np.reshape(bijection.forward(u), (-1,)))(u)
        return x, bijection.inverse(x), bijection.log_jacobian(u), aj.grad(bijection.log_jacobian)(u), matrix

    compiled, back, log_jacobian, gradient, matrix = all_of_it(u)
    np.testing.assert_allclose(compiled, x, rtol=1e-14)
    np.testing.assert_allclose(back, u, atol=1e-14)
    np.testing.assert_allclose(log_jacobian, np.linalg.slogdet(matrix if rows is None else matrix[rows])[1], atol=1e-12)
    np.testing.assert_allclose(bijection.log_jacobian(u), log_jacobian, atol=1e-14)
    ends = [all_of_it(u + step * gradient)[2] for step in (1e-6, -1e-6)]
    np.testing.assert_allclose((ends[0] - ends[1]) / 2e-6, gradient @ gradient, atol=1e-7)
    if np.ndim(getattr(bijection, "bound", 0)) == 0:
        both = bijection.forward(np.stack([u, 2 * u]))
        np.testing.assert_allclose(both[0], x, rtol=1e-14)
        assert both.shape == (2, *x.shape)


def test_trees() -> None:
    bijections = {"rest": stats.positive, "share": stats.interval(0.0, 1.0)}
    u = {"rest": [0.5, np.array([1.0, -1.0])], "share": -0.3}
    x, log_jacobian = stats.constrain(bijections, u)
    np.testing.assert_allclose(x["rest"][1], np.exp([1.0, -1.0]))
    np.testing.assert_allclose(log_jacobian, 0.5 + 0.0 + np.log(x["share"] * (1 - x["share"])))
    np.testing.assert_allclose(stats.unconstrain(bijections, x)["rest"][1], [1.0, -1.0])
    with pytest.raises(TraceError, match="another structure"):
        stats.constrain({"other": stats.real}, u)
    with pytest.raises(TraceError, match="no bijection"):
        stats.constrain({"rest": np.exp, "share": stats.real}, u)
    with pytest.raises(ShapeError, match="at least 1 axes"):
        stats.simplex.forward(0.5)
    with pytest.raises(ShapeError, match="no triangle"):
        stats.cholesky_factor.forward(np.zeros(4))
    with pytest.raises(AttributeError):
        stats.nothing  # noqa: B018


def test_densities_are_one_kernel() -> None:
    """Over the data: of one density, of two, and of a density with its gradient in the parameters."""
    x = RNG.normal(size=1000)

    def large(f: Any, *args: Any) -> int:
        f(*args)
        return sum(" = fused " in line and "%x" in line for line in f.ir("planned").splitlines() if not line.startswith("    "))

    assert large(aj.compile(lambda m, s, x: np.sum(stats.norm.logpdf(x, m, s))), 0.0, 1.0, x) == 1
    assert large(aj.compile(lambda m, s, x: np.sum(stats.norm.logpdf(x, m, s) + stats.logistic.logpdf(x, m, s))), 0.0, 1.0, x) == 1
    assert large(aj.compile(aj.value_and_grad(lambda p, x: np.sum(stats.norm.logpdf(x, p[0], p[1])))), (0.0, 1.0), x) == 1
