"""File format of exported programs: a zip archive of named members, each with its digest in the manifest.

    manifest.json           description of the program, and the SHA-256 of every other member
    program.ir              planned graph as text: for processors without code in the file, and for readers
    code/x86-64-v3.o        object code, one file per level; of a program for a device code/sm_90.ptx, PTX by compute capability
    tensors.safetensors     constants, state and initial arguments

Another way through the function is a program of its own: way1/program.ir, way1/code/x86-64-v3.o. Its arrays are in the same file.

Members are stored uncompressed, so that their content cannot be larger than the file. Object code contains the digest of all other members:
a modified description, of larger results for example, is refused before any code runs.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from adjit.ir.errors import ExportError
from adjit.runtime.exports.foreign_files import describe_file

FORMAT = 11
"""Version of the archive's format, manifest included; a file of another version is refused."""

MANIFEST = "manifest.json"
PROGRAM = "program.ir"
TENSORS = "tensors.safetensors"
MAX_FILE_BYTES = 1 << 34
_CODE_NAME = re.compile(r"(way\d+/)?code/[\w-]+\.(o|ptx)", re.ASCII)
_PROGRAM_NAME = re.compile(r"(way\d+/)?program\.ir", re.ASCII)


def code_member(level: str) -> str:
    """The name of the member that has the code for a level.

    >>> code_member("x86-64-v3"), code_member("sm_90")
    ('code/x86-64-v3.o', 'code/sm_90.ptx')
    """
    return f"code/{level}.{'ptx' if level.startswith('sm_') else 'o'}"


def member_of(way: int, name: str) -> str:
    """The name of a member that belongs to one way.

    >>> member_of(0, PROGRAM), member_of(2, PROGRAM)
    ('program.ir', 'way2/program.ir')
    """
    return f"way{way}/{name}" if way else name


def description(manifest: Mapping[str, Any], parts: Mapping[str, bytes]) -> str:
    """The SHA-256 of everything except code, as 64 hexadecimal digits."""
    said = {name: value for name, value in manifest.items() if name not in ("digests", "format")}
    others = {name: hashlib.sha256(content).hexdigest() for name, content in parts.items() if not _CODE_NAME.fullmatch(name)}
    return hashlib.sha256(json.dumps([FORMAT, said, others], sort_keys=True).encode()).hexdigest()


def write_archive(path: Path, manifest: Mapping[str, Any], parts: Mapping[str, bytes]) -> None:
    """Write the file atomically. Equal content gives equal bytes."""
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in parts.items()}
    first = json.dumps({**manifest, "format": FORMAT, "digests": digests}, indent=1).encode()
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w", zipfile.ZIP_STORED) as archive:
        for name, content in ((MANIFEST, first), *parts.items()):
            archive.writestr(zipfile.ZipInfo(name), content)
    write_whole(path, memory.getvalue())


def write_whole(path: Path, content: bytes) -> None:
    """Write a file that appears whole or not at all."""
    import tempfile  # takes longer to import than a file to load

    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def read_archive(path: Path, sha256: str | None = None) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The manifest and the members of the archive. Raises `ExportError` for a file that `write_archive` has not written.

    `sha256` is the expected digest of the whole file.
    """
    content = _content(path)
    if sha256 is not None and hashlib.sha256(content).hexdigest() != sha256.lower():
        raise ExportError(f"{path} is not the file that was asked for: its SHA-256 is {hashlib.sha256(content).hexdigest()}",
                          hint="get the file again from its source; sha256= takes the 64 hexadecimal digits of the whole file")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            parts = {info.filename: _part(archive, info, len(content)) for info in archive.infolist()}
        manifest = json.loads(parts.pop(MANIFEST))
        if manifest["format"] != FORMAT:
            raise ExportError(f"{path} is of format {manifest['format']!r}; this version of adjit reads format {FORMAT} only",
                              hint="export the program again with this version")
        found = {name: hashlib.sha256(part).hexdigest() for name, part in parts.items()}
        if found != manifest["digests"]:
            raise ValueError("the members of the archive are not those that its manifest lists")
    except (zipfile.BadZipFile, zlib.error, ValueError, KeyError, TypeError, EOFError, AttributeError, RuntimeError) as error:
        if isinstance(error, ExportError):
            raise
        other = describe_file(content)
        if other is not None:
            raise ExportError(f"{path} is not an exported program, but {other.what}", hint=other.remedy) from None
        raise _broken(path, f"is damaged, or not an exported program: {_words(error)}") from None
    return manifest, parts


def _content(path: Path) -> bytes:
    """The content of a regular file. Other files are refused: a pipe would block, and some devices have no end."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with os.fdopen(handle, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise ExportError(f"{path} is not a regular file", hint="name the file that export wrote")
            if status.st_size > MAX_FILE_BYTES:
                raise _broken(path, "is too large")
            return file.read(status.st_size)
    except (OSError, ValueError) as error:
        raise ExportError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _part(archive: zipfile.ZipFile, info: zipfile.ZipInfo, most: int) -> bytes:
    known = info.filename in (MANIFEST, TENSORS) or _PROGRAM_NAME.fullmatch(info.filename) or _CODE_NAME.fullmatch(info.filename)
    if not known or info.compress_type != zipfile.ZIP_STORED or info.file_size > most:
        raise ValueError(f"unexpected member {info.filename!r} of {info.file_size} bytes")
    return archive.read(info)


def _broken(path: Path, what: str) -> ExportError:
    return ExportError(f"{path} {what}", hint="export the program again, or fetch the file again")


def _words(error: Exception) -> str:
    return f"{error.args[0]!r} is missing" if isinstance(error, KeyError) and error.args else str(error) or type(error).__name__
