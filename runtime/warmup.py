"""Warm-up of the compiler: work that all first calls share, done by a background thread: from the first `compile` on if the disk cache is
empty, else from the first program on that is not in it, since a program on disk needs no compiler.

The caller has priority. After LLVM's first module the thread waits from the start of a first call until the disk cache was searched. On a
cache miss it stops: its other steps need the GIL, which the caller holds.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module

from adjit.codegen.llvm.object_code import warm_up
from adjit.codegen.process.fork_safety import no_fork, others_active
from adjit.codegen.process.off_main_thread import THREAD_NAME_PREFIX, start_thread
from adjit.runtime.caches.disk_cache import disk_cache
from adjit.runtime.caches.graph_cache import compiler_source
from adjit.runtime.native.code import native_target
from adjit.runtime.native.threads import TEAM_CODE

POLL_S = 0.001
"""Seconds between two checks for a first call in progress."""

COMPILER_MODULES = "adjit.passes.pipeline", *(f"adjit.codegen.{name}" for name in (
    "native.merge_functions", "native.compile_program", "native.kernels.scalar_templates", "native.kernels.writer", "native.kernels.fused",
    "vector_math.exponential", "vector_math.logarithmic", "gemm.lower", "native.matmul", "vector_math.hyperbolic"))
"""Modules that only compilation needs, for most programs; each takes a fraction of a millisecond, or up to two, to import, the passes
some 20."""


class WarmUp:
    """Warm-up of this process, run once. A caller that needs a step before the warm-up has reached it does the step itself."""

    def __init__(self) -> None:
        self.thread: threading.Thread | None = None
        self._missed: bool | None = None        # None until the first lookup in the disk cache
        self._is_wanted = False

    def start(self) -> None:
        """Start the thread, at the first miss if programs are probably on disk."""
        self._is_wanted = True
        if self._missed or disk_cache().is_empty():
            self._start()

    def notify_cache_lookup(self, missed: bool) -> None:
        """Report a lookup in the disk cache: after a hit, other programs are probably on disk, too; after a miss, one must be compiled."""
        self._missed = missed
        if missed and self._is_wanted:
            self._start()

    def _start(self) -> None:
        if self.thread is None:
            with suppress(RuntimeError):        # the system has no thread left
                self.thread = start_thread(self._prepare, f"{THREAD_NAME_PREFIX} preparation")

    def _prepare(self) -> None:
        steps: list[Callable[[], object]] = [compiler_source, *(partial(import_module, name) for name in COMPILER_MODULES), TEAM_CODE.get]
        with suppress(Exception):       # a caller that needs the failed step will see the error
            if self._missed is not False:
                with no_fork():
                    warm_up(native_target())        # first, since it runs mostly without the GIL
            for step in steps:
                if not self._may_go_on() or self._missed:
                    return
                with no_fork():
                    step()

    def _may_go_on(self) -> bool:
        """True if a program will probably be compiled; waits while a first call searches the disk cache."""
        while self._missed is None and others_active() and threading.main_thread().is_alive():
            time.sleep(POLL_S)
        return self._missed is not False and threading.main_thread().is_alive()     # stops when the process ends


WARM_UP = WarmUp()
