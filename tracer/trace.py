"""Tracing: runs a Python function on traced arrays and records the graph of its operations."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from functools import partial
from typing import Any

import numpy as np

from adjit.ir.builder import GraphBuilder
from adjit.ir.dataclass import dataclass
from adjit.ir.errors import AdjitError, DTypeError, Refusal, TraceError
from adjit.ir.graph import Graph, Value
from adjit.tracer.array import WRITTEN, TracedArray, TracedNDArray, unwrap, wrap
from adjit.tracer.array_checks import is_ndarray
from adjit.tracer.array_errors import write_refused
from adjit.tracer.array_wrapper import ArrayWrapper, IdentityKeyed
from adjit.tracer.captured_tables import capture_tables
from adjit.tracer.caught_errors import check_refused
from adjit.tracer.changed_arguments import change_of_argument, changed_arguments
from adjit.tracer.flow.identity_uses import compares_objects
from adjit.tracer.flow.lifted_list import lifted_lists, settle_lists
from adjit.tracer.flow.lifted_numbers import ARGUMENT, LiftedNumber, NotLiftable, check_escaped, lifted_input
from adjit.tracer.flow.printed_texts import PRINTS
from adjit.tracer.flow.recorder import recorder_of
from adjit.tracer.fresh_array import KnownArrays, fresh_arrays
from adjit.tracer.fresh_functions import numpy_functions
from adjit.tracer.guards.argument_containers import (
    ContainerChange,
    Node,
    Returned,
    changed_in,
    containers_in,
    nodes_of,
    templates_of_arguments,
    templates_of_arrays,
)
from adjit.tracer.guards.argument_identity import warn_of_identities
from adjit.tracer.guards.array_access import AccessLog, logging_access
from adjit.tracer.guards.asked_types import types_asked
from adjit.tracer.guards.bytecode import EVERYTHING
from adjit.tracer.guards.container_log import ContainerLog, logging_containers
from adjit.tracer.guards.content import ContentGuard, fingerprint
from adjit.tracer.guards.function_caches import clean_caches, cleared_caches
from adjit.tracer.guards.memos import Memos
from adjit.tracer.guards.module_owner import ModuleOwner, module_of, owner_of_class
from adjit.tracer.guards.nondeterminism import nondeterminism_reported
from adjit.tracer.guards.other_attributes import OtherAttributes
from adjit.tracer.guards.printing import logging_once, note_trace
from adjit.tracer.guards.reachability import Reachability, Roots
from adjit.tracer.guards.shown_while_traced import Shown, shown_by_decisions, warn_of_what_is_shown
from adjit.tracer.guards.side_effects import KeptValue, check_side_effects, restore, take_back_traced
from adjit.tracer.guards.snapshot import Written
from adjit.tracer.guards.source import MISSING, Source, names_in, rebind
from adjit.tracer.guards.state_arrays import StateArrays, shared_arrays
from adjit.tracer.guards.state_numbers import StateNumbers, asks_for_array
from adjit.tracer.guards.state_trees import StateTrees
from adjit.tracer.guards.stored_values import (
    StoredPlaces,
    StoredValue,
    bound_methods,
    check_bound,
    containers_changed_by,
    kept_as_they_are,
    library_attributes,
    stored_again,
    stores_of,
)
from adjit.tracer.guards.tallies import counting_containers
from adjit.tracer.guards.templates import ARGUMENTS, TemplateMaker, holds_traced
from adjit.tracer.guards.trace_guards import TraceGuards, make_guards
from adjit.tracer.python_scalars import asks_for_truth
from adjit.tracer.reentrancy import isolated_from_handlers
from adjit.tracer.results import NumberLeaf, OutLeaf, arrays_in, collect_results
from adjit.tracer.scipy_functions import scipy_functions
from adjit.tracer.scope import Pairs, Scope, entered, is_tracing
from adjit.tracer.signature import (
    NO_INTEGERS,
    CallSignature,
    Integers,
    StaticArgument,
    flatten_call,
    function_name,
)
from adjit.tracer.trees import Tree, TreeSpec, as_name, flatten, unflatten
from adjit.tracer.user_location import find_user_location, location_of, warn_user
from adjit.tracer.value_guards import CallValues, UnknownValueError, ValueGuard

__all__ = ["KnownArrays", "Pairs", "Trace", "is_tracing", "trace_function", "unwrap", "wrap"]


Writes = tuple[tuple[int, int], ...]    # parameters that the function writes to, each with the result that is its new content


def _nothing() -> None:
    """Restore nothing."""


@dataclass(frozen=True, slots=True)
class Trace:
    """A traced function.

    The graph's parameters are the traced leaves of the arguments, then `captured`: arrays that the function read from its closure or
    globals (roles "input" and "captured"), then other parameters that were added to the trace: the content of wrappers. Calls whose
    signature has the key of `signature` can use the trace while `sources` holds.

    `writes` lists the arrays that the function writes to; their new contents are the last results of the graph, in the order of the
    parameters. `same` lists the arguments that were the same array for the trace: it holds for such calls only. `early` lists
    arrays from outside that were read through a view, and then written to: the function has to be traced again, with these. `wanted` are
    those that Python read, and that were then written to: this trace holds for their content only, another one may hold for any.
    """

    graph: Graph
    signature: CallSignature
    out_tree: TreeSpec
    out_leaves: tuple[OutLeaf, ...]
    captured: tuple[np.ndarray, ...]
    guards: TraceGuards
    value_guards: tuple[ValueGuard, ...] = ()   # decisions on values that Python made
    in_order: frozenset[int] = frozenset()      # leaves that have to be C-contiguous, as they were: views and copies depend on it
    writes: Writes = ()
    same: Pairs = ()
    early: tuple[np.ndarray, ...] = ()
    wanted: tuple[np.ndarray, ...] = ()
    wanted_numbers: frozenset[str] | None = frozenset()    # paths of numbers outside that it reads and changes: likewise
    kept: tuple[KeptValue, ...] = ()        # values of the trace in state that the function reads
    stored: tuple[StoredValue, ...] = ()    # what each call stores in state; arrays among them are further results of the graph
    unread: frozenset[int] = frozenset()    # identities of the containers that each call changes, and of which it reads nothing
    restore: Callable[[], None] = _nothing      # gives the places of kept values what they held before
    containers: tuple[ContainerChange, ...] = ()    # what each call changes in lists, dicts and dataclasses that were passed to it
    returned: Returned = ()    # where in the result these are, each with its path among the arguments
    stored_params: frozenset[int] = frozenset()     # arguments of which each call stores the caller's array, or a view of it
    by_python: Written = field(default_factory=dict)    # arrays that the trace itself wrote to, until its call has run

    def written_params(self) -> frozenset[int]:
        """The parameters whose memory the function writes to; of arguments that are the same array, all."""
        return frozenset((*(param for param, _ in self.writes), *(param for pair in self.same for param in pair)))

    def rebuild(self, results: Sequence[Any]) -> Tree:
        """Build the function's result from one array for each result of the graph."""
        return unflatten(self.out_tree, (results[leaf] if isinstance(leaf, int) else leaf.number(results[leaf.index])
                                         if isinstance(leaf, NumberLeaf) else leaf.value for leaf in self.out_leaves))


@isolated_from_handlers
def trace_function(fun: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], *,
                   static_names: frozenset[str] = frozenset(), name: str | None = None, reachability: Reachability | None = None,
                   arrays: KnownArrays | None = None, call_values: CallValues | None = None, takes_back: bool = False,
                   integers: Integers = NO_INTEGERS) -> Trace:
    """Trace `fun(*args, **kwargs)` at top level; `reachability` is the objects that the function reaches, if they are known, `arrays`
    what is known of the arrays that it writes to, `integers` the Python integers that are inputs. With `call_values` Python may decide on
    values of this call. With `takes_back` the trace takes back what its program stores again.

    Raises `TraceError` for what cannot be traced, `UnsupportedError` for functions without a rule and arguments that
    are neither arrays nor trees of arrays.

    >>> import numpy as np
    >>> trace = trace_function(lambda x: np.sin(x) * 2, (np.ones(3),), {})
    >>> [op.name for op in trace.graph.ops]
    ['sin', 'constant', 'multiply']
    """
    signature = flatten_call(fun, args, kwargs, static_names, integers=integers)
    roots = trace_roots(fun, signature)
    known = Reachability(roots) if reachability is None else reachability
    return _FunctionTrace(signature, roots, known, arrays or KnownArrays(), call_values, name).trace(args, kwargs, takes_back)


class _FunctionTrace:
    """A trace that is under way: what its phases hand on to the next ones.

    The arguments become parameters, and the function runs; then `written` arrays and what it stored in objects from outside are found and
    become further results; then what it read becomes guards. `before` and `after` are what it reaches, by the keys of the places."""

    def __init__(self, signature: CallSignature, roots: list[Any], known: Reachability, arrays: KnownArrays, call_values: CallValues | None,
                 name: str | None):
        self.signature, self.roots, self.known, self.arrays, self.call_values = signature, roots, known, arrays, call_values
        self.function = signature.function
        self.builder = GraphBuilder(name or function_name(self.function), locate=find_user_location)
        self.scope = scope = Scope(self.builder)
        scope.values, scope.known_arrays = call_values, arrays
        if call_values is not None:
            call_values.begin(self.builder)
            scope.flow = recorder_of(scope)
        self.flow = None if call_values is None else call_values.flow
        self.before = known.by_key()
        self.places, self.others_bound = StoredPlaces(known), OtherAttributes(known)
        scope.asks_for_truth = any(map(asks_for_truth, known.codes))
        scope.module_attributes = library_attributes(known)
        scope.outside_roots = [*roots, *known.followed, *(source.value for source in known.found)]
        scope.outside_holders = [source.holder for source in known.found]
        self.shown: Sequence[Shown] = ()

    def trace(self, args: Sequence[Any], kwargs: Mapping[str, Any], takes_back: bool) -> Trace:
        """The trace of a call with these arguments; with `takes_back` it takes back what its program stores again."""
        scope = self.scope
        with entered(scope):
            self.make_arguments()
            with self.watched():
                self.run()
                self.find_written(args, kwargs)
                try:
                    self.find_stored()
                    self.find_shown()
                except (TraceError, NotLiftable):
                    self.places.take_back(self.after)
                    self.log.restore()
                    take_back_traced(self.before, self.after, scope.outside())
                    raise
            scope.arguments = ()        # they hold the scope
            self.make_guards()
            self.end_stores(takes_back)
            graph = self.make_graph()
        note_trace()
        return self.finished(graph)

    def make_arguments(self) -> None:
        """Make the function's arguments, with a traced array for each parameter of the graph."""
        signature, scope = self.signature, self.scope
        names, contents = iter(signature.value_names()), iter(signature.leaves)
        leaves: list[Any] = []
        self.arguments: list[Any] = []       # one for each parameter
        self.twins = {number: other for other, number in self.arrays.same}
        for index, leaf in enumerate(signature.all_leaves):
            if not signature.is_traced(index):
                leaves.append(leaf.value if isinstance(leaf, StaticArgument) else leaf)
                continue
            param, content = self.builder.param(signature.leaf_type(index), next(names)), next(contents)
            if self.call_values is not None:
                self.call_values.bind(param, content)
            if isinstance(leaf, ArrayWrapper):
                leaves.append(leaf.as_argument(wrap(param, scalar=False)))
                self.arguments.append(None)
                continue
            twin = self.twins.get(len(self.arguments))
            self.arguments.append(_argument(param, leaf, scope, index, signature.leaf_keys[index][0] == "weak") if twin is None
                                  else self.arguments[twin])
            leaves.append(self.arguments[-1])
        scope.arguments = tuple(self.arguments)
        self.traced = unflatten(signature.tree, leaves)
        self.given: tuple[list[Any], TreeSpec] = leaves, signature.tree
        if any(isinstance(leaf, StaticArgument) for leaf in signature.all_leaves):
            self.given = flatten(self.traced)
        self.nodes = nodes_of(self.traced)
        scope.containers = {id(node.container): node.path for node in self.nodes}
        self.of_arguments = templates_of_arguments(self.traced) if self.nodes else {}
        if scope.flow is not None:
            scope.flow.arguments = tuple(argument for argument in self.arguments if argument is not None and argument.shape)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Stand traced values in for numbers of state within the block, and observe what is read."""
        by_class = any(map(asks_for_array, self.known.codes))
        may_take, paths = self.arrays.may_take_numbers and not by_class, () if by_class else self.arrays.numbers
        self.trees = StateTrees(self.before, paths, may_take, self.scope.outside)
        self.places.before.update({key: self.before[key] for key in self.places.before.keys() & self.before.keys()})
        self.numbers = StateNumbers(self.before, paths, self.scope, may_take, self.trees)
        self.scope.memos = None if self.call_values is None else Memos(self.scope, self.known, self.numbers, may_take)
        found = self.known.found
        with self.trees.bound(), self.numbers.bound(self.before), \
                logging_access((source.value for source in found if _has_numbers(source.value)), self.arrays.written) as self.observation, \
                nondeterminism_reported(self.roots, found) as self.scope.generators, numpy_functions().in_force(), scipy_functions(), \
                logging_once(), fresh_arrays(self.scope, self.arrays):
            yield

    def run(self) -> None:
        """Run the function, and check what it leaves to no program."""
        scope, known = self.scope, self.known
        self.bound = bound_methods(known)
        containers = [*containers_changed_by(known), *(container for _, container, _ in self.bound)]
        with _stores_watched(scope, self.places, self.roots, containers, self.observation, bool(self.numbers),
                             self.store_values) as self.log, \
                lifted_lists(scope), types_asked(known, scope.flow is not None and scope.flow.graph.lifts_lists):
            self.log.numbers = self.numbers.numbers(self.before)
            self.log.counting = counting_containers(known.found, containers, self.places.reads)
            scope.outside()         # before other objects are stored there
            environment = dict(os.environ) if "environ" in known.names else None
            try:
                self.result = _call(self.function, *self.traced)
                settle_lists(scope)
                self.returned = containers_in(self.result, scope.containers) if scope.returned is None else scope.returned
            finally:
                clean_caches(known.found)
            check_refused(scope)
            if environment is not None:
                _check_environment(environment)
            if scope.flow is not None:
                scope.flow.finish(self.result)
            if scope.flow is not None or self.arrays.read:
                check_escaped(scope, flatten(self.result)[0])

    def find_written(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Find the arrays that were written to, and what the function reaches now."""
        scope, known = self.scope, self.known
        self.written = {number: argument for number, argument in enumerate(self.arguments) if argument is not None
                        and number not in self.twins and argument.written and argument.value is not self.builder.params[number]}
        if not self.written and not self.arrays.same:       # those that are written to are one array if one is passed twice
            warn_of_identities(self.function, args, kwargs, known.codes)
        self.updates = [(id(argument), argument.value) for argument in self.written.values()]
        captured = list(scope.captures)
        for number, taken in sorted((captured.index(identity), taken) for identity, taken in scope.taken.items() if taken.cell.written):
            self.written[len(self.arguments) + number] = taken.cell
            self.updates.append((id(taken.array), taken.cell.value))
        self.after = after = Reachability(self.roots, known, scope.host_functions)
        for source, found in self.others_bound.changed(known, after):
            after.found.append(found)
            if source.value is not MISSING:
                self.before[source.key] = self.places.before[source.key] = source

    def find_stored(self) -> None:
        """Find what the function stored, and collect the results of the graph: of the function, stored arrays, contents of written ones.
        Raises `TraceError` for what calls cannot store."""
        scope, log, after = self.scope, self.log, self.after
        check_bound(self.bound, log)
        self.state = StateArrays(scope, self.observation, self.arrays, after, self.numbers, self.trees)
        filled = changed_arguments(self.nodes, self.traced, self.given, self.signature)
        self.stores = stores = stores_of(self.places, log, after, scope, arrays_in(self.result, self.updates),
                                           given={**self.trees.templates(), **templates_of_arrays(self.traced)})
        self.own, self.kept, self.changed = check_side_effects(
            self.before, after, self.places, stores.keys, log.depending(), log.missed(), log.depending() & stores.numbers, stores.kept,
            scope.outside(), self.state.is_next, self.trees.inside, self.numbers.inputs().keys())
        again, self.others = stored_again([source for source in self.changed if id(source.holder) not in stores.numbers], self.before,
                                          scope.outside(), stores.make)
        self.changes = self.changes_of_arguments(filled, stores.make)
        stores.make.relate()
        if stores.make.are_related([each.source.value for each in self.kept if each.is_next]):
            raise TraceError("the compiled function stores an array and a view of it, and the next call reads both, which share memory "
                             "then", find_user_location(), hint="store the array alone, and take the view where it is used: a[1:3]")
        if stores.others or self.others:     # the trace changes for good what calls cannot change: another one would do so, too
            for wanted in (self.state.wanted, self.numbers.wanted, self.trees.wanted):
                wanted.clear()
        stores.make.first = len(arrays_in(self.result, self.updates))        # wrappers that are stored have made them more
        self.values, self.out_tree, self.out_leaves = collect_results(self.result, self.updates, stores.make.arrays)
        stores.make.end()
        scope.keep_wrapper = None       # it holds the scope
        scope.texts.clear()
        scope.stand_ins.clear()
        self.values_stored = (*stores.values, *again, *kept_as_they_are(after, self.own, scope.outside()))

    def make_guards(self) -> None:
        """Make the guards of what the function read, and would read in the next call."""
        scope, observation, after, flow = self.scope, self.observation, self.after, self.flow
        self.builder.ops = capture_tables(self.builder.ops, scope.capture, scope.filled)
        self.captures = tuple(scope.captures.values())
        read, forms, viewed = _contents(after, observation, scope), observation.forms, observation.viewed
        if flow is not None:        # what other ways read counts, too: they are part of the graph
            flow.note_reads(read, forms, viewed, scope.depends_on_strides)
            read, forms, viewed, scope.depends_on_strides = flow.contents, flow.forms, flow.viewed, flow.depends_on_strides
        inputs = self.numbers.inputs()
        rebound = {each.source.key for each in self.kept if each.is_next}
        guards = make_guards(self.before, after, self.captures, self.own | self.stores.keys | inputs.keys(), read, forms, viewed, rebound,
                             self.trees)
        shared = shared_arrays(self.before.values(), self.places.may_be, self.stores.make.arrays_moved)
        self.guards = replace(guards, fixed=(*guards.fixed, *shared, *self.stores.make.viewed, *self.stores.others, *self.others,
                                     *cleared_caches(after.found)),
                              numbers=tuple({each.capture: each for each in inputs.values()}.values()),
                              distinct=bool(rebound) and any(map(compares_objects, after.codes)))

    def end_stores(self, takes_back: bool) -> None:
        """Take back what the function stored, where the program stores it again, or another trace begins with what was there before."""
        scope, flow, stores = self.scope, self.flow, self.stores
        self.taken_back = [KeptValue(source, self.before[source.key].held if source.key in self.before else MISSING)
                           for source in self.changed if id(source.holder) in scope.outside()]
        if takes_back:
            self.places.take_back(self.after, stores.keys)
            self.log.restore(stores.numbers - stores.kept)
        if flow is not None:
            flow.guards.append(self.guards)
            flow.changes_state = flow.changes_state or bool(
                self.own or self.values_stored or stores.others or self.others or self.changes)
            if flow.exploring or flow.forwarded:        # this call does not go the way that was traced
                self.undo([each for each in (*self.kept, *self.taken_back) if holds_traced(each.source.value) or is_ndarray(each.before)])
        self.numbers.wanted |= self.trees.wanted
        if self.scope.memos is not None:
            self.numbers.wanted |= self.scope.memos.wanted
        if self.numbers.wanted or self.state.wanted or self.trees.failed:
            self.undo((*self.kept, *self.taken_back))
            self.kept, self.taken_back = (), []
        scope.outside_roots.clear()         # what the function made and stored may end now
        scope.outside_holders.clear()

    def undo(self, changed: Sequence[KeptValue]) -> None:
        """Take back all that the trace stored."""
        self.places.take_back(self.after)
        self.log.restore()
        for each in reversed(changed):
            each.restore()

    def store_values(self, after: Reachability, log: ContainerLog) -> bool:
        """Store the values of this call where the function stored values of the trace before it raised an exception; False if there is
        nothing of the kind, or if they are not known."""
        scope, places, signature = self.scope, self.places, self.signature
        values = scope.root.values
        if values is None or not isinstance(scope.builder, GraphBuilder):
            return False
        scope.root.keep_wrapper = None      # there is no program that would make them
        try:
            filled = changed_arguments(self.nodes, self.traced, self.given, signature)
            stores = stores_of(places, log, after, scope, (), of_regions=True, given=templates_of_arrays(self.traced))
            if stores.others and scope.wrappers:
                return False
            _, _, changed = check_side_effects(places.before, after, places, stores.keys, log.depending(), log.missed(),
                                               log.depending() & stores.numbers, stores.kept, scope.outside(), lambda *_: False,
                                               of_program=False)
            again, _ = stored_again([source for source in changed if id(source.holder) not in stores.numbers], places.before,
                                    scope.outside(), stores.make)
            changes = self.changes_of_arguments(filled, stores.make)
            stores.make.relate()
            written = [(taken.array, taken.cell) for taken in scope.taken.values() if taken.cell.written]
            written += [(array, argument) for argument, array in zip(self.arguments, signature.memory(), strict=True)
                        if argument is not None and argument.written]
            contents = [(array, values.array(argument.value, scope.builder)) for array, argument in written]
            results = [_value_in_call(values, array, scope) for array in stores.make.arrays]
        except (TraceError, UnknownValueError):
            return False
        places.take_back(after, stores.keys)
        log.restore(stores.numbers)
        for each in again:      # what changes its place is read where it was
            if isinstance(each.place, Source):
                key = each.place.key
                rebind(each.place.read, places.before[key].held if key in places.before else MISSING)
        for array, content in contents:
            plain = np.ndarray.view(array, np.ndarray)
            if scope.known_arrays is not None:
                scope.known_arrays.written.setdefault(id(array), (array, plain.copy()))
            plain[...] = content
        made: dict[int, Any] = {ARGUMENTS: signature.arguments}
        stored = [(each, each.value(results, made)) for each in (*stores.values, *again)]
        items = [(change, change.content(results, made)) for change in changes]
        for each, value in stored:
            each.store(value)
        for change, new in items:
            change.store(signature.arguments, new)
        return True

    def changes_of_arguments(self, filled: Sequence[Node], make: TemplateMaker) -> tuple[ContainerChange, ...]:
        """What calls change in containers among the arguments. Raises `TraceError` if they cannot."""
        given, make.given = make.given, self.of_arguments
        changes = tuple(change_of_argument(node, self.scope, self.given, self.signature, make) for node in filled)
        make.given = given
        return changes

    def find_shown(self) -> None:
        """Find what is shown where decisions on values lead. A function of tensors is traced again then, as one whose calls print, but for
        one that has printed into files: it would do so twice."""
        known, scope = self.scope.known_arrays, self.scope
        if self.call_values is not None:
            self.shown = shown_by_decisions(self.after.codes, [guard.location for guard in self.call_values.guards], self.scope.printed)
        may_print = known is not None and not known.prints and scope.has_tensors and not scope.prints_to_files
        if may_print and any(each.verb == "prints" for each in self.shown):
            raise NotLiftable(frozenset((PRINTS,)))

    def make_graph(self) -> Graph:
        """Build the graph, whose captured parameters have the names of their places. Raises `TraceError` for one that was written to."""
        _warn_of_unguarded(self.after, self.function)
        warn_of_what_is_shown(self.shown)
        for index, source, _ in reversed(self.guards.captured):
            self.captures[index].value.name = as_name(source.path)
        for capture in self.captures:
            if fingerprint(capture.array) != capture.content:
                raise TraceError("an ordinary array is written to after it was used in the traced function", capture.location,
                                 hint="the compiled function reads it at run time: make a new array instead of writing to this one")
        return _in_order(self.builder.build(self.values), self.signature, [capture.value for capture in self.captures])

    def finished(self, graph: Graph) -> Trace:
        """The trace, of which nothing holds the scope."""
        scope, stores, count = self.scope, self.stores, len(self.values)
        read = self.observation.read
        in_order = (index for index, leaf in enumerate(self.signature.leaves)
                    if scope.depends_on_strides and leaf.ndim > 1 and leaf.flags.c_contiguous)
        restores = self.kept or stores.kept or self.taken_back
        return Trace(
            graph, self.signature, self.out_tree, self.out_leaves, self.guards.arrays, self.guards,
            value_guards=() if self.call_values is None else tuple(self.call_values.guards),
            in_order=frozenset(in_order),
            writes=tuple(zip(self.written, range(count - len(self.written), count), strict=True)),
            same=self.arrays.same,
            early=_read_through_views(scope),
            wanted=(*(taken.array for taken in scope.taken.values() if any(id(array) in read for array, _ in taken.classes)),
                    *self.state.wanted),
            wanted_numbers=None if self.trees.failed else frozenset(self.numbers.wanted),
            kept=self.kept,
            stored=self.values_stored,
            unread=self.log.unread(stores.numbers),
            restore=partial(restore, (*self.kept, *self.taken_back), self.values_stored, self.log, stores.kept) if restores else _nothing,
            containers=self.changes,
            returned=changed_in(self.returned, self.changes),
            stored_params=frozenset(number for number, argument in enumerate(self.arguments) if id(argument) in stores.make.used))


def _check_environment(before: Mapping[str, str]) -> None:
    """Raise `TraceError` if the traced function changed the environment, which is as it was then."""
    changed = [name for name in {**before, **os.environ} if before.get(name) != os.environ.get(name)]
    for name in changed:
        if name in before:
            os.environ[name] = before[name]
        else:
            del os.environ[name]
    if changed:
        raise TraceError(f"the compiled function changes os.environ[{changed[0]!r}]: later calls would not change it again",
                         find_user_location(), hint="change the environment outside of the function")


@contextmanager
def _stores_watched(scope: Scope, places: StoredPlaces, roots: Sequence[Any], containers: Sequence[Any],
                    observation: AccessLog, traces_again: bool,
                    store_values: Callable[[Reachability, ContainerLog], bool]) -> Iterator[ContainerLog]:
    """Tell what a function stores, and what it does to `containers`; where the trace is to be made again, as after any error with
    `traces_again`, take back what it stored, and note what it read; after another exception `store_values`."""
    log = ContainerLog(())
    try:
        with logging_containers(containers) as log, places.marked():
            scope.added = partial(places.added, log)
            yield log
    except BaseException as error:
        if not isinstance(error, AdjitError):
            _settle(error, scope)
        flow = None if scope.root.values is None else scope.root.values.flow
        after = Reachability(roots, places.known, scope.host_functions)
        again = flow is not None and (
            flow.exploring or flow.again or flow.guided or scope.lifted or flow.lifted or flow.has_ways)     # the call is traced again
        if again and flow is not None:
            flow.note_reads(_contents(after, observation, scope), observation.forms, observation.viewed, scope.depends_on_strides)
            flow.changes_state = flow.changes_state or bool(places.stored(after)) or bool(log.changes) or bool(places.counted)
        again = again or traces_again or getattr(error, "traces_again", False) or (
            scope.known_arrays is not None and (scope.known_arrays.read or scope.known_arrays.no_call))
        if again or isinstance(error, Refusal) or not isinstance(error, Exception) or not store_values(after, log):
            places.take_back(after)
            log.end_tallies()
            log.restore()
            for key, source in reversed(after.by_key().items()):
                if isinstance(source.value, LiftedNumber) or (key in places.before and holds_traced(source.value)):
                    rebind(source.read, places.before[key].held if key in places.before else MISSING)
        raise
    finally:
        scope.added = dict


def _settle(error: BaseException, scope: Scope) -> None:
    """Give an exception of the user's the numbers of this call in place of traced ones, which end with the trace."""
    values = scope.root.values
    if values is None:
        return

    def number(held: Any) -> Any:
        if not isinstance(held, TracedArray):
            return held
        with suppress(TraceError, UnknownValueError):
            result = _value_in_call(values, held, scope)
            return result.item() if held.weak else result
        return held

    if any(isinstance(held, TracedArray) for held in error.args):
        error.args = tuple(map(number, error.args))
    for name, held in vars(error).items():
        vars(error)[name] = number(held)


def _value_in_call(values: CallValues, stored: Any, scope: Scope) -> Any:
    """What a call stores for an array of the trace, or of a region of it that has ended. Raises `UnknownValueError` if it is not known."""
    array = WRITTEN[id(stored)][1] if id(stored) in WRITTEN else stored
    of_region = isinstance(array, TracedArray) and array.scope is not scope
    at = array.scope.builder if of_region else scope.builder
    value = array.last_value() if of_region else unwrap(stored)
    if value is None or not isinstance(at, GraphBuilder):
        raise UnknownValueError
    found = values.array(value, at)
    return found[()] if not found.shape else np.array(found)


def _read_through_views(scope: Scope) -> tuple[np.ndarray, ...]:
    """Return the arrays from outside that were written to, after the trace had made a parameter of a view of them."""
    return tuple(taken.array for taken in scope.taken.values() if any(
        capture.array is not taken.array and np.may_share_memory(capture.array, taken.array) for capture in scope.captures.values()))


def _argument(param: Value, leaf: Any, scope: Scope, index: int, weak: bool) -> TracedArray:
    """Make the traced array for an argument: what is an array for the caller can be written to, unless it is read-only."""
    if type(leaf) is int:
        return lifted_input(param, scope, (ARGUMENT, str(index)), int)
    if not isinstance(leaf, np.ndarray):
        return wrap(param, weak=weak)
    argument = wrap(param, writable=leaf.flags.writeable, scalar=False)
    argument.layout_known = leaf.flags.c_contiguous
    return argument


def trace_roots(fun: Callable[..., Any], signature: CallSignature) -> Roots:
    """Roots of the objects that a trace may read besides its traced arguments: the function and its static arguments."""
    static = [(index, leaf.value if isinstance(leaf, StaticArgument) else leaf) for index, leaf in enumerate(signature.all_leaves)
              if not signature.is_traced(index)]
    roots = Roots([fun, *(leaf for _, leaf in static)])
    named = [(index, leaf) for index, leaf in static
             if owner_of_class(type(leaf)) is ModuleOwner.USER and not isinstance(leaf, IdentityKeyed)]
    paths = signature.leaf_paths() if named else []
    roots.paths = {id(leaf): paths[index] for index, leaf in reversed(named)}
    return roots


def _warn_of_unguarded(reach: Reachability, fun: Callable[..., Any]) -> None:
    """Warn, once for each function, of objects whose changes would not be noticed."""
    for path, value in reach.unguarded.items():
        if (function_name(fun), path) in _warned:
            continue
        _warned.add((function_name(fun), path))
        kind = f"{module_of(type(value)).partition('.')[0]}.{type(value).__qualname__}"
        warn_user(f"{function_name(fun)} names {path or 'an object'} ({kind}), and adjit cannot see when its content changes: compiled "
                  "calls use the values that Python read from it in the first call. Pass values that change as arguments, as arrays")


_warned: set[tuple[str, str]] = set()


def _has_numbers(value: Any) -> bool:
    return is_ndarray(value) and not value.dtype.hasobject


def _contents(reach: Reachability, observation: AccessLog, scope: Scope) -> dict[int, ContentGuard]:
    """Content guards of the arrays that Python read during the trace, by identity: of all arrays if the code calls functions that are not
    followed."""
    contents: dict[int, ContentGuard] = {}
    everything = reach.calls_libraries or EVERYTHING in reach.stored
    written = observation.checksums.keys() if scope.plain_writes else observation.checksums.keys() & scope.captures.keys()
    taken = set() if reach.reads_memory else {id(array) for each in scope.taken.values() for array, _ in each.classes} - observation.read
    for source in reach.found:
        array = source.value
        if id(array) not in taken and _has_numbers(array) and (everything or id(array) in observation.read or id(array) in written
                                    or not names_in(source.path).isdisjoint(reach.stored)):
            path = f"{source.path}, which Python reads while the function is traced,"
            contents.setdefault(id(array), ContentGuard(path, array, observation.checksums.get(id(array))))
    for identity, (array, checksum) in scope.frozen.items():
        contents.setdefault(identity, ContentGuard("a mask that decides a shape", array, checksum))
    return contents


def _in_order(graph: Graph, signature: CallSignature, captured: Sequence[Value]) -> Graph:
    """Order the parameters of the graph: arguments, captured arrays, others."""
    first = [*graph.params[:len(signature.leaves)], *captured]
    known = set(first)
    roles = dict(zip(graph.params, graph.param_roles, strict=True))
    params = (*first, *(value for value in graph.params if value not in known))
    return replace(graph, params=params, param_roles=tuple(roles[value] for value in params))


_WANTS_NUMBER = ("__bool__ should return bool", "returned non-float (type Traced", "returned non-int (type Traced")
"""Words of Python's errors about methods of the user's classes."""

_WANTS_MEMORY = ("must be numpy.ndarray, not TracedND", "TracedNDArray to numpy.ndarray", "bytes-like object is required, not 'TracedND")
"""Words of errors of functions in C that read the memory of their arguments."""


def _call(fun: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    try:
        return fun(*args, **kwargs)
    except ValueError as error:
        if isinstance(error.__cause__, TraceError):     # for plain[i] = x NumPy says that x is a sequence, whatever x itself says
            raise write_refused(error.__cause__.location) from error
        raise
    except TypeError as error:
        if not str(error).startswith(f"unhashable type: '{TracedNDArray.__name__}'"):
            text = str(error)
            if any(words in text for words in _WANTS_MEMORY):
                is_solver = "argument 1 must be" in text
                hint = "for scipy.sparse.linalg.factorized(A) call splu(A).solve" if is_solver else "call it by aj.pure_callback"
                raise TraceError(f"a function that is written in C takes NumPy's own arrays, and got a traced one ({text})",
                                 location_of(error) or find_user_location(), hint=hint) from error
            if any(words in text for words in _WANTS_NUMBER):
                error.add_note("Python takes no traced array from such a method: write bool(...), float(...) or int(...) around what it "
                               "returns, which asks for the number of this call")
            if "TracedNDArray'" in text and "'str'" not in text and "'NoneType'" not in text:
                error.add_note("A traced array, which stands for a NumPy array, met an object that takes none. Convert what another "
                               "library holds outside of the compiled function: np.asarray(a)")
            raise
        raise DTypeError("unhashable type: an array is a member of a set or a key of a dict", location_of(error),
                         hint="NumPy's arrays have no hash either: take their numbers, set(x.tolist()); x.item() of a 0-d array") from error


