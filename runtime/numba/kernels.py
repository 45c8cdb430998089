"""Kernels of a planned graph: one for every fused op (of equal text if they have the same structure), and one for every matrix product."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adjit.codegen.numba.kernel_source import lower_fused
from adjit.ir.analysis.buffer_assignment import BufferAssignment
from adjit.ir.dataclass import dataclass
from adjit.ir.graph import Graph, Op
from adjit.ir.ops.control_flow import nested_graphs
from adjit.runtime.caches.disk_cache import obtain_kernel
from adjit.runtime.numba.kernel_step import Kernel
from adjit.runtime.numba.matmul_step import MatmulKernel, obtain_matmul

Code = Kernel | MatmulKernel
"""The machine code of an op."""


def compile_kernels(planned: Graph) -> dict[Op, Code]:
    """The loaded code of every fused op, and of the products that NumPy does not compute."""
    kernels: dict[Op, Code] = {}
    for graph in nested_graphs(planned):
        places = BufferAssignment(graph).slots
        for op in graph.ops:
            if op.name == "fused":
                operands = [places[value] for value in op.operands]
                shared = {j: operands.index(slot) for j, slot in enumerate(op.slots[:len(op.results)]) if slot in operands}
                kernels[op] = obtain_kernel(lower_fused(op, shared))
            elif op.name == "matmul":
                product = obtain_matmul(op)
                if product is not None:
                    kernels[op] = product
    return kernels


@dataclass(slots=True)
class KernelUse:
    """A kernel under a unique name, and the fused ops that run it (kernels refer to sizes by name only): the number of ops, their largest
    number of blocks, and their total estimated work in nanoseconds.
    """

    name: str
    kernel: Kernel
    count: int = 0
    blocks: int = 0
    work: float = 0.0


def kernel_uses(planned: Graph, kernels: Mapping[Op, Code]) -> list[KernelUse]:
    """The different kernels of a program's fused ops, in the order of their first use."""
    found: dict[tuple[Any, ...], KernelUse] = {}
    names: set[str] = set()
    for op in (op for graph in nested_graphs(planned) for op in graph.ops):
        kernel = kernels.get(op)
        if not isinstance(kernel, Kernel):
            continue
        source = kernel.source
        same = (source.text, *(argument.dtype for argument in source.arguments))
        if same not in found:
            name, number = source.name, 1
            while name in names:
                number += 1
                name = f"{source.name}_{number}"
            names.add(name)
            found[same] = KernelUse(name, kernel)
        use = found[same]
        use.count += 1
        use.blocks = max(use.blocks, source.blocks)
        use.work += source.work
    return list(found.values())
