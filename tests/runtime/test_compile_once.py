"""Processes that need the same program at the same time: one compiles it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="native programs")

SCRIPT = """
import sys, time, os
import numpy as np
import adjit as aj
def loss(w, x, y):
    h = np.tanh(x @ w["a"] + w["b"])
    return np.mean((np.tanh(h @ w["c"]) @ w["d"] - y) ** 2) + SCALE * np.sum(w["a"])
w = {"a": np.ones((50, 64)), "b": np.ones(64), "c": np.ones((64, 32)), "d": np.ones(32)}
f = aj.compile(aj.value_and_grad(loss))
print("ready", flush=True)
sys.stdin.readline()
begin, worked = time.perf_counter(), sum(os.times()[:2])
f(w, np.ones((128, 50)), np.ones(128))
print(time.perf_counter() - begin, sum(os.times()[:2]) - worked, "compiled: " in f.explain(), flush=True)
"""


def first_calls(count: int, folder: Path, scale: float) -> list[tuple[float, float, bool]]:
    """Seconds, seconds of CPU, and whether it compiled, of the first call in each of `count` processes that begin at once."""
    environment = {**os.environ, "ADJIT_CACHE_DIR": str(folder), "ADJIT_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    processes = [subprocess.Popen([sys.executable, "-c", SCRIPT.replace("SCALE", str(scale))], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True, env=environment) for _ in range(count)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    found = []
    for process in processes:
        wall, cpu, compiled = process.communicate(timeout=60)[0].split()
        found.append((float(wall), float(cpu), compiled == "True"))
    return found


def test_one_of_four_processes_compiles(tmp_path: Path) -> None:
    alone = first_calls(1, tmp_path / "one", 1.0)
    four = first_calls(4, tmp_path / "four", 1.0)
    assert [compiled for _, _, compiled in alone] == [True]
    assert sorted(compiled for _, _, compiled in four) == [False, False, False, True]
    assert sum(cpu for _, cpu, _ in four) < 2.5 * alone[0][1], "three of them read what the fourth wrote"
    assert list((tmp_path / "four").glob("*.lock")) == list((tmp_path / "four").glob(".*.lock")) == []


def test_a_process_that_dies_while_it_compiles_holds_up_nobody(tmp_path: Path) -> None:
    code = ("import sys, time; from adjit.runtime.caches.compile_once import compile_once\n"
            "with compile_once('1' * 64):\n    print('locked', flush=True); time.sleep(float(sys.argv[1]))")
    environment = {**os.environ, "ADJIT_CACHE_DIR": str(tmp_path)}

    def start(seconds: float) -> subprocess.Popen[str]:
        return subprocess.Popen([sys.executable, "-c", code, str(seconds)], stdout=subprocess.PIPE, text=True, env=environment)

    first = start(60)
    assert first.stdout is not None
    assert first.stdout.readline() == "locked\n"
    second = start(0)
    with pytest.raises(subprocess.TimeoutExpired):
        second.wait(1.0)
    first.send_signal(signal.SIGKILL)
    begin = time.perf_counter()
    assert second.wait(30) == 0
    assert time.perf_counter() - begin < 10
    first.wait()
