"""One library in a process of its own, so that thread pools do not meet: reads commands, prints answers, one line of JSON each.

    {"do": "open", "workload": "mlp", "data": "mlp.npz", "readings": "ours.npz"}
    {"do": "run", "steps": 100, "warm": 10}         seconds of each step from the initial state on, after some that are not timed
    {"do": "bytes"}                                 working memory of a step
    {"do": "allocations"}                           (adjit) what steps allocate

The first line printed tells what the library is, or why it is absent.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from machine import blas
from peers import PEERS
from tasks import Library, Task


def serve(name: str, answer: Callable[[dict[str, Any]], None]) -> None:
    """Answer commands from standard input until it ends."""
    try:
        if name == "adjit":
            import ours
            library: Library = ours.library()
        else:
            library = PEERS[name]()
    except ImportError as error:
        return answer({"absent": str(error)})
    versions = {"python": platform.python_version(), "numpy": np.__version__, **library.versions}
    answer({"versions": versions, "threads": library.threads, **blas()})
    task: Task
    for line in sys.stdin:
        command = json.loads(line)
        match command["do"]:
            case "open":
                path = Path(command["data"])
                if name == "adjit":
                    ours.save_data(command["workload"], path)
                with np.load(path) as data:
                    task = library.workloads[command["workload"]](dict(data))
                np.savez(command["readings"], **task.readings)
                answer({})
            case "run":
                task.reset()
                answer({"seconds": time_steps(task.step, command["steps"], command["warm"])})
            case "bytes":
                answer({"bytes": task.working_bytes() if task.working_bytes else None})
            case "allocations":
                answer(ours.allocations(task.step))


def time_steps(step: Callable[[], Any], steps: int, warm: int) -> list[float]:
    """Seconds that each step takes, after `warm` steps before."""
    for _ in range(warm):
        step()
    clock = time.perf_counter
    seconds = []
    for _ in range(steps):
        begin = clock()
        step()
        seconds.append(clock() - begin)
    return seconds


if __name__ == "__main__":
    # Answers keep the real standard output for themselves: libraries print what they like.
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def print_answer(message: dict[str, Any]) -> None:
        print(json.dumps(message), file=channel, flush=True)

    serve(sys.argv[1], print_answer)
