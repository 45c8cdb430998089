"""`adjit.compile(f, shadow=...)`: calls compared with the plain function, mismatches bisected to an op, and replayed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit.__main__ import main
from adjit.errors import ArgumentError, ShadowWarning
from adjit.ir import ops
from adjit.ir.graph import Graph, Op
from adjit.passes.options import Options
from adjit.passes.pipeline import SIMPLIFY
from adjit.runtime.debug import shadow
from adjit.runtime.debug.bisect import bisect
from adjit.runtime.debug.op_by_op import run_op_by_op
from adjit.runtime.debug.shadow import wait

X = np.linspace(-1.0, 1.0, 15).reshape(5, 3)
W = {"w": np.linspace(-2.0, 1.0, 12).reshape(3, 4)}


def step(p: Any, x: Any) -> Any:
    def loss(w: Any) -> Any:
        hidden = np.tanh(x @ w)
        return np.sum((np.sin(hidden) * 2) ** 2)          # the derivative of sin is what the broken pass changes

    value, gradient = aj.value_and_grad(loss)(p["w"])
    return {"w": p["w"] - 0.1 * gradient}, value


@pytest.fixture
def broken_pass(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A pass that makes sinh of cos, and a folder for files."""
    right = SIMPLIFY[0].run

    def wrong(graph: Graph, options: Options) -> Graph:
        graph = right(graph, options)
        return graph.with_ops([Op(ops.sinh, op.operands, op.results, op.attrs, (), op.loc, op.role) if op.name == "cos" else op
                               for op in graph.ops])

    monkeypatch.setenv("ADJIT_CACHE_SIZE", "0")
    monkeypatch.setenv("ADJIT_DUMP", str(tmp_path / "found"))
    object.__setattr__(SIMPLIFY[0], "run", wrong)
    yield
    object.__setattr__(SIMPLIFY[0], "run", right)


def test_right_programs_and_the_share_of_calls() -> None:
    program = aj.compile(step, shadow=0.25, backend="interpret")
    for _ in range(9):
        program(W, X)
        wait()
    assert program.explain().endswith("3 of 9 calls compared with Python's: no difference")
    for share, kind in ((2.0, ArgumentError), (-0.1, ArgumentError), ("0.1", TypeError), (True, TypeError)):
        with pytest.raises(kind):
            aj.compile(step, shadow=share)      # type: ignore[call-overload]


@pytest.mark.usefixtures("broken_pass")
def test_a_wrong_pass_is_bisected_to_the_op(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = aj.compile(step, shadow=1.0, backend="interpret")
    program(W, X)
    wait()
    with pytest.warns(ShadowWarning) as caught:
        program(W, X)
    program(W, X)
    assert len(caught) == 1         # once
    message = str(caught[0].message)
    assert "the result[0]['w'] is " in message
    assert "the compiled code of cos computes another value than NumPy" in message
    assert "np.sin(hidden) * 2" in message
    (file,) = (tmp_path / "found").glob("adjit-step-*.npz")
    assert f"python -m adjit replay {file}" in message
    assert main(["replay", str(file)]) == 1
    shown = capsys.readouterr().out
    assert "%1: f64[5,4] = cos %0" in shown         # the op alone
    assert "NumPy, op by op: as expected\nbackend interpret: result 0 is " in shown
    (tmp_path / "no.npz").write_bytes(b"PK")
    assert main(["replay", str(tmp_path / "no.npz")]) == 1


def test_sums_that_cancel_are_no_mismatch_and_functions_that_vary_are_named() -> None:
    program = aj.compile(lambda x, y: (np.sum(x * np.pi), np.cumsum(x @ y)[-1]), shadow=1.0)
    program(X, X.T.copy())
    wait()
    assert program.explain().endswith("1 of 1 calls compared with Python's: no difference")
    calls = []

    def read(x: np.ndarray) -> np.ndarray:
        calls.append(x)
        return x * len(calls)

    program = aj.compile(lambda x: np.sum(aj.pure_callback(read, x, x) ** 2), shadow=1.0, backend="interpret")
    program(X)
    wait()
    assert program.explain().endswith("the Python function gives other results each time for the same arguments")


def test_arguments_that_are_written_and_functions_that_fail() -> None:
    def fill(x: Any, out: Any) -> Any:
        out[:] = np.cumsum(x)
        return out[-1]

    program = aj.compile(fill, shadow=1.0, backend="interpret")
    out = np.zeros(3)
    for _ in range(3):
        assert program(np.ones(3), out) == 3.0
        wait()
    assert program.explain().endswith("3 of 3 calls compared with Python's: no difference")
    tensors = aj.compile(lambda x: (x * x).sum(), shadow=1.0, backend="interpret")
    assert tensors(aj.tensor([2.0])).item() == 4.0


def ends_with(program: Any, text: str) -> bool:
    wait()
    return str(program.explain()).endswith(text)


def test_what_the_caller_changes_behind_the_call_is_no_mismatch() -> None:
    data, total = np.zeros(3), np.zeros(3)
    reading = aj.compile(lambda x: np.sum((x - data) ** 2), shadow=1.0, backend="interpret")
    for count in range(3):
        assert reading(1.0) == 3 * (1.0 - count) ** 2
        data[:] = count + 1
    wait()
    compared = reading.shadow.compared
    reading(1.0)
    assert ends_with(reading, f"{compared + 1} of 4 calls compared with Python's: no difference")

    def add(x: Any) -> Any:
        total[:] = total + x
        return total[0]

    adding = aj.compile(add, shadow=1.0, backend="interpret")
    assert [adding(np.ones(3)) for _ in range(2)] == [1.0, 2.0]
    assert ends_with(adding, "which a second run would change again")
    assert total.tolist() == [2.0] * 3
    step = aj.compile(lambda w, g: w - 0.5 * g, donate="w", shadow=1.0, backend="interpret")
    assert step(np.ones(3), np.ones(3)).tolist() == [0.5] * 3
    assert ends_with(step, "1 of 1 calls compared with Python's: no difference")


@pytest.mark.parametrize("is_perturbed", [True, False])
def test_comparisons_of_rounded_numbers_are_no_mismatch(is_perturbed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the perturbed run flips as well, and where the bisection alone tells."""
    found = []

    def noted(*args: Any) -> Any:
        found.append(bisect(*args))
        return found[-1]

    monkeypatch.setattr(shadow, "bisect", noted)
    if not is_perturbed:
        monkeypatch.setattr(shadow, "run_op_by_op", lambda *args, inexact=False: run_op_by_op(*args))
    x = np.random.default_rng(0).normal(size=1000)
    program = aj.compile(lambda x: (np.sin(x) ** 2 + np.cos(x) ** 2 == 1.0).sum(), shadow=1.0, backend="native")
    program(x)
    assert ends_with(program, "1 of 1 calls compared with Python's: no difference")
    assert found == ([] if is_perturbed else [1])


@pytest.mark.parametrize("function", [
    lambda x: np.sum(x * 2.5) - 2.5 * np.sum(x), lambda x: np.sum((x * x - np.square(x)) * 1e3), lambda x: np.mean(x) - np.sum(x) / x.size])
def test_what_cancels_is_rounding(function: Any) -> None:
    program = aj.compile(function, shadow=1.0)
    program(np.random.default_rng(1).random(1000) * 1e8)
    wait()
    assert program.explain().endswith("1 of 1 calls compared with Python's: no difference")
