"""Models in the ONNX format, for runtimes that do not know adjit: `export`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from adjit.eager.modes import no_grad
from adjit.ir.errors import ExportError, UnsupportedError
from adjit.runtime.compiled import CompiledFunction, compile
from adjit.tracer.tracebacks import user_frames_only
from adjit.tracer.user_location import find_user_location

OPERATOR_SET = 18

__all__ = ["export"]


@user_frames_only
def export(model: Any, args: Any, f: str | os.PathLike[str], *, kwargs: Mapping[str, Any] | None = None,
           input_names: Sequence[str] | None = None, output_names: Sequence[str] | None = None, opset_version: int = OPERATOR_SET,
           dynamic_axes: Any = None) -> None:
    """Write a module or a function as an ONNX model, as `torch.onnx.export` does it.

    `model` is a module, a function of arrays or tensors, or a compiled one; `args` is its argument, or a tuple of arguments, whose shapes
    and dtypes the model has. The path `f` ends with .onnx. Parameters, buffers and captured arrays are constants of the model. A module
    runs in the mode that it is in: call `eval()` before. `input_names` and `output_names` name inputs and outputs in their order; by
    default they have the names of arguments and results. Python's loops become `Scan`, loops and branches on values `Loop` and `If`.

    Raises `ExportError` without the package onnx, for models that change their state (those in training mode), and for steps that ONNX's
    operators do not compute (random numbers, factorisations of matrices, complex numbers); `UnsupportedError` for `dynamic_axes` and for
    operator sets other than 18.

    >>> import adjit as aj, os, tempfile
    >>> model = aj.nn.Sequential(aj.nn.Linear(3, 4), aj.nn.ReLU(), aj.nn.Linear(4, 2)).eval()
    >>> with tempfile.TemporaryDirectory() as folder:       # doctest: +SKIP
    ...     aj.onnx.export(model, aj.zeros(5, 3), f"{folder}/model.onnx", input_names=["x"], output_names=["y"])
    """
    if opset_version != OPERATOR_SET:
        raise UnsupportedError(f"models are written with operator set {OPERATOR_SET}, not {opset_version}", find_user_location(),
                               hint=f"leave opset_version= out: runtimes of {OPERATOR_SET} and later sets read the model")
    if dynamic_axes:
        raise UnsupportedError("a model has the shapes of its example arguments: dynamic_axes= is not supported", find_user_location(),
                               hint="export a model for each size")
    if os.fspath(f)[-5:] != ".onnx":
        raise ExportError(f"{os.fspath(f)!r} does not end with .onnx", find_user_location(), hint="name the file so")
    given = tuple(args) if isinstance(args, (tuple, list)) else (args,)
    with no_grad():
        compiled = model if isinstance(model, CompiledFunction) else compile(model)
        compiled.export_for(compiled.fun, f, given, dict(kwargs or {}), (), None, "x86_64-linux-gnu", None, (input_names, output_names))


def __dir__() -> list[str]:
    return sorted(__all__)
