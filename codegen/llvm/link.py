"""Loading of object code, which needs no compiler: by a linker of our own on Linux on x86-64, where LLVM itself would take 50 ms to import,
else by LLVM's ORC linker. The code is freed with its last user."""

from __future__ import annotations

import functools
import itertools
import platform
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field
from typing import Any

from adjit.codegen.llvm.elf_linker import link_image
from adjit.codegen.llvm.external import address_of, external_symbols
from adjit.codegen.process.off_main_thread import off_main_thread, release_dead, release_off_main_thread
from adjit.ir.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class CompiledObject:
    """Object code of one kernel or program, the name of its entry, and data that is saved with it. `extra_objects` holds further object
    files of the same program.

    The entry of Numba's kernels is `int32 f(void* ret, void* excinfo, <pointers and int64 sizes>, int64 lo, int64 hi)`.
    """

    object_code: bytes
    symbol: str
    data: str = ""
    extra_objects: tuple[bytes, ...] = ()

    @property
    def nbytes(self) -> int:
        """Size of all object code, in bytes."""
        return len(self.object_code) + sum(map(len, self.extra_objects))


@dataclass(frozen=True, slots=True, weakref_slot=True)
class LoadedKernel:
    """The address of a kernel's entry. The code stays while this object lives, and so does `library`, which is None if LLVM holds the
    code."""

    address: int
    library: Any = field(repr=False)
    nbytes: int = 0     # of the object code


MAX_LIBRARIES_PER_LINKER = 16
"""Libraries of one linker. A linker retains some 9 kB per library until the linker itself is freed, with the last of its code."""

_numbers = itertools.count()


@functools.lru_cache(maxsize=1)
def _linker(number: int) -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(reloc="pic", codemodel="small")
    return llvm.create_lljit_compiler(machine, use_jit_link=True)


def load(compiled: CompiledObject, symbols: Mapping[str, int] | None = None) -> LoadedKernel:
    """Link object code into this process; `symbols` has addresses for names that it refers to. Raises `RuntimeError` if a symbol is
    missing, and `UnsupportedError` if it is one of a library that is not installed."""
    if sys.platform == "linux" and platform.machine() == "x86_64":
        with suppress(ValueError):      # something that the linker does not know
            image = link_image((compiled.object_code, *compiled.extra_objects), (compiled.symbol,), symbols or {})
            return LoadedKernel(image.addresses[compiled.symbol], image, compiled.nbytes)
    return _load_by_llvm(compiled, symbols)


@off_main_thread
def _load_by_llvm(compiled: CompiledObject, symbols: Mapping[str, int] | None) -> LoadedKernel:
    import llvmlite.binding as llvm

    release_dead()
    builder = llvm.JITLibraryBuilder().add_current_process()
    for code in (compiled.object_code, *compiled.extra_objects):
        builder.add_object_img(code)
        for symbol in external_symbols(code):
            builder.import_symbol(symbol, address_of(symbol))
    for symbol, address in (symbols or {}).items():
        builder.import_symbol(symbol, address)
    number = next(_numbers)
    library = builder.export_symbol(compiled.symbol).link(_linker(number // MAX_LIBRARIES_PER_LINKER), f"adjit_{number}")
    loaded = LoadedKernel(library[compiled.symbol], None, compiled.nbytes)
    release_off_main_thread(loaded, library)
    return loaded
