"""`help` and `inspect.signature` of functions named after NumPy's and SciPy's show what these take, and what is not supported."""

from __future__ import annotations

import inspect
import pydoc
import subprocess
import sys

import numpy as np
from support.each import parametrize_within

import adjit as aj
from adjit.numpy import _FUNCTIONS
from adjit.special import _UFUNCS


@parametrize_within("name", sorted(_FUNCTIONS))
def test_functions_say_what_they_take(name: str) -> None:
    function = getattr(aj.numpy, name)
    assert function is _FUNCTIONS[name]
    parameters = inspect.signature(function).parameters
    assert "kwargs" not in parameters or name in ("apply_along_axis", "clip", "einsum", "pad")
    assert all(p.annotation is p.empty for p in parameters.values())
    text = pydoc.render_doc(function, renderer=pydoc.plaintext)
    assert "Equivalent of `numpy." in text
    assert "TracedArray" not in text
    assert ("`ShapeError`" in text) or ("`UnsupportedError`" in text)
    if not isinstance(getattr(np, name), np.ufunc):
        try:
            theirs = inspect.signature(getattr(np, name)).parameters
        except ValueError:
            return
        assert list(parameters) == [p for p in theirs if p in parameters]
        for each in theirs.keys() - parameters.keys():
            assert f"`{each}`" in text, "neither taken nor said to be missing"


@parametrize_within("name", sorted(_UFUNCS))
def test_special_functions_say_what_they_take(name: str) -> None:
    parameters = inspect.signature(getattr(aj.special, name)).parameters
    options = ["out", "where", "casting", "order", "dtype", "subok"]
    operands = [each for each in parameters if each not in options]
    assert list(parameters) == operands + options
    assert operands in (["x"], [f"x{number + 1}" for number in range(len(operands))])
    getattr(aj.special, name)(*[2] * len(operands))


def test_what_is_missing_is_named() -> None:
    assert list(inspect.signature(aj.numpy.sum).parameters) == ["a", "axis", "dtype", "out", "keepdims", "initial", "where"]
    assert list(inspect.signature(aj.numpy.add).parameters) == ["x1", "x2", "out", "where", "casting", "order", "dtype", "subok"]
    assert list(inspect.signature(aj.linalg.norm).parameters) == ["x", "ord", "axis", "keepdims"]
    assert aj.numpy.around.__doc__ == _FUNCTIONS["round"].__doc__


def test_they_are_made_when_they_are_asked_for() -> None:
    code = """
import sys, adjit
print("adjit.numpy_signatures" in sys.modules)
adjit.numpy.sum
print("adjit.numpy_signatures" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
