"""`map`: examples in a loop whose iterations are tasks, against a loop in Python; derivatives; the same bits for any number of threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit.ir.errors import IndexingError, ShapeError, TraceError
from adjit.runtime import batched_map
from adjit.runtime.control_flow import scan

RNG = np.random.default_rng(0)
W = RNG.normal(size=20)
X = RNG.normal(size=(101, 20))


def iterated(w: Any, x: Any) -> Any:
    """As many iterations as the example takes, with a product in each."""
    return aj.while_loop(lambda s: s[0] < 30.0, lambda s: (s[0] * 1.5 + 0.1, s[1] * np.tanh(w @ x) + s[0]), (np.abs(x[0]) + 0.1, 1.0))[1]


def plain(x: Any) -> float:
    size, total = abs(x[0]) + 0.1, 1.0
    while size < 30.0:
        size, total = size * 1.5 + 0.1, total * np.tanh(W @ x) + size
    return float(total)


def rms(x: Any) -> Any:
    return np.sqrt(np.mean(x * x))


def program(threads: int) -> Any:
    f = aj.compile(lambda w, X: aj.value_and_grad(lambda w: np.sum(aj.map(lambda x: iterated(w, x), X) ** 2))(w), threads=threads)
    for _ in range(3):      # the pool is there from the second call on
        f(W, X)
    return f


def test_bits_do_not_depend_on_threads() -> None:
    """Of values, and of gradients in what examples share, whose sums are divided."""
    alone, many = program(1), program(3)
    (value, gradient), (same, equal) = alone(W, X), many(W, X)
    assert value == same
    np.testing.assert_array_equal(gradient, equal)
    np.testing.assert_allclose(value, np.sum(np.square([plain(x) for x in X])), rtol=1e-12)
    h = 1e-6 * W
    np.testing.assert_allclose(gradient @ h, (alone(W + h, X)[0] - alone(W - h, X)[0]) / 2, rtol=1e-6)
    (line,) = [line.split() for line in many.explain(W, X).splitlines() if line.strip().startswith("divide_sums")]
    assert int(line[1]) < int(line[3])      # it did something


def test_tasks_have_memory_of_their_own() -> None:
    """The plan gives the region of a dealt loop no memory in the program's arena."""
    f = aj.compile(lambda X: aj.map(lambda x: np.sort(np.sort(np.tile(x, 9)) * 2)[::-1].cumsum(), X))
    np.testing.assert_allclose(f(X), [np.sort(np.sort(np.tile(x, 9)) * 2)[::-1].cumsum() for x in X])
    (line,) = [line for line in f.ir("planned").splitlines() if " = scan " in line]
    assert "carries=0" in line
    assert "scratch_bytes=0" in line
    long = aj.compile(lambda X: aj.map(lambda x: np.sort(np.tile(x, 60_000))[::30_000], X))      # more than a thread has
    np.testing.assert_array_equal(long(X[:2]), [np.sort(np.tile(x, 60_000))[::30_000] for x in X[:2]])
    (line,) = [line for line in long.ir("planned").splitlines() if " = scan " in line]
    assert "scratch_bytes=0" not in line


@pytest.mark.parametrize("batch", [1, 4])
def test_trees_and_ends(batch: int) -> None:
    xs = {"a": X[:10], "n": np.arange(10)}

    def f(x: Any) -> Any:
        return x["a"] * 2, {"s": np.sum(x["a"]) + x["n"], "k": x["n"]}

    double, rest = aj.map(f, xs, batch=batch)
    np.testing.assert_array_equal(double, 2 * X[:10])
    np.testing.assert_allclose(rest["s"], X[:10].sum(1) + np.arange(10))
    assert rest["k"].dtype == np.int64
    empty = aj.map(f, {"a": X[:0], "n": np.arange(0)}, batch=batch)
    assert empty[0].shape == (0, 20)
    assert aj.map(f, {"a": X[:1], "n": np.arange(1)}, batch=batch)[1]["s"].shape == (1,)
    inside = aj.vmap(lambda s: aj.map(lambda x: x * s, X[:3], batch=batch))(np.array([1.0, 2.0]))
    np.testing.assert_array_equal(inside, [X[:3], 2 * X[:3]])


def test_a_call_compiles_once(monkeypatch: pytest.MonkeyPatch) -> None:
    traces = []
    monkeypatch.setattr(batched_map, "scan", lambda *args: traces.append(args) or scan(*args))
    assert aj.map(rms, X).shape == aj.map(rms, 2 * X).shape == (101,)
    assert len(traces) == 1
    tensor = aj.tensor(X[:5], requires_grad=True)
    aj.map(lambda x: np.sum(x * x), tensor).sum().backward()
    np.testing.assert_allclose(tensor.grad.numpy(), 2 * X[:5])


def test_a_task_that_fails() -> None:
    """An index of one example that is out of range is an error, and a call of Python runs on the calling thread."""
    places = np.arange(300) % 20
    f = aj.compile(lambda X, i: aj.map(lambda pair: np.sort(np.tile(pair[0], 20))[pair[1] * 20], (X, i)))
    rows = np.tile(X, (3, 1))[:300]
    assert f(rows, places).shape == (300,)
    places[271] = 20
    with pytest.raises(IndexingError, match="400"):
        f(rows, places)
    seen = []

    def host(x: Any) -> Any:
        seen.append(1)
        return x * 2

    called = aj.map(lambda x: aj.pure_callback(host, np.zeros(20), x)[0], X)
    np.testing.assert_array_equal(called, 2 * X[:, 0])
    assert len(seen) >= 101


@pytest.mark.parametrize(("call", "error", "says"), [
    (lambda: aj.map(np.sum, X, batch=0), TraceError, "batch is 0"),
    (lambda: aj.map(np.sum, X, batch=2.0), TraceError, "batch is 2.0"),
    (lambda: aj.map(np.sum, 1.0), ShapeError, "xs has no axis"),
    (lambda: aj.map(lambda x: x[0], (X, X[:3])), ShapeError, r"101 for xs\[0\] but 3 for xs\[1\]"),
    (lambda: aj.map(lambda x: 1.0, {}), ShapeError, "xs has no arrays")])
def test_errors(call: Callable[[], Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        call()
