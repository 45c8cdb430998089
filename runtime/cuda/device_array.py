"""`DeviceArray`: an array in the memory of a device. Compiled functions take and return it; nothing is computed with it elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from adjit.eager.device import DeviceRuntime
from adjit.ir.errors import InPlaceError, UnsupportedError
from adjit.ir.types import TensorType
from adjit.runtime.arena import check_size
from adjit.runtime.cuda.call_status import Doubts, settle
from adjit.runtime.cuda.devices import AnyDriver
from adjit.tracer.array_wrapper import DeviceLeaf
from adjit.tracer.lowering import contiguous_strides
from adjit.tracer.scope import active_scope, is_tracing
from adjit.tracer.user_location import find_user_location


class Buffer:
    """Memory of a device, freed with its last user by its `owner`: the fast path has owners of its own."""

    __slots__ = ("address", "driver", "owner")

    def __init__(self, driver: AnyDriver, nbytes: int):
        self.driver, self.address = driver, driver.allocate(nbytes)
        self.owner: Any = _Owner(driver, self.address)
        driver.held[self.address] = nbytes


class _Owner:
    __slots__ = ("_address", "_driver")

    def __init__(self, driver: AnyDriver, address: int):
        self._driver, self._address = driver, address

    def __del__(self) -> None:
        self._driver.held.pop(self._address, None)      # first: the next one may get the address
        self._driver.free(self._address)


class _Flags:
    """What programs ask of an array's layout."""

    c_contiguous = aligned = True
    writeable = False


@dataclass(slots=True)
class _View:
    """What an array is a view of: see `DeviceArray.follow`. `seen` is the base's count of writes when the two were the same last."""

    base: DeviceArray
    read: Callable[[], Any]
    write: Callable[[DeviceArray], None] | None
    seen: int


class DeviceArray(DeviceLeaf):
    """An array in the memory of a device: contiguous, of `shape` and `dtype`.

    Functions that are compiled with `device="cuda"` take and return it without a copy. `np.asarray(array)`, `float(array)` and
    `aj.device_get` wait for the elements and copy them; arithmetic belongs into a compiled function.
    """

    __slots__ = ("__weakref__", "_buffer", "_type", "_version", "_view", "doubts", "dtype", "shape", "view_steps")

    flags = _Flags()

    def __init__(self, buffer: Buffer, type: TensorType):
        self._buffer, self._type = buffer, type
        self.shape, self.dtype = type.shape, type.dtype
        self._version = 0                   # count of writes
        self._view: _View | None = None
        self.view_steps: tuple[int, ...] | None = None
        self.doubts: Doubts | None = None       # calls that may not have computed the elements

    @property
    def address(self) -> int:
        """Where the first element is, in the memory of the device."""
        self._follow_base()
        return self._buffer.address

    @property
    def steps(self) -> tuple[int, ...]:
        """Strides, in elements, that a tensor of this content has in PyTorch: those of the view that it stands for."""
        return contiguous_strides(self.shape) if self.view_steps is None else self.view_steps

    def follow(self, base: DeviceArray, read: Callable[[], Any], write: Callable[[DeviceArray], None] | None,
               steps: tuple[int, ...]) -> None:
        """Stand for a view of `base`, as a copy: `read` makes its content anew, before it is used, if the base was written to; `write`
        writes its content, the array, to the base. Without `write`, as of a view that repeats elements, it cannot be written to. `steps`
        are the strides of the view, in elements."""
        self._view = _View(base, read, write, base._version)
        self.view_steps = None if steps == contiguous_strides(self.shape) else steps

    def _follow_base(self) -> None:
        view = self._view
        if view is not None:
            view.base._follow_base()
            if view.base._version != view.seen:
                view.seen = view.base._version
                self._store(view.read())

    @property
    def is_view(self) -> bool:
        """True if the array follows another one."""
        return self._view is not None

    def assign(self, content: Any) -> None:
        """Overwrite the elements with those of another array of this shape and dtype, on the device or not; of a view those of its base,
        too. Raises `InPlaceError` for a view that repeats elements."""
        if not self.nbytes or content is self:
            return
        view = self._view
        while view is not None:         # before anything is written, to this array or to what it is a view of
            if view.write is None:
                raise InPlaceError(f"a view of shape {self.shape} on a device is written to in place, and may repeat elements, as after "
                                   "expand() or unfold()", find_user_location(), hint="write to a copy: x = x.clone()")
            view = view.base._view
        self._follow_base()
        self._store(content)
        self.written()

    def written(self) -> None:
        """Note that a program wrote to the elements."""
        self._version += 1
        view = self._view
        if view is not None and view.write is not None:
            view.write(self)
            view.seen = view.base._version

    def _store(self, content: Any) -> None:
        self._version += 1
        if isinstance(content, DeviceArray):
            _copy(self, content)
        else:
            self.driver.copy_in(self._buffer.address, np.ascontiguousarray(content, self.dtype))
            self.doubts = None

    def settle(self) -> None:
        """Wait for the calls that may not have computed the elements. Raises `IndexingError` if one of them met a bad index."""
        if self.doubts is not None:
            settle(self.doubts)
            self.doubts = None

    @property
    def driver(self) -> AnyDriver:
        return self._buffer.driver

    @property
    def device(self) -> str:        # type: ignore[override]
        """The name of the card: "cuda" for the first one, "cuda:1" for the second."""
        return self._buffer.driver.place

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._type.size

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._type.nbytes

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The array for CuPy, PyTorch and Numba, without a copy: they wait for the stream that it names. The emulated device has no memory
        of a card: `AttributeError`."""
        if self.driver.stream is None:
            raise AttributeError("arrays of the emulated device are not in the memory of a card")
        self.settle()
        return {"shape": self.shape, "typestr": self.dtype.str, "data": (self.address if self.size else 0, False), "strides": None,
                "version": 3, "stream": self.driver.stream}

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's number of NVIDIA GPUs, and that of the card. The emulated device has no memory of a card: `BufferError`."""
        if self.driver.stream is None:
            raise BufferError("arrays of the emulated device are not in the memory of a card")
        return 2, self.driver.number

    def __dlpack__(self, *, stream: int | None = None, max_version: tuple[int, int] | None = None,
                   dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> Any:
        """The array for other libraries, without a copy: `torch.from_dlpack(array)`. Their `stream` waits for what computes it."""
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError("the elements are in the memory of a card: np.asarray(array) copies them")
        self.settle()
        return DeviceRuntime.capsule(self.copy() if copy else self, stream, max_version is not None and max_version[0] >= 1)

    def copy(self) -> DeviceArray:
        """A copy on the device."""
        made = new(self.driver, self._type)
        self.driver.copy(made.address, self.address, self.nbytes)
        made.doubts = self.doubts
        return made

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> DeviceArray:
        return self.copy()

    def block_until_ready(self) -> DeviceArray:
        """Wait until the elements are computed; returns the array. Raises `IndexingError` if the call that does it met a bad index."""
        self.driver.synchronize()
        self.settle()
        return self

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """A copy of the elements."""
        if copy is False:
            raise ValueError("the elements are in the memory of a device: they have to be copied")
        if active_scope() is not None:      # the program would keep what is there now
            raise UnsupportedError("an array in the memory of a device is read in a traced function", find_user_location(),
                                   hint="pass it to the function as an argument")
        array = self.copied()
        return array if dtype is None else array.astype(dtype, copy=False)

    def copied(self) -> np.ndarray:
        """The elements, as an array of NumPy's."""
        array = np.empty(self.shape, self.dtype)
        if array.nbytes:
            self.driver.copy_out(array, self.address)
        self.settle()
        return array

    def item(self) -> Any:
        """The only element, as a number of Python."""
        return self.__array__().item()

    def tolist(self) -> Any:
        """The elements as nested lists."""
        return self.__array__().tolist()

    def __float__(self) -> float:
        return float(self.__array__())

    def __int__(self) -> int:
        return int(self.__array__())

    def __index__(self) -> int:
        return self.__array__().__index__()

    def __complex__(self) -> complex:
        return complex(self.__array__())

    def __bool__(self) -> bool:
        return bool(self.__array__())

    def __format__(self, format_spec: str) -> str:
        return super().__format__(format_spec) if self.shape else format(self.__array__()[()], format_spec)

    def __round__(self, ndigits: int | None = None) -> Any:
        if self.shape:
            raise _not_here("round")
        element: Any = self.__array__()[()]
        return round(element, ndigits)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(np.ndarray, name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        raise _not_here(name, MissingMethodError)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without dimensions")
        return self.shape[0]

    def __repr__(self) -> str:
        elements = np.array2string(self.__array__(), separator=", ", threshold=1000)
        return f"DeviceArray({elements}, dtype={self.dtype}, device={self.device!r})"

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        raise _not_here(f"np.{ufunc.__name__}")

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        raise _not_here(f"np.{function.__name__}")

    __hash__ = None     # type: ignore[assignment]


class MissingMethodError(UnsupportedError, AttributeError):
    """What `hasattr` and `getattr` with a default expect of a method of NumPy's arrays that is not here."""


def _not_here(what: str, kind: type[UnsupportedError] = UnsupportedError) -> UnsupportedError:
    if is_tracing():
        return kind(f"an array in the memory of a device is read in a traced function ({what})", find_user_location(),
                    hint="pass it to the function as an argument")
    return kind(f"{what} of an array on a device is computed in compiled functions alone", find_user_location(),
                hint="pass it to a function that is compiled with device='cuda', or copy the array with aj.device_get")


def _refusing(name: str) -> Any:
    def method(self: DeviceArray, *args: Any) -> Any:
        raise _not_here(name)

    method.__name__ = name
    return method


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift"):
    setattr(DeviceArray, f"__{_name}__", _refusing(f"__{_name}__"))
    setattr(DeviceArray, f"__r{_name}__", _refusing(f"__r{_name}__"))
for _name in ("neg", "pos", "abs", "invert", "lt", "le", "gt", "ge", "eq", "ne", "getitem", "setitem", "iter"):
    setattr(DeviceArray, f"__{_name}__", _refusing(f"__{_name}__"))


def _copy(target: DeviceArray, source: DeviceArray) -> None:
    """Copy elements from one array to another, on this card or on another one."""
    here, there = target.driver, source.driver
    target.doubts = source.doubts
    if here is there:
        here.copy(target._buffer.address, source.address, target.nbytes)
    else:
        here.copy_from(target._buffer.address, there, source.address, target.nbytes)     # type: ignore[arg-type]


def moved(driver: AnyDriver, array: DeviceArray) -> DeviceArray:
    """A copy of an array on a card."""
    made = new(driver, array._type)
    if array.nbytes:
        _copy(made, array)
    return made


def put(driver: AnyDriver, array: np.ndarray) -> DeviceArray:
    """A copy of a contiguous array in the memory of a device."""
    type = TensorType(array.dtype, array.shape)
    buffer = Buffer(driver, type.nbytes)
    if type.nbytes:
        driver.copy_in(buffer.address, array)
    return DeviceArray(buffer, type)


def new(driver: AnyDriver, type: TensorType) -> DeviceArray:
    """An array whose elements are still to be computed; raises `MemoryError`."""
    check_size(type)
    return DeviceArray(Buffer(driver, type.nbytes), type)
