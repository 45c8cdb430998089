"""Tensors and modules of float16 and bfloat16: PyTorch's promotion, training, files, compiled steps."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit import nn
from adjit.ir.types import F16, F32, bfloat16

BF16 = bfloat16()
HALVES = (F16, BF16)
VALUES = [1.5, 2.25, -3.0]

PROMOTED: dict[str, tuple[Callable[[Any], Any], bool]] = {
    "float": (lambda t: t * 2.5, True), "int": (lambda t: 2 * t, True), "integers": (lambda t: t + aj.tensor([1, 2, 3]), True),
    "quotient": (lambda t: aj.tensor([1, 2, 3]) / t, True), "product": (lambda t: t @ t, True),
    "where": (lambda t: aj.where(t > 0, t, 0.0), True),
    "power": (lambda t: t**2, True), "root": (lambda t: t.abs()**0.5, True),
    "sum": (lambda t: t.sum(), True), "mean": (lambda t: t.mean(), True),
    "softmax": (lambda t: t.softmax(0), True), "clamp": (lambda t: t.clamp(0, 1), True), "std": (lambda t: t.std(), True),
    "exp": (np.exp, True), "stack": (lambda t: aj.stack([t, t]), True), "sort": (lambda t: t.sort()[0], True),
    "float32": (lambda t: t + aj.tensor([1.0, 2.0, 3.0]), False), "the other half": (lambda t: t.half() + t.bfloat16(), False)}


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_promotion_is_pytorchs(dtype: np.dtype) -> None:
    """With Python numbers and integers to the half itself, with float32 and beside the other half to float32."""
    t = aj.tensor(VALUES, dtype=dtype.name)
    assert t.dtype == dtype
    assert t.is_floating_point()
    for name, (function, stays) in PROMOTED.items():
        found, wanted = function(t), function(aj.tensor(VALUES))
        assert found.dtype == (dtype if stays else F32), name
        np.testing.assert_allclose(found.numpy().astype(F32), wanted.numpy(), rtol=0.02, err_msg=name)
        compiled = aj.compile(lambda t, function=function: function(t))(t)
        assert compiled.dtype == found.dtype, name
        np.testing.assert_array_equal(compiled.numpy(), found.numpy())


def test_conversions_and_copies() -> None:
    t = aj.tensor(VALUES, requires_grad=True)
    for half in (t.half(), t.to("float16"), t.bfloat16(), t.to("bfloat16"), t.to(dtype=BF16), t.type(F16)):
        assert half.dtype in HALVES
        assert half.float().dtype == F32
        half.sum().backward()
        assert t.grad.dtype == F32
        for again in (copy.deepcopy(half.detach()), pickle.loads(pickle.dumps(half.detach()))):
            assert again.dtype == half.dtype
            np.testing.assert_array_equal(again.numpy(), half.detach().numpy())
        assert half.tolist() == VALUES
        assert f"dtype={half.dtype.name}" in repr(half)


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 3))


def data(dtype: np.dtype) -> tuple[aj.Tensor, aj.Tensor]:
    return aj.tensor(np.random.default_rng(0).normal(size=(12, 8)), dtype=dtype), aj.tensor(np.arange(12) % 3)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_modules_train(dtype: np.dtype) -> None:
    losses: dict[str, list[float]] = {}
    for way in ("eager", "compiled", "float32"):
        aj.manual_seed(0)
        net = network()
        net = net if way == "float32" else net.half() if dtype == F16 else net.bfloat16()
        x, y = data(F32 if way == "float32" else dtype)
        optimizer = aj.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)

        def step(net: Any, optimizer: Any, x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
            return loss

        run = aj.compile(step) if way == "compiled" else step
        losses[way] = [run(net, optimizer, x, y).item() for _ in range(6)]
        assert all(parameter.dtype == parameter.grad.dtype == x.dtype for parameter in net.parameters())
    np.testing.assert_allclose(losses["eager"], losses["float32"], rtol=0.1, atol=0.02)
    np.testing.assert_allclose(losses["compiled"], losses["eager"], rtol=0.05, atol=0.02)
    assert losses["eager"][-1] < losses["eager"][0]


@pytest.mark.parametrize("name", ["SGD", "Adam", "RMSprop"])
def test_optimizers_keep_their_state_in_float32(name: str) -> None:
    """Squares of small gradients are 0 in float16, and small changes are lost in bfloat16."""
    for dtype in HALVES:
        x = aj.tensor([1.0, 2.0], dtype=dtype, requires_grad=True)
        wide = aj.tensor([1.0, 2.0], requires_grad=True)
        optimizers = [getattr(aj.optim, name)([t], lr=0.05, **({"momentum": 0.9} if name == "SGD" else {})) for t in (x, wide)]
        for _ in range(5):
            for t, optimizer in zip((x, wide), optimizers, strict=True):
                optimizer.zero_grad()
                (t * 1e-4).sum().backward()
                optimizer.step()
        assert x.dtype == dtype
        assert {state.dtype for known in optimizers[0].state.values() for state in known.values() if state.shape} == {F32}
        np.testing.assert_allclose(x.detach().numpy().astype(F32), wide.detach().numpy(), rtol=0.03)
        functional = getattr(aj.optim, name.lower())(0.05)
        params, _ = functional.update({"x": np.ones(2, dtype)}, {"x": np.ones(2, dtype)}, functional.init({"x": np.ones(2, dtype)}))
        assert params["x"].dtype == dtype


def test_functions_of_networks_on_arrays_keep_bfloat16() -> None:
    x = np.array(VALUES, BF16)
    for function in (nn.functional.gelu, nn.functional.silu, lambda x: nn.functional.softmax(x, 0), nn.functional.elu):
        assert function(x).dtype == BF16
        assert aj.compile(lambda x, function=function: function(x))(x).dtype == BF16
    assert aj.compile(lambda x: x * 2.5)(x).dtype == (x * 2.5).dtype == F32


def test_saved_tensors_are_halves() -> None:
    for dtype in HALVES:
        t = aj.tensor(VALUES, dtype=dtype, requires_grad=True)
        y = t.tanh()
        assert [saved.dtype for saved in y.grad_fn.saved_tensors] == [dtype]
        y.sum().backward()
        np.testing.assert_allclose(t.grad.numpy().astype(F32), 1 - np.tanh(VALUES)**2, atol=0.01)


def test_files(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    for dtype in HALVES:
        net = network().to(dtype)
        nn.save_state(net, tmp_path / "net.safetensors")
        state = nn.load_state(tmp_path / "net.safetensors")
        other = network().to(dtype)
        other.load_state_dict(state)
        for name, tensor in net.state_dict().items():
            assert state[name].dtype == dtype
            np.testing.assert_array_equal(other.state_dict()[name].numpy(), tensor.numpy())


def test_random_numbers() -> None:
    for dtype in HALVES:
        for draw in (aj.random.uniform, aj.random.normal):
            numbers = draw(aj.random.key(0), 2000, dtype=dtype)
            assert numbers.dtype == dtype
            assert np.isfinite(numbers.astype(F32)).all()
        unit = aj.random.uniform(aj.random.key(0), 2000, dtype=dtype)
        assert unit.min() >= 0
        assert unit.max() < 1
