"""PyTorch under `torch.compile`: the losses of `with_torch.py` without graph breaks and with static shapes."""

from __future__ import annotations

from functools import partial

import torch
import with_torch
from tasks import Library


def library() -> Library:
    return with_torch.library(partial(torch.compile, fullgraph=True, dynamic=False))
