"""A Gaussian process in float64: Cholesky, solves, the logarithm of the determinant, SVD."""
import math

import torch
from support.pytorch_programs import compiled, draws


class GP(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.log_lengthscale = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
        self.log_noise = torch.nn.Parameter(torch.tensor(-2.0, dtype=torch.float64))

    def kernel(self, a, b):
        return torch.exp(-0.5 * torch.cdist(a, b).pow(2) / self.log_lengthscale.exp() ** 2)

    def covariance(self, x):
        return self.kernel(x, x) + (self.log_noise.exp() + 1e-6) * torch.eye(x.shape[0], dtype=x.dtype)

    def neg_log_likelihood(self, x, y):
        K = self.covariance(x)
        L = torch.linalg.cholesky(K)
        alpha = torch.cholesky_solve(y.unsqueeze(1), L).squeeze(1)
        return 0.5 * y @ alpha + torch.log(torch.diagonal(L)).sum() + 0.5 * len(x) * math.log(2 * math.pi)

    def by_logdet(self, x, y):
        K = self.covariance(x)
        sign, logabsdet = torch.linalg.slogdet(K)
        return 0.5 * y @ torch.linalg.solve(K, y) + 0.5 * torch.logdet(K) + 0.0 * logabsdet


def main():
    x, y = torch.from_numpy(draws(1, 10, 2)), torch.from_numpy(draws(2, 10))
    model = GP()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)

    @compiled
    def step(x, y):
        optimizer.zero_grad()
        loss = model.neg_log_likelihood(x, y)
        loss.backward()
        optimizer.step()
        return loss

    losses = [step(x, y).item() for _ in range(3)]
    model.zero_grad()
    compiled(model.by_logdet)(x, y).backward()
    grads = [p.grad.clone() for p in model.parameters()]
    with torch.no_grad():
        Ks = model.kernel(x, x[:3] + 0.1)
        L = torch.linalg.cholesky(model.covariance(x))
        v = torch.linalg.solve_triangular(L, Ks, upper=False)
        variance = 1 - (v ** 2).sum(0)
        mean = Ks.T @ torch.cholesky_solve(y[:, None], L)
        U, S, Vh = torch.linalg.svd(Ks, full_matrices=False)
        rebuilt = U @ torch.diag(S) @ Vh
        least = torch.linalg.lstsq(Ks, y[:, None]).solution
        values, vectors = torch.linalg.eigh(model.covariance(x))
    failed = 0
    try:
        torch.linalg.cholesky(-torch.eye(2))
    except RuntimeError:
        failed = 1
    return {"losses": losses, "grads": grads, "variance": variance, "mean": mean, "S": S, "rebuilt": rebuilt, "least": least,
            "values": values, "failed": failed, "logdet": torch.logdet(model.covariance(x)).detach()}
