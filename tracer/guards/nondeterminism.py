"""Warnings for traced functions that draw random numbers, read the clock, ask the file system or open files: each call would use what the
trace got. And for those that write where no call of the program does: files, streams, queues.

Draws are found by the states of the generators before and after the trace. A clock has no state: if the code of a reached function names a
clock, a profile function watches the trace for calls of it. Without such names a trace only pays for the search for the names.
"""

from __future__ import annotations

import ctypes
import dis
import random
import re
import sys
import warnings
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from io import IOBase
from types import CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

from adjit.tracer.guards.bytecode import ATTRIBUTE_LOADS, VARIABLE_LOADS, instructions, is_call_of, nested_code
from adjit.tracer.guards.module_owner import module_of
from adjit.tracer.guards.source import Source
from adjit.tracer.user_location import is_ours

_READ = frozenset({"time", "perf_counter", "monotonic", "process_time", "thread_time", "urandom", "getrandom", "now", "utcnow", "today",
                   "time_ns", "perf_counter_ns", "monotonic_ns", "process_time_ns", "thread_time_ns", "generate_time_safe",
                   "input", "localtime", "gmtime", "ctime", "asctime", "strftime", "getcwd", "getcwdb", "getpid", "getppid", "listdir",
                   "scandir", "stat", "lstat", "access"})
_CHANGING = frozenset({
    "remove", "unlink", "mkdir", "rmdir", "rename", "replace", "link", "symlink", "truncate", "chmod", "utime", "system"})
_ASKING = frozenset({"exists", "lexists", "isfile", "isdir", "islink", "getsize", "getmtime", "getctime", "getatime"})   # of `os.path`
_OF_FOLDERS = frozenset({"makedirs", "removedirs", "renames", "walk"})
_OF_NOW = {"localtime": 0, "gmtime": 0, "ctime": 0, "asctime": 0, "strftime": 1}       # read the clock if called with so many arguments
_PROCESS = _ASKING | {       # say where the process is, and what files there are
    "getcwd", "getcwdb", "getpid", "getppid", "listdir", "scandir", "stat", "lstat", "access", "walk", "is_file", "is_dir", "iterdir",
    "glob"}
_CLOCKS = frozenset({"time", "posix", "nt", "_uuid", "datetime", "builtins"})      # modules of these functions
_ENTROPY = frozenset({"uuid", "secrets", "random"})                     # read random bytes of the system for their callers
_WRITING = frozenset({"write_text", "write_bytes", "save", "savez", "savez_compressed", "savetxt"})
_FILES = _WRITING | {"open", "read_text", "read_bytes", "load", "loadtxt", "genfromtxt"}        # open files
_OPENING = frozenset({"io", "_io", "pathlib", "numpy"})                 # modules of these functions; open files for their callers
_FILING = _OPENING | {"os", "posixpath", "ntpath", "genericpath", "shutil", "zipfile", "glob"}      # do it for their callers
_MODE = re.compile(r"[bt]*[wax][bt+]*|[rbt]*\+[bt]*")
_STREAMS = frozenset({"queue", "_queue", "multiprocessing", "socket", "sqlite3", "threading", "_thread"})     # of objects, besides `io`
_PUTTING = frozenset({"write", "writelines", "put", "put_nowait", "send", "sendall", "execute", "executemany", "notify", "notify_all"})
_TAKING = frozenset({"read", "readline", "readlines", "getvalue", "getbuffer", "get", "get_nowait", "recv", "fetchone", "fetchall",
                     "is_set", "qsize", "empty", "full", "locked"})
_SAME_NUMBERS = "the compiled program uses the same numbers in every call"
_NOT_AGAIN = "later calls of the compiled function do not"
_SEEDING = frozenset({     # draw a seed from the system where none is given
    "default_rng", "SeedSequence", "RandomState", "PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64", "Random", "SystemRandom", "seed"})
_CALLABLES = frozenset({
    "builtin_function_or_method", "method", "function", "type", "cython_function_or_method", "_ArrayFunctionDispatcher"})
_FILED = _CHANGING | {"open", "listdir", "scandir", "stat", "lstat", "access"}
_VARIABLES = VARIABLE_LOADS | {"LOAD_CLASSDEREF"}
_MT19937_BYTES = 4 * 625        # its words, and the position in them
_SEEDED, _NUMPY = "seed", "numpy.random"
_HOMES = _ENTROPY | _CLOCKS | {_NUMPY}


class CodeLine(NamedTuple):
    """A line of the user's code."""

    file: str
    line: int
    function: str


class Mention(NamedTuple):
    """A variable with attributes in code (`np.random.rand`), and the values of its names."""

    names: tuple[str, ...]
    values: tuple[Any, ...]
    line: CodeLine


_warned: set[tuple[CodeLine, str]] = set()


@contextmanager
def nondeterminism_reported(roots: Sequence[Any], sources: Sequence[Source]) -> Iterator[list[Any]]:
    """Warn of draws and clock reads by functions among `roots` and `sources` within the block, once for each line.
    Yields the generators that their code names."""
    functions = list(dict.fromkeys(_functions([*roots, *(source.value for source in sources)])))
    mentions = [mention for function in functions for mention in _mentions(function)]
    generators = _generators(sources, mentions)
    states = [state_of(generator) for generator in generators.values()]
    clocks = [mention for mention in mentions if _is_clock(mention.values[-1])]
    named = [generator for generator in generators.values() if any(_is_of(mention, generator) for mention in mentions)]
    if clocks:
        with _clock_reads_reported(clocks):
            yield named
    else:
        yield named
    _warn_of_streams(sources, functions)
    for (name, generator), then in zip(generators.items(), states, strict=True):
        if state_of(generator) != then and not any(_SEEDED in mention.names and _is_of(mention, generator) for mention in mentions):
            _warn(_line_of(name, generator, mentions, functions), f"draws from {name}", _SAME_NUMBERS,
                  "draw with aj.random from a key that is an argument, or pass the numbers as arguments")


def _warn(line: CodeLine, what: str, follows: str, remedy: str) -> None:
    kind = what.partition(" ")[0]
    if (line, kind) not in _warned:
        _warned.add((line, kind))
        warnings.warn_explicit(
            f"{line.function} {what} while it is traced: {follows}; {remedy}",
            RuntimeWarning, line.file, line.line)


# -- reached code


def _functions(values: Iterable[Any]) -> Iterator[FunctionType]:
    """Yield the user's functions among values, and behind methods, partials and wrappers of ours."""
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
    """Yield the clocks and generators that the code of a function names; the code is read only if its names suggest some."""
    code, names = function.__code__, _names(function.__code__)
    variables = {name: function.__globals__[name] for name in names & function.__globals__.keys()}
    for name, builtin in (("input", input), ("open", open)):
        if name in names:
            variables.setdefault(name, builtin)
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            variables[name] = cell.cell_contents
        except ValueError:      # not bound yet
            continue
    suspects = {name: value for name, value in variables.items() if _is_suspect(value, names)}
    if not suspects:
        return
    for path, line in _attribute_reads(code):
        if path[0] in suspects:
            values = [suspects[path[0]]]
            for name in path[1:]:
                if not isinstance(values[-1], (ModuleType, type)):
                    break
                values.append(getattr(values[-1], name, None))
            yield Mention(path, tuple(values), line)


def _is_suspect(value: Any, names: frozenset[str]) -> bool:
    """True if a variable holds a generator, a clock, or a module that has some."""
    if isinstance(value, ModuleType):
        module = value.__name__
        return module in _HOMES or (module == "numpy" and "random" in names) or module == "shutil" or (
            module == "os" and not (_READ | _CHANGING | _ASKING | _OF_FOLDERS).isdisjoint(names)) \
            or (module in _OPENING and not _FILES.isdisjoint(names))
    if type(value).__name__ in _CALLABLES:
        home = _module_of(value)
        return home in _HOMES or home.partition(".")[0] in _FILING
    return isinstance(value, _kinds()) or _is_path(value)


def _is_path(value: Any) -> bool:
    """True for paths and their classes, whose methods open files."""
    return (value if isinstance(value, type) else type(value)).__module__.partition(".")[0] == "pathlib"


def _module_of(value: Any) -> str:
    """Module of a function or class; for a method, the module of its object."""
    owner = getattr(value, "__self__", None)
    owner = value if owner is None or isinstance(owner, ModuleType) else owner if isinstance(owner, type) else type(owner)
    module = getattr(owner, "__module__", None) or ""
    return _NUMPY if module.startswith("numpy.random") else module


@lru_cache(maxsize=4096)
def _names(code: CodeType) -> frozenset[str]:
    return frozenset({*code.co_names, *code.co_freevars}).union(*map(_names, nested_code(code)))


@lru_cache(maxsize=4096)
def _attribute_reads(code: CodeType) -> tuple[tuple[tuple[str, ...], CodeLine], ...]:
    """Return the variables and the attributes that are read of them, in a code object and its nested ones: `np.random.rand`."""
    found: list[tuple[tuple[str, ...], CodeLine]] = []
    names: tuple[str, ...] = ()
    line = code.co_firstlineno
    for step in instructions(code):
        if step.opname == "PUSH_NULL":
            continue
        if names and step.opname in ATTRIBUTE_LOADS:
            names = (*names, step.argval)
        else:
            if names:
                found.append((names, CodeLine(code.co_filename, line, code.co_name)))
            names = (step.argval,) if step.opname in _VARIABLES else ("", step.argval) if step.opname in ATTRIBUTE_LOADS else ()
        line = (step.positions.lineno if step.positions else None) or line
    for inner in nested_code(code):
        found += _attribute_reads(inner)
    return tuple(found)


# -- generators


def _kinds() -> tuple[type, ...]:
    """Return the classes of generators; NumPy's only if they are loaded."""
    module = sys.modules.get(_NUMPY)
    return (random.Random,) if module is None else (
        random.Random, module.Generator, module.RandomState, module.BitGenerator, module.SeedSequence)


def _generators(sources: Sequence[Source], mentions: Iterable[Mention]) -> dict[str, Any]:
    """Return the generators that can be drawn from, by name: the reached ones, NumPy's own, and Python's if code names it."""
    found = {}
    if "numpy.random.mtrand" in sys.modules:
        found["np.random"] = vars(sys.modules["numpy.random.mtrand"])["_rand"]
    shared = random.random.__self__     # type: ignore[attr-defined]
    if any(_is_of(mention, shared) for mention in mentions):
        found["random"] = shared
    kinds, known = _kinds(), {id(generator) for generator in found.values()}
    for source in sources:
        value = source.value
        while isinstance(value, partial):
            value = value.func
        value = value if isinstance(value, kinds) else getattr(value, "__self__", None) if type(value).__name__ in _CALLABLES else None
        if isinstance(value, kinds) and id(value) not in known:
            known.add(id(value))
            found[source.path] = value
    return {path: generator for path, generator in found.items() if not isinstance(generator, random.SystemRandom)}     # has no state


def _is_of(mention: Mention, generator: Any) -> bool:
    """True if these names lead to a generator, to one of its methods, or to a function that seeds it."""
    module = random if isinstance(generator, random.Random) else sys.modules.get(_NUMPY)
    return any(value is generator or getattr(value, "__self__", None) is generator or (value is module and mention.names[-1] == _SEEDED)
               for value in mention.values)


def state_of(generator: Any) -> Any:
    """State of a generator: equal as long as nothing is drawn, and no other generator is spawned."""
    if isinstance(generator, random.Random):
        version, words, normal = random.Random.getstate(generator)      # not a subclass's own
        return version, array("I", words).tobytes(), normal
    module = sys.modules[_NUMPY]
    if isinstance(generator, module.SeedSequence):
        return generator.n_children_spawned
    bits = generator if isinstance(generator, module.BitGenerator) else \
        generator.bit_generator if isinstance(generator, module.Generator) else generator._bit_generator
    state: Any = ctypes.string_at(bits.ctypes.state_address, _MT19937_BYTES) if type(bits).__name__ == "MT19937" else repr(bits.state)
    if isinstance(generator, module.RandomState):
        return state, generator.get_state(legacy=False)["has_gauss"]        # normal numbers are drawn in pairs
    return state, getattr(bits.seed_seq, "n_children_spawned", 0)


def _line_of(path: str, generator: Any, mentions: Iterable[Mention], functions: Sequence[FunctionType]) -> CodeLine:
    """Line that names a generator; the first line of the traced function if none does."""
    for mention in mentions:
        if _is_of(mention, generator):
            return mention.line
    attribute = path.rpartition(".")[2].partition("[")[0]
    for function in functions:
        for names, line in _attribute_reads(function.__code__):
            if attribute in names:
                return line
    code = functions[0].__code__ if functions else _generators.__code__
    return CodeLine(code.co_filename, code.co_firstlineno, code.co_name)


# -- clocks


def _is_clock(value: Any) -> bool:
    """True if a call of this reads a clock or random bytes of the system, or opens a file; of Python's own functions, if it may do so."""
    if isinstance(value, random.SystemRandom) or isinstance(getattr(value, "__self__", None), random.SystemRandom) or _is_path(value):
        return True
    if type(value).__name__ not in _CALLABLES:
        return False
    home, name = _module_of(value), getattr(value, "__name__", "")
    if home in ("os", "genericpath", "posixpath", "shutil"):
        return home == "shutil" or name in _ASKING | _OF_FOLDERS
    return (home in _CLOCKS and name in _READ | _CHANGING) or (home.partition(".")[0] in _OPENING and name in _FILES) \
        or (home in ("uuid", "secrets") and type(value) is not type) or name in _SEEDING


@contextmanager
def _clock_reads_reported(mentions: Sequence[Mention]) -> Iterator[None]:
    """Warn of the clocks that are read within the block; under a profiler, of all clocks that the code names."""
    read: dict[CodeLine, str] = {}
    written: set[CodeLine] = set()
    if sys.getprofile() is not None:
        yield
        read = {mention.line: "" for mention in mentions}
    else:
        def watch(frame: FrameType, event: str, function: Any) -> None:
            name = getattr(function, "__name__", None)
            seeded = name == _SEEDED and frame.f_globals.get("__name__") == "random" and frame.f_locals.get("a", ()) is None
            if event != "c_call" or not (seeded or ((name in _READ or name in _CHANGING or name == "open") and _is_clock(function))) \
                    or _says_when(frame, name):
                return
            readers = _FILING if name in _FILED else _ENTROPY
            caller: FrameType | None = frame
            writes = name in _CHANGING
            while caller is not None and ((module := caller.f_globals.get("__name__", "")).partition(".")[0] in readers
                                          or (caller is not frame and is_ours(module))):        # which hands on what NumPy's names do
                writes = writes or caller.f_code.co_name in _WRITING
                caller = caller.f_back
            if caller is not None and not _is_library(caller.f_globals.get("__name__", "")) and not _gives_seed(caller):
                code = caller.f_code
                line = CodeLine(code.co_filename, caller.f_lineno or code.co_firstlineno, code.co_name)
                writes = writes or (name == "open" and frame.f_globals.get("__name__", "").partition(".")[0] != "numpy"
                                    and _names_mode(code, line.line))
                read[line] = function.__name__ if writes or line not in read else read[line]
                if writes:
                    written.add(line)

        sys.setprofile(watch)
        try:
            yield
        finally:
            sys.setprofile(None)
    for line, name in read.items():
        named = sorted((mention.names for mention in mentions if mention.line == line), key=lambda each: each[-1] != name)
        names = ".".join(named[0]) if named else name
        if line in written:
            _warn(line, f"{'changes' if name in _CHANGING else 'writes'} files ({names})", _NOT_AGAIN,
                  "do it outside, with what the function returns, or by aj.debug.callback")
            continue
        what = "reads a file" if name == "open" or names.rpartition(".")[2] in _FILES else \
            "reads the keyboard" if names.endswith("input") else \
            "asks for the process or the file system" if names.rpartition(".")[2] in _PROCESS else \
            "reads the clock or random bytes of the system"
        _warn(line, f"{what} ({names})", _SAME_NUMBERS, "read it outside, and pass it as an argument")


def _names_mode(code: CodeType, line: int) -> bool:
    """True if a line of code has a text that opens a file to write."""
    return any(step.opname == "LOAD_CONST" and isinstance(step.argval, str) and _MODE.fullmatch(step.argval) is not None
               for step in instructions(code) if step.positions is not None and step.positions.lineno == line)


# -- streams and queues


def _warn_of_streams(sources: Sequence[Source], functions: Sequence[FunctionType]) -> None:
    """Warn of the methods of streams, queues and the like from outside that the code names: what these hold is none of Python's objects."""
    for source in sources:
        if not _is_stream(source.value):
            continue
        name = source.path.rpartition(".")[2]
        for owner, method, line in (call for function in functions for call in _method_calls(function.__code__)):
            told = f"{source.path} ({type(source.value).__name__}.{method})"
            if owner in (name, "") and method in _PUTTING and hasattr(type(source.value), method):
                _warn(line, f"writes to {told}", _NOT_AGAIN,
                      f"return what is to be written, or call aj.debug.callback({source.path}.{method}, ...)")
            elif owner == name and method in _TAKING and hasattr(type(source.value), method):
                _warn(line, f"reads from {told}", _SAME_NUMBERS, "read it outside, and pass it as an argument")


@lru_cache(maxsize=4096)
def _method_calls(code: CodeType) -> tuple[tuple[str, str, CodeLine], ...]:
    """Return the calls of methods in a code object and its nested ones: the variable or attribute whose method it is ("" for another
    object), the name of the method, and the line."""
    found, owner = [], ""
    for step in instructions(code):
        if step.opname == "PUSH_NULL":
            continue
        if step.opname == "LOAD_METHOD" or (step.opname == "LOAD_ATTR" and sys.version_info >= (3, 12) and (step.arg or 0) & 1):
            line = (step.positions.lineno if step.positions else None) or code.co_firstlineno
            found.append((owner, step.argval, CodeLine(code.co_filename, line, code.co_name)))
        owner = step.argval if step.opname in _VARIABLES | ATTRIBUTE_LOADS else ""
    return (*found, *(call for inner in nested_code(code) for call in _method_calls(inner)))


def _is_stream(value: Any) -> bool:
    """True for an open stream, other than those of the process, a queue, a connection, an event."""
    kind: Any = type(value)
    return _is_stream_class(kind) and not any(
        value is each for each in (sys.stdin, sys.stdout, sys.stderr, sys.__stdin__, sys.__stdout__, sys.__stderr__))


@lru_cache(maxsize=4096)
def _is_stream_class(kind: Any) -> bool:
    return issubclass(kind, IOBase) or module_of(kind).partition(".")[0] in _STREAMS


def _gives_seed(caller: FrameType) -> bool:
    """True if the call under way gives a seed to `RandomState`, or is `bits.jumped()`: both read random bytes, and do not use them."""
    if "jumped" in caller.f_code.co_names and is_call_of(caller.f_code, caller.f_lasti, "jumped"):
        return True
    step = caller.f_code.co_code[caller.f_lasti:caller.f_lasti + 2]
    return "RandomState" in caller.f_code.co_names and len(step) == 2 and dis.opname[step[0]] == "CALL" and step[1] > 0


def _says_when(caller: FrameType, name: str | None) -> bool:
    """True if the call under way converts a time that it is given: `time.localtime(t)`."""
    step = caller.f_code.co_code[caller.f_lasti:caller.f_lasti + 2]
    return name in _OF_NOW and len(step) == 2 and dis.opname[step[0]] == "CALL" and step[1] > _OF_NOW[name]


def _is_library(module: str) -> bool:
    return is_ours(module) or module.partition(".")[0] in sys.stdlib_module_names
