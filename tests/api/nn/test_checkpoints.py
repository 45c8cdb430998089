"""Checkpoints: nested states in one file, training that goes on from it bit by bit, and states of other libraries."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit import nn
from adjit.errors import StateError

X = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)


def made(optimizer: Callable[..., Any], schedule: Callable[..., Any]) -> tuple[nn.Module, Any, Any]:
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 1))
    opt = optimizer(model.parameters())
    return model, opt, schedule(opt)


def trained(model: nn.Module, optimizer: Any, schedule: Any, steps: int) -> list[float]:
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(aj.tensor(X)).square().mean()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return losses


PAIRS: list[tuple[Callable[..., Any], Callable[..., Any]]] = [
    (lambda p: aj.optim.AdamW(p, lr=0.1), lambda o: aj.optim.lr_scheduler.CosineAnnealingLR(o, 7)),
    (lambda p: aj.optim.SGD(p, lr=0.1, momentum=0.9), lambda o: aj.optim.lr_scheduler.MultiStepLR(o, [2, 5])),
    (lambda p: aj.optim.RMSprop(p, lr=0.1), lambda o: aj.optim.lr_scheduler.OneCycleLR(o, 0.1, 20, cycle_momentum=False)),
]


@pytest.mark.parametrize(("optimizer", "schedule"), PAIRS)
def test_training_goes_on_bit_by_bit(tmp_path: Path, optimizer: Callable[..., Any], schedule: Callable[..., Any]) -> None:
    pytest.importorskip("safetensors")
    aj.manual_seed(0)
    model, opt, plan = made(optimizer, schedule)
    trained(model, opt, plan, 3)
    nn.save_state({"model": model, "optimizer": opt, "schedule": plan, "random": aj.get_rng_state(), "epoch": 3}, tmp_path / "x")
    expected = trained(model, opt, plan, 4)

    aj.manual_seed(1)
    model, opt, plan = made(optimizer, schedule)
    checkpoint = nn.load_state(tmp_path / "x")
    assert checkpoint["epoch"] == 3
    assert repr(model.load_state_dict(checkpoint["model"])) == "<All keys matched successfully>"
    opt.load_state_dict(checkpoint["optimizer"])
    plan.load_state_dict(checkpoint["schedule"])
    aj.set_rng_state(checkpoint["random"])
    assert trained(model, opt, plan, 4) == expected


def test_structures_come_back_as_they_were(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    state = {"numbers": [1, 2.5, True, None, 1e-300, float("inf")], 7: {"text": "a.b", "pair": (1, [])}, "empty": {}, "lr": np.float64(0.1)}
    nn.save_state(state, tmp_path / "x")
    loaded = nn.load_state(tmp_path / "x")
    assert loaded == state
    assert list(loaded) == list(state)
    assert isinstance(loaded[7]["pair"], tuple)     # type: ignore[index]


def test_names_that_collide_are_kept_apart(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    nn.save_state({"a": {"b": aj.tensor(1.0)}, "a.b": aj.tensor(2.0)}, tmp_path / "x")
    loaded = nn.load_state(tmp_path / "x")
    assert (loaded["a"]["b"].item(), loaded["a.b"].item()) == (1.0, 2.0)


def test_tensors_of_checkpoints_can_be_read_by_others(tmp_path: Path) -> None:
    numpy_format = pytest.importorskip("safetensors.numpy")
    nn.save_state({"model": nn.Linear(2, 3), "epoch": 1}, tmp_path / "x", metadata={"by": "me"})
    assert {name: array.shape for name, array in numpy_format.load_file(tmp_path / "x").items()} == {
        "model.weight": (3, 2), "model.bias": (3,)}


@pytest.mark.parametrize("state", [{"a": {"f": object()}}, {(1, 2): 3}, object()])
def test_what_no_file_can_hold_is_refused(tmp_path: Path, state: Any) -> None:
    pytest.importorskip("safetensors")
    with pytest.raises(StateError, match=r"(a\.f|the state) (is a object|has the key)"):
        nn.save_state(state, tmp_path / "x")
    assert not list(tmp_path.iterdir())


def test_the_state_of_the_generator() -> None:
    aj.manual_seed(5)
    state = aj.get_rng_state()
    first = aj.tensor(np.zeros(4)).normal_()
    aj.set_rng_state(state)
    np.testing.assert_array_equal(aj.tensor(np.zeros(4)).normal_().numpy(), first.numpy())
    with pytest.raises(StateError, match="two uint64 numbers"):
        aj.set_rng_state(aj.tensor([1.0]))


class Foreign:
    """An array of another library."""

    def __init__(self, array: np.ndarray):
        self._array = array
        self.shape, self.dtype = array.shape, "another.dtype"

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()


def test_tensors_of_other_libraries_are_loaded() -> None:
    net = nn.Linear(2, 1)
    net.load_state_dict({"weight": Foreign(np.array([[1.0, 2.0]])), "bias": np.array([3.0], np.float16)})
    np.testing.assert_array_equal(net.weight.detach().numpy(), [[1.0, 2.0]])
    np.testing.assert_array_equal(net.bias.detach().numpy(), [3.0])
    assert net.weight.dtype == np.float32
    with pytest.raises(StateError, match=r"weight: shape \(1, 3\) in place of \(1, 2\)"):
        net.load_state_dict({"weight": Foreign(np.ones((1, 3))), "bias": np.ones(1)})
    with pytest.raises(StateError, match="bias: the dtype complex128"):
        net.load_state_dict({"weight": np.ones((1, 2)), "bias": np.ones(1, complex)})


def test_the_state_of_a_torch_model_is_loaded() -> None:
    torch = pytest.importorskip("torch")
    theirs = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
    ours = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    ours.load_state_dict(theirs.state_dict())
    np.testing.assert_allclose(ours(aj.tensor(X)).detach().numpy(), theirs(torch.tensor(X)).detach().numpy(), rtol=1e-5, atol=1e-6)
    ours[0].load_state_dict(dict(theirs[0].named_parameters()))
    with pytest.raises(StateError, match=r"bias: a torch\.Tensor that is no array in the memory of the CPU"):
        ours[0].load_state_dict({"weight": theirs[0].weight, "bias": torch.zeros(3, dtype=torch.bfloat16)})
