"""Parametrisations: a parameter or buffer of a module that is computed, at each access, from tensors that are learned in its place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np

from adjit.eager.modes import no_grad
from adjit.eager.tensor import Tensor
from adjit.ir.errors import ArgumentError, DTypeError, ShapeError, TraceError, UnsupportedError
from adjit.nn.containers import ModuleDict, ModuleList
from adjit.nn.module import Computed, Module
from adjit.nn.parameter import Parameter, UninitializedBuffer, UninitializedParameter
from adjit.tracer.array_wrapper import DeviceLeaf
from adjit.tracer.scope import Scope, active_scope, is_tracing
from adjit.tracer.user_location import find_user_location

__all__ = ["ParametrizationList", "cached", "is_parametrized", "register_parametrization", "remove_parametrizations",
           "transfer_parametrizations_and_params", "type_before_parametrizations"]


class _Cache(NamedTuple):
    """Computed tensors, by what computes them. They are used in the trace, or the code outside of any, that `cached` was entered in: those
    of another trace are no values of it."""

    scope: Scope | None
    tensors: dict[ParametrizationList, Tensor]


_cache: ContextVar[_Cache | None] = ContextVar("cache of parametrisations", default=None)


@contextmanager
def cached() -> Iterator[None]:
    """Compute each parametrised tensor once within the `with` block, at its first access, for networks that use one several times.

    >>> import adjit as aj
    >>> class Positive(Module):
    ...     def forward(self, x):
    ...         return x.exp()
    >>> layer = register_parametrization(aj.nn.Linear(2, 1), "weight", Positive())
    >>> with cached():
    ...     layer.weight is layer.weight
    True
    """
    current, scope = _cache.get(), active_scope()
    if current is not None and current.scope is scope:
        yield
        return
    token = _cache.set(_Cache(scope, {}))
    try:
        yield
    finally:
        _cache.reset(token)


class ParametrizationList(ModuleList):
    """Parametrisations of one tensor, the first one applied first, and the tensors that they compute it from: `original`, or `original0`,
    `original1`, ... if `right_inverse` of the first one gives several. `register_parametrization` makes it.

    >>> import adjit as aj
    >>> class Positive(Module):
    ...     def forward(self, x):
    ...         return x.exp()
    >>> ParametrizationList([Positive()], Parameter(aj.zeros(2)))()
    tensor([1., 1.], grad_fn=<ExpBackward0>)
    """

    original: Tensor

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if not modules:
            raise ArgumentError("ParametrizationList has one module or more, got none", find_user_location())
        super().__init__(modules)
        self.unsafe = unsafe
        with no_grad():
            new: Any = original
            for module in reversed(list(self)):
                with suppress(NotImplementedError):     # PyTorch too takes the tensor itself then
                    new = module.right_inverse(new) if hasattr(module, "right_inverse") else new
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if self.is_tensor else len(_tensors(new, None))
        shape, dtype = original.shape, original.dtype
        if self.is_tensor:
            _check_dtype("right_inverse(original)", new, dtype)
            content = new.array if new is original else _copied(new.array)
            _add(self, "original", original)
            if not unsafe:
                original.array, before = content, original.array
                try:
                    self._check_result(shape, dtype)
                except BaseException:
                    original.array = before
                    raise
            original.array = content
        else:
            for index, each in enumerate(new):
                tensor = each.detach().clone()
                _add(self, f"original{index}", Parameter(tensor, original.requires_grad) if isinstance(original, Parameter) else tensor)
            if not unsafe:
                self._check_result(shape, dtype)

    def _check_result(self, shape: tuple[int, ...], dtype: np.dtype) -> None:
        result = self()
        if not isinstance(result, Tensor):
            raise ArgumentError(f"a parametrization must return a tensor, got a {type(result).__name__}", find_user_location())
        _check_kept("parametrization(original)", result, shape, dtype)

    def right_inverse(self, value: Tensor) -> None:
        """Set the original tensors to those that `value` is computed from, in place. Raises `UnsupportedError` if a parametrisation has no
        method `right_inverse`."""
        with no_grad():
            new: Any = value
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise UnsupportedError(f"parametrization {type(module).__name__} does not implement right_inverse, the parametrized "
                                           "tensor cannot be set", find_user_location())
                new = module.right_inverse(new)
            for name, tensor in zip(self._originals(), [new] if self.is_tensor else _tensors(new, self.ntensors), strict=True):
                original = getattr(self, name)
                if not isinstance(tensor, Tensor):
                    raise ArgumentError(f"right_inverse must return a tensor, got a {type(tensor).__name__}", find_user_location())
                _check_dtype("right_inverse(value)", tensor, original.dtype)
                if tensor.shape == original.shape:
                    original.copy_(tensor)
                elif is_tracing():
                    raise TraceError(f"{name} changes its shape from {original.shape} to {tensor.shape} within a compiled function",
                                     find_user_location(), hint="set the parametrized tensor before")
                else:
                    original.array = _copied(tensor.array)

    def _originals(self) -> list[str]:
        return ["original"] if self.is_tensor else [f"original{index}" for index in range(self.ntensors)]

    def forward(self) -> Any:
        """The parametrised tensor."""
        first, *others = self
        x = first(*(getattr(self, name) for name in self._originals()))
        for module in others:
            x = module(x)
        return x


def _copied(content: Any) -> Any:
    return content.copy() if isinstance(content, DeviceLeaf) else np.array(content)


def _tensors(new: Any, count: int | None) -> Sequence[Tensor]:
    if not isinstance(new, Sequence) or not all(isinstance(each, Tensor) for each in new) or (count is not None and len(new) != count):
        wanted = "a tensor or a sequence of tensors" if count is None else f"{count} tensors"
        raise ArgumentError(f"right_inverse must return {wanted}, got "
                            + (f"{len(new)} of {', '.join(sorted({type(each).__name__ for each in new})) or 'nothing'}"
                               if isinstance(new, Sequence) else f"a {type(new).__name__}"), find_user_location())
    return new


def _check_dtype(what: str, tensor: Tensor, dtype: np.dtype) -> None:
    if tensor.dtype != dtype:
        raise DTypeError(f"{what} is {tensor.dtype}, the original tensor {dtype}", find_user_location())


def _check_kept(what: str, tensor: Tensor, shape: tuple[int, ...], dtype: np.dtype) -> None:
    """Raise an error for a tensor of another shape or dtype."""
    hint = "unsafe=True if that is meant"
    if tensor.dtype != dtype:
        raise DTypeError(f"a parametrization may not change the dtype: {what} is {tensor.dtype}, the tensor {dtype}", find_user_location(),
                         hint=hint)
    if tensor.shape != shape:
        raise ShapeError(f"a parametrization may not change the shape: that of {what} is {tensor.shape}, that of the tensor {shape}",
                         find_user_location(), hint=hint)


def _add(module: Module, name: str, tensor: Tensor) -> None:
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


class _Parametrized(Computed):
    """A parametrised tensor."""

    def __init__(self, name: str):
        self.name = name

    def compute(self, module: Module) -> Any:
        parametrization: Any = module.parametrizations[self.name]
        cache = _cache.get()
        if cache is None or cache.scope is not active_scope():
            return parametrization()
        if parametrization not in cache.tensors:
            cache.tensors[parametrization] = parametrization()
        return cache.tensors[parametrization]

    def set(self, module: Module, value: Any) -> None:
        module.parametrizations[self.name].right_inverse(value)


def _names(module: Module) -> tuple[str, ...]:
    return tuple(name for name, computed in module._computed.items() if isinstance(computed, _Parametrized))


def register_parametrization(module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False) -> Module:
    """Compute a parameter or buffer of a module by `parametrization`, a module, from now on; returns the module.

    `module.weight` is then `parametrization(original)`, computed at each access, and `module.parametrizations.weight.original` the
    parameter that is learned. With a method `right_inverse`, which gives an original for a value (or several, a tuple), the value stays
    near what it was, and may be set: `module.weight = value`. Several parametrisations of one tensor are applied in the order in which they
    were registered.

    Raises `ArgumentError` if the module has no such tensor, `ShapeError` and `DTypeError` for a parametrisation that changes shape or
    dtype, unless `unsafe`. As `torch.nn.utils.parametrize.register_parametrization`.

    >>> import adjit as aj
    >>> class Symmetric(Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).T
    >>> layer = register_parametrization(aj.nn.Linear(3, 3), "weight", Symmetric())
    >>> bool((layer.weight == layer.weight.T).all()), [name for name, _ in layer.named_parameters()]
    (True, ['bias', 'parametrizations.weight.original'])
    """
    if is_tracing():
        raise TraceError("a tensor is parametrized within a compiled function", find_user_location(), hint="do that before")
    parametrization.train(module.training)
    if tensor_name in _names(module):
        listed: Any = module.parametrizations[tensor_name]
        if not unsafe:
            _check_next(getattr(module, tensor_name), parametrization)
        listed.append(parametrization)
        listed.unsafe |= unsafe
        return module
    original = vars(module).get(tensor_name)
    if not (tensor_name in module._kinds and isinstance(original, Tensor)):
        raise ArgumentError(f"a {type(module).__name__} has no parameter, buffer or parametrized tensor {tensor_name!r}",
                            find_user_location())
    if isinstance(original, UninitializedParameter | UninitializedBuffer):
        raise ShapeError(f"{tensor_name!r} of a lazy module has no shape yet", find_user_location(), hint="call the module once before")
    listed = ParametrizationList([parametrization], original, unsafe).train(module.training)
    delattr(module, tensor_name)
    if not _names(module):
        module.parametrizations = ModuleDict().train(module.training)
    module.parametrizations[tensor_name] = listed
    module._computed = {**module._computed, tensor_name: _Parametrized(tensor_name)}
    return module


def _check_next(value: Tensor, parametrization: Any) -> None:
    """Check that a further parametrisation keeps shape and dtype."""
    result = parametrization(value)
    if not isinstance(result, Tensor):
        raise ArgumentError(f"a parametrization must return a tensor, got a {type(result).__name__}", find_user_location())
    _check_kept("its result", result, value.shape, value.dtype)
    try:
        inverse = parametrization.right_inverse(result) if hasattr(parametrization, "right_inverse") else value
    except NotImplementedError:
        return
    if not isinstance(inverse, Tensor):
        raise ArgumentError(f"right_inverse of a further parametrization must return a tensor, got a {type(inverse).__name__}",
                            find_user_location())
    _check_kept("the result of right_inverse", inverse, value.shape, value.dtype)


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """True if this tensor of a module is parametrised; without a name, if any is.

    >>> import adjit as aj
    >>> is_parametrized(aj.nn.Linear(2, 1))
    False
    """
    return bool(_names(module)) if tensor_name is None else tensor_name in _names(module)


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make a parametrised tensor a parameter or buffer again, with the value that it has, or with that of `original` if
    `leave_parametrized=False`; returns the module.

    Raises `ArgumentError` if the tensor is not parametrised, or if it should get its original value and has several originals.

    >>> import adjit as aj
    >>> class Positive(Module):
    ...     def forward(self, x):
    ...         return x.exp()
    >>> layer = register_parametrization(aj.nn.Linear(2, 1), "weight", Positive())
    >>> type(remove_parametrizations(layer, "weight")).__name__, bool((layer.weight > 0).all())
    ('Linear', True)
    """
    if is_tracing():
        raise TraceError("parametrizations are removed within a compiled function", find_user_location(), hint="do that before")
    if not is_parametrized(module, tensor_name):
        raise ArgumentError(f"{tensor_name!r} of a {type(module).__name__} is not parametrized", find_user_location())
    listed: Any = module.parametrizations[tensor_name]
    tensor: Tensor
    if listed.is_tensor:
        tensor = listed.original
        if leave_parametrized:
            with no_grad():
                tensor.array = np.array(getattr(module, tensor_name).array)
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        tensor = Parameter(value) if value.requires_grad else value
    else:
        raise ArgumentError(f"{tensor_name!r} is computed from {listed.ntensors} tensors: leave_parametrized=False has no meaning",
                            find_user_location())
    module._computed = {name: computed for name, computed in module._computed.items() if name != tensor_name}
    del module.parametrizations[tensor_name]
    if not _names(module):
        del module.parametrizations
    _add(module, tensor_name, tensor)
    return module


def type_before_parametrizations(module: Module) -> type[Module]:
    """The class of a module, which parametrisations do not change.

    >>> import adjit as aj
    >>> type_before_parametrizations(aj.nn.Linear(2, 1)).__name__
    'Linear'
    """
    return type(module)


def transfer_parametrizations_and_params(from_module: Module, to_module: Module, tensor_name: str | None = None) -> Module:
    """Parametrise `to_module` as `from_module` is, with the same modules and the same originals: all tensors, or the one with this name;
    returns `to_module`.

    >>> import adjit as aj
    >>> class Positive(Module):
    ...     def forward(self, x):
    ...         return x.exp()
    >>> first, second = register_parametrization(aj.nn.Linear(2, 1), "weight", Positive()), aj.nn.Linear(2, 1)
    >>> bool((transfer_parametrizations_and_params(first, second).weight == first.weight).all())
    True
    """
    for name in _names(from_module) if tensor_name is None else (tensor_name,) if is_parametrized(from_module) else ():
        if not is_parametrized(from_module, name):
            raise ArgumentError(f"{name!r} of a {type(from_module).__name__} is not parametrized", find_user_location())
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name)))
        source: Any = from_module.parametrizations[name]
        for parametrization in source:
            register_parametrization(to_module, name, parametrization, unsafe=source.unsafe)
        for original in source._originals():
            setattr(to_module.parametrizations[name], original, getattr(source, original))
    return to_module
