"""`python -m adjit replay FILE`: runs the reproducer that a shadow run wrote."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from adjit.ir.printer import print_graph
from adjit.runtime.compile_options import make_compile_options
from adjit.runtime.debug.bisect import TRACE_DIFFERS, load_reproducer, run_compiled
from adjit.runtime.debug.compare import difference
from adjit.runtime.debug.op_by_op import run_op_by_op


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `replay` to the command line."""
    parser = commands.add_parser("replay", help="run the file that a shadow run wrote, and compare", description=__doc__)
    parser.add_argument("file", metavar="FILE", type=Path, help="the reproducer")
    parser.add_argument("--backend", choices=("native", "numba", "interpret"), help="another backend than that of the mismatch")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the graph and how the backend's results differ from NumPy's; the status is 1 if they do, or if the graph is not
    what Python does."""
    reproducer = load_reproducer(options.file)
    backend = options.backend or reproducer.backend
    compile_options = make_compile_options(_example, (), (), backend, "cpu", 1, None, False)
    print(f"{reproducer.about}, backend {backend}\n\n{print_graph(reproducer.graph)}")
    results = {"NumPy, op by op": run_op_by_op(reproducer.graph, reproducer.arrays),
               f"backend {backend}": run_compiled(reproducer.graph, reproducer.arrays, compile_options, 1)}
    status = 0
    for who, found in results.items():
        texts = [f"result {number} {text}" for number, (one, other) in enumerate(zip(found, reproducer.expected, strict=True))
                 if (text := difference(one, other))]
        print(f"{who}: {'; '.join(texts) or 'as expected'}")
        status = status or int(bool(texts))
    if reproducer.about.endswith(TRACE_DIFFERS):
        print("expected is what the graph computes: the code made of the graph is right, the graph is not what the function does")
        return 1
    return status


def _example(x: np.ndarray) -> np.ndarray:
    return x
