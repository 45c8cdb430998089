"""Training steps, compiled whole: the same values as the eager run, whatever is done between the steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.backends import BACKENDS
from support.training import train_step

import adjit as aj
from adjit import nn, optim
from adjit.eager.generator import default_generator

OPTIMISERS: dict[str, Callable[[Any], Any]] = {
    "SGD": lambda params: optim.SGD(params, lr=0.1),
    "SGD, momentum": lambda params: optim.SGD(params, lr=0.05, momentum=0.9),
    "SGD, dampening": lambda params: optim.SGD(params, lr=0.05, momentum=0.9, dampening=0.5),
    "SGD, nesterov, decay": lambda params: optim.SGD(params, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01),
    "SGD, maximize": lambda params: optim.SGD(params, lr=0.001, maximize=True),
    "Adam": lambda params: optim.Adam(params, lr=0.01),
    "Adam, amsgrad, decay": lambda params: optim.Adam(params, lr=0.01, amsgrad=True, weight_decay=0.01),
    "AdamW": lambda params: optim.AdamW(params, lr=0.01),
    "RMSprop": lambda params: optim.RMSprop(params, lr=0.01),
    "RMSprop, centered, momentum": lambda params: optim.RMSprop(params, lr=0.01, centered=True, momentum=0.5),
    "Adagrad": lambda params: optim.Adagrad(params, lr=0.05, lr_decay=0.1),
}


def perceptron(*, dropout: float = 0.0, norm: bool = False, dtype: Any = np.float32) -> nn.Module:
    aj.manual_seed(0)
    layers: list[Any] = [nn.Linear(3, 8)]
    layers += [nn.BatchNorm1d(8)] if norm else []
    layers += [nn.Tanh(), nn.Dropout(dropout)] if dropout else [nn.Tanh()]
    model = nn.Sequential(*layers, nn.Linear(8, 2))
    return model.to(dtype)


def batch(number: int = 0, dtype: Any = np.float32, rows: int = 16) -> tuple[aj.Tensor, aj.Tensor]:
    generator = np.random.default_rng(number)
    x = generator.normal(size=(rows, 3))
    return aj.tensor(x.astype(dtype)), aj.tensor(np.stack([np.sin(x[:, 0]), x[:, 1] * x[:, 2]], axis=1).astype(dtype))


def state_of(model: Any, optimizer: Any) -> dict[str, np.ndarray]:
    """All numbers that training changes."""
    state = {name: tensor.numpy().copy() for name, tensor in model.state_dict().items()}
    state |= {f"{name}.grad": tensor.grad.numpy().copy() for name, tensor in model.named_parameters() if tensor.grad is not None}
    for number, known in optimizer.state_dict()["state"].items():
        state |= {f"state {number}.{name}": tensor.numpy() for name, tensor in known.items()}
    state["generator"] = default_generator.counter.numpy().copy()
    return state


def assert_same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray], tolerance: float = 1e-6) -> None:
    assert list(found) == list(expected)
    for name, array in expected.items():
        assert found[name].dtype == array.dtype, name
        np.testing.assert_allclose(found[name], array, rtol=tolerance, atol=tolerance, err_msg=name)


def assert_trains_as_eager(run: Callable[[Any], tuple[Any, Any, Any]], step: Callable[..., Any] = train_step, *, traces: int = 1,
                           tolerance: float = 1e-6, **choices: Any) -> Any:
    """`run(step)` trains something and gives (losses, model, optimizer): once with the eager step, once with the compiled one."""
    expected_losses, model, optimizer = run(step)
    expected = state_of(model, optimizer)
    compiled = aj.compile(step, **choices)
    losses, model, optimizer = run(compiled)
    np.testing.assert_allclose(losses, expected_losses, rtol=tolerance, atol=tolerance)
    assert len(set(losses)) > 1
    assert_same(state_of(model, optimizer), expected, tolerance)
    assert compiled.cache_info().traces == traces
    return compiled


@pytest.mark.parametrize("name", OPTIMISERS)
def test_hundred_steps_of_every_optimiser(name: str) -> None:
    def run(step: Any) -> Any:
        model = perceptron()
        optimizer = OPTIMISERS[name](model.parameters())
        return [step(model, optimizer, *batch(number)).item() for number in range(100)], model, optimizer

    # what climbs diverges, and what is centered divides by differences that nearly vanish
    assert_trains_as_eager(run, tolerance=5e-6 if {"maximize", "centered"} & set(name.split(", ")) else 2e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_dropout_and_batch_norm_in_float64(backend: str) -> None:
    def run(step: Any) -> Any:
        model = perceptron(dropout=0.3, norm=True, dtype=np.float64)
        optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.5)
        return [step(model, optimizer, *batch(number, np.float64)).item() for number in range(100)], model, optimizer

    assert_trains_as_eager(run, tolerance=1e-10, backend=backend)


@pytest.mark.parametrize("scheduler", [
    lambda optimizer: optim.lr_scheduler.StepLR(optimizer, step_size=5, gamma=0.5),
    lambda optimizer: optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=40),
    lambda optimizer: optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=31),
])
@pytest.mark.parametrize("kind", ["SGD, momentum", "Adam"])
def test_schedules_from_outside_need_no_new_trace(scheduler: Any, kind: str) -> None:
    def run(step: Any) -> Any:
        model = perceptron()
        optimizer = OPTIMISERS[kind](model.parameters())
        schedule = scheduler(optimizer)
        losses = []
        for number in range(30):
            losses.append(step(model, optimizer, *batch(number)).item())
            schedule.step()
        return losses, model, optimizer

    assert_trains_as_eager(run, tolerance=5e-6)


def clipped_step(model: Any, optimizer: Any, x: Any, y: Any) -> Any:
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    optimizer.step()
    return loss + 0.0 * norm.detach()


def accumulating_step(model: Any, optimizer: Any, x: Any, y: Any) -> Any:
    optimizer.zero_grad()
    total = 0.0
    for part in range(4):
        rows = slice(4 * part, 4 * part + 4)
        loss = nn.functional.mse_loss(model(x[rows]), y[rows]) / 4
        loss.backward()
        total = total + loss.detach()
    optimizer.step()
    return total


def step_that_keeps_gradients(model: Any, optimizer: Any, x: Any, y: Any) -> Any:
    optimizer.zero_grad(set_to_none=False)
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


@pytest.mark.parametrize(("step", "traces"), [(clipped_step, 1), (accumulating_step, 1), (step_that_keeps_gradients, 2)])
def test_other_steps(step: Any, traces: int) -> None:
    def run(step: Any) -> Any:
        model = perceptron()
        optimizer = optim.AdamW(model.parameters(), lr=0.01)
        return [step(model, optimizer, *batch(number)).item() for number in range(50)], model, optimizer

    assert_trains_as_eager(run, step, traces=traces, tolerance=2e-6)


def test_gradients_are_the_same_tensors_where_they_are_kept() -> None:
    model = perceptron()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    step = aj.compile(step_that_keeps_gradients)
    step(model, optimizer, *batch())
    gradient = model[0].weight.grad
    step(model, optimizer, *batch(1))
    assert model[0].weight.grad is gradient


def test_micro_batches_over_several_calls() -> None:
    def accumulate(model: Any, x: Any, y: Any) -> Any:
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        return loss

    def run(step: Any) -> Any:
        model = perceptron()
        optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        losses = []
        for number in range(24):
            losses.append(step(model, *batch(number)).item())
            if number % 3 == 2:
                optimizer.step()
                optimizer.zero_grad()
        return losses, model, optimizer

    assert_trains_as_eager(run, accumulate, traces=2)       # without gradients, and with


def test_model_and_optimiser_in_a_closure() -> None:
    def run(compiled: bool) -> Any:
        model = perceptron(dropout=0.2)
        optimizer = optim.Adam(model.parameters(), lr=0.01)

        def step(x: Any, y: Any) -> Any:
            return train_step(model, optimizer, x, y)

        function = aj.compile(step) if compiled else step
        losses = [function(*batch(number)).item() for number in range(20)]
        if compiled:
            assert function.cache_info().traces == 1
        return losses, state_of(model, optimizer)

    (expected_losses, expected), (losses, found) = run(False), run(True)
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-6)
    assert_same(found, expected)


def test_groups_and_frozen_parameters() -> None:
    def run(step: Any) -> Any:
        model = perceptron()
        model[0].bias.requires_grad_(False)
        groups = [{"params": [model[0].weight], "lr": 0.001}, {"params": model[2].parameters(), "weight_decay": 0.1}]
        optimizer = optim.Adam(groups, lr=0.02)
        losses = []
        for number in range(20):
            losses.append(step(model, optimizer, *batch(number)).item())
            optimizer.param_groups[1]["lr"] *= 0.9
            optimizer.param_groups[0]["betas"] = (0.9 - 0.001 * number, 0.999)
        assert model[0].bias.grad is None
        return losses, model, optimizer

    assert_trains_as_eager(run)


def test_hyperparameters_that_become_zero_need_another_trace() -> None:
    def run(step: Any) -> Any:
        model = perceptron()
        optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=0.1)
        losses = []
        for number in range(20):
            optimizer.param_groups[0]["momentum"] = 0.0 if 5 <= number < 10 else 0.9
            losses.append(step(model, optimizer, *batch(number)).item())
        return losses, model, optimizer

    compiled = assert_trains_as_eager(run, traces=2)
    assert compiled.cache_info().hits == 18


def test_one_function_for_two_models() -> None:
    step = aj.compile(train_step)
    results = []
    for function in (train_step, step):
        models = [perceptron(), perceptron(dtype=np.float64)]
        optimizers = [optim.SGD(models[0].parameters(), lr=0.1), optim.Adam(models[1].parameters(), lr=0.1)]
        for number in range(10):
            for model, optimizer, dtype in zip(models, optimizers, (np.float32, np.float64), strict=True):
                function(model, optimizer, *batch(number, dtype))
        results.append([state_of(model, optimizer) for model, optimizer in zip(models, optimizers, strict=True)])
    for found, expected in zip(results[1], results[0], strict=True):
        assert_same(found, expected)
    assert step.cache_info().traces == 2


def test_train_and_eval_switch_between_two_programs() -> None:
    def run(step: Any) -> Any:
        model = perceptron(dropout=0.5, norm=True)
        optimizer = optim.SGD(model.parameters(), lr=0.05)
        losses = []
        for number in range(12):
            model.train(number % 3 != 0)
            losses.append(step(model, optimizer, *batch(number)).item())
        return losses, model, optimizer

    compiled = assert_trains_as_eager(run, traces=2)
    assert compiled.cache_info().hits == 10


def test_states_that_are_loaded_between_steps() -> None:
    def run(step: Any) -> Any:
        model = perceptron()
        optimizer = optim.Adam(model.parameters(), lr=0.01)
        losses = [step(model, optimizer, *batch(number)).item() for number in range(5)]
        saved = {name: tensor.clone() for name, tensor in model.state_dict().items()}, optimizer.state_dict()
        losses += [step(model, optimizer, *batch(number)).item() for number in range(5, 10)]
        model.load_state_dict(saved[0])
        optimizer.load_state_dict(saved[1])
        again = [step(model, optimizer, *batch(number)).item() for number in range(5, 10)]
        np.testing.assert_allclose(again, losses[5:], rtol=1e-6)
        return losses + again, model, optimizer

    assert_trains_as_eager(run, traces=2)


def test_parameters_that_are_replaced() -> None:
    def run(step: Any) -> Any:
        model = perceptron()
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        losses = [step(model, optimizer, *batch(number)).item() for number in range(3)]
        model[0].weight = nn.Parameter(np.full((8, 3), 0.1, np.float32))
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        losses += [step(model, optimizer, *batch(number)).item() for number in range(3)]
        model[2].bias.data = aj.tensor([1.0, -1.0])
        losses += [step(model, optimizer, *batch(number)).item() for number in range(3)]
        return losses, model, optimizer

    assert_trains_as_eager(run, traces=2)


def test_tied_weights() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(3, 3)
            self.outer = nn.Linear(3, 3)
            self.outer.weight = self.inner.weight

        def forward(self, x: Any) -> Any:
            return self.outer(nn.functional.tanh(self.inner(x)))[:, :2]

    def run(step: Any) -> Any:
        aj.manual_seed(0)
        model = Tied()
        optimizer = optim.Adam(model.parameters(), lr=0.01)
        assert len(list(model.parameters())) == 3
        return [step(model, optimizer, *batch(number)).item() for number in range(20)], model, optimizer

    assert_trains_as_eager(run)


def test_a_recurrent_network_written_as_a_loop() -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(1, 6)
            self.hidden = nn.Linear(6, 6)
            self.out = nn.Linear(6, 2)

        def forward(self, x: Any) -> Any:
            state = aj.tensor(np.zeros((16, 6), np.float32))
            state += 0.1
            for index in range(x.shape[1]):
                state = nn.functional.tanh(self.inner(x[:, index:index + 1]) + self.hidden(state))
            return self.out(state)

    def run(step: Any) -> Any:
        aj.manual_seed(0)
        model = Recurrent()
        optimizer = optim.RMSprop(model.parameters(), lr=0.005)
        return [step(model, optimizer, *batch(number)).item() for number in range(20)], model, optimizer

    assert_trains_as_eager(run, tolerance=5e-6)


def test_several_results() -> None:
    def step(model: Any, optimizer: Any, x: Any, y: Any) -> dict[str, Any]:
        optimizer.zero_grad()
        logits = model(x)
        loss = nn.functional.mse_loss(logits, y)
        loss.backward()
        optimizer.step()
        return {"loss": loss, "logits": logits, "weight": model[0].weight, "gradient": model[0].weight.grad, "again": loss, "count": 3,
                "array": np.float32(2.0) * np.ones(2, np.float32)}

    model = perceptron()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    compiled = aj.compile(step)
    for number in range(3):
        results = compiled(model, optimizer, *batch(number))
        assert results["weight"] is model[0].weight
        assert results["gradient"] is model[0].weight.grad
        assert results["again"] is results["loss"]
        assert results["count"] == 3
        assert type(results["array"]) is np.ndarray
        assert not results["loss"].requires_grad        # its graph was freed by backward()
    twin = perceptron()
    other = optim.SGD(twin.parameters(), lr=0.1)
    for number in range(3):
        expected = step(twin, other, *batch(number))
    for name in ("loss", "logits", "weight", "gradient"):
        np.testing.assert_allclose(results[name].detach().numpy(), expected[name].detach().numpy(), rtol=1e-6, atol=1e-7)


def test_eager_and_compiled_steps_in_turn() -> None:
    compiled = aj.compile(train_step)

    def run(step: Any) -> Any:
        model = perceptron(dropout=0.2)
        optimizer = optim.Adam(model.parameters(), lr=0.01)
        losses = []
        for number in range(20):
            losses.append((step if number % 2 else train_step)(model, optimizer, *batch(number)).item())
        return losses, model, optimizer

    expected, *twin = run(train_step)
    found, *own = run(compiled)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert_same(state_of(*own), state_of(*twin))
    assert compiled.cache_info().traces == 1


def test_step_counts_are_those_of_eager_steps() -> None:
    model = perceptron()
    optimizer = optim.Adam(model.parameters())
    step = aj.compile(train_step)
    for number in range(7):
        step(model, optimizer, *batch(number))
    assert [known["step"].item() for known in optimizer.state.values()] == [7, 7, 7, 7]


def test_the_reason_of_a_new_trace_is_told() -> None:
    model = perceptron(dropout=0.1)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    step = aj.compile(train_step)
    step(model, optimizer, *batch())
    model.eval()
    step(model, optimizer, *batch())
    assert "traced because: Sequential.training changed" in step.explain()
    other = perceptron()
    step(other, optimizer, *batch())
    assert "traced because: model is another Sequential" in step.explain()


def test_a_learning_rate_that_is_no_number_is_told() -> None:
    model = perceptron()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    step = aj.compile(train_step)
    step(model, optimizer, *batch())
    optimizer.param_groups[0]["lr"] = 1         # an int is part of the program
    before = model[0].weight.detach().clone()
    step(model, optimizer, *batch())
    np.testing.assert_allclose((before - model[0].weight).detach().numpy(), model[0].weight.grad.numpy(), rtol=1e-5, atol=1e-7)
    assert not math.isnan(model[0].weight.sum().item())


def test_hooks_of_parameters_are_part_of_the_program() -> None:
    def run(step: Any) -> Any:
        model = perceptron()
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        losses = [step(model, optimizer, *batch(number)).item() for number in range(3)]
        handle = model[0].weight.register_hook(lambda gradient: gradient * 0.5)
        losses += [step(model, optimizer, *batch(number)).item() for number in range(3)]
        handle.remove()
        losses += [step(model, optimizer, *batch(number)).item() for number in range(3)]
        return losses, model, optimizer

    assert_trains_as_eager(run, traces=2)
