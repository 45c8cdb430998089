"""
Heating a plate to a pattern
============================

A Python loop over time steps of the heat equation, with stencils written in place, and the gradient in what is fed in at its edge.
"""

import matplotlib.pyplot as plt
import numpy as np

import adjit as aj

n, rounds = 32, 200
row, column = np.mgrid[:n, :n] / (n - 1)
wanted = 0.5 + 0.5 * np.sin(np.pi * row) * np.cos(2 * np.pi * column)


def heat(edge):
    """Temperature after some time, of a plate whose edge is held at given temperatures."""
    u = np.zeros((n, n))
    u[0], u[-1], u[:, 0], u[:, -1] = edge
    for _ in range(rounds):
        new = u.copy()
        new[1:-1, 1:-1] = u[1:-1, 1:-1] + 0.24 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1])
        u = new
    return u


fit = aj.fit.minimize(lambda edge: np.mean((heat(edge)[2:-2, 2:-2] - wanted[2:-2, 2:-2]) ** 2), np.zeros((4, n)))
reached = aj.compile(heat)(fit.params)
print(f"{fit.nfev} gradients of {rounds} steps; root mean squared difference {np.sqrt(fit.fun):.3f}")

figure, axes = plt.subplots(1, 2, figsize=(8, 4))
for part, title, shown in zip(axes, ("wanted", "reached"), (wanted, reached), strict=True):
    part.imshow(shown, cmap="inferno", vmin=0, vmax=1)
    part.set_title(title)
    part.axis("off")
plt.show()
