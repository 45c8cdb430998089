"""Checkpoints written, read, and training resumed."""
import os
import tempfile

import torch
import torch.nn as nn
from support.pytorch_programs import compiled, draws, filled


def make(seed):
    model = filled(nn.Sequential(nn.Linear(4, 8, bias=False), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)), seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)
    return model, optimizer, scheduler


def make_step(model, optimizer, scheduler):
    @compiled
    def step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss
    return step


def main():
    device = torch.device("cpu")
    x, y = torch.from_numpy(draws(1, 6, 4)).float(), torch.tensor([0, 1, 1, 0, 1, 0])
    model, optimizer, scheduler = make(1)
    step = make_step(model, optimizer, scheduler)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "checkpoint.pt")
        best = float("inf")
        losses = []
        for epoch in range(3):
            loss = step(x, y).item()
            scheduler.step()
            losses.append(loss)
            if loss < best:
                best = loss
                torch.save({'epoch': epoch, 'model_state_dict': model.state_dict(), 'optimizer_state_dict': optimizer.state_dict(),
                            'scheduler': scheduler.state_dict(), 'loss': loss}, path)
        other, other_optimizer, other_scheduler = make(2)
        checkpoint = torch.load(path, map_location=device, weights_only=True)
        print(other.load_state_dict(checkpoint['model_state_dict']))
        other_optimizer.load_state_dict(checkpoint['optimizer_state_dict'])
        other_scheduler.load_state_dict(checkpoint['scheduler'])
        torch.save(model.state_dict(), os.path.join(folder, "weights.pth"))
        state = torch.load(os.path.join(folder, "weights.pth"), weights_only=True)
        missing, unexpected = nn.Sequential(nn.Linear(4, 8, bias=False), nn.Linear(1, 1)).load_state_dict(
            {k: v for k, v in state.items() if k.startswith("0.")}, strict=False)
    resumed = make_step(other, other_optimizer, other_scheduler)
    again = []
    for step_function, schedule in ((step, scheduler), (resumed, other_scheduler)):
        for _ in range(2):
            again.append(step_function(x, y).item())
            schedule.step()
    return {"losses": losses, "again": again, "epoch": checkpoint['epoch'], "missing": len(missing), "unexpected": len(unexpected),
            "state": other.state_dict(), "lr": other_scheduler.get_last_lr()}
