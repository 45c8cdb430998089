"""Conversions of tensors: to other dtypes, numbers, lists, NumPy arrays and functions, copies; and queries."""

from __future__ import annotations

import copy
import functools
import inspect
import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from adjit.eager import signatures
from adjit.eager.apply import apply
from adjit.eager.capture import current_capture, traced
from adjit.eager.device import CPU, device, device_of, names_device
from adjit.eager.functional import elementwise, order_statistics, shapes
from adjit.eager.gradient_overrides import detached_value
from adjit.eager.lost_gradients import check_number
from adjit.eager.modes import switches
from adjit.eager.node_names import raw
from adjit.eager.tensor import Tensor, new_tensor, note_wrapper, own_tensor, tensor
from adjit.eager.transfer import moved
from adjit.ir.errors import ArgumentError, DTypeError, NonDifferentiableError, ShapeError, UnsupportedError
from adjit.ir.types import bfloat16, is_complex, is_float
from adjit.tracer.array import TracedArray, known_for_text, wrap
from adjit.tracer.array_checks import check_array, is_ndarray
from adjit.tracer.array_errors import write_refused
from adjit.tracer.array_wrapper import DeviceLeaf
from adjit.tracer.flow.lifted_numbers import read_number
from adjit.tracer.flow.printed_texts import mark_of_text, number_for_percent
from adjit.tracer.foreign_arrays import is_on_card
from adjit.tracer.functions import creation
from adjit.tracer.functions.searching import count_of_bins
from adjit.tracer.lowering import contiguous_strides
from adjit.tracer.methods import array_namespace
from adjit.tracer.promotion import dtype_argument
from adjit.tracer.registry import find
from adjit.tracer.row_count import RowCount, note_read
from adjit.tracer.scope import is_tracing
from adjit.tracer.tracebacks import hide_frames
from adjit.tracer.user_location import find_user_location, is_within_store

_DTYPES = {"float": np.float32, "double": np.float64, "short": np.int16, "int": np.int32, "long": np.int64, "bool": np.bool_,
           "half": np.float16}
_MORE_DTYPES = {"byte": np.uint8, "char": np.int8, "cfloat": np.complex64, "cdouble": np.complex128}


def install() -> None:
    """Install the methods of this file on `Tensor`."""
    members: dict[str, Callable[..., Any]] = {
        "to": _to, "astype": _astype, "type": _type, "cuda": _cuda, "type_as": _type_as, "cpu": _cpu,
        "contiguous": _contiguous, "copy": _copy,
        "nonzero": _nonzero, "argwhere": _argwhere, "nonzero_static": _nonzero_static, "unique": _unique, "bincount": _bincount,
        "unique_consecutive": _unique_consecutive,
        "get_device": _get_device, "to_dense": _self,
        "is_inference": _is_false, "is_pinned": _is_false, "is_shared": _is_false, "pin_memory": _self,
        "resolve_conj": _self, "resolve_neg": _self, "adjoint": _adjoint, "is_conj": _is_false, "is_neg": _is_false,
        "is_distributed": _is_false, "is_signed": _is_signed, "is_same_size": _is_same_size, "is_nonzero": _is_nonzero, "new": _new(0),
        "item": _item, "tolist": _tolist, "numpy": _numpy, "__array__": _array, "__dlpack__": _dlpack, "__dlpack_device__": _dlpack_device,
        "__bool__": _bool, "__float__": _float, "__complex__": _complex,
        "_python_number": _python_number, "__int__": _int, "__index__": _index, "__len__": _len,
        "__iter__": _iter,
        "__format__": _format, "__array_ufunc__": TracedArray.__array_ufunc__, "__array_function__": _array_function,
        "__array_namespace__": array_namespace, "to_device": _to_device,
        "dim": _dim, "ndimension": _dim, "size": _size, "numel": _numel, "nelement": _numel, "element_size": _element_size,
        "is_contiguous": _is_contiguous,
        "stride": _stride, "data_ptr": _data_ptr, "is_floating_point": _is_floating_point, "is_complex": _is_complex,
        "new_tensor": _new_tensor, "new_zeros": _new(0),
        "new_ones": _new(1), "new_empty": _new(0), "new_full": _new_full, "__deepcopy__": _deepcopy, "__reduce__": _reduce,
    }
    members |= {name: _to_dtype(np.dtype(dtype)) for name, dtype in _DTYPES.items()} | {"bfloat16": _bfloat16}
    members |= {name: _to_dtype(np.dtype(dtype)) for name, dtype in _MORE_DTYPES.items()}
    for name, member in members.items():
        setattr(Tensor, name, member if member.__name__ == name else signatures.named(member, name))
    for name, part in {"real": _real, "imag": _imag}.items():
        setattr(Tensor, name, property(part, functools.partial(_set_part, name)))
    for name, getter in {**dict.fromkeys(_NEVER, _is_false), "layout": _layout, "output_nr": _output_number,
                         "T": _reversed, "mT": _matrix_transposed, "H": _matrix, "mH": _adjoint,
                         "device": _device, "is_cuda": _is_cuda, "is_cpu": _is_cpu,
                         "nbytes": _nbytes, "itemsize": _element_size}.items():
        setattr(Tensor, name, property(getter))


_NEVER = ("is_ipu", "is_maia", "is_meta", "is_mkldnn", "is_mps", "is_mtia", "is_nested", "is_quantized", "is_sparse", "is_sparse_csr",
          "is_vulkan", "is_xla", "is_xpu")
"""What no tensor is: of a device or a layout that there is not."""


# -- other dtypes, other memory


def _converted(self: Tensor, dtype: Any, copy: bool = False) -> Tensor:
    wanted = dtype_argument(dtype)
    if wanted == self.dtype:
        return apply(elementwise.clone, (self,)) if copy else self      # type: ignore[no-any-return]
    return apply(elementwise.to_dtype, (self, wanted))      # type: ignore[no-any-return]


def _to_dtype(dtype: np.dtype) -> Callable[[Tensor], Tensor]:
    def method(self: Tensor) -> Tensor:
        return self if self.array.dtype == dtype else apply(elementwise.to_dtype, (self, dtype))

    method.__doc__ = f"The tensor as {dtype}; itself where it is already."
    return method


def _bfloat16(self: Tensor) -> Tensor:
    """The tensor as bfloat16; itself where it is already. Raises `DTypeError` without the package ml_dtypes."""
    return _converted(self, bfloat16())


def _to(self: Tensor, *args: Any, dtype: Any = None, device: Any = None, copy: bool = False, non_blocking: bool = False,
        memory_format: Any = None) -> Tensor:
    """Convert the tensor to another dtype, `to(np.float64)`, or to the dtype of another tensor, `to(other)`; itself if it has that dtype.

    `to("cuda")` copies it to the current card, `to("cuda:1")` to the second, `to("cpu")` back; itself if it is there. Raises
    `UnsupportedError` for other devices.
    """
    for arg in args:
        if isinstance(arg, Tensor):
            dtype, device = arg.dtype, arg.device
        elif isinstance(arg, bool):
            copy = copy or (arg and arg is args[-1] and len(args) > 2)
        elif names_device(arg):
            device = arg
        elif arg is not None:
            dtype = device_or_dtype(arg)
    there = self if device is None else moved(self, device)
    return _converted(there, self.dtype if dtype is None else dtype, copy and there is self)


def device_or_dtype(arg: Any) -> Any:
    """The dtype that an argument is; raises `ValueError`, which names the devices, for a text that is neither."""
    if isinstance(arg, str):
        try:
            return dtype_argument(arg)
        except DTypeError:
            raise
        except TypeError:
            device(arg)
    return arg


def _astype(self: Tensor, dtype: Any, copy: bool = True) -> Tensor:
    """Convert the tensor, as `ndarray.astype`."""
    return _converted(self, dtype, copy)


def _type(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """Convert the tensor to a dtype, or to that of a type by PyTorch's name, such as "torch.DoubleTensor"; without an argument return that
    name.

    >>> from adjit.eager.tensor import tensor
    >>> tensor([1.0]).type(), tensor([1.0]).type("torch.LongTensor")
    ('torch.FloatTensor', tensor([1]))
    """
    if dtype is None:
        return next((f"torch.{name.capitalize()}Tensor" for name, known in _TYPES.items() if known == self.dtype.name), str(self.dtype))
    dtype = getattr(dtype, "tensor_dtype", dtype)       # of `adjit.FloatTensor` and the like
    named = dtype.rpartition(".")[2].removesuffix("Tensor").lower() if isinstance(dtype, str) and dtype.endswith("Tensor") else None
    return _converted(self, dtype if named is None else _TYPES.get(named, dtype))


_TYPES = {**{name: np.dtype(dtype).name for name, dtype in _DTYPES.items()}, "byte": "uint8", "char": "int8", "bfloat16": "bfloat16"}
"""Dtypes by the names of PyTorch's types of tensors."""


def _cuda(self: Tensor, device: Any = None, non_blocking: bool = False) -> Tensor:
    """Return the tensor on a card, the current one if none is named: itself if it is there. Raises `UnsupportedError` if there is none."""
    return moved(self, "cuda" if device is None else device)


def _type_as(self: Tensor, other: Any) -> Tensor:
    """Convert the tensor to the dtype of `other`, on its device."""
    return _to(self, other) if isinstance(other, Tensor) else _converted(self, other.dtype)


def _cpu(self: Tensor) -> Tensor:
    """Return the tensor in the memory of the CPU: itself if it is there."""
    return moved(self, "cpu")


def _is_contiguous(self: Tensor, memory_format: Any = None) -> bool:
    """True if the elements are in row-major order in memory without gaps."""
    array = self.array
    if not isinstance(array, (TracedArray, DeviceLeaf)):
        return array.flags.c_contiguous        # type: ignore[no-any-return]
    pairs = zip(array.shape, array.steps, contiguous_strides(array.shape), strict=True)
    return 0 in array.shape or all(size == 1 or stride == packed for size, stride, packed in pairs)


def _stride(self: Tensor, dim: int | None = None) -> Any:
    """Distance of neighbours, in elements, along each dimension, or along one."""
    array = self.array
    strides = array.steps if isinstance(array, (TracedArray, DeviceLeaf)) else tuple(step // array.itemsize for step in array.strides)
    return tuple(strides) if dim is None else strides[dim]


def _data_ptr(self: Tensor) -> int:
    """Address of the first element."""
    return self.array.address if isinstance(self.array, DeviceLeaf) else _ndarray(self, force=True).ctypes.data


def _contiguous(self: Tensor, memory_format: Any = None) -> Tensor:
    """Return the tensor itself if its elements are in row-major order, else a copy."""
    return self if _is_contiguous(self) else apply(elementwise.clone, (self,))


def _copy(self: Tensor) -> Tensor:
    """Copy the tensor; the copy is connected to the graph. NumPy's name of `clone`."""
    return apply(elementwise.clone, (self,))        # type: ignore[no-any-return]


# -- numbers, lists, arrays


def _content(self: Tensor) -> Any:
    """Content of the tensor; within a trace the traced array, whose values cannot be read."""
    return traced(self) if is_tracing() else self.array


def _element(self: Tensor) -> Any:
    """The content of a tensor of one element."""
    array = _content(self)
    if array.size != 1:
        raise ShapeError(f"item() of a tensor of shape {self.shape}: only one element can be a Python number (a Tensor with "
                         f"{array.size} elements cannot be converted to Scalar)", find_user_location(),
                         hint="index the element, reduce the tensor, or use tolist()")
    return array


def _item(self: Tensor) -> bool | int | float:
    """Return the only element, as a Python number. Raises `ShapeError` if there is not exactly one."""
    array = _element(self)
    return read_number(array) if is_tracing() else array.item()       # type: ignore[no-any-return]


def _tolist(self: Tensor) -> Any:
    """Return the elements as nested lists of Python numbers."""
    return _content(self).tolist() if self.shape else _item(self)


def _nonzero(self: Tensor, as_tuple: bool = False) -> Any:
    """Return the indices of the elements that are not 0: one row for each, or with `as_tuple` one tensor for each dimension."""
    indices = np.nonzero(np.atleast_1d(_found_by_host(self)))
    found = tuple(map(new_tensor, indices)) if as_tuple else (new_tensor(np.stack(indices, axis=-1)[:, :self.ndim]),)
    found = tuple(moved(each, device_of(self.array)) for each in found)
    return found if as_tuple else found[0]


def _argwhere(self: Tensor) -> Tensor:
    """Return the indices of the elements that are not 0, one row for each."""
    return _nonzero(self)       # type: ignore[no-any-return]


def _nonzero_static(self: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """Return the indices of the first `size` elements that are not 0, one row for each; rows without one hold `fill_value`."""
    found = np.argwhere(_found_by_host(self))[:size]
    missing = np.full((size - found.shape[0], found.shape[1]), fill_value, np.int64)
    return moved(new_tensor(np.concatenate([found, missing])), device_of(self.array))


def _unique(self: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None) -> Any:
    """Return the different elements in ascending order, or the different slices of a dimension; each NaN is different.

    With `return_inverse` also the index of each element among them, with `return_counts` how often each is there.
    """
    content = _found_by_host(self.detach())
    _, first, inverse, counts = np.unique(content, True, True, True, axis=dim, equal_nan=False)
    values = _chosen(self, first, dim)
    shape = self.shape if dim is None else (self.shape[dim],)
    return _with_counts(values, np.reshape(inverse, shape), counts, return_inverse, return_counts)


def _found_by_host(self: Tensor) -> Any:
    """Content of a tensor whose values decide on the size of a result; of one on a device a copy, as the processor has to know the size."""
    content = _content(self)
    return content.copied() if isinstance(content, DeviceLeaf) else content


def _chosen(self: Tensor, index: Any, dim: int | None) -> Tensor:
    """Elements of the flattened tensor at these indices, or slices of a dimension."""
    if dim is None:
        return apply(shapes.get_item, (apply(shapes.reshape, (self, (-1,))), index))        # type: ignore[no-any-return]
    return apply(shapes.get_item, (self, (*(slice(None),) * (dim % self.ndim), index)))     # type: ignore[no-any-return]


def _unique_consecutive(self: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None) -> Any:
    """Return the elements that differ from the one before, or such slices of a dimension; arguments as of `unique`."""
    content = _found_by_host(self.detach())
    rows = np.reshape(content, (-1,)) if dim is None else np.moveaxis(content, dim, 0)
    differs = rows[1:] != rows[:-1]
    if differs.ndim > 1:
        differs = np.any(np.reshape(differs, (differs.shape[0], -1)), axis=1)
    starts = np.concatenate([np.ones(min(len(rows), 1), bool), differs])
    first = np.nonzero(starts)[0]
    values = _chosen(self, first, dim)
    inverse = np.reshape(np.cumsum(starts) - 1, self.shape if dim is None else (self.shape[dim],))
    counts = np.diff(np.concatenate([first, np.full(1, len(rows), np.int64)]))
    return _with_counts(values, inverse, counts, return_inverse, return_counts)


def _bincount(self: Tensor, weights: Any = None, minlength: int = 0) -> Tensor:
    """Number of times, or the sum of weights, of each integer of a vector, up to the largest one. Raises `ShapeError` for other shapes,
    `ArgumentError` for negative elements, `DTypeError` for those that are no integers."""
    if self.ndim != 1:
        raise ShapeError(f"bincount takes a vector, got the shape {self.shape}", find_user_location())
    if self.dtype.kind not in "iu":
        raise DTypeError(f"bincount counts integers, got {self.dtype}", find_user_location(), hint="convert them, x.long()")
    content, length = _found_by_host(self), operator.index(minlength)
    if length < 0:
        raise ArgumentError(f"bincount: minlength is not negative, got {length}", find_user_location())
    if self.numel():        # type: ignore[attr-defined]
        if not is_tracing() and content.min() < 0:
            raise ArgumentError("bincount of negative elements (bincount only supports 1-d non-negative integral inputs)",
                                find_user_location())
        length = count_of_bins(content, length) if is_tracing() else max(length, int(content.max()) + 1)
    return apply(order_statistics.bincount, (self, weights, length))       # type: ignore[no-any-return]


def _with_counts(values: Tensor, inverse: Any, counts: Any, return_inverse: bool, return_counts: bool) -> Any:
    found = (values, *(moved(new_tensor(each), device_of(values.array)) for each, is_wanted in (
        (inverse, return_inverse), (counts, return_counts)) if is_wanted))
    return found if len(found) > 1 else values


def _numpy(self: Tensor, *, force: bool = False) -> np.ndarray:
    """Return the array itself: the tensor sees writes to it. In compiled functions it is a traced array, which functions of NumPy take.
    Raises `NonDifferentiableError` for a tensor that requires grad.

    With `force`, tensors that require grad are accepted too, and the content of one on a card is copied.
    """
    _check_numpy(self, force)
    content = _content(self)
    return content if isinstance(content, TracedArray) else _ndarray(self, force=force)      # type: ignore[return-value]


def _check_numpy(self: Tensor, force: bool) -> None:
    if self.requires_grad and not force:
        raise NonDifferentiableError("a tensor that requires grad is converted to an ndarray, which would lose the gradient (Can't call "
                                     "numpy() on Tensor that requires grad)", find_user_location(), hint="use x.detach().numpy()")


class NotOnCpuError(UnsupportedError, TypeError):
    """What programs catch where PyTorch raises `TypeError`: an ndarray is asked of a tensor on a device."""


def _ndarray(self: Tensor, *, force: bool = False) -> np.ndarray:
    """The array itself. Raises `TraceError` in compiled functions: code in C reads its memory."""
    _check_numpy(self, force)
    content = _content(self)
    if isinstance(content, DeviceLeaf):
        if force:
            return content.copied()
        raise NotOnCpuError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.",
                            find_user_location(), hint="x.cpu().numpy()")
    return content if is_ndarray(content) else np.asarray(content)


def _array(self: Tensor, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
    array = _ndarray(self)
    if dtype is not None and np.dtype(dtype) != array.dtype:
        if copy is False:
            raise ValueError(f"Unable to avoid copy while creating an array of {np.dtype(dtype)} from one of {array.dtype}.")
        return array.astype(dtype)
    return array.copy() if copy else array


def _dlpack(self: Tensor, *, stream: Any = None, max_version: tuple[int, int] | None = None, dl_device: tuple[int, int] | None = None,
            copy: bool | None = None) -> Any:
    if isinstance(self.array, DeviceLeaf):
        _check_numpy(self, False)
        return self.array.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)      # type: ignore[attr-defined]
    return _ndarray(self).__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)


def _dlpack_device(self: Tensor) -> tuple[int, int]:
    if isinstance(self.array, DeviceLeaf):
        return self.array.__dlpack_device__()       # type: ignore[attr-defined, no-any-return]
    return _ndarray(self, force=True).__dlpack_device__()


def _to_device(self: Tensor, device: Any, /, *, stream: Any = None) -> Tensor:
    """Return the tensor on a device, by the name of the array standard. Raises `UnsupportedError` for others than "cpu" and "cuda"."""
    if stream is not None:
        raise ArgumentError("there is one stream", find_user_location(), hint="leave stream= out")
    return moved(self, device)


def _bool(self: Tensor) -> bool:
    if self.array.size != 1:
        raise ShapeError(f"the truth value of a tensor of shape {self.shape} is ambiguous (Boolean value of Tensor with "
                         f"{'more than one value' if self.array.size else 'no values'} is ambiguous)", find_user_location(),
                         hint="use any() or all(), or x.numel() > 0 to test for elements")
    return bool(_content(self))


def _check_store() -> None:
    """Refuse to store a tensor of a trace in an ordinary array: NumPy asks for its number, which would have no gradient."""
    if is_tracing() and is_within_store():
        raise write_refused(find_user_location())


def _float(self: Tensor) -> float:
    _check_store()
    if is_tracing() and (shown := number_for_percent(self)) is not None:
        return float(shown)
    number = float(_element(self).item())
    check_number(self, "float()")
    return number


def _complex(self: Tensor) -> complex:
    _check_store()
    number = complex(_element(self).item())
    check_number(self, "complex()")
    return number


def _python_number(self: Tensor, kind: type) -> Any:
    _check_store()
    number = read_number(_element(self))
    check_number(self, f"{kind.__name__}()", 3)      # the class that stands for `kind` is in between
    return number


def _int(self: Tensor) -> int:
    _check_store()
    if is_tracing() and (shown := number_for_percent(self)) is not None:
        return shown
    number = int(_element(self).item())
    check_number(self, "int()")
    return number


def _index(self: Tensor) -> int:
    if self.dtype.kind not in "iu" or self.array.size != 1:
        raise DTypeError(f"only integer tensors of one element can be an index, got {self.dtype}{list(self.shape)}", find_user_location())
    return operator.index(_content(self).item())


def _len(self: Tensor) -> int:
    if not self.shape:
        raise TypeError("len() of a 0-d tensor")
    if type(self.shape[0]) is RowCount:
        note_read("len()")
    return self.shape[0]


def _iter(self: Tensor) -> Iterator[Tensor]:
    if not self.shape:
        raise TypeError("iteration over a 0-d tensor")
    return iter(apply(shapes.unbind, (self,)))


def _format(self: Tensor, form: str) -> str:
    if is_tracing() and not (form and self.shape) and (mark := mark_of_text(self, form)):
        return mark
    if self.shape:
        return object.__format__(self, form)
    if is_tracing() and not form:
        known = known_for_text(_content(self))
        return object.__format__(self, "") if known is None else str(known.item())
    return format(_item(self), form)


_WRITERS = (np.save, np.savez, np.savez_compressed, np.savetxt)
"""Functions that write files: outside of traces the content of tensors is an array to them."""


def _array_function(self: Tensor, function: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    try:
        if function in _WRITERS and not is_tracing():
            return function(*map(_as_array, args), **{name: _as_array(value) for name, value in kwargs.items()})
        return find(function)(*args, **kwargs)
    except BaseException as error:
        hide_frames(error)
        raise


def _as_array(value: Any) -> Any:
    return _ndarray(value) if isinstance(value, Tensor) else value


def from_dlpack(array: Any) -> Tensor:
    """Make a tensor on the memory of an array of another library, through DLPack: no copy, and both see writes.

    Raises `DTypeError` for a dtype that is not supported.

    >>> array = np.zeros(2)
    >>> from_dlpack(array).add_(1.0)
    tensor([1., 1.], dtype=float64)
    >>> array
    array([1., 1.])
    """
    if isinstance(array, Tensor) and isinstance(array.array, DeviceLeaf):
        return new_tensor(array.array)
    if isinstance(array, DeviceLeaf) or is_on_card(array):
        switches.devices = True
        return new_tensor(array if isinstance(array, DeviceLeaf) else DeviceLeaf.borrowed(array, lambda: "from_dlpack(array): the array"))
    made = np.from_dlpack(array)
    check_array(made, "from_dlpack()", find_user_location())
    return new_tensor(made)


# -- queries


def _dim(self: Tensor) -> int:
    """Number of dimensions."""
    return self.ndim


def _size(self: Tensor, dim: int | None = None) -> Any:
    """Shape, or the size of one dimension."""
    return self.shape if dim is None else self.shape[dim]


def _numel(self: Tensor) -> int:
    """Number of elements."""
    return self.array.size        # type: ignore[no-any-return]


def _element_size(self: Tensor) -> int:
    """Bytes of one element."""
    return self.dtype.itemsize


def _nbytes(self: Tensor) -> int:
    """Bytes of all elements."""
    return _numel(self) * self.dtype.itemsize


def _is_floating_point(self: Tensor) -> bool:
    """True if the dtype is float32 or float64."""
    return is_float(self.dtype)


def _is_cuda(self: Tensor) -> bool:
    """True if the tensor is on a card."""
    return device_of(self.array) is not CPU


def _is_cpu(self: Tensor) -> bool:
    """True if the tensor is in the memory of the CPU."""
    return device_of(self.array) is CPU


def _device(self: Tensor) -> device:
    """Device whose memory holds the elements: `device("cpu")`, or `device("cuda:0")`. Within a compiled function that of its program."""
    return device_of(self.array)


def _layout(self: Tensor) -> str:
    """Layout of the elements: always "strided", as `aj.strided`."""
    return "strided"


def _is_false(self: Tensor) -> bool:
    """False: tensors hold their elements themselves, in one process."""
    return False


def _is_signed(self: Tensor) -> bool:
    """True if the dtype has negative numbers."""
    return self.dtype.kind not in "bu"


def _is_same_size(self: Tensor, other: Tensor) -> bool:
    """True if the shapes are the same."""
    return self.shape == other.shape


def _is_nonzero(self: Tensor) -> bool:
    """True if the only element is not 0. Raises `ShapeError` if there is not exactly one."""
    return bool(_item(self) != 0)


def _get_device(self: Tensor) -> int:
    """Number of the card that the tensor is on; -1 for the CPU."""
    number = device_of(self.array).index
    return -1 if number is None else number


def _output_number(self: Tensor) -> int:
    """Number among the results of the operation that made the tensor; 0 for leaves."""
    return self._index


def _self(self: Tensor) -> Tensor:
    """Return the tensor itself."""
    return self


# -- transposed


def _adjoint(self: Tensor) -> Tensor:
    """Conjugate of the tensor with its last two dimensions swapped; of reals a view."""
    turned = _matrix_transposed(self)
    return apply(raw(np.conjugate), (turned,)) if is_complex(self.dtype) else turned        # type: ignore[no-any-return]


def _reversed(self: Tensor) -> Tensor:
    """View with the dimensions in reverse order."""
    return apply(shapes.permute, (self, tuple(range(self.ndim))[::-1]))     # type: ignore[no-any-return]


def _matrix_transposed(self: Tensor) -> Tensor:
    """View with the last two dimensions swapped; of a tensor without dimensions itself."""
    if not self.ndim:
        return self
    if self.ndim < 2:
        raise ShapeError(f"mT takes a tensor of at least two dimensions, got the shape {self.shape}", find_user_location())
    return apply(shapes.transpose, (self, -2, -1))      # type: ignore[no-any-return]


def _matrix(self: Tensor) -> Tensor:
    """Conjugate transpose of a matrix."""
    if self.ndim not in (0, 2):
        raise ShapeError(f"H takes a matrix, got the shape {self.shape}", find_user_location(), hint="mT transposes stacks of matrices")
    turned = apply(shapes.transpose, (self, 0, 1)) if self.ndim else self
    return apply(raw(np.conjugate), (turned,)) if is_complex(self.dtype) else turned        # type: ignore[no-any-return]


def _real(self: Tensor) -> Tensor:
    """View of the real parts; of a tensor of reals, the tensor itself."""
    return apply(raw(np.real), (self,)) if is_complex(self.dtype) else self        # type: ignore[no-any-return]


def _imag(self: Tensor) -> Tensor:
    """View of the imaginary parts. Raises `DTypeError` for a tensor of reals."""
    if not is_complex(self.dtype):
        raise DTypeError(f"imag of a tensor of {self.dtype}, which has no imaginary parts", find_user_location())
    return apply(raw(np.imag), (self,))     # type: ignore[no-any-return]


def _set_part(name: str, self: Tensor, new: Any) -> None:
    getattr(self, name)[...] = new


def _is_complex(self: Tensor) -> bool:
    """True if the dtype is complex64 or complex128."""
    return is_complex(self.dtype)


# -- new tensors of the same dtype


_full = inspect.unwrap(creation.full)


def _made(self: Tensor, size: Any, value: Any, dtype: Any, requires_grad: bool) -> Tensor:
    made: Tensor = apply(_full, (tuple(map(operator.index, size)), value, dtype_argument(self.dtype if dtype is None else dtype)))
    made = moved(made, self.device)         # type: ignore[attr-defined]
    made.requires_grad = requires_grad      # type: ignore[attr-defined]
    return made


def _new(number: int) -> Callable[..., Tensor]:
    def method(self: Tensor, *sizes: Any, size: Any = None, dtype: Any = None, requires_grad: bool = False) -> Tensor:
        sizes = sizes if size is None else (size,)
        several = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes
        return _made(self, several, number, dtype, requires_grad)

    method.__doc__ = f"A tensor of {'ones' if number else 'zeros'} of this size, in the dtype of this one."
    return method


def _new_full(self: Tensor, size: Any, fill_value: Any, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """Make a tensor of this size filled with one number, in the dtype of this one."""
    return _made(self, size, fill_value, dtype, requires_grad)


def _new_tensor(self: Tensor, data: Any, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """Make a tensor with a copy of `data`, in the dtype of this one."""
    return tensor(data, self.dtype if dtype is None else dtype, requires_grad, self.device)     # type: ignore[attr-defined]


# -- copies of tensors as objects


def _leaf_only(self: Tensor, what: str) -> None:
    capture = current_capture()
    entry = None if capture is None else capture.entries.get(id(self))      # in a trace an argument is a leaf whatever it was before
    if self._node is not None or (entry is not None and entry.before.get("_node") is not None):
        raise NonDifferentiableError(f"{what} of a tensor that was computed: its graph cannot be copied", find_user_location(),
                                     hint="use x.detach() first, or x.clone(), which is connected to the graph")


def _deepcopy(self: Tensor, memo: dict[int, Any]) -> Tensor:
    """Make a leaf with a copy of the content, of the gradient, and of attributes that the user set; tensors on one memory have copies on
    one memory."""
    _leaf_only(self, "a deep copy")
    content = wrap(detached_value(traced(self).value), scalar=False) if is_tracing() else self.array
    content = content.copy() if isinstance(content, DeviceLeaf) else content
    made = _rebuilt(type(self), content, self.requires_grad, *copy.deepcopy((self.grad, _own_attributes(self)), memo))
    if is_ndarray(content):
        made.array = _copied(content, memo)
        made._writes = memo.setdefault(id(self._writes), made._writes)
    memo[id(self)] = made
    return made


def _copied(array: np.ndarray, memo: dict[int, Any]) -> np.ndarray:
    """A copy of an array, in the copy of the memory that it is a part of."""
    base = array
    while is_ndarray(base.base):
        base = base.base
    if not base.flags.forc or 0 in array.strides:
        return np.array(array)
    if id(base) not in memo:
        memo[id(base)] = base.copy(order="K")
    offset = array.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    return np.ndarray(array.shape, array.dtype, memo[id(base)], offset, array.strides)


def _own_attributes(self: Tensor) -> dict[str, Any]:
    return {name: value for name, value in vars(self).items() if not name.startswith("_") and name != "array"}


def _reduce(self: Tensor) -> tuple[Callable[..., Tensor], tuple[Any, ...]]:
    _leaf_only(self, "a pickle")
    content = self.array.copied() if isinstance(self.array, DeviceLeaf) else _ndarray(self, force=True)
    return _rebuilt, (type(self), content, self._requires_grad, self._grad, _own_attributes(self))


def _rebuilt(kind: type[Tensor], content: Any, requires_grad: bool, gradient: Tensor | None, own: dict[str, Any]) -> Tensor:
    made = kind.__new__(kind)
    vars(made).update(vars(own_tensor(np.array(content)) if is_ndarray(content) else new_tensor(content)))
    made._requires_grad, made._grad = requires_grad, gradient
    vars(made).update(own)
    if isinstance(made.array, TracedArray):
        note_wrapper(made)
    return made


install()
