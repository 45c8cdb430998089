"""Compiled methods: a compiled function of a class, bound to one instance."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MethodType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from adjit.ir.lazy_module import LazyModule
from adjit.tracer.tracebacks import hide_frames
from adjit.tracer.trees import flatten

if TYPE_CHECKING:
    from adjit.runtime.caches.program_cache import CacheInfo
    from adjit.runtime.compiled import CompiledFunction
    from adjit.runtime.exports.native_callable import NativeCallable
    from adjit.runtime.program import Program
    from adjit.runtime.reports import explain, reports
    from adjit.runtime.reports.memory_report import MemoryReport
    from adjit.runtime.reports.page import Page
    from adjit.runtime.reports.profile import Profile
else:
    explain = LazyModule("adjit.runtime.reports.explain")
    reports = LazyModule("adjit.runtime.reports.reports")


P = ParamSpec("P")
R = TypeVar("R", covariant=True)


class BoundCompiledFunction(Generic[P, R]):
    """A compiled method of one instance. An instance that is a tree is traced; any other instance is part of the signature, by its
    identity."""

    def __init__(self, function: CompiledFunction[..., Any], instance: Any):
        self.__doc__ = function.__doc__
        self.__func__ = function
        self.__self__ = instance

    def __eq__(self, other: object) -> bool:
        """True if both are the same function of the same instance, as for methods, so that equal objects find the same cache entries."""
        return isinstance(other, BoundCompiledFunction) and self.__func__ is other.__func__ and self.__self__ is other.__self__

    def __hash__(self) -> int:
        return hash((id(self.__func__), id(self.__self__)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__func__, name)

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        return MethodType(self.__func__.fun, self.__self__)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as methods are: by the instance and the name."""
        return getattr, (self.__self__, self.__func__.fun.__name__)

    def __copy__(self) -> BoundCompiledFunction:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self.__func__.__get__(copy.deepcopy(self.__self__, memo))

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            fun, given = self._split(args)
            result = self.__func__.call(fun, given, kwargs)
            self.__func__._activate_bound(self)
            return result       # type: ignore[no-any-return]
        except BaseException as error:
            hide_frames(error)
            raise

    def __repr__(self) -> str:
        return f"<{self.__func__!r} of {self.__self__!r}>"

    def ir(self, stage: str = "optimized", *args: Any, **kwargs: Any) -> str:
        """See `CompiledFunction.ir`."""
        reports.check_stage(stage)
        return reports.graph_text(self._program(args, kwargs), stage)

    def kernels(self, *args: Any, **kwargs: Any) -> dict[str, str]:
        """See `CompiledFunction.kernels`."""
        return reports.kernel_texts(self._program(args, kwargs))

    def explain(self, *args: Any, **kwargs: Any) -> str:
        """See `CompiledFunction.explain`."""
        return explain.explain_program(self._program(args, kwargs), self.cache_info(), self.__func__.programs(),
                                       self.__func__.compile_options.pass_options.rolling)

    def memory(self, *args: Any, **kwargs: Any) -> MemoryReport:
        """See `CompiledFunction.memory`."""
        fun, args = self._split(args) if args or kwargs else (self.__func__.fun, args)
        return self.__func__.memory_of(fun, args, kwargs)

    def profile(self, *args: Any, **kwargs: Any) -> Profile:
        """See `CompiledFunction.profile`."""
        fun, args = self._split(args)
        return self.__func__.measure(fun, args, kwargs)

    def report(self, path: str | os.PathLike[str] | None = None, *args: Any, **kwargs: Any) -> Page:
        """See `CompiledFunction.report`."""
        fun, args = self._split(args) if args or kwargs else (self.__func__.fun, args)
        return self.__func__.report_of(fun, path, args, kwargs)

    def export(self, path: str | os.PathLike[str], *args: Any, kwargs: Mapping[str, Any] | None = None,
               ways: Iterable[Sequence[Any]] = (), params: str | Iterable[str] | None = None,
               target: str = "x86_64-linux-gnu", levels: str | Sequence[str] | None = None) -> list[Path]:
        """See `CompiledFunction.export`."""
        fun, args = self._split(args)
        further = [self._split(tuple(example))[1] for example in ways]
        return self.__func__.export_for(fun, path, args, dict(kwargs or {}), further, params, target, levels)

    def as_callable(self, *args: Any, form: str | None = None, data: str | Iterable[str] = (), **kwargs: Any) -> NativeCallable:
        """See `CompiledFunction.as_callable`."""
        fun, args = self._split(args) if args or kwargs else (self.__func__.fun, args)
        return self.__func__.callable_for(fun, args, kwargs, form, data)

    def cache_info(self) -> CacheInfo:
        """See `CompiledFunction.cache_info`; counts of all instances together."""
        return self.__func__.cache_info()

    def clear_cache(self) -> None:
        """See `CompiledFunction.clear_cache`; for all instances together."""
        self.__func__.clear_cache()

    def _program(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Program:
        if not args and not kwargs:
            return self.__func__.program(self.__func__.fun, (), {})
        fun, args = self._split(args)
        return self.__func__.program(fun, args, kwargs)

    def _split(self, args: tuple[Any, ...]) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """The function and its positional arguments. An instance that is not a tree is bound to the function."""
        leaves, _ = flatten(self.__self__)
        if len(leaves) == 1 and leaves[0] is self.__self__:
            return self.__wrapped__, args
        return self.__func__.fun, (self.__self__, *args)
