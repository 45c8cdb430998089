"""Random Python functions of NumPy arrays, as source text: calls, operators, indexing, views, updates in place, loops, branches on shapes.

A function is written statement by statement and run in plain NumPy at once; a statement that NumPy refuses is left out. What jumps
(comparisons, rounding, sorting) is applied to arguments only, so that rounding cannot decide it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

DTYPES = ("float64", "float64", "float64", "float32", "int64", "int32", "bool")
SHAPES = ((), (1,), (4,), (3, 4), (3, 4), (2, 3, 4), (4, 3), (1, 4), (3, 1), (4, 4), (0, 4))

UNARY = ("sin", "cos", "tanh", "exp", "arctan", "square", "abs", "negative", "expm1", "sinh", "cosh", "arcsinh", "exp2", "cbrt", "positive",
         "isnan", "isfinite", "degrees", "nan_to_num", "reciprocal")
EXACT_UNARY = ("sign", "floor", "ceil", "rint", "trunc", "sort", "logical_not", "round", "argmax", "argmin")
BINARY = (
    "np.sqrt(1.0 + {x} * {x})", "np.log1p({x} * {x})", "{x} + {y}", "{x} - {y}", "{x} * {y}", "{x} / (2 + np.abs({y}))",
    "np.maximum({x}, {y})", "np.minimum({x}, {y})", "np.hypot({x}, {y})", "np.logaddexp({x}, {y})", "np.fmax({x}, {y})",
    "np.add({x}, {y})", "{x} @ {y}", "np.dot({x}, {y})", "np.outer({x}, {y})", "np.matmul({x}, {y})", "np.arctan2({x}, 1 + np.abs({y}))",
    "np.inner({x}, {y})", "np.concatenate([{x}, {y}])", "np.concatenate([{x}, {y}], axis={axis})", "np.stack([{x}, {y}])",
    "np.stack([{x}, {y}], axis={axis})", "np.vstack([{x}, {y}])", "np.hstack([{x}, {y}])", "np.einsum('ij,jk->ik', {x}, {y})",
    "np.einsum('ij,ij->i', {x}, {y})", "np.tensordot({x}, {y}, axes=1)", "np.append({x}, {y})", "np.broadcast_arrays({x}, {y})[0] * 1",
    "np.power(np.abs({x}) + 1, 2)", "{x} ** {small}", "{scalar} * {x}", "{x} + {scalar}", "{scalar} - {x}", "{x} - np.float32(0.5)",
    "-{x}", "{x}.T", "abs({x})")
EXACT_BINARY = (
    "{e} < {f}", "{e} >= {f}", "{e} == {f}", "np.where({e} > {f}, {x}, {y})", "np.where({e} > 0, {x}, {scalar})", "{e} // 2", "{e} % 3",
    "{e} // {scalar}", "np.clip({x}, -0.5, 0.5)", "np.clip({e}, -1, {scalar})", "({e} > 0) & ({f} > 0)", "({e} > 0) | ({f} < 1)",
    "~({e} > 0)", "({e} > 0) * {x}", "np.logical_and({e}, {f})", "{e}.astype('{dtype}')", "{e} ^ 3", "{e} << 1", "{e} & {f}",
    "np.floor_divide({e}, 2)", "np.mod({e}, 3)", "np.count_nonzero({e})", "np.select([{e} > 1, {e} > 0], [{x}, {y}])",
    "np.isclose({e}, {f})", "np.argsort({e}, axis={axis}, kind='stable')", "{e}.argsort(kind='stable')", "np.array_equal({e}, {f})")
REDUCTION = ("sum", "mean", "max", "min", "prod", "var", "std", "cumsum", "cumprod", "ptp")
EXACT_REDUCTION = ("any", "all", "argmax", "argmin", "sort", "count_nonzero")
SHAPING = (
    "{x}.reshape(-1) * 1", "{x}.reshape({x}.shape[::-1]) + 0", "{x}.ravel() * 1", "{x}.transpose()", "np.swapaxes({x}, 0, -1)",
    "np.expand_dims({x}, {axis})", "np.squeeze({x})", "np.flip({x})", "np.flip({x}, {axis})", "np.roll({x}, {small})",
    "np.roll({x}, {small}, axis={axis})", "np.tile({x}, 2)", "np.tile({x}, (2, 1))", "np.repeat({x}, 2)",
    "np.repeat({x}, 2, axis={axis})", "np.pad({x}, 1)", "np.pad({x}, 1, mode='edge')", "np.tril({x})", "np.triu({x}, 1)", "np.diag({x})",
    "np.diagonal({x})", "np.trace({x})", "np.atleast_2d({x})", "np.moveaxis({x}, 0, -1)", "np.broadcast_to({x}, (2, *{x}.shape))",
    "np.zeros_like({x})", "np.ones_like({x}) * {y}", "np.diff({x})", "np.full_like({x}, 2.5)", "np.split({x}, 2)[0]", "np.rot90({x})",
    "np.fliplr({x})", "np.take({x}, [0, 0, -1])", "np.take({x}, [0, 1], axis={axis})", "{x}.astype('float64')", "{x}.copy()",
    "{x}.flatten()", "np.array_split({x}, 2)[-1]", "np.meshgrid({x}, {y})[0]",
    "np.take_along_axis({x}, np.argsort({e}, axis={axis}, kind='stable'), axis={axis})", "np.ravel({x}, order='F')", "np.kron({x}, {y})",
    "np.average({x}, axis={axis})", "np.stack(list({x}))", "np.hstack([row for row in {x}])", "sum(row * 2 for row in {x})")
INDICES = (
    "0", "-1", "1:", "::2", "::-1", "..., 0", ":, 0", ":, 1:", "None", "..., None", "[0, -1]", "1:, ::-1", "-2:", ":, [0, 1]",
    "[[0, 1], [1, 0]]", "[0, 1], [1, 0]", "0, 1", "()", "...", ":0", "np.array([0, 1])", ":, None", "np.newaxis, 0", "[0, 1], 1:",
    "-1, ..., ::2")
UPDATES = (
    "{t}[{i}] = {y}", "{t}[{i}] += {y}", "{t}[{i}] = {scalar}", "{t}[{i}] *= {scalar}", "{t} += {y}", "{t} *= 0.5", "{t} -= {x}",
    "{t}[{i}] = {t}[{j}]", "np.add({t}, {y}, out={t})", "np.copyto({t}, 0.25)", "{t}[{i}] -= {t}[{j}]", "{t}.sort()",
    "np.maximum({t}, {y}, out={t})")
BLOCKS = (
    "for i in range({small}):\n    {t} = np.tanh({t} + i)", "for row in {x}:\n    {t} = {t} + row.sum()",
    "{s} = {t}\n{s} += 1", "{s} = {t}.reshape(-1)\n{s} *= 2", "{s} = np.ravel({t})\n{t} -= {y}", "{s} = {t}[..., None]\n{s}[0] = 3",
    "{s} = {t}.T.reshape(-1)\n{s}[0] = {scalar}", "{s} = {t}.copy()\n{t} = {s}\n{s} += {y}", "{s} = {t}[...]\n{s} *= 2",
    "{s} = np.copy({t})\n{t} = {s}\n{s} -= 1", "{s} = {t}[:, ::2].reshape(-1)\n{s}[-1] = 0", "{s} = {t}.squeeze()\n{s} += 2",
    "{s} = np.zeros_like({t})\n{t} = {s}.reshape(-1)\n{t} += {y}", "{s} = {t}[0]\n{s} += 1", "{t}.fill(2)", "{s} = {t}[0, ...]\n{s} += 1",
    "if {x}.ndim > 1:\n    {t} = {x} * 2\nelse:\n    {t} = {y}", "if {x}.shape and {x}.shape[0] > 2:\n    {t} = {x}[:2]",
    "for i, row in enumerate({x}):\n    {t}[i] = row.mean() * i", "{t} = [{x}, {y}][len({x}.shape) % 2]",
    "while {t}.size > 4:\n    {t} = {t}[::2].reshape(-1)[1:]", "{t}, {s} = {x} + 1, {t} * 2", "{s} = {t}[{i}]\n{s} += 1",
    "{s} = {t}.T\n{s}[0] = 3", "def inner(a, b=2.0):\n    return a * b + {y}\n{t} = inner({x})")

TEMPLATES = (*[f"{{t}} = np.{name}({{x}})" for name in UNARY], *[f"{{t}} = np.{name}({{e}})" for name in EXACT_UNARY],
             *[f"{{t}} = {text}" for text in (*BINARY, *BINARY, *EXACT_BINARY, *SHAPING)],
             *[f"{{t}} = np.{name}({{x}}{more}" for name in REDUCTION for more in (")", ", axis={axis})", ", axis={axis}, keepdims=True)")],
             *[f"{{t}} = np.{name}({{e}}{more}" for name in EXACT_REDUCTION for more in (")", ", axis={axis})")],
             *[f"{{t}} = {{x}}.{name}({more})" for name in ("sum", "mean", "max") for more in ("", "axis={axis}", "keepdims=True")],
             *["{t} = {x}[{i}]"] * 15, *UPDATES * 3, *BLOCKS * 3)

VIEWING = frozenset((*(f"{{t}} = {text}" for text in SHAPING), *UPDATES, *BLOCKS, *(text for text in TEMPLATES if "[{i}]" in text)))
"""Not for arguments without dimensions: one trace serves NumPy's scalars, of which views are copies, and arrays."""


@dataclass(frozen=True)
class Source:
    """The text of `function(a0, a1, ...)`, and arguments for it."""

    text: str
    arguments: tuple[Any, ...]

    def function(self) -> Callable[..., Any]:
        names: dict[str, Any] = {"np": np}
        exec(compile(self.text, "random_function.py", "exec"), names)
        return names["function"]

    def copies(self) -> list[Any]:
        return [array.copy(order="K") if isinstance(array, np.ndarray) else array for array in self.arguments]


def random_source(choose: Random, size: int) -> Source:
    draw = np.random.default_rng(choose.randrange(1 << 30))
    names: dict[str, Any] = {"np": np}
    arguments = [_argument(choose, draw) for _ in range(choose.randint(1, 3))]
    exact = [f"a{index}" for index in range(len(arguments))]
    names.update(zip(exact, arguments, strict=True))
    local: list[str] = []
    lines: list[str] = []
    for _ in range(size):
        known = [*exact, *local]
        target = choose.choice([*local, f"v{len(local)}", f"v{len(local)}"])
        pick = {"x": choose.choice(known), "y": choose.choice(known), "e": choose.choice(exact), "f": choose.choice(exact),
                "t": target, "s": f"v{len(local) + 1}", "axis": choose.choice(("0", "1", "-1", "None")),
                "small": choose.choice(("0", "1", "2", "3")),
                "scalar": choose.choice(("2", "0.5", "-1.5", "1", "True", "np.float64(3.0)", "np.int32(2)")),
                "dtype": choose.choice(DTYPES),
                "i": choose.choice(INDICES), "j": choose.choice(INDICES)}
        template = choose.choice(TEMPLATES)
        text = template.format(**pick)
        plain = any(names.get(pick[which]) is argument for argument in arguments if not np.ndim(argument) for which in "xyet")
        if not (plain and template in VIEWING) and _runs(text, names):
            lines += text.split("\n")
            local = sorted(name for name in names if name[0] == "v")
    results = choose.sample([*local, *exact], min(len(local) + 1, 3)) if local else exact[:1]
    body = "\n    ".join([*lines, f"return {', '.join(results)},"])
    return Source(f"def function({', '.join(exact)}):\n    {body}\n", tuple(arguments))


def _argument(choose: Random, draw: np.random.Generator) -> Any:
    if choose.random() < 0.1:
        return choose.choice((np.float32(1.5), np.float64(-2.0)))
    shape, dtype = choose.choice(SHAPES), np.dtype(choose.choice(DTYPES))
    array = np.asarray(np.round(draw.normal(size=shape) * 4) / 2 if choose.random() < 0.5 else draw.normal(size=shape) * 2).astype(dtype)
    if array.ndim > 1 and choose.random() < 0.2:
        array = np.asfortranarray(array)
    array.flags.writeable = False
    return array


def _runs(text: str, names: dict[str, Any]) -> bool:
    """Run a statement; False, and the names as they were, where NumPy refuses it or gives what cannot be compared well."""
    arrays = [(array, array.copy()) for array in names.values() if isinstance(array, np.ndarray) and array.flags.writeable]
    after = dict(names)
    try:
        with np.errstate(all="raise", under="ignore"), warnings.catch_warnings(action="error"):
            exec(text, after)
        fine = all(map(_comparable, (value for name, value in after.items() if name[0] == "v")))
    except Exception:
        fine = False
    if fine:
        names.update((name, value) for name, value in after.items() if name[0] == "v")
    else:
        for array, old in arrays:
            array[...] = old
    return fine


def _comparable(value: Any) -> bool:
    if not isinstance(value, (np.ndarray, np.generic, float)):
        return False
    array = np.asarray(value)
    return array.dtype.kind in "fiub" and array.dtype.itemsize > 2 - (array.dtype.kind == "b") and array.size <= 200 and bool(
        np.all(np.abs(array.astype(float)) < 1e4))
