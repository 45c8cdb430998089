"""Planned graphs as native programs: places, hand-over of results, donation, errors, threads, and the code that is left of them."""

from __future__ import annotations

import gc
import itertools
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest
from support.object_code import undefined_symbols

import adjit as aj
from adjit.codegen.llvm.target import Target, host_targets
from adjit.codegen.native.artifact import artifact_of_json, failed_check
from adjit.codegen.native.compile_program import compile_program_text
from adjit.codegen.native.program import MAX_CALLS_PER_FUNCTION, lower_program
from adjit.ir.errors import UnsupportedError
from adjit.ir.graph import Graph
from adjit.ir.parser import parse
from adjit.runtime.backends import native_executable
from adjit.runtime.native import code as native_code
from adjit.runtime.native.code import native_target
from adjit.runtime.numba.executable import Executable

TARGETS = host_targets()
pytestmark = pytest.mark.skipif(not TARGETS, reason="native programs are for x86-64")
at_each_target = pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)

PRODUCTS = """
graph @f(%x: f32[4,3], %w: f32[3,2], %d: f32[8] donated) {
  %h: f32[4,2] @ arena+64 = matmul %x, %w {transpose_a=false, transpose_b=false}
  %k: f32[2,2] @ result+0 = matmul %h, %h {transpose_a=true, transpose_b=false}
  %c: f32[8] @ param+2 = reshape %h {shape=(8,)}
  free %h
  return %k, %x, %c, %k
}
"""

PICK = """
graph @pick(%x: f64[4] donated, %a: i64[4]) {
  %i: i64[4] @ arena+64 = flip %a {axes=(0,)}
  %y: f64[4] @ arena+0 = take %x, %i {axis=0}  # model.py:7 in pick
  free %i
  %n: f64[4] @ param+0 = reshape %y {shape=(4,)}
  %z: f64[4] @ result+1 = flip %y {axes=(0,)}
  free %y
  return %n, %z
}
"""


def arrays_for(graph: Graph, seed: int = 0) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    return [generator.normal(size=value.type.shape).astype(value.type.dtype) for value in graph.params]


def many_steps(count: int) -> Graph:
    lines = ["graph @many(%v0: f64[3]) {"]
    for i in range(count):
        lines.append(f"  %v{i + 1}: f64[3] @ {f'arena+{i % 2 * 64}' if i < count - 1 else 'result+0'} = flip %v{i} {{axes=(0,)}}")
        lines += [f"  free %v{i}"] * (i > 0)
    return parse("\n".join([*lines, f"  return %v{count}", "}"]))


@at_each_target
@pytest.mark.parametrize("threads", [1, 2])
def test_results_are_handed_over(target: Target, threads: int) -> None:
    graph = parse(PRODUCTS)
    executable = native_executable(graph, target, threads)
    for seed in range(3):
        x, w, d = arrays_for(graph, seed)
        k, copy, c, again = executable.run([x, w, d], [x, w, d])
        np.testing.assert_allclose(k, (x @ w).T @ (x @ w), rtol=1e-5, atol=1e-6)
        assert np.array_equal(copy, x)
        assert np.array_equal(again, k)
        assert c is d
        np.testing.assert_allclose(d, (x @ w).ravel(), rtol=1e-6, atol=1e-6)
        assert not any(np.shares_memory(a, b) for a, b in itertools.combinations([x, w, d, k, copy, again], 2))


def test_scalars_and_empty_arrays() -> None:
    graph = parse("""
    graph @f(%x: f64[], %e: f32[0,3]) {
      %r: f32[3,0] @ arena+0 = reshape %e {shape=(3, 0)}
      %f: f32[3,0] @ result+1 = flip %r {axes=(0,)}
      free %r
      return %x, %f, %e, %x
    }""")
    first, empty, same, second = native_executable(graph, native_target()).run([np.array(2.5), np.empty((0, 3), np.float32)], [])
    assert isinstance(first, np.float64)
    assert first == second == 2.5
    assert (empty.shape, empty.dtype, same.shape) == ((3, 0), np.float32, (0, 3))


def test_nothing_but_parameters() -> None:
    graph = parse("graph @f(%x: f32[2,2] donated, %y: f32[2]) {\n  return %y, %x\n}")
    x, y = np.ones((2, 2), np.float32), np.zeros(2, np.float32)
    copy, same = native_executable(graph, native_target()).run([x, y], [x, y])
    assert same is x
    assert np.array_equal(copy, y)
    assert not np.shares_memory(copy, y)


@pytest.mark.parametrize("count", [
    MAX_CALLS_PER_FUNCTION - 1, MAX_CALLS_PER_FUNCTION, MAX_CALLS_PER_FUNCTION + 1, 3 * MAX_CALLS_PER_FUNCTION + 5])
def test_programs_of_many_steps(count: int) -> None:
    graph = many_steps(count)
    executable = native_executable(graph, native_target())
    (result,) = executable.run([np.arange(3.0)], [])
    assert result.tolist() == ([2, 1, 0] if count % 2 else [0, 1, 2])
    assert executable.code.artifact.functions == 1      # equal steps are one function
    assert executable.code.artifact.calls == count
    assert len(executable.run_timed([np.arange(3.0)], [])[1]) == count


@at_each_target
def test_bad_indices(target: Target) -> None:
    graph = parse(PICK)
    native, other = native_executable(graph, target), Executable(graph, {})
    x, good = np.arange(4.0), np.array([0, 3, 3, 2])
    for indices in ([0, 1, 4, 7], [-1, 0, 0, 9]):
        messages = []
        for executable in (native, other):
            with pytest.raises(IndexError, match=r"(?s)take: index .* out of bounds for axis 0 with size 4.*model.py:7 in pick") as caught:
                executable.run([x, np.array(indices)], [x, None])
            messages.append(str(caught.value))
        assert messages[0] == messages[1]
        assert x.tolist() == [0, 1, 2, 3]       # nothing is written
    picked, reversed_ = native.run([x, good], [x, good])
    assert picked is x
    assert x.tolist() == [2, 3, 3, 0]
    assert reversed_.tolist() == [0, 3, 3, 2]


def test_the_number_of_a_bad_index() -> None:
    assert failed_check((5 + 1) << 40 | (2 + 1)) == (5, 2)
    graph = parse(PICK)
    executable = native_executable(graph, native_target())
    seen = []
    executable.error_of = lambda status, *_: seen.append(failed_check(status)) or IndexError()      # type: ignore[method-assign]
    with pytest.raises(IndexError):
        executable.run([np.zeros(4), np.array([0, 0, 9, 0])], [np.zeros(4), None])
    assert seen == [(1, 1)]     # the second op; the indices are turned round


def test_times_of_every_op() -> None:
    graph = parse(PRODUCTS)
    arrays = arrays_for(graph)
    executable = native_executable(graph, native_target())
    wanted = executable.run(arrays, arrays)
    results, times = executable.run_timed(arrays, arrays)
    assert [op.name for op, _, _ in times] == ["matmul", "matmul", "reshape"]
    assert all(begin <= end for _, begin, end in times)
    assert all(np.array_equal(a, b) for a, b in zip(results, wanted, strict=True))


@at_each_target
def test_large_steps_are_split_over_threads(target: Target) -> None:
    graph = parse("""
    graph @f(%x: f32[300,200], %y: f32[200,400]) {
      %p: f32[300,400] @ result+0 = matmul %x, %y {transpose_a=false, transpose_b=false}
      return %p, %x
    }""")
    program = lower_program(graph, target)
    assert [call.parallel for call in program.calls] == [True, False]
    x, y = arrays_for(graph)
    results = [native_executable(graph, target, threads).run([x, y], [x, y]) for threads in (1, 2, 3)]
    for product, copy in results:
        np.testing.assert_allclose(product, x @ y, rtol=1e-4, atol=1e-4)
        assert product.tobytes() == results[0][0].tobytes()
        assert np.array_equal(copy, x)


def test_calls_at_the_same_time() -> None:
    graph = parse(PRODUCTS)
    executable = native_executable(graph, native_target(), threads=2)
    wrong = []

    def work(seed: int) -> None:
        x, w, d = arrays_for(graph, seed)
        for _ in range(300):
            k, copy, _, _ = executable.run([x, w, d], [x, w, d])
            if not np.allclose(k, (x @ w).T @ (x @ w), rtol=1e-4, atol=1e-4) or not np.array_equal(copy, x):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@at_each_target
@pytest.mark.parametrize("text", [PRODUCTS, PICK], ids=["products", "pick"])
def test_modules_are_valid_and_stand_alone(target: Target, text: str) -> None:
    graph = parse(text)
    for timed in (False, True):
        code = compile_program_text(lower_program(graph, target, timed=timed).text, target, verify=True)
        assert undefined_symbols(code.object_code) <= {"memcpy", "memset"}


def test_undefined_symbols_are_found() -> None:
    text = "declare double @tan(double)\ndefine double @adjit_run(double %x) {\n  %y = call double @tan(double %x)\n  ret double %y\n}"
    assert undefined_symbols(compile_program_text(text, native_target()).object_code) == {"tan"}


def test_the_artifact_is_plain_data() -> None:
    graph = parse(PICK)
    artifact = native_executable(graph, native_target()).code.artifact
    assert artifact_of_json(artifact.as_json()) == artifact
    assert artifact.checks[1].location is not None
    assert (artifact.params[0].role, artifact.results[0].param, artifact.results[1].param) == ("donated", 0, -1)
    assert artifact.arena_bytes == 128


def test_equal_programs_share_code_and_code_goes() -> None:
    graph = parse(PRODUCTS.replace("4,", "7,").replace("[8]", "[14]").replace("(8,)", "(14,)"))
    first, second = (native_executable(graph, native_target()) for _ in range(2))
    assert first.code.loaded is second.code.loaded
    assert second.code.origin == "already loaded"
    gone = weakref.ref(first.code.loaded)
    del first
    gc.collect()
    assert gone() is not None
    del second
    gc.collect()
    assert gone() is None


@at_each_target
def test_the_target_of_the_environment(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADJIT_TARGET", target.name)
    function = aj.compile(lambda x, y: np.tanh(x @ y), backend="native")
    x = np.linspace(-1, 1, 16).reshape(4, 4)
    np.testing.assert_allclose(function(x, x), np.tanh(x @ x), rtol=1e-14)
    assert f"machine code for {target.name}" in function.explain()


def test_a_target_that_this_processor_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_code, "host_targets", lambda: (TARGETS[-1],))
    monkeypatch.setenv("ADJIT_TARGET", TARGETS[0].name)
    if len(TARGETS) > 1:
        with pytest.raises(ValueError, match=f"ADJIT_TARGET='{TARGETS[0].name}': this processor has {TARGETS[-1].name}"):
            native_target()
    monkeypatch.setenv("ADJIT_TARGET", "auto")
    assert native_target() is TARGETS[-1]


def test_other_systems_have_no_native_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ADJIT_BACKEND", raising=False)
    assert aj.compile(np.sin).compile_options.backend == "native"
    monkeypatch.setattr(native_code.sys, "platform", "darwin")
    assert aj.compile(np.sin).compile_options.backend == "numba"
    with pytest.raises(UnsupportedError, match="the native backend is for CPython on Linux on x86-64"):
        aj.compile(np.sin, backend="native")


def test_numba_is_not_imported() -> None:
    code = """
        import sys
        import numpy as np
        import adjit as aj

        @aj.compile(backend="native")
        def f(x, y):
            return np.flip(x @ y)

        x = np.ones((3, 3))
        assert f(x, x).tolist() == (x @ x).tolist()
        f.explain(), f.kernels(), f.profile(x, x), f.memory()
        assert "numba" not in sys.modules
        """
    subprocess.run([sys.executable, "-c", "\n".join(line[8:] for line in code.splitlines())], check=True, timeout=60)
