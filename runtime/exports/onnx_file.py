"""Compiled programs as ONNX files."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from adjit.codegen.onnx.any_rows import join_models
from adjit.codegen.onnx.model import make_model
from adjit.ir.errors import ExportError
from adjit.ir.row_number import Expression
from adjit.passes.options import Options
from adjit.passes.pipeline import EXCHANGE, run_pipeline
from adjit.runtime.exports.archive import write_whole
from adjit.runtime.exports.interface import DescribedWays
from adjit.runtime.program import Program

MAX_BYTES = 1 << 31
"""Bytes that one file of Protocol Buffers holds."""


Names = tuple["Sequence[str] | None", "Sequence[str] | None"]
"""Names for the inputs and for the outputs of a model, in their order; None: as the arguments and results are named."""


def write_onnx(program: Program, described: DescribedWays, file_path: Path, names_given: Names) -> None:
    """Write a program as an ONNX model. Arrays that the program reaches by itself become constants of the model.

    Raises `ExportError` without the package onnx, for programs that change arrays, and for ops that ONNX does not have.
    """
    _write(model_of(program, described, names_given), file_path)


def write_onnx_of_rows(sized: Sequence[tuple[Program, DescribedWays]], sizes: Sequence[int], numbers: Collection[Expression],
                       file_path: Path, names_given: Names, rows: str) -> None:
    """Write an ONNX model for any number of rows, which its axes call `rows`, from programs of one function for `sizes` rows. `numbers` are
    those that Python computed from how many there are. Raises `ExportError` as `write_onnx`, and where ONNX cannot."""
    models = [model_of(program, described, names_given) for program, described in sized]
    _write(join_models(models, sizes, numbers, rows), file_path)


def _write(model: Any, file_path: Path) -> None:
    write_whole(file_path, model.SerializeToString())


def model_of(program: Program, described: DescribedWays, names_given: Names) -> Any:
    """A program as an ONNX model."""
    if find_spec("onnx") is None:
        raise ExportError("files of this format are written by the package onnx, which is not installed", hint="pip install adjit[onnx]")
    interface = described.interfaces[0]
    if interface.replaced or program.trace.writes or "updated" in program.param_roles:
        raise ExportError("the program changes arrays from outside, and an ONNX model has no state",
                          hint="export modules after eval(), and functions that return what they compute")
    names = [param.name for param in interface.params]
    given = [index for index, param in enumerate(interface.params) if param.source == "argument"]
    for index, name in zip(given, _names(names_given[0], len(given), "inputs", [names[index] for index in given]), strict=False):
        names[index] = name
    results = _names(names_given[1], len(interface.results), "outputs", interface.results)
    results = [name if name not in names and results.count(name) == 1 else f"{name}_{number}" for number, name in enumerate(results)]
    constants = {name: described.arrays[name] for param, name in zip(interface.params, names, strict=True) if param.source != "argument"}
    size = sum(array.nbytes for array in constants.values())
    if size >= MAX_BYTES:
        raise ExportError(f"the arrays of the program take {size / 1e9:.1f} GB, and an ONNX file holds 2 GB",
                          hint="export an archive (.adjit), or pass the arrays as arguments")
    graph = run_pipeline(program.pipeline.graphs["traced"], Options(), verify=False, passes=EXCHANGE).final
    return make_model(graph, names, {name: np.asarray(array) for name, array in constants.items()}, results)


def _names(wanted: Sequence[str] | None, count: int, what: str, otherwise: Sequence[str]) -> list[str]:
    if wanted is None:
        return list(otherwise[:count])
    if len(wanted) != count or len(set(wanted)) != count:
        raise ExportError(f"{len(wanted)} names of {what} are given, {count} different ones are needed",
                          hint=f"they are named {', '.join(otherwise[:count])} by default")
    return list(wanted)
