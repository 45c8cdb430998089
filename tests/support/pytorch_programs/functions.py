"""autograd.Function in both styles, and gradcheck."""
import math

import torch
from support.pytorch_programs import compiled, draws


class LegendrePolynomial3(torch.autograd.Function):
    @staticmethod
    def forward(ctx, input):
        ctx.save_for_backward(input)
        return 0.5 * (5 * input ** 3 - 3 * input)

    @staticmethod
    def backward(ctx, grad_output):
        input, = ctx.saved_tensors
        return grad_output * 1.5 * (5 * input ** 2 - 1)


class LinearFunction(torch.autograd.Function):
    @staticmethod
    def forward(input, weight, bias):
        output = input.mm(weight.t())
        if bias is not None:
            output += bias.unsqueeze(0).expand_as(output)
        return output

    @staticmethod
    def setup_context(ctx, inputs, output):
        input, weight, bias = inputs
        ctx.save_for_backward(input, weight, bias)

    @staticmethod
    def backward(ctx, grad_output):
        input, weight, bias = ctx.saved_tensors
        grad_input = grad_weight = grad_bias = None
        if ctx.needs_input_grad[0]:
            grad_input = grad_output.mm(weight)
        if ctx.needs_input_grad[1]:
            grad_weight = grad_output.t().mm(input)
        if bias is not None and ctx.needs_input_grad[2]:
            grad_bias = grad_output.sum(0)
        return grad_input, grad_weight, grad_bias


class StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale=1.0):
        ctx.scale = scale
        ctx.mark_non_differentiable()
        return torch.round(x)

    @staticmethod
    def backward(ctx, g):
        return g * ctx.scale, None


def main():
    dtype = torch.float
    device = torch.device("cpu")
    x = torch.linspace(-math.pi, math.pi, 200, device=device, dtype=dtype)
    y = torch.sin(x)
    a = torch.full((), 0.0, device=device, dtype=dtype, requires_grad=True)
    b = torch.full((), -1.0, device=device, dtype=dtype, requires_grad=True)
    c = torch.full((), 0.0, device=device, dtype=dtype, requires_grad=True)
    d = torch.full((), 0.3, device=device, dtype=dtype, requires_grad=True)
    learning_rate = 5e-6
    P3 = LegendrePolynomial3.apply

    @compiled
    def step():
        y_pred = a + b * P3(c + d * x)
        loss = (y_pred - y).pow(2).sum()
        loss.backward()
        with torch.no_grad():
            a.sub_(learning_rate * a.grad)
            b.sub_(learning_rate * b.grad)
            c.sub_(learning_rate * c.grad)
            d.sub_(learning_rate * d.grad)
            a.grad = None
            b.grad = None
            c.grad = None
            d.grad = None
        return loss

    losses = [step().item() for _ in range(5)]
    input = torch.from_numpy(draws(1, 4, 3)).requires_grad_()
    weight = torch.from_numpy(draws(2, 5, 3)).requires_grad_()
    bias = torch.from_numpy(draws(3, 5)).requires_grad_()
    checked = torch.autograd.gradcheck(LinearFunction.apply, (input, weight, bias), eps=1e-6, atol=1e-4)
    out = compiled(lambda i, w, b: StraightThrough.apply(LinearFunction.apply(i, w, b), 0.5))(input, weight, bias)
    out.sum().backward()
    return {"losses": losses, "abcd": [a, b, c, d], "checked": checked, "out": out.detach(), "grads": [input.grad, weight.grad, bias.grad]}
