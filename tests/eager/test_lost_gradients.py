"""Tensors that require grad and become numbers: a warning, an error where they are written into arrays, silence where nothing is lost."""

from __future__ import annotations

import array
import json
import math
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit import nn, optim

Use = Callable[[Any], Any]


def recorded() -> Any:
    return (aj.tensor([1.5], requires_grad=True) * 2).sum()


WARNING: dict[str, Use] = {
    "float": float, "int": int, "complex": complex, "math.exp": lambda t: math.exp(t), "math.floor": lambda t: math.floor(t),
    "arithmetic": lambda t: 2.0 * float(t), "np.float64": lambda t: np.float64(t), "fill": lambda t: np.zeros(2).fill(t),
    "math.hypot": lambda t: math.hypot(t, 1.0), "fsum": lambda t: math.fsum([t, t]),
    "tensor": aj.tensor, "tensor of tensors": lambda t: aj.tensor([t, 1.0]), "as_tensor": lambda t: aj.as_tensor([t, t])}
SILENT: dict[str, Use] = {
    "item": lambda t: t.item(), "tolist": lambda t: t.tolist(), "format": lambda t: f"{t:.3f} {t}", "less": lambda t: bool(t < 5.0),
    "percent": lambda t: "%.3f" % t, "percents": lambda t: "%s: %d" % ("loss", t), "str": str, "print": print,      # noqa: UP031
    "if": lambda t: 1 if t > 2 else 0, "less than a NumPy number": lambda t: np.float64(1.0) < t, "min": lambda t: min(t, 5.0),
    "isnan": lambda t: math.isnan(t), "isfinite": lambda t: not math.isfinite(t), "isclose": lambda t: math.isclose(t, 3.0),
    "as_tensor": lambda t: aj.as_tensor(t, np.float64), "clone": lambda t: t.clone(), "stack": lambda t: aj.stack([t, t]),
    "detached": lambda t: float(t.detach()), "tensor of a detached one": lambda t: aj.tensor(t.detach()), "sum": lambda t: sum([t, t]),
    "plateau": lambda t: optim.lr_scheduler.ReduceLROnPlateau(optim.SGD([aj.ones(1, requires_grad=True)])).step(t),
    "write a number": lambda t: np.zeros(2).__setitem__(0, t.item()), "list": lambda t: [0.0].__setitem__(0, t)}


@pytest.mark.parametrize("use", WARNING)
def test_a_number_that_loses_a_gradient_is_warned_of_at_the_line(use: str) -> None:
    with pytest.warns(UserWarning, match="gradient is lost") as caught:
        WARNING[use](recorded())
    assert {warning.filename for warning in caught} == {__file__}
    if use == "float":
        assert "x.item()" in str(caught[0].message)


@pytest.mark.parametrize("use", SILENT)
def test_where_nothing_is_lost_nothing_is_said(use: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SILENT[use](recorded())


@pytest.mark.parametrize("use", WARNING)
def test_without_a_gradient_nothing_is_said(use: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        WARNING[use](recorded().detach())
        with aj.no_grad():
            WARNING[use](recorded())
            WARNING[use](aj.tensor(1.5, requires_grad=True))


def first(values: Any, t: Any) -> None:
    values[0] = t


def several(values: Any, t: Any) -> None:
    values[:] = t


def added(values: Any, t: Any) -> None:
    values[1] += t


@pytest.mark.parametrize("write", [first, added])
@pytest.mark.parametrize("values", [np.zeros(2), np.zeros(2, np.float32), array.array("d", [0.0, 0.0])])
def test_a_write_into_an_array_is_refused(write: Callable[[Any, Any], None], values: Any) -> None:
    if write is added and not isinstance(values, np.ndarray):
        pytest.skip("is an addition of tensors first")
    before = list(values)
    with pytest.raises((aj.errors.NonDifferentiableError, ValueError)) as caught:
        write(values, recorded())
    error = caught.value if isinstance(caught.value, aj.errors.NonDifferentiableError) else caught.value.__cause__
    assert isinstance(error, aj.errors.NonDifferentiableError)
    assert "written into an array" in str(error)
    assert "aj.stack(list)" in error.hint
    assert "values[" in str(error)          # the line
    assert list(values) == before
    write(values, recorded().detach())
    assert 3.0 in list(values)


def test_whole_arrays_and_compiled_functions_refuse_it_too() -> None:
    with pytest.raises(aj.errors.NonDifferentiableError):
        several(np.zeros(2), recorded())
    with pytest.raises((aj.errors.TraceError, ValueError)):
        aj.compile(lambda x: first(np.zeros(2), x.sum()))(aj.ones(2, requires_grad=True))


def test_converted_tensors_keep_their_gradient() -> None:
    x = aj.tensor([1.0, 2.0], requires_grad=True)
    aj.as_tensor(x, dtype=np.float64).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
    assert aj.as_tensor(x) is x


def test_each_line_warns_once(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import adjit as aj\nx = aj.ones(2, requires_grad=True)\ntotal = 0.0\nfor _ in range(5):\n"
                      "    total += float(x.sum())\n    total += float(x.mean())\n")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60)
    assert done.stderr.count("UserWarning") == 2
    assert f"{script}:5: UserWarning" in done.stderr


def test_numbers_for_logs_are_silent() -> None:
    model = nn.Linear(2, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loss = model(aj.ones(1, 2)).sum()
        json.dumps({"loss": loss.item()})
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optim.SGD(model.parameters(), lr=0.1).step()
        loss.backward()
        repr(loss)


@pytest.mark.parametrize("write", [
    lambda a, t: np.copyto(a, t), lambda a, t: np.put(a, [0], t), lambda a, t: np.add.at(a, [0], t), lambda a, t: np.putmask(a, a == 0, t)])
@pytest.mark.parametrize("requires_grad", [False, True])
def test_numpy_does_not_write_tensors_into_arrays(write: Callable[[Any, Any], Any], requires_grad: bool) -> None:
    array_, tensor = np.zeros(2), aj.tensor([1.5], requires_grad=requires_grad)
    with pytest.raises(aj.errors.UnsupportedError, match=r"of a tensor into an ndarray(.|\n)*x.detach\(\).numpy\(\)"):
        write(array_, tensor)
    assert not array_.any()
    write(array_, tensor.detach().numpy())
    assert array_.any()


@pytest.mark.parametrize("requires_grad", [True, False])
def test_arrays_beside_tensors_are_differentiated(requires_grad: bool) -> None:
    """`aj.grad` of a function of arrays that reads a tensor: the array is no detached tensor."""
    a = aj.tensor([1.0, 2.0], requires_grad=requires_grad, dtype="float64")
    x = np.array([3.0, 5.0])
    np.testing.assert_array_equal(aj.grad(lambda x: ((x - a) ** 2).sum())(x), [4.0, 6.0])
    np.testing.assert_array_equal(aj.compile(lambda x: aj.grad(lambda x: np.sum(a * x * x))(x))(x), [6.0, 20.0])
    np.testing.assert_array_equal(aj.jacobian(lambda x: a * x)(x), np.diag([1.0, 2.0]))

    def detached(x: Any) -> Any:
        t = a * 1.0
        return np.sum(t.detach() * x)

    np.testing.assert_array_equal(aj.grad(detached)(x), [1.0, 2.0])
