"""Checkpoints that `torch.save` wrote, read without PyTorch and without running code of theirs.

Such a file is a zip archive: `data.pkl` is a pickle in which the memory of a tensor is a persistent id, `data/0`, `data/1`, ... are these
memories, and `byteorder` says how they are laid out. Source: PyTorch's notes on serialization semantics. The pickle may name no more than
the functions and types below, which PyTorch allows with `weights_only=True`.
"""

from __future__ import annotations

import io
import pickle
import zipfile
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from adjit.eager.device import device
from adjit.eager.tensor import Tensor, tensor
from adjit.ir.errors import AdjitError, StateError
from adjit.ir.types import bfloat16
from adjit.nn.parameter import Parameter
from adjit.tracer.user_location import find_user_location

_STORAGES = {"DoubleStorage": "float64", "FloatStorage": "float32", "HalfStorage": "float16", "BFloat16Storage": "bfloat16",
             "LongStorage": "int64", "IntStorage": "int32", "ShortStorage": "int16", "CharStorage": "int8", "ByteStorage": "uint8",
             "BoolStorage": "bool", "ComplexFloatStorage": "complex64", "ComplexDoubleStorage": "complex128", "UntypedStorage": "uint8"}
_DTYPES = (*dict.fromkeys(_STORAGES.values()), "uint16", "uint32", "uint64")


class _Allowed:
    """Function or type that a pickle may call. Each reader makes its own: a pickle can set attributes of what it names."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[..., Any]) -> None:
        self._make = make

    def __call__(self, *args: Any) -> Any:
        return self._make(*args)


def read_checkpoint(content: bytes, name: str) -> Any:
    """Return the object in a file, its tensors in memory of their own, parameters as such, sizes as tuples.

    Raises `StateError` for a file that is damaged, or holds objects that are no weights; `DTypeError` for bfloat16 without the package
    ml_dtypes.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return _Reader(archive).load()
    except AdjitError:
        raise
    except (zipfile.BadZipFile, pickle.UnpicklingError, LookupError, ValueError, TypeError, AttributeError, EOFError, ArithmeticError,
            MemoryError, RuntimeError) as error:
        raise StateError(f"{name} is damaged, or no checkpoint of PyTorch's: {error}", find_user_location()) from error


class _Reader(pickle.Unpickler):
    """Unpickler of `data.pkl`."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._members = set(archive.namelist())
        self._root = next(member for member in archive.namelist() if member.endswith("/data.pkl")).removesuffix("data.pkl")
        order = self._member("byteorder") if f"{self._root}byteorder" in self._members else b"little"
        self._order: Literal[">", "<"] = ">" if order == b"big" else "<"
        self._storages: dict[str, bytes] = {}
        self._globals: dict[tuple[str, str], Any] = {
            ("collections", "OrderedDict"): OrderedDict, ("collections", "Counter"): Counter,
            ("torch", "Size"): tuple, ("torch", "device"): _device,
            ("torch._utils", "_rebuild_tensor_v2"): self._tensor, ("torch._utils", "_rebuild_tensor_v3"): self._untyped_tensor,
            ("torch._utils", "_rebuild_parameter"): _parameter, ("_codecs", "encode"): _encoded}
        for module in ("builtins", "__builtin__"):
            self._globals |= {(module, kind.__name__): kind for kind in (set, frozenset, complex, bytearray)}
        super().__init__(io.BytesIO(self._member("data.pkl")), encoding="utf-8")

    def _member(self, name: str) -> bytes:
        info = self._archive.getinfo(self._root + name)
        if info.compress_type != zipfile.ZIP_STORED:        # as PyTorch writes them: a member is not larger than the file
            raise ValueError(f"{name} is compressed")
        return self._archive.read(info)

    def find_class(self, module: str, name: str) -> Any:
        """Return what the pickle names, if it is among the allowed."""
        if (module, name) in self._globals:
            return _Allowed(self._globals[module, name])
        if (module == "torch" and name in _STORAGES) or (module == "torch.storage" and name == "UntypedStorage"):
            return _STORAGES[name]
        if module == "torch" and name in _DTYPES:
            return _dtype(name)     # NumPy's own, which do not change: np.dtype ignores a state for them
        raise StateError(f"the checkpoint holds objects of {module}.{name}, which are no weights", find_user_location(),
                         hint="save the state_dict() of modules and optimizers: torch.save(model.state_dict(), path)")

    def persistent_load(self, pid: Any) -> tuple[str, bytes]:
        """Return the dtype's name and the bytes of a storage."""
        kind, dtype, key, _, count = pid
        if kind != "storage" or dtype not in _STORAGES.values():
            raise ValueError(f"unknown persistent id {kind!r}")
        if key not in self._storages:
            self._storages[key] = self._member(f"data/{key}")
        if len(self._storages[key]) < count * _dtype(dtype).itemsize:
            raise ValueError(f"data/{key} is truncated")
        return dtype, self._storages[key]

    def _tensor(self, storage: tuple[str, bytes], offset: int, size: tuple[int, ...], stride: tuple[int, ...], requires_grad: bool,
                hooks: Any, metadata: Any = None) -> Tensor:
        return self._untyped_tensor(storage, offset, size, stride, requires_grad, hooks, _dtype(storage[0]), metadata)

    def _untyped_tensor(self, storage: tuple[str, bytes], offset: int, size: tuple[int, ...], stride: tuple[int, ...],
                        requires_grad: bool, hooks: Any, dtype: np.dtype, metadata: Any = None) -> Tensor:
        if metadata:
            raise ValueError(f"a tensor has the flags {metadata!r}")
        dtype = _dtype(dtype.name)
        stored = dtype if dtype.kind == "V" else dtype.newbyteorder(self._order)
        steps = tuple(step * dtype.itemsize for step in stride)
        array: np.ndarray = np.ndarray(size, stored, storage[1] or b"\0", offset * dtype.itemsize, steps) if 0 not in size else (
            np.empty(size, stored))
        return tensor(array.astype(dtype), requires_grad=bool(requires_grad))


def _dtype(name: str) -> np.dtype:
    return bfloat16() if name == "bfloat16" else np.dtype(name)


def _device(kind: str, index: int | None = None) -> device:
    return device(kind, index)


def _parameter(data: Tensor, requires_grad: bool, hooks: Any) -> Parameter:
    return Parameter(data, requires_grad=bool(requires_grad))


def _encoded(text: str, encoding: str) -> bytes:
    """Return bytes, which pickles of protocol 2 write as a text of latin1."""
    if encoding != "latin1":
        raise ValueError(f"a text is encoded as {encoding!r}")
    return text.encode("latin1")
