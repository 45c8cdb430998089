"""Contents of an exported program's file, read and validated without running any of its code."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from adjit.codegen.native.artifact import Artifact, artifact_of_json
from adjit.ir.dataclass import dataclass
from adjit.ir.deserialize import deserialize
from adjit.ir.errors import ExportError
from adjit.ir.graph import PARAM_ROLES
from adjit.ir.types import SHORT_NAMES
from adjit.runtime.exports.archive import PROGRAM, TENSORS, code_member, description, member_of, read_archive
from adjit.runtime.exports.interface_data import SOURCES, Interface
from adjit.runtime.exports.tensors_file import read_tensors
from adjit.runtime.exports.trees import check_form, leaf_paths

MAX_LEAVES = 1 << 20
"""Maximum number of leaves of a call's arguments."""


@dataclass(frozen=True, slots=True)
class ManifestWay:
    """One way through the function in the manifest of a file: a program, and its interface."""

    artifact: str
    interface: Interface


@dataclass(frozen=True, slots=True)
class Manifest:
    """The manifest of a file. `ways` are tried in their order. `given` are the parameters whose arrays are stored, as asked
    by `export(..., params=...)`."""

    adjit: str
    compiler: tuple[str, ...]
    system: str
    levels: tuple[str, ...]
    source: str
    ways: tuple[ManifestWay, ...]
    given: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ExportedWay:
    """One way through the function: its program as text, its object code by level, and the descriptions of both."""

    artifact: Artifact
    interface: Interface
    program: bytes
    codes: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Contents:
    """The parsed members of a file."""

    manifest: Manifest
    ways: tuple[ExportedWay, ...]
    tensors: Mapping[str, np.ndarray]


def read_program(file_path: Path, sha256: str | None = None) -> Contents:
    """The contents of a file. Raises `ExportError` if the file cannot be read, is damaged, or does not have this SHA-256."""
    manifest, parts = read_archive(file_path, sha256)
    try:
        said = deserialize(Manifest, {name: value for name, value in manifest.items() if name not in ("format", "digests")})
        numbers = range(len(said.ways))
        codes = [member_of(way, code_member(level)) for way in numbers for level in said.levels]
        missing = [name for name in (*(member_of(way, PROGRAM) for way in numbers), TENSORS, *codes) if name not in parts]
        if missing or not codes:
            raise ValueError(f"{', '.join(missing) or 'object code'} is missing")
        digest = description(manifest, parts).encode()
        if not all(digest in parts[name] for name in codes):
            raise ValueError("the object code was compiled for another description")
        tensors = read_tensors(parts[TENSORS])
        ways = tuple(ExportedWay(artifact_of_json(way.artifact), way.interface, parts[member_of(number, PROGRAM)],
                                 {level: parts[member_of(number, code_member(level))] for level in said.levels})
                     for number, way in enumerate(said.ways))
        for way in ways:
            _check_interface(way.interface, way.artifact, tensors, said.given)
            if _taken(way.interface) != _taken(ways[0].interface):
                raise ValueError("the ways of a program take different arguments")
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError) as error:
        what = f"{type(error).__name__}: " if type(error) is not ValueError else ""
        raise ExportError(f"{file_path} is damaged: {what}{error}", hint="export the program again") from None
    return Contents(said, ways, tensors)


def _taken(interface: Interface) -> object:
    """What all ways of a program have in common: their arguments."""
    params = [(param.name, param.dtype, param.shape, param.leaf, param.weak) for param in interface.params if param.source == "argument"]
    return interface.names, interface.arguments, interface.keywords, params


def argument_paths(interface: Interface) -> dict[int, str]:
    """Paths of the leaves of a call, in Python syntax."""
    found: dict[int, str] = {}
    for name, form in [*zip(interface.names, interface.arguments["tuple"], strict=True), *interface.keywords["dict"]]:
        leaf_paths(form, name, found)
    return found


def _check_interface(interface: Interface, artifact: Artifact, tensors: Mapping[str, np.ndarray], given: tuple[str, ...]) -> None:
    """Raise `ValueError` if the members of a file are inconsistent: the code would access invalid memory."""
    if len(interface.params) != len(artifact.params) or len(interface.results) != len(artifact.results):
        raise ValueError("interface and program have different numbers of parameters or results")
    for param, known in zip(interface.params, artifact.params, strict=True):
        if (param.dtype, param.shape, param.role) != (known.dtype, tuple(known.shape), known.role) or param.dtype not in SHORT_NAMES:
            raise ValueError(f"interface and program describe the parameter {param.name} differently")
        needed, begin = param.source not in ("argument", "rows") or param.name in given, known.per_row > 0
        if needed and (tensors[param.name].shape[begin:], tensors[param.name].dtype) != (param.shape[begin:], SHORT_NAMES[param.dtype]):
            raise ValueError(f"the stored array {param.name} does not have the shape and dtype of its parameter")
        if param.source not in SOURCES or param.role not in PARAM_ROLES or (
                param.weak and (param.dtype, param.shape) not in (("f64", ()), ("c128", ()))):
            raise ValueError(f"the parameter {param.name} has an unknown source or role")
        if not 0 <= param.leaf < MAX_LEAVES if param.source == "argument" else param.leaf != -1:
            raise ValueError(f"the parameter {param.name} has an invalid leaf number")
    of_rows = [param for param, known in zip(interface.params, artifact.params, strict=True) if known.per_row]
    counts = [number for number, param in enumerate(interface.params) if param.source == "rows"]
    if counts != [artifact.count] * (artifact.count >= 0) or bool(counts) != bool(of_rows) or any(
            (artifact.params[number].dtype, tuple(artifact.params[number].shape)) != ("i64", ()) for number in counts) or any(
            param.source != "argument" or param.written or not param.shape for param in of_rows) or any(
            result.per_row and (result.param != -1 or not counts) for result in artifact.results):
        raise ValueError("arrays of rows do not match the number of rows")
    names = [param.name for param in interface.params]
    taken = [param.leaf for param in interface.params if param.source == "argument"]
    if len(set(names)) < len(names) or len(set(taken)) < len(taken):
        raise ValueError("two parameters have the same name, or the same leaf")
    if set(interface.arguments) != {"tuple"} or set(interface.keywords) != {"dict"}:
        raise ValueError("the description of the arguments is missing")
    leaves = 1 + max([param.leaf for param in interface.params] + [-1])
    check_form(interface.arguments, leaves)
    check_form(interface.keywords, leaves)
    check_form(interface.result, len(interface.results) + len(interface.params))
    memory = {number: (param.dtype, param.shape) for number, param in enumerate(interface.params) if param.written}
    if any(result.param != -1 and memory.get(result.param) != (result.dtype, result.shape) for result in artifact.results):
        raise ValueError("a result lies in the memory of a parameter of another shape or dtype, or of one that is not written")
    if set(argument_paths(interface)) != {param.leaf for param in interface.params if param.source == "argument"}:
        raise ValueError("the trees of the arguments do not match the parameters")
    if any(not (0 <= param < len(interface.params) and 0 <= result < len(interface.results)) for param, result in interface.replaced):
        raise ValueError("a result replaces a parameter that does not exist")
    if any(artifact.arrays[param] != artifact.arrays[len(artifact.params) + result] for param, result in interface.replaced):
        raise ValueError("a result replaces a parameter of another shape or dtype")
