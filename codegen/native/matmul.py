"""Products of matrices as steps: the machine code of `codegen/gemm/`, behind the one calling convention."""

from __future__ import annotations

from dataclasses import replace

from adjit.codegen.gemm.lower import SYMBOL, TABLE, ProductText, write_product
from adjit.codegen.gemm.product import product_of
from adjit.codegen.llvm.module import DISPATCH, Function
from adjit.codegen.llvm.target import Target
from adjit.codegen.native.program_code import LeadingDims
from adjit.codegen.native.step_code import SIGNATURE, StepCode
from adjit.ir.graph import Op

NS_PER_VECTOR = 0.12
"""Nanoseconds of a vector multiply-add, roughly: two a cycle."""


def lower_matmul(op: Op, target: Target, leading_dims: LeadingDims) -> tuple[StepCode, ...] | None:
    """The product as one step; None for integers, bools and empty results."""
    product = product_of(op)
    if product is None:
        return None
    product = replace(product, lda=leading_dims.get(0, product.lda), ldb=leading_dims.get(1, product.ldb))
    return (matmul_step(write_product(product, target), 2),)


def matmul_step(written: ProductText, result: int) -> StepCode:
    """The step of a product whose result has this number among the places; those before are A and B first, and what else it reads."""
    entry = written.own[SYMBOL]
    assert isinstance(entry, Function)
    lines = []
    for number, name in ((0, "A"), (1, "B"), (result, "C")):
        lines += [f"  %places.{number} = getelementptr ptr, ptr %places, i64 {number}", f"  %{name} = load ptr, ptr %places.{number}"]
    step = Function("step", SIGNATURE, [*lines, *entry.lines], result="i64", returned="i64 0", uses=entry.uses, stack=entry.stack,
                    attributes=DISPATCH if written.is_call else "nounwind")
    own = [*(definition for name, definition in written.own.items() if name != SYMBOL), step]
    work = written.plan.product.multiplications / written.plan.lanes * NS_PER_VECTOR
    functions = tuple([definition.renamed(TABLE, "step.plan") for definition in own])
    return StepCode(functions, written.plan.tasks, work, written.declarations, written.shared)
