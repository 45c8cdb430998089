"""Lowering of a product to LLVM text: an entry that runs a range of the product's tasks, and functions that all products share.

    code = lower_product(dense_product(128, 784, 512, "f32"), host_target())
    code.plan       # tiles of 8 x 3 vectors, 16 x 11 of them, k in 3, B copied, split by columns

The entry is `void adjit_product(A, B, C, int64 low, int64 high)`; tasks are numbered from 0 to `plan.tasks`. Tasks write disjoint elements
of C, so any division among threads gives the same bits. The entry passes the plan, as a table, to the one driver of all products, or, if C
is a column of equal tiles, to the tile kernel. A small product is specialised, with all strides known, since the driver would take a good
part of its time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from adjit.codegen.gemm.dot_products import dot_kernel
from adjit.codegen.gemm.driver import DRIVER, driver
from adjit.codegen.gemm.kernels import FIRST, LAST, Kernel
from adjit.codegen.gemm.packing import pack_a_kernel, pack_a_transposed_kernel, pack_b_kernel, pack_b_transposed_kernel
from adjit.codegen.gemm.plan import MAX_UNROLLED_FMAS, Plan, Size, plan_product, runs
from adjit.codegen.gemm.product import Product
from adjit.codegen.gemm.table import kinds_of, plan_of_kernels, plan_table
from adjit.codegen.gemm.tile import (
    TILE_BLOCK_STEPS,
    Tile,
    TileKind,
    call_tile_epilogue,
    complex_sums,
    row_strides,
    sum_products,
    tile_kernel,
)
from adjit.codegen.llvm.builder import Builder
from adjit.codegen.llvm.link import CompiledObject
from adjit.codegen.llvm.module import Definition, Function
from adjit.codegen.llvm.target import Target, machine
from adjit.codegen.llvm.vectors import VectorBuilder
from adjit.codegen.process.off_main_thread import off_main_thread
from adjit.ir.dataclass import dataclass
from adjit.ir.memory_sizes import ALIGNMENT, aligned

SYMBOL = "adjit_product"
TABLE = "adjit_product.plan"


@dataclass(frozen=True, slots=True)
class ProductText:
    """A product in LLVM text, and the plan it follows.

    `own` holds the entry, named `SYMBOL`, and its table, if any, named `TABLE`. `shared` holds the functions of all products by name.
    `is_call`: the entry is no more than a call of one shared function. The entry packs panels into `scratch_bytes` of memory at `%scratch`,
    a pointer that the enclosing function defines.
    """

    plan: Plan
    own: dict[str, Definition]
    shared: dict[str, Definition]
    declarations: frozenset[str]
    is_call: bool
    scratch_bytes: int

    def with_scratch(self) -> dict[str, Definition]:
        """`own`, with an entry that has its scratch memory on its stack."""
        entry = self.own[SYMBOL]
        assert isinstance(entry, Function)
        scratch = f"  %scratch = alloca [{self.scratch_bytes} x i8], align {ALIGNMENT}"
        return {**self.own, SYMBOL: entry.changed([scratch, *entry.lines])}


@dataclass(frozen=True, slots=True)
class ProductCode:
    """A product as an LLVM module, and the plan it follows."""

    plan: Plan
    target: Target
    text: str


def lower_product(product: Product, target: Target) -> ProductCode:
    """The product for this target."""
    written = write_product(product, target)
    text = "\n".join([*sorted(written.declarations), *map(str, written.shared.values()), *map(str, written.with_scratch().values()), ""])
    return ProductCode(written.plan, target, text)


@off_main_thread
def compile_product(code: ProductCode) -> CompiledObject:
    """Object code of a product. Compilation takes 5 to 30 ms."""
    import llvmlite.binding as llvm

    target_machine = machine(code.target)
    module = llvm.parse_assembly(f'target triple = "{target_machine.triple}"\n{code.text}')
    return CompiledObject(target_machine.emit_object(module), SYMBOL)


def write_product(product: Product, target: Target, tile_epilogue: Kernel | None = None, epilogue_args: str = "null") -> ProductText:
    """Like `lower_product`, in pieces that link with the pieces of other products. `tile_epilogue` (parameters `TILE_EPILOGUE`) is called
    with `epilogue_args` for each tile after its last store to C."""
    plan = plan_product(product, target, has_epilogue=tile_epilogue is not None)
    text = VectorBuilder(target, product.dtype)
    kernels = _kernels(plan_of_kernels(plan), target) if plan.tasks else {}
    if tile_epilogue is not None and plan.tasks:
        kernels["tile_epilogue"] = tile_epilogue
    own: dict[str, Definition] = {}
    if kernels:
        own[TABLE] = plan_table(TABLE, plan_of_kernels(plan), {entry: kernel.name for entry, kernel in kernels.items()})
    scratch_bytes = 0
    with text.function(SYMBOL, "ptr %A, ptr %B, ptr %C, i64 %low, i64 %high", linkage=""):
        if plan.tasks:
            a, b = ("%B", "%A") if plan.swapped != (plan.dots == "along") else ("%A", "%B")
            packed_a = panel = "null"
            if plan.a != "in place":
                packed_a = "%scratch"
                scratch_bytes = aligned(plan.packed_tile_elements * plan.mc_tiles * product.element_bytes)
            if plan.b != "in place":
                panel = text.at("%scratch", 1, scratch_bytes)
                scratch_bytes += aligned(plan.panel_elements * plan.nc_panels * product.element_bytes)
            if plan.specialised:
                _write_specialised(text, plan, a, b, panel, kernels, epilogue_args)
            elif tile_epilogue is None and _is_column(plan_of_kernels(plan)):
                _call_kernel(text, plan_of_kernels(plan), a, b, *kernels.values())
            else:
                kernels["driver"] = driver()
                text.call("void", f"@{DRIVER}", ("ptr", text.use(f"@{TABLE}")), ("ptr", a), ("ptr", b), ("ptr", "%C"), ("ptr", packed_a),
                          ("ptr", panel), ("ptr", epilogue_args), ("i64", "%low"), ("i64", "%high"))
    own[SYMBOL] = text.functions[SYMBOL]
    declarations = text.declarations.union(*(kernel.declarations for kernel in kernels.values()))
    return ProductText(plan, own, {kernel.name: kernel.function for kernel in kernels.values()}, declarations,
                       not plan.specialised, scratch_bytes)


def _kernels(plan: Plan, target: Target) -> dict[str, Kernel]:
    """Kernels of a plan, keyed by the names of their table entries. A specialised plan has no tile kernels."""
    p, kinds, kernels = plan.product, kinds_of(plan), {}
    if plan.a == "copied":
        kernels["packed_a"] = pack_a_transposed_kernel(target, p.dtype, plan.tiles[0], kinds.tiles[1]) if p.transpose_a else \
            pack_a_kernel(target, p.dtype)
    for kind, counts in enumerate(kinds.panels):
        if counts is None:
            continue
        if plan.b == "copied":
            kernels[f"pack_{kind}"] = pack_b_kernel(target, p.dtype, counts)
        elif plan.b == "transposed":
            kernels[f"pack_{kind}"] = pack_b_transposed_kernel(target, p.dtype, p.inner, sum(counts), p.unit)
        for size, rows in enumerate(kinds.tiles):
            if rows is None or plan.specialised:
                continue
            if plan.dots:
                along = plan.dots == "along"
                shape = (counts[0], rows) if along else (rows, counts[0])
                kernels[f"tile_{kind}_{size}"] = dot_kernel(target, p.dtype, *shape, p.inner, along)
            else:
                kernels[f"tile_{kind}_{size}"] = tile_kernel(target, p.dtype, _tile_kind(plan, target, rows, counts))
    return kernels


def _tile_kind(plan: Plan, target: Target, rows: int, counts: tuple[int, ...]) -> TileKind:
    added = len(plan.k_blocks) > 1 and not plan.accumulates_in_c
    chains = 1 if _unrolled(plan, rows, counts) else plan.chains
    blocked = plan.has_small_tiles and max(plan.k_blocks) > TILE_BLOCK_STEPS * chains and not _unrolled(plan, rows, counts)
    lda = plan.strides_a[0] if len(counts) == 1 and target.registers == 16 else None
    return TileKind(rows, counts, chains, added, lda, blocked, plan.product.conjugates)


def _unrolled(plan: Plan, rows: int, counts: tuple[int, ...]) -> bool:
    return len(plan.k_blocks) == 1 and plan.product.inner * rows * len(counts) <= MAX_UNROLLED_FMAS


def _is_column(plan: Plan) -> bool:
    """True if C is a column of equal tiles, and each tile is a task, or all tiles are one task: such a product needs no driver."""
    in_place, tiled = plan.a == plan.b == "in place", len({*plan.tiles}) == len(plan.panels) == len(plan.k_blocks) == 1
    return plan.product.batch == 1 and in_place and tiled and (plan.axis != "rows" or plan.tasks == len(plan.tiles))


def _call_kernel(text: VectorBuilder, plan: Plan, a: str, b: str, kernel: Kernel) -> None:
    """Call of the tile kernel for a column of tiles, through which the kernel loops itself. `plan` comes from `plan_of_kernels`."""
    p, rows = plan.product, plan.tiles[0]
    first, count = ("%low", text.sub("%high", "%low")) if plan.axis == "rows" else ("0", str(len(plan.tiles)))
    row, lda, ldc = text.mul(first, rows), p.strides_a[0], 1 if plan.dots == "along" else p.ldc
    here, goal, apart = text.at(a, text.scalar, (row, lda)), text.at("%C", text.scalar, (row, ldc)), rows * lda * p.element_bytes
    part = LAST if p.adds else FIRST | LAST
    text.call("void", f"@{kernel.name}", ("ptr", here), ("ptr", b), ("ptr", goal), ("i64", plan.k_blocks[0]), ("i64", part),
              ("ptr", text.use(f"@{TABLE}")), ("i64", count), ("i64", apart), ("i64", row), ("i64", 0), ("ptr", "null"), ("ptr", "null"))


def _write_specialised(text: VectorBuilder, plan: Plan, a: str, b: str, panel: str, kernels: Mapping[str, Kernel],
                       epilogue_args: str) -> None:
    """Loops over the batch, the panels and the tiles, around the code of a tile."""
    p = plan.product
    transposed = plan.b == "transposed"
    (row_a, inner), (row_b, column_b) = p.strides_a, p.strides_b
    inner_a, inner_b = text.strides(inner, 1), text.strides(plan.panel_columns if transposed else row_b, 1)
    with text.for_range("%low", "%high", empty=True) as batch:
        at_a, at_b, at_c = (text.at(matrix, text.scalar, (batch.counter, step) if p.batch > 1 else 0)
                            for matrix, step in zip((a, b, "%C"), p.batch_strides, strict=True))
        for column, counts in _every(text, plan.panels):
            source = text.at(at_b, text.scalar, (column, column_b))
            if transposed:
                pack = kernels[f"pack_{kinds_of(plan).panels.index(counts)}"]
                text.call("void", f"@{pack.name}", ("ptr", source), ("ptr", panel), ("i64", p.inner), ("ptr", text.use(f"@{TABLE}")),
                          ("i64", sum(counts)))
                source = panel
            for row, rows in _every(text, plan.tiles):
                kind = _tile_kind(plan, text.target, rows, counts)
                corner, ldc = text.at(at_a, text.scalar, (row, row_a)), row_strides(text, kind, p.ldc)
                tile = Tile(text, rows // p.unit, counts, text.at(at_c, text.scalar, (row, p.ldc), column), ldc, str(row), str(column))
                sums = sum_products(text, kind, (corner, source), row_strides(text, kind, row_a), inner_a, inner_b, p.inner,
                                    ["zeroinitializer"] * (rows * len(counts)), _unrolled(plan, rows, counts))
                if p.conjugates is not None:
                    sums = complex_sums(text, sums, len(counts), p.conjugates)
                tile.values = dict(zip(tile.cells, sums, strict=True))
                tile.store()
                if "tile_epilogue" in kernels:
                    call_tile_epilogue(text, f"@{kernels['tile_epilogue'].name}", tile, str(p.ldc * p.element_bytes), epilogue_args)


def _every(text: Builder, sizes: Sequence[Size]) -> Iterator[tuple[str | int, Size]]:
    """Loop over each run of equal sizes; a run of one needs no loop. Yields the start offset and the size."""
    for _, start, size, times in runs(sizes):
        if times == 1:
            yield start, size
            continue
        with text.for_range(0, times) as loop:
            scaled = text.mul(loop.counter, size if isinstance(size, int) else sum(size))
            yield text.add(scaled, start), size
