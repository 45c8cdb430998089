"""`autograd.functional` and `gradgradcheck`: by closed forms."""

from __future__ import annotations

import numpy as np
import pytest

import adjit as aj
from adjit.autograd import functional, gradgradcheck
from adjit.errors import NonDifferentiableError, ShapeError

X, Y = aj.tensor(np.array([1.0, 2.0])), aj.tensor(np.array([3.0, -1.0]))


def test_jacobian() -> None:
    by_x, by_y = functional.jacobian(lambda x, y: x * y, (X, Y))
    assert (by_x.tolist(), by_y.tolist()) == ([[3.0, 0.0], [0.0, -1.0]], [[1.0, 0.0], [0.0, 2.0]])
    first, second = functional.jacobian(lambda x: (x.sum(), x * x), X)
    assert (first.tolist(), second.tolist(), first.requires_grad) == ([1.0, 1.0], [[2.0, 0.0], [0.0, 4.0]], False)
    assert functional.jacobian(lambda x: aj.ones(2), X).tolist() == [[0.0, 0.0], [0.0, 0.0]]
    with pytest.raises(NonDifferentiableError, match="does not depend"):
        functional.jacobian(lambda x: aj.ones(2), X, strict=True)
    x = X.clone().requires_grad_()
    functional.jacobian(lambda x: x ** 3, x, create_graph=True).sum().backward()
    assert x.grad.tolist() == [6.0, 12.0]
    assert X.requires_grad is False
    by_x, by_y = functional.jacobian(lambda x, y: x * 2, (X, Y))
    assert (by_x.tolist(), by_y.tolist()) == ([[2.0, 0.0], [0.0, 2.0]], [[0.0, 0.0], [0.0, 0.0]])


def test_hessian_and_products() -> None:
    def f(x: aj.Tensor, y: aj.Tensor) -> aj.Tensor:
        return (x ** 3).sum() + (x * x * y).sum()

    (xx, xy), (yx, yy) = functional.hessian(f, (X, Y))
    assert (xx.tolist(), xy.tolist()) == ([[12.0, 0.0], [0.0, 10.0]], [[2.0, 0.0], [0.0, 4.0]])
    assert (yx.tolist(), yy.tolist()) == ([[2.0, 0.0], [0.0, 4.0]], [[0.0, 0.0], [0.0, 0.0]])
    v = aj.tensor(np.array([1.0, 10.0]))
    for product in (functional.vhp, functional.hvp):
        value, found = product(lambda x: (x ** 4).sum(), X, v)
        assert (float(value), found.tolist()) == (17.0, [12.0, 480.0])
    for product in (functional.vjp, functional.jvp):
        value, found = product(lambda x: x.flip(0) * x[0], X, v)
        jacobian = np.array([[2.0, 1.0], [2.0, 0.0]])
        expected = (jacobian.T if product is functional.vjp else jacobian).dot(v.numpy())
        assert (value.tolist(), found.tolist()) == ([2.0, 1.0], expected.tolist())
    with pytest.raises(ShapeError, match="single element"):
        functional.vjp(lambda x: x, X)
    with pytest.raises(ShapeError, match="v has the shape"):
        functional.vjp(lambda x: x, X, aj.ones(3))


class Cubed(aj.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x ** 3

    @staticmethod
    def backward(ctx, cotangent):
        (x,) = ctx.saved_tensors
        return 3 * x.detach() ** 2 * cotangent      # the derivative of this is wrong


def test_gradgradcheck() -> None:
    x = X.clone().requires_grad_()
    assert gradgradcheck(lambda x: x ** 3 * x.sin(), x)
    assert aj.autograd.gradcheck(Cubed.apply, x)
    assert not gradgradcheck(Cubed.apply, x, raise_exception=False)
    assert aj.autograd.gradcheck(lambda x: aj.autograd.grad((x ** 3).sum(), x, create_graph=True)[0], x)


def test_errors_have_pytorchs_words() -> None:
    x = aj.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        x.mul_(2.0)
    with pytest.raises(RuntimeError, match="element 0 of tensors does not require grad and does not have a grad_fn"):
        aj.ones(2).sum().backward()
    y = (x * x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.backward()


def test_a_batch_of_cotangents() -> None:
    x = X.clone().requires_grad_()
    y = x ** 2
    (rows,) = aj.autograd.grad(y, x, aj.tensor(np.eye(2)), is_grads_batched=True)
    assert rows.tolist() == [[2.0, 0.0], [0.0, 4.0]]
    none, = aj.autograd.grad(y, Y.clone().requires_grad_(), aj.tensor(np.eye(2)), allow_unused=True, is_grads_batched=True)
    assert none is None
