"""Captures that fail: nothing that the user holds has changed, and the error says what to do."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.backends import COMPILING
from support.training import train_step

import adjit as aj
from adjit import nn, optim
from adjit.eager.generator import default_generator
from adjit.ir.errors import TraceError, UnsupportedError
from adjit.runtime import compile_graph
from adjit.runtime.native.executable import NativeExecutable
from adjit.runtime.numba.executable import Executable


class Counting(nn.Module):
    """A network with an attribute of Python's that a step may change."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.norm = nn.BatchNorm1d(2)
        self.dropout = nn.Dropout(0.5)
        self.calls = 0
        self.seen: list[Any] = [1]
        self.names = {"a"}
        self.table = {"a": 1}

    def forward(self, x: Any) -> Any:
        return self.dropout(self.norm(self.linear(x)))


def everything(model: Any, optimizer: Any) -> Any:
    """All that a step could change, as plain data; tensors by their identity, bytes, version and gradient."""
    tensors = [*model.parameters(), *model.buffers(), default_generator.key, default_generator.counter]
    tensors += [tensor for known in optimizer.state.values() for tensor in known.values()]
    return (
        [(id(t), t.numpy(force=True).tobytes(), id(t.array), t._writes[0], id(t._grad), t._node, t._requires_grad,
          None if t._grad is None else t._grad.numpy(force=True).tobytes()) for t in tensors],
        [(id(parameter), sorted(known)) for parameter, known in optimizer.state.items()],
        [{key: value for key, value in group.items() if key != "params"} for group in optimizer.param_groups],
        [sorted(vars(module)) for module in model.modules()],
        (model.calls, copy.copy(model.seen), set(model.names), dict(model.table), model.training, model.dropout.training))


def setting(**options: Any) -> tuple[Any, Any, Any, Any]:
    aj.manual_seed(3)
    model = Counting()
    return model, optim.Adam(model.parameters(), **options), aj.tensor(np.ones((4, 3), np.float32)), aj.tensor(np.zeros((4, 2), np.float32))


def changing(change: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def step(model: Any, optimizer: Any, x: Any, y: Any) -> Any:
        loss = train_step(model, optimizer, x, y)
        change(model, optimizer)
        return loss
    return step


def fail(*_: Any) -> None:
    raise RuntimeError("the user's own")


@pytest.mark.share(2)
@pytest.mark.parametrize("trained", [False, True])
@pytest.mark.parametrize(("change", "error", "words"), [
    (fail, RuntimeError, "the user's own"),
    (lambda model, optimizer: np.shares_memory(model.linear.weight, optimizer), UnsupportedError, "shares_memory"),
    (lambda model, optimizer: np.asarray(model.linear.weight.detach() > 0), TraceError, "value"),
    (lambda model, optimizer: (model.seen.append(model.linear.weight.sum()), model.seen[0]), TraceError, "Counting.seen"),
    (lambda model, optimizer: model.names.add("b"), TraceError, "Counting.names"),
    (lambda model, optimizer: delattr(model, "calls"), TraceError, "Counting.calls"),
    (lambda model, optimizer: setattr(model.linear, "weight", nn.Parameter(model.linear.weight.detach())), TraceError, "weight"),
])
def test_what_fails_changes_nothing(change: Any, error: type[Exception], words: str, trained: bool) -> None:
    model, optimizer, x, y = setting()
    if trained:
        train_step(model, optimizer, x, y)
    step = aj.compile(changing(change))
    before = everything(model, optimizer)
    for _ in range(2):
        with pytest.raises(error, match=words):
            step(model, optimizer, x, y)
        assert everything(model, optimizer) == before
    assert step.cache_info() == (0, 0, 0, 128)
    aj.compile(train_step)(model, optimizer, x, y)
    assert everything(model, optimizer) != before


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("where", ["compile", "run"])
@pytest.mark.parametrize("backend", COMPILING)
def test_interrupted(error: type[BaseException], where: str, backend: str, exhaustive: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if backend == "numba" and not exhaustive and not (error is MemoryError and where == "run"):
        pytest.skip("numba compiles for seconds: --exhaustive")
    model, optimizer, x, y = setting()
    step = aj.compile(train_step, backend=backend)
    executable = NativeExecutable if backend == "native" else Executable
    monkeypatch.setenv("ADJIT_CACHE_SIZE", "0")
    before = everything(model, optimizer)

    def interrupted(*_: Any, **__: Any) -> Any:
        raise error

    with monkeypatch.context() as patch:
        if where == "run":
            patch.setattr(executable, "run", interrupted)
        else:
            patch.setattr(compile_graph, "make_executable", interrupted)
        with pytest.raises(error):
            step(model, optimizer, x, y)
        assert everything(model, optimizer) == before
        assert step.cache_info() == (0, 0, 0, 128)
    step(model, optimizer, x, y)
    before = everything(model, optimizer)
    if where == "run":
        with monkeypatch.context() as patch:
            patch.setattr(executable, "run", interrupted)
            with pytest.raises(error):
                step(model, optimizer, x, y)
            assert everything(model, optimizer) == before
    step(model, optimizer, x, y)
    assert step.cache_info().traces == 1


def test_arguments_that_do_not_fit_change_nothing() -> None:
    model, optimizer, x, y = setting()
    step = aj.compile(train_step)
    step(model, optimizer, x, y)
    before = everything(model, optimizer)
    with pytest.raises(ValueError, match="shape"):
        step(model, optimizer, aj.tensor(np.ones((4, 5), np.float32)), y)
    assert everything(model, optimizer) == before
    step(model, optimizer, x, y)
    assert step.cache_info() == (1, 1, 1, 128)


def test_values_are_not_read_while_tracing() -> None:
    f = aj.compile(lambda x: x * x.sum().item())
    assert [f(aj.tensor([1.0, y])).tolist() for y in (2.0, 3.0)] == [[3.0, 6.0], [4.0, 12.0]]      # guards, see test_value_guards.py
    assert aj.compile(lambda x: x * x.numpy())(aj.tensor([1.0, 2.0])).tolist() == [1, 4]
    g = aj.compile(lambda x: x * np.asarray(x))
    with pytest.raises(TraceError):
        g(aj.tensor([1.0, 2.0]))


class Box:
    """Any object."""


def test_tensors_that_escape_say_so() -> None:
    """But for those that a call stores again."""
    box, name = Box(), "kept"
    f = aj.compile(lambda x: setattr(box, "held", x * 2) or x.sum())
    for number in (1.0, 2.0, 3.0):
        f(aj.tensor([1.0, number]))
        assert box.held.tolist() == [2.0, 2 * number]        # type: ignore[attr-defined]
    f = aj.compile(lambda x: setattr(box, name, x * 2) or x.sum())
    with pytest.raises(TraceError, match=r"box\.kept in a way that is not followed \(setattr with a computed name"):
        f(aj.tensor([1.0, 2.0]))
    assert not hasattr(box, "kept")


def test_a_tensor_of_a_closure_comes_back_as_it_was() -> None:
    w = aj.tensor([1.0, 2.0], requires_grad=True)
    graph = w * 2
    before = dict(vars(w)), dict(vars(graph))

    @aj.compile
    def f(x: Any) -> Any:
        return (graph * w * x).sum()

    f(aj.tensor([1.0, 1.0])).backward()
    assert w.grad.tolist() == [4.0, 8.0]        # 2 w, and as much through the graph outside
    w._grad = None
    changing = {"_grad": None, "_accumulator": None}
    assert {**vars(w), **changing} == {**before[0], **changing}
    assert vars(graph) == before[1]


def test_a_parameter_of_an_ordinary_array_is_not_written() -> None:
    array = np.ones(3, np.float32)

    def forward(x: Any) -> Any:
        return x * nn.init.zeros_(nn.Parameter(array))

    with pytest.raises(TraceError, match="a tensor or module that was made while the function was traced") as caught:
        aj.compile(forward)(aj.tensor(np.ones(3, np.float32)))
    assert "aj.tensor(array)" in caught.value.hint


def test_state_is_loaded_within_a_step() -> None:
    model, saved = nn.Linear(3, 2), {"weight": aj.tensor(np.full((2, 3), 2.0, np.float32)), "bias": aj.tensor(np.ones(2, np.float32))}

    @aj.compile
    def step(model: Any, x: Any) -> Any:
        model.load_state_dict(saved)
        return model(x)

    for _ in range(2):
        assert step(model, aj.tensor(np.ones((1, 3), np.float32))).tolist() == [[7.0, 7.0]]
        assert model.weight.tolist() == [[2.0] * 3] * 2
        with aj.no_grad():
            model.weight.zero_()


def test_requires_grad_is_switched_within_a_step() -> None:
    """Of the discriminator, say, while the generator is trained."""
    found = []
    for around in (lambda function: function, lambda function: aj.compile(function, backend="interpret")):
        aj.manual_seed(0)
        judge, maker = nn.Linear(2, 1), nn.Linear(2, 2)
        first, second = optim.SGD(maker.parameters(), 0.1), optim.SGD(judge.parameters(), 0.1)

        def train(z: Any, judge: Any = judge, maker: Any = maker, first: Any = first, second: Any = second) -> Any:
            judge.requires_grad_(False)
            first.zero_grad()
            judge(maker(z)).mean().backward()
            first.step()
            judge.requires_grad_(True)
            second.zero_grad()
            loss = judge(maker(z).detach()).mean()
            loss.backward()
            second.step()
            return loss

        step = around(train)
        found.append([step(aj.ones(3, 2)).item() for _ in range(4)] + judge.weight.tolist() + maker.weight.tolist())
        assert judge.weight.requires_grad
    np.testing.assert_allclose(found[1][:4], found[0][:4], 1e-6)
    np.testing.assert_allclose(found[1][4:], found[0][4:], 1e-6)
