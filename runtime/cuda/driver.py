"""NVIDIA's driver through `ctypes`: what programs need of it, and nothing else. `runtime/cuda/emulated_driver.py` has the same methods.

A driver is made when the first program for a device is compiled; importing adjit touches none. All work is on one stream, memory too:
what is freed there is given out again to launches that come later, so nothing waits for that, and results get the same addresses mostly.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from ctypes import POINTER, byref, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from functools import cached_property, partial
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from adjit.codegen.cuda.control_kernels import starting_kernel
from adjit.codegen.cuda.kernel import Kernel, Launch, Pointer
from adjit.codegen.cuda.nodes import CHECKS, Conditional, GraphNode, Node
from adjit.codegen.cuda.program import DeviceProgram
from adjit.codegen.cuda.target import SM_80, SM_90
from adjit.eager.device import place_of
from adjit.ir.errors import AdjitError, UnsupportedError
from adjit.ir.graph import Op, Slot
from adjit.ir.lazy_module import LazyModule
from adjit.runtime.cuda import graph
from adjit.runtime.cuda.code import obtain_ptx
from adjit.runtime.cuda.graph import Addresses, Arguments, Instance, LaunchGraph
from adjit.runtime.reports.memory_blocks import format_bytes
from adjit.tracer.user_location import find_user_location

if TYPE_CHECKING:
    from adjit.runtime.cuda import direct_launch
else:
    direct_launch = LazyModule("adjit.runtime.cuda.direct_launch")

LIBRARY = "libcuda.so.1"
_Handle, _Address = c_void_p, c_uint64

_SIGNATURES: dict[str, tuple[object, ...]] = {
    "cuInit": (c_uint,), "cuDeviceGetCount": (POINTER(c_int),), "cuDeviceGet": (POINTER(c_int), c_int),
    "cuDeviceGetName": (c_char_p, c_int, c_int), "cuDeviceGetAttribute": (POINTER(c_int), c_int, c_int),
    "cuDevicePrimaryCtxRetain": (POINTER(_Handle), c_int), "cuCtxSetCurrent": (_Handle,),
    "cuModuleLoadDataEx": (POINTER(_Handle), c_void_p, c_uint, c_void_p, c_void_p),
    "cuModuleGetFunction": (POINTER(_Handle), _Handle, c_char_p),
    "cuDeviceGetDefaultMemPool": (POINTER(_Handle), c_int), "cuMemPoolSetAttribute": (_Handle, c_int, c_void_p),
    "cuMemAllocAsync": (POINTER(_Address), c_size_t, _Handle), "cuMemFreeAsync": (_Address, _Handle),
    "cuMemcpyHtoDAsync_v2": (_Address, c_void_p, c_size_t, _Handle), "cuMemcpyDtoHAsync_v2": (c_void_p, _Address, c_size_t, _Handle),
    "cuPointerGetAttribute": (c_void_p, c_int, c_uint64),
    "cuMemcpyPeerAsync": (_Address, _Handle, _Address, _Handle, c_size_t, _Handle),
    "cuMemcpyDtoDAsync_v2": (_Address, _Address, c_size_t, _Handle),
    "cuStreamCreate": (POINTER(_Handle), c_uint), "cuStreamSynchronize": (_Handle,),
    "cuLaunchKernel": (_Handle, *[c_uint] * 7, _Handle, c_void_p, c_void_p),
    "cuMemGetInfo_v2": (POINTER(c_size_t), POINTER(c_size_t)),
    "cuMemPoolGetAttribute": (_Handle, c_int, c_void_p), "cuMemPoolTrimTo": (_Handle, c_size_t),
    "cuFuncGetAttribute": (POINTER(c_int), c_int, _Handle),
    "cuEventCreate": (POINTER(_Handle), c_uint), "cuEventRecord": (_Handle, _Handle), "cuEventDestroy_v2": (_Handle,),
    "cuEventElapsedTime": (POINTER(c_float), _Handle, _Handle), "cuStreamWaitEvent": (_Handle, _Handle, c_uint),
    "cuDriverGetVersion": (POINTER(c_int),), "cuGetErrorString": (c_int, POINTER(c_char_p)),
    **graph.SIGNATURES,
}
_MAJOR, _MINOR, _PROCESSORS = 75, 76, 16     # attributes: compute capability, multiprocessors
_ERROR_LOG, _ERROR_LOG_BYTES = 5, 6     # options of a module
_RELEASE_THRESHOLD = 4              # attribute of a pool: bytes that it keeps when the device is idle
_MEMORY_TYPE, _HOST = 2, 1          # attribute of a pointer, and its value for memory that the device reads by itself
_RESERVED = 5                       # attribute of a pool: bytes that it has of the system
_LOCAL_BYTES, _REGISTERS = 3, 4     # attributes of a function
_NO_TIMING = 2                      # of an event that orders streams alone
_OUT_OF_MEMORY = 2
_CONDITIONAL_NODES = 12040          # version of the first driver whose graphs have loops
_OF_KERNELS = frozenset({700, 702, 710, 714, 715, 716, 717, 718, 719})
"""Errors of a kernel, which any later call reports: an address that is none, an assertion, a time-out, and the like."""
_WITHOUT_CARD = "choose the device by aj.cuda.is_available(); ADJIT_CUDA=emulated tests without a card"


class CudaError(AdjitError, RuntimeError):
    """An error that the driver reports."""


def _opened() -> tuple[Any, int]:
    """The driver's library, and the number of cards. Raises `OSError` if there is no library."""
    library = ctypes.CDLL(LIBRARY)
    _declare(library, _SIGNATURES)
    count = c_int()
    failed = library.cuInit(0) or library.cuDeviceGetCount(byref(count))
    return library, 0 if failed else count.value


def _has_conditional_nodes(library: Any) -> bool:
    """True if a driver says that it has conditional nodes; its functions for them are made ready."""
    version = c_int()
    if library.cuDriverGetVersion(byref(version)) or version.value < _CONDITIONAL_NODES or not all(
            hasattr(library, name) for name in graph.CONDITIONAL_SIGNATURES):
        return False
    _declare(library, graph.CONDITIONAL_SIGNATURES)
    return True


def _declare(library: Any, signatures: Mapping[str, tuple[object, ...]]) -> None:
    for name, types in signatures.items():
        function = getattr(library, name)
        function.argtypes, function.restype = types, c_int


def card_count() -> int:
    """The number of cards; 0 without a driver."""
    try:
        return _opened()[1]
    except OSError:
        return 0


class Driver:
    """A card, by its number, with a stream of its own."""

    def __init__(self, number: int = 0) -> None:
        try:
            self._library, count = _opened()
        except OSError as error:
            raise UnsupportedError(f"there is no driver for NVIDIA GPUs here: {error}", find_user_location(), hint=_WITHOUT_CARD) from None
        if number >= count:
            raise UnsupportedError(f"the driver for NVIDIA GPUs finds no card{f' with the number {number}' if count else ''}",
                                   find_user_location(), hint=_WITHOUT_CARD)
        device, context, stream = c_int(), _Handle(), _Handle()
        self.call("cuDeviceGet", byref(device), number)
        self.call("cuDevicePrimaryCtxRetain", byref(context), device)
        self.number, self.place = number, place_of(number)
        self._context, self._process, self.name = context, os.getpid(), "the card"
        self._enter()
        self.call("cuStreamCreate", byref(stream), 1)      # does not wait for the default stream
        self._stream = stream
        words = ctypes.create_string_buffer(100)
        self.call("cuDeviceGetName", words, 100, device)
        self.name = words.value.decode()
        major = self._attribute(_MAJOR, device.value)
        if major < 8:
            raise UnsupportedError(f"{self.name} has compute capability {major}.{self._attribute(_MINOR, device.value)}; 8.0 is needed",
                                   find_user_location(), hint="omit device= to compile for the CPU")
        self.target, version = SM_90 if major >= 9 else SM_80, c_int()
        self.call("cuDriverGetVersion", byref(version))
        self._about = (f"compute capability {major}.{self._attribute(_MINOR, device.value)}, {self._attribute(_PROCESSORS, device.value)} "
                       f"multiprocessors, driver of CUDA {version.value // 1000}.{version.value % 1000 // 10}, code for {self.target.name}")
        self.held: dict[int, int] = {}      # bytes of arrays and working memory, by address
        self.functions: dict[str, c_void_p] = {}        # kernels, by name
        self._launching = threading.Lock()
        self._numbers: dict[str, int] = {}      # of names of programs, for errors that arrive late
        self._pool = _Handle()
        self.call("cuDeviceGetDefaultMemPool", byref(self._pool), device)
        self.call("cuMemPoolSetAttribute", self._pool, _RELEASE_THRESHOLD, byref(c_uint64(2**64 - 1)))

    def _attribute(self, number: int, device: int) -> int:
        value = c_int()
        self.call("cuDeviceGetAttribute", byref(value), number, device)
        return value.value

    def _enter(self) -> None:
        """Make the context current in the calling thread. Raises `UnsupportedError` in a process that was forked since the driver was made:
        the card does not know it."""
        if os.getpid() != self._process:
            raise UnsupportedError(f"{self.name} was used before this process was forked, and cannot be used in it", find_user_location(),
                                   hint="start processes with multiprocessing.set_start_method(\"spawn\")")
        self.call("cuCtxSetCurrent", self._context)

    def function(self, name: str) -> Any:
        """A function of the driver, as `ctypes` calls it."""
        return getattr(self._library, name)

    @property
    def context(self) -> int:
        """The handle of the card's context."""
        return self._context.value or 0

    @cached_property
    def card(self) -> direct_launch.Card:
        """What the fast path knows of the card."""
        return direct_launch.Card(self)

    def call(self, name: str, *arguments: object) -> None:
        """Call a function of the driver. Raises `CudaError`, or `MemoryError`, with what it reports."""
        self.check(name, getattr(self._library, name)(*arguments))

    def check(self, name: str, status: int) -> None:
        """Raise the error of a function of the driver, by the status that it returned; none for 0."""
        if status == _OUT_OF_MEMORY:
            free, total, used, _ = map(format_bytes, self.memory())
            raise MemoryError(f"{self.name} is out of memory: {free} of {total} are free, arrays and programs of this process take {used}")
        if status:
            text = c_char_p()
            self._library.cuGetErrorString(status, byref(text))
            problem = f"{name}: {(text.value or b'').decode()} ({status})"
            if status in _OF_KERNELS:
                raise CudaError(f"{problem}, in a kernel that was launched before; the last program launched is {self.card.launched}",
                                hint="ADJIT_CUDA_SYNC=1 waits for each kernel, and names its line; this process has lost the card")
            raise CudaError(problem)

    @property
    def stream(self) -> int | None:
        """The handle of the stream on which all is launched."""
        return self._stream.value

    def prepare(self, program: DeviceProgram, ptx: Mapping[str, str] = MappingProxyType({})) -> None:
        """Have the driver compile the kernels of a program. `ptx` has that of some, by name."""
        self._enter()
        for kernel in program.kernels.values():
            if kernel.name not in self.functions:
                self._load(kernel, ptx.get(kernel.name) or obtain_ptx(kernel, self.target))

    def _load(self, kernel: Kernel, ptx: str) -> None:
        log = ctypes.create_string_buffer(1 << 14)
        options = (c_int * 2)(_ERROR_LOG, _ERROR_LOG_BYTES)
        values = (c_void_p * 2)(ctypes.addressof(log), len(log))
        module, function = _Handle(), _Handle()
        try:
            self.call("cuModuleLoadDataEx", byref(module), ptx.encode() + b"\0", 2, ctypes.addressof(options),
                       ctypes.addressof(values))
        except CudaError as error:
            raise CudaError(f"{error}: {log.value.decode(errors='replace')}") from None
        self.call("cuModuleGetFunction", byref(function), module, kernel.name.encode())
        self.functions[kernel.name] = function

    def allocate(self, nbytes: int) -> int:
        """The address of new memory; raises `MemoryError`."""
        self._enter()
        address = _Address()
        self.call("cuMemAllocAsync", byref(address), max(nbytes, 1), self._stream)
        return address.value

    def free(self, address: int) -> None:
        """Give memory back: launches before may still use it, launches to come may get it."""
        if os.getpid() != self._process:
            return
        self._library.cuCtxSetCurrent(self._context)
        self._library.cuMemFreeAsync(address, self._stream)

    def copy_in(self, address: int, array: np.ndarray) -> None:
        """Copy a contiguous array to the device, after what was launched before. The array may be changed at once."""
        self._enter()
        self.call("cuMemcpyHtoDAsync_v2", address, array.ctypes.data, array.nbytes, self._stream)
        kind = c_int()
        if not self._library.cuPointerGetAttribute(byref(kind), _MEMORY_TYPE, array.ctypes.data) and kind.value == _HOST:
            self.synchronize()              # the device reads the array itself; any other one was copied by the driver

    def copy_out(self, array: np.ndarray, address: int) -> None:
        """Copy from the device to a contiguous array, when all that was launched is done."""
        self._enter()
        self.call("cuMemcpyDtoHAsync_v2", array.ctypes.data, address, array.nbytes, self._stream)
        self.call("cuStreamSynchronize", self._stream)

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy on the device, after what was launched before."""
        self._enter()
        self.call("cuMemcpyDtoDAsync_v2", target, source, nbytes, self._stream)

    def copy_from(self, target: int, other: Driver, source: int, nbytes: int) -> None:
        """Copy from the memory of another card, after what was launched on both; what is launched there later waits for the copy."""
        other._order(other._stream, self, self._stream)
        self._enter()
        self.call("cuMemcpyPeerAsync", target, self._context, source, other._context, nbytes, self._stream)
        self._order(self._stream, other, other._stream)

    @cached_property
    def has_conditional_nodes(self) -> bool:
        """True if loops and branches stay on the card: the driver is new enough, and takes a graph with a branch in a loop."""
        if not _has_conditional_nodes(self._library):
            return False
        kernel = starting_kernel()
        launch, no_op = Launch(kernel, 1, (Pointer("check", 0, 8),), (0,)), cast(Op, None)
        outer, inner = (Node(launch, (Slot(CHECKS, 0),), (), no_op, (handle,)) for handle in range(2))
        self._enter()
        try:
            self._load(kernel, obtain_ptx(kernel, self.target))
            body = inner, Conditional(False, 1, (outer,), (0,))
            Instance([outer, Conditional(True, 0, body, (0,))], Addresses((), (), 0, 0, 0), self).destroy()
        except CudaError:
            return False
        return True

    def launcher(self, nodes: Sequence[GraphNode]) -> Callable[[Addresses], None]:
        """A function that launches the nodes of a prepared program, without waiting for them: one graph, or the only kernel."""
        return partial(self.run, [nodes[0]]) if len(nodes) == 1 and isinstance(nodes[0], Node) else partial(
            self._launch, LaunchGraph(nodes, self, self._stream))

    def _launch(self, graph: LaunchGraph, addresses: Addresses) -> None:
        self._enter()
        with self._launching:
            graph.launch(addresses)

    def run(self, nodes: Sequence[Node], addresses: Addresses) -> None:
        """Launch the nodes one by one, in order."""
        self._enter()
        for node in nodes:
            launch, arguments = node.launch, Arguments((*addresses.of(node.places), *node.launch.numbers))
            self.call("cuLaunchKernel", self.functions[launch.kernel.name], launch.grid, 1, 1, launch.kernel.threads, 1, 1, 0,
                       self._stream, arguments.address, None)

    def memory(self) -> tuple[int, int, int, int]:
        """Bytes of memory that are free, and all; bytes in arrays and programs of this process, and bytes that it has of the system."""
        self._enter()
        free, total, reserved = c_size_t(), c_size_t(), c_uint64()
        self._library.cuMemGetInfo_v2(byref(free), byref(total))
        self._library.cuMemPoolGetAttribute(self._pool, _RESERVED, byref(reserved))
        return free.value, total.value, sum(self.held.values()) + self.card.used, reserved.value

    def describe(self) -> str:
        """What reports say of the card."""
        free, total, _, _ = map(format_bytes, self.memory())
        loops = "loops and branches stay on the card" if self.has_conditional_nodes else "the processor launches each round of a loop"
        return f"{self._about}, {free} of {total} free; {loops}"

    def trim(self) -> None:
        """Give memory that is kept, and that nobody uses, back to the system."""
        self.synchronize()
        self.call("cuMemPoolTrimTo", self._pool, 0)

    def begin(self, program: str) -> None:
        """Note the name of the program whose launches follow."""
        if program not in self._numbers:
            self._numbers[program] = self.card.number_of(program)
        self.card.begin(self._numbers[program])

    def registers(self, kernel: str) -> tuple[int, int]:
        """Registers of a thread of a prepared kernel, and bytes that it spills."""
        found = c_int(), c_int()
        for number, value in zip((_REGISTERS, _LOCAL_BYTES), found, strict=True):
            self.call("cuFuncGetAttribute", byref(value), number, self.functions[kernel])
        return found[0].value, found[1].value

    def run_timed(self, nodes: Sequence[Node], addresses: Addresses) -> list[int]:
        """Launch the nodes one by one, wait for them, and return the time span of each on the card, in nanoseconds."""
        events = [_Handle() for _ in range(len(nodes) + 1)]
        self._enter()
        for event in events:
            self.call("cuEventCreate", byref(event), 0)
        self.call("cuEventRecord", events[0], self._stream)
        for node, event in zip(nodes, events[1:], strict=True):
            self.run([node], addresses)
            self.call("cuEventRecord", event, self._stream)
        self.synchronize()
        spans = []
        for before, after in pairwise(events):
            span = c_float()
            self.call("cuEventElapsedTime", byref(span), before, after)
            spans.append(int(span.value * 1e6))
        for event in events:
            self.call("cuEventDestroy_v2", event)
        return spans

    def wait_for(self, stream: int) -> None:
        """Have what is launched from now on wait for what was launched on another stream."""
        self._order(c_void_p(stream), self, self._stream)

    def let_wait(self, stream: int) -> None:
        """Have what is launched on another stream from now on wait for what was launched here."""
        self._order(self._stream, self, c_void_p(stream))

    def _order(self, first: c_void_p, other: Driver, then: c_void_p) -> None:
        """Have what is launched from now on on a stream of a card wait for what was launched on a stream of this one."""
        event = _Handle()
        self._enter()
        self.call("cuEventCreate", byref(event), _NO_TIMING)
        self.call("cuEventRecord", event, first)
        other._enter()
        self.call("cuStreamWaitEvent", then, event, 0)
        self._enter()
        self.call("cuEventDestroy_v2", event)

    def synchronize(self) -> None:
        """Wait until all that was launched is done."""
        self._enter()
        self.call("cuStreamSynchronize", self._stream)
