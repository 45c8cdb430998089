"""Source of a `fused` op: one Python function over flat buffers.

`CompiledFunction.kernels()` shows the text, Numba compiles it, and it runs as ordinary Python on NumPy arrays. It refers to rows and
columns by name only, so kernels of the same structure share one text, whatever their sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from adjit.codegen.llvm.compensated_sums import BLOCK_ADDITIONS
from adjit.codegen.numba.scalar_code import expression, identity, literal, reduction_step
from adjit.codegen.vector_math.half import register_type
from adjit.ir.analysis.iteration_space import full_map, split_at_rows, split_map
from adjit.ir.analysis.kernel_schedule import KernelSchedule, has_row_work, schedule_kernel
from adjit.ir.dataclass import dataclass
from adjit.ir.graph import Op, Value
from adjit.ir.ops.traits import SAME_ELEMENTS, TRANSCENDENTAL
from adjit.ir.types import is_float, short_name

LOOP_BLOCK_ADDITIONS = 32 * BLOCK_ADDITIONS
"""Elements of a loop that are summed at once: compilers turn such a sum into some 32 partial sums (`llvm/compensated_sums.py`)."""


@dataclass(frozen=True, slots=True)
class KernelArgument:
    """One argument. `kind` and `index`: "operand" or "result" with its number, "scratch" with a byte offset, "size" with a value.

    `dtype` is the short name of the elements behind a pointer ("u8" for bool), "i64" for a size.
    """

    kind: str
    index: int
    dtype: str


@dataclass(frozen=True, slots=True)
class KernelSource:
    """A kernel as text.

    text        one Python function `kernel(<arguments>, lo, hi)`, which runs the blocks lo <= b < hi.
    arguments   the arguments, in order.
    blocks      number of independent blocks; the split over threads does not change a bit of the result.
    finish      True if the kernel must be called once more, with lo = hi = 0, after all blocks.
    work        estimated nanoseconds on one thread.
    helpers     scalar functions that the text calls, with dtypes in their names.
    """

    name: str
    text: str
    arguments: tuple[KernelArgument, ...]
    blocks: int
    finish: bool
    work: float
    helpers: tuple[str, ...]


def lower_fused(op: Op, shared: Mapping[int, int] | None = None) -> KernelSource:
    """The kernel of a `fused` op. `shared[j] = i`: result j lies in the memory of operand i."""
    (region,) = op.regions
    schedule = schedule_kernel(region, op.attrs["rows"], op.attrs["columns"])
    return _Writer(region.name, schedule, shared or {}).write()


class _Writer:
    def __init__(self, name: str, schedule: KernelSchedule, shared: Mapping[int, int]):
        self.name = name
        self.s = schedule
        self.lines: list[str] = []
        self.indent = "    "
        self.scopes: list[dict[Value, str]] = [{}]          # known names: of the kernel, the row, the loop
        self.stage = 0
        self.in_finish = False
        self.count = 0
        self.parts: dict[Value, str] = {}                   # targets of partial sums over rows
        self.helpers: dict[str, None] = {}
        self.pointers: dict[Value, str] = {}                # pointers of parameters, results and scratch values
        self.results: dict[Value, str] = {}
        self.arguments: dict[str, KernelArgument] = {}
        self.name_arguments(shared)
        self.overwritten = [schedule.region.params[index] for index in sorted(set(shared.values()))]

    # -- arguments

    def name_arguments(self, shared: Mapping[int, int]) -> None:
        s = self.s
        for index, value in enumerate(s.region.params):
            self.pointers[value] = self.argument(f"a{index}", "operand", index, value)
        for index, value in enumerate(s.region.results):
            self.results[value] = f"a{shared[index]}" if index in shared else self.argument(f"out{index}", "result", index, value)
        for number, (value, offset) in enumerate(s.scratch.items()):
            self.pointers[value] = self.argument(f"part{number}", "scratch", offset, value)
        for value in s.cached:
            self.pointers.setdefault(value, self.results.get(value, ""))
        for name in ("rows", "columns", "rows_per_block", "blocks"):
            self.arguments[name] = KernelArgument("size", getattr(s, name), "i64")

    def argument(self, name: str, kind: str, index: int, value: Value) -> str:
        dtype = register_type(value.type.dtype)
        self.arguments[name] = KernelArgument(kind, index, "u8" if dtype == "bool" else dtype)
        return name

    # -- the whole kernel

    def write(self) -> KernelSource:
        s = self.s
        self.define("kernel", -1)
        if has_row_work(s):
            with self.block("for block in range(lo, hi):"):
                self.write_block()
        late = [v for v in s.region.results if s.level[v] in ("kernel", "post") and s.extent(v) in ("scalar", "column")]
        finish = bool(late)
        if finish:
            with self.block("if hi == 0:"):
                self.write_finish()
        text = "\n".join([f"def kernel({', '.join([*self.arguments, 'lo', 'hi'])}):", *self.lines]) + "\n"
        return KernelSource(self.name, text, tuple(self.arguments.values()), s.blocks, finish, self.estimate(), tuple(self.helpers))

    def write_block(self) -> None:
        s = self.s
        for value in s.partials:
            if s.scope[value] == "columns":
                with self.block("for c in range(columns):"):
                    self.put(f"{self.pointers[value]}[block * columns + c] = {identity(s.producer[value])}")
        totals = {value: self.total(value) for value in s.partials if s.scope[value] != "columns"}
        first, last = "block * rows_per_block", "min((block + 1) * rows_per_block, rows)"
        length = LOOP_BLOCK_ADDITIONS if s.columns == 1 else BLOCK_ADDITIONS
        with self.over("r", first, last, s.rows_per_block, totals, length) as self.parts, self.scope():
            for value in self.overwritten:
                if s.extent(value) == "row":
                    self.need(value)        # read now: an earlier stage may overwrite what a later one reads
            for self.stage in range(s.stages):
                self.define("row", self.stage)
                self.write_row_sinks()
                if s.columns > 1:
                    self.write_columns()
        for value in s.partials:
            if s.scope[value] != "columns":
                self.store(f"{self.pointers[value]}[block]", value, self.total(value))

    def define(self, level: str, stage: int) -> None:
        """Compute the values of a level that are known before the loop of `stage`; reductions are named by their loops."""
        for op in self.s.region.ops:
            value = op.result
            if self.s.level[value] == level and value not in self.s.scope and (stage < 0 or self.s.stage.get(value, 0) == stage):
                self.need(value)

    def write_row_sinks(self) -> None:
        s = self.s
        for value in s.region.results:
            if s.level[value] == "post" or s.stage.get(value, 0) != self.stage:
                continue
            if s.extent(value) == "row" or (s.extent(value) == "scalar" and s.level[value] == "row"):
                self.store(f"{self.results[value]}[{'r' if s.extent(value) == 'row' else '0'}]", value, self.need(value))
        for value in s.partials:
            operand = s.producer[value].operands[0]
            if s.scope[value] == "rows" and s.stage.get(operand, 0) == self.stage:
                self.step(self.parts[value], value, self.need(operand))

    def write_columns(self) -> None:
        """The loop over the columns of a row for this stage."""
        s = self.s
        sinks = s.element_sinks(self.stage)
        if not sinks:
            return
        reductions = s.element_reductions(self.stage)
        sums = {op.result: self.fresh("s") for op in reductions if s.scope[op.result] != "columns"}
        with self.over("c", "", "columns", s.columns, sums) as parts, self.scope():
            names = [self.need(sink) for sink in sinks]      # all loads come before the stores
            for sink, name in zip(sinks, names, strict=True):
                for op in reductions:
                    if op.operands[0] is sink:
                        target = parts.get(op.result) or f"{self.pointers[op.result]}[block * columns + c]"
                        self.step(target, op.result, name)
                stored = s.is_stored(sink) and s.extent(sink) == "full"
                if stored and s.stage_of_use(sink) == self.stage:
                    self.store(f"{self.results[sink]}[r * columns + c]", sink, name)
                elif sink in s.cached and s.stage[sink] == self.stage:
                    self.store(f"{self.pointers[sink]}[block * columns + c]", sink, name)
        for value, name in sums.items():
            if s.scope[value] == "inner":
                self.scopes[-1][value] = name
            else:
                self.step(self.parts[value], value, name)

    def write_finish(self) -> None:
        """Combine the blocks' partial results, then compute the values that depend on them."""
        s = self.s
        self.in_finish = True
        self.scopes.append({})
        for value in s.partials:
            if s.scope[value] == "columns":
                with self.block("for block in range(1, blocks):"), self.block("for c in range(columns):"):
                    self.step(f"{self.pointers[value]}[c]", value, f"{self.pointers[value]}[block * columns + c]")
            else:
                name = self.scopes[-1][value] = self.fresh("s")
                with self.over("block", "", "blocks", s.blocks, {value: name}) as parts:
                    self.step(parts[value], value, f"{self.pointers[value]}[block]")
        stages = s.post_stages()
        for stage in range(max(stages.values(), default=0) + 1):
            for op in s.region.ops:
                if stages.get(op.result) == stage and s.extent(op.result) == "scalar" and op.result not in s.scope:
                    self.need(op.result)
            self.write_late_columns([v for v, number in stages.items() if number == stage])
        for value in s.region.results:
            if s.level[value] in ("kernel", "post") and s.extent(value) == "scalar":
                self.store(f"{self.results[value]}[0]", value, self.need(value))

    def write_late_columns(self, values: list[Value]) -> None:
        s = self.s
        reductions = [op for op in s.region.ops if s.scope.get(op.result) == "post" and op.operands[0] in values]
        outputs = [v for v in s.region.results if v in values and s.extent(v) == "column"]
        if not reductions and not outputs:
            return
        sums = {op.result: self.fresh("s") for op in reductions}
        with self.over("c", "", "columns", s.columns, sums) as parts, self.scope():
            for op in reductions:
                self.step(parts[op.result], op.result, self.need(op.operands[0]))
            for value in outputs:
                self.store(f"{self.results[value]}[c]", value, self.need(value))
        self.scopes[-1].update(sums)

    @contextmanager
    def over(self, counter: str, first: str, last: str, length: int, totals: Mapping[Value, str],
             block_length: int = LOOP_BLOCK_ADDITIONS) -> Iterator[dict[Value, str]]:
        """A loop over at most `length` numbers that reduces into the names `totals`. Yields the names that the body accumulates into. Long
        float sums are summed in blocks, as in `codegen/llvm/compensated_sums.py`."""
        for value, name in totals.items():
            self.put(f"{name} = {identity(self.s.producer[value])}")
        sums = {value: name for value, name in totals.items()
                if length > block_length and self.s.producer[value].name == "reduce_sum" and is_float(value.type.dtype)}
        if not sums:
            with self.block(f"for {counter} in range({f'{first}, ' * bool(first)}{last}):"):
                yield dict(totals)
            return
        start, parts = self.fresh(counter), {value: f"{name}_part" for value, name in sums.items()}
        for name in sums.values():
            self.put(f"{name}_rest = {name}")
        with self.block(f"for {start} in range({first or '0'}, {last}, {block_length}):"):
            for value, part in parts.items():
                self.put(f"{part} = {identity(self.s.producer[value])}")
            with self.block(f"for {counter} in range({start}, min({start} + {block_length}, {last})):"):
                yield {**totals, **parts}
            for value, name in sums.items():
                longer, part = self.assign(f"{name} + {parts[value]}"), parts[value]
                self.put(f"{name}_rest = {name}_rest + ({part} - ({longer} - {name}))")
                self.put(f"{name} = {longer}")
        for name in sums.values():
            self.put(f"{name} = {name} + {name}_rest if {name} - {name} == 0 else {name}")

    # -- values

    def need(self, value: Value) -> str:
        """The name of a value, computed here unless known."""
        for scope in reversed(self.scopes):
            if value in scope:
                return scope[value]
        name = self.compute(value)
        self.scopes[-1][value] = name
        return name

    def compute(self, value: Value) -> str:
        s = self.s
        op = s.producer.get(value)
        if op is None:
            return self.load(f"{self.pointers[value]}[{self.position(value)}]", value)
        if op.name == "constant":
            return literal(op.attrs["value"], value.type.dtype)
        if op.name == "iota":
            return self.assign(f"{short_name(value.type.dtype)}({self.iota(op)})")
        if s.scope.get(value) == "columns":
            return self.load(f"{self.pointers[value]}[c]", value)
        if not self.in_finish and s.is_cached(value, self.stage):
            stored = s.is_stored(value) and s.extent(value) == "full"
            return self.load(f"{self.pointers[value]}[{'r' if stored else 'block'} * columns + c]", value)
        names = [self.need(operand) for operand in op.operands]
        if op.name in SAME_ELEMENTS:
            return names[0]
        return self.assign(expression(op, names, self.helpers))

    def position(self, value: Value) -> str:
        """The flat index of a parameter's element for row r, column c."""
        place = self.s.extent(value)
        if place == "other":
            index_map = self.s.maps[value]
            return self.digits(split_at_rows(index_map, self.s.columns) or index_map)
        return {"scalar": "0", "row": "r", "column": "c", "full": "r * columns + c"}[place]

    def digits(self, parts: tuple[tuple[int, int], ...]) -> str:
        """The number with the digits `(p // stride) % size` of the position p."""
        terms = []
        weight = 1
        for size, stride in reversed(parts):
            digit = self.digit(size, stride)
            terms.append(digit if weight == 1 else f"{digit} * {weight}")
            weight *= size
        return " + ".join(reversed(terms))

    def digit(self, size: int, stride: int) -> str:
        rows, columns = self.s.rows, self.s.columns
        if stride % columns == 0:
            name, step, whole = "r", stride // columns, rows
        elif columns % (size * stride) == 0:
            name, step, whole = "c", stride, columns
        else:
            name, step, whole = "(r * columns + c)", stride, rows * columns
        text = name if step == 1 else f"{name} // {step}"
        return f"({text})" if size * step == whole else f"({text}) % {size}"

    def iota(self, op: Op) -> str:
        parts = split_map(self.s.maps[op.result], op.result.type.shape)
        if parts is None or parts[op.attrs["axis"]][0] == 1:
            return "0"
        return self.digit(*parts[op.attrs["axis"]])

    # -- text

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def assign(self, text: str) -> str:
        name = self.fresh("t")
        self.put(f"{name} = {text}")
        return name

    def load(self, place: str, value: Value) -> str:
        return self.assign(f"{place} != 0" if value.type.dtype == np.bool_ else place)

    def store(self, place: str, value: Value, name: str) -> None:
        self.put(f"{place} = u8({name})" if value.type.dtype == np.bool_ else f"{place} = {name}")

    def step(self, target: str, value: Value, name: str) -> None:
        """`target` combined with one more element of the reduction `value`."""
        boolean = value.type.dtype == np.bool_
        left, right = (f"({x} != 0)" if boolean and "[" in x else x for x in (target, name))
        text = reduction_step(self.s.producer[value], left, right, self.helpers)
        self.put(f"{target} = u8({text})" if boolean and "[" in target else f"{target} = {text}")

    def total(self, value: Value) -> str:
        return f"total{self.s.partials.index(value)}"

    def put(self, text: str) -> None:
        self.lines.append(self.indent + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.put(head)
        before, outer = len(self.lines), self.indent
        self.indent += "    "
        yield
        if len(self.lines) == before:
            self.put("pass")
        self.indent = outer

    @contextmanager
    def scope(self) -> Iterator[None]:
        self.scopes.append({})
        yield
        self.scopes.pop()

    def estimate(self) -> float:
        """Estimated nanoseconds on one thread, from memory traffic and vector code per element (measured with Adam, layer norm)."""
        s = self.s
        full = full_map(s.rows * s.columns)
        work = 0.03 * sum(value.type.nbytes for value in (*s.region.params, *s.region.results))
        for op in s.region.ops:
            if full in (s.maps[op.result], s.maps[op.operands[0]] if op.operands else None):
                work += op.result.type.dtype.itemsize * s.rows * s.columns * (0.1 if op.name in TRANSCENDENTAL else 0.0075)
        return work
