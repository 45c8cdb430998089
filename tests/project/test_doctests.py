"""The examples in docstrings, of every module of the package."""

from __future__ import annotations

import doctest
import importlib

import numpy as np
import pytest
from support.project import PUBLIC_MODULES, modules

MODULES = sorted(name for name in modules() if not name.endswith("__main__"))


@pytest.mark.share(3)
@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str) -> None:
    module = importlib.import_module(name)
    outcome = doctest.testmod(module, extraglobs={"np": np}, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert outcome.failed == 0


@pytest.mark.parametrize("name", PUBLIC_MODULES)
def test_everything_public_shows_an_example(name: str) -> None:
    module = importlib.import_module(name)
    for public in module.__all__:
        thing = getattr(module, public)
        if callable(thing) and thing.__module__.startswith("adjit"):
            assert ">>> " in (thing.__doc__ or ""), f"{name}.{public} shows no example"


@pytest.mark.parametrize("name", PUBLIC_MODULES)
def test_public_docstrings_begin_with_their_noun(name: str) -> None:
    module = importlib.import_module(name)
    for public in module.__all__:
        thing = getattr(module, public)
        members = [member for key, member in vars(thing).items() if not key.startswith("_")] if isinstance(thing, type) else []
        for each in (thing, *members):
            doc = getattr(each, "__doc__", None) if callable(each) or isinstance(each, property) else None
            if doc and getattr(each, "__module__", "adjit").startswith("adjit"):
                assert doc.split()[0] not in ("What", "Which", "That", "Where", "Whether", "How", "When"), f"{name}.{public}: {doc}"
