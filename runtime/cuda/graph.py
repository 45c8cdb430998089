"""CUDA graphs of launches: all that a program launches between two waits of the host is one launch of a graph.

The nodes have the dependencies of the program, so no stream is captured. An instantiated graph knows the addresses that it was made with. A
call with other addresses gets another instance, up to some; then the one that was not used for longest gets the new addresses, for launches
to come: those under way keep theirs.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from ctypes import POINTER, Structure, byref, c_size_t, c_uint, c_uint64, c_void_p
from typing import Protocol

from adjit.codegen.cuda.program import CHECKS, WORK, Node
from adjit.ir.graph import Slot

MAX_INSTANCES = 8
"""Instances of a graph: results get the same memory mostly, and some calls' results live while the next call runs."""


class KernelParameters(Structure):
    """`CUDA_KERNEL_NODE_PARAMS`, in the form that all drivers from CUDA 10 on take."""

    _fields_ = (("function", c_void_p), ("grid", c_uint * 3), ("block", c_uint * 3), ("shared_bytes", c_uint),
                ("parameters", c_void_p), ("extra", c_void_p))


SIGNATURES: dict[str, tuple[object, ...]] = {
    "cuGraphCreate": (POINTER(c_void_p), c_uint), "cuGraphDestroy": (c_void_p,),
    "cuGraphAddKernelNode": (POINTER(c_void_p), c_void_p, c_void_p, c_size_t, POINTER(KernelParameters)),
    "cuGraphInstantiateWithFlags": (POINTER(c_void_p), c_void_p, c_uint64), "cuGraphExecDestroy": (c_void_p,),
    "cuGraphExecKernelNodeSetParams": (c_void_p, c_void_p, POINTER(KernelParameters)), "cuGraphLaunch": (c_void_p, c_void_p),
}


class Addresses:
    """Addresses of the memory of a program or a region while it runs: its parameters, its results, its arena, the words of its checks, and
    working memory. All programs of a call share the last two: words are read before a loop or a branch begins."""

    def __init__(self, params: Sequence[int], results: Sequence[int], arena: int, checks: int, work: int):
        self._lists = {"param": params, "result": results}
        self._blocks = {"arena": arena, CHECKS: checks, WORK: work}
        self.key = (*params, *results, arena, checks)

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

    def call(self, name: str, *arguments: object) -> None:
        """Call a function of the driver, by name."""


class LaunchGraph:
    """Launches of a program as a graph on a stream."""

    def __init__(self, nodes: Sequence[Node], driver: GraphDriver, stream: c_void_p):
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

    def __init__(self, nodes: Sequence[Node], addresses: Addresses, driver: GraphDriver):
        self._nodes, self._call, self._handles = nodes, driver.call, list[c_void_p]()
        call, functions = driver.call, driver.functions
        self._parameters: list[tuple[KernelParameters, Arguments]] = []
        self._graph, self.executable = c_void_p(), c_void_p()
        call("cuGraphCreate", byref(self._graph), 0)
        for node, own in zip(nodes, self._words(addresses), strict=True):
            launch, arguments, handle = node.launch, Arguments(own), c_void_p()
            parameters = KernelParameters(functions[node.name], (c_uint * 3)(launch.grid, 1, 1),
                                          (c_uint * 3)(launch.kernel.threads, 1, 1), 0, arguments.address, None)
            before = (c_void_p * max(len(node.after), 1))(*(self._handles[number] for number in node.after))
            call("cuGraphAddKernelNode", byref(handle), self._graph, ctypes.addressof(before) if node.after else None, len(node.after),
                 byref(parameters))
            self._handles.append(handle)
            self._parameters.append((parameters, arguments))
        call("cuGraphInstantiateWithFlags", byref(self.executable), self._graph, 0)

    def _words(self, addresses: Addresses) -> list[tuple[int, ...]]:
        return [(*addresses.of(node.places), *node.launch.numbers) for node in self._nodes]

    def parts(self) -> Iterator[tuple[int, int, int]]:
        """The handle of each node, and the addresses of its structure of parameters and of the words that this points to."""
        for handle, (parameters, arguments) in zip(self._handles, self._parameters, strict=True):
            yield handle.value or 0, ctypes.addressof(parameters), ctypes.addressof(arguments.words)

    def update(self, addresses: Addresses) -> None:
        """Give launches to come other arguments."""
        for handle, (parameters, arguments), own in zip(self._handles, self._parameters, self._words(addresses), strict=True):
            if arguments.words[:] != list(own):
                arguments.words[:] = list(own)
                self._call("cuGraphExecKernelNodeSetParams", self.executable, handle, byref(parameters))

    def destroy(self) -> None:
        """Have the driver forget the graph, once what was launched is done."""
        with suppress(RuntimeError):        # the driver may have ended before
            self._call("cuGraphExecDestroy", self.executable)
            self._call("cuGraphDestroy", self._graph)
