"""Weight norm and spectral norm in PyTorch's older form: the tensors that a weight is computed from are the module's own."""

from __future__ import annotations

import operator
from typing import Any

from adjit.eager.modes import no_grad
from adjit.eager.tensor import Tensor
from adjit.ir.errors import ArgumentError, ShapeError, TraceError
from adjit.nn.convolution import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from adjit.nn.functional import normalize
from adjit.nn.module import Computed, Module
from adjit.nn.parameter import Parameter, UninitializedParameter
from adjit.tensor_creation import randn
from adjit.tensor_numerics import norm_except_dim
from adjit.tracer.scope import is_tracing
from adjit.tracer.user_location import find_user_location

# -- formulas of both forms


def magnitude(weight: Tensor, dim: int) -> Tensor:
    """Norms of a weight, one for each index of `dim`; of the whole with -1."""
    if not -1 <= dim < weight.ndim:
        raise ArgumentError(f"weight_norm: dim is None or 0 to {weight.ndim - 1} for a weight of the shape {weight.shape}, got {dim}",
                            find_user_location())
    return norm_except_dim(weight, 2, dim)


def scaled(directions: Tensor, magnitudes: Tensor, dim: int) -> Tensor:
    """The weight with these directions and magnitudes."""
    return directions * (magnitudes / magnitude(directions, dim))      # type: ignore[operator]


def matrix_of(weight: Tensor, dim: int) -> Any:
    """A weight as a matrix whose rows belong to the indices of `dim`."""
    return weight.moveaxis(dim, 0).reshape(weight.shape[dim], -1)        # type: ignore[attr-defined]


def first_dimension(module: Module) -> int:
    """Dimension of the outputs of a module's weight."""
    return 1 if isinstance(module, ConvTranspose1d | ConvTranspose2d | ConvTranspose3d) else 0


def random_direction(size: int, weight: Tensor, eps: float) -> Any:
    """A random vector of the length 1, of the dtype of a weight and on its device."""
    return normalize(randn(size, dtype=weight.dtype, device=weight.device), dim=0, eps=eps)      # type: ignore[arg-type]


def check_iterations(count: int) -> int:
    """Return a number of power iterations, which is positive."""
    if operator.index(count) <= 0:
        raise ArgumentError(f"spectral_norm: n_power_iterations is positive, got {count}", find_user_location())
    return count


# -- the older form


class _Reparametrized(Computed):
    """Base of weights that are computed from other tensors of their module, `{name}_{part}` for each of the parts."""

    parts: tuple[str, ...]

    def __init__(self, name: str, dim: int):
        self.name, self.dim = name, dim

    def _of(self, module: Module) -> list[Any]:
        return [getattr(module, f"{self.name}_{part}") for part in self.parts]

    def set(self, module: Module, value: Any) -> None:
        parts = ", ".join(f"{self.name}_{part}" for part in self.parts)
        raise ArgumentError(f"{type(module).__name__}.{self.name} is computed from {parts}: it cannot be set", find_user_location(),
                            hint="write to these in place, within adjit.no_grad()")


class _WeightNorm(_Reparametrized):
    """Weight with magnitudes and directions."""

    parts = "g", "v"

    def compute(self, module: Module) -> Any:
        magnitudes, directions = self._of(module)
        return scaled(directions, magnitudes, self.dim)


class _SpectralNorm(_Reparametrized):
    """Weight divided by its largest singular value; also the hook that estimates the singular vectors before each call in training mode."""

    parts = "orig", "u", "v"

    def __init__(self, name: str, dim: int, n_power_iterations: int, eps: float):
        super().__init__(name, dim)
        self.n_power_iterations, self.eps = n_power_iterations, eps

    def compute(self, module: Module) -> Any:
        weight, u, v = self._of(module)
        u, v = u.clone(), v.clone()         # the next call writes to the buffers
        return weight / u.dot(matrix_of(weight, self.dim) @ v)

    def __call__(self, module: Module, args: Any, kwargs: Any) -> Any:
        if module.training:
            with no_grad():
                weight, u, v = self._of(module)
                matrix = matrix_of(weight, self.dim)
                for _ in range(self.n_power_iterations):
                    v.copy_(normalize(matrix.T @ u, dim=0, eps=self.eps))
                    u.copy_(normalize(matrix @ v, dim=0, eps=self.eps))
        return args, kwargs


def _begin(module: Module, name: str, kind: type[_Reparametrized], function: str) -> Parameter:
    """Return the parameter that a weight norm is to replace."""
    if is_tracing():
        raise TraceError(f"{function} within a compiled function", find_user_location(), hint="do that before")
    if isinstance(module._computed.get(name), kind):
        raise ArgumentError(f"{function}: {name!r} has it already", find_user_location())
    weight = vars(module).get(name)
    if not isinstance(weight, Parameter):
        raise ArgumentError(f"{function}: a {type(module).__name__} has no parameter {name!r}", find_user_location())
    if isinstance(weight, UninitializedParameter):
        raise ShapeError(f"{function}: {name!r} of a lazy module has no shape yet", find_user_location(),
                         hint="call the module once before")
    return weight


def _removed(module: Module, name: str, kind: type[_Reparametrized], function: str) -> None:
    """Make a computed weight a parameter again."""
    computed = module._computed.get(name)
    if not isinstance(computed, kind):
        raise ArgumentError(f"{function} of {name!r} not found in a {type(module).__name__}", find_user_location())
    with no_grad():
        weight = computed.compute(module)
    module._computed = {other: each for other, each in module._computed.items() if other != name}
    module._pre_hooks = [hook for hook in module._pre_hooks or () if hook is not computed] or None
    for part in computed.parts:
        delattr(module, f"{name}_{part}")
    module.register_parameter(name, Parameter(weight))


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Learn a weight as magnitude `weight_g` and direction `weight_v`, from which it is computed at each access; returns the module.

    `parametrizations.weight_norm` is its newer form, and loads its states. Raises `ArgumentError` if the module has no such parameter.

    >>> import adjit as aj
    >>> [name for name, _ in weight_norm(aj.nn.Linear(3, 2)).named_parameters()]
    ['bias', 'weight_g', 'weight_v']
    """
    weight = _begin(module, name, _WeightNorm, "weight_norm")
    computed = _WeightNorm(name, -1 if dim is None else dim)
    with no_grad():
        magnitudes = magnitude(weight, computed.dim)
    delattr(module, name)
    module.register_parameter(f"{name}_g", Parameter(magnitudes))
    module.register_parameter(f"{name}_v", Parameter(weight))
    module._computed = {**module._computed, name: computed}
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Make a weight a parameter again that `weight_norm` replaced; returns the module. Raises `ArgumentError` if it did not.

    >>> import adjit as aj
    >>> [name for name, _ in remove_weight_norm(weight_norm(aj.nn.Linear(3, 2))).named_parameters()]
    ['bias', 'weight']
    """
    _removed(module, name, _WeightNorm, "weight_norm")
    return module


def spectral_norm(module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None) -> Module:
    """Divide a weight by its largest singular value; returns the module.

    The parameter is `weight_orig`; the buffers `weight_u` and `weight_v` hold the singular vectors that the power method estimates, with
    `n_power_iterations` in each call in training mode. `parametrizations.spectral_norm` is its newer form. Raises `ArgumentError` if the
    module has no such parameter, or for less than one iteration.

    >>> import adjit as aj
    >>> list(spectral_norm(aj.nn.Linear(3, 2)).state_dict())
    ['bias', 'weight_orig', 'weight_u', 'weight_v']
    """
    weight = _begin(module, name, _SpectralNorm, "spectral_norm")
    computed = _SpectralNorm(name, first_dimension(module) if dim is None else dim, check_iterations(n_power_iterations), eps)
    with no_grad():
        directions = [random_direction(size, weight, eps) for size in matrix_of(weight, computed.dim).shape]
    delattr(module, name)
    module.register_parameter(f"{name}_orig", weight)
    for part, direction in zip(("u", "v"), directions, strict=True):
        module.register_buffer(f"{name}_{part}", direction)
    module._computed = {**module._computed, name: computed}
    module._pre_hooks = [*(module._pre_hooks or ()), computed]
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Make a weight a parameter again that `spectral_norm` replaced; returns the module. Raises `ArgumentError` if it did not.

    >>> import adjit as aj
    >>> list(remove_spectral_norm(spectral_norm(aj.nn.Linear(3, 2))).state_dict())
    ['bias', 'weight']
    """
    _removed(module, name, _SpectralNorm, "spectral_norm")
    return module
