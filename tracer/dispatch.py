"""Calls of adjit's functions: within a trace they emit ops, outside of a trace they are evaluated at once on plain arrays."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec

from adjit.ir.lazy_module import LazyModule
from adjit.ir.thread_context import run_detached, thread
from adjit.tracer.array import ORDINARY, PLAIN, WRITTEN, TracedArray, contains_traced
from adjit.tracer.array_wrapper import ArrayWrapper, find_wrapper
from adjit.tracer.masked_array import apply_rule, is_lazy
from adjit.tracer.reentrancy import interrupts_evaluation, is_reentrant
from adjit.tracer.registry import FUNCTIONS
from adjit.tracer.scope import active_scope, entered, evaluating
from adjit.tracer.tracebacks import hide_frames

if TYPE_CHECKING:
    from adjit.tracer import numpy_errors
else:
    numpy_errors = LazyModule("adjit.tracer.numpy_errors")

P = ParamSpec("P")

_OPERATORS: dict[str, Callable[..., Any]] = {"getitem": operator.getitem, "setitem": operator.setitem}


def _as_pytorch(function: Callable[P, Any]) -> Callable[P, Any]:
    """Run a function that is PyTorch's, in which bfloat16 promotes as PyTorch has it."""
    def call(*args: P.args, **kwargs: P.kwargs) -> Any:
        scope = thread.context.scopes[-1]
        before, scope.as_pytorch = scope.as_pytorch, True
        try:
            return function(*args, **kwargs)
        finally:
            scope.as_pytorch = before
    return call


def dispatched(function: Callable[P, Any], plain: Callable[..., Any] | None = None,
               numpys: Callable[..., Any] | None = None) -> Callable[P, Any]:
    """Make `function`, written over traced arrays, callable with the caller's kind of arrays.

    Outside of a trace plain arrays go in, and ndarrays and NumPy scalars come out: of `plain`, NumPy's function, if there is one. Boxed
    arrays are asked to make the call. Errors are those of `plain`, or of `numpys`, which does the same with arrays.
    """

    compute = _as_pytorch(function) if function.__module__.startswith("adjit.nn.") else function

    def run(args: Any, kwargs: Any) -> Any:
        try:
            return compute(*args, **kwargs)
        except (ValueError, TypeError, IndexError, ArithmeticError) as error:
            found = numpy_errors.as_numpy_raises(error, numpys or plain, args, kwargs)
            if found is error:
                raise
            raise found from None

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Any:
        scopes = thread.context.scopes
        if args and not scopes and isinstance(args[0], ArrayWrapper):
            return args[0].apply_wrapped(function, args, kwargs)
        if scopes and PLAIN.issuperset(map(type, args)) and not ORDINARY.isdisjoint(map(type, args)) and (
                not kwargs or PLAIN.issuperset(map(type, kwargs.values()))):
            result = run(args, kwargs)      # none of what is asked below
            return result if scopes[-1].evaluates else with_layout(result, args)
        wrapper = find_wrapper(args, kwargs)
        if wrapper is not None:
            return wrapper.apply_wrapped(function, args, kwargs)
        scope = active_scope()
        if scope is not None:
            if WRITTEN and not scope.evaluates:
                args, kwargs = FUNCTIONS["opened"](args), FUNCTIONS["opened"](kwargs)
            if interrupts_evaluation(*args) if scope.evaluates else is_reentrant(*args):
                return run_detached(functools.partial(call, *args, **kwargs))
            if any(map(is_lazy, args)) or (kwargs and any(map(is_lazy, kwargs.values()))):
                chosen = apply_rule(function, args, kwargs)
                if chosen is not NotImplemented:
                    return chosen
            result = run(args, kwargs)
            return result if scope.evaluates else with_layout(result, args)
        try:
            if plain is not None and not any(map(contains_traced, (*args, *kwargs.values()))):      # these have escaped from their trace
                return plain(*args, **kwargs)
            with entered(evaluating()):
                return _plain(compute(*args, **kwargs))
        except BaseException as error:
            hide_frames(error)
            raise

    return call


def makes(numpy_function: Any) -> Callable[[Callable[P, Any]], Callable[P, Any]]:
    """Make `function` a function of `adjit.numpy` that makes arrays; outside of a trace it is NumPy's."""
    return functools.partial(dispatched, plain=numpy_function)


def implements(*numpy_functions: Any) -> Callable[[Callable[P, Any]], Callable[P, Any]]:
    """Register a function as adjit's for `numpy_functions`; returns its entry point. Outside of a trace it is the first of them."""
    (first, *_) = (*numpy_functions, None)

    def register(function: Callable[P, Any]) -> Callable[P, Any]:
        call = dispatched(function, first if callable(first) else None, _OPERATORS.get(str(first)))
        for numpy_function in numpy_functions:
            FUNCTIONS[numpy_function] = call
        return call

    return register


def with_layout(result: Any, args: tuple[Any, ...]) -> Any:
    """Mark the layout of new arrays as unknown if an argument is not in C order: NumPy's functions then follow the arguments' axis order,
    each in its own way."""
    if type(result) in ORDINARY and (result.alias is not None or result._steps is not None):
        return result       # a view, or an array whose layout its function knows
    if _in_order(args):
        return result
    new = [x for x in (result if isinstance(result, (tuple, list)) else (result,)) if isinstance(x, TracedArray)
           and not is_lazy(x) and x.alias is None and x._steps is None and sum(size > 1 for size in x.shape) > 1
           and not any(x is arg for arg in args)]
    for x in new:
        x.layout_known = False
    return result


def _in_order(args: Any) -> bool:
    return all(x.in_order if isinstance(x, TracedArray) else not isinstance(x, (list, tuple)) or _in_order(x) for x in args)


def _plain(result: Any) -> Any:
    if isinstance(result, TracedArray):
        return result.evaluated()
    if isinstance(result, (tuple, list)) and any(isinstance(item, (TracedArray, tuple, list)) for item in result):
        return type(result)(*map(_plain, result)) if hasattr(result, "_fields") else type(result)(map(_plain, result))
    return result
