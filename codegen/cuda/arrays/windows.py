"""Windows that slide over the last axes: convolutions, and sums and extremes of windows. A thread computes an element of the result, in the
order of the elements of a window; the elements of a kernel's derivative, which are few and long sums, have a block of threads each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from adjit.codegen.cuda.arrays.movement import fill
from adjit.codegen.cuda.arrays.positions import element_number
from adjit.codegen.cuda.arrays.reductions import MIN_ELEMENTS_FOR_BLOCK
from adjit.codegen.cuda.kernel import Launch, Pointer
from adjit.codegen.cuda.target import FLAT_THREADS, WARP
from adjit.codegen.cuda.text import KernelText
from adjit.codegen.cuda.writer import Memory
from adjit.codegen.native.kernels.builder import Index
from adjit.ir.errors import UnsupportedError
from adjit.ir.graph import Op
from adjit.ir.ops.window_geometry import ATTRIBUTES, WindowGeometry
from adjit.ir.types import is_complex, is_half

Place = tuple[str, Index]
"""Whether an element of a window is one of the array, and its offset in the window's part of the array; 0 if it is none."""


class _WindowText(KernelText):
    """Text of a kernel of an op on windows of the last axes of the first operand."""

    def __init__(self, op: Op, sizes: Sequence[int]):
        super().__init__(FLAT_THREADS)
        if is_half(op.result.type.dtype):
            raise UnsupportedError(f"windows of {op.result.type.dtype} cannot be computed on the device 'cuda' yet", op.loc,
                                   hint="convert the operands to float32")
        self.op, self.number_dtype, self.type = op, op.result.type.dtype, self.element(op.result.type.dtype)
        x = op.operands[0].type
        self.window = WindowGeometry(x.shape[x.rank - len(sizes):], tuple(sizes), **{name: op.attrs[name] for name in ATTRIBUTES})
        self.inner, self.outer = math.prod(self.window.lengths), math.prod(self.window.counts)
        self.pointers = [self.pointer("read") for _ in op.operands]
        self.goal, self.elements = self.pointer("write"), self.number()
        self.zero = "zeroinitializer" if is_complex(self.number_dtype) else self.literal(0, self.number_dtype)

    def digits(self, number: str, sizes: Sequence[int]) -> list[str]:
        """The index of element `number` of an array with these sizes."""
        found = []
        for axis, size in reversed([*enumerate(sizes)]):
            found.append("0" if size == 1 and axis else self.let(f"urem i64 {number}, {size}") if axis else number)
            if axis and size > 1:
                number = self.let(f"udiv i64 {number}, {size}")
        return found[::-1]

    def window_place(self, windows: Sequence[str], elements: Sequence[str]) -> Place:
        """Where element `elements` of window `windows` is."""
        inside, offset = "true", "0"
        geometry = self.window
        for window, element, length, stride, low, gap, step in zip(
                windows, elements, geometry.lengths, geometry.stride, geometry.low, geometry.interior, geometry.dilation, strict=True):
            padded = self.add(self.add(self.mul(window, stride), self.mul(element, step)), -low)
            here = self.compare("ult", padded, length + (length - 1) * gap)
            if gap:
                here = self.both(here, self.compare("eq", self.let(f"urem i64 {padded}, {gap + 1}"), 0))
                padded = self.let(f"udiv i64 {padded}, {gap + 1}")
            inside = self.both(inside, here)
            offset = self.add(self.mul(offset, length), padded)
        return inside, self.select(inside, "i64", offset, 0)

    def element_at(self, pointer: str, base: Index, place: Place, outside: str) -> str:
        """The element of an array at a place, or what is there outside of it."""
        return self.select(place[0], self.type, self.read(pointer, self.number_dtype, self.plus(base, place[1]), constant=True)[0], outside)

    def plus_product(self, total: str, a: str, b: str) -> str:
        return self.applied("add", self.number_dtype, total, self.applied("multiply", self.number_dtype, a, b))

    def launched(self, label: str, grid: int, *numbers: int) -> list[Launch]:
        pointers = [Pointer("operand", number, value.type.nbytes) for number, value in enumerate(self.op.operands)]
        return [Launch(self.kernel(label), grid, (*pointers, Pointer("result", 0, self.op.result.type.nbytes)), numbers)]

    def of_each(self, label: str, result: Callable[[str], str]) -> list[Launch]:
        """The launch in which each thread computes an element of the result from its number."""
        number, size = element_number(self), self.op.result.type.size
        with self.where(self.compare("slt", number, self.elements)):
            self.write([result(number)], self.goal, self.number_dtype, number)
        return self.launched(label, -(-size // FLAT_THREADS), size)


def lower_convolution(op: Op, memory: Memory) -> list[Launch]:
    """The launch of a convolution."""
    x, w = (value.type for value in op.operands)
    if not (op.result.type.size and x.size and w.size):
        return fill(op, 0, memory)
    text = _WindowText(op, w.shape[2:])
    outputs, inputs, groups, sizes = w.shape[0], w.shape[1], op.attrs["groups"], w.shape[2:]
    terms = inputs * math.prod(sizes)

    def sum_of_products(number: str) -> str:
        image, output, *windows = text.digits(number, (x.shape[0], outputs, *text.window.counts))
        channel = text.mul(text.let(f"udiv i64 {output}, {outputs // groups}"), inputs)
        first, kernel = text.add(text.mul(image, x.shape[1]), channel), text.mul(output, terms)
        with text.for_range(0, terms, 1, [(text.type, text.zero)]) as loop:
            each, *elements = text.digits(loop.counter, (inputs, *sizes))
            base = text.mul(text.add(first, each), text.inner)
            element = text.element_at(text.pointers[0], base, text.window_place(windows, elements), text.zero)
            (weight,) = text.read(text.pointers[1], text.number_dtype, text.plus(kernel, loop.counter), constant=True)
            loop.following = [text.plus_product(loop.values[0], weight, element)]
        return loop.values[0]

    return text.of_each("convolution", sum_of_products)


def lower_kernel_gradient(op: Op, memory: Memory) -> list[Launch]:
    """The launch of the derivative of a convolution in its kernels."""
    x, ct = (value.type for value in op.operands)
    type = op.result.type
    if not (type.size and x.size and ct.size):
        return fill(op, 0, memory)
    text = _WindowText(op, op.attrs["sizes"])
    outputs, inputs, groups = ct.shape[1], type.shape[1], op.attrs["groups"]
    terms = ct.shape[0] * text.outer
    by_block = terms >= MIN_ELEMENTS_FOR_BLOCK and not is_complex(type.dtype)

    def sum_of_products(number: str) -> str:
        output, channel, *elements = text.digits(number, (outputs, inputs, *op.attrs["sizes"]))
        channel = text.add(text.mul(text.let(f"udiv i64 {output}, {outputs // groups}"), inputs), channel)
        start, step = (text.thread(), FLAT_THREADS) if by_block else ("0", 1)
        with text.for_range(start, terms, step, [(text.type, text.zero)]) as loop:
            image, *windows = text.digits(loop.counter, (ct.shape[0], *text.window.counts))
            base = text.mul(text.add(text.mul(image, x.shape[1]), channel), text.inner)
            element = text.element_at(text.pointers[0], base, text.window_place(windows, elements), text.zero)
            place = text.add(text.mul(text.add(text.mul(image, outputs), output), text.outer), _modulo(text, loop.counter, text.outer))
            (cotangent,) = text.read(text.pointers[1], text.number_dtype, place, constant=True)
            loop.following = [text.plus_product(loop.values[0], cotangent, element)]
        return loop.values[0]

    if not by_block:
        return text.of_each("kernel_gradient", sum_of_products)
    thread, number = text.thread(), text.block_number()

    def add(a: str, b: str) -> str:
        return text.applied("add", text.number_dtype, a, b)

    total = text.over_lanes(add, sum_of_products(number), text.number_dtype, WARP)
    total = text.over_warps(add, total, text.number_dtype, thread)
    with text.where(text.compare("eq", thread, 0)):
        text.write([total], text.goal, text.number_dtype, number)
    return text.launched("kernel_gradient", type.size, type.size)


def _modulo(text: KernelText, number: str, size: int) -> str:
    return "0" if size == 1 else text.let(f"urem i64 {number}, {size}")


def lower_windows(op: Op, memory: Memory) -> list[Launch]:
    """The launch of an op on windows of each array of a stack."""
    x = op.operands[0].type
    if not (op.result.type.size and x.size and all(value.type.size for value in op.operands)):
        below = op.name == "window_max"
        return fill(op, int(np.array(-np.inf if below else 0, x.dtype).view(f"u{x.dtype.itemsize}")), memory)
    text = _Extremes(op, op.attrs["sizes"])
    return text.of_each(op.name, {"window_sum": text.sum, "window_max": text.largest, "window_max_take": text.taken,
                                  "window_max_scatter": text.scattered, "window_max_share": text.shared_out}[op.name])


class _Extremes(_WindowText):
    """Results of ops on windows, from the number of an element of the result."""

    def __init__(self, op: Op, sizes: Sequence[int]):
        super().__init__(op, sizes)
        self.sizes, self.count = tuple(sizes), math.prod(sizes)
        self.least = self.literal(-math.inf, self.number_dtype)

    def of_window(self, number: str) -> tuple[str, list[str]]:
        """The first element of the array of window `number`, and the index of the window."""
        array, *windows = self.digits(number, (-1, *self.window.counts))
        return self.mul(array, self.inner), windows

    def folded(self, name: str, number: str, first: str) -> str:
        base, windows = self.of_window(number)
        return self.combined(name, base, windows, first)

    def combined(self, name: str, base: str, windows: Sequence[str], first: str) -> str:
        """The elements of a window, combined; outside of the array there is `first`."""
        with self.for_range(0, self.count, 1, [(self.type, first)]) as loop:
            element = self.element_at(self.pointers[0], base, self.window_place(windows, self.digits(loop.counter, self.sizes)), first)
            loop.following = [self.applied(name, self.number_dtype, loop.values[0], element)]
        return loop.values[0]

    def sum(self, number: str) -> str:
        return self.folded("add", number, self.zero)

    def largest(self, number: str) -> str:
        return self.folded("maximum", number, self.least)

    def position(self, base: str, windows: Sequence[str]) -> str:
        """The number, within a window, of its largest element: of equal ones the first, of several NaN the last."""
        def element(number: str) -> str:
            return self.element_at(self.pointers[0], base, self.window_place(windows, self.digits(number, self.sizes)), self.least)

        with self.for_range(0, self.count, 1, [(self.type, element("0")), ("i64", "0")]) as loop:
            best, number = loop.values
            now = element(loop.counter)
            better = self.either(self.let(f"fcmp ogt {self.type} {now}, {best}"), self.let(f"fcmp uno {self.type} {now}, {now}"))
            loop.following = [self.select(better, self.type, now, best), self.select(better, "i64", loop.counter, number)]
        return loop.values[1]

    def taken(self, number: str) -> str:
        base, windows = self.of_window(number)
        place = self.window_place(windows, self.digits(self.position(base, windows), self.sizes))
        return self.element_at(self.pointers[1], base, place, self.zero)

    def scattered(self, number: str) -> str:
        """The numbers of the windows whose largest element this one is, in the order of its places in them."""
        array, *index = self.digits(number, (-1, *self.window.lengths))
        base, geometry = self.mul(array, self.inner), self.window
        with self.for_range(0, self.count, 1, [(self.type, self.zero)]) as loop:
            found, windows = "true", []
            for place, element, stride, low, step, count in zip(index, self.digits(loop.counter, self.sizes), geometry.stride, geometry.low,
                                                                geometry.dilation, geometry.counts, strict=True):
                begin = self.add(place, self.sub(low, self.mul(element, step)))      # of the window, in the padded array
                window = self.let(f"sdiv i64 {begin}, {stride}")
                found = self.both(found, self.both(self.compare("eq", self.mul(window, stride), begin), self.compare("ult", window, count)))
                windows.append(window)
            windows = [self.select(found, "i64", window, 0) for window in windows]
            found = self.both(found, self.compare("eq", self.position(base, windows), loop.counter))
            at = self.window_number(array, windows)
            (cotangent,) = self.read(self.pointers[1], self.number_dtype, at, constant=True)
            loop.following = [self.applied("add", self.number_dtype, loop.values[0], self.select(found, self.type, cotangent, self.zero))]
        return loop.values[0]

    def window_number(self, array: str, windows: Sequence[str]) -> str:
        """The number of a window among all windows."""
        for window, count in zip(windows, self.window.counts, strict=True):
            array = self.add(self.mul(array, count), window)
        return array

    def shared_out(self, number: str) -> str:
        """The share of an element in the number of its window."""
        array, *index = self.digits(number, (-1, *self.window.lengths))
        base = self.mul(array, self.inner)
        within, windows = "true", []
        for place, size, count in zip(index, self.sizes, self.window.counts, strict=True):
            window = self.let(f"udiv i64 {place}, {size}")
            within = self.both(within, self.compare("ult", window, count))
            windows.append(window)
        windows = [self.select(within, "i64", window, 0) for window in windows]
        largest, one = self.combined("maximum", base, windows, self.least), self.literal(1, self.number_dtype)

        def is_largest(element: str) -> str:
            return self.let(f"fcmp uge {self.type} {element}, {largest}")

        with self.for_range(0, self.count, 1, [(self.type, self.zero)]) as loop:
            element = self.element_at(self.pointers[0], base, self.window_place(windows, self.digits(loop.counter, self.sizes)), self.least)
            counted = self.select(is_largest(element), self.type, one, self.zero)
            loop.following = [self.applied("add", self.number_dtype, loop.values[0], counted)]
        (cotangent,) = self.read(self.pointers[1], self.number_dtype, self.window_number(array, windows), constant=True)
        (own,) = self.read(self.pointers[0], self.number_dtype, number, constant=True)
        share = self.applied("divide", self.number_dtype, cotangent, loop.values[0])
        return self.select(self.both(within, is_largest(own)), self.type, share, self.zero)
