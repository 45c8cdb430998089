"""Random nests of loops and branches against the same programs unrolled: values, gradients, and second derivatives both ways."""

from __future__ import annotations

import pytest
from support.random_loops import compare

LARGE = {4, 8, 11, *range(100, 104)}
"""Seeds of nests that take seconds each to compile; their kinds of loops, in each other, are in those of other seeds too."""


def leave_out_large(seed: int, exhaustive: bool) -> None:
    if seed in LARGE and not exhaustive:
        pytest.skip("takes seconds to compile: --exhaustive")


@pytest.mark.share(4)
@pytest.mark.parametrize("seed", range(12))
def test_nests_of_two(seed: int, exhaustive: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    leave_out_large(seed, exhaustive)
    monkeypatch.setenv("ADJIT_VERIFY", "1")
    compare(seed, 2, backend="native" if seed % 3 else "interpret")


@pytest.mark.parametrize("seed", range(100, 104))
def test_nests_of_three(seed: int, exhaustive: bool) -> None:
    leave_out_large(seed, exhaustive)
    compare(seed, 3, backend="native")


def test_few_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("MIN_CHECKPOINTS", 2), ("MAX_CHECKPOINTS", 2), ("MAX_ITERATIONS", 8)):
        monkeypatch.setattr(f"adjit.passes.autodiff.reverse_control_flow.{name}", value)
    compare(200, 1, backend="native")
