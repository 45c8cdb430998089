"""Functions that keep state, as setups, bodies and what is compared; `tests/tracer/test_state_of_programs.py` runs them."""

from __future__ import annotations

CASES: dict[str, tuple[str, str, list[str]]] = {
    "a namespace": (
        "s = SimpleNamespace(n=0, t=0.0, l=[], d={}, a=np.zeros(3), o=SimpleNamespace(n=0, t=0.), p=None)",
        "s", [
            "s.n += 1; s.o.n += s.n", "s.o.n += 1; s.n = s.o.n", "s.l.append(s.n); s.n += 1", "s.l.append(len(s.l))",
            "s.d[len(s.d)] = x.sum()", "s.d[s.n] = x.sum(); s.n += 1", "s.t += x.sum(); s.o.t += x.sum()",
            "s.t += 1; s.t += x.sum(); s.t *= 2", "s.t = s.t + 1", "s.t -= x.mean() * 2", "s.t += float(x.sum())",
            "s.t += int(x.sum() > 5)", "s.l += [x.sum()]", "s.l = s.l + [x.sum()]", "s.l = [*s.l, 1]", "s.a += x", "s.a = s.a + 1",
            "s.a[0] += x.sum()", "s.a = s.a + x", "s.p = s.a", "s.p = s.a; s.a = x", "s.p = s.l; s.l = []",
            "s.p = s.o; s.o = SimpleNamespace(n=1, t=x.sum())", "s.p, s.o = s.o, s.p", "s.n, s.t = s.t, s.n",
            "s.p = (s.n, s.t); s.n += 1", "s.n += 1 if x.sum() > 5 else 2", "if s.n == 0: s.p = x.sum()\n    s.n = 1", "s.n = s.n or 1",
            "s.n = max(s.n, 3)", "s.n ^= 1", "s.n = not s.n", "s.n = -s.n", "s.p = x.sum() if s.p is None else s.p",
            "s.p = s.p if s.p is not None else x.sum()", "s.d['a'] = s.d.get('a', 0.0) + 1.0", "s.d['a'] = s.d.get('a', 0.0) + x.sum()",
            "s.d.setdefault('a', x.sum())", "s.d.setdefault(s.n, []).append(x.sum())", "s.l.append(x.sum()); s.l = s.l[-2:]",
            "s.l.append(x.sum()); del s.l[:-2]", "s.l.insert(0, x.sum())", "s.l.append(s.l[-1] if s.l else 0)", "s.l[:] = [x.sum()]",
            "s.l.extend([1, x.sum()])", "s.o.n += 1; s.p = s.o", "s.new = getattr(s, 'new', 0) + 1",
            "s.new = getattr(s, 'new', 0.0) + x.sum()", "s.new = s.n; s.n += 1", "s.first = getattr(s, 'first', x.sum())",
            "if not hasattr(s, 'z'): s.z = x.sum()", "if not hasattr(s, 'z'): s.z = []\n    s.z.append(x.sum())",
            "s.__dict__['q'] = s.__dict__.get('q', 0) + 1", "try: s.cnt += 1\n    except AttributeError: s.cnt = 1",
            "s.prev = s.p; s.p = x.sum(); s.two = s.prev", "s.prev = s.p; s.p = x.copy()",
            "s.l.append(s.p); s.p = x.sum(); s.l = s.l[-3:]", "s.l = [s.p]; s.p = x.sum()", "s.d['prev'] = s.p; s.p = x.sum()",
            "s.p2 = s.p1 if hasattr(s, 'p1') else None; s.p1 = x.sum()", "s.swap = s.a; s.a = s.o.t; s.o.t = s.swap",
            "s.o.t, s.t = s.t, x.sum()", "s.o.prev = s.t; s.t = x.sum()", "s.l[:] = [s.t]; s.t = x.sum()",
            "s.l.insert(0, s.t); s.t = x.sum()", "s.tup = (s.t, x.sum()); s.t = x.max()",
            "s.hist = (getattr(s, 'hist', ()) + (x.sum(),))[-2:]", "s.p = s.t; s.t = s.o.t; s.o.t = x.sum()"]),
    "variables": (
        "n, t, prev, cur, l = 0, 0.0, None, None, []",
        "(n, t, prev, cur, l)", [
            "global n; n += 1", "global t; t += x.sum()", "global prev, cur; prev = cur; cur = x.sum()",
            "global prev, cur; prev, cur = cur, x.sum()", "global n, prev; prev = n; n += 1", "global n; n += 1; l.append(n)",
            "globals()['n'] += 1", "global n; n = len(l); l.append(x.sum())"]),
    "a module": (
        "m = ModuleType('m'); m.n = 0; m.t = 0.0; m.prev = None; m.cur = None",
        "{k: v for k, v in vars(m).items() if k[0] != '_'}", [
            "m.n += 1", "m.t += x.sum()", "m.prev = m.cur; m.cur = x.sum()", "m.new = x.sum()", "m.new = getattr(m, 'new', 0) + 1",
            "setattr(m, 'n', m.n + 1)"]),
    "classes": (
        """class Meter:
    total, count, last, best = 0.0, 0, None, float('inf')
    values = []
    def update(self, v, n=1):
        self.last = v
        self.total += v * n
        self.count += n
    def add(self, v): self.values.append(v)
    def reset(self): self.total = 0.0; self.count = 0
    @property
    def avg(self): return self.total / max(self.count, 1)
    @classmethod
    def new(cls): cls.count += 1; return cls()
    @staticmethod
    def bump(m): m.count += 1
class Sub(Meter):
    def update(self, v, n=1):
        super().update(v, n)
        self.best = v
m, m2, sub = Meter(), Meter(), Sub()
""",
        "(vars(m), vars(m2), vars(sub), Meter.total, Meter.count, Meter.last, Meter.values)", [
            "m.update(x.sum())", "m.update(x.sum(), 3); m2.update(1.0)", "sub.update(x.sum())", "m.add(x.sum())",
            "m.reset(); m.update(x.sum())", "m.reset(); m.update(x.sum()); return m.avg", "m.update(x.sum()); return m.avg",
            "Meter.bump(m)", "Meter.bump(Meter)", "type(m).last = m.last; m.last = x.sum()", "m2.last = m.last; m.last = x.sum()",
            "Meter.new()", "q = Meter(); q.update(x.sum()); return q.avg", "q = Meter(); q.update(x.sum()); m.last = q",
            "type(m).values = [x.sum()]", "m.values += [x.sum()]", "m.values = m.values + [1]", "m.count = 3; m.count += 1",
            "for k in (m, m2, sub): k.count += 1", "for k in (m, m2, sub): k.update(x.sum())", "for k in (Meter, Sub): k.count += 1",
            "type(sub).count += 1", "m.total += 1; type(m2).count += 1; sub.count -= 1", "(m if x.sum() > 5 else m2).count += 1"]),
    "dicts": (
        """from collections import OrderedDict
d = defaultdict(float); e = defaultdict(list); g = defaultdict(lambda: defaultdict(int))
c = Counter(); w = [0, 0.0]; h = {'a': 0, 'b': {'c': 0}}
""",
        "(dict(d), dict(e), {k: dict(v) for k, v in g.items()}, dict(c), w, h)", [
            "d['a'] += 1; d['b'] -= x.sum()", "for i in range(3): d[i] += x.sum()", "for i in range(3): d['k%d' % i] += i",
            "d[x.ndim] += 1", "d['a'] += 1; e['a'].append(d['a'])", "e['a'].append(x.sum()); e['b'].append(1)", "e['a'] = [x.sum()]",
            "g['a']['b'] += 1; g['a']['c'] += 2", "c['a'] += 1; c['b'] += 2", "c.update(a=1)", "c['a'] += x.sum()", "c.subtract('ab')",
            "w[0] += 1; w[1] += x.sum()", "w[-1] += 1", "h['a'] += 1; h['b']['c'] += 1", "h['b']['c'] += x.sum()",
            "h['z'] = h['a']; h['a'] += 1", "h['prev'] = h['a']; h['a'] = x.sum()", "d['a'] += 1; d['n'] = len(d)",
            "d['a'] += 1; del d['a']", "d.pop('a', None); d['a'] += 1", "d.clear(); d['a'] += 1",
            "if 'a' in d: d['b'] += 1\n    d['a'] += 1", "d['a'] += 1\n    for k in list(d): e[k].append(1)", "d['a'] = max(d['a'], 3)",
            "d['a'] = max(d['a'], x.sum())", "d['a'] += d['b'] + 1", "v = d['a']; d['a'] = v + 1",
            "d['a'] += 1; d['a'] += 1 if x.sum() > 5 else 5", "d[('t', 1)] += 1", "d[None] += 1",
            "if x.sum() > 5: d['big'] += 1\n    else: d['small'] += x.sum()", "while x.sum() > 1:\n        x = x / 2; d['rounds'] += 1",
            "aj.grad(lambda y: (d.__setitem__('a', d['a'] + 1), y @ y)[1])(x)", "d.update(a=d['a'] + 1)", "e['a'] += [1]; e['a'] += [2]",
            "e['a'] = e['a'] + [1]", "e['a'].extend(e['b'])"]),
}
