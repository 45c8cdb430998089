"""adjit.optim against the published formulas in plain NumPy float64, on plain arrays and in compiled steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import optree
import pytest
from support.each import parametrize_within
from support.optimizer_formulas import CASES, NAMES

import adjit as aj
from adjit import optim

Tree = Any
RNG = np.random.default_rng(0)
START = {"layers": [(RNG.standard_normal((3, 2)), RNG.standard_normal(2)), (RNG.standard_normal((2, 1)), RNG.standard_normal(()))],
         "scale": RNG.standard_normal(4)}
GRADS = [optree.tree_map(lambda p: np.asarray(RNG.standard_normal(np.shape(p))), START) for _ in range(10)]


OPTIMIZERS = {"sgd": optim.sgd, "adam": optim.adam, "adamw": optim.adamw, "rmsprop": optim.rmsprop, "adagrad": optim.adagrad}


def leaves_after_each_step(optimizer: optim.FunctionalOptimizer, update: Callable[..., Any], dtype: type) -> Iterator[list[np.ndarray]]:
    params = optree.tree_map(lambda p: np.array(p, dtype), START)
    state = optimizer.init(params)
    for grads in GRADS:
        params, state = update(params, optree.tree_map(lambda g: np.asarray(g, dtype), grads), state)
        yield [np.array(leaf) for leaf in optree.tree_leaves(params)]


@pytest.mark.share(3)
@pytest.mark.parametrize(("function", "formula", "options"), [case[1:] for case in CASES], ids=NAMES)
@parametrize_within("dtype", [np.float64, np.float32])
@parametrize_within("how", ["plain", "compiled", "donated"])
def test_ten_steps(function: str, formula: Callable[..., Iterator[np.ndarray]], options: dict[str, Any], dtype: type, how: str) -> None:
    optimizer = OPTIMIZERS[function](**options)
    update = {
        "plain": optimizer.update,
        "compiled": aj.compile(optimizer.update, backend="interpret"),
        "donated": aj.compile(optimizer.update, donate=("params", "state"), backend="interpret"),
    }[how]
    expected = zip(*(formula(start, [optree.tree_leaves(grads)[i] for grads in GRADS], **options)
                     for i, start in enumerate(optree.tree_leaves(START))), strict=True)
    count = 0
    for ours, theirs in zip(leaves_after_each_step(optimizer, update, dtype), expected, strict=True):
        count += 1
        for leaf, wanted in zip(ours, theirs, strict=True):
            assert leaf.dtype == dtype
            np.testing.assert_allclose(leaf, wanted, *((1e-12, 1e-14) if dtype is np.float64 else (1e-5, 1e-6)))
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


@dataclass
class Layer:
    w: Any
    b: Any


def test_dataclasses_are_trees() -> None:
    optimizer = optim.rmsprop(0.1, momentum=0.5)
    params = Layer(np.ones((2, 2)), np.ones(2))
    new, state = optimizer.update(params, Layer(np.ones((2, 2)), np.zeros(2)), optimizer.init(params))
    assert isinstance(new, Layer)
    assert isinstance(state.square, Layer)
    np.testing.assert_allclose(new.w, 1 - 0.1 / (0.1 + 1e-8))
    assert new.b.tolist() == [1.0, 1.0]


def test_dicts_in_another_order_are_the_same_tree() -> None:
    optimizer = optim.sgd(1.0)
    params = {"a": np.ones(2), "b": np.ones(3)}
    new, _ = optimizer.update(params, {"b": np.full(3, 2.0), "a": np.zeros(2)}, optimizer.init(params))
    assert {key: value.tolist() for key, value in new.items()} == {"a": [1.0, 1.0], "b": [-1.0, -1.0, -1.0]}


@pytest.mark.parametrize("optimizer", [
    optim.sgd(0.1, momentum=0.9, dampening=0.1), optim.adam(0.1, amsgrad=True), optim.rmsprop(centered=True)])
def test_trees_of_tensors(optimizer: optim.FunctionalOptimizer) -> None:
    arrays, grads = [np.array([1.0, 2.0]), np.array(3.0)], [np.array([0.5, -1.0]), np.array(2.0)]
    tensors = [aj.tensor(array, requires_grad=True) for array in arrays]
    state, plain = optimizer.init(tensors), optimizer.init(arrays)
    for _ in range(3):
        tensors, state = optimizer.update(tensors, [aj.tensor(grad) for grad in grads], state)
        arrays, plain = optimizer.update(arrays, grads, plain)
    for ours, array in zip(optree.tree_leaves((tensors, state)), optree.tree_leaves((arrays, plain)), strict=True):
        assert isinstance(ours, aj.Tensor)
        np.testing.assert_array_equal(ours.detach().numpy(), array)
    assert all(tensor.requires_grad and tensor.is_leaf for tensor in tensors)


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda: optim.sgd(nesterov=True), ValueError, "nesterov needs a momentum"),
    (lambda: optim.adam(betas=(0.9, 1.0)), ValueError, r"betas lie in \[0, 1\)"),
    (lambda: optim.rmsprop(alpha=-1.0), ValueError, "invalid alpha value"),
    (lambda: optim.adagrad(initial_accumulator_value=-1.0), ValueError, "invalid initial_accumulator_value value"),
    (lambda: optim.sgd(-1.0), ValueError, "invalid learning rate: -1.0"),
    (lambda: optim.rmsprop().update([np.ones(2)], [np.ones(2)], optim.RmspropState([[np.ones(2)]])), aj.errors.ShapeError,
     "params and square are different trees"),
    (lambda: optim.adam().init({"n": np.arange(3)}), aj.errors.DTypeError, r"params\['n'\] has dtype int64"),
    (lambda: optim.sgd().update({"a": np.ones(2)}, {"b": np.ones(2)}, optim.SgdState(None)), aj.errors.ShapeError, "different trees"),
    (lambda: optim.sgd().update([np.ones(2)], [np.ones(3)], optim.SgdState(None)), aj.errors.ShapeError,
     r"params\[0\] has shape \(2,\), its gradient \(3,\)"),
])
def test_errors(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()


def test_a_network_in_place_of_its_parameters() -> None:
    for network in (aj.nn.Linear(2, 1), aj.nn.Sequential(aj.nn.Linear(2, 1))):
        with pytest.raises(TypeError, match=r"pass model\.parameters\(\)"):
            aj.optim.Adam(network)


@pytest.mark.parametrize(("arguments", "found"), [
    (lambda params, state: (params, state, params), "dict"), (lambda params, state: (params, params, None), "NoneType"),
    (lambda params, state: (params, params, optim.sgd(momentum=0.9).init(params)), "SgdState")])
def test_another_thing_than_the_state_is_an_error_with_the_users_line(arguments, found):
    params = {"w": np.ones(3)}
    optimizer = optim.adam(1e-3)
    given = arguments(params, optimizer.init(params))
    with pytest.raises(aj.errors.ArgumentError, match=f"the state is a {found}, expected the AdamState") as caught:
        optimizer.update(*given)
    assert caught.value.location is not None
    assert __file__.endswith(caught.value.location.file)
    assert "update(params, grads, state)" in str(caught.value)
    with pytest.raises(TypeError, match=r"adam\.update\(\) missing 1 required positional argument: 'state'"):
        optimizer.update(params, params)
