"""A graph as an ONNX model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from adjit.codegen.onnx import structural
from adjit.codegen.onnx.elementwise import elementwise_rule
from adjit.codegen.onnx.writer import FORMAT, OPERATOR_SET, Writer, element_type, value_info
from adjit.ir.definition import Kind
from adjit.ir.errors import ExportError
from adjit.ir.graph import Graph, Op, Value
from adjit.ir.lazy_module import LazyModule
from adjit.ir.types import I64
from adjit.ir.version import VERSION

onnx: Any = LazyModule("onnx")

_HINT = "leave this step out of what is exported, or export an archive (.adjit) or a library (.so)"
_NOT_COMPUTED = {
    "guard": ("a decision on values", "write the decision as numpy.where, adjit.cond or adjit.while_loop"),
    "philox": ("random numbers", "export modules after eval(): random numbers are those of training"),
}
"""What ops are in the user's words, and the remedy."""

_COMPARISONS = ("less", "less_equal", "greater", "greater_equal")
_OF_WIDE_INTEGERS = frozenset((
    *_COMPARISONS, "abs", "negative", "sign", "argmax", "argmin", "argpartition", "argsort", "partition", "sort", "matmul", "power",
    "cumsum", "floor_divide", "remainder", "reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "reduce_and", "reduce_or"))
"""Ops whose operators take no bools, and not all integers."""
_SHORT = ("bool", "int8", "int16", "uint8", "uint16", "uint32")


def make_model(graph: Graph, names: Sequence[str], constants: Mapping[str, np.ndarray], results: Sequence[str]) -> Any:
    """The model of a graph: parameters by `names`, those in `constants` with their content, the others as inputs; `results` are the names
    of its outputs. Raises `ExportError` for an op that ONNX's operators do not compute."""
    w = Writer()
    inputs = []
    for param, name in zip(graph.params, names, strict=True):
        w.bind(param, name)
        if name in constants:
            w.initializers.append(onnx.numpy_helper.from_array(constants[name], name))
        else:
            inputs.append(value_info(name, param.type))
    values = _inline(w, graph, graph.params)
    w.loc = None
    for name, value in zip(results, values, strict=True):
        w.result(name, value)
    outputs = [value_info(name, value.type) for name, value in zip(results, values, strict=True)]
    model = onnx.helper.make_model(w.graph(graph.name, w.nodes, inputs, outputs, w.initializers), producer_name="adjit",
                                   producer_version=VERSION, ir_version=FORMAT,
                                   opset_imports=[onnx.helper.make_opsetid("", OPERATOR_SET)])
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise ExportError(f"ONNX's operators do not take what the program computes with: {str(error).strip()}", hint=_HINT) from None
    return model


def _inline(w: Writer, graph: Graph, operands: Sequence[Value]) -> list[Value]:
    """Write the ops of a graph, for operands; returns its results."""
    for param, operand in zip(graph.params, operands, strict=True):
        if param is not operand:
            w.same(param, operand)
    for op in graph.ops:
        w.loc = op.loc
        _write(w, op)
    return list(graph.results)


def _write(w: Writer, op: Op) -> None:
    if op.name == "stop_gradient":
        w.same(op.result, op.operands[0])
        return
    if not op.definition.is_kept and all(result.type.size == 0 for result in op.results):
        for result in op.results:
            w.bind(result, w.constant(np.zeros(result.type.shape), result.type.dtype))
        return
    if op.name in _OF_WIDE_INTEGERS and op.operands[0].type.dtype.name in _SHORT:
        _as_wide_integers(w, op)
        return
    if op.definition.kind is Kind.ELEMENTWISE:
        rule = elementwise_rule(op)
        if rule is not None:
            _elementwise(w, op, rule)
            return
    elif op.name in structural.RULES:
        structural.RULES[op.name](w, op, lambda graph, operands: _inline(w, graph, operands))
        return
    what, hint = _NOT_COMPUTED.get(op.name, (f"the op {op.name}", _HINT))
    raise ExportError(f"ONNX's operators do not compute {what}", op.loc, hint=hint)


def _as_wide_integers(w: Writer, op: Op) -> None:
    """Write an op of bools or short integers as the same op of 64-bit integers, and convert what has their dtype back."""
    short = op.operands[0].type.dtype
    operands = [Value(operand.type.with_dtype(I64)) for operand in op.operands]
    results = tuple(Value(result.type.with_dtype(I64)) if result.type.dtype == short and op.name not in _COMPARISONS else result
                    for result in op.results)
    for operand, given in zip(operands, op.operands, strict=True):
        name, shape = w.narrow(given)
        w.bind_narrow(operand, (w.node("Cast", name, to=element_type(I64)), shape))
    _write(w, op.with_operands(operands, results))
    for result, wide in zip(op.results, results, strict=True):
        if wide is not result:
            name, shape = w.narrow(wide)
            w.bind_narrow(result, (w.node("Cast", name, to=element_type(short)), shape))


def _elementwise(w: Writer, op: Op, rule: Any) -> None:
    """Of operands that are broadcast, one at least is expanded if another one is not narrow."""
    narrow = [w.narrow(operand) for operand in op.operands]
    shape = np.broadcast_shapes(*(shape for _, shape in narrow))
    w.bind_narrow(op.result, (rule(w, op, *(name for name, _ in narrow)), shape))
