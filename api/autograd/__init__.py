"""Dynamic graph of tensors: gradients as results, user-defined derivatives, anomaly detection.

>>> import adjit as aj
>>> x = aj.tensor([1.0, 2.0], requires_grad=True)
>>> grad((x * x).sum(), x)
(tensor([2., 4.]),)
"""

from adjit.autograd import functional
from adjit.eager.autograd_methods import backward, grad
from adjit.eager.gradcheck import gradcheck, gradgradcheck
from adjit.eager.modes import detect_anomaly, enable_grad, inference_mode, no_grad, set_grad_enabled
from adjit.eager.user_function import Function
from adjit.runtime.capture.autograd_functions import install

__all__ = [
    "Function", "backward", "detect_anomaly", "enable_grad", "functional", "grad", "gradcheck", "gradgradcheck", "inference_mode",
    "no_grad", "set_grad_enabled",
]

install()
