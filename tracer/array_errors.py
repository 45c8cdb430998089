"""Errors of traced arrays that are used as Python's numbers, or written to where nothing can be written."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from adjit.ir.errors import DTypeError, Location, TraceError
from adjit.tracer.registry import FUNCTIONS
from adjit.tracer.user_location import find_user_location, functions_of


class EscapedArrayError(TraceError):
    """A traced array is used after the end of its trace."""

    array: Any = None


def not_one(x: Any, kind: str) -> Exception:
    """NumPy's error for the use of a traced array of several elements, or none, as a number."""
    if kind == "bool" and not x.size:
        return ValueError("The truth value of an empty array is ambiguous. Use `array.size > 0` to check that an array is not empty.")
    try:
        {"bool": bool, "int": int, "float": float, "complex": complex}[kind](np.broadcast_to(x.dtype.type(0), x.shape))
    except (ValueError, TypeError) as error:
        return error
    return TypeError("only length-1 arrays can be converted to Python scalars")


def scalar_refused(message: str) -> DTypeError:
    """Error for a scalar that would have to change."""
    return DTypeError(message, find_user_location(),
                      hint="s = s + 1 and s += 1 make a new scalar; aj.numpy.array(s) is an array of no dimension, which can be written to")


def write_refused(location: Location | None) -> TraceError:
    """Error for a traced value that is written into an ordinary ndarray."""
    names = functions_of("scipy")
    if names:
        return TraceError("calling a function of SciPy, which writes a traced value into an ordinary ndarray", location,
                          hint=FUNCTIONS["remedy for scipy"](names))
    return TraceError("a traced value cannot be written into an ordinary ndarray", location,
                      hint="it was made outside of the traced function, or by a library: write to a copy of it, np.copy(array); "
                           "an array whose dtype has fields holds no traced values: use an array for each field")


_READERS = {
    "nditer": "in place of np.nditer(x) write x.flat, of several arrays zip(*(a.flat for a in np.broadcast_arrays(x, y)))",
    "np.broadcast": "in place of np.broadcast(x, y) write np.broadcast_arrays(x, y), for its shape np.broadcast_shapes(x.shape, y.shape)"}
"""Remedies for functions of NumPy that read the memory of their arguments, by name: they are in C, so that no frame names them."""


_DRAW = re.compile(r"\b(random|rng|generator)\.\w+\(")


def remedy_for_readers(location: Location | None) -> str:
    """What to write in place of a function that reads the memory of a traced array on the user's line."""
    line = "" if location is None else location.source()
    if _DRAW.search(line):
        return "draw by a key, aj.random.normal(key, shape) * scale + mean; or draw standard numbers outside, and pass them"
    return next((remedy for name, remedy in _READERS.items() if f"{name}(" in line), "use functions of NumPy: this one reads the memory of "
                "its arguments, which a traced array does not have")
