"""Fuses elementwise ops into the product that they follow (its epilogue), so that they run while the elements are in the L1 cache.

Examples are a bias that is added, a relu or its derivative, a residual. If a kernel is the only reader of a product, and must store a value
that follows from the product element by element, the product stores this value directly. The rest of the kernel, such as a sum over the
batch, reads the stored value.

Before:
    graph @layer(%x: f32[64,32], %w: f32[32,48], %b: f32[48]) {
      %p: f32[64,48] = matmul %x, %w {transpose_a=false, transpose_b=false}
      %y: f32[64,48], %t: f32[48] = fused %p, %b {columns=48, in_place=(0,), rows=64, scratch_bytes=192} [
        graph @reduce_sum_4(%p: f32[64,48], %b: f32[48]) {
          %c: f32[64,48] = broadcast %b {axes=(1,), shape=(64, 48)}
          %a: f32[64,48] = add %p, %c
          %y: f32[64,48] = relu %a
          %t: f32[48] = reduce_sum %y {axes=(0,)}
          return %y, %t
        }
      ]
      return %y, %t
    }
After:
    graph @layer(%x: f32[64,32], %w: f32[32,48], %b: f32[48]) {
      %y: f32[64,48] = matmul_epilogue %x, %w, %b [
        graph @matmul_relu_4(%x: f32[64,32], %w: f32[32,48], %b: f32[48]) {
          %p: f32[64,48] = matmul %x, %w {transpose_a=false, transpose_b=false}
          %c: f32[64,48] = broadcast %b {axes=(1,), shape=(64, 48)}
          %a: f32[64,48] = add %p, %c
          %y: f32[64,48] = relu %a
          return %y
        }
      ]
      %t: f32[48] = fused %y {columns=48, in_place=(), rows=64, scratch_bytes=192} [
        graph @reduce_sum_1(%y: f32[64,48]) {
          %t: f32[48] = reduce_sum %y {axes=(0,)}
          return %t
        }
      ]
      return %y, %t
    }
"""

from __future__ import annotations

from adjit.ir.analysis.iteration_space import infer_maps, map_extent
from adjit.ir.analysis.kernel_schedule import KernelRule, schedule_kernel
from adjit.ir.graph import WRITABLE_ROLES, Graph, Op, Value, needed_ops, readers
from adjit.ir.ops.region import fused, matmul_epilogue
from adjit.ir.ops.traits import CHEAP, FREE_IN_KERNELS
from adjit.ir.types import is_float
from adjit.passes.options import Options
from adjit.passes.regions import in_regions

MAX_EPILOGUE_OPS = 8
MAX_EPILOGUE_MATRICES = 2
"""Most ops in an epilogue, and most matrices that they read: more matrices are better read in the order in which they lie in memory."""

MIN_ROWS, MIN_COLUMNS = 8, 16
"""Smallest product with an epilogue; smaller products are computed in other ways."""

MIN_DOT_INNER_RATIO = 4
"""Ratio of the inner dimension to the rows from which a product by a transposed matrix may be computed as dot products."""


def fuse_epilogues(graph: Graph, options: Options) -> Graph:
    """Fuse matmuls with the ops that follow into `matmul_epilogue` ops. The graph stays the same for backends without
    epilogues: `options.cache_bytes` is None, and the rule for kernels does not ask for them."""
    return _fuse(graph, set(), options.kernels) if options.cache_bytes is not None or options.kernels.product_epilogues else graph


def _fuse(graph: Graph, written: set[Value], rule: KernelRule) -> Graph:
    """Graph with epilogues; results may be written over the parameters `written`, as over donated ones."""
    # Results of a tile may lie in the memory of its operands, so all parameters of a region count as written.
    graph = in_regions(graph, lambda region: _fuse(region, set(region.params), rule))
    read_by = readers(graph.ops)
    given = set(graph.results)
    writable = {value for value, role in zip(graph.params, graph.param_roles, strict=True) if role in WRITABLE_ROLES}
    matmuls = {op.result: op for op in graph.ops if _takes_epilogue(op) and op.result not in given}
    new: list[Op] = []
    replaced: set[Op] = set()
    for op in graph.ops:
        joined = None
        if op.name == "fused":
            for value in op.operands:
                if joined is None and value in matmuls and read_by[value] == [op]:
                    joined = _fuse_epilogue(matmuls[value], op, writable if given.isdisjoint(op.results) else writable | written, rule)
                    replaced.update([matmuls[value]] if joined else [])
        new += joined or [op]
    return graph.with_ops([op for op in new if op not in replaced]) if replaced else graph


def describe_epilogues(before: Graph, after: Graph, options: Options) -> str:
    """Number of products with epilogues, and of the ops in them."""
    found = [op.regions[0] for op in after.ops if op.name == "matmul_epilogue"]
    count = sum(op.name not in FREE_IN_KERNELS for region in found for op in region.ops) - len(found)
    return f"{len(found)} product{'s' * (len(found) > 1)} with {count} ops that follow" if found else ""


def _takes_epilogue(op: Op) -> bool:
    if op.name != "matmul" or not is_float(op.result.type.dtype) or op.result.type.dtype.itemsize < 4 or op.result.type.rank != 2:
        return False
    rows, columns = op.result.type.shape
    inner = op.operands[0].type.shape[0 if op.attrs["transpose_a"] else 1]
    is_dot = op.attrs["transpose_b"] and inner >= MIN_DOT_INNER_RATIO * rows
    return rows >= MIN_ROWS and columns >= MIN_COLUMNS and inner > 0 and not is_dot


def _fuse_epilogue(matmul: Op, kernel: Op, writable: set[Value], rule: KernelRule) -> list[Op] | None:
    """Product with its epilogue, and the rest of the kernel, if any; None if the kernel has no suitable epilogue."""
    (region,) = kernel.regions
    inner = region.params[kernel.operands.index(matmul.result)]
    outer = dict(zip(region.params, kernel.operands, strict=True))
    search = _EpilogueSearch(region, inner, matmul, {value for value in region.params if outer[value] in writable})
    ops = search.best()
    if ops is None:
        return None
    last = ops[-1].result
    params = [value for value in region.params if value is not inner and any(value in op.operands for op in ops)]
    a, b = (Value(value.type, value.name) for value in matmul.operands)
    name = f"matmul_{ops[-1].name}_{len(ops) + 1}"
    joined = Graph(name, (a, b, *params), (matmul.with_operands((a, b), (inner,)), *ops), (last,))
    if kernel.results == (result := kernel.results[region.results.index(last)],):
        operands = (*matmul.operands, *(outer[value] for value in params))
        return [Op(matmul_epilogue, operands, (result,), {}, (joined,), kernel.loc, kernel.role)]
    made = Op(matmul_epilogue, (*matmul.operands, *(outer[value] for value in params)), (result,), {}, (joined,), kernel.loc, matmul.role)
    return [made, _remaining_kernel(kernel, result, rule)]


def _remaining_kernel(kernel: Op, given: Value, rule: KernelRule) -> Op:
    """Kernel that reads one of its results instead of computing it."""
    (region,) = kernel.regions
    position = kernel.results.index(given)
    inner = region.results[position]
    results = tuple(value for value in region.results if value is not inner)
    ops = needed_ops(region.ops, results, {inner})
    used = {value for op in ops for value in op.operands}
    needed = [(value, outer) for value, outer in zip(region.params, kernel.operands, strict=True) if value in used]
    param = Value(inner.type, inner.name)
    copies = [op.with_operands([param if value is inner else value for value in op.operands], op.results) for op in ops]
    params = (param, *(value for value, _ in needed))
    rest = Graph(f"{copies[-1].name}_{len(copies)}", params, tuple(copies), results)
    schedule = schedule_kernel(rest, kernel.attrs["rows"], kernel.attrs["columns"], rule)
    attrs = {**kernel.attrs, "in_place": schedule.in_place, "scratch_bytes": schedule.scratch_bytes}
    outers = (given, *(outer for _, outer in needed))
    attrs["in_place"] = tuple(i for i in schedule.in_place if outers.count(outers[i]) == 1)
    return Op(fused, outers, tuple(v for v in kernel.results if v is not given), attrs, (rest,), kernel.loc, kernel.role)


class _EpilogueSearch:
    """Search for an epilogue: ops of a kernel that lead from a product to a result."""

    def __init__(self, region: Graph, start: Value, matmul: Op, writable: set[Value]) -> None:
        self.region, self.start, self.writable = region, start, writable
        self.rows, self.columns = matmul.result.type.shape
        self.maps = infer_maps(region, self.rows * self.columns)
        self.dtype = start.type.dtype

    def best(self) -> list[Op] | None:
        """Ops that lead to a result from which all other results can be computed instead of from the product; None if there is no such
        result."""
        for value in self.region.results:
            ops = self.leading_to(value)
            if ops:
                others = [other for other in self.region.results if other is not value]
                rest = needed_ops(self.region.ops, others, {value})
                if self.start not in others and not any(self.start in op.operands for op in rest):
                    return ops
        return None

    def leading_to(self, value: Value) -> list[Op] | None:
        """Ops that make a result, if all are suitable; None if one is not, or if they do not need the product."""
        if value.type.dtype != self.dtype or self.extent(value) != "full":
            return None
        ops = needed_ops(self.region.ops, [value])
        read = {operand for op in ops for operand in op.operands}
        params = [param for param in self.region.params if param in read]
        if self.start not in read or sum(op.name not in FREE_IN_KERNELS for op in ops) > MAX_EPILOGUE_OPS:
            return None
        matrices = [param for param in params if self.extent(param) == "full"]
        if len(matrices) > 1 + MAX_EPILOGUE_MATRICES or not self.writable.isdisjoint(matrices):
            return None     # a kernel can write over a parameter, a product cannot
        suitable = all(op.name in FREE_IN_KERNELS or op.name in CHEAP for op in ops) and all(
            param.type.dtype == self.dtype and self.extent(param) != "other" for param in params) and all(
            op.result.type.dtype in (self.dtype, bool) and self.extent(op.result) != "other" for op in ops)
        return ops if suitable else None

    def extent(self, value: Value) -> str:
        """"full", "row", "column", "scalar", or "other"."""
        return map_extent(self.maps[value], self.rows, self.columns) if value in self.maps else "other"
