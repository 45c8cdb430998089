"""WGAN with a gradient penalty: derivatives of derivatives in the step."""
import torch
import torch.autograd as autograd
import torch.nn as nn
from support.pytorch_programs import compiled, draws, filled

LAMBDA = 10


def calc_gradient_penalty(netD, real_data, fake_data, alpha):
    alpha = alpha.expand(real_data.size())
    interpolates = alpha * real_data + ((1 - alpha) * fake_data)
    interpolates = autograd.Variable(interpolates, requires_grad=True)
    disc_interpolates = netD(interpolates)
    gradients = autograd.grad(outputs=disc_interpolates, inputs=interpolates, grad_outputs=torch.ones(disc_interpolates.size()),
                              create_graph=True, retain_graph=True, only_inputs=True)[0]
    gradient_penalty = ((gradients.norm(2, dim=1) - 1) ** 2).mean() * LAMBDA
    return gradient_penalty


def main():
    netG = filled(nn.Sequential(nn.Linear(2, 8), nn.ReLU(True), nn.Linear(8, 2)), 1)
    netD = filled(nn.Sequential(nn.Linear(2, 8), nn.Softplus(), nn.Linear(8, 1)), 2)
    optimizerD = torch.optim.Adam(netD.parameters(), lr=1e-2, betas=(0.5, 0.9))
    optimizerG = torch.optim.Adam(netG.parameters(), lr=1e-2, betas=(0.5, 0.9))

    @compiled
    def critic(real, noise, alpha):
        for p in netD.parameters():
            p.requires_grad = True
        netD.zero_grad()
        with torch.no_grad():
            fake = netG(noise)
        D_real = netD(real).mean()
        D_fake = netD(fake).mean()
        penalty = calc_gradient_penalty(netD, real.data, fake.data, alpha)
        D_cost = D_fake - D_real + penalty
        D_cost.backward()
        optimizerD.step()
        return D_cost, (D_real - D_fake).detach()

    @compiled
    def generator(noise):
        for p in netD.parameters():
            p.requires_grad = False
        netG.zero_grad()
        G_cost = -netD(netG(noise)).mean()
        G_cost.backward()
        optimizerG.step()
        return G_cost

    record = []
    for i in range(3):
        for k in range(2):
            real, noise = torch.Tensor(draws(10 * i + k, 6, 2)), torch.Tensor(draws(10 * i + k + 5, 6, 2))
            D_cost, wasserstein = critic(real, noise, torch.sigmoid(torch.Tensor(draws(k, 6, 1))))
            record += [D_cost.item(), wasserstein.item()]
        record.append(generator(noise).item())
    return {"record": record, "D": netD.state_dict(), "G": netG.state_dict()}
