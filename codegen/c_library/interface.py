"""The C functions of an exported program, in LLVM text, as its header declares them (`header.py`).

The functions check their arguments, choose the code for the processor once, and call it. Their only memory is the arena, a little of the
stack, and one number: the index of the chosen code.
"""

from __future__ import annotations

from collections.abc import Sequence

from adjit.codegen.c_library.description import CArray, CProgram, bytes_text
from adjit.codegen.c_library.processor import level_function
from adjit.codegen.c_library.status import STATUS
from adjit.codegen.llvm.target import Target
from adjit.codegen.native.program_code import GUARD_MISSED
from adjit.ir.types import SHORT_NAMES, real_dtype

_NUMBER = {name: number for number, (name, _) in enumerate(STATUS)}
_ARRAY = "{ptr, ptr, i64, i64, ptr, i64, i64}"


def interface_text(program: CProgram, targets: Sequence[Target], entries: Sequence[Sequence[str]]) -> str:
    """The text of the functions; `entries[k]` are the names of `adjit_run` of each way for `targets[k]`, the best target first."""
    p = program.prefix
    parts = [_constants(program), _tables("input", program.inputs), _tables("output", program.outputs)]
    if any(target.triple for target in targets):
        parts.append("define internal i64 @level.mask() nounwind {\n  ret i64 1\n}")      # one system, one code
    else:
        parts.append(level_function(list(targets)))
    parts += [_choose(p, len(targets)), _level(p), _error(p), _run(program, entries)]
    for name, number in (("inputs", len(program.inputs)), ("outputs", len(program.outputs)), ("arena_bytes", program.arena_bytes),
                         ("arena_alignment", program.alignment)):
        parts.append(f"define i64 @{p}_{name}() nounwind {{\n  ret i64 {number}\n}}")
    parts += [_describe(p, "input", len(program.inputs)), _describe(p, "output", len(program.outputs))]
    return "\n".join(parts)


def _text(name: str, text: str) -> str:
    content = text.encode() + b"\0"
    return f'@{name} = internal constant [{len(content)} x i8] c"{bytes_text(content)}"'


def _constants(program: CProgram) -> str:
    lines = ["@chosen = internal global i64 0"]
    lines += [_text(f"level.{k}", level) for k, level in enumerate(program.levels)]
    lines.append(f"@levels = internal constant [{len(program.levels)} x ptr] "
                 f"[{', '.join(f'ptr @level.{k}' for k in range(len(program.levels)))}]")
    lines += [_text(f"status.{number}", text) for number, (_, text) in enumerate(STATUS)]
    lines.append(_text("status.unknown", "an unknown status"))
    lines.append(f"@statuses = internal constant [{len(STATUS)} x ptr] [{', '.join(f'ptr @status.{n}' for n in range(len(STATUS)))}]")
    for k, content in enumerate(program.constants):
        lines.append(f'@constant.{k} = internal constant [{max(len(content), 1)} x i8] c"{bytes_text(content or bytes(1))}", align 64')
    return "\n".join(lines)


def _tables(kind: str, arrays: Sequence[CArray]) -> str:
    """Tables of array descriptions, and for each array the address bits that must be 0 (-1: the address is not read)."""
    lines, rows = [], []
    for k, array in enumerate(arrays):
        lines += [_text(f"{kind}.{k}.name", array.name), _text(f"{kind}.{k}.dtype", array.dtype),
                  f"@{kind}.{k}.shape = internal constant [{max(len(array.shape), 1)} x i64] "
                  f"[{', '.join(f'i64 {size}' for size in array.shape or (0,))}]"]
        rows.append(f"{_ARRAY} {{ptr @{kind}.{k}.name, ptr @{kind}.{k}.dtype, i64 {array.nbytes}, i64 {len(array.shape)}, "
                    f"ptr @{kind}.{k}.shape, i64 {int(array.written)}, i64 {array.input}}}")
    masks = [-1 if array.input >= 0 or not array.nbytes else real_dtype(SHORT_NAMES[array.dtype]).itemsize - 1 for array in arrays]
    return "\n".join([
        *lines, f"@{kind}.arrays = internal constant [{len(rows)} x {_ARRAY}] [{', '.join(rows)}]",
        f"@{kind}.masks = internal constant [{len(masks)} x i64] [{', '.join(f'i64 {mask}' for mask in masks)}]"])


def _describe(prefix: str, kind: str, count: int) -> str:
    return f"""define ptr @{prefix}_{kind}(i64 %index) nounwind {{
  %there = icmp ult i64 %index, {count}
  %place = getelementptr {_ARRAY}, ptr @{kind}.arrays, i64 %index
  %found = select i1 %there, ptr %place, ptr null
  ret ptr %found
}}"""


def _choose(prefix: str, levels: int) -> str:
    """Functions `use(k)`, which selects code k if the processor runs it, and `init`, which selects the best. The number stored is
    1 + k."""
    return f"""define i32 @{prefix}_use(i64 %level) nounwind {{
entry:
  %there = icmp ult i64 %level, {levels}
  br i1 %there, label %ask, label %not
ask:
  %mask = call i64 @level.mask()
  %shifted = lshr i64 %mask, %level
  %bit = and i64 %shifted, 1
  %runs = icmp ne i64 %bit, 0
  br i1 %runs, label %take, label %not
take:
  %kept = add i64 %level, 1
  store atomic i64 %kept, ptr @chosen release, align 8
  ret i32 {_NUMBER["OK"]}
not:
  ret i32 {_NUMBER["NO_CODE"]}
}}
define i32 @{prefix}_init() nounwind {{
entry:
  %mask = call i64 @level.mask()
  %none = icmp eq i64 %mask, 0
  br i1 %none, label %not, label %take
take:
  %level = call i64 @llvm.cttz.i64(i64 %mask, i1 true)
  %kept = add i64 %level, 1
  store atomic i64 %kept, ptr @chosen release, align 8
  ret i32 {_NUMBER["OK"]}
not:
  ret i32 {_NUMBER["NO_CODE"]}
}}
declare i64 @llvm.cttz.i64(i64, i1)"""


def _level(prefix: str) -> str:
    return f"""define ptr @{prefix}_level() nounwind {{
entry:
  %kept = load atomic i64, ptr @chosen acquire, align 8
  %none = icmp eq i64 %kept, 0
  br i1 %none, label %not, label %known
known:
  %level = sub i64 %kept, 1
  %place = getelementptr ptr, ptr @levels, i64 %level
  %name = load ptr, ptr %place
  ret ptr %name
not:
  ret ptr null
}}"""


def _error(prefix: str) -> str:
    return f"""define ptr @{prefix}_error(i32 %status) nounwind {{
entry:
  %known = icmp ult i32 %status, {len(STATUS)}
  br i1 %known, label %one, label %other
one:
  %wide = zext i32 %status to i64
  %place = getelementptr ptr, ptr @statuses, i64 %wide
  %text = load ptr, ptr %place
  ret ptr %text
other:
  ret ptr @status.unknown
}}"""


_CHECK = """define internal i32 @check(ptr %pointers, ptr %masks, i64 %count) nounwind {
entry:
  %any = icmp ne i64 %count, 0
  br i1 %any, label %begin, label %good
begin:
  %nowhere = icmp eq ptr %pointers, null
  br i1 %nowhere, label %null, label %one
one:
  %k = phi i64 [0, %begin], [%next, %on]
  %at = getelementptr ptr, ptr %pointers, i64 %k
  %mask.at = getelementptr i64, ptr %masks, i64 %k
  %mask = load i64, ptr %mask.at
  %skip = icmp eq i64 %mask, -1
  br i1 %skip, label %on, label %look
look:
  %pointer = load ptr, ptr %at
  %is.null = icmp eq ptr %pointer, null
  br i1 %is.null, label %null, label %aligned
aligned:
  %number = ptrtoint ptr %pointer to i64
  %rest = and i64 %number, %mask
  %even = icmp eq i64 %rest, 0
  br i1 %even, label %on, label %uneven
on:
  %next = add i64 %k, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %one, label %good
good:
  ret i32 OK
null:
  ret i32 NULL_POINTER
uneven:
  ret i32 MISALIGNED
}"""


def _run(program: CProgram, entries: Sequence[Sequence[str]]) -> str:
    p, inputs, outputs = program.prefix, len(program.inputs), len(program.outputs)
    check = _CHECK
    for name, number in _NUMBER.items():
        check = check.replace(f"ret i32 {name}\n", f"ret i32 {number}\n")
    lines = [check, f"define i32 @{p}_run(ptr %inputs, ptr %outputs, ptr %arena) nounwind {{", "entry:",
             f"  %bad.inputs = call i32 @check(ptr %inputs, ptr @input.masks, i64 {inputs})", "  %inputs.good = icmp eq i32 %bad.inputs, 0",
             "  br i1 %inputs.good, label %more, label %fail.inputs", "fail.inputs:", "  ret i32 %bad.inputs", "more:",
             f"  %bad.outputs = call i32 @check(ptr %outputs, ptr @output.masks, i64 {outputs if _reads_outputs(program) else 0})",
             "  %outputs.good = icmp eq i32 %bad.outputs, 0", "  br i1 %outputs.good, label %memory, label %fail.outputs", "fail.outputs:",
             "  ret i32 %bad.outputs", "memory:"]
    if program.arena_bytes:
        lines += ["  %no.arena = icmp eq ptr %arena, null", "  br i1 %no.arena, label %null, label %place", "place:",
                  "  %address = ptrtoint ptr %arena to i64", f"  %rest = and i64 %address, {program.alignment - 1}",
                  "  %even = icmp eq i64 %rest, 0", "  br i1 %even, label %ready, label %uneven", "null:",
                  f"  ret i32 {_NUMBER['NULL_POINTER']}", "uneven:", f"  ret i32 {_NUMBER['MISALIGNED']}", "ready:"]
    for number, way in enumerate(program.ways):
        lines += _pointers(f"way.{number}.params", way.params, "%inputs")
        lines += _pointers(f"way.{number}.results", way.results if _reads_outputs(program) else (), "%outputs")
    lines += ["  %before = load atomic i64, ptr @chosen acquire, align 8", "  %asked = icmp ne i64 %before, 0",
              "  br i1 %asked, label %go, label %first", "first:", f"  %bad.level = call i32 @{p}_init()",
              "  %has.level = icmp eq i32 %bad.level, 0", "  br i1 %has.level, label %again, label %fail.level", "fail.level:",
              "  ret i32 %bad.level", "again:", "  %now = load atomic i64, ptr @chosen acquire, align 8", "  br label %go", "go:",
              f"  %level = phi i64 [%before, %{'ready' if program.arena_bytes else 'memory'}], [%now, %again]",
              f"  switch i64 %level, label %level.{len(entries) - 1} "
              f"[{' '.join(f'i64 {k + 1}, label %level.{k}' for k in range(len(entries) - 1))}]"]
    answers = []
    for k, ways in enumerate(entries):      # a way that is missed has written nothing that the next one reads
        for number, entry in enumerate(ways):
            lines += [f"level.{k}:" if not number else f"level.{k}.way.{number}:",
                      f"  %status.{k}.{number} = call i64 @{entry}(ptr %way.{number}.params, ptr %way.{number}.results, "
                      "ptr %arena, ptr null)"]
            answers.append(f"[%status.{k}.{number}, %level.{k}{f'.way.{number}' if number else ''}]")
            if number == len(ways) - 1:
                lines.append("  br label %done")
            else:
                lines += [f"  %bit.{k}.{number} = and i64 %status.{k}.{number}, {GUARD_MISSED}",
                          f"  %other.{k}.{number} = icmp ne i64 %bit.{k}.{number}, 0",
                          f"  br i1 %other.{k}.{number}, label %level.{k}.way.{number + 1}, label %done"]
    lines += ["done:", f"  %status = phi i64 {', '.join(answers)}",
              "  %good = icmp eq i64 %status, 0", f"  %missed = and i64 %status, {GUARD_MISSED}", "  %decided = icmp ne i64 %missed, 0",
              f"  %failed = select i1 %decided, i32 {_NUMBER['DECISION']}, i32 {_NUMBER['INDEX']}",
              f"  %answer = select i1 %good, i32 {_NUMBER['OK']}, i32 %failed",
              "  ret i32 %answer", "}"]
    return "\n".join(lines)


def _pointers(name: str, places: Sequence[int], given: str) -> list[str]:
    """Instructions that make the array `name` of the pointers `given[place]`; a place below 0 is a constant."""
    lines = [f"  %{name} = alloca [{max(len(places), 1)} x ptr]"]
    for k, place in enumerate(places):
        lines.append(f"  %{name}.{k} = getelementptr ptr, ptr %{name}, i64 {k}")
        if place < 0:
            lines.append(f"  store ptr @constant.{-1 - place}, ptr %{name}.{k}")
        else:
            lines += [f"  %{name}.{k}.at = getelementptr ptr, ptr {given}, i64 {place}",
                      f"  %{name}.{k}.got = load ptr, ptr %{name}.{k}.at",
                      f"  store ptr %{name}.{k}.got, ptr %{name}.{k}"]
    return lines


def _reads_outputs(program: CProgram) -> bool:
    return any(output.input < 0 for output in program.outputs)
