"""What type checkers say of tensors and of functions of theirs. Checked by `make types`, not run."""

from typing import Any, assert_type

import numpy as np

import adjit as aj
from adjit import nn, optim

t = aj.tensor([1.0, 2.0], requires_grad=True)

assert_type(t + 1.0, aj.Tensor)
assert_type(2.0 - t, aj.Tensor)
assert_type(t @ t, aj.Tensor)
assert_type(t > 0.5, aj.Tensor)
assert_type(t[0], aj.Tensor)
assert_type(t.sum(dim=0, keepdim=True), aj.Tensor)
assert_type(t.max(), aj.Tensor)
assert_type(t.max(dim=0).indices, Any)
assert_type(t.reshape(2, 1).T, aj.Tensor)
assert_type(t.size(), tuple[int, ...])
assert_type(t.size(0), int)
assert_type(t.shape, aj.Size)
assert_type(t.requires_grad, bool)
assert_type(t.grad, aj.Tensor | None)
assert_type(t.numpy(), np.ndarray[Any, Any])
assert_type(float(t.sum()), float)
assert_type(t.mul_(2.0).add_(t, alpha=0.5), aj.Tensor)
t.backward(retain_graph=True)
if t.grad_fn is not None and (accumulator := t.grad_fn.next_functions[0][0]) is not None:
    assert_type(accumulator.variable, aj.Tensor)
t.sun()                         # type: ignore[attr-defined]
t.sum(dimension=0)              # type: ignore[call-arg]
t.narrow(0, "a", 1)             # type: ignore[call-overload]

assert_type(aj.exp(t), aj.Tensor)
assert_type(aj.exp([1.0, 2.0]), aj.Tensor)
assert_type(aj.zeros(2, 3), aj.Tensor)
assert_type(aj.cat([t, t], dim=0), aj.Tensor)
assert_type(aj.concat([t, t]), aj.Tensor)
assert_type(aj.where(t > 0, t, 0.0), Any)
assert_type(aj.split(t, 1), tuple[aj.Tensor, ...])
assert_type(aj.allclose(t, t), bool)
assert_type(aj.max(t), aj.Tensor)
aj.expp(t)                      # type: ignore[attr-defined]
aj.matmul(t)                    # type: ignore[call-arg]

assert_type(aj.matmul(t, other=t), aj.Tensor)
assert_type(aj.addmm(t, mat1=t, mat2=t), aj.Tensor)
assert_type(aj.zeros(size=(2, 3)), aj.Tensor)
assert_type(t.reshape(shape=(2, 1)), aj.Tensor)
assert_type(t.scatter(0, t, value=1.0), aj.Tensor)
assert_type(t.sum(axis=0, keepdims=True), aj.Tensor)
assert_type(aj.var(t, axis=0, ddof=1), aj.Tensor)
assert_type(t.max(axis=0).values, Any)
assert_type(t.narrow(axis=0, start=0, length=1), aj.Tensor)
assert_type(aj.stack([t, t], axis=1), aj.Tensor)
aj.matmul(t, othr=t)            # type: ignore[call-arg]
t.exp(axis=0)                   # type: ignore[call-arg]

assert_type(aj.autograd.grad(t.sum(), t), tuple[aj.Tensor, ...])
assert_type(aj.autograd.grad(t.sum(), [t], allow_unused=False), tuple[aj.Tensor, ...])
assert_type(aj.autograd.grad(t.sum(), [t], allow_unused=True), tuple[aj.Tensor | None, ...])
assert_type(aj.autograd.grad(t.sum(), [t], None, None, False, True, True), tuple[aj.Tensor | None, ...])

layer = nn.Linear(2, 3)
assert_type(layer.weight, nn.Parameter)
assert_type(layer.eval(), nn.Linear)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
        self.cell = nn.LSTM(3, 3)
        self.heads = nn.ModuleList(nn.Linear(3, 1) for _ in range(2))

    def forward(self, x: aj.Tensor) -> aj.Tensor:
        rows, (hidden, _) = self.cell(self.body(x))
        assert_type(rows, aj.Tensor)
        assert_type(hidden, aj.Tensor)
        return rows


assert_type(Net()(t), aj.Tensor)
assert_type(layer(t), aj.Tensor)
assert_type(Net().body[0], nn.Module)
assert_type(Net().body[:1], nn.Sequential)
assert_type(list(Net().heads), list[nn.Module])
assert_type(nn.ParameterList([t])[0], nn.Parameter)
assert_type(aj.checkpoint(layer)(t), aj.Tensor)
layer(t).sun()                  # type: ignore[attr-defined]
optimizer = optim.Adam(layer.parameters(), lr=1e-3)
optim.Adam(layer.parameters(), lr=1e-3, fused=True)
optim.Adam(layer.parameters(), learning_rate=1e-3)      # type: ignore[call-arg]
optim.adam(lr=1e-3)
optim.adam(learning_rate=1e-3)      # type: ignore[call-arg]


def traced(x: np.ndarray[Any, np.dtype[np.float32]], y: aj.Tensor) -> None:
    """Functions of networks take arrays of NumPy and tensors, and NumPy's scalars."""
    nn.functional.relu(x)
    nn.functional.relu(input=y)
    nn.functional.relu(np.float64(1.0))
    nn.functional.cross_entropy(x, np.array([0, 1]), label_smoothing=0.1)
    nn.functional.linear(y, layer.weight, layer.bias)
    nn.functional.relu("a")                     # type: ignore[call-overload]
    nn.functional.relu(x, alpha=1.0)            # type: ignore[call-overload]
    nn.functional.layer_norm(x)                 # type: ignore[call-overload]
    aj.random.normal(aj.random.key(0), (2, 3))
    aj.random.normal(shape=(2, 3))              # type: ignore[call-overload]
    aj.linalg.solve_triangular(x, x, lower=True)
    assert_type(aj.numpy.zeros((2, 3), dtype=np.float32), np.ndarray[tuple[int, int], np.dtype[np.float32]])
    aj.numpy.sum(x, axes=0)                     # type: ignore[call-overload]
    aj.numpy.summ(x)                            # type: ignore[attr-defined]
    assert_type(aj.numpy.linalg.inv(y), aj.Tensor)
    assert_type(aj.special.gammaln(x), np.ndarray[Any, Any])
    assert_type(aj.special.gammaln(y), aj.Tensor)
    assert_type(aj.special.gammaln(2.0), Any)
    assert_type(aj.special.xlogy(2.0, y), aj.Tensor)
    aj.special.gammaln(x, ou=x)                 # type: ignore[call-overload]
    aj.special.gamaln(x)                        # type: ignore[attr-defined]
    assert_type(nn.functional.relu(x), np.ndarray[Any, Any])
    assert_type(nn.functional.relu(y), aj.Tensor)
    assert_type(nn.functional.linear(x, layer.weight, layer.bias), aj.Tensor)
    assert_type(nn.functional.mse_loss(y, x), aj.Tensor)
    assert_type(aj.linalg.solve(x, y), aj.Tensor)
    assert_type(aj.linalg.slogdet(y).logabsdet, aj.Tensor)
    assert_type(aj.random.key(0), np.uint64)
    assert_type(aj.random.normal(aj.random.key(0), (2, 3)), np.ndarray[Any, Any])
    assert_type(aj.random.normal(aj.random.key(0)), Any)
