"""A compiled NumPy program beside the same program run by Python: values and arguments after the call, gradients beside differences."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
from support.differences import slope

import adjit as aj

Call = tuple[Any, ...]
Leaf = tuple[str, Any]


class Differs(AssertionError):
    """A compiled program that does not give what Python does."""


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """What programs print is not shown; floating point says nothing, nor does adjit."""
    with contextlib.redirect_stdout(io.StringIO()), np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        yield


def leaves(tree: Any, path: str = "result") -> Iterator[Leaf]:
    """Numbers and arrays of nested tuples, lists and dicts, each with how it is reached."""
    if isinstance(tree, (tuple, list)):
        for place, item in enumerate(tree):
            yield from leaves(item, f"{path}[{place}]")
    elif isinstance(tree, dict):
        for key, item in tree.items():
            yield from leaves(item, f"{path}[{key!r}]")
    else:
        yield path, tree


def outcome(function: Callable[..., Any], arguments: Call) -> tuple[Any, Call]:
    """Result, or the error raised, and what has become of copies of the arguments."""
    arguments = deepcopy(arguments)
    try:
        return function(*arguments), arguments
    except (ValueError, TypeError, IndexError, ArithmeticError, RuntimeError, AssertionError) as error:
        if isinstance(error, aj.errors.AdjitError):
            raise
        return error, arguments


def compare(found: Any, wanted: Any, rounding: float, what: str) -> None:
    """Raise `Differs` unless trees are equal: in structure, dtypes, shapes, and in every bit, or as far as `rounding` lets them differ."""
    if isinstance(wanted, Exception) or isinstance(found, Exception):
        if type(found) is not type(wanted):
            raise Differs(f"{what} is {found!r}, not {wanted!r}")
        return
    ours, theirs = list(leaves(found, what)), list(leaves(wanted, what))
    if [path for path, _ in ours] != [path for path, _ in theirs]:
        raise Differs(f"{what} is {found!r}, not {wanted!r}")
    for (path, one), (_, other) in zip(ours, theirs, strict=True):
        if other is None or isinstance(other, str):
            if one != other:
                raise Differs(f"{path} is {one!r}, not {other!r}")
            continue
        array, expected = np.asarray(one), np.asarray(other)
        if (array.dtype, array.shape) != (expected.dtype, expected.shape):
            raise Differs(f"{path} is {array.dtype}{array.shape}, not {expected.dtype}{expected.shape}")
        scale = np.max(np.abs(expected), initial=0.0, where=np.isfinite(expected)) if expected.dtype.kind == "f" else 0.0
        equal = (array == expected) | ((array != array) & (expected != expected))
        if rounding and expected.dtype.kind == "f":
            with np.errstate(invalid="ignore"):
                equal |= np.abs(array - expected) <= rounding * scale
        if not np.all(equal):
            raise Differs(f"{path} is {array}, not {expected}: off by {np.max(np.abs(array - expected), initial=0.0, where=~equal)}")


def check_values(function: Callable[..., Any], calls: Sequence[Call], backend: str, rounding: float) -> Any:
    """Compare call after call; returns the compiled function."""
    compiled = aj.compile(function, backend=backend)
    for number, arguments in enumerate(calls):
        with quietly():
            wanted, after = outcome(function, arguments)
            found, written = outcome(compiled, arguments)
        compare(found, wanted, rounding, f"call {number}: result")
        if not isinstance(wanted, Exception):       # a call that raises writes no argument, unlike Python
            compare(written, after, rounding, f"call {number}: argument")
    return compiled


def weighted_sum(tree: Any) -> Any:
    """A number made of all floats of a result; works with traced values."""
    total: Any = 0.0
    for number, (_, leaf) in enumerate(leaves(tree)):
        if isinstance(leaf, float) or getattr(getattr(leaf, "dtype", None), "kind", "") == "f":
            weights = np.sin(1.0 + number + np.arange(float(np.prod(np.shape(leaf))))).reshape(np.shape(leaf))
            total = total + np.sum(leaf * weights)
    return total


def moved(tree: Any, distance: float, draw: np.random.Generator) -> Any:
    """A tree of floats, each moved along a random direction."""
    if isinstance(tree, (list, tuple)):
        return type(tree)(moved(item, distance, draw) for item in tree)
    if isinstance(tree, dict):
        return {key: moved(item, distance, draw) for key, item in tree.items()}
    return tree + distance * draw.normal(size=np.shape(tree))


def check_gradients(function: Callable[..., Any], calls: Sequence[Call], wrt: tuple[int, ...], backend: str) -> int:
    """Compare slopes along random directions with differences, call after call; returns for how many calls there were differences: at a
    kink there are none."""
    def loss(*arguments: Any) -> Any:
        return weighted_sum(function(*arguments))

    compiled = aj.compile(aj.value_and_grad(loss, wrt), backend=backend)
    compared = 0
    for number, arguments in enumerate(calls):
        def along(distance: float, arguments: Call = arguments, number: int = number) -> Any:
            draw = np.random.default_rng(number)
            return loss(*(moved(argument, distance, draw) if place in wrt else deepcopy(argument)
                          for place, argument in enumerate(arguments)))

        with quietly():
            given = deepcopy(arguments)
            value, gradients = compiled(*given)
            wanted, differences = along(0.0), slope(along)
        compare([given[place] for place in wrt], [arguments[place] for place in wrt], 0.0, f"gradient {number}: differentiated argument")
        if not abs(value - wanted) <= 1e-9 * (1 + abs(wanted)) and np.isfinite(wanted):
            raise Differs(f"gradient {number}: value is {value}, not {wanted}")
        draw = np.random.default_rng(number)
        inner = 0.0
        for place, gradient in zip(wrt, gradients, strict=True):
            direction = moved(deepcopy(arguments[place]), 1.0, draw)
            for (_, slopes), (_, end), (_, start) in zip(leaves(gradient), leaves(direction), leaves(arguments[place]), strict=True):
                inner += np.sum(slopes * (end - start))
        if differences is None:
            continue
        compared += 1
        if not abs(inner - differences[0]) <= differences[1]:
            raise Differs(f"gradient {number}: slope is {inner}, not {differences[0]} within {differences[1]}")
    return compared
