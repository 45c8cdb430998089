"""Clipping of gradients, by the norm of all and by value."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import adjit as aj

RNG = np.random.default_rng(0)
GRADS = [np.asarray(RNG.standard_normal(shape)) for shape in ((3, 2), (4,), ())]


def with_gradients(dtype: Any = np.float64) -> list[aj.Tensor]:
    params = [aj.tensor(np.zeros(grad.shape, dtype), requires_grad=True) for grad in GRADS]
    for param, grad in zip(params, GRADS, strict=True):
        param.grad = aj.tensor(grad.astype(dtype))
    return params


@pytest.mark.parametrize("order", [2.0, 1, 3.5, math.inf])
@pytest.mark.parametrize("max_norm", [0.5, 1, 100.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_norm(order: float, max_norm: float, dtype: Any) -> None:
    params = with_gradients(dtype)
    memory = [param.grad.numpy() for param in params]
    total = aj.nn.utils.clip_grad_norm_(iter(params), max_norm, order)
    everything = np.concatenate([grad.reshape(-1) for grad in GRADS])
    expected = np.linalg.norm(everything, order)
    tolerance = 1e-12 if dtype is np.float64 else 1e-6
    assert isinstance(total, aj.Tensor)
    assert total.shape == ()
    assert total.dtype == dtype
    assert total.item() == pytest.approx(expected, rel=tolerance)
    for param, place, grad in zip(params, memory, GRADS, strict=True):
        assert param.grad.numpy() is place
        np.testing.assert_allclose(place, grad * min(1.0, max_norm / (expected + 1e-6)), tolerance)


@pytest.mark.parametrize("order", [2.0, 1.0, 3.5, math.inf])
@pytest.mark.parametrize("max_norm", [0.5, 100.0])
def test_norm_beside_torch(order: float, max_norm: float) -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = with_gradients(), [torch.zeros(grad.shape, dtype=torch.float64, requires_grad=True) for grad in GRADS]
    for param, grad in zip(theirs, GRADS, strict=True):
        param.grad = torch.tensor(grad)
    total, other = aj.optim.clip_grad_norm_(ours, max_norm, order), torch.nn.utils.clip_grad_norm_(theirs, max_norm, order)
    assert total.item() == pytest.approx(other.item(), rel=1e-14)
    for param, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(param.grad.numpy(), other.grad.numpy(), 1e-14)


def test_parameters_without_gradient_count_for_nothing() -> None:
    params = with_gradients()
    params.append(aj.tensor([1.0], requires_grad=True))
    assert aj.nn.utils.clip_grad_norm_(params, 1.0).item() == pytest.approx(np.sqrt(sum(np.sum(grad ** 2) for grad in GRADS)))
    assert params[-1].grad is None
    assert aj.nn.utils.clip_grad_norm_(params[-1], 1.0).item() == 0.0
    aj.nn.utils.clip_grad_value_(params[-1], 1.0)


def test_a_parameter_that_appears_twice_counts_once() -> None:
    params, twice = with_gradients(), with_gradients()
    assert aj.nn.utils.clip_grad_norm_(params, 0.5).item() == aj.nn.utils.clip_grad_norm_([*twice, twice[0]], 0.5).item()
    np.testing.assert_array_equal(params[0].grad.numpy(), twice[0].grad.numpy())


def test_norm_that_is_not_finite() -> None:
    params = with_gradients()
    params[1].grad[0] = float("nan")
    before = params[0].grad.numpy().copy()
    with pytest.raises(ValueError, match="the norm of the gradients is nan"):
        aj.nn.utils.clip_grad_norm_(params, 1.0, error_if_nonfinite=True)
    np.testing.assert_array_equal(params[0].grad.numpy(), before)
    assert math.isnan(aj.nn.utils.clip_grad_norm_(params, 1.0).item())
    assert np.isnan(params[0].grad.numpy()).all()


def test_value() -> None:
    params = with_gradients(np.float32)
    aj.nn.utils.clip_grad_value_(params, 0.5)
    for param, grad in zip(params, GRADS, strict=True):
        np.testing.assert_array_equal(param.grad.numpy(), np.clip(grad.astype(np.float32), -0.5, 0.5))


def test_errors() -> None:
    with pytest.raises(ValueError, match="norm_type is above 0"):
        aj.nn.utils.clip_grad_norm_(with_gradients(), 1.0, 0)
