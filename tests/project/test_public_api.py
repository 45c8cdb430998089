"""The names and signatures that users write: every public module, its functions, its classes with their methods and properties.

`pytest tests/project/test_public_api.py --update-golden` rewrites them in `golden/public_api.txt`: its difference is what users notice.
"""

from __future__ import annotations

import builtins
import dataclasses
import functools
import importlib
import inspect
import re
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.project import PUBLIC_MODULES

GOLDEN = Path(__file__).parent / "golden" / "public_api.txt"
BUILTINS = frozenset(value for value in vars(builtins).values() if isinstance(value, type) and value is not object)
OF_OTHERS = ("adjit.numpy", "adjit.special", "adjit.stats")
"""Modules whose `__getattr__` gives functions named and called as those of NumPy or SciPy: names only, the signatures are theirs."""


def signature_text(thing: Any) -> str:
    """The signature, without the modules of types and the addresses of objects: both may change."""
    if dataclasses.is_dataclass(thing):         # `__init__` is made when instances are
        return f"({', '.join(f'{field.name}: {field.type}' for field in dataclasses.fields(thing))})"
    try:
        text = str(inspect.signature(thing))
    except (TypeError, ValueError):
        return "(...)"
    text = re.sub(r"<function ([\w.<>]+) at 0x\w+>", r"<\1>", text)
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)        # annotations that are not evaluated
    return re.sub(r"\b(?:adjit|collections\.abc|typing|numpy|pathlib)\.(?:\w+\.)*(\w+)", r"\1", text)


@functools.cache
def public_classes() -> frozenset[type]:
    modules = map(importlib.import_module, PUBLIC_MODULES)
    return frozenset(value for module in modules for name in module.__all__ if isinstance(value := getattr(module, name), type))


def members(kind: type) -> Iterator[str]:
    """The public attributes of a class that are made here: not those of other public classes, of exceptions and other builtins."""
    for name in sorted(dir(kind)):
        if name.startswith("_") and name not in ("__call__", "__enter__", "__exit__"):
            continue
        holder = next((base for base in kind.__mro__ if name in vars(base)), None)
        if holder is None or not holder.__module__.startswith("adjit") or (holder is not kind and holder in public_classes()):
            continue
        value = vars(holder)[name]
        if isinstance(value, property):
            yield f"    {name}: property"
        elif callable(value) or isinstance(value, (staticmethod, classmethod)):
            yield f"    {name}{signature_text(getattr(kind, name))}"
        else:
            yield f"    {name}"


def module_lines(module_name: str) -> Iterator[str]:
    module = importlib.import_module(module_name)
    yield module_name
    names = set(module.__all__)
    if hasattr(module, "__getattr__"):
        names |= {name for name in dir(module) if not name.startswith("_") and not isinstance(getattr(module, name), types.ModuleType)
                  and (name not in vars(module) or module_name == "adjit") and name != "annotations"}
    for name in sorted(names):
        value = getattr(module, name)
        if isinstance(value, types.ModuleType):
            yield f"  {name}: module"
        elif isinstance(value, type):
            bases = ", ".join(base.__name__ for base in value.__bases__ if base in public_classes() | BUILTINS)
            own = any("__init__" in vars(base) or "__new__" in vars(base) for base in value.__mro__ if base.__module__.startswith("adjit"))
            yield f"  class {name}{f'[{bases}]' if bases else ''}{signature_text(value) if own else ''}"
            if value.__module__.startswith("adjit"):
                yield from ("  " + line for line in members(value))
        elif callable(value):
            yield f"  {name}" + ("" if module_name in OF_OTHERS and name not in module.__all__ else signature_text(value))
        else:
            yield f"  {name}: {type(value).__name__}"


def found() -> dict[str, list[str]]:
    return {name: list(module_lines(name)) for name in PUBLIC_MODULES}


@pytest.fixture(scope="module")
def golden(request: pytest.FixtureRequest) -> dict[str, list[str]]:
    if request.config.getoption("--update-golden"):
        blocks = "\n\n".join("\n".join(lines) for lines in found().values())
        GOLDEN.write_text(f"# Written by: pytest tests/project/test_public_api.py --update-golden\n\n{blocks}\n")
    blocks = GOLDEN.read_text().rstrip("\n").split("\n\n")[1:]
    return {block.split("\n")[0]: block.split("\n") for block in blocks}


def test_every_public_module_is_in_the_golden_file(golden: dict[str, list[str]]) -> None:
    assert list(golden) == list(PUBLIC_MODULES)


@pytest.mark.parametrize("name", PUBLIC_MODULES)
def test_names_and_signatures_are_those_of_the_golden_file(name: str, golden: dict[str, list[str]]) -> None:
    assert list(module_lines(name)) == golden[name]
