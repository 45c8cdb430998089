"""Donated arguments of compiled functions: updated in place, refused before anything is touched, nothing allocated in steady state."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.backends import BACKENDS
from support.compiler_threads import wait_for_compilers

from adjit import optim
from adjit.ir.errors import DonationError
from adjit.nn.functional import cross_entropy
from adjit.runtime.compile_function import compile
from adjit.runtime.compiled import CompiledFunction
from adjit.runtime.transforms import value_and_grad
from adjit.tracer.trees import flatten


def update(params, state, x, rate):
    """A step of momentum for a linear layer, derivatives by hand."""
    error = x @ params["w"] + params["b"] - 1.0
    gradients = {"w": x.T @ error, "b": np.sum(error, axis=0)}
    state = {"m": {k: 0.9 * state["m"][k] + gradients[k] for k in params}, "t": state["t"] + 1}
    return {k: params[k] - rate * state["m"][k] for k in params}, state, np.mean(error * error)


def compiled(backend: str = "numba", donate: Any = ("params", "state")) -> CompiledFunction:
    return compile(update, donate=donate, backend=backend)


def arguments(n: int = 5, m: int = 3) -> tuple[dict, dict, np.ndarray]:
    generator = np.random.default_rng(0)
    params = {"w": generator.normal(size=(n, m)).astype(np.float32), "b": np.zeros(m, np.float32)}
    state = {"m": {k: np.zeros_like(v) for k, v in params.items()}, "t": np.array(0)}
    return params, state, generator.normal(size=(7, n)).astype(np.float32)


def leaves(tree: Any) -> list[Any]:
    return [leaf for key in sorted(tree) for leaf in leaves(tree[key])] if isinstance(tree, dict) else [tree]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("donate", [("params", "state"), (0, 1), (0, -3)])
def test_the_results_are_the_arrays_passed(backend: str, donate: tuple) -> None:
    step = compiled(backend, donate)
    params, state, x = arguments()
    passed = leaves(params) + leaves(state)
    expected = [np.array(leaf) for leaf in passed]
    for _ in range(3):
        wanted_params, wanted_state, wanted_loss = update(params, state, x, 0.1)
        expected = [np.array(leaf) for leaf in leaves(wanted_params) + leaves(wanted_state)]
        params, state, loss = step(params, state, x, 0.1)
        returned = leaves(params) + leaves(state)
        assert all(a is b for a, b in zip(returned, passed, strict=True))
        for got, want in zip(returned, expected, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
        assert loss == pytest.approx(wanted_loss, rel=1e-5)
    assert step.cache_info().traces == 1
    assert state["t"].shape == ()
    assert state["t"] == 3


OPTIMIZERS = {"adam": optim.adam(1e-3), "adamw": optim.adamw(1e-3), "momentum": optim.sgd(0.1, momentum=0.9)}


@pytest.mark.parametrize("optimizer", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_each_result_takes_the_buffer_of_its_own_argument(optimizer: Any) -> None:
    """With a penalty on the weights, all new values follow from the weights element by element: moments do not take their buffer."""
    def step(params: Any, state: Any, x: np.ndarray) -> Any:
        grads = value_and_grad(lambda w: np.mean(np.tanh(x @ w["a"]) @ w["b"]) + sum(np.sum(p * p) for p in w.values()))(params)[1]
        return optimizer.update(params, grads, state)

    params, x = {"a": np.ones((4, 4)), "b": np.ones((4, 4))}, np.ones((3, 4))
    state = optimizer.init(params)
    compiled = compile(step, donate=("params", "state"), backend="interpret")
    params, state = compiled(params, state, x)      # at its first step, momentum has no state
    new_params, new_state = compiled(params, state, x)
    passed, returned = (flatten(tree)[0] for tree in ((params, state), (new_params, new_state)))
    assert [id(leaf) for leaf in returned if np.ndim(leaf)] == [id(leaf) for leaf in passed if np.ndim(leaf)]


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_not_donated_is_not_touched(backend: str) -> None:
    step = compiled(backend, "params")
    params, state, x = arguments()
    before = [np.array(leaf) for leaf in [*leaves(state), x]]
    _, new_state, _ = step(params, state, x, 0.1)
    assert all(np.array_equal(a, b) for a, b in zip([*leaves(state), x], before, strict=True))
    assert not any(np.shares_memory(a, b) for a in leaves(new_state) for b in leaves(state))


@pytest.mark.parametrize("backend", BACKENDS)
def test_swapped_and_unchanged_donations(backend: str) -> None:
    swap = compile(lambda a, b, c: (b, a * 2.0, c), donate=("a", "b", "c"), backend=backend)
    a, b, c = np.arange(3.0), np.arange(3.0) + 10, np.ones(2)
    first, second, third = swap(a, b, c)
    assert first.tolist() == [10, 11, 12]
    assert second.tolist() == [0, 2, 4]
    assert third is c
    assert not np.shares_memory(first, second)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_donated_buffer_that_is_read_late(backend: str) -> None:
    """Both results need both old values."""
    function = compile(lambda a, b: (a + b, a - b), donate=("a", "b"), backend=backend)
    a, b = np.arange(4.0), np.ones(4)
    first, second = function(a, b)
    assert first.tolist() == [1, 2, 3, 4]
    assert second.tolist() == [-1, 0, 1, 2]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_donated_argument_without_a_fitting_result(backend: str) -> None:
    total = compile(lambda x: np.sum(x), donate="x", backend=backend)
    assert total(np.ones(5)) == 5


def test_donated_memory_map(tmp_path) -> None:
    double = compile(lambda x: x * 2.0, donate="x")
    x = np.memmap(tmp_path / "x", np.float64, "w+", shape=(4,))
    x[:] = 1.0
    assert double(x) is x
    x.flush()
    assert np.fromfile(tmp_path / "x").tolist() == [2, 2, 2, 2]


def refused(change: Callable[[dict, dict, np.ndarray], Any], message: str, backend: str = "numba") -> None:
    step = compiled(backend)
    for known in (False, True):
        params, state, x = arguments()
        if known:
            step(*arguments(), 0.1)
        x = x if (changed := change(params, state, x)) is None else changed
        before = [np.array(leaf) for leaf in [*leaves(params), *leaves(state), x]]
        cache = step.cache_info()
        with pytest.raises(DonationError) as info:
            step(params, state, x, 0.1)
        assert info.value.message == message
        assert step.cache_info()[1:] == cache[1:]
        assert all(np.array_equal(a, b) for a, b in zip([*leaves(params), *leaves(state), x], before, strict=True))


def test_read_only() -> None:
    def change(params, state, x):
        params["w"].flags.writeable = False
    refused(change, "donated argument params['w'] is read-only")


def test_not_contiguous() -> None:
    def change(params, state, x):
        params["w"] = np.asfortranarray(params["w"])
    refused(change, "donated argument params['w'] is not C-contiguous (shape (5, 3), strides (4, 20))")


@pytest.mark.parametrize(("leaf", "name"), [(np.int64(0), "int64"), (0.5, "float")])
def test_not_an_array(leaf: Any, name: str) -> None:
    def change(params, state, x):
        state["t"] = leaf
    refused(change, f"donated argument state['t'] is a {name}, not an array, and has no buffer to update")


def test_foreign_byte_order() -> None:
    def change(params, state, x):
        params["b"] = params["b"].astype(params["b"].dtype.newbyteorder("S"))
    refused(change, "donated argument params['b'] is not in native byte order")


@pytest.mark.parametrize("backend", BACKENDS)
def test_passed_twice(backend: str) -> None:
    def change(params, state, x):
        state["m"]["b"] = params["b"]
    refused(change, "donated argument params['b'] is the same array as state['m']['b']", backend)


def test_shared_with_an_argument_that_is_not_donated() -> None:
    def change(params, state, x):
        params["w"] = x.reshape(-1)[10:25].reshape(5, 3)
    refused(change, "donated argument params['w'] shares memory with x")


def test_shared_with_a_captured_array() -> None:
    w = np.ones(3)
    function = compile(lambda x: x * w, donate="x")
    with pytest.raises(DonationError, match="donated argument x is the same array as w"):
        function(w)
    assert w.tolist() == [1, 1, 1]


def test_static_leaves_of_donated_trees_are_fine() -> None:
    function = compile(lambda p: {"w": p["w"] + 1.0, "name": p["name"]}, donate="p")
    w = np.zeros(2)
    out = function({"w": w, "name": "layer"})
    assert out["w"] is w
    assert out["name"] == "layer"


def live_array_bytes() -> int:
    domain = tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)
    return sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces([domain]).traces)


def peak_bytes(call: Callable[[], Any]) -> int:
    """The most bytes, of arrays and Python objects, that live at once during `call` beyond those alive before."""
    base = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    call()
    return tracemalloc.get_traced_memory()[1] - base


def check_steady_state(step: Callable[[], Any], by_hand: Callable[[], Any], smallest: int) -> None:
    """Calls of `step` keep no array and need less than the `smallest` array of the computation; `by_hand` shows that arrays are seen."""
    for _ in range(5):
        step()
        wait_for_compilers()
    tracemalloc.start()
    try:
        before = live_array_bytes()
        assert peak_bytes(lambda: [step() for _ in range(3)]) < smallest
        assert live_array_bytes() <= before + 64       # 0-d arrays of Python floats among the arguments
        assert peak_bytes(by_hand) >= smallest
    finally:
        tracemalloc.stop()


def test_a_step_in_steady_state_allocates_no_array() -> None:
    step = compiled()
    state = list(arguments(512, 256)[:2])
    x = np.ones((512, 512), np.float32)

    def run() -> None:
        state[:] = step(*state, x, 1e-4)[:2]

    check_steady_state(run, lambda: update(*state, x, 1e-4), smallest=512 * 1024)


def test_a_training_step_in_steady_state_allocates_no_array() -> None:
    """Forward, backward and Adam; every array of the batch has at least 32 kB."""
    adam = optim.adam(1e-3)

    def loss(params, x, y):
        h = np.tanh(x @ params["w1"] + params["b1"])
        return cross_entropy(h @ params["w2"] + params["b2"], y)

    @compile(donate=("params", "state"))
    def step(params, state, x, y):
        value, grads = value_and_grad(loss)(params, x, y)
        return *adam.update(params, grads, state), value

    generator = np.random.default_rng(0)
    params = {"w1": generator.normal(size=(64, 256)), "b1": np.zeros(256), "w2": generator.normal(size=(256, 16)) / 16, "b2": np.zeros(16)}
    params = {name: array.astype(np.float32) for name, array in params.items()}
    x, y = generator.normal(size=(1024, 64)).astype(np.float32), generator.integers(0, 16, 1024)
    state = [params, adam.init(params)]

    def run() -> None:
        state[:] = step(*state, x, y)[:2]

    check_steady_state(run, lambda: np.tanh(x @ state[0]["w1"]), smallest=32 * 1024)
