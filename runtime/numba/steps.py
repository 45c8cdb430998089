"""NumPy steps: each op becomes a step that writes into planned memory through `out=`.

A step is bound once to a frame's registers (one array per slot), and then called without arguments. An op without a rule in this module
runs its record's `evaluate`, and the result is copied.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjit.ir.definition import Kind
from adjit.ir.errors import IndexingError
from adjit.ir.graph import Op
from adjit.ir.interpreter import evaluate
from adjit.ir.ops.indexing import check_indices

BYTES_PER_NS = 10
"""Estimated bandwidth of a memory copy, in bytes per nanosecond."""

_memmove = ctypes.CDLL(None).memmove
_ADDRESS = ctypes.cast(_memmove, ctypes.c_void_p).value
_memmove.argtypes, _memmove.restype = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t), ctypes.c_void_p

Step = Callable[[], Any]
Registers = list[Any]
Binder = Callable[[Op, Registers, Sequence[int], Sequence[int]], Step]
View = Callable[[np.ndarray], np.ndarray]


def bind_step(op: Op, registers: Registers, operands: Sequence[int], results: Sequence[int]) -> Step:
    """The step that runs `op` on the arrays that `registers` holds, at the time of the call, under these numbers."""
    if op.definition.kind is Kind.ELEMENTWISE and isinstance(op.definition.evaluate, np.ufunc):
        return _ufunc(op, registers, operands, results)
    if op.definition.kind is Kind.REDUCTION:
        return _reduction(op, registers, operands, results)
    return _BINDERS.get(op.name, _evaluated)(op, registers, operands, results)


def _evaluated(op: Op, r: Registers, operands: Sequence[int], results: Sequence[int]) -> Step:
    def step() -> None:
        arrays = evaluate(op.definition, [r[i] for i in operands], op.attrs, op.regions)
        for i, array in zip(results, arrays, strict=True):
            np.copyto(r[i], array)
    return step


def _ufunc(op: Op, r: Registers, operands: Sequence[int], results: Sequence[int]) -> Step:
    function, (out,) = op.definition.evaluate, results
    if len(operands) == 1:
        (x,) = operands
        return lambda: function(r[x], out=r[out])
    a, b = operands
    return lambda: function(r[a], r[b], out=r[out])


def _matmul(op: Op, r: Registers, operands: Sequence[int], results: Sequence[int]) -> Step:
    (a, b), (out,) = operands, results
    turn_a, turn_b = op.attrs["transpose_a"], op.attrs["transpose_b"]
    # `dot` has less overhead before BLAS, but is slower for transposed operands: by a quarter for 784x128 by 128x512.
    product: Callable[..., Any] = np.dot if op.result.type.rank == 2 and not (turn_a or turn_b) else np.matmul

    def step() -> None:
        left, right = r[a], r[b]
        product(left.swapaxes(-1, -2) if turn_a else left, right.swapaxes(-1, -2) if turn_b else right, r[out])
    return step


def _relu(op: Op, r: Registers, operands: Sequence[int], results: Sequence[int]) -> Step:
    (x,), (out,), zero = operands, results, op.result.type.dtype.type(0)
    return lambda: np.maximum(r[x], zero, out=r[out])


# -- creation


def _constant(op: Op, r: Registers, operands: Sequence[int], results: Sequence[int]) -> Step:
    (out,), number = results, np.asarray(op.definition.evaluate(**{**op.attrs, "shape": ()}))[()]
    return lambda: r[out].fill(number)


def _iota(op: Op, r: Registers, operands: Sequence[int], results: Sequence[int]) -> Step:
    (out,), type, axis = results, op.result.type, op.attrs["axis"]
    line = np.arange(type.shape[axis], dtype=type.dtype).reshape([-1 if i == axis else 1 for i in range(type.rank)])
    return lambda: np.copyto(r[out], line)


# -- movement: a view of the operand, copied to the result


def _moved(view_of: Callable[[Op], View]) -> Binder:
    def bind(op: Op, r: Registers, operands: Sequence[int], results: Sequence[int]) -> Step:
        view, (x,), (out,) = view_of(op), operands, results
        return lambda: np.copyto(r[out], view(r[x]))
    return bind


def _transpose(op: Op) -> View:
    permutation = op.attrs["permutation"]
    return lambda x: x.transpose(permutation)


def _broadcast(op: Op) -> View:
    axes = op.attrs["axes"]
    index = tuple(slice(None) if i in axes else None for i in range(len(op.attrs["shape"])))
    return lambda x: x[index]


def _slice(op: Op) -> View:
    index = tuple(slice(*bounds) for bounds in zip(op.attrs["start"], op.attrs["stop"], op.attrs["step"], strict=True))
    return lambda x: x[index]


def _flip(op: Op) -> View:
    index = tuple(slice(None, None, -1 if i in op.attrs["axes"] else 1) for i in range(op.result.type.rank))
    return lambda x: x[index]


def _pad(op: Op, r: Registers, operands: Sequence[int], results: Sequence[int]) -> Step:
    (x,), (out,), number = operands, results, op.result.type.dtype.type(op.attrs["value"])
    inside = tuple(
        slice(low, low + max(size + (size - 1) * gap, 0), gap + 1)
        for low, gap, size in zip(op.attrs["low"], op.attrs["interior"], op.operands[0].type.shape, strict=True))

    def step() -> None:
        r[out].fill(number)
        r[out][inside] = r[x]
    return step


def _concatenate(op: Op, r: Registers, operands: Sequence[int], results: Sequence[int]) -> Step:
    (out,), axis = results, op.attrs["axis"]
    return lambda: np.concatenate([r[i] for i in operands], axis, r[out])


def _update_slice(op: Op, r: Registers, operands: Sequence[int], results: Sequence[int]) -> Step:
    (base, update), (out,) = operands, results
    index = tuple(
        slice(start, start + max(1 + (size - 1) * step, 0), step)
        for start, step, size in zip(op.attrs["start"], op.attrs["step"], op.operands[1].type.shape, strict=True))

    def step() -> None:
        if base != out:
            np.copyto(r[out], r[base])
        if op.name == "add_slice":
            r[out][index] += r[update]
        else:
            r[out][index] = r[update]
    return step


# -- indexing: indices are checked before anything is read or written


def _check(op: Op, indices: np.ndarray) -> None:
    axis = op.attrs["axis"]
    try:
        check_indices(indices, op.operands[0].type.shape[axis], axis)
    except IndexError as error:
        raise IndexingError(f"{op.name}: {error}", op.loc) from None


def _take(op: Op, r: Registers, operands: Sequence[int], results: Sequence[int]) -> Step:
    (x, indices), (out,), axis = operands, results, op.attrs["axis"]

    def step() -> None:
        _check(op, r[indices])
        if r[indices].size:
            np.take(r[x], r[indices], axis, r[out], "clip")      # mode "raise" would compute into a temporary array first
    return step


def _element_numbers(op: Op) -> tuple[np.ndarray, int]:
    """Offsets for ops along an axis: the flat index of the element at position 0 of each index's row; and the stride of the axis."""
    (base, indices), axis = (op.operands[0].type.shape, op.operands[1].type.shape), op.attrs["axis"]
    strides = [int(np.prod(base[i + 1:], dtype=np.int64)) for i in range(len(base))]
    numbers = np.zeros([1 if i == axis else n for i, n in enumerate(indices)], np.int64)
    for i, (count, stride) in enumerate(zip(indices, strides, strict=True)):
        if i != axis:
            numbers += (np.arange(count) * stride).reshape([-1 if j == i else 1 for j in range(len(base))])
    return numbers, strides[axis]


def _along_axis(op: Op, r: Registers, indices: int) -> Callable[[], np.ndarray]:
    """A function that computes the flat indices of the elements that the indices name, into memory of the step."""
    first, stride = _element_numbers(op)
    flat = np.empty(op.operands[1].type.shape, np.int64)

    def compute() -> np.ndarray:
        _check(op, r[indices])
        np.multiply(r[indices], stride, flat)
        np.add(flat, first, flat)
        return flat
    return compute


def _take_along_axis(op: Op, r: Registers, operands: Sequence[int], results: Sequence[int]) -> Step:
    (x, indices), (out,) = operands, results
    elements = _along_axis(op, r, indices)

    def step() -> None:
        flat = elements()
        if flat.size:
            np.take(r[x].reshape(-1), flat, None, r[out], "clip")
    return step


def _scatter_along_axis(op: Op, r: Registers, operands: Sequence[int], results: Sequence[int]) -> Step:
    (base, indices, updates), (out,) = operands, results
    elements = _along_axis(op, r, indices)

    def step() -> None:
        flat = elements()
        if base != out:
            np.copyto(r[out], r[base])
        np.add.at(r[out].reshape(-1), flat.reshape(-1), r[updates].reshape(-1))
    return step


def _scatter(op: Op, r: Registers, operands: Sequence[int], results: Sequence[int]) -> Step:
    (base, indices, updates), (out,) = operands, results
    before, add = (slice(None),) * op.attrs["axis"], op.name == "scatter_add"

    def step() -> None:
        _check(op, r[indices])
        if base != out:
            np.copyto(r[out], r[base])
        index = (*before, r[indices])
        if add:
            np.add.at(r[out], index, r[updates])
        else:
            r[out][index] = r[updates]
    return step


# -- reductions and scans


def _reduction(op: Op, r: Registers, operands: Sequence[int], results: Sequence[int]) -> Step:
    function, neutral = op.definition.combine, op.definition.identity
    assert function is not None
    assert neutral is not None
    (x,), (out,), axes, dtype = operands, results, op.attrs["axes"], op.result.type.dtype
    initial = {"initial": neutral(dtype)} if op.operands[0].type.size == 0 else {}
    return lambda: function.reduce(r[x], axis=axes, dtype=dtype, out=r[out], **initial)


def _cumulative(function: np.ufunc) -> Binder:
    def bind(op: Op, r: Registers, operands: Sequence[int], results: Sequence[int]) -> Step:
        (x,), (out,), axis, dtype = operands, results, op.attrs["axis"], op.result.type.dtype
        if not op.attrs["reverse"]:
            return lambda: function.accumulate(r[x], axis, dtype, r[out])
        turned = tuple(slice(None, None, -1 if i == axis else 1) for i in range(op.result.type.rank))
        return lambda: function.accumulate(r[x][turned], axis, dtype, r[out][turned])
    return bind


def _arg_extremum(function: Callable[..., Any]) -> Binder:
    def bind(op: Op, r: Registers, operands: Sequence[int], results: Sequence[int]) -> Step:
        (x,), (out,), axis = operands, results, op.attrs["axis"]
        return lambda: function(r[x], axis, r[out])
    return bind


_BINDERS: dict[str, Binder] = {
    "matmul": _matmul, "relu": _relu, "constant": _constant, "iota": _iota,
    "transpose": _moved(_transpose), "broadcast": _moved(_broadcast), "slice": _moved(_slice),
    "flip": _moved(_flip), "pad": _pad, "concatenate": _concatenate, "update_slice": _update_slice,
    "add_slice": _update_slice,
    "take": _take, "take_along_axis": _take_along_axis, "scatter_add_along_axis": _scatter_along_axis,
    "scatter_add": _scatter, "scatter_set": _scatter,
    "cumsum": _cumulative(np.add), "cumprod": _cumulative(np.multiply),
    "cummax": _cumulative(np.maximum), "cummin": _cumulative(np.minimum),
    "argmax": _arg_extremum(np.argmax), "argmin": _arg_extremum(np.argmin),
}


class CopyStep:
    """Copy of `size` bytes between the memory that `source` and `target` point to at the time of the call."""

    def __init__(self, source: ctypes.c_void_p, target: ctypes.c_void_p, size: int):
        self._arguments = (target, source, ctypes.c_int64(size))
        self.work = size / BYTES_PER_NS

    def serial_calls(self) -> list[tuple[int, tuple[Any, ...]]]:
        """See `batched_calls.NativeStep.serial_calls`."""
        assert _ADDRESS is not None
        return [(_ADDRESS, self._arguments)]

    def __call__(self) -> None:
        target, source, size = self._arguments
        _memmove(target, source, size.value)
