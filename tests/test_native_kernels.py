"""Native kernels against the meaning of their ops: every elementwise op and reduction, every place, every target of this machine."""

from __future__ import annotations

import numpy as np
import pytest
from native_steps import TARGET_CASES, run_steps
from test_ops_kernels import CASES, kernel_of

from adjit.codegen.native.fused import lower_fused
from adjit.codegen.target import Target
from adjit.ir.definition import Kind, OpDefinition, Sample
from adjit.ir.evaluator import evaluate


@pytest.mark.parametrize("target", TARGET_CASES)
@pytest.mark.parametrize(("definition", "sample"), CASES)
def test_kernel_equals_numpy(definition: OpDefinition, sample: Sample, target: Target) -> None:
    op = kernel_of(definition, sample)
    if op is None:
        pytest.skip("no kernel runs this reduction alone")
    arrays = [np.array(array, order="C") for array in sample.arrays]
    (wanted,) = evaluate(definition, arrays, sample.attrs)
    (found,) = run_steps(lower_fused(op, {}, target), arrays, [op.result.type], op.attrs["scratch_bytes"], target)
    if found.dtype.kind != "f":
        np.testing.assert_array_equal(found, wanted)
    else:
        tolerance = 2e-6 if found.dtype == np.float32 else 1e-14
        # Where a number is subnormal, NumPy's meaning may be the less exact one.
        absolute = float(np.finfo(found.dtype).tiny) if definition.kind is Kind.ELEMENTWISE else tolerance
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=absolute)
