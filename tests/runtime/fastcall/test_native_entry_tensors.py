"""Calls of programs with tensors that go straight to machine code: what they notice, what they write, and that nothing leaks."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.compiler_threads import wait_for_compilers
from support.native_calls import needs_entry, runs_natively

import adjit as aj
from adjit import nn

pytestmark = needs_entry


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(2, 3), nn.Linear(3, 1)

    def forward(self, x: aj.Tensor) -> aj.Tensor:
        hidden = self.first(x)
        return self.second(nn.functional.relu(hidden) if self.training else hidden)


class Training:
    """A model, its optimiser, data, and the compiled step."""

    def __init__(self, backend: str = "native", **options: Any):
        aj.manual_seed(3)
        self.net = net = Net()
        self.optimizer = optimizer = aj.optim.SGD(net.parameters(), lr=0.1, **options)
        data = np.random.default_rng(0).standard_normal((2, 8, 2)).astype(np.float32)
        self.x, self.y = aj.tensor(data[0]), aj.tensor(data[1][:, :1].copy())

        def step(x: aj.Tensor, y: aj.Tensor) -> aj.Tensor:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(net(x), y)
            loss.backward()
            optimizer.step()
            return loss

        self.step = aj.compile(step, backend=backend)

    def hot(self) -> Training:
        for _ in range(4):
            self.step(self.x, self.y)
        wait_for_compilers()
        return self

    def is_native(self, *tensors: aj.Tensor) -> bool:
        return runs_natively(self.step, *(tensors or (self.x, self.y)))

    def state(self) -> list[np.ndarray]:
        return [array.copy() for p in self.net.parameters() for array in (p.array, *([] if p.grad is None else [p.grad.array]))]


def same_state(one: Training, other: Training) -> None:
    for a, b in zip(one.state(), other.state(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("options", [{}, {"momentum": 0.9}], ids=str)
def test_steps_are_those_of_the_interpreter(options: dict[str, Any]) -> None:
    native, other = Training(**options), Training("interpret", **options)
    for _ in range(12):
        a, b = native.step(native.x, native.y), other.step(other.x, other.y)
        assert type(a) is type(b) is aj.Tensor
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5)
        same_state(native, other)
    assert native.is_native()


CHANGES: dict[str, tuple[Callable[[Training], Any], bool]] = {
    "rate": (lambda t: t.optimizer.param_groups[0].update(lr=0.01), True),
    "no rate": (lambda t: t.optimizer.param_groups[0].update(lr=0.0), False),
    "whole rate": (lambda t: t.optimizer.param_groups[0].update(lr=1), False),
    "mode": (lambda t: t.net.eval(), False),
    "frozen": (lambda t: t.net.first.weight.requires_grad_(False), False),
    "content": (lambda t: setattr(t.net.first.weight, "data", t.net.first.weight.data * 2.0), True),
    "in place": (lambda t: t.net.first.bias.data.fill_(0.5), True),
    "another parameter": (lambda t: setattr(t.net.second, "bias", nn.Parameter(np.ones(1, np.float32))), False),
    "another layer": (lambda t: (aj.manual_seed(5), setattr(t.net, "second", nn.Linear(3, 1))), False),
    "attribute": (lambda t: setattr(t.net, "note", 1), False),
    "hook": (lambda t: t.net.first.weight.register_hook(lambda gradient: gradient * 2.0), False),
}


@pytest.mark.parametrize("name", CHANGES)
def test_changes_are_noticed(name: str) -> None:
    native, other = Training().hot(), Training("interpret").hot()
    change, stays = CHANGES[name]
    for training in (native, other):
        change(training)
    assert native.is_native() == stays
    other.step(other.x, other.y)
    same_state(native, other)
    for _ in range(4):
        np.testing.assert_allclose(native.step(native.x, native.y).numpy(), other.step(other.x, other.y).numpy(), rtol=1e-4, atol=1e-6)
    same_state(native, other)


def test_other_arguments_are_left_to_python() -> None:
    native = Training().hot()
    x, y = native.x, native.y
    wide = aj.tensor(x.numpy().astype(np.float64))
    for others in ((wide, y), (x[:4], y[:4]), (aj.tensor(x.numpy(), requires_grad=True), y), (nn.Parameter(x.numpy()), y), (x.numpy(), y)):
        assert not native.is_native(*others)
    assert native.is_native()
    with pytest.raises(TypeError):
        native.step(x)


def test_views_are_taken_while_their_graph_is_as_it_was() -> None:
    function = aj.compile(lambda a: a * 2.0, backend="native")
    data = aj.tensor(np.arange(8.0).reshape(4, 2))
    for start in range(3):
        function(data[start:start + 2])
    for part in (data[:2], data[1:][:2], data[2:]):
        assert runs_natively(function, part)
        np.testing.assert_array_equal(function(part).numpy(), part.numpy() * 2)
    part = data[:2]
    data.mul_(aj.tensor(np.array(2.0), requires_grad=True))
    assert not runs_natively(function, part)
    assert part.requires_grad
    assert function(part).requires_grad
    with aj.no_grad():
        assert not function(data[2:]).requires_grad


def test_one_tensor_given_twice() -> None:
    function = aj.compile(lambda a, b: a * 2.0 + b, backend="native")
    a, b = aj.tensor([1.0, 2.0]), aj.tensor([3.0, 4.0])
    for _ in range(3):
        function(a, b)
    assert runs_natively(function, a, b)
    assert runs_natively(function, b, a)
    assert not runs_natively(function, a, a)
    np.testing.assert_array_equal(function(a, a).numpy(), [3.0, 6.0])


def test_a_tensor_that_is_reached_as_well() -> None:
    own = aj.tensor([1.0, 2.0])

    def add(a: aj.Tensor) -> aj.Tensor:
        own.add_(a)
        return own * 2.0

    function = aj.compile(add, backend="native")
    other = aj.tensor([10.0, 20.0])
    for _ in range(3):
        function(other)
    assert runs_natively(function, other)
    np.testing.assert_array_equal(own.numpy(), [41.0, 82.0])
    function(own)
    np.testing.assert_array_equal(own.numpy(), [82.0, 164.0])


def test_memory_that_is_shared_is_refused_as_ever() -> None:
    native = Training().hot()
    whole = np.linspace(-1, 1, 22, dtype=np.float32)
    native.net.first.weight.array = whole[:6].reshape(3, 2)
    before = native.state()
    with pytest.raises(aj.errors.InPlaceError):
        native.step(aj.as_tensor(whole[:16].reshape(8, 2)), native.y)
    for now, then in zip(native.state(), before, strict=True):
        np.testing.assert_array_equal(now, then)
    native.x = aj.as_tensor(whole[6:].reshape(8, 2))
    assert native.hot().is_native()


def test_gradients_flow_through_results() -> None:
    aj.manual_seed(0)
    net = Net()
    function, x = aj.compile(net, backend="native"), aj.tensor(np.ones((4, 2), np.float32))
    for _ in range(3):
        function(x)
    assert runs_natively(function, x)
    result = function(x)
    assert result.requires_grad
    result.sum().backward()
    found = [p.grad.numpy().copy() for p in net.parameters()]
    net.zero_grad()
    net(x).sum().backward()
    for gradient, p in zip(found, net.parameters(), strict=True):
        np.testing.assert_allclose(gradient, p.grad.numpy(), rtol=1e-5)
    with aj.no_grad():
        assert not function(x).requires_grad


def test_modules_as_arguments() -> None:
    function = aj.compile(lambda net, x: net(x).detach(), backend="native")
    x, nets = aj.tensor(np.ones((4, 2), np.float32)), [Net(), Net()]
    for _ in range(3):
        for net in nets:
            np.testing.assert_allclose(function(net, x).numpy(), net(x).detach().numpy(), rtol=1e-5)
    assert all(runs_natively(function, net, x) for net in nets)
    before = function.cache_info().size
    del net, nets[1:]
    gc.collect()
    assert function.cache_info().size == before - 1
    np.testing.assert_allclose(function(nets[0], x).numpy(), nets[0](x).detach().numpy(), rtol=1e-5)
    other = Net()
    np.testing.assert_allclose(function(other, x).numpy(), other(x).detach().numpy(), rtol=1e-5)


def test_no_reference_is_lost_or_kept() -> None:
    native = Training(momentum=0.9).hot()
    net, optimizer, x, y = native.net, native.optimizer, native.x, native.y
    parameters = list(net.parameters())
    leaves: list[Any] = [net, optimizer, x, y, x.array, y.array, *parameters, *(p.array for p in parameters), None, True, "array",
                         np.dtype("f4"), optimizer.param_groups[0]["lr"]]
    native.step(x, y)
    gc.collect()
    tracked, before = len(gc.get_objects()), [sys.getrefcount(leaf) for leaf in leaves]
    for _ in range(5000):
        native.step(x, y)
    after = [sys.getrefcount(leaf) for leaf in leaves]
    assert max(abs(a - b) for a, b in zip(after, before, strict=True)) < 200
    assert abs(len(gc.get_objects()) - tracked) < 100
    assert native.is_native()
