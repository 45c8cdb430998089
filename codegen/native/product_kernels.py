"""The kernels of products by themselves: their texts, and their object code, which any program that has them can be linked with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from adjit.codegen.gemm.lower import write_product
from adjit.codegen.gemm.product import product_of
from adjit.codegen.native.module_parts import hidden
from adjit.codegen.object_code import Module, emit_objects
from adjit.codegen.target import Target
from adjit.ir.dataclass import dataclass
from adjit.ir.graph import Op


@dataclass(frozen=True, slots=True)
class KernelTexts:
    """Functions by name, and what they declare."""

    texts: Mapping[str, str]
    declarations: frozenset[str]


@dataclass(frozen=True, slots=True)
class KernelObject:
    """The object code of these functions, by name."""

    texts: Mapping[str, str]
    code: bytes


def product_kernels(matmuls: Iterable[Op], target: Target) -> KernelTexts:
    """The kernels that these products would take as they are now.

    They are independent of sizes for the most part, so what passes do to the products later changes few.
    """
    texts: dict[str, str] = {}
    declarations: set[str] = set()
    for op in matmuls:
        product = product_of(op)
        if product is not None:
            written = write_product(product, target)
            texts |= written.shared
            declarations |= written.declarations
    return KernelTexts(texts, frozenset(declarations))


def emit_kernels(kernels: KernelTexts, target: Target) -> KernelObject:
    """Their object code."""
    text = "\n".join([*sorted(kernels.declarations), *map(hidden, kernels.texts.values()), ""])
    return KernelObject(kernels.texts, emit_objects([Module(text)], target)[0])
