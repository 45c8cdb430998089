"""A moving average of the weights, by hand and by AveragedModel."""
import copy

import torch
import torch.nn as nn
from support.pytorch_programs import compiled, draws, filled
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn


class EMA:
    def __init__(self, model, decay):
        self.decay = decay
        self.shadow = copy.deepcopy(model).eval()
        for p in self.shadow.parameters():
            p.requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        for s, p in zip(self.shadow.parameters(), model.parameters()):
            s.mul_(self.decay).add_(p, alpha=1 - self.decay)
        for s, b in zip(self.shadow.buffers(), model.buffers()):
            s.copy_(b)


def main():
    model = filled(nn.Sequential(nn.Linear(3, 5, bias=False), nn.BatchNorm1d(5), nn.ELU(), nn.Linear(5, 1)), 1)
    ema = EMA(model, 0.9)
    averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    optimizer = torch.optim.NAdam(model.parameters(), lr=0.05)
    x, y = torch.from_numpy(draws(1, 8, 3)).float(), torch.from_numpy(draws(2, 8, 1)).float()

    @compiled
    def step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.huber_loss(model(x), y)
        loss.backward()
        optimizer.step()
        ema.update(model)
        return loss

    losses = []
    for _ in range(4):
        losses.append(step(x, y).item())
        averaged.update_parameters(model)
    return {"losses": losses, "ema": ema.shadow.state_dict(), "averaged": averaged.state_dict(), "out": ema.shadow(x)}
