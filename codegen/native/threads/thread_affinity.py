"""On which processors the threads of a pool are woken: not on that of the thread that waits for them.

The system may wake a thread on the processor of who wakes it, and leave it there for milliseconds, while others are idle (seen on virtual
machines with Linux 6.18: steps after a pause took twice their time in half of all cases). So helpers write down where they lie down, and
who wakes one from its own processor first sends it to the others.
"""

from __future__ import annotations

from adjit.codegen.llvm.builder import Builder, Typed
from adjit.codegen.llvm.module import DISPATCH

_GETPID, _GETTID, _SETAFFINITY, _GETAFFINITY, _GETCPU = 39, 186, 203, 204, 309

_CPU, _THREAD, _PROCESS = 16, 20, 24
"""Places in the line of a helper's range: the processor where it lay down last, its number for the system, 0 before it is known, and the
process it is of: a child that C code forked has this memory, but not the thread."""

_MASK_BYTES = 128
"""Of a set of processors, as the system takes it."""


def system_call(text: Builder, number: int, *arguments: Typed) -> str:
    return text.call("i64 (i64, ...)", "@syscall", ("i64", number), *arguments)


def note_place(text: Builder, line: str) -> None:
    """Before a helper lies down: where it is, and who, into the line of its range."""
    system_call(text, _GETCPU, ("ptr", text.at(line, 1, _CPU)), ("ptr", "null"), ("ptr", "null"))
    thread, process = (text.convert("trunc", "i64", system_call(text, which), "i32") for which in (_GETTID, _GETPID))
    text.atomic_store("i32", process, text.at(line, 1, _PROCESS), "monotonic")
    text.atomic_store("i32", thread, text.at(line, 1, _THREAD), "release")


def write_part(text: Builder, most: int) -> None:
    """`void @part(ptr %claim, i64 %helpers)`: what whoever wakes helpers does before; at most so many of them have lines.

    One that lay down on this thread's processor would be woken there, and wait until this thread has done all the work, while others are
    idle. It is sent to those processors that this thread may use, but for its own.
    """
    with text.function("part", "ptr %claim", "i64 %helpers", attributes=DISPATCH):
        allowed, own = text.alloca("i64", _MASK_BYTES // 8, 8), text.alloca("i32")
        system_call(text, _GETCPU, ("ptr", own), ("ptr", "null"), ("ptr", "null"))
        here = text.load("i32", own)
        with text.for_range(1, text.add(text.smaller("%helpers", most), 1), empty=True) as index:
            line = text.at("%claim", "[64 x i8]", index.counter)
            thread = text.atomic_load("i32", text.at(line, 1, _THREAD), "acquire")
            there = text.atomic_load("i32", text.at(line, 1, _CPU), "monotonic")
            with text.if_(text.either(text.compare("eq", thread, 0, "i32"), text.compare("ne", there, here, "i32"))):
                text.continue_()
            process = text.atomic_load("i32", text.at(line, 1, _PROCESS), "monotonic")
            this = text.convert("trunc", "i64", system_call(text, _GETPID), "i32")
            with text.if_(text.compare("ne", process, this, "i32")):
                text.continue_()
            text.call("void", "@llvm.memset.p0.i64", ("ptr", allowed), ("i8", 0), ("i64", _MASK_BYTES), ("i1", "false"))
            known = system_call(text, _GETAFFINITY, ("i64", 0), ("i64", _MASK_BYTES), ("ptr", allowed))
            with text.if_(text.either(text.compare("sle", known, 0), text.compare("uge", here, 8 * _MASK_BYTES, "i32"))):
                text.continue_()
            _exclude(text, allowed, here)
            with text.if_(_has_any(text, allowed)):
                number = text.convert("zext", "i32", thread, "i64")
                system_call(text, _SETAFFINITY, ("i64", number), ("i64", _MASK_BYTES), ("ptr", allowed))


def _exclude(text: Builder, allowed: str, processor: str) -> None:
    """Take a processor out of a set."""
    index = text.convert("zext", "i32", text.let(f"lshr i32 {processor}, 3"), "i64")
    byte = text.at(allowed, 1, index)
    bit = text.let(f"shl i32 1, {text.let(f'and i32 {processor}, 7')}")
    others = text.convert("trunc", "i32", text.let(f"xor i32 {bit}, 255"), "i8")
    text.store("i8", text.let(f"and i8 {text.load('i8', byte)}, {others}"), byte)


def _has_any(text: Builder, allowed: str) -> str:
    words = _MASK_BYTES // 8
    every = text.load(f"<{words} x i64>", allowed, align=8)
    return text.compare("ne", text.call("i64", f"@llvm.vector.reduce.or.v{words}i64", (f"<{words} x i64>", every)), 0)
