"""Captures and memory: programs end with their models, steady steps allocate nothing that stays, shared memory is seen."""

from __future__ import annotations

import gc
import tracemalloc
import weakref
from typing import Any

import numpy as np
import pytest
from support.compiler_threads import wait_for_compilers
from support.training import train_step

import adjit as aj
from adjit import nn, optim
from adjit.ir.errors import InPlaceError


def setting(width: int = 8) -> tuple[Any, Any, Any, Any]:
    aj.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, 2))
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    return model, optimizer, aj.tensor(np.ones((3, 4), np.float32)), aj.tensor(np.zeros((3, 2), np.float32))


def test_a_program_ends_with_its_model() -> None:
    step = aj.compile(train_step)
    model, optimizer, x, y = setting()
    references = [weakref.ref(item) for item in (model, optimizer, model[0], model[0].weight, x, y)]
    for _ in range(3):
        step(model, optimizer, x, y)
    references.append(weakref.ref(model[0].weight.grad))
    step.explain()
    assert step.cache_info().size == 1
    del model, optimizer, x, y
    gc.collect()
    assert [reference() for reference in references] == [None] * len(references)
    assert step.cache_info().size == 0
    other = setting()
    step(*other)
    assert step.cache_info() == (2, 2, 1, 128)


def test_arguments_are_not_kept() -> None:
    step = aj.compile(train_step)
    model, optimizer, x, y = setting()
    reference, memory = weakref.ref(x), weakref.ref(x.numpy())
    step(model, optimizer, x, y)
    del x
    gc.collect()
    assert reference() is None
    assert memory() is None


def test_old_gradients_are_not_kept() -> None:
    @aj.compile
    def accumulate(model: Any, x: Any, y: Any) -> Any:
        nn.functional.mse_loss(model(x), y).backward()

    model, _, x, y = setting()
    accumulate(model, x, y)
    accumulate(model, x, y)
    reference = weakref.ref(model[0].weight.grad)
    model.zero_grad()
    gc.collect()
    assert reference() is None


def test_a_method_does_not_keep_its_object() -> None:
    class Net(nn.Module):
        factor = 2.0

        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 2)

        @aj.compile
        def forward(self, x: Any) -> Any:
            return self.linear(x) * self.factor

    net = Net()
    net(aj.tensor(np.ones((2, 3), np.float32))).sum().backward()
    assert Net.forward.cache_info().size == 1
    reference = weakref.ref(net)
    del net
    gc.collect()
    assert reference() is None
    assert Net.forward.cache_info().size == 0


def test_a_result_keeps_its_graph_alive_after_the_program_ended() -> None:
    step = aj.compile(lambda model, x: model(x).sum())
    model, _, x, _ = setting()
    weight = model[0].weight
    loss = step(model, x)
    del model
    gc.collect()
    assert step.cache_info().size == 0
    loss.backward()
    assert weight.grad is not None


def test_a_steady_step_allocates_results_and_gradients_only() -> None:
    width = 3000
    step = aj.compile(train_step)
    model, optimizer, x, y = setting(width)
    for _ in range(3):
        step(model, optimizer, x, y)
        wait_for_compilers()
    places = [tensor.numpy(force=True).ctypes.data for tensor in model.parameters()]
    places += [tensor.numpy(force=True).ctypes.data for known in optimizer.state.values() for tensor in known.values()]
    gradients = sum(parameter.grad.numpy().nbytes for parameter in model.parameters())
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(5):
            tracemalloc.reset_peak()
            step(model, optimizer, x, y)
        after, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak - before < 2 * gradients + 20_000       # the old ones are there until the step is done
    assert after - before < 20_000 + gradients
    now = [tensor.numpy(force=True).ctypes.data for tensor in model.parameters()]
    now += [tensor.numpy(force=True).ctypes.data for known in optimizer.state.values() for tensor in known.values()]
    assert now == places
    assert "updated" in step.ir("planned")


def test_parameters_that_are_no_contiguous_memory() -> None:
    def run(step: Any) -> Any:
        model, optimizer, x, y = setting()
        model[0].weight.data = aj.tensor(np.ones((4, 8), np.float32)).T
        for _ in range(5):
            step(model, optimizer, x, y)
        return [parameter.detach().numpy().copy() for parameter in model.parameters()]

    step = aj.compile(train_step)
    for found, expected in zip(run(step), run(train_step), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_an_argument_on_the_memory_of_a_parameter() -> None:
    def step(model: Any, optimizer: Any, x: Any, y: Any, old: Any) -> Any:
        loss = train_step(model, optimizer, x, y)
        return loss, old * 2

    def run(step: Any) -> Any:
        model, optimizer, x, y = setting()
        out = [step(model, optimizer, x, y, old)[1].numpy().copy()
               for old in (model[0].weight.detach(), model[0].weight.detach().clone(), model[0].weight.detach(), model[2].weight.detach())]
        return [*out, model[0].weight.detach().numpy().copy()]

    for found, expected in zip(run(aj.compile(step)), run(step), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_memory_that_is_partly_shared_is_refused_where_it_is_written_to() -> None:
    memory = aj.tensor(np.arange(6.0))
    first, second = memory[:4], memory[2:]

    @aj.compile
    def f(a: Any, b: Any) -> Any:
        a.add_(1.0)
        return b * 2

    with pytest.raises(InPlaceError, match="share memory"):
        f(first, second)
    assert memory.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert aj.compile(lambda a, b: (a + b).sum())(first, second).item() == 20.0
