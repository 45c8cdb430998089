"""Number of rows as Python sees it while a function is traced for any number of rows.

`x.shape[0]` and `len(x)` are a `RowCount` in such a trace: an integer that remembers how it depends on the number of rows n. It may go
where arrays are made and reshaped, and into arithmetic, of Python and with arrays: what comes of it shows in the graph, which is compared
to those for other n. Where Python itself needs the number, in a comparison, as a key, in a text, the function may do something else for
another n, and nothing would show it: this is noted, and the function has a program for each number of rows.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from adjit.ir.errors import Location
from adjit.ir.row_number import DIVIDE, OF_ONE_FLOAT, Expression, bounds, combined, line_of, rows_times
from adjit.ir.thread_context import thread
from adjit.tracer.user_location import find_user_location, is_ours

NO_ROWS = 1 << 62
"""Number of rows of a trace in which no length is taken for one of rows, but which is made as those are that count rows."""


class RowProbe:
    """A trace for `size` rows, a number that no other length is a multiple of. `reads` are the uses of the number of rows by Python,
    `numbers` the numbers that it computed from it and that became constants of the graph, with the line. `choices` are those between ways
    to the same result that go by lengths: a trace may be given those of another one, in order."""

    def __init__(self, size: int, choices: Sequence[bool] = ()):
        self.size = size
        self.choices: list[bool] = []
        self._known = list(choices)
        self.reads: list[tuple[str, Location | None]] = []
        self.numbers: dict[Expression, Location | None] = {}

    def choose(self, usual: bool) -> bool:
        """The choice of the other trace, or else the usual one."""
        chosen = self._known[len(self.choices)] if len(self.choices) < len(self._known) else usual
        self.choices.append(chosen)
        return chosen

    def plain(self, attrs: Mapping[str, Any]) -> dict[str, Any]:
        """Attributes with Python's own numbers. Graphs and types outlive the trace, in tables by type and value of a number."""
        for value in attrs.values():
            self.note_constant(value)
        return {name: _plain_attribute(value) for name, value in attrs.items()}

    def note_constant(self, number: Any) -> None:
        """Note what a constant is computed from."""
        if is_tracked(number) and number.expression not in self.numbers:
            self.numbers[number.expression] = find_user_location()


@contextmanager
def probing(size: int, choices: Sequence[bool] = ()) -> Iterator[RowProbe]:
    """Note uses of the number of rows within the block, where choices are these."""
    context = thread.context
    before, context.row_probe = context.row_probe, RowProbe(size, choices)
    try:
        yield context.row_probe
    finally:
        context.row_probe = before


def is_tracked(number: Any) -> bool:
    """True for a number that is computed from the number of rows."""
    return issubclass(type(number), _Tracked)


def row_count(length: int) -> int:
    """A length, which knows how it depends on the number of rows."""
    probe = thread.context.row_probe
    if probe is None or type(length) is RowCount or not length or length % probe.size:
        return length
    counted: Any = RowCount(length, rows_times(length // probe.size))
    return counted      # type: ignore[no-any-return]


def row_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape with `row_count` of its lengths."""
    return shape if thread.context.row_probe is None else tuple(map(row_count, shape))


def plain_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """A shape of Python's own numbers, for what outlives the trace."""
    return tuple(map(_plain, shape))


def note_read(what: str, depth: int = 2) -> None:
    """Note that Python uses the number of rows, if the frame `depth` calls further out is the user's code; 0: in any case."""
    probe = thread.context.row_probe
    if probe is None:
        return
    frame = sys._getframe(depth)
    while frame.f_back is not None and frame.f_globals.get("__name__") in _BETWEEN:
        frame = frame.f_back
    if not depth or not is_ours(frame.f_globals.get("__name__", "")):
        probe.reads.append((f"Python uses the number of rows itself, for {what}", find_user_location()))


_BETWEEN = frozenset({"adjit.tracer.interception", "adjit.tracer.math_functions"})
"""Modules from which functions of `math` are called in place of the user's code."""


def note_cut(shape: tuple[int, ...], entries: Sequence[Any]) -> None:
    """Note an index of an array that takes some of its rows: NumPy cuts the bounds of slices off at the number of rows."""
    probe = thread.context.row_probe
    for length, entry in zip(shape, entries, strict=False):
        if probe is not None and type(length) is RowCount and not (
                isinstance(entry, slice) and entry.start in (None, 0) and entry.step in (None, 1)
                and (entry.stop is None or type(entry.stop) is RowCount)):
            is_reversed = isinstance(entry, slice) and (entry.start, entry.stop, entry.step) == (None, None, -1)
            probe.reads.append(("an index puts the rows in reverse order, so that each comes from another one" if is_reversed else
                                "an index takes some rows and leaves others", find_user_location()))


class _Tracked:
    """Numbers that are computed from the number of rows: to Python, integers or floats of its own, or a float of NumPy's. They are no
    subclasses of these: `0.5 * n` is a matter of Python's `float`, which would take an integer of any class for its number."""

    __slots__ = ("expression", "number")

    def __init__(self, number: Any, expression: Expression) -> None:
        self.number, self.expression = number, expression

    __class__ = property(lambda self: type(self.number))    # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self.number), (self.number,)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.number, dtype)

    def __add__(self, other: Any) -> Any:
        return _computed("add", operator.add, self, other)

    def __radd__(self, other: Any) -> Any:
        return _computed("add", operator.add, other, self)

    def __sub__(self, other: Any) -> Any:
        return _computed("subtract", operator.sub, self, other)

    def __rsub__(self, other: Any) -> Any:
        return _computed("subtract", operator.sub, other, self)

    def __mul__(self, other: Any) -> Any:
        return _computed("multiply", operator.mul, self, other)

    def __rmul__(self, other: Any) -> Any:
        return _computed("multiply", operator.mul, other, self)

    def __truediv__(self, other: Any) -> Any:
        one, two = (line_of(each.expression) if is_tracked(each) else None for each in (self, other))
        if one is not None and two is not None and not one[1] and not two[1]:
            return one[0] / two[0]
        return _computed(DIVIDE, operator.truediv, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _computed(DIVIDE, operator.truediv, other, self)

    def __pow__(self, other: Any, modulus: Any = None) -> Any:
        if type(other) is int and 1 <= other <= 4 and modulus is None and type(self) is RowCount:
            power = self
            for _ in range(1, other):
                power = power * self
            if is_tracked(power):
                return power
        if modulus is None and (type(other) is float or (type(other) is int and other < 0)):
            return _computed("power", operator.pow, self, other)
        note_read("arithmetic")
        return pow(self.number, other, modulus)

    def __rpow__(self, other: Any) -> Any:
        if type(other) is float:
            return _computed("power", operator.pow, other, self)
        note_read("arithmetic")
        return pow(other, self.number)

    def __abs__(self) -> Any:
        ends = bounds(self.expression)
        if ends is None or ends[0] < 0 < ends[1]:
            note_read("arithmetic")
            return abs(self.number)
        return self if ends[0] >= 0 else -self

    def __neg__(self) -> Any:
        return _computed("negative", operator.neg, self)

    def __pos__(self) -> Any:
        return self

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """NumPy's function of the number, which is noted unless it is arithmetic; that of a traced array is the array's."""
        if not all(_is_number(each) or issubclass(type(each), np.ndarray) for each in inputs):
            return NotImplemented
        function, numbers = _ARITHMETIC.get(ufunc), all(map(_is_number, inputs))
        if function is not None and numbers and method == "__call__" and not kwargs:
            return _computed(function, ufunc, *inputs, depth=0)        # the tracer may call NumPy's functions in place of the user's code
        # what cuts off (np.minimum), or becomes of plain arrays (`% 2`), shows at no size traced; the tracer's own indices are checked
        note_read(f"np.{ufunc.__name__}", 0 if function in (None, "power") or numbers else 2)
        return getattr(ufunc, method)(*map(_plain, inputs), **kwargs)


class RowCount(_Tracked):
    """Integer that is computed from the number of rows."""

    __slots__ = ()

    def __floordiv__(self, other: Any) -> Any:
        return self._divided(other, operator.floordiv)

    def __mod__(self, other: Any) -> Any:
        return self._divided(other, operator.mod)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def _divided(self, other: Any, compute: Callable[[Any, Any], Any]) -> Any:
        """Quotient or remainder, which are known where a multiple of the number of rows is divided, or both are such multiples."""
        one, two = line_of(self.expression), line_of(other.expression) if type(other) is RowCount else None
        if one is not None and type(other) is int and other and not one[0] % other and not one[1] % other:
            expression = combined("add", rows_times(one[0] // other), one[1] // other)
            return 0 if compute is operator.mod else _made(self.number // other, expression)
        if one is not None and two is not None and not one[1] and not two[1] and not one[0] % two[0]:
            return compute(one[0], two[0])
        if type(other) is int or type(other) is RowCount:
            return _computed("floor_divide" if compute is operator.floordiv else "remainder", compute, self, other)
        if not _is_number(other):
            return NotImplemented
        note_read("arithmetic", 3)
        return compute(self.number, _plain(other))

    # -- comparisons

    def __lt__(self, other: Any) -> Any:
        return _compared(self, other, operator.lt)

    def __le__(self, other: Any) -> Any:
        return _compared(self, other, operator.le)

    def __gt__(self, other: Any) -> Any:
        return _compared(self, other, operator.gt)

    def __ge__(self, other: Any) -> Any:
        return _compared(self, other, operator.ge)

    def __eq__(self, other: Any) -> Any:
        return _compared(self, other, operator.eq)

    def __ne__(self, other: Any) -> Any:
        return _compared(self, other, operator.ne)

    def __bool__(self) -> bool:
        line = line_of(self.expression)
        if line is None or line[1] or line[0] < 0:
            note_read("a decision")
        return bool(self.number)


class RowRatio(_Tracked):
    """Float that is computed from the number of rows."""

    __slots__ = ()


class RowScalar(_Tracked):
    """Float of NumPy's that is computed from the number of rows: an array of float32 becomes float64 with it."""

    __slots__ = ()


def converted_rows(number: Any, kind: type) -> Any:
    """`float(number)` or `int(number)` of a number that is computed from the number of rows."""
    if kind is float:
        return _computed("multiply", lambda one, two: float(one * two), 1.0, number)      # Python's, of NumPy's as well
    if type(number) is RowCount:
        return number
    note_read("int()", 0)
    return int(number.number)


def of_rows(name: str, replacement: Callable[..., Any]) -> Callable[..., Any]:
    """A replacement of a function of `math` that knows numbers which are computed from the number of rows."""
    def with_rows(own: Callable[..., Any]) -> Callable[..., Any]:
        replaced = replacement(own)
        return lambda *args: _computed(name, own, *args) if len(args) == 1 and is_tracked(args[0]) else replaced(*args)
    return with_rows


_ARITHMETIC = {np.add: "add", np.subtract: "subtract", np.multiply: "multiply", np.true_divide: DIVIDE, np.negative: "negative",
               np.power: "power", **{getattr(np, name): name for name in OF_ONE_FLOAT}}
_KINDS: dict[type, type[_Tracked]] = {int: RowCount, float: RowRatio, np.float64: RowScalar}


def _computed(function: str, compute: Callable[..., Any], *operands: Any, depth: int = 3) -> Any:
    """The result of arithmetic: of an array's method, or of numbers, whose result remembers what it was computed from."""
    if not all(map(_is_number, operands)):
        return NotImplemented
    result = compute(*map(_plain, operands))
    known = all(is_tracked(operand) or type(operand) in _KINDS for operand in operands)
    expression = combined(function, *map(_expression_of, operands)) if known else 0
    if not known or type(result) not in _KINDS or bounds(expression) is None:
        note_read("arithmetic", depth)
        return result
    return _made(result, expression)


def _expression_of(number: Any) -> Expression:
    return number.expression if is_tracked(number) else number.item() if type(number) is np.float64 else number


def _made(result: Any, expression: Expression) -> Any:
    return _KINDS[type(result)](result, expression) if isinstance(expression, tuple) else result


def _is_number(other: Any) -> bool:
    """True for a Python number; traced arrays pass for numbers, too."""
    return issubclass(type(other), (int, float, complex, _Tracked))


def _plain(number: Any) -> Any:
    return number.number if is_tracked(number) else number


def _plain_attribute(value: Any) -> Any:
    return tuple(map(_plain_attribute, value)) if type(value) is tuple else _plain(value)


def _compared(count: RowCount, other: Any, compare: Callable[[Any, Any], Any]) -> Any:
    """Python's comparison, which is noted unless its outcome is the same for any number of rows that a program serves."""
    if not _is_number(other):
        return NotImplemented
    line, second = line_of(count.expression), line_of(other.expression) if type(other) is RowCount else None
    is_known = line is not None and second is not None and not line[1] and not second[1]
    ends = None if is_tracked(other) else bounds(count.expression)
    if ends is not None and (compare not in (operator.eq, operator.ne) or not ends[0] <= other <= ends[1]):
        is_known = compare(ends[0], other) == compare(ends[1], other)
    if not is_known:
        note_read("a comparison", 3)
    return compare(count.number, _plain(other))


def _noting(owner: type, kind: type, name: str, what: str) -> None:
    """Give a class a method of the numbers that it stands for, whose use is noted."""
    own = getattr(kind, name)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        note_read(what)
        return own(self.number, *map(_plain, args), **kwargs)

    setattr(owner, name, method)


_USES = {"__str__": "a text", "__repr__": "a text", "__format__": "a text", "__int__": "int()", "__float__": "float()", "__hash__": "a key",
         "__index__": "an index", "__complex__": "complex()",
         **dict.fromkeys(("__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__", "__bool__"), "a comparison")}
def _attribute(name: str, number: Any) -> Any:
    return getattr(number.number, name)


_OF_OBJECTS = frozenset({"__class__", "__new__", "__init__", "__init_subclass__", "__subclasshook__", "__getattribute__", "__setattr__",
                         "__delattr__", "__dir__", "__doc__", "__sizeof__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__",
                         "__getnewargs__", "__class_getitem__", "__buffer__", "__array_interface__", "__array_struct__",
                         "__array_finalize__"})
for _kind, _owner in _KINDS.items():
    for _name in set(dir(_kind)) - _OF_OBJECTS:
        if vars(_owner).get(_name) is not None or _name in vars(_Tracked):      # a class with `__eq__` has None as its hash
            continue
        if callable(getattr(_kind, _name)):
            _noting(_owner, _kind, _name, _USES.get(_name, "arithmetic" if _name.startswith("__") else f"{_name}()"))
        else:
            setattr(_owner, _name, property(partial(_attribute, _name)))
