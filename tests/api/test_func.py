"""Tests of `adjit.func`: structures of results are those of `torch.func`, values those of loops over examples and models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.tracing import counted_runs

import adjit as aj
from adjit import func, nn
from adjit.errors import ArgumentError, StateError, TraceError

X = aj.tensor(np.random.default_rng(0).normal(size=(5, 3)))
W = aj.tensor(np.random.default_rng(1).normal(size=3))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.rest = nn.Linear(3, 4), nn.Sequential(nn.Tanh(), nn.Linear(4, 2))
        self.register_buffer("scale", aj.full((2,), 0.5))

    def forward(self, x: aj.Tensor, factor: float = 1.0) -> aj.Tensor:
        return self.rest(self.first(x)) * self.scale * factor


def close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(np.asarray(found.detach()), np.asarray(expected.detach()), rtol=1e-5, atol=1e-6)


def test_results_come_in_the_order_of_torch() -> None:
    def f(w: aj.Tensor, x: aj.Tensor) -> tuple[aj.Tensor, aj.Tensor]:
        return (x @ w).sin().sum(), x @ w

    gradient = X.T @ (X @ W).cos()
    close(func.grad(f, has_aux=True)(W, X)[0], gradient)
    found, (value, aux) = func.grad_and_value(f, has_aux=True)(W, X)
    close(found, gradient)
    close(value, (X @ W).sin().sum())
    close(aux, X @ W)
    matrix = (X @ W).cos()[:, None] * X
    for transform in (func.jacrev, func.jacfwd):
        found, aux = transform(lambda w: ((X @ w).sin(), w), has_aux=True)(W)
        close(found, matrix)
        close(aux, W)
    close(func.jvp(lambda w: ((X @ w).sin(), w), (W,), (W,), has_aux=True)[1], matrix @ W)
    output, pullback, aux = func.vjp(lambda w: ((X @ w).sin(), w), W, has_aux=True)
    close(pullback(output)[0], matrix.T @ output)
    close(aux, W)
    close(func.hessian(lambda w: w ** 3)(W)[1, 1, 1], 6 * W[1])


def test_vmap() -> None:
    """Keyword arguments are shared; chunks are joined where the axis of the results is."""
    close(func.vmap(lambda x, *, w: (x * w).sum())(X, w=W), X @ W)
    for chunk in (None, 2, 5, 9):
        first, second = func.vmap(lambda w, x: (x * w, {"sum": x.sum()}), in_dims=(None, 0), out_dims=(1, 0), chunk_size=chunk)(W, X)
        close(first, (X * W).T)
        close(second["sum"], X.sum(1))
    with pytest.raises(TraceError, match="in_dims has 3 entries for 2 positional arguments"):
        func.vmap(lambda x, y: x, in_dims=(0, 1, 2))(X, W)


def test_calls_with_a_shared_function_compile_once() -> None:
    def loss(w: aj.Tensor, x: aj.Tensor) -> aj.Tensor:
        return (x @ w).sum()

    with counted_runs(loss) as traces:
        for _ in range(3):
            func.vmap(func.grad(loss), in_dims=(None, 0))(W, X)
    assert len(traces) == 1


def test_randomness() -> None:
    aj.manual_seed(0)
    drop, ones = nn.Dropout(0.5), aj.ones(6, 64)
    same, different = (np.asarray(func.vmap(lambda x: drop(drop(x)), randomness=how)(ones)) for how in ("same", "different"))
    assert (same == same[0]).all()
    assert len(np.unique(different, axis=0)) == 6
    assert {0.0, 4.0} == set(np.unique(same))
    assert 0.15 < (same[0] > 0).mean() < 0.35       # both draws count
    assert (np.asarray(func.vmap(lambda x: drop(drop(x)), randomness="same")(ones)) != same).any()
    with pytest.raises(ArgumentError, match="draws random numbers") as caught:
        func.vmap(drop)(ones)
    assert "randomness='different'" in str(caught.value)


def test_gradients_of_each_example() -> None:
    model, x, y = Net(), X.float(), aj.ones(5, 2)
    parameters, buffers = {name: tensor.detach() for name, tensor in model.named_parameters()}, dict(model.named_buffers())

    def loss(parameters: Any, buffers: Any, x: aj.Tensor, y: aj.Tensor) -> aj.Tensor:
        return ((func.functional_call(model, (parameters, buffers), (x,)) - y) ** 2).mean()

    found = func.vmap(func.grad(loss), in_dims=(None, None, 0, 0))(parameters, buffers, x, y)
    assert list(found) == list(parameters)
    for k in range(5):
        model.zero_grad()
        ((model(x[k]) - y[k]) ** 2).mean().backward()
        for name, parameter in model.named_parameters():
            close(found[name][k], parameter.grad)


def test_ensemble_of_models() -> None:
    models = [Net() for _ in range(3)]
    parameters, buffers = func.stack_module_state(models)
    out = func.vmap(lambda p, b, x: func.functional_call(models[0], (p, b), (x,)), in_dims=(0, 0, None))(parameters, buffers, X.float())
    out.sum().backward()
    for k, model in enumerate(models):
        close(out[k], model(X.float()))
        model(X.float()).sum().backward()
        for name, parameter in model.named_parameters():
            close(parameters[name].grad[k], parameter.grad)


def test_functional_call_replaces_what_it_is_given_and_leaves_the_module() -> None:
    model, x = Net(), X.float()
    before = model(x)
    bias = aj.ones(4)
    weight, rest = model.first.weight, model.rest
    close(func.functional_call(model, {"first.bias": bias}, x, {"factor": 2.0}), 2.0 * model.scale * rest(x @ weight.T + bias))
    close(model(x), before)
    compiled = aj.compile(lambda parameters, x: func.functional_call(model, parameters, (x,)))
    close(compiled({"first.bias": bias}, x), model.scale * rest(x @ weight.T + bias))
    tied = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False))
    tied[1].weight = tied[0].weight
    half = {"0.weight": aj.eye(3) / 2}
    close(func.functional_call(tied, half, x), x / 4)
    close(func.functional_call(tied, half, x, tie_weights=False), x / 2 @ tied[0].weight.T)


def test_modes_of_the_module_are_watched() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.99))
    compiled = aj.compile(lambda parameters, x: func.functional_call(model, parameters, (x,)))
    parameters = dict(model.named_parameters())
    assert (np.asarray(compiled(parameters, X.float()).detach()) == 0).any()
    model.eval()
    close(compiled(parameters, X.float()), model(X.float()))


@pytest.mark.parametrize(("call", "message"), [
    (lambda: func.functional_call(Net(), {"first.wight": W}, X), "not expected: first.wight"),
    (lambda: func.functional_call(Net(), {"scale": W}, X, strict=True), "missing: first.weight, first.bias, rest.1.weight, rest.1.bias"),
    (lambda: func.stack_module_state([]), "there is no model"),
    (lambda: func.stack_module_state([Net(), nn.Linear(3, 2)]), "they are of one class"),
    (lambda: func.stack_module_state([Net(), Net().eval()]), "in training mode"),
    (lambda: func.stack_module_state([nn.Linear(3, 2), nn.Linear(2, 2)]), "weight differs in shape"),
])
def test_refusals(call: Any, message: str) -> None:
    with pytest.raises(StateError, match=message):
        call()
