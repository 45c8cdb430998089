"""Pool of threads that native programs share, in machine code: threads spin briefly for more work, then sleep on a futex.

    i64 @adjit_launch(ptr %pool, ptr %step, ptr %places, i64 %tasks, ptr %scratch)

runs `i64 %step(ptr %places, i64 %low, i64 %high, ptr %own)` for tasks 0 <= t < %tasks, each once, on the calling thread and on threads of a
team, and returns the smallest nonzero status, or 0. `%own` is scratch memory: `%scratch` on the calling thread; on the others it lies on
their stacks (`POOL_SCRATCH_BYTES`). A program reaches the pool through `%pool`: the address of `launch`, the team, and the number of
threads that the program may use, the calling thread included.

A launch publishes its tasks, cut into as many equal ranges as there are threads. Each range has a word with the tasks left (`claim`: number
of the launch << 32 | tasks left). A thread that lowers the word with compare-and-swap owns the tasks in between. A thread begins with its
own range, and then helps with the other ranges: in consecutive steps, the same rows are in the same core's cache. The launch ends when all
claimed tasks are done, and does not wait for threads without a claim: a thread that wakes late finds no task left, and the values it read
meanwhile count only if the word has not changed. One launch runs at a time; concurrent launches, and launches within a step, run on their
own thread.

Thread affinity: a helper that went to sleep on the processor of the thread that wakes it is moved to another processor first. The system
may wake a thread on the processor of its waker, and leave it there for milliseconds, while others are idle (seen on virtual machines with
Linux 6.18: steps after a pause took twice their time in half of all cases). So helpers record the processor on which they go to sleep.

A team is `TEAM_BYTES` of zeros, aligned to 64. Its threads are created when a launch first needs them, with all signals blocked; if the
system creates no more threads, the existing ones do the work. Zeroing the memory makes a new team, which is all that a forked child has to
do. Helpers take over the rounding mode and the treatment of subnormals of the launching thread. Helpers never end: the code must stay
loaded.

An empty launch on two threads takes 0.5 to 1.7 us if the other thread spins, some 10 us if it sleeps: work of 5 us is done faster on two
threads that worked just before, work of 30 us in any case (`benchmarks/threads.py`).
"""

from __future__ import annotations

from adjit.codegen.llvm.builder import Builder, Typed, Value
from adjit.codegen.llvm.link import CompiledObject
from adjit.codegen.llvm.module import DISPATCH
from adjit.codegen.llvm.object_code import emit_object
from adjit.codegen.llvm.target import TARGETS
from adjit.ir.memory_sizes import ALIGNMENT, POOL_SCRATCH_BYTES, POOL_STACK_BYTES

SYMBOL = "adjit_launch"
MAX_RANGES = 64
"""Maximum number of ranges; further threads share ranges."""

TEAM_BYTES = 320 + 64 * MAX_RANGES
THREAD_NAME = "adjit"

SPIN_CYCLES = 1 << 16
"""Time that a waiting thread spins, in cycles of the time stamp counter: some 20 us, about the time to wake a thread."""

CLAIM_DIVISOR = 4
"""Divisor of the tasks left in a range: a claim takes the quotient, so a delayed thread leaves the rest to others."""

_FIELDS = {
    "step": 0, "places": 8, "tasks": 16, "helpers": 24, "ranges": 32, "control": 40,
    "finished": 64, "smallest": 72, "waiting": 80,
    "busy": 128, "hired": 136, "numbers": 144, "refused": 152,
    "sleepers": 192,
    "claim": 256, "generation": 260}
"""Byte offsets in a team. Each group has a cache line: fields that are only read during a launch, fields that helpers write, fields that
only launches write, the number of sleeping threads, and the word of the first range. The words of the other ranges follow, each in its own
cache line."""

_FUTEX, _PRCTL = 202, 157
_WAIT, _WAKE = 128 | 9, 128 | 10        # private futexes, with a mask of the threads to wake
_SET_NAME = 15
_SET_MASK = 2
_DETACHED = 1


_WORD = 32
"""Bits of a range's word below the number of the launch."""

_DECLARATIONS = f"""
@name = private constant [{len(THREAD_NAME) + 1} x i8] c"{THREAD_NAME}\\00"
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_attr_init(ptr)
declare i32 @pthread_attr_setstacksize(ptr, i64)
declare i32 @pthread_attr_setdetachstate(ptr, i32)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i64 @syscall(i64, ...)
"""

_GETPID, _GETTID, _SETAFFINITY, _GETAFFINITY, _GETCPU = 39, 186, 203, 204, 309

_CPU, _THREAD, _PROCESS = 16, 20, 24
"""Byte offsets in the cache line of a helper's range: the processor on which the helper last went to sleep, its system thread id (0 until
known), and its process id. A child forked by C code has this memory, but not the thread."""

_MASK_BYTES = 128
"""Bytes of a processor set in the system's format."""


def pool_text() -> str:
    """The module, for x86-64 Linux."""
    text = Builder(_DECLARATIONS)
    _write_launch(text)
    write_part(text, MAX_RANGES - 1)
    _write_work(text)
    _write_help(text)
    _write_hire(text)
    return str(text)


def _write_launch(text: Builder) -> None:
    with text.function(SYMBOL, "ptr %pool", "ptr %step", "ptr %places", "i64 %tasks", "ptr %scratch", result="i64", linkage="",
                       attributes=DISPATCH):
        team, threads = text.load("ptr", "%pool", 8), text.load("i64", "%pool", 16)
        wanted = text.sub(text.smaller(threads, "%tasks"), 1)
        present = _reserve(text, team, wanted)
        with text.if_(text.compare("sle", present, 0)):
            text.ret("i64", text.call("i64", "%step", ("ptr", "%places"), ("i64", 0), ("i64", "%tasks"), ("ptr", "%scratch")))
        helpers = text.smaller(present, wanted)
        number = _publish(text, team, helpers)
        with text.if_(text.compare("ne", text.atomic_load("i32", _field(text, team, "sleepers"), "seq_cst"), 0, "i32")):
            text.call("void", "@part", ("ptr", _field(text, team, "claim")), ("i64", helpers))
            every = text.compare("ugt", helpers, 31)
            mask = text.select(every, "i64", (1 << 32) - 1, text.sub(text.shl(1, helpers), 1))
            _wake(text, _field(text, team, "generation"), (1 << 31) - 1, text.convert("trunc", "i64", mask, "i32"))
        own = text.call("i64", "@work", ("ptr", team), ("i64", number), ("i64", 0), ("ptr", "%scratch"))
        _wait_for(text, team, text.sub("%tasks", own))
        text.atomic_store("i32", 0, _field(text, team, "waiting"), "monotonic")
        smallest = text.atomic_load("i64", _field(text, team, "smallest"), "monotonic")
        text.atomic_store("i32", 0, _field(text, team, "busy"), "release")
        text.ret("i64", text.select(text.compare("eq", smallest, -1), "i64", 0, smallest))


def _reserve(text: Builder, team: str, wanted: str) -> str:
    """Acquire the team, and return its number of helpers. 0 if another launch runs, or if the calling thread does the work better alone."""
    present = text.variable(0)
    with text.if_(text.both(text.compare("sgt", wanted, 0), text.compare("ult", "%tasks", 1 << _WORD))):
        busy = _field(text, team, "busy")
        _, free = text.compare_exchange("i32", busy, 0, 1, "acquire monotonic")
        with text.if_(free):
            present.set(text.load("i64", _field(text, team, "hired")))
            with text.if_(text.compare("slt", present.value, wanted)):
                present.set(text.call("i64", "@hire", ("ptr", team), ("i64", wanted)))
            with text.if_(text.compare("sle", present.value, 0)):
                text.atomic_store("i32", 0, busy, "release")
    return present.value


def _publish(text: Builder, team: str, helpers: str) -> str:
    """Publish a launch. Returns the number of the launch. The word of the first range is written last: a thread that sees the launch there
    sees it in the word of its own range, too."""
    ranges = text.smaller(text.add(helpers, 1), MAX_RANGES)
    for type, value, name in (("ptr", "%step", "step"), ("ptr", "%places", "places"), ("i64", "%tasks", "tasks"),
                              ("i64", helpers, "helpers"), ("i64", ranges, "ranges"), ("i64", "0", "finished"), ("i64", "-1", "smallest")):
        text.atomic_store(type, value, _field(text, team, name), "monotonic")
    text.call("void", "@llvm.x86.sse.stmxcsr", ("ptr", _field(text, team, "control")))
    claim = _field(text, team, "claim")
    before = text.lshr(text.atomic_load("i64", claim, "monotonic"), _WORD)
    number = text.shl(text.add(before, 1), _WORD)

    def word(index: str) -> str:
        low, high = (_range_start(text, end, "%tasks", ranges) for end in (index, text.add(index, 1)))
        return text.let(f"or i64 {number}, {text.sub(high, low)}")

    with text.for_range(1, ranges, empty=True) as index:
        text.atomic_store("i64", word(index.counter), _claim(text, claim, index.counter), "release")
    text.atomic_update("xchg", "i64", claim, word("0"), "seq_cst")
    return text.lshr(number, _WORD)


def _wait_for(text: Builder, team: str, others: str) -> None:
    """Wait until the helpers have done `others` tasks: spin, then sleep."""
    finished, start = _field(text, team, "finished"), _clock(text)
    with text.loop():
        with text.if_(text.compare("eq", text.atomic_load("i64", finished, "acquire"), others)):
            text.break_()
        with text.if_(_has_spun_enough(text, start)):
            with text.loop():
                text.atomic_update("xchg", "i32", _field(text, team, "waiting"), 1, "seq_cst")
                done = text.atomic_load("i64", finished, "seq_cst")
                with text.if_(text.compare("eq", done, others)):
                    text.break_()
                _sleep(text, finished, text.convert("trunc", "i64", done, "i32"), -1)
            text.break_()
        text.call("void", "@llvm.x86.sse2.pause")


def _write_work(text: Builder) -> None:
    """The function that runs tasks of a launch until none is left, first those of range `%first`. It returns the number of tasks done."""
    with text.function("work", "ptr %team", "i64 %number", "i64 %first", "ptr %scratch", result="i64"):
        done, turn = text.variable(0), text.variable(-1)
        with text.loop():
            turn.add()
            ranges = text.atomic_load("i64", _field(text, "%team", "ranges"), "monotonic")
            with text.if_(text.compare("uge", turn.value, ranges)):
                text.break_()
            index = text.let(f"urem i64 {text.add('%first', turn.value)}, {ranges}")
            claim = _claim(text, _field(text, "%team", "claim"), index)
            word = text.variable(text.atomic_load("i64", claim, "acquire"))
            with text.loop():
                seen = word.value
                left = text.let(f"and i64 {seen}, {(1 << _WORD) - 1}")
                gone = text.either(text.compare("ne", text.lshr(seen, _WORD), "%number"), text.compare("eq", left, 0))
                with text.if_(gone):
                    text.break_()
                piece = text.let(f"udiv i64 {left}, {CLAIM_DIVISOR}")
                size = text.call("i64", "@llvm.umax.i64", ("i64", piece), ("i64", 1))
                now, ours = text.compare_exchange("i64", claim, seen, text.sub(seen, size), "acquire acquire")
                word.set(now)
                with text.if_(ours):
                    _run(text, index, ranges, left, size)
                    done.add(size)
                    word.set(text.atomic_load("i64", claim, "acquire"))
        text.ret("i64", done.value)


def _run(text: Builder, index: str, ranges: str, left: str, size: str) -> None:
    """Run the first `size` of the `left` remaining tasks of range `index`."""
    text.call("void", "@llvm.x86.sse.ldmxcsr", ("ptr", _field(text, "%team", "control")))
    step, places = (text.atomic_load("ptr", _field(text, "%team", name), "monotonic") for name in ("step", "places"))
    tasks = text.atomic_load("i64", _field(text, "%team", "tasks"), "monotonic")
    low = text.sub(_range_start(text, text.add(index, 1), tasks, ranges), left)
    result = text.call("i64", step, ("ptr", places), ("i64", low), ("i64", text.add(low, size)), ("ptr", "%scratch"))
    with text.if_(text.compare("ne", result, 0)):
        text.atomic_update("umin", "i64", _field(text, "%team", "smallest"), result, "monotonic")


def _write_help(text: Builder) -> None:
    """The main function of a helper thread, which joins every launch that wants that many helpers."""
    with text.function("help", "ptr %team", result="ptr"):
        scratch = text.alloca("i8", POOL_SCRATCH_BYTES, ALIGNMENT)
        system_call(text, _PRCTL, ("i64", _SET_NAME), ("ptr", "@name"))
        number = text.atomic_update("add", "i64", _field(text, "%team", "numbers"), 1, "monotonic")
        mask = text.convert("trunc", "i64", text.shl(1, text.let(f"and i64 {number}, 31")), "i32")
        first = text.let(f"urem i64 {text.add(number, 1)}, {MAX_RANGES}")
        own = _claim(text, _field(text, "%team", "claim"), first)
        has_line = text.compare("ult", number, MAX_RANGES - 1)
        known, start = text.variable(0), text.variable(_clock(text))        # number of the last launch seen, and start of the wait
        with text.loop():
            launch = text.lshr(text.atomic_load("i64", own, "acquire"), _WORD)
            is_new = text.compare("ne", launch, known.value)
            known.set(launch)
            wanted = text.atomic_load("i64", _field(text, "%team", "helpers"), "monotonic")
            with text.if_(text.both(is_new, text.compare("ult", number, wanted))):
                _help_with(text, launch, first, scratch)
                start.set(_clock(text))
                text.continue_()
            with text.loop():
                text.call("void", "@llvm.x86.sse2.pause")
                now = text.lshr(text.atomic_load("i64", own, "monotonic"), _WORD)
                with text.if_(text.compare("ne", now, launch)):
                    text.break_()
                with text.if_(_has_spun_enough(text, start.value)):
                    _sleep_until_launch(text, own, launch, mask, has_line)
                    text.break_()


def _help_with(text: Builder, launch: str, first: str, scratch: str) -> None:
    done = text.call("i64", "@work", ("ptr", "%team"), ("i64", launch), ("i64", first), ("ptr", scratch))
    with text.if_(text.compare("ne", done, 0)):
        finished = _field(text, "%team", "finished")
        text.atomic_update("add", "i64", finished, done, "seq_cst")
        with text.if_(text.compare("ne", text.atomic_load("i32", _field(text, "%team", "waiting"), "seq_cst"), 0, "i32")):
            _wake(text, finished, 1, "-1")


def _sleep_until_launch(text: Builder, own: str, launch: str, mask: str, has_line: str) -> None:
    """Sleep until a new launch is published."""
    sleepers, generation = _field(text, "%team", "sleepers"), _field(text, "%team", "generation")
    text.atomic_update("add", "i32", sleepers, 1, "seq_cst")
    seen = text.atomic_load("i32", generation, "acquire")
    still = text.lshr(text.atomic_load("i64", own, "acquire"), _WORD)
    with text.if_(text.compare("eq", still, launch)):
        with text.if_(has_line):
            note_place(text, own)
        with text.loop():
            _sleep(text, generation, seen, mask)
            with text.if_(text.compare("ne", text.atomic_load("i32", generation, "monotonic"), seen, "i32")):
                text.break_()
    text.atomic_update("sub", "i32", sleepers, 1, "seq_cst")


def _write_hire(text: Builder) -> None:
    """The function that creates threads until there are `%wanted`, or the system refuses. It returns their number; called within a launch
    only."""
    with text.function("hire", "ptr %team", "i64 %wanted", result="i64", attributes=DISPATCH):
        hired, refused = _field(text, "%team", "hired"), _field(text, "%team", "refused")
        count = text.variable(text.load("i64", hired))
        with text.if_(text.compare("ne", text.load("i64", refused), 0)):
            text.ret("i64", count.value)
        thread, attributes = text.alloca("i64"), text.alloca("i8", 64, 16)
        every, before = (text.alloca("i8", 128, 16) for _ in range(2))
        text.call("void", "@llvm.memset.p0.i64", ("ptr", every), ("i8", -1), ("i64", 128), ("i1", "false"))
        text.call("i32", "@pthread_sigmask", ("i32", _SET_MASK), ("ptr", every), ("ptr", before))
        text.call("i32", "@pthread_attr_init", ("ptr", attributes))
        text.call("i32", "@pthread_attr_setstacksize", ("ptr", attributes), ("i64", POOL_STACK_BYTES))
        text.call("i32", "@pthread_attr_setdetachstate", ("ptr", attributes), ("i32", _DETACHED))
        with text.loop():
            with text.if_(text.compare("sge", count.value, "%wanted")):
                text.break_()
            error = text.call("i32", "@pthread_create", ("ptr", thread), ("ptr", attributes), ("ptr", "@help"), ("ptr", "%team"))
            with text.if_(text.compare("ne", error, 0, "i32")):
                text.store("i64", 1, refused)
                text.break_()
            count.add()
        text.store("i64", count.value, hired)
        text.call("i32", "@pthread_sigmask", ("i32", _SET_MASK), ("ptr", before), ("ptr", "null"))
        text.ret("i64", count.value)


def _field(text: Builder, team: str, name: str) -> str:
    return text.at(team, 1, _FIELDS[name])


def _claim(text: Builder, claim: str, index: str) -> str:
    """The address of a range's word, in its own cache line."""
    return text.at(claim, "[64 x i8]", index)


def _range_start(text: Builder, index: str, tasks: str, ranges: str) -> str:
    """First task of a range."""
    return text.let(f"udiv i64 {text.mul(index, tasks)}, {ranges}")


def _clock(text: Builder) -> str:
    return text.call("i64", "@llvm.readcyclecounter")


def _has_spun_enough(text: Builder, start: str) -> str:
    """True if a thread that waits since `start` has spun for long enough."""
    return text.compare("ugt", text.sub(_clock(text), start), SPIN_CYCLES)


def _sleep(text: Builder, word: str, seen: str, mask: Value) -> None:
    """Sleep on the futex `word` until a thread wakes this mask. Returns at once if the word is not `seen`."""
    system_call(text, _FUTEX, ("ptr", word), ("i32", _WAIT), ("i32", seen), ("ptr", "null"), ("ptr", "null"), ("i32", mask))


def _wake(text: Builder, word: str, most: int, mask: str) -> None:
    system_call(text, _FUTEX, ("ptr", word), ("i32", _WAKE), ("i32", most), ("ptr", "null"), ("ptr", "null"), ("i32", mask))


def system_call(text: Builder, number: int, *arguments: Typed) -> str:
    return text.call("i64 (i64, ...)", "@syscall", ("i64", number), *arguments)


def note_place(text: Builder, line: str) -> None:
    """Record the processor, thread and process of a helper that goes to sleep in the cache line of its range."""
    system_call(text, _GETCPU, ("ptr", text.at(line, 1, _CPU)), ("ptr", "null"), ("ptr", "null"))
    thread, process = (text.convert("trunc", "i64", system_call(text, which), "i32") for which in (_GETTID, _GETPID))
    text.atomic_store("i32", process, text.at(line, 1, _PROCESS), "monotonic")
    text.atomic_store("i32", thread, text.at(line, 1, _THREAD), "release")


def write_part(text: Builder, most: int) -> None:
    """`void @part(ptr %claim, i64 %helpers)`: move helpers off the calling thread's processor before they are woken. At most `most` helpers
    have lines.

    A helper that went to sleep on the calling thread's processor would be woken there, and wait until this thread has done all the work,
    while other processors are idle. Its affinity is set to the processors that the calling thread may use, except the current one.
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
    """Remove a processor from a set."""
    index = text.convert("zext", "i32", text.let(f"lshr i32 {processor}, 3"), "i64")
    byte = text.at(allowed, 1, index)
    bit = text.let(f"shl i32 1, {text.let(f'and i32 {processor}, 7')}")
    others = text.convert("trunc", "i32", text.let(f"xor i32 {bit}, 255"), "i8")
    text.store("i8", text.let(f"and i8 {text.load('i8', byte)}, {others}"), byte)


def _has_any(text: Builder, allowed: str) -> str:
    words = _MASK_BYTES // 8
    every = text.load(f"<{words} x i64>", allowed, align=8)
    return text.compare("ne", text.call("i64", f"@llvm.vector.reduce.or.v{words}i64", (f"<{words} x i64>", every)), 0)


def compile_pool(text: str) -> CompiledObject:
    """The pool's object code; its entry is `adjit_launch`."""
    return CompiledObject(emit_object(text, TARGETS["sse2"], verify=True, promote=True), SYMBOL)
