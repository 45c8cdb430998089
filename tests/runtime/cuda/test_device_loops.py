"""Loops, branches and decisions of functions on the emulated device: values and derivatives against the CPU's, and failures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.random_loops import compare

import adjit as aj
from adjit.codegen.cuda.emulated import EmulationError
from adjit.codegen.cuda.nodes import HostNode
from adjit.errors import IndexingError
from adjit.runtime.cuda.device_array import DeviceArray
from adjit.runtime.cuda.emulated_driver import EmulatedDriver, check_order
from adjit.runtime.native.code import native_is_supported

pytestmark = pytest.mark.skipif(not native_is_supported(), reason="the emulated device is for CPython on Linux on x86-64")
X = np.linspace(0.5, 2, 5)


@pytest.fixture(autouse=True)
def emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADJIT_CUDA", "emulated")


def rows_of_odd_size(x: Any) -> Any:
    """Slices and rows begin at multiples of 4 bytes alone; carries swap places."""
    def body(carry: tuple[Any, Any], row: Any) -> Any:
        a, b = carry
        return (b, np.sin(a) + row), a * row
    rows = np.stack([x, 2 * x, x - 1]).astype(np.float32)
    return aj.scan(body, (rows[0], rows[1]), rows, reverse=True)


def counted(x: Any) -> Any:
    return aj.fori_loop(0, 7, lambda i, c: c * np.cos(c) + i, x)


def until(x: Any) -> Any:
    return aj.while_loop(lambda c: c.sum() < 100, lambda c: c * 1.3 + 0.1, x)


def branches(x: Any) -> Any:
    taken = aj.cond(x.sum() > 3, np.sin, lambda x: x, x)
    return taken + aj.cond(x.sum() > 300, np.sin, lambda x: x, x) * x


def nested(x: Any) -> Any:
    def body(c: Any, e: Any) -> Any:
        return aj.while_loop(lambda a: a < e + 3, lambda a: a * 1.5 + 0.1, c * 0.2), aj.cond(e > 1, lambda e: e * e, lambda e: e - 1, e)
    last, rows = aj.scan(body, x[0], x)
    return rows * last


def examples(x: Any) -> Any:
    return aj.vmap(lambda e: aj.while_loop(lambda c: c < 5, lambda c: c * 1.7, e))(x)


def python_loop(x: Any) -> Any:
    rounds = 0
    while x.sum() < 50:
        x = x * 1.2 if x[0] < 3 else x * x
        rounds += 1
    return x + rounds


def with_derivatives(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def total(x: Any) -> Any:
        return (f(x) * np.arange(1.0, 6)).sum()
    return lambda x: (f(x), aj.grad(total)(x), aj.grad(lambda x: (aj.grad(total)(x) ** 2).sum())(x))


@pytest.mark.parametrize("f", [counted, until, branches, nested, examples, python_loop])
def test_values_and_derivatives_are_those_of_the_cpu(f: Callable[[Any], Any]) -> None:
    found, expected = aj.compile(with_derivatives(f), device="cuda")(aj.device_put(X)), aj.compile(with_derivatives(f))(X)
    for a, b in zip(found, expected, strict=True):
        assert isinstance(a, DeviceArray)
        np.testing.assert_allclose(np.asarray(a), b, rtol=1e-10)


def test_slices_that_no_wide_load_could_read() -> None:
    found, expected = aj.compile(rows_of_odd_size, device="cuda")(X), aj.compile(rows_of_odd_size)(X)
    for a, b in zip((*found[0], found[1]), (*expected[0], expected[1]), strict=True):
        np.testing.assert_allclose(np.asarray(a), b, rtol=1e-6)


def test_few_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("MIN_CHECKPOINTS", 2), ("MAX_CHECKPOINTS", 2), ("MAX_ITERATIONS", 8)):
        monkeypatch.setattr(f"adjit.passes.autodiff.reverse_control_flow.{name}", value)
    gradient = aj.grad(lambda x: aj.while_loop(lambda c: c.sum() < 30, lambda c: c + 0.1 * c * c, x).sum())      # 7 iterations
    np.testing.assert_allclose(np.asarray(aj.compile(gradient, device="cuda")(X)), aj.compile(gradient)(X), rtol=1e-12)


@pytest.mark.share(6)
@pytest.mark.parametrize("seed", range(300, 324))
def test_random_nests(seed: int) -> None:
    compare(seed, 1 + seed % 2, device="cuda")


def test_a_decision_goes_the_way_of_each_call() -> None:
    @aj.compile(device="cuda", donate="w")
    def step(w: Any, x: Any) -> Any:
        return w + x if x.sum() > 0 else w - 2 * x

    w, x = aj.device_put(np.zeros(3)), np.ones(3)
    for sign in (1.0, -1.0, 1.0, -1.0):
        assert step(w, sign * x) is w
    assert np.asarray(w).tolist() == [6, 6, 6]


def test_a_value_that_is_another_one_is_noticed_before_anything_is_written() -> None:
    @aj.compile(device="cuda", donate="w")
    def repeated(w: Any, n: Any) -> Any:
        for _ in range(int(n)):
            w = w + 1
        return w

    w = aj.device_put(np.zeros(2))
    for count in (2, 3, 2):
        assert repeated(w, np.array(count)) is w
    assert np.asarray(w).tolist() == [7, 7]


def looked_up(w: Any, x: Any, places: Any) -> Any:
    return w + 1, aj.scan(lambda c, i: (c + x[i], None), 0.0, places)[0]


def test_indices_within_loops_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who reads what a call with a bad index has not computed, or what later calls computed from that, gets the error of the call, each
    time; what the call would have written to keeps its content, and is told of once."""
    function, w, bad = aj.compile(looked_up, device="cuda", donate="w"), aj.device_put(np.zeros(2)), np.array([0, 9, 1])
    assert float(function(w, X, np.array([0, 3, -1]))[1]) == X[[0, 3, -1]].sum()
    assert "1 checks of indices, whose errors come with the results" in function.explain(w, X, bad)
    _, total = function(w, X, bad)
    later = aj.compile(lambda x: 2 * x, device="cuda")(total)
    with pytest.raises(IndexingError, match="index 9 is out of bounds for axis 0 with size 5"):
        np.asarray(w)
    for each in (total, later, later.copy(), total):
        with pytest.raises(IndexingError, match="index 9 is out of bounds for axis 0 with size 5") as caught:
            float(each)
    assert "test_device_loops.py" in str(caught.value)
    with pytest.raises(IndexingError):
        aj.compile(lambda x: 3 * x, device="cuda")(total)           # it is known by now
    with pytest.raises(IndexingError):
        aj.compile(until, device="cuda")(function(w, X, bad)[1])        # a loop on what nobody computed might not end
    assert np.asarray(w).tolist() == [1, 1]
    for _ in range(20):             # nobody reads; doubts do not pile up
        w, _ = function(w, X, np.array([1]))
    assert len(w.doubts) <= 17
    assert np.asarray(w).tolist() == [21, 21]
    monkeypatch.setattr(EmulatedDriver, "has_conditional_nodes", False)
    with pytest.raises(IndexingError, match="index -6 is out of bounds for axis 0 with size 5"):
        aj.compile(looked_up, device="cuda", donate="w", threads=1)(w, X, np.array([0, -6]))
    assert np.asarray(w).tolist() == [21, 21]


def test_indices_that_are_looked_up_are_checked_first() -> None:
    """Within loops and branches, too, in any nesting: what follows a bad index is left out, and loops end."""
    function = aj.compile(lambda x, table, i: x[table[i]], device="cuda")
    table = np.array([0, 4, 9])
    assert np.asarray(function(X, table, np.array([1, 0]))).tolist() == X[[4, 0]].tolist()
    for bad in ([7, 0], [2, 0]):
        with pytest.raises(IndexingError, match="out of bounds"):
            np.asarray(function(X, table, np.array(bad)))

    def deep(x: Any, table: Any) -> Any:
        def body(carry: Any, place: Any) -> Any:
            found = aj.while_loop(lambda c: x[table[c % 3]] < 1.9, lambda c: c + 1, place)
            return aj.cond(place > 1, lambda c: c + x[table[found % 3]], lambda c: c - x[found], carry), found
        last, rows = aj.scan(body, 0.0, np.arange(3))
        return last + x[rows].sum(), rows

    function, expected = aj.compile(deep, device="cuda"), aj.compile(deep)
    for good in (np.array([0, 4, 1]), np.array([4, 0, 4])):
        for a, b in zip(function(X, good), expected(X, good), strict=True):
            np.testing.assert_allclose(np.asarray(a), b)
    for bad in (np.array([0, 4, 9]), np.array([0, -7, 4]), np.array([5, 4, 4])):
        with pytest.raises(IndexingError, match="out of bounds for axis 0 with size 5"):
            np.asarray(function(X, bad)[0])


def test_what_waits_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver without conditional nodes has its loops run by the host, with the same bits."""
    function = aj.compile(until, device="cuda")
    assert "loops and branches that stay on the device: 1 while_loop" in function.explain(X)
    assert "waits for" not in function.explain(X)
    assert "until" in str(function.profile(X))
    program = function.programs()[0].executable.program
    (loop,) = [node for node in program.nodes if isinstance(node, HostNode)]
    assert len(loop.programs) == 2
    wrong = [*program.nodes, *[HostNode(loop.op, loop.places, ())]]
    with pytest.raises(EmulationError, match="neither waits"):
        check_order(wrong)
    (step,) = program.steps
    with pytest.raises(EmulationError, match="neither waits"):
        check_order([replace(node, after=()) for node in step])
    monkeypatch.setattr(EmulatedDriver, "has_conditional_nodes", False)
    by_host = aj.compile(lambda x: until(x), device="cuda")
    assert "decisions and calls that the host waits for: 1 while_loop" in by_host.explain(X)
    assert np.asarray(by_host(X)).tobytes() == np.asarray(function(X)).tobytes()


def test_functions_of_python_are_called_on_copies(capsys: pytest.CaptureFixture[str]) -> None:
    def told(x: Any) -> Any:
        aj.debug.print("begin {}", x.sum())
        doubled = aj.pure_callback(lambda x: 2 * x, np.zeros(5), x)

        def body(i: Any, c: Any) -> Any:
            aj.debug.print("{} {}", i, c[0])
            return c + doubled
        return aj.fori_loop(0, 2, body, x)

    function = aj.compile(told, device="cuda")
    for _ in range(2):
        np.testing.assert_array_equal(np.asarray(function(X)), 5 * X)
        assert capsys.readouterr().out.split() == ["begin", "6.25", "0", "0.5", "1", "1.5"]
