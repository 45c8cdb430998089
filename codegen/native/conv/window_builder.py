"""Builder of steps over windows: stack arrays, masked vectors, elements of padded rows, strided and interleaved lanes."""

from __future__ import annotations

from collections.abc import Sequence

from adjit.codegen.llvm.builder import Term
from adjit.codegen.native.program_code import StepCode
from adjit.codegen.native.step_builder import StepBuilder

MAX_SHUFFLED_STRIDE = 4
"""Strides up to which whole vectors are loaded and shuffled, instead of gathered."""


class WindowBuilder(StepBuilder):
    """A builder of a step over windows."""

    def array(self, elements: int) -> str:
        """Scratch memory for an array."""
        return self.scratch(elements * self.bytes)

    def clear(self, pointer: str, elements: int) -> None:
        self.call("void", "@llvm.memset.p0.i64", ("ptr", pointer), ("i8", "0"), ("i64", str(elements * self.bytes)), ("i1", "false"))

    def linear(self, *terms: Term) -> str:
        """The sum of terms: numbers, values, and values times numbers."""
        total = "0"
        for term in terms:
            value, factor = term if isinstance(term, tuple) else (term, 1)
            if isinstance(value, int):
                value, factor = str(value * factor), 1
            if value == "0" or factor == 0:
                continue
            product = value if factor == 1 else self.let(f"mul nsw i64 {value}, {factor}")
            total = product if total == "0" else self.let(f"add nsw i64 {total}, {product}")
        return total

    def digits(self, number: str, *sizes: int) -> list[str]:
        """Digits of a number in the mixed radix `sizes`, most significant first; the first digit is the remaining quotient."""
        digits: list[str] = []
        for size in reversed(sizes):
            digits.append("0" if size == 1 else self.let(f"urem i64 {number}, {size}"))
            number = number if size == 1 else self.let(f"udiv i64 {number}, {size}")
        return [number, *reversed(digits)]

    def mask_below(self, count: str) -> str:
        """Mask of the lanes whose number is below `count`."""
        return self.let(f"icmp slt <{self.lanes} x i32> {self._lane_numbers()}, {self.spread_number(count)}")

    def masked_store(self, value: str, pointer: str, mask: str) -> None:
        """Write the lanes in the mask. Before AVX-512 a full mask is written by a plain store, for the reason given in `store_first`."""
        kind = f"<{self.lanes} x i1>"
        arguments = (self.vector, value), ("ptr", pointer), ("i32", str(self.bytes)), (kind, mask)
        if self.target.avx512:
            self.call("void", f"@llvm.masked.store.{self.suffix()}.p0", *arguments)
            return
        bits = self.let(f"bitcast {kind} {mask} to i{self.lanes}")
        with self.if_(self.let(f"icmp eq i{self.lanes} {bits}, -1")):
            self.store_vector(value, pointer)
        with self.if_(self.let(f"icmp ne i{self.lanes} {bits}, -1")):
            self.call("void", f"@llvm.masked.store.{self.suffix()}.p0", *arguments)

    def inside(self, start: str, limit: str, stride: int = 1) -> str:
        """Mask of the lanes whose positions `start`, `start + stride`, ... are at least 0 and below `limit`."""
        kind = f"<{self.lanes} x i32>"
        return self.let(f"icmp ult {kind} {self._positions(start, stride)}, {self.spread_number(limit)}")     # unsigned: negatives wrap

    def _positions(self, start: str, stride: int) -> str:
        return self.let(f"add <{self.lanes} x i32> {self.spread_number(start)}, {self._lane_numbers(stride)}")

    def row_elements(self, row: str, start: str, limit: str, stride: int, spread: int, filler: str = "zeroinitializer") -> str:
        """Elements `start`, `start + stride`, ... of a padded row. Positions below `limit` that are multiples of `spread` hold an element
        of the row in memory (position 0 is its first one); the other lanes get `filler`."""
        kind, bools = f"<{self.lanes} x i32>", f"<{self.lanes} x i1>"
        mask = self.inside(start, limit, stride)
        if spread == stride == 1:
            return self.load_vector(self.at(row, self.scalar, start), mask, filler=filler)
        position = self._positions(start, stride)
        if spread > 1:
            steps = self._constants([spread] * self.lanes)
            whole = self.let(f"icmp eq {kind} {self.let(f'urem {kind} {position}, {steps}')}, zeroinitializer")
            mask = self.let(f"and {bools} {mask}, {whole}")
            position = self.let(f"udiv {kind} {position}, {steps}")
        wide = self.let(f"sext {kind} {position} to <{self.lanes} x i64>")
        return self.gather(row, (f"<{self.lanes} x i64>", wide), mask, filler=filler)

    def scatter(self, value: str, pointer: str, stride: int, mask: str) -> None:
        """Store the lanes in the mask at a distance of `stride` elements."""
        numbers = f"<{', '.join(f'i64 {lane * stride}' for lane in range(self.lanes))}>"
        self.call("void", f"@llvm.masked.scatter.{self.suffix()}.v{self.lanes}p0", (self.vector, value),
                  (f"<{self.lanes} x ptr>", self._addresses(pointer, numbers)), ("i32", str(self.bytes)), (f"<{self.lanes} x i1>", mask))

    def _addresses(self, pointer: str, numbers: str) -> str:
        return self.let(f"getelementptr {self.scalar}, ptr {pointer}, <{self.lanes} x i64> {numbers}")

    def picked(self, vectors: Sequence[str], first: int) -> str:
        """Every `len(vectors)`-th lane of consecutive vectors, from lane `first` on."""
        result = vectors[0]
        places = [divmod(first + lane * len(vectors), self.lanes) for lane in range(self.lanes)]
        for index, vector in enumerate(vectors):
            if index == 0:
                order = [lane if number == 0 else at for at, (number, lane) in enumerate(places)]
                if order != list(range(self.lanes)):
                    result = self.shuffle(self.vector, vector, "poison", order)
            elif any(number == index for number, _ in places):
                result = self.shuffle(self.vector, result, vector, [self.lanes + lane if number == index else at
                                                       for at, (number, lane) in enumerate(places)])
        return result

    def interleaved(self, parts: Sequence[str], number: int) -> str:
        """Vector `number` of the interleaved lanes of `parts`."""
        places = [divmod(number * self.lanes + at, len(parts)) for at in range(self.lanes)]
        result = "zeroinitializer"
        for index, part in enumerate(parts):
            if part != "zeroinitializer":
                result = self.shuffle(self.vector, result, part, [self.lanes + lane if own == index else at for at,
                                                                  (lane, own) in enumerate(places)])
        return result

    def _lane_numbers(self, stride: int = 1) -> str:
        return self._constants([lane * stride for lane in range(self.lanes)])

    def _constants(self, numbers: Sequence[int]) -> str:
        return f"<{', '.join(f'i32 {number}' for number in numbers)}>"

    def spread_number(self, number: str) -> str:
        if number[0] == "%":
            number = self.let(f"trunc i64 {number} to i32")
        return self.splat("i32", number)


def zeros(text: WindowBuilder, place: int, elements: int) -> StepCode:
    """The step that fills result `place` with zeros."""
    with text.step():
        text.clear(text.place(place), elements)
    return text.code(1, elements * text.bytes / 8)
