"""Random programs in the style of `support.numpy_programs`, as source text: loops, branches on values, fresh arrays that are filled, masks,
views, writes in place, lists, accumulators, early breaks and returns.

A program is a tree of lines with known shapes, written from the top down; it is kept if NumPy runs it on all its data without a warning.
What each program may use is drawn first, so that some have one feature and others all. `smaller` removes lines while a check fails.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

FEATURES = ("fresh", "masks", "branches", "loops", "views", "while", "returns", "lists", "integers", "helpers", "arguments",
            "counters")
CALLS = 4
LARGEST = 1e4


@dataclass
class Line:
    """A line, and those that are indented below it."""

    text: str
    body: list[Line] = field(default_factory=list)

    def write(self, depth: int) -> Iterator[str]:
        yield "    " * depth + self.text
        for line in self.body:
            yield from line.write(depth + 1)


@dataclass(frozen=True)
class RandomProgram:
    """`program(x, y, A, s)` with the features it may use; `calls` are its data."""

    seed: int
    features: frozenset[str]
    lines: tuple[Line, ...]
    size: int

    @property
    def text(self) -> str:
        return "\n".join(["def program(x, y, A, s):", *(text for line in self.lines for text in line.write(1))]) + "\n"

    @property
    def function(self) -> Callable[..., Any]:
        names: dict[str, Any] = {"np": np, "math": math}
        exec(compile(self.text, f"random_numpy_program_{self.seed}.py", "exec"), names)
        return names["program"]

    def call(self, number: int) -> tuple[Any, ...]:
        draw = np.random.default_rng([self.seed, number])
        n = self.size
        x, y, A, s = draw.normal(size=n), draw.normal(size=n), draw.normal(size=(3, n)), float(draw.normal())
        return x, x if number in self.one_array_twice else y, A, s

    @property
    def one_array_twice(self) -> tuple[int, ...]:
        """Calls whose first two arguments are one array."""
        return () if self.seed % 4 else (CALLS - 1,)

    def script(self) -> str:
        """The program as a user would run it."""
        return (f"import math\nfrom copy import deepcopy\n\nimport numpy as np\nimport adjit as aj\n\n{self.text}\n"
                "compiled = aj.compile(program, backend='interpret')\n"
                f"for number in range({CALLS}):\n    draw = np.random.default_rng([{self.seed}, number])\n    n = {self.size}\n"
                "    arguments = draw.normal(size=n), draw.normal(size=n), draw.normal(size=(3, n)), float(draw.normal())\n"
                f"    if number in {self.one_array_twice}:\n        arguments = arguments[0], *arguments[:1], *arguments[2:]\n"
                "    print(program(*deepcopy(arguments)), compiled(*deepcopy(arguments)), sep='\\n')\n")


class Writer:
    """State of a program that is being written: names by kind, at this place."""

    def __init__(self, seed: int, features: Sequence[str]):
        self.random = Random(seed)
        self.n = self.random.randint(3, 6)
        count = self.random.choice((2, 3, 4, len(features)))
        self.features = frozenset(self.random.sample(features, min(count, len(features))))
        self.scalars, self.vectors, self.matrices = ["s"], ["x", "y"], ["A"]
        self.masks: list[str] = []
        self.lists: list[str] = []
        self.integers: list[str] = []
        self.counters: list[str] = []               # Python numbers: integers, steps and flags, by the first letter
        self.loops: list[tuple[str, int]] = []      # names of loop variables, and what they stay below
        self.owned: list[str] = []                  # vectors and matrices that may be written
        self.count = 0
        self.depth = 0
        self.rare: set[str] = set()                 # features that are costly, used once a program

    def has(self, *features: str) -> bool:
        return all(feature in self.features for feature in features)

    def new(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    def pick(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def number(self) -> str:
        return f"{self.random.choice((0.1, 0.25, 0.5, 0.7, 1.0, 1.5, 2.0, -0.3, -0.5, -1.0))}"

    # -- expressions

    def index(self) -> str:
        """A place in a vector."""
        known = [name for name, stop in self.loops if stop <= self.n]
        if known and self.random.random() < 0.7:
            name = self.random.choice(known)
            return self.pick(name, name, f"{name} - 1", f"-{name} - 1", f"({name} + 1) % {self.n}")
        if self.integers and self.random.random() < 0.3:
            return f"{self.random.choice(self.integers)} % {self.n}"
        return str(self.random.randrange(-self.n, self.n))

    def scalar(self, depth: int = 2) -> str:
        r = self.random
        if depth == 0 or r.random() < 0.25:
            return r.choice([r.choice(self.scalars), r.choice(self.scalars), self.number(),
                             f"{r.choice(self.vectors)}[{self.index()}]", f"{r.choice(self.matrices)}[{r.randrange(3)}, {self.index()}]"])
        a = self.scalar(depth - 1)
        match r.randrange(14 if depth == 2 else 11):
            case 0 | 1 | 2:
                operator, b = self.pick("+", "-", "*"), self.scalar(depth - 1)
                return f"{a} {operator} {b}" if depth == 1 else f"({a}) {operator} ({b})"
            case 3:
                return f"np.{self.pick('sin', 'tanh', 'cos', 'arctan')}({a})"
            case 4:
                return f"{self.pick('0.5 *', '-0.7 *', '1.1 *')} ({a})"
            case 5:
                return f"({a}) / (1.5 + ({self.scalar(0)}) ** 2)"
            case 6:
                return f"np.{self.pick('maximum', 'minimum')}({a}, {self.scalar(depth - 1)})"
            case 7:
                return f"np.sqrt(1.0 + ({a}) ** 2)"
            case 8:
                return f"abs({a})"
            case 9 if self.counters and r.random() < 0.6:
                return self.counted(a)
            case 9:
                known = [name for name, _ in self.loops]
                return f"({a}) * ({r.choice(known)} + 1)" if known else f"({a}) ** 2"
            case 10:
                if self.has("branches"):
                    return self.pick(f"max({a}, {self.scalar(0)})", f"min({a}, {self.scalar(0)}, 1.0)", f"math.sin({a})", f"float({a})",
                                     f"(({a}) if {self.condition()} else {self.scalar(0)})")
                return f"({a}) - 0.1"
            case 11:
                return f"np.{self.pick('max', 'min')}({self.vector(1)})"
            case 12:
                return f"{self.pick('np.sum', 'np.mean')}({self.vector(1)})"
            case _:
                return f"{r.choice(self.vectors)} @ {r.choice(self.vectors)} * 0.2"

    def vector(self, depth: int = 2) -> str:
        r = self.random
        if depth == 0 or r.random() < 0.25:
            return r.choice([r.choice(self.vectors), r.choice(self.vectors), f"{r.choice(self.matrices)}[{r.randrange(-3, 3)}]"])
        a = self.vector(depth - 1)
        match r.randrange(10):
            case 0 | 1 | 2:
                return f"({a}) {self.pick('+', '-', '*')} ({self.vector(depth - 1)})"
            case 3:
                return f"np.{self.pick('sin', 'tanh', 'cos')}({a})"
            case 4:
                return f"({a}) * ({self.scalar(0)})"
            case 5:
                return f"np.where({self.mask_of()}, {a}, {self.vector(0)})"
            case 6:
                return f"{self.pick('np.roll({}, 1)', '{}[::-1]', 'np.cumsum({}) * 0.3', 'np.sort({})')}".replace("{}", f"({a})")
            case 7:
                return f"({a}) / (2.0 + ({self.vector(0)}) ** 2)"
            case 8:
                return f"np.maximum({a}, {self.scalar(0)})"
            case _:
                return f"({a}) + {self.number()}"

    def mask_of(self) -> str:
        v = self.random.choice(self.vectors)
        simple = f"{v} {self.pick('>', '<', '>=')} {self.number()}"
        return self.pick(simple, simple, f"({simple}) & ({self.random.choice(self.vectors)} < 1.0)", f"~({simple})",
                         f"np.abs({v}) {self.pick('>', '<')} 0.6")

    def counted(self, a: str) -> str:
        """An expression with a Python number."""
        name = self.random.choice(self.counters)
        match name[0]:
            case "c":
                return self.pick(f"({a}) * (0.1 * {name})", f"({a}) / (1.0 + abs({name}))", f"({a}) + {name} % 3", f"({a}) - {name} // 2",
                                 f"({a}) * np.tanh({name})", f"({a}) * (1 / (1 + {name} * {name}))")
            case "t":
                return self.pick(f"({a}) * {name}", f"{name} - ({a})", f"({a}) / (1.0 + {name} * {name})")
            case _:
                return self.pick(f"({a}) + {name}", f"({a} if {name} else {self.scalar(0)})")

    def condition(self) -> str:
        if self.counters and self.random.random() < 0.3:
            name = self.random.choice(self.counters)
            of_counter = {"c": (f"{name} > 2", f"{name} % 2 == 0", f"{name} == 1", f"not {name}"), "t": (f"{name} < 0.5", f"{name} >= 1.0"),
                          "b": (name, f"not {name}")}
            return self.random.choice(of_counter[name[0]])
        a, b = self.scalar(0), self.number()
        return self.pick(f"{a} > {b}", f"{a} < {self.scalar(0)}", f"{a} > {b} and {self.scalar(0)} < 1.2", f"-1.0 < {a} < 0.8",
                         f"np.any({self.mask_of()})", f"np.all({self.mask_of()})", f"not {a} > {b}",
                         f"np.sum({self.random.choice(self.vectors)}) > {b}", f"{a} > {b} or {self.scalar(0)} > 0.5")

    # -- statements

    def block(self, count: int) -> list[Line]:
        """Lines of a body: names that it makes are not known behind it."""
        kept = {kind: list(getattr(self, kind)) for kind in ("scalars", "vectors", "matrices", "masks", "lists", "integers", "owned")}
        self.depth += 1
        lines = [line for _ in range(count) for line in self.statement()]
        self.depth -= 1
        for kind, names in kept.items():
            setattr(self, kind, names)
        return lines or [Line("pass")]

    def written(self, letter: str = "v") -> str | None:
        known = [name for name in self.owned if name[0] == letter or (letter == "v" and name in ("x", "y"))]
        return self.random.choice(known) if known else None

    def statement(self) -> list[Line]:
        makers = [self.assign, self.assign, self.update, self.update]
        makers += [self.fresh, self.fill] * self.has("fresh")
        makers += [self.masked, self.masked] * self.has("masks")
        makers += [self.branch, self.branch] * self.has("branches")
        makers += [self.loop, self.loop, self.loop] * self.has("loops")
        makers += [self.view] * self.has("views")
        makers += [self.until] * (self.has("while") and self.depth < 2)
        makers += [self.leave] * (self.has("returns") and self.depth < 2)
        makers += [self.append] * self.has("lists")
        makers += [self.integer] * self.has("integers")
        makers += [self.counter, self.counter, self.counter] * self.has("counters")
        makers += [self.helper] * (self.has("helpers") and self.depth == 0)
        return self.random.choice(makers)()

    def assign(self) -> list[Line]:
        kind = self.random.randrange(4)
        if kind == 0:
            made, text = self.new("v"), self.vector()
            copy = self.random.random() < 0.5
            line = Line(f"{made} = {'np.array(' + text + ')' if copy and self.has('fresh') else '1.0 * (' + text + ')'}")
            self.vectors.append(made)
            self.owned.append(made)
            return [line]
        if kind == 1 and self.depth == 0:
            made = self.new("M")
            line = Line(f"{made} = np.tanh({self.random.choice(self.matrices)} + {self.vector(1)})")
            self.matrices.append(made)
            self.owned.append(made)
            return [line]
        others = [name for name in self.scalars if self.random.random() < 0.5]
        text = self.scalar()
        if others and self.depth:
            return [Line(f"{self.random.choice(others)} = np.tanh({text})")]
        made = self.new("s")
        self.scalars.append(made)
        return [Line(f"{made} = {text}")]

    def update(self) -> list[Line]:
        r, target, matrix = self.random, self.written(), self.written("M")
        if matrix and r.random() < 0.3:
            i = r.randrange(3)
            return [Line(self.pick(f"{matrix}[{i}, {self.index()}] = {self.scalar(1)}", f"{matrix}[{i}] = {self.vector(1)}",
                                   f"{matrix}[{i}] += {self.vector(1)}", f"{matrix}[:, {self.index()}] *= {self.number()}",
                                   f"{matrix}[1:, :-1] += {matrix}[:-1, 1:]",
                                   f"{matrix} -= 0.5"))]
        if target is None or r.random() < 0.35:
            name = r.choice(self.scalars)
            return [Line(self.pick(f"{name} += {self.scalar(1)}", f"{name} *= {self.pick('0.5', '-0.8', 'np.cos(' + self.scalar(0) + ')')}",
                                   f"{name} -= 0.1 * {self.scalar(0)}"))]
        i, j = self.index(), self.index()
        return [Line(self.pick(
            f"{target}[{i}] = {self.scalar()}", f"{target}[{i}] += {self.scalar(1)}", f"{target}[{i}] *= {self.number()}",
            f"{target}[{i}], {target}[{j}] = {target}[{j}], {target}[{i}]", f"{target}[1:] += 0.5 * {target}[:-1]",
            f"{target}[:-1] = {r.choice(self.vectors)}[1:]", f"{target} *= 0.5", f"{target} += {self.vector(1)}",
            f"{target}[:] = {self.vector(1)}", f"{target}[::2] -= {self.scalar(0)}",
            f"np.multiply({target}, {self.vector(0)}, out={target})",
            f"{target}[[0, 2]] = {target}[[2, 0]]", f"{target}[{i}] = 0.5 * {target}[{j}] + {self.scalar(0)}"))]

    def fresh(self) -> list[Line]:
        made, n = self.new("v"), self.n
        text = self.pick(f"np.zeros({n})", f"np.ones({n})", f"np.full({n}, {self.number()})", f"np.arange({n}.0)",
                         f"np.linspace(0, 1, {n})", "np.zeros_like(x)", "np.zeros(x.shape)", f"np.zeros(({n},), dtype=float)",
                         f"np.zeros(len({self.random.choice(self.vectors)}))",
                         f"np.array([{', '.join(self.scalar(1) for _ in range(n))}])", f"np.eye({n})[1]", f"np.zeros((2, {n}))[0]",
                         f"np.concatenate([{self.random.choice(self.vectors)}[:1], np.zeros({n - 1})])")
        self.vectors.append(made)
        self.owned.append(made)
        if self.depth == 0 and self.random.random() < 0.25:
            matrix = self.new("M")
            self.matrices.append(matrix)
            self.owned.append(matrix)
            return [Line(f"{made} = {text}"), Line(f"{matrix} = {self.pick(f'np.zeros((3, {n}))', f'np.empty((3, {n}))')}"),
                    Line(f"{matrix}[:] = {self.number()}")]
        return [Line(f"{made} = {text}")]

    def fill(self) -> list[Line]:
        """An empty array, and the loop that fills it."""
        made, i = self.new("v"), self.new("i")
        start = self.random.choice((0, 1))
        lines = [Line(f"{made} = np.{self.pick('empty', 'zeros')}({self.n})")]
        if start:
            lines.append(Line(f"{made}[0] = {self.scalar(1)}"))
        self.loops.append((i, self.n))
        previous = self.pick(f"0.5 * {made}[{i} - 1] + ", f"np.sin({made}[{i} - 1]) * ", "") if start else ""
        body = [Line(f"{made}[{i}] = {previous}({self.scalar()})")]
        self.loops.pop()
        self.vectors.append(made)
        self.owned.append(made)
        return [*lines, Line(f"for {i} in range({start}, {self.n}):", body)]

    def masked(self) -> list[Line]:
        r, target = self.random, self.written()
        mask = self.new("m")
        lines = [Line(f"{mask} = {self.mask_of()}")]
        made = self.new("s")
        v = r.choice(self.vectors)
        uses = [f"{made} = {v}[{mask}].sum()", f"{made} = np.sum({v}[{mask}] ** 2)",
                f"{made} = np.sum(np.sin({v}[{mask}]) * {r.choice(self.vectors)}[{mask}])",
                f"{made} = float(np.count_nonzero({mask}))", f"{made} = {mask}.sum() * 0.5",
                f"{made} = {v}[{mask}].mean() if {mask}.any() else 0.0",
                f"{made} = {v}[np.nonzero({mask})[0]].sum()", f"{made} = {v}[{mask}][0] if np.any({mask}) else 1.0",
                f"{made} = np.prod({v}[{mask}])", f"{made} = np.max(np.append({v}[{mask}], 0.1))"]
        if target:
            writes = [f"{target}[{mask}] = {self.scalar(1)}", f"{target}[{mask}] += {v}[{mask}]", f"{target}[{mask}] *= {self.number()}",
                      f"{target}[{mask}] = np.tanh({v}[{mask}])", f"{target}[~{mask}] = 0", f"{target}[{mask}] -= {self.scalar(0)}",
                      f"{target}[{mask}] **= 2", f"{target}[{target} > 0] *= 0.5", f"{target}[np.abs({target}) < 0.5] = {self.number()}",
                      f"{target}[np.flatnonzero({mask})] += 1.0", f"np.add.at({target}, [0, 0, 1], {v}[:3])"]
            if r.random() < 0.6:
                return [*lines, Line(r.choice(writes))]
        text = r.choice(uses)
        self.scalars.append(made)
        return [*lines, Line(text)]

    def branch(self) -> list[Line]:
        lines = [Line(f"if {self.condition()}:", self.block(self.random.randint(1, 2)))]
        if self.random.random() < 0.2:
            lines.append(Line(f"elif {self.condition()}:", self.block(1)))
        if self.random.random() < 0.5:
            lines.append(Line("else:", self.block(1)))
        return lines

    def loop(self) -> list[Line]:
        if self.depth > 1:
            return self.update()
        r = self.random
        if self.depth == 0 and r.random() < 0.2:
            i, row = self.new("i"), self.new("v")
            self.vectors.append(row)
            header = f"for {i}, {row} in enumerate({r.choice(self.matrices)}):"
            self.loops.append((i, 3))
            body = self.block(r.randint(1, 3))
            self.vectors.remove(row)
            self.loops.pop()
            return [Line(header, body)]
        if r.random() < 0.2:
            name = self.new("s")
            header = f"for {name} in {r.choice(self.vectors)}:"
            self.scalars.append(name)
            body = self.block(r.randint(1, 2))
            self.scalars.remove(name)
            return [Line(header, body)]
        i = self.new("i")
        stop = self.n if self.depth else r.choice((2, self.n, self.n, 10, 12, 20))
        self.loops.append((i, stop if stop != 10 else 99))
        body = self.block(r.randint(1, 3))
        if self.has("branches", "returns") and r.random() < 0.4:
            body.insert(r.randrange(len(body) + 1), Line(f"if {self.condition()}:", [Line(self.pick("break", "continue"))]))
            while body[0].text[:4] in ("elif", "else"):
                body.pop(0)
        self.loops.pop()
        rounds = f"range({stop})" if r.random() < 0.8 or stop == 2 else self.pick(f"reversed(range({stop}))", f"range(0, {stop}, 2)")
        return [Line(f"for {i} in {rounds}:", _joined(body))]

    def view(self) -> list[Line]:
        target, matrix = self.written(), self.written("M")
        made = self.new("w")
        if matrix and self.random.random() < 0.5:
            row = self.random.randrange(3)
            text = self.pick(f"{matrix}[{row}]", f"{matrix}.T[:, 0]", f"{matrix}.reshape(-1)[:{self.n}]", f"{matrix}[0, :]")
            return [Line(f"{made} = {text}"), Line(f"{made}[{self.index()}] = {self.scalar(1)}"), Line(f"{made} += {self.vector(0)}")]
        if not target:
            return self.assign()
        text, length = self.pick((f"{target}[1:]", "1:"), (f"{target}[::2]", "::2"), (f"{target}[::-1]", ":"), (f"{target}[:]", ":"),
                                 (target, ":"), (f"{target}.reshape(1, -1)[0]", ":"), (f"{target}[:-1]", ":-1"))
        write = self.pick(f"{made} *= {self.number()}", f"{made}[0] = {self.scalar(1)}", f"{made} += {self.vector(0)}[{length}]",
                          f"{made}[:] = {self.number()}", f"{made}[-1] += {made}[0]")
        return [Line(f"{made} = {text}"), Line(write)]

    def until(self) -> list[Line]:
        k = self.new("k")
        name = self.random.choice(self.scalars)
        goal, step = self.pick("0.1", "0.3", "0.05"), self.pick("0.5", "0.7", "-0.6")
        if "while" in self.rare:
            return self.update()
        self.rare.add("while")
        kind = self.random.randrange(4)
        if kind == 0:
            return [Line(f"{name} = np.tanh({name})"), Line(f"while abs({name}) > {goal}:", [Line(f"{name} *= {step}")])]
        if kind == 1:
            body = [Line(f"{name} = 0.6 * np.sin({name})"), *self.block(1), Line(f"{k} += 1")]
            return [Line(f"{k} = 0"), Line(f"while {name} > {goal} and {k} < 8:", body)]
        if kind == 2:       # Newton
            made = self.new("s")
            a = f"(1.0 + ({self.scalar(0)}) ** 2)"
            self.scalars.append(made)
            return [Line(f"{k} = {a}"), Line(f"{made} = {k}"),
                    Line(f"while abs({made} * {made} - {k}) > 1e-10:", [Line(f"{made} = 0.5 * ({made} + {k} / {made})")])]
        made, low, high = self.new("s"), self.new("s"), self.new("s")
        body = [Line(f"{made} = ({low} + {high}) / 2"),
                Line(f"if {made} ** 3 + {made} > {name}:", [Line(f"{high} = {made}")]), Line("else:", [Line(f"{low} = {made}")])]
        self.scalars += [low, high]
        return [Line(f"{low}, {high} = -2.0, 2.0"), Line(f"while {high} - {low} > 0.01:", body)]

    def counter(self) -> list[Line]:
        """A Python number, or a change of one."""
        if not self.counters or (not self.depth and self.random.random() < 0.4):
            if self.depth:
                return self.update()
            letter = self.pick("c", "c", "t", "b")
            made = self.new(letter)
            self.counters.append(made)
            return [Line(f"{made} = {self.random.choice({'c': ('0', '1', '5'), 't': ('1.0', '0.3'), 'b': ('False', 'True')}[letter])}")]
        name = self.random.choice(self.counters)
        of_counter = {
            "c": (f"{name} += 1", f"{name} += 1", f"{name} -= 2", f"{name} = 0", f"{name} = 3 if {self.condition()} else -1",
                  f"{name} += {self.condition()}" if self.has("branches") else f"{name} *= 2", f"{name} = 2 * {name} + 1"),
            "t": (f"{name} *= 0.5", f"{name} = 1.0", f"{name} += 0.25", f"{name} = -{name}"),
            "b": (f"{name} = not {name}", f"{name} = True", f"{name} = {name} or {self.number()} > {self.scalar(0)}")}
        text = self.random.choice(of_counter[name[0]])
        if self.has("branches") and self.random.random() < 0.6:
            return [Line(f"if {self.condition()}:", [Line(text)])]
        return [Line(text)]

    def leave(self) -> list[Line]:
        if "return" in self.rare:
            return self.update()
        self.rare.add("return")
        v = self.random.choice(self.vectors)
        end = self.pick(f"return {self.scalar(1)}", f"return {v} * 2.0", "raise ValueError('bad')", f"return {self.scalar(0)}, {v}")
        return [Line(f"if {self.condition()}:", [Line(end)])]

    def append(self) -> list[Line]:
        made, i, out = self.new("l"), self.new("i"), self.new("s")
        self.loops.append((i, self.n))
        name = self.random.choice(self.scalars)
        body = [Line(f"{name} = np.tanh({self.scalar(1)} + {name})"), Line(f"{made}.append({self.pick(name, self.scalar(1))})")]
        self.loops.pop()
        self.scalars.append(out)
        use = self.pick(f"{out} = sum({made})", f"{out} = np.mean({made})", f"{out} = {made}[-1] * {made}[0]",
                        f"{out} = np.array({made}) @ x",
                        f"{out} = np.stack({made}).max()", f"{out} = max({made})", f"{out} = np.sum(np.asarray({made})[1:] ** 2)")
        return [Line(f"{made} = []"), Line(f"for {i} in range({self.n}):", body), Line(use)]

    def integer(self) -> list[Line]:
        made = self.new("k")
        v = self.random.choice(self.vectors)
        text = self.pick(f"int(np.argmax({v}))", f"np.argmin({v})", f"int(abs({self.scalar(0)}))", f"int(np.sum({v} > 0))",
                         f"np.argsort({v})[0]",
                         f"int(np.floor({self.scalar(0)})) % {self.n}", f"np.searchsorted(np.sort({v}), {self.number()})")
        self.integers.append(made)
        i = self.new("i")
        more = [Line(f"for {i} in range({made} % 4):", [Line(f"{self.random.choice(self.scalars)} += 0.1 * {self.scalar(0)}")])]
        return [Line(f"{made} = {text}"), *more * (self.has("loops") and self.random.random() < 0.4)]

    def helper(self) -> list[Line]:
        name, made = self.new("f"), self.new("s")
        body = self.pick(
            [Line("if isinstance(a, (float, np.floating)):", [Line("return a * 2.0")]), Line("return np.sum(a)")],
            [Line("a = np.asarray(a)"), Line("if a.ndim == 0:", [Line("a = a.reshape(1)")]), Line("return a[0] * 0.5 + a[-1]")],
            [Line("if np.isscalar(a) or np.ndim(a) == 0:", [Line("return np.sin(a)")]), Line("return a.mean()")],
            [Line("state = {'v': a, 'k': 0}"),
             Line("for _ in range(3):", [Line("state['v'] = state['v'] * 0.5 + b"), Line("state['k'] += 1")]),
             Line("return np.sum(state['v']) * state['k']")])
        self.scalars.append(made)
        return [Line(f"def {name}(a, b=0.5):", body), Line(f"{made} = {name}({self.pick(self.scalar(1), self.vector(1))})")]

    def program(self) -> list[Line]:
        lines = [Line("x = x.copy()")] if not self.has("arguments") else []
        self.owned.append("x")
        for _ in range(self.random.randint(3, 8)):
            lines += self.statement()
        results = [*self.random.sample(self.scalars, min(3, len(self.scalars))),
                   *self.random.sample(self.vectors, min(3, len(self.vectors))), self.random.choice(self.matrices), *self.counters]
        return [*lines, Line(f"return {', '.join(results)}")]


def _joined(lines: list[Line]) -> list[Line]:
    """Lines without `elif` and `else` that stand behind something else than an `if`."""
    kept: list[Line] = []
    for line in lines:
        if line.text[:4] in ("elif", "else") and not (kept and kept[-1].text[:2] in ("if", "el")):
            continue
        kept.append(line)
    return kept


def runs(program: RandomProgram) -> bool:
    """Whether NumPy runs it on all data, with moderate numbers and no warning."""
    try:
        function = program.function
        for number in range(CALLS):
            with np.errstate(all="raise", under="ignore"), warnings.catch_warnings(action="error"):
                try:
                    result = function(*deepcopy(program.call(number)))
                except ValueError as error:
                    if str(error) != "bad":
                        return False
                    continue
            for item in result if isinstance(result, tuple) else (result,):
                if not np.all(np.abs(item) < LARGEST):
                    return False
    except Exception:
        return False
    return True


def random_numpy_program(seed: int, features: Sequence[str] = FEATURES) -> RandomProgram:
    """The first of a seed's programs that NumPy runs, with some of the features."""
    for attempt in range(1000):
        writer = Writer(seed * 1000 + attempt, features)
        program = RandomProgram(seed, writer.features, tuple(_joined(writer.program())), writer.n)
        if runs(program):
            return program
    raise AssertionError(f"no program for seed {seed}")


def smaller(program: RandomProgram, fails: Callable[[RandomProgram], bool]) -> RandomProgram:
    """The program with as few lines as still fail; `fails` is asked for programs that NumPy runs."""
    def variants(lines: tuple[Line, ...] | list[Line]) -> Iterator[list[Line]]:
        for place, line in enumerate(lines):
            yield [*lines[:place], *lines[place + 1:]]
            if line.body and not line.text.startswith("def"):
                yield [*lines[:place], *line.body, *lines[place + 1:]]
                for body in variants(line.body):
                    yield [*lines[:place], Line(line.text, body), *lines[place + 1:]]
            if line.text.startswith("return ") and "," in line.text:
                names = line.text[7:].split(", ")
                for number in range(len(names)):
                    yield [*lines[:place], Line("return " + ", ".join(names[:number] + names[number + 1:])), *lines[place + 1:]]

    changed = True
    while changed:
        changed = False
        for lines in variants(program.lines):
            one = RandomProgram(program.seed, program.features, tuple(lines), program.size)
            if runs(one) and fails(one):
                program, changed = one, True
                break
    return program
