"""The dynamic graph of tensors: gradients as results, anomaly detection.

>>> import adjit as aj
>>> x = aj.tensor([1.0, 2.0], requires_grad=True)
>>> grad((x * x).sum(), x)
(tensor([2., 4.]),)
"""

from adjit.eager.autograd_methods import backward, grad
from adjit.eager.modes import detect_anomaly

__all__ = ["backward", "detect_anomaly", "grad"]
