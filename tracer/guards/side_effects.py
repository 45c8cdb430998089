"""Side effects of a traced function: refused if the result depends on them, else no matter of the program."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from types import CodeType
from typing import Any, NamedTuple

from adjit.ir.builder import GraphBuilder
from adjit.ir.errors import Location, TraceError
from adjit.tracer.array import TracedArray
from adjit.tracer.array_wrapper import ArrayWrapper
from adjit.tracer.guards.code_reads import COUNT, CodeReads
from adjit.tracer.guards.container_log import ContainerLog
from adjit.tracer.guards.reachability import Reachability
from adjit.tracer.guards.source import MISSING, Source, rebind, same
from adjit.tracer.guards.stored_values import StoredPlaces, StoredValue
from adjit.tracer.guards.templates import holds_traced
from adjit.tracer.guards.trace_guards import NUMBERS
from adjit.tracer.user_location import find_user_location, line_that_changes

Key = tuple[str, int]
_DESCRIBED = ("len(", "keys(", "set(", "type(", "the ", "sys.modules", "os.environ")
"""Beginnings of paths of sources that no place holds."""

class KeptValue(NamedTuple):
    """Value of the trace that the function stored where it reads, too: perhaps what one call stores, the next one reads. `before` is what
    was bound there before the trace, `location` the line that stores it, if it is known. `refusal` makes the error for a number that the
    function may read before it changes it. `alone`: the guard of the source is all that tells what was there. `is_next`: the next call
    reads it as this one reads the array that was there, as an input of the program."""

    source: Source
    before: Any
    location: Location | None = None
    refusal: Callable[[], TraceError] | None = None
    alone: bool = False
    is_next: bool = False

    def restore(self) -> None:
        """Bind again what was bound before the trace."""
        if self.source.read() is not self.before:
            rebind(self.source.read, self.before)


def restore(kept: Sequence[KeptValue], stored: Sequence[StoredValue], log: ContainerLog, containers: Collection[int]) -> None:
    """Give the places of kept values what they held before the trace, where a call stores a value again."""
    log.restore(containers)
    places = {each.place.key for each in stored if isinstance(each.place, Source)}
    for each in reversed(kept):
        if each.source.key in places:
            each.restore()


def take_back_traced(before: Mapping[Key, Source], after: Reachability, outside: Collection[int]) -> None:
    """Give the places of objects from `outside` that hold values of a trace what they held before it."""
    for key, source in reversed(after.by_key().items()):
        if id(source.holder) in outside and holds_traced(source.value):
            rebind(source.read, before[key].held if key in before else MISSING)


def check_side_effects(before: Mapping[Key, Source], after: Reachability, places: StoredPlaces,
                       stored: Collection[Key], depending: Collection[int], missed: Collection[int], again: Collection[int],
                       kept_in: Collection[int], outside: Collection[int], is_next: Callable[[Source, Any], bool],
                       inside: Collection[int] = (), inputs: Collection[Key] = (), of_program: bool = True
                       ) -> tuple[set[Key], tuple[KeptValue, ...], tuple[Source, ...]]:
    """Return the keys of sources that the function changes, and that its result does not depend on; and values that it keeps where it
    reads: whether the result depends on what the call before kept shows in another trace. What each call stores before it reads it, with a
    key in `stored`, is neither. The result depends on what containers in `depending` held, by identity, and on what those in `missed`
    do not hold; calls change those in `again` as the trace did, where these hold what they held, of which those in `kept_in` get values of
    the trace; `is_next` says whether a value is for the next call what another one is for this call. And sources that it changes
    otherwise, which are guarded. Objects that are not `outside` were made by the trace; those `inside` are parts of what is next in a
    place. Places in `inputs` had traced numbers: one that has its number from before was bound to it anew, which is to be stored, too.

    Raises `TraceError` if the length of a list changed during the trace, and the function reads it for more than to change it; for such a
    number the refusal is with the kept values. Nor where there will be no program, `of_program`: the call raises an exception.
    Other sources that the function changes and reads are compared with their values before the trace: a container that is filled once (a
    memo, an attribute that was None) costs one more trace, and a function that draws from an iterator is traced at each call.
    """
    own: set[Key] = set()
    kept: list[KeptValue] = []
    changed: list[Source] = []
    of_classes: list[Key] = []
    reads = CodeReads(after.codes)
    for key, source in after.by_key().items():
        then, held = (before[key].value, before[key].held) if key in before else (MISSING, MISSING)
        if key in stored:
            continue
        if id(source.holder) in inside:
            own.add(key)
            continue
        if _is_of_wrapper(source):
            own.add(key)
            continue
        if same(source.value, then) and (source.inherited or key not in inputs):
            if source.inherited and not reads.of(source.path):
                of_classes.append(key)      # which has its number again now, if it was added to
            if COUNT.fullmatch(source.path) and id(source.holder) not in missed and reads.fills(source.path) and not reads.of(
                    source.path, whole=True):
                own.add(key)        # a memo, which may get more entries, or a container that is only filled
        elif source.value is MISSING or (source.inherited and held is not MISSING):
            raise _deleted(before[key], after.codes)
        elif source.inherited:
            of_classes.append(key)
        elif (id(source.holder) not in again or id(source.holder) in kept_in) and holds_traced(_added(source, then)):
            is_again = id(source.holder) in again
            is_new = id(source.holder) not in outside or (then is MISSING and isinstance(source.holder, (list, deque)))
            alone = not (is_again or is_new or source.path.startswith(_DESCRIBED))
            is_read = reads.of(source.path, whole=source.path.startswith("len("))
            is_input = is_read and (alone or is_again) and not source.path.startswith(_DESCRIBED) and is_next(source, then)
            if not is_again and not is_input and getattr(source.read, "func", None) is getattr and not any(
                    source.path.rpartition(".")[2] in code.co_names for code in after.codes):
                raise TraceError(f"the compiled function stores a value as {source.path} in a way that is not followed (setattr with a "
                                 "computed name, __dict__, vars, __setattr__, code of a library): later calls would not store it again",
                                 _made_at(source.value) or find_user_location(),
                                 hint="bind it by its name (place.name = value), or return the value and store it outside")
            if is_read:
                kept.append(KeptValue(source, held, line_that_changes(after.codes, source.path), alone=alone, is_next=is_input))
            if is_again:
                continue
            if not alone:
                own.add(key)
            else:
                changed.append(source)
        elif not reads.of(source.path) and not places.is_reset(source) and id(source.holder) not in depending:
            if COUNT.fullmatch(source.path) or id(source.holder) not in outside:
                own.add(key)
            else:
                changed.append(source)      # numbers that are added to in a way that is not followed
        elif issubclass(type(then), NUMBERS) and issubclass(type(source.value), NUMBERS) and (
                not source.path.startswith("len(") or isinstance(source.holder, (list, deque))):
            if not source.path.startswith(_DESCRIBED) and is_next(source, then):
                kept.append(KeptValue(source, held, is_next=True))
                changed.append(source)
                continue
            if type(source.value) is not type(then) and not source.path.startswith(_DESCRIBED):
                changed.append(source)      # one more trace, in which it is state: 0.0 and then a number of NumPy's
                continue
            refusal = partial(_changed, source, then, reads.names(source.path) or places.is_reset(source), after.codes)
            if source.path.startswith(_DESCRIBED):
                if not of_program:
                    continue
                _take_numbers_back(before, after)
                raise refusal()
            kept.append(KeptValue(source, held, refusal=refusal))
            changed.append(source)
        elif not source.path.startswith(_DESCRIBED):
            if is_next(source, then):
                kept.append(KeptValue(source, held, is_next=True))
            changed.append(source)
    now = after.by_key()
    counted = {source.key for source, _ in places.counted}
    for source, _ in places.counted:
        if source.inherited and _class_place(source, now) in counted:
            raise TraceError(f"the compiled function adds to {source.path}, and to the attribute of the class that this begins with",
                             line_that_changes(after.codes, source.path) or find_user_location(),
                             hint=f"bind {source.path} to a number of its own first, outside of the function")
    for key in of_classes:
        if (place := _class_place(now[key], now)) is None:
            if key in before and same(now[key].value, before[key].value):
                continue
            raise _changed(now[key], before[key].value if key in before else MISSING, False, after.codes)
        if place in own or place in stored:
            own.add(key)
    for key, source in before.items():
        if key not in now and key not in stored and isinstance(source.value, NUMBERS) and _is_attribute(source):
            raise _deleted(source, after.codes)
    return own, tuple(kept), tuple(changed)


def _made_at(value: Any) -> Location | None:
    """The line that made a traced value."""
    traced = isinstance(value, TracedArray) and isinstance(value.scope.builder, GraphBuilder)
    return value.scope.builder.made_at(value.value) if traced else None


def _is_of_wrapper(source: Source) -> bool:
    """True for `requires_grad` of a tensor, which whoever captures tensors compares and switches."""
    return source.path.endswith(".requires_grad") and isinstance(source.holder, weakref.ref) and isinstance(source.holder(), ArrayWrapper)


def _deleted(source: Source, codes: Sequence[CodeType]) -> TraceError:
    """The error for a function that takes an attribute away, which is there again now."""
    rebind(source.read, source.value)
    return TraceError(f"the compiled function deletes {source.path}: later calls would not delete it again",
                      line_that_changes(codes, source.path) or find_user_location(),
                      hint="bind it to None instead, or delete it outside of the function")


def _changed(source: Source, then: Any, is_read: bool, codes: Sequence[CodeType]) -> TraceError:
    """The error for a number that a function changes."""
    change = f"the compiled function changes {source.path} from {then!r} to {source.value!r}"
    location = line_that_changes(codes, source.path) or find_user_location()
    if is_read:
        return TraceError(f"{change}, and reads it too: the compiled program would always use the number of the trace", location,
                          hint="pass the number as an argument and return the new one (result, n = f(x, n)), or change it outside of the "
                               "function; in a step of tensors it may be a tensor that is written to in place")
    return TraceError(
        f"{change} in a way that is not followed (setattr, __dict__, code of a library): later calls would not change it again", location,
        hint="bind it by its name (place.name = value, place[key] = value), or return the value and store it outside")


def _class_place(source: Source, sources: Mapping[Key, Source]) -> Key | None:
    """Key of the source that is the attribute of the class which an object has for its own; None if there is none."""
    read: Any = source.read
    holder, name = read.args[:2]
    kinds = (*(type.mro(holder) if isinstance(holder, type) else ()), *type.mro(type(holder)))
    place = next((kind for kind in kinds if name in vars(kind)), None)
    return next((key for key, other in sources.items() if other.holder is place and not other.inherited and isinstance(
        other.read, partial) and other.read.func is getattr and other.read.args[1] == name), None)


def _is_attribute(source: Source) -> bool:
    return getattr(source.read, "func", None) is getattr and source.read() is MISSING


def _take_numbers_back(before: Mapping[Key, Source], after: Reachability) -> None:
    """Bind the numbers again that the sources held before the trace."""
    for key, source in reversed(after.by_key().items()):
        then = before[key].value if key in before else MISSING
        if issubclass(type(then), NUMBERS) and issubclass(type(source.value), NUMBERS) and not same(source.value, then):
            rebind(source.read, before[key].held)


def _added(source: Source, then: Any) -> Any:
    """Return the new content of a source; for the length of a list, the items that were added."""
    if source.path.startswith("len(") and isinstance(source.holder, (list, deque)):
        return list(source.holder)[then:] if isinstance(then, int) else []
    return source.value
