"""Functions of tensors at the top of the package, by PyTorch's names: `adjit.zeros`, `adjit.cat`, `adjit.exp`, ...

>>> import adjit as aj
>>> aj.cat([aj.zeros(2), aj.arange(3.0)])
tensor([0., 0., 0., 1., 2.])

Functions that make tensors take `dtype`, `requires_grad` and `device="cpu"`; floating-point ones are float32 unless `dtype` says otherwise.
Random functions draw from the default generator, see `adjit.manual_seed`. The rest are the methods of tensors, called as functions.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from inspect import cleandoc, unwrap
from typing import Any

import numpy as np

from adjit.eager import signatures
from adjit.eager.apply import apply
from adjit.eager.device import check_device
from adjit.eager.functional import shapes
from adjit.eager.generator import Generator, next_key
from adjit.eager.node_names import raw
from adjit.eager.tensor import DEFAULT_FLOAT, Tensor, as_tensor, tensor
from adjit.ir.types import is_float
from adjit.numpy_signatures import example
from adjit.tracer import random
from adjit.tracer.functions import creation
from adjit.tracer.promotion import dtype_argument

Size = int | Sequence[int] | None

_FULL = unwrap(creation.full)
_UNIFORM, _NORMAL, _RANDINT, _PERMUTATION = (unwrap(draw) for draw in (random.uniform, random.normal, random.randint, random.permutation))


# -- filled


def zeros(*sizes: int | Sequence[int], size: Size = None, dtype: Any = None, requires_grad: bool = False, device: Any = None) -> Tensor:
    """Make a tensor of zeros: `zeros(2, 3)` or `zeros((2, 3))`.

    >>> zeros(2, 3).shape, zeros((2,)).dtype
    ((2, 3), dtype('float32'))
    """
    return full(_sizes(sizes, size), 0, DEFAULT_FLOAT if dtype is None else dtype, requires_grad, device)


def ones(*sizes: int | Sequence[int], size: Size = None, dtype: Any = None, requires_grad: bool = False, device: Any = None) -> Tensor:
    """Make a tensor of ones.

    >>> ones(2)
    tensor([1., 1.])
    """
    return full(_sizes(sizes, size), 1, DEFAULT_FLOAT if dtype is None else dtype, requires_grad, device)


def empty(*sizes: int | Sequence[int], size: Size = None, dtype: Any = None, requires_grad: bool = False, device: Any = None) -> Tensor:
    """Make a tensor to be filled; it holds zeros.

    >>> empty(2).shape
    (2,)
    """
    return zeros(*sizes, size=size, dtype=dtype, requires_grad=requires_grad, device=device)


def full(size: Any, fill_value: Any, dtype: Any = None, requires_grad: bool = False, device: Any = None) -> Tensor:
    """Make a tensor filled with one number: float32 for floats, int64 for ints, bool for bools, unless `dtype` says otherwise.

    >>> full((2,), 3), full((2,), 0.5).dtype
    (tensor([3, 3]), dtype('float32'))
    """
    if dtype is None:
        dtype = as_tensor(fill_value).dtype
    made: Tensor = apply(_FULL, (_sizes((size,)), fill_value, dtype_argument(dtype)))
    return _finished(made.detach(), requires_grad, device)


def zeros_like(input: Any, dtype: Any = None, requires_grad: bool = False, device: Any = None) -> Tensor:
    """Make a tensor of zeros in the shape and dtype of another tensor.

    >>> zeros_like(tensor([1.0, 2.0]))
    tensor([0., 0.])
    """
    return full_like(input, 0, dtype, requires_grad, device)


def ones_like(input: Any, dtype: Any = None, requires_grad: bool = False, device: Any = None) -> Tensor:
    """Make a tensor of ones in the shape and dtype of another tensor.

    >>> ones_like(tensor([1, 2]))
    tensor([1, 1])
    """
    return full_like(input, 1, dtype, requires_grad, device)


def empty_like(input: Any, dtype: Any = None, requires_grad: bool = False, device: Any = None) -> Tensor:
    """Make a tensor to be filled, in the shape and dtype of another tensor; it holds zeros.

    >>> empty_like(tensor([1.0, 2.0])).shape
    (2,)
    """
    return full_like(input, 0, dtype, requires_grad, device)


def full_like(input: Any, fill_value: Any, dtype: Any = None, requires_grad: bool = False, device: Any = None) -> Tensor:
    """Make a tensor filled with one number, in the shape and dtype of another tensor.

    >>> full_like(tensor([1.0, 2.0]), 7.0)
    tensor([7., 7.])
    """
    like = as_tensor(input)
    return full(like.shape, fill_value, like.dtype if dtype is None else dtype, requires_grad, device)


# -- sequences of numbers


def arange(start: Any, end: Any = None, step: Any = 1, dtype: Any = None, requires_grad: bool = False, device: Any = None) -> Tensor:
    """Make the numbers from `start` (0) below `end`: int64 if all are integers, else float32.

    >>> arange(3), arange(1.0, 2.0, 0.5)
    (tensor([0, 1, 2]), tensor([1.0000, 1.5000]))
    """
    first, last = (0, start) if end is None else (start, end)
    array = np.arange(first, last, step)
    return _finished(tensor(array, _default(array.dtype) if dtype is None else dtype), requires_grad, device)


def linspace(start: float, end: float, steps: int, dtype: Any = None, requires_grad: bool = False, device: Any = None) -> Tensor:
    """Make `steps` numbers from `start` to `end`, both included, at equal distances.

    >>> linspace(0.0, 1.0, 3)
    tensor([0.0000, 0.5000, 1.0000])
    """
    array = np.linspace(start, end, operator.index(steps))
    return _finished(tensor(array, DEFAULT_FLOAT if dtype is None else dtype), requires_grad, device)


def eye(n: int, m: int | None = None, dtype: Any = None, requires_grad: bool = False, device: Any = None) -> Tensor:
    """Make a matrix with ones on its diagonal.

    >>> eye(2)
    tensor([[1., 0.],
            [0., 1.]])
    """
    return _finished(tensor(np.eye(n, m), DEFAULT_FLOAT if dtype is None else dtype), requires_grad, device)


# -- random


def rand(*sizes: int | Sequence[int], size: Size = None, dtype: Any = None, requires_grad: bool = False, device: Any = None,
         generator: Generator | None = None) -> Tensor:
    """Draw uniform numbers in [0, 1).

    >>> rand(2, 3).shape
    (2, 3)
    """
    return _drawn(_UNIFORM, _sizes(sizes, size), dtype_argument(DEFAULT_FLOAT if dtype is None else dtype), requires_grad, device,
                  generator)


def randn(*sizes: int | Sequence[int], size: Size = None, dtype: Any = None, requires_grad: bool = False, device: Any = None,
          generator: Generator | None = None) -> Tensor:
    """Draw numbers of the standard normal distribution.

    >>> randn(2, 3).shape
    (2, 3)
    """
    return _drawn(_NORMAL, _sizes(sizes, size), dtype_argument(DEFAULT_FLOAT if dtype is None else dtype), requires_grad, device,
                  generator)


def rand_like(input: Any, dtype: Any = None, requires_grad: bool = False, device: Any = None) -> Tensor:
    """Draw uniform numbers in [0, 1), in the shape and dtype of another tensor.

    >>> rand_like(tensor([1.0, 2.0])).dtype
    dtype('float32')
    """
    like = as_tensor(input)
    return rand(like.shape, dtype=like.dtype if dtype is None else dtype, requires_grad=requires_grad, device=device)


def randn_like(input: Any, dtype: Any = None, requires_grad: bool = False, device: Any = None) -> Tensor:
    """Draw numbers of the standard normal distribution, in the shape and dtype of another tensor.

    >>> randn_like(tensor([1.0, 2.0])).shape
    (2,)
    """
    like = as_tensor(input)
    return randn(like.shape, dtype=like.dtype if dtype is None else dtype, requires_grad=requires_grad, device=device)


def randint(low: Any = 0, high: Any = None, size: Any = None, dtype: Any = None, requires_grad: bool = False, device: Any = None,
            generator: Generator | None = None) -> Tensor:
    """Draw integers from `low` (0) below `high`, int64: `randint(10, (3,))`, `randint(5, 10, (3,))` or `randint(high=10, size=(3,))`.

    >>> bool((randint(5, 10, (100,)) >= 5).all())
    True
    """
    if size is None:
        low, high, size = 0, low, high
    elif high is None:
        low, high = 0, low
    made: Tensor = apply(_RANDINT, (next_key(generator), _sizes((size,)), operator.index(low), operator.index(high)))
    return _finished(made if dtype is None else made.to(dtype), requires_grad, device)


def randperm(n: int, dtype: Any = None, requires_grad: bool = False, device: Any = None, generator: Generator | None = None) -> Tensor:
    """Return the integers below `n` in random order.

    >>> sorted(randperm(4).tolist())
    [0, 1, 2, 3]
    """
    made: Tensor = apply(_PERMUTATION, (next_key(generator), operator.index(n)))
    return _finished(made if dtype is None else made.to(dtype), requires_grad, device)


# -- of several tensors


def cat(tensors: Sequence[Any], dim: int = 0, *, axis: int | None = None) -> Tensor:
    """Concatenate tensors along a dimension.

    >>> cat([tensor([1.0]), tensor([2.0, 3.0])])
    tensor([1., 2., 3.])
    """
    return apply(shapes.cat, (list(tensors), dim if axis is None else axis))      # type: ignore[no-any-return]


def stack(tensors: Sequence[Any], dim: int = 0, *, axis: int | None = None) -> Tensor:
    """Stack tensors of one shape along a new dimension.

    >>> stack([tensor([1.0, 2.0]), tensor([3.0, 4.0])]).shape
    (2, 2)
    """
    return apply(shapes.stack, (list(tensors), dim if axis is None else axis))        # type: ignore[no-any-return]


def where(condition: Any, input: Any = None, other: Any = None) -> Any:
    """Choose `input` where `condition` is True, else `other`; for a condition alone return its True indices, a tensor for each dimension.

    >>> where(tensor([True, False]), tensor([1.0, 2.0]), 0.0)
    tensor([1., 0.])
    """
    if input is None and other is None:
        return tuple(tensor(index) for index in np.nonzero(as_tensor(condition).detach().numpy()))
    return apply(raw(np.where), (condition, input, other))


def einsum(equation: str, *operands: Any) -> Tensor:
    """Sum of products by Einstein's convention, as in `numpy.einsum`.

    >>> einsum("ij,j->i", eye(2), tensor([1.0, 2.0]))
    tensor([1., 2.])
    """
    several = operands[0] if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else operands
    return apply(raw(np.einsum), (equation, *several))      # type: ignore[no-any-return]


# -- queries


def from_numpy(ndarray: np.ndarray) -> Tensor:
    """Make a tensor on the memory of an array.

    >>> from_numpy(np.ones(2))
    tensor([1., 1.], dtype=float64)
    """
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"from_numpy takes an ndarray, got a {type(ndarray).__name__}: adjit.tensor takes numbers and lists")
    return as_tensor(ndarray)


def is_tensor(obj: Any) -> bool:
    """True if `obj` is a tensor.

    >>> is_tensor(tensor(1.0)), is_tensor(1.0)
    (True, False)
    """
    return isinstance(obj, Tensor)


_NAMES = """
    abs exp expm1 log log2 log10 log1p sqrt rsqrt square reciprocal neg sign floor ceil round trunc frac
    sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh atan2 erf sigmoid relu softmax log_softmax
    isnan isinf isfinite isclose allclose equal logical_not logical_and logical_or logical_xor
    add sub mul div pow remainder maximum minimum clamp lerp addcmul addcdiv masked_fill
    eq ne lt le gt ge matmul mm bmm mv dot outer addmm baddbmm
    sum mean prod var std amax amin max min argmax argmin all any count_nonzero cumsum cumprod logsumexp norm
    reshape flatten unflatten squeeze unsqueeze permute transpose t movedim broadcast_to repeat_interleave tile
    narrow select unbind split chunk flip roll diagonal diag tril triu
    index_select masked_select gather scatter scatter_add sort argsort topk clone numel
    index_add index_fill index_copy take_along_dim median diff nansum nanmean bernoulli erfc erfinv lgamma digamma logit
"""
METHODS = tuple(_NAMES.split())
"""Methods of tensors that are functions too."""


def _as_function(name: str) -> Callable[..., Any]:
    def function(input: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(as_tensor(input), name)(*args, **kwargs)

    function.__name__ = function.__qualname__ = name
    text = cleandoc(getattr(Tensor, name).__doc__ or "")
    function.__doc__ = f"Method of tensors as a function, `input.{name}(...)`: {text}\n\n{example(name)}".rstrip()
    signatures.as_function(function, getattr(Tensor, name))
    return function


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: _as_function(name) for name in METHODS},
    **{function.__name__: function for function in (
        zeros, ones, empty, full, zeros_like, ones_like, empty_like, full_like, arange, linspace, eye, rand, randn, rand_like, randn_like,
        randint, randperm, cat, stack, where, einsum, from_numpy, is_tensor)},
    "concat": cat,
}
"""Functions of `adjit` with the names of tensor methods."""


def _sizes(given: tuple[Any, ...], size: Any = None) -> tuple[int, ...]:
    """Return the sizes that are given one by one, as one sequence, or by keyword."""
    if size is not None:
        if given:
            raise TypeError("sizes are given twice: by position and as size=")
        given = (size,)
    several = given[0] if len(given) == 1 and isinstance(given[0], (tuple, list)) else given
    return tuple(map(operator.index, several))


def _default(dtype: np.dtype) -> np.dtype:
    return DEFAULT_FLOAT if is_float(dtype) else np.dtype(np.int64)


def _drawn(draw: Callable[..., Any], size: tuple[int, ...], dtype: np.dtype, requires_grad: bool, device: Any,
           generator: Generator | None) -> Tensor:
    return _finished(apply(draw, (next_key(generator), size, dtype)), requires_grad, device)


def _finished(made: Tensor, requires_grad: bool, device: Any) -> Tensor:
    check_device(device)
    made.requires_grad = requires_grad      # type: ignore[attr-defined]
    return made
