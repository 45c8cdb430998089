"""Optimisers: classes that update tensors in place (`SGD`, `Adam`, ...), and their functional twins (`sgd`, `adam`, ...).

    optimizer = adjit.optim.Adam(model.parameters(), lr=1e-3)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

Names, defaults and numbers are PyTorch's (`torch.optim`). The functional ones are described in `adjit.optim.functional`.
"""

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

__all__ = [
    "AdagradState", "AdamState", "FunctionalOptimizer", "RmspropState", "SgdState", "adagrad", "adam", "adamw", "rmsprop", "sgd",
]
