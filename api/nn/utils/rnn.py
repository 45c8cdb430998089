"""Sequences of different lengths: padded to one tensor, or packed without padding for recurrent networks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np

from adjit.eager.apply import apply
from adjit.eager.tensor import Tensor, as_tensor, own_tensor
from adjit.eager.transfer import moved
from adjit.ir.errors import ArgumentError, ShapeError
from adjit.tracer.dispatch import dispatched
from adjit.tracer.user_location import find_user_location

__all__ = ["PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence", "pad_packed_sequence", "pad_sequence",
           "unpack_sequence", "unpad_sequence"]


class PackedSequence(NamedTuple):
    """Sequences without padding: the first steps of all, then the second ones of those that have one, and so on.

    `data` has all steps, `batch_sizes` how many sequences have each step. Sequences are in falling order of length: `sorted_indices` are
    their numbers in the original order, and `unsorted_indices` the inverse; None if they were in order.

    >>> from adjit import tensor
    >>> packed = pack_sequence([tensor([1.0, 2.0]), tensor([3.0])])
    >>> packed.data, packed.batch_sizes.tolist()
    (tensor([1., 3., 2.]), [2, 1])
    """

    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None = None
    unsorted_indices: Tensor | None = None

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Convert `data`, see `Tensor.to`."""
        return self._replace(data=self.data.to(*args, **kwargs))

    def float(self) -> PackedSequence:
        """Convert `data` to float32."""
        return self.to(np.float32)

    def double(self) -> PackedSequence:
        """Convert `data` to float64."""
        return self.to(np.float64)

    def cpu(self) -> PackedSequence:
        """Return the sequences themselves."""
        return self


def numbers(tensor_or_list: Any) -> list[int]:
    """Return integers that programs are made for, of a tensor or of a list."""
    return [int(number) for number in (tensor_or_list.tolist() if hasattr(tensor_or_list, "tolist") else tensor_or_list)]


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """Return the inverse of a permutation of indices; None of None.

    >>> from adjit import tensor
    >>> invert_permutation(tensor([2, 0, 1]))
    tensor([1, 2, 0])
    """
    return None if permutation is None else permutation.argsort()


def pack_padded_sequence(input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True) -> PackedSequence:
    """Pack padded sequences (T, N, ...), or (N, T, ...) with `batch_first`, of these lengths.

    The lengths fall, unless `enforce_sorted` is False; a compiled function is made for the lengths. Raises `ValueError` for other lengths,
    or if one of them is not positive.

    >>> from adjit import tensor
    >>> pack_padded_sequence(tensor([[1.0, 2.0], [3.0, 0.0]]), [2, 1], batch_first=True).data
    tensor([1., 3., 2.])
    """
    counts = numbers(lengths)
    x = as_tensor(input)
    steps, batch = x.shape[:2][::-1] if batch_first else x.shape[:2]
    if len(counts) != batch or not counts or min(counts) < 1 or max(counts) > steps:
        raise ArgumentError(f"pack_padded_sequence: one length for each of {batch} sequences, from 1 to {steps}; got {counts}",
                            find_user_location())
    order = None
    if enforce_sorted:
        if any(first < second for first, second in pairwise(counts)):
            raise ArgumentError(f"pack_padded_sequence: lengths fall, got {counts}", find_user_location(),
                                hint="sort the sequences, or pass enforce_sorted=False")
    else:
        order = np.argsort([-count for count in counts], kind="stable")
        counts = [counts[number] for number in order]
    sizes = [sum(count > step for count in counts) for step in range(counts[0])]
    rows = np.arange(batch) if order is None else order
    places = np.concatenate([rows[:size] * steps + step if batch_first else step * batch + rows[:size] for step, size in enumerate(sizes)])
    data: Tensor = _chosen(x.flatten(0, 1), places)     # type: ignore[assignment]
    if order is None:
        return PackedSequence(data, own_tensor(np.array(sizes, np.int64)))
    inverse = np.argsort(order)
    return PackedSequence(data, own_tensor(np.array(sizes, np.int64)),
                          *(moved(own_tensor(each.astype(np.int64)), x.device) for each in (order, inverse)))


def pad_packed_sequence(sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0,
                        total_length: int | None = None) -> tuple[Tensor, Tensor]:
    """Pad packed sequences to (T, N, ...), or (N, T, ...) with `batch_first`, in their original order; returns them and their lengths.

    T is the largest length, or `total_length`. Raises `ValueError` if that is smaller.

    >>> from adjit import tensor
    >>> pad_packed_sequence(pack_sequence([tensor([1.0, 2.0]), tensor([3.0])]), batch_first=True)
    (tensor([[1., 2.],
            [3., 0.]]), tensor([2, 1]))
    """
    sizes = numbers(sequence.batch_sizes)
    length = len(sizes) if total_length is None else total_length
    if length < len(sizes):
        raise ArgumentError(f"pad_packed_sequence: total_length {total_length} is below the largest length, {len(sizes)}",
                            find_user_location())
    order = range(sizes[0]) if sequence.unsorted_indices is None else numbers(sequence.unsorted_indices)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    places = np.full((length, sizes[0]), starts[-1])        # the row of padding, after all others
    for step, size in enumerate(sizes):
        places[step, :size] = starts[step] + np.arange(size)
    places = places[:, list(order)]
    lengths = (places < starts[-1]).sum(0)
    padded: Tensor = _with_padding(sequence.data, places.T if batch_first else places, padding_value)       # type: ignore[assignment]
    return padded, own_tensor(lengths.astype(np.int64))


def pad_sequence(sequences: Sequence[Tensor], batch_first: bool = False, padding_value: float = 0.0,
                 padding_side: Literal["right", "left"] = "right") -> Tensor:
    """Pad sequences (T_i, ...) with `padding_value` to one tensor (T, N, ...), or (N, T, ...) with `batch_first`; at the end of each, or at
    its beginning (`padding_side`).

    >>> from adjit import tensor
    >>> pad_sequence([tensor([1, 2]), tensor([3])], batch_first=True)
    tensor([[1, 2],
            [3, 0]])
    """
    if not sequences:
        raise ArgumentError("pad_sequence takes at least one sequence", find_user_location())
    if padding_side not in ("left", "right"):
        raise ArgumentError(f"pad_sequence: padding_side is 'left' or 'right', got {padding_side!r}", find_user_location())
    padded: Tensor = apply(_padded, (list(sequences), padding_value, 0 if batch_first else 1, padding_side == "left"))
    return padded


def unpad_sequence(padded_sequences: Tensor, lengths: Any, batch_first: bool = False) -> list[Tensor]:
    """Split padded sequences (T, N, ...), or (N, T, ...) with `batch_first`, into those of these lengths.

    >>> from adjit import tensor
    >>> unpad_sequence(tensor([[1, 2], [3, 0]]), [2, 1], batch_first=True)
    [tensor([1, 2]), tensor([3])]
    """
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    counts = numbers(lengths)
    if len(counts) != len(rows):
        raise ShapeError(f"unpad_sequence: one length for each of {len(rows)} sequences, got {len(counts)}", find_user_location())
    return [row[:count] for row, count in zip(rows, counts, strict=True)]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences (T_i, ...), in falling order of length unless `enforce_sorted` is False.

    >>> from adjit import tensor
    >>> pack_sequence([tensor([1.0]), tensor([2.0, 3.0])], enforce_sorted=False).data
    tensor([2., 1., 3.])
    """
    return pack_padded_sequence(pad_sequence(sequences), [len(sequence) for sequence in sequences], enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """Return the sequences that were packed, in their original order.

    >>> from adjit import tensor
    >>> unpack_sequence(pack_sequence([tensor([1.0]), tensor([2.0, 3.0])], enforce_sorted=False))
    [tensor([1.]), tensor([2., 3.])]
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)


@dispatched
def _chosen(rows: Any, places: Any) -> Any:
    """Rows at these places."""
    return np.take(rows, places, axis=0)


@dispatched
def _with_padding(rows: Any, places: Any, number: float) -> Any:
    """Rows at these places, with a row of a number after the last one."""
    return np.take(np.concatenate([rows, np.full_like(rows, number, shape=(1, *rows.shape[1:]))]), places, axis=0)


def _padded(sequences: Sequence[Any], number: float, axis: int, before: bool) -> Any:
    length = max(len(sequence) for sequence in sequences)
    rows = []
    for sequence in sequences:
        missing = length - len(sequence)
        widths = [(missing, 0) if before else (0, missing)] + [(0, 0)] * (sequence.ndim - 1)
        rows.append(np.pad(sequence, widths, constant_values=number))
    return np.stack(rows, axis=axis)
