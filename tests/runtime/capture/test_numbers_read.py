"""Python numbers that a step reads of tensors, `loss.item()`: results of one program, where Python does not need the number itself."""

from __future__ import annotations

import io
import sys
import threading
import warnings
from collections import deque
from collections.abc import Callable
from contextlib import redirect_stdout
from types import SimpleNamespace
from typing import Any

import numpy as np
from support.each import parametrize_within

import adjit as aj
from adjit import nn
from adjit.nn import functional as F

STEPS: dict[str, tuple[Callable[[Any, Any, aj.Tensor], Any], int]] = {}
"""Steps of a model, what is around it, and a batch; and how many traces five calls take."""


def traces(count: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def keep(step: Callable[..., Any]) -> Callable[..., Any]:
        STEPS[step.__name__] = step, count
        return step
    return keep


class Meter:
    def __init__(self) -> None:
        self.value = self.total = self.average = self.count = 0

    def update(self, value: Any, n: int = 1) -> None:
        self.value = value
        self.total += value * n
        self.count += n
        self.average = self.total / self.count


def loss_of(model: Any, x: aj.Tensor) -> aj.Tensor:
    model.zero_grad()
    loss = F.mse_loss(model(x), x)
    loss.backward()
    with aj.no_grad():
        for p in model.parameters():
            p -= 0.1 * p.grad
    return loss


@traces(1)
def returned(model: Any, around: Any, x: aj.Tensor) -> Any:
    loss, correct = loss_of(model, x).item(), (model(x).argmax(1) == 0).sum().item()
    return loss, loss ** 2, correct / len(x), {"both": (-loss, 3 * correct + 1)}, max(loss, 0.5), sum([loss, loss]) / 2


@traces(1)
def kept(model: Any, around: Any, x: aj.Tensor) -> None:
    loss = loss_of(model, x)
    around.losses.append(loss.item())
    around.window.append(loss.item() * len(x))
    around.total += loss.item() * x.size(0)
    model.last = model.last * 0.9 + 0.1 * loss.item()
    around.best = min(around.best, loss.item())


@traces(1)
def smoothed(model: Any, around: Any, x: aj.Tensor) -> float:
    around.window.append(loss_of(model, x).item())
    return sum(around.window) / len(around.window)


@traces(1)
def converted(model: Any, around: Any, x: aj.Tensor) -> Any:
    loss = loss_of(model, x)
    around.losses.append(float(loss))
    around.total += int((model(x).argmax(1) == 0).sum()) / len(x)
    halves = 0.0625 * int(1000 * loss.item()), loss.tolist() * 0.0 - 0.0004
    rounded = round(loss.item(), 3), round(float(loss)), round(-float(loss), 12)
    return float(loss), {"rounded": rounded}, [round(x, 3) for x in halves], int("3")


@traces(3)      # then step by step: `float` is more than a function here
def handed_on(model: Any, around: Any, x: aj.Tensor) -> Any:
    convert = float
    return convert(loss_of(model, x))


@traces(2)      # the sum is an integer first
def metered(model: Any, around: Any, x: aj.Tensor) -> float:
    around.meter.update(loss_of(model, x).item(), x.size(0))
    return around.meter.average


@traces(1)
def of_tensors(model: Any, around: Any, x: aj.Tensor) -> Any:
    rate, count = loss_of(model, x).item(), (x > 0).sum().item()
    made = aj.tensor(rate), aj.tensor([rate, 1.0]), aj.full((2,), rate), aj.tensor(count), x.new_tensor(rate)
    return x * rate, x * count, x - count, made


@traces(2)
def decided_on(model: Any, around: Any, x: aj.Tensor) -> Any:
    loss = loss_of(model, x).item()
    if loss != loss or loss > 1e6:
        raise ValueError("diverged")
    return loss, "large" if loss > 1.0 else "small", int((x > 9).sum())     # the integer is the same in all calls


@traces(1)
def a_factor(model: Any, around: Any, x: aj.Tensor) -> Any:
    """The derivative of y * y.item() is y.item()."""
    y = model(x).square().sum()
    return aj.autograd.grad(y * y.item(), model.weight)


@traces(3)      # then step by step
def needed(model: Any, around: Any, x: aj.Tensor) -> Any:
    loss = loss_of(model, x).item()
    print(f"{loss:.4f}", loss)
    return f"{loss:.3f}"


@traces(1)
def printed(model: Any, around: Any, x: aj.Tensor) -> None:
    loss, correct = loss_of(model, x), (x > 0).sum()
    print(f"loss {loss:.4f}, {loss.item():8.3e}", loss.item(), loss, [model.bias], "of", 3, end="!\n")
    print("loss: " + f"{loss}", "{:.2f} {}".format(float(loss), correct), f"{correct.item():3d} {int(correct) / 6:.1%}", sep="|")  # noqa: UP032
    for row in model(x).detach():
        print(f"{row}", f"{row[0]:.3f}")
        row += 1.0
    print("%.4f, %5.1f%% of %d|%s" % (loss.item(), loss, correct, loss), "%d" % loss.item() + " %-9.2e|" % float(loss))     # noqa: UP031
    print("%(loss)g %(loss)+.1f %(of)i" % {"loss": loss.item(), "of": len(x)}, "%r %.0f" % (loss.item(), 2.0))     # noqa: UP031
    if correct.item() > 1:
        print(f"{correct.item()} are positive", file=sys.stdout)


@traces(3)
def printed_in_another_way(model: Any, around: Any, x: aj.Tensor) -> None:
    text = f"{loss_of(model, x):.4f}"
    print(text, f"{text:>9}", "%*.2f" % (9, float(loss_of(model, x))))      # noqa: UP031


@traces(3)      # files of the function are no place for calls
def printed_into_a_file(model: Any, around: Any, x: aj.Tensor) -> None:
    print(f"{loss_of(model, x):.4f}", file=around.file)


@traces(3)
def an_index(model: Any, around: Any, x: aj.Tensor) -> Any:
    row = x[:, 0].argmax().item()
    return around.names[row], x[row], loss_of(model, x).item()


@parametrize_within("name", [*STEPS])
def test_numbers_are_those_of_eager_steps(name: str) -> None:
    step, count = STEPS[name]
    found = []
    for compiled in (False, True):
        model = nn.Linear(2, 2)
        model.load_state_dict({"weight": np.array([[1.0, 2.0], [-1.0, 0.5]]), "bias": np.zeros(2)})
        model.last = 0.0
        around = SimpleNamespace(losses=[], window=deque([5.0, 6.0], 2), total=0.0, best=9.0, meter=Meter(), names="abc",
                                 file=io.StringIO())

        def of_batch(x: aj.Tensor, model: Any = model, around: Any = around) -> Any:
            return step(model, around, x)

        run = aj.compile(of_batch, backend="interpret") if compiled else of_batch
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()) as out:
            warnings.simplefilter("ignore")     # that some run step by step
            results = [run(aj.tensor(np.random.default_rng(seed).standard_normal((3, 2)).astype("f"))) for seed in range(5)]
        outside = {**vars(around), "meter": vars(around.meter), "window": [*around.window], "file": around.file.getvalue()}
        found.append((repr(results), repr(outside), repr(model.last), repr(model.weight), out.getvalue()))
    assert found[1] == found[0]
    assert run.cache_info().traces == count


def test_no_derivative_goes_through_a_number() -> None:
    forward = aj.compile(lambda w: w.sum() * w.sum().item(), backend="interpret")
    for start in range(4):
        w = (aj.ones(2) + start).requires_grad_()
        forward(w).backward()
        assert w.grad.tolist() == [2.0 + 2 * start] * 2
    assert forward.cache_info().traces == 1


def uses_of_classes() -> tuple[Any, ...]:
    return int.from_bytes(b"\2", "little"), float.fromhex("0x1p1"), int.__add__(1, 2), {float: 1}[float], np.zeros(2, float).dtype


def test_code_in_another_thread_has_pythons_classes() -> None:
    """While a function of its module is traced that reads numbers."""
    begun, done, found = threading.Event(), threading.Event(), []

    def beside() -> None:
        begun.wait(10)
        found.append(uses_of_classes())
        done.set()

    def step(t: aj.Tensor) -> Any:
        begun.set()
        done.wait(10)
        return t * float(t[0])

    thread = threading.Thread(target=beside)
    thread.start()
    assert aj.compile(step, backend="interpret")(aj.ones(2)).tolist() == [1.0, 1.0]
    thread.join()
    assert found == [uses_of_classes()]
