"""Activations computed again in the backward pass: checkpoint and checkpoint_sequential."""
import torch
import torch.nn as nn
from support.pytorch_programs import compiled, draws, filled
from torch.utils.checkpoint import checkpoint, checkpoint_sequential


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.SiLU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        return x + self.mlp(self.norm(x))


class Net(nn.Module):
    def __init__(self, dim, depth, use_checkpoint=True):
        super().__init__()
        self.blocks = nn.ModuleList([Block(dim) for _ in range(depth)])
        self.use_checkpoint = use_checkpoint

    def forward(self, x):
        for block in self.blocks:
            if self.use_checkpoint and self.training:
                x = checkpoint(block, x, use_reentrant=False)
            else:
                x = block(x)
        return x


def main():
    model = filled(Net(6, 3), 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.from_numpy(draws(1, 5, 6)).float().requires_grad_()

    @compiled
    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    losses = [step(x).item() for _ in range(3)]
    layers = filled(nn.Sequential(*[nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in range(4)]), 2)
    out = checkpoint_sequential(layers, 2, x, use_reentrant=False)
    out.sum().backward()
    return {"losses": losses, "x": x.grad, "out": out.detach(), "weights": model.state_dict(),
            "grads": [p.grad for p in layers.parameters()]}
