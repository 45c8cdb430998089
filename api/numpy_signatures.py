"""Signatures and docstrings of the functions that are named after NumPy's and SciPy's, made when they are first read.

The functions themselves take `*inputs` or arguments under names of their own; `help(adjit.numpy.sum)` shows NumPy's.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from importlib import import_module
from inspect import Parameter, Signature
from typing import Any

import numpy as np

Function = Callable[..., Any]

_ELEMENTWISE = """\
Elementwise, with broadcasting: the result has the common shape of the operands, and the dtype that NumPy's rules for numbers and arrays
give (NEP 50). Raises `ShapeError` where shapes do not broadcast, `DTypeError` where no loop takes the dtypes. `where=` needs `out=`."""
_OTHERS = """\
Shapes and dtypes are NumPy's; other arguments raise `ShapeError`, `DTypeError` or `IndexingError`, with the user's line."""


def describe(function: Function, numpy_function: Any) -> Function:
    """Give `function` the supported part of NumPy's signature, and name the rest in its docstring."""
    if "__signature__" not in vars(function):
        if isinstance(numpy_function, np.ufunc):
            _describe_elementwise(function, numpy_function.nin, f"numpy.{numpy_function.__name__}")
        else:
            _describe(function, numpy_function)
    return function


def describe_special(function: Function, operands: int, name: str, results: int = 1) -> Function:
    """Give `function`, which replaces a ufunc of scipy.special, its signature."""
    if "__signature__" not in vars(function):
        _describe_elementwise(function, operands, f"special.{name}", results)
    return function


def example(name: str) -> str:
    """Return the example of a function by module and name, as its docstring shows it; empty if there is none."""
    call, result = _examples().get(name, ("", ""))
    if not call:
        return ""
    imports = ">>> import numpy as np\n" if "np." in call else ""
    return f"{imports}>>> import adjit as aj\n>>> {call}\n{result}"


@cache
def _examples() -> dict[str, tuple[str, str]]:
    examples: dict[str, tuple[str, str]] = import_module("adjit.function_examples").EXAMPLES
    return examples


def _describe_elementwise(function: Function, operands: int, name: str, results: int = 1) -> None:
    names = ["x"] if operands == 1 else [f"x{number + 1}" for number in range(operands)]
    options = {"where": True, "casting": "same_kind", "order": "K", "dtype": None, "subok": True}
    _set(function, Signature([
        *(Parameter(operand, Parameter.POSITIONAL_ONLY) for operand in names),
        Parameter("out", Parameter.POSITIONAL_OR_KEYWORD, default=None),
        *(Parameter(option, Parameter.KEYWORD_ONLY, default=default) for option, default in options.items())],
        return_annotation=f"tuple[{', '.join(['Array'] * results)}]" if results > 1 else Signature.empty), _ELEMENTWISE, name)


def _describe(function: Function, numpy_function: Any) -> None:
    ours = _plain(inspect.signature(function))
    try:
        theirs = _plain(inspect.signature(numpy_function))
    except (TypeError, ValueError):         # a function in C without a signature
        theirs = ours
    if not function.__doc__:
        _set(function, theirs, _OTHERS, f"numpy.{numpy_function.__name__}")
        return
    missing = _missing(ours, theirs)
    kept = theirs.replace(parameters=[p for p in theirs.parameters.values() if p.name not in missing])
    text = _OTHERS + (f" Not supported: {', '.join(f'`{name}`' for name in missing)}." if missing else "")
    _set(function, kept, text, f"numpy.{numpy_function.__name__}")


def _missing(ours: Signature, theirs: Signature) -> list[str]:
    """Return the keyword parameters of NumPy's function that adjit's does not take."""
    if any(p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL) for p in ours.parameters.values()):
        return []
    first = next(iter(theirs.parameters), None)
    return [name for name, p in theirs.parameters.items()
            if name not in ours.parameters and name != first and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]


def _plain(signature: Signature) -> Signature:
    return signature.replace(parameters=[p.replace(annotation=p.empty) for p in signature.parameters.values()],
                             return_annotation=Signature.empty)


def _set(function: Function, signature: Signature, text: str, name: str) -> None:
    doc = (function.__doc__ or f"Equivalent of `{name}`.").rstrip()
    first, mark, examples = doc.partition(">>> ")
    shown = f"{mark}{inspect.cleandoc(examples)}" if mark else example(name)
    function.__doc__ = f"{first.rstrip()}\n\n{text}" + (f"\n\n{shown}" if shown else "")
    function.__signature__ = signature      # type: ignore[attr-defined]
