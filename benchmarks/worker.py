"""One library in a process of its own, so that thread pools do not meet: reads commands, prints answers, one line of JSON each.

    {"do": "open", "problem": "mlp", "sizes": {}}     make the data, then time the first step
    {"do": "read", "path": "readings.npz"}            write down what the library computes
    {"do": "run", "steps": 100, "warm": 10}           seconds of each step from the initial state on, after some that are not timed
    {"do": "memory", "steps": 5}                      the most memory during steps, over what was there before the first
    {"do": "overhead", "arrays": 5}                   seconds of a call that adds small arrays
    {"do": "allocations"}                             (adjit) what steps allocate

The first line printed tells what the library is, or why it is absent. Bytes of memory are over a baseline: what is resident once the
library is imported and the problem's arrays are made.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from functools import cache
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
Answer = Callable[[dict[str, Any]], None]


def seconds_to_import(modules: list[str], answer: Answer) -> float | None:
    """Import the modules of a library, before anything else is imported: NumPy is part of what a user waits for. Returns None if one is
    absent, which is answered."""
    begin = time.perf_counter()
    try:
        for module in modules:
            importlib.import_module(module)
    except ImportError as error:
        answer({"absent": str(error)})
        return None
    return time.perf_counter() - begin


def failed(error: Exception) -> dict[str, str]:
    """The answer to a command that raised an error: a library that fails at one problem goes on to the next."""
    import traceback
    traceback.print_exception(error)
    message = str(error).strip().splitlines() or [""]
    return {"failed": f"{type(error).__name__}: {message[0][:200]}"}


def answers() -> Answer:
    """Keep the real standard output for answers: libraries and programs print what they like."""
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return lambda message: print(json.dumps(message), file=channel, flush=True)


def serve(name: str, modules: list[str], answer: Answer) -> None:
    """Answer commands from standard input until it ends."""
    seconds = seconds_to_import(modules, answer)
    if seconds is None:
        return
    sys.path.insert(1, os.path.join(HERE, "libraries"))
    from tasks import AbsentError
    try:
        library = importlib.import_module(f"with_{name}").library()
    except (AbsentError, ImportError) as error:
        return answer({"absent": str(error)})
    from machine import blas
    versions = {"python": platform.python_version(), **library.versions}
    if "numpy" in sys.modules:
        versions["numpy"] = sys.modules["numpy"].__version__
    answer({"import": seconds, "versions": versions, "threads": library.threads, "blas": blas(), "size": installed_bytes(),
            "facts": {key: value for key, value in library.facts.items() if not callable(value)}})
    CommandLoop(library, answer).serve()


class CommandLoop:
    """The commands, on the problem that was opened last."""

    def __init__(self, library: Any, answer: Answer):
        self.library, self.answer = library, answer
        self.task: Any = None
        self.baseline = 0

    def serve(self) -> None:
        from tasks import AbsentError
        for line in sys.stdin:
            command = json.loads(line)
            try:
                self.answer(getattr(self, command.pop("do"))(**command))
            except AbsentError as error:
                self.answer({"absent": str(error)})
            except Exception as error:
                self.answer(failed(error))

    def open(self, problem: str, sizes: dict[str, Any]) -> dict[str, Any]:
        import memory
        from problems import PROBLEMS
        self.task = None
        made = PROBLEMS[problem](**sizes)
        if not self.baseline:               # problems of one curve share the baseline of the first
            memory.reset_peak()
            self.baseline = memory.resident() - sum(array.nbytes for array in (*made.named_params.values(), *made.data))
        self.arrays = sum(array.nbytes for array in (*made.named_params.values(), *made.data))
        self.task = self.library.open(made)
        begin = time.perf_counter()
        self.task.step()
        first = time.perf_counter() - begin
        return {"first": first, "peak": memory.peak() - self.baseline - self.arrays}

    def read(self, path: str) -> dict[str, Any]:
        import numpy as np
        np.savez(path, **self.task.readings())
        return {}

    def run(self, steps: int, warm: int) -> dict[str, Any]:
        self.task.reset()
        return {"seconds": time_steps(self.task.step, steps, warm)}

    def memory(self, steps: int) -> dict[str, Any]:
        import memory
        self.task.reset()
        reset = memory.reset_peak()
        for _ in range(steps):
            self.task.step()
        return {"peak": memory.peak() - self.baseline - self.arrays if reset else None, "planned": self.task.planned_bytes()}

    def overhead(self, arrays: int) -> dict[str, Any]:
        import numpy as np
        call = self.library.small_sum([np.full(8, i + 1, np.float32) for i in range(arrays)])
        for _ in range(5):      # tracing, compiling, capturing
            result = call()
        expected = 2 + sum(range(2, arrays + 1))
        found = np.array(result.numpy() if hasattr(result, "numpy") else result)
        if not np.array_equal(found, np.full(8, expected, np.float32)):
            raise ArithmeticError(f"adding small arrays gave {found}, not {expected}")
        return {"seconds": time_calls(call, f"sum of {arrays}")}

    def allocations(self) -> dict[str, Any]:
        return self.library.facts["allocations"](self.task.step)


def time_steps(step: Callable[[], Any], steps: int, warm: int) -> list[float]:
    """Seconds that each step takes, after `warm` steps before."""
    for _ in range(warm):
        step()
    clock = time.perf_counter
    seconds = []
    for _ in range(steps):
        begin = clock()
        step()
        seconds.append(clock() - begin)
    return seconds


def time_calls(call: Callable[[], Any], name: str) -> list[float]:
    """Seconds of a call that is too short for one reading of the clock: pyperf times many together, here in this process."""
    import timeit

    loops = timeit.Timer(call).autorange()[0] // 10 + 1     # about 20 ms
    runner = pyperf_runner()
    runner.args.loops = loops
    return [float(value) for value in runner.bench_func(name, call).get_values()]


@cache
def pyperf_runner() -> Any:
    """There may be one in a process."""
    import pyperf
    runner = pyperf.Runner(values=7, warmups=1, processes=1)
    runner.parse_args(["--worker", "--quiet", "--loops=1"])
    return runner


def installed_bytes() -> int:
    """Size of all that this environment's installer has put beside the interpreter, without the tools of the harness."""
    import importlib.metadata
    tools = {"pip", "setuptools", "wheel", "psutil", "pyperf", "threadpoolctl"}
    total = 0
    for distribution in importlib.metadata.distributions():
        if distribution.metadata["Name"].lower() not in tools:
            paths = (distribution.locate_file(file) for file in distribution.files or ())
            total += sum(os.path.getsize(path) for path in paths if os.path.exists(path))
    return total


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2:], answers())
