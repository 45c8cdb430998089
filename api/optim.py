"""Optimisers as pure functions: `sgd`, `adam`, `adamw`.

An optimiser is a pair of functions over any tree of parameters (dict, list, tuple, ...):

    adam = adjit.optim.adam(1e-3)
    state = adam.init(params)
    params, state = adam.update(params, grads, state)

`update` changes nothing in place and runs on plain arrays as well as inside of a compiled step; there, donate `params` and
`state`, and the update happens in their own memory. Formulas, argument names and defaults are PyTorch's (`torch.optim`), except
that the learning rate comes first and has a default everywhere. Parameters keep their dtype, and state has the dtype of its
parameter; the step counter is an int64 scalar array, and what depends on it is computed in float64.

A learning rate that changes is an argument of the compiled step: make the optimiser inside of it, `adam(rate).update(...)`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import optree

from adjit.ir.builder import GraphBuilder
from adjit.ir.errors import DTypeError, Role, ShapeError
from adjit.tracer.scope import active_scope
from adjit.tracer.source import find_user_location

__all__ = ["AdamState", "Optimizer", "SgdState", "adam", "adamw", "sgd"]

Array = Any
Tree = Any


@dataclass(frozen=True)
class Optimizer:
    """`init(params) -> state` and `update(params, grads, state) -> (params, state)`.

    >>> optimizer = sgd(0.5)
    >>> params, state = optimizer.update({"w": np.ones(2)}, {"w": np.ones(2)}, optimizer.init({"w": np.ones(2)}))
    >>> params
    {'w': array([0.5, 0.5])}
    """

    name: str
    init: Callable[[Tree], Tree]
    update: Callable[[Tree, Tree, Tree], tuple[Tree, Tree]]

    def __repr__(self) -> str:
        return f"<optimizer {self.name}>"


class SgdState(NamedTuple):
    """`momentum`: the running mean of the gradients, a tree like the parameters; None without momentum."""

    momentum: Tree


class AdamState(NamedTuple):
    """`count`: steps taken, an int64 scalar array; `mean`, `variance`: of gradients and squares, trees like the parameters."""

    count: Array
    mean: Tree
    variance: Tree


def sgd(learning_rate: float | Array = 1e-3, momentum: float = 0.0, nesterov: bool = False, weight_decay: float = 0.0) -> Optimizer:
    """Stochastic gradient descent: `v = momentum * v + g`, `p -= learning_rate * v`, where `g` is the gradient plus `weight_decay * p`.

    With `nesterov`, `p -= learning_rate * (g + momentum * v)`.
    Source: Sutskever et al., On the importance of initialization and momentum in deep learning, 2013, as in `torch.optim.SGD`.

    >>> optimizer = sgd(0.1)
    >>> params, state = optimizer.update({"w": np.ones(2)}, {"w": np.array([1.0, 2.0])}, optimizer.init({"w": np.ones(2)}))
    >>> params
    {'w': array([0.9, 0.8])}
    """
    if nesterov and not momentum:
        raise ValueError("sgd: nesterov needs a momentum above 0")

    def init(params: Tree) -> SgdState:
        _check_params(params)
        return SgdState(_zeros(params) if momentum else None)

    def new_param(param: Array, step: Array) -> Array:
        return param - _scalar(learning_rate, param) * step

    def update(params: Tree, grads: Tree, state: SgdState) -> tuple[Tree, SgdState]:
        with _updating():
            grads = _matching(params, grads)
            if weight_decay:
                grads = optree.tree_map(lambda p, g: g + weight_decay * p, params, grads)
            if not momentum:
                return _as_arrays(optree.tree_map(new_param, params, grads)), state
            running = optree.tree_map(lambda v, g: momentum * v + g, state.momentum, grads)
            steps = optree.tree_map(lambda g, v: g + momentum * v, grads, running) if nesterov else running
            return _as_arrays((optree.tree_map(new_param, params, steps), SgdState(running)))

    return Optimizer("sgd", init, update)


def adam(learning_rate: float | Array = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
         weight_decay: float = 0.0) -> Optimizer:
    """Adam; `weight_decay * p` is added to the gradient.

    `m = beta1 * m + (1 - beta1) * g`, `v = beta2 * v + (1 - beta2) * g**2`,
    `p -= learning_rate / (1 - beta1**t) * m / (sqrt(v) / sqrt(1 - beta2**t) + eps)`.
    Source: Kingma and Ba, Adam: a method for stochastic optimization, arXiv:1412.6980, as in `torch.optim.Adam`.

    >>> optimizer = adam(0.1)
    >>> params, state = optimizer.update([np.array([1.0])], [np.array([3.0])], optimizer.init([np.array([1.0])]))
    >>> params[0].round(6), int(state.count)
    (array([0.9]), 1)
    """
    return _adam("adam", learning_rate, betas, eps, weight_decay, decoupled=False)


def adamw(learning_rate: float | Array = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
          weight_decay: float = 1e-2) -> Optimizer:
    """Adam with decoupled weight decay: `p *= 1 - learning_rate * weight_decay` before the step of `adam`.

    Source: Loshchilov and Hutter, Decoupled weight decay regularization, arXiv:1711.05101, as in `torch.optim.AdamW`.

    >>> optimizer = adamw(0.1, weight_decay=0.5)
    >>> params, state = optimizer.update([np.array([1.0])], [np.array([3.0])], optimizer.init([np.array([1.0])]))
    >>> params[0].round(6)
    array([0.85])
    """
    return _adam("adamw", learning_rate, betas, eps, weight_decay, decoupled=True)


def _adam(name: str, learning_rate: float | Array, betas: tuple[float, float], eps: float, weight_decay: float,
          decoupled: bool) -> Optimizer:
    beta1, beta2 = betas
    if not (0.0 <= beta1 < 1.0 and 0.0 <= beta2 < 1.0):
        raise ValueError(f"{name}: betas lie in [0, 1), got {betas}")

    def init(params: Tree) -> AdamState:
        _check_params(params)
        return AdamState(np.zeros((), dtype=np.int64), _zeros(params), _zeros(params))

    def update(params: Tree, grads: Tree, state: AdamState) -> tuple[Tree, AdamState]:
        with _updating():
            grads = _matching(params, grads)
            count = state.count + 1
            steps = count.astype(np.float64)
            step_size = learning_rate / (1.0 - beta1 ** steps)
            variance_scale = 1.0 / np.sqrt(1.0 - beta2 ** steps)
            if weight_decay and decoupled:
                params = optree.tree_map(lambda p: p * _scalar(1.0 - learning_rate * weight_decay, p), params)
            elif weight_decay:
                grads = optree.tree_map(lambda p, g: g + weight_decay * p, params, grads)
            mean = optree.tree_map(lambda m, g: beta1 * m + (1.0 - beta1) * g, state.mean, grads)
            variance = optree.tree_map(lambda v, g: beta2 * v + (1.0 - beta2) * (g * g), state.variance, grads)
            params = optree.tree_map(
                lambda p, m, v: p - _scalar(step_size, p) * (m / (np.sqrt(v) * _scalar(variance_scale, p) + eps)),
                params, mean, variance)
            return _as_arrays((params, AdamState(count, mean, variance)))

    return Optimizer(name, init, update)


def _zeros(params: Tree) -> Tree:
    return optree.tree_map(np.zeros_like, params)


def _scalar(number: float | Array, param: Array) -> Array:
    """A hyperparameter in the dtype of the parameter, so that the parameter keeps it; Python numbers are weak already."""
    return number.astype(_dtype(param)) if hasattr(number, "astype") else number


def _dtype(leaf: Array) -> np.dtype:
    return leaf.dtype if hasattr(leaf, "dtype") else np.asarray(leaf).dtype


def _as_arrays(tree: Tree) -> Tree:
    """NumPy's arithmetic turns arrays of no dimensions into scalars; parameters and state stay arrays."""
    return optree.tree_map(lambda leaf: np.asarray(leaf) if isinstance(leaf, np.generic | float) else leaf, tree)


def _updating() -> AbstractContextManager[None]:
    """Within a trace, ops are marked as belonging to an optimiser's update."""
    scope = active_scope()
    return scope.builder.at(role=Role.UPDATE) if scope is not None and isinstance(scope.builder, GraphBuilder) else nullcontext()


def _check_params(params: Tree) -> None:
    for path, leaf in zip(optree.tree_paths(params), optree.tree_leaves(params), strict=True):
        if _dtype(leaf).kind != "f":
            raise DTypeError(f"params{_path(path)} has dtype {_dtype(leaf)}; an optimiser updates floating-point arrays",
                             find_user_location(), hint="keep other arrays out of the tree of parameters")


def _matching(params: Tree, grads: Tree) -> Tree:
    """The gradients, in the dtypes of the parameters; raises `ShapeError` where structure or shapes differ."""
    structure, other = optree.tree_structure(params), optree.tree_structure(grads)
    if structure != other:
        raise ShapeError(f"params and grads are different trees: {structure} and {other}", find_user_location(),
                         hint="pass what value_and_grad returned for these parameters")
    for path, param, grad in zip(optree.tree_paths(params), optree.tree_leaves(params), optree.tree_leaves(grads), strict=True):
        if np.shape(param) != np.shape(grad):
            raise ShapeError(f"params{_path(path)} has shape {np.shape(param)}, its gradient {np.shape(grad)}", find_user_location())
    return optree.tree_map(lambda p, g: g if _dtype(g) == _dtype(p) else g.astype(_dtype(p)), params, grads)


def _path(path: tuple[Any, ...]) -> str:
    return "".join(f"[{entry!r}]" for entry in path)
