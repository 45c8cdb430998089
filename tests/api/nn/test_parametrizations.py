"""Parametrised tensors: values against formulas in NumPy, names of states, removal, compiled steps."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit import nn
from adjit.errors import ArgumentError, ShapeError
from adjit.nn import utils
from adjit.nn.utils import parametrizations, parametrize
from adjit.nn.utils.stateless import functional_call


class Symmetric(nn.Module):
    def forward(self, x: aj.Tensor) -> Any:
        return x.triu() + x.triu(1).T

    def right_inverse(self, x: aj.Tensor) -> Any:
        return x.triu()


class Doubled(nn.Module):
    def forward(self, x: aj.Tensor) -> Any:
        return x * 2.0

    def right_inverse(self, x: aj.Tensor) -> Any:
        return x * 0.5


class Positive(nn.Module):
    calls = 0

    def forward(self, x: aj.Tensor) -> Any:
        type(self).calls += 1
        return x.exp()


def linear(outputs: int = 3, inputs: int = 3) -> nn.Linear:
    aj.manual_seed(0)
    return nn.Linear(inputs, outputs, dtype=np.float64)


def values(tensor: Any) -> np.ndarray:
    return np.array(tensor.detach().numpy())


def test_parametrizations_are_applied_in_order_and_inverted_when_set() -> None:
    layer = linear()
    parameter = layer.weight
    parametrize.register_parametrization(layer, "weight", Symmetric())
    parametrize.register_parametrization(layer, "weight", Doubled())
    assert layer.parametrizations.weight.original is parameter
    expected = np.triu(values(parameter)) + np.triu(values(parameter), 1).T
    np.testing.assert_array_equal(values(layer.weight), 2.0 * expected)
    wanted = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 5.0], [3.0, 5.0, 6.0]])
    layer.weight = aj.tensor(wanted)
    np.testing.assert_array_equal(values(layer.weight), wanted)
    np.testing.assert_array_equal(values(parameter), 0.5 * np.triu(wanted))
    layer(aj.ones(2, 3, dtype=np.float64)).sum().backward()
    np.testing.assert_array_equal(parameter.grad.numpy(), 2.0 * np.triu(np.full((3, 3), 4.0) - 2.0 * np.eye(3)))
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        np.testing.assert_array_equal(values(other.weight), wanted)
        other.weight = aj.zeros(3, 3, dtype=np.float64)
        assert not values(other.weight).any()
    np.testing.assert_array_equal(values(layer.weight), wanted)


def test_removal_keeps_the_parameter_and_the_value_or_the_original() -> None:
    for leave, expected in ((True, 2.0), (False, 1.0)):
        layer = linear()
        parameter, before = layer.weight, values(layer.weight)
        parametrize.register_parametrization(layer, "weight", Doubled(), unsafe=True)
        with aj.no_grad():
            layer.parametrizations.weight.original.copy_(aj.tensor(before))
        assert [parametrize.is_parametrized(layer, name) for name in ("weight", "bias")] == [True, False]
        assert parametrize.remove_parametrizations(layer, "weight", leave) is layer
        assert layer.weight is parameter
        assert not parametrize.is_parametrized(layer)
        assert list(layer.state_dict()) == ["bias", "weight"]
        np.testing.assert_array_equal(values(layer.weight), expected * before)
    with pytest.raises(ArgumentError, match="'weight' of a Linear is not parametrized"):
        parametrize.remove_parametrizations(layer, "weight")


def test_cached_computes_once_outside_of_traces() -> None:
    layer = parametrize.register_parametrization(linear(), "weight", Positive())
    Positive.calls = 0
    with parametrize.cached():
        first = layer.weight
        assert layer.weight is first
        assert Positive.calls == 1
        compiled = aj.compile(lambda: layer.weight + 0.0)
        for _ in range(2):
            np.testing.assert_allclose(values(compiled()), values(first), 1e-15)
        assert layer.weight is first
        with aj.no_grad():
            layer.parametrizations.weight.original.add_(1.0)
        np.testing.assert_allclose(values(compiled()), np.e * values(first), 1e-12)     # nothing of the cache is in the program
    second = layer.weight
    assert layer.weight is not second


def test_what_does_not_fit_is_refused_and_changes_nothing() -> None:
    class Flat(nn.Module):
        def forward(self, x: aj.Tensor) -> Any:
            return x.reshape(-1)

    layer = linear()
    before = values(layer.weight)
    with pytest.raises(ShapeError, match=r"may not change the shape.*\(9,\).*\(3, 3\)"):
        parametrize.register_parametrization(layer, "weight", Flat())
    with pytest.raises(ArgumentError, match="no parameter, buffer or parametrized tensor 'wait'"):
        parametrize.register_parametrization(layer, "wait", Doubled())
    np.testing.assert_array_equal(values(layer.weight), before)
    assert list(layer.state_dict()) == ["weight", "bias"]
    parametrize.register_parametrization(layer, "weight", Flat(), unsafe=True)
    assert layer.weight.shape == (9,)
    old = utils.weight_norm(linear())
    with pytest.raises(ArgumentError, match="computed from weight_g, weight_v: it cannot be set"):
        old.weight = nn.Parameter(before)


@pytest.mark.parametrize("dim", [0, 1, None])
def test_weight_norm(dim: int | None) -> None:
    layer, old = parametrizations.weight_norm(linear(2), dim=dim), utils.weight_norm(linear(2), dim=dim)
    start = values(linear(2).weight)
    assert list(layer.state_dict()) == ["bias", "parametrizations.weight.original0", "parametrizations.weight.original1"]
    assert list(old.state_dict()) == ["bias", "weight_g", "weight_v"]
    axes = None if dim is None else 1 - dim
    norm = np.sqrt(np.sum(start ** 2, axis=axes, keepdims=dim is not None))
    with aj.no_grad():
        old.weight_g.mul_(3.0)
    layer.load_state_dict(old.state_dict())     # the older names
    for each in (layer, old):
        np.testing.assert_allclose(values(each.weight), 3.0 * start, 1e-14)
    np.testing.assert_allclose(values(old.weight_g), 3.0 * norm, 1e-14)
    np.testing.assert_allclose(values(utils.remove_weight_norm(old).weight), 3.0 * start, 1e-14)
    result = functional_call(layer, {"parametrizations.weight.original0": aj.zeros(*norm.shape, dtype=np.float64)},
                             aj.ones(1, 3, dtype=np.float64))
    np.testing.assert_array_equal(values(result)[0], values(layer.bias))


def test_spectral_norm_iterates_while_training() -> None:
    layer, old = parametrizations.spectral_norm(linear(2)), utils.spectral_norm(linear(2))
    start = values(linear(2).weight)
    u, v = values(layer.parametrizations.weight[0]._u), values(layer.parametrizations.weight[0]._v)
    u = start @ v / np.linalg.norm(start @ v)
    v = start.T @ u / np.linalg.norm(start.T @ u)
    np.testing.assert_allclose(values(layer.weight), start / (u @ start @ v), 1e-13)
    np.testing.assert_allclose(values(layer.parametrizations.weight[0]._u), u, 1e-13)
    u, v = values(old.weight_u), values(old.weight_v)
    old.eval()(aj.ones(1, 3, dtype=np.float64))
    np.testing.assert_array_equal(values(old.weight_u), u)
    np.testing.assert_allclose(values(old.weight), start / (u @ start @ v), 1e-13)
    old.train()(aj.ones(1, 3, dtype=np.float64))
    v = start.T @ u / np.linalg.norm(start.T @ u)
    u = start @ v / np.linalg.norm(start @ v)
    np.testing.assert_allclose(values(old.weight_u), u, 1e-13)
    np.testing.assert_allclose(values(utils.remove_spectral_norm(old).weight), start / (u @ start @ v), 1e-13)
    assert list(old.state_dict()) == ["bias", "weight"]


@pytest.mark.parametrize("orthogonal_map", ["matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4)])
def test_orthogonal(shape: tuple[int, int], orthogonal_map: Any) -> None:
    layer = parametrizations.orthogonal(linear(*shape), orthogonal_map=orthogonal_map)
    start = values(linear(*shape).weight)
    tall = start if shape[0] >= shape[1] else start.T
    q, r = np.linalg.qr(tall)
    q = q * np.sign(np.diag(r))
    np.testing.assert_allclose(values(layer.weight), q if shape[0] >= shape[1] else q.T, 1e-12, 1e-12)
    with aj.no_grad():
        layer.parametrizations.weight.original.add_(0.3)
        layer.parametrizations.weight.original.diagonal().sign_()
    moved = values(layer.weight if shape[0] >= shape[1] else layer.weight.T)
    assert abs(moved - q).max() > 0.05
    np.testing.assert_allclose(moved.T @ moved, np.eye(min(shape)), 0, 1e-13)


def make_recurrent() -> nn.Module:
    return parametrizations.orthogonal(nn.GRU(3, 3, dtype=np.float64), "weight_hh_l0", "cayley")


@pytest.mark.parametrize("make", [
    lambda: parametrizations.weight_norm(linear()), lambda: parametrizations.spectral_norm(linear()),
    lambda: utils.weight_norm(linear()),
    lambda: utils.spectral_norm(linear()), make_recurrent])
def test_compiled_steps(make: Callable[[], nn.Module]) -> None:
    x = aj.tensor(np.random.default_rng(0).standard_normal((4, 3)))

    def run(is_compiled: bool) -> dict[str, np.ndarray]:
        aj.manual_seed(1)
        model = make()
        optimizer = aj.optim.SGD(model.parameters(), lr=0.1)

        def step(x: aj.Tensor) -> None:
            optimizer.zero_grad()
            result = model(x)
            ((result[0] if isinstance(result, tuple) else result) ** 2).sum().backward()
            optimizer.step()

        run_step = aj.compile(step) if is_compiled else step
        for _ in range(3):
            run_step(x)
        return {name: values(tensor) for name, tensor in model.state_dict().items()}

    eager, compiled = run(False), run(True)
    for name, array in eager.items():
        np.testing.assert_allclose(compiled[name], array, 1e-12, 1e-14, err_msg=name)
