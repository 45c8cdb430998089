"""Matrix products as steps: machine code of our own in place of NumPy's, where there is any, its tasks split over threads.

There is machine code for floats on x86-64. NumPy has the rest: integers and bools, empty results, other processors, and everything where
the setting `ADJIT_MATMUL` says so.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from adjit.codegen import direct_call
from adjit.codegen.gemm.lower import compile_product, lower_product
from adjit.codegen.gemm.plan import Plan, plan_product
from adjit.codegen.gemm.product import BYTES, Product, dense_product
from adjit.codegen.gemm.target import TARGETS, Target, host_target, host_targets
from adjit.codegen.link import LoadedKernel
from adjit.ir.graph import Op
from adjit.ir.types import short_name
from adjit.runtime import settings
from adjit.runtime.kernel_cache import environment, obtain_code, sha256
from adjit.runtime.kernel_step import split_blocks
from adjit.runtime.steps import Step
from adjit.runtime.threads import POOL

SPLIT_VECTORS = 1_000_000
"""Vector multiply-adds from which a product is split over threads: some times as long as waking a sleeping thread takes."""

RELEASE_VECTORS = 30_000
"""Vector multiply-adds from which the interpreter's lock is released: some microseconds, many times what releasing it takes."""

_PROTOTYPE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


@dataclass(frozen=True, slots=True)
class ProductKernel:
    """The machine code of a matmul: what it multiplies, how, where it was loaded, and where it came from, in words."""

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


def product_of(op: Op) -> Product | None:
    """What a matmul of arrays without gaps multiplies; None where only NumPy can."""
    dtype = short_name(op.result.type.dtype)
    if dtype not in BYTES or not op.result.type.size:
        return None
    turn_a, turn_b = op.attrs["transpose_a"], op.attrs["transpose_b"]
    rows, columns = op.result.type.shape[-2:]
    inner, batch = op.operands[0].type.shape[-2 if turn_a else -1], op.result.type.size // (rows * columns)
    return dense_product(rows, inner, columns, dtype, turn_a, turn_b, batch)


def obtain_product(op: Op) -> ProductKernel | None:
    """The machine code of a matmul; None where NumPy has to do it."""
    product, target = product_of(op), product_target()
    if product is None or target is None:
        return None
    key = sha256(json.dumps([environment(), "product", repr(product), target.name]).encode())
    loaded, origin = obtain_code(key, lambda: compile_product(lower_product(product, target)))
    return ProductKernel(product, plan_product(product, target), loaded, origin)


def bind_product(kernel: ProductKernel, operands: Sequence[ctypes.c_void_p], results: Sequence[ctypes.c_void_p], threads: int,
                 owner: object) -> Step:
    """The step that multiplies what the cells point at when it is called. `owner` is kept alive until every thread is done."""
    plan, arguments = kernel.plan, (*operands, *results)
    if kernel.product.multiplications < SPLIT_VECTORS * plan.lanes:
        threads = 1
    ranges = split_blocks(plan.tasks, threads)
    if len(ranges) == 1 and direct_call.available():
        release = kernel.product.multiplications >= RELEASE_VECTORS * plan.lanes
        return direct_call.make_direct_call(kernel.loaded.address, arguments, ranges[0], release, kernel)
    entry = _PROTOTYPE(kernel.loaded.address)
    calls = [(*arguments, ctypes.c_int64(low), ctypes.c_int64(high)) for low, high in ranges]
    if len(calls) > 1:
        return partial(POOL.run, entry, calls, threads, (kernel, owner))
    entry.kernel = kernel       # type: ignore[attr-defined]  # the code lives as long as the function
    return partial(entry, *calls[0])
