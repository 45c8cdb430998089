"""What Python runs in the midst of a trace and is no part of it, signal handlers above all, may use adjit itself."""

from __future__ import annotations

import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit.ir.printer import print_graph
from adjit.ir.thread_context import run_detached, thread
from adjit.tracer.trace import trace_function

NUMBER = signal.SIGUSR1
X = np.linspace(0.5, 1.5, 4)
WEIGHT = aj.tensor([2.0, 3.0], requires_grad=True)

compiled = aj.compile(lambda x: np.sin(x) * 2)
gradient = aj.compile(aj.value_and_grad(lambda x: np.sum(x * x)))


@aj.custom_vjp
def clipped(x):
    return x


clipped.defvjp(lambda x: (x, None), lambda residuals, cotangent: (np.clip(cotangent, -1.0, 1.0),))


def backward() -> Any:
    tensor = aj.tensor([1.0, 2.0], requires_grad=True)
    ((tensor * tensor).sum() + tensor.exp().sum() * 0).backward()
    return tensor.grad.numpy()


def traced_text(function: Callable[..., Any]) -> str:
    return print_graph(trace_function(function, (X,), {}).graph).split("{", 1)[1]


USES: dict[str, tuple[Callable[[], Any], Any]] = {
    "a compiled function": (lambda: compiled(np.ones(2)), 2 * np.sin(np.ones(2))),
    "one that is compiled now": (lambda: aj.compile(lambda x: np.cos(x) + 1)(np.ones(2)), np.cos(np.ones(2)) + 1),
    "a compiled gradient": (lambda: gradient(np.ones(2))[1], np.full(2, 2.0)),
    "a gradient": (lambda: aj.grad(lambda x: np.sum(x ** 3))(np.ones(2)), np.full(2, 3.0)),
    "a rule": (lambda: aj.grad(lambda x: 5.0 * clipped(x))(2.0), 1.0),
    "a function of ours": (lambda: aj.numpy.exp(np.zeros(2)), np.ones(2)),
    "a loop": (lambda: aj.fori_loop(0, 3, lambda i, x: x * 2, 1.0), 8.0),
    "a branch": (lambda: aj.cond(True, np.sin, np.cos, 0.0), 0.0),
    "tensors": (lambda: (aj.tensor([1.0, 2.0]) * 2).numpy(), np.array([2.0, 4.0])),
    "a tensor from outside": (lambda: (WEIGHT.detach() * 2).numpy(), np.array([4.0, 6.0])),
    "backward": (backward, np.array([2.0, 4.0])),
    "a matrix": (lambda: aj.linalg.solve_triangular(np.eye(2), np.ones(2), lower=True), np.ones(2)),
}


@pytest.fixture
def handled() -> Iterator[Callable[[Callable[[], Any]], None]]:
    """Sets a handler, which is gone after the test."""
    before = signal.getsignal(NUMBER)
    yield lambda work: signal.signal(NUMBER, lambda number, frame: work()) and None
    signal.signal(NUMBER, before)


def plain_function(x):
    y = np.tanh(x)
    signal.raise_signal(NUMBER)
    return np.sum(y * x)


def inner_derivative(x):
    return np.sum(aj.grad(lambda x: plain_function(x) * 2)(x))


def within_loops(x):
    return aj.scan(lambda carry, row: (carry + plain_function(row * carry), None), 1.0, x.reshape(2, 2))[0]


def with_a_rule(x):
    return aj.grad(lambda x: np.sum(clipped(plain_function(x))))(x)


TRACED = {"a function": plain_function, "a derivative in it": inner_derivative, "a loop in it": within_loops, "a rule in it": with_a_rule}


@pytest.mark.share(3)
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("traced", TRACED)
def test_a_handler_runs_on_its_own(traced: str, use: str, handled: Any) -> None:
    seen = []
    work, wanted = USES[use]
    handled(lambda: None)
    graph = traced_text(TRACED[traced])
    expected = aj.compile(TRACED[traced])(X)
    handled(lambda: seen.append(work()))
    handler = signal.getsignal(NUMBER)
    assert traced_text(TRACED[traced]) == graph
    assert seen
    for found in seen:
        assert isinstance(found, (np.ndarray, np.floating, float))
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
    np.testing.assert_array_equal(aj.compile(TRACED[traced])(X), expected)
    assert signal.getsignal(NUMBER) is handler


@pytest.mark.parametrize("use", USES)
def test_within_a_captured_training_step(use: str, handled: Any) -> None:
    work, wanted = USES[use]
    results = []
    for seen in ([], None):
        handled(lambda seen=seen: None if seen is None else seen.append(work()))
        aj.manual_seed(0)
        model = aj.nn.Linear(2, 1)
        optimizer = aj.optim.Adam(model.parameters(), lr=0.1)

        @aj.compile
        def step(model, optimizer, x):
            optimizer.zero_grad()
            loss = model(x).square().sum()
            signal.raise_signal(NUMBER)
            loss.backward()
            optimizer.step()
            return loss

        for _ in range(3):
            loss = step(model, optimizer, aj.tensor([[1.0, 2.0]], dtype="float32"))
        results.append((loss.item(), model.weight.detach().numpy().copy()))
        if seen is not None:
            np.testing.assert_allclose(seen[0], wanted, rtol=1e-12)
    assert results[0][0] == results[1][0]
    np.testing.assert_array_equal(results[0][1], results[1][1])


def test_what_a_handler_raises_comes_out(handled: Any) -> None:
    """As timeouts do; and the next trace is as if nothing had been."""
    class Timeout(Exception):
        pass

    def work() -> None:
        compiled(np.ones(3))
        raise Timeout

    handled(work)
    handler = signal.getsignal(NUMBER)
    with pytest.raises(Timeout):
        aj.compile(plain_function)(X)
    assert signal.getsignal(NUMBER) is handler
    assert thread.context.scopes == thread.context.emitters == thread.context.captures == []
    handled(lambda: None)
    np.testing.assert_allclose(aj.compile(plain_function)(X), np.sum(np.tanh(X) * X))


@pytest.mark.parametrize("raising", [signal.SIGUSR1, signal.SIGUSR2])
def test_a_signal_while_handlers_are_put_back_is_not_lost(raising: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does what its handler raises leave another handler behind, whichever of the two is back first."""
    came = []

    def raise_it(number: int, frame: Any) -> None:
        came.append(1)
        raise KeyboardInterrupt

    set_handler = signal.signal
    before = {number: set_handler(number, lambda number, frame: None) for number in (signal.SIGUSR1, signal.SIGUSR2)}
    set_handler(raising, raise_it)
    wanted = {number: signal.getsignal(number) for number in before}

    def raise_at_the_end(number: int, new: Any) -> Any:
        if new in wanted.values() and len(came) < 5:
            signal.raise_signal(raising)
        return set_handler(number, new)

    monkeypatch.setattr(signal, "signal", raise_at_the_end)
    try:
        with pytest.raises(KeyboardInterrupt):
            trace_function(lambda x: x * 2, (X,), {})
        assert len(came) >= 2
        assert {number: signal.getsignal(number) for number in before} == wanted
    finally:
        monkeypatch.undo()
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_handler_that_the_function_sets_stays(handled: Any) -> None:
    handled(lambda: None)

    def new(number: int, frame: Any) -> None:
        pass

    def function(x):
        signal.signal(NUMBER, new)
        return x * 2

    trace_function(function, (X,), {})
    assert signal.getsignal(NUMBER) is new


def test_pythons_own_handler_is_not_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most processes have no other: then a trace does nothing to them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    seen = []
    try:
        others = {n for n in range(1, signal.NSIG) if callable(signal.getsignal(n))} - {signal.SIGINT}
        trace_function(lambda x: seen.append(signal.getsignal(signal.SIGINT)) or x * 2, (X,), {})
        assert others or seen == [signal.default_int_handler]
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_trace_without(handled: Any) -> None:
    """No handler runs in them."""
    handled(lambda: None)
    handler = signal.getsignal(NUMBER)
    seen = []
    thread = threading.Thread(target=lambda: trace_function(lambda x: seen.append(signal.getsignal(NUMBER)) or x * 2, (X,), {}))
    thread.start()
    thread.join()
    assert seen == [handler]


def signal_at_every_moment(run: Callable[[], Any], check: Callable[[Any], None], spacing: int = sys.maxsize) -> None:
    """Run again and again, with a signal at the first event that Python's profiler sees, at the second, and so on, until there are no more,
    and check what comes of it. The longer the run, the more are left out: the gap is one wider after each `spacing` events."""
    event = left = 0

    def raise_once(frame: Any, kind: str, argument: Any) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            signal.raise_signal(NUMBER)

    while left <= 0:
        event += 1 + event // spacing
        left = event
        sys.setprofile(raise_once)
        try:
            result = run()
        finally:
            sys.setprofile(None)
        check(result)


def test_at_any_moment_of_a_trace(handled: Any) -> None:
    """Wherever a handler comes in, its numbers are plain and the trace is the same."""
    found: list[Any] = []
    handled(lambda: found.append(compiled(np.ones(2))))

    def function(x):
        return aj.value_and_grad(lambda x: aj.cond(x[0] > 0, np.sin, np.cos, x).sum())(x)

    def check(text: str) -> None:
        assert text == wanted

    wanted = traced_text(function)
    signal_at_every_moment(lambda: traced_text(function), check, spacing=12)
    assert len(found) > 30
    assert all(type(value) is np.ndarray for value in found)


def test_at_any_moment_of_a_function_of_ours(handled: Any) -> None:
    """Outside of a trace it is evaluated at once, and a handler comes in between its ops."""
    found: list[Any] = []
    handled(lambda: found.append((aj.numpy.exp(np.zeros(2)), (aj.tensor([1.0, 2.0]) * 2).numpy())))
    aj.numpy.tanh(X)
    signal_at_every_moment(lambda: aj.numpy.tanh(X), lambda result: np.testing.assert_array_equal(result, np.tanh(X)))
    assert len(found) > 30
    assert all(type(value) is np.ndarray for values in found for value in values)


def test_outside_gives_back_what_was_under_way() -> None:
    before = thread.context
    with pytest.raises(ValueError, match="within"):
        run_detached(lambda: int("within"))
    assert thread.context is before


class Ending:
    """Does something in its destructor."""

    def __init__(self, work: Callable[[], Any]):
        self.work = work

    def __del__(self) -> None:
        self.work()


class Finalized:
    """Has something done when it ends."""

    def __init__(self, work: Callable[[], Any]):
        weakref.finalize(self, work)


GUESTS: dict[str, Callable[[Callable[[], Any]], Any]] = {"a destructor": Ending, "a finalizer": Finalized}


@pytest.mark.parametrize("use", [
    "a compiled function", "one that is compiled now", "a compiled gradient", "a gradient", "a rule", "a function of ours"])
@pytest.mark.parametrize("guest", GUESTS)
def test_destructors_run_on_their_own(guest: str, use: str) -> None:
    work, wanted = USES[use]
    work()
    seen: list[Any] = []

    def function(x, work=lambda: None):
        y = np.tanh(x)
        GUESTS[guest](work)
        return np.sum(y * x)

    assert traced_text(lambda x: function(x, lambda: seen.append(work()))) == traced_text(lambda x: function(x))
    assert isinstance(seen[0], (np.ndarray, np.floating, float))
    np.testing.assert_allclose(seen[0], wanted, rtol=1e-12)


@pytest.mark.parametrize("switch", [sys.settrace, sys.setprofile])
def test_functions_of_debuggers_run_on_their_own(switch: Callable[[Any], None]) -> None:
    seen: list[Any] = []

    def watch(frame: Any, kind: str, argument: Any) -> None:
        if frame.f_code is marked.__code__:
            seen.append(compiled(np.ones(2)))

    def marked() -> None:
        pass

    def function(x):
        y = np.tanh(x)
        marked()
        return np.sum(y * x)

    compiled(np.ones(2))
    wanted = traced_text(function)
    switch(watch)
    try:
        text = traced_text(function)
    finally:
        switch(None)
    assert text == wanted
    assert seen
    assert all(type(value) is np.ndarray for value in seen)


def test_numbers_of_what_is_traced_along_are_errors() -> None:
    """Plain callbacks look like any other call."""
    class Thing:
        pass

    seen: list[Any] = []

    def callback(reference: Any) -> None:
        try:
            float(gradient(np.ones(2))[0])
        except aj.errors.TraceError as error:
            seen.append(error)

    def function(x):
        thing = Thing()
        reference = weakref.ref(thing, callback)
        del thing
        assert reference() is None
        return x * 2

    trace_function(function, (X,), {})
    assert len(seen) == 1
