"""Modules and captured training steps for every batch size: against programs made for the size."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit import nn
from adjit.ir.errors import ShapeError
from adjit.ir.types import TensorType
from adjit.tracer.row_count import RowCount

RNG = np.random.default_rng(6)
X, Y = RNG.normal(size=(300, 8)).astype(np.float32), RNG.normal(size=(300, 1)).astype(np.float32)
LABELS, IMAGES = RNG.integers(0, 4, 300), RNG.normal(size=(60, 1, 6, 6)).astype(np.float32)


def train_step(model: Any, optimizer: Any, x: Any, y: Any) -> Any:
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y) if y.ndim > 1 else nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


def layers(name: str) -> nn.Module:
    aj.manual_seed(4)
    return {
        "regression": lambda: nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)),
        "classes": lambda: nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.LayerNorm(16), nn.Linear(16, 4)),
        "dropout": lambda: nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.5), nn.Linear(16, 1)),
        "images": lambda: nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(12, 4)),
        "normalized": lambda: nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1)),
        "normalized images": lambda: nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                                                   nn.Linear(12, 4)),
    }[name]()


DATA = {"regression": (X, Y), "classes": (X, LABELS), "dropout": (X, Y), "images": (IMAGES, LABELS), "normalized": (X, Y),
        "normalized images": (IMAGES, LABELS)}


def weights(model: nn.Module) -> list[np.ndarray]:
    return [parameter.detach().numpy().copy() for parameter in model.parameters()]


def trained(name: str, sizes: tuple[int, ...], optimizer: Callable[..., Any], **options: Any) -> tuple[list[float], list[np.ndarray], Any]:
    """Losses and weights of a training with batches of these sizes, and its compiled step, with what keeps its programs alive."""
    step, model = aj.compile(train_step, **options), layers(name)
    made, (inputs, targets) = optimizer(model.parameters()), DATA[name]
    aj.manual_seed(9)
    losses = [step(model, made, aj.tensor(inputs[:size]), aj.tensor(targets[:size])).item() for size in sizes]
    return losses, weights(model), (step, model, made)


@pytest.mark.share(2)
@pytest.mark.parametrize("name", ["dropout", "regression", "images", "classes"])
def test_training_steps(name: str) -> None:
    sizes = (32, 32, 32, 7, 32, 1, 60, 3)
    adam = lambda parameters: aj.optim.Adam(parameters, lr=1e-2)     # noqa: E731
    losses, mine, (step, *_held) = trained(name, sizes, adam, batch=("x", "y"))
    expected, others, _ = trained(name, sizes, adam)
    assert np.allclose(losses, expected, rtol=1e-4)
    assert all(np.allclose(one, two, rtol=1e-3, atol=1e-5) for one, two in zip(mine, others, strict=True))
    assert step.cache_info().traces == 1, step.explain()
    assert "one program for any number of rows of x, y" in step.explain()


def test_a_sum_divided_by_the_number_of_rows_is_one_program() -> None:
    net = nn.Linear(6, 2)
    optimizer = aj.optim.SGD(net.parameters(), lr=0.1)

    @aj.compile(batch="x")
    def step(net: Any, optimizer: Any, x: Any) -> Any:
        loss = net(x).sum() / len(x)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    for size in (7, 1, 2):
        step(net, optimizer, aj.ones(size, 6))
    assert step.cache_info().traces == 1, step.explain()


class Recurrent(nn.Module):
    """The last states of a recurrent network, with a linear layer behind them."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.rnn = getattr(nn, kind)(2, 4, batch_first=True)
        self.out = nn.Linear(4, 1)

    def forward(self, x: Any) -> Any:
        return self.out(self.rnn(x.reshape(-1, 4, 2))[0][:, -1])


@pytest.mark.share(3)
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_networks(kind: str) -> None:
    """A last batch compiles nothing: the loop over time runs for each panel, and adds up the gradients of its rows."""
    step, found = aj.compile(train_step, batch=("x", "y")), []
    for run in (step, train_step):
        aj.manual_seed(4)
        model = Recurrent(kind)
        optimizer = aj.optim.Adam(model.parameters(), lr=1e-2)
        losses = [run(model, optimizer, aj.tensor(X[:size]), aj.tensor(Y[:size])).item() for size in (7, 1, 65, 7)]
        found.append((losses, weights(model)))
        if run is step:
            assert step.cache_info().traces == 1, step.explain()
    (losses, mine), (expected, others) = found
    assert np.allclose(losses, expected, rtol=1e-4)
    assert all(np.allclose(one, two, rtol=1e-3, atol=1e-5) for one, two in zip(mine, others, strict=True))


def test_optimizers_are_left_as_they_were_by_traces() -> None:
    """The function is traced for several sizes; only the call counts."""
    model = layers("regression")
    optimizer = aj.optim.Adam(model.parameters(), lr=1e-2)
    step = aj.compile(train_step, batch=("x", "y"))
    before = weights(model)
    step(model, optimizer, aj.tensor(X[:9]), aj.tensor(Y[:9]))
    assert {int(state["step"].item()) for state in optimizer.state.values()} == {1}
    change = max(np.abs(one - two).max() for one, two in zip(before, weights(model), strict=True))
    assert 0 < change < 1.01e-2


def test_a_schedule_of_learning_rates_compiles_nothing() -> None:
    model = layers("regression")
    optimizer = aj.optim.SGD(model.parameters(), lr=0.1)
    step = aj.compile(train_step, batch=("x", "y"))
    for number in range(5):
        optimizer.param_groups[0]["lr"] = 0.1 / (number + 1)
        before = weights(model)
        step(model, optimizer, aj.tensor(X[:20 + number]), aj.tensor(Y[:20 + number]))
        assert any((one != two).any() for one, two in zip(before, weights(model), strict=True))
    assert step.cache_info().traces == 1


def test_predictions_of_a_compiled_module() -> None:
    model = layers("classes").eval()
    compiled = aj.compile(model, batch="x")
    with aj.no_grad():
        for size in (5, 1, 200, 5):
            x = aj.tensor(X[:size])
            assert np.allclose(compiled(x).numpy(), model(x).numpy(), rtol=1e-4, atol=1e-5)
    assert compiled.cache_info().traces == 1


def columns_and_loss(w: Any, x: Any) -> tuple[Any, Any]:
    """Rows, which are saved along their second axis, and a number in which Python used how many rows there are."""
    return (w.T @ x.T).tanh().T, (x @ w).exp().sum() / len(x)


def gradients(run: Callable[..., Any], size: int, of: Callable[..., Any]) -> list[np.ndarray]:
    w, x = aj.tensor(0.1 * X[100:108, :3], requires_grad=True), aj.tensor(X[:size], requires_grad=True)
    of(x, *run(w, x)).backward()
    return [w.grad.numpy(), x.grad.numpy()]


def penalty(x: Any, columns: Any, loss: Any) -> Any:
    slope, = aj.autograd.grad(loss, [x], create_graph=True)
    return (slope ** 2).sum() + columns.sum()


def test_backward_outside_compiles_nothing_for_another_number_of_rows() -> None:
    compiled = aj.compile(columns_and_loss, batch="x")
    for of, sizes in ((lambda x, columns, loss: columns.sum() + loss, (5, 1, 70)), (penalty, (5,))):
        for size in sizes:
            mine, expected = (gradients(run, size, of) for run in (compiled, columns_and_loss))
            assert all(np.allclose(one, two, rtol=1e-4, atol=1e-5) for one, two in zip(mine, expected, strict=True))
    assert compiled.cache_info().traces == 1
    operation = compiled.programs()[0].tensors.operation
    assert operation._moved
    assert len(operation._backward) == 3        # for both results, for each by itself in the penalty, once for all numbers of rows


class Cube(aj.autograd.Function):
    """The third power, with a derivative that is none of it."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Any, cotangent: Any) -> Any:
        x, = ctx.saved_tensors
        return 7 * x * x * cotangent


def by_rule(backward: Callable[..., Any]) -> Callable[..., Any]:
    """The hyperbolic tangent, with a derivative of x and the cotangent."""
    function = aj.custom_vjp(np.tanh)
    function.defvjp(lambda x: (np.tanh(x), x), lambda x, cotangent: (backward(x, cotangent),))
    return function


by_mean = by_rule(lambda x, cotangent: 7 * cotangent * np.cos(x) / len(x))


def with_rules(w: Any, x: Any) -> tuple[Any, Any]:
    hidden = x @ w
    again = aj.checkpoint(lambda z: by_mean(z).sum(axis=1) / len(z))(hidden)
    return Cube.apply(hidden) + by_mean(hidden), (again * again).mean() + aj.utils.checkpoint.checkpoint(np.sin, x).sum()


def test_rules_and_checkpoints_with_backward_outside() -> None:
    compiled = aj.compile(with_rules, batch="x")
    for of, sizes in ((lambda x, rows, loss: (rows * rows).sum() + loss, (1, 2, 7, 100, 1000)), (penalty, (7,))):
        for size in sizes:
            mine, expected = (gradients(run, size, of) for run in (compiled, with_rules))
            assert all(np.allclose(one, two, rtol=1e-4, atol=1e-4) for one, two in zip(mine, expected, strict=True)), size
    assert compiled.cache_info().traces == 1, compiled.explain()


def test_rules_that_do_something_else_for_one_row_or_mix_rows() -> None:
    def total(x: Any, rows: Any) -> Any:
        return rows.sum()

    def check(backward: Callable[..., Any], sizes: tuple[int, ...], why: str) -> Any:
        rule = by_rule(backward)
        compiled = aj.compile(lambda w, x: (rule(x @ w),), batch="x")
        for size in sizes:
            mine, expected = (gradients(run, size, total) for run in (compiled, compiled.__wrapped__))
            assert all(np.allclose(one, two, rtol=1e-4, atol=1e-5) for one, two in zip(mine, expected, strict=True)), (why, size)
        assert compiled.cache_info().traces == 2
        assert why in compiled.explain(), why

    check(lambda x, cotangent: cotangent * np.max(np.squeeze(x), axis=0), (5, 2, 1), "below 2, because other operations run for one row")
    check(lambda x, cotangent: cotangent * np.cumsum(x, axis=0), (5, 9), "in its gradient, cumsum computes rows from other rows")
    check(lambda x, cotangent: cotangent * by_mean(x), (5, 9), "functions are called that have rules of their own")


def test_gradients_that_have_no_program_for_any_number_of_rows() -> None:
    adding = aj.compile(lambda x: (x * x).sum().backward(), batch="x")
    x = aj.tensor(X[:5], requires_grad=True)
    for _ in range(2):      # the second call adds to the gradient of the first
        adding(x)
    assert np.allclose(x.grad.numpy(), 4 * X[:5])
    assert "it adds to a gradient that has rows" in adding.explain()


@pytest.mark.share(2)
@pytest.mark.parametrize("name", ["normalized", "normalized images"])
def test_batch_normalisation(name: str) -> None:
    """Statistics are sums over rows on which rows depend. What one loop over rows computed, further ones do not compute again."""
    sgd = lambda parameters: aj.optim.SGD(parameters, lr=1e-2)      # noqa: E731
    inputs, targets = DATA[name]
    sizes = (len(inputs), 7, 2)
    losses, mine, (step, model, made) = trained(name, sizes, sgd, batch=("x", "y"), threads=2)
    expected, others, (_, other, _) = trained(name, sizes, sgd)
    assert np.allclose(losses, expected, rtol=1e-4)
    assert all(np.allclose(one, two, rtol=1e-3, atol=1e-5) for one, two in zip(mine, others, strict=True))
    assert all(np.allclose(one.numpy(), two.numpy(), rtol=1e-4) for one, two in zip(model.buffers(), other.buffers(), strict=True))
    assert step.cache_info().traces == 1, step.explain()
    assert ": 4 loops over panels" in step.explain()     # mean, variance, sums of the gradient, and what follows from them
    first_layers = re.findall(r"= (?:convolution|matmul) %x,.*(?:groups|transpose_a=false)", step.ir("planned"))
    assert len(first_layers) == 3       # one for each size of panels
    on_one_thread = trained(name, sizes, sgd, batch=("x", "y"), threads=1)
    assert on_one_thread[0] == losses
    assert all(np.array_equal(one, two) for one, two in zip(on_one_thread[1], mine, strict=True))
    if name == "normalized":
        with pytest.raises(ShapeError, match="one value a channel has no variance"):
            step(model, made, aj.tensor(inputs[:1]), aj.tensor(targets[:1]))


def test_tensors_that_are_asked_for_their_length() -> None:
    def scaled(x: Any) -> Any:
        with aj.no_grad():
            return x * (2.0 if len(x) > 50 else 1.0)

    compiled = aj.compile(scaled, batch="x")
    for size in (7, 100):
        assert np.array_equal(compiled(aj.tensor(X[:size])).numpy(), X[:size] * (2 if size > 50 else 1))
    assert "for a comparison" in compiled.explain()
    by_size = aj.compile(lambda x: x.sum() / x.size(0) + x.numel() / len(x), batch="x")
    for size in (7, 100):
        assert np.isclose(by_size(aj.tensor(X[:size])).item(), X[:size].sum() / size + 8, rtol=1e-5)
    assert by_size.cache_info().traces == 1


def test_numbers_are_known_in_operations_that_were_met_before() -> None:
    """An operation on tensors is traced once for its shapes: what it computed from the number of rows is noted in each trace for rows."""
    for _ in range(2):
        pairs = aj.compile(lambda x: x.sum() / (len(x) * (len(x) - 1)), batch="x")
        for size in (7, 100):
            assert np.isclose(pairs(aj.tensor(X[:size])).item(), X[:size].sum() / (size * (size - 1)), rtol=1e-4)
        assert pairs.cache_info().traces == 1, pairs.explain()


def test_types_that_outlive_a_trace_have_pythons_own_numbers() -> None:
    """Types are kept in tables for all traces: those with a `RowCount` would make other graphs of later ones, by what was traced before."""
    _, _, (step, *_held) = trained("classes", (7, 9), lambda parameters: aj.optim.SGD(parameters, lr=1e-2), batch=("x", "y"))
    assert step.cache_info().traces == 1
    types = [each for each in gc.get_objects() if type(each) is TensorType]
    assert types
    assert not [each for each in types if any(isinstance(length, RowCount) for length in each.shape)]
