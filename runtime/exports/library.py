"""Programs as libraries for C: an object file or a shared library, and the header."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from adjit.codegen.c_library.description import CArray, CProgram, identifiers, prefix_of
from adjit.codegen.c_library.header import header_text
from adjit.codegen.c_library.module import compile_library, library_text
from adjit.codegen.llvm.target import LEVELS, NEON, Target
from adjit.codegen.native.artifact import Artifact
from adjit.ir.errors import ExportError
from adjit.ir.graph import Graph
from adjit.runtime.exports.interface import Interface
from adjit.runtime.exports.linker import link_shared

SYSTEMS: dict[str, dict[str, Target]] = {
    "x86_64-linux-gnu": LEVELS,
    "aarch64-linux-gnu": {"aarch64": NEON},
}
"""Targets of exports by system: the levels of its processors, the best first."""


def choose_levels(system: str, wanted: str | Sequence[str] | None) -> dict[str, Target]:
    """The levels of a system that the library includes. Raises `ExportError` for unknown levels."""
    if system not in SYSTEMS:
        raise ExportError(f"cannot export for target={system!r}", hint=f"the targets are {', '.join(SYSTEMS)}")
    levels = SYSTEMS[system]
    wanted = [wanted] if isinstance(wanted, str) else wanted
    unknown = [str(name) for name in wanted or () if name not in levels]
    if unknown or (wanted is not None and not wanted):
        raise ExportError(f"{system} has no level {', '.join(unknown) or 'in an empty list'}", hint=f"its levels are {', '.join(levels)}")
    return {name: target for name, target in levels.items() if wanted is None or name in wanted}


def c_program(stem: str, artifact: Artifact, interface: Interface, constants: Mapping[str, np.ndarray], levels: Sequence[str]) -> CProgram:
    """The description of a program for C. `constants` are the arrays that become part of the library, by name."""
    params = interface.params
    inputs = [param for param in params if param.source != "constant"]
    of_constant = {name: -1 - k for k, name in enumerate(constants)}
    of_input = {param.name: k for k, param in enumerate(inputs)}
    taken = [of_constant[param.name] if param.source == "constant" else of_input[param.name] for param in params]
    input_arrays = [CArray(param.name, identifier, param.dtype, param.shape, param.written)
                    for param, identifier in zip(inputs, identifiers(param.name for param in inputs), strict=True)]
    output_arrays = [CArray(name, identifier, result.dtype, tuple(result.shape), input=-1 if result.param < 0 else taken[result.param])
                     for name, identifier, result in zip(interface.results, identifiers(interface.results), artifact.results, strict=True)]
    return CProgram(
        prefix_of(stem), f"{artifact.name}, compiled by adjit {artifact.version}", tuple(input_arrays), tuple(output_arrays),
        artifact.arena_bytes, artifact.alignment, tuple(levels), tuple(array.tobytes() for array in constants.values()), tuple(taken),
        flush_subnormals=artifact.flush_subnormals)


def write_library(path: Path, planned: Graph, program: CProgram, levels: Mapping[str, Target]) -> list[Path]:
    """Write `path` (`.so` or `.o`) and the header next to it. Returns the files written.

    Without a linker, the object file is written instead of the shared library, and `ExportError` says so.
    """
    targets = list(levels.values())
    text, program = library_text(planned, program, targets)
    code = compile_library(text, targets[-1])
    header = path.with_suffix(".h")
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}-") as folder:
        object_file = Path(folder) / f"{path.stem}.o"
        object_file.write_bytes(code)
        new_header = Path(folder) / header.name
        new_header.write_text(header_text(program))
        finished = object_file
        if path.suffix == ".so":
            finished = Path(folder) / path.name
            try:
                link_shared(object_file, finished, path.name, targets[0].triple)
            except ExportError as error:
                os.replace(new_header, header)
                os.replace(object_file, path.with_suffix(".o"))
                written = f"{path.with_suffix('.o').name} and {header.name} were written"
                raise ExportError(f"{error.message}; {written}", hint=error.hint) from None
        os.replace(new_header, header)
        os.replace(finished, path)
    return [path, header]
