"""Keyword arguments of tensor methods: PyTorch's names and NumPy's, passed on to the function that does the work by its own names."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from inspect import Parameter
from typing import Any, NoReturn

Function = Callable[..., Any]

NUMPY_NAMES = {"axis": ("dim", "dims"), "keepdims": ("keepdim",), "ddof": ("correction",)}
"""NumPy's keywords, and the parameters that they stand for."""

_MORE_NAMES = {name: {other: parameter} for names, other, parameter in (
    ("scatter scatter_", "value", "src"), ("copy_", "src", "other"), ("split", "split_size_or_sections", "split_size"),
    ) for name in names.split()}
_MORE_NAMES["swapaxes"] = _MORE_NAMES["swapaxes_"] = {"axis0": "dim0", "axis1": "dim1"}
"""Names of parameters that PyTorch has for one method only, by method."""


def bound(method: Function, function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments after the tensor as `function` takes them, for a call of `method` with keywords.

    Raises `TypeError`, with the name of the method, for a keyword that the method does not take, and for two names of one argument.
    """
    own, names, by_position = _parameters(method, function)
    if own.issuperset(kwargs):
        return args, kwargs
    given: dict[str, Any] = {}
    for name, argument in kwargs.items():
        parameter = names.get(name)
        if parameter is None:
            refuse(method, f"got an unexpected keyword argument {name!r}")
        if parameter in given:
            refuse(method, f"got {name} and {parameter}, two names of one argument")
        given[parameter] = argument
    for parameter in by_position[len(args):]:
        if parameter in given:
            args = (*args, given.pop(parameter))
    for parameter in by_position:
        if parameter in given:
            refuse(method, f"got multiple values for argument {parameter!r}")
    return args, given


@functools.cache
def _parameters(method: Function, function: Function) -> tuple[frozenset[str], dict[str, str], tuple[str, ...]]:
    """Return the keywords of `function`, the parameter for each keyword of `method`, and parameters that `function` takes by position."""
    public = [*inspect.signature(method).parameters][1:]
    keywords = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    own = frozenset(p.name for p in inspect.signature(function).parameters.values() if p.kind in keywords)
    names = {name: name for name in (*own, *public)}
    names |= {other: parameter for other, parameters in NUMPY_NAMES.items() for parameter in parameters if parameter in public}
    return own, names | _MORE_NAMES.get(method.__name__, {}), tuple(name for name in public if name not in own)


def of_sizes(method: Function, names: tuple[str, ...], sizes: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Return the sizes or dimensions that are given one by one, or all together by one of the names of the parameter."""
    (name, argument), *more = kwargs.items()
    if name not in names:
        refuse(method, f"got an unexpected keyword argument {name!r}")
    if sizes or more:
        refuse(method, f"got an argument twice: by position and as {name}" if sizes else f"got one argument too many: {more[0][0]}")
    return (argument,)


def check(method: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise `TypeError` with the name of the method if its signature does not take these arguments, of which the first is the tensor."""
    try:
        inspect.signature(method).bind(*args, **kwargs)
    except TypeError as error:
        what = str(error)
        refuse(method, what if what.startswith(("missing", "got")) else f"got {what}")


def refuse(method: Function, what: str) -> NoReturn:
    """Raise `TypeError` with the name and the signature of the method."""
    shown = ", ".join(str(p.replace(annotation=p.empty)) for p in inspect.signature(method).parameters.values())
    raise TypeError(f"{method.__name__}() {what}; the signature is {method.__name__}({shown})") from None
