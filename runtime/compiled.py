"""`CompiledFunction`: a function that is traced and compiled once for each signature."""

from __future__ import annotations

import functools
import inspect
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

import numpy as np

from adjit.codegen.process.cores import usable_cores
from adjit.codegen.process.fork_safety import no_fork, renewed_after_fork
from adjit.eager.modes import modes
from adjit.ir.errors import ArgumentError, DonationError, ExportError, TraceError, UnsupportedError
from adjit.ir.graph import external_op
from adjit.ir.lazy_module import LazyModule
from adjit.ir.ops.guard import GuardMiss, Outcome
from adjit.ir.thread_context import run_detached, thread
from adjit.passes.panels.row_axes import RowsMixed
from adjit.runtime import settings
from adjit.runtime.bound_function import BoundCompiledFunction
from adjit.runtime.caches.program_cache import CacheInfo, Found, ProgramCache
from adjit.runtime.compile_options import CompileOptions, check_budget, function_name
from adjit.runtime.connections import connect
from adjit.runtime.fastcall.callable_type import activate, callable_type, fastcall_is_ready
from adjit.runtime.first_call_notice import long_call_announced
from adjit.runtime.integer_arguments import IntegerArguments
from adjit.runtime.pickled_functions import MadeOfFunction
from adjit.runtime.program import Program, compile_program
from adjit.runtime.rows.row_signature import RowCalls, SizedPrograms
from adjit.runtime.warmup import WARM_UP
from adjit.tracer.array_wrapper import IdentityKeyed
from adjit.tracer.flow.flow_graph import FlowGraph
from adjit.tracer.flow.lifted_numbers import ARGUMENT, NotLiftable
from adjit.tracer.guards.printing import printing_on, prints_of_last_traces
from adjit.tracer.guards.snapshot import restore_written
from adjit.tracer.libraries import own_code
from adjit.tracer.reentrancy import is_reentrant
from adjit.tracer.signature import NO_INTEGERS, CallSignature, describe_difference, flatten_call
from adjit.tracer.trace import is_tracing
from adjit.tracer.tracebacks import hide_frames, user_frames_only
from adjit.tracer.user_location import find_user_location, warn_user

if TYPE_CHECKING:
    from adjit.runtime import compiled_module
    from adjit.runtime.debug import shadow
    from adjit.runtime.exports import callable_forms, export, native_callable, onnx_file
    from adjit.runtime.reports import explain, page, reports, what_if
    from adjit.runtime.reports.memory_report import MemoryReport
    from adjit.runtime.reports.page import Page
    from adjit.runtime.reports.profile import Profile
    from adjit.runtime.reports.what_if import WhatIf
    from adjit.runtime.rows import row_program
else:
    compiled_module = LazyModule("adjit.runtime.compiled_module")
    shadow = LazyModule("adjit.runtime.debug.shadow")
    what_if = LazyModule("adjit.runtime.reports.what_if")
    page = LazyModule("adjit.runtime.reports.page")
    explain = LazyModule("adjit.runtime.reports.explain")
    reports = LazyModule("adjit.runtime.reports.reports")
    export = LazyModule("adjit.runtime.exports.export")
    row_program = LazyModule("adjit.runtime.rows.row_program")
    native_callable = LazyModule("adjit.runtime.exports.native_callable")
    callable_forms = LazyModule("adjit.runtime.exports.callable_forms")

connect()

P = ParamSpec("P")
Q = ParamSpec("Q")      # parameters of a method, without its instance
R = TypeVar("R", covariant=True)
Owner = TypeVar("Owner")
Returned = TypeVar("Returned")

MAX_TRACES_FOR_A_CALL = 3
"""Traces for one call, whose program computes other values than the trace did, after which it is run step by step."""

TRACES_BEFORE_WARNING = 16
"""Traces of a function after which it gets a warning, once."""


def _check_arguments(fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise Python's own `TypeError`, without the frames of the trace, if `fun` does not take these arguments."""
    if isinstance(fun, (FunctionType, MethodType)):
        try:
            inspect.getcallargs(fun, *args, **kwargs)
        except TypeError as error:
            raise TypeError(str(error)) from None


_FOR_BOUND_METHODS = frozenset(
    {"call", "callable_for", "compile_options", "export_for", "fun", "measure", "memory_of", "program", "report_of"})
"""Attributes that compiled functions have for bound methods of theirs and for modules of ours, not for users."""


class CompiledFunction(MadeOfFunction, Generic[P, R]):
    """A function compiled by `compile`. Call it like the function; a new signature is traced and compiled at its first call.

    Reports are about the last signature called, or about the signature of the example arguments (which is compiled, not run). The function
    is thread-safe.

    >>> import adjit
    >>> import numpy as np
    >>> double = adjit.compile(lambda x: 2 * x)
    >>> double(np.arange(3.0))
    array([0., 2., 4.])
    >>> print(double.ir("traced").splitlines()[0])
    graph @<lambda>(%x: f64[3]) {
    >>> double.cache_info().traces
    1
    """

    __name__: str       # of the function, as the rest that functools.update_wrapper sets
    __wrapped__: Callable[P, R]

    def __init__(self, fun: Callable[..., Any], compile_options: CompileOptions):
        functools.update_wrapper(self, fun, updated=())
        self.compile_options = compile_options
        self._cache = ProgramCache(settings.SIGNATURES.get(), _call_in_python)
        self._integers = IntegerArguments()
        self._is_native = False                 # True if calls go to the fast path
        self._compiling = renewed_after_fork(self, "_compiling", threading.RLock)        # one compilation at a time
        self.fun = fun
        self._rows = RowCalls(compile_options.batch) if compile_options.batch and compile_options.backend == "native" else None
        self.shadow = shadow.Shadow(self, compile_options.shadow) if compile_options.shadow else None
        if isinstance(fun, FunctionType):
            self.__dict__.update({name: value for name, value in vars(fun).items() if not hasattr(self, name)})

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return self.call(self.fun, args, kwargs)        # type: ignore[no-any-return]
        except BaseException as error:
            hide_frames(error)
            raise

    def call(self, fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call `fun`, which is the function, or its bound method of an instance."""
        if is_tracing():
            if self.compile_options.device not in ("cpu", thread.context.device) and not is_reentrant(*args):
                device = self.compile_options.device
                raise UnsupportedError(f"{function_name(fun)} is compiled for the device {device!r}, and is called in a function that is "
                                       f"compiled for {thread.context.device!r}", find_user_location(),
                                       hint=f"compile the outer function with device={device!r}")
            return run_detached(functools.partial(self.call, fun, args, kwargs)) if is_reentrant(*args) else fun(*args, **kwargs)
        try:
            return self._run(fun, args, kwargs) if self.shadow is None else self.shadow.call(self._run, fun, args, kwargs)
        except NotLiftable as error:
            needed = [int(str(source[1])) for source in error.sources if source[0] == ARGUMENT]
            if not needed:
                raise
            with self._integers.needed(needed), printing_on(fun, prints_of_last_traces()):
                return self.call(fun, args, kwargs)

    def _run(self, fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call `fun` by its program, which is made if there is none yet."""
        try:
            signature = self._signature(fun, args, kwargs)
            found = self._cache.find(signature, count=True)
            if found is None:
                if self._integers.learn(signature, self._cache.info().hits):
                    return self._run(fun, args, kwargs)
                return self._first_call(fun, args, kwargs, signature)
        except TypeError:
            _check_arguments(fun, args, kwargs)
            raise
        program, captured = found
        self._install_fast_path(program)
        try:
            return program.run(signature, captured)
        except GuardMiss as miss:
            outcomes = program.until(miss)
        except DonationError:
            if not program.updating:
                raise
            self._cache.forget(program.signature.key, program)
            signature = self._of_these_rows(signature, "an array that is written to shares its memory")
            return self._first_call(fun, args, kwargs, signature, update_in_place=False)
        return self._another_way(fun, args, kwargs, signature, program, outcomes)

    def _signature(self, fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], exported: bool = False) -> CallSignature:
        """The signature of a call, for any number of rows where the function has one program for them. Integers are part of what is
        exported."""
        integers = NO_INTEGERS if exported else self._integers.inputs
        signature = flatten_call(fun, args, kwargs, self.compile_options.static, modes.key, integers)
        return signature if self._rows is None else self._rows.general(signature) or signature

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...

    @overload
    def __get__(self: CompiledFunction[Concatenate[Owner, Q], Returned], instance: Owner,
                owner: type | None = None) -> BoundCompiledFunction[Q, Returned]: ...

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        native = self.compile_options.backend in ("native", "cuda")
        bound = (callable_type(BoundCompiledFunction) if native else BoundCompiledFunction)(self, instance)
        self._activate_bound(bound)
        return bound

    def _activate_bound(self, bound: BoundCompiledFunction[..., Any]) -> None:
        """Have calls of a bound method go to the fast path, as soon as those of the function do."""
        if self._is_native and fastcall_is_ready(type(bound), self.compile_options.threads or 0):
            activate(bound, self._cache.record, bound.__self__)

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self)} - _FOR_BOUND_METHODS)

    def __repr__(self) -> str:
        return f"<compiled {function_name(self.fun)}>"

    def _repr_html_(self) -> str:
        return reports.html_of(function_name(self.fun), self.programs(), self.cache_info())

    @property
    def __adjit_settings__(self) -> CompileOptions:
        """Settings of which what calls do depends, besides the function: for descriptions of a trace's state."""
        return self.compile_options

    def _parts(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """See `MadeOfFunction._parts`."""
        return make_compiled, (self.fun, self.compile_options)

    @user_frames_only
    def ir(self, stage: str = "optimized", *args: Any, **kwargs: Any) -> str:
        """The text of the graph at a stage: "traced", "adjoint", "optimized", "fused" or "planned"."""
        reports.check_stage(stage)
        return reports.graph_text(self.program(self.fun, args, kwargs), stage)

    @user_frames_only
    def kernels(self, *args: Any, **kwargs: Any) -> dict[str, str]:
        """The generated code of each kernel, by its name, in the order of their first use."""
        return reports.kernel_texts(self.program(self.fun, args, kwargs))

    @user_frames_only
    def explain(self, *args: Any, **kwargs: Any) -> str:
        """A report on the compilation: signature, reason of the trace, passes with times, kernels with their origin, memory."""
        text = explain.explain_program(self.program(self.fun, args, kwargs), self.cache_info(), self.programs(),
                                       self.compile_options.pass_options.rolling)
        return text if self.shadow is None else f"{text}\n\n{self.shadow.describe()}"

    @user_frames_only
    def memory(self, *args: Any, **kwargs: Any) -> MemoryReport:
        """A report on the program's memory blocks: their lifetimes, and the source line of each. One for example arguments also compares
        memory budgets: `f.memory(*args).what_if([0.25, 0.5, 1.0])`."""
        return self.memory_of(self.fun, args, kwargs)

    def memory_of(self, fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> MemoryReport:
        """The memory report of `fun`, which is the function, or its bound method of an instance."""
        report = reports.memory_of(self.program(fun, args, kwargs))
        return replace(report, budgets=functools.partial(self._what_if, fun, args, kwargs)) if args or kwargs else report

    def _what_if(self, fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
                 budgets: Sequence[int | float | None]) -> WhatIf:
        signature = flatten_call(fun, args, kwargs, self.compile_options.static, modes.key)

        def compile_for(budget: int | float | None) -> Program:
            check_budget(budget)
            options = replace(self.compile_options, memory_budget=budget)
            with no_fork(), self._compiling:
                return compile_program(fun, args, kwargs, signature, options, "another memory budget is looked at")

        def run(program: Program) -> float:
            captured = program.traced_with(signature) or ()
            return min(program.profile(signature, captured, calls=3).milliseconds for _ in range(3))

        return what_if.compare_budgets(compile_for, run, budgets)

    @user_frames_only
    def profile(self, *args: Any, **kwargs: Any) -> Profile:
        """Run for these arguments (donated ones are copied first) and measure each step: the mean of some calls, after a warm-up call."""
        return self.measure(self.fun, args, kwargs)

    @user_frames_only
    def report(self, path: str | os.PathLike[str] | None = None, *args: Any, **kwargs: Any) -> Page:
        """Make a page on the program for a browser: one HTML file, which needs no network. A notebook shows what is returned; without a
        `path` no file is written.

        It shows the graph before and after fusion (search, zoom, folded by source line or by function, loops as boxes), the code of each
        kernel, the memory timeline, what was saved for the backward half and which ops read it, the traces and their guards, and, for
        example arguments, the measured time of each step in the machine's roofline. Donated arguments are copied before.

        >>> import numpy as np
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "step.html"
        >>> import adjit
        >>> page = adjit.compile(lambda x: np.sum(np.sin(x))).report(path, np.ones(3))
        >>> path.read_text().startswith("<!DOCTYPE html>")
        True
        """
        return self.report_of(self.fun, path, args, kwargs)

    def report_of(self, fun: Callable[..., Any], path: str | os.PathLike[str] | None, args: tuple[Any, ...],
                  kwargs: dict[str, Any]) -> Page:
        """Make the page on `fun`, which is the function, or its bound method of an instance."""
        profile = self.measure(fun, args, kwargs) if args or kwargs else None
        program = self.program(fun, args, kwargs)
        text = explain.explain_program(program, self.cache_info(), self.programs(), self.compile_options.pass_options.rolling)
        return page.make_page(program, None if path is None else os.fspath(path), text, profile)

    @user_frames_only
    def export(self, path: str | os.PathLike[str], *args: Any, kwargs: Mapping[str, Any] | None = None,
               ways: Iterable[Sequence[Any]] = (), params: str | Iterable[str] | None = None,
               target: str = "x86_64-linux-gnu", levels: str | Sequence[str] | None = None) -> list[Path]:
        """Write the program for these example arguments into a file. Returns the paths of the files written.

        The suffix of `path` selects the format: `.adjit`, an archive for `adjit.load`; `.so`, a shared library for C, with a header next to
        it; `.o`, an object file, with the header; `.onnx`, a model for other runtimes (see `adjit.onnx.export`). The program is for the
        shapes and dtypes of `args` (and of the keyword arguments `kwargs`); with `batch=`, they are for any number of rows,
        which is an input of a library. Static values, and captured arrays that the function only reads, become part of the program.
        Captured state that the function changes, such as the parameters of a module, goes into the archive, and is an input of a library.
        `params` names the arguments whose arrays also go into the archive.

        A function that decides on values is exported with the ways through it that the example arguments take: those of `args`, and those
        of each tuple of further arguments in `ways`, of the same shapes and dtypes. A call tries them in this order; one that goes none of
        them raises `ArgumentError`, and returns the status `DECISION` in C.

        `levels` are the x86-64 levels to write code for ("x86-64-v2", "x86-64-v3", "x86-64-v4": one or several; the default is all); the
        best level of the processor is selected when the program is loaded. `target` "aarch64-linux-gnu" writes for that system. An archive
        of a function for NVIDIA GPUs has PTX, with levels "sm_80" and "sm_90", and is loaded onto the card.

        Raises `ExportError`, with nothing written, if the program or the path does not allow it.
        """
        return self.export_for(self.fun, path, args, dict(kwargs or {}), ways, params, target, levels)

    def export_for(self, fun: Callable[..., Any], path: str | os.PathLike[str], args: tuple[Any, ...], kwargs: dict[str, Any],
                   ways: Iterable[Sequence[Any]], params: str | Iterable[str] | None, target: str,
                   levels: str | Sequence[str] | None, onnx_names: onnx_file.Names = (None, None), rows_name: str = "rows") -> list[Path]:
        """Export `fun`, which is the function, or its bound method of an instance."""
        examples = [tuple(args), *map(tuple, ways)]
        alone = str(path).endswith((".so", ".o"))
        signatures = [flatten_call(fun, example, kwargs, self.compile_options.static, modes.key) if str(path).endswith(".onnx") else
                      self._signature(fun, example, kwargs, exported=True) for example in examples]
        programs: list[tuple[Program, tuple[np.ndarray, ...]]] = []
        for number, (example, signature) in enumerate(zip(examples, signatures, strict=True)):
            if signature.key != signatures[0].key:
                raise ExportError(f"the arguments number {number} of ways= are of other types than the first example arguments: "
                                  f"{describe_difference(signatures[0], signature)}", find_user_location(),
                                  hint="a file holds ways for arguments of one signature: export the others to a file of their own")
            program, captured = self._native(fun, example, kwargs, signature, programs[-1][0].flow if programs else None,
                                             alone=alone)
            arrays = (*signature.leaves, *captured, *((np.asarray(signature.rows),) if program.loops_over_rows else ()))
            programs = [known for known in programs if not program.supersedes(known[0])]
            if not any(known.decides_like(program) for known, _ in programs):
                programs.append((program, arrays))
        sized = self._sized_programs(fun, examples[0], kwargs) if str(path).endswith(".onnx") and self._rows is not None else None
        return export.export_program(programs, signatures[0], path, params, target, levels, onnx_names, sized, rows_name)

    def _sized_programs(self, fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> SizedPrograms:
        """Programs of which an ONNX model for any number of rows is made. Raises `ExportError` if there is none."""
        assert self._rows is not None
        signature = self._signature(fun, args, kwargs)
        program, _ = self._native(fun, args, kwargs, signature)
        why = self._rows.why_refused(signature) if not program.loops_over_rows else (
            program.least_rows > 1 and f"it has programs of their own for fewer than {program.least_rows} rows{program.about_few_rows}")
        if why or not program.loops_over_rows:
            raise ExportError(f"{function_name(self.fun)} has no ONNX model for any number of rows: "
                              f"{why or 'its arrays of rows have none'}", find_user_location(),
                              hint="compile it without batch= for a model of the size of the example arguments")
        return row_program.programs_for(fun, signature, replace(self.compile_options, backend="native"), program.planned)

    @user_frames_only
    def as_callable(self, *args: Any, form: str | None = None, data: str | Iterable[str] = (), **kwargs: Any
                    ) -> native_callable.NativeCallable:
        """C functions of a function of float64 numbers. Calling them needs no Python.

        Without `form`: of a scalar function of one float64 array, or of floats, or of its value and gradient, for example arguments or the
        last call. Forms, all of example arguments that are trees of float64 arrays and floats, which callers pass as one vector:

        "value", "value_and_grad"   of a function that returns a number
        "residuals", "jacobian"     of a function that returns an array, or a tree of arrays
        "rhs"                       of `f(t, y, ...)`, the derivatives of y; further arguments are data, with or without `data=`
        "nutpie"                    of a log density: `nutpie.sample(c.nutpie_model())`

        `data` names arguments that callers do not pass; `c.set(name=...)` replaces their content. They, and captured arrays, are copied.
        Those that are in `batch=` of `adjit.compile` may then have any number of rows.
        The code is compiled once for arguments of the same types, and shared.

        Raises `ExportError`, `ShapeError` or `DTypeError` if the function or the arguments are not of that form.
        """
        return self.callable_for(self.fun, args, kwargs, form, data)

    def callable_for(self, fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], form: str | None,
                     data: str | Iterable[str]) -> native_callable.NativeCallable:
        """The C functions of `fun`, which is the function, or its bound method of an instance."""
        self._check_exports()
        if form is not None:
            return callable_forms.make_form(self, fun, args, kwargs, form, data)
        if data != ():
            raise ExportError("as_callable: data= without form=", find_user_location(), hint="say which form the function has")
        if not args and not kwargs and self.compile_options.backend == "native":
            program = self.program(fun, args, kwargs)
            self._check_stores_nothing(program)
            if program.loops_over_rows:
                raise ExportError(f"as_callable: the last program of {function_name(self.fun)} is for any number of rows, and C functions "
                                  "have one number of variables", find_user_location(),
                                  hint="pass example arguments; of data that has rows, form=... and data=...")
            return native_callable.make_callable(program, program.current(program.signature), program.signature)
        signature = flatten_call(fun, args, kwargs, self.compile_options.static, modes.key)
        return native_callable.make_callable(*self._native(fun, args, kwargs, signature), signature)

    def _check_exports(self) -> None:
        """Raise `ExportError` for a function of a device, which C functions are not."""
        if self.compile_options.device != "cpu":
            raise ExportError(f"{function_name(self.fun)} is compiled for the device {self.compile_options.device!r}, and C functions are "
                              "for the CPU", find_user_location(), hint="compile it without device=, or export it to .adjit")

    def _check_stores_nothing(self, program: Program) -> None:
        """Raise `ExportError` if each call has to store something, which code without Python cannot."""
        stored = [each.path for each in program.trace.stored if not each.counts]
        stored += [f"in {change.name}, which is passed to it" for change in program.trace.containers]
        if stored:
            raise ExportError(f"{function_name(self.fun)} stores a value outside, {stored[0]}, at each call: a file "
                              "has no such place", find_user_location(), hint="return the value")
        if program.tensors is not None and program.tensors.effects.changes_places:
            raise ExportError(f"{function_name(self.fun)} changes attributes of modules or optimisers, or requires_grad, or steps a "
                              "schedule, at each call: a file has no such places", find_user_location(),
                              hint="make the changes outside of the function")
        if program.trace.stored:
            warn_user(f"{function_name(self.fun)} adds to {program.trace.stored[0].path} at each call, which a file does not do")

    def _native(self, fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], signature: CallSignature,
                flow: FlowGraph | None = None, alone: bool = False) -> tuple[Program, tuple[np.ndarray, ...]]:
        """The program of the native backend for a call, and the current arrays for its captured parameters. `flow` is what is known of
        the ways through the function. A program that runs `alone` calls no other libraries, as far as there is code of our own."""
        native = replace(self.compile_options, backend="native")
        if self.compile_options.backend in ("native", "cuda"):
            program = self._program_of(fun, args, kwargs, signature, flow)[0]
        else:
            program = compile_program(fun, args, kwargs, signature, native, "it is exported", flow=flow)
        if alone and external_op(program.planned) is not None:
            with own_code():
                program = compile_program(fun, args, kwargs, signature.of_these_rows(), native, "it is exported", flow=flow)
        self._check_stores_nothing(program)
        captured = program.current(signature)
        if captured is None:
            raise ExportError(f"state that {function_name(self.fun)} reads was changed while it was traced", find_user_location())
        return program, captured

    def measure(self, fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Profile:
        """The profile of `fun`, which is the function, or its bound method of an instance."""
        if not args and not kwargs and self._cache.last is not None and self._cache.last.signature.leaf_keys:
            raise ArgumentError("a profile runs the function, which takes arguments", find_user_location(),
                                hint=f"pass example arguments: {function_name(self.fun)}.profile(...); those of calls are not kept")
        signature = self._signature(fun, args, kwargs)
        program, captured = self._reported(fun, args, kwargs, signature)
        return program.profile(signature, captured, calls=5)

    def program(self, fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Program:
        """The program that a report is about: the one for these arguments, or the one called last."""
        if args or kwargs:
            signature = self._signature(fun, args, kwargs)
            return self._reported(fun, args, kwargs, signature)[0]
        if self._cache.last is None:
            raise TraceError(f"{function_name(self.fun)} was not compiled for any arguments yet",
                             hint="call it first, or pass example arguments to the report")
        return self._cache.last

    def _reported(self, fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], signature: CallSignature) -> Found:
        """The program that runs a call, and the current arrays for its captured parameters."""
        for way in self._cache.ways(signature):
            captured = way.current(signature)
            if captured is not None and way.goes_the_way_of(signature, captured):
                return way, captured
        return self._program_of(fun, args, kwargs, signature)

    def _program_of(self, fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], signature: CallSignature,
                    flow: FlowGraph | None = None) -> Found:
        """The program for a call, which is not run. Where the function decides on values, it is traced again for those of the call."""
        found = self._cache.find(signature)
        if found is None:
            return self._compile(fun, args, kwargs, signature)
        if not found[0].trace.value_guards:
            return found
        flow = flow or found[0].flow
        with no_fork(), self._compiling:
            program = compile_program(fun, args, kwargs, signature, self.compile_options, "its way is asked for",
                                      flow=flow if flow is not None and flow.holds() else None)
        known = next((way for way in self._cache.ways(signature) if way.decides_like(program)), None)
        return (program, program.traced_with(signature) or ()) if known is None else (known, known.current(signature) or ())

    def cache_info(self) -> CacheInfo:
        """Hits, traces, size and limit of the cache of programs."""
        return self._cache.info()

    def programs(self) -> list[Program]:
        """The cached programs, in the order in which they were made."""
        return self._cache.programs()

    def clear_cache(self) -> None:
        """Remove all programs, and reset the counts. The disk cache stays."""
        self._cache.clear()
        self._integers = IntegerArguments()
        if self._rows is not None:
            self._rows.forget()

    def _install_fast_path(self, program: Program) -> None:
        """Have the fast path run a program from the next call on, if it supports the program, and its code is ready."""
        record = None if settings.NANS.get() or self.shadow is not None else program.recorded()
        if record is not None:
            self._cache.record.offer(record)
            if not self._is_native and fastcall_is_ready(type(self), program.threads):
                self._is_native = True
                activate(self, self._cache.record, self.fun.__self__ if isinstance(self.fun, MethodType) else None)

    def _first_call(self, fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], signature: CallSignature,
                    update_in_place: bool = True, outcomes: tuple[Outcome, ...] = (), again: int = 0,
                    flow: FlowGraph | None = None, tried: Sequence[Program] = ()) -> Any:
        """Compile and run. After an error the cache is unchanged: invalid input is not cached as a signature. `outcomes` are those of the
        first guards, if they are known; `again`: number of traces for this call before; `tried`: programs that missed a guard."""
        last = self._cache.last
        program, captured = self._compile(fun, args, kwargs, signature, update_in_place, outcomes, flow, tried)
        prints = prints_of_last_traces()
        try:
            result = program.run(signature, captured)
            program.trace.by_python.clear()
            return result
        except BaseException as error:
            if program.tensors is not None:
                program.tensors.take_back()
            if isinstance(error, (DonationError, GuardMiss)):       # the call is traced again, or refused
                restore_written(program.trace.by_python)
            self._cache.take_back(program.signature.key, program, last)
            if isinstance(error, DonationError) and program.updating:       # kernels do not write to shared memory: copy instead
                signature = self._of_these_rows(signature, "an array that is written to shares its memory")
                with printing_on(fun, prints):
                    return self._first_call(fun, args, kwargs, signature, update_in_place=False, outcomes=outcomes)
            if not isinstance(error, GuardMiss):
                raise
            outcomes = program.until(error)     # a sum differs in its last bit from that of the trace
        with printing_on(fun, prints):
            if again == MAX_TRACES_FOR_A_CALL:
                return self._step_by_step(fun, args, kwargs, signature)
            return self._first_call(fun, args, kwargs, signature, update_in_place, outcomes, again + 1, program.flow, tried)

    def _another_way(self, fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], signature: CallSignature,
                     program: Program, outcomes: tuple[Outcome, ...]) -> Any:
        """Run the call, which missed a guard of a program, by the program of its own way, which is traced if there is none yet."""
        tried = [program]
        while found := self._cache.find(signature, False, outcomes, tried):
            program, captured = found
            self._install_fast_path(program)
            try:
                return program.run(signature, captured)
            except GuardMiss as miss:
                outcomes = program.until(miss)
                tried.append(program)
        ways, integers = self._cache.ways(signature), signature.integers()
        if self._cache.limits.may_grow("" if integers else function_name(self.fun), ways, outcomes, self._cache.info().hits):
            flow = program.flow if program.flow is not None and program.flow.holds() else None
            return self._first_call(fun, args, kwargs, signature, outcomes=outcomes, flow=flow, tried=tried)
        if integers:
            with self._integers.needed(integers[signature.tree]):
                return self._run(fun, args, kwargs)
        return self._step_by_step(fun, args, kwargs, signature)

    def _step_by_step(self, fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], signature: CallSignature) -> Any:
        """Run the call without a program that others may use: traced with its values, and interpreted; on a device, compiled for it."""
        with no_fork(), self._compiling:
            options = self.compile_options
            once = replace(options, backend="interpret") if options.device == "cpu" else options
            program = compile_program(fun, args, kwargs, signature, once, "its way is not kept", update_in_place=False, guarded=False)
        captured = program.traced_with(signature)
        assert captured is not None
        try:
            return program.run(signature, captured)
        except BaseException:
            if program.tensors is not None:
                program.tensors.take_back()
            raise

    def _compile(self, fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], signature: CallSignature,
                 update_in_place: bool = True, outcomes: tuple[Outcome, ...] = (), flow: FlowGraph | None = None,
                 tried: Sequence[Program] = ()) -> Found:
        with no_fork(), self._compiling:
            # another thread may have compiled it meanwhile
            found = self._cache.find(signature, False, outcomes, tried) if update_in_place else None
            if found is not None:
                return found
            with long_call_announced(self.fun):
                reason = self._cache.reason(signature, outcomes, tried)
                program = self._row_program(fun, signature, reason)
                if program is None:
                    signature = signature.of_these_rows()
                    try:
                        program = compile_program(fun, args, kwargs, signature, self.compile_options, reason, update_in_place, outcomes,
                                                  flow=flow)
                    except Exception:       # perhaps because a lifted integer is none for `pow` or for code in C
                        if not (integers := signature.integers()):
                            raise
                        raise NotLiftable(frozenset((ARGUMENT, str(index)) for index in integers[signature.tree])) from None
                    program.about_rows = "" if self._rows is None else self._rows.why_refused(signature)
            self._cache.keep(signature, program)
            self._cache.limits.traced(program, outcomes)
            if self._cache.traces - self._cache.limits.traces == TRACES_BEFORE_WARNING and not outcomes:
                reports.warn_of_traces(function_name(self.fun), TRACES_BEFORE_WARNING, program.reason)
            captured = program.traced_with(signature)
            if captured is None:
                raise TraceError(f"state that {function_name(self.fun)} reads was changed while it was traced", find_user_location())
            return program, captured


    def _row_program(self, fun: Callable[..., Any], signature: CallSignature, reason: str) -> Program | None:
        """The program for any number of rows; None if there is none for this signature."""
        if not signature.rows or (self.compile_options.follows and signature.on_devices()):
            return None
        assert self._rows is not None
        try:
            program = row_program.compile_row_program(fun, signature, self.compile_options, reason)
            return program if self._rows.serves(signature, program) else None
        except RowsMixed as mixed:
            self._rows.refuse(signature, mixed.reason, mixed.location)
            return None

    def _of_these_rows(self, signature: CallSignature, reason: str) -> CallSignature:
        """The signature for the number of rows of a call; it is noted why there is no program for any number of them."""
        if signature.rows and self._rows is not None:
            self._rows.refuse(signature, reason, None)
        return signature.of_these_rows()


def _call_in_python(function: Any, *args: Any, **kwargs: Any) -> Any:
    """The slow path, for calls that match no program in the fast path's descriptor."""
    try:
        return function.__call__(*args, **kwargs)
    except BaseException as error:
        hide_frames(error)
        raise


def make_compiled(fun: Callable[..., Any], compile_options: CompileOptions) -> CompiledFunction:
    """`fun` compiled, as an object whose calls may go to the fast path; for a module, a module."""
    base: Any = compiled_module.CompiledModule if isinstance(fun, IdentityKeyed) else CompiledFunction
    if compile_options.backend not in ("native", "cuda"):
        return base(fun, compile_options)
    with no_fork():     # the first call imports: a child forked in the middle of an import would wait for its end forever
        kind: type[CompiledFunction] = callable_type(base)
        if compile_options.backend == "native" and compile_options.threads != 1 and usable_cores() > 1 and not is_tracing():
            WARM_UP.start()
    return kind(fun, compile_options)
