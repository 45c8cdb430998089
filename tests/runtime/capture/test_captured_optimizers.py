"""Steps of optimisers within compiled functions: the same numbers, state and schedules as when they run eagerly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.optimizer_formulas import CASES, NAMES

import adjit as aj
from adjit import optim
from adjit.optim import lr_scheduler

RNG = np.random.default_rng(0)
INPUT, WANTED = RNG.standard_normal((8, 3)).astype(np.float32), RNG.standard_normal((8, 2)).astype(np.float32)
START = {"w": RNG.standard_normal((3, 2)).astype(np.float32), "b": np.zeros(2, np.float32), "s": np.array(0.5, np.float32)}


def parameters() -> dict[str, aj.Tensor]:
    return {name: aj.tensor(array, requires_grad=True) for name, array in START.items()}


def train_step(params: dict[str, aj.Tensor], optimizer: optim.Optimizer, x: Any, y: Any) -> aj.Tensor:
    optimizer.zero_grad()
    loss = ((x @ params["w"] * params["s"] + params["b"] - y) ** 2).mean()
    loss.backward()
    aj.nn.utils.clip_grad_norm_(params.values(), 0.9)
    optimizer.step()
    return loss


def both(kind: str, options: dict[str, Any], steps: int, schedule: Any = None) -> tuple[Any, list[Any]]:
    """The compiled function, and (losses, parameters, state) of an eager run and of a compiled one."""
    compiled = aj.compile(train_step, backend="interpret")
    found = []
    for step in (train_step, compiled):
        params = parameters()
        optimizer = getattr(optim, kind)(params.values(), **options)
        scheduler = schedule(optimizer) if schedule is not None else None
        losses = []
        for _ in range(steps):
            losses.append(step(params, optimizer, aj.tensor(INPUT), aj.tensor(WANTED)).item())
            if scheduler is not None:
                scheduler.step()
        found.append((losses, params, optimizer))
    return compiled, found


def assert_same(found: list[Any]) -> None:
    (losses, params, optimizer), (other_losses, other_params, other) = found
    np.testing.assert_allclose(losses, other_losses, 1e-6)
    for name, param in params.items():
        np.testing.assert_allclose(param.detach().numpy(), other_params[name].detach().numpy(), 1e-5, 1e-6)
        np.testing.assert_allclose(param.grad.numpy(), other_params[name].grad.numpy(), 1e-5, 1e-6)
    state, other_state = optimizer.state_dict()["state"], other.state_dict()["state"]
    assert state.keys() == other_state.keys()
    for number, known in state.items():
        assert known.keys() == other_state[number].keys()
        for name, value in known.items():
            assert value.dtype == other_state[number][name].dtype
            np.testing.assert_allclose(value.numpy(), other_state[number][name].numpy(), 1e-5, 1e-6)


@pytest.mark.parametrize(("kind", "options"), [(case[0], case[3]) for case in CASES], ids=NAMES)
def test_as_eagerly_with_one_trace(kind: str, options: dict[str, Any]) -> None:
    compiled, found = both(kind, options, 12)
    assert_same(found)
    assert compiled.cache_info().traces == 1


@pytest.mark.parametrize(("kind", "options"), [
    ("SGD", {"momentum": 0.9, "weight_decay": 0.1}), ("AdamW", {}), ("RMSprop", {"momentum": 0.5})])
def test_schedules_from_outside_need_no_new_trace(kind: str, options: dict[str, Any]) -> None:
    compiled, found = both(kind, options, 30, lambda optimizer: lr_scheduler.OneCycleLR(optimizer, 0.1, 31))
    assert_same(found)
    assert compiled.cache_info().traces == 1


def test_a_number_that_becomes_zero_or_stops_to_be_is_seen() -> None:
    found = []
    for step in (train_step, aj.compile(train_step, backend="interpret")):
        params = parameters()
        optimizer = optim.SGD(params.values(), lr=0.1)
        losses = []
        for _ in range(3):
            for group in ({"momentum": 0.9}, {"weight_decay": 0.1}, {"maximize": True}, {"maximize": False}, {"momentum": 0.0}):
                optimizer.param_groups[0].update(group)
                losses.append(step(params, optimizer, aj.tensor(INPUT), aj.tensor(WANTED)).item())
        found.append((losses, params, optimizer))
    assert_same(found)


def test_state_of_a_failed_trace_is_taken_back() -> None:
    params = parameters()
    optimizer = optim.Adam(params.values())

    @aj.compile(backend="interpret")
    def step(params: dict[str, aj.Tensor], optimizer: optim.Optimizer) -> None:
        (params["w"] ** 2).sum().backward()
        optimizer.step()
        raise RuntimeError("stop here")

    with pytest.raises(RuntimeError, match="stop here"):
        step(params, optimizer)
    assert not optimizer.state
    assert params["w"].grad is None
    for name, param in params.items():
        np.testing.assert_array_equal(param.detach().numpy(), START[name])
    (params["w"] ** 2).sum().backward()
    optimizer.step()
    assert int(optimizer.state[params["w"]]["step"]) == 1


def test_a_loaded_state_is_used() -> None:
    _, found = both("Adam", {"lr": 0.1}, 3)
    saved = found[0][2].state_dict()
    compiled = aj.compile(train_step, backend="interpret")
    runs = []
    for step in (train_step, compiled):
        params = parameters()
        optimizer = optim.Adam(params.values(), lr=0.1)
        losses = [step(params, optimizer, aj.tensor(INPUT), aj.tensor(WANTED)).item()]
        optimizer.load_state_dict(saved)
        losses += [step(params, optimizer, aj.tensor(INPUT), aj.tensor(WANTED)).item() for _ in range(3)]
        runs.append((losses, params, optimizer))
    assert_same(runs)
    assert int(runs[1][2].state[runs[1][1]["w"]]["step"]) == 6
    assert int(saved["state"][0]["step"]) == 3


def test_functional_twins_on_tensors() -> None:
    optimizer = optim.adam(0.1)

    def step(params: Any, grads: Any, state: Any) -> Any:
        return optimizer.update(params, grads, state)

    results = []
    for function in (step, aj.compile(step, backend="interpret")):
        params = parameters()
        state = optimizer.init(params)
        for _ in range(3):
            params, state = function(params, {name: aj.tensor(array) for name, array in START.items()}, state)
        results.append((params, state))
    for name in START:
        assert isinstance(results[1][0][name], aj.Tensor)
        np.testing.assert_allclose(results[0][0][name].detach().numpy(), results[1][0][name].detach().numpy(), 1e-6)
    assert int(results[1][1].count) == 3


def test_a_learning_rate_may_be_any_number() -> None:
    """NumPy's floats and integers, and Python's ints, are read at every call, and do the same as in eager mode."""
    rates = [np.float64(0.1), np.float32(0.25), 0.5, 1, 2, np.int64(3), np.float64(0.3)]
    found = []
    for compiled in (False, True):
        weight = aj.tensor([1.0, 2.0], requires_grad=True)
        optimizer = optim.SGD([weight], lr=rates[0])

        def step(weight: Any, optimizer: Any) -> None:
            optimizer.zero_grad()
            weight.square().sum().backward()
            optimizer.step()

        function = aj.compile(step) if compiled else step
        values = []
        for rate in rates:
            optimizer.param_groups[0]["lr"] = rate
            function(weight, optimizer)
            values.append(weight.tolist())
        found.append(values)
        if compiled:
            assert function.cache_info().traces == 1
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)
