"""Effects of a compiled program on tensors: the tensors that it reads, new tensors around its results, and write-backs."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Collection, Container, Sequence, Set
from typing import Any

import numpy as np

from adjit.eager.after_calls import marks_taken_back
from adjit.eager.capture import Capture, CapturedTensor, Hyperparameter, memory_key, new_parameter, overlapping
from adjit.eager.engine import BackwardAfter, leaves_behind
from adjit.eager.in_place import assign
from adjit.eager.modes import modes
from adjit.eager.node import AccumulateGrad, Node, edge_of
from adjit.eager.tensor import Tensor, new_tensor
from adjit.eager.user_function import FunctionNode
from adjit.ir.dataclass import dataclass
from adjit.ir.errors import TraceError, UnsupportedError
from adjit.ir.graph import Value
from adjit.ir.types import F64, I64, TensorType
from adjit.runtime.capture.aliases import Alias, find_alias, in_order
from adjit.runtime.capture.state_guard import StateGuard
from adjit.runtime.capture.stored_state import Slot, StateNumber, changes_of, number_in_trace, take_stores, tensors_in
from adjit.runtime.debug.effects import print_in_program
from adjit.tracer.array import TracedArray, as_traced, without_labels
from adjit.tracer.array_wrapper import ArrayWrapper, DeviceLeaf
from adjit.tracer.flow.lifted_numbers import NotLiftable
from adjit.tracer.flow.printed_texts import RULES
from adjit.tracer.guards.argument_containers import containers_in
from adjit.tracer.results import NumberLeaf, OutLeaf, StaticLeaf, check_result, with_known_keys
from adjit.tracer.scope import Scope, active_scope
from adjit.tracer.signature import function_name
from adjit.tracer.trace import Trace
from adjit.tracer.trees import TreeSpec, flatten, unflatten
from adjit.tracer.user_location import find_user_location


@dataclass(frozen=True, slots=True, eq=False)
class TensorRef:
    """Reference to a tensor of a call: `tensor` itself, leaf number `argument` of the call, or what is at `slot`; with `gradient`, its
    `.grad`."""

    tensor: Tensor | None
    argument: int | None
    gradient: bool = False
    slot: Slot | None = None

    def __eq__(self, other: object) -> bool:
        """True if both refer to the same tensor: `==` of tensors themselves is elementwise."""
        if not isinstance(other, TensorRef):
            return NotImplemented
        return self.tensor is other.tensor and (self.argument, self.gradient, self._place) == (
            other.argument, other.gradient, other._place)

    def __hash__(self) -> int:
        return hash((id(self.tensor), self.argument, self.gradient, self._place))

    @property
    def _place(self) -> object:
        return None if self.slot is None else (*self.slot.place, self.slot.path)

    @property
    def known(self) -> Tensor | None:
        """The tensor, if it is the same in every call."""
        return self.tensor if self.argument is None and self.slot is None and not self.gradient else None

    def find(self, all_leaves: Sequence[Any]) -> Any:
        """The tensor; None if a gradient does not exist, or at a slot is none."""
        if self.slot is not None:
            found = self.slot.find()
            found = found if isinstance(found, Tensor) else None
        else:
            found = self.tensor if self.argument is None else all_leaves[self.argument]
        return found if found is None or not self.gradient else found._grad


class CapturedFunction:
    """A function in the form in which it is traced if tensors are involved: it returns a list of arrays, and records their uses.

    `leaves` has, for each leaf of the function's result, the index of its array, or the reference to an existing tensor. `tensors` maps the
    index of each array that becomes a new tensor to whether the tensor has a gradient; `new_leaves` are the indices of new tensors that
    require grad and have no history. `gradients` are the owners of gradients that were set, each with the index of the new gradient, if
    any. `writes` are the tensors that were written to, each with the index of its new content. `switched` are tensors whose
    `requires_grad` is another one at the end.

    What is stored in modules and optimisers, the values of `slots`, are leaves behind those of the function's result; `kept` are leaves
    for tensors that are stored elsewhere.
    """

    def __init__(self, fun: Callable[..., Any], capture: Capture, positions: Sequence[int], before: StateGuard, numbers: Sequence[Slot],
                 filled_later: Collection[int], reached: Collection[int]):
        self.__wrapped__ = fun
        self.__name__ = function_name(fun)
        self.capture = capture
        self.leaves: list[int | TensorRef | Alias] = []
        self.tree: TreeSpec | None = None
        self.tensors: dict[int, bool] = {}
        self.new_leaves: set[int] = set()
        self.gradients: list[tuple[TensorRef, int | None]] = []
        self.writes: list[tuple[CapturedTensor, int]] = []
        self.switched: list[tuple[CapturedTensor, bool]] = []
        self.slots: list[Slot] = []
        self.kept: list[int | TensorRef | Alias] = []
        self.numbers: list[StateNumber] = []
        self._stored_leaves = 0
        self.as_numbers: set[int] = set()      # positions of leaves that are stored as Python's numbers
        self._before, self._numbers, self._filled_later = before, numbers, filled_later
        self._rebound: dict[int, Slot] = {}     # by the identity of the tensor that was there
        self.identical: list[tuple[Tensor, Slot]] = []      # what is at a slot is this tensor
        self._reached_from_outside = reached
        self._positions = positions     # positions of the tensors among the leaves of the call
        self._made: dict[int, tuple[int, Tensor]] = {}
        self.reached: set[int] = set()          # identities of the tensors that results were computed from
        self._returned: set[int] = set()        # identities of returned tensors
        self._arrays: list[Any] = []
        self._wrappers: list[weakref.ref[ArrayWrapper]] = []

    def __call__(self, *args: Any, **kwargs: Any) -> list[Any]:
        scope = active_scope()
        assert scope is not None
        self._wrappers = scope.root.wrappers
        scope.root.keep_wrapper, scope.root.print = self._keep, print_in_program
        entries = self.capture.entries
        result, self.tree = flatten(with_known_keys(self._run(scope, args, kwargs)))
        result = without_labels(result)
        scope.root.has_tensors, scope.root.result_tree = bool(entries), self.tree
        outside = len(result) - self._stored_leaves
        self._returned = {id(leaf) for leaf in result if isinstance(leaf, Tensor)}
        for index, leaf in enumerate(result):
            if isinstance(leaf, Tensor):
                entry = entries.get(id(leaf))
                if index >= outside and entry is None and not isinstance(leaf.array, TracedArray):
                    self.leaves.append(self.owner(leaf))
                else:
                    self.leaves.append(self._result(leaf) if entry is None else self.ref(entry))
            else:
                check_result(leaf, self.tree, index)
                if (index >= outside or entries) and isinstance(leaf, TracedArray) and leaf.weak:      # to ask may decide which it is
                    self.as_numbers.add(len(self.leaves))
                self.leaves.append(self._add(leaf))
        for gradient in list(self.capture.gradients.values()):
            now = gradient.tensor._grad
            if isinstance(gradient.tensor.array, TracedArray) and id(gradient.tensor) not in entries:
                continue        # a tensor made by the function
            if now is None and gradient.before is not None:
                self.gradients.append((self.owner(gradient.tensor), None))
            elif now is not None and now is not gradient.before:
                self.gradients.append((self.owner(gradient.tensor), self._new(now)))
        for entry in list(entries.values()):
            if entry.tensor._node is None and entry.tensor._requires_grad != entry.requires_grad and (
                    id(entry.tensor) in self.capture.requires_grad_set_at):
                self.switched.append((entry, entry.tensor._requires_grad))
            else:
                _check_leaf(entry)
            if entry.content.value is not entry.value and entry.shares is None:
                self.writes.append((entry, self._add(entry.content)))
        self.capture.check_writes()
        self._check_outer_graphs()
        return self._arrays

    def _check_outer_graphs(self) -> None:
        """Raise `TraceError` if a backward pass through a graph that was built outside would come too late: the function reads or sets a
        gradient that it adds to, or uses the leaf itself."""
        known = {*self.capture.entries, *self.capture.gradients}
        for call in self.capture.calls_after:
            if isinstance(call, BackwardAfter):
                tensor = call.args[0]
                if id(tensor) in self.capture.gradients or known & (leaves_behind(self.capture.node_before(tensor)) or set()):
                    raise TraceError(
                        f"a backward pass in a compiled function reaches the graph of a tensor of shape {tensor.shape} that was built "
                        "outside of it, from leaves that the function uses, too", call.location,
                        hint="build the graph within the function, call backward() outside of it, or detach() the tensor")

    def _run(self, scope: Scope, args: Any, kwargs: Any) -> Any:
        """The result of the function; with what it stored in modules and optimisers, if it did."""
        root = scope.root
        for slot in self._numbers:
            now = slot.find()
            number = StateNumber(slot, type(now), new_parameter(root, TensorType(I64 if type(now) is int else F64, ()), str(slot.key),
                                                                np.array(now)))
            slot.table[slot.key] = number_in_trace(number.value)
            self.numbers.append(number)
        added = root.added
        root.added = lambda: {**added(), **changes_of(self.numbers)}
        try:
            with marks_taken_back(self.capture):
                result = self.__wrapped__(*args, **kwargs)
            root.returned = containers_in(result, root.containers)
            leaves, tree = flatten(result)      # a dict of a module that it returns holds what was stored, which is taken back
            stored = list(take_stores(self._before, self.capture, self._filled_later, self._numbers))
        finally:
            for number in self.numbers:
                number.slot.table[number.slot.key] = self._before.value_of(number.slot.table, number.slot.key)
        result = unflatten(tree, leaves) if stored else result
        self.slots = [slot for slot, _ in stored]
        counts = Counter(id(value) for value in self._before.held())
        held: dict[int, tuple[Tensor, list[Slot]]] = {}
        for slot in self.slots:
            for place, tensor in tensors_in(slot.table.get(slot.key), slot):
                held.setdefault(id(tensor), (tensor, []))[1].append(place)
        for tensor, places in held.values():
            entry = self.capture.entries.get(id(tensor))
            is_elsewhere = counts[id(tensor)] > len(places) or id(tensor) in self._reached_from_outside
            if not is_elsewhere and (entry is None or (entry.argument is None and entry.gradient_of is None)):
                self._rebound[id(tensor)] = places[0]
            self.identical += [(tensor, place) for place in places]
        values = [*(value for _, value in stored), *((call.args, call.kwargs) for call in self.capture.calls_after)]
        if not values:
            return result
        self._stored_leaves = len(flatten(values)[0])
        return result, values

    def _keep(self, tensor: Tensor) -> int:
        """Have the program make a tensor that the function stores outside; returns its number among `kept`."""
        entry = self.capture.entries.get(id(tensor))
        self.kept.append(self.owner(tensor) if entry is not None or not isinstance(tensor.array, TracedArray) else self._result(tensor))
        return len(self.kept) - 1

    def ref(self, entry: CapturedTensor) -> TensorRef:
        """Reference to the tensor of an entry."""
        if id(entry.tensor) in self._rebound:
            return TensorRef(None, None, slot=self._rebound[id(entry.tensor)])
        if entry.argument is not None:
            return TensorRef(None, self._positions[entry.argument])
        if entry.gradient_of is not None:
            owner = self.owner(entry.gradient_of)
            return TensorRef(owner.tensor, owner.argument, True, owner.slot)
        return TensorRef(entry.tensor, None)

    def owner(self, tensor: Tensor) -> TensorRef:
        """Reference to a tensor that need not be captured."""
        entry = self.capture.entries.get(id(tensor))
        if entry is None:
            return TensorRef(None, None, slot=self._rebound[id(tensor)]) if id(tensor) in self._rebound else TensorRef(tensor, None)
        return self.ref(entry)

    def forget(self) -> list[weakref.ref[ArrayWrapper]]:
        """Drop all references to tensors, once the trace is over and its effects are known. Returns the wrappers made, to see which still
        live."""
        self._made.clear()
        self.capture.entries.clear()
        self.capture.shared.clear()
        self.capture.gradients.clear()
        self.capture.owners.clear()
        self.capture.calls_after.clear()
        return self._wrappers

    def _add(self, array: Any) -> int:
        self._arrays.append(array)
        return len(self._arrays) - 1

    def _result(self, tensor: Tensor) -> int | Alias:
        """A result that is not a captured tensor: a new tensor, or an alias of an existing one."""
        number = self._new(tensor)
        found = find_alias(tensor, self.capture, self._returned, self._add)
        if found is None:
            return number
        base, steps = found
        entry = self.capture.entries.get(id(base))
        return Alias(self._new(base) if entry is None else self.ref(entry), steps, number)

    def _new(self, tensor: Tensor) -> int:
        """The index of the array of a tensor that the function made; the same at each call."""
        known = self._made.get(id(tensor))
        if known is None:
            number = self._add(tensor.traced())
            known = self._made[id(tensor)] = number, tensor
            is_leaf = tensor._view is None and tensor._node is None
            self.tensors[number] = modes.grad and bool(tensor._requires_grad) and not is_leaf and self._is_alive(tensor)
            if is_leaf and tensor._requires_grad:
                self.new_leaves.add(number)
        return known[0]

    def _is_alive(self, tensor: Tensor) -> bool:
        """True if a backward pass from this tensor would find everything it needs."""
        stack: list[Node] = [edge_of(tensor)[0]]
        seen: set[Node] = set()
        hooked: Node | None = None
        rules = False
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            if isinstance(node, AccumulateGrad):
                self.reached.add(id(node.variable))
                if id(node.variable) in self._returned and id(node.variable) not in self.capture.entries:
                    raise UnsupportedError(
                        "a compiled function returns a leaf tensor that it created with requires_grad, and another tensor computed from "
                        "the leaf: a backward pass would not reach the leaf", find_user_location(),
                        hint="create the leaf before the call and pass it in, or call backward() within the function")
                continue
            if node.saved is None or (isinstance(node, FunctionNode) and node.context._saved is None):
                return False
            rules = rules or isinstance(node, FunctionNode)
            if node.result_hooks or node.pre_hooks or node.post_hooks:
                hooked = hooked or node
            stack += [edge[0] for edge in node.edges if edge is not None]
        if hooked is not None:
            module = hooked.metadata.get("module")
            what = hooked.name() if module is None else f"a module {type(module).__name__}"
            raise UnsupportedError(f"{what} has a hook, and a result of the compiled function depends on it", hooked.location,
                                   hint="register hooks on the returned tensors, or call backward() within the function")
        if rules:
            raise NotLiftable(frozenset((RULES,)))
        return True


def _check_leaf(entry: CapturedTensor) -> None:
    tensor = entry.tensor
    if tensor._requires_grad != entry.requires_grad or tensor._node is not None:
        raise UnsupportedError(
            f"the compiled function writes values with a gradient into a tensor of shape {tensor.shape} from outside", find_user_location(),
            hint="write to the tensor under adjit.no_grad(), or return a new tensor")


@dataclass(frozen=True, slots=True)
class _Content:
    """Parameter `index` is the content of the tensor at `place`, which has this type."""

    index: int
    ref: TensorRef
    requires_grad: bool
    dtype: np.dtype
    shape: tuple[int, ...]
    place: str | None       # the name of the card that it is on


def _place(array: Any) -> str | None:
    return array.device if isinstance(array, DeviceLeaf) else None


class Effects:
    """Effects of a program on tensors, before and after its run.

    before the run  `contents` and `numbers` are its parameters after the arguments and the captured arrays. The program is valid while
                    these keep their types, the gradients that it has read exist (or not) as before, and `snapshot` holds.
    after the run   `tensors` are new tensors around results (and whether they have a gradient), `writes` the new contents of captured
                    tensors, `gradients` the tensors that become `.grad`, `leaves` the leaves of the function's result.

    Effects hold no references to modules and optimisers: a program ends with them.
    """

    def __init__(self, function: CapturedFunction, params: Sequence[Value], state_guard: StateGuard, reached: Container[int],
                 out_leaves: Sequence[OutLeaf]):
        capture = function.capture
        number = {value: index for index, value in enumerate(params)}
        self.count = len(params)
        self.state_guard = state_guard
        entries = capture.entries.values()
        self.refs = {entry.value: function.ref(entry) for entry in entries if entry.shares is None or entry.requires_grad}
        self.sharing = tuple((function.ref(entry), function.ref(entry.shares), entry.requires_grad)
                             for entry in capture.entries.values() if entry.shares is not None)
        switched = {entry.value: now for entry, now in function.switched}
        self.differentiable = frozenset(entry.value for entry in entries if switched.get(entry.value, entry.requires_grad))
        self.reached = frozenset(entry.value for entry in entries
                                 if entry.value in self.differentiable and id(entry.tensor) in function.reached)
        self.switched = tuple((function.ref(entry), now) for entry, now in function.switched)
        self.slots = tuple(function.slots)
        self.calls_after = tuple(call.without_values() for call in capture.calls_after)
        self._outer = tuple(function.owner(call.args[0]) for call in capture.calls_after if isinstance(call, BackwardAfter))
        self.identical = tuple((function.owner(tensor), slot) for tensor, slot in function.identical)
        self.slot_refs = tuple(dict.fromkeys(ref for ref, _ in self.identical if ref.slot is not None))
        self.contents = tuple(
            _Content(number[entry.value], function.ref(entry), entry.requires_grad, entry.value.type.dtype, entry.value.type.shape,
                     _place(entry.before["array"]))
            for entry in capture.entries.values() if entry.value in number)
        self._looked_up = tuple(
            (content.index, None if content.ref.gradient else content.ref.tensor, content.ref, content.requires_grad, content.shape,
             content.dtype, content.place) for content in self.contents)
        self.hooks = tuple((function.ref(entry), tuple(entry.before.get("_hooks") or ())) for entry in entries
                           if entry.requires_grad) if capture.gradients else ()
        numbers: list[Hyperparameter | StateNumber] = [*capture.numbers.values(), *function.numbers]
        self.numbers = tuple((number[item.value], item) for item in numbers)
        self.read_gradients = tuple(
            (function.owner(item.tensor), item.before is not None) for item in capture.gradients.values()
            if item.was_read and not isinstance(item.tensor.array, TracedArray))     # tensors made by the function are gone
        self.positions = function._positions
        self.fixed = frozenset(id(content.ref.tensor) for content in self.contents if content.ref.tensor is not None
                               and not content.ref.gradient)
        self.same = tuple((self.positions[entry.argument], entry.tensor) for entry in capture.entries.values()
                          if entry.argument is not None and (id(entry.tensor) in reached or id(entry.tensor) in state_guard.members()))
        refs = [leaf if isinstance(leaf, int) else None for leaf in out_leaves]
        assert function.tree is not None
        self.tree = function.tree
        self.leaves, self.kept = (tuple(
            _placed(leaf, refs) if isinstance(leaf, Alias) else leaf if isinstance(leaf, TensorRef) else out_leaves[leaf]
            for leaf in leaves) for leaves in (function.leaves, function.kept))
        self.leaves = tuple(NumberLeaf(leaf, as_traced) if position in function.as_numbers and type(leaf) is int else leaf  # type: ignore[arg-type]
                            for position, leaf in enumerate(self.leaves))
        self.aliases = in_order(leaf for leaf in (*self.leaves, *self.kept) if isinstance(leaf, Alias))
        self.tensors: dict[int, bool] = {_number(refs[ref]): connected for ref, connected in function.tensors.items()}
        self.new_leaves = tuple(_number(refs[ref]) for ref in function.new_leaves)
        self.gradients = tuple((owner, None if ref is None else _number(refs[ref])) for owner, ref in function.gradients)
        self.writes = tuple((function.ref(entry), entry.value, _number(refs[ref])) for entry, ref in function.writes)
        self.single = self.tree.is_leaf()
        self._known_writes = tuple((ref.known, written) for ref, _, written in self.writes if ref.known is not None)
        self._found_writes = tuple((ref, written) for ref, _, written in self.writes if ref.known is None)
        self._owners = tuple((ref.known, ref, gradient) for ref, gradient in self.gradients)
        self._has_refs = any(type(leaf) is TensorRef for leaf in self.leaves)

    def current(self, all_leaves: Sequence[Any]) -> list[Any] | None:
        """The current parameters after the arguments and the captured arrays; None if the program is no longer valid."""
        found: list[Any] = [None] * self.count
        for index, tensor, ref, requires_grad, shape, dtype, place in self._looked_up:
            if tensor is None:
                tensor = ref.find(all_leaves)
            if tensor is None or tensor._requires_grad != requires_grad:
                return None
            array = tensor.array
            if array.shape != shape or array.dtype != dtype or _place(array) != place:
                return None
            found[index] = array
        for index, number in self.numbers:
            now = number.read()
            if now is None:
                return None
            found[index] = np.array(now, np.int64 if type(now) is int else np.float64)
        for ref, hooks in self.hooks:
            now_hooks = ref.find(all_leaves)._hooks
            if (now_hooks or hooks) and tuple(now_hooks or ()) != hooks:
                return None
        for owner, was_there in self.read_gradients:
            if (owner.find(all_leaves)._grad is not None) is not was_there:
                return None
        for position in self.positions:
            if id(all_leaves[position]) in self.fixed:      # an argument that the function also captures
                return None
        for ref, other, requires_grad in self.sharing:
            tensor = ref.find(all_leaves)
            if tensor._requires_grad != requires_grad or memory_key(tensor.array) != memory_key(other.find(all_leaves).array):
                return None
        for position, tensor in self.same:
            if all_leaves[position] is not tensor:
                return None
        if self.identical and not self._slots_hold(all_leaves):
            return None
        if self._outer and not self._outer_graphs_are_alone(all_leaves):
            return None
        return found if self.state_guard.holds() else None

    def _outer_graphs_are_alone(self, all_leaves: Sequence[Any]) -> bool:
        """True if graphs from outside that a backward pass goes through can be gone through, and reach no tensor of the program."""
        known = {*self.fixed, *(id(all_leaves[position]) for position in self.positions), *(id(owner) for owner, _, _ in self._owners)}
        for ref in self._outer:
            tensor = ref.find(all_leaves)
            leaves = None if tensor.is_leaf else leaves_behind(tensor.grad_fn)
            if leaves is None or known & leaves:
                return False
        return True

    def _slots_hold(self, all_leaves: Sequence[Any]) -> bool:
        """True if slots hold the same tensors as one another exactly where they did, other ones than the program has from elsewhere, and
        no memory of each other's that the program writes to."""
        if any(ref.find(all_leaves) is not slot.find() for ref, slot in self.identical):
            return False
        known = {id(all_leaves[position]) for position in self.positions} | self.fixed
        for ref in self.slot_refs:
            tensor = ref.find(all_leaves)
            if tensor is None or id(tensor) in known:
                return False
            known.add(id(tensor))
        if not self.writes or not self.slot_refs:
            return True
        written = {ref for ref, _, _ in self.writes}
        refs = list(dict.fromkeys([*(content.ref for content in self.contents), *self.slot_refs]))
        return overlapping([ref.find(all_leaves).array for ref in refs], [ref in written for ref in refs]) is None

    def changed(self) -> str:
        """The reason why the program is no longer valid, apart from its arguments."""
        for content in self.contents:
            tensor = content.ref.tensor
            if tensor is not None and not content.ref.gradient:
                now, then = (TensorType(tensor.dtype, tensor.shape), tensor._requires_grad), \
                    (TensorType(content.dtype, content.shape), content.requires_grad)
                if now != then:
                    return f"a tensor {then[0]}{_grad(then[1])} is {now[0]}{_grad(now[1])} now"
        changed = self.state_guard.changed()
        if changed:
            return f"{changed} changed"
        for _, number in self.numbers:
            if number.read() is None:
                how = "no number as it was" if isinstance(number, StateNumber) else \
                    f"{'no longer' if number.zero else 'now'} 0, or no float"
                return f"{number.name} is {how}"
        return "a gradient that the function reads was set or cleared" if self.read_gradients else ""

    @property
    def changes_places(self) -> bool:
        """True if each call stores something in modules and optimisers, steps a schedule, or switches gradients of tensors."""
        return bool(self.slots or self.switched or self.kept or self.calls_after)

    def finish(self, results: Sequence[Any], all_leaves: Sequence[Any],
               connect: Callable[[dict[int, Tensor]], None] | None) -> tuple[Any, list[Any]]:
        """Write back, and return the function's result, and tensors that are stored outside. `connect` adds new tensors that have
        gradients, by the number of their result, to the dynamic graph."""
        targets = [(ref.find(all_leaves), written) for ref, written in self._found_writes]
        leaves: Sequence[Any] = self.leaves
        if self._has_refs:
            leaves = [leaf.find(all_leaves) if type(leaf) is TensorRef else leaf for leaf in leaves]
        kept = [leaf.find(all_leaves) if type(leaf) is TensorRef else leaf for leaf in self.kept] if self.kept else ()
        bases = [alias.base.find(all_leaves) if type(alias.base) is TensorRef else None for alias in self.aliases] if self.aliases else ()
        for ref, requires_grad in self.switched:
            ref.find(all_leaves)._requires_grad = requires_grad
        made: dict[int, Tensor] = {}
        for number in self.tensors:
            content = results[number]
            made[number] = new_tensor(content if type(content) is np.ndarray or isinstance(content, DeviceLeaf) else np.asarray(content))
        if connect is not None:
            connect({number: tensor for number, tensor in made.items() if self.tensors[number]})
        for number in self.new_leaves:
            made[number]._requires_grad = True
        for owner, ref, gradient in self._owners:
            (ref.find(all_leaves) if owner is None else owner)._grad = None if gradient is None else made[gradient]
        for writes in (self._known_writes, targets):
            for target, written in writes:
                content = results[written]
                if content is not target.array:
                    assign(target.array, content)
                target._writes[0] += 1
        for alias, base in zip(self.aliases, bases, strict=True):
            made[alias.number] = alias.take(made[alias.base] if base is None else base, results)
        outside = [self._leaf(leaf, made, results) for leaf in kept]
        if self.single:
            return self._leaf(leaves[0], made, results), outside
        found = unflatten(self.tree, [self._leaf(leaf, made, results) for leaf in leaves])
        if not self.slots and not self.calls_after:
            return found, outside
        result, values = found
        for slot, value in zip(self.slots, values, strict=False):
            slot.table[slot.key] = value
        for call, value in zip(self.calls_after, values[len(self.slots):], strict=True):
            call(value)
        return result, outside

    def _leaf(self, leaf: Any, made: dict[int, Tensor], results: Sequence[Any]) -> Any:
        if type(leaf) is int:
            tensor = made.get(leaf)
            return results[leaf] if tensor is None else tensor
        if type(leaf) is Alias:
            return made[leaf.number]
        if type(leaf) is NumberLeaf:
            return leaf.number(results[leaf.index])
        return leaf.value if type(leaf) is StaticLeaf else leaf


def _grad(requires_grad: bool) -> str:
    return " that requires grad" if requires_grad else ""


def _number(leaf: int | None) -> int:
    assert leaf is not None     # because tensors are arrays
    return leaf


def _placed(alias: Alias, refs: Sequence[int | None]) -> Alias:
    """The alias, with numbers of results in place of numbers of arrays."""
    base = alias.base if isinstance(alias.base, TensorRef) else _number(refs[alias.base])
    return alias.placed(base, lambda number: _number(refs[number]))


def tensor_positions(all_leaves: Sequence[Any]) -> tuple[int, ...]:
    """The positions of the tensors among the leaves of a call."""
    return tuple(i for i, leaf in enumerate(all_leaves) if isinstance(leaf, ArrayWrapper))


def make_effects(function: CapturedFunction, params: Sequence[Value], roots: Sequence[Any], reached: Container[int],
                 trace: Trace, names: Set[str] | None = None, varying: bool = True) -> Effects:
    """The effects of a trace. `params` are its parameters after the arguments and the captured arrays. With `varying`, numbers of
    optimisers may change from call to call. `names` are those that the code mentions, None for all.

    `reached` holds the identities of the captured objects. A captured tensor that is also an argument must remain that argument.
    """
    numbers = [*(function.capture.numbers if varying else ()), *((*number.slot.place, None) for number in function.numbers)]
    free = {slot.place for slot in function.slots}
    return Effects(function, params, StateGuard(roots, numbers, free, trace.unread, names), reached, trace.out_leaves)
