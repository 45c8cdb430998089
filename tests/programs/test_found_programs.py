"""What random programs found, as the smallest program that shows it, against NumPy: results, dtypes, errors, and nothing stale."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit.codegen.llvm.target import host_targets
from adjit.errors import AdjitError

BACKENDS = ("interpret", *["native"] * bool(host_targets()))


def outcome(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return [np.asarray(result) for result in function(*arguments)]
    except (AdjitError, ValueError, TypeError) as error:
        return error


def written(array: Any) -> Any:
    array += 1
    return array


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("function", "argument"), [
    (lambda x: (x ** 2, np.power(x, 2), x ** 3), np.array([True, False])),
    (lambda x: (written(np.linalg.solve(np.eye(0), x)),), np.zeros((0, 4))),
    (lambda x: (written(np.linalg.solve(np.eye(4), x.T)),), np.zeros((0, 4))),
    (lambda x: (np.expand_dims(x, None),), np.ones(1)),
    (lambda x: (np.copyto(x * 1, x + 1, where=np.ones((2, 1, 1), bool) & (x > 0)),), np.ones(1)),
    (lambda x: (np.add(x, 1, out=x * 1, where=np.ones((2, 1, 1), bool)),), np.ones(1)),
    (lambda x: (np.sum(x, where=np.ones((2, 3), bool)),), np.ones(3)),
    (lambda x: (np.sum(x, 0, where=np.ones((2, 3), bool)),), np.ones((1, 3))),
    (lambda x: np.vsplit(x, 1), np.ones(3)),
], ids=["bool squared", "solve of nothing", "solve for nothing", "expand_dims without axis", "copyto where", "add where", "sum where",
        "sum where broadcast", "vsplit of a vector"])
def test_programs(function: Callable[..., Any], argument: Any, backend: str) -> None:
    found, wanted = outcome(aj.compile(function, backend=backend), argument), outcome(function, argument)
    assert isinstance(found, Exception) == isinstance(wanted, Exception)
    if not isinstance(wanted, Exception):
        assert [(array.dtype, array.shape) for array in found] == [(array.dtype, array.shape) for array in wanted]
        for array, expected in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(array, expected)


@pytest.mark.parametrize("take", [
    lambda y: np.ravel(y, order="F"), lambda y: y.T.reshape(-1), lambda y: y.T.ravel(), lambda y: y[:, ::2].reshape(-1),
    lambda y: np.transpose(y).reshape(3, 2), lambda y: y.T[1:].ravel(order="K")])
def test_reshapes_of_an_outer_array_that_copy_are_not_stale(take: Callable[[Any], Any]) -> None:
    outer = np.arange(6.0).reshape(3, 2)
    compiled = aj.compile(lambda x: (x + 1, take(outer)), backend="interpret")
    for _ in range(3):
        np.testing.assert_array_equal(compiled(1.0)[1], take(outer))
        outer += 1


def filled(like: Any, array: Any) -> Any:
    like[...] = array
    return like


def test_what_is_made_like_an_outer_array_and_filled_with_it_is_not_stale() -> None:
    outer = np.arange(3.0)
    compiled = aj.compile(lambda x: x * filled(np.empty_like(outer), outer), backend="interpret")
    for _ in range(3):
        np.testing.assert_array_equal(compiled(2.0), 2.0 * outer)
        outer += 1


def test_an_array_filled_with_an_outer_one_is_not_stale() -> None:
    outer = np.arange(3.0)
    compiled = aj.compile(lambda x: x * filled(np.zeros(3), outer), backend="interpret")
    for _ in range(3):
        np.testing.assert_array_equal(compiled(2.0), 2.0 * outer)
        outer += 1


def test_what_is_made_like_an_outer_array_does_not_watch_it() -> None:
    outer = np.arange(6.0).reshape(3, 2)
    compiled = aj.compile(lambda x: x * outer + np.zeros_like(outer) + np.zeros(outer.T.shape).T, backend="interpret")
    for _ in range(3):
        np.testing.assert_array_equal(compiled(2.0), 2.0 * outer)
        outer += 1
    assert compiled.cache_info().traces == 1


@pytest.mark.parametrize("backend", ["native", "interpret"])
def test_copies_that_are_views_of_arguments_in_another_order(backend: str) -> None:
    def function(x: Any) -> Any:
        y = np.negative(x)          # in Fortran order where x is
        z = y.reshape(-1)
        z[0] = 5.0
        return y

    compiled = aj.compile(function, backend=backend)
    in_order, turned = np.ones((2, 3)), np.ones((3, 2)).T
    for _ in range(4):
        np.testing.assert_array_equal(compiled(in_order), function(in_order))
    for _ in range(2):
        with pytest.raises(aj.errors.TraceError, match="depends on the memory layout"):
            compiled(turned)
    np.testing.assert_array_equal(compiled(in_order), function(in_order))


@pytest.mark.parametrize("index", [[0, 1], np.array([True, False, True]), np.array([[1, 0], [2, 2]]), (slice(None), [0, 1])],
                         ids=["list", "mask", "array", "slice and list"])
@pytest.mark.parametrize("used", [True, False])
def test_elements_that_python_takes_of_an_outer_array_are_not_stale(index: Any, used: bool) -> None:
    outer = np.arange(6.0).reshape(3, 2)

    def function(x: Any) -> Any:
        return x + 1, outer[index], x * outer if used else x

    compiled = aj.compile(function, backend="interpret")
    for _ in range(3):
        for array, expected in zip(compiled(1.0), function(1.0), strict=True):
            np.testing.assert_array_equal(array, expected)
        outer += 1


def test_results_of_one_op_that_are_the_same_in_every_round() -> None:
    """They are moved out of the loop, with what is made of them."""
    def function(a: Any) -> Any:
        def step(state: Any) -> Any:
            u, s, vh = np.linalg.svd(a)
            return state[0] + 1, state[1] + (u * s) @ vh
        return aj.while_loop(lambda state: state[0] < 3, step, (0, np.zeros((2, 2))))[1]

    a = np.array([[1.0, 2.0], [3.0, 5.0]])
    np.testing.assert_allclose(aj.compile(function, backend="interpret")(a), 3 * a, rtol=1e-12)
