"""Writes `docs/numpy.md`, what of NumPy has a rule: `python docs/make_numpy_page.py`.

The names are NumPy's own list of what a third party may override (`numpy.testing.overrides`), ufunc methods, and the names of `ndarray`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.char
import numpy.fft
import numpy.lib.recfunctions
import numpy.polynomial
import numpy.strings
from numpy.testing.overrides import get_overridable_numpy_array_functions, get_overridable_numpy_ufuncs

import adjit.tracer.functions  # noqa: F401  (fills the tables)
from adjit.fft import __all__ as _  # noqa: F401
from adjit.tracer.array import TracedArray, TracedNDArray
from adjit.tracer.fresh_functions import MADE
from adjit.tracer.registry import FUNCTIONS, REFUSED, reason_against

PAGE = Path(__file__).with_name("numpy.md")
METHODS = ("reduce", "accumulate", "reduceat", "outer", "at")

HEAD = f"""\
# NumPy in traced functions

What of NumPy has a rule for traced arrays: every name that NumPy {np.__version__} lets a third party override. This page is made by
`docs/make_numpy_page.py` from NumPy's own list and adjit's tables; a test keeps it up to date.

*yes*: shapes, dtypes and values are NumPy's, and derivatives go through wherever there are any. What has no rule is an error that names
your line. What is made of plain arrays alone (`np.loadtxt`) stays NumPy's.

Dtypes: bool, integers of 8 to 64 bits, `float16`, `float32`, `float64`, `complex64`, `complex128`, and ml_dtypes' `bfloat16`. Functions of
`float16` and `bfloat16` compute in float32 and round each result, as NumPy and ml_dtypes do, with their bits; sums, products of matrices,
means and variances are rounded once, at the end: NumPy rounds a sum along the first axis to float16 after each row (of 5,000 ones it makes
2,048). `np.matmul` of `bfloat16` is float32, and `x * 2.5` too, as ml_dtypes has it; `np.linalg` refuses both dtypes, as NumPy does.
"""


def short(name: str) -> str:
    return name.rpartition(".")[2]


def function_names() -> dict[str, Any]:
    """Overridable functions by full name: the module that users import them from."""
    names = {}
    for function in get_overridable_numpy_array_functions():
        if function.__name__.startswith("_"):
            continue
        module = (function.__module__ or "numpy").replace("numpy.lib._", "numpy.lib.")
        home = np.lib.recfunctions if module.endswith("recfunctions") else np
        for part in module.split(".")[1:] if home is np else ():
            home = getattr(home, part)
        names[f"{module}.{function.__name__}"] = getattr(home, function.__name__)      # NumPy lists what `like=` of it calls
    return names


def ufunc_names() -> dict[str, np.ufunc]:
    """Ufuncs by name; those for texts are in numpy.strings."""
    return {ufunc.__name__: ufunc for ufunc in get_overridable_numpy_ufuncs() if not ufunc.__name__.startswith("_")}


def member_names() -> list[str]:
    """Methods and attributes of ndarray that users type."""
    return [name for name in dir(np.ndarray) if not name.startswith("_")]


def of_function(name: str, function: Any) -> str:
    if function in FUNCTIONS or function in MADE or name.startswith("numpy.polynomial."):
        return "yes"
    return reason_against(name)


def of_ufunc(name: str, ufunc: np.ufunc) -> str:
    return "yes" if ufunc in FUNCTIONS else reason_against(name)


def of_method(ufunc: np.ufunc, method: str) -> str:
    """Whether a method of a ufunc has a rule; "-" where NumPy has none."""
    there = (ufunc.nin == 2 and ufunc.nout == 1) if method != "at" else ufunc.nin < 3 and ufunc.nout == 1
    return "-" if not there or ufunc.signature else "yes" if (ufunc, method) in FUNCTIONS else "no"


def of_member(name: str) -> str:
    return "yes" if hasattr(TracedNDArray, name) or name in vars(TracedArray) else reason_against(f"ndarray.{name}")


def table(names: list[str], state: Callable[[str], str]) -> Iterator[str]:
    """Names that have a rule as a list, then the others with why not."""
    states = {name: state(name) for name in names}
    yes = [f"`{name}`" for name, answer in states.items() if answer == "yes"]
    if yes:
        yield f"*yes* ({len(yes)}): {', '.join(yes)}\n"
    refused: dict[str, list[str]] = {}
    for name, answer in states.items():
        if answer != "yes":
            refused.setdefault(answer, []).append(f"`{name}`")
    if refused:
        yield "| refused | because |"
        yield "|---|---|"
        for reason, members in refused.items():
            yield f"| {', '.join(members)} | {reason} |"
        yield ""


def other_names() -> str:
    """NumPy's further names of functions on this page."""
    public = {name: found for name, found in vars(np).items()
              if callable(found) and not isinstance(found, type) and not name.startswith("_")}
    pairs = [(name, found.__name__) for name, found in sorted(public.items())
             if found in FUNCTIONS and found.__name__ != name and public.get(found.__name__) is found]
    return ", ".join(f"`{name}` (`{own}`)" for name, own in pairs)


def lines() -> Iterator[str]:
    yield HEAD
    functions = function_names()
    modules = sorted({name.rpartition(".")[0] for name in functions})
    for module in modules:
        yield f"## {module}\n"
        members = {short(name): (name, function) for name, function in sorted(functions.items()) if name.rpartition(".")[0] == module}
        yield from table(list(members), lambda name, members=members: of_function(*members[name]))     # type: ignore[misc]
    yield "## Universal functions\n"
    ufuncs = ufunc_names()
    yield from table(sorted(ufuncs), lambda name: of_ufunc(name, ufuncs[name]))
    yield "### Their methods\n"
    for method in METHODS:
        yield from table([f"{name}.{method}" for name, ufunc in sorted(ufuncs.items()) if ufunc in FUNCTIONS
                          and of_method(ufunc, method) != "-"],
                         lambda name: "yes" if of_method(ufuncs[short(name.rpartition(".")[0])], short(name)) == "yes"
                         else reason_against(name))
    yield "## Other names\n"
    yield f"The same functions: {other_names()}.\n"
    yield "Functions of plain numbers (`bartlett`, `indices`, `mgrid`, `tril_indices`, `fft.fftfreq`, ...) are NumPy's own.\n"
    yield "## numpy.ndarray\n"
    yield from table(member_names(), of_member)


def page() -> str:
    """The text of the page."""
    return "\n".join(lines())


def unexplained() -> list[str]:
    """Names of the installed NumPy that have neither a rule nor a reason."""
    functions, ufuncs = function_names(), ufunc_names()
    return [*(name for name, function in functions.items() if not of_function(name, function)),
            *(name for name, ufunc in ufuncs.items() if not of_ufunc(name, ufunc)),
            *(f"{name}.{method}" for name, ufunc in ufuncs.items() if ufunc in FUNCTIONS for method in METHODS
              if of_method(ufunc, method) == "no" and f"{name}.{method}" not in REFUSED),
            *(f"ndarray.{name}" for name in member_names() if not of_member(name))]


if __name__ == "__main__":
    PAGE.write_text(page())
