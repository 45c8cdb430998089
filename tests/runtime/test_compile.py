"""`compile` from the outside: decoration, calls, methods, nesting, threads, reports."""

from __future__ import annotations

import copy
import inspect
import itertools
import json
import os
import pickle
import signal
import threading
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.backends import BACKENDS, COMPILING

from adjit.ir.errors import ShapeError, TraceError, UnsupportedError
from adjit.ir.parser import parse
from adjit.nn import Linear
from adjit.runtime import compile_options
from adjit.runtime.compile_function import compile
from adjit.runtime.compiled import CompiledFunction
from adjit.runtime.native.code import native_is_supported
from adjit.runtime.numba.threads import POOL


def layer(x, w, b):
    """Documented."""
    return np.tanh(x @ w + b)


X, W, B = np.arange(12.0).reshape(4, 3) / 10, np.ones((3, 2)) / 3, np.array([0.5, -0.5])


# -- decoration


def test_with_and_without_arguments() -> None:
    for function in (compile(layer), compile()(layer), compile(backend="interpret")(layer)):
        assert isinstance(function, CompiledFunction)
        np.testing.assert_allclose(function(X, W, B), layer(X, W, B))


def test_looks_like_the_function() -> None:
    function = compile(layer)
    assert function.__name__ == "layer"
    assert function.__doc__ == "Documented."
    assert function.__wrapped__ is layer
    assert list(inspect.signature(function).parameters) == ["x", "w", "b"]
    assert repr(function) == "<compiled layer>"


def test_keeps_attributes_of_the_function_but_those_of_its_own() -> None:
    def function(x):
        return x

    function.author = "me"          # type: ignore[attr-defined]
    function.memory = "mine"        # type: ignore[attr-defined]
    function.compile_options = "none"       # type: ignore[attr-defined]
    compiled = compile(function)
    assert compiled.author == "me"
    assert callable(compiled.memory)
    assert compiled.compile_options.backend == BACKENDS[0]


def test_compiling_twice_is_compiling_once() -> None:
    assert compile(compile(layer)).fun is layer


@pytest.mark.parametrize(("options", "error", "message"), [
    ({"backend": "numbra"}, ValueError, "unknown backend 'numbra'; the choices are auto, native, numba, interpret"),
    ({"device": "tpu"}, ValueError, "unknown device 'tpu'; the choices are cpu, cuda"),
    ({"threads": 0}, ValueError, "threads= has to be at least 1, got 0"),
    ({"threads": "2"}, TypeError, "threads= takes a number of threads, got '2'"),
    ({"threads": True}, TypeError, "threads= takes a number of threads, got True"),
    ({"memory_budget": 1.5}, ValueError, "memory_budget= has to be a number of bytes, or a float from 0 to 1, got 1.5"),
    ({"memory_budget": -1}, ValueError, "memory_budget= has to be a number of bytes, or a float from 0 to 1, got -1"),
    ({"memory_budget": float("nan")}, ValueError, "memory_budget= has to be a number of bytes, or a float from 0 to 1, got nan"),
    ({"memory_budget": "1M"}, TypeError, "memory_budget= takes bytes (int) or a fraction (float), got '1M'"),
    ({"static": "y"}, ValueError, "static= names 'y', which is not an argument of layer; its arguments are x, w, b"),
    ({"donate": ("w", "z")}, ValueError, "donate= names 'z', which is not an argument of layer; its arguments are x, w, b"),
    ({"donate": 3}, ValueError, "donate= names position 3, but layer has 3 positional arguments"),
    ({"donate": (1.0,)}, TypeError, "donate= takes names and positions of arguments, got 1.0"),
    ({"static": "w", "donate": 1}, ValueError, "an argument cannot be static and donated: w"),
])
def test_bad_options(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error) as info:
        compile(layer, **options)
    assert str(info.value).split("\n")[0] == message


def test_variable_arguments_by_name() -> None:
    @compile(donate=("rest", "extra"))
    def function(x, *rest, **more):
        return [item * x for item in (*rest, *more.values())]

    rest, extra, other = (np.ones(2), np.ones(3)), np.ones(4), np.ones(5)
    results = function(2.0, *rest, extra=extra, other=other)
    assert [a is b for a, b in zip(results, (*rest, extra, other), strict=True)] == [True, True, True, False]
    with pytest.raises(ValueError, match=r"donate= names 'more', the \*\*keywords of .*function; name single keywords instead"):
        compile(function.fun, donate="more")

    power = compile(lambda x, *rest: x ** sum(rest), static="rest")
    assert power(np.full(2, 3.0), 1.0, 1.0).tolist() == [9, 9]
    power(np.full(2, 3.0), 1.0, 2.0)
    assert power.cache_info().traces == 2


def test_bad_functions() -> None:
    with pytest.raises(TypeError, match="compile takes a function, got 3"):
        compile(3)          # type: ignore[call-overload]
    with pytest.raises(TypeError, match="put @staticmethod above @compile"):
        compile(staticmethod(layer))


def test_backend_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADJIT_BACKEND", "interpret")
    function = compile(layer)
    function(X, W, B)
    assert "backend interpret" in function.explain()
    monkeypatch.setenv("ADJIT_BACKEND", "fast")
    with pytest.raises(ValueError, match="ADJIT_BACKEND='fast': expected one of auto, native, numba, interpret"):
        compile(layer)


@compile
def at_top_level(x):
    return x * 2.0


def test_copied_and_pickled_by_name() -> None:
    assert copy.deepcopy({"f": at_top_level})["f"] is at_top_level
    assert pickle.loads(pickle.dumps(at_top_level)) is at_top_level
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(compile(lambda x: x))


# -- calls


@pytest.mark.parametrize("backend", BACKENDS)
def test_results_have_the_structure_that_was_returned(backend: str) -> None:
    Pair = namedtuple("Pair", "first second")

    @compile(backend=backend)
    def function(x, y):
        return {"sum": x + y, "rest": [Pair(x * 2, "text"), (None, 3, np.sum(x))], "same": x, "again": x + y}

    x, y = np.arange(3.0), np.ones(3)
    out = function(x, y)
    assert list(out) == ["sum", "rest", "same", "again"]
    assert out["sum"].tolist() == [1, 2, 3]
    pair, (none, three, total) = out["rest"]
    assert type(pair) is Pair
    assert pair.first.tolist() == [0, 2, 4]
    assert (pair.second, none, three) == ("text", None, 3)
    assert isinstance(total, np.float64)
    assert total == 3.0
    assert out["same"].tolist() == x.tolist()
    arrays = [x, y, out["sum"], out["same"], out["again"], pair.first]
    for i, array in enumerate(arrays):
        assert not any(np.shares_memory(array, other) for other in arrays[i + 1:])


@pytest.mark.parametrize("backend", BACKENDS)
def test_functions_without_arrays(backend: str) -> None:
    assert compile(lambda: None, backend=backend)() is None
    assert compile(lambda a: (a, "b"), backend=backend)(5) == (5, "b")


@pytest.mark.parametrize("backend", BACKENDS)
def test_results_of_one_call_outlive_the_next(backend: str) -> None:
    function = compile(layer, backend=backend)
    first = function(X, W, B)
    kept = first.copy()
    function(X + 1, W, B)
    assert np.array_equal(first, kept)


@pytest.mark.parametrize("backend", BACKENDS)
def test_numbers(backend: str) -> None:
    @compile(backend=backend)
    def scale(x, factor):
        return x * factor

    x = np.arange(3, dtype=np.float32)
    assert scale(x, 2.0).dtype == np.float32            # a Python number is weak
    assert scale(x, np.float64(2)).dtype == np.float64
    assert scale(x, 2.5).tolist() == [0, 2.5, 5]
    assert scale.cache_info().traces == 2               # another value of a float is no new trace
    assert isinstance(scale(2.0, 3.0), np.floating)


@pytest.mark.parametrize("backend", BACKENDS)
def test_empty_and_unusual_arrays(backend: str) -> None:
    function = compile(layer, backend=backend)
    assert function(np.zeros((0, 3)), W, B).shape == (0, 2)
    x = np.asfortranarray(X)
    np.testing.assert_allclose(function(x, W.astype(">f8"), B[::-1]), layer(X, W, B[::-1]))
    np.testing.assert_allclose(function(X[::-1, ::-1], W, B), layer(X[::-1, ::-1], W, B))


@pytest.mark.parametrize("backend", BACKENDS)
def test_strides_beyond_32_bits(backend: str, tmp_path: Path) -> None:
    """In a file of 20 GiB, of which twelve pages exist."""
    memory = np.memmap(tmp_path / "sparse", np.float64, "w+", shape=(5 << 29,))
    far = np.lib.stride_tricks.as_strided(memory, (4, 3), (1 << 32, 8 * 1_000_003))
    near = np.arange(12.0).reshape(4, 3)
    far[...] = near
    function = compile(lambda x, i: (np.tanh(x) @ x.T, x[i], np.sum(x, axis=0), x[::-1]), backend=backend)
    for _ in range(4):      # by way of Python, and of the native entry
        for found, wanted in zip(function(far, np.array([2, 0])), function(near, np.array([2, 0])), strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_keyword_and_default_arguments() -> None:
    @compile
    def function(x, *rest, scale=2.0, **more):
        return x * scale + sum(rest) + more.get("shift", 0.0)

    x = np.ones(2)
    assert function(x).tolist() == [2, 2]
    assert function(x, x, x, scale=1.0, shift=x).tolist() == [4, 4]


def test_an_error_of_the_function_leaves_the_cache_as_it_was() -> None:
    function = compile(layer)
    function(X, W, B)
    before = function.cache_info()
    with pytest.raises(ShapeError, match=r"(?s)matmul.*test_compile\.py"):
        function(X, X, B)
    with pytest.raises(TypeError):
        function(X)
    assert function.cache_info() == before


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_cannot_be_allocated(backend: str) -> None:
    @compile(backend=backend)
    def function(x):
        return np.broadcast_to(x, (1 << 30, 1 << 29, 1)) * x

    x = np.ones(1)
    for _ in range(2):
        with pytest.raises(MemoryError):
            function(x)
        assert x.tolist() == [1]
        assert function.cache_info() == (0, 0, 0, 128)


def test_a_recursive_function_inlines() -> None:
    @compile
    def power(x, n):
        return x if n == 0 else power(x, n - 1) * x

    assert power(np.array([2.0]), 3).tolist() == [16]
    assert power.cache_info().traces == 1


def test_nested_compiled_functions_inline() -> None:
    @compile
    def inner(x):
        return np.exp(x)

    @compile
    def outer(x):
        return inner(x) * inner(x + 1)

    x = np.arange(3.0)
    np.testing.assert_allclose(outer(x), np.exp(x) * np.exp(x + 1))
    assert inner.cache_info().traces == 0
    assert outer.ir("traced").count("= exp") == 2


# -- methods


class Model:
    def __init__(self, factor: float):
        self.factor = np.array(factor)

    @compile
    def scaled(self, x):
        """Documented method."""
        return x * self.factor

    @staticmethod
    @compile
    def doubled(x):
        return x * 2.0


def test_methods() -> None:
    one, two = Model(2.0), Model(3.0)
    x = np.arange(3.0)
    Model.scaled.clear_cache()
    assert one.scaled(x).tolist() == [0, 2, 4]
    assert two.scaled(x).tolist() == [0, 3, 6]
    assert one.scaled(x).tolist() == [0, 2, 4]
    assert one.doubled(x).tolist() == [0, 2, 4]
    assert Model.scaled.cache_info().traces == 2
    assert one.scaled.cache_info().hits == 1
    assert "multiply" in one.scaled.ir("traced", x)
    assert "multiply" in one.scaled.ir("traced")
    assert "Model.scaled" in repr(one.scaled)
    assert one.scaled.__name__ == "scaled"
    assert one.scaled.__doc__ == "Documented method."
    assert list(inspect.signature(one.scaled).parameters) == ["x"]
    assert len(one.scaled.profile(x).entries) == 1


def test_an_attribute_that_is_bound_anew_is_noticed() -> None:
    model = Model(2.0)
    x = np.ones(2)
    assert model.scaled(x).tolist() == [2, 2]
    model.factor[...] = 4.0                   # written in place: an input by reference
    assert model.scaled(x).tolist() == [4, 4]
    model.factor = np.array(5.0)              # another array
    assert model.scaled(x).tolist() == [5, 5]


@dataclass
class Weights:
    w: np.ndarray

    @compile
    def applied(self, x):
        return x * self.w


def test_methods_of_trees_trace_the_instance() -> None:
    x = np.ones(2)
    assert Weights(np.full(2, 2.0)).applied(x).tolist() == [2, 2]
    assert Weights(np.full(2, 3.0)).applied(x).tolist() == [3, 3]
    assert Weights.applied.cache_info().traces == 1


@dataclass
class Scale:
    factor: float

    def __call__(self, x):
        return x * self.factor


def test_callable_instances() -> None:
    function = compile(Scale(3.0))
    assert function(np.ones(2)).tolist() == [3, 3]
    assert "Scale" in repr(function)


# -- threads


def test_many_threads_call_and_compile_at_once() -> None:
    @compile
    def function(x, y):
        return np.tanh(x @ y) + np.sum(y)

    generator = np.random.default_rng(0)
    shapes = [(8, 8), (16, 16)]
    failures: list[BaseException] = []
    start = threading.Barrier(4)

    def work(seed: int) -> None:
        try:
            start.wait()
            for number in range(40):
                n, m = shapes[(seed + number) % 2]
                x, y = generator_arrays[seed][n], generator_arrays[seed][m] * number
                np.testing.assert_allclose(function(x, y), np.tanh(x @ y) + np.sum(y))
        except BaseException as error:
            failures.append(error)

    generator_arrays = [{n: generator.normal(size=(n, m)) for n, m in shapes} for _ in range(4)]
    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert function.cache_info().traces == 2


@pytest.mark.parametrize("backend", COMPILING)
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_the_same_bits_for_any_number_of_threads(axis: int | None, backend: str) -> None:
    def function(x):
        y = np.tanh(x) * np.exp(-x * x)
        return y, np.sum(y, axis=axis)

    x = np.random.default_rng(0).normal(size=(3000, 257)).astype(np.float32)
    expected = compile(function, threads=1, backend=backend)(x)
    for threads in (2, 3, 7):
        for got, want in zip(compile(function, threads=threads, backend=backend)(x), expected, strict=True):
            assert np.array_equal(got, want)
    assert POOL.workers >= 1 or backend == "native"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork.*:DeprecationWarning")
def test_a_forked_child_calls_and_compiles() -> None:
    function = compile(lambda x: np.tanh(x) * np.exp(-x * x), threads=3)
    x = np.random.default_rng(0).normal(size=(3000, 257)).astype(np.float32)
    expected = function(x)
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            same = np.array_equal(function(x), expected) and function(x[:2]).shape == (2, 257)
            os._exit(0 if same else 1)
        except BaseException:
            os._exit(2)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert np.array_equal(function(x), expected)


# -- reports


def example() -> tuple[CompiledFunction, Callable[[], tuple[np.ndarray, ...]]]:
    function = compile(layer)
    return function, lambda: (X, W, B)


def test_reports_ask_for_a_signature() -> None:
    function, _ = example()
    for report in (function.ir, function.kernels, function.explain, function.memory):
        with pytest.raises(TraceError, match="layer was not compiled for any arguments yet"):
            report()


@pytest.mark.parametrize("stage", ["traced", "adjoint", "optimized", "fused", "planned"])
def test_ir_of_every_stage(stage: str) -> None:
    function, arguments = example()
    text = function.ir(stage, *arguments())
    assert parse(text).name == "layer"
    assert "matmul" in text
    assert ("@ result+0" in text) == (stage == "planned")
    assert "test_compile.py" in text
    assert function.cache_info().traces == 1
    assert function.ir(stage) == text


def test_unknown_stage() -> None:
    function, arguments = example()
    with pytest.raises(ValueError, match="unknown stage 'final'; the stages are traced, adjoint, optimized, fused, planned"):
        function.ir("final", *arguments())
    with pytest.raises(ValueError, match="unknown stage array"):
        function.ir(*arguments())
    assert function.cache_info().traces == 0


def test_reports_speak_of_the_last_call_or_of_the_example() -> None:
    function = compile(layer)
    function(X, W, B)
    function(X[:2], W, B)
    assert "%x: f64[2,3]" in function.ir("traced")
    assert "%x: f64[3,3]" in function.ir("traced", X[:3], W, B)
    function(X, W, B)
    assert "%x: f64[4,3]" in function.ir("traced")


def test_kernels_are_text() -> None:
    (text,) = compile(layer, backend="numba").kernels(X, W, B).values()
    assert text.startswith("def kernel(")
    for text in compile(layer, backend="native").kernels(X, W, B).values() if "native" in BACKENDS else ():
        assert "define internal" in text
    assert compile(layer, backend="interpret").kernels(X, W, B) == {}


@pytest.mark.parametrize("backend", COMPILING)
def test_explain(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ADJIT_VERIFY", raising=False)
    function = compile(layer, backend=backend)
    function(X, W, B)
    text = function.explain()
    for piece in (f"@layer, backend {backend}", "traced because: first call", "compiled in", "1 calls", "x: f64[4,3]", "w: f64[3,2]",
                  "differentiate", "plan_memory", "0 hits, 1 traces, 1 programs kept of at most 128",
                  "kernels" if backend == "numba" else "machine code for"):
        assert piece in text, piece
    for name in function.kernels():
        assert name in text or name == "shared functions"
    assert "checking the graph" not in text


def test_explain_counts_captured_arrays() -> None:
    weights = np.ones(3)
    function = compile(lambda x: x * weights)
    function(np.ones(3))
    assert "1 array reached through closures, globals or attributes" in function.explain()


def test_verification_is_switched_on_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADJIT_VERIFY", "1")
    function, arguments = example()
    assert "checking the graph after each pass took" in function.explain(*arguments())


def test_memory() -> None:
    function, arguments = example()
    report = function.memory(*arguments())
    assert report.arena_bytes >= report.peak_bytes >= 0
    assert str(report)


@pytest.mark.parametrize("backend", BACKENDS)
def test_profile(backend: str, tmp_path: Path) -> None:
    function = compile(layer, backend=backend, donate="x")
    x = X.copy()
    profile = function.profile(x, W, B)
    assert np.array_equal(x, X)             # donated arguments are copied
    assert profile.calls == 5
    assert profile.milliseconds > 0
    assert profile.entries[0].name == "matmul"
    assert len(profile.entries) == (4 if backend == "interpret" else 2)
    text = str(profile)
    assert "test_compile.py" in text
    assert "return np.tanh(x @ w + b)" in text
    profile.save(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    steps = [event for event in slices if event["pid"] == 0]
    assert [event["name"] for event in steps] == [entry.name for entry in profile.entries]
    assert all(event["dur"] >= 0 for event in slices)
    assert steps[0]["ts"] == 0
    assert steps[0]["args"]["operations"] == 2 * X.shape[0] * X.shape[1] * W.shape[1]
    assert [event["name"] for event in slices if event["pid"] == 1][:3] == ["trace", "passes", "machine code (LLVM)"]
    assert {event["name"] for event in events if event["ph"] == "M"} == {"process_name", "thread_name"}


@pytest.mark.skipif(not native_is_supported(), reason="native programs are for Linux on x86-64")
def test_profile_of_threads(tmp_path: Path) -> None:
    """Each thread has a row, with the parts of divided steps that it ran: within the step, and not two at a time."""
    x = np.random.default_rng(0).normal(size=(600, 300))
    profile = compile(lambda x, w: np.sum(np.tanh(np.exp(x @ w)), axis=0), backend="native", threads=2).profile(x, x[:300] * 0.01)
    assert {span.thread for span in profile.threads} <= {0, 1}
    divided = {span.name for span in profile.threads}
    assert divided
    for entry in profile.entries:
        spans = [span for span in profile.threads if span.name == entry.name]
        assert all(entry.begin - 1 <= span.begin <= span.begin + span.duration <= entry.begin + entry.duration + 1 for span in spans)
        for thread in (0, 1):
            own = [span for span in spans if span.thread == thread]
            assert all(first.begin + first.duration <= second.begin + 1 for first, second in itertools.pairwise(own))
    profile.save(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert sum(event.get("cat") == "tasks" for event in events) == len(profile.threads)
    assert "thread 0" in {event["args"]["name"] for event in events if event["name"] == "thread_name"}


def test_dump(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ADJIT_DUMP", str(tmp_path))
    function, arguments = example()
    function(*arguments())
    (folder,) = tmp_path.iterdir()
    assert folder.name == "000-layer"
    stages = sorted(path.name for path in folder.glob("*.ir"))
    assert stages[0] == "00-traced.ir"
    assert stages[-1].endswith("-plan_memory.ir")
    assert (folder / stages[-1]).read_text() == function.ir("planned")
    assert parse((folder / stages[0]).read_text()).name == "layer"
    texts = {path.stem: path.read_text() for path in folder.glob("kernels/*")}
    assert texts == {name.replace(" ", "_"): text for name, text in function.kernels().items()}
    function(X[:1], W, B)
    compile(lambda x: x + 1.0)(X)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["000-layer", "001-layer", "002-_lambda_"]


def test_kernels_run_as_python_where_numbas_compiler_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    x, b = np.linspace(-1, 1, 12).reshape(3, 4), np.arange(4.0)

    @compile
    def function(x, b):
        h = np.exp(x + b)
        p = h / h.sum(axis=1, keepdims=True)
        return p, p.sum(axis=0), (p > 0.5).any()

    h = np.exp(x + b)
    p = h / h.sum(axis=1, keepdims=True)
    for found, wanted in zip(function(x, b), (p, p.sum(axis=0), (p > 0.5).any()), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-15)
    assert "runs as Python" in function.explain()


@pytest.mark.parametrize(("native", "installed", "backend"), [
    (True, {"llvmlite"}, "native"), (False, {"llvmlite", "numba"}, "numba"), (False, {"llvmlite"}, "interpret"),
    (False, set(), "interpret")])
def test_the_best_backend_that_is_there(monkeypatch: pytest.MonkeyPatch, native: bool, installed: set[str], backend: str) -> None:
    monkeypatch.delenv("ADJIT_BACKEND", raising=False)
    monkeypatch.delenv("NUMBA_DISABLE_JIT", raising=False)
    monkeypatch.setattr(compile_options, "native_is_supported", lambda: native)
    monkeypatch.setattr(compile_options, "is_installed", lambda package: package in installed)
    assert compile_options._choose_backend("auto") == backend
    if "numba" not in installed:
        with pytest.raises(UnsupportedError, match="the numba backend needs the package numba, which is not installed"):
            compile_options._choose_backend("numba")


@pytest.mark.parametrize(("call", "message"), [
    (lambda f: f(1.0), "missing 1 required positional argument: 'y'"), (lambda f: f(1.0, 2.0, 3.0), "takes 2 positional arguments but 3"),
    (lambda f: f(1.0, z=2.0), "unexpected keyword argument 'z'")])
def test_wrong_arguments_are_pythons_error_without_the_frames_of_the_trace(call, message):
    class Model:
        @compile
        def method(self, x, y):
            return x * y

    for function in (compile(lambda x, y: x * y), compile(lambda x, y: x * y, static="y")):
        with pytest.raises(TypeError, match=message) as caught:
            call(function)
        assert len(caught.traceback) <= 6
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'y'"):
        Model().method(1.0)


def test_completion_shows_what_is_for_users() -> None:
    shown = {name for name in dir(compile(np.sin)) if not name.startswith("_")}
    assert {"explain", "report", "memory", "profile", "export", "as_callable", "ir", "kernels"} <= shown
    assert not shown & {"call", "measure", "memory_of", "report_of", "export_for", "callable_for"}
    of_module = dir(compile(Linear(2, 2)))
    assert {"explain", "report", "memory", "profile", "weight", "state_dict"} <= set(of_module)
