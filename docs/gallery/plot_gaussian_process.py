"""
A Gaussian process
==================

The likelihood is a Cholesky factor and a triangular solve; its gradient in the length, height and noise of the kernel comes with it.
"""

import matplotlib.pyplot as plt
import numpy as np

import adjit as aj

rng = np.random.default_rng(2)
x = np.sort(rng.uniform(-4, 4, 60))
y = np.sin(2 * x) * np.exp(-0.1 * x**2) + 0.15 * rng.normal(size=x.size)


def kernel(p, a, b):
    return np.exp(2 * p["height"]) * np.exp(-0.5 * ((a[:, None] - b) / np.exp(p["length"])) ** 2)


def negative_log_likelihood(p):
    factor = np.linalg.cholesky(kernel(p, x, x) + np.exp(2 * p["noise"]) * np.eye(x.size))
    white = aj.linalg.solve_triangular(factor, y, lower=True)
    return 0.5 * white @ white + np.sum(np.log(np.diag(factor))) + 0.5 * x.size * np.log(2 * np.pi)


fit = aj.fit.minimize(negative_log_likelihood, {"height": 0.0, "length": 0.0, "noise": -1.0})
print({key: round(float(np.exp(value)), 3) for key, value in fit.params.items()})

# %%
# The posterior at other places is one more function of the same parameters.


@aj.compile
def posterior(p, at):
    covariance = kernel(p, x, x) + np.exp(2 * p["noise"]) * np.eye(x.size)
    between = kernel(p, x, at)
    mean = between.T @ np.linalg.solve(covariance, y)
    return mean, np.exp(2 * p["height"]) - np.sum(between * np.linalg.solve(covariance, between), axis=0)


at = np.linspace(-6, 6, 300)
mean, variance = posterior(fit.params, at)
figure, axes = plt.subplots(figsize=(7, 4))
axes.plot(x, y, ".", color="gray")
axes.plot(at, mean)
axes.fill_between(at, mean - 2 * np.sqrt(variance), mean + 2 * np.sqrt(variance), alpha=0.3)
plt.show()
