"""The fast path: machine code that Python calls in place of a compiled function, from the argument checks to the tree of results.

    object = compile_fastcall(fastcall_text(field))   # `field`: offset of two words in callable objects: the address of the FUNCTION
                                                      # descriptor, and the object that a method is bound to

It goes through the programs of the function (`descriptors.py`), the one used last first. It runs the first program that matches the
arguments. If none matches, it calls the function's slow path in Python with the same arguments; until then nothing is changed. The code is
the same for all programs: their differences are in the descriptors.
"""

from __future__ import annotations

from adjit.codegen.fastcall import arguments as arguments_part
from adjit.codegen.fastcall import block_pool as blocks_part
from adjit.codegen.fastcall import device as device_part
from adjit.codegen.fastcall import object_layout as layout
from adjit.codegen.fastcall import results as results_part
from adjit.codegen.fastcall import tensors as tensors_part
from adjit.codegen.fastcall import ways as ways_part
from adjit.codegen.fastcall.descriptor_layout import FUNCTION, LAUNCH, PROGRAM
from adjit.codegen.llvm.builder import Builder
from adjit.codegen.llvm.link import CompiledObject
from adjit.codegen.llvm.object_code import emit_object
from adjit.codegen.llvm.target import TARGETS
from adjit.codegen.native.program_code import GUARD_MISSED

SYMBOL = "adjit_entry"

_NEXT, _SLOW = ("inttoptr (i64 1 to ptr)", "inttoptr (i64 2 to ptr)")       # try the next program; take the slow path
MAX_STACK_LIST_BYTES = 1 << 12
"""Bytes up to which the lists of a call lie on the stack: some hundred values. Longer ones lie in a block of the pool."""

_OFFSET_BIT = 63    # flag bit in the argument count of a vectorcall

DECLARATIONS = """
@_Py_TrueStruct = external global i8
declare ptr @PyObject_CallNoArgs(ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyObject_CallFunction(ptr, ptr, ...)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
@fail.format = private constant [5 x i8] c"LLLL\\00"
"""


def fastcall_text(field: int) -> str:
    """The text of the module. `field`: offset, in callable objects, of the address of the FUNCTION descriptor."""
    text = Builder("\n".join([
        DECLARATIONS, *(part.DECLARATIONS for part in (blocks_part, arguments_part, tensors_part, device_part, results_part))]))
    blocks_part.write_blocks(text)
    arguments_part.write_arguments(text)
    tensors_part.write_tensors(text)
    device_part.write_device(text)
    results_part.write_results(text)
    ways_part.write_ways(text)
    _write_in_mode(text)
    _write_execute(text)
    _write_run_if_fits(text)
    _write_attempt(text)
    _write_entry(text, field)
    return str(text)


def compile_fastcall(text: str) -> CompiledObject:
    """Object code of the fast path, for x86-64."""
    return CompiledObject(emit_object(text, TARGETS["sse2"], verify=True, promote=True), SYMBOL)


def _write_in_mode(text: Builder) -> None:
    """True if this thread's gradient mode is the one under which the program was traced."""
    with text.function("in_mode", "ptr %function", "ptr %program", result="i1"):
        grad_mode_toggled = text.load("i64", text.load("ptr", "%function", FUNCTION["grad_mode_toggled"]))
        needs_check = text.let(f"or i64 {grad_mode_toggled}, {text.load('i64', '%program', PROGRAM['needs_mode'])}")
        with text.if_(text.compare("eq", needs_check, 0)):
            text.ret("i1", "true")
        modes, name = text.load("ptr", "%function", FUNCTION["modes"]), text.load("ptr", "%function", FUNCTION["grad"])
        mode = text.call("ptr", "@attribute", ("ptr", modes), ("ptr", name))
        text.ret("i1", text.same(mode, text.load("ptr", "%program", PROGRAM["grad_mode"])))


def _write_execute(text: Builder) -> None:
    """Run a program whose arguments are checked. Returns, with nothing changed, `_SLOW` if there is no memory, `_NEXT` if a guard on a
    value misses."""
    lists = (("ptr", "%params"), ("ptr", "%given"), ("ptr", "%leaves"), ("ptr", "%objects"), ("ptr", "%places"), ("ptr", "%scalars"),
             ("i64", "%rows"))
    with text.function("execute", "ptr %function", "ptr %program", *lists, result="ptr"):
        count, results = text.load("i64", "%program", PROGRAM["result_count"]), text.load("ptr", "%program", PROGRAM["results"])
        launch = text.load("ptr", "%program", PROGRAM["launch"])
        on_card = text.differ(launch, "null")
        with text.if_(on_card), text.if_(text.not_(text.call("i1", "@enter_card", ("ptr", text.load("ptr", launch, LAUNCH["card"]))))):
            text.ret("ptr", _SLOW)
        made = text.call("i1", "@make", ("ptr", "%function"), ("ptr", results), ("i64", count), ("i64", "%rows"), ("ptr", "%objects"),
                         ("ptr", "%places"), ("ptr", "%scalars"))
        with text.if_(text.not_(made)):
            text.call("void", "@PyErr_Clear")
            text.ret("ptr", _SLOW)
        arena, arena_bytes = text.variable("null", "ptr"), text.load("i64", "%program", PROGRAM["arena_bytes"])
        with text.if_(text.compare("ne", arena_bytes, 0)):
            arena.set(text.call("ptr", "@take", ("i64", arena_bytes)))
            with text.if_(text.same(arena.value, "null")):
                text.call("void", "@drop", ("ptr", "%objects"), ("i64", count))
                text.ret("ptr", _SLOW)
        status = _run(text, arena.value, on_card)
        with text.if_(text.compare("slt", status, 0)):      # nothing was launched
            text.call("void", "@drop", ("ptr", "%objects"), ("i64", count))
            text.ret("ptr", text.select(text.compare("eq", status, device_part.RETRY), "ptr", _NEXT, "null"))
        with text.if_(text.compare("ne", text.let(f"and i64 {status}, {GUARD_MISSED}"), 0)):
            text.call("void", "@note_miss", ("ptr", "%function"), ("ptr", "%program"), ("i64", status), ("ptr", "%params"),
                      ("ptr", "%places"), ("ptr", arena.value))
            _give_arena(text, arena.value)
            text.call("void", "@drop", ("ptr", "%objects"), ("i64", count))
            text.ret("ptr", _NEXT)
        _count_call(text)
        with text.if_(text.compare("ne", status, 0)):
            fail = text.load("ptr", "%program", PROGRAM["fail"])
            failed = text.call("ptr (ptr, ptr, ...)", "@PyObject_CallFunction", ("ptr", fail), ("ptr", "@fail.format"), ("i64", status),
                               ("ptr", "%params"), ("ptr", "%places"), ("ptr", arena.value))
            _give_arena(text, arena.value)
            text.call("void", "@drop", ("ptr", "%objects"), ("i64", count))
            text.ret("ptr", failed)
        _give_arena(text, arena.value)
        whole = text.call("i1", "@hand_out", ("ptr", "%function"), ("ptr", results), ("i64", count), ("ptr", "%objects"),
                          ("ptr", "%places"), ("ptr", "%given"))
        tree = text.variable("null", "ptr")
        finish = text.load("ptr", "%program", PROGRAM["finish"])
        with text.if_(text.both(whole, text.same(finish, "null"))):
            node = text.load("ptr", "%program", PROGRAM["tree"])
            tree.set(text.call("ptr", "@build", ("ptr", node), ("ptr", "%objects"), ("i64", count)))
        with text.if_(text.both(whole, text.differ(finish, "null"))):
            tree.set(text.call("ptr", "@finish_in_python", ("ptr", "%program"), ("ptr", "%given"), ("ptr", "%leaves"), ("ptr", "%objects")))
        text.call("void", "@drop", ("ptr", "%objects"), ("i64", count))
        text.ret("ptr", tree.value)


def _count_call(text: Builder) -> None:
    text.increase("%program", PROGRAM["calls"])
    text.increase("%function", FUNCTION["hits"])
    with text.if_(text.differ(text.load("ptr", "%function", FUNCTION["last"]), "%program")):
        text.increase("%function", FUNCTION["clock"])
        text.store("i64", text.load("i64", "%function", FUNCTION["clock"]), "%program", PROGRAM["last_use"])
        text.store("ptr", "%program", "%function", FUNCTION["last"])


def _run(text: Builder, arena: str, on_card: str) -> str:
    """Status of `adjit_run`, or of the launch on a card. While others may run Python code, the parameters are kept alive."""
    run, pool = text.load("ptr", "%program", PROGRAM["run"]), text.load("ptr", "%program", PROGRAM["pool"])
    arguments = (("ptr", "%params"), ("ptr", "%places"), ("ptr", arena), ("ptr", pool))
    status, release = text.variable(0), _releases(text, "%rows")
    with text.if_(_holds_parameters(text, "%rows")):
        _hold(text, "%given", text.load("i64", "%program", PROGRAM["params"]))
    _hold(text, "%leaves", text.load("i64", "%program", PROGRAM["leaves"]))
    with text.if_(on_card):
        status.set(text.call("i64", "@launch", ("ptr", "%program"), ("ptr", "%params"), ("ptr", "%places")))
    with text.if_(release):
        thread = text.call("ptr", "@PyEval_SaveThread")
        status.set(text.call("i64", run, *arguments))
        text.call("void", "@PyEval_RestoreThread", ("ptr", thread))
    with text.if_(text.not_(text.either(release, on_card))):
        status.set(text.call("i64", run, *arguments))
    return status.value


def _releases(text: Builder, rows: str) -> str:
    """True if a call of so many rows runs without the GIL: from some number on, if `release` is 1 more than it; 0 is larger than any."""
    return text.compare("uge", rows, text.sub(text.load("i64", "%program", PROGRAM["release"]), 1))


def _holds_parameters(text: Builder, rows: str) -> str:
    """True if Python code may run between the check of the arguments and the end."""
    finish = text.differ(text.load("ptr", "%program", PROGRAM["finish"]), "null")
    other = text.either(finish, text.differ(text.load("ptr", "%program", PROGRAM["launch"]), "null"))
    return text.either(other, _releases(text, rows))


def _hold(text: Builder, objects: str, count: str) -> None:
    with text.for_range(0, count, empty=True) as index:
        found = text.load("ptr", text.at(objects, "i64", index.counter))
        with text.if_(text.differ(found, "null")):
            text.call("void", "@Py_IncRef", ("ptr", found))


def _give_arena(text: Builder, arena: str) -> None:
    with text.if_(text.differ(arena, "null")):
        text.call("void", "@give", ("ptr", arena))


def _write_attempt(text: Builder) -> None:
    """Run a program if the arguments match and its guards hold; return `_NEXT` otherwise."""
    with text.function("attempt", "ptr %function", "ptr %program", "ptr %bound", "ptr %args", "i64 %positional", "ptr %names",
                       result="ptr"):
        _check_call(text)
        guard_fn = text.load("ptr", "%program", PROGRAM["guard_fn"])
        with text.if_(text.differ(guard_fn, "null")):
            answer = text.call("ptr", "@PyObject_CallNoArgs", ("ptr", guard_fn))
            with text.if_(text.same(answer, "null")):
                text.call("void", "@PyErr_Clear")
                text.ret("ptr", _NEXT)
            text.call("void", "@Py_DecRef", ("ptr", answer))
            with text.if_(text.differ(answer, "@_Py_TrueStruct")):
                text.ret("ptr", _NEXT)
        params, leaves, results = _counts(text)
        bytes = text.add(text.mul(text.add(leaves, text.mul(params, 3)), 8), text.mul(results, 16 + results_part.SCALAR_BYTES))
        bytes = text.add(bytes, 8)      # the number of rows
        arguments = (("ptr", "%function"), ("ptr", "%program"), ("ptr", "%args"), ("i64", "%positional"))
        with text.if_(text.compare("ule", bytes, MAX_STACK_LIST_BYTES)):
            text.ret("ptr", text.call("ptr", "@run_if_fits", *arguments, ("ptr", text.let(f"alloca i8, i64 {bytes}, align 16"))))
        block = text.call("ptr", "@take", ("i64", bytes))
        with text.if_(text.same(block, "null")):
            text.ret("ptr", _SLOW)
        done = text.call("ptr", "@run_if_fits", *arguments, ("ptr", block))
        text.call("void", "@give", ("ptr", block))
        text.ret("ptr", done)


def _counts(text: Builder) -> tuple[str, str, str]:
    """The numbers of parameters, leaves and results."""
    params, leaves, results = (text.load("i64", "%program", PROGRAM[field]) for field in ("params", "leaves", "result_count"))
    return params, leaves, results


def _write_run_if_fits(text: Builder) -> None:
    """`attempt` for a call of the right form, whose lists lie in `%memory`, aligned to 16."""
    with text.function("run_if_fits", "ptr %function", "ptr %program", "ptr %args", "i64 %positional", "ptr %memory", result="ptr"):
        params, leaf_count, results = _counts(text)
        scalars = "%memory"
        addresses = text.at(scalars, 1, text.mul(results, results_part.SCALAR_BYTES))
        given = text.at(addresses, "i64", params)
        leaves = text.at(given, "i64", text.shl(params, 1))      # between them, the values of integers
        objects = text.at(leaves, "i64", leaf_count)
        targets = text.at(objects, "i64", results)
        cell, of_rows = text.at(targets, "i64", results), text.load("i64", "%program", PROGRAM["rows"])
        text.store("i64", 0, cell)
        with text.if_(text.compare("ne", of_rows, 0)):
            number = text.sub(of_rows, 1)
            text.store("i64", -1, cell)
            text.store("ptr", cell, text.at(addresses, "i64", number))
            text.store("ptr", "null", text.at(given, "i64", number))
        with text.for_range(0, leaf_count, empty=True) as index:
            text.store("ptr", "null", text.at(leaves, "i64", index.counter))
        lists = (("ptr", addresses), ("ptr", given), ("ptr", leaves))

        def check(condition: str) -> None:
            with text.if_(text.not_(condition)):
                text.ret("ptr", _NEXT)

        check(text.call("i1", "@holds", ("ptr", "%program")))
        nodes, keywords = text.load("ptr", "%program", PROGRAM["arguments"]), text.load("i64", "%program", PROGRAM["keywords"])
        with text.for_range(0, text.add("%positional", keywords), empty=True) as index:
            node, argument = (text.load("ptr", text.at(base, "i64", index.counter)) for base in (nodes, "%args"))
            check(text.call("i1", "@fits", ("ptr", node), ("ptr", argument), ("ptr", "%function"), *lists))
        captures = text.load("ptr", "%program", PROGRAM["captures"])
        with text.for_range(0, text.load("i64", "%program", PROGRAM["captures_count"]), empty=True) as index:
            pair = text.at(captures, "i64", text.shl(index.counter, 1))
            node, array = text.load("ptr", pair), text.load("ptr", pair, 8)
            check(text.call("i1", "@fits", ("ptr", node), ("ptr", array), ("ptr", "%function"), *lists))
        with text.if_(text.differ(text.load("ptr", "%program", PROGRAM["finish"]), "null")):
            check(text.call("i1", "@surroundings_hold", ("ptr", "%program"), ("ptr", "%function"), *lists))
        with text.if_(text.compare("ne", text.load("i64", "%program", PROGRAM["donated_count"]), 0)):
            check(text.call("i1", "@apart", ("ptr", "%program"), ("ptr", addresses), ("i64", text.load("i64", cell))))
        done = text.call("ptr", "@execute", ("ptr", "%function"), ("ptr", "%program"), *lists, ("ptr", objects), ("ptr", targets),
                         ("ptr", scalars), ("i64", text.load("i64", cell)))
        with text.if_(text.differ(done, _SLOW)):
            with text.if_(_holds_parameters(text, text.load("i64", cell))):
                text.call("void", "@drop", ("ptr", given), ("i64", params))
            text.call("void", "@drop", ("ptr", leaves), ("i64", leaf_count))
        text.ret("ptr", done)


def _check_call(text: Builder) -> None:
    """Check the numbers of arguments, the names of keywords, and the gradient mode."""
    keywords = text.load("i64", "%program", PROGRAM["keywords"])
    here = text.variable(0)
    with text.if_(text.differ("%names", "null")):
        here.set(text.load("i64", "%names", layout.SIZE))
    with text.if_(text.differ(text.load("ptr", "%program", PROGRAM["bound"]), "%bound")):
        text.ret("ptr", _NEXT)
    fewer = text.compare("ne", text.load("i64", "%program", PROGRAM["positional"]), "%positional")
    with text.if_(text.either(fewer, text.compare("ne", keywords, here.value))):
        text.ret("ptr", _NEXT)
    names = text.load("ptr", "%program", PROGRAM["names"])
    with text.for_range(0, keywords, empty=True) as index:
        wanted = text.load("ptr", text.at(names, "i64", index.counter))
        given = text.load("ptr", text.at(text.at("%names", 1, layout.ITEMS), "i64", index.counter))
        with text.if_(text.not_(text.call("i1", "@alike", ("ptr", wanted), ("ptr", given)))):
            text.ret("ptr", _NEXT)
    with text.if_(text.not_(text.call("i1", "@in_mode", ("ptr", "%function"), ("ptr", "%program")))):
        text.ret("ptr", _NEXT)


def _write_entry(text: Builder, field: int) -> None:
    with text.function(SYMBOL, "ptr %self", "ptr %args", "i64 %flagged", "ptr %names", result="ptr", linkage=""):
        positional = text.let(f"and i64 %flagged, {(1 << _OFFSET_BIT) - 1}")
        function, bound = text.load("ptr", "%self", field), text.load("ptr", "%self", field + 8)
        with text.if_(text.compare("eq", text.load("i64", text.load("ptr", function, FUNCTION["open_traces"])), 0)):
            for facts in ("facts_count", "held_count"):
                text.store("i64", 0, function, FUNCTION[facts])
            index = text.variable(0)
            with text.loop():
                programs = text.load("ptr", function, FUNCTION["programs"])       # reloaded: guards may run Python code
                number = index.value
                with text.if_(text.compare("sge", number, text.load("i64", programs))):
                    text.break_()
                index.add()
                program = text.load("ptr", text.at(programs, "i64", index.value))
                with text.if_(text.compare("ne", text.load("i64", function, FUNCTION["facts_count"]), 0)), \
                        text.if_(text.call("i1", "@is_excluded", ("ptr", function), ("ptr", program))):
                    text.continue_()
                owner = text.load("ptr", program, PROGRAM["owner"])
                text.call("void", "@Py_IncRef", ("ptr", owner))
                arguments = (("ptr", function), ("ptr", program), ("ptr", bound), ("ptr", "%args"), ("i64", positional), ("ptr", "%names"))
                done = text.call("ptr", "@attempt", *arguments)
                text.call("void", "@Py_DecRef", ("ptr", owner))
                with text.if_(text.same(done, _NEXT)):
                    text.continue_()
                with text.if_(text.same(done, _SLOW)):
                    text.break_()
                with text.if_(text.compare("ne", number, 0)):
                    _move_to_front(text, function, program, number)
                text.ret("ptr", done)
        _call_slow(text, function, positional)


def _move_to_front(text: Builder, function: str, program: str, index: str) -> None:
    """Move a program to the front of the list, if the list is still the one it was found in: other threads may have run meanwhile."""
    programs = text.load("ptr", function, FUNCTION["programs"])
    with text.if_(text.compare("ult", index, text.load("i64", programs))):
        first, slot = text.at(programs, "i64", 1), text.at(programs, "i64", text.add(index, 1))
        with text.if_(text.same(text.load("ptr", slot), program)):
            text.store("ptr", text.load("ptr", first), slot)
            text.store("ptr", program, first)


def _call_slow(text: Builder, function: str, positional: str) -> None:
    total = text.variable(positional)
    with text.if_(text.differ("%names", "null")):
        total.add(text.load("i64", "%names", layout.SIZE))
    everything = text.let(f"alloca i64, i64 {text.add(total.value, 1)}")
    text.store("ptr", "%self", everything)
    with text.for_range(0, total.value, empty=True) as index:
        argument = text.load("ptr", text.at("%args", "i64", index.counter))
        text.store("ptr", argument, text.at(everything, "i64", text.add(index.counter, 1)))
    slow, count = text.load("ptr", function, FUNCTION["fallback"]), text.add(positional, 1)
    text.ret("ptr", text.call("ptr", "@PyObject_Vectorcall", ("ptr", slow), ("ptr", everything), ("i64", count), ("ptr", "%names")))
