"""Program: a function compiled for one signature, with every stage of its graph, its kernels, and the executable.

    trace  →  passes  →  kernels  →  executable
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from adjit.codegen.process.gc_pause import gc_paused
from adjit.eager.device import OnDevice
from adjit.ir.analysis.buffer_assignment import arena_bytes
from adjit.ir.dataclass import dataclass
from adjit.ir.definition import Kind
from adjit.ir.errors import TraceError, UnsupportedError
from adjit.ir.graph import WRITABLE_ROLES, Graph, Op, needed_ops
from adjit.ir.lazy_module import LazyModule
from adjit.ir.ops.guard import GuardMiss, Outcome, same_outcome
from adjit.ir.thread_context import thread
from adjit.ir.waiting_effects import no_effects, waiting_effects
from adjit.runtime import settings
from adjit.runtime.capture.compiled_operation import Half
from adjit.runtime.capture.tensor_program import Captured, TensorProgram, lower_with_tensors, with_updates
from adjit.runtime.compile_graph import Pipeline, compile_graph
from adjit.runtime.compile_options import CompileOptions, for_device
from adjit.runtime.debug import watch
from adjit.runtime.inputs import Inputs
from adjit.runtime.native.executable import NativeExecutable
from adjit.runtime.traces.trace_call import trace_call
from adjit.runtime.written_arrays import check_captured, check_read, find_read, find_same
from adjit.tracer.array_wrapper import ArrayWrapper
from adjit.tracer.flow.flow_graph import FlowGraph
from adjit.tracer.guards.argument_containers import argument_at, check_apart, put_at
from adjit.tracer.guards.snapshot import restore_written
from adjit.tracer.guards.templates import ARGUMENTS, KEPT
from adjit.tracer.signature import CallSignature, function_name
from adjit.tracer.trace import Pairs, Trace
from adjit.tracer.user_location import find_user_location, warn_user
from adjit.tracer.value_guards import ValueGuard

if TYPE_CHECKING:
    from adjit.runtime.backends import AnyExecutable
    from adjit.runtime.cuda import device_executable, device_inputs
    from adjit.runtime.debug import op_by_op
    from adjit.runtime.fastcall import program_descriptor
    from adjit.runtime.fastcall.descriptors import ProgramDescriptor
    from adjit.runtime.numba.kernels import Code
    from adjit.runtime.reports import graph_dump, kernel_texts, memory_report, profile
    from adjit.runtime.reports.profile import Profile
else:
    device_executable = LazyModule("adjit.runtime.cuda.device_executable")
    device_inputs = LazyModule("adjit.runtime.cuda.device_inputs")
    op_by_op = LazyModule("adjit.runtime.debug.op_by_op")
    graph_dump = LazyModule("adjit.runtime.reports.graph_dump")
    kernel_texts = LazyModule("adjit.runtime.reports.kernel_texts")
    memory_report = LazyModule("adjit.runtime.reports.memory_report")
    profile = LazyModule("adjit.runtime.reports.profile")
    program_descriptor = LazyModule("adjit.runtime.fastcall.program_descriptor")


@dataclass(frozen=True, slots=True)
class Milliseconds:
    """Times of the stages of compilation, in milliseconds."""

    trace: float
    passes: float
    kernels: float

    @property
    def total(self) -> float:
        return self.trace + self.passes + self.kernels


@dataclass(slots=True, weakref_slot=True, eq=False)
class Program:
    """A function compiled for one signature. `reason` says why it was traced; `verified`: its graph was verified after every pass; `calls`
    is the number of runs. `tensors` are its effects on tensors; None if the trace met no tensor.
    """

    signature: CallSignature
    trace: Trace
    param_roles: tuple[str, ...]
    pipeline: Pipeline
    executable: AnyExecutable
    inputs: Inputs | device_inputs.DeviceInputs
    backend: str
    threads: int
    milliseconds: Milliseconds
    reason: str
    verified: bool
    tensors: TensorProgram | None = None
    runs: int = 0           # calls through Python
    used: int = 0           # time of the last switch to this program, by the clock of its function
    number: int = 0         # number of the trace among the function's traces
    flow: FlowGraph | None = None       # the ways through the function that are known
    state: int = 0          # `number` of the first program of this state; the others are other ways through the function
    owners: tuple[Any, ...] = ()        # weak references to the objects that the signature names by identity
    donating: bool = field(init=False)
    traced: tuple[int, ...] = field(init=False)     # positions of the call's leaves that are parameters
    effects_wait: bool = False      # whether effects wait for the end of a run, which may miss a guard
    record: ProgramDescriptor | None = None             # descriptor for the fast path, if there is one
    is_recorded: bool = False
    loops_over_rows: int = 0        # loops over panels of rows, of a program for any number of rows
    least_rows: int = 0
    about_rows: str = ""            # how the program came to be for one number of rows, or for any
    about_few_rows: str = ""        # why not for fewer than `least_rows`

    def __post_init__(self) -> None:
        self.donating = "donated" in self.param_roles
        self.traced = tuple(i for i in range(len(self.signature.leaf_keys)) if self.signature.is_traced(i))

    @property
    def reads_beside_writes(self) -> bool:
        """True if the program writes to arrays, and Python has read others from outside: they must not be the same memory."""
        return bool(self.trace.writes) and bool(self.trace.guards.read_by_python())

    @property
    def calls(self) -> int:
        """Number of runs."""
        return self.runs + (0 if self.record is None else self.record.calls)

    @property
    def last_used(self) -> int:
        """Time, by the clock of its function, of the last call that switched to this program."""
        return self.used if self.record is None else max(self.used, self.record.last_use)

    def recorded(self) -> ProgramDescriptor | None:
        """The descriptor for the fast path, made at the first access after all code is ready; None if calls must go through Python."""
        executable = self.executable
        if not self.is_recorded and (isinstance(executable, NativeExecutable) or (
                self.backend == "cuda" and isinstance(executable, device_executable.DeviceExecutable) and executable.is_direct)):
            changes = self.trace.stored or self.trace.containers or (self.tensors is not None and self.tensors.effects.changes_places)
            waits = isinstance(executable, NativeExecutable) and executable.is_alone()
            if waits or changes or self.effects_wait or self.reads_beside_writes or self.trace.guards.numbers:
                return None
            self.record = program_descriptor.make_program_descriptor(self, self.trace, executable, self.tensors, self.flow,
                                                                    self.least_rows)
        self.is_recorded = True
        return self.record

    @property
    def planned(self) -> Graph:
        return self.pipeline.graphs["planned"]

    @property
    def kernels(self) -> Mapping[Op, Code]:
        """The code of each op that has code of its own; a native program has none, since it is one piece of code."""
        return self.executable.kernels

    @property
    def backward(self) -> Half | None:
        """The backward half, if the results have a gradient; compiled at the first access."""
        return None if self.tensors is None or self.tensors.operation is None else self.tensors.operation.whole_backward

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """Values that the guards of the program ask for."""
        return tuple(guard.expected for guard in self.trace.value_guards)

    def begins_with(self, outcomes: Sequence[Outcome]) -> bool:
        """True if the first guards ask for these values."""
        guards = self.trace.value_guards
        return len(outcomes) <= len(guards) and all(
            same_outcome(guard.expected, outcome) for guard, outcome in zip(guards, outcomes, strict=False))

    def decides_like(self, other: Program) -> bool:
        """True if a call goes one of the two programs exactly if it goes the other."""
        points, others = ([guard.point for guard in program.trace.value_guards] for program in (self, other))
        return points == others and self.begins_with(other.outcomes)

    def goes_the_way_of(self, signature: CallSignature, captured: Sequence[np.ndarray]) -> bool:
        """True if a call meets no guard that it misses: the ops on which they depend are computed by NumPy."""
        if not self.trace.value_guards:
            return True
        graph = op_by_op.reference_graph(self)
        arrays, passed = self._everything(signature, captured)
        try:
            op_by_op.run_op_by_op(replace(graph, ops=tuple(needed_ops(graph.ops, ())), results=()), self.inputs.prepare(arrays, passed),
                                  checks=True)
        except Exception:       # `GuardMiss`, or what the call raises
            return False
        return True

    def may_be_the_way(self, missed: Program, outcomes: Sequence[Outcome]) -> bool:
        """True if nothing that is known of a call speaks against this program: the first guards of another one, `missed`, have these
        `outcomes`."""
        guards = missed.trace.value_guards[:len(outcomes)]
        if self.flow is None or self.flow is not missed.flow or any(guard.point is None for guard in guards):
            return self.begins_with(outcomes)
        known = {guard.point: outcome for guard, outcome in zip(guards, outcomes, strict=True)}
        return all(guard.point not in known or same_outcome(known[guard.point], guard.expected) for guard in self.trace.value_guards)

    def supersedes(self, other: Program) -> bool:
        """True if this program goes all ways of another one, whose decisions are branches and loops here."""
        if self.flow is None or self.flow is not other.flow:
            return False
        if any(guard.point is None for program in (self, other) for guard in program.trace.value_guards):
            return False
        begins = self.flow.structured | {("known", key) for key in self.flow.structured}
        if not all(guard.point in begins or any(guard.point == mine.point for mine in self.trace.value_guards)
                   for guard in other.trace.value_guards[:1]):
            return False
        mine, theirs = (_outcomes_at_points(program.trace.value_guards) for program in (self, other))
        return all(len(outcomes) <= len(theirs[point]) and all(map(same_outcome, outcomes, theirs[point]))
                   for point, outcomes in mine.items() if point in theirs)

    def until(self, miss: GuardMiss) -> tuple[Outcome, ...]:
        """What is known of a call that left the program at a guard: the values of its first guards."""
        return (*(guard.expected for guard in self.trace.value_guards[:miss.number]), miss.outcome)

    @property
    def updating(self) -> bool:
        """True if the program writes into the memory of tensors."""
        return "updated" in self.param_roles

    def current(self, signature: CallSignature) -> tuple[np.ndarray, ...] | None:
        """The current arrays for the captured parameters; None if the program is no longer valid, or if it needs the row-major
        layout of an argument that is not contiguous here."""
        if not all(signature.leaves[index].flags.c_contiguous for index in self.trace.in_order):
            return None
        return self._with_tensors(self.trace.guards.current(), signature)

    def traced_with(self, signature: CallSignature) -> tuple[np.ndarray, ...] | None:
        """Arrays for the call that the program was traced for. State that the function filled during the trace is no reason to trace
        again."""
        return self._with_tensors(self.trace.captured, signature)

    def _with_tensors(self, captured: tuple[np.ndarray, ...] | None, signature: CallSignature) -> tuple[np.ndarray, ...] | None:
        if captured is not None and self.tensors is not None:
            content = self.tensors.effects.current(signature.all_leaves)
            captured = None if content is None else (*captured, *content)
        if captured is not None and (self.trace.writes or self.trace.same) and self._same(signature, captured) != self.trace.same:
            return None
        if captured is not None and self.reads_beside_writes:
            memory = signature.memory()
            if find_read((*memory, *captured), self.trace.written_params(), self.trace.guards.read_by_python(),
                         dict(enumerate(self.trace.captured, len(memory)))):
                return None
        return captured

    def _same(self, signature: CallSignature, captured: Sequence[np.ndarray]) -> Pairs:
        """The parameters that are the same array in this call, where the program writes to it."""
        memory = signature.memory()
        return find_same((*memory, *captured), self.trace.written_params(), self.inputs.paths, len(memory))

    def may_hold_again(self) -> bool:
        """True if only flags and numbers changed in the state that the function reads: such values may change back."""
        return (self.tensors is None or self.tensors.effects.state_guard.has_same_objects()) and self.trace.guards.may_hold_again()

    def changed(self) -> str:
        """The reason why the program is no longer valid."""
        return self.trace.guards.changed() or ("" if self.tensors is None else self.tensors.effects.changed())

    def run(self, signature: CallSignature, captured: Sequence[np.ndarray]) -> Any:
        """The function's result for a call; `captured` are the current arrays for its captured parameters."""
        if self.trace.containers:
            check_apart(self.trace.containers, signature.arguments, [
                *self.trace.guards.fixed, *(source for _, source, _ in self.trace.guards.captured)])
        arrays, passed = self._everything(signature, captured)
        prepared = self.inputs.prepare(arrays, passed)
        watched = watch.Watched(arrays, self.param_roles, [param for param, _ in self.trace.writes]) if watch.is_watched() else None
        saved = arrays if not self.trace.writes or self.tensors is None or self.tensors.operation is None else self._saved(arrays)
        if watch.is_reference() and not self.trace.writes and self.tensors is None:
            found = op_by_op.run_op_by_op(op_by_op.reference_graph(self), prepared, watch.observer(), checks=True)
            return self.trace.rebuild([array[()] for array in found])
        with waiting_effects() if self.effects_wait else nullcontext():
            results = self._run_writing(signature, captured, prepared, passed) if self.trace.writes else \
                self.executable.run(prepared, passed)
        self.runs += 1
        if watched is not None:
            watched.check(self, results, self.inputs.paths)
        if self.tensors is None:
            found, made = self.trace.rebuild(results), dict[int, Any]()
        else:
            found, kept = self.tensors.finish(saved, results, signature.all_leaves)
            results, made = list(self.tensors.in_order(results)), {KEPT: kept}
        if self.trace.stored or self.trace.containers:
            made[ARGUMENTS] = signature.arguments
            values = [each.value(results, made) for each in self.trace.stored]      # all are read before one is stored: places may swap
            contents = [each.content(results, made) for each in self.trace.containers]
            for each, value in zip(self.trace.stored, values, strict=True):
                each.store(value)
            for change, content in zip(self.trace.containers, contents, strict=True):
                change.store(signature.arguments, content)
            for path, argument in self.trace.returned:
                found = put_at(found, path, argument_at(signature.arguments, argument))
        return found

    def _saved(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The arrays that the backward half may read: copies of what is about to be overwritten."""
        written = {param for param, _ in self.trace.writes if self.param_roles[param] != "updated"}
        return [array.copy() if param in written else array for param, array in enumerate(arrays)]

    def _run_writing(self, signature: CallSignature, captured: Sequence[np.ndarray], prepared: Sequence[np.ndarray],
                     passed: Sequence[Any]) -> list[Any]:
        """Run the program, then copy new contents into the caller's arrays, unless kernels wrote them there."""
        order = None if self.tensors is None else self.tensors.order
        targets, passed = (*signature.memory(), *captured), list(passed)
        for param, _ in self.trace.writes:
            passed[param] = prepared[param]
        results = self.executable.run(prepared, passed)
        for param, result in self.trace.writes:
            number = result if order is None else order[result]
            if results[number] is not targets[param]:
                np.copyto(targets[param], results[number])
                results[number] = targets[param]
        return results

    def profile(self, signature: CallSignature, captured: Sequence[np.ndarray], calls: int) -> Profile:
        """Measure `calls` runs on copies of overwritten arrays, after a warm-up run. They print nothing, and call back nobody."""
        runs = []
        for _ in range(calls + 1):
            arrays, _ = self._everything(signature, captured)
            arrays = [array.copy() if role in WRITABLE_ROLES else array for array, role in zip(arrays, self.param_roles, strict=True)]
            with no_effects():
                runs.append(self.executable.run_timed(self.inputs.prepare(arrays, arrays), arrays)[1])
        took = self.milliseconds
        compilation = profile.first_call(took.trace, self.pipeline.records, took.passes, took.kernels)
        live = memory_report.memory_report(self.pipeline.graphs["optimized"], self.planned).live_bytes
        in_use = dict(zip((op for op in self.planned.ops if op.definition.kind is not Kind.MEMORY), live, strict=True))
        return profile.make_profile(self.planned.name, runs[1:], compilation, tuple(in_use.get(op, 0) for op, _, _ in runs[-1]),
                                    self.executable.thread_spans if isinstance(self.executable, NativeExecutable) else ())

    def _everything(self, signature: CallSignature, captured: Sequence[np.ndarray]) -> tuple[Sequence[np.ndarray], Sequence[Any]]:
        """An array for each parameter, and the caller's object for it."""
        arrays = (*signature.leaves, *captured)
        if self.loops_over_rows:
            captured = (*captured, np.asarray(signature.rows))
            arrays = (*signature.leaves, *captured)
        if self.donating:
            given = (signature.all_leaves[i] for i in self.traced)
            return arrays, (*(leaf.array if isinstance(leaf, ArrayWrapper) else leaf for leaf in given), *captured)
        return arrays, arrays


@gc_paused()
def compile_program(fun: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], signature: CallSignature,
                    compile_options: CompileOptions, reason: str, update_in_place: bool = True,
                    outcomes: Sequence[Outcome] = (), guarded: bool = True, flow: FlowGraph | None = None) -> Program:
    """Trace `fun` for these arguments and compile it. The program does not keep the arguments' arrays.

    Without `update_in_place`, new contents of written tensors are copied into them. `outcomes` are those of the first guards on values, if
    they are known; `flow` is what is known of the ways through the function. A program that
    is not `guarded` is right for the values of these arguments alone.
    """
    if compile_options.device == "cpu":
        if compile_options.follows and signature.on_devices():
            compile_options = for_device(compile_options, signature.on_devices()[0][1])
        else:
            _check_for_cpu(fun, signature)
    if compile_options.device != "cpu":
        _check_for_card(fun, signature, compile_options.device)
    threads = compile_options.threads or settings.THREADS.get()
    folder, verify = settings.DUMP.get(), settings.VERIFY.get()
    begin = time.perf_counter()
    ways = FlowGraph() if flow is None and guarded else flow
    outer, thread.context.device = thread.context.device, compile_options.device
    try:
        trace, captured, flow = trace_call(fun, args, kwargs, compile_options.static, signature, outcomes, ways)
    except OnDevice as error:
        if not compile_options.follows or compile_options.device != "cpu":
            raise
        there = for_device(compile_options, error.place)
        return compile_program(fun, args, kwargs, signature, there, reason, update_in_place, outcomes, guarded, flow)
    finally:
        thread.context.device = outer
        if ways is not None:
            ways.recorders.clear()      # they hold the scopes of traces, with the arguments of this call
    if compile_options.repeats:
        trace = replace(trace, stored=(), containers=())
        drawn = next((source.path for source in trace.guards.fixed if source.path.startswith("the position of")
                      and not trace.guards.hold((source,))), None)
        if drawn is not None:
            raise TraceError(f"the pullback runs the function again, and {drawn} is another one then", find_user_location(),
                             hint="draw outside of the function, and pass what comes as an argument; or use aj.value_and_grad, which runs "
                                  "it once")
    if not guarded:
        trace = replace(trace, graph=trace.graph.with_ops([op for op in trace.graph.ops if not op.definition.is_check]), value_guards=())
    try:
        if trace.writes:
            paths = [*signature.traced_paths(), *captured_paths(trace)]
            memory = [*signature.memory(), *trace.captured]
            check_captured(memory, trace.written_params(), paths, len(signature.leaves))
            check_read(memory, [param for param in trace.written_params() if param < len(signature.leaves)], paths,
                       trace.guards.read_by_python())
        program = _lower(trace, captured, signature, compile_options, reason, update_in_place, threads, folder, verify, begin)
    except BaseException:
        restore_written(trace.by_python)
        if captured is not None:
            captured.undo()
        raise
    program.flow = flow
    return program


def _lower(trace: Trace, captured: Captured | None, signature: CallSignature, compile_options: CompileOptions, reason: str,
           update_in_place: bool, threads: int, folder: Path | None, verify: bool, begin: float) -> Program:
    graph = with_donations(trace.graph, signature, compile_options.donate, trace.stored_params)
    on_device = compile_options.device != "cpu"
    if on_device:
        _check_for_device(trace, signature, compile_options.device)
    dump = graph_dump.Dump(folder, graph.name) if folder else None
    traced = time.perf_counter()
    on_pass = dump.graph if dump else None
    tensors = None
    if captured is None:
        graph, _ = with_updates(graph, trace.writes if update_in_place else ())
        compiled = compile_graph(graph, compile_options.backend, compile_options.pass_options, threads, verify, on_pass,
                                 card=compile_options.card)
    else:
        tensors, graph, compiled = lower_with_tensors(graph, captured, trace, compile_options, verify, threads, update_in_place, on_pass)
    budget = compile_options.memory_budget
    if isinstance(budget, int) and budget and (needed := arena_bytes(compiled.pipeline.graphs["planned"])) > budget:
        warn_user(f"memory_budget={budget:,}: {graph.name} works in {needed:,} bytes, the least that there is by computing values again")
    signature = signature.without_arguments()
    trace = replace(trace, signature=signature, graph=trace.graph.with_ops(()))       # every iteration of every loop: no one reads them
    if dump:
        dump.kernels(kernel_texts.kernel_texts_of(compiled.executable), "ll" if compile_options.backend == "native" else "py")
    took = (time.perf_counter() - traced) * 1e3
    paths = [*signature.traced_paths(), *captured_paths(trace)]
    paths += [value.name or f"tensor {i}" for i, value in enumerate(graph.params[len(paths):])]
    milliseconds = Milliseconds((traced - begin) * 1e3, took - compiled.backend_milliseconds, compiled.backend_milliseconds)
    inputs = (device_inputs.DeviceInputs(graph, paths) if on_device
              else Inputs(graph, paths, [param for param, _ in trace.writes], trace.same))
    return Program(signature, trace, graph.param_roles, compiled.pipeline, compiled.executable, inputs, compile_options.backend, threads,
                   milliseconds, reason, verify, tensors, effects_wait=graph.has_effects and bool(trace.value_guards))


def _check_for_cpu(fun: Callable[..., Any], signature: CallSignature) -> None:
    """Raise `UnsupportedError` for an argument in the memory of a device."""
    for path, device in signature.on_devices():
        raise UnsupportedError(f"{path} is on the device {device!r}, and {function_name(fun)} is compiled for the CPU",
                               find_user_location(), hint=f"compile it with device={device!r}, or pass aj.device_get({path})")


def _check_for_card(fun: Callable[..., Any], signature: CallSignature, place: str) -> None:
    """Raise `UnsupportedError` for an argument in the memory of another card than the program is for."""
    for path, device in signature.on_devices():
        if device != place:
            raise UnsupportedError(f"{path} is on the device {device!r}, and {function_name(fun)} is compiled for {place!r}",
                                   find_user_location(),
                                   hint=f"copy it there: aj.device_put({path}, {place!r}); a tensor by .to({place!r})")


def _check_for_device(trace: Trace, signature: CallSignature, device: str) -> None:
    """Raise `UnsupportedError` for what programs on a device do not do yet."""
    if trace.writes:
        paths = [*signature.traced_paths(), *captured_paths(trace)]
        raise UnsupportedError(f"{trace.graph.name} writes to {paths[trace.writes[0][0]]}, and is compiled for the device {device!r}",
                               find_user_location(), hint="return the new array instead")


def with_donations(graph: Graph, signature: CallSignature, donate: frozenset[str], stored: Collection[int] = ()) -> Graph:
    """`graph`, with the role "donated" for the parameters of the arguments in `donate`, but for those that the function stores."""
    if not donate:
        return graph
    roles = list(graph.param_roles)
    for index, path in enumerate(signature.traced_paths()):
        if _argument(path) in donate and index not in stored:
            roles[index] = "donated"
    return replace(graph, param_roles=tuple(roles))


def captured_paths(trace: Trace) -> list[str]:
    known = {index: source.path for index, source, _ in trace.guards.captured}
    return [known.get(i, f"captured array {i}") for i in range(len(trace.captured))]


def _outcomes_at_points(guards: Sequence[ValueGuard]) -> dict[object, list[Outcome]]:
    """Outcomes of the guards at each point, in their order: a loop whose rounds are ways comes by a point more than once."""
    found: dict[object, list[Outcome]] = {}
    for guard in guards:
        found.setdefault(guard.point, []).append(guard.expected)
    return found


def _argument(path: str) -> str:
    """The argument of a path: `params` for `params['w1'][0]`."""
    return path.partition("[")[0].partition(".")[0]
