"""NAdam, ASGD, Rprop, Adafactor, LBFGS, Muon, cyclic schedules, averaged models: by a file that PyTorch wrote, and by formulas."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from support.each import parametrize_within
from support.torch_optimizers import GOLDEN, OPTIMIZERS, SCHEDULES, label, optimized, scheduled

import adjit as aj
from adjit import nn, optim
from adjit.errors import ShapeError, UnsupportedError

EXPECTED = json.loads(GOLDEN.read_text())


@parametrize_within(("name", "options"), OPTIMIZERS, ids=[label(case) for case in OPTIMIZERS])
def test_steps_as_pytorchs(name: str, options: dict[str, Any]) -> None:
    tolerance = 1e-6 if name in ("ASGD", "LBFGS") else 1e-8        # PyTorch's scalars are float32
    np.testing.assert_allclose(optimized(aj, name, options), EXPECTED[label((name, options))], tolerance, tolerance)


@pytest.mark.parametrize("name", ["NAdam", "ASGD", "Rprop", "Adafactor"])
def test_compiled_steps(name: str) -> None:
    np.testing.assert_allclose(optimized(aj, name, {}, compiled=True), optimized(aj, name, {}), 1e-12, 1e-12)


@parametrize_within(("name", "options"), SCHEDULES, ids=[label(case) for case in SCHEDULES])
def test_schedules_as_pytorchs(name: str, options: dict[str, Any]) -> None:
    np.testing.assert_allclose(scheduled(aj, name, options), EXPECTED[label((name, options))], 1e-12, 1e-15)


def test_the_file_is_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    for case in OPTIMIZERS:
        np.testing.assert_allclose(optimized(torch, *case), EXPECTED[label(case)], 1e-9, 1e-12)


@pytest.mark.parametrize("name", ["NAdam", "ASGD", "Rprop", "Adafactor", "LBFGS"])
def test_a_loaded_state_goes_on_as_the_one_that_was_saved(name: str) -> None:
    def made() -> tuple[aj.Tensor, optim.Optimizer, Any]:
        x = aj.tensor(np.array([[1.0, 2.0], [-1.0, 0.5]]), requires_grad=True)
        optimizer = getattr(optim, name)([x], lr=0.1)

        def closure() -> aj.Tensor:
            optimizer.zero_grad()
            loss = ((x - 3.0) ** 4).sum()
            loss.backward()
            return loss
        return x, optimizer, closure

    (x, first, of_first), (y, second, of_second) = made(), made()
    first.step(of_first)
    second.load_state_dict(first.state_dict())
    y.data = x.detach().clone()
    first.step(of_first)
    second.step(of_second)
    assert y.tolist() == x.tolist()


def test_muon_is_a_step_along_the_orthogonal_factor() -> None:
    gradient = np.random.default_rng(0).standard_normal((4, 3))
    x = aj.tensor(np.zeros((4, 3)), requires_grad=True)
    optimizer = optim.Muon([x], lr=1.0, weight_decay=0, momentum=0.0, ns_coefficients=(1.875, -1.25, 0.375), ns_steps=30)
    x.grad = aj.tensor(gradient)
    optimizer.step()
    u, _, vh = np.linalg.svd(gradient, full_matrices=False)
    np.testing.assert_allclose(x.detach().numpy(), -(4 / 3) ** 0.5 * u @ vh, 1e-6, 1e-6)
    with pytest.raises(ShapeError, match="Muon updates matrices"):
        optim.Muon([aj.tensor([1.0], requires_grad=True)])


def test_lbfgs_refuses_what_it_cannot_do() -> None:
    x = aj.tensor([1.0], requires_grad=True)
    optimizer = optim.LBFGS([x])
    with pytest.raises(ValueError, match="needs the closure"):
        optimizer.step()
    with pytest.raises(UnsupportedError, match="decides on values"):
        aj.compile(lambda: optimizer.step(lambda: (x * x).sum()))()


def test_a_compiled_closure_of_lbfgs_is_traced_once() -> None:
    weights, losses = [], []
    for transform in (lambda f: f, aj.compile):
        x = aj.tensor([0.0, 0.5], requires_grad=True)
        optimizer = optim.LBFGS([x], lr=0.5)

        def closure(x: aj.Tensor = x, optimizer: Any = optimizer) -> aj.Tensor:
            optimizer.zero_grad()
            loss = ((x - aj.tensor([1.0, 2.0])) ** 2).sum() + (x ** 4).sum()
            loss.backward()
            return loss

        evaluated = transform(closure)
        losses.append([optimizer.step(evaluated).item() for _ in range(3)])
        weights.append(x.tolist())
    assert evaluated.cache_info().traces == 1
    np.testing.assert_allclose(losses[1], losses[0], 1e-6)
    np.testing.assert_allclose(weights[1], weights[0], 1e-6)
    with pytest.raises(UnsupportedError, match="the state of LBFGS is another one at each evaluation"):
        aj.compile(lambda: optimizer.state[x]["n_iter"])()


def test_hooks_of_steps() -> None:
    seen: list[str] = []

    class Plain(optim.Optimizer):
        def step(self, closure: Any = None) -> None:
            seen.append("step")

    x = aj.tensor([1.0], requires_grad=True)
    for optimizer in (Plain([x], {}), optim.SGD([x], lr=0.1)):
        before = optimizer.register_step_pre_hook(lambda optimizer, args, kwargs: seen.append("before"))
        optimizer.register_step_post_hook(lambda optimizer, args, kwargs: seen.append("after"))
        optimizer.step()
        before.remove()
        optimizer.step()
    assert seen == ["before", "step", "after", "step", "after", "before", "after", "after"]


def test_averaged_models() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    mean = optim.swa_utils.AveragedModel(model, use_buffers=True)
    moving = optim.swa_utils.AveragedModel(model, multi_avg_fn=optim.swa_utils.get_ema_multi_avg_fn(0.75))
    by_one = optim.swa_utils.AveragedModel(model, avg_fn=optim.swa_utils.get_swa_avg_fn())
    seen = []
    for value in (1.0, 3.0, 8.0):
        with aj.no_grad():
            model[0].weight.fill_(value)
            model[1].running_mean.fill_(value)
        for average in (mean, moving, by_one):
            average.update_parameters(model)
        seen.append([float(average.module[0].weight[0, 0]) for average in (mean, moving, by_one)])
    np.testing.assert_allclose(seen, [[1.0, 1.0, 1.0], [2.0, 1.5, 2.0], [4.0, 3.125, 4.0]], 1e-6)
    assert (mean.module[1].running_mean.tolist(), moving.module[1].running_mean.tolist()) == ([4.0, 4.0], [8.0, 8.0])
    assert int(mean.n_averaged) == 3
    batches = [aj.tensor([[1.0, 0.0], [3.0, 0.0]]), aj.tensor([[5.0, 0.0], [7.0, 0.0]])]
    with aj.no_grad():
        mean.module[0].weight.copy_(aj.eye(2))
        mean.module[0].bias.zero_()
    mean.eval()
    optim.swa_utils.update_bn(batches, mean)
    assert mean.module[1].running_mean.tolist() == [4.0, 0.0]
    assert (mean.module[1].momentum, mean.training) == (0.1, False)
