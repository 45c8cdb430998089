"""L-BFGS: style transfer of a small picture, and a fit."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from support.pytorch_programs import compiled, draws, filled


def gram_matrix(input):
    a, b, c, d = input.size()
    features = input.view(a * b, c * d)
    G = torch.mm(features, features.t())
    return G.div(a * b * c * d)


class StyleLoss(nn.Module):
    def __init__(self, target_feature):
        super().__init__()
        self.target = gram_matrix(target_feature).detach()

    def forward(self, input):
        G = gram_matrix(input)
        self.loss = F.mse_loss(G, self.target)
        return input


class ContentLoss(nn.Module):
    def __init__(self, target):
        super().__init__()
        self.target = target.detach()

    def forward(self, input):
        self.loss = F.mse_loss(input, self.target)
        return input


def main():
    cnn = filled(nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.Conv2d(3, 3, 3)), 1).eval()
    content, style = torch.from_numpy(draws(1, 1, 1, 6, 6)).float(), torch.from_numpy(draws(2, 1, 1, 6, 6)).float()
    model = nn.Sequential()
    content_losses, style_losses = [], []
    i = 0
    for layer in cnn.children():
        if isinstance(layer, nn.Conv2d):
            i += 1
            name = f'conv_{i}'
        elif isinstance(layer, nn.ReLU):
            name = f'relu_{i}'
            layer = nn.ReLU(inplace=False)
        model.add_module(name, layer)
        if name == 'conv_1':
            style_loss = StyleLoss(model(style).detach())
            model.add_module(f"style_loss_{i}", style_loss)
            style_losses.append(style_loss)
        if name == 'conv_2':
            content_loss = ContentLoss(model(content).detach())
            model.add_module(f"content_loss_{i}", content_loss)
            content_losses.append(content_loss)
    input_img = content.clone()
    input_img.requires_grad_(True)
    model.eval()
    model.requires_grad_(False)
    optimizer = torch.optim.LBFGS([input_img])
    run, record = [0], []
    while run[0] <= 20:
        def closure():
            with torch.no_grad():
                input_img.clamp_(-2, 2)
            optimizer.zero_grad()
            model(input_img)
            style_score, content_score = 0, 0
            for sl in style_losses:
                style_score += sl.loss
            for cl in content_losses:
                content_score += cl.loss
            loss = 100 * style_score + content_score
            loss.backward()
            run[0] += 1
            record.append(loss.item())
            return loss
        optimizer.step(closure)
    w = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    a, b = torch.from_numpy(draws(3, 8, 3)), torch.from_numpy(draws(4, 8))
    fit = torch.optim.LBFGS([w], lr=1, max_iter=20, line_search_fn="strong_wolfe")
    value_and_gradient = compiled(lambda: torch.logsumexp((a @ w - b).square(), 0))

    def fit_closure():
        fit.zero_grad()
        loss = value_and_gradient()
        loss.backward()
        return loss

    loss = fit.step(fit_closure)
    return {"record": record[:10], "loss": loss.item(), "w": w}
