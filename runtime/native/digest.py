"""Digest of arrays that Python reads during a trace: machine code, for the fast path and for guards in Python."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import TYPE_CHECKING

from adjit.codegen.llvm.link import LoadedKernel
from adjit.ir.lazy_module import LazyModule
from adjit.runtime.native.background_code import BackgroundCode
from adjit.tracer.guards.content import native_digest

if TYPE_CHECKING:
    from adjit.codegen.native import digest
else:
    digest = LazyModule("adjit.codegen.native.digest")

_CODE = BackgroundCode(lambda: digest.digest_text(), lambda text: digest.compile_digest(text))


@cache
def digest_code() -> LoadedKernel:
    """The code, compiled or found on disk at the first access. From then on, guards in Python use it too."""
    loaded = _CODE.get()
    native_digest.digest = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)(loaded.address)
    return loaded
