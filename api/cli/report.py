"""`python -m adjit report module:function`: a page on a compiled function, for a browser."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import inspect
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np

from adjit.ir.errors import ArgumentError
from adjit.runtime.bound_function import BoundCompiledFunction
from adjit.runtime.compile_function import compile
from adjit.runtime.compiled import CompiledFunction


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `report` to the command line."""
    parser = commands.add_parser("report", help="write a page on a compiled function, for a browser", description=__doc__,
                                 epilog="Example: python -m adjit report train.py:step --args 'np.ones((3, 2)), 0.1'")
    parser.add_argument("function", metavar="MODULE:FUNCTION", help="a function of a module, or of a file (train.py:step), which is run")
    parser.add_argument("--args", metavar="EXPRESSION", default="", help="example arguments, with numpy as np and the names of the module; "
                        "without them, those of the function's last call while the module was run, and no times")
    parser.add_argument("-o", "--output", type=Path, default=None, help="the file (default: the function's name, .html)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Write the page."""
    names, function = _find(options.function)
    args = _arguments(options.args, names)
    if not isinstance(function, (CompiledFunction, BoundCompiledFunction)):
        function = compile(function)
    path = options.output or Path(f"{options.function.rpartition(':')[2].rpartition('.')[2]}.html")
    if args:
        try:
            inspect.signature(function).bind(*args)
        except TypeError as error:
            raise ArgumentError(f"--args {options.args!r} does not fit {options.function}: {error}",
                                hint="write what stands between the brackets of the call, such as --args 'np.ones((3, 2)), 0.1'") from error
    print(function.report(path, *args).path)
    return 0


def _arguments(text: str, names: dict[str, Any]) -> tuple[Any, ...]:
    """The example arguments that an expression makes, with the names of the function's module."""
    if not text.strip():
        return ()
    try:
        made: tuple[Any, ...] = eval(f"({text.rstrip(', ')},)", {"np": np, **names})
        return made
    except Exception as error:
        raise ArgumentError(f"--args {text!r} is no list of arguments: {type(error).__name__}: {error}",
                            hint="write what stands between the brackets of the call, such as --args 'np.ones((3, 2)), 0.1'") from error


def _find(text: str) -> tuple[dict[str, Any], Any]:
    """The names of a module, or of a file, and the function."""
    where, colon, name = text.rpartition(":")
    if not colon or not name:
        raise ArgumentError(f"{text!r} names no function", hint="write module:function, or file.py:function")
    sys.path.insert(0, "")
    if not where.endswith(".py") and importlib.util.find_spec(where.partition(".")[0]) is None:
        raise ArgumentError(f"there is no module {where!r}",
                            hint="write a module that Python finds from this folder, or a file (train.py:step)")
    names = runpy.run_path(where) if where.endswith(".py") else vars(importlib.import_module(where))
    first, *rest = name.split(".")
    if first not in names:
        raise ArgumentError(f"{where} has no {first!r}", hint="write module:function")
    found = names[first]
    for attribute in rest:
        if not hasattr(found, attribute):
            raise ArgumentError(f"{where} has no {name!r}", hint="write module:function, or file.py:function")
        found = getattr(found, attribute)
    return names, found
