"""Layers that multiply with a weight, or take its rows: `Linear`, `Bilinear`, embeddings; and `Identity`, `Flatten`."""

from __future__ import annotations

import math
from typing import Any, Literal, Self

import numpy as np

from adjit.eager.device import chosen
from adjit.eager.modes import modes, no_grad
from adjit.eager.tensor import Tensor, as_tensor, own_tensor
from adjit.ir.errors import ArgumentError, ShapeError
from adjit.nn import functional, init
from adjit.nn.module import Module, refuse
from adjit.nn.parameter import Parameter
from adjit.tracer.user_location import find_user_location

Array = Any


def empty_parameter(shape: tuple[int, ...], dtype: Any) -> Parameter:
    """Make a parameter of this shape, to be filled; float32 without a dtype. Raises errors for invalid sizes."""
    for size in shape:
        if not hasattr(size, "__index__"):
            raise TypeError(f"a parameter of the shape {shape}: {size!r} is no integer")
        if size < 0:
            raise ShapeError(f"a parameter of the shape {shape}: {size} is negative", find_user_location())
    return Parameter(own_tensor(np.zeros(shape, modes.default_float if dtype is None else dtype)))


class Identity(Module):
    """Layer that returns its input. Takes any arguments, so that it can replace any layer.

    >>> import adjit
    >>> Identity()(adjit.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, x: Any) -> Tensor:
        """Return `x` itself."""
        return x        # type: ignore[no-any-return]


class Flatten(Module):
    """Layer that joins the dimensions from `start_dim` to `end_dim` (included).

    >>> Flatten()(as_tensor(np.zeros((2, 3, 4)))).shape
    (2, 12)
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` with these dimensions as one."""
        return as_tensor(x).flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Linear(Module):
    """`x @ weight.T + bias`: (..., in_features) to (..., out_features).

    weight: (out_features, in_features), bias: (out_features,), both uniform in (-k, k) with k = 1 / sqrt(in_features).

    >>> Linear(3, 2)(as_tensor(np.zeros((5, 3), np.float32))).shape
    (5, 2)
    """

    weight: Parameter
    bias: Parameter | None

    def __init__(self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = empty_parameter((out_features, in_features), dtype)
        self.register_parameter("bias", empty_parameter((out_features,), dtype) if bias else None)
        self.reset_parameters()
        self.to(device=chosen(device))

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        init.weight_and_bias_(self.weight, self.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., in_features) to (..., out_features); raises `ShapeError` for other shapes."""
        return functional.linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Bilinear(Module):
    """`x1 @ weight[o] @ x2 + bias[o]` for each output: (..., in1_features) and (..., in2_features) to (..., out_features).

    weight: (out_features, in1_features, in2_features), bias: (out_features,), uniform in (-k, k) with k = 1 / sqrt(in1_features).

    >>> import adjit
    >>> Bilinear(2, 3, 4)(adjit.zeros(5, 2), adjit.zeros(5, 3)).shape
    (5, 4)
    """

    weight: Parameter
    bias: Parameter | None

    def __init__(self, in1_features: int, in2_features: int, out_features: int, bias: bool = True, device: Any = None,
                 dtype: Any = None) -> None:
        super().__init__()
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        self.weight = empty_parameter((out_features, in1_features, in2_features), dtype)
        self.register_parameter("bias", empty_parameter((out_features,), dtype) if bias else None)
        self.reset_parameters()
        self.to(device=chosen(device))

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        bound = 1.0 / math.sqrt(self.in1_features)
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Map two inputs to the outputs; both have the same shape but for the last dimension."""
        return functional.bilinear(x1, x2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (f"in1_features={self.in1_features}, in2_features={self.in2_features}, out_features={self.out_features}, "
                f"bias={self.bias is not None}")


class _Table(Module):
    """Base of layers with a vector of `embedding_dim` numbers for each of the integers below `num_embeddings`."""

    weight: Parameter

    def __init__(self, num_embeddings: int, embedding_dim: int, max_norm: float | None, norm_type: float, scale_grad_by_freq: bool,
                 sparse: bool, padding_idx: int | None, weight: Any, freeze: bool, device: Any, dtype: Any) -> None:
        name = type(self).__name__
        refuse(name, sparse=sparse)
        super().__init__()
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise ArgumentError(f"{name}: padding_idx {padding_idx} is no row of {num_embeddings}", find_user_location())
            padding_idx %= num_embeddings
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = padding_idx
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        if weight is None:
            self.weight = empty_parameter((num_embeddings, embedding_dim), dtype)
            self.reset_parameters()
        elif tuple(weight.shape) != (num_embeddings, embedding_dim):
            raise ShapeError(f"{name}: the weight has the shape {(num_embeddings, embedding_dim)}, got {tuple(weight.shape)}",
                             find_user_location())
        else:
            self.weight = Parameter(weight)
        if freeze:
            self.weight.requires_grad_(False)
        self.to(device=chosen(device))

    @classmethod
    def from_pretrained(cls, embeddings: Any, freeze: bool = True, *settings: Any, **named: Any) -> Self:
        """Make a layer on the rows of a matrix; the rows are not learned with `freeze`. Other arguments are those of the class."""
        weight = as_tensor(embeddings)
        if weight.ndim != 2:
            raise ShapeError(f"{cls.__name__}.from_pretrained takes a matrix, got the shape {weight.shape}", find_user_location())
        made = cls(weight.shape[0], weight.shape[1], *settings, _weight=weight, **named)        # type: ignore[call-arg]
        made.weight.requires_grad_(not freeze)
        return made

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx] = 0.0

    def extra_repr(self) -> str:
        parts = [f"{self.num_embeddings}, {self.embedding_dim}"]
        parts += [f"padding_idx={self.padding_idx}"] if self.padding_idx is not None else []
        parts += [f"max_norm={self.max_norm}"] if self.max_norm is not None else []
        parts += [f"norm_type={self.norm_type}"] if self.norm_type != 2 else []
        parts += ["scale_grad_by_freq=True"] if self.scale_grad_by_freq else []
        return ", ".join(parts)


class Embedding(_Table):
    """A vector of `embedding_dim` numbers for each of the integers below `num_embeddings`.

    weight: (num_embeddings, embedding_dim), standard normal. The row `padding_idx` is zero at first, and gets no gradient. Rows that are
    used and have a larger norm than `max_norm` are scaled down to it; see `functional.embedding` for the rest.

    >>> Embedding(10, 4)(as_tensor(np.array([[1, 2, 3]]))).shape
    (1, 3, 4)
    """

    def __init__(self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None, max_norm: float | None = None,
                 norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False, _weight: Any = None,
                 _freeze: bool = False, device: Any = None, dtype: Any = None) -> None:
        super().__init__(num_embeddings, embedding_dim, max_norm, norm_type, scale_grad_by_freq, sparse, padding_idx, _weight, _freeze,
                         device, dtype)

    def forward(self, indices: Tensor) -> Tensor:
        """Map integers of any shape to that shape and `embedding_dim`."""
        return functional.embedding(indices, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq)


class EmbeddingBag(_Table):
    """Sums, means or maxima of bags of rows of a table, see `functional.embedding_bag`.

    weight: (num_embeddings, embedding_dim), standard normal; other arguments as in `Embedding`.

    >>> EmbeddingBag(10, 4)(as_tensor(np.array([1, 2, 3])), as_tensor(np.array([0, 2]))).shape
    (2, 4)
    """

    def __init__(self, num_embeddings: int, embedding_dim: int, max_norm: float | None = None, norm_type: float = 2.0,
                 scale_grad_by_freq: bool = False, mode: Literal["mean", "sum", "max"] = "mean", sparse: bool = False,
                 _weight: Any = None, include_last_offset: bool = False, padding_idx: int | None = None, device: Any = None,
                 dtype: Any = None) -> None:
        super().__init__(num_embeddings, embedding_dim, max_norm, norm_type, scale_grad_by_freq, sparse, padding_idx, _weight, False,
                         device, dtype)
        self.mode = mode
        self.include_last_offset = include_last_offset

    def forward(self, indices: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        """Map the rows of (B, L) integers, or parts of (N,) that begin at the offsets, to (number of bags, embedding_dim)."""
        return functional.embedding_bag(indices, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.mode,
                                        False, per_sample_weights, self.include_last_offset, self.padding_idx)

    def extra_repr(self) -> str:
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return super().extra_repr().replace(padding, "", 1) + f", mode={self.mode!r}{padding}"
