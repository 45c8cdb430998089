"""Machine code that goes through a table of steps (`codegen/numpy/steps.py`): a function of Python's (`METH_FASTCALL`) on arrays.

Its `self` is a tuple: the function in Python, to which calls with other arrays than those of the table are left, and those in which an
element or an index turns out to need it; and the address of the table. The interpreter is never entered between the first step and the
last, so calls share the working memory of their table. A table of `VIEW` in place of steps makes a view of its operand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from adjit.codegen.fastcall import object_layout as layout
from adjit.codegen.llvm.builder import BYTES, Builder
from adjit.codegen.llvm.link import CompiledObject
from adjit.codegen.llvm.object_code import emit_object
from adjit.codegen.llvm.target import TARGETS
from adjit.codegen.numpy.steps import (
    HEADER_WORDS,
    INPUT_WORDS,
    MAX_ARGUMENTS,
    MAX_ARRAYS,
    MAX_ORDERED,
    MAX_RANK,
    RESULT_WORDS,
    STEP_WORDS,
    VIEW,
    Loop,
)

SYMBOL = "adjit_steps"

OBJECTS = ("function", "table", "ndarray", "float", "new_array", "set_base")
"""What `self` holds; `new_array` and `set_base` are the addresses of NumPy's functions."""

_DECLARATIONS = """
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyLong_AsVoidPtr(ptr)
declare ptr @PyTuple_New(i64)
declare void @PyErr_Clear()
"""

_TOGETHER = 16
"""Elements that a loop computes at a time."""

_LOOP = ("ptr %places", "i64 %count", "ptr %strides", "ptr %data")


def step_routine_text() -> str:
    """The text of the module."""
    text = Builder(_DECLARATIONS)
    _write_loops(text)
    _write_run(text)
    _write_take_operand(text)
    _write_view(text)
    _write_call(text)
    return str(text)


def compile_step_routine(text: str) -> CompiledObject:
    """Object code of the routine, for x86-64."""
    return CompiledObject(emit_object(text, TARGETS["sse2"], verify=True, promote=True), SYMBOL)


def _elementwise(text: Builder, loop: Loop, types: tuple[str, ...], compute: Callable[..., str]) -> None:
    """A loop that stores `compute(shape, elements of the first arrays)` into the last one. Neighbours are computed together: `shape(type)`
    is the type of as many. One element for all of them is repeated."""
    sizes = [BYTES[type] for type in types]
    with text.function(_name(loop), *_LOOP, result="i64"):
        places = [text.load("ptr", "%places", 8 * index) for index in range(len(types))]
        strides = [text.load("i64", "%strides", 8 * index) for index in range(len(types))]
        done = text.variable(0)
        are_together = text.both(text.compare("uge", "%count", _TOGETHER), text.compare("eq", strides[-1], sizes[-1]))
        for stride, size in zip(strides, sizes, strict=True):
            are_together = text.both(are_together, text.either(text.compare("eq", stride, 0), text.compare("eq", stride, size)))
        with text.if_(are_together):
            sources = []
            for place, stride, type, size in zip(places[:-1], strides, types, sizes, strict=False):
                repeated, source = text.alloca(type, _TOGETHER), text.variable(place, "ptr")
                with text.if_(text.compare("eq", stride, 0)):
                    value = text.load(type, place)
                    with text.for_range(0, _TOGETHER) as index:
                        text.store(type, value, text.at(repeated, size, index.counter))
                    source.set(repeated)
                sources.append(source.value)
            whole = text.let(f"and i64 %count, {-_TOGETHER}")
            with text.for_range(0, whole, _TOGETHER) as element:
                values = [text.load(_several(type), text.at(source, 1, text.mul(element.counter, stride)), align=size)
                          for source, stride, type, size in zip(sources, strides, types, sizes, strict=False)]
                target = text.at(places[-1], sizes[-1], element.counter)
                text.store(_several(types[-1]), compute(_several, *values), target, align=sizes[-1])
            done.set(whole)
        with text.for_range(done.value, "%count", empty=True) as element:
            at = [text.at(place, 1, text.mul(element.counter, stride)) for place, stride in zip(places, strides, strict=True)]
            values = [text.load(type, place) for type, place in zip(types[:-1], at, strict=False)]
            text.store(types[-1], compute(str, *values), at[-1])
        text.ret("i64", 0)


def _several(type: str) -> str:
    return f"<{_TOGETHER} x {type}>"


def _name(loop: Loop) -> str:
    return f"loop_{loop.name.lower()}"


def _write_loops(text: Builder) -> None:
    for size in (1, 4, 8):
        type = f"i{8 * size}"
        _elementwise(text, Loop[f"COPY{size}"], (type, type), lambda shape, value: value)
        _elementwise(text, Loop[f"CHOOSE{size}"], ("i8", type, type, type), partial(_chosen, text, type))

    def convert(loop: Loop, code: str, source: str, target: str) -> None:
        _elementwise(text, loop, (source, target), lambda shape, value: text.let(f"{code} {shape(source)} {value} to {shape(target)}"))

    for name, type in (("FLOAT", "float"), ("DOUBLE", "double")):
        convert(Loop[f"BOOL_TO_{name}"], "uitofp", "i8", type)
        convert(Loop[f"INT64_TO_{name}"], "sitofp", "i64", type)
    convert(Loop.BOOL_TO_INT64, "zext", "i8", "i64")
    for type, exponent in (("i32", 0x7F800000), ("i64", 0x7FF << 52)):
        _write_finite(text, type, exponent)
        _write_take(text, type)
    for loop, type in ((Loop.ADD_FLOAT, "float"), (Loop.ADD_DOUBLE, "double")):
        _write_add(text, loop, type)
    for loop, type in ((Loop.ORDER_FLOAT, "float"), (Loop.ORDER_DOUBLE, "double"), (Loop.ORDER_INT64, "i64")):
        _write_order(text, loop, type)
    with text.function(_name(Loop.PROGRAM), *_LOOP, result="i64"):
        program, arena, params = text.load("ptr", "%data"), text.load("ptr", "%data", 8), text.load("i64", "%data", 16)
        results = text.at("%places", "i64", params)
        status = text.call("i64", program, ("ptr", "%places"), ("ptr", results), ("ptr", arena), ("ptr", "null"))
        text.ret("i64", status)


def _chosen(text: Builder, type: str, shape: Callable[[str], str], condition: str, yes: str, no: str) -> str:
    is_true = text.convert("trunc", shape("i8"), condition, shape("i1"))
    return text.let(f"select {shape('i1')} {is_true}, {shape(type)} {yes}, {shape(type)} {no}")


def _write_finite(text: Builder, type: str, exponent: int) -> None:
    """A loop that returns 1 if an element of a whole array is infinite or NaN."""
    size, several = BYTES[type], _several(type)
    all_of = f"<{', '.join([f'{type} {exponent}'] * _TOGETHER)}>"
    with text.function(_name(Loop[f"FINITE{size}"]), *_LOOP, result="i64"):
        place, found, together = text.load("ptr", "%places"), text.variable(0), text.variable("zeroinitializer", several)
        whole = text.let(f"and i64 %count, {-_TOGETHER}")
        with text.for_range(0, whole, _TOGETHER, empty=True) as element:
            bits = text.let(f"and {several} {text.load(several, text.at(place, size, element.counter), align=size)}, {all_of}")
            is_not = text.let(f"icmp eq {several} {bits}, {all_of}")
            is_not = text.convert("zext", _several("i1"), is_not, several)
            together.set(text.let(f"or {several} {together.value}, {is_not}"))
        any_of = text.call(type, f"@llvm.vector.reduce.or.v{_TOGETHER}{type}", (several, together.value))
        found.set(any_of if type == "i64" else text.convert("zext", type, any_of, "i64"))
        with text.for_range(whole, "%count", empty=True) as element:
            bits = text.load(type, text.at(place, size, element.counter))
            is_not = text.compare("eq", text.let(f"and {type} {bits}, {exponent}"), exponent, type)
            found.set(text.let(f"or i64 {found.value}, {text.convert('zext', 'i1', is_not, 'i64')}"))
        text.ret("i64", found.value)


def _write_take(text: Builder, type: str) -> None:
    """A loop that copies slices at indices, one after another; 1 at an index that is out of range."""
    size = BYTES[type]
    with _at_indices(text, Loop[f"TAKE{size}"]) as (at_index, by_number, place):
        value = text.load(type, text.at(at_index, size, place(True)))
        text.store(type, value, text.at(by_number, size, place(False)))


def _write_add(text: Builder, loop: Loop, type: str) -> None:
    """A loop that adds slices to those at indices, one after another; 1 at an index that is out of range."""
    size = BYTES[type]
    with _at_indices(text, loop) as (by_number, at_index, place):
        to = text.at(at_index, size, place(True))
        value = text.load(type, text.at(by_number, size, place(False)))
        text.store(type, text.let(f"fadd {type} {text.load(type, to)}, {value}"), to)


@contextmanager
def _at_indices(text: Builder, loop: Loop) -> Iterator[tuple[str, str, Callable[[bool], str]]]:
    """A loop over slices: the first and the last array, and the number of the element at hand in the one that is read or written at the
    indices, or in the other. Indices count from the end if they are negative, and may be."""
    with text.function(_name(loop), *_LOOP, result="i64"):
        first, indices, last = (text.load("ptr", "%places", 8 * index) for index in range(3))
        length, many, below = (text.load("i64", "%data", 8 * word) for word in range(3))
        with text.for_range(0, "%count", empty=True) as number:
            index = text.load("i64", text.at(indices, 8, number.counter))
            index = text.add(index, text.select(text.compare("slt", index, 0), "i64", below, 0))
            with text.if_(text.compare("uge", index, length)):
                text.ret("i64", 1)
            at_index, by_number = text.mul(index, many), text.mul(number.counter, many)
            with text.for_range(0, many) as element:
                yield first, last, lambda chosen: text.add(at_index if chosen else by_number, element.counter)
        text.ret("i64", 0)


def _write_order(text: Builder, loop: Loop, type: str) -> None:
    """A loop that writes the indices of the first elements of a row in their order: of the largest ones, or of the smallest ones if the
    data say -1. Each new element is moved to its place among those so far, as a word that orders as it does: zeros are one, NaN is the
    largest."""
    size = BYTES[type]
    word = f"i{8 * size}"
    with text.function(_name(loop), *_LOOP, result="i64"):
        source, target = (text.load("ptr", "%places", 8 * index) for index in range(2))
        wanted, mask = text.load("i64", "%data"), text.load(word, "%data", 8)
        words, kept, place = text.alloca(word, MAX_ORDERED), text.variable(0), text.variable(0)
        stride = text.load("i64", "%strides")
        last = text.sub(wanted, 1)
        with text.for_range(0, "%count", empty=True) as element:
            given = text.at(source, 1, text.mul(element.counter, stride))
            new = text.load(word, given)
            if type != "i64":
                number = text.load(type, given)
                sign = text.let(f"ashr {word} {new}, {8 * size - 1}")
                new = text.let(f"xor {word} {new}, {text.let(f'and {word} {sign}, {(1 << 8 * size - 1) - 1}')}")
                new = text.select(text.let(f"fcmp oeq {type} {number}, 0.0"), word, "0", new)
                new = text.select(text.let(f"fcmp uno {type} {number}, {number}"), word, str((1 << 8 * size - 1) - 1), new)
            new = text.let(f"xor {word} {new}, {mask}")
            is_full = text.compare("eq", kept.value, wanted)
            place.set(text.select(is_full, "i64", last, kept.value))
            with text.if_(is_full):
                worst = text.load(word, text.at(words, size, last))
                with text.if_(text.let(f"icmp sle {word} {new}, {worst}")):
                    text.continue_()
            kept.set(text.add(place.value, 1))
            with text.loop():
                with text.if_(text.compare("eq", place.value, 0)):
                    text.break_()
                before = text.sub(place.value, 1)
                other = text.load(word, text.at(words, size, before))
                with text.if_(text.let(f"icmp sge {word} {other}, {new}")):
                    text.break_()
                text.store(word, other, text.at(words, size, place.value))
                text.store("i64", text.load("i64", text.at(target, 8, before)), text.at(target, 8, place.value))
                place.set(before)
            text.store(word, new, text.at(words, size, place.value))
            text.store("i64", element.counter, text.at(target, 8, place.value))
        text.ret("i64", 0)


def _write_run(text: Builder) -> None:
    """Go through all steps; 1 if one of them leaves the call to Python."""
    with text.function("run", "ptr %steps", "i64 %count", "ptr %bases", result="i64"):
        places, strides, counts = text.alloca("ptr", MAX_ARGUMENTS), text.alloca("i64", MAX_ARGUMENTS), text.alloca("i64")
        with text.for_range(0, "%count", empty=True) as number:
            step = text.at("%steps", 8 * STEP_WORDS, number.counter)
            function, data = text.load("i64", step), text.load("ptr", step, 8)
            repeats, count, arguments = (text.load("i64", step, 8 * word) for word in (2, 3, 4))
            text.store("i64", count, counts)
            with text.for_range(0, repeats) as repeat:
                with text.for_range(0, arguments) as index:
                    argument = text.at(step, 1, text.add(text.mul(index.counter, 32), 40))
                    base = text.load("ptr", text.at("%bases", "ptr", text.load("i64", argument)))
                    moved = text.add(text.load("i64", argument, 8), text.mul(repeat.counter, text.load("i64", argument, 16)))
                    text.store("ptr", text.let(f"getelementptr i8, ptr {base}, i64 {moved}"), text.at(places, "ptr", index.counter))
                    text.store("i64", text.load("i64", argument, 24), text.at(strides, "i64", index.counter))
                is_own = text.compare("ult", function, len(Loop))
                with text.if_(text.not_(is_own)):
                    address = text.convert("inttoptr", "i64", function, "ptr")
                    text.call("void", address, ("ptr", places), ("ptr", counts), ("ptr", strides), ("ptr", data))
                with text.if_(is_own):
                    found = "null"
                    for loop in Loop:
                        found = text.select(text.compare("eq", function, int(loop)), "ptr", text.use(f"@{_name(loop)}"), found)
                    status = text.call("i64", found, ("ptr", places), ("i64", count), ("ptr", strides), ("ptr", data))
                    with text.if_(text.compare("ne", status, 0)):
                        text.ret("i64", 1)
        text.ret("i64", 0)


def _write_take_operand(text: Builder) -> None:
    """The address of an operand's elements; null for an operand that the table is not for. A float is written into its place."""
    with text.function("take_operand", "ptr %self", "ptr %record", "ptr %object", result="ptr"):
        kind = text.load("ptr", "%object", layout.TYPE)
        with text.if_(text.compare("ne", text.load("i64", "%record"), 0)):
            with text.if_(text.differ(kind, text.load("ptr", "%self", layout.ITEMS + 8 * OBJECTS.index("float")))):
                text.ret("ptr", "null")
            place, number = text.load("ptr", "%record", 24), text.load("double", "%object", layout.NUMBER)
            text.store("double", number, place)
            text.store("float", text.let(f"fptrunc double {number} to float"), place, 8)
            text.ret("ptr", place)
        with text.if_(text.differ(kind, text.load("ptr", "%self", layout.ITEMS + 8 * OBJECTS.index("ndarray")))):
            text.ret("ptr", "null")
        with text.if_(text.differ(text.load("ptr", "%object", layout.DESCR), text.load("ptr", "%record", 8))):
            text.ret("ptr", "null")
        wanted = text.load("i32", "%record", 24)
        flags = text.let(f"and i32 {text.load('i32', '%object', layout.FLAGS)}, {wanted}")
        with text.if_(text.compare("ne", flags, wanted, "i32")):
            text.ret("ptr", "null")
        rank = text.load("i64", "%record", 16)
        with text.if_(text.compare("ne", text.convert("sext", "i32", text.load("i32", "%object", layout.RANK), "i64"), rank)):
            text.ret("ptr", "null")
        shape = text.load("ptr", "%object", layout.SHAPE)
        with text.for_range(0, rank, empty=True) as axis:
            size = text.load("i64", text.at(shape, "i64", axis.counter))
            known = text.load("i64", text.at("%record", "i64", axis.counter), 32)
            with text.if_(text.compare("ne", size, known)):
                text.ret("ptr", "null")
        text.ret("ptr", text.load("ptr", "%object", layout.DATA))


def _write_view(text: Builder) -> None:
    """A view of an array, whose elements are at `data`; `record` has its dtype and shape, and behind that where it lies. Null, without an
    error, if NumPy makes none."""
    arguments = ("ptr %self", "ptr %record", "ptr %object", "ptr %data", "ptr %new_array", "ptr %ndarray")
    with text.function("view", *arguments, result="ptr"):
        about, strides = text.at("%record", 8, RESULT_WORDS), text.alloca("i64", MAX_RANK)
        given = text.load("ptr", "%object", layout.STRIDES)
        descr, rank, many = text.load("ptr", "%record"), text.load("i64", "%record", 8), text.load("i64", about, 16)
        moved = text.variable(text.load("i64", about, 8), "i64")
        starts, steps = text.at(about, 8, 3), text.at(about, 8, 3 + MAX_RANK)
        with text.for_range(0, many, empty=True) as axis:
            start, stride = (text.load("i64", text.at(array, "i64", axis.counter)) for array in (starts, given))
            moved.set(text.add(moved.value, text.mul(start, stride)))
        with text.for_range(0, rank, empty=True) as axis:
            step = text.at(steps, 16, axis.counter)
            of, moves = text.load("i64", step), text.variable(text.load("i64", step, 8), "i64")
            with text.if_(text.compare("sge", of, 0)):
                moves.set(text.mul(moves.value, text.load("i64", text.at(given, "i64", of))))
            text.store("i64", moves.value, text.at(strides, "i64", axis.counter))
        flags = text.let(f"and i32 {text.load('i32', '%object', layout.FLAGS)}, {text.load('i32', about)}")
        text.call("void", "@Py_IncRef", ("ptr", descr))
        array = text.call("ptr", "%new_array", ("ptr", "%ndarray"), ("ptr", descr), ("i32", text.convert("trunc", "i64", rank, "i32")),
                          ("ptr", text.at("%record", 1, 16)), ("ptr", strides), ("ptr", text.at("%data", 1, moved.value)), ("i32", flags),
                          ("ptr", "null"))
        set_base = text.call("ptr", "@PyLong_AsVoidPtr", ("ptr", text.load("ptr", "%self", layout.ITEMS + 8 * OBJECTS.index("set_base"))))
        with text.if_(text.differ(array, "null")):
            text.call("void", "@Py_IncRef", ("ptr", "%object"))
            failed = text.call("i32", set_base, ("ptr", array), ("ptr", "%object"))     # it takes the reference
            with text.if_(text.compare("eq", failed, 0, "i32")):
                text.ret("ptr", array)
            text.call("void", "@Py_DecRef", ("ptr", array))
        text.call("void", "@PyErr_Clear")
        text.ret("ptr", "null")


def _write_call(text: Builder) -> None:
    with text.function("in_python", "ptr %self", "ptr %arguments", "i64 %given", "ptr %made", "i64 %count", result="ptr"):
        with text.for_range(0, "%count", empty=True) as index:
            text.call("void", "@Py_DecRef", ("ptr", text.load("ptr", text.at("%made", "ptr", index.counter))))
        function = text.load("ptr", "%self", layout.ITEMS + 8 * OBJECTS.index("function"))
        call = (("ptr", function), ("ptr", "%arguments"), ("i64", "%given"), ("ptr", "null"))
        text.ret("ptr", text.call("ptr", "@PyObject_Vectorcall", *call))
    with text.function(SYMBOL, "ptr %self", "ptr %arguments", "i64 %given", result="ptr", linkage=""):
        bases, made = text.alloca("ptr", 2 * MAX_ARRAYS + 1), text.alloca("ptr", MAX_ARRAYS)

        def in_python(count: str | int) -> None:
            text.ret("ptr", text.call("ptr", "@in_python", ("ptr", "%self"), ("ptr", "%arguments"), ("i64", "%given"), ("ptr", made),
                                      ("i64", count)))

        table, ndarray, new_array = (text.load("ptr", "%self", layout.ITEMS + 8 * OBJECTS.index(name))
                                     for name in ("table", "ndarray", "new_array"))
        table, new_array = (text.call("ptr", "@PyLong_AsVoidPtr", ("ptr", number)) for number in (table, new_array))
        inputs, results, steps, is_single = (text.load("i64", table, 8 * word) for word in range(4))
        with text.if_(text.compare("ne", "%given", inputs)):
            in_python(0)
        text.store("ptr", "null", bases)
        records, floats = text.at(table, "i64", HEADER_WORDS), text.at(bases, "ptr", text.add(text.add(inputs, results), 1))
        with text.for_range(0, inputs, empty=True) as index:
            record = text.at(records, 8 * INPUT_WORDS, index.counter)
            operand = text.load("ptr", text.at("%arguments", "ptr", index.counter))
            place = text.call("ptr", "@take_operand", ("ptr", "%self"), ("ptr", record), ("ptr", operand))
            with text.if_(text.same(place, "null")):
                in_python(0)
            text.store("ptr", place, text.at(bases, "ptr", text.add(index.counter, 1)))
            text.store("ptr", text.at(place, 1, 8), text.at(floats, "ptr", index.counter))
        records = text.at(records, 8 * INPUT_WORDS, inputs)
        with text.if_(text.compare("eq", steps, VIEW)):
            view = text.call("ptr", "@view", ("ptr", "%self"), ("ptr", records), ("ptr", text.load("ptr", "%arguments")),
                             ("ptr", text.load("ptr", bases, 8)), ("ptr", new_array), ("ptr", ndarray))
            with text.if_(text.same(view, "null")):
                in_python(0)
            with text.if_(text.compare("ne", is_single, 0)):
                text.ret("ptr", view)
            alone = text.call("ptr", "@PyTuple_New", ("i64", 1))
            with text.if_(text.same(alone, "null")):
                text.call("void", "@Py_DecRef", ("ptr", view))
                text.ret("ptr", "null")
            text.store("ptr", view, alone, layout.ITEMS)
            text.ret("ptr", alone)
        of_results = text.at(bases, "ptr", text.add(inputs, 1))
        with text.for_range(0, results, empty=True) as index:
            record = text.at(records, 8 * RESULT_WORDS, index.counter)
            descr, rank = text.load("ptr", record), text.convert("trunc", "i64", text.load("i64", record, 8), "i32")
            text.call("void", "@Py_IncRef", ("ptr", descr))
            array = text.call("ptr", new_array, ("ptr", ndarray), ("ptr", descr), ("i32", rank), ("ptr", text.at(record, 1, 16)),
                              ("ptr", "null"), ("ptr", "null"), ("i32", 0), ("ptr", "null"))
            with text.if_(text.same(array, "null")):
                with text.for_range(0, index.counter, empty=True) as before:
                    text.call("void", "@Py_DecRef", ("ptr", text.load("ptr", text.at(made, "ptr", before.counter))))
                text.ret("ptr", "null")
            text.store("ptr", array, text.at(made, "ptr", index.counter))
            text.store("ptr", text.load("ptr", array, layout.DATA), text.at(of_results, "ptr", index.counter))
        status = text.call("i64", "@run", ("ptr", text.at(records, 8 * RESULT_WORDS, results)), ("i64", steps), ("ptr", bases))
        with text.if_(text.compare("ne", status, 0)):
            in_python(results)
        with text.if_(text.compare("ne", is_single, 0)):
            text.ret("ptr", text.load("ptr", made))
        tuple = text.call("ptr", "@PyTuple_New", ("i64", results))
        with text.if_(text.same(tuple, "null")):
            with text.for_range(0, results, empty=True) as index:
                text.call("void", "@Py_DecRef", ("ptr", text.load("ptr", text.at(made, "ptr", index.counter))))
            text.ret("ptr", "null")
        with text.for_range(0, results, empty=True) as index:
            text.store("ptr", text.load("ptr", text.at(made, "ptr", index.counter)), text.at(tuple, "ptr", index.counter), layout.ITEMS)
        text.ret("ptr", tuple)
