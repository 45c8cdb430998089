"""Checks of the arguments of network functions, and their errors."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Sequence
from functools import wraps
from inspect import Parameter, unwrap
from typing import Any, Literal, NoReturn, Protocol, TypeVar

import numpy as np

from adjit.eager.in_place import apply_in_place
from adjit.eager.tensor import Tensor
from adjit.ir.errors import ArgumentError, DTypeError, ShapeError
from adjit.ir.types import is_float
from adjit.tracer.array import as_traced
from adjit.tracer.user_location import find_user_location, warn_user

F = TypeVar("F", bound=Callable[..., Any])
Reduction = Literal["mean", "sum", "none"]
OutputSize = int | Sequence[int | None] | None
InterpolationMode = Literal["nearest", "nearest-exact", "linear", "bilinear", "bicubic", "trilinear", "area"]


class Array(Protocol):
    """Array argument of network functions: NumPy's, a tensor, or a traced array. The result is of the same kind."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        ...

    @property
    def dtype(self) -> Any:
        """NumPy dtype of the elements."""
        ...

    @property
    def ndim(self) -> int:
        """Number of axes."""
        ...

    def __add__(self, other: Any, /) -> Any: ...
    def __radd__(self, other: Any, /) -> Any: ...
    def __sub__(self, other: Any, /) -> Any: ...
    def __rsub__(self, other: Any, /) -> Any: ...
    def __mul__(self, other: Any, /) -> Any: ...
    def __rmul__(self, other: Any, /) -> Any: ...
    def __truediv__(self, other: Any, /) -> Any: ...
    def __rtruediv__(self, other: Any, /) -> Any: ...
    def __neg__(self) -> Any: ...


def with_inplace(function: F) -> F:
    """Add PyTorch's `inplace` as the last argument of a dispatched function: its result is written into `input`, which is returned."""
    written = unwrap(function)
    signature = inspect.signature(function)
    most = sum(p.kind is p.POSITIONAL_OR_KEYWORD for p in signature.parameters.values()) - 1

    @wraps(function)
    def either(input: Any, *settings: Any, inplace: bool = False, **named: Any) -> Any:
        if len(settings) > most:
            *settings, inplace = settings       # type: ignore[assignment]
        if not inplace:
            return function(input, *settings, **named)
        if isinstance(input, Tensor):
            return apply_in_place(written, input, tuple(settings), named)
        input[...] = function(input, *settings, **named)
        return input

    last = Parameter("inplace", Parameter.POSITIONAL_OR_KEYWORD, default=False, annotation="bool")
    either.__signature__ = signature.replace(parameters=[*signature.parameters.values(), last])      # type: ignore[attr-defined]
    return either       # type: ignore[return-value]


def reduction_of(size_average: bool | None, reduce: bool | None, reduction: Any) -> Any:
    """Return the reduction that PyTorch's older arguments name, with a warning; `reduction` if they are None.

    Raises `ArgumentError` for what is no bool: a reduction given by position would be the mean.
    """
    if size_average is None and reduce is None:
        return reduction
    for name, value in (("size_average", size_average), ("reduce", reduce)):
        if value is not None and not isinstance(value, (bool, np.bool_)):
            raise ArgumentError(f"{name} is True, False or None, got {value!r}", find_user_location(),
                                hint=f"give the reduction by name: reduction={value!r}" if isinstance(value, str) else
                                     "give what follows it by name")
    found = "none" if reduce is not None and not reduce else "mean" if size_average is None or size_average else "sum"
    warn_user(f"size_average and reduce are PyTorch's older names: write reduction={found!r}")
    return found


def floating(x: Array, function: str) -> Any:
    """Return `x` as a traced array of floats; raises `DTypeError`."""
    array = as_traced(x)
    if not is_float(array.dtype):
        raise DTypeError(f"{function} takes floating-point arrays, got {array.dtype}", find_user_location(),
                         hint="convert the array with .astype(np.float32) or .astype(np.float64) first")
    return array


def integers(labels: Array, function: str, what: str = "labels") -> Any:
    """Return `labels` as a traced array of integers; raises `DTypeError`."""
    array = as_traced(labels)
    if array.dtype.kind not in "iu":
        raise DTypeError(f"{function}: {what} are integers, got {array.dtype}", find_user_location(),
                         hint="convert them with .astype(np.int64)")
    return array


def pair(prediction: Array, target: Array, function: str, broadcast: bool = False) -> tuple[Any, Any]:
    """Return both if their shapes are equal, or, with `broadcast` and a warning, can be broadcast; a target of integers or bools is
    converted to the prediction's dtype."""
    prediction, target = floating(prediction, function), as_traced(target)
    arrays: list[Any] = [prediction, target]
    if prediction.shape != target.shape and broadcast and _is_compatible(prediction.shape, target.shape):
        warn_user(f"{function}: the target has the shape {target.shape}, the prediction {prediction.shape}: they are broadcast, which is "
                  "rarely meant; make their shapes equal")
        prediction, target = np.broadcast_arrays(*arrays)
    elif prediction.shape != target.shape:
        raise ShapeError(f"{function}: the prediction has shape {prediction.shape}, the target {target.shape}", find_user_location(),
                         hint="reshape one of them; they are not broadcast")
    return prediction, target if is_float(target.dtype) else target.astype(prediction.dtype)


def _is_compatible(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return all(1 in sizes or sizes[0] == sizes[1] for sizes in zip(reversed(one), reversed(other), strict=False))


def parameter(array: Array | None, shape: tuple[int, ...], function: str, what: str) -> Any:
    """Return a parameter as a traced array, or None if there is none; raises `ShapeError` if its shape differs."""
    if array is None:
        return None
    array = floating(array, f"{function}: {what}")
    if array.shape != shape:
        refuse_shape(f"{function}: {what} has shape {array.shape}, it has to be {shape}")
    return array


def refuse_shape(message: str, hint: str | None = None) -> NoReturn:
    raise ShapeError(message, find_user_location(), hint=hint)


def one_per_axis(value: int | Sequence[int], axes: int, function: str, name: str, least: int) -> tuple[int, ...]:
    """Return an integer for every spatial axis, from one for all or a sequence of them; none below `least`."""
    given: Sequence[int] = value if isinstance(value, (tuple, list)) else (value,)       # type: ignore[assignment]
    numbers = tuple(map(operator.index, given)) * (axes if len(given) == 1 else 1)
    if len(numbers) != axes or min(numbers) < least:
        raise ArgumentError(f"{function}: {name} is an integer, or one for each of the {axes} axes, at least {least}; got {value!r}",
                            find_user_location())
    return numbers


def dimension(axis: Any, dim: Any, function: str) -> Any:
    """Return the axis that `dim`, PyTorch's name, or `axis`, NumPy's name, gives."""
    if dim is None:
        return axis
    if axis is not None:
        raise TypeError(f"{function}: dim and axis are two names of one argument, both were given")
    return dim
