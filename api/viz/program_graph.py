"""`graph`: a compiled program as pictures, before and after fusion."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adjit.ir.errors import ArgumentError
from adjit.ir.graph import Graph
from adjit.runtime.bound_function import BoundCompiledFunction
from adjit.runtime.compile_function import compile
from adjit.runtime.compiled import CompiledFunction
from adjit.runtime.program import Program
from adjit.runtime.reports.reports import check_stage
from adjit.tracer.trace import Trace
from adjit.tracer.tracebacks import user_frames_only
from adjit.tracer.trees import paths
from adjit.tracer.user_location import find_user_location
from adjit.viz.graph_drawing import draw_graph
from adjit.viz.labels import Folded

FORMATS = (".svg", ".png", ".pdf")


@dataclass(frozen=True, slots=True, repr=False)
class GraphPictures:
    """Pictures of the graph of a compiled program at each stage of the compiler: the result of `graph`.

    A notebook shows `before` and `after`. `graphs` holds the graph of each stage.

    >>> import numpy as np
    >>> pictures = graph(compile(lambda x: np.sum(np.sin(x))), np.ones(3))
    >>> list(pictures.graphs)
    ['traced', 'adjoint', 'optimized', 'fused', 'planned']
    """

    name: str
    graphs: Mapping[str, Graph]
    results: Sequence[str]

    @property
    def before(self) -> Any:
        """Program before fusion, a `graphviz.Digraph`: each op a node."""
        return self.at("optimized")

    @property
    def after(self) -> Any:
        """Program after fusion, a `graphviz.Digraph`: each kernel a box that lists its ops."""
        return self.at("fused")

    def at(self, stage: str) -> Any:
        """Draw a stage, "traced", "adjoint", "optimized", "fused" or "planned": a `graphviz.Digraph`."""
        check_stage(stage)
        graph = self.graphs[stage]
        return draw_graph(graph, f"@{self.name}, {stage}: {_counts(graph)}", self.results)

    def render(self, path: str | Path) -> tuple[Path, Path]:
        """Draw to image files (SVG, PNG or PDF, by the suffix): `step.svg` makes `step-before.svg` and `step-after.svg`, returned.

        Raises `RenderError` if there is no program `dot`; the DOT text is then in `step-before.gv` and `step-after.gv`.
        """
        path = Path(path)
        if path.suffix not in FORMATS:
            raise ArgumentError(f"the path of a picture ends in {', '.join(FORMATS)}, got {str(path)!r}", find_user_location())
        pictures = {path.with_stem(f"{path.stem}-{name}"): picture for name, picture in (("before", self.before), ("after", self.after))}
        for file, picture in pictures.items():
            picture.save(file.with_suffix(".gv"))
        for file, picture in pictures.items():
            picture.render(outfile=file, cleanup=True)
        before, after = pictures
        return before, after

    def _repr_html_(self) -> str:
        texts = [picture.pipe(format="svg", encoding="utf-8") for picture in (self.before, self.after)]
        return "".join(text[text.index("<svg"):] for text in texts)     # without the header of a separate file

    def __repr__(self) -> str:
        return f"<pictures of @{self.name}: .before and .after fusion, .render('picture.svg')>"


@user_frames_only
def graph(f: Callable[..., Any], *args: Any, **kwargs: Any) -> GraphPictures:
    """Draw the program that `f` is compiled to for example arguments: its graph before and after fusion.

    `f` is a function or a compiled one; for a compiled function that was called before, the arguments can be left out. It is compiled, not
    run. In the pictures ops have the colour of their role (forward, backward, recomputed, update) and show their type; a kernel is a box
    that lists its ops; ellipses are parameters, octagons results. Constants are written where they are used, broadcasts are left out.
    Values that the forward half saves for the backward half are red. In SVG, the source line of an op appears under the pointer.

    Raises `UnsupportedError` if the package `graphviz` is missing, and the errors of tracing `f`.

    >>> def loss(w, x):
    ...     return np.mean(np.tanh(x @ w) ** 2)
    >>> pictures = graph(loss, np.ones((3, 2)), np.ones((4, 3)))
    >>> pictures
    <pictures of @loss: .before and .after fusion, .render('picture.svg')>
    >>> print(pictures.before.source.splitlines()[0])
    digraph loss {
    >>> "tanh" in pictures.before.source
    True
    >>> pictures.render("loss.svg")                 # doctest: +SKIP
    (PosixPath('loss-before.svg'), PosixPath('loss-after.svg'))
    """
    program = _program(f, args, kwargs)
    return GraphPictures(program.planned.name, program.pipeline.graphs, _result_names(program.trace))


def _program(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Program:
    if isinstance(f, BoundCompiledFunction):
        return f._program(args, kwargs)
    compiled = f if isinstance(f, CompiledFunction) else compile(f)
    return compiled.program(compiled.fun, args, kwargs)


def _result_names(trace: Trace) -> list[str]:
    """Path of each result of the graph in the function's result."""
    names = {leaf: path for leaf, path in zip(trace.out_leaves, paths(trace.out_tree), strict=True) if isinstance(leaf, int)}
    return [names[number].lstrip(".") or "result" for number in range(len(names))]


def _counts(graph: Graph) -> str:
    folded = Folded(graph)
    kernels = sum(op.name == "fused" for op in graph.ops)
    others = sum(not folded.holds(op) for op in graph.ops) - kernels
    counted = ((kernels, "kernel"), (others, "other op" if kernels else "op"))
    return " and ".join(f"{count} {what}{'s' * (count != 1)}" for count, what in counted if count) or "0 ops"
