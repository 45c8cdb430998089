"""Optimisers, modules and tensors that a compiled function makes: made anew in every call, as eagerly, or refused in words."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.backends import COMPILING

import adjit as aj
from adjit import nn, optim
from adjit.eager.generator import Generator
from adjit.ir.errors import TraceError, UnsupportedError

X = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
OPTIMIZERS: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": 0.1, "momentum": 0.9}), ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.1}), ("Adam", {"lr": 0.1}),
    ("AdamW", {"lr": 0.1, "amsgrad": True}), ("Adagrad", {"lr": 0.1, "initial_accumulator_value": 0.5}),
    ("RMSprop", {"momentum": 0.5, "centered": True}), ("Adadelta", {}), ("Adamax", {}), ("RAdam", {})]


def as_eagerly(run: Callable[[Callable[..., Any]], Any], backend: str = "interpret") -> None:
    """Whether `run`, given what turns a function into the one to call, returns the same numbers."""
    found = []
    for around in (lambda function: function, lambda function: aj.compile(function, backend=backend)):
        aj.manual_seed(0)
        found.append(run(around))
    np.testing.assert_allclose(found[1], found[0], 1e-5, 1e-6)


@pytest.mark.share(2)
@pytest.mark.parametrize("backend", COMPILING)
@pytest.mark.parametrize(("kind", "options"), OPTIMIZERS)
def test_an_optimiser_starts_anew_in_every_call(kind: str, options: dict[str, Any], backend: str) -> None:
    def run(around: Callable[..., Any]) -> Any:
        w = aj.tensor([1.0, 2.0], requires_grad=True)

        def adapt(goal: Any) -> Any:
            optimizer = getattr(optim, kind)([w], **options)
            for _ in range(3):
                optimizer.zero_grad()
                loss = ((w - goal) ** 2).sum()
                loss.backward()
                optimizer.step()
                optimizer.param_groups[0]["lr"] *= 0.5      # its numbers are its own, too
            return loss

        step = around(adapt)
        return [step(aj.tensor([float(call), 0.0])).item() for call in range(4)] + w.tolist()

    as_eagerly(run, backend)


@pytest.mark.parametrize("scheduled", [False, True])
def test_its_numbers_may_be_arguments_or_follow_a_schedule(scheduled: bool) -> None:
    def run(around: Callable[..., Any]) -> Any:
        w = aj.tensor([1.0, 2.0], requires_grad=True)

        def adapt(goal: Any, lr: Any) -> Any:
            optimizer = optim.Adam([w], lr=0.1 if scheduled else lr)
            schedule = optim.lr_scheduler.StepLR(optimizer, 1, 0.5) if scheduled else None
            for _ in range(2):
                optimizer.zero_grad()
                loss = ((w - goal) ** 2).sum()
                loss.backward()
                optimizer.step()
                if schedule is not None:
                    schedule.step()
            return loss

        step = around(adapt)
        return [step(aj.ones(2), 0.1 * (call + 1)).item() for call in range(3)]

    as_eagerly(run)


def test_state_is_carried_from_one_to_the_next() -> None:
    """What a state dict holds is read in every call."""
    def run(around: Callable[..., Any]) -> Any:
        w = aj.tensor([1.0, 2.0], requires_grad=True)
        saved = optim.Adam([w], lr=0.1)
        (w ** 2).sum().backward()
        saved.step()
        state = saved.state_dict()

        def adapt(goal: Any) -> Any:
            carried = state
            for _ in range(2):
                optimizer = optim.Adam([w], lr=0.1)
                optimizer.load_state_dict(carried)
                optimizer.zero_grad()
                loss = ((w - goal) ** 2).sum()
                loss.backward()
                optimizer.step()
                carried = optimizer.state_dict()
            return loss

        step = around(adapt)
        losses = [step(aj.ones(2)).item() for _ in range(2)]
        state["state"][0]["exp_avg"].fill_(9.0)
        return [*losses, step(aj.ones(2)).item()]

    as_eagerly(run)


def test_functional_state_starts_anew() -> None:
    def run(around: Callable[..., Any]) -> Any:
        optimizer, w = optim.adam(0.1), aj.tensor([1.0, 2.0])

        def adapt(goal: Any) -> Any:
            params = [w]
            state = optimizer.init(params)
            for _ in range(3):
                params, state = optimizer.update(params, [2 * (params[0] - goal)], state)
            return params[0]

        step = around(adapt)
        return [step(aj.ones(2) * call).tolist() for call in range(3)]

    as_eagerly(run)


class Own(nn.Module):
    """Parameters and a buffer made by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(aj.randn(3))
        self.register_buffer("count", aj.zeros(3))

    def forward(self, x: Any) -> Any:
        self.count.add_(1)
        return x * self.weight + self.count


@pytest.mark.parametrize("make", [
    lambda: nn.Linear(3, 2), lambda: nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.PReLU(), nn.LayerNorm(4), nn.Dropout(0.5)), Own,
    lambda: nn.GRU(3, 4)])
def test_a_module_draws_new_weights_in_every_call(make: Callable[[], Any]) -> None:
    def run(around: Callable[..., Any]) -> Any:
        def forward(x: Any) -> Any:
            result = make()(x)
            return result[0] if isinstance(result, tuple) else result

        function = around(forward)
        return [function(aj.tensor(X)).tolist() for _ in range(3)]

    as_eagerly(run)


def test_a_module_and_its_optimiser_are_trained_in_every_call() -> None:
    def run(around: Callable[..., Any]) -> Any:
        def train(x: Any, y: Any) -> Any:
            model = nn.Sequential(nn.Linear(3, 4, bias=False), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 1))
            optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
            for _ in range(3):
                optimizer.zero_grad()
                loss = nn.functional.mse_loss(model(x), y)
                loss.backward()
                optimizer.step()
            return loss, model[0].weight.detach(), model[1].running_mean, model[1].num_batches_tracked, model[0].weight.grad

        function = around(train)
        x = aj.tensor(X)
        return [np.concatenate([part.numpy(force=True).ravel() for part in function(x, x[:, :1])]) for _ in range(3)]

    as_eagerly(run)


def test_a_copy_of_a_model_is_made_in_every_call() -> None:
    """Meta-learning: the copy is trained, the model stays."""
    model = nn.Linear(3, 2)

    def run(around: Callable[..., Any]) -> Any:
        with aj.no_grad():
            model.weight.fill_(0.5)

        def adapted(x: Any) -> Any:
            inner = copy.deepcopy(model)
            optimizer = optim.SGD(inner.parameters(), lr=0.1, momentum=0.9)
            for _ in range(2):
                optimizer.zero_grad()
                (inner(x) ** 2).mean().backward()
                optimizer.step()
            return inner(x).detach()

        function = around(adapted)
        found = [function(aj.tensor(X)).tolist() for _ in range(2)]
        with aj.no_grad():
            model.weight.fill_(1.0)
        return [*found, function(aj.tensor(X)).tolist()]

    as_eagerly(run)


def test_a_generator_starts_anew() -> None:
    def run(around: Callable[..., Any]) -> Any:
        def draw(x: Any) -> Any:
            generator = Generator(seed=3)
            return x + aj.random.normal(generator.next_key(), (3,)) * aj.random.normal(generator.next_key(), (3,))

        function = around(draw)
        return [function(aj.tensor(X)).tolist() for _ in range(3)]

    as_eagerly(run)


READS: dict[str, Callable[[Any], Any]] = {
    "tensor": lambda t: aj.tensor(t), "tensor of parts": lambda t: aj.tensor([t[0], t[1], t[2]]), "new_tensor": lambda t: t.new_tensor(t),
    "parameter": lambda t: nn.Parameter(t), "detach": lambda t: t.detach(), "data": lambda t: t.data, "deepcopy": copy.deepcopy}


@pytest.mark.parametrize("how", READS)
@pytest.mark.parametrize("change", [lambda t: t.fill_(5.0), lambda t: setattr(t, "data", aj.full((3,), 5.0))])
def test_what_is_made_of_a_tensor_is_made_of_what_it_holds_now(how: str, change: Callable[[Any], Any]) -> None:
    outside = aj.ones(3)
    function = aj.compile(lambda x: READS[how](outside) * x, backend="interpret")
    assert function(aj.ones(3)).tolist() == [1.0] * 3
    change(outside)
    assert function(aj.ones(3)).tolist() == [5.0] * 3


def test_a_gradient_that_is_an_array_is_read_in_every_call() -> None:
    cotangent, w = np.ones(3), aj.ones(3, requires_grad=True)

    def slope(x: Any) -> Any:
        w.grad = None
        (x * w).backward(cotangent)
        return w.grad * 1

    function = aj.compile(slope, backend="interpret")
    assert function(aj.ones(3)).tolist() == [1.0] * 3
    cotangent[:] = 5.0
    assert function(aj.ones(3)).tolist() == [5.0] * 3


class Trainer:
    """Makes its optimiser when it is needed first."""

    def __init__(self, **options: Any) -> None:
        self.w = aj.ones(2, requires_grad=True)
        self.optimizer: Any = None
        self.options = options

    def step(self, x: Any) -> Any:
        if self.optimizer is None:
            self.optimizer = optim.SGD([self.w], lr=0.1, **self.options)        # this line
        loss = (self.w * x).sum()
        loss.backward()
        self.optimizer.step()
        return loss


@pytest.mark.parametrize("function", [
    Trainer().step, Trainer(momentum=0.9).step, lambda x: nn.ReLU()])
def test_what_is_kept_is_refused(function: Any) -> None:
    with pytest.raises(TraceError, match=r"an object of type (SGD|ReLU) created inside the compiled function") as caught:
        aj.compile(function)(aj.ones(2))
    assert "before the call" in caught.value.hint
    if hasattr(function, "__self__"):
        assert "this line" in str(caught.value)


@pytest.mark.parametrize(("content", "words"), [(lambda: aj.zeros(4), "of the shape"), (lambda: OTHER, "of another tensor")])
def test_memory_that_a_tensor_would_keep_is_refused(content: Callable[[], Any], words: str) -> None:
    w = aj.ones(2)

    def rebind(x: Any) -> Any:
        w.data = content()
        return w * x

    with pytest.raises(UnsupportedError, match=words):
        aj.compile(rebind)(aj.ones(2))
    assert w.tolist() == [1.0, 1.0]


OTHER = aj.zeros(2)
