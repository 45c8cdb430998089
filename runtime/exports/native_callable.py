"""`CompiledFunction.as_callable`: a program as C functions of numbers, for integrators and samplers that do not call Python."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Mapping, Sequence
from importlib import import_module
from math import prod
from typing import Any

import numpy as np

from adjit.codegen.llvm.link import CompiledObject, LoadedKernel
from adjit.codegen.llvm.target import TARGETS
from adjit.codegen.native.artifact import Artifact
from adjit.codegen.native.c_callbacks import FUNCTIONS, STATUS, SYMBOL, Objective, callbacks_text
from adjit.codegen.native.compile_program import compile_program_text
from adjit.codegen.native.program import lower_program
from adjit.ir.errors import ExportError
from adjit.runtime.caches.disk_cache import compiler, obtain_code, sha256
from adjit.runtime.exports.interface import array_of, describe_program
from adjit.runtime.exports.interface_data import Interface
from adjit.runtime.exports.trees import leaf_paths
from adjit.runtime.native.executable import NativeExecutable
from adjit.runtime.program import Program
from adjit.tracer.signature import CallSignature

_DOUBLES, _DOUBLE, _NOTHING = ctypes.POINTER(ctypes.c_double), ctypes.c_double, ctypes.c_void_p
_KINDS = {
    "evaluate": (ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, _DOUBLES, _DOUBLES, _DOUBLES),
                 "int32_t (int64_t, const double *, double *, double *)"),
    "value": (ctypes.CFUNCTYPE(_DOUBLE, ctypes.c_int, _DOUBLES, _NOTHING), "double (int, double *, void *)"),
    "value_and_grad": (ctypes.CFUNCTYPE(_DOUBLE, ctypes.c_int64, _DOUBLES, _DOUBLES, _NOTHING),
                       "double (int64_t, const double *, double *, void *)"),
    "value_of_one": (ctypes.CFUNCTYPE(_DOUBLE, _DOUBLE, _NOTHING), "double (double, void *)"),
}


class NativeCallable:
    """C functions of a compiled scalar function of `count` numbers. They are thread-safe.

    Each is a ctypes function, which keeps the code alive, or None if the function has no such form:

    value           `double (int n, double *x, void *user_data)`, the form for `scipy.integrate`
    value_of_one    `double (double x, void *user_data)`, for one variable
    value_and_grad  `double (int64_t n, const double *x, double *gradient, void *user_data)`, for the result of `value_and_grad`
    evaluate        `int32_t (int64_t n, const double *x, double *value, double *gradient)`, which returns a status: `words(status)`

    The other functions return NaN if the status is not 0. `gradient` may be NULL; `user_data` is not read. `addresses` and `signatures` are
    dicts by name.

    >>> import numpy as np, adjit
    >>> norm = adjit.compile(lambda x: np.sum(x * x)).as_callable(np.zeros(2))
    >>> norm.value(2, (ctypes.c_double * 2)(3.0, 4.0), None), norm.signatures["value"]
    (25.0, 'double (int, double *, void *)')
    """

    value: Any
    value_of_one: Any
    value_and_grad: Any
    evaluate: Any

    def __init__(self, name: str, count: int, loaded: LoadedKernel):
        self.__name__ = name
        self.count = count
        *table, _ = (ctypes.c_void_p * (len(FUNCTIONS) + 1)).from_address(loaded.address)
        self.addresses = {function: address for function, address in zip(FUNCTIONS, table, strict=True) if address}
        self.signatures = {function: _KINDS[function][1] for function in self.addresses}
        for function in FUNCTIONS:
            made = _KINDS[function][0](self.addresses[function]) if function in self.addresses else None
            if made is not None:
                made.code = loaded      # type: ignore[attr-defined]
            setattr(self, function, made)

    def __repr__(self) -> str:
        return f"<{self.__name__} for C, of {self.count} numbers: {', '.join(self.addresses)}>"

    @staticmethod
    def words(status: int) -> str:
        """The meaning of a status returned by `evaluate`."""
        return STATUS[status] if 0 <= status < len(STATUS) else "an unknown status"

    def low_level_callable(self) -> Any:
        """The `scipy.LowLevelCallable` of `value`, which SciPy's integrators call without Python."""
        return import_module("scipy").LowLevelCallable(self.value)


def make_callable(program: Program, captured: Sequence[np.ndarray] | None, signature: CallSignature) -> NativeCallable:
    """The functions of a program for the call `signature`. The arrays `captured` become part of the code with their current content.

    Raises `ExportError` if the program is no scalar function of float64, or if `captured` is None: then the program is no longer valid.
    """
    if captured is None:
        raise ExportError(f"the function's state has changed since its last call: {program.changed()}", hint="pass example arguments")
    executable = program.executable
    assert isinstance(executable, NativeExecutable)
    interface, artifact = describe_program(program, signature), executable.code.artifact
    constants = [param for param in interface.params if param.source == "constant"]
    arrays = {param.name: array_of(array, param).tobytes() for param, array in zip(constants, captured, strict=False)}     # state follows
    objective = _objective(interface, arrays, artifact, [tuple(result.shape) for result in artifact.results])
    target = TARGETS[artifact.target]
    text = callbacks_text(lower_program(program.planned, target, flush_subnormals=artifact.flush_subnormals), objective)
    key = sha256(json.dumps([*compiler(), "callable", target.name, text]).encode())
    loaded, _ = obtain_code(key, lambda: CompiledObject(compile_program_text(text, target).object_code, SYMBOL))
    return NativeCallable(artifact.name, objective.count, loaded)


def _objective(interface: Interface, constants: Mapping[str, bytes], artifact: Artifact, shapes: Sequence[tuple[int, ...]]) -> Objective:
    arguments = [param for param in interface.params if param.source == "argument"]
    if any(param.source == "state" or param.written for param in interface.params):
        raise _unfit("it changes arrays that are arguments, or that it captures")
    if not arguments or any(param.dtype != "f64" for param in arguments):
        raise _unfit("its arguments are not all float64")
    if len(arguments) > 1 and any(param.shape for param in arguments):
        raise _unfit("it has several arguments, and they are not all numbers")
    count = sum(prod(param.shape) for param in arguments)
    starts = {param.name: index for index, param in enumerate(arguments)}       # one array, or several numbers
    params = [constants[param.name] if param.source == "constant" else starts[param.name] for param in interface.params]
    dtypes = [result.dtype for result in artifact.results]
    numbers = list(leaf_paths(interface.result, "", {}))
    if sorted(numbers) != list(range(len(dtypes))) or not numbers or any(dtype != "f64" for dtype in dtypes) or shapes[numbers[0]]:
        raise _unfit("its result is not a float64 number, or a float64 number and its gradient")
    value, *gradient = numbers
    if gradient and [shapes[number] for number in gradient] != [param.shape for param in arguments]:
        raise _unfit("its second result is not the gradient with respect to all its arguments")
    return Objective(count, params, value, list(zip(gradient, range(len(gradient)), strict=True)), artifact.arena_bytes)


def _unfit(why: str) -> ExportError:
    return ExportError(f"the function cannot be called with numbers from C: {why}",
                       hint="compile a function of one float64 array, or of floats, that returns one number, or its value_and_grad")
