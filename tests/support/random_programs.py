"""Random well-typed programs over all ops, with arrays to run them on and, for every result, its required accuracy.

A program is made together with its numbers: each op is evaluated as it is appended, and an op whose result would depend on rounding is not
appended. Values that every backend has to give exactly (up to the sign of zero) differ from *rounded* ones, which come from a sum, a matmul
or a transcendental function. A rounded value has a second version, computed with noise of a few units in the last place at every op: the
distance of the two shows how much another order of operations may change.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.builder import GraphBuilder
from adjit.ir.definition import DEFINITIONS, Kind, OpDefinition, Rounding
from adjit.ir.emitter import emitting
from adjit.ir.errors import AdjitError, Location, Role
from adjit.ir.graph import Graph, Value
from adjit.ir.interpreter import evaluate
from adjit.ir.types import BOOL, F32, F64, I32, I64, SHORT_NAMES, TensorType

DTYPES = (F64, F64, F64, F64, F32, I64, I32, BOOL)
SHAPES = ((), (1,), (4,), (3, 4), (3, 4), (4, 3), (2, 3, 4), (1, 4), (3, 1), (0, 3), (2, 0))
NUMBERS = (0.0, 1.0, -1.0, 0.5, 2.0, -0.0, 3.0, -2.5)
SPECIAL = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-310, 1e300])
ELEMENTWISE = tuple(record for record in DEFINITIONS.values() if record.kind is Kind.ELEMENTWISE)
REDUCTIONS = tuple(record for record in DEFINITIONS.values() if record.kind is Kind.REDUCTION)

EXACT = frozenset({
    "reduce_max", "reduce_min", "take", "take_along_axis", "scatter_set",
    *(record.name for record in DEFINITIONS.values() if record.kind in (Kind.MOVEMENT, Kind.CREATION)
      or record.rounding in (Rounding.NONE, Rounding.ONCE))}) - {"add", "subtract", "strong_product"}
"""Ops on floats that have one correct rounding, or that compute nothing. A sum may be rounded together with a product in it."""

JUMPING = frozenset({"sign", "floor", "ceil", "trunc", "rint", "floor_divide", "remainder", "arctan2"})
"""Ops that turn a difference of rounding into a large one; so do all ops from floats to bools or integers."""

MEETS_SIGN_OF_ZERO = frozenset({"reciprocal", "divide", "strong_divide", "arctan2", "power"})


@dataclass(frozen=True)
class Known:
    """Value with its array; `noisy` is None if the array has to be matched exactly."""

    value: Value
    array: np.ndarray
    noisy: np.ndarray | None = None

    @property
    def type(self) -> TensorType:
        return self.value.type


@dataclass(frozen=True)
class Program:
    """Graph, an array for each parameter, and the expected results."""

    graph: Graph
    arrays: tuple[np.ndarray, ...]
    results: tuple[Known, ...]

    def check(self, found: Sequence[Any], what: str) -> None:
        """Compare results with the expected ones."""
        assert len(found) == len(self.results)
        for index, (array, known) in enumerate(zip(found, self.results, strict=True)):
            assert_close(np.asarray(array), known, f"result {index} {what}")


def assert_close(found: np.ndarray, known: Known, what: str) -> None:
    """Assert that `found` is the array of `known`, up to the sign of zero and, for a rounded value, some multiples of the noise."""
    wanted = known.array
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape), what
    if known.noisy is None:
        np.testing.assert_array_equal(found, wanted, err_msg=what)
    else:
        np.testing.assert_allclose(found, wanted, rtol=0, atol=200 * distance(known) + 1e3 * grain(wanted), err_msg=what)


def grain(array: np.ndarray) -> float:
    """Return one unit in the last place of the largest finite number."""
    return float(np.finfo(array.dtype).eps * np.max(np.abs(array), initial=1.0, where=np.isfinite(array)))


def distance(known: Known) -> float:
    """Distance by which noise moved a value."""
    assert known.noisy is not None
    with np.errstate(all="ignore"):
        return float(np.max(np.abs(known.noisy - known.array), initial=0.0, where=np.isfinite(known.array)))


class Author:
    """Author of programs, op by op. `choose` decides everything, `wild` puts NaN, infinities and huge integers into the parameters."""

    def __init__(self, choose: Random, wild: bool):
        self.choose = choose
        self.wild = wild
        self.generator = np.random.default_rng(choose.randrange(1 << 30))
        self.builder = GraphBuilder("random")
        self.known: list[Known] = []
        self.calls: list[tuple[OpDefinition, tuple[Known, ...], dict[str, Any]]] = []
        self.arrays: list[np.ndarray] = []

    def param(self, type: TensorType, role: str = "input") -> Known:
        array = np.asarray(self.numbers(type))
        value = self.builder.param(type, self.choose.choice((None, None, "x", "w")), role)
        self.arrays.append(array)
        self.known.append(Known(value, array))
        return self.known[-1]

    def numbers(self, type: TensorType) -> np.ndarray:
        """Make numbers with many ties and some zeros among them."""
        draw, shape = self.generator, type.shape
        if type.dtype.kind == "b":
            return draw.random(shape) < 0.5
        if type.dtype.kind in "iu":
            array = draw.integers(-3 if type.dtype.kind == "i" else 0, 6, shape).astype(type.dtype)
            extremes = np.array([np.iinfo(type.dtype).min, np.iinfo(type.dtype).max], type.dtype)
            return np.where(draw.random(shape) < 0.2, draw.choice(extremes, shape), array) if self.wild else array
        array = np.where(draw.random(shape) < 0.5, draw.normal(size=shape), draw.integers(-4, 5, shape) / 2).astype(type.dtype)
        if self.wild:
            with np.errstate(over="ignore"):
                array = np.where(draw.random(shape) < 0.2, draw.choice(SPECIAL, shape).astype(type.dtype), array)
        return array

    def put(self, definition: OpDefinition, *operands: Known, **attrs: Any) -> Known | None:
        """Append an op, unless its type rule rejects it or its result would depend on rounding."""
        try:
            types = definition.result_types([operand.type for operand in operands], attrs)
        except AdjitError:
            return None
        arrays = [operand.array for operand in operands]
        array = evaluate(definition, arrays, attrs)[0]
        noisy = self.with_noise(definition, operands, attrs, array)
        if noisy is not None and not self.holds(definition, operands, Known(Value(types[0]), array, noisy)):
            return None
        if definition.name in MEETS_SIGN_OF_ZERO and any(np.any(operand.array == 0) for operand in operands):
            return None
        role = self.choose.choice((Role.PRIMAL, Role.PRIMAL, Role.PRIMAL, Role.ADJOINT, Role.UPDATE, Role.RECOMPUTE))
        place = Location("model.py", self.choose.randint(1, 9), "f") if self.choose.random() < 0.7 else None
        with emitting(self.builder), self.builder.at(place, role):
            value = definition(*(operand.value for operand in operands), **attrs)
        self.known.append(Known(value, array, noisy))
        self.calls.append((definition, operands, attrs))
        return self.known[-1]

    def with_noise(self, definition: OpDefinition, operands: Sequence[Known], attrs: dict[str, Any],
                   array: np.ndarray) -> np.ndarray | None:
        """Return the noisy version of a result; None if it is exact."""
        exact = all(operand.noisy is None for operand in operands)
        if exact and (definition.name in EXACT or array.dtype.kind != "f"):
            return None
        noisy = evaluate(definition, [operand.array if operand.noisy is None else operand.noisy for operand in operands], attrs)[0]
        if array.dtype.kind != "f":
            return noisy
        noise = 4 * np.finfo(array.dtype).eps * self.generator.uniform(-1, 1, array.shape)
        with np.errstate(all="ignore"):
            return np.asarray(noisy * (1 + noise), array.dtype)

    def holds(self, definition: OpDefinition, operands: Sequence[Known], made: Known) -> bool:
        """True if a rounded result is well conditioned."""
        moves = definition.kind in (Kind.MOVEMENT, Kind.INDEXING) and definition.name not in ("add_slice", "scatter_add")
        if any(operand.noisy is not None for operand in operands) and not moves and (
                made.type.dtype.kind != "f" or definition.name in JUMPING
                or not all(np.all(np.isfinite(operand.array)) for operand in operands if operand.type.dtype.kind == "f")):
            return False
        assert made.noisy is not None
        finite = np.isfinite(made.array)
        largest = np.max(np.abs(made.array), initial=0.0, where=finite)
        return bool(np.array_equal(finite, np.isfinite(made.noisy)) and largest < 1e6 and distance(made) <= 1e4 * grain(made.array))

    def pick(self, where: Callable[[Known], bool] = lambda known: True) -> Known | None:
        """Choose a value for which `where` holds, preferably one of the last."""
        fitting = [known for known in self.known if where(known)]
        if not fitting:
            return None
        return self.choose.choice(fitting[-8:] if self.choose.random() < 0.6 else fitting)

    def like(self, type: TensorType) -> Known:
        """Choose a value of this type; a constant if there is no other, or now and then."""
        found = self.pick(lambda known: known.type == type)
        if found is None or self.choose.random() < 0.15:
            return self.constant(type)
        return found

    def constant(self, type: TensorType, number: float | None = None) -> Known:
        number = self.choose.choice(NUMBERS) if number is None else number
        value = bool(number) if type.dtype.kind == "b" else int(abs(number)) if type.dtype.kind in "iu" else number
        made = self.put(ops.constant, value=value, dtype=type.dtype, shape=type.shape)
        assert made is not None
        return made

    def axes(self, rank: int) -> tuple[int, ...]:
        return tuple(axis for axis in range(rank) if self.choose.random() < 0.5)

    def indices(self, size: int, shape: tuple[int, ...] | None = None) -> Known | None:
        """Make integers below `size`."""
        def fits(known: Known) -> bool:
            array = known.array
            return known.type.dtype == I64 and (shape is None or known.type.shape == shape) and bool(np.all((array >= 0) & (array < size)))

        found = self.pick(fits)
        if found is not None and self.choose.random() < 0.7:
            return found
        if shape is None:
            shape = self.choose.choice(((), (1,), (2,), (3,), (0,), (2, 2)))
        if not size and math.prod(shape):
            return None
        number = self.like(TensorType(I64, shape))
        return self.put(ops.remainder, number, self.constant(number.type, max(size, 1)))

    def write(self) -> None:
        """Append an op, or a few."""
        x = self.pick()
        assert x is not None
        if self.calls and self.choose.random() < 0.1:
            self.again()
        else:
            self.choose.choice(WRITERS)(self, x)

    def elementwise(self, x: Known) -> None:
        definition = self.choose.choice(ELEMENTWISE)
        if definition.name == "convert":
            self.convert(x)
        elif definition.name == "select":
            self.put(definition, self.like(x.type.with_dtype(BOOL)), x, self.like(x.type))
        elif definition.name == "power" and x.type.dtype.kind != "f":
            self.put(ops.power, x, self.constant(x.type, self.choose.randint(0, 3)))
        else:
            assert definition.arity is not None
            others = [self.like(x.type) for _ in range(definition.arity - 1)]
            self.put(definition, *self.choose.sample([x, *others], definition.arity))

    def again(self) -> None:
        """Repeat an earlier op, perhaps with its operands in another order."""
        definition, operands, attrs = self.choose.choice(self.calls[-8:])
        swap = definition.kind is Kind.ELEMENTWISE and self.choose.random() < 0.5
        self.put(definition, *(reversed(operands) if swap else operands), **attrs)

    def arithmetic(self, x: Known) -> None:
        """Append arithmetic, which the other ops would crowd out."""
        if x.type.dtype.kind == "f":
            self.put(self.choose.choice((ops.add, ops.multiply, ops.subtract, ops.maximum)), x, self.like(x.type))
            self.put(self.choose.choice((ops.tanh, ops.negative, ops.exp, ops.square, ops.sigmoid)), self.known[-1])

    def compare(self, x: Known) -> None:
        mask = self.put(self.choose.choice((ops.less, ops.greater_equal, ops.equal)), x, self.like(x.type))
        if mask is not None:
            self.put(ops.select, mask, x, self.like(x.type))

    def convert(self, x: Known) -> None:
        dtype = self.choose.choice((*DTYPES, *SHORT_NAMES.values()))
        if x.type.dtype.kind == "f" and dtype.kind in "iu":
            limits = np.iinfo(dtype)
            with np.errstate(invalid="ignore"):
                if not np.all((x.array > max(limits.min, -1e6) - 0.5) & (x.array < min(limits.max, 1e6))):
                    return      # a number that rounding moves over an end comes out at the other end
        self.put(ops.convert, x, dtype=dtype)

    def reduction(self, x: Known) -> None:
        axes = self.axes(x.type.rank)
        made = self.put(self.choose.choice((ops.reduce_sum, *REDUCTIONS)), x, axes=axes)
        if made is not None and self.choose.random() < 0.6:
            kept = tuple(axis for axis in range(x.type.rank) if axis not in axes)
            back = self.put(ops.broadcast, made, shape=x.type.shape, axes=kept)
            if back is not None and back.type == x.type:
                self.put(self.choose.choice((ops.subtract, ops.multiply, ops.maximum, ops.divide)), x, back)

    def reshape(self, x: Known) -> None:
        shape = list(x.type.shape)
        turn = self.choose.random()
        if turn < 0.3 or not shape:
            shape.insert(self.choose.randint(0, len(shape)), 1)
        elif turn < 0.6 and 1 in shape:
            shape.remove(1)
        elif turn < 0.8 and len(shape) > 1:
            axis = self.choose.randrange(len(shape) - 1)
            shape[axis:axis + 2] = [shape[axis] * shape[axis + 1]]
        elif shape[axis := self.choose.randrange(len(shape))] % 2 == 0:
            shape[axis:axis + 1] = [2, shape[axis] // 2]
        self.put(ops.reshape, x, shape=tuple(shape))

    def transpose(self, x: Known) -> None:
        self.put(ops.transpose, x, permutation=tuple(self.choose.sample(range(x.type.rank), x.type.rank)))

    def flip(self, x: Known) -> None:
        self.put(ops.flip, x, axes=self.axes(x.type.rank))

    def broadcast(self, x: Known) -> None:
        shape = list(x.type.shape)
        for _ in range(self.choose.randint(1, 2)):
            shape.insert(self.choose.randint(0, len(shape)), -self.choose.choice((1, 2, 3, 4)))
        axes = [axis for axis, size in enumerate(shape) if size >= 0]
        if abs(math.prod(shape)) <= 300:
            self.put(ops.broadcast, x, shape=tuple(map(abs, shape)), axes=tuple(axes))

    def slice(self, x: Known) -> None:
        start, stop, step = [], [], []
        for size in x.type.shape:
            first = self.choose.randint(0, min(size, 1))
            start.append(first)
            stop.append(self.choose.randint(max(first, size - 1), size))
            step.append(self.choose.choice((1, 1, 2)))
        self.put(ops.slice, x, start=tuple(start), stop=tuple(stop), step=tuple(step))

    def pad(self, x: Known) -> None:
        low, high, interior = (tuple(self.choose.choice((0, 0, 1, 2)) for _ in x.type.shape) for _ in range(3))
        number = self.choose.choice((0, 0, 0, 1))
        if self.choose.random() < 0.7:
            interior = (0,) * len(low)
        made = self.put(ops.pad, x, low=low, high=high, interior=interior, value=number)
        if made is not None:
            self.put(ops.add, made, self.like(made.type))

    def concatenate(self, x: Known) -> None:
        if x.type.rank:
            axis = self.choose.randrange(x.type.rank)

            def fits(known: Known) -> bool:
                a, b = ([known.type.dtype, *known.type.shape] for known in (known, x))
                return len(a) == len(b) and a[:axis + 1] == b[:axis + 1] and a[axis + 2:] == b[axis + 2:]

            others = [self.pick(fits) or x for _ in range(self.choose.randint(0, 2))]
            self.put(ops.concatenate, *self.choose.sample([x, *others], 1 + len(others)), axis=axis)

    def update(self, x: Known) -> None:
        update = self.pick(lambda known: known.type.dtype == x.type.dtype and known.type.rank == x.type.rank)
        if update is not None:
            start = tuple(self.choose.randint(0, max(0, big - small)) for big, small in zip(x.type.shape, update.type.shape, strict=True))
            record = self.choose.choice((ops.update_slice, ops.add_slice)) if x.type.dtype.kind != "b" else ops.update_slice
            self.put(record, x, update, start=start, step=tuple(self.choose.choice((1, 1, 1, 2)) for _ in start))

    def index(self, x: Known) -> None:
        if not x.type.rank:
            return
        axis = self.choose.randrange(x.type.rank)
        shape, size = x.type.shape, x.type.shape[axis]
        if self.choose.random() < 0.3:
            count = self.choose.randint(0, 3)
            places = self.indices(size, (*shape[:axis], count, *shape[axis + 1:]))
            if places is not None:
                self.put(ops.take_along_axis, x, places, axis=axis)
                self.put(ops.scatter_add_along_axis, x, places, self.like(x.type.with_shape(places.type.shape)), axis=axis)
            return
        places = self.indices(size)
        if places is not None and x.type.size * max(places.type.size, 1) < 300:
            self.put(ops.take, x, places, axis=axis)
            updates = self.like(x.type.with_shape((*shape[:axis], *places.type.shape, *shape[axis + 1:])))
            self.put(self.choose.choice((ops.scatter_add, ops.scatter_set)), x, places, updates, axis=axis)

    def matmul(self, x: Known) -> None:
        if x.type.rank < 2 or x.type.dtype.kind != "f":
            return
        other = self.pick(lambda known: known.type.dtype == x.type.dtype and known.type.rank == x.type.rank) or x
        attrs = [{"transpose_a": a, "transpose_b": b} for a in (False, True) for b in (False, True)]
        for flags in self.choose.sample(attrs, 4):
            if self.put(ops.matmul, x, other, **flags) is not None:
                return

    def scan(self, x: Known) -> None:
        if x.type.rank:
            axis = self.choose.randrange(x.type.rank)
            if self.choose.random() < 0.5:
                self.put(self.choose.choice((ops.cumsum, ops.cumprod)), x, axis=axis, reverse=self.choose.random() < 0.5)
            else:
                self.put(self.choose.choice((ops.argsort, ops.argmax, ops.argmin)), x, axis=axis)

    def create(self, x: Known) -> None:
        if x.type.rank and self.choose.random() < 0.5:
            self.put(ops.iota, dtype=x.type.dtype, shape=x.type.shape, axis=self.choose.randrange(x.type.rank))
        else:
            self.constant(x.type)


WRITERS: tuple[Callable[[Author, Known], None], ...] = (
    *[Author.elementwise] * 4, *[Author.arithmetic] * 3, *[Author.reduction] * 3, *[Author.reshape] * 2, *[Author.broadcast] * 2,
    Author.compare, Author.convert, Author.transpose, Author.slice, Author.flip, Author.pad, Author.concatenate, Author.update,
    Author.index, Author.matmul, Author.scan, Author.create)
"""Writers of the next op, the likely ones several times."""


def random_program(choose: Random, size: int, wild: bool = False) -> Program:
    """Make a program of about `size` ops: several results, among them parameters and, now and then, one twice; donated parameters."""
    author = Author(choose, wild)
    for _ in range(choose.randint(1, 4)):
        author.param(TensorType(choose.choice(DTYPES), choose.choice(SHAPES)), choose.choice(("input", "donated", "donated", "captured")))
    for _ in range(size):
        author.write()
    used = {value for op in author.builder.ops for value in op.operands}
    last = [known for known in author.known if known.value not in used]
    results = choose.sample(last, min(len(last), 3)) + choose.choices(author.known, k=choose.randint(0, 2))
    choose.shuffle(results)
    return Program(author.builder.build([known.value for known in results]), tuple(author.arrays), tuple(results))
