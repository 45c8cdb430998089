"""Steps of one form share a function: what is found alike, and that programs made of such steps compute the same."""

from __future__ import annotations

import sys
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import optree
import pytest
from support.llvm_definitions import definitions_of
from support.project import ROOT

import adjit as aj
from adjit.codegen.llvm.module import Function
from adjit.codegen.llvm.target import TARGETS, host_targets
from adjit.codegen.native.merge_functions import MIN_SIMILAR, find_similar
from adjit.codegen.native.program import lower_program
from adjit.passes.options import Options
from adjit.passes.pipeline import run_pipeline
from adjit.runtime.native.code import native_is_supported

sys.path.insert(0, str(ROOT / "benchmarks"))

from unrolled_loops import PROGRAMS, traced

STEP = """define internal i64 @step(ptr noalias nocapture readonly %places, i64 %low, i64 %high, ptr noalias %scratch) nounwind {{
entry:
  %to = load ptr, ptr %places
  %here = getelementptr i8, ptr %to, i64 {offset}
  %there = getelementptr i8, ptr %here, i64 {offset}
  store i64 {value}, ptr %there, align 8
  %end = add nsw i64 %low, {value}
  %v = shufflevector <2 x i64> <i64 {lane}, i64 1>, <2 x i64> poison, <2 x i32> <i32 0, i32 1>
  store <2 x i64> %v, ptr %to, align {align}
  ret i64 0
}}"""


def step(offset: int, value: int, lane: int = 0, align: int = 8) -> Function:
    (function,) = definitions_of(STEP.format(offset=offset, value=value, lane=lane, align=align))
    assert isinstance(function, Function)
    return function


def test_numbers_that_differ_come_from_a_table() -> None:
    """Equal numbers of a step are one where they are in all; those that no step has otherwise stay."""
    steps = {step(8 * k, 100 - k): 2 for k in range(MIN_SIMILAR)}
    (form,) = find_similar(steps)
    assert [form.constants[step] for step in steps] == [(8 * k, 100 - k) for k in range(MIN_SIMILAR)]
    assert form.table_index == 2
    lines = form.function.text.splitlines()
    assert lines[2] == "  %numbers.at = getelementptr ptr, ptr %places, i64 2"
    assert "  %there = getelementptr i8, ptr %here, i64 %number.0" in lines
    assert "  store i64 %number.1, ptr %there, align 8" in lines
    assert "  %end = add nsw i64 %low, %number.1" in lines
    assert "%number.2" not in form.function.text


def test_few_steps_of_a_form_stay_as_they_are() -> None:
    assert find_similar({step(8 * k, k): 2 for k in range(MIN_SIMILAR - 1)}) == []


@pytest.mark.parametrize("part", ["lane", "align"])
def test_what_has_to_be_a_constant_is_no_number(part: str) -> None:
    assert find_similar({step(8, 8, **{part: 1 << k}): 2 for k in range(MIN_SIMILAR)}) == []


def test_the_table_lies_behind_the_places_of_all_steps() -> None:
    (form,) = find_similar({step(8 * k, k): 2 + k % 3 for k in range(MIN_SIMILAR)})
    assert form.table_index == 4
    assert "%numbers.at = getelementptr ptr, ptr %places, i64 4" in form.function.text


def test_a_longer_program_takes_no_more_functions() -> None:
    """Slices and pads of a chain of stencils, each of another size and at another place."""
    def functions(steps: int) -> int:
        planned = run_pipeline(traced("stencil", steps), Options(), verify=False).final
        code = lower_program(planned, TARGETS["avx2"])
        llvm.parse_assembly(code.text).verify()
        return len({call.function for call in code.calls if call.name in ("slice", "pad")})

    assert functions(30) == functions(60) < 10


@pytest.mark.share(4)
@pytest.mark.skipif(not native_is_supported(), reason="no native programs on this machine")
@pytest.mark.parametrize("target", ["sse2", "avx2", "avx512"])
@pytest.mark.parametrize(("name", "steps"), [("stencil", 40), ("ring", 12), ("optimizer", 30), ("recurrent", 12), ("orbit", 3)])
def test_programs_of_alike_steps(name: str, steps: int, target: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if target not in {one.name for one in host_targets()}:
        pytest.skip(f"this processor has no {target}")
    monkeypatch.setenv("ADJIT_TARGET", target)
    monkeypatch.setenv("ADJIT_CACHE_DIR", str(tmp_path))
    function, arguments = PROGRAMS[name](steps)
    random = np.random.default_rng(0)
    arguments = optree.tree_map(lambda leaf: random.uniform(0.1, 1.0, np.shape(leaf)).astype(np.asarray(leaf).dtype), arguments)
    expected, found = (optree.tree_leaves(aj.compile(function, backend=backend)(*arguments)) for backend in ("interpret", "native"))
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4 if one.dtype == np.float32 else 1e-11, atol=1e-6)
