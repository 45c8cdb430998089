"""`jacobian`, `jacfwd`, `jacrev`, `hessian`: modes, trees, lists of numbers; that they stay small where outputs are many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.each import parametrize_within

import adjit as aj
from adjit.ir.errors import NonDifferentiableError

T = np.linspace(0.0, 1.0, 50)
P = np.array([1.0, 2.0, 3.0, 4.0])
X = np.array([0.3, -0.7, 1.2])


def residuals(p: Any, t: Any) -> Any:
    return p[0] * np.exp(-p[1] * t) * np.sin(p[2] * t) + p[3]


def looped(x: Any) -> Any:
    return aj.scan(lambda c, v: (np.tanh(c * v) + v, c), np.sum(x), x)[1]


def searched(x: Any) -> Any:
    return x * aj.while_loop(lambda z: np.abs(z * z - x[0] ** 2 - 1) > 1e-12, lambda z: 0.5 * (z + (x[0] ** 2 + 1) / z), 1.0)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "wide": lambda x: np.sum(np.sin(x)) * x[:1], "tall": lambda x: np.outer(x, np.exp(x)), "square": lambda x: np.tanh(x) * np.cumsum(x),
    "loop": looped, "while_loop": searched, "branch": lambda x: aj.cond(x[0] > 0, np.sin, np.cos, x),
    "solve": lambda x: np.linalg.solve(np.outer(x, x) + np.eye(3), x), "indices": lambda x: x[np.array([2, 0, 0, 1])] ** 2,
    "gradient": aj.grad(lambda x: np.sum(np.sin(x) * x[0])), "constant": lambda x: np.arange(3.0),
    "decision": lambda x: x * 2 if x[0] > 0 else x,
}


@parametrize_within("fun", FUNCTIONS.values(), ids=FUNCTIONS, share=3)
def test_both_modes_are_the_differences(fun: Callable[[Any], Any]) -> None:
    step = 1e-6
    plain = aj.compile(fun)
    expected = np.stack([(plain(X + step * e) - plain(X - step * e)) / (2 * step) for e in np.eye(3)], -1)
    for transform in (aj.jacobian, aj.jacfwd, aj.jacrev):
        np.testing.assert_allclose(transform(fun)(X), expected, rtol=1e-6, atol=1e-8)
    second = aj.hessian(lambda x: np.sum(fun(x) ** 2))(X)
    np.testing.assert_allclose(second, aj.jacrev(aj.grad(lambda x: np.sum(fun(x) ** 2)))(X), rtol=1e-9, atol=1e-9)


def test_the_mode_is_the_one_with_fewer_directions() -> None:
    for fun, shape in ((lambda x: np.exp(x) * np.ones((7, 3)), "f64[3,7,3]"), (lambda x: np.exp(x[:2]) * np.sum(x), "f64[2,3]")):
        text = aj.compile(lambda x, fun=fun: aj.jacobian(fun)(x)).ir("traced", X)
        assert shape in text


def test_trees_of_arguments_and_results() -> None:
    def fun(p: dict[str, Any], scale: Any) -> tuple[Any, dict[str, Any]]:
        return p["a"] * scale, {"s": np.sum(p["b"]) * p["a"][0]}

    p = {"a": X, "b": np.ones((2, 2), np.float32)}
    for transform in (aj.jacfwd, aj.jacrev):
        first, second = transform(fun, (0, 1))(p, 2.0)
        by_p, by_scale = first
        np.testing.assert_array_equal(by_p["a"], 2 * np.eye(3))
        assert by_p["b"].shape == (3, 2, 2)
        assert by_p["b"].dtype == np.float32
        np.testing.assert_array_equal(by_scale, X)
        np.testing.assert_array_equal(second["s"][0]["a"], [4, 0, 0])
        np.testing.assert_allclose(second["s"][0]["b"], np.full((2, 2), X[0]), rtol=1e-6)
        np.testing.assert_array_equal(second["s"][1], 0)


@pytest.mark.parametrize("transform", [aj.jacobian, aj.jacfwd, aj.jacrev])
def test_lists_of_numbers_are_arrays(transform: Any) -> None:
    def motion(y: Any, k: Any) -> Any:
        assert isinstance(y, (list, np.ndarray))
        a, b = y
        return [b, -k * np.sin(a)]

    expected = [[0.0, 1.0], [-2.0, 0.0]]
    np.testing.assert_allclose(transform(motion)([0.0, 1.0], 2.0), expected)
    np.testing.assert_allclose(transform(motion)(np.array([0.0, 1.0]), 2.0), expected)
    np.testing.assert_allclose(aj.compile(lambda y: transform(motion)(y, 2.0))([0.0, 1.0]), expected)
    np.testing.assert_array_equal(transform(lambda m: [[m[0][0], m[1][1]], [m[0][1] ** 2, 0.0]])([[1.0, 2.0], [3.0, 4.0]])[1, 0],
                                  [[0.0, 4.0], [0.0, 0.0]])
    ragged = transform(lambda w: [w[0] * 2, w[1]])([X, 1.0])
    np.testing.assert_array_equal(ragged[0][0], 2 * np.eye(3))      # a list of arrays is a tree
    assert ragged[1][1] == 1.0
    np.testing.assert_allclose(aj.hessian(lambda y: y[0] ** 2 * y[1])([1.0, 2.0]), [[4.0, 2.0], [2.0, 0.0]])
    with pytest.raises(NonDifferentiableError, match=r"i64\[2\]"):
        transform(motion)([0, 1], 2.0)


def test_tall_jacobian_is_a_small_program() -> None:
    compiled = aj.compile(lambda p, t: aj.jacobian(residuals)(p, t))
    t = np.linspace(0.0, 1.0, 2000)
    text = compiled.ir("optimized", P, t)
    assert text.count("\n") < 60
    assert "f64[2000] = exp" in text                        # the function itself runs once
    assert "f64[4,2000] = strong_multiply" in text          # and the tangents lie along the long axis
    expected = [np.exp(-2 * t) * np.sin(3 * t), -t * np.exp(-2 * t) * np.sin(3 * t), t * np.exp(-2 * t) * np.cos(3 * t), np.ones(2000)]
    np.testing.assert_allclose(compiled(P, t), np.stack(expected, 1), rtol=1e-12, atol=1e-15)


def test_functions_with_callbacks_are_differentiated_in_reverse() -> None:
    def fun(x: Any) -> Any:
        return aj.pure_callback(np.sin, ((3,), float), x, vjp=lambda ct, result, x: ct * np.cos(x))

    np.testing.assert_allclose(aj.jacobian(fun)(X), np.diag(np.cos(X)))
    with pytest.raises(NonDifferentiableError):
        aj.jacfwd(fun)(X)


def test_tensors() -> None:
    x = aj.tensor(X, requires_grad=True)
    matrix = aj.jacobian(lambda x: x * x)(x)
    assert isinstance(matrix, aj.Tensor)
    matrix.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.full(3, 2.0))


def test_holomorphic_functions() -> None:
    """Matrices of complex derivatives, in both modes."""
    def function(z: Any) -> Any:
        return np.stack([z[0] ** 2 * z[1], np.exp(z[1]), 1j * z[0]])

    z = np.array([1 + 2j, 0.3 - 1j])
    expected = np.array([[2 * z[0] * z[1], z[0] ** 2], [0, np.exp(z[1])], [1j, 0]])
    for transform in (aj.jacobian, aj.jacfwd, aj.jacrev):
        np.testing.assert_allclose(transform(function, holomorphic=True)(z), expected, rtol=1e-12)
    found = aj.hessian(lambda z: z[0] ** 3 * z[1], holomorphic=True)(z)
    np.testing.assert_allclose(found, np.array([[6 * z[0] * z[1], 3 * z[0] ** 2], [3 * z[0] ** 2, 0]]), rtol=1e-12)
    with pytest.raises(aj.errors.NonDifferentiableError, match="have to be complex"):
        aj.jacobian(function, holomorphic=True)(z.real)
    with pytest.raises(aj.errors.NonDifferentiableError, match="arguments and outputs are complex"):
        aj.hessian(lambda z: np.abs(z[0]) ** 2)(z)


@pytest.mark.parametrize("transform", [aj.jacobian, aj.jacfwd, aj.jacrev])
def test_matrices_as_people_ask_for_them(transform: Any) -> None:
    """As decorators with arguments, with argnum= and argnames=, of methods, with has_aux."""
    def product(a: Any, b: Any) -> Any:
        return a * b

    class Model:
        factor = 2.0

        @transform
        def scaled(self, a: Any) -> Any:
            return self.factor * a

    a, b = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    for made in (transform(argnums=1)(product), transform(product, argnum=1), transform(product, argnames="b"), transform(product, 1)):
        np.testing.assert_array_equal(made(a, b), np.diag(a))
    np.testing.assert_array_equal(transform(product, argnames="b")(a, b=b), np.diag(a))
    np.testing.assert_array_equal(Model().scaled(a), 2.0 * np.eye(2))
    matrix, aux = transform(lambda a: (a * a, {"sum": np.sum(a)}), has_aux=True)(a)
    np.testing.assert_array_equal(matrix, np.diag(2 * a))
    assert aux == {"sum": 3.0}


def test_hessian_as_people_ask_for_it() -> None:
    def cubic(a: Any, b: Any) -> Any:
        return np.sum(a * b * b)

    a, b = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    for made in (aj.hessian(argnums=1)(cubic), aj.hessian(cubic, argnum=1), aj.hessian(cubic, argnames="b")):
        np.testing.assert_array_equal(made(a, b), np.diag(2 * a))
    matrix, aux = aj.hessian(lambda b: (np.sum(b ** 3), b), has_aux=True)(b)
    np.testing.assert_array_equal(matrix, np.diag(6 * b))
    np.testing.assert_array_equal(aux, b)
