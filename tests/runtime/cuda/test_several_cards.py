"""Several cards, as two emulated devices: where arrays, tensors and programs are, copies between them, and mixes of two."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit import nn
from adjit.errors import ArgumentError, UnsupportedError
from adjit.runtime.native.code import native_is_supported

pytestmark = pytest.mark.skipif(not native_is_supported(), reason="the emulated device is for CPython on Linux on x86-64")
X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(autouse=True)
def two_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADJIT_CUDA", "emulated:2")


def test_arrays_and_programs_of_a_card(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (aj.cuda.device_count(), aj.cuda.current_device()) == (2, 0)
    first, second = aj.device_put(X), aj.device_put({"x": X}, "cuda:1")["x"]
    assert (first.device, second.device) == ("cuda", "cuda:1")
    assert first.driver is not second.driver
    moved = aj.device_put([first, second], 1)
    assert [each.device for each in moved] == ["cuda:1", "cuda:1"]
    assert moved[1] is second
    assert np.asarray(moved[0]).tolist() == X.tolist()
    assert "device='cuda:1'" in repr(second)
    for device in ("cuda:1", 1, aj.device("cuda", 1)):
        doubled = aj.compile(lambda x: 2 * x, device=device)(X)
        assert doubled.device == "cuda:1"
    follows = aj.compile(lambda x: np.tanh(x).sum(0))
    for given in (first, second, X):
        assert getattr(follows(given), "device", "cpu") == getattr(given, "device", "cpu")
    assert len(follows.programs()) == 3

    def add(x: Any, y: Any) -> Any:
        return x + y

    with pytest.raises(UnsupportedError, match=r"y is on the device 'cuda:1', and .*add is compiled for 'cuda'") as caught:
        aj.compile(add)(first, second)
    assert "aj.device_put(y, 'cuda')" in str(caught.value)
    with pytest.raises(UnsupportedError, match=r"the device cuda:2: there are 2 cards here"):
        aj.device_put(X, "cuda:2")
    with pytest.raises(UnsupportedError, match=r"the device cuda:2: there are 2 cards here"):
        aj.compile(add, device=2)
    used = aj.cuda.memory(0).used, aj.cuda.memory(1).used
    kept = aj.device_put(X, 1)
    assert (aj.cuda.memory(0).used, aj.cuda.memory("cuda:1").used) == (used[0], used[1] + kept.nbytes)
    monkeypatch.setenv("ADJIT_CUDA", "emulated:no")
    with pytest.raises(ValueError, match="emulated:2 for two devices"):
        aj.cuda.device_count()


def test_the_current_card() -> None:
    with aj.cuda.device(1):
        assert aj.cuda.current_device() == 1
        assert aj.zeros(2, device="cuda").device == "cuda:1"
        assert aj.device_put(X).device == "cuda:1"
        assert aj.compile(lambda x: x + 1, device="cuda")(X).device == "cuda:1"
        assert aj.tensor(1.0, device="cuda:0").get_device() == 0
    assert aj.cuda.current_device() == 0
    aj.cuda.set_device("cuda:1")
    try:
        assert aj.tensor(X).cuda().get_device() == 1
    finally:
        aj.cuda.set_device(0)
    with pytest.raises(ArgumentError, match="'cpu' is no card"):
        aj.cuda.set_device("cpu")


def test_tensors_move_between_cards_and_are_not_mixed() -> None:
    x = aj.tensor(X, device="cuda:1", requires_grad=True)
    assert (x.device, x.get_device(), x.is_cuda) == (aj.device("cuda:1"), 1, True)
    assert repr(x).endswith("device='cuda:1', requires_grad=True)")
    y = (x * x).to("cuda:0")
    assert y.device == "cuda:0"
    (y * 3).sum().backward()
    assert x.grad.device == "cuda:1"
    np.testing.assert_allclose(x.grad.cpu().numpy(), 6 * X, rtol=1e-6)
    for mixed in (lambda: x + y, lambda: aj.cat([y, x]), lambda: x @ y.T):
        with pytest.raises(ArgumentError, match=r"found at least two devices, cuda:[01] and cuda:[01]!"):
            mixed()
    with pytest.raises(ArgumentError, match=r"found at least two devices, cuda:1 and cpu!"):
        x + aj.tensor(X)
    z = aj.zeros(2, 3, device="cuda:0")
    z.copy_(x.detach())                              # between cards, as in PyTorch
    assert z.cpu().tolist() == X.tolist()
    assert aj.zeros_like(x).device == aj.as_tensor(X, device=1).device == x.detach()[0].device == "cuda:1"
    assert aj.tensor(x.detach(), device="cuda:0").get_device() == 0
    assert aj.normal(0.0, 1.0, (3,), device=1).device == "cuda:1"
    view = x.detach()[0]
    view.mul_(2)
    assert x[0].tolist() == (2 * X[0]).tolist()


def test_a_training_step_on_the_second_card() -> None:
    losses = {}
    for device in ("cpu", "cuda:1"):
        aj.manual_seed(0)
        model = nn.Linear(3, 1).to(device)
        optimizer = aj.optim.Adam(model.parameters(), lr=0.1)
        x = aj.tensor(X, device=device)

        @aj.compile
        def train(x: Any, model: Any = model, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            loss = (model(x) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss

        losses[device] = [train(x).item() for _ in range(3)]
        assert model.weight.device == model.weight.grad.device == optimizer.state[model.weight]["exp_avg"].device == device
    np.testing.assert_allclose(losses["cuda:1"], losses["cpu"], rtol=1e-5)
    with pytest.raises(ArgumentError, match="two devices"):
        aj.compile(lambda x: model(x))(aj.tensor(X, device="cuda:0"))
    model.cuda(0)
    assert {parameter.get_device() for parameter in model.parameters()} == {0}
