"""Collectives: ops over the values of all ranks of a communicator (`ir/communicator.py`).

Every rank runs the same ones in the same order: that of the planned graph, which is a list. They are pure, so programs that are equal on
all ranks drop and share the same ones; passes keep their order among each other (`passes/memory/donation.py`). A `note` says more of what
has to be the same on all ranks than shapes do: it is compared with them (`ir/analysis/collective_order.py`).

What ranks compute alike is *replicated*, what each has for itself *varies*. A result of `all_reduce`, `all_gather` and `broadcast` is
replicated, and so is its cotangent; a cotangent of something replicated, pulled back through what varies, is a part on each rank. `vary`
marks the place where ranks go ways of their own: the identity, whose derivative sums the parts. So `vary` and `all_reduce` are each other's
derivative, to any order (Megatron's f and g).
"""

from __future__ import annotations

from collections.abc import Sequence

from adjit.ir.batching import emit_again, move_axis
from adjit.ir.communicator import FIELDS, MAX_COUNT, PLACES, REDUCTIONS, WORLD, element_of
from adjit.ir.definition import Kind, NoDerivative, OpDefinition, RegionUse, define
from adjit.ir.errors import DTypeError, ShapeError
from adjit.ir.graph import Attributes, Op, Value
from adjit.ir.ops.broadcasting import broadcast as repeat
from adjit.ir.ops.comparison import equal
from adjit.ir.ops.creation import constant, full_like
from adjit.ir.ops.indexing import take
from adjit.ir.ops.movement import reshape
from adjit.ir.ops.movement import slice as slice_op
from adjit.ir.ops.sampling import no_samples
from adjit.ir.ops.selection import select
from adjit.ir.types import BOOL, I64, TensorType, is_complex

TABLE = TensorType(I64, (len(FIELDS),))
"""Type of the table that is the last operand of each of these ops."""

Cotangents = tuple[Value | NoDerivative | None, ...]
Operands = tuple[Value, ...]


def _check(x: TensorType, table: TensorType, moved: bool = True) -> TensorType:
    if table != TABLE:
        raise DTypeError(f"the second operand is {table}, expected the table of a communicator, {TABLE}")
    if x.size * element_of(x.dtype, moved)[1] > MAX_COUNT:
        raise ShapeError(f"{x} has more than {MAX_COUNT} elements, which one call of MPI does not take", hint="pass it in parts")
    return x


def _infer_all_reduce(x: TensorType, table: TensorType, *, op: str, note: str) -> TensorType:
    if op not in REDUCTIONS:
        raise ShapeError(f"the reduction is {op!r}, expected one of {', '.join(REDUCTIONS)}")
    if is_complex(x.dtype) or x.is_half or (x.dtype == BOOL and op == "sum"):
        raise DTypeError(f"MPI has no {op} of {x}", hint="convert the operand first")
    return _check(x, table, moved=False)


def _all_reduce_vjp(ct: Value, operands: Operands, results: Operands, attrs: Attributes) -> Cotangents:
    if attrs["op"] != "sum":
        return NoDerivative(f"all_reduce has no derivative for op={attrs['op']!r}"), None
    return vary(ct, operands[1]), None


def _own(ct: Value, table: Value) -> Value:
    """The part of a cotangent, along its first axis, that belongs to this rank."""
    return take(vary(ct, table), _rank(table), axis=0)


def _rank(table: Value) -> Value:
    place = PLACES["rank"]
    return reshape(slice_op(table, start=(place,), stop=(place + 1,), step=(1,)), shape=())


def _broadcast_vjp(ct: Value, operands: Operands, results: Operands, attrs: Attributes) -> Cotangents:
    is_root = equal(_rank(operands[1]), constant(value=attrs["root"], dtype=I64, shape=()))
    mask = repeat(is_root, shape=ct.type.shape, axes=())
    return select(mask, vary(ct, operands[1]), full_like(ct, 0.0)), None


def _infer_all_gather(x: TensorType, table: TensorType, *, size: int, note: str) -> TensorType:
    return _check(x, table).with_shape((size, *x.shape))


def _infer_all_to_all(x: TensorType, table: TensorType, *, size: int, note: str) -> TensorType:
    if not x.shape or x.shape[0] != size:
        raise ShapeError(f"{x} has no slice for each of {size} ranks along its first axis")
    return _check(x, table)


def _batch_all_gather(op: Op, operands: Sequence[Value], size: int) -> Sequence[Value]:
    return (move_axis(emit_again(op, operands)[0], 1, 0),)


def _batch_all_to_all(op: Op, operands: Sequence[Value], size: int) -> Sequence[Value]:
    return (move_axis(emit_again(op, [move_axis(operands[0], 1, 0), operands[1]])[0], 1, 0),)


def _batch_alike(op: Op, operands: Sequence[Value], size: int) -> Sequence[Value]:
    return emit_again(op, operands)


vary: OpDefinition = define(
    "vary", Kind.REGION, arity=2, region_use=RegionUse.HOST, samples=no_samples, batch=_batch_alike,
    doc="The first operand, which is the same on all ranks, from where on ranks go ways of their own. Only differentiation reads it.",
    infer=_check, evaluate=lambda x, table: (x,),
    vjp=lambda ct, operands, results, attrs: (all_reduce(ct, operands[1], op="sum", note=""), None))

all_reduce: OpDefinition = define(
    "all_reduce", Kind.REGION, arity=2, region_use=RegionUse.HOST, attributes={"op": str, "note": str}, samples=no_samples,
    batch=_batch_alike,
    doc="The sum, maximum or minimum (`op`) of the first operands of all ranks, element by element. Only the sum has a derivative.",
    infer=_infer_all_reduce, evaluate=lambda x, table, op, note: (WORLD.all_reduce(x, op),), vjp=_all_reduce_vjp)

all_gather: OpDefinition = define(
    "all_gather", Kind.REGION, arity=2, region_use=RegionUse.HOST, attributes={"size": int, "note": str}, samples=no_samples,
    batch=_batch_all_gather,
    doc="The first operands of all `size` ranks, along a new first axis.",
    infer=_infer_all_gather, evaluate=lambda x, table, size, note: (WORLD.all_gather(x),),
    vjp=lambda ct, operands, results, attrs: (_own(ct, operands[1]), None))

all_to_all: OpDefinition = define(
    "all_to_all", Kind.REGION, arity=2, region_use=RegionUse.HOST, attributes={"size": int, "note": str}, samples=no_samples,
    batch=_batch_all_to_all,
    doc="Of the first operand of each of `size` ranks, the slice along the first axis that is for this rank.",
    infer=_infer_all_to_all, evaluate=lambda x, table, size, note: (WORLD.all_to_all(x),),
    vjp=lambda ct, operands, results, attrs: (all_to_all(ct, operands[1], size=attrs["size"], note=""), None))

broadcast_rank: OpDefinition = define(
    "broadcast_rank", Kind.REGION, arity=2, region_use=RegionUse.HOST, attributes={"root": int}, samples=no_samples, batch=_batch_alike,
    doc="The first operand of rank `root`, on all ranks.",
    infer=lambda x, table, root: _check(x, table), evaluate=lambda x, table, root: (WORLD.broadcast(x, root),), vjp=_broadcast_vjp)

NAMES = frozenset({"all_reduce", "all_gather", "all_to_all", "broadcast_rank"})
"""Ops for which ranks wait for each other."""
