"""Train a convolutional network on images of digits: modules and optimiser as in PyTorch, the training step one compiled program.

    python examples/digits_cnn.py

Writes out/digits_cnn.png. Needs the extra `demo`: pip install 'adjit[demo]'.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import adjit as aj
from adjit import nn

matplotlib.use("Agg")
from matplotlib import pyplot

BATCH = 64


class Net(nn.Module):
    """Two convolutions, two layers: 8 x 8 pixels to 10 scores."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
        self.classifier = nn.Sequential(nn.Dropout(0.25), nn.Linear(32 * 2 * 2, 64), nn.ReLU(), nn.Linear(64, 10))

    def forward(self, images: aj.Tensor) -> aj.Tensor:
        return self.classifier(self.features(images))


@aj.compile
def train_step(model: Net, optimizer: aj.optim.Adam, images: aj.Tensor, labels: aj.Tensor) -> aj.Tensor:
    """Forward, backward and update; without the decorator it runs the same, one operation at a time."""
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    return loss


@aj.compile
def predict(model: Net, images: aj.Tensor) -> aj.Tensor:
    return model(images).argmax(1)


def train(model: Net, images: np.ndarray, labels: np.ndarray, epochs: int) -> list[float]:
    """The loss of every step."""
    optimizer = aj.optim.Adam(model.parameters(), lr=2e-3)
    schedule = aj.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    generator = np.random.default_rng(0)
    losses: list[float] = []
    with Progress(TextColumn("epochs"), BarColumn(), MofNCompleteColumn(), TextColumn("loss {task.fields[loss]:.4f}")) as progress:
        task = progress.add_task("", total=epochs, loss=float("nan"))
        for _ in range(epochs):
            order = generator.permutation(len(images))
            for chosen in order[:len(order) - len(order) % BATCH].reshape(-1, BATCH):
                losses.append(train_step(model, optimizer, aj.tensor(images[chosen]), aj.tensor(labels[chosen])).item())
            schedule.step()
            progress.update(task, advance=1, loss=np.mean(losses[-len(order) // BATCH:]))
    return losses


def plot(losses: list[float], images: np.ndarray, labels: np.ndarray, predicted: np.ndarray, path: Path) -> None:
    """The loss, and the images that were classified wrong."""
    figure = pyplot.figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(3, 2))
    axes = left.subplots()
    axes.plot(losses, linewidth=1)
    axes.set(xlabel="step", ylabel="cross entropy", yscale="log", title="loss of the training batches")
    axes.grid(alpha=0.3)
    wrong = np.flatnonzero(predicted != labels)
    right.suptitle(f"{len(wrong)} of {len(labels)} test images are classified wrong")
    for axis, index in zip(right.subplots(2, 4).flat, [*wrong[:8], *[None] * 8]):   # noqa: B905
        axis.set_axis_off()
        if index is not None:
            axis.imshow(images[index, 0], cmap="gray_r")
            axis.set_title(f"{labels[index]} as {predicted[index]}", fontsize=9)
    figure.savefig(path, dpi=120)


def main(epochs: int = 30, out: Path = Path("out")) -> float:
    """Train, test, draw; the accuracy on images that were not trained on."""
    aj.manual_seed(0)
    digits = load_digits()
    images = (digits.images[:, None] / 16.0).astype(np.float32)
    train_images, test_images, train_labels, test_labels = train_test_split(images, digits.target, test_size=0.25, random_state=0)
    model = Net()
    losses = train(model, train_images, train_labels, epochs)
    model.eval()
    predicted = predict(model, aj.tensor(test_images)).numpy()
    accuracy = float(np.mean(predicted == test_labels))
    out.mkdir(exist_ok=True)
    plot(losses, test_images, test_labels, predicted, out / "digits_cnn.png")
    print(f"accuracy on {len(test_labels)} images not trained on: {accuracy:.2%}; picture: {out / 'digits_cnn.png'}")
    return accuracy


if __name__ == "__main__":
    main()
