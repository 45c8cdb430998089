"""Steps of matrix products: machine code of our own instead of NumPy's, if there is any, with its tasks split over threads.

There is machine code for floats on x86-64. NumPy computes all other products: integers and bools, empty results, other processors, and all
products if the setting `ADJIT_MATMUL` says so.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Sequence
from typing import Any

from adjit.codegen.gemm.lower import compile_product, lower_product
from adjit.codegen.gemm.plan import Plan, plan_product
from adjit.codegen.gemm.product import Product, product_of
from adjit.codegen.llvm.link import LoadedKernel
from adjit.codegen.llvm.target import TARGETS, Target, host_target, host_targets
from adjit.ir.dataclass import dataclass
from adjit.ir.graph import Op
from adjit.runtime import settings
from adjit.runtime.caches.disk_cache import environment, obtain_code, sha256
from adjit.runtime.numba.kernel_step import split_blocks
from adjit.runtime.numba.threads import POOL

SPLIT_VECTORS = 1_000_000
"""Vector multiply-adds from which a product is split over threads: several times the cost of waking a sleeping thread."""

NS_PER_VECTOR = 0.2
"""Estimated nanoseconds of a vector multiply-add: two a cycle."""

_PROTOTYPE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


@dataclass(frozen=True, slots=True)
class MatmulKernel:
    """The machine code of a matmul: its operand types and plan, its address, and its origin in words."""

    product: Product
    plan: Plan
    loaded: LoadedKernel
    origin: str


def product_target() -> Target | None:
    """The target named by the setting `ADJIT_MATMUL`, else the best one of this processor; None if NumPy computes products.

    Raises `ValueError` for a target that this processor does not support.
    """
    name = settings.MATMUL.get()
    if name == "numpy":
        return None
    if name == "auto":
        return host_target()
    target = TARGETS[name]
    if target not in host_targets():
        names = ", ".join(t.name for t in host_targets()) or "none of them"
        raise ValueError(f"environment variable {settings.MATMUL.variable}={name!r}: this processor has {names}")
    return target


def obtain_matmul(op: Op) -> MatmulKernel | None:
    """The machine code of a matmul; None if NumPy computes it."""
    product, target = product_of(op), product_target()
    if product is None or target is None:
        return None
    key = sha256(json.dumps([environment(), "product", repr(product), target.name]).encode())
    loaded, origin = obtain_code(key, lambda: compile_product(lower_product(product, target)))
    return MatmulKernel(product, plan_product(product, target), loaded, origin)


def task_ranges(plan: Plan, threads: int) -> list[tuple[int, int]]:
    """Ranges that cover the tasks: a few per thread, but one per thread if each range packs all of B."""
    if threads == 1 or plan.b == "in place" or plan.axis != "rows":
        return split_blocks(plan.tasks, threads)
    count = min(threads, plan.tasks)
    return [(plan.tasks * i // count, plan.tasks * (i + 1) // count) for i in range(count)]


class MatmulStep:
    """A product of the arrays that the cells `operands` and `result` point to at the time of the call.

    `owner` stays alive until every thread is done with a call.
    """

    def __init__(self, kernel: MatmulKernel, operands: Sequence[ctypes.c_void_p], results: Sequence[ctypes.c_void_p], threads: int,
                 owner: object):
        plan = kernel.plan
        vectors = kernel.product.multiplications / plan.lanes
        ranges = task_ranges(plan, threads if vectors >= SPLIT_VECTORS else 1)
        self._calls = [(*operands, *results, ctypes.c_int64(low), ctypes.c_int64(high)) for low, high in ranges]
        self._entry = _PROTOTYPE(kernel.loaded.address)
        self._kernel, self._threads, self._owner = kernel, threads, owner       # the reference keeps the code alive
        self.work = vectors * NS_PER_VECTOR

    def serial_calls(self) -> list[tuple[int, tuple[Any, ...]]] | None:
        """See `batched_calls.NativeStep.serial_calls`."""
        return [(self._kernel.loaded.address, self._calls[0])] if len(self._calls) == 1 else None

    def __call__(self) -> None:
        if len(self._calls) > 1:
            POOL.run(self._entry, self._calls, self._threads, (self._kernel, self._owner))
        else:
            self._entry(*self._calls[0])
