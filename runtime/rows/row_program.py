"""Compilation of a function to one program for any number of rows.

The function is traced for a few numbers of rows: those of the panels, by which the program runs, and a large one, which shows where Python
uses the number of rows itself. Graphs that are the same but for rows are split into what runs for each panel, and what runs once
(`passes/panels`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import numpy as np

from adjit.codegen.process.gc_pause import gc_paused
from adjit.eager.modes import modes
from adjit.ir import ops
from adjit.ir.dataclass import dataclass
from adjit.ir.errors import AdjitError
from adjit.ir.graph import Graph, Op, Value, attributes_key, graph_key, producers, walk
from adjit.ir.ops.control_flow import nested_graphs
from adjit.ir.ops.panels import MOST_ROWS
from adjit.ir.ops.traits import CALLS
from adjit.ir.row_number import Expression, shows
from adjit.ir.thread_context import thread
from adjit.ir.verifier import Stage
from adjit.passes.options import Options, RollingRule
from adjit.passes.panels.align_rows import align, lift_numbers
from adjit.passes.panels.row_axes import RowGraphs, RowsMixed
from adjit.passes.panels.split_rows import RowProgram, split_rows
from adjit.passes.pipeline import DERIVATIVES, PIPELINE, PipelineResult, run_pipeline, run_rolling
from adjit.passes.regions import contains
from adjit.runtime import settings
from adjit.runtime.capture.compiled_operation import CompiledOperation
from adjit.runtime.capture.tensor_program import Captured, TensorProgram, is_connected, make_operation, updates_of, with_updates
from adjit.runtime.compile_graph import DeferredPipeline, compile_graph
from adjit.runtime.compile_options import CompileOptions
from adjit.runtime.inputs import Inputs
from adjit.runtime.program import Milliseconds, Program, captured_paths, compile_program, with_donations
from adjit.runtime.rows.row_operation import RowHalves, RowOperation, SizedOperations, row_halves
from adjit.runtime.rows.row_signature import SizedPrograms, call_with_rows, row_leaves
from adjit.runtime.traces.trace_call import trace_call
from adjit.tracer.row_count import NO_ROWS, RowProbe, probing
from adjit.tracer.signature import CallSignature
from adjit.tracer.trace import Trace

TRACED_SIZES = (67, 29, MOST_ROWS)
"""Numbers of rows that a function is traced for: primes or large, so that hardly another length is taken for one of rows, and with other
remainders by all divisors. What does something else from some number of rows on does so for the least or the largest."""

COMPARED_SIZES = ((67, 83, 101), (71, 89, 103), (73, 97, 107))
"""Numbers of rows of programs that are compared with each other, of which the first are taken that are no other length of the function."""

FEW_ROWS = (2, 3, 5)
"""Numbers of rows that may be special cases, of which the first that is none is the least: short arrays may be used up, and 1/2 may be a
number of the function's own. So may be one row: axes of length 1 are dropped or repeated."""

ANY_BYTES = 1 << 62
"""Most bytes of an array whose loop is rolled: a panel has few, however many there are in all."""

EXPANDED = tuple(step for step in DERIVATIVES if step.name not in ("merge_repeats", "batch_loops"))
"""Passes that expand derivatives. Numbers that are the same for one number of rows alone are not made one, and no work of a loop is done
ahead because few rows are little."""

SIMPLIFIED = tuple(step for name in ("simplify", "eliminate_common_subexpressions", "eliminate_dead_code", "simplify_loops")
                   for step in PIPELINE if step.name == name)
"""Passes after which graphs that differ in ops of no effect are the same, within loops as well."""


@dataclass(frozen=True, slots=True)
class SizedTrace:
    """A trace for some number of rows, and its graph with derivatives expanded. `captured` are its effects on tensors, if there are any,
    and `order` the program's result for each of the trace's. `numbers` are those that Python computed from the number of rows. What the
    trace writes to is in `updates`; the graph of a trace with results that have a gradient has them where they were, as derivatives of it
    are still to be taken. `traced` is the graph before, with what its functions have as rules of their own, and checkpoints."""

    trace: Trace
    graph: Graph
    traced: Graph
    captured: Captured | None
    order: tuple[int, ...] | None
    numbers: Collection[Expression] = ()
    updates: Sequence[tuple[int, int]] = ()


@gc_paused()
def compile_row_program(fun: Callable[..., Any], signature: CallSignature, compile_options: CompileOptions, reason: str) -> Program:
    """The program of `fun` for calls of a general signature. Raises `RowsMixed` if there is none. `least_rows` is the least number
    of rows that it serves."""
    begin = time.perf_counter()
    threads = compile_options.threads or settings.THREADS.get()
    verify = settings.VERIFY.get()
    found = _rolled_or_not(fun, signature, compile_options)
    first = found.trace
    try:
        return _compile(found, signature, compile_options, reason, threads, verify, begin)
    except BaseException:
        if first.captured is not None:
            first.captured.undo()
        raise


def programs_for(fun: Callable[..., Any], signature: CallSignature, compile_options: CompileOptions, general: Graph) -> SizedPrograms:
    """Programs for some numbers of rows, of a function that has the program `general` for any number of them."""
    lengths = {length for graph in nested_graphs(general) for op in graph.ops for value in (*op.operands, *op.results)
               for length in value.type.shape}
    sizes = next((each for each in COMPARED_SIZES if not any(length and length % size == 0 for size in each for length in lengths)),
                 COMPARED_SIZES[0])
    found: list[tuple[Program, tuple[np.ndarray, ...]]] = []
    numbers: tuple[Expression, ...] = ()
    for size in sizes:
        with probing(size) as probe:
            args, kwargs, sized = call_with_rows(signature, size, compile_options.static, modes.key)
            program = compile_program(fun, args, kwargs, sized, compile_options, "it is exported")
            numbers = tuple(probe.numbers)
        found.append((program, (*sized.leaves, *(program.current(sized) or ()))))
    return SizedPrograms(tuple(sizes), tuple(found), numbers)


@dataclass(frozen=True, slots=True)
class _Found:
    """A trace of a function, its graph for any number of rows, from `least` on (`why` not for fewer), and the operation that this is the
    forward half of, with the program's result for each of the operation's; if it is one."""

    trace: SizedTrace
    program: RowProgram
    least: int
    why: RowsMixed | None
    order: tuple[int, ...] | None
    operation: RowOperation | None = None


def _compile(found: _Found, signature: CallSignature, compile_options: CompileOptions, reason: str, threads: int, verify: bool, begin: float
             ) -> Program:
    first, program, least, operation = found.trace, found.program, found.least, found.operation
    traced = time.perf_counter()
    compiled = compile_graph(program.graph, compile_options.backend, compile_options.pass_options, threads, verify, None,
                             "AFTER_DERIVATIVES" if operation is None else "HALF", Stage.ADJOINT)
    pipeline = DeferredPipeline(lambda: _with_traced(compiled.pipeline, program.graph))
    took = (time.perf_counter() - traced) * 1e3
    milliseconds = Milliseconds((traced - begin) * 1e3, took - compiled.backend_milliseconds, compiled.backend_milliseconds)
    trace, general = first.trace, signature.without_arguments()
    paths = [*signature.traced_paths(), *captured_paths(trace)]
    paths += [value.name or f"tensor {i}" for i, value in enumerate(program.graph.params[len(paths):-1])]
    paths.append("rows")
    tensors = None
    if first.captured is not None:
        effects = first.captured.effects
        operands = (*(effects.refs.get(value) for value in trace.graph.params), None)       # the last is the number of rows
        tensors = TensorProgram(effects, operation, found.order, operands, first.captured.undo, min(program.params))
    inputs = Inputs(program.graph, paths, [param for param, _ in trace.writes], trace.same, program.params)
    general_trace = replace(trace, signature=general, graph=trace.graph.with_ops(()))
    return Program(
        general, general_trace, program.graph.param_roles, pipeline, compiled.executable, inputs, compile_options.backend, threads,
        milliseconds, reason, verify, tensors, loops_over_rows=program.loops, least_rows=least,
        about_rows=_about(compile_options, program, least, found.why), about_few_rows=_because(found.why))


class _Tracer:
    """The traces of a function. `has_rolled` says whether a Python loop became one of the program in any of them."""

    def __init__(self, fun: Callable[..., Any], signature: CallSignature, compile_options: CompileOptions, rolling: RollingRule | None
                 ) -> None:
        self.fun, self.signature, self.compile_options = fun, signature, compile_options
        self.options = replace(compile_options.pass_options, rolling=rolling)
        self.has_rolled = False

    def trace(self, size: int, keep: bool = False) -> SizedTrace:
        """The trace for `size` rows of zeros; what it changes in tensors is taken back, unless it is to be kept. Raises `RowsMixed` where
        the function decides on values, keeps values, or fails."""
        compile_options = self.compile_options
        try:
            args, kwargs, sized = call_with_rows(self.signature, size, compile_options.static, modes.key)
            trace, captured, _ = trace_call(self.fun, args, kwargs, compile_options.static, sized, (), None, no_call=True)
        except RowsMixed:
            raise
        except Exception as error:
            raise RowsMixed(f"its trace for {size} rows of zeros fails ({type(error).__name__}: {str(error).partition(chr(10))[0]})",
                            error.location if isinstance(error, AdjitError) else None) from error
        try:
            _check(trace, captured, row_leaves(self.signature))
            updates = list(trace.writes) if captured is None else updates_of(trace, captured.effects)
            connected = captured is not None and is_connected(captured.effects)
            graph, order = with_updates(with_donations(trace.graph, sized, compile_options.donate), [] if connected else updates)
            result = run_pipeline(graph, self.options, settings.VERIFY.get(), passes=EXPANDED)
            self.has_rolled |= _loops_of(result.final) > _loops_of(graph)
        except BaseException:
            if captured is not None:
                captured.undo()
            raise
        if captured is not None and not keep:
            captured.undo()
        probe = thread.context.row_probe
        return SizedTrace(trace, lift_numbers(result.final), graph, captured, order, () if probe is None else tuple(probe.numbers), updates)


    def rolled(self, graph: Graph) -> Graph:
        """A traced graph with loops of Python as loops of the program, if they are to be."""
        return run_rolling(graph, self.options, settings.VERIFY.get()).final

    def operation(self, graph: Graph, trace: SizedTrace) -> CompiledOperation | None:
        """The graph of a trace as an operation, if results have a gradient. Its loops were rolled, or cannot be."""
        assert trace.captured is not None
        options = replace(self.compile_options, roll_loops=False)
        return make_operation(graph, trace.trace, trace.captured.effects, options, settings.VERIFY.get(),
                              options.threads or settings.THREADS.get())


def _loops_of(graph: Graph) -> int:
    return sum(op.name == "scan" for op in walk(graph))


def _rolled_or_not(fun: Callable[..., Any], signature: CallSignature, compile_options: CompileOptions) -> _Found:
    """What `_split` finds, with loops of Python as loops of the program if there is such a program, else written out."""
    rolling = compile_options.pass_options.rolling
    if rolling is not None:
        tracer = _Tracer(fun, signature, compile_options, replace(rolling, max_fused_bytes=ANY_BYTES))
        try:
            return _split(tracer)
        except RowsMixed:
            if not tracer.has_rolled:
                raise
    return _split(_Tracer(fun, signature, compile_options, None))


def _split(tracer: _Tracer) -> _Found:
    """A trace, the graph for any number of rows, and the least number of rows that it serves. Few rows come first: what loops over rows in
    Python shows itself there."""
    traces: list[SizedTrace] = []
    options, choices = tracer.options, list[bool]()
    for size in TRACED_SIZES:
        with probing(size, choices) as probe:
            try:
                traces.append(tracer.trace(size))
                aligned = _align(traces, TRACED_SIZES, options)
            except RowsMixed:
                _check_reads(probe)     # rather the cause than the difference
                raise
        _check_reads(probe)
        choices = choices or probe.choices
    keeps = tracer.compile_options.keeps_rows and (traces[0].captured is not None or not traces[0].trace.writes)
    connected = traces[0].captured is not None and is_connected(traces[0].captured.effects)
    program = None if connected else _split_once(aligned, keeps, options)
    halves = _split_halves(tracer, aligned, traces[0], choices, keeps) if connected else None

    least, why = min(TRACED_SIZES), None
    for size in FEW_ROWS:
        special = _special_case(aligned, halves, traces[0], size, tracer, choices)
        if special is None:
            least = size
            break
        why = special
    if least == FEW_ROWS[0]:
        why = _special_case(aligned, halves, traces[0], 1, tracer, choices)
        least = least if why else 1
    if program is not None and traces[0].captured is None:
        return _Found(traces[0], program, least, why, None)
    with probing(TRACED_SIZES[0], choices):
        # as the tensors are now: what was done to them before is taken back
        kept = tracer.trace(TRACED_SIZES[0], keep=True)
    assert kept.captured is not None
    try:
        aligned = _align([kept, *traces[1:]], TRACED_SIZES, options)
        if halves is not None:
            return _Found(kept, halves.program, least, why, halves.order, halves.operation)
        program = _split_once(aligned, keeps, options)
        return _Found(kept, program, least, why, kept.order if kept.order is None else tuple(map(program.result_number, kept.order)))
    except BaseException:
        kept.captured.undo()
        raise


def _split_halves(tracer: _Tracer, aligned: RowGraphs, first: SizedTrace, choices: Sequence[bool], keeps: bool) -> RowHalves:
    """The halves of a function whose results have a gradient. One with rules of its own, or checkpoints, is traced for each number of rows
    that is compared: nothing of another number can be substituted in what is still to be expanded."""
    sizes = COMPARED_SIZES[0]
    traces = [first]
    if contains(first.traced, CALLS):
        for size in sizes[1:]:
            with probing(size, choices):
                traces.append(tracer.trace(size))
            _check_alike(first, traces[-1])
        graphs = [tracer.rolled(each.traced) for each in traces]
    else:
        traces, graphs = traces * len(sizes), [aligned.graph_for(size) for size in sizes]
    made = [tracer.operation(graph, each) for graph, each in zip(graphs, traces, strict=True)]
    operations = tuple(operation for operation in made if operation is not None)
    if len(operations) < len(sizes):
        raise RowsMixed("its results require grad, and depend on no tensor that does")
    numbers = tuple({*aligned.numbers.values(), *(number for each in traces for number in each.numbers)})
    return row_halves(SizedOperations(sizes, operations, _counters(aligned), numbers), first.updates, keeps)


def _split_once(aligned: RowGraphs, keeps: bool, options: Options) -> RowProgram:
    """The program, of simplified graphs if it is several loops: what is computed twice is kept once from one loop to the next, and what
    simplification makes something else, but where it is kept, would be computed in both forms."""
    program = split_rows(aligned, keeps)
    if program.loops == 1:
        return program
    sizes = COMPARED_SIZES[0]       # no large one, for which n and n - 1 are one number in float32
    try:
        graphs = [_simplified(aligned.graph_for(size), options) for size in sizes]
        simplified = align(graphs, sizes, _counters(aligned), [*aligned.numbers.values()])
        return split_rows(simplified, keeps)
    except RowsMixed:       # a number is special for one size
        return program


def _counters(graphs: RowGraphs) -> tuple[int, ...]:
    """The parameters that are the numbers of the rows."""
    return tuple(number for number, value in enumerate(graphs.graphs[0].params) if value in graphs.counters)


def _check_reads(probe: RowProbe) -> None:
    """Raise `RowsMixed` if Python used the number of rows, or picked rows, or a number that it computed is the same for all sizes."""
    if probe.reads:
        raise RowsMixed(*probe.reads[0])
    for number, location in probe.numbers.items():
        if not shows(number, TRACED_SIZES):
            raise RowsMixed("Python computes a number from the number of rows that is the same for those that are traced", location)


def _special_case(aligned: RowGraphs, halves: RowHalves | None, first: SizedTrace, size: int, tracer: _Tracer, choices: Sequence[bool]
                  ) -> RowsMixed | None:
    """Why so few rows are a special case; None if they are none."""
    try:
        with probing(NO_ROWS, choices):
            few = tracer.trace(size)
        _check_alike(first, few)
        pairs = [(aligned.graph_for(size), few.graph)]
        if halves is not None and halves.operation.by_rules:
            operation = tracer.operation(tracer.rolled(few.traced), few)
            pairs += zip(halves.for_rows(size), halves.of_operation(operation), strict=True)
    except RowsMixed as mixed:
        return mixed
    for made, found in pairs:
        if _key(made) == _key(found):
            continue
        made, found = _simplified(made, tracer.options), _simplified(found, tracer.options)
        if _key(made) == _key(found):
            continue
        ops_of_both = zip_longest(made.ops, found.ops)
        differs = next((two or one for one, two in ops_of_both if not one or not two or _form(one) != _form(two)), None)
        rows = "one row" if size == 1 else f"{size} rows"
        return RowsMixed(f"other operations run for {rows}", None if differs is None else differs.loc)
    return None


def _form(op: Op) -> Hashable:
    return op.name, attributes_key(op.attrs), *(value.type for value in op.results)


def _key(graph: Graph) -> Hashable:
    """Key of what a graph computes; working memory does not count."""
    return graph_key(graph, lambda op: attributes_key({name: value for name, value in op.attrs.items() if name != "scratch_bytes"}))


def _simplified(graph: Graph, options: Options) -> Graph:
    """The graph as simplified, in which no axis of length 1 is broadcast along others, indices are no tables, and numbers are not said to
    have no gradient."""
    made: list[Op] = []
    producer = producers(graph)
    for op in graph.ops:
        if op.name == "stop_gradient" and (number := producer.get(op.operands[0])) is not None and number.name == "constant":
            op = replace(number, results=op.results)
        if op.name == "table" and op.result.type.rank and op.result.type.size == max(op.result.type.shape):
            array = op.definition.evaluate(**op.attrs)
            if array.dtype.kind in "iuf" and np.array_equal(array.ravel(), np.arange(array.size)):
                op = replace(op, definition=ops.iota, attrs={
                    "dtype": array.dtype, "shape": array.shape, "axis": array.shape.index(array.size)})
        if op.name == "iota" and op.result.type.shape[op.attrs["axis"]] == 1:
            op = replace(op, definition=ops.constant, attrs={
                "value": op.attrs["dtype"].type(0).item(), "dtype": op.attrs["dtype"], "shape": op.attrs["shape"]})
        shape = op.operands[0].type.shape if op.name == "broadcast" else ()
        kept = [index for index, size in enumerate(shape) if size != 1]
        if len(kept) < len(shape):
            squeezed = Value(op.operands[0].type.with_shape(tuple(shape[index] for index in kept)))
            made.append(Op(ops.reshape, op.operands, (squeezed,), {"shape": squeezed.type.shape}, loc=op.loc, role=op.role))
            axes = tuple(op.attrs["axes"][index] for index in kept)
            op = replace(op, operands=(squeezed,), attrs={**op.attrs, "axes": axes})
        made.append(op)
    simplified = run_pipeline(graph.with_ops(made), options, False, passes=SIMPLIFIED, stage=Stage.ADJOINT).final
    return _numbers_where_used(lift_numbers(simplified))


_NUMBERS = frozenset({"constant", "iota"})


def _numbers_where_used(graph: Graph) -> Graph:
    """The graph with each number just before the first op that takes it: which of several equal ones is left is by the way of the graph."""
    numbers = {op.result: op for op in graph.ops if op.name in _NUMBERS}
    made: list[Op] = []
    for op in graph.ops:
        if op.name not in _NUMBERS:
            made += [numbers.pop(value) for value in dict.fromkeys(op.operands) if value in numbers]
            made.append(op)
    made += [numbers.pop(value) for value in dict.fromkeys(graph.results) if value in numbers]
    return graph.with_ops(made)


def _align(traces: Sequence[SizedTrace], sizes: Sequence[int], options: Options) -> RowGraphs:
    """The graphs for these sizes, side by side. Raises `RowsMixed` unless they are the same but for rows."""
    first = traces[0].trace
    for other in traces[1:]:
        _check_alike(traces[0], other)
    before = len(first.signature.leaf_keys) - sum(key[0] == "static" for key in first.signature.leaf_keys)
    counters = [before + index for index, array in enumerate(first.captured)
                if not all(_is_same(array, each.trace.captured[index]) for each in traces)]
    for index in counters:
        if not all(_counts(each.trace.captured[index - before], size) for each, size in zip(traces, sizes, strict=False)):
            raise RowsMixed("it reads an array that is made anew for each number of rows, or at each call")
    graphs, numbers = [each.graph for each in traces], traces[-1].numbers
    try:
        return align(graphs, sizes[:len(traces)], counters, numbers)
    except RowsMixed as mixed:
        try:
            return align([_simplified(graph, options) for graph in graphs], sizes[:len(traces)], counters, numbers)
        except RowsMixed:
            raise mixed from None       # its reason is of what the function does, and not of what became of it


def _is_same(one: np.ndarray, two: np.ndarray) -> bool:
    """True if two traces captured one array, or each made one of this content."""
    form, other = ((type(each), each.dtype, each.shape, each.strides) for each in (one, two))
    return one is two or (form == other and one.tobytes() == two.tobytes())


def _counts(array: np.ndarray, size: int) -> bool:
    """True if an array has the numbers of the rows."""
    return array.shape == (size,) and array.dtype.kind in "iu" and array.dtype.isnative and np.array_equal(array, np.arange(size))


def _check_alike(one: SizedTrace, two: SizedTrace) -> None:
    """Raise `RowsMixed` if two traces differ in what surrounds their graphs."""
    if one.order != two.order or _described(one.captured) != _described(two.captured):
        raise RowsMixed("what it does to tensors depends on the number of rows")
    first, other = one.trace, two.trace
    if len(first.captured) != len(other.captured):
        raise RowsMixed("it reads other arrays for other numbers of rows")
    if (first.out_tree, first.out_leaves) != (other.out_tree, other.out_leaves):
        raise RowsMixed("what it returns depends on the number of rows in more than the shapes of arrays")
    if first.writes != other.writes or not first.in_order >= other.in_order:
        raise RowsMixed("it writes to other arrays for other numbers of rows")


def _described(captured: Captured | None) -> Any:
    """What a program does to tensors, but for which tensors these are: each trace may make the state of an optimiser."""
    if captured is None:
        return None
    effects = captured.effects
    leaves = [(type(leaf), leaf if isinstance(leaf, int) else getattr(leaf, "value", None)) for leaf in (*effects.leaves, *effects.kept)]
    contents = [(content.index, content.requires_grad, content.dtype, content.shape) for content in effects.contents]
    numbers = [(index, number.name) for index, number in effects.numbers]
    gradients = [result for _, result in effects.gradients]
    return (effects.tree, leaves, contents, numbers, gradients, sorted(effects.tensors.items()), effects.new_leaves,
            [result for _, _, result in effects.writes])


def _check(trace: Trace, captured: Captured | None, leaves: Collection[int]) -> None:
    """Raise `RowsMixed` for what a program for any number of rows does not do; `leaves` are the arguments that have them."""
    if trace.value_guards:
        raise RowsMixed("Python decides on values", trace.value_guards[0].location)
    if trace.kept or trace.stored:
        raise RowsMixed("it stores values outside")
    if trace.same:
        raise RowsMixed("an array that it writes to is passed twice")
    if captured is None:
        return
    effects = captured.effects
    if effects.changes_places:
        raise RowsMixed("it changes attributes of modules or optimisers, or requires_grad, at each call")
    if effects.aliases:
        raise RowsMixed("it returns a view of a tensor")
    if any(content.ref.gradient and content.ref.argument in leaves for content in effects.contents):
        raise RowsMixed("it adds to a gradient that has rows")


def _with_traced(pipeline: Any, graph: Graph) -> PipelineResult:
    """The passes, after the graph that they began with, which stands for the trace."""
    return PipelineResult({**pipeline.graphs, "traced": graph, "adjoint": graph}, pipeline.records)


def _because(why: RowsMixed | None) -> str:
    return "" if why is None else f", because {why.reason}" + ("" if why.location is None else f", at {why.location.describe()}")


def _about(compile_options: CompileOptions, program: RowProgram, least: int, why: RowsMixed | None) -> str:
    *larger, single = program.sizes
    few = "" if least == 1 else f"; fewer than {least} rows have programs of their own{_because(why)}"
    loops = "one loop" if program.loops == 1 else f"{program.loops} loops"
    return (f"one program for any number of rows of {', '.join(sorted(compile_options.batch))}: {loops} over panels of "
            f"{', '.join(map(str, larger))} and {single} rows{few}")
