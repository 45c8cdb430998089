"""Random programs that make arrays, take views of them and fill both: compiled equals NumPy in every bit. Seeds are fixed."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit.ir.errors import AdjitError

X = np.array([0.5, -1.25, 2.0, 0.75, -3.0, 1.5])
MAKERS = ("np.zeros({s})", "np.ones({s})", "np.full({s}, 2.5)", "np.arange({n}.0).reshape({s})", "np.zeros({s}, int)",
          "np.zeros({s}, np.float32)", "np.array([[1.0, 2.0], [3.0, 4.0]])", "np.eye({k})", "zeros({s})",
          "np.linspace(0.0, 1.0, {n}).reshape({s})", "np.zeros_like({a})", "{a}.copy()", "{a} + 1", "np.tile([1.0, 2.0, 3.0], 2)",
          "np.asfortranarray(np.ones({s}))", "OUTSIDE * 2", "np.array([x[0], 1.0, x[{i}]])", "np.zeros({s})[::-1].T")
VIEWS = ("{a}[{b}]", "{a}.T", "{a}.reshape(-1)", "{a}.ravel()", "{a}[::-1]", "{a}[..., ::2]", "{a}[None]", "{a}[1:]",
         "{a}.reshape(-1)[::{k}]", "{a}[:, 0]", "{a}.swapaxes(0, -1)", "np.atleast_2d({a})", "{a}.reshape({k}, -1)",
         "np.split({a}, 2)[1]", "{a}.view()", "{a}[..., 1:2]", "{a}.reshape(2, -1)[:, 1:]", "np.moveaxis({a}, 0, -1)", "{a}.squeeze()",
         "np.diagonal({a})", "list({a})[0]")
WRITES = ("{a}[{b}] = x[{i}]", "{a}[...] = x[{i}]", "{a}.reshape(-1)[0] = x[{i}]", "{a}[1:] += x[{i}]", "{a} *= x[{i}]",
          "{a}[...] = {c}", "{a}[::-1][0] = 7", "{a} += 1", "{a}[{a} > 1] = x[{i}]", "{a}[np.array([0, 1])] = x[{i}] * 2",
          "{a}[j] = x[{i}]", "{a}.fill(x[{i}])", "np.add({c}, x[{i}], out={a})", "np.copyto({a}, x[{i}])",
          "{a}[..., -1] -= {c}[..., 0]", "{a}[0] = [x[0], 1.0, x[{i}]]", "{a}.T[...] = {c}",
          "{a}[0], {a}[1] = {a}[1].copy(), {a}[0].copy()", "{a}[{b}] = x[:{k}]", "{a}.sort()", "{a}[{b}] **= 2",
          "total = total + {a}.sum()", "np.multiply({a}, x[{i}], out={a})")


def statement(draw: random.Random, names: list[str]) -> tuple[str, str]:
    kind = draw.choice(("make", "view", "view", "write", "write", "write")) if names else "make"
    shape = draw.choice(((6,), (2, 3), (3, 3), (4,), (2, 2, 2), ()))
    values = {"a": draw.choice(names or ["x"]), "c": draw.choice([*names, "x"]), "s": shape, "n": int(np.prod(shape)),
              "k": draw.randint(2, 3),
              "b": draw.choice(("0", "-1", "1:", "::2", "0, 1", "..., 0", "1, ::-1")),
              "i": draw.randint(0, 5)}
    text = draw.choice({"make": MAKERS, "view": VIEWS, "write": WRITES}[kind]).format(**values)
    return ("" if kind == "write" else f"v{len(names)}"), text


def program(seed: int) -> str:
    """Draw a program whose statements all run in NumPy."""
    draw, names, lines = random.Random(seed), list[str](), list[str]()
    space: dict[str, Any] = {"np": np, "x": X.copy(), "j": np.argmax(X) % 2, "total": 0.0, "OUTSIDE": OUTSIDE, "zeros": np.zeros}
    while len(lines) < 14:
        name, text = statement(draw, names)
        line = f"{name} = {text}" if name else text
        before = {key: np.array(space[key]) for key in names}
        try:
            with np.errstate(all="ignore"):
                exec(line, space)
            if name and type(space[name]) is not np.ndarray:
                continue
        except (ValueError, IndexError, TypeError, AttributeError):
            for key, content in before.items():     # a statement of several writes may have done some
                if not np.array_equal(space[key], content, equal_nan=True):
                    return program(seed + 1_000_000)
            continue
        lines.append(line)
        names += [name] if name else []
    body = "\n    ".join(lines)
    return f"def fun(x):\n    j, total = np.argmax(x) % 2, 0.0\n    {body}\n    return total, {', '.join(names)}\n"


OUTSIDE = np.array([[1.0, -2.0, 3.0], [0.5, 0.25, -1.0]])


def check(seed: int) -> str:
    """Compare a program with NumPy; returns why adjit refuses it, or an empty text."""
    source = program(seed)
    space: dict[str, Any] = {"np": np, "OUTSIDE": OUTSIDE, "zeros": np.zeros}
    exec(source, space)
    compiled = aj.compile(space["fun"], backend="interpret")
    for x in (X, X * 2):
        with np.errstate(all="ignore"):
            try:
                expected = space["fun"](x.copy())
            except (ValueError, IndexError, TypeError):
                return ""
            try:
                found = compiled(x.copy())
            except AdjitError as error:
                return str(error).split("\n")[0]
        for a, b in zip(found, expected, strict=True):
            got, wanted = np.asarray(a), np.asarray(b)
            assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype), f"seed {seed}\n{source}"
            assert np.array_equal(got, wanted, equal_nan=True), f"seed {seed}\n{source}\n{got}\nis not\n{wanted}"
    return ""


def test_random_fills_equal_numpy(request: pytest.FixtureRequest) -> None:
    count = 5000 if request.config.getoption("--exhaustive") else 100
    refused = [reason for seed in range(count) if (reason := check(seed))]
    assert len(refused) < 0.1 * count, refused
