"""`python -m adjit bench`: times a few small programs on this machine, for reports of slowness; no other library is needed."""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from adjit import optim
from adjit.cli import info
from adjit.nn import functional
from adjit.runtime.compile_function import compile
from adjit.runtime.compiled import CompiledFunction
from adjit.runtime.transforms import value_and_grad

Program = tuple[CompiledFunction, Callable[[], Any]]

MIN_BATCH_SECONDS = 20e-6
"""Calls shorter than this are timed in batches."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `bench` to the command line."""
    parser = commands.add_parser("bench", help="time a few small programs on this machine", description=__doc__)
    parser.add_argument("--seconds", type=_positive, default=0.5, help="time that each program is run for (default: %(default)s)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the machine, the time of the import, and for each program its first call (short if its kernels are on disk), its median, its
    fastest call and its working memory.
    """
    info.run(options)
    print(f"import adjit  {_readable(_import_seconds())} in a new process")
    print(f"{'program':<54}  {'first call':>10}  {'median':>10}  {'fastest':>10}  {'memory':>10}")
    for make in PROGRAMS:
        function, call = make()
        begin = time.perf_counter()
        call()
        first = time.perf_counter() - begin
        times = _times(call, options.seconds)
        cells = [_readable(first), _readable(statistics.median(times)), _readable(min(times)),
                 f"{function.memory().arena_bytes / 1e6:.3g} MB"]
        print(f"{(make.__doc__ or '').strip():<54}  " + "  ".join(f"{cell:>10}" for cell in cells))
    return 0


def small_call() -> Program:
    """sum of five arrays of eight numbers: call overhead"""
    @compile
    def total(*arrays: Any) -> Any:
        return sum(arrays[1:], arrays[0] * 2)
    arrays = [np.ones(8, np.float32) for _ in range(5)]
    return total, lambda: total(*arrays)


def elementwise() -> Program:
    """gelu of a million float32 and three gradients"""
    generator = np.random.default_rng(0)
    arrays = [generator.standard_normal(1_000_000, np.float32) for _ in range(3)]

    @compile
    def step(x: Any, w: Any, b: Any) -> Any:
        def loss(x: Any, w: Any, b: Any) -> Any:
            return np.sum(functional.gelu(x * w + b, approximate="tanh") ** 2)
        return value_and_grad(loss, argnums=(0, 1, 2))(x, w, b)
    return step, lambda: step(*arrays)


def regression() -> Program:
    """logistic regression, 1000 x 20 float64, one gradient"""
    generator = np.random.default_rng(0)
    X, y, b = generator.standard_normal((1000, 20)), (generator.random(1000) > 0.5).astype(np.float64), generator.standard_normal(20)

    @compile
    def step(b: Any, X: Any, y: Any) -> Any:
        def loss(b: Any) -> Any:
            z = X @ b
            return np.sum(np.logaddexp(0.0, z) - y * z) + 0.5 * np.sum(b * b)
        return value_and_grad(loss)(b)
    return step, lambda: step(b, X, y)


def training() -> Program:
    """a 784-256-10 classifier, batch 128, Adam, donated"""
    generator = np.random.default_rng(0)
    params: Any = {"w1": generator.standard_normal((784, 256), np.float32) / 20, "b1": np.zeros(256, np.float32),
                   "w2": generator.standard_normal((256, 10), np.float32) / 10, "b2": np.zeros(10, np.float32)}
    x, y = generator.standard_normal((128, 784), np.float32), generator.integers(0, 10, 128)
    adam = optim.adam(1e-3)
    state: Any = adam.init(params)

    def loss(params: Any, x: Any, y: Any) -> Any:
        hidden = functional.relu(x @ params["w1"] + params["b1"])
        return functional.cross_entropy(hidden @ params["w2"] + params["b2"], y)

    @compile(donate=("params", "state"))
    def step(params: Any, state: Any, x: Any, y: Any) -> Any:
        value, grads = value_and_grad(loss)(params, x, y)
        return *adam.update(params, grads, state), value

    def call() -> Any:
        nonlocal params, state
        params, state, value = step(params, state, x, y)
        return value
    return step, call


PROGRAMS: tuple[Callable[[], Program], ...] = (small_call, elementwise, regression, training)


def _times(call: Callable[[], Any], seconds: float) -> list[float]:
    """Return the seconds of calls, repeated for about `seconds` in all; very short ones are means of several."""
    clock = time.perf_counter
    begin = clock()
    call()
    together = max(1, int(MIN_BATCH_SECONDS / max(clock() - begin, 1e-9)))
    times: list[float] = []
    end = clock() + seconds
    while not times or clock() < end:
        begin = clock()
        for _ in range(together):
            call()
        times.append((clock() - begin) / together)
    return times


def _import_seconds() -> float:
    """Median of three new processes."""
    code = "import time; begin = time.perf_counter(); import adjit; print(time.perf_counter() - begin)"
    return statistics.median(float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(3))


def _positive(text: str) -> float:
    value = float(text)
    if not value > 0:
        raise argparse.ArgumentTypeError("expected a number above 0")
    return value


def _readable(seconds: float) -> str:
    """
    >>> _readable(0.0123), _readable(4.5e-6)
    ('12.3 ms', '4.5 us')
    """
    for factor, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= factor:
            return f"{seconds / factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"
