"""`compile(module)`: the module is looked at again at every call, and what it may not do is refused, as in a function that uses it."""

from __future__ import annotations

import functools
import json
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.each import parametrize_within

import adjit as aj
from adjit import nn
from adjit.ir.errors import TraceError


class Scaled(nn.Module):
    """Has state of Python's that its forward reads, and may change."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.BatchNorm1d(4))
        self.scale = 1.0
        self.calls = 0
        self.log: list[Any] = []
        self.change: Callable[[Any, Any], Any] = lambda module, hidden: None

    def forward(self, x: Any) -> Any:
        hidden = self.inner(x)
        self.change(self, hidden)
        return hidden * self.scale


def call(module: Any, x: Any) -> Any:
    return module(x)


class Caller:
    """Calls a module, and is no module."""

    def __init__(self, module: Any):
        self.module = module

    def __call__(self, x: Any) -> Any:
        return self.module(x)


WAYS: dict[str, Callable[[Any], Any]] = {
    "module": lambda module: module, "forward": lambda module: module.forward, "call": lambda module: module.__call__,
    "partial of it": functools.partial, "partial of its method": lambda module: functools.partial(module.forward),
    "partial with it": lambda module: functools.partial(call, module), "keyword": lambda module: functools.partial(call, module=module),
    "object": Caller, "closure": lambda module: lambda x: module(x)}


def change_hook(module: Any) -> None:
    module.inner[0].register_forward_hook(lambda layer, given, result: result * 2)


@pytest.mark.share(2)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("change", [
    lambda module: module.eval(),
    lambda module: setattr(module, "scale", 3.0),
    lambda module: module.inner.__setitem__(1, nn.Tanh()),
    lambda module: setattr(module.inner[0], "weight", nn.Parameter(aj.tensor(np.ones((4, 4), np.float32)))),
    lambda module: module.inner.append(nn.Tanh()),
    change_hook])
def test_a_change_of_the_module_is_seen(way: str, change: Callable[[Any], Any]) -> None:
    module = Scaled()
    compiled = aj.compile(WAYS[way](module))
    x = aj.tensor(np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32))
    argument = {"x": x} if way == "keyword" else None
    for _ in range(2):
        compiled(**argument) if argument else compiled(x)
    assert compiled.cache_info().traces == 1
    change(module)
    aj.manual_seed(5)
    got = compiled(**argument) if argument else compiled(x)
    aj.manual_seed(5)
    np.testing.assert_allclose(got.numpy(force=True), module(x).numpy(force=True), rtol=1e-5, atol=1e-6)
    assert compiled.cache_info().traces == 2


@parametrize_within("way", WAYS)
def test_the_sign_of_a_zero_of_the_module_is_seen(way: str) -> None:
    """0.0 == -0.0, but products with them are zeros of other signs."""
    module = Scaled().eval()
    compiled = aj.compile(WAYS[way](module))
    x = aj.tensor(np.ones((6, 4), np.float32))
    for zero in (0.0, -0.0, 0.0):
        module.scale = zero
        got = compiled(x=x) if way == "keyword" else compiled(x)
        np.testing.assert_array_equal(np.signbit(got.numpy(force=True)), np.signbit(module(x).numpy(force=True)))


@pytest.mark.parametrize("way", WAYS)
def test_lists_of_the_module_are_filled_by_each_call(way: str) -> None:
    module = Scaled()
    module.change = lambda module, hidden: module.log.append(hidden)
    x = aj.tensor(np.ones((6, 4), np.float32))
    found = []
    for run in (aj.compile(WAYS[way](module)), module):
        aj.manual_seed(5)
        results = [run(x=x) for _ in range(2)]
        assert len(module.log) == 2
        for result, kept in zip(results, module.log, strict=True):
            np.testing.assert_array_equal(result.numpy(force=True), kept.numpy(force=True))
        found.append([kept.numpy(force=True) for kept in module.log])
        module.log.clear()
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("way", WAYS)
def test_counts_are_those_of_the_calls(way: str) -> None:
    module = Scaled()
    module.change = lambda module, hidden: setattr(module, "calls", module.calls + 1)
    compiled = aj.compile(WAYS[way](module))
    x = aj.tensor(np.ones((6, 4), np.float32))
    for number in range(1, 5):
        compiled(x=x)
        assert module.calls == number


def test_what_is_no_report_is_of_the_module() -> None:
    module = Scaled()
    compiled = aj.compile(module)
    assert [id(parameter) for parameter in compiled.parameters()] == [id(parameter) for parameter in module.parameters()]
    assert list(compiled.state_dict()) == list(module.state_dict())
    compiled.eval()
    assert not module.training
    assert not compiled.training
    compiled.scale = 3.0
    assert module.scale == 3.0
    with pytest.raises(AttributeError, match="'nothing'"):
        _ = compiled.nothing
    with pytest.raises(AttributeError, match="'nothing'"):
        _ = aj.compile(call).nothing


def test_a_change_whose_line_is_not_known_says_so() -> None:
    module, another_layer = Scaled(), operator.methodcaller("append", nn.Tanh())
    module.change = lambda module, hidden: another_layer(module.inner)
    with pytest.raises(TraceError, match="the line that does it is not known"):
        aj.compile(module)(aj.tensor(np.ones((6, 4), np.float32)))


def test_texts_that_python_uses_are_those_of_the_call(capsys: pytest.CaptureFixture[str]) -> None:
    def shown(x: aj.Tensor, n: int) -> None:
        print("begin")
        print(", ".join([str(x.sum()), str(x * 2)]), str(x.sum()).rjust(13) + f"{x[0]}".ljust(5) + "|")
        print(json.dumps({"n": n}))     # Python needs the integer, which ends a trace that has printed

    compiled, texts = aj.compile(shown), []
    for function in (shown, compiled):
        for n in range(4):
            function(aj.tensor([1.0, 2.0 + n % 2]), n)
        texts.append(capsys.readouterr().out)
    assert texts[1] == texts[0]


def test_derivatives_print_the_values_of_the_call(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: aj.Tensor) -> aj.Tensor:
        y = (x * x).sum()
        print("y =", y)
        return y

    compiled = aj.compile(lambda x: aj.grad(f)(x))
    for gradient in (aj.grad(f), compiled):
        for n in range(3):
            gradient(aj.ones(2) * n)
        assert capsys.readouterr().out == "".join(f"y = tensor({2 * n * n}., grad_fn=<SumBackward0>)\n" for n in range(3))
    aj.scan(lambda c, x: (print("c", c), (c + x, c))[1], aj.zeros(()), aj.ones(2))
    assert "c <placeholder for a tensor f32[]" in capsys.readouterr().out       # which is another one in each run


def test_explain_lists_all_programs() -> None:
    module = Scaled()
    compiled = aj.compile(module)
    x = aj.tensor(np.ones((6, 4), np.float32))
    compiled(x)
    assert "programs, traced" not in compiled.explain()
    module.eval()
    compiled(x)
    module.train()
    compiled(x)
    compiled(aj.tensor(np.ones((7, 4), np.float32)))
    text = compiled.explain()
    assert "3 programs, traced because\n  1. first call; 2 calls\n  2. Scaled.training changed; 1 call\n  3. x changed" in text
    assert "(this program)" in text.partition("  3. ")[2].splitlines()[0]
