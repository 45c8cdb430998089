"""`adjit.utils.checkpoint`: the same numbers and gradients as without, with less saved, and with dropout."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit.errors import ArgumentError
from adjit.utils.checkpoint import checkpoint, checkpoint_sequential

nn = aj.nn


def model() -> Any:
    aj.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 1))


def gradients(run: Any, net: Any) -> list[np.ndarray]:
    aj.manual_seed(1)
    net.zero_grad()
    loss = run(aj.linspace(-1.0, 1.0, 12).reshape(3, 4))
    loss.backward()
    return [loss.detach().numpy(), *(parameter.grad.numpy().copy() for parameter in net.parameters())]


def close(some: list[np.ndarray], others: list[np.ndarray]) -> None:
    for one, other in zip(some, others, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("reentrant", [True, False, None])
def test_the_same_gradients(reentrant: bool | None) -> None:
    net = model()

    def step(x: Any) -> Any:
        return net[3:](checkpoint(net[:3], x, use_reentrant=reentrant)).sum()

    expected = gradients(lambda x: net(x).sum(), net)
    for run in (step, aj.compile(step), lambda x: checkpoint_sequential(net, 2, x).sum(),
                aj.compile(lambda x: checkpoint_sequential(net, 3, x).sum())):
        close(gradients(run, net), expected)


def test_dropout_is_recomputed_with_the_same_numbers() -> None:
    net, dropout = model(), nn.Dropout(0.5)

    def step(x: Any) -> Any:
        hidden = checkpoint(lambda x: dropout(net[:2](dropout(x))), x, use_reentrant=False)
        return (net[2:](hidden) ** 2).sum()

    compiled = aj.compile(step)
    eager = gradients(step, net)
    close(gradients(compiled, net), eager)
    aj.manual_seed(1)
    first, second = (compiled(aj.ones(3, 4)).item() for _ in range(2))
    assert first != second


def test_a_compiled_forward_half_saves_the_arguments_only() -> None:
    def block(x: Any) -> Any:
        for _ in range(4):
            x = (x * x).sin()
        return x

    def saved(run: Any) -> tuple[int, np.ndarray]:
        x = aj.linspace(0.1, 1.0, 50).requires_grad_()
        loss = aj.compile(lambda x: run(x).sum())(x)
        size = sum(tensor.numpy(force=True).nbytes for tensor in loss.grad_fn.saved_tensors)
        loss.backward()
        return size, x.grad.numpy()

    (most, expected), (least, found) = saved(block), saved(lambda x: checkpoint(block, x))
    assert (most, least) == (800, 200)
    close([found], [expected])


def test_numbers_of_segments() -> None:
    for segments in (0, 3):
        with pytest.raises(ArgumentError, match=f"{segments} segments of 2 functions"):
            checkpoint_sequential([aj.exp, aj.exp], segments, aj.ones(1))
