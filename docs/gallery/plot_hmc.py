"""
Hamiltonian Monte Carlo
=======================

A sampler in plain NumPy: its leapfrog steps are a Python loop that stays a loop of the program, gradient included.
"""

import matplotlib.pyplot as plt
import numpy as np

import adjit as aj


def log_density(z):
    """A banana."""
    return -0.5 * z[0] ** 2 - 0.5 * ((z[1] - 0.5 * z[0] ** 2) / 0.3) ** 2


slope = aj.grad(log_density)


@aj.compile
def trajectory(z, momentum, step):
    for _ in range(30):
        momentum = momentum + 0.5 * step * slope(z)
        z = z + step * momentum
        momentum = momentum + 0.5 * step * slope(z)
    return z, log_density(z) - 0.5 * momentum @ momentum


rng = np.random.default_rng(0)
z, draws, accepted = np.zeros(2), [], 0
for _ in range(4000):
    momentum = rng.normal(size=2)
    before = float(log_density(z)) - 0.5 * momentum @ momentum
    proposal, after = trajectory(z, momentum, 0.12)
    if np.log(rng.random()) < after - before:
        z, accepted = proposal, accepted + 1
    draws.append(z)
draws = np.array(draws)
print(f"accepted {accepted / len(draws):.2f}, mean of the first coordinate {draws[:, 0].mean():.2f}, its variance {draws[:, 0].var():.2f}")

figure, axes = plt.subplots(figsize=(6, 4.5))
axes.plot(*draws.T, ".", markersize=2)
axes.set_xlabel("$z_1$")
axes.set_ylabel("$z_2$")
plt.show()
