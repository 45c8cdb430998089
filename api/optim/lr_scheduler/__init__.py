"""Learning-rate schedules: each changes `lr` in the groups of an optimiser, when its `step()` is called.

    scheduler = adjit.optim.lr_scheduler.StepLR(optimizer, step_size=30)
    for epoch in range(90):
        train(...)              # calls optimizer.step()
        scheduler.step()

Names, arguments and numbers are PyTorch's (`torch.optim.lr_scheduler`). A schedule that is a product multiplies the rate that the group
holds, so that several can be used together.
"""

from adjit.optim.lr_scheduler.annealing import CosineAnnealingLR, CosineAnnealingWarmRestarts, OneCycleLR
from adjit.optim.lr_scheduler.base import LRScheduler
from adjit.optim.lr_scheduler.base import LRScheduler as _LRScheduler  # noqa: F401
from adjit.optim.lr_scheduler.cyclic import CyclicLR
from adjit.optim.lr_scheduler.factors import (
    ConstantLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from adjit.optim.lr_scheduler.plateau import ReduceLROnPlateau
from adjit.optim.lr_scheduler.sequential import ChainedScheduler, SequentialLR

__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR", "ExponentialLR", "LRScheduler",
    "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR", "OneCycleLR", "PolynomialLR", "ReduceLROnPlateau", "SequentialLR",
    "StepLR",
]
