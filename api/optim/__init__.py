"""Optimisers: classes that update tensors in place (`SGD`, `Adam`, ...), and their functional twins (`sgd`, `adam`, ...).

    optimizer = adjit.optim.Adam(model.parameters(), lr=1e-3)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

Names, defaults and numbers are PyTorch's (`torch.optim`). The functional ones are described in `adjit.optim.functional`.
"""

from adjit.nn.utils import clip_grad_norm_, clip_grad_value_
from adjit.optim import lr_scheduler, swa_utils
from adjit.optim.functional import (
    AdagradState,
    AdamState,
    FunctionalOptimizer,
    RmspropState,
    SgdState,
    adagrad,
    adam,
    adamw,
    rmsprop,
    sgd,
)
from adjit.optim.lbfgs import LBFGS
from adjit.optim.more_optimizers import ASGD, Adafactor, Muon, NAdam, Rprop
from adjit.optim.optimizer import Optimizer
from adjit.optim.optimizers import SGD, Adadelta, Adagrad, Adam, Adamax, AdamW, RAdam, RMSprop

__all__ = [
    "ASGD", "Adadelta", "Adafactor", "Adagrad", "AdagradState", "Adam", "AdamState", "AdamW", "Adamax", "FunctionalOptimizer", "LBFGS",
    "Muon", "NAdam", "Optimizer", "RAdam", "RMSprop", "RmspropState", "Rprop", "SGD", "SgdState", "adagrad", "adam", "adamw",
    "clip_grad_norm_", "clip_grad_value_", "lr_scheduler", "rmsprop", "sgd", "swa_utils",
]
