"""Kernels by which loops and branches stay on a device: they copy carried values, count iterations, and say what a conditional node of a
CUDA graph does. They call one function of NVIDIA's device runtime, which the driver knows by its name when it loads PTX.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from adjit.codegen.cuda.arrays.positions import element_number
from adjit.codegen.cuda.kernel import Access, Kernel
from adjit.codegen.cuda.nodes import CHECK_WORDS
from adjit.codegen.cuda.target import FLAT_THREADS
from adjit.codegen.cuda.text import GLOBAL, KernelText
from adjit.ir.types import I64

_HEAD = re.compile(r"^define ptx_kernel void @\S+\((.*)\) nounwind \{\nentry:\n", re.M)


@cache
def starting_kernel() -> Kernel:
    """The kernel that begins a loop: a word, its first content, and the handle of the loop."""
    text = KernelText(1)
    word, first, handle = text.pointer("write"), text.number(), text.number()
    text.write([first], word, I64)
    text.decide(handle, "1")
    return text.kernel("begin_loop")


@cache
def counting_kernel() -> Kernel:
    """The kernel that ends an iteration of a loop of known length: its word, what is added to it, the length, the handle of the loop."""
    text = KernelText(1)
    word, step, length, handle = text.pointer("update"), text.number(), text.number(), text.number()
    (count,) = text.read(word, I64)
    following = text.let(f"add i64 {count}, {step}")
    text.write([following], word, I64)
    text.decide(handle, text.convert("zext", "i1", text.compare("ult", following, length), "i32"))
    return text.kernel("count")


@cache
def deciding_kernel(outcomes: tuple[bool, ...]) -> Kernel:
    """The kernel that reads a condition: the handle of each outcome is set if the condition has it."""
    text = KernelText(1)
    flag = text.let(f"load i8, ptr addrspace({GLOBAL}) {text.pointer('read')}, align 1")
    for outcome in outcomes:
        holds = text.compare("ne" if outcome else "eq", flag, 0, "i8")
        text.decide(text.number(), text.convert("zext", "i1", holds, "i32"))
    return text.kernel("decide")


@cache
def clearing_kernel() -> Kernel:
    """The kernel that begins a loop with checkpoints: no iterations, and the stride 1 between checkpoints."""
    text = KernelText(1)
    for number in (0, 1):
        text.write([str(number)], text.pointer("write"), I64)
    return text.kernel("begin_checkpoints")


@cache
def checkpoint_count_kernel() -> Kernel:
    """The kernel that counts an iteration of a loop with checkpoints: the count, the stride, and the most checkpoints there are."""
    text = KernelText(1)
    count, stride, most = text.pointer("update"), text.pointer("update"), text.number()
    (before,), (old,) = text.read(count, I64), text.read(stride, I64)
    full = text.compare("eq", before, text.mul(old, most))
    text.write([text.select(full, "i64", text.shl(old, 1), old)], stride, I64)
    text.write([text.let(f"add i64 {before}, 1")], count, I64)
    return text.kernel("count_checkpoints")


@cache
def checkpoint_kernel(width: int) -> Kernel:
    """The kernel that saves a carried value in its stack if the iteration is a checkpoint, after every second checkpoint was dropped if the
    stack is full: the count, the stride, the value, the stack, its parts of `width` bytes, the most checkpoints."""
    text = KernelText(FLAT_THREADS)
    count_place, stride_place, value, stack = (text.pointer("read"), text.pointer("read"), text.pointer("read"), text.pointer("update"))
    parts, most = text.number(), text.number()
    number = element_number(text)
    with text.where(text.compare("slt", number, parts)):
        (count,), (stride,) = text.read(count_place, I64, constant=True), text.read(stride_place, I64, constant=True)
        full = text.compare("eq", count, text.mul(stride, most))
        with text.if_(full), text.for_range(1, text.lshr(most, 1), 1, empty=True) as loop:
            kept = text.mul(loop.counter, parts)
            _move(text, width, stack, text.plus(text.shl(kept, 1), number), stack, text.plus(kept, number), "")
        wide = text.select(full, "i64", text.shl(stride, 1), stride)
        with text.if_(text.compare("eq", text.let(f"urem i64 {count}, {wide}"), 0)):
            row = text.let(f"udiv i64 {count}, {wide}")
            _move(text, width, value, number, stack, text.plus(text.mul(row, parts), number))
    return text.kernel("checkpoint")


@cache
def clearing_status_kernel() -> Kernel:
    """The kernel that begins a call with checks of indices: none has failed."""
    text = KernelText(1)
    text.write(["0"], text.pointer("write"), I64)
    return text.kernel("begin_checks")


@cache
def gate_kernel(checks: int, goes_on: bool, loops: bool) -> Kernel:
    """The kernel that looks at the words of some checks, and at whether one has failed before: the status, the words of each check, the
    numbers of the checks. If it `goes_on`, the handle of the branch with all that follows; if it `loops`, the handle of the loop, which
    ends if one has failed."""
    text = KernelText(1)
    status, places = text.pointer("update"), [text.pointer("read") for _ in range(checks)]
    (failed,) = before = text.read(status, I64)
    numbers = [text.number() for _ in range(checks)]
    found = ["0"] * (CHECK_WORDS - 1)
    for place, number in zip(places, numbers, strict=True):
        flag, *own = [text.read(place, I64, word, constant=True)[0] for word in range(CHECK_WORDS)]
        first = text.both(text.compare("ne", flag, 0), text.compare("eq", failed, 0))
        failed = text.select(first, "i64", number, failed)
        found = [text.select(first, "i64", new, old) for new, old in zip(own, found, strict=True)]
    with text.if_(text.compare("ne", failed, before[0])):
        for word, value in enumerate((failed, *found)):
            text.write([value], status, I64, word)
    if goes_on:
        text.decide(text.number(), text.convert("zext", "i1", text.compare("eq", failed, 0), "i32"))
    if loops:
        loop = text.number()
        with text.if_(text.compare("ne", failed, 0)):
            text.decide(loop, "0")
    return text.kernel("gate")


@cache
def copying_kernel(widths: tuple[int, ...]) -> Kernel:
    """The kernel that copies from one place to another for each of the widths of parts, in bytes: target and source, the number of parts,
    and the threads that copy parts of those before."""
    text = KernelText(FLAT_THREADS)
    number = element_number(text)
    for width in widths:
        target, source, parts, before = text.pointer("write"), text.pointer("read"), text.number(), text.number()
        own = text.sub(number, before)
        with text.where(text.compare("sge", own, 0), text.compare("slt", own, parts)):
            _move(text, width, source, own, target, own)
    return text.kernel("carry")


def _move(text: KernelText, width: int, source: str, start: str | int, target: str, end: str | int,
          mark: str = ", !invariant.load !9") -> None:
    cell = f"i{8 * width}" if width <= 8 else "<2 x i64>"
    places = [text.let(f"getelementptr inbounds {cell}, ptr addrspace({GLOBAL}) {pointer}, i64 {index}")
              for pointer, index in ((source, start), (target, end))]
    value = text.let(f"load {cell}, ptr addrspace({GLOBAL}) {places[0]}, align {width}{mark}")
    text.do(f"store {cell} {value}, ptr addrspace({GLOBAL}) {places[1]}, align {width}")


@cache
def stepping_kernel(kernel: Kernel, steps: tuple[tuple[int, ...], ...]) -> Kernel:
    """A kernel whose pointers move with loops: behind its pointers those to the words that count iterations, before its numbers the bytes
    by which each pointer moves with each of its loops, whose numbers `steps` has by pointer. Without text, if the kernel has none, as one
    of the disk cache."""
    words = max((word for each in steps for word in each), default=-1) + 1
    mark = "_".join("".join(map(str, each)) or "n" for each in steps)
    name = f"{kernel.name}_by_{mark}"
    strides = sum(map(len, steps))
    more: list[Access] = ["read"] * words
    made = replace(kernel, name=name, pointers=(*kernel.pointers, *more), numbers=kernel.numbers + strides)
    return replace(made, text=_stepping_text(kernel, name, steps, words)) if kernel.text else made


def _stepping_text(kernel: Kernel, name: str, steps: Sequence[Sequence[int]], words: int) -> str:
    match = _HEAD.search(kernel.text)
    assert match is not None
    given, count = match[1].split(", "), len(kernel.pointers)
    for number, each in enumerate(steps):
        if each:
            given[number] = given[number].replace(f"%p{number}", f"%moved{number}")
    counters = [f"ptr addrspace({GLOBAL}) noalias readonly %word{number}" for number in range(words)]
    lines = [f"  %count{number} = load i64, ptr addrspace({GLOBAL}) %word{number}, align 8, !invariant.load !9" for number in range(words)]
    strides: list[str] = []
    for number, each in enumerate(steps):
        place = f"%moved{number}"
        for order, word in enumerate(each):
            stride, bytes, following = f"%stride{len(strides)}", f"%bytes{len(strides)}", f"%p{number}"
            strides.append(f"i64 {stride}")
            if order < len(each) - 1:
                following = f"%moved{number}.{order}"
            lines += [f"  {bytes} = mul i64 %count{word}, {stride}",
                      f"  {following} = getelementptr i8, ptr addrspace({GLOBAL}) {place}, i64 {bytes}"]
            place = following
    parameters = ", ".join([*given[:count], *counters, *strides, *given[count:]])
    head = f"define ptx_kernel void @{name}({parameters}) nounwind {{\nentry:\n" + "".join(f"{line}\n" for line in lines)
    text = kernel.text[:match.start()] + head + kernel.text[match.end():]
    return re.sub(rf"@{kernel.name}\b(?!_by_)", f"@{name}", text)
