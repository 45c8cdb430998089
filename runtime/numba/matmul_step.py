"""Matrix products as steps: machine code of our own in place of NumPy's, where there is any, its tasks split over threads.

There is machine code for floats on x86-64. NumPy has the rest: integers and bools, empty results, other processors, and everything where
the setting `ADJIT_MATMUL` says so.
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
"""Vector multiply-adds from which a product is split over threads: some times as long as waking a sleeping thread takes."""

NS_PER_VECTOR = 0.2
"""Time of a vector multiply-add, roughly: two a cycle."""

_PROTOTYPE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


@dataclass(frozen=True, slots=True)
class MatmulKernel:
    """The machine code of a matmul: its operand types and plan, its address, and its origin in words."""

    product: Product
    plan: Plan
    loaded: LoadedKernel
    origin: str


def product_target() -> Target | None:
    """The target that the setting asks for, else the best of this processor; None where products are NumPy's.

    Raises `ValueError` for one that this processor is not.
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
    """The machine code of a matmul; None where NumPy has to do it."""
    product, target = product_of(op), product_target()
    if product is None or target is None:
        return None
    key = sha256(json.dumps([environment(), "product", repr(product), target.name]).encode())
    loaded, origin = obtain_code(key, lambda: compile_product(lower_product(product, target)))
    return MatmulKernel(product, plan_product(product, target), loaded, origin)


def task_ranges(plan: Plan, threads: int) -> list[tuple[int, int]]:
    """Ranges that cover the tasks: a few for each thread, but one where each range packs all of B."""
    if threads == 1 or plan.b == "in place" or plan.axis != "rows":
        return split_blocks(plan.tasks, threads)
    count = min(threads, plan.tasks)
    return [(plan.tasks * i // count, plan.tasks * (i + 1) // count) for i in range(count)]


class MatmulStep:
    """Multiplies what the cells `operands` point at, into what `result` points at when it is called.

    `owner` is kept alive until every thread is done with a call.
    """

    def __init__(self, kernel: MatmulKernel, operands: Sequence[ctypes.c_void_p], results: Sequence[ctypes.c_void_p], threads: int,
                 owner: object):
        plan = kernel.plan
        vectors = kernel.product.multiplications / plan.lanes
        ranges = task_ranges(plan, threads if vectors >= SPLIT_VECTORS else 1)
        self._calls = [(*operands, *results, ctypes.c_int64(low), ctypes.c_int64(high)) for low, high in ranges]
        self._entry = _PROTOTYPE(kernel.loaded.address)
        self._kernel, self._threads, self._owner = kernel, threads, owner       # the code lives as long as the step
        self.work = vectors * NS_PER_VECTOR

    def serial_calls(self) -> list[tuple[int, tuple[Any, ...]]] | None:
        """The `serial_calls` of `chain.NativeStep`."""
        return [(self._kernel.loaded.address, self._calls[0])] if len(self._calls) == 1 else None

    def __call__(self) -> None:
        if len(self._calls) > 1:
            POOL.run(self._entry, self._calls, self._threads, (self._kernel, self._owner))
        else:
            self._entry(*self._calls[0])
