"""Archives with programs for a device: on the emulated one, and by a library with the driver's functions (`test_driver`)."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit.errors import ExportError
from adjit.runtime.cuda import devices, driver
from adjit.runtime.cuda.device_array import DeviceArray
from adjit.runtime.exports import device_programs
from adjit.runtime.native.code import native_is_supported

pytestmark = pytest.mark.skipif(not native_is_supported(), reason="the emulated device is for CPython on Linux on x86-64")


@pytest.fixture(autouse=True)
def emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADJIT_CUDA", "emulated")


def step(w: Any, x: Any) -> Any:
    value, gradient = aj.value_and_grad(lambda w: ((x @ w) ** 2).mean())(w)
    return value, w - 0.1 * gradient


W, X = np.arange(3.0), np.linspace(-1, 1, 12).reshape(4, 3)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("device") / "step.adjit"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ADJIT_CUDA", "emulated")
        aj.compile(step, device="cuda", donate="w").export(path, W, X, params="w")
    return path


def test_programs_are_loaded_and_run_there(archive: Path) -> None:
    loaded = aj.load(archive)
    w = loaded.arguments["w"]
    assert isinstance(w, DeviceArray)
    value, updated = loaded(w, X)
    assert updated is w                     # donated
    here = step(W, X)
    np.testing.assert_allclose(np.asarray(updated), here[1], rtol=1e-12)
    assert float(loaded(aj.device_put(W), aj.device_put(X))[0]) == float(value) == pytest.approx(float(here[0]), rel=1e-12)
    with pytest.raises(TypeError, match=r"x has to be f64\[4,3\], got float64 of shape \(2, 3\)"):
        loaded(aj.device_put(W), X[:2])


def test_archives_have_ptx_by_compute_capability(archive: Path) -> None:
    with zipfile.ZipFile(archive) as members:
        codes = {name: members.read(name) for name in members.namelist() if name.startswith("code/")}
    assert sorted(codes) == ["code/sm_80.ptx", "code/sm_90.ptx"]
    kernels = device_programs.kernels_in(codes["code/sm_80.ptx"])
    assert kernels
    assert all(f".visible .entry {name}(" in ptx and ".target sm_80" in ptx for name, ptx in kernels.items())


def test_training_steps_keep_their_state_there(tmp_path: Path, exhaustive: bool) -> None:
    if not exhaustive:
        pytest.skip("with --exhaustive")
    model = aj.nn.Linear(3, 2).cuda()
    optimizer = aj.optim.Adam(model.parameters(), lr=0.1)

    @aj.compile
    def train(x: Any) -> Any:
        optimizer.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    x = aj.tensor(X, dtype="float32").cuda()
    train(x)
    train.export(tmp_path / "train.adjit", x)
    loaded = aj.load(tmp_path / "train.adjit")
    assert all(isinstance(array, DeviceArray) for array in loaded.state.values())
    assert [float(loaded(X.astype(np.float32))) for _ in range(2)] == [train(x).item() for _ in range(2)]


def test_what_a_device_does_not_export(archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    function = aj.compile(lambda x: 2 * x, device="cuda")
    with pytest.raises(ExportError, match=r"is for the device 'cuda', and \.so is for the CPU"):
        function.export(tmp_path / "f.so", X)
    with pytest.raises(ExportError, match="a device has no level x86-64-v3"):
        function.export(tmp_path / "f.adjit", X, levels="x86-64-v3")
    monkeypatch.delenv("ADJIT_CUDA")
    monkeypatch.setattr(driver, "LIBRARY", "libcuda_that_nobody_has.so")
    monkeypatch.setattr(devices, "_made", {})
    with pytest.raises(ExportError, match=r"step\.adjit is a program for a device: there is no driver for NVIDIA GPUs here"):
        aj.load(archive)
