"""The dynamic graph by example: values, printed forms, graphs and gradients of small programs, as PyTorch has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjit as aj


def names(node: Any) -> Any:
    """The graph below a node, as nested lists of names."""
    return None if node is None else [node.name(), *(names(below) for below, _ in node.next_functions)]


def parameter(*numbers: float) -> Any:
    return aj.tensor(list(numbers), requires_grad=True)


def test_scalar_example() -> None:
    a, b = aj.tensor(2.0, requires_grad=True), aj.tensor(3.0, requires_grad=True)
    y = (a + b) * (b + 1)
    assert y.item() == 20
    assert repr(y) == "tensor(20., grad_fn=<MulBackward0>)"
    (left, _), (right, _) = y.grad_fn.next_functions
    assert left.name() == right.name() == "AddBackward0"
    assert all(node.variable is leaf for (node, _), leaf in zip(left.next_functions, (a, b), strict=True))
    assert right.next_functions[0][0].variable is b
    assert right.next_functions[0][0] is left.next_functions[1][0]
    assert right.next_functions[1] == (None, 0)
    y.backward()
    assert (a.grad.item(), b.grad.item()) == (4, 9)


def test_reprs() -> None:
    x = aj.tensor([1.0, 2.5], requires_grad=True)
    assert repr(x) == "tensor([1.0000, 2.5000], requires_grad=True)"
    assert repr(x.detach()) == "tensor([1.0000, 2.5000])"
    assert repr(aj.tensor(np.array([14.0]))) == "tensor([14.], dtype=float64)"
    assert repr(aj.tensor(np.array([14.0]), requires_grad=True) * 1) == "tensor([14.], dtype=float64, grad_fn=<MulBackward0>)"
    assert repr(aj.tensor([1, 2])) == "tensor([1, 2])"
    assert repr((x * 2).grad_fn).startswith("<MulBackward0 object at 0x")


def test_default_dtype_is_float32() -> None:
    assert aj.tensor([1.0]).dtype == np.float32
    assert aj.tensor([1]).dtype == np.int64
    assert aj.tensor([True]).dtype == np.bool_
    assert aj.tensor(np.ones(2)).dtype == np.float64


def test_polynomial() -> None:
    x = aj.tensor(2.0, requires_grad=True)
    y = x ** 2
    z = 2 * y + 1
    z.backward()
    assert x.grad.item() == 8
    assert names(z.grad_fn) == ["AddBackward0", ["MulBackward0", ["PowBackward0", ["AccumulateGrad"]], None], None]


def test_custom_loss_of_two_elements() -> None:
    w, x = parameter(1.0, 2.0), parameter(3.0, 4.0)

    def custom_loss(w: Any, x: Any) -> Any:
        return (w * x ** 2).sum()

    loss = custom_loss(w, x)
    loss.backward()
    assert loss.item() == 9 + 32
    assert w.grad.tolist() == [9, 16]
    assert x.grad.tolist() == [6, 16]


def test_a_vector_is_refused_as_root() -> None:
    x, y = parameter(1.0, 2.0, 3.0), parameter(4.0, 5.0, 6.0)
    z = x * y + x.sum()
    with pytest.raises(aj.errors.ShapeError) as refused:
        z.backward()
    message = str(refused.value)
    assert "(3,)" in message
    assert "gradient=" in message
    assert ".sum()" in message
    assert "test_autograd_examples.py" in message
    z.backward(gradient=aj.tensor(np.ones(3, np.float32)))
    assert x.grad.tolist() == [4 + 3, 5 + 3, 6 + 3]
    assert y.grad.tolist() == [1, 2, 3]


def test_sum_and_double_with_retained_gradients() -> None:
    tensor1, tensor2 = parameter(3.0), parameter(4.0)
    tensor3 = tensor1 + tensor2
    tensor4 = tensor3 * 2
    tensor3.retain_grad()
    tensor4.retain_grad()
    assert repr(tensor4) == "tensor([14.], grad_fn=<MulBackward0>)"
    tensor4.backward()
    assert tensor1.grad.tolist() == [2]
    assert tensor2.grad.tolist() == [2]
    assert tensor3.grad.tolist() == [2]
    assert tensor4.grad.tolist() == [1]
    assert tensor3.retains_grad
    assert not tensor1.retains_grad


def test_gradients_of_tensors_between_are_not_kept() -> None:
    x = parameter(1.0)
    y = x * 2
    (y * 3).backward()
    assert y.grad is None
    assert x.grad.tolist() == [6]


@pytest.mark.parametrize(("flag", "name", "gradient"), [(True, "MulBackward0", 2.0), (False, "ExpBackward0", float(np.exp(np.float32(1))))])
def test_the_graph_is_the_branch_that_ran(flag: bool, name: str, gradient: float) -> None:
    def compute(x: Any, flag: bool) -> Any:
        return x * 2 if flag else x.exp()

    x = aj.tensor(1.0, requires_grad=True)
    y = compute(x, flag)
    assert y.grad_fn.name() == name
    y.backward()
    assert x.grad.item() == pytest.approx(gradient, rel=1e-6)


def test_recursion() -> None:
    def power(x: Any, n: int) -> Any:
        return x if n == 1 else x * power(x, n - 1)

    x = aj.tensor(2.0, requires_grad=True)
    y = power(x, 5)
    assert str(names(y.grad_fn)).count("MulBackward0") == 4
    y.backward()
    assert x.grad.item() == 5 * 2 ** 4


@pytest.mark.parametrize(("start", "steps"), [(0.5, 7), (7.0, 4), (100.0, 0)])
def test_a_loop_that_depends_on_data(start: float, steps: int) -> None:
    x = aj.tensor(start, requires_grad=True)
    y, count = x * 1, 0
    while y < 100:
        y = y * 2 + 1
        count += 1
    assert count == steps
    y.backward()
    assert x.grad.item() == 2 ** count


def test_gradients_accumulate_until_they_are_zeroed() -> None:
    x = parameter(1.0, 2.0)
    for turn in (1, 2, 3):
        (x * 5).sum().backward()
        assert x.grad.tolist() == [5 * turn] * 2
    first = x.grad
    (x * 5).sum().backward()
    assert x.grad is first
    x.grad.zero_()
    (x * 5).sum().backward()
    assert x.grad.tolist() == [5, 5]
    x.grad = None
    (x * 7).sum().backward()
    assert x.grad.tolist() == [7, 7]


def test_derivatives_to_third_order() -> None:
    x = aj.tensor(2.0, requires_grad=True)
    y = x ** 4
    (first,) = aj.autograd.grad(y, x, create_graph=True)
    (second,) = aj.autograd.grad(first, x, create_graph=True)
    (third,) = aj.autograd.grad(second, x)
    assert (first.item(), second.item(), third.item()) == (32, 48, 48)
    assert second.requires_grad
    assert not third.requires_grad
    assert x.grad is None


def test_third_order_of_transcendental_functions() -> None:
    x = aj.tensor(np.array([0.3, -0.8]), requires_grad=True)
    current = (x.sin() * x.exp()).sum()
    for _ in range(3):
        (gradient,) = aj.autograd.grad(current, x, create_graph=True)
        current = gradient.sum()
    at = x.detach().numpy()
    np.testing.assert_allclose(gradient.detach().numpy(), 2 * np.exp(at) * (np.cos(at) - np.sin(at)), rtol=1e-12)


def test_backward_with_create_graph_leaves_gradients_that_can_be_differentiated() -> None:
    x = aj.tensor(2.0, requires_grad=True)
    (x ** 3).backward(create_graph=True)
    gradient = x.grad
    assert gradient.item() == 12
    x.grad = None
    gradient.backward()
    assert x.grad.item() == 12


def test_gradient_penalty() -> None:
    x = parameter(1.0, 2.0)
    y = (x * x).sum()
    (gradient,) = aj.autograd.grad(y, x, create_graph=True)
    (y + (gradient * gradient).sum()).backward()
    assert x.grad.tolist() == [2 + 8, 4 + 16]


def test_a_gradient_penalty_leaves_biases_without_a_gradient() -> None:
    """As in PyTorch: an optimizer with weight decay would change them."""
    def without_gradient(*layers: aj.nn.Module) -> list[str]:
        model = aj.nn.Sequential(*layers)

        def step(x: aj.Tensor) -> None:
            (gradient,) = aj.autograd.grad(model(x).square().sum() if len(layers) == 1 else model(x).sum(), x, create_graph=True)
            ((gradient.norm(dim=-1) - 1) ** 2).mean().backward()

        step(aj.randn(5, 4).requires_grad_())
        return [name for name, parameter in model.named_parameters() if parameter.grad is None]

    assert without_gradient(aj.nn.Linear(4, 4), aj.nn.LayerNorm(4)) == ["1.bias"]
    assert without_gradient(aj.nn.Linear(4, 3), aj.nn.Linear(3, 1)) == ["0.bias", "1.bias"]
    assert without_gradient(aj.nn.Linear(4, 3), aj.nn.ReLU(), aj.nn.Linear(3, 1)) == ["2.bias"]       # zeros for the first, there too
    assert without_gradient(aj.nn.Linear(4, 4)) == []


def test_is_leaf() -> None:
    x = parameter(1.0)
    assert x.is_leaf
    assert x.grad_fn is None
    assert not (x * 1).is_leaf
    assert aj.tensor([1.0]).is_leaf
    assert (aj.tensor([1.0]) * 2).is_leaf
    assert x.detach().is_leaf
    with aj.no_grad():
        assert (x * 2).is_leaf


def test_saved_tensors_of_a_product() -> None:
    x, w = parameter(1.0, 2.0), parameter(3.0, 4.0)
    node = (x * w).grad_fn
    assert len(node.saved_tensors) == 2
    assert node.saved_tensors[0] is x
    assert node.saved_tensors[1] is w
    assert node.saved_names == ("operand 0", "operand 1")


def test_saved_tensors_of_linear() -> None:
    data = aj.tensor(np.ones((1, 5), np.float32))
    weight, bias = aj.tensor(np.ones((8, 5), np.float32), requires_grad=True), aj.tensor(np.zeros(8, np.float32), requires_grad=True)
    data.requires_grad_()
    out = aj.nn.functional.linear(data, weight, bias)
    assert out.grad_fn.name() == "AddmmBackward0"
    assert sorted(saved.shape for saved in out.grad_fn.saved_tensors) == [(1, 5), (5, 8)]


def test_relu_saves_its_result() -> None:
    x = parameter(-1.0, 2.0)
    y = x.relu()
    assert y.grad_fn.name() == "ReluBackward0"
    (saved,) = y.grad_fn.saved_tensors
    assert saved.tolist() == [0, 2]
    assert np.shares_memory(saved.detach().numpy(), y.detach().numpy())
    assert y.grad_fn.saved_names == ("result",)


def test_recurrent_network_by_hand() -> None:
    """h' = tanh(W h + U x): gradients through all steps, against the formulas."""
    generator = np.random.default_rng(0)
    w, u = (aj.tensor(generator.normal(size=shape) * 0.5, requires_grad=True) for shape in ((3, 3), (3, 2)))
    inputs = generator.normal(size=(6, 2))
    hidden: Any = aj.tensor(np.zeros(3))
    kept = [hidden]
    for row in inputs:
        hidden = (w @ hidden + u @ aj.tensor(row)).tanh()
        kept.append(hidden)
    hidden.sum().backward()
    states = [state.detach().numpy() for state in kept]
    cotangent, w_grad, u_grad = np.ones(3), np.zeros((3, 3)), np.zeros((3, 2))
    for step in reversed(range(6)):
        before = cotangent * (1 - states[step + 1] ** 2)
        w_grad += np.outer(before, states[step])
        u_grad += np.outer(before, inputs[step])
        cotangent = w.detach().numpy().T @ before
    np.testing.assert_allclose(w.grad.numpy(), w_grad, rtol=1e-12)
    np.testing.assert_allclose(u.grad.numpy(), u_grad, rtol=1e-12)
