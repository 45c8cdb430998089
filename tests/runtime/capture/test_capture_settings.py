"""Captures with the verifier on, with several threads, at the same time, and under other choices."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit import nn, optim


def network(width: int = 6) -> nn.Module:
    aj.manual_seed(0)
    return nn.Sequential(nn.Linear(3, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(0.2), nn.Linear(width, 2))


def train_step(model: Any, optimizer: Any, x: Any, y: Any) -> Any:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss


def data(rows: int = 8) -> tuple[aj.Tensor, aj.Tensor]:
    generator = np.random.default_rng(0)
    return aj.tensor(generator.normal(size=(rows, 3)).astype(np.float32)), aj.tensor(generator.integers(0, 2, rows))


def parameters(model: Any) -> list[np.ndarray]:
    return [tensor.numpy(force=True).copy() for tensor in (*model.parameters(), *model.buffers())]


def trained(step: Any, count: int = 5, rows: int = 8, width: int = 6) -> list[np.ndarray]:
    model = network(width)
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)    # of the first bias the gradient is 0: Adam would blow up noise
    for _ in range(count):
        step(model, optimizer, *data(rows))
    return parameters(model)


def test_every_graph_is_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = trained(train_step)
    monkeypatch.setenv("ADJIT_VERIFY", "1")
    step = aj.compile(train_step)
    for found, array in zip(trained(step), expected, strict=True):
        np.testing.assert_allclose(found, array, rtol=1e-4, atol=1e-5)
    model = network()
    f = aj.compile(lambda x: model(x).square().sum())
    x, _ = data()
    (gradient,) = aj.autograd.grad(f(x), model[0].weight, create_graph=True)
    gradient.square().sum().backward()
    assert "checking the graph" in f.explain()


@pytest.mark.parametrize("choices", [{"threads": 2}, {"backend": "interpret"}, {"memory_budget": 0}, {"memory_budget": 0.5}])
def test_choices(choices: Any) -> None:
    rows, width = (3000, 40) if "threads" in choices else (8, 6)
    expected = trained(train_step, rows=rows, width=width)
    for found, array in zip(trained(aj.compile(train_step, **choices), rows=rows, width=width), expected, strict=True):
        np.testing.assert_allclose(found, array, rtol=1e-3, atol=1e-4)


def test_models_trained_at_the_same_time() -> None:
    step = aj.compile(lambda model, optimizer, x, y: (
        optimizer.zero_grad(), (loss := nn.functional.mse_loss(model(x), y)).backward(), optimizer.step(), loss)[-1])

    def run(number: int) -> list[float]:
        model = nn.Linear(3, 1)
        with aj.no_grad():
            model.weight.fill_(0.1 * number)
            model.bias.zero_()
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        x = aj.tensor(np.arange(12, dtype=np.float32).reshape(4, 3) / 10)
        return [step(model, optimizer, x, aj.tensor(np.ones((4, 1), np.float32))).item() for _ in range(50)]

    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(run, range(6)))
    assert together == [run(number) for number in range(6)]


def test_one_forward_from_many_threads() -> None:
    w = aj.tensor(np.arange(3.0), requires_grad=True)
    f = aj.compile(lambda x: (x * w).sum())

    def run(number: int) -> tuple[float, list[float]]:
        x = aj.tensor(np.full(3, float(number)), requires_grad=True)
        (gradient,) = aj.autograd.grad(f(x), x)
        return f(x).item(), gradient.tolist()

    with ThreadPoolExecutor(4) as pool:
        for number, (value, gradient) in enumerate(pool.map(run, range(40))):
            assert value == 3.0 * number
            assert gradient == [0.0, 1.0, 2.0]
    assert f.cache_info().traces == 1


def test_reports_of_a_step() -> None:
    model = network()
    optimizer = optim.Adam(model.parameters())
    step = aj.compile(train_step)
    before = parameters(model)
    assert "philox" in step.ir("optimized", model, optimizer, *data())       # compiled, not run
    for now, array in zip(parameters(model), before, strict=True):
        assert np.array_equal(now, array)
    step(model, optimizer, *data())
    assert step.cache_info().traces == 1
    assert "tensors that the function reaches by itself; " in step.explain()
    assert step.memory().saved_bytes >= 0
    assert step.kernels()
    profile = step.profile(model, optimizer, *data())
    assert str(profile)
    again = parameters(model)
    step.profile(model, optimizer, *data())
    for now, array in zip(parameters(model), again, strict=True):
        assert np.array_equal(now, array)
