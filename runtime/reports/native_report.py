"""Report on the code of a native program: the text of each step, and its size."""

from __future__ import annotations

import re

from adjit.codegen.llvm.object_code import assembly_text
from adjit.codegen.llvm.target import TARGETS
from adjit.codegen.native.program_code import Call
from adjit.ir.analysis.cost import cost_of
from adjit.runtime.native.executable import NativeExecutable
from adjit.runtime.reports.memory_blocks import format_bytes


def step_names(executable: NativeExecutable) -> dict[str, str]:
    """A unique name for each function of the program, keyed by its name in the module."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for call in executable.program.calls:
        if call.function not in names:
            name, number = call.name, 1
            while name in taken:
                number += 1
                name = f"{call.name}_{number}"
            taken.add(name)
            names[call.function] = name
    return names


def step_texts(executable: NativeExecutable) -> dict[str, str]:
    """The LLVM text of each step, by name, in the order of their first use; then the functions that steps share."""
    names = step_names(executable)
    texts = {names[call.function]: call.code.text for call in executable.program.calls}
    shared = [function.text for _, function in sorted(executable.program.shared.items())]
    return {**texts, "shared functions": "\n".join(shared)} if shared else texts


def step_assembly(executable: NativeExecutable) -> dict[str, str]:
    """The instructions of each step, by name: assembly without the assembler's directives."""
    target = TARGETS[executable.code.artifact.target]
    names, found, function = step_names(executable), dict[str, list[str]](), ""
    for line in assembly_text(executable.program.text, target).splitlines():
        label = re.match(r'"?([\w.]+)"?:', line)
        if label is not None and (label[1] in names or not label[1].startswith(".")):
            function = names.get(label[1], "")
        elif function and (label is not None or not line.lstrip().startswith(".")):
            found.setdefault(function, []).append(line.partition("#")[0].rstrip())
    return {name: "\n".join(line for line in lines if line and not line.startswith(".Lfunc")) for name, lines in found.items()}


def describe_code(executable: NativeExecutable) -> list[str]:
    """Lines for `explain()`."""
    code, names = executable.code, step_names(executable)
    artifact = code.artifact
    calls: dict[str, list[Call]] = {}
    for call in executable.program.calls:
        calls.setdefault(call.function, []).append(call)
    width = max((len(name) for name in names.values()), default=5)
    cost = cost_of(executable.assignment.graph)
    lines = [
        f"machine code for {artifact.target}: {format_bytes(code.loaded.nbytes)}, {code.origin}",
        f"{artifact.calls} calls of {artifact.functions} functions, estimated {artifact.work / 1e3:.1f} us on one thread",
        f"{cost.operations:.3g} floating-point operations, {format_bytes(cost.nbytes)} read and written"]
    if artifact.flush_subnormals:
        lines.append("subnormal numbers are zeros to it")
    if names:
        lines.append(f"steps{'':{width - 3}}  {'used':>4}  {'tasks':>7}  {'estimated us':>12}")
    for function, name in names.items():
        same = calls[function]
        parallel = "  split over threads" if executable.threads > 1 and same[0].parallel else ""
        lines.append(f"  {name:<{width}}  {len(same):>4}  {same[0].code.tasks:>7}  {sum(c.code.work for c in same) / 1e3:12.1f}{parallel}")
    return lines
