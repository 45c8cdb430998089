"""More layers, activations and losses: values by formulas, and PyTorch's values and gradients where it is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit import nn
from adjit.errors import ShapeError

X = np.linspace(-4, 4, 24).reshape(2, 12).astype(np.float32)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


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
    result = module(aj.tensor(X))
    assert result.dtype == np.float32
    np.testing.assert_allclose(result.detach().numpy(), formula(X.astype(np.float64)), rtol=2e-6, atol=1e-6)


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
    with pytest.raises(ShapeError, match="Dropout2d takes"):
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
    x = X + 0.01        # apart from the kinks
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
    with pytest.raises(ValueError, match="mode is 'nearest', got 'bicubic'"):
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
