"""What one signature of a function compiles to: every stage of its graph, its kernels, and the executable.

    trace  →  passes  →  kernels  →  executable
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from adjit.ir.graph import Graph, Op
from adjit.passes.options import Options
from adjit.passes.pipeline import PipelineResult, run_pipeline
from adjit.runtime import settings
from adjit.runtime.choices import Choices
from adjit.runtime.dump import dump_to
from adjit.runtime.executable import Executable, Interpretation
from adjit.runtime.inputs import Inputs
from adjit.runtime.kernel_step import Kernel
from adjit.runtime.kernels import compile_kernels, kernel_uses
from adjit.runtime.profile import Profile, make_profile
from adjit.tracer.signature import CallSignature
from adjit.tracer.trace import Trace, trace_function


@dataclass(frozen=True, slots=True)
class Milliseconds:
    """What compiling took."""

    trace: float
    passes: float
    kernels: float

    @property
    def total(self) -> float:
        return self.trace + self.passes + self.kernels


@dataclass(slots=True, weakref_slot=True, eq=False)
class Program:
    """A function compiled for one signature; `reason` says why it was traced, `verified` whether its graph was checked
    after every pass, `calls` how often it ran."""

    signature: CallSignature
    trace: Trace
    pipeline: PipelineResult
    kernels: Mapping[Op, Kernel]
    executable: Executable | Interpretation
    inputs: Inputs
    backend: str
    threads: int
    milliseconds: Milliseconds
    reason: str
    verified: bool
    calls: int = 0
    donating: bool = field(init=False)
    traced: tuple[int, ...] = field(init=False)     # which leaves of a call are parameters

    def __post_init__(self) -> None:
        self.donating = "donated" in self.planned.param_roles
        self.traced = tuple(i for i in range(len(self.signature.leaf_keys)) if self.signature.is_traced(i))

    @property
    def planned(self) -> Graph:
        return self.pipeline.graphs["planned"]

    def run(self, signature: CallSignature, captured: Sequence[np.ndarray]) -> Any:
        """The function's result for a call, with these arrays for those that it reaches by itself."""
        self.calls += 1
        arrays, passed = self._everything(signature, captured)
        return self.trace.rebuild(self.executable.run(self.inputs.prepare(arrays, passed), passed))

    def profile(self, signature: CallSignature, captured: Sequence[np.ndarray], calls: int) -> Profile:
        """Run `calls` times on copies of what is donated, after a first time that does not count."""
        runs = []
        roles = self.planned.param_roles
        for _ in range(calls + 1):
            arrays, passed = self._everything(signature, captured)
            fit = self.inputs.prepare(arrays, passed)
            fit = [array.copy() if role == "donated" else array for array, role in zip(fit, roles, strict=True)]
            runs.append(self.executable.run_timed(fit, fit)[1])
        return make_profile(self.planned.name, runs[1:])

    def _everything(self, signature: CallSignature, captured: Sequence[np.ndarray]) -> tuple[Sequence[np.ndarray], Sequence[Any]]:
        """An array for each parameter, and what the caller gave for it."""
        arrays = (*signature.leaves, *captured)
        if self.donating:
            return arrays, (*(signature.all_leaves[i] for i in self.traced), *captured)
        return arrays, arrays


def compile_program(fun: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], signature: CallSignature,
                    choices: Choices, reason: str) -> Program:
    """Trace `fun` for these arguments and compile it. The program keeps none of them."""
    threads = choices.threads or settings.THREADS.get()
    folder, verify = settings.DUMP.get(), settings.VERIFY.get()
    begin = time.perf_counter()
    trace = trace_function(fun, args, kwargs, static_names=choices.static)
    graph = _with_donations(trace.graph, signature, choices.donate)
    signature = replace(signature, leaves=(), all_leaves=())
    trace = replace(trace, signature=signature)
    dump = dump_to(folder, graph.name)
    traced = time.perf_counter()
    pipeline = run_pipeline(graph, Options(choices.memory_budget), verify, dump.graph if dump else None)
    optimized, planned = pipeline.graphs["optimized"], pipeline.graphs["planned"]
    passed = time.perf_counter()
    kernels = {} if choices.backend == "interpret" else compile_kernels(planned)
    if dump:
        dump.kernels((use.name, use.kernel.source) for use in kernel_uses(planned, kernels))
    executable = Interpretation(optimized, planned) if choices.backend == "interpret" else Executable(planned, kernels, threads)
    done = time.perf_counter()
    known = {index: source.path for index, source in trace.sources.captured}
    paths = [*signature.traced_paths(), *(known.get(i, f"captured array {i}") for i in range(len(trace.captured)))]
    return Program(
        signature, trace, pipeline, kernels, executable, Inputs(planned, paths), choices.backend, threads,
        Milliseconds((traced - begin) * 1e3, (passed - traced) * 1e3, (done - passed) * 1e3), reason, verify)


def _with_donations(graph: Graph, signature: CallSignature, donate: frozenset[str]) -> Graph:
    """`graph`, with the role "donated" for the parameters that belong to the arguments in `donate`."""
    if not donate:
        return graph
    roles = list(graph.param_roles)
    for index, path in enumerate(signature.traced_paths()):
        if _argument(path) in donate:
            roles[index] = "donated"
    return replace(graph, param_roles=tuple(roles))


def _argument(path: str) -> str:
    """The argument that `params['w1'][0]` belongs to: `params`."""
    return path.partition("[")[0].partition(".")[0]
