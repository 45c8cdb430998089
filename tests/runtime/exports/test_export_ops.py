"""Exported code of every op: none needs more of libc than `memcpy` and `memset`, at the levels that no other tests run."""

from __future__ import annotations

import pytest
from support.native_steps import module_text
from support.object_code import undefined_symbols
from support.op_cases import for_each_op, type_of

from adjit.codegen.native.lower_op import lower_op
from adjit.codegen.target import LEVELS, NEON, Target, machine
from adjit.ir.definition import Kind, OpDefinition
from adjit.ir.graph import Op, Value
from adjit.ir.ops.traits import TRANSFORMS
from adjit.runtime.native.code import native_is_supported

pytestmark = pytest.mark.skipif(not native_is_supported(), reason="native programs are for Linux on x86-64")


@pytest.mark.parametrize("target", [pytest.param(LEVELS["x86-64-v2"], id="v2"), pytest.param(NEON, id="neon")])
@for_each_op(*(kind for kind in Kind if kind not in (Kind.REGION, Kind.MEMORY)), where=lambda record: record.name not in TRANSFORMS)
def test_ops_need_nothing_of_libc(definition: OpDefinition, target: Target) -> None:
    import llvmlite.binding as llvm

    taken = set()
    for sample in definition.samples():
        operands = tuple(Value(type_of(array)) for array in sample.arrays)
        (result,) = definition.result_types([value.type for value in operands], sample.attrs)
        signature = operands and operands[0].type.dtype, result.dtype
        if signature in taken and definition.kind is Kind.ELEMENTWISE:
            continue
        taken.add(signature)
        text = module_text(lower_op(Op(definition, operands, (Value(result),), sample.attrs), {}, target))
        module = llvm.parse_assembly(f'target triple = "{machine(target).triple}"\n{text}', llvm.create_context())
        assert undefined_symbols(machine(target).emit_object(module)) <= {"memcpy", "memset"}
