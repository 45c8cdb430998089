"""Tables by op: how it is done on parts of complex numbers, or on complex numbers in memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.graph import Op, Value, number_of
from adjit.ir.ops.broadcasting import other_axes
from adjit.ir.ops.creation import full_like, table_attributes
from adjit.ir.types import I64, is_complex, real_dtype
from adjit.passes.complex_numbers import arithmetic, functions, inverse_functions
from adjit.passes.complex_numbers.arithmetic import Pair

Producers = Mapping[Value, Op]
Rule = Callable[[Op, Sequence[Any], Producers], "Pair | Value"]
"""Parts of the result (a real value where the result is real) from an op, its operands (a pair for a complex one), and the ops that make
values of the graph."""


def _on_operands(function: Callable[..., Any]) -> Rule:
    return lambda op, operands, producers: function(*operands)


# -- movement and sums: the same op on both parts


def _part_of_attribute(value: Any, index: int) -> Any:
    return (value.real, value.imag)[index] if isinstance(value, complex) else value if not index else 0.0


def _by_parts(op: Op, operands: Sequence[Any], producers: Producers) -> Pair:
    """The op on the real parts and on the imaginary parts; operands that are not complex, such as indices, are the same for both."""
    real, imag = (op.definition(*(operand[index] if isinstance(operand, tuple) else operand for operand in operands), **(
        {**op.attrs, "value": _part_of_attribute(op.attrs["value"], index)} if "value" in op.attrs else op.attrs)) for index in (0, 1))
    return real, imag


def _constant(op: Op, operands: Sequence[Any], producers: Producers) -> Pair:
    number, dtype = op.attrs["value"], real_dtype(op.attrs["dtype"])
    real, imag = (ops.constant(value=_part_of_attribute(number, index), dtype=dtype, shape=op.attrs["shape"]) for index in (0, 1))
    return real, imag


def _table(op: Op, operands: Sequence[Any], producers: Producers) -> Pair:
    array = np.frombuffer(op.attrs["data"], op.attrs["dtype"]).reshape(op.attrs["shape"])
    real, imag = (ops.table(**table_attributes(np.ascontiguousarray(part))) for part in (array.real, array.imag))
    return real, imag


def _convert(op: Op, operands: Sequence[Any], producers: Producers) -> Pair:
    (x,), dtype = operands, real_dtype(op.attrs["dtype"])
    if isinstance(x, tuple):
        real, imag = (ops.convert(part, dtype=dtype) for part in x)
        return real, imag
    real = x if x.type.dtype == dtype else ops.convert(x, dtype=dtype)
    return real, full_like(real, 0.0)


def _view_as_real(op: Op, operands: Sequence[Any], producers: Producers) -> Value:
    shape = (*op.operands[0].type.shape, 1)
    return ops.concatenate(*(ops.reshape(part, shape=shape) for part in operands[0]), axis=len(shape) - 1)


def _view_as_complex(op: Op, operands: Sequence[Any], producers: Producers) -> Pair:
    (x,), shape = operands, op.result.type.shape
    real, imag = (ops.reshape(ops.slice(x, start=(*(0 for _ in shape), index), stop=(*shape, index + 1), step=(1,) * (len(shape) + 1)),
                              shape=shape) for index in (0, 1))
    return real, imag


# -- products of arrays


def _bilinear(op: Op, operands: Sequence[Any], producers: Producers) -> Pair:
    """Four real products. Three (C. F. Gauss) would cost digits: the imaginary part becomes a difference of larger numbers."""
    (a, b), (c, d) = operands

    def product(left: Value, right: Value) -> Value:
        return op.definition(left, right, **op.attrs)

    return ops.subtract(product(a, c), product(b, d)), ops.add(product(a, d), product(b, c))


# -- products along axes


def _ordered(x: Pair, order: Sequence[int]) -> Pair:
    real, imag = (ops.transpose(part, permutation=tuple(order)) for part in x)
    return real, imag


def _reshaped(x: Pair, shape: Sequence[int]) -> Pair:
    real, imag = (ops.reshape(part, shape=tuple(shape)) for part in x)
    return real, imag


def _cut(x: Pair, start: int, stop: int) -> Pair:
    """Elements along the last axis."""
    outer = x[0].type.shape[:-1]
    real, imag = (ops.slice(part, start=(*(0 for _ in outer), start), stop=(*outer, stop), step=(1,) * (len(outer) + 1)) for part in x)
    return real, imag


def _joined(a: Pair, b: Pair) -> Pair:
    axis = a[0].type.rank - 1
    return ops.concatenate(a[0], b[0], axis=axis), ops.concatenate(a[1], b[1], axis=axis)


def _with_last(x: Pair, axes: Sequence[int]) -> Pair:
    """Parts with `axes` as one last axis."""
    shape = x[0].type.shape
    kept = other_axes(len(shape), tuple(axes))
    return _reshaped(_ordered(x, (*kept, *axes)), (*(shape[axis] for axis in kept), math.prod(shape[axis] for axis in axes)))


def _reduce_prod(op: Op, operands: Sequence[Any], producers: Producers) -> Pair:
    """Products of halves, until one element is left."""
    x = _with_last(operands[0], op.attrs["axes"])
    length = x[0].type.shape[-1]
    if not length:
        one = ops.constant(value=1.0, dtype=x[0].type.dtype, shape=op.result.type.shape)
        return one, full_like(one, 0.0)
    while length > 1:
        half = length // 2
        product = arithmetic.multiply(_cut(x, 0, half), _cut(x, half, 2 * half))
        x = _joined(product, _cut(x, 2 * half, length)) if length % 2 else product
        length -= half
    return _reshaped(x, op.result.type.shape)


def _cumprod(op: Op, operands: Sequence[Any], producers: Producers) -> Pair:
    """Products over 2, 4, 8, ... elements up to each one (Hillis and Steele, 1986)."""
    (x,), axis, reverse = operands, op.attrs["axis"], op.attrs["reverse"]
    shape, distance = op.result.type.shape, 1
    while distance < shape[axis]:
        moved = shape[axis] - distance

        def part(x: Value, first: int, count: int) -> Value:
            start, stop = [0] * len(shape), list(shape)
            start[axis], stop[axis] = first, first + count
            return ops.slice(x, start=tuple(start), stop=tuple(stop), step=(1,) * len(shape))

        first, second = (0, distance) if not reverse else (distance, 0)
        products = arithmetic.multiply((part(x[0], first, moved), part(x[1], first, moved)),
                                       (part(x[0], second, moved), part(x[1], second, moved)))
        rest = [part(each, 0 if not reverse else moved, distance) for each in x]
        pieces = [(kept, product) if not reverse else (product, kept) for kept, product in zip(rest, products, strict=True)]
        x = ops.concatenate(*pieces[0], axis=axis), ops.concatenate(*pieces[1], axis=axis)
        distance *= 2
    return x        # type: ignore[no-any-return]


# -- order


def _argsort(op: Op, operands: Sequence[Any], producers: Producers) -> Value:
    """Stable sorts by imaginary part, by real part, and by which parts are NaN, as NumPy orders them: none, imaginary, real, both."""
    (x,), axis = operands, op.attrs["axis"]
    order: Value | None = None
    of_real, of_imag = (ops.convert(ops.isnan(part), dtype=I64) for part in x)
    kind = ops.add(ops.add(of_real, of_real), of_imag)
    for key in (x[1], x[0], kind):
        if order is None:
            order = ops.argsort(key, axis=axis)
        else:
            order = ops.take_along_axis(order, ops.argsort(ops.take_along_axis(key, order, axis=axis), axis=axis), axis=axis)
    assert order is not None
    return order


def _sort(op: Op, operands: Sequence[Any], producers: Producers) -> Pair:
    """The elements at the indices that sort them."""
    axis, first, shape = op.attrs["axis"], op.attrs["first"], op.operands[0].type.shape
    start, stop = (tuple(place if i == axis else whole for i, whole in enumerate(all)) for place, all in (
        (first, (0,) * len(shape)), (first + op.attrs["count"], shape)))
    order = ops.slice(_argsort(op, operands, producers), start=start, stop=stop, step=(1,) * len(shape))
    real, imag = (ops.take_along_axis(part, order, axis=axis) for part in operands[0])
    return real, imag


def _extreme_index(x: Pair, axis: int, largest: bool) -> Value:
    """Index of the first extreme element, the first NaN if there is one: the real parts decide, then the imaginary ones."""
    shape = x[0].type.shape
    kept = other_axes(len(shape), (axis,))
    reduce, worst = (ops.reduce_max, -math.inf) if largest else (ops.reduce_min, math.inf)

    def along(value: Value) -> Value:
        return ops.broadcast(value, shape=shape, axes=kept)

    nan = arithmetic.isnan(x)
    real = ops.select(nan, full_like(x[0], worst), x[0])
    leading = ops.logical_and(ops.equal(real, along(reduce(real, axes=(axis,)))), ops.logical_not(nan))
    imag = ops.select(leading, x[1], full_like(x[1], worst))
    best = ops.logical_and(leading, ops.equal(imag, along(reduce(imag, axes=(axis,)))))
    some = ops.reduce_or(nan, axes=(axis,))
    return ops.select(some, ops.argmax(nan, axis=axis), ops.argmax(best, axis=axis))


def _argmax(op: Op, operands: Sequence[Any], producers: Producers) -> Value:
    return _extreme_index(operands[0], op.attrs["axis"], op.name == "argmax")


def _reduce_extremum(op: Op, operands: Sequence[Any], producers: Producers) -> Pair:
    """The element at the extreme index."""
    x = _with_last(operands[0], op.attrs["axes"])
    outer = x[0].type.shape[:-1]
    index = ops.reshape(_extreme_index(x, len(outer), op.name == "reduce_max"), shape=(*outer, 1))
    return _reshaped((ops.take_along_axis(x[0], index, axis=len(outer)), ops.take_along_axis(x[1], index, axis=len(outer))), outer)


# -- powers


def _power(op: Op, operands: Sequence[Any], producers: Producers) -> Pair:
    """A power whose exponent is known to be a small whole number is a product, as in NumPy."""
    base, exponent = operands
    number = _known_number(op.operands[1], producers)
    if number is not None and complex(number) in functions.WHOLE_EXPONENTS:
        return functions.whole_power(base, int(complex(number).real))
    return functions.power(base, exponent)


def _known_number(value: Value, producers: Producers) -> Any:
    op = producers.get(value)
    while op is not None and op.name in ("broadcast", "reshape", "convert"):
        op = producers.get(op.operands[0])
    return number_of(op)


_ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "real": lambda z: z[0], "imag": lambda z: z[1], "complex": lambda x, y: (x, y), "conj": lambda z: (z[0], ops.negative(z[1])),
    **{name: getattr(arithmetic, name) for name in (
        "multiply", "square", "divide", "reciprocal", "strong_multiply", "strong_product", "strong_divide", "sign", "equal", "not_equal",
        "less", "less_equal", "greater", "greater_equal", "isnan", "isinf", "isfinite", "maximum", "minimum", "fmax", "fmin")},
    "abs": arithmetic.absolute,
    **{name: getattr(functions, name) for name in functions.FUNCTIONS},
    **{name: getattr(inverse_functions, name) for name in ("arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh")},
}

RULES: dict[str, Rule] = {
    **{name: _on_operands(function) for name, function in _ELEMENTWISE.items()},
    **dict.fromkeys((
        "add", "subtract", "negative", "select", "stop_gradient", "reduce_sum", "cumsum", "reshape", "transpose", "flip", "slice",
        "broadcast", "pad", "concatenate", "update_slice", "add_slice", "take", "take_along_axis", "scatter_add", "scatter_add_along_axis",
        "scatter_set", "window_sum"), _by_parts),
    **dict.fromkeys(("matmul", "convolution", "convolution_kernel_gradient"), _bilinear),
    "constant": _constant, "table": _table, "convert": _convert, "view_as_real": _view_as_real, "view_as_complex": _view_as_complex,
    "reduce_prod": _reduce_prod, "cumprod": _cumprod, "argsort": _argsort, "sort": _sort, "argmax": _argmax, "argmin": _argmax,
    "reduce_max": _reduce_extremum, "reduce_min": _reduce_extremum, "power": _power,
}


# -- movement in memory, through views as pairs of reals


def _through_reals(attributes: Callable[[Mapping[str, Any]], dict[str, Any]]) -> Callable[[Op, Sequence[Value]], Value]:
    def move(op: Op, operands: Sequence[Value]) -> Value:
        reals = (ops.view_as_real(value) if is_complex(value.type.dtype) else value for value in operands)
        return ops.view_as_complex(op.definition(*reals, **attributes(op.attrs)))
    return move


def _longer(**last: int) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """Attributes with an entry for the axis of the parts."""
    return lambda attrs: {name: (*value, last[name]) if name in last else value for name, value in attrs.items()}


def _permuted(attrs: Mapping[str, Any]) -> dict[str, Any]:
    order = attrs["permutation"]
    return {"permutation": (*order, len(order))}


IN_MEMORY: dict[str, tuple[int | None, Callable[[Op, Sequence[Value]], Value]]] = {
    "reshape": (1, lambda op, operands: ops.reshape(operands[0], **op.attrs)),
    "view_as_real": (1, lambda op, operands: ops.view_as_real(operands[0])),
    "view_as_complex": (1, lambda op, operands: ops.view_as_complex(operands[0])),
    "slice": (1, _through_reals(_longer(start=0, stop=2, step=1))),
    "transpose": (1, _through_reals(_permuted)),
    "flip": (1, _through_reals(dict)),
    "take": (1, _through_reals(dict)),
    "concatenate": (None, _through_reals(dict)),
    "update_slice": (1, _through_reals(_longer(start=0, step=1))),
    "add_slice": (1, _through_reals(_longer(start=0, step=1))),
    "scatter_set": (1, _through_reals(dict)),
    "scatter_add": (1, _through_reals(dict)),
}
"""Ops that move arrays in memory: the number of leading operands that have to be in memory (None: all), and the op on them."""
