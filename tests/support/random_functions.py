"""Random programs as users write them, as source text: functions of NumPy arrays with calls, operators, indexing, views, updates in place,
loops, branches on shapes, nested functions, and arrays outside of the function.

A program is written statement by statement and run in plain NumPy at once; a statement that NumPy rejects is left out, or is the last one
of a program that has to fail. Discontinuous functions (comparisons, rounding, sorting) are mostly applied to arguments, so that rounding
cannot decide the result.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

DTYPES = (*["float64"] * 12, *["float32"] * 3, *["int64"] * 3, *["int32"] * 2, *["bool"] * 2,
          "int8", "int16", "uint8", "uint16", "uint32", "uint64")
SHAPES = ((), (1,), (4,), (3, 4), (3, 4), (2, 3, 4), (4, 3), (1, 4), (3, 1), (4, 4), (0, 4), (0,))
SPECIAL = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-310, 1e30, -1.0])

UNARY = ("sin", "cos", "tanh", "exp", "arctan", "square", "abs", "negative", "expm1", "sinh", "cosh", "arcsinh", "exp2", "cbrt", "positive",
         "isnan", "isfinite", "degrees", "nan_to_num", "reciprocal", "isinf", "signbit", "fabs", "sinc", "linalg.norm")
EXACT_UNARY = ("sign", "floor", "ceil", "rint", "trunc", "sort", "logical_not", "round", "argmax", "argmin")
BINARY = (
    "np.sqrt(1.0 + {x} * {x})", "np.log1p({x} * {x})", "{x} + {y}", "{x} - {y}", "{x} * {y}", "{x} / (2 + np.abs({y}))",
    "np.maximum({x}, {y})", "np.minimum({x}, {y})", "np.hypot({x}, {y})", "np.logaddexp({x}, {y})", "np.fmax({x}, {y})",
    "np.add({x}, {y})", "{x} @ {y}", "np.dot({x}, {y})", "np.outer({x}, {y})", "np.matmul({x}, {y})", "np.arctan2({x}, 1 + np.abs({y}))",
    "np.inner({x}, {y})", "np.concatenate([{x}, {y}])", "np.concatenate([{x}, {y}], axis={axis})", "np.stack([{x}, {y}])",
    "np.stack([{x}, {y}], axis={axis})", "np.vstack([{x}, {y}])", "np.hstack([{x}, {y}])", "np.einsum('ij,jk->ik', {x}, {y})",
    "np.einsum('ij,ij->i', {x}, {y})", "np.tensordot({x}, {y}, axes=1)", "np.append({x}, {y})", "np.broadcast_arrays({x}, {y})[0] * 1",
    "np.power(np.abs({x}) + 1, 2)", "{x} ** {small}", "{scalar} * {x}", "{x} + {scalar}", "{scalar} - {x}", "{x} - np.float32(0.5)",
    "-{x}", "{x}.T", "abs({x})", "np.copysign({x}, {y})", "np.float_power(np.abs({x}) + 1, 1.5)", "np.add.outer({x}, {y})",
    "np.einsum('ij,j->i', {x}, {y})", "np.einsum('...,...->...', {x}, {y})", "np.einsum('i,j->ji', {x}, {y})", "np.vdot({x}, {y})",
    "np.where({x}.shape == {y}.shape, {x}, {y})", "np.dstack([{x}, {y}])", "np.column_stack([{x}, {y}])", "{x} * np.arange({x}.shape[-1])",
    "{x} + np.ones({x}.shape, '{dtype}')", "np.eye(len({x})) @ {x}", "np.linspace(0, 1, {x}.size).reshape({x}.shape) - {x}",
    "np.linalg.solve({x} @ {x}.T + 3 * np.eye(len({x})), {x})", "np.linalg.inv({x}.T @ {x} + np.eye({x}.shape[1]))",
    "np.linalg.det({x} @ {x}.T + np.eye(len({x})))", "np.multiply({x}, {y}, dtype='{dtype}')", "np.add({x}, 1, out=np.zeros({x}.shape))")
EXACT_BINARY = (
    "{e} < {f}", "{e} >= {f}", "{e} == {f}", "np.where({e} > {f}, {x}, {y})", "np.where({e} > 0, {x}, {scalar})", "{e} // 2", "{e} % 3",
    "{e} // {scalar}", "np.clip({x}, -0.5, 0.5)", "np.clip({e}, -2, {scalar})", "({e} > 0) & ({f} > 0)", "({e} > 0) | ({f} < 1)",
    "~({e} > 0)", "({e} > 0) * {x}", "np.logical_and({e}, {f})", "{e}.astype('{dtype}')", "{e} ^ 3", "{e} << 1", "{e} & {f}",
    "np.floor_divide({e}, 2)", "np.mod({e}, 3)", "np.count_nonzero({e})", "np.select([{e} > 1, {e} > 0], [{x}, {y}])",
    "({e} >> 1) | 5", "divmod({e}, 3)[1]", "np.fmod({e}, 3)", "np.fmod({e}, {f})", "np.remainder({e}, {scalar})", "np.invert({e})",
    "np.heaviside({e}, 0.5)", "{e}.clip(0, 1)", "{e}.round(1)", "np.where({e} != 0, 1, 0)", "np.where({e}, {x}, -2)",
    "{x} * {e}.astype('{dtype}')", "np.astype({e}, '{dtype}')", "np.logical_xor({e}, {f})", "np.maximum({e}, {f})", "{e} - {f}",
    "{x}[np.argmax({e})]", "np.isclose({e}, {f})", "np.argsort({e}, axis={axis}, kind='stable')", "{e}.argsort(kind='stable')",
    "np.array_equal({e}, {f})")
REDUCTION = ("sum", "mean", "max", "min", "prod", "var", "std", "cumsum", "cumprod", "ptp")
EXACT_REDUCTION = ("any", "all", "argmax", "argmin", "sort", "count_nonzero")
SHAPING = (
    "{x}.reshape(-1) * 1", "{x}.reshape({x}.shape[::-1]) + 0", "{x}.ravel() * 1", "{x}.transpose()", "np.swapaxes({x}, 0, -1)",
    "np.expand_dims({x}, {axis})", "np.squeeze({x})", "np.flip({x})", "np.flip({x}, {axis})", "np.roll({x}, {small})",
    "np.roll({x}, {small}, axis={axis})", "np.tile({x}, 2)", "np.tile({x}, (2, 1))", "np.repeat({x}, 2)",
    "np.repeat({x}, 2, axis={axis})", "np.pad({x}, 1)", "np.pad({x}, 1, mode='edge')", "np.tril({x})", "np.triu({x}, 1)", "np.diag({x})",
    "np.diagonal({x})", "np.trace({x})", "np.atleast_2d({x})", "np.moveaxis({x}, 0, -1)", "np.broadcast_to({x}, (2, *{x}.shape))",
    "np.zeros_like({x})", "np.ones_like({x}) * {y}", "np.diff({x})", "np.full_like({x}, 2.5)", "np.split({x}, 2)[0]", "np.rot90({x})",
    "np.fliplr({x})", "np.flipud({x})", "np.triu({x})[np.triu_indices(2)]", "{x}[np.ix_([0, 1], [1, 0])]", "np.diagflat({x})",
    "{x}[np.array([True, False, True])]", "{x}[:, [True, False, True, False]]", "{x}.flatten('F')", "{x}.swapaxes(0, 1)", "{x}.repeat(2)",
    "np.stack([{x}] * 2, -1)", "np.rollaxis({x}, -1)", "np.matrix_transpose({x})", "np.vsplit({x}, 1)[0]", "{x}.reshape(-1, 1)",
    "{x}.reshape(2, -1, order='F')", "{x}.take([1, 0, -1], axis={axis})", "np.trapezoid({x})", "np.pad({x}, (1, 0), mode='reflect')",
    "np.take({x}, [0, 0, -1])", "np.take({x}, [0, 1], axis={axis})", "{x}.astype('float64')", "{x}.copy()",
    "{x}.flatten()", "np.array_split({x}, 2)[-1]", "np.meshgrid({x}, {y})[0]",
    "np.take_along_axis({x}, np.argsort({e}, axis={axis}, kind='stable'), axis={axis})", "np.ravel({x}, order='F')", "np.kron({x}, {y})",
    "np.average({x}, axis={axis})", "np.stack(list({x}))", "np.hstack([row for row in {x}])", "sum(row * 2 for row in {x})")
INDICES = (
    "0", "-1", "1:", "::2", "::-1", "..., 0", ":, 0", ":, 1:", "None", "..., None", "[0, -1]", "1:, ::-1", "-2:", ":, [0, 1]",
    "[[0, 1], [1, 0]]", "[0, 1], [1, 0]", "0, 1", "()", "...", ":0", "np.array([0, 1])", ":, None", "np.newaxis, 0", "[0, 1], 1:",
    "-1, ..., ::2")
UPDATES = (
    "{t}[{e} > 0] = {scalar}", "{t}[{e} > 0] += 1", "{t}[np.array([0, 0, 1])] += {y}", "np.multiply({t}, {y}, out={t})", "{t} **= 2",
    "{t}[{i}], {t}[{j}] = {t}[{j}], {t}[{i}]", "{t}[1:] += {t}[:-1]", "{t} /= 2", "{t} //= 2", "{t}[np.array([True, False, True])] = {y}",
    "np.copyto({t}, {y}, where={e} > 0)", "{t}[...] = {y}", "np.cumsum({t}, axis={axis}, out={t})",
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
    "{s} = np.empty_like({x})\n{s}[...] = {y}\n{t} = {s}", "{t} = [row * 2 for row in {x}][0]",
    "{t} = (lambda a, *rest: a + len(rest))({x}, 1)",
    "{t} = {{'one': {x}, 'two': {y}}}['one'] * 2", "{t} = sum([{x}, {y}])", "for {s} in ({x}, {y}):\n    {t} = {t} * 0.5 + {s}",
    "def inner(a, *, scale={scalar}):\n    a = a * scale\n    a += {y}\n    return a, a.shape\n{t}, _ = inner({x})",
    "def inner(a, depth):\n    return a if depth == 0 else inner(np.tanh(a + {y}), depth - 1)\n{t} = inner({x}, {small})",
    "{t} = np.stack([{x}[i] * i for i in range(len({x}))])", "{s} = np.broadcast_to({x}, (2, *{x}.shape))\n{t} = {s} + {s}[0]",
    "{s} = {t}.reshape(-1)[1:]\n{s} *= -1\n{t} = {t} + 1", "{s} = {t}[::-1]\n{s}[1:] = {t}[1:]", "{s} = np.diagonal({x})\n{t} = {s} * 1",
    "for i in range(2):\n    {t}[i] = {y}[i] - {t}[i - 1]", "{s} = {t}[1:]\n{t}[:-1] -= {s}", "{t} = np.reshape({t}, (-1,))\n{t}[0] = 0",
    "{s} = {t}.T\n{s}[0] = 3", "def inner(a, b=2.0):\n    return a * b + {y}\n{t} = inner({x})")

REDUCING = (
    "np.sum({x}, axis=(0, -1))", "np.sum({x}, axis={axis}, dtype='{dtype}')", "np.max({x}, initial=1)", "np.sum({x}, where={e} > 0)",
    "np.add.reduce({x}, axis={axis})", "np.maximum.reduce({x})", "np.mean({x}, axis={axis}, dtype='{dtype}')", "np.var({x}, ddof=1)",
    "np.min({x}, keepdims=True)", "np.linalg.norm({x}, axis={axis})", "np.cumsum({x}, axis={axis}, dtype='{dtype}')",
    "np.add.accumulate({x})", "np.average({x}, weights=np.abs({x}) + 1)", "np.any({e} > 0)",
    *(f"{{x}}.{name}({more})" for name in ("sum", "mean", "max") for more in ("", "axis={axis}", "keepdims=True")),
    *(f"{{x}}.{name}({more})" for name in ("prod", "std", "cumsum") for more in ("", "axis={axis}", "dtype='float64'")))

TEMPLATES = (*[f"{{t}} = np.{name}({{x}})" for name in UNARY], *[f"{{t}} = np.{name}({{e}})" for name in EXACT_UNARY],
             *[f"{{t}} = {text}" for text in (*BINARY, *BINARY, *EXACT_BINARY, *SHAPING, *REDUCING)],
             *[f"{{t}} = np.{name}({{x}}{more}" for name in REDUCTION for more in (")", ", axis={axis})", ", axis={axis}, keepdims=True)")],
             *[f"{{t}} = np.{name}({{e}}{more}" for name in EXACT_REDUCTION for more in (")", ", axis={axis})")],
             *["{t} = {x}[{i}]"] * 15, *UPDATES * 3, *BLOCKS * 3)

VIEWING = frozenset((*(f"{{t}} = {text}" for text in SHAPING), *UPDATES, *BLOCKS, *(text for text in TEMPLATES if "[{i}]" in text)))
"""Templates that are not for arguments without dimensions: one trace serves arrays and NumPy's scalars, whose views are copies."""


Values = tuple[list[Any], list[np.ndarray]]
"""Arguments, and the content of the arrays outside."""


@dataclass(frozen=True)
class Source:
    """Text of `function(a0, a1, ...)`, which reads the arrays `c0`, `c1`, ... outside; numbers for both; and True if NumPy raises."""

    seed: int
    text: str
    arguments: tuple[Any, ...]
    outside: tuple[np.ndarray, ...]
    raises: bool = False

    def function(self, outside: Iterable[np.ndarray], library: Any = np) -> Callable[..., Any]:
        names: dict[str, Any] = {"np": library, **{f"c{index}": array for index, array in enumerate(outside)}}
        exec(compile(self.text, f"random_function_{self.seed}.py", "exec"), names)
        return names["function"]

    def calls(self) -> Iterator[Values]:
        """Yield the calls in order: the numbers that the program was written with, other ones, and some with NaN and infinities, each in
        another layout."""
        choose, draw = Random(self.seed), np.random.default_rng(self.seed)
        for number in range(3):
            yield ([_in_layout(_other(array, draw, number), choose) for array in self.arguments],
                   [_other(array, draw, number) for array in self.outside])

    def script(self) -> str:
        """Return the program as a user would run it."""
        arrays = [f"c{index} = {_literal(array)}" for index, array in enumerate(self.outside)]
        arguments = ", ".join(map(_literal, self.arguments))
        return "\n".join(("import numpy as np", "import adjit as aj", "", *arrays, "", self.text, f"print(function({arguments}))",
                          f"print(aj.compile(function)({arguments}))", ""))


def _literal(array: Any) -> str:
    if isinstance(array, np.generic):
        return f"np.{array.dtype}({array.item()!r})"
    return f"np.array({array.tolist()!r}, {str(array.dtype)!r}).reshape({array.shape})".replace("nan", "np.nan").replace("inf", "np.inf")


def random_source(seed: int, size: int, dtypes: Sequence[str] = DTYPES) -> Source:
    choose, draw = Random(seed), np.random.default_rng(seed)
    arguments = [_argument(choose, draw, dtypes) for _ in range(choose.randint(1, 3))]
    outside = [_array(choose, draw, dtypes) for _ in range(choose.choice((0, 0, 1, 2)))]
    given = {**{f"a{index}": array for index, array in enumerate(arguments)}, **{f"c{index}": array for index, array in enumerate(outside)}}
    names: dict[str, Any] = {"np": np, **given}
    exact = list(given)
    local: list[str] = []
    lines: list[str] = []

    def statement() -> str:
        known = [*exact, *local]
        pick = {"x": choose.choice(known), "y": choose.choice(known), "t": choose.choice([*local, f"v{len(local)}", f"v{len(local)}"]),
                "e": choose.choice(exact if choose.random() < 0.8 else known), "f": choose.choice(exact), "s": f"v{len(local) + 1}",
                "axis": choose.choice(("0", "1", "-1", "None")), "small": choose.choice(("0", "1", "2", "3")),
                "scalar": choose.choice(("2", "0.5", "-1.5", "1", "True", "np.float64(3.0)", "np.int32(2)", "-1", "np.float32(0.1)")),
                "dtype": choose.choice(dtypes), "i": choose.choice(INDICES), "j": choose.choice(INDICES)}
        template = choose.choice(TEMPLATES)
        plain = any(names.get(pick[which]) is argument for argument in arguments if not np.ndim(argument) for which in "xyet")
        return "" if plain and template in VIEWING else template.format(**pick)

    written = 0
    for _ in range(4 * size):
        text = statement()
        if written < size and _runs(text, names):
            written += 1
            lines += text.split("\n")
            local = sorted(name for name in names if name[0] == "v")
    raises = choose.random() < 0.05
    for _ in range(20 * raises):
        text = statement()
        if _fails(text, names):
            lines += text.split("\n")
            break
    else:
        raises = False
    results = choose.sample([*local, *exact], min(len(local) + 1, 3)) if local else exact[:1]
    lines.append(f"return {', '.join(results)},")
    body = "".join(f"    {line}\n" for line in lines)
    return Source(seed, f"def function({', '.join(exact[:len(arguments)])}):\n{body}", tuple(arguments), tuple(outside), raises)


def _argument(choose: Random, draw: np.random.Generator, dtypes: Sequence[str]) -> Any:
    return choose.choice((np.float32(1.5), np.float64(-2.0))) if choose.random() < 0.1 else _array(choose, draw, dtypes)


def _array(choose: Random, draw: np.random.Generator, dtypes: Sequence[str]) -> np.ndarray:
    array = _numbers(choose.choice(SHAPES), np.dtype(choose.choice(dtypes)), draw, choose.random() < 0.5)
    array.flags.writeable = False
    return array


def _numbers(shape: tuple[int, ...], dtype: np.dtype[Any], draw: np.random.Generator, halves: bool) -> np.ndarray:
    numbers = np.asarray(np.round(draw.normal(size=shape) * 4) / 2 if halves else draw.normal(size=shape) * 2)
    return np.asarray(np.abs(numbers) if dtype.kind == "u" else numbers).astype(dtype)


def _other(array: Any, draw: np.random.Generator, number: int) -> Any:
    """Return the replacement of an array in the call with this number."""
    if not number:
        return array.copy()
    other = _numbers(array.shape, array.dtype, draw, number == 2)
    if number == 2 and array.dtype.kind == "f":
        with np.errstate(under="ignore"):
            special = SPECIAL.astype(array.dtype)[draw.integers(0, len(SPECIAL), array.shape)]
            other = np.where(draw.random(array.shape) < 0.2, special, other)
    return other[()] if isinstance(array, np.generic) else np.asarray(other)


def _in_layout(array: Any, choose: Random) -> Any:
    """Return the array in one of the layouts that users may have."""
    match choose.randrange(9) if isinstance(array, np.ndarray) else 0:
        case 1:
            return array.copy(order="F")
        case 2 if array.ndim:
            return np.flip(np.flip(array).copy())
        case 3 if array.ndim:
            return np.repeat(array, 2, axis=-1)[..., ::2]
        case 4:
            return array.astype(array.dtype.newbyteorder())
        case 5:
            memory = np.zeros(array.nbytes + 1, np.uint8)[1:]
            memory[...] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            return memory.view(array.dtype).reshape(array.shape)
        case 6:
            array.flags.writeable = False
    return array


def _runs(text: str, names: dict[str, Any]) -> bool:
    """Run a statement; returns False, and restores the names, if NumPy rejects it or its result cannot be compared well."""
    arrays = [(array, array.copy()) for array in names.values() if isinstance(array, np.ndarray) and array.flags.writeable]
    after = dict(names)
    try:
        with np.errstate(all="raise", under="ignore"), warnings.catch_warnings(action="error"):
            exec(text, after)
        fine = bool(text) and all(map(_comparable, (value for name, value in after.items() if name[0] == "v")))
    except Exception:
        fine = False
    if fine:
        names.update((name, value) for name, value in after.items() if name[0] == "v")
    else:
        for array, old in arrays:
            array[...] = old
    return fine


def _fails(text: str, names: dict[str, Any]) -> bool:
    """True if NumPy raises an error that depends on shapes and dtypes only."""
    copies = {name: value.copy() if isinstance(value, np.ndarray) and value.flags.writeable else value for name, value in names.items()}
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
            exec(text, copies)
    except Exception as error:
        return not isinstance(error, (NameError, ZeroDivisionError)) and "arg" not in text and "read-only" not in str(error)
    return False


def _comparable(value: Any) -> bool:
    if not isinstance(value, (np.ndarray, np.generic, float)):
        return False
    array = np.asarray(value)
    fine = array.dtype.kind in "fiub" and array.dtype != np.float16 and array.size <= 200
    return fine and bool(np.all(np.abs(array.astype(float)) < 1e4))
