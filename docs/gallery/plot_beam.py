"""
A beam as light as it can be
============================

Finite elements of a bending beam: a banded stiffness, a solve, and the derivative of the deflection in every element's height.
"""

import matplotlib.pyplot as plt
import numpy as np

import adjit as aj

elements, length = 40, 1.0
size = length / elements
pattern = np.array([[12, 6 * size, -12, 6 * size], [6 * size, 4 * size**2, -6 * size, 2 * size**2],
                    [-12, -6 * size, 12, -6 * size], [6 * size, 2 * size**2, -6 * size, 4 * size**2]]) / size**3
load = np.zeros(2 * elements + 2)
load[-2] = 1.0                                                   # at the free end; the other end is clamped


def deflection(height):
    stiffness = np.zeros((2 * elements + 2, 2 * elements + 2))
    for e in range(elements):
        stiffness[2 * e:2 * e + 4, 2 * e:2 * e + 4] += height[e] ** 3 * pattern
    return np.linalg.solve(stiffness[2:, 2:], load[2:])


def compliance(logits):
    height = elements * np.exp(logits) / np.sum(np.exp(logits))  # the mean height, and so the mass, is fixed
    return load[2:] @ deflection(height)


fit = aj.fit.minimize(compliance, np.zeros(elements))
height = elements * np.exp(fit.params) / np.sum(np.exp(fit.params))
before, after = float(compliance(np.zeros(elements))), float(fit.fun)
print(f"the end moves by {before:.3f} in a uniform beam, by {after:.3f} in the best one of the same mass")

figure, axes = plt.subplots(figsize=(8, 3))
middle = (np.arange(elements) + 0.5) * size
axes.bar(middle, height, size, bottom=-height / 2, color="tab:gray")
axes.plot(np.linspace(size, length, elements), -deflection(height)[::2] / after * 2, color="tab:red", label="deflection, scaled")
axes.legend()
plt.show()
