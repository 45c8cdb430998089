"""Programs as libraries for C: an object file or a shared library, and the header."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from adjit.codegen.c_library.description import CArray, CProgram, CWay, identifiers, prefix_of
from adjit.codegen.c_library.header import header_text
from adjit.codegen.c_library.module import compile_library, library_text
from adjit.codegen.llvm.target import LEVELS, NEON, Target
from adjit.codegen.native.artifact import Artifact
from adjit.ir.errors import ExportError
from adjit.ir.graph import Graph
from adjit.ir.types import SHORT_NAMES, TensorType
from adjit.runtime.exports.interface import DescribedWays
from adjit.runtime.exports.interface_data import Interface
from adjit.runtime.exports.linker import link_shared
from adjit.runtime.exports.trees import tree_items

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


def c_program(stem: str, artifacts: Sequence[Artifact], described: DescribedWays, levels: Sequence[str]) -> CProgram:
    """The description of the ways of a function for C: inputs and outputs are those of all ways.

    Raises `ExportError` if two ways return different things.
    """
    interfaces, first = described.interfaces, artifacts[0]
    params = {param.name: param for interface in interfaces for param in interface.params}
    written = {param.name for interface in interfaces for param in interface.params if param.written}
    inputs = {name: number for number, name in enumerate(name for name, param in params.items() if param.source != "constant")}
    constants = {name: -1 - number for number, name in enumerate(name for name, param in params.items() if param.source == "constant")}
    per_row = {param.name: made.per_row for interface, artifact in zip(interfaces, artifacts, strict=True)
               for param, made in zip(interface.params, artifact.params, strict=True)}
    outputs: dict[tuple[str, int], CArray] = {}
    for interface, artifact in zip(interfaces, artifacts, strict=True):
        for key, result in zip(_keys(interface), artifact.results, strict=True):
            at = -1 if result.param < 0 else inputs[interface.params[result.param].name]
            array = CArray(key[0], "", result.dtype, _shape(result.shape, result.per_row), input=at)
            if outputs.setdefault(key, array) != array:
                raise _differing(f"{key[0]} is {_described(outputs[key])} in one, {_described(array)} in another")
    for interface in interfaces:
        returned, expected = _returned(interface), _returned(interfaces[0])
        if returned != expected:
            raise _differing(f"one returns {_form(expected)}, another {_form(returned)}")
        missing = [array.name for key, array in outputs.items() if array.input < 0 and key not in _keys(interface)]
        if missing:
            raise _differing(f"one of them does not compute {missing[0]}")
    return CProgram(
        prefix_of(stem), f"{first.name}, compiled by adjit {first.version}",
        tuple(CArray(name, identifier, params[name].dtype, _shape(params[name].shape, per_row[name]), name in written)
              for name, identifier in zip(inputs, identifiers(inputs), strict=True)),
        tuple(replace(array, identifier=identifier)
              for array, identifier in zip(outputs.values(), identifiers(name for name, _ in outputs), strict=True)),
        max(artifact.arena_bytes for artifact in artifacts), max(artifact.alignment for artifact in artifacts), tuple(levels),
        tuple(described.arrays[name].tobytes() for name in constants),
        tuple(CWay(tuple((inputs | constants)[param.name] for param in interface.params),
                   tuple(map(list(outputs).index, _keys(interface)))) for interface in interfaces),
        flush_subnormals=first.flush_subnormals)


def _shape(shape: Sequence[int], per_row: int) -> tuple[int, ...]:
    """The shape of an array for C, of which the first length may be that of any number of rows."""
    return (-per_row, *shape[1:]) if per_row else tuple(shape)


def _keys(interface: Interface) -> list[tuple[str, int]]:
    """A key for each result: its name, and how many results before have that name."""
    return [(name, interface.results[:index].count(name)) for index, name in enumerate(interface.results)]


def _returned(interface: Interface) -> dict[str, Any]:
    """What a program returns, by path: the name of an array, or the value of what is none."""
    names = [*interface.results, *(param.name for param in interface.params)]
    return {path: ("", names[value]) if is_leaf else value for path, is_leaf, value in tree_items(interface.result, "result")}


def _form(returned: Mapping[str, Any]) -> str:
    return ", ".join(path if isinstance(value, tuple) else f"{path} = {value!r}" for path, value in returned.items()) or "nothing"


def _described(array: CArray) -> str:
    where = f" in the memory of input {array.input}" if array.input >= 0 else ""
    return f"{TensorType(SHORT_NAMES[array.dtype], array.shape)}{where}"


def _differing(what: str) -> ExportError:
    return ExportError(f"the ways through the function give a C program different things: {what}",
                       hint="return arrays of the same shapes and dtypes in all ways, or export to .adjit")


def write_library(path: Path, planned: Sequence[Graph], program: CProgram, levels: Mapping[str, Target]) -> list[Path]:
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
