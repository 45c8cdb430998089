"""The largest error of each function of one float32 argument, over all 2^32 of them.

    python benchmarks/vector_math_errors.py                     all functions, a minute each
    python benchmarks/vector_math_errors.py exp tan             some
    python benchmarks/vector_math_errors.py --results FILE      go on where a run had come to; what has changed is done anew

Prints the error in ulps and the argument where it is; ends with status 1 where one is above 2 ulp, or a NaN, an infinity or the sign of
a zero is wrong. References: NumPy and SciPy in float64, whose own errors are below 2^-26 ulp of float32. `--unfused` measures the form
without fused products, for processors that lack them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np
from vector_math import BITS, PAIRED, RANGES, RIVALS, initialize, kernel, kernel_text

from adjit.ir import special_functions

MAX_ULPS = 2.0
CHUNK = 1 << 13
ODD = ("sin", "tan", "sinh", "tanh", "arcsin", "arctan", "arcsinh", "arctanh", "erf", "erfinv", "i1e", "cbrt")
EVEN = ("cos", "cosh", "i0e")


def every_float32(negative: bool) -> Iterator[np.ndarray]:
    for start in range(0, 1 << (32 if negative else 31), CHUNK):
        yield np.arange(start, start + CHUNK, dtype=np.uint32).view(np.float32)


def reference(name: str) -> Callable[[np.ndarray], np.ndarray]:
    """In float64. What SciPy has of the gamma function is not exact next to the zeros of negative arguments; ours, which is, is slow."""
    quick: Callable[[np.ndarray], np.ndarray] = RIVALS.get(name) or getattr(np, name)
    if name not in ("lgamma", "digamma", "trigamma"):
        return quick
    exact = getattr(special_functions, name)
    return lambda x: exact(x) if name == "trigamma" or (~np.isfinite(x) | (x < -1e-3) & (x > -(2.0**23))).any() else quick(x)


@cache
def comparison() -> Callable[..., tuple[float, int]]:
    """The largest error in a part that is above `worst`, and its index; with such a one compiled, the references are what takes time."""
    import numba

    def compare(y: np.ndarray, y_bits: np.ndarray, exact: np.ndarray, exact_bits: np.ndarray, per_unit: np.ndarray,
                worst: float) -> tuple[float, int]:
        worst_index = -1
        for i in range(y.size):
            # infinity counts as the number that would come next
            wide = min(max(np.float64(y[i]), -(2.0**128)), 2.0**128) if y[i] == y[i] else np.nan
            true = min(max(exact[i], -(2.0**128)), 2.0**128) if exact[i] == exact[i] else np.nan
            error = abs(wide - true) * per_unit[(exact_bits[i] >> 52) & 0x7FF]
            if not error <= worst and (y[i] == y[i] or exact[i] == exact[i]):
                worst, worst_index = (error if error == error else np.inf), i
            if true == 0 and (exact_bits[i] < 0) != (y_bits[i] < 0):
                worst, worst_index = np.inf, i
        return worst, worst_index
    return numba.njit(compare)


PER_UNIT = 2.0**23 / np.exp2(np.clip(np.arange(2048.0) - 1023, -126, 127))
"""By the exponent of the exact result: what an error is multiplied with to be in units of the last place."""


class Worst:
    """The largest error so far, in ulps, and its argument."""

    def __init__(self) -> None:
        self.error, self.worst_index = 0.0, 0.0

    def compare(self, x: np.ndarray, y: np.ndarray, exact: np.ndarray) -> None:
        error, index = comparison()(y, y.view(np.int32), exact, exact.view(np.int64), PER_UNIT, self.error)
        if index >= 0:
            self.error, self.worst_index = error, float(x[index])

    def expect(self, same: np.ndarray, x: np.ndarray) -> None:
        if not same.all():
            self.error, self.worst_index = np.inf, float(x[np.argmin(same)])


def worst_error(name: str, fused: bool) -> Worst:
    """Of an odd or even function, negative arguments have to give the same bits as positive ones."""
    worst, exact_of, sign = Worst(), reference(name), -1 if name in ODD else 1
    x, y, mirrored = (np.empty(CHUNK, np.float32) for _ in range(3))
    call, opposite = kernel(name, "f32", BITS, fused), np.empty_like(x)
    run, run_opposite = call(y, x), call(mirrored, opposite)
    for x[:] in every_float32(negative=name not in ODD + EVEN):
        run()
        worst.compare(x, y, exact_of(x.astype(np.float64)))
        if name in ODD + EVEN:
            np.negative(x, out=opposite)
            run_opposite()
            worst.expect((mirrored.view(np.int32) == (sign * y).view(np.int32)) | np.isnan(y), x)
    return worst


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help="functions; all by default")
    parser.add_argument("--results", type=Path, help="a file that keeps what is done, function by function")
    parser.add_argument("--unfused", action="store_true", help="without fused products")
    options = parser.parse_args()
    initialize()
    names = options.names or [name for name in RANGES if name not in PAIRED]
    done = json.loads(options.results.read_text()) if options.results and options.results.exists() else {}
    print("| function | ulp | at |\n|---|---|---|")
    for name in names:
        text = hashlib.sha256(kernel_text(name, "f32", BITS, not options.unfused).encode()).hexdigest()
        if done.get(name, [None])[0] != text:
            with np.errstate(all="ignore"):
                worst = worst_error(name, not options.unfused)
            done[name] = text, worst.error, worst.worst_index
            if options.results:
                options.results.parent.mkdir(parents=True, exist_ok=True)
                options.results.write_text(json.dumps(done))
        print(f"| {name} | {done[name][1]:.4f} | {done[name][2]!r} |", flush=True)
    return int(any(done[name][1] > MAX_ULPS for name in names))


if __name__ == "__main__":
    sys.exit(main())
