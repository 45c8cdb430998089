"""What ordinary NumPy programs cost: programs made for twenty calls with other data, ops, CPU seconds of the first call.

    python benchmarks/numpy_programs.py                     all programs of tests/support/numpy_programs, at their small sizes
    python benchmarks/numpy_programs.py --large thomas lu_doolittle

Of value and gradient where a program has one, else of the value; native code, no cache. Ops are those of the trace, of the graph with loops
rolled and differentiated, both counted within regions, and the steps that run. A program that is refused is named with the reason.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
import time
import warnings
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.compiler_threads import wait_for_compilers
from support.numpy_comparison import weighted_sum
from support.numpy_programs import all_programs
from support.numpy_programs.program import NumPyProgram

import adjit as aj
from adjit.ir.graph import walk

CALLS = 20


def best(call: Callable[[], Any], seconds: float = 0.05) -> float:
    """Least CPU seconds of a call."""
    for _ in range(5):
        call()
    least, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        before = time.process_time()
        call()
        least = min(least, time.process_time() - before)
    return least


def measure(program: NumPyProgram, size: int, backend: str) -> str:
    """A line of the table."""
    def loss(*arguments: Any) -> Any:
        return weighted_sum(program.function(*arguments))

    compiled = aj.compile(aj.value_and_grad(loss, program.wrt) if program.wrt else program.function, backend=backend)
    calls = [program.arguments(seed, size) for seed in range(CALLS)]
    before = time.process_time()
    compiled(*deepcopy(calls[0]))
    first = time.process_time() - before
    for arguments in calls[1:]:
        compiled(*deepcopy(arguments))
    wait_for_compilers()
    graphs = compiled.programs()[0].pipeline.graphs
    ops = [sum(1 for _ in walk(graph)) for graph in (graphs["traced"], graphs["adjoint"])]
    again = best(lambda: compiled(*calls[0])) * 1e6
    plain = best(lambda: program.function(*deepcopy(calls[0]))) * 1e6
    planned = len(next(reversed(graphs.values())).ops)
    return f"{compiled.cache_info().traces:8}{ops[0]:9}{ops[1]:9}{planned:9}{first:9.2f}{again:11.1f}{plain:11.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="programs (default: all)")
    parser.add_argument("--large", action="store_true", help="at their large sizes")
    parser.add_argument("--backend", default="native")
    options = parser.parse_args()
    os.environ["ADJIT_CACHE_SIZE"] = "0"
    programs = all_programs()
    print(f"{'program':38}{'traces':>8}{'traced':>9}{'adjoint':>9}{'steps':>9}{'first s':>9}{'us a call':>11}{'NumPy us':>11}")
    refused = 0
    for name in options.names or programs:
        program = programs[name]
        with contextlib.redirect_stdout(io.StringIO()), np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
            try:
                line = measure(program, program.large if options.large else program.small, options.backend)
            except aj.errors.AdjitError as error:
                refused, line = refused + 1, f"  refused: {str(error).splitlines()[0]}"
        print(f"{name:38}{line}", flush=True)
    print(f"{refused} refused")


if __name__ == "__main__":
    main()
