"""Steps of matrix products: the machine code of `codegen/gemm/`, behind the common calling convention.

An epilogue (elementwise ops on the product) runs on each tile of the result as soon as the tile is complete. One epilogue function serves
tiles of all sizes; product kernels are the same with and without an epilogue.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from adjit.codegen.gemm.kernels import TILE_EPILOGUE, Kernel, named_by_content
from adjit.codegen.gemm.lower import SYMBOL, TABLE, ProductText, write_product
from adjit.codegen.gemm.product import product_of
from adjit.codegen.llvm.module import DISPATCH, Function
from adjit.codegen.llvm.target import Target
from adjit.codegen.native.kernels.builder import KernelBuilder
from adjit.codegen.native.program_code import SIGNATURE, LeadingDims, StepCode
from adjit.ir.analysis.iteration_space import infer_maps, map_extent
from adjit.ir.graph import Graph, Op, Value
from adjit.ir.ops.traits import FREE_IN_KERNELS

NS_PER_VECTOR = 0.12
"""Estimated nanoseconds of a vector multiply-add: two a cycle."""


def lower_matmul(op: Op, target: Target, leading_dims: LeadingDims) -> tuple[StepCode, ...] | None:
    """The product as one step; None for integers, bools and empty results."""
    product = product_of(op)
    if product is None:
        return None
    product = replace(product, lda=leading_dims.get(0, product.lda), ldb=leading_dims.get(1, product.ldb))
    return (matmul_step(write_product(product, target), 2),)


def lower_complex_matmul(op: Op, shared: Mapping[int, int], target: Target) -> tuple[StepCode, ...]:
    """The product of complex numbers as one step; none if it is empty."""
    return lower_matmul(op, target, {}) or ()


def matmul_step(written: ProductText, result: int) -> StepCode:
    """The step of a product. `result` is the number of the result among the step's arguments; before it come A and B, then the operands of
    the epilogue."""
    entry = written.own[SYMBOL]
    assert isinstance(entry, Function)
    lines = []
    for number, name in ((0, "A"), (1, "B"), (result, "C")):
        lines += [f"  %places.{number} = getelementptr ptr, ptr %places, i64 {number}", f"  %{name} = load ptr, ptr %places.{number}"]
    step = Function("step", SIGNATURE, [*lines, *entry.lines], result="i64", returned="i64 0", uses=entry.uses,
                    attributes=DISPATCH if written.is_call else "nounwind")
    own = [*(definition for name, definition in written.own.items() if name != SYMBOL), step]
    work = written.plan.product.multiplications / written.plan.lanes * NS_PER_VECTOR
    functions = tuple([definition.renamed(TABLE, "step.plan") for definition in own])
    return StepCode(functions, written.plan.tasks, work, written.declarations, written.shared, scratch_bytes=written.scratch_bytes)


def lower_matmul_epilogue(op: Op, target: Target, leading_dims: LeadingDims) -> tuple[StepCode, ...]:
    """The step of a `matmul_epilogue`."""
    (region,) = op.regions
    matmul, *following = region.ops
    product = product_of(matmul)
    assert product is not None, "only products of floats that are not empty are joined with what follows"
    product = replace(product, lda=leading_dims.get(0, product.lda), ldb=leading_dims.get(1, product.ldb))
    rest = Graph(region.name, (matmul.result, *region.params[2:]), tuple(following), region.results)
    writer = _EpilogueWriter(rest, product.rows, product.columns, target)
    written = write_product(product, target, tile_epilogue=writer.kernel(), epilogue_args="%places")
    code = matmul_step(written, len(op.operands))
    return (replace(code, shared={**code.shared, **writer.text.shared}),)


class _EpilogueWriter:
    """Writer of an epilogue, whose graph has the product as its first parameter, for tiles of C. Arguments are those of the step: A, B, the
    others, C."""

    def __init__(self, graph: Graph, rows: int, columns: int, target: Target) -> None:
        self.graph, self.dtype = graph, graph.params[0].type.dtype
        maps = infer_maps(graph, rows * columns)
        self.kind = {value: map_extent(index_map, rows, columns) for value, index_map in maps.items()}
        self.text = KernelBuilder(target, target.lanes(self.dtype.itemsize))
        self.of_row: dict[Value, str] = {}          # address of an operand's row, or the element itself if the operand has one per row

    def kernel(self) -> Kernel:
        """The epilogue as a kernel."""
        text, others = self.text, self.graph.params[1:]
        size = self.dtype.itemsize
        across, down = text.times("%column", size), text.mul("%row", "%pitch")
        matrices = {self.graph.params[0]: "%c"}
        for number, value in enumerate(others, start=2):
            place = text.load("ptr", text.at("%more", "ptr", number), align=8)
            kind = self.kind[value]
            if kind in ("column", "full"):
                place = text.at(place, 1, across)
            if kind == "full":
                matrices[value] = text.at(place, 1, down)
            elif kind == "scalar":
                self.of_row[value] = text.splat(text.element(self.dtype), text.load_element(place, self.dtype))
            else:
                self.of_row[value] = place
        with text.for_range(0, "%rows", carried=[("ptr", pointer) for pointer in matrices.values()]) as loop:
            starts = dict(self.of_row)
            for value, kind in self.kind.items():
                if value in others and kind == "row":
                    element = text.load_element(text.at(starts[value], text.cell(self.dtype), text.plus("%row", loop.counter)), self.dtype)
                    self.of_row[value] = text.splat(text.element(self.dtype), element)
            self.of_row.update(zip(matrices, loop.values, strict=True))
            self.row()
            self.of_row = starts
            loop.following = [text.at(pointer, 1, "%pitch") for pointer in loop.values]
        function = text.end_function("adjit_finish", TILE_EPILOGUE, attributes="noinline nounwind")
        return Kernel(named_by_content(function), text.declarations)

    def row(self) -> None:
        """A row of a tile: one vector after the other, then the partly filled one. (Several vectors at once are no faster: the rows of
        tiles have few vectors.)
        """
        text, lanes = self.text, self.text.lanes
        with text.for_range(0, text.sub("%columns", lanes - 1), lanes, empty=True) as loop:
            self.vector(loop.counter, None)
        start = text.let(f"and i64 %columns, {-lanes}")
        left = text.sub("%columns", start)
        with text.if_(text.compare("sgt", left, 0)):
            numbers = f"<{', '.join(f'i32 {lane}' for lane in range(lanes))}>"
            most = text.splat("i32", text.let(f"trunc i64 {left} to i32"))
            self.vector(start, text.let(f"icmp slt <{lanes} x i32> {numbers}, {most}"))

    def vector(self, index: str | int, mask: str | None) -> None:
        """One vector of C, from column `index` of the row on."""
        text, known = self.text, dict[Value, str]()
        for value, place in self.of_row.items():
            if self.kind[value] in ("full", "column"):
                known[value] = text.load_elements(text.at(place, text.cell(self.dtype), index), self.dtype, mask)
            else:
                known[value] = place
        for op in self.graph.ops:
            known[op.result] = self.compute(op, known)
        place = text.at(self.of_row[self.graph.params[0]], text.cell(self.dtype), index)
        text.store_elements(known[self.graph.results[0]], place, self.dtype, mask)

    def compute(self, op: Op, known: Mapping[Value, str]) -> str:
        if op.name == "constant":
            return self.text.literal(op.attrs["value"], op.result.type.dtype, self.text.lanes)
        operands = [known[value] for value in op.operands]
        return operands[0] if op.name in FREE_IN_KERNELS else self.text.apply(op, operands, self.text.lanes)
