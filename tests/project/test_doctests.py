"""The examples in docstrings, of every module of the package."""

from __future__ import annotations

import doctest
import importlib

import numpy as np
import pytest
from support.project import modules

MODULES = sorted(name for name in modules() if not name.endswith("__main__"))


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str) -> None:
    module = importlib.import_module(name)
    outcome = doctest.testmod(module, extraglobs={"np": np}, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert outcome.failed == 0


@pytest.mark.parametrize("name", ["adjit", "adjit.nn.functional", "adjit.numpy", "adjit.optim", "adjit.random"])
def test_public_functions_show_an_example(name: str) -> None:
    module = importlib.import_module(name)
    for public in module.__all__:
        thing = getattr(module, public)
        if callable(thing) and not isinstance(thing, type):
            assert ">>> " in (thing.__doc__ or ""), f"{name}.{public} shows no example"
