"""Parametrisations that PyTorch has: `weight_norm`, `spectral_norm`, `orthogonal`."""

from __future__ import annotations

from collections.abc import MutableMapping
from functools import partial
from typing import Any, Literal, get_args

import numpy as np

from adjit import linalg
from adjit.eager.modes import no_grad
from adjit.eager.tensor import Tensor
from adjit.ir.errors import ArgumentError, IndexingError, ShapeError, UnsupportedError
from adjit.nn.functional import normalize
from adjit.nn.module import Module
from adjit.nn.utils.parametrize import register_parametrization
from adjit.nn.utils.reparametrizations import check_iterations, first_dimension, magnitude, matrix_of, random_direction, scaled
from adjit.tensor_creation import eye, randn, zeros
from adjit.tensor_functions import cat
from adjit.tracer.user_location import find_user_location

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]

OrthogonalMap = Literal["matrix_exp", "cayley", "householder"]


class _WeightNorm(Module):
    """A weight as magnitude and direction."""

    def __init__(self, dim: int | None) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, magnitudes: Tensor, directions: Tensor) -> Tensor:
        return scaled(directions, magnitudes, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return magnitude(weight, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Learn a weight as magnitude and direction, `w = g v / |v|`; returns the module.

    There is one magnitude for each index of `dim`, one in all with `dim=None`. The parameters are `parametrizations.weight.original0`, g,
    and `original1`, v; a state with the older names `weight_g` and `weight_v` can be loaded. Raises `ArgumentError` if the module has no
    such tensor. Source: Salimans and Kingma, Weight normalization, 2016, as `torch.nn.utils.parametrizations.weight_norm`.

    >>> import adjit as aj
    >>> layer = weight_norm(aj.nn.Linear(3, 2))
    >>> {name: parameter.shape for name, parameter in layer.named_parameters()}
    {'bias': (2,), 'parametrizations.weight.original0': (2, 1), 'parametrizations.weight.original1': (2, 3)}
    """
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)
    module.register_load_state_dict_pre_hook(partial(_rename, name))
    return module


def _rename(name: str, module: Module, state: MutableMapping[str, Any], prefix: str, *_: Any) -> None:
    """Give the tensors of the older weight norm their names of today."""
    old = [f"{prefix}{name}_g", f"{prefix}{name}_v"]
    if all(key in state for key in old):
        for index, key in enumerate(old):
            state[f"{prefix}parametrizations.{name}.original{index}"] = state.pop(key)


class _SpectralNorm(Module):
    """A weight divided by its largest singular value, which the power method estimates: iterations in each access while training."""

    _u: Tensor
    _v: Tensor

    def __init__(self, weight: Tensor, n_power_iterations: int, dim: int, eps: float) -> None:
        super().__init__()
        if not -weight.ndim <= dim < weight.ndim:
            raise IndexingError(f"dim {dim} of a weight with {weight.ndim} dimensions", find_user_location())
        self.dim, self.eps = dim % weight.ndim, eps
        self.n_power_iterations = check_iterations(n_power_iterations)
        if weight.ndim > 1:
            with no_grad():
                matrix = matrix_of(weight, self.dim)
                for name, size in zip(("_u", "_v"), matrix.shape, strict=True):
                    self.register_buffer(name, random_direction(size, weight, eps))
                self._iterate(matrix, 15)

    def _iterate(self, matrix: Tensor, count: int) -> None:
        with no_grad():
            for _ in range(count):
                self._u.copy_(normalize(matrix @ self._v, dim=0, eps=self.eps))
                self._v.copy_(normalize(matrix.mH @ self._u, dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return normalize(weight, dim=0, eps=self.eps)       # type: ignore[return-value]
        matrix = matrix_of(weight, self.dim)
        if self.training:
            self._iterate(matrix, self.n_power_iterations)
        u, v = self._u.clone(), self._v.clone()     # the next access writes to the buffers
        return weight / u.vdot(matrix @ v)      # type: ignore[no-any-return]

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


def spectral_norm(module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None) -> Module:
    """Divide a weight by its largest singular value, as a matrix with the dimension `dim` first; returns the module.

    The power method estimates the value: 15 iterations now, `n_power_iterations` at each access in training mode. `dim` is 0, and 1 for
    transposed convolutions, if it is not given. A vector is divided by its norm. Raises `ArgumentError` if the module has no such tensor,
    or for less than one iteration. Source: Miyato, Kataoka, Koyama and Yoshida, Spectral normalization for generative adversarial
    networks, 2018, as `torch.nn.utils.parametrizations.spectral_norm`.

    >>> import adjit as aj
    >>> layer = spectral_norm(aj.nn.Linear(3, 2), n_power_iterations=50)
    >>> aj.linalg.matrix_norm(layer.weight.detach(), 2).round(decimals=3)
    tensor(1.)
    """
    weight = _weight(module, name)
    dim = first_dimension(module) if dim is None else dim
    return register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))


def _weight(module: Module, name: str) -> Tensor:
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ArgumentError(f"a {type(module).__name__} has no parameter or buffer {name!r}", find_user_location())
    return weight


class _Orthogonal(Module):
    """A matrix with orthonormal columns, or rows if there are less of them, of any matrix. `base` is the orthogonal matrix that the map
    begins at."""

    base: Tensor

    def __init__(self, weight: Tensor, orthogonal_map: OrthogonalMap, use_trivialization: bool) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise ArgumentError("the householder parametrization does not support complex tensors", find_user_location())
        self.shape, self.orthogonal_map = weight.shape, orthogonal_map
        self.has_base = use_trivialization
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, x: Tensor) -> Tensor:
        transposed = x.shape[-2] < x.shape[-1]
        x = x.mT if transposed else x
        q = _householder(x) if self.orthogonal_map == "householder" else _of_skew(x, self.orthogonal_map)
        q = self.base @ q if self.has_base else q
        return q.mT if transposed else q

    def right_inverse(self, value: Tensor) -> Tensor:
        if value.shape != self.shape:
            raise ShapeError(f"expected a matrix or batch of matrices of the shape {self.shape}, got {value.shape}", find_user_location())
        transposed = value.shape[-2] < value.shape[-1]
        q = value.mT if transposed else value
        rows, columns = q.shape[-2:]
        if not self.has_base:
            if self.orthogonal_map != "householder":
                raise UnsupportedError(f"the parametrization {self.orthogonal_map} cannot be set with use_trivialization=False",
                                       find_user_location())
            packed, tau = q.geqrf()
            signs = packed.diagonal(dim1=-2, dim2=-1).sign() * (1 - 2 * (tau == 0).to(q.dtype))
            a = packed - packed.triu().tril() + eye(rows, columns, dtype=q.dtype, device=q.device) * signs.unsqueeze(-2)
            return a.mT if transposed else a
        if rows != columns:
            base = _orthogonalized(cat([q, randn(*q.shape[:-1], rows - columns, dtype=q.dtype, device=q.device)], -1))
        else:
            base = q.clone() if _is_orthogonal(q) else _orthogonalized(q)
        self.base = base
        return -eye(value.shape[-2], value.shape[-1], dtype=value.dtype, device=value.device).expand(value.shape)


def _of_skew(x: Tensor, orthogonal_map: OrthogonalMap) -> Tensor:
    """The map of the skew-symmetric matrix that the lower triangle of a tall matrix fills."""
    rows, columns = x.shape[-2:]
    lower = x.tril()
    if rows != columns:
        lower = cat([lower, zeros(*x.shape[:-1], rows - columns, dtype=x.dtype, device=x.device)], -1)
    skew = lower - lower.mH
    if orthogonal_map == "matrix_exp":
        q = linalg.matrix_exp(skew)
    else:
        half, one = skew * 0.5, eye(rows, dtype=x.dtype, device=x.device)
        q = linalg.solve(one - half, one + half)
    return q[..., :columns]     # type: ignore[no-any-return]


def _householder(x: Tensor) -> Tensor:
    """Product of the reflections whose vectors are below the diagonal of a tall matrix, columns multiplied by its diagonal, 1 or -1."""
    below = x.tril(-1)
    tau = 2.0 / (1.0 + (below * below).sum(-2))
    signs = x.detach().diagonal(dim1=-2, dim2=-1).trunc()
    return linalg.householder_product(below, tau) * signs.unsqueeze(-2)     # type: ignore[no-any-return]


def _orthogonalized(a: Tensor) -> Tensor:
    """The factor Q of `a = Q R` for the R with a positive diagonal."""
    q, r = linalg.qr(a)
    return q * r.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)     # type: ignore[no-any-return]


def _is_orthogonal(q: Tensor) -> bool:
    size = q.shape[-1]
    return (q.mH @ q).allclose(eye(size, dtype=q.dtype, device=q.device), atol=10.0 * size * float(np.finfo(q.dtype).eps))     # type: ignore[no-any-return]


def orthogonal(module: Module, name: str = "weight", orthogonal_map: OrthogonalMap | None = None, *,
               use_trivialization: bool = True) -> Module:
    """Keep a matrix, or a batch of them, orthogonal: its columns orthonormal, or its rows if it has more columns; returns the module.

    orthogonal_map      "matrix_exp" or "cayley" of a skew-symmetric matrix, or "householder", a product of reflections. By default
                        "matrix_exp" for square matrices, else "householder".
    use_trivialization  whether the map is multiplied by a fixed orthogonal matrix, `parametrizations.weight.0.base`, so that it begins at
                        the weight made orthogonal. Without it, only "householder" begins there, and only with it can the weight be set.

    Raises `ArgumentError` if the module has no such tensor, or for another map; `ShapeError` for a vector. Source: Lezcano Casado,
    Trivializations for gradient-based optimization on manifolds, 2019, as `torch.nn.utils.parametrizations.orthogonal`.

    >>> import adjit as aj
    >>> q = orthogonal(aj.nn.Linear(4, 3)).weight
    >>> (q @ q.T).allclose(aj.eye(3), atol=1e-5)
    True
    """
    weight = _weight(module, name)
    if weight.ndim < 2:
        raise ShapeError(f"orthogonal takes a matrix or a batch of matrices, got {weight.ndim} dimensions", find_user_location())
    if orthogonal_map is None:
        orthogonal_map = "matrix_exp" if weight.shape[-2] == weight.shape[-1] or weight.is_complex() else "householder"
    if orthogonal_map not in get_args(OrthogonalMap):
        raise ArgumentError(f'orthogonal_map is "matrix_exp", "cayley" or "householder", got {orthogonal_map!r}', find_user_location())
    return register_parametrization(module, name, _Orthogonal(weight, orthogonal_map, use_trivialization), unsafe=True)
