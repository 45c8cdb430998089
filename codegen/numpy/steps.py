"""Small functions of arrays as tables of steps, which machine code goes through (`codegen/fastcall/step_routine.py`): a call of NumPy takes
as long as some hundred elements.

A step is a call of one of NumPy's own inner loops, on the same elements in the same order as NumPy would make it, so results have the bits
of the Python function. `table_of` runs the text of that function (`graph_function`) with arrays that stand for those of a call, and notes
what is called. What it does not know makes it return None, and the function stays in Python.
"""

from __future__ import annotations

import ast
import ctypes
import math
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from functools import lru_cache, partial
from typing import Any

import numpy as np

from adjit.codegen.fastcall import object_layout
from adjit.codegen.numpy.chunks import STEP_BYTES, ChunkedFunction, KernelCompiler, Program
from adjit.codegen.numpy.op_functions import FUNCTIONS
from adjit.codegen.numpy.top_indices import TopFunction
from adjit.ir.dataclass import dataclass
from adjit.ir.ops.cumulative import argsort
from adjit.ir.types import TensorType

MAX_STEPS = 96
"""Steps up to which a function is a table."""

MAX_ARGUMENTS, MAX_RANK, MAX_ARRAYS = 10, 8, 16
"""Arguments of a step; dimensions of an array; operands and results of a function."""

INPUT_WORDS, RESULT_WORDS, STEP_WORDS, HEADER_WORDS = 4 + MAX_RANK, 2 + MAX_RANK, 5 + 4 * MAX_ARGUMENTS, 4
"""Words of a record of an operand (is it a float, dtype, rank, place of the float or flags that an array has, sizes), of a result (dtype,
rank, sizes), and of a step (function, data, repeats, count, arguments; for each argument the number of its base, offset, bytes to the next
repeat and to the next element). The header has the numbers of operands, results and steps, and whether the one result is returned without
a tuple."""

VIEW = -1
"""Number of steps of a table that makes a view. Behind the record of its result: flags that it takes over, bytes from the operand's first
element to its own, the operand's rank and, for each of its dimensions, elements to move on; for each dimension of the result one of the
operand and how many of its strides one is, or -1 and the stride in bytes."""


class Loop(IntEnum):
    """Loops that the routine has itself: NumPy calls no inner loop there. Numbers are used in place of addresses."""

    COPY1, COPY4, COPY8 = 0, 1, 2
    CHOOSE1, CHOOSE4, CHOOSE8 = 3, 4, 5
    FINITE4, FINITE8 = 6, 7
    TAKE4, TAKE8 = 8, 9
    BOOL_TO_FLOAT, BOOL_TO_DOUBLE, BOOL_TO_INT64, INT64_TO_FLOAT, INT64_TO_DOUBLE = 10, 11, 12, 13, 14
    PROGRAM = 15
    ORDER_FLOAT, ORDER_DOUBLE, ORDER_INT64 = 16, 17, 18
    ADD_FLOAT, ADD_DOUBLE = 19, 20


_CONVERSIONS = {("?", "f"): Loop.BOOL_TO_FLOAT, ("?", "d"): Loop.BOOL_TO_DOUBLE, ("?", "l"): Loop.BOOL_TO_INT64,
                ("l", "f"): Loop.INT64_TO_FLOAT, ("l", "d"): Loop.INT64_TO_DOUBLE}
_ORDERS = {"f": Loop.ORDER_FLOAT, "d": Loop.ORDER_DOUBLE, "l": Loop.ORDER_INT64}
_OPERATORS = {ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply, ast.Div: np.divide, ast.Eq: np.equal, ast.NotEq: np.not_equal,
              ast.Lt: np.less, ast.LtE: np.less_equal, ast.Gt: np.greater, ast.GtE: np.greater_equal}
_CHARS = "?fdlL"

MAX_ORDERED, MAX_MOVES = 64, 1 << 16
"""First elements in their order up to which each new one is moved to its place, and moves of a row, at most, up to which that pays."""


@dataclass(frozen=True, slots=True)
class Table:
    """Words of a table, and the objects whose memory it refers to."""

    words: np.ndarray
    kept: tuple[Any, ...]


class _Unknown(Exception):
    """What a table cannot hold."""


class _Place:
    """An array that stands for one of the calls, and where that will be: `offset` bytes behind base number `base`. Base 0 is address 0."""

    __slots__ = ("_owner", "array", "base", "is_new", "offset")

    def __init__(self, array: np.ndarray, base: int, offset: int, owner: _Place | None = None, is_new: bool = False):
        self.array, self.base, self.offset, self.is_new = array, base, offset, is_new
        self._owner = owner

    @property
    def owner(self) -> _Place:
        """The whole array whose memory this is a part of."""
        return self if self._owner is None else self._owner


def table_of(function: Callable[..., Any], text: str, bound: Mapping[str, Any], params: Sequence[TensorType], weak: frozenset[int],
             results: Sequence[TensorType], single: bool) -> Table | None:
    """The table of a function, whose text has these names bound; of one result alone if `single`. None if it stays in Python."""
    types = (*params, *results)
    if len(types) > MAX_ARRAYS or any(_is_unknown(type) for type in types) or not results:
        return None
    try:
        return _Steps(params, weak, results, single).finished(function, text, bound)
    except (_Unknown, AttributeError, IndexError, KeyError, TypeError, ValueError):
        return None


def program_table(program: Program, params: Sequence[TensorType], weak: frozenset[int], results: Sequence[TensorType], single: bool
                  ) -> Table | None:
    """The table of a program: a step that runs it on whole arrays. None if there are too many."""
    types = (*params, *results)
    if len(types) > MAX_ARGUMENTS or any(type.rank > MAX_RANK for type in types):
        return None
    code, arena, kept = program.entry()
    floats, about = np.zeros((len(params), 2)), np.array([code, arena, len(params)])
    places = [(1 + index, 0) for index in range(len(types))]
    step = [Loop.PROGRAM, _address(about), 1, 1, len(types), *(word for place in places for word in (*place, 0, 0))]
    return Table(_words(params, weak, floats, results, single, [step]), (kept, about, floats, *(type.dtype for type in types)))


def view_table(run: Callable[..., Any], param: TensorType, result: TensorType, single: bool, strided: bool) -> Table | None:
    """The table of a function that returns a view of its operand, as it shows, in a tuple unless it is `single`; None if it stays in
    Python. If it is `strided` it takes a view of any array, else of those whose elements lie in rows."""
    if max(param.rank, result.rank) > MAX_RANK or not param.size or not result.size:
        return None
    array = laid_out(param)
    made = run(array)
    if made is array or made.base is not array or (made.shape, made.dtype) != (result.shape, result.dtype):
        return None
    offset, starts, steps = _address(made) - _address(array), [0] * param.rank, [(-1, stride) for stride in made.strides]
    found = _strided_view(run, param) if strided else None
    if found is not None:
        offset, (starts, steps) = 0, found
    flags, kept_flags = 0 if found is not None else object_layout.CONTIGUOUS, object_layout.WRITEABLE * made.flags.writeable
    words = [1, 1, VIEW, int(single), 0, id(param.dtype), param.rank, flags, *_sizes(param), id(result.dtype), result.rank, *_sizes(result),
             kept_flags, offset, param.rank, *starts, *[0] * (MAX_RANK - param.rank), *(word for step in steps for word in step)]
    return Table(np.array(words, np.int64), (param.dtype, result.dtype))


def laid_out(type: TensorType, gap: int = 0) -> np.ndarray:
    """An array of a type that views are taken of, but no elements: it has memory for one. Its rows have `gap` elements between them, or
    several times as many."""
    strides, stride = [], type.dtype.itemsize
    for axis in range(type.rank)[::-1]:
        strides.append(stride)
        stride *= type.shape[axis] + gap * (1 + axis)
    return np.lib.stride_tricks.as_strided(np.zeros(1, type.dtype), type.shape, strides[::-1])


def _strided_view(run: Callable[..., Any], param: TensorType) -> tuple[list[int], list[tuple[int, int]]] | None:
    """Elements by which a view moves on in each dimension of an array, and the dimension and step of each of its own; None if they cannot
    be told from the address and strides of one."""
    array = laid_out(param, 1)
    made, strides = run(array), array.strides
    starts, steps, rest = [], [], _address(made) - _address(array)
    for stride in strides:
        start, rest = divmod(rest, stride)
        starts.append(start)
    for stride in made.strides:
        axis = next((axis for axis, given in enumerate(strides) if given <= abs(stride)), -1)
        steps.append((axis, stride // strides[axis]) if axis >= 0 else (-1, stride))
        rest += abs(stride % strides[axis]) if axis >= 0 else abs(stride)
    return None if rest else (starts, steps)


def _is_unknown(type: TensorType) -> bool:
    return type.dtype.char not in _CHARS or type.rank > MAX_RANK or not 0 < type.nbytes <= STEP_BYTES


_ORDINARY = object_layout.CONTIGUOUS | object_layout.ALIGNED

_SHARED, _ALIGNMENT = np.zeros(1 << 20, np.uint8), 64
"""Working memory of all tables: one call goes through its steps before another begins."""


class _Steps:
    """Steps of one function, in the order of its lines."""

    def __init__(self, params: Sequence[TensorType], weak: frozenset[int], results: Sequence[TensorType], single: bool):
        self.params, self.weak, self.results, self.single = params, weak, results, single
        self.steps: list[list[Any]] = []        # function, data, repeats, count, then place, stride of repeats and of elements
        self.kept: list[Any] = []
        self.floats = np.zeros((len(params), 2))        # each as a float64, and as a float32 behind that
        self.names: dict[str, Any] = {}
        self.used = 0       # bytes of the shared memory

    def finished(self, function: Callable[..., Any], text: str, bound: Mapping[str, Any]) -> Table:
        places = [self.param(index, type) for index, type in enumerate(self.params)]
        if isinstance(function, ChunkedFunction):
            found = self.chunks(function, places)
        elif isinstance(function, TopFunction):
            found = [self.order(places[0], function.axis, function.k, function.largest)]
        elif text.startswith("def "):
            run = _parsed(text)
            self.names.update({**bound, **{argument.arg: place for argument, place in zip(run.args.args, places, strict=True)}})
            found = self.body(run.body)
        else:
            raise _Unknown
        if len(self.steps) > MAX_STEPS or not self.steps:
            raise _Unknown
        self.hand_out(found)
        return self.table()

    def param(self, index: int, type: TensorType) -> _Place:
        if index not in self.weak:
            return _Place(np.zeros(type.shape, type.dtype), 1 + index, 0)
        return _Place(np.zeros((), np.float64), 1 + index, 0)

    # -- lines

    def body(self, lines: Sequence[ast.stmt]) -> list[_Place]:
        for line in lines:
            match line:
                case ast.Assign([ast.Name(name)], ast.Constant(None)):
                    self.names.pop(name)
                case ast.Assign([ast.Name(name)], value):
                    self.names[name] = self.value(value)
                case ast.Assign([ast.Tuple(targets)], ast.Call(ast.Name(called), arguments)):
                    made = self.chunks(self.names[called], [self.value(argument) for argument in arguments])
                    self.names.update({target.id: place for target, place in zip(targets, made, strict=True)})     # type: ignore[attr-defined]
                case ast.Assign([ast.Subscript(ast.Name(name), ast.Name(index))], value):
                    self.copy(self.value(value), self.part(self.names[name], self.names[index]))
                case ast.Expr(value):
                    self.value(value)
                case ast.If(ast.UnaryOp(ast.Not(), ast.Call(ast.Name("is_finite"), [tested]))):
                    self.check(tested)
                case ast.Return(ast.Tuple(values)):
                    return [self.value(value) for value in values]
                case _:
                    raise _Unknown
        raise _Unknown

    def check(self, tested: ast.expr) -> None:
        """Leave the call to Python if an element is not finite. The norms of the text are finite only if all are."""
        if isinstance(tested, ast.BinOp):
            self.check(tested.left)
            self.check(tested.right)
            return
        if isinstance(tested, ast.Call):
            if getattr(tested.func, "id", "") not in ("vdot", "norm"):
                raise _Unknown
            tested = tested.args[0]
        place = self.whole(self.value(tested))
        if place.array.dtype.char not in "fd":
            raise _Unknown
        self.loop(Loop.FINITE4 if place.array.itemsize == 4 else Loop.FINITE8, place)

    def value(self, text: ast.expr) -> Any:
        match text:
            case ast.Name(name):
                found = self.names[name]
                return self.number(found) if isinstance(found, (np.ndarray, np.generic)) else found
            case ast.Constant(number):
                return number
            case ast.Call(ast.Name(name), arguments, keywords):
                return self.call(name, self.names[name], [self.value(argument) for argument in arguments],
                                 {keyword.arg: self.value(keyword.value) for keyword in keywords})
            case ast.Call(ast.Attribute(of, method), arguments):
                return self.method(self.value(of), method, [self.value(argument) for argument in arguments])
            case ast.Subscript(ast.Call(ast.Name(name), arguments), ast.Constant(int(index))):
                return self.chunks(self.names[name], [self.value(argument) for argument in arguments])[index]
            case ast.Subscript(of, ast.Name(index)):
                return self.part(self.value(of), self.names[index])
            case ast.Attribute(of, "T"):
                place = self.value(of)
                return self.view(place, place.array.T)
            case ast.BinOp(left, operator, right) | ast.Compare(left, [operator], [right]):
                return self.ufunc(_OPERATORS[type(operator)], [self.value(left), self.value(right)])
            case ast.IfExp(test, yes, no):
                return self.choose(self.value(test), self.value(yes), self.value(no))
            case ast.Tuple(items):
                return [self.value(item) for item in items]
        raise _Unknown

    def call(self, name: str, function: Any, arguments: list[Any], keywords: dict[str | None, Any]) -> Any:
        if isinstance(function, np.ufunc):
            out = arguments[function.nin] if len(arguments) > function.nin else keywords.get("out")
            return self.ufunc(function, arguments[:function.nin], out)
        of = getattr(function, "__self__", None)
        if isinstance(of, np.ufunc) and function.__name__ == "reduce" and len(arguments) == 2:
            return self.reduce(of, *arguments)
        if isinstance(function, partial) and function.func is argsort.evaluate:
            axis = function.keywords["axis"]
            return self.order(arguments[0], axis, arguments[0].array.shape[axis], False)
        if function is not FUNCTIONS.get(name):
            raise _Unknown
        match name:
            case "where":
                return self.choose(*arguments)
            case "putmask":
                target, condition, values = arguments
                if condition.array.shape != target.array.shape or values.array.shape not in ((), target.array.shape):
                    raise _Unknown
                return self.choose(condition, values, target, target)
            case "asarray" | "in_rows":        # a new array has its elements in rows
                return arguments[0]
            case "float32" | "float64":
                return self.convert(arguments[0], np.dtype(name))
            case "concatenate":
                return self.concatenate(*arguments)
            case "zeros":
                return self.filled(np.zeros((), arguments[1]), arguments[0])
            case "filled":
                return self.fill(*arguments)
            case "take" | "take_signed":
                return self.take(arguments, name == "take_signed")
            case "take_along" | "take_along_signed" | "taken_along":
                return self.take_along(arguments, name != "take_along")
            case "from_start":
                return tuple(arguments)
            case "add_at" | "add_along":
                return self.add_at(*arguments)
        raise _Unknown

    def method(self, place: _Place, method: str, arguments: list[Any]) -> _Place:
        match method:
            case "reshape" | "transpose":
                return self.view(place, getattr(place.array, method)(*arguments))
            case "copy":
                return self.copy(place)
            case "astype":
                return self.convert(place, *arguments)
            case "cumsum" | "cumprod":
                return self.running(np.add if method == "cumsum" else np.multiply, place, *arguments)
            case "take":
                return self.take([place, *arguments], False)
        raise _Unknown

    # -- places

    def new(self, shape: tuple[int, ...], dtype: np.dtype) -> _Place:
        """A new array, in memory that all tables share; results are moved to those of the call."""
        nbytes = math.prod(shape) * dtype.itemsize
        if nbytes > STEP_BYTES or self.used + nbytes > _SHARED.size or dtype.char not in _CHARS:
            raise _Unknown
        array: np.ndarray = np.ndarray(shape, dtype, _SHARED, self.used)        # type: ignore[arg-type]
        self.used += -(-nbytes // _ALIGNMENT) * _ALIGNMENT
        return _Place(array, 0, _address(array), is_new=True)

    def number(self, array: Any) -> _Place:
        """An array at an address that stays."""
        array = np.asarray(array)
        if array.dtype.char not in _CHARS:
            raise _Unknown
        self.kept.append(array)
        return _Place(array, 0, _address(array))

    def view(self, place: _Place, array: np.ndarray) -> _Place:
        """The place of an array that lies in the memory of another one."""
        if not np.may_share_memory(array, place.array):
            raise _Unknown
        return _Place(array, place.base, place.offset + _address(array) - _address(place.array), place.owner)

    def part(self, place: _Place, index: Any) -> _Place:
        return self.view(place, place.array[index])

    def whole(self, place: Any) -> _Place:
        if not isinstance(place, _Place) or not place.array.flags.c_contiguous:
            raise _Unknown
        return place

    # -- steps

    def loop(self, function: int, *places: _Place, data: int = 0, shape: tuple[int, ...] | None = None) -> None:
        """Steps that call a loop for the elements of places, whose shapes broadcast to `shape`, as NumPy would: over the last dimension, or
        over several that are one."""
        if shape is None:
            shape = np.broadcast_shapes(*(place.array.shape for place in places))
        strides = [[0] * (len(shape) - place.array.ndim) + [0 if size == 1 else stride for size, stride in
                                                            zip(place.array.shape, place.array.strides, strict=True)] for place in places]
        self.nested(function, places, data, *_joined(shape, strides))

    def nested(self, function: int, places: Sequence[_Place], data: int, shape: list[int], strides: list[list[int]]) -> None:
        """Steps for joined dimensions: the last one is of a loop, the one before is of its repeats, others are unrolled."""
        shape, strides = [1, 1, *shape], [[0, 0, *ours] for ours in strides]
        for index in np.ndindex(*shape[:-2]):
            moved = [_Place(place.array, place.base, place.offset + sum(map(int.__mul__, index, ours)))
                     for place, ours in zip(places, strides, strict=True)]
            self.steps.append([function, data, *shape[-2:], *zip(moved, [ours[-2] for ours in strides], [ours[-1] for ours in strides],
                                                                 [place.owner for place in places], strict=True)])
        if len(self.steps) > MAX_STEPS:
            raise _Unknown

    def ufunc(self, function: np.ufunc, operands: list[Any], out: _Place | None = None) -> _Place:
        if function.nout != 1 or function.signature is not None:
            raise _Unknown
        given = [float if self.is_weak(place) else place.array.dtype for place in operands]
        types = function.resolve_dtypes((*given, None))     # type: ignore[arg-type]
        operands = [self.convert(place, type) if self.is_weak(place) else place for place, type in zip(operands, types, strict=False)]
        shape = np.broadcast_shapes(*(place.array.shape for place in operands))
        if any(place.array.dtype != type for place, type in zip(operands, types, strict=False)):
            raise _Unknown
        for place in operands:      # NumPy goes through other layouts in their own order, in which it lays out the result
            if any(first < second for first, second in zip(place.array.strides, place.array.strides[1:], strict=False)
                   if first and second) or min(place.array.strides, default=0) < 0:
                raise _Unknown
        if out is None:
            out = self.new(shape, types[-1])
        if out.array.shape != shape or out.array.dtype != types[-1] or not out.array.flags.c_contiguous:
            raise _Unknown
        self.loop(*_ufunc_loop(function, tuple(types))[:1], *operands, out, data=_ufunc_loop(function, tuple(types))[1], shape=shape)
        return out

    def is_weak(self, place: Any) -> bool:
        return isinstance(place, _Place) and 0 < place.base <= len(self.params) and place.base - 1 in self.weak

    def reduce(self, function: np.ufunc, x: _Place, axes: tuple[int, ...]) -> _Place:
        """A reduction over the last axes, row by row, or over the first ones, one row after the other."""
        array = self.whole(x).array
        rank, dtype = array.ndim, array.dtype
        loop, data = _ufunc_loop(function, (dtype,) * 3)
        axes = tuple(sorted(axes))
        if self.is_weak(x) or not axes or function.resolve_dtypes((None, dtype, None), reduction=True)[2] != dtype:
            raise _Unknown
        length = math.prod(array.shape[axis] for axis in axes)
        result = self.new(tuple(size for axis, size in enumerate(array.shape) if axis not in axes), dtype)
        kept = array.size // length
        first = self.first_of(function, dtype)
        is_last = axes == tuple(range(rank - len(axes), rank))
        if not is_last and axes != tuple(range(len(axes))):
            raise _Unknown
        element, row = (kept, 1) if not is_last else (1, length)      # elements from one of a reduction, and of a row, to the next
        source = _Place(x.array.reshape(-1), x.base, x.offset, x.owner)
        flat = self.view(result, result.array.reshape(-1))
        if first is None:       # it begins with the first elements
            rows = np.lib.stride_tricks.as_strided(source.array, (kept,), (row * array.itemsize,))
            self.loop(_copy_loop(dtype), self.view(source, rows), flat)
        else:
            self.loop(_copy_loop(dtype), self.number(first), flat, shape=(kept,))
        begin = int(first is None)
        if length == begin:
            return result
        moved = _Place(source.array, source.base, source.offset + begin * element * array.itemsize, source.owner)
        outer = [length - begin, kept] if not is_last else [kept, length - begin]
        steps = array.itemsize
        of_x = [kept * steps, steps] if not is_last else [length * steps, steps]
        of_result = [0, steps] if not is_last else [steps, 0]
        self.nested(loop, (flat, moved, flat), data, *_joined(tuple(outer), [of_result, of_x, of_result]))
        return result

    def first_of(self, function: np.ufunc, dtype: np.dtype) -> np.ndarray | None:
        """The number with which a reduction begins; None if that is its first element."""
        if function.identity is None:
            return None
        if function is np.add and dtype.kind == "f":
            return np.copysign(np.zeros((), dtype), np.add.reduce(np.full(1, -0.0, dtype)))     # type: ignore[no-any-return]
        return np.asarray(function.identity).astype(dtype)

    def copy(self, x: Any, target: _Place | None = None) -> _Place:
        """A copy, whose elements lie in rows."""
        if target is None:
            target = self.new(x.array.shape, x.array.dtype)
        if x.array.dtype != target.array.dtype or self.is_weak(x) or np.broadcast_shapes(x.array.shape, target.array.shape) != \
                target.array.shape:
            raise _Unknown
        self.loop(_copy_loop(x.array.dtype), x, target, shape=target.array.shape)
        return target

    def fill(self, x: _Place, shape: tuple[int, ...], dtype: np.dtype) -> _Place:
        return self.filled(self.convert(x, np.dtype(dtype)), shape)

    def filled(self, x: Any, shape: tuple[int, ...]) -> _Place:
        place = x if isinstance(x, _Place) else self.number(x)
        return self.copy(place, self.new(tuple(shape), place.array.dtype))

    def convert(self, x: _Place, dtype: np.dtype) -> _Place:
        """Numbers of another dtype. Python's own floats come as floats of both kinds."""
        given = x.array.dtype
        if self.is_weak(x):
            if dtype.char not in "fd":
                raise _Unknown
            return _Place(np.zeros((), dtype), x.base + (len(self.params) + len(self.results) if dtype.char == "f" else 0), 0)
        if given == dtype:
            return x
        loop = _CONVERSIONS.get((given.char, np.dtype(dtype).char))
        if loop is None:
            raise _Unknown
        made = self.new(self.whole(x).array.shape, dtype)
        self.loop(loop, x, made)
        return made

    def choose(self, condition: _Place, yes: _Place, no: _Place, target: _Place | None = None) -> _Place:
        dtype = (no if self.is_weak(yes) else yes).array.dtype
        yes, no = (self.convert(place, dtype) if self.is_weak(place) else place for place in (yes, no))
        shape = np.broadcast_shapes(condition.array.shape, yes.array.shape, no.array.shape)
        if condition.array.dtype != np.bool_ or yes.array.dtype != no.array.dtype:
            raise _Unknown
        if target is None:      # NumPy lays out a new array as these are
            for place in (condition, yes, no):
                self.whole(place)
            target = self.new(shape, dtype)
        self.loop({1: Loop.CHOOSE1, 4: Loop.CHOOSE4, 8: Loop.CHOOSE8}[dtype.itemsize], condition, yes, no, target, shape=shape)
        return target

    def concatenate(self, parts: list[_Place], axis: int) -> _Place:
        arrays = [self.whole(part).array for part in parts]
        made = self.new(np.concatenate(arrays, axis).shape, arrays[0].dtype)
        start = 0
        for part in parts:
            stop = start + part.array.shape[axis]
            if part.array.size:
                self.copy(part, self.part(made, (slice(None),) * axis + (slice(start, stop),)))
            start = stop
        return made

    def running(self, function: np.ufunc, x: _Place, axis: int, dtype: np.dtype) -> _Place:
        """Running sums or products of each row, by the loop of one operation after the other."""
        array = self.whole(x).array
        if axis not in (-1, array.ndim - 1) or array.dtype != dtype or array.dtype.char not in "fdl":
            raise _Unknown
        made, (loop, data) = self.new(array.shape, array.dtype), _ufunc_loop(function, (array.dtype,) * 3)
        self.copy(self.part(x, (..., slice(0, 1))), self.part(made, (..., slice(0, 1))))
        if array.shape[-1] > 1:
            before, after = slice(0, -1), slice(1, None)
            self.loop(loop, self.part(made, (..., before)), self.part(x, (..., after)), self.part(made, (..., after)), data=data)
        return made

    def order(self, x: _Place, axis: int, k: int, largest: bool) -> _Place:
        """Indices of the first elements along an axis in their order, those of equal ones in theirs."""
        lines = np.moveaxis(self.whole(x).array, axis, -1)
        length, loop = lines.shape[-1], _ORDERS.get(lines.dtype.char)
        if loop is None or k > MAX_ORDERED or k * length > MAX_MOVES:
            raise _Unknown
        made, about = self.new((*lines.shape[:-1], k), np.dtype(np.int64)), np.array([k, 0 if largest else -1])
        self.kept.append(about)
        rows, (of_lines, of_made) = _joined(lines.shape[:-1], [list(lines.strides[:-1]), list(made.array.strides[:-1])])
        self.nested(loop, (self.view(x, lines), made), _address(about), [*rows, length], [[*of_lines, lines.strides[-1]], [*of_made, 0]])
        turned = self.view(made, np.moveaxis(made.array, -1, axis))
        return made if turned.array.flags.c_contiguous else self.copy(turned)

    def take(self, arguments: list[Any], signed: bool) -> _Place:
        """Slices at indices. An index that is out of range, as a negative one is unless they are `signed`, leaves the call to Python."""
        x, indices, axis = arguments
        array, at = self.whole(x).array, self.whole(indices).array
        shape = (*array.shape[:axis], *at.shape, *array.shape[axis + 1:])
        rows, size = math.prod(array.shape[:axis]), math.prod(array.shape[axis + 1:])
        return self.gather(x, indices, shape, rows, array.shape[axis], size, 0, signed)

    def take_along(self, arguments: list[Any], signed: bool) -> _Place:
        x, indices, axis, *_ = arguments
        if axis != x.array.ndim - 1:        # elements are taken of rows
            turned = [self.copy(self.view(place, np.moveaxis(place.array, axis, -1))) for place in (x, indices)]
            made = self.take_along([*turned, x.array.ndim - 1], signed)
            return self.copy(self.view(made, np.moveaxis(made.array, -1, axis)))
        array, at = self.whole(x).array, self.whole(indices).array
        if array.shape[:-1] != at.shape[:-1]:
            raise _Unknown
        return self.gather(x, indices, at.shape, array.size // array.shape[-1], array.shape[-1], 1, at.shape[-1] * at.itemsize, signed)

    def add_at(self, x: _Place, indices: Any, updates: _Place, axis: int, *grid: Any) -> _Place:
        """Add updates to the slices at indices, one after another, or along the last axis to elements; as `take`."""
        indices, signed = (indices[0], True) if isinstance(indices, tuple) else (indices, False)
        array, at = self.whole(x).array, self.whole(indices).array
        length, size = array.shape[axis], math.prod(array.shape[axis + 1:])
        rows, loop = math.prod(array.shape[:axis]), {"f": Loop.ADD_FLOAT, "d": Loop.ADD_DOUBLE}.get(array.dtype.char)
        alike = (*array.shape[:axis], *(at.shape[-1:] if grid else at.shape), *array.shape[axis + 1:])
        if loop is None or at.dtype != np.int64 or self.whole(updates).array.shape != alike or updates.array.dtype != array.dtype:
            raise _Unknown
        if not rows * length * size or (grid and (size > 1 or axis < array.ndim - 1 or at.shape != alike)):
            raise _Unknown
        about = np.array([length, size, length if signed else 0])
        self.kept.append(about)
        count, bytes = updates.array.size // (rows * size), array.itemsize * size
        self.nested(loop, (updates, indices, x), _address(about), [rows, count],
                    [[count * bytes, bytes], [8 * count if grid else 0, 8], [length * bytes, 0]])
        return x

    def gather(self, x: _Place, indices: _Place, shape: tuple[int, ...], rows: int, length: int, size: int, step: int, signed: bool
               ) -> _Place:
        dtype = x.array.dtype
        if indices.array.dtype != np.int64 or dtype.itemsize not in (4, 8) or not rows * length * size:
            raise _Unknown
        made = self.new(shape, dtype)
        about = np.array([length, size, length if signed else 0])
        self.kept.append(about)
        count = made.array.size // (rows * size)
        bytes = dtype.itemsize * size
        self.nested(Loop.TAKE4 if dtype.itemsize == 4 else Loop.TAKE8, (x, indices, made), _address(about), [rows, count],
                    [[length * bytes, 0], [step, 8], [count * bytes, bytes]])
        return made

    def chunks(self, function: Any, operands: list[_Place]) -> list[_Place]:
        """A kernel for chunks, which goes through whole arrays here, filled up to one chunk."""
        if not isinstance(function, ChunkedFunction) or KernelCompiler.entry is None:
            raise _Unknown
        chunks = function.chunks
        if chunks.length != chunks.size or len(operands) + len(chunks.numbers) + chunks.counts != len(chunks.graph.params):
            raise _Unknown
        entry, arena, kept = KernelCompiler.entry(chunks)
        about = np.array([entry, arena, len(chunks.graph.params)])
        self.kept += (kept, about)
        size, chunk, given = chunks.size, chunks.chunk, []
        for place, param, (is_large, _) in zip(operands, chunks.graph.params, chunks.changes, strict=False):
            if self.is_weak(place):
                place = self.convert(place, param.type.dtype)
            if self.whole(place).array.dtype != param.type.dtype or place.array.size != (size if is_large else 1):
                raise _Unknown
            place = self.view(place, place.array.reshape(-1))
            if is_large and size < chunk:
                filled = self.number(np.zeros(chunk, param.type.dtype))     # of its own: the rest stays 0
                self.copy(place, self.part(filled, slice(0, size)))
                place = filled
            given.append(place)
        given += [self.number(number.reshape(-1)) for number in chunks.numbers]
        if chunks.counts:
            given.append(self.number(np.arange(max(size, chunk))))
        made = [self.new((max(size, chunk),), value.type.dtype) for value in chunks.graph.results]
        places = (*given, *made)
        if len(places) > MAX_ARGUMENTS:
            raise _Unknown
        steps = [place.array.itemsize * (place.array.size > 1) for place in places]
        pieces = max(size, chunk) // chunk
        for start, repeats in ((0, pieces), (size - chunk, int(size > pieces * chunk))):
            if repeats:
                moved = [_Place(place.array, place.base, place.offset + start * step, place.owner)
                         for place, step in zip(places, steps, strict=True)]
                self.nested(Loop.PROGRAM, moved, _address(about), [repeats, chunk], [[chunk * step, step] for step in steps])
        results = []
        for place, shape in zip(made, function.shapes, strict=True):
            part = self.part(place, slice(0, size))
            results.append(self.view(part, part.array.reshape(shape)) if size == place.array.size else
                           self.copy(part, self.new((size,), place.array.dtype)))
        return [self.view(place, place.array.reshape(shape)) for place, shape in zip(results, function.shapes, strict=True)]

    # -- the table

    def hand_out(self, found: Sequence[_Place]) -> None:
        """Have the steps write the results into the arrays of a call: whole arrays where they are, others and operands into a copy."""
        moved: dict[int, int] = {}      # by owner: number of its base
        for index, (place, type) in enumerate(zip(found, self.results, strict=True)):
            owner = place.owner
            if place.array.shape != type.shape or place.array.dtype != type.dtype or self.is_weak(place):
                raise _Unknown
            if not owner.is_new or owner.array.size != place.array.size or not place.array.flags.c_contiguous or id(owner) in moved:
                raise _Unknown
            moved[id(owner)] = 1 + len(self.params) + index
        for line in self.steps:
            for place, _, _, owner in line[4:]:
                if id(owner) in moved:
                    place.base, place.offset = moved[id(owner)], place.offset - owner.offset

    def table(self) -> Table:
        steps = []
        for function, data, repeats, count, *arguments in self.steps:
            steps.append([function, data, repeats, count, len(arguments)])
            for place, of_repeats, of_elements, _ in arguments:
                steps[-1] += [place.base, place.offset, of_repeats, of_elements]
        words = _words(self.params, self.weak, self.floats, self.results, self.single, steps)
        return Table(words, (*self.kept, self.floats, *(type.dtype for type in (*self.params, *self.results))))


def _words(params: Sequence[TensorType], weak: frozenset[int], floats: np.ndarray, results: Sequence[TensorType], single: bool,
           steps: Sequence[list[int]]) -> np.ndarray:
    """The words of a table, whose Python floats are written into `floats`."""
    words = [len(params), len(results), len(steps), int(single)]
    for index, type in enumerate(params):
        is_weak = index in weak
        words += [int(is_weak), id(type.dtype), type.rank, _address(floats) + 16 * index if is_weak else _ORDINARY, *_sizes(type)]
    for type in results:
        words += [id(type.dtype), type.rank, *_sizes(type)]
    for step in steps:
        words += [*step, *[0] * (STEP_WORDS - len(step))]
    return np.array(words, np.int64)


def _address(array: np.ndarray) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _sizes(type: TensorType) -> list[int]:
    return [*type.shape, *[0] * (MAX_RANK - type.rank)]


def _joined(shape: Sequence[int], strides: list[list[int]]) -> tuple[list[int], list[list[int]]]:
    """Dimensions, and strides of each array, with those of one element left out and neighbours joined where all arrays allow it."""
    kept = [axis for axis, size in enumerate(shape) if size != 1]
    sizes, ours = [shape[axis] for axis in kept], [[each[axis] for axis in kept] for each in strides]
    for axis in range(len(sizes) - 2, -1, -1):
        if all(each[axis] == each[axis + 1] * sizes[axis + 1] for each in ours):
            sizes[axis:axis + 2] = [sizes[axis] * sizes[axis + 1]]
            for each in ours:
                del each[axis]
    return sizes or [1], ours if sizes else [[0] for _ in strides]


def _copy_loop(dtype: np.dtype) -> Loop:
    return {1: Loop.COPY1, 4: Loop.COPY4, 8: Loop.COPY8}[dtype.itemsize]


@lru_cache(maxsize=64)
def _parsed(text: str) -> ast.FunctionDef:
    run = ast.parse(text).body[0]
    assert isinstance(run, ast.FunctionDef)
    return run


_FUNCTIONS, _DATA, _COUNT = 32, 40, 48
"""Offsets in a ufunc: its loops, their data, and their number. They are part of NumPy's C interface."""


@lru_cache(maxsize=1024)
def _ufunc_loop(function: np.ufunc, types: tuple[np.dtype, ...]) -> tuple[int, int]:
    """Address and data of NumPy's loop for dtypes."""
    chars = f"{''.join(type.char for type in types[:-1])}->{types[-1].char}"
    if chars not in function.types or ctypes.c_int.from_address(id(function) + _COUNT).value != function.ntypes:
        raise _Unknown
    index = function.types.index(chars)
    loops, data = (ctypes.c_int64.from_address(id(function) + offset).value for offset in (_FUNCTIONS, _DATA))
    address = ctypes.c_int64.from_address(loops + 8 * index).value
    if not address:
        raise _Unknown
    return address, ctypes.c_int64.from_address(data + 8 * index).value if data else 0
