"""Copies of whole arrays as steps."""

from __future__ import annotations

from adjit.codegen.llvm.builder import Builder, Value
from adjit.codegen.native.step_code import SIGNATURE, StepCode

MAX_TASK_BYTES = 256 << 10
"""Most bytes that one task copies."""

NS_PER_BYTE = 0.04
DECLARATION = "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"


def lower_copy(nbytes: int) -> StepCode:
    """Copies that many bytes from the first place to the second."""
    tasks = max(-(-nbytes // MAX_TASK_BYTES), 1)
    text = Builder()
    source, to = text.load("ptr", "%places"), text.load("ptr", text.at("%places", "ptr", 1))
    count: Value = nbytes
    if tasks > 1:
        begin, reach = text.mul("%low", MAX_TASK_BYTES), text.mul("%high", MAX_TASK_BYTES)
        end = text.select(text.compare("ult", reach, nbytes), "i64", reach, nbytes)
        count, source, to = text.sub(end, begin), text.at(source, 1, begin), text.at(to, 1, begin)
    text.call("void", "@llvm.memcpy.p0.p0.i64", ("ptr", to), ("ptr", source), ("i64", count), ("i1", "false"))
    text.ret("i64", 0)
    return StepCode((text.end_function("step", SIGNATURE, "i64"),), tasks, nbytes * NS_PER_BYTE, text.declarations)
