"""Constant folding: ops whose operands and results are each filled with one number."""

from __future__ import annotations

import math

import numpy as np

from adjit.ir import ops
from adjit.ir.graph import Op, Value
from adjit.ir.interpreter import evaluate
from adjit.ir.ops import traits
from adjit.ir.types import is_complex, is_float, real_dtype
from adjit.passes.simplify.rewrite import Number, Rewriter, RuleTable

CONSTANTS = RuleTable(of_complex=True)
ELEMENTWISE = tuple(name for name in traits.ELEMENTWISE if name not in traits.TRANSFORMS)


def fill_like(type_of: Value, number: Number) -> Value:
    """Constant with the type of a value."""
    return ops.constant(value=number, dtype=type_of.type.dtype, shape=type_of.type.shape)


@CONSTANTS.rule("constant")
def number_of_the_dtype(op: Op, graph: Rewriter) -> Value | None:
    """Write the number of a constant in one way, so that equal constants are equal text."""
    value, number = op.attrs["value"], shortest_number(op.attrs["value"], op.result.type.dtype)
    return None if type(value) is type(number) and repr(value) == repr(number) else fill_like(op.result, number)


def shortest_number(number: Number, dtype: np.dtype) -> Number:
    """Shortest Python number that `dtype` rounds to the same value as `number`.

    >>> shortest_number(np.float32(0.1).item(), np.dtype('float32')), shortest_number(3, np.dtype('float64'))
    (0.1, 3.0)
    >>> shortest_number(1, np.dtype('bool'))
    True
    """
    with np.errstate(over="ignore"):
        rounded = dtype.type(number)
    exact: Number = rounded.item()
    if is_complex(dtype):
        return complex(*(shortest_number(part, real_dtype(dtype)) for part in (rounded.real, rounded.imag)))     # type: ignore[return-value]
    if not is_float(dtype):
        return exact
    shortest = float(str(rounded))
    return shortest if dtype.type(shortest) == rounded else exact


@CONSTANTS.rule("table")
def table_of_one_number(op: Op, graph: Rewriter) -> Value | None:
    """A table whose elements are all the same number is a constant."""
    data, size = op.attrs["data"], op.attrs["dtype"].itemsize
    if not data or data[:size] * (len(data) // size) != data:
        return None
    number = np.frombuffer(data[:size], op.attrs["dtype"])[0].item()
    number = math.nan if number != number and not is_complex(op.attrs["dtype"]) else number
    return fill_like(op.result, number) if np.array(number, op.attrs["dtype"]).tobytes() == data[:size] else None


@CONSTANTS.rule(*ELEMENTWISE, all_operands=("constant",))
def evaluate_elementwise(op: Op, graph: Rewriter) -> Value | None:
    """An elementwise op of constants becomes the constant that NumPy computes for one element."""
    numbers = [graph.number(value) for value in op.operands]
    if any(number is None for number in numbers):
        return None
    arrays = [np.full(1, number, value.type.dtype) for number, value in zip(numbers, op.operands, strict=True)]
    (out,) = evaluate(op.definition, arrays, op.attrs)
    return fill_like(op.result, out.item())


@CONSTANTS.rule("reshape", "transpose", "broadcast", "slice", "flip", "take", "take_along_axis", any_operand=("constant",))
def move_constant(op: Op, graph: Rewriter) -> Value | None:
    """Moving the elements of a constant gives a constant."""
    number = graph.number(op.operands[0])
    return None if number is None else fill_like(op.result, number)


@CONSTANTS.rule("concatenate", "update_slice", all_operands=("constant",))
def join_constants(op: Op, graph: Rewriter) -> Value | None:
    """Joining constants of the same number gives a constant."""
    return _same_constant(op, [graph.number(value) for value in op.operands])


@CONSTANTS.rule("pad", any_operand=("constant",))
def pad_constant(op: Op, graph: Rewriter) -> Value | None:
    """Padding a constant with its own number gives a constant."""
    padding = op.result.type.dtype.type(op.attrs["value"]).item()
    return _same_constant(op, [graph.number(op.operands[0]), padding])


def _same_constant(op: Op, numbers: list[Number | None]) -> Value | None:
    first = numbers[0]
    return fill_like(op.result, first) if first is not None and len({repr(number) for number in numbers}) == 1 else None


@CONSTANTS.rule("reduce_max", "reduce_min", "reduce_and", "reduce_or", any_operand=("constant",))
def reduce_constant(op: Op, graph: Rewriter) -> Value | None:
    """Equal numbers have themselves as largest and smallest."""
    number = graph.number(op.operands[0])
    if number is None or op.operands[0].type.size == 0 or op.operands[0].type.dtype != op.result.type.dtype:
        return None
    return fill_like(op.result, number)


@CONSTANTS.rule("reduce_sum", any_operand=("constant",))
def sum_constant(op: Op, graph: Rewriter) -> Value | None:
    """reduce_sum of a constant c over n elements -> n * c, if every partial sum is exact in any order: n times the odd part of c fits the
    mantissa."""
    number = graph.number(op.operands[0])
    if number is None or op.operands[0].type.dtype != op.result.type.dtype:
        return None
    count = math.prod(op.operands[0].type.shape[axis] for axis in op.attrs["axes"])
    dtype = op.result.type.dtype
    if is_complex(dtype):
        return None
    if not is_float(dtype):
        with np.errstate(all="ignore"):
            total = np.multiply(dtype.type(number), np.array(count).astype(dtype), dtype=dtype)
        return fill_like(op.result, total.item())
    if not math.isfinite(number):
        return None
    numerator, _ = number.as_integer_ratio() if isinstance(number, float) else (number, 1)
    odd = abs(numerator) // (numerator & -numerator) if numerator else 0
    total = float(count * number)
    limits = np.finfo(dtype)
    if odd * count > 2 ** (limits.nmant + 1) or abs(total) > limits.max:
        return None
    return fill_like(op.result, total + 0.0)


@CONSTANTS.rule("broadcast", any_operand=("iota",))
def broadcast_iota(op: Op, graph: Rewriter) -> Value | None:
    """broadcast(iota) -> iota: a kernel has one index map for each value; an iota over rows and over columns would need two."""
    iota = graph.producer(op.operands[0], "iota")
    if iota is None or iota.result.type.shape[iota.attrs["axis"]] == 1:
        return None
    return ops.iota(dtype=iota.attrs["dtype"], shape=op.result.type.shape, axis=op.attrs["axes"][iota.attrs["axis"]])


@CONSTANTS.rule("iota")
def iota_of_one(op: Op, graph: Rewriter) -> Value | None:
    """An iota along an axis of size 1 is zeros."""
    return fill_like(op.result, 0) if op.result.type.shape[op.attrs["axis"]] == 1 else None
