"""Linking of object files to shared libraries, with the system's linker."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from adjit.ir.errors import ExportError

_DRIVERS = ("cc", "gcc", "clang")
_LINKERS = ("ld", "ld.lld", "lld")
_CROSS = {"aarch64-unknown-linux-gnu": ("aarch64-linux-gnu-gcc", "aarch64-linux-gnu-ld")}


def find_linker(triple: str = "") -> str | None:
    """The linker for a system (without `triple`: of this process): a C compiler if there is one, else the bare linker."""
    names = _CROSS.get(triple, ()) if triple else (*_DRIVERS, *_LINKERS)
    if not triple and os.environ.get("CC"):
        names = (os.environ["CC"], *names)
    return next((path for name in names if (path := shutil.which(name))), None)


def link_shared(object_file: Path, library: Path, name: str, triple: str = "") -> None:
    """Link one object file to the shared library `library`, with the soname `name`.

    Raises `ExportError` if there is no linker, or the linker fails.
    """
    linker = find_linker(triple)
    if linker is None:
        what = f"a compiler for {triple}, such as {_CROSS[triple][0]}" if triple in _CROSS else "a C compiler (gcc, clang), or ld or lld"
        raise ExportError("a shared library needs a linker, and none was found",
                          hint=f"install {what}, or set CC; or export to a file with the suffix .o, and link it yourself")
    options = ["-shared", "-soname", name, "-z", "noexecstack", "--build-id=none", "--no-undefined-version"]
    if not Path(linker).name.startswith(("ld", "lld")) and not linker.endswith("-ld"):
        options = ["-shared", "-nostdlib", *(f"-Wl,{text}" for text in (f"-soname,{name}", "-z,noexecstack", "--build-id=none"))]
        options.append("-lc")
    command = [linker, *options[:1], "-o", str(library), str(object_file), *options[1:]]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ExportError(f"the linker {linker} could not be run: {error}", hint="set CC to a C compiler that works") from error
    if done.returncode:
        raise ExportError(f"the linker failed: {' '.join(command)}\n{done.stderr.strip()}", hint="set CC to a C compiler that works")
