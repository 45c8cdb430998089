"""Training loops as people write them, compiled: manual updates, averages, closures, adversaries, higher derivatives, metrics."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit import nn, optim
from adjit.ir.errors import TraceError

F = nn.functional


def network(inputs: int = 3, outputs: int = 2) -> nn.Module:
    aj.manual_seed(1)
    return nn.Sequential(nn.Linear(inputs, 5), nn.Tanh(), nn.Linear(5, outputs)).double()


def batch(number: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(number)
    x = generator.normal(size=(6, 3))
    return x, (x[:, 0] > 0).astype(np.int64)


def numbers(value: Any) -> Any:
    return value.numpy(force=True).copy() if isinstance(value, aj.Tensor) else np.asarray(value)


def check(make: Callable[[], tuple[Callable[..., Any], list[Any]]], steps: int = 6, traces: int = 1) -> None:
    """`make()` gives a step (x, y) -> tree of results, and modules; compiled it does the same as eager."""
    runs = []
    for compiled in (False, True):
        aj.manual_seed(0)
        step, modules = make()
        function = aj.compile(step) if compiled else step
        results = [[numbers(item) for item in function(*map(aj.tensor, batch(number)))] for number in range(steps)]
        state = [numbers(tensor) for module in modules for tensor in (*module.parameters(), *module.buffers())]
        gradients = [numbers(parameter.grad) for module in modules for parameter in module.parameters() if parameter.grad is not None]
        runs.append([*(item for result in results for item in result), *state, *gradients])
        if compiled:
            assert function.cache_info().traces == traces
    assert len(runs[0]) == len(runs[1]) > steps
    for found, expected in zip(runs[1], runs[0], strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("way", ["data", "no_grad", "sub_", "copy_"])
def test_updates_by_hand(way: str) -> None:
    def make() -> Any:
        model = network()

        def step(x: Any, y: Any) -> Any:
            loss = F.cross_entropy(model(x), y)
            model.zero_grad()
            loss.backward()
            for parameter in model.parameters():
                if way == "data":
                    parameter.data = parameter.data - 0.1 * parameter.grad
                    continue
                with aj.no_grad():
                    if way == "no_grad":
                        parameter -= 0.1 * parameter.grad
                    elif way == "sub_":
                        parameter.data.sub_(parameter.grad, alpha=0.1)
                    else:
                        parameter.copy_(parameter - 0.1 * parameter.grad)
            return [loss]

        return step, [model]

    check(make)


def test_gradients_by_autograd_grad() -> None:
    def make() -> Any:
        model = network()

        def step(x: Any, y: Any) -> Any:
            parameters = list(model.parameters())
            gradients = aj.autograd.grad(F.cross_entropy(model(x), y), parameters)
            with aj.no_grad():
                for parameter, gradient in zip(parameters, gradients, strict=True):
                    parameter.sub_(0.1 * gradient)
            return [*gradients]

        return step, [model]

    check(make)


def test_an_average_of_the_weights_and_a_count() -> None:
    class Average(nn.Module):
        def __init__(self, model: nn.Module):
            super().__init__()
            self.register_buffer("count", aj.tensor(0))
            for index, parameter in enumerate(model.parameters()):
                self.register_buffer(f"average{index}", parameter.detach().clone())

    def make() -> Any:
        model = network()
        average = Average(model)
        optimizer = optim.SGD(model.parameters(), lr=0.1)

        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            with aj.no_grad():
                average.count += 1
                for index, parameter in enumerate(model.parameters()):
                    getattr(average, f"average{index}").mul_(0.9).add_(parameter, alpha=0.1)
            return [loss, average.count.clone()]

        return step, [model, average]

    check(make)


def test_a_closure_for_step() -> None:
    def make() -> Any:
        model = network()
        optimizer = optim.Adam(model.parameters(), lr=0.01)

        def step(x: Any, y: Any) -> Any:
            def closure() -> Any:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                return loss
            return [optimizer.step(closure)]

        return step, [model]

    check(make)


def test_two_networks_against_each_other() -> None:
    def make() -> Any:
        generator, critic = network(3, 3), network(3, 1)
        optimizers = [optim.Adam(module.parameters(), lr=0.01) for module in (generator, critic)]

        def step(x: Any, y: Any) -> Any:
            optimizers[1].zero_grad()
            fake = generator(x)
            loss = (F.softplus(-critic(x)) + F.softplus(critic(fake.detach()))).mean()
            loss.backward()
            optimizers[1].step()
            optimizers[0].zero_grad()
            other = F.softplus(-critic(fake)).mean()
            other.backward()
            optimizers[0].step()
            return [loss, other]

        return step, [generator, critic]

    check(make)


def test_a_penalty_on_gradients() -> None:
    def make() -> Any:
        model = network(3, 1)
        optimizer = optim.SGD(model.parameters(), lr=0.05)

        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            x = x.detach().requires_grad_()
            (slope,) = aj.autograd.grad(model(x).sum(), x, create_graph=True)
            loss = (slope.square().sum(1).sqrt() - 1).square().mean()
            loss.backward()
            optimizer.step()
            return [loss, slope]

        return step, [model]

    check(make)


def test_metrics_and_modes_within_the_step() -> None:
    def make() -> Any:
        model = nn.Sequential(network(), nn.Dropout(0.5))
        optimizer = optim.SGD(model.parameters(), lr=0.1)

        def step(x: Any, y: Any) -> Any:
            model.train()
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            model.eval()
            with aj.no_grad():
                right = (model(x).argmax(1) == y).double().mean()
            model.train()
            return [loss, right]

        return step, [model]

    check(make)


def test_other_layers() -> None:
    def make() -> Any:
        aj.manual_seed(0)
        recurrent = nn.LSTM(3, 4, batch_first=True).double()
        attention = nn.MultiheadAttention(4, 2, batch_first=True).double()
        norm, table, out = nn.LayerNorm(4).double(), nn.Embedding(5, 4).double(), nn.Linear(4, 2).double()
        modules = nn.ModuleList([recurrent, attention, norm, table, out])
        optimizer = optim.SGD(modules.parameters(), lr=0.1, momentum=0.5)

        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            hidden, _ = recurrent(x[:, None, :] * aj.tensor(np.ones((1, 4, 1))))
            hidden = norm(hidden + table(y)[:, None, :])
            mixed, _ = attention(hidden, hidden, hidden)
            loss = F.cross_entropy(out(mixed.mean(dim=1)), y)
            loss.backward()
            optimizer.step()
            return [loss]

        return step, [modules]

    check(make)


def test_arrays_as_data() -> None:
    def step(model: Any, optimizer: Any, x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    results = []
    for function in (step, aj.compile(step)):
        model = network()
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        results.append([function(model, optimizer, *batch(number)).item() for number in range(5)])
    np.testing.assert_allclose(results[1], results[0], rtol=1e-10)


def test_arrays_that_are_read_within_a_step() -> None:
    model = network()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    before = [numbers(parameter) for parameter in model.parameters()]

    @aj.compile
    def step(x: Any, y: Any) -> Any:
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        np.asarray(loss.detach())
        optimizer.step()

    with pytest.raises(TraceError):
        step(*map(aj.tensor, batch(0)))
    for parameter, array in zip(model.parameters(), before, strict=True):
        assert np.array_equal(numbers(parameter), array)
        assert parameter.grad is None


@pytest.mark.parametrize("read", [lambda loss: loss.item(), float, lambda loss: f"{loss:.3f}", lambda loss: loss.tolist()])
def test_values_that_are_read_within_a_step(read: Any) -> None:
    """They are those of each call: three programs, then step by step."""
    results = []
    for compiled in (False, True):
        model = network()
        optimizer = optim.SGD(model.parameters(), lr=0.1)

        def step(x: Any, y: Any, model: Any = model, optimizer: Any = optimizer) -> Any:
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return read(loss.detach())

        call = aj.compile(step, backend="interpret") if compiled else step
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            losses = [call(*map(aj.tensor, batch(number))) for number in range(5)]
        results.append(([float(loss) for loss in losses], [numbers(parameter) for parameter in model.parameters()]))
    np.testing.assert_allclose(results[1][0], results[0][0], rtol=1e-6)
    for found, expected in zip(results[1][1], results[0][1], strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)
