"""Tensor checks of the fast path: tensor arguments match the trace, and other tensors that the program reads are unchanged.

Tensors store their state in attributes, which are looked up by name: the names are in the FUNCTION descriptor.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from adjit.codegen.fastcall import object_layout as layout
from adjit.codegen.fastcall.descriptor_layout import (
    CONTENT,
    FUNCTION,
    GRADIENT_READ,
    NODE,
    NUMBER,
    PROGRAM,
    TABLE,
    TENSOR_REF,
    Descriptor,
    Node,
)
from adjit.codegen.llvm.builder import Builder

DECLARATIONS = """
@_Py_NoneStruct = external global i8
declare ptr @PyObject_GetAttr(ptr, ptr)
"""

CALL_LISTS = (("ptr", "%function"), ("ptr", "%params"), ("ptr", "%objects"), ("ptr", "%leaves"))
"""Arguments of the checks: for each parameter its address and its object, for each leaf of the call its tensor. Checks fill the lists."""


def write_tensors(text: Builder) -> None:
    """Functions `attribute` and `array_of_fits` of a tensor, `tensor_fits`, and `surroundings_hold` of a program."""
    _write_attribute(text)
    _write_array_of(text)
    _write_is_current(text)
    _write_tensor_fits(text)
    _write_find(text)
    _write_numbers(text)
    _write_tables(text)
    _write_leaves_differ(text)
    _write_surroundings(text)


def _write_attribute(text: Builder) -> None:
    """Attribute of an object by name; null if the object has none. The reference is borrowed from the object."""
    with text.function("attribute", "ptr %object", "ptr %name", result="ptr"):
        found = text.call("ptr", "@PyObject_GetAttr", ("ptr", "%object"), ("ptr", "%name"))
        with text.if_(text.same(found, "null")):
            text.call("void", "@PyErr_Clear")
            text.ret("ptr", "null")
        text.call("void", "@Py_DecRef", ("ptr", found))
        text.ret("ptr", found)


def _attribute(text: Builder, tensor: str, name: str) -> str:
    return text.call("ptr", "@attribute", ("ptr", tensor), ("ptr", text.load("ptr", "%function", FUNCTION[name])))


def _write_array_of(text: Builder) -> None:
    """True if a tensor's `requires_grad` is the expected one, and the tensor holds the array that a node describes."""
    with text.function("array_of_fits", "ptr %node", "ptr %tensor", "ptr %requires_grad", *CALL_LISTS, result="i1"):
        _unless(text, text.same(_attribute(text, "%tensor", "requires_grad"), "%requires_grad"))
        array = _attribute(text, "%tensor", "array")
        _unless(text, text.differ(array, "null"))
        with text.if_(text.compare("eq", text.load("i64", "%node", NODE["kind"]), int(Node.DEVICE))):
            text.ret("i1", text.call("i1", "@device_fits", ("ptr", "%node"), ("ptr", array), *CALL_LISTS))
        text.ret("i1", text.call("i1", "@array_fits", ("ptr", "%node"), ("ptr", array), *CALL_LISTS))


def _unless(text: Builder, condition: str) -> None:
    with text.if_(text.not_(condition)):
        text.ret("i1", "false")


def _write_is_current(text: Builder) -> None:
    """True if a tensor is no view, or a view of a tensor whose graph has not changed since: then its `requires_grad` is up to date."""
    with text.function("is_current", "ptr %function", "ptr %tensor", result="i1"):
        view = _attribute(text, "%tensor", "view")
        with text.if_(text.same(view, "@_Py_NoneStruct")):
            text.ret("i1", "true")
        root, outer = text.variable("%tensor", "ptr"), text.variable(view, "ptr")
        with text.loop():
            for variable, name in ((root, "parent"), (outer, "view")):
                owner = outer.value if name == "parent" else root.value
                _unless(text, text.differ(owner, "null"))
                variable.set(_attribute(text, owner, name))
            with text.if_(text.same(outer.value, "@_Py_NoneStruct")):
                text.break_()
        then, now = _attribute(text, view, "history"), _attribute(text, root.value, "root_history")
        either = text.either(text.same(then, "null"), text.same(now, "null"))
        with text.if_(either):
            text.ret("i1", "false")
        text.ret("i1", text.call("i1", "@alike", ("ptr", then), ("ptr", now)))


def _write_tensor_fits(text: Builder) -> None:
    """True if an argument is the tensor that a node of kind TENSOR describes. The tensor is added to the list of leaves."""
    with text.function("tensor_fits", "ptr %node", "ptr %tensor", *CALL_LISTS, result="i1"):
        _unless(text, text.same(text.load("ptr", "%tensor", layout.TYPE), text.load("ptr", "%node", NODE["object"])))
        _unless(text, text.call("i1", "@is_current", ("ptr", "%function"), ("ptr", "%tensor")))
        node, wanted = text.load("ptr", "%node", NODE["items"]), text.load("ptr", "%node", NODE["keys"])
        _unless(text, text.call("i1", "@array_of_fits", ("ptr", node), ("ptr", "%tensor"), ("ptr", wanted), *CALL_LISTS))
        text.store("ptr", "%tensor", text.at("%leaves", "i64", text.load("i64", "%node", NODE["count"])))
        text.ret("i1", "true")


def _write_find(text: Builder) -> None:
    """The tensor of a TENSOR_REF; null, or None, if there is none."""
    with text.function("find", "ptr %place", *CALL_LISTS, result="ptr"):
        tensor = text.variable(text.load("ptr", "%place", TENSOR_REF["tensor"]), "ptr")
        with text.if_(text.same(tensor.value, "null")):
            tensor.set(text.load("ptr", text.at("%leaves", "i64", text.load("i64", "%place", TENSOR_REF["leaf"]))))
        wanted = text.compare("ne", text.load("i64", "%place", TENSOR_REF["gradient"]), 0)
        with text.if_(text.both(wanted, text.differ(tensor.value, "null"))):
            tensor.set(_attribute(text, tensor.value, "gradient"))
        text.ret("ptr", tensor.value)


@contextmanager
def each(text: Builder, field: str, descriptor: Descriptor) -> Iterator[str]:
    """A loop over the descriptors in a list of the program. Yields the address of each."""
    records = text.load("ptr", "%program", PROGRAM[field])
    with text.for_range(0, text.load("i64", "%program", PROGRAM[f"{field}_count"]), empty=True) as index:
        yield text.at(records, 1, text.mul(index.counter, 8 * len(descriptor)))


def _write_numbers(text: Builder) -> None:
    """True if the numbers read from optimisers are floats, and zero or nonzero as before. They are added to the list of parameters."""
    with text.function("numbers_fit", "ptr %program", *CALL_LISTS, result="i1"):
        with each(text, "numbers", NUMBER) as number:
            group, name = text.load("ptr", number, NUMBER["group"]), text.load("ptr", number, NUMBER["name"])
            found = text.variable(text.call("ptr", "@PyDict_GetItemWithError", ("ptr", group), ("ptr", name)), "ptr")
            _unless(text, text.differ(found.value, "null"))
            index = text.load("i64", number, NUMBER["index"])
            with text.if_(text.compare("sge", index, 0)):
                _unless(text, text.same(text.load("ptr", found.value, layout.TYPE), "@PyTuple_Type"))
                _unless(text, text.compare("slt", index, text.load("i64", found.value, layout.SIZE)))
                found.set(text.load("ptr", text.at(text.at(found.value, 1, layout.ITEMS), "i64", index)))
            _unless(text, text.same(text.load("ptr", found.value, layout.TYPE), "@PyFloat_Type"))
            address = text.at(found.value, 1, layout.NUMBER)
            zero = text.let(f"fcmp oeq double {text.load('double', address)}, 0.0")
            _unless(text, text.compare("eq", text.let(f"zext i1 {zero} to i64"), text.load("i64", number, NUMBER["zero"])))
            param = text.load("i64", number, NUMBER["param"])
            text.store("ptr", address, text.at("%params", "i64", param))
            text.store("ptr", found.value, text.at("%objects", "i64", param))
        text.ret("i1", "true")


def _write_tables(text: Builder) -> None:
    """True if a dict has the expected keys and values, or a list the expected items. A null value in the descriptor matches any object."""
    with text.function("table_holds", "ptr %table", result="i1"):
        key, value, position = text.variable("null", "ptr"), text.variable("null", "ptr"), text.variable(0)
        address, count = text.load("ptr", "%table", TABLE["holder"]), text.load("i64", "%table", TABLE["count"])
        _unless(text, text.compare("eq", text.load("i64", address, layout.SIZE), count))
        keys, values = text.load("ptr", "%table", TABLE["keys"]), text.load("ptr", "%table", TABLE["values"])
        with text.for_range(0, count, empty=True) as index:
            wanted = text.load("ptr", text.at(values, "i64", index.counter))
            with text.if_(text.same(keys, "null")):        # a list
                value.set(text.load("ptr", text.at(text.load("ptr", address, layout.ITEMS), "i64", index.counter)))
            with text.if_(text.differ(keys, "null")):
                addresses = [("ptr", variable.address) for variable in (position, key, value)]
                there = text.call("i32", "@PyDict_Next", ("ptr", address), *addresses)
                _unless(text, text.compare("ne", there, 0, "i32"))
                _unless(text, text.same(key.value, text.load("ptr", text.at(keys, "i64", index.counter))))
            either = text.either(text.same(wanted, "null"), text.same(wanted, value.value))
            _unless(text, either)
        text.ret("i1", "true")
    with text.function("tables_hold", "ptr %program", result="i1"):
        with each(text, "tables", TABLE) as table:
            _unless(text, text.call("i1", "@table_holds", ("ptr", table)))
        text.ret("i1", "true")


def _write_leaves_differ(text: Builder) -> None:
    """True if no tensor is passed twice, and none of the tensors that the program captures is passed."""
    with text.function("leaves_differ", "ptr %program", "ptr %leaves", result="i1"):
        leaves = text.load("i64", "%program", PROGRAM["leaves"])
        with text.for_range(0, leaves, empty=True) as first:
            tensor = text.load("ptr", text.at("%leaves", "i64", first.counter))
            with text.if_(text.same(tensor, "null")):
                text.continue_()
            with text.for_range(0, first.counter, empty=True) as second:
                _unless(text, text.differ(text.load("ptr", text.at("%leaves", "i64", second.counter)), tensor))
            with each(text, "contents", CONTENT) as content:
                own = text.load("ptr", content, CONTENT["tensor"])
                reached = text.same(own, tensor)
                by_gradient = text.compare("ne", text.load("i64", content, CONTENT["gradient"]), 0)
                _unless(text, text.either(text.not_(reached), by_gradient))
        text.ret("i1", "true")


def _write_surroundings(text: Builder) -> None:
    """True if everything that a program with tensors reads besides its arguments is unchanged. Captured values are added to the
    parameters."""
    with text.function("surroundings_hold", "ptr %program", *CALL_LISTS, result="i1"):
        _unless(text, text.call("i1", "@leaves_differ", ("ptr", "%program"), ("ptr", "%leaves")))
        with each(text, "contents", CONTENT) as content:
            tensor = text.call("ptr", "@find", ("ptr", content), *CALL_LISTS)
            with text.if_(text.either(text.same(tensor, "null"), text.same(tensor, "@_Py_NoneStruct"))):
                text.ret("i1", "false")
            node, wanted = text.load("ptr", content, CONTENT["node"]), text.load("ptr", content, CONTENT["requires_grad"])
            _unless(text, text.call("i1", "@array_of_fits", ("ptr", node), ("ptr", tensor), ("ptr", wanted), *CALL_LISTS))
        _unless(text, text.call("i1", "@numbers_fit", ("ptr", "%program"), *CALL_LISTS))
        with each(text, "gradient_reads", GRADIENT_READ) as read:
            owner = text.call("ptr", "@find", ("ptr", read), *CALL_LISTS)
            with text.if_(text.either(text.same(owner, "null"), text.same(owner, "@_Py_NoneStruct"))):
                text.ret("i1", "false")
            there = text.differ(_attribute(text, owner, "gradient"), "@_Py_NoneStruct")
            _unless(text, text.compare("eq", text.let(f"zext i1 {there} to i64"), text.load("i64", read, GRADIENT_READ["there"])))
        with each(text, "unhooked_tensors", TENSOR_REF) as address:
            hooks = _attribute(text, text.call("ptr", "@find", ("ptr", address), *CALL_LISTS), "hooks")
            with text.if_(text.differ(hooks, "@_Py_NoneStruct")):
                _unless(text, text.same(text.load("ptr", hooks, layout.TYPE), "@PyList_Type"))
                _unless(text, text.compare("eq", text.load("i64", hooks, layout.SIZE), 0))
        text.ret("i1", text.call("i1", "@tables_hold", ("ptr", "%program")))
