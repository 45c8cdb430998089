"""Products of matrices, ours against `np.dot`: short bursts of both in turns, and the processor's peak beside them.

    python matmul.py [--quick] [--goals] [--threads 1,2] [--only "1024 1024"] [--core-type SkylakeX]

GFLOP/s are the best of all bursts; a ratio stands twice, of these and as the median of bursts next to each other, which a machine with
other work to do changes less. One thread is timed by its own clock, which stands still while others have its core. `--goals` shows only
products that have a goal, and how many miss it by both ratios.

Both sides write into memory that is there already. On one thread ours is called as compiled functions call it; on several it is a native
program, with the threads that those have. Batches go to `np.matmul`. A
thread count is a process of its own, for NumPy's BLAS reads its variables when it is imported; presets of its kind of processor are taken
away, since they may halve its speed, but for the `--core-type` that is asked for. Before a burst of several threads all of them rest.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from machine import cores

if TYPE_CHECKING:
    import numpy as np

    from adjit.ir.graph import Graph

REST = 0.01
"""Seconds in which this process has to do nothing before several threads are measured. OpenBLAS's threads spin after a product, for a tenth
of a second here, ours for 25 us: whoever came next would share its second core."""

PRESETS = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "NVPL_BLAS_DEBUG_CPU_TYPE", "ADJIT_MATMUL")


class Case(NamedTuple):
    """One product: rows, inner size, columns, which operands are transposed, dtype, batch."""

    rows: int
    inner: int
    columns: int
    transposed: str = "NN"
    dtype: str = "f32"
    batch: int = 1

    @property
    def operations(self) -> int:
        return 2 * self.batch * self.rows * self.inner * self.columns

    @property
    def goal(self) -> float | None:
        """The ratio to reach."""
        sizes = self.rows, self.inner, self.columns
        if (len(set(sizes)) == 1 and max(sizes) <= 64 and self.batch == 1) or (sizes == (128, 32, 128) and self.batch > 1):
            return 1.2
        square = len(set(sizes)) == 1 and 128 <= max(sizes) <= 2048
        return 0.95 if square or sizes in ((128, 784, 512), (784, 128, 512), (64, 256, 1024)) else None

    def __str__(self) -> str:
        size = f"{self.rows} {self.inner} {self.columns}"
        return f"{self.dtype} {self.transposed} {f'{self.batch} x ' if self.batch > 1 else ''}{size}"


CASES = [
    *(Case(n, n, n, transposed, dtype) for dtype in ("f32", "f64") for transposed in ("NN", "NT", "TN", "TT")
      for n in (4, 8, 16, 32, 64, 100, 128, 256, 512, 1024, 2048)),
    Case(128, 784, 512), Case(784, 128, 512, "TN"), Case(128, 512, 784, "NT"), Case(64, 256, 1024), Case(1024, 256, 1024),
    Case(16, 784, 512, "NT"), Case(128, 512, 10), Case(1, 784, 512), Case(784, 512, 1),
    *(Case(128, 32, 128, transposed, dtype, batch=64) for dtype in ("f32", "f64") for transposed in ("NN", "NT")),
    Case(128, 128, 32, batch=64), Case(8, 8, 8, batch=500),
    Case(1000, 20, 1, dtype="f64"), Case(20, 1000, 1, "TN", "f64"), Case(25000, 10, 10, dtype="f64"), Case(10, 25000, 10, "TN", "f64")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a quarter of the rounds")
    parser.add_argument("--goals", action="store_true", help="only products that have a goal")
    parser.add_argument("--threads", default=",".join(map(str, sorted({1, cores()}))), help="thread counts to measure, with commas between")
    parser.add_argument("--only", default="", help="cases whose text contains this")
    parser.add_argument("--core-type", help="the kind of processor that OpenBLAS is told; without, it finds out by itself")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        measure_all(options.worker, 0.15 if options.quick else 0.6, options.only, options.goals)
        return
    print(f"load {' '.join(f'{load:.2f}' for load in os.getloadavg())}; the peak is measured in the same rounds")
    print(f"{'case':<24} threads  GFLOP/s  np.dot  ratio  median  goal  of peak")
    for threads in options.threads.split(","):
        environment = {name: value for name, value in os.environ.items() if name not in PRESETS}
        environment |= {"OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
        if options.core_type:
            environment["OPENBLAS_CORETYPE"] = options.core_type
        subprocess.run([sys.executable, __file__, *sys.argv[1:], "--worker", threads], check=True, env=environment)
    print(f"load {' '.join(f'{load:.2f}' for load in os.getloadavg())}")


def measure_all(threads: int, seconds: float, only: str, goals: bool) -> None:
    """Print a line for each case, with that many threads on both sides; a star where both ratios miss the goal."""
    import ceilings

    compiler, count, out = ceilings.Compiler.for_host(), 20_000, (ctypes.c_double * 64)()
    peaks = {}
    for dtype, scalar, lanes in (("f32", "float", compiler.lanes), ("f64", "double", compiler.lanes // 2)):
        chains = ceilings.multiply_add(compiler, scalar, lanes)
        run = compiler.function(chains, f"fma_{scalar}", ctypes.c_int64, ctypes.c_void_p)
        peaks[dtype] = 2 * ceilings.CHAINS * lanes * count, partial(run, count, ctypes.addressof(out))
    cases = [case for case in CASES if only in str(case) and (case.goal or not goals)]
    missed = 0
    for case in cases:
        ours, numpy, _kept = sides(case, threads)
        operations, peak = peaks[case.dtype]
        rounds = interleaved([ours, numpy, peak], seconds, time.thread_time if threads == 1 else time.perf_counter, rests=threads > 1)
        best = [min(times) for times in zip(*rounds, strict=True)]
        median = statistics.median(other / own for own, other, _ in rounds)
        misses = case.goal is not None and max(best[1] / best[0], median) < case.goal
        missed += misses
        goal = "" if case.goal is None else f"{case.goal:.2f}{'*' if misses else ''}"
        speed, other = (case.operations / best[i] / 1e9 for i in range(2))
        highest = operations / best[2] / 1e9 * threads
        print(f"{case!s:<24} {threads:>7}  {speed:7.1f}  {other:6.1f}  {speed / other:5.2f}  {median:6.2f}  {goal:<5} "
              f"{speed / highest:7.0%}", flush=True)
    print(f"{missed} of {sum(case.goal is not None for case in cases)} miss their goals")


def sides(case: Case, threads: int) -> tuple[Callable[[], object], Callable[[], object], object]:
    """Our product and NumPy's, on the same operands; and what has to be kept while ours is called."""
    import numpy as np

    from adjit.ir.parser import parse

    turn_a, turn_b = (turn == "T" for turn in case.transposed)
    dtype = np.dtype({"f32": "f4", "f64": "f8"}[case.dtype])
    batch = (case.batch,) if case.batch > 1 else ()
    a = aligned((*batch, *((case.inner, case.rows) if turn_a else (case.rows, case.inner))), dtype)
    b = aligned((*batch, *((case.columns, case.inner) if turn_b else (case.inner, case.columns))), dtype)
    c, c_numpy = (aligned((*batch, case.rows, case.columns), dtype) for _ in range(2))
    types = [f"{case.dtype}[{','.join(map(str, array.shape))}]" for array in (a, b, c)]
    graph = parse(f"""graph @f(%a: {types[0]}, %b: {types[1]}) {{
      %c: {types[2]} = matmul %a, %b {{transpose_a={str(turn_a).lower()}, transpose_b={str(turn_b).lower()}}}
      return %c
    }}""")
    step = native_program(graph, (a, b), c, threads) if threads > 1 else accumulates_in_c(graph, (a, b, c))
    left, right = a.swapaxes(-1, -2) if turn_a else a, b.swapaxes(-1, -2) if turn_b else b
    product = np.matmul if batch else np.dot

    def numpy() -> object:
        return product(left, right, c_numpy)
    step()
    numpy()
    limit = 1e-4 if case.dtype == "f32" else 1e-12
    if not np.abs(c - c_numpy).max() <= limit * case.inner ** 0.5 + limit:
        raise AssertionError(f"{case}: the results differ")
    return step, numpy, (a, b, c)


def accumulates_in_c(graph: Graph, arrays: tuple[np.ndarray, ...]) -> Callable[[], object]:
    """The kernel of a product as C calls it from Python, with nothing around it."""
    from adjit.runtime.numba.batched_calls import batch_steps
    from adjit.runtime.numba.matmul_step import MatmulStep, obtain_matmul

    kernel = obtain_matmul(graph.ops[0])
    assert kernel is not None
    cells = [ctypes.c_void_p(array.ctypes.data) for array in arrays]
    (step,) = batch_steps([MatmulStep(kernel, cells[:2], cells[2:], 1, arrays)])
    return step


def native_program(graph: Graph, arrays: tuple[np.ndarray, ...], result: np.ndarray, threads: int) -> Callable[[], object]:
    """A program of nothing but the product, with the threads that programs have."""
    from adjit.passes.options import Options
    from adjit.passes.pipeline import run_pipeline
    from adjit.runtime.backends import native_executable
    from adjit.runtime.native.code import native_target
    from adjit.runtime.native.threads import pool_for

    executable = native_executable(run_pipeline(graph, Options(), verify=False).final, native_target(), threads)
    pool = pool_for(threads)
    assert pool is not None
    arena = aligned((executable.code.artifact.arena_bytes + 1,), "u1")
    params = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
    results = (ctypes.c_void_p * 1)(result.ctypes.data)
    run = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 4)(executable.code.loaded.address)
    arguments = ctypes.addressof(params), ctypes.addressof(results), arena.ctypes.data, pool.address
    kept = executable, params, results, arena, *arrays, result
    return lambda kept=kept: run(*arguments)    # type: ignore[misc]


def aligned(shape: tuple[int, ...], dtype):  # type: ignore[no-untyped-def]
    """Random numbers from the beginning of a cache line on."""
    import numpy as np

    dtype, count = np.dtype(dtype), int(np.prod(shape))
    raw = np.zeros(count * dtype.itemsize + 64, np.uint8)
    start = -raw.ctypes.data % 64
    array = raw[start:start + count * dtype.itemsize].view(dtype).reshape(shape)
    array[...] = np.random.default_rng(count).standard_normal(shape)
    return array


def interleaved(functions: list[Callable[[], object]], seconds: float, clock: Callable[[], float], rests: bool) -> list[list[float]]:
    """Seconds of one call of each, in each round of bursts of some milliseconds; `rests`: each begins when no thread spins any more."""
    repeats = []
    for function in functions:
        begin = time.perf_counter()
        function()
        repeats.append(max(1, int(0.003 / max(time.perf_counter() - begin, 1e-7))))
    end = time.perf_counter() + seconds
    rounds: list[list[float]] = []
    while time.perf_counter() < end or len(rounds) < 5:
        rounds.append([])
        for function, times in zip(functions, repeats, strict=True):
            if rests:
                wait_for_rest()
            begin = clock()
            for _ in range(times):
                function()
            rounds[-1].append((clock() - begin) / times)
    return rounds


def wait_for_rest() -> None:
    """Sleeps until this process has done nothing for `REST`, a second at most."""
    for _ in range(100):
        before = time.process_time()
        time.sleep(REST)
        if time.process_time() - before < REST / 10:
            return


if __name__ == "__main__":
    main()
