"""The pool of threads that native programs share, as LLVM text: threads spin briefly for more work, then sleep on a futex.

    i64 @adjit_launch(ptr %pool, ptr %step, ptr %places, i64 %tasks)

does `i64 %step(ptr %places, i64 %low, i64 %high)` for tasks 0 <= t < %tasks, each once, on the calling thread and on threads of a team, and
returns the smallest of the results that are not 0, or 0. A program reaches it through `%pool`: the address of `launch`, the team, and
how many threads the program may use, the calling one among them.

A launch publishes what there is to do, cut into as many equal ranges as there are threads, and for each range in one word how much of it
is left (`claim`: number of the launch << 32 | tasks left). Who lowers that word owns the tasks in between. A thread begins with the range
of its number, and helps with the others' when that is done: in steps that follow each other, the same rows are in the same core's cache.
The launch ends when all that was claimed is done, and nobody waits for a thread that has claimed nothing: a thread that wakes up late
finds nothing left, and what it read meanwhile counts only if the word has not changed. One launch runs at a time; others, and launches
within a step, run on their own thread.

A helper that lies down on the processor of who wakes it is woken on another one (`helper_places.py`).

A team is `TEAM_BYTES` of zeros, aligned to 64. It hires threads when a launch first needs them, with all signals blocked; where the
system gives none, the work is done by those there are. Zeros again make a new team, which is all that a forked child has to do. Threads
round, and treat subnormal numbers, as who launched does. They never end: the code must stay loaded.

A launch on two threads that has nothing to do takes 0.5 to 1.7 us where the other one spins, some 10 us where it sleeps: work of 5 us is
done faster on two threads that were at work just before, work of 30 us on any (`benchmarks/threads.py`).
"""

from __future__ import annotations

from adjit.codegen.link import CompiledObject
from adjit.codegen.llvm_text import GLUE
from adjit.codegen.native.helper_places import DECLARATION, note_text, part_text, places_text
from adjit.codegen.object_code import emit_object
from adjit.codegen.target import TARGETS
from adjit.ir.memory_sizes import POOL_STACK_BYTES

SYMBOL = "adjit_launch"
MOST_RANGES = 64
"""More threads share ranges."""

TEAM_BYTES = 320 + 64 * MOST_RANGES
THREAD_NAME = "adjit"

SPIN_CYCLES = 1 << 16
"""For how long a thread that waits spins, in cycles of the time stamp counter: some 20 us, about what waking a thread takes."""

PIECES = 4
"""A thread claims this part of what is left of a range: a thread that was delayed leaves the rest to others."""

_FIELDS = {
    "step": 0, "places": 8, "tasks": 16, "helpers": 24, "ranges": 32, "control": 40,
    "finished": 64, "smallest": 72, "waiting": 80,
    "busy": 128, "hired": 136, "numbers": 144, "refused": 152,
    "sleepers": 192,
    "claim": 256, "generation": 260}
"""Places in a team, in a line of the cache each: what is only read during a launch, what helpers write, what only launches write, how many
threads sleep, and what is left of the first range; that of the others follows, each in a line of its own."""

_FUTEX, _PRCTL = 202, 157
_WAIT, _WAKE = 128 | 9, 128 | 10        # private futexes, with a mask of whom to wake
_SET_NAME = 15
_SET_MASK = 2
_DETACHED = 1


def _fields(*names: str) -> str:
    return "\n".join(f"  %{name} = getelementptr i8, ptr %team, i64 {_FIELDS[name]}" for name in names)


def pool_text() -> str:
    """The module: x86-64, Linux."""
    return f"""
@name = private constant [{len(THREAD_NAME) + 1} x i8] c"{THREAD_NAME}\\00"
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_attr_init(ptr)
declare i32 @pthread_attr_setstacksize(ptr, i64)
declare i32 @pthread_attr_setdetachstate(ptr, i32)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i64 @syscall(i64, ...)
declare void @llvm.x86.sse2.pause()
declare void @llvm.x86.sse.ldmxcsr(ptr)
declare void @llvm.x86.sse.stmxcsr(ptr)
declare i64 @llvm.readcyclecounter()
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
{DECLARATION}

define i64 @{SYMBOL}(ptr %pool, ptr %step.now, ptr %places.now, i64 %tasks.now) {GLUE} {{
entry:
  %team.at = getelementptr i8, ptr %pool, i64 8
  %threads.at = getelementptr i8, ptr %pool, i64 16
  %team = load ptr, ptr %team.at
  %threads = load i64, ptr %threads.at
{_fields(*(name for name in _FIELDS if name not in ("numbers", "refused")))}
  %most = call i64 @llvm.smin.i64(i64 %threads, i64 %tasks.now)
  %wanted = sub i64 %most, 1
  %several = icmp sgt i64 %wanted, 0
  %countable = icmp ult i64 %tasks.now, {1 << 32}
  %split = and i1 %several, %countable
  br i1 %split, label %reserve, label %alone
reserve:
  %reserved = cmpxchg ptr %busy, i32 0, i32 1 acquire monotonic
  %free = extractvalue {{ i32, i1 }} %reserved, 1
  br i1 %free, label %staff, label %alone
staff:
  %there = load i64, ptr %hired
  %enough = icmp sge i64 %there, %wanted
  br i1 %enough, label %publish, label %more
more:
  %grown = call i64 @hire(ptr %team, i64 %wanted)
  %somebody = icmp sgt i64 %grown, 0
  br i1 %somebody, label %publish, label %nobody
nobody:
  store atomic i32 0, ptr %busy release, align 4
  br label %alone
alone:
  %single = call i64 %step.now(ptr %places.now, i64 0, i64 %tasks.now)
  ret i64 %single
publish:
  %present = phi i64 [ %there, %staff ], [ %grown, %more ]
  %helpers.now = call i64 @llvm.smin.i64(i64 %present, i64 %wanted)
  %workers = add i64 %helpers.now, 1
  %ranges.now = call i64 @llvm.smin.i64(i64 %workers, i64 {MOST_RANGES})
  store atomic ptr %step.now, ptr %step monotonic, align 8
  store atomic ptr %places.now, ptr %places monotonic, align 8
  store atomic i64 %tasks.now, ptr %tasks monotonic, align 8
  store atomic i64 %helpers.now, ptr %helpers monotonic, align 8
  store atomic i64 %ranges.now, ptr %ranges monotonic, align 8
  call void @llvm.x86.sse.stmxcsr(ptr %control)
  store atomic i64 0, ptr %finished monotonic, align 8
  store atomic i64 -1, ptr %smallest monotonic, align 8
  %last = load atomic i64, ptr %claim monotonic, align 8
  %last.number = lshr i64 %last, 32
  %number = add i64 %last.number, 1
  %high = shl i64 %number, 32
  %number.now = lshr i64 %high, 32
  %last.range = sub i64 %ranges.now, 1
  br label %range
range:
  %r = phi i64 [ %last.range, %publish ], [ %r.next, %range.of.helper ]
  %r.low = call i64 @border(i64 %r, i64 %tasks.now, i64 %ranges.now)
  %r.after = add i64 %r, 1
  %r.high = call i64 @border(i64 %r.after, i64 %tasks.now, i64 %ranges.now)
  %r.length = sub i64 %r.high, %r.low
  %word = or i64 %high, %r.length
  %is.first = icmp eq i64 %r, 0
  br i1 %is.first, label %announce, label %range.of.helper
range.of.helper:
  %r.claim = getelementptr [64 x i8], ptr %claim, i64 %r
  store atomic i64 %word, ptr %r.claim release, align 8
  %r.next = sub i64 %r, 1
  br label %range
announce:
  %published = atomicrmw xchg ptr %claim, i64 %word seq_cst
  %asleep = load atomic i32, ptr %sleepers seq_cst, align 4
  %some.asleep = icmp ne i32 %asleep, 0
  br i1 %some.asleep, label %wake, label %work
wake:
  call void @part(ptr %claim, i64 %helpers.now)
  %many = icmp ugt i64 %helpers.now, 31
  %bit = shl i64 1, %helpers.now
  %low.mask = sub i64 %bit, 1
  %mask64 = select i1 %many, i64 4294967295, i64 %low.mask
  %mask = trunc i64 %mask64 to i32
  %woken = call i64 (i64, ...) @syscall(i64 {_FUTEX}, ptr %generation, i32 {_WAKE}, i32 2147483647, ptr null, ptr null, i32 %mask)
  br label %work
work:
  %own = call i64 @work(ptr %team, i64 %number.now, i64 0)
  %others = sub i64 %tasks.now, %own
  %start = call i64 @llvm.readcyclecounter()
  br label %look
look:
  %done = load atomic i64, ptr %finished acquire, align 8
  %all = icmp eq i64 %done, %others
  br i1 %all, label %end, label %patience
patience:
  %clock = call i64 @llvm.readcyclecounter()
  %spun = sub i64 %clock, %start
  %tired = icmp ugt i64 %spun, {SPIN_CYCLES}
  br i1 %tired, label %doze, label %pause
pause:
  call void @llvm.x86.sse2.pause()
  br label %look
doze:
  %told = atomicrmw xchg ptr %waiting, i32 1 seq_cst
  %done.still = load atomic i64, ptr %finished seq_cst, align 8
  %all.now = icmp eq i64 %done.still, %others
  br i1 %all.now, label %end, label %sleep
sleep:
  %done.word = trunc i64 %done.still to i32
  %slept = call i64 (i64, ...) @syscall(i64 {_FUTEX}, ptr %finished, i32 {_WAIT}, i32 %done.word, ptr null, ptr null, i32 -1)
  br label %doze
end:
  store atomic i32 0, ptr %waiting monotonic, align 4
  %first = load atomic i64, ptr %smallest monotonic, align 8
  store atomic i32 0, ptr %busy release, align 4
  %well = icmp eq i64 %first, -1
  %answer = select i1 %well, i64 0, i64 %first
  ret i64 %answer
}}

{part_text(MOST_RANGES - 1)}; Where range %r of %ranges begins.
define internal i64 @border(i64 %r, i64 %tasks, i64 %ranges) alwaysinline nounwind {{
entry:
  %all = mul i64 %r, %tasks
  %border = udiv i64 %all, %ranges
  ret i64 %border
}}

; Does tasks of launch %number while there are any, those of range %first before the others; how many it did.
define internal i64 @work(ptr %team, i64 %number, i64 %first) nounwind {{
entry:
{_fields("claim", "step", "places", "tasks", "ranges", "control", "smallest")}
  br label %begin
begin:
  %done.before = phi i64 [ 0, %entry ], [ %done, %out ]
  %round = phi i64 [ 0, %entry ], [ %round.next, %out ]
  %all.ranges = load atomic i64, ptr %ranges monotonic, align 8
  %more.ranges = icmp ult i64 %round, %all.ranges
  br i1 %more.ranges, label %range, label %end
range:
  %turned = add i64 %first, %round
  %r = urem i64 %turned, %all.ranges
  %r.claim = getelementptr [64 x i8], ptr %claim, i64 %r
  br label %look
look:
  %done = phi i64 [ %done.before, %range ], [ %done.more, %count ]
  %fresh = load atomic i64, ptr %r.claim acquire, align 8
  br label %decide
decide:
  %word = phi i64 [ %fresh, %look ], [ %now, %take ]
  %of = lshr i64 %word, 32
  %left = and i64 %word, 4294967295
  %current = icmp eq i64 %of, %number
  %some = icmp ne i64 %left, 0
  %go = and i1 %current, %some
  br i1 %go, label %take, label %out
take:
  %share = udiv i64 %left, {PIECES}
  %size = call i64 @llvm.umax.i64(i64 %share, i64 1)
  %next = sub i64 %word, %size
  %pair = cmpxchg ptr %r.claim, i64 %word, i64 %next acquire acquire
  %now = extractvalue {{ i64, i1 }} %pair, 0
  %ours = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %ours, label %run, label %decide
run:
  call void @llvm.x86.sse.ldmxcsr(ptr %control)
  %function = load atomic ptr, ptr %step monotonic, align 8
  %arguments = load atomic ptr, ptr %places monotonic, align 8
  %all = load atomic i64, ptr %tasks monotonic, align 8
  %r.after = add i64 %r, 1
  %r.high = call i64 @border(i64 %r.after, i64 %all, i64 %all.ranges)
  %low = sub i64 %r.high, %left
  %high = add i64 %low, %size
  %result = call i64 %function(ptr %arguments, i64 %low, i64 %high)
  %bad = icmp ne i64 %result, 0
  br i1 %bad, label %note, label %count
note:
  %noted = atomicrmw umin ptr %smallest, i64 %result monotonic
  br label %count
count:
  %done.more = add i64 %done, %size
  br label %look
out:
  %round.next = add i64 %round, 1
  br label %begin
end:
  ret i64 %done.before
}}

; A thread of the team: helps with every launch that wants this many. The word of the first range is written last: whoever sees a launch
; there sees it in the word of its own range.
define internal ptr @help(ptr %team) nounwind {{
entry:
{_fields("claim", "generation", "helpers", "finished", "waiting", "numbers", "sleepers")}
  %named = call i64 (i64, ...) @syscall(i64 {_PRCTL}, i64 {_SET_NAME}, ptr @name)
  %number = atomicrmw add ptr %numbers, i64 1 monotonic
  %bit.number = and i64 %number, 31
  %bit = shl i64 1, %bit.number
  %mask = trunc i64 %bit to i32
  %number.after = add i64 %number, 1
  %first = urem i64 %number.after, {MOST_RANGES}
  %own.claim = getelementptr [64 x i8], ptr %claim, i64 %first
{places_text()}  %alone.there = icmp ult i64 %number, {MOST_RANGES - 1}
  br label %begin
begin:
  %last = phi i64 [ 0, %entry ], [ %launch.number, %work ], [ %launch.number, %report ], [ %launch.number, %tell ]
  %since = call i64 @llvm.readcyclecounter()
  br label %launch
launch:
  %started = phi i64 [ %since, %begin ], [ %started, %spin ], [ %started, %woken ]
  %known = phi i64 [ %last, %begin ], [ %launch.number, %spin ], [ %launch.number, %woken ]
  %word = load atomic i64, ptr %own.claim acquire, align 8
  %launch.number = lshr i64 %word, 32
  %fresh = icmp ne i64 %launch.number, %known
  %wanted = load atomic i64, ptr %helpers monotonic, align 8
  %meant = icmp ult i64 %number, %wanted
  %go = and i1 %fresh, %meant
  br i1 %go, label %work, label %spin
work:
  %done = call i64 @work(ptr %team, i64 %launch.number, i64 %first)
  %any = icmp ne i64 %done, 0
  br i1 %any, label %report, label %begin
report:
  %before = atomicrmw add ptr %finished, i64 %done seq_cst
  %waiter = load atomic i32, ptr %waiting seq_cst, align 4
  %waited = icmp ne i32 %waiter, 0
  br i1 %waited, label %tell, label %begin
tell:
  %told = call i64 (i64, ...) @syscall(i64 {_FUTEX}, ptr %finished, i32 {_WAKE}, i32 1, ptr null, ptr null, i32 -1)
  br label %begin
spin:
  call void @llvm.x86.sse2.pause()
  %word.now = load atomic i64, ptr %own.claim monotonic, align 8
  %number.now = lshr i64 %word.now, 32
  %another = icmp ne i64 %number.now, %launch.number
  br i1 %another, label %launch, label %patience
patience:
  %clock = call i64 @llvm.readcyclecounter()
  %spun = sub i64 %clock, %started
  %tired = icmp ugt i64 %spun, {SPIN_CYCLES}
  br i1 %tired, label %lie.down, label %spin
lie.down:
  %counted = atomicrmw add ptr %sleepers, i32 1 seq_cst
  %seen = load atomic i32, ptr %generation acquire, align 4
  %word.still = load atomic i64, ptr %own.claim acquire, align 8
  %number.still = lshr i64 %word.still, 32
  %missed = icmp ne i64 %number.still, %launch.number
  br i1 %missed, label %woken, label %where
where:
  br i1 %alone.there, label %tell.where, label %sleep
tell.where:
{note_text()}  br label %sleep
sleep:
  %slept = call i64 (i64, ...) @syscall(i64 {_FUTEX}, ptr %generation, i32 {_WAIT}, i32 %seen, ptr null, ptr null, i32 %mask)
  %seen.now = load atomic i32, ptr %generation monotonic, align 4
  %same = icmp eq i32 %seen.now, %seen
  br i1 %same, label %sleep, label %woken
woken:
  %uncounted = atomicrmw sub ptr %sleepers, i32 1 seq_cst
  br label %launch
}}

; Start threads until there are %wanted, or the system has none left; how many there are. Only within a launch.
define internal i64 @hire(ptr %team, i64 %wanted) {GLUE} {{
entry:
{_fields("hired", "refused")}
  %thread = alloca i64
  %attributes = alloca [64 x i8], align 16
  %all.signals = alloca [128 x i8], align 16
  %old.signals = alloca [128 x i8], align 16
  %there = load i64, ptr %hired
  %no = load i64, ptr %refused
  %given.up = icmp ne i64 %no, 0
  br i1 %given.up, label %unchanged, label %prepare
unchanged:
  ret i64 %there
prepare:
  call void @llvm.memset.p0.i64(ptr %all.signals, i8 -1, i64 128, i1 false)
  %blocked = call i32 @pthread_sigmask(i32 {_SET_MASK}, ptr %all.signals, ptr %old.signals)
  %made = call i32 @pthread_attr_init(ptr %attributes)
  %sized = call i32 @pthread_attr_setstacksize(ptr %attributes, i64 {POOL_STACK_BYTES})
  %detached = call i32 @pthread_attr_setdetachstate(ptr %attributes, i32 {_DETACHED})
  br label %start
start:
  %count = phi i64 [ %there, %prepare ], [ %more, %started ]
  %error = call i32 @pthread_create(ptr %thread, ptr %attributes, ptr @help, ptr %team)
  %failed = icmp ne i32 %error, 0
  br i1 %failed, label %refuse, label %started
started:
  %more = add i64 %count, 1
  %again = icmp slt i64 %more, %wanted
  br i1 %again, label %start, label %finish
refuse:
  store i64 1, ptr %refused
  br label %finish
finish:
  %total = phi i64 [ %more, %started ], [ %count, %refuse ]
  store i64 %total, ptr %hired
  %unblocked = call i32 @pthread_sigmask(i32 {_SET_MASK}, ptr %old.signals, ptr null)
  ret i64 %total
}}
"""


def compile_pool(text: str) -> CompiledObject:
    """The pool's object code; its entry is `adjit_launch`."""
    return CompiledObject(emit_object(text, TARGETS["sse2"], verify=True), SYMBOL)
