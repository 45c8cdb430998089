"""Lowering of products of matrices: exact arithmetic in threads, or tensor cores where factors have fewer digits."""

from __future__ import annotations

from adjit.codegen.cuda.arrays.movement import fill
from adjit.codegen.cuda.kernel import Launch
from adjit.codegen.cuda.products import ProductWriter
from adjit.codegen.cuda.tensor_cores import TensorCoreWriter
from adjit.codegen.cuda.writer import Memory
from adjit.ir.errors import UnsupportedError
from adjit.ir.graph import Graph, Op
from adjit.ir.ops.contraction import PRECISIONS
from adjit.ir.types import short_name


def lower_matmul(op: Op, memory: Memory) -> list[Launch]:
    """The launches of a product."""
    return _lower(op, op, Graph("product", (op.result,), (), (op.result,)), memory)


def lower_matmul_epilogue(op: Op, memory: Memory) -> list[Launch]:
    """The launches of a product whose elements further ops change before they are stored."""
    (region,) = op.regions
    product = next(inner for inner in region.ops if inner.name == "matmul")
    rest = Graph(region.name, (product.result, *region.params[2:]), tuple(inner for inner in region.ops if inner is not product),
                 region.results)
    return _lower(op, product, rest, memory)


def _lower(op: Op, product: Op, epilogue: Graph, memory: Memory) -> list[Launch]:
    type = product.result.type
    if type.dtype.kind not in "fiu" or type.is_half:
        raise UnsupportedError(f"products of {short_name(type.dtype)} have no code for the device 'cuda' yet", op.loc,
                               hint="omit device= to compile for the CPU")
    inner = product.operands[0].type.shape[-2 if product.attrs["transpose_a"] else -1]
    if not type.size or not inner:
        return fill(op, 0, memory)
    precision = next((mark for mark in PRECISIONS if mark in product.attrs), None)
    if precision is not None:
        return [TensorCoreWriter(op, product, epilogue, memory, inner, precision).write()]
    return [ProductWriter(op, product, epilogue, memory, inner).write()]
