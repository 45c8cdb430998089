"""Transforms as people type them: as decorators with arguments, and with arguments chosen by name."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from types import FunctionType, MethodType
from typing import Any, TypeVar

from adjit.runtime.transformed_function import TransformedFunction
from adjit.tracer.array_wrapper import IdentityKeyed
from adjit.tracer.trees import flatten

Function = Callable[..., Any]
F = TypeVar("F", bound=Function)


def as_typed(transform: F) -> F:
    """Let `transform(fun, argnums=...)` be called without the function, as a decorator; with `argnum=`, another name of `argnums`; and with
    `argnames=`, the names of parameters of the function, which may then be passed by keyword."""
    name = transform.__name__

    @functools.wraps(transform)
    def call(fun: Any = None, *args: Any, argnum: Any = None, argnames: str | Sequence[str] | None = None, **options: Any) -> Any:
        if sum((argnum is not None, argnames is not None, bool(args) or "argnums" in options)) > 1:
            raise TypeError(f"{name}() takes one of argnums, argnum and argnames")
        if fun is None:
            return functools.partial(call, *args, argnum=argnum, argnames=argnames, **options) if not args else transform(fun, *args)
        if isinstance(fun, (int, tuple)):
            raise TypeError(f"{name}() takes the function first, not {fun!r}; as a decorator: @aj.{name}(argnums=...)")
        options |= dict(zip(("argnums", "has_aux"), args, strict=False)) | ({} if argnum is None else {"argnums": argnum})
        if argnames is not None:
            return _by_name(transform, fun, argnames, options, functools.partial(call, argnames=argnames, **options))
        if is_method(fun):
            return _of_method(transform, fun, options, functools.partial(call, **options))
        return transform(fun, **options)

    return call     # type: ignore[return-value]


def is_method(fun: Function) -> bool:
    """True for a function in the body of a class whose first parameter is `self`."""
    if not isinstance(fun, FunctionType) or fun.__code__.co_varnames[:1] != ("self",):
        return False
    return "." in fun.__qualname__.rpartition("<locals>.")[2]


def _of_method(transform: Function, fun: Function, options: dict[str, Any], again: Function) -> TransformedFunction:
    """Transform of a method. `self` counts among the arguments; without `argnums` it is the next one that is differentiated."""
    plain = transform(fun, **options)
    given = options.get("argnums", 0)
    numbers = tuple(given) if isinstance(given, Sequence) else (given,)
    shifted = tuple(number if number < 0 else max(number - 1, 0) for number in numbers)
    options = options | {"argnums": shifted if isinstance(given, Sequence) else shifted[0]}
    return of_instances(plain, fun, lambda bound, _: transform(bound, **options), again)


def of_instances(plain: TransformedFunction, fun: Function, transform: Callable[[Function, int], Function],
                 again: Function) -> TransformedFunction:
    """The method `plain`, a transform of `fun`. Of an instance that is no tree it is `transform(method, count)`, called with the `count`
    other arguments."""
    def call(*arguments: Any, **kwargs: Any) -> Any:
        instance = arguments[0] if arguments else None
        if instance is None or isinstance(instance, IdentityKeyed) or flatten(instance)[0] != [instance]:
            return plain(*arguments, **kwargs)      # a tree
        return transform(MethodType(fun, instance), len(arguments) - 1)(*arguments[1:], **kwargs)

    found = plain.called_by(call, "of instances", again)
    found.__name__ = fun.__name__       # by which Python pickles bound methods
    return found


def _by_name(transform: Function, fun: Function, argnames: str | Sequence[str], options: dict[str, Any],
             again: Function) -> TransformedFunction:
    signature = inspect.signature(fun)
    places = {name: place for place, (name, parameter) in enumerate(signature.parameters.items())
              if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)}
    chosen = (argnames,) if isinstance(argnames, str) else tuple(argnames)
    for name in chosen:
        if name not in places:
            raise TypeError(f"{transform.__name__}(argnames=...): {getattr(fun, '__name__', fun)} has no positional parameter {name!r}; "
                            f"its parameters are {', '.join(signature.parameters)}")
    numbers = tuple(places[name] for name in chosen)
    options = options | {"argnums": numbers[0] if isinstance(argnames, str) else numbers}
    inner = _of_method(transform, fun, options, again) if is_method(fun) else transform(fun, **options)

    def call(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return inner(*bound.args, **bound.kwargs)

    return inner.called_by(call, "by name", again)
