"""`python -m adjit opt FILE.ir --passes a,b`: runs passes over a graph in text form."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from adjit.ir.definition import Kind
from adjit.ir.errors import AdjitError
from adjit.ir.graph import Graph, walk
from adjit.ir.ops.traits import KERNELS, TRANSFORMS
from adjit.ir.parser import parse
from adjit.ir.printer import print_graph
from adjit.ir.verifier import Stage
from adjit.passes.options import Options
from adjit.passes.pipeline import PIPELINE, Pass, run_pipeline


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `opt` to the command line."""
    names = ", ".join(step.name for step in PIPELINE)
    parser = commands.add_parser(
        "opt", help="run passes over a graph in text form", description=__doc__, epilog=f"The whole pipeline: {names}.")
    parser.add_argument("file", metavar="FILE.ir", help="the graph; - reads standard input")
    parser.add_argument("--passes", metavar="A,B", default=None, help="the passes to run, in this order (default: the whole pipeline)")
    parser.add_argument("--print-after-all", action="store_true", help="print the graph as it was read and after each pass")
    parser.add_argument("--no-verify", action="store_true", help="do not check the invariants after each pass")
    parser.add_argument("--time-passes", action="store_true", help="print time and number of ops for each pass, to standard error")
    parser.add_argument("--memory-budget", metavar="N", type=_budget, default=None,
                        help="bytes (whole number) or fraction (with a point) that may be saved for the backward half")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the graph after the passes."""
    text = sys.stdin.read() if options.file == "-" else Path(options.file).read_text(encoding="utf-8")
    graph = parse(text)
    if options.passes is None and any(op.definition.kind is Kind.MEMORY or op.name in KERNELS or op.slots for op in walk(graph)):
        raise AdjitError("this graph has been through the pipeline", hint='the text of an earlier stage: f.ir("traced") or f.ir("adjoint")')
    passes = PIPELINE if options.passes is None else _chosen(options.passes, graph)
    read = Stage.TRACED if options.passes is None else _stage(graph)

    def show(name: str, graph: Graph) -> None:
        print(f"// {name}\n{print_graph(graph)}")

    result = run_pipeline(graph, Options(memory_budget=options.memory_budget), verify=not options.no_verify,
                          on_pass=show if options.print_after_all else None, passes=passes, stage=read)
    if not options.print_after_all:
        print(print_graph(result.final), end="")
    if options.time_passes:
        for record in result.records:
            print(record, file=sys.stderr)
    return 0


def _chosen(names: str, graph: Graph) -> list[Pass]:
    """Return the passes of these names, each with the stage that the graph has then reached."""
    known = {step.name: step for step in PIPELINE}
    chosen = [name.strip() for name in names.split(",") if name.strip()]
    unknown = [name for name in chosen if name not in known]
    if unknown:
        raise AdjitError(f"there is no pass named {', '.join(unknown)}", hint=f"passes: {', '.join(known)}")
    passes: list[Pass] = []
    reached = _stage(graph)
    for name in chosen:
        index = list(known).index(name)
        before = PIPELINE[index - 1].ensures if index else Stage.TRACED
        if before <= reached:
            reached = max(reached, known[name].ensures)
        passes.append(replace(known[name], ensures=reached))
    return passes


def _stage(graph: Graph) -> Stage:
    """Return the last stage whose ops these are."""
    names = {op.name for op in walk(graph)}
    if names & TRANSFORMS:
        return Stage.TRACED if names & TRANSFORMS != {"stop_gradient"} else Stage.ADJOINT
    return Stage.PLANNED if "free" in names or any(op.slots for op in graph.ops) else Stage.FUSED


def _budget(text: str) -> int | float:
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a whole number of bytes, or a fraction such as 0.5, got {text!r}") from None
