"""Exported code of every op: none needs more of libc than `memcpy` and `memset`, at the levels that no other tests run."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from support.each import for_each
from support.native_steps import module_text
from support.object_code import undefined_symbols
from support.op_cases import type_of

from adjit.codegen.llvm.target import LEVELS, NEON, Target, machine
from adjit.codegen.native.lower_op import lower_op
from adjit.codegen.native.program_code import StepCode
from adjit.ir.definition import DEFINITIONS, Kind, OpDefinition
from adjit.ir.graph import Op, Value
from adjit.ir.ops.traits import TRANSFORMS
from adjit.runtime.native.code import native_is_supported

pytestmark = pytest.mark.skipif(not native_is_supported(), reason="native programs are for Linux on x86-64")
PROVIDED = {"memcpy", "memset"}


@pytest.mark.share(8)
@pytest.mark.parametrize("target", [pytest.param(LEVELS["x86-64-v2"], id="v2"), pytest.param(NEON, id="neon")])
@pytest.mark.parametrize("kind", [kind for kind in Kind if kind not in (Kind.REGION, Kind.MEMORY, Kind.CHECK, Kind.LINALG, Kind.EXTERNAL)],
                         ids=lambda kind: kind.name)
def test_ops_need_nothing_of_libc(kind: Kind, target: Target) -> None:
    """Those of a kind in one module, for LLVM takes milliseconds for each; where it asks for more, the ops are looked at one by one."""
    definitions = [record for record in DEFINITIONS.values()
                   if record.kind is kind and record.name not in TRANSFORMS and record.external is None]
    steps = {record.name: steps_of(record, target) for record in definitions}
    if wanted_symbols([step for each in steps.values() for step in each], target) <= PROVIDED:
        return
    for_each(steps.items(), lambda *each: check_symbols(each, target), share=2)
    raise AssertionError("only together they ask for more")


def check_symbols(steps: Sequence[StepCode], target: Target) -> None:
    assert wanted_symbols(steps, target) <= PROVIDED


def wanted_symbols(steps: Sequence[StepCode], target: Target) -> set[str]:
    import llvmlite.binding as llvm

    module = llvm.parse_assembly(f'target triple = "{machine(target).triple}"\n{module_text(steps)}', llvm.create_context())
    return undefined_symbols(machine(target).emit_object(module))


def steps_of(definition: OpDefinition, target: Target) -> tuple[StepCode, ...]:
    """Those of all samples; of an elementwise op one for each dtype."""
    taken, found = set(), []
    for sample in definition.samples():
        operands = tuple(Value(type_of(array)) for array in sample.arrays)
        (result,) = definition.result_types([value.type for value in operands], sample.attrs)
        signature = operands and operands[0].type.dtype, result.dtype
        if signature in taken and definition.kind is Kind.ELEMENTWISE:
            continue
        taken.add(signature)
        found += lower_op(Op(definition, operands, (Value(result),), sample.attrs), {}, target)
    return tuple({step.text: step for step in found}.values())
