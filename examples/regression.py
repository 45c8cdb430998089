"""Fit a regression that outliers cannot spoil, with SciPy's L-BFGS and exact gradients: float64, one compiled function.

    python examples/regression.py

The noise follows Student's t distribution, whose scale and degrees of freedom are fitted too. Writes out/regression.png.
Needs the extra `demo`: pip install 'adjit[demo]'.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
from rich.progress import Progress, TextColumn
from scipy.optimize import minimize
from sklearn.datasets import load_diabetes

import adjit as aj

matplotlib.use("Agg")
from matplotlib import pyplot

OUTLIERS = 0.1


def negative_log_likelihood(params: np.ndarray, features: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Of a linear model with Student's t noise; the last two parameters give its scale and its degrees of freedom, more than one."""
    weights, scale, freedom = params[:-2], np.exp(params[-2]), 1.0 + np.exp(params[-1])
    residual = (target - features @ weights) / scale
    # Stirling's series for the ratio of gamma functions, good to 1e-4 from one degree of freedom on
    ratio = 0.5 * np.log(freedom / 2.0) - 1.0 / (4.0 * freedom) + 1.0 / (24.0 * freedom ** 3)
    log_density = ratio - 0.5 * np.log(np.pi * freedom) - np.log(scale) - 0.5 * (freedom + 1.0) * np.log1p(residual ** 2 / freedom)
    return -np.mean(log_density)


def data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features with a column of ones, the target, and which targets were replaced by nonsense."""
    features, target = load_diabetes(return_X_y=True)
    target = (target - target.mean()) / target.std()
    generator = np.random.default_rng(0)
    spoiled = generator.random(len(target)) < OUTLIERS
    target = np.where(spoiled, generator.uniform(8.0, 12.0, len(target)), target)
    features = features / features.std(axis=0)
    return np.column_stack([features, np.ones(len(features))]), target, spoiled


def fit(features: np.ndarray, target: np.ndarray, most: int) -> tuple[np.ndarray, list[float]]:
    """The parameters, and the objective after each iteration."""
    objective = aj.value_and_grad(negative_log_likelihood)
    history: list[float] = []
    with Progress(TextColumn("iteration {task.completed}"), TextColumn("objective {task.fields[value]:.6f}")) as progress:
        task = progress.add_task("", total=None, value=float("nan"))

        def note(intermediate_result: object) -> None:
            history.append(float(intermediate_result.fun))      # type: ignore[attr-defined]
            progress.update(task, advance=1, value=history[-1])

        start = np.zeros(features.shape[1] + 2)
        start[-1] = np.log(4.0)
        found = minimize(objective, start, args=(features, target), jac=True, method="L-BFGS-B", callback=note, options={"maxiter": most})
    return found.x, history


def plot(features: np.ndarray, target: np.ndarray, spoiled: np.ndarray, robust: np.ndarray, squares: np.ndarray, path: Path) -> None:
    figure, axes = pyplot.subplots(1, 2, figsize=(10, 4.5), layout="constrained", sharey=True)
    clean = target[~spoiled]
    for axis, weights, name in ((axes[0], squares, "least squares"), (axes[1], robust, "Student's t, fitted")):
        predicted = (features @ weights)[~spoiled]
        axis.plot(predicted, clean, "o", color="tab:blue", alpha=0.5, markersize=4)
        ends = np.array([clean.min(), clean.max()])
        axis.plot(ends, ends, color="0.4", linewidth=1)
        error = np.mean(np.abs(predicted - clean))
        axis.set(title=f"{name}: mean error {error:.2f} on clean data", xlabel="predicted", xlim=ends)
    axes[0].set_ylabel("measured")
    figure.savefig(path, dpi=120)


def main(iterations: int = 200, out: Path = Path("out")) -> float:
    """Fit, report, draw; the mean absolute error on the data that was not spoiled."""
    features, target, spoiled = data()
    params, history = fit(features, target, iterations)
    squares = np.linalg.lstsq(features, target, rcond=None)[0]
    out.mkdir(exist_ok=True)
    plot(features, target, spoiled, params[:-2], squares, out / "regression.png")
    error = float(np.mean(np.abs(features @ params[:-2] - target)[~spoiled]))
    print(f"{len(history)} iterations, {1 + np.exp(params[-1]):.1f} degrees of freedom; mean error on clean data {error:.3f}, "
          f"least squares {np.mean(np.abs(features @ squares - target)[~spoiled]):.3f}; picture: {out / 'regression.png'}")
    return error


if __name__ == "__main__":
    main()
