"""QR factors, singular values and eigenvalues of Hermitian matrices. A block of threads works on a matrix of a stack, in the memory of the
results, or in working memory where they have no room for a matrix. This is for stacks of small matrices: a large one keeps one
multiprocessor busy.

QR factors: Householder's reflections, as LAPACK's `geqr2` and `geqp3`. Singular values: Jacobi's rotations of pairs of columns (Hestenes),
in rounds in which no two pairs have a column in common. Hermitian matrices: reduction to a tridiagonal matrix by reflections, and QL steps
with implicit shifts; one thread finds the rotations of a step, then each thread turns its rows of the vectors.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from adjit.codegen.cuda.arrays.matrix_text import Matrix, MatrixText, Number
from adjit.codegen.cuda.kernel import Launch
from adjit.codegen.cuda.target import FLAT_THREADS, MAX_STATIC_SHARED_BYTES, WARP
from adjit.codegen.cuda.text import SHARED
from adjit.codegen.cuda.writer import Memory
from adjit.codegen.native.kernels.builder import Index
from adjit.ir.errors import UnsupportedError
from adjit.ir.graph import Op
from adjit.ir.types import I64, real_dtype

MAX_SWEEPS, MAX_STEPS = 40, 60
"""Rounds through all pairs of columns, and steps for one eigenvalue, after which a matrix has no result: NaN. LAPACK takes 30 and 30."""

_ROOM_FOR_SUMS = 4096
"""Bytes of shared memory for the sums of a block."""


class Line:
    """Numbers in shared memory, real ones or elements; from byte `start` on, or behind everything else."""

    def __init__(self, text: MatrixText, count: int, real: bool, start: int = -1):
        self.text, self.dtype = text, text.real if real else text.number_dtype
        self.type, self.is_complex = text.element(self.dtype), text.is_complex and not real
        self.start = text.reserve_shared(count * self.dtype.itemsize) if start < 0 else start

    def get(self, index: Index) -> Number:
        place = self.text.shared_place(self.start, self.type, index)
        name = self.text.let(f"load {self.type}, ptr addrspace({SHARED}) {place}, align {real_dtype(self.dtype).itemsize}")
        return Number(self.text, name, self.is_complex)

    def put(self, index: Index, value: Number) -> None:
        place = self.text.shared_place(self.start, self.type, index)
        self.text.do(f"store {self.type} {value.name}, ptr addrspace({SHARED}) {place}, align {real_dtype(self.dtype).itemsize}")


def block_text(op: Op, size: int, shared_bytes: int, work: int = 0, dtype: np.dtype | None = None) -> MatrixText:
    """The text of a kernel with a block a matrix; raises `UnsupportedError` if numbers in shared memory are too many."""
    if shared_bytes > MAX_STATIC_SHARED_BYTES - _ROOM_FOR_SUMS:
        rows, columns = op.operands[0].type.shape[-2:]
        raise UnsupportedError(f"{op.name} of {rows} x {columns} matrices has no code for the device 'cuda' yet", op.loc,
                               hint="omit device= to compile for the CPU")
    return MatrixText(op, WARP if size <= WARP else FLAT_THREADS, work, dtype)


def _sizes(op: Op) -> tuple[int, int, int]:
    """Rows and columns of the matrices, and how many there are."""
    *stack, rows, columns = op.operands[0].type.shape
    return rows, columns, math.prod(stack)


def _put_first(text: MatrixText, thread: str, put: Callable[[], None]) -> None:
    """One thread stores a number; all wait for it."""
    with text.where(text.compare("eq", thread, 0)):
        put()
    text.barrier()


def _copy(text: MatrixText, thread: str, source: Matrix, target: Matrix, rows: int, columns: int,
          change: Callable[[Number], Number] = lambda value: value) -> None:
    with text.shared_out(thread, rows * columns) as number:
        i, j = text.divided(number, columns)
        target.put(i, j, change(source.get(i, j)))


def is_bad(text: MatrixText, thread: str, source: Matrix, rows: int, columns: int) -> str:
    """True in all threads if an element is not finite."""
    def zero(number: str) -> Number:
        value = source.get(*text.divided(number, columns))
        return value.real * 0.0 + value.imag * 0.0

    return text.not_(text.sum_of_block(thread, rows * columns, zero).is_zero())


def scale_of(text: MatrixText, thread: str, source: Matrix, rows: int, columns: int) -> tuple[Number, Number]:
    """A power of two near the largest part of an element, and its inverse: squares neither overflow nor vanish."""
    def size(number: str) -> Number:
        value = source.get(*text.divided(number, columns))
        real, imag = abs(value.real), abs(value.imag)
        return real.where(real.over(imag), imag)

    power = text.power_of_two(text.largest_of_block(thread, rows * columns, size))
    return power, text.real_of(1.0) / power

# -- reflections


def reflection(text: MatrixText, thread: str, m: Matrix, row: Index, column: Index, rows: int) -> Number:
    """Find the reflection 1 - tau v vᴴ that leaves one number of a column from `row` on, in its first element: v, without its first element
    of 1, takes the place of the others. Returns tau. As LAPACK's `larfg`."""
    alpha, below = m.get(row, column), text.plus(row, 1)
    rest = text.sum_of_block(thread, rows, lambda i: m.get(i, column).square(), below)
    is_done = text.both(rest.is_zero(), alpha.imag.is_zero()) if text.is_complex else rest.is_zero()
    beta = alpha.real.where(is_done, -(alpha.square() + rest).sqrt().with_sign_of(alpha.real))
    is_open = text.not_(is_done)
    tau = ((text.of(text.of_parts(beta.name)) - alpha) / beta).where(is_open, 0.0)
    scale = (text.of(text.of_parts(text.literal(1, text.real))) / (alpha - beta)).where(is_open, 0.0)
    with text.shared_out(thread, rows, below) as i:
        m.put(i, column, m.get(i, column) * scale)
    _put_first(text, thread, lambda: m.put(row, column, beta))
    return tau


def reflect(text: MatrixText, thread: str, m: Matrix, v: Callable[[Index], Number], tau: Number, row: Index, rows: int, first: Index,
             columns: int) -> None:
    """Apply 1 - tau v vᴴ from the left to columns from `first` on; v begins at `row`, with 1. A thread works on a column."""
    below = text.plus(row, 1)
    with text.shared_out(thread, columns, first) as j:
        top = m.get(row, j)
        with text.for_range(below, rows, 1, [(text.type, top.name)], empty=True) as sum:
            sum.following = [(text.of(sum.values[0]) + v(sum.counter).conjugate() * m.get(sum.counter, j)).name]
        found = tau * text.of(sum.values[0])
        m.put(row, j, top - found)
        with text.for_range(below, rows, empty=True) as loop:
            m.put(loop.counter, j, m.get(loop.counter, j) - v(loop.counter) * found)


def _factor(text: MatrixText, thread: str, m: Matrix, rows: int, columns: int, keep: Callable[[str, Number], None],
            before: Callable[[str], None] = lambda step: None) -> None:
    """QR factors in place: R, and the vectors of the reflections below it. `keep(step, tau)` runs in one thread."""
    with text.for_range(0, min(rows, columns)) as step:
        k = step.counter
        before(k)
        tau = reflection(text, thread, m, k, k, rows)
        _put_first(text, thread, lambda: keep(k, tau))
        reflect(text, thread, m, lambda i: m.get(i, k), tau.conjugate(), k, rows, text.plus(k, 1), columns)


def _form_q(text: MatrixText, thread: str, q: Matrix, taus: Line, count: int, rows: int, columns: int) -> None:
    """The product of the reflections, whose vectors are in the first `count` columns: in place, the last one first."""
    one = text.real_of(1.0)
    if columns > count:
        with text.shared_out(thread, rows * (columns - count)) as number:
            i, j = text.divided(number, columns - count)
            j = text.add(j, count)
            q.put(i, j, one.where(text.compare("eq", i, j), 0.0))
    with text.for_range(0, count) as step:
        k = text.sub(count - 1, step.counter)
        tau = taus.get(k)
        reflect(text, thread, q, lambda i: q.get(i, k), tau, k, rows, text.plus(k, 1), columns)
        with text.shared_out(thread, rows) as i:
            below = (-(tau * q.get(i, k))).where(text.compare("sgt", i, k), 0.0)
            q.put(i, k, (text.of(text.of_parts(one.name)) - tau).where(text.compare("eq", i, k), below))


def lower_qr(op: Op, memory: Memory) -> list[Launch]:
    """The launch of `qr`."""
    rows, columns, stack = _sizes(op)
    count, wide, high = min(rows, columns), op.results[0].type.shape[-1], op.results[1].type.shape[-2]
    if not stack or not count:
        return []
    text = block_text(op, max(rows, columns), count * op.operands[0].type.dtype.itemsize)
    thread, block = text.thread(), text.block_number()
    a = Matrix(text, text.given[0], text.times(block, rows * columns), columns, 1)
    q = Matrix(text, text.made[0], text.times(block, rows * wide), wide, 1)
    r = Matrix(text, text.made[1], text.times(block, high * columns), columns, 1)
    m, taus = q if rows >= columns else r, Line(text, count, False)
    _copy(text, thread, a, m, rows, columns)
    _factor(text, thread, m, rows, columns, taus.put)
    if m is q:
        with text.shared_out(thread, high * columns) as number:
            i, j = text.divided(number, columns)
            inside = text.compare("sle", i, j)
            r.put(i, j, q.get(text.select(inside, "i64", i, 0), j).where(inside, 0.0))
    else:
        with text.shared_out(thread, rows * rows) as number:
            i, j = text.divided(number, rows)
            below = text.compare("sgt", i, j)
            q.put(i, j, r.get(i, j).where(below, 0.0))
            with text.where(below):
                r.put(i, j, text.real_of(0.0))
    _form_q(text, thread, q, taus, count, rows, wide)
    return text.launched("qr", stack, stack)


def lower_qr_raw(op: Op, memory: Memory) -> list[Launch]:
    """The launch of `qr_raw`, whose first result is transposed."""
    rows, columns, stack = _sizes(op)
    count = min(rows, columns)
    if not stack or not count:
        return []
    text = block_text(op, max(rows, columns), 0)
    thread, block = text.thread(), text.block_number()
    m = Matrix(text, text.made[0], text.times(block, rows * columns), 1, rows)
    taus = Matrix(text, text.made[1], text.times(block, count), 1, 0)
    _copy(text, thread, Matrix(text, text.given[0], text.times(block, rows * columns), columns, 1), m, rows, columns)
    _factor(text, thread, m, rows, columns, lambda k, tau: taus.put(k, 0, tau))
    return text.launched("qr", stack, stack)


def lower_column_order(op: Op, memory: Memory) -> list[Launch]:
    """The launch of `column_order`: before each reflection, the column that is longest outside of those before comes first."""
    rows, columns, stack = _sizes(op)
    if not stack or not columns:
        return []
    text = block_text(op, max(rows, columns), columns * real_dtype(op.operands[0].type.dtype).itemsize, op.operands[0].type.nbytes)
    thread, block = text.thread(), text.block_number()
    base, first = text.times(block, rows * columns), text.times(block, columns)
    m, order, lengths = Matrix(text, text.work, base, columns, 1), text.made[0], Line(text, columns, True)
    _copy(text, thread, Matrix(text, text.given[0], base, columns, 1), m, rows, columns)
    with text.shared_out(thread, columns) as j:
        text.write([j], order, I64, text.plus(first, j))

    def longest_first(k: str) -> None:
        with text.shared_out(thread, columns, k) as j:
            with text.for_range(k, rows, 1, [(text.part, text.literal(0, text.real))]) as sum:
                sum.following = [(text.real_of(sum.values[0]) + m.get(sum.counter, j).square()).name]
            lengths.put(j, text.real_of(sum.values[0]))
        with text.for_range(k, columns, 1, [(text.part, text.literal(-1, text.real)), ("i64", k)]) as search:
            here = lengths.get(search.counter)
            longer = here.over(text.real_of(search.values[0]))
            search.following = [here.where(longer, text.real_of(search.values[0])).name,
                                text.select(longer, "i64", search.counter, search.values[1])]
        chosen = search.values[1]
        with text.shared_out(thread, rows) as i:
            a, b = m.get(i, k), m.get(i, chosen)
            m.put(i, k, b)
            m.put(i, chosen, a)

        def swap() -> None:
            places = [text.plus(first, index) for index in (k, chosen)]
            a, b = (text.read(order, I64, place)[0] for place in places)
            text.write([b], order, I64, places[0])
            text.write([a], order, I64, places[1])

        _put_first(text, thread, swap)

    _factor(text, thread, m, rows, columns, lambda k, tau: None, longest_first)
    return text.launched("columns", stack, stack)

# -- singular values


def lower_svd(op: Op, memory: Memory) -> list[Launch]:
    """The launch of `svd` or `svdvals`. A wide matrix is worked on as its adjoint, whose columns are in the rows of the right vectors."""
    rows, columns, stack = _sizes(op)
    short, long = min(rows, columns), max(rows, columns)
    if not stack or not short:
        return []
    with_vectors, tall = len(op.results) == 3, rows >= columns
    text = block_text(op, long, 0, 0 if with_vectors else op.operands[0].type.nbytes)
    thread, block = text.thread(), text.block_number()
    base = text.times(block, rows * columns)
    a = Matrix(text, text.given[0], base, columns, 1) if tall else Matrix(text, text.given[0], base, 1, columns, True)
    whole = long if with_vectors and op.attrs["full"] else short
    turns: list[Matrix] = []
    if not with_vectors:
        g = Matrix(text, text.work, base, 1, long)
        values = text.made[0]
    else:
        u, values, vh = text.made
        wide = op.results[0].type.shape[-1]
        high = op.results[2].type.shape[-2]
        left = Matrix(text, u, text.times(block, rows * wide), wide, 1)
        right = Matrix(text, vh, text.times(block, high * columns), 1, columns, True)
        g, turns = (left, [right]) if tall else (right, [left])
    first = text.times(block, short)
    s = _Singular(text, thread, g, turns, long, short, lambda j: text.plus(first, j), values)
    bad = is_bad(text, thread, a, long, short)
    power, inverse = scale_of(text, thread, a, long, short)
    _copy(text, thread, a, g, long, short, lambda value: value * inverse)
    for v in turns:
        with text.shared_out(thread, short * short) as number:
            i, j = text.divided(number, short)
            v.put(i, j, text.real_of(1.0).where(text.compare("eq", i, j), 0.0))
    failed = s.rotate()
    s.sort()
    if with_vectors:
        s.normalize()
        s.complete(whole)
        if text.is_complex:
            s.fix_phases()
    text.barrier()                          # some threads may still compare lengths
    with text.shared_out(thread, short) as j:
        s.put(j, s.get(j) * power)
    text.fill_with_nan(thread, text.either(bad, failed), block)
    return text.launched("svd", stack, stack)


class _Singular:
    """Columns that rotations make orthogonal: their lengths are the singular values. `turns` is empty, or the matrix of the rotations."""

    def __init__(self, text: MatrixText, thread: str, g: Matrix, turns: list[Matrix], long: int, short: int,
                 place: Callable[[Index], Index], values: str):
        self.text, self.thread, self.g, self.turns, self.long, self.short = text, thread, g, turns, long, short
        self.place, self.values = place, values

    def get(self, j: Index) -> Number:
        """A singular value."""
        return self.text.real_of(self.text.read(self.values, self.text.real, self.place(j))[0])

    def put(self, j: Index, value: Number) -> None:
        self.text.write([value.name], self.values, self.text.real, self.place(j))

    def rotate(self) -> str:
        """Rotate until all pairs are orthogonal up to rounding; returns whether there are still some that are not."""
        text, even = self.text, self.short + self.short % 2
        if self.short == 1:
            return "false"
        with text.do_while([("i64", "0")]) as sweep:
            with text.for_range(0, even - 1, 1, [(text.part, text.literal(0, text.real))]) as round:
                with text.for_range(self.thread, even // 2, text.threads, [(text.part, round.values[0])], empty=True) as pair:
                    p, q = self.pair(round.counter, pair.counter, even - 1)
                    pair.following = [self.rotate_pair(p, q, pair.values[0])]
                text.barrier()
                round.following = [pair.values[0]]
            found = text.largest_of_block(self.thread, text.threads, lambda _: text.real_of(round.values[0]))
            more = found.over(0.0)
            sweep.following = [text.add(sweep.values[0], 1)]
            sweep.again = text.both(more, text.compare("slt", sweep.following[0], MAX_SWEEPS))
        return more

    def pair(self, round: str, number: str, last: int) -> tuple[str, str]:
        """The columns of a pair: one of them stays where it is, the others go around."""
        text = self.text
        a = text.let(f"urem i64 {text.add(round, number)}, {last}")
        b = text.let(f"urem i64 {text.add(text.sub(round, number), last)}, {last}")
        b = text.select(text.compare("eq", number, 0), "i64", last, b)
        return text.smaller(a, b), text.larger(a, b)

    def rotate_pair(self, p: str, q: str, seen: str) -> str:
        """Rotate two columns if they are not orthogonal; returns 1 then, else `seen`."""
        text, g, zero = self.text, self.g, self.text.literal(0, self.text.real)
        with text.if_(text.compare("slt", q, self.short), [(text.part, seen)]) as inside:
            with text.for_range(0, self.long, 1, [(text.part, zero), (text.part, zero), (text.type, text.zero)]) as sums:
                x, y = g.get(sums.counter, p), g.get(sums.counter, q)
                a, b, c = text.real_of(sums.values[0]), text.real_of(sums.values[1]), text.of(sums.values[2])
                sums.following = [(a + x.square()).name, (b + y.square()).name, (c + x.conjugate() * y).name]
            a, b, c = text.real_of(sums.values[0]), text.real_of(sums.values[1]), text.of(sums.values[2])
            size = abs(c)
            tolerance = math.sqrt(self.long) * float(np.finfo(text.real).eps)
            lengths = a.sqrt(), b.sqrt()
            is_turned = text.both(text.both(*map(self.is_length, lengths)), size.over(lengths[0] * lengths[1] * tolerance))
            with text.if_(is_turned, [(text.part, seen)]) as turned:
                self.turn(p, q, a, b, c, size)
                turned.following = [text.literal(1, text.real)]
            inside.following = [turned.values[0]]
        return inside.values[0]

    def turn(self, p: str, q: str, a: Number, b: Number, c: Number, size: Number) -> None:
        text, one = self.text, self.text.real_of(1.0)
        zeta = (b - a) / (size + size)
        is_small = abs(zeta).over(1.0 / float(np.finfo(text.real).eps))          # an angle whose square is rounding
        tangent = (text.real_of(0.5) / zeta).where(is_small, (one / (abs(zeta) + (one + zeta * zeta).sqrt())).with_sign_of(zeta))
        cosine = one / (one + tangent * tangent).sqrt()
        sine = cosine * tangent
        back = (c / size).conjugate()           # so that the product of the columns is real; a sign of real ones
        for matrix, count in ((self.g, self.long), *((matrix, self.short) for matrix in self.turns)):
            with text.for_range(0, count) as loop:
                x, y = matrix.get(loop.counter, p), matrix.get(loop.counter, q) * back
                matrix.put(loop.counter, p, x * cosine - y * sine)
                matrix.put(loop.counter, q, x * sine + y * cosine)

    def sort(self) -> None:
        """Find the lengths, and sort columns by them, the longest first."""
        text = self.text
        with text.shared_out(self.thread, self.short) as j:
            with text.for_range(0, self.long, 1, [(text.part, text.literal(0, text.real))]) as sum:
                sum.following = [(text.real_of(sum.values[0]) + self.g.get(sum.counter, j).square()).name]
            self.put(j, text.real_of(sum.values[0]).sqrt())
        _sort_columns(text, self.thread, self.short, self.get, self.put,
                      [(self.g, self.long), *((matrix, self.short) for matrix in self.turns)] if self.turns else [])

    def normalize(self) -> None:
        text = self.text
        with text.shared_out(self.thread, self.long * self.short) as number:
            i, j = text.divided(number, self.short)
            length = self.get(j)
            self.g.put(i, j, self.g.get(i, j) / length.where(self.is_length(length), 1.0))

    def is_length(self, value: Number) -> str:
        """True for the length of a column that is more than the rounding of rounding: the largest element is at least 1."""
        return value.over(float(np.finfo(self.text.real).eps) ** 2)

    def complete(self, whole: int) -> None:
        """Columns that are orthogonal to those before, in place of those without a length and behind them: of the unit vectors the one that
        is longest outside of the others' space, without what it has in that space."""
        text, g = self.text, self.g
        with text.for_range(0, whole) as loop:
            j = loop.counter
            is_value = text.compare("slt", j, self.short)
            length = self.get(text.select(is_value, "i64", j, 0))
            with text.where(text.not_(text.both(is_value, self.is_length(length)))):
                def outside(i: str, j: str = j) -> Number:
                    with text.for_range(0, j, 1, [(text.part, text.literal(1, text.real))], empty=True) as rest:
                        rest.following = [(text.real_of(rest.values[0]) - g.get(i, rest.counter).square()).name]
                    return text.real_of(rest.values[0])

                largest = text.largest_of_block(self.thread, self.long, outside)

                def place(i: str, largest: Number = largest) -> Number:        # the first one counts most
                    rank = text.real_of(text.convert("uitofp", "i64", text.sub(self.long, i), text.part))
                    return rank.where(text.not_(largest.over(outside(i))), 0.0)

                rank = text.largest_of_block(self.thread, self.long, place)
                k = text.sub(self.long, text.convert("fptoui", text.part, rank.name, "i64"))
                with text.shared_out(self.thread, self.long) as i:
                    unit = text.real_of(1.0).where(text.compare("eq", i, k), 0.0)
                    with text.for_range(0, j, 1, [(text.type, text.of_parts(unit.name))], empty=True) as rest:
                        rest.following = [(text.of(rest.values[0]) - g.get(i, rest.counter) * g.get(k, rest.counter).conjugate()).name]
                    g.put(i, j, text.of(rest.values[0]))
                norm = text.sum_of_block(self.thread, self.long, lambda i: g.get(i, j).square()).sqrt()
                with text.shared_out(self.thread, self.long) as i:
                    g.put(i, j, g.get(i, j) / norm)

    def fix_phases(self) -> None:
        """Make the first element of each vector of the rotations real, as LAPACK has it."""
        text, (turns,) = self.text, self.turns
        with text.shared_out(self.thread, self.short) as j:
            top = turns.get(0, j)
            size = abs(top)
            is_some = size.over(0.0)
            back = (top / size.where(is_some, 1.0)).conjugate().where(is_some, text.of(text.of_parts(text.literal(1, text.real))))
            for matrix, count in ((self.g, self.long), (turns, self.short)):
                with text.for_range(0, count) as loop:
                    matrix.put(loop.counter, j, matrix.get(loop.counter, j) * back)
            turns.put(0, j, size)


def _sort_columns(text: MatrixText, thread: str, count: int, get: Callable[[Index], Number], put: Callable[[Index, Number], None],
                  matrices: list[tuple[Matrix, int]]) -> None:
    """Sort numbers, the largest first, and the columns of matrices with them. All threads look for the largest one that is left."""
    if count == 1:
        return
    with text.for_range(0, count - 1) as step:
        k = step.counter
        with text.for_range(text.add(k, 1), count, 1, [(text.part, get(k).name), ("i64", k)]) as search:
            here, best = get(search.counter), text.real_of(search.values[0])
            larger = here.over(best)
            search.following = [here.where(larger, best).name, text.select(larger, "i64", search.counter, search.values[1])]
        chosen, value, old = search.values[1], text.real_of(search.values[0]), get(k)
        text.barrier()
        with text.where(text.compare("ne", chosen, k)):
            for matrix, rows in matrices:
                with text.for_range(thread, rows, text.threads, empty=True) as loop:
                    a, b = matrix.get(loop.counter, k), matrix.get(loop.counter, chosen)
                    matrix.put(loop.counter, k, b)
                    matrix.put(loop.counter, chosen, a)
            with text.where(text.compare("eq", thread, 0)):
                put(k, value)
                put(chosen, old)
        text.barrier()

# -- eigenvalues of Hermitian matrices


def lower_eigh(op: Op, memory: Memory) -> list[Launch]:
    """The launch of `eigh` or `eigvalsh`. Where the upper triangle is given, rows and columns are counted from the end."""
    size, _, stack = _sizes(op)
    if not stack or not size:
        return []
    dtype, with_vectors = op.operands[0].type.dtype, len(op.results) == 2
    itemsizes = 2 * real_dtype(dtype).itemsize + 2 * dtype.itemsize
    text = block_text(op, size, (size + 1) * itemsizes, 0 if with_vectors else op.operands[0].type.nbytes)
    thread, block = text.thread(), text.block_number()
    base, turned = text.times(block, size * size), 0 if op.attrs["lower"] else size
    a = Matrix(text, text.given[0], base, size, 1, turned=turned)
    z = Matrix(text, text.made[1] if with_vectors else text.work, base, size, 1, turned=turned)
    t = _Tridiagonal(text, thread, z, size, with_vectors)

    def lower_of(i: str, j: str) -> Number:
        below = text.compare("sge", i, j)
        value = a.get(text.select(below, "i64", i, j), text.select(below, "i64", j, i))
        value = value.where(below, value.conjugate())
        return text.of(text.of_parts(value.real.name)).where(text.compare("eq", i, j), value) if text.is_complex else value

    class _Lower(Matrix):
        def get(self, i: Index, j: Index) -> Number:
            return lower_of(str(i), str(j))

    given = _Lower(text, text.given[0], base, size, 1)
    bad = is_bad(text, thread, given, size, size)
    power, inverse = scale_of(text, thread, given, size, size)
    _copy(text, thread, given, z, size, size, lambda value: value * inverse)
    t.reduce()
    failed = t.solve()
    _sort_columns(text, thread, size, t.sorted_get, t.sorted_put, [(z, size)] if with_vectors else [])
    with text.shared_out(thread, size) as j:
        place = text.plus(text.times(block, size), text.sub(size - 1, j) if turned else j)
        text.write([(t.d.get(j) * power).name], text.made[0], text.real, place)
    text.fill_with_nan(thread, text.either(bad, failed), block)
    return text.launched("eigh", stack, stack)


class _Tridiagonal:
    """A Hermitian matrix, of which reflections leave a real tridiagonal one: its diagonal and the elements below it, in shared memory."""

    def __init__(self, text: MatrixText, thread: str, z: Matrix, size: int, with_vectors: bool):
        self.text, self.thread, self.z, self.size, self.with_vectors = text, thread, z, size, with_vectors
        self.d, self.e = (Line(text, size + 1, True) for _ in range(2))
        self.taus, self.w = (Line(text, size + 1, False) for _ in range(2))
        self.cosines, self.sines = Line(text, 0, True, self.taus.start), Line(text, 0, True, self.w.start)

    def sorted_get(self, j: Index) -> Number:
        """What is sorted, the largest first: eigenvalues ascend, or descend where columns are counted from the end."""
        return self.d.get(j) if self.z.turned else -self.d.get(j)

    def sorted_put(self, j: Index, value: Number) -> None:
        self.d.put(j, value if self.z.turned else -value)

    def vector(self, k: Index) -> Callable[[Index], Number]:
        """The vector of reflection k, below its first element."""
        return lambda i: self.z.get(i, k)

    def reduce(self) -> None:
        """As LAPACK's `hetd2` for the lower triangle, then `ungtr`; the whole matrix is kept, as threads read it by rows."""
        text, thread, z, size = self.text, self.thread, self.z, self.size
        one = text.of(text.of_parts(text.literal(1, text.real)))
        if size > 1:
            with text.for_range(0, size - 1) as step:
                k = step.counter
                low = text.add(k, 1)
                tau = reflection(text, thread, z, low, k, size)

                def keep(k: str = k, low: str = low, tau: Number = tau) -> None:
                    self.d.put(k, z.get(k, k).real)
                    self.e.put(k, z.get(low, k).real)
                    self.taus.put(k, tau)

                _put_first(text, thread, keep)

                def v(i: str, k: str = k, low: str = low) -> Number:
                    return one.where(text.compare("eq", i, low), z.get(i, k))

                with text.shared_out(thread, size, low) as i:
                    with text.for_range(low, size, 1, [(text.type, text.zero)]) as sum:
                        sum.following = [(text.of(sum.values[0]) + z.get(sum.counter, i).conjugate() * v(sum.counter)).name]
                    self.w.put(i, text.of(sum.values[0]))
                inner = text.sum_of_block(thread, size, lambda i: (v(i).conjugate() * self.w.get(i)).real, low)
                half = tau.square() * inner * 0.5
                with text.shared_out(thread, size, low) as i:
                    self.w.put(i, tau * self.w.get(i) - v(i) * half)
                rest = text.sub(size - 1, k)
                with text.shared_out(thread, text.mul(rest, rest)) as number:
                    i, j = (text.add(text.let(f"{code} i64 {number}, {rest}"), low) for code in ("udiv", "urem"))
                    z.put(i, j, z.get(i, j) - (v(i) * self.w.get(j).conjugate() + self.w.get(i) * v(j).conjugate()))

        def last() -> None:
            self.d.put(size - 1, z.get(size - 1, size - 1).real)
            self.e.put(size - 1, text.real_of(0.0))

        _put_first(text, thread, last)
        if self.with_vectors:
            self.form()

    def form(self) -> None:
        """The product of the reflections, in place, the last one first: what has been formed is a square at the lower right."""
        text, thread, z, size = self.text, self.thread, self.z, self.size
        with text.for_range(0, size) as step:
            k = text.sub(size - 1, step.counter)            # the square begins at row and column k
            with text.shared_out(thread, size, k) as i:
                unit = text.real_of(1.0).where(text.compare("eq", i, k), 0.0)
                z.put(i, k, unit)
                with text.where(text.compare("ne", i, k)):
                    z.put(k, i, unit)
            with text.where(text.compare("ne", k, 0)):
                before = text.sub(k, 1)
                reflect(text, thread, z, self.vector(before), self.taus.get(before), k, size, k, size)

    def solve(self) -> str:
        """The eigenvalues in place of the diagonal; returns whether one of them was not found."""
        text, size = self.text, self.size
        if size == 1:
            return "false"
        with text.for_range(0, size, 1, [("i1", "false")]) as each:
            start = each.counter
            with text.do_while([("i64", "0")]) as steps:
                stop = self.find_split(start)
                text.barrier()
                is_open = text.compare("ne", start, stop)
                with text.where(is_open):
                    with text.where(text.compare("eq", self.thread, 0)):
                        self.find_rotations(start, stop)
                    text.barrier()
                    if self.with_vectors:
                        self.turn_rows(start, stop)
                steps.following = [text.add(steps.values[0], 1)]
                steps.again = text.both(is_open, text.compare("slt", steps.following[0], MAX_STEPS))
            text.barrier()
            each.following = [text.either(each.values[0], is_open)]
        return each.values[0]

    def find_split(self, start: str) -> str:
        """The first place from `start` on where the element below the diagonal is nothing but rounding."""
        text, last = self.text, self.size - 1
        with text.do_while([("i64", start)]) as search:
            here = search.values[0]
            below = abs(self.d.get(here)) + abs(self.d.get(text.smaller(text.plus(here, 1), last)))
            large = text.not_(text.let(f"fcmp ole {text.part} {abs(self.e.get(here)).name}, "
                                       f"{(below * float(np.finfo(text.real).eps)).name}"))
            search.again = text.both(large, text.compare("slt", here, last))
            search.following = [text.select(search.again, "i64", text.plus(here, 1), here)]
        return search.values[0]

    def find_rotations(self, start: str, stop: str) -> None:
        """A QL step with an implicit shift, as in LAPACK's `steqr`, by one thread."""
        text, d, e, one = self.text, self.d, self.e, self.text.real_of(1.0)
        first, off = d.get(start), e.get(start)
        ratio = (d.get(text.add(start, 1)) - first) / (off + off)
        shift = d.get(stop) - first + off / (ratio + (ratio * ratio + one).sqrt().with_sign_of(ratio))
        names = [shift.name, one.name, one.name, text.literal(0, text.real)]
        with text.for_range(start, stop, 1, [(text.part, name) for name in names]) as loop:
            i = text.sub(text.add(start, text.sub(stop, 1)), loop.counter)
            high = text.add(i, 1)
            g, s, c, p = (text.real_of(name) for name in loop.values)
            f, b = s * e.get(i), c * e.get(i)
            r = (f * f + g * g).sqrt()
            some = r.over(0.0)
            c, s = (g / r).where(some, 1.0), (f / r).where(some, 0.0)
            c, s = c.where(r.over(float(np.finfo(text.real).tiny)), one), s
            e.put(high, r)
            g = d.get(high) - p
            r = (d.get(i) - g) * s + c * b * 2.0
            p = s * r
            d.put(high, g + p)
            self.cosines.put(i, c)
            self.sines.put(i, s)
            loop.following = [(c * r - b).name, s.name, c.name, p.name]
        g, _, _, p = (text.real_of(name) for name in loop.values)
        d.put(start, first - p)
        e.put(start, g)
        e.put(stop, text.real_of(0.0))

    def turn_rows(self, start: str, stop: str) -> None:
        """Each thread turns its rows of the vectors."""
        text, z = self.text, self.z
        with text.for_range(self.thread, self.size, text.threads, empty=True) as row:
            k = row.counter
            with text.for_range(start, stop, 1, [(text.type, z.get(k, stop).name)]) as loop:
                i = text.sub(text.add(start, text.sub(stop, 1)), loop.counter)
                c, s, here, last = self.cosines.get(i), self.sines.get(i), z.get(k, i), text.of(loop.values[0])
                z.put(k, text.add(i, 1), here * s + last * c)
                loop.following = [(here * c - last * s).name]
            z.put(k, start, text.of(loop.values[0]))
