"""The entry's look at what it is given: whether arguments, and what is reached without them, are what a program was compiled for.

Nothing here runs Python code or changes anything but the lists of parameters: their addresses, and the objects they belong to.
"""

from __future__ import annotations

from adjit.codegen.native.entry import object_layout as layout
from adjit.codegen.native.entry.records import DIGEST, FUNCTION, GUARD, NODE, PROGRAM, Guard, Node
from adjit.codegen.native.entry.tensors import LISTS, each
from adjit.codegen.native.routine_text import RoutineText

DECLARATIONS = """
@PyFloat_Type = external global i8
@PyLong_Type = external global i8
@PyUnicode_Type = external global i8
@PyTuple_Type = external global i8
@PyList_Type = external global i8
@PyDict_Type = external global i8
declare i32 @PyObject_RichCompareBool(ptr, ptr, i32)
declare i64 @PyDict_Size(ptr)
declare i32 @PyDict_Next(ptr, ptr, ptr, ptr)
declare ptr @PyDict_GetItemWithError(ptr, ptr)
declare void @PyErr_Clear()
"""

_EQUAL = 2      # of the rich comparisons


def write_arguments(text: RoutineText) -> None:
    """`fits` of a node and an object, `holds` of the guards of a program, `apart` of its parameters."""
    _write_alike(text)
    _write_array_fits(text)
    _write_fits(text)
    _write_holds(text)
    _write_apart(text)


def _write_alike(text: RoutineText) -> None:
    """Whether two objects are the same, or equal integers or strings."""
    with text.routine("i1", "alike", "ptr %then", "ptr %now"):
        with text.when(text.same("%then", "%now")):
            text.give("i1 true")
        kind = text.load("%then", layout.TYPE, "ptr")
        with text.when(text.differ(text.load("%now", layout.TYPE, "ptr"), kind)):
            text.give("i1 false")
        plain = text.let(f"or i1 {text.same(kind, '@PyUnicode_Type')}, {text.same(kind, '@PyLong_Type')}")
        with text.when(plain):
            equal = text.call("i32", "@PyObject_RichCompareBool", "ptr %then", "ptr %now", f"i32 {_EQUAL}")
            text.give(f"i1 {text.compare('eq', equal, 1, 'i32')}")
        text.give("i1 false")


def _write_array_fits(text: RoutineText) -> None:
    """Whether an object is the array that a node of kind ARRAY describes; it is put into the lists of parameters."""
    with text.routine("i1", "array_fits", "ptr %node", "ptr %object", *LISTS):
        place = text.variable(text.load("%object", layout.DATA, "ptr"), "ptr")
        kind = text.load("%object", layout.TYPE, "ptr")
        array = text.same(kind, text.load("%function", FUNCTION["array_type"], "ptr"))
        with text.when(array):
            descr, wanted = text.load("%object", layout.DESCR, "ptr"), text.load("%node", NODE["descr"], "ptr")
            with text.when(text.differ(descr, wanted)):      # as after unpickling
                for offset, size in ((layout.NATIVE_ORDER, "i8"), (layout.TYPE_NUMBER, "i32")):
                    with text.when(text.compare("ne", text.load(descr, offset, size), text.load(wanted, offset, size), size)):
                        text.give("i1 false")
            flags, needed = text.load("%object", layout.FLAGS, "i32"), text.load("%node", NODE["flags"], "i32")
            missing = text.compare("ne", text.let(f"and i32 {flags}, {needed}"), needed, "i32")
            rank = text.load("%node", NODE["rank"], "i32")
            other = text.compare("ne", text.load("%object", layout.RANK, "i32"), rank, "i32")
            with text.when(text.let(f"or i1 {missing}, {other}")):
                text.give("i1 false")
            shape, expected = text.load("%object", layout.SHAPE, "ptr"), text.load("%node", NODE["shape"], "ptr")
            with text.times(text.let(f"zext i32 {rank} to i64")) as axis:
                size = text.load(text.element(shape, axis))
                with text.when(text.compare("ne", size, text.load(text.element(expected, axis)))):
                    text.give("i1 false")
        with text.when(text.let(f"xor i1 {array}, true")):
            with text.when(text.differ(kind, text.load("%node", NODE["object"], "ptr"))):
                text.give("i1 false")
            place.set(text.at("%object", layout.NUMBER))
        _enter(text, place.now)


def _enter(text: RoutineText, place: str) -> None:
    index = text.load("%node", NODE["index"])
    text.store(f"ptr {place}", text.element("%params", index))
    text.store("ptr %object", text.element("%objects", index))
    text.give("i1 true")


def _write_fits(text: RoutineText) -> None:
    """Whether an object is what a node describes, of any kind."""
    with text.routine("i1", "fits", "ptr %node", "ptr %object", *LISTS):
        kind = text.load("%node", NODE["kind"])

        def is_kind(node: Node) -> str:
            return text.compare("eq", kind, int(node))

        with text.when(is_kind(Node.ARRAY)):
            text.give(f"i1 {text.call('i1', '@array_fits', 'ptr %node', 'ptr %object', *LISTS)}")
        found = text.load("%object", layout.TYPE, "ptr")
        with text.when(is_kind(Node.TENSOR)):
            text.give(f"i1 {text.call('i1', '@tensor_fits', 'ptr %node', 'ptr %object', *LISTS)}")
        with text.when(is_kind(Node.SAME)):
            text.give(f"i1 {text.same('%object', text.load('%node', NODE['object'], 'ptr'))}")
        with text.when(is_kind(Node.FLOAT)):
            with text.when(text.differ(found, "@PyFloat_Type")):
                text.give("i1 false")
            _enter(text, text.at("%object", layout.NUMBER))
        with text.when(is_kind(Node.CONSTANT)):
            constant = text.load("%node", NODE["object"], "ptr")
            text.give(f"i1 {text.call('i1', '@alike', f'ptr {constant}', 'ptr %object')}")
        count, items = text.load("%node", NODE["count"]), text.load("%node", NODE["items"], "ptr")

        def check_item(index: str, item: str) -> None:
            node = text.load(text.element(items, index), kind="ptr")
            fits = text.call("i1", "@fits", f"ptr {node}", f"ptr {item}", *LISTS)
            with text.when(text.let(f"xor i1 {fits}, true")):
                text.give("i1 false")

        named = text.load("%node", NODE["object"], "ptr")
        for container, type_name in ((Node.TUPLE, "@PyTuple_Type"), (Node.LIST, "@PyList_Type"), (Node.NAMED, named)):
            with text.when(is_kind(container)):
                with text.when(text.differ(found, type_name)):
                    text.give("i1 false")
                with text.when(text.compare("ne", text.load("%object", layout.SIZE), count)):
                    text.give("i1 false")
                content = text.load("%object", layout.ITEMS, "ptr") if container is Node.LIST else text.at("%object", layout.ITEMS)
                with text.times(count) as index:
                    check_item(index, text.load(text.element(content, index), kind="ptr"))
                text.give("i1 true")
        with text.when(text.differ(found, "@PyDict_Type")):
            text.give("i1 false")
        with text.when(text.compare("ne", text.call("i64", "@PyDict_Size", "ptr %object"), count)):
            text.give("i1 false")
        position, key, value = text.variable(0), text.variable("null", "ptr"), text.variable("null", "ptr")
        keys = text.load("%node", NODE["keys"], "ptr")
        with text.times(count) as index:
            places = [f"ptr {variable.place}" for variable in (position, key, value)]
            there = text.call("i32", "@PyDict_Next", "ptr %object", *places)
            with text.when(text.compare("eq", there, 0, "i32")):
                text.give("i1 false")
            wanted = text.load(text.element(keys, index), kind="ptr")
            same = text.call("i1", "@alike", f"ptr {wanted}", f"ptr {key.now}")
            with text.when(text.let(f"xor i1 {same}, true")):
                text.give("i1 false")
            check_item(index, value.now)
        text.give("i1 true")


def _write_holds(text: RoutineText) -> None:
    """Whether every guard of a program finds the object that it wants."""
    with text.routine("i1", "holds", "ptr %program"):
        with each(text, "guards", GUARD) as guard:
            found = text.variable("null", "ptr")
            kind, place = text.load(guard, GUARD["kind"]), text.load(guard, GUARD["place"], "ptr")
            value = text.load(guard, GUARD["value"], "ptr")
            with text.when(text.compare("eq", kind, int(Guard.CELL))):
                found.set(text.load(place, layout.CELL, "ptr"))
            with text.when(text.compare("eq", kind, int(Guard.DICT))):
                key = text.load(guard, GUARD["key"], "ptr")
                found.set(text.call("ptr", "@PyDict_GetItemWithError", f"ptr {place}", f"ptr {key}"))
            with text.when(text.compare("eq", kind, int(Guard.LIST))):
                number = text.load(guard, GUARD["key"])
                with text.when(text.compare("ult", number, text.load(place, layout.SIZE))):
                    found.set(text.load(text.element(text.load(place, layout.ITEMS, "ptr"), number), kind="ptr"))
            with text.when(text.compare("eq", kind, int(Guard.SIZE))):      # `value` is a number here
                found.set(text.let(f"inttoptr i64 {text.load(place, layout.SIZE)} to ptr"))
            with text.when(text.compare("eq", kind, int(Guard.ATTRIBUTE))):
                found.set(text.call("ptr", "@attribute", f"ptr {place}", f"ptr {text.load(guard, GUARD['key'], 'ptr')}"))
            with text.when(text.compare("eq", kind, int(Guard.DIGEST))):
                _check_digest(text, text.load(guard, GUARD["key"], "ptr"), place)
            with text.when(text.compare("eq", kind, int(Guard.WORD))):
                found.set(text.load(text.at(place, text.load(guard, GUARD["key"])), kind="ptr"))
            with text.when(text.compare("eq", kind, int(Guard.TABLE))):
                holds = text.call("i1", "@table_holds", f"ptr {text.load(guard, GUARD['key'], 'ptr')}")
                with text.when(text.let(f"xor i1 {holds}, true")):
                    text.give("i1 false")
            with text.when(text.differ(found.now, value)):
                text.give("i1 false")
        text.give("i1 true")


def _check_digest(text: RoutineText, wanted: str, array: str) -> None:
    """Give up where an array has not the form or the digest that a guard wants."""
    def check(kind: str, there: str, field: str) -> None:
        with text.when(text.compare("ne", there, text.load(wanted, DIGEST[field], kind), kind)):
            text.give("i1 false")

    flag = text.load(wanted, DIGEST["flags"], "i32")
    check("i32", text.let(f"and i32 {text.load(array, layout.FLAGS, 'i32')}, {flag}"), "flags")
    rank = text.load(array, layout.RANK, "i32")
    check("i32", rank, "rank")
    shape, expected = text.load(array, layout.SHAPE, "ptr"), text.load(wanted, DIGEST["shape"], "ptr")
    with text.times(text.let(f"zext i32 {rank} to i64")) as axis:
        there = text.load(text.element(shape, axis))
        with text.when(text.compare("ne", there, text.load(text.element(expected, axis)))):
            text.give("i1 false")
    function, data = text.load(wanted, DIGEST["function"], "ptr"), text.load(array, layout.DATA, "ptr")
    count = text.load(wanted, DIGEST["bytes"])
    check("i64", text.let(f"call i64 {function}(ptr {data}, i64 {count})"), "digest")


def _write_apart(text: RoutineText) -> None:
    """Whether no donated parameter shares memory with another one. Addresses that were found apart are remembered: most come again."""
    with text.routine("i1", "apart", "ptr %program", "ptr %params"):
        count, donated = text.load("%program", PROGRAM["params"]), text.load("%program", PROGRAM["donated"], "ptr")
        ranges = text.load("%program", PROGRAM["ranges"], "ptr")

        def of(index: str) -> tuple[str, str, str]:
            """The start of a parameter, its size, and where its start is remembered."""
            pair = text.element(ranges, text.let(f"shl i64 {index}, 1"))
            return text.load(text.element("%params", index)), text.load(pair), text.at(pair, 8)

        with text.times(count) as first:
            start, size, known = of(first)
            same, empty = text.compare("eq", start, text.load(known)), text.compare("eq", size, 0)
            with text.when(text.let(f"or i1 {same}, {empty}")):
                text.again()
            writes = text.load(text.element(donated, first))
            with text.times(count) as second:
                other_start, other_size, _ = of(second)
                either = text.let(f"or i64 {writes}, {text.load(text.element(donated, second))}")
                before = text.compare("ult", start, text.add(other_start, other_size))
                after = text.compare("ult", other_start, text.add(start, size))
                conditions = (text.compare("ne", either, 0), text.compare("ne", first, second), before, after,
                              text.compare("ne", other_size, 0))
                together = conditions[0]
                for condition in conditions[1:]:
                    together = text.let(f"and i1 {together}, {condition}")
                with text.when(together):
                    text.give("i1 false")
        with text.times(count) as index:
            start, _, known = of(index)
            text.store(f"i64 {start}", known)
        text.give("i1 true")
