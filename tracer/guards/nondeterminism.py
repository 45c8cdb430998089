"""Warns where a traced function draws random numbers or reads the clock: the program would have those of the trace in every call.

Whether numbers were drawn is told by the states of the generators before and after. A clock has no state: where the code of a function that
is reached names one, the trace is watched for calls of it. Without such names a trace pays for looking at the names alone.
"""

from __future__ import annotations

import ctypes
import dis
import random
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from types import CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

from adjit.tracer.guards.module_owner import module_of
from adjit.tracer.guards.source import Source
from adjit.tracer.user_location import is_ours

_READ = frozenset({"time", "perf_counter", "monotonic", "process_time", "thread_time", "urandom", "getrandom", "now", "utcnow", "today",
                   "time_ns", "perf_counter_ns", "monotonic_ns", "process_time_ns", "thread_time_ns", "generate_time_safe"})
_CLOCKS = frozenset({"time", "posix", "nt", "_uuid", "datetime"})      # the modules of those
_ENTROPY = frozenset({"uuid", "secrets", "random"})                     # ask the system for random bytes, for their callers
_CALLABLES = frozenset({"builtin_function_or_method", "method", "function", "type", "cython_function_or_method"})
_VARIABLES = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF"})
_ATTRIBUTES = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_NOTHING = frozenset({"CACHE", "EXTENDED_ARG", "PRECALL", "PUSH_NULL"})
_MT19937_BYTES = 4 * 625        # its words, and its position in them
_SEEDED, _NUMPY = "seed", "numpy.random"
_HOMES = _ENTROPY | _CLOCKS | {_NUMPY}


class CodeLine(NamedTuple):
    """A line of the user's code."""

    file: str
    line: int
    function: str


class Mention(NamedTuple):
    """Names in code, one after the other (`np.random.rand`), and what they stand for."""

    names: tuple[str, ...]
    values: tuple[Any, ...]
    line: CodeLine


_warned: set[tuple[CodeLine, str]] = set()


@contextmanager
def nondeterminism_reported(roots: Sequence[Any], sources: Sequence[Source]) -> Iterator[None]:
    """Warn of what functions among `roots` and `sources` draw or read within the block, once for each line."""
    functions = list(dict.fromkeys(_functions([*roots, *(source.value for source in sources)])))
    mentions = [mention for function in functions for mention in _mentions(function)]
    generators = _generators(sources, mentions)
    states = [_state(generator, mentions) for generator in generators.values()]
    clocks = [mention for mention in mentions if _is_clock(mention.values[-1])]
    if clocks:
        with _clock_reads_reported(clocks):
            yield
    else:
        yield
    for (name, generator), then in zip(generators.items(), states, strict=True):
        if _state(generator, mentions) != then and not any(_SEEDED in mention.names and _is_of(mention, generator) for mention in mentions):
            _warn(_line_of(name, generator, mentions, functions), f"draws from {name}",
                  "draw with aj.random from a key that is an argument, or pass the numbers as arguments")


def _warn(line: CodeLine, what: str, remedy: str) -> None:
    kind = what.partition(" ")[0]
    if (line, kind) not in _warned:
        _warned.add((line, kind))
        warnings.warn_explicit(
            f"{line.function} {what} while it is traced: the program keeps these numbers, and has them in every call; {remedy}",
            RuntimeWarning, line.file, line.line)


# -- the code that is reached


def _functions(values: Iterable[Any]) -> Iterator[FunctionType]:
    """The user's functions among values, and behind methods, partials and wrappers of ours."""
    for value in values:
        while type(value) is not FunctionType:
            if type(value) is MethodType:
                value = value.__func__
            elif type(value) is partial:
                value = value.func
            elif is_ours(module_of(type(value))) and hasattr(value, "__wrapped__"):
                value = value.__wrapped__
            else:
                break
        if type(value) is FunctionType and not is_ours(value.__module__ or ""):
            yield value


def _mentions(function: FunctionType) -> Iterator[Mention]:
    """What the code of a function names of clocks and random numbers; the code is looked at only where its names suggest some."""
    code, names = function.__code__, _names(function.__code__)
    variables = {name: function.__globals__[name] for name in names & function.__globals__.keys()}
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            variables[name] = cell.cell_contents
        except ValueError:      # not bound yet
            continue
    suspects = {name: value for name, value in variables.items() if _is_suspect(value, names)}
    if not suspects:
        return
    for chain, line in _chains(code):
        if chain[0] in suspects:
            values = [suspects[chain[0]]]
            for name in chain[1:]:
                if not isinstance(values[-1], (ModuleType, type)):
                    break
                values.append(getattr(values[-1], name, None))
            yield Mention(chain, tuple(values), line)


def _is_suspect(value: Any, names: frozenset[str]) -> bool:
    """True if a variable holds a generator, a clock, or a module that has some."""
    if isinstance(value, ModuleType):
        module = value.__name__
        return module in _HOMES or (module == "numpy" and "random" in names) or (module == "os" and not _READ.isdisjoint(names))
    if type(value).__name__ in _CALLABLES:
        return _module_of(value) in _HOMES
    return isinstance(value, _kinds())


def _module_of(value: Any) -> str:
    """The module of a function or class; of a method that of its object."""
    owner = getattr(value, "__self__", None)
    owner = value if owner is None or isinstance(owner, ModuleType) else owner if isinstance(owner, type) else type(owner)
    module = getattr(owner, "__module__", None) or ""
    return _NUMPY if module.startswith("numpy.random") else module


@lru_cache(maxsize=4096)
def _names(code: CodeType) -> frozenset[str]:
    return frozenset({*code.co_names, *code.co_freevars}).union(*(_names(inner) for inner in code.co_consts if isinstance(inner, CodeType)))


@lru_cache(maxsize=4096)
def _chains(code: CodeType) -> tuple[tuple[tuple[str, ...], CodeLine], ...]:
    """Variables with the attributes that are read of them, in a code object and those nested in it: `np.random.rand`."""
    found: list[tuple[tuple[str, ...], CodeLine]] = []
    names: tuple[str, ...] = ()
    line = code.co_firstlineno
    for step in dis.get_instructions(code):
        if step.opname in _NOTHING:
            continue
        if names and step.opname in _ATTRIBUTES:
            names = (*names, step.argval)
        else:
            if names:
                found.append((names, CodeLine(code.co_filename, line, code.co_name)))
            names = (step.argval,) if step.opname in _VARIABLES else ("", step.argval) if step.opname in _ATTRIBUTES else ()
        line = (step.positions.lineno if step.positions else None) or line
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            found += _chains(inner)
    return tuple(found)


# -- generators


def _kinds() -> tuple[type, ...]:
    """The classes of generators; NumPy's where they are loaded."""
    module = sys.modules.get(_NUMPY)
    return (random.Random,) if module is None else (random.Random, module.Generator, module.RandomState)


def _generators(sources: Sequence[Source], mentions: Iterable[Mention]) -> dict[str, Any]:
    """The generators that can be drawn from, by name: those that are reached, NumPy's own, and Python's where it is named."""
    found = {}
    if "numpy.random.mtrand" in sys.modules:
        found["np.random"] = vars(sys.modules["numpy.random.mtrand"])["_rand"]
    shared = random.random.__self__     # type: ignore[attr-defined]
    if any(_is_of(mention, shared) for mention in mentions):
        found["random"] = shared
    kinds, known = _kinds(), {id(generator) for generator in found.values()}
    for source in sources:
        if isinstance(source.value, kinds) and id(source.value) not in known:
            known.add(id(source.value))
            found[source.path] = source.value
    return {path: generator for path, generator in found.items() if not isinstance(generator, random.SystemRandom)}     # which has no state


def _is_of(mention: Mention, generator: Any) -> bool:
    """True if these names are those of a generator, or of one of its methods; or of a function that seeds it."""
    module = random if isinstance(generator, random.Random) else sys.modules.get(_NUMPY)
    return any(value is generator or getattr(value, "__self__", None) is generator or (value is module and mention.names[-1] == _SEEDED)
               for value in mention.values)


def _state(generator: Any, mentions: Iterable[Mention]) -> Any:
    """Equal as long as nothing is drawn."""
    if isinstance(generator, random.Random):
        return generator.getstate()
    bits = generator.bit_generator if hasattr(generator, "bit_generator") else generator._bit_generator
    state: Any = ctypes.string_at(bits.ctypes.state_address, _MT19937_BYTES) if type(bits).__name__ == "MT19937" else repr(bits.state)
    if hasattr(generator, "get_state") and any(_is_of(mention, generator) for mention in mentions):     # takes 50 us
        return state, generator.get_state(legacy=False)["has_gauss"]        # normal numbers are drawn in pairs
    return state


def _line_of(path: str, generator: Any, mentions: Iterable[Mention], functions: Sequence[FunctionType]) -> CodeLine:
    """Where a generator is named; the function that is traced where it is not."""
    for mention in mentions:
        if _is_of(mention, generator):
            return mention.line
    attribute = path.rpartition(".")[2].partition("[")[0]
    for function in functions:
        for names, line in _chains(function.__code__):
            if attribute in names:
                return line
    code = functions[0].__code__ if functions else _generators.__code__
    return CodeLine(code.co_filename, code.co_firstlineno, code.co_name)


# -- clocks


def _is_clock(value: Any) -> bool:
    """True if calling this reads a clock, or random bytes of the system; of what is written in Python, whether it may."""
    if type(value).__name__ not in _CALLABLES:
        return False
    home, name = _module_of(value), getattr(value, "__name__", "")
    return (home in _CLOCKS and name in _READ) or (home in ("uuid", "secrets") and type(value) is not type) or name == "default_rng"


@contextmanager
def _clock_reads_reported(mentions: Sequence[Mention]) -> Iterator[None]:
    """Warn of the clocks that are read within the block; where a profiler is at work, of all that are named."""
    read: dict[CodeLine, str] = {}
    if sys.getprofile() is not None:
        yield
        read = {mention.line: "" for mention in mentions}
    else:
        def watch(frame: FrameType, event: str, function: Any) -> None:
            if event != "c_call" or getattr(function, "__name__", None) not in _READ or not _is_clock(function):
                return
            caller: FrameType | None = frame
            while caller is not None and caller.f_globals.get("__name__") in _ENTROPY:
                caller = caller.f_back
            if caller is not None and not _is_library(caller.f_globals.get("__name__", "")):
                code = caller.f_code
                read[CodeLine(code.co_filename, caller.f_lineno or code.co_firstlineno, code.co_name)] = function.__name__

        sys.setprofile(watch)
        try:
            yield
        finally:
            sys.setprofile(None)
    for line, name in read.items():
        names = next((".".join(mention.names) for mention in mentions if mention.line == line), name)
        _warn(line, f"reads the clock or random bytes of the system ({names})", "read it outside, and pass it as an argument")


def _is_library(module: str) -> bool:
    return is_ours(module) or module.partition(".")[0] in sys.stdlib_module_names
