"""Writer of ONNX graphs: nodes, names of values, constants, and graphs within nodes.

The format and its operators: onnx.ai, ONNX operator set 18. A value that is one array repeated along axes is kept as that array, its
"narrow" form, as operators broadcast by themselves; it is expanded where an operator needs all elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from adjit.ir.errors import ExportError, Location
from adjit.ir.graph import Value
from adjit.ir.lazy_module import LazyModule
from adjit.ir.types import TensorType, short_name

onnx: Any = LazyModule("onnx")

OPERATOR_SET = 18
FORMAT = 8
"""Version of the file format (`ir_version`) that came with the operator set: runtimes refuse newer ones than they know."""

ELEMENT_TYPES = {"bool": "BOOL", "i8": "INT8", "i16": "INT16", "i32": "INT32", "i64": "INT64", "u8": "UINT8", "u16": "UINT16",
                 "u32": "UINT32", "u64": "UINT64", "f16": "FLOAT16", "bf16": "BFLOAT16", "f32": "FLOAT", "f64": "DOUBLE"}

Narrow = tuple[str, tuple[int, ...]]
"""Name and shape of an array that broadcasts to the shape of the value, by NumPy's rule."""


class Writer:
    """Nodes and constants of a model under construction. `loc` is the user's line of the nodes that are written next; names of values
    begin with `prefix`."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self.loc: Location | None = None
        self._full: dict[Value, str] = {}
        self._narrow: dict[Value, Narrow] = {}
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._count = 0

    # -- nodes

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Write a node with one output; returns the output's name."""
        (output,) = self.node_of(kind, inputs, 1, **attributes)
        return output

    def node_of(self, kind: str, inputs: Sequence[str], outputs: int, **attributes: Any) -> list[str]:
        """Write a node; returns the names of its outputs."""
        names = [self.fresh() for _ in range(outputs)]
        self._append(kind, inputs, names, attributes)
        return names

    def result(self, name: str, value: Value) -> None:
        """Write a value once more, as an output of this name."""
        self._append("Identity", [self.name(value)], [name], {})

    def _append(self, kind: str, inputs: Sequence[str], outputs: Sequence[str], attributes: dict[str, Any]) -> None:
        where = "" if self.loc is None else f"{Path(self.loc.file).name}:{self.loc.line} in {self.loc.function}"
        self.nodes.append(onnx.helper.make_node(kind, list(inputs), list(outputs), f"{kind}_{outputs[0]}", where, **attributes))

    def fresh(self) -> str:
        """A name that no other value has."""
        self._count += 1
        return f"{self.prefix}v{self._count}"

    def constant(self, array: Any, dtype: Any = None) -> str:
        """Name of an array constant; equal constants are one."""
        array = np.asarray(array, dtype)
        key = (array.dtype.name, array.shape, array.tobytes())
        if key not in self._constants:
            self._constants[key] = f"{self.prefix}c{len(self._constants)}"
            self.initializers.append(onnx.numpy_helper.from_array(array, self._constants[key]))
        return self._constants[key]

    def integers(self, numbers: Sequence[int]) -> str:
        return self.constant(list(numbers), np.int64)

    # -- values

    def bind(self, value: Value, name: str) -> None:
        """State that a value is the array of this name."""
        self._full[value] = name
        self._narrow.pop(value, None)

    def bind_narrow(self, value: Value, narrow: Narrow) -> None:
        """State that a value is an array broadcast to its shape."""
        if narrow[1] == value.type.shape:
            self.bind(value, narrow[0])
        else:
            self._full.pop(value, None)
            self._narrow[value] = narrow

    def same(self, value: Value, other: Value) -> None:
        """State that a value is another one."""
        if other in self._full:
            self.bind(value, self._full[other])
        else:
            self.bind_narrow(value, self._narrow[other])

    def name(self, value: Value) -> str:
        """Name of the array with all elements of a value."""
        if value not in self._full:
            name, _ = self._narrow[value]
            self._full[value] = self.node("Expand", name, self.integers(value.type.shape))
        return self._full[value]

    def narrow(self, value: Value) -> Narrow:
        """An array that broadcasts to the value: the value itself if nothing smaller is known."""
        return self._narrow.get(value) or (self._full[value], value.type.shape)

    def is_narrow(self, value: Value) -> bool:
        return value in self._narrow

    # -- graphs

    @contextmanager
    def graph_of_node(self) -> Iterator[list[Any]]:
        """Write the nodes within the context into a list of their own, for a graph that a node has. They may use values of the graphs
        around; the values that they bind or expand are not known outside."""
        nodes, full, narrow = self.nodes, self._full.copy(), self._narrow.copy()
        self.nodes = []
        try:
            yield self.nodes
        finally:
            self.nodes, self._full, self._narrow = nodes, full, narrow

    def graph(self, name: str, nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any],
              initializers: Sequence[Any] = ()) -> Any:
        return onnx.helper.make_graph(list(nodes), name, list(inputs), list(outputs), list(initializers))


def value_info(name: str, type: TensorType) -> Any:
    """Name and type of a graph's input or output."""
    return onnx.helper.make_tensor_value_info(name, element_type(type.dtype), list(type.shape))


def element_type(dtype: np.dtype) -> int:
    """ONNX's number of a dtype. Raises `ExportError` if it has none that operators take."""
    name = short_name(dtype)
    if name not in ELEMENT_TYPES:
        raise ExportError(f"ONNX's operators take no {name}", hint="write the computation with real numbers")
    return int(getattr(onnx.TensorProto, ELEMENT_TYPES[name]))
