"""Whole programs as archives and from C, with the bits of Python: networks, loops, captured steps, methods, keys, arrays of all kinds.

The C program knows nothing of the library but its header. It runs it on a thread that has no more stack than the header asks for.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.project import ROOT

import adjit as aj
from adjit.codegen.llvm.target import TARGETS
from adjit.runtime.fastcall.callable_type import fastcall_is_ready
from adjit.runtime.native.code import native_is_supported, native_target
from adjit.tracer.trees import flatten

sys.path.insert(0, str(ROOT / "benchmarks"))

from problems import PROBLEMS
from workloads import workload

pytestmark = pytest.mark.skipif(not native_is_supported() or native_target() is TARGETS["sse2"],
                                reason="exports have the bits of Python on x86-64 with AVX2")
with_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
RUNS_SYMBOL = 2
SOURCE = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include "step.h"

static void **inputs, **outputs, *arena;
static int status;

static void *room(int64_t bytes) { return aligned_alloc(64, (size_t)(bytes / 64 + 1) * 64); }

static void *work(void *unused) {
    for (int k = 0; k < %d && !status; ++k) status = step_run(inputs, outputs, arena);
    return unused;
}

int main(void) {
    FILE *file = fopen("inputs.bin", "rb");
    inputs = calloc((size_t)step_inputs() + 1, sizeof *inputs);
    outputs = calloc((size_t)step_outputs() + 1, sizeof *outputs);
    arena = room(step_arena_bytes());
    for (int64_t i = 0; i < step_inputs(); ++i) {
        size_t bytes = (size_t)step_input(i)->bytes;
        inputs[i] = room((int64_t)bytes);
        if (fread(inputs[i], 1, bytes, file) != bytes) return 10;
    }
    for (int64_t i = 0; i < step_outputs(); ++i) {
        int64_t in = step_output(i)->input;
        outputs[i] = in < 0 ? room(step_output(i)->bytes) : inputs[in];
    }
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    if (pthread_attr_setstacksize(&attributes, 1 << 15)) return 11;
    if (pthread_create(&thread, &attributes, work, NULL)) return 12;
    pthread_join(thread, NULL);
    if (status) { fputs(step_error(status), stderr); return 13; }
    file = fopen("outputs.bin", "wb");
    for (int64_t i = 0; i < step_outputs(); ++i) fwrite(outputs[i], 1, (size_t)step_output(i)->bytes, file);
    return fclose(file);
}
""".replace("%d", str(RUNS_SYMBOL))


def from_c(folder: Path, arrays: list[Any]) -> bytes:
    """What the library `step.so` gives after some runs: all its outputs, one after the other."""
    (folder / "inputs.bin").write_bytes(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays))
    (folder / "main.c").write_text(SOURCE)
    compile_it = "cc -std=c11 -Wall -Wextra -Werror -D_GNU_SOURCE -pthread -o main main.c ./step.so -Wl,-rpath,$ORIGIN"
    for command in (compile_it.split(), ["./main"]):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, (done.returncode, done.stderr)
    symbols = subprocess.run(["nm", "-D", "step.so"], cwd=folder, capture_output=True, text=True, check=True).stdout.splitlines()
    assert {line.split()[-1].partition("@")[0] for line in symbols if " U " in line} <= {"memcpy", "memset"}
    return (folder / "outputs.bin").read_bytes()


def joined(tree: Any) -> bytes:
    return b"".join(np.asarray(leaf).tobytes() for leaf in flatten(tree)[0])


def copied(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: copied(item) for key, item in tree.items()}
    if isinstance(tree, tuple):
        items = [copied(item) for item in tree]
        return type(tree)(*items) if hasattr(tree, "_fields") else tuple(items)
    return [copied(item) for item in tree] if isinstance(tree, list) else tree.copy() if isinstance(tree, np.ndarray) else tree


SIZES: dict[str, dict[str, Any]] = {"cnn": {"batch": 3}, "transformer": {"batch": 2, "length": 20, "width": 48, "heads": 4},
                                    "mlp": {"sizes": (70, 50, 26, 10), "batch": 33}, "rnn": {"steps": 5}, "gmm": {"n": 101, "d": 4, "k": 6}}


@pytest.mark.share(3)
@with_compiler
@pytest.mark.parametrize("name", SIZES)
def test_workloads(name: str, tmp_path: Path) -> None:
    made = workload(PROBLEMS[name](**SIZES[name]), "native")
    made.function.export(tmp_path / "step.adjit", *made.arguments)
    made.function.export(tmp_path / "step.so", *made.arguments)
    given = [copied(made.arguments) for _ in range(3)]
    loaded = aj.load(tmp_path / "step.adjit")
    for _ in range(RUNS_SYMBOL):       # what is donated goes on from where it was
        wanted = made.function(*given[0])
        assert joined(loaded(*given[1])) == joined(wanted)
    assert from_c(tmp_path, flatten(given[2])[0]) == joined(wanted)


@aj.compile
def looped(xs, start):
    def body(carry, x):
        carry = np.tanh(carry + x)
        return carry, carry * x

    end, ys = aj.scan(body, start, xs)
    steps, halved = aj.while_loop(
        lambda state: np.max(np.abs(state[1])) > 0.1, lambda state: (state[0] + 1, state[1] / 2), (np.int64(0), end))
    return ys, steps, aj.cond(np.sum(end) > 0, lambda: halved * 2, lambda: halved - 1)


@aj.compile(static="flag")
def of_kinds(flags, counts, none, scalar, key, flag):
    noise = aj.random.normal(key, (3,))
    return {"flags": ~flags, "counts": counts * 2 + flags.sum(), "none": none + 1.0, "zero": np.sum(none), "noise": noise * scalar,
            "flag": counts if flag == "plain" else -counts}


class Model:
    def __init__(self) -> None:
        self.offset = np.linspace(0, 1, 4)

    @aj.compile
    def apply(self, x, power=2):
        return (x + self.offset) ** power


KEY = aj.random.key(7)
CASES: dict[str, tuple[Callable[[], Any], tuple[Any, ...]]] = {
    "loops": (lambda: looped, (np.linspace(-1, 1, 30).reshape(10, 3), np.ones(3))),
    "kinds": (lambda: of_kinds, (np.array([True, False]), np.array([3, -4], "i4"), np.zeros((0, 3)), np.float32(0.5), KEY, "other")),
    "method": (lambda: Model().apply, (np.arange(4.0),)),
}


@with_compiler
@pytest.mark.parametrize("name", CASES)
def test_programs_of_all_kinds(name: str, tmp_path: Path) -> None:
    make, args = CASES[name]
    function = make()
    for suffix in (".adjit", ".so"):
        function.export(tmp_path / f"step{suffix}", *args)
    loaded = aj.load(tmp_path / "step.adjit")
    takes = args[:len(loaded.interface.names)]
    wanted = joined(function(*args))
    fastcall_is_ready(type(loaded), 1)     # else it comes some calls later
    for _ in range(4):
        assert joined(loaded(*takes)) == wanted
    assert loaded._record.hits == 2
    arrays = [leaf for leaf in flatten(args)[0] if not isinstance(leaf, str)]
    assert from_c(tmp_path, arrays) == wanted


@with_compiler
def test_a_captured_adam_step(tmp_path: Path) -> None:
    aj.manual_seed(5)
    model = aj.nn.Sequential(aj.nn.Linear(6, 8), aj.nn.Tanh(), aj.nn.Linear(8, 3))
    optimizer = aj.optim.Adam(model.parameters(), lr=1e-2)

    @aj.compile
    def train_step(model, optimizer, x, y):
        optimizer.zero_grad()
        loss = aj.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((16, 6)).astype("f4"), rng.integers(0, 3, 16)
    train_step(model, optimizer, aj.tensor(x), aj.tensor(y))        # the optimizer has its state from here on
    for suffix in (".adjit", ".so"):
        train_step.export(tmp_path / f"step{suffix}", model, optimizer, aj.tensor(x), aj.tensor(y))
    loaded = aj.load(tmp_path / "step.adjit")
    params = {param.name: param for param in loaded.interface.params if param.source != "constant"}
    start = {name: array.copy() for name, array in loaded.state.items()}
    arguments = iter((x, y))
    arrays = [start[name] if name in start else next(arguments) for name in params]
    for _ in range(RUNS_SYMBOL):
        loss = float(train_step(model, optimizer, aj.tensor(x), aj.tensor(y)))
        assert float(loaded(x, y)) == loss
    content = from_c(tmp_path, arrays)
    place = 0
    for name, result in zip(loaded.interface.results, loaded._ways[0].executable.code.artifact.results, strict=True):
        size = int(np.prod(result.shape)) * np.dtype({"f32": "f4", "f64": "f8", "i64": "i8"}[result.dtype]).itemsize
        part, place = content[place:place + size], place + size
        wanted = loaded.state[name].tobytes() if name in loaded.state else np.float32(loss).tobytes() if name == "result" else part
        assert part == wanted, name
    assert place == len(content)
