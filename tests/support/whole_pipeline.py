"""Tests that see when a program's passes run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from adjit.passes import pipeline


def replace_passes(patch: pytest.MonkeyPatch, run: Callable[..., Any]) -> Callable[..., Any]:
    """Have `run(...)` called in place of `run_pipeline(...)` for programs, but for the first part of the passes alone, which rolls loops.
    Returns `run_pipeline`."""
    known = pipeline.run_pipeline
    patch.setattr(pipeline, "run_pipeline", lambda *args, **named: known(*args, **named) if named else run(*args))
    return known
