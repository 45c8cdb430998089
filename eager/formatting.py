"""Text of a tensor, as PyTorch prints it: `tensor([14.], grad_fn=<MulBackward0>)`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjit.ir.dataclass import dataclass
from adjit.ir.types import is_float


class PrintOptions:
    """Settings of a process for the text of tensors.

    precision       digits after the decimal point.
    threshold       elements, above which there is a summary.
    edgeitems       elements of each axis, at both ends, in a summary.
    linewidth       characters of a line.
    sci_mode        whether numbers have exponents; None: where they differ much.
    """

    precision = 4
    threshold: float = 1000
    edgeitems = 3
    linewidth = 80
    sci_mode: bool | None = None


options = PrintOptions()

_DEFAULT_DTYPES = (np.dtype(np.float32), np.dtype(np.int64), np.dtype(np.bool_))


def tensor_repr(array: np.ndarray, grad_fn_name: str | None = None, requires_grad: bool = False, prefix: str = "tensor",
                device: str | None = None) -> str:
    """Format the `repr` of a tensor that holds `array`, a copy of what is on a device.

    The dtype is shown unless it is float32, int64 or bool; of an empty tensor, unless it is float32. A tensor with a `grad_fn` shows its
    name, a leaf that requires grad shows `requires_grad=True`.

    >>> tensor_repr(np.array([1.5, 2.0]), requires_grad=True)
    'tensor([1.5000, 2.0000], dtype=float64, requires_grad=True)'
    >>> tensor_repr(np.float32([14.0]), grad_fn_name="MulBackward0")
    'tensor([14.], grad_fn=<MulBackward0>)'
    """
    suffixes = [] if device is None else [f"device={str(device)!r}"]
    if not array.size and array.ndim != 1:
        suffixes.append(f"size={array.shape}")
    if array.dtype not in (_DEFAULT_DTYPES if array.size else _DEFAULT_DTYPES[:1]):
        suffixes.append(f"dtype={array.dtype.name}")
    if grad_fn_name is not None:
        suffixes.append(f"grad_fn=<{grad_fn_name}>")
    elif requires_grad:
        suffixes.append("requires_grad=True")
    return format_tensor(array, suffixes, prefix)


def format_tensor(array: np.ndarray, suffixes: Sequence[str] = (), prefix: str = "tensor") -> str:
    """Format `prefix(values, suffixes)`, in lines of at most `options.linewidth` characters, 80 by default.

    >>> format_tensor(np.eye(2), ["size=(2, 2)"])
    'tensor([[1., 0.],\\n        [0., 1.]], size=(2, 2))'
    """
    indent = len(prefix) + 1
    if array.size:
        summarize = array.size > options.threshold
        text = _nested(array, indent, summarize, _number_format(_shown(array) if summarize else array))
    else:
        text = "[]"
    return _with_suffixes(f"{prefix}({text}", suffixes, indent) + ")"


@dataclass(frozen=True, slots=True)
class _NumberFormat:
    """Format of all numbers of one tensor: `write` a number, right-aligned in `width`."""

    write: Callable[[Any], str]
    width: int

    def __call__(self, number: Any) -> str:
        return self.write(number).rjust(self.width)


def _number_format(array: np.ndarray) -> _NumberFormat:
    """Choose the format: whole floats as `2.`, others as `2.0000`; `2.0000e+00` if they are very large, very small or very different.

    Zeros, infinities and NaN do not count for the choice, nor for the width.
    """
    if not is_float(array.dtype):
        return _NumberFormat(str, max(len(str(number)) for number in array.reshape(-1).tolist()))
    significant = array[np.isfinite(array) & (array != 0)].astype(np.float64)
    if not significant.size:
        return _NumberFormat(_whole, 1)
    largest, smallest = float(np.abs(significant).max()), float(np.abs(significant).min())
    differs = largest / smallest > 1000.0 or largest > 1e8 or smallest < 1e-4
    if differs if options.sci_mode is None else options.sci_mode:
        write = _scientific
    elif (significant == np.trunc(significant)).all():
        write = _whole
    else:
        write = _fixed
    return _NumberFormat(write, max(len(write(number)) for number in significant.tolist()))


def _whole(number: float) -> str:
    return f"{number:.0f}." if math.isfinite(number) else f"{number:.0f}"


def _fixed(number: float) -> str:
    return f"{number:.{options.precision}f}"


def _scientific(number: float) -> str:
    return f"{number:.{options.precision}e}"


def _shown(array: np.ndarray) -> np.ndarray:
    """Select the elements that a summary shows."""
    for axis, size in enumerate(array.shape):
        if size > 2 * options.edgeitems:
            array = np.take(array, [*range(options.edgeitems), *range(size - options.edgeitems, size)], axis=axis)
    return array


def _nested(array: np.ndarray, indent: int, summarize: bool, number_format: _NumberFormat) -> str:
    """Format rows below each other, with one more empty line between blocks of each further axis."""
    if not array.ndim:
        return number_format(array.item())
    if array.ndim == 1:
        return _row(array, indent, summarize, number_format)

    def blocks(part: np.ndarray) -> list[str]:
        return [_nested(block, indent + 1, summarize, number_format) for block in part]

    if summarize and len(array) > 2 * options.edgeitems:
        parts = [*blocks(array[:options.edgeitems]), "...", *blocks(array[-options.edgeitems:])]
    else:
        parts = blocks(array)
    return "[" + ("," + "\n" * (array.ndim - 1) + " " * (indent + 1)).join(parts) + "]"


def _row(array: np.ndarray, indent: int, summarize: bool, number_format: _NumberFormat) -> str:
    if summarize and len(array) > 2 * options.edgeitems:
        first, last = array[:options.edgeitems].tolist(), array[-options.edgeitems:].tolist()
        numbers = [*map(number_format, first), " ...", *map(number_format, last)]
    else:
        numbers = [*map(number_format, array.tolist())]
    each_line = max(1, (options.linewidth - indent) // (number_format.width + len(", ")))
    lines = [", ".join(numbers[start:start + each_line]) for start in range(0, len(numbers), each_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _with_suffixes(text: str, suffixes: Sequence[str], indent: int) -> str:
    """Append each suffix to the last line while it fits, with room for the closing bracket and a comma."""
    used = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if used + len(suffix) + 2 > options.linewidth:
            text += ",\n" + " " * indent + suffix
            used = indent + len(suffix)
        else:
            text += ", " + suffix
            used += len(suffix) + 2
    return text
