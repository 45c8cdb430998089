"""Random Python programs that decide on values: `if`, `while`, `for` with `break`, early returns, Python numbers in results."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import numpy as np

_CONDITIONS = ("np.sum({a}) > {c}", "{s} < {c}", "{s} > {t}", "{c} < {s} <= {d}", "np.any({a} > {c})", "{s} > {c} and {t} < {d}",
               "not {s} < {c} or {t} > {d}", "np.argmax({a}) == {i}", "min({s}, {t}) > {c}", "int(np.floor({s} * 2)) % 2 == {i} % 2",
               "{a}[{i}] >= {a}[0]", "(sorted([{s}, {t}, {c}])[1] < {d})")
_ARRAYS = ("{a} = {a} * {c} + {b}",
            "{a} = np.sqrt(np.abs({a}))", "{a} = np.where({b} > {c}, {a}, -{b})", "{a} = {a} + {s}", "{a}[{i}] = {t}",
           "{a} = np.maximum({a}, {b}) / 2", "{a}[{i}:] = {a}[{i}:] * {c}", "{a} = {b}.copy()")
_SCALARS = ("{s} = {s} * {c} - {t}", "{s} = {a}[{i}]", "{s} = np.abs({s}) / 2", "{s} = {a}[0] * {b}[{i}]", "{s} = max({s}, {t})",
            "{s} = {s} if {s} > {c} else {t} * {c}", "{s} = {t} + k")


class _Writer:
    """Writer of one program. Every loop ends: it counts its rounds."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        self.lines = ["def program(x, y, s, t):", "    a, b, k = x.copy(), y * 1.0, 0"]
        self.loops = 0

    def fill(self, templates: tuple[str, ...]) -> str:
        arrays, scalars = self.rng.permutation(["a", "b"]), self.rng.permutation(["s", "t"])
        c, d = np.round(np.sort(self.rng.uniform(-1, 1.5, 2)), 2)
        return str(self.rng.choice(templates)).format(a=arrays[0], b=arrays[1], s=scalars[0], t=scalars[1], c=c, d=d,
                                                      i=self.rng.integers(3))

    def block(self, indent: int, depth: int, in_loop: bool) -> None:
        margin = "    " * indent
        for _ in range(self.rng.integers(1, 4)):
            self.lines.append(margin + self.fill(_ARRAYS if self.rng.random() < 0.5 else _SCALARS))
            choice = self.rng.random() if depth else 1.0
            if choice < 0.35:
                self.lines.append(f"{margin}if {self.fill(_CONDITIONS)}:")
                self.block(indent + 1, depth - 1, in_loop)
                if self.rng.random() < 0.6:
                    self.lines.append(f"{margin}else:")
                    self.block(indent + 1, depth - 1, in_loop)
            elif choice < 0.5:
                count, self.loops = f"n{self.loops}", self.loops + 1
                self.lines += [f"{margin}{count} = 0", f"{margin}while {count} < 4 and ({self.fill(_CONDITIONS)}):",
                               f"{margin}    {count} += 1", f"{margin}    k += {count}"]
                self.block(indent + 1, depth - 1, True)
            elif choice < 0.65:
                self.lines.append(f"{margin}for j in range({self.rng.integers(2, 5)}):")
                self.block(indent + 1, depth - 1, True)
                self.lines += [f"{margin}    if {self.fill(_CONDITIONS)}:",
                               f"{margin}        {self.rng.choice(['break', 'continue', 'k += j'])}"]
            elif choice < 0.72:
                self.lines += [f"{margin}if {self.fill(_CONDITIONS)}:", f"{margin}    return a, s, k"]
            elif choice < 0.78:
                self.lines += [f"{margin}if {self.fill(_CONDITIONS)}:", f"{margin}    raise ArithmeticError(k)"]
            elif in_loop and choice < 0.84:
                self.lines += [f"{margin}if {self.fill(_CONDITIONS)}:", f"{margin}    {self.rng.choice(['break', 'continue'])}"]


def random_program(seed: int) -> Callable[..., Any]:
    """A function of two arrays of three elements and two scalars, which returns an array, a scalar and a Python integer."""
    writer = _Writer(seed)
    writer.block(1, 3, False)
    writer.lines.append("    return a + b, s * t, k")
    text, name = "\n".join(writer.lines), f"<random decisions {seed}>"
    linecache.cache[name] = len(text), None, [line + "\n" for line in writer.lines], name
    scope: dict[str, Any] = {"np": np}
    exec(compile(text, name, "exec"), scope)
    function: Callable[..., Any] = scope["program"]
    return function


def random_arguments(rng: np.random.Generator) -> tuple[Any, ...]:
    """Arguments of a random program; now and then one that compares oddly."""
    x, y = rng.standard_normal((2, 3))
    if rng.random() < 0.15:
        x[rng.integers(3)] = rng.choice([np.nan, np.inf, -0.0, 0.0])
    return x, y, np.float64(rng.standard_normal()), np.float64(rng.standard_normal())


def outcome(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """What a call gives, in bits; or the exception that it raises."""
    with np.errstate(all="ignore"):
        try:
            array, scalar, count = function(*(np.copy(arg) if isinstance(arg, np.ndarray) else arg for arg in arguments))
        except (ArithmeticError, ValueError) as error:
            return ("raises", type(error), *error.args)
    return _bits(array), _bits(np.asarray(scalar)), type(count), count


def _bits(array: np.ndarray) -> bytes:
    return np.where(np.isnan(array), np.nan, array).tobytes()
