"""NumPy's universal functions: promotion and broadcasting made explicit, then one op, or a few."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.definition import OpDefinition
from adjit.ir.errors import DTypeError, ShapeError, UnsupportedError
from adjit.ir.graph import Value
from adjit.ir.interpreter import ArrayValue
from adjit.ir.types import BOOL, F16, F32, F64, is_complex, is_float, is_half, is_inexact
from adjit.tracer import lowering
from adjit.tracer.array import TracedArray, as_traced, wrap
from adjit.tracer.array_errors import scalar_refused, write_refused
from adjit.tracer.direct import LOWERINGS, apply_directly
from adjit.tracer.dispatch import implements
from adjit.tracer.functions.shapes import in_order_of
from adjit.tracer.lowering import broadcast, constant, convert
from adjit.tracer.promotion import (
    Casting,
    Operand,
    as_operand,
    common_dtype,
    dtype_argument,
    is_weak,
    kind_of,
    loop_dtypes,
    loop_of,
    resolve,
    shape_of,
    to_value,
)
from adjit.tracer.registry import FUNCTIONS
from adjit.tracer.scope import active_scope
from adjit.tracer.user_location import find_user_location

Lower = Callable[..., Value]


def broadcast_shapes(name: str, *operands: Operand) -> tuple[int, ...]:
    """Common shape of the operands; raises `ShapeError` with all shapes."""
    shapes = [shape_of(x) for x in operands]
    first = shapes[0]
    if all(shape == first or not shape for shape in shapes[1:]):
        return first
    try:
        return lowering.broadcast_shapes(*shapes)
    except ValueError:
        text = " and ".join(str(kind_of(x)) + str(list(shape)) for x, shape in zip(operands, shapes, strict=True))
        scope = active_scope()
        in_pytorch = _sizes_that_differ(*shapes) if scope is not None and scope.as_pytorch and len(shapes) == 2 else ""
        raise ShapeError(f"{name}: the shapes of {text} cannot be broadcast together{in_pytorch}", find_user_location()) from None


def _sizes_that_differ(first: tuple[int, ...], second: tuple[int, ...]) -> str:
    """What PyTorch says of two shapes that do not fit."""
    count = max(len(first), len(second))
    a, b = ((1,) * (count - len(shape)) + shape for shape in (first, second))
    dim = max(dim for dim in range(count) if a[dim] != b[dim] and 1 not in (a[dim], b[dim]))
    return f" (the size of tensor a ({a[dim]}) must match the size of tensor b ({b[dim]}) at non-singleton dimension {dim})"


def store(result: TracedArray, out: Any, casting: Casting = "same_kind", name: str = "out", where: Any = True) -> Any:
    """Write `result` into `out`, only where the mask is True, and return `out`; without `out`, return the result itself."""
    if out is None:
        return result
    if isinstance(out, tuple):
        (out,) = out
    if isinstance(out, TracedArray) and out.immutable:
        raise scalar_refused(f"{name}: out= is a scalar; return arrays must be of ArrayType")
    given, out = out, FUNCTIONS["taken over"](out)
    target = np.shape(out) if isinstance(out, np.ndarray) else out.shape
    if target != result.shape:
        raise ShapeError(f"{name}: out= has the shape {target}, the result {result.shape}", find_user_location())
    if not np.can_cast(result.dtype, out.dtype, casting):
        raise DTypeError(f"{name}: cannot cast the result from {result.dtype} to {out.dtype} with casting rule {casting!r}",
                         find_user_location(), hint="convert with .astype, or let a new array be made")
    if where is not True and broadcast_shapes(name, result, as_traced(where)) != target:
        raise ShapeError(f"{name}: where= has the shape {np.shape(where)}, the result {target}", find_user_location())
    mask = None if where is True else broadcast(convert(as_traced(where).value, BOOL), target)
    if isinstance(out, TracedArray):
        value = convert(result.value, out.dtype)
        out.assign(value if mask is None else ops.select(mask, value, out.value))
        return given
    if not isinstance(result.value, ArrayValue):
        raise write_refused(find_user_location())
    np.copyto(out, result.value.array, casting="unsafe", where=mask.array if isinstance(mask, ArrayValue) else True)
    return out


def store_all(results: tuple[TracedArray, ...], positional: tuple[Any, ...], out: Any, casting: Casting, name: str, where: Any = True
              ) -> tuple[Any, ...]:
    """Store several results, as `store` does; `out` is a tuple with an array or None for each."""
    targets = positional if out is None else out
    if not isinstance(targets, tuple) or len(targets) != len(results):
        raise TypeError(f"{name}: 'out' must be a tuple of {len(results)} arrays" if isinstance(targets, tuple)
                        else f"{name}: 'out' must be a tuple of arrays")
    return tuple(store(chosen(result, where) if target is None else result, target, casting, name, where)
                 for result, target in zip(results, targets, strict=True))


def chosen(result: TracedArray, where: Any) -> TracedArray:
    """The result where the mask is True, and 0 elsewhere: NumPy's array has any numbers there."""
    if where is True:
        return result
    shape = broadcast_shapes("where=", result, as_traced(where))
    mask = broadcast(convert(as_traced(where).value, BOOL), shape)
    return wrap(ops.select(mask, broadcast(result.value, shape), constant(0, result.dtype, shape)))


def _shape_with_out(shape: tuple[int, ...], out: Any) -> tuple[int, ...]:
    """Broadcast the result's shape to a larger `out`; `store` raises the error for an `out` that does not fit."""
    if out is None:
        return shape
    target = out[0] if isinstance(out, tuple) else out
    if not hasattr(target, "shape"):
        raise TypeError("return arrays must be of ArrayType")
    target = target.shape
    offset = len(target) - len(shape)
    fits = offset >= 0 and all(size in (1, want) for size, want in zip(shape, target[offset:], strict=True))
    return target if fits else shape


def elementwise(ufunc: np.ufunc, lower: Lower, scipy_name: str | None = None, of_halves: bool = False) -> Lower:
    """Register `lower` for `ufunc`, or, with `scipy_name`, for the ufunc of scipy.special that has the same dtypes. `lower` gets values of
    the loop's dtypes and of one shape, but float32 for float16 and bfloat16, unless it is made for them: `of_halves`. Returns what computes
    the ufunc."""
    name = scipy_name or ufunc.__name__
    if not isinstance(lower, OpDefinition) and not of_halves:
        lower = _rounded_once(lower)

    def call(*inputs: Any, out: Any = None, where: Any = True, dtype: Any = None, casting: Casting = "same_kind",
             order: str = "K", subok: bool = True, signature: Any = None) -> Any:
        if len(inputs) > ufunc.nin:
            *inputs, out = inputs       # type: ignore[assignment]
        if len(inputs) != ufunc.nin:
            raise TypeError(f"{name}() takes {ufunc.nin} operands, {len(inputs)} were given")
        operands = tuple(map(as_operand, inputs))
        dtypes = resolve(ufunc, operands, dtype if signature is None else loop_of(ufunc, signature), casting)
        shape = broadcast_shapes(name, *operands)
        shape = _shape_with_out(shape, out)
        values = (to_value(x, loop, shape) for x, loop in zip(operands, dtypes[:ufunc.nin], strict=True))
        result = wrap(convert(lower(*values), dtypes[-1]))
        return chosen(result, where) if out is None else store(result, out, casting, name, where)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"Equivalent of `{'scipy.special' if scipy_name else 'numpy'}.{name}`."
    implements(("scipy.special", scipy_name) if scipy_name else ufunc)(call)
    return lower


def _rounded_once(lower: Lower) -> Lower:
    """Compute a function of several ops in float32 where the loop's dtype is float16 or bfloat16: only the result is rounded, as in NumPy.
    """
    return lambda *xs: lower(*(convert(x, F32) if x.type.is_half else x for x in xs))


def _same(x: Value) -> Value:
    return x


def _truth(lower: Lower) -> Lower:
    """Convert the operands of logical functions to bool: every number but 0 is true."""
    return lambda *xs: lower(*(convert(x, BOOL) for x in xs))


def _floating(lower: Lower, otherwise: Lower) -> Lower:
    """Use `otherwise` if the loop's dtype is neither float nor complex."""
    return lambda *xs: lower(*xs) if is_inexact(xs[0].type.dtype) else otherwise(*xs)


def by_parts(lower: Lower) -> Lower:
    """Apply a function of reals to both parts of complex numbers."""
    return lambda x: ops.complex(lower(ops.real(x)), lower(ops.imag(x))) if is_complex(x.type.dtype) else lower(x)


def filled(number: float | bool) -> Lower:
    return lambda x, *others: constant(number, BOOL if isinstance(number, bool) else x.type.dtype, x.type.shape)


def _compare(lower: Lower, if_negative: bool) -> Lower:
    """Compare i64 with u64 exactly, as NumPy does: a negative number is below every unsigned one."""
    def comparison(a: Value, b: Value) -> Value:
        if a.type.dtype == b.type.dtype:
            return lower(a, b)
        signed, unsigned = (a, b) if a.type.dtype.kind == "i" else (b, a)
        negative = ops.less(signed, constant(0, signed.type.dtype, signed.type.shape))
        known = if_negative if signed is a else if_negative ^ (lower is not ops.equal and lower is not ops.not_equal)
        both = [convert(x, unsigned.type.dtype) for x in (a, b)]
        return ops.select(negative, constant(known, BOOL, negative.type.shape), lower(*both))
    return comparison


def _magnitude(x: Value) -> Value:
    return x if x.type.dtype.kind in "bu" else ops.abs(x)


def _integer_reciprocal(x: Value) -> Value:
    """1 / x rounded towards 0; 0 for 0, where NumPy's result depends on the machine."""
    magnitude = _magnitude(x)
    one, zero = (constant(number, x.type.dtype, x.type.shape) for number in (1, 0))
    return ops.select(ops.equal(magnitude, one), x, zero)


def _scaled(factor: float) -> Lower:
    return lambda x: ops.multiply(x, constant(factor, x.type.dtype, x.type.shape))


def _fmod(a: Value, b: Value) -> Value:
    """The remainder with the sign of the dividend; its derivative in the dividend is 1, also at 0."""
    if a.type.dtype.kind == "u":
        return ops.remainder(a, b)
    if not is_float(a.type.dtype):      # the absolute value of the smallest integer does not exist: subtract the divisor if signs differ
        zero, rest = constant(0, a.type.dtype, a.type.shape), ops.remainder(a, b)
        other_sign = ops.logical_and(ops.not_equal(rest, zero), ops.logical_xor(ops.less(rest, zero), ops.less(a, zero)))
        return ops.select(other_sign, ops.subtract(rest, b), rest)
    below = signbit(a)
    magnitude = ops.remainder(ops.select(below, ops.negative(a), a), ops.abs(b))
    return ops.select(below, ops.negative(magnitude), magnitude)


def signbit(x: Value) -> Value:
    """True for negative numbers and for -0.0, and for NaN whose sign bit is set."""
    bits = ops.bitcast(x)
    return ops.less(bits, ops.full_like(bits, 0))


def _copysign(a: Value, b: Value) -> Value:
    magnitude = ops.select(signbit(a), ops.negative(a), a)
    return ops.select(signbit(b), ops.negative(magnitude), magnitude)


def _heaviside(x: Value, at_zero: Value) -> Value:
    zero = constant(0.0, x.type.dtype, x.type.shape)
    step = ops.select(ops.less(x, zero), zero, constant(1.0, x.type.dtype, x.type.shape))
    return ops.select(ops.isnan(x), x, ops.select(ops.equal(x, zero), at_zero, step))


def _logaddexp2(a: Value, b: Value) -> Value:
    ln2 = _scaled(math.log(2.0))
    return _scaled(1.0 / math.log(2.0))(ops.logaddexp(ln2(a), ln2(b)))


_LOWERINGS: dict[np.ufunc, Lower] = {
    np.negative: ops.negative, np.positive: _same, np.absolute: _magnitude, np.fabs: ops.abs, np.sign: ops.sign, np.square: ops.square,
    np.reciprocal: _floating(ops.reciprocal, _integer_reciprocal),
    np.exp: ops.exp, np.exp2: ops.exp2, np.expm1: ops.expm1, np.log: ops.log, np.log2: ops.log2, np.log10: ops.log10,
    np.log1p: ops.log1p, np.sqrt: ops.sqrt, np.cbrt: ops.cbrt, np.sin: ops.sin, np.cos: ops.cos, np.tan: ops.tan,
    np.arcsin: ops.arcsin, np.arccos: ops.arccos, np.arctan: ops.arctan, np.sinh: ops.sinh, np.cosh: ops.cosh,
    np.tanh: ops.tanh, np.arcsinh: ops.arcsinh, np.arccosh: ops.arccosh, np.arctanh: ops.arctanh,
    np.deg2rad: _scaled(math.pi / 180.0), np.radians: _scaled(math.pi / 180.0), np.rad2deg: _scaled(180.0 / math.pi),
    np.degrees: _scaled(180.0 / math.pi),
    np.floor: _floating(ops.floor, _same), np.ceil: _floating(ops.ceil, _same), np.trunc: _floating(ops.trunc, _same),
    np.rint: by_parts(ops.rint),
    np.isnan: _floating(ops.isnan, filled(False)), np.isinf: _floating(ops.isinf, filled(False)),
    np.isfinite: _floating(ops.isfinite, filled(True)), np.signbit: signbit,
    np.add: ops.add, np.subtract: ops.subtract, np.multiply: ops.multiply, np.divide: ops.divide,
    np.floor_divide: ops.floor_divide, np.remainder: ops.remainder, np.fmod: _fmod, np.power: ops.power, np.float_power: ops.power,
    np.maximum: ops.maximum, np.minimum: ops.minimum, np.fmax: _floating(ops.fmax, ops.maximum), np.fmin: _floating(ops.fmin, ops.minimum),
    np.arctan2: ops.arctan2, np.hypot: ops.hypot, np.logaddexp: ops.logaddexp, np.logaddexp2: _logaddexp2,
    np.copysign: _copysign, np.heaviside: _heaviside,
    np.equal: _compare(ops.equal, False), np.not_equal: _compare(ops.not_equal, True), np.less: _compare(ops.less, True),
    np.less_equal: _compare(ops.less_equal, True), np.greater: _compare(ops.greater, False),
    np.greater_equal: _compare(ops.greater_equal, False),
    np.logical_and: _truth(ops.logical_and), np.logical_or: _truth(ops.logical_or), np.logical_xor: _truth(ops.logical_xor),
    np.logical_not: _truth(ops.logical_not),
    np.bitwise_and: ops.bitwise_and, np.bitwise_or: ops.bitwise_or, np.bitwise_xor: ops.bitwise_xor, np.invert: ops.invert,
    np.left_shift: ops.left_shift, np.right_shift: ops.right_shift,
}
for _ufunc, _lower in _LOWERINGS.items():
    LOWERINGS[_ufunc] = elementwise(_ufunc, _lower)
del LOWERINGS[np.power]     # the exponent decides on the op

_general_power = FUNCTIONS[np.power]
_SIMPLE_POWERS: dict[float, np.ufunc] = {2: np.square, 1: np.positive, 0.5: np.sqrt, -1: np.reciprocal}


@implements(np.power)
def power(x: Any, exponent: Any, *args: Any, **kwargs: Any) -> Any:
    """Equivalent of `numpy.power`; a constant exponent of 2, 1, 0.5 or -1 is a square, copy, square root or reciprocal, as in NumPy."""
    number = exponent if type(exponent) in (int, float) else None
    base = as_operand(x)
    if issubclass(type(exponent), (int, np.integer)) and exponent < 0 and isinstance(base, TracedArray) and base.dtype.kind in "biu":
        raise DTypeError(f"integers ({base.dtype}) to a negative integer power", find_user_location(),
                         hint=f"make them floats: x.astype(float) ** {exponent}")
    if number in _SIMPLE_POWERS and isinstance(base, TracedArray) and not args and not (kwargs.keys() - {"out"}):
        kinds = (kind_of(base), type(number))
        dtype = loop_dtypes(np.power, kinds, None, "same_kind")[-1]
        if base.dtype == dtype and (is_inexact(dtype) or (number == 2 and dtype != BOOL)):
            made = NotImplemented if kwargs else apply_directly(_SIMPLE_POWERS[number], (base,), False)
            return FUNCTIONS[_SIMPLE_POWERS[number]](base, **kwargs) if made is NotImplemented else made
    return _general_power(x, exponent, *args, **kwargs)


def _comparison_with_numbers(ufunc: np.ufunc) -> None:
    """Compare a Python integer that the other operand's dtype cannot hold by its value, as NumPy does."""
    plain = FUNCTIONS[ufunc]

    def call(a: Any, b: Any, *args: Any, **kwargs: Any) -> Any:
        for number, other, ordered in ((a, b, lambda n, m: ufunc(n, m)), (b, a, lambda n, m: ufunc(m, n))):
            if type(number) is int and isinstance(other, TracedArray) and other.dtype.kind in "iu":
                limits = np.iinfo(other.dtype)
                if not limits.min <= number <= limits.max:
                    answer = bool(ordered(1 if number > 0 else -1, 0))
                    return store(wrap(constant(answer, BOOL, other.shape)), kwargs.get("out"), name=ufunc.__name__)
        return plain(a, b, *args, **kwargs)

    call.__name__, call.__doc__ = ufunc.__name__, f"Equivalent of `numpy.{ufunc.__name__}`."
    implements(ufunc)(call)


for _ufunc in (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal):
    _comparison_with_numbers(_ufunc)


@implements(np.divmod)
def divmod(x1: Any, x2: Any, out1: Any = None, out2: Any = None, /, *, out: Any = None, where: Any = True, casting: Casting = "same_kind",
           order: str = "K", dtype: Any = None, subok: bool = True, signature: Any = None) -> tuple[Any, Any]:
    """Equivalent of `numpy.divmod`."""
    options = {"dtype": dtype, "casting": casting, "signature": None if signature is None else loop_of(np.divmod, signature)[:3]}
    results = FUNCTIONS[np.floor_divide](x1, x2, **options), FUNCTIONS[np.remainder](x1, x2, **options)
    return store_all(results, (out1, out2), out, casting, "divmod", where)      # type: ignore[return-value]


@implements(np.modf)
def modf(x: Any, out1: Any = None, out2: Any = None, /, *, out: Any = None, where: Any = True, casting: Casting = "same_kind",
         order: str = "K", dtype: Any = None, subok: bool = True, signature: Any = None) -> tuple[Any, Any]:
    """Equivalent of `numpy.modf`: fractional and integral part, both with the sign of `x`."""
    x = as_traced(x)
    dtype = resolve(np.modf, (x,), dtype if signature is None else loop_of(np.modf, signature), casting)[0]
    whole = ops.trunc(convert(x.value, dtype))
    fraction = ops.subtract(convert(x.value, dtype), whole)
    fraction = ops.select(ops.isinf(whole), constant(0.0, dtype, x.shape), fraction)
    results = wrap(_copysign(fraction, convert(x.value, dtype))), wrap(whole)
    return store_all(results, (out1, out2), out, casting, "modf", where)        # type: ignore[return-value]


@implements(np.where)
def where(condition: Any, *choices: Any) -> TracedArray:
    """Equivalent of `numpy.where` with three arguments; the choice not taken gets cotangent 0. Python integers wrap around."""
    if len(choices) != 2:
        raise UnsupportedError("np.where(condition) alone has a shape that depends on values", find_user_location(),
                               hint="give both choices: np.where(condition, a, b)")
    operands = [as_operand(x) for x in choices]
    dtype = common_dtype(operands)
    mask = as_traced(condition)
    shape = broadcast_shapes("where", mask, *operands)
    wrapping: list[Any] = [np.asarray(x)[()] if type(x) is int else x for x in operands]
    chosen = ops.select(broadcast(convert(mask.value, BOOL), shape), *(to_value(x, dtype, shape) for x in wrapping))
    return wrap(chosen, scalar=False)


@implements(np.clip)
def clip(a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, *, min: Any = None, max: Any = None, **kwargs: Any) -> Any:
    """Equivalent of `numpy.clip`. At a bound the derivative is shared equally between the array and the bound."""
    if (min is not None or max is not None) and (a_min is not None or a_max is not None):
        raise ValueError("Passing `min` or `max` keyword argument when `a_min` and `a_max` are provided is forbidden.")
    low, high = (a_min if min is None else min), (a_max if max is None else max)
    if (kind := as_traced(a).dtype).kind in "iu":       # integers that the dtype cannot hold are no bounds
        low = None if type(low) is int and low <= np.iinfo(kind).min else low
        high = None if type(high) is int and high >= np.iinfo(kind).max else high
    if low is None and high is None:
        return store(wrap(as_traced(a).value), out)
    if low is None:
        return FUNCTIONS[np.minimum](a, high, out=out, **kwargs)
    if high is None:
        return FUNCTIONS[np.maximum](a, low, out=out, **kwargs)
    operands = tuple(map(as_operand, (a, low, high)))
    if kwargs.get("dtype") is not None:
        dtype = dtype_argument(kwargs["dtype"])
    else:       # of bfloat16 and a Python number, loops have another dtype than `result_type` says
        dtype = resolve(np.maximum, operands[:2])[0] if is_half(kind) and all(map(is_weak, operands[1:])) else common_dtype(operands)
    shape = broadcast_shapes("clip", *operands)
    x, lowest, highest = (to_value(operand, dtype, shape) for operand in operands)
    return store(wrap(ops.minimum(ops.maximum(x, lowest), highest)), out, kwargs.get("casting", "same_kind"), "clip")


_clip_ufunc = getattr(getattr(np, "_core", None), "umath", np).clip
if isinstance(_clip_ufunc, np.ufunc):
    implements(_clip_ufunc)(lambda x, low, high, out=None, **kwargs: FUNCTIONS[np.clip](x, low, high, out=out, **kwargs))


@implements(np.round, np.around)
def round(a: Any, decimals: int = 0, out: Any = None) -> Any:
    """Equivalent of `numpy.round`: halves go to the even neighbour. The derivative is 0."""
    x = as_traced(a)
    if x.dtype == BOOL:
        x = FUNCTIONS["astype"](x, F16)      # as in NumPy
    value = x.value
    if is_complex(x.dtype):
        return store(wrap(by_parts(lambda part: round(wrap(part), decimals).value)(value)), out, name="round")
    if is_float(x.dtype) or decimals < 0:
        floating = convert(value, x.dtype if is_float(x.dtype) else F64)
        scale = constant(10.0 ** abs(decimals), floating.type.dtype, x.shape)
        if decimals > 0:
            value = ops.divide(ops.rint(ops.multiply(floating, scale)), scale)
        else:
            value = ops.rint(floating) if decimals == 0 else ops.multiply(ops.rint(ops.divide(floating, scale)), scale)
        value = convert(value, x.dtype)
    return store(wrap(value), out, name="round")


@implements("astype")
def astype(x: Any, dtype: Any, casting: Casting = "unsafe", order: str = "K") -> TracedArray:
    """Convert `x` to another dtype, always as a new array."""
    x, target = as_traced(x), dtype_argument(dtype)
    if not np.can_cast(x.dtype, target, casting):
        raise DTypeError(f"cannot cast from {x.dtype} to {target} with casting rule {casting!r}", find_user_location())
    return in_order_of(wrap(convert(x.value, target), scalar=x.immutable), order)


if hasattr(np, "astype"):
    @implements(np.astype)
    def astype_function(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> TracedArray:
        """Equivalent of `numpy.astype`."""
        return as_traced(x).astype(dtype, copy=copy)        # type: ignore[no-any-return]
