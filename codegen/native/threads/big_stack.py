"""Calls of programs that need more stack than the thread has left: on a thread of their own, which has that much.

    i64 @adjit_call(ptr %run, i64 %need, ptr %params, ptr %results, ptr %arena, ptr %pool, ptr %clock)

gives what `adjit_run` does for the other arguments; or `NO_STACK`, with nothing done, where the system gives no such thread. Those of
Python's `threading` have as little as their users say, those of other libraries what these chose, and any may be deep in recursion. Who
has enough, which is nearly everybody, makes the call itself: where its stack begins and ends, which takes the system long to say, is kept
for each thread. A thread on a stack that is not its own, as coroutines in C are, has nothing left.
"""

from __future__ import annotations

from adjit.codegen.llvm.builder import Builder, Value
from adjit.codegen.llvm.link import CompiledObject
from adjit.codegen.llvm.object_code import emit_object
from adjit.codegen.llvm.target import TARGETS
from adjit.codegen.native.program_code import NO_STACK

SYMBOL = "adjit_call"

STACK_MARGIN_BYTES = 1 << 20
"""What a thread of their own has besides what they need: its part of the memory that libraries keep for each thread lies there, too."""

_PAGE_BITS, _COUNT_BITS = 12, 29        # 2 TB, which unlimited ones are cut to
_SET_MASK = 2

DECLARATIONS = """
@stack.key = internal global i64 0
declare i64 @pthread_self()
declare i32 @pthread_getattr_np(i64, ptr)
declare i32 @pthread_attr_init(ptr)
declare i32 @pthread_attr_getstack(ptr, ptr, ptr)
declare i32 @pthread_attr_setstacksize(ptr, i64)
declare i32 @pthread_attr_destroy(ptr)
declare i32 @pthread_key_create(ptr, ptr)
declare i32 @pthread_key_delete(i32)
declare ptr @pthread_getspecific(i32)
declare i32 @pthread_setspecific(i32, ptr)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
"""

_ARGUMENTS = ("run", "params", "results", "arena", "pool", "clock")


def big_stack_text() -> str:
    """The module of nothing else."""
    text = Builder(DECLARATIONS)
    write_big_stack_call(text, linkage="")
    return str(text)


def compile_big_stack(text: str) -> CompiledObject:
    """Its object code, for x86-64."""
    return CompiledObject(emit_object(text, TARGETS["sse2"], verify=True, promote=True), SYMBOL)


def write_big_stack_call(text: Builder, linkage: str = "internal") -> None:
    """`adjit_call`, and what it is made of."""
    _write_key(text)
    _write_stack(text)
    _write_run(text)
    _write_run_on_big_stack(text)
    pointers = [("ptr", f"%{name}") for name in _ARGUMENTS]
    with text.function(SYMBOL, pointers[0], "i64 %need", *pointers[1:], result="i64", linkage=linkage):
        with text.if_(text.compare("ne", "%need", 0)), text.if_(lacks_stack(text, "%need")):
            text.ret("i64", text.call("i64", "@run_elsewhere", ("i64", "%need"), *pointers))
        text.ret("i64", text.call("i64", "%run", *pointers[1:]))


def _write_key(text: Builder) -> None:
    """Under which threads keep their stack: 1 + the number that the system has for it; 0 where it has none."""
    with text.function("stack_key", result="i64"):
        known = text.let("load atomic i64, ptr @stack.key acquire, align 8")
        with text.if_(text.compare("ne", known, 0)):
            text.ret("i64", known)
        made = text.variable(0, "i32")
        with text.if_(text.compare("ne", text.call("i32", "@pthread_key_create", ("ptr", made.address), ("ptr", "null")), 0, "i32")):
            text.ret("i64", 0)
        key = text.add(text.let(f"zext i32 {made.value} to i64"), 1)
        pair = text.let(f"cmpxchg ptr @stack.key, i64 0, i64 {key} acq_rel acquire")
        with text.if_(text.let(f"extractvalue {{ i64, i1 }} {pair}, 1")):
            text.ret("i64", key)
        text.call("i32", "@pthread_key_delete", ("i32", made.value))      # another thread was first
        text.ret("i64", text.let(f"extractvalue {{ i64, i1 }} {pair}, 0"))


def _write_stack(text: Builder) -> None:
    """The stack of this thread in one word, its first page and the number of its pages; and whether there is so much left of it."""
    with text.function("find_stack", result="i64"):
        attributes, low, size = _attributes(text), text.variable(0), text.variable(0)
        with text.if_(text.compare("ne", text.call("i32", "@pthread_getattr_np", ("i64", text.call("i64", "@pthread_self")),
                                                    ("ptr", attributes)), 0, "i32")):
            text.ret("i64", 0)
        text.call("i32", "@pthread_attr_getstack", ("ptr", attributes), ("ptr", low.address), ("ptr", size.address))
        text.call("i32", "@pthread_attr_destroy", ("ptr", attributes))
        first = _pages(text, low.value)
        pages = text.sub(_pages(text, text.add(low.value, size.value)), first)
        count = text.call("i64", "@llvm.umin.i64", ("i64", pages), ("i64", (1 << _COUNT_BITS) - 1))
        text.ret("i64", text.let(f"or i64 {_shifted(text, first, _COUNT_BITS)}, {count}"))
    with text.function("stack", result="i64"):
        key = text.call("i64", "@stack_key")
        number = text.let(f"trunc i64 {text.add(key, -1)} to i32")
        with text.if_(text.compare("ne", key, 0)):
            known = text.let(f"ptrtoint ptr {text.call('ptr', '@pthread_getspecific', ('i32', number))} to i64")
            with text.if_(text.compare("ne", known, 0)):
                text.ret("i64", known)
        found = text.call("i64", "@find_stack")
        with text.if_(text.compare("ne", key, 0)):
            text.call("i32", "@pthread_setspecific", ("i32", number), ("ptr", text.let(f"inttoptr i64 {found} to ptr")))
        text.ret("i64", found)
    with text.function("has_stack", "i64 %need", result="i1"):
        word = text.call("i64", "@stack")
        begin = _shifted(text, text.lshr(word, _COUNT_BITS), _PAGE_BITS)
        whole = _shifted(text, text.let(f"and i64 {word}, {(1 << _COUNT_BITS) - 1}"), _PAGE_BITS)
        here = text.let(f"ptrtoint ptr {text.call('ptr', '@llvm.frameaddress.p0', ('i32', 0))} to i64")
        left = text.sub(here, begin)
        enough, within = text.compare("uge", left, "%need"), text.compare("ule", left, whole)
        text.ret("i1", text.both(enough, within))


def _write_run(text: Builder) -> None:
    """What the other thread does: the call, and it leaves the status where the address of the program was."""
    with text.function("run_here", "ptr %call", result="ptr"):
        run, *arguments = (text.load("ptr", "%call", 8 * index) for index in range(len(_ARGUMENTS)))
        text.store("i64", text.call("i64", run, *(("ptr", argument) for argument in arguments)), "%call")
        text.ret("ptr", "null")


def _write_run_on_big_stack(text: Builder) -> None:
    """All signals are blocked in the thread: handlers of others need not be ready for it."""
    with text.function("run_elsewhere", "i64 %need", *(("ptr", f"%{name}") for name in _ARGUMENTS), result="i64"):
        call, attributes, thread = text.alloca("ptr", len(_ARGUMENTS)), _attributes(text), text.variable(0)
        every, before = (text.alloca("i8", 128, 16) for _ in range(2))
        for index, name in enumerate(_ARGUMENTS):
            text.store("ptr", f"%{name}", call, 8 * index)
        text.call("i32", "@pthread_attr_init", ("ptr", attributes))
        size = _shifted(text, _pages(text, text.add("%need", STACK_MARGIN_BYTES)), _PAGE_BITS)
        text.call("i32", "@pthread_attr_setstacksize", ("ptr", attributes), ("i64", size))
        text.call("void", "@llvm.memset.p0.i64", ("ptr", every), ("i8", -1), ("i64", 128), ("i1", "false"))
        text.call("i32", "@pthread_sigmask", ("i32", _SET_MASK), ("ptr", every), ("ptr", before))
        error = text.call("i32", "@pthread_create", ("ptr", thread.address), ("ptr", attributes), ("ptr", "@run_here"), ("ptr", call))
        text.call("i32", "@pthread_sigmask", ("i32", _SET_MASK), ("ptr", before), ("ptr", "null"))
        text.call("i32", "@pthread_attr_destroy", ("ptr", attributes))
        with text.if_(text.compare("ne", error, 0, "i32")):
            text.ret("i64", NO_STACK)
        text.call("i32", "@pthread_join", ("i64", thread.value), ("ptr", "null"))
        text.ret("i64", text.load("i64", call))


def lacks_stack(text: Builder, need: Value) -> str:
    """True if the thread has not so many bytes left."""
    return text.not_(text.call("i1", "@has_stack", ("i64", need)))


def _attributes(text: Builder) -> str:
    return text.alloca("i8", 64, 16)


def _pages(text: Builder, size: Value) -> str:
    """The number of whole pages."""
    return text.lshr(text.add(size, (1 << _PAGE_BITS) - 1), _PAGE_BITS)


def _shifted(text: Builder, value: Value, bits: int) -> str:
    return text.shl(value, bits)
