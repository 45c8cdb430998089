"""Contiguous slices lie in the memory of what they are slices of; nothing is written there while they are needed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adjit as aj
from adjit.ir.analysis.aliases import alias_offset
from adjit.ir.analysis.buffer_assignment import BufferAssignment
from adjit.ir.errors import VerificationError
from adjit.ir.parser import parse
from adjit.ir.printer import print_graph
from adjit.ir.verifier import Stage, verify
from adjit.passes.memory.plan_memory import plan_memory
from adjit.passes.options import Options
from adjit.runtime.native.code import native_is_supported

BACKENDS = [*(["native"] if native_is_supported() else []), "numba", "interpret"]
SHAPES = ((4, 3), (3,), (3, 2), (2,))
ENDS = (0, 12, 15, 21, 23)


def unpack(p: Any) -> list[Any]:
    return [p[begin:end].reshape(shape) for begin, end, shape in zip(ENDS, ENDS[1:], SHAPES, strict=False)]


def loss(p: Any, x: Any) -> Any:
    w1, b1, w2, b2 = unpack(p)
    return np.sum((np.tanh(x @ w1 + b1) @ w2 + b2) ** 2)


def slots(graph_text: str, name: str) -> list[str]:
    planned = plan_memory(parse(graph_text), Options())
    verify(planned, Stage.PLANNED)
    assert parse(print_graph(planned)) == planned
    aliases = set(planned.ops) - set(BufferAssignment(planned).ops)
    return [f"{op.slots[0]}{'' if op in aliases else ' copy'}" for op in planned.ops if op.name == name]


@pytest.mark.parametrize(("shape", "start", "stop", "step", "expected"), [
    ((10,), (3,), (7,), (1,), 24), ((10,), (3,), (7,), (2,), None), ((10,), (3,), (4,), (2,), 24), ((4, 5), (1, 0), (3, 5), (1, 1), 40),
    ((4, 5), (1, 1), (3, 5), (1, 1), None), ((4, 5), (2, 1), (3, 4), (1, 1), 88), ((4, 5), (0, 2), (4, 3), (1, 1), None),
    ((2, 3, 4), (1, 1, 0), (2, 3, 4), (1, 1, 1), 128), ((4, 1, 2), (1, 0, 0), (3, 1, 2), (1, 1, 1), 16), ((3,), (1,), (1,), (1,), None)])
def test_which_slices_are_parts(shape: tuple, start: tuple, stop: tuple, step: tuple, expected: int | None) -> None:
    size = tuple(-(-(b - a) // c) for a, b, c in zip(start, stop, step, strict=True))
    graph = parse(f"""graph @f(%x: f64[{','.join(map(str, shape))}]) {{
      %y: f64[{','.join(map(str, size))}] = slice %x {{start={start}, stop={stop}, step={step}}}
      return %y
    }}""")
    assert alias_offset(graph.ops[0]) == expected
    if expected is not None:
        x = np.arange(np.prod(shape), dtype=np.float64)
        part = x.reshape(shape)[tuple(slice(a, b, c) for a, b, c in zip(start, stop, step, strict=True))]
        assert x[expected // 8:expected // 8 + part.size].tobytes() == part.tobytes()


def test_parts_of_parameters_and_of_what_lives_on() -> None:
    assert slots("""graph @f(%p: f32[8]) {
      %a: f32[4] = slice %p {start=(2,), stop=(6,), step=(1,)}
      %b: f32[2] = slice %a {start=(1,), stop=(3,), step=(1,)}
      %c: f32[2] = exp %b
      return %c
    }""", "slice") == ["param+0:8", "param+0:12"]
    assert slots("""graph @f(%p: f32[8]) {
      %x: f32[8] = exp %p
      %a: f32[4] = slice %x {start=(4,), stop=(8,), step=(1,)}
      %s: f32[4] = exp %a
      %t: f32[8] = exp %x
      return %s, %t
    }""", "slice") == ["result+1:16"]      # where its operand is to end


def test_copies() -> None:
    """Of results, of what would be kept longer for a part of it, and where an op could not write in place."""
    assert slots("""graph @f(%p: f32[8]) {
      %a: f32[4] = slice %p {start=(4,), stop=(8,), step=(1,)}
      return %a
    }""", "slice") == ["result+0 copy"]
    (place,) = slots("""graph @f(%p: f32[800]) {
      %x: f32[800] = exp %p
      %a: f32[4] = slice %x {start=(4,), stop=(8,), step=(1,)}
      %s: f32[] = reduce_sum %x {axes=(0,)}
      %b: f32[4] = exp %a
      return %s, %b
    }""", "slice")
    assert place.endswith("copy")
    text = """graph @f(%p: f32[8] donated) {
      %a: f32[4] = slice %p {start=(4,), stop=(8,), step=(1,)}
      %x: f32[8] = update_slice %p, %a {start=(0,), step=(1,)}
      return %x
    }"""
    assert slots(text, "slice")[0].endswith("copy")
    assert slots(text, "update_slice") == ["param+0 copy"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_flat_vector_of_parameters(backend: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((5, 4))
    flat = aj.compile(aj.value_and_grad(loss), backend=backend)
    tree = aj.compile(aj.value_and_grad(lambda parts, x: loss(np.concatenate([part.ravel() for part in parts]), x)), backend=backend)
    for start in (0, 1, 3):             # aligned as little as elements have to be
        p = rng.standard_normal(23 + start)[start:]
        for _ in range(3):
            value, gradient = flat(p, x)
            other, parts = tree([np.array(part) for part in unpack(p)], x)
            np.testing.assert_allclose(value, other, rtol=1e-13)
            np.testing.assert_allclose(gradient, np.concatenate([part.ravel() for part in parts]), rtol=1e-12)
    planned = flat.program(flat.fun, (p, x), {}).planned
    assert not [op for op in BufferAssignment(planned).ops if op.name == "slice"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_donated_vector_is_updated_after_its_parts_were_read(backend: str) -> None:
    def step(p, x):
        value, gradient = aj.value_and_grad(loss)(p, x)
        return p - 0.1 * gradient, value

    def early(p, x):        # the new content is there before the old one was used
        new = p * 0.5 + x[0, 0]
        w1, b1, _, _ = unpack(p)
        return new, np.sum(np.tanh(x @ w1 + b1) * new[1:4])
    rng = np.random.default_rng(1)
    x = rng.standard_normal((5, 4))
    for function in (step, early):
        donating, plain = aj.compile(function, donate="p", backend=backend), aj.compile(function, backend=backend)
        p = rng.standard_normal(23)
        for _ in range(3):
            wanted = plain(p, x)
            given = p.copy()
            got = donating(given, x)
            assert got[0] is given
            for one, other in zip(got, wanted, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-13)


@pytest.mark.parametrize("backend", BACKENDS)
def test_indices_in_a_part(backend: str) -> None:
    @aj.compile(backend=backend)
    def pick(table, indices):
        return table[indices[3:6]]
    table = np.arange(5.0)
    assert pick(table, np.array([9, 9, 9, 4, 0, 1, 9])).tolist() == [4, 0, 1]
    with pytest.raises(IndexError, match="7"):
        pick(table, np.array([9, 9, 9, 4, 0, 7, 9]))


@pytest.mark.parametrize("backend", BACKENDS)
def test_in_loops(backend: str) -> None:
    def run(state, steps):
        def body(state, x):
            position, velocity = state[:2], state[2:]
            new = np.concatenate([position + 0.1 * velocity, velocity - 0.1 * position * x])
            return new, np.sum(state[1:3])
        return aj.scan(body, state, steps)
    state, steps = np.array([1.0, 2.0, 0.5, -1.0]), np.linspace(0, 1, 6)
    last, sums = aj.compile(run, backend=backend)(state, steps)
    expected = []
    for x in steps:
        expected.append(state[1:3].sum())
        state = np.concatenate([state[:2] + 0.1 * state[2:], state[2:] - 0.1 * state[:2] * x])
    np.testing.assert_allclose(last, state, rtol=1e-14)
    np.testing.assert_allclose(sums, expected, rtol=1e-14)


def test_the_graph_in_a_file(tmp_path: Any) -> None:
    if not native_is_supported():
        pytest.skip("exports are native")
    rng = np.random.default_rng(2)
    p, x = rng.standard_normal(23), rng.standard_normal((5, 4))
    function = aj.compile(aj.value_and_grad(loss))
    function.export(tmp_path / "loss.adjit", p, x)
    for one, other in zip(aj.load(tmp_path / "loss.adjit")(p, x), function(p, x), strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


class Author:
    """Programs of slices, reshapes, updates and concatenations of vectors of 24 numbers, the same for NumPy and for traces."""

    def __init__(self, choices: list[int]):
        self.choices = choices

    def __call__(self, p: Any, q: Any) -> Any:
        taken = iter(self.choices)

        def choose(count: int) -> int:
            return next(taken, 0) % count
        values = [p, q]
        for _ in range(2 + choose(10)):
            x, y = values[choose(len(values))], values[choose(len(values))]
            kind = choose(7)
            start, length = choose(12), 2 * (1 + choose(6))
            if kind == 0:
                values.append(np.sin(x) * 0.5 + y)
            elif kind == 1:
                values.append(np.concatenate([x[start:start + length] * 2.0, y[start + length:], x[:start]]))
            elif kind == 2:
                values.append(np.concatenate([y[12:], x[:12]]) - x)
            elif kind == 3:
                values.append(x + np.sum(y[start:start + length].reshape(2, -1), axis=0).sum())
            elif kind == 4:
                new = x + 0.0
                new[start:start + length] = y[12:12 + length]
                values.append(new)
            elif kind == 5:
                new = x * 1.0
                new[:length] = new[12:12 + length]
                values.append(new)
            else:
                values.append((x.reshape(4, 6)[1:3].reshape(3, 4)[1:] @ y[start:start + 8].reshape(4, 2)).sum() * x)
        return values[-1], values[-1 - choose(len(values))][start:start + 5], values[choose(len(values))] + 1.0


@settings(max_examples=12, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 60), min_size=20, max_size=80), st.booleans())
def test_random_programs(choices: list[int], donated: bool) -> None:
    function = Author(choices)
    rng = np.random.default_rng(3)
    p, q = rng.standard_normal(24), rng.standard_normal(24)
    wanted = function(p.copy(), q.copy())
    for backend in BACKENDS:
        compiled = aj.compile(lambda p, q: function(p, q), donate="p" if donated else (), backend=backend)
        for _ in range(2):
            given_p, given_q = p.copy(), q.copy()
            for one, other in zip(compiled(given_p, given_q), wanted, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
            assert given_q.tobytes() == q.tobytes()
            assert donated or given_p.tobytes() == p.tobytes()


JOINED = """graph @f(%x: f32[4], %y: f32[6]) {
  %a: f32[4] = exp %x
  %b: f32[6] = sqrt %y
  %c: f32[4] = BACK
  %r: f32[14] = concatenate %a, %b, %c {axis=0}
  return %r
}"""


def test_parts_of_a_result_are_made_there() -> None:
    text = JOINED.replace("BACK", "sin %a").replace("%a, %b", "%x, %b")     # %a is written over by %c: one memory, one part
    assert slots(text, "exp") == slots(text, "sin") == ["result+0:40 copy"]
    assert slots(text, "sqrt") == ["result+0:16 copy"]
    assert slots(text, "reshape") == ["result+0 copy"]
    assert slots(text, "concatenate") == ["result+0"]
    needed = JOINED.replace("BACK", "exp %x").replace("return %r", "%t: f32[4] = negative %a\n  return %r, %t")
    assert slots(needed, "concatenate") == ["result+0"]
    assert slots(needed, "reshape") == ["result+0 copy"]        # %a is needed afterwards
    mostly_there = JOINED.replace("BACK", "exp %x").replace("%a, %b", "%a, %y")
    assert slots(mostly_there, "concatenate") == ["result+0"]
    nothing_own = JOINED.replace("BACK", "exp %x").replace("%a, %b, %c", "%x, %y, %x")
    assert slots(nothing_own, "concatenate") == ["result+0 copy"]
    twice = JOINED.replace("BACK", "exp %x").replace("%a, %b, %c", "%a, %b, %a")
    assert slots(twice, "concatenate") == ["result+0 copy"]      # less than half is its own
    assert slots(twice.replace("6]", "16]").replace("14", "24"), "reshape") == ["result+0 copy", "result+0:80 copy"]


def test_other_concatenations_copy() -> None:
    inside = JOINED.replace("BACK", "exp %x").replace("return %r", "%s: f32[14] = tanh %r\n  return %s")
    assert not any(place.startswith("result") for place in slots(inside, "sqrt"))
    columns = """graph @f(%x: f32[2,2]) {
      %a: f32[2,2] = exp %x
      %b: f32[2,2] = sin %x
      %r: f32[2,4] = concatenate %a, %b {axis=1}
      return %r
    }"""
    assert slots(columns, "concatenate") == ["result+0 copy"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_are_computed_in_their_place(backend: str) -> None:
    rng = np.random.default_rng(4)
    p, x = rng.standard_normal(23), rng.standard_normal((5, 4))
    function = aj.compile(aj.value_and_grad(loss), backend=backend)
    for _ in range(2):
        _, gradient = function(p, x)
    graph = function.program(function.fun, (p, x), {}).planned
    assert not [op for op in BufferAssignment(graph).ops if op.name in ("slice", "concatenate")]
    for k in (0, 12, 15, 22):
        small = 1e-6 * np.eye(23)[k]
        np.testing.assert_allclose(gradient[k], (loss(p + small, x) - loss(p - small, x)) / 2e-6, rtol=1e-5, atol=1e-8)


def test_the_verifier_knows_parts() -> None:
    planned = print_graph(plan_memory(parse(JOINED.replace("BACK", "cos %x")), Options()))
    wrong_slots = ((("result+0:16", "result+0:12"), "overlaps|written"), (("result+0:40", "result+0:44"), "does not hold"))
    for wrong, words in wrong_slots:
        assert wrong[0] in planned
        with pytest.raises(VerificationError, match=words):
            verify(parse(planned.replace(*wrong)), Stage.PLANNED)
