"""Makes a compiled program of a planned graph: its text, its data, its object code.

    code = lower_program(planned, target)
    artifact = make_artifact(planned, code, target)
    compiled = compile_program_text(code.text, target)      # object code with the entry `adjit_run`
"""

from __future__ import annotations

from adjit.codegen.llvm.link import CompiledObject
from adjit.codegen.llvm.object_code import Module, emit_objects
from adjit.codegen.llvm.target import Target
from adjit.codegen.native.artifact import Artifact, Parameter, Result
from adjit.codegen.native.index_checks import index_checks
from adjit.codegen.native.program import ENTRY, lower_program
from adjit.codegen.native.program_code import ProgramCode
from adjit.ir.analysis.buffer_assignment import BufferAssignment, ResultKind
from adjit.ir.graph import Graph
from adjit.ir.memory_sizes import ALIGNMENT
from adjit.ir.types import short_name

__all__ = ["compile_program_text", "lower_program", "make_artifact"]


def make_artifact(planned: Graph, code: ProgramCode, target: Target) -> Artifact:
    """What the planned graph says about its program."""
    assignment = BufferAssignment(planned)
    return Artifact(
        planned.name, target.name,
        tuple(Parameter(value.name or "", short_name(value.type.dtype), value.type.shape, role)
              for value, role in zip(planned.params, planned.param_roles, strict=True)),
        tuple(Result(short_name(value.type.dtype), value.type.shape, location.param if location.kind is ResultKind.DONATED else -1)
              for value, location in zip(planned.results, assignment.result_locations, strict=True)),
        assignment.arena_bytes, ALIGNMENT, code.stack_bytes, index_checks(assignment), code.work, len(code.calls),
        len({call.function for call in code.calls}), code.flush_subnormals)


def compile_program_text(text: str, target: Target, verify: bool = False) -> CompiledObject:
    """Object code of a module with the entry `adjit_run`. No passes run over it: the text is as good as it will be.

    `verify` has LLVM check the module first; raises `RuntimeError` where it is wrong.
    """
    (code,) = emit_objects([Module(text)], target, verify)
    return CompiledObject(code, ENTRY)
