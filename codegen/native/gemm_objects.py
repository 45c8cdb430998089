"""The kernels of products by themselves: their texts, and their object code, which any program that has them can be linked with."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from adjit.codegen.gemm.lower import ProductText, write_product
from adjit.codegen.gemm.plan import plan_product
from adjit.codegen.gemm.product import product_of
from adjit.codegen.llvm.target import Target
from adjit.ir.dataclass import dataclass
from adjit.ir.graph import Graph, walk

MAX_CACHED_OBJECTS = 64
"""Object files that are kept for each target: some 5 kB each."""


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


def written_products(graph: Graph, target: Target) -> Iterator[ProductText]:
    """The products of a graph and its regions as they are now, each when it is asked for, and once; but not those that share no kernels.

    Their kernels are independent of sizes for the most part, so what passes do to the products later changes few.
    """
    for product in dict.fromkeys(product_of(op) for op in walk(graph) if op.name == "matmul"):
        if product is not None and not plan_product(product, target).specialised:
            yield write_product(product, target)
