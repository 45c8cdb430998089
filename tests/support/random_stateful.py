"""Random functions that keep state: in attributes, dicts, lists, globals and variables of closures, with aliases, swaps, branches, writes
in place and exceptions. What Python leaves behind after each of several calls says what a compiled one has to leave."""

from __future__ import annotations

import random
import warnings
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

import adjit as aj
from adjit.ir.errors import AdjitError
from adjit.tracer.array import TracedArray

SETUP = """
class Node:
    def __init__(self, value, following=None):
        self.value, self.following = value, following
class Meter:
    count, total, last = 0, 0.0, None
    def __init__(self): self.seen = []
    def update(self, value):
        self.last = value
        self.total += value.sum()
        self.count += 1
    def best(self, value):
        if self.last is None or value.sum() > self.last.sum():
            self.last = value.copy()
        return self.last
s = SimpleNamespace(n=0, t=0.0, a=np.zeros(3), p=None, l=[], o=SimpleNamespace(n=1, t=0.5, a=np.ones(3), p=None))
d = {"n": 2, "t": 1.5, "a": np.array([1.0, -1.0, 2.0]), "p": None}
N, T, A, P, H, R = 0, -0.5, np.full(3, 2.0), None, [0.5], deque([], 2)
pair, box, tables, m = [np.zeros(3), np.ones(3)], [0, 0.5], defaultdict(list), Meter()
"""
CLOSURE = """
def make():
    k, c, w, q = 0, 0.25, np.array([3.0, 2.0, 1.0]), None
    def f(x):
        nonlocal k, c, w, q
        global N, T, A, P
        r, v = x * 1.0, 0.0
{body}
        return {result}
    return f
f = make()
"""
NAMES = ("s", "d", "N", "T", "A", "P", "H", "R", "pair", "box", "tables", "m")
VARIABLES = ("k", "c", "w", "q")

INTEGERS = ("s.n", "s.o.n", "d['n']", "N", "k", "box[0]")
FLOATS = ("s.t", "s.o.t", "d['t']", "T", "c", "box[1]", "v")
ARRAYS = ("s.a", "s.o.a", "d['a']", "A", "w", "pair[0]", "pair[1]", "r", "r")
OTHERS = ("s.p", "s.o.p", "d['p']", "P", "q", "m.last", "d['new']", "s.new")
LISTS = ("s.l", "H", "tables['a']", "m.seen")

OF_NUMBERS = ("{f}", "{f} + {g}", "{a}.sum()", "{a}[1]", "x[0]", "x.sum()", "float(x.sum())", "0.5 * {f} + x[1]", "max({f}, x[0])", "1.5",
              "{f} * {n}", "float({n})", "np.max({a})", "{a} @ x", "abs({f})", "-{f}", "float(len({l}))")
OF_ARRAYS = ("{a}", "x", "x * 2", "{a} + x", "{a} * {f}", "0.9 * {a} + 0.1 * x", "{a}[::-1]", "x[::-1]", "{a}.copy()", "{a} - {b}",
             "np.zeros(3)", "np.array([{f}, x[0], 1.0])", "np.sin({a})", "{a} * {n}", "np.where({a} > x, {a}, x)")
OF_OTHERS = ("{A}", "{F}", "{n}", "({A}, {F})", "[{F}, {A}]", "{{'a': {A}, 'f': {F}}}", "Node({A})", "Node({F}, [{F}])", "None", "'text'",
             "x[:2]", "{l}", "list({l})", "{p}", "len({l})", "SimpleNamespace(v={A})", "{a}[1:]")
CONDITIONS = ("x.sum() > {c}", "x[0] > {f}", "{f} > {c}", "{n} > {k}", "{n} % 2", "{a}.sum() > {c}", "{p} is None", "len({l}) > {k}",
              "{a}[0] < x[1]", "{l}", "np.any({a} > 2)", "{f} < {g}", "isinstance({p}, np.ndarray)")
STATEMENTS = (
    "{n} += 1", "{n} += {k}", "{n} = {n} + 1", "{n} = {k}", "{n} = {m}", "{n} = len({l})", "{f} += {F}", "{f} = {F}", "{f} = {F}",
    "{f} *= 0.5", "{f} -= x[2]", "{a} = {A}", "{a} = {A}", "{a} = {A}", "{a} += {A}", "{a} *= 0.5", "{a}[0] = {F}", "{a}[1:] += x[1:]",
    "{a}[{n} % 3] = {F}", "{a}[...] = {A}", "{a}, {b} = {b}, {a}", "{f}, {g} = {g}, {f}", "{n}, {m} = {m}, {n}", "{p} = {O}", "{p} = {O}",
    "{p} = {O}", "{p}, {a} = {a}, {A}", "{l}.append({O})", "{l}.append({F})", "{l}.append({A})", "if {l}: {l}.append({l}[-1])",
    "del {l}[:-2]", "{l}[:] = [{F}]", "{l}.insert(0, {F})", "{l}.extend([{F}, {n}])", "R.append({F})", "R.append({A})", "m.update({A})",
    "r = m.best({A})", "m.count += 1", "m.total += {F}", "x = x + {a}", "r = r + {A}", "v = v + {F}", "r = {a}", "r += x", "r = {a}[:]",
    "if {p} is None: {p} = {A}", "{p} = {p} if {p} is not None else {A}", "tables['b'].append({F})", "tables[{n}] = {F}",
    "d['m'] = d.get('m', 0.0) + {F}", "d.setdefault('z', {F})", "d.update(u={F}, w={A})", "setattr(s, 'y', {A})",
    "for i in range(3): {f} += x[i]", "for i in range(3): {l}.append(x[i])", "s = s; s.o.n += 1", "x[0] = {F}", "x *= 2",
    "if {C}: raise ValueError('bad')")

RESULTS = ("r", "r * 1.0", "r * 1.0, v", "{F}", "{A}", "x", "r, x.sum()", "{F}, {A}")


class Stateful(NamedTuple):
    """A function as text, and what happens between its calls."""

    seed: int
    statements: tuple[str, ...]
    result: str

    def script(self) -> str:
        lines = [line for statement in self.statements for line in statement.split("\n")]
        return SETUP + CLOSURE.format(body="\n".join(" " * 8 + line for line in lines) or " " * 8 + "pass", result=self.result)


def _expression(draw: random.Random, text: str, depth: int = 0) -> str:
    floats, arrays, integers = (draw.sample(kinds, 2) for kinds in (FLOATS, ARRAYS, INTEGERS))
    inner = {} if depth > 1 else {"F": OF_NUMBERS, "A": OF_ARRAYS, "O": OF_OTHERS, "C": CONDITIONS}
    return text.format(
        f=floats[0], g=floats[1], a=arrays[0], b=arrays[1], n=integers[0], m=integers[1], l=draw.choice(LISTS), p=draw.choice(OTHERS),
        k=draw.randint(1, 3), c=draw.choice((-1.0, 0.0, 1.5, 4.0)),
        **{name: _expression(draw, draw.choice(kinds), depth + 1) for name, kinds in inner.items() if "{" + name + "}" in text})


def _statement(draw: random.Random, depth: int = 0) -> str:
    kind = draw.random()
    if kind > 0.2 or depth > 1:
        return _expression(draw, draw.choice(STATEMENTS))
    condition = _expression(draw, draw.choice(CONDITIONS))
    first, second = ("\n".join("    " + line for line in _statement(draw, depth + 1).split("\n")) for _ in range(2))
    if kind > 0.1:
        return f"if {condition}:\n{first}"
    return f"if {condition}:\n{first}\nelse:\n{second}"


def random_stateful(seed: int) -> Stateful:
    """A function of one to eight statements."""
    draw = random.Random(seed)
    statements = tuple(_statement(draw) for _ in range(draw.randint(1, 8)))
    return Stateful(seed, statements, _expression(draw, draw.choice(RESULTS)))


BETWEEN = ("pass", "pass", "s.t = 0.25", "s.a[0] += 1", "A = np.ones(3)", "s.n = 3", "d['t'] = 2.5", "H.clear()", "pair[0] = pair[1]",
           "s.a = s.o.a", "m.last = None", "s.p = None", "N += 2", "T = 4.0", "s.l = [1.0, 2.0]", "d['a'] = np.zeros(3)",
           "s.o = SimpleNamespace(n=0, t=0.0, a=np.ones(3), p=None)", "pair[1] *= 0.5", "P = [1.0]")


class Kept:
    """The state of one run of a function: its own globals and variables."""

    def __init__(self, program: Stateful, backend: str = ""):
        self.space: dict[str, Any] = {"np": np, "SimpleNamespace": SimpleNamespace, "deque": deque, "defaultdict": defaultdict,
                                      "__name__": "state_of_a_user"}
        exec(compile(program.script(), "case.py", "exec"), self.space)
        function = self.space["f"]
        self.cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        self.call = aj.compile(function, backend=backend) if backend else function

    def objects(self) -> dict[str, Any]:
        return {**{name: self.space[name] for name in NAMES}, **{name: cell.cell_contents for name, cell in self.cells.items()}}

    def plain(self) -> Any:
        return plain(self.objects())


def plain(value: Any, within: tuple[int, ...] = ()) -> Any:
    """What can be compared: arrays with their dtypes, numbers by kind, objects by class and attributes."""
    if isinstance(value, TracedArray):
        return "a traced array"
    if id(value) in within:
        return "above", within[::-1].index(id(value))
    inside = (*within, id(value))
    if isinstance(value, np.ndarray):
        return "array", str(value.dtype), value.shape, value.tolist()
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(value)
    if isinstance(value, dict):
        return type(value).__name__, [(key, plain(item, inside)) for key, item in value.items()]
    if isinstance(value, (list, tuple, deque)):
        return type(value).__name__, [plain(item, inside) for item in value]
    if hasattr(value, "__dict__"):
        return type(value).__name__, [(key, plain(item, inside)) for key, item in sorted(vars(value).items())]
    return value


def same(one: Any, other: Any) -> bool:
    """Whether two plain values are equal but for rounding."""
    if isinstance(one, float) and isinstance(other, float):
        return one == other or (one != one and other != other) or abs(one - other) <= 1e-9 * max(abs(one), abs(other), 1e-3)
    if type(one) is not type(other):
        return False
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def arrays_of(value: Any, path: str = "", within: tuple[int, ...] = ()) -> Iterator[tuple[str, np.ndarray]]:
    """Arrays in an object, with where they are."""
    if id(value) in within:
        return
    if isinstance(value, np.ndarray):
        yield path, value
        return
    items: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, (list, tuple, deque)) else vars(
        value).items() if hasattr(value, "__dict__") and not isinstance(value, type) else ()
    for key, item in items:
        yield from arrays_of(item, f"{path}.{key}", (*within, id(value)))


def sharing(value: Any) -> set[tuple[str, str]]:
    """Pairs of arrays that share memory."""
    found = list(arrays_of(value))
    return {(one, other) for number, (one, a) in enumerate(found) for other, b in found[:number] if np.may_share_memory(a, b)}


def arguments_of(seed: int) -> Iterator[tuple[np.ndarray, str]]:
    """Arguments of the calls, and what happens to the state before each."""
    draw = random.Random(seed + 1)
    base = [[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [-1.0, 0.5, 2.0], [1.0, 2.0, 3.0], [0.0, -3.0, 1.0], [3.0, 1.0, -2.0], [1.0, 2.0, 3.0]]
    for number, content in enumerate(base):
        yield np.array(content), draw.choice(BETWEEN) if number > 1 else "pass"


def outcome(call: Callable[[Any], Any], x: np.ndarray) -> Any:
    """What a call gives or raises."""
    try:
        return call(x)
    except AdjitError:
        raise
    except Exception as error:
        return f"{type(error).__name__}"


def compare(program: Stateful, backend: str = "interpret", shares: bool = True) -> str:
    """Compare the calls of a compiled function with Python's: "equal", "raised", a refusal, or "WRONG" and what is."""
    python, compiled = Kept(program), Kept(program, backend)
    raised, passed = False, list[tuple[np.ndarray, np.ndarray]]()
    for number, ((x, between), (y, _)) in enumerate(zip(arguments_of(program.seed), arguments_of(program.seed), strict=True)):
        for kept in (python, compiled):
            exec(between, kept.space)
        before = compiled.plain()
        try:
            with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
                wanted = outcome(python.call, x)
                found = outcome(compiled.call, y)
        except AdjitError as error:
            if not same(before, compiled.plain()):
                return f"WRONG: call {number} is refused ({str(error).splitlines()[0]}) and leaves\n{compiled.plain()}\nof\n{before}"
            return f"refused: {str(error).splitlines()[0]}"
        raised = raised or isinstance(wanted, str)
        if not same(plain(wanted), plain(found)):
            return f"WRONG: call {number} gives\n{plain(found)}\nnot\n{plain(wanted)}"
        if not same(plain(x), plain(y)):
            return f"WRONG: call {number} leaves the argument\n{y}\nnot\n{x}"
        if not same(python.plain(), compiled.plain()):
            return f"WRONG: call {number} leaves\n{differences(compiled.objects(), python.objects())}"
        passed.append((x, y))
        if shares:
            one, other = (sharing({**kept.objects(), "passed": each}) for kept, each in zip((python, compiled), zip(*passed, strict=True),
                                                                                       strict=True))
            if one != other:
                return f"WRONG sharing: after call {number} {sorted(other - one)} share memory, {sorted(one - other)} do not"
    return "raised" if raised else "equal"


def differences(found: dict[str, Any], wanted: dict[str, Any]) -> str:
    """The names that hold something else."""
    return "\n".join(f"{name}: {plain(found[name])}\nnot {plain(value)}" for name, value in wanted.items()
                     if not same(plain(found[name]), plain(value)))

