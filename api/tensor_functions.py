"""Functions of tensors at the top of the package, by PyTorch's names: `adjit.cat`, `adjit.exp`, ...

>>> import adjit as aj
>>> aj.cat([aj.zeros(2), aj.arange(3.0)])
tensor([0., 0., 0., 1., 2.])

Here are functions of several tensors, and the methods of tensors as functions; `tensor_creation`, `tensor_grids` and `tensor_numerics` have
the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import cleandoc
from typing import Any

import numpy as np

from adjit import tensor_creation, tensor_grids, tensor_layers, tensor_numerics, tensor_settings
from adjit.eager import signatures
from adjit.eager.apply import apply
from adjit.eager.functional import shapes
from adjit.eager.functional.matmul import einsum_of_one
from adjit.eager.node_names import raw
from adjit.eager.tensor import Tensor, as_tensor, promoted, tensor  # noqa: F401  examples
from adjit.numpy_signatures import example
from adjit.tensor_creation import written
from adjit.tracer.promotion import dtype_argument

# -- of several tensors


def cat(tensors: Sequence[Any], dim: int = 0, *, axis: int | None = None, out: Tensor | None = None) -> Tensor:
    """Concatenate tensors along a dimension; the result is written into `out`.

    >>> cat([tensor([1.0]), tensor([2.0, 3.0])])
    tensor([1., 2., 3.])
    """
    return written(out, apply(shapes.cat, (list(tensors), dim if axis is None else axis)))      # type: ignore[no-any-return]


def stack(tensors: Sequence[Any], dim: int = 0, *, axis: int | None = None, out: Tensor | None = None) -> Tensor:
    """Stack tensors of one shape along a new dimension; the result is written into `out`.

    >>> stack([tensor([1.0, 2.0]), tensor([3.0, 4.0])]).shape
    (2, 2)
    """
    return written(out, apply(shapes.stack, (list(tensors), dim if axis is None else axis)))        # type: ignore[no-any-return]


def where(condition: Any, input: Any = None, other: Any = None) -> Any:
    """Choose `input` where `condition` is True, else `other`; for a condition alone return its True indices, a tensor for each dimension.

    >>> where(tensor([True, False]), tensor([1.0, 2.0]), 0.0)
    tensor([1., 0.])
    """
    if input is None and other is None:
        return as_tensor(condition).nonzero(as_tuple=True)      # type: ignore[attr-defined]
    if input is None or other is None:
        raise TypeError("where() received an invalid combination of arguments: where(condition) has the indices, where(condition, input, "
                        "other) takes both")
    return apply(raw(np.where), (condition, input, other))


def einsum(equation: str, *operands: Any) -> Tensor:
    """Sum of products by Einstein's convention, as in `numpy.einsum`.

    >>> einsum("i,i->", tensor([1.0, 1.0]), tensor([1.0, 2.0]))
    tensor(3.)
    """
    several = operands[0] if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else operands
    if len(several) == 1 and isinstance(equation, str):
        return apply(einsum_of_one, (as_tensor(several[0]), equation))      # type: ignore[no-any-return]
    return apply(raw(np.einsum), (equation, *several))      # type: ignore[no-any-return]


def repeat_interleave(input: Any, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None) -> Tensor:
    """Repeat each element, all as often or each as `repeats` says; of repeats alone return each position as often as they say.

    >>> repeat_interleave(tensor([5, 6]), 2), repeat_interleave(tensor([2, 0, 1]))
    (tensor([5, 5, 6, 6]), tensor([0, 0, 2]))
    """
    if repeats is None:
        input, repeats = tensor_creation.arange(len(input)), input
    return as_tensor(input).repeat_interleave(repeats, dim, output_size=output_size)       # type: ignore[no-any-return, attr-defined]


# -- queries


def from_numpy(ndarray: np.ndarray) -> Tensor:
    """Make a tensor on the memory of an array.

    >>> from_numpy(np.ones(2))
    tensor([1., 1.], dtype=float64)
    """
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"from_numpy takes an ndarray, got a {type(ndarray).__name__}: adjit.tensor takes numbers and lists")
    return as_tensor(ndarray)


def real(input: Any) -> Tensor:
    """Real parts, as a view; of reals the tensor itself.

    >>> real(tensor([1 + 2j]))
    tensor([1.])
    """
    return as_tensor(input).real


def imag(input: Any) -> Tensor:
    """Imaginary parts, as a view.

    >>> imag(tensor([1 + 2j]))
    tensor([2.])
    """
    return as_tensor(input).imag


def polygamma(n: int, input: Any) -> Tensor:
    """The derivative of order `n` of the digamma function.

    >>> polygamma(1, tensor([1.0]))
    tensor([1.6449])
    """
    return as_tensor(input).polygamma(n)


def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """Expand tensors to one shape.

    >>> [x.shape for x in broadcast_tensors(tensor([1.0, 2.0]), tensor([[3.0]]))]
    [(1, 2), (1, 2)]
    """
    several = _several(tensors)
    shape = np.broadcast_shapes(*(each.shape for each in several))
    return tuple(each.expand(shape) for each in several)


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """Shape to which tensors of these shapes are broadcast.

    >>> broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    return np.broadcast_shapes(*shapes)


def promote_types(type1: Any, type2: Any) -> np.dtype:
    """Dtype of the result of an operation on tensors of two dtypes.

    >>> promote_types(np.int64, np.float32)
    dtype('float32')
    """
    return promoted(dtype_argument(type1), dtype_argument(type2))


def result_type(tensor1: Any, tensor2: Any) -> np.dtype:
    """Dtype of the result of an operation on two tensors or numbers.

    >>> result_type(tensor([1, 2]), 1.0)
    dtype('float32')
    """
    made: Tensor = as_tensor(tensor1) + tensor2 if not isinstance(tensor1, Tensor) and isinstance(tensor2, Tensor) else tensor1 + tensor2
    return as_tensor(made).dtype


# -- joined


def _at_least(ndim: int, name: str) -> Callable[..., Any]:
    def at_least(*tensors: Any) -> Any:
        if len(tensors) == 1 and not isinstance(tensors[0], (tuple, list)):
            return widened(as_tensor(tensors[0]))
        return tuple(widened(as_tensor(each)) for each in _several(tensors))

    def widened(x: Tensor) -> Tensor:
        return x if x.ndim >= ndim else apply(shapes.at_least, (x, ndim))       # type: ignore[no-any-return]

    at_least.__name__ = at_least.__qualname__ = name
    at_least.__doc__ = (f"Tensors with at least {ndim} dimension{'s' * (ndim > 1)}: one, or several as a tuple.\n\n"
                        f"    >>> {name}(tensor(1.0)).ndim\n    {ndim}\n    ")
    return at_least


def _stacked(name: str, function: Any, shape: tuple[int, ...]) -> Callable[[Sequence[Any]], Tensor]:
    def join(tensors: Sequence[Any]) -> Tensor:
        return apply(stacked, (list(map(as_tensor, tensors)),))     # type: ignore[no-any-return]

    def stacked(tensors: Sequence[Any]) -> Any:
        return function(shapes.of_one_dtype(tensors))

    join.__name__ = join.__qualname__ = name
    join.__doc__ = (f"Tensors joined as `numpy.{function.__name__}` joins arrays.\n\n"
                    f"    >>> {name}([tensor([1.0, 2.0]), tensor([3.0, 4.0])]).shape\n    {shape}\n    ")
    return join


atleast_1d, atleast_2d, atleast_3d = (_at_least(ndim, f"atleast_{ndim}d") for ndim in (1, 2, 3))
hstack, vstack = _stacked("hstack", np.hstack, (4,)), _stacked("vstack", np.vstack, (2, 2))
dstack = _stacked("dstack", np.dstack, (1, 2, 2))
row_stack, column_stack = _stacked("row_stack", np.vstack, (2, 2)), _stacked("column_stack", np.column_stack, (2, 2))


def _several(given: tuple[Any, ...]) -> list[Tensor]:
    """Return the tensors that are given one by one, or as one sequence."""
    return [as_tensor(each) for each in (given[0] if len(given) == 1 and isinstance(given[0], (tuple, list)) else given)]


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
    reshape flatten unflatten squeeze unsqueeze permute transpose t movedim broadcast_to tile
    narrow select unbind split chunk flip roll diagonal diag tril triu
    index_select masked_select gather scatter scatter_add sort argsort topk clone numel
    index_add index_fill index_copy take_along_dim median diff nansum nanmean bernoulli erfc erfinv lgamma digamma logit
    absolute addbmm addmv addr adjoint aminmax angle arccos arccosh arcsin arcsinh arctan arctan2 arctanh argwhere bincount bitwise_and
    bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor cholesky cholesky_inverse cholesky_solve clamp_max
    clamp_min clip conj conj_physical copysign corrcoef cov cross cummax cummin deg2rad det detach diag_embed diagflat diagonal_scatter
    dist divide dsplit exp2 fix fliplr flipud float_power floor_divide fmax fmin fmod frexp gcd geqrf ger greater greater_equal
    hardshrink heaviside histc hsplit hypot i0 igamma igammac index_put index_reduce inner inverse is_complex is_conj is_distributed
    is_floating_point is_neg is_nonzero is_same_size is_signed isneginf isposinf isreal kron kthvalue lcm ldexp less less_equal
    logaddexp logaddexp2 logcumsumexp logdet lu lu_solve masked_scatter matrix_exp matrix_power mode moveaxis msort multinomial multiply
    mvlgamma nan_to_num nanmedian nanquantile negative nextafter nonzero nonzero_static not_equal orgqr ormqr pinverse positive prelu
    put qr quantile rad2deg ravel renorm resolve_conj resolve_neg rot90 scatter_reduce select_scatter sgn signbit sinc slice_scatter
    slogdet split_with_sizes subtract svd swapaxes swapdims take tensor_split trace triangular_solve true_divide unique
    unique_consecutive vdot vsplit xlogy is_inference istft narrow_copy stft unsafe_chunk unsafe_split unsafe_split_with_sizes
"""
METHODS = tuple(_NAMES.split())
"""Methods of tensors that are functions too."""


def _as_function(name: str) -> Callable[..., Any]:
    def function(input: Any, *args: Any, **kwargs: Any) -> Any:
        if "out" in kwargs:
            out = kwargs.pop("out")
            return written(out, getattr(as_tensor(input), name)(*args, **kwargs))
        return getattr(input if isinstance(input, Tensor) else as_tensor(input), name)(*args, **kwargs)

    function.__name__ = function.__qualname__ = name
    text = cleandoc(getattr(Tensor, name).__doc__ or "")
    function.__doc__ = f"Method of tensors as a function, `input.{name}(...)`: {text}\n\n{example(name)}".rstrip()
    signatures.as_function(function, getattr(Tensor, name))
    return function


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: _as_function(name) for name in METHODS},
    **{function.__name__: function for function in (
        cat, stack, where, einsum, from_numpy, is_tensor, real, imag, polygamma, broadcast_tensors, broadcast_shapes, promote_types,
        result_type, repeat_interleave, atleast_1d, atleast_2d, atleast_3d, hstack, vstack, dstack, row_stack, column_stack)},
    **{name: getattr(module, name) for module in (tensor_creation, tensor_grids, tensor_layers, tensor_numerics, tensor_settings)
       for name in module.__all__},
    "concat": cat, "concatenate": cat,
}
"""Functions of `adjit` with the names of tensor methods."""
