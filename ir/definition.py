"""The op record: everything adjit knows about one operation, in one place.

The tracer, the eager tensors, the interpreter, the differentiation, every backend, the tests and the op
reference read this record and nothing else. An incomplete record fails when it is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from enum import Enum
from typing import Any

import numpy as np

from adjit.ir.dataclass import dataclass
from adjit.ir.emitter import current_emitter
from adjit.ir.graph import Attributes, Graph, Value
from adjit.ir.types import TensorType

Infer = Callable[..., "TensorType | tuple[TensorType, ...]"]
Evaluate = Callable[..., Any]
VectorJacobianProduct = Callable[[Any, tuple[Value, ...], tuple[Value, ...], Attributes], "Sequence[Value | None]"]


class Kind(Enum):
    """What a backend has to know to lower an op; one emitter a kind."""

    ELEMENTWISE = "elementwise"   # same shape in and out; has scalar code
    REDUCTION = "reduction"       # combines along `axes`, which disappear
    MOVEMENT = "movement"         # elements move, none is computed
    INDEXING = "indexing"         # elements move to or from places that are data
    CONTRACTION = "contraction"   # sums of products: matmul, convolution
    WINDOW = "window"             # combines elements of windows that slide over the last axes
    CREATION = "creation"         # no operands
    SCAN = "scan"                 # cumulative and sorting ops, along one axis
    REGION = "region"             # owns graphs
    MEMORY = "memory"             # only in planned graphs


@dataclass(frozen=True, slots=True)
class Sample:
    """One call of an op for the tests.

    `arrays` are the operands, `attrs` the attributes. `differentiable` lists the operands whose derivative is
    checked against finite differences (the values given must keep away from singular points); `twice` says whether
    the second derivative is checked too.
    """

    arrays: tuple[np.ndarray, ...]
    attrs: dict[str, Any] = field(default_factory=dict)
    differentiable: tuple[int, ...] = ()
    twice: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class OpDefinition:
    """One kind of op.

    infer      `infer(*types, **attrs)` gives the result type(s); raises `ShapeError` or `DTypeError`.
               An op with regions also gets `regions=`.
    evaluate   `evaluate(*arrays, **attrs)`: the meaning, in NumPy. Results may share memory with operands.
    vjp        `vjp(cotangent, operands, results, attrs)` gives one cotangent an operand, written with ops; None means
               zero. With several results, `cotangent` is a tuple that may hold None. `vjp=None` is for ops without a
               differentiable result (integers, bools) or that are never differentiated (planned stage).
    scalar     ELEMENTWISE: an expression with `{0}`, `{1}`, ... for the operands; function names in it are those of
               `codegen/scalar_functions.py`. REDUCTION: the expression that combines `{0}` (accumulator) and `{1}`.
    identity   REDUCTION: `identity(dtype)`, the neutral element.
    samples    `samples()` yields `Sample`s: domain, edges and singular points are the author's to choose.
    numpy      the NumPy function that means the same, for the type-rule tests and the reference page; None where there is none.
    attributes names and types of the attributes.
    doc        one sentence; where a derivative has a choice (ties, kinks) it says which is taken.
    """

    name: str
    kind: Kind
    doc: str
    infer: Infer
    evaluate: Evaluate
    vjp: VectorJacobianProduct | None
    samples: Callable[[], Iterable[Sample]]
    attributes: dict[str, type | tuple[type, ...]] = field(default_factory=dict)
    scalar: str | None = None
    identity: Callable[[np.dtype], Any] | None = None
    numpy: Callable[..., Any] | None = None
    arity: int | None = None            # None: any number of operands
    regions: int = 0

    def __post_init__(self) -> None:
        if not self.doc or not callable(self.infer) or not callable(self.evaluate) or not callable(self.samples):
            raise ValueError(f"op record {self.name!r} is incomplete")
        if (self.kind in (Kind.ELEMENTWISE, Kind.REDUCTION)) != (self.scalar is not None):
            raise ValueError(f"op record {self.name!r}: scalar code belongs to elementwise ops and reductions, and to no other")
        if (self.kind is Kind.REDUCTION) != (self.identity is not None):
            raise ValueError(f"op record {self.name!r}: an identity belongs to reductions, and to no other")

    def result_types(self, types: Sequence[TensorType], attrs: Attributes, regions: Sequence[Graph] = ()) -> tuple[TensorType, ...]:
        """The types of the results; raises `ShapeError` or `DTypeError`."""
        inferred = self.infer(*types, **attrs, regions=tuple(regions)) if self.regions else self.infer(*types, **attrs)
        return inferred if isinstance(inferred, tuple) else (inferred,)

    def __call__(self, *operands: Value, **attrs: Any) -> Value:
        """Emit this op into the current emitter; the only result."""
        (value,) = current_emitter().emit(self, operands, attrs)
        return value

    def emit(self, *operands: Value, regions: Sequence[Graph] = (), **attrs: Any) -> tuple[Value, ...]:
        """Emit this op into the current emitter; all results."""
        return current_emitter().emit(self, operands, attrs, tuple(regions))

    def __repr__(self) -> str:
        return f"<op {self.name}>"


DEFINITIONS: dict[str, OpDefinition] = {}


def define(name: str, kind: Kind, **fields: Any) -> OpDefinition:
    """Make and register an op record."""
    if name in DEFINITIONS:
        raise ValueError(f"op {name!r} is defined twice")
    DEFINITIONS[name] = OpDefinition(name=name, kind=kind, **fields)
    return DEFINITIONS[name]
