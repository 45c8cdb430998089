"""Small steps that share a function: which do, what the text becomes, and that nothing else changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.llvm_definitions import definitions_of

import adjit as aj
from adjit.codegen.llvm.link import load
from adjit.codegen.llvm.module import Definition
from adjit.codegen.llvm.target import host_target
from adjit.codegen.native import program as programs
from adjit.codegen.native.compile_program import compile_program_text, make_artifact
from adjit.codegen.native.merge_functions import MAX_MERGED_LINES, is_small, merge_steps
from adjit.codegen.native.program import lower_program
from adjit.codegen.native.program_code import Call, ProgramCode, StepCode
from adjit.ir.graph import Graph, Slot
from adjit.runtime.native.code import NativeCode, native_is_supported
from adjit.runtime.native.executable import NativeExecutable

needs_native = pytest.mark.skipif(not native_is_supported(), reason="native programs are for CPython on Linux on x86-64")

HEAD = "define internal i64 @step(ptr noalias nocapture readonly %places, i64 %low, i64 %high, ptr noalias %scratch) nounwind {\nentry:\n"
LOOP = HEAD + """  %a = load ptr, ptr %places
  br label %body1
body1:
  %i1 = phi i64 [%low, %entry], [%next, %body1]
  %next = add i64 %i1, 1
  %more = icmp slt i64 %next, %high
  br i1 %more, label %body1, label %after1
after1:
  ret i64 0
}"""
SHORT = HEAD + """  %low.one = load ptr, ptr %places
  ret i64 0
}"""


def call(text: str, *slots: Slot, **fields: object) -> Call:
    shared = {f"shared_{len(text)}": Definition(f"shared_{len(text)}", "text")}
    code = StepCode(definitions_of(text), 3, 10.0, frozenset({f"declare {len(text)}"}), shared, **fields)     # type: ignore[arg-type]
    return Call("", code, slots, 7, "an op")


A, B = Slot("arena", 0), Slot("param", 1)


def test_the_text() -> None:
    merged = merge_steps([call(SHORT, A, offsets=((0, 64),)), call(LOOP, B, A, offsets=((1, 8),))])
    assert merged.code.text == HEAD + """  br label %s0.entry
s0.entry:
  %s0.places = getelementptr ptr, ptr %places, i64 0
  %s0.low.one = load ptr, ptr %s0.places
  br label %s1.entry
s1.entry:
  %s1.places = getelementptr ptr, ptr %places, i64 1
  %s1.a = load ptr, ptr %s1.places
  br label %s1.body1
s1.body1:
  %s1.i1 = phi i64 [0, %s1.entry], [%s1.next, %s1.body1]
  %s1.next = add i64 %s1.i1, 1
  %s1.more = icmp slt i64 %s1.next, 3
  br i1 %s1.more, label %s1.body1, label %s1.after1
s1.after1:
  ret i64 0
}"""
    assert merged.args == (A, B, A)
    assert merged.code.offsets == ((0, 64), (2, 8))
    assert merged.code.work == 20.0
    assert merged.code.tasks == 1
    assert len(merged.code.declarations) == len(merged.code.shared) == 2
    assert merged.name == "an op and 1 more"


def test_one_step_stays_what_it_is() -> None:
    alone = call(LOOP, A)
    assert merge_steps([alone]) is alone


def test_which_steps_may_share_a_function() -> None:
    assert is_small(call(LOOP, A))
    assert is_small(call(SHORT, A))
    assert not is_small(call(SHORT, A, checks=True))
    assert not is_small(call(SHORT.replace("  ret i64 0", "  %b = alloca i8\n  ret i64 0"), A))
    assert not is_small(call(SHORT.replace("nounwind", "noinline nounwind optnone"), A))
    assert not is_small(call("@step.table = internal constant i8 0\n" + SHORT, A))
    assert not is_small(call(SHORT + "\n" + SHORT.replace("@step", "@step.part"), A))
    assert not is_small(call(SHORT.replace("ret i64 0", "ret i64 %low"), A))
    assert not is_small(call(SHORT.replace("  ret", "  ; more\n" * MAX_MERGED_LINES + "  ret"), A))
    busy = call(LOOP, A)
    assert not is_small(replace(busy, code=replace(busy.code, work=1e6)))       # given to the threads


def steps(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
    a = np.tanh(x @ y)
    b = np.exp(a.sum(axis=0)) + y[0]
    c = np.cumsum(b) * a.max()
    return a, b, c, np.sort(c) @ a


def lowered(planned: Graph, timed: bool = False) -> ProgramCode:
    target = host_target()
    assert target is not None
    return lower_program(planned, target, timed=timed)


@pytest.fixture(scope="module")
def planned() -> Graph:
    x, y = np.ones((3, 7)), np.ones((7, 3))       # rows of fewer elements than a vector of any target: no kernel has its elements apart
    return aj.compile(steps, backend="native").program(steps, (x, y), {}).planned


@needs_native
def test_small_programs_have_few_functions_and_the_same_bits(planned: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((3, 7)), rng.standard_normal((7, 3))]
    found, counts = [], []
    for small in (is_small, lambda call: False):
        monkeypatch.setattr(programs, "is_small", small)
        code = lowered(planned)
        counts.append(code.text.count("\ndefine "))
        target = host_target()
        assert target is not None
        loaded = load(compile_program_text(code.text, target, verify=True))
        executable = NativeExecutable(NativeCode(loaded, make_artifact(planned, code, target), "", ""), lambda: planned)
        found.append([np.asarray(result).tobytes() for result in executable.run(arrays, arrays)])
    assert found[0] == found[1]
    assert counts[0] < counts[1]


@needs_native
def test_a_timed_program_has_each_op_by_itself(planned: Graph) -> None:
    merged, timed = lowered(planned).calls, lowered(planned, timed=True).calls
    assert any(" more" in call.name for call in merged)
    assert not any(" more" in call.name for call in timed)
    assert len(timed) > len(merged)


@needs_native
def test_equal_ops_share_a_function_and_are_left_alone() -> None:
    def repeated(*arrays: np.ndarray) -> list[np.ndarray]:
        return [np.cumsum(array) for array in arrays]

    arrays = tuple(np.ones(9) for _ in range(4))
    code = lowered(aj.compile(repeated, backend="native").program(repeated, arrays, {}).planned)
    assert len(code.calls) == 4
    assert len({call.function for call in code.calls}) == 1
