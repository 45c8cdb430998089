"""The table of packages in ARCHITECTURE.md, enforced: who may import whom, what is imported where, and what `import adjit` loads."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec

import pytest
from support.each import parametrize_within
from support.project import PACKAGES, ROOT, TESTS, modules, package_of

ALLOWED = {
    "ir": {"ir"},
    "tracer": {"tracer", "ir"},
    "passes": {"passes", "ir"},
    "codegen": {"codegen", "ir"},
    "eager": {"eager", "ir", "tracer", "passes", "codegen"},
    "runtime": {"runtime", "eager", "ir", "tracer", "passes", "codegen"},
    "api": set(PACKAGES),
}
LIGHT = {"adjit", "numpy", "llvmlite", "optree"}
EXTENDS = {("adjit.sklearn", "sklearn")}
"""Modules whose classes derive from those of a library: who imports them asks for it."""

HEAVY = ("numba", "matplotlib", "graphviz", "safetensors", "scipy", "sklearn", "rich", "click")


def statements(tree: ast.Module) -> Iterator[tuple[ast.stmt, bool]]:
    """Every statement, and True if it is inside a function. Expressions, most of a tree, hold none."""
    stack: list[tuple[ast.AST, bool]] = [(tree, False)]
    while stack:
        node, is_late = stack.pop()
        is_late = is_late or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt):
                yield child, is_late
            if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
                stack.append((child, is_late))


def imports(tree: ast.Module, name: str) -> list[tuple[str, ast.stmt, bool]]:
    """Every imported name with its statement, and True if it is inside a function; `from a import b` counts as a and a.b, but for
    `from adjit import package`."""
    found: list[tuple[str, ast.stmt, bool]] = []
    for node, is_late in statements(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, node, is_late) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}:{node.lineno}: imports of ours are absolute"
            found += [(node.module or "", node, is_late)] if node.module != "adjit" else []
            found += [(f"{node.module}.{alias.name}", node, is_late) for alias in node.names]
    return found


def check_module(name: str, source: str, package: str) -> list[str]:
    """What the module does that the rules forbid."""
    problems = []
    for imported, statement, is_late in imports(ast.parse(source), name):
        top = imported.split(".")[0]
        place = f"{name}:{statement.lineno}: {imported}"
        if top == "adjit":
            if package_of(imported) not in ALLOWED[package]:
                problems.append(f"{place}: {package}/ may not import {package_of(imported)}/")
            if is_late:
                problems.append(f"{place}: a module of ours imported inside a function")
        elif top not in LIGHT and top not in sys.stdlib_module_names and not is_late and (name, top) not in EXTENDS:
            problems.append(f"{place}: a heavy library imported at the top of a module")
        elif top == "llvmlite" and package not in ("codegen", "runtime", "api") and not is_late:
            problems.append(f"{place}: llvmlite is for codegen/ and runtime/")
    return problems


@parametrize_within("name", sorted(modules()))
def test_module_keeps_to_the_import_rule(name: str) -> None:
    path = modules()[name]
    assert check_module(name, path.read_text(), package_of(name)) == []


@pytest.mark.parametrize(("package", "source", "complaint"), [
    ("ir", "from adjit.tracer import trace", "ir/ may not import tracer/"),
    ("tracer", "import adjit.passes.options", "tracer/ may not import passes/"),
    ("passes", "from adjit import codegen", "passes/ may not import codegen/"),
    ("codegen", "from adjit import optim, ir", "codegen/ may not import api/"),
    ("runtime", "import adjit", "runtime/ may not import api/"),
    ("runtime", "def f():\n    from adjit.ir.graph import Graph", "inside a function"),
    ("codegen", "import numba", "heavy library"),
    ("ir", "import llvmlite", "llvmlite is for"),
])
def test_the_check_finds_what_it_looks_for(package: str, source: str, complaint: str) -> None:
    assert any(complaint in problem for problem in check_module("example", source, package))


@pytest.mark.parametrize(("package", "source"), [
    ("ir", "from adjit.ir.graph import Graph\nimport numpy as np\nfrom collections.abc import Sequence"),
    ("runtime", "from adjit import codegen\nfrom adjit.passes.pipeline import PIPELINE\nfrom llvmlite import binding"),
    ("codegen", "def f():\n    import numba"),
    ("api", "from adjit import numpy as anp\nfrom adjit.nn.functional import relu"),
])
def test_the_check_lets_pass_what_is_allowed(package: str, source: str) -> None:
    assert check_module("example", source, package) == []


def test_table_is_the_one_of_the_architecture_page() -> None:
    rows = re.findall(r"^\| `(\w+)/` \|.*\| (.*) \|$", (ROOT / "ARCHITECTURE.md").read_text(), re.MULTILINE)
    written = {}
    for package, text in rows:
        named = set(re.findall(r"`(\w+)`", text))
        written[package] = set(PACKAGES) if text == "anything" else set(PACKAGES) - {"api"} \
            if text == "all of the above" else named | {package}
    assert written == ALLOWED


def test_importing_adjit_is_light() -> None:
    code = "import sys, adjit; print(*sorted(set(m.split('.')[0] for m in sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=TESTS)
    loaded = set(done.stdout.split())
    assert "adjit" in loaded
    assert loaded.isdisjoint({*HEAVY, "llvmlite"})


FIRST_CALL = 47
"""Modules that a first call may import besides the passes; those for ops that few programs have are imported where an op asks for them."""

LATER = ("codegen.gemm", "codegen.numba.kernel_source", "codegen.native.program", "codegen.numba.compile_kernel", "codegen.vector_math",
         "codegen.cuda.text", "codegen.cuda.program", "passes.pipeline", "passes.simplify.simplify", "runtime.cuda.devices", "nn", "optim",
         "runtime.exports", "runtime.fastcall.program_descriptor", "runtime.numba.executable", "runtime.numba.kernels",
         "runtime.numba.steps", "runtime.reports.explain", "runtime.reports.memory_report", "runtime.reports.profile",
         "runtime.reports.reports", "special", "viz")
"""What `import adjit` leaves to the first use."""


def test_what_many_processes_never_need_is_imported_later() -> None:
    code = "import sys, adjit; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=TESTS)
    loaded = set(done.stdout.split())
    assert loaded.isdisjoint(f"adjit.{name}" for name in LATER)
    unneeded = {"argparse", "decimal", "fractions", "hashlib", "html", "importlib.resources", "json", "numpy.polynomial", "sysconfig"}
    assert loaded.isdisjoint(unneeded - set(_loaded_with("numpy, optree")))
    everything = subprocess.run([sys.executable, "-c", f"import {', '.join(f'adjit.{name}' for name in LATER)}"], capture_output=True)
    assert everything.returncode == 0, "a name of the list is not that of a module"


def _loaded_with(libraries: str) -> list[str]:
    code = f"import sys, {libraries}; print(*sys.modules)"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


def test_a_first_call_imports_little() -> None:
    code = """
import sys
import numpy as np
import adjit
before = set(sys.modules)
adjit.compile(lambda x, w: np.sum(np.tanh(x @ w)), backend="native", threads=1)(np.ones((4, 8), np.float32), np.ones((8, 4), np.float32))
print(*(name for name in set(sys.modules) - before if name.startswith("adjit.")))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=TESTS,
                          env={**os.environ, "ADJIT_CACHE_SIZE": "0"})
    loaded = done.stdout.split()
    assert "adjit.codegen.native.program" in loaded, "nothing was compiled"
    assert len([name for name in loaded if not name.startswith("adjit.passes.")]) <= FIRST_CALL, sorted(loaded)
    rare = {f"adjit.codegen.native.{name}" for name in (
        "control_flow", "tiled", "arrays.scans", "arrays.sorting", "conv.convolution", "conv.pooling")}
    rare |= {"adjit.runtime.numba.executable", "adjit.runtime.numba.kernels", "adjit.codegen.numba.compile_kernel",
             "adjit.codegen.vector_math.gamma"}
    assert all(map(find_spec, rare)), "a name that no module has"
    assert rare.isdisjoint(loaded)
