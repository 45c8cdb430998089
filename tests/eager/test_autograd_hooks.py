"""Hooks, notes, anomaly detection, and the arguments and errors of `backward` and `autograd.grad`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjit as aj


def parameter(*numbers: float) -> Any:
    return aj.tensor(list(numbers), requires_grad=True)


# -- hooks of tensors


def test_hooks_of_a_leaf_run_in_order_and_may_replace_its_gradient() -> None:
    x = parameter(1.0, 2.0)
    seen: list[Any] = []
    first = x.register_hook(lambda gradient: seen.append(("first", gradient.tolist())))
    second = x.register_hook(lambda gradient: gradient * 2)
    x.register_hook(lambda gradient: seen.append(("third", gradient.tolist())))
    (x * 3).sum().backward()
    assert seen == [("first", [3, 3]), ("third", [6, 6])]
    assert x.grad.tolist() == [6, 6]
    first.remove()
    second.remove()
    second.remove()
    (x * 3).sum().backward()
    assert seen[2:] == [("third", [3, 3])]
    assert x.grad.tolist() == [9, 9]


def test_a_hook_sees_the_whole_gradient_once() -> None:
    x = parameter(1.0)
    y = x * 2
    seen: list[Any] = []
    y.register_hook(lambda gradient: seen.append(gradient.tolist()))
    x.register_hook(lambda gradient: seen.append(gradient.tolist()))
    (y * 3 + y * 4 + x).backward()
    assert seen == [[7], [15]]


@pytest.mark.parametrize("hook_first", [True, False])
def test_retained_gradients_are_what_hooks_made_of_them(hook_first: bool) -> None:
    x = parameter(1.0, 2.0)
    y = x * 2
    if hook_first:
        y.register_hook(lambda gradient: gradient * 10)
    y.retain_grad()
    if not hook_first:
        y.register_hook(lambda gradient: gradient * 10)
    (y * 3).sum().backward()
    assert y.grad.tolist() == [30, 30]
    assert x.grad.tolist() == [60, 60]


def test_a_hook_may_write_to_its_gradient() -> None:
    x = parameter(1.0, 2.0)
    y = x * 2

    def write(gradient: aj.Tensor) -> None:
        gradient.mul_(100.0)

    y.register_hook(write)
    y.sum().backward()
    assert x.grad.tolist() == [2, 2]


@pytest.mark.parametrize("returned", ["text", 3.0, aj.tensor([1.0]), aj.tensor(np.ones(2))])
def test_what_a_hook_returns_is_checked(returned: Any) -> None:
    y = parameter(1.0, 2.0) * 2
    y.register_hook(lambda gradient: returned)
    with pytest.raises(aj.errors.ShapeError, match="a hook returned"):
        y.sum().backward()


def test_hooks_need_a_tensor_that_requires_grad() -> None:
    with pytest.raises(aj.errors.NonDifferentiableError):
        aj.tensor([1.0]).register_hook(print)
    with pytest.raises(aj.errors.NonDifferentiableError):
        aj.tensor([1.0]).retain_grad()


# -- hooks of nodes


def test_hooks_of_nodes() -> None:
    x, w = parameter(1.0, 2.0), aj.tensor([3.0, 4.0])
    y = x * w
    seen: list[Any] = []

    def after(operands: Any, results: Any) -> None:
        seen.append([[None if gradient is None else gradient.tolist() for gradient in group] for group in (operands, results)])

    handle = y.grad_fn.register_hook(after)
    before = y.grad_fn.register_prehook(lambda results: (results[0] * 2,))
    y.sum().backward(retain_graph=True)
    assert seen == [[[[6, 8], None], [[2, 2]]]]
    assert x.grad.tolist() == [6, 8]
    handle.remove()
    before.remove()
    y.sum().backward()
    assert len(seen) == 1
    assert x.grad.tolist() == [9, 12]


def test_a_hook_of_a_node_may_replace_the_gradients_of_its_operands() -> None:
    x = parameter(1.0, 2.0)
    y = x * 3
    y.grad_fn.register_hook(lambda operands, results: (operands[0] * 0 + 7, None))
    y.sum().backward()
    assert x.grad.tolist() == [7, 7]


@pytest.mark.parametrize("function", [lambda x: x.exp(), lambda x: x.softmax(0), lambda x: x.std(), lambda x: aj.nn.functional.gelu(x)])
def test_hooks_of_nodes_see_nothing_that_is_hidden(function: Callable[[Any], Any]) -> None:
    x = parameter(1.0, 2.0)
    y = function(x)
    seen: list[Any] = []
    y.grad_fn.register_hook(lambda operands, results: seen.append((len(operands), len(results))))
    y.grad_fn.register_prehook(lambda results: results)
    y.sum().backward()
    assert seen == [(1, 1)]


def test_hooks_and_second_derivatives() -> None:
    x = parameter(2.0)
    y = x ** 2
    y.register_hook(lambda gradient: gradient * x)        # part of the derivative from here on
    (gradient,) = aj.autograd.grad(y, x, create_graph=True)
    assert gradient.tolist() == [8]
    assert aj.autograd.grad(gradient, x)[0].tolist() == [8]


def test_metadata_is_a_dict_for_notes() -> None:
    node = (parameter(1.0) * 2).grad_fn
    node.metadata["note"] = "mine"
    assert node.metadata == {"note": "mine"}


# -- anomalies


def test_an_anomaly_names_the_operation_and_the_line() -> None:
    x = aj.tensor([0.0, 1.0], requires_grad=True)
    with aj.autograd.detect_anomaly():
        y = x / x       # the line
        z = y.sum()
        with pytest.raises(aj.errors.AnomalyError) as raised:
            z.backward()
    message = str(raised.value)
    assert "DivBackward0" in message
    assert "y = x / x       # the line" in message
    assert "test_autograd_hooks.py" in message


def test_nodes_that_were_made_without_detection_say_how_to_get_the_line() -> None:
    x = aj.tensor([0.0], requires_grad=True)
    y = x / x
    with aj.autograd.detect_anomaly(), pytest.raises(aj.errors.AnomalyError, match="detect_anomaly"):
        y.backward()


def test_without_detection_nan_is_a_gradient_like_others() -> None:
    x = aj.tensor([0.0], requires_grad=True)
    (x / x).backward()
    assert np.isnan(x.grad.numpy()).all()


# -- backward and grad


def test_gradients_of_inputs_only() -> None:
    x, w = parameter(1.0, 2.0), parameter(1.0, 1.0)
    (x * w).sum().backward(inputs=[x])
    assert x.grad.tolist() == [1, 1]
    assert w.grad is None


def test_inputs_need_not_be_leaves() -> None:
    x = parameter(1.0, 2.0)
    y = x * 2
    (y * y).sum().backward(inputs=[y])
    assert y.grad.tolist() == [4, 8]
    assert x.grad is None


def test_grad_of_tensors_in_between_and_of_the_output_itself() -> None:
    x = parameter(1.0, 2.0)
    y = x * 2
    z = (y * y).sum()
    of_y, of_z, of_x = aj.autograd.grad(z, [y, z, x])
    assert (of_y.tolist(), of_z.item(), of_x.tolist()) == ([4, 8], 1, [8, 16])
    assert x.grad is None


def test_grad_outputs() -> None:
    x = parameter(1.0, 2.0)
    y = x * 2
    assert [gradient.tolist() for gradient in aj.autograd.grad([y, y.sum()], [x, y], grad_outputs=[aj.tensor([1.0, 10.0]), None])] == \
        [[4, 22], [2, 11]]


def test_unused_inputs() -> None:
    x, unused = parameter(1.0, 2.0), parameter(1.0)
    with pytest.raises(aj.errors.NonDifferentiableError, match=r"input 1.*\n(.*\n)*.*allow_unused=True"):
        aj.autograd.grad((x * 2).sum(), [x, unused])
    gradients = aj.autograd.grad((x * 2).sum(), [x, unused], allow_unused=True)
    assert gradients[0].tolist() == [2, 2]
    assert gradients[1] is None


def test_several_roots() -> None:
    x = parameter(1.0, 2.0)
    aj.autograd.backward([(x * x).sum(), x], [None, aj.tensor([10.0, 20.0])])
    assert x.grad.tolist() == [12, 24]


def test_the_gradient_may_be_an_array_or_of_another_dtype() -> None:
    for given in (np.array([1.0, 10.0]), aj.tensor(np.array([1.0, 10.0])), aj.tensor([1, 10]), [1, 10]):
        x = parameter(1.0, 2.0)
        (x * 2).backward(given)
        assert x.grad.tolist() == [2, 20]
        assert x.grad.dtype == np.float32


Refused = Callable[[Any, Any], Any]


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda x, y: aj.autograd.grad(y, x), "ShapeError", r"grad\(\) of a tensor of shape \(2,\)"),
    (lambda x, y: aj.autograd.grad(y, x, grad_outputs=aj.tensor([1.0])), "ShapeError", r"shape \(1,\), the tensor \(2,\)"),
    (lambda x, y: y.backward(aj.tensor([1.0, 2.0, 3.0])), "ShapeError", r"shape \(3,\), the tensor \(2,\)"),
    (lambda x, y: x.detach().sum().backward(), "NonDifferentiableError", "does not require grad"),
    (lambda x, y: aj.autograd.grad(y.sum(), x.detach()), "NonDifferentiableError", "input 0 does not require grad"),
    (lambda x, y: y.sum().backward(inputs=[]), "ShapeError", "no input"),
    (lambda x, y: aj.autograd.grad(y.sum(), []), "ShapeError", "no input"),
    (lambda x, y: aj.autograd.backward([y, y], [aj.tensor([1.0, 1.0])]), "ShapeError", "2 outputs and 1 gradients"),
    (lambda x, y: aj.autograd.grad(y.sum(), [3.0]), "DTypeError", "expected a tensor"),
    (lambda x, y: setattr(x, "grad", aj.tensor([1.0])), "ShapeError", r"\(1,\)"),
    (lambda x, y: setattr(x, "grad", 5), "DTypeError", "a tensor or None"),
    (lambda x, y: y.requires_grad_(False), "NonDifferentiableError", "detach"),
    (lambda x, y: aj.tensor([1], requires_grad=True), "DTypeError", "int64"),
    (lambda x, y: aj.tensor([True]).requires_grad_(), "DTypeError", "bool"),
    (lambda x, y: y[:1].detach_(), "NonDifferentiableError", "view"),
    (lambda x, y: x * np.ones(2, np.longdouble), "DTypeError", "an operand.*float128"),
    (lambda x, y: x * np.ma.masked_array([1.0, 2.0], [True, False]), "UnsupportedError", "masked array")])
def test_errors_say_what_and_where(call: Refused, error: str, message: str) -> None:
    x = parameter(1.0, 2.0)
    with pytest.raises(getattr(aj.errors, error), match=message) as raised:
        call(x, x * 2)
    assert "test_autograd_hooks.py" in str(raised.value)


def test_refusals_of_gradients_are_runtime_errors_as_in_pytorch() -> None:
    with pytest.raises(RuntimeError):
        aj.tensor([1.0]).backward()
    x = parameter(1.0)
    y = x.exp()
    y.backward()
    with pytest.raises(RuntimeError):
        y.backward()
    with pytest.raises(RuntimeError):
        x.add_(1.0)
