"""Trees of arrays as few vectors, one for each dtype, which one collective takes; and sums whose order does not depend on who has what."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjit.ir.types import is_half
from adjit.tracer.trees import flatten, unflatten

Vectors = tuple[Any, ...]


def pack(tree: Any) -> tuple[Vectors, Callable[[Sequence[Any]], Any]]:
    """The leaves of a tree one after the other, in a vector for each dtype, and the function that makes the tree of such vectors. Bools are
    integers, which can be counted; float16 and bfloat16 are float32 in the vectors, where sums do not overflow.

    >>> vectors, unpack = pack({"b": np.float32(3.0), "w": np.array([[1.0, 2.0]])})
    >>> vectors
    (array([3.], dtype=float32), array([1., 2.]))
    >>> unpack(vectors)["w"]
    array([[1., 2.]])
    """
    leaves, spec = flatten(tree)
    leaves = [leaf if hasattr(leaf, "dtype") else np.asarray(leaf) for leaf in leaves]
    halves = [leaf.dtype if is_half(leaf.dtype) else None for leaf in leaves]
    leaves = [leaf.astype(np.int64) if leaf.dtype == bool else leaf.astype(np.float32) if half is not None else leaf
              for leaf, half in zip(leaves, halves, strict=True)]
    shapes, sizes = [np.shape(leaf) for leaf in leaves], [int(np.prod(np.shape(leaf), dtype=np.int64)) for leaf in leaves]
    groups: dict[Any, list[int]] = {}
    for number, leaf in enumerate(leaves):
        groups.setdefault(np.dtype(leaf.dtype), []).append(number)
    vectors = tuple(np.concatenate([np.reshape(leaves[number], (-1,)) for number in numbers]) for numbers in groups.values())

    def unpack(vectors: Sequence[Any]) -> Any:
        found: list[Any] = [None] * len(leaves)
        for vector, numbers in zip(vectors, groups.values(), strict=True):
            begin = 0
            for number in numbers:
                leaf = np.reshape(vector[begin:begin + sizes[number]], shapes[number])
                found[number] = leaf if halves[number] is None else leaf.astype(halves[number])
                begin += sizes[number]
        return unflatten(spec, found)

    return vectors, unpack


def tree_sum(stack: Any) -> Any:
    """The sum along the first axis: of neighbours, of neighbours among these sums, and so on while their number is even, then one after the
    other. So a sum of sums of parts has the bits of the sum of all, where the parts are 1, 2, 4, ... neighbours."""
    while len(stack) % 2 == 0:
        stack = stack[0::2] + stack[1::2]
    total = stack[0]
    for number in range(1, len(stack)):
        total = total + stack[number]
    return total


def share_of(vector: Any, rank: Any, size: int) -> Any:
    """The share of a rank of a vector: one of `size` equal parts of it, with zeros at its end."""
    length = -(-len(vector) // size)
    padded = np.concatenate([vector, np.zeros(length * size - len(vector), vector.dtype)])
    return np.reshape(padded, (size, length))[rank]
