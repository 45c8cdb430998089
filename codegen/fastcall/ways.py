"""The part of the fast path that finds the way of a call: what programs that missed a guard tell of the call's decisions excludes others
before their arguments are checked and their results are made.

A fact is the value that a decision has in this call: of the guard that was missed, and of those before it, which held. A program that asks
for another value of the same decision is not the call's. Facts only save time: what is not excluded is tried, and checks its own guards;
what is excluded wrongly is found in Python.
"""

from __future__ import annotations

from adjit.codegen.fastcall.descriptor_layout import FACT, FUNCTION, MISS, PROGRAM, WANTED, Space
from adjit.codegen.llvm.builder import Builder
from adjit.codegen.native.program_code import OP_SHIFT

MAX_FACTS = 8
"""Facts that are kept of a call."""

_FACT_BYTES, _MISS_BYTES, _WANTED_BYTES = (8 * len(record) for record in (FACT, MISS, WANTED))


def write_ways(text: Builder) -> None:
    """Write the functions of this file."""
    _write_note_miss(text)
    _write_is_excluded(text)


def _write_note_miss(text: Builder) -> None:
    """Keep the value of the guard at which a program ended with this status."""
    with text.function("note_miss", "ptr %function", "ptr %program", "i64 %status", "ptr %params", "ptr %places", "ptr %arena"):
        count = text.load("i64", "%function", FUNCTION["facts_count"])
        with text.if_(text.compare("uge", count, MAX_FACTS)):
            text.ret()
        op, misses = text.sub(text.lshr("%status", OP_SHIFT), 1), text.load("ptr", "%program", PROGRAM["misses"])
        with text.for_range(0, text.load("i64", "%program", PROGRAM["misses_count"]), empty=True) as index:
            miss = text.at(misses, _MISS_BYTES, index.counter)
            with text.if_(text.compare("eq", text.load("i64", miss, MISS["op"]), op)):
                space, offset = text.load("i64", miss, MISS["space"]), text.load("i64", miss, MISS["offset"])
                address = text.variable("%arena", "ptr")
                for pointers, kind in (("%params", Space.PARAM), ("%places", Space.RESULT)):
                    with text.if_(text.compare("eq", space, kind)):
                        address.set(text.load("ptr", text.at(pointers, "i64", offset)))
                place, size = text.at(address.value, 1, text.load("i64", miss, MISS["start"])), text.load("i64", miss, MISS["bytes"])
                bits = text.variable(0)
                for width in (1, 2, 4, 8):
                    with text.if_(text.compare("eq", size, width)):
                        word = text.load(f"i{8 * width}", place)
                        bits.set(word if width == 8 else text.convert("zext", f"i{8 * width}", word, "i64"))
                fact = text.at(text.load("ptr", "%function", FUNCTION["facts"]), _FACT_BYTES, count)
                text.store("i64", text.load("i64", "%program", PROGRAM["decisions"]), fact, FACT["decisions"])
                text.store("i64", text.load("i64", miss, MISS["key"]), fact, FACT["key"])
                text.store("i64", bits.value, fact, FACT["bits"])
                text.store("i64", text.add(count, 1), "%function", FUNCTION["facts_count"])
                text.store("ptr", text.load("ptr", "%program", PROGRAM["guarded"]), "%function", FUNCTION["held"])
                text.store("i64", text.load("i64", miss, MISS["before"]), "%function", FUNCTION["held_count"])
                text.ret()
        text.ret()


def _write_is_excluded(text: Builder) -> None:
    """True if a program asks for another value of a decision than the call has."""
    with text.function("is_excluded", "ptr %function", "ptr %program", result="i1"):
        decisions, wanted = text.load("i64", "%program", PROGRAM["decisions"]), text.load("ptr", "%program", PROGRAM["wanted"])
        wanted_count = text.load("i64", "%program", PROGRAM["wanted_count"])
        for facts in ("facts", "held"):
            listed = text.load("ptr", "%function", FUNCTION[facts])
            with text.for_range(0, text.load("i64", "%function", FUNCTION[f"{facts}_count"]), empty=True) as index:
                fact = text.at(listed, _FACT_BYTES, index.counter)
                key = text.load("i64", fact, FACT["key"])
                alike = text.compare("eq", text.load("i64", fact, FACT["decisions"]), decisions)
                with text.if_(text.both(alike, text.compare("ult", key, wanted_count))):
                    mine = text.at(wanted, _WANTED_BYTES, key)
                    decides = text.compare("ne", text.load("i64", mine, WANTED["decides"]), 0)
                    other = text.compare("ne", text.load("i64", mine, WANTED["bits"]), text.load("i64", fact, FACT["bits"]))
                    with text.if_(text.both(decides, other)):
                        text.ret("i1", "true")
        text.ret("i1", "false")
