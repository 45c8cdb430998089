"""Functions that make tensors of a pattern: grids, combinations, windows of signals, indices of triangles; PyTorch's names.

>>> import adjit as aj
>>> aj.cartesian_prod(aj.tensor([1, 2]), aj.tensor([3, 4]))
tensor([[1, 3],
        [1, 4],
        [2, 3],
        [2, 4]])
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from adjit.eager.apply import apply
from adjit.eager.functional import shapes
from adjit.eager.tensor import Tensor, as_tensor, tensor
from adjit.ir.errors import ArgumentError
from adjit.ir.types import is_inexact
from adjit.linalg import pytorch
from adjit.tensor_creation import finished, float_or
from adjit.tracer.user_location import find_user_location


def logspace(start: float, end: float, steps: int, base: float = 10.0, dtype: Any = None, requires_grad: bool = False,
             device: Any = None, out: Tensor | None = None) -> Tensor:
    """Make `steps` numbers from `base**start` to `base**end`, at equal ratios.

    >>> import adjit as aj
    >>> aj.logspace(0.0, 2.0, 3)
    tensor([  1.,  10., 100.])
    """
    array = np.power(base, np.linspace(start, end, steps))
    return finished(tensor(array, float_or(dtype, out)), requires_grad, device, out)


def range(start: float = 0, end: float | None = None, step: float = 1, dtype: Any = None, requires_grad: bool = False,
          device: Any = None, out: Tensor | None = None) -> Tensor:
    """Make the numbers from `start` to `end`, which is included; float32. `arange` leaves the end out.

    >>> import adjit as aj
    >>> aj.range(1, 3)
    tensor([1., 2., 3.])
    """
    first, last = (0, start) if end is None else (start, end)
    count = math.floor((last - first) / step) + 1
    return finished(tensor(first + step * np.arange(count), float_or(dtype, out)), requires_grad, device, out)


def tril_indices(row: int, col: int, offset: int = 0, dtype: Any = np.int64, device: Any = None) -> Tensor:
    """Make the row and column indices (2, n) of the lower triangle of a matrix.

    >>> import adjit as aj
    >>> aj.tril_indices(2, 2)
    tensor([[0, 1, 1],
            [0, 0, 1]])
    """
    return finished(tensor(np.stack(np.tril_indices(row, offset, col)), dtype), False, device)


def triu_indices(row: int, col: int, offset: int = 0, dtype: Any = np.int64, device: Any = None) -> Tensor:
    """Make the row and column indices (2, n) of the upper triangle of a matrix.

    >>> import adjit as aj
    >>> aj.triu_indices(2, 2)
    tensor([[0, 0, 1],
            [0, 1, 1]])
    """
    return finished(tensor(np.stack(np.triu_indices(row, offset, col)), dtype), False, device)


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Tensor:
    """Vandermonde matrix of a vector: its powers as columns, the highest first.

    >>> import adjit as aj
    >>> aj.vander(aj.tensor([2.0, 3.0]), N=3)
    tensor([[4., 2., 1.],
            [9., 3., 1.]])
    """
    x = as_tensor(x)
    powers = pytorch.vander(x if is_inexact(x.dtype) else x.long(), x.shape[0] if N is None else N)
    return powers if increasing else powers.flip(-1)        # type: ignore[no-any-return]


def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Coordinates of a grid: each vector expanded to the shape of all; with `indexing="xy"` the first two dimensions are swapped.

    >>> import adjit as aj
    >>> aj.meshgrid(aj.tensor([1, 2]), aj.tensor([3, 4]))[0]
    tensor([[1, 1],
            [2, 2]])
    """
    several = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors
    if indexing not in ("ij", "xy"):
        raise ArgumentError(f"meshgrid: indexing is 'ij' or 'xy', got {indexing!r}", find_user_location())
    vectors = [as_tensor(vector).reshape(-1) for vector in several]
    sizes = [vector.numel() for vector in vectors]
    grids = [vector.reshape(*(size if i == axis else 1 for i, size in enumerate(sizes))).expand(*sizes)
             for axis, vector in enumerate(vectors)]
    return tuple(grid.transpose(0, 1) for grid in grids) if indexing == "xy" and len(vectors) > 1 else tuple(grids)


def cartesian_prod(*tensors: Any) -> Tensor:
    """All choices of one element of each vector, one row for each choice.

    >>> import adjit as aj
    >>> aj.cartesian_prod(aj.tensor([1, 2]), aj.tensor([3]))
    tensor([[1, 3],
            [2, 3]])
    """
    if len(tensors) == 1:
        return as_tensor(tensors[0])
    return apply(shapes.stack, ([grid.reshape(-1) for grid in meshgrid(*tensors)], 1))      # type: ignore[no-any-return]


def combinations(input: Any, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All choices of `r` elements of a vector, one row for each choice.

    >>> import adjit as aj
    >>> aj.combinations(aj.tensor([1, 2, 3]))
    tensor([[1, 2],
            [1, 3],
            [2, 3]])
    """
    given = as_tensor(input)
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = np.array([*choose(np.arange(given.shape[0]), r)], np.int64).reshape(-1, r)
    return given[rows]


def unravel_index(indices: Any, shape: Any) -> tuple[Tensor, ...]:
    """Indices of each dimension, of indices of the flattened tensor.

    >>> import adjit as aj
    >>> aj.unravel_index(aj.tensor([5]), (2, 3))
    (tensor([1]), tensor([2]))
    """
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    rest = as_tensor(indices)
    found = []
    for size in sizes[::-1]:
        found.append(rest % size)
        rest = rest // size
    return tuple(found[::-1])


# -- windows of signals


def _window(length: int, periodic: bool, terms: Callable[[np.ndarray, int], np.ndarray], dtype: Any, requires_grad: bool,
            device: Any) -> Tensor:
    """Window of a signal; a periodic one is that of one more element, without the last."""
    array = np.ones(length) if length <= 1 else terms(np.arange(length), length if periodic else length - 1)
    return finished(tensor(array, float_or(dtype, None)), requires_grad, device)


def hann_window(window_length: int, periodic: bool = True, *, dtype: Any = None, requires_grad: bool = False, device: Any = None) -> Tensor:
    """Hann window of a signal, `0.5 - 0.5 * cos(2 * pi * n / N)`; a periodic one is that of one more element, without the last.

    >>> import adjit as aj
    >>> aj.hann_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return _window(window_length, periodic, lambda n, count: 0.5 - 0.5 * np.cos(2 * np.pi * n / count), dtype, requires_grad, device)


def hamming_window(window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, *, dtype: Any = None,
                   requires_grad: bool = False, device: Any = None) -> Tensor:
    """Hamming window of a signal, `alpha - beta * cos(2 * pi * n / N)`; a periodic one is that of one more element, without the last.

    >>> import adjit as aj
    >>> aj.hamming_window(4)
    tensor([0.0800, 0.5400, 1.0000, 0.5400])
    """
    return _window(window_length, periodic, lambda n, count: alpha - beta * np.cos(2 * np.pi * n / count), dtype, requires_grad, device)


def blackman_window(window_length: int, periodic: bool = True, *, dtype: Any = None, requires_grad: bool = False,
                    device: Any = None) -> Tensor:
    """Blackman window of a signal; a periodic one is that of one more element, without the last.

    >>> import adjit as aj
    >>> aj.blackman_window(4).round(decimals=2)
    tensor([-0.0000,  0.3400,  1.0000,  0.3400])
    """
    def terms(n: np.ndarray, count: int) -> np.ndarray:
        return 0.42 - 0.5 * np.cos(2 * np.pi * n / count) + 0.08 * np.cos(4 * np.pi * n / count)
    return _window(window_length, periodic, terms, dtype, requires_grad, device)


def bartlett_window(window_length: int, periodic: bool = True, *, dtype: Any = None, requires_grad: bool = False,
                    device: Any = None) -> Tensor:
    """Bartlett's triangular window of a signal; a periodic one is that of one more element, without the last.

    >>> import adjit as aj
    >>> aj.bartlett_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return _window(window_length, periodic, lambda n, count: 1 - np.abs(2 * n / count - 1), dtype, requires_grad, device)


def kaiser_window(window_length: int, periodic: bool = True, beta: float = 12.0, *, dtype: Any = None, requires_grad: bool = False,
                  device: Any = None) -> Tensor:
    """Kaiser window of a signal; a periodic one is that of one more element, without the last.

    >>> import adjit as aj
    >>> aj.kaiser_window(4, beta=0.0)
    tensor([1., 1., 1., 1.])
    """
    def terms(n: np.ndarray, count: int) -> np.ndarray:
        return np.i0(beta * np.sqrt(np.maximum(1 - (2 * n / count - 1) ** 2, 0))) / np.i0(beta)     # type: ignore[no-any-return]
    return _window(window_length, periodic, terms, dtype, requires_grad, device)


__all__ = [
    "bartlett_window", "blackman_window", "cartesian_prod", "combinations", "hamming_window", "hann_window", "kaiser_window", "logspace",
    "meshgrid", "range", "tril_indices", "triu_indices", "unravel_index", "vander",
]
