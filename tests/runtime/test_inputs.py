"""Arguments made fit to be used, and donated buffers that cannot be taken: errors by their message, before anything is touched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit.ir.errors import DonationError, TraceError
from adjit.ir.parser import parse
from adjit.runtime.inputs import Inputs
from adjit.tracer import signature

GRAPH = parse("graph @f(%w: f32[4] donated, %v: f32[4] donated, %x: f32[4], %c: f32[4] captured) {\n  return\n}")


@pytest.fixture
def inputs() -> Inputs:
    return Inputs(GRAPH, ["params['w']", "params['v']", "x", "captured array 0"])


def fresh() -> list[np.ndarray]:
    return [np.arange(4, dtype=np.float32) + i for i in range(4)]


def test_fit_arrays_are_used_as_they_are(inputs: Inputs) -> None:
    leaves = fresh()
    assert all(a is b for a, b in zip(inputs.prepare(leaves, leaves), leaves, strict=True))


UNUSUAL = {
    "strided": lambda x: np.repeat(x, 2)[::2],
    "reversed": lambda x: x[::-1].copy()[::-1],
    "byte order": lambda x: x.astype(x.dtype.newbyteorder("S")),
    "unaligned": lambda x: np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(x.dtype),
    "broadcast": lambda x: np.broadcast_to(x, (1, 4))[0],
    "read-only": lambda x: np.frombuffer(x.tobytes(), x.dtype),
}


@pytest.mark.parametrize("kind", UNUSUAL)
def test_unusual_arrays_work(inputs: Inputs, kind: str) -> None:
    leaves = fresh()
    leaves[2] = UNUSUAL[kind](leaves[2])
    prepared = inputs.prepare(leaves, leaves)[2]
    assert prepared.tolist() == [2, 3, 4, 5]
    assert prepared.flags.c_contiguous
    assert prepared.flags.aligned
    assert prepared.dtype == np.dtype("f4")
    assert prepared.dtype.isnative


def test_a_memory_map_works(inputs: Inputs, tmp_path: Path) -> None:
    leaves = fresh()
    leaves[2].tofile(tmp_path / "x")
    leaves[2] = np.memmap(tmp_path / "x", np.float32, "r")
    assert inputs.prepare(leaves, leaves)[2].tolist() == [2, 3, 4, 5]


def test_fortran_order() -> None:
    inputs = Inputs(parse("graph @f(%x: f64[2,3]) {\n  return\n}"), ["x"])
    x = np.arange(6.0).reshape(2, 3)
    (prepared,) = inputs.prepare([np.asfortranarray(x)], [x])
    assert prepared.flags.c_contiguous
    assert np.array_equal(prepared, x)


def refused(inputs: Inputs, leaves: list) -> DonationError:
    before = [np.array(leaf, copy=True) for leaf in leaves]
    with pytest.raises(DonationError) as info:
        inputs.prepare(leaves, leaves)
    assert all(np.array_equal(a, b) for a, b in zip(leaves, before, strict=True))
    return info.value


@pytest.mark.parametrize(("kind", "message"), [
    ("read-only", "donated argument params['v'] is read-only"),
    ("strided", "donated argument params['v'] is not C-contiguous (shape (4,), strides (8,))"),
    ("byte order", "donated argument params['v'] is not in native byte order"),
])
def test_a_buffer_that_cannot_be_taken(inputs: Inputs, kind: str, message: str) -> None:
    leaves = fresh()
    leaves[1] = UNUSUAL[kind](leaves[1])
    error = refused(inputs, leaves)
    assert error.message == message
    assert error.hint == "pass a copy (params['v'].copy()), or do not donate it"


def test_an_unaligned_buffer(inputs: Inputs) -> None:
    leaves = fresh()
    leaves[1] = np.zeros(17, np.uint8)[1:].view(np.float32)
    assert refused(inputs, leaves).message == "donated argument params['v'] is not aligned"


@pytest.mark.parametrize(("leaf", "name"), [(np.float32(1), "float32"), (2.0, "float")])
def test_not_an_array(inputs: Inputs, leaf: object, name: str) -> None:
    leaves: list = fresh()
    leaves[0] = leaf
    with pytest.raises(DonationError) as info:
        inputs.prepare(fresh(), leaves)
    error = info.value
    assert error.message == f"donated argument params['w'] is a {name}, not an array, and has no buffer to update"
    assert error.hint == "pass np.asarray(params['w']), and pass the returned array to the next call"


@pytest.mark.parametrize(("first", "second", "message"), [
    (0, 1, "donated argument params['w'] is the same array as params['v']"),
    (0, 2, "donated argument params['w'] is the same array as x"),
    (1, 3, "donated argument params['v'] is the same array as captured array 0"),
])
def test_passed_twice(inputs: Inputs, first: int, second: int, message: str) -> None:
    leaves = fresh()
    leaves[second] = leaves[first]
    assert refused(inputs, leaves).message == message


@pytest.mark.parametrize(("first", "second", "message"), [
    (0, 1, "donated argument params['w'] shares memory with params['v']"),
    (1, 0, "donated argument params['w'] shares memory with params['v']"),
    (2, 1, "donated argument params['v'] shares memory with x"),
    (1, 2, "donated argument params['v'] shares memory with x"),
])
def test_overlapping_memory(inputs: Inputs, first: int, second: int, message: str) -> None:
    leaves, block = fresh(), np.zeros(7, np.float32)
    leaves[first], leaves[second] = block[:4], block[3:]
    assert refused(inputs, leaves).message == message


def test_overlap_hidden_behind_a_larger_argument() -> None:
    """The donated array lies within one argument, and another one begins between the two."""
    inputs = Inputs(parse("graph @f(%a: f32[10], %b: f32[1], %w: f32[2] donated) {\n  return\n}"), ["a", "b", "w"])
    block = np.zeros(10, np.float32)
    with pytest.raises(DonationError, match="donated argument w shares memory with a"):
        inputs.prepare(*[[block, block[2:3], block[5:7]]] * 2)


def test_arguments_that_are_not_donated_may_overlap(inputs: Inputs) -> None:
    leaves = fresh()
    leaves[3] = leaves[2]
    inputs.prepare(leaves, leaves)


def test_neighbours_and_empty_arrays_do_not_overlap(inputs: Inputs) -> None:
    leaves, block = fresh(), np.zeros(8, np.float32)
    leaves[0], leaves[1] = block[:4], block[4:]
    inputs.prepare(leaves, leaves)
    empty = np.zeros((0,), np.float32)
    Inputs(parse("graph @f(%w: f32[0] donated, %x: f32[0]) {\n  return\n}"), ["w", "x"]).prepare([empty, empty], [empty, empty])


def test_a_stale_shape_is_refused(inputs: Inputs) -> None:
    leaves = fresh()
    leaves[3] = np.zeros(5, np.float32)
    with pytest.raises(TraceError, match=r"compiled for f32\[4\], got float32 \(5,\)"):
        inputs.prepare(leaves, leaves)


def test_arguments_are_named_only_in_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name of one takes as long as the whole tree is large: 20 NumPy numbers took 2.6 ms a call."""
    def fail(*args: Any) -> None:
        raise AssertionError("named")

    total = aj.compile(lambda numbers: sum(numbers.values()), backend="interpret")
    numbers = {"a": np.float64(1.0), "b": np.float32(2.0)}
    assert total(numbers) == 3.0        # the trace itself names them
    monkeypatch.setattr(signature, "argument_paths", fail)
    assert total(numbers) == 3.0
