"""One ONNX model for any number of rows, made from models of one function for a few numbers of rows.

Nodes of the models are the same; constants may differ. What is a multiple of the number of rows in a shape, or computed from it, is
computed in the model from the shape of its first input that has rows; arrays of rows are filled, or counted, anew.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from adjit.codegen.onnx.writer import Writer
from adjit.ir.errors import ExportError
from adjit.ir.lazy_module import LazyModule
from adjit.ir.row_number import DIVIDE, LINE, Expression, expression_of, is_whole

onnx: Any = LazyModule("onnx")

_HINT = "compile it without batch= for a model of the size of the example arguments, or export an archive (.adjit) or a library (.so)"
_OPERATORS = {"add": "Add", "subtract": "Sub", "multiply": "Mul", DIVIDE: "Div", "negative": "Neg", "sqrt": "Sqrt",
              "log": "Log", "exp": "Exp", "power": "Pow"}


def join_models(models: Sequence[Any], sizes: Sequence[int], numbers: Collection[Expression], name: str) -> Any:
    """The model for any number of rows, of which `models` are those for `sizes` rows; the first axis of rows has this `name`. `numbers` are
    those that Python computed from the number of rows. Raises `ExportError` where the models differ in another way."""
    graphs = [model.graph for model in models]
    first = graphs[0]
    per_row = [_name_rows(values, sizes, name) for values in zip(*((*graph.input, *graph.output) for graph in graphs), strict=True)]
    given = next((each for each, rows in zip(first.input, per_row, strict=False) if rows == 1), None)
    if given is None:
        raise ExportError("no input of the model has one element along its first axis for each row", hint=_HINT)
    rows = _Rows(given.name, sizes, numbers)
    _join_graphs(graphs, rows, name)
    steps = [*rows.writer.nodes, *first.node]
    del first.node[:]
    first.node.extend(steps)
    first.initializer.extend(rows.writer.initializers)
    onnx.checker.check_model(models[0], full_check=True)
    return models[0]


def _join_graphs(graphs: Sequence[Any], rows: _Rows, name: str) -> None:
    """Make the first of these graphs, of a model or of a loop or branch in it, that for any number of rows."""
    if len({len(graph.node) for graph in graphs}) > 1:
        raise ExportError("a model for another number of rows has other steps", hint=_HINT)
    for nodes in zip(*(graph.node for graph in graphs), strict=True):
        regions = [[each.g for each in node.attribute if each.HasField("g")] for node in nodes]
        if len({_without_regions(node) for node in nodes}) > 1:
            raise ExportError(f"{nodes[0].op_type}, at {nodes[0].doc_string}, is another step for another number of rows", hint=_HINT)
        for inner in zip(*regions, strict=True):
            _join_graphs(inner, rows, name)
            for values in zip(*((*graph.input, *graph.output) for graph in inner), strict=True):
                _name_rows(values, rows.sizes, name)
    if len({tuple(each.name for each in graph.initializer) for graph in graphs}) > 1:
        raise ExportError("a model for another number of rows has other constants", hint=_HINT)
    kept = [each[0] for each in zip(*(graph.initializer for graph in graphs), strict=True) if not rows.computed(each)]
    del graphs[0].initializer[:]
    graphs[0].initializer.extend(kept)


def _without_regions(node: Any) -> bytes:
    """The bytes of a node, without the graphs of a loop or branch."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    for each in copy.attribute:
        each.ClearField("g")
    found: bytes = copy.SerializeToString(deterministic=True)
    return found


def _name_rows(values: Sequence[Any], sizes: Sequence[int], name: str) -> int:
    """Name the axis of an input or output that has rows, if there is one; returns how many elements a row takes, 0 if it has none."""
    shapes = [[axis.dim_value for axis in value.type.tensor_type.shape.dim] for value in values]
    if all(shape == shapes[0] for shape in shapes):
        return 0
    axis = next(axis for axis, lengths in enumerate(zip(*shapes, strict=True)) if len(set(lengths)) > 1)
    length = shapes[0][axis] // sizes[0]
    assert all(shape == [*shapes[0][:axis], length * size, *shapes[0][axis + 1:]] for shape, size in zip(shapes, sizes, strict=True))
    values[0].type.tensor_type.shape.dim[axis].dim_param = name if length == 1 else f"{length}*{name}"
    return length


def _has_operators(expression: Expression) -> bool:
    """True if ONNX has all functions of an expression."""
    return not isinstance(expression, tuple) or expression[0] == LINE or (
        expression[0] in _OPERATORS and all(map(_has_operators, expression[1:])))


class _Rows:
    """Nodes that compute constants from the number of rows, the length of the input `given`."""

    def __init__(self, given: str, sizes: Sequence[int], numbers: Collection[Expression]) -> None:
        self.sizes, self.numbers = sizes, numbers
        self.writer = Writer("rows_")
        self.count = self.writer.node("Shape", given, start=0, end=1)

    def computed(self, constants: Sequence[Any]) -> bool:
        """Write nodes for a constant that depends on the number of rows; False for others."""
        arrays = [onnx.numpy_helper.to_array(each) for each in constants]
        first, name = arrays[0], constants[0].name
        if all(array.shape == first.shape and array.tobytes() == first.tobytes() for array in arrays):
            return False
        if any(array.dtype != first.dtype or array.ndim != first.ndim for array in arrays):
            raise ExportError("an array has another dtype or another number of dimensions for another number of rows", hint=_HINT)
        made = self._numbers(arrays) if all(array.shape == first.shape for array in arrays) else self._array(arrays)
        if made is None:
            raise ExportError("an array of the program is another one for each number of rows", hint=_HINT)
        self.writer.nodes.append(onnx.helper.make_node("Identity", [made], [name], f"rows_{name}"))
        return True

    def _numbers(self, arrays: Sequence[np.ndarray]) -> str | None:
        """An array of a fixed shape: integers, of shapes for the most part, or one number."""
        first = arrays[0]
        if first.ndim == 1 and first.dtype == np.int64 and first.size:
            found = [expression_of([array[index] for array in arrays], self.sizes, first.dtype, ())
                     if len({int(array[index]) for array in arrays}) > 1 else int(first[index]) for index in range(first.size)]
            if any(each is None or (isinstance(each, tuple) and each[0] != LINE) for each in found):
                return None
            lines = [each[1:] if isinstance(each, tuple) else (0, each) for each in found]
            factors, offsets = ([line[index] for line in lines] for index in (0, 1))
            return self._line(self.count, factors, offsets)
        if not first.size or any((array != array.flat[0]).any() for array in arrays):
            return None
        expression = expression_of([array.flat[0] for array in arrays], self.sizes, first.dtype, self.numbers)
        if expression is None or not _has_operators(expression):
            return None
        return self._expanded(self._cast(self._expression(expression), first.dtype), first.shape)

    def _line(self, count: str, factors: Sequence[int], offsets: Sequence[int]) -> str:
        w = self.writer
        product = count if list(factors) == [1] else w.node("Mul", count, w.integers(factors))
        return w.node("Add", product, w.integers(offsets)) if any(offsets) else product

    def _expression(self, expression: Expression) -> str:
        """A number, as an array of shape (1,): int64 or float64."""
        w = self.writer
        if not isinstance(expression, tuple):
            return w.constant([expression], np.int64 if isinstance(expression, int) else np.float64)
        if expression[0] == LINE:
            return self._line(self.count, [expression[1]], [expression[2]])
        operands = [self._expression(each) for each in expression[1:]]
        if not is_whole(expression):
            operands = [self._cast(each, np.dtype(np.float64)) if is_whole(one) else each
                        for each, one in zip(operands, expression[1:], strict=True)]
        return w.node(_OPERATORS[expression[0]], *operands)

    def _cast(self, number: str, dtype: np.dtype) -> str:
        return self.writer.node("Cast", number, to=onnx.helper.np_dtype_to_tensor_dtype(dtype))

    def _expanded(self, number: str, shape: Sequence[int]) -> str:
        """An array of shape (1,) as one of another shape."""
        w = self.writer
        return w.node("Expand", number, w.integers(shape)) if shape else w.node("Reshape", number, w.integers([]))

    def _array(self, arrays: Sequence[np.ndarray]) -> str | None:
        """An array of rows: one number, or the numbers of the elements along the axis of rows."""
        w, first = self.writer, arrays[0]
        axis = next(axis for axis in range(first.ndim) if len({array.shape[axis] for array in arrays}) > 1)
        length = first.shape[axis] // self.sizes[0]
        rest = (*first.shape[:axis], *first.shape[axis + 1:])
        if any((*array.shape[:axis], *array.shape[axis + 1:]) != rest or array.shape[axis] != length * size or not array.size
               for array, size in zip(arrays, self.sizes, strict=True)):
            return None
        shape = self._line(self.count, [length if each == axis else 0 for each in range(first.ndim)],
                           [0 if each == axis else size for each, size in enumerate(first.shape)])
        if all((array == first.flat[0]).all() for array in arrays):
            return w.node("Expand", w.constant([first.flat[0]], first.dtype), shape)
        along = [1] * first.ndim
        along[axis] = -1
        if first.dtype.kind not in "iuf" or not all((array == np.arange(array.shape[axis]).reshape(along)).all() for array in arrays):
            return None
        end = w.node("Reshape", self._line(self.count, [length], [0]), w.integers([]))
        counted = self._cast(w.node("Range", w.constant(0, np.int64), end, w.constant(1, np.int64)), first.dtype)
        return w.node("Expand", w.node("Reshape", counted, w.integers(along)), shape)
