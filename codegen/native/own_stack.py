"""Calls of programs that need more stack than the thread has left: on a thread of their own, which has that much.

    i64 @adjit_call(ptr %run, i64 %need, ptr %params, ptr %results, ptr %arena, ptr %pool, ptr %clock)

gives what `adjit_run` does for the other arguments; or `NO_STACK`, with nothing done, where the system gives no such thread. Those of
Python's `threading` have as little as their users say, those of other libraries what these chose, and any may be deep in recursion. Who
has enough, which is nearly everybody, makes the call itself: where its stack begins and ends, which takes the system long to say, is kept
for each thread. A thread on a stack that is not its own, as coroutines in C are, has nothing left.
"""

from __future__ import annotations

from adjit.codegen.link import CompiledObject
from adjit.codegen.native.program_code import NO_STACK
from adjit.codegen.native.routine_text import RoutineText, Value
from adjit.codegen.object_code import emit_object
from adjit.codegen.target import TARGETS

SYMBOL = "adjit_call"

MORE_BYTES = 1 << 20
"""What a thread of their own has besides what they need: its part of the memory that libraries keep for each thread lies there, too."""

_PAGE_BITS, _COUNT_BITS = 12, 29        # 2 TB, which unlimited ones are cut to
_SET_MASK = 2

DECLARATIONS = """
@stack.key = internal global i64 0
declare ptr @llvm.frameaddress.p0(i32)
declare i64 @llvm.umin.i64(i64, i64)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
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


def call_text() -> str:
    """The module of nothing else."""
    text = RoutineText(DECLARATIONS)
    write_call(text, linkage="")
    return str(text)


def compile_call(text: str) -> CompiledObject:
    """Its object code, for x86-64."""
    return CompiledObject(emit_object(text, TARGETS["sse2"], verify=True, promote=True), SYMBOL)


def write_call(text: RoutineText, linkage: str = "internal ") -> None:
    """`adjit_call`, and what it is made of."""
    _write_key(text)
    _write_stack(text)
    _write_run(text)
    _write_run_elsewhere(text)
    pointers = [f"ptr %{name}" for name in _ARGUMENTS]
    with text.routine("i64", SYMBOL, pointers[0], "i64 %need", *pointers[1:], linkage=linkage):
        with text.when(text.compare("ne", "%need", 0)), text.when(lacks_stack(text, "%need")):
            text.give(f"i64 {text.call('i64', '@run_elsewhere', 'i64 %need', *pointers)}")
        text.give(f"i64 {text.call('i64', '%run', *pointers[1:])}")


def _write_key(text: RoutineText) -> None:
    """Under which threads keep their stack: 1 + the number that the system has for it; 0 where it has none."""
    with text.routine("i64", "stack_key"):
        known = text.let("load atomic i64, ptr @stack.key acquire, align 8")
        with text.when(text.compare("ne", known, 0)):
            text.give(f"i64 {known}")
        made = text.variable(0, "i32")
        with text.when(text.compare("ne", text.call("i32", "@pthread_key_create", f"ptr {made.place}", "ptr null"), 0, "i32")):
            text.give("i64 0")
        key = text.add(text.let(f"zext i32 {made.now} to i64"), 1)
        pair = text.let(f"cmpxchg ptr @stack.key, i64 0, i64 {key} acq_rel acquire")
        with text.when(text.let(f"extractvalue {{ i64, i1 }} {pair}, 1")):
            text.give(f"i64 {key}")
        text.call("i32", "@pthread_key_delete", f"i32 {made.now}")      # another thread was first
        text.give(f"i64 {text.let(f'extractvalue {{ i64, i1 }} {pair}, 0')}")


def _write_stack(text: RoutineText) -> None:
    """The stack of this thread in one word, its first page and the number of its pages; and whether there is so much left of it."""
    with text.routine("i64", "find_stack"):
        attributes, low, size = _attributes(text), text.variable(0), text.variable(0)
        with text.when(text.compare("ne", text.call("i32", "@pthread_getattr_np", f"i64 {text.call('i64', '@pthread_self')}",
                                                    f"ptr {attributes}"), 0, "i32")):
            text.give("i64 0")
        text.call("i32", "@pthread_attr_getstack", f"ptr {attributes}", f"ptr {low.place}", f"ptr {size.place}")
        text.call("i32", "@pthread_attr_destroy", f"ptr {attributes}")
        first = _pages(text, low.now)
        pages = text.let(f"sub i64 {_pages(text, text.add(low.now, size.now))}, {first}")
        count = text.call("i64", "@llvm.umin.i64", f"i64 {pages}", f"i64 {(1 << _COUNT_BITS) - 1}")
        text.give(f"i64 {text.let(f'or i64 {_shifted(text, first, _COUNT_BITS)}, {count}')}")
    with text.routine("i64", "stack"):
        key = text.call("i64", "@stack_key")
        number = text.let(f"trunc i64 {text.add(key, -1)} to i32")
        with text.when(text.compare("ne", key, 0)):
            known = text.let(f"ptrtoint ptr {text.call('ptr', '@pthread_getspecific', f'i32 {number}')} to i64")
            with text.when(text.compare("ne", known, 0)):
                text.give(f"i64 {known}")
        found = text.call("i64", "@find_stack")
        with text.when(text.compare("ne", key, 0)):
            text.call("i32", "@pthread_setspecific", f"i32 {number}", f"ptr {text.let(f'inttoptr i64 {found} to ptr')}")
        text.give(f"i64 {found}")
    with text.routine("i1", "has_stack", "i64 %need"):
        word = text.call("i64", "@stack")
        begin = _shifted(text, text.let(f"lshr i64 {word}, {_COUNT_BITS}"), _PAGE_BITS)
        whole = _shifted(text, text.let(f"and i64 {word}, {(1 << _COUNT_BITS) - 1}"), _PAGE_BITS)
        here = text.let(f"ptrtoint ptr {text.call('ptr', '@llvm.frameaddress.p0', 'i32 0')} to i64")
        left = text.let(f"sub i64 {here}, {begin}")
        enough, within = text.compare("uge", left, "%need"), text.compare("ule", left, whole)
        text.give(f"i1 {text.let(f'and i1 {enough}, {within}')}")


def _write_run(text: RoutineText) -> None:
    """What the other thread does: the call, and it leaves the status where the address of the program was."""
    with text.routine("ptr", "run_here", "ptr %call"):
        run, *arguments = (text.load("%call", 8 * place, "ptr") for place in range(len(_ARGUMENTS)))
        text.store(f"i64 {text.call('i64', run, *(f'ptr {argument}' for argument in arguments))}", "%call")
        text.give("ptr null")


def _write_run_elsewhere(text: RoutineText) -> None:
    """All signals are blocked in the thread: handlers of others need not be ready for it."""
    with text.routine("i64", "run_elsewhere", "i64 %need", *(f"ptr %{name}" for name in _ARGUMENTS)):
        call, attributes, thread = text.let(f"alloca [{len(_ARGUMENTS)} x ptr]"), _attributes(text), text.variable(0)
        every, before = (text.let("alloca [128 x i8], align 16") for _ in range(2))
        for place, name in enumerate(_ARGUMENTS):
            text.store(f"ptr %{name}", call, 8 * place)
        text.call("i32", "@pthread_attr_init", f"ptr {attributes}")
        size = _shifted(text, _pages(text, text.add("%need", MORE_BYTES)), _PAGE_BITS)
        text.call("i32", "@pthread_attr_setstacksize", f"ptr {attributes}", f"i64 {size}")
        text.call("void", "@llvm.memset.p0.i64", f"ptr {every}", "i8 -1", "i64 128", "i1 false")
        text.call("i32", "@pthread_sigmask", f"i32 {_SET_MASK}", f"ptr {every}", f"ptr {before}")
        error = text.call("i32", "@pthread_create", f"ptr {thread.place}", f"ptr {attributes}", "ptr @run_here", f"ptr {call}")
        text.call("i32", "@pthread_sigmask", f"i32 {_SET_MASK}", f"ptr {before}", "ptr null")
        text.call("i32", "@pthread_attr_destroy", f"ptr {attributes}")
        with text.when(text.compare("ne", error, 0, "i32")):
            text.give(f"i64 {NO_STACK}")
        text.call("i32", "@pthread_join", f"i64 {thread.now}", "ptr null")
        text.give(f"i64 {text.load(call)}")


def lacks_stack(text: RoutineText, need: Value) -> str:
    """Whether the thread has not so many bytes left."""
    return text.let(f"xor i1 {text.call('i1', '@has_stack', f'i64 {need}')}, true")


def _attributes(text: RoutineText) -> str:
    return text.let("alloca [64 x i8], align 16")


def _pages(text: RoutineText, size: Value) -> str:
    """The number of whole pages."""
    return text.let(f"lshr i64 {text.add(size, (1 << _PAGE_BITS) - 1)}, {_PAGE_BITS}")


def _shifted(text: RoutineText, value: Value, bits: int) -> str:
    return text.let(f"shl i64 {value}, {bits}")
