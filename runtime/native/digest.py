"""The digest of arrays that Python reads while functions are traced: machine code, for the native entry and for checks in Python."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import TYPE_CHECKING

from adjit.codegen.llvm.link import LoadedKernel
from adjit.ir.lazy_module import LazyModule
from adjit.runtime.native.prepared_code import PreparedCode
from adjit.tracer.content import machine

if TYPE_CHECKING:
    from adjit.codegen.native import digest
else:
    digest = LazyModule("adjit.codegen.native.digest")

_CODE = PreparedCode(lambda: digest.digest_text(), lambda text: digest.compile_digest(text))


@cache
def digest_code() -> LoadedKernel:
    """The code; made, or found on disk, when it is first asked for. From then on Python's checks use it too."""
    loaded = _CODE.get()
    machine.digest = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)(loaded.address)
    return loaded
