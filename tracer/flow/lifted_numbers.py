"""Python numbers that became part of the state: counters, flags and step sizes that decisions change.

A lifted number is a traced scalar in the place of a Python number. It computes as Python does, or raises `NotLiftable`: whoever traces
then leaves the variable as it was. Integers are int64 in the program and never wrap around. At each point a lifted integer is within
2 ** 53: it begins within 2 ** 52, and a block adds at most `MAX_DRIFT` to it, which no run is long enough to sum up to as much again, or
a check of the program says that it is within 2 ** 52. Where a product could be too large, a check says that its factors are not.
"""

from __future__ import annotations

import math
import sys
import weakref
from collections import Counter, deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.builder import GraphBuilder
from adjit.ir.emitter import emitting
from adjit.ir.errors import TraceError
from adjit.ir.graph import Value
from adjit.ir.types import BOOL, F64, I64, LARGEST_INTEGER, dtype_kind
from adjit.tracer.array import FRESH, ORDINARY, PLAIN, PythonBool, TracedArray, wrap
from adjit.tracer.flow.flow_graph import Source
from adjit.tracer.flow.printed_texts import READ, mark_of_text, number_for_percent
from adjit.tracer.fresh_array import depth_of, root_of, written
from adjit.tracer.scope import Scope, active_scope, is_within_batch
from adjit.tracer.user_location import find_user_location, is_ours
from adjit.tracer.value_guards import UnknownValueError

WITHIN = 1 << 53        # bound of lifted integers at a point: up to it, they are exact as floats
_FACTOR = 1 << 30
_LARGEST = 1 << 62

MAX_DRIFT = 256
"""Most that the integers which are added to a lifted integer from one point to the next sum up to, without a check."""


class NotLiftable(BaseException):
    """Raised where a lifted number would have to be a Python number; `sources` are the variables that it comes from. The functions that
    are traced do not catch it, as they might an `Exception`; where they do, `check_escaped` raises it again."""

    def __init__(self, sources: frozenset[Source]):
        super().__init__(sources)
        self.sources = sources
        scope = active_scope()
        if scope is not None:
            scope.root.not_liftable |= sources


class LiftedNumber(TracedArray):
    """Traced scalar in the place of a Python number. Of integers `bound` is the largest absolute value, and `drift` how much was added
    since the last point; None if it is no such sum."""

    __slots__ = ("bound", "drift", "sources")
    scalar = True
    kind: type = float

    def __init__(self, value: Value, scope: Scope, sources: frozenset[Source], bound: int = 0, drift: int | None = None):
        super().__init__(value, scope, weak=self.kind is not bool)
        self.sources, self.bound, self.drift = sources, bound, drift
        scope.root.lifted.append(weakref.ref(self))

    def maker(self) -> Callable[[Value, Scope], LiftedNumber]:
        """What makes such a number of another value, in another scope."""
        return partial(type(self), sources=self.sources, bound=self.bound)

    def is_python(self) -> bool:
        """True if the number is one of Python's in this call, as all but those are that may be NumPy's."""
        return True

    @property
    def is_read(self) -> bool:
        """True if the function reads the number of an array itself: what it prints is of the call."""
        return any(source[0] == READ for source in self.sources)

    @property
    def is_of_call(self) -> bool:
        """True if the number comes from a number that is another one in each call, and not from a loop alone."""
        return any(source[0] in (READ, STATE, ARGUMENT) for source in self.sources)

    def arrive(self) -> bool:
        """Begin anew at a point; returns whether the program has to check that the number is within 2 ** 52."""
        checked = self.kind is int and self.bound > LARGEST_INTEGER and (self.drift is None or self.drift > MAX_DRIFT)
        if self.kind is int:
            self.bound, self.drift = WITHIN, 0
        return checked

    def is_begin(self) -> Value:
        """Value for: the integer is within 2 ** 52."""
        return _is_within(self.value, LARGEST_INTEGER)

    def _refused(self, *_: Any, **__: Any) -> Any:
        raise NotLiftable(self.sources)

    def _known(self, kind: str, what: str, hint: str) -> Any:
        """The truth value; as any other number the variable is no part of the state."""
        return super()._known(kind, what, hint) if kind == "bool" and self.kind is bool else self._refused()

    def __bool__(self) -> bool:
        return super().__bool__() if self.kind is bool else bool(_compare("ne", self, 0))

    def mark_to_print(self, form: str | None) -> str | None:
        return mark_of_text(self, form)

    def shown(self, printed: bool, kind: str) -> str | None:
        """The number of the call that is traced; None where a program may print it for a later one, or it is read of an array."""
        values, active = self.scope.root.values, active_scope()
        if printed or self.is_read or values is None or active is None or not isinstance(active.builder, GraphBuilder):
            return None
        try:
            return str(self.kind(values.array(self.value, active.builder).item()))
        except UnknownValueError:
            return None

    def __hash__(self) -> int:
        return self._refused()      # type: ignore[no-any-return]

    def __index__(self) -> int:
        """The integer for this call, which the program checks, if it is made of arguments alone: `x[step % 10 * 32:]`."""
        if self.kind is not int or not _is_made_of(self, ARGUMENT):
            return self._refused()      # type: ignore[no-any-return]
        return super()._known("int", "an index", "")        # type: ignore[no-any-return]

    def __int__(self) -> int:
        shown = number_for_percent(self)
        return self.__index__() if shown is None else shown

    def __float__(self) -> float:
        shown = number_for_percent(self)
        return self._refused() if shown is None else float(shown)       # type: ignore[no-any-return]

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        self._check_partners(inputs)
        return super().__array_ufunc__(ufunc, method, *inputs, **kwargs)

    def check_fits(self, dtype: np.dtype) -> None:
        if self.kind is int and _is_small_integer(dtype):
            self._refused()

    def _check_partners(self, inputs: tuple[Any, ...]) -> None:
        """Refuse to compute with integers of other sizes, which Python integers may not fit into."""
        if self.kind is int and any(_is_small_integer(getattr(x, "dtype", None)) for x in inputs if x is not self):
            self._refused()


def _is_small_integer(dtype: Any) -> bool:
    return isinstance(dtype, np.dtype) and dtype.kind in "iu" and dtype != I64


class _LiftedInt(LiftedNumber):
    __slots__ = ()
    __class__ = int     # type: ignore[assignment]
    kind = int


class _LiftedFloat(LiftedNumber):
    __slots__ = ()
    __class__ = float       # type: ignore[assignment]
    kind = float


class _LiftedBool(LiftedNumber):
    __slots__ = ()
    __class__ = bool        # type: ignore[assignment]
    kind = bool


_CLASSES: dict[type, type[LiftedNumber]] = {int: _LiftedInt, float: _LiftedFloat, bool: _LiftedBool}
ORDINARY.update(_CLASSES.values())
PLAIN.update(_CLASSES.values())

_DTYPES = {int: I64, float: F64, bool: BOOL}


def is_liftable(number: Any) -> bool:
    """True for a Python number that can be part of the state."""
    return type(number) in (float, bool) or (type(number) is int and abs(number) <= LARGEST_INTEGER)


def lift(number: Any, source: Source, scope: Scope) -> LiftedNumber:
    """Make the lifted number for a Python number; to the decisions it is a value that varies."""
    kind, values = type(number), scope.root.values
    assert values is not None
    with emitting(scope.builder):
        value = ops.constant(value=number, dtype=_DTYPES[kind], shape=())
    values.vary(value)
    return _CLASSES[kind](value, scope, frozenset((source,)), abs(number) if kind is int else 0)


def copied(array: TracedArray) -> TracedArray | None:
    """Make a traced array that owns its content and is told apart from this one, which does, too; None for a complex one, of which no
    product is a copy."""
    kind = dtype_kind(array.dtype)
    if kind not in "biuf":
        return None
    with emitting(array.scope.builder):
        neutral = ops.constant(value={"f": 1.0, "b": False}.get(kind, 0), dtype=array.dtype, shape=array.value.type.shape)
        copy = {"f": ops.multiply, "b": ops.logical_or}.get(kind, ops.add)(array.value, neutral)
    if isinstance(array, LiftedNumber):
        return type(array)(copy, array.scope, array.sources, array.bound, array.drift)
    made = type(array)(copy, array.scope, array.weak, array.writable, strides=array._steps)
    made.layout_known = array.layout_known
    return made


def lift_content(array: np.ndarray, scope: Scope) -> TracedArray | None:
    """Make the traced array that an array of the function stands for from here on, as if a traced number were written to it; to the
    decisions it is a value that varies. None for an array from around the region that is traced, and for what cannot stand for one."""
    values, root = scope.root.values, root_of(array)
    assert values is not None
    if FRESH[type(array)] != depth_of(scope) or not root.flags.writeable or root.dtype != array.dtype or array.dtype.kind not in "biufc":
        return None
    held: TracedArray = written(array)
    values.vary((held if held.alias is None else held.alias.owner).value)
    return held


UNLIKE: set[type] = set()
"""Classes of lifted numbers that have operators of their own, also where the other operand is a lifted number."""

STATE = "state"
"""First part of the sources of numbers that outlive a call, in attributes and variables from outside."""

ARGUMENT = "argument"
"""First part of the sources of integers that are passed as arguments."""


def lifted_input(value: Value, scope: Scope, source: Source, kind: type) -> LiftedNumber:
    """Make the lifted number of a bool, or of an integer within 2 ** 52, that is an input of the program."""
    return _CLASSES[kind](value, scope, frozenset((source,)), LARGEST_INTEGER)


def lifted_float(value: Value, scope: Scope, sources: frozenset[Source]) -> LiftedNumber:
    """Make the lifted number of a float."""
    return _LiftedFloat(value, scope, sources)


def read_number(array: TracedArray) -> Any:
    """The only element of an array as a Python number: a lifted one, where the program may compute with it, else that of the call.

    The program returns and stores it, so that calls with other numbers need no program of their own; no derivative goes through it. Of
    integers it checks that they are within 2 ** 52.
    """
    scope, kind = active_scope(), {"f": float, "i": int, "u": int}.get(array.dtype.kind)
    values, known = (None, None) if scope is None else (scope.root.values, scope.root.known_arrays)
    if (kind is None or scope is None or scope.parent is not None or not scope.open or values is None or known is None
            or not isinstance(builder := scope.builder, GraphBuilder) or known.needed is None or not values.varies(array.value, builder)
            or (kind is float and values.is_differentiated(array.value, builder))):
        return array.item()
    source = READ, str(find_user_location())
    if source in known.needed:
        return array.item()
    known.read = True
    with emitting(builder):
        value = ops.stop_gradient(ops.reshape(array.value, shape=()) if array.shape else array.value)
        value = ops.convert(value, dtype=_DTYPES[kind])
        number = _CLASSES[kind](value, scope, frozenset((source,)), LARGEST_INTEGER)
        if kind is int:
            check(number.is_begin(), number)
    return number


def is_read_number(x: Any) -> bool:
    """True for a number that the function read of an array, or computed of such."""
    return type(x) in _CLASSES.values() and x.is_read     # type: ignore[no-any-return]


def as_float(number: LiftedNumber) -> LiftedNumber:
    """What `float()` makes of a number."""
    if number.kind is float:
        return number
    with emitting(scope_of(number).builder):
        return _made(float_of(number, number), float, number)


def as_integer(number: LiftedNumber) -> LiftedNumber:
    """What `int()` makes of a number. Of a float the program checks that it is finite, and the integer within 2 ** 52."""
    with emitting(scope_of(number).builder):
        if number.kind is not float:
            value, bound = _integer(number)
            return _made(value, int, number, bound=bound)
        return _whole(ops.trunc(number.value), number)


def _whole(value: Value, number: LiftedNumber) -> LiftedNumber:
    """The integer that a whole float is."""
    _check_size(value, number)
    return _made(ops.convert(value, dtype=I64), int, number, bound=LARGEST_INTEGER)


def _check_size(value: Value, number: LiftedNumber) -> None:
    most = ops.constant(value=float(LARGEST_INTEGER), dtype=F64, shape=())
    check(ops.less(ops.abs(value), most), number)


def python_kind(number: TracedArray) -> type:
    """Class of the number that a traced scalar stands for."""
    if isinstance(number, LiftedNumber):
        return number.kind
    plain = {"b": bool, "i": int, "f": float, "c": complex}
    return plain.get(number.dtype.kind, number.dtype.type) if number.weak else number.dtype.type


def lifted_integer(value: Value, scope: Scope, sources: frozenset[Source], bound: int) -> LiftedNumber:
    """Make the lifted number of an integer that is known to be within a bound."""
    return _LiftedInt(value, scope, sources, bound)


def check_escaped(scope: Scope, leaves: Sequence[Any]) -> None:
    """Raise `NotLiftable` if a lifted number of a variable lives on behind a trace, but for these leaves of its result: where the function
    stored a Python number, there has to be one; or if the function caught the exception. Leaves that may be Python's or NumPy's are known
    to be one or the other from here on."""
    deque((leaf.is_python() for leaf in leaves if isinstance(leaf, LiftedNumber)), maxlen=0)       # no variable holds the last one
    if scope.root.not_liftable:
        raise NotLiftable(frozenset(scope.root.not_liftable))
    counts, escaped = Counter(map(id, leaves)), []
    for reference in scope.lifted:
        number = reference()
        held = 2 * counts[id(number)]       # by `leaves`, and by the result
        if number is not None and sys.getrefcount(number) > held + 2 and not _is_made_of(number, STATE, ARGUMENT, READ):
            escaped.append(number)
    if escaped:
        raise NotLiftable(sources_of(*escaped))


# -- what Python computes with numbers

def is_number(x: Any) -> bool:
    return isinstance(x, LiftedNumber) or type(x) in (int, float, bool)


def sources_of(*numbers: Any) -> frozenset[Source]:
    return frozenset().union(*(x.sources for x in numbers if isinstance(x, LiftedNumber)))


def _kind(x: Any) -> type:
    kind: type = x.kind if isinstance(x, LiftedNumber) else type(x)
    return kind


def _made(value: Value, kind: type, *operands: Any, bound: int = 0, drift: int | None = None) -> LiftedNumber:
    return _CLASSES[kind](value, scope_of(*operands), sources_of(*operands), bound, drift)


def scope_of(*operands: Any) -> Scope:
    """The scope in which numbers are computed with. What is computed of state alone belongs to the scope of that, as it outlives a region:
    `self.calls += 1` in a function that is differentiated."""
    scope = active_scope()
    assert scope is not None
    numbers = [number for number in operands if isinstance(number, LiftedNumber)]
    if not numbers or not all(_is_made_of(number, STATE) for number in numbers):
        return scope
    within = {id(number.scope) for number in numbers}
    while id(scope) not in within and scope.parent is not None:
        scope = scope.parent
    return scope


def _is_made_of(number: LiftedNumber, *kinds: str) -> bool:
    """True if a number comes from such sources alone, not from variables of the function."""
    return all(source[0] in kinds for source in number.sources)


def check(condition: Value, *operands: Any) -> None:
    """Have the program check a condition, which holds for this call."""
    scope = active_scope()
    if scope is None or not (_is_known(condition, scope) if scope.flow is None else scope.flow.check(condition)):
        raise NotLiftable(sources_of(*operands))


def _is_known(condition: Value, scope: Scope) -> bool:
    """True if a condition holds for this call, where nobody records the ways: the program checks it."""
    try:
        return scope.root.values is not None and not is_within_batch() and bool(wrap(condition))
    except (TraceError, UnknownValueError):
        return False


def _is_within(value: Value, bound: int) -> Value:
    most = ops.constant(value=bound, dtype=I64, shape=())
    return ops.logical_and(ops.less_equal(value, most), ops.greater_equal(value, ops.negative(most)))


def _integer(x: Any) -> tuple[Value, int]:
    """Value and bound of an integer or truth value."""
    if not isinstance(x, LiftedNumber):
        return ops.constant(value=int(x), dtype=I64, shape=()), abs(int(x))
    return (ops.convert(x.value, dtype=I64), 1) if x.kind is bool else (x.value, x.bound)


def float_of(x: Any, *operands: Any) -> Value:
    if _kind(x) is float:
        return x.value if isinstance(x, LiftedNumber) else ops.constant(value=x, dtype=F64, shape=())
    value, bound = _integer(x)
    if not isinstance(x, LiftedNumber):
        if bound > WITHIN:
            raise NotLiftable(sources_of(*operands))
        return ops.constant(value=float(x), dtype=F64, shape=())
    if bound > WITHIN:
        check(_is_within(value, WITHIN), *operands)
    return ops.convert(value, dtype=F64)


def _check_divisor(b: Any, value: Value, *operands: Any) -> None:
    """Have the program stop where Python would raise a `ZeroDivisionError`."""
    if isinstance(b, LiftedNumber):
        zero = ops.constant(value=0.0 if value.type.dtype == F64 else 0, dtype=value.type.dtype, shape=())
        check(ops.not_equal(value, zero), *operands)
    elif b == 0:
        raise NotLiftable(sources_of(*operands))


_SUMS = {"add": ops.add, "sub": ops.subtract}


def _sum_or_product(name: str, a: Any, b: Any) -> Any:
    if float in (_kind(a), _kind(b)):
        op = _SUMS.get(name, ops.multiply)
        return _made(op(float_of(a, a, b), float_of(b, a, b)), float, a, b)
    (x, most), (y, other) = _integer(a), _integer(b)
    if name == "mul":
        if most * other > _LARGEST:
            for number, value, bound in ((a, x, most), (b, y, other)):
                if bound > _FACTOR:
                    if not isinstance(number, LiftedNumber):
                        raise NotLiftable(sources_of(a, b))
                    check(_is_within(value, _FACTOR), a, b)
            most, other = min(most, _FACTOR), min(other, _FACTOR)
        return _made(ops.multiply(x, y), int, a, b, bound=most * other)
    if most + other > _LARGEST:
        raise NotLiftable(sources_of(a, b))
    drift = None
    if isinstance(a, _LiftedInt) and not isinstance(b, _LiftedInt):
        drift = None if a.drift is None else a.drift + other
    elif isinstance(b, _LiftedInt) and not isinstance(a, _LiftedInt) and name == "add":
        drift = None if b.drift is None else b.drift + most
    return _made(_SUMS[name](x, y), int, a, b, bound=most + other, drift=drift)


def _quotient(name: str, a: Any, b: Any) -> Any:
    if name == "truediv":
        x, y = float_of(a, a, b), float_of(b, a, b)
        _check_divisor(b, y, a, b)
        return _made(ops.divide(x, y), float, a, b)
    if float in (_kind(a), _kind(b)):
        raise NotLiftable(sources_of(a, b))
    (x, most), (y, other) = _integer(a), _integer(b)
    _check_divisor(b, y, a, b)
    if name == "floordiv":
        return _made(ops.floor_divide(x, y), int, a, b, bound=most + 1)
    return _made(ops.remainder(x, y), int, a, b, bound=other)


def _power(_: str, a: Any, b: Any) -> Any:
    if type(a) is float and 0 < a < math.inf and _kind(b) is int:
        result = ops.power(float_of(a), float_of(b, a, b))
        check(ops.less_equal(result, ops.constant(value=sys.float_info.max, dtype=F64, shape=())), a, b)   # else an `OverflowError`
        return _made(result, float, a, b)
    if isinstance(a, LiftedNumber) and a.kind is float and type(b) in (int, float) and abs(b) <= WITHIN:
        return _power_of_float(a, float(b))
    if type(b) is not int or _kind(a) is not int or not 1 <= b <= 3:
        raise NotLiftable(sources_of(a, b))
    result = a
    for _time in range(b - 1):
        result = _sum_or_product("mul", result, a)
    return result


def _power_of_float(a: LiftedNumber, exponent: float) -> LiftedNumber:
    """A float to a power known to Python, which raises `OverflowError`, `ZeroDivisionError`, or gives a complex number: there the program
    stops."""
    x, largest = a.value, ops.constant(value=sys.float_info.max, dtype=F64, shape=())
    if not exponent.is_integer():
        zero = ops.constant(value=0.0, dtype=F64, shape=())
        check(ops.logical_not(ops.less(x, zero)), a)
    if exponent < 0:
        _check_divisor(a, x, a)
    result = ops.multiply(x, x) if exponent == 2 else ops.power(x, ops.constant(value=exponent, dtype=F64, shape=()))
    check(ops.logical_not(ops.logical_and(ops.greater(ops.abs(result), largest), ops.less_equal(ops.abs(x), largest))), a)
    return _made(result, float, a)


def _bits(name: str, a: Any, b: Any) -> Any:
    op = {"and": ops.logical_and, "or": ops.logical_or, "xor": ops.not_equal}[name]
    if _kind(a) is not bool or _kind(b) is not bool:
        raise NotLiftable(sources_of(a, b))
    x, y = (number.value if isinstance(number, LiftedNumber) else ops.constant(value=number, dtype=BOOL, shape=()) for number in (a, b))
    return _made(op(x, y), bool, a, b)


COMPARISONS = {"eq": ops.equal, "ne": ops.not_equal, "lt": ops.less, "le": ops.less_equal, "gt": ops.greater, "ge": ops.greater_equal}


def _compare(name: str, a: Any, b: Any) -> Any:
    if float in (_kind(a), _kind(b)):
        x, y = float_of(a, a, b), float_of(b, a, b)
    else:
        (x, _), (y, bound) = _integer(a), _integer(b)
        if bound > _LARGEST:
            raise NotLiftable(sources_of(a, b))
    return _made(COMPARISONS[name](x, y), bool, a, b)


def _absolute(a: LiftedNumber) -> LiftedNumber:
    if a.kind is float:
        return _made(ops.abs(a.value), float, a)
    value, bound = _integer(a)
    return _made(ops.abs(value), int, a, bound=bound)


def _negative(a: LiftedNumber) -> LiftedNumber:
    if a.kind is float:
        return _made(ops.negative(a.value), float, a)
    value, bound = _integer(a)
    return _made(ops.negative(value), int, a, bound=bound)


def _positive(a: LiftedNumber) -> LiftedNumber:
    if a.kind is not bool:
        return a
    value, bound = _integer(a)
    return _made(value, int, a, bound=bound)


_SPLIT = float((1 << 27) + 1)
_MOST_DIGITS = 22       # powers of ten up to this one are floats


def _rounded(a: LiftedNumber, digits: int) -> LiftedNumber:
    """The float next to the decimal number of so many digits that is next to a float, as Python's `round` gives it.

    The scaled number rounds to a half where it is next to one: the error of its product, which Dekker's method gives, says on which side it
    is. A whole number of at most 2 ** 52, divided by a power of ten that is a float, is the float next to the decimal number.
    """
    def constant(value: float) -> Value:
        return ops.constant(value=value, dtype=F64, shape=())

    size, scale = ops.abs(a.value), float(10 ** digits)
    scaled = ops.multiply(size, constant(scale))
    _check_size(scaled, a)
    (x, x_rest), (y, y_rest) = _halves(size, constant(_SPLIT)), map(constant, _halves_of(scale))
    error = ops.add(ops.add(ops.subtract(ops.multiply(x, y), scaled), ops.multiply(x, y_rest)), ops.multiply(x_rest, y))
    error = ops.add(error, ops.multiply(x_rest, y_rest))
    whole, zero = ops.floor(scaled), constant(0.0)
    rest, half = ops.subtract(scaled, whole), constant(0.5)
    odd = ops.not_equal(ops.remainder(whole, constant(2.0)), zero)
    above = ops.logical_or(ops.greater(error, zero), ops.logical_and(ops.equal(error, zero), odd))
    up = ops.logical_or(ops.greater(rest, half), ops.logical_and(ops.equal(rest, half), above))
    nearest = ops.divide(ops.add(whole, ops.convert(up, dtype=F64)), constant(scale))
    signed = ops.select(ops.less(a.value, zero), ops.negative(nearest), nearest)
    return _made(ops.select(ops.equal(nearest, zero), ops.multiply(a.value, zero), signed), float, a)      # -0.0 of -0.0001


def _halves(x: Value, factor: Value) -> tuple[Value, Value]:
    """A float as the sum of two of 26 bits, whose products are exact."""
    large = ops.multiply(x, factor)
    first = ops.subtract(large, ops.subtract(large, x))
    return first, ops.subtract(x, first)


def _halves_of(x: float) -> tuple[float, float]:
    large = x * _SPLIT
    first = large - (large - x)
    return first, x - first


def _round(self: LiftedNumber, digits: Any = None) -> LiftedNumber:
    if self.kind is not float:
        return as_integer(self) if digits is None or (type(digits) is int and digits >= 0) else self._refused()   # type: ignore[no-any-return]
    if digits is not None and not (type(digits) is int and 0 <= digits <= _MOST_DIGITS):
        self._refused()
    with emitting(scope_of(self).builder):
        return _whole(ops.rint(self.value), self) if digits is None else _rounded(self, digits)


BINARY: dict[str, Callable[[str, Any, Any], Any]] = {
    **dict.fromkeys(("add", "sub", "mul"), _sum_or_product), **dict.fromkeys(("truediv", "floordiv", "mod"), _quotient),
    "pow": _power, **dict.fromkeys(("and", "or", "xor"), _bits)}
REFUSED = ("lshift", "rshift", "matmul", "divmod")


def _operator(name: str, compute: Callable[[str, Any, Any], Any], reflected: bool, own: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def apply(self: LiftedNumber, other: Any, *modulus: Any) -> Any:
        if modulus or isinstance(other, (list, tuple, str)):
            self._refused()
        if type(other) in UNLIKE:
            return NotImplemented       # its class decides on that of the result
        if not is_number(other):
            self._check_partners((other,))
            if self.kind is bool and isinstance(other, TracedArray) and other.weak:
                if name not in ("and", "or", "xor") or not isinstance(other, PythonBool):
                    self._refused()
                return wrap(own(self, other).value, weak=True)
            return own(self, other)
        with emitting(scope_of(self, other).builder):
            return compute(name, *((other, self) if reflected else (self, other)))
    return apply


def _one(compute: Callable[[LiftedNumber], LiftedNumber]) -> Callable[[LiftedNumber], LiftedNumber]:
    def apply(self: LiftedNumber) -> LiftedNumber:
        with emitting(scope_of(self).builder):
            return compute(self)
    return apply


def _attribute(name: str) -> property:
    """Attribute of arrays and of NumPy's numbers: Python's have none of the name, or another one, so users' code gets none."""
    own = getattr(TracedArray, name)

    def read(self: LiftedNumber) -> Any:
        if not is_ours(sys._getframe(1).f_globals.get("__name__", "")):
            self._refused()
        return own.__get__(self, type(self))
    return property(read)


def _install() -> None:
    """Give lifted numbers the operators of Python's numbers."""
    for name in dir(np.float64):
        if not name.startswith("_") and hasattr(TracedArray, name):
            setattr(LiftedNumber, name, _attribute(name))
    for name, compute in BINARY.items():
        for prefix in ("", "r", "i"):
            own = getattr(TracedArray, f"__{prefix}{name}__")
            setattr(LiftedNumber, f"__{prefix}{name}__", _operator(name, compute, prefix == "r", own))
    for name in COMPARISONS:
        setattr(LiftedNumber, f"__{name}__", _operator(name, _compare, False, getattr(TracedArray, f"__{name}__")))
    for name in REFUSED:
        for prefix in ("", "r", *(("i",) if name != "divmod" else ())):
            setattr(LiftedNumber, f"__{prefix}{name}__", LiftedNumber._refused)
    for name in ("__getitem__", "__len__", "__iter__", "__invert__", "__floor__", "__ceil__", "__trunc__", "__complex__"):
        setattr(LiftedNumber, name, LiftedNumber._refused)
    LiftedNumber.__round__ = _round     # type: ignore[attr-defined]
    LiftedNumber.__neg__, LiftedNumber.__pos__, LiftedNumber.__abs__ = _one(_negative), _one(_positive), _one(_absolute)    # type: ignore


_install()
