"""Threads with less stack than a program needs call it all the same; how much that is; and what they are told where there is no more."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from support.native_calls import hot
from support.project import TESTS

import adjit as aj
from adjit.codegen.llvm.target import TARGETS, host_targets
from adjit.codegen.native.program_code import FRAME_BYTES
from adjit.codegen.native.subnormals import flushing_entry
from adjit.runtime import compile_options
from adjit.runtime.native.big_stack import has_stack, stack_needed
from adjit.runtime.native.executable import NativeExecutable

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux") or not host_targets(), reason="native programs are for x86-64")

NEVER = 1 << 46
"""Bytes of stack that no system gives."""


@pytest.mark.parametrize(("kib", "names"), [(128, "mlp"), (256, "gmm"), (512, "rnn"), (512, "transformer"), (128, "exports")])
@pytest.mark.parametrize("threads", [1, 2])
def test_calls_on_threads_with_small_stacks(kib: int, names: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Training steps in tiles, from the first call on: traced, timed, loaded, called from C, and deep in recursion."""
    monkeypatch.setenv("ADJIT_THREADS", str(threads))
    script = str(TESTS / "support" / "small_stacks.py")
    done = subprocess.run([sys.executable, script, str(kib), names], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout == "all well\n"


@pytest.fixture
def usual_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles are made for the same processor everywhere."""
    monkeypatch.setattr(compile_options, "core_cache_bytes", lambda: 1 << 21)


def in_panels() -> tuple[Any, tuple[np.ndarray, ...]]:
    """A compiled function that writes over its first argument, and needs some of the stack."""
    def step(w: Any, x: Any) -> Any:
        return w - 0.1 * aj.grad(lambda w: np.sum(np.tanh(np.tanh(x @ w) @ w)))(w)

    generator = np.random.default_rng(0)
    arguments = tuple(generator.standard_normal(shape).astype(np.float32) * 0.1 for shape in ((256, 256), (1024, 256)))
    return aj.compile(step, donate=("w",), backend="native"), arguments


def executable_of(function: Any) -> NativeExecutable:
    found = function._cache.last.executable
    assert isinstance(found, NativeExecutable)
    return found


@pytest.mark.usefixtures("usual_cache")
def test_without_any_stack_to_be_had_nothing_is_changed() -> None:
    function, (w, x) = in_panels()
    before = w.copy()
    after = function(w.copy(), x)
    executable = executable_of(function)
    assert executable.stack > 0
    executable.stack = NEVER        # in the record that is made next, too
    for call in (executable.run, lambda *_: hot_after_all(function, w, x)(w, x)):
        with pytest.raises(MemoryError, match=r"(?s)a run takes 6.71e\+07 MiB of stack, which this thread has not.*threading.stack_size"):
            call([w, x], [w, x])
        np.testing.assert_array_equal(w, before)
    executable.stack = stack_needed(executable.code.artifact)
    np.testing.assert_array_equal(executable.run([w, x], [w, x])[0], after)


def hot_after_all(function: Any, *arguments: Any) -> Any:
    """The function, called in vain until the native entry calls its program."""
    before = function._cache.record.hits
    for _ in range(3):
        with pytest.raises(MemoryError):
            function(*arguments)
    assert function._cache.record.hits > before
    return function


def test_what_a_thread_has_left() -> None:
    assert has_stack(1 << 16)
    assert not has_stack(NEVER)


@pytest.mark.usefixtures("usual_cache")
def test_programs_say_what_they_need() -> None:
    small = executable_of(hot(lambda x: np.sin(x) * 2 + 1, np.arange(5.0)))
    assert small.code.artifact.stack_bytes < 2 * FRAME_BYTES
    assert small.stack == 0     # so that nothing is looked up in a call
    function, arguments = in_panels()
    function(*(array.copy() for array in arguments))
    executable = executable_of(function)
    memory = function.memory()
    assert 0 < memory.stack_bytes < executable.code.artifact.stack_bytes
    assert "on the stack of each thread: up to" in str(memory)
    tiles = [call.code for call in executable.program.calls if call.code.nested_stack_bytes]
    assert tiles
    assert executable.code.artifact.stack_bytes >= max(code.stack_bytes + code.nested_stack_bytes for code in tiles) + FRAME_BYTES
    regions = [part for code in tiles for name, part in code.shared.items() if name.startswith("region")]
    assert max(code.nested_stack_bytes for code in tiles) >= max(part.stack_bytes for part in regions)


def test_shared_functions_ask_for_little() -> None:
    """What steps share is not counted: that, and what the entry keeps, is within what each step is allowed."""
    generator = np.random.default_rng(1)
    x, w = (generator.standard_normal(shape).astype(np.float32) for shape in ((2, 3, 12, 12), (4, 3, 3, 3)))

    def loss(x: Any, w: Any, a: Any) -> Any:
        y = aj.nn.functional.max_pool2d(aj.nn.functional.conv2d(x, w, stride=2), 2, 1)
        return np.sum(np.power(np.tanh(y), 2.5)) + np.sum(np.sort(np.cumsum(a @ a.T, 0), 1)) + np.sum(np.linalg.solve(a, a))

    a = generator.standard_normal((70, 70)).astype(np.float32)
    function = aj.compile(aj.value_and_grad(loss), backend="native")
    function(x, w, a)
    shared = executable_of(function).program.shared
    most = max(function.stack_bytes for name, function in shared.items() if not name.startswith("region"))
    wrapper, _ = flushing_entry("entry", TARGETS["sse2"], "ptr %a", [("ptr", "%a")], "")
    assert most + wrapper.stack_bytes < FRAME_BYTES // 4
