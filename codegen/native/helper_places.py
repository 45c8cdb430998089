"""On which processors the threads of a pool are woken: not on that of the thread that waits for them.

The system may wake a thread on the processor of who wakes it, and leave it there for milliseconds, while others are idle (seen on virtual
machines with Linux 6.18: steps after a pause took twice their time in half of all cases). So helpers write down where they lie down, and
who wakes one from its own processor first sends it to the others.
"""

from __future__ import annotations

from adjit.codegen.llvm_text import GLUE

_GETPID, _GETTID, _SETAFFINITY, _GETAFFINITY, _GETCPU = 39, 186, 203, 204, 309

_CPU, _THREAD, _PROCESS = 16, 20, 24
"""Places in the line of a helper's range: the processor where it lay down last, its number for the system, 0 before it is known, and the
process it is of: a child that C code forked has this memory, but not the thread."""

_MASK_BYTES = 128
"""Of a set of processors, as the system takes it."""

DECLARATION = f"declare i64 @llvm.vector.reduce.or.v{_MASK_BYTES // 8}i64(<{_MASK_BYTES // 8} x i64>)"


def places_text() -> str:
    """Of a helper's beginning: where in its line it writes down what follows."""
    return f"""  %cpu.at = getelementptr i8, ptr %own.claim, i64 {_CPU}
  %thread.at = getelementptr i8, ptr %own.claim, i64 {_THREAD}
  %process.at = getelementptr i8, ptr %own.claim, i64 {_PROCESS}
"""


def note_text() -> str:
    """Before a helper lies down: where it is, and who."""
    return f"""  %here = call i64 (i64, ...) @syscall(i64 {_GETCPU}, ptr %cpu.at, ptr null, ptr null)
  %thread.long = call i64 (i64, ...) @syscall(i64 {_GETTID})
  %thread = trunc i64 %thread.long to i32
  %process.long = call i64 (i64, ...) @syscall(i64 {_GETPID})
  %process = trunc i64 %process.long to i32
  store atomic i32 %process, ptr %process.at monotonic, align 4
  store atomic i32 %thread, ptr %thread.at release, align 4
"""


def part_text(most: int) -> str:
    """`void @part(ptr %claim, i64 %helpers)`: what whoever wakes helpers does before; at most so many of them have lines."""
    return f"""; Before helpers are woken: one that lay down on this thread's processor would be woken there, and wait
; until this thread has done all the work, while others are idle. It is sent to those processors that this thread may use, but for its own.
define internal void @part(ptr %claim, i64 %helpers) {GLUE} {{
entry:
  %here.at = alloca i32
  %allowed = alloca [{_MASK_BYTES // 8} x i64], align 8
  %known = call i64 (i64, ...) @syscall(i64 {_GETCPU}, ptr %here.at, ptr null, ptr null)
  %here = load i32, ptr %here.at
  %lines = call i64 @llvm.smin.i64(i64 %helpers, i64 {most})
  br label %helper
helper:
  %h = phi i64 [ 0, %entry ], [ %h.after, %next ]
  %more = icmp ult i64 %h, %lines
  br i1 %more, label %look, label %end
look:
  %h.after = add i64 %h, 1
  %line = getelementptr [64 x i8], ptr %claim, i64 %h.after
  %cpu.at = getelementptr i8, ptr %line, i64 {_CPU}
  %thread.at = getelementptr i8, ptr %line, i64 {_THREAD}
  %thread = load atomic i32, ptr %thread.at acquire, align 4
  %there = load atomic i32, ptr %cpu.at monotonic, align 4
  %named = icmp ne i32 %thread, 0
  %close = icmp eq i32 %there, %here
  %together = and i1 %named, %close
  br i1 %together, label %ours, label %next
ours:
  %process.at = getelementptr i8, ptr %line, i64 {_PROCESS}
  %its = load atomic i32, ptr %process.at monotonic, align 4
  %this.long = call i64 (i64, ...) @syscall(i64 {_GETPID})
  %this = trunc i64 %this.long to i32
  %alive = icmp eq i32 %its, %this
  br i1 %alive, label %send, label %next
send:
  call void @llvm.memset.p0.i64(ptr %allowed, i8 0, i64 {_MASK_BYTES}, i1 false)
  %got = call i64 (i64, ...) @syscall(i64 {_GETAFFINITY}, i64 0, i64 {_MASK_BYTES}, ptr %allowed)
  %readable = icmp sgt i64 %got, 0
  %small = icmp ult i32 %here, {8 * _MASK_BYTES}
  %good = and i1 %readable, %small
  br i1 %good, label %exclude, label %next
exclude:
  %byte = lshr i32 %here, 3
  %byte.number = zext i32 %byte to i64
  %byte.at = getelementptr i8, ptr %allowed, i64 %byte.number
  %place = and i32 %here, 7
  %bit = shl i32 1, %place
  %others = xor i32 %bit, 255
  %keep = trunc i32 %others to i8
  %old = load i8, ptr %byte.at
  %new = and i8 %old, %keep
  store i8 %new, ptr %byte.at
  %all = load <{_MASK_BYTES // 8} x i64>, ptr %allowed, align 8
  %left = call i64 @llvm.vector.reduce.or.v{_MASK_BYTES // 8}i64(<{_MASK_BYTES // 8} x i64> %all)
  %any = icmp ne i64 %left, 0
  br i1 %any, label %move, label %next
move:
  %number = zext i32 %thread to i64
  %moved = call i64 (i64, ...) @syscall(i64 {_SETAFFINITY}, i64 %number, i64 {_MASK_BYTES}, ptr %allowed)
  br label %next
next:
  br label %helper
end:
  ret void
}}

"""
