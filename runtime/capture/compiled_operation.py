"""Compiled functions as operations of the dynamic graph: the forward half is compiled, and so is the backward half, at its first use.

The pass that chooses saved values within one program also chooses the values that the forward half saves for the backward half.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from adjit.eager.operation import Operation
from adjit.ir.graph import Graph
from adjit.ir.lazy_module import LazyModule
from adjit.ir.verifier import Stage
from adjit.runtime import settings
from adjit.runtime.compile_graph import compile_graph
from adjit.runtime.compile_options import CompileOptions
from adjit.runtime.debug import watch
from adjit.runtime.inputs import Inputs
from adjit.tracer.array_checks import as_content

if TYPE_CHECKING:
    from adjit.passes import pipeline as pass_pipeline
    from adjit.passes.pipeline import PipelineResult
    from adjit.runtime.cuda import device_inputs
else:
    pass_pipeline = LazyModule("adjit.passes.pipeline")
    device_inputs = LazyModule("adjit.runtime.cuda.device_inputs")


class Half:
    """One compiled half of an operation: a function of ndarrays whose results are new arrays. The parameters `rows` have any number of
    rows."""

    def __init__(self, graph: Graph, compile_options: CompileOptions, verify: bool, threads: int, rows: Collection[int] = ()):
        compiled = compile_graph(graph, compile_options.backend, compile_options.pass_options, threads, verify,
                                 passes="HALF", stage=Stage.ADJOINT, card=compile_options.card)
        self.pipeline, self.executable = compiled.pipeline, compiled.executable
        paths = [value.name or f"saved {index}" for index, value in enumerate(graph.params)]
        self.inputs: Inputs | device_inputs.DeviceInputs
        self.inputs = Inputs(graph, paths, rows=rows) if compile_options.device == "cpu" else device_inputs.DeviceInputs(graph, paths)
        self.fresh, self.views = (True,) * len(graph.results), (None,) * len(graph.results)
        self.calls_host = True      # checks of its results are code of the user
        self.waits = False          # for what checks of indices find, on a card

    @property
    def planned(self) -> Graph:
        """The planned graph of the program that runs."""
        return self.pipeline.final

    def run(self, *arrays: Any) -> tuple[np.ndarray, ...]:
        """The results for these arrays."""
        given = [as_content(array) for array in arrays]
        results = tuple(as_content(array) for array in self.executable.run(self.inputs.prepare(given, given), given))
        for result in results if self.waits else ():
            result.settle()
        if watch.is_watched():
            watch.Watched(given).check(self, results, self.inputs.paths)
        return results


class CompiledOperation(Operation):
    """An operation whose halves are compiled."""

    recomputed = frozenset()       # the pipeline has chosen the saved values

    def __init__(self, name: str, region: Graph, results: int, wanted: tuple[int, ...], seeded: Container[int] | None,
                 compile_options: CompileOptions, verify: bool, threads: int, weak: frozenset[int] = frozenset(),
                 force_requires_grad: bool = False):
        self.compile_options, self.verify, self.threads = compile_options, verify, threads
        self.saved_dtype = compile_options.saved_dtype
        self.joint: PipelineResult | None = None
        super().__init__(name, region, results, wanted, weak, seeded, force_requires_grad)

    @property
    def whole_backward(self) -> Half:
        """The backward half for cotangents of all results that can have one; compiled at the first access."""
        half: Any = self.backward((*self.active[:self.results], *(False,) * (len(self.active) - self.results))).function
        return half     # type: ignore[no-any-return]

    def optimize(self, joint: Graph) -> Graph:
        passes = () if self.has_rules else pass_pipeline.JOINT     # these would inline calls whose rules derivatives of the halves need
        self.joint = pass_pipeline.run_pipeline(joint, self.compile_options.pass_options, self.verify, passes=passes, stage=Stage.TRACED)
        return self.joint.final

    def lower(self, graph: Graph, weak: frozenset[int]) -> Half:
        return Half(self.opened(graph), self.compile_options, self.verify, self.threads)

    def again(self, name: str, graph: Graph, wanted: tuple[int, ...], weak: frozenset[int]) -> Operation:
        return CompiledOperation(name, graph, len(graph.results), wanted, None, self.compile_options, self.verify, self.threads, weak)


class DeviceOperation(Operation):
    """An operation on tensors of a card: its halves are compiled for it."""

    def __init__(self, place: str, *arguments: Any, **options: Any):
        self._options = CompileOptions(backend="cuda", device=place)
        super().__init__(*arguments, **options)

    def lower(self, graph: Graph, weak: frozenset[int]) -> Half:
        half = Half(self.opened(graph), self._options, settings.VERIFY.get(), 1)
        half.waits = True
        return half

    def again(self, name: str, graph: Graph, wanted: tuple[int, ...], weak: frozenset[int]) -> Operation:
        return operation_on(self._options.device)(name, graph, len(graph.results), wanted, weak, force_requires_grad=True)


@cache
def operation_on(place: str) -> Callable[..., Operation]:
    """What makes operations for a card, by its name."""
    return partial(DeviceOperation, place)
