"""Description of a compiled program for export: the source of each parameter, and the trees of its arguments and results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from adjit.eager.capture import Hyperparameter
from adjit.ir.dataclass import dataclass
from adjit.ir.errors import ExportError
from adjit.ir.types import short_name
from adjit.runtime.capture.aliases import Alias
from adjit.runtime.capture.tensor_effects import TensorRef
from adjit.runtime.exports.interface_data import ExportedParameter, Interface
from adjit.runtime.exports.trees import Leaf, TreeDescription, describe_tree, leaf_paths
from adjit.runtime.program import Program
from adjit.tracer.results import NumberLeaf, StaticLeaf
from adjit.tracer.signature import CallSignature, parameter_names
from adjit.tracer.trees import as_name, unflatten


def describe_program(program: Program, signature: CallSignature) -> Interface:
    """The interface of a program, for the call that it was compiled for. Raises `ExportError` for trees that a file cannot describe."""
    leaves = [Leaf(index) if signature.is_traced(index) else _static(signature, index) for index in range(len(signature.leaf_keys))]
    args, kwargs = unflatten(signature.tree, leaves)
    given = [(name, arg) for name, arg in zip(parameter_names(signature.function, signature.positional), args, strict=True)
             if type(arg) is not _Reference]
    names = [name for name, _ in given]
    arguments = {"tuple": [describe_tree(arg, f"the argument {name}") for name, arg in given]}
    keywords = {"dict": [[name, describe_tree(arg, f"the argument {name}")] for name, arg in kwargs.items() if type(arg) is not _Reference]}
    params = _parameters(program, signature)
    result, replaced = _result(program, signature)
    made = program.executable.code.artifact.results       # type: ignore[union-attr]
    count = len(made)
    paths = leaf_paths(result, "result", {})
    named = {number: as_name(path) for number, path in paths.items() if number < count}
    named.update(_names_of_effects(program, params, named))
    results = tuple(named.get(i, f"{'memory' if each.per_row else 'result'} {i}") for i, each in enumerate(made))
    return Interface(params, tuple(names), arguments, keywords, result, results, replaced, program.least_rows)


@dataclass(frozen=True, slots=True)
class DescribedWays:
    """The interfaces of the ways through a function, and the arrays of their parameters. In all of them one name is one array."""

    interfaces: tuple[Interface, ...]
    arrays: Mapping[str, np.ndarray]


def describe_ways(ways: Sequence[tuple[Program, Sequence[np.ndarray]]], signature: CallSignature) -> DescribedWays:
    """The interfaces of programs for one signature. What two of them reach by themselves, and is one array, has one name."""
    interfaces: list[Interface] = []
    arrays: dict[str, np.ndarray] = {}
    names: dict[object, str] = {}       # of an array from outside, or a number of an optimiser
    for program, given in ways:
        interface = describe_program(program, signature)
        renamed: dict[str, str] = {}
        effects = None if program.tensors is None else program.tensors.effects
        numbers = {} if effects is None else {len(given) - effects.count + index: (id(number.group), number.name, number.index)
                                              for index, number in effects.numbers if isinstance(number, Hyperparameter)}
        for index, (param, array) in enumerate(zip(interface.params, given, strict=True)):
            name = param.name
            if param.source != "argument":
                key = numbers.get(index, id(array))
                name = names.get(key, name)
                while name in renamed.values() or (name in arrays and names.get(key) != name):
                    name += "_"
                names[key] = name
            if name not in arrays:
                has_rows = program.executable.code.artifact.params[index].per_row       # type: ignore[union-attr]
                arrays[name] = np.array(array, order="C") if has_rows else array_of(array, param)
            renamed[param.name] = name
        interfaces.append(replace(
            interface, params=tuple(replace(param, name=renamed[param.name]) for param in interface.params),
            results=tuple(renamed.get(name, name) for name in interface.results)))
    return DescribedWays(tuple(interfaces), arrays)


def _static(signature: CallSignature, index: int) -> Any:
    """The constant for a leaf that is part of the program."""
    kind, value = signature.leaf_keys[index][1][:2]
    if signature.leaf_keys[index][2:]:
        return _Reference()
    return kind(value) if kind in (bool, int, str) else None if kind is type(None) else _Reference()


class _Reference:
    """An argument that is passed by reference, such as a module, or that is static and no plain value. It is part of the program, and not
    an argument of the exported one."""


def _parameters(program: Program, signature: CallSignature) -> tuple[ExportedParameter, ...]:
    traced = [index for index in range(len(signature.leaf_keys)) if signature.is_traced(index)]
    constants = len(traced) + len(program.trace.captured)
    params = []
    taken: set[str] = set()
    for number, (param, path) in enumerate(zip(program.executable.code.artifact.params, program.inputs.paths, strict=True)):    # type: ignore[union-attr]
        source = "argument" if number < len(traced) else "rows" if number == program.executable.code.artifact.count else (   # type: ignore[union-attr]
            "constant" if number < constants else "state")
        leaf = traced[number] if source == "argument" else -1
        name = as_name(path) or f"value{number}"
        while name in taken:
            name += "_"
        taken.add(name)
        weak = leaf >= 0 and signature.leaf_keys[leaf][0] == "weak"
        params.append(ExportedParameter(name, param.dtype, tuple(param.shape), param.role, source, leaf, weak))
    return tuple(params)


def _result(program: Program, signature: CallSignature) -> tuple[TreeDescription, tuple[tuple[int, int], ...]]:
    count = len(program.executable.code.artifact.results)       # type: ignore[union-attr]
    tensors = program.tensors
    if tensors is None:
        leaves = [leaf.value if isinstance(leaf, StaticLeaf) else Leaf(leaf.index if isinstance(leaf, NumberLeaf) else leaf)
                  for leaf in program.trace.out_leaves]
        return describe_tree(unflatten(program.trace.out_tree, leaves), "the result"), ()
    effects, order = tensors.effects, tensors.order
    number = (lambda ref: ref) if order is None else order.__getitem__
    params = {value: index for index, value in enumerate(program.trace.graph.params)}
    at = {ref: params[value] for value, ref in effects.refs.items()}
    made: list[Any] = []
    for leaf in effects.leaves:
        if isinstance(leaf, TensorRef):
            if leaf not in at:
                raise ExportError("the function returns a tensor whose content it never reads",
                                  hint="return a value computed from the tensor")
            made.append(Leaf(count + at[leaf]))
        else:
            ref = leaf.number if isinstance(leaf, Alias) else leaf
            made.append(ref.value if isinstance(ref, StaticLeaf) else Leaf(number(ref.index if isinstance(ref, NumberLeaf) else ref)))
    replaced = tuple((params[value], number(ref)) for _, value, ref in effects.writes
                     if program.param_roles[params[value]] != "updated")
    return describe_tree(unflatten(effects.tree, made), "the result"), replaced


def _names_of_effects(program: Program, params: Sequence[ExportedParameter], named: dict[int, str]) -> dict[int, str]:
    """Names for results that the function does not return: new contents of tensors, and gradients that it sets."""
    tensors = program.tensors
    if tensors is None:
        return {result: params[param].name for param, result in program.trace.writes if result not in named}
    number = (lambda ref: ref) if tensors.order is None else tensors.order.__getitem__
    indices = {value: index for index, value in enumerate(program.trace.graph.params)}
    names = {number(ref): params[indices[value]].name for _, value, ref in tensors.effects.writes}
    by_ref = {ref: params[indices[value]].name for value, ref in tensors.effects.refs.items()}
    for owner, gradient in tensors.effects.gradients:
        if gradient is not None:
            names[number(gradient)] = f"{by_ref.get(owner, 'tensor')}.grad"
    return {result: name for result, name in names.items() if result not in named}


def array_of(value: np.ndarray, param: ExportedParameter) -> np.ndarray:
    """A contiguous copy in the parameter's dtype."""
    array = np.array(value, order="C", copy=True)
    if short_name(array.dtype) != param.dtype or array.shape != param.shape:
        raise ExportError(f"{param.name} has to be {param.dtype} of shape {param.shape}, got {array.dtype} of shape {array.shape}")
    return array
