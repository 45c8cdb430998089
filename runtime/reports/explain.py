"""Text of `CompiledFunction.explain()`: the program, the reason for its trace, compile times, and the origin of its kernels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from adjit.ir.batching import IN_TURN
from adjit.ir.graph import Graph, Op, walk
from adjit.ir.lazy_module import LazyModule
from adjit.passes.loops.roll_loops import find_refusals
from adjit.passes.options import RollingRule
from adjit.passes.pipeline import PassRecord
from adjit.runtime.native.executable import NativeExecutable
from adjit.runtime.numba.kernels import Code, kernel_uses
from adjit.runtime.numba.matmul_step import MatmulKernel
from adjit.runtime.program import Program
from adjit.runtime.reports.memory_blocks import format_bytes
from adjit.runtime.reports.native_report import describe_code

if TYPE_CHECKING:
    from adjit.runtime.backends import AnyExecutable
    from adjit.runtime.cuda import device_executable
    from adjit.runtime.reports import device_report
else:
    device_executable = LazyModule("adjit.runtime.cuda.device_executable")
    device_report = LazyModule("adjit.runtime.reports.device_report")

MAX_SHOWN_ARGUMENTS = 40
"""Maximum number of argument leaves listed; a longer list ends with their number."""

MAX_SHOWN_LOOPS = 10
"""Maximum number of loops listed that were not rolled."""


def explain_program(program: Program, cache: tuple[int, int, int, int], programs: Sequence[Program], rolling: RollingRule | None) -> str:
    """The report on one program. `cache` is the `CacheInfo` of its function, `programs` are all cached programs in the order of their
    traces, `rolling` is the rule by which loops were rolled."""
    sections = [_head(program, cache), _others(program, programs), _ways(program, programs), _examples(program), _signature(program),
                _passes(program.pipeline.records, program.verified, program.milliseconds.passes),
                [] if rolling is None else find_refusals(program.pipeline.graphs["traced"], rolling)[:MAX_SHOWN_LOOPS],
                _code(program.executable), device_report.describe_copies(program) if program.backend == "cuda" else []]
    backward = program.backward
    if backward is not None:
        working = format_bytes(backward.executable.assignment.arena_bytes)
        sections += [[f"backward half @{backward.planned.name}, {working} of working memory"],
                     _passes(backward.pipeline.records, program.verified, None), _code(backward.executable)]
    return "\n\n".join("\n".join(lines) for lines in sections if lines)


def _head(program: Program, cache: tuple[int, int, int, int]) -> list[str]:
    hits, traces, size, limit = cache
    took = program.milliseconds
    return [
        f"@{program.planned.name}, backend {program.backend}" + _threads(program),
        f"traced because: {program.reason}", *([program.about_rows] if program.about_rows else []),
        f"compiled in {took.total:.1f} ms: trace {took.trace:.1f}, passes {took.passes:.1f}, kernels {took.kernels:.1f}",
        f"this program: {program.calls} calls, {format_bytes(program.executable.assignment.arena_bytes)} of working memory",
        f"all signatures: {hits} hits, {traces} traces, {size} programs kept of at most {limit}"]


def _others(program: Program, programs: Sequence[Program]) -> list[str]:
    """Why each program was traced, if there are several."""
    if len(programs) < 2:
        return []
    shown = programs[:MAX_SHOWN_ARGUMENTS]
    lines = [f"  {number}. {other.reason}; {other.calls} call{'' if other.calls == 1 else 's'}{' (this program)' * (other is program)}"
             for number, other in enumerate(shown, 1)]
    if len(programs) > len(shown):
        lines.append(f"  and {len(programs) - len(shown)} more")
    return [f"{len(programs)} programs, traced because", *lines]


def _ways(program: Program, programs: Sequence[Program]) -> list[str]:
    """The tree of ways through the decisions on values, in the state that the program was traced in: the decisions at which they part."""
    ways = [other for other in programs if other.state == program.state and other.signature.key == program.signature.key]
    tree = [] if len(ways) < 2 else [f"{len(ways)} ways through the decisions on values", *_tree(program, ways, 0, "  ")]
    return [*_decisions(program), *tree]


def _decisions(program: Program) -> list[str]:
    """The decisions on values that are branches and loops of the program."""
    names = {"on_true": "a branch", "condition": "a loop"}
    found = [f"  {names[op.regions[0].name]} at {op.loc.describe()}" for op in walk(program.pipeline.graphs["traced"])
             if op.name in ("cond", "while_loop") and op.regions[0].name in names and op.loc is not None]
    lines = list(dict.fromkeys(found))
    return [] if not lines else ["decisions on values that are branches and loops of the program", *lines[:MAX_SHOWN_ARGUMENTS],
                                 *([f"  and {len(lines) - MAX_SHOWN_ARGUMENTS} more"] if len(lines) > MAX_SHOWN_ARGUMENTS else [])]


def _examples(program: Program) -> list[str]:
    """Ops in a `vmap` that run for one example after the other."""
    found = [f"  {op.regions[0].name.removeprefix(IN_TURN)}, {op.attrs['length']} times{f' at {op.loc.describe()}' if op.loc else ''}"
             for op in walk(program.pipeline.graphs["traced"]) if op.name == "scan" and op.regions[0].name.startswith(IN_TURN)]
    return ["within vmap, for one example after the other", *found[:MAX_SHOWN_ARGUMENTS]] if found else []


def _tree(program: Program, ways: Sequence[Program], number: int, margin: str) -> list[str]:
    """Lines for ways whose first `number` decisions are the same."""
    while len(ways) > 1 and all(len(way.outcomes) > number and way.begins_with(ways[0].outcomes[:number + 1]) for way in ways):
        number += 1
    if len(ways) == 1 or all(len(way.outcomes) <= number for way in ways):
        return [f"{margin}{way.calls} call{'' if way.calls == 1 else 's'}{' (this program)' * (way is program)}" for way in ways]
    parted: dict[str, list[Program]] = {}
    for way in ways:
        guards = way.trace.value_guards
        parted.setdefault(f"if {guards[number].describe()}" if number < len(guards) else "else", []).append(way)
    return [line for text, some in parted.items() for line in (f"{margin}{text}:", *_tree(program, some, number + 1, margin + "  "))]


def _signature(program: Program) -> list[str]:
    roles = iter(program.planned.param_roles)
    lines = []
    for index, text in enumerate(program.signature.descriptions()):
        donated = program.signature.is_traced(index) and next(roles) == "donated"
        lines.append(f"  {text}{' donated' if donated else ''}")
    for index, kind in program.signature.foreign:
        lines[index] += f", given as {kind}: its memory is read, and labels are dropped"
    shown = lines[:MAX_SHOWN_ARGUMENTS]
    if len(lines) > len(shown):
        shown.append(f"  and {len(lines) - len(shown)} more")
    if program.tensors is not None and program.tensors.effects.contents:
        count, updated = len(program.tensors.effects.contents), program.planned.param_roles.count("updated")
        shown.append(f"  and {count} tensor{'s' if count > 1 else ''} that the function reaches by itself; {updated} updated in place")
    captured = len(program.trace.captured)
    if captured:
        shown.append(f"  and {captured} array{'s' if captured > 1 else ''} reached through closures, globals or attributes")
    return ["arguments", *shown]


def _passes(records: Sequence[PassRecord], verified: bool, took: float | None) -> list[str]:
    """Lines for the passes, which together `took` so many milliseconds in this process."""
    width = max(len(record.name) for record in records)
    checked = sum(record.verify_milliseconds for record in records) if verified else 0.0
    besides = 0.0 if took is None else took - checked - sum(record.milliseconds for record in records)
    made = "  when the program was made; it is from the disk cache" if besides < -0.5 else ""
    lines = [f"passes{'':{width - 4}}  {'ops':>13}  {'ms':>8}{made}"]
    for record in records:
        ops = f"{record.ops_before} -> {record.ops_after}"
        lines.append(f"  {record.name:<{width}}  {ops:>13}  {record.milliseconds:8.2f}  {record.remark}".rstrip())
    if verified:
        lines.append(f"  checking the graph after each pass took {checked:.2f} ms")
    if besides > 0.5:
        lines.append(f"  other choices of tiles and saved values, which were dropped, took {besides:.2f} ms")
    return lines


def _threads(program: Program) -> str:
    several = program.kernels or isinstance(program.executable, NativeExecutable)
    return f", up to {program.threads} thread{'' if program.threads == 1 else 's'} a kernel" if several else ""


def _code(executable: AnyExecutable) -> list[str]:
    if isinstance(executable, NativeExecutable):
        return describe_code(executable)
    if isinstance(executable, device_executable.DeviceExecutable):
        return device_report.describe_kernels(executable)
    return _kernels(executable.assignment.graph, executable.kernels)


def _kernels(planned: Graph, kernels: Mapping[Op, Code]) -> list[str]:
    uses = kernel_uses(planned, kernels)
    if not uses:
        return _products(planned, kernels)
    width = max(len(use.name) for use in uses)
    lines = [f"kernels{'':{width - 5}}  {'used':>4}  {'blocks':>7}  {'estimated us':>12}  origin"]
    for use in uses:
        lines.append(f"  {use.name:<{width}}  {use.count:>4}  {use.blocks:>7}  {use.work / 1e3:12.1f}  {use.kernel.origin}")
    return [*lines, *_products(planned, kernels)]


def _products(planned: Graph, kernels: Mapping[Op, Code]) -> list[str]:
    """The different matrix products that NumPy does not compute."""
    found = {kernel.product: kernel for op in planned.ops if isinstance(kernel := kernels.get(op), MatmulKernel)}
    counts = Counter(kernel.product for kernel in kernels.values() if isinstance(kernel, MatmulKernel))
    lines = [f"  {product}: {counts[product]} of them in {kernel.plan}; {kernel.origin}" for product, kernel in found.items()]
    return ["products", *lines] if lines else []
