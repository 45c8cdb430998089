"""Compiled program of a planned graph: its description (`Artifact`) and its object code.

    code = lower_program(planned, target)
    artifact = make_artifact(planned, code, target)
    compiled = compile_program_text(code.text, target)      # object code with the entry `adjit_run`

LLVM takes longer than all other stages, so other threads begin before the whole text is there:

    with OverlappedCodegen(target, threads=2) as overlapped:
        overlapped.start_products(graph)                                         # in the midst of the passes
        code = lower_program(planned, target, on_step=overlapped.start_step)     # each step as it is lowered
        compiled = overlapped.finish(code)                                       # the rest

The schedule depends only on the program, and on the product kernels that earlier programs left in the `KernelStore`, never on the speed of
threads.
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
from adjit.codegen.native.index_checks import guard_checks, index_checks
from adjit.codegen.native.program import lower_program
from adjit.codegen.native.program_code import ENTRY, ProgramCode, StepCode
from adjit.ir.analysis.buffer_assignment import BufferAssignment, ResultKind
from adjit.ir.analysis.collective_order import collectives_of
from adjit.ir.dataclass import dataclass
from adjit.ir.graph import Graph, walk
from adjit.ir.memory_sizes import ALIGNMENT
from adjit.ir.ops.panels import rows_of
from adjit.ir.types import short_name

__all__ = ["compile_program_text", "lower_program", "make_artifact"]

KERNEL_MODULE_LINES, MIN_KERNEL_MODULE_LINES = 800, 150
"""Cost in lines from which kernels are a module; and from which the remaining kernels are a module of their own, which later programs
reuse. Fewer kernels are compiled with the steps."""

STEP_MODULE_LINES = 400
"""Cost in lines from which steps are compiled while later steps are still lowered, in modules of about this cost. One step may cost ten
times as much; a single thread would then be the last to finish."""

MAX_CACHED_OBJECTS = 64
"""Object files cached per target: some 5 kB each."""


def make_artifact(planned: Graph, code: ProgramCode, target: Target) -> Artifact:
    """Description of the program, from the planned graph."""
    assignment = BufferAssignment(planned)
    rows, count = rows_of(planned)
    return Artifact(
        planned.name, target.name,
        tuple(Parameter(value.name or "", short_name(value.type.dtype), value.type.shape, role, rows.get(value, 0))
              for value, role in zip(planned.params, planned.param_roles, strict=True)),
        tuple(Result(short_name(value.type.dtype), value.type.shape, location.param if location.kind is ResultKind.DONATED else -1,
                     rows.get(value, 0))
              for value, location in zip(planned.results, assignment.result_locations, strict=True)),
        assignment.arena_bytes + code.scratch_bytes, ALIGNMENT, index_checks(assignment), code.work, len(code.calls),
        len({call.function for call in code.calls}), code.flush_subnormals, guard_checks(assignment), collectives_of(planned), count)


def device_artifact(planned: Graph, target: Target) -> Artifact:
    """Description of a program for a device, from the planned graph."""
    return make_artifact(planned, ProgramCode("", (), {}, frozenset(), ()), target)


def compile_program_text(text: str, target: Target, verify: bool = False) -> CompiledObject:
    """Object code of a module with the entry `adjit_run`. No optimization passes run: the text needs none.

    `verify` has LLVM check the module first; raises `RuntimeError` if LLVM rejects the module.
    """
    (code,) = emit_objects([Module(text)], target, verify)
    return CompiledObject(code, ENTRY)


@dataclass(frozen=True, slots=True)
class KernelObject:
    """Object code that defines the functions `names`."""

    names: frozenset[str]
    code: bytes


class KernelStore:
    """Cache of the object code of kernels, for later programs."""

    def __init__(self) -> None:
        self._made: dict[Target, list[KernelObject]] = {}

    def find(self, names: Collection[str], target: Target, taken: Collection[str] = ()) -> list[KernelObject]:
        """Object files that define some of `names`. No two of them define the same name, or a name in `taken`."""
        found: list[KernelObject] = []
        there = set(taken)
        for kernel in tuple(self._made.get(target, ())):
            if not kernel.names.isdisjoint(names) and there.isdisjoint(kernel.names):
                found.append(kernel)
                there |= kernel.names
        return found

    def add(self, kernels: Iterable[KernelObject], target: Target) -> None:
        """Add objects. The oldest ones are evicted first."""
        made = self._made.setdefault(target, [])
        made += kernels
        del made[:-MAX_CACHED_OBJECTS]


KERNEL_STORE = KernelStore()


class OverlappedCodegen:
    """Compilation of one program that overlaps with its lowering. On an exception, or without `finish`, compilation stops."""

    def __init__(self, target: Target, threads: int, store: KernelStore = KERNEL_STORE):
        self.target, self.store = target, store
        self._emission = Emission(target, threads=threads)
        self._made: set[str] = set()                        # functions that have object code, or whose module is being compiled
        self._kernels: dict[int, frozenset[str]] = {}       # product kernels of the modules that hold nothing else, by module number
        self._found: list[KernelObject] = []
        self._steps: list[tuple[Sequence[Definition], StepCode]] = []      # pending steps: functions and code of each

    def __enter__(self) -> OverlappedCodegen:
        self._emission.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._emission.__exit__(*error)

    def start_products(self, graph: Graph) -> None:
        """Find the kernels of the graph's products in the store, or begin to compile them. The first compile while later ones are
        written."""
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
        """Add a step. Pending steps, with the functions they share, are compiled once their cost suffices; dispatch functions are left to
        `finish`, since they are compiled in another way.
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
        """Object code with the entry `adjit_run`; `code` is the complete program. Raises `RuntimeError` if LLVM does."""
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
        """Compile the functions `names` of a text in up to `modules` modules. Returns the numbers of the modules."""
        self._made |= set(names)
        return [self._emission.add(module) for module in text.split(modules, text.functions.keys() - names)]


def written_products(graph: Graph, target: Target) -> Iterator[ProductText]:
    """The products of a graph and its regions before the later passes, written lazily, each once; products without shared kernels are left
    out.

    Most kernels are independent of sizes, so later passes, which change products, change few kernels.
    """
    for product in dict.fromkeys(map(product_of, walk(graph))):
        if product is not None and not plan_product(product, target).specialised:
            yield write_product(product, target)
