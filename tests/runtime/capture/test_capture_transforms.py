"""Transforms of functions of tensors: in captures and outside, over modules and closures, connected to the dynamic graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit import nn
from adjit.ir.errors import NonDifferentiableError, TraceError


def leaf(*values: float, requires_grad: bool = True) -> aj.Tensor:
    return aj.tensor(np.array(values, np.float64), requires_grad=requires_grad)


def cube(x: Any) -> Any:
    return (x ** 3).sum()


def test_the_family_on_tensors() -> None:
    x = leaf(1.0, 2.0, requires_grad=False)
    ones = aj.tensor(np.ones(2))
    assert aj.grad(cube)(x).tolist() == [3.0, 12.0]
    value, gradient = aj.value_and_grad(cube)(x)
    assert isinstance(value, aj.Tensor)
    assert (value.item(), gradient.tolist()) == (9.0, [3.0, 12.0])
    out, pullback = aj.vjp(lambda x: x * x, x)
    assert out.tolist() == [1.0, 4.0]
    assert pullback(ones)[0].tolist() == [2.0, 4.0]
    assert [tensor.tolist() for tensor in aj.jvp(lambda x: x * x, (x,), (ones,))] == [[1.0, 4.0], [2.0, 4.0]]
    assert aj.jacobian(lambda x: x * x)(x).tolist() == [[2.0, 0.0], [0.0, 4.0]]
    assert aj.hessian(cube)(x).tolist() == [[6.0, 0.0], [0.0, 12.0]]
    assert aj.hvp(cube, (x,), (ones,)).tolist() == [6.0, 12.0]
    assert isinstance(aj.hessian(cube)(x), aj.Tensor)


def test_trees_and_other_arguments() -> None:
    def loss(params: dict[str, Any], x: Any, *, scale: float = 1.0) -> tuple[Any, Any]:
        y = params["w"] * x.clamp(min=0.0) + params["b"]
        return y.square().sum() * scale, {"y": y, "name": "loss"}

    params = {"w": leaf(1.0, 2.0, requires_grad=False), "b": leaf(0.5, 0.5, requires_grad=False)}
    x = leaf(3.0, -1.0, requires_grad=False)
    (value, aux), gradients = aj.value_and_grad(loss, has_aux=True)(params, x, scale=2.0)
    assert value.item() == 2 * (3.5 ** 2 + 0.5 ** 2)
    assert aux["name"] == "loss"
    assert aux["y"].tolist() == [3.5, 0.5]
    assert gradients["w"].tolist() == [42.0, 0.0]
    assert gradients["b"].tolist() == [14.0, 2.0]


@pytest.mark.parametrize("compiled", [False, True])
def test_results_are_part_of_the_dynamic_graph(compiled: bool) -> None:
    w = leaf(3.0, 4.0)

    def f(x: Any) -> Any:
        return aj.grad(lambda y: (y * y * w).sum())(x)

    x = leaf(1.0, 2.0)
    gradient = (aj.compile(f) if compiled else f)(x)
    assert gradient.tolist() == [6.0, 16.0]
    (gradient * x).sum().backward()
    assert x.grad.tolist() == [12.0, 32.0]       # of 2 w x²
    assert w.grad.tolist() == [2.0, 8.0]


def test_a_penalty_on_gradients_within_a_step() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1)).double()
    x = aj.tensor(np.array([[0.5, -1.0], [1.0, 2.0]]))

    def penalty(model: Any, x: Any) -> Any:
        model.zero_grad()
        slope = aj.grad(lambda x: model(x).sum())(x)
        loss = slope.square().sum()
        loss.backward()
        return loss

    loss = aj.compile(penalty)(model, x)
    found = [parameter.grad.numpy().copy() for parameter in model.parameters() if parameter.grad is not None]
    model.zero_grad()
    y = x.clone().requires_grad_()
    (slope,) = aj.autograd.grad(model(y).sum(), y, create_graph=True)
    expected = slope.square().sum()
    expected.backward()
    np.testing.assert_allclose(loss.item(), expected.item(), rtol=1e-12)
    wanted = [parameter.grad.numpy() for parameter in model.parameters() if parameter.grad is not None]
    assert len(found) >= len([array for array in wanted if array.any()]) > 0
    for array in wanted:
        if array.any():
            assert any(array.shape == other.shape and np.allclose(array, other, rtol=1e-10) for other in found)


def test_a_module_as_the_differentiated_argument_says_what_to_do() -> None:
    with pytest.raises(NonDifferentiableError, match="named_parameters"):
        aj.grad(lambda model, x: model(x).sum())(nn.Linear(2, 1), aj.tensor(np.ones((1, 2), np.float32)))


@aj.custom_vjp
def scaled(x: Any) -> Any:
    """x, whose gradient is taken seven times."""
    return x * 1.0


scaled.defvjp(lambda x: (x * 1.0, None), lambda residuals, cotangent: (cotangent * 7.0,))


def test_custom_rules_on_tensors() -> None:
    x = leaf(1.0, 2.0)
    y = scaled(x)
    assert y.grad_fn.name() == "ScaledBackward0"
    y.sum().backward()
    assert x.grad.tolist() == [7.0, 7.0]
    with aj.no_grad():
        assert not scaled(x).requires_grad
    x.grad = None
    aj.compile(lambda x: scaled(x).sum())(x).backward()
    assert x.grad.tolist() == [7.0, 7.0]

    @aj.compile
    def step(x: Any) -> Any:
        (scaled(x) * 2).sum().backward()

    x.grad = None
    step(x)
    assert x.grad.tolist() == [14.0, 14.0]
    assert aj.grad(lambda x: scaled(x).sum())(x).tolist() == [7.0, 7.0]


def test_stop_gradient_on_tensors() -> None:
    x = leaf(1.0, 2.0)
    (aj.stop_gradient(x) * x).sum().backward()
    assert x.grad.tolist() == [1.0, 2.0]
    aj.compile(lambda x: (aj.stop_gradient({"x": x})["x"] * x).sum())(x).backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_checkpoints_of_modules_keep_their_arguments_only() -> None:
    block = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1)).double()
    x = aj.tensor(np.random.default_rng(0).normal(size=(50, 8)), requires_grad=True)

    def loss(x: Any, run: Any) -> Any:
        return run(x).sum()

    plain, kept = [], []
    for run, gradients in ((block, plain), (aj.checkpoint(block), kept)):
        f = aj.compile(lambda x, run=run: loss(x, run))
        x.grad = None
        block.zero_grad()
        y = f(x)
        gradients.append(sum(tensor.numpy(force=True).nbytes for tensor in y.grad_fn.saved_tensors))
        y.backward()
        gradients += [tensor.grad.numpy().copy() for tensor in (x, *block.parameters())]
    for one, other in zip(plain[1:], kept[1:], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10)
    assert kept[0] < plain[0]
    out = aj.checkpoint(block)(x)       # at once
    np.testing.assert_allclose(out.detach().numpy(), block(x).detach().numpy())


def test_dropout_within_a_checkpoint_asks_for_a_key() -> None:
    drop = nn.Dropout(0.5)
    f = aj.compile(lambda x: aj.checkpoint(lambda x: drop(x) * x)(x).sum())
    with pytest.raises(TraceError, match="pass a key"):
        f(leaf(1.0, 2.0))


def test_gradients_are_not_set_within_what_is_differentiated() -> None:
    w = leaf(1.0)

    def f(x: Any) -> Any:
        (w * 2).sum().backward()
        return (x * w).sum()

    with pytest.raises(TraceError, match="backward"):
        aj.grad(f)(leaf(1.0))
    assert w.grad is None


def detached(x: Any) -> Any:
    y = x.detach().requires_grad_()
    (slope,) = aj.autograd.grad((y**3).sum(), y, create_graph=True)
    return (slope * x).sum()


def computed_without_gradients(x: Any) -> Any:
    with aj.no_grad():
        y = x * 2
    y.requires_grad = True
    return (y * x).sum()


def parameter(x: Any) -> Any:
    return (aj.nn.Parameter(x.detach().clone()) * x).sum()


def descent(x: Any) -> Any:
    w = aj.tensor([0.5, 1.0], requires_grad=True)
    for _ in range(3):
        (slope,) = aj.autograd.grad(((w - 1) ** 2 * x.detach()).sum(), w)
        with aj.no_grad():
            w -= 0.1 * slope
    return (w * x).sum()


def descent_of_a_copy(x: Any) -> Any:
    w = (x * 0.5).detach().clone().requires_grad_()
    (slope,) = aj.autograd.grad(((w - 1) ** 2 * x.detach()).sum(), w)
    with aj.no_grad():
        w.copy_(w - 0.1 * slope * x)
    return (w * x).sum()


def write_to_a_part(x: Any) -> Any:
    w = aj.tensor([0.5, 1.0], requires_grad=True)
    with aj.no_grad():
        w[:1] -= x[1:]
    return (w * x).sum()


def write_to_what_was_computed(x: Any) -> Any:
    y = x * 2
    with aj.no_grad():
        y += x
        y[:1] += x[1:]
    return (y * x).sum()


def write_to_what_a_leaf_was_detached_from(x: Any) -> Any:
    y = x * 1.0
    z = y.detach().requires_grad_()
    with aj.no_grad():
        z += 1
        z[:1] *= 3
    return (y * z * x).sum()


def write_through_a_detached_tensor(x: Any) -> Any:
    y = x * 2
    z = y.detach()
    z *= 3
    z[:1].sub_(1)
    return (y * z * x).sum()


def write_through_a_detached_view(x: Any) -> Any:
    y = x * 2
    y[1:].detach().mul_(3)
    return (y * x).sum()


def write_to_data(x: Any) -> Any:
    y = x * 2
    y.data.mul_(3)
    return (y * x).sum()


def write_what_is_differentiated_through_a_detached_tensor(x: Any) -> Any:
    y = x * 2
    z = y.detach()
    z *= x
    return (y * z).sum()


@pytest.mark.parametrize("function", [
    detached, computed_without_gradients, parameter, descent, descent_of_a_copy, write_to_a_part, write_to_what_was_computed,
    write_to_what_a_leaf_was_detached_from, write_through_a_detached_tensor, write_through_a_detached_view, write_to_data,
    write_what_is_differentiated_through_a_detached_tensor])
def test_leaves_made_within_a_function_end_the_graph(function: Any) -> None:
    """As in gradient penalties: what was detached requires grad again, and what it was detached from gets nothing through it."""
    expected, captured = aj.tensor([1.0, 2.0], requires_grad=True), aj.tensor([1.0, 2.0], requires_grad=True)
    function(expected).backward()
    aj.compile(function)(captured).backward()
    assert captured.grad.tolist() == expected.grad.tolist()
    for slope in (aj.grad(function), aj.compile(aj.grad(function))):
        assert slope(expected.detach()).tolist() == expected.grad.tolist()


def test_optimisers_of_leaves_made_within_a_function_end_the_graph() -> None:
    def tuned(x: Any) -> Any:
        w = aj.nn.Parameter(aj.tensor([0.5, 1.0]))
        optimizer = aj.optim.SGD([w], lr=0.1)
        for _ in range(2):
            (w.grad,) = aj.autograd.grad(((w - 1) ** 2 * x.detach()).sum(), w)
            optimizer.step()
        return (w * x).sum()

    expected, captured = aj.tensor([1.0, 2.0], requires_grad=True), aj.tensor([1.0, 2.0], requires_grad=True)
    tuned(expected).backward()
    aj.compile(tuned)(captured).backward()
    assert captured.grad.tolist() == pytest.approx(expected.grad.tolist())
