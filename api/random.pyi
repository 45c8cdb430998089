# Written by: python docs/make_namespace_stubs.py
# ruff: noqa: E501, F401, RUF100

from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

import numpy as np

from adjit.argument_types import Key, NDArray, Numbers, Padding, Plain, SignAndLogarithm, Size
from adjit.eager.tensor import Tensor
from adjit.eager.tensor_methods import TensorLike
from adjit.nn.functional.arguments import Array, Reduction

__all__ = [
    "bernoulli",
    "fold_in",
    "key",
    "normal",
    "permutation",
    "randint",
    "split",
    "uniform",
]

def key(seed: int | np.ndarray[Any, Any] | np.generic) -> np.uint64: ...
def split(key: Key, n: int = ...) -> np.ndarray[Any, np.dtype[np.uint64]]: ...
def fold_in(key: Key, number: int | NDArray | np.generic) -> np.uint64: ...
@overload
def permutation(key: Key, x: Tensor) -> Tensor: ...
@overload
def permutation(key: Key, x: int | NDArray | np.generic) -> NDArray: ...
@overload
def normal(key: Key, shape: Size, dtype: Any = ...) -> NDArray: ...
@overload
def normal(key: Key, *, dtype: Any = ...) -> Any: ...
@overload
def uniform(key: Key, shape: Size, dtype: Any = ..., low: Plain = ..., high: Plain = ...) -> NDArray: ...
@overload
def uniform(key: Key, *, dtype: Any = ..., low: Plain = ..., high: Plain = ...) -> Any: ...
@overload
def bernoulli(key: Key, p: TensorLike, shape: Size) -> NDArray: ...
@overload
def bernoulli(key: Key, p: TensorLike = ..., *, shape: Size) -> NDArray: ...
@overload
def bernoulli(key: Key, p: TensorLike = ..., shape: None = ...) -> Any: ...
def randint(key: Key, shape: Size, low: int | NDArray | np.generic, high: int | NDArray | np.generic, dtype: Any = ...) -> NDArray: ...
