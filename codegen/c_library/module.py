"""A library as one LLVM module: the program for each processor level, and the functions that C calls.

Code for different levels lies in one module: every function names the features that it needs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import product

from adjit.codegen.c_library.description import CProgram
from adjit.codegen.c_library.interface import interface_text
from adjit.codegen.llvm.module import Function
from adjit.codegen.llvm.target import Target, machine
from adjit.codegen.native.program import lower_program
from adjit.codegen.process.off_main_thread import off_main_thread
from adjit.ir.analysis.buffer_assignment import arena_bytes
from adjit.ir.graph import Graph

_NAME = re.compile(r"@([\w.$-]+)")


def library_text(ways: Sequence[Graph], program: CProgram, targets: Sequence[Target]) -> tuple[str, CProgram]:
    """The module of the planned graphs of a function's ways for `targets`, the best first, and the program with an arena that is large
    enough for every way and target.

    Raises `UnsupportedError` if an op has no machine code.
    """
    declarations: dict[str, None] = {}
    metadata: dict[str, None] = {}
    parts, entries, most_bytes = [], [], 0
    for (number, target), (way, planned) in product(enumerate(targets), enumerate(ways)):
        prefix = f"level{number}.way{way}." if way else f"level{number}."
        code = lower_program(planned, target, prefix, flush_subnormals=program.flush_subnormals)
        attributes = f'"target-cpu"="{target.cpu}" "target-features"="{target.feature_text}"'
        for definition in code.definitions:
            if definition.is_metadata:
                metadata[definition.text] = None
                continue
            if isinstance(definition, Function):
                definition = definition.changed(attributes=f"{definition.attributes} {attributes}")
            parts.append(_with_prefix(definition.text, code.shared, prefix))
        declarations.update(dict.fromkeys(sorted(code.declarations)))
        entries.append(code.entry)
        most_bytes = max(most_bytes, arena_bytes(planned) + code.scratch_bytes)
    functions = "\n".join(parts)
    program = replace(program, arena_bytes=most_bytes)
    interface = interface_text(program, targets, [entries[k:k + len(ways)] for k in range(0, len(entries), len(ways))])
    return "\n".join([*declarations, functions, interface, *metadata, ""]), program


def _with_prefix(text: str, shared: Collection[str], prefix: str) -> str:
    """`text` with `prefix` before the names in `shared`: each level has its own code under these names."""
    return _NAME.sub(lambda match: f"@{prefix if match[1] in shared else ''}{match[1]}", text)


@off_main_thread
def compile_library(text: str, target: Target) -> bytes:
    """The object file, position-independent. `target` is the lowest level: code that belongs to no level is compiled for it."""
    import llvmlite.binding as llvm

    target_machine = machine(target)
    llvm.initialize_native_asmparser()      # for the `cpuid` and `xgetbv` instructions
    module = llvm.parse_assembly(f'target triple = "{target_machine.triple}"\n{text}')
    module.verify()
    code: bytes = target_machine.emit_object(module)
    return code
