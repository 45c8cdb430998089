"""
A network and its training step
===============================

Forward, backward and update are one program; the memory report shows what is alive at each step.
"""

import matplotlib.pyplot as plt
import numpy as np

import adjit as aj

model = aj.nn.Sequential(aj.nn.Linear(2, 64), aj.nn.Tanh(), aj.nn.Linear(64, 64), aj.nn.Tanh(), aj.nn.Linear(64, 1))
optimizer = aj.optim.Adam(model.parameters(), lr=3e-3)
rng = np.random.default_rng(0)
angle, arm = rng.uniform(0.3, 3, 600) * np.pi, rng.integers(0, 2, 600)
points = np.stack([angle * np.cos(angle + np.pi * arm), angle * np.sin(angle + np.pi * arm)], axis=1) / 6 + 0.02 * rng.normal(size=(600, 2))
x, y = aj.tensor(points, dtype="float32"), aj.tensor(arm[:, None], dtype="float32")


@aj.compile
def step(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = aj.nn.functional.binary_cross_entropy_with_logits(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


losses = [float(step(model, optimizer, x, y)) for _ in range(1500)]
print(f"loss {losses[0]:.3f} -> {losses[-1]:.4f}")

# %%
# What the network has learned, and how it got there.

grid = np.linspace(-1.8, 1.8, 150)
with aj.no_grad():
    places = aj.tensor(np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2), dtype="float32")
    inside = model(places).sigmoid().numpy().reshape(150, 150)
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
left.contourf(grid, grid, inside, levels=20, cmap="RdBu")
left.scatter(*points.T, c=arm, cmap="RdBu", s=6, edgecolor="k", linewidth=0.2)
right.semilogy(losses)
right.set_xlabel("step")
plt.show()
