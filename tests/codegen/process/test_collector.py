"""Compiling holds off Python's collector of cycles, and leaves it as it was."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support.forks import in_child
from support.whole_pipeline import replace_passes

import adjit as aj
from adjit.codegen.process import fork_safety
from adjit.codegen.process import gc_pause as collector_module
from adjit.codegen.process.gc_pause import gc_paused
from adjit.ir.graph import Graph
from adjit.passes.options import Options


@pytest.fixture(autouse=True)
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("ADJIT_CACHE_SIZE", "0")     # programs on disk are not compiled
    yield
    gc.enable()


def test_blocks_within_blocks() -> None:
    with gc_paused():
        with gc_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    with gc_paused():
        pass
    assert not gc.isenabled()


def test_it_is_on_again_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), gc_paused():
        raise ZeroDivisionError
    assert gc.isenabled()


@pytest.mark.share(2)
@pytest.mark.parametrize(("is_first", "walks"), [(True, 0), (False, 1)], ids=["first", "later"])
def test_what_the_first_block_makes_is_old_at_once(is_first: bool, walks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """And is still collected when it is garbage, as everything else."""
    monkeypatch.setattr(collector_module, "_is_first", is_first)
    runs: list[int] = []
    gc.unfreeze()                       # what the suite has frozen: nothing is done where something is
    frozen = gc.get_freeze_count()      # Python 3.12 has frozen some: then nothing is done, for it could not be undone

    def count(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            runs.append(info["generation"])

    gc.collect()
    gc.callbacks.append(count)
    try:
        with gc_paused():
            cycles: list[Any] = [[] for _ in range(2 * gc.get_threshold()[0])]
            cycles.append(cycles)
        more: list[Any] = [[] for _ in range(10)]
        assert len(runs) == (1 if frozen else walks)
    finally:
        gc.callbacks.remove(count)
    assert gc.get_freeze_count() == frozen
    del cycles, more
    assert gc.collect() > 2 * gc.get_threshold()[0]


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork.*:DeprecationWarning")
def test_a_child_that_was_forked_meanwhile_collects() -> None:
    """The block of the other thread does not end there; that of the thread that forks does."""
    inside, leave = threading.Event(), threading.Event()

    def stay() -> None:
        with gc_paused():
            inside.set()
            leave.wait()

    thread = threading.Thread(target=stay)
    thread.start()
    inside.wait()

    def within() -> bool:
        return not gc.isenabled()

    try:
        assert in_child(gc.isenabled) == 0
        with gc_paused():
            assert in_child(within) == 0
    finally:
        leave.set()
        thread.join()
    assert gc.isenabled()


def test_backward_halves_are_compiled_without_forks(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is locked in the midst of a compilation would stay locked in the child, whoever asked for it."""
    inside = []

    def passes(*arguments: object) -> object:
        inside.append(threading.get_ident() in fork_safety._guard.active)
        return run(*arguments)

    run = replace_passes(monkeypatch, passes)
    weight = aj.tensor(np.ones(3), requires_grad=True)
    aj.compile(lambda x: (x * weight).tanh().sum())(aj.tensor(np.ones(3))).backward()
    assert len(inside) > 1
    assert all(inside)


def test_nothing_is_collected_while_passes_run(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def passes(graph: Graph, options: Options, *rest: object) -> object:
        seen.append(gc.isenabled())
        return run(graph, options, *rest)

    run = replace_passes(monkeypatch, passes)
    assert aj.compile(lambda x: np.tanh(x) + 0.125)(np.zeros(3)).shape == (3,)
    assert seen == [False]
    assert gc.isenabled()
