"""Tensors around a compiled program: where it reads them, what it makes of its results, and what it writes back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from adjit.eager.capture import Capture, Entry, Number
from adjit.eager.modes import modes
from adjit.eager.node import AccumulateGrad, Node
from adjit.eager.tensor import Tensor, new_tensor
from adjit.ir.errors import UnsupportedError
from adjit.ir.graph import Value
from adjit.runtime.snapshot import Snapshot
from adjit.tracer.box import ArrayBox
from adjit.tracer.source import find_user_location
from adjit.tracer.trace import check_result, function_name
from adjit.tracer.trees import TreeSpec, flatten, unflatten

Source = Entry | Number


@dataclass(frozen=True, slots=True)
class New:
    """A leaf of the result that is a new tensor around result number `place`; `connected`: it has a gradient."""

    place: int
    connected: bool


@dataclass(frozen=True, slots=True)
class Same:
    """A leaf of the result that is a tensor which the function was given, or reached by itself."""

    entry: Entry


@dataclass(frozen=True, slots=True)
class Plain:
    """A leaf of the result that is no tensor: item number `place`."""

    place: int


class CapturedFunction:
    """A function as it is traced where tensors are about: it returns a list of arrays, and notes in `capture` what they are for.

    First the leaves of the function's result, then the new gradients, then the new content of tensors that were written to.
    """

    def __init__(self, fun: Callable[..., Any], capture: Capture):
        self.__wrapped__ = fun
        self.__name__ = function_name(fun)
        self.capture = capture
        self.leaves: list[New | Same | Plain] = []
        self.tree: TreeSpec | None = None
        self.gradients: list[tuple[Tensor, int | None]] = []
        self.writes: list[tuple[Entry, int]] = []

    @property
    def makes_tensors(self) -> bool:
        """Whether a leaf of the result is a tensor."""
        return any(not isinstance(leaf, Plain) for leaf in self.leaves)

    @property
    def connected(self) -> list[int]:
        """The places of new tensors that have a gradient."""
        return [leaf.place for leaf in self.leaves if isinstance(leaf, New) and leaf.connected]

    def __call__(self, *args: Any, **kwargs: Any) -> list[Any]:
        result, self.tree = flatten(self.__wrapped__(*args, **kwargs))
        arrays: list[Any] = []
        entries = self.capture.entries
        for index, leaf in enumerate(result):
            if not isinstance(leaf, Tensor):
                check_result(leaf, self.tree, index)
                self.leaves.append(Plain(len(arrays)))
                arrays.append(leaf)
            elif id(leaf) in entries:
                self.leaves.append(Same(entries[id(leaf)]))
            else:
                self.leaves.append(New(len(arrays), modes.grad and leaf._requires_grad and _is_alive(leaf)))
                arrays.append(leaf.traced())
        for gradient in list(self.capture.gradients.values()):
            now = gradient.tensor._grad
            if now is None and gradient.before is not None:
                self.gradients.append((gradient.tensor, None))
            elif now is not None and now is not gradient.before:
                self.gradients.append((gradient.tensor, len(arrays)))
                arrays.append(now.traced())
        for entry in list(entries.values()):
            self._check(entry)
            if entry.content.value is not entry.value:
                self.writes.append((entry, len(arrays)))
                arrays.append(entry.content)
        return arrays

    def _check(self, entry: Entry) -> None:
        tensor = entry.tensor
        if tensor._requires_grad != entry.requires_grad or tensor._node is not None:
            raise UnsupportedError(
                f"a tensor of shape {tensor.shape} from outside of the compiled function is made part of its graph", find_user_location(),
                hint="write to it under adjit.no_grad(), or return a new tensor instead of writing to this one")


def _is_alive(tensor: Tensor) -> bool:
    """Whether a backward pass from here would find everything it needs."""
    stack: list[Node] = [tensor._node] if tensor._node is not None else []
    seen: set[Node] = set()
    while stack:
        node = stack.pop()
        if node in seen or isinstance(node, AccumulateGrad):
            continue
        seen.add(node)
        if node.saved is None:
            return False
        if node.result_hooks or node.pre_hooks or node.post_hooks:
            raise UnsupportedError(f"{node.name()} has a hook, and is part of the result of a compiled function", node.location,
                                   hint="register hooks on what the compiled function returns, or call backward() within it")
        stack += [edge[0] for edge in node.edges if edge is not None]
    return True


@dataclass(slots=True)
class Effects:
    """What a program does with tensors. `sources` are its parameters after the arguments and the captured arrays."""

    function: CapturedFunction
    sources: tuple[Source, ...]
    snapshot: Snapshot
    positions: tuple[int, ...]      # of the tensors among the leaves of a call

    def arguments(self, all_leaves: Sequence[Any]) -> list[Tensor]:
        """The tensors among the leaves of a call."""
        return [all_leaves[position] for position in self.positions]

    def resolve(self, entry: Entry, arguments: Sequence[Tensor]) -> Tensor | None:
        """The tensor that an entry stands for in this call."""
        if entry.argument is not None:
            return arguments[entry.argument]
        if entry.gradient_of is not None:
            owner = self._owner(entry.gradient_of, arguments)
            return owner._grad
        return entry.tensor

    def current(self, all_leaves: Sequence[Any]) -> list[Any] | None:
        """The content of the sources now; None where something is not as it was when the program was made."""
        arguments = self.arguments(all_leaves)
        found: list[Any] = []
        for source in self.sources:
            if isinstance(source, Number):
                number = source.group.get(source.name)
                if type(number) is not float:
                    return None
                found.append(np.array(number))
                continue
            tensor = self.resolve(source, arguments)
            if tensor is None or tensor._requires_grad != source.requires_grad:
                return None
            payload, type_ = tensor.payload, source.value.type
            if payload.dtype != type_.dtype or payload.shape != type_.shape:
                return None
            found.append(payload)
        for gradient in self.function.capture.gradients.values():
            if gradient.was_read and (self._owner(gradient.tensor, arguments)._grad is None) != (gradient.before is None):
                return None
        if arguments:
            own = {id(source.tensor) for source in self.sources if isinstance(source, Entry) and source.gradient_of is None}
            if any(id(argument) in own for argument in arguments):
                return None
        return found if self.snapshot.holds() else None

    def finish(self, results: Sequence[Any], all_leaves: Sequence[Any], connect: Callable[[dict[int, Tensor]], None]) -> Any:
        """Write back, and give the function's result; `connect` puts the new tensors that have gradients, by their places, into the
        dynamic graph."""
        function, arguments = self.function, self.arguments(all_leaves)
        targets = [self.resolve(entry, arguments) for entry, _ in function.writes]
        connected: dict[int, Tensor] = {}
        leaves: list[Any] = []
        assert function.tree is not None
        for leaf in function.leaves:
            if isinstance(leaf, Same):
                leaves.append(self.resolve(leaf.entry, arguments))
            elif isinstance(leaf, Plain):
                leaves.append(results[leaf.place])
            else:
                made = new_tensor(np.asarray(results[leaf.place]))
                leaves.append(made)
                if leaf.connected:
                    connected[leaf.place] = made
        connect(connected)
        for tensor, place in function.gradients:
            owner = self._owner(tensor, arguments)
            owner._grad = None if place is None else new_tensor(np.asarray(results[place]))
        for target, (_, place) in zip(targets, function.writes, strict=True):
            assert target is not None
            if results[place] is not target.payload:
                np.copyto(target.payload, results[place])
            target._version[0] += 1
        return unflatten(function.tree, leaves)

    def _owner(self, tensor: Tensor, arguments: Sequence[Tensor]) -> Tensor:
        entry = self.function.capture.entries.get(id(tensor))
        return tensor if entry is None or entry.argument is None else arguments[entry.argument]


def make_effects(function: CapturedFunction, params: Sequence[Value], roots: Sequence[Any],
                 all_leaves: Sequence[Any]) -> Effects:
    """The effects of a trace; `params` are its parameters after the arguments and the captured arrays."""
    capture = function.capture
    by_value: dict[Value, Source] = {entry.value: entry for entry in capture.entries.values()}
    by_value.update((number.value, number) for number in capture.numbers.values())
    free = {(owner, name) for owner, name in capture.numbers}
    return Effects(function, tuple(by_value[value] for value in params), Snapshot(roots, free),
                   tuple(i for i, leaf in enumerate(all_leaves) if isinstance(leaf, ArrayBox)))

