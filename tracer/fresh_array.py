"""Arrays that a function makes while it is traced, np.zeros(3) for one: ordinary arrays, until something traced is written into them.

    with fresh_arrays(scope):
        y = np.zeros(3)     # a fresh array: Python may read it, and use it for shapes and ranges
        row = y[1:]
        y[1] = x            # from here on y and row stand for traced arrays

A fresh array is an object of a subclass of ndarray with the same memory layout. Its content is known as long as nothing traced is written
to it: used together with traced arrays it is a constant. With the first traced write the array that owns the memory gets a traced array,
its cell (`WRITTEN`), and all views of that memory, made before or after, are views of the cell from then on; the memory itself is no
longer read. At the end of the trace arrays that never were written to become ordinary arrays. The others stay what they are, traced arrays
of a trace that is over.

Arrays from outside that the function writes to, traced values or not, are taken over (`take_over`): the array that owns the memory is a
parameter that the program updates. The memory keeps its content, and at the end of the trace they all are what they were.
"""

from __future__ import annotations

import ctypes
import gc
import weakref
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from dataclasses import field
from functools import cache, partial
from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.dataclass import dataclass
from adjit.ir.emitter import emitting
from adjit.ir.errors import TraceError, UnsupportedError
from adjit.ir.graph import Value
from adjit.ir.ops.creation import table_attributes
from adjit.ir.types import dtype_kind, is_inexact
from adjit.tracer import lowering
from adjit.tracer.array import FRESH, WRITTEN, TracedArray, apply_ufunc, as_traced, contains_traced, traced_array, view_of, wrap
from adjit.tracer.array_checks import check_array, is_ndarray
from adjit.tracer.array_wrapper import HoldsTraced
from adjit.tracer.functions.indexing import fixed
from adjit.tracer.guards.array_access import (
    OPERATORS,
    ORIGINAL_CLASS,
    WRITING_FUNCTIONS,
    is_new_view,
    note_view,
    observed_in_this_thread,
    results,
    words,
    writing,
)
from adjit.tracer.guards.class_change import set_class, subclass_without_gc
from adjit.tracer.guards.container_log import ORIGINAL_KIND, unlogged
from adjit.tracer.guards.content import fingerprint
from adjit.tracer.registry import FUNCTIONS, find
from adjit.tracer.scope import Pairs, Scope, Taken, active_scope, is_tracing
from adjit.tracer.user_location import find_user_location

_KEPT = words("""
    __array_wrap__ __array_priority__ __class__ __class_getitem__ __delattr__ __dir__ __doc__ __getattribute__ __getstate__
    __hash__ __init__ __init_subclass__ __len__ __new__ __setattr__ __sizeof__ __subclasshook__ __array_namespace__ __setstate__
    __dlpack_device__ __module__ __array_finalize__ __array_ufunc__ __array_function__ __getitem__ __setitem__ ndim size nbytes
    itemsize base flags device setflags
    """) | OPERATORS
"""Members that mean the same for every array, and operators, which call universal functions."""

_WRITING_METHODS = frozenset({"fill", "itemset", "put", "partition", "resize", "setfield", "sort"})
"""Methods that write."""

_MAX_TABLE_BYTES = 1 << 20
"""Bytes of content up to which it is a table, of which `capture_tables` makes the best; an array is captured if it is larger."""

_BASE: Any = np.ndarray.base


def root_of(array: np.ndarray) -> np.ndarray:
    """Return the array that owns the memory of an array."""
    while isinstance(base := _BASE.__get__(array), np.ndarray):
        array = base
    return array


def depth_of(scope: Scope | None) -> int:
    depth = 0
    while scope is not None and scope.parent is not None:
        scope, depth = scope.parent, depth + 1
    return depth


# -- what a fresh array stands for

def standing_for(array: np.ndarray) -> TracedArray | None:
    """The traced array that a fresh array stands for; None if nothing traced was written to its memory."""
    if not WRITTEN:
        return None
    root = None
    entry = WRITTEN.get(id(array))
    if entry is None:
        root = root_of(array)
        entry = WRITTEN.get(id(root)) if root is not array else None
    if entry is None or entry[1].scope.root.is_elsewhere(root_of(array)):
        return None
    if root is None:
        return entry[1]
    cell = entry[1]
    outermost = cell.scope.root
    if id(root) in outermost.taken and id(array) in outermost.outside():
        outermost.viewed_outside.add(id(root))
        note_view(array)
    view = _view(cell, root, array)
    if cell.scope is active_scope():
        _stand_for(array, view)
    return view


def _stand_for(array: np.ndarray, traced: TracedArray) -> None:
    identity = id(array)
    WRITTEN[identity] = weakref.ref(array, partial(_forget, WRITTEN, identity)), traced


def _forget(entries: dict[int, Any], identity: int, _: Any) -> None:
    """Remove the entry of an array that has ended. At the end of the interpreter the names of this module are gone before the array is."""
    entries.pop(identity, None)


def written(array: Any) -> Any:
    """The traced array that an array stands for once something traced is written to it: makes its cell. Others are returned as they are."""
    if type(array) not in FRESH:
        return array
    held = standing_for(array)
    if held is not None:
        return held
    scope = active_scope()
    assert scope is not None
    for _ in range(depth_of(scope) - FRESH[type(array)]):     # an array from outside of this region is written to as traced ones are
        assert scope.parent is not None
        scope = scope.parent
    root = root_of(array)
    _refuse_if_lent(root, scope)
    plain = np.ndarray.view(root, np.ndarray)
    with emitting(scope.builder):
        cell = traced_array(_constant(plain), scope, scalar=False, strides=_steps(plain))
    if plain.flags.writeable:       # C code that reads the memory all the same gets no number that looks right
        plain.fill(np.nan if is_inexact(plain.dtype) else plain.dtype.kind != "b" and np.iinfo(plain.dtype).min)
    _stand_for(root, cell)
    made = standing_for(array)
    assert made is not None
    return made


def take_over(array: np.ndarray, values: Any = None) -> bool:
    """Have an observed array from outside of the function, to which `values` (where given) are about to be written, stand for a traced
    array from here on. Returns False where nothing is traced."""
    scope = active_scope()
    if scope is None or scope.evaluates:
        return False
    if scope.root.plain_writes and values is not None and not has_traced(values):
        return _refuse_if_repeated(scope)
    if not array.flags.writeable:
        raise ValueError("assignment destination is read-only")
    root, outermost = root_of(array), scope.root
    kind = ORIGINAL_CLASS.get(type(root), type(root))
    if id(root) in WRITTEN or kind is not np.ndarray:
        what = "is being traced in another thread, where it is written to, too" if kind is np.ndarray else f"is a {kind.__name__}"
        raise TraceError(f"an array from outside is written to, which {what}", find_user_location(), hint="pass it as an argument")
    _refuse_if_lent(root, scope)
    cell = traced_array(outermost.capture(root), outermost, scalar=False, strides=_steps(root))
    mine = [other for other in observed_in_this_thread() if root_of(other) is root]
    outermost.taken[id(root)] = Taken(root, cell, [(other, type(other)) for other in mine])
    for other in mine:
        set_class(other, _fresh_class(0))
    _stand_for(root, cell)
    return True


def _refuse_if_repeated(scope: Scope | None) -> bool:
    """Return False; raises `TraceError` in a loop body or branch, where a write by the trace would happen once."""
    while scope is not None and scope.parent is not None:
        if not scope.hands_writes_on:
            raise TraceError("an array from outside is written to in a control-flow function", find_user_location(),
                             hint="return the new array from the function instead, or write to a copy (x = x.copy())")
        scope = scope.parent
    return False


def lent(array: Any, view: Callable[[Any], memoryview]) -> memoryview:
    """Return a `memoryview` of an array. No traced value is written to the memory while it is there."""
    scope = active_scope()
    assert scope is not None
    if issubclass(type(array), TracedArray) or standing_for(array) is not None:
        raise _not_in_memory()
    shown = view(plain_of(array))
    scope.root.lent.append((root_of(array), weakref.ref(shown)))
    return shown


def _refuse_if_lent(root: np.ndarray, scope: Scope) -> None:
    if any(array is root and shown() is not None for array, shown in scope.root.lent):
        raise _not_in_memory()


def _not_in_memory() -> TraceError:
    return TraceError("a memoryview shows an array that holds traced values, which are not in its memory while tracing",
                      find_user_location(), hint="read and write the array itself, and views of it: array[1:], array.reshape(...)")


def taken_over(array: Any) -> Any:
    """Return the traced array that an array stands for, which is about to be written to; others as they are."""
    if type(array) in ORIGINAL_CLASS:
        take_over(array)
    return written(array)


def _give_back(scope: Scope) -> None:
    """Make arrays from outside, and views of them, ordinary arrays again."""
    for taken in scope.taken.values():
        for array, kind in taken.classes:
            set_class(array, kind)
        for identity, (_, traced) in list(WRITTEN.items()):
            if traced is taken.cell or (traced.alias is not None and traced.alias.owner is taken.cell):
                WRITTEN.pop(identity, None)


def _is_repeated(array: Any) -> bool:
    """True where a write to a fresh array would happen once, and has to happen in each run of a loop body or branch: as one of traced
    values, which is refused there."""
    scope = active_scope()
    if WRITTEN and standing_for(array) is not None:
        return True
    for _ in range(depth_of(scope) - FRESH[type(array)]):
        assert scope is not None
        if not scope.hands_writes_on:
            return True
        scope = scope.parent
    return False


def opened(x: Any) -> Any:
    """Return `x` with traced arrays in place of the fresh arrays that stand for them, within lists, tuples and dicts, too."""
    kind = type(x)
    if kind in FRESH:
        held = standing_for(x)
        return x if held is None else held
    if kind in (list, tuple):
        return kind(map(opened, x)) if any(opened(item) is not item for item in x) else x
    if kind in ORIGINAL_KIND:
        return opened(unlogged(x))
    if kind is dict:
        return {name: opened(item) for name, item in x.items()}
    return x.opened() if issubclass(kind, HoldsTraced) else x


def has_traced(x: Any) -> bool:
    """True for a traced array, a fresh array that stands for one, what holds traced arrays, and lists, tuples and dicts of them."""
    kind = type(x)
    if kind in FRESH:
        return standing_for(x) is not None
    if kind in (list, tuple):
        return any(map(has_traced, x))
    if kind in ORIGINAL_KIND:
        return has_traced(unlogged(x))
    return any(map(has_traced, x.values())) if kind is dict else issubclass(kind, (TracedArray, HoldsTraced))


def _steps(array: np.ndarray) -> tuple[int, ...]:
    return tuple(stride // array.itemsize for stride in array.strides)


def _view(cell: TracedArray, root: np.ndarray, array: np.ndarray) -> TracedArray:
    """Return the view of a cell that has the place in the memory of `root` that `array` has."""
    writeable = bool(array.flags.writeable)
    array, root = np.ndarray.view(array, np.ndarray), np.ndarray.view(root, np.ndarray)
    if root.dtype.kind == "c" and array.dtype == root.real.dtype and not any(stride % root.itemsize for stride in array.strides):
        start, part = divmod(array.__array_interface__["data"][0] - root.__array_interface__["data"][0], root.itemsize)
        whole = np.lib.stride_tricks.as_strided(root.ravel("K")[start:], array.shape, array.strides)
        view = FUNCTIONS[np.imag if part else np.real](_view(cell, root, whole))
        view.writable = view.writable and writeable
        return view
    if array.dtype != root.dtype:
        raise UnsupportedError(f"a view as {array.dtype} of an array of {root.dtype} that holds traced values", find_user_location(),
                               hint=".astype converts values")
    start = (array.__array_interface__["data"][0] - root.__array_interface__["data"][0]) // root.itemsize
    view = _basic_view(cell, start, array) if array.size else None
    if view is None:
        flat = _flat(cell)
        view = _basic_view(flat, start, array) if array.size else None
        if view is None and array.flags.c_contiguous:
            view = FUNCTIONS[np.reshape](FUNCTIONS["getitem"](flat, slice(start, start + array.size)), array.shape)
        if view is None:
            view = _gathered(flat, start, array)
    view.writable = view.writable and writeable
    return view


def _flat(cell: TracedArray) -> TracedArray:
    """The memory of a cell as one axis; owners of memory have no gaps."""
    order = sorted(range(cell.ndim), key=lambda axis: -cell.steps[axis])
    flat: TracedArray = FUNCTIONS[np.reshape](FUNCTIONS[np.transpose](cell, order), -1)
    return flat


def _basic_view(cell: TracedArray, start: int, array: np.ndarray) -> TracedArray | None:
    """Return a view by slices, integers, new axes and a permutation of axes; None if there is none."""
    axes = sorted((axis for axis in range(cell.ndim) if cell.shape[axis] > 1), key=lambda axis: -cell.steps[axis])
    first: list[Any] = [0] * cell.ndim
    for axis in axes:
        first[axis], start = divmod(start, cell.steps[axis])
    moved: dict[int, int] = {}          # axis of the cell -> axis of the view
    for position, (size, stride) in enumerate(zip(array.shape, _steps(array), strict=True)):
        if size == 1:
            continue
        for axis in axes:
            step, rest = divmod(stride, cell.steps[axis])
            if stride and not rest and axis not in moved and 0 <= first[axis] + (size - 1) * step < cell.shape[axis] \
                    and 0 <= first[axis] < cell.shape[axis]:
                last = first[axis] + size * step
                first[axis] = slice(first[axis], last if last >= 0 else None, step)
                moved[axis] = position
                break
        else:
            return None
    if start or any(type(index) is int and not index < size for index, size in zip(first, cell.shape, strict=True)):
        return None
    view = FUNCTIONS["getitem"](cell, (*first, Ellipsis))
    found = [moved[axis] for axis in range(cell.ndim) if axis in moved]
    view = FUNCTIONS[np.transpose](view, [found.index(position) for position in sorted(found)])
    return FUNCTIONS["getitem"](view, (*(slice(None) if size > 1 else None for size in array.shape), Ellipsis))


def _gathered(flat: TracedArray, start: int, array: np.ndarray) -> TracedArray:
    """Return a view of elements at any places."""
    places = np.full(array.shape, start)
    for axis, (size, stride) in enumerate(zip(array.shape, _steps(array), strict=True)):
        places += (np.arange(size) * stride).reshape(-1, *(1,) * (array.ndim - axis - 1))
    places = fixed(places)

    def read(value: Value) -> Value:
        found: TracedArray = FUNCTIONS["getitem"](wrap(value, scalar=False), places)
        return found.value

    def write(base: Value, value: Value) -> Value:
        cell = wrap(base, scalar=False)
        FUNCTIONS["setitem"](cell, places, wrap(value, scalar=False))
        return cell.value

    return view_of(flat, read, write, _steps(array), ("places", start, array.shape, array.strides))


def _part_of_outside(array: np.ndarray) -> TracedArray | None:
    """Return a view with gaps, which the function made of an array from outside, as a view of that array: no call copies it, then. None for
    others."""
    if not is_new_view(array) or array.flags.c_contiguous or array.flags.f_contiguous:
        return None
    root = root_of(array)
    if type(root) not in ORIGINAL_CLASS or root.dtype != array.dtype or not array.size:
        return None
    plain = np.ndarray.view(root, np.ndarray)
    if not plain.flags.c_contiguous:
        return None
    start, rest = divmod(array.__array_interface__["data"][0] - plain.__array_interface__["data"][0], plain.itemsize)
    return None if rest else _basic_view(as_traced(root), start, array)


# -- content that is known



def content_of(array: np.ndarray) -> TracedArray:
    """Return a fresh array as a traced array: the one that it stands for, or its content as a constant."""
    held = standing_for(array)
    if held is not None:
        return held
    plain, scope = np.ndarray.view(array, np.ndarray), active_scope()
    if scope is None or scope.evaluates:
        return as_traced(plain)
    return wrap(_constant(plain), writable=False, scalar=False, strides=_steps(plain))


def _constant(array: np.ndarray) -> Value:
    """Make the value of an array whose content is known: of equal contents it is the same number, sequence, table or parameter."""
    dtype, scope = check_array(array, "an array"), active_scope()
    assert scope is not None
    array = np.array(array, dtype, order="C")
    if not array.size:
        return lowering.constant(0, dtype, array.shape)
    bits = array.reshape(-1, 1).view(f"u{array.itemsize // (2 if dtype.kind == 'c' else 1)}")      # a row for each number
    number = array.reshape(-1)[0]
    if (bits == bits[0]).all() and (number == number or number.tobytes() == dtype.type(np.nan).tobytes()):
        value = lowering.constant(number, dtype, array.shape)
        scope.root.filled.add(value)
        return value
    if 2 < array.size == max(array.shape, default=1) and dtype_kind(dtype) in "iuf":
        sequence = _sequence(array)
        if sequence is not None:
            return sequence
    if array.nbytes <= _MAX_TABLE_BYTES:
        return ops.table(**table_attributes(array))
    same = scope.root.shared.setdefault((dtype, array.shape, fingerprint(array)), [])
    for other in same:
        if np.array_equal(other.reshape(-1, 1).view(bits.dtype), bits):
            return scope.capture(other)
    same.append(array)
    return scope.capture(array)


def _sequence(array: np.ndarray) -> Value | None:
    """Make the value of numbers along one axis with one step between them, if computing them gives every bit."""
    dtype, shape, numbers = array.dtype, array.shape, array.reshape(-1)
    with np.errstate(all="ignore"):
        first, step = numbers[0], numbers[1] - numbers[0]
        if (np.arange(array.size).astype(dtype) * step + first).tobytes() != array.tobytes():
            return None
    index = lowering.iota(dtype, shape, shape.index(array.size))
    if step != 1:
        index = ops.multiply(index, lowering.constant(step, dtype, shape))
    plain = step > 0 and not any(first.tobytes())       # adding 0.0 would make 0.0 of -0.0
    return index if plain else ops.add(index, lowering.constant(first, dtype, shape))


# -- the class of fresh arrays

def plain_of(array: Any) -> Any:
    """Return a fresh array as an ordinary array on the same memory; others as they are."""
    return np.ndarray.view(array, np.ndarray) if type(array) in FRESH else array


class Call:
    """One call of a function of NumPy on arrays that stand for nothing traced: it gets ordinary arrays, and gives fresh ones."""

    def __init__(self) -> None:
        self.given: dict[int, tuple[Any, Any]] = {}     # by identity: what the function gets, and what it stands for
        self.roots: set[int] = set()                    # of arrays that are not fresh: views of them are not, either

    def plain(self, x: Any) -> Any:
        kind = type(x)
        if kind in FRESH:
            plain = np.ndarray.view(x, np.ndarray)
            self.given[id(plain)] = plain, x
            return plain
        if kind in (list, tuple):
            return kind(map(self.plain, x)) if any(is_ndarray(item) or type(item) in (list, tuple) for item in x) else x
        if kind is dict:
            return {name: self.plain(item) for name, item in x.items()}
        if is_ndarray(x):
            self.roots.add(id(root_of(x)))
        return x

    def result(self, x: Any) -> Any:
        """Return a result with fresh arrays in place of new ordinary arrays, and of views of fresh ones."""
        if isinstance(x, (list, tuple)):
            return type(x)(map(self.result, x)) if type(x) in (list, tuple) else type(x)(*map(self.result, x))
        if type(x) is not np.ndarray or dtype_kind(x.dtype) not in "fiubc":
            return x
        if id(x) in self.given and self.given[id(x)][0] is x:
            return self.given[id(x)][1]
        root = root_of(x)
        base = _BASE.__get__(root)
        if id(root) in self.roots or type(root) in ORIGINAL_CLASS or not is_tracing() or (base is not None and not _owned(base)):
            return x
        scope = active_scope()
        assert scope is not None
        kind = type(root) if type(root) in FRESH else _fresh_class(depth_of(scope))
        _set_counted_class(x, kind)
        scope.root.fresh.append(weakref.ref(x))
        return x


def _set_counted_class(array: np.ndarray, kind: type) -> None:
    """Set the class of an array. Objects of a class made at run time own a reference to it, which goes when they go."""
    if kind in FRESH:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kind))
    else:
        ctypes.pythonapi.Py_DecRef(ctypes.py_object(type(array)))
    set_class(array, kind)


def _owned(base: Any) -> bool:
    return isinstance(base, np.ndarray)


def made(own: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Result of `own(*args, **kwargs)`, with fresh arrays in place of new ones."""
    call = Call()
    return call.result(own(*call.plain(args), **call.plain(kwargs)))


def _finalize(self: Any, array: Any) -> None:
    scope = active_scope()
    if scope is not None:
        scope.root.fresh.append(weakref.ref(self))


def fresh_ufunc(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], out: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Apply a method of a ufunc to arrays, some of them fresh."""
    targets = inputs[:1] if method == "at" else out
    if has_traced((inputs, out, kwargs)) or any(type(x) in FRESH and _is_repeated(x) for x in targets):
        targets = tuple(map(written, out))
        given = [written(inputs[0]) if method == "at" else opened(inputs[0]), *map(opened, inputs[1:])]
        result = apply_ufunc(ufunc, method, given, targets or None, opened(kwargs))
        if len(out) > 1:
            return tuple(part if target is None else target for part, target in zip(result, out, strict=True))
        return result if not out else out[0]
    if any(not issubclass(type(x), (np.ndarray, np.generic)) and hasattr(type(x), "__array_ufunc__") for x in (*inputs, *out)):
        return NotImplemented
    return made(getattr(ufunc, method), inputs, {**kwargs, "out": out} if out else kwargs)


def _ufunc(self: Any, ufunc: np.ufunc, method: str, *inputs: Any, out: tuple[Any, ...] = (), **kwargs: Any) -> Any:
    return fresh_ufunc(ufunc, method, inputs, out, kwargs)


def fresh_function(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function of NumPy on arrays, some of them fresh."""
    out = kwargs.get("out")
    targets = (*(args[:1] if function.__name__ in WRITING_FUNCTIONS else ()), *(out if isinstance(out, tuple) else (out,)))
    if not has_traced((args, kwargs)) and not any(type(x) in FRESH and _is_repeated(x) for x in targets):
        return made(function, args, kwargs)
    given = list(opened(args))
    if args and function.__name__ in WRITING_FUNCTIONS:
        given[0] = written(args[0])
    options = opened(kwargs)
    if out is not None:
        options["out"] = tuple(map(written, out)) if isinstance(out, tuple) else written(out)
    result = find(function)(*given, **options)
    return result if out is None else out


def _function(self: Any, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
    if any(not issubclass(kind, (np.ndarray, TracedArray)) for kind in types):
        return NotImplemented
    return fresh_function(function, args, kwargs)


def _getitem(self: Any, index: Any) -> Any:
    held = standing_for(self)
    if held is not None:
        return held[opened(index)]
    if has_traced(index):
        return content_of(self)[opened(index)]
    return np.ndarray.__getitem__(self, index)


def _setitem(self: Any, index: Any, new: Any) -> None:
    if has_traced(new) or has_traced(index) or _is_repeated(self):
        if not self.flags.writeable:
            raise ValueError("assignment destination is read-only")
        written(self)[opened(index)] = opened(new)
    else:
        np.ndarray.__setitem__(self, index, plain_of(new))


def _member(name: str, own: Any) -> Any:
    """Method or attribute of an ordinary array, for a fresh array: of what it stands for, if that is traced."""
    if not callable(own):
        def read(self: Any) -> Any:
            if name == "flat":
                return FreshElements(self)
            if name == "data":
                return lent(self, own.__get__)
            held = None if name in ("dtype", "shape", "strides") else standing_for(self)
            return own.__get__(self) if held is None else getattr(held, name)

        def write(self: Any, value: Any) -> None:
            held = standing_for(self)
            if name == "flat":
                FreshElements(self)[:] = value
            elif held is None and name in ("real", "imag") and has_traced(value):
                setattr(written(self), name, opened(value))
            elif held is None:
                own.__set__(self, value)
            else:
                setattr(held, name, opened(value))
                if name == "shape":
                    own.__set__(self, value)
        return property(read, write)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        held = standing_for(self)
        if held is None and not has_traced((args, kwargs)) and not (name in _WRITING_METHODS and _is_repeated(self)):
            return made(own, (self, *args), kwargs) if name != "resize" else _resize(self, *args, **kwargs)
        traced = held if held is not None else written(self) if name in _WRITING_METHODS else content_of(self)
        result = getattr(traced, name)(*opened(args), **opened(kwargs))
        if name == "resize":
            _resize(self, *args)
        return self if result is traced else result
    return method


def _resize(array: np.ndarray, *new_shape: Any, refcheck: bool = True) -> None:
    """Resize an array that nothing but the bookkeeping of the trace refers to weakly: NumPy refuses others."""
    scope = active_scope()
    assert scope is not None
    fresh, held = scope.root.fresh, WRITTEN.pop(id(array), None)
    traced = None if held is None else held[1]
    fresh[:], held = [reference for reference in fresh if reference() is not array], None
    try:
        np.ndarray.resize(array, *new_shape, refcheck=False)
    finally:
        fresh.append(weakref.ref(array))
        if traced is not None:
            _stand_for(array, traced)


class FreshElements:
    """`x.flat` of a fresh or observed array: each element is read when it is asked for, since the array may have become traced."""

    def __init__(self, base: Any):
        self.base = base
        self._next = 0

    def _elements(self, *given: Any) -> Any:
        held = standing_for(self.base)
        if held is None and not has_traced(given):
            return np.ndarray.view(self.base, np.ndarray).flat
        return FUNCTIONS["flat"](held if held is not None else content_of(self.base) if type(self.base) in FRESH else as_traced(self.base))

    def __len__(self) -> int:
        return int(self.base.size)

    def __getitem__(self, index: Any) -> Any:
        return Call().result(self._elements(index)[opened(index)])

    def __setitem__(self, index: Any, new: Any) -> None:
        if type(self.base) in ORIGINAL_CLASS:
            take_over(self.base, (index, new))
        if type(self.base) in FRESH and (has_traced(new) or has_traced(index) or _is_repeated(self.base)):
            FUNCTIONS["flat"](written(self.base))[opened(index)] = opened(new)
        else:
            self._elements()[index] = plain_of(new)

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))

    def __next__(self) -> Any:
        if self._next == len(self):
            raise StopIteration
        self._next += 1
        return self[self._next - 1]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self.copy(), dtype)

    def copy(self) -> Any:
        return Call().result(self._elements().copy())


@cache
def _fresh_class(depth: int) -> type:
    """Class of the arrays that are made in a scope at this depth of scopes one within the other."""
    kind = subclass_without_gc(np.ndarray)
    members: dict[str, Any] = {name: _member(name, getattr(np.ndarray, name)) for name in dir(np.ndarray) if name not in _KEPT}
    for name in ("__bool__", "__int__", "__float__", "__complex__", "__index__", "__iter__", "__format__", "item", "tolist"):
        members[name] = _number(name) if name != "__iter__" else _iterate
    members |= {"__array_finalize__": _finalize, "__array_ufunc__": _ufunc, "__array_function__": _function, "__getitem__": _getitem,
                "__setitem__": _setitem, "__module__": "numpy"}
    for name, member in members.items():
        setattr(kind, name, member)
    (attributes,) = gc.get_referents(vars(kind))
    attributes["__class__"] = property(lambda self: np.ndarray)     # `isinstance` reads it; `setattr` would set the class of the class
    FRESH[kind] = depth
    return kind


def _number(name: str) -> Callable[..., Any]:
    own = getattr(np.ndarray, name)

    def method(self: Any, *args: Any) -> Any:
        held = standing_for(self)
        return own(plain_of(self), *args) if held is None else getattr(type(held), name)(held, *args)
    return method


def _iterate(self: Any) -> Iterator[Any]:
    held = standing_for(self)
    if held is not None:
        return iter(held)       # type: ignore[call-overload, no-any-return]
    if not self.shape:
        raise TypeError("iteration over a 0-d array")
    return (self[index] for index in range(len(self)))


results.given = lambda result: Call().result(result)    # type: ignore[method-assign]
FUNCTIONS |= {
    "content": as_traced, "contains traced": contains_traced, "content of fresh": content_of, "opened": opened, "fresh ufunc": fresh_ufunc,
    "fresh function": fresh_function}
FUNCTIONS["taken over"], FUNCTIONS["part of outside"] = taken_over, _part_of_outside
writing.elements = FreshElements
writing.take_over, writing.apply_ufunc, writing.apply_function = take_over, fresh_ufunc, fresh_function


@dataclass(slots=True)
class KnownArrays:
    """What is known of the arrays that a function writes to, from other traces of the call.

    `same` has the arguments (by the numbers of their parameters) that are one array for the function, `early` arrays from outside that
    stand for traced arrays from the start. With `plain_writes`, numbers that are not traced are written to arrays from outside by the trace
    alone, which then holds for their content only. `taken`: set by the trace if it took arrays over. `may_take`: whether it may ask for
    another trace in which further arrays are early. `numbers` are the paths of numbers outside that are inputs, and `may_take_numbers`
    whether there may be more. `needed` are the places at which Python needs the number of a tensor itself; None if it may at any. `read`:
    set by the trace if numbers of tensors are part of the program. `prints`: whether the program prints all that the function prints; set
    by the trace if it prints values. `rules`: whether the graph has the rule of each `autograd.Function`. `written`: filled by the trace
    with arrays from outside that Python wrote to, each with its content before. `no_call`: the trace is one that no call is made of, so
    that an exception leaves nothing.
    """

    same: Pairs = ()
    early: tuple[np.ndarray, ...] = ()
    plain_writes: bool = False
    taken: bool = False
    may_take: bool = True
    numbers: frozenset[str] = frozenset()
    may_take_numbers: bool = True
    needed: Set[object] | None = None
    read: bool = False
    prints: bool = False
    rules: bool = False
    written: dict[int, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    no_call: bool = False


@contextmanager
def fresh_arrays(scope: Scope, arrays: KnownArrays) -> Iterator[None]:
    """Let NumPy's functions give fresh arrays within the block."""
    try:
        scope.plain_writes = arrays.plain_writes
        for outside in arrays.early:
            take_over(outside)
        yield
    finally:
        arrays.taken = bool(scope.taken)
        _give_back(scope)
        for reference in scope.fresh:
            array = reference()
            if array is not None and type(array) in FRESH and standing_for(array) is None:
                _set_counted_class(array, np.ndarray)
        scope.fresh.clear()
