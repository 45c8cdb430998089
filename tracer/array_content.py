"""Content of traced arrays: their current value, what they are views of, and writes to them.

An array that owns its content is a cell that holds the current value: a write stores another value in the cell. A view knows how to read
itself from its base and how to write itself back, so that NumPy's aliasing holds although the graph itself never overwrites anything.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from adjit.ir.builder import GraphBuilder
from adjit.ir.emitter import emitting
from adjit.ir.errors import ArgumentError, TraceError
from adjit.ir.graph import Value
from adjit.ir.interpreter import ArrayValue
from adjit.ir.thread_context import thread
from adjit.tracer.array_errors import EscapedArrayError, scalar_refused
from adjit.tracer.lowering import Strides, contiguous_strides, reshape
from adjit.tracer.registry import FUNCTIONS
from adjit.tracer.row_count import row_count, row_shape
from adjit.tracer.scope import Scope, active_scope
from adjit.tracer.user_location import find_user_location
from adjit.tracer.view import View


class ArrayContent:
    """What a traced array holds, of which it knows dtype and shape.

    `weak`: the array came from a Python number, and promotes like one. `writable`: it may be written to within the trace. `scalar`: NumPy
    would have a scalar here, so `x += y` makes a new one; a scalar that is not writable is an argument, which may as well be an array of no
    dimension. `alias`: the view that the array is, or None. `steps`: the strides of the array, counted in elements; without `layout_known`
    NumPy's strides may be others.
    """

    __slots__ = ("__weakref__", "_steps", "_value", "_version", "alias", "layout_known", "scope", "weak", "writable")
    scalar = True

    def __init__(self, value: Value, scope: Scope | None = None, weak: bool = False, writable: bool = True, view: View | None = None,
                 strides: Strides | None = None):
        if scope is None:       # `type(x)(2.0)`
            raise TraceError("the class of a traced array is called to convert a number", find_user_location(),
                             hint="x.dtype.type(number) makes one of its dtype; instead of the module statistics use np.mean, np.var")
        self._value = value
        self._version: int = 0 if view is None else view.owner._version
        self.scope = scope
        self.weak = weak
        self.writable = writable
        self.alias = view
        self._steps = strides
        self.layout_known: bool = view is None or view.base.layout_known
        if view is None and scope.flow is not None:
            scope.cells.append(weakref.ref(self))
        if scope.hands_writes_on:
            scope.made.append(weakref.ref(self))

    @property
    def steps(self) -> Strides:
        """Strides that the array would have in NumPy, where new arrays are in C order."""
        return contiguous_strides(self.shape) if self._steps is None else self._steps

    @property
    def immutable(self) -> bool:
        """True if the array is a scalar for certain: views of it are copies, and nothing is written to it."""
        return self.scalar and self.writable

    @property
    def is_read(self) -> bool:
        """True if it stands for a number that Python was given of an array."""
        return False

    @property
    def is_of_call(self) -> bool:
        """True if it stands for a number of Python's that is another one in each call."""
        return False

    @property
    def in_order(self) -> bool:
        """True if NumPy's elementwise functions make arrays in C order from this array: no axis has longer strides than one before it."""
        if self._steps is None:
            return self.layout_known or not self.size
        steps = [abs(stride) for size, stride in zip(self.shape, self.steps, strict=True) if size > 1 and stride]
        return not self.size or (self.layout_known and steps == sorted(steps, reverse=True))

    # -- the value, and writing to it

    @property
    def value(self) -> Value:
        """Current value of the array; raises `TraceError` after the end of its trace."""
        if not self.scope.open:
            raise self._escaped()
        view = self.alias
        if view is not None and self._version != view.owner._version:
            if not view.certain:
                raise self._uncertain("a reshaped array is read after a write to its base")
            with emitting(view.owner.content_scope(self.scope).builder):
                self._value = view.read(view.content())
            self._version = view.owner._version
        return self._value

    def last_value(self) -> Value | None:
        """Its value at the end of its trace; None for a view that was not read anew after a write."""
        return self._value if self.alias is None or self._version == self.alias.owner._version else None

    def hand_on(self, value: Value, scope: Scope) -> None:
        """Make the array, of a region that was traced, one of its own in an outer scope, with the value there."""
        self._value, self.scope, self.alias, self._steps, self.layout_known = value, scope, None, None, True
        if scope.hands_writes_on:
            scope.made.append(weakref.ref(self))

    def assign(self, value: Value) -> None:
        """Store another value of the same type; views of the array, or its base, follow."""
        if not self.scope.open:
            raise self._escaped()
        view = self.alias
        if view is not None and not view.certain:
            raise self._uncertain("a reshaped array is written to")
        if not self.writable:
            raise self._read_only()
        if self.immutable:
            raise scalar_refused(f"a scalar ({self.dtype}) is written to, which NumPy does not allow")
        if view is None:
            self._check_scope()
            self._version += 1
        else:
            view.base.assign(reshape(view.write(view.content(), value), view.base.shape))
            self._version = view.owner._version
        self._value = value

    def _check_scope(self) -> None:
        """Raise `TraceError` if a region that hands no writes on writes to an array from outside of it; note a write that is handed on."""
        self.scope.note_write(self)
        active = scope = active_scope()
        while scope is not self.scope:
            if scope is None or not scope.hands_writes_on:
                name = f": {self._value.name}" if self._value.name else ""
                raise TraceError(f"an array made outside of a differentiated or control-flow function is written to inside of it{name}",
                                 find_user_location(),
                                 hint="return the new array from the function instead, or write to a copy (x = x.copy())")
            scope = scope.parent
        if active is not None and active is not self.scope:
            active.written.setdefault(id(self), (self, self._value))

    def content_scope(self, default: Scope) -> Scope:
        """Return the scope of the array's content: of the region that has written to it, if it did so and is still being traced."""
        scope = active_scope()
        while scope is not None and scope is not self.scope:
            if id(self) in scope.written:
                return scope
            scope = scope.parent
        return default

    def take_back(self, value: Value) -> None:
        """Set the content to what it was before a region."""
        self._value = value
        self._version += 1

    def evaluated(self) -> Any:
        """The ndarray or NumPy scalar, where the scope evaluates at once."""
        value = self.value
        assert isinstance(value, ArrayValue)
        array = value.array
        if not array.shape:
            return array[()]
        if self.alias is None and (not array.flags.writeable or any(np.may_share_memory(array, other) for other in self.scope.arrays)):
            return array.copy()
        return array

    def _origin(self) -> str:
        builder = self.scope.builder
        return builder.origin(self._value) if isinstance(builder, GraphBuilder) else str(self._value.type)

    def _escaped(self) -> TraceError:
        error = EscapedArrayError(f"a traced array is used after the end of its trace\n    {self._origin()}", find_user_location(),
                                  hint="return it from the compiled function instead of storing it in a global, an attribute or a list")
        error.array = self
        return error

    def _uncertain(self, what: str) -> TraceError:
        return TraceError(f"{what}; whether it is a view or a copy in NumPy depends on the memory layout, which is not known while "
                          "tracing", find_user_location(), hint="call .copy() first: x.copy().reshape(...) to write to a view of a new "
                          "array, x.reshape(...).copy() to leave x as it is")

    def _read_only(self) -> Exception:
        builder, owner = self.scope.builder, self if self.alias is None else self.alias.owner
        if not owner.writable and isinstance(builder, GraphBuilder) and owner._value in builder.params:
            if builder.param_roles[builder.params.index(owner._value)] == "captured":
                return TraceError(
                    "a tensor or module that was made while the function was traced holds an ordinary array, and the function writes to it",
                    find_user_location(), hint="make it from a copy of the array, aj.tensor(array); or make it outside of the compiled "
                                               "function if later calls are to see the write")
            name = f"{owner._value.name!r} " if owner._value.name else ""
            if self.scope.parent is not None:
                return TraceError(f"the argument {name}is written to inside of the trace of a loop, a branch or a function with a "
                                  "derivative of its own", find_user_location(),
                                  hint="write to a copy of it (x = x.copy()) and return that")
            return ArgumentError(f"assignment destination is read-only: the argument {name}is an array that must not be written to",
                                 find_user_location(), hint="pass a copy of it, or write to a copy (x = x.copy()) and return that")
        return ArgumentError("assignment destination is read-only", find_user_location(),
                             hint="np.diagonal, np.diag and np.broadcast_to give read-only views, as in NumPy: write to a copy, or to "
                                  "the array itself; a diagonal is x[i, i] with i = np.arange(n)")

    @property
    def written(self) -> bool:
        """True if the array that owns the content was written to since it was made."""
        owner = self if self.alias is None else self.alias.owner
        return owner._version > 0

    # -- form

    @property
    def shape(self) -> tuple[int, ...]:
        return self._value.type.shape if thread.context.row_probe is None else row_shape(self._value.type.shape)

    @shape.setter
    def shape(self, new: Any) -> None:
        FUNCTIONS["set shape"](self, new)

    def take_shape(self, value: Value, shape: tuple[int, ...]) -> None:
        """Have the array another shape from here on, with this content: that of before, or, in an array that owns its content, another
        one. Views that were made before see the elements in the shape that they know."""
        view, old = self.alias, self.shape
        if view is None:
            self.scope.note_write(self)
            self._version += 1
        else:
            key = None if view.key is None else ("shape", view.key, shape)
            self.alias = View(view.base, lambda base: reshape(view.read(base), shape),
                              lambda base, new: view.write(base, reshape(new, old)), key, view.certain, view.shape, view.places)
        self._value, self._steps = value, None if self._steps is None else contiguous_strides(shape)

    @property
    def dtype(self) -> np.dtype:
        return self._value.type.dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return row_count(self._value.type.size)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return row_count(self._value.type.nbytes)
