"""A fit with lmfit: residuals and Jacobian of one C function."""

import lmfit
import numpy as np

import adjit as aj

T = np.linspace(0.0, 4.0, 40)


@aj.compile
def residuals(p, y):
    return p["amplitude"] * np.exp(-p["rate"] * T) + p["level"] - y


def main() -> dict[str, float]:
    start = {"amplitude": 1.0, "rate": 1.0, "level": 0.0}
    y = 2.0 * np.exp(-1.3 * T) + 0.5
    c = residuals.as_callable(start, y, form="jacobian", data="y")

    def numbers(params):
        return np.array([params[name].value for name in start])

    found = lmfit.minimize(lambda params: c(numbers(params))[0], lmfit.create_params(**start), Dfun=lambda params: c(numbers(params))[1])
    return {name: found.params[name].value for name in start}


if __name__ == "__main__":
    print(main())
