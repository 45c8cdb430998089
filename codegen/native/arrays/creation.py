"""Steps that fill a whole array: with indices along one dimension (`iota`), with constant elements (`table`), or with a copy of another
array."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import replace

from adjit.codegen.llvm.builder import Builder, Value
from adjit.codegen.llvm.module import Definition
from adjit.codegen.llvm.target import Target
from adjit.codegen.native.program_code import SIGNATURE, StepCode
from adjit.codegen.native.step_builder import BYTES_PER_NS, StepBuilder, element_type, split_iterations
from adjit.ir.graph import Op

LINE_BLOCK = 1 << 12
"""Elements of a long line that one iteration of the outer loops writes."""

MAX_TASK_BYTES = 256 << 10
"""Maximum bytes that one task copies."""

NS_PER_BYTE = 0.04
"""Estimated nanoseconds per byte copied."""

MEMCPY = "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"


def lower_iota(op: Op, shared: Mapping[int, int], target: Target) -> tuple[StepCode, ...]:
    """The step of `iota`: vectors of numbers if the axis is innermost, else rows filled with one number each."""
    type, axis = op.result.type, op.attrs["axis"]
    if not type.size:
        return ()
    before, count, after = math.prod(type.shape[:axis]), type.shape[axis], math.prod(type.shape[axis + 1:])
    text, size, element = StepBuilder(target), type.dtype.itemsize, element_type(type.dtype)
    extents = (before, max(count // LINE_BLOCK, 1)) if after == 1 else (before, count)
    task_split = split_iterations(extents, work := type.nbytes / BYTES_PER_NS)
    width = text.width(count if after == 1 else after, size)
    vector, whole = f"<{width} x {element}>", "i32" if count < 1 << 31 else "i64"      # i32: all targets convert i32 vectors
    with text.step():
        to = text.place(0)
        for _, task in text.parts([task_split.tasks]):
            with text.iterations(task, extents, task_split) as (outer, position):
                row = text.at(to, size, (outer, count * after))
                if after > 1:
                    value = text.splat(element, _converted(text, position, "i64", element), width)
                    with text.chunks(after, width) as start:
                        text.store(vector, value, text.at(row, size, (position, after), (start, 1)), align=size)
                    continue
                with text.for_range(text.times(position, LINE_BLOCK), text.ends_at(position, count, LINE_BLOCK), width) as loop:
                    start = loop.counter if count % width == 0 else text.smaller(loop.counter, count - width)
                    first = text.splat(whole, start if whole == "i64" else text.let(f"trunc i64 {start} to i32"), width)
                    lanes = f"<{', '.join(f'{whole} {lane}' for lane in range(width))}>"
                    numbers = text.let(f"add <{width} x {whole}> {first}, {lanes}")
                    text.store(vector, _converted(text, numbers, f"<{width} x {whole}>", vector), text.at(row, size, (start, 1)),
                               align=size)
    return (text.code(task_split.tasks, work),)


def _converted(text: StepBuilder, numbers: str, source: str, goal: str) -> str:
    """Non-negative integers converted to the type of the result."""
    if source == goal:
        return numbers
    whole = "zext" if "i64" in goal else "trunc"
    return text.let(f"{'sitofp' if 'float' in goal or 'double' in goal else whole} {source} {numbers} to {goal}")


def lower_table(op: Op, shared: Mapping[int, int], target: Target) -> tuple[StepCode, ...]:
    """The step of `table`: a copy of a constant in the program's read-only data."""
    data = op.attrs["data"]
    if not data:
        return ()
    name = f"table.{hashlib.sha256(data).hexdigest()[:32]}"
    text = "".join([f"\\{byte:02x}" for byte in data])
    constant = Definition(name, f'@{name} = internal constant [{len(data)} x i8] c"{text}", align 64')
    return (replace(_copy(len(data), f"@{name}"), shared={name: constant}),)


def lower_copy(nbytes: int) -> StepCode:
    """The step that copies `nbytes` bytes from argument 0 to argument 1."""
    return _copy(nbytes)


def _copy(nbytes: int, constant: str = "") -> StepCode:
    """The step that copies `nbytes` bytes to its result, from its operand or from a constant."""
    tasks = max(-(-nbytes // MAX_TASK_BYTES), 1)
    text = Builder()
    if constant:
        source, to = text.use(constant), text.load("ptr", "%places")
    else:
        source, to = text.load("ptr", "%places"), text.load("ptr", text.at("%places", "ptr", 1))
    count: Value = nbytes
    if tasks > 1:
        begin, reach = text.mul("%low", MAX_TASK_BYTES), text.mul("%high", MAX_TASK_BYTES)
        end = text.select(text.compare("ult", reach, nbytes), "i64", reach, nbytes)
        count, source, to = text.sub(end, begin), text.at(source, 1, begin), text.at(to, 1, begin)
    text.call("void", "@llvm.memcpy.p0.p0.i64", ("ptr", to), ("ptr", source), ("i64", count), ("i1", "false"))
    text.ret("i64", 0)
    return StepCode((text.end_function("step", SIGNATURE, "i64"),), tasks, nbytes * NS_PER_BYTE, text.declarations)
