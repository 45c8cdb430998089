"""Compiled modules as modules: parts of other modules, arguments of compiled steps, copied, pickled and sent to other processes."""

from __future__ import annotations

import copy
import gc
import pickle
import subprocess
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit import nn, optim
from adjit.runtime.compiled import CompiledFunction

X = np.random.default_rng(0).normal(size=(6, 2)).astype(np.float32)
Around = Callable[[Any], Any]


def plain(module: Any) -> Any:
    return module


class Net(nn.Module):
    """A body, compiled or not, and a head."""

    def __init__(self, around: Around = plain) -> None:
        super().__init__()
        self.body = around(nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)))
        self.head = nn.Linear(4, 1)

    def forward(self, x: Any) -> Any:
        return self.head(self.body(x))


def test_it_is_a_part_like_any_other() -> None:
    model, other = Net(aj.compile), Net()
    names = [name for name, _ in other.named_parameters()]
    assert [name for name, _ in model.named_parameters()] == names
    assert list(model.state_dict()) == list(other.state_dict())
    assert [name for name, _ in model.named_modules()] == [name for name, _ in other.named_modules()]
    assert isinstance(model.body, nn.Module)
    assert isinstance(model.body, nn.Sequential)
    assert isinstance(model.body, CompiledFunction)
    assert repr(model) == repr(other).replace("(body): ", "(body): compiled ")
    visited: list[str] = []
    model.apply(lambda module: visited.append(type(module).__name__))
    assert visited == ["Linear", "BatchNorm1d", "Dropout", "Sequential", "Linear", "Net"]


def test_states_fit_with_and_without_compile() -> None:
    model, other = Net(aj.compile).eval(), Net().eval()
    x = aj.tensor(X)
    other.load_state_dict(model.state_dict())
    np.testing.assert_allclose(model(x).tolist(), other(x).tolist(), 1e-5)
    with aj.no_grad():
        other.body[0].weight.fill_(0.5)
    model.load_state_dict(other.state_dict())
    np.testing.assert_allclose(model(x).tolist(), other(x).tolist(), 1e-5)


def test_modes_and_dtypes_reach_it() -> None:
    model = Net(aj.compile).eval()
    x = aj.tensor(X)
    assert not model.body.training
    assert model(x).tolist() == model(x).tolist()       # no dropout
    model(x).sum().backward()
    assert model.body[0].weight.grad is not None
    model.zero_grad()
    assert model.body[0].weight.grad is None
    model.requires_grad_(False)
    assert not model(x).requires_grad
    assert model.to(np.float64)(aj.tensor(X.astype(np.float64))).dtype == np.float64
    model.train()
    assert model.body[2].training


def test_containers_hold_it_and_it_holds() -> None:
    linear = aj.compile(nn.Linear(2, 2))
    for container in (nn.Sequential(linear), nn.ModuleList([linear]), nn.ModuleDict({"0": linear})):
        assert list(container.state_dict()) == ["0.weight", "0.bias"]
    inner = aj.compile(nn.Sequential(nn.Linear(2, 3), nn.ReLU()))
    assert (len(inner), [type(module).__name__ for module in inner], bool(inner)) == (2, ["Linear", "ReLU"], True)
    assert inner[0].out_features == 3
    inner[1] = nn.Tanh()
    assert inner[1] in inner
    inner.extra = nn.Linear(1, 1)
    assert "extra.weight" in inner.state_dict()
    assert "extra" in dir(inner)
    del inner.extra
    assert "extra.weight" not in inner.state_dict()
    del inner[1]
    assert len(inner) == 1
    with pytest.raises(TypeError, match="Linear"):
        len(linear)
    assert linear


def train(model: Any, optimizer: Any, x: Any, y: Any) -> Any:
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


@pytest.mark.parametrize("backend", ["interpret", "auto"])
@pytest.mark.parametrize(("inner", "outer"), [(True, False), (True, True)])
def test_training(inner: bool, outer: bool, backend: str) -> None:
    def compiled(function: Any) -> Any:
        return aj.compile(function, backend=backend)

    def run(around: Around, step: Any) -> list[float]:
        aj.manual_seed(1)
        model = Net(around)
        optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        x = aj.tensor(X)
        losses = []
        for training in (True, False, True):
            model.train(training)
            losses += [step(model, optimizer, x, x[:, :1]).item() for _ in range(2)]
        return losses

    step = compiled(train) if outer else train
    np.testing.assert_allclose(run(compiled if inner else plain, step), run(plain, train), 1e-4)
    if outer:
        assert step.cache_info().traces == 2


def test_a_step_sees_what_changes_in_it() -> None:
    model = aj.compile(nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5)), backend="interpret")
    for function, given in ((lambda module, x: module(x), (model,)), (lambda x: model(x), ())):
        step = aj.compile(function, backend="interpret")
        model.train()
        step(*given, aj.tensor(X))
        model.eval()
        np.testing.assert_allclose(step(*given, aj.tensor(X)).tolist(), model.fun(aj.tensor(X)).tolist(), 1e-5)
        assert "Sequential.training changed" in step.explain()


def test_copies() -> None:
    online = aj.compile(nn.Linear(2, 2))
    x = aj.tensor(X)
    before = online(x).tolist()
    target = copy.deepcopy(online)
    assert isinstance(target, CompiledFunction)
    assert target.compile_options == online.compile_options
    assert target.weight is not online.weight
    with aj.no_grad():
        target.weight.fill_(0.0)
    assert online(x).tolist() == before
    assert target(x).tolist() != before
    shallow = copy.copy(online)
    assert shallow.weight is online.weight
    shallow.extra = nn.Linear(1, 1)
    assert len(list(online.parameters())) == 2
    twice = copy.deepcopy([online, online.fun])
    assert twice[0].fun is twice[1]


class Scorer:
    """Compiles a method of its own, and has a compiled one."""

    def __init__(self) -> None:
        self.factor = 2.0
        self.score = aj.compile(self.product, backend="interpret")
        self.kept = self.decorated

    def product(self, x: Any) -> Any:
        return x * self.factor

    @aj.compile
    def decorated(self, x: Any) -> Any:
        return x * self.factor + 1.0


def test_copies_of_what_has_compiled_methods() -> None:
    first, x = Scorer(), np.ones(2)
    first.score(x)
    first.decorated(x)
    for second in (copy.deepcopy(first), pickle.loads(pickle.dumps(first))):
        second.factor = 5.0
        assert [function(x).tolist() for function in (second.score, second.decorated, second.kept)] == [[5.0, 5.0], [6.0, 6.0], [6.0, 6.0]]
        assert [function(x).tolist() for function in (first.score, first.decorated, first.kept)] == [[2.0, 2.0], [3.0, 3.0], [3.0, 3.0]]


@pytest.mark.parametrize("make", [lambda: aj.compile(nn.Linear(2, 2)), lambda: nn.Sequential(aj.compile(nn.Linear(2, 2)), nn.Tanh())])
def test_pickles(make: Callable[[], Any]) -> None:
    model = make()
    found = pickle.loads(pickle.dumps(model))
    assert repr(found) == repr(model)
    np.testing.assert_allclose(found(aj.tensor(X)).tolist(), model(aj.tensor(X)).tolist(), 1e-6)
    first, second = next(found.parameters()), next(model.parameters())
    assert first is not second


SCRIPT = """
import multiprocessing, pickle
import numpy as np
import adjit as aj
from adjit import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = aj.compile(nn.Linear(2, 2), threads=1)
    def forward(self, x):
        return self.body(x) * 2

def work(model, x):
    return model(x).detach().numpy()

if __name__ == "__main__":
    model, x = aj.compile(Net(), threads=1), aj.ones(3, 2)
    wanted = work(model, x)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert np.array_equal(pool.apply(work, (model, x)), wanted)
    try:
        import cloudpickle
    except ImportError:
        cloudpickle = pickle
    assert np.array_equal(work(pickle.loads(cloudpickle.dumps(model)), x), wanted)
    print("all well")
"""


def test_in_other_processes(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert done.stdout == "all well\n", done.stderr


def test_nothing_is_kept_alive() -> None:
    model = aj.compile(nn.Linear(2, 2))
    step = aj.compile(lambda module, x: module(x))
    for _ in range(3):
        model(aj.tensor(X))
        step(model, aj.tensor(X))
    references = weakref.ref(model), weakref.ref(model.fun)
    del model
    gc.collect()
    assert [reference() for reference in references] == [None, None]
