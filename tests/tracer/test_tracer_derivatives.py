"""Functions made of several ops have the derivatives that their documentation promises."""

from __future__ import annotations

import numpy as np
import pytest

import adjit as aj
from adjit.ir.errors import TraceError

RNG = np.random.default_rng(0)
M = RNG.uniform(-2, 2, (3, 4))
V = RNG.uniform(0.5, 2, 4)


def numerical(fun, x, step=1e-6):
    gradient = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        high, low = x.copy(), x.copy()
        high[place] += step
        low[place] -= step
        gradient[place] = (fun(high) - fun(low)) / (2 * step)
    return gradient


def writes(x):
    y = x.copy()
    y[0] = 2 * y[1]
    y[:, 1] *= y[:, 2]
    row = y[2]
    row += y[0] ** 2
    y[[0, 1], [3, 0]] = np.sin(y[1, :2])
    return y


def traced_index(x):
    order = np.argmax(x, axis=1)
    y = x.copy()
    y[0, order] = 3 * x[1, order]
    return y[np.array([0, 2]), order[:2]] * x[:, order].sum()


FUNCTIONS = {
    "logsumexp": lambda x: aj.numpy.logsumexp(x, axis=1) * np.array([1.0, 2.0, 3.0]),
    "softmax": lambda x: aj.numpy.softmax(x, axis=0) * M,
    "log_softmax": lambda x: aj.numpy.log_softmax(x) * M,
    "sigmoid": aj.numpy.sigmoid,
    "erf": aj.numpy.erf,
    "mean": lambda x: np.mean(x, axis=0) ** 2,
    "var": lambda x: np.var(x, axis=1, ddof=1),
    "std": lambda x: np.std(x, keepdims=True),
    "prod": lambda x: np.prod(x, axis=1),
    "cumsum": lambda x: np.cumsum(x, axis=1) ** 2,
    "cumprod": lambda x: np.cumprod(x),
    "max": lambda x: x.max(axis=1) * V[:3],
    "sort": lambda x: np.sort(x, axis=0) * M,
    "where": lambda x: np.where(x > 0, x**3, np.exp(x)),
    "clip": lambda x: np.clip(x, -1.1, 0.9) * M,
    "power": lambda x: np.abs(x) ** x,
    "hypot": lambda x: np.hypot(x, x[0]),
    "matmul": lambda x: (x @ M.T) ** 2,
    "stacked_matmul": lambda x: np.stack([x, 2 * x]) @ x.T,
    "vectors": lambda x: np.append(x @ x[0], x[:, 0] @ x),
    "einsum": lambda x: np.einsum("ij,kj,lk->il", x, M, x[:, :3]),
    "diagonal": lambda x: np.einsum("ii->i", x[:, :3] ** 2),
    "tensordot": lambda x: np.tensordot(x, x, ((0,), (0,))),
    "take": lambda x: np.take(x, [0, 2, 2, -1], axis=1) ** 2,
    "take_along": lambda x: np.take_along_axis(x, np.argsort(x, axis=1), axis=1) * M,
    "index": lambda x: x[[0, 2, 0], :, None][:, ::-2] ** 2,
    "mask": lambda x: x[M > 0] ** 3,
    "concatenate": lambda x: np.concatenate([x, x[::-1] ** 2], axis=1)[:, 2:7],
    "pad": lambda x: np.pad(x, ((1, 2), (0, 1)), mode="reflect") ** 2,
    "pad_constant": lambda x: np.pad(x, 1, constant_values=2.0) ** 2,
    "roll": lambda x: np.roll(x, 2, axis=1) * M,
    "tril": lambda x: np.tril(x) ** 2,
    "diag": lambda x: np.diag(x[0], 1) @ np.diag(np.diag(x[:, :3]), 2),
    "repeat": lambda x: np.repeat(x, [1, 0, 2], axis=0) ** 2,
    "tile": lambda x: np.tile(x, (2, 1)) ** 2,
    "norm": lambda x: np.sqrt(np.sum(x * x)),
    "logaddexp": lambda x: np.logaddexp(x, x.mean()),
    "copysign": lambda x: np.copysign(x, M),
    "fmod": lambda x: np.fmod(x, 0.7),
    "average": lambda x: np.average(x, axis=0, weights=np.array([1.0, 2.0, 4.0])),
    "meshgrid": lambda x: np.multiply(*np.meshgrid(x[0], x[1])),
    "writes": writes,
    "traced_index": traced_index,
    "in_place": lambda x: np.multiply(x, x, out=x * 1.0),
    "sinc": np.sinc,
    "linspace": lambda x: aj.numpy.linspace(x[0], x[1], 4) ** 2,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_against_finite_differences(name):
    def scalar(x):
        return np.sum(np.cos(FUNCTIONS[name](x)))

    np.testing.assert_allclose(aj.compile(aj.grad(scalar), backend="interpret")(M), numerical(scalar, M), rtol=1e-5, atol=1e-7)


def test_logsumexp_of_nothing_but_minus_infinity_has_no_nan():
    x = np.array([[-np.inf, -np.inf], [0.0, -np.inf]])
    value, gradient = aj.value_and_grad(lambda x: aj.numpy.logsumexp(x, axis=1)[1] + np.exp(aj.numpy.logsumexp(x, axis=1)[0]))(x)
    assert value == 0
    np.testing.assert_array_equal(gradient, [[0, 0], [1, 0]])
    np.testing.assert_allclose(aj.grad(aj.numpy.logsumexp)(np.array([1e4, 1e4])), [0.5, 0.5])


def test_derivatives_where_a_formula_changes():
    second = aj.grad(aj.grad(np.sinc))
    np.testing.assert_allclose(second(0.0), -np.pi ** 2 / 3, rtol=1e-14)
    np.testing.assert_allclose(second(np.nextafter(0.03, 0.0)), second(0.03), rtol=1e-10)
    np.testing.assert_allclose(second(1e-9), -np.pi ** 2 / 3, rtol=1e-14)
    for x in (-2.0, -0.0, 0.0, 2.0):
        assert aj.grad(lambda x: np.fmod(x, 0.7))(x) == 1
        assert aj.grad(lambda y, x=x: np.fmod(x, y))(0.7) == -np.trunc(x / 0.7)
    assert np.signbit(aj.compile(lambda x: np.fmod(x, 0.7))(-0.0))


def test_choices_at_kinks():
    np.testing.assert_array_equal(aj.grad(np.max)(np.array([2.0, 1.0, 2.0])), [0.5, 0, 0.5])
    np.testing.assert_array_equal(aj.grad(lambda x: np.abs(x).sum())(np.array([-1.0, 0.0, 2.0])), [-1, 0, 1])
    np.testing.assert_array_equal(aj.grad(lambda x: np.sort(x) @ np.array([1.0, 2.0, 3.0]))(np.array([3.0, 1.0, 2.0])), [3, 1, 2])
    np.testing.assert_array_equal(aj.grad(lambda x: np.clip(x, 0, 1).sum())(np.array([0.0, 0.5, 1.0, 2.0])), [0.5, 1, 0.5, 0])


def test_the_branch_not_taken_does_not_poison_the_gradient():
    x = np.array([0.0, 4.0])
    np.testing.assert_array_equal(aj.grad(lambda x: np.where(x > 0, np.sqrt(x), 0.0).sum())(x), [0, 0.25])


# -- Python numbers that only decide, or are shown

def newton(a):
    x = a
    for _ in range(30):
        step = (x * x - a) / (2 * x)
        err = float(abs(step))
        if err < 1e-12:
            break
        x = x - step
    return x


def shown(a):
    text = f"{float(a):.2f}"
    print(text, a.item(), str(float(a)))
    return a * a * len(text)


def shown_beside(a):
    other, number = 3, float(a)
    print(other, number, end=" ")
    if number < other:
        print(f"{number}", flush=True)
    return a * a


def integer(a):
    return a * int(float(a))


@pytest.mark.filterwarnings("ignore:calls of")
@pytest.mark.parametrize("function", [newton, shown, shown_beside, integer])
def test_numbers_that_decide_or_are_shown_cost_no_derivative(function):
    gradient = aj.grad(function)
    for x in (2.25, 3.5, 0.75, 2.25):
        expected = (function(np.float64(x + 1e-6)) - function(np.float64(x - 1e-6))) / 2e-6
        np.testing.assert_allclose(gradient(x), expected, rtol=1e-6)


def kept_in_a_name(a):
    y = float(a)
    if y > 1:
        a = a * 2
    return a * y


def kept_in_a_list(a):
    return a * [float(a)][0]


def kept_by_a_function(a):
    y = float(a)

    def later():
        return y
    return a * later()


def given_to_a_function(a):
    return a * max(float(a), 1.0)


def of_another_name(a):
    y = float(a)
    z = y
    return a * z


def returned(a):
    def number(x):
        return float(x)
    return a * number(a)


def renamed(a):
    print = abs
    return a * print(float(a))


class Formatter:
    def format(self, x):
        return x


def beside_a_name(a):
    return a * [str, float(a)][1] if a is None else a * (lambda _, x: x)(str, float(a))


def by_a_method(a):
    return a * Formatter().format(float(a))


@pytest.mark.parametrize("function", [kept_in_a_name, kept_in_a_list, kept_by_a_function, given_to_a_function, of_another_name, returned,
                                      renamed, beside_a_name, by_a_method])
def test_numbers_through_which_a_derivative_could_go_are_refused(function):
    with pytest.raises(TraceError, match="through which no derivative goes"):
        aj.grad(function)(2.0)
