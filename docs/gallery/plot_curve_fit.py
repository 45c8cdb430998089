"""
A curve and its uncertainty
===========================

`adjit.fit.curve_fit` is SciPy's with exact derivatives, on parameters that have names: the model is compiled, and so is its Jacobian.
"""

import matplotlib.pyplot as plt
import numpy as np

import adjit as aj


def peak(x, p):
    return p["height"] * np.exp(-0.5 * ((x - p["center"]) / p["width"]) ** 2) + p["offset"]


rng = np.random.default_rng(0)
x = np.linspace(-4, 4, 80)
true = {"height": 2.0, "center": 0.5, "width": 0.8, "offset": 0.3}
y = peak(x, true) + 0.15 * rng.normal(size=x.size)

best, covariance = aj.fit.curve_fit(peak, x, y, {"height": 1.0, "center": 0.0, "width": 1.0, "offset": 0.0})
for (name, value), error in zip(best.items(), np.sqrt(np.diag(covariance)), strict=True):
    print(f"{name:7s}{value:7.3f} +- {error:.3f}, true {true[name]}")

# %%
# The band follows from the covariance and the derivative of the model in its parameters, which is one more compiled function.

vector, unravel = aj.ravel_pytree(best)
slopes = aj.jacobian(lambda v: peak(x, unravel(v)))(vector)
spread = np.sqrt(np.einsum("ni,ij,nj->n", slopes, covariance, slopes))

figure, axes = plt.subplots(figsize=(7, 4))
axes.plot(x, y, ".", color="gray", label="data")
axes.plot(x, peak(x, best), label="fit")
axes.fill_between(x, peak(x, best) - 2 * spread, peak(x, best) + 2 * spread, alpha=0.3, label="two standard errors")
axes.legend()
plt.show()
