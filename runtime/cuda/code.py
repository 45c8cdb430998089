"""Programs for cards in the disk cache: PTX of each kernel, and, by the traced graph, the planned graph with the launches of its ops. A new
process that traces the same graph needs neither passes nor LLVM. What the driver makes of PTX is in the driver's own cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from adjit.codegen.cuda.kernel import Kernel, Launch, Pointer
from adjit.codegen.cuda.lower_op import lower_op
from adjit.codegen.cuda.ptx import ptx_of
from adjit.codegen.cuda.writer import Memory
from adjit.codegen.llvm.link import CompiledObject
from adjit.codegen.llvm.target import Target
from adjit.ir import parser
from adjit.ir.definition import Kind
from adjit.ir.graph import Graph, Op
from adjit.ir.lazy_module import LazyModule
from adjit.ir.ops.traits import CONTROL_FLOW
from adjit.ir.printer import print_graph
from adjit.ir.types import short_name
from adjit.runtime.caches.disk_cache import compiler, disk_cache, sha256

if TYPE_CHECKING:
    import json

    from adjit.codegen.cuda.program import DeviceProgram
    from adjit.runtime.cuda.devices import AnyDriver
else:
    json = LazyModule("json")

Launches = Sequence[Sequence[Launch]]
"""Launches of the ops of a program, in the order in which it asks for them."""


class Lowering:
    """The launches of each op that a program asks for, compiled, or as a cache has them (`known`, without the text of kernels)."""

    def __init__(self, known: Launches | None = None):
        self.made: list[Sequence[Launch]] = []
        self._known = None if known is None else iter(known)

    def __call__(self, op: Op, memory: Memory) -> Sequence[Launch]:
        made = lower_op(op, memory) if self._known is None else next(self._known)
        self.made.append(made)
        return made


def obtain_ptx(kernel: Kernel, target: Target) -> str:
    """The PTX of a kernel, from the disk cache, or compiled by LLVM and kept there."""
    found = find_ptx(kernel.name, target)
    if found is None:
        found = ptx_of(kernel, target)
        disk_cache().put(_key(kernel.name, target), CompiledObject(found.encode(), kernel.name))
    return found


def find_ptx(kernel: str, target: Target) -> str | None:
    """The PTX of a kernel in the disk cache, by its name."""
    found = disk_cache().get(_key(kernel, target)).found
    return None if found is None or found.symbol != kernel else found.object_code.decode()


def _key(kernel: str, target: Target) -> str:
    """The name of a kernel's entry: kernels are named by their content."""
    return sha256(json.dumps([*compiler(), "ptx", target.name, *target.features, kernel]).encode())


def keep_program(key: str, program: DeviceProgram, launches: Launches) -> None:
    """Keep a planned graph and its launches on disk; the PTX of the kernels that it uses is there already."""
    kernels = {launch.kernel.name: launch.kernel for each in launches for launch in each}
    numbers = {name: number for number, name in enumerate(kernels)}
    data = {"planned": print_graph(program.assignment.graph), "conditional": program.conditional, "used": list(program.kernels),
            "kernels": [[kernel.name, kernel.threads, kernel.shared_bytes, kernel.pointers, kernel.numbers] for kernel in kernels.values()],
            "launches": [[[numbers[launch.kernel.name], launch.grid,
                           [[pointer.kind, pointer.index, pointer.nbytes, pointer.start] for pointer in launch.pointers], launch.numbers]
                          for launch in each] for each in launches]}
    disk_cache().put(key, CompiledObject(b"", "", json.dumps(data)))


def find_program(key: str, graph: Graph, driver: AnyDriver) -> tuple[Graph, Launches, dict[str, str]] | None:
    """The planned graph, the launches and the PTX of the kernels of a traced graph; None if the cache does not have all of them, or if they
    are of another graph, or for a driver that runs loops in another way."""
    entry = disk_cache().get(key).found
    if entry is None:
        return None
    try:
        data = json.loads(entry.data)
        kernels = [Kernel(name, "", threads, shared, tuple(pointers), numbers)
                   for name, threads, shared, pointers, numbers in data["kernels"]]
        launches = [[Launch(kernels[number], grid, tuple([Pointer(*pointer) for pointer in pointers]), tuple(numbers))
                     for number, grid, pointers, numbers in each] for each in data["launches"]]
        planned, conditional, used = parser.parse(data["planned"]), data["conditional"], data["used"]
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        return None
    if _types(planned) != _types(graph) or conditional != stays_on_device(planned, driver):
        return None
    ptx = {name: find_ptx(name, driver.target) for name in used}
    texts = {name: text for name, text in ptx.items() if text is not None}
    return (planned, launches, texts) if len(texts) == len(ptx) else None


def stays_on_device(planned: Graph, driver: AnyDriver) -> bool:
    """True if loops, branches and checks of indices of a planned graph stay on the device, as far as they need no host."""
    return any(op.name in CONTROL_FLOW or (op.definition.kind is Kind.INDEXING and "in_range" not in op.attrs)
               for op in planned.ops) and driver.has_conditional_nodes


def _types(graph: Graph) -> object:
    values = (*graph.params, *graph.results)
    return [(short_name(value.type.dtype), value.type.shape) for value in values], graph.param_roles
