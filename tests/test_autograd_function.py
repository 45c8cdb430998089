"""`autograd.Function`: derivatives of the user's own, in eager code and in captures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit.errors import AdjitError, GraphFreedError, InPlaceError


class Exponential(aj.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: aj.Tensor) -> aj.Tensor:
        result = x.exp()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx: Any, grad: aj.Tensor) -> aj.Tensor:
        result, = ctx.saved_tensors
        return grad * result


class Scaled(aj.autograd.Function):
    """Twice the true derivative, so that it cannot be mistaken for it."""

    @staticmethod
    def forward(ctx: Any, x: aj.Tensor, factor: float, y: aj.Tensor) -> Any:
        ctx.factor = factor
        ctx.save_for_backward(x, y)
        return x * y * factor, x + y

    @staticmethod
    def backward(ctx: Any, first: aj.Tensor, second: aj.Tensor) -> Any:
        _, y = ctx.saved_tensors
        assert ctx.needs_input_grad == (True, False, False)
        return 2 * (first * y * ctx.factor + second), None, None


def test_gradients() -> None:
    x, y = aj.tensor([1.0, 2.0], requires_grad=True), aj.tensor([3.0, 4.0])
    product, total = Scaled.apply(x, 5.0, y)
    assert product.grad_fn.name() == "ScaledBackward"
    np.testing.assert_array_equal(product.detach().numpy(), [15.0, 40.0])
    product.sum().backward(retain_graph=True)       # nothing arrives for the second result: zeros
    np.testing.assert_array_equal(x.grad.numpy(), [30.0, 40.0])
    (10 * total).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [50.0, 60.0])
    assert not Scaled.apply(y, 5.0, y)[0].requires_grad
    with aj.no_grad():
        assert not Exponential.apply(x).requires_grad


def test_higher_derivatives() -> None:
    x = aj.tensor([0.5, 1.0], requires_grad=True)
    result = Exponential.apply(x)
    for _ in range(3):
        result, = aj.autograd.grad(result.sum(), x, create_graph=True)
        np.testing.assert_allclose(result.detach().numpy(), np.exp([0.5, 1.0]), rtol=1e-6)


def test_in_a_capture() -> None:
    @aj.compile
    def step(x: aj.Tensor, y: aj.Tensor) -> Any:
        product, total = Scaled.apply(x, 5.0, y)
        (product + total).sum().backward()
        return product

    x, y = aj.tensor([1.0, 2.0], requires_grad=True), aj.tensor([3.0, 4.0])
    for times in (1, 2):
        step(x, y)
        np.testing.assert_array_equal(x.grad.numpy(), [32.0 * times, 42.0 * times])


def test_misuse() -> None:
    x = aj.tensor([1.0], requires_grad=True)
    result = Exponential.apply(x)
    result.sum().backward()
    with pytest.raises(GraphFreedError):
        result.sum().backward()
    y = aj.tensor([2.0])
    product, _ = Scaled.apply(x, 5.0, y)
    y += 1
    with pytest.raises(InPlaceError, match=r"a tensor of shape \(1,\) that a function saved was written to"):
        product.sum().backward()

    class TooFew(aj.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: aj.Tensor, y: aj.Tensor) -> aj.Tensor:
            return x * y

        @staticmethod
        def backward(ctx: Any, grad: aj.Tensor) -> aj.Tensor:
            return grad

    with pytest.raises(AdjitError, match=r"TooFew\.backward returned 1 gradients for 2 arguments"):
        TooFew.apply(x, y).sum().backward()


def test_gradcheck() -> None:
    x = aj.tensor(np.array([0.5, 1.5]), requires_grad=True)
    y = aj.tensor(np.array([[1.0], [2.0]]), requires_grad=True)
    assert aj.autograd.gradcheck(Exponential.apply, x)
    assert aj.autograd.gradcheck(lambda x, y, n: ((x > 0).sum(), (x * y).sin() ** n, y.sum()), (x, y, 3))
    assert not aj.autograd.gradcheck(lambda x, y: Scaled.apply(x, 5.0, y), (x, y.detach()[:, 0]), raise_exception=False)
    with pytest.raises(AdjitError, match="the gradient of element 0 of result 0 by input 0 is"):
        aj.autograd.gradcheck(lambda x: Scaled.apply(x, 5.0, y.detach()[:, 0]), x)
    with pytest.raises(ValueError, match="float64"):
        aj.autograd.gradcheck(aj.exp, aj.ones(2, requires_grad=True))
    with pytest.raises(ValueError, match="requires grad"):
        aj.autograd.gradcheck(aj.exp, aj.ones(2))
