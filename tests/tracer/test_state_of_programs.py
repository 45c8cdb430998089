"""State that a function keeps: a compiled one leaves behind what Python leaves, after each of several calls, or refuses. Each case is a
setup, the body of a function of `x`, and what is compared."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.each import for_each
from support.stateful_functions import CASES

import adjit as aj
from adjit.ir.errors import AdjitError
from adjit.tracer.array import TracedArray

CLASS = """
class B:
    base = 0
class C(B):
    n, t, name, seen = 0, 1.5, "", ()
    def tick(self): self.n += 1
    def __call__(self, x):
        self.base += 2
        return x
    @classmethod
    def count(cls): cls.n += 1
class D(C): pass
c, d = C(), D()
"""
OF_CLASS = "(vars(c), vars(d), C.n, C.t, D.n, B.base, 'n' in vars(D))"

IN_CLASSES = [      # numbers whose default is in a class, and numbers of a class
    "c.n += 1", "c.n -= 2", "c.t *= 2", "c.t += x.sum()", "c.t += x", "c.seen += (1,)", "c.name += 'a'", "c.n += 1; c.n += 2",
    "c.n = c.n + 1", "c.tick(); d.tick(); d.n += 5", "c(x); d(x)", "if x.sum() > 7: c.n += 1", "for _ in range(3): c.n += 1", "c.n = 3",
    "c.n = x.sum()", "setattr(c, 'n', c.n + 1)", "aj.grad(lambda y: (c.tick(), y @ y)[1])(x)",
    "aj.value_and_grad(lambda y: (c.tick(), y @ y)[1])(x)", "aj.compile(lambda y: (c.tick(), y @ y)[1])(x)",
    "type(c).n += 1", "c.__class__.n += 1", "C.n += 1", "c.count()", "C.count()", "d.count()", "D.count()",
    "type(d).n += 1; type(c).t += 1",
    "type(c).t += x.sum()", "type(c).n = x.sum()", "type(d).n = x.sum()", "c.__class__.n = c.__class__.n + 1", "C.n = c.n + 1",
    "type(c).mean = x.mean(); x = x - c.mean", "C.mean = x.mean(); x = x - type(c).mean",
    "type(d).n += 1; type(c).t -= 1", "d.n += 1; D.t += 2; c.t += 1"]

IN_DEFAULTS = [     # what a `defaultdict` makes
    ("int", "d['n'] += 1"), ("int", "d['n'] -= 1; d['n'] += 3; d['m'] += 1"), ("int", "d['n'] += 1; d['n'] += x.sum()"),
    ("int", "d['n'] *= 2"), ("float", "d['n'] += x.sum()"), ("float", "d['n'] += 1.5"), ("str", "d['n'] += 'a'"), ("tuple",
    "d['n'] += (1,)"),
    ("list", "d['n'] += [1]"), ("list", "d['n'] += [x.sum()]"), ("list", "d['n'].append(x.sum())"), ("set", "d['n'].add(1)"),
    ("lambda: 3", "d['n'] += 1"), ("lambda: np.zeros(3)", "d['n'] += x"), ("lambda: defaultdict(int)", "d['a']['b'] += 1"),
    ("int", "d.setdefault('n', 0); d['n'] += 1"), ("int", "d['n'] = d.get('n', 0) + 1"), ("int", "if x.sum() > 7: d['n'] += 1"),
    ("int", "d['n'] += 1; d['n'] = 7"), ("int", "for k in 'aba': d[k] += 1"),
    ("float", "aj.grad(lambda y: (d.update(n=d['n'] + 1), y @ y)[1])(x)")]

PREVIOUS = [        # what the call before stored, in another place
    "s.prev = s.cur; s.cur = x.sum()", "s.prev, s.cur = s.cur, np.sum(x)", "s.prev = s.cur; s.cur = float(x.sum())",
    "s.prev = s.cur; s.cur = x * 2",
    "s.prev = s.cur; s.cur = 5", "s.prev = s.cur; s.cur = 'a'", "old = s.cur; s.cur = x.sum(); s.prev = old",
    "s.log.append(s.cur); s.cur = x.sum()",
    "s.prev = [s.cur, {'a': s.cur}]; s.cur = x.sum()", "s.third = s.prev; s.prev = s.cur; s.cur = x.sum()", "s.prev = s.n; s.n += 1",
    "s.n += 1; s.prev = s.n",
    "s.prev = s.cur; s.cur = s.other = x.sum()", "s.prev = s.other; s.cur = s.other = x.sum()",
    "s.third = s.cur; s.prev = s.cur; s.cur = x.sum()", "s.prev = s.cur; s.cur = {'a': np.sin(s.other), 'b': 1.0}; s.other += 1"]

READ = [            # what is computed with, or decides
    "s.prev = s.cur; s.cur = x.sum(); x = x * s.prev", "old = s.cur; s.cur = x.sum(); return x, old",
    "s.prev = x.sum() - s.cur; s.cur = x.sum()",
    "s.table['prev'] = s.table['cur']; s.table['cur'] = x.sum()", "s.pair[0] = s.pair[1]; s.pair[1] = x.sum()",
    "s.best = max(s.cur, x.sum()); s.cur = s.best"]

NAMES = ("mean", "sum", "T", "real", "dot", "shape", "mu")
NEW = [             # an attribute that is not there, with a name that is also loaded
    "o.{} = x.mean(); x = x - o.{}", "setattr(o, '{}', x.mean())", "o.{} = 5", "o.{} = [x.sum(), 1]", "if x.sum() > 7: o.{} = x.max()"]
HOLDERS = {"SimpleNamespace()": "vars(o)", "type('O', (), {})()": "vars(o)",
    "ModuleType('m')": "{k: v for k, v in vars(o).items() if k[0] != '_'}",
           "FunctionType(compile('0', 'o', 'eval'), {})": "vars(o)",
           "type('O', (), {})": "{k: v for k, v in vars(o).items() if k[0] != '_'}"}

OTHERS = [
    ("class O:\n    def __setattr__(self, name, value): super().__setattr__(name, value)\no = O()", "o.mu = x.mean()", "vars(o)"),
    ("class O:\n    @property\n    def mean(self): return self._m\n    @mean.setter\n    def mean(self, v): self._m = v\no = O()",
     "o.mean = x.mean(); x = x - o.mean", "vars(o)"),
    ("class O:\n    n = 0\n    @property\n    def count(self): return self.n\n"
     "    @count.setter\n    def count(self, n):\n        self.n = n\no = O()",
     "o.count += 1", "vars(o)"),
    ("class O:\n    __slots__ = ('mean',)\no = O()", "o.mean = x.mean()", "o.mean"),
    ("o = SimpleNamespace()", "for name in ('a', 'b'): setattr(o, name, x.mean())", "vars(o)"),
    ("o = SimpleNamespace()", "o.__dict__.update(a=x.mean())", "vars(o)"),
    ("o = SimpleNamespace()", "o.mean = x.mean(); del o.mean", "vars(o)"),
    ("o = SimpleNamespace()", "globals()['made'] = x.mean()", "globals().get('made')")]

BOUND = [f"{owner}.{change.format(owner)}" for owner in ("self", "type(self)", "self.__class__", "C") for change in (
    "n += 1", "n = {0}.n + 1", "mean = x.mean(); x = x - {0}.mean", "t += x.sum()")]


def make(setup: str, body: str, state: str) -> tuple[Callable[[Any], Any], Callable[[], Any]]:
    """The function of a case, and what it left behind."""
    space: dict[str, Any] = {"np": np, "aj": aj, "defaultdict": defaultdict, "Counter": Counter, "deque": deque, "ModuleType": ModuleType,
                             "SimpleNamespace": SimpleNamespace, "FunctionType": FunctionType, "__name__": "state_of_a_user"}
    exec(compile(f"{setup}\ndef f(x):\n    {body}\n    return x", "case.py", "exec"), space)
    return space["f"], lambda: plain(eval(state, space))


def plain(value: Any) -> Any:
    """What can be compared."""
    assert not isinstance(value, TracedArray)
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [*map(plain, value)]
    return plain(vars(value)) if hasattr(value, "__dict__") else value


def left_behind(function: Callable[[Any], Any], state: Callable[[], Any], refusals: bool = False) -> list[Any]:
    """Results and state after each call, up to a refusal."""
    found = []
    for scale in (1, 2, 3, 1, 0, 1):
        try:
            result = function(scale * np.array([1.0, 2.0, 3.0]))
        except AdjitError:
            if not refusals:
                raise
            return found
        found.append((plain(result), state()))
    return found


def check(setup: str, body: str, state: str, refusals: bool = False, backend: str = "interpret") -> None:
    """Compare a case with Python; with `refusals` a call may be refused."""
    expected, (function, now) = left_behind(*make(setup, body, state)), make(setup, body, state)
    found = left_behind(aj.compile(function, backend=backend), now, refusals)
    assert found == (expected[:len(found)] if refusals else expected)


def named(setup: str, bodies: Iterable[str], state: str, *more: Any) -> dict[str, tuple[Any, ...]]:
    return {body: (setup, body, state, *more) for body in bodies}


def test_numbers_of_classes_and_their_objects() -> None:
    for_each(named(CLASS, IN_CLASSES, OF_CLASS), check)

    function, _ = make(CLASS, "B.base += 1; d.base += 1", OF_CLASS)
    with pytest.raises(AdjitError, match=r"adds to d\.base, and to the attribute of the class that this begins with"):
        aj.compile(function)(1.0)


def test_what_a_defaultdict_makes() -> None:
    for_each({f"{factory}: {body}": (f"d = defaultdict({factory})", body, "dict(d)") for factory, body in IN_DEFAULTS}, check)
    for_each(named("d = Counter()", ("d['n'] += 1", "d['n'] += x.sum()", "d.update('ab')"), "dict(d)"), check)


STATE = "s = SimpleNamespace(prev={0}, cur={0}, third={0}, other=7.0, n=0, log=[], table=dict(prev={0}, cur={0}), pair=[{0}, {0}])"


def test_what_the_call_before_stored_changes_places() -> None:
    for number in ("None", "0.0", "np.zeros(3)"):
        for_each(named(STATE.format(number), PREVIOUS, "s"), check)
    check("class S: prev = cur = None\ns = S()", PREVIOUS[0], "vars(s)")


def test_one_array_in_several_places_until_the_first_call() -> None:
    """`previous` and `current` begin as one array: a trace cannot tell which of them is stored in the other."""
    setup = "z = np.zeros(3)\n" + STATE.format("z")
    bodies = ("s.prev, s.cur = s.cur, x * 2", "s.prev = s.cur; s.cur = s.cur * 0.5 + x; x = s.cur - s.prev",
              "s.table['prev'] = s.table['cur']; s.table['cur'] = x * 2",
              "s.pair[1] = s.pair[0]; s.pair[0] = x * 2; x = s.pair[0] - s.pair[1]",
              "s.last = s.cur; s.cur = aj.grad(lambda w: w @ w)(s.cur + x)")
    for_each(named(setup, bodies, "s"), check)


AGENTS = """
class A:
    v, w, o = 0.0, 0.0, None
    def __init__(self): self.v = self.w = 0.0; self.seen = []
a, b = A(), A()
a.o, b.o = b, a
s = SimpleNamespace(now=None, cur=a, new=b, pool=[a, b], ring=deque([a, b]))
"""
MOVED = [       # objects from outside that change their places, and what is stored in them by the new one
    "s.now = s.pool[int(x[0]) % 2]; s.now.v = x.sum()", "s.new.v = x.sum(); s.cur, s.new = s.new, s.cur",
    "s.pool.append(s.pool.pop(0)); s.pool[0].v = x.sum()", "s.ring.rotate(1); s.ring[0].v = x.sum()",
    "s.cur.v = s.cur.v + x.sum(); s.cur = s.cur.o", "s.now = s.pool[0]; s.now.seen.append(x.sum())",
    "s.pool[0].v = x.sum(); s.pool[0] = s.cur = s.new = b; s.ring.clear(); b.o = b"]


def test_objects_that_change_their_places() -> None:
    state = "[(e.v, e.w, e.seen) for e in (a, b)], [e in (a,) for e in (s.now, s.cur, s.new, *s.pool, *s.ring)]"
    for_each(named(AGENTS, MOVED, state), check)


def test_methods_that_were_bound_before() -> None:
    """Such methods change containers unseen: what they add to lists is found, the rest is refused, with the container as it was."""
    setup = "log, tot, ring = [1.0], {'s': 0.0}, deque([], 2)\nadd, put, get, keep = log.append, tot.__setitem__, tot.get, ring.append"
    state = "(log, tot, list(ring))"
    bodies = "add(x.sum()); tot['s'] = tot['s'] + x[0]", "add(x.sum())", "keep(x.sum())", "r = get('s'); tot['s'] = r + x[0]; x = x + r"
    for_each(named(setup, bodies, state), check)
    for body, name in (("put('s', x[0])", "dict by put"), ("add(x[0]); log.append(x[1])", "list by add")):
        function, now = make(setup, body, state)
        with pytest.raises(AdjitError, match=f"changes a {name}, a method that was bound before"):
            aj.compile(function)(np.ones(3))
        assert now() == [[1.0], {"s": 0.0}, []], body


def test_what_the_call_before_stored_is_read() -> None:
    for number in ("0.0", "np.float64(0)"):
        for_each(named(STATE.format(number), READ, "s"), check)


def test_what_python_decides_by_what_the_call_before_stored() -> None:
    """A number or an array of the call in place of a Python float: the next call decides by what is there, whatever the trace met."""
    setup = "s = SimpleNamespace(y=0.2, u=np.array([0.1, 0.2]), v=np.array([1.0, -1.0]), flag=None)"
    bodies = ["if s.y > 0: s.y = np.sin(x[0])\n    return x[0] if s.y < 0.14 else 2 * x[0]",
              "while s.y > 0.5: s.y = np.sin(x[0]) - 0.5\n    s.y = np.cos(x[1])\n    return x[0]",
              "if s.flag: x = x + 1\n    s.flag = x[0] > 1\n    return x[0]",
              "s.u = x[:2] * 1.0\n    if 0 < max(s.y, 0): s.y = np.sin(s.u[1])\n    else: s.u, s.v = s.v, s.u\n    return s.v.sum() + x[0]"]
    for body in bodies:
        function, state = make(setup, body, "vars(s)")
        plain_function, plain_state = make(setup, body, "vars(s)")
        compiled = aj.compile(function)
        for number in (1.0, 2.0, -1.0, 3.0, -0.5, 0.4, 2.0):
            x = number * np.array([1.0, 2.0, 3.0])
            np.testing.assert_allclose(compiled(x), plain_function(x), rtol=1e-12, err_msg=body)
            for name, value in plain_state().items():
                np.testing.assert_allclose(state()[name] if value is not None else 0.0, value if value is not None else 0.0, rtol=1e-12,
                                           err_msg=body)


def test_views_that_are_stored() -> None:
    """A view of an array from outside stays one; of an array that the same call writes to, it is refused."""
    setup = "s = SimpleNamespace(buf=np.zeros(4), win=None)"
    check(setup, "s.win = s.buf[1:3]; x = x + s.buf.sum()", "(s.win[:].tolist(), s.buf)")
    function, state = make(setup, "s.win = s.buf[1:3]", "s.buf")
    aj.compile(function, backend="interpret")(np.ones(3))
    view = function.__globals__["s"].win
    view[:] = 5.0
    assert state() == [0.0, 5.0, 5.0, 0.0]

    function, state = make(setup, "if s.win is not None: s.win[:] = x[0]\n    s.buf[0] = x[0]; s.win = s.buf[1:3]", "(s.buf, s.win)")
    with pytest.raises(AdjitError, match="stores a view of an array from outside that it writes to"):
        aj.compile(function, backend="interpret")(np.ones(3))
    assert state() == [[0.0] * 4, None]


def test_stored_arrays_share_memory_as_in_numpy() -> None:
    """Writes through one of them between calls are seen in the other; what cannot be kept so is refused."""
    setup = "s = SimpleNamespace(a=np.zeros(5), v=np.zeros(2), w=None)"
    kept = ("s.a = np.zeros(5); s.v = s.a[1:3]", "s.a = np.zeros(5); s.v = s.a[1:4]; s.v[:] = x", "s.a = x * 2; s.v = s.a[::-1]; return x",
            "s.a = np.zeros((3, 4)); s.a[0, :3] = x; s.v = s.a[1:, ::2].T; s.w = s.a.ravel()[::5]", "z = np.zeros(3); s.a = s.v = z",
            "s.a = s.a * 0.5 + x.sum(); s.v = s.a[1:3]", "s.w = {'a': np.ones(4) * x[0]}; s.v = s.w['a'][1:]", "s.v = x[:1]; s.w = x[1:]",
            "t = np.zeros(6); t[:3] = x; s.v = t[:4]; s.w = t[3:]", "s.w = [x[i:i + 2] for i in range(2)]; s.v = s.w[0]")
    for body in kept:
        (function, _), (plain_function, _) = (make(setup, body, "vars(s)") for _ in range(2))
        compiled, states = aj.compile(function, backend="interpret"), [each.__globals__["s"] for each in (function, plain_function)]
        for number in (1.0, 2.0, 3.0):
            assert plain(compiled(number * np.ones(3))) == plain(plain_function(number * np.ones(3))), body
            for state in states:
                state.v[...] += 10.0 * number
            assert plain(states[0]) == plain(states[1]), body
    for body, message in (("s.a = x * 2; s.v = s.a.reshape(3, 1)[np.argmax(x)]", "in places which depend on values"),
                          ("s.a[1] = x[0]; y = s.v.sum(); s.a = s.a * y; s.v = s.a[1:3]", "stores an array and a view of it")):
        function, state = make(setup, body, "vars(s)")
        before = state()
        with pytest.raises(AdjitError, match=message):
            aj.compile(function, backend="interpret")(np.ones(3))
        assert state() == before


def test_stored_arguments_are_the_callers() -> None:
    """And views of them are views of these, whatever the layout: writes by the caller, the program, and through them are seen."""
    bodies = ["s.last = x\n    return 2 * x", "s.hist.append(x); s.hist.append(x[0])\n    return x.sum()",
              "r = x.sum() + (0.0 if s.last is None else s.last.sum())\n    s.last = x; x[0] = 5\n    return r",
              "s.last, s.d['p'] = x, s.last\n    return 0.0 if s.d['p'] is None else s.d['p'].sum()",
              "if s.win is not None: s.win += x.sum()\n    s.win = x[::2, ::-1].T\n    return 2 * x",
              "s.win = x.ravel()[2:]\n    return 2 * x",
              "x += 1\n    s.d['x'] = {'a': x, 'b': x[1:2]}; s.win = x.T\n    return x.sum()"]
    layouts: list[Callable[[Any], Any]] = [np.copy, np.asfortranarray, lambda a: np.repeat(np.repeat(a, 2, 0), 2, 1)[::2, ::2]]

    def run(body: str, layout: Callable[[Any], Any], compiled: bool) -> list[Any]:
        function, state = make("s = SimpleNamespace(last=None, hist=[], d={}, win=None)", body, "vars(s)")
        s, call, found = function.__globals__["s"], aj.compile(function, backend="interpret") if compiled else function, list[Any]()
        for number in range(3):
            x = layout(np.arange(12.0).reshape(4, 3) + number)
            found.append(plain(call(x)))
            x[:, 1] *= 2
            if s.win is not None:
                s.win[...] += 1
            found += [state(), plain(x), s.last is x]
        return found

    for body in bodies:
        for number, layout in enumerate(layouts if 'win' in body else layouts[:1]):
            assert run(body, layout, True) == run(body, layout, False), (body, number)


def test_a_donated_argument_that_is_stored_is_not_overwritten() -> None:
    s = SimpleNamespace(last=None)

    @aj.compile(donate=("x",))
    def step(x: Any) -> Any:
        s.last = x
        return x * 2 + 1

    for _ in range(2):
        x = np.ones(1000)
        assert step(x)[0] == 3.0
        assert s.last is x
        assert x[0] == 1.0


def test_a_call_that_raises_leaves_what_it_did() -> None:
    """Arrays that change their places, lists of which it reads the length, and what it wrote to arguments and put into them."""
    setup = "s = SimpleNamespace(a=np.zeros(3), b=np.ones(3), t=0.0, p=None, l=[1.0])"
    bodies = ["s.a, s.b = s.b, s.a", "s.a, s.b = s.b, 2 * s.a + x; s.t += x.sum()", "s.p, s.a = s.a, 2 * x", "s.l.append(s.l[-1])",
              "x *= 2; s.p = x",
              "x['w'] = 2 * x['w']; x['l'].append(x['w'].sum()); x['v'][0] = 9"]
    for body in bodies:
        found = []
        for compiled in (False, True):
            function, state = make(setup, f"{body}\n    if s.t < 20: raise ValueError('bad')", "vars(s)")
            call, left = aj.compile(function, backend="interpret") if compiled else function, list[Any]()
            held: Any = {"w": np.ones(2), "l": [], "v": np.zeros(2)}
            for scale in (1.0, 1.0, 2.0):
                x = held if "'w'" in body else scale * np.array([1.0, 2.0, 3.0])
                with suppress(ValueError):
                    call(x)
                left += [plain(x), state()]
            found.append(left)
        assert found[0] == found[1], body


def test_a_call_that_is_refused_takes_back_what_a_defaultdict_made() -> None:
    body = "if x.sum() > 0: s.n += 3\n    s.new = x * 1.0; e['a'].append(np.zeros(3)); s.l.append(float(len(e['a'])))\n    x = x + s.new"
    function, state = make("s = SimpleNamespace(n=0, new=None, l=[]); e = defaultdict(list)", body, "(vars(s), dict(e))")
    compiled, before = aj.compile(function, backend="interpret"), state()
    for _ in range(3):
        try:
            compiled(np.ones(3))
        except AdjitError:
            assert state() == before
        before = state()


def test_a_call_that_raises_changes_state_once() -> None:
    """Where a call before went another way, and the trace is made again without what is known of the ways."""
    setup = "s = SimpleNamespace(v=-2.0, t=(0.0, 1.0))"
    body = "if x[0] > 0: return 0\n    s.t = (s.v * 0.5, s.t[0])\n    if s.v < 0: raise ValueError('bad')"
    function, state = make(setup, body, "s.t")
    compiled = aj.compile(function)
    compiled(np.ones(3))
    with pytest.raises(ValueError, match="bad"):
        compiled(-np.ones(3))
    assert state() == [-1.0, 0.0]


def test_traces_that_end_half_way_leave_nothing_behind() -> None:
    """A trace that asks for what the call before stored, and cannot have it, has not counted, appended or bound anything."""
    setup = "s = SimpleNamespace(best=None, total=0.0, n=0, found=[], last=[0.0])"
    body = ("if s.best is not None: s.total += 0.5; s.n += 1; s.found.append(1); s.last = [2.0]\n"
            "    s.best = x[0] if s.best is None else min(s.best, x[1])\n    return x[0]")
    (function, state), (plain_function, plain_state) = (make(setup, body, "vars(s)") for _ in range(2))
    compiled = aj.compile(function)
    for number in (1.0, 2.0, -1.0, 3.0):
        compiled(number * np.ones(2))
        plain_function(number * np.ones(2))
        assert state() == plain_state()
    setup = "s = SimpleNamespace(u=[0.1], v=[1.0], n=0, t=0.0)"
    body = "s.u, s.v = s.v, s.u\n    if x[0] > 1: s.t = s.u[0] - float(s.n)\n    else: s.n += 1\n    return x[0]"
    (function, state), (plain_function, plain_state) = (make(setup, body, "vars(s)") for _ in range(2))
    compiled = aj.compile(function)
    for number in (0.5, 2.0, 0.5, 3.0, 2.0):
        compiled(number * np.ones(2))
        plain_function(number * np.ones(2))
        assert state() == plain_state()


def test_new_attributes() -> None:
    rest = "x = x + x.mean() + x.sum() + x.T + x.real + x.dot(x)"
    for holder, state in HOLDERS.items():
        for_each(named(f"o = {holder}", [f"{NEW[0].replace('{}', name)}\n    {rest}" for name in NAMES], state), check)
        bodies = [body.replace("{}", name) for body in NEW for name in ("mean", "mu")]
        for_each(named(f"o = {holder}", [f"{body}\n    {rest}" for body in bodies], state, True), check)


def test_ways_to_bind_attributes() -> None:
    for_each({body: (setup, body, state) for setup, body, state in OTHERS}, check)


def test_attributes_bound_by_setattr() -> None:
    """As by `o.name = value`, whether nothing reads them or each call reads what the call before bound; also under a computed name."""
    setup = "class O:\n    def __init__(self): self.last, self.w0, self.w1 = None, np.zeros(3), np.ones(3)\no, names = O(), ['w0', 'w1']"
    for_each(named(setup, [
        "setattr(o, 'last', x * 2)", "if x[0] > 1: setattr(o, 'last', x * 2)", "setattr(o, 'last', x.sum()); x = x * o.last",
        "y = getattr(o, 'w0') * x; setattr(o, 'w0', x * 2); return y",
        "for n in names: setattr(o, n, 0.5 * getattr(o, n) + x)\n    x = o.w0 - getattr(o, names[1])"], "vars(o)"), check)


def test_numbers_of_another_class_and_arrays_that_move_within_a_tuple() -> None:
    """0.0 that becomes a number of NumPy's is state from the next call on; parts of a tuple that is bound anew change places."""
    setup = "s = SimpleNamespace(f=0.0, n=0, ok=False, T=(np.zeros(3), np.ones(3), 0.0), log=[], b=np.array([1.0, 2.0]), i=np.arange(3))"
    for_each(named(setup, [
        "s.f += s.b[1]; x = x * s.f", "s.f = max(s.f, s.b.max() * 0.5 ** s.f); x = x * s.f", "s.n += s.i[1]; x = x * s.b[s.n % 2]",
        "s.ok = s.ok or s.i[1] > 0; x = x if s.ok else -x", "s.T = (s.T[1], x * 2, s.T[2]); x = x + s.T[0]",
        "s.T = (s.T[1], x * 2, s.T[2] + 1); s.log.append(x[0]); x = x + s.T[0]",
        "s.T = (x * 1.5, s.T[0], x[0]); s.log.append(s.T[2]); x = x * s.T[1].sum()"], "vars(s)"), check)


def test_attributes_bound_by_names_that_the_code_does_not_say() -> None:
    """They are as in Python, or refused with the line, and then nothing of the trace is left behind."""
    own = "class O:\n    def __setattr__(self, name, value): object.__setattr__(self, '_' + name, value)\no = O(); o.n = 0"
    put = "o = SimpleNamespace(old=0)\ndef put(**attributes):\n    for name in attributes: setattr(o, name + 'er', attributes[name])"
    numbers = {body: (setup, body, "vars(o)") for setup, body in (
        (own, "o.n = 5"), (own, "o.n = o._n + 1"), (put, "put(old=3)"), (put, "put(old=x.ndim); put(older=7)"))}
    for_each(numbers, check)
    for setup, body in ((own, "o.mu = x.mean()"), (put, "put(old=x.mean(), new=x.sum())")):
        function, state = make(setup, body, "vars(o)")
        before = state()
        with pytest.raises(AdjitError, match=r"stores a value as o\.\w+ in a way that is not followed .*\n    at case\.py:\d in f"):
            aj.compile(function)(np.ones(3))
        assert state() == before


def test_bound_methods() -> None:
    def check_bound(body: str) -> None:
        setup, found = f"class C:\n    n, t = 0, 0.5\n    def f(self, x):\n        {body}\n        return x\nc = C()", []
        for backend in ("", "interpret"):
            space: dict[str, Any] = {"__name__": "state_of_a_user"}
            exec(compile(setup, "case.py", "exec"), space)
            c, kind = space["c"], space["C"]
            state = partial(lambda c, kind: plain((vars(c), kind.n, kind.t, vars(kind).get("mean"))), c, kind)
            found.append(left_behind(aj.compile(c.f, backend=backend) if backend else c.f, state))
        assert found[0] == found[1]
    for_each({body: body for body in BOUND}, check_bound)


FOUND = [           # that once left something else behind
    ("a namespace", ("s.l = s.l + [x.sum()]", "s.p = s.o; s.o = SimpleNamespace(n=1, t=x.sum())", "s.l.append(x.sum()); s.l = s.l[-2:]",
                     "s.l.append(s.p); s.p = x.sum(); s.l = s.l[-3:]", "s.p2 = s.p1 if hasattr(s, 'p1') else None; s.p1 = x.sum()",
                     "s.hist = (getattr(s, 'hist', ()) + (x.sum(),))[-2:]")),
    ("a module", ("m.n += 1", "m.t += x.sum()", "m.prev = m.cur; m.cur = x.sum()")),
    ("classes", ("q = Meter(); q.update(x.sum()); m.last = q",))]


def test_functions_that_once_left_something_else_behind() -> None:
    for name, bodies in FOUND:
        setup, state, every = CASES[name]
        assert set(bodies) <= set(every)
        for_each(named(setup, bodies, state), check)


@pytest.mark.share(5)
@pytest.mark.parametrize(("setup", "state", "body"), [
    pytest.param(setup, state, body, id=f"{name}: {body}") for name, (setup, state, bodies) in CASES.items() for body in bodies])
def test_functions_leave_behind_what_python_leaves_or_are_refused(setup: str, state: str, body: str) -> None:
    check(setup, body, state, refusals=True)


def test_native_programs() -> None:
    for_each({case[1]: (*case, False, "native") for case in (
        (CLASS, "c.n += 1; type(c).t += x.sum()", OF_CLASS), ("d = defaultdict(float)", "d['n'] += x.sum()", "dict(d)"),
        (STATE.format("None"), PREVIOUS[0], "s"), ("o = SimpleNamespace()", "o.mean = x.mean(); x = x - o.mean", "vars(o)"))}, check)


def test_a_dataclass_of_which_fields_are_replaced_is_one_program() -> None:
    """Also of fields that the code does not name, through a local variable, and in a function."""
    setup = ("from dataclasses import make_dataclass, replace\n"
             "D = make_dataclass('D', ('w', 'm', ('n', int, 0))); D.__module__ = __name__\n"
             "def ahead(d): return replace(d, n=d.n + 1)\ns = SimpleNamespace(d=D(np.ones(3), np.zeros(3)))")
    for body in ("s.d = replace(s.d, n=s.d.n + 1)", "d = s.d; s.d = replace(d, n=d.n + 1, w=d.w + x)", "s.d = ahead(s.d)"):
        check(setup, f"{body}\n    x = x * s.d.n", "vars(s.d)")
        compiled = aj.compile(make(setup, f"{body}\n    x = x * s.d.n", "s")[0], backend="interpret")
        for _ in range(4):
            compiled(np.ones(3))
        assert compiled.cache_info().traces == 1, body
