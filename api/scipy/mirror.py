"""What the modules of `adjit.scipy` have in common: SciPy's own functions for plain arrays, and names that have no rule."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, ParamSpec

import numpy as np

from adjit.ir.errors import UnsupportedError
from adjit.ir.spelling import nearest
from adjit.scipy.reasons import CALLS, DESIGN, INSTEAD, MADE, METHODS, NOT_YET, REASONS, REMEDIES
from adjit.tracer.array import as_traced, contains_traced
from adjit.tracer.array_wrapper import find_wrapper
from adjit.tracer.dispatch import dispatched
from adjit.tracer.scipy_functions import calling_back
from adjit.tracer.trace import is_tracing
from adjit.tracer.user_location import find_user_location

P = ParamSpec("P")


def scipys(module: str) -> ModuleType:
    """Import a module of SciPy; raises `UnsupportedError` if SciPy is not installed."""
    try:
        return import_module(f"scipy.{module}")
    except ImportError:
        raise UnsupportedError(f"this needs scipy.{module}, and SciPy is not installed", find_user_location(),
                               hint="pip install 'adjit[scipy]'") from None


def is_plain(*args: Any, **kwargs: Any) -> bool:
    """True for a call outside of a trace that has no tensors among its arguments."""
    return not is_tracing() and find_wrapper(args, kwargs) is None


def arrays_of(*given: Any) -> tuple[Any, ...]:
    """The arguments, with arrays in place of lists that hold traced numbers."""
    return tuple(as_traced(x) if isinstance(x, (list, tuple)) and contains_traced(x) else x for x in given)


def mirrors(module: str, static: Sequence[str] = ()) -> Callable[[Callable[P, Any]], Callable[P, Any]]:
    """Make a function over traced arrays SciPy's own, the one of this name in `scipy.module`, for plain arrays outside of a trace.

    Arguments that are `static` have to be known while tracing: the function gets tuples in place of their arrays.
    """

    def make(function: Callable[P, Any]) -> Callable[P, Any]:
        within = dispatched(function)
        places = [(list(inspect.signature(function).parameters).index(name), name) for name in static]

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> Any:
            if is_plain(*args, **kwargs):
                return getattr(scipys(module), function.__name__)(*args, **kwargs)
            for place, name in places:
                if name in kwargs:
                    kwargs[name] = _as_tuples(kwargs[name])
                elif place < len(args):
                    args = (*args[:place], _as_tuples(args[place]), *args[place + 1:])      # type: ignore[assignment]
            return within(*args, **kwargs)

        return call

    return make


def _as_tuples(x: Any) -> Any:
    if isinstance(x, (np.ndarray, np.generic)):
        x = x.tolist()
    return tuple(map(_as_tuples, x)) if isinstance(x, (list, tuple)) else x


def outside_scipys(module: str) -> Callable[[Callable[P, Any]], Callable[P, Any]]:
    """Make a function SciPy's own, the one of this name in `scipy.module`, for plain arguments outside of a trace; other arguments, tensors
    included, it gets as they are."""

    def make(function: Callable[P, Any]) -> Callable[P, Any]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> Any:
            return (getattr(scipys(module), function.__name__) if is_plain(*args, **kwargs) else function)(*args, **kwargs)

        return call

    return make


def without_rule(module: str, public: list[str]) -> Callable[[str], Any]:
    """Make the `__getattr__` of a module: what else SciPy's module has. Functions of it take plain arrays only."""

    def find(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module 'adjit.scipy.{module}' has no attribute {name!r}")
        theirs = scipys(module)
        if not hasattr(theirs, name):
            raise AttributeError(f"module 'adjit.scipy.{module}' has no attribute {name!r}: there is no scipy.{module}.{name}"
                                 f"{nearest(name, public)}", name=name, obj=None)
        found = getattr(theirs, name)
        if isinstance(found, (type, ModuleType, np.ufunc)) or not callable(found):
            return found        # a ufunc asks its arguments
        ufunc = getattr(found, "__wrapped__", None)
        if isinstance(ufunc, np.ufunc):
            return ufunc        # with SCIPY_ARRAY_API=1 it lies behind a function that asks arrays for their namespace
        reason = REASONS.get(module, {}).get(name, NOT_YET)
        kind = _for_plain_arrays if hasattr(found, "__name__") else PlainObject
        return kind(found, f"scipy.{module}.{name}", reason)

    return find


class PlainObject:
    """Object of SciPy's, such as a distribution, that has no rule: it and its methods take plain arrays only."""

    def __init__(self, theirs: Any, name: str, reason: str) -> None:
        self._theirs, self._name, self._reason = theirs, name, reason
        self.__doc__ = theirs.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _for_plain_arrays(self._theirs, self._name, self._reason)(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):        # copies and pickles ask before there is anything
            raise AttributeError(name)
        return attribute_of(self._theirs, name, f"{self._name}.{name}", self._reason)

    def __dir__(self) -> list[str]:
        return dir(self._theirs)

    def __repr__(self) -> str:
        return f"<{self._name} of plain arrays>"


def attribute_of(theirs: Any, name: str, full_name: str, reason: str | None = None) -> Any:
    """Attribute of an object of SciPy's that ours does not have: its methods take plain arrays only. Raises `AttributeError` if SciPy's has
    none of this name either."""
    found = getattr(theirs, name)
    if isinstance(found, type) or not callable(found):
        return found
    return _for_plain_arrays(found, full_name, METHODS.get(name, NOT_YET) if reason is None else reason)


def _for_plain_arrays(function: Callable[P, Any], name: str, reason: str) -> Callable[P, Any]:
    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Any:
        if find_wrapper(args, kwargs) is not None or any(map(contains_traced, (*args, *kwargs.values()))):
            raise no_rule(name, reason)
        if reason == CALLS and is_tracing():
            return calling_back(name, function, args, kwargs)
        return function(*args, **kwargs)

    return call


def no_rule(name: str, reason: str) -> UnsupportedError:
    """Refusal of traced arguments, by the full name of a function of SciPy's."""
    because = "" if reason == NOT_YET else f": {reason}"
    of_numbers = ("; or have its arguments static, aj.compile(f, static=\"cutoff\"): each value of them is a program then"
                  if reason in (DESIGN, MADE) else "")
    outside = f"call it on plain arrays outside of the compiled function{of_numbers}"
    return UnsupportedError(f"{name} has no rule for traced arrays and tensors{because}", find_user_location(),
                            hint=INSTEAD.get(name.rpartition(".")[2], REMEDIES.get(reason, outside)))
