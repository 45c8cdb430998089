"""Disk cache of native programs by their traced graph: a new process that traces the same graph needs neither passes nor LLVM.

An entry, named by the hash of the traced graph's text, holds the program's data and its object code's key. The hash also covers size and
modification time of the source files of all passes and lowerings, so that a changed compiler finds no entry; reading the source would take
as long as everything else.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from adjit import codegen, ir, passes
from adjit.codegen.llvm.link import CompiledObject
from adjit.codegen.llvm.target import Target
from adjit.codegen.native.artifact import Artifact, artifact_of_json
from adjit.ir.dataclass import dataclass
from adjit.ir.deserialize import deserialize
from adjit.ir.graph import Graph
from adjit.ir.lazy_module import LazyModule
from adjit.ir.printer import graph_text
from adjit.ir.types import short_name
from adjit.passes.options import Options
from adjit.runtime.caches.disk_cache import disk_cache, find_code, sha256
from adjit.runtime.native.code import NativeCode

if TYPE_CHECKING:
    import json
else:
    json = LazyModule("json")


@cache
def compiler_source() -> str:
    """The hash of the compiler's source files, identified by size and modification time, as Python does for its bytecode cache."""
    folders = [str(Path(module.__file__ or "").parent) for module in (ir, passes, codegen)]
    return sha256(repr([source for folder in folders for source in sorted(_sources(folder))]).encode())


def program_key(graph: Graph, passes: str, options: Options, target: Target, versions: Sequence[str]) -> str:
    """The name of the cache entry for a traced graph. `passes` is the name of those that compile it, `versions` those of the compiler."""
    return sha256("\n".join([*versions, compiler_source(), target.name, repr(options), passes, graph_text(graph)]).encode())


@dataclass(frozen=True, slots=True)
class _Entry:
    """A cache entry of a program: the key of its object code, and its data."""

    code: str
    artifact: str


def find_program(key: str, graph: Graph) -> NativeCode | None:
    """The program cached for a graph under `key`, loaded; None if there is no entry, or the entry belongs to another graph."""
    found = disk_cache().get(key).found
    if found is None:
        return None
    try:
        kept = deserialize(_Entry, json.loads(found.data))
        artifact = artifact_of_json(kept.artifact)
    except (ValueError, RecursionError):
        return None
    if not _is_of(artifact, graph):
        return None
    code = find_code(kept.code)
    return None if code is None else NativeCode(code[0], artifact, f"{code[1]}, found by the traced graph", kept.code)


def keep_program(key: str, code: NativeCode) -> None:
    """Cache a program under `key`. Its object code is in the cache already."""
    disk_cache().put(key, CompiledObject(b"", "", json.dumps(asdict(_Entry(code.key, code.artifact.as_json())))))


def _is_of(artifact: Artifact, graph: Graph) -> bool:
    """True if a program has the parameter and result types of a graph."""
    return artifact.arrays == [(short_name(value.type.dtype), value.type.shape) for value in (*graph.params, *graph.results)] \
        and tuple(param.role for param in artifact.params) == graph.param_roles


def _sources(folder: str) -> list[tuple[str, int, int]]:
    found = []
    for entry in os.scandir(folder):
        if entry.is_dir():
            found += _sources(entry.path) if entry.name != "__pycache__" else []
        elif entry.name.endswith(".py"):
            status = entry.stat()
            found.append((entry.path, status.st_size, status.st_mtime_ns))
    return found
