"""How the values of a graph are at hand within a Python function over ndarrays: names, constants, operands, and which memory is whose."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from adjit.ir.dataclass import dataclass
from adjit.ir.graph import Value
from adjit.ir.types import Shape, TensorType


@dataclass(frozen=True, slots=True)
class Binding:
    """How a value is at hand: `text` is an array, a NumPy scalar or, where `weak`, a Python float, and has `shape`.

    That shape may be smaller than the value's: it broadcasts to it. `viewed` says that the value is such a view of something that
    is there as a whole. `roots` are the numbers of the arrays that may share memory with it, negative for those made elsewhere.
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
    """The lines of one function. Local names are used again when their values are dead, which releases those.

    `bound` is what the names of a text stand for that are neither parameters nor local; `dying` are the values whose last use the
    present line is.
    """

    def __init__(self, params: Sequence[Value], weak: frozenset[int], functions: Mapping[str, Any]):
        self.lines: list[str] = []
        self.bound: dict[str, Any] = dict(functions)
        self.bindings: dict[Value, Binding] = {}
        self.dying: list[Value] = []
        self.foreign_root = frozenset({-1 - len(params)})      # the root of arrays that neither the function nor its caller made
        self._constants = self._roots = self._names = 0
        self._sharing: dict[str, int] = {}                  # how many living values a local name holds
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
        """Give an expression a name, that of a value that dies with it if there is one."""
        for value in self.dying:
            if value in self.bindings and self.only_holder(value):
                binding = self.bindings.pop(value)
                self.lines.append(f"{binding.text} = {expression}")
                return Binding(binding.text, shape, roots, viewed=viewed)
        name = self.new_name()
        self.lines.append(f"{name} = {expression}")
        return Binding(name, shape, roots, viewed=viewed)

    def named(self, expression: str, shape: Shape) -> Binding:
        """A new array under a name that no operand has: there are more lines to come that need those."""
        name = self.new_name()
        self.lines.append(f"{name} = {expression}")
        return Binding(name, shape, self.new_root())

    def alias(self, binding: Binding) -> Binding:
        """The form of one more value that is at hand under the same name."""
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
        """The text of a read-only view that repeats what is there."""
        return f"broadcast_to({self.bindings[value].text}, {self.constant(value.type.shape)})"

    def copied(self, value: Value) -> str:
        """The text of a value repeated to a new array."""
        binding = self.bindings[value]
        return self.broadcast_copy(binding.text, binding.number, value.type)

    def broadcast_copy(self, text: str, number: float | None, type: TensorType) -> str:
        """The text of a new array; `number` is what it is filled with, where that is known."""
        shape, dtype = self.constant(type.shape), self.constant(type.dtype)
        if number == 0 and math.copysign(1, number) > 0:
            return f"zeros({shape}, {dtype})"
        return f"filled({text}, {shape}, {dtype})"

    def array(self, value: Value) -> str:
        """The text of a value as an ndarray of its full shape."""
        return self.full(value) if value.type.shape else f"asarray({self.full(value)})"

    def roots_of_full(self, value: Value) -> frozenset[int]:
        """What the array of the full shape may share memory with. A repeated view cannot be written to: it counts as made elsewhere."""
        binding = self.bindings[value]
        if binding.shape == value.type.shape or (binding.viewed and binding.has_all(value.type)):
            return binding.roots
        return binding.roots | self.foreign_root if binding.viewed else self.new_root()

    def overwritten(self, values: Sequence[Value], type: TensorType) -> Value | None:
        """One of the values whose memory a result of this type may take: it dies here, and nothing else lives in that memory."""
        for value in values:
            binding = self.bindings[value]
            if value.type == type and type.shape == binding.shape != () and value in self.dying \
                    and self.only_holder(value) and min(binding.roots) >= 0 \
                    and not any(other.roots & binding.roots for other in self.bindings.values() if other is not binding):
                return value
        return None
