"""Graphs that eager tensors run as one native program, compiled for their shapes: convolutions and pooling, which NumPy can only do over
copies of the windows, and those for which it is called very often, as in each step of a loop.

The graph alone decides, so that the same operands give the same bits. A compilation takes some 20 to 100 ms the first time on a machine,
and 5 ms with the disk cache: NumPy takes some 50 us for what is below these limits.
"""

from __future__ import annotations

from math import prod

from adjit.codegen.numpy.chunks import KernelCompiler, Program
from adjit.ir.analysis.cost import terms_of
from adjit.ir.definition import Kind
from adjit.ir.errors import UnsupportedError
from adjit.ir.graph import Graph, live_ops, walk
from adjit.ir.ops.traits import HOST_CALLS

MIN_PRODUCTS = 1 << 11
"""Products that a convolution adds up with which a graph is worth a program."""

MIN_WINDOW_ELEMENTS = 1 << 10
"""Elements in all windows of a pooling op with which a graph is worth a program."""

MIN_CALLS = 1 << 6
"""Calls of NumPy with which a graph is worth a program."""


def program_of(graph: Graph) -> Program | None:
    """The native program of a graph, as a function of ndarrays whose results are new arrays; None if NumPy runs the graph."""
    if KernelCompiler.compile_program is None or not _is_worth_a_program(graph) or not _can_be_native(graph):
        return None
    try:
        return KernelCompiler.compile_program(graph)
    except UnsupportedError:        # windows that reach over more of an image than the scratch memory holds; an op of SciPy's
        return None


def _is_worth_a_program(graph: Graph) -> bool:
    calls = 0
    for op in live_ops(graph):
        if op.definition.kind is Kind.WINDOW:
            if prod(op.attrs["sizes"]) * max(op.operands[-1].type.size, op.result.type.size) >= MIN_WINDOW_ELEMENTS:
                return True
        elif op.name in ("convolution", "convolution_kernel_gradient") and op.result.type.size * terms_of(op) >= MIN_PRODUCTS:
            return True
        calls += op.attrs["length"] * len(op.regions[0].ops) if op.name == "scan" else 1
    return calls >= MIN_CALLS


def _can_be_native(graph: Graph) -> bool:
    return not any(op.name in HOST_CALLS or any(value.type.dtype.kind == "c" for value in op.results) for op in walk(graph))
