"""Ranks that cannot go on together: an error that names the rank, not a wait for ever."""

from __future__ import annotations

import time

import pytest
from support.ranks import SUPPORT, launcher, run_ranks

CASES = {
    "other_shape": "the programs of the ranks differ: rank 1 would run total (",
    "other_rows": "mean over 5 rows of each rank; rank 0 would run",
    "uncaught": "ValueError: the data of this rank are missing",
    "other_program_within": "rank 1 waits in collective number 2 for rank 0, which waits to run another program",
    "dies": "",
    "other_trips": "ranks 0, 1 have run different collectives",
    "other_trips_again": "other numbers of trips: a loop or a branch of a program, such as trips (",
    "other_branch": "ranks 0, 1 have run different collectives",
    "no_program": "rank 1 came to the end without the program total (",
}


@pytest.mark.share(5)
@pytest.mark.parametrize("case", CASES)
def test_ends_within_seconds(case: str) -> None:
    launcher()
    begin = time.perf_counter()
    ran = run_ranks(2, SUPPORT / "rank_failures.py", case, timeout=60)
    assert ran.returncode != 0
    assert CASES[case] in ran.stdout, ran.stdout
    assert time.perf_counter() - begin < 25, "five seconds on a machine that does nothing else, with the start"
