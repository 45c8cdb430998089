"""Hooks that keep activations and gradients; Grad-CAM."""
import torch
import torch.nn as nn
from support.pytorch_programs import compiled, draws, filled


class SaveFeatures:
    def __init__(self, module):
        self.hook = module.register_forward_hook(self.hook_fn)
        self.features = None

    def hook_fn(self, module, input, output):
        self.features = output

    def close(self):
        self.hook.remove()


def main():
    model = filled(nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(3 * 16, 4)), 1)
    x = torch.from_numpy(draws(2, 2, 1, 6, 6)).float()
    activation = {}

    def get_activation(name):
        def hook(model, input, output):
            activation[name] = output.detach()
        return hook

    handles = [model[0].register_forward_hook(get_activation('conv')), model[3].register_forward_hook(get_activation('fc'))]
    infer = compiled(lambda x: model(x))
    first = infer(x)
    kept = {name: value.clone() for name, value in activation.items()}
    infer(2 * x)
    second = dict(activation)
    for handle in handles:
        handle.remove()

    gradients = []

    def backward_hook(module, grad_input, grad_output):
        gradients.append(grad_output[0].detach())

    handle = model[0].register_full_backward_hook(backward_hook)
    saver = SaveFeatures(model[0])

    @compiled
    def cam(x):
        logits = model(x)
        score = logits[:, logits.argmax(1)].sum()
        model.zero_grad()
        score.backward()
        return logits.detach()

    logits = cam(x)
    weights = gradients[-1].mean(dim=(2, 3), keepdim=True)
    heatmap = torch.relu((weights * saver.features).sum(1))
    handle.remove()
    saver.close()

    @compiled
    def hidden_gradient(x):
        h = model[0](x)
        h.retain_grad()
        model[3](model[2](model[1](h))).sum().backward()
        return h.grad

    w = torch.ones(3, requires_grad=True)
    seen = []
    w.register_hook(lambda grad: grad * 2)
    y = w * 3
    y.register_hook(lambda grad: seen.append(grad.clone()))
    y.sum().backward()
    return {"first": first.detach(), "kept": kept, "second": second, "logits": logits, "heatmap": heatmap.detach(),
            "hidden": [hidden_gradient(x), hidden_gradient(3 * x)], "w": w.grad, "seen": seen}
