"""Dynamic graph of tensors: gradients as results, user-defined derivatives, anomaly detection.

>>> import adjit as aj
>>> x = aj.tensor([1.0, 2.0], requires_grad=True)
>>> grad((x * x).sum(), x)
(tensor([2., 4.]),)
"""

from adjit.eager.autograd_methods import backward, grad
from adjit.eager.gradcheck import gradcheck
from adjit.eager.modes import detect_anomaly
from adjit.eager.user_function import Function
from adjit.runtime.capture.autograd_functions import install

__all__ = ["Function", "backward", "detect_anomaly", "grad", "gradcheck"]

install()
