"""Stand-ins for what a call finds where the call before stored a value: of the class and type of that value, without a value to read.

A function whose trace reads none is the same program whatever is there. Python's decisions on a number of NumPy's leave nothing in the
graph, so that a number that stood in, whatever it were, would decide in silence.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from adjit.tracer.array import TracedArray
from adjit.tracer.guards.side_effects import KeptValue
from adjit.tracer.guards.source import Source


class ValueWasRead(Exception):
    """The value of a stand-in was asked for."""


def _asked(*_: Any, **__: Any) -> Any:
    raise ValueWasRead


_OPERATORS = [f"__{side}{name}__" for side in ("", "r") for name in (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "divmod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift")]
_OTHERS = [f"__{name}__" for name in (
    "neg", "pos", "abs", "invert", "lt", "le", "gt", "ge", "eq", "ne", "bool", "int", "float", "complex", "index", "round", "trunc",
    "floor", "ceil", "format", "str", "repr", "hash", "getitem", "setitem", "iter", "contains", "array", "array_ufunc", "array_function")]
_METHODS = ("item", "tolist", "copy", "astype", "any", "all", "sum", "max", "min", "mean", "fill")
_NAMES = (*_OPERATORS, *_OTHERS, *_METHODS)


@cache
def _class(base: type) -> Any:
    return type(base.__name__, () if base is np.bool_ else (base,), dict.fromkeys(_NAMES, _asked))      # which is no base


def stand_in(dtype: np.dtype[Any], shape: tuple[int, ...] | None) -> Any:
    """A number of NumPy's, or an array, of a class within that of its kind, which raises `ValueWasRead` if its value is asked for."""
    if shape is not None:
        return np.zeros(shape, dtype).view(_class(np.ndarray))
    kind: Any = dtype.type
    return _class(np.bool_)() if kind is np.bool_ else _class(kind)(1)


def class_guard(source: Source, kept: KeptValue) -> Source:
    """A source that is the same while a place holds an object of the class that was there, or of one that the function stores there."""
    value = kept.source.value
    stored = {np.ndarray, value.dtype.type} if isinstance(value, TracedArray) else {type(value)}
    return Source(f"the class of {source.path}", partial(_is_one_of, source.read, frozenset({type(source.value), *stored})), True,
                  source.holder, False)


def _is_one_of(read: Callable[[], Any], kinds: frozenset[type]) -> bool:
    return type(read()) in kinds
