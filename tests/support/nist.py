"""The 27 problems of nonlinear regression of NIST's Statistical Reference Datasets (https://www.itl.nist.gov/div898/strd/, public domain),
each with two starting points, certified parameters and the certified residual sum of squares: their numbers are in `nist.json`."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True)
class NistProblem:
    model: Callable[[Any, Any], Any]
    starts: list[list[float]]
    certified: list[float]
    sum_of_squares: float
    y: list[float]
    x: list[Any]


def _cubics(b: Any, x: Any) -> Any:
    return (b[0] + b[1] * x + b[2] * x ** 2 + b[3] * x ** 3) / (1 + b[4] * x + b[5] * x ** 2 + b[6] * x ** 3)


def _exponentials(b: Any, x: Any) -> Any:
    return b[0] * np.exp(-b[1] * x) + b[2] * np.exp(-b[3] * x) + b[4] * np.exp(-b[5] * x)


def _gaussians(b: Any, x: Any) -> Any:
    return b[0] * np.exp(-b[1] * x) + b[2] * np.exp(-((x - b[3]) / b[4]) ** 2) + b[5] * np.exp(-((x - b[6]) / b[7]) ** 2)


def _waves(b: Any, x: Any) -> Any:
    turn = 2 * np.pi * x
    return (b[0] + b[1] * np.cos(turn / 12) + b[2] * np.sin(turn / 12) + b[4] * np.cos(turn / b[3]) + b[5] * np.sin(turn / b[3])
            + b[7] * np.cos(turn / b[6]) + b[8] * np.sin(turn / b[6]))


def _ultrasonic(b: Any, x: Any) -> Any:
    return np.exp(-b[0] * x) / (b[1] + b[2] * x)


_MODELS: dict[str, Callable[[Any, Any], Any]] = {
    "Bennett5": lambda b, x: b[0] * (b[1] + x) ** (-1 / b[2]),
    "BoxBOD": lambda b, x: b[0] * (1 - np.exp(-b[1] * x)),
    "Chwirut1": _ultrasonic, "Chwirut2": _ultrasonic,
    "DanWood": lambda b, x: b[0] * x ** b[1],
    "ENSO": _waves,
    "Eckerle4": lambda b, x: b[0] / b[1] * np.exp(-0.5 * ((x - b[2]) / b[1]) ** 2),
    "Gauss1": _gaussians, "Gauss2": _gaussians, "Gauss3": _gaussians,
    "Hahn1": _cubics, "Thurber": _cubics,
    "Kirby2": lambda b, x: (b[0] + b[1] * x + b[2] * x ** 2) / (1 + b[3] * x + b[4] * x ** 2),
    "Lanczos1": _exponentials, "Lanczos2": _exponentials, "Lanczos3": _exponentials,
    "MGH09": lambda b, x: b[0] * (x ** 2 + x * b[1]) / (x ** 2 + x * b[2] + b[3]),
    "MGH10": lambda b, x: b[0] * np.exp(b[1] / (x + b[2])),
    "MGH17": lambda b, x: b[0] + b[1] * np.exp(-x * b[3]) + b[2] * np.exp(-x * b[4]),
    "Misra1a": lambda b, x: b[0] * (1 - np.exp(-b[1] * x)),
    "Misra1b": lambda b, x: b[0] * (1 - (1 + b[1] * x / 2) ** -2),
    "Misra1c": lambda b, x: b[0] * (1 - (1 + 2 * b[1] * x) ** -0.5),
    "Misra1d": lambda b, x: b[0] * b[1] * x / (1 + b[1] * x),
    "Nelson": lambda b, x: b[0] - b[1] * x[0] * np.exp(-b[2] * x[1]),           # of the logarithm
    "Rat42": lambda b, x: b[0] / (1 + np.exp(b[1] - b[2] * x)),
    "Rat43": lambda b, x: b[0] / (1 + np.exp(b[1] - b[2] * x)) ** (1 / b[3]),
    "Roszman1": lambda b, x: b[0] - b[1] * x - np.arctan(b[2] / (x - b[3])) / np.pi,
}
_NUMBERS = json.loads(Path(__file__).with_suffix(".json").read_text())
NIST = {name: NistProblem(_MODELS[name], **numbers) for name, numbers in _NUMBERS.items()}
