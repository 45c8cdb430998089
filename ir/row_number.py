"""Numbers that are computed from the number of rows n of a batch, as expressions: a program for any number of rows computes them anew.

An expression is a Python number, or a function of `_COMPUTE` with its operands: `("divide", 1.0, ("line", 2, -1))` is 1 / (2 n - 1). Lines,
of an integer factor and offset, are where n comes in. Integers stay within `LARGEST`, so that they are exact as floats, and floats are
Python's to the bit: what is rounded to a narrower dtype afterwards has the bits of that dtype's arithmetic. Logarithms, exponentials and
powers are the program's, which may differ from Python's in the last place.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import product
from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.graph import Value
from adjit.ir.ops.panels import MOST_ROWS
from adjit.ir.types import F64

Expression = int | float | tuple[Any, ...]

LINE, DIVIDE = "line", "divide"

LEAST_ROWS = 3
"""Least number of rows for which expressions have to be defined: fewer rows are traced, each by itself."""

LARGEST = 1 << 53

MAX_OFFSET = 16
"""Largest offset in numbers such as n - 1: larger ones are another function of n, met at a few points."""

def _power(base: Any, exponent: Any) -> np.float64:
    return np.float64(float(base) ** float(exponent))       # NumPy's of integers is one


_COMPUTE: dict[str, tuple[Any, Any]] = {
    "add": (np.add, ops.add), "subtract": (np.subtract, ops.subtract), "multiply": (np.multiply, ops.multiply),
    DIVIDE: (np.true_divide, ops.divide), "negative": (np.negative, ops.negative), "sqrt": (np.sqrt, ops.sqrt),
    "floor_divide": (np.floor_divide, ops.floor_divide), "remainder": (np.remainder, ops.remainder), "power": (_power, ops.power),
    **{name: (getattr(np, name), getattr(ops, name)) for name in ("log", "log2", "log10", "log1p", "exp")}}
"""NumPy's function and the op of a function."""

_LINEAR = frozenset({"add", "subtract", "multiply", "negative"})
_OF_INTEGERS = _LINEAR | {"floor_divide", "remainder"}
"""Functions that are integers where their operands are; others are floats."""

OF_ONE_FLOAT = frozenset({"sqrt", "log", "log2", "log10", "log1p", "exp"})
_RISING = OF_ONE_FLOAT - {"sqrt"}


def line_of(expression: Expression) -> tuple[int, int] | None:
    """Factor and offset of a line, or of an integer; None for others."""
    if isinstance(expression, tuple):
        return (expression[1], expression[2]) if expression[0] == LINE else None
    return (0, expression) if isinstance(expression, int) else None


def combined(function: str, *operands: Expression) -> Expression:
    """The expression of a function of others, a line where it is one."""
    lines = [line for operand in operands if (line := line_of(operand)) is not None]
    if len(lines) == len(operands) and function in _LINEAR:
        (factor, offset), (other, number) = lines[0], lines[-1]
        if function == "multiply" and not (factor and other):
            return _line(factor * number + other * offset, offset * number)
        if function == "negative":
            return _line(-factor, -offset)
        if function != "multiply":
            sign = 1 if function == "add" else -1
            return _line(factor + sign * other, offset + sign * number)
    return (function, *operands)


def rows_times(factor: int) -> Expression:
    """A multiple of the number of rows."""
    return LINE, factor, 0


def _line(factor: int, offset: int) -> Expression:
    return (LINE, factor, offset) if factor else offset


def is_whole(expression: Expression) -> bool:
    """True for integers."""
    if not isinstance(expression, tuple):
        return isinstance(expression, int)
    return expression[0] == LINE or (expression[0] in _OF_INTEGERS and all(map(is_whole, expression[1:])))


def number_for(expression: Expression, rows: int) -> Any:
    """The number for so many rows."""
    if not isinstance(expression, tuple):
        return expression
    if expression[0] == LINE:
        return expression[1] * rows + expression[2]
    with np.errstate(all="ignore"):
        return _COMPUTE[expression[0]][0](*(number_for(operand, rows) for operand in expression[1:])).item()


def bounds(expression: Expression) -> tuple[float, float] | None:
    """The least and the largest number that an expression may be for `LEAST_ROWS` to `MOST_ROWS` rows; None if it may be undefined, or
    an integer beyond `LARGEST`."""
    if not isinstance(expression, tuple):
        return (expression, expression)
    if expression[0] == LINE:
        ends = [number_for(expression, LEAST_ROWS), number_for(expression, MOST_ROWS)]
        return (min(ends), max(ends)) if max(map(abs, ends)) <= LARGEST else None
    operands = [bounds(operand) for operand in expression[1:]]
    if any(each is None for each in operands):
        return None
    (low, high), (least, most) = operands[0], operands[-1]      # type: ignore[misc]
    if (expression[0] in (DIVIDE, "floor_divide", "remainder") and least <= 0 <= most) or (expression[0] == "sqrt" and low < 0):
        return None
    if expression[0] == "negative":
        return -high, -low
    if expression[0] == "sqrt":
        return low ** 0.5, high ** 0.5
    if expression[0] == "remainder":
        return min(least, 0), max(most, 0)
    if expression[0] in _RISING or expression[0] == "power":
        compute = _COMPUTE[expression[0]][0]
        if expression[0] == "power" and low <= 0:
            return None
        with np.errstate(all="ignore"):
            made = [compute(*ends) for ends in ([(low,), (high,)] if expression[0] in _RISING else product((low, high), (least, most)))]
        return (float(min(made)), float(max(made))) if np.isfinite(made).all() else None
    if expression[0] == "floor_divide":
        ends = [one // other for one, other in product((low, high), (least, most))]
        return min(ends), max(ends)
    if expression[0] in ("add", "subtract"):
        ends = [low + least, high + most] if expression[0] == "add" else [low - most, high - least]
    else:
        ends = [one * (other if expression[0] == "multiply" else 1 / other) for one in (low, high) for other in (least, most)]
    return (min(ends), max(ends)) if not is_whole(expression) or max(map(abs, ends)) <= LARGEST else None


def shows(expression: Expression, sizes: Sequence[int]) -> bool:
    """True if an expression is not the same number for these numbers of rows, as `n % 2` is for odd ones, unless it is so for all."""
    ends = bounds(expression)
    return len({number_for(expression, size) for size in sizes}) > 1 or (ends is not None and ends[0] == ends[1])


def expression_of(found: Sequence[Any], sizes: Sequence[int], dtype: np.dtype, known: Collection[Expression]) -> Expression | None:
    """The number that has these values for `sizes` rows: one that Python computed, or a line, or a number divided by that."""
    if dtype.kind not in "iuf":
        return None
    candidates = list(known)
    line = _line_through(found, sizes)
    if line is not None:
        candidates.append((LINE, *line))
    if dtype.kind == "f" and all(value and np.isfinite(value) for value in found):
        numerators = dict.fromkeys((1.0, -1.0, float(found[0]) * sizes[0], round(float(found[0]) * sizes[0])))
        for numerator in numerators:
            line = _line_through([numerator / value for value in found], sizes, rounded=True)
            if line is not None:
                candidates.append((DIVIDE, float(numerator), (LINE, *line)))
    return next((each for each in candidates if all(
        rounded(number_for(each, size), dtype) == dtype.type(value) for size, value in zip(sizes, found, strict=False))), None)


def rounded(number: int | float, dtype: np.dtype) -> Any:
    """A number in a dtype."""
    with np.errstate(all="ignore"):
        return np.asarray(number).astype(dtype)[()]


def _line_through(values: Sequence[Any], sizes: Sequence[int], rounded: bool = False) -> tuple[int, int] | None:
    """Factor and offset of the line through the points, if they are whole numbers."""
    if not all(np.isfinite(value) for value in values):
        return None
    slope = (float(values[0]) - float(values[1])) / (sizes[0] - sizes[1])
    factor = round(slope)
    offset = round(float(values[0]) - factor * sizes[0])
    if not factor or abs(offset) > MAX_OFFSET or abs(slope - factor) > (1e-4 if rounded else 0) * abs(factor):
        return None
    return factor, offset


def emit_number(expression: Expression, count: Value, dtype: np.dtype) -> Value:
    """Emit the number for as many rows as `count`, an i64 of shape (), says."""
    value = _emit(expression, count)
    return value if value.type.dtype == dtype else ops.convert(value, dtype=dtype)


def _emit(expression: Expression, count: Value) -> Value:
    if not isinstance(expression, tuple):
        return ops.constant(value=expression, dtype=count.type.dtype if isinstance(expression, int) else F64, shape=())
    if expression[0] == LINE:
        _, factor, offset = expression
        value = count if factor == 1 else ops.multiply(count, ops.full_like(count, factor))
        return ops.add(value, ops.full_like(count, offset)) if offset else value
    operands = [_emit(operand, count) for operand in expression[1:]]
    if not is_whole(expression):
        operands = [operand if operand.type.dtype == F64 else ops.convert(operand, dtype=F64) for operand in operands]
    made: Value = _COMPUTE[expression[0]][1](*operands)
    return made
