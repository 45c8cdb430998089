"""Decisions on values: a compiled function takes the way that Python takes, whichever way was traced first."""

from __future__ import annotations

import ctypes
import math
import re
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.backends import BACKENDS
from support.native_calls import needs_entry
from support.random_decisions import outcome, random_arguments, random_program

import adjit as aj
from adjit.ir.errors import ArgumentError, TraceError
from adjit.runtime import ways
from adjit.runtime.fastcall.descriptors import MAX_PROGRAMS

RNG = np.random.default_rng(3)


def agrees(function: Callable[..., Any], calls: list[tuple[Any, ...]], backend: str = "interpret", **options: Any) -> Any:
    """Check each call against Python; returns the compiled function."""
    compiled = aj.compile(function, backend=backend, **options)
    for arguments in calls:
        with np.errstate(all="ignore"):
            expected = function(*arguments)
        found = compiled(*arguments)
        assert np.array_equal(found, expected, equal_nan=True) if isinstance(expected, np.ndarray) else found == expected, arguments
        assert type(found) is type(expected)
    return compiled


@pytest.mark.share(3)
@pytest.mark.parametrize("seed", range(10))
def test_random_programs_in_any_order(seed: int) -> None:
    function, rng = random_program(seed), np.random.default_rng(seed)
    calls = [random_arguments(rng) for _ in range(5)]
    for order in (range(5), reversed(range(5))):
        compiled = aj.compile(function, backend="interpret")
        for index in order:
            assert outcome(compiled, calls[index]) == outcome(function, calls[index]), index


@pytest.mark.parametrize(("seed", "backend"), [(seed, backend) for seed in (3, 5) for backend in BACKENDS[:-1]])
def test_random_programs_as_machine_code(seed: int, backend: str) -> None:
    function, rng = random_program(seed), np.random.default_rng(seed)
    calls = [random_arguments(rng) for _ in range(4)]
    compiled = aj.compile(function, backend=backend)
    for arguments in (*calls, *calls):      # the second time, some go through the fast path
        assert outcome(compiled, arguments) == outcome(function, arguments)


def test_many_random_programs(exhaustive: bool) -> None:
    if not exhaustive:
        pytest.skip("only with --exhaustive")
    for seed in range(100, 1100):
        function, rng = random_program(seed), np.random.default_rng(seed)
        compiled = aj.compile(function, backend="interpret")
        for _ in range(8):
            arguments = random_arguments(rng)
            assert outcome(compiled, arguments) == outcome(function, arguments), seed


def branchy(x: Any) -> Any:
    y = np.sqrt(np.abs(x)) if np.sum(x) > 0 else -x
    if np.max(y) > 0.5:
        y = y / 2
    return np.sum(y * y * y)


def test_gradients_are_those_of_the_way() -> None:
    calls = RNG.standard_normal((12, 3))
    gradient, both, hessian = aj.grad(branchy), aj.value_and_grad(branchy), aj.hessian(branchy)
    compiled = aj.compile(lambda x: (aj.grad(branchy)(x), aj.hvp(branchy, (x,), (x,)), aj.jvp(branchy, (x,), (x,))), backend="interpret")
    for x in calls:
        expected = np.array([(branchy(x + e) - branchy(x - e)) / 2e-6 for e in 1e-6 * np.eye(3)])
        assert np.allclose(gradient(x), expected, atol=1e-6)
        value, found = both(x)
        assert np.allclose(value, branchy(x))
        assert np.allclose(found, expected, atol=1e-6)
        second = np.array([(gradient(x + e) - gradient(x - e)) / 2e-6 for e in 1e-6 * np.eye(3)])
        assert np.allclose(hessian(x), second, atol=1e-4)
        inner, product, (_, pushed) = compiled(x)
        assert np.allclose(inner, expected, atol=1e-6)
        assert np.allclose(product, second @ x, atol=1e-4)
        assert np.allclose(pushed, expected @ x, atol=1e-5)
    _, pullback = aj.vjp(branchy, calls[0])
    assert np.allclose(pullback(np.float64(1.0))[0], gradient(calls[0]))


def test_a_decision_on_a_gradient() -> None:
    def clipped(x: Any) -> Any:
        g = aj.grad(lambda x: np.sum(x ** 3))(x)
        norm = np.sqrt(np.sum(g * g))
        return g / norm if norm > 1 else g

    agrees(clipped, [(np.array([0.1, 0.2]),), (np.array([3.0, 4.0]),), (np.array([0.2, 0.1]),)])


def test_python_values_are_those_of_the_call() -> None:
    def collatz(n: Any) -> int:
        k = 0
        while n != 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            k += 1
        return k

    compiled = agrees(collatz, [(np.int64(n),) for n in (6, 7, 27, 6, 3, 27)])
    assert compiled.cache_info().traces == 1
    agrees(lambda x: ("big", 1) if x > 2 else ("small", int(x)), [(np.float64(x),) for x in (3.5, -0.5, 1.5, 0.5, 3.0)])
    agrees(lambda x: list(range(math.floor(x), math.ceil(x) + round(x) + math.trunc(x))), [(np.float64(x),) for x in (2.5, 3.5, -0.5)])
    agrees(lambda x: f"{x[0]:.2f}", [(np.array([x]),) for x in (1.234, 1.2341)])
    agrees(lambda x: [x[:2].tolist(), x[2].item()], [(np.array([1.0, -0.0, 3.0]),)])
    agrees(lambda x, n: x[:n].sum() * [10, 20, 30][n] + sum(range(n)), [(np.arange(4.0), np.int64(n)) for n in (0, 2, 1, 2)])
    agrees(lambda x: (2.0 in x, 0 < x[0] < 3, min(x[0], x[1]), max(x), bool(x[:1])), [(np.array([1.0, 2.0]),), (np.array([4.0, 0.0]),)])


def test_depth_of_recursion() -> None:
    def depth(x: Any) -> Any:
        return x if abs(x) < 1 else 2 * depth(x / 2) + 1

    agrees(depth, [(np.float64(x),) for x in (0.5, 9.0, 100.0, 8.5)])


def test_exceptions_are_raised_as_in_python() -> None:
    def root(x: Any) -> Any:
        if x < 0:
            raise ArithmeticError("negative")
        assert x != 5, "five"
        return np.sqrt(x)

    compiled = aj.compile(root)
    for _ in range(3):
        assert compiled(np.float64(4.0)) == 2.0
        with pytest.raises(ArithmeticError, match="negative"):
            compiled(np.float64(-4.0))
        with pytest.raises(AssertionError, match="five"):
            compiled(np.float64(5.0))
    assert compiled.cache_info().traces == 1


def test_what_depends_on_no_argument_is_not_guarded() -> None:
    compiled = aj.compile(lambda x: x if np.sum(aj.numpy.arange(3)) > 2 else -x)
    assert np.array_equal(compiled(np.ones(2)), np.ones(2))
    assert "  guard " not in compiled.ir("traced")


def test_equal_guards_are_one() -> None:
    def repeated(x: Any) -> Any:
        for _ in range(4):
            if x[0] > 0:
                x = x + (1 if np.sum(x) > 0 else 2)
        return x[:1] * 1 if x[0] > 0 else x

    compiled = agrees(lambda x: (1 if x[0] > 0 else 2) + (3 if x[0] > 0 else 4) + x, [(np.ones(2),), (-np.ones(2),)])
    assert compiled.ir("planned").count("  guard ") == 1
    agrees(repeated, [(np.ones(2),), (-np.ones(2),)])


@pytest.mark.parametrize("backend", BACKENDS)
def test_nothing_is_written_before_the_guards(backend: str) -> None:
    """A miss leaves donated arrays as they were, also where the guard reads what is written into them."""
    def step(w: Any, x: Any) -> Any:
        w = w - 0.5 * x
        return w * 2 if np.sum(w) > 0 else w - 1

    compiled = aj.compile(step, donate="w", backend=backend)
    for x in (np.ones(5), 9 * np.ones(5), np.ones(5), 9 * np.ones(5), 9 * np.ones(5), np.ones(5)):
        w = np.arange(5.0)
        assert np.array_equal(compiled(w, x), step(np.arange(5.0), x))


@pytest.mark.parametrize("backend", BACKENDS)
def test_guards_come_before_what_they_protect(backend: str) -> None:
    """On a wrong way the loop would never end, and the index would be out of range."""
    def guarded(x: Any, i: Any) -> Any:
        total = aj.while_loop(lambda t: t[0] < 10, lambda t: (t[0] + x, t[1] * 1.5), (x, x))[1] if x > 0 else x
        return total + (np.arange(4.0) * x)[i] if i < 4 else total

    agrees(guarded, [(np.float64(2.0), np.int64(1)), (np.float64(-2.0), np.int64(1)), (np.float64(2.0), np.int64(7))] * 2, backend)


def test_captured_arrays_decide_too() -> None:
    table = np.array([1.0, 2.0])
    compiled = aj.compile(lambda x: x + 1 if table[0] + aj.numpy.sum(table * x) > 0 else x - 1)
    assert np.array_equal(compiled(np.ones(2)), np.full(2, 2.0))
    table[:] = -9.0
    assert np.array_equal(compiled(np.ones(2)), np.zeros(2))
    table[:] = 1.0
    assert np.array_equal(compiled(np.ones(2)), np.full(2, 2.0))


def test_steps_of_training() -> None:
    """Tensors: `.item()` of a loss, and updates that a decision chooses."""
    def run(compiled: bool) -> list[Any]:
        w = aj.tensor([1.0, 2.0], requires_grad=True)

        def step(x: Any) -> Any:
            loss = ((w - x) ** 2).sum()
            loss.backward()
            with aj.no_grad():
                if loss > 1.0:
                    w.sub_(0.25 * w.grad)
                elif bool(w.grad[0] > 0):
                    w.mul_(0.5)
            w.grad = None
            return loss

        call = aj.compile(step) if compiled else step
        return [(call(aj.tensor(x)).item(), w.tolist()) for x in ([0.0, 0.0], [0.5, 0.5], [0.4, 0.6], [3.0, 0.1], [0.0, 0.0], [1.0, 0.0])]

    assert run(True) == run(False)


def test_methods_and_static_arguments() -> None:
    class Clip:
        def __init__(self, limit: float):
            self.limit = limit

        @aj.compile(static="mode")
        def __call__(self, x: Any, mode: str) -> Any:
            return x * self.limit if np.max(x) > self.limit and mode == "scale" else x

    clip = Clip(2.0)
    for x in (np.array([1.0, 3.0]), np.array([1.0, 1.5])):
        for mode in ("scale", "leave"):
            assert np.array_equal(clip(x, mode), x * 2.0 if x.max() > 2.0 and mode == "scale" else x)


def test_numbers_through_which_a_derivative_would_go_are_refused() -> None:
    def lost(x: Any) -> Any:
        return np.sum(x) * float(x[0])

    with pytest.raises(TraceError, match=r"float\(\) of a traced array gives a Python number"):
        aj.grad(lost)(np.ones(2))
    fixed = aj.grad(lambda x: np.sum(x) * float(aj.stop_gradient(x)[0]))
    assert np.allclose(fixed(3 * np.ones(2)), 3.0)
    whole = aj.grad(lambda x: np.sum(x) * int(x[0] * 2))        # a step has no derivative
    assert np.allclose(whole(np.array([1.7, 1.0])), 3.0)
    assert aj.compile(lost)(np.ones(2)) == lost(np.ones(2))


def test_a_number_that_always_differs_is_run_step_by_step() -> None:
    compiled = aj.compile(lambda x: float(np.sum(x)) * 2)
    with pytest.warns(UserWarning, match="Python asks for a number here"):
        assert [compiled(np.full(3, x)) for x in range(6)] == [6.0 * x for x in range(6)]
    assert compiled.cache_info().size == 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert compiled(np.full(3, 9.0)) == 54.0
        assert compiled(np.full(3, 1.0)) == 6.0


def test_too_many_ways_are_run_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADJIT_WAYS", "3")

    def digits(x: Any) -> Any:
        return aj.grad(lambda x: sum((x * k for k in range(3) if x > k), x * x))(x)

    # results of another structure do not meet in one program
    compiled = aj.compile(lambda x: (len([k for k in range(6) if x > k]), digits(x)), backend="interpret")
    with pytest.warns(UserWarning, match="3 ways, of which") as caught:
        found = [compiled(np.float64(x)) for x in (0.5, 1.5, 2.5, 3.5, 4.5, 0.5)]
    assert found == [(int(x) + 1, 2 * x + sum(k for k in range(3) if x > k)) for x in (0.5, 1.5, 2.5, 3.5, 4.5, 0.5)]
    assert "for k in range" in str(caught[0].message)
    assert compiled.cache_info().size == 3


def test_values_in_loops_are_not_known() -> None:
    with pytest.raises(TraceError, match="the truth value of a traced array, which is another one in each run") as caught:
        aj.compile(lambda x: aj.fori_loop(0, 3, lambda i, c: c + 1 if c > 2 else c, x))(1.0)
    assert "aj.cond" in str(caught.value)
    compiled = aj.compile(lambda x, y: aj.fori_loop(0, 3, lambda i, c: c + 1 if y > 2 else c, x))      # the same in each round
    assert [compiled(1.0, y) for y in (1.0, 3.0)] == [1.0, 4.0]


def test_exports_hold_the_way_of_their_example(tmp_path: Any) -> None:
    compiled = aj.compile(lambda x: x + 1 if np.sum(x) > 0 else x - 1)
    compiled.export(tmp_path / "step.adjit", np.ones(2))
    loaded = aj.load(tmp_path / "step.adjit")
    for _ in range(4):
        assert np.array_equal(loaded(np.ones(2)), np.full(2, 2.0))
        with pytest.raises(ArgumentError, match="has the outcome True; for these arguments it is False") as caught:
            loaded(-np.ones(2))
        assert "np.sum(x) > 0" in str(caught.value)


def test_c_functions_hold_one_way() -> None:
    functions = aj.compile(lambda x: np.sum(x * x) if x[0] > 0 else np.sum(x)).as_callable(np.ones(2))
    doubles, value = ctypes.c_double * 2, ctypes.c_double()
    assert functions.evaluate(2, doubles(1.0, 2.0), ctypes.byref(value), None) == 0
    assert value.value == 5.0
    status = functions.evaluate(2, doubles(-1.0, 2.0), ctypes.byref(value), None)
    assert functions.words(status).startswith("a decision on values differs")
    assert math.isnan(functions.value(2, doubles(-1.0, 2.0), None))


@needs_entry
def test_misses_of_known_ways_stay_in_machine_code() -> None:
    """More ways than other programs that the fast path tries; no reference is lost on a miss."""
    compiled, x = aj.compile(lambda x, n: x * sum(range(n)), threads=1), np.ones(3)
    numbers = [np.int64(number) for number in range(MAX_PROGRAMS + 2)]
    for _ in range(3):
        for number in numbers:
            compiled(x, number)
    before, references = sum(program.runs for program in compiled.programs()), sys.getrefcount(x)
    for number in 20 * numbers:
        assert compiled(x, number)[0] == sum(range(number))
    assert sum(program.runs for program in compiled.programs()) == before
    assert sys.getrefcount(x) == references


def test_explain_names_the_decision() -> None:
    compiled = aj.compile(lambda x: (x + 1, "up") if np.sum(x) > 0 else (x - 1, "down"))
    for sign in (1.0, -1.0, 1.0):
        compiled(sign * np.ones(2))
    assert "the truth value at" in compiled.explain()
    assert "is False, as in no other way through the function" in compiled.explain()
    tree = re.sub(r" at \S+ in <lambda>", "", compiled.explain()).partition("2 ways through the decisions on values\n")[2]
    assert tree.startswith("  if the truth value is True:\n    2 calls (this program)\n  if the truth value is False:\n    1 call\n")


def test_explain_names_branches_and_loops() -> None:
    def halves(x: Any) -> Any:
        while x > 1:
            x = x / 2
        return x if x > 0.7 else -x

    compiled = aj.compile(halves, backend="interpret")
    assert [compiled(x) for x in (10.0, 6.0, 100.0)] == [halves(x) for x in (10.0, 6.0, 100.0)]
    assert re.search(r"a loop at .*\n.*while x > 1", compiled.explain())
    assert re.search(r"branches of which both ways run: .*test_value_guards.py:\d+ in halves", compiled.explain())


def test_explain_names_branches_of_which_one_way_runs() -> None:
    def roots(x: Any) -> Any:
        return np.sqrt(x) if np.sum(x) > 0.7 else -x

    compiled = aj.compile(roots, backend="interpret")
    for x in (np.ones(3), -np.ones(3), np.ones(3)):
        np.testing.assert_array_equal(compiled(x), roots(x))
    assert re.search(r"a branch at .*\n.*np.sum\(x\) > 0.7", compiled.explain())


def table(m):
    rows = [[0 for _ in range(m)] for _ in range(m + 1)]
    for i in range(m + 1):
        rows[i][0] = i
    return rows[m][m - 1] + len(rows)


@pytest.mark.parametrize("backend", BACKENDS)
def test_guards_are_missed_in_the_order_of_python(backend: str) -> None:
    """A kernel makes `m + 1` and `m - 1`: the guard on `m` could come before it, and a call that misses it would be taken for one of as
    many rows."""
    compiled = aj.compile(table, backend=backend)
    for m in (5, 7, 2):
        assert compiled(np.int64(m)) == table(m)
    numbers = [int(number) for number in re.findall(r"guard .*number=(\d+)", compiled.ir("planned", np.int64(5)))]
    assert numbers == sorted(numbers)
    assert len(numbers) >= 2


def test_large_programs_that_no_other_call_uses(monkeypatch):
    """Behind three of them, calls of other ways run step by step, of which every ninth makes a program; one that is used ends that."""
    monkeypatch.setattr(ways, "LARGE_OPS", 1)

    def f(x):
        return x * int(x[0])

    compiled = aj.compile(f, backend="interpret")

    def traces_after(number):
        x = np.array([float(number), 2.0])
        assert compiled(x).tolist() == f(x).tolist()
        return compiled.cache_info().traces

    assert [traces_after(number) for number in range(3)] == [1, 2, 3]
    with pytest.warns(UserWarning, match=r"(?s)used for one call each.*test_value_guards"):
        assert traces_after(3) == 3
    assert [traces_after(number) for number in (4, 5, 6, 7, 8, 9, 10, 11, 12, 11, 20)] == [*[3] * 7, 4, 4, 4, 5]
