"""Mixed precision by PyTorch's names: `autocast`, and `GradScaler`, which scales losses so that gradients of two bytes do not vanish.

>>> import adjit as aj
>>> w = aj.tensor([2.0], requires_grad=True)
>>> optimizer, scaler = aj.optim.SGD([w], lr=0.5), GradScaler("cpu")
>>> scaler.scale((w * w).sum()).backward()
>>> scaler.step(optimizer)
>>> scaler.update()
>>> w
tensor([0.], requires_grad=True)
"""

from adjit.amp.grad_scaler import GradScaler
from adjit.eager.autocast import autocast

__all__ = ["GradScaler", "autocast"]
