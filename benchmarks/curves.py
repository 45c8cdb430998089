"""How cost grows: the problems at several sizes along one axis each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Axis:
    """A problem, the sizes it is opened with at a point, and the points."""

    title: str
    problem: str
    sizes: Callable[[int], dict[str, Any]]
    points: tuple[int, ...]


AXES = {
    "batch": Axis("mlp (784-512-256-10, Adam): batch", "mlp", lambda n: {"batch": n}, (1, 8, 64, 512, 4096)),
    "width": Axis("mlp of two hidden layers, batch 64, Adam: width", "mlp", lambda n: {"sizes": (n, n, n, 10), "batch": 64},
                  (8, 64, 512, 2048, 4096)),
    "depth": Axis("mlp of width 64, batch 64, Adam: layers", "mlp", lambda n: {"sizes": (*(64,) * n, 10), "batch": 64}, (1, 4, 16, 64)),
    "sequence": Axis("transformer block (width 256, batch 1, SGD): length", "transformer", lambda n: {"batch": 1, "length": n},
                     (1, 16, 64, 256, 1024)),
    "steps": Axis("recurrent network (128 units, batch 32, SGD): steps", "rnn", lambda n: {"steps": n}, (1, 16, 64, 256, 1024)),
}
