"""Liveness, depth of the stack, and places of decisions, from the instructions of code objects."""

from __future__ import annotations

import argparse
import difflib
import inspect
import statistics
import sys
import textwrap
from types import CodeType, FunctionType
from typing import Any

import pytest

from adjit.tracer.flow.bytecode_flow import flow_of
from adjit.tracer.flow.frames import READABLE, is_called_directly, stack_of
from adjit.tracer.guards.bytecode import EVERYTHING, consumer_of, instructions, reads_of, stored_by, whole_of


def codes_of(code: CodeType) -> list[CodeType]:
    return [code, *(inner for constant in code.co_consts if isinstance(constant, CodeType) for inner in codes_of(constant))]


def test_code_is_understood() -> None:
    """The two ways to an instruction agree on the depth of the stack, in all functions of some large modules."""
    found = [inner for module in (argparse, difflib, inspect, statistics, textwrap) for inner in
             codes_of(compile(inspect.getsource(module), module.__name__, "exec"))]
    assert len(found) > 400
    unknown = [code for code in found if flow_of(code) is None]
    assert [code.co_name for code in unknown if not code.co_flags & GENERATORS] == []
    assert len(unknown) < 0.1 * len(found)


GENERATORS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR      # `yield from` and `await` are not understood
FUNCTIONS = ("called", "loops", "conditions", "<lambda>")


class Asked:
    """Notes, for each decision on it, what lies on the stacks of the frames, and which variables are live."""

    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []

    def __bool__(self) -> bool:
        frame, noted = sys._getframe(1), []
        while frame.f_code.co_name in FUNCTIONS:
            flow = flow_of(frame.f_code)
            decision = flow.decisions.get(frame.f_lasti) or flow.call_at(frame.f_lasti)
            if decision is None:
                noted.append(None)
                break
            noted.append((frame.f_code.co_name, decision.place, decision.live, stack_of(frame, decision.depth)))
            caller = frame.f_back
            assert caller is not None
            if caller.f_code.co_name in FUNCTIONS:
                call = flow_of(caller.f_code).call_at(caller.f_lasti)
                if not is_called_directly(frame, caller, call.depth):
                    noted.append("C")
            frame = caller
        self.seen.append(tuple(noted))
        return len(self.seen) < 4


def called(asked, other):
    if asked:
        return 1
    return other


def loops(asked, count):
    total = 0.0
    for _ in range(count):
        total += 3.5 * called(asked, 2)
    return total


def conditions(asked, x):
    while asked:
        x += 1
    return max([x, 5], key=lambda value: called(asked, value) and value)


def run(function: FunctionType, *args: Any) -> list[tuple[Any, ...]]:
    asked = Asked()
    function(asked, *args)
    return asked.seen


@pytest.mark.skipif(not READABLE, reason="the frames of this Python are not read")
def test_stacks_and_live_variables() -> None:
    first, second = run(loops, 2)
    (inner, outer), (inner_again, outer_again) = first, second
    assert inner == inner_again
    assert (inner[0], inner[2:]) == ("called", ({"other"}, []))
    assert outer[1:3] == outer_again[1:3]
    assert "asked" in outer[2]
    assert "count" not in outer[2]
    assert type(outer[3][0]) is type(iter(range(2)))
    assert 3.5 in outer[3]


@pytest.mark.skipif(not READABLE, reason="the frames of this Python are not read")
def test_condition_of_a_loop_is_one_place() -> None:
    """The bytecode has it twice. What a C function calls back is seen to be so."""
    seen = run(conditions, 0)
    places = [noted[0][1] for noted in seen[:4]]
    assert len(set(places)) == 1
    assert all(len(noted) == 1 for noted in seen[:4])
    assert "C" in seen[4]


def test_both_names_of_an_instruction_that_loads_two() -> None:
    """Python 3.13 loads two local variables by one instruction; only the second is on top of the stack."""
    def stores(out: Any, index: Any, value: Any) -> None:
        out[index * 2] = value

    def compares(a: Any, b: Any) -> bool:
        return bool(a == b.content)

    assert EVERYTHING in stored_by(stores.__code__)
    assert whole_of(compares.__code__) == {EVERYTHING, "content"}


class Plain:
    rate, offset = 2.0, 1.0


def test_attributes_of_super_are_reads() -> None:
    class Scaled(Plain):
        def scale(self, x: Any) -> Any:
            return self.offset + super().rate * x

    code = Scaled.scale.__code__
    assert reads_of(code)["attribute", "rate"] == 1
    steps = instructions(code)
    user, above = consumer_of(steps, next(index for index, step in enumerate(steps) if step.argval == "offset"))
    assert user is not None
    assert user.opname == "BINARY_OP"
    assert user.argrepr == "+"
    assert above == 1
