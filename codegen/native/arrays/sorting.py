"""Steps of `sort` and `argsort`: short lines by the ranks of their elements, others by digits, least significant first (radix sort).

Elements become words that order as they do, without sign: then no element is compared with another. A part of the sorted elements, as for a
median, is looked for by the most significant digits, which leaves few words to sort.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import nullcontext

from adjit.codegen.llvm.builder import Typed
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

WIDE_BITS = 16
"""Bits of a digit by which a part is looked for."""

SEARCHED_PART, MAX_LEFT = 8, 1 << 11
"""Part of a line that is looked for rather than sorted for, if it is one of so many; and elements that are few enough to sort."""

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
        return self.size * (NS_PER_DIGIT * (1 + self.of_indices) * self.count + NS_PER_BUCKET * BUCKETS)


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
        room = ceil_div(lines.count, lines.lanes(text)) * lines.lanes(text)
        sizes = [lines.size, COUNT_BYTES * lines.of_indices] * 2
        words = [text.scratch(room * (0 if lines.use_results and number == 2 else size)) for number, size in enumerate(sizes)]
        counts = text.scratch(COUNT_BYTES * ((1 << min(WIDE_BITS, 8 * lines.size)) if lines.is_searched else BUCKETS * lines.size))
        for _, task in text.parts([task_split.tasks]):
            with text.iterations(task, extents, task_split) as (outer, column):
                elements = text.at(source, lines.size, (outer, lines.count * after), (column, 1))
                results = text.at(to, INDEX_BYTES if lines.of_indices else lines.size, (outer, len(places) * after), (column, 1))
                memory = _Words(words[0], words[1], results, words[3]) if lines.use_results else _Words(*words)
                (_by_ranks if lines.is_short else _by_digits)(text, lines, elements, results, memory, counts)
    return (text.code(task_split.tasks, work),)


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
    with text.for_range(0, lines.count) as loop:
        word = _to_word(text, lines, _element(text, lines, elements, loop.counter), alike=lines.of_indices)
        text.store(lines.word, word, text.at(words.words, lines.size, loop.counter), align=lines.size)
        if lines.of_indices:
            index = text.let(f"trunc i64 {loop.counter} to i32")
            text.store("i32", index, text.at(words.indices, COUNT_BYTES, loop.counter), align=COUNT_BYTES)
    count, below = str(lines.count), "0"
    if lines.is_searched:
        words, count, below = _search(text, lines, words, counts)
    words = _sort(text, lines, words, count, counts)
    if lines.kind == "f" and not lines.of_indices and not lines.is_searched:
        _order_zeros(text, lines, elements, words.words)
    with text.for_range(lines.places.start, lines.places.stop) as loop:
        place = text.sub(loop.counter, below)
        _store_result(text, lines, results, loop.counter, _index(text, words.indices, place) if lines.of_indices else
                      _from_word(text, lines, _word(text, lines, words.words, place)))


def _search(text: StepBuilder, lines: _Lines, words: _Words, counts: str) -> tuple[_Words, str, str]:
    """Leave the words whose most significant digits are those of the places, and say how many they are, and how many smaller ones there
    were. The words have one digit after the other in common, until they are few or end, or the places have two digits."""
    bits = min(WIDE_BITS, 8 * lines.size)
    nbytes = COUNT_BYTES << bits
    carried: list[Typed] = [*words.pointers(), ("i64", lines.count), ("i64", 0), ("i64", 8 * lines.size - bits)]
    with text.do_while(carried) as level:
        *pointers, count, below, shift = level.values
        words = _Words(*pointers)
        text.call("void", "@llvm.memset.p0.i64", ("ptr", counts), ("i8", 0), ("i64", nbytes), ("i1", "false"))
        with text.for_range(0, count) as loop:
            _increase(text, counts, _digit(text, lines, _word(text, lines, words.words, loop.counter), shift, bits))
        first, before = _bucket_of(text, counts, text.sub(lines.places.start, below), "0", "0")
        last, start_of_last = _bucket_of(text, counts, text.sub(lines.places.stop - 1, below), first, before)
        left = text.sub(text.add(start_of_last, _index(text, counts, last)), before)
        some = text.compare("ne", left, count)
        with text.if_(some, words.pointers()) as cut:
            with text.for_range(0, count, carried=[("i64", 0)]) as loop:
                (place,) = loop.values
                word = _word(text, lines, words.words, loop.counter)
                text.store(lines.word, word, text.at(words.next_words, lines.size, place), align=lines.size)
                digit = text.sub(_digit(text, lines, word, shift, bits), first)
                kept = text.compare("ule", digit, text.sub(last, first))
                loop.following = [text.add(place, text.let(f"zext i1 {kept} to i64"))]
            cut.following = words.swapped()
        lower = text.sub(shift, bits)
        level.following = [*cut.values, left, text.add(below, before), lower]
        level.again = text.both(text.both(text.compare("eq", first, last), text.compare("sgt", left, MAX_LEFT)),
                                text.compare("sge", lower, 0))
    *pointers, count, below, _ = level.values
    return _Words(*pointers), count, below


def _bucket_of(text: StepBuilder, counts: str, place: str, first: str, before: str) -> tuple[str, str]:
    """The bucket, from `first` on, that has the word at a place, and the number of words before it."""
    with text.do_while([("i64", first), ("i64", before)]) as loop:
        bucket, start = loop.values
        end = text.add(start, _index(text, counts, bucket))
        beyond = text.compare("sle", end, place)
        loop.following = [text.add(bucket, text.let(f"zext i1 {beyond} to i64")), text.select(beyond, "i64", end, start)]
        loop.again = beyond
    return loop.values[0], loop.values[1]


def _sort(text: StepBuilder, lines: _Lines, words: _Words, count: str, counts: str) -> _Words:
    """Sort the words by one digit after the other, least significant first. Digits that all words share are left out."""
    text.call("void", "@llvm.memset.p0.i64", ("ptr", counts), ("i8", 0), ("i64", COUNT_BYTES * BUCKETS * lines.size), ("i1", "false"))
    with text.for_range(0, count) as loop:
        word = _word(text, lines, words.words, loop.counter)
        for digit in range(lines.size):
            _increase(text, text.at(counts, COUNT_BYTES, digit * BUCKETS), _digit(text, lines, word, str(8 * digit), 8))
    with text.for_range(0, lines.size, carried=words.pointers()) as digits:
        words, shift = _Words(*digits.values), text.shl(digits.counter, 3)
        places = text.at(counts, COUNT_BYTES, (digits.counter, BUCKETS))
        first = _digit(text, lines, _word(text, lines, words.words, "0"), shift, 8)
        with text.if_(text.compare("ne", _index(text, places, first), count), words.pointers()) as moved:
            with text.for_range(0, BUCKETS, carried=[("i32", 0)]) as loop:
                pointer = text.at(places, COUNT_BYTES, loop.counter)
                size = text.load("i32", pointer, align=COUNT_BYTES)
                text.store("i32", loop.values[0], pointer, align=COUNT_BYTES)
                loop.following = [text.let(f"add i32 {loop.values[0]}, {size}")]
            with text.for_range(0, count) as loop:
                word = _word(text, lines, words.words, loop.counter)
                place = _increase(text, places, _digit(text, lines, word, shift, 8))
                text.store(lines.word, word, text.at(words.next_words, lines.size, place), align=lines.size)
                if lines.of_indices:
                    index = text.load("i32", text.at(words.indices, COUNT_BYTES, loop.counter), align=COUNT_BYTES)
                    text.store("i32", index, text.at(words.next_indices, COUNT_BYTES, place), align=COUNT_BYTES)
            moved.following = words.swapped()
        digits.following = moved.values
    return _Words(*digits.values)


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


# -- words


def _to_word(text: StepBuilder, lines: _Lines, element: str, alike: bool = False) -> str:
    """The word of an element; where `alike`, zeros of both signs have one word, and so has each NaN. Else a NaN loses its sign."""
    word = lines.word
    if lines.kind != "f":
        return text.let(f"xor {word} {element}, {lines.sign}") if lines.kind == "i" else element
    bits = text.let(f"bitcast {lines.element} {element} to {word}")
    size = text.let(f"and {word} {bits}, {~lines.sign}")
    infinity = {4: 0x7F800000, 8: 0x7FF0000000000000}[lines.size]
    special = text.compare("eq", size, 0, word) if alike else text.compare("ugt", size, infinity, word)
    bits = text.select(special, word, size, bits)
    negative = text.let(f"ashr {word} {bits}, {8 * lines.size - 1}")
    found = text.let(f"xor {word} {bits}, {text.let(f'or {word} {negative}, {lines.sign}')}")
    return text.select(text.compare("ugt", size, infinity, word), word, -1, found) if alike else found


def _from_word(text: StepBuilder, lines: _Lines, word: str) -> str:
    """The element of a word."""
    if lines.kind != "f":
        return text.let(f"xor {lines.word} {word}, {lines.sign}") if lines.kind == "i" else word
    positive = text.let(f"ashr {lines.word} {word}, {8 * lines.size - 1}")
    flipped = text.let(f"or {lines.word} {text.let(f'xor {lines.word} {positive}, -1')}, {lines.sign}")
    return text.let(f"bitcast {lines.word} {text.let(f'xor {lines.word} {word}, {flipped}')} to {lines.element}")


def _digit(text: StepBuilder, lines: _Lines, word: str, shift: str, bits: int) -> str:
    """The digit of `bits` bits from bit `shift` on."""
    wide = word if lines.size == 8 else text.let(f"zext {lines.word} {word} to i64")
    return text.let(f"and i64 {text.lshr(wide, shift) if shift != '0' else wide}, {(1 << bits) - 1}")


def _increase(text: StepBuilder, counts: str, bucket: str) -> str:
    """Add 1 to a count, and return what it was."""
    pointer = text.at(counts, COUNT_BYTES, bucket)
    count = text.load("i32", pointer, align=COUNT_BYTES)
    text.store("i32", text.let(f"add i32 {count}, 1"), pointer, align=COUNT_BYTES)
    return text.let(f"zext i32 {count} to i64")


def _index(text: StepBuilder, pointer: str, number: str) -> str:
    """A count or an index of 32 bits, as a word of 64."""
    return text.let(f"zext i32 {text.load('i32', text.at(pointer, COUNT_BYTES, number), align=COUNT_BYTES)} to i64")


def _word(text: StepBuilder, lines: _Lines, words: str, number: str) -> str:
    return text.load(lines.word, text.at(words, lines.size, number), align=lines.size)


def _element(text: StepBuilder, lines: _Lines, elements: str, number: str | int) -> str:
    return text.load(lines.element, text.at(elements, lines.size, (number, lines.distance)), align=lines.size)


def _store_result(text: StepBuilder, lines: _Lines, results: str, place: str, value: str) -> None:
    type, size = ("i64", INDEX_BYTES) if lines.of_indices else (lines.element, lines.size)
    text.store(type, value, text.at(results, size, (text.sub(place, lines.places.start), lines.distance)), align=size)
