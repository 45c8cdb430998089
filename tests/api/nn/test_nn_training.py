"""Networks as people write them: the graph they make, their gradients by hand, and training loops that lower the loss."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit import nn
from adjit.eager.node import AccumulateGrad


class TinyNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear1 = nn.Linear(2, 3)
        self.relu = nn.ReLU()
        self.linear2 = nn.Linear(3, 1)

    def forward(self, x: aj.Tensor) -> aj.Tensor:
        return self.linear2(self.relu(self.linear1(x)))


@pytest.fixture
def net() -> TinyNet:
    aj.manual_seed(42)
    return TinyNet()


def data() -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(0).standard_normal((16, 2)).astype(np.float32)
    return x, (x[:, :1] * 2.0 - x[:, 1:] * 3.0 + 1.0).astype(np.float32)


def test_the_graph_of_tiny_net(net: TinyNet) -> None:
    output = net(aj.tensor([[1.0, 2.0]]))
    node = output.grad_fn
    assert node.name() == "AddmmBackward0"
    (bias, _), (relu, _), (turned, _) = node.next_functions
    assert isinstance(bias, AccumulateGrad)
    assert bias.variable is net.linear2.bias
    assert relu.name() == "ReluBackward0"
    assert turned.name() == "TBackward0"
    ((weight, _),) = turned.next_functions
    assert weight.variable is net.linear2.weight
    ((first, _),) = relu.next_functions
    assert first.name() == "AddmmBackward0"
    assert first.next_functions[0][0].variable is net.linear1.bias
    assert first.next_functions[1] == (None, 0)
    assert first.next_functions[2][0].next_functions[0][0].variable is net.linear1.weight
    assert "grad_fn=<AddmmBackward0>" in repr(output)


def test_gradients_are_those_of_a_calculation_by_hand(net: TinyNet) -> None:
    x, y = data()
    nn.MSELoss()(net(aj.tensor(x)), aj.tensor(y)).backward()
    w1, b1, w2, b2 = (parameter.detach().numpy().astype(np.float64) for parameter in net.parameters())
    before = x @ w1.T + b1
    hidden = np.maximum(before, 0.0)
    error = 2.0 * (hidden @ w2.T + b2 - y) / y.size
    behind = error @ w2 * (before > 0)
    for name, expected in {"linear1.weight": behind.T @ x, "linear1.bias": behind.sum(0), "linear2.weight": error.T @ hidden,
                           "linear2.bias": error.sum(0)}.items():
        np.testing.assert_allclose(net.get_parameter(name).grad.numpy(), expected, 1e-4, 1e-6)


def test_the_loss_falls_every_ten_epochs(net: TinyNet) -> None:
    x, y = map(aj.tensor, data())
    criterion = nn.MSELoss()
    optimizer = aj.optim.SGD(net.parameters(), lr=0.05)
    printed = []
    for epoch in range(100):
        optimizer.zero_grad()
        loss = criterion(net(x), y)
        loss.backward()
        optimizer.step()
        if epoch % 10 == 9:
            printed.append(loss.item())
    assert len(printed) == 10
    assert all(after < before for before, after in pairwise(printed))
    assert printed[-1] < 0.5 * printed[0]


def test_a_step_by_hand_is_the_step_of_sgd(net: TinyNet) -> None:
    x, y = map(aj.tensor, data())
    nn.functional.mse_loss(net(x), y).backward()
    expected = [parameter.detach().numpy() - np.float32(0.1) * parameter.grad.numpy() for parameter in net.parameters()]
    with aj.no_grad():
        for parameter in net.parameters():
            parameter -= 0.1 * parameter.grad
    for parameter, values in zip(net.parameters(), expected, strict=True):
        np.testing.assert_allclose(parameter.detach().numpy(), values, 1e-6, 1e-8)
        assert parameter.is_leaf
        assert parameter.requires_grad
    assert isinstance(net.linear1.weight, nn.Parameter)


def test_the_graph_of_a_perceptron() -> None:
    model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 4))
    x = aj.tensor(np.ones((1, 5), np.float32), requires_grad=True)
    node = model(x).grad_fn
    found = []
    while node is not None:
        found.append((node.name(), [tensor.shape for tensor in ([] if isinstance(node, AccumulateGrad) else node.saved_tensors)]))
        node = next((inner for inner, _ in node.next_functions[1:2] or node.next_functions[:1]), None)
    assert found == [
        ("AddmmBackward0", [(1, 8), (8, 4)]), ("ReluBackward0", [(1, 8)]), ("AddmmBackward0", [(1, 5), (5, 8)]), ("AccumulateGrad", []),
    ]
    first = model[0](x).grad_fn
    np.testing.assert_array_equal(first.saved_tensors[0].detach().numpy(), x.detach().numpy())
    np.testing.assert_array_equal(first.saved_tensors[1].detach().numpy(), model[0].weight.detach().numpy().T)


class Cell(nn.Module):
    """h' = tanh(W x + U h + b), as one writes it by hand."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.from_input = nn.Linear(inputs, hidden)
        self.from_hidden = nn.Linear(hidden, hidden, bias=False)

    def forward(self, x: aj.Tensor, h: aj.Tensor) -> aj.Tensor:
        return (self.from_input(x) + self.from_hidden(h)).tanh()


def test_a_recurrent_network_written_by_hand() -> None:
    """Gradients reach the first step through all others, and are those of backpropagation through time."""
    cell = Cell(3, 4).double()
    steps = [aj.tensor(x, requires_grad=True) for x in np.random.default_rng(0).standard_normal((6, 2, 3))]
    h: Any = aj.tensor(np.zeros((2, 4)), requires_grad=True)
    start, states = h, []
    for x in steps:
        states.append(h.detach().numpy())
        h = cell(x, h)
    h.sum().backward()
    states.append(h.detach().numpy())
    w, b, u = (parameter.detach().numpy() for parameter in cell.parameters())
    dw, db, du, dh = np.zeros_like(w), np.zeros_like(b), np.zeros_like(u), np.ones((2, 4))
    for number in reversed(range(6)):
        da = dh * (1.0 - states[number + 1] ** 2)
        dw, db, du = dw + da.T @ steps[number].detach().numpy(), db + da.sum(0), du + da.T @ states[number]
        np.testing.assert_allclose(steps[number].grad.numpy(), da @ w, 1e-12, 1e-14)
        dh = da @ u
    np.testing.assert_allclose(start.grad.numpy(), dh, 1e-12, 1e-14)
    for parameter, expected in zip(cell.parameters(), (dw, db, du), strict=True):
        np.testing.assert_allclose(parameter.grad.numpy(), expected, 1e-12, 1e-14)
    assert np.abs(steps[0].grad.numpy()).max() > 0.0


def test_a_recurrent_layer_is_the_one_written_by_hand() -> None:
    cell, layer = Cell(3, 4).double(), nn.RNN(3, 4).double()
    layer.load_state_dict({"weight_ih_l0": cell.from_input.weight, "bias_ih_l0": cell.from_input.bias,
                           "weight_hh_l0": cell.from_hidden.weight, "bias_hh_l0": np.zeros(4)})
    x = aj.tensor(np.random.default_rng(0).standard_normal((6, 2, 3)))
    h: Any = aj.tensor(np.zeros((2, 4)))
    for step in x:
        h = cell(step, h)
    output, last = layer(x)
    np.testing.assert_allclose(last.detach().numpy()[0], h.detach().numpy(), 1e-12)
    h.sum().backward()
    output[-1].sum().backward()
    np.testing.assert_allclose(layer.weight_hh_l0.grad.numpy(), cell.from_hidden.weight.grad.numpy(), 1e-12)


def test_an_lstm_learns_to_remember_the_first_element() -> None:
    aj.manual_seed(0)
    model = nn.LSTM(1, 8, batch_first=True)
    head = nn.Linear(8, 1)
    optimizer = aj.optim.Adam([*model.parameters(), *head.parameters()], lr=0.03)
    x = np.sign(np.random.default_rng(0).standard_normal((32, 5, 1))).astype(np.float32)
    inputs, labels = aj.tensor(x), aj.tensor((x[:, 0] > 0).astype(np.float32))
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        _, (hidden, _) = model(inputs)
        loss = nn.functional.binary_cross_entropy_with_logits(head(hidden[0]), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[0] > 0.6
    assert losses[-1] < 0.05


def test_a_convolutional_network_with_batch_norm_and_dropout_learns() -> None:
    aj.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.1),
                          nn.Linear(16, 2))
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, 32)
    images = random.standard_normal((32, 1, 4, 4)).astype(np.float32)
    images[labels == 1, :, :2] += 2.0
    optimizer = aj.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(30):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(aj.tensor(images)), aj.tensor(labels))
        loss.backward()
        optimizer.step()
    model.eval()
    found = model(aj.tensor(images)).detach().numpy().argmax(1)
    assert np.mean(found == labels) > 0.95
    assert model[1].num_batches_tracked.item() == 30
