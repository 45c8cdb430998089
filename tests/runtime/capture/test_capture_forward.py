"""Compiled functions of tensors in the dynamic graph: values, gradients of every order, what is saved, what is refused."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from support.backends import BACKENDS

import adjit as aj
from adjit import nn
from adjit.ir.errors import GraphFreedError, InPlaceError, TraceError, UnsupportedError


def leaf(*shape: int, seed: int = 0, dtype: Any = np.float64) -> aj.Tensor:
    return aj.tensor(np.random.default_rng(seed).uniform(0.5, 1.5, shape).astype(dtype), requires_grad=True)


def close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-10, atol=1e-12)


def layer(x: Any, w: Any) -> Any:
    return np.tanh(x @ w) * x.sum()


@pytest.mark.parametrize("backend", BACKENDS)
def test_values_gradients_and_the_node(backend: str) -> None:
    f = aj.compile(layer, backend=backend)
    x, w = leaf(4, 3), leaf(3, 2, seed=1)
    y = f(x, w)
    assert y.grad_fn.name() == "CompiledBackward"
    assert re.fullmatch(r"<CompiledBackward object at 0x[0-9a-f]+>", repr(y.grad_fn))
    assert "grad_fn=<CompiledBackward>" in repr(y)
    assert [node.variable for node, _ in y.grad_fn.next_functions] == [x, w]
    assert not y.is_leaf
    assert y.requires_grad
    y.sum().backward()
    x2, w2 = leaf(4, 3), leaf(3, 2, seed=1)
    expected = layer(x2, w2)
    expected.sum().backward()
    close(y, expected)
    close(x.grad, x2.grad)
    close(w.grad, w2.grad)
    assert f.cache_info().traces == 1
    f(leaf(4, 3, seed=5), w)
    assert f.cache_info() == (1, 1, 1, 128)


def test_lambda_with_globals_closures_and_defaults() -> None:
    w = leaf(3, seed=1)
    f = aj.compile(lambda x, scale=2.0: (x * w + GLOBAL) * scale)
    x = leaf(3)
    f(x).sum().backward()
    close(w.grad, 2 * x)
    close(x.grad, 2 * w)
    close(GLOBAL.grad, aj.tensor(np.full(3, 2.0)))
    GLOBAL.grad = None


GLOBAL = leaf(3, seed=2)


class Net(nn.Module):
    """A perceptron whose `forward` is compiled."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 5)
        self.outer = nn.Linear(5, 2)
        self.scale = 2.0

    def plain(self, x: Any) -> Any:
        return self.outer(np.tanh(self.inner(x))) * self.scale

    @aj.compile
    def forward(self, x: Any) -> Any:
        return self.plain(x)


def test_a_method_forward() -> None:
    aj.manual_seed(0)
    net = Net()
    x = leaf(4, 3, dtype=np.float32)
    y = net(x)
    assert y.grad_fn.name() == "CompiledBackward"
    y.square().sum().backward()
    gradients = [parameter.grad.numpy().copy() for parameter in net.parameters()]
    net.zero_grad()
    net.plain(x).square().sum().backward()
    for found, parameter in zip(gradients, net.parameters(), strict=True):
        np.testing.assert_allclose(found, parameter.grad.numpy(), rtol=1e-5, atol=1e-6)
    traces = Net.forward.cache_info().traces
    net.scale = 3.0
    np.testing.assert_allclose(net(x).detach().numpy(), 1.5 * y.detach().numpy(), rtol=1e-5)
    assert Net.forward.cache_info().traces == traces + 1
    net.scale = 2.0
    net(x)
    assert Net.forward.cache_info().traces == traces + 1       # the first program holds again


def test_a_module_that_is_compiled() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    f = aj.compile(model)
    x = leaf(5, 3, dtype=np.float32)
    y = f(x)
    y.sum().backward()
    np.testing.assert_allclose(y.detach().numpy(), model(x).detach().numpy(), rtol=1e-5, atol=1e-6)
    assert all(parameter.grad is not None for parameter in model.parameters())
    with aj.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.0)
    np.testing.assert_allclose(f(x).detach().numpy(), model(x).detach().numpy(), rtol=1e-5, atol=1e-6)
    assert f.cache_info().traces == 1


def test_trees_of_tensors_and_arrays() -> None:
    @aj.compile
    def f(tree: Any, array: Any, number: float) -> Any:
        return {"tensor": tree["a"] * number, "array": array * 2, "pair": (tree["b"][0] + 1, array.sum()), "name": "x"}

    a, b, array = leaf(3), aj.tensor(np.ones(2)), np.arange(3.0)
    out = f({"a": a, "b": [b]}, array, 3.0)
    assert isinstance(out["tensor"], aj.Tensor)
    assert out["tensor"].requires_grad
    assert type(out["array"]) is np.ndarray
    assert out["array"].tolist() == [0.0, 2.0, 4.0]
    assert not out["pair"][0].requires_grad
    assert out["pair"][1] == 3.0
    assert isinstance(out["pair"][1], np.float64)
    assert out["name"] == "x"
    out["tensor"].sum().backward()
    assert a.grad.tolist() == [3.0, 3.0, 3.0]


def test_no_grad_and_detach() -> None:
    @aj.compile
    def f(x: Any) -> Any:
        with aj.no_grad():
            constant = x * 2
        return (x * constant).sum() + (x.detach() * x).sum()

    x = leaf(3)
    f(x).backward()
    close(x.grad, 3 * x)
    with aj.no_grad():
        y = f(x)
    assert not y.requires_grad
    assert y.grad_fn is None
    assert f.cache_info().traces == 2
    assert not f(x.detach()).requires_grad


def test_some_of_several_outputs_are_used() -> None:
    @aj.compile
    def f(x: Any, w: Any) -> Any:
        return x * w, np.sin(x), x.detach() + 1, (x > 1)

    x, w = leaf(3), leaf(3, seed=1)
    first, second, third, fourth = f(x, w)
    assert (first.requires_grad, second.requires_grad, third.requires_grad, fourth.requires_grad) == (True, True, False, False)
    assert first.grad_fn is second.grad_fn
    second.sum().backward()
    close(x.grad, np.cos(x.detach()))
    assert w.grad is None or not w.grad.numpy().any()


def test_compiled_and_eager_parts_in_both_orders() -> None:
    f = aj.compile(layer)

    def whole(inner: Any, x: Any, w: Any) -> Any:
        before = np.exp(x) / 3
        between = inner(before, w)
        return (inner(between, w.T) * x).sum() + between.mean()

    found, expected = [(leaf(4, 3), leaf(3, 2, seed=1)) for _ in range(2)]
    whole(f, *found).backward()
    whole(layer, *expected).backward()
    for one, other in zip(found, expected, strict=True):
        close(one.grad, other.grad)
    assert f.cache_info().traces == 2


def test_one_tensor_given_twice_and_shared_parameters() -> None:
    f = aj.compile(lambda x, y: x * x * y)
    x = leaf(3)
    f(x, x).sum().backward()
    close(x.grad, 3 * x * x)
    x.grad = None
    f(x, x.detach()).sum().backward()
    close(x.grad, 2 * x * x)
    w = leaf(3, seed=1)
    g = aj.compile(lambda x: x * w)
    w.grad = None
    g(w).sum().backward()
    close(w.grad, 2 * w)
    g(x).sum().backward()
    close(w.grad, 2 * w + x)
    w.grad = None
    g(w).sum().backward()
    close(w.grad, 2 * w)


def test_retain_graph_and_freed_graphs() -> None:
    f = aj.compile(lambda x: np.exp(x) * x)
    x = leaf(3)
    y = f(x).sum()
    y.backward(retain_graph=True)
    first = x.grad.clone()
    y.backward()
    close(x.grad, 2 * first)
    with pytest.raises(GraphFreedError, match="retain_graph=True"):
        y.backward()


def test_what_is_saved_is_checked_and_released() -> None:
    f = aj.compile(lambda x, w: (x * w).sum())
    x, w = leaf(3), leaf(3, seed=1)
    y = f(x, w)
    assert {tuple(tensor.shape) for tensor in y.grad_fn.saved_tensors} == {(3,)}
    with aj.no_grad():
        w.mul_(2.0)
    with pytest.raises(InPlaceError, match="CompiledBackward needs its operand"):
        y.backward()
    z = f(x, w)
    z.backward()
    with pytest.raises(GraphFreedError):
        z.grad_fn.saved_tensors     # noqa: B018
    unused = aj.compile(lambda x, w: (x + w).sum())(x, w)
    with aj.no_grad():
        w.mul_(2.0)
    unused.backward()       # a sum needs no operand


def test_a_result_that_is_saved_is_checked_too() -> None:
    f = aj.compile(lambda x: np.exp(x))
    x = leaf(3)
    y = f(x)
    y.sum().backward(retain_graph=True)
    y.detach().add_(1.0)
    with pytest.raises(InPlaceError, match="its result"):
        y.sum().backward()


def test_hooks() -> None:
    f = aj.compile(lambda x: (x * x).sum())
    x = leaf(3)
    seen = []
    x.register_hook(lambda gradient: seen.append(gradient.tolist()))
    y = f(x)
    y.register_hook(lambda gradient: gradient * 10)
    y.grad_fn.register_hook(lambda inputs, outputs: seen.append((len(inputs), len(outputs))))
    y.backward()
    close(x.grad, 20 * x)
    assert seen == [(1, len(y.grad_fn.operation.active)), x.grad.tolist()]


def test_a_hook_inside_is_refused_where_it_would_be_lost() -> None:
    @aj.compile
    def f(x: Any) -> Any:
        y = x * 2
        y.register_hook(lambda gradient: gradient * 0)
        return y.sum()

    with pytest.raises(UnsupportedError, match="has a hook"):
        f(leaf(3))


def test_hooks_inside_of_a_whole_step() -> None:
    @aj.compile
    def f(x: Any) -> Any:
        y = x * 2
        y.register_hook(lambda gradient: gradient * 5)
        y.sum().backward()
        return y.detach()

    x = leaf(3)
    f(x)
    assert x.grad.tolist() == [10.0, 10.0, 10.0]
    f(x)
    assert x.grad.tolist() == [20.0, 20.0, 20.0]


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_to_the_third_order(backend: str) -> None:
    def f(x: Any, w: Any) -> Any:
        return (np.sin(x * w) * np.exp(x / 3)).sum()

    results = []
    for function in (f, aj.compile(f, backend=backend)):
        x, w = leaf(3), leaf(3, seed=1)
        value = function(x, w)
        (first,) = aj.autograd.grad(value, x, create_graph=True)
        second = aj.autograd.grad((first * first).sum(), (x, w), create_graph=True)
        third = aj.autograd.grad((second[0] * second[1]).sum(), (x, w))
        results.append((value, first, *second, *third))
    for found, expected in zip(results[1], results[0], strict=True):
        close(found, expected)


def test_a_gradient_with_a_graph_leaves_the_function() -> None:
    @aj.compile
    def f(x: Any) -> Any:
        (gradient,) = aj.autograd.grad((x ** 3).sum(), x, create_graph=True)
        return gradient

    x = leaf(3)
    gradient = f(x)
    gradient.sum().backward()
    close(x.grad, 6 * x)


def test_only_what_is_needed_is_saved() -> None:
    def f(x: Any) -> Any:
        y = x
        for _ in range(6):
            y = np.tanh(y) * 1.5 + 1.0
        return y.sum()

    x = leaf(100, 100)
    eager = f(x)
    kept, nodes = 0, [eager.grad_fn]
    while nodes:
        node = nodes.pop()
        kept += sum(tensor.numpy(force=True).nbytes for tensor in getattr(node, "saved_tensors", ()))
        nodes += [other for other, _ in node.next_functions if other is not None and not hasattr(other, "variable")]

    def saved(**choices: Any) -> int:
        node = aj.compile(f, **choices)(x).grad_fn
        return sum(tensor.numpy(force=True).nbytes for tensor in node.saved_tensors if tensor is not x)

    one = x.numpy(force=True).nbytes
    assert 6 * one <= saved() <= kept
    assert saved(memory_budget=2 * one) <= 2 * one


def test_reports_speak_of_both_halves() -> None:
    f = aj.compile(layer)
    x, w = leaf(64, 64), leaf(64, 64, seed=1)
    y = f(x, w)
    assert "matmul" in f.ir("fused")
    assert "matmul" in f.ir("traced")
    assert "backward" in f.ir("adjoint") or "cotangent" in f.ir("adjoint")
    assert "backward half" in f.explain()
    memory = f.memory()
    saved = [tensor.numpy(force=True).nbytes for tensor in y.grad_fn.saved_tensors if tensor is not x and tensor is not w]
    assert 0 < memory.saved_bytes == sum(saved)
    assert memory.arena_bytes >= memory.peak_bytes >= memory.saved_bytes
    assert {block.role.value for block in memory.blocks} >= {"primal", "adjoint"}
    assert "layer_backward" in f.ir("planned")
    assert len(f.kernels()) >= 1


def test_a_backward_pass_goes_on_into_what_was_computed_outside() -> None:
    """When the program is done: so it is refused where the function uses the leaves, or the way there has hooks."""
    def step(y: Any, factor: Any) -> Any:
        (y * factor).square().sum().backward()
        return y.detach() + 1

    x, w, compiled = leaf(3), leaf(3), aj.compile(step, backend="interpret")
    data = x.double()
    for function in (step, compiled):
        for _ in range(3):
            function(x * w.exp(), aj.tensor(2.0))
            function(data, aj.tensor(3.0))
    assert compiled.cache_info().traces == 2
    gradients = [x.grad.tolist(), w.grad.tolist()]
    x.grad = w.grad = None
    for _ in range(6):
        step(x * w.exp(), aj.tensor(2.0))
        step(data, aj.tensor(3.0))
    np.testing.assert_allclose([x.grad.tolist(), w.grad.tolist()], gradients, 1e-6)
    with pytest.raises(TraceError, match=r"leaves that the function uses, too[\s\S]*detach\(\)"):
        compiled(x * 2, x)
    (hooked := x * 2).register_hook(lambda gradient: None)
    with pytest.raises(TraceError, match=r"detach\(\)"):
        compiled(hooked, w.detach())
    freed = x * x
    freed.sum().backward()
    with pytest.raises(TraceError, match="was run outside"):
        compiled(freed, w.detach())
    (gradient,) = aj.compile(lambda y: aj.autograd.grad((y * y).sum(), y))(data)
    close(gradient, 2 * data)


@pytest.mark.parametrize("budget", [0, 0.5, 10_000])
def test_budgets(budget: Any) -> None:
    f = aj.compile(lambda x: np.exp(np.sin(np.tanh(x) * x)).sum(), memory_budget=budget)
    x, other = leaf(30, 30), leaf(30, 30)
    f(x).backward()
    np.exp(np.sin(np.tanh(other) * other)).sum().backward()
    close(x.grad, other.grad)


def test_a_compiled_function_within_another() -> None:
    inner = aj.compile(lambda x: np.sin(x) * 2)
    outer = aj.compile(lambda x: inner(inner(x)).sum())
    x, other = leaf(3), leaf(3)
    y = outer(x)
    y.backward()
    (np.sin(np.sin(other) * 2) * 2).sum().backward()
    close(x.grad, other.grad)
    assert inner.cache_info().traces == 0
    assert y.grad_fn.next_functions[0][0].variable is x


def test_in_place_within_the_function() -> None:
    @aj.compile
    def f(x: Any) -> Any:
        y = x * 1
        y[0] = 5.0
        y += x
        y.mul_(x)
        return y.sum()

    x = leaf(3)
    f(x).backward()
    expected = 4 * x.detach().numpy()
    expected[0] = 5.0 + 2 * x[0].item()
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-12)


def test_arguments_that_are_written_to() -> None:
    @aj.compile
    def f(x: Any) -> Any:
        x.add_(1.0)
        x[0] = 0.0
        return x * 2

    x = aj.tensor([1.0, 2.0, 3.0])
    memory, version = x.numpy(), x._writes[0]
    assert f(x).tolist() == [0.0, 6.0, 8.0]
    assert x.numpy() is memory
    assert x.tolist() == [0.0, 3.0, 4.0]
    assert x._writes[0] > version
    assert f(x).tolist() == [0.0, 8.0, 10.0]
    assert f.cache_info().traces == 1


def test_views_and_tensors_that_are_not_contiguous() -> None:
    f = aj.compile(lambda x: x.add_(1.0) * 2)
    x = aj.tensor(np.arange(6.0).reshape(2, 3))
    assert f(x.T).tolist() == [[2.0, 8.0], [4.0, 10.0], [6.0, 12.0]]
    assert x.tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    assert f(x[:, 1]).tolist() == [6.0, 12.0]
    assert x.tolist() == [[1.0, 3.0, 3.0], [4.0, 6.0, 6.0]]


def test_contiguous_copies_what_is_not_in_order() -> None:
    """`transpose(1, 2).contiguous().view(...)`: the end of every attention layer."""
    def heads(x: Any) -> Any:
        y = x.transpose(0, 1)
        z = y.contiguous()
        z += 1.0
        return z.view(-1), x.contiguous().view(-1), x[:, 1:].contiguous().view(-1), x.expand(2, 2, 3).contiguous().view(-1)

    x = aj.tensor(np.arange(6.0).reshape(2, 3))
    assert [y.tolist() for y in aj.compile(heads)(x)] == [y.tolist() for y in heads(x)]
    assert aj.compile(lambda x: [int(y.is_contiguous()) for y in (x, x.T, x[:, 1:], x[:1], x.T.contiguous())])(x) == [1, 0, 0, 1, 1]
