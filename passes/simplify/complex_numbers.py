"""Parts of complex numbers whose parts are known, and conjugates of conjugates. No exceptions: every bit stays."""

from __future__ import annotations

from adjit.ir.graph import Op, Value
from adjit.passes.simplify.rewrite import Rewriter, RuleTable

COMPLEX = RuleTable(of_complex=True)


@COMPLEX.rule("real", "imag", any_operand=("complex",))
def part_of_parts(op: Op, graph: Rewriter) -> Value | None:
    """real(complex(x, y)) -> x."""
    inner = graph.producer(op.operands[0], "complex")
    return None if inner is None else inner.operands[0 if op.name == "real" else 1]


@COMPLEX.rule("real", any_operand=("conj",))
def real_of_conjugate(op: Op, graph: Rewriter) -> Value | None:
    """real(conj(z)) -> real(z)."""
    inner = graph.producer(op.operands[0], "conj")
    return None if inner is None else op.definition(inner.operands[0])


@COMPLEX.rule("conj", any_operand=("conj",))
def twice_conjugate(op: Op, graph: Rewriter) -> Value | None:
    """conj(conj(z)) -> z."""
    inner = graph.producer(op.operands[0], "conj")
    return None if inner is None else inner.operands[0]


@COMPLEX.rule("view_as_complex", "view_as_real", any_operand=("view_as_complex", "view_as_real"))
def viewed_back(op: Op, graph: Rewriter) -> Value | None:
    """view_as_complex(view_as_real(z)) -> z, and the other way round."""
    inner = graph.producer(op.operands[0], "view_as_real" if op.name == "view_as_complex" else "view_as_complex")
    return None if inner is None else inner.operands[0]
