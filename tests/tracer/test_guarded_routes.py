"""Routes by which a traced function reads what is outside of its arguments: what changes there is seen at the next call, as plain Python
sees it."""

from __future__ import annotations

import builtins
import decimal
import itertools
import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest

from adjit.tracer.guards.module_owner import ModuleOwner, owner_of

_numbers = itertools.count()


class Route(NamedTuple):
    """Text of a user's module: statements before the trace, the number that the traced function reads, and statements that change it."""

    before: str
    read: str
    change: str


BUILTINS = {
    "max": Route("", "max(2.0, 3.0)", "max = min"),
    "sum": Route("", "sum([2.0, 3.0])", "sum = max"),
    "abs": Route("", "abs(-2.0)", "abs = float"),
    "float": Route("", "float(2)", "float = abs; abs = int; float = lambda number: 3.0 * number"),
    "global that shadowed one": Route("max = min", "max(2.0, 3.0)", "del max"),
}

NAMESPACES = {
    "vars": Route("o = Namespace(a=1.0)", "sum(vars(o).values())", "o.b = 2.0"),
    "keywords of vars": Route("o = Namespace(a=1.0)", "(lambda a, b=0.0: a + b)(**vars(o))", "o.b = 2.0"),
    "the dict": Route("o = SimpleNamespace(a=1.0)", "len(o.__dict__)", "o.b = 2.0"),
    "a name in vars": Route("o = SimpleNamespace(a=1.0)", "2.0 if 'b' in vars(o) else 3.0", "o.b = 2.0"),
    "a name in a namespace": Route("o = Namespace(a=1.0); name = 'b'", "2.0 if name in o else 3.0", "o.b = 2.0"),
    "a constant in a namespace": Route("o = Namespace(a=1.0)", "2.0 if 'b' in o else 3.0", "o.b = 2.0"),
    "vars of an empty one": Route("o = SimpleNamespace()", "len(vars(o)) + 1.0", "o.b = 2.0"),
    "vars of an empty object": Route("class C: pass\no = C()", "len(vars(o)) + 1.0", "o.b = 2.0"),
    "another dict": Route("o = Namespace(a=1.0)", "len(vars(o))", "o.__dict__ = {'a': 1.0, 'b': 2.0}"),
    "another dict of an object": Route("class C: pass\no = C(); o.a = 1.0", "len(vars(o))", "o.__dict__ = {'a': 1.0, 'b': 2.0}"),
    "equal": Route("o = Namespace(a=1.0)", "2.0 if o == Namespace(a=1.0) else 3.0", "o.b = 2.0"),
    "unequal, one of an object": Route("p = Namespace(o=Namespace(a=1.0))", "2.0 if Namespace(a=1.0) != p.o else 3.0", "p.o.b = 2.0"),
    "equal to another": Route("o, p = Namespace(a=1.0), Namespace(a=1.0)", "2.0 if o == p else 3.0", "p.a = 2.0"),
    "equal parameters": Route(
        "o, p = Namespace(a=1.0), Namespace(a=1.0)\ndef equal(a, b): return a == b", "2.0 if equal(o, p) else 3.0", "p.a = 2.0"),
    "equal data": Route("@dataclass\nclass C:\n    a: float\no, p = C(1.0), C(1.0)", "2.0 if o == p else 3.0", "p.a = 2.0"),
    "dir": Route("o = SimpleNamespace(a=1.0)", "len(dir(o))", "o.b = 2.0"),
    "dir of a class": Route("class C: pass", "len(dir(C))", "C.b = 2.0"),
    "repr": Route("o = SimpleNamespace(a=1.0)", "len(repr(o))", "o.b = 2.0"),
    "repr of a value": Route("o = SimpleNamespace(a=1.0)", "len(repr(o))", "o.a = 21.0"),
    "str": Route("o = Namespace(a=1.0)", "len(str(o))", "o.b = 2.0"),
    "formatted": Route("o = Namespace(a=1.0)", "len(f'{o}')", "o.b = 2.0"),
    "str.format": Route("o = Namespace(a=1.0)", "len('{}'.format(o))", "o.b = 2.0"),
    "vars of a class": Route("class C: pass", "len(vars(C))", "C.b = 2.0"),
    "members": Route("o = SimpleNamespace(a=1.0)", "len(inspect.getmembers(o))", "o.b = 2.0"),
    "computed name": Route("o = SimpleNamespace(a=1.0); name = 'b'", "getattr(o, name, 3.0)", "o.b = 2.0"),
    "computed name of a class": Route("class C: pass\nname = 'b'", "getattr(C, name, 3.0)", "C.b = 2.0"),
    "computed name of a class attribute": Route("class C: b = 2.0\no = C(); name = 'b'", "getattr(o, name)", "C.b = 3.0"),
    "computed name of a method": Route(
        "rate, name = 2.0, 'get'\nclass C:\n    def get(self): return rate\no = C()", "getattr(o, name)()", "rate = 3.0"),
    "nested namespaces": Route("o = Namespace(a=Namespace(b=1.0))", "2.0 if o == Namespace(a=Namespace(b=1.0)) else 3.0", "o.a.c = 2.0"),
    "under two names": Route("o = Namespace(a=1.0); p = o", "2.0 * o.a if len(str(p)) == 16 else 3.0", "o.b = 2.0"),
    "one in a list": Route("rows = [Namespace(a=1.0)]", "2.0 if rows == [Namespace(a=1.0)] else 3.0", "rows[0].b = 2.0"),
    "one of a closure": Route(
        "def make():\n    o = Namespace(a=1.0)\n    return o, lambda: len(vars(o))\no, get = make()", "get()", "o.b = 2.0"),
    "asdict": Route(
        "import dataclasses\n@dataclass\nclass C:\n    a: float\no = C(1.0)", "sum(dataclasses.asdict(o).values())", "o.a = 2.0"),
    "copied": Route("import copy\no = Namespace(a=1.0)", "len(vars(copy.copy(o)))", "o.b = 2.0"),
    "attrgetter": Route("import operator\no, get = Namespace(a=1.0), operator.attrgetter('a')", "get(o)", "o.a = 2.0"),
    "computed name of the class of an object": Route("class C: pass\no = C(); name = 'b'", "getattr(o, name, 3.0)", "C.b = 2.0"),
}
MODULES = {
    "vars of a module": Route("import THIS as me", "len([name for name in vars(me) if name.startswith('rate')]) + 1.0", "rate_b = 2.0"),
    "globals": Route("rate_a = 1.0", "sum([v for k, v in globals().items() if k.startswith('rate')])", "rate_b = 2.0"),
    "a name in globals": Route("", "2.0 if 'rate' in globals() else 3.0", "rate = 2.0"),
    "a computed name in globals": Route("name = 'rate'", "2.0 if name in globals() else 3.0", "rate = 2.0"),
    "an item of globals": Route("name, rate = 'rate', 2.0", "globals()[name]", "rate = 3.0"),
    "an item of globals, said in parts": Route("end, rate = 'te', 2.0", "globals()['ra' + end]", "rate = 3.0"),
    "get": Route("name = 'rate'", "globals().get(name, 2.0)", "rate = 3.0"),
    "globals of a function": Route("rate = 2.0", "helper.__globals__['rate']", "rate = 3.0"),
    "globals of a frame": Route("name, rate = 'rate', 2.0", "sys._getframe().f_globals[name]", "rate = 3.0"),
    "sys.modules": Route("rate = 2.0", "sys.modules['THIS'].rate", "rate = 3.0"),
    "sys.modules by __name__": Route("rate = 2.0", "sys.modules[__name__].rate", "rate = 3.0"),
    "sys.modules by another name": Route("rate = 2.0; mine = sys.modules.get", "mine('THIS').rate", "rate = 3.0"),
    "sys.modules, get": Route("rate = 2.0", "sys.modules.get('THIS').rate", "rate = 3.0"),
    "import_module": Route("rate = 2.0", "importlib.import_module('THIS').rate", "rate = 3.0"),
    "import_module by another name": Route("rate = 2.0; bring = importlib.import_module", "bring('THIS').rate", "rate = 3.0"),
    "__import__": Route("rate = 2.0", "__import__('THIS').rate", "rate = 3.0"),
    "another module": Route(
        "rate = 2.0", "sys.modules['THIS'].rate",
        "other = types.ModuleType('THIS'); other.rate = 3.0; sys.modules['THIS'] = other"),
    "from an import in the function": Route(
        "rate = 2.0\ndef get():\n    from THIS import rate\n    return rate", "get()", "rate = 3.0"),
    "a module that is imported anew": Route(
        "rate = 2.0\ndef get():\n    import THIS as me\n    return me.rate", "get()",
        "other = types.ModuleType('THIS'); other.rate = 3.0; sys.modules['THIS'] = other"),
    "inspect.getmodule": Route("rate = 2.0", "inspect.getmodule(helper).rate", "rate = 3.0"),
    "pkgutil": Route("import pkgutil\nrate = 2.0", "pkgutil.resolve_name('THIS:rate')", "rate = 3.0"),
}
TEXTS = {
    "eval": Route("text, rate = 'rate', 2.0", "eval(text)", "rate = 3.0"),
    "eval of a constant": Route("rate = 2.0", "eval('rate * 2.0')", "rate = 3.0"),
    "eval, computed": Route("end, rate = 'te', 2.0", "eval(f'ra{end}')", "rate = 3.0"),
    "eval of code": Route("text, rate = compile('rate', 'a.py', 'eval'), 2.0", "eval(text)", "rate = 3.0"),
    "eval of an attribute": Route("text, o = 'o.rate', SimpleNamespace(rate=2.0)", "eval(text)", "o.rate = 3.0"),
    "eval of a call": Route("text, rate = 'get()', 2.0\ndef get(): return rate", "eval(text)", "rate = 3.0"),
    "eval of another text": Route("text, rate, other = 'rate', 2.0, 3.0", "eval(text)", "text = 'other'"),
    "eval of a held text": Route("o, rate = SimpleNamespace(text='rate'), 2.0", "eval(o.text)", "rate = 3.0"),
    "eval of a listed text": Route("texts, rate = ['rate'], 2.0", "eval(texts[0])", "rate = 3.0"),
    "eval of a parameter": Route("text, rate = 'rate', 2.0\ndef get(text): return eval(text)", "get(text)", "rate = 3.0"),
    "eval in a lambda": Route("text, rate = 'rate', 2.0", "(lambda: eval(text))()", "rate = 3.0"),
    "eval in eval": Route("text, inner, rate = 'eval(inner)', 'rate', 2.0", "eval(text)", "rate = 3.0"),
    "eval with names": Route("text, o = 'o.rate', SimpleNamespace(rate=2.0)", "eval(text, {'o': o})", "o.rate = 3.0"),
    "eval with a dict": Route("text, names = 'rate', {'rate': 2.0}; eval(text, names)", "eval(text, names)", "names['rate'] = 3.0"),
    "eval with no names": Route("text, rate = 'rate', 2.0", "eval(text, None, {'other': 1.0})", "rate = 3.0"),
    "eval of a text with names, computed": Route(
        "end, o = 'te', SimpleNamespace(rate=2.0)", "eval('o.ra' + end, {'o': o})", "o.rate = 3.0"),
    "eval of an import": Route("text, rate = '__import__(\"THIS\").rate', 2.0", "eval(text)", "rate = 3.0"),
    "eval by another name": Route("find, text, rate = eval, 'rate', 2.0", "find(text, globals())", "rate = 3.0"),
    "exec": Route(
        "text, rate, found = 'found.append(rate)', 2.0, []\ndef run():\n    exec(text)\n    return found.pop()", "run()", "rate = 3.0"),
    "str.format": Route("o = SimpleNamespace(rate=2.0)", "float('{0.rate}'.format(o))", "o.rate = 3.0"),
    "str.format with a variable": Route(
        "text, o = '{0.rate}', SimpleNamespace(rate=2.0)", "float(text.format(o))", "o.rate = 3.0"),
    "format_map": Route("o = SimpleNamespace(rate=2.0)", "float('{o.rate}'.format_map({'o': o}))", "o.rate = 3.0"),
    "nested format": Route("o = SimpleNamespace(in_=SimpleNamespace(rate=2.0))", "float('{0.in_.rate:.2f}'.format(o))", "o.in_.rate = 3.0"),
    "str.format unbound": Route("o = SimpleNamespace(rate=2.0)", "float(str.format('{0.rate}', o))", "o.rate = 3.0"),
    "string.Formatter": Route(
        "import string\no = SimpleNamespace(rate=2.0)", "float(string.Formatter().format('{0.rate}', o))", "o.rate = 3.0"),
}
FALLBACKS = {
    "of the object": Route("class C:\n    def __getattr__(self, name): return 2.0\no = C()", "o.rate", "o.rate = 3.0"),
    "of the class": Route("class C:\n    def __getattr__(self, name): return 2.0\no = C()", "o.rate", "C.rate = 3.0"),
    "of a base": Route(
        "class B: pass\nclass C(B):\n    def __getattr__(self, name): return 2.0\no = C()", "o.rate", "B.rate = 3.0"),
    "of a metaclass": Route(
        "class M(type):\n    def __getattr__(self, name): return 2.0\nclass C(metaclass=M): pass", "C.rate", "C.rate = 3.0"),
    "of a module": Route("import THIS as me\ndef __getattr__(name): return 2.0", "me.rate", "rate = 3.0"),
    "what one of a module reads": Route("import THIS as me\nheld = 2.0\ndef __getattr__(name): return held", "me.rate", "held = 3.0"),
    "one in a slot": Route(
        "class C:\n    __slots__ = ('rate',)\n    def __getattr__(self, name): return 2.0\no = C()", "o.rate", "o.rate = 3.0"),
}
OTHERS = {
    "property of a base set later": Route(
        "class B: pass\nclass C(B):\n    rate = 2.0\no = C()", "o.rate", "C.rate = property(lambda self: 3.0)"),
    "class attribute deleted": Route("class B: rate = 2.0\nclass C(B): rate = 3.0\no = C()", "o.rate", "del C.rate"),
    "class of an object": Route("class B: rate = 2.0\nclass C: rate = 3.0\no = C()", "o.rate", "o.__class__ = B"),
    "class in a variable": Route("class C: rate = 3.0\nkind = C", "kind.rate", "C.rate = 4.0"),
    "type of an object": Route("class C: rate = 3.0\no = C()", "type(o).rate", "C.rate = 4.0"),
    "__class__": Route("class C: rate = 3.0\no = C()", "o.__class__.rate", "C.rate = 4.0"),
    "super": Route(
        "class B:\n    def get(self): return 2.0\nclass C(B):\n    def get(self): return super().get()\no = C()", "o.get()",
        "B.get = lambda self: 3.0"),
    "super behind a nearer class": Route(
        "class B: rate = 2.0\nclass C(B):\n    rate = 1.0\n    def get(self): return super().rate\no = C()", "o.get()", "B.rate = 3.0"),
    "super behind the object": Route(
        "class B: rate = 2.0\nclass C(B):\n    def get(self): return super().rate\no = C(); o.rate = 1.0", "o.get()", "B.rate = 3.0"),
    "bases": Route("class A: rate = 2.0\nclass B: rate = 3.0\nclass C(A): pass\no = C()", "o.rate", "C.__bases__ = (B,)"),
    "partial keywords": Route(
        "from functools import partial\ndef get(a): return a\np = partial(get, a=2.0)", "p()", "p.keywords['a'] = 3.0"),
    "list of True": Route("s = [1]", "2.0 if type(s[0]) is int else 3.0", "s[0] = True"),
    "key of a dict": Route("d = {1: 2.0}", "2.0 if type(list(d)[0]) is int else 3.0", "del d[1]; d[True] = 2.0"),
    "signed zero": Route("z = 0.0", "math.copysign(2.0, z)", "z = -0.0"),
    "function attribute": Route("def get(): return get.rate\nget.rate = 2.0", "get()", "get.rate = 3.0"),
    "new function attribute": Route("def get(): return getattr(get, 'rate', 2.0)", "get()", "get.rate = 3.0"),
    "vars of a function": Route("def get(): return 1.0 + len(vars(get))", "get()", "get.rate = 3.0"),
    "default in a nested function": Route("def get(a=[1.0]): return sum(a)", "get()", "get.__defaults__[0].append(2.0)"),
    "signature": Route("def get(a=1.0): return a", "inspect.signature(get).parameters['a'].default", "get.__defaults__ = (2.0,)"),
    "closure of a function": Route(
        "def make(rate):\n    def get(): return rate\n    return get\nget = make(2.0)", "get.__closure__[0].cell_contents",
        "get.__closure__[0].cell_contents = 3.0"),
    "constant of code": Route("def get(): return 2.0", "get.__code__.co_consts[1]", "get.__code__ = (lambda: 3.0).__code__"),
    "enum": Route(
        "import enum\nclass E(enum.Enum):\n    A = 1\nE.A.rate = 2.0", "E['A'].rate", "E.A.rate = 3.0"),
    "chained maps": Route("import collections\na = {}; d = collections.ChainMap(a, {'rate': 2.0})", "d['rate']", "a['rate'] = 3.0"),
    "mapping proxy": Route("a = {'rate': 2.0}; d = types.MappingProxyType(a)", "sum(d.values())", "a['b'] = 3.0"),
    "view of a dict": Route("a = {'rate': 2.0}; d = a.values()", "sum(d)", "a['b'] = 3.0"),
    "default of a dict": Route("d = {}", "d.get('rate', 2.0)", "d['rate'] = 3.0"),
    "missing attribute of a class": Route("class C: pass", "getattr(C, 'rate', 2.0)", "C.rate = 3.0"),
    "caught": Route("def get():\n    try: return rate\n    except NameError: return 2.0", "get()", "rate = 3.0"),
    "caught key": Route("d = {}\ndef get():\n    try: return d['rate']\n    except KeyError: return 2.0", "get()", "d['rate'] = 3.0"),
    "import that fails": Route(
        "def get():\n    try: import THIS_other as other\n    except ImportError: return 2.0\n    return other.rate", "get()",
        "other = types.ModuleType('THIS_other'); other.rate = 3.0; sys.modules['THIS_other'] = other"),
    "length": Route("class C:\n    def __len__(self): return 2\no = C()", "len(o)", "C.__len__ = lambda self: 3"),
    "named tuple": Route("T = __import__('collections').namedtuple('T', 'rate')\no = T(2.0)", "o.rate", "o = T(3.0)"),
    "operator": Route("import operator\no = SimpleNamespace(a=[1.0])", "operator.length_hint(o.a)", "o.a.append(2.0)"),
    "map": Route("names, rate = ['rate'], 2.0", "sum(map(globals().get, names))", "rate = 3.0"),
    "map of getattr": Route("names, o = ['rate'], SimpleNamespace(rate=2.0)", "sum(map(lambda n: getattr(o, n), names))", "o.rate = 3.0"),
    "methodcaller": Route(
        "import operator\nclass C:\n    rate = 2.0\n    def get(self): return self.rate\no = C(); call = operator.methodcaller('get')",
        "call(o)", "C.rate = 3.0"),
    "itemgetter": Route("import operator\nd = {'a': 2.0}; get = operator.itemgetter('a')", "get(d)", "d['a'] = 3.0"),
    "weak reference": Route(
        "import weakref\nclass C: rate = 2.0\no = C(); r = weakref.ref(o)", "r().rate", "o.rate = 3.0"),
    "nonlocal": Route(
        "def make():\n    rate = 2.0\n    def put():\n        nonlocal rate\n        rate = 3.0\n    return put, lambda: rate\n"
        "put, get = make()", "get()", "put()"),
    "descriptor": Route(
        "class D:\n    held = 2.0\n    def __get__(self, owner, kind): return self.held\nclass C: rate = D()\no = C()", "o.rate",
        "D.held = 3.0"),
    "context variable": Route(
        "import contextvars\nv = contextvars.ContextVar('v', default=2.0)", "v.get()", "v.set(3.0)"),
}
ARRAYS = {
    "length": Route("y = np.ones(3)", "len(y)", "y.resize(6, refcheck=False)"),
    "size": Route("y = np.ones(3)", "y.size", "y.resize(6, refcheck=False)"),
    "rank": Route("y = np.ones(4)", "y.ndim", "y.resize((2, 2), refcheck=False)"),
    "shape": Route("y = np.ones((4, 1))", "y.shape[0]", "y.resize((2, 2), refcheck=False)"),
    "np.shape": Route("y = np.ones((4, 1))", "np.shape(y)[0]", "y.resize((2, 2), refcheck=False)"),
    "dtype": Route("y = np.ones(3)", "2.0 if y.dtype == np.float64 else 3.0", "y.dtype = np.int64"),
    "dtype of content": Route("y = np.ones(3)", "float(y[0])", "y.dtype = np.int64"),
    "flags": Route("y = np.ones(3)", "2.0 if y.flags.writeable else 3.0", "y.setflags(write=False)"),
    "flags set": Route("y = np.ones(3); y.setflags(write=False)", "2.0 if y.flags.writeable else 3.0", "y.setflags(write=True)"),
    "length of an attribute": Route("o = SimpleNamespace(y=np.ones(3))", "len(o.y)", "o.y.resize(6, refcheck=False)"),
    "length of a row": Route("y = np.ones((2, 3))", "len(y[0])", "y.resize((3, 2), refcheck=False)"),
    "row": Route("y = np.ones((2, 2))", "np.sum(y[0] * x)", "y.resize((3, 2), refcheck=False); y[:] = 2.0"),
    "row, another array": Route("y = np.ones((2, 2))", "np.sum(y[0] * x)", "y = np.full((2, 2), 5.0)"),
    "row and whole": Route("y = np.ones((2, 2))", "(np.sum(y[0] * x) + np.sum(y * x))", "y = np.full((2, 2), 5.0)"),
    "row and whole, written": Route("y = np.ones((2, 2))", "(np.sum(y[0] * x) + np.sum(y * x))", "y[:] = 5.0"),
    "transposed": Route("y = np.ones((2, 3))", "np.sum(y.T @ x)", "y.resize((2, 1), refcheck=False)"),
    "reshaped": Route("y = np.ones((2, 3))", "np.sum(y.reshape(-1, 2) @ x)", "y.resize((2, 4), refcheck=False)"),
    "whole": Route("y = np.ones((3, 2))", "np.sum(y * x)", "y.resize((4, 2), refcheck=False)"),
    "flags of a whole": Route("y = np.ones(2)", "np.sum(y * x) * (1.0 if y.flags.writeable else 2.0)", "y.setflags(write=False)"),
    "zeros like it": Route("y = np.ones(3)", "len(np.zeros_like(y))", "y.resize(6, refcheck=False)"),
    "strided": Route("y = np.ones((4, 4))[:, ::2]", "len(y)", "y.setflags(write=False); y = y[:2]"),
}
CLASSES = {
    "bases": Route("class A: rate = 2.0\nclass B: rate = 3.0\nclass C(A): pass\nc = C()", "c.rate", "C.__bases__ = (B,)"),
    "bases with methods": Route(
        "class A:\n    def get(self): return 2.0\nclass B:\n    def get(self): return 3.0\nclass C(A): pass\nc = C()", "c.get()",
        "C.__bases__ = (B,)"),
    "bases and isinstance": Route(
        "class A: pass\nclass B: pass\nclass C(A): pass\nc = C()", "2.0 if isinstance(c, A) else 3.0", "C.__bases__ = (B,)"),
    **{f"{name} later": Route(f"class C: {body}\nc = C()", read, f"C.{name} = lambda *_: {returned}") for name, body, read, returned in (
        ("__len__", "pass", "2.0 if c else 3.0", "0"), ("__bool__", "pass", "2.0 if c else 3.0", "False"),
        ("__eq__", "pass", "2.0 if c == 1 else 3.0", "True"), ("__call__", "pass", "2.0 if callable(c) else 3.0", "1"),
        ("__contains__", "__iter__ = lambda self: iter([1])", "2.0 if 2 in c else 3.0", "True"),
        ("__iter__", "__getitem__ = lambda self, i: [1.0, 2.0][i]", "sum(c)", "iter([5.0])"))},
    "special method of a base": Route("class A: pass\nclass C(A): pass\nc = C()", "2.0 if c else 3.0", "A.__bool__ = lambda self: False"),
    "register": Route(
        "import abc\nclass A(abc.ABC): pass\nclass C: pass\nc = C()", "2.0 if isinstance(c, A) else 3.0", "A.register(C)"),
    "register with a derived class": Route(
        "import abc\nclass A(abc.ABC): pass\nclass B(A): pass\nclass C: pass", "2.0 if issubclass(C, A) else 3.0", "B.register(C)"),
    "__subclasses__": Route("class A: pass", "1.0 + len(A.__subclasses__())", "class B(A): pass"),
    "partial": Route(
        "from functools import partial\ndef add(a, b): return a + b\np = partial(add, 1.0)", "p(2.0)",
        "p.__setstate__((add, (5.0,), {}, {}))"),
    "proxy": Route(
        "class Proxy:\n    def __init__(self, held): object.__setattr__(self, 'held', held)\n"
        "    def __getattribute__(self, name): return getattr(object.__getattribute__(self, 'held'), name)\n"
        "o = SimpleNamespace(rate=2.0); p = Proxy(o)", "p.rate", "o.rate = 3.0"),
    "mock": Route("from unittest import mock\no = mock.MagicMock(); o.rate = 2.0", "o.rate", "o.rate = 3.0"),
    "type in a frozenset": Route(
        "held = frozenset({1})", "2.0 if True is next(iter(held)) else 3.0", "held = frozenset({True})"),
    "type in a set": Route("held = {1}", "2.0 if type(next(iter(held))) is int else 3.0", "held.clear(); held.add(1.0)"),
}
SETTINGS = {
    "module asked for": Route("", "2.0 if 'THIS_new' in sys.modules else 3.0", "sys.modules['THIS_new'] = types.ModuleType('THIS_new')"),
    "module asked for by a name": Route(
        "name = 'THIS_lib'", "2.0 if name in sys.modules else 3.0", "sys.modules['THIS_lib'] = types.ModuleType('THIS_lib')"),
    "environment by a name": Route(
        "import os\nos.environ['THE_RATE'] = '2'; name = 'THE_RATE'", "float(os.environ[name])", "os.environ['THE_RATE'] = '3'"),
    "environment by a computed name": Route(
        "import os\nos.environ['THE_RATE'] = '2'; end = 'RATE'", "float(os.getenv('THE_' + end))", "os.environ['THE_RATE'] = '3'"),
    "environment by another name": Route(
        "from os import environ as known\nknown['THE_RATE'] = '2'", "float(known['THE_RATE'])", "known['THE_RATE'] = '3'"),
    "environment in a text": Route(
        "import os\nos.environ['THE_RATE'] = '2'", "float(os.path.expandvars('$THE_RATE'))", "os.environ['THE_RATE'] = '3'"),
    "precision of decimals": Route(
        "import decimal\ndecimal.getcontext().prec = 4", "float(decimal.Decimal(1) / 3)", "decimal.getcontext().prec = 6"),
    "precision of a decimal": Route(
        "import decimal\ndecimal.getcontext().prec = 4; d = decimal.Decimal(1)", "float(d / 3)", "decimal.getcontext().prec = 6"),
    "print options": Route(
        "np.set_printoptions(precision=3)", "float(np.get_printoptions()['precision'])", "np.set_printoptions(precision=8)"),
    "recursion limit": Route("", "float(sys.getrecursionlimit())", "sys.setrecursionlimit(sys.getrecursionlimit() + 10)"),
    "path": Route("", "float(len(sys.path))", "sys.path.append('/nowhere')"),
    "attribute put into a library": Route("math.rate = 2.0", "math.rate", "math.rate = 3.0"),
    "builtin of one's own": Route("import builtins\nbuiltins.THIS_rate = 2.0", "THIS_rate", "builtins.THIS_rate = 3.0"),
    "logger": Route("import logging\nlog = logging.getLogger('THIS'); log.setLevel(10)", "2.0 if log.isEnabledFor(10) else 3.0",
                    "log.setLevel(20)"),
    "data of a library": Route(
        "class Odd(dict):\n    def __iter__(self): return iter(sorted(dict.keys(self)))\n"
        "    def __getitem__(self, key): return (lambda held: held if key == 'b' else 2.0 * held)(dict.__getitem__(self, key))\n"
        "lib = types.ModuleType('THIS_lib'); lib.__file__ = '/site-packages/lib.py'; sys.modules['THIS_lib'] = lib\n"
        "Odd.__module__ = 'THIS_lib'; lib.rates = Odd(b=[1.0], a=1.0)", "lib.rates['a'] + lib.rates['b'][0]", "lib.rates['b'][0] = 5.0"),
}
HOLDERS = {
    "null context": Route(
        "import contextlib\nheld = contextlib.nullcontext(SimpleNamespace(rate=2.0))\ndef get():\n    with held as o: return o.rate",
        "get()", "held.enter_result.rate = 3.0"),
    "factory of a dict": Route(
        "import collections\nd = collections.defaultdict(lambda: 2.0)", "d.default_factory()", "d.default_factory = lambda: 3.0"),
    "value of an enumeration": Route("import enum\nclass E(enum.Enum): A = [2.0]", "E.A.value[0]", "E.A.value[0] = 3.0"),
    "method by class of argument": Route(
        "from functools import singledispatchmethod\nclass C:\n    @singledispatchmethod\n    def get(self, v): return 2.0\no = C()",
        "o.get(1)", "C.get.register(int)(lambda self, v: 3.0)"),
    "pointer": Route("import ctypes\nc = ctypes.c_double(2.0); p = ctypes.pointer(c)", "p.contents.value", "c.value = 3.0"),
    "polynomial": Route("p = np.polynomial.Polynomial([2.0, 1.0])", "float(p(0.0))", "p.coef[0] = 3.0"),
    "vectorize": Route("k = [2.0]; f = np.vectorize(lambda v: v * k[0])", "float(f(1.0))", "k[0] = 3.0"),
    "frompyfunc": Route("k = [2.0]; f = np.frompyfunc(lambda v: v * k[0], 1, 1)", "float(f(1.0))", "k[0] = 3.0"),
    "weak proxy": Route("import weakref\nclass C: rate = 2.0\no = C(); p = weakref.proxy(o)", "p.rate", "o.rate = 3.0"),
    "own way to give items": Route(
        "k = [2.0]\nclass L(list):\n    def __getitem__(self, i): return k[0] * list.__getitem__(self, i)\nitems = L([1.0])", "items[0]",
        "k[0] = 3.0"),
}
ROUTES: dict[str, Route] = {
    f"{kind}: {name}": route for kind, routes in {
        "builtin": BUILTINS, "namespace": NAMESPACES, "module": MODULES, "text": TEXTS, "array": ARRAYS, "other": OTHERS, "class": CLASSES,
        "__getattr__": FALLBACKS, "setting": SETTINGS, "holder": HOLDERS}.items()
    for name, route in routes.items()}
FUNCTIONS = {
    "compiled": "aj.compile(lambda x: np.sum(x) * READ)",
    "interpreted": "aj.compile(lambda x: np.sum(x) * READ, backend='interpret')",
    "value_and_grad": "aj.value_and_grad(lambda x: np.sum(x) * READ)",
    "with a helper": "aj.compile(lambda x: np.sum(x) * helper(x))",
    "with a nested function": "aj.compile(outer)",
    "method": "aj.compile(Model().loss)",
}
MODULE = """
import importlib, inspect, math, sys, types
from argparse import Namespace
from dataclasses import dataclass
from types import SimpleNamespace
import numpy as np
import adjit as aj

BEFORE

def helper(x=None):
    return READ

def outer(x):
    def inner(x):
        return np.sum(x) * READ
    return inner(x)

class Model:
    def loss(self, x):
        return np.sum(x) * READ

def plain(x):
    return np.sum(x) * READ
"""


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A module of the user, empty at first, and the only one: code that names no module by a constant reaches all of the user's, and
    those of tests that ran before hold queues and the like, of which a trace warns. What it sets elsewhere is taken back."""
    for other in [other for other in sys.modules if owner_of(other) is ModuleOwner.USER and other != "__main__"]:
        monkeypatch.delitem(sys.modules, other)
    made = ModuleType(f"guarded_route_{next(_numbers)}")
    made.__file__ = f"{made.__name__}.py"
    sys.modules[made.__name__] = made
    monkeypatch.setenv("THE_RATE", "0")
    monkeypatch.setattr(sys, "path", [*sys.path])
    limit, options, precision = sys.getrecursionlimit(), np.get_printoptions(), decimal.getcontext().prec
    yield made
    sys.setrecursionlimit(limit)
    np.set_printoptions(**options)
    decimal.getcontext().prec = precision
    for table in (sys.modules, vars(builtins), vars(math)):
        for name in [name for name in table if name.startswith(made.__name__) or (table is vars(math) and name == "rate")]:
            del table[name]


def run(module: ModuleType, text: str) -> None:
    exec(compile(text.replace("THIS", module.__name__), f"{module.__name__}.py", "exec"), vars(module))


def answers(found: Any) -> list[Any]:
    """Result of a compiled function as a list: of the value and of the gradient."""
    return [np.asarray(part).tolist() for part in (found if isinstance(found, tuple) else (found,))]


@pytest.mark.share(10)
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("name", ROUTES)
def test_a_change_is_seen(module: ModuleType, name: str, function: str) -> None:
    route, x = ROUTES[name], np.array([1.0, 2.0])
    run(module, MODULE.replace("BEFORE", route.before).replace("READ", f"({route.read})"))
    run(module, f"compiled = {FUNCTIONS[function].replace('READ', f'({route.read})')}")
    for change in ("", route.change):
        run(module, change)
        for _ in range(3):
            found = answers(module.compiled(x))
            assert found[0] == float(module.plain(x)), change
            if function == "value_and_grad" and " x" not in route.read:
                assert found[1] == [found[0] / 3.0] * 2, change
    if function != "value_and_grad":
        assert module.compiled.cache_info().traces <= 2, module.compiled.explain()


def test_modules_and_names_that_are_computed(tmp_path: Path) -> None:
    """All names of all modules of the user are watched: in a process of its own, as the tests' modules are too many."""
    script = tmp_path / "computed.py"
    script.write_text("import sys, numpy as np, adjit as aj\nname, rate = 'rate', 2.0\ndef helper(): pass\n"
                      "f = aj.compile(lambda x: x * getattr(sys.modules[helper.__module__], name))\n"
                      "print(f(1.5))\nrate = 3.0\nprint(f(1.5))\n"
                      "modules = ['__main__']\ng = aj.compile(lambda x: x * sys.modules[modules[0]].rate)\n"
                      "print(g(1.5))\nrate = 4.0\nprint(g(1.5))\n")
    done = subprocess.run([sys.executable, "-W", "error", script], capture_output=True, text=True)
    assert done.stdout.split() == ["3.0", "4.5", "4.5", "6.0"], done.stderr


QUIET = {
    "local variables": (
        "o = Namespace(rate=2.0, step=0)\ndef get(n):\n    for i in range(n):\n        if i == n: raise ValueError(f'{n} {i}')\n"
        "    return o.rate", "get(2)"),
    "membership": ("o = Namespace(rate=2.0, step=0)", "(o.rate if 1 in [1, 2] else 0.0)"),
    "a formatted local variable": ("o = SimpleNamespace(rate=2.0, step=0)", "(lambda n: o.rate + len(f'{n}' + str(n)))(2)"),
    "a number": ("@dataclass\nclass C:\n    rate: float\n    step: int\no = C(2.0, 0)", "(o.rate if o.rate == 2.0 else 0.0)"),
    "a method named modules": (
        "o = SimpleNamespace(rate=2.0, step=0)\nclass C:\n    def modules(self): return []\nnet = C()", "(len(net.modules()) + o.rate)"),
}


@pytest.mark.parametrize("name", QUIET)
def test_what_nobody_reads_may_change(module: ModuleType, name: str) -> None:
    before, read = QUIET[name]
    run(module, MODULE.replace("BEFORE", before).replace("READ", f"({read})"))
    run(module, "compiled = aj.compile(plain)")
    for step in range(4):
        module.o.step = step
        setattr(module, f"unread_{step}", step)
        assert float(module.compiled(np.ones(2))) == float(module.plain(np.ones(2)))
    assert module.compiled.cache_info().traces == 1, module.compiled.explain()
