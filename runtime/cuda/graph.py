"""CUDA graphs of launches: all that a program launches between two waits of the host is one launch of a graph.

The nodes have the dependencies of the program, so no stream is captured. Loops and branches are conditional nodes, with graphs of their own
as bodies. An instantiated graph knows the addresses that it was made with. A
call with other addresses gets another instance, up to some; then the one that was not used for longest gets the new addresses, for launches
to come: those under way keep theirs.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from ctypes import POINTER, Structure, byref, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Protocol

from adjit.codegen.cuda.nodes import CHECKS, STATUS, WORK, Conditional, GraphNode, Node, launches_of
from adjit.ir.graph import Slot

MAX_INSTANCES = 8
"""Instances of a graph: results get the same memory mostly, and some calls' results live while the next call runs."""


class KernelParameters(Structure):
    """`CUDA_KERNEL_NODE_PARAMS`, in the form that all drivers from CUDA 10 on take."""

    _fields_ = (("function", c_void_p), ("grid", c_uint * 3), ("block", c_uint * 3), ("shared_bytes", c_uint),
                ("parameters", c_void_p), ("extra", c_void_p))


class ConditionalParameters(Structure):
    """`CUgraphNodeParams` of a conditional node: a union of 29 words, of which these are used."""

    _fields_ = (("type", c_int), ("reserved", c_int * 3), ("handle", c_uint64), ("kind", c_int), ("size", c_uint),
                ("bodies", POINTER(c_void_p)), ("context", c_void_p), ("rest", c_uint64 * 26))


_CONDITIONAL, _IF, _WHILE, _ASSIGN_DEFAULT = 13, 0, 1, 1        # a type of node, its kinds, a flag of handles

CONDITIONAL_SIGNATURES: dict[str, tuple[object, ...]] = {
    "cuGraphConditionalHandleCreate": (POINTER(c_uint64), c_void_p, c_void_p, c_uint, c_uint),
    "cuGraphAddNode": (POINTER(c_void_p), c_void_p, c_void_p, c_size_t, POINTER(ConditionalParameters)),
}
"""Functions of drivers of CUDA 12.4 and later."""

SIGNATURES: dict[str, tuple[object, ...]] = {
    "cuGraphCreate": (POINTER(c_void_p), c_uint), "cuGraphDestroy": (c_void_p,),
    "cuGraphAddKernelNode": (POINTER(c_void_p), c_void_p, c_void_p, c_size_t, POINTER(KernelParameters)),
    "cuGraphInstantiateWithFlags": (POINTER(c_void_p), c_void_p, c_uint64), "cuGraphExecDestroy": (c_void_p,),
    "cuGraphExecKernelNodeSetParams": (c_void_p, c_void_p, POINTER(KernelParameters)), "cuGraphLaunch": (c_void_p, c_void_p),
}


class Addresses:
    """Addresses of the memory of a program or a region while it runs: its parameters, its results, its arena, the words of its checks,
    working memory, and the status of the call. All programs of a call share the last three: the host reads words before a loop or a branch
    begins."""

    def __init__(self, params: Sequence[int], results: Sequence[int], arena: int, checks: int, work: int, status: int = 0):
        self._lists = {"param": params, "result": results}
        self._blocks = {"arena": arena, CHECKS: checks, WORK: work, STATUS: status}
        self.key = (*params, *results, arena, checks, status)

    @property
    def checks(self) -> int:
        """Address of the words."""
        return self._blocks[CHECKS]

    def region(self, params: Sequence[int], results: Sequence[int], arena: int) -> Addresses:
        """Addresses for a region of the program."""
        return Addresses(params, results, arena, self._blocks[CHECKS], self._blocks[WORK])

    def of(self, places: Sequence[Slot]) -> list[int]:
        """The address of each place."""
        lists, blocks = self._lists, self._blocks
        return [lists[slot.space][slot.offset] + slot.start if slot.space in lists
                else blocks[slot.space] + (slot.offset if slot.space == "arena" else slot.start) for slot in places]


class Arguments:
    """The arguments of a launch as the driver reads them: pointers to words."""

    def __init__(self, words: Sequence[int]):
        self.words = (c_uint64 * len(words))(*words)
        start = ctypes.addressof(self.words)
        self._pointers = (c_void_p * len(words))(*(start + 8 * index for index in range(len(words))))
        self.address = ctypes.addressof(self._pointers)


class GraphDriver(Protocol):
    """What graphs need of a driver."""

    @property
    def functions(self) -> Mapping[str, c_void_p]:
        """The prepared kernels, by name."""

    @property
    def context(self) -> int:
        """The handle of the card's context."""

    def call(self, name: str, *arguments: object) -> None:
        """Call a function of the driver, by name."""


class LaunchGraph:
    """Launches of a program as a graph on a stream."""

    def __init__(self, nodes: Sequence[GraphNode], driver: GraphDriver, stream: c_void_p):
        self.nodes, self._driver, self._stream = nodes, driver, stream
        self._instances: dict[tuple[int, ...], Instance] = {}      # in the order of their last launches

    def launch(self, addresses: Addresses) -> None:
        """Launch all nodes, without waiting for them. Callers take turns."""
        instance = self._instances.pop(addresses.key, None)
        if instance is None:
            if len(self._instances) < MAX_INSTANCES:
                instance = Instance(self.nodes, addresses, self._driver)
            else:
                instance = self._instances.pop(next(iter(self._instances)))
                instance.update(addresses)
        self._instances[addresses.key] = instance
        self._driver.call("cuGraphLaunch", instance.executable, self._stream)

    def __del__(self) -> None:
        for instance in self._instances.values():
            instance.destroy()


class Instance:
    """A graph with the addresses of some calls."""

    def __init__(self, nodes: Sequence[GraphNode], addresses: Addresses, driver: GraphDriver):
        self._launches, self._driver, self._handles = list(launches_of(nodes)), driver, list[c_void_p]()
        self._parameters: list[tuple[KernelParameters, Arguments]] = []
        self._conditions: dict[int, int] = {}       # the driver's handles, by ours
        self._graph, self.executable = c_void_p(), c_void_p()
        driver.call("cuGraphCreate", byref(self._graph), 0)
        self._add(self._graph, nodes, addresses)
        driver.call("cuGraphInstantiateWithFlags", byref(self.executable), self._graph, 0)

    def _add(self, graph: c_void_p, nodes: Sequence[GraphNode], addresses: Addresses) -> None:
        """Add nodes to the graph, or to the body of a conditional node."""
        made: list[c_void_p] = []
        for node in nodes:
            if isinstance(node, Conditional):
                condition = c_uint64()
                self._driver.call("cuGraphConditionalHandleCreate", byref(condition), graph, self._driver.context, 0, _ASSIGN_DEFAULT)
                self._conditions[node.handle] = condition.value
        for node in nodes:
            before = (c_void_p * max(len(node.after), 1))(*(made[number] for number in node.after))
            arguments = ctypes.addressof(before) if node.after else None, len(node.after)
            made.append(c_void_p())
            if isinstance(node, Conditional):
                about = ConditionalParameters(type=_CONDITIONAL, handle=self._conditions[node.handle], kind=_WHILE if node.repeats else _IF,
                                              size=1, context=self._driver.context)
                self._driver.call("cuGraphAddNode", byref(made[-1]), graph, *arguments, byref(about))
                self._add(c_void_p(about.bodies[0]), node.body, addresses)
            else:
                words = Arguments(self._words(node, addresses))
                parameters = KernelParameters(self._driver.functions[node.name], (c_uint * 3)(node.launch.grid, 1, 1),
                                              (c_uint * 3)(node.launch.kernel.threads, 1, 1), 0, words.address, None)
                self._driver.call("cuGraphAddKernelNode", byref(made[-1]), graph, *arguments, byref(parameters))
                self._handles.append(made[-1])
                self._parameters.append((parameters, words))

    def _words(self, node: Node, addresses: Addresses) -> tuple[int, ...]:
        return *addresses.of(node.places), *node.launch.numbers, *(self._conditions[handle] for handle in node.handles)

    def parts(self) -> Iterator[tuple[int, int, int]]:
        """The handle of each launch, and the addresses of its structure of parameters and of the words that this points to."""
        for handle, (parameters, arguments) in zip(self._handles, self._parameters, strict=True):
            yield handle.value or 0, ctypes.addressof(parameters), ctypes.addressof(arguments.words)

    def update(self, addresses: Addresses) -> None:
        """Give launches to come other arguments."""
        for handle, (parameters, arguments), node in zip(self._handles, self._parameters, self._launches, strict=True):
            own = self._words(node, addresses)
            if arguments.words[:] != list(own):
                arguments.words[:] = list(own)
                self._driver.call("cuGraphExecKernelNodeSetParams", self.executable, handle, byref(parameters))

    def destroy(self) -> None:
        """Have the driver forget the graph, once what was launched is done."""
        with suppress(RuntimeError):        # the driver may have ended before
            self._driver.call("cuGraphExecDestroy", self.executable)
            self._driver.call("cuGraphDestroy", self._graph)
