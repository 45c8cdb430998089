"""NumPy's functions as they act while a function is traced: the arrays that they make are fresh, and lists may hold traced numbers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from itertools import islice
from typing import Any

import numpy as np

from adjit.ir.errors import TraceError, UnsupportedError
from adjit.ir.types import SHORT_NAMES, dtype_kind
from adjit.tracer.array import FRESH, WRITTEN, TracedArray, wrap
from adjit.tracer.caught_errors import is_caught
from adjit.tracer.complex_functions import add_complex
from adjit.tracer.direct import stack_directly
from adjit.tracer.fresh_array import has_traced, lent, made, opened
from adjit.tracer.functions import creation
from adjit.tracer.functions.applying import call_vectorized
from adjit.tracer.functions.shapes import in_order_of
from adjit.tracer.guards.array_access import ORIGINAL_CLASS, note_all
from adjit.tracer.guards.container_log import ORIGINAL_KIND
from adjit.tracer.interception import Interception, calling_module
from adjit.tracer.math_functions import add_math
from adjit.tracer.promotion import as_operand, common_dtype
from adjit.tracer.registry import FUNCTIONS, find
from adjit.tracer.scope import is_tracing
from adjit.tracer.user_location import find_user_location, is_ours, warn_user

Function = Callable[..., Any]



@cache
def _is_library(module: str) -> bool:
    """True if what a module makes are ordinary arrays. NumPy's classes of polynomials are programs like a user's."""
    return is_ours(module) and not module.startswith(("numpy.polynomial.", "numpy.lib._polynomial"))


def _array(object: Any, dtype: Any = None, *, copy: bool | None = True, order: str = "K", subok: bool = False, ndmin: int = 0) -> Any:
    return in_order_of(creation.array(object, dtype, copy=copy, ndmin=ndmin), order)


def _asarray(a: Any, dtype: Any = None, order: str = "K", *, device: Any = None, copy: bool | None = None) -> Any:
    return _array(a, dtype, copy=copy, order=order)


def _require(a: Any, dtype: Any = None, requirements: Any = None) -> Any:
    """`np.require`: of the memory of traced arrays only the order is known."""
    letters = {str(each)[0].upper() for each in requirements or ()}
    if {"C", "F"} <= letters:
        raise ValueError("Cannot specify both \"C\" and \"F\" order")
    return _array(a, dtype, copy=None, order="F" if "F" in letters else "C" if "C" in letters else "K")


_CONVERSIONS: dict[Any, Function] = {
    np.require: _require,
    np.array: _array, np.asarray: _asarray, np.asanyarray: _asarray, np.ascontiguousarray: creation.ascontiguousarray,
    np.asfortranarray: creation.asfortranarray}
_MAKERS: dict[Any, Function] = {
    np.zeros: creation.zeros, np.empty: creation.empty, np.ones: creation.ones, np.full: creation.full, np.arange: creation.arange,
    np.eye: creation.eye, np.identity: creation.identity, np.tri: creation.tri}
"""What the functions are for lists of traced numbers, and for traced arguments."""

_PLAIN_MAKERS = (np.frombuffer, np.indices)

MADE = frozenset({*_CONVERSIONS, *_MAKERS, *_PLAIN_MAKERS, np.fromfunction, np.fromiter, np.fromfile, np.fromstring, np.loadtxt,
                   np.genfromtxt})
"""Functions that have no rule in `FUNCTIONS` and need none: they act otherwise while a function is traced, or take no traced arrays."""


def _making(function: Any) -> Callable[[Function], Function]:
    """Replacement for a function that makes arrays."""
    def replacement(own: Function) -> Function:
        if function is np.zeros:
            _zeros.append(own)
        make = _zeros[0] if function is np.empty else own       # an empty array has content that is known, too

        def call(*args: Any, **kwargs: Any) -> Any:
            if not is_tracing() or _is_library(calling_module()):
                return own(*opened(args), **opened(kwargs)) if WRITTEN else own(*args, **kwargs)
            if has_traced((args, kwargs)):
                return _MAKERS.get(function, own)(*opened(args), **opened(kwargs))
            return made(make, args, kwargs)
        return call
    return replacement


_zeros: list[Function] = []


def _converting(function: Any) -> Callable[[Function], Function]:
    """Replacement for a function that converts to an array: it reads observed arrays without calling any of their methods."""
    def replacement(own: Function) -> Function:
        def call(*args: Any, **kwargs: Any) -> Any:
            first = args[0] if args else None
            if type(first) is list and len(args) == 1 and not kwargs and function is not np.require and (
                    is_tracing() and not _is_library(calling_module())):
                joined = stack_directly(first)
                if joined is not NotImplemented:
                    return joined
            if type(first) in ORIGINAL_CLASS:
                if len(args) == 1 and not kwargs and function is not np.array and own(first).base is first:
                    return first        # nothing is converted
                note_all((args, kwargs))
            elif isinstance(first, (list, tuple)):
                note_all((args, kwargs))
            by_user = is_tracing() and not _is_library(calling_module())
            if (by_user or WRITTEN) and has_traced(args):
                given = opened(args)
                if by_user or type(first) in FRESH:
                    return _CONVERSIONS[function](*given, **kwargs)
            return made(own, args, kwargs) if by_user else own(*args, **kwargs)
        return call
    return replacement


def _calling(function: Any) -> Callable[[Function], Function]:
    """Replacement for what a function calls if none of its arguments has `__array_function__`: lists may hold traced numbers."""
    def replacement(own: Function) -> Function:
        def call(*args: Any, **kwargs: Any) -> Any:
            if not is_tracing() or _is_library(calling_module()):
                return own(*opened(args), **opened(kwargs)) if WRITTEN else own(*args, **kwargs)
            if has_traced((args, kwargs)):
                return find(function)(*opened(args), **opened(kwargs))
            return made(own, args, kwargs)
        return call
    return replacement


def _applying(own: Any) -> Function:
    """Replacement for a ufunc, or a method of one: lists may hold traced numbers. Of arrays `__array_ufunc__` is asked."""
    kept = 2 if own.func is np.ufunc.at else 0      # an index is no list of numbers

    def call(*args: Any, **kwargs: Any) -> Any:
        for x in args:
            if type(x) is list or type(x) is tuple or type(x) in ORIGINAL_KIND:
                break
        else:
            return own(*args, **kwargs)
        if not is_tracing() or _is_library(calling_module()):
            return own(*args, **kwargs)
        if has_traced(args):
            lists = (_array(opened(x)) if isinstance(x, (list, tuple)) and has_traced(x) else x for x in args[kept:])
            return own(*args[:kept], *lists, **kwargs)
        if kwargs.get("out") is not None or any(isinstance(x, np.ndarray) for x in args):
            return own(*args, **kwargs)
        return made(own, args, kwargs)
    return call


def _scalar(kind: Any) -> Callable[[Function], Function]:
    """Replacement for the class of a NumPy scalar, which converts a traced number."""
    def replacement(own: Function) -> Function:
        def call(*args: Any, **kwargs: Any) -> Any:
            if args and is_tracing() and has_traced(args[0]) and not _is_library(calling_module()):
                converted = FUNCTIONS["astype"](_array(opened(args[0])), kind)
                return converted if converted.shape else wrap(converted.value)
            return own(*args, **kwargs)
        return call
    return replacement


def _from_iterator(own: Function) -> Function:
    """Replacement for `np.fromiter`, whose iterator may give traced numbers."""
    def call(iter: Any, dtype: Any, count: int = -1, **kwargs: Any) -> Any:
        if not is_tracing() or _is_library(calling_module()):
            return own(iter, dtype, count, **kwargs)
        items = list(iter) if count < 0 else list(islice(iter, count))
        if has_traced(items) and len(items) >= count:
            return _array(opened(items), dtype)
        return made(own, (items, dtype, count), kwargs)
    return call


def _array_class(own: Function) -> Function:
    """Replacement for the class of arrays: an array without a buffer has content that is known, one with a buffer is a view."""
    def zeros(*args: Any, **kwargs: Any) -> Any:
        array = own(*args, **kwargs)
        if dtype_kind(array.dtype) in "fiubc":
            array.fill(0)
        return array

    def call(*args: Any, **kwargs: Any) -> Any:
        if not is_tracing() or _is_library(calling_module()):
            return own(*args, **kwargs)
        note_all((args, kwargs))
        has_buffer = kwargs.get("buffer", args[2] if len(args) > 2 else None) is not None
        return made(own if has_buffer else zeros, args, kwargs)
    return call


def _iterating(own: Function) -> Function:
    """Replacement for `iter`: helpers ask by it, and `np.iterable` does, whether something is a scalar."""
    def call(x: Any, *sentinel: Any) -> Any:
        if not sentinel and isinstance(x, TracedArray) and x.scalar:
            raise TypeError(f"'{x.__class__.__name__}' object is not iterable")
        return own(x, *sentinel)
    return call


def _memory_view(own: Function) -> Function:
    """Replacement for `memoryview`: of arrays that nothing traced is written to as long as it lives."""
    def call(*args: Any, **kwargs: Any) -> Any:
        (array, *_) = (*args, *kwargs.values(), None)
        if not is_tracing() or _is_library(calling_module()) or not isinstance(array, np.ndarray):
            return own(*args, **kwargs)
        note_all(array)
        return lent(array, own)
    return call


def _concatenating(own: Function) -> Function:
    """Replacement for the function behind np.r_[...] and np.c_[...]."""
    def call(self: Any, key: Any) -> Any:
        if not is_tracing() or not has_traced(key):
            return made(own, (self, key), {})
        axis, ndim, place, pieces, operands = self.axis, self.ndmin, self.trans1d, [], []
        for position, item in enumerate(opened(key if isinstance(key, tuple) else (key,))):
            if isinstance(item, str):
                numbers = item.split(",")
                if position or not all(number.strip().lstrip("-").isdigit() for number in numbers):
                    raise UnsupportedError(f"np.r_ with {item!r} and traced values", find_user_location(), "use np.concatenate")
                axis, ndim, place = ([int(number) for number in numbers] + [axis, ndim, place][len(numbers):])[:3]
                continue
            if isinstance(item, slice):
                count = item.step if isinstance(item.step, complex) else None
                item = (np.arange(item.start or 0, item.stop, item.step or 1) if count is None
                        else creation.linspace(item.start, item.stop, int(abs(count))))
            item = _array(item) if isinstance(item, (list, tuple)) and has_traced(item) else item
            own_ndim = np.ndim(item)
            operands.append(as_operand(item))
            piece = _array(item, ndmin=ndim)
            if place != -1 and own_ndim < ndim and (own_ndim or isinstance(item, slice)):
                first, axes = place + (ndim - own_ndim + 1 if place < 0 else 0), list(range(ndim))
                piece = find(np.transpose)(piece, axes[:first] + axes[ndim - own_ndim:] + axes[first:ndim - own_ndim])
            pieces.append(piece)
        return find(np.concatenate)(pieces, axis, dtype=common_dtype(operands))
    return call


def _vectorizing(own: Function) -> Function:
    """Replacement for the call of `np.vectorize(f)`."""
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_tracing() or not has_traced((args, kwargs)) or not callable(self.pyfunc):
            return own(self, *args, **kwargs)
        return call_vectorized(self, opened(args), opened(kwargs))
    return call


def _enumerating(own: Function) -> Function:
    """Replacement for the constructor of `np.ndenumerate`."""
    def call(self: Any, arr: Any) -> None:
        if is_tracing() and (type(arr) in FRESH or has_traced((arr,))):
            self.iter = _Places(arr if isinstance(arr, np.ndarray) else _asarray(arr))
        else:
            own(self, arr)
    return call


class _Places:
    """Iterator over elements, each read when it is asked for: a fresh array may have become traced in the meantime."""

    def __init__(self, array: Any):
        self.array = array
        self.places = np.ndindex(*array.shape)
        self.coords: tuple[int, ...] = ()
        self._advance()

    def _advance(self) -> None:
        following = next(self.places, None)
        self.ended, self.coords = following is None, following or ()

    def __next__(self) -> Any:
        if self.ended:
            raise StopIteration
        element = self.array[self.coords]
        self._advance()
        return element


def _error_state(own: Function) -> Function:
    """Replacement for the class np.errstate: programs raise no `FloatingPointError`."""
    def call(*args: Any, **kwargs: Any) -> Any:
        if "raise" in kwargs.values() and is_tracing() and not _is_library(calling_module()):
            text = "np.errstate with 'raise' has no effect in compiled code, which gives NaN and infinity and raises no FloatingPointError"
            names = sys._getframe(2).f_code.co_names
            if is_caught(FloatingPointError) or not {"FloatingPointError", "ArithmeticError"}.isdisjoint(names):
                raise TraceError(text, find_user_location(), hint="decide on the values, if not np.all(np.isfinite(y)), or on the operands")
            warn_user(text)
        return own(*args, **kwargs)
    return call


@cache
def numpy_functions() -> Interception:
    """The functions of NumPy that act otherwise while a function is traced."""
    functions = Interception()
    add_math(functions)
    add_complex(functions)
    function: Any
    for function in _CONVERSIONS:
        functions.add(function, _converting(function))
    for function in (*_MAKERS, *_PLAIN_MAKERS):
        functions.add(function, _making(function))
    functions.add(type(np.mgrid).__getitem__, _making(type(np.mgrid).__getitem__))
    functions.add(type(np.r_).__getitem__, _concatenating)
    for kind in SHORT_NAMES.values():
        functions.add(kind.type, _scalar(kind))
    functions.add(np.ndarray, _array_class)
    functions.add(np.fromiter, _from_iterator)
    functions.add(np.errstate, _error_state)
    functions.add(memoryview, _memory_view)
    functions.add(iter, _iterating)
    functions.add(np.vectorize.__call__, _vectorizing)
    functions.add(np.ndenumerate.__init__, _enumerating)
    for space in (np, np.linalg, np.fft):
        for function in vars(space).values():
            if type(function) is type(np.sum):
                functions.add(function, _calling(function))
    for function in {function for function in vars(np).values() if type(function) is np.ufunc}:
        functions.add(function, _applying)
    return functions
