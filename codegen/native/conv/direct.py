"""Step of a convolution of vectors with one short kernel: each vector of results is a sum of vectors of the images, read where they lie.

Staging an input tile, as other convolutions do, takes longer than the products.
"""

from __future__ import annotations

from adjit.codegen.llvm.target import Target
from adjit.codegen.native.conv.window_builder import WindowBuilder
from adjit.codegen.native.program_code import StepCode
from adjit.codegen.native.step_builder import BYTES_PER_NS, ceil_div, split_iterations
from adjit.ir.graph import Op

MAX_TAPS = 32
"""Elements of a kernel, each of which stays in a register."""

VECTORS_AT_ONCE = 2
"""Vectors of results in flight: within one, each product waits for the one before it."""


def is_direct(op: Op) -> bool:
    """True for a convolution of one channel along one axis with one short kernel, without strides, zeros between elements and dilation."""
    kernel = op.operands[1].type.shape
    return (len(kernel) == 3 and kernel[:2] == (1, 1) and 0 < kernel[2] <= MAX_TAPS and op.operands[0].type.shape[1] == 1
            and op.attrs["groups"] == 1 and op.attrs["stride"] == op.attrs["dilation"] == (1,) and op.attrs["interior"] == (0,))


def lower_direct(op: Op, target: Target, dtype: str) -> tuple[StepCode, ...]:
    """The step of such a convolution."""
    images, _, length = op.operands[0].type.shape
    taps, count, low = op.operands[1].type.shape[2], op.result.type.shape[2], op.attrs["low"][0]
    text = WindowBuilder(target, dtype)
    chunk = VECTORS_AT_ONCE * text.lanes
    extents = images, ceil_div(count, chunk)
    work = images * count * max(2 * text.bytes / BYTES_PER_NS, 0.15 * taps / text.lanes)
    task_split = split_iterations(extents, work)
    with text.step():
        source, weights, to = (text.place(number) for number in range(3))
        factors = [text.broadcast(text.at(weights, text.scalar, tap)) for tap in range(taps)]
        for _, task in text.parts([task_split.tasks]):
            with text.iterations(task, extents, task_split) as (image, part):
                start = text.times(part, chunk)
                first = text.plus(start, -low)      # of the elements that the first result sums up
                x, y = text.at(source, text.scalar, (image, length)), text.at(to, text.scalar, (image, count))
                last = text.plus(first, chunk + taps - 1)
                inside = text.both(text.both(text.compare("sge", first, 0), text.compare("sle", last, length)),
                                   text.compare("sle", text.plus(start, chunk), count))
                with text.if_(inside):
                    _sums(text, factors, text.at(x, text.scalar, first), text.at(y, text.scalar, start))
                with text.if_(text.not_(inside)):
                    _sums(text, factors, text.at(x, text.scalar, first), text.at(y, text.scalar, start), (first, length),
                          text.sub(count, start))
    return (text.code(task_split.tasks, work),)


def _sums(text: WindowBuilder, factors: list[str], x: str, y: str, bounds: tuple[str | int, int] | None = None, left: str = "") -> None:
    """Write a chunk of results. At an end of the images, `bounds` has the number of the first element and the length, `left` the number of
    results that are left: elements that the images do not have are 0."""
    sums = ["zeroinitializer"] * VECTORS_AT_ONCE
    for tap, factor in enumerate(factors):
        for k in range(VECTORS_AT_ONCE):
            offset = k * text.lanes + tap
            mask = None if bounds is None else _within(text, text.plus(bounds[0], offset), str(bounds[1]))
            elements = text.load_vector(text.at(x, text.scalar, offset), mask)
            sums[k] = text.multiply_add(elements, factor, sums[k])
    for k, total in enumerate(sums):
        mask = None if bounds is None else _within(text, str(k * text.lanes), left)
        text.store_vector(total, text.at(y, text.scalar, k * text.lanes), mask)


def _within(text: WindowBuilder, first: str | int, count: str) -> str:
    """Mask of the lanes whose numbers, counted from `first`, are from 0 on and below `count`."""
    vector = f"<{text.lanes} x i64>"
    numbers = f"<{', '.join(f'i64 {lane}' for lane in range(text.lanes))}>"
    places = text.let(f"add {vector} {text.splat('i64', str(first))}, {numbers}")
    return text.let(f"icmp ult {vector} {places}, {text.splat('i64', count)}")
