"""RealNVP with couplings and masks as buffers; a diffusion model with its schedule of noise."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from support.pytorch_programs import compiled, draws, filled


class RealNVP(nn.Module):
    def __init__(self, masks, hidden):
        super().__init__()
        self.register_buffer("mask", masks)
        self.s = nn.ModuleList([nn.Sequential(nn.Linear(2, hidden), nn.LeakyReLU(), nn.Linear(hidden, 2), nn.Tanh()) for _ in masks])
        self.t = nn.ModuleList([nn.Sequential(nn.Linear(2, hidden), nn.LeakyReLU(), nn.Linear(hidden, 2)) for _ in masks])
        self.prior = torch.distributions.MultivariateNormal(torch.zeros(2), torch.eye(2))

    def f(self, x):
        log_det_J, z = x.new_zeros(x.shape[0]), x
        for i in reversed(range(len(self.t))):
            z_ = self.mask[i] * z
            s = self.s[i](z_) * (1 - self.mask[i])
            t = self.t[i](z_) * (1 - self.mask[i])
            z = (1 - self.mask[i]) * (z - t) * torch.exp(-s) + z_
            log_det_J -= s.sum(dim=1)
        return z, log_det_J

    def log_prob(self, x):
        z, logp = self.f(x)
        return self.prior.log_prob(z) + logp


def cosine_beta_schedule(timesteps, s=0.008):
    steps = timesteps + 1
    x = torch.linspace(0, timesteps, steps)
    alphas_cumprod = torch.cos(((x / timesteps) + s) / (1 + s) * torch.pi * 0.5) ** 2
    alphas_cumprod = alphas_cumprod / alphas_cumprod[0]
    betas = 1 - (alphas_cumprod[1:] / alphas_cumprod[:-1])
    return torch.clip(betas, 0.0001, 0.9999)


def extract(a, t, x_shape):
    batch_size = t.shape[0]
    out = a.gather(-1, t.cpu())
    return out.reshape(batch_size, *((1,) * (len(x_shape) - 1))).to(t.device)


class SinusoidalPositionEmbeddings(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, time):
        half_dim = self.dim // 2
        embeddings = torch.log(torch.tensor(10000.0)) / (half_dim - 1)
        embeddings = torch.exp(torch.arange(half_dim, device=time.device) * -embeddings)
        embeddings = time[:, None] * embeddings[None, :]
        return torch.cat((embeddings.sin(), embeddings.cos()), dim=-1)


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.time = nn.Sequential(SinusoidalPositionEmbeddings(8), nn.Linear(8, 8), nn.SiLU())
        self.inp, self.out = nn.Linear(2, 8), nn.Linear(8, 2)

    def forward(self, x, t):
        return self.out(F.silu(self.inp(x) + self.time(t)))


def main():
    masks = torch.tensor([[0, 1], [1, 0]] * 2, dtype=torch.float32)
    flow = filled(RealNVP(masks, 6), 1)
    optimizer = torch.optim.Adam([p for p in flow.parameters() if p.requires_grad], lr=1e-2)

    @compiled
    def flow_step(x):
        loss = -flow.log_prob(x).mean()
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        optimizer.step()
        return loss

    x = torch.from_numpy(draws(1, 10, 2)).to(torch.float32)
    losses = [flow_step(x).item() for _ in range(3)]
    betas = cosine_beta_schedule(10)
    alphas_cumprod = torch.cumprod(1. - betas, axis=0)
    alphas_cumprod_prev = F.pad(alphas_cumprod[:-1], (1, 0), value=1.0)
    sqrt_alphas_cumprod, sqrt_one_minus = torch.sqrt(alphas_cumprod), torch.sqrt(1. - alphas_cumprod)
    posterior_variance = betas * (1. - alphas_cumprod_prev) / (1. - alphas_cumprod)
    model = filled(Denoiser(), 2)
    adam = torch.optim.Adam(model.parameters(), lr=1e-2)

    @compiled
    def diffusion_step(x_start, t, noise):
        x_noisy = extract(sqrt_alphas_cumprod, t, x_start.shape) * x_start + extract(sqrt_one_minus, t, x_start.shape) * noise
        loss = F.smooth_l1_loss(noise, model(x_noisy, t))
        adam.zero_grad()
        loss.backward()
        adam.step()
        return loss

    for i in range(3):
        losses.append(diffusion_step(x, (torch.arange(10) * (i + 3)) % 10, torch.from_numpy(draws(i, 10, 2)).float()).item())

    @torch.no_grad()
    def p_sample(x, t_index):
        t = torch.full((10,), t_index, dtype=torch.long)
        mean = extract(torch.sqrt(1.0 / (1 - betas)), t, x.shape) * (
            x - extract(betas, t, x.shape) * model(x, t) / extract(sqrt_one_minus, t, x.shape))
        if t_index == 0:
            return mean
        return mean + torch.sqrt(extract(posterior_variance, t, x.shape)) * 0.1

    img = x
    for i in reversed(range(0, 10)):
        img = p_sample(img, i)
    return {"losses": losses, "betas": betas, "img": img, "flow": flow.state_dict(), "model": model.state_dict()}
