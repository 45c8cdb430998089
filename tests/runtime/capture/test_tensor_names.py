"""The parameters of captured functions are named after where their tensors are found."""

from __future__ import annotations

from typing import Any

import numpy as np

import adjit as aj
from adjit import nn


def train_step(model: Any, optimizer: Any, x: Any) -> Any:
    optimizer.zero_grad(set_to_none=False)
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss


def test_names_of_a_training_step() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.5), nn.BatchNorm1d(2))
    optimizer = aj.optim.Adam(model.parameters(), lr=0.1)
    scale = aj.tensor([2.0])
    step = aj.compile(lambda model, optimizer, x: train_step(model, optimizer, x * scale))
    x = aj.tensor(np.ones((4, 3), np.float32))
    train_step(model, optimizer, x)
    step(model, optimizer, x)
    head = step.ir("traced").partition("{\n")[0]
    for name in ("x", "model.0.weight", "model.2.bias", "model.2.running_mean", "scale", "lr", "generator.counter",
                 "optimizer.state.model.0.weight.exp_avg", "optimizer.state.model.2.bias.step"):
        assert f"%{name}: " in head, name
    assert "%model.0.weight: " in step.ir("planned")


def test_names_of_a_compiled_module() -> None:
    model = nn.Sequential(nn.Linear(3, 2))
    forward = aj.compile(model)
    forward(aj.tensor(np.ones((4, 3), np.float32)))
    assert "%self.0.weight: f32[2,3]" in forward.ir("traced")
    assert "(%x: f32[4,3]" in forward.ir("traced")
