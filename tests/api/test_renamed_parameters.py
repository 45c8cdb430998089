"""Loops, branches and functional optimisers take JAX's and the classes' names of parameters; the names before that are still accepted."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit.tracer import renamed_parameters

X = np.array([1.0, 2.0])


def updated(make: Callable[..., aj.optim.FunctionalOptimizer], **rate: float) -> Any:
    return make(**rate).update([X], [X], make(**rate).init([X]))[0][0]


CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any], dict[str, Any]]] = {
    "fori_loop": (aj.fori_loop, {"lower": 0, "upper": 3, "body_fun": lambda i, x: x * 2.0 + i, "init_val": X},
                  {"lower": "lo", "upper": "hi", "body_fun": "f", "init_val": "init"}),
    "while_loop": (aj.while_loop, {"cond_fun": lambda x: x[0] < 9.0, "body_fun": lambda x: x * 2.0, "init_val": X},
                   {"cond_fun": "cond", "body_fun": "body", "init_val": "init"}),
    "cond": (lambda **functions: aj.compile(lambda x: aj.cond(x[0] > 0.0, *(), **functions))(X),
             {"true_fun": lambda: 1.0, "false_fun": lambda: 2.0}, {"true_fun": "f", "false_fun": "g"}),
    **{make.__name__: (partial(updated, make), {"lr": 0.25}, {"lr": "learning_rate"})
       for make in (aj.optim.sgd, aj.optim.adam, aj.optim.adamw, aj.optim.rmsprop, aj.optim.adagrad)},
}


@pytest.fixture(autouse=True)
def nothing_was_warned_of(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(renamed_parameters, "_warned", set())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("name", CALLS)
def test_old_names_mean_the_new_ones_with_one_warning(name: str) -> None:
    function, arguments, old_names = CALLS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expected = function(**arguments)
    renamed = {old_names[new]: value for new, value in arguments.items()}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = [function(**renamed), function(**renamed)]
    np.testing.assert_array_equal(found, [expected, expected])
    assert len(caught) == len(arguments)
    assert all(warning.category is DeprecationWarning and warning.filename == __file__ for warning in caught)
    for new, old in old_names.items():
        assert any(str(warning.message).startswith(f"{name}({old}=...): the parameter is called {new} now") for warning in caught)


def test_both_names_are_an_error() -> None:
    with pytest.raises(TypeError, match=r"fori_loop\(\) got lower= and lo=, two names of one parameter"):
        aj.fori_loop(lower=0, lo=0, upper=3, body_fun=lambda i, x: x, init_val=X)     # type: ignore[call-overload]
    with pytest.raises(TypeError, match=r"adam\(\) got lr= and learning_rate="):
        aj.optim.adam(learning_rate=0.1, lr=0.1)        # type: ignore[call-arg]
    with pytest.raises(TypeError, match="multiple values for argument 'lr'"):
        aj.optim.adam(0.1, learning_rate=0.1)       # type: ignore[call-arg]


def test_unknown_names_are_an_error() -> None:
    with pytest.raises(TypeError, match=r"fori_loop\(\) got an unexpected keyword argument 'start'"):
        aj.fori_loop(start=0, upper=3, body_fun=lambda i, x: x, init_val=X)       # type: ignore[call-overload]


def test_signatures_have_the_new_names() -> None:
    assert list(inspect.signature(aj.fori_loop).parameters) == ["lower", "upper", "body_fun", "init_val"]
    assert list(inspect.signature(aj.while_loop).parameters) == ["cond_fun", "body_fun", "init_val"]
    assert list(inspect.signature(aj.cond).parameters) == ["pred", "true_fun", "false_fun", "operands"]
    assert list(inspect.signature(aj.scan).parameters) == ["f", "init", "xs", "length", "reverse"]
    for name in ("sgd", "adam", "adamw", "rmsprop", "adagrad"):
        assert next(iter(inspect.signature(getattr(aj.optim, name)).parameters)) == "lr"
