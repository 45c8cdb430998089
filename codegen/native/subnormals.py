"""Programs that flush subnormal numbers to zero: the entry sets the processor's control word for the run, and puts the caller's back.

Threads of a pool take the control word of who launches (`thread_pool.py`), so it is set in one place.
"""

from __future__ import annotations

from collections.abc import Sequence

from adjit.codegen.llvm.builder import Builder, Typed
from adjit.codegen.llvm.module import DISPATCH, Function
from adjit.codegen.llvm.target import Target

BODY = "body"
"""What comes behind the entry's name in that of the function which does the work."""

_X86_BITS = 0x8040          # results to zero, and operands
_ARM_BIT = 1 << 24          # both


def flushing_entry(entry: str, target: Target, parameters: str, arguments: Sequence[Typed], linkage: str) -> tuple[Function,
                                                                                                                   frozenset[str]]:
    """The function `entry`, which calls `entry.body` with subnormal numbers taken and left as zeros; and what it declares."""
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
