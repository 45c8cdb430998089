"""Toy fits with iminuit: one program, whose data are replaced for each toy."""

import numpy as np
from iminuit import Minuit

import adjit as aj


@aj.compile
def negative_log_likelihood(p, events):
    return np.sum(0.5 * ((events - p[0]) / p[1]) ** 2 + np.log(p[1]))


def main(toys: int = 20) -> np.ndarray:
    rng = np.random.default_rng(0)
    c = negative_log_likelihood.as_callable(np.ones(2), np.zeros(500), form="value_and_grad", data="events")
    found = []
    for _ in range(toys):
        c.set(events=rng.normal(3.0, 2.0, 500))
        minuit = Minuit(lambda p: c(p)[0], np.array([1.0, 1.0]), grad=lambda p: c(p)[1])
        minuit.errordef = Minuit.LIKELIHOOD
        minuit.limits[1] = (1e-3, None)
        minuit.migrad()
        found.append(np.array(minuit.values))
    return np.array(found)


if __name__ == "__main__":
    print(np.mean(main(), axis=0))
