"""Log of the outside arrays that Python reads while a function is traced: values computed from them are built into the graph.

    with logging_access(arrays) as read:
        ...             # np.mean(y), y > 1.5, float(y[0]): y is in `read`; x * y with a traced x is not a read

During the trace the arrays are objects of a class whose methods log every access to content (`class_change`).
"""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

import numpy as np

from adjit.tracer.array_checks import is_ndarray
from adjit.tracer.array_wrapper import HoldsTraced
from adjit.tracer.guards.class_change import ActiveLogs, UseLog, has_layout_of, set_class, subclass_without_gc
from adjit.tracer.guards.content import fingerprint, form_of
from adjit.tracer.registry import FUNCTIONS, find


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_VIEWING = words("""
    T mT reshape ravel transpose swapaxes squeeze diagonal real shape ndim size dtype strides nbytes itemsize flags base
    expand_dims moveaxis rollaxis atleast_1d atleast_2d atleast_3d flip flipud fliplr rot90 split array_split hsplit vsplit dsplit
    zeros_like ones_like empty_like full_like may_share_memory shares_memory result_type can_cast min_scalar_type broadcast_shapes
    iscomplexobj isrealobj matrix_transpose permute_dims unstack""")
"""Methods and functions that return views, or only read the shape and the like: reads of content through a view are logged at the view."""

_SHAPES = words("""
    shape ndim size dtype nbytes itemsize __len__ zeros_like ones_like empty_like full_like result_type can_cast min_scalar_type
    broadcast_shapes iscomplexobj isrealobj""")
"""Those that read nothing but the shape and the dtype."""

_KEPT = words("""
    __array_wrap__ __array_priority__ __class__ __class_getitem__ __delattr__ __dir__ __doc__ __getattribute__ __getstate__ __hash__
    __init__ __init_subclass__ __len__ __new__ __setattr__ __sizeof__ __subclasshook__ __array_namespace__ __setstate__
    __dlpack_device__ setflags __module__""")
OPERATORS = {f"__{prefix}{name}__" for prefix in ("", "r", "i") for name in words(
    "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift divmod eq ne lt le gt ge neg pos abs invert")}
"""Operators, which are logged as the universal functions that they call."""

_WRITING = frozenset({"sort", "fill", "partition", "put", "resize", "setfield", "byteswap"})

WRITING_FUNCTIONS = frozenset({"copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"})
"""Functions that write to their first argument."""


class _Writing:
    """What is called before an observed array is written to, and then in place of NumPy's functions; `fresh_array` sets it."""

    take_over: Callable[[Any, Any], bool]
    apply_ufunc: Callable[..., Any]
    apply_function: Callable[..., Any]
    elements: Callable[[Any], Any]          # `.flat` of an array, for reads and writes


writing = _Writing()


def observed_in_this_thread() -> list[Any]:
    """Return the observed arrays of the traces of this thread, and views of them."""
    logs = _observations.of_this_thread()
    arrays = [*(array for log in logs for array, _ in log.kinds.values()), *(view() for log in logs for view in log.views)]
    return list({id(array): array for array in arrays if type(array) in ORIGINAL_CLASS}.values())


def is_new_view(array: Any) -> bool:
    """True for a view of an observed array that the function made: the guards of that array's form, address and all, hold for it."""
    logs = _observations.of_this_thread()
    return type(array) in ORIGINAL_CLASS and bool(logs) and not any(id(array) in log.kinds for log in logs)


def _is_taken(array: Any, values: Any) -> bool:
    """True if an observed array, to which these values are about to be written, stands for a traced array now."""
    return is_from_outside(array) and not _is_internal() and writing.take_over(array, values)


def is_from_outside(array: Any) -> bool:
    """True for an array that a trace of this thread observes, or a view of one."""
    return type(array) in ORIGINAL_CLASS and bool(_observations.of_this_thread())


class AccessLog(UseLog):
    """Accesses to the observed arrays, by identity: `read` holds the arrays whose content Python read; `checksums` the content, before the
    first access, of the arrays that were read or written. `forms` are the forms of the arrays whose shape, dtype or memory layout Python
    read, before the first access, and `viewed` the arrays that more was read of than shape and dtype, or that views were made of. Who takes
    back what the function does finds arrays that it wrote to in `written`, each with its content before.
    """

    def __init__(self, arrays: Iterable[np.ndarray], written: dict[int, tuple[np.ndarray, np.ndarray]]) -> None:
        super().__init__()
        self.written = written
        self.read: set[int] = set()
        self.checksums: dict[int, int] = {}
        self.forms: dict[int, tuple[Any, ...]] = {}
        self.viewed: set[int] = set()
        self.views: list[weakref.ref[Any]] = []
        for array in arrays:
            kind = ORIGINAL_CLASS.get(type(array), type(array))        # in another thread's trace as well
            if _observed_class(kind) is None:
                self.read.add(id(array))
            else:
                self.kinds[id(array)] = array, kind

    def give_back(self, elsewhere: set[int]) -> None:
        super().give_back(elsewhere)
        for view in self.views:
            left = view()
            if type(left) in ORIGINAL_CLASS and id(left) not in elsewhere:
                set_class(left, ORIGINAL_CLASS[type(left)])

    def note(self, array: Any, written: bool) -> None:
        """Log an array, or a view, whose content is about to be read or written."""
        while array is not None:
            if id(array) in self.kinds:
                if id(array) not in self.checksums:
                    self.checksums[id(array)] = fingerprint(array)
                if not written:
                    self.read.add(id(array))
                elif id(array) not in self.written:
                    self.written[id(array)] = array, np.array(_plain(array))
            array = _BASE.__get__(array) if isinstance(array, np.ndarray) else None

    def note_form(self, array: Any, viewed: bool) -> None:
        """Log an array, or a view, whose shape, dtype or layout is about to be read, or that a view is made of."""
        while array is not None:
            if id(array) in self.kinds:
                if id(array) not in self.forms:
                    self.forms[id(array)] = form_of(array)
                if viewed:
                    self.viewed.add(id(array))
            array = _BASE.__get__(array) if isinstance(array, np.ndarray) else None


_BASE: Any = np.ndarray.base
_observations = ActiveLogs[AccessLog]()


def _note(array: Any, written: bool = False) -> None:
    if not _is_internal():
        for observation in _observations:
            observation.note(array, written)


def _note_form(array: Any, name: str) -> None:
    if not _is_internal():
        for observation in _observations:
            observation.note_form(array, name not in _SHAPES)


def note_view(array: Any) -> None:
    """Log a view from outside, whose content is that of the array that it is of: in later calls that has to be the same array."""
    for observation in _observations.of_this_thread():
        observation.note_form(array, True)


def _is_internal() -> bool:
    """True if the tracer itself reads an array: its uses become ops of the graph."""
    frame = sys._getframe(2)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module not in _BETWEEN and not module.startswith("numpy"):
            return module.startswith(_INTERNAL)
        frame = frame.f_back        # type: ignore[assignment]
    return False


_BETWEEN = frozenset({__name__, "adjit.tracer.fresh_array", "adjit.tracer.fresh_functions", "adjit.tracer.interception",
                      "adjit.tracer.math_functions"})
"""Modules whose functions are called in place of NumPy's, and of others that read arrays."""

_INTERNAL = ("adjit.tracer", "adjit.eager", "adjit.ir", "adjit.runtime")


def _are_taken(arrays: Iterable[Any], values: Any) -> bool:
    """True if some of the arrays that are about to be written to stand for traced arrays now: asks for each."""
    taken = [_is_taken(array, values) for array in arrays]
    return any(taken)


def _plain(array: Any) -> Any:
    """Return an ordinary array on the same memory."""
    kind = ORIGINAL_CLASS.get(type(array))
    return array if kind is None else np.ndarray.view(array, kind)


def _finalize(self: Any, array: Any) -> None:
    own = getattr(ORIGINAL_CLASS[type(self)], "__array_finalize__", None)
    if own is not None:
        own(self, array)
    if isinstance(array, np.ndarray) and not np.may_share_memory(self, array):
        _note(array)            # a reshape that had to copy
    for observation in _observations:
        observation.views.append(weakref.ref(self))


def _ufunc(self: Any, ufunc: np.ufunc, method: str, *inputs: Any, out: tuple[Any, ...] = (), **kwargs: Any) -> Any:
    if any(not issubclass(type(x), (np.ndarray, np.generic)) and hasattr(type(x), "__array_ufunc__") for x in (*inputs, *out)):
        return NotImplemented
    if _are_taken((*out, *(inputs[:1] if method == "at" else ())), (inputs, kwargs)):
        return writing.apply_ufunc(ufunc, method, inputs, out, kwargs)
    note_all((inputs, kwargs))
    for x in (*out, *(inputs[:1] if method == "at" else ())):
        _note(x, written=True)
    if out:
        kwargs["out"] = tuple(map(_plain, out))
    result = getattr(ufunc, method)(*map(_plain, inputs), **_all_plain(kwargs))
    if not out:
        return results.given(result)
    return out if isinstance(result, tuple) else out[0]


def _function(self: Any, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
    if any(not issubclass(kind, np.ndarray) for kind in types):
        return NotImplemented
    out = kwargs.get("out")
    targets = (*(args[:1] if function.__name__ in WRITING_FUNCTIONS else ()), *(out if isinstance(out, tuple) else (out,)))
    if _are_taken(targets, (args, kwargs)):
        return writing.apply_function(function, args, kwargs)
    if FUNCTIONS["contains traced"]((*args, *kwargs.values())):      # np.take(table, index) asks the table only
        return find(function)(*args, **kwargs)
    if function.__name__ not in _VIEWING:
        note_all((args, kwargs))
        args, kwargs = _all_plain(args), _all_plain(kwargs)
    else:
        for array in (*args, *kwargs.values()):
            if type(array) in ORIGINAL_CLASS:
                _note_form(array, function.__name__)
    if function.__name__.endswith("_like"):     # nothing is read
        args, kwargs = _all_plain(args), _all_plain(kwargs)
    return results.given(function._implementation(*args, **kwargs))


def _getitem(self: Any, index: Any) -> Any:
    if FUNCTIONS["contains traced"](index):
        return FUNCTIONS["content"](self)[index]
    note_all(index)
    own: Any = ORIGINAL_CLASS[type(self)]
    found = own.__getitem__(self, _all_plain(index))
    if is_ndarray(found) and (not found.size or np.may_share_memory(_plain(found), _plain(self))):
        _note_form(self, "__getitem__")
        return found
    _note(self)
    return results.given(_plain(found))


def _setitem(self: Any, index: Any, new: Any) -> None:
    if _is_taken(self, (index, new)):
        self[index] = new
        return
    _note(self, written=True)
    note_all((index, new))
    _plain(self)[_all_plain(index)] = _all_plain(new)


def _iter(self: Any) -> Any:
    """Iterator over the rows, which are observed too; over the elements of a vector, which are all read."""
    if np.ndarray.ndim.__get__(self) > 1:       # type: ignore[attr-defined]
        return np.ndarray.__iter__(self)
    _note(self)
    return iter(_plain(self))


def note_all(value: Any) -> None:
    if type(value) in ORIGINAL_CLASS:
        _note(value)
    elif isinstance(value, (list, tuple)) and not isinstance(value, HoldsTraced):
        for item in value:
            note_all(item)
    elif isinstance(value, dict):
        note_all(tuple(value.values()))


def _all_plain(value: Any) -> Any:
    if type(value) in ORIGINAL_CLASS:
        return _plain(value)
    if type(value) in (list, tuple):
        return type(value)(map(_all_plain, value))
    return {name: _all_plain(item) for name, item in value.items()} if type(value) is dict else value


def _logging_member(name: str, own: Any) -> Any:
    """Wrap a method or an attribute of an ordinary array so that each use of it is logged."""
    if callable(own):
        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            if name in _WRITING and _is_taken(self, (args, kwargs)):
                return getattr(self, name)(*args, **kwargs)
            if FUNCTIONS["contains traced"]((*args, *kwargs.values())):         # y.dot(x) asks y only
                return getattr(FUNCTIONS["content"](self), name)(*args, **kwargs)
            _note(self, written=name in _WRITING)
            return results.given(getattr(_plain(self), name)(*args, **kwargs))
        return method

    def read(self: Any) -> Any:
        _note(self)
        return writing.elements(self) if name == "flat" and is_from_outside(self) and not _is_internal() else getattr(_plain(self), name)

    def write(self: Any, value: Any) -> None:
        if name == "flat" and _is_taken(self, (value,)):
            self.flat = value
            return
        _note(self, written=True)
        setattr(_plain(self), name, value)
    return property(read, write)


def _viewing_member(name: str, own: Any) -> Any:
    """Wrap a method or an attribute that reads the form of an ordinary array, or makes a view of it, so that each use of it is logged."""
    if callable(own):
        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            _note_form(self, name)
            return own(self, *args, **kwargs)
        return method

    def read(self: Any) -> Any:
        _note_form(self, name)
        return own.__get__(self)
    return property(read, lambda self, value: own.__set__(self, value))


class _Results:
    """What becomes of an array that is computed from observed ones; `fresh_array` sets it."""

    given: Callable[[Any], Any] = staticmethod(lambda result: result)


results = _Results()

ORIGINAL_CLASS: dict[type, type] = {}
"""Original class of each class of observed arrays."""

_COLLECTED = 1 << 14


@cache
def _observed_class(kind: Any) -> type | None:
    """Return the class of observed arrays of this class; None if objects cannot change from one class to the other."""
    if kind not in (np.ndarray, np.memmap):
        return None
    made = type(kind.__name__, (kind,), {"__slots__": ()}) if kind.__flags__ & _COLLECTED else subclass_without_gc(kind)
    if not has_layout_of(made, kind) or (made.__flags__ ^ kind.__flags__) & _COLLECTED:
        return None
    methods: dict[str, Any] = {name: _logging_member(name, getattr(np.ndarray, name)) for name in dir(np.ndarray)
                               if name not in _KEPT | OPERATORS | _VIEWING}
    methods |= {name: _viewing_member(name, getattr(np.ndarray, name)) for name in ("__len__", *_VIEWING) if hasattr(np.ndarray, name)}
    methods |= {"__array_finalize__": _finalize, "__array_ufunc__": _ufunc, "__array_function__": _function, "__getitem__": _getitem,
                "__iter__": _iter, "__setitem__": _setitem, "__module__": kind.__module__}
    (attributes,) = gc.get_referents(vars(made))
    attributes["__class__"] = property(lambda self: kind)       # `isinstance` reads it; `setattr` would set the class of the class
    for name, method in methods.items():
        setattr(made, name, method)
    ORIGINAL_CLASS[made] = kind
    return made


def logging_access(arrays: Iterable[np.ndarray], written: dict[int, tuple[np.ndarray, np.ndarray]] | None = None
                   ) -> AbstractContextManager[AccessLog]:
    """Observe these arrays within the block. Arrays of classes that cannot be observed count as read."""
    return _observations.logging(AccessLog(arrays, {} if written is None else written), _observed_class)
