"""Models in the ONNX format, for runtimes that do not know adjit: `export`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from adjit.eager.modes import no_grad
from adjit.ir.errors import ExportError, UnsupportedError
from adjit.runtime.compile_function import compile
from adjit.runtime.compiled import CompiledFunction
from adjit.tracer.tracebacks import user_frames_only
from adjit.tracer.user_location import find_user_location

OPERATOR_SET = 18

__all__ = ["export"]


@user_frames_only
def export(model: Any, args: Any, f: str | os.PathLike[str], *, kwargs: Mapping[str, Any] | None = None,
           input_names: Sequence[str] | None = None, output_names: Sequence[str] | None = None, opset_version: int = OPERATOR_SET,
           dynamic_axes: Mapping[str, Any] | None = None) -> None:
    """Write a module or a function as an ONNX model, as `torch.onnx.export` does it.

    `model` is a module, a function of arrays or tensors, or a compiled one; `args` is its argument, or a tuple of arguments, whose shapes
    and dtypes the model has. The path `f` ends with .onnx. Parameters, buffers and captured arrays are constants of the model. A module
    runs in the mode that it is in: call `eval()` before. `input_names` and `output_names` name inputs and outputs in their order; by
    default they have the names of arguments and results. Python's loops become `Scan`, loops and branches on values `Loop` and `If`.

    `dynamic_axes={"x": {0: "batch"}}` makes the model one for any number of rows of these inputs, along their first axes, together; outputs
    follow by themselves. A compiled function with `batch=` has such a model without.

    Raises `ExportError` without the package onnx, for models that change their state (those in training mode), for steps that ONNX's
    operators do not compute (random numbers, factorisations of matrices, complex numbers), and for dynamic axes of functions that are
    others for other numbers of rows; `UnsupportedError` for dynamic axes other than the first, and for operator sets other than 18.

    >>> import adjit as aj, os, tempfile
    >>> model = aj.nn.Sequential(aj.nn.Linear(3, 4), aj.nn.ReLU(), aj.nn.Linear(4, 2)).eval()
    >>> with tempfile.TemporaryDirectory() as folder:       # doctest: +SKIP
    ...     aj.onnx.export(model, aj.zeros(5, 3), f"{folder}/model.onnx", input_names=["x"], output_names=["y"],
    ...                    dynamic_axes={"x": {0: "batch"}})
    """
    if opset_version != OPERATOR_SET:
        raise UnsupportedError(f"models are written with operator set {OPERATOR_SET}, not {opset_version}", find_user_location(),
                               hint=f"leave opset_version= out: runtimes of {OPERATOR_SET} and later sets read the model")
    if os.fspath(f)[-5:] != ".onnx":
        raise ExportError(f"{os.fspath(f)!r} does not end with .onnx", find_user_location(), hint="name the file so")
    given = tuple(args) if isinstance(args, (tuple, list)) else (args,)
    rows, name = _rows(given, dynamic_axes, input_names, output_names) if dynamic_axes else ((), "rows")
    if rows and isinstance(model, CompiledFunction):
        raise UnsupportedError("dynamic_axes= of a compiled function", find_user_location(),
                               hint="name the arguments that have rows in batch= of adjit.compile, or export the function itself")
    with no_grad():
        compiled = model if isinstance(model, CompiledFunction) else compile(model, batch=rows)
        compiled.export_for(compiled.fun, f, given, dict(kwargs or {}), (), None, "x86_64-linux-gnu", None, (input_names, output_names),
                            name)


def _rows(args: Sequence[Any], axes: Mapping[str, Any], inputs: Sequence[str] | None, outputs: Sequence[str] | None
          ) -> tuple[tuple[int, ...], str]:
    """Positions of the arguments whose first axis is dynamic, and the name of this axis."""
    known, found, names = list(inputs or ()), set[int](), set[str]()
    for each, given in axes.items():
        if set(given) != {0}:
            raise UnsupportedError(f"dynamic_axes= of {each!r} has the axes {sorted(given)}", find_user_location(),
                                   hint="the first axis alone may be dynamic: {0: 'batch'}")
        names.update(given.values() if isinstance(given, Mapping) else ())
        if each in known and known.index(each) < len(args):
            found.add(known.index(each))
        elif each not in (outputs or ()):
            raise ExportError(f"dynamic_axes= names {each!r}, which is no input or output", find_user_location(),
                              hint="name inputs and outputs in input_names= and output_names=")
    if len(names) > 1:
        raise UnsupportedError(f"dynamic_axes= has several names of axes, {', '.join(sorted(names))}", find_user_location(),
                               hint="all dynamic axes have the same length: give them one name")
    if any(isinstance(arg, (tuple, list, Mapping)) for arg in args):
        raise UnsupportedError("dynamic_axes= with arguments that are trees", find_user_location(),
                               hint="compile the function with batch= and export that")
    return tuple(sorted(found)), next(iter(names), "rows")


def __dir__() -> list[str]:
    return sorted(__all__)
