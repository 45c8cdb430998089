"""What Python's numbers have and arrays do not: integers of floats, bools that add up, methods such as `is_integer` and `hex`.

A traced array that is `weak` stands for a Python number. What it compares to is a Python bool: `(x > 0) - (x < 0)` is an integer.
"""

from __future__ import annotations

import dis
import operator
import sys
from collections.abc import Callable
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

import numpy as np

from adjit.ir.errors import TraceError
from adjit.ir.types import I64, dtype_kind, is_half, is_inexact
from adjit.tracer.array import PythonBool, TracedArray, check_finite, wrap
from adjit.tracer.registry import FUNCTIONS, find
from adjit.tracer.scope import active_scope, is_within_batch
from adjit.tracer.user_location import is_ours
from adjit.tracer.value_guards import UnknownValueError

_BEYOND = 2.0**63
"""Least float that is no 64-bit integer."""


def holds(condition: TracedArray) -> bool | None:
    """Whether a condition holds for the call that is being traced; that it holds is checked by the program. None where nobody knows, as in
    the body of a loop and within `vmap`."""
    scope = active_scope()
    if scope is None or scope.root.values is None or is_within_batch():
        return None
    try:
        return bool(condition) if scope.flow is None else bool(scope.flow.check(condition.value))
    except (TraceError, UnknownValueError):
        return None


def as_integer(whole: TracedArray, function: Callable[..., Any]) -> Any:
    """The integer of a whole float, which `function`, as `round`, gave. The program checks that it has 64 bits; for a call in which it has
    not, it is Python's own, or the exception of infinity and NaN."""
    check_finite(whole)
    fits = find(np.isfinite)(whole) if is_half(whole.dtype) else find(np.absolute)(whole) < whole.dtype.type(_BEYOND)
    if holds(fits) is False:
        return function(float(whole.without_derivative()._number("the integer", "return the float")))
    return wrap(FUNCTIONS["astype"](whole, I64).value, weak=True)


FUNCTIONS["as integer"] = as_integer


# -- bools

def truth_value(truth: TracedArray) -> Any:
    """A traced bool of Python's; Python's own where code asks which object it is, as in `flag is True`: a decision."""
    scope = active_scope()
    if scope is None or not scope.root.asks_for_truth or scope.root.values is None:
        return truth
    try:
        return bool(truth)
    except TraceError:
        if asks_for_truth(_user_code()):
            raise
        return truth


FUNCTIONS["truth value"] = truth_value


def _user_code() -> CodeType | None:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_ours(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
    return None if frame is None else frame.f_code


@lru_cache(maxsize=4096)
def asks_for_truth(code: CodeType | None) -> bool:
    """True if code, or a function within it, compares with True or False by identity: `flag is True`, `case False:`."""
    if code is None:
        return False
    before = None
    for instruction in dis.get_instructions(code):
        if instruction.opname == "IS_OP" and before is not None and before.opname == "LOAD_CONST" and isinstance(before.argval, bool):
            return True
        before = instruction
    return any(asks_for_truth(each) for each in code.co_consts if isinstance(each, CodeType))


def _is_python(x: Any) -> bool:
    return x.weak if isinstance(x, TracedArray) else type(x) in (bool, int, float, complex)


def _as_number(x: Any) -> Any:
    """The integer of a bool; other numbers as they are."""
    if isinstance(x, PythonBool):
        return wrap(FUNCTIONS["astype"](x, I64).value, weak=True)
    return int(x) if type(x) is bool else x


def _arithmetic(name: str, reflected: bool) -> Callable[..., Any]:
    of_arrays = getattr(TracedArray, f"__{'r' if reflected else ''}{name}__")
    compute: Callable[..., Any] = getattr(operator, name, divmod)

    def apply(self: PythonBool, other: Any, *modulus: Any) -> Any:
        if not _is_python(other):
            return of_arrays(self, other, *modulus)
        if name == "matmul":
            return NotImplemented
        a, b = _as_number(self), _as_number(other)
        return compute(b, a, *modulus) if reflected else compute(a, b, *modulus)
    return apply


def _bitwise(name: str, reflected: bool) -> Callable[..., Any]:
    of_arrays = getattr(TracedArray, f"__{'r' if reflected else ''}{name}__")
    compute: Callable[..., Any] = getattr(operator, f"{name}_" if name in ("and", "or") else name)

    def apply(self: PythonBool, other: Any) -> Any:
        if type(other) is int or (isinstance(other, TracedArray) and other.weak and dtype_kind(other.dtype) == "i"):
            return compute(_as_number(self), other)
        return of_arrays(self, other)
    return apply


def _of_integer(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, *args: function(_as_number(self), *args)


def install_bools() -> None:
    """Give traced bools of Python's the operators of Python's bools."""
    members: dict[str, Callable[..., Any]] = {}
    for prefix in ("", "r"):
        for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "divmod", "lshift", "rshift", "matmul"):
            members[f"__{prefix}{name}__"] = _arithmetic(name, prefix == "r")
        for name in ("and", "or", "xor"):
            members[f"__{prefix}{name}__"] = _bitwise(name, prefix == "r")
    for name in ("neg", "pos", "abs", "invert"):
        members[f"__{name}__"] = _of_integer(getattr(operator, name))
    members |= {"__round__": _of_integer(round), "__index__": lambda self: int(bool(self))}
    for name, member in members.items():
        member.__name__ = name
        setattr(PythonBool, name, member)
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift", "matmul", "and", "or", "xor"):
        setattr(PythonBool, f"__i{name}__", members[f"__{name}__"])


# -- methods

def number_attribute(x: TracedArray, name: str) -> Any:
    """A method or attribute of the Python number, or of NumPy's scalar, that a traced scalar stands for; None if it has none of the name.
    What the methods of floats and integers give is a decision on the value; `is_integer` is computed."""
    kind: Any = x.__class__
    own = getattr(kind, name, None)
    if own is None or name.startswith("__") or (hasattr(np.ndarray, name) and not (x.weak and name == "to_bytes")):
        return None
    if name == "is_integer":
        return lambda: _is_integer(x)
    if not callable(own):       # `numerator` of an integer
        return (x if name in ("numerator", "real") else 1) if name in ("numerator", "denominator") else None
    if name.startswith("from") or issubclass(kind, complex):
        return own
    hint = f"compute it with NumPy's functions, or call {name} outside of the compiled function"

    def call(*args: Any, **kwargs: Any) -> Any:
        number = (x.without_derivative() if name == "hex" else x)._number(f"{name}()", hint)
        return getattr(kind(number), name)(*args, **kwargs)
    return call


FUNCTIONS["number attribute"] = number_attribute


def _is_integer(x: TracedArray) -> Any:
    if not is_inexact(x.dtype):
        return True
    return truth_value(wrap((find(np.isfinite)(x) & (find(np.floor)(x) == x)).value, weak=True))
