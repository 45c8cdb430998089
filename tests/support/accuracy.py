"""Errors of computed floats, and the arguments at which they are measured."""

from __future__ import annotations

import math

import numpy as np

LONG = np.longdouble


def errors_in_ulps(computed: np.ndarray, reference: np.ndarray, beside: np.ndarray | None = None) -> np.ndarray:
    """Errors in units of the last place of the reference, or of `beside` if it is larger.

    `reference` is of a wider type. inf: a NaN too many or too few, or the wrong sign of a zero.
    """
    info, wide = np.finfo(computed.dtype), reference.dtype.type
    edge = wide(2) ** wide(info.maxexp)                      # infinity counts as the next number
    y, r = np.clip(computed.astype(wide), -edge, edge), np.clip(reference, -edge, edge)
    scale = abs(r) if beside is None else np.maximum(abs(r), np.minimum(beside, edge).astype(wide))
    exponent = np.frexp(np.where(np.isfinite(scale), scale, 1))[1] - 1
    unit = np.ldexp(wide(1), np.clip(exponent, info.minexp, info.maxexp - 1) - info.nmant)
    error = abs(y - r) / unit
    unequal_nan, both_nan = np.isnan(y) != np.isnan(r), np.isnan(y) & np.isnan(r)
    wrong_zero = (r == 0) & (y == 0) & (np.signbit(y) != np.signbit(r))
    return np.where(both_nan, 0, np.where(unequal_nan | wrong_zero, np.inf, error))


def edges(dtype: type) -> np.ndarray:
    """Zeros, ends, thresholds, whole numbers and halves, with their neighbours and signs."""
    info = np.finfo(dtype)
    numbers = [0, info.smallest_subnormal, info.tiny / 3, info.tiny, info.eps, info.max / 2, info.max, np.inf, np.nan,
               *np.arange(1, 41) / 8, *range(5, 41), 2.0 ** info.nmant, 2.0 ** info.nmant + 1, 2.0 ** (info.nmant + 1),
               2.0 ** (info.nmant - 1) + 0.5, 2.0 ** 16, 2.0 ** 30, 1e4, 1e22, 1e30, 0.625, math.log(2) / 2, 88.72, 103.97,
               709.78, 745.13, 89.41, 710.47, 6381956970095103 * 2.0 ** 797]
    with np.errstate(over="ignore", invalid="ignore"):
        x = np.array(numbers, np.float64).astype(dtype)
        x = np.concatenate([x, np.nextafter(x, dtype(np.inf)), np.nextafter(x, dtype(0))])
    return np.concatenate([x, -x])


def random_bits(dtype: type, count: int, random: np.random.Generator) -> np.ndarray:
    """Numbers of all exponents, NaN among them."""
    bits = np.finfo(dtype).bits
    return random.integers(0, 1 << bits, count, dtype=np.uint64).astype(f"uint{bits}").view(dtype)


def single_points(stride: int) -> np.ndarray:
    """Every `stride`-th float32 number, the edges, and numbers next to multiples of pi/2."""
    halves = (np.arange(1, 1 << 16) * (math.pi / 2)).astype(np.float32)
    return np.concatenate([edges(np.float32), halves, np.arange(0, 1 << 32, stride, np.uint64).astype(np.uint32).view(np.float32)])


def double_points(low: float, high: float, count: int) -> np.ndarray:
    """Numbers of all exponents, dense between `low` and `high`, at these ends, near 1, at subnormals and next to multiples of pi/2."""
    random = np.random.default_rng(7)
    halves = np.concatenate([np.arange(1, 2000), random.integers(2000, 1 << 31, 2000)]) * (math.pi / 2)
    return np.concatenate([
        edges(np.float64), random_bits(np.float64, count, random),
        random.standard_normal(count) * np.exp(random.uniform(-8, 8, count)), random.uniform(low, high, count),
        low + (high - low) * np.exp2(-random.uniform(0, 60, count)), high - (high - low) * np.exp2(-random.uniform(0, 60, count)),
        1 + random.choice([-1, 1], count) * np.exp2(-random.uniform(0, 54, count)),
        random.choice([-1.0, 1.0], count) * np.exp2(-random.uniform(0, 1074, count)),
        halves, np.nextafter(halves, 0), np.nextafter(halves, np.inf), np.round(halves * 2 ** 40) * 2.0 ** 300])


def point_pairs(dtype: type, count: int, powers: bool) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of edges, usual and unusual pairs, close pairs; for `powers`, results over the whole range."""
    random = np.random.default_rng(7)

    def usual() -> np.ndarray:
        return (random.standard_normal(count) * np.exp(random.uniform(-3, 3, count))).astype(dtype)

    e = edges(dtype)[::1 if powers else 3]
    with np.errstate(all="ignore"):
        a, b = usual(), random_bits(dtype, count, random)
        groups = [(np.repeat(e, len(e)), np.tile(e, len(e))), (random_bits(dtype, count, random), random_bits(dtype, count, random)),
                  (usual(), usual()), (usual(), b), (a, (a * np.exp2(random.uniform(-30, 30, count))).astype(dtype)),
                  (b, (b * random.uniform(-3, 3, count)).astype(dtype))]
        if powers:
            size = np.log(float(np.finfo(dtype).max)) * 1.02
            near_one = 1 + random.choice([-1, 1], count) * np.exp2(-random.uniform(0, np.finfo(dtype).nmant, count))
            for base in (np.exp(random.uniform(-80, 80, count)).astype(dtype), near_one.astype(dtype)):
                groups.append((base, (random.uniform(-size, size, count) / np.log(base.astype(np.float64))).astype(dtype)))
            groups.append((random.integers(-30, 30, count).astype(dtype), random.integers(-20, 20, count).astype(dtype)))
    return np.concatenate([x for x, _ in groups]), np.concatenate([y for _, y in groups])
