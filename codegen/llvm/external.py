"""Functions of C in other libraries that machine code calls: those that SciPy's Cython modules export (`scipy.linalg.cython_lapack`,
`scipy.linalg.cython_blas`, `scipy.special.cython_special`), and the loops of NumPy's ufuncs. They are called by pointer, without the
interpreter and its lock.

Code refers to such a function by a symbol that has its module, its name and the kinds of its arguments:

    adjit_external.scipy.linalg.cython_lapack.dpotrf.vppppp

A loop's symbol has the letters of its dtypes; it is called with data of its own, which have a symbol, too:

    adjit_external.loop.numpy.fft._pocketfft_umath.fft.DdD

The address is found when the code is linked. So no text, cache entry or archive has an address, and object code says by its symbol table
which functions it needs. The module is imported when the first such code is linked.
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np

from adjit.codegen.process.off_main_thread import off_main_thread
from adjit.ir.errors import UnsupportedError
from adjit.ir.extension_module import extension_module
from adjit.ir.lazy_module import LazyModule

if TYPE_CHECKING:
    from adjit.codegen.llvm import blas_threads
else:
    blas_threads = LazyModule("adjit.codegen.llvm.blas_threads")

PREFIX = "adjit_external."

BLAS_STATE = f"{PREFIX}blas.state.p"
"""Symbol of the state of `codegen/llvm/blas_threads.py`."""

LOOP, DATA = "loop.", "data."
"""Beginnings of the names of ufuncs' loops, and of their data."""

COMPLEX = "{ double, double }"
"""LLVM type of a complex number that a function of C returns: both parts are in registers, and so are those of arguments."""

KINDS = {"void": "v", COMPLEX: "z", "ptr": "p", "double": "d", "float": "f", "i32": "i", "i64": "l"}
_SYMBOL = re.compile(rb"adjit_external\.[\w.]+")
_C_TYPES = {"__pyx_t_double_complex": "z", "void": "v", "double": "d", "float": "f", "int": "i", "long": "l", "Py_ssize_t": "l",
            "d": "d", "s": "f"}
_POINTERS = frozenset(("char", "int", "double", "float", "d", "s", "c", "z", "_Bool", "void", "__pyx_t_double_complex",
                       "__pyx_t_float_complex"))
"""Types that arguments may point to. LAPACK of 64-bit integers is none of them."""


def external_symbol(module: str, name: str, result: str, arguments: Sequence[str]) -> str:
    """The symbol of a function of C, as `@symbol`; `result` and `arguments` are LLVM types (`COMPLEX` for both parts of a complex number).

    >>> external_symbol("scipy.special.cython_special", "gammaln", "double", ("double",))
    '@adjit_external.scipy.special.cython_special.gammaln.dd'
    """
    return f"@{PREFIX}{module}.{name}.{''.join(KINDS[type] for type in (result, *arguments))}"


def loop_symbols(module: str, name: str, types: str) -> tuple[str, str]:
    """The symbols of a ufunc's loop for dtypes with these letters, and of its data.

    >>> loop_symbols("numpy.fft._pocketfft_umath", "irfft", "Ddd")[0]
    '@adjit_external.loop.numpy.fft._pocketfft_umath.irfft.Ddd'
    """
    return f"@{PREFIX}{LOOP}{module}.{name}.{types}", f"@{PREFIX}{DATA}{module}.{name}.{types}"


def external_symbols(code: bytes) -> Iterator[str]:
    """The symbols of functions in other libraries that object code refers to."""
    return (match.decode() for match in dict.fromkeys(_SYMBOL.findall(code)))


@cache
@off_main_thread
def address_of(symbol: str) -> int:
    """The address for a symbol. Raises `UnsupportedError` if the module cannot be imported, or has another function by this name."""
    if symbol == BLAS_STATE:
        return blas_threads.state_address()
    module, name, kinds = symbol.removeprefix(PREFIX).rsplit(".", 2)
    if module.startswith((LOOP, DATA)):
        return _address_in_ufunc(module.startswith(LOOP), module.removeprefix(LOOP).removeprefix(DATA), name, kinds)
    try:
        signature = _signature(module, name)
    except ImportError as error:
        raise UnsupportedError(f"the program calls {name} of {module}, which cannot be imported: {error}",
                               hint="pip install scipy") from error
    if _kinds_of(signature) != kinds:
        raise UnsupportedError(f"the program calls {name} of {module}, which this version of SciPy "
                               f"{f'declares as {signature}' if signature else 'does not have'}", hint="pip install -U scipy")
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return int(get_pointer(extension_module(module).__pyx_capi__[name], signature.encode()))


def kinds_of_function(module: str, name: str) -> str:
    """The kinds of result and arguments of a function; "" if the module has none by this name, or it has arguments that programs do not
    pass. Raises `ImportError`."""
    return _kinds_of(_signature(module, name))


def _signature(module: str, name: str) -> str:
    """The signature that a capsule has; "" if there is no capsule of this name."""
    get_name = ctypes.pythonapi.PyCapsule_GetName
    get_name.restype, get_name.argtypes = ctypes.c_char_p, (ctypes.py_object,)
    capsules = extension_module(module).__pyx_capi__
    return get_name(capsules[name]).decode() if name in capsules else ""


_NO_DATA = ctypes.c_int64()
"""What loops without data are given, as a symbol needs an address."""


class _UFunc(ctypes.Structure):
    """The beginning of `PyUFuncObject`, behind the head of a Python object."""

    _fields_ = (("nin", ctypes.c_int), ("nout", ctypes.c_int), ("nargs", ctypes.c_int), ("identity", ctypes.c_int),
                ("functions", ctypes.POINTER(ctypes.c_void_p)), ("data", ctypes.POINTER(ctypes.c_void_p)), ("loops", ctypes.c_int))


def _address_in_ufunc(is_loop: bool, module: str, name: str, types: str) -> int:
    """The address of a ufunc's loop, or of its data. Raises `UnsupportedError` if there is no such loop."""
    try:
        ufunc = getattr(import_module(module), name, None)
    except ImportError:
        ufunc = None
    letters = [text.replace("->", "") for text in ufunc.types] if ufunc is not None else []
    if ufunc is None or types not in letters or sys.implementation.name != "cpython":
        raise UnsupportedError(f"the program calls {name} of {module}, which NumPy {np.__version__} does not have",
                               hint="install another NumPy, or compile with backend='numba'")
    head = _UFunc.from_address(id(ufunc) + object.__basicsize__)
    assert (head.nin, head.nout, head.loops) == (ufunc.nin, ufunc.nout, ufunc.ntypes)
    if is_loop:
        return head.functions[letters.index(types)] or 0
    return (head.data[letters.index(types)] if head.data else None) or ctypes.addressof(_NO_DATA)


def _kinds_of(signature: str) -> str:
    """The kinds of result and arguments of a C signature as Cython writes it; "" if there is one that programs do not pass.

    >>> _kinds_of("double (double, Py_ssize_t, int __pyx_skip_dispatch)")
    'ddli'
    >>> _kinds_of("void (char *, int *, __pyx_t_5scipy_6linalg_13cython_lapack_d *)")
    'vppp'
    """
    result, _, arguments = signature.rstrip(")").partition(" (")
    kinds = ""
    for type in (result, *filter(None, arguments.split(", "))):
        words = re.sub(r"__pyx_t_\w+_(?=[sdcz]\b)", "", type).split()
        pointer = len(words) > 1 and words[1].startswith("*")
        kind = ("p" if words[0] in _POINTERS else "") if pointer else _C_TYPES.get(words[0], "") if words else ""
        if not kind:
            return ""
        kinds += kind
    return kinds
