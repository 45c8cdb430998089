"""Checks of collectives, run by each rank (`tests/runtime/ranks/test_collectives.py`): programs on parts of the data against the same
function of all data on one machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.ranks import run_checks

import adjit as aj
from adjit import distributed as dist
from adjit.runtime.settings import THREADS

RANK, SIZE = dist.rank(), dist.size()
RANDOM = np.random.default_rng(0)
ROWS = 64
X, Y = RANDOM.normal(size=(ROWS, 5)), RANDOM.normal(size=ROWS)
W, V, MANY = RANDOM.normal(size=5), RANDOM.normal(size=5), RANDOM.normal(size=(3, 5))
OWN = slice(RANK * ROWS // SIZE, (RANK + 1) * ROWS // SIZE)
X_OWN, Y_OWN = X[OWN], Y[OWN]
FACTORS = np.arange(1.0, SIZE + 1)


def whole(w: Any) -> Any:
    return np.sum(np.tanh(X @ w - Y) ** 2) / ROWS + 0.1 * np.sum(w ** 2)


def parts(w: Any) -> Any:
    return dist.all_reduce(np.sum(np.tanh(X_OWN @ dist.replicated(w) - Y_OWN) ** 2)) / ROWS + 0.1 * np.sum(w ** 2)


def close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def check_world() -> None:
    assert int(sys.argv[1]) == SIZE
    assert dist.init().comm.size == SIZE
    assert sorted(dist.all_gather(RANK)) == list(range(SIZE))
    assert THREADS.get() == max(1, len(os.sched_getaffinity(0)) // SIZE) or len(os.sched_getaffinity(0)) < (os.cpu_count() or 1)


def check_backends() -> None:
    for backend in ("native", "interpret"):
        close(aj.compile(parts, backend=backend)(W), whole(W))
        close(aj.compile(aj.grad(parts), backend=backend)(W), aj.grad(whole)(W))


def check_numba() -> None:
    close(aj.compile(aj.grad(parts), backend="numba")(W), aj.grad(whole)(W))


def check_orders() -> None:
    close(aj.jvp(parts, (W,), (V,))[1], aj.jvp(whole, (W,), (V,))[1])
    close(aj.hvp(parts, (W,), (V,)), aj.hvp(whole, (W,), (V,)))
    close(aj.hessian(parts)(W), aj.hessian(whole)(W))
    third = [aj.grad(lambda w, f=f: np.sum(aj.hvp(f, (w,), (V,)) ** 2))(W) for f in (parts, whole)]
    close(*third)


def check_loops() -> None:
    def descent(f: Callable[[Any], Any]) -> Any:
        return aj.compile(lambda w: aj.fori_loop(0, 50, lambda i, w: w - 0.1 * aj.grad(f)(w), w))(W)

    def until(f: Callable[[Any], Any]) -> Any:
        return aj.compile(lambda w: aj.while_loop(lambda w: f(w) > 0.5, lambda w: w - 0.1 * aj.grad(f)(w), w))(W)

    def through(f: Callable[[Any], Any]) -> Any:
        return aj.grad(lambda w: aj.scan(lambda w, x: (w - 0.1 * x * aj.grad(f)(w), f(w)), w, np.arange(3.0))[1].sum())(W)

    def branch(f: Callable[[Any], Any]) -> Any:
        return aj.compile(aj.grad(lambda w: aj.cond(f(w) > 0.0, lambda: f(w) ** 2, lambda: 0.0)))(W)

    for program in (descent, until, through, branch):
        close(program(parts), program(whole))


def check_batches() -> None:
    close(aj.vmap(parts)(MANY), aj.vmap(whole)(MANY))
    close(aj.vmap(aj.grad(parts))(MANY), aj.vmap(aj.grad(whole))(MANY))
    close(aj.map(aj.grad(parts), MANY), aj.vmap(aj.grad(whole))(MANY))
    for function in (gathered, sent, exchanged):
        close(aj.vmap(function)(MANY), [function(w) for w in MANY])
        close(aj.vmap(aj.grad(function))(MANY), [aj.grad(function)(w) for w in MANY])


def check_tensors() -> None:
    w = aj.tensor(W, requires_grad=True)
    parts(w).backward()
    close(w.grad.numpy(), aj.grad(whole)(W))


def gathered(w: Any) -> Any:
    return np.sum(np.sin(dist.all_gather(dist.replicated(w) * (RANK + 1.0))))


def sent(w: Any) -> Any:
    return np.sum(np.sin(dist.broadcast(dist.replicated(w) * (RANK + 1.0), SIZE - 1)))


def exchanged(w: Any) -> Any:
    return dist.all_reduce(np.sum(np.sin(dist.all_to_all(np.outer(FACTORS, dist.replicated(w)) * (RANK + 1.0)))))


def check_derivatives_of_each() -> None:
    close(aj.grad(gathered)(W), sum(r * np.cos(r * W) for r in FACTORS))
    close(aj.hessian(gathered)(W), np.diag(sum(-r * r * np.sin(r * W) for r in FACTORS)))
    close(aj.grad(sent)(W), SIZE * np.cos(SIZE * W))
    close(aj.hessian(sent)(W), np.diag(-SIZE * SIZE * np.sin(SIZE * W)))
    close(aj.grad(exchanged)(W), sum(r * s * np.cos(r * s * W) for r in FACTORS for s in FACTORS))
    close(aj.hessian(exchanged)(W), np.diag(sum(-(r * s) ** 2 * np.sin(r * s * W) for r in FACTORS for s in FACTORS)))


def check_dtypes() -> None:
    functions = (dist.all_gather, lambda x: dist.broadcast(x, SIZE - 1), dist.all_reduce, lambda x: dist.all_reduce(x, "mean"),
                 lambda x: dist.all_reduce(x, "max"))
    for dtype in ("float32", "float64", "int8", "uint16", "int64", "bool", "complex64", "complex128", "float16"):
        array = (np.arange(6) * (RANK + 1) % 5).astype(dtype).reshape(2, 3)[:, ::-1]
        everyone = np.stack([(np.arange(6) * (r + 1) % 5).astype(dtype).reshape(2, 3)[:, ::-1] for r in range(SIZE)])
        expected = (everyone, everyone[-1], everyone.sum(0), everyone.mean(0), everyone.max(0))
        for number, (function, wanted) in enumerate(zip(functions, expected, strict=True)):
            if number == 4 and "complex" in dtype:
                continue
            for found in (function(array), aj.compile(function)(array), function(aj.tensor(array.copy())).numpy()):
                assert found.shape == wanted.shape, (dtype, number)
                np.testing.assert_allclose(found.astype(complex), wanted.astype(complex), rtol=1e-3 if "16" in dtype else 1e-7)
    assert dist.all_reduce(np.ones((0, 3))).shape == (0, 3)
    assert aj.compile(dist.all_gather)(np.ones((0, 3))).shape == (SIZE, 0, 3)
    special = aj.compile(dist.broadcast)(np.array([np.nan, -np.inf, -0.0]))
    assert np.isnan(special[0])
    assert np.signbit(special[2])


def check_threads_of_python_go_on() -> None:
    import threading
    import time

    program = aj.compile(lambda x: dist.all_reduce(x))
    for _ in range(4):          # the fast path from then on
        program(W)
    counted, done = [0], threading.Event()

    def count() -> None:
        while not done.is_set():
            counted[0] += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    if RANK == 1:
        time.sleep(0.3)         # the others wait in the program for this rank
    before = counted[0]
    program(W)
    during = counted[0] - before
    done.set()
    thread.join()
    assert RANK == 1 or during > 20, during


def check_means_of_other_dtypes() -> None:
    """Complex parameters, and aux of bools, integers and half floats, in both orders."""
    z = W + 1j * V

    def loss(z: Any, x: Any) -> Any:
        residual = np.abs(x @ z) ** 2
        return np.mean(residual), {"large": np.mean(residual) > 0.0, "rows": len(x) + 0 * np.sum(x > 9.0), "half": np.float16(1.5)}

    (value, _), gradient = aj.value_and_grad(loss, has_aux=True)(z, X)
    for shards, scatter in ((None, False), (SIZE, False), (2 * SIZE, False), (SIZE, True)):
        (found, aux), pulled = dist.mean_gradients(loss, shards=shards, has_aux=True, scatter=scatter)(z, X_OWN)
        close(found, value)
        if not scatter:
            close(pulled, gradient)
        assert (aux["large"], aux["rows"], aux["half"]) == (1.0, ROWS / (shards or SIZE), 1.5), aux


def check_what_is_replicated() -> None:
    assert dist.is_replicated({"w": W, "n": 3, "t": aj.tensor(W)})
    assert not dist.is_replicated(W + RANK)
    unmarked = aj.grad(lambda w: dist.all_reduce(np.sum((X_OWN @ w) ** 2)))(W)
    assert not dist.is_replicated(unmarked)
    with dist.check_replicated():
        close(aj.grad(parts)(W), aj.grad(whole)(W))
        close(aj.hvp(parts, (W,), (V,)), aj.hvp(whole, (W,), (V,)))
        refused(lambda: aj.grad(parts)(W + RANK), "replicated got an array that is another one on rank")
        refused(lambda: aj.grad(lambda w: dist.all_reduce(np.sum((RANK + 1.0) * dist.all_reduce(dist.replicated(w)) ** 2)))(W),
                "the cotangent of a collective's result is another one on rank")
    close(aj.grad(parts)(W), aj.grad(whole)(W))


def refused(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(aj.errors.DistributedError, match=message) as caught:
        call()
    assert "rank_checks.py" in str(caught.value.location)


def check_errors() -> None:
    for call, kind in ((lambda: aj.grad(lambda x: dist.all_reduce(x, "max"))(1.0), aj.errors.NonDifferentiableError),
                       (lambda: dist.broadcast(W, SIZE), aj.errors.ArgumentError),
                       (lambda: dist.all_to_all(np.ones(SIZE + 1)), aj.errors.ShapeError),
                       (lambda: aj.compile(parts).export("/tmp/parts.adjit", W), aj.errors.ExportError)):
        with pytest.raises(kind):
            call()


if __name__ == "__main__":
    run_checks(sys.modules[__name__], RANK, sys.argv[2:])
