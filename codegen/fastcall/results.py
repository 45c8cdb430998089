"""Results of the fast path: arrays and scalars, made before and after a program runs, and the tree of results for the caller."""

from __future__ import annotations

from adjit.codegen.fastcall import object_layout as layout
from adjit.codegen.fastcall.descriptor_layout import FUNCTION, NODE, PROGRAM, RESULT, Node, ResultStorage
from adjit.codegen.llvm.builder import Builder

RESULT_BYTES = len(RESULT) * 8

BLOCK_BYTES = 1 << 16
"""Bytes from which results lie in blocks of the memory pool: the system would fault in new pages for each such result."""

ROW_BLOCK_BYTES = 1 << 12
"""The same, of results of any number of rows. There may be many of them: what one loop over rows leaves for another."""

MAX_RANK = 64       # of NumPy's arrays

SCALAR_BYTES = 16
"""Bytes reserved for the memory of a 0-d result."""

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


def write_results(text: Builder) -> None:
    """Functions `make` (memory of results), `hand_out` (result objects), `build` (tree of results) and `drop` (references)."""
    _write_drop(text)
    _write_new_array(text)
    _write_make(text)
    _write_hand_out(text)
    _write_list_of(text)
    _write_build(text)
    _write_finish(text)


def _write_drop(text: Builder) -> None:
    """Drop the references to the objects of a list that are not null."""
    with text.function("drop", "ptr %objects", "i64 %count"), text.for_range(0, "%count", empty=True) as index:
        found = text.load("ptr", text.at("%objects", "i64", index.counter))
        with text.if_(text.differ(found, "null")):
            text.call("void", "@Py_DecRef", ("ptr", found))


def _write_new_array(text: Builder) -> None:
    """A new, uninitialized array; null if there is no memory. A large array lies in a block of the pool, which the array's base gives
    back."""
    with text.function("new_array", "ptr %function", "ptr %result", "i64 %rows", result="ptr"):
        descr, shape = text.load("ptr", "%result", RESULT["descr"]), text.variable(text.load("ptr", "%result", RESULT["shape"]), "ptr")
        size, per_row = text.variable(text.load("i64", "%result", RESULT["bytes"])), text.load("i64", "%result", RESULT["per_row"])
        lengths = text.alloca("i64", MAX_RANK)
        rank, block, flags = text.load("i32", "%result", RESULT["rank"]), text.variable("null", "ptr"), text.variable(0, "i32")
        of_rows, is_block = text.compare("ne", per_row, 0), text.variable("false", "i1")
        is_block.set(text.compare("eq", text.load("i64", "%result", RESULT["storage"]), int(ResultStorage.BLOCK)))
        with text.if_(of_rows):
            with text.for_range(0, text.let(f"zext i32 {rank} to i64"), empty=True) as axis:
                length = text.load("i64", text.at(shape.value, "i64", axis.counter))
                text.store("i64", length, text.at(lengths, "i64", axis.counter))
            text.store("i64", text.mul(per_row, "%rows"), lengths)
            shape.set(lengths)
            size.set(text.mul(text.load("i64", "%result", RESULT["row_bytes"]), "%rows"))
            is_block.set(text.compare("uge", size.value, ROW_BLOCK_BYTES))
        large = is_block.value
        with text.if_(large):
            block.set(text.call("ptr", "@take", ("i64", size.value)))
            flags.set(_ORDINARY)
            with text.if_(text.same(block.value, "null")):
                text.ret("ptr", "null")
        text.call("void", "@Py_IncRef", ("ptr", descr))
        array = text.call("ptr", text.load("ptr", "%function", FUNCTION["new_array"]),
                          ("ptr", text.load("ptr", "%function", FUNCTION["array_type"])), ("ptr", descr), ("i32", rank),
                          ("ptr", shape.value), ("ptr", "null"), ("ptr", block.value), ("i32", flags.value), ("ptr", "null"))
        with text.if_(large):
            with text.if_(text.same(array, "null")):
                text.call("void", "@give", ("ptr", block.value))
                text.ret("ptr", "null")
            capsule = text.call("ptr", "@PyCapsule_New", ("ptr", block.value), ("ptr", "@pool.name"), ("ptr", "@give_back"))
            with text.if_(text.same(capsule, "null")):
                text.call("void", "@Py_DecRef", ("ptr", array))
                text.call("void", "@give", ("ptr", block.value))
                text.ret("ptr", "null")
            text.call("i32", text.load("ptr", "%function", FUNCTION["set_base"]), ("ptr", array), ("ptr", capsule))
        text.ret("ptr", array)


def _write_make(text: Builder) -> None:
    """Memory for every result: `objects` gets new arrays, or null for other results; `places` gets the addresses for the program's
    writes."""
    arguments = ("ptr %function", "ptr %results", "i64 %count", "i64 %rows", "ptr %objects", "ptr %places", "ptr %scalars")
    with text.function("make", *arguments, result="i1"):
        with text.for_range(0, "%count", empty=True) as index:
            result = text.at("%results", 1, text.mul(index.counter, RESULT_BYTES))
            storage, address, made = text.load("i64", result, RESULT["storage"]), text.variable("null", "ptr"), text.variable("null", "ptr")
            with text.if_(text.compare("eq", storage, int(ResultStorage.SCALAR))):
                address.set(text.at("%scalars", 1, text.mul(index.counter, SCALAR_BYTES)))
            with text.if_(text.compare("ule", storage, int(ResultStorage.BLOCK))):
                array = text.call("ptr", "@new_array", ("ptr", "%function"), ("ptr", result), ("i64", "%rows"))
                with text.if_(text.same(array, "null")):
                    text.call("void", "@drop", ("ptr", "%objects"), ("i64", index.counter))
                    text.ret("i1", "false")
                made.set(array)
                address.set(text.load("ptr", array, layout.DATA))
            with text.if_(text.compare("eq", storage, int(ResultStorage.DEVICE))):
                array = text.call("ptr", "@new_device_array", ("ptr", result), ("ptr", address.address))
                with text.if_(text.same(array, "null")):
                    text.call("void", "@drop", ("ptr", "%objects"), ("i64", index.counter))
                    text.ret("i1", "false")
                made.set(array)
            text.store("ptr", made.value, text.at("%objects", "i64", index.counter))
            text.store("ptr", address.value, text.at("%places", "i64", index.counter))
        text.ret("i1", "true")


def _write_hand_out(text: Builder) -> None:
    """Result objects that exist only after the run: scalars, and the donated arrays."""
    with text.function("hand_out", "ptr %function", "ptr %results", "i64 %count", "ptr %objects", "ptr %places", "ptr %given", result="i1"):
        with text.for_range(0, "%count", empty=True) as index:
            result = text.at("%results", 1, text.mul(index.counter, RESULT_BYTES))
            storage, target = text.load("i64", result, RESULT["storage"]), text.at("%objects", "i64", index.counter)
            with text.if_(text.compare("eq", storage, int(ResultStorage.SCALAR))):
                address = text.load("ptr", text.at("%places", "i64", index.counter))
                scalar = text.call("ptr", text.load("ptr", "%function", FUNCTION["new_scalar"]), ("ptr", address),
                                   ("ptr", text.load("ptr", result, RESULT["descr"])), ("ptr", "null"))
                text.store("ptr", scalar, target)
                with text.if_(text.same(scalar, "null")):
                    text.ret("i1", "false")
            is_device = text.compare("eq", storage, int(ResultStorage.DEVICE_DONATED))
            with text.if_(text.either(is_device, text.compare("eq", storage, int(ResultStorage.DONATED)))):
                donated = text.load("ptr", text.at("%given", "i64", text.load("i64", result, RESULT["param"])))
                text.call("void", "@Py_IncRef", ("ptr", donated))
                text.store("ptr", donated, target)
                with text.if_(is_device):
                    text.call("void", "@written", ("ptr", donated), ("ptr", text.load("ptr", result, RESULT["shape"])))
        text.ret("i1", "true")


def _write_build(text: Builder) -> None:
    """A new reference to the object that a node describes; null, with an exception set, if there is no memory."""
    with text.function("build", "ptr %node", "ptr %objects", "i64 %available", result="ptr"):
        kind = text.load("i64", "%node", NODE["kind"])

        def is_kind(node: Node) -> str:
            return text.compare("eq", kind, int(node))

        with text.if_(is_kind(Node.RESULT)):
            found = text.load("ptr", text.at("%objects", "i64", text.load("i64", "%node", NODE["index"])))
            text.call("void", "@Py_IncRef", ("ptr", found))
            text.ret("ptr", found)
        with text.if_(is_kind(Node.CONSTANT)):
            constant = text.load("ptr", "%node", NODE["object"])
            text.call("void", "@Py_IncRef", ("ptr", constant))
            text.ret("ptr", constant)
        with text.if_(is_kind(Node.BUILT)):
            _build_in_python(text)
        count, items = text.load("i64", "%node", NODE["count"]), text.load("ptr", "%node", NODE["items"])
        made = text.variable("null", "ptr")
        for container, new in ((Node.TUPLE, "@PyTuple_New"), (Node.LIST, "@PyList_New"), (Node.NAMED, "@PyTuple_New")):
            with text.if_(is_kind(container)):
                made.set(text.call("ptr", new, ("i64", count)))
        is_dict = is_kind(Node.DICT)
        with text.if_(is_dict):
            made.set(text.call("ptr", "@PyDict_New"))
        result = made.value
        with text.if_(text.same(result, "null")):
            text.ret("ptr", "null")
        content, keys = text.variable(text.at(result, 1, layout.ITEMS), "ptr"), text.load("ptr", "%node", NODE["keys"])
        with text.if_(is_kind(Node.LIST)):
            content.set(text.load("ptr", result, layout.ITEMS))
        with text.for_range(0, count, empty=True) as index:
            node = text.load("ptr", text.at(items, "i64", index.counter))
            item = text.call("ptr", "@build", ("ptr", node), ("ptr", "%objects"), ("i64", "%available"))
            with text.if_(text.same(item, "null")):
                text.call("void", "@Py_DecRef", ("ptr", result))
                text.ret("ptr", "null")
            with text.if_(is_dict):
                key = text.load("ptr", text.at(keys, "i64", index.counter))
                failed = text.call("i32", "@PyDict_SetItem", ("ptr", result), ("ptr", key), ("ptr", item))
                text.call("void", "@Py_DecRef", ("ptr", item))
                with text.if_(text.compare("ne", failed, 0, "i32")):
                    text.call("void", "@Py_DecRef", ("ptr", result))
                    text.ret("ptr", "null")
                text.continue_()
            text.store("ptr", item, text.at(content.value, "i64", index.counter))
        with text.if_(is_kind(Node.NAMED)):
            named = text.call("ptr", "@PyObject_CallOneArg", ("ptr", keys), ("ptr", result))
            text.call("void", "@Py_DecRef", ("ptr", result))
            text.ret("ptr", named)
        text.ret("ptr", result)


def _write_list_of(text: Builder) -> None:
    """A Python list of objects, with None for null. Returns null if there is no memory."""
    with text.function("list_of", "ptr %objects", "i64 %count", result="ptr"):
        made = text.call("ptr", "@PyList_New", ("i64", "%count"))
        with text.if_(text.same(made, "null")):
            text.ret("ptr", "null")
        content = text.load("ptr", made, layout.ITEMS)
        with text.for_range(0, "%count", empty=True) as index:
            item = text.variable(text.load("ptr", text.at("%objects", "i64", index.counter)), "ptr")
            with text.if_(text.same(item.value, "null")):
                item.set("@_Py_NoneStruct")
            text.call("void", "@Py_IncRef", ("ptr", item.value))
            text.store("ptr", item.value, text.at(content, "i64", index.counter))
        text.ret("ptr", made)


def _write_finish(text: Builder) -> None:
    """The result of a program's Python function `finish(parameters, results, leaves)`."""
    with text.function("finish_in_python", "ptr %program", "ptr %given", "ptr %leaves", "ptr %objects", result="ptr"):
        counts = [text.load("i64", "%program", PROGRAM[field]) for field in ("params", "result_count", "leaves")]
        lists = text.alloca("ptr", 3)
        for address, (objects, count) in enumerate(zip(("%given", "%objects", "%leaves"), counts, strict=True)):
            text.store("ptr", text.call("ptr", "@list_of", ("ptr", objects), ("i64", count)), lists, 8 * address)
        given, results, leaves = (text.load("ptr", lists, 8 * address) for address in range(3))
        built = text.variable("null", "ptr")
        some = text.both(text.differ(given, "null"), text.differ(results, "null"))
        with text.if_(text.both(some, text.differ(leaves, "null"))):
            finish = text.load("ptr", "%program", PROGRAM["finish"])
            built.set(text.call("ptr", "@PyObject_Vectorcall", ("ptr", finish), ("ptr", lists), ("i64", 3), ("ptr", "null")))
        text.call("void", "@drop", ("ptr", lists), ("i64", 3))
        text.ret("ptr", built.value)


def _build_in_python(text: Builder) -> None:
    results = text.call("ptr", "@list_of", ("ptr", "%objects"), ("i64", "%available"))
    with text.if_(text.same(results, "null")):
        text.ret("ptr", "null")
    function = text.load("ptr", "%node", NODE["object"])
    built = text.call("ptr", "@PyObject_CallOneArg", ("ptr", function), ("ptr", results))
    text.call("void", "@Py_DecRef", ("ptr", results))
    text.ret("ptr", built)
