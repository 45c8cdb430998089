"""What a step stores in modules, optimisers and other places outside: each compiled call stores it again, as an eager one does."""

from __future__ import annotations

import argparse
import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.backends import COMPILING

import adjit as aj
from adjit import nn, optim
from adjit.ir.errors import ExportError, TraceError

X = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
Around = Callable[..., Any]


def numbers(found: list[Any]) -> np.ndarray:
    return np.concatenate([np.ravel(each.detach().numpy() if isinstance(each, aj.Tensor) else np.float64(each)) for each in found])


def as_eagerly(run: Callable[[Around], tuple[list[Any], Any]], traces: int, backend: str = "interpret") -> None:
    """Whether `run`, given what turns a function into the one to call, finds the same numbers; it returns them, and the function."""
    aj.manual_seed(0)
    expected, _ = run(lambda function: function)
    aj.manual_seed(0)
    found, compiled = run(lambda function: aj.compile(function, backend=backend))
    np.testing.assert_allclose(numbers(found), numbers(expected), 1e-5, 1e-6)
    assert compiled.cache_info().traces == traces


class Lion(optim.Optimizer):
    """State is made in the first step, and written in place."""

    def __init__(self, params: Any):
        super().__init__(params, {"lr": 0.1})

    @aj.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for param in group["params"]:
                state = self.state[param]
                if len(state) == 0:
                    state["average"] = aj.zeros_like(param)
                state["average"].mul_(0.9).add_(param.grad)
                param.add_(state["average"].sign(), alpha=-group["lr"])


class Rebinding(Lion):
    """State is another tensor in each step, and steps are counted by a Python number."""

    @aj.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["step"] = 0
                    state["m"], state["v"] = aj.zeros_like(p), aj.zeros_like(p)
                state["step"] += 1
                state["m"] = 0.9 * state["m"] + 0.1 * p.grad
                state["v"] = 0.99 * state["v"] + 0.01 * p.grad ** 2
                p.sub_(group["lr"] * state["m"] / (1 - 0.9 ** state["step"]) / (state["v"].sqrt() + 1e-8))


class Momentum(Lion):
    """As PyTorch's own SGD: a clone of the first gradient."""

    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if "buffer" not in state:
                    buffer = state["buffer"] = aj.clone(p.grad.data).detach()
                else:
                    buffer = state["buffer"]
                    buffer.mul_(0.9).add_(p.grad.data)
                p.data.add_(buffer, alpha=-group["lr"])


class Counted(Lion):
    """As the older Adam: corrections are computed by Python of the number of steps."""

    @aj.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if len(state) == 0:
                    state["step"] = 0
                    state["m"] = aj.zeros_like(p, memory_format=aj.preserve_format)
                    state["v"] = aj.zeros_like(p)
                state["step"] += 1
                state["m"].mul_(0.9).add_(p.grad, alpha=0.1)
                state["v"].mul_(0.99).addcmul_(p.grad, p.grad, value=0.01)
                size = group["lr"] * math.sqrt(1 - 0.99 ** state["step"]) / (1 - 0.9 ** state["step"])
                if state["step"] % 2 == 0:
                    size = size / 2
                p.addcdiv_(state["m"], state["v"].sqrt().add_(1e-8), value=-size)


@pytest.mark.share(4)
@pytest.mark.parametrize("backend", COMPILING)
@pytest.mark.parametrize(("kind", "traces"), [(Lion, 2), (Rebinding, 2), (Momentum, 2), (Counted, 3)])
def test_optimisers_as_people_write_them(kind: Any, traces: int, backend: str) -> None:
    def run(around: Around) -> Any:
        model = nn.Linear(3, 2)
        optimizer, x = kind(model.parameters()), aj.tensor(X)

        @around
        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        found = [step(x) for _ in range(6)]
        for state in optimizer.state.values():
            assert {type(value) for value in state.values()} <= {aj.Tensor, int}
            found += list(state.values())
        return [*found, *model.parameters()], step

    as_eagerly(run, traces, backend)


def test_modes_within_steps() -> None:
    def run(around: Around) -> Any:
        model, x = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)), aj.tensor(X)
        optimizer = optim.SGD(model.parameters(), lr=0.1)

        @around
        def train(x: Any) -> Any:
            model.train()
            loss = model(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        @around
        def test(x: Any) -> Any:
            model.eval()
            return model(x).square().sum()

        found = []
        for _ in range(3):
            found += [train(x), model.training, test(x), model.training]
        return found, train

    as_eagerly(run, 2)      # from both modes


def test_requires_grad_stays_switched() -> None:
    def run(around: Around) -> Any:
        model, x = nn.Linear(3, 2), aj.tensor(X)

        def switched(on: bool) -> Any:
            def step(x: Any) -> Any:
                for parameter in model.parameters():
                    parameter.requires_grad_(on)
                return model(x).sum()
            return around(step)

        frozen, thawed = switched(False), switched(True)
        found: list[Any] = []
        for _ in range(3):
            result = frozen(x)
            assert not result.requires_grad
            loss = thawed(x)
            loss.backward()
            found += [result, loss, model.weight.requires_grad, model.weight.grad]
        return found, thawed

    as_eagerly(run, 1)


def test_arguments_that_require_grad_from_then_on() -> None:
    def run(around: Around) -> Any:
        @around
        def slope(x: Any) -> Any:
            x.requires_grad_()
            return aj.autograd.grad((x ** 3).sum(), x, create_graph=True)[0]

        x = aj.tensor(X)
        found = slope(x)
        found.sum().backward()
        return [found, x.grad, x.requires_grad], slope

    as_eagerly(run, 1)


class Carrying(nn.Module):
    """A module with all kinds of attributes that `forward` sets."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.hidden: Any = None
        self.calls = 0
        self.ratio = 1.0
        self.pair = aj.zeros(1), aj.ones(1)
        self.table: dict[str, Any] = {"a": 1}

    def forward(self, x: Any) -> Any:
        if self.hidden is None:
            self.hidden = aj.zeros(3)
        self.activation = self.linear(x)
        self.hidden = aj.tanh(self.activation + self.hidden).detach()
        self.calls += 1
        self.ratio *= 0.5
        self.pair = self.pair[0] + 1, self.pair[1] * 2
        self.table["b"] = self.hidden * 2
        return self.hidden.sum() * self.calls * self.ratio + self.pair[0].sum() + self.pair[1].sum()


@pytest.mark.parametrize("backend", COMPILING)
def test_attributes_of_modules(backend: str) -> None:
    def run(around: Around) -> Any:
        module = Carrying()
        call = around(lambda x: module(x))
        found: list[Any] = []
        for row in X:
            found += [call(aj.tensor(row)), module.hidden, module.calls, module.ratio, *module.pair, module.table["b"]]
        assert type(module.calls) is int
        assert type(module.ratio) is float
        module.activation.sum().backward()
        module.hidden = aj.ones(3)      # what is there now counts
        module.calls = 10
        return [*found, module.linear.weight.grad, call(aj.tensor(X[0])), module.calls], call

    as_eagerly(run, 2, backend)


class Saver:
    """A plain object, whose method is a hook."""

    def __init__(self) -> None:
        self.features: Any = None
        self.means: list[Any] = []

    def hook(self, module: Any, given: Any, output: Any) -> None:
        self.features = output
        self.means.append(output.mean().detach())


@pytest.mark.parametrize("trains", [False, True])
def test_activations_that_hooks_keep(trains: bool) -> None:
    def run(around: Around) -> Any:
        model, saver, kept, gradients = nn.Sequential(nn.Linear(3, 2), nn.Tanh()), Saver(), dict[str, Any](), list[Any]()
        model[0].register_forward_hook(saver.hook)

        def keep(module: Any, given: Any, output: Any) -> None:
            kept["tanh"] = output.detach()

        model[1].register_forward_hook(keep)
        model[0].register_full_backward_hook(lambda module, given, output: gradients.append(output[0].detach()))

        @around
        def step(x: Any) -> Any:
            loss = model(x).sum()
            if trains:
                loss.backward()
            return loss.detach()

        found = []
        for row in X:
            found += [step(aj.tensor(row[None])), saver.features, kept["tanh"]]
        if not trains:
            saver.features.sum().backward()
        assert len(gradients) == (len(X) if trains else 0)
        return [*found, *saver.means, *gradients, model[0].weight.grad], step

    as_eagerly(run, 2 if trains else 1)     # a second time there are gradients to add to


def test_a_dict_that_is_filled_and_returned_holds_what_was_stored() -> None:
    class Features(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.found = {"0": aj.zeros(1), "1": aj.zeros(1)}
            self.layers = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
            for name, layer in self.layers.named_children():
                layer.register_forward_hook(lambda _, __, output, name=name: self.found.update({name: output}))

        def forward(self, x: aj.Tensor) -> Any:
            self.layers(x)
            return self.found, [self.found["1"].sum()]

    eager = Features()
    compiled = copy.deepcopy(eager.layers), Features()
    compiled[1].layers.load_state_dict(compiled[0].state_dict())
    compiled[1].compile(backend="interpret")
    for call in range(3):
        x = aj.ones(1, 2) * (call + 1)
        expected, found = eager(x), compiled[1](x)
        assert repr([{k: v.tolist() for k, v in found[0].items()}, found[1][0].tolist()]) == repr(
            [{k: v.tolist() for k, v in expected[0].items()}, expected[1][0].tolist()])
        assert [compiled[1].found[name] is found[0][name] for name in "01"] == [True, True]


def test_lists_of_a_module_that_no_code_of_the_function_names_may_change() -> None:
    class Policy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.saved: list[Any] = []
            self.read, self.named, self.shown = [1.0], [2.0], [""]
            self.layer = nn.Linear(1, 1)

        def extra_repr(self) -> str:        # which a method of ours calls
            return self.shown[0]

        def forward(self, x: aj.Tensor) -> Any:
            return self.layer(x) + sum(self.read) + self.named[-1] + repr(self).count("#")

    policy = Policy()
    policy.layer.load_state_dict({"weight": np.zeros((1, 1)), "bias": np.zeros(1)})
    policy.compile(backend="interpret")
    for call in range(3):
        policy.saved.append(policy(aj.ones(1)))
        policy.saved = policy.saved if call else [*policy.saved]
    assert policy._compiled.cache_info().traces == 1
    policy.read.append(3.0)
    policy.named.append(4.0)
    assert policy(aj.ones(1)).item() == 8.0
    policy.shown[0] = "#"
    assert policy(aj.ones(1)).item() == 9.0


class Collecting(nn.Module):
    """A module whose hook keeps activations in its own list, in other ways for other subclasses."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 2), nn.Linear(2, 2)
        self.activations: list[Any] = []
        self.by_name: dict[str, Any] = {"first": [], "sizes": []}
        self.first.register_forward_hook(self.keep)

    def keep(self, module: Any, given: Any, output: Any) -> None:
        self.activations.append(output)

    def forward(self, x: Any) -> Any:
        return self.second(self.first(x)).sum()


class Emptying(Collecting):
    def forward(self, x: Any) -> Any:
        self.activations.clear()
        hidden = super().forward(x)
        return hidden * len(self.activations) + self.activations[0].mean()


class ByName(Collecting):
    def keep(self, module: Any, given: Any, output: Any) -> None:
        self.by_name["first"] += [output.detach(), given[0]]
        self.by_name["sizes"].insert(0, output.shape[0])


@pytest.mark.parametrize("kind", [Collecting, Emptying, ByName])
@pytest.mark.parametrize("trains", [False, True])
def test_lists_of_modules_that_are_filled(kind: Any, trains: bool) -> None:
    def run(around: Around) -> Any:
        module = kind()
        optimizer = optim.SGD(module.parameters(), lr=0.1)

        @around
        def step(x: Any) -> Any:
            loss = module(x)
            if trains:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            return loss.detach()

        found: list[Any] = []
        for number, row in enumerate(X):
            if number == 3:
                module.activations.clear()      # the next call does not read it
            found.append(step(aj.tensor(row[None])))
        kept = [*module.activations, *module.by_name["first"], *module.by_name["sizes"]]
        if not trains and module.activations:
            module.activations[-1].square().sum().backward()
            kept.append(module.first.weight.grad)
        assert kept
        return [*found, *kept], step

    as_eagerly(run, 1)


def test_a_list_of_a_module_that_is_read_is_refused() -> None:
    class Mixing(Collecting):
        def forward(self, x: Any) -> Any:
            return super().forward(x) + self.activations[0].sum()       # that of the first call

    module = Mixing()
    for _ in range(2):
        with pytest.raises(TraceError, match=r"(?s)changes Mixing.activations.*self.activations.append\(output\).*without reading it"):
            aj.compile(lambda x: module(x))(aj.tensor(X[:1]))
        assert module.activations == []


def test_lists_dicts_and_views() -> None:
    def run(around: Around) -> Any:
        model, box, losses, args = nn.Linear(3, 2), dict[str, Any](), list[Any](), argparse.Namespace(scale=2.0)

        @around
        def step(args: Any, x: Any) -> Any:
            loss = model(x).square().mean() * args.scale
            losses.append(loss.detach())
            box["weight"] = model.weight.detach()[0]        # a view
            box["row"] = (x * 2)[1]
            box["pair"] = [loss, (x, 3)]
            return loss

        found = [step(args, aj.tensor(X)) for _ in range(3)]
        box["weight"].zero_()
        args.scale = 3.0
        found += [step(args, aj.tensor(X)), box["row"], *losses]
        box["pair"][0].backward()
        assert box["pair"][1][1] == 3
        return [*found, model.weight, model.weight.grad], step

    as_eagerly(run, 2)


def test_arrays_that_are_stored_beside_updated_tensors() -> None:
    def run(around: Around) -> Any:
        model, log = nn.Linear(3, 2), list[Any]()
        optimizer = optim.Adam(model.parameters(), lr=0.1)

        @around
        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            log.append(y * 2)
            log.append(loss.detach())
            return loss

        found = [step(aj.tensor(X), np.arange(3.0) + k) for k in range(3)]
        return [*found, *log], step

    as_eagerly(run, 1)


def test_gradients_of_what_was_computed() -> None:
    def run(around: Around) -> Any:
        model = nn.Linear(3, 2)

        @around
        def gradient(x: Any) -> Any:
            hidden = model(x)
            hidden.retain_grad()
            hidden.square().sum().backward()
            return hidden.grad

        return [gradient(aj.tensor(X)), gradient(aj.tensor(2 * X)), model.weight.grad], gradient

    as_eagerly(run, 2)      # a second time there are gradients to add to


def test_a_state_that_others_hold() -> None:
    def run(around: Around) -> Any:
        module = Carrying()
        module.hidden = module.other = aj.zeros(3)
        call = around(lambda x: module(x))
        found = [call(aj.tensor(row)) for row in X]
        assert module.other.tolist() == [0.0] * 3
        return [*found, module.hidden], call

    as_eagerly(run, 2)


def test_states_that_are_swapped() -> None:
    def run(around: Around) -> Any:
        module = Carrying()
        module.now, module.then = aj.ones(3), aj.zeros(3)

        @around
        def step(x: Any) -> Any:
            module.now, module.then = module.then, module.now
            module.now.add_(x)
            return module.then * 2

        found = [step(aj.tensor(row)) for row in X]
        return [*found, module.now, module.then], step

    as_eagerly(run, 1)


def test_a_tensor_that_the_next_call_reads_elsewhere_is_refused() -> None:
    box: dict[str, Any] = {"last": aj.zeros(3)}

    @aj.compile
    def running(x: Any) -> Any:
        box["last"] = box["last"] + x
        return box["last"].sum()

    before = box["last"]
    for _ in range(2):
        with pytest.raises(TraceError, match="stored outside"):
            running(aj.tensor(X[0]))
        assert box["last"] is before


def test_a_call_that_fails_stores_nothing() -> None:
    module = Carrying()
    before = dict(vars(module)), dict(module.table)

    def fail(x: Any) -> Any:
        module(x)
        raise RuntimeError("the user's own")

    with pytest.raises(RuntimeError, match="own"):
        aj.compile(fail)(aj.tensor(X[0]))
    assert (vars(module), module.table) == before


def test_such_programs_are_no_files(tmp_path: Any) -> None:
    module = Carrying()
    with pytest.raises(ExportError, match="changes attributes of modules"):
        aj.compile(lambda x: module(x)).export(tmp_path / "step.adjit", aj.tensor(X[0]))


class Counted(nn.Module):
    """Counts its calls, which scale the result."""

    def __init__(self) -> None:
        super().__init__()
        self.calls, self.total = 0, 0.0
        self.layer = nn.Linear(2, 2)

    def forward(self, x: aj.Tensor) -> aj.Tensor:
        self.calls += 1
        self.total = self.total + 0.5
        return self.layer(x) * (1.0 / self.calls)


TRANSFORMS: dict[str, Any] = {
    "grad": lambda model, x: aj.grad(lambda x: model(x).sum())(x),
    "func.grad": lambda model, x: aj.func.grad(lambda x: model(x).sum())(x),
    "vmap": lambda model, x: aj.vmap(lambda x: model(x))(x),
    "gradients of examples": lambda model, x: aj.vmap(aj.grad(lambda x: model(x).sum()))(x),
    "jacrev": lambda model, x: aj.func.jacrev(lambda x: model(x))(x),
    "hessian": lambda model, x: aj.hessian(lambda x: (model(x) ** 2).sum())(x),
    "two": lambda model, x: aj.grad(lambda x: model(x).sum())(x) + aj.grad(lambda x: model(x).sum())(x),
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_module_counts_within_transforms(name: str, compiled: bool) -> None:
    model, x = Counted(), aj.ones(3, 2)
    transform = TRANSFORMS[name]
    function = aj.compile(lambda x: transform(model, x)) if compiled else lambda x: transform(model, x)
    times, first = (2 if name == "two" else 1), None
    for call in range(1, 4):
        result = function(x)
        first = first if call > 1 else result.detach()
        assert (model.calls, model.total) == (times * call, 0.5 * times * call)
    if name == "grad":
        np.testing.assert_allclose(result.detach().numpy(), first.numpy() / 3, 1e-6)
    if compiled:
        assert function.cache_info().traces == 1


def test_counting_in_backward_or_in_a_loop_causes_a_warning() -> None:
    model = Counted()

    class Doubled(aj.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: aj.Tensor) -> aj.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: aj.Tensor) -> aj.Tensor:
            model.calls += 1
            return grad * 2

    def step(x: aj.Tensor) -> aj.Tensor:
        return Doubled.apply(x).sum()

    with pytest.warns(UserWarning, match=r"Doubled\.backward\(\) adds to calls: each call does so as often as the trace did"):
        aj.compile(step)(aj.ones(2, requires_grad=True))

    def body(carry: Any, x: Any) -> Any:
        model.calls += 1
        return carry + x, x
    with pytest.warns(UserWarning, match=r"body, which a loop or branch of the program runs, adds to calls"):
        aj.compile(lambda x: aj.scan(body, 0.0, x))(np.ones(3))


def test_a_list_that_is_appended_to_and_read_is_named_in_the_error() -> None:
    kept: list[Any] = []
    table: dict[int, Any] = {}

    def step(x: aj.Tensor) -> None:
        kept.append(x * 2)
        table[len(kept)] = x * 3

    with pytest.raises(aj.errors.TraceError, match=r"a list to which the function appends tensors may not be read in it, as len\(kept\)"):
        aj.compile(step)(aj.ones(2))


def test_hooks_of_tensors_keep_what_they_see() -> None:
    w, kept = aj.ones(2, requires_grad=True), {}
    w.register_hook(lambda gradient: kept.__setitem__("gradient", gradient.sum()))
    w.register_post_accumulate_grad_hook(lambda w: kept.__setitem__("sum", w.grad.sum()))

    @aj.compile(backend="interpret")
    def step(x: Any) -> None:
        (w * x).sum().backward()

    for n in range(3):
        step(aj.ones(2) * n)
    assert (kept["gradient"].item(), kept["sum"].item(), step.cache_info().traces) == (4.0, 6.0, 2)


@pytest.mark.parametrize("shown", [
    lambda n, x: print(f"{n}: {x.sum():.1f}", n, [n], n + 1, "%d" % n), lambda n, x: print(str(n).rjust(3), float(f"{x.sum():.1f}")),     # noqa: UP031
    lambda n, x: print("even" if n % 2 == 0 else "odd", n)])
def test_counters_of_modules_are_printed(shown: Callable[[Any, Any], None], capsys: pytest.CaptureFixture[str]) -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.n = 0

        def forward(self, x: Any) -> Any:
            self.n += 1
            shown(self.n, x)
            return x * self.n

    texts = []
    for compile in (lambda module: module, lambda module: aj.compile(module, backend="interpret")):
        run = compile(Counting())
        for i in range(4):
            run(aj.ones(2) * i)
        texts.append(capsys.readouterr().out)
    assert texts[1] == texts[0]
