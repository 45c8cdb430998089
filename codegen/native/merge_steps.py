"""Small steps that run one after the other become one function: LLVM takes half a millisecond for a function, whatever is in it.

    before: call @step_0(%places), call @step_1(%places)        after: call @step_0(%places), whose places are those of both
"""

from __future__ import annotations

from collections.abc import Sequence

from adjit.codegen.native.program_code import Call
from adjit.codegen.native.step_code import StepCode

LINES = 200
"""Of a function that takes no further steps: LLVM needs more than linear time for long ones, and several are made at the same time."""

_HEAD = "define internal i64 @step("
_END = "  ret i64 0\n"


def is_small(call: Call) -> bool:
    """Whether a step may share its function: it is one of few lines, with no memory of its own, that runs on the caller's thread."""
    text = call.code.text
    return (not call.parallel and not call.code.checks and text.startswith(_HEAD) and text.count("\n") < LINES
            and text.find("define", 1) < 0 and not any(word in text for word in ("alloca", "optnone"))
            and text.count("  ret ") == text.count(_END))


def merge_steps(calls: Sequence[Call]) -> Call:
    """One call in place of several of small steps. What each step calls `name` is called `k.name` there, and so are its labels."""
    if len(calls) == 1:
        return calls[0]
    codes = [call.code for call in calls]
    head = codes[0].text.partition("\n")[0]
    bodies, offsets, base = [], [], 0
    for number, call in enumerate(calls):
        bodies.append(_body(call.code, number, base))
        offsets += [(base + place, nbytes) for place, nbytes in call.code.offsets]
        base += len(call.places)
    text = "\n".join([head, *bodies, f"s{len(calls)}.entry:", "  ret i64 0", "}"])
    shared: dict[str, str] = {}
    for code in codes:
        shared |= code.shared
    merged = StepCode(text, 1, sum(code.work for code in codes), frozenset().union(*(code.declarations for code in codes)), shared,
                      offsets=tuple(offsets), regions_stack=max(code.regions_stack for code in codes))
    places = tuple(place for call in calls for place in call.places)
    return Call(calls[0].function, merged, places, calls[0].number, f"{calls[0].name} and {len(calls) - 1} more")


def _body(code: StepCode, number: int, base: int) -> str:
    """The blocks of a step, from label `s<number>.entry` on, which go on to the next one's. Its places begin at `base`."""
    prefix = f"s{number}."
    lines = code.text.partition("\n")[2].rpartition("\n}")[0].replace("%", f"%{prefix}").split("\n")
    lines = [line if line.startswith(" ") else prefix + line for line in lines]
    lines.insert(1, f"  %{prefix}places = getelementptr ptr, ptr %places, i64 {base}")
    text = "\n".join([*lines, ""]).replace(_END, f"  br label %s{number + 1}.entry\n")
    for name, value in (("low", 0), ("high", code.tasks)):
        for behind in ",]) \n":
            text = text.replace(f"%{prefix}{name}{behind}", f"{value}{behind}")
    return text[:-1]
