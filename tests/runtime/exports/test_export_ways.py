"""Exports of functions that decide on values: one file with several ways, in Python and in C, and what goes none of them."""

from __future__ import annotations

import ctypes
import shutil
from pathlib import Path

import numpy as np
import pytest

import adjit as aj
from adjit.errors import ArgumentError, ExportError
from adjit.runtime.native.code import native_is_supported

pytestmark = pytest.mark.skipif(not native_is_supported(), reason="native programs are for Linux on x86-64")
needs_linker = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")

UP, DOWN, LARGE = np.array([1.0, 2.0]), np.array([-1.0, -2.0]), np.array([30.0, 1.0])
FIRST, SECOND = np.array([2.0, 3.0]), np.array([[1.0, 2.0], [3.0, 4.0]])


def three_ways(x, factor):
    """Ways that do not meet again: what Python does at each depends on the order of the numbers."""
    total = 0.0
    for value in sorted(x, key=lambda value: value):
        total = total * 0.5 + value * factor
    if total > 20:
        return np.stack([total, x @ FIRST])
    return SECOND @ x


class Library:
    """The library of `three_ways` or the like through ctypes."""

    def __init__(self, path: Path, outputs: int):
        self.c, self.name = ctypes.CDLL(str(path)), path.stem
        self.arena, self.outputs = np.zeros(1 << 16, np.uint8), outputs

    def run(self, *inputs: np.ndarray) -> tuple[int, np.ndarray]:
        out = np.full(self.outputs, np.nan)
        pointers = (ctypes.c_void_p * len(inputs))(*(array.ctypes.data for array in inputs))
        start = self.arena.ctypes.data
        status = getattr(self.c, f"{self.name}_run")(pointers, (ctypes.c_void_p * 1)(out.ctypes.data), ctypes.c_void_p(start + -start % 64))
        return status, out


def test_a_file_holds_several_ways(tmp_path: Path) -> None:
    function = aj.compile(three_ways)
    function.export(tmp_path / "f.adjit", UP, 2.0, ways=[(DOWN, 1.0), (LARGE, 1.0), (UP, 3.0)])
    loaded = aj.load(tmp_path / "f.adjit")
    for _ in range(4):      # from the third call on by the fast path
        for x, factor in ((UP, 2.0), (DOWN, 1.0), (LARGE, 1.0), (UP * 2, 0.1), (DOWN, 2.0)):
            np.testing.assert_array_equal(loaded(x, factor), function(x, factor))
    aj.compile(three_ways).export(tmp_path / "f.adjit", UP, 2.0, ways=[(DOWN, 1.0)])
    loaded = aj.load(tmp_path / "f.adjit")
    for _ in range(4):
        with pytest.raises(ArgumentError, match=r"was exported for 2 ways .*\n.*in three_ways\n.*if total > 20:\n.*ways=") as caught:
            loaded(LARGE, 1.0)
        assert "outcome False; for these arguments it is True" in str(caught.value)


@needs_linker
def test_a_library_tries_its_ways(tmp_path: Path) -> None:
    function = aj.compile(three_ways)
    function.export(tmp_path / "f.so", UP, 2.0, ways=[(DOWN, 1.0), (LARGE, 1.0)])
    library = Library(tmp_path / "f.so", 2)
    for x, factor in ((UP, 2.0), (DOWN, 1.0), (LARGE, 1.0), (UP * 2, 0.1), (DOWN, 2.0)):
        status, out = library.run(x, np.array(factor))
        assert status == 0
        np.testing.assert_array_equal(out, three_ways(x, factor))
    aj.compile(three_ways).export(tmp_path / "two.so", UP, 2.0, ways=[(DOWN, 1.0)])
    status, out = Library(tmp_path / "two.so", 2).run(LARGE, np.array(1.0))
    assert (status, np.isnan(out).all()) == (5, True)       # DECISION


def merged(x):
    y = x * 2 if x.sum() > 0 else x * 3
    return y + 1 if y[0] > 0 else y


@pytest.mark.parametrize("called", [False, True])
def test_ways_that_meet_again_are_one(called: bool, tmp_path: Path) -> None:
    function = aj.compile(merged)
    for x in (UP, DOWN) if called else ():
        function(x)
    function.export(tmp_path / "f.adjit", UP, ways=[] if called else [(DOWN,)])
    loaded = aj.load(tmp_path / "f.adjit")
    assert (tmp_path / "f.adjit").read_bytes().count(b"way1/") == 0
    for x in (UP, DOWN, np.array([-1.0, 2.0]), np.array([1.0, -2.0])):
        np.testing.assert_array_equal(loaded(x), merged(x))


def test_derivatives_have_ways(tmp_path: Path) -> None:
    function = aj.value_and_grad(lambda x, factor: np.sum(three_ways(x, factor) ** 2))
    function.export(tmp_path / "g.adjit", UP, 2.0, ways=[(DOWN, 1.0)])
    loaded = aj.load(tmp_path / "g.adjit")
    for x in (UP, DOWN):
        value, gradient = loaded(x, 2.0)
        step = 1e-6 * np.array([[1, 0], [0, 1]])
        known = [(np.sum(three_ways(x + h, 2.0) ** 2) - np.sum(three_ways(x - h, 2.0) ** 2)) / 2e-6 for h in step]
        np.testing.assert_allclose(value, np.sum(three_ways(x, 2.0) ** 2))
        np.testing.assert_allclose(gradient, known, rtol=1e-6)


def decide_by_value(x, memory):
    for value in sorted(x, key=lambda value: value):
        memory[0] += value
    if memory[0] > 10:
        x *= 2.0
        memory[1] = 0.5
    return memory[0] + x[1]


def test_ways_write_to_arguments(tmp_path: Path) -> None:
    function = aj.compile(decide_by_value)
    function.export(tmp_path / "w.adjit", UP, np.zeros(2), ways=[(LARGE, np.zeros(2))])
    loaded = aj.load(tmp_path / "w.adjit")
    for x in (UP, LARGE, UP, LARGE, UP, LARGE):
        mine, memory = x.copy(), np.zeros(2)
        given, written = x.copy(), np.zeros(2)
        assert loaded(given, written) == decide_by_value(mine, memory)
        np.testing.assert_array_equal(given, mine)
        np.testing.assert_array_equal(written, memory)


@needs_linker
def test_a_library_writes_what_its_way_writes(tmp_path: Path) -> None:
    aj.compile(decide_by_value).export(tmp_path / "w.so", UP, np.zeros(2), ways=[(LARGE, np.zeros(2))])
    library = Library(tmp_path / "w.so", 1)
    for x in (UP, LARGE):
        mine, memory = x.copy(), np.zeros(2)
        given, written = x.copy(), np.zeros(2)
        expected = decide_by_value(mine, memory)
        # outputs are the result and the written inputs, whose pointers are not read
        out = np.zeros(1)
        pointers = (ctypes.c_void_p * 2)(given.ctypes.data, written.ctypes.data)
        start = library.arena.ctypes.data
        outputs = (ctypes.c_void_p * 3)(out.ctypes.data, None, None)
        assert library.c.w_run(pointers, outputs, ctypes.c_void_p(start + -start % 64)) == 0
        assert out[0] == expected
        np.testing.assert_array_equal(given, mine)
        np.testing.assert_array_equal(written, memory)


def test_what_cannot_be_ways_of_one_file(tmp_path: Path) -> None:
    function = aj.compile(three_ways)
    with pytest.raises(ExportError, match=r"x changed from f64\[2\] to f64\[1\]"):
        function.export(tmp_path / "f.adjit", UP, 1.0, ways=[(UP[:1], 1.0)])
    labelled = aj.compile(lambda x: (x, "up") if x[0] > 0 else (-x, "down"))
    labelled.export(tmp_path / "f.adjit", UP, ways=[(DOWN,)])
    loaded = aj.load(tmp_path / "f.adjit")
    assert (loaded(UP)[1], loaded(DOWN)[1]) == ("up", "down")
    with pytest.raises(ExportError, match=r"result\[1\] = 'up', another result\[0\], result\[1\] = 'down'"):
        labelled.export(tmp_path / "f.so", UP, ways=[(DOWN,)])
    other = aj.compile(lambda x: x if x[0] > 0 else x[:1])
    with pytest.raises(ExportError, match=r"result is f64\[2\] in one, f64\[1\] in another"):
        other.export(tmp_path / "f.so", UP, ways=[(DOWN,)])


def test_bound_methods_and_modules_have_ways(tmp_path: Path) -> None:
    class Model:
        def __init__(self) -> None:
            self.weights = np.array([1.0, 2.0])

        @aj.compile
        def __call__(self, x):
            return ("large", x @ self.weights) if np.max(x) > 3 else ("small", self.weights * x)

    model = Model()
    Model.__call__.__get__(model).export(tmp_path / "m.adjit", UP, ways=[(LARGE,)])
    loaded = aj.load(tmp_path / "m.adjit")
    assert loaded(LARGE) == ("large", 32.0)
    assert loaded(UP)[1].tolist() == [1.0, 4.0]


def test_ways_share_state(tmp_path: Path) -> None:
    model = aj.nn.Linear(2, 1)
    optimizer = aj.optim.SGD(model.parameters(), lr=0.1)

    @aj.compile
    def step(x):
        loss = aj.nn.functional.mse_loss(model(x), 2 * x[:, :1])
        far = bool(loss > 1e3)
        optimizer.zero_grad()
        (loss * (0.5 if far else 1.0)).backward()
        optimizer.step()
        return loss, "far" if far else "near"

    near, far = np.ones((3, 2), "f4"), np.full((3, 2), 1e3, "f4")
    step.export(tmp_path / "s.adjit", near, ways=[(far,)])
    loaded = aj.load(tmp_path / "s.adjit")
    assert list(loaded.state) == ["model.weight", "model.bias", "lr"]
    for x in (near, far * 0.1, near, far, near):
        _, which = step(aj.tensor(x))
        assert loaded(x)[1] == which
        for name, parameter in model.named_parameters():
            np.testing.assert_array_equal(loaded.state[f"model.{name}"], parameter.detach().numpy())
