"""SciPy integrates a compiled function through its C function: no Python in the loop, and data that is replaced without compiling."""

import numpy as np
from scipy import integrate

import adjit as aj


@aj.compile
def density(x, width):
    return np.exp(-0.5 * (x / width) ** 2)


def main() -> list[float]:
    c = density.as_callable(0.5, 1.0, form="value", data="width")
    areas = []
    for width in (1.0, 2.0):
        c.set(width=width)
        areas.append(integrate.quad(c.low_level_callable(), -np.inf, np.inf)[0])
    return areas


if __name__ == "__main__":
    print(main(), "should be", np.sqrt(2 * np.pi) * np.array([1.0, 2.0]))
