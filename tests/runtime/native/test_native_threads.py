"""The pool of native programs: every task once, the first error, nesting, callers at the same time, fork, sleep, signals, rounding."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from support.forks import in_child
from support.native_pool import all_once, launch, with_one_helper, workers
from support.project import TESTS

from adjit.codegen.llvm.link import CompiledObject, load
from adjit.codegen.llvm.target import TARGETS, machine
from adjit.codegen.process.cores import usable_cores
from adjit.ir.memory_sizes import ALIGNMENT, POOL_SCRATCH_BYTES
from adjit.runtime.native.threads import ThreadTeam, make_pool, pool_for

pytestmark = [pytest.mark.skipif(not sys.platform.startswith("linux"), reason="futexes are Linux's"),
              pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork.*:DeprecationWarning")]

@pytest.fixture
def team() -> ThreadTeam:
    return ThreadTeam()


@pytest.mark.parametrize("threads", [2, 3, 5, 40])
@pytest.mark.parametrize("tasks", [1, 2, 3, 7, 16, 100, 5000])
def test_every_task_runs_once(threads: int, tasks: int) -> None:
    pool = pool_for(threads)
    assert pool is not None
    for _ in range(20):
        assert all_once(pool, tasks)


def test_the_threads_work_at_the_same_time(team: ThreadTeam) -> None:
    counts = np.zeros(9, np.int64)
    assert launch(make_pool(team, 4), "meet", 4, counts, argument=4) == 0
    assert counts[0] == 4


def test_each_thread_has_scratch_memory_of_its_own(team: ThreadTeam) -> None:
    own, found = np.zeros(POOL_SCRATCH_BYTES, np.uint8), np.zeros(200, np.int64)
    pool, known = make_pool(team, 3), set[int]()
    until = time.monotonic() + 60       # on a busy machine a thread comes late, again and again
    while len(known) < 3 and time.monotonic() < until:
        assert launch(pool, "scratch", 200, found, scratch=own.ctypes.data) == 0
        known |= set(found.tolist())
    assert own.ctypes.data in known
    assert len(known) == 3
    assert min(abs(a - b) for a in known for b in known if a != b) >= POOL_SCRATCH_BYTES
    assert all(address % ALIGNMENT == 0 for address in known - {own.ctypes.data})


@pytest.mark.parametrize("threads", [2, 3, 5])
def test_a_thread_begins_with_the_same_share_of_every_launch(team: ThreadTeam, threads: int) -> None:
    pool, first = make_pool(team, threads), set()
    for pause in (0, 0, 0, 0.001, 0, 0, 0.02, 0) * 3:
        time.sleep(pause)
        counts = np.zeros(9, np.int64)
        launch(pool, "meet", threads, counts, argument=threads)     # each thread does one task, that which it comes to first
        first.add(tuple(counts[1:1 + threads]))
    assert len(first) == 1
    assert len(set(first.pop())) == threads


def test_threads_start_when_they_are_needed_and_once(team: ThreadTeam) -> None:
    before = workers()
    few, many = make_pool(team, 2), make_pool(team, 4)
    assert all_once(few, 1)
    assert workers() == before
    for pool, started in ((few, 1), (few, 1), (many, 3), (few, 3), (many, 3)):
        launch(pool, "meet", pool.threads, np.zeros(9, np.int64), argument=pool.threads)       # ends when all of them are there
        assert len(workers() - before) == started


def test_no_more_threads_than_the_program_may_use(team: ThreadTeam) -> None:
    many, few = make_pool(team, 4), make_pool(team, 2)
    launch(many, "meet", 4, np.zeros(9, np.int64), argument=4)
    for _ in range(50):
        ran = np.zeros(64, np.int64)
        launch(few, "thread", 64, ran)
        assert len(np.unique(ran)) <= 2


@pytest.mark.parametrize("threads", [2, 4])
def test_the_smallest_error_is_the_answer(threads: int) -> None:
    pool = pool_for(threads)
    assert pool is not None
    random = np.random.default_rng(0)
    for _ in range(100):
        found = np.where(random.random(50) < 0.1, random.integers(1, 1000, 50), 0)
        # A step stops at its first error; errors that grow with the task are those of checks, and then the first is the smallest.
        found = np.where(found, np.arange(1, 51), 0)
        assert launch(pool, "check", 50, found) == (found[found > 0].min() if found.any() else 0)


def test_a_launch_within_a_step_runs_alone(team: ThreadTeam) -> None:
    pool, counts = make_pool(team, 2), np.zeros(3 * 20, np.int64)
    assert launch(pool, "nest", 20, counts, argument=pool.address) == 0
    assert np.all(counts == 1)


def test_callers_at_the_same_time(team: ThreadTeam) -> None:
    pool = make_pool(team, 2)
    right: list[bool] = []

    def call(number: int) -> None:
        right.append(all(all_once(pool, 1 + (number * 37 + i) % 200) for i in range(300)))

    callers = [threading.Thread(target=call, args=(number,)) for number in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
    assert right == [True] * 8


def test_idle_threads_sleep(team: ThreadTeam) -> None:
    launch(make_pool(team, 4), "meet", 4, np.zeros(9, np.int64), argument=4)
    time.sleep(0.05)
    before = resource.getrusage(resource.RUSAGE_SELF)
    time.sleep(0.3)
    after = resource.getrusage(resource.RUSAGE_SELF)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.05


def test_sleeping_threads_wake_up(team: ThreadTeam) -> None:
    pool = make_pool(team, 3)
    for pause in (0, 0.001, 0.02, 0.02):
        time.sleep(pause)
        counts = np.zeros(9, np.int64)
        launch(pool, "meet", 3, counts, argument=3)
        assert counts[0] == 3


@pytest.mark.skipif(usable_cores() < 2, reason="there is nowhere to go")
def test_who_sleeps_on_the_processor_of_the_caller_is_woken_elsewhere(team: ThreadTeam) -> None:
    (pool, helper), counts = with_one_helper(team), np.zeros(3, np.int64)
    processor = ctypes.CDLL(None).sched_getcpu
    found: set[int] = set()
    for _ in range(50):         # the system may take the caller elsewhere at any time
        here = processor()
        os.sched_setaffinity(helper, {here})
        launch(pool, "count", 2, counts)
        time.sleep(0.02)        # it lies down there
        launch(pool, "count", 2, counts)
        found = os.sched_getaffinity(helper)
        if processor() == here and found != {here}:
            break
    assert found == os.sched_getaffinity(0) - {here}


def test_a_caller_with_one_processor_shares_it(team: ThreadTeam) -> None:
    pool, helper = with_one_helper(team)
    mine = os.sched_getaffinity(0)
    one = {min(mine)}
    try:
        for number in (0, helper):
            os.sched_setaffinity(number, one)
        for _ in range(3):
            counts = np.zeros(5, np.int64)
            time.sleep(0.02)
            assert launch(pool, "count", 5, counts) == 0
            assert counts.tolist() == [1] * 5
        assert os.sched_getaffinity(helper) == one
    finally:
        os.sched_setaffinity(0, mine)


def test_a_forked_child_starts_its_own(team: ThreadTeam) -> None:
    pool = make_pool(team, 3)

    def meet() -> bool:
        counts = np.zeros(9, np.int64)
        launch(pool, "meet", 3, counts, argument=3)
        return counts[0] == 3 and len(workers()) == 2

    launch(pool, "meet", 3, np.zeros(9, np.int64), argument=3)
    assert in_child(lambda: meet() and in_child(meet) == 0) == 0
    assert all_once(pool, 100)


def test_a_child_that_c_code_forked_leaves_the_threads_of_its_parent_alone(team: ThreadTeam) -> None:
    pool, helper = with_one_helper(team)
    mine = os.sched_getaffinity(0)
    one = {min(mine)}
    try:
        for number in (0, helper):
            os.sched_setaffinity(number, one)
        launch(pool, "count", 2, np.zeros(3, np.int64))
        time.sleep(0.02)        # it lies down there, and who launches next from there would send it elsewhere
        os.sched_setaffinity(helper, mine)
        child = ctypes.PyDLL(None).fork()
        if child == 0:
            counts = np.zeros(5, np.int64)
            for _ in range(20):
                os.sched_setaffinity(0, one)        # the child goes there, and may leave
                os.sched_setaffinity(0, mine)
                launch(pool, "count", 5, counts)
            os._exit(int(counts.tolist() != [20] * 5))
        assert os.waitpid(child, 0)[1] == 0
        assert os.sched_getaffinity(helper) == mine
    finally:
        os.sched_setaffinity(0, mine)


def test_a_fork_during_the_launch_of_another_thread(team: ThreadTeam) -> None:
    pool = make_pool(team, 2)
    gate = np.zeros(9, np.int64)
    other = threading.Thread(target=launch, args=(pool, "meet", 2, gate, 3))     # waits for a third who opens the gate
    other.start()
    while gate[0] < 2:
        time.sleep(0.001)

    def meet() -> bool:
        counts = np.zeros(9, np.int64)
        launch(pool, "meet", 2, counts, argument=2)         # the pool is not busy: both are needed
        return counts[0] == 2

    try:
        assert in_child(meet) == 0
    finally:
        gate[0] = 3
        other.join(20)
    assert not other.is_alive()


def test_signals_go_to_python_threads(team: ThreadTeam) -> None:
    before = workers()
    launch(make_pool(team, 2), "meet", 2, np.zeros(9, np.int64), argument=2)
    worker, = workers() - before
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/self/task/{worker}/status").read_text().splitlines() if ":\t" in line)
    own = {signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGCHLD}
    assert all(int(status["SigBlk"], 16) >> (number - 1) & 1 for number in own)
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, []) & own       # the caller's are as they were


def test_threads_compute_as_the_caller_does(team: ThreadTeam) -> None:
    """Subnormal numbers flushed to zero in the calling thread are flushed in all."""
    import llvmlite.binding as llvm

    code = machine(TARGETS["sse2"])
    text = (f'target triple = "{code.triple}"\ndeclare void @llvm.x86.sse.ldmxcsr(ptr)\n'
            "define void @set(i64 %value) {\n  %cell = alloca i64\n  store i64 %value, ptr %cell\n"
            "  call void @llvm.x86.sse.ldmxcsr(ptr %cell)\n  ret void\n}\n")
    loaded = load(CompiledObject(code.emit_object(llvm.parse_assembly(text)), "set"))
    set_control = ctypes.CFUNCTYPE(None, ctypes.c_int64)(loaded.address)
    pool, usual, flushing = make_pool(team, 2), 0x1F80, 0x9FC0
    for control in (usual, flushing, usual):
        seen, ran = np.zeros(64, np.int64), np.zeros(64, np.int64)
        set_control(control)
        try:
            launch(pool, "control", 64, seen)
            launch(pool, "thread", 64, ran)
        finally:
            set_control(usual)
        assert np.all(seen & 0xFFC0 == control & 0xFFC0)        # but for the flags of what has happened


def test_without_threads_the_caller_does_all() -> None:
    """In a process that may not start any."""
    script = """
import resource, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import numpy as np
from support import native_pool as t
from adjit.ir.memory_sizes import POOL_STACK_BYTES
from adjit.runtime.native import threads as native_threads
pool = native_threads.pool_for(4)
t.step("count")
there = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (there + POOL_STACK_BYTES // 2,) * 2)     # no room for a stack
assert all(t.all_once(pool, tasks) for tasks in (1, 2, 100, 100))
assert not t.workers()
"""
    subprocess.run([sys.executable, "-c", script, TESTS], check=True, timeout=60)


@pytest.mark.share(2)
@pytest.mark.parametrize("busy", [False, True])
def test_the_process_ends_while_threads_spin_or_work(busy: bool) -> None:
    script = f"""
import sys, threading, time
sys.path.insert(0, sys.argv[1])
import numpy as np
from support import native_pool as t
from adjit.codegen.process.cores import usable_cores
from adjit.runtime.native.threads import pool_for
pool = pool_for(3)
assert t.all_once(pool, 100)
if {busy}:
    counts = np.zeros(9, np.int64)
    t.step("meet")
    threading.Thread(target=t.launch, args=(pool, "meet", 3, counts, 4), daemon=True).start()
    while counts[0] < 3:
        time.sleep(0.001)
print("end")
"""
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", script, TESTS], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")
