"""How a function of ours is called: within a trace it emits, outside of one it is evaluated at once on plain arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from adjit.tracer.array import TracedArray
from adjit.tracer.registry import FUNCTIONS, Function
from adjit.tracer.scope import active_scope, entered, evaluating


def entry_point(function: Function) -> Function:
    """`function`, written over traced arrays, for callers anywhere.

    Outside of a trace plain arrays go in, and ndarrays and NumPy scalars come out.
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if active_scope() is not None:
            return function(*args, **kwargs)
        with entered(evaluating()):
            return _plain(function(*args, **kwargs))

    return call


def implements(*numpy_functions: Any) -> Callable[[Function], Function]:
    """Register a function as ours for `numpy_functions`; gives back its entry point."""

    def register(function: Function) -> Function:
        call = entry_point(function)
        for numpy_function in numpy_functions:
            FUNCTIONS[numpy_function] = call
        return call

    return register


def _plain(result: Any) -> Any:
    if isinstance(result, TracedArray):
        return result.evaluated()
    if isinstance(result, (tuple, list)) and any(isinstance(item, (TracedArray, tuple, list)) for item in result):
        return type(result)(map(_plain, result))
    return result
