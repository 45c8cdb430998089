"""Code that all programs share and that is never unloaded: compiled on a background thread, while callers that do not need it go on."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from adjit.codegen.llvm.link import CompiledObject, LoadedKernel
from adjit.codegen.process.fork_safety import renewed_after_fork
from adjit.codegen.process.off_main_thread import off_main_thread, start_thread
from adjit.ir.lazy_module import LazyModule
from adjit.runtime.caches.disk_cache import compiler, obtain_code, sha256

if TYPE_CHECKING:
    import json
else:
    json = LazyModule("json")


class BackgroundCode:
    """Code of one text, compiled at most once per process: `start` compiles it in the background, `get` waits for it."""

    def __init__(self, text: Callable[[], str], compile: Callable[[str], CompiledObject]):
        self._text, self._compile = text, compile
        self._making = renewed_after_fork(self, "_making", threading.Lock)
        self._started = False
        self.loaded: LoadedKernel | None = None
        """The loaded code; None until it is compiled."""
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def start(self) -> None:
        """Compile the code on a new thread, unless that has begun. An error is raised by `get` only."""
        if self.loaded is not None or self._started:
            return
        self._started = True
        with suppress(RuntimeError):        # the interpreter is shutting down
            start_thread(self._try)

    def get(self) -> LoadedKernel:
        """The code, compiled now if it is not ready."""
        return self.loaded or self._make()

    @off_main_thread
    def _make(self) -> LoadedKernel:
        with self._making:
            if self.loaded is None:
                text = self._text()
                loaded, _ = obtain_code(sha256(json.dumps([*compiler(), text]).encode()), lambda: self._compile(text))
                make_immortal(loaded)
                self.loaded = loaded
            return self.loaded

    def _try(self) -> None:
        with suppress(Exception):
            self.get()

    def _forget(self) -> None:
        """Allow another start: the thread does not exist in a forked child."""
        self._started = False


def make_immortal(thing: object) -> None:
    """Keep an object beyond the end of the interpreter: threads may run its code until the process exits."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
