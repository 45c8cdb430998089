"""Simplification of batches of products of matrices, which `vmap` and `np.matmul` make.

Exception to "every bit": the products that a sum adds up may be added in another order, and contracted.
"""

from __future__ import annotations

from math import prod

from adjit.ir import ops
from adjit.ir.graph import Op, Value
from adjit.ir.ops.contraction import times_shared
from adjit.ir.types import is_float
from adjit.passes.simplify.rewrite import Rewriter, RuleTable

PRODUCTS = RuleTable()


@PRODUCTS.rule("matmul", any_operand=("broadcast",))
def product_with_repeated_matrix(op: Op, graph: Rewriter) -> Value | None:
    """matmul(x, broadcast(w)) -> one product with w, whose rows are those of all matrices of the batch."""
    matrix = _repeated_matrix(op.operands[1], graph)
    if matrix is None or not op.result.type.size:
        return None
    return times_shared(op.operands[0], op.attrs["transpose_a"], matrix, op.attrs["transpose_b"])


def _repeated_matrix(value: Value, graph: Rewriter) -> Value | None:
    """The matrix that a batch repeats."""
    inner = graph.producer(value, "broadcast")
    rank = value.type.rank
    if inner is None or rank < 3 or inner.operands[0].type.rank != 2 or inner.attrs["axes"] != (rank - 2, rank - 1):
        return None
    return inner.operands[0]


@PRODUCTS.rule("reduce_sum", any_operand=("matmul",))
def sum_of_products(op: Op, graph: Rewriter) -> Value | None:
    """sum(matmul(x, y)) over the batch -> one product: the sum goes over the batch and the inner axis."""
    value = op.operands[0]
    product = graph.producer(value, "matmul")
    if product is None or not _sums_the_batch(op) or not graph.used_once(value):
        return None
    a, b = product.operands
    transpose_a, transpose_b = product.attrs["transpose_a"], product.attrs["transpose_b"]
    inner = a.type.shape[-2 if transpose_a else -1]
    if inner != 1 and (not transpose_a or transpose_b):        # the inner axis does not follow that of the batch in memory
        return None
    return _joined_product(a, b, *value.type.shape[-2:])


@PRODUCTS.rule("reduce_sum", any_operand=("multiply",))
def sum_of_outer_products(op: Op, graph: Rewriter) -> Value | None:
    """sum(x[:, :, None] * y[:, None, :]) over the batch -> x' y."""
    value = op.operands[0]
    inner = graph.producer(value, "multiply")
    if inner is None or not _sums_the_batch(op) or not graph.used_once(value):
        return None
    batch = tuple(range(value.type.rank - 2))
    factors = [graph.producer(operand, "broadcast") for operand in inner.operands]
    if factors[0] is not None and factors[0].attrs["axes"] == (*batch, len(batch) + 1):
        factors.reverse()
    column, row = factors
    if column is None or row is None or column.attrs["axes"] != (*batch, len(batch)) or row.attrs["axes"] != (*batch, len(batch) + 1):
        return None
    return _joined_product(column.operands[0], row.operands[0], *value.type.shape[-2:])


def _sums_the_batch(op: Op) -> bool:
    """True for a sum of floats over all axes but the last two, each longer than 1."""
    type = op.operands[0].type
    return type.rank > 2 and op.attrs["axes"] == tuple(range(type.rank - 2)) and is_float(type.dtype) and type.size > 0 \
        and 1 not in type.shape[-2:]


def _joined_product(a: Value, b: Value, rows: int, columns: int) -> Value:
    """a' b of matrices with these columns and a row for each element of the axes before."""
    count = prod(a.type.shape) // rows
    return ops.matmul(ops.reshape(a, shape=(count, rows)), ops.reshape(b, shape=(count, columns)), transpose_a=True, transpose_b=False)
