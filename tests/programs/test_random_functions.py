"""Random programs as users write them against NumPy: results, dtypes, errors and derivatives, on every backend, call after call.

120 programs, the same ones in every run; `--exhaustive` runs ten thousand others, RANDOM_EXAMPLES=2000 that many. A program
that fails is printed as a script.
"""

from __future__ import annotations

import os
import re
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from support.differences import slope
from support.noisy_arrays import tolerances
from support.random_functions import DTYPES, Source, Values, random_source

import adjit as aj
from adjit.codegen.llvm.target import host_targets
from adjit.ir.errors import AdjitError

CHUNKS = 10
"""Tests that the programs are divided among, so that they run side by side."""


class Failed(AssertionError):
    """A program of which something is wrong."""

    def __init__(self, source: Source, what: str):
        super().__init__(f"seed {source.seed}: {what}\n\n{source.script()}")


IN_THE_GATE = 120
FLOATS = (*["float64"] * 6, "int64", "bool")


def programs(chunk: int, exhaustive: bool, dtypes: Sequence[str] = DTYPES, one_of: int = 1) -> Iterator[Source]:
    count = int(os.environ.get("RANDOM_EXAMPLES", "10000" if exhaustive else str(IN_THE_GATE)))
    first = 0 if count == IN_THE_GATE and not exhaustive else time.time_ns() // 1_000_000_000 * count
    for seed in range(first + chunk * one_of, first + count, CHUNKS * one_of):
        yield random_source(seed, 1 + seed // CHUNKS % 12, dtypes)


def backend_of(source: Source) -> str:
    """Numba for one in forty; native programs for two of five, where there are some."""
    number = source.seed // CHUNKS
    return "numba" if number % 40 == 20 else "native" if number % 5 < 2 and host_targets() else "interpret"


@contextmanager
def quietly() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        patch.setenv("ADJIT_CACHE_SIZE", "0")
        yield


def run_in_numpy(source: Source, values: Values, around: Callable[[Any], Any] = lambda array: array) -> Any:
    """What NumPy gives for arrays of its own, or the error that it raises."""
    arguments, outside = ([around(array.copy(order="K")) for array in arrays] for arrays in values)
    for array in (*arguments, *outside):
        if isinstance(array, np.ndarray):
            array.flags.writeable = False
    try:
        return source.function(outside)(*arguments)
    except Exception as error:
        return error


def check_results(source: Source, values: Values, found: Any, wanted: Any, special: bool) -> int:
    """Whether results have the dtypes, shapes and elements of NumPy's; how many of them hang on rounding, and are not compared."""
    if len(found) != len(wanted):
        raise Failed(source, f"{len(found)} results")
    skipped = 0
    for index, (array, expected, tolerance) in enumerate(zip(
            found, wanted, tolerances(lambda around: run_in_numpy(source, values, around), wanted), strict=True)):
        dtype = expected.dtype.newbyteorder("=")
        if not isinstance(array, np.ndarray if expected.ndim else np.generic) or (array.dtype, array.shape) != (dtype, expected.shape):
            raise Failed(source, f"result {index} is {type(array)} {array.dtype}{array.shape}, not {dtype}{expected.shape}")
        if tolerance is None or (special and re.search("einsum|dot|copysign|signbit", source.text)):      # other sums; NaN's sign
            skipped += 1
            continue
        if "linalg" in source.text and expected.dtype.kind == "f":      # eliminations round on their own terms
            tolerance = tolerance + 1e4 * np.finfo(expected.dtype).eps * np.max(np.abs(expected), initial=1, where=np.isfinite(expected))
        with np.errstate(invalid="ignore"):
            fine = (array == expected) | (np.abs(np.subtract(array, expected, dtype=float)) <= tolerance)
        if not np.all(fine | ((array != array) & (expected != expected))):
            raise Failed(source, f"result {index} is\n{array}, not\n{expected}, for\n{values}")
    return skipped


def same_numbers(one: Any, other: Any) -> bool:
    """Whether results are the same but for rounding; of errors, whether both are."""
    if isinstance(one, Exception) or isinstance(other, Exception):
        return isinstance(one, Exception) and isinstance(other, Exception)
    return all(a.shape == b.shape and np.allclose(a, b, rtol=1e-3, equal_nan=True) for a, b in zip(one, other, strict=True))


def check_values(source: Source, backend: str) -> tuple[int, int, str]:
    """Call after call with other numbers, other layouts, and arrays outside that changed: how many results there were, how many hang on
    rounding, and why adjit refused the program."""
    outside = [array.copy() for array in source.outside]
    compiled = aj.compile(source.function(outside), backend=backend)
    results = skipped = 0
    for number, (arguments, contents) in enumerate(source.calls()):
        for array, content in zip(outside, contents, strict=True):
            array[...] = content
        wanted = run_in_numpy(source, (arguments, contents))
        straight = run_in_numpy(source, ([np.asarray(array, order="C")[()] for array in arguments], contents))
        if not same_numbers(wanted, straight):          # written to what is a view in one order and a copy in another
            continue
        before = [np.copy(array) for array in arguments]
        try:
            found: Any = compiled(*arguments)
        except Exception as error:
            if not isinstance(error, (AdjitError, *[ValueError, TypeError, IndexError] * isinstance(wanted, Exception))):
                raise Failed(source, f"call {number} on {backend}: {traceback.format_exc()}") from None
            found = error
        if not all(array.tobytes() == np.asarray(argument).tobytes() for array, argument in zip(before, arguments, strict=True)):
            raise Failed(source, f"call {number} writes arguments")
        if isinstance(found, Exception):
            if not isinstance(wanted, Exception):
                return results, skipped, str(found)
        elif isinstance(wanted, Exception):
            if not number or source.raises:
                raise Failed(source, f"no {wanted!r}")
        else:
            results += len(wanted)
            try:
                skipped += check_results(source, (arguments, contents), found, wanted, number == 2)
            except Failed as error:
                raise Failed(source, f"call {number} on {backend}: {error}") from None
    return results, skipped, ""


@pytest.mark.share(2)
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_programs_give_what_numpy_gives(chunk: int, exhaustive: bool) -> None:
    results = skipped = count = refused = 0
    with quietly():
        for source in programs(chunk, exhaustive):
            compared, unstable, reason = check_values(source, backend_of(source))
            results, skipped, count, refused = results + compared, skipped + unstable, count + 1, refused + bool(reason)
    assert skipped <= 0.12 * results + 2
    assert refused <= 0.12 * count + 2


# -- derivatives

def loss_of(source: Source, outside: list[np.ndarray], places: list[int], library: Any = np) -> Callable[..., Any]:
    """A number made of the float64 results of a program, for its float64 arguments."""
    function = source.function(outside, library)

    def loss(*floats: Any) -> Any:
        arguments: list[Any] = list(source.arguments)
        for place, array in zip(places, floats, strict=True):
            arguments[place] = array
        total: Any = 0.0
        for number, result in enumerate(function(*arguments)):
            if result.dtype == np.float64:
                weights = np.sin(1.0 + number + np.arange(float(np.prod(result.shape)))).reshape(result.shape)
                total = total + library.sum(result * weights)
        return total

    return loss


def check_derivatives(source: Source, backend: str, jax: Any = None, second: bool = False) -> str:
    """The gradient against differences, and against JAX's; a product with the Hessian against differences of the gradient; says what was
    compared."""
    places = [place for place, array in enumerate(source.arguments) if array.dtype == np.float64 and array.size]
    if not places or source.raises or "float32" in source.text or any(array.dtype == np.float32 for array in source.arguments):
        return "left out"
    outside = [array.copy() for array in source.outside]
    floats = [np.array(source.arguments[place]) for place in places]
    draw = np.random.default_rng(source.seed)
    along = [draw.normal(size=array.shape) for array in floats]
    loss, argnums = loss_of(source, outside, places), tuple(range(len(places)))
    try:
        aj.compile(source.function(outside), backend="interpret")(*source.arguments)
        value, gradient = aj.compile(aj.value_and_grad(loss, argnums), backend=backend)(*floats)
    except AdjitError as error:
        if isinstance(error, aj.errors.NonDifferentiableError) or "without a gradient" in str(error):
            return "constant"
        return "refused"
    try:
        found = slope(lambda distance: loss(*(array + distance * direction for array, direction in zip(floats, along, strict=True))))
    except IndexError:          # an index that jumps
        found = None
    if found is None:
        return "rough"
    inner = sum(np.sum(a * b) for a, b in zip(gradient, along, strict=True))
    if not abs(inner - found[0]) <= found[1]:
        raise Failed(source, f"slope {inner} on {backend}, differences {found[0]} within {found[1]}")
    if second:
        turned = aj.compile(lambda *floats: aj.jvp(aj.grad(loss, argnums), floats, tuple(along))[1], backend=backend)(*floats)
        slopes = aj.compile(aj.grad(loss, argnums), backend="interpret")
        for place in argnums:
            def moved(distance: float, place: int = place) -> Any:
                return slopes(*(array + distance * direction for array, direction in zip(floats, along, strict=True)))[place]
            found = slope(moved)
            if found is not None and not np.all(np.abs(turned[place] - found[0]) <= found[1]):
                raise Failed(source, f"second derivatives {turned[place]} on {backend}, differences {found[0]} within {found[1]}")
    if jax is not None:
        try:
            wanted, slopes = jax.value_and_grad(loss_of(source, outside, places, jax.numpy), argnums)(*floats)
        except Exception:           # JAX has no writes in place, and not all functions
            return "not in JAX"
        if abs(wanted - value) > 1e-9 * (1 + abs(value)):
            return "other values in JAX"
        for array, expected in zip(gradient, slopes, strict=True):
            if not np.allclose(array, expected, rtol=1e-8, atol=1e-8 * (1 + np.max(np.abs(expected), initial=0.0))):
                raise Failed(source, f"gradient {array} on {backend}, JAX {expected}")
        return "compared with JAX"
    return "compared"


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_derivatives_are_what_differences_show(chunk: int, exhaustive: bool) -> None:
    done: Counter[str] = Counter()
    with quietly():
        for source in programs(chunk, exhaustive, FLOATS, 4):
            backend = backend_of(source)
            done[check_derivatives(source, "native" if backend == "numba" else backend, second=source.seed // CHUNKS % 3 == 0)] += 1
    assert done["compared"] >= 0.4 * done.total() - 2
    assert done["refused"] <= 0.12 * done.total() + 2


def test_derivatives_are_those_of_jax(exhaustive: bool) -> None:
    jax = pytest.importorskip("jax")
    done: Counter[str] = Counter()
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    try:
        with quietly():
            for source in programs(0, exhaustive, FLOATS, 2):
                done[check_derivatives(source, "interpret", jax)] += 1
    finally:
        jax.config.update("jax_enable_x64", before)
    assert done["compared with JAX"] >= 0.2 * done.total() - 2
