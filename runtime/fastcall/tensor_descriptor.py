"""Fast-path descriptor of a program's tensors: references to tensors, and guards of other state in modules and optimisers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from adjit.codegen.fastcall.descriptor_layout import CONTENT, GRADIENT_READ, NUMBER, TENSOR_REF
from adjit.eager.capture import Hyperparameter
from adjit.runtime.capture.state_guard import StateGuard
from adjit.runtime.capture.stored_state import StateNumber
from adjit.runtime.capture.tensor_effects import TensorRef
from adjit.runtime.capture.tensor_program import TensorProgram
from adjit.runtime.fastcall.descriptors import Memory, UnsuitedError, descriptor_words, table_words
from adjit.tracer.array_wrapper import DeviceLeaf


def tensor_fields(memory: Memory, tensors: TensorProgram, leaves: int, nodes: Sequence[int]) -> dict[str, int]:
    """The fields for a program with tensors. `nodes` describe the arrays of its parameters after the arguments and the captured arrays.

    Raises `UnsuitedError` if the program has a property that the fast path does not support.
    """
    effects = tensors.effects
    if effects.sharing or effects.same or any(hooks for _, hooks in effects.hooks):
        raise UnsuitedError
    first = len(tensors.operands) - len(nodes) - (tensors.row_param is not None)
    contents = [descriptor_words(CONTENT, {
        **_ref_fields(memory, content.ref), "requires_grad": id(content.requires_grad), "node": nodes[content.index],
    }) for content in effects.contents]
    gradient_reads = [descriptor_words(GRADIENT_READ, {**_ref_fields(memory, owner), "there": int(there)})
             for owner, there in effects.read_gradients]
    unhooked_tensors = [descriptor_words(TENSOR_REF, _ref_fields(memory, ref)) for ref, _ in effects.hooks]
    numbers = [_number(memory, number, first + index) for index, number in effects.numbers]
    lists = {"contents": contents, "gradient_reads": gradient_reads, "unhooked_tensors": unhooked_tensors,
             "numbers": numbers, "tables": _tables(memory, effects.state_guard)}
    counts = {f"{name}_count": len(records) for name, records in lists.items()}
    addresses = {name: memory.words([word for record in records for word in record]) for name, records in lists.items()}
    return {**addresses, **counts, "leaves": leaves, "finish": memory.identity(partial(_finish, tensors))}


def _finish(tensors: TensorProgram, given: list[Any], results: list[Any], leaves: list[Any]) -> Any:
    """Write back, and return the function's result, for these parameters, results and leaves of the call."""
    if tensors.operation is not None:       # then some parameters are saved for the backward half
        given = [array if isinstance(array, DeviceLeaf) else np.asarray(array) for array in given]
        if tensors.row_param is not None:       # the number of rows is no object
            given[-1] = np.asarray(len(given[tensors.row_param]))
    return tensors.finish(given, results, leaves)[0]


def _ref_fields(memory: Memory, ref: TensorRef) -> dict[str, int]:
    return {"tensor": 0 if ref.argument is not None else memory.identity(ref.tensor), "leaf": ref.argument or 0,
            "gradient": int(ref.gradient)}


def _number(memory: Memory, number: Hyperparameter | StateNumber, param: int) -> list[int]:
    if isinstance(number, StateNumber) or type(number.group) is not dict:
        raise UnsuitedError
    return descriptor_words(NUMBER, {
        "group": memory.identity(number.group), "name": memory.identity(number.name), "index": -1 if number.index is None else number.index,
        "zero": int(number.zero), "param": param})


def _tables(memory: Memory, state_guard: StateGuard) -> list[list[int]]:
    found = []
    for container, keys, values, varying in state_guard.containers():
        if type(container) not in (dict, defaultdict, list):
            raise UnsuitedError
        found.append(table_words(memory, container, keys, values, varying))
    return found
