"""Calls of programs for cards on the fast path: arrays in a card's memory as arguments and results, and the launch of a program's graph.

No Python runs between the check of the arguments and the launch, unless the graph has no instance for these addresses yet: `bind` makes
one, up to some, and then the one that was not used for longest gets the new addresses. The driver is called by the addresses of its
functions. The GIL is held from the copies of the call's numbers to the launch: the copies of all calls go to the same places on the card.
"""

from __future__ import annotations

from adjit.codegen.fastcall import object_layout as layout
from adjit.codegen.fastcall.descriptor_layout import (
    CARD,
    CARD_ARRAY,
    HOST_PARAM,
    INSTANCE,
    INSTANCE_NODE,
    LAUNCH,
    LAUNCH_NODE,
    NODE,
    PROGRAM,
    RELOCATION,
    RESULT,
)
from adjit.codegen.fastcall.tensors import CALL_LISTS
from adjit.codegen.llvm.builder import Builder

FAILED, RETRY = -1, -2
"""Statuses of a launch besides the driver's: a Python exception is set; nothing was launched, and Python's path is to try."""

CAPSULE = "adjit.card"
_ADDRESS, _BYTES, _CARD, _BLOCK_BYTES = 0, 8, 16, 24      # what a capsule holds

DECLARATIONS = f"""
@card.name = private constant [{len(CAPSULE) + 1} x i8] c"{CAPSULE}\\00"
@bind.format = private constant [3 x i8] c"LL\\00"
declare ptr @PyType_GenericAlloc(ptr, i64)
declare ptr @PyLong_FromUnsignedLongLong(i64)
declare ptr @PyLong_FromLongLong(i64)
declare i64 @PyLong_AsUnsignedLongLongMask(ptr)
declare i64 @PyLong_AsLongLong(ptr)
declare i32 @memcmp(ptr, ptr, i64)
declare ptr @memcpy(ptr, ptr, i64)
declare ptr @memmove(ptr, ptr, i64)
"""


def write_device(text: Builder) -> None:
    """Functions `device_fits` (object against node), `enter_card`, `new_device_array`, `written` (by a program) and `launch`."""
    _write_device_fits(text)
    _write_enter_card(text)
    _write_free_memory(text)
    _write_new_device_array(text)
    _write_written(text)
    _write_instance_of(text)
    _write_move(text)
    _write_launch(text)


def _slot(text: Builder, object: str, card: str, name: str) -> str:
    """The address of a slot of an object, whose offset is in the CARD descriptor."""
    return text.at(object, 1, text.load("i64", card, CARD[name]))


def _write_device_fits(text: Builder) -> None:
    """True if an object is an array on the card, of the type that a node of kind DEVICE describes, no view and without doubts."""
    with text.function("device_fits", "ptr %node", "ptr %object", *CALL_LISTS, result="i1"):
        def check(condition: str) -> None:
            with text.if_(text.not_(condition)):
                text.ret("i1", "false")

        card = text.load("ptr", "%node", NODE["items"])
        check(text.same(text.load("ptr", "%object", layout.TYPE), text.load("ptr", card, CARD["array_type"])))
        for name in ("view", "doubts"):
            check(text.same(text.load("ptr", _slot(text, "%object", card, name)), "@_Py_NoneStruct"))
        check(text.same(text.load("ptr", _slot(text, "%object", card, "dtype")), text.load("ptr", "%node", NODE["descr"])))
        shape, wanted = text.load("ptr", _slot(text, "%object", card, "shape")), text.load("ptr", "%node", NODE["shape"])
        with text.if_(text.differ(shape, wanted)):
            equal = text.call("i32", "@PyObject_RichCompareBool", ("ptr", shape), ("ptr", wanted), ("i32", 2))
            check(text.compare("eq", equal, 1, "i32"))
        buffer = text.load("ptr", _slot(text, "%object", card, "buffer"))
        check(text.same(text.load("ptr", _slot(text, buffer, card, "driver")), text.load("ptr", card, CARD["object"])))
        number = text.load("ptr", _slot(text, buffer, card, "address"))
        index = text.load("i64", "%node", NODE["index"])
        address = text.call("i64", "@PyLong_AsUnsignedLongLongMask", ("ptr", number))
        text.store("i64", address, text.at("%params", "i64", index))
        text.store("ptr", "%object", text.at("%objects", "i64", index))
        text.ret("i1", "true")


def _write_enter_card(text: Builder) -> None:
    """True if the card can be used in this process, and its context is current in this thread from now on."""
    with text.function("enter_card", "ptr %card", result="i1"):
        with text.if_(text.compare("eq", text.load("i64", "%card", CARD["alive"]), 0)):
            text.ret("i1", "false")
        status = text.call("i32", text.load("ptr", "%card", CARD["set_context"]), ("ptr", text.load("ptr", "%card", CARD["context"])))
        text.ret("i1", text.compare("eq", status, 0, "i32"))


def _write_free_memory(text: Builder) -> None:
    """The destructor of a capsule that owns memory of a card."""
    with text.function("free_memory", "ptr %capsule"):
        block = text.call("ptr", "@PyCapsule_GetPointer", ("ptr", "%capsule"), ("ptr", "@card.name"))
        card = text.load("ptr", block, _CARD)
        text.increase(card, CARD["used"], text.sub(0, text.load("i64", block, _BYTES)))
        with text.if_(text.call("i1", "@enter_card", ("ptr", card))):
            text.call("i32", text.load("ptr", card, CARD["free"]), ("i64", text.load("i64", block, _ADDRESS)),
                      ("ptr", text.load("ptr", card, CARD["stream"])))
        text.call("void", "@give", ("ptr", block))


def _write_new_device_array(text: Builder) -> None:
    """A new array on the card whose context is current, like the example in the RESULT descriptor; null if there is no memory. Its address
    is written to `%place`."""
    with text.function("new_device_array", "ptr %result", "ptr %place", result="ptr"):
        card, like = text.load("ptr", "%result", RESULT["shape"]), text.load("ptr", "%result", RESULT["descr"])
        block = text.call("ptr", "@take", ("i64", _BLOCK_BYTES))
        with text.if_(text.same(block, "null")):
            text.ret("ptr", "null")
        size = text.load("i64", "%result", RESULT["bytes"])
        status = text.call("i32", text.load("ptr", card, CARD["allocate"]), ("ptr", block), ("i64", text.larger(size, 1)),
                           ("ptr", text.load("ptr", card, CARD["stream"])))
        with text.if_(text.compare("ne", status, 0, "i32")):
            text.call("void", "@give", ("ptr", block))
            text.ret("ptr", "null")
        address = text.load("i64", block, _ADDRESS)
        text.store("i64", size, block, _BYTES)
        text.store("ptr", card, block, _CARD)
        text.store("i64", address, "%place")
        capsule = text.call("ptr", "@PyCapsule_New", ("ptr", block), ("ptr", "@card.name"), ("ptr", "@free_memory"))
        with text.if_(text.same(capsule, "null")):
            text.call("i32", text.load("ptr", card, CARD["free"]), ("i64", address), ("ptr", text.load("ptr", card, CARD["stream"])))
            text.call("void", "@give", ("ptr", block))
            text.ret("ptr", "null")
        text.increase(card, CARD["used"], size)
        buffer = text.call("ptr", "@PyType_GenericAlloc", ("ptr", text.load("ptr", card, CARD["buffer_type"])), ("i64", 0))
        with text.if_(text.same(buffer, "null")):
            text.call("void", "@Py_DecRef", ("ptr", capsule))
            text.ret("ptr", "null")
        driver = text.load("ptr", card, CARD["object"])
        text.call("void", "@Py_IncRef", ("ptr", driver))
        text.store("ptr", driver, _slot(text, buffer, card, "driver"))
        text.store("ptr", capsule, _slot(text, buffer, card, "owner"))
        number = text.call("ptr", "@PyLong_FromUnsignedLongLong", ("i64", address))
        text.store("ptr", number, _slot(text, buffer, card, "address"))
        array = text.variable("null", "ptr")
        with text.if_(text.differ(number, "null")):
            array.set(text.call("ptr", "@PyType_GenericAlloc", ("ptr", text.load("ptr", card, CARD["array_type"])), ("i64", 0)))
        with text.if_(text.same(array.value, "null")):
            text.call("void", "@Py_DecRef", ("ptr", buffer))
            text.ret("ptr", "null")
        text.store("ptr", buffer, _slot(text, array.value, card, "buffer"))
        for name in CARD_ARRAY:
            if name != "buffer":
                value = text.load("ptr", _slot(text, like, card, name))
                text.call("void", "@Py_IncRef", ("ptr", value))
                text.store("ptr", value, _slot(text, array.value, card, name))
        text.ret("ptr", array.value)


def _write_written(text: Builder) -> None:
    """Count one more write to the elements of an array on a card."""
    with text.function("written", "ptr %array", "ptr %card"):
        slot = _slot(text, "%array", "%card", "version")
        before = text.load("ptr", slot)
        count = text.call("i64", "@PyLong_AsLongLong", ("ptr", before))
        text.store("ptr", text.call("ptr", "@PyLong_FromLongLong", ("i64", text.add(count, 1))), slot)
        text.call("void", "@Py_DecRef", ("ptr", before))


def _write_instance_of(text: Builder) -> None:
    """The place of the instance of a graph with these addresses among the instances; -1 if there is none."""
    with text.function("instance_of", "ptr %launch", "ptr %addresses", "i64 %bytes", result="i64"):
        instances = text.load("ptr", "%launch", LAUNCH["instances"])
        with text.for_range(0, text.load("i64", "%launch", LAUNCH["instances_count"]), empty=True) as index:
            key = text.load("ptr", text.load("ptr", text.at(instances, "i64", index.counter)), INSTANCE["key"])
            differs = text.call("i32", "@memcmp", ("ptr", key), ("ptr", "%addresses"), ("i64", "%bytes"))
            with text.if_(text.compare("eq", differs, 0, "i32")):
                text.ret("i64", index.counter)
        text.ret("i64", -1)


def _write_move(text: Builder) -> None:
    """Give an instance of a graph other addresses, for launches to come. Returns the driver's status."""
    with text.function("move", "ptr %launch", "ptr %instance", "ptr %addresses", "i64 %bytes", result="i32"):
        card, key = text.load("ptr", "%launch", LAUNCH["card"]), text.load("ptr", "%instance", INSTANCE["key"])
        set_parameters, executable = text.load("ptr", card, CARD["set_parameters"]), text.load("ptr", "%instance", INSTANCE["executable"])
        nodes, own = text.load("ptr", "%launch", LAUNCH["nodes"]), text.load("ptr", "%instance", INSTANCE["nodes"])
        text.store("i64", -1, key)          # no address, in case that the driver fails
        with text.for_range(0, text.load("i64", "%launch", LAUNCH["nodes_count"]), empty=True) as index:
            node = text.at(nodes, 8 * len(LAUNCH_NODE), index.counter)
            mine = text.at(own, 8 * len(INSTANCE_NODE), index.counter)
            words, moved = text.load("ptr", mine, INSTANCE_NODE["words"]), text.variable(0)
            relocations = text.load("ptr", node, LAUNCH_NODE["relocations"])
            with text.for_range(0, text.load("i64", node, LAUNCH_NODE["relocations_count"]), empty=True) as place:
                relocation = text.at(relocations, 8 * len(RELOCATION), place.counter)
                base = text.load("i64", text.at("%addresses", "i64", text.load("i64", relocation, RELOCATION["place"])))
                address = text.add(base, text.load("i64", relocation, RELOCATION["offset"]))
                word = text.at(words, "i64", text.load("i64", relocation, RELOCATION["word"]))
                with text.if_(text.compare("ne", text.load("i64", word), address)):
                    text.store("i64", address, word)
                    moved.set(1)
            with text.if_(text.compare("ne", moved.value, 0)):
                status = text.call("i32", set_parameters, ("ptr", executable), ("ptr", text.load("ptr", mine, INSTANCE_NODE["handle"])),
                                   ("ptr", text.load("ptr", mine, INSTANCE_NODE["parameters"])))
                with text.if_(text.compare("ne", status, 0, "i32")):
                    text.ret("i32", status)
        text.call("ptr", "@memcpy", ("ptr", key), ("ptr", "%addresses"), ("i64", "%bytes"))
        text.ret("i32", 0)


def _write_launch(text: Builder) -> None:
    """Launch a program on these addresses of parameters and results. Returns the driver's status, `FAILED` or `RETRY`."""
    with text.function("launch", "ptr %program", "ptr %params", "ptr %places", result="i64"):
        launch = text.load("ptr", "%program", PROGRAM["launch"])
        card, params = text.load("ptr", launch, LAUNCH["card"]), text.load("i64", "%program", PROGRAM["params"])
        results = text.load("i64", "%program", PROGRAM["result_count"])
        size, of_params, of_results = text.shl(text.add(params, results), 3), text.shl(params, 3), text.shl(results, 3)
        addresses = text.let(f"alloca i8, i64 {size}, align 8")
        text.call("ptr", "@memcpy", ("ptr", addresses), ("ptr", "%params"), ("i64", of_params))
        text.call("ptr", "@memcpy", ("ptr", text.at(addresses, 1, of_params)), ("ptr", "%places"), ("i64", of_results))
        hosts, host_count = text.load("ptr", launch, LAUNCH["hosts"]), text.load("i64", launch, LAUNCH["hosts_count"])
        with text.for_range(0, host_count, empty=True) as index:
            host = text.at(hosts, 8 * len(HOST_PARAM), index.counter)
            text.store("i64", text.load("i64", host, HOST_PARAM["address"]),
                       text.at(addresses, "i64", text.load("i64", host, HOST_PARAM["param"])))
        found = text.variable(text.call("i64", "@instance_of", ("ptr", launch), ("ptr", addresses), ("i64", size)))
        with text.if_(text.compare("slt", found.value, 0)):
            few = text.compare("slt", text.load("i64", launch, LAUNCH["instances_count"]), text.load("i64", launch, LAUNCH["most"]))
            with text.if_(few):
                made = text.call("ptr (ptr, ptr, ...)", "@PyObject_CallFunction", ("ptr", text.load("ptr", launch, LAUNCH["bind"])),
                                 ("ptr", "@bind.format"), ("ptr", addresses), ("i64", size))
                with text.if_(text.same(made, "null")):
                    text.ret("i64", FAILED)
                text.call("void", "@Py_DecRef", ("ptr", made))
                with text.if_(text.not_(text.call("i1", "@enter_card", ("ptr", card)))):        # other threads may have run
                    text.ret("i64", RETRY)
                found.set(text.call("i64", "@instance_of", ("ptr", launch), ("ptr", addresses), ("i64", size)))
        instances = text.load("ptr", launch, LAUNCH["instances"])
        with text.if_(text.compare("slt", found.value, 0)):
            found.set(text.sub(text.load("i64", launch, LAUNCH["instances_count"]), 1))
            oldest = text.load("ptr", text.at(instances, "i64", found.value))
            moved = text.call("i32", "@move", ("ptr", launch), ("ptr", oldest), ("ptr", addresses), ("i64", size))
            with text.if_(text.compare("ne", moved, 0, "i32")):
                text.ret("i64", text.convert("zext", "i32", moved, "i64"))
        instance = text.load("ptr", text.at(instances, "i64", found.value))
        with text.if_(text.compare("ne", found.value, 0)):
            text.call("ptr", "@memmove", ("ptr", text.at(instances, "i64", 1)), ("ptr", instances), ("i64", text.shl(found.value, 3)))
            text.store("ptr", instance, instances)
        stream = text.load("ptr", card, CARD["stream"])
        with text.for_range(0, host_count, empty=True) as index:
            host = text.at(hosts, 8 * len(HOST_PARAM), index.counter)
            source = text.load("ptr", text.at("%params", "i64", text.load("i64", host, HOST_PARAM["param"])))
            bytes, known = text.load("i64", host, HOST_PARAM["bytes"]), text.load("ptr", host, HOST_PARAM["known"])
            with text.if_(text.differ(known, "null")):         # a number: its content is known, and the flag behind it tells whether
                is_known = text.load("i64", host, HOST_PARAM["is_known"])
                differs = text.call("i32", "@memcmp", ("ptr", known), ("ptr", source), ("i64", bytes))
                with text.if_(text.both(text.compare("ne", is_known, 0), text.compare("eq", differs, 0, "i32"))):
                    text.continue_()
                text.store("i64", 0, host, HOST_PARAM["is_known"])
                text.call("ptr", "@memcpy", ("ptr", known), ("ptr", source), ("i64", bytes))
            copied = text.call("i32", text.load("ptr", card, CARD["copy_in"]), ("i64", text.load("i64", host, HOST_PARAM["address"])),
                               ("ptr", source), ("i64", bytes), ("ptr", stream))
            with text.if_(text.compare("ne", copied, 0, "i32")):
                text.ret("i64", text.convert("zext", "i32", copied, "i64"))
            with text.if_(text.same(known, "null")):
                _wait_for_pinned(text, card, source, stream)
            text.store("i64", 1, host, HOST_PARAM["is_known"])
        text.store("i64", text.load("i64", launch, LAUNCH["name"]), card, CARD["launched"])
        status = text.call("i32", text.load("ptr", card, CARD["launch"]), ("ptr", text.load("ptr", instance, INSTANCE["executable"])),
                           ("ptr", stream))
        text.ret("i64", text.convert("zext", "i32", status, "i64"))


_MEMORY_TYPE, _HOST = 2, 1      # attribute of a pointer, and its value for memory that the card reads by itself


def _wait_for_pinned(text: Builder, card: str, source: str, stream: str) -> None:
    """Wait for a copy from memory that the card reads by itself: the caller may change it after the call. Any other was copied already."""
    kind = text.variable(0)
    status = text.call("i32", text.load("ptr", card, CARD["kind_of"]), ("ptr", kind.address), ("i32", _MEMORY_TYPE), ("ptr", source))
    with text.if_(text.both(text.compare("eq", status, 0, "i32"), text.compare("eq", kind.value, _HOST))):
        text.call("i32", text.load("ptr", card, CARD["synchronize"]), ("ptr", stream))
