"""The page about tensors and their graph: all of its examples are run, by `test_readme.py`, and every picture on it can be drawn."""

from __future__ import annotations

import importlib.util
import re
from typing import Any

import pytest
from support.project import ROOT

PAGE = (ROOT / "docs" / "autograd.md").read_text()


def pictures() -> Any:
    specification = importlib.util.spec_from_file_location("make_pictures", ROOT / "docs" / "make_pictures.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_all_blocks_are_run() -> None:
    assert set(re.findall(r"^```(\w+)", PAGE, re.MULTILINE)) == {"pycon"}


def test_pictures_are_there_and_up_to_date() -> None:
    module = pictures()
    assert set(re.findall(r"\(pictures/(\w+)\.svg\)", PAGE)) == set(module.PICTURES)
    pytest.importorskip("graphviz")
    for name, picture in module.PICTURES.items():
        drawn = (module.FOLDER / f"{name}.svg").read_text()
        nodes = re.findall(r"label=\"?(\w+Backward\d|AccumulateGrad|CopySlices)", picture().source)
        assert len(nodes) > 1
        assert sorted(nodes) == sorted(re.findall(r">(\w+Backward\d|AccumulateGrad|CopySlices)</text>", drawn)), name
