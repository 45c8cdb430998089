"""Random programs of writes to one memory through a base, its views, its detached tensors, and under `no_grad`; for any library with
PyTorch's names. They do little else, so that most reads of a tensor see a write through another one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Program = list[tuple[int, int, int, int]]
"""Steps: an operation, and three numbers that choose its tensors and arguments."""

ALIASES: list[Callable[[Any, int], Any]] = [
    lambda x, n: x.detach(), lambda x, n: x.detach(), lambda x, n: x[1:].detach(), lambda x, n: x[n % 2:n % 2 + 2], lambda x, n: x.view(-1),
    lambda x, n: x[::2], lambda x, n: x.detach()[1:], lambda x, n: x[:2].detach(), lambda x, n: x.reshape(-1, 1)]
WRITES: list[Callable[[Any, Any], Any]] = [
    lambda x, y: x.mul_(y), lambda x, y: x.add_(y), lambda x, y: x.copy_(y), lambda x, y: x.add_(1.0), lambda x, y: x.mul_(0.5),
    lambda x, y: x.zero_(), lambda x, y: x.sub_(y, alpha=2), lambda x, y: x.neg_(), lambda x, y: x.exp_() if x.requires_grad else x.tanh_(),
    lambda x, y: x[:1].mul_(y), lambda x, y: x.clamp_(-1.0, 1.0), lambda x, y: x.fill_(0.25)]
NEW: list[Callable[[Any], Any]] = [
    lambda x: x * 1.5, lambda x: x.sin(), lambda x: x.clone(), lambda x: x + 1.0, lambda x: x.detach().clone(), lambda x: x * x]


def run(library: Any, program: Program, x: Any, w: Any, p: Any) -> Any:
    """Run a program that starts with tensors made of `x`, `w` and the constant `p`; returns a number that depends on all its tensors."""
    tensors: list[Any] = [x * 1.5, p.clone()]
    numbers: list[Any] = [w.sum(), (w * w).mean(), w[0], p.mean()]
    for kind, a, b, c in program:
        target = tensors[a % len(tensors)]
        if kind % 8 < 2:
            tensors.append(ALIASES[c % len(ALIASES)](target, b))
        elif kind % 8 == 2:
            if c % 3:
                tensors.append(NEW[c // 3 % len(NEW)](target))
            else:
                numbers.append((target * 0.5).sum())
        else:
            same = [tensor for tensor in tensors if tuple(tensor.shape) == tuple(target.shape)]
            other = numbers[b % len(numbers)] if b % 2 else same[b % len(same)]
            write = WRITES[c % len(WRITES)]
            if kind % 8 == 7:
                with library.no_grad():
                    write(target, other)
            else:
                write(target, other)
    return sum(((0.3 + 0.2 * number) * tensor).sum() for number, tensor in enumerate([*tensors, *numbers]))


def random_program(generator: np.random.Generator) -> Program:
    """Make a program of two to nine steps."""
    return [tuple(int(number) for number in generator.integers(0, 1 << 16, 4)) for _ in range(generator.integers(2, 10))]    # type: ignore[misc]


def gradients(library: Any, program: Program, make: Callable[[np.ndarray, bool], Any],
              around: Callable[[Any], Any] = lambda function: function) -> tuple[float, list[np.ndarray]]:
    """Return the number, and its gradients with respect to `x` and `w`; zeros if there is none."""
    leaves = [make(np.array([1.0, -0.5, 0.7]), True), make(np.array([0.5, 0.25]), True), make(np.array([0.3, 0.6, -0.2]), False)]
    result = around(lambda *given: run(library, program, *given))(*leaves)
    if result.requires_grad:
        result.backward()
    return float(result.detach()), [np.zeros(tuple(leaf.shape)) if leaf.grad is None else np.array(leaf.grad) for leaf in leaves[:2]]
