"""Ctrl-C at random moments, twenty times a second, while a process compiles: it goes on as if nothing had been, or ends.

`--exhaustive` has dozens of processes do so.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time

import pytest

INTERVAL = 0.05

COMPILING = """
import faulthandler, os, signal, sys, time
import numpy as np
import adjit as aj

faulthandler.enable()
seed, seconds = int(sys.argv[1]), float(sys.argv[2])
delivered = 0

def handler(number, frame):
    global delivered
    delivered += 1
    raise KeyboardInterrupt

signal.signal(signal.SIGINT, handler)

def compile_one(k):
    function = aj.compile(aj.value_and_grad(lambda x: np.sum(np.sin(x * k) @ np.cos(x.T) * np.exp(-x[:, :1] * k))))
    function(np.ones((5, 5 + int(k) % 7)))

k = caught = 0

def compile_on():
    global k
    print("ready", flush=True)
    while time.monotonic() < end:
        k += 1
        compile_one(k * 0.25 + seed)

end = time.monotonic() + seconds
"""

GOES_ON = COMPILING + """
def again(work, levels=4):
    global caught
    while True:
        try:
            return again(work, levels - 1) if levels else work()
        except KeyboardInterrupt:       # one that comes here is for the call around this one
            caught += 1

again(lambda: compile_on() or print("enough", flush=True) or sys.stdin.readline())
faulthandler.dump_traceback_later(20, exit=True)
np.testing.assert_allclose(aj.compile(lambda x: np.sin(x) * 4 + seed)(np.ones(4)), np.sin(np.ones(4)) * 4 + seed, rtol=1e-14)
assert signal.getsignal(signal.SIGINT) is handler
print(delivered, caught)
"""

ENDS = COMPILING + "compile_on()"


def pressed(program: str, seed: int, seconds: float) -> tuple[subprocess.Popen[str], int]:
    """A process that runs the program, and how often it was interrupted: until it says that it is enough, or is gone."""
    environment = {**os.environ, "ADJIT_CACHE_SIZE": "0"}
    process = subprocess.Popen([sys.executable, "-c", program, str(seed), str(seconds)], env=environment, text=True, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    os.set_blocking(process.stdout.fileno(), False)
    moments = random.Random(seed)
    presses = 0
    limit = time.monotonic() + seconds + 30
    while process.poll() is None and "enough" not in process.stdout.readline() and time.monotonic() < limit:
        time.sleep(INTERVAL * moments.uniform(0.5, 1.5))
        process.send_signal(signal.SIGINT)
        presses += 1
    os.set_blocking(process.stdout.fileno(), True)
    return process, presses


def seeds(exhaustive: bool) -> range:
    return range(40 if exhaustive else 1)


@pytest.mark.slow
def test_it_goes_on(exhaustive: bool) -> None:
    """It compiles what comes next, right and in time, has its own handler, and ends as always."""
    for seed in seeds(exhaustive):
        process, presses = pressed(GOES_ON, seed, 5 if exhaustive else 2)
        out, errors = process.communicate("\n", timeout=60)
        assert (process.returncode, errors) == (0, ""), (seed, out)
        delivered, caught = map(int, out.split()[-2:])
        assert 10 < delivered <= presses, seed
        assert delivered * 0.8 - 2 < caught <= delivered, seed      # one that comes while another one is raised takes its place


@pytest.mark.slow
def test_it_ends(exhaustive: bool) -> None:
    """A process that ends in the midst of a compilation does not crash, however often it is pressed on its way."""
    for seed in seeds(exhaustive):
        process, _ = pressed(ENDS, seed, 5)
        _, errors = process.communicate(timeout=60)
        assert process.returncode in (0, 1, -signal.SIGINT), (seed, process.returncode, errors)
        assert "Fatal" not in errors, (seed, errors)
