"""The entry's look at tensors: that arguments are those of the trace, and what the program reads besides them is as it was.

Tensors keep what they hold in attributes, which are asked for by name: the names are in the record of the function.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from adjit.codegen.native.entry import object_layout as layout
from adjit.codegen.native.entry.records import CONTENT, FUNCTION, LOOK, NODE, NUMBER, PLACE, PROGRAM, TABLE, Record
from adjit.codegen.native.routine_text import RoutineText

DECLARATIONS = """
@_Py_NoneStruct = external global i8
declare ptr @PyObject_GetAttr(ptr, ptr)
"""

LISTS = ("ptr %function", "ptr %params", "ptr %objects", "ptr %leaves")
"""What routines that look at arguments fill in: of each parameter the address and the object, of each leaf of the call the tensor."""


def write_tensors(text: RoutineText) -> None:
    """`attribute` and `array_of` of a tensor, `tensor_fits`, and `surroundings_hold` of a program."""
    _write_attribute(text)
    _write_array_of(text)
    _write_is_current(text)
    _write_tensor_fits(text)
    _write_find(text)
    _write_numbers(text)
    _write_tables(text)
    _write_leaves_differ(text)
    _write_surroundings(text)


def _write_attribute(text: RoutineText) -> None:
    """What an object has under a name; null where it has nothing. The object keeps it alive."""
    with text.routine("ptr", "attribute", "ptr %object", "ptr %name"):
        found = text.call("ptr", "@PyObject_GetAttr", "ptr %object", "ptr %name")
        with text.when(text.same(found, "null")):
            text.call("void", "@PyErr_Clear")
            text.give("ptr null")
        text.call("void", "@Py_DecRef", f"ptr {found}")
        text.give(f"ptr {found}")


def _attribute(text: RoutineText, tensor: str, name: str) -> str:
    return text.call("ptr", "@attribute", f"ptr {tensor}", f"ptr {text.load('%function', FUNCTION[name], 'ptr')}")


def _write_array_of(text: RoutineText) -> None:
    """Whether a tensor requires grad, or does not, as is wanted, and holds the array that a node describes."""
    with text.routine("i1", "array_of_fits", "ptr %node", "ptr %tensor", "ptr %requires_grad", *LISTS):
        _unless(text, text.same(_attribute(text, "%tensor", "requires_grad"), "%requires_grad"))
        array = _attribute(text, "%tensor", "payload")
        _unless(text, text.differ(array, "null"))
        text.give(f"i1 {text.call('i1', '@array_fits', 'ptr %node', f'ptr {array}', *LISTS)}")


def _unless(text: RoutineText, condition: str) -> None:
    with text.when(text.let(f"xor i1 {condition}, true")):
        text.give("i1 false")


def _write_is_current(text: RoutineText) -> None:
    """Whether a tensor is no view, or one of a tensor whose graph was not changed since: then it is known whether it requires grad."""
    with text.routine("i1", "is_current", "ptr %function", "ptr %tensor"):
        view = _attribute(text, "%tensor", "view")
        with text.when(text.same(view, "@_Py_NoneStruct")):
            text.give("i1 true")
        root, outer = text.variable("%tensor", "ptr"), text.variable(view, "ptr")
        with text.loop():
            for variable, name in ((root, "parent"), (outer, "view")):
                owner = outer.now if name == "parent" else root.now
                _unless(text, text.differ(owner, "null"))
                variable.set(_attribute(text, owner, name))
            with text.when(text.same(outer.now, "@_Py_NoneStruct")):
                text.leave()
        then, now = _attribute(text, view, "history"), _attribute(text, root.now, "root_history")
        either = text.let(f"or i1 {text.same(then, 'null')}, {text.same(now, 'null')}")
        with text.when(either):
            text.give("i1 false")
        text.give(f"i1 {text.call('i1', '@alike', f'ptr {then}', f'ptr {now}')}")


def _write_tensor_fits(text: RoutineText) -> None:
    """Whether an argument is the tensor that a node of kind TENSOR describes; it is put into the list of leaves."""
    with text.routine("i1", "tensor_fits", "ptr %node", "ptr %tensor", *LISTS):
        _unless(text, text.same(text.load("%tensor", layout.TYPE, "ptr"), text.load("%node", NODE["object"], "ptr")))
        _unless(text, text.call("i1", "@is_current", "ptr %function", "ptr %tensor"))
        node, wanted = text.load("%node", NODE["items"], "ptr"), text.load("%node", NODE["keys"], "ptr")
        _unless(text, text.call("i1", "@array_of_fits", f"ptr {node}", "ptr %tensor", f"ptr {wanted}", *LISTS))
        text.store("ptr %tensor", text.element("%leaves", text.load("%node", NODE["count"])))
        text.give("i1 true")


def _write_find(text: RoutineText) -> None:
    """The tensor at a place; null, or None, where there is none."""
    with text.routine("ptr", "find", "ptr %place", *LISTS):
        tensor = text.variable(text.load("%place", PLACE["tensor"], "ptr"), "ptr")
        with text.when(text.same(tensor.now, "null")):
            tensor.set(text.load(text.element("%leaves", text.load("%place", PLACE["leaf"])), kind="ptr"))
        wanted = text.compare("ne", text.load("%place", PLACE["gradient"]), 0)
        with text.when(text.let(f"and i1 {wanted}, {text.differ(tensor.now, 'null')}")):
            tensor.set(_attribute(text, tensor.now, "gradient"))
        text.give(f"ptr {tensor.now}")


@contextmanager
def each(text: RoutineText, field: str, record: Record) -> Iterator[str]:
    """A loop over the records in a list of the program, with the address of each given."""
    records = text.load("%program", PROGRAM[field], "ptr")
    with text.times(text.load("%program", PROGRAM[f"{field}_count"])) as index:
        yield text.at(records, text.let(f"mul i64 {index}, {8 * len(record)}"))


def _write_numbers(text: RoutineText) -> None:
    """Whether the numbers that are read from optimisers are floats, and 0 or not as they were; they are put into the list of parameters."""
    with text.routine("i1", "numbers_fit", "ptr %program", *LISTS):
        with each(text, "numbers", NUMBER) as number:
            group, name = text.load(number, NUMBER["group"], "ptr"), text.load(number, NUMBER["name"], "ptr")
            found = text.variable(text.call("ptr", "@PyDict_GetItemWithError", f"ptr {group}", f"ptr {name}"), "ptr")
            _unless(text, text.differ(found.now, "null"))
            index = text.load(number, NUMBER["index"])
            with text.when(text.compare("sge", index, 0)):
                _unless(text, text.same(text.load(found.now, layout.TYPE, "ptr"), "@PyTuple_Type"))
                _unless(text, text.compare("slt", index, text.load(found.now, layout.SIZE)))
                found.set(text.load(text.element(text.at(found.now, layout.ITEMS), index), kind="ptr"))
            _unless(text, text.same(text.load(found.now, layout.TYPE, "ptr"), "@PyFloat_Type"))
            place = text.at(found.now, layout.NUMBER)
            zero = text.let(f"fcmp oeq double {text.load(place, kind='double')}, 0.0")
            _unless(text, text.compare("eq", text.let(f"zext i1 {zero} to i64"), text.load(number, NUMBER["zero"])))
            param = text.load(number, NUMBER["param"])
            text.store(f"ptr {place}", text.element("%params", param))
            text.store(f"ptr {found.now}", text.element("%objects", param))
        text.give("i1 true")


def _write_tables(text: RoutineText) -> None:
    """Whether a dict has the keys and values that it had, or a list the items, but for values that are null in the record."""
    with text.routine("i1", "table_holds", "ptr %table"):
        key, value, position = text.variable("null", "ptr"), text.variable("null", "ptr"), text.variable(0)
        place, count = text.load("%table", TABLE["place"], "ptr"), text.load("%table", TABLE["count"])
        _unless(text, text.compare("eq", text.load(place, layout.SIZE), count))
        keys, values = text.load("%table", TABLE["keys"], "ptr"), text.load("%table", TABLE["values"], "ptr")
        with text.times(count) as index:
            wanted = text.load(text.element(values, index), kind="ptr")
            with text.when(text.same(keys, "null")):        # a list
                value.set(text.load(text.element(text.load(place, layout.ITEMS, "ptr"), index), kind="ptr"))
            with text.when(text.differ(keys, "null")):
                places = [f"ptr {variable.place}" for variable in (position, key, value)]
                there = text.call("i32", "@PyDict_Next", f"ptr {place}", *places)
                _unless(text, text.compare("ne", there, 0, "i32"))
                _unless(text, text.same(key.now, text.load(text.element(keys, index), kind="ptr")))
            either = text.let(f"or i1 {text.same(wanted, 'null')}, {text.same(wanted, value.now)}")
            _unless(text, either)
        text.give("i1 true")
    with text.routine("i1", "tables_hold", "ptr %program"):
        with each(text, "tables", TABLE) as table:
            _unless(text, text.call("i1", "@table_holds", f"ptr {table}"))
        text.give("i1 true")


def _write_leaves_differ(text: RoutineText) -> None:
    """Whether no tensor is given twice, and none that the program reaches by itself."""
    with text.routine("i1", "leaves_differ", "ptr %program", "ptr %leaves"):
        leaves = text.load("%program", PROGRAM["leaves"])
        with text.times(leaves) as first:
            tensor = text.load(text.element("%leaves", first), kind="ptr")
            with text.when(text.same(tensor, "null")):
                text.again()
            with text.times(first) as second:
                _unless(text, text.differ(text.load(text.element("%leaves", second), kind="ptr"), tensor))
            with each(text, "contents", CONTENT) as content:
                own = text.load(content, CONTENT["tensor"], "ptr")
                reached = text.same(own, tensor)
                by_gradient = text.compare("ne", text.load(content, CONTENT["gradient"]), 0)
                _unless(text, text.let(f"or i1 {text.let(f'xor i1 {reached}, true')}, {by_gradient}"))
        text.give("i1 true")


def _write_surroundings(text: RoutineText) -> None:
    """Whether all that a program with tensors reads besides its arguments is as it was; it is put into the list of parameters."""
    with text.routine("i1", "surroundings_hold", "ptr %program", *LISTS):
        _unless(text, text.call("i1", "@leaves_differ", "ptr %program", "ptr %leaves"))
        with each(text, "contents", CONTENT) as content:
            tensor = text.call("ptr", "@find", f"ptr {content}", *LISTS)
            with text.when(text.let(f"or i1 {text.same(tensor, 'null')}, {text.same(tensor, '@_Py_NoneStruct')}")):
                text.give("i1 false")
            node, wanted = text.load(content, CONTENT["node"], "ptr"), text.load(content, CONTENT["requires_grad"], "ptr")
            _unless(text, text.call("i1", "@array_of_fits", f"ptr {node}", f"ptr {tensor}", f"ptr {wanted}", *LISTS))
        _unless(text, text.call("i1", "@numbers_fit", "ptr %program", *LISTS))
        with each(text, "looks", LOOK) as look:
            owner = text.call("ptr", "@find", f"ptr {look}", *LISTS)
            with text.when(text.let(f"or i1 {text.same(owner, 'null')}, {text.same(owner, '@_Py_NoneStruct')}")):
                text.give("i1 false")
            there = text.differ(_attribute(text, owner, "gradient"), "@_Py_NoneStruct")
            _unless(text, text.compare("eq", text.let(f"zext i1 {there} to i64"), text.load(look, LOOK["there"])))
        with each(text, "unhooked", PLACE) as place:
            hooks = _attribute(text, text.call("ptr", "@find", f"ptr {place}", *LISTS), "hooks")
            with text.when(text.differ(hooks, "@_Py_NoneStruct")):
                _unless(text, text.same(text.load(hooks, layout.TYPE, "ptr"), "@PyList_Type"))
                _unless(text, text.compare("eq", text.load(hooks, layout.SIZE), 0))
        text.give(f"i1 {text.call('i1', '@tables_hold', 'ptr %program')}")
