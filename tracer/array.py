"""Traced arrays: an array that stands for a value while a function is traced. It is an ndarray to the user's code, a node of the graph to
adjit.
"""

from __future__ import annotations

import builtins
import math
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from adjit.ir.builder import GraphBuilder
from adjit.ir.emitter import emitting
from adjit.ir.errors import IndexingError, TraceError, UnsupportedError
from adjit.ir.graph import Value
from adjit.ir.ops import stop_gradient
from adjit.ir.types import TensorType, check_dtype, dtype_kind, is_inexact
from adjit.tracer.array_content import ArrayContent
from adjit.tracer.array_errors import not_one, remedy_for_readers, write_refused
from adjit.tracer.array_wrapper import ArrayWrapper, DeviceLeaf, HoldsTraced
from adjit.tracer.caught_errors import is_caught, is_caught_as_numpys
from adjit.tracer.flow.flow_graph import FlowMismatch
from adjit.tracer.flow.number_uses import is_only_decided_on
from adjit.tracer.flow.text_uses import PRINTING, use_of_text
from adjit.tracer.guards.array_access import WRITING_FUNCTIONS
from adjit.tracer.guards.container_log import log_hooks
from adjit.tracer.lowering import Strides, constant, transpose
from adjit.tracer.registry import FUNCTIONS, find, unsupported
from adjit.tracer.row_count import RowCount, RowScalar, is_tracked, note_read
from adjit.tracer.row_iterator import RowIterator
from adjit.tracer.scope import Scope, active_scope, is_within_batch, transposed_from
from adjit.tracer.tracebacks import user_frames_only
from adjit.tracer.user_location import find_user_location, functions_of, is_ours, is_within_store
from adjit.tracer.value_guards import DisagreeingExamplesError, UnknownValueError
from adjit.tracer.view import View

FRESH: dict[type, int] = {}
"""Classes of the arrays that traced functions make (`fresh_array`), and the number of scopes around the one where they are made."""

WRITTEN: dict[int, tuple[weakref.ref[np.ndarray], TracedArray]] = {}
"""Traced arrays that fresh arrays stand for, by identity of the fresh array."""


class TracedArray(ArrayContent):
    """Array whose dtype and shape are known while tracing, and whose values are not. No name here is a name of ndarray's with another
    meaning.

    `__class__` is the class that NumPy's object would have, for `isinstance` (see `traced_array`): code of adjit asks for `TracedArray`
    first, or `type(x)`.
    """

    __slots__ = ()
    __pandas_priority__ = 5000      # `frame * traced` asks the traced array, which takes the frame as an array

    if TYPE_CHECKING:       # `methods` gives these, and the methods of ndarray
        def _operator(self, other: Any) -> Any: ...
        __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __pow__ = __and__ = __or__ = __invert__ = _operator

    def check_fits(self, dtype: np.dtype) -> None:
        """Refuse to be an element of this dtype where NumPy asks whether a Python number fits."""

    @property
    def real(self) -> TracedArray:
        return FUNCTIONS[np.real](self)     # type: ignore[no-any-return]

    @real.setter
    def real(self, new: Any) -> None:
        FUNCTIONS[np.real](self)[...] = new

    @property
    def imag(self) -> TracedArray:
        return FUNCTIONS[np.imag](self)     # type: ignore[no-any-return]

    @imag.setter
    def imag(self, new: Any) -> None:
        if self.dtype.kind != "c":
            raise TypeError("array does not have imaginary part to set")
        FUNCTIONS[np.imag](self)[...] = new

    @property
    def flat(self) -> Any:
        return FUNCTIONS["flat"](self)

    @flat.setter
    def flat(self, new: Any) -> None:
        FUNCTIONS["flat"](self)[:] = new

    @property
    def device(self) -> str:
        return "cpu"

    def to_device(self, device: str, /, *, stream: Any = None) -> TracedArray:
        if device != "cpu" or stream is not None:
            raise ValueError(f'Unsupported device: {device}. Only "cpu" is allowed' if stream is None
                             else "The stream argument in to_device() is not supported")
        return self

    def __jax_array__(self) -> Any:
        """What operators of JAX arrays ask operands for: nothing that they know, so that Python asks this array for `__rmul__` and kin."""
        return NotImplemented

    @property
    def T(self) -> TracedArray:
        return FUNCTIONS[np.transpose](self)

    @property
    def mT(self) -> TracedArray:
        if self.ndim < 2:
            raise ValueError("matrix transpose with ndim < 2 is undefined")
        return FUNCTIONS[np.swapaxes](self, -1, -2)

    def __repr__(self) -> str:
        return self._text(repr)

    def __str__(self) -> str:
        return self._text(str)

    def _text(self, convert: Callable[[Any], str]) -> str:
        """Text of the value for this call, which is a decision as `float()` is; where it is only shown, see `shown`."""
        shown = f"<traced {self._value.type}{', weak' if self.weak else ''}>"
        active, frame = active_scope(), sys._getframe(2)
        known = self.scope.open and self.scope.root.values is not None and active is not None and isinstance(active.builder, GraphBuilder)
        module = frame.f_globals.get("__name__", "")
        if not known or (module.startswith("adjit.") and module != PRINTING):
            return shown
        if (mark := self.mark_to_print(None)) is not None:
            return mark
        while frame.f_back is not None and module != PRINTING and is_ours(module):
            frame = frame.f_back
            module = frame.f_globals.get("__name__", "")
        use = use_of_text(frame)
        in_trace_alone = module == PRINTING and frame.f_code.co_name != "text_of" and not self.is_of_call
        if use in ("shown", "logged", "printed") and (seen := self.shown(use == "printed" and not in_trace_alone, shown)) is not None:
            return seen
        try:
            return convert(self._number_or_array())
        except TraceError:
            if use == "raised":
                return shown
            raise

    def shown(self, printed: bool, kind: str) -> str | None:
        """What people are shown of it while the function is traced, `printed` or otherwise: dtype and shape, as `kind` says them. None for
        the number of this call, as a decision."""
        return kind

    def _number_or_array(self) -> Any:
        """What NumPy or Python would have here, for this call."""
        fixed, hint = self.without_derivative(), "print it, or return it from the compiled function and make the text there"
        if self.size > MAX_KNOWN_ELEMENTS:
            raise self._concrete("a text", hint)
        if self.shape or not self.scalar:
            return known_array(fixed)
        return self.known_number("a text", hint)

    def known_number(self, what: str, hint: str = "") -> Any:
        """The number that Python or NumPy would have here, for this call."""
        number = self.without_derivative()._number(what, hint)
        return number if self.weak else self.dtype.type(number)

    # -- not known while tracing

    def _concrete(self, what: str, hint: str) -> TraceError:
        if not self.scope.open:
            return self._escaped()
        made, *_ = self._origin().splitlines()      # the error shows the line of code that is to blame
        return TraceError(f"{what} of a traced array, whose values are not known while tracing ({made})", find_user_location(), hint)

    def _known(self, kind: str, what: str, hint: str) -> Any:
        """The value for this call, as a `kind` of Python's: a decision of the trace, guarded by the program. Raises `TraceError` where
        there is none."""
        if self.dtype.kind == "c" and kind != "bool":
            if self.size != 1:
                raise not_one(self, kind)
            parts = [FUNCTIONS[part](self)._known("float", what, hint) for part in (np.real, np.imag)]
            return complex(*parts) if kind == "complex" else {"float": float, "int": int}[kind](parts[0])
        values, active = self.scope.root.values, active_scope()
        builder = None if active is None else active.builder
        if values is None or not self.scope.open or not isinstance(builder, GraphBuilder):
            raise self._concrete(what, hint)
        if self.size != 1:
            raise not_one(self, kind)
        try:
            if kind == "float" and values.is_differentiated(self.value, builder) and not is_only_decided_on():
                raise TraceError(f"{what} of a traced array gives a Python number, through which no derivative goes ({self._origin()})",
                                 find_user_location(), hint="leave float() and .item() out; or call aj.stop_gradient(x) first, where the "
                                                            "derivative is to be 0")
            return self.told(kind, not _is_within_known_way()) if active is None or active.flow is None else active.flow.decide(self, kind)
        except DisagreeingExamplesError:
            raise TraceError(f"{what} of a traced array, which is not the same for all examples of aj.vmap "
                             f"({self._origin().splitlines()[0]})", find_user_location(),
                             hint="choose with np.where(condition, a, b) or aj.cond, loop with aj.while_loop: there each example goes its "
                                  "own way" if kind == "bool" else "compute with the array itself, by NumPy's functions") from None
        except UnknownValueError:
            if active is None or active.parent is None:
                raise self._concrete(what, hint) from None
            repeated = "is another one in each run of a function of aj.scan, aj.fori_loop, aj.while_loop, aj.cond or a solver"
            raise TraceError(f"{what} of a traced array, which {repeated} ({self._origin().splitlines()[0]})", find_user_location(),
                             hint=("choose with np.where(condition, a, b) or aj.cond" if kind == "bool" else
                                   "compute with the array itself, by NumPy's functions")
                             + "; or write the loop in Python (for, while), where decisions on values are followed") from None

    def told(self, kind: str, guarded: bool = True, point: object = None) -> Any:
        """What Python is told of the value for this call; `guarded` by the program. `point` tells the decision from others at
        the same line."""
        values, active = self.scope.root.values, active_scope()
        assert values is not None
        assert active is not None
        assert isinstance(active.builder, GraphBuilder)
        return values.answer(self.value, active.builder, kind, find_user_location(), guarded, point)

    def _number(self, what: str, hint: str) -> Any:
        """The value for this call, as the number that `.item()` gives."""
        return self._known({"b": "bool", "f": "float", "c": "complex"}.get(dtype_kind(self.dtype), "int"), what, hint)

    def __bool__(self) -> bool:
        if is_within_store():
            raise self._stored()
        truth: bool = self._known("bool", "the truth value", "choose elementwise with np.where(condition, a, b), or between two functions "
                                  "with aj.cond; loop with aj.while_loop; or make the decision on a static argument (static= of "
                                  "aj.compile) or on a shape")
        if self.scope.root.memos is not None:
            self.scope.root.memos.note(self.value, active_scope(), truth)
        return truth

    def __int__(self) -> int:
        if is_within_store():
            raise self._stored()
        check_finite(self)
        number: int = self._known("int", "int()", f"use .astype(int) to convert, or {_STATIC}")
        return number

    def __float__(self) -> float:
        if is_within_store():
            raise self._stored()
        number: float = self._known("float", "float()", "use NumPy's functions instead of those of math, .astype(float) to convert, or "
                                    + _STATIC)
        return number

    def __complex__(self) -> complex:
        if is_within_store():
            raise self._stored()
        number = self._known("complex" if self.dtype.kind == "c" else "float", "complex()", "write x + 1j * y, use .astype(complex) to "
                             "convert, or " + _STATIC)
        return complex(number)

    def __index__(self) -> int:
        if self.dtype.kind not in "iu" or self.shape:
            raise TypeError("only integer scalar arrays can be converted to a scalar index")
        number: int = self._known("int", "the use as an integer", f"{_STATIC}; indexing an array with a traced integer works, x[i] or "
                                  "np.take(x, i)")
        return number

    def without_derivative(self) -> TracedArray:
        """The array for a use that has no derivative in Python either: as a text, as a key of a dict."""
        if not is_inexact(self.dtype) or not self.scope.open:
            return self
        with emitting(self.scope.builder):
            return traced_array(stop_gradient(self.value), self.scope)

    def mark_to_print(self, form: str | None) -> str | None:
        """Mark for the text of this format, or that of `str`, which each call prints; None where the text may serve for anything else."""
        return None

    def __format__(self, form: str) -> str:
        if (mark := self.mark_to_print(form)) is not None:
            return mark
        if form and not self.shape:
            hint = "return it from the compiled function and format it there"
            return format(self.without_derivative()._number(f"formatting (with {form!r})", hint), form)
        if form:
            raise TypeError("unsupported format string passed to numpy.ndarray.__format__")
        return self._text(str)

    def __hash__(self) -> int:
        """Hash of the value for this call: the program is for this value, as for `float()`."""
        hint = f"use an integer that is known while tracing as the key, or {_STATIC}"
        number = self.without_derivative()._number("the hash (as a member of a set or a key of a dict)", hint)
        if self.scope.root.flow is not None:
            raise FlowMismatch      # where a dict or set holds the value is decided, and no description of them shows it
        return hash(number)

    def item(self, *args: Any) -> Any:
        if args:
            index = args[0] if len(args) == 1 else args
            return (self[index] if isinstance(index, tuple) else FUNCTIONS[np.ravel](self)[index]).item()
        if self.size != 1:
            raise ValueError("can only convert an array of size 1 to a Python scalar")
        return self._number(".item()", "keep the array, or return it from the compiled function and call .item() there")

    def tolist(self) -> Any:
        hint = "keep the array, or return it from the compiled function and call .tolist() there"
        if not self.shape:
            return self._number(".tolist()", hint)
        if self.size > MAX_KNOWN_ELEMENTS:
            raise self._concrete(".tolist()", hint)
        return [self[index].tolist() for index in range(self.shape[0])]

    def _stored(self) -> TraceError:
        return write_refused(find_user_location())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        names = functions_of("scipy")
        if names:
            hint = FUNCTIONS["remedy for scipy"](names)
            raise self._concrete("calling a function of SciPy, which makes an ordinary ndarray", hint)
        if is_within_store():
            raise write_refused(find_user_location())
        names = functions_of("numpy")
        if names:
            module, name = names[0].rpartition(".")[::2]
            public = module.partition("._")[0].replace("numpy", "np", 1).removesuffix(".lib").removesuffix(".core")     # of private parts
            raise self._concrete("making an ordinary ndarray", f"{public}.{name} has no rule for traced arrays (docs/numpy.md): write it "
                                 "with functions that have one")
        if self.scalar:
            raise self._concrete("making an ordinary ndarray", "pass np.array(list) in place of a list that holds traced numbers")
        raise self._concrete("making an ordinary ndarray", remedy_for_readers(find_user_location()))

    # -- the NumPy protocols

    @user_frames_only
    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if not kwargs and method == "__call__":
            made = FUNCTIONS["directly"](ufunc, inputs, False)
            if made is not NotImplemented:
                return made
        out = kwargs.pop("out", None)
        for target in out or (inputs[:1] if method == "at" else ()):
            FUNCTIONS["taken over"](target)
        if any(type(x) in FRESH for x in (*inputs, *(out or ()))):
            return FUNCTIONS["fresh ufunc"](ufunc, method, inputs, out or (), kwargs)
        return apply_ufunc(ufunc, method, inputs, out, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        out = kwargs.get("out")
        targets = (*(args[:1] if function.__name__ in WRITING_FUNCTIONS else ()), *(out if isinstance(out, tuple) else (out,)))
        for target in targets:
            FUNCTIONS["taken over"](target)
        if any(kind in FRESH for kind in (*types, *map(type, targets))):
            return FUNCTIONS["fresh function"](function, args, kwargs)
        return find(function)(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if self.scalar and (found := FUNCTIONS["number attribute"](self, name)) is not None:
            return found
        if name.startswith("__") or not hasattr(np.ndarray, name):
            kind = "numpy.ndarray" if not self.scalar else self.__class__.__name__ if self.weak else f"numpy.{self.dtype.type.__name__}"
            raise AttributeError(f"{kind!r} object has no attribute {name!r}")
        raise unsupported(getattr(np.ndarray, name), f"numpy.ndarray.{name}")

    # -- indexing

    def __getitem__(self, index: Any) -> TracedArray:
        index = index.opened() if isinstance(index, HoldsTraced) else index
        try:
            part = FUNCTIONS["basic part"](self, index)
            return FUNCTIONS["getitem"](self, index) if part is NotImplemented else part
        except IndexingError as error:
            if is_caught_as_numpys(type(error)):
                raise IndexError(error.message) from None
            raise

    def __setitem__(self, index: Any, new: Any) -> None:
        index = index.opened() if isinstance(index, HoldsTraced) else index
        try:
            if FUNCTIONS["write basic part"](self, index, new) is NotImplemented:
                FUNCTIONS["setitem"](self, index, new)
        except IndexingError as error:
            if is_caught_as_numpys(type(error)):
                raise IndexError(error.message) from None
            raise


def _is_within_known_way() -> bool:
    """True if what is recorded will be taken back, as a branch or loop has its place. A decision made in a region without a recorder is
    part of no block of a recorder around it."""
    scope, ahead = active_scope(), False
    while scope is not None:
        if scope.flow is not None:
            scope.flow.interrupt()
            ahead = ahead or scope.flow.is_ahead
        scope = scope.parent
    return ahead


MAX_KNOWN_ELEMENTS = 64
"""Most elements of an array that `known_array` and `.tolist()` guard, one by one."""

_STATIC = "pass the number as a static argument (static= of aj.compile)"


def apply_ufunc(ufunc: np.ufunc, method: str, inputs: Sequence[Any], out: tuple[Any, ...] | None, kwargs: dict[str, Any]) -> Any:
    """Apply a method of a ufunc to arrays, some of them traced."""
    if "sig" in kwargs:
        kwargs["signature"] = kwargs.pop("sig")
    if out is not None:
        kwargs["out"] = out[0] if len(out) == 1 else out
    if method == "__call__":
        return find(ufunc)(*inputs, **kwargs)
    rule = FUNCTIONS.get((ufunc, method))
    if rule is None:
        raise UnsupportedError(f"numpy.{ufunc.__name__}.{method} has no rule for traced arrays", find_user_location(),
                               hint="write it with the functions of aj.numpy")
    return rule(*inputs, **kwargs)


log_hooks.known_key = lambda key: key._number_or_array() if isinstance(key, TracedArray) else key


def known_value(x: TracedArray) -> bool | int | float:
    """The value of a scalar for the call that is being traced, as `.item()` gives it: a count that decides a shape, say. The program is
    for this value from now on, and another one goes another way. Raises `TraceError` where it is not known, as in the body of a loop."""
    number: bool | int | float = x.item()
    return number


def check_finite(x: TracedArray) -> None:
    """Raise the exception of Python's `int` for infinity or NaN where the user's code catches it: a decision, so that other calls may go
    the other way."""
    if is_inexact(x.dtype) and is_caught(ValueError, OverflowError) and not known_value(find(np.isfinite)(x)):
        int(math.nan if known_value(find(np.isnan)(x)) else math.inf)


def known_array(x: TracedArray) -> np.ndarray:
    """The content of an array of up to `MAX_KNOWN_ELEMENTS` elements for the call that is being traced, as `known_value`."""
    return np.array(x.tolist(), x.dtype).reshape(x.shape)


def known_for_text(x: TracedArray) -> np.ndarray | None:
    """The content of an array for the call that is being traced, as a decision, where Python uses the text of a tensor. None in a debugger,
    and where there is none and people alone are shown the text."""
    active, frame = active_scope(), sys._getframe(1)
    if not x.scope.open or x.scope.root.values is None or active is None or not isinstance(active.builder, GraphBuilder):
        return None
    while frame.f_back is not None and is_ours(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
    use = use_of_text(frame)
    if use == "shown":
        return None
    try:
        return known_array(x.without_derivative())
    except TraceError:
        if use == "used":
            raise
        return None


def known_true(x: TracedArray) -> bool:
    """True if a bool is true for the call that is being traced, where Python can decide on values, with a guard; never within `vmap`, as
    examples may disagree later."""
    if is_within_batch():
        return False
    try:
        return bool(x)
    except TraceError:
        return False


class TracedNDArray(TracedArray):
    """Traced array that is an array in NumPy: it has a length and can be iterated over; scalars do not have these methods at all."""

    __slots__ = ()
    __class__ = np.ndarray      # type: ignore[assignment]
    __hash__ = None     # type: ignore[assignment]  # as for ndarrays
    scalar = False

    def __len__(self) -> int:
        if self.shape:
            if type(self.shape[0]) is RowCount:
                note_read("len()")
            return self._value.type.shape[0]
        raise TypeError("len() of unsized object")

    def __iter__(self) -> Iterator[TracedArray]:
        if self.shape:
            return RowIterator(self)
        raise TypeError("iteration over a 0-d array")

    def __contains__(self, item: Any) -> bool:
        return bool(FUNCTIONS[np.any](self == item))

    def __delitem__(self, index: Any) -> None:
        raise ValueError("cannot delete array elements")


ORDINARY: set[type] = {TracedNDArray}
"""Classes of traced arrays, but for those chosen by masks."""

PLAIN: set[type] = {TracedNDArray, bool, int, float, complex, str, slice, type, type(None), type(Ellipsis)}
"""Those classes, and classes of other arguments that hold no array."""


@cache
def _scalar_class(number: type) -> type[TracedArray]:
    """Class of traced arrays that are scalars of the type `number` in NumPy or Python."""
    made = type("TracedArray", (TracedArray,), {"__slots__": (), "__class__": number})
    ORDINARY.add(made)
    PLAIN.add(made)
    return made


def traced_array(value: Value, scope: Scope, weak: bool = False, scalar: bool | None = None, **properties: Any) -> TracedArray:
    """Make a traced array of `scope`, of the class for its kind; without `scalar`, the shape decides as in NumPy."""
    return class_of(value.type, weak, scalar)(value, scope, weak, **properties)


_PYTHON_NUMBERS: dict[str, builtins.type] = {"f": float, "c": complex}


class PythonBool(TracedArray):
    """Traced bool of Python's: what comparisons of Python's numbers give. It computes as an integer (`python_scalars`)."""

    __slots__ = ()
    __class__ = bool        # type: ignore[assignment]


ORDINARY.add(PythonBool)
PLAIN.add(PythonBool)


def class_of(type: TensorType, weak: bool, scalar: bool | None = None) -> builtins.type[TracedArray]:
    """Class of the traced arrays of a type."""
    if type.shape or scalar is False:
        return TracedNDArray
    if not weak:
        number: Any = type.dtype.type
        return _scalar_class(number)
    kind = dtype_kind(type.dtype)
    number = _PYTHON_NUMBERS.get(kind, int)
    return PythonBool if kind == "b" else _scalar_class(number)


def wrap(value: Value, weak: bool = False, **properties: Any) -> TracedArray:
    """Make a traced array as `traced_array` does, in the scope that is active."""
    scope = active_scope()
    if scope is None:
        raise TraceError("a traced array is made outside of a trace", find_user_location())
    return traced_array(value, scope, weak, **properties)


def view_of(base: TracedArray, read: Callable[[Value], Value], write: Callable[[Value, Value], Value],
            strides: Strides | None, key: object = None, writable: bool = True, certain: bool = True,
            places: tuple[TracedArray, ...] = ()) -> TracedArray:
    """Make a view of `base`, see `View`; of a scalar, which has no views, a new array or scalar."""
    if base.immutable:
        return wrap(read(base.value))
    certain = certain and (base.alias is None or base.alias.certain)
    return wrap(read(base.value), view=View(base, read, write, key, certain, base.shape, places), strides=strides,
                writable=base.writable and writable, scalar=False)


def unwrap(x: Any) -> Value:
    """Return the value of a traced array, or of anything that can become a traced array."""
    return as_traced(x).value


def as_traced(x: Any) -> TracedArray:
    """Return `x` as a traced array: plain arrays are captured by reference, numbers become constants, lists are stacked, wrappers opened.
    """
    if isinstance(x, TracedArray):
        return x
    if isinstance(x, ArrayWrapper):
        wrapped: TracedArray = x.traced()
        return wrapped
    if type(x) in FRESH:
        content: TracedArray = FUNCTIONS["content of fresh"](x)
        return content
    if isinstance(x, np.ndarray):
        scope = active_scope()
        if scope is None:
            raise TraceError("an array is used in a trace, and there is none", find_user_location())
        whole = None if scope.evaluates else transposed_from(x)
        if whole is not None:       # a compiled function then reads the memory of `W` as it is where the user wrote `W.T`
            straight, permutation = whole
            return wrap(transpose(scope.capture(scope.same_memory(straight)), permutation), writable=False,
                        strides=tuple(stride // x.itemsize for stride in x.strides))
        part = None if scope.evaluates else FUNCTIONS["part of outside"](x)
        if part is not None:
            return part     # type: ignore[no-any-return]
        strides = tuple(stride // x.itemsize for stride in x.strides)
        return wrap(scope.capture(x), writable=False, scalar=False, strides=strides)
    if isinstance(x, np.generic):
        return wrap(constant(x, check_dtype(x.dtype)))
    if is_tracked(x):
        return wrap(constant(x, np.asarray(x).dtype), weak=type(x) is not RowScalar)
    if isinstance(x, (bool, int, float, complex)):
        return wrap(constant(x, check_dtype(np.asarray(x).dtype)), weak=not isinstance(x, bool))
    if isinstance(x, (list, tuple)) and contains_traced(x):
        if isinstance(x, HoldsTraced):
            return x.opened()       # type: ignore[no-any-return]
        joined: TracedArray = FUNCTIONS["stack directly"](x)
        return FUNCTIONS[np.stack](x) if joined is NotImplemented else joined
    if isinstance(x, DeviceLeaf):
        raise UnsupportedError("an array in the memory of a device is read in a traced function", find_user_location(),
                               hint="pass it to the function as an argument")
    held = held_traced(x)
    return as_traced(np.asarray(x)) if held is None else held


def held_traced(x: Any) -> TracedArray | None:
    """The traced array that an array of xarray's holds, which arithmetic with its labels made."""
    held = x.data if hasattr(type(x), "dims") else None
    return held if isinstance(held, TracedArray) else None


def without_labels(leaves: list[Any]) -> list[Any]:
    """Leaves, with the traced arrays that arrays of xarray's hold in place of these."""
    return [leaf if (held := held_traced(leaf)) is None else held for leaf in leaves]


def contains_traced(x: Any) -> bool:
    """True if nested lists and tuples hold a traced array."""
    if type(x) in FRESH:
        return id(x) in WRITTEN or FUNCTIONS["opened"](x) is not x
    return isinstance(x, TracedArray) or (isinstance(x, (list, tuple)) and (
        isinstance(x, HoldsTraced) or any(map(contains_traced, x))))
