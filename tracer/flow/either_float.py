"""Floats of which ways differ in the class: Python's on one way, NumPy's on another (`energy = -72.0`, `if accepted: energy += change`).

Such a number is one traced scalar, with a traced flag that says whether it is NumPy's. What Python's float and `np.float64` do alike is
computed; where they differ, in promotion beside float32, as a text, in a power, by their attributes, `NotLiftable` is raised, and the
variable stays as it was. Whoever asks for `weak`, which promotion does, asks for the difference. The program checks that no divisor is
0, which Python refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.builder import GraphBuilder
from adjit.ir.emitter import emitting
from adjit.ir.errors import TraceError
from adjit.ir.graph import Value
from adjit.ir.types import BOOL, C128, F64
from adjit.tracer.array import TracedArray, traced_array
from adjit.tracer.direct import STACKED
from adjit.tracer.flow import lifted_numbers
from adjit.tracer.flow.flow_graph import Source
from adjit.tracer.flow.lifted_numbers import LiftedNumber, NotLiftable
from adjit.tracer.registry import FUNCTIONS
from adjit.tracer.scope import Scope
from adjit.tracer.user_location import find_user_location
from adjit.tracer.value_guards import UnknownValueError


class _Either(LiftedNumber):
    """Number or truth value of one class or the other: nobody gets to know whether it is weak."""

    __slots__ = ()

    @property
    def weak(self) -> bool:     # type: ignore[override]
        return self._refused()      # type: ignore[no-any-return]

    @weak.setter
    def weak(self, weak: bool) -> None:
        pass

    def is_python(self) -> bool:
        return self._refused()      # type: ignore[no-any-return]

    def __round__(self, digits: Any = None) -> Any:
        self._refused()

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        self._refused()     # `np.real(x)` has the class of `x`

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        self._refused()


class EitherFloat(_Either):
    """Traced scalar that is a float of Python's, or of NumPy's where the traced bool `numpys` holds."""

    __slots__ = ("_is_python", "numpys")
    __class__ = float       # type: ignore[assignment]
    kind = float

    def __init__(self, value: Value, scope: Scope, sources: frozenset[Source], numpys: Value):
        super().__init__(value, scope, sources)
        self.numpys = traced_array(numpys, scope)
        self._is_python: bool | None = None

    def maker(self) -> Callable[[Value, Scope], LiftedNumber]:
        return partial(lifted_numbers.lifted_float, sources=self.sources)       # what is not NumPy's

    def copied(self) -> EitherFloat:
        """A number that is told apart from this one."""
        return _made(ops.multiply(self.value, ops.constant(value=1.0, dtype=F64, shape=())), self)

    def is_python(self) -> bool:
        """True if the number is Python's in this call; the program is for one or the other from here on."""
        values, builder = self.scope.root.values, self.scope.builder
        if self._is_python is None and values is not None and isinstance(builder, GraphBuilder):
            with suppress(TraceError, UnknownValueError):
                self._is_python = not values.answer(
                    self.numpys.value, builder, "bool", find_user_location(), True, ("class", self.sources))
        return self._refused() if self._is_python is None else self._is_python      # type: ignore[no-any-return]

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        others = [x for x in inputs if not isinstance(x, EitherFloat)]
        if method != "__call__" or kwargs or not all(type(x) in (int, float, bool) or _has_own_dtype(x) for x in others):
            self._refused()
        return ufunc(*(_as_numpys(x) if isinstance(x, EitherFloat) else x for x in inputs))


STACKED.add(EitherFloat)
lifted_numbers.UNLIKE.add(EitherFloat)


class _EitherBool(_Either):
    """What such a number compares to: Python decides on it, all else is refused."""

    __slots__ = ()
    __class__ = bool        # type: ignore[assignment]
    kind = bool


def either(number: Any, source: Source, scope: Scope) -> EitherFloat | None:
    """Make the number that takes the place of a float of Python's or NumPy's; None for one from around the region that is traced."""
    values = scope.root.values
    assert values is not None
    if type(number) is not float and number.scope is not scope:
        return None
    with emitting(scope.builder):
        value = ops.constant(value=number, dtype=F64, shape=()) if type(number) is float else ops.multiply(
            number.value, ops.constant(value=1.0, dtype=F64, shape=()))
        numpys = ops.constant(value=not is_pythons(number), dtype=BOOL, shape=())
    for each in (value, numpys):
        values.vary(each)
    sources = number.sources if isinstance(number, LiftedNumber) else frozenset[Source]()
    return EitherFloat(value, scope, sources | {source}, numpys)


def is_float_of_either(number: Any) -> bool:
    """True for a float of Python's, and for a traced scalar that is one, or `np.float64`, but not for one that may be either."""
    if type(number) is float:
        return True
    return issubclass(type(number), TracedArray) and not isinstance(number, _Either) and number.scalar and not number.shape \
        and number.alias is None and number.dtype == F64 and number.immutable


def is_pythons(number: Any) -> bool:
    """True if such a number is Python's."""
    return type(number) is float or bool(number.weak)


def _as_numpys(number: EitherFloat) -> TracedArray:
    return traced_array(number.value, number.scope)


def _has_own_dtype(x: Any) -> bool:
    """True for an array or a scalar of NumPy's with which both classes promote alike."""
    if isinstance(x, LiftedNumber) or (issubclass(type(x), TracedArray) and x.weak):
        return False
    dtype = x.dtype if issubclass(type(x), (TracedArray, np.ndarray, np.generic)) else None
    return dtype is not None and (dtype in (F64, C128) or dtype.kind in "biu")


def settled(inputs: Sequence[Any]) -> Sequence[Any]:
    """Inputs of an operator, with NumPy's numbers where all others have dtypes of their own: then the result is the same."""
    if not any(type(x) is EitherFloat for x in inputs) or not all(type(x) is EitherFloat or _has_own_dtype(x) for x in inputs):
        return inputs
    return tuple(_as_numpys(x) if type(x) is EitherFloat else x for x in inputs)


FUNCTIONS["settled"] = settled


def chosen(is_first: TracedArray, first: TracedArray, second: TracedArray) -> Any:
    """One number or the other, with its class; `NotImplemented` where none of them may have either."""
    if not isinstance(first, EitherFloat) and not isinstance(second, EitherFloat):
        return NotImplemented
    if first.dtype != F64 or second.dtype != F64:
        raise NotLiftable(lifted_numbers.sources_of(first, second))
    with emitting(lifted_numbers.scope_of(first, second).builder):
        value, flag = (ops.select(is_first.value, a, b) for a, b in (
            (first.value, second.value), (_flag(first), _flag(second))))
        return EitherFloat(value, lifted_numbers.scope_of(first, second), lifted_numbers.sources_of(first, second), flag)


FUNCTIONS["chosen"] = chosen


def _flag(x: TracedArray) -> Value:
    return x.numpys.value if isinstance(x, EitherFloat) else ops.constant(value=not is_pythons(x), dtype=BOOL, shape=())


def _made(value: Value, *operands: Any) -> EitherFloat:
    """Number that is NumPy's if one of the operands is."""
    flag = ops.constant(value=False, dtype=BOOL, shape=())
    for x in operands:
        if isinstance(x, EitherFloat):
            flag = ops.logical_or(flag, x.numpys.value)
    return EitherFloat(value, lifted_numbers.scope_of(*operands), lifted_numbers.sources_of(*operands), flag)


def _is_pythons_number(x: Any) -> bool:
    """True for a number of Python's that is a float, or converted to one alike by Python and NumPy."""
    return lifted_numbers.is_number(x) or (is_float_of_either(x) and is_pythons(x))


def _float(x: Any, *operands: Any) -> Value:
    return x.value if issubclass(type(x), TracedArray) and x.dtype == F64 else lifted_numbers.float_of(x, *operands)


def _operator(name: str, prefix: str, compute: Callable[[Value, Value], Value]) -> Callable[..., Any]:
    own = getattr(TracedArray, f"__{prefix}{name}__")

    def apply(self: EitherFloat, other: Any) -> Any:
        if not _is_pythons_number(other):
            return own(_as_numpys(self), other) if _has_own_dtype(other) else self._refused()
        a, b = (other, self) if prefix == "r" else (self, other)
        with emitting(lifted_numbers.scope_of(a, b).builder):
            x, y = _float(a, a, b), _float(b, a, b)
            if name == "truediv":
                zero = ops.constant(value=0.0, dtype=F64, shape=())
                lifted_numbers.check(ops.not_equal(y, zero), a, b)
            return _made(compute(x, y), a, b)
    return apply


def _comparison(name: str, compute: Callable[[Value, Value], Value]) -> Callable[..., Any]:
    own = getattr(TracedArray, f"__{name}__")

    def apply(self: EitherFloat, other: Any) -> Any:
        if not _is_pythons_number(other):
            return own(_as_numpys(self), other) if _has_own_dtype(other) else self._refused()
        with emitting(lifted_numbers.scope_of(self, other).builder):
            return _EitherBool(compute(self.value, _float(other, self, other)), lifted_numbers.scope_of(self, other),
                               lifted_numbers.sources_of(self, other))
    return apply


def _one(compute: Callable[[Value], Value]) -> Callable[[EitherFloat], EitherFloat]:
    def apply(self: EitherFloat) -> EitherFloat:
        with emitting(lifted_numbers.scope_of(self).builder):
            return _made(compute(self.value), self)
    return apply


def _install() -> None:
    """Give the numbers the operators of floats, or what refuses them."""
    refused: Any = _Either._refused
    for prefix in ("", "r", "i"):
        for name in (*lifted_numbers.BINARY, *lifted_numbers.REFUSED):
            if prefix != "i" or name != "divmod":
                setattr(_Either, f"__{prefix}{name}__", refused)
        for name, compute in {"add": ops.add, "sub": ops.subtract, "mul": ops.multiply, "truediv": ops.divide}.items():
            setattr(EitherFloat, f"__{prefix}{name}__", _operator(name, prefix, compute))
    for name, compare in lifted_numbers.COMPARISONS.items():
        setattr(EitherFloat, f"__{name}__", _comparison(name, compare))
        setattr(_Either, f"__{name}__", refused)
    for name in ("neg", "pos", "abs", "format", "str", "repr"):
        setattr(_Either, f"__{name}__", refused)
    for name, apply in (("neg", _one(ops.negative)), ("abs", _one(ops.abs)), ("pos", lambda self: self)):
        setattr(EitherFloat, f"__{name}__", apply)


_install()
