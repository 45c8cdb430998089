"""Warnings for functions that ask whether two arrays are one object: `x is y`.

Each array argument has a traced array of its own, also where one array is passed twice or is bound to a global as well, and the program
of a call does not depend on that. So the answer is False in each call.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from types import CodeType, FunctionType, MethodType
from typing import Any

import numpy as np

from adjit.tracer.guards.bytecode import VARIABLE_LOADS, instructions, nested_code

_warned: set[tuple[str, int]] = set()


def warn_of_identities(fun: Any, args: Sequence[Any], kwargs: Mapping[str, Any], codes: Sequence[CodeType] = ()) -> None:
    """Warn once for each line of `fun` that compares an array argument with another array by identity; where one array is passed twice,
    also for those of `codes`, which it runs, that compare objects by identity."""
    fun = inspect.unwrap(fun)
    if isinstance(fun, MethodType):
        fun, args = fun.__func__, (fun.__self__, *args)
    if not isinstance(fun, FunctionType):
        _warn_of_all(args, kwargs, codes)
        return
    code = fun.__code__
    for left, right, line in _identities(code):
        bound = dict(zip(code.co_varnames[:code.co_argcount], args, strict=False)) | dict(kwargs)
        both = list(_values((left, right), bound, fun))
        if len(both) == 2 and all(isinstance(value, np.ndarray) for value in both) and not bound.keys().isdisjoint((left, right)):
            _warn(code.co_filename, line, f"{code.co_name} asks whether {left} is {right}")
    _warn_of_all(args, kwargs, codes)


def _warn_of_all(args: Sequence[Any], kwargs: Mapping[str, Any], codes: Sequence[CodeType]) -> None:
    """Warn of all comparisons by identity in code, where one array is passed twice."""
    arrays = [value for value in (*args, *kwargs.values()) if isinstance(value, np.ndarray)]
    if len({*map(id, arrays)}) < len(arrays):
        for code in codes:
            for name, what, line in _asking_lines(code):
                _warn(code.co_filename, line, f"{name} {what}, and one array is passed twice")


def _warn(file: str, line: int, what: str) -> None:
    if (file, line) not in _warned:
        _warned.add((file, line))
        warnings.warn_explicit(
            f"{what}: while it is traced each argument is an array of its own, so the compiled program takes them for two arrays in every "
            "call; ask outside, and pass the answer as a static argument", RuntimeWarning, file, line)


def _values(names: tuple[str, str], bound: Mapping[str, Any], fun: FunctionType) -> Iterator[Any]:
    """Yield what names stand for in a function that is called with these arguments, where that is known."""
    cells = dict(zip(fun.__code__.co_freevars, fun.__closure__ or (), strict=True))
    for name in names:
        if name in bound:
            yield bound[name]
        elif name in cells:
            try:
                yield cells[name].cell_contents
            except ValueError:      # not bound yet
                continue
        elif name in fun.__globals__:
            yield fun.__globals__[name]


@lru_cache(maxsize=4096)
def _asking_lines(code: CodeType) -> tuple[tuple[str, str, int], ...]:
    """Return the functions and lines at which code, and code within it, compares two variables by identity, or asks for an `id`, and what
    it does."""
    found = [(code.co_name, f"asks whether {left} is {right}", line) for left, right, line in _identities(code)]
    found += [(code.co_name, "asks for the id of an object", (step.positions.lineno if step.positions else None) or code.co_firstlineno)
              for step in instructions(code) if step.opname in VARIABLE_LOADS and step.argval == "id"]
    return (*found, *(each for inner in nested_code(code) for each in _asking_lines(inner)))


@lru_cache(maxsize=4096)
def _identities(code: CodeType) -> tuple[tuple[str, str, int], ...]:
    """Return the pairs of variables that code compares by identity, and the lines."""
    steps = [step for step in instructions(code) if step.opname != "PUSH_NULL"]
    loads = VARIABLE_LOADS | {"LOAD_FAST", "LOAD_FAST_BORROW", "LOAD_FAST_CHECK"}
    return tuple((left.argval, right.argval, (asked.positions.lineno if asked.positions else None) or code.co_firstlineno)
                 for left, right, asked in zip(steps, steps[1:], steps[2:], strict=False)
                 if asked.opname == "IS_OP" and left.opname in loads and right.opname in loads)
