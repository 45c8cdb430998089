"""What is in the file of an exported program, read and checked, with nothing of it run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from adjit.codegen.native.artifact import Artifact, artifact_of_json
from adjit.ir.dataclass import dataclass
from adjit.ir.errors import ExportError
from adjit.ir.types import SHORT_NAMES
from adjit.runtime.exports.archive import CODE, PROGRAM, TENSORS, read_archive
from adjit.runtime.exports.interface_data import Interface, interface_of_data
from adjit.runtime.exports.tensors_file import read_tensors
from adjit.runtime.exports.trees import check_form, leaf_paths


@dataclass(frozen=True, slots=True)
class Contents:
    """The parts of a file, and what they say. `given` are the parameters whose arrays were stored with `export(..., params=...)`."""

    manifest: Mapping[str, Any]
    parts: Mapping[str, bytes]
    artifact: Artifact
    interface: Interface
    tensors: Mapping[str, np.ndarray]
    given: tuple[str, ...]


def read_program(place: Path, sha256: str | None = None) -> Contents:
    """The contents of a file; raises `ExportError` where it cannot be read, is damaged, or is not the one with this SHA-256."""
    manifest, parts = read_archive(place, sha256)
    try:
        artifact = artifact_of_json(manifest["artifact"])
        interface = interface_of_data(manifest["interface"])
        tensors = read_tensors(parts[TENSORS])
        given = tuple(manifest["given"])
        _check_interface(interface, artifact, tensors, given)
        missing = [name for name in ("adjit", "compiler", "system", "source") if name not in manifest]
        missing += [name for name in (PROGRAM, *map(CODE.format, manifest["levels"])) if name not in parts]
        if missing:
            raise ValueError(f"{', '.join(missing)} is missing")
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise ExportError(f"{place} is damaged: {type(error).__name__}: {error}", hint="export the program again") from None
    return Contents(manifest, parts, artifact, interface, tensors, given)


def argument_paths(interface: Interface) -> dict[int, str]:
    """How the user writes each leaf of a call."""
    found: dict[int, str] = {}
    for name, form in [*zip(interface.names, interface.arguments["tuple"], strict=True), *interface.keywords["dict"]]:
        leaf_paths(form, name, found)
    return found


def _check_interface(interface: Interface, artifact: Artifact, tensors: Mapping[str, np.ndarray], given: tuple[str, ...]) -> None:
    """Raise `ValueError` where the parts of a file do not fit together: its code would read and write where nothing is."""
    if len(interface.params) != len(artifact.params) or len(interface.results) != len(artifact.results):
        raise ValueError("the numbers of parameters or results differ")
    for param, known in zip(interface.params, artifact.params, strict=True):
        if (param.dtype, param.shape, param.role) != (known.dtype, tuple(known.shape), known.role) or param.dtype not in SHORT_NAMES:
            raise ValueError(f"the parameter {param.name} is described in two ways")
        needed = param.source != "argument" or param.name in given
        if needed and (tensors[param.name].shape, tensors[param.name].dtype) != (param.shape, SHORT_NAMES[param.dtype]):
            raise ValueError(f"the array {param.name} is not as the program takes it")
    leaves = 1 + max([param.leaf for param in interface.params] + [-1])
    check_form(interface.arguments, leaves)
    check_form(interface.keywords, leaves)
    check_form(interface.result, len(interface.results) + len(interface.params))
    memory = {number: (param.dtype, param.shape) for number, param in enumerate(interface.params) if param.written}
    if any(result.param != -1 and memory.get(result.param) != (result.dtype, result.shape) for result in artifact.results):
        raise ValueError("a result lies in memory that it cannot lie in")
    if set(argument_paths(interface)) != {param.leaf for param in interface.params if param.source == "argument"}:
        raise ValueError("the arguments and their trees differ")
    if any(not (0 <= param < len(interface.params) and 0 <= result < len(interface.results)) for param, result in interface.replaced):
        raise ValueError("a result replaces a parameter that is not there")
