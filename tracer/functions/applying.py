"""Functions that call the user's function on parts of an array, and choices among arrays by number."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from adjit.ir.types import BOOL, F64, I64, is_float
from adjit.tracer import lowering
from adjit.tracer.array import TracedArray, as_traced, wrap
from adjit.tracer.dispatch import implements
from adjit.tracer.functions.shapes import as_array, expand_dims, moveaxis, normalize_axis, reshape_to
from adjit.tracer.functions.ufuncs import store
from adjit.tracer.registry import FUNCTIONS


@implements(np.piecewise)
def piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Any:
    """Equivalent of `numpy.piecewise`: functions get the elements that their condition chooses."""
    array = as_traced(x)
    conditions = list(condlist) if isinstance(condlist, (list, tuple)) and np.ndim(condlist[0]) == array.ndim else (
        [condlist] if np.ndim(condlist) == array.ndim else list(condlist))
    if len(funclist) == len(conditions) + 1:
        conditions.append(~FUNCTIONS[np.any](FUNCTIONS[np.stack]([as_traced(condition) for condition in conditions]), axis=0))
    elif len(funclist) != len(conditions):
        raise ValueError(f"with {len(conditions)} condition(s), either {len(conditions)} or {len(conditions) + 1} functions are expected")
    flat = FUNCTIONS[np.atleast_1d](array)
    result = FUNCTIONS[np.zeros_like](flat)
    for condition, function in zip(conditions, funclist, strict=True):
        mask = reshape_to(FUNCTIONS["astype"](condition, bool), flat.shape)
        result[mask] = function(flat[mask], *args, **kw) if callable(function) else function
    return reshape_to(result, array.shape)


@implements(np.choose)
def choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Any:
    """Equivalent of `numpy.choose`."""
    number = as_array(a)
    arrays = FUNCTIONS[np.broadcast_arrays](number, *(as_array(choice) for choice in choices))
    index, stacked = arrays[0], FUNCTIONS[np.stack](list(arrays[1:]))
    count = stacked.shape[0]
    if mode == "wrap":
        index = index % count
    elif mode == "clip":
        index = FUNCTIONS[np.clip](index, 0, count - 1)
    elif mode != "raise":
        raise ValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {mode!r})")
    else:       # negative numbers are not counted from the end
        index = FUNCTIONS[np.where](FUNCTIONS[np.less](index, 0), count, index)
    return store(FUNCTIONS[np.take_along_axis](stacked, index[None], axis=0)[0], out, "unsafe", "choose")


@implements(np.apply_along_axis)
def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any) -> Any:
    """Equivalent of `numpy.apply_along_axis`: calls `func1d` once for each slice."""
    x = as_array(arr)
    dim = normalize_axis(axis, x.ndim)
    last = moveaxis(x, dim, -1)
    outer = last.shape[:-1]
    if 0 in outer:
        raise ValueError("Cannot apply_along_axis when any iteration dimensions are 0")
    parts = [as_traced(func1d(last[place], *args, **kwargs)) for place in product(*map(range, outer))]
    stacked = FUNCTIONS[np.stack](parts)
    result = reshape_to(stacked, (*outer, *parts[0].shape))
    inner = tuple(range(len(outer), result.ndim))
    return moveaxis(result, inner, range(dim, dim + len(inner)))


@implements(np.apply_over_axes)
def apply_over_axes(func: Callable[..., Any], a: Any, axes: Any) -> TracedArray:
    """Equivalent of `numpy.apply_over_axes`."""
    result = as_array(a)
    ndim = result.ndim
    for axis in (axes,) if np.ndim(axes) == 0 else axes:
        reduced = as_traced(func(result, normalize_axis(axis, ndim)))
        result = reduced if reduced.ndim == result.ndim else expand_dims(reduced, axis)
        if result.ndim != ndim:
            raise ValueError("function is not returning an array of the correct shape")
    return result


def call_vectorized(vectorized: np.vectorize, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call `np.vectorize(f)` on traced arrays: `f` once for each element, which it gets as a Python number, as from NumPy; with a signature
    once for each of the parts that this describes."""
    excluded = vectorized.excluded      # type: ignore[attr-defined]
    names = [name for name in kwargs if name not in excluded]
    places = [place for place in range(len(args)) if place not in excluded]
    arrays = [as_array(x) for x in (*(args[place] for place in places), *(kwargs[name] for name in names))]
    otypes = vectorized.otypes      # type: ignore[attr-defined]

    def outputs(elements: list[TracedArray]) -> tuple[Any, ...]:
        given, named = list(args), dict(kwargs) | dict(zip(names, elements[len(places):], strict=True))
        for place, element in zip(places, elements, strict=False):
            given[place] = element
        result = vectorized.pyfunc(*given, **named)
        return result if isinstance(result, tuple) else (result,)

    if vectorized.signature is not None:        # type: ignore[attr-defined]
        inputs, results_of = vectorized._in_and_out_core_dims       # type: ignore[attr-defined]
        return _call_by_signature(inputs, results_of, arrays, outputs, otypes)
    shape = np.broadcast_shapes(*(x.shape for x in arrays))
    flat = [reshape_to(FUNCTIONS[np.broadcast_to](x, shape), (math.prod(shape),)) for x in arrays]
    rows = [outputs([_as_number(x[position]) for x in flat]) for position in range(math.prod(shape))]
    if not rows:
        if not otypes:
            raise ValueError("cannot call `vectorize` on size 0 inputs unless `otypes` is set")
        empty = tuple(wrap(lowering.constant(0, np.dtype(kind), shape), scalar=False) for kind in otypes)
        return empty if len(empty) > 1 else empty[0]
    # NumPy has the dtypes from another call, of the first elements as they are.
    dtypes = [np.dtype(kind) for kind in otypes] if otypes else [as_traced(each).dtype for each in outputs([x[0] for x in flat])]
    results = []
    for column, dtype in zip(zip(*rows, strict=True), dtypes, strict=True):
        stacked = FUNCTIONS[np.stack]([FUNCTIONS["astype"](value, dtype) for value in column])
        results.append(wrap(lowering.reshape(stacked.value, shape), scalar=False))
    return tuple(results) if len(results) > 1 else results[0]


def _call_by_signature(inputs: Any, outputs: Any, arrays: list[TracedArray], call: Callable[[list[TracedArray]], tuple[Any, ...]],
                       otypes: Any) -> Any:
    """Results of `call` for the parts of arrays that have the core dimensions of a signature."""
    if len(arrays) != len(inputs):
        raise TypeError(f"wrong number of positional arguments: expected {len(inputs)}, got {len(arrays)}")
    sizes: dict[str, int] = {}
    for x, names in zip(arrays, inputs, strict=True):
        if x.ndim < len(names):
            raise ValueError(f"{x.ndim}-dimensional argument does not have enough dimensions for all core dimensions {names!r}")
        for name, size in zip(names, x.shape[x.ndim - len(names):], strict=True):
            if sizes.setdefault(name, size) != size:
                raise ValueError(f"inconsistent size for core dimension {name!r}: {size!r} vs {sizes[name]!r}")
    cores = [x.shape[x.ndim - len(names):] for x, names in zip(arrays, inputs, strict=True)]
    shape = np.broadcast_shapes(*(x.shape[:x.ndim - len(core)] for x, core in zip(arrays, cores, strict=True)))
    given = [FUNCTIONS[np.broadcast_to](x, (*shape, *core)) for x, core in zip(arrays, cores, strict=True)]
    rows = [call([x[place] for x in given]) for place in product(*map(range, shape))]
    if not rows:
        if not otypes or any(name not in sizes for names in outputs for name in names):
            raise ValueError("cannot call `vectorize` on size 0 inputs unless `otypes` is set" if not otypes else
                             "cannot call `vectorize` with a signature including new output dimensions on size 0 inputs")
        empty = tuple(wrap(lowering.constant(0, np.dtype(kind), (*shape, *(sizes[name] for name in names))), scalar=False)
                      for kind, names in zip(otypes, outputs, strict=True))
        return empty if len(empty) > 1 else empty[0]
    if len(rows[0]) != len(outputs):
        raise ValueError(f"wrong number of outputs from pyfunc: expected {len(outputs)}, got {len(rows[0])}")
    results = []
    for number, column in enumerate(zip(*rows, strict=True)):
        parts = [as_traced(value) for value in column]
        dtype = np.dtype(otypes[number]) if otypes else parts[0].dtype      # NumPy makes the array for the first result
        stacked = FUNCTIONS[np.stack]([FUNCTIONS["astype"](part, dtype) for part in parts])
        results.append(wrap(lowering.reshape(stacked.value, (*shape, *parts[0].shape)), scalar=False))
    return tuple(results) if len(results) > 1 else results[0]


def _as_number(x: TracedArray) -> TracedArray:
    """Element of an array as the Python number that `.item()` gives."""
    if x.dtype == BOOL:
        return x
    return wrap(lowering.convert(x.value, F64 if is_float(x.dtype) else I64), weak=True)
