"""Training steps with modules, compiled: the same parameters and buffers as eager steps leave, and the same random numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit import nn


class Head(nn.Module):
    """A linear layer on the last step of what a network over sequences gives."""

    def __init__(self, inner: nn.Module, size: int) -> None:
        super().__init__()
        self.inner = inner
        self.linear = nn.Linear(size, 3)

    def forward(self, x: aj.Tensor) -> aj.Tensor:
        output = self.inner(x)
        return self.linear((output[0] if isinstance(output, tuple) else output)[-1])


class Attending(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, dropout=0.1)

    def forward(self, x: aj.Tensor) -> Any:
        return self.attention(x, x, x)


ROWS, SEQUENCES, IMAGES = (8, 4), (5, 8, 4), (8, 1, 6, 6)
MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "perceptron": (lambda: nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 3)), ROWS),
    "batch norm, dropout": (lambda: nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.ReLU(), nn.Linear(8, 3)), ROWS),
    "mean over batches": (lambda: nn.Sequential(nn.BatchNorm1d(4, momentum=None), nn.ReLU(inplace=True), nn.Linear(4, 3)), ROWS),
    "lstm": (lambda: Head(nn.LSTM(4, 6, num_layers=2, dropout=0.2), 6), SEQUENCES),
    "gru": (lambda: Head(nn.GRU(4, 6, bidirectional=True), 12), SEQUENCES),
    "attention": (lambda: Head(Attending(), 4), SEQUENCES),
    "encoder": (lambda: Head(nn.TransformerEncoderLayer(4, 2, 8), 4), SEQUENCES),
    "images": (lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 3)),
               IMAGES),
}


Outcome = tuple[list[float], dict[str, np.ndarray], np.ndarray]


def train(make: Callable[[], nn.Module], shape: tuple[int, ...], backend: str | None) -> Outcome:
    """The losses of some steps, the state after them, and a random number after them."""
    def step(model: nn.Module, optimizer: Any, x: aj.Tensor, y: aj.Tensor) -> aj.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    aj.manual_seed(0)
    model = make()
    optimizer = aj.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    run = step if backend is None else aj.compile(step, backend=backend)
    random = np.random.default_rng(0)
    x, y = aj.tensor(random.standard_normal(shape).astype(np.float32)), aj.tensor(random.integers(0, 3, 8))
    losses = [run(model, optimizer, x, y).item() for _ in range(5)]
    if backend is not None:
        assert run.cache_info().traces == 1     # type: ignore[attr-defined]
    return losses, {name: tensor.numpy() for name, tensor in model.state_dict().items()}, nn.init.uniform_(aj.tensor([0.0])).numpy()


@pytest.mark.parametrize(("name", "backend"), [*((name, "interpret") for name in MODELS), ("batch norm, dropout", "auto")])
def test_compiled_steps_do_what_eager_steps_do(name: str, backend: str) -> None:
    make, shape = MODELS[name]
    eager, compiled = train(make, shape, None), train(make, shape, backend)
    np.testing.assert_allclose(compiled[0], eager[0], 1e-5)
    assert compiled[0][-1] != compiled[0][0]
    for key, expected in eager[1].items():
        np.testing.assert_allclose(compiled[1][key], expected, 1e-5, 1e-6, err_msg=key)
    np.testing.assert_array_equal(compiled[2], eager[2])


def test_evaluation_is_another_program() -> None:
    aj.manual_seed(0)
    model = nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(0.5))
    forward = aj.compile(lambda model, x: model(x), backend="interpret")
    x = aj.tensor(np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32))
    forward(model, x)
    assert model[0].num_batches_tracked.item() == 1
    model.eval()
    result = forward(model, x)
    np.testing.assert_allclose(result.detach().numpy(), model(x).detach().numpy(), 1e-6)
    assert model[0].num_batches_tracked.item() == 1
    model.train()
    forward(model, x)
    assert model[0].num_batches_tracked.item() == 2
