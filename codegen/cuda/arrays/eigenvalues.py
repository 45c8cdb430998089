"""Eigenvalues of general matrices: a block of threads works on a matrix of a stack, as a complex one, in working memory.

Reflections make it a Hessenberg matrix, and steps of the QR algorithm with explicit shifts an upper triangle (a Schur form). In a step, all
threads find a rotation, each turns its columns, and after the last rotation its rows. Vectors are solved for in the triangle, a thread a
vector.
"""

from __future__ import annotations

import math

import numpy as np

from adjit.codegen.cuda.arrays.matrix_text import Matrix, MatrixText, Number
from adjit.codegen.cuda.arrays.orthogonal import Line, block_text, is_bad, reflect, reflection, scale_of
from adjit.codegen.cuda.kernel import Launch
from adjit.codegen.cuda.writer import Memory
from adjit.codegen.native.kernels.builder import Index
from adjit.ir.graph import Op

MAX_STEPS = 60
"""Steps for one eigenvalue after which a matrix has none: NaN. LAPACK takes 30 for two."""

UNUSUAL = 8
"""Steps for one eigenvalue after which an unusual shift is taken: a power of two."""


class Operand(Matrix):
    """The operand, whose elements are read as complex numbers."""

    def get(self, i: Index, j: Index) -> Number:
        text = self.text
        dtype = text.op.operands[0].type.dtype
        (value,) = text.read(self.pointer, dtype, self.place(i, j))
        return text.of(value if dtype == text.number_dtype else text.of_parts(value))


def lower_eig(op: Op, memory: Memory) -> list[Launch]:
    """The launch of `eig` or `eigvals`."""
    *sizes, size, _ = op.operands[0].type.shape
    stack, dtype = math.prod(sizes), op.results[0].type.dtype
    if not op.operands[0].type.size:
        return []
    with_vectors = len(op.results) == 2
    matrix = size * size * stack
    text = block_text(op, size, 3 * size * dtype.itemsize, (3 if with_vectors else 1) * matrix * dtype.itemsize, dtype)
    thread, block = text.thread(), text.block_number()
    base = text.times(block, size * size)
    h, z, x = (Matrix(text, text.work, text.plus(base, number * matrix), size, 1) for number in range(3))
    a = Operand(text, text.given[0], base, size, 1)
    bad = is_bad(text, thread, a, size, size)
    power, inverse = scale_of(text, thread, a, size, size)
    with text.shared_out(thread, size * size) as number:
        i, j = text.divided(number, size)
        h.put(i, j, a.get(i, j) * inverse)
        if with_vectors:
            z.put(i, j, text.real_of(1.0).where(text.compare("eq", i, j), 0.0))
    s = Schur(text, thread, h, z if with_vectors else None, size)
    s.reduce()
    failed = s.solve()
    with text.shared_out(thread, size) as j:
        text.put((h.get(j, j) * power).name, text.made[0], text.plus(text.times(block, size), j))
    if with_vectors:
        s.find_vectors(x, Matrix(text, text.made[1], base, size, 1))
    text.fill_with_nan(thread, text.either(bad, failed), block)
    return text.launched("eig", stack, stack)


class Schur:
    """A matrix on the way to an upper triangle, and the product of what is applied to it from the right, if that is wanted."""

    def __init__(self, text: MatrixText, thread: str, h: Matrix, z: Matrix | None, size: int):
        self.text, self.thread, self.h, self.z, self.size = text, thread, h, z, size
        self.eps = float(np.finfo(text.real).eps)
        self.cosines, self.sines = Line(text, size, True), Line(text, size, False)

    def reduce(self) -> None:
        """To a Hessenberg matrix, which has one diagonal below the main one."""
        text, thread, h, size = self.text, self.thread, self.h, self.size
        if size < 3:
            return
        one = text.of(text.of_parts(text.literal(1, text.real)))
        with text.for_range(0, size - 2) as step:
            k = step.counter
            low = text.add(k, 1)
            tau = reflection(text, thread, h, low, k, size)

            def v(i: Index) -> Number:
                return one.where(text.compare("eq", i, low), h.get(i, k))

            reflect(text, thread, h, lambda i: h.get(i, k), tau.conjugate(), low, size, low, size)
            for matrix in (h, self.z) if self.z else (h,):
                with text.shared_out(thread, size) as row:
                    with text.for_range(low, size, 1, [(text.type, text.zero)]) as sum:
                        sum.following = [(text.of(sum.values[0]) + matrix.get(row, sum.counter) * v(sum.counter)).name]
                    found = tau * text.of(sum.values[0])
                    with text.for_range(low, size) as loop:
                        matrix.put(row, loop.counter, matrix.get(row, loop.counter) - found * v(loop.counter).conjugate())
            with text.shared_out(thread, size, text.add(k, 2)) as i:
                h.put(i, k, text.real_of(0.0))

    def solve(self) -> str:
        """Steps until the matrix is a triangle; returns whether it is not."""
        text, size = self.text, self.size
        if size == 1:
            return "false"
        with text.do_while([("i64", str(size - 1)), ("i64", "0")]) as loop:
            high, steps = loop.values
            low = self.find_split(high)
            text.barrier()
            is_open = text.compare("ne", low, high)
            with text.where(is_open):
                self.step(low, high, steps)
            with text.where(text.not_(is_open), text.compare("eq", self.thread, 0), text.compare("ne", high, 0)):
                self.h.put(high, text.sub(high, 1), text.real_of(0.0))
            text.barrier()
            following = text.select(is_open, "i64", high, text.sub(high, 1))
            steps = text.select(is_open, "i64", text.add(steps, 1), 0)
            loop.following = [following, steps]
            fits = text.compare("slt", steps, MAX_STEPS)
            loop.again = text.both(text.compare("sgt", following, 0), fits)
        return text.not_(fits)

    def find_split(self, high: str) -> str:
        """The last row up to `high` whose element left of the diagonal is nothing but rounding."""
        text, h = self.text, self.h
        with text.do_while([("i64", high)]) as search:
            row = search.values[0]
            before = text.larger(text.sub(row, 1), 0)
            near = abs(h.get(row, row)) + abs(h.get(before, before))
            large = text.not_(text.let(f"fcmp ole {text.part} {abs(h.get(row, before)).name}, {(near * self.eps).name}"))
            search.again = text.both(large, text.compare("sgt", row, 0))
            search.following = [text.select(search.again, "i64", before, row)]
        return search.values[0]

    def shift(self, high: str, steps: str) -> Number:
        """The eigenvalue of the last two rows and columns that is nearer to the last element."""
        text, h = self.text, self.h
        low = text.sub(high, 1)
        d, off = h.get(high, high), h.get(low, high) * h.get(high, low)
        half = (h.get(low, low) - d) * 0.5
        root = self.root(half * half + off)
        one, other = half + root, half - root
        larger = one.where(abs(one).over(abs(other)), other)
        size = abs(larger)
        some = size.over(0.0)
        whole = text.of(text.of_parts(text.literal(1, text.real)))
        found = d - (off / larger.where(some, whole)).where(some, 0.0)
        unusual = d + abs(h.get(high, low))
        is_unusual = text.compare("eq", text.let(f"and i64 {text.add(steps, 1)}, {UNUSUAL - 1}"), 0)
        return unusual.where(is_unusual, found)

    def root(self, value: Number) -> Number:
        """A square root of a complex number."""
        text, size = self.text, abs(value)
        real = ((size + abs(value.real)) * 0.5).sqrt()
        other = (value.imag * 0.5) / real.where(real.over(0.0), 1.0)
        is_right = value.real.over(0.0)
        first, second = real.where(is_right, abs(other)), other.where(is_right, real.with_sign_of(value.imag))
        made = text.let(f"insertelement {text.type} poison, {text.part} {first.name}, i32 0")
        return text.of(text.let(f"insertelement {text.type} {made}, {text.part} {second.name}, i32 1"))

    def add_to_diagonal(self, low: str, high: str, value: Number) -> None:
        text, h = self.text, self.h
        with text.shared_out(self.thread, text.add(high, 1), low) as i:
            h.put(i, i, h.get(i, i) + value)

    def step(self, low: str, high: str, steps: str) -> None:
        text, h, size = self.text, self.h, self.size
        shift = self.shift(high, steps)
        text.barrier()
        self.add_to_diagonal(low, high, -shift)
        with text.for_range(low, high) as loop:
            k = loop.counter
            next = text.add(k, 1)
            a, b = h.get(k, k), h.get(next, k)
            large = abs(a).where(abs(a).over(abs(b)), abs(b))
            scale = large.where(large.over(0.0), 1.0)
            size_a, size_b = abs(a) / scale, abs(b) / scale
            r = (size_a * size_a + size_b * size_b).sqrt()
            some, divisor = r.over(0.0), r.where(r.over(0.0), 1.0)
            phase = (a / abs(a).where(abs(a).over(0.0), 1.0)).where(abs(a).over(0.0), text.of(text.of_parts(text.literal(1, text.real))))
            c = (size_a / divisor).where(some, 1.0)
            s = ((phase * (b / scale).conjugate()) / divisor).where(some, 0.0)
            text.barrier()
            with text.shared_out(self.thread, size, k) as j:
                x, y = h.get(k, j), h.get(next, j)
                h.put(k, j, x * c + s * y)
                h.put(next, j, y * c - s.conjugate() * x)
            with text.where(text.compare("eq", self.thread, 0)):
                self.cosines.put(k, c)
                self.sines.put(k, s)
            text.barrier()
        self.turn_columns(h, low, high, True)
        if self.z:
            self.turn_columns(self.z, low, high, False)
        text.barrier()
        self.add_to_diagonal(low, high, shift)

    def turn_columns(self, matrix: Matrix, low: str, high: str, is_triangle: bool) -> None:
        """Each thread turns its rows; those of a triangle from the first rotation on that they have elements for."""
        text = self.text
        with text.for_range(self.thread, text.add(high, 1) if is_triangle else self.size, text.threads, empty=True) as rows:
            i = rows.counter
            start = text.larger(low, text.sub(i, 1)) if is_triangle else low
            with text.for_range(start, high, 1, empty=True) as loop:
                k = loop.counter
                next = text.add(k, 1)
                c, s = self.cosines.get(k), self.sines.get(k)
                x, y = matrix.get(i, k), matrix.get(i, next)
                matrix.put(i, k, x * c + y * s.conjugate())
                matrix.put(i, next, y * c - x * s)

    def find_vectors(self, x: Matrix, v: Matrix) -> None:
        """Solve for the vectors of the triangle, turn them back, and give them length 1 and a real largest element."""
        text, h, size = self.text, self.h, self.size
        z = self.z
        assert z is not None
        one = text.of(text.of_parts(text.literal(1, text.real)))
        with text.shared_out(self.thread, size) as j:
            own = h.get(j, j)
            x.put(j, j, one)
            with text.for_range(0, j, 1, empty=True) as back:
                i = text.sub(text.sub(j, 1), back.counter)
                with text.for_range(text.add(i, 1), text.add(j, 1), 1, [(text.type, text.zero)]) as sum:
                    sum.following = [(text.of(sum.values[0]) + h.get(i, sum.counter) * x.get(sum.counter, j)).name]
                gap = own - h.get(i, i)
                least = abs(own) * self.eps + self.eps * self.eps
                found = text.of(sum.values[0]) / gap.where(abs(gap).over(least), text.of(text.of_parts(least.name)))
                x.put(i, j, found)
                large = abs(found)
                with text.where(large.over(1.0 / self.eps)), text.for_range(i, text.add(j, 1)) as scaled:       # it must not overflow
                    x.put(scaled.counter, j, x.get(scaled.counter, j) / large)
        with text.shared_out(self.thread, size * size) as number:
            i, j = text.divided(number, size)
            with text.for_range(0, text.add(j, 1), 1, [(text.type, text.zero)]) as sum:
                sum.following = [(text.of(sum.values[0]) + z.get(i, sum.counter) * x.get(sum.counter, j)).name]
            v.put(i, j, text.of(sum.values[0]))
        zero = text.literal(0, text.real)
        with text.shared_out(self.thread, size) as j:
            with text.for_range(0, size, 1, [(text.part, zero)]) as most:
                element = abs(v.get(most.counter, j))
                best = text.real_of(most.values[0])
                most.following = [element.where(element.over(best), best).name]
            largest = text.real_of(most.values[0])
            with text.for_range(0, size, 1, [(text.part, zero), (text.part, zero), ("i64", "0")]) as search:
                element = v.get(search.counter, j) / largest
                square = element.square()
                best = text.real_of(search.values[1])
                better = square.over(best * (1.0 + 8 * self.eps))
                search.following = [(text.real_of(search.values[0]) + square).name, square.where(better, best).name,
                                    text.select(better, "i64", search.counter, search.values[2])]
            length, place = text.real_of(search.values[0]).sqrt() * largest, search.values[2]
            top = v.get(place, j)
            back_turn = (top / abs(top)).conjugate()
            with text.for_range(0, size) as loop:
                v.put(loop.counter, j, v.get(loop.counter, j) * back_turn / length)
            v.put(place, j, abs(top) / length)
