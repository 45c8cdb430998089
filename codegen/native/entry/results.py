"""The entry's results: arrays and scalars made before and after a program runs, and the tree that the caller gets of them."""

from __future__ import annotations

from adjit.codegen.native.entry import object_layout as layout
from adjit.codegen.native.entry.records import FUNCTION, NODE, PROGRAM, RESULT, Handed, Node
from adjit.codegen.native.routine_text import RoutineText

RESULT_BYTES = len(RESULT) * 8

SCALAR_BYTES = 16
"""Room for the memory of a 0-d result."""

_ORDINARY = layout.CONTIGUOUS | layout.ALIGNED | layout.WRITEABLE

DECLARATIONS = """
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @PyCapsule_New(ptr, ptr, ptr)
declare ptr @PyTuple_New(i64)
declare ptr @PyList_New(i64)
declare ptr @PyDict_New()
declare i32 @PyDict_SetItem(ptr, ptr, ptr)
declare ptr @PyObject_CallOneArg(ptr, ptr)
"""


def write_results(text: RoutineText) -> None:
    """`make` of the memory of results, `hand_out` of their objects, `build` of a tree, and `drop` of references."""
    _write_drop(text)
    _write_new_array(text)
    _write_make(text)
    _write_hand_out(text)
    _write_list_of(text)
    _write_build(text)
    _write_finish(text)


def _write_drop(text: RoutineText) -> None:
    """Let go of those objects of a list that are not null."""
    with text.routine("void", "drop", "ptr %objects", "i64 %count"), text.times("%count") as index:
        found = text.load(text.element("%objects", index), kind="ptr")
        with text.when(text.differ(found, "null")):
            text.call("void", "@Py_DecRef", f"ptr {found}")


def _write_new_array(text: RoutineText) -> None:
    """A new array, without content; null where there is no memory. Large ones lie in a block, which their base gives back."""
    with text.routine("ptr", "new_array", "ptr %function", "ptr %result"):
        descr, shape = text.load("%result", RESULT["descr"], "ptr"), text.load("%result", RESULT["shape"], "ptr")
        rank, block, flags = text.load("%result", RESULT["rank"], "i32"), text.variable("null", "ptr"), text.variable(0, "i32")
        large = text.compare("eq", text.load("%result", RESULT["handed"]), int(Handed.BLOCK))
        with text.when(large):
            block.set(text.call("ptr", "@take", f"i64 {text.load('%result', RESULT['bytes'])}"))
            flags.set(_ORDINARY)
            with text.when(text.same(block.now, "null")):
                text.give("ptr null")
        text.call("void", "@Py_IncRef", f"ptr {descr}")
        array = text.call("ptr", text.load("%function", FUNCTION["new_array"], "ptr"),
                          f"ptr {text.load('%function', FUNCTION['array_type'], 'ptr')}", f"ptr {descr}", f"i32 {rank}", f"ptr {shape}",
                          "ptr null", f"ptr {block.now}", f"i32 {flags.now}", "ptr null")
        with text.when(large):
            with text.when(text.same(array, "null")):
                text.call("void", "@give", f"ptr {block.now}")
                text.give("ptr null")
            capsule = text.call("ptr", "@PyCapsule_New", f"ptr {block.now}", "ptr @pool.name", "ptr @give_back")
            with text.when(text.same(capsule, "null")):
                text.call("void", "@Py_DecRef", f"ptr {array}")
                text.call("void", "@give", f"ptr {block.now}")
                text.give("ptr null")
            text.call("i32", text.load("%function", FUNCTION["set_base"], "ptr"), f"ptr {array}", f"ptr {capsule}")
        text.give(f"ptr {array}")


def _write_make(text: RoutineText) -> None:
    """Memory for every result: `objects` gets the new arrays, null for the others; `places` where the program is to write."""
    with text.routine("i1", "make", "ptr %function", "ptr %results", "i64 %count", "ptr %objects", "ptr %places", "ptr %scalars"):
        with text.times("%count") as index:
            result = text.at("%results", text.let(f"mul i64 {index}, {RESULT_BYTES}"))
            handed, place, made = text.load(result, RESULT["handed"]), text.variable("null", "ptr"), text.variable("null", "ptr")
            with text.when(text.compare("eq", handed, int(Handed.SCALAR))):
                place.set(text.at("%scalars", text.let(f"mul i64 {index}, {SCALAR_BYTES}")))
            with text.when(text.compare("ule", handed, int(Handed.BLOCK))):
                array = text.call("ptr", "@new_array", "ptr %function", f"ptr {result}")
                with text.when(text.same(array, "null")):
                    text.call("void", "@drop", "ptr %objects", f"i64 {index}")
                    text.give("i1 false")
                made.set(array)
                place.set(text.load(array, layout.DATA, "ptr"))
            text.store(f"ptr {made.now}", text.element("%objects", index))
            text.store(f"ptr {place.now}", text.element("%places", index))
        text.give("i1 true")


def _write_hand_out(text: RoutineText) -> None:
    """The other objects among the results, after the program ran: scalars, and donated arrays themselves."""
    with text.routine("i1", "hand_out", "ptr %function", "ptr %results", "i64 %count", "ptr %objects", "ptr %places", "ptr %given"):
        with text.times("%count") as index:
            result = text.at("%results", text.let(f"mul i64 {index}, {RESULT_BYTES}"))
            handed, target = text.load(result, RESULT["handed"]), text.element("%objects", index)
            with text.when(text.compare("eq", handed, int(Handed.SCALAR))):
                place = text.load(text.element("%places", index), kind="ptr")
                scalar = text.call("ptr", text.load("%function", FUNCTION["new_scalar"], "ptr"), f"ptr {place}",
                                   f"ptr {text.load(result, RESULT['descr'], 'ptr')}", "ptr null")
                text.store(f"ptr {scalar}", target)
                with text.when(text.same(scalar, "null")):
                    text.give("i1 false")
            with text.when(text.compare("eq", handed, int(Handed.DONATED))):
                donated = text.load(text.element("%given", text.load(result, RESULT["param"])), kind="ptr")
                text.call("void", "@Py_IncRef", f"ptr {donated}")
                text.store(f"ptr {donated}", target)
        text.give("i1 true")


def _write_build(text: RoutineText) -> None:
    """A new reference to what a node describes, of the objects of the results; null with an exception set where there is no memory."""
    with text.routine("ptr", "build", "ptr %node", "ptr %objects", "i64 %available"):
        kind = text.load("%node", NODE["kind"])

        def is_kind(node: Node) -> str:
            return text.compare("eq", kind, int(node))

        with text.when(is_kind(Node.RESULT)):
            found = text.load(text.element("%objects", text.load("%node", NODE["index"])), kind="ptr")
            text.call("void", "@Py_IncRef", f"ptr {found}")
            text.give(f"ptr {found}")
        with text.when(is_kind(Node.CONSTANT)):
            constant = text.load("%node", NODE["object"], "ptr")
            text.call("void", "@Py_IncRef", f"ptr {constant}")
            text.give(f"ptr {constant}")
        with text.when(is_kind(Node.BUILT)):
            _build_in_python(text)
        count, items = text.load("%node", NODE["count"]), text.load("%node", NODE["items"], "ptr")
        made = text.variable("null", "ptr")
        for container, new in ((Node.TUPLE, "@PyTuple_New"), (Node.LIST, "@PyList_New"), (Node.NAMED, "@PyTuple_New")):
            with text.when(is_kind(container)):
                made.set(text.call("ptr", new, f"i64 {count}"))
        is_dict = is_kind(Node.DICT)
        with text.when(is_dict):
            made.set(text.call("ptr", "@PyDict_New"))
        result = made.now
        with text.when(text.same(result, "null")):
            text.give("ptr null")
        content, keys = text.variable(text.at(result, layout.ITEMS), "ptr"), text.load("%node", NODE["keys"], "ptr")
        with text.when(is_kind(Node.LIST)):
            content.set(text.load(result, layout.ITEMS, "ptr"))
        with text.times(count) as index:
            node = text.load(text.element(items, index), kind="ptr")
            item = text.call("ptr", "@build", f"ptr {node}", "ptr %objects", "i64 %available")
            with text.when(text.same(item, "null")):
                text.call("void", "@Py_DecRef", f"ptr {result}")
                text.give("ptr null")
            with text.when(is_dict):
                key = text.load(text.element(keys, index), kind="ptr")
                failed = text.call("i32", "@PyDict_SetItem", f"ptr {result}", f"ptr {key}", f"ptr {item}")
                text.call("void", "@Py_DecRef", f"ptr {item}")
                with text.when(text.compare("ne", failed, 0, "i32")):
                    text.call("void", "@Py_DecRef", f"ptr {result}")
                    text.give("ptr null")
                text.again()
            text.store(f"ptr {item}", text.element(content.now, index))
        with text.when(is_kind(Node.NAMED)):
            named = text.call("ptr", "@PyObject_CallOneArg", f"ptr {keys}", f"ptr {result}")
            text.call("void", "@Py_DecRef", f"ptr {result}")
            text.give(f"ptr {named}")
        text.give(f"ptr {result}")


def _write_list_of(text: RoutineText) -> None:
    """A Python list of objects; None for null. Null where there is no memory."""
    with text.routine("ptr", "list_of", "ptr %objects", "i64 %count"):
        made = text.call("ptr", "@PyList_New", "i64 %count")
        with text.when(text.same(made, "null")):
            text.give("ptr null")
        content = text.load(made, layout.ITEMS, "ptr")
        with text.times("%count") as index:
            item = text.variable(text.load(text.element("%objects", index), kind="ptr"), "ptr")
            with text.when(text.same(item.now, "null")):
                item.set("@_Py_NoneStruct")
            text.call("void", "@Py_IncRef", f"ptr {item.now}")
            text.store(f"ptr {item.now}", text.element(content, index))
        text.give(f"ptr {made}")


def _write_finish(text: RoutineText) -> None:
    """What the Python function `finish` of a program gives for its parameters, its results and the leaves of the call."""
    with text.routine("ptr", "finish_in_python", "ptr %program", "ptr %given", "ptr %leaves", "ptr %objects"):
        counts = [text.load("%program", PROGRAM[field]) for field in ("params", "result_count", "leaves")]
        lists = text.let("alloca i64, i64 3")
        for place, (objects, count) in enumerate(zip(("%given", "%objects", "%leaves"), counts, strict=True)):
            text.store(f"ptr {text.call('ptr', '@list_of', f'ptr {objects}', f'i64 {count}')}", lists, 8 * place)
        given, results, leaves = (text.load(lists, 8 * place, "ptr") for place in range(3))
        built = text.variable("null", "ptr")
        some = text.let(f"and i1 {text.differ(given, 'null')}, {text.differ(results, 'null')}")
        with text.when(text.let(f"and i1 {some}, {text.differ(leaves, 'null')}")):
            finish = text.load("%program", PROGRAM["finish"], "ptr")
            built.set(text.call("ptr", "@PyObject_Vectorcall", f"ptr {finish}", f"ptr {lists}", "i64 3", "ptr null"))
        text.call("void", "@drop", f"ptr {lists}", "i64 3")
        text.give(f"ptr {built.now}")


def _build_in_python(text: RoutineText) -> None:
    results = text.call("ptr", "@list_of", "ptr %objects", "i64 %available")
    with text.when(text.same(results, "null")):
        text.give("ptr null")
    function = text.load("%node", NODE["object"], "ptr")
    built = text.call("ptr", "@PyObject_CallOneArg", f"ptr {function}", f"ptr {results}")
    text.call("void", "@Py_DecRef", f"ptr {results}")
    text.give(f"ptr {built}")
