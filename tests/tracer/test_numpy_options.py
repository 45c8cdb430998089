"""Every function with every option that NumPy's signature has: values, dtypes and shapes as NumPy's, derivatives as slopes."""

from __future__ import annotations

import pytest
from support.each import for_each
from support.numpy_comparison import Differs, check_gradients, check_values, leaves, outcome, quietly
from support.numpy_options import ARGUMENTS, calls, function_of, method_calls, name_of, without_calls, without_values

import adjit as aj
from adjit.codegen.llvm.target import host_targets
from adjit.tracer.trace import is_tracing

ANY_CONTENT = ("empty_like",)
"""Functions whose results may hold any numbers."""
ANY_ORDER = ("argpartition(x,(0,2))", "unique_values(i)")
"""Calls whose results NumPy promises in no order."""
REFUSED = ("polyfit(x,y,2,full=True)", "polyfit(x,y,1,full=True)", "sort_complex", "angle")
"""Calls that may be refused."""

EVERY = 12
"""Of the calls with one option, every so manieth is checked by default."""


def chosen(exhaustive: bool, step: int = EVERY, gradients: bool = False) -> list[str]:
    every = [call for call in dict.fromkeys(calls()) if name_of(call) not in ANY_CONTENT and call not in ANY_ORDER
             and "overwrite_input" not in call]
    return every if exhaustive else every[1::step]


def check(call: str, backend: str) -> None:
    function = function_of(call)
    arguments = tuple(ARGUMENTS.values())
    with quietly():
        wanted, _ = outcome(function, arguments)
    try:
        if isinstance(wanted, Exception):       # NumPy refuses the option for this function, or the value
            with quietly(), pytest.raises(Exception):       # noqa: B017
                aj.compile(function, backend=backend)(*arguments)
        elif type(wanted) is bool:      # compiled functions return NumPy's
            assert aj.compile(function, backend=backend)(*arguments) == wanted
        else:
            check_values(function, [arguments], backend, 1e-13)
    except aj.errors.UnsupportedError:
        assert call.startswith(REFUSED)


def check_slope(call: str) -> None:
    function = function_of(call)
    arguments = tuple(float(x) if name == "s" else x for name, x in ARGUMENTS.items())
    with quietly():
        wanted, _ = outcome(function, arguments)
    if isinstance(wanted, Exception) or not any(getattr(getattr(x, "dtype", None), "kind", "") == "f" for _, x in leaves(wanted)):
        return
    try:
        check_gradients(function, [arguments], tuple(i for i, name in enumerate(ARGUMENTS) if name in "xyMTs"), "interpret")
    except aj.errors.UnsupportedError:
        assert call.startswith(REFUSED)


NOT_CHECKED = (
    "argpartition(x,2,kind=", "cross(M[:,:3],M[:,1:],axis=", "histogram_bin_edges(x,weights=", "isin(i,K,kind=",
    "linspace(s,4.0,4,axis=None)",
    "logspace(s,2.0,4,axis=None)", "geomspace(s,2.0,4,axis=None)", "nanmean(n,dtype=np.int64)", "nanstd(n,dtype=np.int64)",
    "nanstd(n,mean=", "nanvar(n,mean=", "partition(x,2,kind=", "trapezoid(M,axis=(0,))", "trim_zeros(i,axis=", "unique(i,axis=",
    "vecdot(M,M,axis=(0,))", "cov(M,dtype=np.int64)", "corrcoef(M,dtype=np.int64)")
"""Options that NumPy refuses and adjit takes, or takes for something else."""


TAKEN = ("logical_and.reduce(np.abs(M),dtype=np.float64)", "logical_or.reduce(np.abs(M),dtype=np.float64)")
"""Calls that NumPy refuses."""


def test_values_are_those_of_numpy(exhaustive: bool) -> None:
    for_each(((call, (call, "interpret")) for call in chosen(exhaustive) if not call.startswith(NOT_CHECKED)), check)


def test_derivatives_are_slopes(exhaustive: bool) -> None:
    for_each(((call, (call,)) for call in chosen(exhaustive, 40)), check_slope)


def test_methods_of_ufuncs(exhaustive: bool) -> None:
    every = [call for call in method_calls() if call not in TAKEN]
    for_each(((call, (call, "interpret")) for call in (every if exhaustive else every[::EVERY])), check)


@pytest.mark.skipif(not host_targets(), reason="no native code on this machine")
def test_values_in_native_code(exhaustive: bool) -> None:
    """LLVM takes tens of milliseconds for each: by default a few."""
    for_each(((call, (call, "native")) for call in chosen(exhaustive, 150) if not call.startswith(NOT_CHECKED)), check)
    if exhaustive:
        for_each(((call, (call, "numba")) for call in chosen(True)[::10] if not call.startswith(NOT_CHECKED)), check)


def test_every_function_and_every_option_is_in_the_table() -> None:
    """What a new rule, or a new NumPy, brings is reported here."""
    assert without_calls() == ["array2string", "array_repr", "array_str"]       # texts
    assert without_values() == ["corrcoef(y=)", "cov(y=)"]                       # further calls have them


def test_a_difference_is_seen() -> None:
    with pytest.raises(Differs):
        check_values(lambda x: 2 * x if is_tracing() else x, [(ARGUMENTS["x"],)], "interpret", 0.0)
