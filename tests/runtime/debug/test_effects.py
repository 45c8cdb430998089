"""`adjit.debug.print`, `callback`, `breakpoint` and `on_gradient` in compiled functions: what comes, in which order, and how often."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.backends import BACKENDS

import adjit as aj
from adjit.ir.errors import ArgumentError

Seen = list[tuple[Any, ...]]


def run(function: Callable[..., Any], *args: Any) -> tuple[Seen, Any]:
    """What a call notes, and its result."""
    seen.clear()
    result = function(*args)
    return [tuple(np.asarray(value).tolist() for value in each) for each in seen], result


seen: Seen = []


def note(*values: Any) -> None:
    aj.debug.callback(lambda *values: seen.append(values), *values)


def loops(x: Any) -> Any:
    def body(c: Any, t: Any) -> Any:
        note("in", c, t)
        return c * t, c

    def step(s: Any) -> Any:
        note("while", s[0])
        return s[0] + 1, s[1] * x

    c, _ = aj.scan(body, x, np.array([2.0, 3.0]))
    note("after", c)
    i, v = aj.while_loop(lambda s: s[0] < 3, step, (0, c))
    aj.cond(v > 0, lambda: note("positive", i), lambda: note("negative", v))
    return aj.checkpoint(again)(v)


def again(x: Any) -> Any:
    note("checkpoint", x)
    return np.sin(x)


@pytest.mark.parametrize("backend", BACKENDS)
def test_order_in_loops_and_branches_on_each_backend(backend: str) -> None:
    expected = [("in", 1.5, 2.0), ("in", 3.0, 3.0), ("after", 9.0), ("while", 0), ("while", 1), ("while", 2), ("positive", 3),
                ("checkpoint", 30.375)]
    program = aj.compile(loops, backend=backend)
    for _ in range(4):      # also by the fast path
        assert run(program, 1.5) == (expected, np.sin(30.375))
    gradient = aj.compile(aj.grad(loops), backend=backend)
    for _ in range(2):
        found, value = run(gradient, 1.5)
        assert found == expected                # once: what the backward half runs again is quiet
        assert value == pytest.approx(6 * 4 * 1.5 ** 3 * np.cos(30.375))
    assert run(gradient, -1.0)[0][-2:] == [("positive", 3), ("checkpoint", 6.0)]


def python_loop(x: Any) -> Any:
    for i in range(6):
        note(i, x)
        x = np.sin(x) + 0.1 * i
    return x


def python_while(x: Any) -> Any:
    k = 0
    while x < 10:
        note(("even", "odd")[k % 2], x)
        x, k = x * 1.7, k + 1
    return x


def python_branch(x: Any) -> Any:
    if x > 1:
        note("big", x)
        y = x * 2
    else:
        note("small", x)
        y = x - 1
    if y > 1.5:
        note("y", y)
    return y


def branches_in_a_loop(x: Any) -> Any:
    s = 0.0
    for v in x:
        if v > 0:
            note("positive", v)
            s = s + v
        else:
            note("negative", v)
            s = s - 2 * v
    return s


def same_twice(x: Any) -> Any:
    note(x)
    note(x)
    note("text alone")
    return x


WAYS: dict[Callable[..., Any], list[Any]] = {
    python_loop: [0.3, 0.5], python_while: [1.0, 3.0, 20.0, 0.1], python_branch: [2.0, 0.5, 3.0, 1.2],
    branches_in_a_loop: [np.array([1.0, -1, 2]), np.array([-1.0, -1, 2]), np.array([1.0, 1, 1])], same_twice: [1.0]}


@pytest.mark.parametrize("function", WAYS, ids=lambda function: function.__name__)
def test_as_python_does_whatever_way_the_program_goes(function: Callable[..., Any]) -> None:
    """A program that leaves at a guard has noted nothing: the next one notes all."""
    program, gradient = aj.compile(function), aj.compile(aj.grad(function), backend="interpret")
    for _ in range(3):
        for x in WAYS[function]:
            expected = run(function, x)
            found = run(program, x)
            assert found[0] == expected[0]
            np.testing.assert_allclose(found[1], expected[1], rtol=1e-14)
            assert run(gradient, x)[0] == expected[0]


def test_a_decision_on_what_a_loop_with_effects_gives() -> None:
    def f(x: Any) -> Any:
        def body(c: Any, _: Any) -> Any:
            note(c)
            return c * x, None

        c, _ = aj.scan(body, x, None, length=2)
        return c if c > 5 else -c

    program = aj.compile(aj.value_and_grad(f))
    for x in (1.0, 3.0, 1.0, 2.0):
        found, (value, slope) = run(program, x)
        assert found == [(x,), (x * x,)]
        assert (value, slope) == ((x ** 3, 3 * x * x) if x ** 3 > 5 else (-(x ** 3), -3 * x * x))


def test_each_example_of_a_batch_that_goes_there() -> None:
    def f(x: Any) -> Any:
        note(x)
        return aj.cond(x > 0, lambda x: (note("positive", x), x * 2)[1], lambda x: (note("negative", x), x)[1], x)

    def doubled(x: Any) -> Any:
        return aj.while_loop(lambda s: s < 5, lambda s: (note(s), s * 2)[1], x)

    x = np.array([1.0, -2.0, 3.0])
    branches = [(1.0,), (-2.0,), (3.0,), ("positive", 1.0), ("negative", -2.0), ("positive", 3.0)]
    assert run(aj.compile(aj.vmap(f)), x)[0] == branches
    assert run(aj.vmap(aj.grad(f)), x)[0] == branches
    found, result = run(aj.compile(aj.vmap(doubled)), np.array([1.0, 3.0, 7.0]))
    assert found == [(1.0,), (2.0,), (4.0,), (3.0,)]
    assert result.tolist() == [8.0, 6.0, 7.0]


def test_loops_that_carry_nothing() -> None:
    def f(x: Any) -> Any:
        note(x)
        return np.sin(x)

    x = np.array([1.0, 2.0, 3.0])
    seen_in_order = [(1.0,), (2.0,), (3.0,)]
    assert run(aj.compile(lambda x: aj.map(f, x)), x)[0] == seen_in_order
    assert run(aj.compile(lambda x: aj.scan(lambda _, x: (None, f(x)), None, x, reverse=True)), x)[0] == seen_in_order[::-1]
    assert run(lambda x: aj.map(f, x, batch=3), x)[0] == seen_in_order
    gradient = aj.compile(aj.grad(lambda x: np.sum(aj.map(f, x))))
    found, slopes = run(gradient, x)
    assert found == seen_in_order
    np.testing.assert_allclose(slopes, np.cos(x), rtol=1e-14)
    with pytest.raises(aj.errors.UnsupportedError, match="does not divide 3 examples"):
        aj.map(f, x, batch=2)


def test_in_the_backward_half_and_in_derivatives_of_derivatives() -> None:
    def watched(x: Any, t: Any) -> Any:
        return aj.debug.on_gradient(lambda g: note("gradient", g, x), x) * t

    def f(x: Any) -> Any:
        c, _ = aj.scan(lambda c, t: (watched(c, t), None), x, np.array([2.0, 3.0]))
        return aj.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, watched(s[1], x)), (0, c))[1]

    found, slope = run(aj.compile(aj.grad(f)), 1.5)
    assert found == [("gradient", 1.5, 13.5), ("gradient", 2.25, 9.0), ("gradient", 6.75, 3.0), ("gradient", 13.5, 1.5)]
    assert slope == pytest.approx(18 * 1.5 ** 2)
    assert run(f, 1.5)[0] == []

    def cubed(x: Any) -> Any:
        note(x)
        return x ** 3

    assert run(aj.compile(lambda x: aj.jvp(cubed, (x,), (1.0,))), 2.0) == ([(2.0,)], (8.0, 12.0))
    assert run(aj.compile(aj.grad(aj.grad(cubed))), 2.0) == ([(2.0,)], 12.0)


def test_tensors_eagerly_and_compiled() -> None:
    class Watched(aj.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = aj.nn.Linear(2, 1)

        def forward(self, x: Any) -> Any:
            y = self.linear(x)
            note("y", y, y.shape)
            return aj.debug.on_gradient(lambda g: note("gradient", g), y)

    def step(model: Any, optimizer: Any, x: Any) -> Any:
        optimizer.zero_grad()
        loss = (model(x) ** 2).sum()
        loss.backward()
        optimizer.step()
        note("loss", loss)
        return loss

    def trained(step: Callable[..., Any]) -> list[Any]:
        aj.manual_seed(0)
        model = Watched()
        optimizer = aj.optim.SGD(model.parameters(), lr=0.1)
        return [run(step, model, optimizer, aj.tensor([[1.0, 2.0]]))[0] for _ in range(3)]

    eager, compiled = trained(step), trained(aj.compile(step))
    assert [[name for name, *_ in call] for call in eager] == [["y", "gradient", "loss"]] * 3
    for one, other in zip(eager, compiled, strict=True):
        for (name, *values), (same, *found) in zip(one, other, strict=True):
            assert name == same
            for value, array in zip(values, found, strict=True):
                np.testing.assert_allclose(array, value, rtol=1e-5)
    model = aj.compile(Watched())
    assert [name for name, *_ in run(lambda: model(aj.tensor([[1.0, 2.0]])).sum().backward())[0]] == ["y", "gradient"]


def test_prints(capsys: pytest.CaptureFixture[str]) -> None:
    @aj.compile
    def f(x: Any, name: str) -> Any:
        aj.debug.print("{name}: {x[a]:.2f} {} {{}} {x[b].dtype}", np.sin(x["b"]), x=x, name=name)
        return x["a"]

    x = {"a": 1.25, "b": np.zeros(2, np.float32)}
    f(x, "first")
    f(x, "second")
    assert capsys.readouterr().out == "".join(f"{name}: 1.25 [0. 0.] {{}} float32\n" for name in ("first", "second"))
    for text in ("{y}", "{} {}", "{1}", "{} {0}", "{"):
        with pytest.raises(ArgumentError) as caught:
            aj.compile(lambda x, text=text: aj.debug.print(text, x, x=x))(1.0)
        assert caught.value.location is not None


def test_errors_of_callbacks_are_raised_and_end_the_call() -> None:
    def refuse(x: Any) -> None:
        seen.append((x,))
        raise RuntimeError("too large")

    @aj.compile
    def f(x: Any) -> Any:
        note("before")
        aj.debug.callback(refuse, x)
        note("behind")
        return x

    for _ in range(4):
        seen.clear()
        with pytest.raises(RuntimeError, match="too large"):
            f(1.0)
        assert seen == [("before",), (1.0,)]


def test_breakpoint_stops_at_the_line_with_the_values(monkeypatch: pytest.MonkeyPatch) -> None:
    stops = []

    def hook() -> None:
        frame = sys._getframe(1)
        stops.append((frame.f_code.co_name, frame.f_lineno, frame.f_code.co_filename, dict(frame.f_locals)))

    monkeypatch.setattr(sys, "breakpointhook", hook)

    @aj.compile
    def f(x: Any) -> Any:
        y = np.sin(x)
        aj.debug.breakpoint()
        return y

    f(np.zeros(2))
    f(np.ones(2))
    assert [stop[:3] for stop in stops] == [("f", f.fun.__code__.co_firstlineno + 3, __file__)] * 2
    assert stops[1][3]["x"].tolist() == [1.0, 1.0]
    assert stops[1][3]["y"] == pytest.approx(np.sin(1.0))


def test_effects_do_not_go_into_files(tmp_path: Any) -> None:
    with pytest.raises(aj.errors.ExportError, match=r"adjit.debug"):
        aj.compile(same_twice).export(tmp_path / "f.adjit", 1.0)


def test_values_without_a_place_are_refused() -> None:
    for call in (lambda x: aj.debug.print("x", x), lambda x: aj.debug.print("{}", x, x), lambda x: aj.debug.print("{x}", x=x, y=x)):
        with pytest.raises(ArgumentError, match="has no place for 1 of the values"):
            aj.compile(call)(np.ones(2))


def test_functions_in_c_get_the_gradient(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[Any] = []

    def loss(x: Any) -> Any:
        return np.sum(aj.debug.on_gradient(print, aj.debug.on_gradient(seen.append, x)) ** 2)

    for run in (aj.grad(loss), aj.compile(aj.grad(loss))):
        run(np.array([1.0, 2.0]))
    assert [gradient.tolist() for gradient in seen] == [[2.0, 4.0]] * 2
    assert capsys.readouterr().out == "[2. 4.]\n" * 2
