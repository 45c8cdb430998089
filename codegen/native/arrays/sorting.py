"""Steps of `sort`, `argsort`, `partition` and `argpartition`: short lines are sorted by the ranks of their elements, others by digits,
least significant first (radix sort).

Elements become words that order as they do, without sign: then no element is compared with another. A part of the sorted elements, as for a
median, is looked for: bounds from a sample leave few words to sort.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace

from adjit.codegen.llvm.builder import BYTES
from adjit.codegen.llvm.target import Target
from adjit.codegen.native.program_code import StepCode
from adjit.codegen.native.step_builder import StepBuilder, ceil_div, element_type, split_iterations
from adjit.ir.dataclass import dataclass
from adjit.ir.errors import UnsupportedError
from adjit.ir.graph import Op
from adjit.ir.ops.cumulative import MIN_SEARCHED

INDEX_BYTES, COUNT_BYTES = 8, 4

MAX_RANKED = 64
"""Elements of a line up to which counting is fastest."""

BUCKETS = 256
"""Values of a digit of the sort."""

SEARCHED_PART = 8
"""Part of a line that is looked for rather than sorted for, if it is one of so many."""

SAMPLE, MARGIN = 1024, 48
"""Elements of a sample, and the distance of bounds from the place that is looked for: three standard deviations of a rank in the sample."""

MISSING_BITS = 4
"""Bits fewer than a number of words has, by which the words may be told from each other: counts of bits are rounded down."""

GROUP_BYTES, MAX_GROUP = 64, 16
"""Bytes of elements that are looked at together, and their number."""

GOLDEN = 0x9E3779B9
"""Golden ratio as a part of 2**32: its multiples spread over a line and keep no step with periods in it."""

NS_PER_COMPARISON, NS_PER_DIGIT, NS_PER_BUCKET = 1.0, 1.3, 0.7


@dataclass(frozen=True, slots=True)
class _Lines:
    """Lines to sort: `count` elements of `size` bytes, `distance` elements apart. `places` has those of the results in the sorted line."""

    element: str
    kind: str
    size: int
    count: int
    distance: int
    places: range
    of_indices: bool

    @property
    def word(self) -> str:
        return f"i{8 * self.size}"

    @property
    def sign(self) -> int:
        """The sign bit, as a signed number."""
        return -1 << (8 * self.size - 1)

    @property
    def is_short(self) -> bool:
        return self.count <= MAX_RANKED

    def lanes(self, text: StepBuilder) -> int:
        """Words that are compared at once."""
        return min(text.target.lanes(self.size), 2 * MAX_RANKED // self.size)

    @property
    def use_results(self) -> bool:
        """True if the memory of the results serves for words."""
        return self.distance == 1 and not self.is_short and (self.of_indices or len(self.places) == self.count)

    @property
    def is_searched(self) -> bool:
        return not self.of_indices and self.count >= max(MIN_SEARCHED, SEARCHED_PART * len(self.places))

    @property
    def work(self) -> float:
        """Nanoseconds for a line."""
        if self.is_short:
            return NS_PER_COMPARISON * self.count * (1 + self.count * self.size / 64)
        if self.is_searched:
            return 4 * NS_PER_DIGIT * self.count
        return _digits(self.count, self.size) * (NS_PER_DIGIT * (1 + self.of_indices) * self.count + NS_PER_BUCKET * BUCKETS)


@dataclass(frozen=True, slots=True)
class _Words:
    """Memory of words to sort, and of their indices: those at hand, and room for the next ones."""

    words: str
    indices: str
    next_words: str
    next_indices: str

    def pointers(self) -> list[tuple[str, str]]:
        return [("ptr", pointer) for pointer in (self.words, self.indices, self.next_words, self.next_indices)]

    def swapped(self) -> list[str]:
        return [self.next_words, self.next_indices, self.words, self.indices]


def lower_sort(op: Op, shared: Mapping[int, int], target: Target) -> tuple[StepCode, ...]:
    """The step of `sort` or `argsort`."""
    type, axis = op.operands[0].type, op.attrs["axis"]
    if not op.result.type.size:
        return ()
    if type.shape[axis] >= 1 << 31:
        raise UnsupportedError(f"{op.name}: the axis has {type.shape[axis]} elements, the limit is 2**31 - 1", op.loc,
                               hint="sort slices of the axis")
    before, after = math.prod(type.shape[:axis]), math.prod(type.shape[axis + 1:])
    first = op.attrs.get("first", 0)
    places = range(first, first + op.attrs.get("count", type.shape[axis]))
    lines = _Lines(element_type(type.dtype), type.dtype.kind, type.dtype.itemsize, type.shape[axis], after, places, op.name == "argsort")
    text, extents = StepBuilder(target), (before, after)
    work = before * after * lines.work
    task_split = split_iterations(extents, work)
    with text.step():
        source, to = text.place(0), text.place(1)
        room = ceil_div(lines.count, lines.lanes(text)) * lines.lanes(text) + (2 * SAMPLE + MAX_GROUP) * lines.is_searched
        sizes = [lines.size, COUNT_BYTES * lines.of_indices] * 2
        words = [text.scratch(room * (0 if lines.use_results and number == 2 else size)) for number, size in enumerate(sizes)]
        counts = text.scratch(COUNT_BYTES * BUCKETS * lines.size)
        for _, task in text.parts([task_split.tasks]):
            with text.iterations(task, extents, task_split) as (outer, column):
                elements = text.at(source, lines.size, (outer, lines.count * after), (column, 1))
                results = text.at(to, INDEX_BYTES if lines.of_indices else lines.size, (outer, len(places) * after), (column, 1))
                memory = _Words(words[0], words[1], results, words[3]) if lines.use_results else _Words(*words)
                (_by_ranks if lines.is_short else _by_digits)(text, lines, elements, results, memory, counts)
    return (text.code(task_split.tasks, work),)


def lower_partition(op: Op, shared: Mapping[int, int], target: Target) -> tuple[StepCode, ...]:
    """The step of `partition` or `argpartition`: counts what goes before and beside the pivot, then writes each element to its place."""
    type, axis, of_indices = op.operands[0].type, op.attrs["axis"], op.name == "argpartition"
    if not type.size:
        return ()
    before, after = math.prod(type.shape[:axis]), math.prod(type.shape[axis + 1:])
    count, size = type.shape[axis], type.dtype.itemsize
    lines = _Lines(element_type(type.dtype), type.dtype.kind, size, count, after, range(count), of_indices)
    text, extents, work = StepBuilder(target), (before, after), 2 * NS_PER_DIGIT * type.size
    task_split = split_iterations(extents, work)
    with text.step():
        source, pivots, to = text.place(0), text.place(1), text.place(2)
        for _, task in text.parts([task_split.tasks]):
            with text.iterations(task, extents, task_split) as (outer, column):
                elements = text.at(source, size, (outer, count * after), (column, 1))
                results = text.at(to, INDEX_BYTES if of_indices else size, (outer, count * after), (column, 1))
                _partition(text, lines, elements, text.at(pivots, size, (outer, after), (column, 1)), results)
    return (text.code(task_split.tasks, work),)


def _partition(text: StepBuilder, lines: _Lines, elements: str, pivot: str, results: str) -> None:
    word = _to_word(text, lines, text.load(lines.element, pivot, align=lines.size), alike=True)
    sides = ("ult", "eq", "ugt")
    smaller, same = _each(text, lines, elements, lines.count, 2, lambda group, counts: [
        group.count(group.compare(side, word), count) for side, count in zip(sides, counts, strict=False)], alike=True, appends=False)
    starts = ("0", smaller, text.add(smaller, same))

    def write(group: _Group, counts: Sequence[str]) -> list[str]:
        element, values = ("i64", group.numbers()) if lines.of_indices else (lines.element, group.elements)
        masks = [group.compare(side, word) for side in sides]
        if group.lanes > 1:
            return [group.append(mask, element, values, text.at(results, BYTES[element], start), count, exact=True)
                    for mask, start, count in zip(masks, starts, counts, strict=True)]
        first, second, third = (text.add(start, count) for start, count in zip(starts, counts, strict=True))
        place = text.select(masks[0], "i64", first, text.select(masks[1], "i64", second, third))
        text.store(element, values, text.at(results, BYTES[element], (place, lines.distance)), align=BYTES[element])
        return [group.count(mask, count) for mask, count in zip(masks, counts, strict=True)]

    _each(text, lines, elements, lines.count, 3, write, alike=True)


# -- ranks


def _by_ranks(text: StepBuilder, lines: _Lines, elements: str, results: str, words: _Words, counts: str) -> None:
    """Count for each element those that come before it: by vectors, without branches."""
    lanes, word = lines.lanes(text), lines.word
    vector, numbers = f"<{lanes} x {word}>", f"<{', '.join(f'{word} {lane}' for lane in range(lanes))}>"
    with text.for_range(0, lines.count) as loop:
        each = _to_word(text, lines, _element(text, lines, elements, loop.counter), alike=True)
        text.store(word, each, text.at(words.words, lines.size, loop.counter), align=lines.size)
    with text.for_range(0, lines.count, lanes) as block:
        these = text.load(vector, text.at(words.words, lines.size, block.counter), align=lines.size)
        with text.for_range(0, lines.count, carried=[(vector, "zeroinitializer")]) as loop:
            other = text.splat(word, _word(text, lines, words.words, loop.counter), lanes)
            place = text.sub(loop.counter, block.counter)
            ahead = text.splat(word, place if word == "i64" else text.let(f"trunc i64 {place} to {word}"), lanes)
            smaller, same = text.let(f"icmp ult {vector} {other}, {these}"), text.let(f"icmp eq {vector} {other}, {these}")
            earlier = text.let(f"and <{lanes} x i1> {same}, {text.let(f'icmp slt {vector} {ahead}, {numbers}')}")
            before = text.let(f"or <{lanes} x i1> {smaller}, {earlier}")
            loop.following = [text.let(f"sub {vector} {loop.values[0]}, {text.let(f'sext <{lanes} x i1> {before} to {vector}')}")]
        text.store(vector, loop.values[0], text.at(words.next_words, lines.size, block.counter), align=lines.size)
    with text.for_range(0, lines.count) as loop:
        rank = _word(text, lines, words.next_words, loop.counter)
        rank = rank if word == "i64" else text.let(f"zext {word} {rank} to i64")
        inside = text.compare("ult", text.sub(rank, lines.places.start), len(lines.places))
        with text.if_(inside) if len(lines.places) < lines.count else nullcontext():
            _store_result(text, lines, results, rank, loop.counter if lines.of_indices else _element(text, lines, elements, loop.counter))


# -- digits


def _by_digits(text: StepBuilder, lines: _Lines, elements: str, results: str, words: _Words, counts: str) -> None:
    if lines.is_searched:
        words, below = _search(text, lines, elements, words, counts)
    else:
        words, below = _sort_all(text, lines, elements, words, counts), "0"
    with text.for_range(lines.places.start, lines.places.stop) as loop:
        place = text.sub(loop.counter, below)
        _store_result(text, lines, results, loop.counter, _index(text, words.indices, place) if lines.of_indices else
                      _from_word(text, lines, _word(text, lines, words.words, place)))


def _sort_all(text: StepBuilder, lines: _Lines, elements: str, words: _Words, counts: str) -> _Words:
    varying = _write_words(text, lines, elements, lines.count, words.words, words.indices)
    words = _sort(text, lines, words, str(lines.count), counts, varying, _digits(lines.count, lines.size))
    if lines.kind == "f" and not lines.of_indices:
        _order_zeros(text, lines, elements, words.words)
    return words


def _write_words(text: StepBuilder, lines: _Lines, elements: str, count: str | int, to: str, indices: str = "",
                 number: Callable[[str], str] = str) -> str:
    """Write the words of `count` elements, those with the `number` of each place, and return the bits in which they differ."""
    with text.for_range(0, count, carried=[(lines.word, -1), (lines.word, 0)]) as loop:
        word = _to_word(text, lines, _element(text, lines, elements, number(loop.counter)), alike=lines.of_indices)
        text.store(lines.word, word, text.at(to, lines.size, loop.counter), align=lines.size)
        if lines.of_indices:
            index = text.let(f"trunc i64 {loop.counter} to i32")
            text.store("i32", index, text.at(indices, COUNT_BYTES, loop.counter), align=COUNT_BYTES)
        loop.following = [text.let(f"{how} {lines.word} {value}, {word}") for how, value in zip(("and", "or"), loop.values, strict=True)]
    return _widened(text, lines, text.let(f"xor {lines.word} {loop.values[0]}, {loop.values[1]}"))


def _search(text: StepBuilder, lines: _Lines, elements: str, words: _Words, counts: str) -> tuple[_Words, str]:
    """Sort the words near the places, and say how many smaller ones there are. The ranks in a sorted sample bound the elements that can be
    at the places; only these are kept, until they are few, or most of them, or the sample was misleading."""
    with text.function("step.sort", ("ptr", "%words"), ("ptr", "%next"), ("i64", "%count"), ("ptr", "%counts"), ("i64", "%varying"),
                       result="ptr"):
        ordered = _Words("%words", "null", "%next", "null")
        text.ret("ptr", _sort(text, lines, ordered, "%count", "%counts", "%varying", _digits(SAMPLE, lines.size)).words)

    def sort(words: str, others: str, count: str | int, varying: str) -> str:
        return text.call("ptr", text.use("@step.sort"), ("ptr", words), ("ptr", others), ("i64", count), ("ptr", counts), ("i64", varying))

    def spread(place: str, count: str) -> str:
        return text.lshr(text.mul(text.let(f"and i64 {text.mul(place, GOLDEN)}, {0xFFFFFFFF}"), count), 32)

    def bound(place: str, otherwise: int) -> str:
        inside = text.compare("ult", place, SAMPLE)
        return text.select(inside, lines.word, _word(text, lines, sample, text.select(inside, "i64", place, 0)), otherwise)

    room = text.at(words.next_words, lines.size, 2 * SAMPLE)
    source, target, other = elements, words.words, room
    if lines.distance > 1:
        with text.for_range(0, lines.count) as loop:
            text.store(lines.element, _element(text, lines, elements, loop.counter), text.at(words.words, lines.size, loop.counter),
                       align=lines.size)
        lines, source, target, other = replace(lines, distance=1), words.words, room, words.words
    with text.do_while([("ptr", source), ("ptr", target), ("ptr", other), ("i64", lines.count), ("i64", 0)]) as level:
        source, target, other, count, below = level.values
        varying = _write_words(text, lines, source, SAMPLE, words.next_words, number=lambda place: spread(place, count))
        sample = sort(words.next_words, text.at(words.next_words, lines.size, SAMPLE), SAMPLE, varying)
        low, high = (text.let(f"udiv i64 {text.mul(text.sub(place, below), SAMPLE)}, {count}") for place in
                     (lines.places.start, lines.places.stop))
        least, most = bound(text.sub(low, MARGIN), 0), bound(text.add(high, MARGIN), -1)
        span = text.let(f"sub {lines.word} {most}, {least}")
        smaller, kept = _each(text, lines, source, count, 2, lambda group, numbers: [
            group.count(group.compare("ult", least), numbers[0]),
            group.append(text.compare("ule", text.let(f"sub {group.type} {group.words}, {group.all(least)}"), group.all(span), group.type),
                         lines.element, group.elements, target, numbers[1])])
        before = text.add(below, smaller)
        inside = text.both(text.compare("sle", before, lines.places.start),
                           text.compare("sge", text.add(before, kept), lines.places.stop))
        alike = text.both(inside, text.compare("eq", span, 0, lines.word))      # then no more of them are needed than there are places
        kept, before = (text.select(alike, "i64", *pair) for pair in ((len(lines.places), kept), (lines.places.start, before)))
        useful = text.both(inside, text.compare("slt", kept, text.lshr(count, 1)))
        level.following = [text.select(useful, type, yes, no) for type, yes, no in (
            ("ptr", target, source), ("ptr", other, target), ("ptr", target, other), ("i64", kept, count), ("i64", before, below))]
        level.again = text.both(useful, text.compare("sgt", kept, SAMPLE))
    source, target, other, count, below = level.values
    varying = _write_words(text, lines, source, count, target)
    return _Words(sort(target, other, count, varying), "", "", ""), below


def _sort(text: StepBuilder, lines: _Lines, words: _Words, count: str, counts: str, varying: str, digits: int) -> _Words:
    """Sort the words, which differ in the bits `varying`, by one digit after the other, least significant first. The `digits` most
    significant ones put most words in order, and few moves the rest; if they do not differ enough for that, or the moves are not few after
    all, all digits are sorted by."""
    if digits == lines.size:
        _count_digits(text, lines, words, count, counts, digits)
        return _by_some_digits(text, lines, words, count, counts, "0", str(digits), varying)
    some_bit = text.let(f"or i64 {varying}, 1")
    top = text.lshr(text.sub(63, text.call("i64", "@llvm.ctlz.i64", ("i64", some_bit), ("i1", "false"))), 3)
    with text.do_while([*words.pointers(), ("i64", text.larger(text.sub(top, digits - 1), 0))]) as attempt:
        *pointers, start = attempt.values
        lower = text.sub(text.shl(1, text.shl(start, 3)), 1)
        complete = text.compare("eq", text.let(f"and i64 {varying}, {lower}"), 0)
        with text.do_while([*_Words(*pointers).pointers(), ("i64", start)]) as some:
            *pointers, first = some.values
            end, words = str(text.plus(first, digits)), _Words(*pointers)
            _count_digits(text, lines, words, count, counts, digits, text.shl(first, 3))
            enough = text.either(complete, _tell_apart(text, counts, count, digits))
            last = text.select(enough, "i64", text.smaller(end, text.add(top, 1)), first)
            words = _by_some_digits(text, lines, words, count, counts, first, last, varying)
            some.following = [*(pointer for _, pointer in words.pointers()), end]
            some.again = text.compare("sle", some.following[-1], top)
        *pointers, _ = some.values
        words = _Words(*pointers)
        beyond = text.select(enough, "i64", 0, text.plus(count, 1))
        with text.if_(text.both(enough, text.not_(complete)), [("i64", beyond)]) as moved:
            moved.following = [_insert(text, lines, words, count)]
        attempt.following = [*pointers, "0"]
        attempt.again = text.compare("sgt", moved.values[0], count)
    return words


def _digits(count: int, size: int) -> int:
    """Digits that mostly tell `count` random words from each other: three bits more than their number has, and a digit for those that are
    alike in most words, as in exponents of floats."""
    return min(size, ceil_div(count.bit_length() + 11, 8))


def _count_digits(text: StepBuilder, lines: _Lines, words: _Words, count: str, counts: str, digits: int, shift: str = "") -> None:
    """Count the words with each value of each of the digits from bit `shift` on."""
    text.call("void", "@llvm.memset.p0.i64", ("ptr", counts), ("i8", 0), ("i64", COUNT_BYTES * BUCKETS * digits), ("i1", "false"))
    with text.for_range(0, count) as loop:
        word = _widened(text, lines, _word(text, lines, words.words, loop.counter))
        word = text.lshr(word, shift) if shift else word
        for digit in range(digits):
            _increase(text, text.at(counts, COUNT_BYTES, digit * BUCKETS), _digit(text, word, str(8 * digit)))


def _tell_apart(text: StepBuilder, counts: str, count: str, digits: int) -> str:
    """True if the digits seem to tell most words from each other: their most frequent values take so many bits."""
    with text.for_range(0, BUCKETS, carried=[("i64", 0)] * digits) as loop:
        loop.following = [text.larger(most, _index(text, text.at(counts, COUNT_BYTES, digit * BUCKETS), loop.counter))
                          for digit, most in enumerate(loop.values)]
    zeros, *others = (text.call("i64", "@llvm.ctlz.i64", ("i64", number), ("i1", "false")) for number in (count, *loop.values))
    bits = "0"
    for other in others:
        bits = text.add(bits, text.sub(other, zeros))
    return text.compare("sge", text.add(bits, zeros), 64 - MISSING_BITS)


def _by_some_digits(text: StepBuilder, lines: _Lines, words: _Words, count: str, counts: str, first: str, end: str, varying: str) -> _Words:
    """Sort by the digits from `first` up to `end`, whose values are counted."""
    with text.for_range(first, end, carried=words.pointers(), empty=first != "0") as loop:
        words, shift = _Words(*loop.values), text.shl(loop.counter, 3)
        places = text.at(counts, COUNT_BYTES, (text.sub(loop.counter, first), BUCKETS))
        differs = text.compare("ne", text.let(f"and i64 {text.lshr(varying, shift)}, {BUCKETS - 1}"), 0)
        with text.if_(differs, words.pointers()) as moved:
            with text.for_range(0, BUCKETS, carried=[("i32", 0)]) as sums:
                pointer = text.at(places, COUNT_BYTES, sums.counter)
                size = text.load("i32", pointer, align=COUNT_BYTES)
                text.store("i32", sums.values[0], pointer, align=COUNT_BYTES)
                sums.following = [text.let(f"add i32 {sums.values[0]}, {size}")]
            with text.for_range(0, count) as each:
                word = _word(text, lines, words.words, each.counter)
                place = _increase(text, places, _digit(text, _widened(text, lines, word), shift))
                text.store(lines.word, word, text.at(words.next_words, lines.size, place), align=lines.size)
                if lines.of_indices:
                    text.store("i32", _short_index(text, words.indices, each.counter), text.at(words.next_indices, COUNT_BYTES, place),
                               align=COUNT_BYTES)
            moved.following = words.swapped()
        loop.following = moved.values
    return _Words(*loop.values)


def _insert(text: StepBuilder, lines: _Lines, words: _Words, count: str) -> str:
    """Move each word back to its place among those before it, and return the number of moves, which ends beyond `count`."""
    carried = [(lines.word, _word(text, lines, words.words, "0")), ("i64", "0")]
    with text.for_range(1, count, carried=carried, empty=True) as loop:
        last, moves = loop.values
        word = _word(text, lines, words.words, loop.counter)
        late = text.both(text.compare("ult", word, last, lines.word), text.compare("sle", moves, count))
        with text.if_(late, [("i64", moves)]) as found:
            index = _short_index(text, words.indices, loop.counter) if lines.of_indices else ""
            with text.do_while([("i64", loop.counter), ("i64", moves)]) as back:
                place, number = back.values
                before = text.sub(place, 1)
                text.store(lines.word, _word(text, lines, words.words, before), text.at(words.words, lines.size, place), align=lines.size)
                if index:
                    moved = _short_index(text, words.indices, before)
                    text.store("i32", moved, text.at(words.indices, COUNT_BYTES, place), align=COUNT_BYTES)
                back.following = [before, text.add(number, 1)]
                earlier = _word(text, lines, words.words, text.larger(text.sub(before, 1), 0))
                back.again = text.both(text.compare("ult", word, earlier, lines.word),
                                       text.both(text.compare("sgt", before, 0), text.compare("sle", number, count)))
            text.store(lines.word, word, text.at(words.words, lines.size, back.values[0]), align=lines.size)
            if index:
                text.store("i32", index, text.at(words.indices, COUNT_BYTES, back.values[0]), align=COUNT_BYTES)
            found.following = [back.values[1]]
        loop.following = [text.select(late, lines.word, last, word), found.values[0]]
    return loop.values[1]


def _order_zeros(text: StepBuilder, lines: _Lines, elements: str, words: str) -> None:
    """Give zeros of both signs, which are equal, the order that they had."""
    negative, positive = ~lines.sign, lines.sign
    with text.do_while([("i64", 0), ("i64", lines.count)]) as search:
        low, high = search.values
        middle = text.lshr(text.add(low, high), 1)
        smaller = text.let(f"icmp ult {lines.word} {_word(text, lines, words, middle)}, {positive}")
        search.following = [text.select(smaller, "i64", text.plus(middle, 1), low), text.select(smaller, "i64", high, middle)]
        search.again = text.compare("slt", *search.following)
    end = search.values[0]
    inside = text.both(text.compare("sgt", end, 0), text.compare("slt", end, lines.count))
    last, first = text.larger(text.sub(end, 1), 0), text.smaller(end, lines.count - 1)
    both = text.both(text.compare("eq", _word(text, lines, words, last), negative, lines.word),
                     text.compare("eq", _word(text, lines, words, first), positive, lines.word))
    with text.if_(text.both(inside, both)):
        with text.do_while([("i64", last)]) as back:
            before = text.larger(text.sub(back.values[0], 1), 0)
            again = text.both(text.compare("eq", _word(text, lines, words, before), negative, lines.word),
                              text.compare("sgt", back.values[0], 0))
            back.following, back.again = [text.select(again, "i64", before, back.values[0])], again
        with text.for_range(0, lines.count, carried=[("i64", back.values[0])]) as loop:
            element = _element(text, lines, elements, loop.counter)
            with text.if_(text.let(f"fcmp oeq {lines.element} {element}, 0.0"), [("i64", loop.values[0])]) as zero:
                text.store(lines.word, _to_word(text, lines, element), text.at(words, lines.size, loop.values[0]), align=lines.size)
                zero.following = [text.plus(loop.values[0], 1)]     # type: ignore[list-item]
            loop.following = zero.values


# -- groups of elements


@dataclass(frozen=True, slots=True)
class _Group:
    """Elements of a line that are looked at together, `lanes` from number `first` on. Without AVX-512, whose instruction brings chosen
    lanes together, each is looked at alone."""

    text: StepBuilder
    lines: _Lines
    lanes: int
    first: str
    active: str | None      # mask of the lanes within the line; None if all are
    elements: str
    words: str

    @property
    def type(self) -> str:
        return _several(self.lines.word, self.lanes)

    def all(self, word: str) -> str:
        return self.text.splat(self.lines.word, word, self.lanes) if self.lanes > 1 else word

    def compare(self, how: str, word: str) -> str:
        return self.text.compare(how, self.words, self.all(word), self.type)

    def chosen(self, mask: str) -> tuple[str, str]:
        """The mask within the line, and the number of its lanes."""
        if self.active:
            mask = self.text.let(f"and <{self.lanes} x i1> {mask}, {self.active}")
        if self.lanes == 1:
            return mask, self.text.let(f"zext i1 {mask} to i64")
        type = f"i{self.lanes}"
        bits = self.text.call(type, f"@llvm.ctpop.{type}", (type, self.text.let(f"bitcast <{self.lanes} x i1> {mask} to {type}")))
        return mask, self.text.convert("zext", type, bits, "i64")

    def numbers(self) -> str:
        """Places of the elements in the line."""
        if self.lanes == 1:
            return self.first
        lanes = ", ".join(f"i64 {lane}" for lane in range(self.lanes))
        return self.text.let(f"add <{self.lanes} x i64> {self.text.splat('i64', self.first, self.lanes)}, <{lanes}>")

    def count(self, mask: str, count: str) -> str:
        return self.text.add(count, self.chosen(mask)[1])

    def append(self, mask: str, element: str, values: str, to: str, count: str, exact: bool = False) -> str:
        """Write the chosen ones of `values` behind the `count` that there are, and return the new count. Unless `exact`, elements behind
        them are overwritten."""
        text, pointer = self.text, self.text.at(to, BYTES[element], count)
        mask, number = self.chosen(mask)
        if self.lanes == 1:
            text.store(element, values, pointer, align=BYTES[element])
            return text.add(count, number)
        vector = f"<{self.lanes} x {element}>"
        packed = text.call(vector, f"@llvm.x86.avx512.mask.compress.{text.suffix(self.lanes, element)}", (vector, values),
                           (vector, "zeroinitializer"), (f"<{self.lanes} x i1>", mask))
        text.store_vector(packed, pointer, text.first_lanes(number, self.lanes) if exact else None, element, lanes=self.lanes)
        return text.add(count, number)


def _each(text: StepBuilder, lines: _Lines, elements: str, count: str | int, numbers: int,
          look: Callable[[_Group, Sequence[str]], Sequence[str]], alike: bool = False, appends: bool = True) -> Sequence[str]:
    """Look at `count` elements, by groups. `numbers` is how many numbers are carried along, from 0 on; returns the last ones."""
    as_vector = lines.distance == 1 and ((text.target.avx512 and lines.size >= 4) or not appends)
    lanes = min(GROUP_BYTES // (INDEX_BYTES if lines.of_indices else lines.size), MAX_GROUP) if as_vector else 1
    with text.for_range(0, count, lanes, carried=[("i64", 0)] * numbers) as loop:
        first, active = loop.counter, None
        if lanes > 1 and (isinstance(count, str) or count % lanes):
            active = text.first_lanes(text.smaller(text.sub(count, first), lanes), lanes)
        several = text.load_vector(text.at(elements, lines.size, first), active, lines.element, lanes=lanes) if lanes > 1 else \
            _element(text, lines, elements, first)
        loop.following = look(_Group(text, lines, lanes, first, active, several, _to_word(text, lines, several, alike, lanes)), loop.values)
    return loop.values


# -- words


def _to_word(text: StepBuilder, lines: _Lines, element: str, alike: bool = False, lanes: int = 1) -> str:
    """The word of an element, or of each of several; where `alike`, zeros of both signs have one word, and so has each NaN. Else a NaN
    loses its sign."""
    def all(value: int) -> str:
        return text.splat(lines.word, value, lanes) if lanes > 1 else str(value)

    def select(condition: str, yes: str, no: str) -> str:
        return text.let(f"select {_several('i1', lanes)} {condition}, {word} {yes}, {word} {no}")

    word = _several(lines.word, lanes)
    if lines.kind != "f":
        return text.let(f"xor {word} {element}, {all(lines.sign)}") if lines.kind == "i" else element
    bits = text.let(f"bitcast {_several(lines.element, lanes)} {element} to {word}")
    size = text.let(f"and {word} {bits}, {all(~lines.sign)}")
    infinity = all({4: 0x7F800000, 8: 0x7FF0000000000000}[lines.size])
    bits = select(text.compare("eq", size, all(0), word) if alike else text.compare("ugt", size, infinity, word), size, bits)
    negative = text.let(f"ashr {word} {bits}, {all(8 * lines.size - 1)}")
    found = text.let(f"xor {word} {bits}, {text.let(f'or {word} {negative}, {all(lines.sign)}')}")
    return select(text.compare("ugt", size, infinity, word), all(-1), found) if alike else found


def _several(type: str, lanes: int) -> str:
    return type if lanes == 1 else f"<{lanes} x {type}>"


def _from_word(text: StepBuilder, lines: _Lines, word: str) -> str:
    """The element of a word."""
    if lines.kind != "f":
        return text.let(f"xor {lines.word} {word}, {lines.sign}") if lines.kind == "i" else word
    positive = text.let(f"ashr {lines.word} {word}, {8 * lines.size - 1}")
    flipped = text.let(f"or {lines.word} {text.let(f'xor {lines.word} {positive}, -1')}, {lines.sign}")
    return text.let(f"bitcast {lines.word} {text.let(f'xor {lines.word} {word}, {flipped}')} to {lines.element}")


def _digit(text: StepBuilder, word: str, shift: str) -> str:
    """The digit of a word of 64 bits, from bit `shift` on."""
    return text.let(f"and i64 {text.lshr(word, shift)}, {BUCKETS - 1}")


def _widened(text: StepBuilder, lines: _Lines, word: str) -> str:
    return word if lines.size == 8 else text.convert("zext", lines.word, word, "i64")


def _short_index(text: StepBuilder, pointer: str, number: str) -> str:
    return text.load("i32", text.at(pointer, COUNT_BYTES, number), align=COUNT_BYTES)


def _increase(text: StepBuilder, counts: str, bucket: str) -> str:
    """Add 1 to a count, and return what it was."""
    pointer = text.at(counts, COUNT_BYTES, bucket)
    count = text.load("i32", pointer, align=COUNT_BYTES)
    text.store("i32", text.let(f"add i32 {count}, 1"), pointer, align=COUNT_BYTES)
    return text.let(f"zext i32 {count} to i64")


def _index(text: StepBuilder, pointer: str, number: str) -> str:
    """An index of 32 bits, as a word of 64."""
    return text.let(f"zext i32 {_short_index(text, pointer, number)} to i64")


def _word(text: StepBuilder, lines: _Lines, words: str, number: str) -> str:
    return text.load(lines.word, text.at(words, lines.size, number), align=lines.size)


def _element(text: StepBuilder, lines: _Lines, elements: str, number: str | int) -> str:
    return text.load(lines.element, text.at(elements, lines.size, (number, lines.distance)), align=lines.size)


def _store_result(text: StepBuilder, lines: _Lines, results: str, place: str, value: str) -> None:
    type, size = ("i64", INDEX_BYTES) if lines.of_indices else (lines.element, lines.size)
    text.store(type, value, text.at(results, size, (text.sub(place, lines.places.start), lines.distance)), align=size)
