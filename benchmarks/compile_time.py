"""How compile time grows: milliseconds an op, stage by stage, for programs of 100, 1,000 and 10,000 ops.

    python benchmarks/compile_time.py                              all programs of unrolled.py, without machine code
    python benchmarks/compile_time.py --backend native ring        some, down to machine code, with an empty cache
    python benchmarks/compile_time.py --workloads                  the ten problems: milliseconds in all

Ops are counted after differentiation. The best of `--runs` counts, as other work on the machine only adds.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from unrolled_loops import PROGRAMS, traced
from workloads import WORKLOADS

import adjit as aj
from adjit.passes.autodiff.differentiate import differentiate
from adjit.passes.options import Options
from adjit.runtime.program import Program

SIZES = (100, 1_000, 10_000)

STAGES = {
    "trace": ("trace",),
    "differentiate": ("differentiate", "remove_stop_gradients"),
    "simplify": ("simplify", "eliminate_common_subexpressions", "choose_layouts", "simplify_again", "eliminate_dead_code"),
    "save": ("choose_saved_values",),
    "fuse": ("fuse_kernels",),
    "schedule": ("schedule",),
    "memory": ("plan_memory",),
    "code": ("code",),
}
"""Columns, and the records that make them up; other passes are "other"."""


@dataclass(frozen=True)
class Measured:
    """Milliseconds by stage, and the sizes of what came out."""

    milliseconds: dict[str, float]
    ops: int
    kernels: int

    @property
    def total(self) -> float:
        return sum(self.milliseconds.values())


def steps_for(name: str, ops: int) -> int:
    """How many steps a program takes to be about `ops` ops long."""
    first, second = (len(differentiate(traced(name, steps), Options()).ops) for steps in (1, 2))
    return max(1, round((ops - first) / (second - first)) + 1)


def compile_once(function: Callable[..., Any], arguments: Sequence[Any], backend: str) -> Program:
    """Compiled anew, with an empty disk cache."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ADJIT_CACHE_DIR"] = folder
        compiled = aj.compile(function, backend=backend)
        return compiled.program(function, tuple(arguments), {})


def measured(program: Program) -> Measured:
    times = Counter({"trace": program.milliseconds.trace, "code": program.milliseconds.kernels})
    for record in program.pipeline.records:
        times[record.name] += record.milliseconds
    stage_of = {record: stage for stage, records in STAGES.items() for record in records}
    stages: Counter[str] = Counter()
    for name, milliseconds in times.items():
        stages[stage_of.get(name, "other")] += milliseconds
    graphs = program.pipeline.graphs
    kernels = sum(op.name == "fused" for op in graphs["planned"].ops)
    return Measured(dict(stages), len(graphs["adjoint"].ops), kernels)


def best(make: Callable[[], Program], runs: int) -> Measured:
    return min((measured(make()) for _ in range(runs)), key=lambda one: one.total)


def print_row(name: str, one: Measured, divisor: int, digits: int) -> None:
    columns = " ".join(f"{one.milliseconds.get(stage, 0.0) / divisor:>13.{digits}f}" for stage in (*STAGES, "other"))
    print(f"{name:<16} {one.ops:>6} {one.kernels:>7} {one.total / divisor:>9.{digits}f} {columns}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"programs: {', '.join(PROGRAMS)}; or problems, with --workloads")
    parser.add_argument("--backend", default="interpret", help="interpret (default: no machine code), native or numba")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    parser.add_argument("--workloads", action="store_true")
    given = parser.parse_args()
    print(f"{'':<16} {'ops':>6} {'kernels':>7} {'ms' if given.workloads else 'ms an op':>9} "
          + " ".join(f"{stage:>13}" for stage in (*STAGES, "other")))
    if given.workloads:
        for name in given.names or WORKLOADS:
            workload = WORKLOADS[name](backend=given.backend)
            print_row(name, best(lambda w=workload: compile_once(w.function.fun, w.arguments, given.backend), given.runs), 1, 2)
        return
    for name in given.names or PROGRAMS:
        for size in given.sizes:
            function, arguments = PROGRAMS[name](steps_for(name, size))
            one = best(lambda f=function, a=arguments: compile_once(f, a, given.backend), given.runs)
            print_row(name, one, one.ops, 4)


if __name__ == "__main__":
    main()
