"""A variational autoencoder, after the example of PyTorch."""
import torch
from support.pytorch_programs import compiled, draws, filled
from torch import nn, optim
from torch.nn import functional as F


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(20, 16)
        self.fc21 = nn.Linear(16, 3)
        self.fc22 = nn.Linear(16, 3)
        self.fc3 = nn.Linear(3, 16)
        self.fc4 = nn.Linear(16, 20)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar, eps):
        std = torch.exp(0.5 * logvar)
        return mu + eps * std

    def decode(self, z):
        h3 = F.relu(self.fc3(z))
        return torch.sigmoid(self.fc4(h3))

    def forward(self, x, eps):
        mu, logvar = self.encode(x.view(-1, 20))
        z = self.reparameterize(mu, logvar, eps)
        return self.decode(z), mu, logvar


def loss_function(recon_x, x, mu, logvar):
    BCE = F.binary_cross_entropy(recon_x, x.view(-1, 20), reduction='sum')
    KLD = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return BCE + KLD


def main():
    model = filled(VAE(), 5)
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    data = torch.sigmoid(torch.tensor(draws(8, 12, 4, 5)).float())

    @compiled
    def step(data, eps):
        optimizer.zero_grad()
        recon_batch, mu, logvar = model(data, eps)
        loss = loss_function(recon_batch, data, mu, logvar)
        loss.backward()
        optimizer.step()
        return loss

    train_loss, losses = 0, []
    for i in range(4):
        loss = step(data, torch.from_numpy(draws(i, 12, 3)).float())
        train_loss += loss.item()
        losses.append(loss.item() / len(data))
    with torch.no_grad():
        sample = model.decode(torch.from_numpy(draws(20, 4, 3)).float())
    return {"losses": losses, "train": train_loss, "sample": sample, "weights": model.state_dict()}
