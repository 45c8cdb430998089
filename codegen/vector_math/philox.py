"""Philox4x32-10 (Salmon, Moraes, Dror, Shaw, SC 2011), the definition of the op `philox`."""

from __future__ import annotations

from adjit.codegen.vector_math.language import Value, like
from adjit.ir.ops.random import LOW_WORD, MULTIPLIERS, ROUNDS, WEYL


def philox(counter: Value, key: Value) -> Value:
    """The first two of the four random words, for the counter (low word, high word, 0, 0) and the key (low word, high word)."""
    c0, c1, c2, c3 = counter & LOW_WORD, counter >> 32, like(counter, 0), like(counter, 0)
    k0, k1 = key & LOW_WORD, key >> 32
    for _ in range(ROUNDS):
        first, second = c0 * MULTIPLIERS[0], c2 * MULTIPLIERS[1]
        c0, c1, c2, c3 = (second >> 32) ^ c1 ^ k0, second & LOW_WORD, (first >> 32) ^ c3 ^ k1, first & LOW_WORD
        k0, k1 = (k0 + WEYL[0]) & LOW_WORD, (k1 + WEYL[1]) & LOW_WORD
    return c0 | c1 << 32
