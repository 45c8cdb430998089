"""Compiling holds off Python's collector of cycles, and leaves it as it was."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import numpy as np
import pytest

import adjit as aj
from adjit.ir.graph import Graph
from adjit.passes.options import Options
from adjit.runtime import compile_graph
from adjit.runtime.collector import no_collection


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    yield
    gc.enable()


def test_blocks_within_blocks() -> None:
    with no_collection():
        with no_collection():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    with no_collection():
        pass
    assert not gc.isenabled()


def test_it_is_on_again_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), no_collection():
        raise ZeroDivisionError
    assert gc.isenabled()


def test_nothing_is_collected_while_passes_run(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    run = compile_graph.run_pipeline

    def passes(graph: Graph, options: Options, *rest: object) -> object:
        seen.append(gc.isenabled())
        return run(graph, options, *rest)

    monkeypatch.setattr(compile_graph, "run_pipeline", passes)
    assert aj.compile(lambda x: np.tanh(x) + 0.125)(np.zeros(3)).shape == (3,)
    assert seen == [False]
    assert gc.isenabled()
