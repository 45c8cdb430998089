"""Gradients of weights and their updates by rows: what is gathered, what is not, where it lies, and that the meaning stays."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from adjit import optim
from adjit.codegen.llvm.target import host_targets
from adjit.ir.graph import Graph, Op
from adjit.ir.interpreter import interpret
from adjit.ir.parser import parse
from adjit.ir.printer import print_graph
from adjit.ir.verifier import Stage, verify
from adjit.passes.memory.plan_memory import plan_memory
from adjit.passes.options import Options
from adjit.passes.pipeline import LOWER, PIPELINE, run_pipeline
from adjit.passes.tiling.tile_weight_updates import describe_updates, tile_weight_updates
from adjit.runtime import compile_options
from adjit.runtime.compile_function import compile
from adjit.runtime.compiled import CompiledFunction
from adjit.runtime.transforms import value_and_grad
from adjit.tracer.trace import trace_function

SMALL = Options(cache_bytes=1 << 17)
BEFORE = [step for step in PIPELINE if step not in LOWER]
RNG = np.random.default_rng(5)


def normal(*shape: int, dtype: str = "f4") -> np.ndarray:
    return (RNG.standard_normal(shape) * 0.3).astype(dtype)


def loss(params: Any, x: Any) -> Any:
    hidden = np.maximum(x @ params["w"] + params["b"], 0)
    return np.mean((hidden @ params["u"]) ** 2)


def arguments(dtype: str = "f4") -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Weights of 288 x 40, updated in tiles of 24 or 32 rows whose last vectors are not full, and of 40 x 72, not worth it."""
    params = {"w": normal(288, 40, dtype=dtype), "b": normal(40, dtype=dtype), "u": normal(40, 72, dtype=dtype)}
    return params, normal(24, 288, dtype=dtype)


OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: optim.sgd(0.1), "momentum": lambda: optim.sgd(0.1, momentum=0.9, weight_decay=0.01), "adam": lambda: optim.adam(0.01),
    "amsgrad": lambda: optim.adam(0.01, amsgrad=True)}


def make_step(optimizer: Any) -> Callable[..., Any]:
    def step(params: Any, state: Any, x: Any) -> Any:
        value, gradients = value_and_grad(loss)(params, x)
        params, state = optimizer.update(params, gradients, state)
        return params, state, value
    return step


def optimized(fun: Callable[..., Any], *args: Any) -> tuple[Graph, list[np.ndarray]]:
    trace = trace_function(fun, args, {})
    graph = run_pipeline(trace.graph, SMALL, verify=True, passes=BEFORE).final
    return graph, [np.asarray(array) for array in (*trace.signature.leaves, *trace.captured)]


def updates(graph: Graph) -> list[Op]:
    return [op for op in graph.ops if op.name == "tiled" and op.regions[0].name == "rows"]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_meaning_stays(name: str) -> None:
    params, x = arguments()
    before, arrays = optimized(make_step(OPTIMIZERS[name]()), params, OPTIMIZERS[name]().init(params), x)
    after = tile_weight_updates(before, SMALL)
    verify(after, Stage.OPTIMIZED)
    assert [(op.attrs["count"], op.regions[0].ops[0].result.type.shape) for op in updates(after)] == [(9, (32, 40))]
    assert all(op.result.type.shape != (288, 40) for op in after.ops if op.name == "matmul")
    assert parse(print_graph(after)) == after
    assert describe_updates(before, after, SMALL) == "1 gradient of 0.0439 MiB and the updates by rows, in 9 tiles"
    for expected, got in zip(interpret(before, arrays), interpret(after, arrays), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.share(4)
@pytest.mark.parametrize("target", [target.name for target in host_targets()])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_updates_run_natively(name: str, dtype: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As without tiles, in the arrays that were given, with the same bits on any number of threads."""
    monkeypatch.setenv("ADJIT_TARGET", target)
    given, x = arguments(dtype)
    optimizer = OPTIMIZERS[name]()
    runs = []
    for cache_bytes, threads in ((1 << 17, 1), (1 << 17, 2), (1 << 17, 3), (1 << 17, 5), (1 << 30, 2)):
        monkeypatch.setattr(compile_options, "core_cache_bytes", lambda cache_bytes=cache_bytes: cache_bytes)
        step = compile(make_step(optimizer), donate=("params", "state"), backend="native", threads=threads)
        params = {key: array.copy() for key, array in given.items()}
        state, passed = optimizer.init(params), params["w"]
        for _ in range(4):
            params, state, _ = step(params, state, x)
        assert params["w"] is passed
        assert len(updates(planned_of(step))) == (cache_bytes == 1 << 17)
        runs.append(params)
    for key in given:
        assert len({run[key].tobytes() for run in runs[:4]}) == 1
        np.testing.assert_allclose(runs[0][key], runs[4][key], rtol=1e-5, atol=1e-6)


def planned_of(step: CompiledFunction) -> Graph:
    return step.programs()[-1].planned


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_no_gradient_lies_in_memory(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """New weights and moments are written over the old ones, tile by tile, and nothing else is as large as they are."""
    monkeypatch.setattr(compile_options, "core_cache_bytes", lambda: SMALL.cache_bytes)
    params, x = arguments()
    optimizer = OPTIMIZERS[name]()
    state = optimizer.init(params)
    step = compile(make_step(optimizer), donate=("params", "state"), backend="native")
    params, state, _ = step(params, state, x)       # at its first step, momentum has no state
    step(params, state, x)
    planned = planned_of(step)
    (op,) = updates(planned)
    assert all(slot.space == "param" for slot in op.slots)
    region = op.regions[0]
    inside = {value: slot for inner in region.ops for value, slot in zip(inner.results, inner.slots, strict=False)}
    assert all(inside[value].space == "param" for value in region.results)
    assert all(region.param_roles[inside[value].offset] == "donated" for value in region.results)
    sizes = [value.type.nbytes for op in planned.ops for value, slot in zip(op.results, op.slots, strict=False) if slot.space == "arena"]
    assert max(sizes) < 288 * 40 * 4


def test_a_gradient_that_something_else_needs_stays_whole() -> None:
    """Its norm, which the update needs; itself, as a result."""
    params, x = arguments()

    def clipped(params: Any, x: Any) -> Any:
        gradient = value_and_grad(loss)(params, x)[1]["w"]
        return params["w"] - 0.1 * gradient / np.sqrt(np.sum(gradient**2))

    def returned(params: Any, x: Any) -> Any:
        gradient = value_and_grad(loss)(params, x)[1]["w"]
        return params["w"] - 0.1 * gradient, gradient

    for fun in (clipped, returned):
        graph, _ = optimized(fun, params, x)
        assert not updates(tile_weight_updates(graph, SMALL))


def test_what_reads_the_new_weights_comes_after() -> None:
    """The largest of them is no part of the update."""
    params, x = arguments()

    def step(params: Any, x: Any) -> Any:
        new = params["w"] - 0.1 * value_and_grad(loss)(params, x)[1]["w"]
        return new, np.max(new), new @ np.ones(40, "f4")

    graph, arrays = optimized(step, params, x)
    after = tile_weight_updates(graph, SMALL)
    verify(after, Stage.OPTIMIZED)
    (op,) = updates(after)
    assert len(op.results) == 1
    for expected, got in zip(interpret(graph, arrays), interpret(after, arrays), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-7)


def test_of_products_that_add_up_no_more_than_one_waits() -> None:
    """A weight that is used often has a gradient that is a sum: the products do not all wait in memory for the update."""
    w, x = normal(288, 40), normal(6, 24, 288)

    def step(w: Any, x: Any) -> Any:
        gradient = value_and_grad(lambda w: sum(np.sum(np.tanh(row @ w) ** 2) for row in x))(w)[1]
        return w - 0.1 * gradient

    graph, _ = optimized(step, w, x)
    after = tile_weight_updates(graph, SMALL)
    (op,) = updates(after)
    products = [value for value, cut in zip(op.operands, op.attrs["sliced"], strict=True) if cut and value.type.shape == (288, 40)]
    assert len(products) == 3       # the weights, the sum of others, and one of these


@pytest.mark.parametrize("cache_bytes", [None, 1 << 22], ids=["unknown", "large"])
def test_small_gradients_are_left_alone(cache_bytes: int | None) -> None:
    params, x = arguments()
    graph, _ = optimized(make_step(optim.sgd(0.1)), params, optim.sgd(0.1).init(params), x)
    assert tile_weight_updates(graph, Options(cache_bytes=cache_bytes)) is graph


PANEL_THAT_READS_AGAIN = """
    graph @step(%p: f32[4,8] donated) {
      %n: f32[4,8], %s: f32[4,8] = tiled %p {count=4, shapes=((4, 8), (4, 8)), sliced=(true,)} [
        graph @rows(%p: f32[8]) {
          %n: f32[8] = negative %p
          %s: f32[8] = multiply %n, %p
          return %n, %s
        }
      ]
      return %n, %s
    }
"""


def test_a_panel_that_still_reads_what_is_written_over_copies() -> None:
    """Outside, a result may take the place of the operand; inside, it goes there when the operand is not needed any more."""
    graph = parse(textwrap.dedent(PANEL_THAT_READS_AGAIN))
    planned = plan_memory(graph, Options())
    verify(planned, Stage.PLANNED)
    (op,) = planned.ops
    assert str(op.slots[0]) == "param+0"
    places = [(inner.name, [str(slot) for slot in inner.slots]) for inner in op.regions[0].ops]
    assert places == [("negative", ["arena+0"]), ("multiply", ["result+1"]), ("reshape", ["param+0"]), ("free", [])]


def test_an_operand_given_twice_is_not_written_over() -> None:
    """The tile would not know that its two parameters are the same memory."""
    twice = (PANEL_THAT_READS_AGAIN.replace("tiled %p", "tiled %p, %p").replace("(true,)", "(true, true)")
             .replace("@rows(%p: f32[8])", "@rows(%p: f32[8], %q: f32[8])").replace("multiply %n, %p", "multiply %n, %q"))
    planned = plan_memory(parse(textwrap.dedent(twice)), Options())
    verify(planned, Stage.PLANNED)
    assert [str(slot) for op in planned.ops if op.name == "tiled" for slot in op.slots if slot.space == "param"] == []
