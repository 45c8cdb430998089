"""Turns a graph into one straight-line Python function over ndarrays: what eager tensors run.

A text holds names only, no shapes, axes or numbers: those are bound when the function is made, so that all graphs of one
structure share one compiled text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np

from adjit.codegen.numpy_forms import Form, FunctionText
from adjit.codegen.numpy_ops import (
    EXPRESSIONS,
    FUNCTIONS,
    OPERATORS,
    diagonal_of,
)
from adjit.ir.dataclass import dataclass
from adjit.ir.definition import Kind
from adjit.ir.evaluator import evaluate
from adjit.ir.graph import Graph, Op, Value, last_uses, live_ops, producers
from adjit.ir.ops.control_flow import run_control_flow
from adjit.ir.ops.movement import inside, strided
from adjit.ir.ops.traits import CONTROL_FLOW
from adjit.ir.types import Shape, TensorType

_RESHAPE = re.compile(r"(v\d+) = (\w+)\.reshape\(k\d+\)")
_NEW_ARRAYS = (Kind.ELEMENTWISE, Kind.SCAN)
"""Kinds of ops whose meaning gives arrays that share no memory with its operands, but for those that are written in a way of their own."""

_SMALL = 1 << 14
"""Bytes up to which calls count, not memory: a repeated result is copied, which is quicker than a view, and a caller may write to it."""


@dataclass(frozen=True, slots=True)
class NumpyFunction:
    """A graph as a Python function.

    `run(*arrays)` gives the tuple of results, ndarrays all; `text` is its source. `fresh[i]` says that result i is certainly a new
    array that shares memory with no parameter, no constant and no other result.
    """

    run: Callable[..., tuple[np.ndarray, ...]]
    text: str
    fresh: tuple[bool, ...]


def compile_graph(graph: Graph, weak: frozenset[int] = frozenset(), views: bool = False) -> NumpyFunction:
    """The function of a graph without region ops other than loops and branches. The parameters `weak` (f64[]) are Python floats. With
    `views`, results that repeat elements are views of these, whatever their size.

    Results are those of `interpret`, bit for bit but for the signs of zeros of strong products, and for the last bits of sums and
    products of matrices over repeated or transposed values, whose layouts may differ. Floating-point warnings are the caller's to silence.
    """
    return _compile(graph, weak, _results_that_tell(graph), views)


def _compile(graph: Graph, weak: frozenset[int], telling: dict[Value, Value], views: bool = False) -> NumpyFunction:
    writer = _Writer(graph, weak, telling, views)
    text, bound = writer.write()
    make = _compiled(text, tuple(bound))
    return NumpyFunction(make(*bound.values()), text, writer.fresh)


@lru_cache(maxsize=4096)
def _compiled(text: str, names: tuple[str, ...]) -> Callable[..., Callable[..., tuple[np.ndarray, ...]]]:
    """The function that binds these names in a text and gives its `run`. Cells are read faster than globals."""
    lines = "\n    ".join(text.splitlines())
    namespace: dict[str, Any] = {}
    exec(compile(f"def make({', '.join(names)}):\n    {lines}\n    return run", "<adjit numpy>", "exec"), namespace)
    return namespace["make"]     # type: ignore[no-any-return]


class _Writer(FunctionText):
    """Writes the function of a graph, op by op: `write_...` are the ops that are more than one call."""

    def __init__(self, graph: Graph, weak: frozenset[int], telling: dict[Value, Value], views: bool = False):
        super().__init__(graph.params, weak, FUNCTIONS)
        self.graph = graph
        self.weak = weak
        self.views = views
        self.telling = telling
        self.makers = producers(graph)
        self.untested: dict[Value, None] = {}       # results that tell of strong products whether those are finite
        self.fresh: tuple[bool, ...] = ()

    def write(self) -> tuple[str, dict[str, Any]]:
        """The text, and what its names stand for."""
        ops = live_ops(self.graph)
        last = last_uses(self.graph.with_ops(ops))
        for index, op in enumerate(ops):
            self.dying = [value for value in dict.fromkeys(op.operands) if last[value] == index]
            if op.name in CONTROL_FLOW:
                self.write_control_flow(op)
                self.clear([value for value in op.results if last[value] == index])
            else:
                self.forms[op.result] = self.op(op)
            self.clear(self.dying)
        while self.lines and self.lines[-1].endswith(" = None"):
            self.lines.pop()
        params = ", ".join(f"a{index}" for index in range(len(self.graph.params)))
        if self.untested:
            self.lines.append(f"if not is_finite({' + '.join(self.norm(value) for value in self.untested)}):")
            self.lines.append(f"    return {self.constant(_Tested(self.graph, self.weak))}({params})")
        results = self.results()
        body = "".join(f"    {line}\n" for line in (*self.lines, f"return ({results})"))
        return f"def run({params}):\n{body}", self.bound

    # -- ops

    def op(self, op: Op) -> Form:
        special: Callable[[Op], Form] | None = getattr(self, f"write_{op.name}", None)
        if special is not None:
            return special(op)
        if op.definition.strong:
            return self.strong(op)
        if op.name in EXPRESSIONS or isinstance(op.definition.evaluate, np.ufunc):
            return self.elementwise(op, op.name, op.definition.evaluate)
        if op.definition.kind is Kind.REDUCTION:
            return self.reduction(op)
        return self.other(op)

    def other(self, op: Op) -> Form:
        """The meaning of an op of which nothing else is known."""
        if op.definition.kind in (Kind.REGION, Kind.MEMORY):
            raise ValueError(f"{op.name} has no place in a NumPy function")
        function = self.constant(partial(op.definition.evaluate, **op.attrs) if op.attrs else op.definition.evaluate)
        expression = f"{function}({', '.join(self.array(value) for value in op.operands)})"
        roots = self.new_root()
        if (op.definition.view or op.definition.kind not in _NEW_ARRAYS) and op.operands:
            roots = self.elsewhere.union(*(self.forms[value].roots for value in op.operands))
        return self.assign(expression, op.result.type.shape, roots)

    def write_control_flow(self, op: Op) -> None:
        """A loop or a branch: a function of arrays, which calls those of its regions."""
        function = self.constant(run_control_flow(op, [compile_graph(region).run for region in op.regions]))
        arguments = ", ".join(self.array(value) for value in op.operands)
        forms = [Form(self.new_name(), value.type.shape, self.new_root()) for value in op.results]
        self.lines.append(f"{''.join(f'{form.text}, ' for form in forms)}= {function}({arguments})")
        self.forms.update(zip(op.results, forms, strict=True))

    def elementwise(self, op: Op, name: str, function: Any) -> Form:
        """Operands that are repeated are left to NumPy's broadcasting; where all are, so is the result."""
        forms = [self.forms[value] for value in op.operands]
        shape = np.broadcast_shapes(*(form.shape for form in forms))
        texts = [form.text for form in forms]
        if shape != op.result.type.shape and not op.definition.same_alone:
            texts[0], shape = self.whole(op.operands[0]), op.result.type.shape
        elif op.name in EXPRESSIONS or all(form.weak for form in forms):
            texts = [self.firm(value) for value in op.operands]
        if op.name in EXPRESSIONS:
            if op.name == "select":     # twice as fast with arrays as with NumPy scalars
                texts = [text if form.number is None else self.constant(np.asarray(self.bound[form.text]))
                         for text, form in zip(texts, forms, strict=True)]
            return self.assign(EXPRESSIONS[op.name].format(*texts), shape, self.new_root())
        if not shape and name in OPERATORS and op.result.type.dtype.kind == "f":
            return self.assign(f"{texts[0]} {OPERATORS[name]} {texts[1]}", shape, self.new_root())
        target = self.overwritten(op.operands, op.result.type) if shape == op.result.type.shape else None
        if target is None:
            return self.assign(f"{self.function(name, function)}({', '.join(texts)})", shape, self.new_root())
        form = self.forms.pop(target)
        self.lines.append(f"{self.function(name, function)}({', '.join(texts)}, out={form.text})")
        return form

    def strong(self, op: Op) -> Form:
        """Where the plain product is finite it is right; its norm tells so in one pass. A number that makes no NaN of 0 needs no test."""
        function, strong = op.definition.where_finite, op.definition.strong
        assert function is not None
        candidates = op.operands if strong == 2 else op.operands[1:]
        numbers = [number for number in (self.forms[value].number for value in candidates) if number is not None]
        finite = any(math.isfinite(number) and (number != 0 or (strong == 1 and function is np.multiply)) for number in numbers)
        if not finite and op.result in self.telling:
            self.untested[self.telling[op.result]] = None
            finite = True
        if finite:
            return self.elementwise(op, function.__name__, function)
        shape = np.broadcast_shapes(*(self.forms[value].shape for value in op.operands))
        operands = ", ".join(self.firm(value) for value in op.operands)
        form = self.named(f"{self.function(function.__name__, function)}({operands})", shape)
        norm = self.norm_of(form, op.result.type)
        self.lines.append(f"if not is_finite({norm}):")
        self.lines.append(f"    {form.text} = {self.constant(op.definition.evaluate)}({operands})")
        return form

    def norm(self, value: Value) -> str:
        return self.norm_of(self.forms[value], value.type)

    def norm_of(self, form: Form, type: TensorType) -> str:
        """The text of a number that is finite only where all elements are."""
        if not form.shape:
            return form.text
        return f"vdot({form.text}, {form.text})" if type.nbytes <= _SMALL else f"norm({form.text})"

    def reduction(self, op: Op) -> Form:
        (x,) = op.operands
        function, axes, dtype = op.definition.combine, op.attrs["axes"], x.type.dtype
        assert function is not None
        text, name = self.whole(x), self.function(op.name, function.reduce)
        needed = f", {self.constant(dtype)}" if dtype.kind in "iu" and function in (np.add, np.multiply) else ""
        return self.assign(f"{name}({text}, {self.constant(axes)}{needed})", op.result.type.shape, self.new_root())

    def write_matmul(self, op: Op) -> Form:
        texts = [self.whole(value) for value in op.operands]
        plain = op.result.type.rank == 2
        for index, key in enumerate(("transpose_a", "transpose_b")):
            if op.attrs[key]:
                texts[index] += ".T" if plain else ".swapaxes(-1, -2)"
        return self.assign(f"{'dot' if plain else 'matmul'}({', '.join(texts)})", op.result.type.shape, self.new_root())

    def write_constant(self, op: Op) -> Form:
        value = op.attrs["value"]
        return Form(self.constant(op.attrs["dtype"].type(value)), (), number=value)

    def write_iota(self, op: Op) -> Form:
        """The numbers along the axis, once; they are repeated along the others."""
        shape, axis = op.attrs["shape"], op.attrs["axis"]
        along = np.arange(shape[axis], dtype=op.attrs["dtype"]).reshape([shape[axis]] + [1] * (len(shape) - axis - 1))
        along.flags.writeable = False
        return Form(self.constant(along), along.shape, self.elsewhere, viewed=True)

    def write_convert(self, op: Op) -> Form:
        (x,), dtype = op.operands, op.attrs["dtype"]
        form = self.forms[x]
        if x.type.dtype == dtype or (form.weak and x.type.dtype == np.float64 and dtype.kind == "f"):
            return self.alias(form)
        if form.number is not None:
            (array,) = evaluate(op.definition, [np.asarray(self.bound[form.text])], op.attrs)
            return Form(self.constant(array[()]), (), number=array.item())
        if x.type.dtype.kind == "f" and dtype.kind in "iu":
            return self.assign(f"convert({self.firm(x)}, dtype={self.constant(dtype)})", form.shape, self.new_root())
        return self.assign(f"{self.firm(x)}.astype({self.constant(dtype)})", form.shape, self.new_root())

    def write_stop_gradient(self, op: Op) -> Form:
        return self.alias(self.forms[op.operands[0]])

    def write_broadcast(self, op: Op) -> Form:
        (x,), shape, axes = op.operands, op.attrs["shape"], op.attrs["axes"]
        form = self.forms[x]
        sizes = (1,) * (x.type.rank - len(form.shape)) + form.shape
        aligned = [1] * len(shape)
        for axis, size in zip(axes, sizes, strict=True):
            aligned[axis] = size
        first = next((axis for axis, size in enumerate(aligned) if size != 1 or axis in axes), len(shape))
        target = tuple(aligned[first:])
        viewed = form.viewed or (form.shape == x.type.shape and form.number is None)
        if not form.shape or target == form.shape:
            return self.alias(Form(form.text, form.shape, form.roots, form.number, form.weak, viewed and not form.weak))
        if len(shape) == len(target) or tuple(aligned) == shape:
            target = tuple(aligned)
        return self.reshaped(x, form.text, target, form.roots, viewed)

    def write_reshape(self, op: Op) -> Form:
        (x,), shape = op.operands, op.attrs["shape"]
        form = self.forms[x]
        if form.number is not None or form.weak or x.type.shape == shape or (not form.shape and x.type.shape):
            return self.alias(form)
        return self.reshaped(x, self.whole(x), shape, self.roots_of_whole(x))

    def reshaped(self, x: Value, text: str, shape: Shape, roots: frozenset[int], viewed: bool = False) -> Form:
        """A reshape; one of a reshape that nothing else needs takes its place."""
        return self.assign(f"{self.before_reshape(x, text) or text}.reshape({self.constant(shape)})", shape, roots, viewed)

    def before_reshape(self, x: Value, text: str) -> str:
        """What the last line reshapes to `x`, where nothing else needs `x`: the line is gone then."""
        before = _RESHAPE.fullmatch(self.lines[-1]) if self.lines else None
        is_alone = before is not None and before[1] == text and x in self.dying and self.only_holder(x)
        return _RESHAPE.fullmatch(self.lines.pop())[2] if is_alone else ""      # type: ignore[index]

    def write_transpose(self, op: Op) -> Form:
        (x,), permutation = op.operands, op.attrs["permutation"]
        form = self.forms[x]
        if not form.shape or permutation == tuple(range(x.type.rank)):
            return self.alias(form)
        moved = ".T" if permutation == (1, 0) else f".transpose({self.constant(permutation)})"
        return self.assign(f"{self.whole(x)}{moved}", op.result.type.shape, self.roots_of_whole(x))

    def write_slice(self, op: Op) -> Form:
        (x,) = op.operands
        form = self.forms[x]
        if not form.shape or op.result.type == x.type:
            return self.alias(form)
        diagonal = diagonal_of(op, self.makers)
        if diagonal is not None and (whole := self.before_reshape(x, form.text)):
            return self.assign(f"diagonal({whole}, *{self.constant(diagonal)})", op.result.type.shape, self.roots_of_whole(x))
        index = self.constant(strided(op.attrs["start"], op.attrs["stop"], op.attrs["step"]))
        return self.assign(f"{self.whole(x)}[{index}]", op.result.type.shape, self.roots_of_whole(x))

    def write_concatenate(self, op: Op) -> Form:
        parts = "".join(f"{self.whole(value)}, " for value in op.operands)
        return self.assign(f"concatenate(({parts}), {self.constant(op.attrs['axis'])})", op.result.type.shape, self.new_root())

    # -- ops that read or write at places

    def write_take(self, op: Op) -> Form:
        x, indices = (self.whole(value) for value in op.operands)
        return self.assign(f"take({x}, {indices}, {self.constant(op.attrs['axis'])})", op.result.type.shape, self.new_root())

    def write_take_along_axis(self, op: Op) -> Form:
        x, indices = (self.whole(value) for value in op.operands)
        return self.assign(f"take_along({x}, {indices}, {self.grid(op)})", op.result.type.shape, self.new_root())

    def grid(self, op: Op) -> str:
        """The axis, and the indices of the other dimensions."""
        axis, shape = op.attrs["axis"], op.operands[1].type.shape
        grid = np.indices(shape, sparse=True)
        return f"{self.constant(axis)}, {self.constant(grid[:axis])}, {self.constant(grid[axis + 1:])}"

    def written(self, op: Op, statement: str) -> Form:
        """The first operand after `statement` wrote into it; a copy of it unless it dies here."""
        base = op.operands[0]
        target = self.overwritten((base,), base.type) if op.operands.count(base) == 1 else None
        if target is not None:
            form = self.forms.pop(target)
        else:
            whole = base.type.shape and self.forms[base].shape == base.type.shape
            form = self.named(f"{self.forms[base].text}.copy()" if whole else self.copied(base), base.type.shape)
        self.lines.append(statement.format(form.text))
        return form

    def write_pad(self, op: Op) -> Form:
        (x,), value = op.operands, op.attrs["value"]
        start, stop, step = inside(x.type.shape, op.attrs["low"], op.attrs["interior"])
        part, index = self.firm(x), self.constant(strided(start, stop, step))
        form = self.named(self.repeated(self.constant(value), value, op.result.type), op.result.type.shape)
        self.lines.append(f"{form.text}[{index}] = {part}")
        return form

    def write_update_slice(self, op: Op) -> Form:
        start, step = op.attrs["start"], op.attrs["step"]
        _, stop, _ = inside(op.operands[1].type.shape, start, tuple(stride - 1 for stride in step))
        return self.written(op, f"{{0}}[{self.constant(strided(start, stop, step))}] = {self.firm(op.operands[1])}")

    def write_scatter_add(self, op: Op) -> Form:
        indices, updates = (self.array(value) for value in op.operands[1:])
        return self.written(op, f"add_at({{0}}, {indices}, {updates}, {self.constant(op.attrs['axis'])})")

    def write_scatter_set(self, op: Op) -> Form:
        indices, updates = (self.array(value) for value in op.operands[1:])
        return self.written(op, f"set_at({{0}}, {indices}, {updates}, {self.constant(op.attrs['axis'])})")

    def write_scatter_add_along_axis(self, op: Op) -> Form:
        indices, updates = (self.array(value) for value in op.operands[1:])
        return self.written(op, f"add_along({{0}}, {indices}, {updates}, {self.grid(op)})")

    # -- results

    def results(self) -> str:
        texts, roots = [], []
        for value in self.graph.results:
            form, type = self.forms[value], value.type
            if form.weak or not (form.shape == type.shape or form.viewed):
                made, text = True, self.array(value)
            elif form.has_all(type):
                made, text = False, self.array(value)
            else:
                made = type.nbytes <= _SMALL and not self.views
                text = self.copied(value) if made else self.view(value)
            roots.append(self.new_root() if made else self.roots_of_whole(value))
            texts.append(text)
        self.fresh = tuple(
            all(root >= 0 for root in own) and not any(own & other for j, other in enumerate(roots) if i != j)
            for i, own in enumerate(roots))
        return "".join(f"{text}, " for text in texts).rstrip() if texts else ""


class _Tested:
    """The function of a graph in which each strong product is tested by itself; made when it is first called for."""

    def __init__(self, graph: Graph, weak: frozenset[int]):
        self._graph = graph
        self._weak = weak

    @cached_property
    def _run(self) -> Callable[..., tuple[np.ndarray, ...]]:
        return _compile(self._graph, self._weak, {}).run

    def __call__(self, *arrays: Any) -> tuple[np.ndarray, ...]:
        return self._run(*arrays)


def _results_that_tell(graph: Graph) -> dict[Value, Value]:
    """For strong products a result that is not finite where they are not; empty where testing results saves nothing.

    Infinities and NaN are handed on by the operands that records count as `nonfinite`: where the results are finite, so were the
    products, which are right then.
    """
    tells = {value: value for value in graph.results if value.type.dtype.kind == "f"}
    strong = []
    for op in reversed(graph.ops):
        if op.definition.strong and op.result in tells:
            strong.append(op.result)
        if op.definition.nonfinite and op.result in tells and op.result.type.size:
            for value in op.operands[:op.definition.nonfinite]:
                if value.type.dtype.kind == "f":
                    tells.setdefault(value, tells[op.result])
    tested = {tells[value] for value in strong}
    return {value: tells[value] for value in strong} if len(tested) < len(strong) else {}
