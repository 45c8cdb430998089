"""Native steps of ops outside of kernels, against the interpreter."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from support.each import for_each
from support.native_steps import BEST, TARGET_CASES, CheckFailed, LoadedSteps, load_together, run_steps
from support.op_cases import assert_identical, first_of_each_dtype, type_of

from adjit.codegen.llvm.target import TARGETS, Target
from adjit.codegen.native.lower_op import lower_op, lower_step
from adjit.ir.definition import DEFINITIONS, Kind, OpDefinition
from adjit.ir.graph import Op, Value
from adjit.ir.interpreter import evaluate
from adjit.ir.ops.traits import TRANSFORMS
from adjit.ir.types import F32, F64, I64, SHORT_NAMES, is_half

pytestmark = pytest.mark.skipif(not TARGET_CASES, reason="no x86-64 process")
IN_ANY_ORDER = {"reduce_sum": 8, "reduce_prod": 8, "reduce_max": 0, "reduce_min": 0, "matmul": 64}
"""Ops that combine in an order of their own, and by how many last units they may differ; either of two zeros is an extremum."""

for_each_target = pytest.mark.parametrize("target", TARGET_CASES)


def op_of(definition: OpDefinition, arrays: tuple[np.ndarray, ...], attrs: Mapping[str, Any]) -> Op:
    operands = tuple(Value(type_of(array)) for array in arrays)
    results = definition.result_types([value.type for value in operands], attrs)
    return Op(definition, operands, tuple(map(Value, results)), attrs)


def run(name: str, target: Target, *arrays: np.ndarray, in_place: bool = False, one_at_a_time: bool = False, **attrs: Any) -> np.ndarray:
    op = op_of(DEFINITIONS[name], arrays, attrs)
    shared = {0: 0} if in_place else {}
    steps = lower_op(op, shared, target)
    (found,) = run_steps(steps, arrays, [op.result.type], 0, target, shared=shared, one_at_a_time=one_at_a_time)
    return found


class Checks:
    """Runs of ops whose code is compiled together, when the block ends, and then compared with the interpreter."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._runs: list[tuple[str, Op, tuple[np.ndarray, ...], bool, bool]] = []

    def __enter__(self) -> Checks:
        return self

    def __call__(self, name: str, *arrays: np.ndarray, in_place: bool = False, one_at_a_time: bool = False, of: Any = None,
                 **attrs: Any) -> None:
        """Check an op; `of` says in messages which sample it is."""
        op = op_of(DEFINITIONS[name], arrays, attrs)
        words = [name, *([] if of is None else [f"of {of}"]), *(str(value.type) for value in op.operands), str(attrs)]
        self._runs.append((" ".join(words), op, arrays, in_place, one_at_a_time))

    def __exit__(self, *exception: object) -> None:
        if exception != (None, None, None):
            return
        target = self._target
        codes = load_together([lower_op(op, {0: 0} if in_place else {}, target) for _, op, _, in_place, _ in self._runs], target)
        for_each(((name, (code, *run)) for code, (name, *run) in zip(codes, self._runs, strict=True)), self._check)

    def _check(self, code: LoadedSteps, op: Op, arrays: tuple[np.ndarray, ...], in_place: bool, one_at_a_time: bool) -> None:
        (expected,) = evaluate(op.definition, arrays, op.attrs)
        shared = {0: 0} if in_place else {}
        (found,) = run_steps(code, arrays, [op.result.type], 0, self._target, shared=shared, one_at_a_time=one_at_a_time)
        if op.name in IN_ANY_ORDER and expected.dtype.kind == "f":
            assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
            np.testing.assert_allclose(found, expected, rtol=IN_ANY_ORDER[op.name] * np.finfo(found.dtype).eps)
        elif op.name in ("fft", "rfft", "irfft") and found.dtype in (np.float32, np.complex64):      # NumPy transforms them in float64
            assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6 * np.max(np.abs(expected)))
        else:
            assert_identical(found, expected)


@pytest.mark.share(3)
@for_each_target
@pytest.mark.parametrize("kind", [Kind.MOVEMENT, Kind.INDEXING, Kind.CREATION, Kind.REDUCTION, Kind.SCAN, Kind.CONTRACTION, Kind.EXTERNAL],
                         ids=lambda kind: kind.name)
def test_samples(kind: Kind, target: Target, exhaustive: bool) -> None:
    """All on the best target that this machine has, on others the first one of each dtype."""
    with Checks(target) as check:
        for record in DEFINITIONS.values():
            samples = list(record.samples()) if record.kind is kind and "convolution" not in record.name else []
            for number, sample in enumerate(samples if exhaustive or target is BEST else first_of_each_dtype(samples)):
                check(record.name, *sample.arrays, of=f"sample {number}", **sample.attrs)

def test_samples_of_matrices() -> None:
    """All results, up to rounding: LAPACK takes other ways for whole stacks."""
    cases = [(f"{record.name} of sample {number}", op_of(record, sample.arrays, sample.attrs), sample.arrays)
             for record in DEFINITIONS.values() if record.kind is Kind.LINALG for number, sample in enumerate(record.samples())]
    codes = load_together([lower_op(op, {}, BEST) for _, op, _ in cases], BEST)

    def check(code: LoadedSteps, op: Op, arrays: tuple[np.ndarray, ...]) -> None:
        found = run_steps(code, arrays, [result.type for result in op.results], 0, BEST)
        for one, expected in zip(found, evaluate(op.definition, arrays, op.attrs), strict=True):
            assert (one.dtype, one.shape) == (expected.dtype, expected.shape)
            if op.name == "eig" and one is not found[0] and arrays[0].dtype in (np.float32, np.complex64):
                one, expected = np.abs(one), np.abs(expected)       # NumPy computes in float64, where signs may be others
            tolerance = 2e-4 if one.dtype in (np.float32, np.complex64) else 1e-11
            np.testing.assert_allclose(one, expected, rtol=tolerance, atol=tolerance)

    for_each([(name, (code, op, arrays)) for code, (name, op, arrays) in zip(codes, cases, strict=True)], check)


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind not in (Kind.REGION, Kind.MEMORY, Kind.CHECK)], ids=lambda kind: kind.name)
def test_every_op_has_machine_code(kind: Kind) -> None:
    def check(definition: OpDefinition) -> None:
        for sample in definition.samples():
            op = op_of(definition, sample.arrays, sample.attrs)
            for target in TARGETS.values():
                assert lower_op(op, {}, target) or not op.results[0].type.size

    for_each({name: record for name, record in DEFINITIONS.items() if record.kind is kind and name not in TRANSFORMS}, check)


@for_each_target
def test_elementwise_ops_that_stand_alone(target: Target) -> None:
    x = np.linspace(-3.0, 3.0, 1000)
    with Checks(target) as check:
        for number, sample in enumerate(DEFINITIONS["multiply"].samples()):
            check("multiply", *sample.arrays, of=f"sample {number}")
        check("relu", x, in_place=True)
        check("select", x > 1, x, -x)
        check("multiply", x, x)
        check("convert", x, dtype=np.dtype(np.int32))


# -- random shapes: sizes around those of vectors, tiles, blocks and tasks

SIZES = (1, 2, 3, 4, 5, 7, 8, 16, 17, 33, 64, 70, 300, 5000, 20000)
MOST_ELEMENTS = 200_000
REALS = [dtype for dtype in SHORT_NAMES.values() if dtype.kind != "c"]
"""Dtypes that steps see: a pass makes pairs of reals of complex numbers."""


def draw(seed: int) -> tuple[np.random.Generator, np.ndarray, bool]:
    """An array of whole numbers, of any dtype and up to four dimensions, and whether tasks are to run one by one, last first."""
    rng = np.random.default_rng(seed)
    dtype = REALS[rng.integers(len(REALS))]
    shape: tuple[int, ...] = (MOST_ELEMENTS, 2)
    while math.prod(shape) > MOST_ELEMENTS:
        shape = tuple(int(size) for size in rng.choice(SIZES, rng.integers(1, 5)))
    return rng, rng.integers(0, 2 if dtype.kind == "b" else 100, shape).astype(dtype), bool(rng.integers(2))


def numbers(rng: np.random.Generator, count: int, stop: int) -> tuple[int, ...]:
    return tuple(int(number) for number in rng.integers(0, stop, count))


def seeds(target: Target, exhaustive: bool) -> range:
    """Of the draws: all for the best target that this machine has."""
    return range(30 if exhaustive or target is BEST else 8)


@for_each_target
def test_movement(target: Target, exhaustive: bool) -> None:
    with Checks(target) as check:
        for seed in seeds(target, exhaustive):
            check_movement(seed, check)


def check_movement(seed: int, check: Checks) -> None:
    rng, x, one_at_a_time = draw(seed)
    rank, how = x.ndim, {"one_at_a_time": one_at_a_time, "of": f"draw {seed}"}
    check("transpose", x, permutation=tuple(int(axis) for axis in rng.permutation(rank)), **how)
    check("flip", x, axes=tuple(axis for axis in range(rank) if rng.integers(2)), **how)
    start = tuple(int(rng.integers(size)) for size in x.shape)
    stop = tuple(int(rng.integers(first, size + 1)) for first, size in zip(start, x.shape, strict=True))
    step = tuple(1 + number for number in numbers(rng, rank, 3))
    check("slice", x, start=start, stop=stop, step=step, **how)
    update = 1 - x[tuple(slice(*bounds) for bounds in zip(start, stop, step, strict=True))].astype(np.int8)
    check("update_slice", x, update.astype(x.dtype), start=start, step=step, in_place=bool(rng.integers(2)), **how)
    if x.dtype.kind != "b" and not is_half(x.dtype):
        check("add_slice", x, update.astype(x.dtype), start=start, step=step, in_place=bool(rng.integers(2)), **how)
    interior = numbers(rng, rank, 2) if rng.integers(2) else (0,) * rank
    check("pad", x, low=numbers(rng, rank, 3), high=numbers(rng, rank, 3), interior=interior, value=1, **how)
    place = int(rng.integers(rank + 1))
    axes = tuple(axis for axis in range(rank + 1) if axis != place)
    check("broadcast", x, shape=(*x.shape[:place], 3, *x.shape[place:]), axes=axes, **how)
    check("concatenate", x, x, x[:0], x, x[:1], axis=0, **how)
    check("reshape", x, shape=(x.size,), **how)


@pytest.mark.share(2)
@for_each_target
def test_reductions_and_scans(target: Target, exhaustive: bool) -> None:
    with Checks(target) as check:
        for seed in seeds(target, exhaustive):
            check_reductions_and_scans(seed, check)


def check_reductions_and_scans(seed: int, check: Checks) -> None:
    rng, x, one_at_a_time = draw(seed)
    x = x.astype(F32) if is_half(x.dtype) else x        # these ops compute in float32
    axes = tuple(axis for axis in range(x.ndim) if rng.integers(2))
    axis, how = int(rng.integers(x.ndim)), {"one_at_a_time": one_at_a_time, "of": f"draw {seed}"}
    if x.dtype.kind == "f" and rng.integers(2):
        x.reshape(-1)[rng.integers(0, x.size, 2)] = np.nan
    for name in ("reduce_and", "reduce_or") if x.dtype.kind == "b" else ("reduce_sum", "cumsum", "iota"):
        if name == "iota":
            check(name, dtype=x.dtype, shape=x.shape, axis=axis, **how)
        elif name == "cumsum":
            check(name, x, axis=axis, reverse=one_at_a_time, **how)
        else:
            check(name, x, axes=axes, **how)
    for name in ("reduce_max", "reduce_min"):
        check(name, x, axes=axes, **how)
    for name in ("argmax", "argmin", "argsort"):
        check(name, x, axis=axis, **how)
    for name in ("cummax", "cummin") if x.dtype.kind != "b" else ():
        check(name, x, axis=axis, reverse=bool(rng.integers(2)), **how)
    count = int(rng.integers(x.shape[axis] + 1))
    check("sort", x, axis=axis, first=int(rng.integers(x.shape[axis] - count + 1)), count=count, **how)


@pytest.mark.share(4)
@for_each_target
@pytest.mark.parametrize("dtype", [F64, F32, I64, np.dtype(np.uint32), np.dtype(np.int16), np.dtype(np.bool_)], ids=str)
def test_sorts(dtype: np.dtype, target: Target, exhaustive: bool) -> None:
    """Lines of few and of many elements, with NaN and zeros of both signs, with few different elements; whole, a part of long ones, and the
    sides of a pivot."""
    rng = np.random.default_rng(0)
    specials = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, -np.nan, 5e-324, 1e30])
    with Checks(target) as check, np.errstate(all="ignore"):
        for count in (64, 65, 3000, 20_000) if target is BEST or exhaustive else (65, 20_000):
            near = 1.0 + 1e-12 * rng.integers(0, count, (2, count))      # most of these differ in their least significant digits alone
            for x in (rng.normal(0.0, 1e9, (2, count)), rng.choice(specials, (2, count)), rng.integers(0, 3, (2, count)),
                      np.where(rng.random((2, count)) < 0.5, near, 0.0), np.sort(near, axis=1)):
                line = (x if dtype.kind != "b" else x > 0).astype(dtype)
                check("sort", line, axis=1, first=0, count=count)
                check("argsort", line, axis=1)
                for pivot in (line[:, 7:8].copy(), line[:, :1].copy()):
                    check("partition", line, pivot, axis=1)
                    check("argpartition", line, pivot, axis=1)
                check("partition", line.reshape(count, 2), line.reshape(count, 2)[7:8], axis=0)
                if not np.signbit(x[x == 0]).any():     # of zeros of both signs any may be in a part
                    check("sort", line, axis=1, first=count // 3, count=2)
                    check("sort", line.reshape(count, 2), axis=0, first=count - 3, count=3)


@for_each_target
@pytest.mark.parametrize(("shape", "axes"), [((300, 5000), (1,)), ((5000, 300), (0,)), ((200, 31, 4, 33, 2), (1, 3)), ((100_003,), (0,)),
                                             ((64, 7, 300), (0, 2)), ((9000, 3), (1,)), ((9000, 3), (0,))])
def test_sums_are_exact_and_independent_of_the_tasks(shape: tuple[int, ...], axes: tuple[int, ...], target: Target) -> None:
    x = np.random.default_rng(0).uniform(0.0, 1.0, shape).astype(np.float32)
    found = run("reduce_sum", target, x, axes=axes)
    np.testing.assert_array_equal(found, run("reduce_sum", target, x, axes=axes, one_at_a_time=True))
    np.testing.assert_allclose(found, x.sum(axes, np.float64), rtol=2e-6)


@for_each_target
def test_slices_at_different_places_are_one_text(target: Target) -> None:
    x = np.arange(24.0).reshape(6, 4)
    texts = set()
    with Checks(target) as check:
        for start in range(4):
            attrs = {"start": (start, 1), "stop": (start + 2, 4), "step": (1, 1)}
            check("slice", x, **attrs)
            texts.update(step.text for step in lower_op(op_of(DEFINITIONS["slice"], (x,), attrs), {}, target))
    assert len(texts) == 1


# -- whole numbers


@for_each_target
@pytest.mark.parametrize(("transpose_a", "transpose_b"), [(False, False), (True, False), (False, True), (True, True)])
def test_products_of_whole_numbers(transpose_a: bool, transpose_b: bool, target: Target) -> None:
    rng = np.random.default_rng(1)
    with Checks(target) as check:
        for dtype in ("?", "i1", "u2", "i4", "u8"):
            for batch, rows, inner, columns in ((3, 5, 7, 70), (1, 33, 64, 3), (2, 1, 5, 1)):
                a = rng.integers(0, 100, (batch, inner, rows) if transpose_a else (batch, rows, inner)).astype(dtype)
                b = rng.integers(0, 100, (batch, columns, inner) if transpose_b else (batch, inner, columns)).astype(dtype)
                check("matmul", a, b, transpose_a=transpose_a, transpose_b=transpose_b)


# -- indexing

def indexing_case(along: bool, shape: tuple[int, ...], axis: int, count: int, dtype: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A base, indices that repeat themselves, and updates, all whole numbers."""
    rng = np.random.default_rng(3)
    places = (*shape[:axis], count, *shape[axis + 1:])
    indices = rng.integers(0, shape[axis], places if along else count)
    return rng.integers(0, 50, shape).astype(dtype), indices, rng.integers(0, 50, places).astype(dtype)


@for_each_target
@pytest.mark.parametrize(("shape", "axis", "count", "dtype"), [
    ((50, 128), 0, 300, "f4"), ((50, 129), 0, 300, "f8"), ((4, 70, 3), 1, 500, "f4"), ((3000,), 0, 20000, "f8"), ((6, 7), 1, 5, "i1"),
    ((2, 9, 640), 1, 40, "u2")])
def test_indexing(shape: tuple[int, ...], axis: int, count: int, dtype: str, target: Target) -> None:
    with Checks(target) as check:
        for along in (False, True):
            base, indices, updates = indexing_case(along, shape, axis, count, dtype)
            reading, writing = ("take_along_axis", ["scatter_add_along_axis"]) if along else ("take", ["scatter_add", "scatter_set"])
            for one_at_a_time in (False, True):
                check(reading, base, indices, axis=axis, one_at_a_time=one_at_a_time)
                for name in writing:
                    for in_place in (False, True):
                        check(name, base, indices, updates, axis=axis, one_at_a_time=one_at_a_time, in_place=in_place)
            late = np.where(indices % 2 == 0, indices, indices - shape[axis])
            check(reading, base, late, axis=axis, from_end=True)
            for name in writing:
                check(name, base, late, updates, axis=axis, from_end=True)


@for_each_target
@pytest.mark.parametrize("name", ["take", "scatter_add", "scatter_set", "take_along_axis", "scatter_add_along_axis"])
def test_the_first_index_out_of_range_is_named(name: str, target: Target) -> None:
    base, indices, updates = indexing_case(name.endswith("_along_axis"), (40, 30), 0, 60, "f4")
    operands = (base, indices, updates)[:DEFINITIONS[name].arity]
    for position, wrong, marks in ((0, -1, {}), (indices.size // 2, 40, {}), (indices.size - 1, 2 ** 62, {}), (3, -41, {"from_end": True}),
                                   (indices.size - 1, 40, {"from_end": True}), (9, -2 ** 63, {"from_end": True})):
        bad = indices.copy()
        bad.reshape(-1)[position:] = wrong
        with pytest.raises(CheckFailed) as failure:
            run(name, target, operands[0], bad, *operands[2:], axis=0, **marks)
        assert failure.value.position == position


def test_indices_are_checked_before_all_else() -> None:
    target = TARGET_CASES[0].values[0]
    for name in ("take", "scatter_add", "scatter_set", "take_along_axis", "scatter_add_along_axis"):
        operands = indexing_case(name.endswith("_along_axis"), (5, 6), 0, 4, "f4")[:DEFINITIONS[name].arity]
        steps = lower_op(op_of(DEFINITIONS[name], operands, {"axis": 0}), {}, target)
        assert [step.checks for step in steps] == [True, *[False] * (len(steps) - 1)]
        if name == "take":
            assert len(steps) == 1
            steps = lower_step(op_of(DEFINITIONS[name], operands, {"axis": 0}), {}, target, None, {}, check_first=True)    # type: ignore[arg-type]
            assert [step.checks for step in steps] == [True, False]


@for_each_target
def test_indices_of_rows_without_elements_are_checked(target: Target) -> None:
    with pytest.raises(CheckFailed):
        run("take", target, np.zeros((3, 0)), np.array([1, 3]), axis=0)
