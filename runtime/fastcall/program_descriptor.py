"""Fast-path descriptor of a traced program: operands, guards and results.

    record = make_program_descriptor(program, trace, executable, tensors)       # None: its calls go through Python
"""

from __future__ import annotations

import gc
import itertools
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Container, Iterator, Sequence
from functools import partial
from threading import local
from types import FunctionType, MappingProxyType, NoneType
from typing import TYPE_CHECKING, Any

import numpy as np

from adjit.codegen.fastcall import object_layout as layout
from adjit.codegen.fastcall.descriptor_layout import DIGEST, FACT, GUARD, MISS, WANTED, Guard, Node, Space
from adjit.codegen.native.artifact import Artifact, Parameter
from adjit.ir.graph import WRITABLE_ROLES
from adjit.ir.lazy_module import LazyModule
from adjit.ir.types import SHORT_NAMES
from adjit.runtime.capture.tensor_program import TensorProgram
from adjit.runtime.fastcall.descriptors import (
    Memory,
    ProgramDescriptor,
    UnsuitedError,
    array_node,
    code_fields,
    constant_node,
    container_node,
    descriptor_words,
    parameter_fields,
    result_fields,
    table_words,
)
from adjit.runtime.fastcall.tensor_descriptor import tensor_fields
from adjit.runtime.native.digest import digest_code
from adjit.runtime.native.executable import NativeExecutable
from adjit.tracer.array_wrapper import IdentityKeyed
from adjit.tracer.guards.content import ContentGuard, form_of, native_digest
from adjit.tracer.guards.source import MISSING, Source, own_attributes, pairs_of, read_cell, read_item, read_slot
from adjit.tracer.guards.trace_guards import TraceGuards
from adjit.tracer.guards.type_slots import slots_of
from adjit.tracer.results import NumberLeaf, OutLeaf, StaticLeaf
from adjit.tracer.signature import CallSignature
from adjit.tracer.trace import Trace
from adjit.tracer.trees import TreeSpec
from adjit.tracer.value_guards import ValueGuard

if TYPE_CHECKING:
    from adjit.runtime.cuda import direct_launch
    from adjit.runtime.cuda.device_executable import DeviceExecutable
else:
    direct_launch = LazyModule("adjit.runtime.cuda.direct_launch")

MakeNode = Callable[..., int]
"""Makes the node of a parameter, by its description and its number, with options of `array_node`."""


def make_program_descriptor(program: object, trace: Trace, executable: NativeExecutable | DeviceExecutable, tensors: TensorProgram | None,
                            flow: object = None, least_rows: int = 0) -> ProgramDescriptor | None:
    """The descriptor of a program; None if the program has a property that the fast path does not support. `flow` is what the points of its
    guards belong to. A program for any number of rows serves `least_rows` and more."""
    signature, artifact = trace.signature, executable.code.artifact
    if len(signature.key) > 4 or trace.same:      # a tensor, or an array that the program writes to, is passed twice
        return None
    order = None if tensors is None else tensors.order
    if any(artifact.results[result if order is None else order[result]].param != param for param, result in trace.writes):
        return None     # a new content that has to be copied into the array
    others = 0 if tensors is None else len(tensors.effects.contents) + len(tensors.effects.numbers)
    if _first(signature) + len(trace.guards.arrays) + others + (artifact.count >= 0) != len(artifact.params):
        return None
    if artifact.count >= 0 and artifact.count != len(artifact.params) - 1:
        return None
    memory, first = Memory(), _first(signature) + len(trace.guards.arrays)
    on_card = [False] * len(artifact.params)
    node: MakeNode = partial(array_node, memory, rows=(artifact.count, least_rows))
    if not isinstance(executable, NativeExecutable):
        on_card[:first] = [signature.is_on_device(index) for index in range(len(signature.leaf_keys)) if signature.is_traced(index)] + [
            False] * len(trace.guards.arrays)
        if tensors is not None:
            for content in tensors.effects.contents:
                on_card[first + content.index] = content.place is not None
        node = partial(_device_node, memory, executable, on_card)
    try:
        fields = {
            **_arguments(memory, signature, artifact.params, node), **_surroundings(memory, signature, trace.guards, artifact.params),
            **parameter_fields(memory, artifact.params, artifact.count), **_decisions(memory, trace.value_guards, artifact, flow)}
        if isinstance(executable, NativeExecutable):
            fields |= {**result_fields(memory, artifact.results), **code_fields(memory, executable)}
        else:
            fields |= direct_launch.launch_fields(memory, executable, on_card, artifact.params, artifact.results)
        if tensors is None:
            fields["tree"] = _result_tree(memory, trace)
        else:
            nodes = [node(param, number) for number, param in enumerate(artifact.params)]
            fields |= tensor_fields(memory, tensors, len(signature.leaf_keys), nodes[first:first + others])
    except UnsuitedError:
        return None
    return ProgramDescriptor(program, fields, memory, bool(trace.value_guards))


def _device_node(memory: Memory, executable: DeviceExecutable, on_card: Sequence[bool], param: Parameter, number: int, **options: Any
                 ) -> int:
    """The node of a parameter of a program for a card, which is there, or is copied there in each call."""
    return direct_launch.device_node(memory, executable, param, number) if on_card[number] else array_node(memory, param, number, **options)


MAX_KEYS = 256
"""Decisions of a program by which the fast path tells it from others."""


def _decisions(memory: Memory, guards: Sequence[ValueGuard], artifact: Artifact, flow: object) -> dict[str, int]:
    """The fields by which a program is told from other ways: of guards before which all ways agree, or at points of `flow`."""
    points = [guard.point for guard in guards]
    by_point = flow is not None and all(type(point) is int for point in points)
    count = Counter(points)
    wanted: dict[int, list[int]] = {}
    misses: list[int] = []
    guarded: list[int] = []
    decisions = id(flow) if by_point else 0
    for op, check in sorted(artifact.guards.items()):
        guard, dtype = guards[check.number], SHORT_NAMES[check.dtype]
        key: Any = guard.point if by_point else check.number
        if key >= MAX_KEYS or (by_point and count[key] > 1):
            continue
        space, before = Space[check.space.upper()], len(guarded) // len(FACT)
        if guard.expected == guard.expected:        # any NaN is NaN, whatever its bits
            bits = int.from_bytes(np.array(guard.expected, dtype).tobytes(), "little", signed=dtype.itemsize == 8)
            wanted[key] = [1, bits]
            guarded += descriptor_words(FACT, {"decisions": decisions, "key": key, "bits": bits})
        offset, start = (0, check.offset) if space is Space.ARENA else (check.offset, check.start)
        misses += descriptor_words(MISS, {"op": op, "key": key, "before": before, "space": space, "offset": offset, "start": start,
                                          "bytes": dtype.itemsize})
    words = [word for key in range(max(wanted, default=-1) + 1) for word in wanted.get(key, [0, 0])]
    return {"decisions": decisions, "guarded": memory.words(guarded),
            "wanted": memory.words(words), "wanted_count": len(words) // len(WANTED),
            "misses": memory.words(misses), "misses_count": len(misses) // len(MISS)}


def _first(signature: CallSignature) -> int:
    """The number of the first parameter that is not an argument."""
    return sum(map(signature.is_traced, range(len(signature.leaf_keys))))


def _arguments(memory: Memory, signature: CallSignature, params: Sequence[Parameter], node: MakeNode) -> dict[str, int]:
    positional, keywords = signature.tree.children()
    numbers = itertools.count()
    leaves = (_argument(memory, signature, index, numbers, params, node) for index in range(len(signature.leaf_keys)))
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


def _argument(memory: Memory, signature: CallSignature, index: int, numbers: Iterator[int], params: Sequence[Parameter],
              node: MakeNode) -> int:
    key = signature.leaf_keys[index]
    if not signature.is_traced(index):
        kind, value = key[1]
        if key[2:] == (IdentityKeyed,):
            return memory.node(Node.SAME, object=value)
        if issubclass(kind, (float, complex, np.inexact, tuple, list, dict)):
            raise UnsuitedError     # leaves that are compared by text or by content
        return constant_node(memory, value)
    number = next(numbers)
    if key == ("weak",):
        if params[number].role in WRITABLE_ROLES:
            raise UnsuitedError
        return memory.node(Node.FLOAT, index=number)
    if key == ("weak", int):
        return memory.node(Node.INTEGER, index=number, count=len(params))
    if len(key) == 2:
        return node(params[number], number, arrays=bool(key[1]))
    if key[2:] == (np.ndarray,):
        return node(params[number], number, scalars=False)
    made = node(params[number], number)
    if isinstance(key[2], str):         # the name of a device
        return made
    kind, requires_grad, *_ = key[2:]
    return memory.node(Node.TENSOR, object=id(kind), items=made, keys=id(bool(requires_grad)), count=index)


def _surroundings(memory: Memory, signature: CallSignature, trace_guards: TraceGuards, params: Sequence[Parameter]) -> dict[str, int]:
    """The fields for guards of a program other than the types of its arguments."""
    first = _first(signature)
    captures: list[int] = []
    for index, array in enumerate(trace_guards.arrays, first):
        if type(array) is not np.ndarray:
            raise UnsuitedError
        captures += [array_node(memory, params[index], index), memory.identity(array)]
    guards: list[int] = []
    asked: list[Source] = []
    for source in (*trace_guards.fixed, *(source for _, source, _ in trace_guards.captured)):
        guard = _guard(memory, source)
        if guard is None:
            asked.append(source)
        guards += guard or ()
    contents = [*trace_guards.contents, *(content for *_, content in trace_guards.captured if content is not None)]
    guard_fn: Any = partial(trace_guards.hold, asked)
    for content in contents:
        guard = _content_guard(memory, content)
        if guard is None:
            guard_fn = partial(_all_holds, trace_guards)
        guards += guard or ()
    grad_mode = signature.key[2]
    return {
        "captures": memory.words(captures), "captures_count": len(trace_guards.arrays), "guards": memory.words(guards),
        "guards_count": len(guards) // len(GUARD), "guard_fn": memory.identity(guard_fn) if asked or guard_fn.func is _all_holds else 0,
        "grad_mode": id(grad_mode), "needs_mode": int(grad_mode is not True)}


def _all_holds(trace_guards: TraceGuards) -> bool:
    return trace_guards.current() == trace_guards.arrays if not trace_guards.arrays else trace_guards.current() is trace_guards.arrays


def _guard(memory: Memory, source: Source) -> list[int] | None:
    """The words of a guard; an empty list if nothing can change; None if Python has to check it."""
    read = source.read
    if not isinstance(read, partial):
        return None
    if read.func is form_of:
        return _form_guard(memory, source)
    if read.func is slots_of:
        return _slots_guard(memory, source)
    wanted = 0 if source.value is MISSING else memory.identity(source.value)
    if read.func is len and type(read.args[0]) in (list, *_DICTS):
        return descriptor_words(GUARD, {"kind": Guard.SIZE, "holder": memory.identity(read.args[0]), "value": source.value})
    if read.func is tuple and type(read.args[0]) is list:
        return _table_guard(memory, read.args[0], None, source.value)
    if read.func is tuple and type(read.args[0]) in (dict, defaultdict, Counter):        # not OrderedDict, which keeps its own order
        return _table_guard(memory, read.args[0], source.value, source.value, range(len(source.value)))
    if read.func is pairs_of and isinstance(read.args[0], dict) and not isinstance(read.args[0], OrderedDict):
        return _table_guard(memory, read.args[0], source.value[::2], source.value[1::2])
    kind, holder, key = Guard.DICT, None, 0
    if read.func is read_cell:
        kind, holder = Guard.CELL, read.args[0]
    elif read.func is type:
        kind, holder, key = Guard.WORD, read.args[0], layout.TYPE
    elif read.func is read_slot:
        kind, holder, key = Guard.WORD, read.args[1], layout.slot_offset(read.args[0])
    elif read.func is read_item:
        holder, key = read.args
    elif read.func is getattr:
        holder, key = read.args[:2]
        if isinstance(holder, FunctionType):
            kind, key = Guard.WORD, layout.FUNCTION[key]
        elif type(holder) is partial and key in layout.PARTIAL:
            kind, key = Guard.WORD, layout.PARTIAL[key]
        elif _is_plain(holder, key):
            kind = Guard.ATTRIBUTE
        else:
            return None
    if kind is Guard.WORD:
        assert isinstance(key, int)
        if layout.word(id(holder) + key) != wanted:      # changed since the trace
            return None
    elif kind is Guard.DICT:
        if type(holder) is tuple:
            return []
        if isinstance(holder, MappingProxyType):
            holder = _behind_proxy(holder)
        if type(holder) is list:
            kind = Guard.LIST
        elif not isinstance(holder, dict) or not _is_plain_key(key):
            return None
    return descriptor_words(GUARD, {
        "kind": kind, "holder": memory.identity(holder), "value": wanted,
        "key": key if kind in (Guard.WORD, Guard.LIST) else memory.identity(key)})


def _slots_guard(memory: Memory, source: Source) -> list[int] | None:
    """Words of the slots of a class."""
    kind, addresses = source.read.args      # type: ignore[attr-defined]
    wanted = [memory.identity(source.value[0]), *source.value[1:]]
    if not addresses or [layout.word(address) for address in addresses] != wanted:
        return None
    return [each for address, slot in zip(addresses, wanted, strict=True) for each in descriptor_words(GUARD, {
        "kind": Guard.WORD, "holder": memory.identity(kind), "value": slot, "key": address - id(kind)})]


def _table_guard(memory: Memory, container: Any, keys: Sequence[Any] | None, values: Sequence[Any],
                 varying: Container[int] = ()) -> list[int]:
    return descriptor_words(GUARD, {
        "kind": Guard.TABLE, "holder": memory.identity(container),
        "key": memory.words(table_words(memory, container, keys, values, varying))})


_DICTS = (dict, defaultdict, OrderedDict, Counter)


def _is_plain_key(key: Any) -> bool:
    """True if a lookup of the key in a dict runs no Python code."""
    return type(key) in (str, int, float, bool, bytes, NoneType) or (type(key) is tuple and all(map(_is_plain_key, key)))


def _content_guard(memory: Memory, content: ContentGuard) -> list[int] | None:
    """The words of a guard of an array's content; None if Python has to check it."""
    array = content.array
    layout_flag = _order_flag(array)
    if type(array) is not np.ndarray or not layout_flag:
        return None
    code = digest_code()
    digest = content.digest()
    if digest is None:      # changed since the trace
        return None
    return [*_digest_guard(memory, array, layout_flag, code.address, digest, array.nbytes), *_array_word(memory, array, layout.DESCR)]


def _form_guard(memory: Memory, source: Source) -> list[int] | None:
    """The words of a guard of an array's form, but not its content; None where Python has to check."""
    array, flag = source.holder, _order_flag(source.holder)
    if type(array) is not np.ndarray or not flag or form_of(array) != source.value:
        return None
    code = digest_code()
    empty = native_digest.digest(array.ctypes.data, 0) if native_digest.digest is not None else 0
    words = [word for offset in (layout.DATA, layout.DESCR, layout.FLAGS) for word in _array_word(memory, array, offset)]
    return [*_digest_guard(memory, array, flag, code.address, empty, 0), *words]


def _order_flag(array: np.ndarray) -> int:
    return layout.CONTIGUOUS if array.flags.c_contiguous else layout.F_CONTIGUOUS if array.flags.f_contiguous else 0


def _digest_guard(memory: Memory, array: np.ndarray, flag: int, function: int, digest: int, count: int) -> list[int]:
    """The words of a guard of an array's order and shape, and of the digest of its first `count` bytes."""
    wanted = descriptor_words(DIGEST, {
        "digest": digest, "function": function, "bytes": count, "flags": flag, "rank": array.ndim, "shape": memory.words(array.shape)})
    return descriptor_words(GUARD, {
        "kind": Guard.DIGEST, "holder": memory.identity(array), "key": memory.words(wanted), "value": 0})


def _array_word(memory: Memory, array: np.ndarray, offset: int) -> list[int]:
    """The words of a guard of one word of an array."""
    if offset == layout.DESCR:
        memory.identity(array.dtype)        # as long as it is kept, no other has its address
    return descriptor_words(GUARD, {
        "kind": Guard.WORD, "holder": memory.identity(array), "key": offset, "value": layout.word(id(array) + offset)})


def _behind_proxy(proxy: Any) -> Any:
    """The dict behind a mapping proxy, such as a class's `__dict__`."""
    found = gc.get_referents(proxy)
    return found[0] if len(found) == 1 else None


def _is_plain(owner: object, name: str) -> bool:
    """True if reading the attribute runs no code of the class: it is in the object's own dict, or is a plain value of its class."""
    kind = type(owner)
    if kind.__getattribute__ is not object.__getattribute__ or isinstance(owner, (type, local)):
        return False
    of_class = next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)
    return not hasattr(type(of_class), "__set__") and (name in own_attributes(owner) or not hasattr(type(of_class), "__get__"))


def _result_tree(memory: Memory, trace: Trace) -> int:
    def node(leaf: OutLeaf) -> int:
        if isinstance(leaf, NumberLeaf):
            raise UnsuitedError
        return constant_node(memory, leaf.value) if isinstance(leaf, StaticLeaf) else memory.node(Node.RESULT, index=leaf)

    try:
        return _tree(memory, trace.out_tree, map(node, trace.out_leaves))
    except UnsuitedError:
        return memory.node(Node.BUILT, object=memory.identity(trace.rebuild))
