"""Makes a compiled program of a planned graph: its text, its data, its object code.

    code = lower_program(planned, target)
    artifact = make_artifact(planned, code, target)
    compiled = compile_program_text(code.text, target)      # object code with the entry `adjit_run`
"""

from __future__ import annotations

from adjit.codegen.link import CompiledObject
from adjit.codegen.native.artifact import Artifact, IndexCheck, Parameter, Result, nested_check
from adjit.codegen.native.module_parts import split_module, worthwhile_parts
from adjit.codegen.native.program import ENTRY, lower_program
from adjit.codegen.native.program_code import ProgramCode
from adjit.codegen.object_code import emit_objects
from adjit.codegen.target import Target
from adjit.ir.definition import Kind
from adjit.ir.graph import Graph, Op
from adjit.ir.layout import ALIGNMENT, Handing, Layout
from adjit.ir.ops.control_flow import CONTROL_FLOW
from adjit.ir.region_memory import nested_ops
from adjit.ir.types import short_name

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
        layout.arena_bytes, ALIGNMENT, _checks(layout), code.work, len(code.calls), len({call.function for call in code.calls}))


def _checks(layout: Layout) -> dict[int, IndexCheck]:
    found = {}
    for number, op in enumerate(layout.ops):
        if op.definition.kind is Kind.INDEXING:
            slot = layout.places[op.operands[1]]
            found[number] = _check(op, slot.space, slot.offset)
        if op.name in CONTROL_FLOW:
            found.update((nested_check(number, position), _check(inner, "", 0)) for position, (inner, _) in enumerate(nested_ops(op))
                         if inner.definition.kind is Kind.INDEXING)
    return found


def _check(op: Op, space: str, offset: int) -> IndexCheck:
    base, indices = op.operands[:2]
    place = None if op.loc is None else (op.loc.file, op.loc.line, op.loc.function)
    return IndexCheck(op.name, space, offset, indices.type.shape, op.attrs["axis"], base.type.shape[op.attrs["axis"]], place)


def compile_program_text(text: str, target: Target, verify: bool = False, threads: int = 1) -> CompiledObject:
    """Object code of a module with the entry `adjit_run`. No passes run over it: the text is as good as it will be.

    On several `threads`, a long text becomes several object files, with the same code in them. `verify` has LLVM check the module first;
    raises `RuntimeError` where it is wrong.
    """
    parts = worthwhile_parts(text, threads)
    first, *more = emit_objects([text] if parts == 1 else split_module(text, parts), target, verify, threads)
    return CompiledObject(first, ENTRY, more=tuple(more))
