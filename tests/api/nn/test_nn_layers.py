"""Layers against their formulas in plain NumPy, and their gradients against finite differences, all in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit import nn
from adjit.errors import ShapeError

Array = np.ndarray


@pytest.fixture(autouse=True)
def _seed() -> None:
    aj.manual_seed(3)


def array(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape)


def weights(module: nn.Module) -> dict[str, Array]:
    return {name: parameter.detach().numpy() for name, parameter in module.named_parameters()}


def sigmoid(x: Array) -> Array:
    return 1.0 / (1.0 + np.exp(-x))


def softmax(x: Array, axis: int = -1) -> Array:
    shifted = np.exp(x - x.max(axis, keepdims=True))
    return shifted / shifted.sum(axis, keepdims=True)


def close(tensor: aj.Tensor, expected: Any, tolerance: float = 1e-12) -> None:
    assert tensor.dtype == np.float64
    assert tensor.shape == np.shape(expected)
    np.testing.assert_allclose(tensor.detach().numpy(), expected, tolerance, tolerance)


def check_gradients(module: nn.Module, *inputs: Array, step: float = 1e-6) -> None:
    """The gradients of inputs and parameters, in a random direction each, against central differences of the forward."""
    tensors = [aj.tensor(x, requires_grad=True) for x in inputs]
    leaves = [*tensors, *module.parameters()]
    assert leaves
    output = module(*tensors)
    projection = array(*output.shape, seed=50)
    (output * projection).sum().backward()

    def value() -> float:
        with aj.no_grad():
            return float(np.sum(module(*tensors).numpy() * projection))

    for number, leaf in enumerate(leaves):
        direction = array(*leaf.shape, seed=60 + number)
        memory = leaf.detach().numpy()
        kept = memory.copy()
        memory[...] = kept + step * direction
        above = value()
        memory[...] = kept - step * direction
        below = value()
        memory[...] = kept
        expected = (above - below) / (2.0 * step)
        found = float(np.sum(leaf.grad.numpy() * direction))
        assert math.isclose(found, expected, rel_tol=1e-6, abs_tol=1e-7), (number, found, expected)


GRADIENT_CASES: dict[str, tuple[Callable[[], nn.Module], list[tuple[int, ...]]]] = {
    "linear": (lambda: nn.Linear(4, 3), [(2, 4)]),
    "linear of a stack": (lambda: nn.Linear(4, 3), [(2, 3, 4)]),
    "linear of a vector": (lambda: nn.Linear(4, 3), [(4,)]),
    "bilinear": (lambda: nn.Bilinear(2, 3, 4), [(5, 2), (5, 3)]),
    "conv1d": (lambda: nn.Conv1d(2, 4, 3, stride=2, padding=1, groups=2), [(2, 2, 7)]),
    "conv2d": (lambda: nn.Conv2d(2, 3, (3, 2), padding=(1, 0), dilation=(1, 2)), [(2, 2, 5, 6)]),
    "conv2d reflected": (lambda: nn.Conv2d(1, 2, 3, padding=1, padding_mode="reflect"), [(1, 1, 4, 5)]),
    "average": (lambda: nn.AvgPool2d(2, padding=1), [(1, 2, 4, 5)]),
    "maximum": (lambda: nn.MaxPool2d(2), [(1, 2, 4, 6)]),
    "adaptive": (lambda: nn.AdaptiveAvgPool2d((2, 3)), [(1, 2, 5, 7)]),
    "layer norm": (lambda: nn.LayerNorm((3, 4)), [(2, 3, 4)]),
    "group norm": (lambda: nn.GroupNorm(2, 4), [(2, 4, 3)]),
    "batch norm": (lambda: nn.BatchNorm1d(3, track_running_stats=False), [(5, 3)]),
    "batch norm of images": (lambda: nn.BatchNorm2d(2, track_running_stats=False), [(2, 2, 3, 3)]),
    "rnn": (lambda: _Output(nn.RNN(3, 4, num_layers=2, bidirectional=True)), [(4, 2, 3)]),
    "lstm": (lambda: _Output(nn.LSTM(3, 4, num_layers=2, bidirectional=True)), [(4, 2, 3)]),
    "gru": (lambda: _Output(nn.GRU(3, 4, batch_first=True)), [(2, 4, 3)]),
    "attention": (lambda: _Output(nn.MultiheadAttention(4, 2)), [(3, 2, 4), (5, 2, 4), (5, 2, 4)]),
    "encoder": (lambda: nn.TransformerEncoderLayer(4, 2, 6, dropout=0.0, activation="gelu"), [(3, 2, 4)]),
    "several": (lambda: nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Linear(4, 4), nn.Softplus(), nn.Linear(4, 2), nn.LogSoftmax(-1)),
                [(2, 3)]),
}


class _Output(nn.Module):
    """The first result of a module."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, *args: Any) -> Any:
        return self.inner(*args)[0]


@pytest.mark.parametrize("name", GRADIENT_CASES)
def test_gradients(name: str) -> None:
    make, shapes = GRADIENT_CASES[name]
    check_gradients(make().double(), *(array(*shape, seed=number) for number, shape in enumerate(shapes)))


def test_linear() -> None:
    layer = nn.Linear(4, 3).double()
    for shape in ((4,), (2, 4), (2, 5, 4)):
        x = array(*shape)
        close(layer(aj.tensor(x)), x @ weights(layer)["weight"].T + weights(layer)["bias"])
    plain = nn.Linear(4, 3, bias=False).double()
    assert plain.bias is None
    close(plain(aj.tensor(array(2, 4))), array(2, 4) @ weights(plain)["weight"].T)
    with pytest.raises(ShapeError, match=r"x of shape \(2, 3\) does not fit to a weight of shape \(3, 4\)"):
        layer(aj.tensor(array(2, 3)))


def test_linear_refuses_integers() -> None:
    with pytest.raises(TypeError, match="linear takes floating-point arrays, got int64"):
        nn.Linear(2, 1)(aj.tensor([[1, 2]]))


def test_bilinear() -> None:
    layer = nn.Bilinear(2, 3, 4).double()
    first, second = array(5, 2), array(5, 3, seed=1)
    expected = np.stack([np.sum((first @ matrix) * second, axis=1) for matrix in weights(layer)["weight"]], axis=1) + weights(layer)["bias"]
    close(layer(aj.tensor(first), aj.tensor(second)), expected)
    with pytest.raises(ShapeError, match="bilinear: inputs of shape"):
        layer(aj.tensor(first), aj.tensor(second[1:]))


def convolved(x: Array, weight: Array, bias: Array, stride: int, padding: int, dilation: int, groups: int) -> Array:
    """The definition, one output at a time."""
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    outs, ins, height, width = weight.shape
    rows = (x.shape[2] - dilation * (height - 1) - 1) // stride + 1
    columns = (x.shape[3] - dilation * (width - 1) - 1) // stride + 1
    result = np.zeros((len(x), outs, rows, columns))
    for image, out, row, column in np.ndindex(*result.shape):
        first = out // (outs // groups) * ins
        window = x[image, first:first + ins, row * stride:, column * stride:][:, :dilation * (height - 1) + 1:dilation,
                                                                              :dilation * (width - 1) + 1:dilation]
        result[image, out, row, column] = np.sum(window * weight[out]) + bias[out]
    return result


@pytest.mark.parametrize("options", [
    {"stride": 1, "padding": 0, "dilation": 1, "groups": 1}, {"stride": 2, "padding": 1, "dilation": 1, "groups": 2},
    {"stride": 1, "padding": 2, "dilation": 2, "groups": 4},
], ids=str)
def test_conv2d(options: dict[str, int]) -> None:
    layer = nn.Conv2d(4, 8, 3, **options).double()
    x = array(2, 4, 7, 6)
    close(layer(aj.tensor(x)), convolved(x, weights(layer)["weight"], weights(layer)["bias"], **options))


def test_convolutions_check_their_arguments() -> None:
    for options, message in (({"groups": 3}, "do not divide into 3 groups"), ({"padding_mode": "mirror"}, "padding_mode is"),
                             ({"padding": "full"}, "padding is a number"), ({"stride": 0}, "stride is an integer")):
        with pytest.raises(ValueError, match=message):
            nn.Conv2d(4, 4, 3, **options)       # type: ignore[arg-type]


def test_layer_norm() -> None:
    layer = nn.LayerNorm((3, 4), eps=0.1).double()
    with aj.no_grad():
        layer.weight.copy_(array(3, 4, seed=1))
        layer.bias.copy_(array(3, 4, seed=2))
    x = array(2, 3, 4)
    mean, variance = x.mean((1, 2), keepdims=True), x.var((1, 2), keepdims=True)
    close(layer(aj.tensor(x)), (x - mean) / np.sqrt(variance + 0.1) * array(3, 4, seed=1) + array(3, 4, seed=2))
    assert nn.LayerNorm(3, elementwise_affine=False).weight is None
    assert nn.LayerNorm(3, bias=False).bias is None


def test_group_norm() -> None:
    layer = nn.GroupNorm(2, 4).double()
    x = array(3, 4, 5)
    grouped = x.reshape(3, 2, 10)
    expected = ((grouped - grouped.mean(2, keepdims=True)) / np.sqrt(grouped.var(2, keepdims=True) + 1e-5)).reshape(x.shape)
    close(layer(aj.tensor(x)), expected)
    with pytest.raises(ValueError, match="4 channels do not divide into 3 groups"):
        nn.GroupNorm(3, 4)


@pytest.mark.parametrize("momentum", [0.1, None])
def test_batch_norm(momentum: float | None) -> None:
    layer = nn.BatchNorm1d(3, momentum=momentum).double()
    mean, variance = np.zeros(3), np.ones(3)
    memory = layer.running_mean.numpy()
    for step in range(1, 4):
        x = array(5, 3, seed=step) * step + step
        close(layer(aj.tensor(x)), (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5))
        part = 1.0 / step if momentum is None else momentum
        mean, variance = (1 - part) * mean + part * x.mean(0), (1 - part) * variance + part * x.var(0, ddof=1)
        close(layer.running_mean, mean)
        close(layer.running_var, variance)
        assert layer.num_batches_tracked.item() == step
    np.testing.assert_array_equal(memory, layer.running_mean.numpy())       # written in place
    assert not layer.running_mean.requires_grad
    layer.eval()
    x = array(2, 3)
    close(layer(aj.tensor(x)), (x - mean) / np.sqrt(variance + 1e-5))
    close(layer.running_mean, mean)
    layer.reset_running_stats()
    close(layer.running_var, np.ones(3))
    assert layer.num_batches_tracked.item() == 0


def test_batch_norm_checks_shapes() -> None:
    with pytest.raises(ShapeError, match=r"BatchNorm2d takes 4 dimensions, the second of them 3 channels, got the shape \(2, 3\)"):
        nn.BatchNorm2d(3)(aj.tensor(array(2, 3)))
    with pytest.raises(ShapeError, match="one value a channel"):
        nn.BatchNorm1d(3).double()(aj.tensor(array(1, 3)))
    layer = nn.BatchNorm1d(3)
    with pytest.raises(ShapeError):
        layer(aj.tensor(array(2, 4)))
    assert layer.num_batches_tracked.item() == 0


def test_embedding() -> None:
    layer = nn.Embedding(5, 3, padding_idx=1)
    indices = np.array([[0, 1], [4, 0]])
    result = layer(aj.tensor(indices))
    np.testing.assert_array_equal(result.detach().numpy(), weights(layer)["weight"][indices])
    result.sum().backward()
    np.testing.assert_array_equal(layer.weight.grad.numpy(), np.outer([2, 0, 0, 0, 1], np.ones(3)))
    matrix = array(4, 2)
    frozen = nn.Embedding.from_pretrained(matrix)
    assert not frozen.weight.requires_grad
    assert nn.Embedding.from_pretrained(matrix, freeze=False).weight.requires_grad
    close(frozen(aj.tensor([3, 1])), matrix[[3, 1]])
    with pytest.raises(ValueError, match="padding_idx 5 is no row of 5"):
        nn.Embedding(5, 3, padding_idx=5)


def test_dropout() -> None:
    layer = nn.Dropout(0.25).double()
    x = aj.tensor(np.ones(20000), requires_grad=True)
    result = layer(x)
    kept = result.detach().numpy() != 0.0
    np.testing.assert_array_equal(result.detach().numpy()[kept], 1.0 / 0.75)
    assert abs(kept.mean() - 0.75) < 4.0 * math.sqrt(0.25 * 0.75 / kept.size)
    result.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), result.detach().numpy())
    assert not np.array_equal(layer(x).detach().numpy(), result.detach().numpy())
    aj.manual_seed(3)
    np.testing.assert_array_equal(layer(x).detach().numpy(), result.detach().numpy())
    np.testing.assert_array_equal(layer.eval()(x).detach().numpy(), np.ones(20000))
    with pytest.raises(ValueError, match="p lies in"):
        nn.Dropout(1.5)


def test_activations() -> None:
    x = array(4, 3) * 3.0
    erf = np.vectorize(math.erf)
    for layer, expected in [
        (nn.ReLU(), np.maximum(x, 0)), (nn.LeakyReLU(0.2), np.where(x > 0, x, 0.2 * x)),
        (nn.ELU(0.5), np.where(x > 0, x, 0.5 * np.expm1(x))),
        (nn.GELU(), 0.5 * x * (1 + erf(x / math.sqrt(2)))),
        (nn.GELU("tanh"), 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))),
        (nn.SiLU(), x * sigmoid(x)), (nn.Tanh(), np.tanh(x)), (nn.Sigmoid(), sigmoid(x)), (nn.Softplus(2.0), np.log1p(np.exp(2 * x)) / 2),
        (nn.Softmax(dim=0), softmax(x, 0)), (nn.LogSoftmax(dim=1), np.log(softmax(x, 1))), (nn.Identity(3, some="thing"), x),
        (nn.Flatten(0), x.reshape(-1)),
    ]:
        close(layer(aj.tensor(x)), expected)


def test_relu_in_place() -> None:
    x = aj.tensor([-1.0, 2.0], requires_grad=True)
    y = x * 1.0
    z = nn.ReLU(inplace=True)(y)
    assert z is y
    z.sum().backward()
    np.testing.assert_array_equal(y.detach().numpy(), [0.0, 2.0])
    np.testing.assert_array_equal(x.grad.numpy(), [0.0, 1.0])


def test_losses() -> None:
    x, t = array(4, 3), array(4, 3, seed=1)
    d = np.abs(x - t)
    p, q = sigmoid(x), sigmoid(t)
    labels = np.array([0, 2, 1, -100])
    weight = np.array([0.5, 1.0, 2.0])
    chosen, scale = -np.log(softmax(x))[np.arange(3), labels[:3]], weight[labels[:3]]
    both = -(q * np.log(p) + (1 - q) * np.log(1 - p))
    prediction, target = aj.tensor(x), aj.tensor(t)
    for loss, expected in [
        (nn.MSELoss()(prediction, target), np.mean(d ** 2)), (nn.L1Loss(reduction="sum")(prediction, target), np.sum(d)),
        (nn.SmoothL1Loss(reduction="none", beta=0.5)(prediction, target), np.where(d < 0.5, d * d, d - 0.25)),
        (nn.HuberLoss("none", 0.5)(prediction, target), np.where(d < 0.5, 0.5 * d * d, 0.5 * (d - 0.25))),
        (nn.CrossEntropyLoss(weight)(prediction, aj.tensor(labels)), np.sum(scale * chosen) / scale.sum()),
        (nn.CrossEntropyLoss(reduction="sum")(prediction, aj.tensor(labels)), np.sum(chosen)),
        (nn.NLLLoss()(aj.tensor(np.log(softmax(x))), aj.tensor(labels)), np.mean(chosen)),
        (nn.BCELoss()(aj.tensor(p), aj.tensor(q)), np.mean(both)), (nn.BCEWithLogitsLoss()(prediction, aj.tensor(q)), np.mean(both)),
        (nn.KLDivLoss(reduction="batchmean")(aj.tensor(np.log(p)), aj.tensor(q)), np.sum(q * np.log(q / p)) / 4),
    ]:
        close(loss, expected)
    assert list(nn.CrossEntropyLoss(weight).state_dict()) == ["weight"]
    with pytest.raises(ValueError, match="MSELoss: reduction is one of 'mean', 'sum', 'none', got 'max'"):
        nn.MSELoss(reduction="max")


# -- recurrent networks


def lstm(x: Array, w: dict[str, Array], suffix: str) -> tuple[Array, Array, Array]:
    """The outputs over time, the last hidden state and cell, of one direction."""
    size = w[f"weight_hh{suffix}"].shape[1]
    h, c, outputs = np.zeros((x.shape[1], size)), np.zeros((x.shape[1], size)), []
    for step in x:
        gates = step @ w[f"weight_ih{suffix}"].T + w[f"bias_ih{suffix}"] + h @ w[f"weight_hh{suffix}"].T + w[f"bias_hh{suffix}"]
        i, f, g, o = np.split(gates, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        outputs.append(h)
    return np.stack(outputs), h, c


def test_lstm_of_two_layers_in_both_directions() -> None:
    network = nn.LSTM(3, 4, num_layers=2, bidirectional=True).double()
    sequence, hidden, cells = array(5, 2, 3), [], []
    given = aj.tensor(sequence)
    for layer in range(2):
        forward, h1, c1 = lstm(sequence, weights(network), f"_l{layer}")
        backward, h2, c2 = lstm(sequence[::-1], weights(network), f"_l{layer}_reverse")
        hidden += [h1, h2]
        cells += [c1, c2]
        sequence = np.concatenate([forward, backward[::-1]], axis=2)
    output, (last_hidden, last_cell) = network(given)
    close(output, sequence)
    close(last_hidden, np.stack(hidden))
    close(last_cell, np.stack(cells))


def test_cells_are_the_steps_of_networks() -> None:
    x, h, c = array(2, 3), array(2, 4, seed=1), array(2, 4, seed=2)
    rnn, gru, cell = nn.RNNCell(3, 4).double(), nn.GRUCell(3, 4).double(), nn.LSTMCell(3, 4).double()
    w = weights(rnn)
    close(rnn(aj.tensor(x), aj.tensor(h)), np.tanh(x @ w["weight_ih"].T + w["bias_ih"] + h @ w["weight_hh"].T + w["bias_hh"]))
    w = weights(gru)
    (r1, z1, n1), (r2, z2, n2) = (np.split(part, 3, axis=1) for part in (
        x @ w["weight_ih"].T + w["bias_ih"], h @ w["weight_hh"].T + w["bias_hh"]))
    r, z = sigmoid(r1 + r2), sigmoid(z1 + z2)
    close(gru(aj.tensor(x), aj.tensor(h)), (1 - z) * np.tanh(n1 + r * n2) + z * h)
    network = nn.LSTM(3, 4).double()
    network.load_state_dict({f"{name}_l0": array for name, array in weights(cell).items()})
    hidden, content = cell(aj.tensor(x), (aj.tensor(h), aj.tensor(c)))
    output, (last, last_content) = network(aj.tensor(x[None]), (aj.tensor(h[None]), aj.tensor(c[None])))
    close(output, hidden.detach().numpy()[None])
    close(last_content, content.detach().numpy()[None])
    close(last, hidden.detach().numpy()[None])


def test_dropout_between_layers_in_training_only() -> None:
    network = nn.GRU(3, 4, num_layers=2, dropout=0.5).double()
    x = aj.tensor(array(5, 2, 3))
    first, second = network(x)[0].detach().numpy(), network(x)[0].detach().numpy()
    assert not np.array_equal(first, second)
    network.eval()
    np.testing.assert_array_equal(network(x)[0].detach().numpy(), network(x)[0].detach().numpy())


def test_recurrent_networks_check_shapes() -> None:
    network = nn.LSTM(3, 4).double()
    with pytest.raises(ShapeError, match=r"LSTM takes \(T, N, 3\)"):
        network(aj.tensor(array(5, 2, 4)))
    with pytest.raises(ShapeError, match=r"first states have the shape \(1, 2, 4\), got \(2, 2, 4\)"):
        network(aj.tensor(array(5, 2, 3)), (aj.tensor(array(2, 2, 4)), aj.tensor(array(1, 2, 4))))
    with pytest.raises(ShapeError, match="at least one step"):
        network(aj.tensor(array(0, 2, 3)))
    with pytest.raises(ValueError, match="nonlinearity is 'tanh' or 'relu'"):
        nn.RNN(3, 4, nonlinearity="sigmoid")        # type: ignore[arg-type]


# -- attention


def test_multihead_attention() -> None:
    layer = nn.MultiheadAttention(4, 2).double()
    w = weights(layer)
    query, key, value = array(3, 2, 4), array(5, 2, 4, seed=1), array(5, 2, 4, seed=2)
    padding = np.array([[False] * 5, [False, False, True, True, True]])
    q, k, v = ((x @ matrix.T).reshape(len(x), 2, 2, 2).transpose(1, 2, 0, 3) for x, matrix in zip(
        (query, key, value), np.split(w["in_proj_weight"], 3), strict=True))
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(2.0) + np.where(padding, -np.inf, 0.0)[:, None, None, :]
    mixed = softmax(scores) @ v
    expected = mixed.transpose(2, 0, 1, 3).reshape(3, 2, 4) @ w["out_proj.weight"].T
    given = [aj.tensor(x) for x in (query, key, value)]
    output, found = layer(*given, key_padding_mask=aj.tensor(padding))
    close(output, expected)
    close(found, softmax(scores).mean(1))
    assert layer(*given, need_weights=False)[1] is None
    close(layer(*given, key_padding_mask=padding, need_weights=False)[0], expected)


def test_multihead_attention_checks_its_arguments() -> None:
    with pytest.raises(ValueError, match="embed_dim 4 does not divide into 3 heads"):
        nn.MultiheadAttention(4, 3)
    layer = nn.MultiheadAttention(4, 2).double()
    x = aj.tensor(array(3, 2, 4))
    with pytest.raises(ShapeError, match=r"attn_mask has the shape \(3, 3\) or \(4, 3, 3\), got \(2, 2\)"):
        layer(x, x, x, attn_mask=np.zeros((2, 2)))
    with pytest.raises(ShapeError, match=r"key_padding_mask has the shape \(2, 3\), got \(3, 2\)"):
        layer(x, x, x, key_padding_mask=np.zeros((3, 2), bool))
    with pytest.raises(TypeError, match="attn_mask is bool"):
        layer(x, x, x, attn_mask=np.zeros((3, 3), np.int64))


def test_a_causal_layer_does_not_look_ahead() -> None:
    layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True).double()
    x = array(1, 5, 4)
    changed = x.copy()
    changed[0, 3:] += 1.0
    before, after = (layer(aj.tensor(y), is_causal=True).detach().numpy() for y in (x, changed))
    np.testing.assert_allclose(before[0, :3], after[0, :3], 1e-12)
    assert not np.allclose(before[0, 3:], after[0, 3:])
    encoder = nn.TransformerEncoder(layer, 2)
    assert encoder.layers[0].linear1.weight is not encoder.layers[1].linear1.weight
    assert len(list(encoder.parameters())) == 2 * len(list(layer.parameters()))


def test_a_network_takes_plain_arrays() -> None:
    network = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    x = np.ones((3, 2, 2), np.float32)
    expected = network(aj.tensor(x)).detach().numpy()
    np.testing.assert_array_equal(network(x).detach().numpy(), expected)
    np.testing.assert_allclose(aj.compile(lambda x: network(x))(x).detach().numpy(), expected, rtol=1e-6)


# -- more layers, activations and losses, as of PyTorch

LINE = np.linspace(-4, 4, 24).reshape(2, 12).astype(np.float32)


@pytest.mark.parametrize(("module", "formula"), [
    (nn.Mish(), lambda x: x * np.tanh(np.log1p(np.exp(x)))),
    (nn.Hardswish(), lambda x: x * np.clip(x + 3, 0, 6) / 6),
    (nn.Hardsigmoid(), lambda x: np.clip(x + 3, 0, 6) / 6),
    (nn.Hardtanh(-2, 0.5), lambda x: np.clip(x, -2, 0.5)),
    (nn.ReLU6(), lambda x: np.clip(x, 0, 6)),
    (nn.LogSigmoid(), lambda x: np.log(sigmoid(x))),
    (nn.Softsign(), lambda x: x / (1 + abs(x))),
    (nn.GLU(), lambda x: x[:, :6] * sigmoid(x[:, 6:])),
    (nn.PReLU(init=0.5), lambda x: np.where(x > 0, x, x / 2)),
    (nn.RMSNorm(12, eps=0.0), lambda x: x / np.sqrt(np.mean(x * x, 1, keepdims=True))),
])
def test_values(module: Any, formula: Any) -> None:
    result = module(aj.tensor(LINE))
    assert result.dtype == np.float32
    np.testing.assert_allclose(result.detach().numpy(), formula(LINE.astype(np.float64)), rtol=2e-6, atol=1e-6)


def test_prelu_has_a_slope_for_each_channel() -> None:
    module = nn.PReLU(3)
    module.load_state_dict({"weight": np.array([0.0, 1.0, 2.0])})
    np.testing.assert_array_equal(module(aj.tensor(-np.ones((1, 3, 2), np.float32))).detach().numpy(), [[[0, 0], [-1, -1], [-2, -2]]])
    with pytest.raises(ShapeError, match="prelu: weight has one number, or 4"):
        module(aj.zeros(1, 4))
    with pytest.raises(ShapeError, match="does not divide into halves"):
        nn.GLU()(aj.zeros(3))
    with pytest.raises(ShapeError, match="normalized_shape"):
        nn.RMSNorm(3)(aj.zeros(4))


def test_dropout2d_drops_channels() -> None:
    module = nn.Dropout2d(0.5)
    x = aj.ones(20, 10, 2, 3)
    dropped = module(x).numpy()
    assert set(dropped.ravel()) == {0.0, 2.0}
    assert np.all(dropped == dropped[:, :, :1, :1])
    assert module.eval()(x) is x
    with pytest.raises(ShapeError, match="dropout2d takes"):
        module(aj.zeros(2, 3))


def check_against_torch(ours: Any, theirs: Any, *inputs: np.ndarray) -> None:
    """Values, and gradients with respect to inputs and parameters, of the sum of squares."""
    torch = pytest.importorskip("torch")
    if isinstance(ours, nn.Module) and list(ours.parameters()):
        ours.load_state_dict(theirs.state_dict())
    mine = [aj.tensor(x, requires_grad=True) for x in inputs]
    other = [torch.tensor(x, requires_grad=True) for x in inputs]
    result, expected = ours(*mine), theirs(*other)
    np.testing.assert_allclose(result.detach().numpy(), expected.detach().numpy(), rtol=1e-5, atol=2e-6)
    (result * result).sum().backward()
    (expected * expected).sum().backward()
    for x, y in zip(mine, other, strict=True):
        np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-4, atol=1e-5)
    if isinstance(ours, nn.Module):
        for (name, parameter), tensor in zip(ours.named_parameters(), theirs.parameters(), strict=True):
            np.testing.assert_allclose(parameter.grad.numpy(), tensor.grad.numpy(), rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("make", [
    lambda lib: lib.Mish(), lambda lib: lib.Hardswish(), lambda lib: lib.Hardsigmoid(), lambda lib: lib.Hardtanh(), lambda lib: lib.ReLU6(),
    lambda lib: lib.SELU(), lambda lib: lib.LogSigmoid(), lambda lib: lib.Softsign(), lambda lib: lib.GLU(1), lambda lib: lib.PReLU(),
    lambda lib: lib.PReLU(12), lambda lib: lib.RMSNorm(12), lambda lib: lib.RMSNorm((2, 12), eps=0.1, elementwise_affine=False)])
def test_as_torch(make: Any) -> None:
    torch = pytest.importorskip("torch")
    x = LINE + 0.01        # apart from the kinks
    check_against_torch(make(nn), make(torch.nn), x)
    assert repr(make(nn)) == repr(make(torch.nn))


IMAGES = np.random.default_rng(0).standard_normal((2, 4, 6, 5)).astype(np.float32)
ROWS = np.random.default_rng(1).standard_normal((2, 4, 9)).astype(np.float32)


def test_a_transposed_convolution_is_the_adjoint_of_the_convolution() -> None:
    weight, result = IMAGES[:, :, :3, :2], np.random.default_rng(2).standard_normal((1, 2, 4, 4)).astype(np.float32)
    for stride, padding, dilation in ((1, 0, 1), (2, 1, 1), (1, 1, 2), (3, 2, 1)):
        x = aj.randn(1, 4, 9, 8, requires_grad=True)
        out = nn.functional.conv2d(x, weight, None, stride, padding, dilation)
        given = aj.randn(*out.shape)
        (out * given).sum().backward()
        extra = [size - ((n - 1) * stride - 2 * padding + dilation * (k - 1) + 1)
                 for size, n, k in zip((9, 8), out.shape[2:], (3, 2), strict=True)]
        up = nn.functional.conv_transpose2d(given, weight, None, stride, padding, extra, 1, dilation)
        np.testing.assert_allclose(up.numpy(), x.grad.numpy(), rtol=1e-4, atol=1e-5)
    with pytest.raises(ShapeError, match=r"conv_transpose2d: an input of the shape \(1, 2, 4, 4\)"):
        nn.functional.conv_transpose2d(result, IMAGES.transpose(1, 0, 2, 3))


def test_shapes_and_values() -> None:
    row = aj.tensor([[[1.0, 3.0, 2.0, 5.0]]])
    np.testing.assert_array_equal(nn.MaxPool1d(2)(row).numpy(), [[[3.0, 5.0]]])
    np.testing.assert_array_equal(nn.AvgPool1d(2, 1)(row).numpy(), [[[2.0, 2.5, 3.5]]])
    np.testing.assert_array_equal(nn.Upsample(scale_factor=2)(row[:, :, :2]).numpy(), [[[1.0, 1.0, 3.0, 3.0]]])
    np.testing.assert_array_equal(nn.Upsample(size=2)(row).numpy(), [[[1.0, 2.0]]])
    np.testing.assert_array_equal(nn.ZeroPad2d((1, 0, 0, 1))(aj.ones(1, 1, 1)).numpy(), [[[0, 1], [0, 0]]])
    assert nn.Unflatten(1, (2, 3))(aj.zeros(4, 6)).shape == (4, 2, 3)
    with pytest.raises(ShapeError, match="max_pool1d takes"):
        nn.MaxPool1d(2)(aj.zeros(4))
    with pytest.raises(ValueError, match=r"mode of an input of the shape .* is one of 'nearest', .*, got 'bicubic'"):
        nn.functional.interpolate(row, scale_factor=2, mode="bicubic")      # type: ignore[arg-type]
    with pytest.raises(ValueError, match="takes size or scale_factor"):
        nn.functional.interpolate(row)


def test_distances() -> None:
    first, second = aj.tensor([[3.0, 4.0], [0.0, 0.0]]), aj.tensor([[4.0, 3.0], [1.0, 0.0]])
    np.testing.assert_allclose(nn.CosineSimilarity()(first, second).numpy(), [0.96, 0.0], rtol=1e-6)
    np.testing.assert_allclose(nn.PairwiseDistance(eps=0.0)(first, second).numpy(), [2 ** 0.5, 1.0], rtol=1e-6)
    np.testing.assert_allclose(nn.TripletMarginLoss(margin=2.0)(first, first, second).item(), (2 - 2 ** 0.5 + 1) / 2, rtol=1e-5)
    np.testing.assert_allclose(nn.MarginRankingLoss(0.5)(first[0], second[0], aj.tensor([1.0, 1.0])).item(), 0.75)
    np.testing.assert_allclose(nn.GaussianNLLLoss(full=True)(aj.tensor([1.0]), aj.tensor([2.0]), aj.tensor([4.0])).item(),
                               (np.log(4) + 0.25 + np.log(2 * np.pi)) / 2, rtol=1e-6)


def test_parameter_dict() -> None:
    held = nn.ParameterDict({"a": aj.ones(2), "b": nn.Parameter(aj.zeros(3))})
    assert [name for name, _ in held.named_parameters()] == ["a", "b"] == list(held)
    assert held["a"].requires_grad
    del held["a"]
    assert "a" not in held
    assert len(held) == 1
    with pytest.raises(KeyError):
        held["a"]
    assert repr(held) == "ParameterDict(\n  (b): Parameter containing: [float32 of size 3]\n)"


@pytest.mark.parametrize(("make", "x"), [
    (lambda lib: lib.ConvTranspose2d(4, 6, 3), IMAGES), (lambda lib: lib.ConvTranspose2d(4, 6, (3, 2), 2, 1, 1, groups=2), IMAGES),
    (lambda lib: lib.ConvTranspose2d(4, 2, 2, (1, 3), (2, 1), dilation=2, bias=False), IMAGES),
    (lambda lib: lib.ConvTranspose1d(4, 3, 4, 2, 3), ROWS),
    (lambda lib: lib.MaxPool1d(3, 2, 1), ROWS), (lambda lib: lib.AvgPool1d(3, 2, 1), ROWS), (lambda lib: lib.AvgPool1d(2, padding=1), ROWS),
    (lambda lib: lib.Upsample(scale_factor=2), IMAGES), (lambda lib: lib.Upsample(size=(9, 7)), IMAGES),
    (lambda lib: lib.Upsample(scale_factor=(1.5, 3)), IMAGES), (lambda lib: lib.ZeroPad2d((1, 2, -1, 1)), IMAGES),
    (lambda lib: lib.Unflatten(1, (2, 2)), IMAGES)])
def test_resizing_as_torch(make: Any, x: np.ndarray) -> None:
    torch = pytest.importorskip("torch")
    check_against_torch(make(nn), make(torch.nn), x)
    if "Upsample(size" not in repr(make(nn)):
        assert repr(make(nn)) == repr(make(torch.nn))


@pytest.mark.parametrize(("make", "count"), [
    (lambda lib: lib.CosineSimilarity(dim=2), 2), (lambda lib: lib.PairwiseDistance(), 2),
    (lambda lib: lib.PairwiseDistance(3.0, keepdim=True), 2),
    (lambda lib: lib.TripletMarginLoss(), 3), (lambda lib: lib.TripletMarginLoss(0.5, swap=True, reduction="sum"), 3),
    (lambda lib: lib.MarginRankingLoss(0.1), 3)])
def test_distances_as_torch(make: Any, count: int) -> None:
    torch = pytest.importorskip("torch")
    inputs = [np.random.default_rng(i).standard_normal((3, 4, 5)).astype(np.float32) for i in range(count)]
    check_against_torch(make(nn), make(torch.nn), *inputs)


def test_gaussian_loss_as_torch() -> None:
    torch = pytest.importorskip("torch")
    variances = np.array([1e-9, 0.5, 2.0, 1e-3], np.float32)
    means, targets = np.arange(4, dtype=np.float32), np.arange(4, dtype=np.float32) + np.array([1e-4, 1, -1, 0.1], np.float32)
    check_against_torch(nn.GaussianNLLLoss(full=True, reduction="none"), torch.nn.GaussianNLLLoss(full=True, reduction="none"),
                        means, targets, variances)
