"""Loops and branches: values and derivatives against Python's own, in every backend, at once and captured; and what is refused."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.tracing import counted_runs

import adjit as aj
import adjit.ir.ops.control_flow as control_flow
from adjit.errors import DTypeError, ShapeError, TraceError, UnsupportedError
from adjit.runtime.native.executable import NativeExecutable

BACKENDS = ("interpret", "numba", "native")
every_backend = pytest.mark.parametrize("backend", BACKENDS)
both = pytest.mark.parametrize("backend", ["interpret", "native"])      # numba takes a second for a few kernels

RNG = np.random.default_rng(7)
X = RNG.standard_normal((5, 3))
H = RNG.standard_normal(3)
W = RNG.standard_normal((3, 3)) * 0.5


@pytest.fixture(autouse=True)
def _verified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADJIT_VERIFY", "1")


def close(found: Any, expected: Any, tolerance: float = 1e-10) -> None:
    found, expected = (np.concatenate([np.ravel(leaf) for leaf in leaves(tree)]) for tree in (found, expected))
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def leaves(tree: Any) -> list[Any]:
    if isinstance(tree, dict):
        return [leaf for key in sorted(tree) for leaf in leaves(tree[key])]
    if isinstance(tree, (tuple, list)):
        return [leaf for item in tree for leaf in leaves(item)]
    return [tree]


def python_scan(f: Callable[..., Any], init: Any, xs: Any) -> tuple[Any, Any]:
    """What `scan` means, unrolled: for one array of slices, and rows that are one array."""
    carry, rows = init, []
    for i in range(xs.shape[0]):
        carry, row = f(carry, xs[i])
        rows.append(row)
    return carry, np.stack(rows)


def recurrent(run: Callable[..., Any]) -> Callable[..., Any]:
    def loss(params: dict[str, Any], h: Any, xs: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = np.tanh(h @ params["w"] + x * params["b"])
            return h, h * x
        last, rows = run(step, h, xs)
        return np.sum(last ** 2) + np.sum(np.sin(rows))
    return loss


PARAMS = {"w": W, "b": RNG.standard_normal(3)}


@every_backend
def test_scan_is_the_unrolled_loop_with_its_gradient(backend: str) -> None:
    both = aj.value_and_grad(aj.compile(recurrent(aj.scan), backend=backend), (0, 1, 2))
    close(both(PARAMS, H, X), unrolled_recurrent()[0])


TANGENTS = ({"w": W[::-1].copy(), "b": H}, H * 0.3, X[::-1].copy())


@functools.cache
def unrolled_recurrent() -> Any:
    """Of the unrolled loop: value and gradient, value and tangent, the product with the Hessian."""
    f = aj.compile(recurrent(python_scan), backend="interpret")
    primals = (PARAMS, H, X)
    return aj.value_and_grad(f, (0, 1, 2))(*primals), aj.jvp(f, primals, TANGENTS), aj.hvp(f, primals, TANGENTS)


@both
def test_second_order_and_forward_mode_of_a_scan(backend: str) -> None:
    loop = recurrent(aj.scan)
    primals = (PARAMS, H, X)
    pushed = aj.compile(lambda primals, tangents: aj.jvp(loop, primals, tangents), backend=backend)
    close(pushed(primals, TANGENTS), unrolled_recurrent()[1])
    product = aj.compile(lambda primals, tangents: aj.hvp(loop, primals, tangents), backend=backend)
    close(product(primals, TANGENTS), unrolled_recurrent()[2])


@both
def test_third_derivative(backend: str) -> None:
    def loop(x: Any) -> Any:
        return aj.fori_loop(0, 4, lambda i, c: np.sin(c * x) + 0.1 * i, x)

    def unrolled(x: Any) -> Any:
        c = x
        for i in range(4):
            c = np.sin(c * x) + 0.1 * i
        return c

    third = [aj.compile(aj.grad(aj.grad(aj.grad(f))), backend=backend)(0.7) for f in (loop, unrolled)]
    close(*third, 1e-8)


@both
def test_reverse_scan_and_slices_of_trees(backend: str) -> None:
    @aj.compile(backend=backend)
    def suffix_sums(xs: dict[str, Any]) -> Any:
        return aj.scan(lambda c, x: ((c[0] + x["a"], c[1] + 1), {"sum": c[0] + x["a"], "n": c[1]}), (np.zeros(3), 0), xs, reverse=True)

    (total, count), rows = suffix_sums({"a": X})
    close(total, X.sum(0))
    assert count == 5
    assert rows["n"].dtype == np.int64
    np.testing.assert_array_equal(rows["n"], [4, 3, 2, 1, 0])
    close(rows["sum"], np.cumsum(X[::-1], 0)[::-1])
    gradient = aj.grad(lambda x: np.sum(suffix_sums({"a": x})[1]["sum"] * X))(X)
    close(gradient, np.cumsum(X, 0))


@both
@pytest.mark.parametrize("trips", [0, 1, 7, 200])
def test_while_loop_and_its_gradient(backend: str, trips: int) -> None:
    def loop(x: Any, w: Any, n: Any) -> Any:
        state = aj.while_loop(lambda s: s["i"] < n, lambda s: {"i": s["i"] + 1, "x": np.sin(s["x"] * w) + s["x"] * 0.3}, {"i": 0, "x": x})
        return np.sum(state["x"] ** 2)

    def unrolled(x: Any, w: Any) -> Any:
        for _ in range(trips):
            x = np.sin(x * w) + x * 0.3
        return np.sum(x ** 2)

    f = aj.compile(loop, backend=backend)
    close(f(H, W[0], np.asarray(trips)), unrolled(H, W[0]))
    close(aj.grad(f, (0, 1))(H, W[0], np.asarray(trips)), aj.grad(aj.compile(unrolled, backend="interpret"), (0, 1))(H, W[0]))


@pytest.mark.parametrize("order", [1, 2])
def test_checkpoints_that_do_not_hold_every_run(order: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adjit.passes.autodiff.reverse_control_flow.MIN_CHECKPOINTS", 8)
    monkeypatch.setattr("adjit.passes.autodiff.reverse_control_flow.MAX_CHECKPOINTS", 8)
    monkeypatch.setattr("adjit.passes.autodiff.reverse_control_flow.MAX_ITERATIONS", 8 ** (4 - order))

    def loop(x: Any, n: Any) -> Any:
        return aj.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, np.sin(s[1] * 1.3) + 0.01 * s[0]), (0, x))[1]

    f: Callable[..., Any] = loop
    for _ in range(order):
        f = aj.grad(f)
    gradient = aj.compile(f, backend="native")
    for trips in (0, 1, 8, 9, 30, 64, 65, 150, 700):
        close(gradient(0.4, np.asarray(trips)), derivatives_of_the_loop(0.4, trips)[order], 1e-9)


def test_no_run_is_repeated_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 8 checkpoints 1000 runs are made forward, three times for stretches within stretches, and once for the derivative; loops over
    stretches count too."""
    monkeypatch.setattr("adjit.passes.autodiff.reverse_control_flow.MIN_CHECKPOINTS", 8)
    monkeypatch.setattr("adjit.passes.autodiff.reverse_control_flow.MAX_CHECKPOINTS", 8)
    monkeypatch.setattr("adjit.passes.autodiff.reverse_control_flow.MAX_ITERATIONS", 1 << 12)
    runs: list[int] = []

    def counted(*args: Any) -> Any:
        found = run_while(*args)
        runs.append(found[0])
        return found

    def loop(x: Any, n: Any) -> Any:
        return aj.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, np.sin(s[1] * 1.3) + 0.01 * s[0]), (0, x))[1]

    run_while = control_flow.run_while
    gradient = aj.compile(aj.grad(loop), backend="interpret")
    monkeypatch.setattr(control_flow, "run_while", counted)
    for trips, times in ((8, 2), (64, 3), (500, 4), (1000, 5)):
        runs.clear()
        close(gradient(0.4, np.asarray(trips)), derivatives_of_the_loop(0.4, trips)[1], 1e-9)
        assert times * trips <= sum(runs) <= (times + 0.7) * trips, (trips, sum(runs) / trips)


def derivatives_of_the_loop(x: float, trips: int) -> tuple[float, float, float]:
    """Value and derivatives by the rules of Taylor series."""
    a, b, c = x, 1.0, 0.0
    for i in range(trips):
        sine, cosine = np.sin(1.3 * a), np.cos(1.3 * a)
        a, b, c = sine + 0.01 * i, 1.3 * cosine * b, 1.3 * cosine * c - 1.69 * sine * b * b
    return a, b, c


def test_forward_mode_and_second_order_of_a_while_loop() -> None:
    def loop(x: Any, n: Any) -> Any:
        return np.sum(aj.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, np.sin(s[1] * x) + 0.2), (0, x))[1])

    def unrolled(x: Any) -> Any:
        c = x
        for _ in range(6):
            c = np.sin(c * x) + 0.2
        return np.sum(c)

    n = np.asarray(6)
    for transform in (aj.jvp, aj.hvp):
        found, expected = (aj.compile(lambda x, t, f=f, transform=transform: transform(f, (x,), (t,)), backend=backend)
                           for f, backend in ((lambda x: loop(x, n), "native"), (unrolled, "interpret")))
        close(found(H, X[0]), expected(H, X[0]))


def test_forward_mode_of_everything_in_a_loop() -> None:
    """Branches, checkpoints, custom rules, integers and constants in the body of a loop, whose tangents are carried along."""
    @aj.custom_vjp
    def doubled(x: Any) -> Any:
        return x * 2.0

    doubled.defvjp(lambda x: (x * 2.0, np.cos(x)), lambda cosine, ct: (ct * 2.0 + 0.0 * cosine,))

    def f(x: Any, run: Callable[..., Any], choose: Callable[..., Any]) -> Any:
        def body(i: Any, c: Any) -> Any:
            c = choose(np.sum(c) > 0.5, lambda c: np.sin(c) * x, lambda c: aj.checkpoint(np.exp)(-c) + 0.1 * i, c)
            return doubled(c) * 0.6 + aj.stop_gradient(c) * 0.1 + np.argmax(c) * 0.01 + np.sort(c) * 0.1
        return run(0, 5, body, x)

    def python_for(lo: int, hi: int, body: Callable[..., Any], c: Any) -> Any:
        for i in range(lo, hi):
            c = body(i, c)
        return c

    def traced_for(lo: int, hi: int, body: Callable[..., Any], c: Any) -> Any:
        return aj.fori_loop(lo, (c[0] * 0).astype(int) + hi, body, c)

    def python_choice(flag: Any, f: Callable[..., Any], g: Callable[..., Any], c: Any) -> Any:
        return np.where(flag, f(c), g(c))

    def derivatives(run: Callable[..., Any], choose: Callable[..., Any]) -> Any:
        @aj.compile(backend="interpret")
        def both(x: Any, t: Any) -> Any:
            loss = lambda x: np.sum(f(x, run, choose) ** 2)     # noqa: E731
            return aj.jvp(lambda x: f(x, run, choose), (x,), (t,)), aj.hvp(loss, (x,), (t,))
        return both(H, X[1])

    expected = derivatives(python_for, python_choice)
    for run in (aj.fori_loop, traced_for):
        close(derivatives(run, aj.cond), expected)


@every_backend
def test_while_loop_until_something_converges(backend: str) -> None:
    def root(a: Any) -> Any:
        return aj.while_loop(lambda x: np.abs(x * x - a) > 1e-12, lambda x: 0.5 * (x + a / x), a)

    f = aj.compile(root, backend=backend)
    for a in (2.0, 50.0, 1e4):
        close(f(a), np.sqrt(a))
        close(aj.grad(f)(a), 0.5 / np.sqrt(a), 1e-6)


@both
def test_fori_loop_with_static_and_traced_bounds(backend: str) -> None:
    def powers(x: Any, lo: Any, hi: Any) -> Any:
        return aj.fori_loop(lo, hi, lambda i, c: c * x + i, np.ones_like(x))

    expected = np.ones(3)
    for i in range(2, 6):
        expected = expected * H + i
    static = aj.compile(powers, backend=backend)
    traced = aj.compile(lambda x, lo, hi: powers(x, lo[()], hi[()]), backend=backend)
    assert "scan" in static.ir("traced", H, 2, 6)
    assert "while_loop" in traced.ir("traced", H, np.asarray(2), np.asarray(6))
    for f, lo, hi in ((static, 2, 6), (traced, np.asarray(2), np.asarray(6))):
        close(f(H, lo, hi), expected)
        close(f(H, lo, lo), np.ones(3))
    close(aj.grad(lambda x: np.sum(static(x, 2, 6)))(H), aj.grad(lambda x: np.sum(traced(x, np.asarray(2), np.asarray(6))))(H))


@every_backend
def test_cond_takes_one_branch_and_its_gradient(backend: str) -> None:
    @aj.compile(backend=backend)
    def f(flag: Any, x: Any, y: Any) -> Any:
        return np.sum(aj.cond(flag[()], lambda x: np.sqrt(x) * y, lambda x: x * x, x))

    x, y = np.array([4.0, 0.0]), np.array([1.0, 2.0])
    yes, no = np.asarray(True), np.asarray(False)
    close(f(yes, x, y), 2.0)
    close(f(no, x, y), 16.0)
    close(aj.grad(f, (1, 2))(no, x, y), [[8.0, 0.0], [0.0, 0.0]])
    close(aj.grad(f, (1, 2))(yes, np.array([4.0, 1.0]), y), [[0.25, 1.0], [2.0, 1.0]])
    twice = aj.grad(lambda x: np.sum(aj.grad(f, 1)(no, x, y) * y))
    close(twice(x), 2 * y)


def test_branch_that_is_not_taken_gives_no_nan() -> None:
    def f(x: Any) -> Any:
        return aj.cond(x > 0, np.log, lambda x: x * 3.0, x)

    for backend in ("interpret", "native"):
        gradient = aj.compile(aj.grad(f), backend=backend)
        close([gradient(-1.0), gradient(0.0), gradient(2.0)], [3.0, 3.0, 0.5])
        close(aj.jvp(aj.compile(f, backend=backend), (0.0,), (1.0,)), (0.0, 3.0))


@both
def test_loops_within_loops(backend: str) -> None:
    def loss(run_scan: Callable[..., Any], run_for: Callable[..., Any], x: Any, w: Any) -> Any:
        def outer(c: Any, row: Any) -> Any:
            inner = run_for(0, 3, lambda i, d: np.sin(d * w) + row * i, c)
            return inner * 0.5 + c, np.sum(inner)
        last, rows = run_scan(outer, np.ones_like(x[0]), x)
        return np.sum(last) + np.sum(rows ** 2)

    def python_for(lo: int, hi: int, f: Callable[..., Any], c: Any) -> Any:
        for i in range(lo, hi):
            c = f(i, c)
        return c

    def traced_for(lo: int, hi: int, f: Callable[..., Any], c: Any) -> Any:
        return aj.fori_loop(lo, np.asarray(hi)[()] + (c[0] * 0).astype(int), f, c)

    expected = aj.compile(aj.value_and_grad(lambda x, w: loss(python_scan, python_for, x, w), (0, 1)), backend="interpret")
    for loop in (aj.fori_loop, traced_for):
        f = aj.compile(aj.value_and_grad(lambda x, w, loop=loop: loss(aj.scan, loop, x, w), (0, 1)), backend=backend)
        close(f(X, H), expected(X, H))


@both
def test_gradients_within_a_loop(backend: str) -> None:
    def descend(x: Any, rate: Any, run: Callable[..., Any]) -> Any:
        return run(0, 4, lambda i, x: x - rate * aj.grad(lambda x: np.sum(x ** 4))(x), x)

    def python_for(lo: int, hi: int, f: Callable[..., Any], c: Any) -> Any:
        for i in range(lo, hi):
            c = f(i, c)
        return c

    loop, unrolled = (aj.compile(lambda x, rate, run=run: np.sum(descend(x, rate, run)), backend=backend)
                      for run in (aj.fori_loop, python_for))
    close(loop(H, 0.01), unrolled(H, 0.01))
    close(aj.grad(loop, (0, 1))(H, 0.01), aj.grad(unrolled, (0, 1))(H, 0.01))


@every_backend
def test_arrays_that_are_written_to_in_a_loop(backend: str) -> None:
    @aj.compile(backend=backend)
    def fibonacci(start: Any) -> Any:
        def step(i: Any, a: Any) -> Any:
            a = a.copy()
            a[i] = a[i - 1] + a[i - 2]
            return a
        return aj.fori_loop(2, 10, step, start)

    start = np.zeros(10)
    start[:2] = 1.0
    close(fibonacci(start), [1, 1, 2, 3, 5, 8, 13, 21, 34, 55])
    np.testing.assert_array_equal(start[2:], 0)
    close(aj.grad(lambda s: fibonacci(s)[9])(start)[:2], [21, 34])


@every_backend
def test_values_that_change_places(backend: str) -> None:
    f = aj.compile(lambda a, b: aj.fori_loop(0, 3, lambda i, s: (s[1], s[0], s[1]), (a, b, b)), backend=backend)
    a, b = np.ones(2), np.arange(2.0)
    close(f(a, b), (b, a, b))


@both
def test_random_keys_in_a_loop(backend: str) -> None:
    def walk(key: Any, run: Callable[..., Any]) -> Any:
        def step(key: Any, _: Any) -> Any:
            key, use = aj.random.split(key)
            return key, aj.random.normal(use, (2,))
        return run(step, key, np.arange(4))

    key = aj.random.key(3)
    loop, unrolled = (aj.compile(lambda key, run=run: walk(key, run)[1], backend=backend) for run in (aj.scan, python_scan))
    np.testing.assert_array_equal(loop(key), unrolled(key))


@every_backend
def test_no_slices(backend: str) -> None:
    f = aj.compile(lambda h, xs: aj.scan(lambda h, x: (h * x, h + x), h, xs), backend=backend)
    last, rows = f(H, np.zeros((0, 3)))
    close(last, H)
    assert rows.shape == (0, 3)
    gradient = aj.grad(lambda h, xs: np.sum(f(h, xs)[0]) + np.sum(f(h, xs)[1]), (0, 1))(H, np.zeros((0, 3)))
    close(gradient[0], np.ones(3))
    assert gradient[1].shape == (0, 3)


def test_length_without_slices_and_rows_of_nothing() -> None:
    last, rows = aj.compile(lambda h: aj.scan(lambda h, _: (h * 2.0, None), h, None, length=3))(H)
    close(last, 8 * H)
    assert rows is None


def test_plain_arrays_outside_of_a_trace() -> None:
    last, rows = aj.scan(lambda h, x: (h + x, h), H, X)
    assert type(last) is np.ndarray
    close(last, H + X.sum(0))
    assert rows.shape == (5, 3)
    count = aj.while_loop(lambda n: n < 100, lambda n: n * 3, 1)
    assert count == 243
    close(aj.fori_loop(0, np.int64(3), lambda i, x: x + i, 0.0), 3.0)
    assert aj.cond(True, lambda: 1, lambda: 2) == 1
    close(aj.cond(np.sum(H) > 1e9, np.sin, np.cos, H), np.cos(H))


def test_new_numbers_need_no_new_program() -> None:
    def step(h: Any, x: Any) -> Any:
        return h + x, h

    with counted_runs(step) as traces:
        for start in (0, 5, 9):
            assert aj.scan(step, start, np.arange(4))[0] == start + 6
    assert len(traces) == 1


@pytest.mark.parametrize("backend", [None, "interpret", "native"])
def test_tensors(backend: str | None) -> None:
    def run(loop: Callable[..., Any], is_plain: bool) -> Any:
        w, h = (aj.tensor(array, requires_grad=True) for array in (W, H))

        def forward(h: Any, xs: Any) -> Any:
            h = np.ones(3) if is_plain else h

            def step(h: Any, x: Any) -> Any:
                h = aj.tanh(h @ w + x)
                return h, h * 2
            last, rows = loop(step, h, xs)
            return (last ** 2).sum() + aj.sin(rows).sum()

        f = forward if backend is None or loop is not aj.scan else aj.compile(forward, backend=backend)
        loss = f(h, aj.tensor(X))
        assert isinstance(loss, aj.Tensor)
        loss.backward()
        return loss.item(), w.grad.numpy(), np.zeros(3) if is_plain else h.grad.numpy()

    def python_loop(f: Callable[..., Any], c: Any, xs: Any) -> Any:
        rows = []
        for i in range(5):
            c, row = f(c, xs[i])
            rows.append(row)
        return c, aj.stack(rows)

    for is_plain in (False, True):
        close(run(aj.scan, is_plain), run(python_loop, is_plain))


@both
def test_training_step_with_a_loop(backend: str) -> None:
    def step(w: Any, xs: Any) -> Any:
        last = aj.while_loop(lambda s: s[0].sum() < 3.0, lambda s: (s[0] + aj.sigmoid(s[1] @ w), s[1] * 0.9), (xs[0] * 0.0, xs[0]))[0]
        chosen = aj.cond(last[0] > 0.0, lambda x: x * x, lambda x: -x, last)
        loss = chosen.sum()
        loss.backward()
        return loss

    found = []
    for f in (step, aj.compile(step, backend=backend)):
        w = aj.tensor(W, requires_grad=True)
        loss = f(w, aj.tensor(X))
        found.append((loss.item(), w.grad.numpy()))
    close(*found)
    small = 1e-6
    moved = W.copy()
    moved[1, 2] += small
    w = aj.tensor(moved, requires_grad=True)
    close((step(w, aj.tensor(X)).item() - found[0][0]) / small, found[0][1][1, 2], 1e-4)


@pytest.mark.parametrize("compiled", [False, True])
def test_tensors_that_are_only_closed_over(compiled: bool) -> None:
    def last(w: Any) -> Any:
        def inner(i: Any, h: Any) -> Any:
            return aj.cond(h.sum() > 1e6, lambda: h, lambda: aj.tanh(h @ w))
        return aj.scan(lambda h, x: (aj.fori_loop(0, 2, inner, h) + x, None), np.zeros(3), X)[0]

    def step(w: Any) -> Any:
        loss = (last(w) ** 2).sum()
        loss.backward()
        return loss

    w = aj.tensor(W, requires_grad=True)
    (aj.compile(step) if compiled else step)(w)

    def unrolled(w: Any) -> Any:
        h = np.zeros(3)
        for x in X:
            h = np.tanh(np.tanh(h @ w) @ w) + x
        return np.sum(h ** 2)

    close(w.grad.numpy(), aj.grad(unrolled)(W))


@both
def test_float32_stays_and_python_numbers_adapt(backend: str) -> None:
    xs = X.astype(np.float32)
    f = aj.compile(lambda xs: aj.scan(lambda c, x: (c + np.sum(x), c * 2.0), 0.0, xs), backend=backend)
    total, rows = f(xs)
    assert total.dtype == rows.dtype == np.float32
    close(total, xs.sum(), 1e-5)
    assert aj.compile(lambda x: aj.fori_loop(0, 2, lambda i, c: c * 2.0, x))(np.float32(1.5)).dtype == np.float32
    weak = aj.compile(lambda x: x * aj.fori_loop(0, 3, lambda i, c: c * 2.0, 1.0), backend=backend)(np.ones(2, np.float32))
    assert weak.dtype == np.float32
    assert aj.compile(lambda p, x: aj.cond(p[()], lambda x: x, lambda x: 0.0, x))(np.asarray(False), np.float32(2)).dtype == np.float32



def test_python_numbers_take_only_dtypes_that_hold_them() -> None:
    """A start of 0.5 as a bool or an integer would be another number, in a loop and in what a branch returns."""
    for run in (lambda: aj.scan(lambda c, x: (c > 0.7, x), 0.5, X), lambda: aj.fori_loop(0, 2, lambda i, c: i, 0.5),
                lambda: aj.while_loop(lambda c: c < 3, lambda c: c.astype(np.int64) + 5, 0.5)):
        with pytest.raises(DTypeError, match=r"(bool|i64)\[\], but the initial (carry|state) is f64\[\]"):
            run()
    choose = aj.compile(lambda p, f, g: aj.cond(p[()], f, g, 2.0))
    yes, no = np.asarray(True), np.asarray(False)
    count = np.int64(3)
    for f, g in ((lambda x: count * 2, lambda x: 0.5), (lambda x: 0.5, lambda x: count * 2), (lambda x: x > 0.0, lambda x: 3)):
        with pytest.raises(DTypeError, match="but in the"):
            choose(no, f, g)
    for p in (yes, no):
        assert choose(p, lambda x: 1, lambda x: 0.25 * x) == (1.0 if p else 0.5)
        assert choose(p, lambda x: 0.25 * x, lambda x: 1) == (0.5 if p else 1.0)
    assert aj.fori_loop(0, 2, lambda i, c: (c + i) * 0.5, 0) == 0.5
    assert aj.fori_loop(0, 2, lambda i, c: c + 1, True) == 3


def test_python_integers_take_the_integers_that_hold_them() -> None:
    for dtype, fits, other in ((np.uint8, 255, 300), (np.int8, -3, 300), (np.uint16, 0, -1)):
        pixel = np.asarray(2, dtype)
        taken = aj.compile(lambda p, x, fits=fits: (
            aj.cond(p[()], lambda: x[()], lambda: fits), aj.cond(p[()], lambda: fits, lambda: x[()])))
        for result, expected in zip((*taken(np.asarray(True), pixel), *taken(np.asarray(False), pixel)), (2, fits, fits, 2), strict=True):
            assert (result.dtype, result) == (dtype, expected)
        with pytest.raises(DTypeError, match="but in the"):
            aj.compile(lambda p, x, other=other: aj.cond(p[()], lambda: x[()], lambda: other))(np.asarray(False), pixel)


# -- what is refused


def refused(kind: type[Exception], f: Callable[..., Any], *args: Any) -> str:
    with pytest.raises(kind) as caught:
        aj.compile(f)(*args)
    text = str(caught.value)
    assert "test_control_flow.py" in text
    return text


def test_carry_of_another_structure() -> None:
    text = refused(TraceError, lambda x: aj.scan(lambda c, x: ((c, c), x), x[0], x), X)
    assert "(*, *)" in text
    text = refused(TraceError, lambda x: aj.while_loop(lambda s: s["n"] < 3, lambda s: {"n": s["n"] + 1}, {"n": 0, "x": x}), X)
    assert "{'n': *, 'x': *}" in text
    assert "{'n': *}" in text


def test_carry_of_another_shape_or_dtype() -> None:
    text = refused(ShapeError, lambda x: aj.scan(lambda c, x: ({"h": np.outer(c["h"], x)}, x), {"h": x[0]}, x), X)
    assert "['h'] is f64[3,3]" in text
    assert "['h'] is f64[3]" in text
    assert "made by" in text
    assert "a carry keeps its shape" in text
    text = refused(DTypeError, lambda x: aj.fori_loop(0, 3, lambda i, c: c.astype(np.float32), x), X)
    assert "f32[5,3]" in text
    assert "f64[5,3]" in text
    assert ".astype" in text


def test_what_a_scan_runs_over() -> None:
    text = refused(ShapeError, lambda x: aj.scan(lambda c, x: (c, x), 0.0, {"a": x, "b": x[:4]}), X)
    assert "xs['a'] of 5" in text
    assert "xs['b'] of 4" in text
    assert "length" in refused(ShapeError, lambda x: aj.scan(lambda c, x: (c, x), 0.0, x, length=4), X)
    assert "length=" in refused(ShapeError, lambda x: aj.scan(lambda c, _: (c, x), 0.0), X)
    assert "no slices" in refused(ShapeError, lambda x: aj.scan(lambda c, x: (c, x), 0.0, x[0, 0]), X)
    assert "pair" in refused(TraceError, lambda x: aj.scan(lambda c, x: c, 0.0, x), X)
    assert "no array" in refused(UnsupportedError, lambda x: aj.scan(lambda c, x: (c, "row"), 0.0, x), X)


def test_conditions_and_branches() -> None:
    assert "bool scalar" in refused(DTypeError, lambda x: aj.while_loop(lambda x: x > 0, lambda x: x, x), X)
    assert "bool scalar" in refused(DTypeError, lambda x: aj.cond(x > 0, np.sin, np.cos, x), X)
    text = refused(ShapeError, lambda x: aj.cond(x[0, 0] > 0, np.sum, np.sin, x), X)
    assert "in the False branch, the result of sin is f64" in text
    assert "in the True branch, the result of sum is f64" in text
    assert "both branches" in text
    assert "start with" not in text
    assert "f64[]" in text
    assert "f64[5,3]" in text
    assert "structure" in refused(TraceError, lambda x: aj.cond(x[0, 0] > 0, lambda x: (x, x), np.sin, x), X)
    assert "integer" in refused(DTypeError, lambda x: aj.fori_loop(0, x[0, 0], lambda i, x: x, x), X)


@every_backend
def test_index_out_of_range_in_a_loop_within_a_loop(backend: str) -> None:
    def sums(x: Any, n: Any) -> Any:
        def outer(total: Any, row: Any) -> Any:
            total = aj.cond(total > 1e9, lambda t: t, lambda t: t + np.take(x[:, 0], n * 0), total)
            return aj.fori_loop(0, 2, lambda i, t: t + np.take(row, i + n), total), np.take(row, n * 0)     # the place
        return aj.scan(outer, 0.0, x)[0]

    f = aj.compile(sums, backend=backend)
    close(f(X, np.asarray(1)), X[:, 1:].sum() + 5 * X[0, 0])
    with pytest.raises(IndexError, match="out of bounds for axis 0 with size 3") as caught:
        f(X, np.asarray(2))
    assert "index 3 " in str(caught.value)
    assert backend == "interpret" or "# the place" in str(caught.value)


@every_backend
@pytest.mark.parametrize("reverse", [False, True])
def test_an_index_out_of_range_among_slices_is_named(backend: str, reverse: bool) -> None:
    """The indices of each run are a slice of an argument, or of a slice; those of the loop are carried."""
    def picked(x: Any, rows: Any) -> Any:
        def outer(total: Any, row: Any) -> Any:
            return aj.scan(lambda t, i: (t + np.take(x, i), None), total, row, reverse=reverse)[0], None
        return aj.scan(outer, 0.0, rows)[0]

    def counted(x: Any, start: Any) -> Any:
        return aj.while_loop(lambda s: s[0] < 99, lambda s: (s[0] + 1, s[1] + np.take(x, s[0])), (start, 0.0))[1]

    x, rows = np.arange(7.0), np.array([[0, 3, 6], [1, 2, 5]])
    f, g = aj.compile(picked, backend=backend), aj.compile(counted, backend=backend)
    close(f(x, rows), 17.0)
    rows[1, 1] = 8
    with pytest.raises(IndexError, match="index 8 is out of bounds for axis 0 with size 7"):
        f(x, rows)
    with pytest.raises(IndexError, match="index 7 is out of bounds for axis 0 with size 7"):
        g(x, np.asarray(4))


@pytest.mark.parametrize("loop", ["scan", "fori_loop"])
def test_steps_of_a_region_that_are_worth_it_go_to_the_threads(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    launches = []

    @ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)
    def launch(pool: int, step: int, places: int, tasks: int, scratch: int) -> int:
        launches.append(tasks)
        kinds = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p
        return ctypes.CFUNCTYPE(ctypes.c_int64, *kinds)(step)(places, 0, tasks, scratch)

    pool = ctypes.c_void_p(ctypes.cast(launch, ctypes.c_void_p).value)
    monkeypatch.setattr(NativeExecutable, "pool_of_call", lambda self: SimpleNamespace(address=ctypes.addressof(pool)))

    @aj.compile(backend="native", threads=2)
    def power(h: Any, a: Any) -> Any:
        if loop == "scan":
            return aj.scan(lambda h, _: (h @ a, None), h, None, length=5)[0]
        return aj.fori_loop(0, 5, lambda _, h: h @ a, h)

    h, a = np.ones((256, 256)), np.full((256, 256), 0.5)
    close(power(h, a), h @ a @ a @ a @ a @ a)
    assert launches == launches[:len(launches) // 5] * 5
    assert min(launches) > 1
