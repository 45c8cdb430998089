"""Every public name of SciPy's modules, and of its distributions, in `adjit.scipy`: it is there, and what has no rule says so by name."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest
import scipy.stats

import adjit as aj
from adjit.errors import UnsupportedError
from adjit.scipy import stats
from adjit.tracer.registry import special_function

MODULES = ("special", "stats", "linalg", "fft", "integrate", "interpolate", "optimize", "signal", "ndimage", "spatial", "spatial.distance",
           "sparse", "sparse.linalg")
REFUSAL = "{} has no rule for traced arrays and tensors"


def without_rule() -> dict[str, Any]:
    """Functions and methods of distributions that have no rule, by their full names."""
    found: dict[str, Any] = {}
    for module in MODULES:
        ours, theirs = (import_module(f"{package}.{module}") for package in ("adjit.scipy", "scipy"))
        for name in theirs.__all__:
            thing = getattr(ours, name)         # raises if the name is not there
            is_ufunc = isinstance(thing, np.ufunc) or (module == "special" and special_function(name) is not None)
            if callable(thing) and not isinstance(thing, type) and not is_ufunc and name not in ours.__all__:
                found[f"scipy.{module}.{name}"] = thing
    for number, name in enumerate(name for name, thing in vars(scipy.stats).items()
                                  if hasattr(thing, "random_state") and not isinstance(thing, type) and name in scipy.stats.__all__):
        ours = getattr(stats, name)
        there = {method: getattr(ours, method) for method in dir(getattr(scipy.stats, name)) if not method.startswith("_")}
        kinds = ("of_variable", "of_parameters", "of_number", "of_data")
        known = sum((getattr(ours, kind, ()) for kind in kinds), ("stats", "freeze", "nnlf"))
        refused = [method for method, thing in there.items() if callable(thing) and method not in known]
        for method in refused[number % max(len(refused), 1):][:1]:      # one of each: a message takes some time
            found[f"scipy.stats.{name}.{method}"] = there[method]
    return found


def test_every_name_is_there_and_what_has_no_rule_says_so() -> None:
    """A new SciPy shows here: its names are handed on, and refuse traced arrays by name."""
    things, silent = without_rule(), []
    assert {"scipy.signal.butter", "scipy.stats.nct", "scipy.sparse.linalg.eigsh"} <= things.keys()

    def call_each(x: Any) -> Any:
        for name, thing in things.items():
            try:
                thing(x)
            except UnsupportedError as error:
                if REFUSAL.format(name) in str(error) and "test_every_name.py" in str(error):
                    continue
            except Exception as error:     # not a message of ours
                silent.append(f"{name}: {error!r}")
                continue
            silent.append(name)
        return x

    aj.compile(call_each, backend="interpret")(1.0)
    assert not silent


def test_plain_numbers_are_handed_on() -> None:
    """Draws, fits, integrals and attributes of distributions, with parameters that are held and without."""
    x = np.array([0.3, 1.2, 0.7])

    def found(s: Any) -> list[Any]:
        return [s.norm.rvs(1.0, size=2, random_state=0), s.norm(1.0, 2.0).rvs(3, random_state=1), s.gamma.fit(x, floc=0)[0],
                s.norm(0.5).expect(lambda y: y * y), s.nct.logpdf(x, 3, 1), s.nct(3, 1).cdf(x), s.poisson(2.0).expect(), s.norm.numargs,
                s.dirichlet(x).rvs(2, random_state=3), s.multivariate_normal.cdf(x, x), s.multivariate_normal(x).cdf(x - 0.2),
                s.wishart.rvs(4, np.eye(2), random_state=4), s.norm.a, s.norm(1.0).args, s.multivariate_normal(x).mean,
                s.t(3.0).kwds == {}, s.ortho_group.rvs(2, random_state=5)]

    for ours, theirs in zip(found(stats), found(scipy.stats), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_tensors_are_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match=REFUSAL.format(r"scipy\.stats\.norm\.fit") + ": it searches"):
        stats.norm.fit(aj.tensor(np.ones(3)))
