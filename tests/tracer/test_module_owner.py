"""What belongs to an installed library is compared by identity: it costs nothing at a call, and none of its code is run."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit.tracer.guards.module_owner import ModuleOwner, owner_of
from adjit.tracer.guards.reachability import Reachability

LIBRARY = '''
import numpy as np

LIMIT = 3.0
TABLE = {"a": 1.0}


class Trap:
    """Runs nothing of its own without a noise."""

    def __getattr__(self, name):
        raise RuntimeError(f"{name} was asked for")

    __wrapped__ = property(lambda self: 1 / 0)


trap = Trap()


class Model:
    """As estimators are: attributes that `fit` sets."""

    def fit(self, scale):
        self.scale_ = scale
        self.means_ = np.full(3, scale)
        return self

    def transform(self, x):
        return x * self.scale_


class Frame:
    """Its content is somewhere else, as that of pandas is."""

    __slots__ = ("_held",)

    def __init__(self, value):
        self._held = [value]

    def __getitem__(self, key):
        return self._held[0]

    def __setitem__(self, key, value):
        self._held[0] = value


class Odd(list):
    """Takes lists over, as pandas' FrozenList does."""

    def __radd__(self, other):
        return Odd([*other, *self])


def plot(x):
    return TABLE["a"] + x


def decorate(function):
    def call(*args):
        return function(*args)
    return call
'''


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "library_of_others.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(str(folder))
    owner_of.cache_clear()
    yield importlib.import_module("library_of_others")
    del sys.modules["library_of_others"]
    owner_of.cache_clear()


def test_homes(library: ModuleType) -> None:
    names = ("library_of_others", "numpy.linalg", "adjit.tracer", "types", "__main__", "test_module_owner", "nowhere")
    assert [owner_of(name) for name in names] == [
        ModuleOwner.LIBRARY, ModuleOwner.KNOWN, ModuleOwner.OURS, ModuleOwner.KNOWN, ModuleOwner.USER, ModuleOwner.USER, ModuleOwner.USER]


def test_a_library_that_is_named_is_not_walked(library: ModuleType) -> None:
    def fun(x: Any) -> Any:
        if x.shape[0] > 100:
            library.plot(library.trap.anything)
        return x * 2

    reach = Reachability([fun])
    assert all("library" not in source.path or source.path == "library" for source in reach.found)
    assert len(reach.codes) == 1
    assert aj.compile(fun)(np.ones(2)).tolist() == [2.0, 2.0]


def test_numbers_of_a_library_that_are_named_are_compared(library: ModuleType) -> None:
    compiled = aj.compile(lambda x: x * library.LIMIT)
    assert compiled(1.0) == 3.0
    library.LIMIT = 4.0
    assert compiled(1.0) == 4.0


def test_estimators(library: ModuleType) -> None:
    model = library.Model().fit(2.0)
    read, called = aj.compile(lambda x: x * model.scale_ + model.means_), aj.compile(lambda x: model.transform(x))
    for scale in (2.0, 2.0, 5.0):
        model.fit(scale)
        assert read(np.ones(3)).tolist() == [2 * scale] * 3
        assert called(np.ones(3)).tolist() == [scale] * 3


def test_what_cannot_be_seen_is_said_once(library: ModuleType) -> None:
    frame = library.Frame(2.0)
    gradient = aj.grad(lambda x: x * x * frame["a"])
    with pytest.warns(UserWarning, match=r"names frame \(library_of_others.Frame\), and adjit cannot see") as caught:
        values = [gradient(1.0) for _ in range(3)]
    assert values == [4.0] * 3
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_objects_that_answer_to_everything_or_take_lists_over(library: ModuleType) -> None:
    class Anything:
        def __getattr__(self, name: str) -> Any:
            return 2.0

    class Nothing:
        def __getattr__(self, name: str) -> Any:
            raise KeyError(name)

    anything, nothing, odd, trap = Anything(), Nothing(), library.Odd([1.0]), library.trap
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = aj.compile(lambda x: x * anything.rate * len(odd) if nothing is not trap else x)
        assert compiled(1.0) == 2.0
        assert compiled(aj.tensor([1.0])).item() == 2.0


def test_a_function_that_a_library_decorates_is_followed(library: ModuleType) -> None:
    rate = 2.0

    @library.decorate
    def scaled(x: Any) -> Any:
        return x * rate

    compiled = aj.compile(lambda x: scaled(x))
    assert compiled(1.0) == 2.0
    rate = 3.0
    assert compiled(1.0) == 3.0


@pytest.mark.parametrize("name", ["pandas", "jax", "torch", "matplotlib.pyplot", "sklearn.metrics"])
def test_libraries_that_are_installed(name: str) -> None:
    module = pytest.importorskip(name)
    compiled = aj.compile(lambda x: x * 2 if x.shape[0] < 100 else module.plot(module.optim.Adam))
    assert compiled(np.ones(2)).tolist() == [2.0, 2.0]
    assert len(compiled.programs()[0].trace.guards.fixed) < 20


def test_a_data_frame_in_a_closure() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1.0, 2.0, 3.0]})
    slope = aj.grad(lambda w: np.sum((frame["a"].to_numpy() * w) ** 2))
    assert slope(1.0) == 28.0
    frame["a"] = [1.0, 0.0, 0.0]        # which is noticed, without a warning
    assert slope(1.0) == 2.0


def test_an_array_of_jax_in_a_closure() -> None:
    array = pytest.importorskip("jax.numpy").ones(3)
    assert aj.grad(lambda w: np.sum(np.asarray(array) * w))(W).tolist() == [1.0, 1.0, 1.0]


W = np.array([1.0, 2.0, 3.0])
