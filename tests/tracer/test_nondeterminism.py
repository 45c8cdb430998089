"""Who draws random numbers or reads the clock in a traced function is warned, at that line, and nobody else is."""

from __future__ import annotations

import cProfile
import datetime
import functools
import io
import os
import queue
import random
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pytest
import scipy.stats
from numpy.random import randn

import adjit as aj
from adjit.tracer.guards import nondeterminism

X = np.ones(3)
GENERATOR, STATE, PYTHON = np.random.default_rng(0), np.random.RandomState(1), random.Random(2)
DRAW, SYSTEM, SEEDS = np.random.default_rng(4).normal, random.SystemRandom(), np.random.SeedSequence(5)
DRAW_THREE, BITS = functools.partial(np.random.default_rng(6).normal, size=3), np.random.PCG64(7)
GENERATORS = {"philox": np.random.Generator(np.random.Philox(3))}

NOTES, JOBS, DONE = io.StringIO("notes"), queue.Queue[Any](), threading.Event()
FOLDER = Path(tempfile.mkdtemp())


class Holder:
    def __init__(self) -> None:
        self.jobs = queue.SimpleQueue[Any]()

    def add(self, x: Any) -> Any:
        self.jobs.put(1)
        return x


HOLDER = Holder()


def put_into(jobs: Any, x: Any) -> Any:
    jobs.put(1)
    return x


@pytest.fixture(autouse=True)
def nobody_warned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nondeterminism, "_warned", set())


def warned(function: Callable[..., Any], *args: Any) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        aj.compile(function, backend="interpret")(*args or (X,))
    return [warning for warning in caught if issubclass(warning.category, RuntimeWarning)]


class Model:
    def __init__(self) -> None:
        self.weights = np.random.rand(3)
        self.rng = np.random.default_rng(1)

    def noisy(self, x):
        y = x * self.weights
        return y + self.rng.normal()

    def quiet(self, x):
        return x * self.weights


def through_a_helper(x):
    return x * elapsed()


def elapsed():
    return time.monotonic()


def in_a_nested_function(x):
    def scaled(v):
        return v * np.random.rand()

    return scaled(x)


def identity_keyed(rng: Any) -> Callable[[Any], Any]:
    def function(x):
        return x * rng.normal()

    return function


DRAWING: dict[str, tuple[Callable[..., Any], str, str]] = {
    "np.random": (lambda x: x * np.random.rand(), "np.random", "np.random.rand()"),
    "np.random, a permutation": (lambda x: x[np.random.permutation(3)], "np.random", "np.random.permutation(3)"),
    "imported from np.random": (lambda x: x * randn(), "np.random", "randn()"),
    "random": (lambda x: x * random.random(), "random", "random.random()"),
    "random.gauss": (lambda x: x * random.gauss(0, 1), "random", "random.gauss(0, 1)"),
    "a Generator": (lambda x: x * GENERATOR.normal(size=3), "GENERATOR", "GENERATOR.normal(size=3)"),
    "a RandomState": (lambda x: x * STATE.rand(), "STATE", "STATE.rand()"),
    "a random.Random": (lambda x: x * PYTHON.random(), "PYTHON", "PYTHON.random()"),
    "one in a dict": (lambda x: x * GENERATORS["philox"].random(), "GENERATORS['philox']", 'GENERATORS["philox"].random()'),
    "one of an object": (Model().noisy, ".rng", "self.rng.normal()"),
    "one of a closure": (identity_keyed(np.random.default_rng(4)), "rng", "rng.normal()"),
    "a bound method": (lambda x: x * DRAW(), "DRAW", "DRAW()"),
    "a partial": (lambda x: x * DRAW_THREE(), "DRAW_THREE", "DRAW_THREE()"),
    "a spawned one": (lambda x: x * GENERATOR.spawn(1)[0].normal(), "GENERATOR", "GENERATOR.spawn(1)"),
    "a spawned seed": (lambda x: x * np.random.default_rng(SEEDS.spawn(1)[0]).normal(), "SEEDS", "SEEDS.spawn(1)"),
    "bits": (lambda x: x * (BITS.random_raw() % 5), "BITS", "BITS.random_raw()"),
    "in a nested function": (in_a_nested_function, "np.random", "v * np.random.rand()"),
}
READING: dict[str, tuple[Callable[..., Any], str]] = {
    "time": (lambda x: x * time.time(), "time.time"), "imported": (lambda x: x * perf_counter(), "perf_counter"),
    "nanoseconds": (lambda x: x * time.perf_counter_ns(), "time.perf_counter_ns"),
    "datetime": (lambda x: x * datetime.datetime.now().timestamp(), "datetime.datetime.now"),
    "date": (lambda x: x * datetime.date.today().day, "datetime.date.today"), "through a helper": (through_a_helper, "time.monotonic"),
    "urandom": (lambda x: x * os.urandom(1)[0], "os.urandom"), "uuid": (lambda x: x * uuid.uuid4().int, "uuid.uuid4"),
    "secrets": (lambda x: x * secrets.randbelow(5), "secrets.randbelow"),
    "a token": (lambda x: x * len(secrets.token_hex(2)), "secrets.token_hex"),
    "SystemRandom": (lambda x: x * random.SystemRandom().random(), "random.SystemRandom"),
    "a SystemRandom": (lambda x: x * SYSTEM.random(), "SYSTEM.random"),
    "Random without a seed": (lambda x: x * random.Random().random(), "random.Random"),
    "RandomState without a seed": (lambda x: x * np.random.RandomState().rand(), "np.random.RandomState"),
    "bits without a seed": (lambda x: x * np.random.Generator(np.random.PCG64()).normal(), "np.random.PCG64"),
    "a seed of the system": (lambda x: x * (np.random.SeedSequence().entropy % 5), "np.random.SeedSequence"),
    "a generator of its own": (lambda x: x * np.random.default_rng().normal(), "np.random.default_rng"),
    "the hour": (lambda x: x * time.localtime().tm_hour, "time.localtime"),
    "the day as a text": (lambda x: x * int(time.strftime("%d")), "time.strftime"),
    "the folder": (lambda x: x * len(os.getcwd()), "os.getcwd"),
    "a folder's files": (lambda x: x * len(os.listdir("/")), "os.listdir"),
    "the process": (lambda x: x * os.getpid(), "os.getpid"),
    "whether a file is there": (lambda x: x * os.path.exists("/"), "os.path.exists"),
    "whether a path is there": (lambda x: x * FOLDER.exists(), "FOLDER.exists"),
    "a path's files": (lambda x: x * len(list(FOLDER.iterdir())), "FOLDER.iterdir"),
}
STREAMS: dict[str, tuple[Callable[..., Any], str]] = {
    "a stream": (lambda x: x * len(NOTES.getvalue()), "NOTES (StringIO.getvalue)"),
    "an event": (lambda x: x * DONE.is_set(), "DONE (Event.is_set)"), "a queue": (lambda x: x * JOBS.qsize(), "JOBS (Queue.qsize)"),
}
WRITING: dict[str, tuple[Callable[..., Any], str]] = {
    "a stream": (lambda x: (NOTES.write("a"), x)[1], "writes to NOTES (StringIO.write)"),
    "a queue": (lambda x: (JOBS.put(x.sum()), x)[1], "writes to JOBS (Queue.put)"),
    "a queue of an object": (lambda x: HOLDER.add(x), "writes to HOLDER.jobs (SimpleQueue.put)"),
    "a queue that is passed": (lambda x: put_into(JOBS, x), "writes to JOBS (Queue.put)"),
    "an array": (lambda x: (np.save(FOLDER / "a.npy", np.zeros(3)), x)[1], "writes files (np.save)"),
    "arrays": (lambda x: (np.savez(FOLDER / "a.npz", a=np.zeros(3)), x)[1], "writes files (np.savez)"),
    "a table": (lambda x: (np.savetxt(FOLDER / "a.txt", np.zeros(3)), x)[1], "writes files (np.savetxt)"),
    "a file": (lambda x: (open(FOLDER / "b", "a").close(), x)[1], "writes files (open)"),
    "a file by a keyword": (lambda x: (open(FOLDER / "b", mode="w").close(), x)[1], "writes files (open)"),
    "a path": (lambda x: ((FOLDER / "c").write_text("c"), x)[1], "writes files (FOLDER)"),
    "folders": (lambda x: (os.makedirs(FOLDER / "d/e", exist_ok=True), x)[1], "changes files (os.makedirs)"),
    "a folder": (lambda x: (shutil.rmtree(FOLDER / "d", ignore_errors=True), os.mkdir(FOLDER / "d"), x)[2], "changes files (os.mkdir)"),
}
QUIET: dict[str, Callable[..., Any]] = {
    "drawn outside": Model().quiet, "a seeded generator": lambda x: x * np.random.default_rng(0).normal(),
    "seeded generators": lambda x: (
        x * random.Random(0).random() * np.random.RandomState(0).rand() * np.random.Generator(np.random.PCG64(0)).normal()),
    "jumped": lambda x: x * np.random.Generator(np.random.PCG64(0).jumped()).normal(),
    "seeded within": lambda x: (np.random.seed(0), x * np.random.rand())[1], "a key": lambda x: x * aj.random.normal(aj.random.key(0), 3),
    "a branch not taken": lambda x: x if x.ndim == 1 else x * time.time() * np.random.rand() * random.random(),
    "other names": lambda x: x * len(os.path.join("time", "now")) * len(GENERATORS["philox"].bit_generator.state),
    "an hour that is given": lambda x: x * time.localtime(3.0).tm_hour,
    "a day that is given": lambda x: x * int(time.strftime("%d", time.gmtime(0))),
    "paths": lambda x: x * len(os.path.abspath(os.path.join("a", "b"))),
    "sleep": lambda x: (time.sleep(0), x)[1],
    "what is printed": lambda x: (sys.stdout.write(""), print("", end="", file=sys.stderr), x)[2],
    "a stream of its own": lambda x: x * len(io.StringIO("a").getvalue()), "a method of that name": lambda x: x * {"a": 2.0}.get("a"),
    "what each call writes": lambda x: (aj.debug.callback(NOTES.write, "a"), x)[1],
}


def line_of(text: str) -> list[int]:
    with open(__file__) as file:
        return [number for number, line in enumerate(file, 1) if text in line]


@pytest.mark.parametrize("name", DRAWING)
def test_drawing_names_the_generator_the_line_and_the_way_out(name: str) -> None:
    function, generator, text = DRAWING[name]
    (warning,) = warned(function)
    message = str(warning.message)
    assert f"draws from {generator}" in message or f"{generator} while it is traced" in message
    assert "aj.random" in message
    assert warning.filename == __file__
    assert warning.lineno in line_of(text)


@pytest.mark.parametrize("name", WRITING)
def test_writing_is_told_in_words_for_it(name: str) -> None:
    function, what = WRITING[name]
    warning = warned(function)[-1]
    assert f" {what} while it is traced: later calls of the compiled function do not; " in str(warning.message)
    assert "aj.debug.callback" in str(warning.message)
    assert warning.filename == __file__


@pytest.mark.parametrize("name", STREAMS)
def test_streams_and_queues_from_outside_are_named(name: str) -> None:
    function, what = STREAMS[name]
    (warning,) = warned(function)
    assert f" reads from {what} while it is traced: the compiled program uses the same numbers in every call; " in str(warning.message)
    assert warning.filename == __file__


@pytest.mark.parametrize("name", READING)
def test_reading_the_clock_names_it_too(name: str) -> None:
    function, clock = READING[name]
    (warning,) = warned(function)
    assert f"({clock})" in str(warning.message)
    assert "pass it as an argument" in str(warning.message)
    assert warning.lineno in line_of(f"{clock}(")


@pytest.mark.parametrize("name", QUIET)
def test_nothing_else_warns(name: str) -> None:
    assert warned(QUIET[name]) == []


def test_each_line_warns_once_whatever_it_is_traced_for() -> None:
    def noise(x):
        return np.sum(x * np.random.rand())

    assert len(warned(noise)) == 1
    assert warned(noise, np.ones(4)) == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        aj.grad(noise)(X)
        aj.value_and_grad(lambda x: noise(x) * 2.0)(X)


def test_gradients_and_bodies_of_loops_warn() -> None:
    with pytest.warns(RuntimeWarning, match="draws from np.random"):
        aj.grad(lambda x: np.sum(x * np.random.rand()))(X)
    body = warned(lambda x: aj.fori_loop(0, 3, lambda i, c: c * np.random.rand(), x))
    assert len(body) == 1


def test_a_draw_that_nobody_names_is_told_of_the_function() -> None:
    scope: dict[str, Any] = {"__name__": "scipy.library", "draw": np.random.rand}        # whose code is not looked at
    exec("def hidden():\n    return draw()", scope)
    hidden = scope["hidden"]

    def function(x):
        return x * hidden()

    (warning,) = warned(function)
    assert str(warning.message).startswith("function draws from np.random")


def test_a_second_normal_number_is_a_draw() -> None:
    """They are made in pairs: the generator itself does not move."""
    np.random.seed(0)
    np.random.randn()
    assert len(warned(lambda x: x * np.random.randn())) == 1


def test_a_second_normal_number_of_a_library_is_a_draw() -> None:
    np.random.seed(0)
    np.random.normal()
    (warning,) = warned(lambda x: x * scipy.stats.norm.rvs())
    assert "draws from np.random" in str(warning.message)


def test_a_second_normal_number_drawn_in_a_helper_is_a_draw() -> None:
    state = np.random.RandomState(0)
    state.normal()

    def draw(generator: np.random.RandomState) -> float:
        return generator.normal()

    (warning,) = warned(lambda x: x * draw(state))
    assert "draws from state" in str(warning.message)


def test_profilers_are_left_at_work() -> None:
    def later() -> None: ...

    profiler = cProfile.Profile()
    profiler.enable()
    try:
        assert len(warned(lambda x: x * time.time())) == 1
        later()
    finally:
        profiler.disable()
    assert any(entry.code is later.__code__ for entry in profiler.getstats())
    with pytest.raises(KeyError):
        warned(lambda x: x * time.time() * {}["missing"])
    assert sys.getprofile() is None


def test_other_threads_may_read_the_clock() -> None:
    stop = threading.Event()

    def ticking() -> Iterator[float]:
        while not stop.is_set():
            time.perf_counter()

    thread = threading.Thread(target=ticking)
    thread.start()
    try:
        assert warned(lambda x: x * np.sin(x) * (1.0 if x.ndim else time.time())) == []
    finally:
        stop.set()
        thread.join()


def test_nothing_is_loaded_for_it() -> None:
    code = ("import sys, numpy as np, adjit as aj\n"
            "aj.compile(lambda x: np.sin(x), backend='interpret')(np.ones(2))\n"
            "assert 'numpy.random' not in sys.modules\n"
            "import warnings; warnings.simplefilter('error')\n"
            "try:\n    aj.compile(lambda x: x * np.random.rand(), backend='interpret')(np.ones(2))\n"
            "except RuntimeWarning as warning:\n    assert 'np.random' in str(warning)\nelse:\n    raise AssertionError")
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_is_typed_in_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("3\n4\n"))
    with pytest.warns(RuntimeWarning, match=r"reads the keyboard \(input\) while it is traced") as caught:
        assert aj.compile(lambda x: x * float(input()))(2.0) == 6.0     # the line
    assert [warning.lineno for warning in caught] == line_of("(2.0) == 6.0     # the line")[:1]
