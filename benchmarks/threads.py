"""What splitting a step over threads costs: launches of empty tasks when threads spin and when they sleep; and what two threads bring.

    python threads.py [--threads 2] [--rounds 2000]

For each size of work, one launch on the pool beside the same work on one thread, right after another launch (`hot`), and after a pause in
which the threads have gone to sleep (`asleep`): medians, in us. From the size on where the pool is faster, a step is worth splitting.
"""

from __future__ import annotations

import argparse
import ctypes
import time
from statistics import median

from adjit.codegen.llvm.link import CompiledObject, LoadedKernel, load
from adjit.codegen.llvm.target import TARGETS, machine
from adjit.runtime.native.threads import pool_for

TASKS = 16
STEP = """
define i64 @wait(ptr %places, i64 %low, i64 %high, ptr %scratch) {
entry:
  %each = load i64, ptr %places
  %count = sub i64 %high, %low
  %rounds = mul i64 %each, %count
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %rounds
  br i1 %more, label %body, label %end
body:
  %next = add i64 %i, 1
  call void asm sideeffect "", ""()
  br label %head
end:
  ret i64 0
}
"""
"""Counts to `places[0]` for each task: arithmetic of one core alone."""


def make_step() -> LoadedKernel:
    import llvmlite.binding as llvm

    code = machine(TARGETS["sse2"])
    module = llvm.parse_assembly(f'target triple = "{code.triple}"\n{STEP}')
    return load(CompiledObject(code.emit_object(module), "wait"))


def measure(threads: int, rounds: int) -> None:
    """Print the table."""
    pool, step, each = pool_for(threads), make_step(), ctypes.c_int64(1000)
    assert pool is not None
    launch = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 3, ctypes.c_int64, ctypes.c_void_p)(pool.launch)
    alone = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)(step.address)
    addresses = ctypes.addressof(each)

    def split(pause: float) -> float:
        if pause:
            time.sleep(pause)
        start = time.perf_counter()
        launch(pool.address, step.address, addresses, TASKS, None)
        return (time.perf_counter() - start) * 1e6

    def single() -> float:
        start = time.perf_counter()
        alone(addresses, 0, TASKS)
        return (time.perf_counter() - start) * 1e6

    one_task = median(single() for _ in range(rounds)) / TASKS / each.value       # us for one turn of the loop
    print(f"{'one thread':>12} {'hot':>8} {'asleep':>8}    us, {threads} threads, {TASKS} tasks, medians")
    for size in (0, 2, 5, 10, 20, 50, 100, 200, 500, 1000):
        each.value = round(size / TASKS / one_task)
        few = max(50, min(rounds, 10**6 // max(size, 1)))
        for _ in range(20):
            split(0)
        hot = median(split(0) for _ in range(few))
        asleep = median(split(0.001) for _ in range(min(few, 300)))
        print(f"{median(single() for _ in range(few)):12.1f} {hot:8.1f} {asleep:8.1f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=2000)
    options = parser.parse_args()
    measure(options.threads, options.rounds)
