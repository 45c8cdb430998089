"""Compilation of a traced graph to an executable: the passes, then the backend; or neither, if the disk cache has the program."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeAlias

from adjit.codegen.llvm.target import is_installed
from adjit.codegen.process.gc_pause import gc_paused
from adjit.codegen.process.off_main_thread import check_cancelled, off_main_thread
from adjit.ir.analysis.cost import cost_of
from adjit.ir.dataclass import dataclass
from adjit.ir.errors import UnsupportedError
from adjit.ir.graph import Graph, external_op
from adjit.ir.lazy_module import LazyModule
from adjit.ir.verifier import Stage
from adjit.passes.options import Options
from adjit.runtime.backends import make_executable
from adjit.runtime.caches.compile_once import compile_once
from adjit.runtime.caches.disk_cache import compiler
from adjit.runtime.caches.graph_cache import find_program, keep_program, program_key
from adjit.runtime.distributed.agreement import check_collectives, collectives_of
from adjit.runtime.first_call_notice import begin_stage
from adjit.runtime.native.code import NativeCode, native_target
from adjit.runtime.native.executable import NativeExecutable
from adjit.runtime.native.threads import TEAM_CODE
from adjit.runtime.warmup import WARM_UP

if TYPE_CHECKING:
    from adjit.codegen.native import compile_program
    from adjit.passes import pipeline as pass_pipeline
    from adjit.passes.pipeline import Pass, PassRecord, PipelineResult
    from adjit.runtime.backends import AnyExecutable
    from adjit.runtime.cuda import code as device_code
    from adjit.runtime.cuda import device_executable, devices, driver
else:
    compile_program = LazyModule("adjit.codegen.native.compile_program")
    pass_pipeline = LazyModule("adjit.passes.pipeline")
    device_code = LazyModule("adjit.runtime.cuda.code")
    device_executable = LazyModule("adjit.runtime.cuda.device_executable")
    devices = LazyModule("adjit.runtime.cuda.devices")
    driver = LazyModule("adjit.runtime.cuda.driver")

MIN_POOL_OPERATIONS = 1_000_000_000
"""Operations of a graph from which its first call waits for the thread pool, which is therefore created while the passes run."""


class DeferredPipeline:
    """The passes of a program that was found in a cache; they run when a report asks for a graph. Else like `PipelineResult`."""

    def __init__(self, run: Callable[[], PipelineResult]):
        self._run = run

    @cached_property
    def _result(self) -> PipelineResult:
        return self._run()

    @property
    def graphs(self) -> dict[str, Graph]:
        return self._result.graphs

    @property
    def records(self) -> tuple[PassRecord, ...]:
        return self._result.records

    @property
    def final(self) -> Graph:
        return self._result.final


Pipeline: TypeAlias = "PipelineResult | DeferredPipeline"


@dataclass(frozen=True, slots=True)
class CompiledGraph:
    """A graph that is ready to run; times of the passes and of the backend in milliseconds."""

    pipeline: Pipeline
    executable: AnyExecutable
    passes_milliseconds: float
    backend_milliseconds: float


def compile_graph(graph: Graph, backend: str, options: Options, threads: int, verify: bool,
                  on_pass: Callable[[str, Graph], None] | None = None, passes: str = "PIPELINE",
                  stage: Stage = Stage.TRACED, card: int = 0) -> CompiledGraph:
    """Compile a graph that is at `stage`. The arguments are those of `run_pipeline`; `passes` is the name of passes in
    `passes/pipeline.py`, which takes 20 ms to import and is not needed for a program on disk. `card` is the number of the one that the
    backend "cuda" is for.

    A native program is looked up on disk by its graph, unless passes are to be verified or reported: on the calling thread, if no pass has
    to run before, as a first use of an eager operation would wait for another thread as long as for the program.
    """
    if not is_installed("scipy"):
        _check_libraries(graph)
    if backend == "native" and passes != "PIPELINE" and not verify and on_pass is None:
        begin = time.perf_counter()
        code = find_program(program_key(graph, passes, options, native_target(), compiler()), graph)
        if code is not None:
            WARM_UP.notify_cache_lookup(missed=False)
            return _found(code, graph, threads, lambda: pass_pipeline.run_pipeline(
                graph, options, False, None, getattr(pass_pipeline, passes), stage), begin)
    return _off_main_thread(graph, backend, options, threads, verify, on_pass, passes, stage, card)


def _found(code: NativeCode, graph: Graph, threads: int, run_passes: Callable[[], PipelineResult], begin: float) -> CompiledGraph:
    """What was compiled before."""
    check_collectives(graph, code.artifact.collectives)
    pipeline = DeferredPipeline(run_passes)
    executable = NativeExecutable(code, lambda: pipeline.final, threads)
    return CompiledGraph(pipeline, executable, 0.0, (time.perf_counter() - begin) * 1e3)


@off_main_thread
def _off_main_thread(*arguments: Any) -> CompiledGraph:
    with gc_paused():
        return _compile(*arguments)


def _compile(graph: Graph, backend: str, options: Options, threads: int, verify: bool,
             on_pass: Callable[[str, Graph], None] | None, passes: str, stage: Stage, card: int) -> CompiledGraph:
    begin = time.perf_counter()
    before: tuple[PassRecord, ...] = ()
    is_cached = (backend == "native" or (backend == "cuda" and isinstance(devices.driver(card), driver.Driver))) and not verify and \
        on_pass is None
    is_rolled = is_cached and backend == "native" and passes == "PIPELINE"       # the text of a loop is shorter than that of its iterations
    if is_rolled:
        rolled = pass_pipeline.run_rolling(graph, options)
        graph, before = rolled.final, rolled.records

    def run_passes(on_pass: Callable[[str, Graph], None] | None = on_pass) -> PipelineResult:
        steps: Sequence[Pass] = getattr(pass_pipeline, passes)
        steps = steps[len(pass_pipeline.ROLL):] if is_rolled else steps
        result = pass_pipeline.run_pipeline(graph, options, verify, on_pass, steps, stage)
        return pass_pipeline.PipelineResult(result.graphs, (*before, *result.records))

    key, code = "", None
    if is_cached and backend == "cuda":
        return _compile_for_card(graph, options, threads, run_passes, on_pass, passes, begin, card)
    if is_cached:
        target = native_target()
        key = program_key(graph, passes, options, target, compiler())
        code = find_program(key, graph)
        WARM_UP.notify_cache_lookup(missed=code is None)
    with compile_once(key) if key and code is None else nullcontext():
        code = find_program(key, graph) if key and code is None else code       # another process may have put it there
        if code is None:
            made = _compile_new(graph, backend, options, threads, run_passes, on_pass, key, begin, card)
    if code is not None:
        return _found(code, graph, threads, run_passes, begin)
    check_collectives(graph, collectives_of(made.pipeline.final))
    return made


def _compile_for_card(graph: Graph, options: Options, threads: int, run_passes: Callable[..., PipelineResult],
                      on_pass: Callable[[str, Graph], None] | None, passes: str, begin: float, number: int) -> CompiledGraph:
    card = devices.driver(number)
    key = program_key(graph, passes, options, card.target, compiler())
    found = device_code.find_program(key, graph, card)
    if found is not None:
        planned, launches, ptx = found
        made = device_executable.DeviceExecutable(planned, card, ptx, launches)
        return CompiledGraph(DeferredPipeline(run_passes), made, 0.0, (time.perf_counter() - begin) * 1e3)
    compiled = _compile_new(graph, "cuda", options, threads, run_passes, on_pass, "", begin, number)
    assert isinstance(compiled.executable, device_executable.DeviceExecutable)
    device_code.keep_program(key, compiled.executable.program, compiled.executable.launches)
    check_collectives(graph, collectives_of(compiled.pipeline.final))
    return compiled


def _compile_new(graph: Graph, backend: str, options: Options, threads: int, run_passes: Callable[..., PipelineResult],
                 on_pass: Callable[[str, Graph], None] | None, key: str, begin: float, card: int) -> CompiledGraph:
    """Compile a graph that the disk cache does not have under `key`; without a key it is not kept there either."""
    target = native_target() if key else None
    if key and threads > 1 and cost_of(graph).operations >= MIN_POOL_OPERATIONS:
        TEAM_CODE.start()
    begin_stage("optimizing", graph)
    with compile_program.OverlappedCodegen(target, threads) if target is not None and threads > 1 else nullcontext() as overlapped:
        result = run_passes(partial(_after_pass, overlapped, on_pass))
        passed = time.perf_counter()
        check_cancelled()
        begin_stage("machine code", result.graphs["optimized"])
        made = make_executable(backend, result.graphs["optimized"], result.final, threads, options.flush_subnormals, overlapped, card)
    if key and isinstance(made, NativeExecutable):
        keep_program(key, made.code)
    return CompiledGraph(result, made, (passed - begin) * 1e3, (time.perf_counter() - passed) * 1e3)


def _check_libraries(graph: Graph) -> None:
    """Raise `UnsupportedError` if an op is computed by a library that is not installed."""
    op = external_op(graph, "scipy.")
    if op is not None:
        raise UnsupportedError(f"{op.name} is computed by SciPy, which is not installed", op.loc, hint="pip install scipy")


def _after_pass(overlapped: compile_program.OverlappedCodegen | None, on_pass: Callable[[str, Graph], None] | None, step: str,
                graph: Graph) -> None:
    check_cancelled()
    if on_pass is not None:
        on_pass(step, graph)
    if overlapped is not None and step == "tile_batch":      # after this pass, products are final
        overlapped.start_products(graph)
