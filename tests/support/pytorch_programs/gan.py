"""A DCGAN with two optimisers, as in PyTorch's tutorial; and pix2pix's switched requires_grad."""
import torch
import torch.nn as nn
import torch.optim as optim
from support.pytorch_programs import compiled, draws, filled

nz, ngf = 4, 4


def weights_init(m):
    classname = m.__class__.__name__
    if classname.find('Conv') != -1:
        nn.init.normal_(m.weight.data, 0.0, 0.02)
    elif classname.find('BatchNorm') != -1:
        nn.init.normal_(m.weight.data, 1.0, 0.02)
        nn.init.constant_(m.bias.data, 0)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(nz, ngf * 2, 4, 1, 0, bias=False), nn.BatchNorm2d(ngf * 2), nn.ReLU(True),
            nn.ConvTranspose2d(ngf * 2, 1, 4, 2, 1, bias=False), nn.Tanh())

    def forward(self, input):
        return self.main(input)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(1, ngf, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(ngf, 1, 4, 1, 0, bias=False), nn.Sigmoid())

    def forward(self, input):
        return self.main(input)


def set_requires_grad(nets, requires_grad=False):
    if not isinstance(nets, list):
        nets = [nets]
    for net in nets:
        if net is not None:
            for param in net.parameters():
                param.requires_grad = requires_grad


def main():
    netG, netD = Generator(), Discriminator()
    netG.apply(weights_init)
    netD.apply(weights_init)
    filled(netG, 1), filled(netD, 2)
    criterion = nn.BCELoss()
    real_label, fake_label = 1., 0.
    optimizerD = optim.Adam(netD.parameters(), lr=0.01, betas=(0.5, 0.999))
    optimizerG = optim.Adam(netG.parameters(), lr=0.01, betas=(0.5, 0.999))

    @compiled
    def step(real, noise):
        netD.zero_grad()
        b_size = real.size(0)
        label = torch.full((b_size,), real_label, dtype=torch.float, device=real.device)
        output = netD(real).view(-1)
        errD_real = criterion(output, label)
        errD_real.backward()
        fake = netG(noise)
        label.fill_(fake_label)
        output = netD(fake.detach()).view(-1)
        errD_fake = criterion(output, label)
        errD_fake.backward()
        errD = errD_real + errD_fake
        optimizerD.step()
        netG.zero_grad()
        label.fill_(real_label)
        output = netD(fake).view(-1)
        errG = criterion(output, label)
        errG.backward()
        D_G_z2 = output.mean()
        optimizerG.step()
        return errD, errG, D_G_z2

    @compiled
    def step_as_pix2pix(real, noise):
        fake = netG(noise)
        set_requires_grad(netD, True)
        optimizerD.zero_grad()
        loss_d = ((netD(fake.detach())) ** 2).mean() + ((netD(real) - 1) ** 2).mean()
        loss_d.backward()
        optimizerD.step()
        set_requires_grad(netD, False)
        optimizerG.zero_grad()
        loss_g = ((netD(fake) - 1) ** 2).mean()
        loss_g.backward()
        optimizerG.step()
        return loss_d, loss_g

    G_losses, D_losses, other = [], [], []
    for i in range(3):
        real, noise = torch.from_numpy(draws(i, 4, 1, 8, 8)).float(), torch.from_numpy(draws(i + 9, 4, nz, 1, 1)).float()
        errD, errG, mean = step(real, noise)
        G_losses.append(errG.item())
        D_losses.append(errD.item())
        other.append(mean.item())
    pix = [[each.item() for each in step_as_pix2pix(real, noise)] for _ in range(3)]
    return {"G": G_losses, "D": D_losses, "other": other, "pix": pix, "g": netG.state_dict(), "d": netD.state_dict()}
