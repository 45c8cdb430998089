"""The array standard (https://data-apis.org/array-api) on tensors and traced arrays.

Its suite, array-api-tests, is in no package registry: with `ARRAY_API_TESTS` set to a clone of it, with its submodule, it runs here, but
for the tests in `tests/support/array_api_fails.txt`, each of which has its reason. `test_array_api_functions.py` calls each function.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.array_api_namespace import xp
from support.project import ROOT

import adjit as aj
from adjit.ir.errors import UnsupportedError

SUITE = os.environ.get("ARRAY_API_TESTS", "")
FAILS = ROOT / "tests" / "support" / "array_api_fails.txt"
PASSING = {"xp": 1325, "compiled": 1310}
"""Tests of the suite of 1,380 that pass at least (1,329 and 1,323 with NumPy 2.4; 14 are for later versions of the standard)."""

BY_VALUES = ["--disable-data-dependent-shapes", "--deselect=array_api_tests/test_manipulation_functions.py::test_repeat"]
"""Options for programs: what a traced array chooses by its values, and repeats that are traced, have no shape."""


@pytest.mark.skipif(not SUITE, reason="ARRAY_API_TESTS is no folder with a clone of data-apis/array-api-tests")
@pytest.mark.parametrize("namespace", PASSING)
def test_the_suite(namespace: str) -> None:
    missing = [name for name in ("hypothesis", "ndindex", "pytest_jsonreport") if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"the suite needs {', '.join(missing)}")
    environment = {**os.environ, "ARRAY_API_TESTS_MODULE": f"exec('from support.array_api_namespace import {namespace} as xp')",
                   "PYTHONPATH": os.pathsep.join([str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")])}
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short", "--derandomize", "--disable-deadline",
         "--max-examples=5", f"--xfails-file={FAILS}", *(BY_VALUES if namespace == "compiled" else ()), "array_api_tests"],
        cwd=Path(SUITE), env=environment, capture_output=True, text=True, check=False)
    counts = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|xpassed|xfailed|error)", run.stdout.splitlines()[-1])}
    assert run.returncode == 0, run.stdout[-4000:]
    assert counts["passed"] >= PASSING[namespace], counts


def test_namespaces_of_tensors_and_traced_arrays() -> None:
    assert aj.tensor([1.0]).__array_namespace__() is np
    found = []
    aj.compile(lambda x: (found.append(x.__array_namespace__(api_version="2023.12")), x)[1])(np.ones(2))
    assert found == [np]


def test_devices_of_tensors() -> None:
    x = xp.asarray([1.0, 2.0], device="cpu")
    assert x.to_device("cpu") is x.to_device(x.device) is x
    with pytest.raises(UnsupportedError, match="the device mps"):
        x.to_device("mps")
    with pytest.raises(ValueError, match="there is one stream"):
        x.to_device("cpu", stream=1)
    exported = x.__dlpack__(stream=None, max_version=(1, 0), dl_device=x.__dlpack_device__(), copy=True)
    assert "dltensor" in repr(exported)


def _indices(x: Any) -> list[Any]:
    return [x[True], x[False], x[:, True], x[True, ..., 0], x[None, True, 1], x[True, [1, 0]], x[[0, 1], True], x[np.True_, 1],
            x[np.array(True)], x[True, np.array([True, False])], x[False, 0], x[True, True]]


def test_single_bools_as_indices() -> None:
    x = np.arange(6.0).reshape(2, 3)
    expected = _indices(x)
    for found in (aj.compile(_indices, backend="interpret")(x), [part.numpy() for part in _indices(aj.tensor(x))]):
        for number, (mine, theirs) in enumerate(zip(found, expected, strict=True)):
            np.testing.assert_array_equal(mine, theirs, str(number), strict=True)


def _writes(x: Any) -> Any:
    y = x * 1
    y[True] = 3 * x
    y[False] = 7
    y[:, np.True_] += 1
    y[True, 0] = 0
    return y


def test_writes_to_single_bools() -> None:
    x = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(aj.compile(_writes, backend="interpret")(x), _writes(x))
    tensor = aj.tensor(x, requires_grad=True)
    written = _writes(tensor)
    np.testing.assert_array_equal(written.detach(), _writes(x))
    written.sum().backward()
    np.testing.assert_array_equal(tensor.grad, [[0.0] * 3, [3.0] * 3])
    np.testing.assert_array_equal(aj.grad(lambda x: _writes(x).sum())(x), tensor.grad)


def test_an_array_of_one_bool_is_compared() -> None:
    flag = np.array(True)
    chosen = aj.compile(lambda x: x[flag] * 2)
    assert chosen(np.ones(3)).shape == (1, 3)
    flag[...] = False
    assert chosen(np.ones(3)).shape == (0, 3)


def _by_one_bool(x, t):
    scalar, written, column = np.float64(2.5) * t, x.copy(), x.copy()
    written[t > 0] += x * 3
    column[:, t > 0] = 7
    return (x[t > 0], x[t > 0].sum(axis=0), x[:, t > 0, 1:].sum(), np.sum(scalar[scalar > 0]), len(x[t > 0]), written, column,
            np.piecewise(t, [t < 0, t >= 0], [lambda z: -z, lambda z: 2 * z]))


def test_a_traced_bool_is_a_mask_of_an_axis_of_its_own() -> None:
    x, compiled = np.arange(6.0).reshape(2, 3), aj.compile(_by_one_bool)
    for t in (np.array(1.0), np.array(-1.0)):
        for found, expected in zip(compiled(x, t), _by_one_bool(x, t), strict=True):
            assert np.shape(found) == np.shape(expected)
            np.testing.assert_array_equal(found, expected)
    gradient = aj.grad(lambda x: np.sum(x[x > 0] ** 2))
    assert (gradient(2.5), gradient(-2.5)) == (5.0, 0.0)


def test_a_traced_bool_of_what_a_mask_chose_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="chooses from what a traced mask chose"):
        aj.compile(lambda x: x[x > 0][x[0] > 0])(np.ones(3))


def test_factors_of_matrices_without_elements() -> None:
    x = np.zeros((2, 0, 0))
    assert aj.compile(np.linalg.cholesky, backend="interpret")(x).shape == np.linalg.cholesky(aj.tensor(x)).shape == (2, 0, 0)
    assert aj.grad(lambda x: np.linalg.cholesky(x).sum())(x).shape == (2, 0, 0)
