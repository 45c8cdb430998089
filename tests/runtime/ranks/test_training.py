"""Data-parallel training: the same bits on 1, 2 and 4 ranks, also after a restart on another number of them."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.ranks import SUPPORT, run_ranks

import adjit as aj
from adjit import distributed as dist
from adjit.errors import ArgumentError, ShapeError, StateError

PROGRAM = SUPPORT / "rank_training.py"


def digest(text: str) -> str:
    found = re.search(r"digest (\w+)", text)
    assert found is not None, text
    return found[1]


@cache
def undisturbed() -> str:
    return digest(subprocess.run([sys.executable, str(PROGRAM)], capture_output=True, text=True, check=True).stdout)


def test_the_same_bits_on_two_ranks() -> None:
    ran = run_ranks(2, PROGRAM)
    assert ran.returncode == 0, ran.stdout
    assert digest(ran.stdout) == undisturbed()


@pytest.mark.parametrize("arguments", [[], ["--sharded"]], ids=["whole", "sharded"])
def test_every_number_of_ranks(arguments: list[str], exhaustive: bool) -> None:
    if not exhaustive:
        pytest.skip("with --exhaustive")
    for count in (1, 2, 4, 8):
        assert digest(run_ranks(count, PROGRAM, *arguments, timeout=300).stdout) == undisturbed()


def test_a_rank_dies_and_others_go_on(tmp_path: Path, exhaustive: bool) -> None:
    path = str(tmp_path / "checkpoint")
    ran = run_ranks(2, PROGRAM, "--checkpoint", path, "--die-at", "5", "--sharded")
    assert ran.returncode != 0
    assert "digest" not in ran.stdout
    again = run_ranks(4 if exhaustive else 1, PROGRAM, "--checkpoint", path, "--sharded")
    assert "goes on from step 4" in again.stdout, again.stdout
    assert digest(again.stdout) == undisturbed()
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoint"]


def loss(w: Any, x: Any, y: Any) -> Any:
    return np.mean((np.tanh(x @ w) - y) ** 2)


X, Y, W = np.random.default_rng(0).normal(size=(12, 3)), np.arange(12.0), np.array([0.1, -0.2, 0.3])


@pytest.mark.parametrize("shards", [None, 1, 2, 3, 4, 6, 12])
def test_mean_gradients_in_a_world_of_one(shards: int | None) -> None:
    value, gradient = dist.mean_gradients(loss, shards=shards)(W, X, Y)
    expected = aj.value_and_grad(loss)(W, X, Y)
    np.testing.assert_allclose(value, expected[0], rtol=1e-14)
    np.testing.assert_allclose(gradient, expected[1], rtol=1e-13)
    (value, aux), _ = dist.mean_gradients(lambda w, x, y: (loss(w, x, y), {"rows": np.sum(y >= 0)}), shards=shards, has_aux=True)(W, X, Y)
    assert aux["rows"] == 12 / (shards or 1)


def test_tensors_and_numbers() -> None:
    params = {"w": aj.tensor(W, requires_grad=True)}
    _, grads = dist.mean_gradients(lambda p, x, scale: ((x @ p["w"]) ** 2).mean() * scale, shards=4)(params, aj.tensor(X), 2.0)
    expected = aj.grad(lambda w: np.mean((X @ w) ** 2) * 2.0)(W)
    np.testing.assert_allclose(grads["w"].detach().numpy(), expected, rtol=1e-13)


def test_errors() -> None:
    with pytest.raises(ArgumentError, match="shards is 0"):
        dist.mean_gradients(loss, shards=0)
    with pytest.raises(ShapeError, match="12 rows on this rank cannot be cut into 5 shards"):
        dist.mean_gradients(loss, shards=5)(W, X, Y)
    with pytest.raises(ShapeError, match="arrays of the batch have 12 and 11 rows"):
        dist.mean_gradients(loss)(W, X, Y[:11])
    with pytest.raises(ArgumentError, match="sharded got a str"):
        dist.sharded("adam")        # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["sgd", "adam", "adamw", "rmsprop", "adagrad"])
def test_sharded_has_the_bits_of_the_whole(name: str) -> None:
    whole = getattr(aj.optim, name)(0.1)
    parts = dist.sharded(whole)
    params = ours = {"w": W, "b": np.float32(0.5)}
    state, own = whole.init(params), parts.init(params)
    for number in range(3):
        grads = {"w": np.cos(params["w"] + number), "b": np.float32(params["b"] * 0.1)}
        params, state = whole.update(params, grads, state)
        ours, own = parts.update(ours, grads, own)
        own = parts.scatter(parts.gather(own, ours))
    assert all(np.array_equal(ours[key], params[key]) and ours[key].dtype == params[key].dtype for key in params)


def test_checkpoints(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    tree = {"w": W, "t": aj.tensor([1.0, 2.0], requires_grad=True), "step": 3, "name": "run", "nothing": None}
    dist.save(tree, path)
    again = dist.load(path, tree)
    assert np.array_equal(again["w"], W)
    assert again["t"].requires_grad
    assert (again["step"], again["name"], again["nothing"]) == (3, "run", None)
    for like, message in (({**tree, "w": np.zeros(4)}, r"holds at \['w'\] float64 of shape \(3,\)"),
                          ({**tree, "more": W}, r"it lacks \['more'\]")):
        with pytest.raises(StateError, match=message):
            dist.load(path, like)
    before = path.read_bytes()
    with pytest.raises(StateError, match="cannot be written"):
        dist.save({"w": object()}, path)
    assert path.read_bytes() == before
    with pytest.raises(StateError, match="cannot be read: No such file"):
        dist.load(tmp_path / "none", tree)
    path.write_bytes(before[:-8])
    with pytest.raises(StateError):
        dist.load(path, tree)
