"""Object code of the kernels of products, made on another thread while the passes run, and kept for later programs."""

from __future__ import annotations

import threading
from collections.abc import Collection
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from adjit.codegen.forks import no_fork_elsewhere
from adjit.codegen.target import Target
from adjit.ir.graph import Graph, walk
from adjit.ir.on_demand import OnDemand

if TYPE_CHECKING:
    from adjit.codegen.native import product_kernels as native
    from adjit.codegen.native.product_kernels import KernelObject, KernelTexts
else:
    native = OnDemand("adjit.codegen.native.product_kernels")

KEPT = 32
"""Object files that are kept for each target: some 10 kB each."""

LEAST_LINES = 150
"""Of text that is worth a module of its own."""


class EarlyKernels:
    """The kernels there are, by target. Object code that cannot be made is left to those who need it, who will be told why."""

    def __init__(self) -> None:
        self._made: dict[Target, list[KernelObject]] = {}
        self._under_way: set[threading.Thread] = set()

    def start(self, graph: Graph, target: Target) -> None:
        """Have another thread make what the products of a graph need and what is not there yet. For a thread within `no_fork`."""
        matmuls = [op for op in walk(graph) if op.name == "matmul"]
        if not matmuls:
            return
        wanted = native.product_kernels(matmuls, target)
        there = {name for kernel in self._made.get(target, ()) for name in kernel.texts}
        missing = {name: text for name, text in wanted.texts.items() if name not in there}
        if sum(text.count("\n") for text in missing.values()) < LEAST_LINES:
            return
        texts, block = replace(wanted, texts=missing), no_fork_elsewhere()
        thread = threading.Thread(target=self._make, args=(texts, target, block), name="adjit compiler")
        try:
            thread.start()
        except RuntimeError:        # no thread to be had
            with block:
                return
        self._under_way.add(thread)

    def find(self, names: Collection[str], target: Target) -> list[KernelObject]:
        """Object files with kernels among these names, once all that was started is there; no name is in two of them."""
        for thread in tuple(self._under_way):
            thread.join()
            self._under_way.discard(thread)
        found: list[KernelObject] = []
        taken: set[str] = set()
        for kernel in self._made.get(target, ()):
            if not kernel.texts.keys().isdisjoint(names) and taken.isdisjoint(kernel.texts):
                found.append(kernel)
                taken.update(kernel.texts)
        return found

    def _make(self, texts: KernelTexts, target: Target, block: AbstractContextManager[None]) -> None:
        with block, suppress(Exception):
            made = self._made.setdefault(target, [])
            made.append(native.emit_kernels(texts, target))
            del made[:-KEPT]


EARLY_KERNELS = EarlyKernels()
