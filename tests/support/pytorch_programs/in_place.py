"""Writes in place, views, no_grad, version counters."""
import torch
from support.pytorch_programs import compiled, draws


def main():
    x = torch.tensor(draws(1, 4, 5), dtype=torch.float64)
    w = torch.tensor(draws(2, 5, 3), dtype=torch.float64, requires_grad=True)

    @compiled
    def forward(x, w):
        buffer = torch.zeros(4, 3, dtype=torch.double)
        buffer[:, :2] = (x @ w)[:, :2]
        buffer[1:3].mul_(2.0).clamp_(min=-1.0)
        buffer.view(-1)[::4].add_(1)
        buffer[buffer > 1] = 0.5
        mask = buffer.lt(0)
        buffer.masked_fill_(mask, -0.1)
        return buffer.index_add_(0, torch.tensor([0, 0]), torch.ones(2, 3, dtype=torch.double))

    y = forward(x, w)
    y.pow(3).sum().backward()

    @compiled
    def power_iteration(matrix, u):
        with torch.no_grad():
            for _ in range(3):
                v = torch.nn.functional.normalize(matrix.t() @ u, dim=0)
                u.copy_(torch.nn.functional.normalize(matrix @ v, dim=0))
        return torch.dot(u, matrix @ v)

    u = torch.ones(5, dtype=torch.float64)
    sigma = power_iteration(w, u)
    failed = 0
    try:
        a = torch.ones(2, requires_grad=True)
        b = a.exp()
        b += 1
        b.sum().backward()
    except RuntimeError as error:
        failed = int("modified by an inplace operation" in str(error))
    with torch.no_grad():
        w.grad.zero_()
        w += 1
        w[0] = 0
    clipped = torch.empty_like(x).copy_(x).clamp_(-0.5, 0.5)
    out = torch.where(x > 0, x, torch.tensor(0.0, dtype=x.dtype))
    x[x < 0] = 0
    x[torch.isnan(x)] = 0.0
    flat = x.reshape(-1)
    flat[flat.nonzero(as_tuple=True)[0][:2]] = 9.0
    selected = torch.masked_select(x, x > 1)
    return {"y": y, "grad": w.grad, "sigma": sigma, "u": u, "w": w, "failed": failed, "clipped": clipped, "out": out, "x": x,
            "selected": selected, "version": w._version > 0}
