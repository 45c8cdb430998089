"""
Parameters of a differential equation
=====================================

Lynx and hare, as counted each year: `adjit.ode.solve_ivp` is one loop of the program, and the fit has the derivative through its steps.
"""

import matplotlib.pyplot as plt
import numpy as np

import adjit as aj


def predator_and_prey(t, y, p):
    prey, predator = y
    return [p["birth"] * prey - p["hunt"] * prey * predator, p["growth"] * prey * predator - p["death"] * predator]


years = np.linspace(0, 20, 41)
true = {"birth": 0.6, "hunt": 0.03, "growth": 0.02, "death": 0.8}


def solve(p, at):
    return aj.ode.solve_ivp(predator_and_prey, (0, 20), [30.0, 8.0], t_eval=at, args=(p,), rtol=1e-7, atol=1e-9).y.T


rng = np.random.default_rng(1)
counts = solve(true, years) * np.exp(0.08 * rng.normal(size=(2, years.size)))

# %%
# The unknown rates are positive: the fit is one of their logarithms.


def residuals(logs):
    return np.ravel(np.log(solve({key: np.exp(value) for key, value in logs.items()}, years)) - np.log(counts))


fit = aj.fit.least_squares(residuals, {key: np.log(value * 1.3) for key, value in true.items()})
found = {key: float(np.exp(value)) for key, value in fit.params.items()}
errors = np.sqrt(np.diag(fit.covariance))
for (key, value), error in zip(found.items(), errors, strict=True):
    print(f"{key:7s}{value:.4f} +- {value * error:.4f}, true {true[key]}")

fine = np.linspace(0, 20, 300)
figure, axes = plt.subplots(figsize=(7, 4))
for name, color, dots, line in zip(("hare", "lynx"), ("tab:green", "tab:red"), counts, solve(found, fine), strict=True):
    axes.plot(years, dots, ".", color=color)
    axes.plot(fine, line, color=color, label=name)
axes.set_xlabel("year")
axes.legend()
plt.show()
