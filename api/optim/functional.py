"""Optimisers as pure functions over trees of parameters: `sgd`, `adam`, `adamw`, `rmsprop`, `adagrad`.

Such an optimiser is a pair of functions over any tree of parameters (dict, list, tuple, dataclass, ...):

    adam = adjit.optim.adam(1e-3)
    state = adam.init(params)
    params, state = adam.update(params, grads, state)

`update` changes nothing in place and runs on plain arrays as well as inside of a compiled step; there, donate `params` and `state`, and the
update happens in their own memory. Formulas, argument names and defaults are PyTorch's (`torch.optim`), except that the learning rate comes
first and has a default everywhere. Parameters keep their dtype, and state has the dtype of its parameter; the step counter is an int64
scalar array, and numbers that depend on it are computed in float64. Trees of tensors give tensors.

A learning rate that changes is an argument of the compiled step: make the optimiser inside of it, `adam(rate).update(...)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import numpy as np

from adjit.eager.capture import traced
from adjit.eager.tensor import Tensor, new_tensor, own_tensor
from adjit.ir.builder import GraphBuilder
from adjit.ir.dataclass import dataclass
from adjit.ir.errors import ArgumentError, DTypeError, Role, ShapeError
from adjit.ir.types import is_float
from adjit.optim.rules import (
    Rule,
    adagrad_rule,
    adam_rule,
    check_adagrad,
    check_adam,
    check_rmsprop,
    check_sgd,
    rmsprop_rule,
    run_rule,
    sgd_rule,
    state_dtype,
)
from adjit.tracer.array import TracedArray
from adjit.tracer.renamed_parameters import renamed_parameters
from adjit.tracer.scope import active_scope
from adjit.tracer.trees import TreeSpec, flatten, paths, structure_text, unflatten
from adjit.tracer.user_location import find_user_location

__all__ = [
    "AdagradState", "AdamState", "FunctionalOptimizer", "RmspropState", "SgdState", "adagrad", "adam", "adamw", "rmsprop", "sgd",
]

Array = Any
Tree = Any


@dataclass(frozen=True)
class FunctionalOptimizer:
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
    """`momentum`: the running mean of the gradients, a tree like the parameters; None without momentum.

    `count`: steps taken, an int64 scalar array; None without dampening.

    >>> sgd(0.1, momentum=0.9).init([np.ones(2)])
    SgdState(momentum=[array([0., 0.])], count=None)
    """

    momentum: Tree
    count: Array = None


class AdamState(NamedTuple):
    """`count`: steps taken, an int64 scalar array; `mean`, `variance`: of gradients and squares, trees like the parameters.

    `largest`: the largest variance so far; None without `amsgrad`.

    >>> adam(0.1).init([np.ones(2)])
    AdamState(count=array(0), mean=[array([0., 0.])], variance=[array([0., 0.])], largest=None)
    """

    count: Array
    mean: Tree
    variance: Tree
    largest: Tree = None


class RmspropState(NamedTuple):
    """`square`, `mean`, `momentum`: running means of squares and gradients, and the momentum, trees like the parameters or None.

    >>> rmsprop(0.1).init([np.ones(2)])
    RmspropState(square=[array([0., 0.])], mean=None, momentum=None)
    """

    square: Tree
    mean: Tree = None
    momentum: Tree = None


class AdagradState(NamedTuple):
    """`count`: steps taken, an int64 scalar array; `total`: the sum of the squares of the gradients, a tree like the parameters.

    >>> adagrad(0.1).init([np.ones(2)])
    AdagradState(count=array(0), total=[array([0., 0.])])
    """

    count: Array
    total: Tree


@renamed_parameters(learning_rate="lr")
def sgd(lr: float | Array = 1e-3, momentum: float = 0.0, nesterov: bool = False, weight_decay: float = 0.0,
        dampening: float = 0.0, maximize: bool = False) -> FunctionalOptimizer:
    """Stochastic gradient descent: `v = momentum * v + (1 - dampening) * g`, `p -= lr * v`, where `g` is the gradient plus
    `weight_decay * p`; `v` is `g` at the first step.

    With `nesterov`, `p -= lr * (g + momentum * v)`; with `maximize` the gradient is negated.
    Source: Sutskever et al., On the importance of initialization and momentum in deep learning, 2013, as in `torch.optim.SGD`.

    >>> optimizer = sgd(0.1)
    >>> params, state = optimizer.update({"w": np.ones(2)}, {"w": np.array([1.0, 2.0])}, optimizer.init({"w": np.ones(2)}))
    >>> params
    {'w': array([0.9, 0.8])}
    """
    numbers = {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay}
    check_sgd({**numbers, "nesterov": nesterov})
    rule = sgd_rule(bool(momentum), bool(momentum and dampening), nesterov, bool(weight_decay), maximize)
    return _optimizer("sgd", rule, numbers, SgdState, {"momentum": "momentum_buffer", "count": "step"})


@renamed_parameters(learning_rate="lr")
def adam(lr: float | Array = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0.0,
         amsgrad: bool = False, maximize: bool = False) -> FunctionalOptimizer:
    """Adam; `weight_decay * p` is added to the gradient.

    `m = beta1 * m + (1 - beta1) * g`, `v = beta2 * v + (1 - beta2) * g**2`,
    `p -= lr / (1 - beta1**t) * m / (sqrt(v) / sqrt(1 - beta2**t) + eps)`; with `amsgrad`, the largest `v` so far.
    Source: Kingma and Ba, Adam: a method for stochastic optimization, arXiv:1412.6980, as in `torch.optim.Adam`.

    >>> optimizer = adam(0.1)
    >>> params, state = optimizer.update([np.array([1.0])], [np.array([3.0])], optimizer.init([np.array([1.0])]))
    >>> params[0].round(6), int(state.count)
    (array([0.9]), 1)
    """
    return _adam("adam", False, lr, betas, eps, weight_decay, amsgrad, maximize)


@renamed_parameters(learning_rate="lr")
def adamw(lr: float | Array = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 1e-2,
          amsgrad: bool = False, maximize: bool = False) -> FunctionalOptimizer:
    """Adam with decoupled weight decay: `p *= 1 - lr * weight_decay` before the step of `adam`.

    Source: Loshchilov and Hutter, Decoupled weight decay regularization, arXiv:1711.05101, as in `torch.optim.AdamW`.

    >>> optimizer = adamw(0.1, weight_decay=0.5)
    >>> params, state = optimizer.update([np.array([1.0])], [np.array([3.0])], optimizer.init([np.array([1.0])]))
    >>> params[0].round(6)
    array([0.85])
    """
    return _adam("adamw", True, lr, betas, eps, weight_decay, amsgrad, maximize)


def _adam(name: str, decoupled: bool, lr: float | Array, betas: tuple[float, float], eps: float, weight_decay: float,
          amsgrad: bool, maximize: bool) -> FunctionalOptimizer:
    check_adam({"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})
    rule = adam_rule(decoupled, bool(weight_decay), amsgrad, maximize)
    numbers = {"lr": lr, "beta1": betas[0], "beta2": betas[1], "eps": eps, "weight_decay": weight_decay}
    fields = {"count": "step", "mean": "exp_avg", "variance": "exp_avg_sq", "largest": "max_exp_avg_sq"}
    return _optimizer(name, rule, numbers, AdamState, fields)


@renamed_parameters(learning_rate="lr")
def rmsprop(lr: float | Array = 1e-2, alpha: float = 0.99, eps: float = 1e-8, weight_decay: float = 0.0, momentum: float = 0.0,
            centered: bool = False, maximize: bool = False) -> FunctionalOptimizer:
    """RMSprop: `s = alpha * s + (1 - alpha) * g**2`, `p -= lr * g / (sqrt(s) + eps)`.

    With `centered`, `sqrt(s - a**2)` in place of `sqrt(s)`, `a` the running mean of the gradients; with `momentum`, the step is that of
    `b = momentum * b + g / (sqrt(s) + eps)`. Source: Tieleman and Hinton, lecture 6.5, 2012, as in `torch.optim.RMSprop`.

    >>> optimizer = rmsprop(0.1)
    >>> params, state = optimizer.update([np.array([1.0])], [np.array([3.0])], optimizer.init([np.array([1.0])]))
    >>> params[0].round(6), state.square[0].round(6)
    (array([0.]), array([0.09]))
    """
    numbers = {"lr": lr, "alpha": alpha, "eps": eps, "weight_decay": weight_decay, "momentum": momentum}
    check_rmsprop(numbers)
    rule = rmsprop_rule(bool(momentum), centered, bool(weight_decay), maximize, False)
    return _optimizer("rmsprop", rule, numbers, RmspropState, {"square": "square_avg", "mean": "grad_avg", "momentum": "momentum_buffer"})


@renamed_parameters(learning_rate="lr")
def adagrad(lr: float | Array = 1e-2, lr_decay: float = 0.0, weight_decay: float = 0.0, initial_accumulator_value: float = 0.0,
            eps: float = 1e-10, maximize: bool = False) -> FunctionalOptimizer:
    """Adagrad: `s = s + g**2`, `p -= lr / (1 + (t - 1) * lr_decay) * g / (sqrt(s) + eps)`.

    Source: Duchi, Hazan and Singer, Adaptive subgradient methods for online learning and stochastic optimization, 2011, as in
    `torch.optim.Adagrad`.

    >>> optimizer = adagrad(0.1)
    >>> params, state = optimizer.update([np.array([1.0])], [np.array([3.0])], optimizer.init([np.array([1.0])]))
    >>> params[0].round(6), state.total[0]
    (array([0.9]), array([9.]))
    """
    numbers = {"lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay}
    check_adagrad({**numbers, "initial_accumulator_value": initial_accumulator_value})
    rule = adagrad_rule(bool(weight_decay), maximize)
    return _optimizer("adagrad", rule, numbers, AdagradState, {"count": "step", "total": "sum"}, initial_accumulator_value)


def _optimizer(name: str, rule: Rule, numbers: dict[str, Any], State: Any, fields: dict[str, str],
               initial: float = 0.0) -> FunctionalOptimizer:
    """Make the optimiser of a rule; `fields` gives the rule's state of each field of `State`."""
    columns = {field: key for field, key in fields.items() if key in rule.state and key != "step"}
    counter = next((field for field, key in fields.items() if key == "step" and key in rule.state), None)

    def init(params: Tree) -> Tree:
        leaves, spec = flatten(params)
        for path, leaf in zip(paths(spec), leaves, strict=True):
            if not is_float(_dtype(leaf)):
                raise DTypeError(f"params{path} has dtype {_dtype(leaf)}; an optimiser updates floating-point arrays",
                                 find_user_location(), hint="keep other arrays out of the tree of parameters")
        made = {field: unflatten(spec, [_full_like(leaf, initial) for leaf in leaves]) for field in columns}
        if counter is not None:
            count = np.zeros((), np.int64)
            made[counter] = own_tensor(count) if any(isinstance(leaf, Tensor) for leaf in leaves) else count
        return State(**{field: made.get(field) for field in fields})

    def update(params: Tree, grads: Tree, state: Tree) -> tuple[Tree, Tree]:
        if getattr(type(state), "_fields", None) != State._fields:      # a loaded program's state has a class of its own
            raise ArgumentError(f"{name}: the state is a {type(state).__name__}, expected the {State.__name__} that {name}.init(params) or "
                                f"{name}.update made", find_user_location(), hint="the order is update(params, grads, state)")
        with _updating():
            leaves, spec = flatten(params)
            old = {key: _leaves(spec, getattr(state, field), field) for field, key in columns.items()}
            used: dict[str, Any] = {key: _open(number) if isinstance(number, Tensor) else number for key, number in numbers.items()}
            new: dict[str, Any] = {}
            if counter is not None:
                count = getattr(state, counter)
                step = _open(count) + 1
                used |= rule.scales(step, used)
                new[counter] = _boxed(_array(step), isinstance(count, Tensor))
            arrays = [_open(leaf) for leaf in leaves]
            results = [run_rule(rule, param, grad, {key: column[i] for key, column in old.items()}, used)
                       for i, (param, grad) in enumerate(zip(arrays, _gradients(spec, arrays, grads), strict=True))]
            for field, key in columns.items():
                kinds = flatten(getattr(state, field))[0]
                new[field] = unflatten(spec, [_boxed(_array(made[key]), isinstance(kind, Tensor))
                                              for (_, made), kind in zip(results, kinds, strict=True)])
            updated = [_updated(leaf, _array(param)) for leaf, (param, _) in zip(leaves, results, strict=True)]
            return unflatten(spec, updated), (state._replace(**new) if new else state)

    for function in (init, update):
        function.__qualname__ = f"{name}.{function.__name__}"       # errors of Python show it
    return FunctionalOptimizer(name, init, update)


# -- leaves: arrays, traced arrays, tensors

def _open(leaf: Any) -> Any:
    """Return the array of a leaf, which may be a tensor."""
    if not isinstance(leaf, Tensor):
        return np.asarray(leaf) if issubclass(type(leaf), float) else leaf
    scope = active_scope()
    return leaf.array if scope is None or scope.evaluates else traced(leaf)


def _boxed(array: Any, as_tensor: bool) -> Any:
    return new_tensor(array) if as_tensor else array


def _updated(leaf: Any, array: Any) -> Any:
    """Return the new content with the type of the parameter: a tensor that requires grad stays such a tensor."""
    made = _boxed(array, isinstance(leaf, Tensor))
    if isinstance(leaf, Tensor):
        made.requires_grad = leaf.requires_grad
    return made


def _array(result: Any) -> Any:
    """Convert scalars back to arrays: NumPy's arithmetic turns arrays of no dimensions into scalars; parameters and state stay arrays."""
    return result if isinstance(result, (np.ndarray, TracedArray)) else np.asarray(result)


def _dtype(leaf: Array) -> np.dtype:
    return leaf.dtype if hasattr(leaf, "dtype") else np.asarray(leaf).dtype


def _full_like(leaf: Array, value: float) -> Any:
    array = _open(leaf)
    dtype = state_dtype(array.dtype)
    return _boxed(np.full_like(array, value, dtype) if value else np.zeros_like(array, dtype), isinstance(leaf, Tensor))


def _updating() -> AbstractContextManager[None]:
    """Mark ops within a trace as belonging to an optimiser's update."""
    scope = active_scope()
    return scope.builder.at(role=Role.UPDATE) if scope is not None and isinstance(scope.builder, GraphBuilder) else nullcontext()


def _leaves(spec: TreeSpec, tree: Tree, what: str) -> Sequence[Any]:
    """Return the arrays of a tree with the structure of the parameters; raises `ShapeError` for another structure."""
    try:
        leaves = spec.flatten_up_to(tree)
    except (ValueError, TypeError):
        leaves = None
    if leaves is None or not all(flatten(leaf)[1].is_leaf() for leaf in leaves):
        raise ShapeError(f"params and {what} are different trees: {structure_text(spec)} and {structure_text(flatten(tree)[1])}",
                         find_user_location(), hint="pass what value_and_grad returned for these parameters" if what == "grads"
                         else "pass the state that init or update returned for these parameters")
    return [_open(leaf) for leaf in leaves]


def _gradients(spec: TreeSpec, params: Sequence[Array], grads: Tree) -> Iterable[Array]:
    """Return the gradients, in the dtypes of the parameters; raises `ShapeError` if structure or shapes differ."""
    leaves = _leaves(spec, grads, "grads")
    for path, param, grad in zip(paths(spec), params, leaves, strict=True):
        if np.shape(param) != np.shape(grad):
            raise ShapeError(f"params{path} has shape {np.shape(param)}, its gradient {np.shape(grad)}", find_user_location())
    return [grad if _dtype(grad) == _dtype(param) else grad.astype(_dtype(param)) for param, grad in zip(params, leaves, strict=True)]
