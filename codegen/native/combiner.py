"""Combiners of reductions and scans: instructions on vectors and scalars, and the neutral element."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from adjit.codegen.native.step_builder import StepBuilder, element_type, literal
from adjit.ir.dataclass import dataclass
from adjit.ir.definition import OpDefinition

_INSTRUCTIONS = {
    "reduce_sum": {"f": "fadd", "i": "add", "u": "add"}, "reduce_prod": {"f": "fmul", "i": "mul", "u": "mul"},
    "reduce_max": {"b": "or"}, "reduce_min": {"b": "and"}, "reduce_and": {"b": "and"}, "reduce_or": {"b": "or"}}
_INTRINSICS = {"reduce_max": {"i": "smax", "u": "umax"}, "reduce_min": {"i": "smin", "u": "umin"}}
_BETTER = {"reduce_max": "ogt", "reduce_min": "olt"}


@dataclass(frozen=True, slots=True)
class Combiner:
    """Combiner of the reduction with this name on elements of a dtype.

    `element` is the LLVM type of an element, `neutral` the text of the neutral element.
    """

    name: str
    element: str
    size: int
    kind: str
    neutral: str

    @classmethod
    def of(cls, definition: OpDefinition, dtype: np.dtype) -> Combiner:
        """Combiner of a reduction op for a dtype."""
        assert definition.identity is not None
        return cls(definition.name, element_type(dtype), dtype.itemsize, dtype.kind, literal(definition.identity(dtype), dtype))

    @property
    def is_rounded(self) -> bool:
        """True for float sums: their rounding errors grow with the number of additions, so shorter blocks are more exact."""
        return self.kind == "f" and self.name == "reduce_sum"

    def type(self, lanes: int) -> str:
        return f"<{lanes} x {self.element}>"

    def neutrals(self, lanes: int) -> str:
        """The neutral element in every lane."""
        return f"splat ({self.element} {self.neutral})"

    def combine(self, text: StepBuilder, lanes: int, a: str, b: str) -> str:
        """Combine two vectors, lane by lane."""
        type, code = self.type(lanes), _INSTRUCTIONS.get(self.name, {}).get(self.kind)
        if code is not None:
            return text.let(f"{code} {type} {a}, {b}")
        if self.kind != "f":
            return text.call(type, f"@llvm.{_INTRINSICS[self.name][self.kind]}.v{lanes}i{8 * self.size}", (type, a), (type, b))
        # One select gives b if a is NaN, the next one restores the NaN. Of two zeros the result is b, as in NumPy.
        better = text.let(f"fcmp {_BETTER[self.name]} {type} {a}, {b}")
        chosen = text.let(f"select <{lanes} x i1> {better}, {type} {a}, {type} {b}")
        nan = text.let(f"fcmp uno {type} {a}, {a}")
        return text.let(f"select <{lanes} x i1> {nan}, {type} {a}, {type} {chosen}")

    def combine_vectors(self, text: StepBuilder, lanes: int, vectors: Sequence[str]) -> str:
        """Combine several vectors into one, neighbours first."""
        while len(vectors) > 1:
            pairs = [self.combine(text, lanes, *vectors[k:k + 2]) for k in range(0, len(vectors) - 1, 2)]
            vectors = [*pairs, *vectors[len(pairs) * 2:]]
        return vectors[0]

    def combine_lanes(self, text: StepBuilder, lanes: int, vector: str) -> str:
        """Combine all lanes into one element: halves, quarters, and so on."""
        while lanes > 1:
            type, half = self.type(lanes), lanes // 2
            low, high = (text.shuffle(type, vector, "poison", range(first, first + half)) for first in (0, half))
            vector, lanes = self.combine(text, half, low, high), half
        return text.let(f"extractelement {self.type(1)} {vector}, i32 0")
