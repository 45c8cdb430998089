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
