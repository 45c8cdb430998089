"""Values that a differentiated function stores: lists, dicts and attributes hold those of each call, as behind a call by Python."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import adjit as aj

X = np.array([0.5, 1.5, -2.0])


@pytest.mark.parametrize("transform", [
    lambda f: lambda x: aj.value_and_grad(f)(x)[1], aj.grad, lambda f: aj.compile(aj.grad(f)), lambda f: aj.grad(aj.compile(f))])
def test_a_loss_that_is_logged(transform: Callable[..., Any]) -> None:
    history: list[Any] = []
    seen: dict[str, Any] = {}
    log = SimpleNamespace()

    def loss(x: Any) -> Any:
        residuals = np.tanh(x) * 2 - 1
        value = np.sum(residuals**2)
        history.append(value)
        seen["residuals"], log.first, log.pair = residuals, x[:2], (value, residuals.max())
        return value

    gradient = transform(loss)
    for call in range(4):
        x = X + call
        residuals = np.tanh(x) * 2 - 1
        np.testing.assert_allclose(gradient(x), 4 * residuals * (1 - np.tanh(x)**2))
        np.testing.assert_allclose([history[-1], *log.pair], [np.sum(residuals**2), np.sum(residuals**2), residuals.max()])
        np.testing.assert_allclose(seen["residuals"], residuals)
        np.testing.assert_array_equal(log.first, x[:2])
        assert len(history) == call + 1
    assert gradient.cache_info().traces == 1 if hasattr(gradient, "cache_info") else True


def test_a_value_stored_within_a_derivative_is_computed_with_outside_of_it() -> None:
    history: list[Any] = []

    def outer(x: Any) -> Any:
        def inner(y: Any) -> Any:
            history.append(y * y)
            return (y * y * x).sum()

        return (aj.grad(inner)(x) * history[-1]).sum()      # 2 x**2 * x**2

    for run, expected in ((aj.compile(outer), lambda x: (2 * x**4).sum()), (aj.grad(outer), lambda x: 8 * x**3)):
        history.clear()
        for call in range(3):
            np.testing.assert_allclose(run(X + call), expected(X + call))
            np.testing.assert_allclose(history[-1], (X + call)**2)
            assert len(history) == call + 1


@pytest.mark.parametrize("function", [
    lambda history, x: history.append(x * 2) or history[-1].sum(),
    lambda history, x: history.extend([x * 2, x * 3]) or (history[-1] * history[-2]).sum(),
    lambda history, x: history.append(x * 2) or history.__setitem__(-1, history[-1] * x) or history[-1].sum(),
    lambda history, x: history.append(x) or history.pop() is None or x.sum()])
@pytest.mark.parametrize("transform", [aj.compile, lambda f: lambda x: aj.value_and_grad(f)(x)[0]])
def test_an_item_that_the_call_appended_is_read(function: Callable[..., Any], transform: Callable[..., Any]) -> None:
    history: list[Any] = []
    expected: list[Any] = []
    compiled = transform(lambda x: function(history, x))
    for call in range(3):
        np.testing.assert_allclose(compiled(X + call), function(expected, X + call))
        np.testing.assert_allclose(history, expected)
