"""`compile`: a function that is traced and compiled once for each signature it is called with."""

from __future__ import annotations

import copy
import functools
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, overload

import numpy as np

from adjit.codegen.process.cores import usable_cores
from adjit.codegen.process.fork_safety import no_fork, renewed_after_fork
from adjit.eager.modes import modes
from adjit.ir.errors import DonationError, ExportError, TraceError
from adjit.ir.lazy_module import LazyModule
from adjit.ir.thread_context import run_detached
from adjit.runtime import settings
from adjit.runtime.bound_function import BoundCompiledFunction
from adjit.runtime.caches.program_cache import CacheInfo, Found, ProgramCache
from adjit.runtime.compile_options import CompileOptions, Names, function_name, make_compile_options
from adjit.runtime.fastcall.callable_type import activate, callable_type, fastcall_is_ready
from adjit.runtime.pickled_functions import has_name, make_recompiling, restore
from adjit.runtime.program import Program, compile_program
from adjit.runtime.warmup import WARM_UP
from adjit.tracer.array_wrapper import IdentityKeyed
from adjit.tracer.reentrancy import is_reentrant
from adjit.tracer.signature import CallSignature, flatten_call
from adjit.tracer.trace import is_tracing
from adjit.tracer.user_location import find_user_location

if TYPE_CHECKING:
    from adjit.runtime import compiled_module
    from adjit.runtime.exports import export, native_callable
    from adjit.runtime.reports import explain, reports
    from adjit.runtime.reports.memory_report import MemoryReport
    from adjit.runtime.reports.profile import Profile
else:
    compiled_module = LazyModule("adjit.runtime.compiled_module")
    explain = LazyModule("adjit.runtime.reports.explain")
    reports = LazyModule("adjit.runtime.reports.reports")
    export = LazyModule("adjit.runtime.exports.export")
    native_callable = LazyModule("adjit.runtime.exports.native_callable")

P = ParamSpec("P")
Q = ParamSpec("Q")      # of a method, without its instance
R = TypeVar("R", covariant=True)
Owner = TypeVar("Owner")
Returned = TypeVar("Returned")
CompiledKind = TypeVar("CompiledKind", bound=IdentityKeyed)      # of a module, which is compiled as a module of its class

TRACES_BEFORE_WARNING = 16
"""Traces after which a function is warned about, once."""


class CompiledFunction(Generic[P, R]):
    """A function compiled by `compile`. Call it as the function; a new signature is traced and compiled at its first call.

    The reports speak of the last signature called, or of the one of the example arguments given (which is compiled, not run).
    Any number of threads may call it at the same time.

    >>> import numpy as np
    >>> double = compile(lambda x: 2 * x)
    >>> double(np.arange(3.0))
    array([0., 2., 4.])
    >>> print(double.ir("traced").splitlines()[0])
    graph @<lambda>(%x: f64[3]) {
    >>> double.cache_info().traces
    1
    """

    def __init__(self, fun: Callable[..., Any], compile_options: CompileOptions):
        functools.update_wrapper(self, fun, updated=())
        self.compile_options = compile_options
        self._cache = ProgramCache(settings.SIGNATURES.get(), _call_in_python)
        self._is_native = False                 # whether calls go to the native entry
        self._compiling = renewed_after_fork(self, "_compiling", threading.RLock)        # one compilation at a time
        self.fun = fun
        if isinstance(fun, FunctionType):
            self.__dict__.update({name: value for name, value in vars(fun).items() if not hasattr(self, name)})

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.call(self.fun, args, kwargs)        # type: ignore[no-any-return]

    def call(self, fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call `fun`: the function, or its bound method of an instance."""
        if is_tracing():
            return run_detached(functools.partial(self.call, fun, args, kwargs)) if is_reentrant(*args) else fun(*args, **kwargs)
        signature = flatten_call(fun, args, kwargs, self.compile_options.static, modes.grad)
        found = self._cache.find(signature, count=True)
        if found is None:
            return self._first_call(fun, args, kwargs, signature)
        program, captured = found
        self._install_fast_path(program)
        try:
            return program.run(signature, captured)
        except DonationError:
            if not program.updating:
                raise
        self._cache.forget(signature.key, program)
        return self._first_call(fun, args, kwargs, signature, update_in_place=False)

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...

    @overload
    def __get__(self: CompiledFunction[Concatenate[Owner, Q], Returned], instance: Owner,
                owner: type | None = None) -> BoundCompiledFunction[Q, Returned]: ...

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        kind = callable_type(BoundCompiledFunction)
        if not self._is_native or not fastcall_is_ready(kind, self.compile_options.threads or 0):
            return BoundCompiledFunction(self, instance)
        bound = kind(self, instance)
        activate(bound, self._cache.record, instance)
        return bound

    def __repr__(self) -> str:
        return f"<compiled {function_name(self.fun)}>"

    def __reduce__(self) -> str | tuple[Any, ...]:
        if has_name(self):
            return self.fun.__qualname__
        if not isinstance(self.fun, FunctionType):      # a method, a partial, an object: pickled as what they are made of
            return make_compiled, (self.fun, self.compile_options)
        return restore, (self._recompiled,)

    def __copy__(self) -> CompiledFunction:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledFunction:
        """A copy as of the wrapped callable: a function is its own copy, a method is bound to a copy of its object."""
        fun = copy.deepcopy(self.fun, memo)
        return self if fun is self.fun else make_compiled(fun, self.compile_options)

    @functools.cached_property
    def _recompiled(self) -> FunctionType:
        return make_recompiling(self, make_compiled, self.fun, self.compile_options)

    def ir(self, stage: str = "optimized", *args: Any, **kwargs: Any) -> str:
        """The text of the graph at a stage: "traced", "adjoint", "optimized", "fused" or "planned"."""
        reports.check_stage(stage)
        return reports.graph_text(self.program(self.fun, args, kwargs), stage)

    def kernels(self, *args: Any, **kwargs: Any) -> dict[str, str]:
        """The generated code of each kernel, by its name, in the order of their first use."""
        return reports.kernel_texts(self.program(self.fun, args, kwargs))

    def explain(self, *args: Any, **kwargs: Any) -> str:
        """A report of what was compiled and why: signature, reason of the trace, passes with times, kernels with their origin, memory."""
        return explain.explain_program(self.program(self.fun, args, kwargs), self.cache_info(), self.programs())

    def memory(self, *args: Any, **kwargs: Any) -> MemoryReport:
        """A report of the blocks that the program keeps in memory, when, and for which source line."""
        return reports.memory_of(self.program(self.fun, args, kwargs))

    def profile(self, *args: Any, **kwargs: Any) -> Profile:
        """Run for these arguments (donated ones are copied first) and measure each step: the mean of some calls after one to warm up."""
        return self.measure(self.fun, args, kwargs)

    def export(self, path: str | os.PathLike[str], *args: Any, kwargs: Mapping[str, Any] | None = None,
               params: str | Iterable[str] | None = None,
               target: str = "x86_64-linux-gnu", levels: str | Sequence[str] | None = None) -> list[Path]:
        """Write the program for these example arguments into a file; the paths of the files written.

        The suffix of `path` says what: `.adjit`, an archive for `adjit.load`; `.so`, a shared library for C, with its header beside it;
        `.o`, the same not linked. The program is for the shapes and dtypes of `args` (and keyword arguments `kwargs`); static values and
        arrays that it only reads become part of it. What it reaches by itself and changes, such as the parameters of a module, goes into
        the archive, and is an input of a library. `params` names the arguments whose arrays go into the archive too.

        `levels` are those of x86-64 to write code for ("x86-64-v2", "x86-64-v3", "x86-64-v4"; one or several of them, and all without it);
        the best one is chosen where the program is used. `target` "aarch64-linux-gnu" writes for that system.

        Raises `ExportError`, with nothing written, where the program or the path are not fit for it.
        """
        return self.export_for(self.fun, path, args, dict(kwargs or {}), params, target, levels)

    def export_for(self, fun: Callable[..., Any], path: str | os.PathLike[str], args: tuple[Any, ...], kwargs: dict[str, Any],
                   params: str | Iterable[str] | None, target: str, levels: str | Sequence[str] | None) -> list[Path]:
        """Export `fun`: the function, or its bound method of an instance."""
        signature = flatten_call(fun, args, kwargs, self.compile_options.static, modes.grad)
        program, captured = self._native(fun, args, kwargs, signature)
        return export.export_program(program, signature, (*signature.leaves, *captured), path, params, target, levels)

    def as_callable(self, *args: Any, **kwargs: Any) -> native_callable.NativeCallable:
        """C functions of a scalar function of float64 numbers, or of its value and gradient, which need no Python to be called.

        For these example arguments (one float64 array, or floats), or those of the last call. Arrays that the function reaches by itself
        become part of the code, as they are now. Raises `ExportError` where the function is not of that form.
        """
        return self.callable_for(self.fun, args, kwargs)

    def callable_for(self, fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> native_callable.NativeCallable:
        """The C functions of `fun`: the function, or its bound method of an instance."""
        if not args and not kwargs and self.compile_options.backend == "native":
            program = self.program(fun, args, kwargs)
            return native_callable.make_callable(program, program.current(program.signature), program.signature)
        signature = flatten_call(fun, args, kwargs, self.compile_options.static, modes.grad)
        return native_callable.make_callable(*self._native(fun, args, kwargs, signature), signature)

    def _native(self, fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], signature: CallSignature
                ) -> tuple[Program, tuple[np.ndarray, ...]]:
        """The program for a call, as the native backend makes it, and the arrays that it would reach by itself."""
        if self.compile_options.backend == "native":
            program = (self._cache.find(signature) or self._compile(fun, args, kwargs, signature))[0]
        else:
            program = compile_program(fun, args, kwargs, signature, replace(self.compile_options, backend="native"), "it is exported")
        captured = program.current(signature)
        if captured is None:
            raise ExportError(f"what {function_name(self.fun)} depends on was changed while it was traced", find_user_location())
        return program, captured

    def measure(self, fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Profile:
        """The profile of `fun`: the function, or its bound method of an instance."""
        signature = flatten_call(fun, args, kwargs, self.compile_options.static, modes.grad)
        program, captured = self._cache.find(signature) or self._compile(fun, args, kwargs, signature)
        return program.profile(signature, captured, calls=5)

    def program(self, fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Program:
        """The program that a report is about: for these arguments, or the last one that was called."""
        if args or kwargs:
            signature = flatten_call(fun, args, kwargs, self.compile_options.static, modes.grad)
            return (self._cache.find(signature) or self._compile(fun, args, kwargs, signature))[0]
        if self._cache.last is None:
            raise TraceError(f"{function_name(self.fun)} was not compiled for any arguments yet",
                             hint="call it first, or give this report example arguments")
        return self._cache.last

    def cache_info(self) -> CacheInfo:
        """Hits, traces, size and limit of the cache of programs."""
        return self._cache.info()

    def programs(self) -> list[Program]:
        """The cached programs, in the order in which they were made."""
        return self._cache.programs()

    def clear_cache(self) -> None:
        """Forget all programs; the counts start anew. The disk cache stays."""
        self._cache.clear()

    def _install_fast_path(self, program: Program) -> None:
        """Have the native entry run a program from the next call on, if it can, and is there already."""
        record = program.recorded()
        if record is not None:
            self._cache.record.offer(record)
            if not self._is_native and fastcall_is_ready(type(self), program.threads):
                self._is_native = True
                activate(self, self._cache.record)

    def _first_call(self, fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], signature: CallSignature,
                    update_in_place: bool = True) -> Any:
        """Compile and run. After an error the cache is unchanged: bad input is no signature to cache."""
        last = self._cache.last
        program, captured = self._compile(fun, args, kwargs, signature, update_in_place)
        try:
            return program.run(signature, captured)
        except BaseException as error:
            if program.tensors is not None:
                program.tensors.take_back()
            self._cache.take_back(signature.key, program, last)
            if isinstance(error, DonationError) and program.updating:       # memory that is shared is not written by kernels
                return self._first_call(fun, args, kwargs, signature, update_in_place=False)
            raise

    def _compile(self, fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], signature: CallSignature,
                 update_in_place: bool = True) -> Found:
        with no_fork(), self._compiling:
            found = self._cache.find(signature) if update_in_place else None       # another thread may have been faster
            if found is not None:
                return found
            program = compile_program(fun, args, kwargs, signature, self.compile_options, self._cache.reason(signature), update_in_place)
            self._cache.keep(signature, program)
            if self._cache.traces == TRACES_BEFORE_WARNING:
                reports.warn_of_traces(function_name(self.fun), TRACES_BEFORE_WARNING, program.reason)
            captured = program.traced_with(signature)
            if captured is None:
                raise TraceError(f"what {function_name(self.fun)} depends on was changed while it was traced", find_user_location())
            return program, captured


def _call_in_python(function: Any, *args: Any, **kwargs: Any) -> Any:
    """The slow path of the native entry, for calls that no program of its descriptor fits."""
    return function.__call__(*args, **kwargs)


class _Decorator(Protocol):
    """`compile` with its options: a decorator of functions and modules."""

    @overload
    def __call__(self, fun: CompiledKind, /) -> CompiledKind: ...

    @overload
    def __call__(self, fun: np.ufunc, /) -> CompiledFunction[..., Any]: ...

    @overload
    def __call__(self, fun: Callable[P, R], /) -> CompiledFunction[P, R]: ...


@overload
def compile(fun: CompiledKind, *, static: Names = ..., donate: Names = ..., backend: str = ..., device: str = ...,
            threads: int | None = ..., memory_budget: int | float | None = ..., flush_subnormals: bool = ...) -> CompiledKind: ...


@overload
def compile(fun: np.ufunc, *, static: Names = ..., donate: Names = ..., backend: str = ..., device: str = ...,
            threads: int | None = ..., memory_budget: int | float | None = ...,
            flush_subnormals: bool = ...) -> CompiledFunction[..., Any]: ...


@overload
def compile(fun: Callable[P, R], *, static: Names = ..., donate: Names = ..., backend: str = ..., device: str = ...,
            threads: int | None = ..., memory_budget: int | float | None = ..., flush_subnormals: bool = ...) -> CompiledFunction[P, R]: ...


@overload
def compile(fun: None = None, *, static: Names = ..., donate: Names = ..., backend: str = ..., device: str = ...,
            threads: int | None = ..., memory_budget: int | float | None = ..., flush_subnormals: bool = ...) -> _Decorator: ...


def compile(fun: Callable[..., Any] | None = None, *, static: Names = (), donate: Names = (), backend: str = "auto",    # type: ignore[misc]
            device: str = "cpu", threads: int | None = None, memory_budget: int | float | None = None,
            flush_subnormals: bool = False) -> Any:
    """Compile a function of NumPy arrays, or a method: a decorator, with or without arguments.

    Arrays, NumPy scalars, tensors and floats among the arguments are traced; a bool, int, str, None, enum, callable or dtype, and all
    that is in the arguments named in `static`, is part of the signature. Trees of these (dict, list, tuple, dataclass, ...) are fine.
    Results come back in the structure that the function returned; 0-d results are NumPy scalars. A result never shares memory with an
    argument, but for `donate`: it names arguments whose buffers the call may overwrite. The returned arrays are then the very arrays
    passed in.

    `static` and `donate` hold names of arguments or positions. `backend` is "auto", "native", "numba" or "interpret" (NumPy, one op at a
    time). `threads` is the most threads a kernel is split over; the result does not depend on it. `memory_budget` is what the
    forward half may keep for the backward half: bytes (int) or a fraction of what keeping everything would take (float).

    With `flush_subnormals`, numbers too small for a full mantissa (below 1.2e-38 in float32, 2.3e-308 in float64) are 0, as operands and as
    results: processors take them a hundred times longer than others, and training makes many, in squares of small gradients and in
    gradients that vanish. Only this function's own arithmetic is concerned: the caller's, and NumPy's, is as before. The native backend
    can; where "auto" is another one the option has no effect. A compiled function that is called within another is part of that one.

    Raises `ValueError` or `TypeError` for arguments that make no sense, `UnsupportedError` for a backend or device that is not
    there yet, or that cannot do what is asked. The call raises `DonationError` before anything is touched where a donated buffer
    cannot be taken, and, with nothing changed, `MemoryError` where memory is short and `IndexingError` where an index is out of range.

    >>> import numpy as np
    >>> @compile
    ... def norm(x):
    ...     return np.sqrt(np.sum(x * x))
    >>> norm(np.array([3.0, 4.0]))
    np.float64(5.0)
    >>> norm.cache_info()
    CacheInfo(hits=0, traces=1, size=1, limit=128)
    """
    if fun is None:
        return functools.partial(
            compile, static=static, donate=donate, backend=backend, device=device, threads=threads, memory_budget=memory_budget,
            flush_subnormals=flush_subnormals)
    if isinstance(fun, (staticmethod, classmethod)):
        raise TypeError(f"compile cannot decorate a {type(fun).__name__}: put @{type(fun).__name__} above @compile")
    if not callable(fun):
        raise TypeError(f"compile takes a function, got {fun!r}")
    if isinstance(fun, CompiledFunction):
        fun = fun.fun
    return make_compiled(fun, make_compile_options(fun, static, donate, backend, device, threads, memory_budget, flush_subnormals))


def make_compiled(fun: Callable[..., Any], compile_options: CompileOptions) -> CompiledFunction:
    """`fun` compiled, as an object whose calls may go to the native entry; a module as a module."""
    base: Any = compiled_module.CompiledModule if isinstance(fun, IdentityKeyed) else CompiledFunction
    if compile_options.backend != "native":
        return base(fun, compile_options)
    with no_fork():     # the first one imports: a child that is forked in the midst of that waits for its end for ever
        kind: type[CompiledFunction] = callable_type(base)
        if compile_options.threads != 1 and usable_cores() > 1:
            WARM_UP.start()
    return kind(fun, compile_options)
