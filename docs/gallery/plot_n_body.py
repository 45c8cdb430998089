"""
Aiming among moving bodies
==========================

Where must a probe start to meet a planet after 400 leapfrog steps? Newton's method through the whole simulation.
"""

import matplotlib.pyplot as plt
import numpy as np

import adjit as aj

masses = np.array([1.0, 1e-3])
start = np.array([[0.0, 0.0], [1.6, 0.0]])
speeds = np.array([[0.0, -7.9e-4], [0.0, 0.79]])


def pull(at, bodies):
    away = bodies - at
    return np.sum(masses[:, None] * away / (np.sum(away**2, axis=1, keepdims=True) + 1e-4) ** 1.5, axis=0)


def fly(velocity):
    """Distance to the planet at the end, and the way there."""
    bodies, moving = start, speeds
    probe, way = np.array([0.6, 0.0]), []
    dt = 1e-2
    for _ in range(400):
        bodies, probe = bodies + 0.5 * dt * moving, probe + 0.5 * dt * velocity
        moving = moving + dt * np.stack([pull(bodies[0], bodies), pull(bodies[1], bodies)])
        velocity = velocity + dt * pull(probe, bodies)
        bodies, probe = bodies + 0.5 * dt * moving, probe + 0.5 * dt * velocity
        way.append(np.stack([*bodies, probe]))
    return probe - bodies[1], np.array(way)


guess = np.array([0.0, 1.55])
found = aj.fit.root(lambda v: fly(v)[0], guess)
print("velocity", np.round(found.params, 6), "misses by", f"{np.linalg.norm(found.fun):.1e}", "after", found.nfev, "flights")

figure, axes = plt.subplots(figsize=(6, 6))
for velocity, style in ((guess, ":"), (found.params, "-")):
    way = aj.compile(fly)(velocity)[1]
    axes.plot(way[:, 2, 0], way[:, 2, 1], style, color="tab:blue")
axes.plot(way[:, 1, 0], way[:, 1, 1], color="tab:orange")
axes.plot(*way[-1, 1], "o", color="tab:orange")
axes.plot(0, 0, "*", color="gold", markersize=14)
axes.set_aspect("equal")
plt.show()
