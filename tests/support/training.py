"""Training step as users write it."""

from __future__ import annotations

from typing import Any

from adjit import nn


def train_step(model: Any, optimizer: Any, x: Any, y: Any) -> Any:
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    return loss
