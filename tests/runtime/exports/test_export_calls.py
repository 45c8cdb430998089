"""Loaded programs are called as machine code: what is taken, what is left to Python, and that it is as fast as the original."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit.codegen.fastcall import object_layout
from adjit.codegen.llvm.elf_linker import link_image
from adjit.runtime.compiled import CompiledFunction
from adjit.runtime.exports.load import LoadedFunction
from adjit.runtime.fastcall.callable_type import callable_type, fastcall_is_ready
from adjit.runtime.native.code import native_is_supported

pytestmark = pytest.mark.skipif(not (native_is_supported() and object_layout.known()), reason="there is no native entry here")

Pair = namedtuple("Pair", "left right")


@pytest.fixture(autouse=True, scope="module")
def entries() -> None:
    """They are there: else they come some calls later."""
    for kind in (CompiledFunction, LoadedFunction):
        fastcall_is_ready(callable_type(kind), 1)


def exported(function: Any, folder: Path, *args: Any, **kwargs: Any) -> LoadedFunction:
    compiled = function if hasattr(function, "export") else aj.compile(function)
    compiled.export(folder / "f.adjit", *args, kwargs=kwargs)
    return aj.load(folder / "f.adjit")


def goes_native(function: LoadedFunction, *args: Any, **kwargs: Any) -> bool:
    before = function._record.hits
    function(*args, **kwargs)
    return function._record.hits == before + 1


def warm(function: LoadedFunction, *args: Any, **kwargs: Any) -> LoadedFunction:
    for _ in range(2):
        function(*args, **kwargs)
    return function


def test_calls_go_to_machine_code_from_the_third_on(tmp_path: Path) -> None:
    x = np.arange(6.0).reshape(2, 3)
    loaded = exported(lambda x, n, *, scale: {"a": [x.T * n, None], "s": scale * x.sum()}, tmp_path, x, 2, scale=0.5)
    assert not goes_native(loaded, x, 2, scale=0.5)
    assert not goes_native(loaded, x, 2, scale=0.5)
    assert goes_native(loaded, x, 2, scale=0.5)
    found = loaded(x, 2, scale=0.5)
    assert (list(found), found["s"], type(found["s"])) == (["a", "s"], 7.5, np.float64)
    assert np.array_equal(found["a"][0], 2 * x.T)
    assert found["a"][1] is None
    with aj.no_grad():
        assert goes_native(loaded, x, 2, scale=0.5)


def test_what_the_entry_does_not_take_is_left_to_python(tmp_path: Path) -> None:
    x = np.arange(6.0)
    loaded = warm(exported(lambda x, scale: x * scale, tmp_path, x, 0.5), x, 0.5)
    for other in (x[::-1], x.astype(">f8"), list(x)):
        assert not goes_native(loaded, other, 0.5)
        assert np.array_equal(loaded(other, 0.5), np.asarray(other) * 0.5)
    assert not goes_native(loaded, x, np.float64(0.5))
    assert not goes_native(loaded, scale=0.5, x=x)
    assert goes_native(loaded, x, 0.25)
    with pytest.raises(TypeError, match=r"x has to be f64\[6\]"):
        loaded(x[:5], 0.5)
    with pytest.raises(TypeError, match="exported for the arguments x, scale"):
        loaded(x)


def test_named_tuples_go_through(tmp_path: Path) -> None:
    function = aj.compile(lambda pair: Pair(pair.right * 2, (pair.left,)), donate="pair")
    pair = Pair(np.arange(3.0), np.ones(2))
    for _ in range(2):
        original = function(Pair(pair.left.copy(), pair.right.copy()))
    assert type(original) is Pair
    before = function._cache.record.hits
    again = function(Pair(pair.left.copy(), pair.right.copy()))
    assert function._cache.record.hits == before + 1
    assert type(again) is Pair
    assert np.array_equal(again.left, [2.0, 2.0])
    loaded = exported(function, tmp_path, Pair(pair.left.copy(), pair.right.copy()))
    found = Pair(pair.left.copy(), pair.right.copy())
    kind = type(loaded(found))
    assert kind._fields == Pair._fields
    warm(loaded, found)
    given = kind(pair.left.copy(), pair.right.copy())
    assert goes_native(loaded, given)
    assert np.array_equal(given.right, [2.0, 2.0])
    result = loaded(given)
    assert type(result) is kind
    assert result.left is given.right
    references = sys.getrefcount(given.right)
    for _ in range(50):
        loaded(given)
    after = sys.getrefcount(given.right)
    assert after == references


def test_a_captured_step_goes_on_natively(tmp_path: Path) -> None:
    def build() -> tuple[Any, Any]:
        aj.manual_seed(3)
        model = aj.nn.Sequential(aj.nn.Linear(6, 8), aj.nn.Tanh(), aj.nn.Linear(8, 3))
        return model, aj.optim.Adam(model.parameters(), lr=1e-2)

    @aj.compile
    def train_step(model, optimizer, x, y):
        optimizer.zero_grad()
        loss = aj.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((16, 6)).astype("f4"), rng.integers(0, 3, 16)
    model, optimizer = build()
    train_step.export(tmp_path / "step.adjit", model, optimizer, aj.tensor(x), aj.tensor(y))
    loaded = aj.load(tmp_path / "step.adjit")
    model, optimizer = build()
    losses = [float(train_step(model, optimizer, aj.tensor(x), aj.tensor(y))) for _ in range(6)]
    assert [float(loaded(x, y)) for _ in range(6)] == losses
    assert goes_native(loaded, x, y)
    with pytest.raises(TypeError):
        loaded.state["more"] = x        # type: ignore[index]


def test_indices_out_of_range_raise(tmp_path: Path) -> None:
    table = np.arange(12.0).reshape(4, 3)
    loaded = warm(exported(lambda table, rows: table[rows], tmp_path, table, np.array([0, 1])), table, np.array([3, 1]))
    for _ in range(3):
        with pytest.raises(IndexError, match="index 4 is out of"):
            loaded(table, np.array([0, 4]))
    assert goes_native(loaded, table, np.array([-1, 1]))
    assert np.array_equal(loaded(table, np.array([-1, 1])), table[[-1, 1]])


def median_call(function: Callable[..., Any], args: tuple[Any, ...], calls: int) -> float:
    times = []
    for _ in range(calls):
        begin = time.perf_counter()
        function(*args)
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


@pytest.mark.slow
def test_a_tiny_call_is_as_fast_as_the_original(tmp_path: Path) -> None:
    """In turns, and with room for a busy machine: by way of Python it would be 40 times as slow."""
    function, x = aj.compile(lambda x: np.sum(x * x)), np.arange(3.0)
    warm(function, x)
    loaded = warm(exported(function, tmp_path, x), x)
    ratios = [median_call(loaded, (x,), 2000) / median_call(function, (x,), 2000) for _ in range(9)]
    assert min(ratios) < 1.3, ratios


@pytest.mark.slow
def test_loading_takes_milliseconds(tmp_path: Path) -> None:
    """The best of some; compiling the same takes a hundred times as long."""
    function = aj.compile(aj.value_and_grad(lambda w, x: np.sum(np.tanh(x @ w) ** 2)))
    function.export(tmp_path / "f.adjit", np.ones((9, 5)), np.ones((33, 9)))
    times = []
    for _ in range(10):
        begin = time.perf_counter()
        aj.load(tmp_path / "f.adjit")
        times.append(time.perf_counter() - begin)
    assert min(times) < 0.01, times


def test_loading_imports_no_compiler(tmp_path: Path) -> None:
    aj.compile(lambda x: np.exp(x) @ x).export(tmp_path / "f.adjit", np.ones(3))
    script = """
        import sys, numpy, adjit
        f = adjit.load(sys.argv[1])
        assert not {"numba", "optree", "llvmlite.binding"} & (set(sys.modules) - before)
        """
    lines = [line.strip() for line in script.strip().splitlines()]
    lines.insert(1, "before = set(sys.modules)")
    subprocess.run([sys.executable, "-I", "-c", "\n".join(lines), str(tmp_path / "f.adjit")], check=True, timeout=120)


def test_damaged_object_code_is_refused_or_harmless() -> None:
    good = b"\x7fELF\x02\x01"
    for content in (b"", good, good + bytes(58), good + bytes(10) + b"\x01\x00\x3e\x00" + bytes(200)):
        with pytest.raises(ValueError, match=r"object|ELF|damaged"):
            link_image((content,), ("adjit_run",))
