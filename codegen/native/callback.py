"""Step that calls a function of Python, at the address which its handle holds (`ir/host_functions.py`)."""

from __future__ import annotations

from collections.abc import Mapping

from adjit.codegen.llvm.target import Target
from adjit.codegen.native.program_code import MAX_GIL_HELD_NS, StepCode
from adjit.codegen.native.step_builder import StepBuilder
from adjit.ir.graph import Op
from adjit.ir.host_functions import DONE


def lower_callback(op: Op, shared: Mapping[int, int], target: Target) -> tuple[StepCode, ...]:
    """The step of `callback`. It counts as work for which the GIL is released: nobody knows how long the function runs, and the fast path
    keeps the arguments of such programs alive, as other Python code may run."""
    text = StepBuilder(target)
    with text.step():
        handle = text.place(0)
        address, number = text.load("ptr", handle), text.load("i64", handle, 8)
        status = text.call("i64", address, ("i64", number), ("ptr", text.at("%places", "ptr", 1)))
        with text.if_(text.compare("ne", status, DONE)):
            text.ret("i64", 1)
    return (text.code(1, MAX_GIL_HELD_NS, checks=True),)


def lower_end(op: Op, shared: Mapping[int, int], target: Target) -> tuple[StepCode, ...]:
    """No step: effects are kept by an op that does nothing."""
    return ()
