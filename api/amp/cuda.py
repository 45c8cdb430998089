"""`autocast` and `GradScaler` of `cuda.amp`, whose device is the card: their arguments are PyTorch's, without a device.

>>> import adjit as aj
>>> with aj.cuda.amp.autocast():
...     (aj.ones(2, 2) @ aj.ones(2, 2)).dtype       # of a tensor on the CPU
dtype('float32')
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adjit.amp.grad_scaler import GradScaler as _GradScaler
from adjit.eager.autocast import autocast as _autocast

__all__ = ["GradScaler", "autocast"]


class autocast(_autocast):
    """`adjit.autocast("cuda")`.

    >>> isinstance(autocast(), _autocast)
    True
    """

    def __init__(self, enabled: bool = True, dtype: Any = np.float16, cache_enabled: bool = True):
        super().__init__("cuda", dtype, enabled, cache_enabled)


class GradScaler(_GradScaler):
    """`adjit.amp.GradScaler("cuda")`: not enabled where there is no card.

    >>> GradScaler(enabled=False).is_enabled()
    False
    """

    def __init__(self, init_scale: float = 65536.0, growth_factor: float = 2.0, backoff_factor: float = 0.5, growth_interval: int = 2000,
                 enabled: bool = True):
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
