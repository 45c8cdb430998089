"""Products of matrices: all become one batched matmul of reshaped operands."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.errors import ShapeError
from adjit.ir.graph import Value
from adjit.ir.types import BOOL, I64, is_half
from adjit.tracer import lowering
from adjit.tracer.array import TracedArray, as_traced, wrap
from adjit.tracer.dispatch import implements
from adjit.tracer.functions.shapes import as_array, moveaxis, normalize_axes
from adjit.tracer.functions.ufuncs import store
from adjit.tracer.promotion import Casting, common_dtype, resolve
from adjit.tracer.registry import FUNCTIONS
from adjit.tracer.user_location import find_user_location


def contract(a: Value, b: Value) -> Value:
    """Multiply `[*batch, m, k] x [*batch, k, n]` with equal batches; bools as or of ands."""
    if a.type.dtype == BOOL:
        return lowering.convert(contract(lowering.convert(a, I64), lowering.convert(b, I64)), BOOL)
    return ops.matmul(a, b, transpose_a=False, transpose_b=False)


def describe(x: TracedArray) -> str:
    return f"{x._value.type}\n        {x._origin()}"


@implements(np.matmul)
def matmul(x1: Any, x2: Any, /, out: Any = None, *, dtype: Any = None, casting: Casting = "same_kind", order: str = "K",
           subok: bool = True) -> Any:
    """Equivalent of `numpy.matmul`. A stack of matrices times one matrix is a single product of a taller matrix."""
    a, b = as_traced(x1), as_traced(x2)
    if not a.ndim or not b.ndim:
        raise ShapeError("matmul: a scalar operand, use * instead", find_user_location())
    inner = b.shape[-2] if b.ndim > 1 else b.shape[0]
    if a.shape[-1] != inner:
        sizes = ["x".join(map(str, x.shape)) for x in (a, b)]
        as_pytorch = f" (mat1 and mat2 shapes cannot be multiplied ({' and '.join(sizes)}))" if a.ndim == b.ndim == 2 else ""
        raise ShapeError(f"matmul: the shapes {a.shape} and {b.shape} do not fit: {a.shape[-1]} columns, {inner} rows"
                         f"{as_pytorch}\n    operand 1: {a._origin()}\n    operand 2: {b._origin()}", find_user_location())
    loops = resolve(np.matmul, (a, b), dtype, casting)
    left, right = lowering.convert(a.value, loops[0]), lowering.convert(b.value, loops[1])
    if a.ndim == 1:
        left = lowering.reshape(left, (1, a.size))
    if b.ndim == 1:
        right = lowering.reshape(right, (b.size, 1))
    try:
        batch = lowering.broadcast_shapes(left.type.shape[:-2], right.type.shape[:-2])
    except ValueError:
        raise ShapeError(f"matmul: the stacks of {a.shape} and {b.shape} cannot be broadcast together"
                         f"\n    operand 1: {a._origin()}\n    operand 2: {b._origin()}", find_user_location()) from None
    rows, columns = left.type.shape[-2], right.type.shape[-1]
    if (right.type.rank == 2 or math.prod(right.type.shape[:-2]) == 1) and right.type.rank <= left.type.rank:
        tall = left if left.type.rank == 2 else lowering.reshape(left, (math.prod(left.type.shape[:-1]), inner))
        product = contract(tall, lowering.reshape(right, (inner, columns)))
    else:
        product = contract(lowering.broadcast(left, (*batch, rows, inner)), lowering.broadcast(right, (*batch, inner, columns)))
    shape = (*batch, *((rows,) if a.ndim > 1 else ()), *((columns,) if b.ndim > 1 else ()))
    return store(wrap(lowering.reshape(product, shape), strides=lowering.contiguous_strides(shape)), out, casting, "matmul")


if hasattr(np, "vecdot"):
    @implements(np.vecdot)
    def vecdot(x1: Any, x2: Any, /, out: Any = None, *, axis: int = -1, keepdims: bool = False, dtype: Any = None,
               casting: Casting = "same_kind", order: str = "K", subok: bool = True) -> Any:
        """Equivalent of `numpy.vecdot`."""
        first = FUNCTIONS[np.conjugate](moveaxis(x1, axis, -1))
        product = FUNCTIONS[np.multiply](first, moveaxis(x2, axis, -1), dtype=dtype, casting=casting)
        result = FUNCTIONS[np.sum](product, axis=-1, dtype=product.dtype)
        if keepdims:
            result = FUNCTIONS[np.expand_dims](result, axis)
        return store(wrap(result.value), out, casting, "vecdot")


if hasattr(np, "matvec"):
    def _product_with_vector(ufunc: np.ufunc, x1: Any, x2: Any, axes: Any) -> tuple[TracedArray, TracedArray]:
        """Operands of `matvec` or `vecmat`, their axes at the end."""
        operands = [as_traced(x1), as_traced(x2)]
        for place, core in enumerate((2, 1) if ufunc is np.matvec else (1, 2)):
            if operands[place].ndim < core:
                raise ShapeError(f"{ufunc.__name__}: Input operand {place} does not have enough dimensions (has {operands[place].ndim}, "
                                 f"gufunc core with signature {ufunc.signature} requires {core})", find_user_location())
            if axes is not None:
                operands[place] = moveaxis(operands[place], axes[place], (-2, -1)[2 - core:])
        return operands[0], operands[1]

    @implements(np.matvec)
    def matvec(x1: Any, x2: Any, /, out: Any = None, *, axes: Any = None, dtype: Any = None, casting: Casting = "same_kind",
               order: str = "K", subok: bool = True) -> Any:
        """Equivalent of `numpy.matvec`."""
        a, b = _product_with_vector(np.matvec, x1, x2, axes)
        result = matmul(a, b[..., None], dtype=dtype, casting=casting)[..., 0]
        return store(wrap(result.value), out, casting, "matvec")

    @implements(np.vecmat)
    def vecmat(x1: Any, x2: Any, /, out: Any = None, *, axes: Any = None, dtype: Any = None, casting: Casting = "same_kind",
               order: str = "K", subok: bool = True) -> Any:
        """Equivalent of `numpy.vecmat`."""
        a, b = _product_with_vector(np.vecmat, x1, x2, axes)
        result = matmul(FUNCTIONS[np.conjugate](a)[..., None, :], b, dtype=dtype, casting=casting)[..., 0, :]
        return store(wrap(result.value), out, casting, "vecmat")


@implements(np.dot)
def dot(a: Any, b: Any, out: Any = None) -> Any:
    """Equivalent of `numpy.dot`; a Python number has a dtype here, as in NumPy."""
    x, y = as_array(a), as_array(b)
    if not x.ndim or not y.ndim:
        return FUNCTIONS[np.multiply](x, y, out=out)
    if y.ndim <= 2:
        return store(_in_common_dtype(matmul(x, y), x, y), out, name="dot") if is_half(x.dtype) else matmul(x, y, out=out)
    return store(tensordot(x, y, axes=((-1,), (-2,))), out, name="dot")


@implements(np.inner)
def inner(a: Any, b: Any, /) -> Any:
    """Equivalent of `numpy.inner`; a Python number has a dtype here, as in NumPy."""
    x, y = as_array(a), as_array(b)
    if not x.ndim or not y.ndim:
        return FUNCTIONS[np.multiply](x, y)
    return tensordot(x, y, axes=((-1,), (-1,)))[()]


@implements(np.vdot)
def vdot(a: Any, b: Any, /) -> Any:
    """Equivalent of `numpy.vdot`."""
    x, y = FUNCTIONS[np.conjugate](FUNCTIONS[np.ravel](a)), FUNCTIONS[np.ravel](b)
    return _in_common_dtype(matmul(x, y), x, y)


def _in_common_dtype(product: TracedArray, x: TracedArray, y: TracedArray) -> Any:
    """The product in the dtype of both operands: of bfloat16 `matmul` alone is float32."""
    return FUNCTIONS["astype"](product, common_dtype((x, y))) if is_half(x.dtype) else product


@implements(np.outer)
def outer(a: Any, b: Any, out: Any = None) -> Any:
    """Equivalent of `numpy.outer`."""
    return FUNCTIONS[np.multiply](FUNCTIONS[np.ravel](a)[:, None], FUNCTIONS[np.ravel](b)[None, :], out=out)


@implements(np.tensordot)
def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """Equivalent of `numpy.tensordot`; a Python number has a dtype here, as in NumPy."""
    x, y = as_array(a), as_array(b)
    if isinstance(axes, (int, np.integer)):
        axes = (range(x.ndim - int(axes), x.ndim), range(int(axes)))
    first, second = (normalize_axes(tuple(each) if not isinstance(each, (int, np.integer)) else each, side.ndim)
                     for each, side in zip(axes, (x, y), strict=True))
    if [x.shape[i] for i in first] != [y.shape[i] for i in second]:
        raise ShapeError(f"tensordot: the axes {first} of {x.shape} and {second} of {y.shape} do not fit", find_user_location())
    loops = resolve(np.matmul, (x, y))
    rest_x, rest_y = ([i for i in range(side.ndim) if i not in used] for side, used in ((x, first), (y, second)))
    summed = math.prod(x.shape[i] for i in first)
    rows, columns = [x.shape[i] for i in rest_x], [y.shape[i] for i in rest_y]
    left = lowering.reshape(lowering.transpose(lowering.convert(x.value, loops[0]), (*rest_x, *first)), (math.prod(rows), summed))
    right = lowering.reshape(lowering.transpose(lowering.convert(y.value, loops[1]), (*second, *rest_y)), (summed, math.prod(columns)))
    shape = (*rows, *columns)
    product = wrap(lowering.reshape(contract(left, right), shape), scalar=False, strides=lowering.contiguous_strides(shape))
    return _in_common_dtype(product, x, y)
