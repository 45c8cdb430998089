"""Random differentiable functions as regions, and the graphs of their derivatives: gradients, gradients of gradients, tangents.

Every value stays away from kinks, poles and ties, so that differences tell the derivative.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np
from support.random_programs import Author, Known

from adjit.ir import ops
from adjit.ir.builder import GraphBuilder
from adjit.ir.definition import OpDefinition
from adjit.ir.emitter import emitting
from adjit.ir.errors import AdjitError, Location
from adjit.ir.graph import Graph, Value
from adjit.ir.interpreter import evaluate
from adjit.ir.types import F64, TensorType

SHAPES = ((), (1,), (4,), (3, 4), (3, 4), (4, 3), (2, 3, 4), (1, 4), (3, 1))
UNARY = (ops.sin, ops.cos, ops.tanh, ops.exp, ops.sigmoid, ops.erf, ops.arctan, ops.arcsinh, ops.square, ops.negative, ops.expm1,
         ops.sqrt, ops.log, ops.log1p, ops.reciprocal, ops.cbrt, ops.arcsin, ops.arctanh, ops.arccosh, ops.tan, ops.abs, ops.sinh, ops.log2,
         ops.relu)
BINARY = (
    ops.add, ops.multiply, ops.subtract, ops.divide, ops.maximum, ops.minimum, ops.fmax, ops.logaddexp, ops.hypot, ops.arctan2, ops.power,
    ops.strong_multiply, ops.strong_divide)
GAP = 1e-2

DOMAINS = {
    "sqrt": lambda x: x > 0.3, "log": lambda x: x > 0.3, "log2": lambda x: x > 0.3, "log1p": lambda x: x > -0.7,
    "arccosh": lambda x: x > 1.3,
    "reciprocal": lambda x: abs(x) > 0.3, "cbrt": lambda x: abs(x) > 0.3,
    "arcsin": lambda x: abs(x) < 0.8, "arctanh": lambda x: abs(x) < 0.8,
    "tan": lambda x: abs(x) < 1.2, "abs": lambda x: abs(x) > GAP, "relu": lambda x: abs(x) > GAP,
    "divide": lambda x, y: abs(y) > 0.3, "strong_divide": lambda x, y: (abs(y) > 0.3) & (abs(x) > GAP),
    "strong_multiply": lambda x, y: abs(x) > GAP, "maximum": lambda x, y: abs(x - y) > GAP, "minimum": lambda x, y: abs(x - y) > GAP,
    "fmax": lambda x, y: abs(x - y) > GAP, "hypot": lambda x, y: abs(x) + abs(y) > 0.3, "arctan2": lambda x, y: y > 0.3,
    "power": lambda x, y: (x > 0.3) & (abs(y) < 4), "less": lambda x, y: abs(x - y) > GAP, "greater_equal": lambda x, y: abs(x - y) > GAP}
"""Domains in which an op is smooth, in the sense above."""

DISTINCT = frozenset({"reduce_max", "reduce_min", "argsort"})


class SmoothAuthor(Author):
    """Author of functions of float64 arrays; integers and bools occur as indices and conditions only."""

    def __init__(self, choose: Random, depth: int = 0):
        super().__init__(choose, wild=False)
        self.builder = GraphBuilder(f"function{depth}")
        self.depth = depth

    def numbers(self, type: TensorType) -> np.ndarray:
        return np.asarray(self.generator.normal(size=type.shape))

    def given(self, known: Known) -> Known:
        """Make a parameter that is passed a value known elsewhere."""
        self.arrays.append(known.array)
        self.known.append(Known(self.builder.param(known.type), known.array))
        return self.known[-1]

    def put(self, definition: OpDefinition, *operands: Known, regions: Sequence[Graph] = (), **attrs: Any) -> Known | None:
        try:
            definition.result_types([operand.type for operand in operands], attrs, regions)
        except AdjitError:
            return None
        arrays = [operand.array for operand in operands]
        if definition.name in DOMAINS and not np.all(DOMAINS[definition.name](*arrays)):
            return None
        if definition.name in DISTINCT and np.min(np.diff(np.sort(arrays[0], axis=None)), initial=1.0) < GAP:
            return None
        array = evaluate(definition, arrays, attrs, tuple(regions))[0]
        if array.dtype.kind == "f" and not np.all(np.abs(array) < 30):
            return None
        with emitting(self.builder), self.builder.at(Location("model.py", self.choose.randint(1, 9), "f")):
            (value,) = definition.emit(*(operand.value for operand in operands), regions=regions, **attrs)
        self.known.append(Known(value, array))
        return self.known[-1]

    def write(self) -> None:
        x = self.pick(lambda known: known.type.dtype == F64)
        assert x is not None
        writer = self.choose.choice((
            *[self.unary] * 2, *[self.binary] * 3, self.selection, *[self.fold] * 2, self.reshape, self.transpose, self.broadcast,
            self.slice, self.flip, self.pad, self.concatenate, self.update, self.index, self.matmul, self.running, *[self.call] * 2))
        writer(x)

    def unary(self, x: Known) -> None:
        for definition in self.choose.sample(UNARY, 3):
            if self.put(definition, x) is not None:
                return

    def binary(self, x: Known) -> None:
        other = self.like(x.type)
        for definition in self.choose.sample(BINARY, 4):
            if self.put(definition, *self.choose.sample((x, other), 2)) is not None:
                return

    def selection(self, x: Known) -> None:
        mask = self.put(self.choose.choice((ops.less, ops.greater_equal)), self.like(x.type), self.like(x.type))
        if mask is not None:
            self.put(ops.select, mask, x, self.like(x.type))

    def fold(self, x: Known) -> None:
        axes = self.axes(x.type.rank)
        made = self.put(self.choose.choice((ops.reduce_sum, ops.reduce_sum, ops.reduce_max, ops.reduce_min, ops.reduce_prod)), x, axes=axes)
        if made is not None and self.choose.random() < 0.6:
            kept = tuple(axis for axis in range(x.type.rank) if axis not in axes)
            back = self.put(ops.broadcast, made, shape=x.type.shape, axes=kept)
            assert back is not None
            self.put(self.choose.choice((ops.subtract, ops.multiply, ops.divide, ops.power)), x, back)

    def running(self, x: Known) -> None:
        if x.type.rank:
            axis = self.choose.randrange(x.type.rank)
            if self.choose.random() < 0.3:
                order = self.put(ops.argsort, x, axis=axis)
                if order is not None:
                    self.put(ops.take_along_axis, x, order, axis=axis)
            else:
                self.put(self.choose.choice((ops.cumsum, ops.cumprod)), x, axis=axis, reverse=self.choose.random() < 0.5)

    def call(self, x: Known) -> None:
        """Call a new function: checkpointed, or with a rule of its own (which is its derivative)."""
        if self.depth > 1:
            return
        inner = SmoothAuthor(self.choose, self.depth + 1)
        operands = [x, *([self.like(x.type)] if self.choose.random() < 0.5 else [])]
        for operand in operands:
            inner.given(operand)
        for _ in range(self.choose.randint(1, 4)):
            inner.write()
        body = inner.builder.build([inner.result()])
        if self.choose.random() < 0.5:
            self.put(ops.checkpoint, *operands, regions=(body,))
        else:
            self.put(ops.custom_call, *operands, regions=(body, keeping_arguments(body), own_rule(body)))

    def result(self) -> Value:
        found = self.pick(lambda known: known.type.dtype == F64 and known.value not in self.builder.params)
        return self.known[0].value if found is None else found.value


def keeping_arguments(body: Graph) -> Graph:
    return replace(body, name="forward", results=body.results + body.params)


def own_rule(body: Graph) -> Graph:
    """Graph of the cotangents of the arguments, for arguments and a cotangent."""
    builder = GraphBuilder("backward")
    arguments = [builder.param(value.type) for value in (*body.params, body.results[0])]
    with emitting(builder):
        outs = ops.vjp.emit(*arguments, regions=(body,), wrt=tuple(range(len(body.params))), cotangents=(0,))
    return builder.build(outs[1:])


@dataclass(frozen=True)
class Function:
    """Region with one result, arrays for its parameters, a cotangent, and a direction in the space of the parameters `wrt`."""

    region: Graph
    arrays: tuple[np.ndarray, ...]
    wrt: tuple[int, ...]
    cotangent: np.ndarray
    directions: tuple[np.ndarray, ...]

    def moved(self, distance: float) -> list[np.ndarray]:
        """Return the arrays, moved along the direction."""
        arrays = list(self.arrays)
        for index, direction in zip(self.wrt, self.directions, strict=True):
            arrays[index] = np.asarray(arrays[index] + distance * direction)
        return arrays


def random_function(choose: Random, size: int) -> Function:
    author = SmoothAuthor(choose)
    for _ in range(choose.randint(1, 3)):
        author.param(TensorType(F64, choose.choice(SHAPES)), choose.choice(("input", "input", "donated")))
    for _ in range(size):
        author.write()
    region = author.builder.build([author.result()])
    wrt = tuple(sorted(choose.sample(range(len(region.params)), choose.randint(1, len(region.params)))))
    draw = author.generator
    return Function(region, tuple(author.arrays), wrt, np.asarray(draw.normal(size=region.results[0].type.shape)),
                    tuple(np.asarray(draw.normal(size=author.arrays[index].shape)) for index in wrt))


def gradient(function: Function) -> Graph:
    """Graph of gradients. Parameters: the function's, then a cotangent. Results: the function's, then the cotangents of `wrt`."""
    builder = GraphBuilder("gradient")
    region = function.region
    arguments = [builder.param(value.type, None, role) for value, role in zip(region.params, region.param_roles, strict=True)]
    with emitting(builder):
        return builder.build(ops.vjp.emit(
            *arguments, builder.param(region.results[0].type), regions=(as_region(region),), wrt=function.wrt, cotangents=(0,)))


def second(function: Function) -> Graph:
    """Derivative of `gradient` along a direction in the space of its cotangents, with respect to `wrt`: a product with the Hessian.

    Parameters: those of `gradient`, then one direction for each of `wrt`.
    """
    inner = gradient(function)
    return _derivative_of(inner, function, function.wrt)


def tangent(function: Function) -> Graph:
    """Derivative of `gradient` with respect to its cotangent: the tangent of the result, the last of the results."""
    inner = gradient(function)
    return _derivative_of(inner, function, (len(inner.params) - 1,))


def _derivative_of(inner: Graph, function: Function, wrt: tuple[int, ...]) -> Graph:
    builder = GraphBuilder(f"{inner.name}_again")
    arguments = [builder.param(value.type, None, role) for value, role in zip(inner.params, inner.param_roles, strict=True)]
    directions = [builder.param(inner.params[index].type) for index in function.wrt]
    with emitting(builder):
        return builder.build(ops.vjp.emit(*arguments, *directions, regions=(as_region(inner),), wrt=wrt,
                                          cotangents=tuple(range(1, 1 + len(function.wrt)))))


def as_region(graph: Graph) -> Graph:
    return replace(graph, param_roles=())
