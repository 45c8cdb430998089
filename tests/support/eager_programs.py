"""Random programs of eager tensors: operations, views and writes in place, for any library with PyTorch's names."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Instruction = tuple[int, int, int, int]
"""An operation, and three numbers that choose the tensors so far and the arguments."""

SHAPES = [(), (1,), (3,), (2, 3), (3, 2), (1, 3), (2, 1), (2, 2), (0, 2), (2, 1, 3)]


@dataclass
class Run:
    """Program under way: `library` is `adjit` or `torch`, `tensors` the tensors so far, `errors` the steps that failed."""

    library: Any
    tensors: list[Any] = field(default_factory=list)
    errors: list[bool] = field(default_factory=list)

    def pick(self, number: int) -> Any:
        return self.tensors[number % len(self.tensors)]


def _axis(x: Any, number: int) -> int:
    return number % (2 * x.ndim) - x.ndim if x.ndim else -1


def _index(x: Any, number: int) -> Any:
    """Make an index of basic parts."""
    if not x.ndim:
        return (..., None)[number % 2]
    size = x.shape[0]
    parts: list[Any] = [number % size if size else slice(None), slice(number % 3, None), slice(None, -1), slice(None, None, 2), None, ...]
    first = parts[number % len(parts)]
    if x.ndim > 1 and number % 7 > 3:
        second = x.shape[1]
        return (slice(None), number % second) if second and number % 2 else (..., slice(0, 1))
    return first


UNARY: list[Callable[[Any], Any]] = [
    lambda x: x.exp(), lambda x: x.sin(), lambda x: x.tanh(), lambda x: -x, lambda x: x.abs(), lambda x: x ** 2, lambda x: x.sigmoid(),
    lambda x: x.relu(), lambda x: x.clone(), lambda x: x * 0.5, lambda x: 1.5 - x, lambda x: x.cumsum(-1) if x.ndim else x * 1,
    lambda x: 1.0 / (x * x + 1.0), lambda x: (x * x + 0.5).sqrt(), lambda x: (x * x + 0.5).log(),
    lambda x: x.softmax(-1) if x.ndim and x.shape[-1] else x * 1,
]
BINARY: list[Callable[[Any, Any], Any]] = [
    lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * y, lambda x, y: x / (y * y + 1.0), lambda x, y: x.maximum(y),
    lambda x, y: x.lerp(y, 0.3) if tuple(x.shape) == tuple(y.shape) else x + y, lambda x, y: x @ y if x.ndim == y.ndim == 2 else x * y,
]
REDUCTIONS: list[Callable[[Any, int], Any]] = [
    lambda x, axis: x.sum(), lambda x, axis: x.sum(axis) if x.ndim else x.sum(),
    lambda x, axis: x.mean(axis, keepdim=True) if x.ndim else x + 1,
    lambda x, axis: x.amax(axis) if x.ndim and x.shape[axis] else x * 2, lambda x, axis: x.prod(axis) if x.ndim else x.prod(),
]
VIEWS: list[Callable[[Any, int], Any]] = [
    lambda x, n: x[_index(x, n)], lambda x, n: x[_index(x, n)], lambda x, n: x.reshape(-1),
    lambda x, n: x.T if x.ndim == 2 else x.unsqueeze(0),
    lambda x, n: x.unsqueeze(_axis(x, n)), lambda x, n: x.squeeze(), lambda x, n: x.transpose(0, -1) if x.ndim else x.reshape(1),
    lambda x, n: x.expand(2, *x.shape), lambda x, n: x.diagonal() if x.ndim == 2 else x[None], lambda x, n: x.detach(),
    lambda x, n: x.view(tuple(x.shape)), lambda x, n: x.narrow(0, 0, x.shape[0] // 2) if x.ndim else x,
]
PARTS: list[Callable[[Any], Sequence[Any]]] = [
    lambda x: x.unbind(0) if x.ndim else (x,), lambda x: x.split(2, 0) if x.ndim and x.shape[0] else (x,),
    lambda x: x.chunk(2, -1) if x.ndim and x.shape[-1] else (x,),
]
WRITES: list[Callable[[Any, Any], Any]] = [
    lambda x, y: x.add_(y), lambda x, y: x.mul_(y), lambda x, y: x.sub_(y), lambda x, y: x.copy_(y), lambda x, y: x.zero_(),
    lambda x, y: x.fill_(0.5), lambda x, y: x.exp_(), lambda x, y: x.tanh_(), lambda x, y: x.sigmoid_(), lambda x, y: x.neg_(),
    lambda x, y: x.clamp_(-0.5, 0.5), lambda x, y: x.pow_(2), lambda x, y: x.mul_(0.5), lambda x, y: x.add_(1.0), lambda x, y: x.div_(2.0),
    lambda x, y: x.masked_fill_(x > 0.1, 0.25), lambda x, y: x.add_(x), lambda x, y: x.mul_(x), lambda x, y: x.relu_(),
    lambda x, y: x.sub_(y, alpha=2),
]


def _store(x: Any, y: Any, number: int) -> None:
    x[_index(x, number)] = y if number % 3 else 0.75


def _read_places(x: Any, number: int) -> Any:
    if not x.ndim or not x.shape[0]:
        return x * 1
    return x[[number % x.shape[0], 0]] if number % 2 else x[x > 0.0]


def step(run: Run, instruction: Instruction) -> None:
    """Run one instruction; its failure or its result is recorded."""
    kind, a, b, c = instruction
    x, y = run.pick(a), run.pick(b)
    made: Any = None
    try:
        match kind % 10:
            case 0 | 1:
                made = UNARY[c % len(UNARY)](x)
            case 2 | 3:
                made = BINARY[c % len(BINARY)](x, y)
            case 4:
                made = REDUCTIONS[c % len(REDUCTIONS)](x, _axis(x, b))
            case 5 | 6:
                made = VIEWS[c % len(VIEWS)](x, b)
            case 7:
                made = WRITES[c % len(WRITES)](x, y)
            case 8:
                match c % 4:
                    case 0 | 1:
                        _store(x, y, c // 4)
                    case 2:
                        made = PARTS[(c // 4) % len(PARTS)](x)
                    case 3:
                        made = _read_places(x, b)
            case 9:
                with run.library.no_grad() if c % 2 else contextlib.nullcontext():
                    if c % 4 < 2:
                        WRITES[(c // 4) % len(WRITES)](x, y)
                    else:
                        made = UNARY[(c // 4) % len(UNARY)](x)
    except (RuntimeError, ValueError, TypeError, IndexError):
        run.errors.append(True)
        return
    run.errors.append(False)
    if made is not None:
        run.tensors.extend(made if isinstance(made, (tuple, list)) else [made])


def start(library: Any, arrays: Sequence[np.ndarray]) -> Run:
    """Make leaves with these contents, two of three requiring grad."""
    return Run(library, [make(library, array, number % 3 != 2) for number, array in enumerate(arrays)])


def contents(shapes: Sequence[int], seed: int) -> list[np.ndarray]:
    """Make numbers that are no multiples of each other."""
    generator = np.random.default_rng(seed)
    return [generator.uniform(-1.0, 1.0, SHAPES[shape % len(SHAPES)]) for shape in shapes]


def make(library: Any, data: np.ndarray, requires_grad: bool) -> Any:
    """Make a leaf."""
    tensor = library.tensor(np.array(data)) if library.__name__ == "adjit" else library.from_numpy(np.array(data))
    return tensor.requires_grad_(requires_grad)


def total(run: Run, count: int) -> Any:
    """Sum the tensors that a program ended with, weighted: one number."""
    result: Any = 0.0
    for number, tensor in enumerate(run.tensors[-count:]):
        result = result + (tensor * (0.3 + 0.2 * number)).sum()
    return result
