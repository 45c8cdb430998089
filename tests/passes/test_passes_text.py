"""Every pass does to text what its docstring, and the files in `tests/passes/text`, say; and the meaning stays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from support.each import parametrize_within
from support.pass_text import FOLDER, STAGES, Case, all_cases, docstring_cases, file_cases, same_bits, special_arrays
from support.random_programs import random_program

from adjit.ir.graph import Op, Value
from adjit.ir.interpreter import interpret
from adjit.ir.parser import parse
from adjit.ir.printer import print_graph
from adjit.ir.verifier import Stage, verify
from adjit.passes.pipeline import PIPELINE, Pass
from adjit.passes.simplify.rewrite import Rewriter, Rule, RuleEntry, RuleTable, rewrite
from adjit.passes.simplify.simplify import RULES

CASES = all_cases()
GRAPH_CASES = [case for case in CASES if STAGES[case.passes[-1]] is Stage.OPTIMIZED]


def name_of(item: Case | Pass | Path) -> str:
    return item.stem if isinstance(item, Path) else item.name


@parametrize_within("step", PIPELINE, ids=name_of)
def test_every_pass_shows_itself_on_text(step: Pass) -> None:
    assert docstring_cases(step.run), f"{step.run.__name__} has no Before and After in its docstring"


@parametrize_within("case", CASES, ids=name_of)
def test_before_becomes_after(case: Case, update_golden: bool) -> None:
    if update_golden and case.path:
        pytest.skip("its file is being rewritten")
    out = case.run()
    assert out == parse(case.after), f"the pass gives\n{print_graph(out)}"


@parametrize_within("path", sorted(FOLDER.glob("*.ir")), ids=name_of)
def test_golden_files_hold_cases(path: Path, update_golden: bool) -> None:
    cases = file_cases(path)
    assert len({case.name for case in cases}) == len(cases), "two cases of the same name"
    if update_golden:
        path.write_text("====\n".join(f"{case.before}----\n{print_graph(case.run())}" for case in cases))


@parametrize_within("case", CASES, ids=name_of)
def test_result_obeys_the_stage(case: Case) -> None:
    verify(case.run(), case.stage, after=case.passes[-1])


@parametrize_within("case", GRAPH_CASES, ids=name_of)
def test_meaning_stays(case: Case) -> None:
    if case.passes in (("narrow_saved_values",), ("round_products",), ("order_effects",)):
        return      # these round: tests/programs/test_saved_dtype.py, tests/codegen/cuda/test_tensor_cores.py; it calls Python
    """Bit for bit on NaN, infinities and zeros of both signs; where a case says so, up to rounding."""
    before, after = parse(case.before), case.run()
    for arrays in special_arrays(before):
        for expected, got in zip(interpret(before, arrays), interpret(after, arrays), strict=True):
            if case.approximately and expected.dtype.kind == "f":
                np.testing.assert_allclose(got, expected, rtol=4 * np.finfo(expected.dtype).eps, atol=0)
            else:
                assert same_bits(expected, got), f"{expected} became {got}"


@parametrize_within("case", GRAPH_CASES, ids=name_of)
def test_a_second_run_changes_nothing(case: Case) -> None:
    """And then the pass gives the very graph that it was given."""
    graph = case.run()
    assert case.passes_on(graph) is graph


def test_rules_do_nothing_where_they_are_not_tried() -> None:
    """What a rule says about the makers of operands leaves out no op that it has something to do with."""
    always = RuleTable()
    for name, entries in RULES.entries.items():
        always.entries[name] = [RuleEntry(entry.rule, of_complex=entry.of_complex) for entry in entries]
    graphs = [parse(case.before) for case in CASES if "simplify" in case.passes]
    graphs += [random_program(Random(seed), 60).graph for seed in range(20)]
    for graph in graphs:
        assert print_graph(rewrite(graph, RULES)) == print_graph(rewrite(graph, always))


def test_every_rule_is_shown() -> None:
    """Each rule of `simplify` applies in some case."""
    applied: set[str] = set()

    def watched(rule: Rule) -> Rule:
        def apply(op: Op, graph: Rewriter) -> Value | None:
            value = rule(op, graph)
            if value is not None:
                applied.add(rule.__name__)
            return value
        return apply

    table = RuleTable()
    for name, entries in RULES.entries.items():
        table.entries[name] = [replace(entry, rule=watched(entry.rule)) for entry in entries]
    for case in CASES:
        if "simplify" in case.passes:
            rewrite(parse(case.before), table)
    assert {entry.rule.__name__ for entries in RULES.entries.values() for entry in entries} - applied == set()
