"""Operators and methods of tensors, each one function applied to the tensor, by PyTorch's names and NumPy's."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from adjit.eager import arguments, indexing, signatures
from adjit.eager.apply import apply
from adjit.eager.checks import check_indices, checked
from adjit.eager.functional import elementwise, reductions, shapes, statistics
from adjit.eager.functional import indexing as indexed
from adjit.eager.functional import matmul as matmul
from adjit.eager.generator import Generator, next_key
from adjit.eager.in_place import apply_in_place
from adjit.eager.node_names import raw
from adjit.eager.tensor import Tensor
from adjit.ir.errors import DTypeError
from adjit.tracer.array import TracedArray
from adjit.tracer.functions import composites
from adjit.tracer.tracebacks import hide_frames
from adjit.tracer.user_location import find_user_location

Function = Callable[..., Any]

_BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.divide, "floordiv": np.floor_divide, "mod": np.remainder,
    "pow": np.power, "matmul": np.matmul, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "lshift": np.left_shift,
    "rshift": np.right_shift,
}
_COMMUTATIVE = ("add", "mul")       # `2 * x` is `x * 2`, also in the graph
_COMPARE = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}
_UNARY = {"neg": np.negative, "abs": np.absolute, "invert": np.invert}

# Methods that are NumPy's functions with the arguments in NumPy's order; several names of one function share a line.
_NUMPY_METHODS: dict[str, Any] = {name: function for names, function in {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p,
    "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin arcsin": np.arcsin, "acos arccos": np.arccos,
    "atan arctan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh arcsinh": np.arcsinh, "acosh arccosh": np.arccosh,
    "atanh arctanh": np.arctanh, "abs absolute": np.absolute, "sign sgn": np.sign, "neg negative": np.negative, "reciprocal": np.reciprocal,
    "floor": np.floor, "ceil": np.ceil, "trunc fix": np.trunc, "round": np.round, "deg2rad": np.deg2rad, "rad2deg": np.rad2deg,
    "sinc": np.sinc, "nan_to_num": np.nan_to_num, "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite, "signbit": np.signbit,
    "conj": np.conjugate, "angle": np.angle, "isreal": np.isreal, "logical_not": np.logical_not,
    "bitwise_not": np.invert, "mul multiply": np.multiply, "true_divide": np.divide,
    "floor_divide": np.floor_divide, "remainder": np.remainder, "fmod": np.fmod, "pow": np.power, "matmul": np.matmul,
    "maximum": np.maximum, "minimum": np.minimum, "fmax": np.fmax, "fmin": np.fmin, "atan2 arctan2": np.arctan2, "hypot": np.hypot,
    "logaddexp": np.logaddexp, "copysign": np.copysign, "heaviside": np.heaviside, "eq": np.equal, "ne not_equal": np.not_equal,
    "lt less": np.less, "le less_equal": np.less_equal, "gt greater": np.greater, "ge greater_equal": np.greater_equal,
    "logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor, "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor, "isclose": np.isclose, "trace": np.trace, "inner": np.inner,
    **{ours: ("scipy.special", name) for ours, name in (
        ("erfc", "erfc"), ("erfinv", "erfinv"), ("lgamma", "gammaln"), ("digamma", "psi"), ("i0", "i0"), ("logit", "logit"))},
}.items() for name in names.split()}

_OWN_METHODS: dict[str, Any] = {name: function for names, function in {
    "div divide": elementwise.divide, "square": elementwise.square, "rsqrt": elementwise.rsqrt, "relu": elementwise.relu,
    "frac": elementwise.frac, "clamp clip": elementwise.clamp, "clamp_min": elementwise.clamp_min, "clamp_max": elementwise.clamp_max,
    "lerp": elementwise.lerp, "addcmul": elementwise.addcmul, "addcdiv": elementwise.addcdiv, "where": elementwise.where,
    "masked_fill": elementwise.masked_fill, "clone": elementwise.clone, "sigmoid": composites.sigmoid, "erf": composites.erf,
    "sum": reductions.sum, "mean": reductions.mean, "prod": reductions.prod, "var": reductions.var, "std": reductions.std,
    "amax": reductions.amax, "amin": reductions.amin, "argmax": reductions.argmax, "argmin": reductions.argmin, "all": reductions.all,
    "any": reductions.any, "count_nonzero": reductions.count_nonzero, "cumsum": reductions.cumsum, "cumprod": reductions.cumprod,
    "logsumexp": reductions.logsumexp, "softmax": reductions.softmax, "log_softmax": reductions.log_softmax, "norm": reductions.norm,
    "flatten": shapes.flatten, "unflatten": shapes.unflatten, "unsqueeze": shapes.unsqueeze, "squeeze": shapes.squeeze, "t": shapes.t,
    "movedim moveaxis": shapes.movedim, "swapaxes swapdims": shapes.transpose, "narrow": shapes.narrow, "select": shapes.select,
    "unbind": shapes.unbind, "split": shapes.split, "chunk": shapes.chunk, "roll": shapes.roll, "diagonal": shapes.diagonal,
    "diag": shapes.diag, "tril": shapes.tril, "triu": shapes.triu, "repeat_interleave": shapes.repeat_interleave,
    "mm": matmul.mm, "bmm": matmul.bmm, "mv": matmul.mv, "dot": matmul.dot, "outer ger": matmul.outer, "addmm": matmul.addmm,
    "baddbmm": matmul.baddbmm, "addmv": matmul.addmv, "take": indexed.take, "index_select": indexed.index_select,
    "index_add": indexed.index_add, "gather": indexed.gather, "scatter": indexed.scatter, "scatter_add": indexed.scatter_add,
    "argsort": indexed.argsort, "sort": indexed.sort, "topk": indexed.topk, "median": statistics.median, "diff": statistics.diff,
    "nansum": statistics.nansum, "nanmean": statistics.nanmean, "take_along_dim": statistics.take_along_dim,
    "index_fill": statistics.index_fill, "index_copy": statistics.index_copy,
}.items() for name in names.split()}

# Each name followed by "_" writes into the tensor.
_IN_PLACE = [name for names in (
    "mul multiply div divide true_divide floor_divide remainder fmod pow exp exp2 expm1 log log2 log10 log1p sqrt rsqrt square reciprocal",
    "sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh abs sign neg negative floor ceil trunc round frac nan_to_num relu sigmoid",
    "erf clamp clip clamp_min clamp_max lerp addcmul addcdiv masked_fill cumsum cumprod tril triu addmm index_add scatter scatter_add",
    "index_fill index_copy",
    "logical_not logical_and logical_or eq ne lt le gt ge erfc erfinv lgamma digamma i0 logit",
) for name in names.split()]

# Indices of these functions are not negative. Compiled code, which does not read values, counts negative ones from the end.
_INDEXED = ("index_select", "gather", *(name + end for end in ("", "_") for name in (
    "index_add", "index_fill", "index_copy", "scatter", "scatter_add")))


def install() -> None:
    """Install the operators and methods on `Tensor`."""
    members: dict[str, Function] = {}
    for name, ufunc in _BINARY.items():
        function = raw(ufunc)
        reflected = _operator if name in _COMMUTATIVE else _reflected
        members |= {f"__{name}__": _operator(function), f"__r{name}__": reflected(function), f"__i{name}__": _in_place_operator(function)}
    members |= {f"__{name}__": _operator(raw(ufunc)) for name, ufunc in _COMPARE.items()}
    members |= {f"__{name}__": _unary(raw(ufunc)) for name, ufunc in _UNARY.items()}
    functions = {**{name: raw(function) for name, function in _NUMPY_METHODS.items()},
                 **{name: inspect.unwrap(own) for name, own in _OWN_METHODS.items()}}
    members |= {name: _method(name, function) for name, function in functions.items()}
    members |= {f"{name}_": _in_place_method(f"{name}_", functions[name]) for name in _IN_PLACE}
    members |= {name: checked(functools.partial(check_indices, name))(members[name]) for name in _INDEXED}
    members |= {
        "add": _with_alpha(raw(np.add), elementwise.add, apply), "sub": _with_alpha(raw(np.subtract), elementwise.subtract, apply),
        "subtract": _with_alpha(raw(np.subtract), elementwise.subtract, apply),
        "add_": _with_alpha(raw(np.add), elementwise.add, _write), "sub_": _with_alpha(raw(np.subtract), elementwise.subtract, _write),
        "max": _extremum("max", reductions.max, raw(np.maximum)), "min": _extremum("min", reductions.min, raw(np.minimum)),
        "copy_": _in_place_method("copy_", elementwise.copy_from), "fill_": _in_place_method("fill_", elementwise.fill),
        "zero_": _in_place_method("zero_", elementwise.zero), "normal_": _normal, "uniform_": _uniform, "bernoulli_": _bernoulli,
        "bernoulli": _drawn, "index_put_": indexing.index_put_,
        "reshape": _sizes("reshape", shapes.reshape, "shape"), "view": _view,
        "expand": _sizes("expand", shapes.expand, "size"), "repeat": _sizes("repeat", shapes.repeat, "repeats"),
        "tile": _tile, "permute": _sizes("permute", shapes.permute, "dims"),
        "flip": _sizes("flip", shapes.flip, "dims", "axis"), "transpose": _transpose, "ravel": _ravel,
        "expand_as": _expand_as, "reshape_as": _reshape_as, "view_as": _reshape_as,
        "broadcast_to": _sizes("broadcast_to", shapes.expand, "size", "shape"), "masked_select": indexing.masked_select,
        "allclose": _allclose, "equal": _equal,
        "__pos__": _pos, "__getitem__": indexing.get_item, "__setitem__": indexing.set_item, "__contains__": _contains,
    }
    for name, member in members.items():
        setattr(Tensor, name, signatures.named(member, name))


# -- operators


_OPERANDS = (Tensor, float, int, complex, np.ndarray, np.generic, TracedArray)


def _not_ours(function: Function, other: Any) -> Any:
    """Result of an operator for an operand of unknown type; arrays of other libraries are rejected here, not by theirs."""
    if hasattr(other, "__dlpack__") and not isinstance(other, (list, tuple)):
        kind = type(other)
        raise DTypeError(f"{function.__name__}: an operand is a {kind.__module__}.{kind.__qualname__}, not an adjit.Tensor or an ndarray",
                         find_user_location(), hint="adjit.from_dlpack(x) makes a tensor on the memory of an array of another library")
    return NotImplemented


def _operator(function: Function) -> Function:
    def operator(self: Tensor, other: Any) -> Any:
        try:
            return apply(function, (self, other)) if isinstance(other, _OPERANDS) else _not_ours(function, other)
        except BaseException as error:
            hide_frames(error)
            raise

    return operator


def _reflected(function: Function) -> Function:
    def operator(self: Tensor, other: Any) -> Any:
        try:
            return apply(function, (other, self)) if isinstance(other, _OPERANDS) else _not_ours(function, other)
        except BaseException as error:
            hide_frames(error)
            raise

    return operator


def _in_place_operator(function: Function) -> Function:
    def operator(self: Tensor, other: Any) -> Any:
        try:
            return apply_in_place(function, self, (other,)) if isinstance(other, _OPERANDS) else _not_ours(function, other)
        except BaseException as error:
            hide_frames(error)
            raise

    return operator


def _unary(function: Function) -> Function:
    return lambda self: apply(function, (self,))


def _pos(self: Tensor) -> Tensor:
    return self


# -- methods


def _method(name: str, function: Function) -> Function:
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        if kwargs:
            args, kwargs = arguments.bound(method, function, args, kwargs)
        try:
            return apply(function, (self, *args), kwargs)
        except Exception as error:
            hide_frames(error)
            arguments.check(method, (self, *args), kwargs)
            raise

    method.__name__ = name
    method.__doc__ = function.__doc__
    signatures.like(method, function)
    return method


def _in_place_method(name: str, function: Function) -> Function:
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if kwargs:
            args, kwargs = arguments.bound(method, function, args, kwargs)
        try:
            return apply_in_place(function, self, args, kwargs)
        except Exception as error:
            hide_frames(error)
            arguments.check(method, (self, *args), kwargs)
            raise

    method.__name__ = name
    method.__doc__ = f"{(function.__doc__ or '').strip()}\n\n        The result is written into this tensor, which is returned."
    signatures.like(method, function, in_place=True)
    return method


def _write(function: Function, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None) -> Tensor:
    return apply_in_place(function, args[0], args[1:], kwargs or {})


def _with_alpha(plain: Function, scaled: Function, run: Function) -> Function:
    def method(self: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
        if issubclass(type(alpha), (int, float)) and alpha == 1:
            return run(plain, (self, other))
        return run(scaled, (self, other), {"alpha": alpha})

    method.__doc__ = scaled.__doc__
    return method


def _extremum(name: str, along: Function, of_two: Function) -> Function:
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        if "other" in kwargs and not args and len(kwargs) == 1:
            return apply(of_two, (self, kwargs["other"]))
        if args and isinstance(args[0], (Tensor, np.ndarray, TracedArray)):
            return apply(of_two, (self, *args))
        return by_dimension(self, *args, **kwargs)

    by_dimension = _method(name, along)
    method.__doc__ = f"{along.__doc__} With a tensor as its argument: elementwise."
    signatures.like(method, along)
    return method


def _sizes(name: str, function: Function, *keywords: str) -> Function:
    """Accept sizes and dimensions as several arguments, or as one tuple or list."""
    def method(self: Tensor, *sizes: Any, **kwargs: Any) -> Tensor:
        try:
            given = arguments.of_sizes(method, keywords, sizes, kwargs) if kwargs else sizes
            return apply(function, (self, _integers(*given)))
        except BaseException as error:
            hide_frames(error)
            raise

    method.__name__ = name
    method.__doc__ = function.__doc__
    signatures.sized(method, *keywords)
    return method


def _view(self: Tensor, *sizes: Any, **kwargs: Any) -> Tensor:
    given = _integers(*(arguments.of_sizes(_view, ("size", "shape"), sizes, kwargs) if kwargs else sizes))
    made: Tensor = apply(shapes.view, (self, given))
    if made._view is None and made.array.size:
        shapes.refuse_view(self.shape, given)
    return made


_view.__doc__ = shapes.view.__doc__
signatures.sized(_view, "size", "shape")


def _integers(*sizes: Any) -> tuple[int, ...]:
    several = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes
    return tuple(map(operator.index, several))


def _tile(self: Tensor, *sizes: Any, dims: Any = None) -> Tensor:
    """Repeat the tensor as a whole along each dimension; if there are fewer numbers than dimensions they apply to the last ones."""
    counts = _integers(*sizes) if dims is None else _integers(dims)
    return apply(shapes.repeat, (self, (1,) * (self.ndim - len(counts)) + counts))


def _transpose(self: Tensor, *dims: Any, dim0: int | None = None, dim1: int | None = None) -> Tensor:
    """Swap two dimensions, as in PyTorch; as in NumPy, reverse all without arguments, or reorder them to the order of a tuple."""
    dims = (*dims, *(dim for dim in (dim0, dim1) if dim is not None))
    if not dims:
        return apply(shapes.permute, (self, tuple(range(self.ndim))[::-1]))
    if len(dims) == 2:
        return apply(shapes.transpose, (self, *map(operator.index, dims)))
    return apply(shapes.permute, (self, _integers(*dims)))


def _ravel(self: Tensor) -> Tensor:
    """Flatten to one dimension: a view if the elements are contiguous."""
    return apply(shapes.reshape, (self, (-1,)))


def _expand_as(self: Tensor, other: Any) -> Tensor:
    """Expand to the shape of `other`."""
    return apply(shapes.expand, (self, tuple(other.shape)))


def _reshape_as(self: Tensor, other: Any) -> Tensor:
    """Reshape to the shape of `other`."""
    return apply(shapes.reshape, (self, tuple(other.shape)))


def _allclose(self: Tensor, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """True if all elements are close: |self - other| <= atol + rtol * |other|."""
    return bool(apply(raw(np.allclose), (self, other, rtol, atol, equal_nan)))


def _equal(self: Tensor, other: Any) -> bool:
    """True if shape and elements are the same."""
    return self.shape == tuple(np.shape(other)) and bool(apply(raw(np.all), (apply(raw(np.equal), (self, other)),)))


def _contains(self: Tensor, element: Any) -> bool:
    """True if any element equals this one."""
    return bool(apply(raw(np.any), (apply(raw(np.equal), (self, element)),)))


# -- random content, from the default generator


def _normal(self: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill the tensor with numbers of the normal distribution."""
    return apply_in_place(elementwise.normal, self, (next_key(generator), mean, std))


def _uniform(self: Tensor, from_: float = 0.0, to: float = 1.0, *, generator: Generator | None = None, **interval: float) -> Tensor:
    """Fill the tensor with uniform numbers from [`from`, `to`)."""
    low = interval.pop("from", from_)
    if interval:
        raise TypeError(f"uniform_() got an unexpected argument {next(iter(interval))!r}")
    return apply_in_place(elementwise.uniform, self, (next_key(generator), low, to))


def _bernoulli(self: Tensor, p: float | Tensor = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Fill the tensor with 1 with probability `p`, else 0."""
    return apply_in_place(elementwise.bernoulli, self, (next_key(generator), p))


def _drawn(self: Tensor, *, generator: Generator | None = None) -> Tensor:
    """Draw 1 with the probability that the tensor holds at each position, else 0."""
    return apply_in_place(elementwise.bernoulli, apply(elementwise.clone, (self.detach(),)), (next_key(generator), self.detach()))


install()
