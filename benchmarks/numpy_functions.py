"""Every function on vectors, compiled, beside NumPy's own: `make bench-functions` prints the ten with the highest ratio, at 10 and at a
million elements. One thread; the least processor time of many runs, both in turns."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import adjit as aj

UNARY = (
    "absolute", "arccosh", "arcsinh", "arctan", "cbrt", "ceil", "cos", "cosh", "deg2rad", "degrees", "exp", "exp2", "expm1", "fabs",
    "floor", "isfinite", "isinf", "isnan", "log", "log10", "log1p", "log2", "negative", "positive", "reciprocal", "rint", "sign",
    "signbit", "sin", "sinh", "sqrt", "square", "tan", "tanh", "trunc", "spacing",
)
BINARY = (
    "add", "arctan2", "copysign", "divide", "equal", "float_power", "floor_divide", "fmax", "fmin", "fmod", "greater", "heaviside",
    "hypot", "less", "logaddexp", "logaddexp2", "maximum", "minimum", "multiply", "nextafter", "not_equal", "power", "remainder",
    "subtract",
)
REDUCTIONS = (
    "all", "any", "argmax", "argmin", "average", "count_nonzero", "cumprod", "cumsum", "max", "mean", "median", "min", "nanmax",
    "nanmean", "nanmedian", "nanmin", "nanstd", "nansum", "prod", "ptp", "std", "sum", "var",
)
OTHERS = {
    "argsort": "argsort(x)", "sort": "sort(x)", "clip": "clip(x,0.5,1.5)", "where": "where(x>1,x,y)", "diff": "diff(x)",
    "flip": "flip(x)*1",
    "gradient": "gradient(x)", "interp": "interp(x,t,t)", "searchsorted": "searchsorted(t,x)", "digitize": "digitize(x,t)",
    "roll": "roll(x,3)",
    "histogram": "histogram(x,10)[0]", "bincount": "bincount(i,minlength=8)", "convolve": "convolve(x,t[:5])", "dot": "dot(x,y)",
    "concatenate": "concatenate([x,y])", "stack": "stack([x,y])", "repeat": "repeat(x,2)", "tile": "tile(x,2)", "pad": "pad(x,2)",
    "trapezoid": "trapezoid(x)", "quantile": "quantile(x,0.3)", "percentile": "percentile(x,[25,75])", "unwrap": "unwrap(x)",
    "sinc": "sinc(x)",
    "i0": "i0(x)", "nan_to_num": "nan_to_num(x)", "round": "round(x,2)", "isclose": "isclose(x,y)", "polyval": "polyval(t[:4],x)",
    "cov": "cov(x,y)",
    "corrcoef": "corrcoef(x,y)", "take": "take(x,i)", "select": "select([x>1,y>1],[x,y])", "ediff1d": "ediff1d(x)", "frexp": "frexp(x)[0]",
    "ldexp": "ldexp(x,3)", "modf": "modf(x)[0]", "divmod": "divmod(x,y)[0]", "gcd": "gcd(i,6)", "vander": "vander(x,3)",
    "linspace": "linspace(x[0],2.0,x.size)",
    "partition": "partition(x,x.size//2)", "isin": "isin(i,[1,3])", "cross": "cross(x[:3],y[:3])", "outer": "outer(x[:99],y[:99])",
    "packbits": "packbits(x>1)", "gcd of arrays": "gcd(i,j)", "lcm": "lcm(i,j)",
    "floor_divide of integers": "floor_divide(i,j)", "remainder of integers": "remainder(i,j)", "divide of integers": "divide(i,j)",
    "floor_divide by 3": "floor_divide(i,3)", "power of integers": "power(i,2)",
    "sliding_window_view": "lib.stride_tricks.sliding_window_view(x,4).sum(-1)", "logical_and": "logical_and(x>1,y>1)",
    "bitwise_count": "bitwise_count(i)",
    "maximum.accumulate": "maximum.accumulate(x)", "add.reduceat": "add.reduceat(x,[0,2,5])", "logaddexp.reduce": "logaddexp.reduce(x)",
    "geomspace": "geomspace(x[0],9.0,x.size)",
}


def calls() -> dict[str, str]:
    return {**{name: f"{name}({'x+1' if name == 'arccosh' else 'x'})" for name in UNARY}, **{name: f"{name}(x,y)" for name in BINARY},
            **{name: f"{name}(x)" for name in REDUCTIONS}, **OTHERS}


def least(first: Callable[[], Any], second: Callable[[], Any], seconds: float) -> tuple[float, float]:
    """Least times of two functions, run in turns."""
    repeats = max(int(2e-4 / max(_once(first, 1), 1e-7)), 1)
    times = [np.inf, np.inf]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        times = [min(best, _once(function, repeats)) for best, function in zip(times, (first, second), strict=True)]
    return times[0], times[1]


def _once(function: Callable[[], Any], repeats: int) -> float:
    function()      # the other one's results have left the caches
    start = time.process_time()
    for _ in range(repeats):
        function()
    return (time.process_time() - start) / repeats


def measure(size: int, seconds: float) -> list[tuple[float, str, float, float]]:
    draw = np.random.default_rng(0)
    x, y = draw.uniform(0.1, 2.0, size), draw.uniform(0.1, 2.0, size)
    arguments = {"x": x, "y": y, "t": np.linspace(0, 2, 30), "i": draw.integers(0, 8, size),
                 "j": draw.integers(1, 99, size)}
    results = []
    for name, text in calls().items():
        function: Any = eval(f"lambda {','.join(arguments)}: np.{text}", {"np": np})
        compiled = aj.compile(function, threads=1)
        values = tuple(arguments.values())
        try:
            for _ in range(4):
                compiled(*values)
        except aj.errors.AdjitError as error:
            print(f"{name}: {str(error).splitlines()[0]}")
            continue
        ours, theirs = least(lambda f=compiled, v=values: f(*v), lambda f=function, v=values: f(*v), seconds)     # type: ignore[misc]
        results.append((ours / theirs, name, ours, theirs))
    return sorted(results, reverse=True)


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 0.2
    with np.errstate(all="ignore"):
        for size in (10, 1_000_000):
            results = measure(size, seconds)
            slower = sum(ratio > 1.2 for ratio, *_ in results)
            print(f"{size} elements: {len(results)} functions, {slower} slower than 1.2 times NumPy's own; the ten highest ratios")
            for ratio, name, ours, theirs in results[:10]:
                print(f"  {name:22} {ratio:6.2f}   {ours * 1e6:10.2f} us, NumPy {theirs * 1e6:10.2f} us")


if __name__ == "__main__":
    main()
