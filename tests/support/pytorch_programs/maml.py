"""Meta-learning: gradients through steps of gradient descent, with functional_call and vmap."""
import torch
import torch.nn as nn
from support.pytorch_programs import compiled, draws, filled
from torch.func import functional_call, grad, vmap


def main():
    model = filled(nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1)), 1)
    meta = torch.optim.Adam(model.parameters(), lr=1e-2)
    inner_lr = 0.1

    def loss_on(params, x, y):
        return nn.functional.mse_loss(functional_call(model, params, (x,)), y)

    @compiled
    def meta_step(xs, ys, xq, yq):
        meta.zero_grad()
        outer = 0.0
        for task in range(3):
            params = dict(model.named_parameters())
            for _ in range(2):
                loss = loss_on(params, xs[task], ys[task])
                grads = torch.autograd.grad(loss, params.values(), create_graph=True)
                params = {name: p - inner_lr * g for (name, p), g in zip(params.items(), grads)}
            outer = outer + loss_on(params, xq[task], yq[task])
        outer.backward()
        meta.step()
        return outer / 3

    losses = []
    for i in range(3):
        xs, xq = torch.from_numpy(draws(i, 3, 5, 1)).float(), torch.from_numpy(draws(i + 50, 3, 5, 1)).float()
        losses.append(meta_step(xs, torch.sin(xs), xq, torch.sin(xq)).item())

    params = {k: v.detach() for k, v in model.named_parameters()}
    buffers = {k: v.detach() for k, v in model.named_buffers()}

    def compute_loss(params, buffers, sample, target):
        predictions = functional_call(model, (params, buffers), (sample.unsqueeze(0),))
        return nn.functional.mse_loss(predictions, target.unsqueeze(0))

    per_sample = vmap(grad(compute_loss), in_dims=(None, None, 0, 0))(params, buffers, xs[0], torch.sin(xs[0]))
    adapted = vmap(lambda x, y: grad(loss_on)(params, x, y))(xs, torch.sin(xs))
    jacobian = torch.func.jacrev(lambda x: functional_call(model, params, (x,)))(xs[0])
    return {"losses": losses, "weights": model.state_dict(), "per_sample": per_sample, "adapted": adapted, "jacobian": jacobian}
