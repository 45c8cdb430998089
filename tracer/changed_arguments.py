"""Containers among the arguments that a traced function changes: each call changes those of its caller, or it is refused."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Sequence
from typing import Any

from adjit.ir.errors import TraceError
from adjit.tracer.array import WRITTEN, TracedArray
from adjit.tracer.array_wrapper import ArrayWrapper
from adjit.tracer.guards.argument_containers import ContainerChange, Node, change_of, changed_nodes, is_stored_again, objects_of
from adjit.tracer.guards.source import is_scalar
from adjit.tracer.guards.templates import NotRepeatableError, TemplateMaker
from adjit.tracer.scope import Scope
from adjit.tracer.signature import CallSignature, StaticArgument, argument_paths, container_name
from adjit.tracer.trees import Tree, TreeSpec, flatten
from adjit.tracer.user_location import find_user_location, line_that_changes, return_location


def changed_arguments(nodes: Sequence[Node], arguments: Tree, given: tuple[list[Any], TreeSpec], signature: CallSignature) -> list[Node]:
    """Return the containers among the arguments that each call changes. Raises `TraceError` for a change that calls cannot make."""
    changed = changed_nodes(nodes)
    fixed = {id(value) for leaf in signature.all_leaves if isinstance(leaf, StaticArgument) for _, value in objects_of(leaf.value)}
    if not all(is_stored_again(node) and id(node.container) not in fixed for node in changed):
        check_arguments(arguments, given, signature.function, signature.positional)
    return changed


def change_of_argument(node: Node, scope: Scope, given: tuple[list[Any], TreeSpec], signature: CallSignature,
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


def check_arguments(arguments: Tree, given: tuple[list[Any], TreeSpec], function: Callable[..., Any], positional: int) -> None:
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
