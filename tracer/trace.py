"""Tracing: runs a Python function on traced arrays and records the graph of its operations."""

from __future__ import annotations

import inspect
import operator
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from adjit.ir.batching import move_axis
from adjit.ir.builder import GraphBuilder
from adjit.ir.dataclass import dataclass
from adjit.ir.errors import DTypeError, Refusal, TraceError, UnsupportedError
from adjit.ir.graph import Graph, Value
from adjit.tracer.array import WRITTEN, TracedArray, TracedNDArray, as_traced, unwrap, without_labels, wrap
from adjit.tracer.array_checks import is_ndarray
from adjit.tracer.array_errors import write_refused
from adjit.tracer.array_wrapper import ArrayWrapper
from adjit.tracer.captured_tables import capture_tables
from adjit.tracer.caught_errors import check_refused
from adjit.tracer.flow.identity_uses import compares_objects
from adjit.tracer.flow.lifted_numbers import ARGUMENT, LiftedNumber, check_escaped, lifted_input
from adjit.tracer.flow.recorder import recorder_of
from adjit.tracer.fresh_array import KnownArrays, fresh_arrays
from adjit.tracer.fresh_functions import numpy_functions
from adjit.tracer.guards.argument_containers import (
    ContainerChange,
    Node,
    Returned,
    change_of,
    changed_in,
    changed_nodes,
    containers_in,
    is_stored_again,
    nodes_of,
    objects_of,
    templates_of_arguments,
)
from adjit.tracer.guards.argument_identity import warn_of_identities
from adjit.tracer.guards.array_access import AccessLog, logging_access
from adjit.tracer.guards.asked_types import types_asked
from adjit.tracer.guards.bytecode import EVERYTHING
from adjit.tracer.guards.container_log import ContainerLog, logging_containers
from adjit.tracer.guards.content import ContentGuard, fingerprint
from adjit.tracer.guards.function_caches import clean_caches
from adjit.tracer.guards.module_owner import module_of
from adjit.tracer.guards.nondeterminism import nondeterminism_reported
from adjit.tracer.guards.other_attributes import OtherAttributes
from adjit.tracer.guards.printing import note_trace
from adjit.tracer.guards.reachability import Reachability
from adjit.tracer.guards.shown_while_traced import warn_of_what_is_shown
from adjit.tracer.guards.side_effects import KeptValue, check_side_effects, restore, take_back_traced
from adjit.tracer.guards.source import MISSING, elsewhere, is_scalar, names_in, rebind
from adjit.tracer.guards.state_arrays import StateArrays
from adjit.tracer.guards.state_numbers import StateNumbers, asks_for_array
from adjit.tracer.guards.state_trees import StateTrees
from adjit.tracer.guards.stored_values import (
    StoredPlaces,
    StoredValue,
    containers_changed_by,
    kept_as_they_are,
    library_attributes,
    stored_again,
    stores_of,
)
from adjit.tracer.guards.tallies import counting_containers
from adjit.tracer.guards.templates import NotRepeatableError, TemplateMaker, holds_traced
from adjit.tracer.guards.trace_guards import TraceGuards, make_guards
from adjit.tracer.pending_number import PendingNumber
from adjit.tracer.python_scalars import asks_for_truth
from adjit.tracer.reentrancy import isolated_from_handlers
from adjit.tracer.scipy_functions import scipy_functions
from adjit.tracer.scope import Pairs, Scope, active_scope, entered, is_tracing
from adjit.tracer.signature import NO_INTEGERS, CallSignature, Integers, StaticArgument, argument_paths, container_name, flatten_call
from adjit.tracer.trees import Tree, TreeSpec, as_name, flatten, is_static, paths, unflatten
from adjit.tracer.user_location import find_user_location, line_that_changes, location_of, return_location, warn_user
from adjit.tracer.value_guards import CallValues, UnknownValueError, ValueGuard

__all__ = ["KnownArrays", "Pairs", "RegionTrace", "StaticLeaf", "Trace", "is_tracing", "trace_function", "trace_region", "unwrap", "wrap"]


@dataclass(frozen=True, slots=True)
class StaticLeaf:
    """Leaf of a result that is no array: the same at every call."""

    value: Any


@dataclass(frozen=True, slots=True)
class NumberLeaf:
    """Leaf of a result that is a Python number: result number `index` of the graph, `made` makes the number in a trace."""

    index: int
    made: Callable[[Value, Scope], LiftedNumber]

    def number(self, result: Any) -> Any:
        """The Python number for the result of a call."""
        return result if isinstance(result, TracedArray) else result.item()

    def wrapped(self, value: Value) -> LiftedNumber:
        """The number in the trace around that of a region."""
        scope = active_scope()
        assert scope is not None
        return self.made(value, scope)


OutLeaf = int | StaticLeaf | NumberLeaf     # the number of a result of the graph, a constant, or a number
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

    def rebuild(self, results: Sequence[Any]) -> Tree:
        """Build the function's result from one array for each result of the graph."""
        return unflatten(self.out_tree, (results[leaf] if isinstance(leaf, int) else leaf.number(results[leaf.index])
                                         if isinstance(leaf, NumberLeaf) else leaf.value for leaf in self.out_leaves))


@dataclass(frozen=True, slots=True)
class RegionTrace:
    """Function traced into a closed region of the trace under way.

    `operands` are the outer values for all parameters of `graph`: first those of the traced leaves of the arguments
    (`argument_count` of them), then the ones the function took from outside. `argument_tree` is the structure of `(args, kwargs)`
    and `argument_leaves` says for each leaf of it which parameter it is, or the static value. `written` are the arrays from outside
    that the function writes to, and `stored` those of its own that it stored in objects from outside; the last results are the new contents
    of the ones and the values of the others.
    """

    graph: Graph
    operands: tuple[Value, ...]
    argument_count: int
    argument_tree: TreeSpec
    argument_leaves: tuple[OutLeaf, ...]
    out_tree: TreeSpec
    out_leaves: tuple[OutLeaf, ...]
    written: tuple[TracedArray, ...] = ()
    stored: tuple[TracedArray, ...] = ()

    def hand_on(self, values: Sequence[Value]) -> None:
        """Give written arrays their new contents, and hand stored ones on to the trace under way, `values` being the results of `graph`."""
        scope, last = active_scope(), len(self.graph.results)
        assert scope is not None
        first = last - len(self.stored)
        for array, value in zip(self.written, values[first - len(self.written):first], strict=True):
            array.assign(value)
        for array, value in zip(self.stored, values[first:last], strict=True):
            array.hand_on(value, scope)

    def rebuild(self, values: Sequence[Value]) -> Tree:
        """Build the function's result from these values of the trace under way, for the results of `graph`."""
        return unflatten(self.out_tree, (wrap(values[leaf]) if isinstance(leaf, int) else leaf.wrapped(values[leaf.index])
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
    arrays = arrays or KnownArrays()
    same = arrays.same
    signature = flatten_call(fun, args, kwargs, static_names, integers=integers)
    builder = GraphBuilder(name or function_name(fun), locate=find_user_location)
    scope = Scope(builder)
    scope.values, scope.known_arrays = call_values, arrays
    if call_values is not None:
        call_values.begin(builder)
        scope.flow = recorder_of(scope)
    roots = trace_roots(fun, signature)
    known = Reachability(roots) if reachability is None else reachability
    before = known.by_key()
    places, others_bound = StoredPlaces(known), OtherAttributes(known)
    scope.asks_for_truth = any(map(asks_for_truth, known.codes))
    scope.module_attributes = library_attributes(known)
    scope.outside_roots = [*roots, *known.followed, *(source.value for source in known.found)]
    scope.outside_holders = [source.holder for source in known.found]
    with entered(scope):
        names, contents = iter(signature.value_names()), iter(signature.leaves)
        leaves: list[Any] = []
        arguments: list[Any] = []       # one for each parameter
        first = {number: other for other, number in same}
        for index, leaf in enumerate(signature.all_leaves):
            if signature.is_traced(index):
                param, content = builder.param(signature.leaf_type(index), next(names)), next(contents)
                if call_values is not None:
                    call_values.bind(param, content)
                if isinstance(leaf, ArrayWrapper):
                    leaves.append(leaf.as_argument(wrap(param, scalar=False)))
                    arguments.append(None)
                    continue
                twin = first.get(len(arguments))
                arguments.append(_argument(param, leaf, scope, index, signature.leaf_keys[index][0] == "weak") if twin is None
                                 else arguments[twin])
                leaves.append(arguments[-1])
            else:
                leaves.append(leaf.value if isinstance(leaf, StaticArgument) else leaf)
        scope.arguments = tuple(arguments)
        traced_args, traced_kwargs = unflatten(signature.tree, leaves)
        given = leaves, signature.tree
        if any(isinstance(leaf, StaticArgument) for leaf in signature.all_leaves):
            given = flatten((traced_args, traced_kwargs))
        nodes = nodes_of((traced_args, traced_kwargs))
        scope.containers = {id(node.container): node.path for node in nodes}
        of_arguments = templates_of_arguments((traced_args, traced_kwargs)) if nodes else {}
        if scope.flow is not None:
            scope.flow.arguments = tuple(argument for argument in arguments if argument is not None and argument.shape)
        by_class = any(map(asks_for_array, known.codes))
        may_take = arrays.may_take_numbers and not by_class
        trees = StateTrees(before, () if by_class else arrays.numbers, may_take, scope.outside)
        places.before.update({key: before[key] for key in places.before.keys() & before.keys()})
        numbers = StateNumbers(before, () if by_class else arrays.numbers, scope, may_take, trees)
        with trees.bound(), numbers.bound(before), \
                logging_access(source.value for source in known.found if _has_numbers(source.value)) as observation, \
                nondeterminism_reported(roots, known.found) as scope.generators, numpy_functions().in_force(), scipy_functions(), \
                fresh_arrays(scope, arrays):
            containers = containers_changed_by(known)
            with _stores_watched(scope, places, roots, containers, observation, bool(numbers)) as log, types_asked(known):
                log.numbers = numbers.numbers(before)
                log.counting = counting_containers(known.found, containers, places.reads)
                scope.outside()         # before other objects are stored there
                environment = dict(os.environ) if "environ" in known.names else None
                try:
                    result = _call(fun, traced_args, traced_kwargs)
                    returned = containers_in(result, scope.containers) if scope.returned is None else scope.returned
                finally:
                    clean_caches(known.found)
                check_refused(scope)
                if environment is not None:
                    _check_environment(environment)
                if scope.flow is not None:
                    scope.flow.finish(result)
                if scope.flow is not None or arrays.read:
                    check_escaped(scope, flatten(result)[0])
            written = {number: argument for number, argument in enumerate(arguments) if argument is not None and number not in first
                       and argument.written and argument.value is not builder.params[number]}
            if not written and not same:        # those that are written to are one array if one is passed twice
                warn_of_identities(fun, args, kwargs, known.codes)
            updates = [(id(argument), argument.value) for argument in written.values()]
            known_captures = list(scope.captures)
            for number, taken in sorted((known_captures.index(identity), taken) for identity, taken in scope.taken.items()
                                        if taken.cell.written):
                written[len(arguments) + number] = taken.cell
                updates.append((id(taken.array), taken.cell.value))
            after = Reachability(roots, known, scope.host_functions)
            for source in elsewhere(known.found, after.found):
                before[source.key] = places.before[source.key] = source
            for source, found in others_bound.changed(known, after):
                after.found.append(found)
                if source.value is not MISSING:
                    before[source.key] = places.before[source.key] = source
            state = StateArrays(scope, observation, arrays, after, numbers, trees)
            try:
                filled = _changed_arguments(nodes, (traced_args, traced_kwargs), given, signature)
                stores = stores_of(places, log, after, scope, _arrays_in(result, updates))
                own, kept, changed = check_side_effects(before, after, places, stores.keys, log.depending(), log.missed(),
                                                         log.depending() & stores.numbers, stores.kept, scope.outside(), state.is_next,
                                                         trees.inside)
                again, others = stored_again([source for source in changed if id(source.holder) not in stores.numbers], stores.make)
                stores.make.given = of_arguments
                changes = tuple(_change_of(node, scope, given, signature, stores.make) for node in filled)
                stores.make.given = {}
                if stores.others or others:     # the trace changes for good what calls cannot change: another one would do so, too
                    state.wanted.clear()
                    numbers.wanted.clear()
                    trees.wanted.clear()
                stores.make.first = len(_arrays_in(result, updates))        # wrappers that are stored have made them more
                values, out_tree, out_leaves = collect_results(result, updates, stores.make.arrays)
            except TraceError:
                places.take_back(after)
                log.restore()
                take_back_traced(before, after, scope.outside())
                raise
            stores.make.end()
            scope.keep_wrapper = None       # it holds the scope
            writes = tuple(zip(written, range(len(values) - len(written), len(values)), strict=True))
        scope.arguments = ()        # they hold the scope
        builder.ops = capture_tables(builder.ops, scope.capture, scope.filled)
        captures = tuple(scope.captures.values())
        read, forms, viewed = _contents(after, observation, scope), observation.forms, observation.viewed
        flow = None if call_values is None else call_values.flow
        if flow is not None:        # what other ways read counts, too: they are part of the graph
            flow.note_reads(read, forms, viewed, scope.depends_on_strides)
            read, forms, viewed, scope.depends_on_strides = flow.contents, flow.forms, flow.viewed, flow.depends_on_strides
        number_inputs = numbers.inputs()
        rebound = {each.source.key for each in kept if each.is_next}
        guards = make_guards(before, after, captures, own | stores.keys | number_inputs.keys(), read, forms, viewed, rebound, trees)
        guards = replace(guards, fixed=(*guards.fixed, *stores.others, *others),
                         numbers=tuple({each.capture: each for each in number_inputs.values()}.values()),
                         distinct=bool(rebound) and any(map(compares_objects, after.codes)))
        taken_back = [KeptValue(source, before[source.key].held if source.key in before else MISSING) for source in changed
                      if id(source.holder) in scope.outside()]
        values_stored = (*stores.values, *again, *kept_as_they_are(after, own, scope.outside()))
        if takes_back:
            places.take_back(after, stores.keys)
            log.restore(stores.numbers - stores.kept)
        if flow is not None:
            flow.guards.append(guards)
            flow.changes_state = flow.changes_state or bool(own) or bool(values_stored or stores.others or others or changes)
            if flow.exploring or flow.forwarded:        # this call does not go the way that was traced
                _undo(places, after, log, [each for each in (*kept, *taken_back)
                                           if holds_traced(each.source.value) or is_ndarray(each.before)])
        numbers.wanted |= trees.wanted
        if numbers.wanted or state.wanted or trees.failed:      # there will be another trace, which begins with what was there before
            _undo(places, after, log, (*kept, *taken_back))
            kept, taken_back = (), []
        scope.outside_roots.clear()         # what the function made and stored may end now
        scope.outside_holders.clear()
        _warn_of_unguarded(after, fun)
        if call_values is not None:
            warn_of_what_is_shown(after.codes, [guard.location for guard in call_values.guards])
        for index, source, _ in reversed(guards.captured):
            captures[index].value.name = as_name(source.path)
        for capture in captures:
            if fingerprint(capture.array) != capture.content:
                raise TraceError("an ordinary array is written to after it was used in the traced function", capture.location,
                                 hint="the compiled function reads it at run time: make a new array instead of writing to this one")
        graph = _in_order(builder.build(values), signature, [capture.value for capture in captures])
    note_trace()
    in_order = (index for index, leaf in enumerate(signature.leaves)
                if scope.depends_on_strides and leaf.ndim > 1 and leaf.flags.c_contiguous)
    decisions = () if call_values is None else tuple(call_values.guards)
    return Trace(graph, signature, out_tree, out_leaves, guards.arrays, guards, decisions, frozenset(in_order), writes, same,
                 _read_through_views(scope),
                 (*(taken.array for taken in scope.taken.values() if any(id(array) in observation.read for array, _ in taken.classes)),
                  *state.wanted), None if trees.failed else frozenset(numbers.wanted),
                 kept, values_stored, log.unread(stores.numbers),
                 partial(restore, (*kept, *taken_back), values_stored, log, stores.kept) if kept or stores.kept or taken_back else _nothing,
                 changes, changed_in(returned, changes))


def _undo(places: StoredPlaces, after: Reachability, log: ContainerLog, changed: Sequence[KeptValue]) -> None:
    """Take back all that a trace stored."""
    places.take_back(after)
    log.restore()
    for each in reversed(changed):
        each.restore()


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
                    observation: AccessLog, traces_again: bool) -> Iterator[ContainerLog]:
    """Tell what a function stores, and what it does to `containers`; where the trace is to be made again, as after any error with
    `traces_again`, take back what it stored, and note what it read."""
    log = ContainerLog(())
    try:
        with logging_containers(containers) as log, places.marked():
            scope.added = partial(places.added, log)
            yield log
    except BaseException as error:
        flow = None if scope.root.values is None else scope.root.values.flow
        after = Reachability(roots, places.known, scope.host_functions)
        again = flow is not None and (
            flow.exploring or flow.again or flow.guided or scope.lifted or flow.lifted or flow.has_ways)     # the call is traced again
        if again and flow is not None:
            flow.note_reads(_contents(after, observation, scope), observation.forms, observation.viewed, scope.depends_on_strides)
            flow.changes_state = flow.changes_state or bool(places.stored(after)) or bool(log.changes) or bool(places.counted)
        again = again or traces_again or getattr(error, "traces_again", False) or (scope.known_arrays is not None
                                                                                   and scope.known_arrays.read)
        if again or isinstance(error, Refusal) or not _store_values(scope, places, after, log):
            places.take_back(after)
            log.end_tallies()
            log.restore()
            for key, source in reversed(after.by_key().items()):
                if isinstance(source.value, LiftedNumber) or (key in places.before and holds_traced(source.value)):
                    rebind(source.read, places.before[key].held if key in places.before else MISSING)
        raise
    finally:
        scope.added = dict


def _store_values(scope: Scope, places: StoredPlaces, after: Reachability, log: ContainerLog) -> bool:
    """Store the values of this call where the function stored values of the trace before it raised an exception; False if there is nothing
    of the kind, or if they are not known."""
    values = scope.root.values
    if values is None or not isinstance(scope.builder, GraphBuilder):
        return False
    scope.root.keep_wrapper = None      # there is no program that would make them
    try:
        stores = stores_of(places, log, after, scope, ())
        if stores.others and scope.wrappers:
            return False
        _, _, changed = check_side_effects(places.before, after, places, stores.keys, log.depending(), log.missed(),
                                           log.depending() & stores.numbers, stores.kept, scope.outside(), lambda *_: False)
        again, _ = stored_again([source for source in changed if id(source.holder) not in stores.numbers], stores.make)
        results = [_result_of(values.array(unwrap(array), scope.builder)) for array in stores.make.arrays]
    except (TraceError, UnknownValueError):
        return False
    places.take_back(after, stores.keys)
    log.restore(stores.numbers)
    made: dict[int, Any] = {}
    stored = [(each, each.value(results, made)) for each in (*stores.values, *again)]
    for each, value in stored:
        each.store(value)
    return True


def _result_of(value: np.ndarray) -> Any:
    """What a call gives for a value of the trace."""
    return value[()] if not value.shape else np.array(value)


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


def trace_roots(fun: Callable[..., Any], signature: CallSignature) -> list[Any]:
    """Roots of the objects that a trace may read besides its traced arguments: the function and its static arguments."""
    return [fun, *(leaf.value if isinstance(leaf, StaticArgument) else leaf for index, leaf in enumerate(signature.all_leaves)
                   if not signature.is_traced(index))]


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
    taken = {id(array) for each in scope.taken.values() for array, _ in each.classes} - observation.read
    for source in reach.found:
        array = source.value
        if id(array) not in taken and _has_numbers(array) and (everything or id(array) in observation.read or id(array) in written
                                    or not names_in(source.path).isdisjoint(reach.stored)):
            path = f"{source.path}, which Python reads while the function is traced,"
            contents.setdefault(id(array), ContentGuard(path, array, observation.checksums.get(id(array))))
    for identity, (array, checksum) in scope.frozen.items():
        contents.setdefault(identity, ContentGuard("a mask that decides a shape", array, checksum))
    return contents


def trace_region(fun: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any] | None = None, *,
                 name: str | None = None, writable: bool = False, hands_writes_on: bool = False,
                 differentiated: bool = False, axes: Sequence[int | None] = (), varying: int = 0) -> RegionTrace:
    """Trace `fun(*args, **kwargs)` into a closed region, within the trace under way. `differentiated`: with respect to its arguments.
    The first `varying` arrays have other values each time that the region is run: no decision of Python may depend on them.
    With `axes`, one for each leaf of the arguments, the function gets one example of each batch along such an axis; the operand is the
    batch, with this axis first.

    Arrays among the arguments, traced or plain, and Python floats become parameters; bools, integers, strings and callables
    are static. If `writable`, the function may write to its arguments, which are copies; with `hands_writes_on` it may write to other
    arrays from outside.
    """
    outer = active_scope()
    if outer is None or not isinstance(outer.builder, GraphBuilder):
        raise TraceError("a region is traced outside of a trace", find_user_location())
    all_leaves, tree = flatten((tuple(args), dict(kwargs or {})))
    arguments = [leaf if is_static(leaf) else as_traced(leaf) for leaf in all_leaves]
    along = axes or [None] * len(arguments)
    operands = [leaf.value if axis is None else move_axis(leaf.value, axis, 0) for leaf, axis in zip(arguments, along, strict=True)
                if isinstance(leaf, TracedArray)]
    builder = GraphBuilder(name or function_name(fun), parent=outer.builder)
    scope = Scope(builder, parent=outer, hands_writes_on=hands_writes_on)
    scope.batched = scope.batched or bool(axes)
    scope.flow = None if scope.batched else recorder_of(scope)
    with entered(scope), _taking_back(scope):
        inner: list[Any] = []
        argument_leaves: list[OutLeaf] = []
        argument: Any = None
        given: Any = None
        for leaf, axis in zip(arguments, along, strict=True):
            if isinstance(leaf, TracedArray):
                outer_value = operands[len(builder.params)]
                argument_leaves.append(len(builder.params))
                if axis is not None:
                    param = builder.param(outer_value.type.with_shape(outer_value.type.shape[1:]), leaf.value.name)
                    builder.example_of[param] = outer_value
                    argument = wrap(param, writable=not param.type.shape)
                else:
                    param = builder.param(outer_value.type, leaf.value.name)
                    if len(argument_leaves) > varying:
                        builder.stands_for[param] = outer_value
                    argument = wrap(param, weak=leaf.weak, writable=writable or leaf.immutable, scalar=leaf.scalar)
                    argument.layout_known = leaf.layout_known and leaf.in_order
                given = all_leaves[len(inner)]
                inner.append(given.around(argument) if isinstance(given, ArrayWrapper) else argument)
            else:
                argument_leaves.append(StaticLeaf(leaf))
                inner.append(leaf)
        if differentiated:
            builder.differentiated = frozenset(builder.params)
        inner_args, inner_kwargs = unflatten(tree, inner)
        result = fun(*inner_args, **inner_kwargs)
        _check_arguments((inner_args, inner_kwargs), (inner, tree), fun, len(args))
        if scope.flow is not None:
            scope.flow.finish(result)
        values, out_tree, out_leaves = collect_results(result)
        written = tuple(array for array, _ in scope.written.values())
        del result, inner, inner_args, inner_kwargs, argument, given        # what lives on now is stored
        stored = tuple(array for made in scope.made if (array := made()) is not None)
        graph = builder.build([*values, *(array.value for array in (*written, *stored))])
    return RegionTrace(graph, (*operands, *builder.captures), len(operands), tree, tuple(argument_leaves), out_tree, out_leaves, written,
                       stored)


@contextmanager
def _taking_back(scope: Scope) -> Iterator[None]:
    """Take the writes to arrays from outside of a region back at its end: its values mean nothing outside."""
    try:
        yield
    finally:
        for array, before in scope.written.values():
            array.take_back(before)


def region_key(args: Sequence[Any]) -> tuple[Any, ...]:
    """Key of a region traced for these arguments at the user's line: calls with equal keys have equal regions, if the function reads
    nothing besides its arguments. Static leaves are compared by identity, so `args` have to be kept with the key."""
    leaves, tree = flatten(tuple(args))
    return find_user_location(), tree, *(id(leaf) if is_static(leaf) else _leaf_key(as_traced(leaf)) for leaf in leaves)


def _leaf_key(leaf: TracedArray) -> tuple[Any, ...]:
    return leaf.value.type, leaf.weak, leaf.scalar, leaf.immutable, leaf.layout_known and leaf.in_order


def inlined_once_traced(fun: Callable[..., Any], *arrays: TracedArray) -> Any:
    """Result of `fun(*arrays)`, a function that reads nothing besides its arguments. It is traced once for each key of the arguments; the
    ops of that trace are copied for other calls of the same outer trace."""
    scope = active_scope()
    if scope is None or not isinstance(scope.builder, GraphBuilder):
        return fun(*arrays)
    key = fun, *region_key(arrays)
    region = scope.root.shared.get(key)
    if region is None:
        region = scope.root.shared[key] = trace_region(fun, arrays)
        assert len(region.operands) == len(arrays), f"{function_name(fun)} captures values"
    return region.rebuild(scope.builder.inline(region.graph, [array.value for array in arrays]))


def _in_order(graph: Graph, signature: CallSignature, captured: Sequence[Value]) -> Graph:
    """Order the parameters of the graph: arguments, captured arrays, others."""
    first = [*graph.params[:len(signature.leaves)], *captured]
    known = set(first)
    roles = dict(zip(graph.params, graph.param_roles, strict=True))
    params = (*first, *(value for value in graph.params if value not in known))
    return replace(graph, params=params, param_roles=tuple(roles[value] for value in params))


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
            if "TracedNDArray'" in text and "'str'" not in text and "'NoneType'" not in text:
                error.add_note("A traced array, which stands for a NumPy array, met an object that takes none. Convert what another "
                               "library holds outside of the compiled function: np.asarray(a)")
            raise
        raise DTypeError("unhashable type: an array is a member of a set or a key of a dict", location_of(error),
                         hint="NumPy's arrays have no hash either: take their numbers, set(x.tolist()); x.item() of a 0-d array") from error


def _changed_arguments(nodes: Sequence[Node], arguments: Tree, given: tuple[list[Any], TreeSpec], signature: CallSignature) -> list[Node]:
    """Return the containers among the arguments that each call changes. Raises `TraceError` for a change that calls cannot make."""
    changed = changed_nodes(nodes)
    fixed = {id(value) for leaf in signature.all_leaves if isinstance(leaf, StaticArgument) for _, value in objects_of(leaf.value)}
    if not all(is_stored_again(node) and id(node.container) not in fixed for node in changed):
        _check_arguments(arguments, given, signature.function, signature.positional)
    return changed


def _change_of(node: Node, scope: Scope, given: tuple[list[Any], TreeSpec], signature: CallSignature,
                      make: TemplateMaker) -> ContainerChange:
    """Describe what calls change in a container. Raises `TraceError` if they cannot make what the function puts there."""
    leaves, _ = flatten(node.container)
    arrays = [WRITTEN[id(leaf)][1] if id(leaf) in WRITTEN else leaf for leaf in leaves]
    name = container_name(signature.function, signature.positional, given[1], node.path)
    try:
        if any(isinstance(array, TracedArray) and array.scope is not scope for array in arrays):
            raise NotRepeatableError
        return change_of(node, name, make)
    except NotRepeatableError:
        raise TraceError(f"the function puts something into {name}, which was passed to it, that calls cannot make again",
                         return_location(signature.function) or find_user_location(),
                         hint="return it; from a function that is differentiated by has_aux=True") from None


def _check_arguments(arguments: Tree, given: tuple[list[Any], TreeSpec], function: Callable[..., Any], positional: int) -> None:
    """Reject a function that changes what a list, dict or dataclass that was passed to it holds, where the program cannot change that of
    the caller. `given` are the leaves of the arguments and their structure before the function ran."""
    now, tree = flatten(arguments)
    if tree == given[1] and all(map(operator.is_, now, given[0])):
        return
    before = dict(zip(argument_paths(function, positional, given[1]), given[0], strict=True))
    after = dict(zip(argument_paths(function, positional, tree), now, strict=True))
    changed = [path for path, leaf in after.items() if path not in before or not _is_same_leaf(before[path], leaf)]
    changed += [path for path in before if path not in after]
    if not changed and tree == given[1]:
        return
    path = changed[0] if changed else "its items, or their order"
    leaf = after.get(path)
    what = f"changes a container that was passed to it: {path}"
    origin, hint = "", "copy it first and return the new container (p = dict(p), list(p), dataclasses.replace(p))"
    if type(before.get(path)) is int and type(leaf) is int:
        what = f"changes a number in a container that was passed to it, {path}, from {before[path]} to {leaf}: each is another program"
        hint = f"copy it and return the new container; or pass an array of no dimension, and write into it ({path}[...] += 1)"
    if isinstance(leaf, (TracedArray, ArrayWrapper)) or id(leaf) in WRITTEN:
        array = WRITTEN[id(leaf)][1] if id(leaf) in WRITTEN else leaf.traced() if isinstance(leaf, ArrayWrapper) else leaf
        assert isinstance(array, TracedArray)
        what, origin = f"puts a new array into a container that was passed to it, as {path}", f"\n    {array._origin()}"
    elif path not in after:
        what += " is gone"
    code = getattr(inspect.unwrap(function), "__code__", None)
    raise TraceError(f"the function {what}{origin}",
                     (line_that_changes([code], path) if code is not None else None) or return_location(function) or find_user_location(),
                     hint=hint)


def _is_same_leaf(before: Any, now: Any) -> bool:
    return before is now or (type(before) is type(now) and is_scalar(now) and bool(before == now))


def collect_results(result: Tree, written: Sequence[tuple[int, Value]] = (),
                    stored: Sequence[Any] = ()) -> tuple[list[Value], TreeSpec, tuple[OutLeaf, ...]]:
    """Return the values that a function returned, and the structure of its result; then those of arrays that it `stored`. The contents of
    `written` arrays (their identity, and the value) are the last values; they are not listed twice where such an array is returned."""
    leaves, tree = flatten(result)
    leaves = without_labels(leaves)
    values: list[Value] = []
    out: list[OutLeaf] = []
    updates = {identity: number for number, (identity, _) in enumerate(written)}
    count = len(_arrays_in(leaves, written)) + len(stored)
    for index, leaf in enumerate(leaves):
        if id(leaf) in updates:
            out.append(count + updates[id(leaf)])
        elif isinstance(leaf, (TracedArray, np.ndarray, ArrayWrapper)):
            out.append(NumberLeaf(len(values), leaf.maker()) if isinstance(leaf, LiftedNumber) and leaf.is_python() else len(values))
            values.append(unwrap(leaf.traced() if isinstance(leaf, ArrayWrapper) else leaf))
        else:
            check_result(leaf, tree, index)
            out.append(StaticLeaf(leaf))
    return [*values, *map(unwrap, stored), *(value for _, value in written)], tree, tuple(out)


def with_known_keys(result: Tree) -> Tree:
    """The result of a function, with numbers in place of traced keys of dicts: the program is for these numbers, as hashes are known."""
    kind = type(result)
    if kind in (list, tuple):
        items = [with_known_keys(item) for item in result]
        return kind(items) if any(map(operator.is_not, items, result)) else result
    if kind is not dict:
        return result
    known = {key.known_number("a key of a dict") if isinstance(key, TracedArray) else key: with_known_keys(item)
             for key, item in result.items()}
    return known if any(map(operator.is_not, (*known, *known.values()), (*result, *result.values()))) else result


def _arrays_in(result: Tree, written: Sequence[tuple[int, Value]]) -> list[Any]:
    """Return the arrays in a result, but for those that are `written`."""
    updates = {identity for identity, _ in written}
    return [leaf for leaf in flatten(result)[0] if isinstance(leaf, (TracedArray, np.ndarray, ArrayWrapper)) and id(leaf) not in updates]


def check_result(leaf: Any, tree: TreeSpec, index: int) -> None:
    """Raise `UnsupportedError` if leaf number `index` of a result cannot be part of a result."""
    if isinstance(leaf, (TracedArray, np.ndarray, float, complex, np.generic)) or is_static(leaf):
        return
    if isinstance(leaf, PendingNumber):
        leaf.refuse()
    kind = f"{type(leaf).__module__}.{type(leaf).__qualname__}"
    raise UnsupportedError(f"the function returns a {kind} at result{paths(tree)[index]}, neither an array nor a tree of arrays",
                           find_user_location(), hint="return arrays, numbers, or dicts, lists, tuples and dataclasses of them")


def function_name(fun: Any) -> str:
    """Return the name for the graph of a function."""
    while isinstance(fun, partial):
        fun = fun.func
    return getattr(fun, "__name__", type(fun).__name__)
