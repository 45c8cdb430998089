"""Targets of kernels for NVIDIA GPUs, and the sizes by which kernels are cut.

No size depends on the card, so that bits are the same on every card.
"""

from __future__ import annotations

from adjit.codegen.llvm.target import Target
from adjit.ir.analysis.kernel_schedule import KernelRule

TRIPLE = "nvptx64-nvidia-cuda"

SM_80, SM_90 = (Target(name, 16, 255, True, ("ptx78",), TRIPLE) for name in ("sm_80", "sm_90"))
"""Compute capabilities. PTX 7.8 is the oldest version that knows sm_90: drivers load no newer version than their own."""

WARP = 32
MAX_THREADS = 1024
"""Threads that run in step, and most threads of a block."""

MAX_STATIC_SHARED_BYTES = 48 << 10
"""Most shared memory of a block that a kernel asks for by itself."""

MAX_LOAD_BYTES = 16
"""Bytes of the widest load."""

FLAT_THREADS = 256
"""Threads of a block of a kernel of one column."""

TEAM_THREADS = 128
"""Threads of a block whose rows are shorter than a warp is wide: several teams of threads, a row each."""

ELEMENTS_A_THREAD = 8
"""Elements of one array that a thread holds of a row: what each thread does once a row costs. Instructions an element, of rows of 1,024,
with 4, 8 and 16 elements of float32 a thread: softmax 74, 54, 47, its gradient 131, 94, 80; but with 16 the gradient of layer norm needs
124 registers and softmax's spills one. Of float64, with 4 and 8: 99 and 70, 182 and 123."""

MAX_ELEMENT_BYTES_A_THREAD = 64
"""Most bytes of one array that a thread holds of a row; longer rows are read again for each stage."""

MIN_DIVISIONS_FOR_INVERSE = 4
"""Elements of a thread from which divisions by a number become products with its inverse, which itself costs one division."""

DEVICE_RULE = KernelRule(elements_per_block=1 << 10, max_blocks_with_sums=264, max_blocks_with_column_sums=264, row_buffers=False,
                         max_single_row=1 << 13, max_column_sums=1 << 13, overwrites_numbers=False, product_epilogues=True)
"""Rule for kernels: two blocks for each multiprocessor of an H200 leave partial sums. A single row is one block, so a longer one would
leave all other multiprocessors idle. Several threads read the number of a row, and one of them would overwrite it."""
