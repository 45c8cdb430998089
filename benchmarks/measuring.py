"""Measures libraries against each other: a worker process each, rounds in turn, a ratio for each round."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np
from machine import Load

HERE = Path(__file__).resolve().parent
ROUND_LIMIT = 120.0
"""The most seconds for what should be done in one."""


class WorkerError(RuntimeError):
    """A worker could not do what it was asked for; the message is the reason, for the report."""


class Worker:
    """A process that runs one library; `about` has its versions, threads and BLAS. Raises `WorkerError` where it is absent.

    `limit` is the most seconds that a first call may take, and ROUND_LIMIT any other answer; a worker that takes longer is ended. `log`
    takes what the library prints. `script` is the program of the process.
    """

    def __init__(self, library: str, python: Path | str, modules: Sequence[str], environment: Mapping[str, str], limit: float = 60,
                 log: IO[str] | None = None, script: Path = HERE / "worker.py"):
        self.library, self.limit = library, limit
        self._process = subprocess.Popen(
            [str(python), str(script), library, *modules], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
            env=dict(environment), start_new_session=True)
        try:
            self.about = self._answer("import", ROUND_LIMIT)
        except WorkerError:
            self.close()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the process; one that does not end by itself is killed."""
        try:
            self._process.communicate(timeout=10)
        except (subprocess.TimeoutExpired, ValueError):
            self._kill()

    def ask(self, do: str, **details: Any) -> dict[str, Any]:
        """The answer to one command."""
        assert self._process.stdin is not None
        try:
            print(json.dumps({"do": do, **details}), file=self._process.stdin, flush=True)
        except (BrokenPipeError, ValueError):
            raise WorkerError("its process has ended") from None
        if do == "open":
            return self._answer("first call", self.limit)
        return self._answer({"read": "first steps", "run": "round"}.get(do, do), ROUND_LIMIT)

    def readings(self, folder: Path) -> dict[str, np.ndarray]:
        """What the opened problem computes in its first steps."""
        path = folder / f"{self.library}.npz"
        self.ask("read", path=str(path))
        with np.load(path) as arrays:
            return dict(arrays)

    def run(self, steps: int, warm: int) -> list[float]:
        """Seconds of each of `steps` steps."""
        return self.ask("run", steps=steps, warm=warm)["seconds"]

    def _kill(self) -> None:
        """End the process and the compilers that it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _answer(self, what: str, limit: float) -> dict[str, Any]:
        stdout = self._process.stdout
        assert stdout is not None
        if not select.select([stdout], [], [], limit)[0]:
            self._kill()
            raise WorkerError(f"{what} takes more than {limit:g} s")
        line = stdout.readline()
        if not line:
            raise WorkerError(f"its process ended with code {self._process.wait()}")
        answer = json.loads(line)
        for problem in ("absent", "failed"):
            if problem in answer:
                raise WorkerError(answer[problem])
        return answer


@dataclass
class Times:
    """Seconds a step: the median of each round, and the least of all; the share of the machine that others took during each round."""

    medians: list[float] = field(default_factory=list)
    minimum: float = float("inf")
    failed: str | None = None

    @property
    def median(self) -> float:
        return statistics.median(self.medians)


def time_interleaved(workers: Mapping[str, Worker], rounds: int, seconds: float) -> tuple[dict[str, Times], list[float]]:
    """Run the opened problem in rounds, one worker after the other, each about `seconds` a round; also the load by others in each round.

    Each turn begins with steps that are not timed, while the threads of the worker before go to sleep. Every other round goes backwards, so
    that a machine that gets slower or quicker treats all alike. A worker that fails leaves the rounds.
    """
    times = {name: Times() for name in workers}
    steps: dict[str, int] = {}
    load = []
    for index in range(-1, rounds):
        watch = Load([worker.pid for name, worker in workers.items() if times[name].failed is None])
        for name, worker in list(workers.items())[::-1 if index % 2 else 1]:
            if times[name].failed is not None:
                continue
            try:
                if index < 0:               # how many steps fill a round
                    once = statistics.median(worker.run(steps=2, warm=1))
                    once = statistics.median(worker.run(steps=max(1, min(50, int(seconds / 4 / once))), warm=0))
                    steps[name] = max(1, min(20_000, int(seconds / once)))
                    continue
                found = worker.run(steps[name], warm=max(1, steps[name] // 4))
            except WorkerError as error:
                times[name].failed = str(error)
                continue
            times[name].medians.append(statistics.median(found))
            times[name].minimum = min(times[name].minimum, *found)
        if index >= 0:
            load.append(watch.others())
    return times, load


def ratios(ours: Times, theirs: Times) -> list[float]:
    """Our time over theirs in each round; what counts is the median: what slows one whole round down does not."""
    return [a / b for a, b in zip(ours.medians, theirs.medians, strict=False)]
