"""Random programs that read and write their arguments, through views of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

SHAPES = [(6,), (3, 4), (4, 4), (2, 3, 2), (1, 5), (), (0,)]
DTYPES = ["f8", "f4", "i8", "i4"]
IN_PLACE = ["__iadd__", "__isub__", "__imul__"]

View = Callable[[Any], Any]


class Program(NamedTuple):
    """A function of a list of arrays, whose types these are; `text` lists its statements."""

    types: list[tuple[str, tuple[int, ...]]]
    run: Callable[[list[Any]], Any]
    text: list[str]


def random_view(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[View, tuple[int, ...], str]:
    """A view of an array of this shape: the function that takes it, its shape, its text."""
    steps: list[View] = []
    text = ""
    for _ in range(int(rng.integers(0, 3))):
        kind = rng.integers(0, 4)
        if kind == 0 and len(shape) > 1:
            steps.append(lambda x: x.T)
            shape, text = shape[::-1], text + ".T"
        elif kind == 1 and len(shape) > 1 and shape[0]:
            row = int(rng.integers(-shape[0], shape[0]))
            steps.append(lambda x, row=row: x[row])
            shape, text = shape[1:], f"{text}[{row}]"
        elif kind == 2 and shape:
            axis = int(rng.integers(len(shape)))
            bounds = sorted(int(bound) for bound in rng.integers(0, shape[axis] + 1, 2))
            chosen = slice(bounds[0], bounds[1], int(rng.choice([1, 2])))
            index = (slice(None),) * axis + (chosen,)
            steps.append(lambda x, index=index: x[index])
            shape, text = np.empty(shape)[index].shape, f"{text}[{index}]"
        elif shape:
            steps.append(lambda x: x[..., ::-1])
            text += "[..., ::-1]"

    def take(x: Any) -> Any:
        for step in steps:
            x = step(x)
        return x if shape or not steps else x[...]
    return take, shape, text


def _taken(take: View, number: int, arrays: list[Any]) -> Any:
    return take(arrays[number])


def random_program(rng: np.random.Generator) -> Program:
    """A program of some statements over two to four arrays."""
    count = int(rng.integers(2, 5))
    types = [(str(rng.choice(DTYPES)), SHAPES[int(rng.integers(len(SHAPES)))]) for _ in range(count)]
    types[1] = types[0] if rng.random() < 0.5 else types[1]
    statements: list[Callable[[list[Any], list[Any]], None]] = []
    text: list[str] = []

    def operand(shape: tuple[int, ...]) -> tuple[Callable[[list[Any]], Any], str]:
        """An expression that can be assigned to a view of this shape."""
        for _ in range(8):
            number = int(rng.integers(count))
            take, found, path = random_view(rng, types[number][1])
            if found in (shape, ()) and found != (0,):
                return partial(_taken, take, number), f"a{number}{path}"
        constant = float(rng.integers(-3, 4))
        return lambda arrays: constant, str(constant)

    for _ in range(int(rng.integers(1, 7))):
        number = int(rng.integers(count))
        take, shape, path = random_view(rng, types[number][1])
        kind = int(rng.integers(0, 9))
        value, named = operand(shape)
        name = f"a{number}{path}"
        whole = types[number][0][0] == "i"

        def write(arrays: list[Any], seen: list[Any], number=number, take=take, shape=shape, kind=kind, value=value, whole=whole) -> None:
            target = take(arrays[number])
            if kind <= 2:
                new = value(arrays)
                getattr(target, IN_PLACE[kind])(np.asarray(new, target.dtype) if isinstance(new, float) else new.astype(target.dtype))
            elif kind == 3:
                target[...] = value(arrays)
            elif kind == 4 and shape:
                target.sort(axis=-1)
            elif kind == 5:
                target.fill(2)
            elif kind == 6 and shape:
                target[target > 1] = 3
            elif kind == 7:
                new = value(arrays)
                np.maximum(target, new if isinstance(new, float) and not whole else np.int8(1), out=target)
            elif kind == 8 and shape and shape[0]:
                target[np.array([0, -1])] = 5
            seen.append(target * 2)

        statements.append(write)
        text.append(f"{kind}: {name} with {named}")
    returned = [int(number) for number in rng.integers(0, count, int(rng.integers(0, 3)))]

    def run(arrays: list[Any]) -> Any:
        seen: list[Any] = []
        for statement in statements:
            statement(arrays, seen)
        return seen, [arrays[number] for number in returned if statements]

    return Program(types, run, [*text, f"return {returned}"])


def random_arrays(rng: np.random.Generator, program: Program) -> list[np.ndarray]:
    """Arguments of any layout."""
    return [random_layout(rng, np.asarray(rng.integers(-4, 5, shape), dtype)) for dtype, shape in program.types]


def random_layout(rng: np.random.Generator, array: np.ndarray) -> np.ndarray:
    """The same content in another layout, or in another byte order."""
    kind = rng.integers(0, 6)
    if kind == 0 and array.ndim:
        return np.asfortranarray(array)
    if kind == 1 and array.ndim:
        base = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
        base[..., ::2] = array
        return base[..., ::2]
    if kind == 2 and array.ndim:
        return array[::-1].copy()[::-1]
    if kind == 3:
        return array.astype(array.dtype.newbyteorder())
    return array
