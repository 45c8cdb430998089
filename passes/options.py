"""Options of the passes: those that a user sets, and those that the backend sets."""

from __future__ import annotations

import numpy as np

from adjit.ir.analysis.kernel_schedule import CPU_RULE, KernelRule
from adjit.ir.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class RollingRule:
    """Loops that are worth rolling. An op that stays unrolled costs some 200 us of compile time with its derivative; a rolled iteration
    0.03 us of each call, forward and backward. Time of value and gradient, rolled / unrolled, and of the first call, in CPU seconds:

    iterations         8                   32                  128
    Lorenz, RK4        1.11  0.17 -> 0.14  0.99  0.69 -> 0.21  1.00  2.48 -> 0.79
    Gauss-Seidel       1.09  0.28 -> 0.32  1.10  0.95 -> 0.18  1.13  4.00 -> 0.52
    hidden Markov      1.08  0.09 -> 0.36  1.10  0.18 -> 0.09  1.14  0.57 -> 0.12
    leapfrog           0.96  0.11 -> 0.09  0.87  0.27 -> 0.09  0.75  0.86 -> 0.15
    RNN of 24          1.08  0.06 -> 0.09  0.73  0.06 -> 0.09  0.77  0.21 -> 0.06
    LSTM of 16 x 32    0.92 (16 iterations)  0.87 (64)         0.99  2.22 -> 0.29

    min_trips         iterations
    min_ops           ops of all iterations together
    max_fused_bytes   bytes of the largest value of a body of elementwise ops alone, which fuses across iterations
    max_copied_bytes  bytes of separate arrays that are copied into one, so that each iteration takes a row of it
    """

    min_trips: int = 8
    min_ops: int = 500
    max_fused_bytes: int = 256 << 10
    max_copied_bytes: int = 4 << 20


@dataclass(frozen=True, slots=True)
class Options:
    """Choices that passes and code generation read; equal options give equal programs.

    memory_budget  bytes that the forward half may save for the backward half (an int), or a fraction of the bytes of saving
                   everything (a float). None saves the values that are not cheap to recompute.
    only_kernels   True if every op that a kernel can run becomes a kernel, single ops too: for backends without better code for them. Set
                   by the backend.
    cache_bytes    bytes of the private caches of a core, for backends that run programs in tiles; None for other backends. Set by the
                   backend.
    rolling        which Python loops become `scan` ops; None: all stay unrolled, and so they do with a memory budget, which knows
                   nothing of values within loops.
    saved_dtype    float16 or bfloat16: the dtype in which the forward half saves floats for the backward half. None: their own.
    kernels        sizes by which kernels are cut. Set by the backend.
    from_end       True if code of ops with indices counts negative ones from the end: nothing else has to. Set by the backend.
    complex_products  True if there is code for products of complex numbers as they are in memory. Set by the backend.
    inverses       True if there is code for inverses that finds the factors that suit a matrix. Set by the backend.
    segments       number of segments of the forward half: what a later segment reads is saved, all else is computed again, segment by
                   segment. None: `memory_budget` decides. Set by the pipeline, which looks for what fits a budget.
    matmul_precision  digits of products of float32 on devices, which have arithmetic for fewer: "highest" (all of them), "high", "tf32" or
                   "bf16". None for the CPU.
    flush_subnormals  True if native programs flush subnormal numbers to zero. Constant folding in passes does not depend on it.
    """

    memory_budget: int | float | None = None
    only_kernels: bool = False
    cache_bytes: int | None = None
    flush_subnormals: bool = False
    rolling: RollingRule | None = None
    saved_dtype: np.dtype | None = None
    kernels: KernelRule = CPU_RULE
    from_end: bool = False
    complex_products: bool = False
    inverses: bool = False
    segments: int | None = None
    matmul_precision: str | None = None
