"""Functions of the rows of matrices as machine code, for any number of elements, where NumPy takes several times as long.

Sums of float32: a row is added in blocks of `BLOCK` elements, each by `LANES` sums of every `LANES`-th element, which are added in pairs:
the same bits on all processors. Sums of blocks are added in float64. Scans and products go through `TOGETHER` rows at a time, each element
by element, as NumPy does: no addition waits for the one before.
"""

from __future__ import annotations

from adjit.codegen.llvm.builder import BYTES, Builder, Variable
from adjit.codegen.llvm.link import CompiledObject
from adjit.codegen.llvm.object_code import emit_object
from adjit.codegen.llvm.target import TARGETS

SYMBOL = "adjit_rows"
LANES, BLOCK = 32, 2048
_WIDTH = 16         # lanes of one of the vectors that hold the sums
_VECTOR = f"<{_WIDTH} x float>"


_SLICES = 4
"""Slices that are added at a time: their sums are read and written once."""

TOGETHER = 8
"""Rows that a scan goes through at a time: about as many additions are computed while one is waited for."""

MANY = 16
"""Rows of which products are computed at a time, in vectors."""


def sums_text(target: str) -> str:
    """Sums of rows of float32: `x`, `sums`, number of rows, their length, and elements from one row to the next. For a target, which the
    first line names; the bits are the same for all."""
    text = Builder()
    with text.function(SYMBOL, "ptr %x", "ptr %sums", "i64 %rows", "i64 %length", "i64 %stride", result="void", linkage=""):
        lanes = [text.variable("zeroinitializer", _VECTOR) for _ in range(LANES // _WIDTH)]
        rest, total = text.variable("0.0", "float"), text.variable("0.0", "double")
        with text.for_range(0, "%rows", empty=True) as row:
            first = text.at("%x", 4, text.mul(row.counter, "%stride"))
            total.set("0.0")
            with text.for_range(0, "%length", BLOCK, empty=True) as block:
                start, count = text.at(first, 4, block.counter), text.smaller(text.sub("%length", block.counter), BLOCK)
                total.set(text.let(f"fadd double {total.value}, {_block_sum(text, lanes, rest, start, count)}"))
            rounded = text.let(f"fptrunc double {total.value} to float")
            text.store("float", rounded, text.at("%sums", 4, row.counter))
        text.ret()
    return f"; {target}\n{text}"


def _block_sum(text: Builder, lanes: list[Variable], rest: Variable, start: str, count: str) -> str:
    """Sum of `count` elements, as a float64. The last ones, which fill no vector, are added one by one."""
    def add(sum: Variable, type: str, place: str, number: int = 0) -> None:
        sum.set(text.let(f"fadd {type} {sum.value}, {text.load(type, text.at(start, 4, place), 4 * _WIDTH * number, align=4)}"))

    for lane in lanes:
        lane.set("zeroinitializer")
    rest.set("0.0")
    whole, vectors = (text.let(f"and i64 {count}, {-size}") for size in (LANES, _WIDTH))
    with text.for_range(0, whole, LANES, empty=True) as place:
        for number, lane in enumerate(lanes):
            add(lane, _VECTOR, place.counter, number)
    with text.for_range(whole, vectors, _WIDTH, empty=True) as place:
        add(lanes[0], _VECTOR, place.counter)
    with text.for_range(vectors, count, empty=True) as place:
        add(rest, "float", place.counter)
    found, left = text.let(f"fadd {_VECTOR} {lanes[0].value}, {lanes[1].value}"), _WIDTH
    while left > 1:
        left //= 2
        low, high = (text.let(f"shufflevector <{2 * left} x float> {found}, <{2 * left} x float> poison, <{left} x i32> <"
                              f"{', '.join(f'i32 {index}' for index in range(begin, begin + left))}>") for begin in (0, left))
        found = text.let(f"fadd <{left} x float> {low}, {high}")
    added = text.let(f"fadd float {text.let(f'extractelement <1 x float> {found}, i32 0')}, {rest.value}")
    return text.let(f"fpext float {added} to double")


def slices_text(target: str) -> str:
    """Sums of slices of float32: `x` (rows, slices, length), `sums` (rows, length), and rows, slices, length. Slices are added one after
    the other, as NumPy does. For a target, as `sums_text`."""
    text = Builder()
    params = ("ptr %x", "ptr %sums", "i64 %rows", "i64 %slices", "i64 %length")

    def add(sums: str, first: str, count: int, begins: bool) -> None:
        """Add `count` slices to the sums, or begin with the first of them."""
        sources = [text.at(first, 4, text.mul("%length", number)) for number in range(count)]
        whole = text.let(f"and i64 %length, {-_WIDTH}")
        for begin, end, step, type in (("0", whole, _WIDTH, _VECTOR), (whole, "%length", 1, "float")):
            with text.for_range(begin, end, step, empty=True) as place:
                to = text.at(sums, 4, place.counter)
                new = [text.load(type, text.at(source, 4, place.counter), align=4) for source in sources]
                total = new.pop(0) if begins else text.load(type, to, align=4)
                for one in new:
                    total = text.let(f"fadd {type} {total}, {one}")
                text.store(type, total, to, align=4)

    with text.function(SYMBOL, *params, result="void", linkage=""):
        several = text.add(text.let(f"and i64 {text.sub('%slices', 1)}, {-_SLICES}"), 1)
        with text.for_range(0, "%rows", empty=True) as row:
            sums = text.at("%sums", 4, text.mul(row.counter, "%length"))
            first = text.at("%x", 4, text.mul(text.mul(row.counter, "%slices"), "%length"))
            add(sums, first, 1, True)
            for begin, end, count in (("1", several, _SLICES), (several, "%slices", 1)):
                with text.for_range(begin, end, count, empty=True) as slice:
                    add(sums, text.at(first, 4, text.mul(slice.counter, "%length")), count, False)
        text.ret()
    return f"; {target}\n{text}"


def extrema_text(better: str) -> str:
    """Largest ("ogt") or smallest ("olt") elements of rows of float32: `x`, results, number of rows, their length. Returns 0, or 1 if an
    element is NaN: then the results mean nothing. Of zeros of both signs a result is either."""
    text = Builder("declare i32 @llvm.vector.reduce.or.v16i32(<16 x i32>)")
    bits = f"<{_WIDTH} x i32>"

    def chosen(type: str, old: str, new: str) -> str:
        mask = "i1" if type == "float" else type.replace("float", "i1")
        return text.let(f"select {mask} {text.let(f'fcmp {better} {type} {old}, {new}')}, {type} {old}, {type} {new}")

    with text.function(SYMBOL, "ptr %x", "ptr %results", "i64 %rows", "i64 %length", result="i64", linkage=""):
        lanes = [text.variable("zeroinitializer", _VECTOR) for _ in range(LANES // _WIDTH)]
        best, bad = text.variable("0.0", "float"), text.variable("zeroinitializer", bits)
        whole = text.let(f"and i64 %length, {-LANES}")
        with text.for_range(0, "%rows", empty=True) as row:
            start = text.at("%x", 4, text.mul(row.counter, "%length"))
            best.set(text.load("float", start))
            spread = text.let(f"insertelement {_VECTOR} poison, float {best.value}, i32 0")
            spread = text.let(f"shufflevector {_VECTOR} {spread}, {_VECTOR} poison, {bits} zeroinitializer")
            for lane in lanes:
                lane.set(spread)
            with text.for_range(0, whole, LANES, empty=True) as place:
                found = [text.load(_VECTOR, text.at(start, 4, place.counter), 4 * _WIDTH * number, align=4) for number in range(len(lanes))]
                for lane, new in zip(lanes, found, strict=True):
                    lane.set(chosen(_VECTOR, lane.value, new))
                is_nan = text.let(f"fcmp uno {_VECTOR} {found[0]}, {found[1]}")
                bad.set(text.let(f"or {bits} {bad.value}, {text.let(f'sext <{_WIDTH} x i1> {is_nan} to {bits}')}"))
            with text.for_range(whole, "%length", empty=True) as place:
                new = text.load("float", text.at(start, 4, place.counter))
                with text.if_(text.let(f"fcmp uno float {new}, {new}")):
                    text.ret("i64", 1)
                best.set(chosen("float", best.value, new))
            vector = chosen(_VECTOR, lanes[0].value, lanes[1].value)
            for number in range(_WIDTH):
                best.set(chosen("float", best.value, text.let(f"extractelement {_VECTOR} {vector}, i32 {number}")))
            text.store("float", best.value, text.at("%results", 4, row.counter))
        any = text.call("i32", "@llvm.vector.reduce.or.v16i32", (bits, bad.value))
        text.ret("i64", text.let(f"zext i1 {text.let(f'icmp ne i32 {any}, 0')} to i64"))
    return str(text)


def scan_text(combine: str, type: str, running: bool) -> str:
    """Products or, if `running`, results after each element: `x`, results, number of rows (`TOGETHER` or more), their length, the element
    to begin with and the step to the next one."""
    text, size = Builder(), BYTES[type]
    params = ("ptr %x", "ptr %results", "i64 %rows", "i64 %length", "i64 %first", "i64 %step")
    with text.function(SYMBOL, *params, result="void", linkage=""):
        totals = [text.variable("0.0", type) for _ in range(TOGETHER)]
        last = text.sub("%rows", TOGETHER)
        with text.for_range(0, "%rows", TOGETHER) as group:
            row = text.smaller(group.counter, last)
            begins = [text.add(text.mul(text.add(row, number), "%length"), "%first") for number in range(TOGETHER)]
            for total, begin in zip(totals, begins, strict=True):
                total.set(text.load(type, text.at("%x", size, begin)))
                if running:
                    text.store(type, total.value, text.at("%results", size, begin))
            with text.for_range(1, "%length", empty=True) as element:
                moved = text.mul(element.counter, "%step")
                for total, begin in zip(totals, begins, strict=True):
                    place = text.add(begin, moved)
                    total.set(text.let(f"{combine} {type} {total.value}, {text.load(type, text.at('%x', size, place))}"))
                    if running:
                        text.store(type, total.value, text.at("%results", size, place))
            if not running:
                for number, total in enumerate(totals):
                    text.store(type, total.value, text.at("%results", size, text.add(row, number)))
        text.ret()
    return str(text)


def products_text(type: str, target: str) -> str:
    """Products of rows: `x`, results, number of rows (`MANY` or more), their length. Rows are the lanes of vectors: some elements of as
    many rows are turned at a time, and each row is multiplied in its order. For a target, which the first line names: with AVX half as
    many instructions turn two such blocks at once."""
    text, size = Builder(), BYTES[type]
    width = 16 // size
    lanes = 2 * width
    vector, part = f"<{lanes} x {type}>", f"<{width} x {type}>"
    ones = f"<{', '.join([f'{type} 1.0'] * lanes)}>"

    def picked(kind: str, first: str, second: str, *places: int) -> str:
        indices = ", ".join(f"i32 {place}" for place in places)
        return text.let(f"shufflevector {kind} {first}, {kind} {second}, <{len(places)} x i32> <{indices}>")

    def zipped(first: str, second: str, *places: int) -> str:
        """Elements of two vectors in both halves; places from `width` on are those of the second."""
        places = tuple(place if place < width else place + width for place in places)
        return picked(vector, first, second, *places, *(place + width for place in places))

    def turned(rows: list[str]) -> list[str]:
        if width == 2:
            return [zipped(rows[0], rows[1], *places) for places in ((0, 2), (1, 3))]
        columns = []
        for places in ((0, 4, 1, 5), (2, 6, 3, 7)):
            top, bottom = zipped(rows[0], rows[1], *places), zipped(rows[2], rows[3], *places)
            columns += [zipped(top, bottom, 0, 1, 4, 5), zipped(top, bottom, 2, 3, 6, 7)]
        return columns

    with text.function(SYMBOL, "ptr %x", "ptr %results", "i64 %rows", "i64 %length", result="void", linkage=""):
        totals = [text.variable(ones, vector) for _ in range(MANY // lanes)]
        last, whole = text.sub("%rows", MANY), text.let(f"and i64 %length, {-width}")
        steps = [text.mul("%length", number) for number in range(lanes)]
        with text.for_range(0, "%rows", MANY) as group:
            row = text.smaller(group.counter, last)
            begins = [text.at("%x", size, text.mul(text.add(row, number), "%length")) for number in range(0, MANY, lanes)]
            for total in totals:
                total.set(ones)
            with text.for_range(0, whole, width, empty=True) as element:
                for begin, total in zip(begins, totals, strict=True):
                    place = text.at(begin, size, element.counter)
                    rows = [text.load(part, text.at(place, size, step), align=size) for step in steps]
                    for column in turned([picked(part, rows[k], rows[k + width], *range(lanes)) for k in range(width)]):
                        total.set(text.let(f"fmul {vector} {total.value}, {column}"))
            with text.for_range(whole, "%length", empty=True) as element:
                for begin, total in zip(begins, totals, strict=True):
                    place, column = text.at(begin, size, element.counter), "poison"
                    for lane, step in enumerate(steps):
                        x = text.load(type, text.at(place, size, step))
                        column = text.let(f"insertelement {vector} {column}, {type} {x}, i32 {lane}")
                    total.set(text.let(f"fmul {vector} {total.value}, {column}"))
            for number, total in enumerate(totals):
                text.store(vector, total.value, text.at("%results", size, text.add(row, lanes * number)), align=size)
        text.ret()
    return f"; {target}\n{text}"


def indexed_text(type: str, adds: bool) -> str:
    """Elements of rows at indices, or additions to them: rows, indices, elements, number of rows, their length, indices of each. Negative
    indices count from the end. Returns 0, or 1 at an index that is out of range."""
    text, size = Builder(), BYTES[type]
    params = ("ptr %x", "ptr %indices", "ptr %elements", "i64 %rows", "i64 %length", "i64 %count")
    with text.function(SYMBOL, *params, result="i64", linkage=""):
        with text.for_range(0, "%rows", empty=True) as row:
            first, start = text.mul(row.counter, "%length"), text.mul(row.counter, "%count")
            with text.for_range(0, "%count", empty=True) as element:
                place = text.add(start, element.counter)
                index = text.load("i64", text.at("%indices", 8, place))
                index = text.add(index, text.select(text.compare("slt", index, 0), "i64", "%length", 0))
                with text.if_(text.compare("uge", index, "%length")):
                    text.ret("i64", 1)
                at, beside = text.at("%x", size, text.add(first, index)), text.at("%elements", size, place)
                if adds:
                    text.store(type, text.let(f"fadd {type} {text.load(type, at)}, {text.load(type, beside)}"), at)
                else:
                    text.store(type, text.load(type, at), beside)
        text.ret("i64", 0)
    return str(text)


def additions_text(type: str) -> str:
    """Additions to whole slices: `x` (outer, slices, length), indices, elements (outer, count, length), and outer, count, slices, length.
    The indices were checked. Those for one slice are added in their order, so the bits are those of `np.add.at`."""
    text, size = Builder(), BYTES[type]
    params = ("ptr %x", "ptr %indices", "ptr %elements", "i64 %outer", "i64 %count", "i64 %slices", "i64 %length")

    def add(type: str, target: str, source: str, place: str) -> None:
        to = text.at(target, size, place)
        total = text.let(f"fadd {type} {text.load(type, to, align=size)}, {text.load(type, text.at(source, size, place), align=size)}")
        text.store(type, total, to, align=size)

    with text.function(SYMBOL, *params, result="void", linkage=""):
        whole = text.let(f"and i64 %length, {-_WIDTH}")
        with text.for_range(0, "%outer", empty=True) as outer, text.for_range(0, "%count", empty=True) as number:
            index = text.load("i64", text.at("%indices", 8, number.counter))
            target, source = (text.at(array, size, text.mul(text.add(text.mul(outer.counter, many), place), "%length"))
                              for array, many, place in (("%x", "%slices", index), ("%elements", "%count", number.counter)))
            with text.for_range(0, whole, _WIDTH, empty=True) as place:
                add(f"<{_WIDTH} x {type}>", target, source, place.counter)
            with text.for_range(whole, "%length", empty=True) as place:
                add(type, target, source, place.counter)
        text.ret()
    return str(text)


def fill_text(target: str) -> str:
    """Fill with eight bytes again and again: `x`, at a multiple of 8 bytes, those bytes, number of bytes, a multiple of 4. For a target, as
    `products_text`: AVX-512 writes a line of the cache at once, which then need not be read first."""
    text = Builder()

    def fill(begin: str, end: str, step: int, type: str, value: str) -> None:
        with text.for_range(begin, end, step, empty=True) as place:
            text.store(type, value, text.at("%x", 1, place.counter), align=step)

    with text.function(SYMBOL, "ptr %x", "i64 %word", "i64 %count", result="void", linkage=""):
        address = text.let("ptrtoint ptr %x to i64")
        head = text.smaller(text.let(f"and i64 {text.sub(0, address)}, 63"), text.let("and i64 %count, -8"))
        whole = text.add(head, text.let(f"and i64 {text.sub('%count', head)}, -64"))
        words = text.let("and i64 %count, -8")
        spread = text.let("insertelement <8 x i64> poison, i64 %word, i32 0")
        spread = text.let(f"shufflevector <8 x i64> {spread}, <8 x i64> poison, <8 x i32> zeroinitializer")
        fill("0", head, 8, "i64", "%word")
        fill(head, whole, 64, "<8 x i64>", spread)
        fill(whole, words, 8, "i64", "%word")
        fill(words, "%count", 4, "i32", text.let("trunc i64 %word to i32"))
        text.ret()
    return f"; {target}\n{text}"


def compile_rows(text: str) -> CompiledObject:
    """Object code of a function, for the target in its first line, or any x86-64."""
    target = TARGETS.get(text.partition("\n")[0].removeprefix("; "), TARGETS["sse2"])
    return CompiledObject(emit_object(text, target, verify=True, promote=True), SYMBOL)
