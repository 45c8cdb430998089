"""Traced arrays answer questions about their type for what they stand for: code that asks takes the branch that it takes in NumPy."""

from __future__ import annotations

import copy
import functools
import numbers
import pickle
from collections.abc import Callable, Iterable, Sequence, Sized
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit.errors import AdjitError
from adjit.tracer.array import TracedArray

TYPES = (np.ndarray, np.generic, np.number, np.floating, np.integer, np.inexact, np.float64, np.float32, np.int64, np.bool_, float, int,
         str, list, tuple, numbers.Number, numbers.Real, numbers.Integral, Iterable, Sized, Sequence, TracedArray, dict)
VECTOR, MATRIX, WHOLE = np.arange(1.0, 4.0), np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(3)


def answers(x: Any) -> dict[str, Any]:
    found: dict[str, Any] = {kind.__name__: isinstance(x, kind) for kind in TYPES if kind is not TracedArray}
    found |= {name: hasattr(x, name) for name in ("__len__", "__iter__", "append", "keys")}
    return found | {"isscalar": np.isscalar(x), "ndim": np.ndim(x), "class": x.__class__, "callable": callable(x),
                    "iterable": np.iterable(x)}


VALUES: dict[str, Callable[..., Any]] = {
    "a vector": lambda v, m, i, s, f: v, "a matrix": lambda v, m, i, s, f: m, "integers": lambda v, m, i, s, f: i,
    "a NumPy scalar": lambda v, m, i, s, f: s, "a Python float": lambda v, m, i, s, f: f,
    "a mask": lambda v, m, i, s, f: v > 1, "an element": lambda v, m, i, s, f: v[0], "a row": lambda v, m, i, s, f: m[0],
    "one integer": lambda v, m, i, s, f: i[1], "one bool": lambda v, m, i, s, f: v[0] > 1, "a sum": lambda v, m, i, s, f: np.sum(v),
    "a float32": lambda v, m, i, s, f: m.max(), "a mean of integers": lambda v, m, i, s, f: i.mean(),
    "a product": lambda v, m, i, s, f: v @ v,
    "sums of rows": lambda v, m, i, s, f: m.sum(axis=0), "kept dimensions": lambda v, m, i, s, f: np.sum(v, keepdims=True),
    "a ufunc of a float": lambda v, m, i, s, f: np.sin(f), "arithmetic with a float": lambda v, m, i, s, f: 2 * f + 1,
    "a power of a float": lambda v, m, i, s, f: f**2, "a scalar and a float": lambda v, m, i, s, f: s * f,
    "of no dimension": lambda v, m, i, s, f: np.where(v[0] > 0, v[0], 0.0), "an ellipsis": lambda v, m, i, s, f: v[0, ...],
    "reshaped to none": lambda v, m, i, s, f: v[:1].reshape(()), "a scalar again": lambda v, m, i, s, f: v[:1].reshape(())[()],
    "a transposed view": lambda v, m, i, s, f: m.T, "empty": lambda v, m, i, s, f: v[:0], "a copy": lambda v, m, i, s, f: copy.copy(v),
    "a deep copy of a scalar": lambda v, m, i, s, f: copy.deepcopy(s * 1.0), "astype": lambda v, m, i, s, f: v.sum().astype(np.int64),
    "argmax": lambda v, m, i, s, f: np.argmax(v), "norm": lambda v, m, i, s, f: np.linalg.norm(v), "std": lambda v, m, i, s, f: np.std(v),
    "negative float": lambda v, m, i, s, f: -f, "an outer product": lambda v, m, i, s, f: np.outer(v, v),
}
ARGUMENTS = (VECTOR, MATRIX, WHOLE, np.float64(2.5), 1.5)


@pytest.mark.parametrize("name", VALUES)
def test_answers_are_those_of_numpy(name: str) -> None:
    def run(*arguments: Any) -> Any:
        found.append(answers(VALUES[name](*arguments)))
        return arguments[0]

    found: list[dict[str, Any]] = []
    run(*ARGUMENTS)
    aj.compile(run)(*ARGUMENTS)
    assert found[1] == found[0]


def test_programs_that_ask_are_right() -> None:
    def helper(x: Any) -> Any:
        return 2 * x if isinstance(x, np.ndarray) else 3 * x

    @functools.singledispatch
    def kind(x: Any) -> Any:
        raise NotImplementedError(type(x))

    kind.register(np.ndarray)(lambda x: x * 5)
    kind.register(float)(lambda x: x * 7)

    def of(x: Any) -> Any:
        match x:
            case np.ndarray():
                return x.sum()
            case float():
                return 10 * x

    def loss(x, a):
        total = np.sum(helper(x)) + helper(np.sum(x)) + helper(a) + np.sum(kind(x)) + kind(a) + of(x) + of(a)
        for value in (x, a):
            total = total + (np.sum(value[1:]) if hasattr(value, "__len__") else value)
            total = total + sum(value if isinstance(value, Iterable) else [value])
            total = total * (1.5 if np.isscalar(value) else 1.0)
        return total

    assert aj.compile(loss)(VECTOR, 0.5) == pytest.approx(loss(VECTOR, 0.5))
    step = 1e-6
    expected = [(loss(VECTOR + step * row, 0.5) - loss(VECTOR - step * row, 0.5)) / (2 * step) for row in np.eye(3)]
    np.testing.assert_allclose(aj.grad(loss)(VECTOR, 0.5), expected, rtol=1e-7)


def test_an_argument_of_no_dimension_is_an_array_and_a_scalar_is_a_scalar() -> None:
    found: list[dict[str, Any]] = []
    function = aj.compile(lambda x: (found.append(answers(x)), x * 2)[1])
    assert function(np.array(2.0)) == function(np.float64(2.0)) == function(np.array(2.0)) == 4.0
    assert found == [answers(np.array(2.0)), answers(np.float64(2.0)), answers(np.array(2.0))]


def test_bodies_of_loops_and_branches_ask_too() -> None:
    found: list[Any] = []

    def body(i: Any, carry: Any) -> Any:
        found.append((isinstance(carry, np.ndarray), isinstance(i, np.integer), isinstance(carry[0], float)))
        return carry * 2.0

    np.testing.assert_array_equal(aj.compile(lambda x: aj.fori_loop(0, 3, body, x))(VECTOR), VECTOR * 8)
    assert set(found) == {(True, True, True)}
    seen: list[bool] = []
    aj.compile(lambda x: aj.cond(x[0] > 0, lambda y: (seen.append(isinstance(y, np.ndarray)), y)[1], lambda y: -y, x))(VECTOR)
    assert seen
    assert all(seen)


def test_tensors_are_no_arrays_here_as_elsewhere() -> None:
    found: list[bool] = []
    function = aj.compile(lambda t: (found.append(isinstance(t, np.ndarray)), t * 2)[1])
    function(aj.tensor([1.0, 2.0]))
    found.append(isinstance(aj.tensor([1.0]), np.ndarray))
    assert found == [False, False]


@pytest.mark.parametrize("use", [lambda s: list(s), lambda s: next(iter(s)), lambda s: len(s),
                                 lambda s: max(s), lambda s: 1.0 in s])
def test_a_scalar_is_not_looped_over(use: Callable[[Any], Any]) -> None:
    for scalar in (lambda x: x.sum(), lambda x: x[0] * 1.0):
        with pytest.raises((TypeError, IndexError)):
            use(scalar(VECTOR))
        with pytest.raises(TypeError):
            aj.compile(lambda x, scalar=scalar: use(scalar(x)))(VECTOR)


def test_who_looks_at_the_object_itself_is_not_misled() -> None:
    """C code sees that it is no array: nothing reads memory that is not there."""
    def converts(use: Callable[[Any], Any]) -> None:
        with pytest.raises((AdjitError, TypeError, pickle.PicklingError)):
            aj.compile(use)(VECTOR)

    converts(lambda x: np.frombuffer(x))
    converts(lambda x: memoryview(x))
    converts(lambda x: float.__add__(x[0], 1.0))
    converts(lambda x: np.ndarray.sum(x))
    converts(lambda x: pickle.dumps(x))
    converts(lambda x: np.random.default_rng(0).normal(x))


def test_functions_of_ours_are_not_misled() -> None:
    """They ask whether something is a number or an array whose values are known."""
    def everything(x, a, i):
        places = np.argsort(x)
        parts = [x ** a, x ** i[1], np.power(2.0, a), np.pad(x, 1, constant_values=a), np.clip(x, a, x[2]), np.full_like(x, a), x[i],
                 x[i[0]], np.take(x, places), np.where(x > a, x, a), np.sum(x, initial=a), np.linspace(0.0, 1.0, 3) * a, x[None, i[1]]]
        y = np.zeros_like(x)
        y[i[0]] = a
        y[places] += x
        y[x > a] = a
        return [part * 1.0 for part in (*parts, y)]

    for found, expected in zip(aj.compile(everything)(VECTOR, 1.5, WHOLE), everything(VECTOR, 1.5, WHOLE), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-14)
    key = aj.random.key(0)
    assert aj.compile(lambda key, low: aj.random.randint(key, 3, low, low + 5))(key, WHOLE[1]).shape == (3,)
    value, pullback = aj.vjp(lambda x: x * x[0], VECTOR)
    np.testing.assert_array_equal(aj.compile(lambda x: aj.vjp(lambda y: y * y[0], x)[1](x * 1.0)[0])(VECTOR), pullback(VECTOR * 1.0)[0])
    assert value.shape == (3,)
    assert aj.compile(lambda n: aj.while_loop(lambda c: c < n, lambda c: c + 1.0, 0.0))(4.5) == 5.0
    weight = aj.tensor([1.0, 2.0])
    np.testing.assert_allclose(aj.compile(lambda t, a: t.add(t, alpha=a))(weight, 1.0).numpy(), [2.0, 4.0])


TABLE = np.ones(3)


def test_type_gives_the_class_that_stands() -> None:
    log: list[Any] = []

    def described(x: Any, v: Any) -> Any:
        log.append([type(each) for each in (x, x > 0, round(x), v, v[0], v > 0, np.zeros(2), TABLE, log, v[:, None])])
        return type(x)(3) * x if type(log) is list else x

    plain = described(1.5, VECTOR), log.pop()
    for _ in range(2):
        assert (aj.compile(described)(1.5, VECTOR), log.pop()) == plain
    assert "type" not in globals()
    assert aj.compile(lambda x: 2 * x if type(TABLE) is np.ndarray and type(type(x)) is type else x)(1.0) == 1.0


@pytest.mark.parametrize("given", [1.5, np.ones(2)])
def test_metaclasses_and_classes_made_by_type(given: Any) -> None:
    def f(x: Any) -> Any:
        made = type("Made", (), {"rate": 3.0})
        return x * made.rate * isinstance(made, type) * issubclass(made, object)

    np.testing.assert_array_equal(aj.compile(f)(given), f(given))
