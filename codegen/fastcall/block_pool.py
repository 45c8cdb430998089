"""Memory pool for arenas and large results: freed blocks are reused, and not faulted in again.

    ptr @take(i64 bytes)        a block, aligned to 64, or null
    void @give(ptr block)

A block has the smallest size class that fits: four classes per power of two. It begins with a header of 64 bytes: its class, its size, and
the next free block of its class. The GIL guards the pool, also across a fork. The retained memory is bounded; above the bound, blocks of
the class in use are freed.
"""

from __future__ import annotations

from adjit.codegen.llvm.builder import Builder

MAX_POOLED_BYTES = 256 << 20
"""Maximum bytes retained for reuse."""

MIN_MAPPED_BYTES = 1 << 18
"""Bytes from which a block is mapped pages, which go back to the system when the block is freed."""

MIN_HUGE_PAGE_BYTES = 4 << 20
"""Bytes from which blocks ask for huge pages: matrix products read columns, with each row on another page, and the processor's TLB holds
the addresses of few pages."""

HEAD = 64
SHIFT = 2048
"""Bytes from the first page of a mapped block to its header: half a page. NumPy's large arrays begin 16 bytes after a page does; a result
that began a little later would have loads of an operand wait for stores to other addresses with the same last twelve bits."""
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
declare ptr @PyCapsule_GetPointer(ptr, ptr)
"""


def write_blocks(text: Builder) -> None:
    """Functions `take`, `give`, and `give_back`, the destructor of a capsule that holds a block."""
    _write_system(text)
    _write_take(text)
    _write_trim(text)
    _write_give(text)
    with text.function("give_back", "ptr %capsule"):
        text.call("void", "@give", ("ptr", text.call("ptr", "@PyCapsule_GetPointer", ("ptr", "%capsule"), ("ptr", "@pool.name"))))


def _write_system(text: Builder) -> None:
    """Functions that get system memory for a block (header included) and give it back."""
    with text.function("obtain", "i64 %size", result="ptr"):
        whole = text.add("%size", HEAD)
        with text.if_(text.compare("ult", "%size", MIN_MAPPED_BYTES)):
            text.ret("ptr", text.call("ptr", "@aligned_alloc", ("i64", HEAD), ("i64", whole)))
        whole = text.add("%size", HEAD + SHIFT)
        pages = text.call("ptr", "@mmap", ("ptr", "null"), ("i64", whole), ("i32", _READ_WRITE), ("i32", _PRIVATE_ANONYMOUS), ("i32", -1),
                          ("i64", 0))
        with text.if_(text.compare("uge", "%size", MIN_HUGE_PAGE_BYTES)):
            text.call("i32", "@madvise", ("ptr", pages), ("i64", whole), ("i32", _HUGE_PAGES))      # advice only: it may fail
        failed = text.same(pages, _FAILED)
        text.ret("ptr", text.select(failed, "ptr", "null", text.at(pages, 1, SHIFT)))
    with text.function("release", "ptr %block"):
        size, memory = text.load("i64", "%block", _BYTES - HEAD), text.at("%block", 1, -HEAD)
        with text.if_(text.compare("ult", size, MIN_MAPPED_BYTES)):
            text.call("void", "@free", ("ptr", memory))
            text.ret()
        text.call("i32", "@munmap", ("ptr", text.at("%block", 1, -HEAD - SHIFT)), ("i64", text.add(size, HEAD + SHIFT)))


def _write_take(text: Builder) -> None:
    with text.function("take", "i64 %bytes", result="ptr"):
        wanted = text.call("i64", "@llvm.umax.i64", ("i64", "%bytes"), ("i64", 256))
        zeros = text.call("i64", "@llvm.ctlz.i64", ("i64", text.add(wanted, -1)), ("i1", "true"))
        exponent = text.sub(61, zeros)     # exponent of a quarter of the power of two below
        step = text.shl(1, exponent)
        quarters = text.lshr(text.add(text.add(wanted, step), -1), exponent)
        size = text.shl(quarters, exponent)
        number = text.add(text.shl(exponent, 2), text.add(quarters, -5))
        head = text.at("@pool.free", "i64", number)
        block = text.load("ptr", head)
        with text.if_(text.differ(block, "null")):
            text.store("ptr", text.load("ptr", block, _NEXT - HEAD), head)
            text.increase("@pool.kept", 0, text.sub(0, size))
            text.ret("ptr", block)
        with text.if_(text.compare("ugt", wanted, 1 << 47)):
            text.ret("ptr", "null")
        memory = text.call("ptr", "@obtain", ("i64", size))
        with text.if_(text.same(memory, "null")):
            text.ret("ptr", "null")
        text.store("i64", number, memory, _CLASS)
        text.store("i64", size, memory, _BYTES)
        text.ret("ptr", text.at(memory, 1, HEAD))


def _write_trim(text: Builder) -> None:
    """Free blocks until at most `%most` bytes are retained."""
    with text.function("trim", "i64 %most"), text.loop():
        with text.if_(text.compare("ule", text.load("i64", "@pool.kept"), "%most")):
            text.ret()
        number = text.let(f"and i64 {text.load('i64', '@pool.round')}, {_CLASSES - 1}")
        head = text.at("@pool.free", "i64", number)
        block = text.load("ptr", head)
        with text.if_(text.same(block, "null")):
            text.increase("@pool.round", 0)
            text.continue_()
        text.store("ptr", text.load("ptr", block, _NEXT - HEAD), head)
        size = text.load("i64", block, _BYTES - HEAD)
        text.increase("@pool.kept", 0, text.sub(0, size))
        text.call("void", "@release", ("ptr", block))


def _write_give(text: Builder) -> None:
    with text.function("give", "ptr %block"):
        size = text.load("i64", "%block", _BYTES - HEAD)
        with text.if_(text.compare("ugt", size, MAX_POOLED_BYTES)):
            text.call("void", "@release", ("ptr", "%block"))
            text.ret()
        kept = text.add(text.load("i64", "@pool.kept"), size)
        with text.if_(text.compare("ugt", kept, MAX_POOLED_BYTES)):
            text.call("void", "@trim", ("i64", text.sub(MAX_POOLED_BYTES, size)))
        head = text.at("@pool.free", "i64", text.load("i64", "%block", _CLASS - HEAD))
        text.store("ptr", text.load("ptr", head), "%block", _NEXT - HEAD)
        text.store("ptr", "%block", head)
        text.increase("@pool.kept", 0, size)
