"""`autograd.Function`: derivatives of the user's own, in eager code and in captures."""

from __future__ import annotations

import warnings
from collections.abc import Callable
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


class Reversed(aj.autograd.Function):
    """The gradient with the opposite sign, times a number."""

    @staticmethod
    def forward(ctx: Any, x: aj.Tensor, scale: float) -> aj.Tensor:
        ctx.scale = scale
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: aj.Tensor) -> Any:
        return -ctx.scale * grad, None


class Positive(aj.autograd.Function):
    """A step whose derivative is that of a ramp; nothing of it is left in the graph of `forward`."""

    @staticmethod
    def forward(ctx: Any, x: aj.Tensor) -> aj.Tensor:
        ctx.save_for_backward(x)
        return (x > 0).double()

    @staticmethod
    def backward(ctx: Any, grad: aj.Tensor) -> Any:
        x, = ctx.saved_tensors
        return grad * (x.abs() <= 1.0).double()


class ProductAndSign(aj.autograd.Function):
    """Two results, one of them a constant; a tensor kept as an attribute, a result that is saved, an argument without a gradient."""

    @staticmethod
    def forward(ctx: Any, x: aj.Tensor, y: aj.Tensor) -> Any:
        product, sign = x * y * y, x.sign()
        ctx.y = y
        ctx.save_for_backward(product, None)
        ctx.mark_non_differentiable(sign)
        return product, sign

    @staticmethod
    def backward(ctx: Any, grad: aj.Tensor, _: aj.Tensor) -> Any:
        product, nothing = ctx.saved_tensors
        assert nothing is None
        assert ctx.needs_input_grad == (True, False)
        return grad * ctx.y * product.sin(), None


def product_and_sign(x: aj.Tensor) -> aj.Tensor:
    product, sign = ProductAndSign.apply(x, x.detach() * 2)
    return (product * sign * x).sum() + sign.sum()


@pytest.mark.parametrize("function", [
    lambda x: (Reversed.apply(x * x, 2.0) * x).sum(),
    lambda x: (Positive.apply(x) * x).sum(),
    lambda x: Positive.apply(Reversed.apply(Positive.apply(x) * x, 3.0)).sum(),
    product_and_sign,
], ids=["reversed", "positive", "nested", "several"])
def test_rules_hold_for_derivatives_of_whole_captures(function: Callable[[aj.Tensor], aj.Tensor]) -> None:
    """Captured functions are differentiated as one graph, long after `apply`: that graph has to know of the rule, to any order."""
    def slope(x: aj.Tensor) -> aj.Tensor:
        return aj.autograd.grad(function(x), x, create_graph=True)[0]

    def penalty(x: aj.Tensor) -> aj.Tensor:
        return slope(x).square().sum()

    def gradient(f: Callable[[aj.Tensor], aj.Tensor]) -> np.ndarray:
        x = aj.tensor(np.array([0.3, -0.7, 1.5]), requires_grad=True)
        with aj.no_grad():
            x += 0.0            # it has been written to, as weights are
        f(x).backward()
        return x.grad.numpy()

    for f in (function, penalty):
        expected = gradient(f)
        np.testing.assert_allclose(gradient(aj.compile(f)), expected, rtol=1e-12)
        x = aj.tensor(np.array([0.3, -0.7, 1.5]))
        if f is function:
            np.testing.assert_allclose(aj.grad(f)(x).numpy(), expected, rtol=1e-12)
            np.testing.assert_allclose(aj.compile(aj.grad(f))(x).numpy(), expected, rtol=1e-12)
    expected = gradient(penalty)
    np.testing.assert_allclose(gradient(lambda x: aj.grad(function)(x).square().sum()), expected, rtol=1e-12)


def test_steps_with_functions_of_weights_that_were_written_to() -> None:
    layer = aj.nn.Linear(3, 2).double()
    optimizer = aj.optim.SGD(layer.parameters(), lr=0.1)
    x = aj.tensor(np.linspace(-1.0, 1.0, 6).reshape(2, 3))

    def step(layer: aj.nn.Module, optimizer: Any, x: aj.Tensor) -> None:
        optimizer.zero_grad()
        loss = (Positive.apply(layer.weight) * layer.weight).sum() + Reversed.apply(layer(x), 0.5).sum()
        loss.backward()
        optimizer.step()

    step(layer, optimizer, x)
    start = layer.weight.detach().clone()
    step(layer, optimizer, x)
    expected = layer.weight.detach().clone()
    with aj.no_grad():
        layer.weight.copy_(start)
    aj.compile(step)(layer, optimizer, x)
    np.testing.assert_allclose(layer.weight.detach().numpy(), expected.numpy(), rtol=1e-12)


def test_none_for_arguments_that_were_left_out() -> None:
    class Shifted(aj.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: aj.Tensor, shift: aj.Tensor | None = None, scale: float = 2.0) -> aj.Tensor:
            ctx.scale, ctx.shifts = scale, shift is not None
            return x * scale if shift is None else x * scale + shift

        @staticmethod
        def backward(ctx: Any, grad: aj.Tensor) -> Any:
            return grad * ctx.scale, grad if ctx.shifts else None, None

    x, shift = aj.tensor([1.0, 2.0], requires_grad=True), aj.tensor([3.0, 4.0], requires_grad=True)
    for f in (lambda: Shifted.apply(x) + Shifted.apply(x, shift), aj.compile(lambda: Shifted.apply(x) + Shifted.apply(x, shift))):
        x.grad = shift.grad = None
        f().sum().backward()
        assert (x.grad.tolist(), shift.grad.tolist()) == ([4.0, 4.0], [1.0, 1.0])


def test_forward_runs_once_and_what_rules_close_over_is_constant() -> None:
    weight, calls = aj.tensor([2.0, 3.0], requires_grad=True), []

    class Noisy(aj.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: aj.Tensor) -> aj.Tensor:
            calls.append(1)
            ctx.mask = (aj.rand(2) < 0.5).float()
            return x * ctx.mask * weight

        @staticmethod
        def backward(ctx: Any, grad: aj.Tensor) -> aj.Tensor:
            return grad * ctx.mask * weight

    def step(x: aj.Tensor) -> aj.Tensor:
        y = Noisy.apply(x)
        y.sum().backward()
        return y.detach()

    x = aj.tensor([1.0, 1.0], requires_grad=True)
    found = []
    compiled = aj.compile(step)
    for f in (step, compiled):
        aj.manual_seed(0)
        calls.clear()
        for _ in range(4):
            x.grad = None
            found.append([f(x).tolist(), x.grad.tolist()])
            assert weight.grad is None
    assert found[:4] == found[4:]
    assert compiled.cache_info().traces == 1
    assert len(calls) == 4      # what the trace stored is stored by each call


def test_backward_is_traced_once() -> None:
    scale = aj.tensor([2.0, 3.0])
    counts = {"scaled": 0, "outer": 0}

    class Scaled(aj.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: aj.Tensor) -> aj.Tensor:
            ctx.save_for_backward(x)
            return x * x * scale

        @staticmethod
        def backward(ctx: Any, grad: aj.Tensor) -> aj.Tensor:
            counts["scaled"] += 1
            x, = ctx.saved_tensors
            return 2 * x * grad * scale

    class Outer(aj.autograd.Function):
        """Its rule calls a function with a rule of its own, which derivatives of each order follow: it is traced for each."""

        @staticmethod
        def forward(ctx: Any, x: aj.Tensor) -> aj.Tensor:
            ctx.save_for_backward(x)
            return x.exp()

        @staticmethod
        def backward(ctx: Any, grad: aj.Tensor) -> aj.Tensor:
            counts["outer"] += 1
            return Scaled.apply(ctx.saved_tensors[0]) * grad

    def step(function: type[aj.autograd.Function], x: aj.Tensor) -> Any:
        (slope,) = aj.autograd.grad(function.apply(x * 1.0).sum(), x, create_graph=True)
        return slope.detach(), *aj.autograd.grad(slope.square().sum(), x)

    x = aj.tensor([1.0, -2.0], requires_grad=True)
    compiled = aj.compile(step)
    for function in (Scaled, Outer):
        expected = [each.tolist() for each in step(function, x)]
        before = dict(counts)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")     # that `Outer` adds to what is outside
            assert [each.tolist() for each in compiled(function, x)] == expected
        if function is Scaled:
            assert counts["scaled"] == before["scaled"] + 1


class Doubled(aj.autograd.Function):
    """Writes to its operand, and says so."""

    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class SumAndProduct(aj.autograd.Function):
    """Two results, of which the second one is an operand that it writes to."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.mark_dirty(b)
        b.mul_(a)
        ctx.save_for_backward(a, b)
        return a + 1, b

    @staticmethod
    def backward(ctx, of_sum, of_product):
        a, b = ctx.saved_tensors
        return of_sum + of_product * b / a, of_product * a


def whole(x, weights):
    y = x * 1
    assert Doubled.apply(y) is y
    return (y * weights).sum()


def of_a_view(x, weights):
    y = x * 1
    before, overlapping = y[:2], y[1:]
    Doubled.apply(before)
    return (y * weights).sum() + (overlapping * before.sum()).sum()


def second_result(x, weights):
    b = x * 3
    total, product = SumAndProduct.apply(x, b)
    assert product is b
    return (total * b).sum() + (b * weights).sum()


def constant_operand(x, weights):
    b = aj.ones(4)
    total, _ = SumAndProduct.apply(x, b)
    return (total + b * b * weights).sum()


@pytest.mark.parametrize("is_compiled", [False, True])
def test_dirty_operands_are_the_results(is_compiled):
    weights = aj.arange(4.0)
    for loss, expected in ((whole, [0, 2, 4, 6]), (of_a_view, [22, 36, 8, 9]), (second_result, [15, 60, 135, 240]),
                           (constant_operand, [1, 5, 13, 25])):
        def gradient(x, loss=loss):
            loss(x, weights).backward()
            return x.grad
        x = aj.arange(1.0, 5.0, requires_grad=True)
        np.testing.assert_allclose((aj.compile(gradient) if is_compiled else gradient)(x).numpy(), expected, err_msg=loss.__name__)


def test_dirty_operands_are_refused_if_their_gradient_would_be_lost():
    class Lost(Doubled):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2) * 1

    x = aj.ones(3, requires_grad=True)
    with pytest.raises(InPlaceError, match="must all be outputs"):
        Lost.apply(x * 1)
    with pytest.raises(InPlaceError, match="a leaf Variable that requires grad"):
        Doubled.apply(x)
    plain = aj.ones(3)
    assert Doubled.apply(plain) is plain
    assert plain.tolist() == [2, 2, 2]


def test_backward_and_hooks_print_keep_and_count_in_each_call(capsys: pytest.CaptureFixture[str]) -> None:
    """What rules and hooks do to outside state is part of the step, if its own backward passes run them; also twice in a step."""
    def run(compile: Callable[..., Any]) -> Any:
        seen: dict[str, Any] = {"kept": [], "numbers": [], "count": 0, "hooked": [], "calls": 0}
        w = aj.tensor([1.0, 2.0], requires_grad=True)

        class Seen(aj.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: aj.Tensor) -> Any:
                return x * 2, x + 1

            @staticmethod
            def backward(ctx: Any, grad: aj.Tensor, unused: aj.Tensor) -> aj.Tensor:
                print("gradient", grad)
                seen["kept"].append(grad.detach())
                seen["numbers"].append(grad.sum().item() + unused.sum().item())
                seen["count"] += 1
                return grad * 2

        def hook(p: aj.Tensor) -> None:
            print("norm", p.grad.norm())
            seen["hooked"].append(p.grad.norm().item())
            seen["calls"] += 1

        w.register_post_accumulate_grad_hook(hook)

        @compile
        def step(x: aj.Tensor) -> aj.Tensor:
            w.grad = None
            (Seen.apply(w * x)[0] * x).sum().backward()
            loss = Seen.apply(w * w)[0].sum()
            loss.backward()
            return loss

        losses = [step(aj.ones(2) * number).tolist() for number in range(4)]
        seen["kept"] = [each.tolist() for each in seen["kept"]]
        return losses, seen, w.grad.tolist(), capsys.readouterr().out

    assert run(aj.compile) == run(lambda step: step)
