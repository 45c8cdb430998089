"""Namespaces that array-api-tests runs on: NumPy's functions, on tensors, each at once (`xp`) or compiled by itself (`compiled`).

Functions that make arrays make tensors, as the suite begins with these; all others are NumPy's own, which ask their arguments for rules.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

import adjit as aj


class TensorNamespace(ModuleType):
    """NumPy, but for the functions that make arrays; `around` is called with each other function."""

    __array_api_version__ = np.__array_api_version__

    def __init__(self, name: str, around: Callable[[Any], Any], module: ModuleType = np):
        super().__init__(name)
        self.around, self.module = around, module

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.module, name)
        if isinstance(found, ModuleType):
            return TensorNamespace(name, self.around, found)
        return self.around(found) if callable(found) and not isinstance(found, type) else found


def _making(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def made(*args: Any, **kwargs: Any) -> Any:
        return aj.tensor(function(*args, **kwargs))
    return made


@functools.wraps(np.asarray)
def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Any:
    """Make a tensor; a tensor of the dtype stays what it is unless a copy is asked for."""
    if isinstance(obj, aj.Tensor) and not copy and (dtype is None or obj.dtype == dtype):
        return obj
    return aj.tensor(np.asarray(obj.numpy() if isinstance(obj, aj.Tensor) else obj, dtype=dtype, device=device, copy=copy))


class _Place(int):
    """Number of a tensor among the arguments of the compiled function."""


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Run a function as a program that gets the tensors among its arguments."""
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        tensors: list[Any] = []

        def put(value: Any) -> Any:
            if isinstance(value, aj.Tensor):
                tensors.append(value)
                return _Place(len(tensors) - 1)
            return type(value)(map(put, value)) if type(value) in (list, tuple) else value

        def take(value: Any, given: tuple[Any, ...]) -> Any:
            if type(value) is _Place:
                return given[value]
            return type(value)(take(item, given) for item in value) if type(value) in (list, tuple) else value

        places = put(args), {name: put(value) for name, value in kwargs.items()}
        if not tensors:
            return function(*args, **kwargs)
        return aj.compile(lambda *given: function(*take(places[0], given), **{
            name: take(value, given) for name, value in places[1].items()}), backend="interpret")(*tensors)
    return call


_MAKING = ("arange", "empty", "eye", "from_dlpack", "full", "linspace", "ones", "zeros")
_OF_DTYPES = ("can_cast", "finfo", "iinfo", "isdtype", "result_type")
_OWN = {"asarray": asarray, "bool": np.bool_, **{name: _making(getattr(np, name)) for name in _MAKING},
        **{name: getattr(np, name) for name in _OF_DTYPES}}
xp, compiled = TensorNamespace("tensors", lambda function: function), TensorNamespace("compiled", _compiled)
vars(xp).update(_OWN)
vars(compiled).update(_OWN)
