"""Functions of C libraries that act otherwise while a trace is under way, by whatever name the user's code knows them.

    interception.add(np.zeros, lambda own: replacement)
    with interception.in_force():
        ...             # np.zeros(3), and zeros(3) after `from numpy import zeros`, call replacement(3); `own` is NumPy's function

A name that is bound elsewhere (`from math import exp`, a default argument, a table of functions) cannot be bound anew, so the objects
themselves change, without a change of identity: a builtin function changes its class for one with another `__call__`; a function of NumPy
that asks its arguments for `__array_function__` changes the function that it calls when none has it; a function in Python changes its code;
a class changes its metaclass for one with another `__call__`; a universal function changes its class for a subclass; a class of C gets
other methods. The objects are the same for all threads: replacements ask `is_tracing`.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import os
import sys
import threading
from abc import ABCMeta
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import BuiltinFunctionType, CodeType, FunctionType
from typing import Any

import numpy as np

Function = Callable[..., Any]
Replacement = Callable[[Function], Function]

_POINTER = ctypes.sizeof(ctypes.c_void_p)
_DISPATCHER: Any = type(np.sum)


class _Slot(ctypes.Structure):
    _fields_ = (("slot", ctypes.c_int), ("content", ctypes.c_void_p))


class _Spec(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("size", ctypes.c_int), ("item_size", ctypes.c_int), ("flags", ctypes.c_uint),
                ("slots", ctypes.c_void_p))


_COLLECTED = 1 << 14
_SLOTS = (51, 52, 58, 59, 64, 66, 67, 71, 72, 73)
"""Numbers of the slots that the class of intercepted builtin functions takes over, by CPython's stable ABI: tp_clear, tp_dealloc,
tp_getattro, tp_hash, tp_methods, tp_repr, tp_richcompare, tp_traverse, tp_members, tp_getset."""


def _same_layout_class(kind: type) -> type:
    """Make a class whose objects have the layout and the slots of `kind`, which allows no subclasses, but no call of its own."""
    get_slot = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_int)(("PyType_GetSlot", ctypes.pythonapi))
    found = [(number, get_slot(kind, number)) for number in _SLOTS]
    slots = (_Slot * (len(found) + 1))(*(_Slot(number, content) for number, content in found if content))
    name = f"{kind.__module__}.{kind.__name__}".encode()
    spec = _Spec(name, kind.__basicsize__, 0, _COLLECTED, ctypes.addressof(slots))
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p)(("PyType_FromSpec", ctypes.pythonapi))
    made: type = make(ctypes.addressof(spec))
    _kept.append((slots, spec, name))
    (attributes,) = gc.get_referents(vars(made))
    attributes["__class__"] = property(lambda self: kind)       # `isinstance` reads it; `setattr` would set the class of the class
    return made


_BASE_TYPE = 1 << 10        # flag of a class that may have subclasses
_FLAGS = 21                 # the word of a class that holds its flags
_CALL = 16                  # the word of a class that holds the C function by which its objects are called
_INHERITED = object()
UFUNC_METHODS = ("reduce", "accumulate", "reduceat", "outer", "at")


def _ufunc_subclass(calls: dict[Any, Function]) -> type:
    """Make a subclass of np.ufunc, which allows none, whose calls are in `calls`, by identity of the function, and name of a method."""
    flags = ctypes.c_ulong.from_address(id(np.ufunc) + _FLAGS * _POINTER)
    assert flags.value == np.ufunc.__flags__
    members: dict[str, Any] = {name: _ufunc_method(calls, name) for name in UFUNC_METHODS}
    members |= {"__slots__": (), "__module__": "numpy", "__class__": property(lambda self: np.ufunc), "__doc__": vars(np.ufunc)["__doc__"],
                "__reduce__": lambda self: self.__name__,       # to copy and pickle it
                "__call__": lambda self, /, *args, **kwargs: calls[id(self)](*args, **kwargs)}
    flags.value |= _BASE_TYPE
    try:
        return type("ufunc", (np.ufunc,), members)      # type: ignore[misc]
    finally:
        flags.value &= ~_BASE_TYPE


def _ufunc_method(calls: dict[Any, Function], name: str) -> Function:
    return lambda self, /, *args, **kwargs: calls[id(self), name](*args, **kwargs)


_kept: list[Any] = []
"""Memory that objects of C hold pointers to."""


def _copy_of(function: BuiltinFunctionType) -> Function:
    """Make another object of the same C function."""
    words = [ctypes.c_void_p.from_address(id(function) + object.__basicsize__ + _POINTER * index).value for index in range(3)]
    make = ctypes.PYFUNCTYPE(ctypes.py_object, *(ctypes.c_void_p,) * 4)(("PyCMethod_New", ctypes.pythonapi))
    made: Function = make(*words, None)         # the method, its self, its module
    return made


def _keep(made: Any) -> None:
    """Give a reference to an object away to C."""
    _kept.append(made)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))


class _Callable:
    def __call__(self) -> None:
        pass


def _set_method(kind: type, name: str, method: Any) -> Any:
    """Set a method of a class that allows none to be set, and return the one that was there."""
    (attributes,) = gc.get_referents(vars(kind))
    own = attributes.get(name, _INHERITED)
    if method is _INHERITED:
        del attributes[name]
    else:
        attributes[name] = method
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))
    return own


class Interception:
    """Set of replacements, in force while at least one thread is within `in_force`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: list[tuple[int, object]] = []        # thread, and the block
        self._words: list[tuple[ctypes.c_void_p, int, int]] = []        # a pointer, its own content, and the content while intercepted
        self._codes: list[tuple[FunctionType, CodeType, CodeType]] = []
        self._methods: list[tuple[type, str, Function]] = []
        self._own_methods: list[tuple[type, str, Any]] = []     # those that are replaced now
        self._builtin: type | None = None
        self._ufunc: type | None = None
        self._metas: dict[type, type] = {}
        self._calls: dict[Any, Function] = {}
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)

    def add(self, function: Any, replacement: Replacement) -> None:
        """Replace a function, while a thread is within `in_force`, by `replacement(own)`, where `own` is the function as it is."""
        if type(function) is BuiltinFunctionType:
            self._calls[id(function)] = replacement(_copy_of(function))
            self._swap(ctypes.c_void_p.from_address(id(function) + _POINTER), id(BuiltinFunctionType), id(self._builtin_class()))
        elif type(function) is np.ufunc:        # `replacement` gets the function and each of its methods in turn
            if self._ufunc is None:
                self._ufunc = _ufunc_subclass(self._calls)
                _keep(self._ufunc)
            self._calls[id(function)] = replacement(functools.partial(np.ufunc.__call__, function))
            for name in UFUNC_METHODS:
                self._calls[id(function), name] = replacement(functools.partial(getattr(np.ufunc, name), function))
            self._swap(ctypes.c_void_p.from_address(id(function) + _POINTER), id(np.ufunc), id(self._ufunc))
        elif type(function) is _DISPATCHER:
            own = function._implementation
            words = [ctypes.c_void_p.from_address(id(function) + _POINTER * index)
                     for index in range(2, _DISPATCHER.__basicsize__ // _POINTER)]
            new = replacement(own)
            _keep(new)
            for word in words:
                if word.value == id(own):
                    self._swap(word, id(own), id(new))
        elif type(function) is FunctionType:
            own_code = function.__code__
            own = FunctionType(own_code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
            own.__kwdefaults__ = function.__kwdefaults__
            _python_functions.append(replacement(own))
            self._codes.append((function, own_code, _calling_code(len(_python_functions) - 1, own_code)))
        elif type(function) in (type, ABCMeta):
            self._calls[id(function)] = replacement(functools.partial(type.__call__, function))
            self._swap(ctypes.c_void_p.from_address(id(function) + _POINTER), id(type(function)), id(self._metaclass(type(function))))
        else:
            raise TypeError(f"{function!r} cannot be intercepted")

    def add_method(self, kind: type, name: str, replacement: Replacement) -> None:
        """Replace a method of a class of C; of `__call__` the one by which its objects are called."""
        new = replacement(getattr(kind, name))
        self._methods.append((kind, name, lambda self, /, *args, **kwargs: new(self, *args, **kwargs)))
        if name == "__call__":      # what classes of Python have in this word looks the method up
            words = [ctypes.c_void_p.from_address(id(each) + _CALL * _POINTER) for each in (kind, _Callable)]
            self._swap(words[0], words[0].value or 0, words[1].value or 0)

    def _swap(self, word: ctypes.c_void_p, own: int, new: int) -> None:
        assert word.value == own
        self._words.append((word, own, new))

    def _builtin_class(self) -> type:
        if self._builtin is None:
            self._builtin = _same_layout_class(BuiltinFunctionType)
            calls = self._calls
            self._builtin.__call__ = lambda self, /, *args, **kwargs: calls[id(self)](*args, **kwargs)  # type: ignore[method-assign]
            _keep(self._builtin)
        return self._builtin

    def _metaclass(self, kind: type) -> type:
        """Class for classes of `kind`, `type` or `ABCMeta`, whose calls are replaced."""
        if kind not in self._metas:
            calls = self._calls

            def call(cls: type, /, *args: Any, **kwargs: Any) -> Any:
                replaced = calls.get(id(cls))       # None for a class derived from one meanwhile
                return type.__call__(cls, *args, **kwargs) if replaced is None else replaced(*args, **kwargs)
            meta = self._metas[kind] = type(kind.__name__, (kind,), {"__slots__": ()})
            (attributes,) = gc.get_referents(vars(meta))
            del attributes["__module__"]        # would be that of the classes, which type computes: libraries look for "numpy" there
            meta.__call__ = call      # type: ignore[method-assign]
            _keep(meta)
        return self._metas[kind]

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """Replace the functions within the block. Ctrl-C may arrive after any call: what has to be undone is done within `try`."""
        entry = (threading.get_ident(), object())
        try:
            with self._lock:
                self._entries.append(entry)
                if len(self._entries) == 1:
                    for word, _, new in self._words:
                        word.value = new
                    for function, _, code in self._codes:
                        function.__code__ = code
                    for kind, name, method in self._methods:
                        self._own_methods.append((kind, name, _set_method(kind, name, method)))
            yield
        finally:
            try:
                self._leave(entry)
            finally:
                self._leave(entry)

    def _leave(self, entry: tuple[int, object]) -> None:
        with self._lock:
            if entry in self._entries:
                self._entries.remove(entry)
            if not self._entries:
                self._restore()

    def _restore(self) -> None:
        for word, own, _ in self._words:
            word.value = own
        for function, code, _ in self._codes:
            function.__code__ = code
        while self._own_methods:
            _set_method(*self._own_methods.pop())

    def _after_fork(self) -> None:
        """Forget other threads in a forked child, which does not have them."""
        self._lock = threading.Lock()
        self._entries = [entry for entry in self._entries if entry[0] == threading.get_ident()]
        if not self._entries:
            self._restore()


def calling_module() -> str:
    """Name of the module that calls the intercepted function whose replacement asks."""
    frame = sys._getframe(2)
    if frame.f_globals is globals() and frame.f_back is not None:       # a call of a builtin function, or of one in Python
        frame = frame.f_back
        if frame.f_code in _calling_codes and frame.f_back is not None:
            frame = frame.f_back
    return str(frame.f_globals.get("__name__", ""))


_calling_codes: set[CodeType] = set()
_python_functions: list[Function] = []


def call_replacement(index: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the replacement of a function in Python."""
    return _python_functions[index](*args, **kwargs)


def _template() -> CodeType:
    """Code that calls the replacement of a function, whose place in the list is a constant. It runs with the globals of its module."""
    space: dict[str, Any] = {}
    exec("def function(*args, **kwargs):\n from adjit.tracer.interception import call_replacement\n"
         f" return call_replacement({_PLACE}, args, kwargs)", space)
    code: CodeType = space["function"].__code__
    return code


_PLACE = -1234567
_TEMPLATE = _template()


def _calling_code(index: int, own: CodeType) -> CodeType:
    """Code that calls the replacement of a function. A closure is neither read nor lost: the names of its cells stay."""
    code = _TEMPLATE.replace(
        co_consts=tuple(index if constant == _PLACE else constant for constant in _TEMPLATE.co_consts), co_freevars=own.co_freevars,
        co_name=own.co_name, co_qualname=own.co_qualname, co_filename=own.co_filename, co_firstlineno=own.co_firstlineno)
    _calling_codes.add(code)
    return code
