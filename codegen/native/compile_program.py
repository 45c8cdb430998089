"""Makes a compiled program of a planned graph: its text, its data, its object code.

    code = lower_program(planned, target)
    artifact = make_artifact(planned, code, target)
    compiled = compile_program_text(code.text, target)      # object code with the entry `adjit_run`
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from adjit.codegen.link import CompiledObject
from adjit.codegen.native.artifact import Artifact, Parameter, Result
from adjit.codegen.native.index_checks import index_checks
from adjit.codegen.native.module_parts import split_module, worthwhile_parts
from adjit.codegen.native.program import ENTRY, lower_program
from adjit.codegen.native.program_code import ProgramCode
from adjit.codegen.object_code import Module, emit_objects
from adjit.codegen.target import Target
from adjit.ir.graph import Graph
from adjit.ir.layout import ALIGNMENT, Handing, Layout
from adjit.ir.types import short_name

if TYPE_CHECKING:
    from adjit.codegen.native.product_kernels import KernelObject

__all__ = ["compile_program_text", "lower_program", "make_artifact"]


def make_artifact(planned: Graph, code: ProgramCode, target: Target) -> Artifact:
    """What the planned graph says about its program."""
    layout = Layout(planned)
    return Artifact(
        planned.name, target.name,
        tuple(Parameter(value.name or "", short_name(value.type.dtype), value.type.shape, role)
              for value, role in zip(planned.params, planned.param_roles, strict=True)),
        tuple(Result(short_name(value.type.dtype), value.type.shape, home.param if home.handing is Handing.DONATED else -1)
              for value, home in zip(planned.results, layout.homes, strict=True)),
        layout.arena_bytes, ALIGNMENT, code.stack_bytes, index_checks(layout), code.work, len(code.calls),
        len({call.function for call in code.calls}), code.flush_subnormals)


def compile_program_text(text: str, target: Target, verify: bool = False, threads: int = 1,
                         kernels: Sequence[KernelObject] = ()) -> CompiledObject:
    """Object code of a module with the entry `adjit_run`. No passes run over it: the text is as good as it will be.

    On several `threads` there will be several object files, with the same code in them; those of `kernels`, which the text has too, are
    taken as they are. `verify` has LLVM check the modules first; raises `RuntimeError` where they are wrong.
    """
    made = {name for kernel in kernels for name in kernel.texts}
    modules = split_module(text, worthwhile_parts(text, threads), made) if threads > 1 or made else [Module(text)]
    first, *more = emit_objects(modules, target, verify, threads)
    return CompiledObject(first, ENTRY, more=(*more, *(kernel.code for kernel in kernels)))
