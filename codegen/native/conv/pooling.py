"""Steps of pooling: vectors of neighbouring windows. Overlapping windows are pooled one axis after the other (`separable_pooling.py`).

A task has some planes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod

from adjit.codegen.llvm.target import Target
from adjit.codegen.native.conv.separable_pooling import SeparablePooling, choose_block
from adjit.codegen.native.conv.window_builder import MAX_SHUFFLED_STRIDE, WindowBuilder
from adjit.codegen.native.conv.window_vectors import MAX_UNROLLED_ELEMENTS, Element, Number, WindowOffset, WindowWriter
from adjit.codegen.native.program_code import StepCode
from adjit.ir.errors import UnsupportedError
from adjit.ir.graph import Op
from adjit.ir.ops.window_geometry import ATTRIBUTES, WindowGeometry
from adjit.ir.types import short_name

MAX_TASKS, NS_PER_TASK = 64, 8000

Write = Callable[[WindowWriter, list[str]], None]


def lower_windows(op: Op, shared: Mapping[int, int], target: Target) -> tuple[StepCode, ...]:
    """The step of a sum or an extremum over windows; none if the result is empty."""
    x, attrs = op.operands[0].type, op.attrs
    rank = len(attrs["sizes"])
    if rank > 3:
        raise UnsupportedError(f"{op.name}: windows over {rank} axes have no native code", op.loc, hint="use backend='numba'")
    if not op.result.type.size:
        return ()
    missing = 3 - rank
    given = {name: (0 if name in ("low", "high", "interior") else 1,) * missing + attrs[name] for name in ("sizes", *ATTRIBUTES)}
    given["dilation"] = tuple(1 if size == 1 else apart for size, apart in zip(given["sizes"], given["dilation"], strict=True))
    window = WindowGeometry((1,) * missing + x.shape[x.rank - rank:], **given)
    text = WindowBuilder(target, short_name(x.dtype))
    planes, elements, windows = prod(x.shape[:x.rank - rank]), prod(window.lengths), prod(window.counts)
    sizes = {"window_sum": (elements, windows), "window_max": (elements, windows), "window_max_take": (elements, elements, windows),
             "window_max_scatter": (elements, windows, elements), "window_max_share": (elements, windows, elements)}[op.name]
    with text.step():
        pointers = [text.place(number) for number in range(len(sizes))]
        write, steps = _writer_and_cost(op.name, WindowWriter(text, window))
        work = planes * (steps / text.lanes * 0.7 + elements * text.bytes / 8)
        tasks = max(min(planes, MAX_TASKS, int(work / NS_PER_TASK) + 1), 1)
        low, high = (text.let(f"udiv i64 {text.linear((bound, planes))}, {tasks}") for bound in ("%low", "%high"))
        with text.for_range(low, high, empty=True) as plane:
            write([text.at(pointer, text.scalar, (plane.counter, size)) for pointer, size in zip(pointers, sizes, strict=True)])
    return (text.code(tasks, work),)


def _writer_and_cost(name: str, writer: WindowWriter) -> tuple[Callable[[list[str]], None], int]:
    """The function that writes the code for one plane, given pointers to its arrays; and its cost, in elements of windows."""
    s = writer.window
    (_, high, wide), (_, rows, columns) = s.sizes, s.counts
    each = prod(s.sizes) * prod(s.counts)
    if name in ("window_max", "window_max_scatter"):
        scatters = name == "window_max_scatter"
        block = choose_block(s, writer.text.lanes, 2 * writer.text.bytes + 4 if scatters else writer.text.bytes)
        apart = wide * s.lengths[1] * columns + high * rows * columns
        if block is not None and (scatters or apart < each):
            windows = SeparablePooling(writer, block, scatters)
            return windows.scatter if scatters else windows.largest, 2 * apart if scatters else apart
    write: Write = {"window_sum": _sum, "window_max": _max, "window_max_take": _take, "window_max_scatter": _scatter,
                    "window_max_share": _share}[name]
    return lambda pointers: write(writer, pointers), each


def _sum(w: WindowWriter, pointers: list[str]) -> None:
    for at in w.windows(w.window.counts):
        (total,) = w.sweep(pointers[0], at, [(w.text.vector, "zeroinitializer")],
                           lambda state, number, element: [w.text.fadd(state[0], element.load("zeroinitializer"))], w.text.fadd)
        w.store(total, pointers[1], at)


def _max(w: WindowWriter, pointers: list[str]) -> None:
    lowest = w.filled(float("-inf"))

    def step(state: list[str], number: Number, element: Element) -> list[str]:
        value = element.load(lowest)
        return [w.select(w.better(value, state[0]), w.text.vector, value, state[0])]

    for at in w.windows(w.window.counts):
        (most,) = w.sweep(pointers[0], at, [(w.text.vector, lowest)], step)
        w.store(most, pointers[1], at)


def _take(w: WindowWriter, pointers: list[str]) -> None:
    for at in w.windows(w.window.counts):
        winner = w.winner(pointers[0], at)

        def step(state: list[str], number: Number, element: Element, winner: str = winner) -> list[str]:
            return [w.share(winner, number, element.load("zeroinitializer"), state[0])]

        (taken,) = w.sweep(pointers[1], at, [(w.text.vector, "zeroinitializer")], step)
        w.store(taken, pointers[2], at)


def _scatter(w: WindowWriter, pointers: list[str]) -> None:
    """Add each cotangent to the largest element of its window."""
    source, given, result = pointers
    for at in _windows_to_write(w, result):
        winner = w.winner(source, at)
        pointer, mask = w.of_windows(given, at)
        number = w.text.load_vector(pointer, mask)
        if _are_small_and_disjoint(w.window):
            _write_shares(w, result, at, [w.share(winner, index, number) for index in range(prod(w.window.sizes))])
            continue

        def step(state: list[str], index: Number, element: Element, winner: str = winner, number: str = number) -> list[str]:
            element.add(w.share(winner, index, number))
            return []

        w.sweep(result, at, [], step)


def _share(w: WindowWriter, pointers: list[str]) -> None:
    """Divide each cotangent among the elements of its window that equal the maximum."""
    text, vector = w.text, w.text.vector
    source, given, result = pointers
    lowest, one = w.filled(float("-inf")), f"<{', '.join([f'{text.scalar} 1.0'] * text.lanes)}>"

    def is_less(element: Element, largest: str) -> str:
        return text.let(f"fcmp olt {vector} {element.load(lowest)}, {largest}")

    def larger(state: list[str], number: Number, element: Element) -> list[str]:
        value = element.load(lowest)
        return [w.select(w.better(value, state[0]), vector, value, state[0])]

    for at in _windows_to_write(w, result):
        (largest,) = w.sweep(source, at, [(vector, lowest)], larger)

        def counted(state: list[str], number: Number, element: Element, largest: str = largest) -> list[str]:
            return [w.select(is_less(element, largest), vector, state[0], text.fadd(state[0], one))]

        (count,) = w.sweep(source, at, [(vector, "zeroinitializer")], counted)
        pointer, mask = w.of_windows(given, at)
        amount = text.let(f"fdiv {vector} {text.load_vector(pointer, mask)}, {count}")

        def scattered(state: list[str], number: Number, element: Element, largest: str = largest, amount: str = amount) -> list[str]:
            part = w.select(is_less(element, largest), vector, "zeroinitializer", amount)
            if not _are_small_and_disjoint(w.window):
                element.in_place_of(source, result).add(part)
                return []
            return [*state, part]

        shares = w.sweep(source, at, [], scattered)
        if shares:
            _write_shares(w, result, at, shares)


def _are_small_and_disjoint(s: WindowGeometry) -> bool:
    """True if windows do not overlap and are small: then a window writes all rows and columns up to the next window."""
    deep, high, wide = s.sizes
    return (deep == s.stride[0] == s.lengths[0] == 1 and s.low[0] == s.high[0] == 0 and high <= s.stride[1] <= MAX_UNROLLED_ELEMENTS
            and wide <= s.stride[2] <= MAX_SHUFFLED_STRIDE and high * wide <= MAX_UNROLLED_ELEMENTS and s.dilation == (1, 1, 1))


def _windows_to_write(w: WindowWriter, result: str) -> Iterator[WindowOffset]:
    """Loops over windows that write the result. Windows that do not overlap also write the gaps behind them; else the result is zeroed
    first."""
    s = w.window
    if _are_small_and_disjoint(s):
        return w.windows([-(-(length + low) // stride) for length, low, stride in zip(s.lengths, s.low, s.stride, strict=True)])
    w.text.clear(result, prod(s.lengths))
    return w.windows(s.counts)


def _write_shares(w: WindowWriter, result: str, at: WindowOffset, shares: Sequence[str]) -> None:
    """Write the shares of the elements of the windows, in C order, and zeros up to the next windows."""
    text, s = w.text, w.window
    _, high, wide = s.sizes
    for down in range(s.stride[1]):
        row = w.row(result, at, 0, down)
        parts = [shares[down * wide + along] if down < high and along < wide else "zeroinitializer" for along in range(s.stride[2])]
        for number in range(s.stride[2]):
            start = Element(w, row, at, 0).start(0, number)
            text.masked_store(text.interleaved(parts, number), text.at(row.pointer, text.scalar, start), text.inside(start, row.length))
