"""The native entry: machine code that Python calls in place of a compiled function, from the check of the arguments to the tree of results.

    object = compile_entry(entry_text(field))   # `field`: where in callable objects the address of the FUNCTION record is, then that of
                                                # what they are bound to

It goes through the programs of the function (`records.py`), the one used last first. Where the arguments are what a program was
compiled for, it runs that; whatever else they are, it calls the function's slow path in Python with the same arguments, and has changed
nothing by then. No program has code of its own here: what differs between them is in the records.
"""

from __future__ import annotations

from adjit.codegen.link import CompiledObject
from adjit.codegen.native import own_stack
from adjit.codegen.native.entry import arguments as entry_arguments
from adjit.codegen.native.entry import blocks as entry_blocks
from adjit.codegen.native.entry import object_layout as layout
from adjit.codegen.native.entry import results as entry_results
from adjit.codegen.native.entry import tensors as entry_tensors
from adjit.codegen.native.entry.records import FUNCTION, PROGRAM
from adjit.codegen.native.routine_text import RoutineText
from adjit.codegen.object_code import emit_object
from adjit.codegen.target import TARGETS

SYMBOL = "adjit_entry"

_NEXT, _SLOW = ("inttoptr (i64 1 to ptr)", "inttoptr (i64 2 to ptr)")       # not this program; not any
LITTLE = 1 << 14
"""Bytes of lists that any thread has room for."""

_OFFSET_BIT = 63    # of the number of arguments of a vectorcall

DECLARATIONS = """
@_Py_TrueStruct = external global i8
declare ptr @PyObject_CallNoArgs(ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyObject_CallFunction(ptr, ptr, ...)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
@fail.format = private constant [5 x i8] c"LLLL\\00"
"""


def entry_text(field: int) -> str:
    """The module."""
    text = RoutineText("\n".join([
        DECLARATIONS, *(part.DECLARATIONS for part in (entry_blocks, entry_arguments, entry_tensors, entry_results, own_stack))]))
    entry_blocks.write_blocks(text)
    entry_arguments.write_arguments(text)
    entry_tensors.write_tensors(text)
    entry_results.write_results(text)
    own_stack.write_call(text)
    _write_in_mode(text)
    _write_execute(text)
    _write_attempt(text)
    _write_entry(text, field)
    return str(text)


def compile_entry(text: str) -> CompiledObject:
    """The entry's object code, for x86-64."""
    return CompiledObject(emit_object(text, TARGETS["sse2"], verify=True, promote=True), SYMBOL)


def _write_in_mode(text: RoutineText) -> None:
    """Whether this thread records gradients, or does not, as when the program was traced."""
    with text.routine("i1", "in_mode", "ptr %function", "ptr %program"):
        switched = text.load(text.load("%function", FUNCTION["switched"], "ptr"))
        asked = text.let(f"or i64 {switched}, {text.load('%program', PROGRAM['needs_mode'])}")
        with text.when(text.compare("eq", asked, 0)):
            text.give("i1 true")
        modes, name = text.load("%function", FUNCTION["modes"], "ptr"), text.load("%function", FUNCTION["grad"], "ptr")
        mode = text.call("ptr", "@attribute", f"ptr {modes}", f"ptr {name}")
        text.give(f"i1 {text.same(mode, text.load('%program', PROGRAM['recording'], 'ptr'))}")


def _write_execute(text: RoutineText) -> None:
    """Run a program, whose arguments are all in order; `_SLOW` where there is no memory, with nothing changed."""
    lists = ("ptr %params", "ptr %given", "ptr %leaves", "ptr %objects", "ptr %places", "ptr %scalars")
    with text.routine("ptr", "execute", "ptr %function", "ptr %program", *lists):
        count, results = text.load("%program", PROGRAM["result_count"]), text.load("%program", PROGRAM["results"], "ptr")
        made = text.call("i1", "@make", "ptr %function", f"ptr {results}", f"i64 {count}", "ptr %objects", "ptr %places", "ptr %scalars")
        with text.when(text.let(f"xor i1 {made}, true")):
            text.call("void", "@PyErr_Clear")
            text.give(f"ptr {_SLOW}")
        arena, arena_bytes = text.variable("null", "ptr"), text.load("%program", PROGRAM["arena_bytes"])
        with text.when(text.compare("ne", arena_bytes, 0)):
            arena.set(text.call("ptr", "@take", f"i64 {arena_bytes}"))
            with text.when(text.same(arena.now, "null")):
                text.call("void", "@drop", "ptr %objects", f"i64 {count}")
                text.give(f"ptr {_SLOW}")
        _count_call(text)
        status = _run(text, arena.now)
        with text.when(text.compare("ne", status, 0)):
            fail = text.load("%program", PROGRAM["fail"], "ptr")
            failed = text.let(f"call ptr (ptr, ptr, ...) @PyObject_CallFunction(ptr {fail}, ptr @fail.format, i64 {status}, ptr %params, "
                              f"ptr %places, ptr {arena.now})")
            _give_arena(text, arena.now)
            text.call("void", "@drop", "ptr %objects", f"i64 {count}")
            text.give(f"ptr {failed}")
        _give_arena(text, arena.now)
        whole = text.call("i1", "@hand_out", "ptr %function", f"ptr {results}", f"i64 {count}", "ptr %objects", "ptr %places", "ptr %given")
        tree = text.variable("null", "ptr")
        finish = text.load("%program", PROGRAM["finish"], "ptr")
        with text.when(text.let(f"and i1 {whole}, {text.same(finish, 'null')}")):
            node = text.load("%program", PROGRAM["tree"], "ptr")
            tree.set(text.call("ptr", "@build", f"ptr {node}", "ptr %objects", f"i64 {count}"))
        with text.when(text.let(f"and i1 {whole}, {text.differ(finish, 'null')}")):
            tree.set(text.call("ptr", "@finish_in_python", "ptr %program", "ptr %given", "ptr %leaves", "ptr %objects"))
        text.call("void", "@drop", "ptr %objects", f"i64 {count}")
        text.give(f"ptr {tree.now}")


def _count_call(text: RoutineText) -> None:
    text.increase("%program", PROGRAM["calls"])
    text.increase("%function", FUNCTION["hits"])
    with text.when(text.differ(text.load("%function", FUNCTION["last"], "ptr"), "%program")):
        text.increase("%function", FUNCTION["clock"])
        text.store(f"i64 {text.load('%function', FUNCTION['clock'])}", "%program", PROGRAM["stamp"])
        text.store("ptr %program", "%function", FUNCTION["last"])


def _run(text: RoutineText, arena: str) -> str:
    """What `adjit_run` returns. While others may run Python code, the parameters are kept alive. One that keeps the interpreter's lock is
    known to need little of the stack."""
    run, pool = text.load("%program", PROGRAM["run"], "ptr"), text.load("%program", PROGRAM["pool"], "ptr")
    arguments = ("ptr %params", "ptr %places", f"ptr {arena}", f"ptr {pool}")
    status, release = text.variable(0), text.compare("ne", text.load("%program", PROGRAM["release"]), 0)
    with text.when(_holds_parameters(text)):
        _hold(text, "%given", text.load("%program", PROGRAM["params"]))
    _hold(text, "%leaves", text.load("%program", PROGRAM["leaves"]))
    with text.when(release):
        thread, need = text.call("ptr", "@PyEval_SaveThread"), text.load("%program", PROGRAM["stack"])
        status.set(text.call("i64", f"@{own_stack.SYMBOL}", f"ptr {run}", f"i64 {need}", *arguments, "ptr null"))
        text.call("void", "@PyEval_RestoreThread", f"ptr {thread}")
    with text.when(text.let(f"xor i1 {release}, true")):
        status.set(text.call("i64", run, *arguments))
    return status.now


def _holds_parameters(text: RoutineText) -> str:
    """Whether Python code may run between the check of the arguments and the end."""
    finish = text.differ(text.load("%program", PROGRAM["finish"], "ptr"), "null")
    return text.let(f"or i1 {finish}, {text.compare('ne', text.load('%program', PROGRAM['release']), 0)}")


def _hold(text: RoutineText, objects: str, count: str) -> None:
    with text.times(count) as index:
        found = text.load(text.element(objects, index), kind="ptr")
        with text.when(text.differ(found, "null")):
            text.call("void", "@Py_IncRef", f"ptr {found}")


def _give_arena(text: RoutineText, arena: str) -> None:
    with text.when(text.differ(arena, "null")):
        text.call("void", "@give", f"ptr {arena}")


def _write_attempt(text: RoutineText) -> None:
    """Run a program if the arguments are what it was compiled for and all that it depends on is as it was; `_NEXT` otherwise."""
    with text.routine("ptr", "attempt", "ptr %function", "ptr %program", "ptr %bound", "ptr %args", "i64 %positional", "ptr %names"):
        _check_call(text)
        ask = text.load("%program", PROGRAM["ask"], "ptr")
        with text.when(text.differ(ask, "null")):
            answer = text.call("ptr", "@PyObject_CallNoArgs", f"ptr {ask}")
            with text.when(text.same(answer, "null")):
                text.call("void", "@PyErr_Clear")
                text.give(f"ptr {_NEXT}")
            text.call("void", "@Py_DecRef", f"ptr {answer}")
            with text.when(text.differ(answer, "@_Py_TrueStruct")):
                text.give(f"ptr {_NEXT}")
        params, results = text.load("%program", PROGRAM["params"]), text.load("%program", PROGRAM["result_count"])
        leaf_count = text.load("%program", PROGRAM["leaves"])
        _check_stack(text, params, results, leaf_count)
        places, given = (text.let(f"alloca i64, i64 {params}") for _ in range(2))
        leaves = text.let(f"alloca i64, i64 {leaf_count}")
        with text.times(leaf_count) as index:
            text.store("ptr null", text.element(leaves, index))
        lists = (f"ptr {places}", f"ptr {given}", f"ptr {leaves}")

        def check(condition: str) -> None:
            with text.when(text.let(f"xor i1 {condition}, true")):
                text.give(f"ptr {_NEXT}")

        check(text.call("i1", "@holds", "ptr %program"))
        nodes, keywords = text.load("%program", PROGRAM["arguments"], "ptr"), text.load("%program", PROGRAM["keywords"])
        with text.times(text.add("%positional", keywords)) as index:
            node, argument = (text.load(text.element(base, index), kind="ptr") for base in (nodes, "%args"))
            check(text.call("i1", "@fits", f"ptr {node}", f"ptr {argument}", "ptr %function", *lists))
        captures = text.load("%program", PROGRAM["captures"], "ptr")
        with text.times(text.load("%program", PROGRAM["captures_count"])) as index:
            pair = text.element(captures, text.let(f"shl i64 {index}, 1"))
            node, array = text.load(pair, kind="ptr"), text.load(pair, 8, "ptr")
            check(text.call("i1", "@fits", f"ptr {node}", f"ptr {array}", "ptr %function", *lists))
        with text.when(text.differ(text.load("%program", PROGRAM["finish"], "ptr"), "null")):
            check(text.call("i1", "@surroundings_hold", "ptr %program", "ptr %function", *lists))
        with text.when(text.compare("ne", text.load("%program", PROGRAM["donated_count"]), 0)):
            check(text.call("i1", "@apart", "ptr %program", f"ptr {places}"))
        objects, targets = (text.let(f"alloca i64, i64 {results}") for _ in range(2))
        scalars = text.let(f"alloca i8, i64 {text.let(f'mul i64 {results}, {entry_results.SCALAR_BYTES}')}, align 16")
        done = text.call("ptr", "@execute", "ptr %function", "ptr %program", *lists, f"ptr {objects}", f"ptr {targets}", f"ptr {scalars}")
        with text.when(text.differ(done, _SLOW)):
            with text.when(_holds_parameters(text)):
                text.call("void", "@drop", f"ptr {given}", f"i64 {params}")
            text.call("void", "@drop", f"ptr {leaves}", f"i64 {leaf_count}")
        text.give(f"ptr {done}")


def _check_stack(text: RoutineText, params: str, results: str, leaves: str) -> None:
    """Where the lists of a call are too long for this thread's stack, Python makes them."""
    words = text.add(leaves, text.let(f"shl i64 {params}, 1"))
    need = text.add(text.let(f"shl i64 {words}, 3"), text.let(f"mul i64 {results}, {16 + entry_results.SCALAR_BYTES}"))
    with text.when(text.compare("ugt", need, LITTLE)), text.when(own_stack.lacks_stack(text, text.add(need, LITTLE))):
        text.give(f"ptr {_SLOW}")


def _check_call(text: RoutineText) -> None:
    """The numbers of arguments, the names of keywords, and the mode."""
    keywords = text.load("%program", PROGRAM["keywords"])
    here = text.variable(0)
    with text.when(text.differ("%names", "null")):
        here.set(text.load("%names", layout.SIZE))
    with text.when(text.differ(text.load("%program", PROGRAM["bound"], "ptr"), "%bound")):
        text.give(f"ptr {_NEXT}")
    fewer = text.compare("ne", text.load("%program", PROGRAM["positional"]), "%positional")
    with text.when(text.let(f"or i1 {fewer}, {text.compare('ne', keywords, here.now)}")):
        text.give(f"ptr {_NEXT}")
    names = text.load("%program", PROGRAM["names"], "ptr")
    with text.times(keywords) as index:
        wanted = text.load(text.element(names, index), kind="ptr")
        given = text.load(text.element(text.at("%names", layout.ITEMS), index), kind="ptr")
        with text.when(text.let(f"xor i1 {text.call('i1', '@alike', f'ptr {wanted}', f'ptr {given}')}, true")):
            text.give(f"ptr {_NEXT}")
    with text.when(text.let(f"xor i1 {text.call('i1', '@in_mode', 'ptr %function', 'ptr %program')}, true")):
        text.give(f"ptr {_NEXT}")


def _write_entry(text: RoutineText, field: int) -> None:
    with text.routine("ptr", SYMBOL, "ptr %self", "ptr %args", "i64 %flagged", "ptr %names", linkage=""):
        positional = text.let(f"and i64 %flagged, {(1 << _OFFSET_BIT) - 1}")
        function, bound = text.load("%self", field, "ptr"), text.load("%self", field + 8, "ptr")
        with text.when(text.compare("eq", text.load(text.load(function, FUNCTION["traces"], "ptr")), 0)):
            index = text.variable(0)
            with text.loop():
                chain = text.load(function, FUNCTION["chain"], "ptr")       # anew each time: guards may run Python code
                number = index.now
                with text.when(text.compare("sge", number, text.load(chain))):
                    text.leave()
                index.count()
                program = text.load(text.element(chain, index.now), kind="ptr")
                owner = text.load(program, PROGRAM["owner"], "ptr")
                text.call("void", "@Py_IncRef", f"ptr {owner}")
                arguments = (f"ptr {function}", f"ptr {program}", f"ptr {bound}", "ptr %args", f"i64 {positional}", "ptr %names")
                done = text.call("ptr", "@attempt", *arguments)
                text.call("void", "@Py_DecRef", f"ptr {owner}")
                with text.when(text.same(done, _NEXT)):
                    text.again()
                with text.when(text.same(done, _SLOW)):
                    text.leave()
                with text.when(text.compare("ne", number, 0)):
                    _move_to_front(text, function, program, number)
                text.give(f"ptr {done}")
        _call_slow(text, function, positional)


def _move_to_front(text: RoutineText, function: str, program: str, index: str) -> None:
    """Have a program tried first the next time, where the list is still the one that it was found in: others may have run meanwhile."""
    chain = text.load(function, FUNCTION["chain"], "ptr")
    with text.when(text.compare("ult", index, text.load(chain))):
        first, place = text.element(chain, 1), text.element(chain, text.add(index, 1))
        with text.when(text.same(text.load(place, kind="ptr"), program)):
            text.store(f"ptr {text.load(first, kind='ptr')}", place)
            text.store(f"ptr {program}", first)


def _call_slow(text: RoutineText, function: str, positional: str) -> None:
    total = text.variable(positional)
    with text.when(text.differ("%names", "null")):
        total.count(text.load("%names", layout.SIZE))
    everything = text.let(f"alloca i64, i64 {text.add(total.now, 1)}")
    text.store("ptr %self", everything)
    with text.times(total.now) as index:
        argument = text.load(text.element("%args", index), kind="ptr")
        text.store(f"ptr {argument}", text.element(everything, text.add(index, 1)))
    slow, count = text.load(function, FUNCTION["slow"], "ptr"), text.add(positional, 1)
    text.give(f"ptr {text.call('ptr', '@PyObject_Vectorcall', f'ptr {slow}', f'ptr {everything}', f'i64 {count}', 'ptr %names')}")
