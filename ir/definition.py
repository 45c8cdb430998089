"""Op records: type rule, meaning, derivative, scalar code, traits and samples of each operation, in one place.

The tracer, the eager tensors, the interpreter, the differentiation, every backend, the tests and the op reference read this record. A
package that needs more of some ops has a table by op (`codegen/native/lower_op.py`, `passes/tiling/slice_rules.py`). An incomplete record
fails when it is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from enum import Enum, IntEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from adjit.ir.dataclass import dataclass
from adjit.ir.emitter import current_emitter
from adjit.ir.errors import DTypeError
from adjit.ir.graph import Attributes, Graph, Op, Value
from adjit.ir.lazy_module import LazyModule
from adjit.ir.types import TensorType, is_half

if TYPE_CHECKING:
    from adjit.ir import half_floats
else:
    half_floats = LazyModule("adjit.ir.half_floats")

Infer = Callable[..., "TensorType | tuple[TensorType, ...]"]
Evaluate = Callable[..., Any]
Terms = Callable[["Sequence[tuple[int, ...]]", "tuple[int, ...]", Attributes], int]
VectorJacobianProduct = Callable[[Any, tuple[Value, ...], tuple[Value, ...], Attributes], "Sequence[Value | NoDerivative | None]"]
BatchingRule = Callable[[Op, "Sequence[Value]", int], "Sequence[Value]"]


@dataclass(frozen=True, slots=True)
class NoDerivative:
    """Cotangent of an operand in which an op has no derivative: an error where it is asked for, and `reason` says why."""

    reason: str


class Kind(Enum):
    """Class of ops that a backend lowers alike; there is one emitter for each kind."""

    ELEMENTWISE = "elementwise"   # same shape in and out; has scalar code
    EXTERNAL = "external"         # same shape in and out; calls a compiled function of another library for each element
    REDUCTION = "reduction"       # combines along `axes`, which disappear
    MOVEMENT = "movement"         # elements move, none is computed
    INDEXING = "indexing"         # elements move to or from positions given by data
    CONTRACTION = "contraction"   # sums of products: matmul, convolution
    WINDOW = "window"             # combines elements of windows that slide over the last axes
    CREATION = "creation"         # no operands
    SCAN = "scan"                 # cumulative and sorting ops, along one axis
    LINALG = "linear algebra"     # of matrices, the last two dimensions; the others are a stack
    REGION = "region"             # owns graphs
    MEMORY = "memory"             # only in planned graphs
    CHECK = "check"               # no result: may stop the program


class OpCost(IntEnum):
    """Time that one element takes inside a kernel; decides which values are recomputed rather than cached."""

    FREE = 0             # nothing: a number, an index, or an element of the operand
    CHEAP = 1            # few instructions, which do not slow down a product's tiles
    MODERATE = 2         # less than storing and loading a value in the L1 cache
    DIVISION = 3         # more than storing and loading a value in the L1 cache
    TRANSCENDENTAL = 4   # as much as many additions


class Rounding(Enum):
    """Agreement of the floats that an op computes on different machines and backends."""

    NONE = "none"                  # computed exactly, or selected from the operands
    ONCE = "once"                  # the float next to the true result
    APPROXIMATE = "approximate"    # within a few units in the last place of the true result


class RegionUse(Enum):
    """Purpose of the graphs that an op owns."""

    TRANSFORM = "transform"          # replaced by other ops when the graph is differentiated
    CALL = "call"                    # like TRANSFORM; the first region gives the results
    CONTROL_FLOW = "control flow"    # loops and branches, whose regions are programs
    TILING = "tiling"                # a program that runs on one slice of the operands after another
    KERNEL = "kernel"                # ops that become one piece of machine code
    HOST = "host"                    # no graph: a function of Python is called


@dataclass(frozen=True, slots=True)
class Sample:
    """Sample call of an op for the tests.

    `arrays` are the operands, `attrs` the attributes. `differentiable` lists the operands whose derivative is checked against finite
    differences (the values must keep away from singular points); `twice` is True if the second derivative is checked too.
    """

    arrays: tuple[np.ndarray, ...]
    attrs: dict[str, Any] = field(default_factory=dict)
    differentiable: tuple[int, ...] = ()
    twice: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class OpDefinition:
    """Record of one kind of op.

    infer      `infer(*types, **attrs)` returns the result type(s); raises `ShapeError` or `DTypeError`.
               An op with regions also gets `regions=`.
    evaluate   `evaluate(*arrays, **attrs)`: the meaning, in NumPy. Results may share memory with operands.
    vjp        `vjp(cotangent, operands, results, attrs)` returns one cotangent an operand, written with ops; None means
               zero, `NoDerivative` an error where it is needed. With several results, `cotangent` is a tuple that may hold
               None. `vjp=None` is for ops without a differentiable result (integers, bools) or that are never differentiated
               (planned stage).
    batch      `batch(op, operands, size)` returns the results of `op` for a batch of examples, written with ops: of the operands, at least
               one has the batch axis, of `size`, as a further first dimension, and so have the results (those of ops with regions may
               lack it). "kind": the rule of the kind (`adjit.ir.batching`), if it has one. None: a loop over the examples.
    scalar     ELEMENTWISE: an expression with `{0}`, `{1}`, ... for the operands; function names in it are those of
               `codegen/vector_math/functions.py`. REDUCTION: the expression that combines `{0}` (accumulator) and `{1}`.
    identity   REDUCTION: `identity(dtype)`, the neutral element.
    samples    `samples()` yields `Sample`s: domain, edges and singular points are the author's to choose.
    numpy      NumPy function with the same meaning, for the type-rule tests and the reference page; None if there is none.
    attributes names and types of the attributes.
    marks      names of attributes that a pass may add, always True: what it has proven, or leaves to the op.
    doc        one sentence; if a derivative has a choice (ties, kinks), it names the chosen one.

    Traits, from which passes and backends know what they may do with an op. A missing trait costs speed, never correctness.
    `adjit.ir.ops.traits` has the set of ops with each trait.

    cost             time inside a kernel; every ELEMENTWISE op has one, and every op that is free inside a kernel.
    rounding         every ELEMENTWISE op has one.
    commutative      the two operands may be swapped without changing a bit (`maximum` of two zeros depends on their order).
    alias            the result has the elements of the operand in the same order: it may lie in the same memory.
    view             the result has elements of the operand at regular distances, so that NumPy copies none.
    updates          the result is the first operand with some elements replaced, and may be written over it.
    uniform          all elements of the result are equal, so that the same op makes any slice of it.
    same_alone       NumPy computes the same bits for one element as for many: repeated elements may be computed once.
    saves_operands   eager tensors save the operands for the backward half rather than the result, as PyTorch does: `y = a / b; y += 1` is
                     possible then, and `x ** 3` saves `x` alone.
    nonfinite        number of leading operands that make the result infinite or NaN somewhere if they are infinite or NaN there.
    strong           number of leading operands that make the result 0 where they are 0, whatever the other operand is.
    where_finite     with `strong`: the NumPy function with the same result, up to the sign of zero, wherever this result is finite.
    combine          REDUCTION: the NumPy function whose `reduce` is the reduction.
    terms            CONTRACTION: `terms(operand shapes, result shape, attrs)`, the number of products that are summed for each element.
    region_use       REGION: the purpose of the regions.
    runs             REGION: the attribute with the number of times that the regions run; "" if there is none.
    external         function of C in another library that computes the op in machine code: module and name, as SciPy's Cython modules have
                     them, or of a ufunc. ELEMENTWISE ops, which call it for each element, add the kinds of result and arguments:
                     "d" double, "f" float, "l" and "i" integers of 64 and 32 bits. Operands are converted; an argument without an
                     operand is 0. `("scipy.special.cython_special", "gammaln", "dd")`. Such an op is an error without SciPy, and in
                     libraries for C.
    first_alone      name of the op that computes the first result alone, in less time; without a derivative, so it replaces the op where
                     nothing is differentiated any more.
    effect           has no result, and is seen from outside: it is neither dropped nor repeated, and keeps its place among its like.
    half             computes nothing of float16 and bfloat16 operands, and works on them as they are stored. Any other op is emitted in
                     float32 (`ir/half_floats.py`). Ops with regions have it.
    """

    name: str
    kind: Kind
    doc: str
    infer: Infer
    evaluate: Evaluate
    vjp: VectorJacobianProduct | None
    samples: Callable[[], Iterable[Sample]]
    batch: BatchingRule | Literal["kind"] | None = "kind"
    attributes: dict[str, type | tuple[type, ...]] = field(default_factory=dict)
    marks: tuple[str, ...] = ()
    scalar: str | None = None
    identity: Callable[[np.dtype], Any] | None = None
    numpy: Callable[..., Any] | None = None
    arity: int | None = None            # None: any number of operands
    regions: int = 0
    cost: OpCost | None = None
    rounding: Rounding | None = None
    commutative: bool = False
    alias: bool = False
    view: bool = False
    updates: bool = False
    uniform: bool = False
    same_alone: bool = False
    saves_operands: bool = False
    nonfinite: int = 0
    strong: int = 0
    where_finite: np.ufunc | None = None
    combine: np.ufunc | None = None
    terms: Terms | None = None
    region_use: RegionUse | None = None
    runs: str = ""
    external: tuple[str, ...] | None = None
    first_alone: str = ""
    half: bool = False
    effect: bool = False
    is_check: bool = field(init=False)
    """True for an op that may stop the program, and comes before all others."""
    is_kept: bool = field(init=False)
    """True if an op without results is needed all the same: it may stop the program, or is seen from outside."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_check", self.kind is Kind.CHECK and not self.effect)       # read for each op many times
        object.__setattr__(self, "is_kept", self.kind is Kind.CHECK or self.effect)
        object.__setattr__(self, "half", self.half or self.kind in (Kind.REGION, Kind.MEMORY))
        if not self.doc or not callable(self.infer) or not callable(self.evaluate) or not callable(self.samples):
            raise ValueError(f"op record {self.name!r} is incomplete")
        if (self.kind in (Kind.ELEMENTWISE, Kind.REDUCTION)) != (self.scalar is not None):
            raise ValueError(f"op record {self.name!r}: scalar code belongs to elementwise ops and reductions, and to no other")
        if (self.kind is Kind.REDUCTION) != (self.identity is not None):
            raise ValueError(f"op record {self.name!r}: an identity belongs to reductions, and to no other")
        for kind, field_name in _NEEDED:
            if self.kind is kind and getattr(self, field_name) is None:
                raise ValueError(f"op record {self.name!r}: {kind.value} ops state their `{field_name}`")
        if (self.strong > 0) != (self.where_finite is not None):
            raise ValueError(f"op record {self.name!r}: `where_finite` belongs to strong products, and to no other")
        if self.batch == "kind" and self.kind not in _BATCHED_BY_KIND:
            raise ValueError(f"op record {self.name!r}: {self.kind.value} ops state their `batch`")

    @property
    def instructions(self) -> int:
        """Rough number of instructions for one element of an op that is not expensive."""
        return 0 if self.cost is OpCost.FREE else 1 + self.strong

    def result_types(self, types: Sequence[TensorType], attrs: Attributes, regions: Sequence[Graph] = ()) -> tuple[TensorType, ...]:
        """Types of the results; raises `ShapeError` or `DTypeError`."""
        if self.regions or self.uniform:        # a number decides on nothing but whether its dtype holds it
            inferred = self.infer(*types, **attrs, regions=tuple(regions)) if self.regions else self.infer(*types, **attrs)
            return inferred if isinstance(inferred, tuple) else (inferred,)
        key = (self, *map(id, types), *attrs.items())
        try:
            known = _known_types.get(key)
        except TypeError:       # an attribute that is not hashable: the rule raises the error, if it is one
            inferred = self.infer(*types, **attrs)
            return inferred if isinstance(inferred, tuple) else (inferred,)
        if known is None:
            if not self.half and self.name != "convert" and any(type.is_half for type in types):
                raise DTypeError(f"{next(type for type in types if type.is_half)} is stored only: this op computes in f32",
                                 hint="convert the operand first")
            inferred = self.infer(*types, **attrs)
            found = tuple(map(_shared_type, inferred)) if isinstance(inferred, tuple) else (_shared_type(inferred),)
            if len(_known_types) >= _MAX_KNOWN_TYPES:
                _known_types.clear()
            known = _known_types[key] = tuple(types), found
        return known[1]

    def __call__(self, *operands: Value, **attrs: Any) -> Value:
        """Emit this op into the current emitter; returns the only result."""
        (value,) = half_floats.emit_wide(self, operands, attrs, ()) if not self.half and _of_halves(operands, attrs) \
            else current_emitter().emit(self, operands, attrs)
        return value

    def emit(self, *operands: Value, regions: Sequence[Graph] = (), **attrs: Any) -> tuple[Value, ...]:
        """Emit this op into the current emitter; returns all results."""
        if not self.half and _of_halves(operands, attrs):
            return half_floats.emit_wide(self, operands, attrs, tuple(regions))
        return current_emitter().emit(self, operands, attrs, tuple(regions))

    def __repr__(self) -> str:
        return f"<op {self.name}>"


def _of_halves(operands: Sequence[Value], attrs: Mapping[str, Any]) -> bool:
    """True if an operand, or the dtype asked for, is float16 or bfloat16."""
    for value in operands:
        if value.type.is_half:
            return True
    return "dtype" in attrs and is_half(attrs["dtype"])


@lru_cache(maxsize=4096)
def _shared_type(type: TensorType) -> TensorType:
    """The one object for equal types, so that their identity is found in tables."""
    return type


_MAX_KNOWN_TYPES = 4096
_known_types: dict[object, tuple[tuple[TensorType, ...], tuple[TensorType, ...]]] = {}
"""Types of the results of ops by record, identity of the operands' types, and attributes. An entry keeps these types, so that no others
get their identity."""


_NEEDED = ((Kind.ELEMENTWISE, "cost"), (Kind.ELEMENTWISE, "rounding"), (Kind.REDUCTION, "combine"), (Kind.CONTRACTION, "terms"),
           (Kind.REGION, "region_use"))
"""Traits without which records of a kind are incomplete."""

_BATCHED_BY_KIND = (Kind.ELEMENTWISE, Kind.EXTERNAL, Kind.REDUCTION, Kind.WINDOW, Kind.SCAN, Kind.LINALG, Kind.CREATION)
"""Kinds whose ops are batched alike; ops without operands are never batched."""

DEFINITIONS: dict[str, OpDefinition] = {}


def define(name: str, kind: Kind, **fields: Any) -> OpDefinition:
    """Make and register an op record."""
    if name in DEFINITIONS:
        raise ValueError(f"op {name!r} is defined twice")
    DEFINITIONS[name] = OpDefinition(name=name, kind=kind, **fields)
    return DEFINITIONS[name]
