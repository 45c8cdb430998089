"""Validation and flattening of a transform's input: arguments to differentiate, cotangents and tangents."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjit.ir.dataclass import dataclass
from adjit.ir.errors import DTypeError, NonDifferentiableError, ShapeError
from adjit.ir.types import TensorType, check_dtype, is_complex, is_inexact, short_name
from adjit.tracer.array import TracedArray
from adjit.tracer.array_wrapper import ArrayWrapper, DeviceLeaf, IdentityKeyed
from adjit.tracer.trees import TreeSpec, flatten, paths, structure_text, unflatten
from adjit.tracer.user_location import find_user_location


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments `positions` of a call, as leaves; `tree` is the tree of their tuple."""

    args: tuple[Any, ...]
    positions: tuple[int, ...]
    leaves: tuple[Any, ...]
    tree: TreeSpec

    def replaced(self, leaves: Sequence[Any]) -> list[Any]:
        """All positional arguments, with the chosen ones rebuilt from other leaves."""
        args = list(self.args)
        for position, argument in zip(self.positions, unflatten(self.tree, leaves), strict=True):
            args[position] = argument
        return args


def choose_arguments(fun: Callable[..., Any], args: Sequence[Any], argnums: Sequence[int], transform: str) -> Arguments:
    """The arguments to differentiate. Raises `NonDifferentiableError` if one is missing or not made of floats."""
    name = describe(fun)
    positions = []
    for number in argnums:
        if not -len(args) <= number < len(args):
            raise NonDifferentiableError(
                f"{transform}: argnums names argument {number}, but {name} was called with {len(args)} positional arguments",
                find_user_location(), hint="pass it by position; arguments passed by keyword are differentiated by name: argnames='x'")
        positions.append(number % len(args))
    if len(set(positions)) < len(positions):
        raise NonDifferentiableError(f"{transform}: argnums {tuple(argnums)} names an argument twice", find_user_location())
    names = argument_names(fun, len(args))
    leaves: list[Any] = []
    for position in positions:
        found, tree = flatten(args[position])
        for path, leaf in zip(paths(tree), found, strict=True):
            check_float(leaf, f"{transform} of {name} with respect to {names[position]}{path}")
        leaves += found
    _, tree = flatten(tuple(args[position] for position in positions))
    return Arguments(tuple(args), tuple(positions), tuple(leaves), tree)


def check_float(leaf: Any, what: str) -> None:
    """Raise `NonDifferentiableError` unless `leaf` is a floating-point array or number."""
    if isinstance(leaf, ArrayWrapper):
        leaf = leaf.array
    if isinstance(leaf, (TracedArray, np.ndarray, np.generic, DeviceLeaf)):
        dtype = check_dtype(leaf.dtype)
        if is_inexact(dtype):
            return
        kind = f"{short_name(dtype)}{list(leaf.shape)}"
        hint = "convert it with .astype(float), or leave it out of the differentiated arguments"
    elif isinstance(leaf, (float, complex)):
        return
    elif isinstance(leaf, (bool, int)):
        kind, hint = f"the Python {type(leaf).__name__} {leaf!r}", f"write {float(leaf)!r}, or leave it out of the differentiated arguments"
    elif isinstance(leaf, IdentityKeyed):
        kind = f"a {type(leaf).__name__}"
        hint = "pass dict(model.named_parameters()) as that argument, or compute the loss in the dynamic graph and call loss.backward()"
    else:
        kind = f"a {type(leaf).__name__}"
        hint = "arrays, numbers, dataclasses and containers of them have derivatives: leave it out of the differentiated arguments"
    raise NonDifferentiableError(f"{what}, which is {kind}: only floating-point values have derivatives", find_user_location(), hint)


def match_leaves(tree: TreeSpec, types: Sequence[TensorType], given: Any, what: str) -> list[Any]:
    """The leaves of a cotangent or tangent. Raises `ShapeError` or `DTypeError` if it does not match its primal or output.

    A Python number matches a scalar of any float dtype, a complex one of any complex dtype.
    """
    leaves, given_tree = flatten(given)
    if given_tree != tree:
        raise ShapeError(f"{what} has the structure {structure_text(given_tree)}, expected {structure_text(tree)}", find_user_location())
    matched = []
    for path, leaf, type in zip(paths(tree), leaves, types, strict=True):
        numbers = (int, float, complex) if is_complex(type.dtype) else (int, float)
        if isinstance(leaf, numbers) and not isinstance(leaf, (bool, np.generic, TracedArray)):
            leaf = np.asarray(leaf, type.dtype)
        if isinstance(leaf, ArrayWrapper):
            leaf = leaf.traced()
        if not isinstance(leaf, (TracedArray, np.ndarray, np.generic)):
            raise DTypeError(f"{what}{path} is a {leaf.__class__.__name__}, expected an array {type}", find_user_location())
        if tuple(leaf.shape) != type.shape:
            raise ShapeError(f"{what}{path} has shape {tuple(leaf.shape)}, expected {type.shape}", find_user_location())
        if check_dtype(leaf.dtype) != type.dtype:
            raise DTypeError(f"{what}{path} has dtype {leaf.dtype}, expected {type.dtype}", find_user_location(),
                             hint=f"convert it with .astype('{type.dtype}')")
        matched.append(leaf)
    return matched


def describe(fun: Callable[..., Any]) -> str:
    """The name of a function, for messages and graphs."""
    return getattr(fun, "__name__", type(fun).__name__)


def argument_names(fun: Callable[..., Any], count: int) -> list[str]:
    """Names of the first `count` positional arguments of a function, for messages."""
    try:
        parameters = list(inspect.signature(fun).parameters.values())
    except (TypeError, ValueError):      # some builtins have no signature
        parameters = []
    named = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "args")
    return named[:count] + [f"{rest}[{index - len(named)}]" for index in range(len(named), count)]
