"""Tracebacks of errors: the user's frames, and adjit's only on request."""

from __future__ import annotations

import copy
import subprocess
import sys
import textwrap
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit import nn
from adjit.tracer import tracebacks

X = np.ones(3)


@pytest.fixture(autouse=True)
def frames_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADJIT_TRACEBACK", "user")


def shapes(x: Any) -> Any:
    return np.sum(x + np.ones(2))


def own(x: Any) -> Any:
    return helper(x)


def helper(x: Any) -> Any:
    raise KeyError("mine")


def caused(x: Any) -> Any:
    try:
        helper(x)
    except KeyError as error:
        raise RuntimeError("other") from error


def unsupported(x: Any) -> Any:
    return np.sum(x) + np.shares_memory(x, x)


class Layer(nn.Module):
    def forward(self, x: Any) -> Any:
        return helper(x)


compiled_own, compiled_sum = aj.compile(own), aj.compile(np.sum, backend="interpret")
T = aj.tensor([1.0, 2.0, 3.0], requires_grad=True)
CASES: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "compile": (lambda: aj.compile(shapes)(X), ["shapes"]),
    "grad": (lambda: aj.grad(shapes)(X), ["shapes"]),
    "own error": (lambda: aj.value_and_grad(own)(X), ["own", "helper"]),
    "hessian": (lambda: aj.hessian(own)(X), ["own", "helper"]),
    "jvp": (lambda: aj.jvp(own, (X,), (X,)), ["own", "helper"]),
    "hvp": (lambda: aj.hvp(own, (X,), (X,)), ["own", "helper"]),
    "nested": (lambda: aj.compile(lambda x: compiled_own(x))(X), ["<lambda>", "own", "helper"]),
    "scan": (lambda: aj.compile(lambda x: aj.scan(lambda c, r: (own(c), r), x, X))(X), ["<lambda>", "<lambda>", "own", "helper"]),
    "loop outside": (lambda: aj.while_loop(lambda c: c[0] < 3, own, X), ["own", "helper"]),
    "linalg": (lambda: aj.grad(unsupported)(X), ["unsupported"]),
    "arguments": (lambda: aj.compile(own)(object()), []),
    "not a scalar": (lambda: aj.grad(lambda x: x)(X), []),
    "operator": (lambda: T + aj.tensor([1.0, 2.0]), []),
    "method": (lambda: T.reshape(2, 2), []),
    "function of NumPy": (lambda: np.concatenate([T, aj.ones(2, 2)]), []),
    "ufunc": (lambda: np.add(T, aj.tensor([1.0, 2.0])), []),
    "backward": (lambda: (T * 2).backward(), []),
    "module": (lambda: nn.Sequential(Layer())(T), ["forward", "helper"]),
    "compiled module": (lambda: aj.compile(Layer())(T), ["forward", "helper"]),
    "callback": (lambda: aj.compile(lambda x: aj.pure_callback(helper, x, x))(X), ["helper"]),
    "export": (lambda: aj.compile(np.sin).export("x.txt", X), []),
    "option": (lambda: aj.compile(np.sin, shadow=3.0), []),
    "name of adjit.numpy": (lambda: aj.numpy.reshape(X, (2, 2)), []),
    "optimizer": (lambda: aj.optim.adam(-1.0), []),
    "budgets": (lambda: compiled_sum.memory(X).what_if(["all"]), []),
    "effect": (lambda: aj.compile(lambda x: aj.debug.print("{y}", x=x))(X), ["<lambda>"]),
    "callback of the backward half": (lambda: aj.compile(aj.grad(lambda x: aj.debug.on_gradient(helper, x)))(1.0), ["<lambda>", "helper"]),
    "check of gradients": (lambda: aj.debug.check_grads(np.sin, np.float32(1.0)), []),
    "missing file": (lambda: aj.load("missing.adjit"), []),
}


def names_of(error: BaseException) -> list[str]:
    """Functions of the frames below the one that calls the case."""
    frames = traceback.extract_tb(error.__traceback__)
    assert {frame.filename for frame in frames} == {__file__}, [(frame.filename, frame.name) for frame in frames]
    return [frame.name for frame in frames][2:]


@pytest.mark.parametrize("case", CASES)
def test_only_frames_of_the_user_are_shown(case: str) -> None:
    call, expected = CASES[case]
    for _ in range(2):
        with pytest.raises(Exception) as caught:
            call()
        assert names_of(caught.value) == expected


def test_on_the_fast_path() -> None:
    program = aj.compile(lambda x, i: x[i])
    for _ in range(4):
        program(X, np.array([1]))
    with pytest.raises(IndexError) as caught:
        program(X, np.array([7]))
    assert names_of(caught.value) == []


def test_of_loaded_programs(tmp_path: Path) -> None:
    aj.compile(lambda x, i: x[i]).export(tmp_path / "take.adjit", X, np.array([1]))
    loaded = aj.load(tmp_path / "take.adjit")
    for call in (lambda: loaded(X, np.array([7])), lambda: loaded(X), lambda: loaded(np.ones(4), np.array([1]))):
        with pytest.raises((IndexError, TypeError)) as caught:
            call()
        assert names_of(caught.value) == []


def test_causes_are_kept_and_their_frames_are_the_users() -> None:
    with pytest.raises(RuntimeError) as caught:
        aj.grad(caused)(X)
    assert [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)][1:] == ["caused"]
    assert isinstance(caught.value.__cause__, KeyError)
    assert [frame.name for frame in traceback.extract_tb(caught.value.__cause__.__traceback__)] == ["caused", "helper"]
    assert caught.tb.tb_next is not None
    assert caught.tb.tb_next.tb_frame.f_locals["x"].shape == (3,)       # a debugger sees the variables


def test_full_tracebacks_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADJIT_TRACEBACK", "full")
    with pytest.raises(ValueError, match="broadcast") as caught:
        aj.grad(shapes)(X)
    assert any("transforms.py" in frame.filename for frame in traceback.extract_tb(caught.tb))


def test_defects_of_adjit_show_its_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    code: dict[str, Any] = {"__name__": "adjit.passes.pipeline"}
    exec("def defect(*args, **kwargs):\n    raise AssertionError('a defect')", code)
    monkeypatch.setattr("adjit.tracer.trace.flatten_call", code["defect"])
    with pytest.raises(AssertionError, match="a defect") as caught:
        aj.compile(lambda x: x + 1)(X)
    assert any("compiled.py" in frame.filename for frame in traceback.extract_tb(caught.tb))


class _FailsToCopy:
    def __deepcopy__(self, memo: Any) -> Any:
        return fails(X)


def test_frames_of_libraries_between_the_users_stay() -> None:
    with pytest.raises(ValueError, match="mine") as caught:
        aj.compile(lambda x: copy.deepcopy(_FailsToCopy()) + x)(X)
    files = [frame.filename for frame in traceback.extract_tb(caught.tb)]
    assert any(file.endswith("copy.py") for file in files)
    assert not any("compiled.py" in file for file in files)


def fails(row: Any) -> Any:
    raise ValueError("mine")


def test_a_script_shows_two_frames() -> None:
    script = """
        import numpy as np, adjit as aj
        def loss(w):
            return np.sum(w + np.ones(2))
        aj.grad(loss)(np.ones(3))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=120)
    assert done.stderr.count("  File ") == 2, done.stderr
    assert tracebacks.VARIABLE == "ADJIT_TRACEBACK"
