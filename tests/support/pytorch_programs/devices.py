"""A script that chooses its device and precision: cuda if there is one, autocast, seeds, cuDNN's switches, threads."""
import os
import random

import numpy as np
import torch
import torch.backends.cudnn as cudnn
import torch.nn as nn
from support.pytorch_programs import compiled, draws, filled


def seed_everything(seed):
    random.seed(seed)
    os.environ.setdefault('PYTHONHASHSEED', str(seed))
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.cuda.manual_seed_all(seed)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False


def main():
    seed_everything(1)
    cudnn.benchmark = True
    if hasattr(torch.backends, "mps") and torch.backends.mps.is_available():
        device = torch.device("mps")
    else:
        device = torch.device('cuda:0' if torch.cuda.is_available() else 'cpu')
    torch.set_num_threads(torch.get_num_threads())
    torch.set_float32_matmul_precision("high")
    model = filled(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), 1).to(device)
    if torch.cuda.device_count() > 1:
        model = nn.DataParallel(model)
    use_amp = device.type == "cuda"
    scaler = torch.amp.GradScaler(device.type, enabled=use_amp)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, fused=False)
    x = torch.from_numpy(draws(1, 6, 4)).to(device, dtype=torch.float32, non_blocking=True)
    y = torch.randint(0, 2, (6,), device=device)
    y = torch.tensor([0, 1, 0, 1, 1, 0], device=y.device, dtype=y.dtype)

    @compiled
    def step(x, y):
        with torch.autocast(device_type=device.type, dtype=torch.float16, enabled=use_amp):
            loss = nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        return loss

    losses = [step(x, y).item() for _ in range(3)]
    with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
        half = model(x)
    kinds = [half.dtype == torch.bfloat16, x.device == torch.device("cpu"), x.is_cuda, next(model.parameters()).device.type == "cpu"]
    with torch.inference_mode():
        out = model(x).cpu().numpy()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
    return {"losses": losses, "kinds": kinds, "half": [round(float(v), 1) for v in half.float().flatten()], "out": out}
