"""A physics-informed net in float64: Burgers' equation, second derivatives with respect to the input."""
import numpy as np
import torch
import torch.nn as nn
from support.pytorch_programs import compiled, draws, filled

torch.set_default_dtype(torch.float64)


class DNN(torch.nn.Module):
    def __init__(self, layers):
        super().__init__()
        parts = []
        for i in range(len(layers) - 2):
            parts += [nn.Linear(layers[i], layers[i + 1]), nn.Tanh()]
        self.layers = nn.Sequential(*parts, nn.Linear(layers[-2], layers[-1]))

    def forward(self, x):
        return self.layers(x)


class PhysicsInformedNN:
    def __init__(self, X, u, layers):
        self.x = torch.tensor(X[:, 0:1], requires_grad=True)
        self.t = torch.tensor(X[:, 1:2], requires_grad=True)
        self.u = torch.tensor(u)
        self.lambda_1 = torch.nn.Parameter(torch.tensor([0.5]))
        self.lambda_2 = torch.nn.Parameter(torch.tensor([-2.0]))
        self.dnn = filled(DNN(layers), 1)
        self.dnn.register_parameter('lambda_1', self.lambda_1)
        self.dnn.register_parameter('lambda_2', self.lambda_2)
        self.optimizer = torch.optim.Adam(self.dnn.parameters(), lr=1e-2)

    def net_u(self, x, t):
        return self.dnn(torch.cat([x, t], dim=1))

    def net_f(self, x, t):
        u = self.net_u(x, t)
        u_t = torch.autograd.grad(u, t, grad_outputs=torch.ones_like(u), retain_graph=True, create_graph=True)[0]
        u_x = torch.autograd.grad(u, x, grad_outputs=torch.ones_like(u), retain_graph=True, create_graph=True)[0]
        u_xx = torch.autograd.grad(u_x, x, grad_outputs=torch.ones_like(u_x), retain_graph=True, create_graph=True)[0]
        return u_t + self.lambda_1 * u * u_x - torch.exp(self.lambda_2) * u_xx

    @compiled
    def train_step(self):
        u_pred = self.net_u(self.x, self.t)
        f_pred = self.net_f(self.x, self.t)
        loss = torch.mean((self.u - u_pred) ** 2) + torch.mean(f_pred ** 2)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss

    def predict(self, X):
        x, t = torch.tensor(X[:, 0:1], requires_grad=True), torch.tensor(X[:, 1:2], requires_grad=True)
        self.dnn.eval()
        return self.net_u(x, t).detach().cpu().numpy(), self.net_f(x, t).detach().cpu().numpy()


@compiled
def residual(model, points):
    points.requires_grad_(True)
    u = model(points).sum()
    (slope,) = torch.autograd.grad(u, points, create_graph=True)
    return slope.square().mean()


def main():
    try:
        X = draws(1, 12, 2)
        model = PhysicsInformedNN(X, np.sin(np.pi * X[:, :1]), [2, 6, 6, 1])
        losses = [model.train_step().item() for _ in range(4)]
        u, f = model.predict(X[:3])
        slope = residual(model.dnn, torch.from_numpy(draws(3, 4, 2)))
        slope.backward()
        return {"losses": losses, "u": u, "f": f, "lambdas": [model.lambda_1, model.lambda_2], "slope": slope.detach(),
                "double": model.lambda_1.dtype == torch.double, "grads": [p.grad for p in model.dnn.parameters()]}
    finally:
        torch.set_default_dtype(torch.float32)
