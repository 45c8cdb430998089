"""Number of rows as Python sees it while a function is traced for any number of rows.

`x.shape[0]` is a `RowCount` in such a trace: an integer that remembers how it depends on the number of rows n. It may go where arrays are
made and reshaped, and into arithmetic with arrays: what comes of it shows in the graph, which is compared to those for other n. Where
Python itself needs the number, in a comparison, as a key, in a text, the function may do something else for another n, and nothing would
show it: this is noted, and the function has a program for each number of rows.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from adjit.ir.errors import Location
from adjit.ir.thread_context import thread
from adjit.tracer.user_location import find_user_location, is_ours


class RowProbe:
    """A trace for `size` rows, a number that no other length is a multiple of. `reads` are the uses of the number of rows by Python."""

    def __init__(self, size: int):
        self.size = size
        self.reads: list[tuple[str, Location | None]] = []

    def plain(self, attrs: Mapping[str, Any]) -> dict[str, Any]:
        """Attributes with Python's own numbers. Graphs and types outlive the trace, in tables by type and value of a number."""
        return {name: _plain_attribute(value) for name, value in attrs.items()}


@contextmanager
def probing(size: int) -> Iterator[RowProbe]:
    """Note uses of the number of rows within the block."""
    context = thread.context
    before, context.row_probe = context.row_probe, RowProbe(size)
    try:
        yield context.row_probe
    finally:
        context.row_probe = before


def row_count(length: int) -> int:
    """A length, which knows how it depends on the number of rows."""
    probe = thread.context.row_probe
    if probe is None or not length or length % probe.size:
        return length
    return RowCount(length, length // probe.size)


def row_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape with `row_count` of its lengths."""
    return shape if thread.context.row_probe is None else tuple(map(row_count, shape))


def plain_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """A shape of Python's own numbers, for what outlives the trace."""
    return tuple(map(_plain, shape))


def note_read(what: str, depth: int = 2) -> None:
    """Note that Python uses the number of rows, if the frame `depth` calls further out is the user's code; 0: in any case."""
    probe = thread.context.row_probe
    if probe is not None and (not depth or not is_ours(sys._getframe(depth).f_globals.get("__name__", ""))):
        probe.reads.append((what, find_user_location()))


def note_cut(shape: tuple[int, ...], entries: Sequence[Any]) -> None:
    """Note an index of an array that takes some of its rows: NumPy cuts the bounds of slices off at the number of rows."""
    for length, entry in zip(shape, entries, strict=False):
        if isinstance(length, RowCount) and not (isinstance(entry, slice) and entry.start in (None, 0) and entry.step in (None, 1)
                                                 and (entry.stop is None or isinstance(entry.stop, RowCount))):
            note_read("an index of some rows", 0)


class RowCount(int):
    """`factor * n + offset`, for the number of rows n of a trace."""

    factor: int
    offset: int

    def __new__(cls, value: int, factor: int, offset: int = 0) -> RowCount:
        made = int.__new__(cls, value)
        made.factor, made.offset = factor, offset
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return int, (int.__int__(self),)

    # -- arithmetic

    def __add__(self, other: Any) -> Any:
        return _sum(self, other, 1)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return _sum(self, other, -1)

    def __rsub__(self, other: Any) -> Any:
        return _sum(-self, other, 1)

    def __neg__(self) -> Any:
        return RowCount(-int.__int__(self), -self.factor, -self.offset)

    def __pos__(self) -> Any:
        return self

    def __mul__(self, other: Any) -> Any:
        if type(other) is int:
            return RowCount(int.__int__(self) * other, self.factor * other, self.offset * other) if other else 0
        if type(other) is float:
            return RowRatio(int.__int__(self) * other)
        return _used(self, other, operator.mul, False)

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Any:
        if type(other) is int and other and not self.factor % other and not self.offset % other:
            return RowCount(int.__int__(self) // other, self.factor // other, self.offset // other)
        if isinstance(other, RowCount) and not self.offset and not other.offset and not self.factor % other.factor:
            return self.factor // other.factor
        return _used(self, other, operator.floordiv, False)

    def __mod__(self, other: Any) -> Any:
        if type(other) is int and other and not self.factor % other and not self.offset % other:
            return 0
        if isinstance(other, RowCount) and not self.offset and not other.offset and not self.factor % other.factor:
            return 0
        return _used(self, other, operator.mod, False)

    def __truediv__(self, other: Any) -> Any:
        if isinstance(other, RowCount) and not self.offset and not other.offset:
            return self.factor / other.factor
        return RowRatio(int.__int__(self) / other) if type(other) in (int, float) else _used(self, other, operator.truediv, False)

    def __rtruediv__(self, other: Any) -> Any:
        return RowRatio(other / int.__int__(self)) if type(other) in (int, float) else _used(self, other, operator.truediv, True)

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
        if self.offset or self.factor < 0:
            note_read("a decision")
        return bool(int.__int__(self))


    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return _of_numpy(ufunc, method, inputs, kwargs)


class RowRatio(float):
    """Number that is computed from the number of rows: a multiple of it, or a number divided by it."""

    def __mul__(self, other: Any) -> Any:
        return RowRatio(float.__float__(self) * other) if type(other) in (int, float) else _used(self, other, operator.mul, False)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        return RowRatio(float.__float__(self) / other) if type(other) in (int, float) else _used(self, other, operator.truediv, False)

    def __neg__(self) -> Any:
        return RowRatio(-float.__float__(self))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return _of_numpy(ufunc, method, inputs, kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        return float, (float.__float__(self),)


def _of_numpy(ufunc: Any, method: str, inputs: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """NumPy's function of the number, which is noted; that of a traced array is the array's."""
    if not all(_is_number(each) or getattr(type(each), "__array_ufunc__", None) is np.ndarray.__array_ufunc__ for each in inputs):
        return NotImplemented
    if ufunc not in (np.add, np.subtract, np.multiply, np.true_divide):      # what cuts off, such as np.minimum, shows at no size traced
        note_read(f"np.{ufunc.__name__}", 0)
    return getattr(ufunc, method)(*map(_plain, inputs), **kwargs)


def _is_number(other: Any) -> bool:
    """True for a Python number; traced arrays pass for numbers, too."""
    return issubclass(type(other), (int, float, complex))


def _plain(number: Any) -> Any:
    return int.__int__(number) if isinstance(number, RowCount) else float.__float__(number) if isinstance(number, RowRatio) else number


def _plain_attribute(value: Any) -> Any:
    return tuple(map(_plain_attribute, value)) if type(value) is tuple else _plain(value)


def _sum(count: RowCount, other: Any, sign: int) -> Any:
    if type(other) is int:
        return RowCount(int.__int__(count) + sign * other, count.factor, count.offset + sign * other)
    if isinstance(other, RowCount):
        factor, offset = count.factor + sign * other.factor, count.offset + sign * other.offset
        return RowCount(int.__int__(count) + sign * int.__int__(other), factor, offset) if factor else offset
    return _used(count, other, operator.add if sign > 0 else operator.sub, False)


def _used(number: Any, other: Any, compute: Callable[[Any, Any], Any], reflected: bool) -> Any:
    """The result with another operand: of an array's method, or of Python's number, whose use is noted."""
    if not _is_number(other):
        return NotImplemented
    note_read("arithmetic", 3)
    one, two = _plain(number), _plain(other)
    return compute(two, one) if reflected else compute(one, two)


def _compared(count: RowCount, other: Any, compare: Callable[[Any, Any], Any]) -> Any:
    """Python's comparison, which is noted unless its outcome is the same for any number of rows, of which there is one at least."""
    if not _is_number(other):
        return NotImplemented
    fixed = isinstance(other, RowCount) and not count.offset and not other.offset
    positive = not isinstance(other, RowCount) and other <= 0 and count.factor > 0 and count.offset >= 0
    if not fixed and not positive:
        note_read("a comparison", 3)
    return compare(int.__int__(count), _plain(other))


def _noting(owner: type, name: str, what: str) -> None:
    own = getattr(owner.__bases__[0], name)

    def method(self: Any, *args: Any) -> Any:
        note_read(what)
        found = own(_plain(self), *map(_plain, args))
        return found

    setattr(owner, name, method)


_TEXT = {"__str__": "a text", "__repr__": "a text", "__format__": "a text"}
_USES = {"__int__": "int()", "__float__": "float()", "__hash__": "a key", "__pow__": "arithmetic", "__rpow__": "arithmetic",
         "__divmod__": "arithmetic", "__rdivmod__": "arithmetic", "__rfloordiv__": "arithmetic", "__rmod__": "arithmetic",
         "__abs__": "arithmetic", "__round__": "arithmetic", "__trunc__": "arithmetic", "__floor__": "arithmetic", "__ceil__": "arithmetic"}
for _owner, _names in ((RowCount, {"__and__": "arithmetic", "__or__": "arithmetic", "__xor__": "arithmetic", "__lshift__": "arithmetic",
                                   "__rshift__": "arithmetic", "__rand__": "arithmetic", "__ror__": "arithmetic",
                                   "__rxor__": "arithmetic", "__rlshift__": "arithmetic", "__rrshift__": "arithmetic",
                                   "__invert__": "arithmetic", "__index__": "an index", "bit_length": "arithmetic"}),
                       (RowRatio, {**dict.fromkeys(("__add__", "__radd__", "__sub__", "__rsub__", "__rtruediv__"), "arithmetic"),
                                   **dict.fromkeys(("__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__", "__bool__"),
                                                   "a comparison")})):
    for _name, _what in {**_TEXT, **_USES, **_names}.items():
        if hasattr(_owner.__bases__[0], _name):
            _noting(_owner, _name, _what)
