"""Names that strings give to modules and functions, which no import statement checks: every one resolves.

A wrong one would be found where it is first used, or, where failures are suppressed as in the warm-up thread, never.
"""

from __future__ import annotations

import ast
import builtins
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
from support.project import PUBLIC_MODULES, ROOT, modules

import adjit
import adjit.ir.ops
from adjit.codegen.native.lower_op import LOWERINGS, _lowering
from adjit.ir.definition import DEFINITIONS
from adjit.runtime.warmup import COMPILER_MODULES

DOTTED = re.compile(r"adjit(\.[A-Za-z_]\w*){2,}")
QUOTED = re.compile(rf"""["']{DOTTED.pattern}["']""")
FILES = sorted([*modules().values(), *(ROOT / "tests").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py"), *(ROOT / "docs").rglob("*.py")])


def lazy_modules(tree: ast.Module) -> dict[str, str]:
    """Dotted name by the variable that `LazyModule` objects are assigned to at the top of a module."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            targets = node.targets[0].elts if isinstance(node.targets[0], ast.Tuple) else node.targets
            values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
            for target, value in zip(targets, values, strict=False):
                if isinstance(target, ast.Name) and isinstance(value, ast.Call) and getattr(value.func, "id", "") == "LazyModule":
                    found[target.id] = ast.literal_eval(value.args[0])
    return found


def problems_of_lazy_modules(source: str) -> list[str]:
    """Lazily imported modules of a source text that do not exist, and attributes read of them that the modules lack."""
    tree = ast.parse(source)
    found = []
    for alias, name in lazy_modules(tree).items():
        if find_spec(name) is None:
            found.append(f"no module {name}")
            continue
        module = import_module(name)
        found += [f"line {node.lineno}: {name} has no {node.attr}" for node in ast.walk(tree)
                  if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == alias
                  and not hasattr(module, node.attr) and not is_annotation_only(module, node.attr)]
    return found


def is_annotation_only(module: object, name: str) -> bool:
    """Whether a module imports the name for type checkers alone."""
    return name in {alias.asname or alias.name for node in ast.walk(ast.parse(Path(module.__file__).read_text()))     # type: ignore[attr-defined]
                    if isinstance(node, ast.ImportFrom) for alias in node.names}


def dotted_strings(source: str) -> Iterator[str]:
    """String constants that are the name of something of ours, and nothing else."""
    if not QUOTED.search(source):
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and DOTTED.fullmatch(node.value):
            yield node.value


@cache
def resolves(name: str) -> bool:
    """Whether a dotted name is a module, or an attribute of what stands before its last dot."""
    found: object = builtins
    parts = name.split(".")
    for index in range(1, len(parts) + 1):
        prefix = ".".join(parts[:index])
        try:
            found = import_module(prefix)
        except ModuleNotFoundError:
            for part in parts[index - 1:]:
                if not hasattr(found, part):
                    return False
                found = getattr(found, part)
            return True
    return True


@pytest.mark.parametrize("path", [path for path in modules().values() if "LazyModule(" in path.read_text()],
                         ids=lambda path: str(path.relative_to(ROOT)))
def test_lazily_imported_modules_have_what_is_read_of_them(path: Path) -> None:
    assert not problems_of_lazy_modules(path.read_text())


@pytest.mark.parametrize(("source", "problem"), [
    ("m = LazyModule('adjit.ir.no_such')", "no module adjit.ir.no_such"),
    ("a, m = 1, LazyModule('adjit.ir.graph')\nm.no_such()", "line 2: adjit.ir.graph has no no_such")])
def test_wrong_lazy_names_are_noticed(source: str, problem: str) -> None:
    assert problems_of_lazy_modules(source) == [problem]


def test_strings_that_name_something_of_ours_resolve() -> None:
    wrong = {f"{path.relative_to(ROOT)}: {name}" for path in FILES if path != Path(__file__)
             for name in dotted_strings(path.read_text()) if not resolves(name)}
    assert not wrong


def test_a_string_that_names_nothing_is_noticed() -> None:
    assert resolves("adjit.ir.graph.Graph.__init__")
    assert not resolves("adjit.ir.graph.Graph.no_such")
    assert not resolves("adjit.ir.no_such")


def test_lowerings_name_functions_of_ops() -> None:
    assert set(LOWERINGS) <= set(DEFINITIONS)
    for name in set(LOWERINGS.values()):
        assert callable(_lowering(name)), name


def test_modules_of_the_warm_up_exist() -> None:
    assert [name for name in COMPILER_MODULES if find_spec(name) is None] == []


@pytest.mark.parametrize("name", [*PUBLIC_MODULES, "adjit.scipy", "adjit.scipy.stats"])
def test_public_names_resolve_and_are_listed(name: str) -> None:
    module = import_module(name)
    assert [public for public in module.__all__ if not hasattr(module, public)] == []
    assert set(module.__all__) <= set(dir(module)), "what completion lists"


@pytest.mark.parametrize(("name", "listed"), [
    ("adjit", {"scipy", "sklearn", "stats"}), ("adjit.scipy", {"special", "stats"}), ("adjit.stats", {"norm", "poisson", "positive"}),
    ("adjit.tree", {"map", "ravel", "unravel"}), ("adjit.utils", {"checkpoint", "data"})])
def test_modules_list_what_they_import_on_demand_and_no_imports_of_their_own(name: str, listed: set[str]) -> None:
    names = set(dir(import_module(name)))
    assert listed <= names
    assert not names & {"Any", "annotations", "import_module"}


def test_modules_of_scipy_need_no_import_of_their_own() -> None:
    subprocess.run([sys.executable, "-c", "import adjit as aj; aj.scipy.special.gammaln(2.0); aj.scipy.stats"], check=True)


def test_public_names_that_are_missing_are_noticed() -> None:
    assert not hasattr(adjit, "no_such")
