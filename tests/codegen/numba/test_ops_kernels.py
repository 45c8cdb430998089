"""Every elementwise op and reduction as a kernel of its own, run as Python and compiled, against its NumPy meaning."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from support import kernel_runs
from support.each import for_each
from support.kernel_runs import CASES, Runner, as_python, check_numbers, kernel_of, run_kernel

from adjit.codegen.llvm.link import CompiledObject
from adjit.codegen.numba.compile_kernel import compile_source
from adjit.codegen.numba.kernel_source import KernelSource
from adjit.ir.definition import Kind, OpDefinition, Sample
from adjit.ir.interpreter import evaluate


@cache
def compiled_text(text: str, source: KernelSource) -> CompiledObject:
    return compile_source(source)


def compiled_once(source: KernelSource, arguments: Sequence[Any], ranges: list[tuple[int, int]]) -> None:
    """As `kernel_runs.compiled`; equal texts, for other shapes, are compiled once."""
    unsized = tuple(dataclasses.replace(argument, index=0) for argument in source.arguments)
    plain = dataclasses.replace(source, arguments=unsized, blocks=0, work=0.0, name="")
    kernel_runs.run_compiled(compiled_text(source.text, plain), source, arguments, ranges)


@pytest.mark.share(3)
@pytest.mark.parametrize("name", CASES)
def test_kernel_equals_numpy(name: str, exhaustive: bool) -> None:
    """As Python all samples; compiled, which takes numba long, the first one of each op."""
    runs: list[tuple[Runner, ...]] = []

    def check(definition: OpDefinition, sample: Sample) -> None:
        op = kernel_of(definition, sample)
        if op is None:
            assert definition.kind is Kind.REDUCTION
            (array,), axes = sample.arrays, sample.attrs["axes"]
            assert 0 < len(axes) < array.ndim or np.prod([array.shape[a] for a in axes]) == 1
            return
        arrays = [np.array(array, order="C") for array in sample.arrays]
        (wanted,) = evaluate(definition, arrays, sample.attrs)
        runs.append((as_python, compiled_once) if exhaustive or not runs else (as_python,))
        for runner in runs[-1]:
            (found,) = run_kernel(op, arrays, runner, splits=2)
            assert found.dtype == wanted.dtype
            assert found.shape == wanted.shape
            check_numbers(definition, found, wanted)

    for_each(((case, (definition, sample)) for case, definition, sample in CASES[name]), check)
