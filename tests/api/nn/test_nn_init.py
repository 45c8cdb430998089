"""Initial values: bounds, means and deviations, and that they come from the default generator."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit import nn
from adjit.errors import ShapeError
from adjit.nn import init
from adjit.tracer.scope import entered, evaluating


@pytest.fixture(autouse=True)
def _seed() -> None:
    aj.manual_seed(7)


def zeros(*shape: int, dtype: Any = np.float32) -> aj.Tensor:
    return aj.tensor(np.zeros(shape, dtype))


def assert_uniform(array: np.ndarray, bound: float) -> None:
    """Within the bounds, close to them, and of a uniform distribution's mean and variance."""
    assert np.abs(array).max() <= bound
    assert array.max() > 0.9 * bound
    assert array.min() < -0.9 * bound
    error = bound / math.sqrt(array.size)
    assert abs(array.mean()) < 4.0 * error
    assert abs(array.std() / (bound / math.sqrt(3.0)) - 1.0) < 4.0 / math.sqrt(array.size)


def assert_normal(array: np.ndarray, mean: float, std: float) -> None:
    assert abs(array.mean() - mean) < 4.0 * std / math.sqrt(array.size)
    assert abs(array.std() / std - 1.0) < 4.0 / math.sqrt(array.size)
    inside = np.mean(np.abs(array - mean) < std)
    assert abs(inside - 0.6827) < 4.0 * 0.5 / math.sqrt(array.size)


@pytest.mark.parametrize(("fill", "bound"), [
    (lambda x: init.uniform_(x, -3.0, 3.0), 3.0),
    (lambda x: init.xavier_uniform_(x), math.sqrt(6.0 / 300.0)),
    (lambda x: init.xavier_uniform_(x, gain=2.0), 2.0 * math.sqrt(6.0 / 300.0)),
    (lambda x: init.kaiming_uniform_(x), math.sqrt(2.0) * math.sqrt(3.0 / 200.0)),
    (lambda x: init.kaiming_uniform_(x, a=math.sqrt(5.0)), 1.0 / math.sqrt(200.0)),
    (lambda x: init.kaiming_uniform_(x, mode="fan_out", nonlinearity="relu"), math.sqrt(2.0) * math.sqrt(3.0 / 100.0)),
    (lambda x: init.kaiming_uniform_(x, nonlinearity="tanh"), 5.0 / 3.0 * math.sqrt(3.0 / 200.0)),
])
def test_uniform(fill: Callable[[aj.Tensor], aj.Tensor], bound: float) -> None:
    tensor = zeros(100, 200)
    assert fill(tensor) is tensor
    assert_uniform(tensor.numpy(), bound)


@pytest.mark.parametrize(("fill", "mean", "std"), [
    (lambda x: init.normal_(x), 0.0, 1.0),
    (lambda x: init.normal_(x, 2.0, 0.5), 2.0, 0.5),
    (lambda x: init.xavier_normal_(x, 3.0), 0.0, 3.0 * math.sqrt(2.0 / 300.0)),
    (lambda x: init.kaiming_normal_(x), 0.0, math.sqrt(2.0 / 200.0)),
    (lambda x: init.kaiming_normal_(x, mode="fan_out", nonlinearity="linear"), 0.0, 0.1),
])
def test_normal(fill: Callable[[aj.Tensor], aj.Tensor], mean: float, std: float) -> None:
    tensor = zeros(100, 200)
    assert fill(tensor) is tensor
    assert_normal(tensor.numpy(), mean, std)


def test_fans_count_the_window() -> None:
    tensor = zeros(8, 4, 3, 5)
    assert init.fans(tensor) == (60, 120)
    init.xavier_uniform_(tensor)
    assert np.abs(tensor.numpy()).max() <= math.sqrt(6.0 / 180.0)
    with pytest.raises(ShapeError, match="two dimensions or more"):
        init.kaiming_uniform_(zeros(3))


@pytest.mark.parametrize(("mean", "std", "a", "b"), [
    (0.0, 1.0, -2.0, 2.0), (1.0, 2.0, 0.0, 1.5), (0.0, 0.02, -2.0, 2.0), (0.0, 1.0, 2.0, 5.0),
])
def test_truncated_normal(mean: float, std: float, a: float, b: float) -> None:
    """The distribution function at each quantile is what it is by definition."""
    array = init.trunc_normal_(zeros(40000, dtype=np.float64), mean, std, a, b).numpy()
    assert a <= array.min() <= array.max() <= b

    def cumulative(x: float) -> float:
        return 0.5 * (1.0 + math.erf((x - mean) / (std * math.sqrt(2.0))))

    total = cumulative(b) - cumulative(a)
    for quantile in (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99):
        reached = (cumulative(float(np.quantile(array, quantile))) - cumulative(a)) / total
        assert abs(reached - quantile) < 0.01


@pytest.mark.parametrize("y", [0.0, 1e-12, 1e-3, 0.5, -0.9, 0.999999, 1.0 - 1e-12])
def test_inverse_of_the_error_function(y: float) -> None:
    with entered(evaluating()):
        x = float(init._inverse_erf(np.array(y)).evaluated())
    assert math.isclose(math.erf(x), y, rel_tol=1e-13, abs_tol=1e-300)


def test_constants() -> None:
    tensor = zeros(2, 3)
    np.testing.assert_array_equal(init.ones_(tensor).numpy(), np.ones((2, 3)))
    np.testing.assert_array_equal(init.zeros_(tensor).numpy(), np.zeros((2, 3)))
    np.testing.assert_array_equal(init.constant_(tensor, 2.5).numpy(), np.full((2, 3), 2.5))
    np.testing.assert_array_equal(init.eye_(tensor).numpy(), np.eye(2, 3))
    with pytest.raises(ShapeError, match="eye_ fills matrices"):
        init.eye_(zeros(2))


@pytest.mark.parametrize("shape", [(5, 5), (3, 7), (7, 3), (4, 3, 2)])
def test_orthogonal(shape: tuple[int, ...]) -> None:
    tensor = zeros(*shape, dtype=np.float64)
    matrix = init.orthogonal_(tensor, gain=2.0).numpy().reshape(shape[0], -1)
    rows, columns = matrix.shape
    product = matrix @ matrix.T if rows <= columns else matrix.T @ matrix
    np.testing.assert_allclose(product, 4.0 * np.eye(min(rows, columns)), atol=1e-12)


def test_gains() -> None:
    assert init.calculate_gain("leaky_relu", 1.0) == 1.0
    assert init.calculate_gain("leaky_relu") == math.sqrt(2.0 / (1.0 + 0.01 ** 2))
    assert [init.calculate_gain(name) for name in ("linear", "conv2d", "sigmoid", "tanh", "relu", "selu")] == [
        1.0, 1.0, 1.0, 5.0 / 3.0, math.sqrt(2.0), 0.75]
    with pytest.raises(ValueError, match=r"no gain is known for 'swish'"):
        init.calculate_gain("swish")
    with pytest.raises(ValueError, match="fan_in"):
        init.kaiming_uniform_(zeros(2, 2), mode="fan")      # type: ignore[arg-type]


def test_parameters_are_filled_outside_of_the_graph() -> None:
    parameter = nn.Parameter(zeros(3, 3))
    for fill in (init.normal_, init.uniform_, init.zeros_, init.eye_, init.orthogonal_, init.trunc_normal_, init.xavier_normal_):
        assert fill(parameter) is parameter
        assert parameter.is_leaf
        assert parameter.requires_grad


def test_the_seed_decides() -> None:
    def draw() -> np.ndarray:
        return nn.Linear(3, 2).weight.detach().numpy()

    aj.manual_seed(1)
    first, second = draw(), draw()
    aj.manual_seed(1)
    np.testing.assert_array_equal(draw(), first)
    assert not np.array_equal(first, second)
    aj.manual_seed(2)
    assert not np.array_equal(draw(), first)


# -- layers


@pytest.mark.parametrize(("layer", "bounds"), [
    (lambda: nn.Linear(400, 300), {"weight": 1 / 20, "bias": 1 / 20}),
    (lambda: nn.Bilinear(100, 20, 300), {"weight": 1 / 10, "bias": 1 / 10}),
    (lambda: nn.Conv2d(16, 400, 5, groups=4), {"weight": 1 / 10, "bias": 1 / 10}),
    (lambda: nn.Conv1d(25, 400, 4), {"weight": 1 / 10, "bias": 1 / 10}),
    (lambda: nn.LSTM(30, 100), {"weight_ih_l0": 1 / 10, "weight_hh_l0": 1 / 10, "bias_ih_l0": 1 / 10, "bias_hh_l0": 1 / 10}),
    (lambda: nn.GRUCell(30, 100), {"weight_ih": 1 / 10, "weight_hh": 1 / 10, "bias_ih": 1 / 10, "bias_hh": 1 / 10}),
    (lambda: nn.MultiheadAttention(100, 4), {"in_proj_weight": math.sqrt(6.0 / 400.0), "out_proj.weight": 1 / 10}),
    (lambda: nn.MultiheadAttention(100, 4, kdim=50), {"q_proj_weight": math.sqrt(6.0 / 200.0), "k_proj_weight": math.sqrt(6.0 / 150.0)}),
], ids=["linear", "bilinear", "conv2d", "conv1d", "lstm", "gru", "attention", "attention-kdim"])
def test_layers_start_uniform(layer: Callable[[], nn.Module], bounds: dict[str, float]) -> None:
    parameters = dict(layer().named_parameters())
    for name, bound in bounds.items():
        array = parameters[name].detach().numpy()
        assert array.dtype == np.float32
        assert_uniform(array, bound)


def test_other_layers() -> None:
    assert_normal(nn.Embedding(100, 200).weight.detach().numpy(), 0.0, 1.0)
    np.testing.assert_array_equal(nn.Embedding(5, 3, padding_idx=-1).weight.detach().numpy()[4], np.zeros(3))
    for layer in (nn.LayerNorm(3), nn.GroupNorm(1, 3), nn.BatchNorm1d(3)):
        np.testing.assert_array_equal(layer.weight.detach().numpy(), np.ones(3))
        np.testing.assert_array_equal(layer.bias.detach().numpy(), np.zeros(3))
    norm = nn.BatchNorm2d(3)
    np.testing.assert_array_equal(norm.running_mean.numpy(), np.zeros(3))
    np.testing.assert_array_equal(norm.running_var.numpy(), np.ones(3))
    assert (norm.num_batches_tracked.item(), norm.num_batches_tracked.dtype) == (0, np.int64)
    attention = nn.MultiheadAttention(4, 2)
    np.testing.assert_array_equal(attention.in_proj_bias.detach().numpy(), np.zeros(12))
    np.testing.assert_array_equal(attention.out_proj.bias.detach().numpy(), np.zeros(4))


@pytest.mark.parametrize("make", [
    lambda dtype: nn.Linear(2, 3, dtype=dtype), lambda dtype: nn.Conv2d(2, 3, 1, dtype=dtype), lambda dtype: nn.LSTM(2, 3, dtype=dtype),
    lambda dtype: nn.BatchNorm1d(3, dtype=dtype), lambda dtype: nn.MultiheadAttention(4, 2, dtype=dtype),
    lambda dtype: nn.TransformerEncoderLayer(4, 2, 8, dtype=dtype), lambda dtype: nn.Embedding(2, 3, dtype=dtype),
])
def test_dtype(make: Callable[[Any], nn.Module]) -> None:
    assert {parameter.dtype.name for parameter in make(None).parameters()} == {"float32"}
    assert {parameter.dtype.name for parameter in make(np.float64).parameters()} == {"float64"}
