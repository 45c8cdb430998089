"""Calls of eager operations: what is found again without a trace, and NumPy's handling of errors around them."""

from __future__ import annotations

import threading
import warnings

import numpy as np
import pytest

import adjit as aj
from adjit.eager import call
from adjit.eager.call import known_calls
from adjit.ir.thread_context import thread


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the operations that are traced."""
    names: list[str] = []
    trace = call._trace

    def counting(name, *args):      # type: ignore[no-untyped-def]
        names.append(name)
        return trace(name, *args)
    monkeypatch.setattr(call, "_trace", counting)
    known_calls.clear()
    return names


def test_equal_calls_are_traced_once(traced: list[str]) -> None:
    x, y = aj.ones(3, 2), aj.ones(3, 2)
    for number in (1, 2.0, 3):
        for _ in range(3):
            assert ((x + y) * number).exp().sum(0).shape == (2,)
    assert traced[1:] == ["AddBackward0", "MulBackward0", "ExpBackward0", "SumBackward1"]


def test_calls_that_differ_in_an_argument_are_different(traced: list[str]) -> None:
    x = aj.tensor([[1.0, -2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(x.sum(0).numpy(), [4.0, 2.0])
    np.testing.assert_array_equal(x.sum(1).numpy(), [-1.0, 7.0])
    np.testing.assert_array_equal(x.sum(0, True).numpy(), [[4.0, 2.0]])
    np.testing.assert_array_equal(x.sum((0, 1)).numpy(), 6.0)
    for number in (0.0, -0.0):
        assert np.signbit(x.copysign(number).numpy()).all() == np.signbit(number)
    assert x.pow(2).numpy().tolist() == x.pow(2.0).numpy().tolist()
    assert (x.double() + x.double()).dtype == np.float64


def test_an_operation_within_a_try_block_is_traced_once(traced: list[str]) -> None:
    """An index out of range raises at its values: there is nothing to decide when the operation is traced."""
    x, index = aj.arange(4.0), aj.tensor([1, 9])
    for _ in range(3):
        try:
            x[index[:1]]
            x[index]
        except IndexError as error:
            message = str(error)
        else:
            pytest.fail("no error")
        assert "9" in message
    assert traced.count("IndexBackward0") == 2


def test_warnings_are_silent_and_numpys_state_stays() -> None:
    x = aj.tensor([1.0, -1.0])
    with warnings.catch_warnings(), np.errstate(all="warn"):
        warnings.simplefilter("error")
        for _ in range(3):
            (x / 0.0, x.sqrt(), (x * 1e38 * 1e38).exp(), x.log().sum())
            assert np.geterr()["divide"] == "warn"
    found = []

    def run() -> None:
        with np.errstate(all="raise"):
            found.append((x / 0.0).numpy())
    for thread_ in [threading.Thread(target=run) for _ in range(3)]:
        thread_.start()
        thread_.join()
    np.testing.assert_array_equal(found, [[np.inf, -np.inf]] * 3)


def test_operations_within_the_call_of_an_operation() -> None:
    """As a finalizer may run some when NumPy makes an array."""
    x = aj.tensor([1.0, 2.0])
    x + x, x.exp()
    silently = thread.context.silently
    assert silently is not None
    with np.errstate(all="raise"):
        inner = silently(lambda: ((x + x).numpy(), (x / 0.0).numpy(), x.exp().numpy(), x[aj.tensor([0])].numpy()))
    np.testing.assert_array_equal(inner[0], [2.0, 4.0])
    np.testing.assert_array_equal(inner[1], [np.inf, np.inf])
    np.testing.assert_array_equal(inner[3], [1.0])


def test_modes_hold_for_calls_that_are_known() -> None:
    w = aj.ones(2, 2, requires_grad=True)
    x = aj.ones(2, 2)
    for _ in range(2):
        assert not (x @ x).requires_grad
        assert all(made.requires_grad for made in (x @ w, w + x, w.exp()))
        with aj.no_grad():
            assert not any(made.requires_grad for made in (x @ w, w + x, w.exp()))
        with aj.autocast("cpu"):
            assert (x @ x).dtype == aj.bfloat16
        assert (x @ x).dtype == np.float32
    view = x[0]
    view.add_(w[0])
    assert all(made.requires_grad for made in (x, x + x, view * view, view.exp()))
