"""A hierarchical logistic regression: nutpie's NUTS calls the compiled log density and its gradient, without Python and the GIL."""

import numpy as np
import nutpie

import adjit as aj


@aj.compile
def log_density(q, x, group, y):
    z = x @ q["beta"] + np.exp(q["log_sigma"]) * aj.numpy.take(q["u"], group)
    prior = np.sum(q["beta"] ** 2) + np.sum(q["u"] ** 2) + q["log_sigma"] ** 2
    return np.sum(y * z - np.logaddexp(0.0, z)) - 0.5 * prior


def main(draws: int = 500, chains: int = 2):
    rng = np.random.default_rng(0)
    x, group, offsets = rng.normal(size=(500, 8)), rng.integers(0, 30, 500), rng.normal(size=30)
    beta = rng.normal(size=8) / 2
    y = (rng.random(500) < 1 / (1 + np.exp(-(x @ beta + offsets[group])))).astype(float)
    start = {"beta": np.zeros(8), "u": np.zeros(30), "log_sigma": 0.0}
    c = log_density.as_callable(start, x, group, y, form="nutpie", data=("x", "group", "y"))
    return beta, nutpie.sample(c.nutpie_model(), draws=draws, tune=draws, chains=chains, seed=1, progress_bar=False)


if __name__ == "__main__":
    beta, trace = main()
    print(np.round(trace.posterior["beta"].values.mean((0, 1)), 2), "from", np.round(beta, 2))
