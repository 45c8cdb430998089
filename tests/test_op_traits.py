"""What the code knows of ops outside of their records agrees with the records: names that stand in it are names of ops."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from project import ROOT

import adjit.ir.ops  # noqa: F401  (fills DEFINITIONS)
from adjit.ir.definition import DEFINITIONS

COMPILER = ("ir", "passes", "codegen", "runtime", "eager")
"""Packages whose code asks for the names of ops."""

NOT_OPS = {"sys.implementation.name", "os.name", "entry.name", "step.name"}
"""What has a name and is no op."""

OTHER_LANGUAGES = ("codegen/vector_math/llvm_printer.py", "codegen/vector_math/functions.py",
                   "codegen/native/kernels/scalar_templates.py", "eager/methods.py")
"""Files whose tables are of scalar functions or of methods, some of which are named as ops are."""

Found = tuple[int, str]


def texts(node: ast.AST) -> list[str] | None:
    """The strings of a literal, be it one string or a collection of nothing else."""
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else None
    if isinstance(node, ast.Dict):
        keys = [key.value for key in node.keys if isinstance(key, ast.Constant)]
        return [key for key in keys if isinstance(key, str)] if len(keys) > 1 else None
    if isinstance(node, (ast.Set, ast.Tuple, ast.List)) and node.elts:
        found = [texts(element) for element in node.elts]
        return None if None in found else [text for several in found for text in several or ()]
    return None


def unknown_names(source: str) -> Iterator[Found]:
    """Lines and strings that stand for ops and name none: what an op's name is compared with, what rules of rewriting are for, and what
    stands in a collection of which more than half are names of ops."""
    for node in ast.walk(ast.parse(source)):
        named: list[str] = []
        if isinstance(node, ast.Compare) and isinstance(node.left, ast.Attribute) and node.left.attr == "name":
            named = [] if ast.unparse(node.left) in NOT_OPS else texts(node.comparators[0]) or []
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("rule", "maker"):
            named = [text for argument in (*node.args, *(keyword.value for keyword in node.keywords)) for text in texts(argument) or ()]
        elif isinstance(node, (ast.Set, ast.Tuple, ast.List, ast.Dict)):
            several = texts(node) or []
            named = several if 2 * sum(text in DEFINITIONS for text in several) > len(several) > 2 else []
        yield from ((node.lineno, text) for text in named if text not in DEFINITIONS)      # type: ignore[attr-defined]


def files() -> list[Path]:
    return sorted(path for package in COMPILER for path in (ROOT / package).rglob("*.py")
                  if "ops" not in path.parts and str(path.relative_to(ROOT)) not in OTHER_LANGUAGES)


@pytest.mark.parametrize("package", COMPILER)
def test_names_of_ops_in_the_code_are_names_of_ops(package: str) -> None:
    found = [f"{path.relative_to(ROOT)}:{line}: {text!r}" for path in files() if path.is_relative_to(ROOT / package)
             for line, text in unknown_names(path.read_text())]
    assert not found


@pytest.mark.parametrize("code", [
    "FEW = frozenset({'exp', 'logarithm', 'sin'})", "if op.name == 'logarithm': pass", "if op.name not in ('exp', 'logarithm'): pass",
    "TABLE = {'exp': 1, 'logarithm': 2, 'sin': 3}", "@RULES.rule('exp', some=('logarithm',))\ndef rewrite(): pass",
    "graph.maker(value, 'logarithm')"])
def test_name_of_no_op_is_found(code: str) -> None:
    assert [text for _, text in unknown_names(code)] == ["logarithm"]
