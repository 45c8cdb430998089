"""`CompiledFunction.export`: a compiled program as a file."""

from __future__ import annotations

import hashlib
import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from adjit.codegen.c_library.processor import RUNS_SYMBOL, runs_text
from adjit.codegen.llvm.elf_linker import link_image
from adjit.codegen.llvm.target import Target
from adjit.codegen.native.compile_program import compile_program_text, make_artifact
from adjit.codegen.native.program import lower_program
from adjit.codegen.native.program_code import ENTRY
from adjit.codegen.process.off_main_thread import off_main_thread
from adjit.ir.errors import ExportError, UnsupportedError
from adjit.ir.graph import external_op
from adjit.ir.lazy_module import LazyModule
from adjit.ir.ops.collectives import NAMES as COLLECTIVES
from adjit.ir.ops.control_flow import nested_graphs
from adjit.ir.ops.traits import HOST_CALLS
from adjit.ir.printer import print_graph
from adjit.ir.version import VERSION
from adjit.runtime.caches.disk_cache import compiler_versions
from adjit.runtime.exports.archive import PROGRAM, TENSORS, code_member, description, member_of, write_archive
from adjit.runtime.exports.interface import DescribedWays, describe_ways
from adjit.runtime.exports.interface_data import Interface
from adjit.runtime.exports.library import c_program, choose_levels, write_library
from adjit.runtime.exports.tensors_file import write_tensors
from adjit.runtime.native.executable import NativeExecutable
from adjit.runtime.program import Program
from adjit.runtime.rows.row_signature import SizedPrograms
from adjit.tracer.signature import CallSignature

if TYPE_CHECKING:
    from adjit.runtime.exports import device_programs, onnx_file
else:
    device_programs = LazyModule("adjit.runtime.exports.device_programs")
    onnx_file = LazyModule("adjit.runtime.exports.onnx_file")

SUFFIXES = (".adjit", ".so", ".o", ".onnx")
Names = str | Iterable[str] | None


def export_program(ways: Sequence[tuple[Program, Sequence[np.ndarray]]], signature: CallSignature, path: str | os.PathLike[str],
                   params: Names, target: str, levels: str | Sequence[str] | None,
                   onnx_names: onnx_file.Names = (None, None), sized: SizedPrograms | None = None, rows_name: str = "rows") -> list[Path]:
    """Write the programs of a call's `signature`, one for each way through the function, with the arrays of their parameters in that call.
    An ONNX model for any number of rows is made of `sized` programs. Returns the files written.

    `params` names the arguments whose arrays go into an archive. Raises `ExportError`, with nothing written, if the export is not possible.
    """
    file_path = Path(path)
    try:
        _check_path(file_path)
        for program, _ in ways:
            _check_program(program, file_path)
        if file_path.suffix == ".onnx" and sized is not None:
            described = [(program, describe_ways([(program, arrays)], program.signature)) for program, arrays in sized.programs]
            onnx_file.write_onnx_of_rows(described, sized.sizes, sized.numbers, file_path, onnx_names, rows_name)
            return [file_path]
        if file_path.suffix == ".onnx":
            onnx_file.write_onnx(ways[0][0], describe_ways(ways, signature), file_path, onnx_names)
            return [file_path]
        return _export([program for program, _ in ways], describe_ways(ways, signature), file_path, params, target, levels)
    except OSError as error:
        raise ExportError(f"{file_path} cannot be written: {error.strerror or error}", hint="name another file") from error


def _check_path(file_path: Path) -> None:
    if file_path.suffix not in SUFFIXES:
        raise ExportError(f"{file_path.name!r} has no suffix that says what to write",
                          hint="use the suffix .adjit (for adjit.load), .so (a library for C), .o (the same, not linked) or .onnx")
    if file_path.is_dir():
        raise ExportError(f"{file_path} is a folder", hint="name a file within it")
    if not file_path.parent.is_dir():
        raise ExportError(f"there is no folder {file_path.parent}", hint="create the folder first")


def _check_program(program: Program, file_path: Path) -> None:
    if program.tensors is not None and program.tensors.operation is not None:
        raise ExportError("the function returns tensors that have a gradient, but an exported program has no dynamic graph",
                          hint="call backward() within the function, or compile it under adjit.no_grad()")
    for first, second in program.trace.same:
        paths = program.inputs.paths
        raise ExportError(f"{paths[first]} and {paths[second]} are the same array, and the function writes to it",
                          hint="pass arrays of their own as example arguments")
    if program.backend == "cuda" and file_path.suffix != ".adjit":
        raise ExportError(f"the program is for the device 'cuda', and {file_path.suffix} is for the CPU",
                          hint="export it to .adjit, or compile it for the CPU")
    if program.backend != "cuda" and not isinstance(program.executable, NativeExecutable):
        raise UnsupportedError(f"programs of backend {program.backend!r} cannot be exported", hint="use backend='native', or 'auto'")
    call = next((op for graph in nested_graphs(program.planned) for op in graph.ops if op.name in HOST_CALLS), None)
    if call is not None and call.name in COLLECTIVES:
        raise ExportError(f"the program has {call.name}, which goes over the communicator of this process", call.loc,
                          hint="export the function without adjit.distributed: what one rank does")
    if call is not None:
        effect = call.attrs["function"].startswith("adjit.debug.")
        raise ExportError(f"the program calls the Python function {call.attrs['function']}, which an exported program does not have",
                          call.loc, hint="leave print of tensors and calls of adjit.debug out of what is exported" if effect else
                          "export the part of the function before or after the adjit.pure_callback")


def _check_libraries(program: Program) -> None:
    """Raise `ExportError` if the program calls functions of libraries that a library for C does not have."""
    op = external_op(program.planned)
    if op is not None:
        module, name, *_ = op.definition.external or ()
        raise ExportError(f"{op.name} calls functions of {module} ({name}), which a library for C does not have", op.loc,
                          hint="export an archive (.adjit), which finds them when it is loaded")


def _export(programs: Sequence[Program], described: DescribedWays, file_path: Path, params: Names, target: str,
            levels: str | Sequence[str] | None) -> list[Path]:
    on_device = programs[0].backend == "cuda"
    chosen = device_programs.choose_levels(levels) if on_device else choose_levels(target, levels)
    if file_path.suffix != ".adjit":
        if params is not None:
            raise ExportError("params= is for archives (.adjit); the caller of a C library passes the arrays",
                              hint="save the arrays with adjit.save or numpy.savez")
        for program in programs:
            _check_libraries(program)
        artifacts = [program.executable.code.artifact for program in programs]      # type: ignore[union-attr]
        return write_library(file_path, [program.planned for program in programs],
                             c_program(file_path.stem, artifacts, described, list(chosen)), chosen)
    if target != "x86_64-linux-gnu":
        raise ExportError(f"an archive for {target} cannot be loaded by adjit", hint="export to .o for another system")
    given = _arguments(described.interfaces[0], params)
    stored = {param.name for interface in described.interfaces for param in interface.params if param.source not in ("argument", "rows")}
    tensors = {name: array for name, array in described.arrays.items() if name in stored or name in given}
    parts = {TENSORS: write_tensors(tensors)}
    ways, texts = [], {}
    for number, (program, interface) in enumerate(zip(programs, described.interfaces, strict=True)):
        if on_device:
            ways.append({"artifact": program.executable.code.artifact.as_json(), "interface": asdict(interface)})      # type: ignore[union-attr]
            parts[member_of(number, PROGRAM)] = print_graph(program.planned).encode()
            continue
        flush = program.executable.code.artifact.flush_subnormals       # type: ignore[union-attr]
        lowered = {level: lower_program(program.planned, at, flush_subnormals=flush) for level, at in chosen.items()}
        made = [make_artifact(program.planned, lowered[level], at) for level, at in chosen.items()]
        artifact = replace(made[0], arena_bytes=max(each.arena_bytes for each in made))
        ways.append({"artifact": artifact.as_json(), "interface": asdict(interface)})
        parts[member_of(number, PROGRAM)] = print_graph(program.planned).encode()
        texts.update({member_of(number, code_member(level)): (lowered[level].text, at) for level, at in chosen.items()})
    manifest = _manifest(programs[0], ways, given, list(chosen))
    digest = description(manifest, parts)
    codes = {name: _code(text, at, digest) for name, (text, at) in texts.items()} if not on_device else {
        member_of(number, code_member(level)): device_programs.code(program.executable.lowered, at, digest)    # type: ignore[union-attr, arg-type]
        for number, program in enumerate(programs) for level, at in chosen.items()}
    write_archive(file_path, manifest, dict(sorted((parts | codes).items())))
    return [file_path]


@off_main_thread
def _code(text: str, target: Target, digest: str) -> bytes:
    """The object code for one level. It includes a function that tells whether a processor runs it, and the digest of its description."""
    import llvmlite.binding as llvm

    llvm.initialize_native_asmparser()      # for the `cpuid` and `xgetbv` instructions
    text += f'\n{runs_text(target)}\n@adjit_description = constant [{len(digest)} x i8] c"{digest}"'
    code = compile_program_text(text, target).object_code
    link_image((code,), (ENTRY, RUNS_SYMBOL))         # check now that `load` can link it
    return code


def _arguments(interface: Interface, wanted: Names) -> list[str]:
    """Names of the parameters that belong to the named arguments."""
    if wanted is None:
        return []
    names = [wanted] if isinstance(wanted, str) else list(wanted)
    known = [*interface.names, *(name for name, _ in interface.keywords["dict"])]
    for name in names:
        if name not in known:
            raise ExportError(f"params= names {name!r}, which is not an argument of the call", hint=f"its arguments are {', '.join(known)}")
    return [param.name for param in interface.params if param.source == "argument" and param.name.partition(".")[0] in names]


def _manifest(program: Program, ways: Sequence[Mapping[str, Any]], given: Sequence[str], levels: Sequence[str]) -> dict[str, Any]:
    return {
        "adjit": VERSION, "compiler": compiler_versions(), "system": "x86_64-linux-gnu", "levels": list(levels),
        "source": source_digest(program), "ways": ways, "given": list(given)}


def source_digest(program: Program) -> str:
    """The SHA-256 of the function's source text; empty if the source is not available."""
    function: Callable[..., Any] = getattr(program.signature.function, "func", program.signature.function)
    try:
        return hashlib.sha256(inspect.getsource(inspect.unwrap(function)).encode()).hexdigest()
    except (OSError, TypeError):
        return ""
