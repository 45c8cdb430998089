"""Every op with code for devices, on the emulated device, against its meaning."""

from __future__ import annotations

import numpy as np
import pytest
from support.device_runs import run_on_device
from support.each import for_each
from support.op_cases import Case, op_cases, sample_graph

from adjit.ir.definition import Kind, OpDefinition, Rounding, Sample
from adjit.ir.interpreter import interpret
from adjit.runtime.native.code import native_is_supported

pytestmark = pytest.mark.skipif(not native_is_supported(), reason="the emulated device is for CPython on Linux on x86-64")

KINDS = (Kind.ELEMENTWISE, Kind.REDUCTION, Kind.MOVEMENT)
ALONE = ("argmax", "argmin", "argsort", "constant", "cummax", "cummin", "cumprod", "cumsum", "iota", "matmul", "scatter_add",
         "scatter_add_along_axis", "scatter_set", "sort", "table", "take", "take_along_axis")
PARTS = 8
ONE_IN = 12
"""Without `--exhaustive`, the first sample of each op and one in twelve of the others."""


def cases(exhaustive: bool) -> list[Case]:
    found = [case for case in op_cases() if case[1].kind in KINDS or case[1].name in ALONE]
    found = [case for case in found if case[1].external is None and not (case[1].name == "matmul" and case[2].arrays[0].dtype == bool)]
    first = {case[1].name: case for case in reversed(found)}
    return found if exhaustive else [case for number, case in enumerate(found) if case is first[case[1].name] or number % ONE_IN == 0]


@pytest.mark.parametrize("part", range(PARTS))
def test_results_are_those_of_the_interpreter(part: int, exhaustive: bool) -> None:
    for_each(((name, (definition, sample)) for name, definition, sample in cases(exhaustive)[part::PARTS]), check)


def check(definition: OpDefinition, sample: Sample) -> None:
    graph = sample_graph(definition, sample)
    found = run_on_device(graph, sample.arrays)
    with np.errstate(all="ignore"):
        expected = interpret(graph, [np.array(array, order="C") for array in sample.arrays])
        for a, b in zip(found, map(np.asarray, expected), strict=True):
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            if a.dtype.kind not in "fc" or definition.rounding in (Rounding.NONE, Rounding.ONCE) or definition.kind is Kind.MOVEMENT:
                np.testing.assert_array_equal(a, b)
            else:
                largest = np.max(np.abs(b), where=np.isfinite(b), initial=0.0)
                limits = np.finfo(a.dtype)
                np.testing.assert_allclose(a, b, rtol=64 * limits.eps, atol=8 * limits.eps * largest + limits.tiny)
