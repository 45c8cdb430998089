"""Random functions that keep state against plain Python: results, arguments and the whole state after each call, also of calls that raise
or are refused, and which arrays share memory. Seeds are fixed; `--exhaustive` runs thousands of others, RANDOM_EXAMPLES=500 that many."""

from __future__ import annotations

import os
import time
from collections import Counter

import pytest
from support.random_stateful import compare, random_stateful

IN_THE_GATE = 24


def test_random_functions_leave_behind_what_python_leaves(exhaustive: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADJIT_CACHE_SIZE", "0")
    count = int(os.environ.get("RANDOM_EXAMPLES", "4000" if exhaustive else str(IN_THE_GATE)))
    first = 0 if count == IN_THE_GATE and not exhaustive else time.time_ns() // 1_000_000_000 * count
    done = Counter[str]()
    for seed in range(first, first + count):
        program = random_stateful(seed)
        found = compare(program)
        assert not found.startswith("WRONG"), f"seed {seed}: {found}\n{program.script()}"
        done[found.partition(":")[0]] += 1
    assert done["refused"] <= 0.1 * count + 2
    assert done["equal"] >= 0.5 * count - 2
