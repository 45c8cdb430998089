"""How a function of ours is called: within a trace it emits, outside of one it is evaluated at once on plain arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec

from adjit.ir.thread_context import run_detached
from adjit.tracer.array import TracedArray
from adjit.tracer.array_wrapper import find_wrapper
from adjit.tracer.reentrancy import interrupts_evaluation, is_reentrant
from adjit.tracer.registry import FUNCTIONS
from adjit.tracer.scope import active_scope, entered, evaluating

P = ParamSpec("P")


def dispatched(function: Callable[P, Any]) -> Callable[P, Any]:
    """`function`, written over traced arrays, for callers anywhere, to whom it gives arrays of their kind.

    Outside of a trace plain arrays go in, and ndarrays and NumPy scalars come out. Boxed arrays are asked to make the call.
    """

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Any:
        wrapper = find_wrapper(args, kwargs)
        if wrapper is not None:
            return wrapper.apply_wrapped(function, args, kwargs)
        scope = active_scope()
        if scope is not None:
            if interrupts_evaluation(*args) if scope.evaluates else is_reentrant(*args):
                return run_detached(functools.partial(call, *args, **kwargs))
            result = function(*args, **kwargs)
            return result if scope.evaluates else _with_layout(result, args)
        with entered(evaluating()):
            return _plain(function(*args, **kwargs))

    return call


def implements(*numpy_functions: Any) -> Callable[[Callable[P, Any]], Callable[P, Any]]:
    """Register a function as ours for `numpy_functions`; gives back its entry point."""

    def register(function: Callable[P, Any]) -> Callable[P, Any]:
        call = dispatched(function)
        for numpy_function in numpy_functions:
            FUNCTIONS[numpy_function] = call
        return call

    return register


def _with_layout(result: Any, args: tuple[Any, ...]) -> Any:
    """NumPy's functions keep the order of axes of what they are given, in ways of their own, where that is not C order."""
    new = [x for x in (result if isinstance(result, (tuple, list)) else (result,)) if isinstance(x, TracedArray)
           and x.alias is None and x._steps is None and sum(size > 1 for size in x.shape) > 1 and not any(x is arg for arg in args)]
    if new and not _in_order(args):
        for x in new:
            x.layout_known = False
    return result


def _in_order(args: Any) -> bool:
    return all(x.in_order if isinstance(x, TracedArray) else not isinstance(x, (list, tuple)) or _in_order(x) for x in args)


def _plain(result: Any) -> Any:
    if isinstance(result, TracedArray):
        return result.evaluated()
    if isinstance(result, (tuple, list)) and any(isinstance(item, (TracedArray, tuple, list)) for item in result):
        return type(result)(map(_plain, result))
    return result
