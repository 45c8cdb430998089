"""
Newton's method on the complex plane
====================================

Each point takes its own number of steps: `vmap` runs the loop until all are done, and leaves those alone that were done before.
"""

import matplotlib.pyplot as plt
import numpy as np

import adjit as aj


def steps(re, im):
    """Number of steps from a point to a root, and the root."""
    def goes_on(state):
        count, z = state
        return (abs(z**3 - 1) > 1e-8) & (count < 60)

    return aj.while_loop(goes_on, lambda state: (state[0] + 1, state[1] - (state[1] ** 3 - 1) / (3 * state[1] ** 2)), (0, re + 1j * im))


side = np.linspace(-1.5, 1.5, 400) + 1e-9
re, im = np.meshgrid(side, side)
counts, roots = aj.compile(aj.vmap(steps))(re.ravel(), im.ravel())
print("steps: from", counts.min(), "to", counts.max())

figure, axes = plt.subplots(figsize=(6, 6))
axes.imshow(np.angle(roots).reshape(400, 400), cmap="twilight", extent=(-1.5, 1.5, -1.5, 1.5), origin="lower")
axes.imshow(counts.reshape(400, 400), cmap="gray_r", alpha=0.35, vmax=25, extent=(-1.5, 1.5, -1.5, 1.5), origin="lower")
plt.show()
