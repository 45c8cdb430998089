"""Functions that make tensors: filled with numbers, sequences, random ones; PyTorch's names.

>>> zeros(2)
tensor([0., 0.])

They take `dtype`, `requires_grad` and `device="cpu"`; floating-point ones are float32 unless `dtype` says otherwise; those with sizes and
sequences write into `out`. Random functions draw from the default generator, see `adjit.manual_seed`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from inspect import unwrap
from typing import Any

import numpy as np

from adjit.codegen.numpy.chunks import MANY_ELEMENTS
from adjit.codegen.numpy.op_functions import filled
from adjit.dtypes import preserve_format
from adjit.eager.apply import apply
from adjit.eager.device import CPU, chosen, device_of
from adjit.eager.generator import Generator, next_key
from adjit.eager.modes import modes
from adjit.eager.tensor import Tensor, as_tensor, new_tensor, own_tensor, tensor
from adjit.eager.transfer import moved
from adjit.ir.errors import ArgumentError, DTypeError, ShapeError
from adjit.ir.types import is_float
from adjit.tracer import random
from adjit.tracer.functions import creation
from adjit.tracer.promotion import dtype_argument
from adjit.tracer.scope import is_tracing
from adjit.tracer.user_location import find_user_location

Size = int | Sequence[int] | None

_FULL = unwrap(creation.full)
_UNIFORM, _NORMAL, _RANDINT, _PERMUTATION = (unwrap(draw) for draw in (random.uniform, random.normal, random.randint, random.permutation))


# -- filled


def zeros(*sizes: int | Sequence[int], size: Size = None, dtype: Any = None, requires_grad: bool = False, device: Any = None,
          out: Tensor | None = None) -> Tensor:
    """Make a tensor of zeros: `zeros(2, 3)` or `zeros((2, 3))`.

    >>> zeros(2, 3).shape, zeros((2,)).dtype
    ((2, 3), dtype('float32'))
    """
    return full(sizes_of(sizes, size), 0, float_or(dtype, out), requires_grad, device, out)


def ones(*sizes: int | Sequence[int], size: Size = None, dtype: Any = None, requires_grad: bool = False, device: Any = None,
         out: Tensor | None = None) -> Tensor:
    """Make a tensor of ones.

    >>> ones(2)
    tensor([1., 1.])
    """
    return full(sizes_of(sizes, size), 1, float_or(dtype, out), requires_grad, device, out)


def empty(*sizes: int | Sequence[int], size: Size = None, dtype: Any = None, requires_grad: bool = False, device: Any = None,
          memory_format: Any = None, out: Tensor | None = None) -> Tensor:
    """Make a tensor to be filled; it holds zeros, in rows whatever `memory_format` says.

    >>> empty(2).shape
    (2,)
    """
    return zeros(*sizes, size=size, dtype=dtype, requires_grad=requires_grad, device=device, out=out)


def full(size: Any, fill_value: Any, dtype: Any = None, requires_grad: bool = False, device: Any = None,
         out: Tensor | None = None) -> Tensor:
    """Make a tensor filled with one number: float32 for floats, int64 for ints, bool for bools, unless `dtype` says otherwise.

    >>> full((2,), 3), full((2,), 0.5).dtype
    (tensor([3, 3]), dtype('float32'))
    """
    if dtype is None:
        dtype = out.dtype if out is not None else modes.default_float if isinstance(fill_value, float) else as_tensor(fill_value).dtype
    sizes, kind = sizes_of((size,)), dtype_argument(dtype)
    is_plain = kind.kind in "biufc" and type(fill_value) in (_PLAIN if kind.kind in "fc" else _WHOLE) and -1 < fill_value < 2
    if is_plain and min(sizes, default=0) >= 0 and not is_tracing():
        return finished(_filled(sizes, kind, fill_value), requires_grad, device, out)
    made: Tensor = apply(_FULL, (sizes, fill_value, kind))
    return finished(made.detach(), requires_grad, device, out)


def _filled(sizes: tuple[int, ...], dtype: np.dtype, number: Any) -> Tensor:
    if number and math.prod(sizes) >= MANY_ELEMENTS:
        return new_tensor(filled(number, sizes, dtype))
    array = np.empty(sizes, dtype) if number else np.zeros(sizes, dtype)
    if number:
        array.fill(number)
    return new_tensor(array)


_WHOLE = frozenset({bool, int})
_PLAIN = _WHOLE | {float}


def zeros_like(input: Any, dtype: Any = None, requires_grad: bool = False, device: Any = None,
               memory_format: Any = None) -> Tensor:
    """Make a tensor of zeros in the shape and dtype of another tensor.

    >>> zeros_like(tensor([1.0, 2.0]))
    tensor([0., 0.])
    """
    return full_like(input, 0, dtype, requires_grad, device, memory_format)


def ones_like(input: Any, dtype: Any = None, requires_grad: bool = False, device: Any = None,
              memory_format: Any = None) -> Tensor:
    """Make a tensor of ones in the shape and dtype of another tensor.

    >>> ones_like(tensor([1, 2]))
    tensor([1, 1])
    """
    return full_like(input, 1, dtype, requires_grad, device, memory_format)


def empty_like(input: Any, dtype: Any = None, requires_grad: bool = False, device: Any = None,
               memory_format: Any = None) -> Tensor:
    """Make a tensor to be filled, in the shape and dtype of another tensor; it holds zeros.

    >>> empty_like(tensor([1.0, 2.0])).shape
    (2,)
    """
    return full_like(input, 0, dtype, requires_grad, device, memory_format)


def full_like(input: Any, fill_value: Any, dtype: Any = None, requires_grad: bool = False, device: Any = None,
              memory_format: Any = None) -> Tensor:
    """Make a tensor filled with one number, in the shape and dtype of another tensor.

    >>> full_like(tensor([1.0, 2.0]), 7.0)
    tensor([7., 7.])
    """
    if dtype is None and type(fill_value) is int and 0 <= fill_value < 2 and isinstance(input, Tensor) and not is_tracing():
        array = input.array
        if array.dtype.kind in "biufc":
            is_in_rows = type(array) is not np.ndarray or array.flags.c_contiguous or 0 in array.strides
            if is_in_rows or memory_format not in (None, preserve_format):
                return finished(_filled(array.shape, array.dtype, fill_value), requires_grad, _beside(input, device))
            made = np.empty_like(array, subok=False)        # laid out as the other one is, as in PyTorch
            made.fill(fill_value)
            return finished(new_tensor(made), requires_grad, _beside(input, device))
    like = as_tensor(input)
    return full(like.shape, fill_value, like.dtype if dtype is None else dtype, requires_grad, _beside(like, device))


def _beside(like: Tensor, device: Any) -> Any:
    """The device that is asked for, or that of another tensor; None where tensors are made anyway."""
    if device is not None:
        return device
    there = device_of(like.array)
    return None if modes.default_device is None and (is_tracing() or there is CPU) else there


# -- sequences of numbers


def arange(start: Any = None, end: Any = None, step: Any = 1, dtype: Any = None, requires_grad: bool = False, device: Any = None,
           out: Tensor | None = None) -> Tensor:
    """Make the numbers from `start` (0) below `end`: int64 if all are integers, else float32.

    >>> arange(3), arange(1.0, 2.0, 0.5)
    (tensor([0, 1, 2]), tensor([1.0000, 1.5000]))
    """
    first, last = (0, start) if end is None else (0 if start is None else start, end)
    if last is None:
        raise TypeError("arange() takes an end: arange(3), arange(1, 3) or arange(end=3)")
    if not isinstance(step, Tensor) and ((last < first and step > 0) or (last > first and step < 0)):
        raise ArgumentError(f"arange({first}, {last}, {step}): upper bound and lower bound inconsistent with step sign",
                            find_user_location())
    array = np.arange(first, last, step)
    wanted = dtype_argument(dtype) if dtype is not None else out.dtype if out is not None else _default(array.dtype)
    return finished(own_tensor(array.astype(wanted, copy=False)), requires_grad, device, out)


def linspace(start: float, end: float, steps: int, dtype: Any = None, requires_grad: bool = False, device: Any = None,
             out: Tensor | None = None) -> Tensor:
    """Make `steps` numbers from `start` to `end`, both included, at equal distances.

    >>> linspace(0.0, 1.0, 3)
    tensor([0.0000, 0.5000, 1.0000])
    """
    array = np.linspace(start, end, operator.index(steps))
    return finished(tensor(array, float_or(dtype, out)), requires_grad, device, out)


def eye(n: int, m: int | None = None, dtype: Any = None, requires_grad: bool = False, device: Any = None,
        out: Tensor | None = None) -> Tensor:
    """Make a matrix with ones on its diagonal.

    >>> eye(2)
    tensor([[1., 0.],
            [0., 1.]])
    """
    return finished(tensor(np.eye(n, m), float_or(dtype, out)), requires_grad, device, out)


# -- random


def rand(*sizes: int | Sequence[int], size: Size = None, dtype: Any = None, requires_grad: bool = False, device: Any = None,
         generator: Generator | None = None, out: Tensor | None = None) -> Tensor:
    """Draw uniform numbers in [0, 1).

    >>> rand(2, 3).shape
    (2, 3)
    """
    return _drawn(_UNIFORM, sizes_of(sizes, size), dtype_argument(float_or(dtype, out)), requires_grad, device, generator, out)


def randn(*sizes: int | Sequence[int], size: Size = None, dtype: Any = None, requires_grad: bool = False, device: Any = None,
          generator: Generator | None = None, out: Tensor | None = None) -> Tensor:
    """Draw numbers of the standard normal distribution.

    >>> randn(2, 3).shape
    (2, 3)
    """
    return _drawn(_NORMAL, sizes_of(sizes, size), dtype_argument(float_or(dtype, out)), requires_grad, device, generator, out)


def rand_like(input: Any, dtype: Any = None, requires_grad: bool = False, device: Any = None,
              memory_format: Any = None) -> Tensor:
    """Draw uniform numbers in [0, 1), in the shape and dtype of another tensor.

    >>> rand_like(tensor([1.0, 2.0])).dtype
    dtype('float32')
    """
    like = as_tensor(input)
    return rand(like.shape, dtype=like.dtype if dtype is None else dtype, requires_grad=requires_grad, device=_beside(like, device))


def randn_like(input: Any, dtype: Any = None, requires_grad: bool = False, device: Any = None,
               memory_format: Any = None) -> Tensor:
    """Draw numbers of the standard normal distribution, in the shape and dtype of another tensor.

    >>> randn_like(tensor([1.0, 2.0])).shape
    (2,)
    """
    like = as_tensor(input)
    return randn(like.shape, dtype=like.dtype if dtype is None else dtype, requires_grad=requires_grad, device=_beside(like, device))


def randint(low: Any = 0, high: Any = None, size: Any = None, dtype: Any = None, requires_grad: bool = False, device: Any = None,
            generator: Generator | None = None, out: Tensor | None = None) -> Tensor:
    """Draw integers from `low` (0) below `high`, int64: `randint(10, (3,))`, `randint(5, 10, (3,))` or `randint(high=10, size=(3,))`.

    >>> bool((randint(5, 10, (100,)) >= 5).all())
    True
    """
    if size is None:
        low, high, size = 0, low, high
    elif high is None:
        low, high = 0, low
    made: Tensor = apply(_RANDINT, (next_key(generator), sizes_of((size,)), operator.index(low), operator.index(high)))
    return finished(made if dtype is None else made.to(dtype), requires_grad, device, out)


def randperm(n: int, dtype: Any = None, requires_grad: bool = False, device: Any = None, generator: Generator | None = None,
             out: Tensor | None = None) -> Tensor:
    """Return the integers below `n` in random order.

    >>> sorted(randperm(4).tolist())
    [0, 1, 2, 3]
    """
    made: Tensor = apply(_PERMUTATION, (next_key(generator), operator.index(n)))
    return finished(made if dtype is None else made.to(dtype), requires_grad, device, out)


def randint_like(input: Any, low: Any = 0, high: Any = None, dtype: Any = None, requires_grad: bool = False, device: Any = None,
                 memory_format: Any = None) -> Tensor:
    """Draw integers from `low` (0) below `high`, in the shape and dtype of a tensor: `randint_like(x, 10)` or `randint_like(x, 5, 10)`.

    >>> randint_like(tensor([1.0, 2.0]), 5).dtype
    dtype('float32')
    """
    like = as_tensor(input)
    return randint(low, high, like.shape, like.dtype if dtype is None else dtype, requires_grad, _beside(like, device))


def empty_strided(size: Any, stride: Any, dtype: Any = None, requires_grad: bool = False, device: Any = None) -> Tensor:
    """Make a tensor to be filled whose dimensions lie in memory in the order of these strides; it holds zeros.

    >>> empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """
    sizes, steps = sizes_of((size,)), sizes_of((stride,))
    order = sorted(range(len(sizes)), key=lambda axis: -steps[axis])
    made = zeros([sizes[axis] for axis in order], dtype=dtype).permute([order.index(axis) for axis in range(len(sizes))])
    return finished(made.detach(), requires_grad, device)


def asarray(obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None, requires_grad: bool = False) -> Tensor:
    """Make a tensor of an array, a list or a tensor; on the same memory where that is possible, unless `copy` is True.

    >>> asarray([1.0, 2.0])
    tensor([1., 2.])
    """
    made = tensor(obj, dtype, device=device) if copy else as_tensor(obj, dtype, chosen(device))
    return finished(made, True, device) if requires_grad and made.is_leaf else made


def frombuffer(buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Tensor:
    """Make a tensor of one dimension on the memory of an object with Python's buffer protocol.

    >>> frombuffer(bytearray(8), dtype=np.int32)
    tensor([0, 0], dtype=int32)
    """
    return finished(as_tensor(np.frombuffer(buffer, dtype_argument(dtype), count, offset)), requires_grad, CPU)


def scalar_tensor(s: Any, dtype: Any = None, requires_grad: bool = False, device: Any = None) -> Tensor:
    """Make a tensor of no dimensions of a number; float32 unless `dtype` says otherwise.

    >>> scalar_tensor(2)
    tensor(2.)
    """
    return finished(tensor(s, modes.default_float if dtype is None else dtype), requires_grad, device)


# -- their arguments


def sizes_of(given: tuple[Any, ...], size: Any = None) -> tuple[int, ...]:
    """Return the sizes that are given one by one, as one sequence, or by keyword."""
    if size is not None:
        if given:
            raise TypeError("sizes are given twice: by position and as size=")
        given = (size,)
    several = given[0] if len(given) == 1 and isinstance(given[0], (tuple, list)) else given
    return tuple(several) if _INTEGERS.issuperset(map(type, several)) else tuple(map(operator.index, several))


_INTEGERS = frozenset({int})


def _default(dtype: np.dtype) -> np.dtype:
    return modes.default_float if is_float(dtype) else np.dtype(np.int64)


def _drawn(draw: Callable[..., Any], size: tuple[int, ...], dtype: np.dtype, requires_grad: bool, device: Any,
           generator: Generator | None, out: Tensor | None) -> Tensor:
    return finished(apply(draw, (next_key(generator), size, dtype)), requires_grad, device, out)


def float_or(dtype: Any, out: Tensor | None) -> Any:
    """Dtype of a new tensor: as said, as that of the tensor that it is written into, or the default."""
    return dtype if dtype is not None else modes.default_float if out is None else out.dtype


def finished(made: Tensor, requires_grad: bool, device: Any, out: Tensor | None = None) -> Tensor:
    device = chosen(device) if out is None else device
    if device is not None:
        made = moved(made, device)
    if out is not None:
        made = written(out, made)
    if requires_grad:
        made.requires_grad = requires_grad      # type: ignore[attr-defined]
    return made


# -- written into others


def can_cast(from_: Any, to: Any) -> bool:
    """True if a tensor of dtype `from_` may be written to one of dtype `to`: not from floats to integers, nor from complex to real numbers.

    >>> can_cast(np.float64, np.float32), can_cast(np.float32, np.int64)
    (True, False)
    """
    order = {"b": 0, "u": 1, "i": 1, "f": 2, "V": 2, "c": 3}
    first, second = dtype_argument(from_), dtype_argument(to)
    return order[first.kind] <= order[second.kind]


def written(out: Any, result: Any) -> Any:
    """Write a result, or each of several, into tensors that are given for it, and return these; the result itself without them.

    Raises `ShapeError` for an `out` of another shape, unless it is empty; `DTypeError` for one that does not hold the numbers, and
    `ArgumentError` if the result requires grad.
    """
    if out is None:
        return result
    if isinstance(out, (tuple, list)):
        made = [written(target, part) for target, part in zip(out, result, strict=True)]
        return type(result)(*made) if hasattr(result, "_fields") else tuple(made)
    if result.requires_grad:
        raise ArgumentError("functions with out= arguments don't support automatic differentiation, but one of the arguments requires grad",
                            find_user_location(), hint="write the result with out.copy_(result), or compute within adjit.no_grad()")
    if not can_cast(result.dtype, out.dtype):
        raise DTypeError(f"result type {result.dtype} can't be cast to the desired output type {out.dtype}", find_user_location())
    if out.shape != result.shape and not out.numel():
        out.data = result.to(out.dtype)
        return out
    if out.shape != result.shape:
        raise ShapeError(f"out= has the shape {tuple(out.shape)}, the result {tuple(result.shape)}", find_user_location())
    return out.copy_(result)


__all__ = [
    "arange", "asarray", "can_cast", "empty", "empty_like", "empty_strided", "eye", "frombuffer", "full", "full_like", "linspace",
    "ones", "ones_like", "rand", "rand_like", "randint", "randint_like", "randn", "randn_like", "randperm", "scalar_tensor",
    "zeros", "zeros_like",
]
