"""Traces that are under way in this thread, and the arrays they captured."""

from __future__ import annotations

import ctypes
import itertools
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from adjit.ir.builder import GraphBuilder
from adjit.ir.dataclass import dataclass
from adjit.ir.emitter import emitting
from adjit.ir.errors import AdjitError, Location
from adjit.ir.graph import Value
from adjit.ir.interpreter import ArrayValue, Evaluator
from adjit.ir.thread_context import thread
from adjit.ir.types import TensorType
from adjit.tracer.array_checks import check_array
from adjit.tracer.array_wrapper import ArrayWrapper
from adjit.tracer.guards.container_log import ORIGINAL_KIND
from adjit.tracer.guards.content import fingerprint
from adjit.tracer.guards.source import is_scalar, own_attributes
from adjit.tracer.user_location import find_user_location
from adjit.tracer.value_guards import CallValues


def _memory(array: np.ndarray) -> tuple[Any, ...]:
    return array.ctypes.data, array.shape, array.strides, array.dtype.str


def transposed_from(array: np.ndarray) -> tuple[np.ndarray, tuple[int, ...]] | None:
    """Return a C-contiguous array on the same memory, and the permutation that gives `array`; None if `array` is no such permutation."""
    if array.__class__ is not np.ndarray or array.flags.c_contiguous:
        return None
    order = np.argsort([-stride for stride in array.strides], kind="stable")
    straight = array.transpose(order)
    if not straight.flags.c_contiguous:
        return None
    return straight, tuple(int(axis) for axis in np.argsort(order))


_MOST_OUTSIDE = 20_000
_HEAP_TYPE = 1 << 9
_ATTRIBUTED = (SimpleNamespace, FunctionType, ModuleType)     # that have attributes, besides those of classes


@dataclass(frozen=True, slots=True)
class CapturedArray:
    """Array that the function read from its closure or globals; `value` is the parameter that stands for it."""

    array: np.ndarray
    value: Value
    content: int
    location: Location | None


Pairs = tuple[tuple[int, int], ...]     # parameters on the same memory: the first one, and another


@dataclass(frozen=True, slots=True)
class Taken:
    """Array from outside that the function writes to, the traced array that it stands for, and the classes that it and its views had."""

    array: np.ndarray
    cell: Any
    classes: list[tuple[np.ndarray, type]]


class Scope:
    """One trace, one region of a trace, or one function that is evaluated at once.

    Traced arrays belong to the scope they were made in, and are dead when it is closed.
    """

    def __init__(self, builder: GraphBuilder | Evaluator, parent: Scope | None = None, hands_writes_on: bool = False):
        self.builder = builder
        self.evaluates = isinstance(builder, Evaluator)
        self.parent = parent
        self.batched: bool = parent is not None and parent.batched   # whether it is traced for one example, and stands for a batch of them
        self.as_pytorch: bool = parent is not None and parent.as_pytorch     # whether bfloat16 promotes as that of tensors
        self.hands_writes_on = hands_writes_on                 # whether the region may write to arrays from outside of it
        self.written: dict[int, tuple[Any, Value]] = {}        # those arrays, by identity, and their values before
        self.open = True
        self.captures: dict[int, CapturedArray] = {}                 # by identity; of the outermost scope
        self.views_captured: dict[tuple[Any, ...], CapturedArray] = {}      # those that are views, by memory
        self.same_views: dict[int, np.ndarray] = {}                  # other views of their memory, kept alive
        self.arrays: list[np.ndarray] = []                     # plain arrays that came into an evaluating scope
        self.views: dict[tuple[Any, ...], np.ndarray] = {}     # by memory; of the outermost scope
        self.frozen: dict[int, tuple[np.ndarray, int]] = {}    # arrays whose content decided a shape
        self.wrappers: list[weakref.ref[ArrayWrapper]] = []           # made around its arrays; of the outermost scope
        self.keep_wrapper: Callable[[Any], int] | None = None         # has calls make one again; of the outermost scope
        self.print: Callable[..., bool] | None = None          # has calls print what `print` is given; of the outermost scope
        self.texts: list[Any] = []                             # of values, which calls print; of the outermost scope
        self.stand_ins: list[tuple[str, str, Any]] = []        # texts of numbers for `%`, with their marks; of the outermost scope
        self.unshown: list[Callable[[], None]] = []            # prints without values, which calls do; of the outermost scope
        self.prints = 0                                        # number of them that it has done itself; of the outermost scope
        self.logs = 0                                          # number of log records; of the outermost scope
        self.prints_to_files = False                           # whether it has printed elsewhere; of the outermost scope
        self.has_tensors = False                               # whether it has read tensors of the caller; of the outermost scope
        self.printed: set[Location | None] = set()             # where it has printed itself, not its calls; of the outermost scope
        self.shared: dict[Any, Any] = {}                       # traces that serve many calls, by `region_key`; of the outermost scope
        self.host_functions: list[Any] = []                    # of `pure_callback`, which the program calls; of the outermost scope
        self.fresh: list[weakref.ref[np.ndarray]] = []         # arrays that the function made; of the outermost scope
        self.filled: set[Value] = set()                        # of those of them that have one number; of the outermost scope
        self.lent: list[tuple[np.ndarray, weakref.ref[memoryview]]] = []     # memory that user code reads; of the outermost scope
        self.taken: dict[int, Taken] = {}                      # arrays from outside that are written to; of the outermost scope
        self.viewed_outside: set[int] = set()                  # those of them of which the function read a view from outside
        self.arguments: tuple[Any, ...] = ()                   # those of the traced function
        self.containers: dict[int, tuple[int, ...]] = {}        # paths of those among the arguments, by identity; of the outermost scope
        self.result_tree: Any = None    # structure of the result, if whoever captures tensors takes it apart; of the outermost scope
        self.returned: Any = None       # where the result holds these, if whoever captures tensors takes it apart; of the outermost scope
        self.plain_writes = False                              # whether numbers go into arrays from outside while tracing only
        self.depends_on_strides = False                              # whether the memory order decided something; of the outermost scope
        self.values: CallValues | None = None                  # those of the call that is traced; of the outermost scope
        self.asks_for_truth = False     # whether code compares with True or False by identity; of the outermost scope
        self.flow: Any = None           # recorder of the decisions on values that are made in it
        self.cells: list[weakref.ref[Any]] = []         # its arrays that own their content, if it has such a recorder
        self.made: list[weakref.ref[Any]] = []          # its arrays, if it hands writes on
        self.lifted: list[weakref.ref[Any]] = []        # numbers of Python's that are traced; of the outermost scope
        self.lists: list[Any] = []      # lists of its function that are traced
        self.counts: dict[Value, Value] = {}    # of masks that choose so many first elements
        self.known_arrays: Any = None           # what is known of arrays from other traces of the call; of the outermost scope
        self.not_liftable: set[Any] = set()             # variables of which Python needs the number; of the outermost scope
        self.refused: AdjitError | None = None     # first one that the traced function's own handlers catch; of the outermost scope
        self.outside_roots: list[Any] = []      # objects from before the trace that the function reaches; of the outermost scope
        self.outside_holders: list[Any] = []    # objects that hold them: of a module's names the function says which it reads
        self._outside: set[int] | None = None
        self.generators: list[Any] = []     # of random numbers, which the function names; of the outermost scope
        self.module_attributes: list[tuple[ModuleType, str]] = []       # of libraries, which it may store; of the outermost scope
        self.added: Callable[[], Mapping[str, int]] = dict      # what the function has added to outside, and how often; of the outermost
        self.memos: Any = None          # what the function reads and stores, and hits of memos there; of the outermost scope
        self.counted = False                                   # whether it is one of the `open_traces`

    def note_write(self, array: Any) -> None:
        """Note that an array of the scope gets other content."""
        if self.flow is not None:
            self.flow.note_write(array)

    def is_seen_outside(self, array: Any) -> bool:
        """True for an argument of the traced function, and for an array from outside that is written to."""
        return any(array is argument for argument in self.arguments) or any(array is taken.cell for taken in self.taken.values())

    def outside(self) -> set[int]:
        """Identities of the objects that the function reaches from outside, through containers and attributes; of the outermost scope."""
        if self._outside is None:
            found = {id(value): value for value in self.outside_roots}
            waiting = list(found.values())
            found.update((id(holder), holder) for holder in self.outside_holders)
            for value in waiting:       # by their distance
                if len(found) >= _MOST_OUTSIDE:
                    break
                kind: Any = ORIGINAL_KIND.get(type(value), type(value))
                parts: Iterable[Any] = ()
                if kind in (list, tuple, set, frozenset, dict):
                    parts = itertools.chain(kind.__iter__(value), dict.values(value) if kind is dict else ())
                elif type(value).__flags__ & _HEAP_TYPE or kind in _ATTRIBUTED:
                    table = own_attributes(value)
                    found.update(((id(table), table), (id(kind), kind)))
                    if kind not in (FunctionType, ModuleType):      # whose attributes are sources
                        parts = table.values()
                new = {id(part): part for part in parts if id(part) not in found and not is_scalar(part)}
                found.update(new)
                waiting += new.values()
            self._outside = set(found)
            self.outside_roots = list(found.values())       # no other object gets such an identity
        return self._outside

    @property
    def root(self) -> Scope:
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope

    def is_elsewhere(self, array: np.ndarray) -> bool:
        """True if this outermost scope has taken over an array, and another trace, or none, is under way in this thread."""
        active = active_scope()
        return id(array) in self.taken and (active is None or active.root is not self)

    def capture(self, array: np.ndarray) -> Value:
        """Return the value of a plain array: a parameter of the outermost graph, the same one each time. Views of one memory are one
        parameter: a loop that indexes an array makes a view in each round."""
        if isinstance(self.builder, Evaluator):
            self.arrays.append(array)
            return ArrayValue(np.asarray(array, dtype=check_array(array, "an array")))
        root = self.root
        known = root.captures.get(id(array))
        if known is None and array.base is not None:
            known = root.views_captured.get(_memory(array))
            if known is not None:
                if known.content == fingerprint(array):
                    root.same_views[id(array)] = array
                else:       # written to in between
                    known = None
        if known is None:
            location = find_user_location()
            dtype = check_array(array, "an array used in the traced function", location)
            assert isinstance(root.builder, GraphBuilder)
            value = root.builder.param(TensorType(dtype, array.shape), role="captured")
            known = root.captures[id(array)] = CapturedArray(array, value, fingerprint(array), location)
            if array.base is not None:
                root.views_captured[_memory(array)] = known
            if root.values is not None and root.builder.parent is None:
                root.values.bind(value, array)
        return known.value

    def same_memory(self, array: np.ndarray) -> np.ndarray:
        """Return the array that represents this memory: its owner if the owner is the whole memory, else the first view seen."""
        base = array.base
        if base.__class__ is np.ndarray and _memory(base) == _memory(array):
            return base
        return self.root.views.setdefault(_memory(array), array)

    def freeze(self, array: np.ndarray) -> None:
        """Note that the trace holds for this content of `array` only."""
        self.root.frozen.setdefault(id(array), (array, fingerprint(array)))


def active_scope() -> Scope | None:
    """The innermost scope of this thread."""
    scopes: list[Scope] = thread.context.scopes
    return scopes[-1] if scopes else None


def outermost_scope() -> Scope:
    """The outermost of the scopes of this thread, of which there has to be one."""
    scopes: list[Scope] = thread.context.scopes
    return scopes[0]


def is_within_batch() -> bool:
    """True in a function that `vmap` traces for one example: what Python decides there has to hold for all examples."""
    scope = active_scope()
    while scope is not None and not getattr(scope.builder, "example_of", None):
        scope = scope.parent
    return scope is not None


def is_tracing() -> bool:
    """True if a trace is under way in this thread."""
    scopes: list[Scope] = thread.context.scopes
    return bool(scopes) and not scopes[-1].evaluates


open_traces = ctypes.c_int64(0)
"""Number of traces under way in all threads, for machine code, which cannot look at this thread's scopes: 0 means there is none. The
regions of a trace are not counted separately."""

_lock = threading.Lock()
_blocks = 0     # of `calls_in_python` that are under way, in all threads


@contextmanager
def calls_in_python() -> Iterator[None]:
    """Have all calls of compiled functions go through Python within the block, as during a trace: machine code asks nothing else."""
    global _blocks
    try:
        with _lock:
            _blocks += 1
            open_traces.value += 1
        yield
    finally:
        with _lock:
            _blocks -= 1
            open_traces.value -= 1


@contextmanager
def entered(scope: Scope) -> Iterator[Scope]:
    """Work in `scope` within the block; closed at its end.

    Ctrl-C may arrive after any call: a change that has to be undone is made within `try`, and undone before anything is called.
    """
    scopes, is_trace = thread.context.scopes, _is_trace(scope)
    depth = len(scopes)
    try:
        if is_trace:
            with _lock:
                open_traces.value += 1
                scope.counted = True
        with emitting(scope.builder):
            try:
                scopes.append(scope)        # never without its emitter: signal handlers look, too
                yield scope
            finally:
                del scopes[depth:]
    finally:
        scope.open = False
        scope.flow = scope.memos = None     # they know the scope: a reference cycle, with the arguments of the call
        if scope.counted:
            with _lock:
                open_traces.value -= 1
                scope.counted = False


@contextmanager
def outward(scope: Scope) -> Iterator[None]:
    """Work in an open scope around the active one within the block."""
    scopes = thread.context.scopes
    inner = scopes[scopes.index(scope) + 1:]
    try:
        del scopes[len(scopes) - len(inner):]
        with emitting(scope.builder):
            yield
    finally:
        scopes += inner


def _is_trace(scope: Scope) -> bool:
    return scope.parent is None and not scope.evaluates


def _recount() -> None:
    """Reset the count in a forked child, where the traces of other threads are gone."""
    global _lock
    _lock = threading.Lock()
    open_traces.value = sum(map(_is_trace, thread.context.scopes)) + _blocks


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_recount)


def evaluating() -> Scope:
    """Make a scope in which every op is run where it is called."""
    return Scope(Evaluator(find_user_location))
