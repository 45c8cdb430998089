"""Random numbers as a pure function of a counter and a key.

Philox4x32-10: J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from adjit.ir.definition import Kind, OpCost, OpDefinition, Rounding, Sample, define
from adjit.ir.errors import DTypeError
from adjit.ir.ops.rules import require_same
from adjit.ir.types import U64, TensorType

ROUNDS = 10
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
LOW_WORD = 0xFFFFFFFF
BLOCK_ELEMENTS = 1 << 13     # elements of which the intermediate words fit the L2 cache

Words = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def philox_4x32(counter: Words, key: tuple[np.ndarray, np.ndarray]) -> Words:
    """Four random 32-bit words for four counter words and two key words, all held in uint64 arrays."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    low, word = np.uint64(LOW_WORD), np.uint64(32)
    for _ in range(ROUNDS):
        first, second = np.uint64(MULTIPLIERS[0]) * c0, np.uint64(MULTIPLIERS[1]) * c2
        c0, c1, c2, c3 = (second >> word) ^ c1 ^ k0, second & low, (first >> word) ^ c3 ^ k1, first & low
        k0, k1 = (k0 + np.uint64(WEYL[0])) & low, (k1 + np.uint64(WEYL[1])) & low
    return c0, c1, c2, c3


def _infer_philox(counter: TensorType, key: TensorType) -> TensorType:
    require_same(counter, key)
    if counter.dtype != U64:
        raise DTypeError(f"the counter and the key have to be u64, got {counter}")
    return counter


def _evaluate_philox(counter: np.ndarray, key: np.ndarray) -> np.ndarray:
    """Evaluate block by block, so that the intermediate words stay in the processor's cache; a key for all counters is one number."""
    if counter.size == 1:
        return np.full(counter.shape, philox_word(counter.item(), key.item()), U64)
    counters, words = counter.reshape(-1), np.empty(counter.size, U64)
    one_key = key.size > 0 and not any(key.strides)
    keys = key[(0,) * key.ndim].reshape(1) if one_key else key.reshape(-1)
    low, word, zero = np.uint64(LOW_WORD), np.uint64(32), np.zeros(1, U64)
    for start in range(0, counter.size, BLOCK_ELEMENTS):
        block = slice(start, start + BLOCK_ELEMENTS)
        these, those = counters[block], keys if one_key else keys[block]
        first, second, _, _ = philox_4x32((these & low, these >> word, zero, zero), (those & low, those >> word))
        words[block] = first | second << word
    return words.reshape(counter.shape)


def philox_word(counter: int, key: int) -> int:
    """64 random bits for a counter and a key, in Python's integers, which take a twentieth of the time of arrays of one element."""
    c0, c1, c2, c3 = counter & LOW_WORD, counter >> 32, 0, 0
    k0, k1 = key & LOW_WORD, key >> 32
    for _ in range(ROUNDS):
        first, second = MULTIPLIERS[0] * c0, MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = (second >> 32) ^ c1 ^ k0, second & LOW_WORD, (first >> 32) ^ c3 ^ k1, first & LOW_WORD
        k0, k1 = (k0 + WEYL[0]) & LOW_WORD, (k1 + WEYL[1]) & LOW_WORD
    return c0 | c1 << 32


def _philox_samples() -> Iterator[Sample]:
    counters = np.array([0, 1, 2, LOW_WORD, LOW_WORD + 1, 2 ** 63, 2 ** 64 - 1], U64)
    for key in (0, 1, 2 ** 64 - 1, 0x0123456789ABCDEF):
        yield Sample((counters, np.full(counters.shape, key, U64)))
    yield Sample((np.array(5, U64), np.array(7, U64)))
    yield Sample((np.zeros((2, 0), U64), np.zeros((2, 0), U64)))


philox: OpDefinition = define(
    "philox", Kind.ELEMENTWISE, arity=2, vjp=None,
    doc="64 random bits for each pair of a counter and a key: the first two words that Philox4x32-10 gives for the counter (low word, "
        "high word, 0, 0) and the key (low word, high word).",
    infer=_infer_philox, evaluate=_evaluate_philox, scalar="philox({0}, {1})", samples=_philox_samples,
    cost=OpCost.TRANSCENDENTAL, rounding=Rounding.NONE)
