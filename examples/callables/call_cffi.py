"""Code that knows addresses alone, here by cffi, calls a compiled value and gradient."""

import cffi
import numpy as np

import adjit as aj


@aj.compile
def energy(p, data):
    return np.sum((p["slope"] * data + p["level"]) ** 2)


def main() -> tuple[float, list[float]]:
    c = energy.as_callable({"slope": 1.0, "level": 0.0}, np.arange(4.0), form="value_and_grad", data="data")
    ffi = cffi.FFI()
    call = ffi.cast("double (*)(int64_t, const double *, double *, void *)", c.addresses["value_and_grad"])
    gradient = ffi.new("double[2]")
    return call(2, ffi.new("double[]", [2.0, 1.0]), gradient, ffi.NULL), list(gradient)


if __name__ == "__main__":
    print(main())
