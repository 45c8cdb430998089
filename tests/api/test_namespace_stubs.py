"""The stubs of adjit.numpy and its like are those of the functions that there are: `docs/make_namespace_stubs.py` writes them."""

from __future__ import annotations

import ast
import inspect
import runpy
from importlib import import_module
from pathlib import Path

import pytest
from support.project import ROOT

SCRIPT = runpy.run_path(str(ROOT / "docs" / "make_namespace_stubs.py"))
MODULES = {"numpy": "numpy.pyi", "special": "special.pyi", "random": "random.pyi", "linalg": "linalg/__init__.pyi",
           "nn.functional": "nn/functional/__init__.pyi"}


@pytest.mark.parametrize("path", SCRIPT["STUBS"], ids=lambda path: str(path.relative_to(ROOT)))
def test_stubs_are_up_to_date(path: Path) -> None:
    assert SCRIPT["STUBS"][path]() == path.read_text(), "run: python docs/make_namespace_stubs.py"


@pytest.mark.parametrize("name", MODULES)
def test_stubs_have_the_public_names_of_the_module(name: str) -> None:
    module, tree = import_module(f"adjit.{name}"), ast.parse((ROOT / "api" / MODULES[name]).read_text())
    defined = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    imported = {alias.asname for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names if alias.asname}
    public = {*module.__all__, *(dir(module) if name in ("numpy", "special") else ())}
    hidden = {"Any", "annotations", "import_module", "numpy_namespace"}
    assert defined | imported == {each for each in public if not each.startswith("_")} - hidden


@pytest.mark.parametrize("name", [name for name in MODULES if name != "numpy"])
def test_forms_have_the_parameters_of_the_function(name: str) -> None:
    module, tree = import_module(f"adjit.{name}"), ast.parse((ROOT / "api" / MODULES[name]).read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            arguments = node.args
            shown = [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
            actual = [*inspect.signature(getattr(module, node.name)).parameters]
            assert set(shown) <= set(actual), node.name
            if not (name == "random" and len(shown) < len(actual)):
                assert sorted(shown) == sorted(actual), node.name
