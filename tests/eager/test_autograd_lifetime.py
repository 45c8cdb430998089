"""How long the dynamic graph keeps what: freed by backward, node by node; freed with its last tensor; as little as PyTorch keeps."""

from __future__ import annotations

import gc
import os
import platform
import subprocess
import sys
import tracemalloc
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit.eager.node import Node


def parameter(*shape: int) -> Any:
    return aj.tensor(np.linspace(0.1, 0.9, int(np.prod(shape))).reshape(shape), requires_grad=True)


def nodes(tensor: Any) -> list[Node]:
    """All nodes below a tensor."""
    found: dict[Node, None] = {}
    stack = [tensor.grad_fn]
    while stack:
        node = stack.pop()
        if node not in found:
            found[node] = None
            stack.extend(below for below, _ in node.next_functions if below is not None)
    return list(found)


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_saved_arrays_are_released_one_by_one(no_collector: None) -> None:
    """When a node is run, what later nodes of the forward pass had saved is gone, and what earlier ones saved is not."""
    x = parameter(5)
    steps = [x]
    for _ in range(6):
        steps.append(steps[-1].exp())       # each node saves its result
    arrays = [weakref.ref(step.array) for step in steps[1:]]
    seen: list[list[bool]] = []
    for step in steps[1:]:
        step.grad_fn.register_hook(lambda pulled, given: seen.append([array() is not None for array in arrays]))
    root = steps[-1].sum()
    del steps, step
    root.backward()
    assert seen == [[True] * (6 - done) + [False] * done for done in range(6)]
    assert not any(array() for array in arrays)
    assert x.grad is not None


def test_backward_holds_no_more_than_one_step_beyond_what_is_saved(no_collector: None) -> None:
    """Without release on the way, the peak of a backward pass would be all saved arrays and all cotangents."""
    size = 100_000
    x = parameter(size)

    def run() -> int:
        y = x
        for _ in range(10):
            y = y.sin()
        root = y.sum()
        del y
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        root.backward()
        peak = tracemalloc.get_traced_memory()[1] - before
        tracemalloc.stop()
        x.grad = None
        return peak

    run()
    assert run() < 4 * 8 * size     # a cotangent, a gradient, a temporary: not ten of each


def test_forward_memory_is_given_back_by_backward(no_collector: None) -> None:
    size = 50_000
    x = parameter(size)
    (x.exp() * x).sum().backward()
    tracemalloc.start()
    y = x
    for _ in range(5):
        y = y.exp() * 0.1
    root = y.sum()
    held = tracemalloc.get_traced_memory()[0]
    assert held > 5 * 8 * size
    root.backward()
    del y
    assert tracemalloc.get_traced_memory()[0] < held - 4 * 8 * size
    tracemalloc.stop()


def test_second_backward_is_refused() -> None:
    x = parameter(2)
    y = (x * x).sum()
    y.backward()
    with pytest.raises(aj.errors.GraphFreedError, match="retain_graph=True"):
        y.backward()
    np.testing.assert_array_equal(x.grad.numpy(), 2 * x.detach().numpy())
    with pytest.raises(aj.errors.GraphFreedError, match="MulBackward0"):
        y.grad_fn.next_functions[0][0].saved_tensors    # noqa: B018


def test_nothing_saved_nothing_to_refuse() -> None:
    x = parameter(2)
    y = (x + 1.0).sum()
    y.backward()
    y.backward()
    assert x.grad.tolist() == [2, 2]


def test_retained_graph_gives_accumulating_gradients() -> None:
    x = parameter(3)
    y = (x * x).sum()
    for turn in (1, 2, 3):
        y.backward(retain_graph=True)
        np.testing.assert_allclose(x.grad.numpy(), turn * 2 * x.detach().numpy())
    y.backward()
    with pytest.raises(aj.errors.GraphFreedError):
        y.backward(retain_graph=True)


def test_create_graph_retains_the_graph() -> None:
    x = parameter(3)
    y = (x * x).sum()
    aj.autograd.grad(y, x, create_graph=True)
    y.backward()
    aj_grad = x.grad.numpy()
    np.testing.assert_allclose(aj_grad, 2 * x.detach().numpy())


def test_graph_of_a_dead_tensor_is_freed_at_once(no_collector: None) -> None:
    x = parameter(4)
    y = (x.exp() * x).sum()
    graph = [weakref.ref(node) for node in nodes(y)]
    assert len(graph) == 4
    del y
    assert not any(node() for node in graph)


def _elementwise(x: Any) -> None:
    ((x * 2).exp() @ x.T).tanh().sum().backward()


def _views_and_writes(x: Any) -> None:
    y = x * 2
    part = y[1:]
    part.mul_(2.0)
    y[0] = 3.0
    y.retain_grad()
    y.register_hook(lambda gradient: None)
    y.sum().backward()


def _second_order(x: Any) -> None:
    (gradient,) = aj.autograd.grad((x ** 3).sum(), x, create_graph=True)
    gradient.sum().backward()


def _gradients_with_a_graph(x: Any) -> None:
    y = (x ** 3).sum()
    (gradient,) = aj.autograd.grad(y, x, create_graph=True)
    del y
    assert gradient.requires_grad


def _training_step(x: Any) -> None:
    model = aj.nn.Linear(4, 2)
    optimizer = aj.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(2):
        optimizer.zero_grad()
        aj.nn.functional.cross_entropy(model(x.detach().to(np.float32)), aj.tensor([0, 1, 1])).backward()
        optimizer.step()


class _Doubled(aj.autograd.Function):
    """Writes to its operand and saves it, as functions that save memory do."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.mark_dirty(x)
        x.mul_(2)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x, = ctx.saved_tensors
        return grad * 2 + 0 * x


class _Exponential(aj.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        result = x.exp()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        result, = ctx.saved_tensors
        return grad * result


def _functions_of_users(x: Any) -> None:
    _Exponential.apply(_Doubled.apply(x * 1))
    y = _Exponential.apply(_Doubled.apply(x * 1))
    (first,) = aj.autograd.grad(y.sum(), x, create_graph=True)
    first.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 4 * np.exp(2 * x.numpy(force=True)))


def _views_on_a_device(x: Any) -> None:
    there = x.detach().to("cuda")
    there[0] += 1
    there.reshape(4, 3)[1:] *= 2


def test_no_reference_cycles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADJIT_CUDA", "emulated")
    for program in (_elementwise, _views_and_writes, _second_order, _gradients_with_a_graph, _training_step, _functions_of_users,
                    _views_on_a_device):
        x = parameter(3, 4)
        for _ in range(2):
            program(x)
            x.grad = None
        gc.collect()
        gc.disable()
        for _ in range(5):
            program(x)
            x.grad = None
        found = gc.collect()
        gc.enable()
        assert found == 0, program.__name__


def test_a_chain_of_100_000_nodes() -> None:
    depth = 100_000
    assert depth > 10 * sys.getrecursionlimit()
    x = aj.tensor(1.0, requires_grad=True)
    y = x
    for _ in range(depth):
        y = y + x
    y.backward()
    assert x.grad.item() == depth + 1
    del y


def test_a_chain_of_100_000_nodes_that_never_runs_backward() -> None:
    x = aj.tensor(0.5, requires_grad=True)
    y = x
    for _ in range(100_000):
        y = y.sin()
    del y
    assert x.grad is None


def test_gradients_of_gradients_of_a_deep_chain() -> None:
    x = aj.tensor(np.array(0.1), requires_grad=True)
    y = x
    for _ in range(3000):
        y = y * 1.0001
    (first,) = aj.autograd.grad(y * y, x, create_graph=True)
    (second,) = aj.autograd.grad(first, x)
    assert second.item() == pytest.approx(2 * 1.0001 ** 6000)


def test_deep_views_follow_writes() -> None:
    x = parameter(3)
    base = x * 1.0
    view = base
    for _ in range(2000):
        view = view[:]
    base.mul_(2.0)
    view.mul_(3.0)
    base.sum().backward()
    assert x.grad.tolist() == [6, 6, 6]


TORCH_SAVES = 16_900
"""Bytes that PyTorch 2.13 keeps for the backward pass of this model besides its parameters, by `saved_tensors_hooks`: the input (2560), two
activations (6400 each), the log probabilities (1280), the labels (256), the total weight (4)."""


def test_a_three_layer_network_keeps_no_more_than_in_pytorch() -> None:
    nn = aj.nn
    model = nn.Sequential(nn.Linear(20, 50), nn.ReLU(), nn.Linear(50, 50), nn.ReLU(), nn.Linear(50, 10))
    generator = np.random.default_rng(0)
    data = aj.tensor(generator.normal(size=(32, 20)).astype(np.float32))
    labels = aj.tensor(generator.integers(0, 10, 32))
    loss = nn.functional.cross_entropy(model(data), labels)
    parameters = [tensor.detach().numpy() for tensor in model.parameters()]
    kept: list[np.ndarray] = []
    for node in nodes(loss):
        for saved in node.saved_tensors:
            array = saved.detach().numpy()
            if not any(np.shares_memory(array, known) for known in (*parameters, *kept)):
                kept.append(array)
    assert sum(array.nbytes for array in kept) <= TORCH_SAVES


def test_the_peak_of_a_training_step_is_what_is_saved_and_little_more(no_collector: None) -> None:
    nn = aj.nn
    model = nn.Sequential(nn.Linear(20, 400), nn.ReLU(), nn.Linear(400, 400), nn.ReLU(), nn.Linear(400, 10))
    data = aj.tensor(np.ones((256, 20), np.float32))
    labels = aj.tensor(np.zeros(256, np.int64))

    def forward_and_backward() -> int:
        model.zero_grad()
        tracemalloc.start()
        nn.functional.cross_entropy(model(data), labels).backward()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    forward_and_backward()
    activation, weights = 256 * 400 * 4, 4 * sum(tensor.array.size for tensor in model.parameters())
    # two saved activations, a product that its relu replaces, the cotangents on the way, and the gradients
    assert forward_and_backward() < 5 * activation + 2 * weights


def test_parts_of_a_gradient_that_nobody_else_has_are_not_copied() -> None:
    """A view gives a computed cotangent on to the leaf; the user's own is copied."""
    x, given = aj.ones(3, 4, requires_grad=True), aj.ones(12)
    y = x.reshape(12) * 2.0
    y.retain_grad()
    y.backward(given)
    assert x.grad.numpy().base is not None
    x.grad += 1.0
    np.testing.assert_array_equal(y.grad.numpy(), given.numpy())
    x.grad = None
    x.reshape(12).backward(given)
    assert not np.shares_memory(x.grad.numpy(), given.numpy())
    aj.stack([x, x]).backward(aj.ones(2, 3, 4))
    np.testing.assert_array_equal(x.grad.numpy(), np.full((3, 4), 3.0))
    twice = aj.ones(3, requires_grad=True)
    (twice.t() + twice.reshape(3)).backward(aj.ones(3))
    np.testing.assert_array_equal(twice.grad.numpy(), np.full(3, 2.0))


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the limits are those of glibc")
def test_freed_arrays_are_kept_for_the_next_step() -> None:
    """Several arrays of 4 MB that are freed together do not go back to the system."""
    program = """
import resource
import numpy as np
import adjit as aj
step = lambda: [np.ones(1_000_000, np.float32) for _ in range(6)]
step()
aj.ones(300, 300) + 1.0
step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(4):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    assert int(done.stdout) < 2000       # 24,000 pages otherwise
