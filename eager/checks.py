"""Checks of the values of indices and labels in eager mode; compiled code does not check them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from adjit.codegen.numpy.chunks import STEP_BYTES
from adjit.codegen.numpy.graph_function import compile_graph
from adjit.eager.operation import counted
from adjit.eager.tensor import Tensor
from adjit.ir import ops
from adjit.ir.builder import GraphBuilder
from adjit.ir.emitter import emitting
from adjit.ir.errors import ArgumentError, IndexingError, ZeroDivisorError
from adjit.ir.types import I64, TensorType
from adjit.tracer.array import contains_traced
from adjit.tracer.scope import is_tracing
from adjit.tracer.user_location import find_user_location

Function = Callable[..., Any]
F = TypeVar("F", bound=Callable[..., Any])


def checked(check: Function) -> Callable[[F], F]:
    """Call `check` with the arguments of a function before the function, if their values are known: outside of a trace."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if not is_tracing():
                check(*args, **kwargs)
            return function(*args, **kwargs)

        return call     # type: ignore[return-value]

    return decorate


def known(x: Any) -> np.ndarray | None:
    """Return the array of an argument; None if its values are not known."""
    if isinstance(x, Tensor):
        x = x.array
    return x if type(x) is np.ndarray else None if contains_traced(x) else np.asarray(x)


def check_range(function: str, what: str, indices: Any, size: int, sizes: str, ignored: int | None = None, hint: str | None = None,
                in_pytorch: str = "") -> None:
    """Raise `IndexingError` for an index outside of [0, size) other than `ignored`; `in_pytorch` is what PyTorch says then."""
    array = known(indices)
    if array is None or array.dtype.kind not in "iu" or not array.size:
        return
    if array.dtype == I64 and array.nbytes <= STEP_BYTES:
        if _are_within(array, size):
            return
    elif np.maximum.reduce(array.view(f"u{array.itemsize}"), None) < size:      # negative numbers are large ones
        return
    wrong = (array < 0) | (array >= size)
    if ignored is not None:
        wrong &= array != ignored
    if wrong.any():
        also = f" ({in_pytorch.format(array[wrong][0])})" if in_pytorch else ""
        raise IndexingError(f"{function}: the {what} {array[wrong][0]} is out of range: there are {size} {sizes}, numbered from 0{also}",
                            find_user_location(), hint=hint)


def _are_within(array: np.ndarray, size: int) -> bool:
    low, high = _bounds(array.shape).run(array)
    return low.item() >= 0 and high.item() < size       # type: ignore[no-any-return]


class _Bounds:
    """The least and the largest of few integers, by `run`: two calls of NumPy take longer than most operations on as many."""

    def __init__(self, shape: tuple[int, ...]):
        builder = GraphBuilder("bounds")
        x = builder.param(TensorType(I64, shape))
        with emitting(builder):
            results = [reduce(x, axes=tuple(range(len(shape)))) if shape else x for reduce in (ops.reduce_min, ops.reduce_max)]
        self.run = counted(compile_graph(builder.build(results)), False, self)


_bounds = functools.lru_cache(maxsize=1024)(_Bounds)


def check_indices(function: str, x: Any, dim: Any = None, index: Any = 0, *rest: Any, axis: Any = None, **options: Any) -> None:
    """Raise `IndexingError` for an index that dimension `dim` of `x` does not have; negative indices are not allowed."""
    dim = axis if dim is None else dim
    shape = x.array.shape or (1,)
    if isinstance(dim, int) and -len(shape) <= dim < len(shape):
        size, array = shape[dim], index.array if isinstance(index, Tensor) else None
        if type(array) is np.ndarray and array.dtype == I64 and 0 < array.nbytes <= STEP_BYTES and _are_within(array, size):
            return      # what follows takes as long as taking few elements
        check_range(function, "index", index, size, f"elements in dimension {dim}")


def check_divisor(function: str, x: Any, other: Any = 1, *rest: Any, **options: Any) -> None:
    """Raise `ZeroDivisorError` for integers that are divided by 0, as PyTorch does; NumPy gives 0."""
    divisor = other.array if isinstance(other, Tensor) else other
    kind = divisor.dtype.kind if isinstance(divisor, np.ndarray) else "i" if isinstance(divisor, (int, np.integer, np.bool_)) else "f"
    if kind in "biu" and x.dtype.kind in "biu" and x.array.size and np.any(np.equal(divisor, 0)):
        raise ZeroDivisorError(f"{function}: integers are divided by 0 (ZeroDivisionError)", find_user_location(),
                               hint="choose a divisor that is not 0, x // aj.where(y == 0, 1, y), or divide floats")


_RANGES: dict[str, Callable[[np.ndarray], Any]] = {
    ">= 0": lambda x: x >= 0, "> 0": lambda x: x > 0, "in [0, 1]": lambda x: (x >= 0) & (x <= 1), "in (0, 1)": lambda x: (x > 0) & (x < 1)}


def check_parameter(function: str, name: str, value: Any, allowed: str) -> None:
    """Raise `ArgumentError` for a parameter of a distribution that is not in its range; values within a trace are not known."""
    array = None if is_tracing() and not isinstance(value, (int, float)) else known(value)
    if array is not None and array.dtype.kind in "biuf" and not np.all(_RANGES[allowed](array)):
        found = f"{name}={value}" if not array.ndim else f"{array[~_RANGES[allowed](array)][0]} among {name}"
        raise ArgumentError(f"{function} expects {name} {allowed}, but found {found}", find_user_location())
