"""The builder of LLVM text: what it notes of a function is what the text says, blocks nest, and the code does what it reads like."""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Iterable

import numpy as np
import pytest
from support.op_cases import op_cases, sample_graph
from support.project import ROOT

import adjit as aj
from adjit.codegen.llvm.builder import Builder
from adjit.codegen.llvm.link import CompiledObject, load
from adjit.codegen.llvm.module import Definition, Function
from adjit.codegen.llvm.object_code import emit_object
from adjit.codegen.llvm.target import TARGETS, host_target
from adjit.codegen.llvm.vectors import VectorBuilder
from adjit.codegen.native.lower_op import lower_step
from adjit.codegen.native.program import lower_program
from adjit.ir.errors import UnsupportedError

sys.path.insert(0, str(ROOT / "benchmarks"))

from workloads import WORKLOADS


def check(definitions: Iterable[Definition]) -> None:
    for definition in definitions:
        head, _, body = definition.text.partition("\n" if isinstance(definition, Function) else "=")
        names = set(re.findall(r"@([\w.]+)", body))
        assert {name for name in names if not name.startswith("llvm.")} <= definition.uses | {definition.name}, definition.name
        if isinstance(definition, Function):
            assert head == f"define {definition.head(definition.linkage)} {{"
            assert definition.returns_early == (definition.text.count("\n  ret ") > (definition.returned is not None))


@pytest.mark.parametrize("target", TARGETS.values(), ids=lambda target: target.name)
def test_what_is_known_of_steps_is_what_their_text_says(target: object) -> None:
    for _, definition, sample in op_cases():
        try:
            steps = lower_step(sample_graph(definition, sample).ops[-1], {}, target, None, {})      # type: ignore[arg-type]
        except (UnsupportedError, TypeError):       # no op of a planned graph
            continue
        for step in steps:
            check([*step.functions, *step.shared.values()])


@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_what_is_known_of_programs_is_what_their_text_says(name: str) -> None:
    made = WORKLOADS[name](backend="native")
    planned = made.function.program(made.function.fun, made.arguments, {}).planned
    for target in TARGETS.values():
        check(lower_program(planned, target, timed=True, flush_subnormals=True).definitions)


def run(text: Builder, *arguments: int) -> int:
    target = host_target()
    if target is None:
        pytest.skip("no x86-64 process")
    loaded = load(CompiledObject(emit_object(str(text), target, verify=True, promote=True), "f"))
    function = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * len(arguments))(loaded.address)
    return function(*arguments)     # type: ignore[no-any-return]


def test_loops_are_left_and_cut_short() -> None:
    """The sum of the odd numbers up to the first that is larger than the limit, and 1000 where there is none."""
    text = Builder()
    with text.function("f", ("i64", "%count"), ("i64", "%limit"), result="i64", linkage=""):
        total = text.variable(0)
        with text.for_range(0, "%count", empty=True) as loop:
            with text.if_(text.compare("eq", text.let(f"and i64 {loop.counter}, 1"), 0)):
                text.continue_()
            with text.if_(text.compare("sgt", loop.counter, "%limit")):
                text.ret("i64", total.value)
            total.add(loop.counter)
        with text.loop():
            with text.if_(text.compare("sge", total.value, 1000)):
                text.break_()
            total.set(1000)
        text.ret("i64", total.value)
    assert [run(text, 100, limit) for limit in (0, 5, 6)] == [0, 9, 9]
    assert run(text, 0, 0) == run(text, 3, 7) == 1000
    assert run(text, 1000, 2000) == sum(range(1, 1000, 2))


@pytest.mark.parametrize(("count", "wanted"), [(0, 7), (1, 7), (5, 17)])
def test_loops_and_branches_carry_values(count: int, wanted: int) -> None:
    text = Builder()
    with text.function("f", ("i64", "%count"), result="i64", linkage=""):
        with text.for_range(0, "%count", carried=[("i64", "7")], empty=True) as loop:
            with text.if_(text.compare("ne", loop.counter, 0), [("i64", loop.values[0])]) as branch:
                branch.following = [text.add(loop.values[0], loop.counter)]
            loop.following = branch.values
        text.ret("i64", loop.values[0])
    assert run(text, count) == wanted


def test_nothing_is_written_behind_the_end_of_a_block() -> None:
    text = Builder()
    with text.function("f", result="i64"):
        text.ret("i64", 1)
        text.store("i64", 0, "null")
        text.ret("i64", 2)
    (function,) = text.functions.values()
    assert isinstance(function, Function)
    assert (list(function.lines), function.returned, function.returns_early) == ([], "i64 1", False)


def test_a_loop_that_carries_values_is_not_left() -> None:
    text = Builder()
    with pytest.raises(AssertionError, match="carries"), text.function("f"), text.for_range(0, 9, carried=[("i64", "0")]):
        text.break_()


def test_addresses() -> None:
    text = VectorBuilder(TARGETS["avx2"], "f32")
    assert text.at("%p", "float", 0, ("0", 7), ("%i", 0)) == "%p"
    text.at("%p", 8, 3, ("%i", 2))
    text.at("%p", "float", ("%i", 2))
    assert [line.strip() for line in text.lines] == [
        "%v1 = getelementptr i8, ptr %p, i64 24", "%v2 = mul nsw i64 %i, 16", "%v3 = getelementptr i8, ptr %v1, i64 %v2",
        "%v4 = mul nsw i64 %i, 2", "%v5 = getelementptr float, ptr %p, i64 %v4"]


def test_functions_of_the_package_are_made_once_a_name() -> None:
    function = aj.compile(lambda x, y: np.tanh(x @ y), backend="native")
    program = function.program(function.fun, (np.ones((64, 64)), np.ones((64, 64))), {})
    names = [definition.name for definition in lower_program(program.planned, TARGETS["avx2"]).definitions]
    assert len(names) == len(set(names))
