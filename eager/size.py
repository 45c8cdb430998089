"""Shapes of tensors by PyTorch's name: tuples that know how many elements there are."""

from __future__ import annotations

import math
from typing import Any

from adjit.tracer.trees import register_tuple


class Size(tuple[int, ...]):
    """Shape of a tensor: a tuple of its sizes.

    >>> size = Size((2, 3))
    >>> size, size.numel(), size[1:].numel()
    ((2, 3), 6, 3)
    """

    __slots__ = ()

    def numel(self) -> int:
        """Number of elements of a tensor of this shape."""
        return math.prod(self)

    def __getitem__(self, index: Any) -> Any:
        found = tuple.__getitem__(self, index)
        return Size(found) if type(index) is slice else found

    def __add__(self, other: tuple[Any, ...]) -> Size:      # type: ignore[override]
        return Size(tuple.__add__(self, other))


register_tuple(Size)
