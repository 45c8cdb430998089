"""adjit.optim against the published formulas in plain NumPy float64, on plain arrays and in compiled steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import optree
import pytest

import adjit as aj
from adjit import optim

Tree = Any
RNG = np.random.default_rng(0)
START = {"layers": [(RNG.standard_normal((3, 2)), RNG.standard_normal(2)), (RNG.standard_normal((2, 1)), RNG.standard_normal(()))],
         "scale": RNG.standard_normal(4)}
GRADS = [optree.tree_map(lambda p: np.asarray(RNG.standard_normal(np.shape(p))), START) for _ in range(10)]


def reference_sgd(p: np.ndarray, grads: list[np.ndarray], lr: float, momentum: float = 0.0, nesterov: bool = False,
                  decay: float = 0.0) -> Iterator[np.ndarray]:
    velocity = np.zeros_like(p)
    for g in grads:
        g = g + decay * p
        velocity = momentum * velocity + g
        p = p - lr * (g + momentum * velocity if nesterov else velocity)
        yield p


def reference_adam(p: np.ndarray, grads: list[np.ndarray], lr: float, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                   decay: float = 0.0, decoupled: bool = False) -> Iterator[np.ndarray]:
    m, v = np.zeros_like(p), np.zeros_like(p)
    for t, g in enumerate(grads, 1):
        if decoupled:
            p = p * (1 - lr * decay)
        else:
            g = g + decay * p
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g ** 2
        p = p - lr * (m / (1 - betas[0] ** t)) / (np.sqrt(v / (1 - betas[1] ** t)) + eps)
        yield p


CASES: dict[str, tuple[optim.FunctionalOptimizer, Callable[..., Iterator[np.ndarray]]]] = {
    "sgd": (optim.sgd(0.1), lambda p, g: reference_sgd(p, g, 0.1)),
    "sgd default": (optim.sgd(), lambda p, g: reference_sgd(p, g, 1e-3)),
    "sgd momentum": (optim.sgd(0.1, momentum=0.9), lambda p, g: reference_sgd(p, g, 0.1, 0.9)),
    "sgd nesterov": (optim.sgd(0.1, momentum=0.9, nesterov=True), lambda p, g: reference_sgd(p, g, 0.1, 0.9, True)),
    "sgd decay": (optim.sgd(0.1, momentum=0.5, weight_decay=0.2), lambda p, g: reference_sgd(p, g, 0.1, 0.5, False, 0.2)),
    "adam": (optim.adam(), lambda p, g: reference_adam(p, g, 1e-3)),
    "adam decay": (optim.adam(0.1, (0.8, 0.9), 1e-4, weight_decay=0.3), lambda p, g: reference_adam(p, g, 0.1, (0.8, 0.9), 1e-4, 0.3)),
    "adamw": (optim.adamw(0.05), lambda p, g: reference_adam(p, g, 0.05, decay=1e-2, decoupled=True)),
    "adamw decay": (optim.adamw(0.1, weight_decay=0.5), lambda p, g: reference_adam(p, g, 0.1, decay=0.5, decoupled=True)),
}


def leaves_after_each_step(optimizer: optim.FunctionalOptimizer, update: Callable[..., Any], dtype: type) -> Iterator[list[np.ndarray]]:
    params = optree.tree_map(lambda p: np.array(p, dtype), START)
    state = optimizer.init(params)
    for grads in GRADS:
        params, state = update(params, optree.tree_map(lambda g: np.asarray(g, dtype), grads), state)
        yield [np.array(leaf) for leaf in optree.tree_leaves(params)]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("how", ["plain", "compiled", "donated"])
def test_ten_steps(name: str, dtype: type, how: str) -> None:
    optimizer, reference = CASES[name]
    update = {
        "plain": optimizer.update,
        "compiled": aj.compile(optimizer.update, backend="interpret"),
        "donated": aj.compile(optimizer.update, donate=("params", "state"), backend="interpret"),
    }[how]
    expected = zip(*(reference(start, [optree.tree_leaves(grads)[i] for grads in GRADS])
                     for i, start in enumerate(optree.tree_leaves(START))), strict=True)
    count = 0
    for ours, formula in zip(leaves_after_each_step(optimizer, update, dtype), expected, strict=True):
        count += 1
        for leaf, wanted in zip(ours, formula, strict=True):
            assert leaf.dtype == dtype
            np.testing.assert_allclose(leaf, wanted, *((1e-12, 1e-14) if dtype is np.float64 else (2e-5, 2e-6)))
    assert count == 10


def test_steps_do_not_trace_again() -> None:
    optimizer = optim.adam()
    update = aj.compile(optimizer.update, donate=("params", "state"), backend="interpret")
    for _ in leaves_after_each_step(optimizer, update, np.float32):
        pass
    assert update.cache_info().traces == 1


def test_donated_update_happens_in_the_memory_of_the_arguments() -> None:
    optimizer = optim.adamw()
    update = aj.compile(optimizer.update, donate=("params", "state"), backend="interpret")
    params = {"w": np.ones((3, 4), np.float32), "b": np.ones((), np.float32)}
    state = optimizer.init(params)
    new_params, new_state = update(params, {"w": np.ones((3, 4), np.float32), "b": np.ones((), np.float32)}, state)
    for before, after in zip(optree.tree_leaves((params, state)), optree.tree_leaves((new_params, new_state)), strict=True):
        assert after is before
    assert int(state.count) == 1


def test_plain_update_leaves_its_arguments_alone() -> None:
    optimizer = optim.sgd(0.1, momentum=0.9)
    params, grads = [np.ones(2)], [np.ones(2)]
    state = optimizer.init(params)
    new, new_state = optimizer.update(params, grads, state)
    assert params[0].tolist() == grads[0].tolist() == [1.0, 1.0]
    assert state.momentum[0].tolist() == [0.0, 0.0]
    assert all(isinstance(leaf, np.ndarray) for leaf in optree.tree_leaves((new, new_state)))


def test_state_keeps_dtype_and_structure() -> None:
    params = {"a": np.ones(2, np.float32), "b": [np.ones((), np.float64)]}
    state = optim.adam().init(params)
    _, after = optim.adam().update(params, params, state)
    for part in (state, after):
        assert part.count.dtype == np.int64
        assert part.mean["a"].dtype == part.variance["a"].dtype == np.float32
        assert part.mean["b"][0].dtype == np.float64
        assert isinstance(part.mean["b"][0], np.ndarray)


def test_init_within_a_trace() -> None:
    optimizer = optim.adam(0.1)

    @aj.compile(backend="interpret")
    def first(params: Tree, grads: Tree) -> Tree:
        return optimizer.update(params, grads, optimizer.init(params))

    params, state = first([np.array([1.0, -1.0])], [np.array([3.0, 4.0])])
    np.testing.assert_allclose(params[0], [0.9, -1.1])
    assert int(state.count) == 1


def test_learning_rate_as_argument_of_the_step() -> None:
    @aj.compile(backend="interpret")
    def step(params: Tree, grads: Tree, state: Tree, rate: float) -> Tree:
        return optim.adam(rate).update(params, grads, state)

    for dtype in (np.float32, np.float64):
        params = [np.array([1.0, 2.0], dtype)]
        for rate in (0.1, np.float64(0.01), np.float32(0.5)):
            ours, _ = step(params, params, optim.adam().init(params), rate)
            theirs, _ = optim.adam(float(rate)).update(params, params, optim.adam().init(params))
            assert ours[0].dtype == dtype
            np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-6)


def test_ops_of_an_update_have_its_role() -> None:
    optimizer = optim.adam()
    update = aj.compile(optimizer.update, backend="interpret")
    params = [np.ones(2)]
    update(params, params, optimizer.init(params))
    lines = [line for line in update.ir("traced").splitlines() if " = " in line]
    assert lines
    assert all("update" in line.split("#")[-1] for line in lines)


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda: optim.sgd(nesterov=True), ValueError, "nesterov needs a momentum"),
    (lambda: optim.adam(betas=(0.9, 1.0)), ValueError, r"betas lie in \[0, 1\)"),
    (lambda: optim.adam().init({"n": np.arange(3)}), aj.errors.DTypeError, r"params\['n'\] has dtype int64"),
    (lambda: optim.sgd().update({"a": np.ones(2)}, {"b": np.ones(2)}, optim.SgdState(None)), aj.errors.ShapeError, "different trees"),
    (lambda: optim.sgd().update([np.ones(2)], [np.ones(3)], optim.SgdState(None)), aj.errors.ShapeError,
     r"params\[0\] has shape \(2,\), its gradient \(3,\)"),
])
def test_errors(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()
