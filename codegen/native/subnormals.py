"""Programs that flush subnormal numbers to zero. The entry sets the processor's control word for the run, and restores the caller's.

Threads of the pool take over the control word of the launching thread (`thread_pool.py`), so it is set at one point only.
"""

from __future__ import annotations

from collections.abc import Sequence

from adjit.codegen.llvm.builder import Builder, Typed
from adjit.codegen.llvm.module import DISPATCH, Function
from adjit.codegen.llvm.target import Target

BODY = "body"
"""Suffix of the name of the function that does the work, behind the entry's name."""

_X86_BITS = 0x8040          # flush results to zero (FTZ), and treat operands as zero (DAZ)
_ARM_BIT = 1 << 24          # both


def flushing_entry(entry: str, target: Target, parameters: str, arguments: Sequence[Typed], linkage: str) -> tuple[Function,
                                                                                                                   frozenset[str]]:
    """The function `entry`, which calls `entry.body` with subnormal operands and results treated as zero; and its declarations."""
    text = Builder()
    if target.triple.startswith("aarch64"):
        own = text.call("i64", "@llvm.aarch64.get.fpcr")
        text.call("void", "@llvm.aarch64.set.fpcr", ("i64", text.let(f"or i64 {own}, {_ARM_BIT}")))
        status = text.call("i64", f"@{entry}.{BODY}", *arguments)
        text.call("void", "@llvm.aarch64.set.fpcr", ("i64", own))
    else:
        own, flushing = text.alloca("i32", align=4), text.alloca("i32", align=4)
        text.call("void", "@llvm.x86.sse.stmxcsr", ("ptr", own))
        text.store("i32", text.let(f"or i32 {text.load('i32', own)}, {_X86_BITS}"), flushing)
        text.call("void", "@llvm.x86.sse.ldmxcsr", ("ptr", flushing))
        status = text.call("i64", f"@{entry}.{BODY}", *arguments)
        text.call("void", "@llvm.x86.sse.ldmxcsr", ("ptr", own))
    text.ret("i64", status)
    return text.end_function(entry, parameters, "i64", linkage, DISPATCH), text.declarations
