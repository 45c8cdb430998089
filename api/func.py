"""Transforms of functions by the names and with the results of `torch.func`, for functions of tensors and modules.

They are those of `adjit` itself, and go around each other and into `adjit.compile` as these do. Gradients of each example, and an ensemble:

>>> import adjit as aj
>>> from adjit import func, nn
>>> model = nn.Linear(3, 1)
>>> parameters = dict(model.named_parameters())
>>> def loss(parameters, x, y):
...     return ((func.functional_call(model, parameters, (x,)) - y) ** 2).sum()
>>> gradients = func.vmap(func.grad(loss), in_dims=(None, 0, 0))(parameters, aj.ones(8, 3), aj.zeros(8, 1))
>>> gradients["weight"].shape
(8, 1, 3)
>>> models = [nn.Linear(3, 1) for _ in range(5)]
>>> parameters, buffers = func.stack_module_state(models)
>>> def member(parameters, buffers, x):
...     return func.functional_call(models[0], (parameters, buffers), (x,))
>>> func.vmap(member, in_dims=(0, 0, None))(parameters, buffers, aj.ones(8, 3)).shape
(5, 8, 1)
"""

from __future__ import annotations

import copy
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from adjit.eager import generator
from adjit.eager.modes import no_grad
from adjit.eager.tensor import Tensor
from adjit.ir.errors import ArgumentError, StateError, TraceError
from adjit.nn.module import Module
from adjit.runtime import jacobians, transforms
from adjit.runtime import vmap as batches
from adjit.runtime.caches.transform_cache import kept
from adjit.runtime.transform_arguments import describe
from adjit.runtime.transforms import Argnums
from adjit.tensor_functions import FUNCTIONS
from adjit.tracer import random
from adjit.tracer.tracebacks import user_frames_only
from adjit.tracer.trees import flatten
from adjit.tracer.user_location import find_user_location

__all__ = ["functional_call", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "stack_module_state", "vjp", "vmap"]

Function = Callable[..., Any]


def grad(func: Function, argnums: Argnums = 0, has_aux: bool = False) -> Function:
    """The gradient of a scalar function, as `adjit.grad`.

    >>> import adjit as aj
    >>> grad(lambda x: x.sin().sum())(aj.zeros(2))
    tensor([1., 1.])
    """
    return transforms.grad(func, argnums, has_aux)      # type: ignore[no-any-return]


def grad_and_value(func: Function, argnums: Argnums = 0, has_aux: bool = False) -> Function:
    """The pair (gradient, value) of a scalar function; with `has_aux`, (gradient, (value, anything)).

    >>> import adjit as aj
    >>> grad_and_value(lambda x: (x * x).sum())(aj.ones(2))
    (tensor([2., 2.]), tensor(2.))
    """
    both = transforms.value_and_grad(func, argnums, has_aux)

    def swapped(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        value, gradient = both(*args, **kwargs)
        return gradient, value

    return swapped


def jacrev(func: Function, argnums: Argnums = 0, *, has_aux: bool = False) -> Function:
    """The Jacobian in reverse mode, as `adjit.jacrev`; with `has_aux`, (Jacobian, anything).

    >>> import adjit as aj
    >>> jacrev(lambda x: x * x)(aj.ones(2))
    tensor([[2., 0.],
            [0., 2.]])
    """
    return jacobians.jacrev(func, argnums, has_aux)     # type: ignore[no-any-return]


def jacfwd(func: Function, argnums: Argnums = 0, has_aux: bool = False) -> Function:
    """The Jacobian in forward mode, as `adjit.jacfwd`; with `has_aux`, (Jacobian, anything).

    >>> import adjit as aj
    >>> jacfwd(lambda x: x * x)(aj.ones(2))
    tensor([[2., 0.],
            [0., 2.]])
    """
    return jacobians.jacfwd(func, argnums, has_aux)     # type: ignore[no-any-return]


def hessian(func: Function, argnums: Argnums = 0) -> Function:
    """Second derivatives, `jacfwd(jacrev(func))`: the output need not be a scalar.

    >>> import adjit as aj
    >>> hessian(lambda x: (x ** 3).sum())(aj.ones(2))
    tensor([[6., 0.],
            [0., 6.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)


def jvp(func: Function, primals: Sequence[Any], tangents: Sequence[Any], *, has_aux: bool = False) -> tuple[Any, ...]:
    """`(func(*primals), tangent)`, as `adjit.jvp`; with `has_aux`, (output, tangent, anything).

    >>> import adjit as aj
    >>> jvp(lambda x: x * x, (aj.ones(2),), (aj.tensor([1.0, 2.0]),))
    (tensor([1., 1.]), tensor([2., 4.]))
    """
    return transforms.jvp(func, primals, tangents, has_aux)     # type: ignore[no-any-return, call-overload]


def vjp(func: Function, *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """`(func(*primals), pullback)`, as `adjit.vjp`: the pullback gives a tuple; with `has_aux`, (output, pullback, anything).

    >>> import adjit as aj
    >>> output, pullback = vjp(lambda x: x * x, aj.ones(2))
    >>> pullback(aj.tensor([1.0, 2.0]))
    (tensor([2., 4.]),)
    """
    return transforms.vjp(func, *primals, has_aux=has_aux)      # type: ignore[no-any-return, call-overload]


def vmap(func: Function, in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *, chunk_size: int | None = None) -> Function:
    """The function for a batch of examples, as `adjit.vmap`: `in_dims` are axes of positional arguments, keyword arguments are shared.

    `randomness` says what draws of the default generator, as of dropout, do: they are an "error", the "same" for all examples, or
    "different". With `chunk_size` so many examples are computed at once.

    >>> import adjit as aj
    >>> vmap(lambda x, y: (x * y).sum(), in_dims=(0, None))(aj.ones(3, 2), aj.tensor([1.0, 2.0]))
    tensor([3., 3., 3.])
    """
    if randomness not in ("error", "same", "different"):
        raise ArgumentError(f"vmap: randomness is {randomness!r}", find_user_location(), hint="'error', 'same' or 'different'")
    if chunk_size is not None and chunk_size < 1:
        raise ArgumentError(f"vmap: chunk_size is {chunk_size}", find_user_location(), hint="the number of examples at once")
    entries, spec = flatten((in_dims, out_dims))
    return kept(func, ("func.vmap", tuple(entries), spec, randomness, chunk_size), lambda: _mapped(
        func, in_dims, out_dims, randomness, chunk_size))


def _mapped(func: Function, in_dims: Any, out_dims: Any, randomness: str, chunk_size: int | None) -> Function:
    @functools.wraps(func, updated=())
    def one(*given: Any) -> Any:
        *args, kwargs, key, example = given
        draws = itertools.count()

        def next_key() -> Any:
            if randomness == "error":
                raise ArgumentError(f"vmap of {describe(func)}: what it calls draws random numbers", find_user_location(),
                                 hint="randomness='different' draws others for each example, 'same' the same ones for all")
            drawn = random.fold_in(key, next(draws))
            return drawn if randomness == "same" else random.fold_in(drawn, example)

        with generator.keys_from(next_key):
            return func(*args, **kwargs)

    @user_frames_only
    def mapped(*args: Any, **kwargs: Any) -> Any:
        dims = tuple(in_dims) if isinstance(in_dims, (tuple, list)) else (in_dims,) * len(args)
        if len(dims) != len(args):
            raise TraceError(f"vmap of {describe(func)}: in_dims has {len(dims)} entries for {len(args)} positional arguments",
                             find_user_location(), hint="one for each positional argument, or an int for all; keyword arguments are shared")
        key = None if randomness == "error" else generator.next_key()
        example = np.arange(batches.number_of_examples(func, args, dims)) if randomness == "different" else None
        axes = *dims, None, None, None if example is None else 0
        whole = batches.vmap(one, axes, out_dims)
        given = *args, kwargs, key, example
        return whole(*given) if chunk_size is None else batches.map_in_chunks(whole, given, axes, out_dims, chunk_size)

    return functools.wraps(func, updated=())(mapped)


def functional_call(module: Module, parameter_and_buffer_dicts: Mapping[str, Any] | Sequence[Mapping[str, Any]], args: Any = None,
                    kwargs: Mapping[str, Any] | None = None, *, tie_weights: bool = True, strict: bool = False) -> Any:
    """Call a module with other tensors in place of its parameters and buffers, which are given by their names, in one dict or several.

    The module stays as it is. A parameter that it has under several names is replaced under all of them, unless `tie_weights=False`. With
    `strict` each parameter and buffer has to be given. Raises `StateError` for names that the module does not have.

    >>> import adjit as aj
    >>> functional_call(aj.nn.Linear(2, 1), {"weight": aj.ones(1, 2), "bias": aj.zeros(1)}, (aj.ones(2),))
    tensor([2.])
    """
    dicts = [parameter_and_buffer_dicts] if isinstance(parameter_and_buffer_dicts, Mapping) else list(parameter_and_buffer_dicts)
    given = {name: tensor for state in dicts for name, tensor in state.items()}
    own = dict(itertools.chain(module.named_parameters(remove_duplicate=False), module.named_buffers(remove_duplicate=False)))
    unknown = [name for name in given if name not in own]
    replaced = {id(own[name]) for name in given if name in own} if tie_weights else set()
    missing = [name for name, tensor in own.items() if name not in given and id(tensor) not in replaced] if strict else []
    if unknown or missing:
        problems = [f"{problem}: {', '.join(names)}" for problem, names in (("not expected", unknown), ("missing", missing)) if names]
        raise StateError(f"functional_call: tensors do not fit {type(module).__name__}; {'; '.join(problems)}", find_user_location(),
                         hint="names are those of named_parameters() and named_buffers()")
    if tie_weights:
        by_tensor = {id(own[name]): tensor for name, tensor in given.items()}
        given |= {name: by_tensor[id(tensor)] for name, tensor in own.items() if name not in given and id(tensor) in by_tensor}
    arguments = args if isinstance(args, tuple) else () if args is None else (args,)
    return _with_tensors(module, given, "")(*arguments, **(kwargs or {}))


def _with_tensors(module: Module, given: Mapping[str, Any], prefix: str) -> Module:
    """A module with these tensors, by name; its other tensors, and modules in which none is replaced, are those of the module."""
    changed: dict[str, Any] = {}
    for name, child in module.named_children():
        path = f"{prefix}{name}."
        if any(other.startswith(path) for other in given):
            changed[name] = _with_tensors(child, given, path)
    changed |= {name.removeprefix(prefix): tensor for name, tensor in given.items()
                if name.startswith(prefix) and "." not in name.removeprefix(prefix)}
    made = copy.copy(module)
    vars(made).update(changed)
    return made


def stack_module_state(models: Sequence[Module] | Iterator[Module]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The parameters and the buffers of models of one architecture, by name, each as one tensor along a new first axis.

    The tensors are new: they require grad where those of the models do. Raises `StateError` for models that differ in class, names or
    shapes, or of which some are in training mode.

    >>> import adjit as aj
    >>> parameters, buffers = stack_module_state([aj.nn.Linear(2, 1) for _ in range(3)])
    >>> {name: tensor.shape for name, tensor in parameters.items()}, buffers
    ({'weight': (3, 1, 2), 'bias': (3, 1)}, {})
    """
    modules = list(models)
    first = modules[0] if modules else None
    if first is None:
        raise StateError("stack_module_state: there is no model", find_user_location(), hint="pass at least one")
    for module in modules:
        if type(module) is not type(first) or module.training != first.training:
            what = "are of one class" if type(module) is not type(first) else "are all in training mode, or none of them"
            raise StateError(f"stack_module_state: the models have to be alike; they {what}", find_user_location(),
                             hint="model.train() or model.eval() for all" if "mode" in what else "stack the models of each class")
    return (_stacked([dict(module.named_parameters()) for module in modules]),
            _stacked([dict(module.named_buffers()) for module in modules]))


def _stacked(states: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    stacked: dict[str, Tensor] = {}
    for name, tensor in states[0].items():
        column = [state.get(name) for state in states]
        if any(other is None or other.shape != tensor.shape or other.requires_grad != tensor.requires_grad for other in column):
            raise StateError(f"stack_module_state: {name} differs in shape, or in requires_grad, or not every model has it",
                             find_user_location(), hint="stack models of one architecture")
        with no_grad():
            stacked[name] = FUNCTIONS["stack"](column).detach().requires_grad_(tensor.requires_grad)
    return stacked


def __dir__() -> list[str]:
    return sorted(__all__)
