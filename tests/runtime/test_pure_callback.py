"""`pure_callback`: functions of Python as ops of programs."""

from __future__ import annotations

import gc
import math
import threading
import traceback
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.backends import BACKENDS

import adjit as aj
from adjit.ir.errors import ArgumentError, DTypeError, ExportError, NonDifferentiableError, ShapeError
from adjit.ir.host_functions import _functions

MATRIX = np.array([[4.0, 1.0, 0.5], [0.2, 3.0, -1.0], [0.3, 0.1, 5.0]])
RIGHT = np.array([1.0, -2.0, 3.0])


def solve(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    assert type(a) is np.ndarray
    return np.linalg.solve(a, b)


def solve_vjp(cotangent: np.ndarray, x: np.ndarray, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    z = np.linalg.solve(a.T, cotangent)
    return -np.outer(z, x), z


def energy(a: Any, b: Any) -> Any:
    return np.sum(np.sin(aj.pure_callback(solve, (b.shape, b.dtype), np.exp(0.1 * a), b, vjp=solve_vjp)))


def energy_in_numpy(a: np.ndarray, b: np.ndarray) -> Any:
    return np.sum(np.sin(np.linalg.solve(np.exp(0.1 * a), b)))


def differences(function: Callable[..., Any], *args: Any, step: float = 1e-6) -> list[np.ndarray]:
    """Central finite differences by every argument."""
    found = []
    for index, arg in enumerate(args):
        gradient = np.zeros(np.shape(arg))
        for position in np.ndindex(gradient.shape):
            moved = [np.array(each, float) for each in args]
            moved[index][position] += step
            above = function(*moved)
            moved[index][position] -= 2 * step
            gradient[position] = (above - function(*moved)) / (2 * step)
        found.append(gradient)
    return found


def check_gradient(function: Callable[..., Any], *args: Any, backend: str = "native") -> None:
    program = aj.compile(aj.grad(function, tuple(range(len(args)))), backend=backend)
    expected = differences(function, *args)
    for _ in range(3):      # the third call is by the fast path
        for found, difference in zip(program(*args), expected, strict=True):
            np.testing.assert_allclose(found, difference, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("backend", BACKENDS)
def test_value_and_gradient_on_each_backend(backend: str) -> None:
    program = aj.compile(energy, backend=backend)
    for factor in (1.0, 1.0, 1.0, 2.0):
        assert program(factor * MATRIX, RIGHT) == pytest.approx(energy_in_numpy(factor * MATRIX, RIGHT), rel=1e-13)
    check_gradient(energy, MATRIX, RIGHT, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_in_loops_and_branches(backend: str) -> None:
    called: list[float] = []

    def cube(x: float) -> float:
        called.append(float(x))
        return x ** 3

    def step(x: Any) -> Any:
        return aj.pure_callback(cube, x, x, vjp=lambda ct, y, x: 3 * x ** 2 * ct)

    def scanned(x: Any) -> Any:
        return aj.scan(lambda c, r: (step(c) * r, c), x, np.array([0.9, 0.8, 0.7]))[0]

    def looped(x: Any) -> Any:
        return aj.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, np.sin(step(c[1]))), (0, x))[1]

    def branched(x: Any) -> Any:
        return aj.cond(x > 0, step, lambda x: 2 * x, x)

    for function in (scanned, looped, branched, lambda x: aj.fori_loop(0, 2, lambda i, c: step(c) + c, x)):
        check_gradient(function, 0.8, backend=backend)
    value = aj.compile(scanned, backend=backend)(0.8)
    c = 0.8
    for r in (0.9, 0.8, 0.7):
        c = c ** 3 * r
    assert value == pytest.approx(c, rel=1e-14)
    called.clear()
    assert aj.compile(branched, backend=backend)(-1.0) == -2.0
    assert called == []         # the other branch was taken
    assert aj.compile(scanned, backend=backend)(0.5) == called[2] ** 3 * 0.7
    assert called == [0.5, 0.5 ** 3 * 0.9, (0.5 ** 3 * 0.9) ** 3 * 0.8]       # once an iteration, in order


def test_trees_dtypes_and_several_results() -> None:
    def simulate(state: dict[str, Any], steps: Any, flags: list[Any]) -> tuple[Any, dict[str, Any]]:
        assert isinstance(steps, np.int64)
        assert flags[0].dtype == bool
        assert not isinstance(state["x"], np.ndarray)
        return (np.float32(state["x"] * steps), {"n": steps + 1, "v": state["v"].astype(np.float32) * flags[0], "none": np.zeros((0, 2))})

    shapes = (((), "float32"), {"n": np.int64(0), "v": SimpleNamespace(shape=[2], dtype=np.float32), "none": np.empty((0, 2))})

    def pulled(cotangent: Any, result: Any, state: Any, steps: Any, flags: Any) -> tuple[Any, None, None]:
        assert cotangent[1]["v"].dtype == np.float32
        assert result[1]["n"] == steps + 1
        return {"x": np.float64(cotangent[0] * steps), "v": cotangent[1]["v"].astype(float) * flags[0]}, None, None

    def program(x: Any, v: Any) -> Any:
        first, rest = aj.pure_callback(simulate, shapes, {"x": x, "v": v}, 3, [np.array([True, False])], vjp=pulled)
        assert first.dtype == np.float32
        assert first.shape == ()
        return first, rest

    v = np.array([1.5, 2.5])
    for run in (program, aj.compile(program)):
        first, rest = run(2.0, v)
        assert (first, rest["n"]) == (6.0, 4)
        assert (rest["v"].dtype, rest["none"].shape) == (np.float32, (0, 2))
        np.testing.assert_array_equal(rest["v"], [1.5, 0.0])
    dx, dv = aj.grad(lambda x, v: program(x, v)[0] * 2.0 + np.sum(program(x, v)[1]["v"]), (0, 1))(2.0, v)
    assert dx == 6.0
    np.testing.assert_array_equal(dv, [1.0, 0.0])


def test_second_derivatives_need_a_vjp_that_is_traced() -> None:
    @aj.compile
    def traced_vjp(cotangent: Any, y: Any, x: Any) -> Any:
        return cotangent * np.cos(x)

    def sine(x: Any, vjp: Any) -> Any:
        return np.sum(aj.pure_callback(lambda x: np.sin(x), x, x, vjp=vjp))

    x = np.array([0.3, 0.7])
    np.testing.assert_allclose(aj.hessian(lambda x: sine(x, traced_vjp))(x), np.diag(-np.sin(x)), rtol=1e-14)
    np.testing.assert_allclose(aj.hvp(lambda x: sine(x, traced_vjp), (x,), (np.ones(2),)), -np.sin(x), rtol=1e-14)
    np.testing.assert_allclose(aj.jvp(lambda x: sine(x, traced_vjp), (x,), (np.ones(2),))[1], np.sum(np.cos(x)), rtol=1e-14)
    host_vjp = lambda ct, y, x: ct * np.cos(x)      # noqa: E731
    np.testing.assert_allclose(aj.grad(lambda x: sine(x, host_vjp))(x), np.cos(x), rtol=1e-14)
    for transform in (aj.hessian(lambda x: sine(x, host_vjp)), aj.grad(lambda x: sine(x, None)),
                      lambda x: aj.jvp(lambda x: sine(x, None), (x,), (x,))):
        with pytest.raises(NonDifferentiableError, match=r"the Python function (host_vjp|<lambda>|.*) has no derivative.*\n.*test_pure_ca"):
            transform(x)
    assert aj.grad(lambda x: sine(aj.stop_gradient(x), None) + np.sum(x))(x).tolist() == [1.0, 1.0]


def test_with_tensors() -> None:
    t = aj.tensor(RIGHT, dtype=float, requires_grad=True)
    energy(aj.tensor(MATRIX, dtype=float), t).backward()
    np.testing.assert_allclose(t.grad, aj.grad(energy, 1)(MATRIX, RIGHT), rtol=1e-12)

    @aj.compile
    def step(t: Any) -> Any:
        loss = energy(MATRIX, t)
        loss.backward()
        return loss.detach()

    captured = aj.tensor(RIGHT, dtype=float, requires_grad=True)
    for count in (1, 2, 3):
        step(captured)
        np.testing.assert_allclose(captured.grad, count * np.asarray(t.grad), rtol=1e-12)
    with pytest.raises(NonDifferentiableError, match="sinh has no derivative"):
        aj.pure_callback(np.sinh, t, t)
    with aj.no_grad():
        np.testing.assert_array_equal(aj.pure_callback(np.sinh, t, t), np.sinh(RIGHT))

    def refuse(x: Any) -> Any:
        raise IndexError("of my own")

    with pytest.raises(IndexError, match="of my own") as caught:
        aj.pure_callback(refuse, t, t.detach())
    assert type(caught.value) is IndexError


@pytest.mark.parametrize("backend", BACKENDS)
def test_errors_of_the_function_are_its_own_and_arguments_stay_whole(backend: str) -> None:
    class OwnError(Exception):
        pass

    def failing(x: Any) -> Any:
        if x[0] > 1:
            raise OwnError("too large") if x[0] < 10 else IndexError("far too large")
        return x

    def update(p: Any, x: Any) -> Any:
        return p - np.sin(p), np.sum(aj.pure_callback(failing, x, x))

    program = aj.compile(update, donate="p", backend=backend)
    for _ in range(3):
        p = np.ones(3)
        program(p, np.zeros(2))
    for number, kind in ((2.0, OwnError), (20.0, IndexError), (2.0, OwnError)):
        p = np.ones(3)
        with pytest.raises(kind, match="too large") as caught:
            program(p, np.full(2, number))
        assert type(caught.value) is kind
        assert "failing" in [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
        assert "test_pure_callback.py" in caught.value.__notes__[0]
        assert len(caught.value.__notes__) == 1
        np.testing.assert_array_equal(p, np.ones(3))
    assert program(np.ones(3), np.zeros(2))[1] == 0.0       # the program goes on


def test_wrong_results_name_the_line() -> None:
    cases: list[tuple[Callable[..., Any], type[Exception], str]] = [
        (lambda x: x[:1], ShapeError, r"has shape \(1,\), but result_shapes says \(2,\)"),
        (lambda x: x.astype(np.float32), DTypeError, "has dtype float32, but result_shapes says float64"),
        (lambda x: x.astype(int), DTypeError, "has dtype int64"),
        (lambda x: (x, x), ShapeError, r"has shape \(2, 2\)"),
        (lambda x: None, DTypeError, "dtype object|has shape"),
    ]
    for function, error, message in cases:
        def run(x: Any, function: Any = function) -> Any:
            return aj.pure_callback(function, ((2,), float), x)
        for call in (run, aj.compile(run)):
            with pytest.raises((error, ShapeError), match=message) as caught:
                call(np.ones(2))
            assert "aj.pure_callback(function, ((2,), float), x)" in str(caught.value)
    for shapes in ((2,), None, "float", ((2.5,), float)):
        with pytest.raises(ArgumentError, match="result_shapes of pure_callback is"):
            aj.pure_callback(np.sin, shapes, 1.0)
    with pytest.raises(ArgumentError, match="got a str among the arguments of sin"):
        aj.pure_callback(np.sin, ((), float), "x")
    with pytest.raises(ShapeError, match="returns 1 cotangents for 2 arguments"):
        aj.grad(lambda x: aj.pure_callback(np.add, x, x, 1.0, vjp=lambda ct, y, a, b: ct))(1.0)
    with pytest.raises(ShapeError, match=r"the result of .* has shape \(3,\), but result_shapes says \(\)"):
        aj.grad(lambda x: aj.pure_callback(np.sin, x, x, vjp=lambda ct, y, x: np.ones(3)))(1.0)
    assert aj.compile(lambda x: aj.pure_callback(lambda x: 3, ((), float), x))(1.0) == 3.0      # a Python number takes the dtype


def test_export_is_refused() -> None:
    program = aj.compile(lambda x: aj.scan(lambda c, _: (aj.pure_callback(np.sin, c, c), None), x, None, 2)[0])
    for name in ("step.adjit", "step.so"):
        with pytest.raises(ExportError, match="calls the Python function sin"):
            program.export(name, 1.0)


def test_what_the_function_reads_is_no_part_of_the_trace() -> None:
    state = {"calls": 0, "scale": 2.0}

    class Simulator:
        def __init__(self) -> None:
            self.count, self.rate = 0, 3.0

        def run(self, x: Any) -> Any:
            self.count += 1
            return self.rate * x

        def __call__(self, x: Any) -> Any:
            return self.run(x)

    simulator = Simulator()

    def counted(x: Any) -> Any:
        state["calls"] += 1
        return state["scale"] * x

    def inner(x: Any) -> Any:
        def local(x: Any) -> Any:
            state["calls"] += 1
            return state["scale"] * x
        return aj.pure_callback(local, x, x)

    functions: list[Callable[[Any], Any]] = [
        lambda x: aj.pure_callback(counted, x, x), lambda x: aj.pure_callback(simulator.run, x, x),
        lambda x: aj.pure_callback(simulator, x, x), inner, lambda x: aj.pure_callback(lambda x: counted(x), x, x)]
    for function in functions:
        program = aj.compile(function)
        state["scale"] = simulator.rate = 2.0
        for _ in range(5):
            assert program(1.5) == 3.0
        state["scale"] = simulator.rate = 4.0       # seen, as Python reads it when the program runs
        assert program(1.5) == 6.0
        assert program.cache_info().traces == 1
    assert simulator.count == 12


def test_another_function_is_another_program() -> None:
    holder = SimpleNamespace(function=np.sin)
    program = aj.compile(lambda x: aj.pure_callback(holder.function, x, x))
    assert program(1.0) == math.sin(1.0)
    holder.function = np.cos
    assert program(1.0) == math.cos(1.0)


def test_functions_are_called_in_the_calling_thread_and_may_call_programs() -> None:
    inner = aj.compile(lambda x: np.exp(x) * 2)
    seen: dict[float, int] = {}

    def nested(x: Any) -> Any:
        seen[float(x[0])] = threading.get_ident()
        return inner(x)

    program = aj.compile(lambda x: np.sum(aj.pure_callback(nested, x, x) + x))
    wrong: list[Any] = []

    def work(number: float) -> None:
        for _ in range(50):
            x = np.full(100, number)
            if program(x) != pytest.approx(np.sum(2 * np.exp(x) + x)) or seen[number] != threading.get_ident():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number / 8,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_function_may_keep_its_arguments_and_is_freed_with_the_program() -> None:
    kept: list[np.ndarray] = []

    def keep(x: np.ndarray) -> np.ndarray:
        kept.append(x)
        x += 1
        return x

    x = np.zeros(3)
    program = aj.compile(lambda x: np.sum(aj.pure_callback(keep, x * 2, x * 2)))
    assert [program(x + number) for number in range(4)] == [3.0, 9.0, 15.0, 21.0]
    np.testing.assert_array_equal(kept, [[1.0 + 2 * number] * 3 for number in range(4)])
    np.testing.assert_array_equal(x, np.zeros(3))
    count, reference = len(_functions), weakref.ref(keep)
    keep = program = None       # type: ignore[assignment]
    gc.collect()
    assert len(_functions) < count
    assert reference() is None


def test_calls_that_nobody_needs_are_left_out() -> None:
    called = []

    def note(x: Any) -> Any:
        called.append(x)
        return x

    def unused(x: Any) -> Any:
        aj.pure_callback(note, x, x)
        return 2 * x

    assert aj.compile(unused)(1.0) == 2.0
    assert called == []


def test_decisions_and_python_loops_on_what_the_function_returns() -> None:
    def sine(x: Any) -> Any:
        return aj.pure_callback(lambda v: np.sin(v), x, x, vjp=lambda ct, y, v: ct * np.cos(v))

    def branch(x: Any) -> Any:
        y = sine(x)
        return 2 * y if y > 0 else 3 * y

    def loop(x: Any) -> Any:
        for _ in range(40):
            x = sine(x) + 0.1
        return x

    program = aj.compile(branch)
    for x in (0.5, -0.5, 0.7, -0.3):
        assert program(x) == branch(x)
        assert aj.grad(branch)(x) == pytest.approx((2 if x > 0 else 3) * np.cos(x), rel=1e-14)
    assert aj.compile(loop)(1.0) == loop(1.0)
    check_gradient(loop, 1.0)
