"""What the type rules of op records refuse, and what they say: both types, and what does not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.each import parametrize_within
from support.op_cases import for_each_op, type_of

from adjit.ir import ops
from adjit.ir.builder import GraphBuilder, trace_graph
from adjit.ir.definition import Kind, OpDefinition
from adjit.ir.emitter import emitting
from adjit.ir.errors import AdjitError, DTypeError, Location, ShapeError, TraceError
from adjit.ir.graph import Value
from adjit.ir.interpreter import ArrayValue, Evaluator
from adjit.ir.types import F32, F64, SHORT_NAMES, TensorType


def typed(text: str) -> TensorType:
    """The type that `f32[2,3]` names."""
    name, _, sizes = text.partition("[")
    return TensorType(SHORT_NAMES[name], tuple(int(size) for size in sizes.strip("]").split(",") if size))


def refusal(definition: OpDefinition, types: list[str], attrs: dict[str, Any]) -> AdjitError:
    with pytest.raises(AdjitError) as caught:
        definition.result_types([typed(text) for text in types], attrs)
    return caught.value


def accepted_dtype(definition: OpDefinition) -> str:
    sample = next(sample for sample in definition.samples() if sample.arrays[-1].size)
    return str(type_of(sample.arrays[-1])).partition("[")[0]


@for_each_op(Kind.ELEMENTWISE, where=lambda definition: definition.arity == 2)
def test_operands_of_elementwise_ops_are_of_one_type(definition: OpDefinition) -> None:
    dtype = accepted_dtype(definition)
    other = "u8" if dtype != "u8" else "u16"
    shapes = refusal(definition, [f"{dtype}[2,3]", f"{dtype}[3]"], {})
    assert isinstance(shapes, ShapeError)
    assert f"operands of different shapes: {dtype}[2,3] and {dtype}[3]" in str(shapes)
    dtypes = refusal(definition, [f"{dtype}[2]", f"{other}[2]"], {})
    assert isinstance(dtypes, DTypeError)
    assert f"operands of different dtypes: {dtype}[2] and {other}[2]" in str(dtypes)


F23, I3 = "f32[2,3]", "i64[3]"
PLAIN = {"transpose_a": False, "transpose_b": False}
I32, U8, BOOL = SHORT_NAMES["i32"], SHORT_NAMES["u8"], SHORT_NAMES["bool"]
CONVOLUTION = {"stride": (1, 1), "low": (0, 0), "high": (0, 0), "interior": (0, 0), "dilation": (1, 1), "groups": 1}
WINDOWS = {"sizes": (2, 2), "stride": (2, 2), "low": (0, 0), "high": (0, 0), "interior": (0, 0), "dilation": (1, 1)}

CASES: list[tuple[OpDefinition, list[str], dict[str, Any], type[AdjitError], str]] = [
    (ops.external, ["f64[2]"], {"function": "gammainc", "output": 0}, DTypeError, "gammainc takes 2 operands, got 1"),
    (ops.external, ["f64[2]"], {"function": "k0", "output": 1}, DTypeError, "there is no result 1 of a function 'k0'"),
    (ops.external, ["f64[2]"], {"function": "no", "output": 0}, DTypeError, "there is no result 0 of a function 'no'"),
    (ops.external, ["i64[2]"], {"function": "k0", "output": 0}, DTypeError, "a float dtype is needed, got i64[2]"),
    (ops.exp, ["i64[2]"], {}, DTypeError, "a float or complex dtype is needed, got i64[2]\n    convert the operand with .astype first"),
    (ops.negative, ["bool[2]"], {}, DTypeError, "an integer, float or complex dtype is needed, got bool[2]"),
    (ops.left_shift, ["f32[2]", "f32[2]"], {}, DTypeError, "an integer dtype is needed, got f32[2]"),
    (ops.logical_not, ["i32[2]"], {}, DTypeError, "the bool dtype is needed, got i32[2]"),
    (ops.bitwise_and, ["f32[]", "f32[]"], {}, DTypeError, "the bool or an integer dtype is needed, got f32[]"),
    (ops.select, ["i32[2]", "f32[2]", "f32[2]"], {}, DTypeError, "the condition has to be bool, got i32[2]"),
    (ops.select, ["bool[3]", "f32[2]", "f32[2]"], {}, ShapeError, "operands of different shapes: condition bool[3] and f32[2]"),
    (ops.select, ["bool[2]", "f32[2]", "f64[2]"], {}, DTypeError, "operands of different dtypes: f32[2] and f64[2]"),
    (ops.philox, ["i64[2]", "i64[2]"], {}, DTypeError, "the counter and the key have to be u64, got i64[2]"),
    (ops.reduce_sum, [F23], {"axes": (2,)}, ShapeError, "axis 2 is out of range for f32[2,3]"),
    (ops.reduce_sum, [F23], {"axes": (-1,)}, ShapeError, "axis -1 is out of range for f32[2,3]"),
    (ops.reduce_sum, [F23], {"axes": (1, 0)}, ShapeError, "axes have to be increasing, got (1, 0)"),
    (ops.reduce_sum, ["bool[2]"], {"axes": (0,)}, DTypeError, "an integer, float or complex dtype is needed, got bool[2]"),
    (ops.reduce_max, ["f32[0,3]"], {"axes": (0,)}, ShapeError,
     "f32[0,3] has no elements along (0,), and this reduction of no elements is undefined"),
    (ops.reduce_max, ["f32[0,3,0]"], {"axes": (0,)}, ShapeError,
     "f32[0,3,0] has no elements along (0,), and this reduction of no elements is undefined"),
    (ops.reduce_min, ["f32[0]"], {"axes": (0,)}, ShapeError,
     "f32[0] has no elements along (0,), and this reduction of no elements is undefined"),
    (ops.reduce_prod, ["bool[2]"], {"axes": (0,)}, DTypeError, "an integer, float or complex dtype is needed, got bool[2]"),
    (ops.reduce_and, ["i32[2]"], {"axes": (0,)}, DTypeError, "the bool dtype is needed, got i32[2]"),
    (ops.reduce_or, ["f32[2]"], {"axes": (0,)}, DTypeError, "the bool dtype is needed, got f32[2]"),
    (ops.argmax, ["f32[3,0]"], {"axis": 1}, ShapeError, "f32[3,0] has no elements along axis 1"),
    (ops.argmin, ["f32[0]"], {"axis": 0}, ShapeError, "f32[0] has no elements along axis 0"),
    (ops.argmax, ["f32[0,0]"], {"axis": 0}, ShapeError, "f32[0,0] has no elements along axis 0"),
    (ops.argsort, ["f32[3]"], {"axis": 1}, ShapeError, "axis 1 is out of range for f32[3]"),
    (ops.argpartition, ["f32[3]", "f32[2]"], {"axis": 0}, ShapeError, "pivots of f32[3] along axis 0 have one element there, got f32[2]"),
    (ops.partition, ["c64[3]", "c64[1]"], {"axis": 0}, DTypeError, "the bool, an integer or float dtype is needed, got c64[3]"),
    (ops.sort, ["f32[3]"], {"axis": 0, "first": 2, "count": 2}, ShapeError,
     "places 2 to 4 are not among the 3 elements of f32[3] along axis 0"),
    (ops.cummax, ["bool[3]"], {"axis": 0, "reverse": False}, DTypeError, "an integer or float dtype is needed, got bool[3]"),
    (ops.cummin, ["f32[]"], {"axis": 0, "reverse": False}, ShapeError, "axis 0 is out of range for f32[]"),
    (ops.cumprod, ["bool[3]"], {"axis": 0, "reverse": False}, DTypeError, "an integer, float or complex dtype is needed, got bool[3]"),
    (ops.cumsum, ["f32[]"], {"axis": 0, "reverse": False}, ShapeError, "axis 0 is out of range for f32[]"),
    (ops.fft, ["c64[2]"], {"axis": 1, "inverse": False}, ShapeError, "axis 1 is out of range for c64[2]"),
    (ops.fft, ["f32[2]"], {"axis": 0, "inverse": False}, DTypeError, "a complex dtype is needed, got f32[2]"),
    (ops.rfft, ["f32[0]"], {"axis": 0}, ShapeError, "a transform needs at least one element, axis 0 of f32[0] has none"),
    (ops.irfft, ["c64[3]"], {"axis": 0, "length": 6}, ShapeError, "6 real numbers have a spectrum of 4 elements, axis 0 of c64[3] has 3"),
    (ops.reshape, [F23], {"shape": (4,)}, ShapeError, "f32[2,3] has 6 elements and cannot get the shape (4,)"),
    (ops.reshape, [F23], {"shape": (-1, 6)}, ShapeError, "cannot get the shape (-1, 6)"),
    (ops.reshape, [F23], {"shape": (-2, -3)}, ShapeError, "cannot get the shape (-2, -3)"),
    (ops.transpose, [F23], {"permutation": (0, 0)}, ShapeError, "(0, 0) is no permutation of the dimensions of f32[2,3]"),
    (ops.broadcast, [I3], {"shape": (2, 4), "axes": (1,)}, ShapeError, "i64[3] cannot be broadcast to (2, 4) along axes (1,)"),
    (ops.broadcast, [F23], {"shape": (3, 2), "axes": (1, 0)}, ShapeError, "axes have to be increasing"),
    (ops.broadcast, [I3], {"shape": (3, -1), "axes": (0,)}, ShapeError, "cannot be broadcast to (3, -1)"),
    (ops.slice, [I3], {"start": (0,), "stop": (4,), "step": (1,)}, ShapeError, "from (0,) to (4,) in steps of (1,) does not fit i64[3]"),
    (ops.slice, [I3], {"start": (2,), "stop": (1,), "step": (1,)}, ShapeError, "does not fit"),
    (ops.slice, [I3], {"start": (0,), "stop": (3,), "step": (-1,)}, ShapeError, "does not fit"),
    (ops.real, ["f32[2]"], {}, DTypeError, "a complex dtype is needed, got f32[2]"),
    (ops.complex, ["f32[2]", "f64[2]"], {}, DTypeError, "operands of different dtypes: f32[2] and f64[2]"),
    (ops.complex, ["c64[2]", "c64[2]"], {}, DTypeError, "a float dtype is needed, got c64[2]"),
    (ops.convert, ["c64[2]"], {"dtype": F64}, DTypeError, "c64[2] cannot be converted to float64"),
    (ops.floor_divide, ["c64[2]", "c64[2]"], {}, DTypeError, "an integer or float dtype is needed, got c64[2]"),
    (ops.constant, [], {"value": 1j, "dtype": F64, "shape": ()}, DTypeError, "or complex for a complex dtype, got 1j"),
    (ops.view_as_real, ["f32[2]"], {}, DTypeError, "a complex dtype is needed, got f32[2]"),
    (ops.view_as_complex, ["f32[3]"], {}, ShapeError, "the last dimension has to be 2, real and imaginary part, got f32[3]"),
    (ops.view_as_complex, ["i32[2]"], {}, DTypeError, "a float dtype is needed, got i32[2]"),
    (ops.slice, [F23], {"start": (0,), "stop": (1,), "step": (1,)}, ShapeError, "start (0,) needs 2 entries for f32[2,3]"),
    (ops.flip, [F23], {"axes": (0, 0)}, ShapeError, "axes have to be increasing"),
    (ops.pad, [I3], {"low": (1,), "high": (-1,), "interior": (0,), "value": 0}, ShapeError, "padding cannot be negative"),
    (ops.pad, [I3], {"low": (1,), "high": (1,), "interior": (0,), "value": 0.5}, DTypeError, "int64 has no 0.5"),
    (ops.concatenate, [], {"axis": 0}, ShapeError, "there is nothing to concatenate"),
    (ops.concatenate, [F23, "f32[3,3]"], {"axis": 1}, ShapeError, "f32[2,3] and f32[3,3] cannot be joined along axis 1"),
    (ops.concatenate, [F23, "f32[2]"], {"axis": 0}, ShapeError, "f32[2,3] and f32[2] cannot be joined along axis 0"),
    (ops.concatenate, [F23, "f64[2,3]"], {"axis": 0}, DTypeError, "operands of different dtypes: f32[2,3] and f64[2,3]"),
    (ops.update_slice, ["f32[4]", "f32[2]"], {"start": (3,), "step": (1,)}, ShapeError, "f32[2] does not fit into f32[4] from (3,)"),
    (ops.update_slice, ["f32[4]", "f32[1]"], {"start": (-1,), "step": (1,)}, ShapeError, "does not fit into"),
    (ops.update_slice, ["f32[4]", "f32[]"], {"start": (0,), "step": (1,)}, ShapeError, "f32[] cannot be written into f32[4]"),
    (ops.update_slice, ["f32[4]", "f64[1]"], {"start": (0,), "step": (1,)}, DTypeError, "operands of different dtypes: f32[4] and f64[1]"),
    (ops.add_slice, ["f32[4]", "f32[2]"], {"start": (3,), "step": (1,)}, ShapeError, "f32[2] does not fit into f32[4] from (3,)"),
    (ops.add_slice, ["bool[4]", "bool[2]"], {"start": (0,), "step": (1,)}, DTypeError, "bool[4]"),
    (ops.take, [F23, "i32[2]"], {"axis": 0}, DTypeError, "indices have to be i64, got i32[2]"),
    (ops.take, [F23, "i64[2]"], {"axis": 2}, ShapeError, "axis 2 is out of range for f32[2,3]"),
    (ops.scatter_add, [F23, "i64[5]", "f32[5,2]"], {"axis": 0}, ShapeError,
     "updates for f32[2,3] at i64[5] along axis 0 have to be f32[5,3], got f32[5,2]"),
    (ops.scatter_add, ["bool[2]", "i64[1]", "bool[1]"], {"axis": 0}, DTypeError,
     "an integer, float or complex dtype is needed, got bool[2]"),
    (ops.scatter_set, [F23, "i64[5]", "f64[5,3]"], {"axis": 0}, DTypeError, "operands of different dtypes: f32[2,3] and f64[5,3]"),
    (ops.take_along_axis, [F23, "i64[3,3]"], {"axis": 1}, ShapeError,
     "indices i64[3,3] do not fit f32[2,3]: the shapes may differ along axis 1 only"),
    (ops.take_along_axis, [F23, "i64[2]"], {"axis": 1}, ShapeError, "indices i64[2] do not fit f32[2,3]"),
    (ops.scatter_add_along_axis, [F23, "i64[2,1]", "f32[2,2]"], {"axis": 1}, ShapeError, "have to be f32[2,1], got f32[2,2]"),
    (ops.matmul, [F23, "f32[4,5]"], PLAIN, ShapeError, "inner sizes differ, 3 and 4: f32[2,3] times f32[4,5]"),
    (ops.matmul, [F23, "f32[3,5]"], {"transpose_a": True, "transpose_b": True}, ShapeError,
     "inner sizes differ, 2 and 5: f32[2,3] transposed times f32[3,5] transposed"),
    (ops.matmul, ["f32[3]", F23], PLAIN, ShapeError, "matrices are needed, got f32[3] and f32[2,3]"),
    (ops.matmul, ["f32[2,2,3]", "f32[3,3,1]"], PLAIN, ShapeError, "batches of different shapes"),
    (ops.matmul, [F23, "f64[3,1]"], PLAIN, DTypeError, "operands of different dtypes"),
    (ops.complex_matmul, [F23, "f32[3,1]"], {**PLAIN, "conj_a": False, "conj_b": False}, DTypeError, "a complex dtype is needed"),
    (ops.convolution, ["f32[2,3,4,4]", "f32[5,2,2,2]"], CONVOLUTION, ShapeError,
     "f32[2,3,4,4] in 1 groups has 3 channels a group, and the kernels f32[5,2,2,2] take 2"),
    (ops.convolution, ["f32[2,3,4,4]", "f32[5,3,2]"], CONVOLUTION, ShapeError,
     "of the same rank are needed, got f32[2,3,4,4] and f32[5,3,2]"),
    (ops.convolution, ["f32[2,3,4,4]", "f32[5,3,2,2]"], CONVOLUTION | {"groups": 2}, ShapeError,
     "3 channels cannot be divided into 2 groups"),
    (ops.convolution, ["f32[2,3,4,4]", "f32[5,3,2,2]"], CONVOLUTION | {"stride": (1, 0)}, ShapeError, "stride is at least 1, got (1, 0)"),
    (ops.convolution, ["f32[2,3,4,4]", "f32[5,3,2,2]"], CONVOLUTION | {"low": (1,)}, ShapeError, "low (1,) needs 2 entries"),
    (ops.convolution, ["i32[2,3,4,4]", "i32[5,3,2,2]"], CONVOLUTION, DTypeError, "a float or complex dtype is needed, got i32[2,3,4,4]"),
    (ops.convolution, ["f32[2,3,4,4]", "f64[5,3,2,2]"], CONVOLUTION, DTypeError, "operands of different dtypes"),
    (ops.convolution_kernel_gradient, ["f32[2,3,4,4]", "f32[2,5,3,2]"], CONVOLUTION | {"sizes": (2, 2), "scratch_bytes": 0}, ShapeError,
     "the cotangent has to be f32[2,5,3,3], got f32[2,5,3,2]"),
    (ops.convolution_kernel_gradient, ["f32[2,3,4,4]", "f32[2,5,3,3]"], CONVOLUTION | {"sizes": (2,), "scratch_bytes": 0}, ShapeError,
     "of the same rank"),
    (ops.window_sum, ["f32[4]"], WINDOWS, ShapeError, "windows of (2, 2) need 2 axes, got f32[4]"),
    (ops.window_sum, ["f32[4,4]"], WINDOWS | {"sizes": (2, 0)}, ShapeError, "windows of (2, 0) have no elements"),
    (ops.window_max, ["i32[4,4]"], WINDOWS, DTypeError, "a float dtype is needed, got i32[4,4]"),
    (ops.window_max, ["f32[4,4]"], WINDOWS | {"interior": (1, 0)}, ShapeError, "takes no interior padding of f32[4,4], got (1, 0)"),
    (ops.window_max, ["f32[4,4]"], WINDOWS | {"low": (0, -1)}, ShapeError, "padding cannot be negative"),
    (ops.window_max_scatter, ["f32[4,4]", "f32[3,3]"], WINDOWS, ShapeError, "one number for each window is needed, f32[2,2], got f32[3,3]"),
    (ops.window_max_share, ["f32[4,4]", "f32[3,3]"], WINDOWS | {"stride": (1, 1)}, ShapeError,
     "non-overlapping windows without padding are needed"),
    (ops.window_max_take, ["f32[4,4]", "f32[4,3]"], WINDOWS, ShapeError, "operands of different shapes: f32[4,4] and f32[4,3]"),
    (ops.constant, [], {"value": 1.5, "dtype": I32, "shape": ()}, DTypeError, "int32 has no 1.5"),
    (ops.constant, [], {"value": 300, "dtype": U8, "shape": ()}, DTypeError, "uint8 has no 300"),
    (ops.constant, [], {"value": float("nan"), "dtype": I32, "shape": ()}, DTypeError, "int32 has no nan"),
    (ops.constant, [], {"value": 2, "dtype": BOOL, "shape": ()}, DTypeError, "bool has no 2"),
    (ops.constant, [], {"value": F64.type(1.0), "dtype": F64, "shape": ()}, DTypeError, "has to be a Python bool, int or float"),
    (ops.constant, [], {"value": 1.0, "dtype": F64, "shape": (2, -1)}, ShapeError, "sizes cannot be negative, got (2, -1)"),
    (ops.table, [], {"data": bytes(15), "dtype": F64, "shape": (2,)}, DTypeError, "f64[2] takes 16 bytes, got 15"),
    (ops.table, [], {"data": bytes((0, 2)), "dtype": BOOL, "shape": (2,)}, DTypeError, "a byte 0 or 1"),
    (ops.table, [], {"data": b"", "dtype": F64, "shape": (-1,)}, ShapeError, "sizes cannot be negative"),
    (ops.iota, [], {"dtype": F64, "shape": (2,), "axis": 1}, ShapeError, "axis 1 is out of range for f64[2]"),
    (ops.iota, [], {"dtype": BOOL, "shape": (2,), "axis": 0}, DTypeError, "an integer or float dtype is needed, got bool[2]"),
    *((op, ["f64[2,3,4]"], attrs, ShapeError, "square matrices are needed, got f64[2,3,4]") for op, attrs in (
        (ops.cholesky, {}), (ops.inverse, {"transposed": False}), (ops.eigh, {"lower": True}),
        (ops.eigvalsh, {"lower": True}), (ops.eig, {}), (ops.eigvals, {}))),
    *((op, ["f64[2,0]"], attrs, ShapeError, "matrices with elements are needed, got f64[2,0]") for op, attrs in (
        (ops.lu, {}), (ops.qr, {"complete": False}), (ops.qr_raw, {}),
        (ops.column_order, {}), (ops.svd, {"full": False}), (ops.svdvals, {}))),
    (ops.triangular_solve, ["f64[3,3]", "f64[2,3]"], {"lower": True, "transpose": False, "unit": False}, ShapeError,
     "matrices of 3 rows are needed"),
    (ops.lu_solve, ["f64[3,3]", "f64[3,3]", "i64[3]", "f64[2,3,1]"], {"transpose": False}, ShapeError, "stacks of different shapes"),
    (ops.sylvester, ["f64[3,3]", "f64[2,2]", "f64[3,3]"], {}, ShapeError, "a matrix of 2 columns is needed"),
    (ops.banded_solve, ["f64[2,4]", "f64[4,1]"], {"lower": 1, "upper": 1, "transpose": False}, ShapeError, "1 diagonals below"),
    (ops.lu_inverse, ["f64[3,3]", "f32[3,3]", "i64[3]"], {}, DTypeError, "operands of different dtypes"),
    (ops.cholesky, ["i32[3,3]"], {}, DTypeError, "a float or complex dtype is needed, got i32[3,3]"),
    (ops.guard, ["bool[2]"], {"expected": True, "number": 0}, ShapeError, "a guard takes a scalar, got bool[2]"),
    (ops.effects_end, ["f64[]"], {}, DTypeError, "the token is f64[], expected i64[]"),
]


@parametrize_within(("definition", "types", "attrs", "kind", "message"), CASES,
                    ids=[f"{case[0].name}-{i}" for i, case in enumerate(CASES)])
def test_refusals(definition: OpDefinition, types: list[str], attrs: dict[str, Any], kind: type[AdjitError], message: str) -> None:
    error = refusal(definition, types, attrs)
    assert type(error) is kind
    assert message in str(error)


@for_each_op(*Kind, where=lambda definition: definition.kind not in (Kind.ELEMENTWISE, Kind.REGION, Kind.MEMORY), in_one_item=True)
def test_every_other_op_has_a_refusal_above(definition: OpDefinition) -> None:
    assert definition in [case[0] for case in CASES]


# -- what the emitters add: the op, its operands, the lines

def test_a_builder_names_the_op_its_operands_and_their_lines() -> None:
    builder = GraphBuilder("g")
    x, w = builder.param(TensorType(F32, (2, 3)), "x"), builder.param(TensorType(F32, (4, 5)))
    with emitting(builder), builder.at(Location("model.py", 3, "layer")):
        h = ops.sin(w)
    with emitting(builder), builder.at(Location("model.py", 8, "loss")), pytest.raises(ShapeError) as caught:
        ops.matmul(x, h, **PLAIN)
    assert str(caught.value) == (
        "matmul: inner sizes differ, 3 and 4: f32[2,3] times f32[4,5]\n"
        "    operand 1: f32[2,3], argument 'x'\n"
        "    operand 2: f32[4,5], made by sin at model.py:3 in layer\n"
        "    at model.py:8 in loss")


def test_an_evaluator_names_the_op_and_the_line() -> None:
    evaluator = Evaluator(locate=lambda: Location("script.py", 2, "main"))
    with emitting(evaluator), pytest.raises(DTypeError) as caught:
        ops.exp(ArrayValue(np.array(1)))
    assert str(caught.value).splitlines()[:2] == ["exp: a float or complex dtype is needed, got i64[]", "    at script.py:2 in main"]


def test_an_op_called_outside_of_a_trace() -> None:
    with pytest.raises(TraceError, match="an op was called outside of a trace"):
        ops.exp(Value(TensorType(F32, ())))


def test_a_value_that_escaped_its_trace() -> None:
    escaped: list[Value] = []
    trace_graph("first", [TensorType(F32, (2,))], lambda x: escaped.append(x) or [x])
    with pytest.raises(TraceError, match=r"a traced value \(f32\[2\]\) is used outside of the trace that made it"):
        trace_graph("second", [TensorType(F32, (2,))], lambda x: [ops.add(x, escaped[0])])
