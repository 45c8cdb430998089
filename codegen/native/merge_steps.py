"""Small steps that run one after the other become one function: LLVM takes half a millisecond for a function, whatever is in it.

    before: call @step_0(%places), call @step_1(%places)        after: call @step_0(%places), whose places are those of both
"""

from __future__ import annotations

from collections.abc import Sequence

from adjit.codegen.llvm.module import Definition, Function
from adjit.codegen.native.program_code import Call
from adjit.codegen.native.step_code import SIGNATURE, StepCode

MAX_MERGED_LINES = 200
"""Of a function that takes no further steps: LLVM needs more than linear time for long ones, and several are made at the same time."""


def is_small(call: Call) -> bool:
    """True if a step may share its function: it is one of few lines, with no memory of its own, that runs on the caller's thread."""
    if call.parallel or call.code.checks or len(call.code.functions) > 1:
        return False
    (step,) = call.code.functions
    return (isinstance(step, Function) and not step.stack and not step.returns_early and step.returned == "i64 0"
            and "optnone" not in step.attributes and step.text.count("\n") < MAX_MERGED_LINES)


def merge_steps(calls: Sequence[Call]) -> Call:
    """One call in place of several of small steps. What each step calls `name` is called `k.name` there, and so are its labels."""
    if len(calls) == 1:
        return calls[0]
    codes = [call.code for call in calls]
    lines, uses, offsets, base = [], set[str](), [], 0
    shared: dict[str, Definition] = {}
    for number, call in enumerate(calls):
        (step,) = call.code.functions
        assert isinstance(step, Function)
        lines += [f"  br label %s{number}.entry", *_body(step, call.code.tasks, number, base)]
        offsets += [(base + arg, nbytes) for arg, nbytes in call.code.offsets]
        base += len(call.args)
        uses |= step.uses
        shared |= call.code.shared
    merged = StepCode((Function("step", SIGNATURE, lines, result="i64", returned="i64 0", uses=uses),), 1, sum(code.work for code in codes),
                      frozenset().union(*(code.declarations for code in codes)), shared, offsets=tuple(offsets),
                      nested_stack_bytes=max(code.nested_stack_bytes for code in codes))
    args = tuple(arg for call in calls for arg in call.args)
    return Call(calls[0].function, merged, args, calls[0].number, f"{calls[0].name} and {len(calls) - 1} more")


def _body(step: Function, tasks: int, number: int, base: int) -> list[str]:
    """The blocks of a step, from label `s<number>.entry` on. Its places begin at `base`."""
    prefix = f"s{number}."
    text = step.body.replace("%", f"%{prefix}")
    for name, value in (("low", 0), ("high", tasks)):
        for behind in ",]) \n":
            text = text.replace(f"%{prefix}{name}{behind}", f"{value}{behind}")
    lines = [line if line.startswith(" ") else prefix + line for line in text.split("\n")[:-1]]
    return [f"{prefix}entry:", f"  %{prefix}places = getelementptr ptr, ptr %places, i64 {base}", *lines]
