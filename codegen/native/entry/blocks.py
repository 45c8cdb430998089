"""The pool of memory that programs compute in and large results lie in: blocks that are given back are used again, not faulted in anew.

    ptr @take(i64 bytes)        a block, aligned to 64, or null
    void @give(ptr block)

A block is of the smallest class that it fits: four to each power of two. It begins with a head of 64
bytes: its class, its size, and the next free one of its class. The interpreter's lock guards the pool, also across a fork. What is kept
is bounded; beyond, blocks of the classes that come round are freed.
"""

from __future__ import annotations

from adjit.codegen.native.routine_text import RoutineText

KEPT_BYTES = 256 << 20
"""Most that is kept for later."""

MAPPED_BYTES = 1 << 18
"""Size from which blocks are the system's own pages, which go back to it when they are freed."""

HUGE_BYTES = 4 << 20
"""Size from which blocks ask for huge pages: products read columns, each row of them on another page, of which the processor knows the
addresses of few."""

HEAD = 64
_READ_WRITE, _PRIVATE_ANONYMOUS, _FAILED = 3, 0x22, "inttoptr (i64 -1 to ptr)"
_HUGE_PAGES = 14
_CLASSES = 256
_CLASS, _BYTES, _NEXT = 0, 8, 16
CAPSULE = "adjit.block"

DECLARATIONS = f"""
@pool.free = internal global [{_CLASSES} x ptr] zeroinitializer
@pool.kept = internal global i64 0
@pool.round = internal global i64 0
@pool.name = private constant [{len(CAPSULE) + 1} x i8] c"{CAPSULE}\\00"
declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
declare ptr @mmap(ptr, i64, i32, i32, i32, i64)
declare i32 @munmap(ptr, i64)
declare i32 @madvise(ptr, i64, i32)
declare i64 @llvm.ctlz.i64(i64, i1)
declare i64 @llvm.umax.i64(i64, i64)
declare ptr @PyCapsule_GetPointer(ptr, ptr)
"""


def write_blocks(text: RoutineText) -> None:
    """`take`, `give`, and `give_back`: the destructor of a capsule that holds a block."""
    _write_system(text)
    _write_take(text)
    _write_trim(text)
    _write_give(text)
    with text.routine("void", "give_back", "ptr %capsule"):
        text.call("void", "@give", f"ptr {text.call('ptr', '@PyCapsule_GetPointer', 'ptr %capsule', 'ptr @pool.name')}")


def _write_system(text: RoutineText) -> None:
    """Memory of the system's for a block of a size, head included; and how it goes back."""
    with text.routine("ptr", "obtain", "i64 %size"):
        whole = text.add("%size", HEAD)
        with text.when(text.compare("ult", "%size", MAPPED_BYTES)):
            text.give(f"ptr {text.call('ptr', '@aligned_alloc', f'i64 {HEAD}', f'i64 {whole}')}")
        pages = text.call("ptr", "@mmap", "ptr null", f"i64 {whole}", f"i32 {_READ_WRITE}", f"i32 {_PRIVATE_ANONYMOUS}", "i32 -1", "i64 0")
        with text.when(text.compare("uge", "%size", HUGE_BYTES)):
            text.call("i32", "@madvise", f"ptr {pages}", f"i64 {whole}", f"i32 {_HUGE_PAGES}")      # a wish: it may fail
        failed = text.same(pages, _FAILED)
        text.give(f"ptr {text.let(f'select i1 {failed}, ptr null, ptr {pages}')}")
    with text.routine("void", "release", "ptr %block"):
        size, memory = text.load("%block", _BYTES - HEAD), text.at("%block", -HEAD)
        with text.when(text.compare("ult", size, MAPPED_BYTES)):
            text.call("void", "@free", f"ptr {memory}")
            text.give()
        text.call("i32", "@munmap", f"ptr {memory}", f"i64 {text.add(size, HEAD)}")


def _write_take(text: RoutineText) -> None:
    with text.routine("ptr", "take", "i64 %bytes"):
        wanted = text.call("i64", "@llvm.umax.i64", "i64 %bytes", "i64 256")
        zeros = text.call("i64", "@llvm.ctlz.i64", f"i64 {text.add(wanted, -1)}", "i1 true")
        exponent = text.let(f"sub i64 61, {zeros}")     # of a quarter of the power of two below
        step = text.let(f"shl i64 1, {exponent}")
        quarters = text.let(f"lshr i64 {text.add(text.add(wanted, step), -1)}, {exponent}")
        size = text.let(f"shl i64 {quarters}, {exponent}")
        number = text.add(text.let(f"shl i64 {exponent}, 2"), text.add(quarters, -5))
        head = text.element("@pool.free", number)
        block = text.load(head, kind="ptr")
        with text.when(text.differ(block, "null")):
            text.store(f"ptr {text.load(block, _NEXT - HEAD, 'ptr')}", head)
            text.increase("@pool.kept", 0, text.let(f"sub i64 0, {size}"))
            text.give(f"ptr {block}")
        with text.when(text.compare("ugt", wanted, 1 << 47)):
            text.give("ptr null")
        memory = text.call("ptr", "@obtain", f"i64 {size}")
        with text.when(text.same(memory, "null")):
            text.give("ptr null")
        text.store(f"i64 {number}", memory, _CLASS)
        text.store(f"i64 {size}", memory, _BYTES)
        text.give(f"ptr {text.at(memory, HEAD)}")


def _write_trim(text: RoutineText) -> None:
    """Free blocks until not more than `%most` bytes are kept."""
    with text.routine("void", "trim", "i64 %most"), text.loop():
        with text.when(text.compare("ule", text.load("@pool.kept"), "%most")):
            text.give()
        number = text.let(f"and i64 {text.load('@pool.round')}, {_CLASSES - 1}")
        head = text.element("@pool.free", number)
        block = text.load(head, kind="ptr")
        with text.when(text.same(block, "null")):
            text.increase("@pool.round", 0)
            text.again()
        text.store(f"ptr {text.load(block, _NEXT - HEAD, 'ptr')}", head)
        size = text.load(block, _BYTES - HEAD)
        text.increase("@pool.kept", 0, text.let(f"sub i64 0, {size}"))
        text.call("void", "@release", f"ptr {block}")


def _write_give(text: RoutineText) -> None:
    with text.routine("void", "give", "ptr %block"):
        size = text.load("%block", _BYTES - HEAD)
        with text.when(text.compare("ugt", size, KEPT_BYTES)):
            text.call("void", "@release", "ptr %block")
            text.give()
        kept = text.add(text.load("@pool.kept"), size)
        with text.when(text.compare("ugt", kept, KEPT_BYTES)):
            text.call("void", "@trim", f"i64 {text.let(f'sub i64 {KEPT_BYTES}, {size}')}")
        head = text.element("@pool.free", text.load("%block", _CLASS - HEAD))
        text.store(f"ptr {text.load(head, kind='ptr')}", "%block", _NEXT - HEAD)
        text.store("ptr %block", head)
        text.increase("@pool.kept", 0, size)
