"""Dynamic graph of tensors: gradients as results, user-defined derivatives, anomaly detection.

>>> import adjit as aj
>>> x = aj.tensor([1.0, 2.0], requires_grad=True)
>>> grad((x * x).sum(), x)
(tensor([2., 4.]),)
"""

from adjit.autograd import functional
from adjit.eager.autograd_methods import backward, grad
from adjit.eager.gradcheck import gradcheck, gradgradcheck
from adjit.eager.modes import detect_anomaly, enable_grad, inference_mode, no_grad, set_detect_anomaly, set_grad_enabled
from adjit.eager.tensor import Tensor, new_tensor
from adjit.eager.user_function import Function
from adjit.runtime.capture.autograd_functions import install

__all__ = [
    "Function", "Variable",
    "backward", "detect_anomaly", "enable_grad", "functional", "grad", "gradcheck", "gradgradcheck", "inference_mode",
    "no_grad", "set_detect_anomaly", "set_grad_enabled",
]

install()


def Variable(data: Tensor, requires_grad: bool = False) -> Tensor:
    """Make a leaf on the memory of a tensor: PyTorch's older name of `data.detach().requires_grad_()`.

    >>> import adjit as aj
    >>> Variable(aj.tensor([1.0]), requires_grad=True)
    tensor([1.], requires_grad=True)
    """
    made: Tensor = data.detach() if isinstance(data, Tensor) else new_tensor(data)
    made.requires_grad = requires_grad
    return made
