"""Layers in front of a batch normalisation, with its running statistics in their weights: for inference, as in `torch.nn.utils.fusion`."""

from __future__ import annotations

import copy
from typing import Any

from adjit.eager.modes import no_grad
from adjit.nn.parameter import Parameter


def fuse_conv_bn_weights(conv_w: Any, conv_b: Any, bn_rm: Any, bn_rv: Any, bn_eps: float, bn_w: Any, bn_b: Any,
                         transpose: bool = False) -> tuple[Parameter, Parameter]:
    """Return the weight and the bias of a convolution that does what a convolution and a batch normalisation behind it do.

    >>> import adjit as aj
    >>> weight, bias = fuse_conv_bn_weights(aj.ones(1, 1, 2), None, aj.ones(1), aj.ones(1), 0.0, None, None)
    >>> weight.tolist(), bias.tolist()
    ([[[1.0, 1.0]]], [-1.0])
    """
    with no_grad():
        scale = (bn_rv + bn_eps).rsqrt() * (1.0 if bn_w is None else bn_w)
        sizes = [1] * conv_w.ndim
        sizes[1 if transpose else 0] = -1
        bias = (0.0 if conv_b is None else conv_b) - bn_rm
        return (Parameter((conv_w * scale.reshape(sizes)).to(conv_w.dtype), conv_w.requires_grad),
                Parameter((bias * scale + (0.0 if bn_b is None else bn_b)).to(conv_w.dtype), conv_w.requires_grad))


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """Return a copy of a convolution that does what it and a batch normalisation behind it do in inference.

    Raises `ValueError` for modules that are in training.

    >>> from adjit import nn
    >>> fuse_conv_bn_eval(nn.Conv2d(1, 2, 3).eval(), nn.BatchNorm2d(2).eval())
    Conv2d(1, 2, kernel_size=(3, 3), stride=(1, 1))
    """
    if conv.training or bn.training:
        raise ValueError("fusion is for inference: call eval() of both modules before")
    fused = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias,
                                                    transpose)
    return fused


def fuse_linear_bn_weights(linear_w: Any, linear_b: Any, bn_rm: Any, bn_rv: Any, bn_eps: float, bn_w: Any,
                           bn_b: Any) -> tuple[Parameter, Parameter]:
    """As `fuse_conv_bn_weights`, of a linear layer.

    >>> import adjit as aj
    >>> fuse_linear_bn_weights(aj.ones(1, 2), None, aj.ones(1), aj.ones(1), 0.0, None, None)[1].tolist()
    [-1.0]
    """
    return fuse_conv_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """As `fuse_conv_bn_eval`, of a linear layer. Raises `ValueError` for modules that are in training.

    >>> from adjit import nn
    >>> fuse_linear_bn_eval(nn.Linear(3, 2).eval(), nn.BatchNorm1d(2).eval())
    Linear(in_features=3, out_features=2, bias=True)
    """
    return fuse_conv_bn_eval(linear, bn)
