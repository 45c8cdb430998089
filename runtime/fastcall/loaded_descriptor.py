"""Fast-path descriptor of a loaded program, built from the descriptions in its file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from adjit.codegen.fastcall.descriptor_layout import Node
from adjit.codegen.native.artifact import Parameter
from adjit.ir.graph import WRITABLE_ROLES
from adjit.runtime.exports.interface_data import ExportedParameter, Interface
from adjit.runtime.exports.trees import TreeDescription, record_type
from adjit.runtime.fastcall.descriptors import (
    Memory,
    ProgramDescriptor,
    UnsuitedError,
    array_node,
    code_fields,
    constant_node,
    container_node,
    parameter_fields,
    result_fields,
)
from adjit.runtime.native.executable import NativeExecutable


def make_loaded_descriptor(program: object, interface: Interface, executable: NativeExecutable,
                       own: Mapping[int, np.ndarray]) -> ProgramDescriptor | None:
    """The descriptor of a program. `own` are the arrays of parameters that are no arguments. None if calls must go through Python."""
    artifact = executable.code.artifact
    if interface.replaced or artifact.count not in (-1, len(artifact.params) - 1):
        return None
    memory = Memory()
    of_leaf = {param.leaf: number for number, param in enumerate(interface.params) if param.source == "argument"}
    rows = artifact.count, interface.least_rows
    argument = partial(_argument, memory, interface.params, artifact.params, of_leaf, rows)
    keywords = interface.keywords["dict"]
    captures = [word for number, array in own.items()
                for word in (array_node(memory, artifact.params[number], number), memory.identity(array))]
    try:
        arguments = [_tree(memory, form, argument) for form in (*interface.arguments["tuple"], *(form for _, form in keywords))]
        result = _tree(memory, interface.result, partial(_result, memory, len(artifact.results), own))
        fields = {
            "positional": len(interface.names), "keywords": len(keywords), "names": memory.words([memory.identity(n) for n, _ in keywords]),
            "arguments": memory.words(arguments), "captures": memory.words(captures), "captures_count": len(own), "tree": result,
            **parameter_fields(memory, artifact.params, artifact.count), **result_fields(memory, artifact.results),
            **code_fields(memory, executable)}
    except UnsuitedError:
        return None
    return ProgramDescriptor(program, fields, memory)


def _tree(memory: Memory, form: TreeDescription, leaf: Callable[[int], int]) -> int:
    """The node of a tree; `leaf` returns the nodes of its leaves."""
    ((kind, content),) = form.items()
    if kind == "leaf":
        return leaf(content)
    if kind == "constant":
        return constant_node(memory, content)
    if kind == "dict":
        return container_node(memory, dict, [_tree(memory, item, leaf) for _, item in content], [key for key, _ in content])
    if kind == "fields":
        name, names, items = content
        return container_node(memory, record_type(name, tuple(names)), [_tree(memory, item, leaf) for item in items])
    return container_node(memory, list if kind == "list" else tuple, [_tree(memory, item, leaf) for item in content])


def _argument(memory: Memory, params: Sequence[ExportedParameter], known: Sequence[Parameter], of_leaf: Mapping[int, int],
              rows: tuple[int, int], leaf: int) -> int:
    number = of_leaf[leaf]
    if not params[number].weak:
        return array_node(memory, known[number], number, rows=rows)
    if params[number].role in WRITABLE_ROLES:
        raise UnsuitedError
    return memory.node(Node.FLOAT, index=number)


def _result(memory: Memory, count: int, own: Mapping[int, np.ndarray], leaf: int) -> int:
    if leaf < count:
        return memory.node(Node.RESULT, index=leaf)
    if leaf - count not in own:     # the result is an overwritten argument
        raise UnsuitedError
    return constant_node(memory, own[leaf - count])
