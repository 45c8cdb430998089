"""
An image out of its blur
========================

The blur is a product in Fourier space; the image is what explains the data with little total variation, found by gradient steps.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

import adjit as aj

image = load_sample_image("china.jpg")[100:356, 200:456].mean(axis=2) / 255
row, column = np.meshgrid(*[np.fft.fftfreq(256)] * 2, indexing="ij")
transfer = np.exp(-2 * (np.pi * 3.0) ** 2 * (row**2 + column[:, :] ** 2))[:, :129]
rng = np.random.default_rng(0)


def blur(picture):
    return np.fft.irfft2(np.fft.rfft2(picture) * transfer, s=picture.shape)


data = blur(image) + 0.004 * rng.normal(size=image.shape)


def loss(picture):
    across, down = np.diff(picture, axis=1)[:-1], np.diff(picture, axis=0)[:, :-1]
    return np.sum((blur(picture) - data) ** 2) + 1e-3 * np.sum(np.sqrt(across**2 + down**2 + 1e-6))


adam = aj.optim.adam(2e-2)


@aj.compile(donate=("picture", "state"))
def step(picture, state):
    value, slope = aj.value_and_grad(loss)(picture)
    return *adam.update(picture, slope, state), value


picture = data.copy()
state = adam.init(picture)
for _ in range(300):
    picture, state, value = step(picture, state)
for name, shown in (("blurred", data), ("recovered", picture)):
    print(f"{name:10s} root mean squared error {np.sqrt(np.mean((shown - image) ** 2)):.4f}")

figure, axes = plt.subplots(1, 3, figsize=(11, 4))
for part, title, shown in zip(axes, ("original", "blurred", "recovered"), (image, data, picture), strict=True):
    part.imshow(shown, cmap="gray", vmin=0, vmax=1)
    part.set_title(title)
    part.axis("off")
plt.show()
