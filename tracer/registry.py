"""Tables behind the NumPy protocols: adjit's function for each of NumPy's."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from adjit.ir.errors import UnsupportedError
from adjit.ir.lazy_module import LazyModule
from adjit.tracer.user_location import find_user_location

if TYPE_CHECKING:
    from adjit.tracer.functions import external
else:
    external = LazyModule("adjit.tracer.functions.external")

Function = Callable[..., Any]

# NumPy function or ufunc, (ufunc, method), or ("scipy.special", name) -> ours
FUNCTIONS: dict[Any, Function] = {}

_ALTERNATIVES = {short: alternative for names, alternative in {
    "view getfield": ".astype converts values, .reshape gives another shape",
    "linspace": "adjit.numpy.linspace takes traced bounds",
    "geomspace logspace": "np.exp of adjit.numpy.linspace is supported",
}.items() for short in names.split()}


REFUSED = {name: reason for reason, names in {
    "text, not numbers": "strings.* char.* datetime_as_string count endswith find index isalnum isalpha isdecimal isdigit islower "
                         "isnumeric isspace istitle isupper rfind rindex startswith str_len",
    "dates, not numbers": "busday_count busday_offset is_busday isnat",
    "records, not numbers": "lib.recfunctions.* ndarray.getfield ndarray.setfield",
    "files are written outside: return the arrays and save them there": "save savetxt savez savez_compressed ndarray.tofile ndarray.dump "
                                                                        "ndarray.dumps",
    "bytes in memory, which a traced array does not have": "ndarray.base ndarray.ctypes ndarray.data ndarray.tobytes ndarray.byteswap "
                                                           "may_share_memory shares_memory ndarray.flags ndarray.setflags ndarray.strides",
    "a traced array does not change its shape in place: x = np.resize(x, shape)": "ndarray.resize",
}.items() for name in names.split()}
"""Names without a rule, by what follows `numpy.`, and why; `module.*` is a whole module."""


_ON_DEMAND = {"numpy.fft": "adjit.tracer.functions.fourier"}
"""Modules with the rules for the functions of modules of NumPy that many programs do without."""


def find(numpy_function: Any) -> Function:
    """Return adjit's function for NumPy's; raises `UnsupportedError` with what there is instead."""
    found = FUNCTIONS.get(numpy_function)
    if found is None and getattr(numpy_function, "__module__", None) in _ON_DEMAND:
        import_module(_ON_DEMAND[numpy_function.__module__])
        found = FUNCTIONS.get(numpy_function)
    if found is None and isinstance(numpy_function, np.ufunc):
        found = special_function(numpy_function.__name__)
    if found is None and (getattr(numpy_function, "__module__", None) or "").startswith("numpy.polynomial"):
        return numpy_function._implementation       # type: ignore[no-any-return]  # NumPy's, in Python
    if found is None:
        raise unsupported(numpy_function)
    return found


def reason_against(name: str) -> str:
    """Why the function with this full name has no rule; empty if it is not known."""
    inner = name.removeprefix("numpy.")
    return REFUSED.get(inner) or REFUSED.get(f"{inner.rpartition('.')[0]}.*", "")


def special_function(name: str) -> Function | None:
    """Return adjit's function for the ufunc of scipy.special with this name, if it has a rule."""
    found = FUNCTIONS.get(("scipy.special", name))
    if found is None and not hasattr(np, name):
        found = external.external_function(name) if name in external.NAMES else None
    return found


def full_name(numpy_function: Any) -> str:
    name = getattr(numpy_function, "__name__", str(numpy_function))
    module = getattr(numpy_function, "__module__", None)
    if module is None:      # a ufunc does not say where it is from
        homes = (home for home in ("numpy", "scipy.special") if getattr(sys.modules.get(home), name, None) is numpy_function)
        module = next(homes, "")
    return f"{module}.{name}".removeprefix(".")


def unsupported(numpy_function: Any, name: str | None = None) -> UnsupportedError:
    """Error for a NumPy function without a rule."""
    name = name or full_name(numpy_function)
    short = name.rpartition(".")[2]
    alternative = _ALTERNATIVES.get(short, reason_against(name))
    if short == "may_share_memory":     # NumPy's generators ask it of what they permute; they are written in C
        alternative += ". In rng.permutation(x): adjit.random.permutation(key, x) takes a traced x"
    if not alternative:
        # the same function elsewhere; one with a similar name (`cos` for `cosm1`) computes something else
        known = [full_name(function) for function in FUNCTIONS if callable(function)]
        known += [f"aj.{home}.{short}" for home in ("special", "linalg") if short in vars(sys.modules.get(f"adjit.{home}", object))]
        there = next((other for other in known if other.rpartition(".")[2] == short), None)
        alternative = f"{there} is supported" if there else "write it with the functions of adjit.numpy"
    return UnsupportedError(f"{name} has no rule for traced arrays", find_user_location(),
                            hint=f"{alternative}; or compute it on plain arrays outside of the compiled function")


def numpy_namespace() -> dict[str, Function]:
    """Return adjit's functions by NumPy's names in its main namespace (for `adjit.numpy`)."""
    names = {}
    for name, candidate in vars(np).items():      # not getattr: that imports NumPy's submodules, numpy.f2py and all
        if callable(candidate) and not isinstance(candidate, type) and candidate in FUNCTIONS:
            names[name] = FUNCTIONS[candidate]
    return names
