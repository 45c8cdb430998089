"""Forms of `as_callable`: values, residuals, derivatives, right-hand sides of functions of trees, as programs of a vector and of data."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np

from adjit.codegen.native.artifact import Result
from adjit.codegen.native.c_callbacks import FORMS, Objective, Place
from adjit.ir.dataclass import dataclass
from adjit.ir.errors import ArgumentError, DTypeError, ExportError, ShapeError
from adjit.runtime.caches.transform_cache import kept
from adjit.runtime.compile_options import function_name
from adjit.runtime.compiled import CompiledFunction, make_compiled
from adjit.runtime.exports.native_callable import NativeCallable, describe, places_of
from adjit.runtime.jacobians import jacobian
from adjit.runtime.parameter_vectors import ravel_pytree
from adjit.runtime.transforms import value_and_grad
from adjit.tracer.trees import TreeSpec, as_name, flatten, paths, unflatten
from adjit.tracer.user_location import find_user_location, return_location

Function = Callable[..., Any]


_HINT = "call as_callable again for other shapes"


@dataclass(frozen=True, slots=True)
class Variables:
    """What the numbers of a vector are: shapes by name, and example values; for each argument that is data the numbers of its pointers, and
    its structure. Arrays in `of_rows` have any number of rows, `least_rows` at least; `hint` is for other shapes."""

    shapes: Mapping[str, tuple[int, ...]]
    start: np.ndarray
    data: Mapping[str, tuple[list[int], TreeSpec]]
    of_rows: frozenset[int] = frozenset()
    least_rows: int = 1
    hint: str = _HINT


class _Arguments:
    """The example arguments of a form: those that vary, as one vector, the time, data, of which some have any number of rows, and static
    ones. Raises `ExportError` or `DTypeError` for those of another form."""

    def __init__(self, function: CompiledFunction, fun: Function, args: tuple[Any, ...], kwargs: dict[str, Any], form: str,
                 data: str | Iterable[str]):
        name, where = function_name(fun), find_user_location()
        try:
            self.bound = inspect.signature(fun).bind(*args, **kwargs)
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"as_callable of {name}: {error}", where, hint="pass an example of each argument") from None
        self.given = given = dict(self.bound.arguments)
        names = (data,) if isinstance(data, str) else tuple(data)
        for each in names:
            if each not in given:
                raise ExportError(f"as_callable: data={each!r} is no argument of {name}, which has {', '.join(given)}", where)
        self.static = {each: given[each] for each in given if each in function.compile_options.static}
        free = [each for each in given if each not in names and each not in self.static]
        if form == "rhs":
            free = [each for each in given if each not in self.static]
            if len(free) < 2 or not set(names).isdisjoint(free[:2]):
                raise ExportError(f"as_callable: {name} is no right-hand side of t, y and data", where,
                                  hint="form='rhs' takes f(t, y, ...), of which t and y vary, and all further arguments are data")
            names, free = tuple(free[2:]), free[:2]
        elif not free:
            raise ExportError(f"as_callable: {name} has no argument that varies", where, hint="leave one out of data=")
        self.of_rows = tuple(each for each in names if each in function.compile_options.batch)
        self.names = (*self.of_rows, *(each for each in names if each not in self.of_rows))
        self.time, varied = (free[:1], free[1:]) if form == "rhs" else ([], free)
        leaves, self.spec = flatten({each: given[each] for each in varied})
        alone = len(varied) == 1 and len(leaves) > 1
        self.labels = [as_name(path) for path in paths(flatten(given[varied[0]])[1] if alone else self.spec)]
        for label, leaf in zip(self.labels, leaves, strict=True):
            if not isinstance(leaf, float) and getattr(leaf, "dtype", None) != np.float64:
                kind = leaf.dtype if hasattr(leaf, "dtype") else type(leaf).__name__
                raise DTypeError(f"as_callable of {name}: {label} is {kind}, and what varies is float64", where,
                                 hint="pass float64, or name the argument in data=")
        self.shapes = tuple(np.shape(leaf) for leaf in leaves)
        self.vector = np.concatenate([np.ravel(leaf) for leaf in leaves]).astype(np.float64) if leaves else np.zeros(0)
        self.held = {each: unflatten(flatten(given[each])[1], [_array(leaf, each, name) for leaf in flatten(given[each])[0]])
                     for each in self.names}

    def example(self) -> tuple[Any, ...]:
        """The arguments of the function that is compiled."""
        rows = {each: self.held[each] for each in self.of_rows}
        return 0.0 if self.time else None, self.vector, rows, {each: self.held[each] for each in self.names[len(self.of_rows):]}


def make_form(function: CompiledFunction, fun: Function, args: tuple[Any, ...], kwargs: dict[str, Any], form: str,
              data: str | Iterable[str]) -> NativeCallable:
    """The C functions of a form, for example arguments. See `CompiledFunction.as_callable`."""
    if form not in FORMS:
        raise ExportError(f"as_callable: form={form!r}, expected one of {', '.join(map(repr, FORMS))}", find_user_location())
    given = _Arguments(function, fun, args, kwargs, form, data)
    compiled = _compiled(function, fun, form, given)
    signature = compiled._signature(compiled.fun, given.example(), {})
    program, captured = compiled._native(compiled.fun, given.example(), {}, signature)
    executable, params, outer, results = describe(program, captured, signature)
    artifact = executable.code.artifact
    sizes, per_row = _sizes(fun, form, given, artifact.results, results)

    traced = [param for param in params if param.source == "argument"]
    pointers = {param.name: len(outer) + number for number, param in enumerate(traced[1 + len(given.time):])}
    for number, leaf in zip(pointers.values(), flatten(given.held)[0], strict=True):
        outer[number] = np.array(leaf, order="C")
    places = {param.name: Place(buffer) for param, buffer in zip(traced, ("time", "x") if given.time else ("x",), strict=False)}
    places.update({each: Place("pointers", number) for each, number in pointers.items()})
    if program.loops_over_rows:
        places["rows"] = Place("pointers", len(outer))
        outer[len(outer)] = np.array(signature.rows, np.int64)
    buffers = dict(zip(results, ("first", "second"), strict=False))
    ends = [0, *accumulate(len(flatten(given.given[each])[0]) for each in given.names)]
    numbers = list(pointers.values())
    hint = _HINT
    if not program.loops_over_rows and program.about_rows:
        hint = f"{_HINT}: it has {program.about_rows}".replace("rows of rows", f"rows of {', '.join(given.of_rows)}")
    return NativeCallable(
        executable, Objective(form, given.vector.size, places_of(params, lambda param: places[param.name]),
                              [Place(buffers[number]) for number in range(len(results))], (sizes[0], sum(sizes[1:])), artifact.arena_bytes,
                              places["rows"].start if program.loops_over_rows else -1, (per_row[0], any(per_row[1:]))),
        outer, Variables(dict(zip(given.labels, given.shapes, strict=True)), given.vector,
                         {each: (numbers[start:end], flatten(given.given[each])[1])
                          for each, start, end in zip(given.names, ends, ends[1:], strict=False)},
                         frozenset(numbers[:ends[len(given.of_rows)]] if program.loops_over_rows else ()), program.least_rows or 1, hint))


def _compiled(function: CompiledFunction, fun: Function, form: str, given: _Arguments) -> CompiledFunction:
    """The compiled function of a form: the same one for arguments of the same types."""
    def make() -> CompiledFunction:
        body = _body(fun, form, given.bound, given.static, given.time, given.spec, given.shapes)
        body.__name__ = body.__qualname__ = f"{form}_of_{function_name(fun)}"
        return make_compiled(body, replace(function.compile_options, backend="native", static=frozenset(), donate=frozenset(),
                                           batch=frozenset({"rows"} if given.of_rows else ()), keeps_rows=False))

    try:
        return kept(fun, ("callable", form, given.names, given.spec, given.shapes, tuple(given.static.items()), function.compile_options),
                    make)
    except TypeError:       # a static value that is not hashable
        return make()


def _sizes(fun: Function, form: str, given: _Arguments, made: Sequence[Result], results: Sequence[int]) -> tuple[list[int], list[bool]]:
    """Numbers in each result, for each row of those that have rows, and whether it has. Raises `DTypeError` or `ShapeError` for results of
    another form."""
    where = return_location(fun) or find_user_location()
    if any(result.dtype != "f64" for result in made) or sorted(results) != list(range(len(results))):
        raise DTypeError(f"as_callable of {function_name(fun)}: it does not return float64", where)
    sizes = [prod(made[number].shape[1:]) * made[number].per_row or prod(made[number].shape) for number in results]
    if form == "rhs" and sizes[0] != given.vector.size:
        raise ShapeError(f"as_callable of {function_name(fun)}: {sizes[0]} derivatives of {given.vector.size} numbers", where)
    return sizes, [bool(made[number].per_row) for number in results]


def _array(leaf: Any, what: str, name: str) -> np.ndarray:
    array = np.asarray(leaf)
    if array.dtype.kind not in "fiubc":
        raise DTypeError(f"as_callable of {name}: {what} has {type(leaf).__name__}, and data are arrays and numbers", find_user_location(),
                         hint="what is no array belongs in static= of adjit.compile")
    return array


def _body(fun: Function, form: str, bound: inspect.BoundArguments, static: dict[str, Any], time: list[str], spec: TreeSpec,
          shapes: tuple[tuple[int, ...], ...]) -> Function:
    """The function of the time, a vector and data that is compiled."""
    signature, ends = bound.signature, [0, *accumulate(map(prod, shapes))]

    def called(t: Any, x: Any, rows: Any, data: Any) -> Any:
        leaves = [np.reshape(x[start:end], shape) for start, end, shape in zip(ends, ends[1:], shapes, strict=False)]
        arguments = inspect.BoundArguments(signature, {**static, **dict.fromkeys(time, t), **unflatten(spec, leaves), **rows, **data})  # type: ignore[arg-type]
        arguments.arguments = {each: arguments.arguments[each] for each in signature.parameters if each in arguments.arguments}
        return fun(*arguments.args, **arguments.kwargs)

    def number(x: Any, rows: Any, data: Any) -> Any:
        value = called(None, x, rows, data)
        if isinstance(value, (tuple, list, dict)) or np.shape(value):
            raise ShapeError(f"as_callable: {function_name(fun)} returns no number", return_location(fun) or find_user_location(),
                             hint=f"form={form!r} is of a function that returns one number: the form differentiates it")
        return value

    def vector(x: Any, rows: Any, data: Any, t: Any = None) -> Any:
        return ravel_pytree(called(t, x, rows, data))[0]

    if form == "value":
        return lambda t, x, rows, data: number(x, rows, data)
    if form in ("value_and_grad", "nutpie"):
        return lambda t, x, rows, data: value_and_grad(number)(x, rows, data)
    if form == "jacobian":
        return lambda t, x, rows, data: (vector(x, rows, data), jacobian(vector)(x, rows, data))
    return lambda t, x, rows, data: vector(x, rows, data, t)
