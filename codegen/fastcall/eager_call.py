"""Calls of operations on eager tensors as machine code: a call that is known, from its key to the tensor of its result, and its node if it
is recorded (`eager_record`).

    known_call(function, x, ..., name=...)  # the result; None for calls that are left to `eager/apply.py`, which nothing has changed for

The routine is a function of Python's (`METH_FASTCALL | METH_KEYWORDS`) whose `self` is a tuple of the objects that it needs, `OBJECTS`. It
makes the key that `apply` makes, asks the same table, calls the same function of arrays, and makes the same tensor.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from adjit.codegen.fastcall import eager_record
from adjit.codegen.fastcall import object_layout as layout
from adjit.codegen.llvm.builder import Builder
from adjit.codegen.llvm.link import CompiledObject
from adjit.codegen.llvm.object_code import emit_object
from adjit.codegen.llvm.target import TARGETS

SYMBOL = "adjit_eager_call"

OBJECTS = (
    "Tensor", "View", "ndarray", "dtype", "int", "float", "bool", "str", "NoneType", "ellipsis", "tuple", "Size", "list",
    "array", "_writes", "_requires_grad", "_view", "_history", "context", "autocast",
    "known_calls", "dynamic", "hashable", "thread", "switches", "IndexError", "RuntimeError", "no_items", "zero", "new_object",
    "modes", "grad", "anomaly", "run", *(name for name in eager_record.OBJECTS if name not in ("zero", "_requires_grad", "_writes")),
)
"""Names of the objects in `self`. `new_object` is the address of the function that makes an empty object of a class."""

SLOTS = (
    "Call.is_plain", "Call.is_one_view", "Call.is_several", "Call.is_view", "Call.run", "Call.operation", "Call.pack", "Call.record",
    "ThreadContext.scopes", "ThreadContext.silently", "View.parent", "View.operation", "View.index", "View.at", "View.history",
)
"""Slots of objects of ours, whose offsets the text holds."""

MAX_ARGUMENTS, MAX_ITEMS = 6, 16
"""Arguments of a call, and tensors in a list."""

_ARRAYS, _KEYS = MAX_ARGUMENTS * MAX_ITEMS, 2 + MAX_ARGUMENTS * (3 + 2 * MAX_ITEMS)

_WANTED, _TENSORS = 8 * 2, 8 * (2 + _ARRAYS)
"""Offsets behind the count of operands, which the count of those that are recorded follows: their numbers, and the tensor of each operand,
null if it is none."""

_DECLARATIONS = """
@_Py_NoneStruct = external global i8
@_Py_TrueStruct = external global i8
@_Py_FalseStruct = external global i8
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare void @PyErr_Clear()
declare ptr @PyErr_Occurred()
declare i32 @PyErr_ExceptionMatches(ptr)
declare ptr @PyObject_GetAttr(ptr, ptr)
declare i32 @PyObject_SetAttr(ptr, ptr, ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare i32 @PyObject_RichCompareBool(ptr, ptr, i32)
declare i32 @PyType_IsSubtype(ptr, ptr)
declare i32 @PySet_Contains(ptr, ptr)
declare ptr @PyTuple_New(i64)
declare ptr @PyList_New(i64)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyLong_AsVoidPtr(ptr)
declare double @PyLong_AsDouble(ptr)
declare ptr @PyFloat_FromDouble(double)
declare ptr @PyDict_GetItemWithError(ptr, ptr)
""" + eager_record.DECLARATIONS

_KEY = ("ptr %self", "ptr %keys", "ptr %used", "ptr %arrays", "ptr %count")
_KEY_ARGUMENTS = (("ptr", "%self"), ("ptr", "%keys"), ("ptr", "%used"), ("ptr", "%arrays"), ("ptr", "%count"))


def eager_call_text(slots: Mapping[str, int]) -> str:
    """The text of the module, for objects with these offsets of `SLOTS`."""
    text = Builder(_DECLARATIONS)
    _write_references(text)
    _write_is_current(text, slots)
    _write_add_array(text)
    _write_add_tensor(text)
    _write_add_items(text)
    _write_add_number(text)
    _write_describe(text)
    _write_find(text)
    _write_set(text)
    _write_new_view(text, slots)
    _write_new_tensor(text)
    _write_as_tensor(text, slots)
    eager_record.write_record(text, slots, _object)
    _write_run_recorded(text, slots)
    _write_run(text, slots)
    _write_call(text, slots)
    return str(text)


def compile_eager_call(text: str) -> CompiledObject:
    """Object code of the routine, for x86-64."""
    return CompiledObject(emit_object(text, TARGETS["sse2"], verify=True, promote=True), SYMBOL)


def _object(text: Builder, name: str) -> str:
    return text.load("ptr", "%self", layout.ITEMS + 8 * OBJECTS.index(name))


def _unless(text: Builder, condition: str, type: str = "i1", value: str = "false") -> None:
    with text.if_(text.not_(condition)):
        text.ret(type, value)


def _is_type(text: Builder, type: str, name: str) -> str:
    return text.same(type, _object(text, name))


def _write_references(text: Builder) -> None:
    """`drop` references of a list, and `attribute`, an attribute that its object keeps alive; null if there is none."""
    with text.function("drop", "ptr %objects", "i64 %count"), text.for_range(0, "%count", empty=True) as index:
        text.call("void", "@Py_DecRef", ("ptr", text.load("ptr", text.at("%objects", "i64", index.counter))))
    with text.function("attribute", "ptr %object", "ptr %name", result="ptr"):
        found = text.call("ptr", "@PyObject_GetAttr", ("ptr", "%object"), ("ptr", "%name"))
        with text.if_(text.same(found, "null")):
            text.call("void", "@PyErr_Clear")
            text.ret("ptr", "null")
        text.call("void", "@Py_DecRef", ("ptr", found))
        text.ret("ptr", found)
    with text.function("push", "ptr %object", "ptr %list", "ptr %length"):
        length = text.load("i64", "%length")
        text.store("ptr", "%object", text.at("%list", "i64", length))
        text.store("i64", text.add(length, 1), "%length")
    with text.function("push_new", "ptr %object", "ptr %list", "ptr %length"):
        text.call("void", "@Py_IncRef", ("ptr", "%object"))
        text.call("void", "@push", ("ptr", "%object"), ("ptr", "%list"), ("ptr", "%length"))


def _attribute(text: Builder, owner: str, name: str) -> str:
    return text.call("ptr", "@attribute", ("ptr", owner), ("ptr", _object(text, name)))


def _add_key(text: Builder, value: str, push: str = "push_new") -> None:
    text.call("void", f"@{push}", ("ptr", value), ("ptr", "%keys"), ("ptr", "%used"))


def _write_is_current(text: Builder, slots: Mapping[str, int]) -> None:
    """True if no write in place has changed the graph of a view's base since the view looked."""
    with text.function("is_current", "ptr %self", "ptr %view", result="i1"):
        parent = text.variable(text.load("ptr", "%view", slots["View.parent"]), "ptr")
        with text.loop():
            with text.if_(text.same(parent.value, "null")):
                text.ret("i1", "false")
            outer = _attribute(text, parent.value, "_view")
            with text.if_(text.same(outer, "@_Py_NoneStruct")):
                text.break_()
            with text.if_(text.same(outer, "null")):
                text.ret("i1", "false")
            parent.set(text.load("ptr", outer, slots["View.parent"]))
        seen, now = text.load("ptr", "%view", slots["View.history"]), _attribute(text, parent.value, "_history")
        _unless(text, text.both(text.differ(seen, "null"), text.differ(now, "null")))
        with text.if_(text.same(seen, now)):
            text.ret("i1", "true")
        text.ret("i1", text.compare("eq", text.call("i32", "@PyObject_RichCompareBool", ("ptr", seen), ("ptr", now), ("i32", 2)), 1, "i32"))


def _write_add_tensor(text: Builder) -> None:
    """Add dtype and shape of a tensor to the key, its array to the arrays, and its number to those of operands that are recorded, if it is;
    false for one that is traced."""
    with text.function("add_tensor", *_KEY, "ptr %tensor", result="i1"):
        requires_grad = _attribute(text, "%tensor", "_requires_grad")
        is_recorded = text.same(requires_grad, "@_Py_TrueStruct")
        _unless(text, text.either(is_recorded, text.same(requires_grad, "@_Py_FalseStruct")))
        view = _attribute(text, "%tensor", "_view")
        _unless(text, text.differ(view, "null"))
        with text.if_(text.differ(view, "@_Py_NoneStruct")):
            _unless(text, text.call("i1", "@is_current", ("ptr", "%self"), ("ptr", view)))
        array = _attribute(text, "%tensor", "array")
        _unless(text, text.differ(array, "null"))
        _unless(text, _is_type(text, text.load("ptr", array, layout.TYPE), "ndarray"))
        index = text.load("i64", "%count")
        with text.if_(is_recorded):
            number = text.load("i32", text.load("ptr", array, layout.DESCR), layout.TYPE_NUMBER)
            _unless(text, text.either(*(text.compare("eq", number, np.dtype(name).num, "i32") for name in ("f4", "f8"))))
            many = text.load("i64", "%count", 8)
            text.store("i64", index, text.at("%count", "i64", many), _WANTED)
            text.store("i64", text.add(many, 1), "%count", 8)
        _unless(text, text.call("i1", "@add_array", *_KEY_ARGUMENTS, ("ptr", array)))
        text.call("void", "@Py_IncRef", ("ptr", "%tensor"))
        text.store("ptr", "%tensor", text.at("%count", "ptr", index), _TENSORS)
        text.ret("i1", "true")


def _write_add_array(text: Builder) -> None:
    """Add dtype and shape of an array to the key, and the array to the arrays."""
    with text.function("add_array", *_KEY, "ptr %array", result="i1"):
        array = "%array"
        rank = text.convert("sext", "i32", text.load("i32", array, layout.RANK), "i64")
        shape = text.call("ptr", "@PyTuple_New", ("i64", rank))
        with text.if_(text.same(shape, "null")):
            text.call("void", "@PyErr_Clear")
            text.ret("i1", "false")
        lengths = text.load("ptr", array, layout.SHAPE)
        with text.for_range(0, rank, empty=True) as axis:
            number = text.call("ptr", "@PyLong_FromLongLong", ("i64", text.load("i64", text.at(lengths, "i64", axis.counter))))
            with text.if_(text.same(number, "null")):
                text.call("void", "@PyErr_Clear")
                text.call("void", "@Py_DecRef", ("ptr", shape))
                text.ret("i1", "false")
            text.store("ptr", number, text.at(shape, "i64", axis.counter), layout.ITEMS)
        _add_key(text, text.load("ptr", array, layout.DESCR))
        _add_key(text, shape, "push")
        text.store("ptr", "null", text.at("%count", "ptr", text.load("i64", "%count")), _TENSORS)
        text.call("void", "@push_new", ("ptr", array), ("ptr", "%arrays"), ("ptr", "%count"))
        text.ret("i1", "true")


def _write_add_items(text: Builder) -> None:
    """Add a list of tensors to the key, or a tuple of integers, None, ellipses and, from slices, tuples; false for others."""
    with text.function("add_list", *_KEY, "ptr %list", result="i1"):
        size = text.load("i64", "%list", layout.SIZE)
        _unless(text, text.compare("ult", size, MAX_ITEMS + 1))
        _add_key(text, _object(text, "list"))
        number = text.call("ptr", "@PyLong_FromLongLong", ("i64", size))
        _unless(text, text.differ(number, "null"))
        _add_key(text, number, "push")
        with text.for_range(0, size, empty=True) as index:
            # the list is read anew each time: attributes may be properties
            _unless(text, text.compare("eq", text.load("i64", "%list", layout.SIZE), size))
            item = text.load("ptr", text.at(text.load("ptr", "%list", layout.ITEMS), "i64", index.counter))
            _unless(text, text.call("i1", "@is_tensor", ("ptr", "%self"), ("ptr", item)))
            _unless(text, text.call("i1", "@add_tensor", *_KEY_ARGUMENTS, ("ptr", item)))
        text.ret("i1", "true")
    with text.function("add_tuple", *_KEY, "ptr %tuple", result="i1"):
        with text.for_range(0, text.load("i64", "%tuple", layout.SIZE), empty=True) as index:
            kind = text.load("ptr", text.load("ptr", text.at("%tuple", "i64", index.counter), layout.ITEMS), layout.TYPE)
            numbers = text.either(_is_type(text, kind, "int"), _is_type(text, kind, "NoneType"))
            _unless(text, text.either(numbers, text.either(_is_type(text, kind, "ellipsis"), _is_type(text, kind, "tuple"))))
        _add_key(text, _object(text, "hashable"))
        _add_key(text, "%tuple")
        text.ret("i1", "true")
    with text.function("is_tensor", "ptr %self", "ptr %object", result="i1"):
        kind, tensor = text.load("ptr", "%object", layout.TYPE), _object(text, "Tensor")
        with text.if_(text.same(kind, tensor)):
            text.ret("i1", "true")
        text.ret("i1", text.compare("ne", text.call("i32", "@PyType_IsSubtype", ("ptr", kind), ("ptr", tensor)), 0, "i32"))


def _write_add_number(text: Builder) -> None:
    """Add a Python number to the key; of functions for which it is an operand its type alone, and the number to the arrays, an integer
    behind float32 or float64 as a float. False for other integers there, and for floats that are equal without being the same."""
    with text.function("add_number", *_KEY, "ptr %function", "ptr %number", "ptr %kind", result="i1"):
        is_dynamic = text.call("i32", "@PySet_Contains", ("ptr", _object(text, "dynamic")), ("ptr", "%function"))
        with text.if_(text.compare("slt", is_dynamic, 0, "i32")):
            text.call("void", "@PyErr_Clear")
            text.ret("i1", "false")
        is_float = _is_type(text, "%kind", "float")
        with text.if_(text.compare("ne", is_dynamic, 0, "i32")):
            text.store("ptr", "null", text.at("%count", "ptr", text.load("i64", "%count")), _TENSORS)
            with text.if_(is_float):
                _add_key(text, "%kind")
                text.call("void", "@push_new", ("ptr", "%number"), ("ptr", "%arrays"), ("ptr", "%count"))
                text.ret("i1", "true")
            _unless(text, text.compare("eq", text.load("i64", "%count"), 1))
            descr = text.load("ptr", text.load("ptr", "%arrays"), layout.DESCR)
            number = text.load("i32", descr, layout.TYPE_NUMBER)
            _unless(text, text.either(*(text.compare("eq", number, np.dtype(name).num, "i32") for name in ("f4", "f8"))))
            converted = text.call("double", "@PyLong_AsDouble", ("ptr", "%number"))
            with text.if_(text.differ(text.call("ptr", "@PyErr_Occurred"), "null")):
                text.call("void", "@PyErr_Clear")
                text.ret("i1", "false")
            made = text.call("ptr", "@PyFloat_FromDouble", ("double", converted))
            with text.if_(text.same(made, "null")):
                text.call("void", "@PyErr_Clear")
                text.ret("i1", "false")
            _add_key(text, _object(text, "float"))
            text.call("void", "@push", ("ptr", made), ("ptr", "%arrays"), ("ptr", "%count"))
            text.ret("i1", "true")
        with text.if_(is_float):
            _unless(text, text.let(f"fcmp one double {text.load('double', '%number', layout.NUMBER)}, 0.0"))
        _add_key(text, "%kind")
        _add_key(text, "%number")
        text.ret("i1", "true")


def _write_describe(text: Builder) -> None:
    """Add an argument of `function` to the key, as `describe` in `eager/call.py` does; false for one that is left to it."""
    with text.function("describe", *_KEY, "ptr %function", "ptr %argument", result="i1"):
        with text.if_(text.call("i1", "@is_tensor", ("ptr", "%self"), ("ptr", "%argument"))):
            text.ret("i1", text.call("i1", "@add_tensor", *_KEY_ARGUMENTS, ("ptr", "%argument")))
        kind = text.load("ptr", "%argument", layout.TYPE)
        with text.if_(text.either(_is_type(text, kind, "int"), _is_type(text, kind, "float"))):
            text.ret("i1", text.call("i1", "@add_number", *_KEY_ARGUMENTS, ("ptr", "%function"), ("ptr", "%argument"), ("ptr", kind)))
        for name, add in (("tuple", "add_tuple"), ("Size", "add_tuple"), ("list", "add_list"), ("ndarray", "add_array")):
            with text.if_(_is_type(text, kind, name)):
                text.ret("i1", text.call("i1", f"@{add}", *_KEY_ARGUMENTS, ("ptr", "%argument")))
        with text.if_(text.compare("ne", text.call("i32", "@PyType_IsSubtype", ("ptr", kind), ("ptr", _object(text, "dtype"))), 0, "i32")):
            _add_key(text, "%argument")
            text.ret("i1", "true")
        _unless(text, text.either(_is_type(text, kind, "bool"), text.either(_is_type(text, kind, "str"), _is_type(text, kind, "NoneType"))))
        _add_key(text, kind)
        _add_key(text, "%argument")
        text.ret("i1", "true")


def _write_find(text: Builder) -> None:
    """The call for the objects of a key, whose references are taken; null if there is none."""
    with text.function("find", "ptr %self", "ptr %keys", "i64 %used", result="ptr"):
        key = text.call("ptr", "@PyTuple_New", ("i64", "%used"))
        with text.if_(text.same(key, "null")):
            text.call("void", "@PyErr_Clear")
            text.call("void", "@drop", ("ptr", "%keys"), ("i64", "%used"))
            text.ret("ptr", "null")
        with text.for_range(0, "%used", empty=True) as index:
            text.store("ptr", text.load("ptr", text.at("%keys", "i64", index.counter)), text.at(key, "i64", index.counter), layout.ITEMS)
        found = text.call("ptr", "@PyDict_GetItemWithError", ("ptr", _object(text, "known_calls")), ("ptr", key))
        with text.if_(text.same(found, "null")):
            text.call("void", "@PyErr_Clear")
            text.call("void", "@Py_DecRef", ("ptr", key))
            text.ret("ptr", "null")
        text.call("void", "@Py_IncRef", ("ptr", found))
        text.call("void", "@Py_DecRef", ("ptr", key))
        text.ret("ptr", found)


def _write_set(text: Builder) -> None:
    """Make an object of a class, and set an attribute by name."""
    with text.function("new_object", "ptr %self", "ptr %class", result="ptr"):
        make = text.call("ptr", "@PyLong_AsVoidPtr", ("ptr", _object(text, "new_object")))
        text.ret("ptr", text.call("ptr", make, ("ptr", "%class"), ("ptr", _object(text, "no_items")), ("ptr", "null")))
    with text.function("set", "ptr %object", "ptr %name", "ptr %value", result="i1"):
        status = text.call("i32", "@PyObject_SetAttr", ("ptr", "%object"), ("ptr", "%name"), ("ptr", "%value"))
        text.ret("i1", text.compare("eq", status, 0, "i32"))


def _write_new_view(text: Builder, slots: Mapping[str, int]) -> None:
    """The view that an array is of a tensor, by an operation; null, perhaps with an error, if it shares no memory with the tensor."""
    arguments = ("ptr %self", "ptr %base", "ptr %memory", "ptr %array", "ptr %operation", "i64 %index")
    with text.function("new_view", *arguments, result="ptr"):
        owner = text.load("ptr", "%array", layout.BASE)
        with text.if_(text.differ(owner, "%memory")):
            shares = text.both(text.differ(owner, "null"), text.same(owner, text.load("ptr", "%memory", layout.BASE)))
            _unless(text, shares, "ptr", "null")
        outer = _attribute(text, "%base", "_view")
        _unless(text, text.differ(outer, "null"), "ptr", "null")
        history = text.variable(_attribute(text, "%base", "_history"), "ptr")
        with text.if_(text.differ(outer, "@_Py_NoneStruct")):       # which is that of its root: it is current
            history.set(text.load("ptr", outer, slots["View.history"]))
        _unless(text, text.differ(history.value, "null"), "ptr", "null")
        view = text.call("ptr", "@new_object", ("ptr", "%self"), ("ptr", _object(text, "View")))
        _unless(text, text.differ(view, "null"), "ptr", "null")
        number = text.call("ptr", "@PyLong_FromLongLong", ("i64", "%index"))
        text.store("ptr", number, view, slots["View.index"])
        for name, value in (("parent", "%base"), ("operation", "%operation"), ("at", _object(text, "no_items")),
                            ("history", history.value)):
            text.call("void", "@Py_IncRef", ("ptr", value))
            text.store("ptr", value, view, slots[f"View.{name}"])
        with text.if_(text.same(number, "null")):
            text.call("void", "@Py_DecRef", ("ptr", view))
            text.ret("ptr", "null")
        text.ret("ptr", view)


def _write_new_tensor(text: Builder) -> None:
    """A tensor around an array, with the count of writes of its memory, or a new one for null; null, with an error, without memory."""
    with text.function("new_tensor", "ptr %self", "ptr %array", "ptr %writes", "ptr %view", result="ptr"):
        writes = text.variable("%writes", "ptr")
        with text.if_(text.same("%writes", "null")):
            made = text.call("ptr", "@PyList_New", ("i64", 1))
            _unless(text, text.differ(made, "null"), "ptr", "null")
            text.call("void", "@Py_IncRef", ("ptr", _object(text, "zero")))
            text.store("ptr", _object(text, "zero"), text.load("ptr", made, layout.ITEMS))
            writes.set(made)
        with text.if_(text.differ("%writes", "null")):
            text.call("void", "@Py_IncRef", ("ptr", "%writes"))
        tensor = text.call("ptr", "@new_object", ("ptr", "%self"), ("ptr", _object(text, "Tensor")))
        whole = text.variable(text.differ(tensor, "null"), "i1")
        for name, value in (("_writes", writes.value), ("_requires_grad", "@_Py_FalseStruct"), ("_view", "%view"), ("array", "%array")):
            with text.if_(whole.value):
                whole.set(text.call("i1", "@set", ("ptr", tensor), ("ptr", _object(text, name)), ("ptr", value)))
        text.call("void", "@Py_DecRef", ("ptr", writes.value))
        with text.if_(text.both(text.not_(whole.value), text.differ(tensor, "null"))):
            text.call("void", "@Py_DecRef", ("ptr", tensor))
        text.ret("ptr", text.select(whole.value, "ptr", tensor, "null"))


def _write_as_tensor(text: Builder, slots: Mapping[str, int]) -> None:
    """The tensor of result number `index` of a call: a view of the tensor `first`, whose array is `memory`, unless that is null."""
    arguments = ("ptr %self", "ptr %call", "ptr %first", "ptr %memory", "ptr %array", "i64 %index")
    with text.function("as_tensor", *arguments, result="ptr"):
        _unless(text, _is_type(text, text.load("ptr", "%array", layout.TYPE), "ndarray"), "ptr", "null")
        with text.if_(text.same("%memory", "null")):
            none = ("ptr", "@_Py_NoneStruct")
            text.ret("ptr", text.call("ptr", "@new_tensor", ("ptr", "%self"), ("ptr", "%array"), ("ptr", "null"), none))
        writes = _attribute(text, "%first", "_writes")
        _unless(text, text.differ(writes, "null"), "ptr", "null")
        view = text.call("ptr", "@new_view", ("ptr", "%self"), ("ptr", "%first"), ("ptr", "%memory"), ("ptr", "%array"),
                         ("ptr", text.load("ptr", "%call", slots["Call.operation"])), ("i64", "%index"))
        _unless(text, text.differ(view, "null"), "ptr", "null")
        made = text.call("ptr", "@new_tensor", ("ptr", "%self"), ("ptr", "%array"), ("ptr", writes), ("ptr", view))
        text.call("void", "@Py_DecRef", ("ptr", view))
        text.ret("ptr", made)


def _write_run(text: Builder, slots: Mapping[str, int]) -> None:
    """The tensor that a call gives for arrays, behind a free place of their list, or several of them; null, perhaps with an error, if it
    gives none so."""
    arguments = ("ptr %self", "ptr %call", "ptr %silently", "ptr %first", "ptr %arrays", "i64 %count")
    with text.function("run", *arguments, result="ptr"):
        run, arrays = text.load("ptr", "%call", slots["Call.run"]), text.at("%arrays", "i64", 1)
        is_plain, is_one_view, is_several, is_view = (
            text.same(text.load("ptr", "%call", slots[f"Call.{name}"]), "@_Py_TrueStruct")
            for name in ("is_plain", "is_one_view", "is_several", "is_view"))
        _unless(text, text.either(is_plain, text.either(is_one_view, is_several)), "ptr", "null")
        found, memory = text.variable("null", "ptr"), text.variable("null", "ptr")
        with text.if_(is_view):
            _unless(text, text.call("i1", "@is_tensor", ("ptr", "%self"), ("ptr", "%first")), "ptr", "null")
            memory.set(text.load("ptr", arrays))
            found.set(text.call("ptr", "@PyObject_Vectorcall", ("ptr", run), ("ptr", arrays), ("i64", "%count"), ("ptr", "null")))
        with text.if_(text.not_(is_view)):
            text.store("ptr", run, "%arrays")
            found.set(text.call("ptr", "@PyObject_Vectorcall", ("ptr", "%silently"), ("ptr", "%arrays"), ("i64", text.add("%count", 1)),
                                ("ptr", "null")))
        given = found.value
        _unless(text, text.differ(given, "null"), "ptr", "null")
        result = (("ptr", "%self"), ("ptr", "%call"), ("ptr", "%first"), ("ptr", memory.value))
        with text.if_(text.not_(is_several)):
            made = text.call("ptr", "@as_tensor", *result, ("ptr", given), ("i64", 0))
            text.call("void", "@Py_DecRef", ("ptr", given))
            text.ret("ptr", made)
        whole = text.variable(_is_type(text, text.load("ptr", given, layout.TYPE), "tuple"), "i1")
        several = text.variable("null", "ptr")
        with text.if_(whole.value):
            size = text.load("i64", given, layout.SIZE)
            several.set(text.call("ptr", "@PyTuple_New", ("i64", size)))
            whole.set(text.differ(several.value, "null"))
            with text.if_(whole.value), text.for_range(0, size, empty=True) as index, text.if_(whole.value):
                array = text.load("ptr", text.at(given, "i64", index.counter), layout.ITEMS)
                made = text.call("ptr", "@as_tensor", *result, ("ptr", array), ("i64", index.counter))
                text.store("ptr", made, text.at(several.value, "i64", index.counter), layout.ITEMS)
                whole.set(text.differ(made, "null"))
        text.call("void", "@Py_DecRef", ("ptr", given))
        packed = text.variable("null", "ptr")
        with text.if_(whole.value):
            text.store("ptr", several.value, "%arrays")
            pack = text.load("ptr", "%call", slots["Call.pack"])
            packed.set(text.call("ptr", "@PyObject_Vectorcall", ("ptr", pack), ("ptr", "%arrays"), ("i64", 1), ("ptr", "null")))
        with text.if_(text.differ(several.value, "null")):
            text.call("void", "@Py_DecRef", ("ptr", several.value))
        text.ret("ptr", packed.value)


def _write_run_recorded(text: Builder, slots: Mapping[str, int]) -> None:
    """The same, with its node, of a call of one result; and `add_wanted`, which adds the numbers of the operands that are recorded to a
    key if gradients are on: else there are none. False within the detection of anomalies, which notes lines."""
    with text.function("add_wanted", "ptr %self", "ptr %keys", "ptr %used", "ptr %count", result="i1"):
        modes = _object(text, "modes")
        _unless(text, text.same(_attribute(text, modes, "anomaly"), "@_Py_FalseStruct"))
        grad = _attribute(text, modes, "grad")
        with text.if_(text.same(grad, "@_Py_FalseStruct")):
            text.store("i64", 0, "%count", 8)
            text.ret("i1", "true")
        _unless(text, text.same(grad, "@_Py_TrueStruct"))
        many = text.load("i64", "%count", 8)
        wanted = text.call("ptr", "@PyTuple_New", ("i64", many))
        with text.if_(text.same(wanted, "null")):
            text.call("void", "@PyErr_Clear")
            text.ret("i1", "false")
        with text.for_range(0, many) as index:
            number = text.call("ptr", "@PyLong_FromLongLong", ("i64", text.load("i64", text.at("%count", "i64", index.counter), _WANTED)))
            with text.if_(text.same(number, "null")):
                text.call("void", "@PyErr_Clear")
                text.call("void", "@Py_DecRef", ("ptr", wanted))
                text.ret("i1", "false")
            text.store("ptr", number, text.at(wanted, "ptr", index.counter), layout.ITEMS)
        _add_key(text, wanted, "push")
        text.ret("i1", "true")
    arguments = ("ptr %self", "ptr %call", "ptr %silently", "ptr %first", "ptr %arrays", "ptr %count")
    with text.function("run_recorded", *arguments, result="ptr"):
        arrays, count, many = text.at("%arrays", "i64", 1), text.load("i64", "%count"), text.load("i64", "%count", 8)
        is_view = text.same(text.load("ptr", "%call", slots["Call.is_one_view"]), "@_Py_TrueStruct")
        _unless(text, text.differ(text.load("ptr", "%call", slots["Call.record"]), "@_Py_NoneStruct"), "ptr", "null")
        found, memory, outs = text.variable("null", "ptr"), text.variable("null", "ptr"), text.variable("null", "ptr")
        one = text.alloca("ptr")
        with text.if_(is_view):
            _unless(text, text.call("i1", "@is_tensor", ("ptr", "%self"), ("ptr", "%first")), "ptr", "null")
            run = text.load("ptr", "%call", slots["Call.run"])
            memory.set(text.load("ptr", arrays))
            found.set(text.call("ptr", "@PyObject_Vectorcall", ("ptr", run), ("ptr", arrays), ("i64", count), ("ptr", "null")))
            text.store("ptr", found.value, one)
            outs.set(one)
        with text.if_(text.not_(is_view)):
            run = _attribute(text, text.load("ptr", "%call", slots["Call.operation"]), "run")
            _unless(text, text.differ(run, "null"), "ptr", "null")
            text.store("ptr", run, "%arrays")
            found.set(text.call("ptr", "@PyObject_Vectorcall", ("ptr", "%silently"), ("ptr", "%arrays"), ("i64", text.add(count, 1)),
                                ("ptr", "null")))
            with text.if_(text.differ(found.value, "null")):
                outs.set(text.at(found.value, 1, layout.ITEMS))
        given = found.value
        _unless(text, text.differ(given, "null"), "ptr", "null")
        with text.if_(text.not_(text.either(is_view, _is_type(text, text.load("ptr", given, layout.TYPE), "tuple")))):
            text.call("void", "@Py_DecRef", ("ptr", given))
            text.ret("ptr", "null")
        made = text.call("ptr", "@as_tensor", ("ptr", "%self"), ("ptr", "%call"), ("ptr", "%first"), ("ptr", memory.value),
                         ("ptr", text.load("ptr", outs.value)), ("i64", 0))
        result = text.variable(made, "ptr")
        with text.if_(text.differ(made, "null")):
            tensors, wanted = text.at("%count", 1, _TENSORS), text.at("%count", 1, _WANTED)
            whole = text.call("i1", "@record", ("ptr", "%self"), ("ptr", "%call"), ("ptr", made), ("ptr", outs.value), ("ptr", arrays),
                              ("ptr", tensors), ("i64", count), ("ptr", wanted), ("i64", many))
            with text.if_(text.not_(whole)):
                text.call("void", "@Py_DecRef", ("ptr", made))
                result.set("null")
        text.call("void", "@Py_DecRef", ("ptr", given))
        text.ret("ptr", result.value)


def _write_call(text: Builder, slots: Mapping[str, int]) -> None:
    """The routine. Errors of indices, and of a call in the midst of another one, are left to Python, which runs the operation again."""

    def nothing() -> None:
        text.call("void", "@Py_IncRef", ("ptr", "@_Py_NoneStruct"))
        text.ret("ptr", "@_Py_NoneStruct")

    def nothing_unless(condition: str) -> None:
        with text.if_(text.not_(condition)):
            nothing()

    with text.function(SYMBOL, "ptr %self", "ptr %arguments", "i64 %given", "ptr %names", result="ptr", linkage=""):
        named = text.variable(0)
        with text.if_(text.differ("%names", "null")):
            named.set(text.load("i64", "%names", layout.SIZE))
        total = text.add("%given", named.value)
        nothing_unless(text.both(text.compare("ugt", "%given", 1), text.compare("ult", total, MAX_ARGUMENTS + 2)))
        context = _attribute(text, _object(text, "thread"), "context")
        nothing_unless(text.differ(context, "null"))
        silently, scopes = (text.load("ptr", context, slots[f"ThreadContext.{name}"]) for name in ("silently", "scopes"))
        nothing_unless(text.both(text.differ(silently, "null"), text.differ(silently, "@_Py_NoneStruct")))
        nothing_unless(text.compare("eq", text.load("i64", scopes, layout.SIZE), 0))
        nothing_unless(text.same(_attribute(text, _object(text, "switches"), "autocast"), "@_Py_FalseStruct"))
        keys, arrays, used = text.alloca("ptr", _KEYS), text.alloca("ptr", 1 + _ARRAYS), text.alloca("i64")
        count = text.alloca("i64", 2 + 2 * _ARRAYS)
        text.store("i64", 0, used)
        text.store("i64", 0, count)
        text.store("i64", 0, count, 8)
        operands = text.at(arrays, "i64", 1)
        function = text.load("ptr", "%arguments")
        text.call("void", "@push_new", ("ptr", function), ("ptr", keys), ("ptr", used))
        known = text.variable("true", "i1")
        with text.for_range(1, total) as index, text.if_(known.value):
            with text.if_(text.compare("uge", index.counter, "%given")):
                name = text.load("ptr", text.at("%names", "i64", text.sub(index.counter, "%given")), layout.ITEMS)
                text.call("void", "@push_new", ("ptr", name), ("ptr", keys), ("ptr", used))
            argument = text.load("ptr", text.at("%arguments", "i64", index.counter))
            known.set(text.call("i1", "@describe", ("ptr", "%self"), ("ptr", keys), ("ptr", used), ("ptr", operands), ("ptr", count),
                                ("ptr", function), ("ptr", argument)))
        call, many = text.variable("null", "ptr"), text.variable(0)
        with text.if_(text.both(known.value, text.compare("ne", text.load("i64", count, 8), 0))):
            known.set(text.call("i1", "@add_wanted", *(("ptr", value) for value in ("%self", keys, used, count))))
            many.set(text.load("i64", count, 8))
        with text.if_(known.value):
            call.set(text.call("ptr", "@find", ("ptr", "%self"), ("ptr", keys), ("i64", text.load("i64", used))))
        with text.if_(text.not_(known.value)):
            text.call("void", "@drop", ("ptr", keys), ("i64", text.load("i64", used)))
        made = text.variable("null", "ptr")
        with text.if_(text.differ(call.value, "null")):
            text.call("void", "@Py_IncRef", ("ptr", silently))
            first = text.load("ptr", "%arguments", 8)
            with text.if_(text.compare("eq", many.value, 0)):
                made.set(text.call("ptr", "@run", ("ptr", "%self"), ("ptr", call.value), ("ptr", silently), ("ptr", first), ("ptr", arrays),
                                   ("i64", text.load("i64", count))))
            with text.if_(text.compare("ne", many.value, 0)):
                made.set(text.call("ptr", "@run_recorded", ("ptr", "%self"), ("ptr", call.value), ("ptr", silently), ("ptr", first),
                                   ("ptr", arrays), ("ptr", count)))
            text.call("void", "@Py_DecRef", ("ptr", silently))
            text.call("void", "@Py_DecRef", ("ptr", call.value))
        text.call("void", "@drop", ("ptr", operands), ("i64", text.load("i64", count)))
        with text.for_range(0, text.load("i64", count), empty=True) as index:
            tensor = text.load("ptr", text.at(count, "ptr", index.counter), _TENSORS)
            with text.if_(text.differ(tensor, "null")):
                text.call("void", "@Py_DecRef", ("ptr", tensor))
        with text.if_(text.differ(made.value, "null")):
            text.ret("ptr", made.value)
        with text.if_(text.differ(text.call("ptr", "@PyErr_Occurred"), "null")):
            for name in ("IndexError", "RuntimeError"):
                matches = text.call("i32", "@PyErr_ExceptionMatches", ("ptr", _object(text, name)))
                with text.if_(text.compare("ne", matches, 0, "i32")):
                    text.call("void", "@PyErr_Clear")
                    nothing()
            text.ret("ptr", "null")
        nothing()
