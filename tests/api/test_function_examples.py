"""The examples that `help` shows of generated functions are true, and nearly every function has one: `docs/make_examples.py`."""

from __future__ import annotations

import doctest
import runpy
from typing import Any

import pytest
from support.project import ROOT

import adjit as aj
from adjit.function_examples import EXAMPLES
from adjit.tensor_functions import METHODS


def test_examples_are_up_to_date() -> None:
    script = runpy.run_path(str(ROOT / "docs" / "make_examples.py"))
    assert script["text"]() == script["EXAMPLES"].read_text(), "run: python docs/make_examples.py"


def function_of(name: str) -> Any:
    module, _, short = name.rpartition(".")
    return getattr(getattr(aj, module) if module else aj, short)


@pytest.mark.parametrize("name", EXAMPLES)
def test_help_shows_an_example_that_runs(name: str) -> None:
    text = function_of(name).__doc__
    found = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
    assert found.examples
    report: list[str] = []
    runner = doctest.DocTestRunner(verbose=False)
    runner.run(found, out=report.append)
    assert not runner.failures, "".join(report)


def test_nearly_every_function_has_an_example() -> None:
    names = [*METHODS, *(f"numpy.{name}" for name in aj.numpy._FUNCTIONS), *(f"special.{name}" for name in dir(aj.special))]
    without = {name for name in names if ">>>" not in (function_of(name).__doc__ or "")}
    assert len(without) < 0.15 * len(names), without
