"""The stubs that type checkers read are those of the methods and functions that there are: `docs/make_tensor_stubs.py` writes them."""

from __future__ import annotations

import ast
import inspect
import runpy
from typing import Any, get_type_hints

import numpy as np
import pytest
from support.each import parametrize_within
from support.project import ROOT

import adjit as aj
from adjit.tensor_functions import FUNCTIONS, METHODS

SCRIPT = runpy.run_path(str(ROOT / "docs" / "make_tensor_stubs.py"))


@pytest.mark.parametrize("which", ["methods", "functions"])
def test_stubs_are_up_to_date(which: str) -> None:
    assert SCRIPT[f"{which}_stub"]() == SCRIPT[f"{which.upper()}_STUB"].read_text(), "run: python docs/make_tensor_stubs.py"


def names(stub: str) -> set[str]:
    tree = ast.parse(SCRIPT[stub].read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)} | {
        node.target.id for node in ast.walk(tree) if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)}


def test_every_public_name_has_a_type() -> None:
    public = {name for name in dir(aj.Tensor) if not name.startswith("_")}
    assert public - names("METHODS_STUB") - SCRIPT["OF_THE_COMPILER"] == {"dtype", "ndim", "shape"}      # of the class itself
    imported = {alias.asname for node in ast.walk(ast.parse(SCRIPT["FUNCTIONS_STUB"].read_text()))
                if isinstance(node, ast.ImportFrom) and str(node.module).startswith("adjit.tensor_") for alias in node.names}
    assert names("FUNCTIONS_STUB") == set(METHODS)
    assert imported == {name for name in FUNCTIONS if FUNCTIONS[name].__name__ == name} - set(METHODS)


ARGUMENTS: dict[str, Any] = {
    "min": 0.5, "max": 0.75, "exponent": 2.0, "weight": 0.5, "value": 2.0, "k": 1, "chunks": 1, "split_size": 1, "shifts": 1, "repeats": 2,
    "start": 0, "length": 1, "dim": 0, "index": 0, "mask": np.array([[True, False], [False, True]])}
OF_A_VECTOR = {"logical_and", "logical_or", "logical_xor", "logical_not", "diag", "outer", "flatten"}
OF_SPECIAL_ARGUMENTS = {
    "addbmm", "addmv", "addr", "baddbmm", "bernoulli", "bincount", "bitwise_and", "bitwise_left_shift", "bitwise_not", "bitwise_or",
    "bitwise_right_shift", "bitwise_xor", "bmm", "broadcast_to", "cholesky", "clamp", "clip", "cross", "diagonal_scatter", "dot",
    "dsplit", "flip", "gather", "gcd", "ger", "hsplit", "index_add", "index_copy", "index_fill", "index_put", "index_reduce",
    "index_select", "is_nonzero", "lcm", "lu_solve", "masked_scatter", "matrix_power", "moveaxis", "movedim", "multinomial", "mv",
    "mvlgamma", "nanquantile", "nonzero_static", "orgqr", "ormqr", "permute", "prelu", "put", "quantile", "renorm", "reshape",
    "scatter", "scatter_add", "scatter_reduce", "select_scatter", "slice_scatter", "split_with_sizes", "swapaxes", "swapdims", "t",
    "stft", "istft", "unsafe_split_with_sizes",
    "take_along_dim", "tensor_split", "tile", "transpose", "unflatten", "vdot", "vsplit"}


@parametrize_within("name", sorted({*METHODS} - OF_SPECIAL_ARGUMENTS))
def test_defaults_are_those_that_the_signature_shows(name: str) -> None:
    signature = inspect.signature(getattr(aj, name))
    first, *others = signature.parameters.values()
    assert first.name == "input"
    matrix = aj.tensor([[0.25, 0.5], [0.75, 0.5]])
    matrix = matrix[0] if name in OF_A_VECTOR else matrix
    given = [ARGUMENTS.get(p.name, matrix) for p in others if p.default is p.empty and p.kind is not p.VAR_POSITIONAL]
    shown = {p.name: p.default for p in others if p.default is not p.empty}
    found, expected = getattr(aj, name)(matrix, *given, **shown), getattr(aj, name)(matrix, *given)
    assert str(found) == str(expected)


def test_every_function_is_public_to_type_checkers() -> None:
    """Names that are not in `__all__` are private where a package is typed: pyright refuses `adjit.exp` then."""
    stub = ast.parse(SCRIPT["FUNCTIONS_STUB"].read_text())
    (listed,) = [node.value for node in stub.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"]
    assert set(ast.literal_eval(listed)) == set(FUNCTIONS)
    package = ast.parse((ROOT / "api" / "__init__.py").read_text())
    assert "__all__ += tensor_function_names.__all__" in map(ast.unparse, ast.walk(package))


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_annotations_of_functions_and_methods_can_be_evaluated(name: str) -> None:
    assert "return" in get_type_hints(FUNCTIONS[name])
    if name in METHODS:
        assert "return" in get_type_hints(getattr(aj.Tensor, name))
