"""Random steps that read and set all kinds of attributes: compiled, they do what they do eagerly, or are refused."""

from __future__ import annotations

import linecache
import random
from types import SimpleNamespace
from typing import Any

import numpy as np
from support.each import for_each

import adjit as aj
from adjit import nn

STATEMENTS = """
s.a = s.a * 0.5 + h
s.b = s.a
s.a, s.b = s.b, s.a
s.a = s.a.clone()
s.b = h[:]
s.n += 1
s.f *= 0.9
s.flag = not s.flag
s.none = h
s.none = None
s.none = [h, s.n]
s.d['x'] = s.d['x'] + h
s.d['k'] += 2
s.d['new'] = h.detach()
s.t = (s.t[0] * 0.9, s.t[1] + 1)
s.train()
s.eval()
s.a.mul_(0.9)
s.b.add_(h.detach())
s.a.copy_(s.b)
s.l.weight.requires_grad_(False)
s.l.weight.requires_grad_(True)
log.append(h.detach())
o.h = h.detach()
box['h'] = h.sum()
h = h + s.n
h = h * s.f
h = h + s.a
h = h - s.b
h = h * (2.0 if s.flag else 1.0)
h = h + (s.none if isinstance(s.none, aj.Tensor) else 0.0)
h = h + (s.none[0] if isinstance(s.none, list) else 0.0)
h = h + s.d['x'] * s.d['k'] + s.t[0] * s.t[1]
if s.n % 2 == 0: h = h * 1.1
h = s.l(h)
h = s.bn(h.reshape(1, 3).repeat(2, 1) * aj.tensor([[1.0], [2.0]]))[0]
h = h[h > -100.0]
""".strip().splitlines()
BACKWARD = ["s.zero_grad()", "if h.requires_grad: h.tanh().sum().backward()", "h = h.detach()"]


class State(nn.Module):
    """Attributes of all kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.l, self.bn = nn.Linear(3, 3), nn.BatchNorm1d(3)
        self.a, self.b = aj.ones(3), aj.zeros(3)
        self.n, self.f, self.flag, self.none = 0, 1.5, False, None
        self.d: dict[str, Any] = {"x": aj.ones(3), "k": 1}
        self.t = aj.ones(3), 2


def contents(value: Any) -> Any:
    """Numbers and structure of what is held."""
    if isinstance(value, aj.Tensor):
        return value.detach().numpy()
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *map(contents, value)]
    if isinstance(value, dict):
        return {key: contents(item) for key, item in value.items()}
    if isinstance(value, nn.Module):
        return {key: contents(item) for key, item in vars(value).items() if not key.startswith("_")}
    return value if isinstance(value, (bool, int, float, str)) else str(type(value))


def outcome(source: str, compiled: bool) -> list[Any]:
    name = f"<stores {hash(source)}>"
    linecache.cache[name] = len(source), None, source.splitlines(keepends=True), name
    names: dict[str, Any] = {"aj": aj}
    exec(compile(source, name, "exec"), names)
    aj.manual_seed(0)
    state, place, log, box = State(), SimpleNamespace(), list[Any](), dict[str, Any]()
    function = names["step"]
    step: Any = lambda x: function(state, place, log, box, x)       # noqa: E731
    step = aj.compile(step, backend="interpret") if compiled else step
    found = []
    for call in range(4):
        result = step(aj.tensor(0.1 * np.arange(1.0, 4.0, dtype=np.float32) * (call + 1)))
        found.append([contents(each) for each in (result, state, log, box, vars(place))])
    return found


def check_same(found: Any, expected: Any) -> None:
    assert type(found) is type(expected)
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key, value in expected.items():
            check_same(found[key], value)
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for ours, theirs in zip(found, expected, strict=True):
            check_same(ours, theirs)
    elif isinstance(expected, (float, np.ndarray)):
        np.testing.assert_allclose(found, expected, 1e-3, 1e-3)
    else:
        assert found == expected


def test_random_steps(exhaustive: bool) -> None:
    done: list[bool] = []

    def check(seed: int) -> None:
        choose = random.Random(seed)
        lines = [choose.choice(STATEMENTS) for _ in range(choose.randint(2, 9))] + (BACKWARD if choose.random() < 0.5 else [])
        source = "def step(s, o, log, box, x):\n    h = x\n" + "".join(f"    {line}\n" for line in lines) + "    return h.tanh()\n"
        try:
            expected = outcome(source, False)
        except RuntimeError:        # a leaf that is written to, a graph that was freed
            return
        try:
            found = outcome(source, True)
        except aj.errors.AdjitError:
            done.append(False)
            return
        done.append(True)
        check_same(found, expected)

    for_each([(f"seed {seed}", (seed,)) for seed in range(600 if exhaustive else 30)], check)
    assert sum(done) > 0.85 * len(done)
