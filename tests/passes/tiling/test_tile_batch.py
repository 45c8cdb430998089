"""Chains of products as tiles: what is gathered, what is not, and that the meaning stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from adjit.codegen.llvm.target import host_targets
from adjit.ir.analysis.buffer_assignment import tile_bytes
from adjit.ir.errors import Role
from adjit.ir.graph import Graph, Op
from adjit.ir.interpreter import interpret
from adjit.ir.memory_sizes import MAX_TILE_SCRATCH_BYTES
from adjit.ir.parser import parse
from adjit.ir.printer import print_graph
from adjit.ir.verifier import Stage, verify
from adjit.passes.autodiff.partition.choose_saved_values import saved_values
from adjit.passes.options import Options
from adjit.passes.pipeline import LOWER, PIPELINE, run_pipeline
from adjit.passes.tiling import rematerialize
from adjit.passes.tiling.cost_model import may_save_traffic
from adjit.passes.tiling.groups import DefUses
from adjit.passes.tiling.tile_batch import tile_batch
from adjit.runtime import compile_options
from adjit.runtime.compile_function import compile
from adjit.runtime.transforms import value_and_grad
from adjit.tracer.trace import trace_function
from adjit.tracer.trees import flatten

SMALL = Options(cache_bytes=1 << 14)      # so that small programs are split
BEFORE = [step for step in PIPELINE if step not in LOWER]
RNG = np.random.default_rng(3)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape) * 0.3


def perceptron(x, w, b, u):
    hidden = np.tanh(x @ w + b)
    return np.mean((hidden @ u) ** 2)


def layer_norm(x, scale):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * scale


def block(x, qkv, out, scale, up, down):
    """A transformer block of 2 heads."""
    batch, length, width = x.shape
    q, k, v = (layer_norm(x, scale) @ qkv).reshape(batch, length, 3, 2, width // 2).transpose(2, 0, 3, 1, 4)
    scores = np.where(np.tril(np.ones((length, length), bool)), q @ k.swapaxes(-1, -2), -1e9)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights = weights / weights.sum(-1, keepdims=True)
    x = x + (weights @ v).transpose(0, 2, 1, 3).reshape(batch, length, width) @ out
    return np.sum((x + np.maximum(x @ up, 0) @ down) ** 2)


def attention(q, k, v):
    """The scores of one head fit twice the cache, those of all heads of an example do not."""
    scores = q @ k.swapaxes(-1, -2)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.sum((weights / weights.sum(-1, keepdims=True) @ v) ** 2)


def normalised(x, w, u):
    """Means over the batch in the middle: two chains, one after the other."""
    hidden = x @ w
    hidden = np.maximum(hidden - hidden.mean(0), 0) @ w
    return np.sum(np.maximum(hidden - hidden.mean(0), 0) @ u)


def recurrent(xs, w, u):
    state = np.zeros((xs.shape[1], w.shape[1]))
    for x in xs:
        state = np.tanh(x @ w + state @ u)
    return np.sum(state**2)


def mixture(x, mu, factors):
    """Products of one matrix a part, with the examples last."""
    centred = x[:, None, :] - mu[None]
    turned = centred + np.einsum("kij,nkj->nki", factors, centred)
    main = np.exp(-0.5 * (turned**2).sum(-1))
    return np.sum(np.log(main.sum(1) + 1))


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "perceptron": (perceptron, (normal(128, 12), normal(12, 40), normal(40), normal(40, 3))),
    "block": (block, (normal(4, 16, 16), normal(16, 48), normal(16, 16), normal(16), normal(16, 64), normal(64, 16))),
    "normalised": (normalised, (normal(128, 24), normal(24, 24), normal(24, 2))),
    "mixture": (mixture, (normal(256, 3), normal(7, 3), normal(7, 3, 3))),
    "recurrent": (recurrent, (normal(5, 64, 8), normal(8, 16), normal(16, 16))),
    "attention": (attention, (normal(2, 8, 32, 8), normal(2, 8, 32, 8), normal(2, 8, 32, 8))),
}


def panels_of(graph: Graph) -> list[Op]:
    """All of them, those inside of others too."""
    found = [op for op in graph.ops if op.name == "tiled"]
    return found + [inner for op in found for inner in panels_of(op.regions[0])]


def optimized(name: str, gradient: bool) -> tuple[Graph, list[np.ndarray]]:
    fun, arrays = PROGRAMS[name]
    trace = trace_function(value_and_grad(fun, argnums=tuple(range(len(arrays)))) if gradient else fun, arrays, {})
    graph = run_pipeline(trace.graph, SMALL, verify=True, passes=BEFORE).final
    return graph, [np.asarray(array) for array in (*trace.signature.leaves, *trace.captured)]


@pytest.mark.parametrize("gradient", [False, True], ids=["value", "gradient"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_meaning_stays(name: str, gradient: bool) -> None:
    before, arrays = optimized(name, gradient)
    after = tile_batch(before, SMALL)
    verify(after, Stage.OPTIMIZED)
    assert panels_of(after)
    assert parse(print_graph(after)) == after
    for expected, got in zip(interpret(before, arrays), interpret(after, arrays), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-13)


def test_one_pass_over_the_batch_runs_forward_and_backward() -> None:
    """All of the block's products but those of the weights' gradients, which add up over the batch, are in one chain."""
    graph, _ = optimized("block", gradient=True)
    after = tile_batch(graph, SMALL)
    (outer,) = [op for op in after.ops if op.name == "tiled"]
    outside = [op for op in after.ops if op.name == "matmul"]
    assert len(outside) == 4
    assert all(op.attrs["transpose_a"] for op in outside)
    assert outer.attrs["count"] == 4


def test_scores_are_computed_again() -> None:
    """Attention is computed again in the backward half: of what is as large as the scores nothing is saved."""
    graph, _ = optimized("block", gradient=True)
    again = [op for op in graph.ops if op.role is Role.RECOMPUTE and op.name == "matmul"]
    assert (4, 2, 16, 16) in [op.result.type.shape for op in again]
    assert not [value for value in saved_values(graph) if value.type.shape == (4, 2, 16, 16)]


def test_heads_run_one_after_the_other() -> None:
    """Nothing as large as the scores of all heads of an example is anywhere, forward and backward."""
    graph, _ = optimized("attention", gradient=True)
    examples, heads = panels_of(tile_batch(graph, SMALL))
    assert (examples.attrs["count"], heads.attrs["count"]) == (2, 8)
    assert not [value for op in examples.regions[0].ops for value in op.results if value.type.nbytes >= 8 * 32 * 32 * 8]


def test_nothing_is_gathered_without_a_cache_size_or_gain() -> None:
    graph, _ = optimized("perceptron", gradient=True)
    assert tile_batch(graph, Options()) is graph
    assert tile_batch(graph, Options(cache_bytes=1 << 24)) is graph


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_not_looked_at_gains_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, _ = optimized(name, gradient=True)
    sizes = [1 << power for power in range(10, 30)]
    worth_a_look = {size: may_save_traffic(DefUses(graph), size) for size in sizes}
    assert worth_a_look[sizes[0]]
    assert not worth_a_look[sizes[-1]]
    monkeypatch.setattr("adjit.passes.tiling.tile_batch.may_save_traffic", lambda *_: True)
    for size in sizes:
        assert worth_a_look[size] or tile_batch(graph, Options(cache_bytes=size)) is graph


def test_updates_of_parameters_stay_outside() -> None:
    """They are as long as a batch by chance only."""

    def step(x, w, u):
        value, (dw, du) = value_and_grad(lambda w, u: np.sum((np.tanh(x @ w) @ u) ** 2), argnums=(0, 1))(w, u)
        return value, w - 0.1 * dw, u - 0.1 * du

    trace = trace_function(step, (normal(2048, 32), normal(32, 32), normal(32, 32)), {})
    after = run_pipeline(trace.graph, SMALL, verify=True, passes=[*BEFORE, *(step for step in LOWER if step.name == "tile_batch")]).final
    (op,) = [op for op in after.ops if op.name == "tiled"]
    assert {value.type.shape[0] for value, cut in zip(op.operands, op.attrs["sliced"], strict=True) if cut} == {2048}


def test_panels_follow_the_examples_where_they_lie_last() -> None:
    """Each takes rows of the data, and leaves parts of all that is summed over the examples, products among it; nothing is as long as the
    examples but what is asked for."""
    graph, _ = optimized("mixture", gradient=True)
    after = tile_batch(graph, SMALL)
    (op,) = [op for op in after.ops if op.name == "tiled"]
    assert [value.type.shape for value, cut in zip(op.operands, op.attrs["sliced"], strict=True) if cut] == [(256, 3)]
    assert [op.name for op in after.ops if op.name == "matmul"] == []
    assert [value.type.shape for value in op.results if 256 in value.type.shape] == [(256, 3)]
    assert (op.attrs["count"], 7, 3, 3) in [value.type.shape for value in op.results]


@pytest.mark.parametrize("least", [0, 1 << 30])
def test_a_normalised_input_is_made_again_from_the_input(least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradient of the first weight reads it after all tiles: of each row, mean and deviation are kept."""
    monkeypatch.setattr(rematerialize, "MIN_REMAT_BYTES", least)
    before, arrays = optimized("block", gradient=True)
    after = tile_batch(before, SMALL)
    verify(after, Stage.OPTIMIZED)
    (op,) = [op for op in after.ops if op.name == "tiled"]
    made = [other for other in after.ops[after.ops.index(op):] if other.role is Role.RECOMPUTE]
    large = [value for value in op.results if value.type.size == 64 * 16]
    assert (len(large), "divide" in [other.name for other in made]) == ((6, False) if least else (5, True))
    for expected, got in zip(interpret(before, arrays), interpret(after, arrays), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.share(3)
@pytest.mark.parametrize("target", [target.name for target in host_targets()])
@pytest.mark.parametrize("name", PROGRAMS)
def test_panels_run_natively(name: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the interpreter has it, and with the same bits on one thread and on two."""
    monkeypatch.setattr(compile_options, "core_cache_bytes", lambda: SMALL.cache_bytes)
    monkeypatch.setenv("ADJIT_TARGET", target)
    fun, arrays = PROGRAMS[name]
    gradient = value_and_grad(fun, argnums=tuple(range(len(arrays))))
    expected = flatten(compile(gradient, backend="interpret")(*arrays))[0]
    found = []
    for threads in (1, 2):
        compiled = compile(gradient, backend="native", threads=threads)
        found.append([np.asarray(array) for array in flatten(compiled(*arrays))[0]])
        assert panels_of(compiled.program(compiled.fun, (), {}).planned)
    for one, two, wanted in zip(*found, expected, strict=True):
        assert one.tobytes() == two.tobytes()
        np.testing.assert_allclose(one, wanted, rtol=1e-11, atol=1e-12)


def test_all_that_is_connected_stays_together() -> None:
    """Sums that are connected with the product through one another only, first backwards, then forwards, and again."""
    def zigzag(x, w, *others):
        links = [np.tanh(x @ w) @ w, *map(np.sin, others)]
        sums = {k: links[k] + links[k + 1] for k in (1, 3, 5, 7, 0, 2, 4, 6)}
        return [np.exp(sums[k]) for k in sorted(sums)]

    arrays = [normal(512, 64), normal(64, 64), *(normal(512, 64) for _ in range(8))]
    before = run_pipeline(trace_function(zigzag, arrays, {}).graph, Options(), verify=False, passes=BEFORE).final
    after = tile_batch(before, Options(cache_bytes=1 << 16))
    verify(after, Stage.OPTIMIZED, after="tile_batch")
    assert panels_of(after)
    for expected, got in zip(interpret(before, arrays), interpret(after, arrays), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(("steps", "fits"), [(20, True), (100, False)])
def test_panels_fit_the_scratch_memory_of_a_thread(steps: int, fits: bool) -> None:
    """What elementwise steps keep for the backward half lies there: tiles are smaller for it, and there are none where that does
    not help."""
    def deep(x, w):
        hidden = x @ w
        for _ in range(steps):
            hidden = np.sin(hidden) + hidden * 0.01
        return np.sum(np.tanh(hidden @ w.T) @ w * hidden)

    graph = trace_function(value_and_grad(deep, (0, 1)), (np.zeros((2048, 64), "f4"), np.zeros((64, 256), "f4")), {}).graph
    planned = run_pipeline(graph, Options(cache_bytes=1 << 21), verify=False).final
    assert tile_bytes(planned) <= MAX_TILE_SCRATCH_BYTES
    assert bool(panels_of(planned)) == fits
