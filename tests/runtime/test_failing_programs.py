"""A compiled program that fails while it runs leaves parameters, optimiser state, buffers and donated arguments as they were."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.backends import BACKENDS

import adjit as aj
from adjit import nn


class Model(nn.Module):
    """With every sort of tensor that a step writes to."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.embedding = nn.Embedding(5, 4)


def content(model: Any, optimizer: Any) -> list[bytes]:
    tensors = [*model.parameters(), *model.buffers()]
    tensors += [tensor for known in optimizer.state.values() for tensor in known.values()]
    tensors += [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    return [tensor.numpy(force=True).tobytes() for tensor in tensors]


def looked_up_last(model: Any, optimizer: Any, x: Any, places: Any) -> Any:
    optimizer.zero_grad()
    loss = model.norm(model.linear(x)).square().mean()
    loss.backward()
    optimizer.step()
    return loss, model.embedding(places).sum()


def looked_up_first(model: Any, optimizer: Any, x: Any, places: Any) -> Any:
    optimizer.zero_grad()
    loss = (model.norm(model.linear(x)) + model.embedding(places).mean(0)).square().mean()
    loss.backward()
    optimizer.step()
    return loss


def looked_up_in_what_is_new(model: Any, optimizer: Any, x: Any, places: Any) -> Any:
    """The lookup needs what the update makes: that update is no longer in place."""
    optimizer.zero_grad()
    loss = (model.norm(model.linear(x)) ** 2).mean() + model.embedding.weight.square().sum()
    loss.backward()
    optimizer.step()
    return loss, model.linear.weight.detach()[places] * 2, model.embedding(places)


@pytest.mark.parametrize("step", [looked_up_last, looked_up_first, looked_up_in_what_is_new])
@pytest.mark.parametrize("make", [aj.optim.SGD, aj.optim.Adam])
def test_a_step_that_fails_changes_nothing(step: Callable[..., Any], make: Any) -> None:
    aj.manual_seed(0)
    model = Model()
    optimizer = make(model.parameters(), lr=0.1)
    compiled = aj.compile(step)
    x = aj.tensor(np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32))
    good, bad = aj.tensor(np.array([0, 2])), aj.tensor(np.array([0, 9]))
    untrained = content(model, optimizer)
    with pytest.raises(IndexError):
        compiled(model, optimizer, x, bad)
    assert content(model, optimizer) == untrained
    for _ in range(2):
        compiled(model, optimizer, x, good)
    before = content(model, optimizer)
    for _ in range(2):
        with pytest.raises(IndexError):
            compiled(model, optimizer, x, bad)
        assert content(model, optimizer) == before
    compiled(model, optimizer, x, good)
    assert content(model, optimizer) != before
    assert compiled.cache_info().traces <= 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_donated_argument_keeps_its_content(backend: str) -> None:
    def update(w: np.ndarray, m: np.ndarray, places: np.ndarray, table: np.ndarray) -> Any:
        moment = 0.9 * m + w
        new = w - 0.1 * moment
        return new, moment, table[places] + new[places] * 2

    compiled = aj.compile(update, donate=("w", "m"), backend=backend)
    w, m, table = np.arange(8.0), np.ones(8), np.arange(8.0)
    compiled(w.copy(), m.copy(), np.array([1, 2]), table)
    given = w.copy(), m.copy()
    with pytest.raises(IndexError):
        compiled(*given, np.array([1, 8]), table)
    np.testing.assert_array_equal(given[0], w)
    np.testing.assert_array_equal(given[1], m)
    results = compiled(*given, np.array([1, 2]), table)
    np.testing.assert_allclose(results[1], 0.9 * m + w)
    np.testing.assert_allclose(results[0], w - 0.1 * (0.9 * m + w))


def test_a_donated_argument_for_rows_keeps_its_content() -> None:
    """Rows are read a chunk of indices at a time, and the last chunk fails."""
    def rows(w: np.ndarray, table: np.ndarray, places: np.ndarray) -> Any:
        return np.take(table, places)

    def rows_of_branch(w: np.ndarray, table: np.ndarray, places: np.ndarray) -> Any:
        return aj.cond(places[0] < 5, lambda: np.take(table, places), lambda: table)

    for function in (rows, rows_of_branch):
        compiled = aj.compile(function, donate="w", threads=1)
        w, table, places = np.arange(3000.0), np.arange(3000.0) * 2, np.arange(3000) - 2990
        given = w.copy()
        result = compiled(given, table, places)
        assert np.shares_memory(result, given)
        np.testing.assert_array_equal(result, table[places])
        for bad in (-3001, 3000, -2 ** 63, 2 ** 63 - 1):
            given, places[2999] = w.copy(), bad
            with pytest.raises(IndexError, match=f"index {bad} is out of bounds for axis 0 with size 3000"):
                compiled(given, table, places)
            np.testing.assert_array_equal(given, w)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ["scan", "while_loop", "cond"])
def test_a_donated_argument_keeps_its_content_where_a_loop_fails(kind: str, backend: str) -> None:
    def look_up(table: np.ndarray, places: np.ndarray) -> Any:
        if kind == "scan":
            return aj.scan(lambda total, place: (total + np.take(table, place), None), 0.0, places)[0]
        if kind == "cond":
            return aj.cond(places[0] >= 0, lambda: np.take(table, places[1]), lambda: table[0])
        return aj.while_loop(lambda state: state[0] < 2,
                             lambda state: (state[0] + 1, state[1] + np.take(table, places[state[0]])), (0, 0.0))[1]

    compiled = aj.compile(lambda w, places, table: (np.tanh(w), look_up(table, places)), donate="w", backend=backend)
    w, table = np.arange(8.0), np.arange(8.0)
    compiled(w.copy(), np.array([1, 2]), table)
    given = w.copy()
    with pytest.raises(IndexError):
        compiled(given, np.array([1, 8]), table)
    np.testing.assert_array_equal(given, w)
    result, _ = compiled(given, np.array([1, 2]), table)
    np.testing.assert_allclose(result, np.tanh(w))


def test_the_indices_of_a_gradient_are_checked_once() -> None:
    """The gradient of a lookup fails where the lookup does: updates may run before it, and stay in place."""
    model = nn.Sequential(nn.Embedding(50, 16), nn.Linear(16, 16), nn.Linear(16, 16))
    optimizer = aj.optim.SGD(model.parameters(), lr=0.1)

    @aj.compile
    def step(model: Any, optimizer: Any, places: Any) -> Any:
        optimizer.zero_grad(set_to_none=True)
        loss = model(places).square().mean()
        gradients = aj.autograd.grad(loss, list(model.parameters()))
        with aj.no_grad():
            for parameter, gradient in zip(model.parameters(), gradients, strict=True):
                parameter.sub_(gradient * 0.1)
        return loss

    step(model, optimizer, aj.tensor(np.array([1, 2, 3])))
    lines = [line for line in step.ir("planned").splitlines() if " = " in line]
    lookup = next(i for i, line in enumerate(lines) if " take " in line or "= take" in line)
    scatter = next(i for i, line in enumerate(lines) if "scatter_add" in line)
    written = [i for i, line in enumerate(lines) if "@ param+" in line]
    assert lookup < min(written) < scatter
