"""Graphs that eager tensors run as one native program, compiled for their shapes: convolutions and pooling, which NumPy can only do over
copies of the windows; those for which it is called very often, as in each step of a loop; and those of several reductions, products and
functions of many elements (norms, losses, attention), for each of which it goes through all of them again.

The graph alone decides, so that the same operands give the same bits. A compilation takes some 20 to 100 ms the first time on a machine,
and 5 ms with the disk cache: NumPy takes some 20 to 50 us for what is below these limits. Elementwise graphs are kernels for any shape
(`chunks`).
"""

from __future__ import annotations

from math import prod

from adjit.codegen.numpy.chunks import KernelCompiler, Program
from adjit.ir.analysis.cost import terms_of
from adjit.ir.definition import Kind
from adjit.ir.errors import UnsupportedError
from adjit.ir.graph import Graph, Op, live_ops, walk
from adjit.ir.ops.traits import HOST_CALLS

MIN_PRODUCTS = 1 << 11
"""Products that a convolution adds up with which a graph is worth a program."""

MIN_WINDOW_ELEMENTS = 1 << 10
"""Elements in all windows of a pooling op with which a graph is worth a program."""

MIN_CALLS = 1 << 6
"""Calls of NumPy with which a graph is worth a program."""


SEVERAL_CALLS, MANY_ELEMENTS = 10, 1 << 15
"""Calls of NumPy, reductions or products among them, and elements that they go through, with which a graph is worth a program."""


FEW_CALLS = 4
"""Calls of NumPy with which a graph of many elements is worth a program if channels, dimensions in the middle, have numbers of their own:
to kernels of chunks all elements of a row are alike."""


def program_of(graph: Graph) -> Program | None:
    """The native program of a graph, as a function of ndarrays whose results are new arrays; None if NumPy runs the graph."""
    if KernelCompiler.compile_program is None or not _is_worth_a_program(graph) or not _can_be_native(graph):
        return None
    try:
        return KernelCompiler.compile_program(graph)
    except UnsupportedError:        # windows that reach over more of an image than the scratch memory holds; an op of SciPy's
        return None


def _is_worth_a_program(graph: Graph) -> bool:
    calls = elements = 0
    goes_through = has_channels = False
    for op in live_ops(graph):
        kind = op.definition.kind
        if kind is Kind.WINDOW:
            if prod(op.attrs["sizes"]) * max(op.operands[-1].type.size, op.result.type.size) >= MIN_WINDOW_ELEMENTS:
                return True
        elif op.name in ("convolution", "convolution_kernel_gradient") and op.result.type.size * terms_of(op) >= MIN_PRODUCTS:
            return True
        goes_through = goes_through or kind in (Kind.REDUCTION, Kind.CONTRACTION)
        has_channels = has_channels or (op.name == "broadcast" and op.result.type.size >= MANY_ELEMENTS and _is_of_channels(op))
        if kind is Kind.REGION:
            calls += op.attrs.get(op.definition.runs, 1) * sum(len(region.ops) for region in op.regions)
        elif kind is not Kind.CREATION:
            calls += 1
            elements += 0 if kind is Kind.MOVEMENT else max(value.type.size for value in (*op.operands, *op.results))
    return (calls >= MIN_CALLS or (has_channels and calls >= FEW_CALLS)
            or (goes_through and calls >= SEVERAL_CALLS and elements >= MANY_ELEMENTS))


def _is_of_channels(op: Op) -> bool:
    """True if a broadcast repeats the elements of its operand both in dimensions before them and in others behind."""
    shape, axes = op.result.type.shape, [axis for axis in op.attrs["axes"] if op.result.type.shape[axis] > 1]
    return bool(axes) and max(shape[:axes[0]], default=1) > 1 and max(shape[axes[-1] + 1:], default=1) > 1


def _can_be_native(graph: Graph) -> bool:
    return not any(op.name in HOST_CALLS or any(value.type.dtype.kind == "c" for value in op.results) for op in walk(graph))
