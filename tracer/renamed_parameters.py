"""Renamed parameters of public functions: the old name is still accepted by keyword, with a `DeprecationWarning`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from adjit.tracer.tracebacks import hide_frames
from adjit.tracer.user_location import warn_user

F = TypeVar("F", bound=Callable[..., Any])

_warned: set[tuple[str, str]] = set()


def renamed_parameters(**new_names: str) -> Callable[[F], F]:
    """Make a decorator that also accepts the old name of each parameter: `renamed_parameters(lo="lower")`.

    The first use of an old name in a process is a `DeprecationWarning` at the user's line. Both names at once raise `TypeError`.

    >>> @renamed_parameters(times="count")
    ... def repeat(text, count=2):
    ...     return text * count
    >>> repeat("ab", count=3)
    'ababab'
    >>> repeat("ab", count=3, times=3)
    Traceback (most recent call last):
    TypeError: repeat() got count= and times=, two names of one parameter: leave times= out, its name until now
    """

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **(_renamed(function.__name__, kwargs, new_names) if kwargs else kwargs))
            except BaseException as error:
                hide_frames(error)
                raise

        return call     # type: ignore[return-value]

    return decorate


def _renamed(function: str, kwargs: dict[str, Any], new_names: dict[str, str]) -> dict[str, Any]:
    if new_names.keys().isdisjoint(kwargs):
        return kwargs
    found: dict[str, Any] = {}
    for name, argument in kwargs.items():
        new = new_names.get(name, name)
        if new in found or (new != name and new in kwargs):
            old = next(each for each in new_names if new_names[each] == new and each in kwargs)
            raise TypeError(f"{function}() got {new}= and {old}=, two names of one parameter: leave {old}= out, its name until now")
        if new != name and (function, name) not in _warned:
            _warned.add((function, name))
            warn_user(f"{function}({name}=...): the parameter is called {new} now, write {function}({new}=...)", DeprecationWarning)
        found[new] = argument
    return found
