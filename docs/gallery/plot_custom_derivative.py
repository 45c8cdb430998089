"""
A derivative of your own
========================

Rounding has derivative 0 everywhere. `adjit.custom_vjp` lets the gradient pass as if it was not there: a network with few levels learns.
"""

import matplotlib.pyplot as plt
import numpy as np

import adjit as aj


@aj.custom_vjp
def rounded(x):
    return np.round(x * 4) / 4


rounded.defvjp(lambda x: (rounded(x), None), lambda residuals, cotangent: (cotangent,))

x = np.linspace(-3, 3, 200)[:, None]
target = np.sin(x)


def network(p, x, levels):
    return levels(np.tanh(x @ p["w1"] + p["b1"])) @ p["w2"]


def train(levels):
    rng = np.random.default_rng(0)
    p = {"w1": rng.normal(size=(1, 24)), "b1": rng.normal(size=24), "w2": 0.1 * rng.normal(size=(24, 1))}
    adam = aj.optim.adam(1e-2)

    @aj.compile
    def step(p, state):
        value, slope = aj.value_and_grad(lambda p: np.mean((network(p, x, levels) - target) ** 2))(p)
        return *adam.update(p, slope, state), value

    state = adam.init(p)
    values = []
    for _ in range(800):
        p, state, value = step(p, state)
        values.append(float(value))
    return p, values


figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
left.plot(x, target, color="gray")
for name, levels in (("derivative 0", lambda h: np.round(h * 4) / 4), ("passed on", rounded)):
    p, values = train(levels)
    print(f"{name:13s} error {values[-1]:.4f}")
    left.plot(x, network(p, x, rounded), label=name)
    right.semilogy(values, label=name)
left.legend()
right.set_xlabel("step")
plt.show()
