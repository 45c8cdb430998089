"""Elementwise operations on large arrays, one chunk after another, by a compiled kernel: NumPy has no function for some ops (`erf`, random
numbers), and makes an array of the whole size for each of the others.

One kernel serves all shapes, as chunks have one of a few sizes; so it is compiled once a function and dtype, and then comes from the disk
cache. Chunks lie in rows, where an operand has one number for each row, or is a row that all others repeat. The shape alone decides whether
an operation is chunked, so that the same operands give the same bits.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.builder import GraphBuilder
from adjit.ir.dataclass import dataclass
from adjit.ir.definition import Kind, OpCost
from adjit.ir.emitter import emitting
from adjit.ir.graph import Graph, Op, Value, live_ops
from adjit.ir.types import F32, F64, U64, Shape, TensorType

CHUNK, MIDDLE_CHUNK, SMALL_CHUNK = 1 << 12, 1 << 9, 1 << 6
"""Elements of a chunk: those of a few arrays fit the L1 cache. Arrays of fewer elements are cut into small chunks, or filled up to one."""

STEP_BYTES = 1 << 15
"""Bytes of an array up to which a function may be a table of steps (`steps`). NumPy lets other threads run during calls for more."""

_CALL_ELEMENTS = 40
"""Elements that take as long as the call of a kernel for one chunk."""

MIN_ELEMENTS = 1 << 15
"""Elements with which two ops are worth a kernel though NumPy has a function for each."""

MANY_ELEMENTS = 1 << 16
"""Elements with which one op is, of `_SEVERAL_PASSES` or with an operand that rows repeat."""

_FEW_ARRAYS = 4
"""Arrays that are kept at once, so that one kernel makes them, though op by op there would be fewer."""

_SEVERAL_PASSES = frozenset(("select", "relu", "sigmoid", "power"))
"""Ops that take NumPy several times as long as a kernel."""

_REPEATING = frozenset(("broadcast", "constant", "iota"))
"""Ops whose results take no memory of their size."""

_NO_UFUNC = frozenset(("philox",))
Run = Callable[[Sequence[np.ndarray], Sequence[np.ndarray]], None]
"""Writes the results for operands; all large ones are contiguous."""


class Program(ABC):
    """A native program."""

    @abstractmethod
    def __call__(self, *arrays: Any) -> tuple[np.ndarray, ...]:
        """The results, new arrays, for the arrays of a graph's parameters."""

    @property
    @abstractmethod
    def is_short(self) -> bool:
        """True if it runs on one thread, for so short a time that other threads may wait."""

    @abstractmethod
    def entry(self) -> tuple[int, int, Any]:
        """Addresses of its code and of working memory, and what keeps both."""


class KernelCompiler:
    """What compiles a graph of chunks, and a whole graph, and functions of the rows of matrices, set by the package that has the backends;
    None where there is no machine code."""

    compile: Callable[[ChunkGraph], Run] | None = None
    compile_program: Callable[[Graph], Program] | None = None
    sum_rows: Callable[[np.ndarray, np.ndarray, int, int], None] | None = None
    sum_slices: Callable[[np.ndarray, np.ndarray, int], None] | None = None
    fill: Callable[[np.ndarray, np.ndarray], bool] | None = None
    extrema_rows: Callable[[str, np.ndarray, np.ndarray], bool] | None = None
    scan_rows: Callable[[str, np.ndarray, np.ndarray, int, bool], bool] | None = None
    at_indices: Callable[[np.ndarray, np.ndarray, np.ndarray, bool], bool] | None = None
    add_rows: Callable[[np.ndarray, np.ndarray, np.ndarray, int], bool] | None = None
    entry: Callable[[ChunkGraph], tuple[int, int, Any]] | None = None
    """Addresses of a compiled graph and of working memory, and what keeps both."""
    step_function: Callable[[Any, bool], Callable[..., Any] | None] | None = None
    """What computes the same as a small `NumpyFunction`, returning one result alone or a tuple; None while there is no code for it yet."""


@dataclass(frozen=True, slots=True, eq=False)
class ChunkGraph:
    """A graph for `chunk` elements of operands and results of `size` elements, in rows of `length`. `changes` tells of each operand whether
    it has an element for each one of a row, and whether rows differ. The last ones are `numbers`, or one that counts elements, from 0, if
    `counts`."""

    graph: Graph
    changes: tuple[tuple[bool, bool], ...]
    numbers: tuple[np.ndarray, ...]
    counts: bool
    size: int
    length: int
    chunk: int


class ChunkedFunction:
    """An elementwise graph as a function of ndarrays whose results are new arrays. Compiled at the first call."""

    def __init__(self, graph: Graph, chunks: ChunkGraph):
        self._given = [(np.ascontiguousarray if value.type.rank else np.asarray, value.type.dtype) for value in graph.params]
        self._results = [(value.type.shape, value.type.dtype) for value in graph.results]
        self.chunks = chunks
        self._run: Run | None = None
        values = [value for value in (*graph.params, *(op.result for op in graph.ops)) if value.type.size == chunks.size]
        are_alike = len({value.type.shape for value in values}) == 1
        self._turns = chunks.length == chunks.size >= chunks.chunk and not chunks.counts and are_alike

    @property
    def shapes(self) -> list[Shape]:
        """Shapes of the results."""
        return [shape for shape, _ in self._results]

    def __call__(self, *operands: Any) -> tuple[np.ndarray, ...]:
        run = self._run
        if run is None:
            assert KernelCompiler.compile is not None
            run = self._run = KernelCompiler.compile(self.chunks)
        if self._turns and (order := self._order(operands)) is not None:
            turned = [operand.transpose(order) if operand.size > 1 else operand for operand in operands]
            back = np.argsort(order)
            return tuple([result.transpose(back) for result in self._computed(run, turned, order)])
        given = [convert(operand, dtype) for operand, (convert, dtype) in zip(operands, self._given, strict=True)]
        return self._filled_up(run, given) if self.chunks.size < self.chunks.chunk else self._computed(run, given)

    def _computed(self, run: Run, given: Sequence[np.ndarray], order: Sequence[int] | None = None) -> tuple[np.ndarray, ...]:
        results = tuple([np.empty(shape if order is None else [shape[axis] for axis in order], dtype) for shape, dtype in self._results])
        run((*given, *self.chunks.numbers), results)
        return results

    def _order(self, operands: Sequence[Any]) -> list[int] | None:
        """An order of dimensions in which all large operands are contiguous: they are not copied then, and results are laid out as they
        are. None if they are contiguous as they are, or there is none."""
        order: list[int] | None = None
        for operand, (is_large, _), (_, dtype) in zip(operands, self.chunks.changes, self._given, strict=False):
            if type(operand) is not np.ndarray or operand.dtype != dtype or not operand.flags.aligned:
                return None
            if is_large:
                order = memory_order(operand) if order is None else order
                if operand.flags.c_contiguous or not operand.transpose(order).flags.c_contiguous:
                    return None
        return order

    def _filled_up(self, run: Run, given: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        """Results for fewer elements than a chunk has: the others are zeros."""
        size, chunk = self.chunks.size, self.chunks.chunk
        operands = []
        for array, (is_large, _) in zip(given, self.chunks.changes, strict=False):
            if is_large:
                array, elements = np.zeros(chunk, array.dtype), array.reshape(-1)
                array[:size] = elements
            operands.append(array)
        results = tuple([np.empty(chunk, dtype) for _, dtype in self._results])
        run((*operands, *self.chunks.numbers), results)
        return tuple([result[:size].reshape(shape) for result, (shape, _) in zip(results, self._results, strict=True)])


class Sums:
    """Sum of a float32 array over some axes, as a new array: by machine code over rows or slices, in the order in which they lie in
    memory."""

    def __init__(self, axes: tuple[int, ...]):
        self._axes = axes

    def __call__(self, x: np.ndarray) -> Any:
        order = [*range(x.ndim)] if x.flags.c_contiguous else memory_order(x)
        sums = self._summed(x, order)
        if sums is None:
            return np.add.reduce(x, self._axes)
        kept = [axis for axis in order if axis not in self._axes]
        sums = sums.reshape([x.shape[axis] for axis in kept])
        return sums.transpose(np.argsort(kept)) if kept else sums[()]

    def _summed(self, x: np.ndarray, order: Sequence[int]) -> np.ndarray | None:
        """The sums in the order of memory; None if it has other parts than machine code knows."""
        runs: list[tuple[bool, int, int]] = []      # is it summed, size and stride of dimensions that lie as one
        for axis in order:
            size, stride, summed = x.shape[axis], x.strides[axis], axis in self._axes
            if size == 1:
                continue
            if runs and runs[-1][0] == summed and runs[-1][2] == size * stride:
                runs[-1] = summed, runs[-1][1] * size, stride
            else:
                runs.append((summed, size, stride))
        if KernelCompiler.sum_rows is None or not runs or runs[-1][2] != 4 or not x.flags.aligned:
            return None
        *outer, (in_rows, length, _) = runs
        are_one = all(before[2] == after[1] * after[2] for before, after in pairwise(outer))
        if in_rows and are_one:
            sizes = [size for _, size, _ in outer]
            sums = np.empty(sizes, np.float32)
            KernelCompiler.sum_rows(x, sums, length, outer[-1][2] // 4 if outer else length)
            left = tuple(place for place, (summed, _, _) in enumerate(outer) if summed)
            return np.add.reduce(sums, left) if left else sums
        if not in_rows and are_one and [summed for summed, _, _ in outer] in ([True], [False, True]) and outer[-1][2] == 4 * length:
            slices = [size for _, size, _ in outer]
            sums = np.empty((math.prod(slices[:-1]), length), np.float32)
            KernelCompiler.sum_slices(x, sums, slices[-1])      # type: ignore[misc]
            return sums
        return None


def memory_order(x: np.ndarray) -> list[int]:
    """Dimensions in the order of their strides, the largest first: in that order a transposed array is contiguous."""
    return sorted(range(x.ndim), key=x.strides.__getitem__, reverse=True)


class RowExtrema:
    """Largest or smallest elements of a float32 array over its last axes, as a new array: by machine code where the array is contiguous and
    has no NaN."""

    def __init__(self, shape: Shape, axes: tuple[int, ...], function: np.ufunc):
        self._shape, self._axes, self._function, self._better = shape, axes, function, "ogt" if function is np.maximum else "olt"

    def __call__(self, x: np.ndarray) -> Any:
        x = x if self._shape or x.flags.c_contiguous else x.transpose(memory_order(x))
        if KernelCompiler.extrema_rows is not None and x.flags.c_contiguous:
            results = np.empty(self._shape, np.float32)
            if KernelCompiler.extrema_rows(self._better, x, results):
                return results[()]
        return self._function.reduce(x, self._axes)


class RowScan:
    """Products of a float array over its last axes, or running sums or products over the last one, with NumPy's bits: by machine code where
    the array is contiguous."""

    def __init__(self, op: Op):
        type = op.operands[0].type
        self._combine = "fadd" if op.name == "cumsum" else "fmul"
        self._shape = op.result.type.shape
        self._length = math.prod(type.shape[axis] for axis in op.attrs.get("axes", (type.rank - 1,)))
        self._reverse: bool = op.attrs.get("reverse", False)
        self._otherwise = partial(op.definition.evaluate, **op.attrs)

    def __call__(self, x: np.ndarray) -> Any:
        if KernelCompiler.scan_rows is not None and x.flags.c_contiguous:
            results = np.empty(self._shape, x.dtype)
            if KernelCompiler.scan_rows(self._combine, x, results, self._length, self._reverse):
                return results
        return self._otherwise(x)


def row_function(op: Op) -> Sums | RowExtrema | RowScan | None:
    """The function of an op, of most over the last axes, that machine code computes faster than NumPy; None for other ops."""
    if op.name not in ("reduce_sum", *_EXTREMA, "reduce_prod", "cumsum", "cumprod") or KernelCompiler.sum_rows is None:
        return None
    type, axes = op.operands[0].type, op.attrs.get("axes") or (op.attrs.get("axis", -1),)
    if type.size < MIN_ELEMENTS:
        return None
    if op.name == "reduce_sum":
        return Sums(axes) if type.dtype == F32 else None
    if sorted(axes) != list(range(type.rank - len(axes), type.rank)):
        return None
    if op.name in _EXTREMA:
        return RowExtrema(op.result.type.shape, axes, _EXTREMA[op.name]) if type.dtype == F32 else None
    return RowScan(op) if type.dtype in (F32, F64) else None


_EXTREMA = {"reduce_max": np.maximum, "reduce_min": np.minimum}


def chunked(graph: Graph) -> ChunkedFunction | None:
    """The function of a graph of elementwise ops on arrays of one size; None if it is another graph, or NumPy is as good."""
    size = max((value.type.size for value in graph.results), default=0)
    if size <= 1 or KernelCompiler.compile is None:
        return None
    ops_needed = live_ops(graph)
    computing = [op for op in ops_needed if op.definition.kind is Kind.ELEMENTWISE and op.result.type.size == size]
    if not _is_worth_a_kernel(computing, size, any(map(_rows, ops_needed))):
        return None
    chunks = _chunk_graph(graph, ops_needed, size)
    return None if chunks is None else ChunkedFunction(graph, chunks)


def _is_worth_a_kernel(computing: Sequence[Op], size: int, repeats: bool) -> bool:
    if any(is_slow(op) and (size >= CHUNK or op.name not in _SEVERAL_PASSES) for op in computing):
        return True
    return (size >= MIN_ELEMENTS and len(computing) > 1) or (
        size >= MANY_ELEMENTS and any(repeats or op.name in _SEVERAL_PASSES or _changes_kind(op) for op in computing)) or (
        size >= CHUNK and any(op.name == "convert" and (op.operands[0].type.is_half or op.result.type.is_half) for op in computing))


def _changes_kind(op: Op) -> bool:
    """True for a conversion of floats to integers, which NumPy does not define for all."""
    return op.name == "convert" and op.operands[0].type.dtype.kind == "f" and op.result.type.dtype.kind in "iu"


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Elementwise ops that one kernel computes, as one step: `function(*operands)` returns the `results`."""

    function: ChunkedFunction
    operands: tuple[Value, ...]
    results: tuple[Value, ...]


def grouped(graph: Graph, ops_needed: Sequence[Op]) -> list[Op | Group]:
    """The ops of a graph in an order in which those that one kernel can compute are one step; as they are if nothing is worth a kernel.

    Ops join a group that have the same `level`: that of an op is the number of other ops, one after another, that it depends on. That order
    is taken where it keeps few more elements at once than the graph's.
    """
    size = max((op.result.type.size for op in ops_needed if len(op.results) == 1 and op.definition.kind is Kind.ELEMENTWISE), default=0)
    if size < MIN_ELEMENTS or KernelCompiler.compile is None:
        return list(ops_needed)
    made_by = {value: op for op in ops_needed for value in op.results}
    lengths = [length for op in ops_needed if (length := _length(op)) >= SMALL_CHUNK and op.result.type.size == size]
    length = max(lengths, key=lengths.count, default=size)
    users: dict[Value, list[Op | None]] = {value: [None] for value in graph.results}
    for op in ops_needed:
        for value in op.operands:
            users.setdefault(value, []).append(op)
    level = _levels(ops_needed, size, length, made_by, users)
    joined: dict[int, list[Op]] = {}
    others: dict[int, list[Op]] = {}
    for op in ops_needed:
        height, joins = level[op]
        (joined if joins else others).setdefault(height, []).append(op)
    steps: list[Op | Group] = []
    for height in range(max((*joined, *others), default=0) + 1):
        steps += others.get(height, ())
        members = joined.get(height, [])
        results = tuple(op.result for op in members if {level.get(user) for user in users[op.result]} != {(height, True)})
        repeats = any(value in made_by and _rows(made_by[value]) for op in members for value in op.operands)
        group = _group(graph.name, members, results, size, length, made_by) if _is_worth_a_kernel(members, size, repeats) else None
        steps += members if group is None else [group]
    needed, kept = set(graph.results), []
    for step in reversed(steps):
        if isinstance(step, Group) or not _is_view(step, length) or not needed.isdisjoint(step.results):
            needed.update(step.operands)
            kept.append(step)
    kept.reverse()
    return kept if _peak(graph, kept) <= max(_peak(graph, ops_needed), _FEW_ARRAYS * size) else list(ops_needed)


def _levels(ops_needed: Sequence[Op], size: int, length: int, made_by: dict[Value, Op], users: dict[Value, list[Op | None]]
            ) -> dict[Op | None, tuple[int, bool]]:
    """Level of each op, and whether it can be in a group. An op of one array or none is at the level of the group that needs its result."""
    level: dict[Op | None, tuple[int, bool]] = {}
    for op in ops_needed:
        height = max((level[made_by[value]][0] for value in op.operands if value in made_by), default=0)
        joins = _joins(op, size, length, made_by)
        level[op] = height + (not joins and not _is_view(op, length)), joins
    for op in reversed(ops_needed):
        arrays = {value for value in op.operands if value not in made_by or not _is_view(made_by[value], length)}
        if level[op][1] and len(arrays) < 2 and not any(value in made_by and level[made_by[value]][1] for value in arrays):
            needed_at = {level.get(user, (0, False)) for user in users[op.result]}
            height, joins = max(needed_at)
            level[op] = (height, True) if joins and len(needed_at) == 1 else level[op]
    return level


def _peak(graph: Graph, steps: Sequence[Op | Group]) -> int:
    """Most elements that steps have made and still need, or give, at one time."""
    last = {value: index for index, step in enumerate(steps) for value in step.operands} | dict.fromkeys(graph.results, len(steps))
    made, changes = set(graph.params), [0] * (len(steps) + 1)
    for index, step in enumerate(steps):
        fresh = [value for value in step.results if value not in made and not (isinstance(step, Op) and step.name in _REPEATING)]
        made.update(fresh)
        for value in fresh:
            changes[index] += value.type.size
            end = last.get(value, index) + 1
            if end <= len(steps):
                changes[end] -= value.type.size
    return max(accumulate(changes))


def _is_spread(op: Op) -> bool:
    """True if all elements of the result are one number."""
    return op.name == "constant" or (op.name == "broadcast" and op.operands[0].type.size == 1)


def _rows(op: Op) -> tuple[bool, int] | None:
    """Whether the elements of a broadcast operand fill a row each, or are a row together; and the elements of a row. None for other ops."""
    if op.name != "broadcast" or op.operands[0].type.size in (1, op.result.type.size):
        return None
    shape = op.result.type.shape
    long = [axis for axis, size in enumerate(shape) if size != 1]
    kept = [axis for axis in op.attrs["axes"] if shape[axis] != 1]
    if kept == long[:len(kept)]:
        return True, math.prod(shape[axis] for axis in long[len(kept):])
    return (False, math.prod(shape[axis] for axis in kept)) if kept == long[-len(kept):] else None


def _length(op: Op) -> int:
    """Elements of the rows that an op repeats or counts; 0 for others."""
    if op.name == "iota":
        return op.attrs["shape"][-1]        # type: ignore[no-any-return]
    rows = _rows(op)
    return 0 if rows is None else rows[1]


def _is_view(op: Op, length: int) -> bool:
    """True if a kernel does not need the result, which repeats numbers or rows of `length`, or counts."""
    return _is_spread(op) or _length(op) == length


def _joins(op: Op, size: int, length: int, made_by: dict[Value, Op]) -> bool:
    if op.definition.kind is not Kind.ELEMENTWISE or len(op.results) != 1 or op.result.type.size != size:
        return False
    for value in (*op.operands, op.result):
        producer = made_by.get(value)
        is_other = producer is not None and producer.name == "broadcast" and not _is_view(producer, length)
        if value.type.dtype.kind == "c" or value.type.size != size or is_other:
            return False
    return True


def _group(name: str, members: Sequence[Op], results: tuple[Value, ...], size: int, length: int, made_by: dict[Value, Op]
           ) -> Group | None:
    operands: dict[Value, None] = {}
    inside: dict[Op, None] = {}
    own = {op.result for op in members}
    for op in members:
        for value in op.operands:
            producer = made_by.get(value)
            if producer is not None and _is_view(producer, length):
                inside[producer] = None
                operands.update(dict.fromkeys(producer.operands))
            elif value not in own:
                operands[value] = None
        inside[op] = None
    graph = Graph(name, tuple(operands), tuple(inside), results)
    chunks = _chunk_graph(graph, graph.ops, size)
    return None if chunks is None else Group(ChunkedFunction(graph, chunks), tuple(operands), results)


def is_slow(op: Op) -> bool:
    """True if NumPy has no function for the op, and it takes long."""
    return op.name in _NO_UFUNC or (op.definition.cost is OpCost.TRANSCENDENTAL and not isinstance(op.definition.evaluate, np.ufunc))


def _chunk_graph(graph: Graph, ops_needed: Sequence[Op], size: int) -> ChunkGraph | None:
    made: set[Value] = set()        # new arrays
    for op in ops_needed:
        made.update(op.results if op.definition.kind is Kind.ELEMENTWISE or (op.name == "reshape" and op.operands[0] in made) else ())
    if len(set(graph.results)) < len(graph.results) or not all(value in made and value.type.size == size for value in graph.results):
        return None
    repeated = {op.operands[0]: _rows(op) for op in ops_needed if op.operands and op.operands[0].type.size not in (1, size)}
    lengths = {found for op in ops_needed if (found := _length(op))} or {size}
    length = lengths.pop()
    if lengths or None in repeated.values() or any(repeated.get(op.operands[0], ours) != ours for op in ops_needed if (ours := _rows(op))):
        return None
    if length == size:
        chunk = CHUNK if size >= CHUNK else SMALL_CHUNK
    else:
        sizes = [chunk for chunk in (CHUNK, MIDDLE_CHUNK, SMALL_CHUNK) if chunk <= length]
        if not sizes:
            return None
        chunk = min(sizes, key=lambda chunk: -(-length // chunk) * (chunk + _CALL_ELEMENTS))
    builder = GraphBuilder(graph.name)
    known: dict[Value, Value] = {}
    changes: list[tuple[bool, bool]] = []
    for param in graph.params:
        fills, _ = repeated.get(param) or (False, 0)
        if param.type.dtype.kind == "c" or not (param in repeated or param.type.size in (1, size)):
            return None
        changes.append((param.type.size != 1 and not fills, param.type.size == size or fills))
        known[param] = builder.param(param.type.with_shape((chunk,) if changes[-1][0] else ()))
    index: Value | None = None
    numbers: list[np.ndarray] = []
    for op in ops_needed:       # random numbers count from their number on: as an operand it is one kernel's for all sizes
        if op.name == "constant" and op.result.type.dtype == U64 and op.attrs["value"] == size and length == size:
            numbers.append(np.array(size, U64))
            changes.append((False, False))
            known[op.result] = builder.param(TensorType(U64, ()))
    with emitting(builder):
        for op in ops_needed:
            if any(value.type.dtype.kind == "c" or value.type.size not in (1, size) for value in op.results):
                return None
            large = (chunk,) if op.result.type.size == size else ()
            if op.definition.kind is Kind.ELEMENTWISE:
                known[op.result] = op.definition(*(known[value] for value in op.operands), **op.attrs)
            elif op.name == "constant" and op.result in known:
                known[op.result] = ops.broadcast(known[op.result], shape=large, axes=())
            elif op.name == "constant":
                known[op.result] = ops.constant(**{**op.attrs, "shape": large})
            elif op.name == "iota" and length < size:
                shape, axis = op.attrs["shape"], op.attrs["axis"]
                in_row = axis == len(shape) - 1
                counted = {"shape": shape[-1:], "axis": 0} if in_row else {"shape": shape[:-1], "axis": axis}
                numbers.append(np.ascontiguousarray(op.definition.evaluate(dtype=op.attrs["dtype"], **counted)))
                changes.append((in_row, not in_row))
                number = builder.param(TensorType(op.attrs["dtype"], large if in_row else ()))
                known[op.result] = number if in_row else ops.broadcast(number, shape=large, axes=())
            elif op.name == "iota":
                if index is None:
                    index = builder.param(TensorType(np.dtype(np.int64), (chunk,)))
                    changes.append((True, False))
                known[op.result] = ops.convert(index, dtype=op.result.type.dtype)
            elif op.name == "broadcast" or (op.name == "reshape" and op.result.type.size == op.operands[0].type.size):
                operand = known[op.operands[0]]
                known[op.result] = operand if operand.type.shape == large else ops.broadcast(operand, shape=large, axes=())
            else:
                return None
    built = builder.build([known[value] for value in graph.results])
    return ChunkGraph(built, tuple(changes), tuple(numbers), index is not None, size, length, chunk)
