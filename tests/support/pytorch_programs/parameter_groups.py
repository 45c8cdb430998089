"""Groups of parameters, AdamW, schedules after each other, clipping."""
import torch
import torch.nn as nn
from support.pytorch_programs import compiled, draws, filled
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, LinearLR, SequentialLR


def get_param_groups(model, weight_decay):
    decay, no_decay = [], []
    for name, param in model.named_parameters():
        if not param.requires_grad:
            continue
        if param.ndim <= 1 or name.endswith(".bias"):
            no_decay.append(param)
        else:
            decay.append(param)
    return [{"params": decay, "weight_decay": weight_decay}, {"params": no_decay, "weight_decay": 0.0, "lr": 2e-3}]


def main():
    model = filled(nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 3)), 3)
    optimizer = torch.optim.AdamW(get_param_groups(model, 0.1), lr=1e-2, betas=(0.9, 0.98), eps=1e-9, amsgrad=True)
    warmup = LinearLR(optimizer, start_factor=0.1, total_iters=3)
    cosine = CosineAnnealingLR(optimizer, T_max=5, eta_min=1e-5)
    scheduler = SequentialLR(optimizer, schedulers=[warmup, cosine], milestones=[3])
    x, y = torch.from_numpy(draws(4, 10, 6)).float(), torch.from_numpy(draws(5, 10, 3)).float()

    @compiled
    def step(x, y):
        loss = nn.functional.smooth_l1_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.5)
        optimizer.step()
        return loss, norm

    losses, norms, lrs = [], [], []
    for _ in range(7):
        loss, norm = step(x, y)
        scheduler.step()
        losses.append(float(loss))
        norms.append(float(norm))
        lrs.append([group["lr"] for group in optimizer.param_groups] + scheduler.get_last_lr())
    other = torch.optim.SGD(model.parameters(), lr=1.0)
    noam = LambdaLR(other, lr_lambda=lambda step: min((step + 1) ** -0.5, (step + 1) * 4 ** -1.5))
    for _ in range(6):
        other.step()
        noam.step()
        lrs.append(noam.get_last_lr())
    count = sum(p.numel() for p in model.parameters())
    return {"losses": losses, "norms": norms, "lrs": lrs, "weights": model.state_dict(), "count": count}
