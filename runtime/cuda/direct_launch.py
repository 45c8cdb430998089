"""Calls of programs on a card without Python: what the fast path knows of the card, of a program's graph and of its instances.

`codegen/fastcall/device.py` reads these descriptors. A program has one if a call is one launch of a graph: it decides nothing on the CPU,
checks no index (each call has a status of its own for that), and copies no result.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from ctypes import c_int64, c_void_p
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from adjit.codegen.cuda.nodes import Node, launches_of
from adjit.codegen.fastcall import object_layout as layout
from adjit.codegen.fastcall.descriptor_layout import (
    CARD,
    CARD_ARRAY,
    HOST_PARAM,
    INSTANCE,
    INSTANCE_NODE,
    LAUNCH,
    LAUNCH_NODE,
    RELOCATION,
    RESULT,
    ResultStorage,
)
from adjit.codegen.fastcall.descriptor_layout import Node as NodeKind
from adjit.codegen.native.artifact import Parameter, Result
from adjit.ir.graph import WRITABLE_ROLES
from adjit.ir.types import SHORT_NAMES, TensorType
from adjit.runtime.cuda.device_array import Buffer, DeviceArray
from adjit.runtime.cuda.driver import Driver
from adjit.runtime.cuda.graph import MAX_INSTANCES, Addresses, Instance
from adjit.runtime.fastcall.descriptors import Memory, UnsuitedError, descriptor_words
from adjit.tracer.tracebacks import hide_frames

if TYPE_CHECKING:
    from adjit.runtime.cuda.device_executable import DeviceExecutable

MAX_COPIED_BYTES = 1 << 20
"""Most bytes of arrays of NumPy's that a direct call copies to the card: it holds the GIL meanwhile, some 50 us for these."""

_FUNCTIONS = {"set_context": "cuCtxSetCurrent", "launch": "cuGraphLaunch", "set_parameters": "cuGraphExecKernelNodeSetParams",
              "copy_in": "cuMemcpyHtoDAsync_v2", "allocate": "cuMemAllocAsync", "free": "cuMemFreeAsync",
              "kind_of": "cuPointerGetAttribute", "synchronize": "cuStreamSynchronize"}
_SLOTS = {**{name: vars(DeviceArray)[name if name in vars(DeviceArray) else f"_{name}"] for name in CARD_ARRAY},
          **{name: vars(Buffer)[name] for name in ("driver", "address", "owner")}}


class Card:
    """What the fast path knows of a card. It stays until the process ends: arrays may free their memory at any time."""

    def __init__(self, driver: Driver):
        self._memory = Memory()
        functions = {name: ctypes.cast(driver.function(function), c_void_p).value or 0 for name, function in _FUNCTIONS.items()}
        slots = {name: layout.slot_offset(slot) for name, slot in _SLOTS.items()}
        self._words = (c_int64 * len(CARD))(*descriptor_words(CARD, {
            "alive": 1, **functions, "context": driver.context, "stream": driver.stream or 0, "object": self._memory.identity(driver),
            "array_type": id(DeviceArray), "buffer_type": id(Buffer), **slots}))
        self.address = ctypes.addressof(self._words)
        self._names: list[str] = []
        os.register_at_fork(after_in_child=partial(self._put, "alive", 0))

    def number_of(self, name: str) -> int:
        """A number for the name of a program."""
        self._names.append(name)
        return len(self._names)

    def begin(self, number: int) -> None:
        """Note that a program is launched, by the number of its name."""
        self._put("launched", number)

    @property
    def launched(self) -> str:
        """The name of the program that was launched last."""
        number = self._words[CARD["launched"] // 8]
        return self._names[number - 1] if number else ""

    @property
    def used(self) -> int:
        """Bytes of results that the fast path made, and that are in use."""
        return self._words[CARD["used"] // 8]

    def _put(self, field: str, value: int) -> None:
        self._words[CARD[field] // 8] = value


class DirectLaunch:
    """The graph of a program for the fast path, with instances and working memory of its own: what is launched later runs later, so that
    all calls work in the same memory."""

    def __init__(self, executable: DeviceExecutable, driver: Driver, hosts: Sequence[Parameter | None], results: int):
        """`hosts`: the parameters whose content is in the memory of the CPU, None for others."""
        (self._nodes,) = [step for step in executable.program.steps if isinstance(step, tuple)]
        self._driver, self._memory, self._executable = driver, Memory(), executable
        self._params, self._results = len(hosts), results
        self._arena, self._instances = executable.take_memory(), list[tuple[Instance, object]]()
        sizes = [0 if param is None else TensorType(SHORT_NAMES[param.dtype], param.shape).nbytes for param in hosts]
        self._places = [Buffer(driver, size) if param is not None else None for param, size in zip(hosts, sizes, strict=True)]
        words = [word for number, (param, size, place) in enumerate(zip(hosts, sizes, self._places, strict=True))
                 if param is not None and place is not None and size for word in descriptor_words(HOST_PARAM, {
                     "param": number, "bytes": size, "address": place.address,
                     "known": 0 if param.shape else self._memory.words([0, 0])})]
        launches = list(launches_of(self._nodes))
        nodes = [word for node in launches for word in self._relocations(node)]
        self._table = (c_int64 * MAX_INSTANCES)()
        self._words = (c_int64 * len(LAUNCH))(*descriptor_words(LAUNCH, {
            "card": driver.card.address, "name": driver.card.number_of(executable.program.assignment.graph.name),
            "bind": self._memory.identity(self._bind), "instances": ctypes.addressof(self._table), "most": MAX_INSTANCES,
            "nodes": self._memory.words(nodes), "nodes_count": len(launches),
            "hosts": self._memory.words(words), "hosts_count": len(words) // len(HOST_PARAM)}))
        self.address = ctypes.addressof(self._words)

    def _relocations(self, node: Node) -> list[int]:
        words = [word for number, slot in enumerate(node.places) if slot.space in ("param", "result") for word in descriptor_words(
            RELOCATION, {"place": slot.offset + (self._params if slot.space == "result" else 0), "offset": slot.start, "word": number})]
        return descriptor_words(LAUNCH_NODE, {"relocations": self._memory.words(words),
                                              "relocations_count": len(words) // len(RELOCATION)})

    def _bind(self, key: int, nbytes: int) -> None:
        """Make an instance for a list of addresses, those of the parameters and those of the results."""
        addresses = (c_int64 * (nbytes // 8)).from_address(key)[:]
        made = Instance(self._nodes, Addresses(addresses[:self._params], addresses[self._params:], *self._executable.parts_of(self._arena)),
                        self._driver)
        memory = Memory()
        nodes = [word for handle, parameters, words in made.parts() for word in descriptor_words(
            INSTANCE_NODE, {"handle": handle, "parameters": parameters, "words": words})]
        record = memory.words(descriptor_words(INSTANCE, {
            "executable": made.executable.value or 0, "key": memory.words(addresses), "nodes": memory.words(nodes)}))
        self._instances.append((made, memory))
        count = len(self._instances)
        if count > MAX_INSTANCES:       # other threads made theirs meanwhile
            self._instances.pop()
            return
        for place in range(count - 1, 0, -1):
            self._table[place] = self._table[place - 1]
        self._table[0] = record
        self._words[LAUNCH["instances_count"] // 8] = count

    def __del__(self) -> None:
        for instance, _ in self._instances:
            instance.destroy()


def device_node(memory: Memory, executable: DeviceExecutable, param: Parameter, number: int) -> int:
    """The node of an array on a card."""
    return memory.node(NodeKind.DEVICE, index=number, descr=memory.identity(SHORT_NAMES[param.dtype]),
                       shape=memory.identity(tuple(param.shape)), items=_driver(executable).card.address)


def launch_fields(memory: Memory, executable: DeviceExecutable, on_card: Sequence[bool], params: Sequence[Parameter],
                  results: Sequence[Result]) -> dict[str, int]:
    """The fields for the code and the results of a program; `on_card` says which of its parameters are arrays on the card. Raises
    `UnsuitedError` if some that it writes to are not, or if much has to be copied."""
    driver = _driver(executable)
    hosts = [None if there else param for there, param in zip(on_card, params, strict=True)]
    given = [param for param in hosts if param is not None]
    if any(param.role in WRITABLE_ROLES for param in given) or sum(
            TensorType(SHORT_NAMES[param.dtype], param.shape).nbytes for param in given) > MAX_COPIED_BYTES:
        raise UnsuitedError
    words: list[int] = []
    for result in results:
        kind = TensorType(SHORT_NAMES[result.dtype], tuple(result.shape))
        storage = ResultStorage.DEVICE_DONATED if result.param >= 0 else ResultStorage.DEVICE
        like = DeviceArray(Buffer.__new__(Buffer), kind)
        words += descriptor_words(RESULT, {
            "storage": storage, "descr": memory.identity(like), "shape": driver.card.address, "bytes": kind.nbytes,
            "param": max(result.param, 0)})
    launch = DirectLaunch(executable, driver, hosts, len(results))
    memory.identity(launch)
    return {"results": memory.words(words), "result_count": len(results), "launch": launch.address,
            "fail": memory.identity(partial(_raise_failure, driver))}


def _driver(executable: DeviceExecutable) -> Driver:
    assert isinstance(executable.driver, Driver)
    return executable.driver


def _raise_failure(driver: Driver, status: int, *_: int) -> NoReturn:
    try:
        driver.check("cuGraphLaunch", status)
        raise AssertionError
    except BaseException as error:
        hide_frames(error)
        raise
