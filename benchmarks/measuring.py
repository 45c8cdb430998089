"""Measures libraries against each other: a worker process each, rounds in turn, a ratio for each round."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from agreement import disagreements

HERE = Path(__file__).resolve().parent


class WorkerError(RuntimeError):
    """A worker process has ended before it answered."""


class DisagreementError(RuntimeError):
    """Two libraries do not compute the same, so that there is nothing to compare."""


class Worker:
    """A process that runs one library; `absent` says why it cannot, `about` has its versions, threads and BLAS."""

    def __init__(self, library: str, python: str, environment: Mapping[str, str], folder: Path):
        self.library = library
        self.folder = folder
        self._process = subprocess.Popen(
            [python, str(HERE / "worker.py"), library], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(environment))
        self.about = self._answer()
        self.absent: str | None = self.about.get("absent")

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.communicate()

    def ask(self, do: str, **details: Any) -> dict[str, Any]:
        """The answer to one command."""
        assert self._process.stdin is not None
        try:
            print(json.dumps({"do": do, **details}), file=self._process.stdin, flush=True)
        except BrokenPipeError:
            raise WorkerError(f"the worker of {self.library} has ended") from None
        return self._answer()

    def open(self, workload: str) -> dict[str, np.ndarray]:
        """Open a workload, for adjit on its own data, for a peer on those that adjit has written; what its first steps read."""
        readings = self.folder / f"{workload}-{self.library}.npz"
        self.ask("open", workload=workload, data=str(self.data(workload)), readings=str(readings))
        return _load(readings)

    def data(self, workload: str) -> Path:
        return self.folder / f"{workload}.npz"

    def run(self, steps: int, warm: int) -> list[float]:
        """Seconds of each of `steps` steps."""
        return self.ask("run", steps=steps, warm=warm)["seconds"]

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise WorkerError(f"the worker of {self.library} ended with code {self._process.wait()}; its message is above")
        return json.loads(line)


@dataclass(frozen=True)
class Times:
    """Seconds a step: the median of each round, and the least of all."""

    medians: list[float]
    minimum: float

    @property
    def median(self) -> float:
        return statistics.median(self.medians)


@dataclass(frozen=True)
class Comparison:
    """Our time over theirs: the ratio of medians in each round, and that of the minima."""

    rounds: list[float]
    minima: float

    @property
    def ratio(self) -> float:
        """The median of the rounds: what slows one whole round down does not count."""
        return statistics.median(self.rounds)


def open_and_check(ours: Worker, peers: Sequence[Worker], workload: str) -> None:
    """Open the workload everywhere; raises `DisagreementError` where losses or gradients differ."""
    mine = ours.open(workload)
    for peer in peers:
        problems = disagreements(mine, peer.open(workload), _load(ours.data(workload)))
        if problems:
            raise DisagreementError("\n  ".join([f"{workload}: adjit and {peer.library} do not agree", *problems]))


def time_in_turn(workers: Sequence[Worker], rounds: int, seconds: float) -> dict[str, Times]:
    """Run the opened workload in rounds, one worker after the other, each about `seconds` a round.

    Each turn begins with steps that are not timed, while the threads of the worker before go to sleep.
    """
    steps = {worker.library: _steps(worker, seconds) for worker in workers}
    all_seconds: dict[str, list[list[float]]] = {worker.library: [] for worker in workers}
    for _ in range(rounds):
        for worker in workers:
            count = steps[worker.library]
            all_seconds[worker.library].append(worker.run(count, warm=max(1, count // 5)))
    return {library: Times([statistics.median(r) for r in runs], min(min(r) for r in runs)) for library, runs in all_seconds.items()}


def compare(ours: Times, theirs: Times) -> Comparison:
    return Comparison([a / b for a, b in zip(ours.medians, theirs.medians, strict=True)], ours.minimum / theirs.minimum)


def first_calls(environment: Mapping[str, str]) -> dict[str, float]:
    """Seconds of the first call of the `mlp` step in a new process, and of the import before it."""
    command = [sys.executable, str(HERE / "first_call.py")]
    done = subprocess.run(command, env=dict(environment), stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def _steps(worker: Worker, seconds: float) -> int:
    once = statistics.median(worker.run(steps=3, warm=2))
    return max(3, min(20_000, int(seconds / once)))


def _load(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as arrays:
        return dict(arrays)
