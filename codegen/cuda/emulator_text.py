"""LLVM text of the emulated device: fibres, what threads wait for, and the check of each access."""

from __future__ import annotations

from collections.abc import Sequence

from adjit.codegen.cuda.target import MAX_THREADS, WARP
from adjit.codegen.cuda.text import FOUR_FLOATS
from adjit.codegen.llvm.builder import Builder, Value

STACK_BYTES = 1 << 16
MAX_SHARED_BYTES = 227 << 10
"""Bytes of the stack of a thread, and of the shared memory of a block."""

TABLE = "adjit_emulator"
"""Symbol of the addresses of the emulator's functions."""

WORDS = 6
"""Most words that a lane shows the others of its warp at a time: those of both factors of a product of the warp."""

MISSED_BARRIER, MISSED_SHUFFLE, OUTSIDE, UNALIGNED, STUCK = range(1, 6)
ERRORS = {
    MISSED_BARRIER: "a barrier that some threads of the block do not reach",
    MISSED_SHUFFLE: "a shuffle or product that some lanes of the warp do not reach",
    OUTSIDE: "an access outside of the memory of the launch, or a write to memory that is only read",
    UNALIGNED: "an access that is not aligned", STUCK: "threads wait for different things"}

_ROUNDS_WITHOUT_PROGRESS = 4
"""Rounds through all threads without one that gets anywhere, after which threads wait for different things."""

FUNCTIONS = ("thread", "block", "barrier", "shuffle", "access", "tf32", "bf16", "mma_tf32", "mma_bf16", "condition", "shared", "launch")
"""What the table has the addresses of, in order."""

_HEAD = f'''
module asm ".text"
module asm ".p2align 4"
module asm "adjit_emulator_switch:"
module asm "pushq %rbp"
module asm "pushq %rbx"
module asm "pushq %r12"
module asm "pushq %r13"
module asm "pushq %r14"
module asm "pushq %r15"
module asm "movq %rsp, (%rdi)"
module asm "movq (%rsi), %rsp"
module asm "popq %r15"
module asm "popq %r14"
module asm "popq %r13"
module asm "popq %r12"
module asm "popq %rbx"
module asm "popq %rbp"
module asm "ret"
module asm ".p2align 4"
module asm "adjit_emulator_begin:"
module asm "call adjit_emulator_thread"
module asm "ud2"
declare void @adjit_emulator_switch(ptr, ptr)
declare void @adjit_emulator_begin()
@stacks = internal global [{MAX_THREADS} x ptr] zeroinitializer
@alive = internal global [{MAX_THREADS} x i8] zeroinitializer
@home = internal global ptr null
@warp_arrived = internal global [{WARP} x i64] zeroinitializer
@warp_turn = internal global [{WARP} x i64] zeroinitializer
@warp_left = internal global [{WARP} x i64] zeroinitializer
@words = internal global [{2 * MAX_THREADS * WORDS} x i32] zeroinitializer
@entry = internal global ptr null
@arguments = internal global ptr null
@ranges = internal global ptr null
@fault = internal global [3 x i64] zeroinitializer
@shared = internal global [{MAX_SHARED_BYTES} x i8] zeroinitializer, align 64
@{TABLE} = constant [{len(FUNCTIONS)} x ptr] [{", ".join(f"ptr @{name}" for name in FUNCTIONS)}]
'''
"""A switch saves the registers that calls keep, and the stack pointer. The first switch to a thread returns to its beginning."""

_WORDS = ("now", "block_number", "threads", "left", "arrived", "turn", "idle", "status", "range_count", "chance", "seed")
"""64-bit variables: the running thread; its block; threads of a block, those that have not ended, those at a barrier; barriers passed;
switches since something last happened; the error; ranges of memory; a mask of random numbers at which threads change; the random number."""

FAST = "nounwind"
SLOW = "noinline nounwind"


class _Text(Builder):
    """Builder of the emulator's functions, with its variables."""

    def word(self, name: str) -> str:
        return self.load("i64", f"@{name}")

    def put(self, name: str, value: Value) -> None:
        self.store("i64", value, f"@{name}")

    def cell(self, name: str, index: Value, type: str = "i64") -> str:
        return self.at(f"@{name}", type, index)


def emulator_text() -> str:
    """The module of the emulator."""
    text = _Text()
    _registers(text)
    _threads(text)
    _waiting(text)
    _products(text)
    _access(text)
    _launch(text)
    words = "\n".join(f"@{name} = internal global i64 0" for name in _WORDS)
    return f"{_HEAD}{words}\n{text}"


def _registers(text: _Text) -> None:
    for name, word in (("thread", "now"), ("block", "block_number")):
        with text.function(name, result="i32", attributes=FAST):
            text.ret("i32", text.convert("trunc", "i64", text.word(word), "i32"))
    with text.function("condition", ("i64", "%handle"), ("i32", "%value"), attributes=FAST):      # a handle is an address
        text.store("i32", "%value", text.convert("inttoptr", "i64", "%handle", "ptr"))


def _threads(text: _Text) -> None:
    with text.function("leave", attributes=SLOW):       # to where the launch began; the thread does not come back
        text.call("void", "@adjit_emulator_switch", ("ptr", text.cell("stacks", text.word("now"), "ptr")), ("ptr", "@home"))
    with text.function("fail", ("i64", "%why"), ("i64", "%address"), attributes=SLOW):
        text.put("status", "%why")
        for number, value in enumerate((text.word("block_number"), text.word("now"), "%address")):
            text.store("i64", value, text.cell("fault", number))
        text.call("void", "@leave")
    with text.function("next", attributes=SLOW):        # to the next thread that has not ended
        old, count = text.word("now"), text.word("threads")
        waited = text.add(text.word("idle"), 1)
        text.put("idle", waited)
        with text.if_(text.compare("ugt", waited, text.mul(count, _ROUNDS_WITHOUT_PROGRESS))):
            text.call("void", "@fail", ("i64", STUCK), ("i64", 0))
        following = text.variable(old)
        with text.loop():
            up = text.add(following.value, 1)
            following.set(text.select(text.compare("uge", up, count), "i64", 0, up))
            alive = text.load("i8", text.cell("alive", following.value, "i8"))
            with text.if_(text.compare("ne", alive, 0, "i8")):
                text.break_()
        with text.if_(text.compare("ne", following.value, old)):
            text.put("now", following.value)
            text.call("void", "@adjit_emulator_switch", ("ptr", text.cell("stacks", old, "ptr")),
                      ("ptr", text.cell("stacks", following.value, "ptr")))
    with text.function("adjit_emulator_thread", linkage="", attributes=SLOW):
        text.call("void", text.load("ptr", "@entry"), ("ptr", text.load("ptr", "@arguments")))
        text.put("idle", 0)
        own = text.word("now")
        text.store("i8", 0, text.cell("alive", own, "i8"))
        text.increase(text.cell("warp_left", text.lshr(own, 5)), step=-1)
        left = text.sub(text.word("left"), 1)
        text.put("left", left)
        with text.if_(text.compare("eq", left, 0)):
            text.call("void", "@leave")
        with text.if_(text.compare("ne", text.word("arrived"), 0)):
            text.call("void", "@fail", ("i64", MISSED_BARRIER), ("i64", 0))
        text.call("void", "@next")


def _wait_for(text: _Text, place: str, turn: str) -> None:
    """Run other threads until the turn at `place` is over."""
    with text.loop():
        text.call("void", "@next")
        with text.if_(text.compare("ne", text.load("i64", place), turn)):
            text.break_()


def _waiting(text: _Text) -> None:
    with text.function("barrier", attributes=SLOW):
        count, turn = text.word("threads"), text.word("turn")
        with text.if_(text.compare("ne", count, text.word("left"))):
            text.call("void", "@fail", ("i64", MISSED_BARRIER), ("i64", 0))
        text.put("idle", 0)
        arrived = text.add(text.word("arrived"), 1)
        with text.if_(text.compare("eq", arrived, count)):
            text.put("arrived", 0)
            text.put("turn", text.add(turn, 1))
            text.ret()
        text.put("arrived", arrived)
        _wait_for(text, "@turn", turn)
    with text.function("shuffle", ("i32", "%mask"), ("i32", "%word"), ("i32", "%distance"), ("i32", "%clamp"), result="i32",
                       attributes=SLOW):
        mine = _shown(text, ["%word"])
        other = text.let(f"xor i64 {mine}, {text.convert('zext', 'i32', '%distance', 'i64')}")
        text.ret("i32", text.load("i32", _word(text, other, 0)))


def _word(text: _Text, lane: Value, number: int) -> str:
    """The place of a word that a lane shows."""
    return text.at("@words", "i32", (lane, WORDS), number)


def _shown(text: _Text, words: Sequence[Value]) -> str:
    """Show words to the other lanes, and wait until all lanes of the warp have shown theirs; returns this thread's number in `@words`."""
    own = text.word("now")
    warp = text.lshr(own, 5)
    with text.if_(text.compare("ne", text.load("i64", text.cell("warp_left", warp)), WARP)):
        text.call("void", "@fail", ("i64", MISSED_SHUFFLE), ("i64", 0))
    text.put("idle", 0)
    place = text.cell("warp_turn", warp)
    turn = text.load("i64", place)
    mine = text.add(text.shl(text.let(f"and i64 {turn}, 1"), MAX_THREADS.bit_length() - 1), own)     # two turns have words of their own
    for number, word in enumerate(words):
        text.store("i32", word, _word(text, mine, number))
    arrived = text.add(text.load("i64", text.cell("warp_arrived", warp)), 1)
    last = text.compare("eq", arrived, WARP)
    text.store("i64", text.select(last, "i64", 0, arrived), text.cell("warp_arrived", warp))
    with text.if_(last):
        text.store("i64", text.add(turn, 1), place)
    with text.if_(text.not_(last)):
        _wait_for(text, place, turn)
    return mine


def _products(text: _Text) -> None:
    """Numbers in fewer digits, and products of 16 rows by 8 columns of a warp. PTX does not say in which order a card adds their terms, nor
    how it rounds the sums; here each element is a chain of fused multiply-adds in the order of the inner index."""
    with text.function("tf32", ("float", "%x"), result="i32", attributes=FAST):        # ties to the larger number, by size
        bits = text.convert("bitcast", "float", "%x", "i32")
        nearest = text.let(f"and i32 {text.let(f'add i32 {bits}, 4096')}, -8192")
        finite = text.compare("ne", text.let(f"and i32 {bits}, 2139095040"), 2139095040, "i32")
        nan = text.let("fcmp uno float %x, %x")
        text.ret("i32", text.select(nan, "i32", 2147475456, text.select(finite, "i32", nearest, bits)))
    with text.function("bf16", ("float", "%high"), ("float", "%low"), result="<2 x bfloat>", attributes=FAST):
        pair = "poison"
        for lower, operand in enumerate(("%low", "%high")):
            pair = text.let(f"insertelement <2 x i16> {pair}, i16 {_bf16_bits(text, operand)}, i32 {lower}")
        text.ret("<2 x bfloat>", text.convert("bitcast", "<2 x i16>", pair, "<2 x bfloat>"))
    for name in ("tf32", "bf16"):
        parameters = [*((("i32", f"%w{number}")) for number in range(WORDS)), *(("float", f"%c{number}") for number in range(4))]
        with text.function(f"mma_{name}", *parameters, result=FOUR_FLOATS, attributes=SLOW):
            mine = _shown(text, [f"%w{number}" for number in range(WORDS)])
            lane, warp = text.let(f"and i64 {mine}, {WARP - 1}"), text.let(f"and i64 {mine}, {-WARP}")
            rows = text.add(warp, text.let(f"and i64 {lane}, 28"))                          # the lanes of this lane's rows of a factor
            columns = text.add(warp, text.shl(text.let(f"and i64 {lane}, 3"), 3))           # and of its columns
            sums = [f"%c{number}" for number in range(4)]
            for place in range(8):
                half, of = divmod(place, 4)
                left = [text.load("i32", _word(text, text.add(rows, of), 2 * half + down)) for down in range(2)]
                right = [text.load("i32", _word(text, text.add(columns, 4 * across + of), 4 + half)) for across in range(2)]
                numbers = (zip(*(_numbers(text, name, word) for word in words), strict=True) for words in (left, right))
                for x, y in zip(*numbers, strict=True):
                    sums = [text.call("float", "@llvm.fma.f32", ("float", x[number // 2]), ("float", y[number % 2]), ("float", total))
                            for number, total in enumerate(sums)]
            whole = "poison"
            for number, total in enumerate(sums):
                whole = text.let(f"insertvalue {FOUR_FLOATS} {whole}, float {total}, {number}")
            text.ret(FOUR_FLOATS, whole)


def _bf16_bits(text: _Text, x: str) -> str:
    """The bits of the nearest bfloat16; ties to even."""
    bits = text.convert("bitcast", "float", x, "i32")
    odd = text.let(f"and i32 {text.let(f'lshr i32 {bits}, 16')}, 1")
    below = text.let(f"add i32 {bits}, 32767")
    nearest = text.let(f"lshr i32 {text.let(f'add i32 {below}, {odd}')}, 16")
    return text.convert("trunc", "i32", text.select(text.let(f"fcmp uno float {x}, {x}"), "i32", 32767, nearest), "i16")


def _numbers(text: _Text, name: str, word: str) -> list[str]:
    """The numbers of a word of a factor."""
    masks = (-8192,) if name == "tf32" else (0, -65536)
    words = [text.let(f"and i32 {word}, {mask}") if mask else text.let(f"shl i32 {word}, 16") for mask in masks]
    return [text.convert("bitcast", "i32", each, "float") for each in words]


def _access(text: _Text) -> None:
    with text.function("access", ("ptr", "%place"), ("i64", "%size"), ("i64", "%align"), ("i1", "%write"), attributes=SLOW):
        address = text.convert("ptrtoint", "ptr", "%place", "i64")
        with text.if_(text.compare("ne", text.let(f"and i64 {address}, {text.sub('%align', 1)}"), 0)):
            text.call("void", "@fail", ("i64", UNALIGNED), ("i64", address))
        mask = text.word("chance")
        with text.if_(text.compare("ne", mask, 0)):
            seed = text.add(text.mul(text.word("seed"), 6364136223846793005), 1442695040888963407)
            text.put("seed", seed)
            with text.if_(text.compare("eq", text.let(f"and i64 {text.lshr(seed, 40)}, {mask}"), 0)):
                text.put("idle", 0)
                text.call("void", "@next")
        stop, table = text.add(address, "%size"), text.load("ptr", "@ranges")
        with text.for_range(0, text.word("range_count"), empty=True) as loop:
            begin, end, writable = (text.load("i64", text.at(table, "i64", (loop.counter, 3), k)) for k in range(3))
            inside = text.both(text.compare("uge", address, begin), text.compare("ule", stop, end))
            allowed = text.either(text.compare("ne", writable, 0), text.not_("%write"))
            with text.if_(text.both(inside, allowed)):
                text.ret()
        text.call("void", "@fail", ("i64", OUTSIDE), ("i64", address))


def _launch(text: _Text) -> None:
    with text.function("launch", ("ptr", "%code"), ("ptr", "%arguments"), ("i64", "%blocks"), ("i64", "%threads"), ("i64", "%shared"),
                       ("ptr", "%order"), ("ptr", "%memory"), ("ptr", "%ranges"), ("i64", "%range_count"), ("i64", "%chance"),
                       ("i64", "%seed"), ("ptr", "%fault"), result="i64", attributes=SLOW):
        text.store("ptr", "%code", "@entry")
        for name in ("arguments", "ranges"):
            text.store("ptr", f"%{name}", f"@{name}")
        for name in ("threads", "range_count", "chance", "seed"):
            text.put(name, f"%{name}")
        text.put("status", 0)
        with text.for_range(0, "%blocks", empty=True) as block:
            text.put("block_number", text.load("i64", text.at("%order", "i64", block.counter)))
            text.call("void", "@llvm.memset.p0.i64", ("ptr", "@shared"), ("i8", -1), ("i64", "%shared"), ("i1", "false"))
            for name, value in (("left", "%threads"), ("arrived", 0), ("idle", 0), ("now", 0)):
                text.put(name, value)
            with text.for_range(0, WARP) as warp:
                text.store("i64", 0, text.cell("warp_arrived", warp.counter))
                text.store("i64", WARP, text.cell("warp_left", warp.counter))
            with text.for_range(0, "%threads") as thread:
                text.store("i8", 1, text.cell("alive", thread.counter, "i8"))
                start = text.at("%memory", 1, (thread.counter, STACK_BYTES), STACK_BYTES - 72)       # aligned as at a call
                text.store("ptr", "@adjit_emulator_begin", start)
                text.store("ptr", text.at(start, 1, -48), text.cell("stacks", thread.counter, "ptr"))
            text.call("void", "@adjit_emulator_switch", ("ptr", "@home"), ("ptr", "@stacks"))
            with text.if_(text.compare("ne", text.word("status"), 0)):
                text.break_()
        text.call("void", "@llvm.memcpy.p0.p0.i64", ("ptr", "%fault"), ("ptr", "@fault"), ("i64", 24), ("i1", "false"))
        text.ret("i64", text.word("status"))
