"""The operators and methods of ndarray, on traced arrays: each calls the NumPy function of the same meaning."""

from __future__ import annotations

import builtins
import math
import operator
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from adjit.ir.errors import TraceError, UnsupportedError
from adjit.ir.types import dtype_kind
from adjit.tracer.array import PythonBool, TracedArray, wrap
from adjit.tracer.caught_errors import is_caught
from adjit.tracer.direct import apply_directly
from adjit.tracer.foreign_arrays import opened
from adjit.tracer.functions.composites import stop_gradient
from adjit.tracer.promotion import Casting, is_weak
from adjit.tracer.python_scalars import as_integer, install_bools, truth_value
from adjit.tracer.registry import FUNCTIONS, find, unsupported
from adjit.tracer.user_location import find_user_location

_BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.divide, "floordiv": np.floor_divide,
    "mod": np.remainder, "pow": np.power, "matmul": np.matmul, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "lshift": np.left_shift, "rshift": np.right_shift,
}
_COMPARE = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}
_UNARY = {"neg": np.negative, "pos": np.positive, "abs": np.absolute, "invert": np.invert}
_METHODS = {
    "all": np.all, "any": np.any, "argmax": np.argmax, "argmin": np.argmin, "argpartition": np.argpartition, "argsort": np.argsort,
    "choose": np.choose, "clip": np.clip, "cumprod": np.cumprod, "cumsum": np.cumsum, "diagonal": np.diagonal,
    "dot": np.dot, "max": np.max, "mean": np.mean, "min": np.min, "nonzero": np.nonzero, "prod": np.prod, "put": np.put, "ravel": np.ravel,
    "repeat": np.repeat, "resize": np.ndarray.resize, "round": np.round, "searchsorted": np.searchsorted, "squeeze": np.squeeze,
    "std": np.std, "sum": np.sum,
    "swapaxes": np.swapaxes, "take": np.take, "trace": np.trace, "var": np.var,
}


def _operand(x: Any) -> bool:
    """True if NumPy would compute with `x` itself; else Python asks `x` for the reflected operator."""
    return isinstance(x, (TracedArray, np.ndarray, np.generic, bool, int, float, complex, list, tuple))


def _without_loop(ufunc: np.ufunc, inputs: Sequence[Any]) -> Any:
    """The result of an operator with what is no number. No element equals None or a text; of other operators with a text NumPy says that
    there is no loop. Else Python asks the other operand."""
    text = any(isinstance(x, (str, bytes)) for x in inputs)
    array = next((x for x in inputs if isinstance(x, TracedArray)), None)
    if array is None or array.scalar or not (text or any(x is None for x in inputs)):
        return NotImplemented
    if ufunc in (np.equal, np.not_equal):
        return FUNCTIONS[np.full_like](array, ufunc is np.not_equal, dtype=bool)
    return FUNCTIONS[ufunc](*inputs) if text else NotImplemented


def _apply(ufunc: np.ufunc, *inputs: Any) -> Any:
    """Apply a ufunc for an operator: Python numbers stay weak, as Python's own would."""
    made = apply_directly(ufunc, inputs, True)
    if made is not NotImplemented:
        return made
    inputs = FUNCTIONS["settled"](inputs)
    if not all(map(_operand, inputs)):
        inputs = tuple(x if _operand(x) else opened(x) for x in inputs)
        if not all(map(_operand, inputs)):
            return _without_loop(ufunc, inputs)
    result = FUNCTIONS[ufunc](*inputs)
    if isinstance(result, TracedArray) and dtype_kind(result.dtype) in "ficb" and all(map(is_weak, inputs)):
        made = wrap(result.value, weak=True)
        return truth_value(made) if isinstance(made, PythonBool) else made
    return result


def _binary(ufunc: np.ufunc) -> Callable[..., Any]:
    return lambda self, other: _apply(ufunc, self, other)


def _reflected(ufunc: np.ufunc) -> Callable[..., Any]:
    return lambda self, other: _apply(ufunc, other, self)


def _raising(name: str, apply: Callable[..., Any], reflected: bool) -> Callable[..., Any]:
    """Operator that divides: of Python floats it raises as Python does, where the user's code catches that."""
    own: Callable[..., Any] = getattr(operator, name, divmod)

    def divide(self: TracedArray, other: Any, *modulus: Any) -> Any:
        result = apply(self, other, *modulus)
        first = result[0] if type(result) is tuple else result
        if isinstance(first, TracedArray) and first.weak and first.scalar and is_caught(ZeroDivisionError, OverflowError):
            a, b = (other, self) if reflected else (self, other)
            if name != "pow":
                if bool(b == 0):
                    own(1.0, 0.0)
            elif bool(find(np.equal)(a, 0) & find(np.less)(b, 0)):
                own(0.0, -1.0)
            elif bool(find(np.isinf)(first) & find(np.isfinite)(a) & find(np.isfinite)(b)):
                own(1e300, 2.0)
        return result
    return divide


def _repeats(self: TracedArray, other: Any) -> bool:
    """True for `[0] * n`: of a list and an integer Python makes a longer list, and asks for the integer by `__index__`."""
    return isinstance(other, (list, tuple)) and self.scalar and not self.shape and self.dtype.kind in "iu"


def _unless_repeated(multiply: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, other: NotImplemented if _repeats(self, other) else multiply(self, other)


def _in_place(ufunc: np.ufunc) -> Callable[..., Any]:
    def apply(self: TracedArray, other: Any) -> Any:
        if not _operand(other):
            return NotImplemented
        return _apply(ufunc, self, other) if self.scalar else FUNCTIONS[ufunc](self, other, out=self)

    return apply


def _unary(ufunc: np.ufunc) -> Callable[..., Any]:
    return lambda self: _apply(ufunc, self)


def _method(function: Any) -> Callable[..., Any]:
    return lambda self, *args, **kwargs: find(function)(self, *args, **kwargs)


def _astype(self: TracedArray, dtype: Any, order: str = "K", casting: Casting = "unsafe", subok: bool = True,
            copy: bool = True) -> TracedArray:
    if not copy and self.dtype == np.dtype(dtype):
        return self
    return FUNCTIONS["astype"](self, dtype, casting, order=order)


def _several(sizes: tuple[Any, ...]) -> Any:
    """Return axes or sizes that were given as one tuple or as several arguments."""
    return sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes


def _reshape(self: TracedArray, *shape: Any, order: str = "C", copy: bool | None = None) -> TracedArray:
    return FUNCTIONS[np.reshape](self, _several(shape), order=order, copy=copy)


def _transpose(self: TracedArray, *axes: Any) -> TracedArray:
    return FUNCTIONS[np.transpose](self, _several(axes) or None)


def _copy(self: TracedArray, order: str = "C") -> TracedArray:
    return wrap(self.value) if self.immutable else FUNCTIONS[np.copy](self, order)


def _conjugate(self: TracedArray, out: Any = None) -> Any:
    """Return the conjugate; of reals the array itself, as NumPy does."""
    return self if out is None and self.dtype.kind != "c" else FUNCTIONS[np.conjugate](self, out=out)


def _flatten(self: TracedArray, order: str = "C") -> TracedArray:
    return FUNCTIONS[np.copy](FUNCTIONS[np.ravel](self, order), "C")


def _fill(self: TracedArray, value: Any) -> None:
    if not self.immutable:      # of a scalar, NumPy fills a copy
        self[...] = value


def _sort(self: TracedArray, axis: int = -1, kind: str | None = None, order: Any = None, *, stable: bool | None = None) -> None:
    self[...] = FUNCTIONS[np.sort](self, axis, kind, order, stable=stable)


def _partition(self: TracedArray, kth: Any, axis: int = -1, kind: str = "introselect", order: Any = None) -> None:
    self[...] = FUNCTIONS[np.partition](self, kth, axis, kind, order)


def _compress(self: TracedArray, condition: Any, axis: int | None = None, out: Any = None) -> Any:
    return FUNCTIONS[np.compress](condition, self, axis, out)


def _divmod(self: TracedArray, other: Any) -> Any:
    return FUNCTIONS[np.divmod](self, other) if _operand(other) else NotImplemented


def _rdivmod(self: TracedArray, other: Any) -> Any:
    return FUNCTIONS[np.divmod](other, self) if _operand(other) else NotImplemented


def _pow(self: TracedArray, other: Any, modulus: None = None) -> Any:
    """Raise to a power as NumPy's operator, which squares arrays with `np.square`: bools become int8. With `np.power`, and for a scalar,
    they become int64."""
    if type(other) is int and other == 2 and self.dtype == np.bool_ and self.ndim and modulus is None:
        return FUNCTIONS[np.square](self)
    return _apply(np.power, self, other) if modulus is None else NotImplemented


_PAIRS = (["F", "f"], ["D", "d"])
"""Complex dtypes and those of their parts."""


def _view(self: TracedArray, dtype: Any = None, type: Any = None) -> Any:
    """Return a view of the whole array, of complex numbers as pairs of reals and the other way round, or of the bits as another dtype of
    the same size."""
    if type is not None or (dtype is not None and (isinstance(dtype, builtins.type) and issubclass(dtype, np.ndarray))):
        kind = dtype if type is None else type
        if kind is not np.ndarray:
            raise unsupported(np.ndarray.view, "numpy.ndarray.view")
    elif dtype is not None and np.dtype(dtype) != self.dtype:
        as_other = np.dtype(dtype)
        in_pairs = not self.scalar and sorted((as_other.char, self.dtype.char)) in _PAIRS
        found = FUNCTIONS["pairs view" if in_pairs else "bits view"](self, as_other)
        if found is None:
            raise UnsupportedError(f"numpy.ndarray.view of {self.dtype} as {as_other}: bits are not read as these",
                                   find_user_location(), hint="of contiguous arrays there are views of complex numbers as the floats of "
                                   "their parts, and back, and of integers and of floats of 4 and 8 bytes as others of the same size; "
                                   "x.astype(dtype) converts the values")
        return found
    return FUNCTIONS["getitem"](self, Ellipsis)


MAX_EXACT_POWER = 22
"""Largest power of ten that is a float64."""


def _round_decimally(x: TracedArray, ndigits: int) -> Any:
    """The number of so many decimals that is nearest to a Python float, as Python's `round` finds it: 2.55 is a little less than that, and
    becomes 2.5, where the product with 10 is 25.5. The product's own error decides (Dekker, Numerische Mathematik 18, 1971)."""
    x = stop_gradient(x)
    power, splitter = 10.0 ** ndigits, 134217729.0
    product, high = x * power, splitter * x - (splitter * x - x)
    power_high = splitter * power - (splitter * power - power)
    low, power_low = x - high, power - power_high
    error = ((high * power_high - product) + high * power_low + low * power_high) + low * power_low
    where, whole = FUNCTIONS[np.where], FUNCTIONS[np.rint](product)
    left = product - whole
    whole = where((left == 0.5) & (error > 0), whole + 1.0, where((left == -0.5) & (error < 0), whole - 1.0, whole))
    return where(FUNCTIONS[np.abs](product) < 2.0 ** 52, whole / power, x)


def _round(self: TracedArray, ndigits: Any = None) -> Any:
    """Round as Python's `round`, which gives an integer without `ndigits`."""
    if not self.scalar:
        raise TypeError("type numpy.ndarray doesn't define __round__ method")
    if self.weak and self.dtype.kind == "f" and isinstance(ndigits, int) and 0 <= ndigits <= MAX_EXACT_POWER:
        return wrap(_round_decimally(self, ndigits).value, weak=True)
    if ndigits is not None:
        return wrap(FUNCTIONS[np.round](self, ndigits).value, weak=self.weak)
    return self if self.dtype.kind in "iu" else as_integer(FUNCTIONS[np.rint](self), round)


def _whole(ufunc: np.ufunc, function: Callable[..., Any]) -> Callable[..., Any]:
    """Method that a function of `math` calls."""
    return lambda self: self if self.dtype.kind in "iu" else as_integer(FUNCTIONS[ufunc](self), function)


def array_namespace(self: Any, /, *, api_version: str | None = None) -> ModuleType:
    """Return NumPy's namespace: its functions have rules. SciPy asks for it with SCIPY_ARRAY_API=1. A library with its own wrapper around
    NumPy (array_api_compat) gets its wrapper, so that it finds one namespace for traced arrays and plain ones."""
    library, asked, _ = sys._getframe(1).f_globals.get("__name__", "").partition("array_api_compat.")
    return sys.modules.get(f"{library}array_api_compat.numpy", np) if asked else np


def _deepcopy(self: TracedArray, memo: Any = None) -> TracedArray:
    return _copy(self, "K")


def _pickled(self: TracedArray, protocol: int = 0) -> Any:
    raise TraceError("a traced array is pickled, and it has no values while the function is traced", find_user_location(),
                     hint="return it, and pickle what the compiled function gives")


def install() -> None:
    """Give `TracedArray` its operators and methods."""
    members: dict[str, Callable[..., Any]] = {
        "astype": _astype, "reshape": _reshape, "transpose": _transpose, "copy": _copy, "flatten": _flatten, "fill": _fill,
        "sort": _sort, "partition": _partition, "compress": _compress, "conj": _conjugate, "conjugate": _conjugate,
        "__divmod__": _divmod, "__round__": _round, "view": _view,
        "__rdivmod__": _rdivmod, "__reduce_ex__": _pickled, "__copy__": _deepcopy, "__deepcopy__": _deepcopy,
        "__array_namespace__": array_namespace,
    }
    for name, ufunc in _BINARY.items():
        members |= {f"__{name}__": _binary(ufunc), f"__r{name}__": _reflected(ufunc), f"__i{name}__": _in_place(ufunc)}
    members["__pow__"] = _pow
    members |= {f"__{name}__": _whole(np_function, getattr(math, name)) for name, np_function in (
        ("floor", np.floor), ("ceil", np.ceil), ("trunc", np.trunc))}
    for name in ("truediv", "floordiv", "mod", "pow", "divmod"):
        for prefix in ("", "r", "i") if name != "divmod" else ("", "r"):
            members[f"__{prefix}{name}__"] = _raising(name, members[f"__{prefix}{name}__"], prefix == "r")
    for name in ("__mul__", "__rmul__"):
        members[name] = _unless_repeated(members[name])
    members |= {f"__{name}__": _binary(ufunc) for name, ufunc in _COMPARE.items()}
    members |= {f"__{name}__": _unary(ufunc) for name, ufunc in _UNARY.items()}
    members |= {name: _method(function) for name, function in _METHODS.items()}
    for name, member in members.items():
        member.__name__ = name
        setattr(TracedArray, name, member)
    install_bools()


install()
