"""The runner of the passes: stages, records, verification, dumps."""

from __future__ import annotations

import numpy as np
import pytest

from adjit.ir.errors import VerificationError
from adjit.ir.graph import Graph
from adjit.ir.interpreter import interpret
from adjit.ir.parser import parse
from adjit.ir.verifier import Stage, verify
from adjit.passes.options import Options
from adjit.passes.pipeline import PIPELINE, Pass, run_pipeline
from adjit.passes.simplify.dead_code import eliminate_dead_code

TEXT = """\
graph @gradient(%x: f32[4], %ct: f32[4]) {
  %y: f32[4], %dx: f32[4] = vjp %x, %ct {cotangents=(0,), wrt=(0,)} [  # model.py:9 in train
    graph @f(%x: f32[4]) {
      %s: f32[4] = stop_gradient %x  # model.py:2 in f
      %t: f32[4] = tanh %x  # model.py:3 in f
      %y: f32[4] = multiply %t, %s  # model.py:4 in f
      return %y
    }
  ]
  return %y, %dx
}
"""


def test_stages_and_records() -> None:
    graph = parse(TEXT)
    seen: list[str] = []
    result = run_pipeline(graph, Options(), verify=True, on_pass=lambda name, graph: seen.append(name))
    assert list(result.graphs) == ["traced", "adjoint", "optimized", "fused", "planned"]
    assert result.graphs["traced"] is graph
    assert result.final is result.graphs["planned"]
    assert seen == ["traced", *(step.name for step in PIPELINE)]
    assert [record.name for record in result.records] == seen[1:]
    for name, stage in result.graphs.items():
        verify(stage, Stage[name.upper()])
    first = next(record for record in result.records if record.name == "differentiate")
    assert (first.ops_before, first.ops_after) == (1, len(result.graphs["adjoint"].ops))
    assert first.milliseconds > 0
    assert first.verify_milliseconds > 0
    assert str(first).startswith("differentiate: 1 -> ")


def test_locations_survive_every_pass() -> None:
    result = run_pipeline(parse(TEXT), Options(), verify=True)
    for name in ("adjoint", "optimized", "fused", "planned"):
        for op in result.graphs[name].ops:
            if op.name not in ("free", "constant"):
                assert op.loc is not None, f"{op.name} in {name}"
                assert op.loc.file == "model.py"


def test_verification_changes_no_result() -> None:
    checked, unchecked = (run_pipeline(parse(TEXT), Options(), verify=verify) for verify in (True, False))
    assert checked.graphs == unchecked.graphs
    assert all(record.verify_milliseconds == 0 for record in unchecked.records)


def test_a_broken_pass_is_named() -> None:
    def forget_the_first_op(graph: Graph, options: Options) -> Graph:
        return graph.with_ops(graph.ops[1:])

    graph = parse("graph @f(%x: f32[2]) {\n  %a: f32[2] = sin %x\n  %b: f32[2] = cos %a  # model.py:7 in f\n  return %b\n}")
    broken = Pass("forget_the_first_op", forget_the_first_op, Stage.OPTIMIZED)
    with pytest.raises(VerificationError, match=r"after pass 'forget_the_first_op': V3") as caught:
        run_pipeline(graph, Options(), verify=True, passes=(Pass("first", eliminate_dead_code, Stage.OPTIMIZED), broken))
    assert "model.py:7 in f" in str(caught.value)
    assert len(run_pipeline(graph, Options(), verify=False, passes=(broken,)).final.ops) == 1


def test_a_broken_graph_is_refused_before_the_first_pass() -> None:
    graph = parse("graph @f(%x: f32[2]) {\n  %a: f32[3] = sin %x\n  return %a\n}")
    with pytest.raises(VerificationError, match="V4"):
        run_pipeline(graph, Options(), verify=True)


def test_names_are_unique_and_stages_rise() -> None:
    names = [step.name for step in PIPELINE]
    assert len(set(names)) == len(names)
    assert [step.ensures for step in PIPELINE] == sorted(step.ensures for step in PIPELINE)
    assert PIPELINE[-1].ensures is Stage.PLANNED


@pytest.mark.parametrize("text", [
    "graph @nothing() {\n  return\n}",
    "graph @same(%x: f32[2], %y: f32[] donated) {\n  return %x, %y, %x\n}",
    "graph @unused(%x: f32[2], %y: f32[0,3]) {\n  %a: f32[0,3] = exp %y\n  %b: f32[3] = reduce_sum %a {axes=(0,)}\n  return %b\n}",
    "graph @scalar(%x: f64[]) {\n  %a: f64[] = add %x, %x\n  return %a, %a\n}",
])
def test_odd_graphs_go_through(text: str) -> None:
    graph = parse(text)
    result = run_pipeline(graph, Options(), verify=True)
    arrays = [np.full(value.type.shape, 3, value.type.dtype) for value in graph.params]
    expected = interpret(graph, arrays)
    for array, got in zip(expected, interpret(result.graphs["fused"], arrays), strict=True):
        assert array.tolist() == got.tolist()
