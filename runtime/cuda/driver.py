"""NVIDIA's driver through `ctypes`: what programs need of it, and nothing else. `runtime/cuda/emulated_driver.py` has the same methods.

A driver is made when the first program for a device is compiled; importing adjit touches none.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p

import numpy as np

from adjit.codegen.cuda.kernel import Kernel
from adjit.codegen.cuda.program import DeviceProgram, Node
from adjit.codegen.cuda.ptx import ptx_of
from adjit.codegen.cuda.target import SM_80, SM_90
from adjit.ir.errors import UnsupportedError

LIBRARY = "libcuda.so.1"
_Handle, _Address = c_void_p, c_uint64

_SIGNATURES: dict[str, tuple[object, ...]] = {
    "cuInit": (c_uint,), "cuDeviceGetCount": (POINTER(c_int),), "cuDeviceGet": (POINTER(c_int), c_int),
    "cuDeviceGetName": (c_char_p, c_int, c_int), "cuDeviceGetAttribute": (POINTER(c_int), c_int, c_int),
    "cuDevicePrimaryCtxRetain": (POINTER(_Handle), c_int), "cuCtxSetCurrent": (_Handle,),
    "cuModuleLoadDataEx": (POINTER(_Handle), c_void_p, c_uint, c_void_p, c_void_p),
    "cuModuleGetFunction": (POINTER(_Handle), _Handle, c_char_p),
    "cuMemAlloc_v2": (POINTER(_Address), c_size_t), "cuMemFree_v2": (_Address,),
    "cuMemcpyHtoD_v2": (_Address, c_void_p, c_size_t), "cuMemcpyDtoH_v2": (c_void_p, _Address, c_size_t),
    "cuMemcpyDtoDAsync_v2": (_Address, _Address, c_size_t, _Handle),
    "cuStreamCreate": (POINTER(_Handle), c_uint), "cuStreamSynchronize": (_Handle,),
    "cuLaunchKernel": (_Handle, *[c_uint] * 7, _Handle, c_void_p, c_void_p),
    "cuGetErrorString": (c_int, POINTER(c_char_p)),
}
_MAJOR, _MINOR = 75, 76             # attributes: compute capability
_ERROR_LOG, _ERROR_LOG_BYTES = 5, 6     # options of a module
_OUT_OF_MEMORY = 2
_WITHOUT_CARD = "omit device= to compile for the CPU, or set ADJIT_CUDA=emulated to test without a card"


class CudaError(RuntimeError):
    """An error that the driver reports."""


class Driver:
    """The first card, with a stream of its own."""

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL(LIBRARY)
        except OSError as error:
            raise UnsupportedError(f"there is no driver for NVIDIA GPUs here: {error}", hint=_WITHOUT_CARD) from None
        for name, types in _SIGNATURES.items():
            function = getattr(self._library, name)
            function.argtypes, function.restype = types, c_int
        count, device, context, stream = c_int(), c_int(), _Handle(), _Handle()
        if self._library.cuInit(0) or self._library.cuDeviceGetCount(byref(count)) or not count.value:
            raise UnsupportedError("the driver for NVIDIA GPUs finds no card", hint=_WITHOUT_CARD)
        self._call("cuDeviceGet", byref(device), 0)
        self._call("cuDevicePrimaryCtxRetain", byref(context), device)
        self._context = context
        self._enter()
        self._call("cuStreamCreate", byref(stream), 1)      # does not wait for the default stream
        self._stream = stream
        words = ctypes.create_string_buffer(100)
        self._call("cuDeviceGetName", words, 100, device)
        self.name = words.value.decode()
        major = self._attribute(_MAJOR, device.value)
        if major < 8:
            raise UnsupportedError(f"{self.name} has compute capability {major}.{self._attribute(_MINOR, device.value)}; 8.0 is needed",
                                   hint="omit device= to compile for the CPU")
        self.target = SM_90 if major >= 9 else SM_80
        self._functions: dict[str, c_void_p] = {}

    def _attribute(self, number: int, device: int) -> int:
        value = c_int()
        self._call("cuDeviceGetAttribute", byref(value), number, device)
        return value.value

    def _enter(self) -> None:
        """Make the context current in the calling thread."""
        self._call("cuCtxSetCurrent", self._context)

    def _call(self, name: str, *arguments: object) -> None:
        status = getattr(self._library, name)(*arguments)
        if status == _OUT_OF_MEMORY:
            raise MemoryError(f"{self.name} is out of memory")
        if status:
            text = c_char_p()
            self._library.cuGetErrorString(status, byref(text))
            raise CudaError(f"{name}: {(text.value or b'').decode()} ({status})")

    @property
    def stream(self) -> int | None:
        """The handle of the stream on which all is launched."""
        return self._stream.value

    def prepare(self, program: DeviceProgram) -> None:
        """Have the driver compile the kernels of a program."""
        self._enter()
        for kernel in program.kernels.values():
            if kernel.name not in self._functions:
                self._load(kernel)

    def _load(self, kernel: Kernel) -> None:
        log = ctypes.create_string_buffer(1 << 14)
        options = (c_int * 2)(_ERROR_LOG, _ERROR_LOG_BYTES)
        values = (c_void_p * 2)(ctypes.addressof(log), len(log))
        module, function = _Handle(), _Handle()
        try:
            self._call("cuModuleLoadDataEx", byref(module), ptx_of(kernel, self.target).encode() + b"\0", 2, ctypes.addressof(options),
                       ctypes.addressof(values))
        except CudaError as error:
            raise CudaError(f"{error}: {log.value.decode(errors='replace')}") from None
        self._call("cuModuleGetFunction", byref(function), module, kernel.name.encode())
        self._functions[kernel.name] = function

    def allocate(self, nbytes: int) -> int:
        """The address of new memory; raises `MemoryError`."""
        self._enter()
        address = _Address()
        self._call("cuMemAlloc_v2", byref(address), max(nbytes, 1))
        return address.value

    def free(self, address: int) -> None:
        self._library.cuMemFree_v2(address)

    def copy_in(self, address: int, array: np.ndarray) -> None:
        """Copy a contiguous array to the device."""
        self._enter()
        self._call("cuMemcpyHtoD_v2", address, array.ctypes.data, array.nbytes)

    def copy_out(self, array: np.ndarray, address: int) -> None:
        """Copy from the device to a contiguous array, when all that was launched is done."""
        self.synchronize()
        self._call("cuMemcpyDtoH_v2", array.ctypes.data, address, array.nbytes)

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy on the device, after what was launched before."""
        self._enter()
        self._call("cuMemcpyDtoDAsync_v2", target, source, nbytes, self._stream)

    def run(self, nodes: Sequence[Node], addresses: Sequence[Sequence[int]]) -> None:
        """Launch the nodes, in order; `addresses` has those of each node's pointers."""
        self._enter()
        for node, places in zip(nodes, addresses, strict=True):
            launch = node.launch
            words = (c_uint64 * (len(places) + len(launch.numbers)))(*places, *launch.numbers)
            start = ctypes.addressof(words)
            pointers = (c_void_p * len(words))(*(start + 8 * i for i in range(len(words))))
            self._call("cuLaunchKernel", self._functions[launch.kernel.name], launch.grid, 1, 1, launch.kernel.threads, 1, 1, 0,
                       self._stream, ctypes.addressof(pointers), None)

    def synchronize(self) -> None:
        """Wait until all that was launched is done."""
        self._enter()
        self._call("cuStreamSynchronize", self._stream)
