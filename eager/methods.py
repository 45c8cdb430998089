"""Operators and methods of tensors, each one function applied to the tensor, by PyTorch's names and NumPy's."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from adjit.codegen.numpy.graph_function import NumpyFunction
from adjit.codegen.numpy.top_indices import TopFunction
from adjit.eager import arguments, indexing, shape_changes, signatures
from adjit.eager.apply import apply, apply_in_python, machine_code, new_tuple
from adjit.eager.checks import check_divisor, check_indices, check_parameter, checked
from adjit.eager.device import host_content
from adjit.eager.functional import elementwise, reductions, scattering, shapes, spectra, statistics
from adjit.eager.functional import indexing as indexed
from adjit.eager.functional import matmul as matmul
from adjit.eager.functional import order_statistics as order
from adjit.eager.generator import Generator, next_key
from adjit.eager.in_place import apply_in_place
from adjit.eager.modes import switches
from adjit.eager.node_names import raw
from adjit.eager.operation import counted
from adjit.eager.tensor import Tensor, new_tensor
from adjit.ir.errors import ArgumentError, DTypeError
from adjit.ir.types import I64, TensorType
from adjit.tracer.array import TracedArray
from adjit.tracer.functions import composites
from adjit.tracer.promotion import dtype_argument
from adjit.tracer.scope import is_tracing
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
    "atanh arctanh": np.arctanh, "abs absolute": np.absolute, "neg negative": np.negative, "reciprocal": np.reciprocal,
    "floor": np.floor, "ceil": np.ceil, "trunc fix": np.trunc, "round": np.round, "deg2rad": np.deg2rad, "rad2deg": np.rad2deg,
    "sinc": np.sinc, "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite, "signbit": np.signbit,
    "angle": np.angle, "isreal": np.isreal, "logical_not": np.logical_not,
    "bitwise_not": np.invert, "mul multiply": np.multiply, "true_divide": np.divide,
    "floor_divide": np.floor_divide, "remainder": np.remainder, "fmod": np.fmod, "pow": np.power, "matmul": np.matmul,
    "maximum": np.maximum, "minimum": np.minimum, "fmax": np.fmax, "fmin": np.fmin, "atan2 arctan2": np.arctan2, "hypot": np.hypot,
    "logaddexp": np.logaddexp, "copysign": np.copysign, "eq": np.equal, "ne not_equal": np.not_equal,
    "lt less": np.less, "le less_equal": np.less_equal, "gt greater": np.greater, "ge greater_equal": np.greater_equal,
    "logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor, "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor, "isclose": np.isclose, "inner": np.inner,
    "bitwise_left_shift": np.left_shift, "bitwise_right_shift": np.right_shift, "logaddexp2": np.logaddexp2, "nextafter": np.nextafter,
    "gcd": np.gcd, "lcm": np.lcm, "isposinf": np.isposinf, "isneginf": np.isneginf, "conj_physical": np.conjugate,
    "fliplr": np.fliplr, "flipud": np.flipud,
    **{ours: ("scipy.special", name) for ours, name in (
        ("erfc", "erfc"), ("erfinv", "erfinv"), ("lgamma", "gammaln"), ("digamma", "psi"), ("i0", "i0"))},
}.items() for name in names.split()}

_OWN_METHODS: dict[str, Any] = {name: function for names, function in {
    "div divide": elementwise.divide, "square": elementwise.square, "rsqrt": elementwise.rsqrt, "relu": elementwise.relu,
    "frac": elementwise.frac, "sign sgn": elementwise.sign, "clamp clip": elementwise.clamp, "clamp_min": elementwise.clamp_min,
    "clamp_max": elementwise.clamp_max,
    "lerp": elementwise.lerp, "addcmul": elementwise.addcmul, "addcdiv": elementwise.addcdiv, "where": elementwise.where,
    "masked_fill": elementwise.masked_fill, "clone": elementwise.clone, "sigmoid": elementwise.sigmoid, "erf": composites.erf,
    "nan_to_num": elementwise.nan_to_num, "trace": reductions.trace,
    "sum": reductions.sum, "mean": reductions.mean, "prod": reductions.prod, "var": reductions.var, "std": reductions.std,
    "amax": reductions.amax, "amin": reductions.amin, "argmax": reductions.argmax, "argmin": reductions.argmin, "all": reductions.all,
    "any": reductions.any, "count_nonzero": reductions.count_nonzero, "cumsum": reductions.cumsum, "cumprod": reductions.cumprod,
    "logsumexp": reductions.logsumexp, "softmax": reductions.softmax, "log_softmax": reductions.log_softmax, "norm": reductions.norm,
    "flatten": shapes.flatten, "unflatten": shapes.unflatten, "unsqueeze": shapes.unsqueeze, "squeeze": shapes.squeeze, "t": shapes.t,
    "movedim moveaxis": shapes.movedim, "swapaxes swapdims": shapes.transpose, "narrow": shapes.narrow, "select": shapes.select,
    "unbind": shapes.unbind, "split unsafe_split": shapes.split, "chunk unsafe_chunk": shapes.chunk,
    "roll": shapes.roll, "diagonal": shapes.diagonal,
    "diag": shapes.diag, "tril": shapes.tril, "triu": shapes.triu, "repeat_interleave": shapes.repeat_interleave,
    "mm": matmul.mm, "bmm": matmul.bmm, "mv": matmul.mv, "dot": matmul.dot, "outer ger": matmul.outer, "addmm": matmul.addmm,
    "baddbmm": matmul.baddbmm, "addmv": matmul.addmv, "take": indexed.take, "index_select": indexed.index_select,
    "index_add": indexed.index_add, "gather": indexed.gather, "scatter": indexed.scatter, "scatter_add": indexed.scatter_add,
    "argsort": indexed.argsort, "sort": indexed.sort, "diff": statistics.diff,
    "nansum": statistics.nansum, "nanmean": statistics.nanmean, "take_along_dim": statistics.take_along_dim,
    "index_fill": statistics.index_fill, "index_copy": statistics.index_copy,
    "median": order.median, "nanmedian": order.nanmedian, "kthvalue": order.kthvalue, "mode": order.mode, "msort": order.msort,
    "quantile": order.quantile, "nanquantile": order.nanquantile, "cummax": order.cummax, "cummin": order.cummin,
    "logcumsumexp": order.logcumsumexp, "aminmax": order.aminmax, "histc": order.histc, "renorm": order.renorm,
    "cov": order.cov, "corrcoef": order.corrcoef, "stft": spectra.stft, "istft": spectra.istft, "narrow_copy": shapes.narrow_copy,
    "addbmm": matmul.addbmm, "addr": matmul.addr, "vdot": matmul.vdot, "kron": matmul.kron, "cross": matmul.cross, "dist": matmul.dist,
    "split_with_sizes unsafe_split_with_sizes": shapes.split_with_sizes,
    "tensor_split": shapes.tensor_split, "hsplit": shapes.hsplit, "vsplit": shapes.vsplit,
    "dsplit": shapes.dsplit, "rot90": shapes.rot90, "diag_embed": shapes.diag_embed, "diagflat": shapes.diagflat, "unfold": shapes.unfold,
    "scatter_reduce": scattering.scatter_reduce, "index_reduce": scattering.index_reduce, "index_put": scattering.index_put,
    "put": scattering.put, "masked_scatter": scattering.masked_scatter, "diagonal_scatter": scattering.diagonal_scatter,
    "select_scatter": scattering.select_scatter, "slice_scatter": scattering.slice_scatter,
    "float_power": elementwise.float_power, "ldexp": elementwise.ldexp, "hardshrink": elementwise.hardshrink, "prelu": elementwise.prelu,
    "polygamma": elementwise.polygamma, "mvlgamma": elementwise.mvlgamma, "igamma": elementwise.igamma, "igammac": elementwise.igammac,
    "logit": elementwise.logit, "frexp": elementwise.frexp, "heaviside": elementwise.heaviside, "xlogy": elementwise.xlogy,
}.items() for name in names.split()}

# Each name followed by "_" writes into the tensor.
_IN_PLACE = [name for names in (
    "mul multiply div divide true_divide floor_divide remainder fmod pow exp exp2 expm1 log log2 log10 log1p sqrt rsqrt square reciprocal",
    "sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh abs sign neg negative floor ceil trunc round frac nan_to_num relu sigmoid",
    "erf clamp clip clamp_min clamp_max lerp addcmul addcdiv masked_fill cumsum cumprod tril triu addmm index_add scatter scatter_add",
    "index_fill index_copy",
    "logical_not logical_and logical_or eq ne lt le gt ge erfc erfinv lgamma digamma i0 logit",
    "absolute arccos arccosh arcsin arcsinh arctan arctan2 arctanh atan2 addbmm addmv addr baddbmm bitwise_and bitwise_or bitwise_xor",
    "bitwise_not bitwise_left_shift bitwise_right_shift conj_physical copysign deg2rad rad2deg fix float_power gcd lcm greater",
    "greater_equal less less_equal not_equal heaviside hypot igamma igammac index_reduce ldexp logical_xor masked_scatter mvlgamma",
    "nextafter polygamma put renorm scatter_reduce sgn sinc xlogy index_put",
) for name in names.split()]

# Indices of these functions are not negative. Compiled code, which does not read values, counts negative ones from the end.
_INDEXED = ("index_select", *(name + end for end in ("", "_") for name in (
    "index_add", "index_fill", "index_copy", "scatter", "scatter_add")))


# Integers that these functions divide by 0 are an error in PyTorch, 0 in NumPy.
_DIVIDING = ("__floordiv__", "__ifloordiv__", "__mod__", "__imod__", "floor_divide", "floor_divide_", "remainder", "remainder_", "fmod",
             "fmod_")


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
    members["gather"] = _gathering(members["gather"])
    members |= {name: checked(functools.partial(check_divisor, name))(members[name]) for name in _DIVIDING}
    members |= {name: checked(lambda x, other, name=name: check_divisor(name, x, x if isinstance(other, int) else 1))(members[name])
                for name in ("__rfloordiv__", "__rmod__")}
    members |= {
        "add": _with_alpha(raw(np.add), elementwise.add, apply), "sub": _with_alpha(raw(np.subtract), elementwise.subtract, apply),
        "subtract": _with_alpha(raw(np.subtract), elementwise.subtract, apply),
        "add_": _with_alpha(raw(np.add), elementwise.add, _write), "sub_": _with_alpha(raw(np.subtract), elementwise.subtract, _write),
        "topk": _topk, "max": _extremum("max", reductions.max, raw(np.maximum)), "min": _extremum("min", reductions.min, raw(np.minimum)),
        "copy_": _in_place_method("copy_", elementwise.copy_from), "fill_": _in_place_method("fill_", elementwise.fill),
        "zero_": _in_place_method("zero_", elementwise.zero), "normal_": _normal, "uniform_": _uniform, "bernoulli_": _bernoulli,
        "bernoulli": _drawn, "multinomial": _multinomial, "exponential_": _exponential, "geometric_": _geometric, "cauchy_": _cauchy,
        "log_normal_": _log_normal, "random_": _random, "subtract_": _with_alpha(raw(np.subtract), elementwise.subtract, _write),
        "fill_diagonal_": _in_place_method("fill_diagonal_", scattering.fill_diagonal), "positive": _positive,
        "sum_to_size": _itself_if_of_shape(_sizes("sum_to_size", shapes.sum_to_size, "size")),
        "reshape": _sizes("reshape", shapes.reshape, "shape"), "view": _view,
        "flatten": _itself_if_of_shape(members["flatten"]),
        "expand": _sizes("expand", shapes.expand, "size"), "repeat": _sizes("repeat", shapes.repeat, "repeats"),
        "tile": _tile, "permute": _sizes("permute", shapes.permute, "dims"),
        "flip": _sizes("flip", shapes.flip, "dims", "axis"), "transpose": _transpose, "ravel": _ravel,
        "expand_as": _expand_as, "reshape_as": _reshape_as, "view_as": _reshape_as,
        "broadcast_to": _sizes("broadcast_to", shapes.expand, "size", "shape"), "masked_select": indexing.masked_select,
        "conj": _conj, "select": _at_tensors(members["select"]), "narrow": _of_integers(members["narrow"]),
        "allclose": _allclose, "equal": _equal,
        "__pos__": _pos, "__getitem__": indexing.get_item, "__setitem__": indexing.set_item, "__contains__": _contains,
    }
    members |= shape_changes.METHODS
    for name, member in members.items():
        setattr(Tensor, name, signatures.named(member, name))


def add_methods(functions: Mapping[str, Function]) -> None:
    """Install further methods: functions over traced arrays, by name."""
    for name, function in functions.items():
        setattr(Tensor, name, signatures.named(_method(name, function), name))


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
            known = machine_code.call
            if known is not None and (made := known(function, self, other)) is not None:
                return made
            return apply_in_python(function, (self, other)) if isinstance(other, _OPERANDS) else _not_ours(function, other)
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
            known = machine_code.call
            if known is not None and (made := known(function, self, *args, **kwargs)) is not None:
                return made
            return apply_in_python(function, (self, *args), kwargs)
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


def _topk(self: Tensor, *args: Any, **kwargs: Any) -> Any:
    array = self.array
    if type(array) is not np.ndarray or not array.ndim or array.dtype.kind not in "biuf" or is_tracing():
        return _topk_traced(self, *args, **kwargs)
    try:
        k, dim, largest = (*args, True) if len(args) == 2 and not kwargs and _INTEGERS.issuperset(map(type, args)) else _topk_arguments(
            *args, **kwargs)
    except (TypeError, IndexError):
        return _topk_traced(self, *args, **kwargs)
    axis = dim + array.ndim if dim < 0 else dim
    if not (0 <= axis < array.ndim and 0 <= k <= array.shape[axis]):
        return _topk_traced(self, *args, **kwargs)
    indices = new_tensor(_top_of(array.shape, array.dtype, k, axis, largest).run(array))
    known = machine_code.call
    values = None if known is None else known(indexed.at_top, self, axis, indices)
    if values is None:
        values = apply_in_python(indexed.at_top, (self, axis, indices))
    return new_tuple(reductions.ValuesAndIndices, (values, indices))


class _Top:
    """Indices of the first elements of arrays of one kind, by `run`."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype, k: int, axis: int, largest: bool):
        find = TopFunction(k, axis, largest)
        types = (TensorType(dtype, shape),), (TensorType(I64, find.shape(shape)),)
        self.run = counted(NumpyFunction(find, "top indices", (True,), (None,), params=types[0], results=types[1]), True, self)


_top_of = functools.lru_cache(maxsize=1024)(_Top)
_topk_traced = _method("topk", indexed.topk)
_topk.__doc__ = indexed.topk.__doc__
signatures.like(_topk, indexed.topk)


def _topk_arguments(k: Any, dim: Any = -1, largest: bool = True, sorted: bool = True, *, axis: Any = None) -> tuple[int, int, bool]:
    return operator.index(k), operator.index(dim if axis is None else axis), bool(largest)


def _gathering(method: Function) -> Function:
    """`gather`, which leaves the check of indices to what takes the elements."""
    from_start, checked_first = _method("gather", indexed.gather_from_start), checked(functools.partial(check_indices, "gather"))(method)

    @functools.wraps(method)
    def gather(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        if not self.ndim or (switches.devices and not is_tracing()):
            return checked_first(self, *args, **kwargs)
        try:
            return from_start(self, *args, **kwargs)
        except IndexError as error:
            found = error
        check_indices("gather", self, *args, **kwargs)
        raise found

    return gather


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
            if not (given and _INTEGERS.issuperset(map(type, given))):
                given = _integers(*given)
            known = machine_code.call
            if known is not None and (made := known(function, self, given)) is not None:
                return made         # type: ignore[no-any-return]
            return apply_in_python(function, (self, given))
        except BaseException as error:
            hide_frames(error)
            raise

    method.__name__ = name
    method.__doc__ = function.__doc__
    signatures.sized(method, *keywords)
    return method


def _view(self: Tensor, *sizes: Any, **kwargs: Any) -> Tensor:
    dtype = kwargs.get("dtype", sizes[0] if len(sizes) == 1 else None)
    if dtype is not None and not hasattr(dtype, "__index__") and not isinstance(dtype, (tuple, list)):
        return _read_as(self, dtype_argument(dtype))
    given = arguments.of_sizes(_view, ("size", "shape"), sizes, kwargs) if kwargs else sizes
    if len(given) != 1 or type(given[0]) is not int:
        given = _integers(*given)
    made: Tensor = apply(shapes.view, (self, given))
    if made._view is None and made.array.size:
        shapes.refuse_view(self.shape, given)
    return made


def _read_as(self: Tensor, dtype: np.dtype) -> Tensor:
    if is_tracing() or dtype.kind == "c" or self.dtype.kind == "c":
        return apply(shapes.view_dtype, (self, dtype))
    made = new_tensor(shapes.as_dtype(self.array, dtype))      # no derivative passes through bits
    made._writes = self._writes
    return made


_view.__doc__ = shapes.view.__doc__
signatures.sized(_view, "size", "shape")


def _integers(*sizes: Any) -> tuple[int, ...]:
    several = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes
    return several if type(several) is tuple and _INTEGERS.issuperset(map(type, several)) else tuple(map(operator.index, several))


_INTEGERS = frozenset({int})


def _tile(self: Tensor, *sizes: Any, dims: Any = None) -> Tensor:
    """Repeat the tensor as a whole along each dimension; if there are fewer numbers than dimensions they apply to the last ones."""
    counts = _integers(*sizes) if dims is None else _integers(dims)
    return apply(shapes.repeat, (self, (1,) * (self.ndim - len(counts)) + counts))


def _transpose(self: Tensor, *dims: Any, dim0: int | None = None, dim1: int | None = None) -> Tensor:
    """Swap two dimensions, as in PyTorch; as in NumPy, reverse all without arguments, or reorder them to the order of a tuple."""
    if dim0 is not None or dim1 is not None:
        dims = (*dims, *(dim for dim in (dim0, dim1) if dim is not None))
    if not dims:
        return apply(shapes.permute, (self, tuple(range(self.ndim))[::-1]))
    if len(dims) == 2:
        return apply(shapes.transpose, (self, *(dims if _INTEGERS.issuperset(map(type, dims)) else map(operator.index, dims))))
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
    check_parameter("normal_", "std", std, ">= 0")
    return apply_in_place(elementwise.normal, self, (next_key(generator), mean, std))


def _uniform(self: Tensor, from_: float = 0.0, to: float = 1.0, *, generator: Generator | None = None, **interval: float) -> Tensor:
    """Fill the tensor with uniform numbers from [`from`, `to`)."""
    low = interval.pop("from", from_)
    if interval:
        raise TypeError(f"uniform_() got an unexpected argument {next(iter(interval))!r}")
    check_parameter("uniform_", "to - from", to - low, ">= 0")
    return apply_in_place(elementwise.uniform, self, (next_key(generator), low, to))


def _bernoulli(self: Tensor, p: float | Tensor = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Fill the tensor with 1 with probability `p`, else 0."""
    check_parameter("bernoulli_", "p", p, "in [0, 1]")
    return apply_in_place(elementwise.bernoulli, self, (next_key(generator), p))


def _exponential(self: Tensor, lambd: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill the tensor with numbers of the exponential distribution of rate `lambd`."""
    check_parameter("exponential_", "lambd", lambd, "> 0")
    return apply_in_place(elementwise.exponential, self, (next_key(generator), lambd))


def _geometric(self: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """Fill the tensor with numbers of trials until the first success of probability `p`."""
    check_parameter("geometric_", "p", p, "in (0, 1)")
    return apply_in_place(elementwise.geometric, self, (next_key(generator), p))


def _cauchy(self: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill the tensor with numbers of the Cauchy distribution."""
    check_parameter("cauchy_", "sigma", sigma, "> 0")
    return apply_in_place(elementwise.cauchy, self, (next_key(generator), median, sigma))


def _log_normal(self: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Generator | None = None) -> Tensor:
    """Fill the tensor with exponentials of numbers of the normal distribution."""
    check_parameter("log_normal_", "std", std, "> 0")
    return apply_in_place(elementwise.log_normal, self, (next_key(generator), mean, std))


def _random(self: Tensor, from_: int = 0, to: int | None = None, *, generator: Generator | None = None, **interval: Any) -> Tensor:
    """Fill the tensor with integers: `random_(to)` from 0, `random_(from, to)`, below `to`; without an argument as large as its dtype holds
    exactly."""
    low, high = interval.pop("from", from_), to
    if interval:
        raise TypeError(f"random_() got an unexpected argument {next(iter(interval))!r}")
    if high is None:
        digits = np.finfo(self.dtype).nmant + 1 if self.dtype.kind == "f" else np.iinfo(self.dtype).bits - (self.dtype.kind == "i")
        low, high = (0, low) if low else (0, 2 ** min(int(digits), 62))
    return apply_in_place(elementwise.integers, self, (next_key(generator), operator.index(low), operator.index(high)))


def _multinomial(self: Tensor, num_samples: int, replacement: bool = False, *, generator: Generator | None = None) -> Tensor:
    """Draw indices with the probabilities that the last dimension holds, which need not add up to 1.

    Raises `ArgumentError` for negative, infinite or NaN probabilities, and where there are fewer of them above 0 than samples without
    replacement. Compiled code does not look at values.
    """
    if not is_tracing():
        _check_probabilities(host_content(self.array), 1 if replacement else num_samples)
    return apply(elementwise.multinomial, (self.detach(), next_key(generator), operator.index(num_samples), bool(replacement)))


def _check_probabilities(array: np.ndarray, least: int) -> None:
    if not np.all(np.isfinite(array)) or np.any(array < 0):
        raise ArgumentError("multinomial: probability tensor contains either inf, nan or element < 0", find_user_location())
    if array.ndim and np.any(np.count_nonzero(array, axis=-1) < min(least, array.shape[-1])):
        raise ArgumentError("multinomial: fewer probabilities are above 0 than there are samples to draw", find_user_location(),
                            hint="pass replacement=True to draw elements more than once")


def _positive(self: Tensor) -> Tensor:
    """Return the tensor itself."""
    return self


def _of_integers(method: Function) -> Function:
    """Convert tensors among the arguments of a method to integers."""
    @functools.wraps(method)
    def call(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return method(self, *(operator.index(arg) if isinstance(arg, Tensor) else arg for arg in args),     # type: ignore[no-any-return]
                      **{name: operator.index(arg) if isinstance(arg, Tensor) else arg for name, arg in kwargs.items()})

    return call


def _itself_if_of_shape(method: Function) -> Function:
    """Method that gives a tensor another shape, and returns the tensor itself where that is the one it has."""
    @functools.wraps(method)
    def call(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        made: Tensor = method(self, *args, **kwargs)
        return self if made.array.shape == self.array.shape else made

    return call


def _at_tensors(method: Function) -> Function:
    """`select`, whose index may be a tensor: the index of a view that is not known while tracing."""
    @functools.wraps(method)
    def select(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        index = kwargs.get("index", args[-1] if args else None)
        if not isinstance(index, Tensor):
            return method(self, *args, **kwargs)      # type: ignore[no-any-return]
        return indexing.select(self, kwargs.get("dim", kwargs.get("axis", args[0] if args else 0)), index)

    return select


def _conj(self: Tensor) -> Tensor:
    """Return the complex conjugates, a copy; of real numbers the tensor itself."""
    return apply(raw(np.conjugate), (self,)) if self.dtype.kind == "c" else self


def _drawn(self: Tensor, *, generator: Generator | None = None) -> Tensor:
    """Draw 1 with the probability that the tensor holds at each position, else 0."""
    check_parameter("bernoulli", "probabilities", self, "in [0, 1]")
    return apply_in_place(elementwise.bernoulli, apply(elementwise.clone, (self.detach(),)), (next_key(generator), self.detach()))


install()
