"""
A Kalman filter and its noises
==============================

The filter is a Python loop over 400 measurements. It stays a loop of the program, compiles in a moment, and its likelihood has a gradient.
"""

import matplotlib.pyplot as plt
import numpy as np

import adjit as aj

rng = np.random.default_rng(0)
velocity = np.cumsum(0.05 * rng.normal(size=400))
position = np.cumsum(velocity)
measured = position + 2.0 * rng.normal(size=400)
move, see = np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([[1.0, 0.0]])


def run(logs):
    drift, noise = np.exp(2 * logs)
    state, covariance, likelihood, path = np.zeros(2), 10.0 * np.eye(2), 0.0, []
    for z in measured:
        state = move @ state
        covariance = move @ covariance @ move.T + drift * np.array([[0.25, 0.5], [0.5, 1.0]])
        spread = (see @ covariance @ see.T)[0, 0] + noise
        surprise = z - (see @ state)[0]
        gain = (covariance @ see.T)[:, 0] / spread
        state = state + gain * surprise
        covariance = covariance - np.outer(gain, see @ covariance)
        likelihood = likelihood - 0.5 * (surprise**2 / spread + np.log(2 * np.pi * spread))
        path.append(state)
    return likelihood, np.array(path)


fit = aj.fit.minimize(lambda logs: -run(logs)[0], np.zeros(2))
print("standard deviations: drift {:.3f}, measurement {:.2f} (true 0.05, 2)".format(*np.exp(fit.params)))
path = aj.compile(run)(fit.params)[1]

figure, axes = plt.subplots(figsize=(8, 4))
axes.plot(measured, ".", color="lightgray", label="measured")
axes.plot(position, color="k", linewidth=0.8, label="true")
axes.plot(path[:, 0], label="filtered")
axes.legend()
plt.show()
