"""Loops whose runs do not mix the examples of a batch run tile by tile, with all of their runs, and keep their meaning."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit.ir.graph import Graph, Op
from adjit.ir.interpreter import interpret
from adjit.ir.parser import parse
from adjit.ir.printer import print_graph
from adjit.ir.verifier import Stage, verify
from adjit.passes.options import Options
from adjit.passes.pipeline import LOWER, PIPELINE, run_pipeline
from adjit.passes.tiling.tile_batch import tile_batch
from adjit.runtime import compile_options
from adjit.runtime.compile_function import compile
from adjit.tracer.trace import trace_function
from adjit.tracer.trees import flatten

SMALL = Options(cache_bytes=1 << 16)
BEFORE = [step for step in PIPELINE if step not in LOWER]
BATCH, LENGTH, WIDTH = 96, 5, 8
SHAPES = ((LENGTH, BATCH, 6), (6, WIDTH), (WIDTH, WIDTH), (WIDTH,), (BATCH, WIDTH))
Function = Any


def arrays() -> list[np.ndarray]:
    rng = np.random.default_rng(4)
    return [rng.standard_normal(shape) * 0.5 for shape in SHAPES]


def recurrent(x: Any, w: Any, u: Any, b: Any, mask: Any) -> Any:
    def step(h: Any, row: Any) -> tuple[Any, None]:
        return np.tanh(row @ w + h @ u + b) * mask, None
    last, _ = aj.scan(step, aj.numpy.zeros((BATCH, WIDTH)), x)
    return np.mean(last ** 2)


def gradient(fun: Function) -> Function:
    return aj.value_and_grad(fun, tuple(range(5)))


def second(fun: Function) -> Function:
    def penalty(*args: Any) -> Any:
        return sum(np.sum(part ** 2) for part in aj.grad(fun, (1, 2, 3))(*args))
    return aj.value_and_grad(penalty, tuple(range(5)))


def random_loss(seed: int) -> Function:
    """Loops, one after the other, of random steps over what may be a batch; some mix its examples."""
    def loss(x: Any, w: Any, u: Any, b: Any, mask: Any) -> Any:
        random = Random(seed)
        state, total = mask, 0.0
        rows = np.tanh(x @ w) if random.random() < 0.5 else None
        for _ in range(random.randint(1, 3)):
            kinds = [random.randrange(9) for _ in range(random.randint(2, 4))]
            reverse, stacked = random.random() < 0.5, random.random() < 0.5
            mixing = random.random() < 0.15

            def step(carry: Any, row: Any, kinds: Any = kinds, mixing: Any = mixing) -> tuple[Any, Any]:
                h = carry @ u + (row if rows is not None else row @ w)
                for kind in kinds:
                    h = (lambda h: np.tanh(h + b), lambda h: h * mask, lambda h: h - h.mean(-1, keepdims=True),
                         lambda h: h @ u.T, lambda h: (u @ h.T).T, lambda h: np.concatenate([h[:, 4:], h[:, :4]], 1),
                         lambda h: h * 0.2, lambda h: np.where(h > 0, h, 0.1 * h),
                         lambda h: (h.reshape(BATCH * 2, WIDTH // 2) * 0.5).reshape(BATCH, WIDTH))[kind](h)
                if mixing:
                    h = h - 0.5 * h.mean(0)
                h = np.sin(h)
                return h, h * row[:, :1]
            state, found = aj.scan(step, state, x if rows is None else rows, reverse=reverse)
            total = total + (np.sum(found ** 2) if stacked else 0.0)
        return total + np.mean(state ** 2)
    return loss


def optimized(fun: Function) -> Graph:
    return run_pipeline(trace_function(fun, tuple(arrays()), {}).graph, SMALL, verify=True, passes=BEFORE).final


def panels_of(graph: Graph) -> list[Op]:
    return [op for op in graph.ops if op.name == "tiled"]


def loops_of(graph: Graph) -> list[Op]:
    return [op for op in graph.ops if op.name == "scan"]


def same_meaning(before: Graph) -> Graph:
    after = tile_batch(before, SMALL)
    verify(after, Stage.OPTIMIZED, after="tile_batch")
    assert parse(print_graph(after)) == after
    given = arrays()
    for expected, got in zip(interpret(before, given), interpret(after, given), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-12)
    return after


def test_one_pass_over_the_batch_runs_all_loops() -> None:
    after = same_meaning(optimized(gradient(recurrent)))
    (op,) = panels_of(after)
    assert not loops_of(after)
    assert [loop.attrs["reverse"] for loop in loops_of(op.regions[0])] == [False, True]
    assert not [other for other in after.ops if other.name == "matmul"]      # gradients of weights are parts of the tiles
    count = op.attrs["count"]
    for loop in loops_of(op.regions[0]):
        assert {value.type.shape[1] for value in loop.results if value.type.rank > 2} == {BATCH // count}


def test_loops_that_mix_examples_stay_whole() -> None:
    def mixing(x: Any, w: Any, u: Any, b: Any, mask: Any) -> Any:
        def step(h: Any, row: Any) -> tuple[Any, None]:
            h = np.tanh(row @ w + h @ u)
            return h - h.mean(0), None
        return np.sum(aj.scan(step, mask, x)[0] ** 2)
    assert len(loops_of(same_meaning(optimized(gradient(mixing))))) == 2


def test_loops_that_may_fail_stay_whole() -> None:
    """Tiles have no way to say that an index is out of bounds."""
    def indexing(x: Any, w: Any, u: Any, b: Any, mask: Any) -> Any:
        def step(carry: Any, row: Any) -> tuple[Any, None]:
            i, h = carry
            return (i + 1, np.tanh(row @ w + h @ u + b[i])), None
        return np.sum(aj.scan(step, (0, mask), x)[0][1])
    assert len(loops_of(same_meaning(optimized(indexing)))) == 1


@pytest.mark.share(3)
@pytest.mark.parametrize("seed", range(16))
def test_random_loops_keep_their_meaning(seed: int) -> None:
    loss = random_loss(seed)
    same_meaning(optimized(loss))
    same_meaning(optimized(gradient(loss)))


def test_some_random_loops_run_in_panels() -> None:
    split = [tile_batch(optimized(gradient(random_loss(seed))), SMALL) for seed in range(16)]
    assert sum(bool([op for op in panels_of(graph) if loops_of(op.regions[0])]) for graph in split) >= 5


CASES = {"recurrent": recurrent, **{f"random-{seed}": random_loss(seed) for seed in (0, 3, 5)}}
IN_GATE = {("recurrent", "native", gradient), ("recurrent", "native", second),
           ("recurrent", "numba", second), ("random-0", "native", second)}
"""Random loops take seconds to compile, and numba takes a tenth of a second for each kernel."""


@pytest.mark.share(2)
@pytest.mark.parametrize("order", [gradient, second])
@pytest.mark.parametrize("backend", ["native", "numba"])
@pytest.mark.parametrize("name", CASES)
def test_as_the_interpreter_has_it(name: str, backend: str, order: Any, exhaustive: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same bits on one thread, two and three."""
    if not exhaustive and (name, backend, order) not in IN_GATE:
        pytest.skip("compiles for seconds: --exhaustive")
    monkeypatch.setattr(compile_options, "core_cache_bytes", lambda: SMALL.cache_bytes)
    fun, given = order(CASES[name]), arrays()
    expected = flatten(compile(fun, backend="interpret")(*given))[0]
    found = []
    for threads in (1, 2, 3) if backend == "native" else (1,):
        compiled = compile(fun, backend=backend, threads=threads)
        found.append([np.asarray(array) for array in flatten(compiled(*given))[0]])
        if backend == "native" and name == "recurrent":
            (op,) = [op for op in panels_of(compiled.program(compiled.fun, (), {}).planned) if loops_of(op.regions[0])]
            assert op.attrs["count"] >= 2
    for first, *others, wanted in zip(*found, expected, strict=True):
        assert all(first.tobytes() == other.tobytes() for other in others)
        np.testing.assert_allclose(first, wanted, rtol=1e-9, atol=1e-11)
