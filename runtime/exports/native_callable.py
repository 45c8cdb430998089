"""`CompiledFunction.as_callable`: a program as C functions of numbers, for integrators, samplers and optimizers that do not call Python."""

from __future__ import annotations

import ctypes
import functools
import itertools
import json
from collections.abc import Mapping, Sequence
from importlib import import_module
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from adjit.codegen.llvm.link import CompiledObject, load
from adjit.codegen.llvm.target import TARGETS
from adjit.codegen.native.c_callbacks import POINTERS, SIGNATURES, STATUS, SYMBOL, Objective, Place, callbacks_text
from adjit.codegen.native.compile_program import compile_program_text
from adjit.codegen.native.program_code import ENTRY
from adjit.ir.errors import DTypeError, ExportError, ShapeError
from adjit.ir.ops.panels import MOST_ROWS
from adjit.runtime.caches.disk_cache import compiler, disk_cache, sha256
from adjit.runtime.exports.interface import array_of, describe_program
from adjit.runtime.exports.interface_data import ExportedParameter
from adjit.runtime.exports.trees import leaf_paths
from adjit.runtime.native.executable import NativeExecutable
from adjit.runtime.program import Program
from adjit.tracer.signature import CallSignature
from adjit.tracer.trees import flatten, structure_text
from adjit.tracer.user_location import find_user_location

if TYPE_CHECKING:
    from adjit.runtime.exports.callable_forms import Variables

_DOUBLES = ctypes.POINTER(ctypes.c_double)
_C_TYPES: dict[str, Any] = {"int32_t": ctypes.c_int32, "int64_t": ctypes.c_int64, "uint64_t": ctypes.c_uint64, "int": ctypes.c_int,
            "double": ctypes.c_double, "double *": _DOUBLES, "void *": ctypes.c_void_p}


def _c_type(signature: str) -> Any:
    result, arguments = signature.rstrip(")").split(" (")
    return ctypes.CFUNCTYPE(*(_C_TYPES[each.strip().removeprefix("const ")] for each in (result, *arguments.split(","))))


_C_FUNCTIONS = {name: _c_type(signature) for name, signature in SIGNATURES.items()}


class NativeCallable:
    """C functions of a compiled function of `count` float64 numbers. They are thread-safe.

    Each is a ctypes function, which keeps the code alive, or None if the form has no such function:

    value           `double (int n, double *x, void *user_data)`, the form for `scipy.integrate`
    value_of_one    `double (double x, void *user_data)`, for one variable
    value_and_grad  `double (int64_t n, const double *x, double *gradient, void *user_data)`
    evaluate        `int32_t (int64_t n, const double *x, double *value, double *gradient)`, which returns a status: `words(status)`
    residuals       `int32_t (int64_t n, const double *x, int64_t m, double *residuals)`, a status
    jacobian        `int32_t (int64_t n, const double *x, int64_t m, double *residuals, double *matrix)`, of m rows of n numbers; a status
    rhs             `int32_t (double t, const double *y, double *dy, void *user_data)`, a status
    logp            `int64_t (uint64_t n, double *x, double *gradient, double *value, void *user_data)`: 0, 1 for a value that is not
                    finite, -1 for an error
    expand          `int64_t (uint64_t n, uint64_t m, double *x, double *out, void *user_data)`, which copies the numbers

    `value` and `value_and_grad` return NaN if the status is not 0. `gradient`, and each result of `jacobian`, may be NULL; `user_data` is
    not read. `addresses` and `signatures` are dicts by name, `rows` is the number m of results. `set` replaces data, and the number of
    its rows where the function is compiled with `batch=`.

    >>> import numpy as np, adjit
    >>> norm = adjit.compile(lambda x: np.sum(x * x)).as_callable(np.zeros(2))
    >>> norm.value(2, (ctypes.c_double * 2)(3.0, 4.0), None), norm.signatures["value"]
    (25.0, 'double (int, double *, void *)')
    """

    value: Any
    value_of_one: Any
    value_and_grad: Any
    evaluate: Any
    residuals: Any
    jacobian: Any
    rhs: Any
    logp: Any
    expand: Any

    def __init__(self, executable: NativeExecutable, objective: Objective, outer: Mapping[int, np.ndarray], variables: Variables | None):
        """`outer` has the arrays that callers do not pass, by number of the pointer; `variables` names the others, and data among them."""
        artifact = executable.code.artifact
        self.__name__ = artifact.name
        self.count, self._objective = objective.count, objective
        self._variables, self._outer = variables, dict(outer)
        self._pointers = pointers = (ctypes.c_void_p * max(len(outer), 1))(*(outer[number].ctypes.data for number in range(len(outer))))
        loaded = load(_object_code(callbacks_text(objective), artifact.target),
                      {ENTRY: executable.code.loaded.address, POINTERS: ctypes.addressof(pointers)})
        table = (ctypes.c_void_p * len(SIGNATURES)).from_address(loaded.address)
        self.addresses = {name: address for name, address in zip(SIGNATURES, table, strict=True) if address}
        self.signatures = {name: SIGNATURES[name] for name in self.addresses}
        for name, kind in _C_FUNCTIONS.items():
            made = kind(self.addresses[name]) if name in self.addresses else None
            if made is not None:
                made.code = loaded, executable.code, pointers, self._outer      # type: ignore[attr-defined]
            setattr(self, name, made)

    @property
    def rows(self) -> int:
        """Number of results, or of residuals or derivatives."""
        return self._sizes()[0]

    def _sizes(self) -> tuple[int, int]:
        objective = self._objective
        rows = int(self._outer[objective.rows]) if objective.rows >= 0 else 1
        first, second = (size * rows if per_row else size for size, per_row in zip(objective.sizes, objective.per_row, strict=True))
        return first, second

    def __call__(self, *numbers: Any) -> Any:
        """What the C functions compute, for Python: a float, or a float and the gradient; the residuals, or they and the Jacobian; for a
        right-hand side of `(t, y)` the derivatives. `numbers` is one vector, otherwise.

        Raises `ExportError` with the words of the status if that is not 0.

        >>> import numpy as np, adjit
        >>> c = adjit.compile(lambda p: np.stack([p["a"], p["a"] * p["b"]])).as_callable({"a": 1.0, "b": 2.0}, form="jacobian")
        >>> c(np.array([3.0, 2.0]))
        (array([3., 6.]), array([[1., 0.],
               [2., 3.]]))
        """
        *time, x = numbers
        x = np.ascontiguousarray(x, np.float64).reshape(-1)
        outs: list[Any] = [np.empty(size) for size in self._sizes() if size] or [np.empty(0)]
        given, *made = (array.ctypes.data_as(_DOUBLES) for array in (x, *outs))
        if self.rhs:
            if x.size != self.count:
                raise ExportError(f"{self.__name__}: {STATUS[1]}", find_user_location())
            status = self.rhs(*time, given, *made, None)
        elif self.evaluate:
            status = self.evaluate(x.size, given, *made, *[None] * (2 - len(made)))
            outs[0] = float(outs[0][0])
        elif self.jacobian:
            status, outs[1] = self.jacobian(x.size, given, self.rows, *made), outs[1].reshape(self.rows, self.count)
        else:
            status = self.residuals(x.size, given, self.rows, *made)
        if status:
            raise ExportError(f"{self.__name__}: {self.words(status)}", find_user_location())
        return outs[0] if len(outs) == 1 else tuple(outs)

    def set(self, **data: Any) -> None:
        """Replace the content of arguments named in `data=`: trees and arrays of the same structure, dtypes and shapes; those in `batch=`
        of `adjit.compile` may have another number of rows, together. Nothing is compiled, and C functions that were handed on see the new
        content. No call may be under way.

        Raises `ExportError` for other names, `ShapeError` and `DTypeError` for other arrays; then nothing is replaced.
        """
        known = self._variables.data if self._variables else {}
        new: dict[int, np.ndarray] = {}
        for name, tree in data.items():
            if name not in known:
                raise ExportError(f"{name} is no data of {self.__name__}: {', '.join(known) or 'it has none'}", find_user_location(),
                                  hint="name the arguments that are data: as_callable(..., data=('x', 'y'))")
            numbers, spec = known[name]
            leaves, found = flatten(tree)
            if found != spec:
                raise ShapeError(f"{name} has another structure: {_shortened(structure_text(found))}, expected "
                                 f"{_shortened(structure_text(spec))}", find_user_location(),
                                 hint="pass an array: np.asarray(...)" if spec.num_nodes == 1 else None)
            for number, leaf in zip(numbers, leaves, strict=True):
                old, array = self._outer[number], np.asarray(leaf)
                has_rows = number in self._variables.of_rows        # type: ignore[union-attr]
                if array.shape[has_rows:] != old.shape[has_rows:] or array.ndim != old.ndim:
                    expected = f"(rows, {', '.join(map(str, old.shape[1:]))})" if has_rows else old.shape
                    raise ShapeError(f"{name} has an array of shape {array.shape}, expected {expected}", find_user_location(),
                                     hint=self._variables.hint)     # type: ignore[union-attr]
                if not np.can_cast(array.dtype, old.dtype, "same_kind"):
                    raise DTypeError(f"{name} has an array of {array.dtype}, expected {old.dtype}", find_user_location())
                new[number] = array
        self._set_rows({**self._outer, **new})
        for number, array in new.items():
            if self._outer[number].shape == array.shape:
                self._outer[number][...] = array
            else:
                self._outer[number] = np.array(array, self._outer[number].dtype, order="C")
                self._pointers[number] = self._outer[number].ctypes.data

    def _set_rows(self, arrays: Mapping[int, np.ndarray]) -> None:
        """Set the number of rows to that of these arrays."""
        if self._objective.rows < 0 or self._variables is None:
            return
        known = {name: arrays[number].shape[0] for name, (numbers, _) in self._variables.data.items()
                 for number in numbers if number in self._variables.of_rows}
        rows, least = next(iter(known.values())), self._variables.least_rows
        other = next((name for name, length in known.items() if length != rows), None)
        if other is not None:
            raise ShapeError(f"{other} has {known[other]} rows, and {next(iter(known))} has {rows}", find_user_location(),
                             hint="give all data that has rows at once: c.set(x=..., y=...)")
        if not least <= rows <= MOST_ROWS:
            raise ShapeError(f"{next(iter(known))} has {rows} row{'s' * (rows != 1)}: {self.__name__} is for {least} to {MOST_ROWS}",
                             find_user_location(), hint=self._variables.hint)
        self._outer[self._objective.rows][...] = rows

    def nutpie_model(self, jitter: float = 1.0) -> Any:
        """The model for `nutpie.sample`, of the form "nutpie": NUTS then runs in nutpie's threads without Python. Variables are named after
        the arguments and their keys; chains start at the examples, moved by up to `jitter` in each number.

        Raises `ExportError` for other forms, `ImportError` without nutpie.
        """
        if "logp" not in self.addresses or self._variables is None:
            raise ExportError(f"{self.__name__} is not of the form 'nutpie'", find_user_location(), hint="as_callable(..., form='nutpie')")
        shapes, start = self._variables.shapes, self._variables.start
        ends = np.cumsum([0, *map(prod, shapes.values())]).tolist()
        model = import_module("nutpie.compile_pymc").CompiledPyMCModel
        return model(
            dims={}, compiled_logp_func=_Address(self.addresses["logp"]), compiled_expand_func=_Address(self.addresses["expand"]),
            initial_point_func=lambda seed: start + np.random.default_rng(seed).uniform(-jitter, jitter, self.count),
            shared_data={}, user_data=np.zeros((), np.uint64), n_expanded=self.count, logp_func=self, expand_func=self,
            shape_info=(list(shapes), list(itertools.pairwise(ends)), list(shapes.values())),
            _n_dim=self.count, _shapes=dict(shapes), _coords={})

    def __repr__(self) -> str:
        return f"<{self.__name__} for C, of {self.count} numbers: {', '.join(self.addresses)}>"

    @staticmethod
    def words(status: int) -> str:
        """The meaning of a status."""
        return STATUS[status] if 0 <= status < len(STATUS) else "an unknown status"

    def low_level_callable(self) -> Any:
        """The `scipy.LowLevelCallable` of `value`, which SciPy's integrators call without Python."""
        return import_module("scipy").LowLevelCallable(self.value)


def _shortened(text: str) -> str:
    """The beginning of a text: lists of lists have an entry for each number."""
    return text if len(text) <= 80 else f"{text[:80]}..."


class _Address:
    """What nutpie reads of a C function."""

    def __init__(self, address: int) -> None:
        self.address = address


@functools.lru_cache(maxsize=64)
def _object_code(text: str, target: str) -> CompiledObject:
    """Object code of the C functions: from the disk cache, or compiled and kept there."""
    key, disk = sha256(json.dumps([*compiler(), "callable", target, text]).encode()), disk_cache()
    found = disk.get(key).found
    if found is None:
        found = CompiledObject(compile_program_text(text, TARGETS[target]).object_code, SYMBOL)
        disk.put(key, found)
    return found


def make_callable(program: Program, captured: Sequence[np.ndarray] | None, signature: CallSignature) -> NativeCallable:
    """The functions of a program of numbers or one array, which returns a number, or one and its gradient, for the call `signature`. The
    arrays `captured` are copied.

    Raises `ExportError` if the program is no scalar function of float64, or if `captured` is None: then the program is no longer valid.
    """
    executable, params, outer, results = describe(program, captured, signature)
    arguments = [param for param in params if param.source == "argument"]
    if not arguments or any(param.dtype != "f64" for param in arguments):
        raise _unfit("its arguments are not all float64")
    if len(arguments) > 1 and any(param.shape for param in arguments):
        raise _unfit("it has several arguments, and they are not all numbers")
    count = sum(prod(param.shape) for param in arguments)
    starts = {param.name: index for index, param in enumerate(arguments)}       # one array, or several numbers
    artifact = executable.code.artifact
    dtypes, shapes = [result.dtype for result in artifact.results], [tuple(result.shape) for result in artifact.results]
    if sorted(results) != list(range(len(dtypes))) or not results or any(dtype != "f64" for dtype in dtypes) or shapes[results[0]]:
        raise _unfit("its result is not a float64 number, or a float64 number and its gradient")
    value, *gradient = results
    if gradient and [shapes[number] for number in gradient] != [param.shape for param in arguments]:
        raise _unfit("its second result is not the gradient with respect to all its arguments")
    places = {value: Place("first"), **{number: Place("second", index) for index, number in enumerate(gradient)}}
    return NativeCallable(executable, Objective(
        "value_and_grad" if gradient else "value", count, places_of(params, lambda param: Place("x", starts[param.name])),
        [places[number] for number in range(len(places))], (1, count if gradient else 0), artifact.arena_bytes), outer, None)


def describe(program: Program, captured: Sequence[np.ndarray] | None, signature: CallSignature
             ) -> tuple[NativeExecutable, tuple[ExportedParameter, ...], dict[int, np.ndarray], list[int]]:
    """The executable, its parameters, copies of the arrays that it captured, in their order, and the numbers of the results in the order of
    what the function returns."""
    if captured is None:
        raise ExportError(f"the function's state has changed since its last call: {program.changed()}", hint="pass example arguments")
    executable = program.executable
    assert isinstance(executable, NativeExecutable)
    interface = describe_program(program, signature)
    if any(param.source == "state" or param.written for param in interface.params):
        raise _unfit("it changes arrays that are arguments, or that it captures")
    constants = [param for param in interface.params if param.source == "constant"]
    outer = {number: array_of(array, param) for number, (param, array) in enumerate(zip(constants, captured, strict=False))}
    return executable, interface.params, outer, list(leaf_paths(interface.result, "", {}))


def places_of(params: Sequence[ExportedParameter], place: Any) -> list[Place]:
    """Places of parameters: constants have the pointers in their order, arguments and the number of rows `place(param)`."""
    found, constants = [], 0
    for param in params:
        if param.source == "constant":
            found.append(Place("pointers", constants))
            constants += 1
        else:
            found.append(place(param))
    return found


def _unfit(why: str) -> ExportError:
    return ExportError(f"the function cannot be called with numbers from C: {why}",
                       hint="compile a function of one float64 array, or of floats, that returns one number, or its value_and_grad; or say "
                       "which form= it has, and which arguments are data=")
