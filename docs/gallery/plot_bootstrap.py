"""
A thousand fits in one call
===========================

The fit is a function of its weights: `adjit.map` deals a thousand bootstrap samples to the cores, as one program.
"""

import matplotlib.pyplot as plt
import numpy as np

import adjit as aj

rng = np.random.default_rng(0)
x = rng.normal(size=(200, 3))
label = rng.random(200) < 1 / (1 + np.exp(-(x @ [1.0, -2.0, 0.5] + 0.3)))


def loss(w, weights):
    margin = np.where(label, 1.0, -1.0) * (x @ w[:3] + w[3])
    return np.sum(weights * np.logaddexp(0.0, -margin)) + 1e-3 * w @ w


def fit(weights):
    return aj.solve.newton(loss, np.zeros(4), (weights,)).x


samples = rng.multinomial(200, np.full(200, 1 / 200), size=1000).astype(float)
found = aj.compile(lambda samples: aj.map(fit, samples, batch=8))(samples)
print("standard errors by bootstrap", np.round(found.std(axis=0), 3))

curvature = aj.hessian(loss)(fit(np.ones(200)), np.ones(200))
print("and by the curvature        ", np.round(np.sqrt(np.diag(np.linalg.inv(curvature))), 3))

figure, axes = plt.subplots(figsize=(7, 4))
for column, true in zip(found.T, (1.0, -2.0, 0.5, 0.3), strict=True):
    axes.hist(column, bins=40, alpha=0.6)
    axes.axvline(true, color="k", linewidth=0.8)
axes.set_xlabel("coefficient")
plt.show()
