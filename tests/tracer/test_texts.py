"""Texts of traced values: what Python decides by them is guarded, what is only shown costs nothing."""

from __future__ import annotations

import logging
import pprint
import sys
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit.ir.errors import TraceError


@dataclass
class Pair:
    first: Any
    second: Any = 1


def stored_and_compared(x):
    text = f"x is {x}"
    return 2 * x if text == "x is 1.0" else 3 * x


def in_a_method(x):
    class Named:
        def __repr__(self):
            return f"<{x}>"
    return 2 * x if repr(Named()) == "<1.0>" else 3 * x


def passed_on(x):
    def matches(text):
        return text.startswith("1")
    return 2 * x if matches(str(x)) else 3 * x


def of_a_list(x):
    texts = []
    texts.append(f"{x}")
    return 2 * x if texts[0] == "1.0" else 3 * x


BOTH = "{}|{}"
DECIDING = {
    "str": lambda x: 2 * x if str(x) == "1.0" else 3 * x, "repr": lambda x: 2 * x if "1.0" in repr(x) else 3 * x,
    "table": lambda x: {"1.0": 5.0}.get(f"{x}", 7.0) * x, "percent": lambda x: 2 * x if "%s %d" % (x, 1) == "1.0 1" else 3 * x,     # noqa: UP031
    "format": lambda x: 2 * x if BOTH.format(x, 1) == "1.0|1" else 3 * x, "length": lambda x: x * len(str(x)),
    "join": lambda x: 2 * x if ",".join([str(x), "a"]) == "1.0,a" else 3 * x, "returned": lambda x: (2 * x, f"{x}"),
    "dataclass": lambda x: 2 * x if str(Pair(x)).startswith("Pair(first=1.0") else 3 * x, "computed": lambda x: str(x * 2) == "2.0",
    "generator": lambda x: 2 * x if ",".join(f"{y}" for y in (x, x)) == "1.0,1.0" else 3 * x,
    "stored": stored_and_compared, "method": in_a_method, "passed on": passed_on, "of a list": of_a_list}


@pytest.mark.parametrize("name", DECIDING)
def test_texts_decide_as_in_python(name):
    for order in ([1.0, 2.25, 1.0], [2.25, 1.0]):
        compiled = aj.compile(DECIDING[name])
        for number in order:
            assert compiled(number) == DECIDING[name](number)


@pytest.mark.parametrize("kind", [np.float32, np.int64, np.float64])
def test_texts_are_those_of_the_dtype(kind):
    for x in (kind(3) / kind(2) if kind is not np.int64 else kind(3), np.array([0, 1, 2], kind), np.array(2, kind), np.zeros((2, 0), kind)):
        assert aj.compile(lambda x: (x, str(x), repr(x), f"{x}"))(x)[1:] == (str(x), repr(x), f"{x}")


def test_texts_of_large_arrays_and_in_loops_are_refused():
    with pytest.raises(TraceError, match="a text of a traced array"):
        aj.compile(lambda x: x if str(x) == "1" else 2 * x)(np.zeros(100))
    with pytest.raises(TraceError, match="a text of a traced array"):
        aj.compile(lambda x: aj.fori_loop(0, 3, lambda i, c: c + len(f"{i}"), x))(1.0)


def test_a_text_has_no_derivative():
    assert aj.grad(lambda x: x * len(str(x)))(2.25) == 4.0


def shows(x, logger):
    print(x, [x], {"x": x}, Pair(x))
    print(f"{x} {x!r:>30}", str(x), "%s" % x, BOTH.format(x, 1), ", ".join([str(x), repr(x)]), file=sys.stdout, flush=True)   # noqa: UP031
    pprint.pprint({"x": x})
    sys.stdout.write(f"{x}\n")
    logger.info("x is %s", x)
    logger.warning(f"x is {x}")
    warnings.warn(f"x is {x}", stacklevel=1)
    if x.shape:
        print(f"{x[0]}")
    return 2 * x


@pytest.mark.filterwarnings("ignore:x is")
def test_what_is_only_shown_is_no_decision(capsys, caplog):
    caplog.set_level(logging.INFO)
    compiled = aj.compile(lambda x: shows(x, logging.getLogger(__name__)))
    for x in (1.0, 2.0, 3.0, 4.0, 5.0):
        assert compiled(x) == 2 * x
    assert compiled.cache_info().traces == 1
    assert compiled(np.ones(100)).shape == (100,)
    assert "<traced f64[], weak>" in capsys.readouterr().out
    assert "x is <traced f64[], weak>" in caplog.messages


def test_messages_of_exceptions_have_the_numbers():
    def checked(x):
        if np.sum(x) > 2:
            raise ValueError(f"bad: {np.sum(x)}, {x}")
        if not np.sum(x) > 0:
            raise AssertionError(f"not positive: {np.sum(x)}")
        return x
    compiled = aj.compile(checked)
    for x in (np.ones(2), np.array([1.5, 1.0]), -np.ones(2), np.ones(100), np.ones(1)):
        outcomes = []
        for function in (checked, compiled):
            try:
                outcomes.append(str(function(x)))
            except (ValueError, AssertionError) as error:
                outcomes.append(repr(error))
        assert outcomes[0] == outcomes[1] or (x.size == 100 and "<traced f64[100]>" in outcomes[1])
    assert compiled.cache_info().traces == 2        # one for each shape
