"""Translation of a graph to one straight-line Python function over ndarrays, which eager tensors run.

A text has names only, no shapes, axes or numbers: these are bound when the function is created, so that all graphs of one structure share
one compiled text.
"""

from __future__ import annotations

import cmath
import ctypes
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import cache, cached_property, lru_cache, partial
from operator import attrgetter, itemgetter, methodcaller
from typing import Any

import numpy as np

from adjit.codegen.numpy.chunks import Group, Program, chunked, grouped, is_slow, row_function
from adjit.codegen.numpy.function_text import Binding, FunctionText
from adjit.codegen.numpy.op_functions import (
    FUNCTIONS,
    OPERATORS,
    diagonal_of,
)
from adjit.codegen.numpy.programs import program_of
from adjit.ir.dataclass import dataclass
from adjit.ir.definition import Kind
from adjit.ir.graph import Graph, Op, Value, live_ops, needed_ops, producers, walk
from adjit.ir.interpreter import evaluate
from adjit.ir.ops.control_flow import run_control_flow
from adjit.ir.ops.movement import inside, strided
from adjit.ir.ops.traits import CONTROL_FLOW, HOST_CALLS
from adjit.ir.types import Shape, TensorType, is_complex, is_half

_ONE_CALL = re.compile(r"def run\(([\w, ]*)\):\n    v0 = (\w+)\(\1\)\n    return \(v0,\)\n")
_ONE_VIEW = re.compile(r"def run\(a0\):\n    v0 = a0(?:\.(T)|\[(k\d+)\]|\.(reshape|transpose)\((k\d+)\))\n    return \(v0,\)\n")
_VIEWS = re.compile(r"def run\(a0\):\n(    v\d+ = \w+(\.T|\[k\d+\]|\.(reshape|transpose)\(k\d+\))\n)*    return \((v\d+|k\d+\(\w+\)),\)\n")
_ONE_RESULT = re.compile(r"^    return \((.*),\)$", re.MULTILINE)
_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_RESHAPE = re.compile(r"(v\d+) = (\w+)\.reshape\(k\d+\)")
_SLICE = re.compile(r"(v\d+) = (\w+)\[(k\d+)\]")
_NEW_ARRAYS = (Kind.ELEMENTWISE, Kind.EXTERNAL, Kind.SCAN)
"""Kinds of ops whose results share no memory with their operands, unless an op has its own `write_` method."""

_SMALL_BYTES = 1 << 14
"""Bytes up to which calls cost more than memory: a broadcast result is copied, which is faster than a view, and can be written to."""


_MAPPED_BYTES = 1 << 17
"""Bytes from which glibc may get each array from the system, page by page, and hand it back."""


@cache
def _keep_freed_memory() -> None:
    """Have glibc keep freed arrays of up to 32 MB for the next ones, as it does once a block of that size was freed, unless its limits were
    set. With limits from smaller arrays, a step whose arrays are freed together may hand them back and get them anew, which takes longer
    than the step."""
    if sys.platform == "linux":
        allocate = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)(("malloc", ctypes.CDLL(None)))
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(("free", ctypes.CDLL(None)))(allocate((1 << 25) - (1 << 13)))


@dataclass(frozen=True, slots=True)
class NumpyFunction:
    """A graph as a Python function.

    `run(*arrays)` returns the tuple of results, all ndarrays; `text` is its source. `fresh[i]`: result i is certainly a new array that
    shares memory with no parameter, no constant and no other result. `views[i]`: number of the one parameter whose memory result i, and no
    other result, is a part of; else None. `make_single` makes `run_single`. `calls_host`: it calls functions of the user. `bound` has the
    objects of the names in the text; `params`, of which `weak` are Python floats, and `results` are the types.
    """

    run: Callable[..., tuple[np.ndarray, ...]]
    text: str
    fresh: tuple[bool, ...]
    views: tuple[int | None, ...] = ()
    make_single: Callable[[], Callable[..., np.ndarray]] | None = None
    calls_host: bool = False
    bound: Mapping[str, Any] = field(default_factory=dict)
    params: tuple[TensorType, ...] = ()
    results: tuple[TensorType, ...] = ()
    weak: frozenset[int] = frozenset()

    @property
    def is_quick(self) -> bool:
        """True if it takes no longer for many elements than for few, or is a short program."""
        return self.is_view or (isinstance(self.run, Program) and self.run.is_short)

    @property
    def is_view(self) -> bool:
        """True if the text takes one view of the only operand after the other, and computes nothing."""
        return _VIEWS.fullmatch(self.text) is not None

    @property
    def run_single(self) -> Callable[..., np.ndarray]:
        """The function of a graph of one result, which it returns alone: NumPy's own or Python's, where the graph is one call or view."""
        return _first_of(self.run) if self.make_single is None else self.make_single()


def compile_graph(graph: Graph, weak: frozenset[int] = frozenset(), views: bool = False) -> NumpyFunction:
    """The function of a graph; loops and branches are its only region ops. The parameters `weak` (f64[]) are Python floats. With `views`,
    broadcast results are views, whatever their size.

    Results equal those of `interpret` bit for bit, except for the signs of zeros of strong products, and for the last bits of what kernels,
    large sums (`chunks`) and programs (`programs`) compute, and of sums and matrix products over broadcast or transposed values, whose
    layouts may differ. The caller silences floating-point warnings.
    """
    if any(value.type.nbytes >= _MAPPED_BYTES for value in graph.results):
        _keep_freed_memory()
    for find, kind in () if views else ((chunked, "chunks"), (program_of, "program")):
        function = find(graph)
        if function is not None:
            count = len(graph.results)
            return NumpyFunction(function, f"{kind} of {graph.name}", (True,) * count, (None,) * count, params=_types(graph.params),
                                 results=_types(graph.results), weak=weak)
    return _compile(graph, weak, _nonfinite_witnesses(graph), views)


def _compile(graph: Graph, weak: frozenset[int], witnesses: dict[Value, Value], views: bool = False) -> NumpyFunction:
    writer = _Writer(graph, weak, witnesses, views)
    text, bound = writer.write()
    run = _made(text, bound)
    calls_host = any(op.name in HOST_CALLS for op in walk(graph))
    return NumpyFunction(run, text, writer.fresh, writer.viewed, partial(_single, text, bound, run), calls_host, bound,
                         _types(graph.params), _types(graph.results), weak)


def _types(values: Sequence[Value]) -> tuple[TensorType, ...]:
    return tuple([value.type for value in values])


def _single(text: str, bound: dict[str, Any], run: Callable[..., tuple[np.ndarray, ...]]) -> Callable[..., np.ndarray]:
    """The function of a text with one result, which it returns alone: NumPy's own or Python's, where it is one call or one view."""
    call, view = _ONE_CALL.fullmatch(text), _ONE_VIEW.fullmatch(text)
    if call is not None:
        return bound[call[2]]       # type: ignore[no-any-return]
    if view is not None:
        transposed, index, method, shape = view.groups()
        return attrgetter("T") if transposed else itemgetter(bound[index]) if index else methodcaller(method, bound[shape])
    if text.count("return ") > 1:
        return _first_of(run)
    return _made(_ONE_RESULT.sub(r"    return \1", text), bound)


def _first_of(run: Callable[..., tuple[np.ndarray, ...]]) -> Callable[..., np.ndarray]:
    return lambda *arrays: run(*arrays)[0]


def _made(text: str, bound: Mapping[str, Any]) -> Callable[..., Any]:
    """The function `run` of a text. Bound names are numbered in their order, so that texts that differ in functions alone are compiled
    once: that takes a good part of the first call."""
    names: dict[str, str] = {}
    numbered = _NAME.sub(lambda found: names.setdefault(found[0], f"f{len(names)}") if found[0] in bound else found[0], text)
    return _compiled(numbered, len(names))(*[bound[name] for name in names])


@lru_cache(maxsize=4096)
def _compiled(text: str, count: int) -> Callable[..., Callable[..., Any]]:
    """A function that binds the names `f0`, ... in a text and returns its `run`. Cells are read faster than globals."""
    lines = "\n    ".join(text.splitlines())
    namespace: dict[str, Any] = {}
    names = ", ".join([f"f{number}" for number in range(count)])
    exec(compile(f"def make({names}):\n    {lines}\n    return run", "<adjit numpy>", "exec"), namespace)
    return namespace["make"]     # type: ignore[no-any-return]


class _Writer(FunctionText):
    """Writer of a graph's function, op by op. Methods `write_...` write the ops that are more than one call."""

    def __init__(self, graph: Graph, weak: frozenset[int], witnesses: dict[Value, Value], views: bool = False):
        super().__init__(graph.params, weak, FUNCTIONS)
        self.graph = graph
        self.weak = weak
        self.views = views
        self.witnesses = witnesses
        self.producers = producers(graph)
        self.signed: set[Value] = set()      # elements at indices that may be negative
        self.unchecked: dict[Value, None] = {}       # results that witness whether strong products are finite
        self.fresh: tuple[bool, ...] = ()
        self.viewed: tuple[int | None, ...] = ()

    def write(self) -> tuple[str, dict[str, Any]]:
        """The text, and the objects of its names."""
        needed = needed_ops([self.with_signed_indices(op) for op in live_ops(self.graph)], self.graph.results)
        steps = needed if self.views else grouped(self.graph, needed)
        last = _last_uses(self.graph, steps)
        for index, step in enumerate(steps):
            self.dying = [value for value in dict.fromkeys(step.operands) if last[value] == index]
            if isinstance(step, Group):
                self.write_several(self.constant(step.function), step)
            elif step.name in CONTROL_FLOW or step.name in HOST_CALLS or len(step.results) != 1:
                self.write_call(step)
                self.drop_dead([value for value in step.results if last[value] == index])
            else:
                self.bindings[step.result] = self.op(step)
            self.drop_dead(self.dying)
        while self.lines and self.lines[-1].endswith(" = None"):
            self.lines.pop()
        params = ", ".join(f"a{index}" for index in range(len(self.graph.params)))
        if self.unchecked:
            self.lines.append(f"if not is_finite({' + '.join(self.norm(value) for value in self.unchecked)}):")
            self.lines.append(f"    return {self.constant(_CheckedFunction(self.graph, self.weak))}({params})")
        results = self.results()
        body = "".join(f"    {line}\n" for line in (*self.lines, f"return ({results})"))
        return f"def run({params}):\n{body}", self.bound

    def with_signed_indices(self, op: Op) -> Op:
        """An op at indices, with indices as the user gave them: negative ones are counted from the end, and checked, when it runs."""
        if op.definition.kind is not Kind.INDEXING:
            return op
        indices, axis = op.operands[1], op.attrs["axis"]
        wrapped = self.producers.get(indices)
        if wrapped is None or wrapped.name != "select":
            return op
        is_negative, moved = (self.producers.get(value) for value in wrapped.operands[:2])
        given = wrapped.operands[2]
        if is_negative is None or is_negative.name != "less" or moved is None or moved.name != "add":
            return op
        zero, size = self.known_number(is_negative.operands[1]), self.known_number(moved.operands[1])
        if (is_negative.operands[0], moved.operands[0], zero, size) != (given, given, 0, op.operands[0].type.shape[axis]):
            return op
        self.signed.add(op.result)
        return replace(op, operands=(op.operands[0], given, *op.operands[2:]))

    def known_number(self, value: Value) -> Any:
        """The number that all elements of a value are; None if they are not known."""
        producer = self.producers.get(value)
        while producer is not None and producer.name == "broadcast":
            producer = self.producers.get(producer.operands[0])
        return producer.attrs["value"] if producer is not None and producer.name == "constant" else None

    # -- ops

    def op(self, op: Op) -> Binding:
        kernel = chunked(Graph(op.name, tuple(dict.fromkeys(op.operands)), (op,), op.results)) if is_slow(op) else None
        if kernel is not None:
            operands = ", ".join(self.array(value) for value in dict.fromkeys(op.operands))
            return self.assign(f"{self.constant(kernel)}({operands})[0]", op.result.type.shape, self.new_root())
        by_rows = row_function(op)
        if by_rows is not None and self.bindings[op.operands[0]].has_all(op.operands[0].type):
            return self.assign(f"{self.constant(by_rows)}({self.full(op.operands[0])})", op.result.type.shape, self.new_root())
        special: Callable[[Op], Binding] | None = getattr(self, f"write_{op.name}", None)
        if special is not None:
            return special(op)
        if op.definition.strong:
            return self.strong(op)
        if isinstance(op.definition.evaluate, np.ufunc):
            return self.elementwise(op, op.name, op.definition.evaluate)
        if op.definition.kind is Kind.REDUCTION:
            return self.reduction(op)
        return self.other(op)

    def other(self, op: Op) -> Binding:
        """Any other op, by its NumPy meaning."""
        if op.definition.kind in (Kind.REGION, Kind.MEMORY):
            raise ValueError(f"{op.name} cannot run in a NumPy function")
        function = self.constant(partial(op.definition.evaluate, **op.attrs) if op.attrs else op.definition.evaluate)
        expression = f"{function}({', '.join(self.array(value) for value in op.operands)})"
        roots = self.new_root()
        if (op.definition.view or op.definition.kind not in _NEW_ARRAYS) and op.operands:
            roots = self.foreign_root.union(*(self.bindings[value].roots for value in op.operands))
        return self.assign(expression, op.result.type.shape, roots)

    def write_call(self, op: Op) -> None:
        """A loop, a branch, a call of Python, or an op of several results: a function of arrays; that of a loop or branch calls the
        functions of its regions."""
        function = self.constant(run_control_flow(op, [compile_graph(region).run for region in op.regions]) if op.name in CONTROL_FLOW else
                                 partial(op.definition.evaluate, **op.attrs))
        self.write_several(function, op)

    def write_several(self, function: str, step: Op | Group) -> None:
        """A call of a function that returns a tuple of new arrays."""
        arguments = ", ".join(self.array(value) for value in step.operands)
        bindings = [Binding(self.new_name(), value.type.shape, self.new_root()) for value in step.results]
        targets = f"{''.join(f'{binding.text}, ' for binding in bindings)}= " if bindings else ""
        self.lines.append(f"{targets}{function}({arguments})")
        self.bindings.update(zip(step.results, bindings, strict=True))

    def elementwise(self, op: Op, name: str, function: Any) -> Binding:
        """An elementwise op. Broadcast operands are left to NumPy's broadcasting; if all operands are, so is the result."""
        bindings = [self.bindings[value] for value in op.operands]
        shape = np.broadcast_shapes(*(binding.shape for binding in bindings))
        texts = [self.number(binding) if shape else binding.text for binding in bindings]
        if shape != op.result.type.shape and not op.definition.same_alone:
            texts[0], shape = self.full(op.operands[0]), op.result.type.shape
        elif all(binding.weak for binding in bindings):
            texts = [self.typed(value) for value in op.operands]
        if not shape and name in OPERATORS and op.operands[0].type.dtype.kind == "f":
            return self.assign(f"{texts[0]} {OPERATORS[name]} {texts[1]}", shape, self.new_root())
        target = self.overwritten(op.operands, op.result.type) if shape == op.result.type.shape else None
        if target is None:
            return self.assign(f"{self.function(name, function)}({', '.join(texts)})", shape, self.new_root())
        binding = self.bindings.pop(target)
        out = f"out={binding.text}" if function in (np.maximum, np.minimum) else binding.text     # others take it by position 50 ns faster
        self.lines.append(f"{self.function(name, function)}({', '.join(texts)}, {out})")
        return binding

    def number(self, binding: Binding) -> str:
        """The text of a binding; that of a known number is an array without dimensions, which ufuncs take faster than NumPy's scalars."""
        return binding.text if binding.number is None else self.constant(np.asarray(self.bound[binding.text]))

    def write_select(self, op: Op) -> Binding:
        """A choice: by `if` between scalars; else written over the second operand or a copy of it, if that is an array."""
        bindings, full = [self.bindings[value] for value in op.operands], op.result.type.shape
        shape = np.broadcast_shapes(*(binding.shape for binding in bindings))
        condition, first, second = (self.number(binding) if shape and not binding.weak else self.typed(value)
                                    for binding, value in zip(bindings, op.operands, strict=True))
        if not shape:
            roots = bindings[1].roots | bindings[2].roots
            return self.assign(f"{first} if {condition} else {second}", (), roots or self.new_root())
        if bindings[0].shape == bindings[2].shape == full and bindings[1].shape in ((), full):
            return self.written(op, f"putmask({{0}}, {condition}, {first})", 2)
        return self.assign(f"where({condition}, {first}, {second})", shape, self.new_root())

    def write_relu(self, op: Op) -> Binding:
        return self.in_steps(op, ("maximum", 0))

    def write_sigmoid(self, op: Op) -> Binding:
        return self.in_steps(op, ("negative",), ("exp",), ("add", 1), ("reciprocal",))

    def in_steps(self, op: Op, *steps: tuple[Any, ...]) -> Binding:
        """An op as several ufuncs, each with its further operands, numbers: one writes over the result of the one before."""
        (x,), dtype = op.operands, op.result.type.dtype
        binding = self.bindings[x]

        def call(step: tuple[Any, ...], text: str, *out: str) -> str:
            numbers = [self.constant(np.asarray(dtype.type(number))) for number in step[1:]]
            return f"{step[0]}({', '.join((text, *numbers, *out))})"

        target = self.overwritten((x,), op.result.type)
        result = self.bindings.pop(target) if target is not None else \
            self.assign(call(steps[0], self.typed(x)), binding.shape, self.new_root())
        for step in steps[target is None:]:
            out = (f"out={result.text}" if step[0] == "maximum" else result.text,) if binding.shape else ()
            self.lines.append(f"{'' if out else f'{result.text} = '}{call(step, result.text, *out)}")
        return result

    def strong(self, op: Op) -> Binding:
        """A strong product. The plain product is right if it is finite, as its norm tells. A known number that cannot turn 0 into
        NaN needs no test."""
        function, strong = op.definition.where_finite, op.definition.strong
        assert function is not None
        candidates = op.operands if strong == 2 else op.operands[1:]
        numbers = [number for number in (self.bindings[value].number for value in candidates) if number is not None]
        finite = any(cmath.isfinite(number) and (number != 0 or (strong == 1 and function is np.multiply)) for number in numbers)
        if not finite and op.result in self.witnesses:
            self.unchecked[self.witnesses[op.result]] = None
            finite = True
        if finite:
            return self.elementwise(op, function.__name__, function)
        shape = np.broadcast_shapes(*(self.bindings[value].shape for value in op.operands))
        operands = ", ".join(self.typed(value) for value in op.operands)
        binding = self.named(f"{self.function(function.__name__, function)}({operands})", shape)
        norm = self.norm_of(binding, op.result.type)
        self.lines.append(f"if not {'is_finite_complex' if is_complex(op.result.type.dtype) else 'is_finite'}({norm}):")
        self.lines.append(f"    {binding.text} = {self.constant(op.definition.evaluate)}({operands})")
        return binding

    def norm(self, value: Value) -> str:
        return self.norm_of(self.bindings[value], value.type)

    def norm_of(self, binding: Binding, type: TensorType) -> str:
        """The text of a number that is finite only if all elements are."""
        if not binding.shape:
            return binding.text
        return f"vdot({binding.text}, {binding.text})" if type.nbytes <= _SMALL_BYTES else f"norm({binding.text})"

    def reduction(self, op: Op) -> Binding:
        (x,) = op.operands
        function, axes, dtype = op.definition.combine, op.attrs["axes"], x.type.dtype
        assert function is not None
        text, name = self.full(x), self.function(op.name, function.reduce)
        needed = f", {self.constant(dtype)}" if dtype.kind in "iu" and function in (np.add, np.multiply) else ""
        return self.assign(f"{name}({text}, {self.constant(axes)}{needed})", op.result.type.shape, self.new_root())

    def write_matmul(self, op: Op) -> Binding:
        texts = [self.full(value) for value in op.operands]
        plain = op.result.type.rank == 2
        for index, key in enumerate(("transpose_a", "transpose_b")):
            if op.attrs[key]:
                texts[index] += ".T" if plain else ".swapaxes(-1, -2)"
        return self.assign(f"{'dot' if plain else 'matmul'}({', '.join(texts)})", op.result.type.shape, self.new_root())

    def write_constant(self, op: Op) -> Binding:
        value = op.attrs["value"]
        return Binding(self.constant(op.attrs["dtype"].type(value)), (), number=value)

    def write_iota(self, op: Op) -> Binding:
        """The numbers along the axis, computed once and broadcast along the other axes."""
        shape, axis = op.attrs["shape"], op.attrs["axis"]
        along = np.arange(shape[axis], dtype=op.attrs["dtype"]).reshape([shape[axis]] + [1] * (len(shape) - axis - 1))
        along.flags.writeable = False
        return Binding(self.constant(along), along.shape, self.foreign_root, viewed=True)

    def write_convert(self, op: Op) -> Binding:
        (x,), dtype = op.operands, op.attrs["dtype"]
        binding = self.bindings[x]
        if x.type.dtype == dtype or (binding.weak and x.type.dtype == np.float64 and dtype.kind == "f" and not is_half(dtype)):
            return self.alias(binding)
        if binding.number is not None:
            (array,) = evaluate(op.definition, [np.asarray(self.bound[binding.text])], op.attrs)
            return Binding(self.constant(array[()]), (), number=array.item())
        if x.type.dtype.kind == "f" and dtype.kind in "iu":
            return self.assign(f"convert({self.typed(x)}, dtype={self.constant(dtype)})", binding.shape, self.new_root())
        return self.assign(f"{self.typed(x)}.astype({self.constant(dtype)})", binding.shape, self.new_root())

    def write_stop_gradient(self, op: Op) -> Binding:
        return self.alias(self.bindings[op.operands[0]])

    def write_broadcast(self, op: Op) -> Binding:
        (x,), shape, axes = op.operands, op.attrs["shape"], op.attrs["axes"]
        binding = self.bindings[x]
        sizes = (1,) * (x.type.rank - len(binding.shape)) + binding.shape
        aligned = [1] * len(shape)
        for axis, size in zip(axes, sizes, strict=True):
            aligned[axis] = size
        first = next((axis for axis, size in enumerate(aligned) if size != 1 or axis in axes), len(shape))
        target = tuple(aligned[first:])
        viewed = binding.viewed or (binding.shape == x.type.shape and binding.number is None)
        if not binding.shape or target == binding.shape:
            return self.alias(replace(binding, viewed=viewed and not binding.weak))
        if len(shape) == len(target) or tuple(aligned) == shape:
            target = tuple(aligned)
        return self.reshaped(x, binding.text, target, binding.roots, viewed)

    def write_reshape(self, op: Op) -> Binding:
        (x,), shape = op.operands, op.attrs["shape"]
        binding = self.bindings[x]
        if binding.number is not None or binding.weak or x.type.shape == shape or (not binding.shape and x.type.shape):
            return self.alias(binding)
        if binding.shape != x.type.shape and not (self.views or binding.has_all(x.type)):     # NumPy would copy it, and roots not show that
            return self.reshaped(x, self.copied(x), shape, self.new_root())
        index = self.index_before(x, shape)
        return self.reshaped(x, self.full(x), shape, self.roots_of_full(x)) if index is None else self.assign(index, shape, binding.roots)

    def index_before(self, x: Value, shape: Shape) -> str | None:
        """A slice and the axes of one element that it drops, in one index, in place of the slice that made `x` in the last line, which is
        removed. None if another op made it, or something else needs it."""
        slice, line = self.producers.get(x), _SLICE.fullmatch(self.lines[-1]) if self.lines else None
        if slice is None or slice.name != "slice" or line is None or line[1] != self.bindings[x].text:
            return None
        dropped = [size == 1 != full for size, full in zip(x.type.shape, slice.operands[0].type.shape, strict=True)]
        kept = tuple(size for size, drop in zip(x.type.shape, dropped, strict=True) if not drop)
        if kept != shape or x not in self.dying or not self.only_holder(x):
            return None
        self.lines.pop()
        parts = zip(dropped, slice.attrs["start"], self.bound[line[3]], strict=True)
        return f"{line[2]}[{self.constant((*[start if drop else part for drop, start, part in parts], ...))}]"

    def reshaped(self, x: Value, text: str, shape: Shape, roots: frozenset[int], viewed: bool = False) -> Binding:
        """A reshape. If its operand is a reshape that nothing else needs, one reshape replaces both."""
        return self.assign(f"{self.before_reshape(x, text) or text}.reshape({self.constant(shape)})", shape, roots, viewed)

    def before_reshape(self, x: Value, text: str) -> str:
        """The operand of the reshape that made `x` in the last line, if nothing else needs `x`; that line is removed."""
        before = _RESHAPE.fullmatch(self.lines[-1]) if self.lines else None
        is_alone = before is not None and before[1] == text and x in self.dying and self.only_holder(x)
        return _RESHAPE.fullmatch(self.lines.pop())[2] if is_alone else ""      # type: ignore[index]

    def write_transpose(self, op: Op) -> Binding:
        (x,), permutation = op.operands, op.attrs["permutation"]
        binding = self.bindings[x]
        if not binding.shape or permutation == tuple(range(x.type.rank)):
            return self.alias(binding)
        moved = ".T" if permutation == (1, 0) else f".transpose({self.constant(permutation)})"
        return self.assign(f"{self.full(x)}{moved}", op.result.type.shape, self.roots_of_full(x))

    def write_flip(self, op: Op) -> Binding:
        (x,), axes = op.operands, op.attrs["axes"]
        if not self.bindings[x].shape:
            return self.alias(self.bindings[x])
        index = self.constant(tuple(slice(None, None, -1 if axis in axes else None) for axis in range(x.type.rank)))
        return self.assign(f"{self.full(x)}[{index}]", op.result.type.shape, self.roots_of_full(x))

    def write_cumsum(self, op: Op) -> Binding:
        (x,) = op.operands
        if op.attrs["reverse"]:
            return self.other(op)
        text = f"{self.full(x)}.{op.name}({self.constant(op.attrs['axis'])}, {self.constant(x.type.dtype)})"
        return self.assign(text, op.result.type.shape, self.new_root())

    write_cumprod = write_cumsum

    def write_argmax(self, op: Op) -> Binding:
        text = f"{self.full(op.operands[0])}.{op.name}({self.constant(op.attrs['axis'])})"
        return self.assign(text, op.result.type.shape, self.new_root())

    write_argmin = write_argmax

    def write_slice(self, op: Op) -> Binding:
        (x,) = op.operands
        binding = self.bindings[x]
        if not binding.shape or op.result.type == x.type:
            return self.alias(binding)
        diagonal = diagonal_of(op, self.producers)
        if diagonal is not None and (full := self.before_reshape(x, binding.text)):
            return self.assign(f"diagonal({full}, *{self.constant(diagonal)})", op.result.type.shape, self.roots_of_full(x))
        index = self.constant(strided(op.attrs["start"], op.attrs["stop"], op.attrs["step"]))
        return self.assign(f"{self.full(x)}[{index}]", op.result.type.shape, self.roots_of_full(x))

    def write_concatenate(self, op: Op) -> Binding:
        shape, parts = op.result.type.shape, "".join(f"{self.full(value)}, " for value in op.operands)
        joined = f"concatenate(({parts}), {self.constant(op.attrs['axis'])})"       # of transposed arrays NumPy makes a transposed one
        return self.assign(joined if len(shape) == 1 else f"in_rows({joined})", shape, self.new_root())

    # -- ops that read or write at indices

    def write_take(self, op: Op) -> Binding:
        x, indices = (self.full(value) for value in op.operands)
        axis = self.constant(op.attrs["axis"])
        name = "take_signed" if op.result in self.signed else "take"
        text = f"{x}.take({indices}, {axis})" if "in_range" in op.attrs else f"{name}({x}, {indices}, {axis})"
        return self.assign(text, op.result.type.shape, self.new_root())

    def write_take_along_axis(self, op: Op) -> Binding:
        x, indices = (self.full(value) for value in op.operands)
        name = "taken_along" if "in_range" in op.attrs else "take_along_signed" if op.result in self.signed else "take_along"
        return self.assign(f"{name}({x}, {indices}, {self.grid(op)})", op.result.type.shape, self.new_root())

    def grid(self, op: Op) -> str:
        """The axis, and index grids of the other dimensions."""
        axis, shape = op.attrs["axis"], op.operands[1].type.shape
        grid = np.indices(shape, sparse=True)
        return f"{self.constant(axis)}, {self.constant(grid[:axis])}, {self.constant(grid[axis + 1:])}"

    def written(self, op: Op, statement: str, number: int = 0) -> Binding:
        """An operand, the first one or another, after `statement` has written into it; into a copy, unless the operand dies here."""
        base = op.operands[number]
        target = self.overwritten((base,), base.type) if op.operands.count(base) == 1 else None
        if target is not None:
            binding = self.bindings.pop(target)
        else:
            full = base.type.shape and self.bindings[base].shape == base.type.shape
            binding = self.named(f"{self.bindings[base].text}.copy()" if full else self.copied(base), base.type.shape)
        self.lines.append(statement.format(binding.text))
        return binding

    def write_pad(self, op: Op) -> Binding:
        (x,), value = op.operands, op.attrs["value"]
        start, stop, step = inside(x.type.shape, op.attrs["low"], op.attrs["interior"])
        part, index = self.typed(x), self.constant(strided(start, stop, step))
        binding = self.named(self.broadcast_copy(self.constant(value), value, op.result.type), op.result.type.shape)
        self.lines.append(f"{binding.text}[{index}] = {part}")
        return binding

    def write_update_slice(self, op: Op, operator: str = "=") -> Binding:
        start, step = op.attrs["start"], op.attrs["step"]
        _, stop, _ = inside(op.operands[1].type.shape, start, tuple(stride - 1 for stride in step))
        return self.written(op, f"{{0}}[{self.constant(strided(start, stop, step))}] {operator} {self.typed(op.operands[1])}")

    def write_add_slice(self, op: Op) -> Binding:
        return self.write_update_slice(op, "+=")

    def write_scatter_add(self, op: Op) -> Binding:
        return self.written(op, f"add_at({{0}}, {self.at_indices(op)}, {self.constant(op.attrs['axis'])})")

    def write_scatter_set(self, op: Op) -> Binding:
        return self.written(op, f"set_at({{0}}, {self.at_indices(op)}, {self.constant(op.attrs['axis'])})")

    def write_scatter_add_along_axis(self, op: Op) -> Binding:
        return self.written(op, f"add_along({{0}}, {self.at_indices(op)}, {self.grid(op)})")

    def at_indices(self, op: Op) -> str:
        """The texts of indices, counted from the start, and of updates."""
        indices, updates = (self.array(value) for value in op.operands[1:])
        if op.result in self.signed:
            indices = f"from_start({indices}, {self.constant(op.operands[0].type.shape[op.attrs['axis']])})"
        return f"{indices}, {updates}"

    # -- results

    def results(self) -> str:
        texts, roots = [], []
        for value in self.graph.results:
            binding, type = self.bindings[value], value.type
            if binding.weak or not (binding.shape == type.shape or binding.viewed):
                made, text = True, self.array(value)
            elif binding.has_all(type):
                made, text = False, self.array(value)
            else:
                made = type.nbytes <= _SMALL_BYTES and not self.views
                text = self.copied(value) if made else self.view(value)
            roots.append(self.new_root() if made else self.roots_of_full(value))
            texts.append(text)
        alone = [not any(own & other for j, other in enumerate(roots) if i != j) for i, own in enumerate(roots)]
        self.fresh = tuple([each and all(root >= 0 for root in own) for own, each in zip(roots, alone, strict=True)])
        params = {frozenset({-1 - index}): index for index in range(len(self.graph.params))}
        self.viewed = tuple([params.get(own) if each else None for own, each in zip(roots, alone, strict=True)])
        return "".join(f"{text}, " for text in texts).rstrip() if texts else ""


def _last_uses(graph: Graph, steps: Sequence[Op | Group]) -> dict[Value, int]:
    """Index of the last step that uses each value; that of the step which makes it if none does, and of the end for results."""
    last: dict[Value, int] = dict.fromkeys(graph.params, -1)
    for index, step in enumerate(steps):
        last.update(dict.fromkeys((*step.results, *step.operands), index))
    last.update(dict.fromkeys(graph.results, len(steps)))
    return last


class _CheckedFunction:
    """The function of a graph with a test for each strong product, created at its first call."""

    def __init__(self, graph: Graph, weak: frozenset[int]):
        self._graph = graph
        self._weak = weak

    @cached_property
    def _run(self) -> Callable[..., tuple[np.ndarray, ...]]:
        return _compile(self._graph, self._weak, {}).run

    def __call__(self, *arrays: Any) -> tuple[np.ndarray, ...]:
        return self._run(*arrays)


def _nonfinite_witnesses(graph: Graph) -> dict[Value, Value]:
    """For each strong product, a result that is not finite if the product is not; empty if such tests save nothing.

    Ops propagate infinities and NaN from the operands that their records list as `nonfinite`. So if the results are finite, the plain
    products were finite, and right.
    """
    witness = {value: value for value in graph.results if value.type.dtype.kind == "f" and not value.type.is_half}
    strong = []
    for op in reversed(graph.ops):
        if op.definition.strong and op.result in witness:
            strong.append(op.result)
        if op.definition.nonfinite and op.result in witness and op.result.type.size:
            for value in op.operands[:op.definition.nonfinite]:
                if value.type.dtype.kind == "f":
                    witness.setdefault(value, witness[op.result])
    tested = {witness[value] for value in strong}
    return {value: witness[value] for value in strong} if len(tested) < len(strong) else {}
