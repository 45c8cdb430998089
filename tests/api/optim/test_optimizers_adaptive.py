"""Adadelta, Adamax and RAdam: against their formulas and PyTorch; parameters as one vector, padded sequences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit import nn, optim
from adjit.errors import ShapeError

Array = Any
RNG = np.random.default_rng(0)
START = RNG.standard_normal((3, 2))
GRADS = [RNG.standard_normal((3, 2)) for _ in range(12)]


def adadelta(p: Array, grads: Sequence[Array], lr: float = 1.0, rho: float = 0.9, eps: float = 1e-6, weight_decay: float = 0.0,
             maximize: bool = False) -> Iterator[Array]:
    s = a = np.zeros_like(p)
    for g in grads:
        g = (-g if maximize else g) + weight_decay * p
        s = rho * s + (1 - rho) * g ** 2
        d = np.sqrt(a + eps) / np.sqrt(s + eps) * g
        a = rho * a + (1 - rho) * d ** 2
        p = p - lr * d
        yield p


def adamax(p: Array, grads: Sequence[Array], lr: float = 2e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
           weight_decay: float = 0.0, maximize: bool = False) -> Iterator[Array]:
    m = u = np.zeros_like(p)
    for t, g in enumerate(grads, 1):
        g = (-g if maximize else g) + weight_decay * p
        m = betas[0] * m + (1 - betas[0]) * g
        u = np.maximum(betas[1] * u, abs(g) + eps)
        p = p - lr / (1 - betas[0] ** t) * m / u
        yield p


def radam(p: Array, grads: Sequence[Array], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
          weight_decay: float = 0.0, decoupled_weight_decay: bool = False, maximize: bool = False) -> Iterator[Array]:
    m = v = np.zeros_like(p)
    end = 2 / (1 - betas[1]) - 1
    for t, g in enumerate(grads, 1):
        g = -g if maximize else g
        if decoupled_weight_decay:
            p = p * (1 - lr * weight_decay)
        else:
            g = g + weight_decay * p
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g ** 2
        change = m / (1 - betas[0] ** t)
        r = end - 2 * t * betas[1] ** t / (1 - betas[1] ** t)
        if r > 5:
            factor = ((r - 4) * (r - 2) * end / ((end - 4) * (end - 2) * r)) ** 0.5
            change = change * factor * (1 - betas[1] ** t) ** 0.5 / (np.sqrt(v) + eps)
        p = p - lr * change
        yield p


CASES: list[tuple[str, Callable[..., Iterator[Array]], dict[str, Any]]] = [
    *(("Adadelta", adadelta, options) for options in (
        {}, {"lr": 0.5, "rho": 0.7, "eps": 1e-3}, {"weight_decay": 0.2, "maximize": True})),
    *(("Adamax", adamax, options) for options in (
        {}, {"lr": 0.1, "betas": (0.7, 0.9), "eps": 1e-3}, {"weight_decay": 0.2, "maximize": True})),
    *(("RAdam", radam, options) for options in (
        {}, {"lr": 0.1, "betas": (0.7, 0.9), "eps": 1e-3}, {"weight_decay": 0.2, "maximize": True},
        {"lr": 0.1, "weight_decay": 0.2, "decoupled_weight_decay": True})),
]
NAMES = [f"{kind} {options}" for kind, _, options in CASES]


def run(kind: str, options: dict[str, Any], dtype: Any, compiled: bool = False) -> list[np.ndarray]:
    param = aj.tensor(START.astype(dtype), requires_grad=True)
    optimizer = getattr(optim, kind)([param], **options)

    def take_step(optimizer: optim.Optimizer, grad: aj.Tensor) -> None:
        optimizer.zero_grad()
        (param * grad).sum().backward()
        optimizer.step()

    call = aj.compile(take_step) if compiled else take_step
    found = []
    for grad in GRADS:
        call(optimizer, aj.tensor(grad.astype(dtype)))
        found.append(param.detach().numpy().copy())
    return found


@pytest.mark.parametrize(("kind", "formula", "options"), CASES, ids=NAMES)
def test_steps(kind: str, formula: Callable[..., Iterator[Array]], options: dict[str, Any]) -> None:
    for ours, expected in zip(run(kind, options, np.float64), formula(START, GRADS, **options), strict=True):
        np.testing.assert_allclose(ours, expected, 1e-11, 1e-13)
    assert run(kind, options, np.float32)[-1].dtype == np.float32
    np.testing.assert_allclose(run(kind, options, np.float64, compiled=True), run(kind, options, np.float64), 1e-12, 1e-14)


@pytest.mark.parametrize(("kind", "formula", "options"), CASES, ids=NAMES)
def test_steps_beside_torch(kind: str, formula: Callable[..., Iterator[Array]], options: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    theirs = torch.tensor(START, requires_grad=True)
    optimizer = getattr(torch.optim, kind)([theirs], **options)
    for ours, grad in zip(run(kind, options, np.float64), GRADS, strict=True):
        theirs.grad = torch.tensor(grad)
        optimizer.step()
        np.testing.assert_allclose(ours, theirs.detach().numpy(), 1e-11, 1e-13)
    taken = getattr(optim, kind)([aj.tensor(START, requires_grad=True)])
    taken.load_state_dict(optimizer.state_dict())
    assert set(taken.state_dict()["state"][0]) == set(optimizer.state_dict()["state"][0])


def test_options_out_of_range() -> None:
    with pytest.raises(ValueError, match="invalid rho value: 2"):
        optim.Adadelta([aj.tensor([1.0])], rho=2)
    with pytest.raises(ValueError, match="betas lie in"):
        optim.RAdam([aj.tensor([1.0])], betas=(1.0, 0.9))


def test_parameters_as_one_vector() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    vector = nn.utils.parameters_to_vector(net.parameters())
    np.testing.assert_array_equal(vector.detach().numpy(), np.concatenate([p.detach().numpy().ravel() for p in net.parameters()]))
    (vector * vector).sum().backward()
    np.testing.assert_array_equal(net[0].bias.grad.numpy(), 2 * net[0].bias.detach().numpy())
    before = list(net.parameters())
    nn.utils.vector_to_parameters(aj.arange(13.0), net.parameters())
    np.testing.assert_array_equal(net[1].weight.detach().numpy(), [[9.0, 10.0, 11.0]])
    assert all(new is old for new, old in zip(net.parameters(), before, strict=True))
    with pytest.raises(ShapeError, match=r"13 elements, got a vector of the shape \(12,\)"):
        nn.utils.vector_to_parameters(aj.zeros(12), net.parameters())
    np.testing.assert_array_equal(net[1].bias.detach().numpy(), [12.0])


def test_padded_sequences() -> None:
    first, second = aj.ones(3, 2, requires_grad=True), aj.ones(1, 2, requires_grad=True)
    padded = nn.utils.rnn.pad_sequence([first, second], padding_value=-1.0)
    assert padded.shape == (3, 2, 2)
    np.testing.assert_array_equal(padded[:, 1].detach().numpy(), [[1, 1], [-1, -1], [-1, -1]])
    (3 * padded).sum().backward()
    np.testing.assert_array_equal(second.grad.numpy(), [[3.0, 3.0]])
    assert nn.utils.rnn.pad_sequence([first, second], batch_first=True).shape == (2, 3, 2)
    with pytest.raises(ValueError, match="at least one sequence"):
        nn.utils.rnn.pad_sequence([])
