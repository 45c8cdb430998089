"""`adjit.debug.nans()`: the op that made a NaN or an infinity, its line and operands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit.errors import AnomalyError, NonFiniteError

ZERO = np.array([4.0, 0.0, 1.0])


def refused(call: Callable[[], Any]) -> NonFiniteError:
    with aj.debug.nans(), pytest.raises(NonFiniteError) as caught:
        call()
    return caught.value


def test_forward_backward_and_loops() -> None:
    root = aj.compile(lambda x: np.sum(np.sqrt(x)))
    with aj.debug.nans():
        assert root(ZERO) == 3.0
    for _ in range(3):
        root(ZERO)          # activates the fast path
    gradient = aj.compile(aj.grad(root))
    for _ in range(4):
        assert not np.isfinite(gradient(ZERO)).all()
    error = refused(lambda: gradient(ZERO))
    assert "in the backward half makes inf at index (1,), 1 of 3 elements\n" in error.message
    assert "operand 2, f64[3]: [4., 0., 2.]; 0.0 at index (1,)" in error.message
    assert error.location is not None
    assert "np.sqrt(x)" in error.location.source()

    def loop(x: Any) -> Any:
        def body(c: Any, t: Any) -> Any:
            c = c / (t - 2.0)           # the third time: by zero
            return c, np.log(c)
        return aj.scan(body, x, np.array([3.0, 4.0, 2.0, 1.0]))[0]

    error = refused(lambda: aj.compile(loop)(1.0))
    assert error.message.startswith("divide in iteration 2 of a loop makes inf\n    operand 1, f64[]: 0.5\n")
    assert error.location is not None
    assert error.location.function == "body"


def test_the_first_op_that_leads_to_the_result() -> None:
    def f(x: Any) -> Any:
        masked = np.where(x > 0, np.log(x), 0.0)        # makes an infinity that goes nowhere
        later = np.exp(x * 1000)
        return np.sum(masked) + np.sum(later - later)

    error = refused(lambda: aj.compile(f)(ZERO))
    assert error.message.startswith("exp makes inf at index (0,), 2 of 3 elements")


def test_what_is_meant_and_what_comes_in() -> None:
    highest = aj.compile(lambda x: np.max(np.where(x > 0, x, -np.inf)))
    with aj.debug.nans():
        assert highest(ZERO) == 4.0
        assert highest(-ZERO) == -np.inf
    error = refused(lambda: aj.compile(lambda p: p["w"] * 2)({"w": np.array([1.0, np.nan])}))
    assert error.message.startswith("p['w'] has a NaN already")
    error = refused(lambda: aj.compile(lambda x: x - np.inf + np.inf)(ZERO))
    assert error.message.startswith("add makes nan")


def test_state_is_as_before_the_call() -> None:
    divide = aj.compile(lambda p, g: p / g, donate="p")
    p = np.array([1.0, 2.0])
    refused(lambda: divide(p, np.array([1.0, 0.0])))
    assert p.tolist() == [1.0, 2.0]

    model = aj.nn.Linear(2, 1)
    optimizer = aj.optim.SGD(model.parameters(), lr=1e300)

    @aj.compile
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = (model(x) ** 2).sum()
        loss.backward()
        optimizer.step()
        return loss

    weight = model.weight.detach().clone()
    refused(lambda: step(aj.tensor([[1.0, 2.0]])))
    assert (model.weight == weight).all()


def test_backward_of_compiled_and_eager_tensors() -> None:
    x = aj.tensor([0.0, 2.0], requires_grad=True)
    compiled = aj.compile(lambda t: t.sqrt().sum())
    error = refused(lambda: compiled(x).backward())
    assert "in the backward half makes inf at index (0,)" in error.message
    with aj.debug.nans(), pytest.raises(AnomalyError):
        (x / x).sum().backward()


def test_the_setting_watches_all_calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ADJIT_NANS", "1")
    f = aj.compile(lambda x: 1 / x)
    for x in (1.0, 2.0, 3.0):
        assert f(x) == 1 / x
    with pytest.raises(NonFiniteError, match="divide makes inf"):
        f(0.0)
