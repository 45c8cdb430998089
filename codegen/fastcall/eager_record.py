"""Nodes of calls on eager tensors that are recorded, as machine code: what `_record` in `eager/apply.py` does for operations of one result.

The routine of `eager_call` notes which operands are differentiated. What an operation saves is in words that its `Call` holds (`record`):
the number of saved values; for each its number among the operands, or among the results, below them, as -1 - number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from adjit.codegen.fastcall import object_layout as layout
from adjit.codegen.llvm.builder import Builder

OBJECTS = ("Node", "SavedTensor", "edge_of", "next_sequence", "zero", "_node", "_index", "_accumulator", "_requires_grad",
           "_writes", "operation", "edges", "saved", "sequence")
"""Names of the objects that the functions need."""

DECLARATIONS = "declare ptr @PyType_GenericAlloc(ptr, i64)\n"

Load = Callable[[Builder, str], str]


def write_record(text: Builder, slots: Mapping[str, int], load: Load) -> None:
    """Function `record(self, call, tensor, outs, arrays, tensors, count, wanted, number of wanted)`: give the tensor of a result its node.
    `tensors` has null for operands that are none. False, perhaps with an error, if there is no memory."""
    _write_edge(text, load)
    _write_edges(text)
    _write_saved(text, load)
    arguments = ("ptr %self", "ptr %call", "ptr %tensor", "ptr %outs", "ptr %arrays", "ptr %tensors", "i64 %count", "ptr %wanted",
                 "i64 %many")
    with text.function("record", *arguments, result="i1"):
        node = text.call("ptr", "@new_object", ("ptr", "%self"), ("ptr", load(text, "Node")))
        with text.if_(text.same(node, "null")):
            text.ret("i1", "false")
        edges = text.call("ptr", "@edges", ("ptr", "%self"), ("ptr", "%tensors"), ("i64", "%count"), ("ptr", "%wanted"), ("i64", "%many"))
        saved = text.call("ptr", "@saved", ("ptr", "%self"), ("ptr", text.load("ptr", "%call", slots["Call.record"])), ("ptr", "%tensor"),
                          ("ptr", "%outs"), ("ptr", "%arrays"), ("ptr", "%tensors"))
        sequence = _called(text, load(text, "next_sequence"))
        whole = text.variable("true", "i1")
        for made in (edges, saved, sequence):
            whole.set(text.both(whole.value, text.differ(made, "null")))
        operation = text.load("ptr", "%call", slots["Call.operation"])
        for name, value in (("operation", operation), ("edges", edges), ("saved", saved), ("sequence", sequence)):
            with text.if_(whole.value):
                whole.set(text.call("i1", "@set", ("ptr", node), ("ptr", load(text, name)), ("ptr", value)))
        for name, value in (("_node", node), ("_requires_grad", "@_Py_TrueStruct")):
            with text.if_(whole.value):
                whole.set(text.call("i1", "@set", ("ptr", "%tensor"), ("ptr", load(text, name)), ("ptr", value)))
        for made in (node, edges, saved, sequence):
            with text.if_(text.differ(made, "null")):
                text.call("void", "@Py_DecRef", ("ptr", made))
        text.ret("i1", whole.value)


def _called(text: Builder, function: str, argument: str = "null") -> str:
    """The result of a function without arguments, or of one that is at an address."""
    given = int(argument != "null")
    return text.call("ptr", "@PyObject_Vectorcall", ("ptr", function), ("ptr", argument), ("i64", given), ("ptr", "null"))


def _write_edge(text: Builder, load: Load) -> None:
    """The edge of a tensor that requires grad: a new tuple of the node that made it and its index, or of what accumulates its gradient."""
    with text.function("pair", "ptr %node", "ptr %index", result="ptr"):
        made = text.call("ptr", "@PyTuple_New", ("i64", 2))
        with text.if_(text.same(made, "null")):
            text.ret("ptr", "null")
        for place, value in enumerate(("%node", "%index")):
            text.call("void", "@Py_IncRef", ("ptr", value))
            text.store("ptr", value, made, layout.ITEMS + 8 * place)
        text.ret("ptr", made)
    with text.function("edge", "ptr %self", "ptr %tensor", result="ptr"):
        node, index, known = (text.call("ptr", "@attribute", ("ptr", "%tensor"), ("ptr", load(text, name)))
                              for name in ("_node", "_index", "_accumulator"))
        for found in (node, index, known):
            with text.if_(text.same(found, "null")):
                text.ret("ptr", "null")
        with text.if_(text.differ(node, "@_Py_NoneStruct")):
            text.ret("ptr", text.call("ptr", "@pair", ("ptr", node), ("ptr", index)))
        with text.if_(text.differ(known, "@_Py_NoneStruct")):
            made = _called(text, known)
            with text.if_(text.same(made, "null")):
                text.ret("ptr", "null")
            edge = text.variable("null", "ptr")
            is_there = text.differ(made, "@_Py_NoneStruct")
            with text.if_(is_there):
                edge.set(text.call("ptr", "@pair", ("ptr", made), ("ptr", load(text, "zero"))))
            text.call("void", "@Py_DecRef", ("ptr", made))
            with text.if_(is_there):
                text.ret("ptr", edge.value)
        argument = text.alloca("ptr")
        text.store("ptr", "%tensor", argument)
        text.ret("ptr", _called(text, load(text, "edge_of"), argument))


def _write_edges(text: Builder) -> None:
    """A tuple of the edges of all operands, None for those that are not differentiated."""
    with text.function("edges", "ptr %self", "ptr %tensors", "i64 %count", "ptr %wanted", "i64 %many", result="ptr"):
        made = text.call("ptr", "@PyTuple_New", ("i64", "%count"))
        with text.if_(text.same(made, "null")):
            text.ret("ptr", "null")
        with text.for_range(0, "%many", empty=True) as number:
            index = text.load("i64", text.at("%wanted", "i64", number.counter))
            edge = text.call("ptr", "@edge", ("ptr", "%self"), ("ptr", text.load("ptr", text.at("%tensors", "ptr", index))))
            with text.if_(text.same(edge, "null")):
                text.call("void", "@Py_DecRef", ("ptr", made))
                text.ret("ptr", "null")
            text.store("ptr", edge, text.at(made, "ptr", index), layout.ITEMS)
        with text.for_range(0, "%count", empty=True) as operand:
            place = text.at(text.at(made, "ptr", operand.counter), 1, layout.ITEMS)
            with text.if_(text.same(text.load("ptr", place), "null")):
                text.call("void", "@Py_IncRef", ("ptr", "@_Py_NoneStruct"))
                text.store("ptr", "@_Py_NoneStruct", place)
        text.ret("ptr", made)


def _write_saved(text: Builder, load: Load) -> None:
    """The list of saved values: an array, the count of writes of its tensor, and what it is now; None and 0 where there is no tensor."""
    with text.function("saved", "ptr %self", "ptr %record", "ptr %tensor", "ptr %outs", "ptr %arrays", "ptr %tensors", result="ptr"):
        words = text.load("ptr", "%record", layout.DATA)
        many = text.load("i64", words)
        made = text.call("ptr", "@PyList_New", ("i64", many))
        with text.if_(text.same(made, "null")):
            text.ret("ptr", "null")
        items = text.load("ptr", made, layout.ITEMS)
        with text.for_range(0, many, empty=True) as number:
            source, owner, array = text.load("i64", text.at(words, "i64", number.counter), 8), text.variable("null", "ptr"), \
                text.variable("null", "ptr")
            is_result = text.compare("slt", source, 0)
            with text.if_(is_result):
                index = text.sub(-1, source)
                array.set(text.load("ptr", text.at("%outs", "ptr", index)))
                with text.if_(text.compare("eq", index, 0)):
                    owner.set("%tensor")
            with text.if_(text.not_(is_result)):
                array.set(text.load("ptr", text.at("%arrays", "ptr", source)))
                owner.set(text.load("ptr", text.at("%tensors", "ptr", source)))
            counter, version = text.variable("@_Py_NoneStruct", "ptr"), text.variable(load(text, "zero"), "ptr")
            with text.if_(text.differ(owner.value, "null")):
                counter.set(text.call("ptr", "@attribute", ("ptr", owner.value), ("ptr", load(text, "_writes"))))
                with text.if_(text.differ(counter.value, "null")):
                    version.set(text.load("ptr", text.load("ptr", counter.value, layout.ITEMS)))
            item = text.variable("null", "ptr")
            with text.if_(text.differ(counter.value, "null")):
                item.set(text.call("ptr", "@PyType_GenericAlloc", ("ptr", load(text, "SavedTensor")), ("i64", 3)))
            with text.if_(text.same(item.value, "null")):
                text.call("void", "@Py_DecRef", ("ptr", made))
                text.ret("ptr", "null")
            for field, value in enumerate((array.value, counter.value, version.value)):
                text.call("void", "@Py_IncRef", ("ptr", value))
                text.store("ptr", value, item.value, layout.ITEMS + 8 * field)
            text.store("ptr", item.value, text.at(items, "ptr", number.counter))
        text.ret("ptr", made)
