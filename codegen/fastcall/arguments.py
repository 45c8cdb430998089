"""Argument checks of the fast path: arguments, and objects reached without them, are those that a program was compiled for.

The checks run no Python code, and change nothing but the lists of parameters: their addresses, and the objects that own them.
"""

from __future__ import annotations

from adjit.codegen.fastcall import object_layout as layout
from adjit.codegen.fastcall.descriptor_layout import DIGEST, FUNCTION, GUARD, NODE, PROGRAM, RANGE, Guard, Node
from adjit.codegen.fastcall.tensors import CALL_LISTS, each
from adjit.codegen.llvm.builder import Builder
from adjit.ir.ops.panels import MOST_ROWS
from adjit.ir.types import LARGEST_INTEGER

DECLARATIONS = """
@PyFloat_Type = external global i8
@PyLong_Type = external global i8
@PyUnicode_Type = external global i8
@PyTuple_Type = external global i8
@PyList_Type = external global i8
@PyDict_Type = external global i8
declare i32 @PyObject_RichCompareBool(ptr, ptr, i32)
declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)
declare i64 @PyDict_Size(ptr)
declare i32 @PyDict_Next(ptr, ptr, ptr, ptr)
declare ptr @PyDict_GetItemWithError(ptr, ptr)
declare void @PyErr_Clear()
"""

_EQUAL = 2      # opcode of the rich comparison ==


def write_arguments(text: Builder) -> None:
    """Functions `fits` (object against node), `holds` (guards of a program) and `apart` (aliasing of its parameters)."""
    _write_alike(text)
    _write_array_fits(text)
    _write_fits(text)
    _write_holds(text)
    _write_apart(text)


def _write_alike(text: Builder) -> None:
    """True if two objects are the same, or equal integers or strings."""
    with text.function("alike", "ptr %then", "ptr %now", result="i1"):
        with text.if_(text.same("%then", "%now")):
            text.ret("i1", "true")
        kind = text.load("ptr", "%then", layout.TYPE)
        with text.if_(text.differ(text.load("ptr", "%now", layout.TYPE), kind)):
            text.ret("i1", "false")
        plain = text.either(text.same(kind, "@PyUnicode_Type"), text.same(kind, "@PyLong_Type"))
        with text.if_(plain):
            equal = text.call("i32", "@PyObject_RichCompareBool", ("ptr", "%then"), ("ptr", "%now"), ("i32", _EQUAL))
            text.ret("i1", text.compare("eq", equal, 1, "i32"))
        text.ret("i1", "false")


def _write_array_fits(text: Builder) -> None:
    """True if an object is the array that a node of kind ARRAY describes. The array is added to the lists of parameters."""
    with text.function("array_fits", "ptr %node", "ptr %object", *CALL_LISTS, result="i1"):
        address = text.variable(text.load("ptr", "%object", layout.DATA), "ptr")
        kind = text.load("ptr", "%object", layout.TYPE)
        array = text.same(kind, text.load("ptr", "%function", FUNCTION["array_type"]))
        with text.if_(array):
            descr, wanted = text.load("ptr", "%object", layout.DESCR), text.load("ptr", "%node", NODE["descr"])
            with text.if_(text.differ(descr, wanted)):      # another dtype object, for example after unpickling
                for offset, size in ((layout.NATIVE_ORDER, "i8"), (layout.TYPE_NUMBER, "i32")):
                    with text.if_(text.compare("ne", text.load(size, descr, offset), text.load(size, wanted, offset), size)):
                        text.ret("i1", "false")
            flags, needed = text.load("i32", "%object", layout.FLAGS), text.load("i32", "%node", NODE["flags"])
            missing = text.compare("ne", text.let(f"and i32 {flags}, {needed}"), needed, "i32")
            rank = text.load("i32", "%node", NODE["rank"])
            other = text.compare("ne", text.load("i32", "%object", layout.RANK), rank, "i32")
            with text.if_(text.either(missing, other)):
                text.ret("i1", "false")
            shape, expected = text.load("ptr", "%object", layout.SHAPE), text.load("ptr", "%node", NODE["shape"])
            with text.for_range(0, text.let(f"zext i32 {rank} to i64"), empty=True) as axis:
                size, wanted = (text.load("i64", text.at(lengths, "i64", axis.counter)) for lengths in (shape, expected))
                with text.if_(text.compare("ne", size, wanted)):
                    with text.if_(text.compare("ne", wanted, -1)):
                        text.ret("i1", "false")
                    _check_rows(text, size)
        with text.if_(text.not_(array)):
            with text.if_(text.differ(kind, text.load("ptr", "%node", NODE["object"]))):
                text.ret("i1", "false")
            address.set(text.at("%object", 1, layout.NUMBER))
        _enter(text, address.value)


def _check_rows(text: Builder, size: str) -> None:
    """Return false unless an array of rows has as many as those before; the first one tells how many there are."""
    number = text.sub(text.load("i64", "%node", NODE["rows"]), 1)
    cell = text.load("ptr", text.at("%params", "i64", number))
    known = text.load("i64", cell)
    with text.if_(text.compare("eq", known, -1)):
        few, many = text.compare("slt", size, text.load("i64", "%node", NODE["count"])), text.compare("sgt", size, MOST_ROWS)
        with text.if_(text.either(few, many)):
            text.ret("i1", "false")
        text.store("i64", size, cell)
    with text.if_(text.both(text.compare("ne", known, -1), text.compare("ne", known, size))):
        text.ret("i1", "false")


def _enter(text: Builder, address: str) -> None:
    index = text.load("i64", "%node", NODE["index"])
    text.store("ptr", address, text.at("%params", "i64", index))
    text.store("ptr", "%object", text.at("%objects", "i64", index))
    text.ret("i1", "true")


def _write_fits(text: Builder) -> None:
    """True if an object matches a node, of any kind."""
    with text.function("fits", "ptr %node", "ptr %object", *CALL_LISTS, result="i1"):
        kind = text.load("i64", "%node", NODE["kind"])

        def is_kind(node: Node) -> str:
            return text.compare("eq", kind, int(node))

        with text.if_(is_kind(Node.ARRAY)):
            text.ret("i1", text.call("i1", "@array_fits", ("ptr", "%node"), ("ptr", "%object"), *CALL_LISTS))
        with text.if_(is_kind(Node.DEVICE)):
            text.ret("i1", text.call("i1", "@device_fits", ("ptr", "%node"), ("ptr", "%object"), *CALL_LISTS))
        found = text.load("ptr", "%object", layout.TYPE)
        with text.if_(is_kind(Node.TENSOR)):
            text.ret("i1", text.call("i1", "@tensor_fits", ("ptr", "%node"), ("ptr", "%object"), *CALL_LISTS))
        with text.if_(is_kind(Node.SAME)):
            text.ret("i1", text.same("%object", text.load("ptr", "%node", NODE["object"])))
        with text.if_(is_kind(Node.FLOAT)):
            with text.if_(text.differ(found, "@PyFloat_Type")):
                text.ret("i1", "false")
            _enter(text, text.at("%object", 1, layout.NUMBER))
        with text.if_(is_kind(Node.INTEGER)):
            with text.if_(text.differ(found, "@PyLong_Type")):
                text.ret("i1", "false")
            overflow = text.variable(0)
            integer = text.call("i64", "@PyLong_AsLongLongAndOverflow", ("ptr", "%object"), ("ptr", overflow.address))
            with text.if_(text.compare("ne", overflow.value, 0)):
                text.ret("i1", "false")
            with text.if_(text.either(text.compare("sgt", integer, LARGEST_INTEGER), text.compare("slt", integer, -LARGEST_INTEGER))):
                text.ret("i1", "false")
            parameter = text.load("i64", "%node", NODE["index"])
            cell = text.at("%objects", "i64", text.add(parameter, text.load("i64", "%node", NODE["count"])))     # behind the objects
            text.store("i64", integer, cell)
            text.store("ptr", cell, text.at("%params", "i64", parameter))
            text.store("ptr", "null", text.at("%objects", "i64", parameter))
            text.ret("i1", "true")
        with text.if_(is_kind(Node.CONSTANT)):
            constant = text.load("ptr", "%node", NODE["object"])
            text.ret("i1", text.call("i1", "@alike", ("ptr", constant), ("ptr", "%object")))
        count, items = text.load("i64", "%node", NODE["count"]), text.load("ptr", "%node", NODE["items"])

        def check_item(index: str, item: str) -> None:
            node = text.load("ptr", text.at(items, "i64", index))
            fits = text.call("i1", "@fits", ("ptr", node), ("ptr", item), *CALL_LISTS)
            with text.if_(text.not_(fits)):
                text.ret("i1", "false")

        named = text.load("ptr", "%node", NODE["object"])
        for container, type_name in ((Node.TUPLE, "@PyTuple_Type"), (Node.LIST, "@PyList_Type"), (Node.NAMED, named)):
            with text.if_(is_kind(container)):
                with text.if_(text.differ(found, type_name)):
                    text.ret("i1", "false")
                with text.if_(text.compare("ne", text.load("i64", "%object", layout.SIZE), count)):
                    text.ret("i1", "false")
                content = text.load("ptr", "%object", layout.ITEMS) if container is Node.LIST else text.at("%object", 1, layout.ITEMS)
                with text.for_range(0, count, empty=True) as index:
                    check_item(index.counter, text.load("ptr", text.at(content, "i64", index.counter)))
                text.ret("i1", "true")
        with text.if_(text.differ(found, "@PyDict_Type")):
            text.ret("i1", "false")
        with text.if_(text.compare("ne", text.call("i64", "@PyDict_Size", ("ptr", "%object")), count)):
            text.ret("i1", "false")
        position, key, value = text.variable(0), text.variable("null", "ptr"), text.variable("null", "ptr")
        keys = text.load("ptr", "%node", NODE["keys"])
        with text.for_range(0, count, empty=True) as index:
            addresses = [("ptr", variable.address) for variable in (position, key, value)]
            there = text.call("i32", "@PyDict_Next", ("ptr", "%object"), *addresses)
            with text.if_(text.compare("eq", there, 0, "i32")):
                text.ret("i1", "false")
            wanted = text.load("ptr", text.at(keys, "i64", index.counter))
            same = text.call("i1", "@alike", ("ptr", wanted), ("ptr", key.value))
            with text.if_(text.not_(same)):
                text.ret("i1", "false")
            check_item(index.counter, value.value)
        text.ret("i1", "true")


def _write_holds(text: Builder) -> None:
    """True if every guard of a program finds the expected object."""
    with text.function("holds", "ptr %program", result="i1"):
        with each(text, "guards", GUARD) as guard:
            found = text.variable("null", "ptr")
            kind, address = text.load("i64", guard, GUARD["kind"]), text.load("ptr", guard, GUARD["holder"])
            value = text.load("ptr", guard, GUARD["value"])
            with text.if_(text.compare("eq", kind, int(Guard.CELL))):
                found.set(text.load("ptr", address, layout.CELL))
            with text.if_(text.compare("eq", kind, int(Guard.DICT))):
                key = text.load("ptr", guard, GUARD["key"])
                found.set(text.call("ptr", "@PyDict_GetItemWithError", ("ptr", address), ("ptr", key)))
            with text.if_(text.compare("eq", kind, int(Guard.LIST))):
                number = text.load("i64", guard, GUARD["key"])
                with text.if_(text.compare("ult", number, text.load("i64", address, layout.SIZE))):
                    found.set(text.load("ptr", text.at(text.load("ptr", address, layout.ITEMS), "i64", number)))
            with text.if_(text.compare("eq", kind, int(Guard.SIZE))):      # here `value` is a number
                found.set(text.let(f"inttoptr i64 {text.load('i64', address, layout.SIZE)} to ptr"))
            with text.if_(text.compare("eq", kind, int(Guard.ATTRIBUTE))):
                found.set(text.call("ptr", "@attribute", ("ptr", address), ("ptr", text.load("ptr", guard, GUARD["key"]))))
            with text.if_(text.compare("eq", kind, int(Guard.DIGEST))):
                _check_digest(text, text.load("ptr", guard, GUARD["key"]), address)
            with text.if_(text.compare("eq", kind, int(Guard.WORD))):
                found.set(text.load("ptr", text.at(address, 1, text.load("i64", guard, GUARD["key"]))))
            with text.if_(text.compare("eq", kind, int(Guard.TABLE))):
                holds = text.call("i1", "@table_holds", ("ptr", text.load("ptr", guard, GUARD["key"])))
                with text.if_(text.not_(holds)):
                    text.ret("i1", "false")
            with text.if_(text.differ(found.value, value)):
                text.ret("i1", "false")
        text.ret("i1", "true")


def _check_digest(text: Builder, wanted: str, array: str) -> None:
    """Return from the check if an array does not have the form or the digest that a guard expects."""
    def check(type: str, there: str, field: str) -> None:
        with text.if_(text.compare("ne", there, text.load(type, wanted, DIGEST[field]), type)):
            text.ret("i1", "false")

    flag = text.load("i32", wanted, DIGEST["flags"])
    check("i32", text.let(f"and i32 {text.load('i32', array, layout.FLAGS)}, {flag}"), "flags")
    rank = text.load("i32", array, layout.RANK)
    check("i32", rank, "rank")
    shape, expected = text.load("ptr", array, layout.SHAPE), text.load("ptr", wanted, DIGEST["shape"])
    with text.for_range(0, text.let(f"zext i32 {rank} to i64"), empty=True) as axis:
        there = text.load("i64", text.at(shape, "i64", axis.counter))
        with text.if_(text.compare("ne", there, text.load("i64", text.at(expected, "i64", axis.counter)))):
            text.ret("i1", "false")
    function, data = text.load("ptr", wanted, DIGEST["function"]), text.load("ptr", array, layout.DATA)
    count = text.load("i64", wanted, DIGEST["bytes"])
    check("i64", text.call("i64", function, ("ptr", data), ("i64", count)), "digest")


def _write_apart(text: Builder) -> None:
    """True if no donated parameter shares memory with another one. Addresses that were found disjoint are remembered: most come again."""
    with text.function("apart", "ptr %program", "ptr %params", "i64 %rows", result="i1"):
        count, donated = text.load("i64", "%program", PROGRAM["params"]), text.load("ptr", "%program", PROGRAM["donated"])
        ranges = text.load("ptr", "%program", PROGRAM["ranges"])

        def of(index: str) -> tuple[str, str, str]:
            """The start of a parameter, its size, and the address at which its start is remembered."""
            found = text.at(ranges, 1, text.mul(index, 8 * len(RANGE)))
            of_rows = text.mul(text.load("i64", found, RANGE["row_bytes"]), "%rows")
            size = text.add(text.load("i64", found, RANGE["bytes"]), of_rows)
            return text.load("i64", text.at("%params", "i64", index)), size, text.at(found, 1, RANGE["known"])

        with text.for_range(0, count, empty=True) as first:
            start, size, known = of(first.counter)
            same, empty = text.compare("eq", start, text.load("i64", known)), text.compare("eq", size, 0)
            same = text.both(same, text.compare("eq", "%rows", 0))      # with more rows, memory reaches further
            with text.if_(text.either(same, empty)):
                text.continue_()
            writes = text.load("i64", text.at(donated, "i64", first.counter))
            with text.for_range(0, count, empty=True) as second:
                other_start, other_size, _ = of(second.counter)
                either = text.let(f"or i64 {writes}, {text.load('i64', text.at(donated, 'i64', second.counter))}")
                before = text.compare("ult", start, text.add(other_start, other_size))
                after = text.compare("ult", other_start, text.add(start, size))
                conditions = (text.compare("ne", either, 0), text.compare("ne", first.counter, second.counter), before, after,
                              text.compare("ne", other_size, 0))
                together = conditions[0]
                for condition in conditions[1:]:
                    together = text.both(together, condition)
                with text.if_(together):
                    text.ret("i1", "false")
        with text.for_range(0, count, empty=True) as index:
            start, _, known = of(index.counter)
            text.store("i64", start, known)
        text.ret("i1", "true")
