"""Losses as modules: each is a function of `adjit.nn.functional` with its settings; `reduction` is "mean", "sum" or "none"."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

from adjit.eager.tensor import Tensor, as_tensor
from adjit.ir.errors import ArgumentError
from adjit.nn import functional
from adjit.nn.functional.arguments import Reduction, reduction_of
from adjit.nn.linear import Linear
from adjit.nn.module import Module
from adjit.tracer.user_location import find_user_location


class _Loss(Module):
    """Loss with a reduction."""

    _reductions: tuple[str, ...] = ("mean", "sum", "none")

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: Any = "mean") -> None:
        super().__init__()
        reduction = reduction_of(size_average, reduce, reduction)
        if reduction not in self._reductions:
            raise ArgumentError(f"{type(self).__name__}: reduction is one of {', '.join(map(repr, self._reductions))}, got {reduction!r}",
                                find_user_location())
        self.reduction: Any = reduction

    def _add_tensor(self, name: str, tensor: Any) -> None:
        """Register a tensor as a buffer, as PyTorch does, so that it is saved and converted with the module."""
        self.register_buffer(name, None if tensor is None else as_tensor(tensor))


class MSELoss(_Loss):
    """Mean of `(prediction - target)**2`.

    >>> import adjit
    >>> MSELoss()(adjit.tensor([1.0, 2.0]), adjit.tensor([1.0, 4.0]))
    tensor(2.)
    """

    def forward(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of two tensors of the same shape."""
        return functional.mse_loss(prediction, target, None, None, self.reduction)


class L1Loss(_Loss):
    """Mean of `abs(prediction - target)`.

    >>> import adjit
    >>> L1Loss()(adjit.tensor([1.0, 2.0]), adjit.tensor([1.5, 4.0]))
    tensor(1.2500)
    """

    def forward(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of two tensors of the same shape."""
        return functional.l1_loss(prediction, target, None, None, self.reduction)


class SmoothL1Loss(_Loss):
    """Loss that is quadratic below a distance of `beta`, linear above, see `functional.smooth_l1_loss`.

    >>> import adjit
    >>> SmoothL1Loss()(adjit.tensor([1.0, 2.0]), adjit.tensor([1.5, 4.0]))
    tensor(0.8125)
    """

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: Reduction = "mean",
                 beta: float = 1.0) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of two tensors of the same shape."""
        return functional.smooth_l1_loss(prediction, target, None, None, self.reduction, self.beta)


class HuberLoss(_Loss):
    """Loss that is quadratic below a distance of `delta`, linear above, see `functional.huber_loss`.

    >>> import adjit
    >>> HuberLoss()(adjit.tensor([1.0, 2.0]), adjit.tensor([1.5, 4.0]))
    tensor(0.8125)
    """

    def __init__(self, reduction: Reduction = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of two tensors of the same shape."""
        return functional.huber_loss(prediction, target, self.reduction, self.delta)


class CrossEntropyLoss(_Loss):
    """`-log softmax(logits)` at the target class, see `functional.cross_entropy`; `weight`, one number per class, is a buffer.

    >>> import adjit
    >>> CrossEntropyLoss()(adjit.tensor([[2.0, 0.0, 0.0]]), adjit.tensor([0]))
    tensor(0.2395)
    """

    weight: Tensor | None

    def __init__(self, weight: Any = None, size_average: bool | None = None, ignore_index: int = -100, reduce: bool | None = None,
                 reduction: Reduction = "mean", label_smoothing: float = 0.0) -> None:
        super().__init__(size_average, reduce, reduction)
        self._add_tensor("weight", weight)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of logits (C,), (N, C) or (N, C, ...) and integer labels without the class axis, or probabilities of the shape
        of the logits."""
        return functional.cross_entropy(logits, target, self.weight, None, self.ignore_index, None, self.reduction, self.label_smoothing)


class NLLLoss(_Loss):
    """Minus the log-probability at the target class, see `functional.nll_loss`; `weight`, one number per class, is a buffer.

    >>> import adjit
    >>> NLLLoss()(adjit.tensor([[-0.5, -1.0], [-2.0, -0.25]]), adjit.tensor([0, 1]))
    tensor(0.3750)
    """

    weight: Tensor | None

    def __init__(self, weight: Any = None, size_average: bool | None = None, ignore_index: int = -100, reduce: bool | None = None,
                 reduction: Reduction = "mean") -> None:
        super().__init__(size_average, reduce, reduction)
        self._add_tensor("weight", weight)
        self.ignore_index = ignore_index

    def forward(self, log_probabilities: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of log-probabilities (C,), (N, C) or (N, C, ...) and integer labels without the class axis."""
        return functional.nll_loss(log_probabilities, target, self.weight, None, self.ignore_index, None, self.reduction)


class BCELoss(_Loss):
    """`-(t * log(p) + (1 - t) * log(1 - p))`, see `functional.binary_cross_entropy`; `weight` is a buffer.

    >>> import adjit
    >>> BCELoss()(adjit.tensor([0.5, 0.75]), adjit.tensor([0.0, 1.0]))
    tensor(0.4904)
    """

    weight: Tensor | None

    def __init__(self, weight: Any = None, size_average: bool | None = None, reduce: bool | None = None,
                 reduction: Reduction = "mean") -> None:
        super().__init__(size_average, reduce, reduction)
        self._add_tensor("weight", weight)

    def forward(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of two tensors of the same shape."""
        return functional.binary_cross_entropy(prediction, target, self.weight, None, None, self.reduction)


class BCEWithLogitsLoss(_Loss):
    """`BCELoss` of `sigmoid(logits)`, see `functional.binary_cross_entropy_with_logits`; `weight` and `pos_weight` are buffers.

    >>> import adjit
    >>> BCEWithLogitsLoss()(adjit.tensor([0.0, 1.0]), adjit.tensor([0.0, 1.0]))
    tensor(0.5032)
    """

    weight: Tensor | None
    pos_weight: Tensor | None

    def __init__(self, weight: Any = None, size_average: bool | None = None, reduce: bool | None = None, reduction: Reduction = "mean",
                 pos_weight: Any = None) -> None:
        super().__init__(size_average, reduce, reduction)
        self._add_tensor("weight", weight)
        self._add_tensor("pos_weight", pos_weight)

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of two tensors of the same shape."""
        return functional.binary_cross_entropy_with_logits(logits, target, self.weight, None, None, self.reduction, self.pos_weight)


class KLDivLoss(_Loss):
    """`target * (log(target) - log_probabilities)`, see `functional.kl_div`; "batchmean" divides by the size of the first axis.

    >>> import adjit
    >>> KLDivLoss(reduction="batchmean")(adjit.tensor([[0.5, 0.5]]).log(), adjit.tensor([[1.0, 0.0]]))
    tensor(0.6931)
    """

    _reductions = ("mean", "sum", "none", "batchmean")

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: Reduction | Literal["batchmean"] = "mean",
                 log_target: bool = False) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, log_probabilities: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of two tensors of the same shape."""
        return functional.kl_div(log_probabilities, target, None, None, self.reduction, self.log_target)


class GaussianNLLLoss(_Loss):
    """Minus the log-density of a normal distribution, see `functional.gaussian_nll_loss`.

    >>> import adjit
    >>> GaussianNLLLoss()(adjit.tensor([1.0, 2.0]), adjit.tensor([1.5, 4.0]), adjit.tensor([1.0, 4.0]))
    tensor(0.6591)
    """

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: Reduction = "mean") -> None:
        super().__init__(reduction=reduction)
        self.full = full
        self.eps = eps

    def forward(self, input: Tensor, target: Tensor, var: Tensor) -> Tensor:
        """Compute the loss of means, targets and variances, of shapes that broadcast."""
        return functional.gaussian_nll_loss(input, target, var, self.full, self.eps, self.reduction)


class PoissonNLLLoss(_Loss):
    """Minus the log-probability of counts by their (logarithmic) rates, see `functional.poisson_nll_loss`.

    >>> import adjit
    >>> PoissonNLLLoss()(adjit.tensor([0.0, 0.0]), adjit.tensor([1.0, 3.0]))
    tensor(1.)
    """

    def __init__(self, log_input: bool = True, full: bool = False, size_average: Any = None, eps: float = 1e-8, reduce: Any = None,
                 reduction: Reduction = "mean") -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of two tensors of the same shape."""
        return functional.poisson_nll_loss(log_input, target, self.log_input, self.full, None, self.eps, None, self.reduction)


class CTCLoss(_Loss):
    """Loss of labels of a sequence without their places, see `functional.ctc_loss`.

    >>> import adjit
    >>> log_probs = adjit.full((2, 1, 2), 0.5).log()
    >>> CTCLoss()(log_probs, adjit.tensor([[1]]), [2], [1])
    tensor(0.2877)
    """

    def __init__(self, blank: int = 0, reduction: Reduction = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction=reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity

    def forward(self, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any) -> Tensor:
        """Compute the loss of log-probabilities (T, N, C), labels (N, S) or one after the other, and lengths (N,)."""
        return functional.ctc_loss(log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction, self.zero_infinity)


class LinearCrossEntropyLoss(_Loss):
    """`CrossEntropyLoss` of the results of a linear layer, `linear`, see `functional.linear_cross_entropy`.

    >>> import adjit
    >>> LinearCrossEntropyLoss(3, 5)(adjit.zeros(2, 3), adjit.tensor([0, 4])).detach()
    tensor(1.6094)
    """

    weight: Tensor | None

    def __init__(self, in_features: int, num_classes: int, *, out_features: Sequence[int] = (), bias: bool = False, device: Any = None,
                 dtype: Any = None, weight: Any = None, reduction: Reduction = "mean", ignore_index: int | None = None,
                 label_smoothing: float = 0.0, options: Any = None) -> None:
        super().__init__(reduction=reduction)
        self.in_features = in_features
        self.num_classes = num_classes
        self.out_features = tuple(out_features)
        self.linear = Linear(in_features, num_classes * math.prod(self.out_features), bias, device, dtype)
        self._add_tensor("weight", weight)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of inputs (N, in_features) and labels (N, *out_features), or probabilities of classes."""
        weight, bias = self.linear.weight, self.linear.bias
        return functional.linear_cross_entropy(
            x, weight.reshape(self.num_classes, *self.out_features, self.in_features), target, weight=self.weight,
            linear_bias=None if bias is None else bias.reshape(self.num_classes, *self.out_features), reduction=self.reduction,
            ignore_index=self.ignore_index, label_smoothing=self.label_smoothing)

    def extra_repr(self) -> str:
        return (f"in_features={self.in_features}, num_classes={self.num_classes}, out_features={self.out_features}, "
                f"bias={self.linear.bias is not None}, reduction={self.reduction}, ignore_index={self.ignore_index}, "
                f"label_smoothing={self.label_smoothing}, options=None")
