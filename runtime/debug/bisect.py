"""The op whose code computes another value than the op means: a bisection over the graph, each part of which is compiled by itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from adjit.ir.dataclass import dataclass
from adjit.ir.errors import ArgumentError
from adjit.ir.graph import Graph, Op, Value, needed_ops, without_effects
from adjit.ir.interpreter import evaluate
from adjit.ir.ops.traits import HOST_CALLS
from adjit.ir.parser import parse
from adjit.ir.printer import print_graph
from adjit.ir.types import SHORT_NAMES, is_inexact, short_name
from adjit.ir.verifier import Stage
from adjit.ir.version import VERSION
from adjit.passes.regions import contains
from adjit.runtime.compile_graph import compile_graph
from adjit.runtime.debug.compare import difference, distance
from adjit.runtime.debug.op_by_op import Arrays, run_op_by_op
from adjit.runtime.inputs import Inputs

if TYPE_CHECKING:
    from adjit.runtime.compile_options import CompileOptions

FORMAT = "adjit reproducer 1"
TRACE_DIFFERS = "the trace differs from Python"
"""What a reproducer is about that holds the graph, and what the graph computes: neither is what the Python function does."""


@dataclass(frozen=True, slots=True)
class Reproducer:
    """Graph, arrays for its parameters and results that it should give; `backend` computes others. `about` says what it is about."""

    graph: Graph
    arrays: tuple[np.ndarray, ...]
    expected: tuple[np.ndarray, ...]
    backend: str
    about: str

    def save(self, path: Path) -> None:
        """Write a file for `python -m adjit replay`."""
        kept = {f"array_{number}": _plain(array) for number, array in enumerate(self.arrays)}
        kept.update((f"expected_{number}", _plain(array)) for number, array in enumerate(self.expected))
        dtypes = [[short_name(array.dtype) for array in group] for group in (self.arrays, self.expected)]
        head = {"format": FORMAT, "backend": self.backend, "about": self.about, "version": VERSION, "dtypes": dtypes}
        with path.open("wb") as file:
            np.savez_compressed(file, allow_pickle=False, head=np.array(json.dumps(head)), graph=np.array(print_graph(self.graph)), **kept)


def load_reproducer(path: Path) -> Reproducer:
    """Read a file of `Reproducer.save`. Raises `ArgumentError` for another file."""
    try:
        with np.load(path, allow_pickle=False) as file:
            head = json.loads(str(file["head"]))
            if head["format"] != FORMAT:
                raise KeyError(head["format"])
            arrays, expected = (tuple(file[f"{name}_{number}"].view(SHORT_NAMES[dtype]) for number, dtype in enumerate(dtypes))
                                for name, dtypes in zip(("array", "expected"), head["dtypes"], strict=True))
            return Reproducer(parse(str(file["graph"])), arrays, expected, head["backend"], head["about"])
    except (ValueError, KeyError) as error:
        raise ArgumentError(f"{path} is no reproducer of adjit: {error}", hint="a mismatch of adjit.compile(f, shadow=...) writes one") \
            from None


def _plain(array: np.ndarray) -> np.ndarray:
    """The array, in a dtype that NumPy's files know: bfloat16 as integers of 16 bits."""
    return np.ascontiguousarray(array).view(np.uint16) if array.dtype.kind == "V" else array


def run_compiled(graph: Graph, arrays: Arrays, options: CompileOptions, threads: int) -> list[np.ndarray]:
    """Results of the program of a differentiated graph."""
    graph = Graph(graph.name, graph.params, graph.ops, graph.results)       # nothing is donated
    compiled = compile_graph(graph, options.backend, options.pass_options, threads, False, passes="HALF", stage=Stage.ADJOINT,
                             card=options.card)
    given = [np.array(array) for array in arrays]
    inputs = Inputs(graph, [f"parameter {number}" for number in range(len(given))])
    return [np.asarray(array) for array in compiled.executable.run(inputs.prepare(given, given), given)]


MAX_FLIPS = 8
"""Ops whose integers or bools may differ because their operands are rounded otherwise, before a bisection gives up."""


def bisect(graph: Graph, arrays: Arrays, options: CompileOptions, threads: int) -> tuple[Op, Reproducer] | int:
    """The first op of a differentiated graph whose compiled value is not what the op means, and the smallest program that shows it; if all
    compiled results are right, the number of ops whose integers or bools differ as their operands are rounded otherwise.

    Such an op, a comparison, is right for the operands that the compiled program has: what follows is compared with what follows from
    its compiled results.
    """
    graph = without_effects(graph)
    flipped: dict[Value, np.ndarray] = {}       # compiled results of comparisons
    count = right = 0
    ops = [op for op in needed_ops(graph.ops, graph.results) if not op.definition.is_check]

    def upto(end: int) -> Graph:
        """The first ops, with all that later ones read as results."""
        made = {value for op in ops[:end] for value in op.results}
        read = {value for op in ops[end:] for value in op.operands}.union(graph.results)
        frontier = [value for op in ops[:end] for value in op.results if value in read and value in made]
        return Graph(graph.name, graph.params, tuple(ops[:end]), tuple(frontier))

    while True:
        values = _values(graph, arrays, flipped)
        others = _values(graph, arrays, flipped, inexact=True)
        noise = {value: distance(array, others[value]) if is_inexact(array.dtype) else 0.0 for value, array in values.items()}

        def compiled(part: Graph, values: dict[Value, np.ndarray] = values) -> list[np.ndarray]:
            return run_compiled(part, [values[value] for value in part.params], options, threads)

        def differs(part: Graph, values: dict[Value, np.ndarray] = values, noise: dict[Value, float] = noise) -> bool:
            return any(difference(array, values[value], noise[value]) for array, value in zip(compiled(part, values), part.results,
                                                                                           strict=True))

        if not differs(upto(len(ops))):
            return count
        wrong = len(ops)      # numbers of ops with which all is `right`, and something is `wrong`
        while wrong - right > 1:
            middle = (right + wrong) // 2
            right, wrong = (right, middle) if differs(upto(middle)) else (middle, wrong)
        op = ops[wrong - 1]
        params = tuple(dict.fromkeys(op.operands))
        alone = Graph(op.name, params, (op,), op.results)
        is_alone = differs(alone)
        if not is_alone and count < MAX_FLIPS:
            found = _flipped(upto(wrong), op, values, compiled)
            if found is not None:
                flipped.update(found)
                count, right = count + 1, wrong
                continue
        part = alone if is_alone else upto(wrong)
        about = f"{op.name}{'' if op.loc is None else f' at {op.loc}'}"
        return op, make_reproducer(part, [values[value] for value in part.params], [values[value] for value in part.results],
                                   options.backend, about)


def _flipped(graph: Graph, op: Op, values: dict[Value, np.ndarray], compiled: Callable[[Graph], list[np.ndarray]]
             ) -> dict[Value, np.ndarray] | None:
    """Compiled results of the last op of a graph, if they are integers or bools that are right for its compiled operands, which are rounded
    otherwise than the `values`; else None."""
    if any(is_inexact(value.type.dtype) for value in op.results) or op.regions:
        return None
    own = tuple(dict.fromkeys(value for value in op.operands if value not in graph.params))
    if not any(is_inexact(value.type.dtype) for value in own):
        return None
    found = dict(zip((*own, *op.results), compiled(Graph(graph.name, graph.params, graph.ops, (*own, *op.results))), strict=True))
    meant = evaluate(op.definition, [found.get(value, values[value]) for value in op.operands], op.attrs, op.regions)
    results = [found[value] for value in op.results]
    return dict(zip(op.results, results, strict=True)) if all(map(np.array_equal, results, meant)) else None


def _values(graph: Graph, arrays: Arrays, known: Mapping[Value, np.ndarray], inexact: bool = False) -> dict[Value, np.ndarray]:
    """Every value of a graph, but for those in loops; some are `known`. `inexact` as of `run_op_by_op`."""
    ops = tuple(op for op in graph.ops if known.keys().isdisjoint(op.results))
    graph, arrays = Graph(graph.name, (*graph.params, *known), ops, graph.results), (*arrays, *known.values())
    values: dict[Value, np.ndarray] = dict(zip(graph.params, arrays, strict=True))
    run_op_by_op(graph, arrays, lambda op, _, results: values.update(zip(op.results, results, strict=True)),
                 inexact=inexact)
    return values


def make_reproducer(graph: Graph, arrays: Sequence[np.ndarray], expected: Sequence[np.ndarray], backend: str, about: str) -> Reproducer:
    """A reproducer, without what graphs of files do not have."""
    if contains(graph, HOST_CALLS):
        raise ArgumentError("a program that calls functions of Python cannot go into a file", hint="leave out the adjit.pure_callback")
    return Reproducer(Graph(graph.name, graph.params, graph.ops, graph.results), tuple(map(np.array, arrays)),
                      tuple(map(np.array, expected)), backend, about)
