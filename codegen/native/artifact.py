"""A compiled native program: object code, and as plain data everything that its caller has to know.

    artifact = make_artifact(planned, lower_program(planned, target), target)
    code = compile_program_text(artifact, code.text, target)        # object code with the entry `adjit_run`

The data can be written as JSON and needs no graph: it is what is kept on disk, and what is exported.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from adjit.codegen.link import CompiledObject
from adjit.codegen.native.control_flow import nested_ops
from adjit.codegen.native.program import ENTRY
from adjit.codegen.native.program_code import OP_SHIFT, ProgramCode
from adjit.codegen.target import Target, machine
from adjit.ir.definition import Kind
from adjit.ir.errors import Location
from adjit.ir.graph import Graph, Op
from adjit.ir.layout import ALIGNMENT, Handing, Layout
from adjit.ir.ops.control_flow import CONTROL_FLOW
from adjit.ir.types import short_name
from adjit.ir.version import VERSION


@dataclass(frozen=True, slots=True)
class Parameter:
    """An array that is passed: contiguous, row by row. `role` is that of the graph: "donated" and "updated" ones are written."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    role: str


@dataclass(frozen=True, slots=True)
class Result:
    """An array that comes back: in memory that the caller gave for it, or in that of donated parameter number `param` (else -1)."""

    dtype: str
    shape: tuple[int, ...]
    param: int


@dataclass(frozen=True, slots=True)
class IndexCheck:
    """What an op checks: its indices, int64, `space` ("arena", "param", "result") and `offset` say where, against an axis of `size`.
    Where the indices of an op within a loop or a branch lie is not kept: there `space` is "".

    `place` is the user's file, line and function; None where they are not known.
    """

    op: str
    space: str
    offset: int
    shape: tuple[int, ...]
    axis: int
    size: int
    place: tuple[str, int, str] | None

    @property
    def location(self) -> Location | None:
        return None if self.place is None else Location(*self.place)


@dataclass(frozen=True, slots=True)
class Artifact:
    """What is known of a compiled program besides its code. `checks` is by the number of the op that `adjit_run` returns.

    `work` is estimated nanoseconds on one thread, `calls` and `functions` are numbers of calls of steps and of different steps.
    """

    name: str
    target: str
    params: tuple[Parameter, ...]
    results: tuple[Result, ...]
    arena_bytes: int
    alignment: int
    checks: Mapping[int, IndexCheck]
    work: float
    calls: int
    functions: int
    version: str = VERSION

    def as_json(self) -> str:
        """The data as text; `artifact_of_json` reads it."""
        return json.dumps(asdict(self), separators=(",", ":"))


def artifact_of_json(text: str) -> Artifact:
    """The inverse of `Artifact.as_json`."""
    fields: dict[str, Any] = json.loads(text)
    fields["params"] = tuple(Parameter(**{**param, "shape": tuple(param["shape"])}) for param in fields["params"])
    fields["results"] = tuple(Result(**{**result, "shape": tuple(result["shape"])}) for result in fields["results"])
    fields["checks"] = {
        int(number): IndexCheck(**{**check, "shape": tuple(check["shape"]), "place": check["place"] and tuple(check["place"])})
        for number, check in fields["checks"].items()}
    return Artifact(**fields)


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


def nested_check(number: int, position: int) -> int:
    """The number of the check of an op within the loop or branch `number`, whose place among the ops there is `position`."""
    return ((position + 1) << _NESTED_SHIFT) + number


_NESTED_SHIFT = 32


def failed_check(status: int) -> tuple[int, int]:
    """The number of the op, and the position among its indices, that a number returned by `adjit_run` stands for.

    >>> failed_check((3 + 1) << 40 | (7 + 1))
    (3, 7)
    """
    return (status >> OP_SHIFT) - 1, (status & ((1 << OP_SHIFT) - 1)) - 1


def compile_program_text(text: str, target: Target, verify: bool = False) -> CompiledObject:
    """Object code of a module with the entry `adjit_run`. No passes run over it: the text is as good as it will be.

    `verify` has LLVM check the module first; raises `RuntimeError` where it is wrong.
    """
    import llvmlite.binding as llvm

    target_machine = machine(target)
    context = llvm.create_context()     # its own, for it never forgets a number
    module = llvm.parse_assembly(f'target triple = "{target_machine.triple}"\n{text}', context)
    if verify:
        module.verify()
    return CompiledObject(target_machine.emit_object(module), ENTRY)
