"""Programs that flush subnormal numbers to zero: the entry sets the processor's control word for the run, and puts the caller's back.

Threads of a pool take the control word of who launches (`thread_pool.py`), so it is set in one place.
"""

from __future__ import annotations

from adjit.codegen.llvm.module import GLUE
from adjit.codegen.target import Target

BODY = "body"
"""What comes behind the entry's name in that of the function which does the work."""

_X86_BITS = 0x8040          # results to zero, and operands
_ARM_BIT = 1 << 24          # both

_X86 = f"""  %own = alloca i32, align 4
  %flushing = alloca i32, align 4
  call void @llvm.x86.sse.stmxcsr(ptr %own)
  %bits = load i32, ptr %own
  %changed = or i32 %bits, {_X86_BITS}
  store i32 %changed, ptr %flushing
  call void @llvm.x86.sse.ldmxcsr(ptr %flushing)
  %status = call i64 {{call}}
  call void @llvm.x86.sse.ldmxcsr(ptr %own)"""

_ARM = f"""  %own = call i64 @llvm.aarch64.get.fpcr()
  %changed = or i64 %own, {_ARM_BIT}
  call void @llvm.aarch64.set.fpcr(i64 %changed)
  %status = call i64 {{call}}
  call void @llvm.aarch64.set.fpcr(i64 %own)"""


def flushing_entry(entry: str, target: Target, parameters: str, arguments: str, linkage: str) -> tuple[str, frozenset[str]]:
    """The function `entry`, which calls `entry.body` with subnormal numbers taken and left as zeros; and what it declares."""
    if target.triple.startswith("aarch64"):
        lines, declarations = _ARM, {"declare i64 @llvm.aarch64.get.fpcr()", "declare void @llvm.aarch64.set.fpcr(i64)"}
    else:
        lines, declarations = _X86, {"declare void @llvm.x86.sse.stmxcsr(ptr)", "declare void @llvm.x86.sse.ldmxcsr(ptr)"}
    body = lines.format(call=f"@{entry}.{BODY}({arguments})")
    return f"define {linkage}i64 @{entry}({parameters}) {GLUE} {{\nentry:\n{body}\n  ret i64 %status\n}}", frozenset(declarations)
