"""Text of a Python function over ndarrays: names of values, constants, operands, and aliasing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from adjit.codegen.numpy.op_functions import broadcasting
from adjit.ir.dataclass import dataclass
from adjit.ir.graph import Value
from adjit.ir.types import Shape, TensorType


@dataclass(frozen=True, slots=True)
class Binding:
    """Binding of a value: `text` is an array, a NumPy scalar or, if `weak`, a Python float, of shape `shape`.

    The shape may be smaller than the value's, and then broadcasts to it. `viewed`: the value is such a view of a whole array. `roots` are
    the numbers of the arrays that may share memory with the value, negative for arrays made elsewhere.
    """

    text: str
    shape: Shape
    roots: frozenset[int] = frozenset()
    number: float | None = None
    weak: bool = False
    viewed: bool = False

    def has_all(self, type: TensorType) -> bool:
        """True if no element is repeated in a value of this type."""
        return math.prod(self.shape) == type.size


class FunctionText:
    """The lines of one function. A local name is reused when its value is dead, which frees the value.

    `bound` maps the names of a text that are neither parameters nor local to objects. `dying` are the values whose last use is the current
    line.
    """

    def __init__(self, params: Sequence[Value], weak: frozenset[int], functions: Mapping[str, Any]):
        self.lines: list[str] = []
        self.bound: dict[str, Any] = dict(functions)
        self.bindings: dict[Value, Binding] = {}
        self.dying: list[Value] = []
        self.foreign_root = frozenset({-1 - len(params)})      # root of arrays that neither the function nor its caller has made
        self._constants = self._roots = self._names = 0
        self._sharing: dict[str, int] = {}                  # number of live values that a local name holds
        self._unused: list[str] = []
        for index, param in enumerate(params):
            shape = () if index in weak else param.type.shape
            self.bindings[param] = Binding(f"a{index}", shape, frozenset({-1 - index}), weak=index in weak)

    # -- names

    def constant(self, value: Any) -> str:
        """A new name, bound to the value."""
        name = f"k{self._constants}"
        self._constants += 1
        self.bound[name] = value
        return name

    def function(self, name: str, function: Any) -> str:
        """`name`, bound to the function."""
        assert self.bound.setdefault(name, function) == function
        return name

    def new_root(self) -> frozenset[int]:
        self._roots += 1
        return frozenset({self._roots})

    def new_name(self) -> str:
        if self._unused:
            name = self._unused.pop()
        else:
            name = f"v{self._names}"
            self._names += 1
        self._sharing[name] = 1
        return name

    def drop_dead(self, values: Sequence[Value]) -> None:
        """Drop values whose last use has been written."""
        for value in values:
            binding = self.bindings.pop(value, None)
            if binding is None or binding.text not in self._sharing:
                continue
            self._sharing[binding.text] -= 1
            if not self._sharing[binding.text]:
                self._unused.append(binding.text)
                self.lines.append(f"{binding.text} = None")

    def only_holder(self, value: Value) -> bool:
        """True if a local name holds this value and no other."""
        return self._sharing.get(self.bindings[value].text) == 1

    def assign(self, expression: str, shape: Shape, roots: frozenset[int], viewed: bool = False) -> Binding:
        """Assign an expression to a local name: the name of a value that dies with it, if there is one."""
        for value in self.dying:
            if value in self.bindings and self.only_holder(value):
                binding = self.bindings.pop(value)
                self.lines.append(f"{binding.text} = {expression}")
                return Binding(binding.text, shape, roots, viewed=viewed)
        name = self.new_name()
        self.lines.append(f"{name} = {expression}")
        return Binding(name, shape, roots, viewed=viewed)

    def named(self, expression: str, shape: Shape) -> Binding:
        """Assign a new array to a name that no operand has, since later lines still need the operands."""
        name = self.new_name()
        self.lines.append(f"{name} = {expression}")
        return Binding(name, shape, self.new_root())

    def alias(self, binding: Binding) -> Binding:
        """The binding of another value under the same name."""
        if binding.text in self._sharing:
            self._sharing[binding.text] += 1
        return binding

    # -- operands

    def typed(self, value: Value) -> str:
        """The text of a value as an array or NumPy scalar that broadcasts to it."""
        binding = self.bindings[value]
        return f"{value.type.dtype.name}({binding.text})" if binding.weak else binding.text

    def full(self, value: Value) -> str:
        """The text of a value as an array of its full shape; without dimensions it may be a NumPy scalar."""
        binding = self.bindings[value]
        if binding.shape == value.type.shape:
            return self.typed(value)
        if not binding.viewed:
            return self.copied(value)
        return f"{binding.text}.reshape({self.constant(value.type.shape)})" if binding.has_all(value.type) else self.view(value)

    def view(self, value: Value) -> str:
        """The text of a read-only view that broadcasts the binding to the full shape."""
        binding, type = self.bindings[value], value.type
        return f"{self.constant(broadcasting(binding.shape, type.dtype, type.shape))}({binding.text})"

    def copied(self, value: Value) -> str:
        """The text of a new array that repeats a value."""
        binding = self.bindings[value]
        return self.broadcast_copy(binding.text, binding.number, value.type)

    def broadcast_copy(self, text: str, number: complex | None, type: TensorType) -> str:
        """The text of a new array with the broadcast content of `text`; `number` is the fill value, if known."""
        shape, dtype = self.constant(type.shape), self.constant(type.dtype)
        if number == 0 and math.copysign(1, number.real) > 0 and math.copysign(1, number.imag) > 0:
            return f"zeros({shape}, {dtype})"
        return f"filled({text}, {shape}, {dtype})"

    def array(self, value: Value) -> str:
        """The text of a value as an ndarray of its full shape."""
        return self.full(value) if value.type.shape else f"asarray({self.full(value)})"

    def roots_of_full(self, value: Value) -> frozenset[int]:
        """Roots of memory that the array of the full shape may share. A broadcast view cannot be written to: its root counts as foreign."""
        binding = self.bindings[value]
        if binding.shape == value.type.shape or (binding.viewed and binding.has_all(value.type)):
            return binding.roots
        return binding.roots | self.foreign_root if binding.viewed else self.new_root()

    def overwritten(self, values: Sequence[Value], type: TensorType) -> Value | None:
        """A value whose memory a result of this type may reuse: the value dies here, and nothing else lies in the memory."""
        for value in values:
            binding = self.bindings[value]
            if value.type == type and type.shape == binding.shape != () and value in self.dying \
                    and self.only_holder(value) and min(binding.roots) >= 0 \
                    and not any(other.roots & binding.roots for other in self.bindings.values() if other is not binding):
                return value
        return None
