"""Native steps of ops outside of kernels, against the interpreter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from native_steps import TARGET_CASES, CheckFailed, run_steps
from op_cases import assert_identical, type_of

from adjit.codegen.native.lower_op import LOWERINGS, lower_op
from adjit.codegen.target import Target
from adjit.ir.definition import DEFINITIONS, Kind, OpDefinition, Sample
from adjit.ir.evaluator import evaluate
from adjit.ir.graph import Op, Value

pytestmark = pytest.mark.skipif(not TARGET_CASES, reason="no x86-64 process")
for_each_target = pytest.mark.parametrize("target", TARGET_CASES)


def op_of(definition: OpDefinition, arrays: tuple[np.ndarray, ...], attrs: Mapping[str, Any]) -> Op:
    operands = tuple(Value(type_of(array)) for array in arrays)
    (result,) = definition.result_types([value.type for value in operands], attrs)
    return Op(definition, operands, (Value(result),), attrs)


def run(name: str, target: Target, *arrays: np.ndarray, in_place: bool = False, one_at_a_time: bool = False, **attrs: Any) -> np.ndarray:
    op = op_of(DEFINITIONS[name], arrays, attrs)
    shared = {0: 0} if in_place else {}
    steps = lower_op(op, shared, target)
    (found,) = run_steps(steps, arrays, [op.result.type], 0, target, shared=shared, one_at_a_time=one_at_a_time)
    return found


def check(name: str, target: Target, *arrays: np.ndarray, in_place: bool = False, one_at_a_time: bool = False, **attrs: Any) -> None:
    (expected,) = evaluate(DEFINITIONS[name], arrays, attrs)
    assert_identical(run(name, target, *arrays, in_place=in_place, one_at_a_time=one_at_a_time, **attrs), expected)


@for_each_target
@pytest.mark.parametrize("name", sorted(LOWERINGS))
def test_samples(name: str, target: Target) -> None:
    for sample in DEFINITIONS[name].samples():
        check(name, target, *sample.arrays, **sample.attrs)
