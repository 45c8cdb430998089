"""`adjit.save` and `adjit.load`: weights and checkpoints, those of PyTorch included, of whose files no code is run.

`written_by_pytorch.pt` was written by PyTorch 2.13, as `CHECKPOINT` says.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import pickle
import subprocess
import sys
import textwrap
import zipfile
from collections import OrderedDict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit.errors import DTypeError, ExportError, StateError, UnsupportedError
from adjit.nn import pytorch_files

WRITTEN = Path(__file__).with_name("written_by_pytorch.pt")
CHECKPOINT = """
import torch
torch.manual_seed(0)
m = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
o = torch.optim.Adam(m.parameters(), lr=0.1)
m(torch.ones(4, 3)).sum().backward()
o.step()
base = torch.arange(12.0).reshape(3, 4)
torch.save({
    "model": m.state_dict(), "optimizer": o.state_dict(), "epoch": 5, "best": 0.5, "name": "x", "p": torch.nn.Parameter(torch.ones(2)),
    "t": base.t(), "s": base[1:, ::2], "e": torch.ones(1).expand(3), "empty": torch.zeros(0, 3),
    "scalar": torch.tensor(2, dtype=torch.int32), "c": torch.tensor([1 + 2j]), "bool": torch.tensor([True, False]),
    "h": torch.ones(2).half(), "u8": torch.tensor([255], dtype=torch.uint8), "u16": torch.tensor([65535], dtype=torch.uint16),
    "size": torch.Size([2, 3]), "device": torch.device("cpu"), "dtype": torch.float64, "list": [1, None, (2, True)], "set": {1, 2},
    "cplx": 1 + 2j, "bytes": b"ab", "rng": torch.get_rng_state()}, "written_by_pytorch.pt")
"""


def archive(*, storages: dict[str, bytes] | None = None, data: bytes = b"", compression: int = zipfile.ZIP_STORED,
            order: bytes = b"little") -> io.BytesIO:
    """A file as `torch.save` lays it out."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as members:
        for name, content in {"data.pkl": data, "byteorder": order, "version": b"3\n", **(storages or {})}.items():
            members.writestr(f"net/{name}", content)
    file.seek(0)
    return file


def tensor_pickle(storage: bytes = b"FloatStorage", count: int = 4, offset: int = 0, size: str = "(2, 2)", stride: str = "(2, 1)") -> bytes:
    """The pickle of one tensor, in protocol 0's readable opcodes."""
    def integers(text: str) -> bytes:
        numbers = [number for number in text.strip("()").split(",") if number.strip()]
        return b"(" + b"".join(b"I%d\n" % int(number) for number in numbers) + b"t"

    ids = b"(S'storage'\nctorch\n" + storage + b"\nS'0'\nS'cpu'\nI%d\ntQ" % count
    return (b"ctorch._utils\n_rebuild_tensor_v2\n(" + ids + b"I%d\n" % offset + integers(size) + integers(stride)
            + b"I00\nccollections\nOrderedDict\n(tRtR.")


FLOATS = np.arange(4.0, dtype=np.float32)


# -- weights of our own


@pytest.mark.parametrize("state", [
    5, None, [aj.ones(1), 2, (3.5, "x")], {"a": aj.ones(2), "b": {"c": aj.tensor([1, 2]), 7: [True]}}, aj.tensor([1.0, 2.0])])
def test_what_is_saved_is_loaded(state: Any, tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    file = io.BytesIO()
    aj.save(state, file)
    file.seek(0)
    aj.save(state, tmp_path / "state.pt")
    for found in (aj.load(file), aj.load(tmp_path / "state.pt"), aj.load(str(tmp_path / "state.pt"), map_location="cpu")):
        assert type(found) is type(state)
        assert str(found) == str(state)


def test_a_training_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")

    def made() -> tuple[Any, Any]:
        aj.manual_seed(0)
        net = aj.nn.Sequential(aj.nn.Linear(3, 4), aj.nn.BatchNorm1d(4), aj.nn.Linear(4, 1))
        return net, aj.optim.Adam(net.parameters(), lr=0.05)

    def steps(net: Any, optimizer: Any, count: int) -> list[float]:
        losses = []
        for _ in range(count):
            optimizer.zero_grad()
            loss = (net(aj.linspace(0.0, 1.0, 12).reshape(4, 3)) ** 2).sum()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    net, optimizer = made()
    steps(net, optimizer, 3)
    aj.save({"net": net, "optimizer": optimizer.state_dict(), "epoch": 3}, tmp_path / "run.pt")
    expected = steps(net, optimizer, 3)
    net, optimizer = made()
    state = aj.load(tmp_path / "run.pt")
    net.load_state_dict(state["net"])
    optimizer.load_state_dict(state["optimizer"])
    assert state["epoch"] == 3
    assert steps(net, optimizer, 3) == expected


def test_programs_are_loaded_by_the_same_name(tmp_path: Path) -> None:
    aj.compile(lambda x: 2 * x).export(tmp_path / "double.adjit", np.arange(3.0))
    assert aj.load(tmp_path / "double.adjit")(np.arange(3.0)).tolist() == [0.0, 2.0, 4.0]
    with pytest.raises(ExportError, match="cannot be read"):
        aj.load(tmp_path / "missing.pt")
    np.savez(tmp_path / "arrays.npz", w=np.ones(2))
    with pytest.raises(ExportError, match=r"dict\(numpy.load"):
        aj.load(tmp_path / "arrays.npz")
    with pytest.raises(StateError, match="holds no weights"):
        aj.load(io.BytesIO(b"nothing of the kind"))


# -- files of PyTorch's


def test_a_checkpoint_of_pytorchs() -> None:
    state = aj.load(WRITTEN, map_location=aj.device("cpu"))
    base = np.arange(12.0).reshape(3, 4)
    expected = {"t": base.T, "s": base[1:, ::2], "e": np.ones(3), "empty": np.zeros((0, 3)), "scalar": np.int32(2),
                "c": np.array([1 + 2j]), "bool": np.array([True, False]), "h": np.ones(2), "u8": np.array([255]), "u16": np.array([65535])}
    dtypes = {"scalar": "int32", "c": "complex64", "bool": "bool", "h": "float16", "u8": "uint8", "u16": "uint16"}
    for name, array in expected.items():
        assert state[name].dtype == dtypes.get(name, "float32")
        np.testing.assert_array_equal(state[name].numpy(), array)
        assert state[name].shape == np.shape(array)
    assert type(state["p"]) is aj.nn.Parameter
    assert state["p"].requires_grad
    rest = {name: state[name] for name in ("epoch", "best", "name", "size", "device", "dtype", "list", "set", "cplx", "bytes")}
    assert rest == {"epoch": 5, "best": 0.5, "name": "x", "size": (2, 3), "device": "cpu", "dtype": np.float64,
                    "list": [1, None, (2, True)], "set": {1, 2}, "cplx": 1 + 2j, "bytes": b"ab"}
    state["t"].zero_()
    assert state["s"].sum() > 0      # memory of its own


def test_training_goes_on_from_a_checkpoint_of_pytorchs() -> None:
    state = aj.load(WRITTEN)
    net = aj.nn.Sequential(aj.nn.Linear(3, 2), aj.nn.BatchNorm1d(2))
    optimizer = aj.optim.Adam(net.parameters(), lr=1.0)
    assert isinstance(state["model"], OrderedDict)
    assert not any(net.load_state_dict(state["model"]))
    optimizer.load_state_dict(state["optimizer"])
    assert optimizer.param_groups[0]["lr"] == 0.1
    np.testing.assert_allclose(net[1].bias.detach().numpy(), [-0.1, -0.1], rtol=1e-6)
    net(aj.ones(4, 3)).sum().backward()
    optimizer.step()        # Adam's second step of a gradient that stays 4 is of the size of the rate again
    np.testing.assert_allclose(net[1].bias.detach().numpy(), [-0.2, -0.2], rtol=1e-5)


def test_the_order_of_bytes() -> None:
    for order, code in ((b"little", "<f4"), (b"big", ">f4")):
        found = aj.load(archive(data=tensor_pickle(), storages={"data/0": FLOATS.astype(code).tobytes()}, order=order))
        assert found.tolist() == [[0.0, 1.0], [2.0, 3.0]]
        assert found.numpy().dtype.isnative


class Runs:
    """What a malicious file holds."""

    def __init__(self, function: Any, *args: Any) -> None:
        self.call = function, args

    def __reduce__(self) -> Any:
        return self.call


MARK: list[int] = []


def mark() -> None:
    MARK.append(1)


@pytest.mark.parametrize("function", [exec, eval, getattr, mark, subprocess.run, np.load, pickle.loads, Path, aj.load, setattr])
def test_no_code_is_run(function: Any) -> None:
    data = pickle.dumps({"weights": Runs(function, "1")}, protocol=2)
    with pytest.raises(StateError, match=r"holds objects of .*, which are no weights"):
        aj.load(archive(data=data))
    assert not MARK


def test_allowed_names_cannot_be_changed_by_a_file() -> None:
    """The opcode BUILD sets attributes of what stands before it."""
    for target, state in ((b"ctorch\ndevice\n", b"(S'type'\nI1\nd"), (b"ctorch._utils\n_rebuild_tensor_v2\n", b"(S'x'\nI1\nd"),
                          (b"ctorch\nfloat64\n", b"(I3\nS'>'\nNNNI-1\nI-1\nI0\nt")):
        for form in (target + state + b"b.", target + b"(N" + state + b"tb."):
            with contextlib.suppress(StateError):
                aj.load(archive(data=form))
    assert np.dtype(np.float64).isnative
    assert not vars(pytorch_files._device)
    assert not vars(pytorch_files._Reader._tensor)


@pytest.mark.parametrize(("arguments", "storage"), [
    ({"count": 5}, FLOATS), ({"offset": 1}, FLOATS), ({"offset": -1}, FLOATS), ({"size": "(4, 4)"}, FLOATS), ({"stride": "(9, 1)"}, FLOATS),
    ({"stride": "(-2, 1)"}, FLOATS), ({"size": "(-1, 2)"}, FLOATS), ({"stride": "(1,)"}, FLOATS),
    ({"size": "(9223372036854775807, 2)"}, FLOATS), ({"storage": b"DoubleStorage"}, FLOATS), ({}, FLOATS[:3]),
    ({"storage": b"NoSuchStorage"}, FLOATS),
    ({"size": "(1000000, 1000000, 1000000)", "stride": "(0, 0, 0)"}, FLOATS)])
def test_tensors_that_reach_out_of_their_memory(arguments: dict[str, Any], storage: np.ndarray) -> None:
    with pytest.raises(StateError, match=r"damaged|no weights"):
        aj.load(archive(data=tensor_pickle(**arguments), storages={"data/0": storage.tobytes()}))


def test_damaged_files() -> None:
    content = WRITTEN.read_bytes()
    for kept in (0, 5, 100, len(content) // 2, len(content) - 1):
        with pytest.raises((StateError, ExportError)):
            aj.load(io.BytesIO(content[:kept]))
    with pytest.raises(StateError, match="damaged"):
        aj.load(archive(data=tensor_pickle()))      # without its memory
    with pytest.raises(StateError, match="is compressed"):
        aj.load(archive(data=tensor_pickle(), storages={"data/0": FLOATS.tobytes()}, compression=zipfile.ZIP_DEFLATED))
    with pytest.raises(StateError, match=r"before 1\.6"):
        aj.load(io.BytesIO(pickle.dumps(0x1950A86A20F9469CFC6C, protocol=2)))


def test_other_arguments(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="weights_only=False"):
        aj.load(WRITTEN, weights_only=False)
    with pytest.raises(UnsupportedError, match="the device mps"):
        aj.load(WRITTEN, map_location="mps")
    assert aj.load(WRITTEN, map_location=lambda storage, place: storage)["epoch"] == 5
    digest = hashlib.sha256(WRITTEN.read_bytes()).hexdigest()
    assert aj.load(WRITTEN, sha256=digest.upper())["epoch"] == 5
    with pytest.raises(StateError, match=digest):
        aj.load(WRITTEN, sha256="0" * 64)


def test_bfloat16() -> None:
    file = archive(data=tensor_pickle(b"BFloat16Storage"), storages={"data/0": (FLOATS.view(np.uint32) >> 16).astype(np.uint16).tobytes()})
    if find_spec("ml_dtypes") is None:
        with pytest.raises(DTypeError, match="ml_dtypes"):
            aj.load(file)
    else:
        assert aj.load(file).float().tolist() == [[0.0, 1.0], [2.0, 3.0]]


def test_the_same_as_pytorch_reads(tmp_path: Path) -> None:
    """The script of the checkpoint, run by PyTorch where it is installed, writes what is loaded here."""
    pytest.importorskip("torch")
    subprocess.run([sys.executable, "-c", textwrap.dedent(CHECKPOINT)], cwd=tmp_path, check=True)
    found, kept = aj.load(tmp_path / WRITTEN.name), aj.load(WRITTEN)
    assert str(found["model"]) == str(kept["model"])
