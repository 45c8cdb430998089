"""Views: where the elements of a traced array lie in the array that owns them, and how they are read and written there."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from adjit.ir.dataclass import dataclass
from adjit.ir.errors import TraceError
from adjit.ir.graph import Value
from adjit.tracer.lowering import reshape
from adjit.tracer.user_location import find_user_location

if TYPE_CHECKING:
    from adjit.tracer.array import TracedArray


@dataclass(frozen=True, slots=True)
class View:
    """Position of a view in its base: `read(base)` is its value, `write(base, value)` the base with the view set to `value`.

    Two views of one base have equal `key` if they are the same elements. `certain`: NumPy has a view here in any case; else NumPy may have
    a copy, by a memory layout that is not known while tracing. `shape` is that of the base when the view was made: it may be given another
    one (`x.shape = (2, 3)`), in C order. `places` are the traced integers at which the view is; `key` is without them.
    """

    base: TracedArray
    read: Callable[[Value], Value]
    write: Callable[[Value, Value], Value]
    key: object
    certain: bool
    shape: tuple[int, ...]
    places: tuple[TracedArray, ...] = ()

    def content(self) -> Value:
        """The content of the base, in the shape that `read` and `write` take."""
        value = self.base.value
        if value.type.shape == self.shape:
            return value
        if value.type.size != math.prod(self.shape):
            raise TraceError("a view is used of an array that was resized since", find_user_location(), hint="make the view again")
        return reshape(value, self.shape)

    @property
    def owner(self) -> TracedArray:
        """The array at the end of the chain of views."""
        base = self.base
        while base.alias is not None:
            base = base.alias.base
        return base
