"""Functions of `adjit.scipy` beside SciPy's: values in programs, slopes beside differences, of two orders, eager tensors."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

import adjit as aj

Case = tuple[Callable[[Any], Callable[..., Any]], tuple[Any, ...]]
"""Function of a module, which gives the function that is called, and its arguments."""


def some(cases: dict[str, Case], everything: bool, start: int = 0, step: int = 8) -> dict[str, Case]:
    """All cases, or every eighth (or `step`-th)."""
    return cases if everything else dict(list(cases.items())[start::step])


def as_list(results: Any) -> list[Any]:
    return list(results) if isinstance(results, (tuple, list)) else [results]


def check_values(case: Case, ours: ModuleType, theirs: ModuleType, backend: str, rtol: float = 1e-10) -> None:
    """Compare values, dtypes and shapes of a program with SciPy's; float32 in its own precision, tensors in the same."""
    make, arrays = case
    with warnings.catch_warnings(action="ignore"):
        wanted = as_list(make(theirs)(*arrays))
        found = as_list(aj.compile(make(ours), backend=backend)(*arrays))
        compare(found, wanted, rtol)
        plain = as_list(make(ours)(*arrays))
    for result, expected in zip(plain, wanted, strict=True):
        np.testing.assert_array_equal(result, expected)


def compare(found: list[Any], wanted: list[Any], rtol: float) -> None:
    for result, expected in zip(found, wanted, strict=True):
        result, expected = np.asarray(result), np.asarray(expected)
        assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
        near = rtol if expected.dtype.itemsize == (16 if expected.dtype.kind == "c" else 8) else 2e-5
        scale = np.max(np.abs(expected), initial=0.0, where=np.isfinite(expected))
        np.testing.assert_allclose(result, expected, rtol=near, atol=near * (1e-300 + float(scale)))


def check_float32(case: Case, ours: ModuleType, theirs: ModuleType) -> None:
    """Compare the program of float32 arguments with SciPy's results, and its dtypes where SciPy keeps float32."""
    make, arrays = case
    small = tuple(x.astype(np.float32) if np.asarray(x).dtype == np.float64 else x for x in arrays)
    wanted, found = as_list(make(theirs)(*small)), as_list(aj.compile(make(ours), backend="interpret")(*small))
    for result, expected in zip(found, wanted, strict=True):
        if np.asarray(expected).dtype.kind == "f":
            np.testing.assert_allclose(result, expected, rtol=2e-3, atol=2e-4 * float(np.max(np.abs(expected), initial=1.0)))


def total(results: Any) -> Any:
    """A number made of all results; works with traced values."""
    found: Any = 0.0
    for number, part in enumerate(as_list(results)):
        if part.dtype.kind == "c":
            part = part.real + 0.5 * part.imag
        if part.dtype.kind == "f":
            part = np.where(np.isfinite(part), part, 0.0)
            found = found + np.sum(np.cos(np.arange(float(np.prod(part.shape))).reshape(part.shape) + number) * part)
    return found


def check_derivatives(case: Case, ours: ModuleType, backend: str = "interpret", twice: bool = True) -> None:
    """Compare slopes along a random direction with differences of values, and second slopes with differences of slopes."""
    make, arrays = case
    places = tuple(k for k, x in enumerate(arrays) if np.asarray(x).dtype == np.float64)
    generator = np.random.default_rng(4)
    along = tuple(generator.normal(size=np.shape(arrays[k])) for k in places)

    def function(*moving: Any) -> Any:
        given = list(arrays)
        for place, x in zip(places, moving, strict=True):
            given[place] = x
        return total(make(ours)(*given))

    def moved(distance: float) -> list[Any]:
        return [np.asarray(arrays[k]) + distance * x for k, x in zip(places, along, strict=True)]

    every = tuple(range(len(places)))
    gradient = aj.compile(aj.grad(function, every), backend=backend)
    value = aj.compile(function, backend=backend)

    def slope(distance: float) -> Any:
        return sum(np.sum(g * x) for g, x in zip(gradient(*moved(distance)), along, strict=True))

    difference = (value(*moved(1e-6)) - value(*moved(-1e-6))) / 2e-6
    np.testing.assert_allclose(slope(0.0), difference, rtol=2e-6, atol=2e-6)
    if twice:
        second = as_list(aj.compile(lambda *moving: aj.hvp(function, moving, along), backend=backend)(*moved(0.0)))
        found = sum(np.sum(g * x) for g, x in zip(second, along, strict=True))
        np.testing.assert_allclose(found, (slope(1e-5) - slope(-1e-5)) / 2e-5, rtol=1e-4, atol=1e-4)


def check_mapped(case: Case, ours: ModuleType) -> None:
    """Compare a program of `vmap` over the first argument of floats with one call after the other."""
    make, arrays = case
    place = next(k for k, x in enumerate(arrays) if np.asarray(x).dtype == np.float64)
    rows = np.stack([arrays[place] * factor for factor in (1.0, 0.99, 1.01)])

    def function(x: Any) -> Any:
        return make(ours)(*arrays[:place], x, *arrays[place + 1:])

    single = aj.compile(function, backend="interpret")
    wanted = zip(*(as_list(single(x)) for x in rows), strict=True)
    for found, parts in zip(as_list(aj.compile(aj.vmap(function), backend="interpret")(rows)), wanted, strict=True):
        scale = np.max(np.abs(parts), initial=0.0, where=np.isfinite(parts))
        np.testing.assert_allclose(found, np.stack(parts), rtol=1e-9, atol=1e-10 * float(scale))


def check_tensors(case: Case, ours: ModuleType, theirs: ModuleType) -> None:
    """Compare what eager tensors give, and their gradients with those of a program."""
    make, arrays = case
    tensors = [aj.tensor(x, requires_grad=True) if np.asarray(x).dtype == np.float64 else x for x in arrays]
    found = as_list(make(ours)(*tensors))
    compare([part.detach().numpy() for part in found], as_list(make(theirs)(*arrays)), 1e-10)
    places = tuple(k for k, x in enumerate(arrays) if np.asarray(x).dtype == np.float64)
    wanted = aj.compile(aj.grad(lambda *given: total(make(ours)(*given)), places), backend="interpret")(*arrays)
    total(found).backward()
    for place, expected in zip(places, wanted, strict=True):
        given = tensors[place].grad
        np.testing.assert_allclose(np.zeros_like(expected) if given is None else given.numpy(), expected, rtol=1e-9, atol=1e-10)
