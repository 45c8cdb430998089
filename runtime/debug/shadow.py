"""Shadow runs: some calls of a compiled function are made again, behind its back, by the plain Python function on NumPy, and compared.

The arguments of such a call are copied; a thread of its own runs the function later. Transforms within it are run op by op, so that a wrong
compilation of a gradient shows. A mismatch is looked into once for each function: the graph op by op tells whether the trace or the code is
wrong, and a bisection over the graph finds the op.
"""

from __future__ import annotations

import atexit
import copy
import inspect
import os
import queue
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from adjit.eager.modes import modes
from adjit.ir.dataclass import dataclass
from adjit.ir.errors import AdjitError, Location, ShadowWarning
from adjit.ir.graph import Graph, attributes_key
from adjit.ir.waiting_effects import no_effects
from adjit.runtime import settings
from adjit.runtime.debug import watch
from adjit.runtime.debug.bisect import TRACE_DIFFERS, Reproducer, bisect, make_reproducer
from adjit.runtime.debug.compare import difference, distance
from adjit.runtime.debug.op_by_op import reference_graph, run_op_by_op
from adjit.runtime.program import Program, compile_program
from adjit.tracer.array_wrapper import ArrayWrapper
from adjit.tracer.scope import calls_in_python
from adjit.tracer.signature import flatten_call
from adjit.tracer.trees import flatten, paths, structure_text
from adjit.tracer.user_location import warn_user

if TYPE_CHECKING:
    from adjit.runtime.compiled import CompiledFunction

Call = Callable[[], Any]

MAX_WAITING = 4
"""Calls that wait for their shadow run; further ones are not looked at, as the function would wait for its shadow."""

EXIT_SECONDS = 5.0
"""Longest time that the process waits at its end for shadow runs."""


@dataclass(slots=True)
class _Task:
    shadow: Shadow
    fun: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any
    written: Any        # the arguments behind the call
    program: Program
    captured: tuple[np.ndarray, ...]        # copies, as the caller may refill the arrays as soon as the call is done


class Shadow:
    """Shadow runs of one compiled function: of a `share` of its calls, the first one among them."""

    def __init__(self, function: CompiledFunction[..., Any], share: float):
        self._function, self.share = function, share
        self.calls = self.compared = 0
        self.report = ""            # on the mismatch that was found
        self.reason = ""            # why calls are not compared
        self._told = False

    def call(self, run: Callable[..., Any], fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """`run(fun, args, kwargs)`, and a shadow run of the call if it is its turn."""
        self._tell()
        number, self.calls = self.calls, self.calls + 1
        is_turn = int(number * self.share) != int((number - 1) * self.share) or number == 0
        if not is_turn or self.report or self.reason or watch.is_reference():
            return run(fun, args, kwargs)
        if not _worker.has_room() or any(isinstance(leaf, ArrayWrapper) for leaf in flatten((args, kwargs))[0]):
            return run(fun, args, kwargs)
        copies = copy.deepcopy((args, kwargs))
        result = run(fun, args, kwargs)
        found = self._find(fun, args, kwargs)
        if found is not None:
            program, captured = found
            given = len(program.param_roles) - len(captured)
            changes = program.trace.stored or program.trace.containers
            if program.tensors is not None or changes or any(param >= given for param, _ in program.trace.writes):
                self.reason = "it changes tensors or stores values outside of the function, which a second run would change again"
                return result
            _worker.put(_Task(self, fun, *copies, *copy.deepcopy((result, (args, kwargs))), program, tuple(map(np.array, captured))))
        return result

    def _find(self, fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Program, Sequence[np.ndarray]] | None:
        """The program of a call, and the arrays that it captures, as they are now."""
        options = self._function.compile_options
        return self._function._cache.find(flatten_call(fun, args, kwargs, options.static, modes.key))

    def _is_unchanged(self, task: _Task) -> bool:
        """True if what the function reads from outside is what it was at the call: Python's run reads it later."""
        found = self._find(task.fun, task.args, task.kwargs)
        return found is not None and found[0] is task.program and all(
            one.shape == other.shape and one.dtype == other.dtype and one.tobytes() == np.asarray(other).tobytes()
            for one, other in zip(task.captured, found[1], strict=True))

    def _compared(self, task: _Task, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What is compared of a call: its result, and the arguments behind it, without donated ones, whose memory is anything by then."""
        donate = self._function.compile_options.donate
        if donate:
            parameters = inspect.signature(task.fun).parameters.values()
            names = [p.name for p in parameters if p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD)]
            args = tuple(None if names[min(index, len(names) - 1)] in donate else arg for index, arg in enumerate(args))
            kwargs = {name: None if name in donate else arg for name, arg in kwargs.items()}
        return result, (args, kwargs)

    def describe(self) -> str:
        """A line for `explain()`."""
        if self.reason:
            return f"no call is compared with Python's: {self.reason}"
        return self.report or f"{self.compared} of {self.calls} calls compared with Python's: no difference"

    def _tell(self) -> None:
        if self.report and not self._told:
            self._told = True
            warn_user(self.report, ShadowWarning)

    # -- in the thread of shadow runs

    def look(self, task: _Task) -> None:
        """Make the call in Python, and compare."""
        if not self._is_unchanged(task):
            return
        args, kwargs = copy.deepcopy((task.args, task.kwargs))
        expected = self._compared(task, _in_python(task.fun, args, kwargs), args, kwargs)
        if not self._is_unchanged(task):
            return      # it was changed meanwhile
        found = self._compared(task, task.result, *task.written)
        text = _tree_difference(found, expected)
        self.compared += 1
        if not text or self.report:
            return
        args, kwargs = copy.deepcopy((task.args, task.kwargs))
        again = self._compared(task, _in_python(task.fun, args, kwargs), args, kwargs)
        if not self._is_unchanged(task):
            return
        if _tree_difference(again, expected):
            self.reason = "the Python function gives other results each time for the same arguments"
            return
        program = task.program
        signature = flatten_call(task.fun, task.args, task.kwargs, self._function.compile_options.static, modes.key)
        given = [np.array(array) for array in (*signature.leaves, *task.captured)]
        ends = [program.trace.rebuild(run_op_by_op(reference_graph(program), given, inexact=inexact)) for inexact in (False, True)]
        text = _tree_difference(found, expected, ends)
        if text:
            self.report = self._explain(task, program, given, text, _tree_difference((ends[0], found[1]), (expected[0], found[1])))

    def _explain(self, task: _Task, program: Program, given: list[np.ndarray], text: str, traced: str) -> str:
        """Words for a mismatch: the result that differs, the op or line that makes it, and a file that shows it again. Empty if comparisons
        of numbers that are rounded otherwise make it. `traced` says how the graph, op by op, differs from Python."""
        name = program.planned.name
        head = f"shadow run of {name}: {text}"
        graph = reference_graph(program)
        try:
            wrong = bisect(graph, given, self._function.compile_options, program.threads)
            if not isinstance(wrong, int):
                op, reproducer = wrong
                where = "" if op.loc is None else f"\n    at {op.loc.describe()}"
                return f"{head}\n    the compiled code of {op.name} computes another value than NumPy{where}{_saved(reproducer, name)}"
            if wrong and not traced:
                return ""
            found = self._stale(task, graph)
            if found is not None:
                op_name, location = found
                where = "" if location is None else f"\n    at {location.describe()}"
                return (f"{head}\n    the function is traced otherwise now: the program holds an old {op_name}{where}\n"
                        "    pass what changed as an argument, or call .clear_cache() after changing it")
            results = run_op_by_op(graph, given)
            reproducer = make_reproducer(graph, given, results, self._function.compile_options.backend, f"{name}: {text}; {TRACE_DIFFERS}")
            return f"{head}\n    the graph, op by op, computes what the compiled program does: {TRACE_DIFFERS}" \
                f"{_saved(reproducer, name)}"
        except AdjitError as error:
            return f"{head}\n    it could not be bisected: {error.message}"

    def _stale(self, task: _Task, graph: Graph) -> tuple[str, Location | None] | None:
        """The first op that a trace of now has otherwise than the program."""
        function = self._function
        args, kwargs = copy.deepcopy((task.args, task.kwargs))
        signature = flatten_call(task.fun, args, kwargs, function.compile_options.static, modes.key)
        options = replace(function.compile_options, backend="interpret", roll_loops=False)
        now = reference_graph(compile_program(task.fun, args, kwargs, signature, options, "a shadow run"))
        for old, new in zip(graph.ops, now.ops, strict=False):
            if old.name != new.name or attributes_key(old.attrs) != attributes_key(new.attrs):
                return old.name, new.loc
        return None


def _in_python(fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of the plain function, whose transforms are run op by op; prints and other effects are left out."""
    with calls_in_python(), watch.reference(), no_effects(), np.errstate(all="ignore"):
        return fun(*args, **kwargs)


def _tree_difference(found: Any, expected: Any, ends: Sequence[Any] = ()) -> str:
    """Words for how a pair of a result and arguments differs from another one; empty if it does not. `ends` are two results that rounding
    of the arguments makes, of which results may be as far apart."""
    leaves, tree = flatten(found)
    others, other_tree = flatten(expected)
    if tree != other_tree:
        return f"the result is {structure_text(tree)}, Python's {structure_text(other_tree)}"
    noise = [distance(*pair) for pair in zip(*(flatten(end)[0] for end in ends), strict=True)] if ends else []
    noise += [max(filter(np.isfinite, noise), default=0.0)] * (len(leaves) - len(noise))
    for path, one, other, apart in zip(paths(tree), leaves, others, noise, strict=True):
        if not isinstance(other, (np.ndarray, np.generic, bool, int, float, complex)):
            continue
        one, other = np.asarray(one), np.asarray(other)
        text = difference(one, other.astype(one.dtype) if other.dtype.kind == one.dtype.kind and not other.shape else other, apart)
        if text:
            return f"the result{path[3:]} {text}" if path.startswith("[0]") else f"the argument args{path[6:]} {text}"
    return ""


def _saved(reproducer: Reproducer, name: str) -> str:
    folder = settings.DUMP.get() or Path(tempfile.gettempdir())
    folder.mkdir(parents=True, exist_ok=True)
    plain = "".join(letter if letter.isalnum() else "_" for letter in name)
    path = folder / f"adjit-{plain}-{os.getpid()}-{len(list(folder.glob(f'adjit-{plain}-{os.getpid()}-*')))}.npz"
    reproducer.save(path)
    return f"\n    python -m adjit replay {path}"


class _Worker:
    """The thread of shadow runs, made at the first one, also in a forked child."""

    def __init__(self) -> None:
        self._pid = -1
        self._tasks: queue.Queue[_Task] = queue.Queue()

    def has_room(self) -> bool:
        """True if a further call may be looked at."""
        if self._pid != os.getpid():
            self._pid, self._tasks = os.getpid(), queue.Queue()
            threading.Thread(target=self._run, args=(self._tasks,), name="adjit shadow runs", daemon=True).start()
            atexit.register(self._end)
        return self._tasks.unfinished_tasks < MAX_WAITING

    def put(self, task: _Task) -> None:
        self._tasks.put(task)

    def wait(self, seconds: float) -> None:
        """Wait until all shadow runs are done."""
        with self._tasks.all_tasks_done:
            self._tasks.all_tasks_done.wait_for(lambda: not self._tasks.unfinished_tasks, seconds)

    def _end(self) -> None:
        self.wait(EXIT_SECONDS)
        for shadow in list(_reported):
            shadow._tell()

    def _run(self, tasks: queue.Queue[_Task]) -> None:
        while True:
            task = tasks.get()
            try:
                task.shadow.look(task)
            except Exception as error:      # the function itself fails in Python, or is gone
                task.shadow.reason = f"Python's run raised {type(error).__name__}: {error}"
            if task.shadow.report:
                _reported.append(task.shadow)
            del task
            tasks.task_done()


_worker = _Worker()
_reported: list[Shadow] = []


def wait(seconds: float = 60.0) -> None:
    """Wait until the shadow runs of all calls so far are done.

    >>> wait()
    """
    _worker.wait(seconds)
