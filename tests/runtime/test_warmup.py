"""What is prepared for first calls, beside them: when, and when not."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from adjit.codegen.process.cores import usable_cores
from adjit.codegen.process.fork_safety import no_fork
from adjit.runtime import warmup
from adjit.runtime.native.code import native_is_supported
from adjit.runtime.warmup import COMPILER_MODULES, WarmUp

pytestmark = pytest.mark.skipif(not native_is_supported(), reason="native programs are for CPython on Linux on x86-64")


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was prepared."""
    found: list[str] = []
    monkeypatch.setattr(warmup, "disk_cache", lambda: SimpleNamespace(is_empty=lambda: True))
    monkeypatch.setattr(warmup, "compiler_source", lambda: found.append("source"))
    monkeypatch.setattr(warmup, "import_module", found.append)
    monkeypatch.setattr(warmup, "warm_up", lambda target: found.append("LLVM"))
    monkeypatch.setattr(warmup, "TEAM_CODE", SimpleNamespace(get=lambda: found.append("pool")))
    return found


EVERYTHING = ["LLVM", "source", *COMPILER_MODULES, "pool"]


def started() -> tuple[WarmUp, threading.Thread]:
    prepared = WarmUp()
    prepared.start()
    thread = prepared.thread
    prepared.start()
    assert thread is not None
    assert prepared.thread is thread
    return prepared, thread


@pytest.mark.parametrize("wanted", [True, False])
def test_only_llvm_is_not_held_up_by_a_first_call(done: list[str], wanted: bool) -> None:
    with no_fork():     # as first calls are
        prepared, thread = started()
        while not done:
            time.sleep(0.001)
        time.sleep(0.02)
        assert done == ["LLVM"]
        prepared.notify_cache_lookup(wanted)
        thread.join(60)
    assert not thread.is_alive()
    assert done == ["LLVM"]      # the rest is Python, which would keep the first call waiting


def test_where_programs_are_on_disk_only_a_miss_prepares(done: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warmup, "disk_cache", lambda: SimpleNamespace(is_empty=lambda: False))
    prepared = WarmUp()
    prepared.notify_cache_lookup(missed=True)       # of an op, before any `compile`
    assert prepared.thread is None
    prepared = WarmUp()
    prepared.start()
    prepared.notify_cache_lookup(missed=False)
    assert prepared.thread is None
    prepared.notify_cache_lookup(missed=True)
    assert prepared.thread is not None
    prepared.thread.join(60)
    assert done == ["LLVM"]


def test_before_a_first_call_there_is_time_for_the_pool(done: list[str]) -> None:
    _, thread = started()
    thread.join(60)
    assert done == EVERYTHING


@pytest.mark.skipif(usable_cores() == 1, reason="on one core nothing is prepared")
def test_first_calls_find_it_done() -> None:
    """The modules there are what programs take, and nothing but rarer ops' modules is left; in a process that compiles nothing else."""
    script = """
import sys
import numpy as np
import adjit as aj
from adjit.runtime.warmup import WARM_UP

loss = lambda w, x: np.sum(np.log(np.exp(-np.tanh(x @ w)) + 1))
from adjit.runtime.native.threads import TEAM_CODE
step = aj.compile(aj.value_and_grad(loss), backend="native", threads=2)
WARM_UP.thread.join()
assert TEAM_CODE.loaded is not None
before = set(sys.modules)
step(np.ones((64, 64)), np.ones((64, 64)))
print(*(name for name in sys.modules if name not in before and name.startswith("adjit.codegen")))
"""
    command = ["env", "ADJIT_CACHE_SIZE=0", "ADJIT_VERIFY=", sys.executable, "-c", script]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == []


def test_a_process_that_ends_does_not_wait_for_it() -> None:
    script = """
import time
import adjit as aj
from adjit.runtime import warmup

warmup.import_module = lambda name: (time.sleep(0.3), print(name, flush=True))
aj.compile(abs, backend="native", threads=2)
"""
    ran = subprocess.run(["env", "ADJIT_CACHE_SIZE=0", sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert len(ran.stdout.split()) < len(COMPILER_MODULES)
    assert not ran.stderr
