"""A Numba loop calls a compiled function, a million times."""

import numba
import numpy as np

import adjit as aj


@aj.compile
def density(x, width):
    return np.exp(-0.5 * (x / width) ** 2)


def main(calls: int = 1_000_000) -> float:
    call = density.as_callable(0.5, 1.0, form="value", data="width").value_of_one

    @numba.njit
    def mean(n):
        total = 0.0
        for i in range(n):
            total += call((i + 0.5) / n, 0)
        return total / n

    return mean(calls)


if __name__ == "__main__":
    print(main())
