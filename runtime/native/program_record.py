"""The record by which the native entry knows a program: what it expects, depends on and gives.

    record = make_program_record(program, trace, executable, tensors)       # None: its calls go through Python
"""

from __future__ import annotations

import gc
import itertools
from collections.abc import Iterator, Sequence
from functools import partial
from types import FunctionType, ModuleType, NoneType
from typing import Any

import numpy as np

from adjit.codegen.native.artifact import Parameter
from adjit.codegen.native.entry.records import GUARD, Guard, Node
from adjit.ir.graph import WRITABLE_ROLES
from adjit.runtime.captures.tensor_program import TensorProgram
from adjit.runtime.captures.tensor_record import tensor_fields
from adjit.runtime.native.entry_records import Memory, ProgramRecord, UnsuitedError, record_words
from adjit.runtime.native.executable import NativeExecutable
from adjit.runtime.native.record_fields import array_node, code_fields, constant_node, container_node, parameter_fields, result_fields
from adjit.tracer.box import ByReference
from adjit.tracer.guards import Source, Sources, read_cell, read_item, sample
from adjit.tracer.signature import CallSignature
from adjit.tracer.trace import StaticLeaf, Trace
from adjit.tracer.trees import TreeSpec

MOST_WORDS = 64
"""Of an array read in Python whose content the entry compares itself: some 20 ns."""


def make_program_record(program: object, trace: Trace, executable: NativeExecutable, tensors: TensorProgram | None) -> ProgramRecord | None:
    """The record of a program; None where there is something about it that the entry does not know."""
    signature, artifact = trace.signature, executable.code.artifact
    if len(signature.key) > 4:      # a tensor is given twice
        return None
    others = 0 if tensors is None else len(tensors.effects.contents) + len(tensors.effects.numbers)
    if _first(signature) + len(trace.sources.arrays) + others != len(artifact.params):
        return None
    memory = Memory()
    try:
        fields = {**_arguments(memory, signature, artifact.params), **_surroundings(memory, signature, trace.sources, artifact.params),
                  **parameter_fields(memory, artifact.params), **result_fields(memory, artifact.results), **code_fields(memory, executable)}
        if tensors is None:
            fields["tree"] = _result_tree(memory, trace)
        else:
            nodes = [array_node(memory, param, number) for number, param in enumerate(artifact.params)]
            fields |= tensor_fields(memory, tensors, len(signature.leaf_keys), nodes[_first(signature) + len(trace.sources.arrays):])
    except UnsuitedError:
        return None
    return ProgramRecord(program, fields, memory)


def _first(signature: CallSignature) -> int:
    """The number of the first parameter that is not among the arguments."""
    return sum(map(signature.is_traced, range(len(signature.leaf_keys))))


def _arguments(memory: Memory, signature: CallSignature, params: Sequence[Parameter]) -> dict[str, int]:
    positional, keywords = signature.tree.children()
    numbers = itertools.count()
    leaves = (_argument(memory, signature, index, numbers, params) for index in range(len(signature.leaf_keys)))
    nodes = [_tree(memory, child, leaves) for part in (positional, keywords) for child in part.children()]
    names = [memory.identity(name) for name in keywords.entries()]
    return {"positional": positional.num_children, "keywords": len(names), "names": memory.words(names), "arguments": memory.words(nodes),
            "bound": signature.key[3] if len(signature.key) > 3 else 0}


def _tree(memory: Memory, spec: TreeSpec, leaves: Iterator[int]) -> int:
    """The node of a tree, with these nodes for its leaves."""
    if spec.type is None:
        return next(leaves)
    if spec.type is NoneType:
        return memory.node(Node.CONSTANT, object=id(None))
    keys = spec.entries() if spec.type is dict else ()
    return container_node(memory, spec.type, [_tree(memory, child, leaves) for child in spec.children()], keys)


def _argument(memory: Memory, signature: CallSignature, index: int, numbers: Iterator[int], params: Sequence[Parameter]) -> int:
    key = signature.leaf_keys[index]
    if not signature.is_traced(index):
        kind, value = key[1]
        if key[2:] == (ByReference,):
            return memory.node(Node.SAME, object=value)
        if issubclass(kind, (float, complex, np.inexact, tuple, list, dict)):
            raise UnsuitedError     # known by its text, or by what it holds now
        return constant_node(memory, value)
    number = next(numbers)
    if key == ("weak",):
        if params[number].role in WRITABLE_ROLES:
            raise UnsuitedError
        return memory.node(Node.FLOAT, index=number)
    node = array_node(memory, params[number], number)
    if len(key) == 2:
        return node
    kind, requires_grad = key[2:]
    return memory.node(Node.TENSOR, object=id(kind), items=node, keys=id(bool(requires_grad)), count=index)


def _surroundings(memory: Memory, signature: CallSignature, sources: Sources, params: Sequence[Parameter]) -> dict[str, int]:
    """What else than its arguments the program depends on."""
    first = _first(signature)
    captures: list[int] = []
    for index, array in enumerate(sources.arrays, first):
        if type(array) is not np.ndarray:
            raise UnsuitedError
        captures += [array_node(memory, params[index], index), memory.identity(array)]
    guards: list[int] = []
    ask = bool(sources.frozen)
    for source, content in sources.read:
        guard = _content_guard(memory, source, content)
        ask = ask or guard is None
        guards += guard or ()
    for source in (*sources.fixed, *(source for _, source in sources.captured)):
        guard = _guard(memory, source)
        if guard is None:
            ask = True
        else:
            guards += guard
    recording = signature.key[2]
    return {
        "captures": memory.words(captures), "captures_count": len(sources.arrays), "guards": memory.words(guards),
        "guards_count": len(guards) // len(GUARD), "ask": memory.identity(partial(_all_holds, sources)) if ask else 0,
        "recording": id(recording), "needs_mode": int(recording is not True)}


def _all_holds(sources: Sources) -> bool:
    return sources.current() == sources.arrays if not sources.arrays else sources.current() is sources.arrays


def _guard(memory: Memory, source: Source) -> list[int] | None:
    """The words of a guard; none where nothing can change; None where Python has to look."""
    read = source.read
    if not isinstance(read, partial):
        return None
    wanted = memory.identity(source.value)
    if read.func is read_cell:
        return record_words(GUARD, {"kind": Guard.CELL, "place": memory.identity(read.args[0]), "value": wanted})
    if read.func is len and type(read.args[0]) in (list, dict):
        return record_words(GUARD, {"kind": Guard.SIZE, "place": memory.identity(read.args[0]), "value": source.value})
    if read.func is read_item:
        container, key = read.args
    elif read.func is getattr:
        owner, key = read.args[:2]
        if isinstance(owner, (ModuleType, FunctionType)):
            container = vars(owner)
        elif isinstance(owner, type) and isinstance(source.value, FunctionType):        # found in that class, not in one that it is made of
            container = _content(owner)
        elif _is_plain(owner, key):
            return record_words(GUARD, {
                "kind": Guard.ATTRIBUTE, "place": memory.identity(owner), "key": memory.identity(key), "value": wanted})
        else:
            return None
    else:
        return None
    if type(container) is tuple:
        return []
    if type(container) is dict and type(key) is str:
        return record_words(GUARD, {
            "kind": Guard.DICT, "place": memory.identity(container), "key": memory.identity(key), "value": wanted})
    if type(container) is list:
        return record_words(GUARD, {"kind": Guard.LIST, "place": memory.identity(container), "key": key, "value": wanted})
    return None


def _content_guard(memory: Memory, source: Source, content: int) -> list[int] | None:
    """The words of a guard of what is in a short vector, as bounds of slices are; None where Python has to look."""
    array = source.value
    if type(array) is not np.ndarray or (array.ndim, array.itemsize) != (1, 8) or not array.flags.c_contiguous:
        return None
    if not 0 < array.size <= MOST_WORDS:
        return None
    copy = array.copy()
    if sample(copy) != content:     # it was changed since the trace
        return None
    return record_words(GUARD, {"kind": Guard.CONTENT, "place": memory.identity(array), "key": memory.words(copy.view(np.int64).tolist()),
                                "value": array.size})


def _content(owner: type) -> dict[str, Any] | None:
    """The dict behind the attributes of a class, which it does not give out itself."""
    found = gc.get_referents(vars(owner))
    return found[0] if len(found) == 1 and type(found[0]) is dict else None


def _is_plain(owner: object, name: str) -> bool:
    """Whether the attribute is in the object's own dict, and no code of its class is asked first."""
    kind = type(owner)
    return kind.__getattribute__ is object.__getattribute__ and name in getattr(owner, "__dict__", ()) and not hasattr(kind, name)


def _result_tree(memory: Memory, trace: Trace) -> int:
    leaves = (constant_node(memory, leaf.value) if isinstance(leaf, StaticLeaf) else memory.node(Node.RESULT, index=leaf)
              for leaf in trace.out_leaves)
    try:
        return _tree(memory, trace.out_tree, leaves)
    except UnsuitedError:
        return memory.node(Node.BUILT, object=memory.identity(trace.rebuild))
