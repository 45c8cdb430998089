"""`load`: an exported program as a function. Nothing is traced or compiled for it."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from adjit.codegen.c_library.processor import RUNS_SYMBOL
from adjit.codegen.cuda.target import SM_80, SM_90
from adjit.codegen.llvm.elf_linker import link_image
from adjit.codegen.llvm.link import LoadedKernel
from adjit.codegen.llvm.link import load as load_code
from adjit.codegen.llvm.target import LEVELS, Target, is_installed
from adjit.codegen.native.artifact import Artifact
from adjit.codegen.native.program_code import ENTRY
from adjit.codegen.process.fork_safety import renewed_after_fork
from adjit.codegen.process.off_main_thread import off_main_thread
from adjit.ir.errors import ExportError
from adjit.ir.graph import Graph, Value
from adjit.ir.lazy_module import LazyModule
from adjit.ir.ops.guard import GuardMiss
from adjit.ir.ops.panels import MOST_ROWS
from adjit.ir.types import SHORT_NAMES, TensorType, in_native_order
from adjit.runtime import settings
from adjit.runtime.exports.contents import Contents, ExportedWay, argument_paths, read_program
from adjit.runtime.exports.interface_data import ExportedParameter, Interface, type_text
from adjit.runtime.exports.trees import flatten_tree, unflatten_tree
from adjit.runtime.fastcall.callable_type import activate, callable_type, fastcall_is_ready
from adjit.runtime.fastcall.descriptors import FunctionDescriptor
from adjit.runtime.fastcall.loaded_descriptor import make_loaded_descriptor
from adjit.runtime.inputs import Inputs
from adjit.runtime.native.code import NativeCode, native_target
from adjit.runtime.native.executable import NativeExecutable
from adjit.runtime.written_arrays import check_apart
from adjit.tracer.tracebacks import hide_frames

if TYPE_CHECKING:
    from adjit.codegen.native import compile_program as native
    from adjit.ir import parser
    from adjit.runtime.exports import device_programs

    AnyWay: TypeAlias = "device_programs.DeviceWay | _Way"
else:
    device_programs = LazyModule("adjit.runtime.exports.device_programs")
    native, parser = LazyModule("adjit.codegen.native.compile_program"), LazyModule("adjit.ir.parser")


device_levels = (SM_80.name, SM_90.name)


class LoadedFunction:
    """An exported program. Call it like the function that was exported.

    `state` has, by name, the arrays that the program retains from call to call: parameters of modules, the state of optimisers. Calls
    update them in place, and so may you (`loaded.state["weight"][...] = new`). `arguments` has the arguments that were stored with the
    program (`export(..., params="params")`), as trees of arrays.
    """

    def __init__(self, name: str, level: str, ways: Sequence[AnyWay], tensors: Mapping[str, Any], given: tuple[str, ...]):
        self.__name__ = name
        self.level = level
        self._ways = ways
        self.interface = self._ways[0].interface
        state = {param.name: None for way in ways for param in way.interface.params if param.source == "state"}
        self.state = MappingProxyType({name: tensors[name] for name in state})
        self._leaves = 1 + max([*argument_paths(self.interface), -1])
        self.arguments = _stored(self.interface, tensors, given)
        self._record = FunctionDescriptor(LoadedFunction.__call__, in_any_mode=True)
        self._calls = 0         # number of calls through Python
        self._suits_entry = False       # True if calls may go to the fast path once it is ready
        self._changing = renewed_after_fork(self, "_changing", Lock)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self._call(args, kwargs)
        except BaseException as error:
            hide_frames(error)
            raise

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        leaves = self._flatten(args, kwargs)
        missed: list[tuple[AnyWay, GuardMiss]] = []
        for way in self._ways:
            try:
                result = way.run(leaves)
                break
            except GuardMiss as miss:       # nothing was written
                missed.append((way, miss))
        else:
            way, furthest = max(missed, key=lambda item: item[1].number)
            if not isinstance(way, _Way):
                raise device_programs.other_way(furthest, self.__name__) from None
            raise way.executable.other_way(furthest, self.__name__, len(self._ways)) from None
        self._count()
        return result

    def __repr__(self) -> str:
        return f"<loaded {self.__name__}, {self.level}>"

    def _count(self) -> None:
        """Count a call. From the second call on, the fast path is compiled by llvmlite in the background, and then used if it supports the
        program."""
        if not is_installed("llvmlite") or not isinstance(self._ways[0], _Way):
            return
        with self._changing:
            self._calls += 1
            for way in reversed(self._ways) if self._calls == 2 else ():       # what is offered last is tried first
                assert isinstance(way, _Way)
                record = make_loaded_descriptor(self, way.interface, way.executable, way.own)
                if record is not None:
                    self._record.offer(record)
                    self._suits_entry = True
            if self._suits_entry and fastcall_is_ready(type(self), self._ways[0].executable.threads):
                self._suits_entry = False
                activate(self, self._record)

    def _flatten(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        names, positional = self.interface.names, self.interface.arguments["tuple"]
        keywords = dict(self.interface.keywords["dict"])
        given = dict(zip(names, args, strict=False)) | kwargs
        expected = [*names, *keywords]
        if len(args) > len(names) or given.keys() != set(expected) or len(given) != len(args) + len(kwargs):
            surplus = [f"{len(args)} positional ones"] if len(args) > len(names) else names[:len(args)]
            raise TypeError(f"{self.__name__} was exported for the arguments {', '.join(expected) or 'none'}; "
                            f"got {', '.join([*surplus, *kwargs]) or 'none'}")
        leaves: list[Any] = [None] * self._leaves
        for name, form in zip(names, positional, strict=True):
            flatten_tree(form, given[name], leaves, name)
        for name, form in keywords.items():
            flatten_tree(form, given[name], leaves, name)
        return leaves


class _Way:
    """One way through the function: a program, with the arrays that are no arguments."""

    def __init__(self, name: str, executable: NativeExecutable, interface: Interface, tensors: Mapping[str, np.ndarray]):
        self.executable, self.interface = executable, interface
        params, artifact = interface.params, executable.code.artifact
        self.own = {number: tensors[param.name] for number, param in enumerate(params) if param.source not in ("argument", "rows")}
        self._per_row = {number: param.per_row for number, param in enumerate(artifact.params) if param.per_row}
        self._arguments = [(number, param.leaf) for number, param in enumerate(params) if param.source == "argument"]
        paths = argument_paths(interface)
        self._written = [number for number, param in enumerate(params) if param.source == "argument" and param.role == "updated"]
        self._inputs = Inputs(_as_graph(name, params), [paths.get(param.leaf, param.name) for param in params], self._written,
                              rows=self._per_row)

    def run(self, leaves: Sequence[Any]) -> Any:
        """The result for the leaves of a call. Raises `GuardMiss`, with nothing written, if the call decides otherwise on values."""
        arrays: list[Any] = [None] * len(self.interface.params)
        passed: list[Any] = list(arrays)
        for number, leaf in self._arguments:
            passed[number] = leaves[leaf]
            arrays[number] = leaves[leaf] if type(leaves[leaf]) is np.ndarray else np.asarray(leaves[leaf])
        for number, array in self.own.items():
            arrays[number] = passed[number] = array
        if self._per_row:
            count = self.executable.code.artifact.count
            arrays[count] = passed[count] = np.asarray(self._rows(arrays))
        self._check(arrays)
        if self._written:
            check_apart([leaf if isinstance(leaf, np.ndarray) else array for leaf, array in zip(passed, arrays, strict=True)],
                        self._written, self._inputs.paths)
        prepared, given = self._inputs.prepare(arrays, passed), list(passed)
        for number in self._written:
            passed[number] = prepared[number]
        results = self.executable.run(prepared, passed)
        for number, made in enumerate(self.executable.code.artifact.results):
            if made.param in self._written and given[made.param] is not results[number]:
                np.copyto(given[made.param], results[number])
                results[number] = given[made.param]
        for param, result in self.interface.replaced:
            np.copyto(arrays[param], results[result])
        return unflatten_tree(self.interface.result, [*results, *arrays])

    def _rows(self, arrays: Sequence[np.ndarray]) -> int:
        """The number of rows of a call."""
        params, least = self.interface.params, self.interface.least_rows
        lengths = {number: arrays[number].shape[0] // each if arrays[number].ndim else -1 for number, each in self._per_row.items()}
        rows = next(iter(lengths.values()))
        other = next((number for number, length in lengths.items() if length != rows), None)
        if other is not None and -1 not in lengths.values():
            raise TypeError(f"{params[other].name} has {lengths[other]} rows, and {params[next(iter(lengths))].name} has {rows}")
        if rows >= 0 and not least <= rows <= MOST_ROWS:
            raise TypeError(f"{params[next(iter(lengths))].name} has {rows} rows: the exported program is for {least} to {MOST_ROWS}")
        return rows

    def _check(self, arrays: list[np.ndarray]) -> None:
        for number, (array, param) in enumerate(zip(arrays, self.interface.params, strict=True)):
            each = self._per_row.get(number)
            shape = param.shape if each is None else (array.shape[0] // each * each if array.ndim else 0, *param.shape[1:])
            if array.shape != shape or in_native_order(array.dtype) != SHORT_NAMES[param.dtype]:
                raise TypeError(f"{param.name} has to be {type_text(param.dtype, param.shape, each or 0)}, got {array.dtype} of shape "
                                f"{array.shape}: an exported program is for the shapes and dtypes of its export")


def load(path: str | os.PathLike[str], *, sha256: str | None = None) -> LoadedFunction:
    """The program in a file that `export` wrote (`.adjit`), as a function.

    Loading and calling need adjit and NumPy only: numba is never imported, llvmlite and optree need not be installed. Nothing is traced.
    The program is compiled, by llvmlite, only if the file has no code for this processor. If llvmlite is installed, the second call imports
    it to compile the fast path, which makes calls cheaper, and kernels run on several threads. Without llvmlite, kernels run on one thread.

    **The file holds machine code, which runs with all the rights of this process: load only files that you trust.** `sha256` is the
    expected SHA-256 of the whole file, 64 hexadecimal digits: a file with another digest is refused before any of it is used.

    Raises `ExportError` for a file that cannot be read, is damaged, or is of another format or system.

    >>> import numpy as np, adjit, tempfile, pathlib
    >>> double = adjit.compile(lambda x: 2 * x)
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name) / "double.adjit"
    >>> _ = double.export(path, np.arange(3.0))
    >>> adjit.load(path)(np.arange(3.0))
    array([0., 2., 4.])
    """
    settings.check()
    file_path = Path(path)
    contents = read_program(file_path, sha256)
    said = contents.manifest
    if said.system != "x86_64-linux-gnu" or (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise ExportError(f"{file_path} is a program for {said.system}, not for this system")
    if any(level in device_levels for level in said.levels):
        return _on_device(contents, file_path)
    threads = settings.THREADS.get() if is_installed("llvmlite") else 1
    ways, level = [], ""
    for way in contents.ways:
        level, code = _code(way, file_path)
        ways.append((NativeExecutable(code, partial(_planned, way.program), threads), way.interface))
    kind: type[LoadedFunction] = callable_type(LoadedFunction)
    name = contents.ways[0].artifact.name
    return kind(name, level, [_Way(name, executable, interface, contents.tensors) for executable, interface in ways], contents.tensors,
                said.given)


def _on_device(contents: Contents, file_path: Path) -> LoadedFunction:
    """A program for a device, its arrays in the memory of the device."""
    made = [(device_programs.loaded(way, file_path), way.interface) for way in contents.ways]
    tensors, name = device_programs.on_device(contents.tensors), contents.ways[0].artifact.name
    ways = [device_programs.DeviceWay(executable, interface, _as_graph(name, interface.params), tensors)
            for (_, executable), interface in made]
    return LoadedFunction(name, made[0][0][0], ways, tensors, contents.manifest.given)


def _planned(text: bytes) -> Graph:
    return parser.parse(text.decode())


def _code(way: ExportedWay, file_path: Path) -> tuple[str, NativeCode]:
    """The code for the best level that both this processor and the file have. If there is none, the graph is compiled.

    Raises `ExportError` if the code cannot be linked, or if the graph must be compiled and llvmlite is not installed.
    """
    for level, target in LEVELS.items():
        content = way.codes.get(level)
        if content is not None and _is_allowed(target):
            try:
                image = link_image((content,), (ENTRY, RUNS_SYMBOL))
            except ValueError as error:
                raise ExportError(f"the code for {level} in {file_path} cannot be linked: {error}",
                                  hint="export the program again") from None
            if ctypes.CFUNCTYPE(ctypes.c_int64)(image.addresses[RUNS_SYMBOL])():
                loaded = LoadedKernel(image.addresses[ENTRY], image, image.nbytes)
                return level, NativeCode(loaded, way.artifact, f"from {file_path.name}", "")
    if not is_installed("llvmlite"):
        raise ExportError(f"{file_path} has no code for this processor, and llvmlite, which would compile its graph, is not installed",
                          hint="pip install llvmlite, or export the program with levels= for this processor")
    return _compiled(way.program, way.artifact, file_path)


@off_main_thread
def _compiled(graph: bytes, artifact: Artifact, file_path: Path) -> tuple[str, NativeCode]:
    """Code compiled from the graph in the file, for this processor."""
    target = native_target()
    try:
        planned = parser.parse(graph.decode())
        code = native.lower_program(planned, target, flush_subnormals=artifact.flush_subnormals)
        made = native.make_artifact(planned, code, target)
        fits = (made.params, made.results) == (artifact.params, artifact.results)
    except Exception as error:      # not a graph that the planner has made
        raise ExportError(f"the graph in {file_path} cannot be compiled: {error}", hint="export the program again") from error
    if not fits:
        raise ExportError(f"the graph in {file_path} belongs to another program", hint="export the program again")
    return target.name, NativeCode(load_code(native.compile_program_text(code.text, target)), made, f"compiled for {target.name}", "")


def _is_allowed(target: Target) -> bool:
    """True if the setting ADJIT_TARGET allows code for a target."""
    return settings.TARGET.get() == "auto" or target.vector_bytes <= native_target().vector_bytes


def _as_graph(name: str, params: tuple[ExportedParameter, ...]) -> Graph:
    values = tuple(Value(TensorType(SHORT_NAMES[param.dtype], param.shape), param.name) for param in params)
    return Graph(name, values, (), (), tuple(param.role for param in params))


def _stored(interface: Interface, tensors: Mapping[str, np.ndarray], given: tuple[str, ...]) -> dict[str, Any]:
    leaves: list[Any] = [None] * (1 + max([param.leaf for param in interface.params] + [-1]))
    for param in interface.params:
        if param.name in given:
            leaves[param.leaf] = tensors[param.name]
    names = {name.partition(".")[0] for name in given}
    arguments = [*zip(interface.names, interface.arguments["tuple"], strict=True), *interface.keywords["dict"]]
    return {name: unflatten_tree(form, leaves) for name, form in arguments if name in names}
