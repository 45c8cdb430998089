"""Thread pool of native programs, with small tasks in LLVM text; and the threads it has started."""

from __future__ import annotations

import ctypes
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np

from adjit.codegen.llvm.link import CompiledObject, LoadedKernel, load
from adjit.codegen.llvm.target import TARGETS, machine
from adjit.codegen.native.threads.thread_pool import THREAD_NAME
from adjit.ir.memory_sizes import POOL_SCRATCH_BYTES
from adjit.runtime.native.threads import Pool, ThreadTeam, make_pool

STEPS = {
    # Each body runs for every task; %cell is counts[task], %argument is places[1].
    # Adds 1.
    "count": "%old = atomicrmw add ptr %cell, i64 1 monotonic",
    # The control register of the thread's floating-point unit.
    "control": "call void @llvm.x86.sse.stmxcsr(ptr %cell)",
    # The thread's number.
    "thread": "%self = call i64 (i64, ...) @syscall(i64 186)\n  store i64 %self, ptr %cell",
    # The scratch memory of the thread, whose first and last bytes it writes.
    "scratch": f"""%address = ptrtoint ptr %scratch to i64
  store i64 %address, ptr %cell
  store i8 1, ptr %scratch
  %last = getelementptr i8, ptr %scratch, i64 {POOL_SCRATCH_BYTES - 1}
  store i8 1, ptr %last""",
    # Waits until as many tasks have begun as the argument says; counts[0] counts them. Then the thread's number goes to counts[task + 1].
    "meet": """
  %begun = atomicrmw add ptr %counts, i64 1 seq_cst
  br label %wait
wait:
  %now = load atomic i64, ptr %counts seq_cst, align 8
  %enough = icmp sge i64 %now, %argument
  br i1 %enough, label %met, label %pause
pause:
  call void @llvm.x86.sse2.pause()
  br label %wait
met:
  %own = call i64 (i64, ...) @syscall(i64 186)
  %own.at = getelementptr i64, ptr %cell, i64 1
  store i64 %own, ptr %own.at""",
    # Launches `count` on the pool whose address is the argument, for counts 3 task, 3 task + 1 and 3 task + 2.
    "nest": """
  %row.of = mul i64 %task, 24
  %row.at = getelementptr i8, ptr %counts, i64 %row.of
  %inner = alloca ptr
  store ptr %row.at, ptr %inner
  %pool = inttoptr i64 %argument to ptr
  %launch = load ptr, ptr %pool
  %answer = call i64 %launch(ptr %pool, ptr @count, ptr %inner, i64 3, ptr %scratch)""",
}
ANSWERS = {
    # Returns counts[task] if it is not 0.
    "check": "%answer = load i64, ptr %cell\n  %bad = icmp ne i64 %answer, 0\n  br i1 %bad, label %out, label %next"}


def _function(name: str, body: str) -> str:
    body = body if name in ANSWERS else f"{body}\n  br label %next"
    out = "out:\n  ret i64 %answer\n" if name in ANSWERS else ""
    return f"""
define i64 @{name}(ptr %places, i64 %low, i64 %high, ptr %scratch) {{
entry:
  %counts = load ptr, ptr %places
  %argument.at = getelementptr i64, ptr %places, i64 1
  %argument = load i64, ptr %argument.at
  br label %body
body:
  %task = phi i64 [ %low, %entry ], [ %task.next, %next ]
  %cell = getelementptr i64, ptr %counts, i64 %task
  {body}
next:
  %task.next = add i64 %task, 1
  %more = icmp slt i64 %task.next, %high
  br i1 %more, label %body, label %done
done:
  ret i64 0
{out}}}
"""


@cache
def step(name: str) -> LoadedKernel:
    import llvmlite.binding as llvm

    declarations = ("declare i64 @syscall(i64, ...)\ndeclare void @llvm.x86.sse2.pause()\ndeclare void @llvm.x86.sse.stmxcsr(ptr)\n")
    text = declarations + "".join(_function(each, body) for each, body in (STEPS | ANSWERS).items())
    code = machine(TARGETS["sse2"])
    module = llvm.parse_assembly(f'target triple = "{code.triple}"\n{text}')
    module.verify()
    return load(CompiledObject(code.emit_object(module), name))


def launch(pool: Pool, name: str, tasks: int, counts: np.ndarray, argument: int = 0, scratch: int = 0) -> int:
    """Return the status of one launch; `scratch` is the address of the caller's scratch memory. Python's lock is not held while it runs."""
    places = (ctypes.c_int64 * 2)(counts.ctypes.data, argument)
    code = step(name)       # stays loaded meanwhile: of threads that make it at the same time, one retains it
    kinds = ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p
    return ctypes.CFUNCTYPE(ctypes.c_uint64, *kinds)(pool.launch)(pool.address, code.address, ctypes.addressof(places), tasks, scratch)


def workers() -> set[int]:
    """Threads of this process that a pool has started."""
    found = set()
    for path in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):      # a thread that has just ended
            if (path / "comm").read_text().strip() == THREAD_NAME:
                found.add(int(path.name))
    return found


def with_one_helper(team: ThreadTeam) -> tuple[Pool, int]:
    """Return a pool of two threads, and the number of its worker thread."""
    pool, before = make_pool(team, 2), workers()
    launch(pool, "meet", 2, np.zeros(3, np.int64), 2)
    (helper,) = workers() - before
    return pool, helper


def all_once(pool: Pool, tasks: int) -> bool:
    counts = np.zeros(tasks + 1, np.int64)
    return launch(pool, "count", tasks, counts) == 0 and bool(np.all(counts[:tasks] == 1)) and counts[tasks] == 0
