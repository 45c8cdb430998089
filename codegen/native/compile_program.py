"""Compiled program of a planned graph: its description (`Artifact`) and its object code.

    code = lower_program(planned, target)
    artifact = make_artifact(planned, code, target)
    compiled = compile_program_text(code.text, target)      # object code with the entry `adjit_run`

LLVM takes longer than all else, so other threads begin before all of the text is there:

    with OverlappedCodegen(target, threads=2) as overlapped:
        overlapped.start_products(graph)                                         # in the midst of the passes
        code = lower_program(planned, target, on_step=overlapped.start_step)     # each step as it is lowered
        compiled = overlapped.finish(code)                                       # the rest

What is begun when depends on the program alone, and on the product kernels that earlier programs left in the `KernelStore`, never on how
fast threads are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from adjit.codegen.gemm.lower import ProductText, write_product
from adjit.codegen.gemm.plan import plan_product
from adjit.codegen.gemm.product import product_of
from adjit.codegen.llvm.link import CompiledObject
from adjit.codegen.llvm.module import Definition
from adjit.codegen.llvm.object_code import Emission, Module, emit_objects
from adjit.codegen.llvm.partition_module import ModuleText, cost_of
from adjit.codegen.llvm.target import Target
from adjit.codegen.native.artifact import Artifact, Parameter, Result
from adjit.codegen.native.index_checks import index_checks
from adjit.codegen.native.program import lower_program
from adjit.codegen.native.program_code import ENTRY, ProgramCode, StepCode
from adjit.ir.analysis.buffer_assignment import BufferAssignment, ResultKind
from adjit.ir.dataclass import dataclass
from adjit.ir.graph import Graph, walk
from adjit.ir.memory_sizes import ALIGNMENT
from adjit.ir.types import short_name

__all__ = ["compile_program_text", "lower_program", "make_artifact"]

KERNEL_MODULE_LINES, MIN_KERNEL_MODULE_LINES = 800, 150
"""Cost of kernels that make up a module; and from which those that are left are worth one that later programs find made. What is less is
compiled with the steps."""

STEP_MODULE_LINES = 400
"""Cost of steps that are worth modules of their own while others are still lowered, of about as much each: a step may be worth ten, which
one thread would still be at when all else is done."""

MAX_CACHED_OBJECTS = 64
"""Object files that are kept for each target: some 5 kB each."""


def make_artifact(planned: Graph, code: ProgramCode, target: Target) -> Artifact:
    """Description of the program, from the planned graph."""
    assignment = BufferAssignment(planned)
    return Artifact(
        planned.name, target.name,
        tuple(Parameter(value.name or "", short_name(value.type.dtype), value.type.shape, role)
              for value, role in zip(planned.params, planned.param_roles, strict=True)),
        tuple(Result(short_name(value.type.dtype), value.type.shape, location.param if location.kind is ResultKind.DONATED else -1)
              for value, location in zip(planned.results, assignment.result_locations, strict=True)),
        assignment.arena_bytes, ALIGNMENT, code.stack_bytes, index_checks(assignment), code.work, len(code.calls),
        len({call.function for call in code.calls}), code.flush_subnormals)


def compile_program_text(text: str, target: Target, verify: bool = False) -> CompiledObject:
    """Object code of a module with the entry `adjit_run`. No passes run over it: the text is as good as it will be.

    `verify` has LLVM check the module first; raises `RuntimeError` where it is wrong.
    """
    (code,) = emit_objects([Module(text)], target, verify)
    return CompiledObject(code, ENTRY)


@dataclass(frozen=True, slots=True)
class KernelObject:
    """The object code of functions of these names."""

    names: frozenset[str]
    code: bytes


class KernelStore:
    """Object code of kernels, kept for later programs."""

    def __init__(self) -> None:
        self._made: dict[Target, list[KernelObject]] = {}

    def find(self, names: Collection[str], target: Target, taken: Collection[str] = ()) -> list[KernelObject]:
        """Object files with functions among these names; no name is in two of them, or is `taken`."""
        found: list[KernelObject] = []
        there = set(taken)
        for kernel in tuple(self._made.get(target, ())):
            if not kernel.names.isdisjoint(names) and there.isdisjoint(kernel.names):
                found.append(kernel)
                there |= kernel.names
        return found

    def add(self, kernels: Iterable[KernelObject], target: Target) -> None:
        """Objects that were cached for the longest time are evicted first."""
        made = self._made.setdefault(target, [])
        made += kernels
        del made[:-MAX_CACHED_OBJECTS]


KERNEL_STORE = KernelStore()


class OverlappedCodegen:
    """The object code of one program, under way. Left by an exception, or without `finish`, it stops where it is."""

    def __init__(self, target: Target, threads: int, store: KernelStore = KERNEL_STORE):
        self.target, self.store = target, store
        self._emission = Emission(target, threads=threads)
        self._made: set[str] = set()                        # functions of which there is object code, or will be
        self._kernels: dict[int, frozenset[str]] = {}       # those of the modules that have kernels of products alone, by number
        self._found: list[KernelObject] = []
        self._steps: list[tuple[Sequence[Definition], StepCode]] = []      # those that wait for more: the functions of each, and its code

    def __enter__(self) -> OverlappedCodegen:
        self._emission.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._emission.__exit__(*error)

    def start_products(self, graph: Graph) -> None:
        """Begin with the kernels of the graph's products, or find them: with the first while the others are written."""
        waiting: dict[str, Definition] = {}
        declarations: set[str] = set()
        for product in written_products(graph, self.target):
            found = self.store.find(product.shared, self.target, taken=self._made | waiting.keys())
            self._found += found
            self._made.update(*(kernel.names for kernel in found))
            waiting |= {name: kernel for name, kernel in product.shared.items() if name not in self._made}
            declarations |= product.declarations
            if cost_of(waiting.values()) >= KERNEL_MODULE_LINES:
                self._start_kernels(waiting, declarations)
                waiting = {}
        if cost_of(waiting.values()) >= MIN_KERNEL_MODULE_LINES:
            self._start_kernels(waiting, declarations)

    def _start_kernels(self, kernels: Mapping[str, Definition], declarations: Collection[str]) -> None:
        (number,) = self._add(ModuleText(declarations, kernels.values()), kernels)
        self._kernels[number] = frozenset(kernels)

    def start_step(self, functions: Sequence[Definition], code: StepCode) -> None:
        """Begin with a step, and with what it shares with others, once there is enough of that kind; but not with dispatch functions, which
        are compiled in another way.
        """
        self._steps.append((functions, code))
        shared = {name: function for _, step in self._steps for name, function in step.shared.items()}
        own = [function for functions, _ in self._steps for function in functions]
        missing = [function for name, function in shared.items() if name not in self._made]
        if cost_of(function for function in (*missing, *own) if not function.is_dispatch) >= STEP_MODULE_LINES:
            declarations = {line for _, step in self._steps for line in step.declarations}
            module = ModuleText(declarations, [*(shared[name] for name in sorted(shared)), *own])
            names = [name for name, function in module.functions.items() if name not in self._made and not function.is_dispatch]
            self._add(module, names, max(1, sum(module.functions[name].cost for name in names) // STEP_MODULE_LINES))
            self._steps = []

    def finish(self, code: ProgramCode) -> CompiledObject:
        """Object code with the entry `adjit_run`, once all there is to the program is known. Raises `RuntimeError` where LLVM does."""
        text = ModuleText(code.declarations, code.definitions)
        for module in text.split(text.choose_partitions(self._emission.threads, self._made), self._made):
            self._emission.add(module)
        unwanted = {number for number, names in self._kernels.items() if names.isdisjoint(code.shared)}
        objects = self._emission.finish(unwanted)
        self.store.add([KernelObject(names, objects[number]) for number, names in self._kernels.items() if objects[number]], self.target)
        own = [made for number, made in enumerate(objects) if number not in unwanted]
        first, *extra_objects = [*own, *(kernel.code for kernel in self._found if not kernel.names.isdisjoint(code.shared))]
        return CompiledObject(first, ENTRY, extra_objects=tuple(extra_objects))

    def _add(self, text: ModuleText, names: Collection[str], modules: int = 1) -> list[int]:
        """Have these functions of a text compiled, in up to so many modules, whose numbers it gives."""
        self._made |= set(names)
        return [self._emission.add(module) for module in text.split(modules, text.functions.keys() - names)]


def written_products(graph: Graph, target: Target) -> Iterator[ProductText]:
    """The products of a graph and its regions as they are now, each when it is asked for, and once; but not those that share no kernels.

    Their kernels are independent of sizes for the most part, so what passes do to the products later changes few.
    """
    for product in dict.fromkeys(product_of(op) for op in walk(graph) if op.name == "matmul"):
        if product is not None and not plan_product(product, target).specialised:
            yield write_product(product, target)
