"""Writes a product as one LLVM module: kernels of its tiles, the loops around them, and an entry that runs a range of its tasks.

    code = lower_product(dense_product(128, 784, 512, "f32"), host_target())
    code.plan       # tiles of 8 x 3 vectors, 16 x 11 of them, k in 3, B copied, split by columns

The entry is `void adjit_product(A, B, C, int64 low, int64 high)`; tasks are numbered from 0 to `plan.tasks`. Each writes elements of C of
its own, so that any division among threads gives the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from adjit.codegen.gemm.dot_products import emit_dot_products
from adjit.codegen.gemm.panels import emit_packing, emit_strips
from adjit.codegen.gemm.plan import Plan, Size, plan_product, runs
from adjit.codegen.gemm.product import Product
from adjit.codegen.gemm.tile import Epilogue, Prologue, Tile, emit_tile
from adjit.codegen.gemm.vectors import VectorText
from adjit.codegen.link import CompiledObject
from adjit.codegen.llvm_text import LLVMText
from adjit.codegen.target import Target, machine
from adjit.ir.dataclass import dataclass

SYMBOL = "adjit_product"


@dataclass(frozen=True, slots=True)
class ProductCode:
    """A product as LLVM text, and the plan it follows."""

    plan: Plan
    target: Target
    text: str


def lower_product(product: Product, target: Target, prologue: Prologue | None = None, epilogue: Epilogue = Tile.store) -> ProductCode:
    """The product for this target. `prologue` is applied to B, `epilogue` stores the tiles of C; with either, no dot products are used."""
    plan, text = write_product(product, target, prologue, epilogue)
    return ProductCode(plan, target, str(text))


def write_product(product: Product, target: Target, prologue: Prologue | None = None,
                  epilogue: Epilogue = Tile.store) -> tuple[Plan, VectorText]:
    """As `lower_product`; the functions one by one, the entry under the name `SYMBOL`."""
    plan = plan_product(product, target, hooks=prologue is not None or epilogue is not Tile.store)
    text = VectorText(target, product.dtype)
    _emit(text, plan, prologue, epilogue)
    return plan, text


def compile_product(code: ProductCode) -> CompiledObject:
    """Object code; takes 5 to 30 ms."""
    import llvmlite.binding as llvm

    target_machine = machine(code.target)
    module = llvm.parse_assembly(f'target triple = "{target_machine.triple}"\n{code.text}')
    return CompiledObject(target_machine.emit_object(module), SYMBOL)


def _emit(text: VectorText, plan: Plan, prologue: Prologue | None, epilogue: Epilogue) -> None:
    p = plan.product
    a, b = ("%B", "%A") if plan.swapped else ("%A", "%B")
    with text.function(SYMBOL, "ptr %A, ptr %B, ptr %C, i64 %low, i64 %high", ""):
        if not plan.tasks:
            return
        strips = panel = ""
        if plan.a != "in place":
            strips = text.let(f"alloca [{max(plan.parts) * max(map(sum, plan.blocks))} x {text.scalar}], align 64")
        if plan.b != "in place":
            panel = text.let(f"alloca [{max(plan.parts) * plan.panel_columns} x {text.scalar}], align 64")
        if p.batch == 1:
            _emit_product(text, plan, a, b, "%C", (strips, panel), ("%low", "%high"), prologue, epilogue)
            return
        each = plan.tasks_each
        first, stop = "%low", "%high"
        if each > 1:
            first, stop = text.let(f"udiv i64 %low, {each}"), text.let(f"udiv i64 {text.let(f'add i64 %high, {each - 1}')}, {each}")
        with text.loop(first, stop, empty=True) as batch:
            share: tuple[str, str] | None = None
            if each > 1:
                done = text.let(f"mul i64 {batch.counter}, {each}")
                low, high = (text.let(f"sub i64 {bound}, {done}") for bound in ("%low", "%high"))
                share = (text.larger(low, 0), text.smaller(high, each))
            at_a, at_b = text.at(a, (batch.counter, p.step_a)), text.at(b, (batch.counter, p.step_b))
            at_c = text.at("%C", (batch.counter, p.step_c))
            _emit_product(text, plan, at_a, at_b, at_c, (strips, panel), share, prologue, epilogue)


def _emit_product(text: VectorText, plan: Plan, a: str, b: str, c: str, buffers: tuple[str, str], share: tuple[str, str] | None,
                  prologue: Prologue | None, epilogue: Epilogue) -> None:
    """The tasks of `share` of one product, or all: for each part of k, for each panel of B, for each tile of the panel.

    Where A is copied, the blocks of rows are outside of the panels.
    """
    p = plan.product
    strips, panel = buffers
    of_rows, of_columns = (share if plan.axis == axis else None for axis in ("rows", "columns"))
    for start, length in _every(text, plan.parts):
        first, last = text.let(f"icmp eq i64 {start}, 0"), text.let(f"icmp eq i64 {start}, {p.inner - length}")
        outer = _every(text, plan.blocks, of_rows) if strips else iter([("0", ())])
        for block, tiles in outer:
            if strips:
                emit_strips(text, plan, tiles, text.at(a, block, (start, p.row_a)), strips, length)
            for column, counts in _every(text, plan.panels, of_columns):
                source = text.at(b, (column, p.row_b), start) if p.transpose_b else text.at(b, column, (start, p.row_b))
                if panel:
                    emit_packing(text, plan, counts, prologue, source, panel, length)
                    source = panel
                inner = iter([(block, tiles)]) if strips else _every(text, plan.blocks, of_rows)
                for top, sizes in inner:
                    for below, rows in _every(text, sizes):
                        row = text.let(f"add i64 {top}, {below}")
                        if plan.dots:
                            kernel = emit_dot_products(text, plan, rows, *counts)
                        else:
                            kernel = emit_tile(text, plan, rows, counts, prologue, epilogue)
                        if strips:
                            corner = text.at(strips, (below, length))
                        else:
                            corner = text.at(a, row, (start, p.row_a)) if p.transpose_a else text.at(a, (row, p.row_a), start)
                        text.do(f"call void @{kernel}(ptr {corner}, ptr {source}, ptr {text.at(c, (row, p.row_c), column)}, "
                                f"i64 {length}, i1 {first}, i1 {last}, i64 {row}, i64 {column})")


def _every(text: LLVMText, sizes: Sequence[Size], share: tuple[str, str] | None = None) -> Iterator[tuple[str, Size]]:
    """Writes a loop for each run of equal sizes, over those whose index is in the share; yields where one begins, and its size."""
    for index, start, size, times in runs(sizes):
        low: str | int = 0
        high: str | int = times
        if share is not None:
            low = text.larger(text.let(f"sub i64 {share[0]}, {index}"), 0)
            high = text.smaller(text.let(f"sub i64 {share[1]}, {index}"), times)
        with text.loop(low, high, empty=share is not None) as loop:
            scaled = text.let(f"mul i64 {loop.counter}, {size if isinstance(size, int) else sum(size)}")
            yield text.let(f"add i64 {scaled}, {start}"), size
