"""Exported archives: loaded without tracing, with the bits of the original; whatever is wrong with a file is refused."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import re
import subprocess
import sys
import textwrap
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import adjit as aj
from adjit.codegen.native.artifact import Artifact, GuardCheck, IndexCheck, Parameter, Result
from adjit.errors import ExportError
from adjit.runtime.exports import load as loading
from adjit.runtime.exports.archive import FORMAT, description
from adjit.runtime.exports.contents import Manifest, ManifestWay
from adjit.runtime.exports.interface_data import ExportedParameter, Interface
from adjit.runtime.exports.load import LoadedFunction
from adjit.runtime.exports.load import load as load_program
from adjit.runtime.exports.tensors_file import read_tensors, write_tensors
from adjit.runtime.native.code import native_is_supported

pytestmark = pytest.mark.skipif(not native_is_supported(), reason="native programs are for Linux on x86-64")
RNG = np.random.default_rng(8)


def normal(*shape: int, dtype: str = "f4") -> np.ndarray:
    return (RNG.standard_normal(shape) * 0.2).astype(dtype)


def through_file(function: Any, folder: Path, *args: Any, **options: Any) -> LoadedFunction:
    function.export(folder / "program.adjit", *args, **options)
    return aj.load(folder / "program.adjit")


def assert_equal(a: Any, b: Any) -> None:
    """Equal bit by bit, in trees of the same structure."""
    if isinstance(a, dict):
        assert a.keys() == b.keys()
        for key in a:
            assert_equal(a[key], b[key])
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_equal(x, y)
    elif isinstance(a, aj.Tensor):
        assert_equal(a.numpy(), b)
    elif a is None:
        assert b is None
    else:
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes(), (a, b)
        assert np.shape(a) == np.shape(b)


# -- what runs


def mlp_loss(params, x, y):
    hidden = np.maximum(x @ params["w1"] + params["b1"], 0)
    return aj.nn.functional.cross_entropy(hidden @ params["w2"] + params["b2"], y)


ADAM = aj.optim.adam(lr=1e-2)


@aj.compile(donate=("params", "state"))
def train(params, state, x, y):
    value, gradients = aj.value_and_grad(mlp_loss)(params, x, y)
    params, state = ADAM.update(params, gradients, state)
    return params, state, value


def mlp() -> tuple[Any, ...]:
    params = {"w1": normal(16, 32), "b1": np.zeros(32, "f4"), "w2": normal(32, 5), "b2": np.zeros(5, "f4")}
    return params, ADAM.init(params), normal(24, 16), RNG.integers(0, 5, 24)


def copied(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: copied(item) for key, item in tree.items()}
    if isinstance(tree, tuple):
        return type(tree)(*map(copied, tree)) if hasattr(tree, "_fields") else tuple(map(copied, tree))
    return None if tree is None else np.array(tree)


def test_a_donated_training_step(tmp_path: Path) -> None:
    params, state, x, y = mlp()
    loaded = through_file(train, tmp_path, params, state, x, y, params=("params", "state"))
    assert_equal(loaded.arguments["params"], params)
    mine, other = (copied(params), copied(state)), (loaded.arguments["params"], loaded.arguments["state"])
    for _ in range(4):
        *mine, loss = train(*mine, x, y)
        buffer = other[0]["w1"]
        *other, loss_of_other = loaded(*other, x, y)
        assert other[0]["w1"] is buffer
        assert_equal(loss, loss_of_other)
    assert_equal(list(mine), list(other))
    assert type(other[1])._fields == type(mine[1])._fields


def captured(model: Any, optimizer: Any, loss_of: Callable[..., Any]) -> Any:
    @aj.compile
    def train_step(model, optimizer, x, y):
        loss = loss_of(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return train_step


def lenet() -> Any:
    nn = aj.nn
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 6, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(6 * 4 * 4, 10))


MODELS: dict[str, Callable[[], tuple[Any, Any, Callable[..., Any], np.ndarray, np.ndarray]]] = {
    "perceptron": lambda: (
        model := aj.nn.Sequential(aj.nn.Linear(7, 16), aj.nn.Tanh(), aj.nn.Linear(16, 3)), aj.optim.Adam(model.parameters(), lr=1e-2),
        aj.nn.functional.mse_loss, normal(8, 7), normal(8, 3)),
    "lenet": lambda: (
        model := lenet(), aj.optim.SGD(model.parameters(), lr=0.05, momentum=0.9), aj.nn.functional.cross_entropy, normal(6, 1, 16, 16),
        RNG.integers(0, 10, 6)),
    "transformer": lambda: (
        model := aj.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True), aj.optim.AdamW(model.parameters(), lr=1e-3),
        aj.nn.functional.mse_loss, normal(3, 8, 16), normal(3, 8, 16)),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_captured_training_step(name: str, tmp_path: Path) -> None:
    """It takes the state along, and both go on with the same bits."""
    aj.manual_seed(3)
    model, optimizer, loss_of, x, y = MODELS[name]()
    step = captured(model, optimizer, loss_of)
    tensors = aj.tensor(x), aj.tensor(y)
    step(model, optimizer, *tensors)
    loaded = through_file(step, tmp_path, model, optimizer, *tensors)
    assert loaded.interface.names == ("x", "y")
    for _ in range(3):
        assert_equal(step(model, optimizer, *tensors), loaded(x, y))
    for parameter_name, parameter in model.named_parameters():
        assert_equal(parameter.detach(), loaded.state[f"model.{parameter_name}"])


def test_a_loop(tmp_path: Path) -> None:
    def run(x, w):
        state, outputs = aj.scan(lambda h, row: (np.tanh(row + h @ w), h.sum()), np.zeros(4), x)
        return {"state": state, "outputs": outputs}

    f = aj.compile(run)
    x, w = normal(6, 4, dtype="f8"), normal(4, 4, dtype="f8")
    assert_equal(f(x, w), through_file(f, tmp_path, x, w)(x, w))


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclass
class Box:
    inside: Any


def test_trees_of_every_kind(tmp_path: Path) -> None:
    def run(tree, flag, *, scale):
        pair, box, items = tree
        total = pair.left + box.inside["a"] * scale + items[0]
        return [Pair(total, 3), ("text", None, {"k": -total if flag else total})]

    f = aj.compile(run)
    tree = (Pair(np.arange(3.0), np.ones(2)), Box({"a": np.ones(3), 7: np.zeros(1)}), [2.0])
    loaded = through_file(f, tmp_path, tree, True, kwargs={"scale": 0.5})
    got, expected = loaded(tree, True, scale=0.5), f(tree, True, scale=0.5)
    assert_equal(expected, got)
    assert (got[0].right, got[1][:2]) == (3, ("text", None))


@pytest.mark.parametrize(("call", "words"), [
    (lambda f: f(np.zeros(4), 2), r"x has to be f64\[3\], got float64 of shape \(4,\)"),
    (lambda f: f(np.zeros(3, "f4"), 2), r"x has to be f64\[3\], got float32"),
    (lambda f: f(np.zeros(3), 3), "n was 2 when the program was exported"),
    (lambda f: f(np.zeros(3)), "exported for the arguments x, n; got x"),
    (lambda f: f(np.zeros(3), 2, 1), "exported for the arguments x, n; got 3 positional ones"),
    (lambda f: f(np.zeros(3), m=2), "exported for the arguments x, n; got x, m"),
    (lambda f: f({"x": np.zeros(3)}, 2), "x has to be"),
])
def test_wrong_calls_are_told(call: Callable[[LoadedFunction], Any], words: str, tmp_path: Path) -> None:
    loaded = through_file(aj.compile(lambda x, n: x * n), tmp_path, np.zeros(3), 2)
    with pytest.raises((TypeError, ValueError), match=words):
        call(loaded)


def test_every_level_and_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    f = aj.compile(lambda x: np.exp(np.sin(x)).sum(0))
    x = normal(30, 7)
    f.export(tmp_path / "all.adjit", x)
    for target, level in (("avx2", "x86-64-v3"), ("sse2", "x86-64-v2")):
        monkeypatch.setenv("ADJIT_TARGET", target)
        try:
            loaded = aj.load(tmp_path / "all.adjit")
        except ValueError:
            pytest.skip("this processor lacks it")
        assert loaded.level == level
        np.testing.assert_allclose(loaded(x), f(x), rtol=1e-6)
    f.export(tmp_path / "one.adjit", x, levels=["x86-64-v4"])
    assert aj.load(tmp_path / "one.adjit").level == "sse2"       # compiled from the graph
    np.testing.assert_allclose(aj.load(tmp_path / "one.adjit")(x), f(x), rtol=1e-6)


@pytest.mark.parametrize("missing", ["numba", "numba llvmlite"])
def test_it_needs_numpy_only(tmp_path: Path, missing: str) -> None:
    """A process without numba, optree and all else goes on with the training, bit by bit; with llvmlite calls are cheaper."""
    params, state, x, y = mlp()
    train.export(tmp_path / "step.adjit", params, state, x, y, params=("params", "state"))
    np.savez(tmp_path / "data.npz", x=x, y=y)
    script = """
        import importlib.abc, sys
        class Only(importlib.abc.MetaPathFinder):
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] in (*sys.argv[3].split(), "optree", "scipy", "safetensors", "torch", "jax"):
                    raise ImportError(name)
        sys.meta_path.insert(0, Only())
        import numpy as np, adjit
        data = np.load(sys.argv[2])
        step = adjit.load(sys.argv[1])
        params, state = step.arguments["params"], step.arguments["state"]
        for _ in range(5):
            params, state, loss = step(params, state, data["x"], data["y"])
        print(float(loss).hex())
        assert not {"numba", "optree", "scipy"} & set(sys.modules)
        try:
            adjit.compile(lambda x: x)(1.0)
        except ImportError as error:
            print(error)
        for backend in ("native", "numba"):
            try:
                adjit.compile(lambda x: x, backend=backend)
            except adjit.errors.UnsupportedError as error:
                print(error)
        """
    files = [str(tmp_path / "step.adjit"), str(tmp_path / "data.npz")]
    done = subprocess.run([sys.executable, "-I", "-c", textwrap.dedent(script), *files, missing],
                          capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    for _ in range(5):
        params, state, loss = train(params, state, x, y)
    assert done.stdout.split("\n")[0] == float(loss).hex()
    assert "optree, which is not installed" in done.stdout
    assert "the numba backend needs the package numba, which is not installed\n" in done.stdout
    assert ("the native backend needs the package llvmlite, which is not installed\n" in done.stdout) == ("llvmlite" in missing)


def test_code_for_another_processor_takes_llvmlite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    f = aj.compile(lambda x: x * 2)
    f.export(tmp_path / "one.adjit", 1.0, levels="x86-64-v4")
    monkeypatch.setenv("ADJIT_TARGET", "sse2")
    monkeypatch.setattr(loading, "is_installed", lambda package: False)
    with pytest.raises(ExportError, match="has no code for this processor, and llvmlite"):
        aj.load(tmp_path / "one.adjit")


def test_no_file_refers_to_this_machine(tmp_path: Path) -> None:
    """The folder of the source is nobody's business: only names of files are in it."""
    train.export(tmp_path / "step.adjit", *mlp())
    assert str(Path(__file__).parent).encode() not in (tmp_path / "step.adjit").read_bytes()


def test_the_same_program_gives_the_same_bytes(tmp_path: Path) -> None:
    args = mlp()
    for name in ("a.adjit", "b.adjit"):
        train.export(tmp_path / name, *args)
    assert (tmp_path / "a.adjit").read_bytes() == (tmp_path / "b.adjit").read_bytes()


# -- what is refused


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("archive") / "good.adjit"
    aj.compile(lambda x: np.tanh(x) @ np.ones((3, 3))).export(path, np.zeros((2, 3)))
    return path.read_bytes()


def refused(content: bytes, folder: Path, words: str = "bad.adjit") -> None:
    path = folder / "bad.adjit"
    path.write_bytes(content)
    with pytest.raises(ExportError, match=words):
        aj.load(path)
    assert [file.name for file in folder.iterdir()] == ["bad.adjit"]


def rebuilt(content: bytes, change: Callable[[dict[str, bytes]], None], compression: int = zipfile.ZIP_STORED) -> bytes:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    change(parts)
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w", compression) as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    return memory.getvalue()


def with_manifest(change: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, bytes]], None]:
    def apply(parts: dict[str, bytes]) -> None:
        manifest = json.loads(parts["manifest.json"])
        change(manifest)
        parts["manifest.json"] = json.dumps(manifest).encode()
    return apply


def described_anew(parts: dict[str, bytes]) -> None:
    """Have the code say that it was compiled for what the other parts say now, and the manifest that these are the parts."""
    manifest = json.loads(parts["manifest.json"])
    codes = [name for name in parts if name.startswith("code/")]
    for name in codes:
        parts[name] = re.sub(rb"[0-9a-f]{64}", description(manifest, {n: p for n, p in parts.items() if n != "manifest.json"}).encode(),
                             parts[name])
    manifest["digests"] = {name: hashlib.sha256(part).hexdigest() for name, part in parts.items() if name != "manifest.json"}
    parts["manifest.json"] = json.dumps(manifest).encode()


def test_code_is_for_one_description(good: bytes, tmp_path: Path) -> None:
    """A manifest that says something else about the same code would have it write where nothing is."""
    changed = with_manifest(lambda m: m.update(source="0" * 64))
    refused(rebuilt(good, changed), tmp_path, "the object code was compiled for another description")
    (tmp_path / "bad.adjit").write_bytes(rebuilt(good, lambda parts: changed(parts) or described_anew(parts)))
    np.testing.assert_allclose(aj.load(tmp_path / "bad.adjit")(np.ones((2, 3))), np.full((2, 3), 3 * np.tanh(1.0)), rtol=1e-15)


def test_cut_off_anywhere(good: bytes, tmp_path: Path) -> None:
    for length in {0, 1, 30, len(good) // 3, len(good) // 2, len(good) - 1}:
        refused(good[:length], tmp_path)


def test_a_flipped_bit_anywhere(good: bytes, tmp_path: Path) -> None:
    """Of what means something: a few bytes of a zip file, such as dates, mean nothing, and then the program is the same."""
    rng = np.random.default_rng(1)
    path = tmp_path / "bad.adjit"
    path.write_bytes(good)
    wanted = aj.load(path)(np.ones((2, 3)))
    np.testing.assert_allclose(wanted, np.full((2, 3), 3 * np.tanh(1.0)), rtol=1e-15)
    unnoticed = 0
    for place in rng.integers(0, len(good), 150).tolist():
        content = bytearray(good)
        content[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(content)
        try:
            loaded = aj.load(path)
        except ExportError:
            continue
        unnoticed += 1
        assert np.array_equal(loaded(np.ones((2, 3))), wanted)
    assert unnoticed < 10


def test_what_is_written_down_changes_with_the_number_of_the_format() -> None:
    """Files of before are said to be of another format, not to be damaged: a new field takes a new number, and a new digest here."""
    described = [(kind.__name__, [(field.name, str(field.type)) for field in fields(kind)])
                 for kind in (Artifact, Parameter, Result, IndexCheck, GuardCheck, Interface, ExportedParameter, Manifest, ManifestWay)]
    assert (FORMAT, hashlib.sha256(repr(described).encode()).hexdigest()[:8]) == (11, "a8431179")


CHANGES: dict[str, tuple[Callable[[dict[str, bytes]], None], str]] = {
    "another format": (with_manifest(lambda m: m.update(format=1)), "is of format 1"),
    "another system": (
        lambda parts: with_manifest(lambda m: m.update(system="aarch64-linux-gnu"))(parts) or described_anew(parts),
        "is a program for aarch64-linux-gnu"),
    "no code": (lambda parts: [with_manifest(lambda m: m.update(levels=[]))(parts), described_anew(parts)], "object code is missing"),
    "brackets in the arrays' header": (
        lambda parts: [parts.update({"tensors.safetensors": (200_000).to_bytes(8, "little") + b"[" * 200_000}), described_anew(parts)],
        "damaged"),
    "brackets": (with_manifest(lambda m: m["ways"][0].update(artifact="[" * 200_000)), "damaged"),
    "no way": (lambda parts: [with_manifest(lambda m: m.update(ways=[]))(parts), described_anew(parts)], "object code is missing"),
    "a way more": (lambda parts: [with_manifest(lambda m: m.update(ways=m["ways"] * 2))(parts), described_anew(parts)],
                   "way1/program.ir, .*way1/code/x86-64-v3.o.* is missing"),
    "no manifest": (lambda parts: parts.pop("manifest.json"), "'manifest.json' is missing"),
    "no graph": (lambda parts: parts.pop("program.ir"), "not those that its manifest lists"),
    "other code": (lambda parts: parts.update({"code/x86-64-v3.o": b"\x7fELF"}), "not those that its manifest lists"),
    "a part more": (lambda parts: parts.update({"code/more.o": b""}), "not those that its manifest lists"),
    "a way out": (lambda parts: parts.update({"../evil": b"x"}), "unexpected member"),
    "a way out of code": (lambda parts: parts.update({"code/../../evil.o": b"x"}), "unexpected member"),
    "no interface": (with_manifest(lambda m: m["ways"][0].pop("interface")), "damaged"),
    "a parameter less": (with_manifest(lambda m: m["ways"][0]["interface"]["params"].pop()), "damaged"),
    "another shape": (with_manifest(lambda m: m["ways"][0]["interface"]["params"][0].update(shape=[200, 3])), "damaged"),
    "a leaf that is not there": (with_manifest(lambda m: m["ways"][0]["interface"].update(result={"leaf": 12})), "damaged"),
    "a tree that is none": (with_manifest(lambda m: m["ways"][0]["interface"].update(arguments={"exec": "import os"})), "damaged"),
    "an artifact that is none": (with_manifest(lambda m: m["ways"][0].update(artifact="{}")), "damaged"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_files_that_were_changed(name: str, good: bytes, tmp_path: Path) -> None:
    change, words = CHANGES[name]
    refused(rebuilt(good, change), tmp_path, words)


def test_a_bomb(good: bytes, tmp_path: Path) -> None:
    """A part that would be far larger than the file is not unpacked."""
    refused(rebuilt(good, lambda parts: parts.update({"tensors.safetensors": bytes(1 << 26)}), zipfile.ZIP_DEFLATED), tmp_path,
            "unexpected member")


def test_code_that_is_no_code(good: bytes, tmp_path: Path) -> None:
    def change(parts: dict[str, bytes]) -> None:
        manifest = json.loads(parts["manifest.json"])
        for name in [name for name in parts if name.startswith("code/")]:
            parts[name] = b"\x7fELF" + bytes(60) + re.search(rb"[0-9a-f]{64}", parts[name])[0]
            manifest["digests"][name] = hashlib.sha256(parts[name]).hexdigest()
        parts["manifest.json"] = json.dumps(manifest).encode()

    refused(rebuilt(good, change), tmp_path, "cannot be linked")


def test_a_digest_is_compared_first(good: bytes, tmp_path: Path) -> None:
    path = tmp_path / "good.adjit"
    path.write_bytes(good)
    digest = hashlib.sha256(good).hexdigest()
    assert aj.load(path, sha256=digest.upper()).__name__ == "<lambda>"
    with pytest.raises(ExportError, match="is not the file that was asked for"):
        aj.load(path, sha256="0" * 64)


def test_no_file(tmp_path: Path) -> None:
    for path in (tmp_path / "none.adjit", tmp_path / ("x" * 300), "a\0b"):
        with pytest.raises(ExportError, match="cannot be read"):
            aj.load(path)


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, "/dev/zero", "/dev/stdin"):
        with pytest.raises(ExportError, match=r"is not a regular file|cannot be read"):
            aj.load(path)


def test_weights_are_no_programs(tmp_path: Path) -> None:
    """Other libraries read them with a function of this name."""
    function = aj.compile(lambda x: x * 2)
    function.export(tmp_path / "library.o", 1.0)
    np.save(tmp_path / "array.npy", np.ones(3))
    np.savez(tmp_path / "arrays.npz", w=np.ones(3), b=np.ones(2))
    np.savez_compressed(tmp_path / "small.npz", w=np.ones(3))
    (tmp_path / "tensors.safetensors").write_bytes(write_tensors({"w": np.ones((3, 2))}))
    (tmp_path / "pickle.pt").write_bytes(pickle.dumps({"w": np.ones(3)}))
    with zipfile.ZipFile(tmp_path / "net.pt", "w") as archive:      # as torch.save writes it
        for name in ("net/data.pkl", "net/byteorder", "net/data/0", "net/version"):
            archive.writestr(name, b"\x80\x02.")
    for name, what, remedy in (
            ("library.o", "a library or an object file", "ctypes.CDLL"), ("array.npy", "an array of NumPy's", "numpy.load"),
            ("arrays.npz", "NumPy's arrays", "dict(numpy.load(path)): load_state_dict(...)"), ("small.npz", "NumPy's arrays", "numpy.load"),
            ("tensors.safetensors", "a file of tensors (safetensors)", "adjit.nn.load_state(path): load_state_dict(...)"),
            ("pickle.pt", "a pickle", "torch.load"), ("net.pt", "a checkpoint of PyTorch's", "adjit.load(path)")):
        with pytest.raises(ExportError) as info:
            load_program(tmp_path / name)
        assert f"{name} is not an exported program, but {what}" in str(info.value)
        assert remedy in str(info.value)
    assert all(hasattr(owner, name) for owner, name in ((aj.nn, "load_state"), (aj.nn.Module, "load_state_dict")))
    other = aj.nn.Linear(3, 2)
    np.savez(tmp_path / "linear.npz", **{name: value.numpy() for name, value in aj.nn.Linear(3, 2).state_dict().items()})
    other.load_state_dict(dict(np.load(tmp_path / "linear.npz")))       # the remedy


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(source: str, target: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(ExportError, match="cannot be written: No space left"):
        aj.compile(lambda x: x + 1).export(tmp_path / "x.adjit", np.zeros(2))
    assert list(tmp_path.iterdir()) == []


def test_what_has_a_gradient_outside_is_refused(tmp_path: Path) -> None:
    model = aj.nn.Linear(3, 2)
    with pytest.raises(ExportError, match="no dynamic graph"):
        aj.compile(lambda x: model(x)).export(tmp_path / "x.adjit", aj.tensor(normal(4, 3)))


@pytest.mark.parametrize("arrays", [{}, {"a": np.zeros((0, 3)), "b": np.array(True), "c": np.arange(5, dtype="u2")}], ids=["none", "some"])
def test_arrays_are_safetensors(arrays: dict[str, np.ndarray]) -> None:
    safetensors = pytest.importorskip("safetensors.numpy")
    content = write_tensors(arrays)
    for read in (read_tensors, safetensors.load):
        found = read(content)
        assert found.keys() == arrays.keys()
        assert all(np.array_equal(found[name], array) and found[name].dtype == array.dtype for name, array in arrays.items())
    assert read_tensors(safetensors.save(arrays)).keys() == arrays.keys()
