"""Disk cache of compiled kernels and programs: a new process links them instead of compiling.

A file is named by the hash of everything that its machine code depends on. For a kernel: its source text and types, adjit's code generator,
the versions of Numba, llvmlite and Python, and this CPU's name and features. For a native program: its LLVM text, the target and the
version of llvmlite. The file holds a checksum of its content. Only files and folders that belong to this user, and that no other user may
write, are trusted; anything else is compiled again, with a note for `explain()`.
"""

from __future__ import annotations

import os
import platform
import stat
import sys
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from adjit import codegen
from adjit.codegen.llvm.link import CompiledObject, LoadedKernel, load
from adjit.codegen.process.off_main_thread import off_main_thread
from adjit.ir.dataclass import dataclass
from adjit.ir.deserialize import deserialize
from adjit.ir.lazy_module import LazyModule
from adjit.ir.version import VERSION
from adjit.runtime import settings
from adjit.runtime.caches import cache_size

if TYPE_CHECKING:
    import json

    from adjit.codegen.numba import compile_kernel
    from adjit.codegen.numba.kernel_source import KernelSource
    from adjit.runtime.numba import kernel_step
else:
    json = LazyModule("json")
    compile_kernel = LazyModule("adjit.codegen.numba.compile_kernel")
    kernel_step = LazyModule("adjit.runtime.numba.kernel_step")

_MAGIC = b"adjit kernel 3\n"
_SUFFIX = ".kernel"
_COMPILER_VARIABLES = ("NUMBA_CPU_FEATURES", "NUMBA_CPU_NAME", "NUMBA_DEBUGINFO", "NUMBA_ENABLE_AVX", "NUMBA_LOOP_VECTORIZE", "NUMBA_OPT",
                       "NUMBA_SLP_VECTORIZE")      # Numba's variables that change the machine code


@cache
@off_main_thread
def environment() -> str:
    """Everything that a kernel's machine code depends on, except its source."""
    from importlib.metadata import version  # takes as long to import as all of adjit

    from llvmlite import binding

    features = ",".join(sorted(name for name, present in binding.get_host_cpu_features().items() if present))
    generator = sha256(b"".join(path.read_bytes() for path in sorted(Path(codegen.__file__).parent.rglob("*.py"))))
    packages = [f"{name} {version(name)}" for name in ("numba", "llvmlite")]
    python = f"Python {sys.version_info.major}.{sys.version_info.minor}"
    compiler = [f"{name}={os.environ[name]}" for name in _COMPILER_VARIABLES if name in os.environ]
    return "\n".join([*packages, generator, *compiler, python, platform.machine(), binding.get_host_cpu_name(), features])


@cache
def compiler() -> tuple[str, ...]:
    """What object code depends on, besides its source text and its target. LLVM is identified by its file: loading it takes 50 ms, which
    code on disk does not need."""
    import llvmlite

    folder = Path(llvmlite.__file__).parent / "binding"
    libraries = [(path.name, path.stat()) for path in sorted(folder.glob("*llvmlite*"))]
    return VERSION, f"llvmlite {llvmlite.__version__}", *(f"{name} {status.st_size} {status.st_mtime_ns}" for name, status in libraries)


@off_main_thread
def compiler_versions() -> tuple[str, ...]:
    """Names and versions of the compiler, for people."""
    import llvmlite
    from llvmlite import binding

    return f"llvmlite {llvmlite.__version__}", f"LLVM {'.'.join(map(str, binding.llvm_version_info))}"


def sha256(content: bytes) -> str:
    """The hash of the content: 64 hexadecimal digits."""
    import hashlib  # loads OpenSSL, so not at `import adjit`

    return hashlib.sha256(content).hexdigest()


def kernel_key(source: KernelSource) -> str:
    """The name of a kernel in the cache: 64 hexadecimal digits."""
    types = [argument.dtype for argument in source.arguments]
    return sha256(json.dumps([environment(), source.text, types, source.helpers]).encode())


@dataclass(frozen=True, slots=True)
class Lookup:
    """Result of a lookup in the disk cache: an object, or None and the reason."""

    found: CompiledObject | None
    note: str


class DiskCache:
    """A folder of compiled kernels, bounded in bytes; the least recently used kernels are evicted first."""

    def __init__(self, folder: Path | None, limit: int):
        self.folder = folder
        self.limit = limit

    def problem(self) -> str:
        """The reason why the folder cannot be used; empty if it can. Creates a missing folder."""
        if self.folder is None or self.limit == 0:
            return "the disk cache is off"
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = os.stat(self.folder)
        except OSError as error:
            return f"the cache folder {self.folder} cannot be used: {error.strerror or error}"
        if hasattr(os, "getuid") and status.st_uid != os.getuid():
            return f"the cache folder {self.folder} belongs to another user"
        if os.name == "posix" and status.st_mode & 0o022:
            return f"the cache folder {self.folder} may be written by others (chmod go-w it)"
        return ""

    def is_empty(self) -> bool:
        """True if nothing can be found."""
        if self.folder is None or self.limit == 0:
            return True
        try:
            with os.scandir(self.folder) as files:
                return not any(file.name.endswith(_SUFFIX) for file in files)
        except OSError:
            return True

    def get(self, key: str) -> Lookup:
        """The object cached under `key`."""
        problem = self.problem()
        if problem:
            return Lookup(None, problem)
        try:
            content, note = _read_private(self._path(key))
        except FileNotFoundError:
            return Lookup(None, "not in the disk cache")
        except OSError as error:
            return Lookup(None, f"its file in the disk cache cannot be read: {error.strerror or error}")
        found = None if note else _decode(content, key)
        if found is None:
            return Lookup(None, note or "its file in the disk cache is damaged")
        with suppress(OSError):     # a read-only folder: there entries are evicted in the order of their writes
            os.utime(self._path(key))
        return Lookup(found, "from the disk cache")

    def put(self, key: str, compiled: CompiledObject) -> str:
        """Cache `compiled` under `key`. Returns the reason why the write failed, or an empty text."""
        problem = self.problem()
        if problem:
            return problem
        content = _encode(compiled, key)
        assert self.folder is not None
        try:
            name = self.folder / f"{cache_size.PARTIAL_PREFIX}{os.urandom(8).hex()}"
            handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(content)
                os.replace(name, self._path(key))
            except BaseException:
                os.unlink(name)
                raise
            self._make_room(key, len(content))
        except OSError as error:
            return f"the cache folder {self.folder} cannot be written: {error.strerror or error}"
        return ""

    def entries(self) -> list[tuple[float, int, Path]]:
        """Last use, bytes and path of every kernel in the folder, oldest use first."""
        return [entry for entry in self._files() if entry[2].suffix == _SUFFIX]

    def _files(self) -> list[tuple[float, int, Path]]:
        """Last change, bytes and path of every file in the folder, oldest change first."""
        if self.folder is None or not self.folder.is_dir():
            return []
        found = []
        with os.scandir(self.folder) as files:
            for file in files:
                with suppress(FileNotFoundError):       # evicted by another process
                    status = file.stat()
                    found.append((status.st_mtime, status.st_size, Path(file.path)))
        return sorted(found)

    def _make_room(self, keep: str, written: int) -> None:
        """Scan the folder if it may be over its limit, and evict files. A scan takes long if there are thousands of files."""
        assert self.folder is not None
        known = cache_size.add(self.folder, written)
        if known is not None and known <= self.limit:
            return
        files = self._files()
        entries = [entry for entry in files if entry[2].suffix == _SUFFIX]
        for changed, _, path in files:
            if path.name.startswith(cache_size.PARTIAL_PREFIX) and time.time() - changed > 3600:       # left by a process that died
                path.unlink(missing_ok=True)
        total = sum(size for _, size, _ in entries)
        goal = total if total <= self.limit else self.limit - self.limit // 8
        for _, size, path in entries:
            if total > goal and path != self._path(keep):
                path.unlink(missing_ok=True)
                total -= size
        cache_size.begin(self.folder, total)

    def _path(self, key: str) -> Path:
        assert self.folder is not None
        return self.folder / f"{key}{_SUFFIX}"


def _read_private(path: Path) -> tuple[bytes, str]:
    """The content of a file, and the reason if it is not trusted. The checks and the read use one open file."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            return b"", "its file in the disk cache is not a regular file"
        if hasattr(os, "getuid") and status.st_uid != os.getuid():
            return b"", "its file in the disk cache belongs to another user"
        if os.name == "posix" and status.st_mode & 0o022:
            return b"", "its file in the disk cache may be written by others"
        return file.read(), ""


def _encode(compiled: CompiledObject, key: str) -> bytes:
    objects = (compiled.object_code, *compiled.extra_objects)
    header = json.dumps({"key": key, "symbol": compiled.symbol, "data": compiled.data, "sizes": [len(code) for code in objects]})
    body = b"".join([header.encode(), b"\n", *objects])
    return _MAGIC + sha256(body).encode() + b"\n" + body


def _decode(content: bytes, key: str) -> CompiledObject | None:
    """The object; None if the content is not the output of `_encode` for `key`."""
    digest, _, body = content[len(_MAGIC):].partition(b"\n")
    if not content.startswith(_MAGIC) or sha256(body).encode() != digest:
        return None
    header, _, rest = body.partition(b"\n")
    try:
        fields = deserialize(_Header, json.loads(header))
    except (ValueError, RecursionError):
        return None
    ends = list(accumulate(fields.sizes))
    if fields.key != key or not ends or min(fields.sizes) < 0 or ends[-1] != len(rest):
        return None
    first, *extra_objects = (rest[start:end] for start, end in zip([0, *ends], ends, strict=False))
    return CompiledObject(first, fields.symbol, fields.data, tuple(extra_objects))


@dataclass(frozen=True, slots=True)
class _Header:
    """Header before the object code in a file; `sizes` are the bytes of each object."""

    key: str
    symbol: str
    data: str
    sizes: tuple[int, ...]


_loaded: dict[str, weakref.ref[LoadedKernel]] = {}
"""Loaded kernels by key. Weak references without callbacks: a callback that is interrupted would lose Ctrl-C."""


def _loaded_code(key: str) -> LoadedKernel | None:
    reference = _loaded.get(key)
    return None if reference is None else reference()


def _try_to_load(key: str, found: CompiledObject | None) -> LoadedKernel | None:
    """The cached object, loaded; None if the cache has none, or LLVM rejects the object."""
    try:
        return None if found is None else _load(key, found)
    except (RuntimeError, ValueError):
        return None


def _load(key: str, compiled: CompiledObject) -> LoadedKernel:
    loaded = load(compiled)
    for other in [other for other, reference in tuple(_loaded.items()) if reference() is None]:
        _loaded.pop(other, None)
    _loaded[key] = weakref.ref(loaded)
    return loaded


def obtain_kernel(source: KernelSource) -> kernel_step.Kernel:
    """The loaded code of `source`: from this process, else from the disk cache, else compiled and cached on disk.

    With Numba's compiler disabled, the text itself runs, as Python.
    """
    if settings.DISABLE_JIT.get():
        return kernel_step.Kernel(source, compile_kernel.load_python(source), "runs as Python: NUMBA_DISABLE_JIT is set")
    return kernel_step.Kernel(source, *obtain_code(kernel_key(source), lambda: compile_kernel.compile_source(source)))


def disk_cache() -> DiskCache:
    """The disk cache that the settings name."""
    return DiskCache(settings.CACHE_DIR.get(), settings.CACHE_SIZE.get())


def find_code(key: str) -> tuple[LoadedKernel, str] | None:
    """The code for `key`, and its origin in words (this process, or the disk); None if it would have to be compiled."""
    loaded = _loaded_code(key)
    if loaded is not None:
        return loaded, "already loaded"
    lookup = disk_cache().get(key)
    loaded = _try_to_load(key, lookup.found)
    return None if loaded is None else (loaded, lookup.note)


def obtain_code(key: str, compile: Callable[[], CompiledObject]) -> tuple[LoadedKernel, str]:
    """The loaded code for `key`, and its origin in words. Code that no cache has is compiled and cached on disk."""
    loaded = _loaded_code(key)
    if loaded is not None:
        return loaded, "already loaded"
    disk = disk_cache()
    lookup = disk.get(key)
    loaded = _try_to_load(key, lookup.found)
    if loaded is not None:
        return loaded, lookup.note
    why = lookup.note if lookup.found is None else "its file in the disk cache has code that cannot be linked"
    compiled = compile()
    problem = disk.put(key, compiled)
    return _load(key, compiled), f"compiled: {why}" + (f"; not kept: {problem}" if problem and problem != why else "")
