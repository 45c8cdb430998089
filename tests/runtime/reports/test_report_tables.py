"""Tables of reports: budgets compared, and what notebooks show of functions, modules, tensors and memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit.errors import ArgumentError


def loss(x: Any) -> Any:
    for _ in range(3):
        x = np.tanh(np.exp(x) @ x)
    return np.sum(x)


def test_budgets(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    step = aj.compile(aj.value_and_grad(loss), backend="interpret", donate="x")
    x = np.full((8, 8), 0.01)
    table = step.memory(x).what_if([0.0, 0.5, None])
    least, _, most = table.choices
    assert least.saved_bytes < most.saved_bytes
    assert all(choice.measured > 0 and choice.peak_bytes <= choice.arena_bytes for choice in table.choices)
    assert most.saved_bytes == step.memory(x).saved_bytes
    assert (x == 0.01).all()            # donated arguments are copied
    assert [line.split()[0] for line in str(table).splitlines()[1:]] == ["budget", "0%", "50%", "none"]
    table.plot(tmp_path / "budgets.png")
    assert (tmp_path / "budgets.png").stat().st_size > 1000
    with pytest.raises(ArgumentError, match="needs arguments"):
        step.memory().what_if([1.0])
    with pytest.raises(ArgumentError, match="memory_budget"):
        step.memory(x).what_if([2.0])
    native = aj.compile(aj.value_and_grad(loss)).memory(x).what_if([0.25])
    assert (native.choices[0].predicted or 0.0) > 0


def test_notebooks() -> None:
    f = aj.compile(loss, backend="interpret")
    f(np.ones((2, 2)))
    assert repr(f) == "<compiled loss>"
    assert "<td>x: f64[2,2]</td><td>first call</td><td>1</td>" in f._repr_html_()
    assert "of working memory at the peak" in f.memory()._repr_html_()
    model = aj.nn.Sequential(aj.nn.Linear(3, 4), aj.nn.Sequential(aj.nn.Linear(4, 1, bias=False)))
    text = model._repr_html_()
    assert text.count("<tr>") == 5
    assert "Linear(in_features=3, out_features=4, bias=True)</td><td>16</td>" in text
    assert "(whole)</td><td style=\"text-align:left\">Sequential()</td><td>20</td>" in text
    tensor = aj.tensor([1.0, 2.0], requires_grad=True)
    assert tensor._repr_html_() == "<pre>tensor([1., 2.], requires_grad=True)</pre><p>shape (2,), float32, 8 bytes</p>"


def test_a_profile_asks_for_arguments() -> None:
    f = aj.compile(lambda x: x * 2)
    f(1.0)
    with pytest.raises(ArgumentError, match=r"profile runs the function[\s\S]*pass example arguments"):
        f.profile()


def test_reports_print_nothing_of_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    """Measured runs are not the user's calls."""
    def f(x: Any) -> Any:
        aj.debug.print("x is {x}", x=x)
        return np.sum(x)

    compiled, x = aj.compile(f), np.ones(2)
    compiled.profile(x)
    compiled.report(None, x)
    compiled.memory(x).what_if([0.5])
    assert "x is" not in capsys.readouterr().out
    compiled(x)
    assert capsys.readouterr().out == "x is [1. 1.]\n"
