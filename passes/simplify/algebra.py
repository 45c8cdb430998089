"""Algebraic identities that hold for every bit: NaN, infinities, the sign of zero, wrapping integers.

So `x + 0` stays where x may be -0.0 (`-0.0 + 0.0` is 0.0), and `x * 0` stays where x may be NaN or infinite. The exceptions:

- a small whole power becomes multiplications: less than 2 units in the last place from the exact power (for 1 and 2: the nearest);
- a cotangent times a number that is finite, and not 0, is an ordinary product: the sign of a zero gradient may differ;
- a cotangent divided by a value that many elements share is multiplied by its reciprocal, which rounds once more.
"""

from __future__ import annotations

import math

import numpy as np

from adjit.ir import ops
from adjit.ir.graph import Op, Value
from adjit.ir.ops.traits import SAME_ELEMENTS
from adjit.ir.types import converts_at_once, is_float, is_half, is_integer
from adjit.passes.simplify.rewrite import Number, Rewriter, RuleTable

ALGEBRA = RuleTable()


def is_exactly(value: Number | None, number: float) -> bool:
    """True if a constant is `number`, sign of zero included."""
    return value is not None and value == number and math.copysign(1.0, value) == math.copysign(1.0, number)


def constant_like(value: Value, number: Number) -> Value:
    return ops.constant(value=number, dtype=value.type.dtype, shape=value.type.shape)


@ALGEBRA.rule("add", any_operand=("constant",))
def add_zero(op: Op, graph: Rewriter) -> Value | None:
    """x + (-0.0) -> x, and x + 0 -> x for integers."""
    for operand, other in (op.operands, op.operands[::-1]):
        zero = graph.number(other)
        if is_exactly(zero, -0.0) or (zero == 0 and is_integer(op.result.type.dtype)):
            return operand
    return None


@ALGEBRA.rule("add", any_operand=("negative",))
def add_negative(op: Op, graph: Rewriter) -> Value | None:
    """x + (-y) -> x - y."""
    for operand, other in (op.operands, op.operands[::-1]):
        negative = graph.producer(other, "negative")
        if negative:
            return ops.subtract(operand, negative.operands[0])
    return None


@ALGEBRA.rule("subtract", any_operand=("constant",))
def subtract_zero(op: Op, graph: Rewriter) -> Value | None:
    """x - 0 -> x; -0.0 - x -> -x."""
    left, right = op.operands
    if is_exactly(graph.number(right), 0.0):
        return left
    if is_exactly(graph.number(left), -0.0) or (graph.number(left) == 0 and is_integer(op.result.type.dtype)):
        return ops.negative(right)
    return None


@ALGEBRA.rule("subtract", any_operand=("negative",))
def subtract_negative(op: Op, graph: Rewriter) -> Value | None:
    """x - (-y) -> x + y."""
    negative = graph.producer(op.operands[1], "negative")
    return ops.add(op.operands[0], negative.operands[0]) if negative else None


@ALGEBRA.rule("negative", any_operand=("negative",))
def negate_twice(op: Op, graph: Rewriter) -> Value | None:
    """-(-x) -> x."""
    negative = graph.producer(op.operands[0], "negative")
    return negative.operands[0] if negative else None


@ALGEBRA.rule("negative", any_operand=("multiply", "divide"))
def negate_scaled(op: Op, graph: Rewriter) -> Value | None:
    """-(x * c) -> x * (-c), and the same for x / c."""
    scaled = graph.producer(op.operands[0], "multiply", "divide")
    if scaled is None or not is_float(op.result.type.dtype):
        return None
    factor = graph.number(scaled.operands[1])
    if factor is None:
        return None
    return scaled.definition(scaled.operands[0], constant_like(scaled.operands[1], -factor))


@ALGEBRA.rule("add", "multiply", any_operand=("constant",))
def constant_to_the_right(op: Op, graph: Rewriter) -> Value | None:
    """c + x -> x + c, so that other rules need to look at one side only."""
    left, right = op.operands
    if graph.number(left) is None or graph.number(right) is not None:
        return None
    return op.definition(right, left)


@ALGEBRA.rule("multiply", "divide", any_operand=("constant",))
def scale_by_one(op: Op, graph: Rewriter) -> Value | None:
    """x * 1 -> x; x / 1 -> x; x * -1 -> -x; x / -1 -> -x."""
    factor = graph.number(op.operands[1])
    if is_exactly(factor, 1.0):
        return op.operands[0]
    return ops.negative(op.operands[0]) if is_exactly(factor, -1.0) else None


@ALGEBRA.rule("multiply", any_operand=("constant",))
def multiply_integer_by_zero(op: Op, graph: Rewriter) -> Value | None:
    """x * 0 -> 0 for integers."""
    if is_integer(op.result.type.dtype) and graph.number(op.operands[1]) == 0:
        return op.operands[1]
    return None


@ALGEBRA.rule("multiply", "divide", any_operand=("negative",))
def scale_negative(op: Op, graph: Rewriter) -> Value | None:
    """(-x) * (-y) -> x * y; (-x) * c -> x * (-c); the same for divide."""
    if not is_float(op.result.type.dtype):
        return None
    left, right = (graph.producer(operand, "negative") for operand in op.operands)
    if left and right:
        return op.definition(left.operands[0], right.operands[0])
    factor = graph.number(op.operands[1])
    if left and factor is not None:
        return op.definition(left.operands[0], constant_like(op.operands[1], -factor))
    return None


@ALGEBRA.rule("divide", any_operand=("constant",))
def divide_by_power_of_two(op: Op, graph: Rewriter) -> Value | None:
    """x / c -> x * (1 / c) where c is a power of two: both round the same number."""
    factor = graph.number(op.operands[1])
    dtype = op.result.type.dtype
    if factor is None or not is_float(dtype) or factor == 0 or not math.isfinite(factor) or abs(math.frexp(factor)[0]) != 0.5:
        return None
    limits = np.finfo(dtype)
    if not float(limits.tiny) <= abs(1.0 / factor) <= float(limits.max):
        return None
    return ops.multiply(op.operands[0], constant_like(op.operands[1], 1.0 / factor))


@ALGEBRA.rule("power", any_operand=("constant",))
def small_power(op: Op, graph: Rewriter) -> Value | None:
    """x ** n for n = 0, 1, 2, 3, 4 by multiplication."""
    base, exponent = op.operands
    number = graph.number(exponent)
    if number == 0:
        return constant_like(base, 1)
    if number == 1:
        return base
    if number == 2:
        return ops.square(base)
    if number == 3:
        return ops.multiply(ops.square(base), base)
    return ops.square(ops.square(base)) if number == 4 else None


@ALGEBRA.rule("abs", "square", any_operand=("negative", "abs"))
def drop_sign(op: Op, graph: Rewriter) -> Value | None:
    """abs(-x) -> abs(x); square(-x) -> square(x); the same for abs(x) inside."""
    inner = graph.producer(op.operands[0], "negative", "abs")
    same = inner is not None and inner.operands[0].type == op.result.type      # not so for the absolute value of a complex number
    return op.definition(inner.operands[0]) if inner and same and is_float(op.result.type.dtype) else None


@ALGEBRA.rule("abs", any_operand=("square",))
def abs_of_square(op: Op, graph: Rewriter) -> Value | None:
    """abs(x * x) -> x * x."""
    return op.operands[0] if graph.producer(op.operands[0], "square") and is_float(op.result.type.dtype) else None


@ALGEBRA.rule("maximum", "minimum", "fmax", "fmin", "logical_and", "logical_or", "bitwise_and", "bitwise_or")
def same_operands(op: Op, graph: Rewriter) -> Value | None:
    """max(x, x) -> x, and its like."""
    left, right = op.operands
    return left if left is right and left.type == op.result.type else None


@ALGEBRA.rule("logical_not", "invert", any_operand=("logical_not", "invert", "equal", "not_equal"))
def invert_twice(op: Op, graph: Rewriter) -> Value | None:
    """not not x -> x; not (a == b) -> a != b (and back)."""
    if op.operands[0].type != op.result.type:
        return None
    inner = graph.producer(op.operands[0], op.name)
    if inner and inner.operands[0].type == op.result.type:
        return inner.operands[0]
    comparison = graph.producer(op.operands[0], "equal", "not_equal")
    if comparison is None:
        return None
    return (ops.not_equal if comparison.name == "equal" else ops.equal)(*comparison.operands)


@ALGEBRA.rule("logical_and", "logical_or", "logical_xor", any_operand=("constant",))
def fold_logic(op: Op, graph: Rewriter) -> Value | None:
    """x and true -> x; x and false -> false; x or false -> x; x or true -> true; x xor false -> x."""
    for operand, other in (op.operands, op.operands[::-1]):
        known = graph.number(other)
        if not isinstance(known, bool):
            continue
        if known is (op.name == "logical_and"):
            return operand if operand.type == op.result.type else None
        if op.name != "logical_xor":
            return other
        return None
    return None


@ALGEBRA.rule("select")
def fold_select(op: Op, graph: Rewriter) -> Value | None:
    """select(true, a, b) -> a; select(c, a, a) -> a; select(c, true, false) -> c."""
    condition, yes, no = op.operands
    known = graph.number(condition)
    if known is not None:
        return yes if known else no
    if yes is no:
        return yes
    both = graph.number(yes), graph.number(no)
    if both == (True, False) and yes.type == condition.type:
        return condition
    return None


@ALGEBRA.rule("select", any_operand=("logical_not",))
def select_by_opposite(op: Op, graph: Rewriter) -> Value | None:
    """select(not c, a, b) -> select(c, b, a)."""
    condition, yes, no = op.operands
    opposite = graph.producer(condition, "logical_not")
    return ops.select(opposite.operands[0], no, yes) if opposite and opposite.operands[0].type == condition.type else None


@ALGEBRA.rule("select", any_operand=("select",))
def select_twice(op: Op, graph: Rewriter) -> Value | None:
    """select(c, select(c, a, b), d) -> select(c, a, d), and on the other side."""
    condition, yes, no = op.operands
    inner = graph.producer(yes, "select")
    if inner and inner.operands[0] is condition:
        return ops.select(condition, inner.operands[1], no)
    inner = graph.producer(no, "select")
    if inner and inner.operands[0] is condition:
        return ops.select(condition, yes, inner.operands[2])
    return None


@ALGEBRA.rule("strong_multiply", "strong_divide", any_operand=("constant",))
def strong_with_known_cotangent(op: Op, graph: Rewriter) -> Value | None:
    """A cotangent of 0 gives 0; with any other known cotangent the op is an ordinary product."""
    number = graph.number(op.operands[0])
    if number is None:
        return None
    if number == 0:
        return constant_like(op.result, 0)
    return (ops.multiply if op.name == "strong_multiply" else ops.divide)(*op.operands)


@ALGEBRA.rule("strong_multiply", "strong_divide", any_operand=("constant", "convert"))
def strong_with_finite_factor(op: Op, graph: Rewriter) -> Value | None:
    """strong_multiply(ct, c) -> ct * c for finite c: zero times a finite number is zero anyway."""
    cotangent, factor = op.operands
    number = graph.number(factor)
    if op.name == "strong_divide":
        harmless = number is not None and number != 0 and not math.isnan(number)
        return ops.divide(cotangent, factor) if harmless else None
    return ops.multiply(cotangent, factor) if _is_finite(factor, number, graph) else None


@ALGEBRA.rule("strong_divide", any_operand=("broadcast",))
def strong_divide_by_shared(op: Op, graph: Rewriter) -> Value | None:
    """strong_divide(ct, broadcast(x)) -> strong_multiply(ct, broadcast(1 / x)): one division for each x instead of one for each element."""
    cotangent, divisor = op.operands
    repeated = graph.producer(divisor, "broadcast")
    if repeated is None or repeated.operands[0].type.size >= op.result.type.size or not _has_reciprocal(repeated.operands[0], graph):
        return None
    inverse = ops.reciprocal(repeated.operands[0])
    return ops.strong_multiply(cotangent, ops.broadcast(inverse, shape=op.result.type.shape, axes=repeated.attrs["axes"]))


def _has_reciprocal(value: Value, graph: Rewriter) -> bool:
    """True if the value is known not to be subnormal (reciprocals of subnormal numbers overflow): it is a square root, or larger than some
    normal number."""
    producer = graph.producer(value, "sqrt", "add", "maximum", *SAME_ELEMENTS)
    if producer is None or producer.name == "sqrt":
        return producer is not None
    if producer.name in SAME_ELEMENTS:
        return _has_reciprocal(producer.operands[0], graph)
    number = graph.number(producer.operands[1])
    if number is None or not is_float(value.type.dtype) or number < np.finfo(value.type.dtype).tiny:
        return False
    return producer.name == "maximum" or graph.producer(producer.operands[0], "sqrt", "square", "abs", "exp") is not None


@ALGEBRA.rule("strong_product", any_operand=("constant", "convert"))
def strong_product_with_finite(op: Op, graph: Rewriter) -> Value | None:
    """strong_product(x, 0) -> 0; x * c for another finite number c; strong_multiply(f, x) for another finite f (a converted integer)."""
    for factor, other in (op.operands, op.operands[::-1]):
        number = graph.number(factor)
        if number == 0:
            return constant_like(op.result, 0)
        if _is_finite(factor, number, graph):
            return (ops.strong_multiply if number is None else ops.multiply)(factor, other)
    return None


def _is_finite(value: Value, number: Number | None, graph: Rewriter) -> bool:
    if number is not None:
        return math.isfinite(number)
    converted = graph.producer(value, "convert")
    return converted is not None and not is_float(converted.operands[0].type.dtype)


@ALGEBRA.rule("convert")
def convert_once(op: Op, graph: Rewriter) -> Value | None:
    """A conversion to the same dtype is dropped; a lossless one is skipped: f32 -> f64 -> f32 becomes nothing."""
    operand = op.operands[0]
    target = op.result.type.dtype
    if operand.type.dtype == target:
        return operand
    inner = graph.producer(operand, "convert")
    if inner is None:
        return None
    source, middle = inner.operands[0].type.dtype, operand.type.dtype
    if not keeps_every_number(source, middle) or (source != target and not converts_at_once(source, target)):
        return None
    if is_float(target) or target.kind == "b" or not is_float(middle) or keeps_every_number(source, target):
        return ops.convert(inner.operands[0], dtype=target)
    return None


def keeps_every_number(source: np.dtype, target: np.dtype) -> bool:
    """True if `target` represents every number of `source`.

    >>> keeps_every_number(np.dtype('int32'), np.dtype('float64')), keeps_every_number(np.dtype('int64'), np.dtype('float64'))
    (True, False)
    """
    if source == target or source.kind == "b":
        return True
    if target.kind == "b" or is_half(target):
        return False
    if is_float(target):
        digits = np.finfo(target).nmant + 1
        return target.itemsize >= source.itemsize if is_float(source) else np.iinfo(source).max < 2 ** digits
    if is_float(source):
        return False
    return bool(np.iinfo(target).min <= np.iinfo(source).min and np.iinfo(source).max <= np.iinfo(target).max)
