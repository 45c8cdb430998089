"""Inverses of matrices whose LU factors nothing else reads: code for them may choose other factors."""

from __future__ import annotations

from adjit.ir.graph import Graph, Op, Value
from adjit.ir.ops.factors import inverse
from adjit.passes.options import Options


def free_lone_inverses(graph: Graph, options: Options) -> Graph:
    """Replace `lu_inverse` by `inverse`, which has no factors, if nothing else reads the factors. Where all readers transpose the inverse,
    they get it as they want it.

    Before:
        graph @f(%x: f64[3,3]) {
          %f: f64[3,3], %p: i64[3], %o: i64[3] = lu %x
          %i: f64[3,3] = lu_inverse %x, %f, %p
          %t: f64[3,3] = transpose %i {permutation=(1, 0)}
          return %t
        }

    After:
        graph @f(%x: f64[3,3]) {
          %t: f64[3,3] = inverse %x {transposed=false}
          return %t
        }
    """
    made = {op.results[0]: op for op in graph.ops if op.name == "lu"}
    if not options.inverses or not made:
        return graph
    readers: dict[Value, list[Op | None]] = {value: [None] for value in graph.results}
    for op in graph.ops:
        for value in op.operands:
            readers.setdefault(value, []).append(op)
    gone: set[Op] = set()
    whole: dict[Op, Op] = {}
    for factors, lu in made.items():
        using = [op for result in lu.results for op in readers.get(result, ())]
        if using and all(op is not None and op.name == "lu_inverse" and op.operands[1] is factors for op in using):
            gone.add(lu)
            whole.update((op, lu) for op in using if op is not None)
    if not gone:
        return graph
    ops: list[Op] = []
    replaced: dict[Value, Value] = {}
    for op in graph.ops:
        if op in gone:
            continue
        if op not in whole:
            ops.append(op.with_operands([replaced.get(value, value) for value in op.operands]))
            continue
        matrix, found = whole[op].operands[0], op.result
        turns = [reader for reader in readers[found] if reader is not None and _turns(reader)]
        if len(turns) == len(readers[found]):
            first, *others = turns
            replaced.update((reader.result, first.result) for reader in others)
            gone.update(turns)
            found = first.result
        ops.append(Op(inverse, (replaced.get(matrix, matrix),), (found,), {"transposed": found is op.result}, loc=op.loc, role=op.role))
    return graph.with_ops(ops, [replaced.get(value, value) for value in graph.results])


def _turns(op: Op) -> bool:
    """True if the op swaps the last two axes."""
    if op.name != "transpose":
        return False
    *stack, row, column = op.attrs["permutation"]
    return stack == list(range(len(stack))) and (row, column) == (len(stack) + 1, len(stack))
