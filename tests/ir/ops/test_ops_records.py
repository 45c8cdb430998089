"""Op records: complete, listed in docs/internals/ir.md, with samples that reach what matters; type rule, meaning and text agree."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from support.op_cases import for_each_op, for_each_sample, gradient_graph, sample_graph, type_of
from support.project import ROOT

from adjit.ir import ops
from adjit.ir.definition import DEFINITIONS, Kind, OpDefinition, Sample, define
from adjit.ir.emitter import emitting
from adjit.ir.errors import DTypeError, ShapeError
from adjit.ir.interpreter import ArrayValue, Evaluator, evaluate
from adjit.ir.ops.sampling import edge_pairs, edges
from adjit.ir.parser import parse
from adjit.ir.printer import print_graph
from adjit.ir.types import C64, C128, F32, F64, SHORT_NAMES, TensorType, is_half, real_dtype
from adjit.ir.verifier import verify

PRIMITIVE = tuple(kind for kind in Kind if kind not in (Kind.REGION, Kind.MEMORY, Kind.CHECK))

# Where NumPy takes more dtypes than the op: there the tracer has another op, or converts first.
INTEGERS_AND_BOOL = {name for name, dtype in SHORT_NAMES.items() if dtype.kind in "biu"}
INTEGERS = INTEGERS_AND_BOOL - {"bool"}
FLOATS = {"f32", "f64", "c64", "c128"}
STRICTER = {
    "floor": INTEGERS_AND_BOOL, "ceil": INTEGERS_AND_BOOL, "trunc": INTEGERS_AND_BOOL, "reciprocal": INTEGERS,
    "isnan": INTEGERS_AND_BOOL, "isinf": INTEGERS_AND_BOOL, "isfinite": INTEGERS_AND_BOOL,
    "rint": {"c64", "c128"}, "conj": INTEGERS | {"f32", "f64"},
    "logical_not": INTEGERS | FLOATS, "logical_and": INTEGERS | FLOATS,
    "logical_or": INTEGERS | FLOATS, "logical_xor": INTEGERS | FLOATS,
}


def accepts(definition: OpDefinition, dtype: np.dtype) -> bool:
    """Whether the elementwise op or reduction takes operands of `dtype`."""
    types = [TensorType(dtype, (2,))] * (definition.arity or 1)
    if definition.name == "select":
        types[0] = TensorType(SHORT_NAMES["bool"], (2,))
    attrs: dict[str, Any] = {"axes": (0,)} if definition.kind is Kind.REDUCTION else {}
    if definition.name == "convert":
        attrs = {"dtype": F32}
    try:
        definition.result_types(types, attrs)
    except DTypeError:
        return False
    return True


def test_table_of_the_ir_page_lists_every_op_but_elementwise_ones_with_its_attributes() -> None:
    written: dict[str, tuple[str, list[str]]] = {}
    for kind, text in re.findall(r"^\| ([A-Z]+) \| (.*) \|$", (ROOT / "docs" / "internals" / "ir.md").read_text(), re.MULTILINE):
        names: list[str] = []
        for code in re.findall(r"`([\w{][^`]*)`", text):
            names = re.sub(r"\([^)]*\)|\{[^}]*\}", "", code).split() or names     # attributes alone are those of the names before them
            attributes = re.findall(r"\w+", code.partition("{")[2])
            written.update({name: (kind, sorted(attributes)) for name in names})
    others = {name: definition for name, definition in DEFINITIONS.items() if definition.kind is not Kind.ELEMENTWISE}
    assert written == {name: (definition.kind.name, sorted(definition.attributes)) for name, definition in others.items()}


def test_every_op_is_reached_by_its_name() -> None:
    assert {name: getattr(ops, name) for name in DEFINITIONS} == DEFINITIONS
    assert set(ops.__all__) == {*DEFINITIONS, "full_like"}


@for_each_op(*Kind, in_one_item=True)
def test_doc_is_a_sentence(definition: OpDefinition) -> None:
    assert definition.doc.endswith(".")
    assert "  " not in definition.doc


@for_each_op(*PRIMITIVE, in_one_item=True)
def test_samples_reach_every_float_dtype_that_the_op_takes(definition: OpDefinition) -> None:
    """Complex numbers are those of `tests/ir/ops/test_complex_ops.py`, made of these samples; bfloat16, whose kind in NumPy is V,
    that of `tests/programs/test_half_programs.py`."""
    samples = list(definition.samples())
    assert samples
    dtypes = {array.dtype for sample in samples for array in sample.arrays} | {sample.attrs.get("dtype") for sample in samples}
    if definition.kind in (Kind.ELEMENTWISE, Kind.REDUCTION):
        taken = {dtype for dtype in SHORT_NAMES.values() if dtype.kind not in "cV" and accepts(definition, dtype)}
        assert dtypes >= taken
    else:
        assert dtypes >= {F32, F64} or dtypes >= {C64, C128}


@for_each_op(Kind.ELEMENTWISE, Kind.REDUCTION, in_one_item=True)
def test_samples_reach_edges_empty_arrays_and_scalars(definition: OpDefinition) -> None:
    samples = list(definition.samples())
    assert any(array.ndim == 0 for sample in samples for array in sample.arrays)
    assert any(array.size == 0 for sample in samples for array in sample.arrays)
    for dtype in (F32, F64):
        if accepts(definition, dtype) and definition.name != "convert":
            values = np.concatenate([array.ravel() for sample in samples for array in sample.arrays if array.dtype == dtype])
            zeros = values[values == 0]
            assert np.isnan(values).any()
            assert np.isposinf(values).any()
            assert np.isneginf(values).any()
            assert np.signbit(zeros).any()
            assert not np.signbit(zeros).all()
            assert (np.abs(values[values != 0]) < np.finfo(dtype).tiny).any()


@for_each_op(*PRIMITIVE, in_one_item=True)
def test_differentiable_ops_have_samples_for_it(definition: OpDefinition) -> None:
    """In every float operand; `stop_gradient` has no derivative to compare with, and operands of ops without a rule have none."""
    checked = {operand for sample in definition.samples() for operand in sample.differentiable}
    wanted = {operand for sample in definition.samples() for operand, array in enumerate(sample.arrays) if array.dtype in (F64, C128)}
    if definition.vjp is None or definition.name in ("stop_gradient", "lu_inverse", "lu_solve", "qr_raw"):
        assert not checked
    elif definition.name == "concatenate":
        assert {0, 1} <= checked
    else:
        assert checked >= {operand for operand in wanted if not (definition.name == "select" and operand == 0)}


@for_each_op(Kind.ELEMENTWISE, where=lambda definition: isinstance(definition.numpy, np.ufunc), in_one_item=True)
def test_accepted_dtypes_are_those_of_numpy(definition: OpDefinition) -> None:
    ufunc = definition.numpy
    assert isinstance(ufunc, np.ufunc)
    refused = set()
    for name, dtype in SHORT_NAMES.items():
        if is_half(dtype) and not definition.half:
            assert not accepts(definition, dtype)
            continue
        try:
            *sources, result = ufunc.resolve_dtypes((dtype,) * ufunc.nin + (None,))
        except TypeError:
            fits = False
        else:
            fits = all(source == dtype for source in sources) and result in (dtype, real_dtype(dtype), SHORT_NAMES["bool"])
        if accepts(definition, dtype):
            assert fits, name
        elif fits:
            refused.add(name)
    assert refused <= STRICTER.get(definition.name, set())      # NumPy 2.0 itself takes fewer


@for_each_sample()
def test_type_rule_says_what_evaluate_gives(definition: OpDefinition, sample: Sample) -> None:
    inferred = definition.result_types([type_of(array) for array in sample.arrays], sample.attrs)
    results = evaluate(definition, sample.arrays, sample.attrs)
    assert [str(type_of(result)) for result in results] == list(map(str, inferred))


@for_each_sample()
def test_operands_stay_as_they_are(definition: OpDefinition, sample: Sample) -> None:
    before = [array.copy() for array in sample.arrays]
    evaluate(definition, sample.arrays, sample.attrs)
    for array, copy in zip(sample.arrays, before, strict=True):
        np.testing.assert_array_equal(array, copy)


@for_each_sample()
def test_strides_do_not_matter(definition: OpDefinition, sample: Sample) -> None:
    """Operands that lie transposed, backwards and with gaps give the same, but for the last bits (NumPy has other loops for them)."""
    def scattered(array: np.ndarray) -> np.ndarray:
        room = np.zeros([2 * size for size in array.shape[::-1]], array.dtype).T
        view = room[(slice(None, None, -2),) * array.ndim + (...,)]
        view[...] = array
        return view

    results = evaluate(definition, sample.arrays, sample.attrs)
    for expected, found in zip(results, evaluate(definition, [scattered(array) for array in sample.arrays], sample.attrs), strict=True):
        if expected.dtype.kind in "fc":
            info = np.finfo(expected.dtype)
            sums = definition.kind in (Kind.REDUCTION, Kind.CONTRACTION, Kind.LINALG)
            np.testing.assert_allclose(found, expected, rtol=16 * info.eps, atol=16 * info.eps if sums else info.tiny)
        else:
            np.testing.assert_array_equal(found, expected)


@for_each_sample()
def test_text_round_trip(definition: OpDefinition, sample: Sample) -> None:
    graph = sample_graph(definition, sample)
    verify(graph)
    assert parse(print_graph(graph)) == graph


@for_each_sample(differentiable=True)
def test_text_round_trip_of_the_derivative(definition: OpDefinition, sample: Sample) -> None:
    for wrt in sample.differentiable:
        graph = gradient_graph(sample_graph(definition, sample), wrt)
        verify(graph)
        assert parse(print_graph(graph)) == graph


@for_each_op(Kind.REDUCTION, in_one_item=True)
def test_identity_is_neutral(definition: OpDefinition) -> None:
    for dtype in SHORT_NAMES.values():
        if not accepts(definition, dtype):
            continue
        assert definition.identity is not None
        neutral = definition.identity(dtype)
        assert neutral.dtype == dtype
        values = np.array([False, True]) if dtype.kind == "b" else edges(dtype)
        if dtype.kind == "c" and definition.name == "reduce_prod":
            values = values[np.isfinite(values)]        # 1 times infinity has the imaginary part 0 times infinity
        for order in ((0, 1), (1, 0)):
            pair = np.stack([np.full_like(values, neutral), values])[list(order)]
            np.testing.assert_array_equal(evaluate(definition, [pair], {"axes": (0,)})[0], values)


def test_calling_a_record_where_an_evaluator_is_in_force_runs_it() -> None:
    left, right = edge_pairs(F64)
    with emitting(Evaluator()):
        total = ops.add(ArrayValue(left), ArrayValue(right))
    assert isinstance(total, ArrayValue)
    with np.errstate(invalid="ignore", over="ignore"):
        np.testing.assert_array_equal(total.array, left + right)


def test_an_incomplete_record_fails_when_it_is_made() -> None:
    complete: dict[str, Any] = {"doc": "x.", "infer": lambda x: x, "evaluate": lambda x: x, "vjp": None, "samples": lambda: iter(())}
    with pytest.raises(ValueError, match="incomplete"):
        OpDefinition(name="example", kind=Kind.MOVEMENT, **{**complete, "doc": ""})
    with pytest.raises(ValueError, match="scalar code"):
        OpDefinition(name="example", kind=Kind.ELEMENTWISE, **complete)
    with pytest.raises(ValueError, match="scalar code"):
        OpDefinition(name="example", kind=Kind.MOVEMENT, scalar="{0}", **complete)
    with pytest.raises(ValueError, match="identity"):
        OpDefinition(name="example", kind=Kind.REDUCTION, scalar="({0} + {1})", **complete)
    with pytest.raises(ValueError, match="twice"):
        define("add", Kind.MOVEMENT, **complete)


@for_each_op(Kind.ELEMENTWISE, Kind.REDUCTION, in_one_item=True)
def test_scalar_code_is_an_expression_of_the_operands(definition: OpDefinition) -> None:
    assert definition.scalar is not None
    count = 2 if definition.kind is Kind.REDUCTION else definition.arity
    assert count is not None
    assert set(re.findall(r"\{(\d+)\}", definition.scalar)) == {str(i) for i in range(count)}
    compile(definition.scalar.format(*(f"v{i}" for i in range(count))), definition.name, "eval")


def test_type_rules_refuse_with_errors_of_adjit() -> None:
    """Whatever the types: a rule gives types, or raises `ShapeError` or `DTypeError`, and nothing else."""
    others = [TensorType(dtype, shape) for dtype in (F32, SHORT_NAMES["i64"], SHORT_NAMES["bool"]) for shape in ((), (2,), (2, 0, 3))]
    refused = 0
    for definition in DEFINITIONS.values():
        for sample in definition.samples():
            types = [type_of(array) for array in sample.arrays]
            for position in range(len(types)):
                for other in others:
                    try:
                        definition.result_types([*types[:position], other, *types[position + 1:]], sample.attrs)
                    except (ShapeError, DTypeError):
                        refused += 1
    assert refused > 1000
