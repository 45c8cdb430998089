"""Programs for a device in archives: PTX of their kernels, and what runs them when they are loaded.

Launches follow from the planned graph, which is in the file as text. Kernels are named by their content: one whose name is not among those
in the file, as another version of adjit would write it, is compiled anew.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from adjit.codegen.cuda.program import DeviceProgram
from adjit.codegen.cuda.target import SM_80, SM_90
from adjit.codegen.llvm.target import Target
from adjit.codegen.native.artifact import Artifact
from adjit.ir import parser
from adjit.ir.errors import ArgumentError, ExportError, UnsupportedError
from adjit.ir.graph import Graph
from adjit.ir.ops.guard import GuardMiss
from adjit.ir.types import SHORT_NAMES
from adjit.runtime.cuda import devices
from adjit.runtime.cuda.code import obtain_ptx
from adjit.runtime.cuda.device_array import DeviceArray, put
from adjit.runtime.cuda.device_executable import DeviceExecutable
from adjit.runtime.cuda.device_inputs import DeviceInputs
from adjit.runtime.exports.contents import ExportedWay, argument_paths
from adjit.runtime.exports.interface_data import Interface, type_text
from adjit.runtime.exports.trees import unflatten_tree

LEVELS = {target.name: target for target in (SM_90, SM_80)}
"""Compute capabilities that an archive has code for."""

_KERNEL = re.compile(r"^//! kernel (\S+)\n", re.M)


def choose_levels(wanted: str | Sequence[str] | None) -> dict[str, Target]:
    """The compute capabilities that an archive includes. Raises `ExportError` for unknown ones."""
    names = [wanted] if isinstance(wanted, str) else list(wanted or LEVELS)
    unknown = [name for name in names if name not in LEVELS]
    if unknown:
        raise ExportError(f"a device has no level {', '.join(unknown)}", hint=f"its levels are {', '.join(LEVELS)}")
    return {name: LEVELS[name] for name in names}


def code(program: DeviceProgram, target: Target, digest: str) -> bytes:
    """PTX of all kernels, one after the other, with the digest of what describes them."""
    kernels = "".join(f"//! kernel {name}\n{obtain_ptx(kernel, target)}\n" for name, kernel in program.kernels.items())
    return f"// {digest}\n{kernels}".encode()


def kernels_in(content: bytes) -> dict[str, str]:
    """PTX of each kernel, by name: the inverse of `code`."""
    _, *parts = _KERNEL.split(content.decode())
    return dict(zip(parts[::2], parts[1::2], strict=True))


def loaded(way: ExportedWay, file_path: Path) -> tuple[str, DeviceExecutable]:
    """The best level in the file, and the program on the device. Raises `ExportError` without a device."""
    try:
        driver = devices.driver()
    except UnsupportedError as error:
        raise ExportError(f"{file_path} is a program for a device: {error.message}", hint=error.hint) from None
    level = next((level for level in LEVELS if level in way.codes and level <= driver.target.name), "")
    if not level:
        raise ExportError(f"{file_path} has no code for the {driver.name}", hint=f"export the program with levels={driver.target.name!r}")
    try:
        planned = parser.parse(way.program.decode())
        made = DeviceExecutable(planned, driver, kernels_in(way.codes[level]))
    except (UnsupportedError, MemoryError):
        raise
    except Exception as error:      # not a graph that the planner has made
        raise ExportError(f"the graph in {file_path} cannot be compiled: {error}", hint="export the program again") from error
    if _types(made.code.artifact) != _types(way.artifact):
        raise ExportError(f"the graph in {file_path} belongs to another program", hint="export the program again")
    return level, made


def _types(artifact: Artifact) -> object:
    """What callers rely on; the text of a graph need not name parameters."""
    return [(param.dtype, tuple(param.shape), param.role) for param in artifact.params], list(artifact.results)


class DeviceWay:
    """One way through the function, on a device: a program, with the arrays that are no arguments in the memory of the device."""

    def __init__(self, executable: DeviceExecutable, interface: Interface, graph: Graph, tensors: Mapping[str, DeviceArray]):
        self.executable, self.interface = executable, interface
        self.own = {number: tensors[param.name] for number, param in enumerate(interface.params) if param.source != "argument"}
        self._arguments = [(number, param.leaf) for number, param in enumerate(interface.params) if param.source == "argument"]
        paths = argument_paths(interface)
        self._inputs = DeviceInputs(graph, [paths.get(param.leaf, param.name) for param in interface.params])

    def run(self, leaves: Sequence[Any]) -> Any:
        """The result for the leaves of a call, arrays on the device. Raises `GuardMiss`, with nothing written, if the call decides
        otherwise on values."""
        arrays: list[Any] = [self.own.get(number) for number in range(len(self.interface.params))]
        for number, leaf in self._arguments:
            param = self.interface.params[number]
            array = arrays[number] = leaves[leaf] if isinstance(leaves[leaf], DeviceArray) else np.asarray(leaves[leaf])
            if array.shape != param.shape or array.dtype != SHORT_NAMES[param.dtype]:
                raise TypeError(f"{param.name} has to be {type_text(param.dtype, param.shape, 0)}, got {array.dtype} of shape {array.shape}"
                                ": an exported program is for the shapes and dtypes of its export")
            if param.role == "updated" and not isinstance(array, DeviceArray):
                raise ArgumentError(f"{param.name} is written to, and is in the memory of the CPU", hint="pass aj.device_put of it")
        results = self.executable.run(self._inputs.prepare(arrays, arrays), arrays)
        for written, result in self.interface.replaced:
            arrays[written].assign(results[result])
        return unflatten_tree(self.interface.result, [*results, *arrays])


def on_device(tensors: Mapping[str, np.ndarray]) -> dict[str, DeviceArray]:
    """Copies of the arrays of a file in the memory of the device."""
    driver = devices.driver()
    return {name: put(driver, np.asarray(array, order="C")) for name, array in tensors.items()}


def other_way(miss: GuardMiss, name: str) -> ArgumentError:
    """The exception for a call that decides otherwise on values than the calls that the program was exported for."""
    return ArgumentError(f"{name} was exported for calls in which a decision on values has another outcome than {miss.outcome!r}",
                         hint="export it with example arguments like these, too (ways=)")
