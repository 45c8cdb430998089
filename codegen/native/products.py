"""Products of matrices as steps: the machine code of `codegen/gemm/`, behind the one calling convention."""

from __future__ import annotations

from dataclasses import replace

from adjit.codegen.gemm.lower import SYMBOL, TABLE, ProductText, write_product
from adjit.codegen.gemm.product import product_of
from adjit.codegen.llvm.module import GLUE
from adjit.codegen.native.program_code import Pitches
from adjit.codegen.native.step_code import SIGNATURE, StepCode
from adjit.codegen.target import Target
from adjit.ir.graph import Op

NANOSECONDS_A_VECTOR = 0.12
"""What a vector multiply-add takes, roughly: two a cycle."""

_ENTRY = """define internal i64 @step({signature}) {attributes} {{
entry:
  %A = load ptr, ptr %places
  %places.1 = getelementptr ptr, ptr %places, i64 1
  %B = load ptr, ptr %places.1
  %places.2 = getelementptr ptr, ptr %places, i64 {result}
  %C = load ptr, ptr %places.2
{body}"""


def lower_matmul(op: Op, target: Target, pitches: Pitches) -> tuple[StepCode, ...] | None:
    """The product as one step; None for integers, bools and empty results."""
    product = product_of(op)
    if product is None:
        return None
    product = replace(product, row_a=pitches.get(0, product.row_a), row_b=pitches.get(1, product.row_b))
    return (product_step(write_product(product, target), 2),)


def product_step(written: ProductText, result: int) -> StepCode:
    """The step of a product whose result has this number among the places; those before are A and B first, and what else it reads."""
    body = written.own[SYMBOL].partition("\nentry:\n")[2].replace("ret void", "ret i64 0")
    attributes = GLUE if written.is_call else "nounwind"
    own = {**written.own, SYMBOL: _ENTRY.format(signature=SIGNATURE, attributes=attributes, result=result, body=body)}
    text = "\n".join(own.values()).replace(f"@{TABLE}", "@step.plan")
    work = written.plan.product.multiplications / written.plan.lanes * NANOSECONDS_A_VECTOR
    return StepCode(text, written.plan.tasks, work, written.declarations, written.shared)
