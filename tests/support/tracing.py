"""Traces of functions, with checks of the properties that hold for every traced graph."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from adjit.ir.interpreter import interpret
from adjit.ir.parser import parse
from adjit.ir.printer import print_graph
from adjit.ir.verifier import verify
from adjit.tracer.trace import Trace, trace_function


def checked_trace(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Trace:
    """Return the trace of `fun(*args)`, verified, printed and parsed again."""
    trace = trace_function(fun, args, kwargs)
    verify(trace.graph)
    assert parse(print_graph(trace.graph)) == trace.graph
    return trace


def run_traced(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return the result of `fun(*args)`, traced and interpreted."""
    trace = checked_trace(fun, *args, **kwargs)
    arrays = [np.asarray(array) for array in (*trace.signature.leaves, *trace.captured)]
    native = [array.astype(array.dtype.newbyteorder("=")) for array in arrays]
    return trace.rebuild(interpret(trace.graph, native))


@contextmanager
def counted_runs(function: Callable[..., Any]) -> Iterator[list[str]]:
    """Count the runs of a function's code in this thread, which are its traces where it is compiled: the list yielded has an item for each.
    A counter in the function would count every call, as Python does."""
    code, runs = function.__code__, list[str]()

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code is code:
            runs.append(code.co_name)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield runs
    finally:
        sys.setprofile(before)


def assert_same(actual: Any, expected: Any, rtol: float | None = None) -> None:
    """Assert equal structure, shape, dtype and values; NaN equals NaN. `rtol` allows for rounding (by default a few units in the last
    place)."""
    if isinstance(expected, (tuple, list)):
        assert len(actual) == len(expected)
        for a, e in zip(actual, expected, strict=True):
            assert_same(a, e, rtol)
        return
    a, e = np.asarray(actual), np.asarray(expected)
    assert a.dtype == e.dtype, f"dtype {a.dtype}, NumPy's is {e.dtype}"
    assert a.shape == e.shape, f"shape {a.shape}, NumPy's is {e.shape}"
    if e.dtype.kind == "f":
        tolerance = 16 * np.finfo(e.dtype).eps if rtol is None else rtol
        np.testing.assert_allclose(a, e, rtol=tolerance, atol=tolerance)
    else:
        np.testing.assert_array_equal(a, e)


def assert_as_numpy(fun: Callable[..., Any], *args: Any, rtol: float | None = None) -> None:
    """Assert that `fun(*args)` is the same traced and untraced."""
    with np.errstate(all="ignore"):
        expected = fun(*args)
    assert_same(run_traced(fun, *args), expected, rtol)
