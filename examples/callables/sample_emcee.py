"""emcee samples a compiled log density."""

import emcee
import numpy as np

import adjit as aj


@aj.compile
def log_density(q, scales):
    return -0.5 * np.sum((q / scales) ** 2)


def main(steps: int = 1500) -> np.ndarray:
    c = log_density.as_callable(np.zeros(2), np.array([1.0, 3.0]), form="value", data="scales")
    sampler = emcee.EnsembleSampler(16, 2, c)
    sampler.run_mcmc(np.random.default_rng(0).normal(size=(16, 2)), steps)
    return np.std(sampler.get_chain(discard=steps // 3, flat=True), axis=0)


if __name__ == "__main__":
    print(main(), "should be about 1 and 3")
