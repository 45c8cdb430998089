"""Planned graphs of text, run: places, hand-over of results, donation, frames, and what a call allocates."""

from __future__ import annotations

import ctypes
import threading
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest

from adjit.ir.analysis.buffer_assignment import BufferAssignment, ResultKind
from adjit.ir.graph import Graph
from adjit.ir.memory_sizes import ALIGNMENT
from adjit.ir.parser import parse
from adjit.runtime.arena import allocate, data_address, new_array, view_as
from adjit.runtime.numba.executable import Executable, Interpretation
from adjit.runtime.numba.kernel_step import Kernel

DENSE = """
graph @dense(%x: f32[4,3], %w: f32[3,2], %b: f32[2]) {
  %h: f32[4,2] @ arena+0 = matmul %x, %w {transpose_a=false, transpose_b=false}
  %c: f32[4,2] @ arena+64 = broadcast %b {axes=(1,), shape=(4, 2)}
  %z: f32[4,2] @ arena+0 = add %h, %c
  free %c
  %y: f32[4,2] @ result+0 = tanh %z
  free %z
  %s: f32[] @ result+1 = reduce_sum %y {axes=(0, 1)}
  return %y, %s
}
"""

STEP = """
graph @step(%w: f32[8] donated, %g: f32[8], %n: i64[] donated) {
  %one: i64[] @ arena+0 = constant {dtype=i64, shape=(), value=1}
  %m: i64[] @ param+2 = add %n, %one
  free %one
  %s: f32[8] @ arena+0 = multiply %g, %g
  %v: f32[8] @ param+0 = subtract %w, %s
  free %s
  return %v, %m
}
"""


def arrays_for(graph: Graph, seed: int = 0) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    return [generator.normal(size=value.type.shape).astype(value.type.dtype) for value in graph.params]


def run(text: str, *arrays: np.ndarray) -> list:
    return Executable(parse(text), {}).run(arrays, arrays)


def test_results_are_fresh_arrays_and_scalars() -> None:
    graph = parse(DENSE)
    executable = Executable(graph, {})
    x, w, b = arrays_for(graph)
    first = executable.run([x, w, b], [x, w, b])
    kept = first[0].copy()
    y, s = executable.run([x + 1, w, b], [x + 1, w, b])
    np.testing.assert_allclose(y, np.tanh((x + 1) @ w + b), rtol=1e-6)
    assert isinstance(s, np.float32)
    assert s == pytest.approx(y.sum())
    assert np.array_equal(first[0], kept)
    assert not np.shares_memory(y, first[0])


def test_donated_results_are_the_arrays_passed() -> None:
    graph = parse(STEP)
    w, g, n = np.arange(8, dtype=np.float32), np.full(8, 2, np.float32), np.array(4)
    arrays = [w, g, n]
    v, m = Executable(graph, {}).run(arrays, arrays)
    assert v is w
    assert m is n
    assert m == 5
    assert np.array_equal(w, np.arange(8) - 4)
    assert np.array_equal(g, np.full(8, 2))


def test_donated_parameter_that_is_returned_as_it_is() -> None:
    w = np.ones(3)
    first, second = run("graph @f(%w: f64[3] donated) {\n  return %w, %w\n}", w)
    assert first is w
    assert second is not w
    assert not np.shares_memory(second, w)


def test_results_never_alias_inputs_or_each_other() -> None:
    x = np.arange(6.0)
    text = """
    graph @f(%x: f64[6]) {
      %r: f64[2,3] @ param+0 = reshape %x {shape=(2, 3)}
      %n: f64[6] @ result+2 = negative %x
      return %x, %r, %n, %n
    }"""
    results = run(text, x)
    assert [result.shape for result in results] == [(6,), (2, 3), (6,), (6,)]
    assert np.array_equal(results[1], x.reshape(2, 3))
    assert np.array_equal(results[3], -x)
    for i, result in enumerate(results):
        assert not np.shares_memory(result, x)
        assert not any(np.shares_memory(result, other) for other in results[i + 1:])


def test_result_written_through_an_alias_of_another_shape() -> None:
    text = """
    graph @f(%x: f32[6]) {
      %n: f32[6] @ result+0 = negative %x
      %r: f32[2,3] @ result+0 = reshape %n {shape=(2, 3)}
      return %r
    }"""
    x = np.arange(6, dtype=np.float32)
    (r,) = run(text, x)
    assert r.shape == (2, 3)
    assert np.array_equal(r, -x.reshape(2, 3))


def test_reshape_to_another_place_copies() -> None:
    text = """
    graph @f(%w: f32[4] donated) {
      %n: f32[4] @ arena+0 = negative %w
      %c: f32[4] @ param+0 = reshape %n {shape=(4,)}
      free %n
      return %c
    }"""
    w = np.arange(4, dtype=np.float32)
    (c,) = run(text, w)
    assert c is w
    assert np.array_equal(w, [0, -1, -2, -3])


@pytest.mark.parametrize("shape", ["0", "0,3", "3,0"])
def test_empty_values(shape: str) -> None:
    text = f"""
    graph @f(%x: f32[{shape}]) {{
      %a: f32[{shape}] @ arena+64 = negative %x
      %b: f32[{shape}] @ result+0 = exp %a
      free %a
      return %b
    }}"""
    x = np.empty([int(size) for size in shape.split(",")], np.float32)
    (b,) = run(text, x)
    assert b.shape == x.shape


def test_empty_parameter_seen_in_another_shape() -> None:
    text = """
    graph @f(%x: f32[0,3]) {
      %r: f32[3,0] @ param+0 = reshape %x {shape=(3, 0)}
      %b: f32[3,0] @ result+0 = exp %r
      return %b
    }"""
    assert run(text, np.empty((0, 3), np.float32))[0].shape == (3, 0)


def test_nothing_to_run() -> None:
    assert run("graph @f() {\n  return\n}") == []


def test_homes() -> None:
    assignment = BufferAssignment(parse(STEP))
    locations = [(location.kind, location.param) for location in assignment.result_locations]
    assert locations == [(ResultKind.DONATED, 0), (ResultKind.DONATED, 2)]
    assert [location.kind for location in BufferAssignment(parse(DENSE)).result_locations] == [ResultKind.ARRAY, ResultKind.SCALAR]


def test_the_callers_arrays_are_let_go() -> None:
    graph = parse(DENSE)
    executable = Executable(graph, {})
    arrays = arrays_for(graph)
    executable.run(arrays, arrays)
    held = [register for frame in executable._frames for register in frame.registers if register is not None]
    assert not any(np.shares_memory(array, register) for array in arrays for register in held)


def test_a_frame_is_used_again() -> None:
    graph = parse(DENSE)
    executable = Executable(graph, {})
    arrays = arrays_for(graph)
    for _ in range(3):
        executable.run(arrays, arrays)
    assert len(executable._frames) == 1


def test_calls_at_the_same_time_have_frames_of_their_own() -> None:
    """A kernel that waits for another call of the same program would wait for ever if there were one frame."""
    meeting = threading.Barrier(2, timeout=20)
    text = """
    graph @f(%x: f64[2]) {
      %y: f64[2] @ arena+0 = fused %x {columns=2, in_place=(), rows=1, scratch_bytes=0} [
        graph @negate(%a: f64[2]) {
          %b: f64[2] = negative %a
          return %b
        }
      ]
      %z: f64[2] @ result+0 = negative %y
      free %y
      return %z
    }"""
    graph = parse(text)

    def negate(ret: int, exc: int, source: int, target: int, low: int, high: int) -> int:
        values = (ctypes.c_double * 2).from_address(source)
        (ctypes.c_double * 2).from_address(target)[:] = [-value for value in values]
        meeting.wait()
        return 0

    executable = Executable(graph, {graph.ops[0]: fake_kernel(negate, (("operand", 0), ("result", 0)))})
    results: dict[int, np.ndarray] = {}

    def call(number: int) -> None:
        x = np.full(2, float(number))
        (results[number],) = executable.run([x], [x])

    threads = [threading.Thread(target=call, args=(number,)) for number in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {number: array.tolist() for number, array in results.items()} == {1: [1, 1], 2: [2, 2]}
    assert len(executable._frames) == 2


def fake_kernel(function, arguments, blocks: int = 1, finish: bool = False, work: float = 0.0) -> Kernel:
    """A kernel whose machine code is a Python function."""
    kinds = [ctypes.c_int64 if kind == "size" else ctypes.c_void_p for kind, _ in arguments]
    prototype = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, *kinds, ctypes.c_int64, ctypes.c_int64)
    entry = prototype(function)
    source = SimpleNamespace(
        arguments=[SimpleNamespace(kind=kind, index=index) for kind, index in arguments], blocks=blocks, finish=finish, work=work)
    return Kernel(source, SimpleNamespace(entry=entry, address=ctypes.cast(entry, ctypes.c_void_p).value), "a test")


FUSED = """
graph @f(%x: f64[8] donated, %k: f64[2]) {
  %y: f64[8] @ param+0, %s: f64[] @ result+1 = fused %x, %k scratch @ arena+64 {columns=8, in_place=(0,), rows=1, scratch_bytes=64} [
    graph @g(%a: f64[8], %b: f64[2]) {
      %c: f64[8] = negative %a
      %d: f64[] = reduce_sum %c {axes=(0,)}
      return %c, %d
    }
  ]
  return %y, %s
}
"""


@pytest.mark.parametrize("threads", [1, 3])
def test_kernel_arguments_and_blocks(threads: int) -> None:
    seen: list[tuple] = []

    def main(ret, exc, x, k, y, s, scratch, columns, low, high) -> int:
        if high == 0:
            seen.append(("finish", low, high))
            ctypes.c_double.from_address(s).value = sum((ctypes.c_double * 8).from_address(scratch))
            return 0
        seen.append(("main", x == y, scratch % ALIGNMENT, columns, low, high))
        values = (ctypes.c_double * 8).from_address(x)
        for block in range(low, high):
            values[block] = -values[block]
            (ctypes.c_double * 8).from_address(scratch)[block] = values[block]
        return 0

    graph = parse(FUSED)
    arguments = (("operand", 0), ("operand", 1), ("result", 0), ("result", 1), ("scratch", 0), ("size", 8))
    kernel = fake_kernel(main, arguments, blocks=8, finish=True, work=1e9)
    executable = Executable(graph, {graph.ops[0]: kernel}, threads)
    for _ in range(2):
        seen.clear()
        x, k = np.arange(8.0), np.ones(2)
        y, s = executable.run([x, k], [x, k])
        assert y is x
        assert y.tolist() == (-np.arange(8.0)).tolist()
        assert s == -28.0
        blocks = sorted(entry[4:] for entry in seen if entry[0] == "main")
        assert [low for low, _ in blocks] == [0, *(high for _, high in blocks[:-1])]
        assert blocks[-1][1] == 8
        assert (len(blocks) == 1) == (threads == 1)
        assert all(entry[1:4] == (True, 0, 8) for entry in seen if entry[0] == "main")
        assert seen[-1] == ("finish", 0, 0)


def test_a_kernel_without_blocks_only_finishes() -> None:
    seen: list[tuple[int, int]] = []
    graph = parse(FUSED)
    kernel = fake_kernel(lambda ret, exc, low, high: seen.append((low, high)) or 0, (), blocks=0, finish=True)
    executable = Executable(graph, {graph.ops[0]: kernel})
    executable.run([np.ones(8), np.ones(2)], [np.ones(8), np.ones(2)])
    assert seen == [(0, 0)]


def array_bytes() -> int:
    """Bytes of array data that are alive, as NumPy tells tracemalloc."""
    domain = tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)
    return sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces([domain]).traces)


def peak_of_arrays(call) -> int:
    """The most bytes of array data that lived at once during `call`, beyond those alive before."""
    tracemalloc.start()
    try:
        before = array_bytes()
        tracemalloc.reset_peak()
        base, _ = tracemalloc.get_traced_memory()
        call()
        _, peak = tracemalloc.get_traced_memory()
        assert array_bytes() == before
        return peak - base
    finally:
        tracemalloc.stop()


def test_a_donated_step_allocates_no_array_in_steady_state() -> None:
    """Sizes are large, so that one array would stand out from Python's own small objects."""
    text = """
    graph @step(%w: f32[256,64] donated, %x: f32[128,256], %y: i64[128,1]) {
      %h: f32[128,64] @ arena+0 = matmul %x, %w {transpose_a=false, transpose_b=false}
      %p: f32[128,1] @ arena+32768 = take_along_axis %h, %y {axis=1}
      free %p
      %g: f32[256,64] @ arena+65536 = matmul %x, %h {transpose_a=true, transpose_b=false}
      free %h
      %n: f32[256,64] @ param+0 = subtract %w, %g
      free %g
      return %n
    }"""
    graph = parse(text)
    executable = Executable(graph, {})
    arrays = [np.zeros((256, 64), np.float32), np.ones((128, 256), np.float32), np.zeros((128, 1), np.int64)]
    executable.run(arrays, arrays)
    assert peak_of_arrays(lambda: executable.run(arrays, arrays)) < 4096
    assert peak_of_arrays(lambda: np.ones(2048)) >= 16384       # the measure sees an array


@pytest.mark.parametrize("shape", [(1 << 40, 1 << 40), (1 << 58,)])
def test_what_cannot_be_allocated_is_a_memory_error(shape: tuple[int, ...]) -> None:
    sizes = ",".join(map(str, shape))
    axes = tuple(range(len(shape)))
    text = f"""
    graph @f(%w: f32[4] donated, %x: f32[]) {{
      %v: f32[4] @ param+0 = negative %w
      %b: f32[{sizes}] @ result+1 = broadcast %x {{axes=(), shape={shape}}}
      %s: f32[] @ result+2 = reduce_sum %b {{axes={axes}}}
      return %v, %b, %s
    }}"""
    executable = Executable(parse(text), {})
    arrays = [np.ones(4, np.float32), np.ones((), np.float32)]
    with pytest.raises(MemoryError):
        executable.run(arrays, arrays)
    assert np.array_equal(arrays[0], np.ones(4))


def test_an_arena_that_cannot_be_allocated_is_a_memory_error() -> None:
    with pytest.raises(MemoryError):
        allocate(1 << 62)
    with pytest.raises(MemoryError):
        allocate(1 << 70)


def test_bad_indices_name_the_users_line() -> None:
    text = """
    graph @f(%x: f32[4], %i: i64[2]) {
      %y: f32[2] @ result+0 = take %x, %i {axis=0}  # model.py:7 in pick
      return %y
    }"""
    with pytest.raises(IndexError, match=r"(?s)take: index 4 is out of bounds for axis 0 with size 4.*model.py:7 in pick"):
        run(text, np.zeros(4, np.float32), np.array([0, 4]))


def test_a_program_that_raised_can_be_called_again() -> None:
    graph = parse("""
    graph @f(%x: f32[4], %i: i64[2]) {
      %y: f32[2] @ result+0 = take %x, %i {axis=0}
      return %y
    }""")
    executable, x = Executable(graph, {}), np.arange(4, dtype=np.float32)
    with pytest.raises(IndexError):
        executable.run([x, np.array([0, 9])], [x])
    (y,) = executable.run([x, np.array([3, 1])], [x])
    assert y.tolist() == [3, 1]


def test_times_of_every_op() -> None:
    graph = parse(DENSE)
    arrays = arrays_for(graph)
    results, times = Executable(graph, {}).run_timed(arrays, arrays)
    assert [op.name for op, _, _ in times] == ["matmul", "broadcast", "add", "tanh", "reduce_sum"]
    assert all(begin <= end for _, begin, end in times)
    assert np.array_equal(results[0], Executable(graph, {}).run(arrays, arrays)[0])


def test_interpretation_donates_as_the_program_does() -> None:
    optimized = parse("""
    graph @swap(%a: f32[2] donated, %b: f32[2] donated) {
      %c: f32[2] = negative %b
      return %c, %a
    }""")
    planned = parse("""
    graph @swap(%a: f32[2] donated, %b: f32[2] donated) {
      %c: f32[2] @ param+1 = negative %b
      return %c, %a
    }""")
    a, b = np.array([1, 2], np.float32), np.array([3, 4], np.float32)
    first, second = Interpretation(optimized, planned).run([a, b], [a, b])
    assert first is b
    assert second is a
    assert a.tolist() == [1, 2]
    assert b.tolist() == [-3, -4]


def test_addresses() -> None:
    block = allocate(100)
    assert block.nbytes == 100
    assert data_address(block) % ALIGNMENT == 0
    for array in (np.zeros(()), np.arange(9)[3:], np.arange(9)[::-2], np.zeros((0, 2)), np.zeros((3, 4)).T):
        assert data_address(array) == array.ctypes.data
    view = view_as(block, parse(STEP).params[1].type, 64)
    assert data_address(view) == data_address(block) + 64
    assert new_array(parse(STEP).params[2].type).shape == ()
