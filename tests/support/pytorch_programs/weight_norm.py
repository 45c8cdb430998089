"""Weight norm by hand, parametrizations, and spectral norm."""
import torch
import torch.nn as nn
import torch.nn.utils.parametrize as parametrize
from support.pytorch_programs import compiled, draws, filled
from torch.nn.utils.parametrizations import weight_norm


class Symmetric(nn.Module):
    def forward(self, X):
        return X.triu() + X.triu(1).transpose(-1, -2)


class MatrixExponential(nn.Module):
    def forward(self, X):
        return torch.matrix_exp(X)


class Skew(nn.Module):
    def forward(self, X):
        A = X.triu(1)
        return A - A.transpose(-1, -2)


class WNLinear(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.v = nn.Parameter(torch.empty(o, i))
        self.g = nn.Parameter(torch.ones(o, 1))
        self.bias = nn.Parameter(torch.zeros(o))
        nn.init.kaiming_uniform_(self.v, a=5 ** 0.5)

    def forward(self, x):
        return nn.functional.linear(x, self.g * self.v / self.v.norm(dim=1, keepdim=True), self.bias)

    def extra_repr(self):
        return f"{self.v.shape[1]} -> {self.v.shape[0]}"


def main():
    by_hand = filled(WNLinear(4, 3), 1)
    layer = weight_norm(nn.Linear(4, 3))
    filled(layer, 1)
    symmetric = nn.Linear(3, 3)
    parametrize.register_parametrization(symmetric, "weight", Symmetric())
    orthogonal = nn.Linear(3, 3, bias=False)
    parametrize.register_parametrization(orthogonal, "weight", Skew())
    parametrize.register_parametrization(orthogonal, "weight", MatrixExponential())
    filled(symmetric, 2), filled(orthogonal, 3)
    model = nn.Sequential(by_hand, nn.Tanh(), symmetric, orthogonal)
    optimizer = torch.optim.SGD([*model.parameters(), *layer.parameters()], lr=0.1)
    x = torch.from_numpy(draws(1, 5, 4)).float()

    @compiled
    def step(x):
        optimizer.zero_grad()
        loss = (model(x) - layer(x)).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    losses = [step(x).item() for _ in range(3)]
    Q = orthogonal.weight
    error = (Q.T @ Q - torch.eye(3)).abs().max().item() < 1e-5
    names = sorted(layer.state_dict())
    parametrize.remove_parametrizations(symmetric, "weight")
    return {"losses": losses, "error": error, "weights": model.state_dict(), "names": len(names), "plain": symmetric.weight,
            "repr": len(repr(by_hand))}
