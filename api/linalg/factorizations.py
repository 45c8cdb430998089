"""Cholesky and LU factors and triangular systems as loops over blocks of columns, so that the bulk of the work is products of matrices.

All matrices are [*stack, n, n]. Within a block a loop goes over single columns. Right-looking algorithms after Golub and Van Loan,
"Matrix Computations", 4th edition, 3.1, 3.4 and 4.2. None of these functions is differentiated: `adjit.linalg.rules` holds the rules.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adjit.runtime.control_flow import scan
from adjit.tracer.functions.creation import arange, eye, zeros

BLOCK = 32
"""Columns of a block. Smaller matrices are one block."""


def cholesky_factor(a: Any) -> Any:
    """The lower factor L of a = L L^H; only the lower triangle of `a` is read; NaN if `a` is not positive definite."""
    size = a.shape[-1]
    lower = np.tril(a)
    whole = _padded(lower + np.conjugate(_transposed(np.tril(a, -1))))
    rows, (count, width) = arange(whole.shape[-1]), _blocks(whole)

    def block(rest: Any, k: Any) -> Any:
        columns = _column_block(rest, k, count)
        corner = _cholesky_columns(_row_block(columns, k, count))
        panel = np.where(rows >= k * width, _substitute(corner, np.conjugate(_transposed(columns))), 0.0)
        return rest - np.conjugate(_transposed(panel)) @ panel, panel

    _, panels = scan(block, whole, arange(count))
    return np.tril(np.conjugate(_transposed(_stacked_rows(panels))))[..., :size, :size]


def lu_factors(a: Any) -> tuple[Any, Any, Any]:
    """(L, U, order) of a[order] = L U with partial pivoting: L has ones on its diagonal. NaN or infinite if `a` is singular."""
    size = a.shape[-1]
    whole = _padded(a)
    count, width = _blocks(whole)

    def block(state: Any, k: Any) -> Any:
        rest, used = state
        factors, pivots, used = _pivoted_columns(_column_block(rest, k, count), used)
        above = _substitute(_rows(factors, pivots), _rows(rest, pivots))
        rest = rest - np.where(used[..., None], 0.0, factors) @ above
        return (rest, used), (above, _transposed(factors), pivots)

    _, (above, factors, pivots) = scan(block, (whole, zeros(whole.shape[:-1], bool)), arange(count))
    order = np.moveaxis(pivots, 0, -2).reshape(*a.shape[:-2], count * width)
    lower = _rows(_transposed(_stacked_rows(factors)), order)
    cut = (..., slice(size), slice(size))
    return np.tril(lower)[cut], np.triu(_stacked_rows(above))[cut], order[..., :size]


def substitute(lower: Any, b: Any, transposed: bool) -> Any:
    """x of `lower @ x = b`, or of `lower^T @ x = b`; only the lower triangle is read. b: [*stack, n, k]."""
    if transposed:      # with rows and columns reversed, an upper triangle is a lower one
        return np.flip(_forward(np.flip(_transposed(lower), (-2, -1)), np.flip(b, -2)), -2)
    return _forward(lower, b)


def _forward(lower: Any, b: Any) -> Any:
    size = b.shape[-2]
    whole = _padded(lower)
    count, width = _blocks(whole)
    filled = np.concatenate([b, zeros((*b.shape[:-2], count * width - size, b.shape[-1]), b.dtype)], axis=-2)
    rows = arange(count * width)

    def block(rest: Any, k: Any) -> Any:
        columns = _column_block(whole, k, count)
        x = _substitute(_row_block(columns, k, count), _row_block(rest, k, count))
        return rest - np.where(rows[:, None] >= (k + 1) * width, columns, 0.0) @ x, x

    _, solved = scan(block, filled, arange(count))
    return _stacked_rows(solved)[..., :size, :]


def _cholesky_columns(a: Any) -> Any:
    rows = arange(a.shape[-1])

    def column(rest: Any, j: Any) -> Any:
        below = rest[..., j]
        below = np.where(rows >= j, below / np.sqrt(np.real(below[..., j]))[..., None], 0.0)
        return rest - below[..., :, None] * np.conjugate(below)[..., None, :], below

    _, columns = scan(column, a, rows)
    return np.moveaxis(columns, 0, -1)


def _pivoted_columns(a: Any, used: Any) -> tuple[Any, Any, Any]:
    """Eliminate the columns of a block [*stack, n, width]. Returns the factors of all rows that were not pivots before, with 1 at the pivot
    itself; the pivots; and the flags of used rows. Rows stay in their order."""
    rows = arange(a.shape[-2])

    def column(state: Any, j: Any) -> Any:
        rest, used = state
        below = rest[..., j]
        pivot = np.argmax(np.where(used, -1.0, np.abs(below)), axis=-1)
        row = _rows(rest, pivot[..., None])[..., 0, :]
        chosen = rows == pivot[..., None]
        used = used | chosen
        largest = row[..., j]       # 0 if nothing is left to eliminate
        factor = np.where(used, 0.0, below / np.where(largest == 0.0, 1.0, largest)[..., None])
        return (rest - factor[..., :, None] * row[..., None, :], used), (np.where(chosen, 1.0, factor), pivot)

    (_, used), (factors, pivots) = scan(column, (a, used), arange(a.shape[-1]))
    return np.moveaxis(factors, 0, -1), np.moveaxis(pivots, 0, -1), used


def _substitute(lower: Any, b: Any) -> Any:
    """x of `lower @ x = b`, column by column."""
    rows = arange(lower.shape[-1])

    def column(rest: Any, step: Any) -> Any:
        j, below = step
        x = rest[..., j, :] / below[..., j][..., None]
        return rest - np.where(rows > j, below, 0.0)[..., :, None] * x[..., None, :], x

    _, solved = scan(column, b, (rows, np.moveaxis(lower, -1, 0)))
    return np.moveaxis(solved, 0, -2)


def _padded(a: Any) -> Any:
    """Pad `a` with rows and columns of the unit matrix, up to whole blocks."""
    size = a.shape[-1]
    more = -size % BLOCK if size > BLOCK else 0
    if not more:
        return a
    stack = a.shape[:-2]
    corner = np.broadcast_to(eye(more, dtype=a.dtype), (*stack, more, more))
    top = np.concatenate([a, zeros((*stack, size, more), a.dtype)], axis=-1)
    return np.concatenate([top, np.concatenate([zeros((*stack, more, size), a.dtype), corner], axis=-1)], axis=-2)


def _blocks(a: Any) -> tuple[int, int]:
    """Number of blocks, and columns of each."""
    size = a.shape[-1]
    return (size // BLOCK, BLOCK) if size > BLOCK else (1, size)


def _column_block(a: Any, k: Any, count: int) -> Any:
    return a.reshape(*a.shape[:-1], count, a.shape[-1] // count)[..., k, :]


def _row_block(a: Any, k: Any, count: int) -> Any:
    return a.reshape(*a.shape[:-2], count, a.shape[-2] // count, a.shape[-1])[..., k, :, :]


def _stacked_rows(blocks: Any) -> Any:
    """Reshape [count, *stack, width, columns] to [*stack, count * width, columns]."""
    moved = np.moveaxis(blocks, 0, -3)
    return moved.reshape(*moved.shape[:-3], moved.shape[-3] * moved.shape[-2], moved.shape[-1])


def _rows(a: Any, order: Any) -> Any:
    """Take the rows of each matrix of the stack at the indices `order`: [*stack, m]."""
    return np.take(a, order, axis=0) if a.ndim == 2 else np.take_along_axis(a, order[..., None], axis=-2)


def _transposed(a: Any) -> Any:
    return np.swapaxes(a, -2, -1)
