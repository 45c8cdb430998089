"""The tables behind the NumPy protocols: which function of ours stands for which of NumPy's."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any

import numpy as np

from adjit.ir.errors import UnsupportedError
from adjit.tracer.source import find_user_location

Function = Callable[..., Any]

# NumPy function or ufunc, (ufunc, method), or ("scipy.special", name) -> ours
FUNCTIONS: dict[Any, Function] = {}


def find(numpy_function: Any) -> Function:
    """Our function for NumPy's; raises `UnsupportedError` with the nearest name there is."""
    found = FUNCTIONS.get(numpy_function)
    if found is None and isinstance(numpy_function, np.ufunc):
        found = FUNCTIONS.get(("scipy.special", numpy_function.__name__))
    if found is None:
        raise unsupported(numpy_function)
    return found


def full_name(numpy_function: Any) -> str:
    module = getattr(numpy_function, "__module__", None) or "numpy"
    return f"{module}.{getattr(numpy_function, '__name__', numpy_function)}"


def unsupported(numpy_function: Any, name: str | None = None) -> UnsupportedError:
    """The error for a NumPy function without a rule."""
    name = name or full_name(numpy_function)
    known = {full_name(function).rpartition(".")[2]: full_name(function) for function in FUNCTIONS if callable(function)}
    near = [known[short] for short in difflib.get_close_matches(name.rpartition(".")[2], known, n=1, cutoff=0.0)]
    return UnsupportedError(
        f"{name} has no rule for traced arrays", find_user_location(),
        hint=f"nearest supported function: {near[0]}; or compute it on plain arrays outside of the compiled function" if near else None)


def numpy_namespace() -> dict[str, Function]:
    """Our functions by NumPy's names, those of its main namespace (for `adjit.numpy`)."""
    names = {}
    for name, candidate in vars(np).items():      # not getattr: that imports NumPy's submodules, numpy.f2py and all
        if callable(candidate) and not isinstance(candidate, type) and candidate in FUNCTIONS:
            names[name] = FUNCTIONS[candidate]
    return names
