"""State dicts, and files of them: all of it is loaded or nothing, files appear whole or not at all."""

from __future__ import annotations

import builtins
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit import nn
from adjit.errors import AdjitError, DTypeError, StateError


def small_net(seed: int = 0) -> nn.Sequential:
    aj.manual_seed(seed)
    return nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))


def values(module: nn.Module) -> dict[str, np.ndarray]:
    return {name: tensor.numpy().copy() for name, tensor in module.state_dict().items()}


def assert_equal(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> None:
    assert list(first) == list(second)
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name], err_msg=name)
        assert array.dtype == second[name].dtype


def test_state_dict_is_ordered_detached_and_shares_memory() -> None:
    net = small_net()
    state = net.state_dict()
    assert list(state) == ["0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var", "1.num_batches_tracked",
                           "2.weight", "2.bias"]
    assert not any(tensor.requires_grad for tensor in state.values())
    assert net.state_dict(keep_vars=True)["0.weight"] is net[0].weight
    state["0.weight"].zero_()
    np.testing.assert_array_equal(net[0].weight.detach().numpy(), np.zeros((3, 2)))
    assert list(net[0].state_dict(prefix="layer.")) == ["layer.weight", "layer.bias"]


def test_transient_buffers_are_no_part_of_the_state() -> None:
    module = nn.Module()
    module.register_buffer("kept", aj.tensor(1.0))
    module.register_buffer("cache", aj.tensor(1.0), persistent=False)
    module.register_buffer("none", None)
    assert list(module.state_dict()) == ["kept"]


def test_round_trip_writes_in_place() -> None:
    source, target = small_net(0), small_net(1)
    source(aj.tensor(np.random.default_rng(0).standard_normal((4, 2)).astype(np.float32)))
    weight, memory = target[0].weight, target[0].weight.detach().numpy()
    assert target.load_state_dict(source.state_dict()) == ([], [])
    assert_equal(values(target), values(source))
    assert target[0].weight is weight
    np.testing.assert_array_equal(memory, source[0].weight.detach().numpy())
    assert target[1].num_batches_tracked.item() == 1


def test_arrays_and_other_floats_are_converted() -> None:
    net = nn.Linear(2, 1)
    net.load_state_dict({"weight": np.array([[1.0, 2.0]]), "bias": aj.tensor(np.array([3.0]))})
    assert net.weight.dtype == np.float32
    np.testing.assert_array_equal(net.weight.detach().numpy(), [[1.0, 2.0]])


def test_all_problems_are_in_one_error_and_nothing_is_loaded() -> None:
    net = small_net()
    before = values(net)
    state: dict[str, Any] = {name: np.full_like(array, 7) for name, array in before.items()}
    state["0.weight"] = np.zeros((2, 2), np.float32)
    state["1.num_batches_tracked"] = np.array(1.5)
    state["2.weight"] = [[1.0, 2.0, 3.0]]
    del state["0.bias"], state["2.bias"]
    state["2.bais"] = np.zeros(1)
    with pytest.raises(StateError) as caught:
        net.load_state_dict(state)
    text = str(caught.value)
    for part in ("does not fit Sequential; nothing was loaded", "missing: 0.bias, 2.bias", "not expected: 2.bais",
                 "size mismatch for 0.weight: shape (2, 2) in place of (3, 2)",
                 "1.num_batches_tracked: float64 cannot be converted to int64",
                 "2.weight: a list in place of a tensor", "strict=False ignores"):
        assert part in text
    assert "test_nn_state.py" in text
    assert isinstance(caught.value, RuntimeError)
    assert isinstance(caught.value, AdjitError)
    assert_equal(values(net), before)


def test_not_strict_ignores_keys_but_not_shapes() -> None:
    net = small_net()
    state: dict[str, Any] = {"0.weight": np.ones((3, 2)), "more": np.ones(1)}
    differ = net.load_state_dict(state, strict=False)
    assert differ.unexpected_keys == ["more"]
    assert differ.missing_keys[:2] == ["0.bias", "1.weight"]
    np.testing.assert_array_equal(net[0].weight.detach().numpy(), np.ones((3, 2)))
    state["0.weight"] = np.zeros((3, 3))
    with pytest.raises(StateError, match=r"shape \(3, 3\) in place of \(3, 2\)"):
        net.load_state_dict(state, strict=False)
    np.testing.assert_array_equal(net[0].weight.detach().numpy(), np.ones((3, 2)))
    with pytest.raises(StateError, match="a dict of tensors by name, got a list"):
        net.load_state_dict([])     # type: ignore[arg-type]


def test_a_loaded_state_leaves_gradients_and_graphs_alone() -> None:
    net = nn.Linear(2, 1)
    loss = net(aj.tensor([[1.0, 2.0]], requires_grad=True)).sum()
    net.load_state_dict({"weight": np.ones((1, 2)), "bias": np.ones(1)})
    assert net.weight.requires_grad
    assert net.weight.is_leaf
    with pytest.raises(AdjitError, match="written to in place"):       # the old graph needs the old weight
        loss.backward()


# -- files


def test_files_keep_every_bit(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    source, target = small_net(0), small_net(1)
    path = tmp_path / "net.safetensors"
    nn.save_state(source, path, metadata={"epoch": "3"})
    assert target.load_state_dict(nn.load_state(path)) == ([], [])
    assert_equal(values(target), values(source))
    assert [file.name for file in tmp_path.iterdir()] == ["net.safetensors"]
    nn.save_state(target.state_dict(), str(path))
    assert_equal({name: tensor.numpy() for name, tensor in sorted(nn.load_state(str(path)).items())}, dict(sorted(values(source).items())))


def test_files_hold_tensors_of_any_layout(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    tensors = {"turned": aj.tensor(np.arange(6.0).reshape(2, 3)).T, "scalar": aj.tensor(3), "flags": np.array([True, False]),
               "empty": np.zeros((0, 2), np.float32)}
    nn.save_state(tensors, tmp_path / "x")
    loaded = nn.load_state(tmp_path / "x")
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(loaded[name].numpy(), np.asarray(tensor))
        assert loaded[name].dtype == tensor.dtype
        assert loaded[name].shape == tensor.shape
    loaded["turned"].zero_()        # memory of its own


def test_files_can_be_read_by_others(tmp_path: Path) -> None:
    numpy_format = pytest.importorskip("safetensors.numpy")
    nn.save_state(nn.Linear(2, 3), tmp_path / "x")
    assert {name: array.shape for name, array in numpy_format.load_file(tmp_path / "x").items()} == {"weight": (3, 2), "bias": (3,)}


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    path = tmp_path / "net.safetensors"
    nn.save_state(small_net(), path)
    whole = path.read_bytes()
    for content in (whole[:-1], whole[:50], whole[:4], b"", b"\xff" * 100, b"PK\x03\x04 something else"):
        path.write_bytes(content)
        with pytest.raises(StateError, match=r"net\.safetensors is no whole safetensors file"):
            nn.load_state(path)
    path.write_bytes(whole + b"more")
    with pytest.raises(StateError):
        nn.load_state(path)
    with pytest.raises(FileNotFoundError):
        nn.load_state(tmp_path / "nothing")


def test_dtypes_that_adjit_lacks_are_named(tmp_path: Path) -> None:
    numpy_format = pytest.importorskip("safetensors.numpy")
    content = numpy_format.save({"small": np.zeros(2, np.uint8)}).replace(b'"U8"', b'"F8_E4M3"')
    (tmp_path / "x").write_bytes((len(content) - 8 - 2).to_bytes(8, "little") + content[8:])
    with pytest.raises((DTypeError, StateError)):
        nn.load_state(tmp_path / "x")


def test_a_failed_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("safetensors")
    path = tmp_path / "net.safetensors"
    nn.save_state(small_net(), path)
    before = path.read_bytes()
    with pytest.raises(StateError, match="step is a object; a state holds tensors"):
        nn.save_state({"step": object()}, path)

    def fail(*args: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="no space left"):
        nn.save_state(small_net(1), path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["net.safetensors"]


def test_without_the_package_the_error_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.partition(".")[0] == "safetensors":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    for name in [name for name in sys.modules if name.partition(".")[0] == "safetensors"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without)
    for call in (lambda: nn.save_state(nn.Linear(1, 1), tmp_path / "x"), lambda: nn.load_state(tmp_path / "x")):
        with pytest.raises(StateError, match=r"(?s)package safetensors.*pip install 'adjit\[safetensors\]'"):
            call()
    assert not list(tmp_path.iterdir())


def test_states_without_the_count_of_batches_are_loaded() -> None:
    norm = nn.BatchNorm1d(2)
    norm(aj.ones(3, 2))
    state = {name: tensor for name, tensor in nn.BatchNorm1d(2).state_dict().items() if name != "num_batches_tracked"}
    assert norm.load_state_dict(state).missing_keys == []
    assert norm.running_mean.tolist() == [0, 0]
    assert norm.num_batches_tracked.item() == 1
