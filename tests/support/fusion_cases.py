"""Graphs as text, with the kernels that fusion makes of them."""

from __future__ import annotations

CASES: dict[str, tuple[str, list[tuple[int, int]]]] = {
    # name: (text, (rows, columns) of the expected kernels, in order)
    "flat chain": ("""
graph @g(%x: f32[3,5], %y: f32[3,5]) {
  %a: f32[3,5] = multiply %x, %y
  %b: f32[3,5] = add %a, %x
  %c: f32[3,5] = exp %a
  return %b, %c
}""", [(15, 1)]),
    "flat chain with a total": ("""
graph @g(%x: f64[70000]) {
  %a: f64[70000] = square %x
  %b: f64[70000] = add %a, %x
  %s: f64[] = reduce_sum %b {axes=(0,)}
  %k: f64[] = constant {dtype=f64, shape=(), value=0.5}
  %t: f64[] = multiply %s, %k
  return %t, %b
}""", [(70000, 1)]),
    "softmax of rows": ("""
graph @g(%x: f32[7,5]) {
  %m: f32[7] = reduce_max %x {axes=(1,)}
  %k: f32[7,1] = reshape %m {shape=(7, 1)}
  %r: f32[7] = reshape %k {shape=(7,)}
  %b: f32[7,5] = broadcast %r {axes=(0,), shape=(7, 5)}
  %d: f32[7,5] = subtract %x, %b
  %e: f32[7,5] = exp %d
  %s: f32[7] = reduce_sum %e {axes=(1,)}
  %c: f32[7,5] = broadcast %s {axes=(0,), shape=(7, 5)}
  %y: f32[7,5] = divide %e, %c
  return %y
}""", [(7, 5)]),
    "softmax of one row": ("""
graph @g(%x: f32[11]) {
  %m: f32[] = reduce_max %x {axes=(0,)}
  %b: f32[11] = broadcast %m {axes=(), shape=(11,)}
  %d: f32[11] = subtract %x, %b
  %e: f32[11] = exp %d
  %s: f32[] = reduce_sum %e {axes=(0,)}
  %c: f32[11] = broadcast %s {axes=(), shape=(11,)}
  %y: f32[11] = divide %e, %c
  return %y, %s
}""", [(1, 11)]),
    "bias, mask and column sums": ("""
graph @g(%x: f32[40,6], %b: f32[6], %g: f32[40,6]) {
  %bb: f32[40,6] = broadcast %b {axes=(1,), shape=(40, 6)}
  %z: f32[40,6] = add %x, %bb
  %o: f32[40,6] = constant {dtype=f32, shape=(40, 6), value=0.0}
  %p: bool[40,6] = greater %z, %o
  %d: f32[40,6] = select %p, %g, %o
  %s: f32[6] = reduce_sum %d {axes=(0,)}
  return %p, %d, %s
}""", [(40, 6)]),
    "sums over batch and rows of three dimensions": ("""
graph @g(%x: f64[3,4,6], %w: f64[6]) {
  %b: f64[3,4,6] = broadcast %w {axes=(2,), shape=(3, 4, 6)}
  %a: f64[3,4,6] = multiply %x, %b
  %r: f64[3,4] = reduce_sum %a {axes=(2,)}
  %q: f64[3,4] = square %r
  %c: f64[6] = reduce_max %a {axes=(0, 1)}
  %t: f64[] = reduce_sum %q {axes=(0, 1)}
  %u: f64[] = sqrt %t
  return %q, %c, %u
}""", [(12, 6)]),
    "a reshape between": ("""
graph @g(%x: f32[6,8]) {
  %a: f32[6,8] = exp %x
  %r: f32[2,3,8] = reshape %a {shape=(2, 3, 8)}
  %s: f32[2,3] = reduce_sum %r {axes=(2,)}
  %f: f32[6] = reshape %s {shape=(6,)}
  %b: f32[6,8] = broadcast %f {axes=(0,), shape=(6, 8)}
  %y: f32[6,8] = divide %a, %b
  return %y
}""", [(6, 8)]),
    "a channel of images": ("""
graph @g(%x: f32[2,3,4,5], %w: f32[3]) {
  %b: f32[2,3,4,5] = broadcast %w {axes=(1,), shape=(2, 3, 4, 5)}
  %a: f32[2,3,4,5] = multiply %x, %b
  %e: f32[2,3,4,5] = add %a, %b
  return %e
}""", [(6, 20)]),
    "a column of the middle": ("""
graph @g(%x: f32[2,3,4], %w: f32[2,4], %v: f32[3,4], %u: f32[2,3]) {
  %b: f32[2,3,4] = broadcast %w {axes=(0, 2), shape=(2, 3, 4)}
  %c: f32[2,3,4] = broadcast %v {axes=(1, 2), shape=(2, 3, 4)}
  %d: f32[2,3,4] = broadcast %u {axes=(0, 1), shape=(2, 3, 4)}
  %a: f32[2,3,4] = multiply %x, %b
  %e: f32[2,3,4] = add %a, %c
  %f: f32[2,3,4] = subtract %e, %d
  return %f
}""", [(6, 4)]),
    "all pairs": ("""
graph @g(%x: f64[5], %y: f64[5]) {
  %a: f64[5,5] = broadcast %x {axes=(0,), shape=(5, 5)}
  %b: f64[5,5] = broadcast %x {axes=(1,), shape=(5, 5)}
  %d: f64[5,5] = subtract %a, %b
  %e: f64[5,5] = square %d
  %s: f64[5] = reduce_sum %e {axes=(1,)}
  %t: f64[5] = add %s, %y
  return %t
}""", [(5, 5)]),
    "one-hot by comparison": ("""
graph @g(%x: f32[4,6], %y: i64[4]) {
  %i: i64[4,6] = iota {axis=1, dtype=i64, shape=(4, 6)}
  %b: i64[4,6] = broadcast %y {axes=(0,), shape=(4, 6)}
  %h: bool[4,6] = equal %i, %b
  %o: f32[4,6] = constant {dtype=f32, shape=(4, 6), value=0.0}
  %p: f32[4,6] = select %h, %x, %o
  %s: f32[4] = reduce_sum %p {axes=(1,)}
  %t: f32[] = reduce_sum %s {axes=(0,)}
  return %t
}""", [(4, 6)]),
    "numbers": ("""
graph @g(%t: f32[], %u: f32[]) {
  %a: f32[] = multiply %t, %u
  %b: f32[] = sqrt %a
  return %a, %b
}""", [(1, 1)]),
    "integers and bools": ("""
graph @g(%x: i32[9], %y: i32[9]) {
  %a: i32[9] = multiply %x, %y
  %b: i32[9] = floor_divide %a, %y
  %c: bool[9] = equal %b, %x
  %d: bool[9] = logical_not %c
  %e: bool[] = reduce_or %d {axes=(0,)}
  %m: i32[] = reduce_min %a {axes=(0,)}
  return %b, %d, %e, %m
}""", [(9, 1)]),
    "a total that later elements need is another kernel": ("""
graph @g(%x: f32[90000]) {
  %a: f32[90000] = square %x
  %s: f32[] = reduce_sum %a {axes=(0,)}
  %b: f32[90000] = broadcast %s {axes=(), shape=(90000,)}
  %y: f32[90000] = divide %a, %b
  %z: f32[90000] = exp %y
  return %z
}""", [(90000, 1), (90000, 1)]),
    "a path through matmul keeps kernels apart": ("""
graph @g(%x: f32[4,4]) {
  %a: f32[4,4] = exp %x
  %b: f32[4,4] = square %a
  %m: f32[4,4] = matmul %b, %x {transpose_a=false, transpose_b=false}
  %c: f32[4,4] = add %m, %a
  %d: f32[4,4] = exp %c
  return %d
}""", [(16, 1), (16, 1)]),
    "readers of the same values share a pass": ("""
graph @g(%x: f32[6,4], %d: f32[6,4]) {
  %s: f32[4] = reduce_sum %d {axes=(0,)}
  %p: f32[6,4] = multiply %d, %x
  %q: f32[4] = reduce_sum %p {axes=(0,)}
  return %s, %q
}""", [(6, 4)]),
    "what only the backward half needs is computed there": ("""
graph @g(%x: f32[4,4], %w: f32[4,4]) {
  %t: f32[4,4] = tanh %x
  %a: f32[4,4] = square %t
  %m: f32[4,4] = matmul %a, %w {transpose_a=false, transpose_b=false}
  %e: f32[4,4] = exp %t  # m.py:1 in f, adjoint
  %f: f32[4,4] = negative %e  # m.py:1 in f, adjoint
  %d: f32[4,4] = multiply %m, %f  # m.py:1 in f, adjoint
  return %d
}""", [(16, 1), (16, 1)]),
    "forward and backward in one kernel": ("""
graph @g(%x: f32[4,4], %w: f32[4,4]) {
  %t: f32[4,4] = tanh %x
  %a: f32[4,4] = multiply %t, %w
  %s: f32[] = reduce_sum %a {axes=(0, 1)}
  %e: f32[4,4] = square %t  # m.py:1 in f, adjoint
  %d: f32[4,4] = multiply %e, %w  # m.py:1 in f, adjoint
  return %s, %d
}""", [(16, 1)]),
    "readers of the same values, of which the one with the earlier last op reads the other": ("""
graph @g(%w: f64[3,4]) {
  %s: f64[4] = reduce_sum %w {axes=(0,)}
  %b: f64[3,4] = broadcast %s {axes=(1,), shape=(3, 4)}
  %c: f64[3,4] = subtract %w, %b
  %d: f64[3,4] = multiply %b, %w
  %e: f64[3,4] = negative %d
  %f: f64[4] = subtract %s, %s
  %g: f64[4] = maximum %s, %f
  return %g, %e, %s, %c
}""", [(3, 4), (3, 4)]),
    "a merged kernel lies on both sides of another": ("""
graph @f(%x: f64[2], %y: f64[3], %ca: f64[2], %cb: f64[3]) {
  %0: f64[] = reduce_sum %cb {axes=(0,)}
  %1: f64[2] = broadcast %0 {axes=(), shape=(2,)}
  %2: f64[1] = slice %y {start=(0,), step=(1,), stop=(1,)}
  %3: f64[] = reshape %2 {shape=()}
  %4: f64[2] = broadcast %3 {axes=(), shape=(2,)}
  %5: f64[2] = strong_multiply %ca, %4
  %6: f64[2] = strong_multiply %ca, %x
  %7: f64[2] = add %1, %5
  %8: f64[] = reduce_sum %6 {axes=(0,)}
  %9: f64[1] = reshape %8 {shape=(1,)}
  %10: f64[3] = pad %9 {high=(2,), interior=(0,), low=(0,), value=0.0}
  %11: f64[3] = add %cb, %10
  return %7, %11
}""", [(2, 1), (3, 1), (2, 1)]),
    "two kernels joined by a later op": ("""
graph @g(%x: f32[4,4], %y: f32[4,4]) {
  %a: f32[4,4] = exp %x
  %b: f32[4,4] = exp %y
  %c: f32[4,4] = multiply %a, %b
  %d: f32[4,4] = add %c, %a
  return %d, %b
}""", [(16, 1)]),
    "a total of rows that only numbers connect with the rest": ("""
graph @g(%y: f64[3], %z: f64[3]) {
  %s: f64[3] = sin %z
  %a: f64[] = reduce_sum %s {axes=(0,)}
  %u: f64[3] = sin %y
  %b: f64[] = reduce_sum %u {axes=(0,)}
  %c: f64[] = add %a, %b
  %w: f64[3,2] = broadcast %y {axes=(0,), shape=(3, 2)}
  %v: f64[3,2] = cos %w
  %r: f64[3] = reduce_sum %v {axes=(1,)}
  %e: f64[3] = add %r, %u
  return %c, %e
}""", [(3, 2)]),
}
