"""Lists of numbers that stand for arrays: `y0 = [1.0, 0.0]`, `return [u, v]`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from adjit.tracer.array import TracedArray, as_traced
from adjit.tracer.trees import NAMESPACE, Tree, flatten, optree, unflatten


def is_number_list(node: Any) -> bool:
    """True for a list that NumPy would make an array of numbers of: of numbers, or of such lists of one length.

    >>> is_number_list([1.0, 2]), is_number_list([[1.0], [2.0]]), is_number_list([[1.0], 2.0]), is_number_list([])
    (True, True, False, False)
    """
    return _shape(node) is not None


def _shape(node: Any) -> tuple[int, ...] | None:
    if type(node) is not list or not node:
        return None
    if all(map(_is_number, node)):
        return (len(node),)
    shapes = {_shape(item) for item in node}
    inner = next(iter(shapes))
    return None if len(shapes) > 1 or inner is None else (len(node), *inner)


def _is_number(item: Any) -> bool:
    if isinstance(item, TracedArray):
        return not item.ndim
    return isinstance(item, (int, float, np.number)) and not isinstance(item, bool)


def stacked_lists(tree: Tree) -> Tree:
    """`tree` with an array in place of each list of numbers."""
    flatten(tree)       # registers dataclasses
    return optree.tree_map(lambda leaf: as_traced(leaf) if type(leaf) is list else leaf, tree, is_leaf=is_number_list, namespace=NAMESPACE)


def unstacked_lists(tree: Tree, before: Tree) -> Tree:
    """`tree` with a list of its elements for each array that stands for a list of numbers in the tree `before`."""
    leaves, spec = optree.tree_flatten(before, is_leaf=is_number_list, namespace=NAMESPACE)
    found = zip(leaves, spec.flatten_up_to(tree), strict=True)
    return unflatten(spec, [_elements(new) if type(old) is list else new for old, new in found])


def _elements(array: Any) -> Sequence[Any]:
    return [array[index] if array.ndim == 1 else _elements(array[index]) for index in range(array.shape[0])]
